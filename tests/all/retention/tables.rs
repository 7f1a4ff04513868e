//! Four small tables, and statements that the engine and the model both carry out.
//!
//! `l`, `r` and `c` are bags, `p` has a primary key and is written by upsert. Domains are small: duplicates, keys that
//! come back and deletes of rows that are long forgotten are the rule.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use rand::Rng;
use rand::rngs::StdRng;
use weir::engine::Engine;
use weir::error::Result;

use super::model::{Bag, Cell, Instant, Row, add};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    L,
    R,
    C,
    P,
}

/// Columns and what they are equal to, NULL to NULL.
pub type Filter = Vec<(usize, Cell)>;

#[derive(Debug, Clone)]
pub enum Statement {
    Insert {
        table: Table,
        rows: Vec<Row>,
    },
    Delete {
        table: Table,
        filter: Filter,
    },
    Update {
        table: Table,
        set: (usize, Cell),
        filter: Filter,
    },
    /// [`Engine::insert`]; what would take away rows that are not there is left out.
    Diffs {
        table: Table,
        rows: Vec<(Row, i64)>,
    },
}

/// What happens on a timeline.
#[derive(Debug, Clone)]
pub enum Event {
    /// A statement alone, or several between BEGIN and COMMIT: one step.
    Change(Vec<Statement>),
    /// ADVANCE BY so many milliseconds.
    Advance(Instant),
    /// A view is made, by its number.
    Define(usize),
    /// A view is dropped.
    Drop(usize),
}

/// Changes of tables.
pub type Changes = Vec<(&'static str, Row, i64)>;

/// The rows of all tables.
#[derive(Debug, Clone, Default)]
pub struct Tables(BTreeMap<Table, Bag>);

/// How full tables get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// Never many more rows than eight.
    Few,
    /// Up to thirty, most of which come several at a time and go one by one.
    Many,
}

impl Table {
    pub const ALL: [Table; 4] = [Table::L, Table::R, Table::C, Table::P];

    pub fn name(self) -> &'static str {
        match self {
            Table::L => "l",
            Table::R => "r",
            Table::C => "c",
            Table::P => "p",
        }
    }

    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Table::L => &["k", "v"],
            Table::R => &["k", "w"],
            Table::C => &["k", "s"],
            Table::P => &["id", "k", "v"],
        }
    }

    pub fn definition(self) -> &'static str {
        match self {
            Table::L => "CREATE TABLE l (k INT, v INT)",
            Table::R => "CREATE TABLE r (k INT, w INT)",
            Table::C => "CREATE TABLE c (k INT, s VARCHAR)",
            Table::P => "CREATE TABLE p (id INT, k INT, v INT, PRIMARY KEY (id) NOT ENFORCED)",
        }
    }

    /// The column that views group and join by.
    pub fn key(self) -> usize {
        usize::from(self == Table::P)
    }

    fn cell(self, column: usize, crowd: Crowd, rng: &mut StdRng) -> Cell {
        let (keys, values) = if crowd == Crowd::Few { (4, 3) } else { (20, 12) };
        match self.columns()[column] {
            "id" => Cell::Int(rng.random_range(1..=keys)),
            "k" if rng.random_bool(0.92) => Cell::Int(rng.random_range(1..=3)),
            "s" if rng.random_bool(0.9) => Cell::Text(["x", "y", "z"][rng.random_range(0..3)].into()),
            "v" | "w" if rng.random_bool(0.9) => Cell::Int(rng.random_range(0..=values)),
            _ => Cell::Null,
        }
    }

    fn row(self, crowd: Crowd, rng: &mut StdRng) -> Row {
        (0..self.columns().len()).map(|column| self.cell(column, crowd, rng)).collect()
    }
}

fn passes(row: &Row, filter: &Filter) -> bool {
    filter.iter().all(|(column, cell)| row[*column] == *cell)
}

impl Tables {
    fn rows(&self, table: Table) -> Bag {
        self.0.get(&table).cloned().unwrap_or_default()
    }

