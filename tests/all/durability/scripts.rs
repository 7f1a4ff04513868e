//! Golden scripts in sqllogictest form with an engine that is lost between their statements: the rows are as the scripts say.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sqllogictest::{DB, DBOutput, DefaultColumnType, Record, Runner};
use weir::engine::{Engine, Outcome};
use weir::error::{Error, Result};
use weir::text::cell;

use crate::kept::Kept;

/// The engine of a script.
struct Shared {
    kept: Kept,
    /// Once in how many statements the engine is lost.
    once_in: u32,
    in_transaction: bool,
}

/// A connection of a script.
struct Session(Arc<Mutex<Shared>>);

impl DB for Session {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let mut shared = self.0.lock().expect("no statement panics");
        if !shared.in_transaction {
            let once_in = shared.once_in;
            shared.kept.once_in(once_in, |engine| drop(engine.execute(sql)))?;
        }
        let outcomes = shared.kept.execute(sql)?;
        match sql.trim().to_ascii_uppercase().as_str() {
            "BEGIN" => shared.in_transaction = true,
            "COMMIT" | "ROLLBACK" => shared.in_transaction = false,
            _ => {}
        }
        Ok(match outcomes.last() {
            Some(Outcome::Rows(rows)) => {
                let value = |column, row| {
                    let text = cell(column, row);
                    if text.is_empty() { "(empty)".into() } else { text }
                };
                DBOutput::Rows {
                    types: vec![DefaultColumnType::Any; rows.num_columns()],
                    rows: (0..rows.num_rows()).map(|row| rows.columns().iter().map(|column| value(column, row)).collect()).collect(),
                }
            }
            Some(Outcome::Changed(count)) => DBOutput::StatementComplete(*count),
            _ => DBOutput::StatementComplete(0),
        })
    }

    fn engine_name(&self) -> &str {
        "weir"
    }
}

/// Runs a script whose engine is lost once in so many statements; gives what did not go as the script says.
pub fn run(path: &Path, workers: usize, seed: u64, once_in: u32) -> Vec<String> {
    let place = format!("{}, {workers} worker(s), seed {seed}, once in {once_in}", path.display());
    let records = sqllogictest::parse_file::<DefaultColumnType>(path).unwrap_or_else(|error| panic!("{place}: {error}"));
    let folder: PathBuf = path.parent().expect("a script is in a folder").to_owned();
    let kept = Kept::build(workers, Some(seed), move || Engine::builder().base(&folder).output(Box::new(std::io::sink())));
    let kept = kept.unwrap_or_else(|error| panic!("{place}: {error}"));
    let shared = Arc::new(Mutex::new(Shared { kept, once_in, in_transaction: false }));
    let mut runner = Runner::new(|| {
        let session = Session(shared.clone());
        async move { Ok(session) }
    });
    let mut wrong = vec![];
    for record in records {
        if matches!(record, Record::Halt { .. }) || wrong.len() > 3 {
            break;
        }
        if let Err(error) = runner.run(record) {
            wrong.push(format!("{place}:\n{}: {}", error.location(), error.kind().display(false)));
        }
    }
    wrong
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = std::fs::read_dir(folder).expect("the scripts are there");
    let only = std::env::var("WEIR_SCRIPTS_ONLY").unwrap_or_default();
    let mut scripts: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // What this is about is said of folders for the state, too, and by the process that has it: not by ours.
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "slt") && path.to_string_lossy().contains(&only));
    scripts.sort();
    scripts
}

#[test]
fn every_golden_script_gives_the_rows_it_says_though_its_engine_is_lost_now_and_then() {
    let wrong: Vec<String> = scripts().iter().zip(0..).flat_map(|(path, seed)| run(path, 1 + (seed % 2) as usize, seed, 5)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Ignored because it takes minutes; the test above is its short form.
#[test]
#[ignore = "takes minutes"]
fn every_golden_script_gives_the_rows_it_says_though_its_engine_is_lost_before_every_statement() {
    let wrong: Vec<String> = scripts().iter().zip(0..).flat_map(|(path, seed)| run(path, 1 + (seed % 2) as usize, seed, 1)).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n\n"));
}
