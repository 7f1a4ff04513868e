//! A script: its text, where its relative paths start, and what went wrong on which of its lines.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::engine::{Engine, Outcome, Subscription};
use crate::error::{Error, Result};
use crate::sql;
use crate::sql::statement::{Parsed, Show, Statement};

use super::Exit;
use super::args::Settings;
use super::output::{Results, unwritable};
use super::progress::{counted, note};
use super::stop::Stop;

/// Says nothing in UTF-8, and is no part of the text.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

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
            return Ok(Script { name: "stdin".into(), text: without_mark(text), base: PathBuf::from("."), first_line: 1 });
        }
        let text = std::fs::read_to_string(path).map_err(|error| Error::Io(format!("cannot read '{}': {error}", path.display())))?;
        Ok(Script { name: path.display().to_string(), text: without_mark(text), base: folder_of(path), first_line: 1 })
    }

    /// Reads a script whose text may be long in coming; None where the command is to stop before it is there.
    pub fn read_unless(stop: &Stop, path: &Path) -> Result<Option<Self>> {
        let path = path.to_path_buf();
        stop.unless_raised(move || Script::read(&path))?.transpose()
    }

    /// Reads a script, and does with its definitions what needs none of its input.
    pub fn define(path: &Path, settings: &Settings, stop: &Stop, work: impl FnOnce(&Script, &Engine) -> Result<Exit>) -> Result<Exit> {
        let Some(script) = Script::read_unless(stop, path)? else { return Ok(stop.reason().unwrap_or(Exit::Interrupted)) };
        let engine = Engine::builder().base(&script.base).build()?;
        let worked = settings.apply(&engine).and_then(|()| work(&script, &engine));
        stop.shutdown(&engine)?;
        Ok(stop.reason().unwrap_or(worked?))
    }

    /// The script's statements, each parsed when it is asked for. After one that cannot be parsed there are no more.
    pub fn statements(&self) -> impl Iterator<Item = Result<Parsed, Failure>> + '_ {
        let mut statements = sql::statements(&self.text);
        std::iter::from_fn(move || {
            let parsed = statements.next()?;
            Some(parsed.map_err(|error| {
                let (line, text) = statements.failed();
                self.unparsed(error, line, text)
            }))
        })
    }

    /// An error of parsing, at its own place where it knows one, else at the statement.
    fn unparsed(&self, error: Error, line: u64, text: &str) -> Failure {
        match &error {
            Error::Syntax { message, line, column } if *line > 0 => {
                let source = self.text.lines().nth(*line as usize - 1).unwrap_or_default();
                let caret = " ".repeat((*column as usize).saturating_sub(1)) + "^";
                let message = message.clone();
                let place = format!("{}:{}:{column}", self.name, self.numbered(*line));
                Failure { place, message, excerpt: format!("{source}\n{caret}"), points: true }
            }
            _ => self.failure(line, &error, text),
        }
    }

    /// An error of running a statement, at the line on which the statement begins.
    pub fn failed(&self, statement: &Parsed, error: &Error) -> Failure {
        self.failure(statement.line, error, &statement.text)
    }

    /// A statement of which a part is accepted and has no effect, with its place.
    pub fn note(&self, engine: &Engine, statement: &Parsed) -> Option<String> {
        engine.without_effect(&statement.statement).map(|what| format!("note: {}: {what}", self.place(statement.line)))
    }

    /// Takes the statements one after the other: `plan` is what may fail of each, which is reported with its place and ends
    /// the script; `show` is what then becomes of the result.
    pub fn each<T>(
        &self,
        stop: &Stop,
        mut plan: impl FnMut(&Parsed) -> Result<T>,
        mut show: impl FnMut(&Parsed, T) -> Result<()>,
    ) -> Result<Exit> {
        for parsed in self.statements() {
            if stop.is_raised() {
                break;
            }
            let planned = parsed.and_then(|parsed| match plan(&parsed) {
                Ok(planned) => Ok((parsed, planned)),
                Err(error) => Err(self.failed(&parsed, &error)),
            });
            match planned {
                Ok((parsed, planned)) => show(&parsed, planned)?,
                Err(failure) => {
                    note(format_args!("error: {failure}"));
                    return Ok(Exit::Failed);
                }
            }
        }
        Ok(Exit::Ok)
    }

    fn failure(&self, line: u64, error: &Error, text: &str) -> Failure {
        Failure { place: self.place(line), message: error.to_string(), excerpt: text.to_owned(), points: false }
    }

    /// `file:line`, of a line of the text.
    pub fn place(&self, line: u64) -> String {
        format!("{}:{}", self.name, self.numbered(line))
    }

    /// A line of the text, counted from 1, as messages number it.
    fn numbered(&self, line: u64) -> u64 {
        self.first_line + line.saturating_sub(1)
    }
}

/// A text without the byte order mark that some editors put before it.
fn without_mark(text: String) -> String {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => rest.to_owned(),
        None => text,
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
    /// Whether the excerpt ends with a mark below what is wrong.
    pub points: bool,
}

impl Failure {
    /// What went wrong with something that is no part of a script.
    pub fn of(error: &Error) -> Self {
        Failure { place: String::new(), message: error.to_string(), excerpt: String::new(), points: false }
    }

    /// For a person who has the statement before their eyes: without the place, and what is shown has to point.
    pub fn typed(self) -> Self {
        let excerpt = if self.points { self.excerpt } else { String::new() };
        Failure { place: String::new(), excerpt, ..self }
    }
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
    match engine.run_again(statement)? {
        Outcome::Rows(rows) => {
            let written = if is_text { results.text(&rows) } else { results.rows(&rows) };
            written.map_err(|error| unwritable(&error))?;
            Ok(Said::Nothing)
        }
        Outcome::Changed(count) => Ok(Said::Tag(format!("{} changed", counted(count, "row")))),
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
        let failure = script("SELECT 1;\nSELECT FROM t;\n").unparsed(error, 2, "SELECT FROM t");
        assert_eq!(failure.to_string(), "q.sql:2:8: expected an expression\n    SELECT FROM t;\n           ^");
    }

    #[test]
    fn a_statement_that_the_parser_refuses_is_shown_with_its_file_and_line() {
        let part = Script { first_line: 10, ..script("SELECT 1;\nMERGE INTO t;\nSELECT 2;") };
        let failures: Vec<String> = part.statements().filter_map(|parsed| parsed.err()).map(|failure| failure.to_string()).collect();
        assert_eq!(failures, ["q.sql:11: not supported: statement MERGE\n    MERGE INTO t"]);
    }

    #[test]
    fn a_person_is_shown_again_only_what_points_at_the_mistake() {
        let failures = |text: &str| script(text).statements().find_map(|parsed| parsed.err()).map(|failure| failure.typed().to_string());
        assert_eq!(failures("MERGE INTO t;").as_deref(), Some("not supported: statement MERGE"));
        assert!(failures("SELECT 1 2;").is_some_and(|shown| shown.ends_with("\n    SELECT 1 2;\n             ^")));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_script() {
        assert_eq!(without_mark("\u{feff}SELECT 1".into()), "SELECT 1");
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
        let shown = Failure { place: "q.sql:1".into(), message: "no".into(), excerpt: text, points: false }.to_string();
        assert!(shown.ends_with("line 7\n    ..."), "{shown}");
    }

    #[test]
    fn a_bare_file_name_is_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("q.sql")), Path::new("."));
        assert_eq!(folder_of(Path::new("queries/q.sql")), Path::new("queries"));
    }
}
