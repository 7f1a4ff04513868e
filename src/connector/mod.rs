//! Where rows come from and where changes go: sources, sinks and the formats between.
//!
//! A [`Source`] is read on a thread of its own and hands over Arrow batches of a table's *declared physical* columns
//! (computed columns are the engine's). A [`Sink`] takes the changes of one step at a time, in the order in which
//! they are to be published. Neither knows what a dataflow is.
//!
//! Both are made from a [`TableSpec`], which checks every option: an unknown or misspelt one is an error that names
//! the options there are.
//!
//! # Positions
//!
//! A source can be left at any batch's end and read on later, by another process: opened at its [`Position`] it gives what
//! was still to come, as if it had not been left. Rows and what they do, messages with their lines, and what
//! [`Source::skipped`] has counted are the same; only how rows are cut into batches may differ. What that takes:
//!
//! - `datagen` and `nexmark` make the same rows from the same options, and begin with any of them at once. A rate counts
//!   from when the source is opened.
//! - A file must be there and hold what was read of it. The bytes just before the position tell that it is the same file;
//!   one that is not, or is shorter, is an error. Its rest is read as it is now, so what was appended meanwhile is read too,
//!   unless it continues a last line that was read as complete, which is an error.
//! - The files of a folder or a pattern are read in name order. Those that come before the position's file count as read,
//!   also if they are new or have grown; those that come after it are read.
//! - Standard input cannot be wound back. It goes on with whatever comes, as a text of its own with its own header and lines;
//!   only the count of what was skipped is kept.
//!
//! A file sink is the counterpart: opened at a length that [`Sink::commit`] gave, it drops what is behind and appends. So
//! positions and lengths that belong to one moment make of any number of crashes the file of a run without one.

mod datagen;
mod file;
mod file_sink;
mod format;
mod nexmark;
mod options;
mod pace;
mod position;
mod print;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use file::claim_stdin;
use options::Options;
pub use options::{CONNECTORS, Connector, FORMATS, Format, OptionInfo, reference};
use pace::BATCH;
pub use position::{Place, Position, TextPosition};

/// A table's connector side: what CREATE TABLE ... WITH (...) said.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// The table's name, for messages.
    pub name: String,
    /// Its physical columns, in order: without computed ones.
    pub schema: SchemaRef,
    /// Positions of the PRIMARY KEY's columns in `schema`; empty without one.
    pub primary_key: Vec<usize>,
    /// The WITH options, as written, in order.
    pub options: Vec<(String, String)>,
    /// The folder that relative paths start from.
    pub base: std::path::PathBuf,
}

impl TableSpec {
    /// Whether, as a source, it may take rows away: its format says of each row what it does.
    pub fn retracts(&self) -> bool {
        self.says("format", "debezium-json") || self.says("changelog", "true")
    }

    /// Whether, as a source, it leaves out what it cannot use, and counts it.
    pub fn skips_errors(&self) -> bool {
        self.says("on_error", "skip")
    }

    fn says(&self, name: &str, value: &str) -> bool {
        self.options.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value))
    }
}

/// Rows on their way in.
#[derive(Debug, Clone)]
pub struct SourceBatch {
    /// The rows, with the schema of the [`TableSpec`].
    pub rows: RecordBatch,
    /// What each row does; None where every row is an insert.
    pub ops: Option<Vec<Op>>,
    /// Input that could not be decoded, each with file, line and column. Empty under `'on_error' = 'skip'`: see
    /// [`Source::skipped`].
    pub errors: Vec<String>,
}

/// What a row on its way in does to its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// The row is there now; with a primary key it replaces the row of that key.
    Upsert,
    /// The row is there no longer; with a primary key, whichever row has that key.
    Delete,
}

/// What asking a source gives.
#[derive(Debug)]
pub enum Read {
    /// Some rows.
    Batch(SourceBatch),
    /// Nothing now, perhaps later.
    Idle,
    /// Nothing ever again.
    End,
}

/// Something that rows are read from, once, from its beginning to its end.
pub trait Source: Send {
    /// The next rows; returns within about 100 milliseconds. An error ends the source.
    fn read(&mut self) -> Result<Read>;

    /// Where the next [`Source::read`] begins: all that was returned is before it, and nothing that will be. It also moves
    /// where reading returns nothing, past input that is skipped.
    fn position(&self) -> Position;

    /// Whether it ends by itself.
    fn is_bounded(&self) -> bool;

    /// What `'on_error' = 'skip'` has left out so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// Input that could not be decoded and was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// How many rows.
    pub rows: u64,
    /// Why, for the first few of them, each with file, line and column.
    pub first: Vec<String>,
}

/// How a changelog row changes what its reader holds. Prints as `+I`, `-U`, `+U`, `-D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKind {
    Insert,
    UpdateBefore,
    UpdateAfter,
    Delete,
}

