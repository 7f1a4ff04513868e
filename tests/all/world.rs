//! Three small tables and the random changes that both engines make to them.
//!
//! `t` and `u` are bags (they hold duplicates and NULLs), `p` has a primary key and is written by upsert. Domains are
//! small, so that keys meet; doubles are multiples of a quarter, so that sums are exact in any order.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::Engine;
use weir::error::Result;

use crate::sqlite::Sqlite;
use crate::value::{Row, Value, show};

/// Views that the queries may read, as deep as three.
pub const BASE_VIEWS: [&str; 3] = [
    "CREATE VIEW v1 AS SELECT a, COUNT(*) AS n, SUM(b) AS s FROM t GROUP BY a",
    "CREATE VIEW v2 AS SELECT v1.a AS a, v1.n AS n, v1.s AS s, u.d AS d FROM v1 LEFT JOIN u ON v1.a = u.a",
    "CREATE VIEW v3 AS SELECT n, COUNT(*) AS k, MAX(d) AS m FROM v2 GROUP BY n",
];

/// A table of both engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    T,
    U,
    P,
}

/// How many more, or fewer, of a row.
pub type Diff = i64;

/// A change to a table.
#[derive(Debug, Clone)]
pub enum Change {
    /// INSERT INTO ... VALUES.
    Insert { table: Table, rows: Vec<Row> },
    /// [`Engine::insert`]; what would take away rows that are not there is left out.
    Diffs { table: Table, rows: Vec<(Row, Diff)> },
    /// A DELETE or UPDATE, in words that both engines take.
    Statement(String),
}

/// Changes with no look at the results between them.
#[derive(Debug, Clone, Default)]
pub struct Step {
    pub changes: Vec<Change>,
    /// Whether BEGIN and COMMIT stand around them. Then there are no [`Change::Diffs`].
    pub transaction: bool,
}

/// All that happens to the tables, from empty ones.
#[derive(Debug, Clone)]
pub struct Script {
    pub steps: Vec<Step>,
    /// The step before which the views are created.
    pub views_before: usize,
    /// The engine is lost now and then, and begins again with what its folder has: how, by this seed.
    pub losses: Option<u64>,
}

impl Table {
    pub const ALL: [Table; 3] = [Table::T, Table::U, Table::P];

    pub fn name(self) -> &'static str {
        match self {
            Table::T => "t",
            Table::U => "u",
            Table::P => "p",
        }
    }

    pub fn columns(self) -> [&'static str; 3] {
        match self {
            Table::T => ["a", "b", "c"],
            Table::U => ["a", "d", "e"],
            Table::P => ["id", "x", "y"],
        }
    }

    pub fn weir_definition(self) -> &'static str {
        match self {
            Table::P => "CREATE TABLE p (id INT, x INT, y VARCHAR, PRIMARY KEY (id) NOT ENFORCED)",
            other => other.sqlite_definition(),
        }
    }

    pub fn sqlite_definition(self) -> &'static str {
        match self {
            Table::T => "CREATE TABLE t (a INT, b INT, c VARCHAR)",
            Table::U => "CREATE TABLE u (a INT, d DOUBLE, e VARCHAR)",
            Table::P => "CREATE TABLE p (id INT PRIMARY KEY, x INT, y VARCHAR)",
        }
    }

    fn row(self, rng: &mut StdRng) -> Row {
        match self {
            Table::T => vec![int(rng), int(rng), text(rng)],
            Table::U => vec![int(rng), double(rng), text(rng)],
            Table::P => vec![Value::Int(rng.random_range(0..7)), int(rng), text(rng)],
        }
    }

    fn update(self, rng: &mut StdRng) -> String {
        let (k, v) = (rng.random_range(0..5), int(rng).sql());
        let texts = [text(rng).sql(), text(rng).sql()];
        let choices = match self {
            Table::T => [
                format!("UPDATE t SET b = {v} WHERE a = {k}"),
                format!("UPDATE t SET a = b, b = a WHERE c IS DISTINCT FROM {}", texts[0]),
                format!("UPDATE t SET c = {} WHERE b > {k} OR a IS NULL", texts[0]),
            ],
            Table::U => [
                format!("UPDATE u SET d = d + 0.25 WHERE a <= {k}"),
                format!("UPDATE u SET a = {v}, e = {} WHERE e = {}", texts[0], texts[1]),
                format!("UPDATE u SET d = NULL WHERE d > {k}"),
            ],
            // the key stays: what an update of it would collide with is another question
            Table::P => [
                format!("UPDATE p SET x = {v} WHERE id = {k}"),
                format!("UPDATE p SET x = id, y = {} WHERE x IS NULL OR x > {k}", texts[0]),
                format!("UPDATE p SET y = {} WHERE y IS NOT DISTINCT FROM {}", texts[0], texts[1]),
            ],
        };
        choices[rng.random_range(0..choices.len())].clone()
    }

    fn delete(self, rng: &mut StdRng) -> String {
        let [first, second, third] = self.columns();
        let name = self.name();
        match rng.random_range(0..12) {
            0 => format!("DELETE FROM {name}"),
            1..6 => format!("DELETE FROM {name} WHERE {first} = {}", rng.random_range(0..5)),
            6..8 => format!("DELETE FROM {name} WHERE {second} > {}", rng.random_range(3..5)),
            8..10 => format!("DELETE FROM {name} WHERE {third} = {}", text(rng).sql()),
            _ => format!("DELETE FROM {name} WHERE {first} IS NULL OR {second} IS NULL"),
        }
    }
}

