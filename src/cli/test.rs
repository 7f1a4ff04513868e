//! `weir test`: golden scripts in sqllogictest form, statements in and expected rows beside them.
//!
//! Every file gets a fresh engine with default settings, and every statement of Weir works in it. The connections
//! of a file share its engine. Values print as everywhere, and an empty string as `(empty)`. A query's type string
//! holds: as many letters as columns, `I` for integers, `R` for floating point and decimals; `T` takes anything,
//! since everything prints as text. `onlyif weir` and `skipif weir` are this engine.

use std::io::Write;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use sqllogictest::{
    AsyncDB, DB, DBOutput, DefaultColumnType, MakeConnection, Record, RecordKind, RecordOutput, Runner, TestError, TestErrorKind,
};

use super::Exit;
use super::args::TestArgs;
use super::output::unwritable;
use super::script::{Script, folder_of};
use super::stdout::{self, Stdout};
use super::stop::Stop;
use crate::engine::{Engine, Outcome};
use crate::error::{Error, Result};
use crate::text::cell;

/// What running one file came to.
#[derive(Debug, Clone)]
pub struct Report {
    pub path: PathBuf,
    /// How many statements and queries were run.
    pub checked: usize,
    pub differences: Vec<Difference>,
}

/// Something in a file that did not go as the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `file:line`; for an included file, also the line that includes it.
    pub place: String,
    /// What differs: the statement, and what was expected beside what came.
    pub message: String,
}

impl Report {
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.passed() { "ok  " } else { "FAIL" };
        writeln!(f, "{word} {} ({} checked)", self.path.display(), self.checked)?;
        for difference in &self.differences {
            writeln!(f, "\n{}: {}", difference.place, difference.message.trim_end().replace('\n', "\n    "))?;
        }
        if self.passed() { Ok(()) } else { writeln!(f) }
    }
}

/// Runs one script on an engine of its own. Queries that differ are collected; a statement that should have worked
/// and did not ends the file, as what follows builds on it. An error where the file cannot be run at all.
pub fn run_file(path: impl AsRef<Path>, workers: usize) -> Result<Report> {
    let path = path.as_ref();
    let name = path.to_str().ok_or_else(|| Error::Invalid(format!("the name of '{}' is not Unicode", path.display())))?;
    // The parser panics on what it cannot read.
    Script::read(path)?;
    let records = match sqllogictest::parse_file::<DefaultColumnType>(name) {
        Ok(records) => records,
        Err(error) => return Ok(Report { path: path.into(), checked: 0, differences: vec![difference(&error.into())] }),
    };
    let engine = Engine::builder().workers(workers).base(folder_of(path)).output(Box::new(std::io::stderr())).build()?;
    let connect = engine.clone();
    let mut runner = Runner::new(move || {
        let session = Session { engine: connect.clone() };
        async move { Ok(session) }
    });
    runner.with_column_validator(column_types_agree);
    let (checked, differences) = check(&mut runner, records);
    engine.shutdown()?;
    Ok(Report { path: path.into(), checked, differences })
}

/// Runs records in order; gives how many were run, and what differed.
fn check<D, M>(runner: &mut Runner<D, M>, records: Vec<Record<DefaultColumnType>>) -> (usize, Vec<Difference>)
where
    D: AsyncDB<ColumnType = DefaultColumnType>,
    M: MakeConnection<Conn = D>,
{
    let mut checked = 0;
    let mut differences = Vec::new();
    for record in records {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        match runner.run(record) {
            Ok(RecordOutput::Nothing) => {}
            Ok(_) => checked += 1,
            Err(error) => {
                checked += 1;
                differences.push(difference(&error));
                if !is_of_a_query(&error.kind()) {
                    break;
                }
            }
        }
    }
    (checked, differences)
}

/// Whether what differs is what a query gave: the file's later statements do not build on that.
fn is_of_a_query(kind: &TestErrorKind) -> bool {
    use TestErrorKind as Kind;
    match kind {
        Kind::QueryResultMismatch { .. } | Kind::QueryResultColumnsMismatch { .. } | Kind::ErrorMismatch { .. } => true,
        Kind::Fail { kind, .. } | Kind::Ok { kind, .. } => matches!(kind, RecordKind::Query),
        _ => false,
    }
}

