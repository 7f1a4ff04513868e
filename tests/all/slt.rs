//! Weir as a database of the `sqllogictest` crate: every statement goes to one engine, values print as text.

use std::path::Path;

use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use weir::engine::{Engine, Outcome};
use weir::error::Error;
use weir::text::cell;

/// A fresh engine with default settings.
struct Weir {
    engine: Engine,
}

impl DB for Weir {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        let outcomes = self.engine.execute(sql)?;
        Ok(match outcomes.into_iter().last() {
            Some(Outcome::Rows(batch)) => {
                let row = |row| batch.columns().iter().map(|column| text(cell(column, row))).collect();
                DBOutput::Rows { types: vec![DefaultColumnType::Any; batch.num_columns()], rows: (0..batch.num_rows()).map(row).collect() }
            }
            Some(Outcome::Changed(count)) => DBOutput::StatementComplete(count),
            _ => DBOutput::StatementComplete(0),
        })
    }

    fn engine_name(&self) -> &str {
        "weir"
    }

    fn shutdown(&mut self) {
        // what ends the script is its last record, not what closing adds
        let _ = self.engine.shutdown();
    }
}

fn text(cell: String) -> String {
    if cell.is_empty() { "(empty)".into() } else { cell }
}

/// Runs a script; what differs, and where, if it fails.
pub fn run_file(path: &Path) -> Result<(), String> {
    let mut runner = Runner::new(|| async { Ok(Weir { engine: Engine::builder().build()? }) });
    // rows have as many columns as the script says, whatever it takes their types to be
    runner.with_column_validator(|actual, expected| actual.len() == expected.len());
    runner.run_file(path).map_err(|e| e.display(false).to_string())
}
