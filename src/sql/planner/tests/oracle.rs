//! Queries through names, rules and lowering, evaluated by the reference evaluator, against SQLite.

use std::collections::{BTreeMap, HashMap};

use datafusion_common::ScalarValue;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rusqlite::types::Value;

use super::reference::{Bag, Row, evaluate};
use super::*;

/// Rows of `t(a, b, s)`, which are those of `log` too, `u(a, c, s)`, `n(k, v)`: few values, so that there are matches, duplicates and NULLs.
struct Data {
    t: Vec<[Option<i32>; 3]>,
    u: Vec<[Option<i32>; 3]>,
    n: Vec<[Option<i32>; 2]>,
}

impl Data {
    fn random(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut value = |nulls: bool| if nulls && random.random_bool(0.2) { None } else { Some(random.random_range(0..4)) };
        let sizes = [0, 1, 5, 9, 14];
        let size = |shift: u64| sizes[((seed + shift) % 5) as usize];
        let nulls = seed % 3 != 2;
        Data {
            t: (0..size(0)).map(|_| [value(nulls), value(nulls), value(nulls)]).collect(),
            u: (0..size(2)).map(|_| [value(nulls), value(nulls), value(nulls)]).collect(),
            n: (0..size(3)).map(|_| [value(false), value(nulls)]).collect(),
        }
    }

    fn bags(&self) -> HashMap<RelationId, Bag> {
        let int = |v: &Option<i32>| ScalarValue::Int32(*v);
        let text = |v: &Option<i32>| ScalarValue::Utf8(v.map(|v| format!("s{v}")));
        let three = |rows: &[[Option<i32>; 3]]| count(rows.iter().map(|r| vec![int(&r[0]), int(&r[1]), text(&r[2])]));
        let two = count(self.n.iter().map(|r| vec![int(&r[0]), int(&r[1])]));
        let tables = tables();
        let id = |name: &str| match tables.0[name].plan.node() {
            Node::Get { id, .. } => *id,
            other => panic!("{other:?} is no table"),
        };
        HashMap::from([(id("t"), three(&self.t)), (id("log"), three(&self.t)), (id("u"), three(&self.u)), (id("n"), two)])
    }

    fn sqlite(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open_in_memory().expect("SQLite");
        db.execute_batch("CREATE TABLE t(a INT, b INT, s TEXT); CREATE TABLE u(a INT, c INT, s TEXT); CREATE TABLE n(k INT, v INT); CREATE VIEW log AS SELECT * FROM t")
            .expect("tables");
        let text = |v: &Option<i32>| v.map(|v| format!("s{v}"));
        for r in &self.t {
            db.execute("INSERT INTO t VALUES (?, ?, ?)", (r[0], r[1], text(&r[2]))).expect("a row");
        }
        for r in &self.u {
            db.execute("INSERT INTO u VALUES (?, ?, ?)", (r[0], r[1], text(&r[2]))).expect("a row");
        }
        for r in &self.n {
            db.execute("INSERT INTO n VALUES (?, ?)", (r[0], r[1])).expect("a row");
        }
        db
    }
}

fn count(rows: impl Iterator<Item = Row>) -> Bag {
    let mut bag = Bag::new();
    rows.for_each(|row| *bag.entry(row).or_default() += 1);
    bag
}

fn ours(sql: &str, tables: &HashMap<RelationId, Bag>) -> BTreeMap<String, i64> {
    let planned = maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut shown = BTreeMap::new();
    for (row, diff) in evaluate(&planned.plan, tables) {
        *shown.entry(row.iter().map(show).collect::<Vec<_>>().join(" | ")).or_default() += diff;
    }
    shown
}

fn show(value: &ScalarValue) -> String {
    match value {
        value if value.is_null() => "NULL".into(),
        ScalarValue::Boolean(Some(value)) => i32::from(*value).to_string(),
        ScalarValue::Float64(Some(value)) => format!("{value:.6}"),
        other => other.to_string(),
    }
}