fn difference(error: &TestError) -> Difference {
    Difference {
        place: error.location().to_string().replace("\nat ", ", included at "),
        message: error.kind().display(stdout::is_terminal()).to_string(),
    }
}

/// Whether a query's columns are what its type string says.
#[allow(clippy::ptr_arg, reason = "the runner's signature")]
fn column_types_agree(actual: &Vec<DefaultColumnType>, expected: &Vec<DefaultColumnType>) -> bool {
    use DefaultColumnType as Type;
    let agree = |(actual, expected): (&Type, &Type)| match expected {
        Type::Text | Type::Any => true,
        Type::Integer | Type::FloatingPoint => actual == expected || *actual == Type::Any,
    };
    expected.is_empty() || actual.len() == expected.len() && actual.iter().zip(expected).all(agree)
}

/// An engine, as the runner sees it.
struct Session {
    engine: Engine,
}

impl DB for Session {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        // Of several statements in one record the last is the one that is looked at.
        Ok(match self.engine.execute(sql)?.pop() {
            Some(Outcome::Rows(rows)) => shown(&rows),
            Some(Outcome::Changed(count)) => DBOutput::StatementComplete(count),
            Some(Outcome::Done(_) | Outcome::Subscription(_)) | None => DBOutput::StatementComplete(0),
        })
    }

    fn engine_name(&self) -> &str {
        "weir"
    }
}

