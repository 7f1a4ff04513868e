//! Where a source is, as plain data.

use serde::{Deserialize, Serialize};

use super::Skipped;
use crate::error::{Error, Result};

/// Where the next rows of a source begin: what [`super::Source::position`] gives and [`super::open_source`] takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Position {
    /// Behind so many of the rows that follow from the table's options.
    Made(u64),
    /// Between two records of a text.
    Text(TextPosition),
}

/// A position in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPosition {
    /// The next record's file and line.
    pub place: Place,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// The last bytes before it, by which the file is known again.
    pub before: Vec<u8>,
    /// It is the rest of a line that is too long, and is to be passed over.
    pub passing: bool,
    /// What has been left out of all that is before.
    pub skipped: Skipped,
}

/// Where a record stands, and what has to be known to read it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file's name, as messages show it; empty before the first file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The names in the file's header, where it has one and that has been read.
    pub header: Vec<String>,
}

impl Place {
    /// The beginning of a file.
    pub fn beginning_of(file: &str) -> Self {
        Place { file: file.to_owned(), line: 1, header: Vec::new() }
    }
}

impl Position {
    /// How many rows are before it, for a table that makes its rows.
    pub(super) fn made(&self, table: &str) -> Result<u64> {
        match self {
            Position::Made(rows) => Ok(*rows),
            Position::Text(text) => Err(of_another(table, &format!("in the file {}", text.place.file))),
        }
    }

    /// Where in its text it is, for a table that reads one.
    pub(super) fn text(&self, table: &str) -> Result<&TextPosition> {
        match self {
            Position::Text(text) => Ok(text),
            Position::Made(rows) => Err(of_another(table, &format!("behind {rows} generated rows"))),
        }
    }
}

fn of_another(table: &str, place: &str) -> Error {
    Error::invalid(format!("table '{table}' cannot be read on {place}, where reading stopped: its connector was another one then"))
}

/// The error of a file that is not what it was when it was left at a byte.
pub(super) fn changed(table: &str, file: &str, byte: u64, why: &str) -> Error {
    Error::Io(format!(
        "table '{table}': {file} was left at byte {byte} and cannot be gone on with there: {why}; put it back as it was, or begin anew"
    ))
}