fn theirs(sql: &str, db: &rusqlite::Connection) -> BTreeMap<String, i64> {
    let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let width = statement.column_count();
    let mut rows = statement.query(()).expect("a query");
    let mut shown = BTreeMap::new();
    while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
        let cells = (0..width).map(|at| match row.get::<_, Value>(at).expect("a value") {
            Value::Null => "NULL".into(),
            Value::Integer(value) => value.to_string(),
            Value::Real(value) => format!("{value:.6}"),
            Value::Text(value) => value,
            Value::Blob(value) => format!("{value:?}"),
        });
        *shown.entry(cells.collect::<Vec<_>>().join(" | ")).or_default() += 1;
    }
    shown
}

fn agree(queries: &[&str]) {
    for seed in 0..15 {
        let data = Data::random(seed);
        let (tables, db) = (data.bags(), data.sqlite());
        for sql in queries {
            assert_eq!(ours(sql, &tables), theirs(sql, &db), "{sql} with seed {seed}\nt {:?}\nu {:?}\nn {:?}", data.t, data.u, data.n);
        }
    }
}

#[test]
fn filters_and_projections_agree_with_sqlite() {
    agree(&[
        "SELECT a, b FROM t",
        "SELECT a + b, a * 2 FROM t WHERE a > b OR s = 's1'",
        "SELECT x FROM (SELECT a + 1 AS x, b FROM t WHERE a > 0) AS q WHERE b < 3",
        "SELECT CASE WHEN a > 1 THEN 'big' WHEN a IS NULL THEN 'none' ELSE s END FROM t",
        "SELECT a FROM t WHERE a IN (1, 2, 3) AND b NOT IN (2)",
        "SELECT COALESCE(a, b, -1), NULLIF(a, b) FROM t",
        "SELECT a FROM t WHERE a BETWEEN 1 AND 2 AND s LIKE 's%'",
        "SELECT 1 + 1, 'x'",
        "SELECT * FROM (VALUES (1, 'x'), (2, NULL), (1, 'x')) AS q",
        "WITH q AS (SELECT a, b FROM t WHERE a > 1) SELECT x.a, y.b FROM q AS x JOIN q AS y ON x.a = y.a",
    ]);
}

#[test]
fn joins_agree_with_sqlite() {
    agree(&[
        "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a",
        "SELECT t.a, u.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a",
        "SELECT t.a, u.a, t.b, u.c FROM t RIGHT JOIN u ON t.a = u.a",
        "SELECT t.a, u.a, t.b, u.c FROM t FULL JOIN u ON t.a = u.a",
        "SELECT t.a, u.a, t.b, u.c FROM t FULL JOIN u ON t.a = u.a AND t.s = u.s",
        "SELECT t.a, n.k, n.v FROM t FULL JOIN n ON t.a = n.k",
        "SELECT t.a, u.c FROM t, u",
        "SELECT t.a, u.c FROM t JOIN u ON t.a = u.a AND t.b < u.c",
        "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b < u.c",
        "SELECT t.a, t.b, u.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b < u.c AND t.b > 1 AND u.c < 3",
        "SELECT t.a, t.b, u.a, u.c FROM t LEFT JOIN u ON t.b > 1",
        "SELECT t.a, t.b, u.a, u.c FROM t RIGHT JOIN u ON t.a = u.a AND t.b < u.c AND u.c > 1",
        "SELECT t.a, t.b, u.a, u.c FROM t FULL JOIN u ON t.a = u.a AND t.b < u.c",
        "SELECT t.a, t.b, u.a, u.c FROM t FULL JOIN u ON t.a < u.a",
        "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a + 1 = u.a * 2",
        "SELECT x.b, y.b, z.c FROM t AS x JOIN t AS y ON x.a = y.b LEFT JOIN u AS z ON z.a = y.a AND z.c = x.b",
        "SELECT COUNT(*) FROM t LEFT JOIN u ON t.a = u.a",
        "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE u.c IS NULL OR u.c > 1",
        "SELECT t.s FROM t JOIN n ON t.a = n.k JOIN u ON u.a = n.v WHERE t.b > 0",
        "SELECT x.a FROM t AS x JOIN t AS y ON x.a IS NOT DISTINCT FROM y.a",
        "SELECT x.a, y.b FROM t AS x FULL JOIN t AS y ON x.a IS NOT DISTINCT FROM y.b",
    ]);
}