fn int(rng: &mut StdRng) -> Value {
    if rng.random_bool(0.15) { Value::Null } else { Value::Int(rng.random_range(0..6)) }
}

fn double(rng: &mut StdRng) -> Value {
    if rng.random_bool(0.15) { Value::Null } else { Value::Double(f64::from(rng.random_range(-4..=16)) * 0.25) }
}

// lower case only: LIKE ignores case in SQLite
fn text(rng: &mut StdRng) -> Value {
    match ["", "x", "y", "xy", "z"].get(rng.random_range(0..6)) {
        Some(text) => Value::Text((*text).into()),
        None => Value::Null,
    }
}

impl Script {
    /// A random script; tables hold about `rows` rows at most.
    pub fn random(seed: u64, steps: usize, rows: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let sqlite = Sqlite::new();
        let steps = (0..steps).map(|_| random_step(&mut rng, &sqlite, rows)).collect();
        Script { steps, views_before: rng.random_range(0..3), losses: None }
    }
}

/// A random step, which has been made in SQLite when this returns.
fn random_step(rng: &mut StdRng, sqlite: &Sqlite, most: usize) -> Step {
    let transaction = rng.random_bool(0.2);
    let mut step = Step { changes: vec![], transaction };
    if transaction {
        // a table's DELETE or UPDATE comes before its INSERTs: whether it sees them is another test's question
        for table in Table::ALL {
            if rng.random_bool(0.5) {
                step.changes.push(Change::Statement(if rng.random_bool(0.5) { table.update(rng) } else { table.delete(rng) }));
            }
            if rng.random_bool(0.7) {
                step.changes.push(random_insert(rng, table));
            }
        }
    }
    let loose = if transaction { 0 } else { rng.random_range(1..=3) };
    for change in step.changes.iter_mut() {
        change.make_in_sqlite(sqlite);
    }
    for _ in 0..loose {
        let table = Table::ALL[rng.random_range(0..3)];
        let full = sqlite.table(table).len() >= most;
        let mut change = match rng.random_range(0..10) {
            _ if full => Change::Statement(table.delete(rng)),
            0..4 => random_insert(rng, table),
            4..7 => random_diffs(rng, table, &sqlite.table(table)),
            7 | 8 => Change::Statement(table.update(rng)),
            _ => Change::Statement(table.delete(rng)),
        };
        change.make_in_sqlite(sqlite);
        step.changes.push(change);
    }
    step
}

fn random_insert(rng: &mut StdRng, table: Table) -> Change {
    let count = rng.random_range(1..=5);
    Change::Insert { table, rows: (0..count).map(|_| table.row(rng)).collect() }
}

fn random_diffs(rng: &mut StdRng, table: Table, present: &[Row]) -> Change {
    let mut rows: Vec<(Row, Diff)> = vec![];
    for _ in 0..rng.random_range(1..=5) {
        let (row, diff) = match present.len() {
            n if n > 0 && rng.random_bool(0.5) => (present[rng.random_range(0..n)].clone(), -1),
            _ if table == Table::P => (table.row(rng), 1),
            _ => (table.row(rng), rng.random_range(1..=2)),
        };
        // a key is changed once in a batch
        if table != Table::P || rows.iter().all(|(other, _)| other[0] != row[0]) {
            rows.push((row, diff));
        }
    }
    Change::Diffs { table, rows }
}

