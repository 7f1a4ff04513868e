//! The other engine: SQLite, which shares no code with Weir, over the same tables, each query run from scratch.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::value::{Row, Value};
use crate::world::{BASE_VIEWS, Table};

/// A SQLite database in memory with the tables of [`crate::world`].
pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Empty tables and the views over them.
    pub fn new() -> Self {
        let sqlite = Sqlite { connection: Connection::open_in_memory().expect("SQLite opens a database in memory") };
        for table in Table::ALL {
            sqlite.execute(table.sqlite_definition());
        }
        for view in BASE_VIEWS {
            sqlite.execute(view);
        }
        sqlite
    }

    /// Runs a statement of ours, which SQLite has to take.
    pub fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap_or_else(|e| panic!("SQLite refuses {sql}: {e}"));
    }

    /// A query's rows.
    pub fn query(&self, sql: &str) -> Result<Vec<Row>, String> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|e| format!("SQLite refuses {sql}: {e}"))?;
        let width = statement.column_count();
        let rows = statement.query_map([], |row| (0..width).map(|i| row.get_ref(i).map(read)).collect());
        rows.and_then(Iterator::collect).map_err(|e| format!("SQLite fails on {sql}: {e}"))
    }

    /// A table's rows.
    pub fn table(&self, table: Table) -> Vec<Row> {
        self.query(&format!("SELECT * FROM {}", table.name())).expect("SQLite reads its own table")
    }

    /// Removes one copy of a row; whether there was one.
    pub fn remove_one(&self, table: Table, row: &Row) -> bool {
        let name = table.name();
        let is_row: Vec<String> = table.columns().iter().zip(row).map(|(column, value)| format!("{column} IS {}", value.sql())).collect();
        let before = self.connection.total_changes();
        self.execute(&format!("DELETE FROM {name} WHERE rowid = (SELECT rowid FROM {name} WHERE {} LIMIT 1)", is_row.join(" AND ")));
        self.connection.total_changes() > before
    }
}

/// A value as SQLite has it.
pub fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Double(number),
        ValueRef::Text(text) | ValueRef::Blob(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
    }
}