#[test]
fn aggregates_agree_with_sqlite() {
    agree(&[
        "SELECT COUNT(*), COUNT(a), SUM(a), AVG(a), MIN(a), MAX(a) FROM t",
        "SELECT a, COUNT(*), COUNT(b), SUM(b), AVG(b), MIN(b), MAX(b), MIN(s), MAX(s) FROM t GROUP BY a",
        "SELECT a, b, COUNT(*) FROM t GROUP BY a, b HAVING COUNT(*) > 1",
        "SELECT COUNT(DISTINCT a), SUM(DISTINCT b), AVG(DISTINCT b) FROM t",
        "SELECT a, COUNT(DISTINCT b), COUNT(DISTINCT s), SUM(DISTINCT b), COUNT(*) FROM t GROUP BY a",
        "SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a",
        "SELECT a, COUNT(*) FILTER (WHERE b > 1), SUM(b) FILTER (WHERE s = 's1'), MIN(b) FILTER (WHERE b > 1), MAX(b) FILTER (WHERE b < 2) FROM t GROUP BY a",
        "SELECT a, COUNT(DISTINCT b) FILTER (WHERE b > 1), AVG(DISTINCT b) FILTER (WHERE b > 0) FROM t GROUP BY a",
        "SELECT a, COUNT(DISTINCT b), COUNT(DISTINCT b) FILTER (WHERE b > 1), SUM(DISTINCT b) FILTER (WHERE s = 's1'), COUNT(DISTINCT b) FILTER (WHERE s = 's1') FROM t GROUP BY a",
        "SELECT COUNT(DISTINCT b) FILTER (WHERE b > 1), SUM(DISTINCT b) FILTER (WHERE s = 's1'), COUNT(DISTINCT s) FILTER (WHERE b > 1), COUNT(DISTINCT s) FROM t",
        "SELECT MIN(a), MAX(a), MIN(b), MAX(s), COUNT(*) FROM log",
        "SELECT a, MIN(b), MAX(b), MAX(b) FILTER (WHERE s = 's1'), MIN(60 / b) FILTER (WHERE b <> 0), SUM(b) FROM log WHERE b < 3 GROUP BY a",
        "SELECT a, MAX(c) FROM (SELECT log.a, u.c FROM log JOIN u ON log.a = u.a) AS q GROUP BY a",
        "SELECT a + 1, SUM(b * 2) + 1 FROM t GROUP BY a + 1",
        "SELECT SUM(b) FROM t WHERE a > 100",
        "SELECT a, SUM(b) FROM t WHERE a > 100 GROUP BY a",
        "SELECT a, STRING_AGG(s, ',' ORDER BY s) FROM t GROUP BY a",
        "SELECT a, STRING_AGG(s, ',' ORDER BY s DESC) FILTER (WHERE b > 0), SUM(b) FROM t GROUP BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT DISTINCT a, b FROM t",
        "SELECT COUNT(*) FROM (SELECT DISTINCT a, s FROM t) AS q",
        "SELECT MAX(n) FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS q",
        "SELECT u.s, SUM(t.b) FROM t JOIN u ON t.a = u.a GROUP BY u.s",
    ]);
}