/// Rows as the runner compares them.
fn shown(rows: &RecordBatch) -> DBOutput<DefaultColumnType> {
    let value = |column, row| {
        let text = cell(column, row);
        if text.is_empty() { "(empty)".into() } else { text }
    };
    DBOutput::Rows {
        types: rows.schema_ref().fields().iter().map(|field| column_type(field.data_type())).collect(),
        rows: (0..rows.num_rows()).map(|row| rows.columns().iter().map(|column| value(column, row)).collect()).collect(),
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        // SQLite, whose format this is, has no booleans: its scripts write them as integers.
        DataType::Null | DataType::Boolean => DefaultColumnType::Any,
        integer if integer.is_integer() => DefaultColumnType::Integer,
        number if number.is_numeric() => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

/// Runs files and folders of files, and reports on each.
pub(super) fn test(args: TestArgs, stop: &Stop) -> Result<Exit> {
    let files = scripts(&args.files)?;
    let out = Stdout::new(stop);
    let (workers, asked) = (args.workers.count(), stop.clone());
    let result = stop.unless_raised(move || run_all(&files, workers, out, &asked))?;
    match (stop.reason(), result) {
        (Some(reason), _) => Ok(reason),
        (None, Some(result)) => result,
        (None, None) => Ok(Exit::Ok),
    }
}

/// Runs each file, and ends with how many passed.
fn run_all(files: &[PathBuf], workers: usize, mut out: Stdout, stop: &Stop) -> Result<Exit> {
    let (mut passed, mut failed) = (0usize, 0usize);
    for file in files {
        if stop.is_raised() {
            break;
        }
        let text = match run_file(file, workers) {
            Ok(report) => {
                if report.passed() {
                    passed += 1;
                } else {
                    failed += 1;
                }
                report.to_string()
            }
            Err(error) => {
                failed += 1;
                format!("FAIL {}: {error}\n", file.display())
            }
        };
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
    }
    out.write_all(format!("{passed} passed, {failed} failed\n").as_bytes()).map_err(|error| unwritable(&error))?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
}

/// The scripts that are meant: files as they are, folders by the .slt files in them, by name.
fn scripts(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for path in paths {
        let unreadable = |error: std::io::Error| Error::Io(format!("cannot read '{}': {error}", path.display()));
        if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
            scripts.push(path.clone());
            continue;
        }
        let entries: Vec<PathBuf> = std::fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>())
            .map_err(unreadable)?;
        let mut found: Vec<PathBuf> =
            entries.into_iter().filter(|entry| entry.extension().is_some_and(|extension| extension == "slt")).collect();
        if found.is_empty() {
            return Err(Error::Invalid(format!("there is no .slt file in '{}'", path.display())));
        }
        found.sort();
        scripts.append(&mut found);
    }
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};

    use super::*;

    /// A database that answers every query with the row `1 a`, and refuses what begins with `BAD`.
    struct Fixed;

    impl DB for Fixed {
        type Error = Error;
        type ColumnType = DefaultColumnType;

        fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
            if sql.starts_with("BAD") {
                return Err(Error::invalid("there is no table 'bad'"));
            }
            Ok(DBOutput::Rows {
                types: vec![DefaultColumnType::Integer, DefaultColumnType::Text],
                rows: vec![vec!["1".into(), "a".into()]],
            })
        }

        fn engine_name(&self) -> &str {
            "weir"
        }
    }

    fn checked(script: &str) -> (usize, Vec<Difference>) {
        let mut runner = Runner::new(|| async { Ok(Fixed) });
        runner.with_column_validator(column_types_agree);
        check(&mut runner, sqllogictest::parse_with_name(script, "t.slt").expect("a script"))
    }

    #[test]
    fn a_difference_names_its_line_and_shows_both_rows_and_the_file_goes_on() {
        let (count, differences) = checked("query IT\nSELECT x\n----\n2 a\n\nquery IT\nSELECT y\n----\n3 a\n");
        assert_eq!(count, 2);
        assert_eq!(differences.iter().map(|d| d.place.as_str()).collect::<Vec<_>>(), ["t.slt:1", "t.slt:6"]);
        for part in ["SELECT x", "-   2 a", "+   1 a"] {
            assert!(differences[0].message.contains(part), "{}", differences[0].message);
        }
    }

    #[test]
    fn a_statement_that_fails_ends_the_file() {
        let (count, differences) = checked("statement ok\nBAD\n\nquery IT\nSELECT x\n----\n2 a\n");
        assert_eq!((count, differences.len()), (1, 1));
        assert!(differences[0].message.contains("there is no table 'bad'"), "{}", differences[0].message);
    }

    #[test]
    fn an_expected_error_has_to_match_its_pattern() {
        assert_eq!(checked("statement error no table '.*'\nBAD\n").1, []);
        assert_eq!(checked("statement error no view\nBAD\n").1.len(), 1);
    }

    #[test]
    fn conditions_know_this_engine() {
        assert_eq!(checked("skipif weir\nstatement ok\nBAD\n"), (0, vec![]));
        assert_eq!(checked("onlyif postgres\nstatement ok\nBAD\n"), (0, vec![]));
        assert_eq!(checked("onlyif weir\nstatement ok\nBAD\n").0, 1);
    }

    #[test]
    fn the_type_string_holds() {
        assert_eq!(checked("query IT\nSELECT x\n----\n1 a\n").1, []);
        assert_eq!(checked("query TT\nSELECT x\n----\n1 a\n").1, []);
        assert_eq!(checked("query I\nSELECT x\n----\n1 a\n").1.len(), 1);
        assert_eq!(checked("query II\nSELECT x\n----\n1 a\n").1.len(), 1);
    }

    #[test]
    fn nothing_after_halt_is_run() {
        assert_eq!(checked("halt\n\nstatement ok\nBAD\n"), (0, vec![]));
    }

    #[test]
    fn values_show_as_scripts_write_them() {
        let columns: [(&str, ArrayRef); 3] = [
            ("s", Arc::new(StringArray::from(vec![Some(""), None]))),
            ("b", Arc::new(BooleanArray::from(vec![true, false]))),
            ("i", Arc::new(Int64Array::from(vec![Some(-1), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let DBOutput::Rows { types, rows } = shown(&batch) else { panic!("rows") };
        assert_eq!(rows, [["(empty)", "true", "-1"], ["NULL", "false", "NULL"]]);
        assert_eq!(types, [DefaultColumnType::Text, DefaultColumnType::Any, DefaultColumnType::Integer]);
    }

    #[test]
    fn a_folder_stands_for_its_scripts_by_name() {
        let folder = std::env::temp_dir().join(format!("weir-test-scripts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in ["b.slt", "a.slt", "notes.md"] {
            std::fs::write(folder.join(name), "").expect("a file");
        }
        let found = scripts(std::slice::from_ref(&folder));
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        assert_eq!(found, Ok(vec![folder.join("a.slt"), folder.join("b.slt")]));
    }

    #[test]
    fn a_missing_script_is_named() {
        let error = scripts(&["no/such.slt".into()]).expect_err("there is none");
        assert!(error.to_string().starts_with("cannot read 'no/such.slt': "), "{error}");
    }
}