    /// Carries out a statement; returns it without the parts that find nothing to take, and its changes.
    pub fn make(&mut self, statement: &Statement) -> (Statement, Changes) {
        let mut changes = Changes::new();
        let mut done = statement.clone();
        let bag = |tables: &mut Self, table: Table, row: &Row, diff: i64, changes: &mut Changes| {
            add(tables.0.entry(table).or_default(), row, diff);
            changes.push((table.name(), row.clone(), diff));
        };
        match &mut done {
            Statement::Insert { table, rows } => {
                for row in rows {
                    if *table == Table::P {
                        let same_key = self.rows(*table).into_keys().find(|other| other[0] == row[0]);
                        same_key.iter().for_each(|old| bag(self, *table, old, -1, &mut changes));
                    }
                    bag(self, *table, row, 1, &mut changes);
                }
            }
            Statement::Delete { table, filter } => {
                for (row, count) in self.rows(*table).iter().filter(|(row, _)| passes(row, filter)) {
                    bag(self, *table, row, -count, &mut changes);
                }
            }
            Statement::Update { table, set: (column, cell), filter } => {
                for (row, count) in self.rows(*table).iter().filter(|(row, _)| passes(row, filter)) {
                    let mut new = row.clone();
                    new[*column] = cell.clone();
                    bag(self, *table, row, -count, &mut changes);
                    bag(self, *table, &new, *count, &mut changes);
                }
            }
            Statement::Diffs { table, rows } => {
                // the batch is one step and means the same in any order
                rows.sort_by_key(|(_, diff)| *diff < 0);
                rows.retain(|(row, diff)| {
                    let there = self.rows(*table).get(row).copied().unwrap_or(0) + diff >= 0;
                    if there {
                        bag(self, *table, row, *diff, &mut changes);
                    }
                    there
                });
            }
        }
        (done, changes)
    }
}

impl Event {
    /// Something that may happen to these tables as they are.
    pub fn random(rng: &mut StdRng, of: &[Table], crowd: Crowd, tables: &Tables) -> Self {
        if rng.random_bool(0.4) {
            let amounts = [1, 999, 1000, 1000, 1000, 1000, 2000, 2000, 3000, 5000, 8000, 20_000];
            return Event::Advance(amounts[rng.random_range(0..amounts.len())]);
        }
        if rng.random_bool(0.2) {
            let mut tables = tables.clone();
            let statement = |_| {
                let statement = Statement::random(rng, of, crowd, &tables, true);
                tables.make(&statement);
                statement
            };
            return Event::Change((0..3).map(statement).collect());
        }
        Event::Change(vec![Statement::random(rng, of, crowd, tables, false)])
    }
}

impl Statement {
    fn random(rng: &mut StdRng, of: &[Table], crowd: Crowd, tables: &Tables, in_transaction: bool) -> Self {
        let table = of[rng.random_range(0..of.len())];
        let rows = tables.rows(table);
        let (most, whole_row) = if crowd == Crowd::Few { (8, 0.4) } else { (30, 0.85) };
        let filter = |rng: &mut StdRng| match rows.keys().nth(rng.random_range(0..rows.len().max(1))) {
            Some(row) if rng.random_bool(whole_row) => row.iter().cloned().enumerate().collect(),
            _ => {
                let column = rng.random_range(0..table.columns().len());
                vec![(column, table.cell(column, crowd, rng))]
            }
        };
        match rng.random_range(0..20) {
            _ if rows.values().sum::<i64>() >= most => Statement::Delete { table, filter: filter(rng) },
            0..3 => Statement::Delete { table, filter: filter(rng) },
            3..7 => {
                let column = rng.random_range(table.key()..table.columns().len());
                Statement::Update { table, set: (column, table.cell(column, crowd, rng)), filter: filter(rng) }
            }
            7..12 if table != Table::P => {
                let mut diffs = vec![];
                for (row, count) in &rows {
                    if rng.random_bool(0.3) {
                        diffs.push((row.clone(), -rng.random_range(1..=*count)));
                    }
                }
                if rng.random_bool(0.4) || diffs.is_empty() {
                    diffs.push((table.row(crowd, rng), if rng.random_bool(0.8) { rng.random_range(1..=2) } else { 5 }));
                }
                // a row that comes and goes in one step has not been there
                if !in_transaction && rng.random_bool(0.2) {
                    let row = table.row(crowd, rng);
                    diffs.extend([(row.clone(), 1), (row, -1)]);
                }
                Statement::Diffs { table, rows: diffs }
            }
            _ => {
                let most = if crowd == Crowd::Few { 3 } else { 9 };
                Statement::Insert { table, rows: (0..rng.random_range(1..=most)).map(|_| table.row(crowd, rng)).collect() }
            }
        }
    }

    /// Carries out the statement in the engine.
    pub fn make_in(&self, engine: &Engine) -> Result<()> {
        match self {
            Statement::Insert { rows, .. } if rows.is_empty() => Ok(()),
            Statement::Diffs { rows, .. } if rows.is_empty() => Ok(()),
            Statement::Diffs { table, rows } => insert(engine, *table, rows),
            _ => engine.execute(&self.to_string()).map(drop),
        }
    }