#[test]
fn subqueries_agree_with_sqlite() {
    agree(&[
        "SELECT a, b FROM t WHERE a IN (SELECT a FROM u)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT a FROM u)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT k FROM n)",
        "SELECT k, v FROM n WHERE k NOT IN (SELECT a FROM t)",
        "SELECT k FROM n WHERE k NOT IN (SELECT v FROM n)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT u.a FROM u WHERE u.c = t.b)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT u.a FROM u WHERE u.c > t.b)",
        "SELECT a, b FROM t WHERE a IN (SELECT u.a FROM u WHERE u.c = t.b)",
        "SELECT a, b FROM t WHERE a + 1 NOT IN (SELECT u.a + 1 FROM u WHERE u.s = t.s)",
        "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
        "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
        "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b)",
        "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b AND t.b > 1)",
        "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c > 2)",
        "SELECT a, b FROM t WHERE a = 1 OR b IN (SELECT c FROM u)",
        "SELECT a, b FROM t WHERE a = 1 OR b NOT IN (SELECT c FROM u)",
        "SELECT a, b FROM t WHERE NOT (a = 1 AND b IN (SELECT c FROM u))",
        "SELECT a, b FROM t WHERE a = 1 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.b)",
        "SELECT a, b IN (SELECT c FROM u) FROM t",
        "SELECT a, b NOT IN (SELECT c FROM u WHERE u.a = t.a) FROM t",
        "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) FROM t",
        "SELECT a, NOT EXISTS (SELECT 1 FROM u WHERE u.c > 2) FROM t",
        "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = t.a) THEN 1 ELSE b END FROM t",
        "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a) FROM t",
        "SELECT a, (SELECT SUM(c) FROM u WHERE u.a = t.a) FROM t",
        "SELECT a, (SELECT MAX(c) FROM u) FROM t",
        "SELECT a, (SELECT COUNT(*) FROM u WHERE u.a = t.a) + (SELECT COUNT(*) FROM n WHERE n.k = t.b) FROM t",
        "SELECT a FROM t WHERE b > (SELECT AVG(c) FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a) = 0",
        "SELECT a FROM t WHERE b = (SELECT MAX(c) FROM u)",
        "SELECT a, b FROM t WHERE a IN (SELECT MAX(c) FROM u WHERE u.a = t.b)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT MAX(c) FROM u WHERE u.a = t.b)",
        "SELECT a, b FROM t WHERE EXISTS (SELECT MAX(c) FROM u WHERE u.a = t.b)",
        "SELECT a, (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC, s LIMIT 1) FROM t",
        "SELECT a, SUM(b + (SELECT COUNT(*) FROM u)) FROM t GROUP BY a",
        "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > (SELECT COUNT(*) FROM n WHERE n.k = t.a)",
        "SELECT t.a, u.c FROM t JOIN u ON t.a = u.a AND t.b = (SELECT MIN(v) FROM n)",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE c IN (SELECT v FROM n WHERE n.k = u.a))",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND NOT EXISTS (SELECT 1 FROM n WHERE n.k = u.c))",
        "SELECT a, b FROM t WHERE a IN (SELECT a FROM u UNION SELECT k FROM n)",
        "SELECT a, b FROM t WHERE a NOT IN (SELECT DISTINCT a FROM u)",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u GROUP BY a HAVING COUNT(*) > 1)",
        "SELECT q.a, q.n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS q WHERE q.n >= (SELECT MAX(c) FROM u)",
        "SELECT a, b FROM t WHERE NULL IN (SELECT c FROM u)",
        "SELECT a, b FROM t WHERE NULL NOT IN (SELECT c FROM u)",
        "SELECT a, b FROM t WHERE 2 NOT IN (SELECT c FROM u WHERE u.a = t.a)",
    ]);
}

