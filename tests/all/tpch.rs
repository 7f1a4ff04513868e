//! The queries of `queries/tpch`, all at once over the same tables, beside SQLite: after the load, and after orders have come
//! and gone.
//!
//! At so small a scale, with ten suppliers, some of them would have no rows with the benchmark's own parameters. They are given
//! others ([`LOOSER`]), in both engines.

use std::path::Path;

use regex::{Captures, Regex};
use rusqlite::{Connection, params_from_iter};
use weir::Engine;
use weir::cli::bench::tpch::{Rows, TABLES, Transaction, load, transactions};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;

use crate::sqlite::read;
use crate::value::{Row, Value, rows, show};

const QUERIES: usize = 22;
const SCALE: f64 = 0.001;

/// What of a query is replaced by what.
const LOOSER: &[(usize, &str, &str)] = &[
    (2, "p.p_size = 15", "p.p_size <= 25"),
    (5, "'ASIA'", "'AFRICA'"),
    (7, "'FRANCE'", "'PERU'"),
    (7, "'GERMANY'", "'KENYA'"),
    (8, "'BRAZIL'", "'PERU'"),
    (8, "= 'ECONOMY ANODIZED STEEL'", "LIKE '%STEEL'"),
    (11, "'GERMANY'", "'PERU'"),
    (11, "0.0001", "0.01"),
    (17, "0.2 * AVG", "0.7 * AVG"),
    (17, "p.p_brand = 'Brand#23' AND p.p_container = 'MED BOX'", "p.p_container LIKE '%BOX'"),
    (18, "> 300", "> 230"),
    (19, "p.p_brand = 'Brand#12' AND", ""),
    (19, "p.p_brand = 'Brand#23' AND", ""),
    (19, "p.p_brand = 'Brand#34' AND", ""),
    (20, "'CANADA'", "'PERU'"),
    (20, "'forest%'", "'%forest%'"),
    (21, "'SAUDI ARABIA'", "'PERU'"),
];

/// A query's page with its looser parameters.
fn page(number: usize) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("queries/tpch/q{number}.sql"));
    let mut page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (_, from, to) in LOOSER.iter().filter(|(query, _, _)| *query == number) {
        assert!(page.contains(from), "q{number} does not say {from}");
        page = page.replace(from, to);
    }
    page
}

/// The same question in SQLite's words. Its numbers are doubles: 0.06 + 0.01 is less than 0.07 there.
fn in_sqlite(page: &str) -> String {
    let (_, query) = page.split_once(" AS\n").expect("a view is of a query");
    let date = Regex::new(r"DATE '([0-9-]+)'(?: ([+-]) INTERVAL '(\d+)' (\w+))?").expect("a pattern");
    let moved = |found: &Captures<'_>| match found.get(2) {
        None => format!("'{}'", &found[1]),
        Some(sign) => format!("date('{}', '{}{} {}')", &found[1], sign.as_str(), &found[3], found[4].to_lowercase()),
    };
    let year = Regex::new(r"EXTRACT\(YEAR FROM ([\w.]+)\)").expect("a pattern");
    let query = date.replace_all(query, moved);
    let query = year.replace_all(&query, "CAST(strftime('%Y', $1) AS INTEGER)");
    query.replace("0.06 - 0.01", "0.05").replace("0.06 + 0.01", "0.07").trim_end().trim_end_matches(';').to_owned()
}

/// Both engines, with the same rows.
struct Both {
    weir: Engine,
    sqlite: Connection,
}

impl Both {
    fn new(workers: usize) -> Self {
        let sqlite = Connection::open_in_memory().expect("SQLite opens a database in memory");
        let tables = TABLES.replace(" NOT ENFORCED", "").replace("DECIMAL(15, 2)", "REAL").replace(" DATE", " TEXT");
        sqlite.execute_batch(&tables).expect("SQLite makes tables");
        sqlite
            .execute_batch("CREATE INDEX by_part ON lineitem (l_partkey); CREATE INDEX by_customer ON orders (o_custkey)")
            .expect("indexes");
        sqlite.execute_batch("PRAGMA case_sensitive_like = ON").expect("a setting");
        let weir = Engine::builder().workers(workers).build().expect("an engine");
        weir.execute(TABLES).expect("tables");
        for number in 1..=QUERIES {
            weir.execute(&page(number)).unwrap_or_else(|error| panic!("q{number}: {error}"));
        }
        Both { weir, sqlite }
    }

    fn insert(&self, all: &[Rows]) {
        for Rows { table, rows: batch } in all {
            self.weir.insert(table, batch, &vec![1; batch.num_rows()]).unwrap_or_else(|error| panic!("{table}: {error}"));
            // At so small a scale a supplier offers some part twice: the later row replaces the other.
            let places = vec!["?"; batch.num_columns()].join(", ");
            let mut statement =
                self.sqlite.prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES ({places})")).expect("an INSERT");
            for row in rows(batch) {
                statement.execute(params_from_iter(row.iter().map(bound))).expect("SQLite takes a row");
            }
        }
    }