impl Step {
    /// Makes the step in Weir.
    pub fn make_in_weir(&self, engine: &Engine) -> Result<()> {
        if self.transaction {
            engine.execute("BEGIN")?;
        }
        self.changes.iter().try_for_each(|change| change.make_in_weir(engine))?;
        if self.transaction { engine.execute("COMMIT").map(drop) } else { Ok(()) }
    }
}

impl Change {
    /// Makes the change in SQLite; diffs that would take away what is not there are dropped from it.
    pub fn make_in_sqlite(&mut self, sqlite: &Sqlite) {
        match self {
            Change::Statement(sql) => sqlite.execute(sql),
            Change::Insert { table, rows } => insert_in_sqlite(sqlite, *table, rows),
            Change::Diffs { table, rows } => {
                // all removals first: the batch is one step, and means the same in any order
                let removals = rows.iter().filter(|(_, diff)| *diff < 0).count();
                rows.sort_by_key(|(_, diff)| *diff > 0);
                let mut at = 0;
                rows.retain(|(row, diff)| {
                    at += 1;
                    at > removals || (*diff == -1 && sqlite.remove_one(*table, row))
                });
                for (row, diff) in rows.iter() {
                    (0..*diff).for_each(|_| insert_in_sqlite(sqlite, *table, std::slice::from_ref(row)));
                }
            }
        }
    }

    /// Makes the change in Weir.
    pub fn make_in_weir(&self, engine: &Engine) -> Result<()> {
        match self {
            Change::Statement(sql) => engine.execute(sql).map(drop),
            Change::Insert { rows, .. } if rows.is_empty() => Ok(()),
            Change::Insert { .. } => engine.execute(&self.to_string()).map(drop),
            Change::Diffs { rows, .. } if rows.is_empty() => Ok(()),
            Change::Diffs { table, rows } => {
                let schema = engine.query(&format!("SELECT * FROM {}", table.name()))?.schema();
                let (rows, diffs): (Vec<Row>, Vec<Diff>) = rows.iter().cloned().unzip();
                let columns = (0..schema.fields().len()).map(|i| Ok(cast(&column(*table, &rows, i), schema.field(i).data_type())?));
                let batch = RecordBatch::try_new(schema.clone(), columns.collect::<Result<_>>()?)?;
                engine.insert(table.name(), &batch, &diffs)
            }
        }
    }
}

fn column(table: Table, rows: &[Row], i: usize) -> ArrayRef {
    let values = rows.iter().map(|row| &row[i]);
    match (table, i) {
        (_, 2) => Arc::new(values.map(|v| if let Value::Text(text) = v { Some(text.as_str()) } else { None }).collect::<StringArray>()),
        (Table::U, 1) => {
            Arc::new(values.map(|v| if let Value::Double(number) = v { Some(*number) } else { None }).collect::<Float64Array>())
        }
        _ => Arc::new(values.map(|v| if let Value::Int(number) = v { Some(*number) } else { None }).collect::<Int64Array>()),
    }
}

fn insert_in_sqlite(sqlite: &Sqlite, table: Table, rows: &[Row]) {
    if !rows.is_empty() {
        let verb = if table == Table::P { "INSERT OR REPLACE" } else { "INSERT" };
        sqlite.execute(&format!("{verb} INTO {} VALUES {}", table.name(), literals(rows)));
    }
}

fn literals(rows: &[Row]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| format!("({})", row.iter().map(Value::sql).collect::<Vec<_>>().join(", "))).collect();
    rows.join(", ")
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Statement(sql) => f.write_str(sql),
            Change::Insert { table, rows } => write!(f, "INSERT INTO {} VALUES {}", table.name(), literals(rows)),
            Change::Diffs { table, rows } => {
                let rows: Vec<String> = rows.iter().map(|(row, diff)| format!("{} x {diff:+}", show(row))).collect();
                write!(f, "-- Engine::insert into {}: {}", table.name(), rows.join(", "))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<String> = self.changes.iter().map(|change| format!("  {change};")).collect();
        let (begin, end) = if self.transaction { ("  BEGIN;\n", "\n  COMMIT;") } else { ("", "") };
        write!(f, "{begin}{}{end}", changes.join("\n"))
    }
}