#[test]
fn combinations_agree_with_sqlite() {
    agree(&[
        "SELECT * FROM t LEFT JOIN u USING (a)",
        "SELECT * FROM t NATURAL JOIN u",
        "SELECT a FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE u.a = t.a HAVING COUNT(*) > 1)",
        "SELECT a FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE u.a = t.a HAVING COUNT(*) = 0)",
        "SELECT a FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a HAVING COUNT(*) = 0) = 0",
        "SELECT a, (SELECT SUM(c) FROM u WHERE u.a = t.a AND u.c > 1) FROM t WHERE b IS NOT NULL",
        "SELECT a FROM t WHERE b IN (SELECT DISTINCT c FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE EXISTS (SELECT a FROM u WHERE u.a = t.a GROUP BY a HAVING SUM(c) > 2)",
        "SELECT a FROM t WHERE b > (SELECT MIN(c) FROM u WHERE u.a = t.a GROUP BY u.a)",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a LIMIT 1)",
        "SELECT a FROM t WHERE a IN (SELECT c FROM u ORDER BY c, s LIMIT 2)",
        "SELECT a FROM t WHERE a NOT IN (SELECT c FROM u ORDER BY c, s LIMIT 2)",
        "SELECT t.a, (SELECT MAX(u.c) FROM u WHERE u.a = t.a) AS m FROM t ORDER BY m, t.a, t.b LIMIT 4",
        "SELECT q.m, COUNT(*) FROM (SELECT a, (SELECT MAX(u.c) FROM u WHERE u.a = t.a) AS m FROM t) AS q GROUP BY q.m",
        "SELECT (SELECT COUNT(*) FROM t), (SELECT MAX(c) FROM u)",
        "SELECT a, COUNT(*) FROM t WHERE a IN (SELECT a FROM u) OR b IN (SELECT k FROM n) GROUP BY a",
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE a IN (SELECT c FROM u)) FROM t",
        "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = t.a) THEN 1 ELSE 0 END) FROM t",
        "SELECT t.a FROM t LEFT JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) AS q ON t.a = q.a WHERE COALESCE(q.n, 0) < 2",
        "SELECT t.a, q.n FROM t LEFT JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) AS q ON t.a = q.a AND q.n > 1",
        "SELECT SUM(a), SUM(a), a FROM t GROUP BY a ORDER BY 3",
        "SELECT a, b FROM (SELECT a, b FROM t WHERE a = 1 UNION ALL SELECT a, c FROM u) AS q WHERE b > 1 AND a > 0",
        "WITH p AS (SELECT a, b FROM t), q AS (SELECT a, COUNT(*) AS n FROM p GROUP BY a) SELECT p.b, q.n FROM p LEFT JOIN q ON p.a = q.a WHERE q.n > 1",
        "SELECT t.a, u.c, n.v FROM t LEFT JOIN u ON t.a = u.a FULL JOIN n ON n.k = u.c",
        "SELECT t.a, n.v FROM t LEFT JOIN n ON t.a = n.k WHERE n.k IS NULL",
        "SELECT a, a, b FROM t",
        "SELECT CAST(a AS INT), a, CAST(a AS BIGINT) FROM t",
        "SELECT a FROM t WHERE b > (SELECT MAX(c) FROM u WHERE u.a = t.a HAVING COUNT(*) > 1)",
        "SELECT a FROM t WHERE a > 1 AND NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.s = t.s) AND b IN (SELECT k FROM n)",
        "SELECT x.a FROM t AS x WHERE x.b = (SELECT MAX(y.b) FROM t AS y WHERE y.a = x.a)",
        "SELECT a, b FROM t WHERE NOT (b IN (SELECT c FROM u) OR a IN (SELECT k FROM n))",
        "SELECT CASE WHEN a IN (SELECT c FROM u) THEN 'in' WHEN a NOT IN (SELECT c FROM u) THEN 'out' ELSE 'unknown' END FROM t",
        "SELECT a FROM t WHERE (a IN (SELECT c FROM u)) IS NULL",
        "SELECT a FROM t WHERE (b > 1) = (a IN (SELECT c FROM u))",
        "SELECT a, (SELECT q.c FROM (SELECT c, ROW_NUMBER() OVER (ORDER BY c, s) AS rn FROM u) AS q WHERE q.rn = 1) FROM t",
        "SELECT DISTINCT x.a, COUNT(*) OVER (PARTITION BY x.a) FROM t AS x LEFT JOIN u ON x.a = u.a",
        "SELECT a, MAX(b) - MIN(b) FROM t GROUP BY a ORDER BY 2 DESC, 1 LIMIT 2",
        "SELECT COUNT(*) FROM (SELECT a FROM t ORDER BY a LIMIT 5) AS q WHERE a > 0",
        "SELECT t.a FROM t JOIN u ON t.a = u.a OR t.b = u.c",
        "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a OR t.b = u.c",
        "SELECT 1 FROM t GROUP BY a",
        "SELECT 'x', COUNT(*) FROM t GROUP BY 1",
        "SELECT a, a, b FROM t",
        "SELECT COUNT(*) FROM t AS x JOIN t AS y ON x.a = y.a JOIN t AS z ON y.b = z.b",
        "SELECT MAX(a), MIN(a), MAX(s), COUNT(*) FROM t HAVING COUNT(*) > 2",
        "SELECT a FROM t WHERE a NOT IN (SELECT k FROM n WHERE k IS NULL)",
        "SELECT a / 2, a % 2, -a, ABS(a - 2), ROUND(a / 2.0) FROM t",
        "SELECT UPPER(s), LENGTH(s), SUBSTR(s, 2), s || 'x' FROM t",
        "SELECT t.a FROM t CROSS JOIN (SELECT MAX(c) AS m FROM u) AS q WHERE t.b < q.m",
        "SELECT a, rn FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY a, b, s) AS rn FROM t) AS q WHERE rn > 2",
        "SELECT a, rn FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY a, b, s) + 1 AS rn FROM t) AS q WHERE rn <= 3",
        "SELECT s, n FROM (SELECT s, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM t GROUP BY s) AS q WHERE r <= 2",
    ]);
}