    fn delete(&self, all: &[Rows]) {
        for Rows { table, rows: batch } in all {
            self.weir.insert(table, batch, &vec![-1; batch.num_rows()]).unwrap_or_else(|error| panic!("{table}: {error}"));
            let key = batch.schema().field(0).name().clone();
            for row in rows(batch) {
                self.sqlite.execute(&format!("DELETE FROM {table} WHERE {key} = ?"), [bound(&row[0])]).expect("SQLite deletes");
            }
        }
    }

    /// How a query's results differ.
    fn difference(&self, number: usize) -> Option<String> {
        let weir = match self.weir.query(&format!("SELECT * FROM q{number}")) {
            Ok(rows) => rows,
            Err(error) => return Some(format!("q{number}: {error}")),
        };
        let sql = in_sqlite(&page(number));
        let mut statement = self.sqlite.prepare(&sql).unwrap_or_else(|error| panic!("SQLite refuses q{number}: {error}\n{sql}"));
        let width = statement.column_count();
        let expected = statement.query_map([], |row| (0..width).map(|i| row.get_ref(i).map(read)).collect());
        let expected: Vec<Row> = expected.and_then(Iterator::collect).unwrap_or_else(|error| panic!("SQLite fails on q{number}: {error}"));
        let is_empty = expected.iter().flatten().all(|value| matches!(value, Value::Null));
        if is_empty {
            return Some(format!("q{number} has no rows to compare"));
        }
        difference(&weir, &expected).map(|difference| format!("q{number}: {difference}"))
    }

    fn check(&self, when: &str) {
        let differences: Vec<String> = (1..=QUERIES).filter_map(|number| self.difference(number)).collect();
        assert!(differences.is_empty(), "{when}:\n{}", differences.join("\n"));
    }
}

fn bound(value: &Value) -> rusqlite::types::Value {
    match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Int(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Text(text) => text.clone().into(),
    }
}

/// How a result differs from what it has to be. A DECIMAL may differ by a unit of its last digit: SQLite has doubles, and a
/// quotient is cut somewhere.
fn difference(got: &RecordBatch, expected: &[Row]) -> Option<String> {
    let unit = |data_type: &DataType| match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => 10f64.powi(-i32::from(*scale)),
        _ => 0.0,
    };
    let units: Vec<f64> = got.schema().fields().iter().map(|field| unit(field.data_type())).collect();
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        Value::Null | Value::Text(_) => None,
    };
    let is_like = |(a, (b, unit)): (&Value, (&Value, &f64))| match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= unit * 1.01 + 1e-9 * a.abs().max(b.abs()),
        _ => a == b,
    };
    // By what is exact first, so that rows that are equal stand at the same place.
    let place = |row: &Row| -> String {
        let texts = row.iter().filter(|value| number(value).is_none()).map(show_one);
        let numbers = row.iter().filter_map(number).map(|number| format!("{:+.5e}", number));
        texts.chain(numbers).collect::<Vec<_>>().join("\u{1f}")
    };
    let sorted = |mut rows: Vec<Row>| {
        rows.sort_by_cached_key(place);
        rows
    };
    let (got, expected) = (sorted(rows(got)), sorted(expected.to_vec()));
    if got.len() != expected.len() {
        return Some(format!("{} rows where {} are due", got.len(), expected.len()));
    }
    let same = |(a, b): &(&Row, &Row)| a.len() == b.len() && a.iter().zip(b.iter().zip(&units)).all(is_like);
    let (got, expected) = got.iter().zip(&expected).find(|pair| !same(pair))?;
    Some(format!("{} where {} is due", show(got), show(expected)))
}

fn show_one(value: &Value) -> String {
    show(std::slice::from_ref(value))
}

fn stays_right(workers: usize) {
    let both = Both::new(workers);
    both.sqlite.execute_batch("BEGIN").expect("SQLite begins");
    for piece in load(SCALE) {
        both.insert(&piece.expect("rows of the benchmark"));
    }
    both.check("after the load");
    for transaction in transactions(SCALE) {
        let Transaction { comes, goes } = transaction.expect("rows of the benchmark");
        both.weir.execute("BEGIN").expect("a transaction begins");
        both.insert(&comes);
        both.delete(&goes);
        both.weir.execute("COMMIT").expect("a transaction ends");
    }
    both.check("after orders have come and gone");
}

#[test]
fn every_query_of_tpch_is_what_sqlite_answers_before_and_after_orders_come_and_go() {
    stays_right(1);
}

#[test]
fn two_workers_answer_tpch_as_sqlite_does() {
    stays_right(2);
}