    /// The table that it changes.
    pub fn table(&self) -> Table {
        match self {
            Statement::Insert { table, .. }
            | Statement::Delete { table, .. }
            | Statement::Update { table, .. }
            | Statement::Diffs { table, .. } => *table,
        }
    }

    /// The statement with one row less, or None where there are no more than `at` rows.
    pub fn without_row(&self, at: usize) -> Option<Self> {
        let mut statement = self.clone();
        match &mut statement {
            Statement::Insert { rows, .. } if at < rows.len() => drop(rows.remove(at)),
            Statement::Diffs { rows, .. } if at < rows.len() => drop(rows.remove(at)),
            _ => return None,
        }
        Some(statement)
    }
}

/// Changes as one step of [`Engine::insert`]s, for which nothing has to be read.
pub fn pour(engine: &Engine, changes: &Changes) -> Result<()> {
    let of = |table: Table| changes.iter().filter(move |(name, ..)| *name == table.name()).map(|(_, row, diff)| (row.clone(), *diff));
    let by_table: Vec<(Table, Vec<(Row, i64)>)> = Table::ALL.into_iter().map(|table| (table, of(table).collect())).collect();
    match by_table.iter().filter(|(_, rows)| !rows.is_empty()).collect::<Vec<_>>().as_slice() {
        [(table, rows)] => insert(engine, *table, rows),
        several => {
            engine.execute("BEGIN")?;
            several.iter().try_for_each(|(table, rows)| insert(engine, *table, rows))?;
            engine.execute("COMMIT").map(drop)
        }
    }
}

fn insert(engine: &Engine, table: Table, rows: &[(Row, i64)]) -> Result<()> {
    let columns = table.columns().iter().enumerate().map(|(i, name)| (*name, column(table, rows, i)));
    let diffs: Vec<i64> = rows.iter().map(|(_, diff)| *diff).collect();
    engine.insert(table.name(), &RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?, &diffs)
}

fn column(table: Table, rows: &[(Row, i64)], i: usize) -> ArrayRef {
    let cells = rows.iter().map(|(row, _)| &row[i]);
    match table.columns()[i] {
        "s" => Arc::new(cells.map(|cell| if let Cell::Text(text) = cell { Some(text.as_str()) } else { None }).collect::<StringArray>()),
        _ => Arc::new(cells.map(|cell| if let Cell::Int(number) = cell { Some(*number) } else { None }).collect::<Int64Array>()),
    }
}

fn tuple(row: &Row) -> String {
    format!("({})", row.iter().map(Cell::to_string).collect::<Vec<_>>().join(", "))
}

fn condition(table: Table, filter: &Filter) -> String {
    let equal = |(column, cell): &(usize, Cell)| match cell {
        Cell::Null => format!("{} IS NULL", table.columns()[*column]),
        cell => format!("{} = {cell}", table.columns()[*column]),
    };
    filter.iter().map(equal).collect::<Vec<_>>().join(" AND ")
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Insert { table, rows } => {
                write!(f, "INSERT INTO {} VALUES {}", table.name(), rows.iter().map(tuple).collect::<Vec<_>>().join(", "))
            }
            Statement::Delete { table, filter } => write!(f, "DELETE FROM {} WHERE {}", table.name(), condition(*table, filter)),
            Statement::Update { table, set: (column, cell), filter } => {
                let column = table.columns()[*column];
                write!(f, "UPDATE {} SET {column} = {cell} WHERE {}", table.name(), condition(*table, filter))
            }
            Statement::Diffs { table, rows } => {
                let rows: Vec<String> = rows.iter().map(|(row, diff)| format!("{} x {diff:+}", tuple(row))).collect();
                write!(f, "-- Engine::insert into {}: {}", table.name(), rows.join(", "))
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Advance(by) => write!(f, "  ADVANCE BY '{by} ms';"),
            Event::Define(view) => write!(f, "  -- v{view} is made"),
            Event::Drop(view) => write!(f, "  -- v{view} is dropped"),
            Event::Change(statements) => {
                let lines: Vec<String> = statements.iter().map(|statement| format!("  {statement};")).collect();
                let (begin, end) = if statements.len() == 1 { ("", "") } else { ("  BEGIN;\n", "\n  COMMIT;") };
                write!(f, "{begin}{}{end}", lines.join("\n"))
            }
        }
    }
}