#[test]
fn set_operations_agree_with_sqlite() {
    agree(&[
        "SELECT a FROM t UNION ALL SELECT c FROM u",
        "SELECT a, b FROM t UNION SELECT a, c FROM u",
        "SELECT a FROM t INTERSECT SELECT c FROM u",
        "SELECT a FROM t EXCEPT SELECT c FROM u",
        "SELECT a FROM t EXCEPT SELECT c FROM u WHERE c > 1 UNION ALL SELECT k FROM n",
        "SELECT s FROM t UNION ALL SELECT s FROM u UNION SELECT 'x'",
        "SELECT a, 1 FROM t UNION ALL SELECT c, 2 FROM u WHERE c > (SELECT MIN(v) FROM n)",
        "SELECT a, COUNT(*) FROM (SELECT a FROM t UNION ALL SELECT c FROM u) AS q GROUP BY a",
    ]);
}

#[test]
fn bag_operations_agree_with_counting() {
    // SQLite has no EXCEPT ALL; numbering the copies of a row and taking plain sets says the same.
    let copies = |table: &str, column: &str| format!("SELECT {column}, ROW_NUMBER() OVER (PARTITION BY {column}) FROM {table}");
    for seed in 0..15 {
        let data = Data::random(seed);
        let (tables, db) = (data.bags(), data.sqlite());
        for op in ["EXCEPT", "INTERSECT"] {
            let mine = ours(&format!("SELECT a FROM t {op} ALL SELECT c FROM u"), &tables);
            let with = format!("SELECT a FROM ({} {op} {})", copies("t", "a"), copies("u", "c"));
            assert_eq!(mine, theirs(&with, &db), "{op} ALL with seed {seed}");
        }
    }
}

