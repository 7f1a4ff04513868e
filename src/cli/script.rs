//! A script: its text, where its relative paths start, and what went wrong on which of its lines.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::engine::{Engine, Outcome, Subscription};
use crate::error::{Error, Result};
use crate::sql::statement::{Parsed, Show, Statement};

use super::output::{Results, unwritable};

/// A script's text and where it came from.
#[derive(Debug, Clone)]
pub struct Script {
    /// How messages call it: the path as given, or `stdin`.
    pub name: String,
    pub text: String,
    /// The folder that relative paths in its tables start from.
    pub base: PathBuf,
    /// The number that messages give its first line: 1, unless the text is a part of something longer.
    pub first_line: u64,
}

impl Script {
    /// Reads a file, or standard input where `path` is `-`.
    pub fn read(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| Error::Io(format!("cannot read the script from stdin: {error}")))?;
            return Ok(Script { name: "stdin".into(), text, base: PathBuf::from("."), first_line: 1 });
        }
        let text = std::fs::read_to_string(path).map_err(|error| Error::Io(format!("cannot read '{}': {error}", path.display())))?;
        Ok(Script { name: path.display().to_string(), text, base: folder_of(path), first_line: 1 })
    }

    /// An error of parsing: its place is in the script already.
    pub fn unparsed(&self, error: Error) -> Failure {
        match &error {
            Error::Syntax { message, line, column } if *line > 0 => {
                let source = self.text.lines().nth(*line as usize - 1).unwrap_or_default();
                let caret = " ".repeat((*column as usize).saturating_sub(1)) + "^";
                let message = message.clone();
                let place = format!("{}:{}:{column}", self.name, self.numbered(*line));
                Failure { place, message, excerpt: format!("{source}\n{caret}") }
            }
            _ => Failure { place: self.name.clone(), message: error.to_string(), excerpt: String::new() },
        }
    }

    /// An error of running a statement, at the line on which the statement begins.
    pub fn failed(&self, statement: &Parsed, error: &Error) -> Failure {
        let place = format!("{}:{}", self.name, self.numbered(statement.line));
        Failure { place, message: error.to_string(), excerpt: statement.text.clone() }
    }

    /// A line of the text, counted from 1, as messages number it.
    fn numbered(&self, line: u64) -> u64 {
        self.first_line + line.saturating_sub(1)
    }
}

/// The folder a file is in; a bare file name is in the current one.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// What went wrong in a script: the place (empty for what has just been typed), the message, and
/// the statement below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub place: String,
    pub message: String,
    pub excerpt: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)?;
        for line in self.excerpt.lines().take(SHOWN) {
            write!(f, "\n    {line}")?;
        }
        if self.excerpt.lines().count() > SHOWN {
            write!(f, "\n    ...")?;
        }
        Ok(())
    }
}

/// What a statement came to, beside the rows that it showed.
pub enum Said {
    Nothing,
    /// What was done, in a few words.
    Tag(String),
    /// What SUBSCRIBE asked for.
    Changes(Subscription),
}

/// Runs one statement and writes its rows.
pub fn execute<W: std::io::Write>(engine: &Engine, statement: &Parsed, results: &mut Results<W>) -> Result<Said> {
    let is_text = matches!(statement.statement, Statement::Explain { .. } | Statement::Show(Show::Create(_)));
    match engine.execute_statement(statement)? {
        Outcome::Rows(rows) => {
            let written = if is_text { results.text(&rows) } else { results.rows(&rows) };
            written.map_err(|error| unwritable(&error))?;
            Ok(Said::Nothing)
        }
        Outcome::Changed(1) => Ok(Said::Tag("1 row changed".into())),
        Outcome::Changed(count) => Ok(Said::Tag(format!("{count} rows changed"))),
        Outcome::Subscription(changes) => Ok(Said::Changes(changes)),
        Outcome::Done(tag) => Ok(Said::Tag(tag)),
    }
}

/// The text without the blanks and comments that it begins with.
pub fn skip_blanks(text: &str) -> &str {
    let mut text = text.trim_start();
    loop {
        let rest = if text.starts_with("--") {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        } else if text.starts_with("/*") && !text.starts_with("/*+") {
            text.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            return text;
        };
        text = rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        Script { name: "q.sql".into(), text: text.into(), base: ".".into(), first_line: 1 }
    }

    #[test]
    fn a_missing_script_is_named() {
        let error = Script::read(Path::new("no/such/script.sql")).expect_err("there is none");
        assert!(error.to_string().starts_with("cannot read 'no/such/script.sql': "), "{error}");
    }

    #[test]
    fn a_syntax_error_points_at_its_column() {
        let error = Error::Syntax { message: "expected an expression".into(), line: 2, column: 8 };
        let failure = script("SELECT 1;\nSELECT FROM t;\n").unparsed(error);
        assert_eq!(failure.to_string(), "q.sql:2:8: expected an expression\n    SELECT FROM t;\n           ^");
    }

    #[test]
    fn a_failing_statement_is_shown_with_its_file_and_line() {
        let statement = Parsed { statement: Statement::Commit, text: "COMMIT".into(), line: 7 };
        let failure = script("").failed(&statement, &Error::invalid("there is nothing to commit"));
        assert_eq!(failure.to_string(), "q.sql:7: there is nothing to commit\n    COMMIT");
    }

    #[test]
    fn a_part_of_a_longer_text_is_numbered_as_the_whole() {
        let statement = Parsed { statement: Statement::Commit, text: "COMMIT".into(), line: 2 };
        let part = Script { first_line: 10, ..script("\nCOMMIT;") };
        assert_eq!(part.failed(&statement, &Error::invalid("no")).place, "q.sql:11");
    }

    #[test]
    fn a_long_statement_is_cut_short() {
        let text = (0..20).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n");
        let shown = Failure { place: "q.sql:1".into(), message: "no".into(), excerpt: text }.to_string();
        assert!(shown.ends_with("line 7\n    ..."), "{shown}");
    }

    #[test]
    fn a_bare_file_name_is_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("q.sql")), Path::new("."));
        assert_eq!(folder_of(Path::new("queries/q.sql")), Path::new("queries"));
    }
}