/// The changes of one step, in the order in which they are published.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The instant of the step, milliseconds since the epoch.
    pub at: i64,
    pub rows: RecordBatch,
    /// One a row.
    pub kinds: Vec<RowKind>,
}

/// Something that changes are written to.
pub trait Sink: Send {
    /// Writes the changes of one step.
    fn write(&mut self, changes: &Changes) -> Result<()>;

    /// Makes what was written visible to others.
    fn flush(&mut self) -> Result<()>;

    /// Makes what was written outlast a crash of the machine, and gives the length at which [`open_sink`] goes on, in bytes.
    /// None for what cannot be gone on with: it is flushed.
    fn commit(&mut self) -> Result<Option<u64>>;
}

/// Where print sinks write.
pub type Output = Arc<Mutex<dyn Write + Send>>;

/// What a table with a connector can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Rows can be read from it.
    pub source: bool,
    /// Changes can be written to it, by [`open_sink`] unless it is a `changelog_table`.
    pub sink: bool,
    /// It keeps changes in memory, which is the engine's work.
    pub changelog_table: bool,
    /// As a source it ends by itself.
    pub bounded: bool,
}

/// Checks the connector, the format, every option and every column's type, and touches no file: what CREATE TABLE does.
pub fn check(spec: &TableSpec) -> Result<Kind> {
    let options = Options::new(spec)?;
    let source = Kind { source: true, sink: false, changelog_table: false, bounded: true };
    let sink = Kind { source: false, sink: true, changelog_table: false, bounded: false };
    Ok(match options.connector.name {
        "file" => Kind { sink: true, bounded: !file::check(&options)?, ..source },
        "stdin" => {
            format::check(&options)?;
            source
        }
        "datagen" => Kind { bounded: datagen::Datagen::new(&options)?.is_bounded(), ..source },
        "nexmark" => Kind { bounded: nexmark::Nexmark::new(&options)?.is_bounded(), ..source },
        "changelog" => Kind { changelog_table: true, ..sink },
        _ => sink,
    })
}

/// Opens a table for reading, from its beginning or from a [`Position`]. A file that is missing, or is not what it was when
/// the position was taken, is an error that names it.
pub fn open_source(spec: &TableSpec, from: Option<&Position>) -> Result<Box<dyn Source>> {
    open_in_batches(spec, from, BATCH)
}

/// Opens a table for reading in batches of at most so many rows.
fn open_in_batches(spec: &TableSpec, from: Option<&Position>, rows: usize) -> Result<Box<dyn Source>> {
    check(spec)?;
    let options = Options::new(spec)?;
    let made = || from.map_or(Ok(0), |from| from.made(&spec.name));
    let text = || from.map(|from| from.text(&spec.name)).transpose();
    Ok(match options.connector.name {
        "file" => Box::new(file::open_files(&options, text()?, rows)?),
        "stdin" => Box::new(file::open_stdin(&options, text()?, rows)?),
        "datagen" => Box::new(datagen::Datagen::new(&options)?.behind(made()?, rows)),
        "nexmark" => Box::new(nexmark::Nexmark::new(&options)?.behind(made()?, rows)),
        name => return Err(Error::invalid(format!("table '{}' cannot be read: '{name}' only takes changes", spec.name))),
    })
}

/// Whether opening `sink` for writing would destroy what `source` reads, by truncating its file.
pub fn overwrites(sink: &TableSpec, source: &TableSpec) -> Result<bool> {
    let (sink, source) = (Options::new(sink)?, Options::new(source)?);
    match (sink.connector.name, source.connector.name) {
        ("file", "file") => file::is_read(&sink, &source),
        _ => Ok(false),
    }
}

/// Opens a table for writing: a file is truncated, or cut back to the length at which it is gone on with, which must have been
/// committed; `out` is where a print sink writes.
pub fn open_sink(spec: &TableSpec, out: Output, at: Option<u64>) -> Result<Box<dyn Sink>> {
    check(spec)?;
    let options = Options::new(spec)?;
    Ok(match options.connector.name {
        "file" => Box::new(file_sink::FileSink::open(&options, at)?),
        "print" => Box::new(print::Print::new(&options, out)),
        "blackhole" => Box::new(print::Blackhole),
        "changelog" => {
            let message =
                format!("table '{}' has the connector 'changelog', which the engine keeps in memory: there is no sink to open", spec.name);
            return Err(Error::Invalid(message));
        }
        name => return Err(Error::invalid(format!("table '{}' cannot be written to: '{name}' only gives rows", spec.name))),
    })
}

/// A sink that drops every change.
pub fn nowhere() -> Box<dyn Sink> {
    Box::new(print::Blackhole)
}

impl RowKind {
    /// `+I`, `-U`, `+U`, `-D`.
    pub fn as_str(self) -> &'static str {
        match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
    }
}

impl std::fmt::Display for RowKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