#[test]
fn orders_limits_and_windows_agree_with_sqlite() {
    agree(&[
        "SELECT * FROM (SELECT a, b, s FROM t ORDER BY a, b, s LIMIT 3) AS q",
        "SELECT * FROM (SELECT a, b, s FROM t ORDER BY b DESC, a, s LIMIT 2 OFFSET 1) AS q",
        "SELECT a, b, s FROM t ORDER BY a + b, a, b, s LIMIT 4",
        "SELECT b, s FROM t ORDER BY a DESC, b, s LIMIT 4",
        "SELECT a, b, s FROM t ORDER BY a DESC NULLS FIRST, b ASC NULLS LAST, s LIMIT 3",
        "SELECT a, b, s, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, s) AS rn FROM t) AS q WHERE rn <= 2",
        "SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, s) AS rn FROM t) AS q WHERE rn BETWEEN 2 AND 3",
        "SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, s) AS rn FROM t) AS q WHERE rn = 1 AND b > 0",
        "SELECT a, b, r FROM (SELECT *, RANK() OVER (PARTITION BY a ORDER BY b) AS r FROM t) AS q WHERE r < 3",
        "SELECT a, b, r FROM (SELECT *, RANK() OVER (PARTITION BY a ORDER BY b) AS r FROM t) AS q WHERE r > 1 AND r < 4",
        "SELECT a, b, r FROM (SELECT *, DENSE_RANK() OVER (ORDER BY b) AS r FROM t) AS q WHERE r <= 2",
        "SELECT a, b, r, m FROM (SELECT *, DENSE_RANK() OVER (PARTITION BY a ORDER BY b) AS r, MAX(b) OVER (PARTITION BY a) AS m FROM t) AS q WHERE r <= 2 AND m > 1",
        "SELECT a, b, SUM(b) OVER (PARTITION BY a) FROM t",
        "SELECT a, b, SUM(b) OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT a, b, s, COUNT(*) OVER (ORDER BY a, b, s ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t",
        "SELECT a, b, MIN(b) OVER (PARTITION BY a ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WHERE b IS NOT NULL",
        "SELECT a, b, s, LAG(b) OVER (PARTITION BY a ORDER BY b, s), LEAD(b, 1, 9) OVER (PARTITION BY a ORDER BY b DESC, s) FROM (SELECT DISTINCT a, b, s FROM t) AS t",
        "SELECT a, b, FIRST_VALUE(b) OVER (PARTITION BY a ORDER BY b), LAST_VALUE(b) OVER (PARTITION BY a ORDER BY b) FROM t",
        "SELECT a, RANK() OVER (ORDER BY a), DENSE_RANK() OVER (ORDER BY a DESC), NTILE(2) OVER (ORDER BY a) FROM t",
        "SELECT a, SUM(n) OVER (ORDER BY a) FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS q",
        "SELECT a, COUNT(*) FILTER (WHERE b > 1) OVER (PARTITION BY a) FROM t",
        "SELECT x.a, y.rn FROM t AS x JOIN (SELECT a, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c, s) AS rn FROM u) AS y ON x.a = y.a WHERE y.rn <= 1",
    ]);
}

#[test]
fn grouping_sets_agree_with_a_union_of_groupings() {
    for seed in 0..15 {
        let data = Data::random(seed);
        let (tables, db) = (data.bags(), data.sqlite());
        let pairs = [
            (
                "SELECT a, b, GROUPING(a), GROUPING(b), COUNT(*), SUM(b), MAX(s) FROM t GROUP BY GROUPING SETS ((a, b), (a), ())",
                "SELECT a, b, 0, 0, COUNT(*), SUM(b), MAX(s) FROM t GROUP BY a, b UNION ALL SELECT a, NULL, 0, 1, COUNT(*), SUM(b), MAX(s) FROM t GROUP BY a
                 UNION ALL SELECT NULL, NULL, 1, 1, COUNT(*), SUM(b), MAX(s) FROM t",
            ),
            (
                "SELECT a, b, COUNT(DISTINCT s), MIN(s) FROM t GROUP BY CUBE (a, b)",
                "SELECT a, b, COUNT(DISTINCT s), MIN(s) FROM t GROUP BY a, b UNION ALL SELECT a, NULL, COUNT(DISTINCT s), MIN(s) FROM t GROUP BY a
                 UNION ALL SELECT NULL, b, COUNT(DISTINCT s), MIN(s) FROM t GROUP BY b UNION ALL SELECT NULL, NULL, COUNT(DISTINCT s), MIN(s) FROM t",
            ),
            ("SELECT a FROM t GROUP BY ROLLUP (a)", "SELECT * FROM (SELECT a FROM t GROUP BY a) UNION ALL SELECT NULL"),
            (
                "SELECT a, s, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (a), (s))",
                "SELECT a, NULL, COUNT(*) FROM t GROUP BY a UNION ALL SELECT a, NULL, COUNT(*) FROM t GROUP BY a UNION ALL SELECT NULL, s, COUNT(*) FROM t GROUP BY s",
            ),
            (
                "SELECT a, b, COUNT(*) FROM t GROUP BY a, ROLLUP (b)",
                "SELECT a, b, COUNT(*) FROM t GROUP BY a, b UNION ALL SELECT a, NULL, COUNT(*) FROM t GROUP BY a",
            ),
            ("SELECT DISTINCT ON (a) a, b, s FROM t ORDER BY a, b DESC, s", "SELECT a, b, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, s) AS rn FROM t) WHERE rn = 1"),
        ];
        for (mine, other) in pairs {
            assert_eq!(ours(mine, &tables), theirs(other, &db), "{mine} with seed {seed}");
        }
    }
}
