//! The one error type of the crate.
//!
//! Every message names the thing that is wrong, the place where it stands, and, where there is one, what would
//! be right. Errors *of rows* (a division by zero, an undecodable line) are not statement errors: they are data,
//! and reach a user as [`Error::Data`] only when something reads a view while the failing row is in it.

use std::fmt;

/// What went wrong, for a person to read and for a script to match on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The text is not SQL that Weir parses.
    Syntax { message: String, line: u64, column: u64 },
    /// A name that nothing has. `have` are the names there are, nearest first.
    Unknown { kind: &'static str, name: String, have: Vec<String> },
    /// A name that is taken.
    Exists { kind: &'static str, name: String },
    /// A thing that others read, and that therefore cannot be dropped.
    InUse { kind: &'static str, name: String, readers: Vec<String> },
    /// A statement that parses and makes no sense: says what, and what would.
    Invalid(String),
    /// Something that SQL has and Weir does not do, by name.
    Unsupported(String),
    /// Rows that cannot be evaluated, while they are there.
    Data(String),
    /// A file or stream that cannot be read or written.
    Io(String),
    /// A file of a checkpoint that is not as Weir wrote it: which, from what byte on, and how.
    Damaged { file: String, offset: u64, what: String },
    /// The engine has stopped, and why.
    Stopped(String),
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Invalid`] from anything that prints.
    pub fn invalid(message: impl fmt::Display) -> Self {
        Error::Invalid(message.to_string())
    }

    /// An [`Error::Unsupported`] from anything that prints.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Error::Unsupported(what.to_string())
    }

    /// An [`Error::Unknown`] that offers the nearest of `have` first.
    pub fn unknown<S: Into<String>>(kind: &'static str, name: impl Into<String>, have: impl IntoIterator<Item = S>) -> Self {
        let name = name.into();
        let mut have: Vec<String> = have.into_iter().map(Into::into).collect();
        have.sort_by_cached_key(|candidate| (edit_distance(&name, candidate), candidate.clone()));
        have.dedup();
        Error::Unknown { kind, name, have }
    }
}

impl Error {
    /// The same error, with its place before what it says. A name that is not there is looked for in one place anyway.
    pub fn at(self, place: impl fmt::Display) -> Self {
        match self {
            Error::Invalid(message) => Error::Invalid(format!("{place}: {message}")),
            Error::Unsupported(what) => Error::Unsupported(format!("{place}: {what}")),
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { message, line: 0, .. } => write!(f, "{message}"),
            Error::Syntax { message, line, column } => write!(f, "{message} at line {line}, column {column}"),
            Error::Unknown { kind, name, have } => {
                write!(f, "there is no {kind} '{name}'")?;
                match have.first() {
                    Some(nearest) if is_near(name, nearest) => write!(f, "; did you mean '{nearest}'?")?,
                    _ => {}
                }
                if !have.is_empty() {
                    const SHOWN: usize = 12;
                    let mut names: Vec<&str> = have.iter().map(String::as_str).collect();
                    names.truncate(SHOWN);
                    let more = if have.len() > SHOWN { ", ..." } else { "" };
                    write!(f, " (there is {}{more})", names.join(", "))?;
                }
                Ok(())
            }
            Error::Exists { kind, name } => write!(f, "{kind} '{name}' exists already"),
            Error::InUse { kind, name, readers } => {
                write!(f, "{kind} '{name}' cannot be dropped: {} read{} it", readers.join(", "), if readers.len() == 1 { "s" } else { "" })
            }
            Error::Invalid(message) | Error::Data(message) | Error::Io(message) => f.write_str(message),
            Error::Damaged { file, offset, what } => write!(f, "{file} at byte {offset}: {what}"),
            Error::Unsupported(what) => write!(f, "not supported: {what}"),
            Error::Stopped(why) => write!(f, "the engine has stopped: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<datafusion_common::DataFusionError> for Error {
    fn from(error: datafusion_common::DataFusionError) -> Self {
        Error::Invalid(error.strip_backtrace())
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::Invalid(error.to_string())
    }
}

/// The one of `have` that was meant by `name`, if any is close to it. A single letter is close to no other.
pub(crate) fn nearest<'a>(name: &str, have: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = have.into_iter().min_by_key(|candidate| (edit_distance(name, candidate), *candidate))?;
    (is_near(name, found) && edit_distance(name, found) < name.chars().count().max(found.chars().count())).then_some(found)
}

/// Whether `candidate` is close enough to `name` to be what was meant.
fn is_near(name: &str, candidate: &str) -> bool {
    edit_distance(name, candidate) <= 1 + name.chars().count().max(candidate.chars().count()) / 4
}

/// Edits (insert, delete, replace, swap of neighbours) between two names, ignoring case.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped =
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                replaced.min(swapped).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_answered_with_the_nearest_name() {
        let error = Error::unknown("option", "state_tll", ["connector", "state_ttl"]);
        assert_eq!(error.to_string(), "there is no option 'state_tll'; did you mean 'state_ttl'? (there is state_ttl, connector)");
    }

    #[test]
    fn the_nearest_name_shares_something_with_the_one_asked_for() {
        assert_eq!(nearest("x", ["o", "l"]), None);
        assert_eq!(nearest("ordesr", ["o", "orders"]), Some("orders"));
    }

    #[test]
    fn a_name_far_from_all_others_is_not_guessed_at() {
        let error = Error::unknown("table", "missing", ["orders"]);
        assert_eq!(error.to_string(), "there is no table 'missing' (there is orders)");
    }
}
