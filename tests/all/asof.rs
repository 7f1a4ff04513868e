//! As-of and temporal joins: after any changes of either side a view is what SQLite computes, which looks up the nearest
//! row of each left row by a correlated subquery.
//!
//! Domains are small, so that times and keys meet, are NULL, and rows are there several times. Rows come in any order of
//! their times; rows of both sides are deleted and moved in time.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::{Clock, Engine};

use crate::both::{Both, both};
use crate::kept::Kept;
use crate::published::{Published, again};
use crate::sqlite::Sqlite;
use crate::value::{self, difference};

/// How much there is in a run.
#[derive(Clone, Copy)]
struct Size {
    steps: usize,
    /// Times and keys are below these.
    times: i64,
    keys: i64,
    /// Rows of one INSERT, and changes of one step, are fewer than these.
    rows: usize,
    changes: usize,
    /// How many of the queries are views.
    views: usize,
}

const SMALL: Size = Size { steps: 8, times: 60, keys: 3, rows: 8, changes: 6, views: usize::MAX };
/// Big batches of few keys.
const LARGE: Size = Size { steps: 5, times: 300, keys: 2, rows: 80, changes: 12, views: 4 };

/// The nearest row of `table` to a left row: SQLite's. Of several with one time it is the greatest.
fn nearest(table: &str, key: &str, comparison: &str, order: &str) -> String {
    format!(
        "(SELECT m.rowid FROM {table} AS m WHERE {key} AND {comparison} a.ts ORDER BY m.ts {order}, m.k DESC, m.y DESC, m.z DESC LIMIT 1)"
    )
}

fn queries() -> Vec<Both> {
    let mut all = vec![];
    // MATCH_CONDITION, the same about the right time, and which of those comes first.
    let matches = [
        ("a.ts >= b.ts", "m.ts <=", "DESC"),
        ("b.ts < a.ts", "m.ts <", "DESC"),
        ("(a.ts <= b.ts)", "m.ts >=", "ASC"),
        ("a.ts < b.ts", "m.ts >", "ASC"),
    ];
    for (condition, comparison, order) in matches {
        let by_key = nearest("b", "m.k = a.k", comparison, order);
        all.push(both(
            format!("SELECT a.id, a.x, b.k, b.y, b.z, CAST(b.ts AS BIGINT) FROM a ASOF JOIN b MATCH_CONDITION ({condition}) ON a.k = b.k"),
            format!("SELECT a.id, a.x, b.k, b.y, b.z, b.ts FROM a LEFT JOIN b ON b.rowid = {by_key}"),
        ));
        let of_all = nearest("b", "1", comparison, order);
        all.push(both(
            format!("SELECT a.id, b.y FROM a ASOF JOIN b MATCH_CONDITION ({condition}) WHERE b.y > a.x OR b.y IS NULL"),
            format!("SELECT a.id, b.y FROM a LEFT JOIN b ON b.rowid = {of_all} WHERE b.y > a.x OR b.y IS NULL"),
        ));
        all.push(both(
            format!("SELECT k, COUNT(*), COUNT(y), SUM(y) FROM a ASOF JOIN b MATCH_CONDITION ({condition}) USING (k) GROUP BY k"),
            format!("SELECT a.k, COUNT(*), COUNT(b.y), SUM(b.y) FROM a LEFT JOIN b ON b.rowid = {by_key} GROUP BY a.k"),
        ));
    }
    let version = nearest("r", "m.k = a.k", "m.ts <=", "DESC");
    let all_versions =
        [("JOIN", "1", ""), ("LEFT JOIN", "1", ""), ("JOIN", "r.y > a.x", " AND r.y > a.x"), ("LEFT JOIN", "r.y = a.x", " AND r.y = a.x")];
    for (join, asked, condition) in all_versions {
        all.push(both(
            format!("SELECT a.id, r.k, CAST(r.ts AS BIGINT), r.y, r.z FROM a {join} r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k{condition}"),
            format!("SELECT a.id, r.k, r.ts, r.y, r.z FROM a {join} r ON r.rowid = {version} AND {asked}"),
        ));
    }
    let (of_b, of_r) = (nearest("b", "m.k = a.k", "m.ts <", "DESC"), nearest("r", "m.k = b.y", "m.ts <=", "DESC"));
    all.push(both(
        "SELECT a.id, b.z AS bz, v.z AS vz FROM a ASOF JOIN b MATCH_CONDITION (a.ts > b.ts) ON a.k = b.k
               LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts AS v ON b.y = v.k",
        format!("SELECT a.id, b.z, v.z FROM a LEFT JOIN b ON b.rowid = {of_b} LEFT JOIN r AS v ON v.rowid = {of_r}"),
    ));
    all
}

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

/// A number below `end`, or NULL now and then.
fn number(rng: &mut StdRng, end: i64) -> String {
    if rng.random_bool(0.1) { "NULL".into() } else { rng.random_range(0..end).to_string() }
}

/// A moment, as Weir writes it.
fn moment(milliseconds: &str) -> String {
    match milliseconds.parse::<i64>() {
        Ok(at) => format!("TIMESTAMP '1970-01-01 00:00:00.{at:03}'"),
        Err(_) => "NULL".into(),
    }
}

/// A row of `table`, in the words of both engines.
fn row(rng: &mut StdRng, table: &str, Size { times, keys, .. }: Size) -> Both {
    let with_time =
        |ts: &str, before: &str, after: &str| both(format!("({before}, {}, {after})", moment(ts)), format!("({before}, {ts}, {after})"));
    let z = pick(rng, &["'p'", "'q'", "NULL"]);
    match table {
        "a" => {
            let before = format!("{}, {}", rng.random_range(0..40), number(rng, keys));
            with_time(&number(rng, times), &before, &number(rng, 4))
        }
        "b" => with_time(&number(rng, times), &number(rng, keys), &format!("{}, {z}", number(rng, 4))),
        _ => {
            let ts = rng.random_range(0..times).to_string();
            with_time(&ts, &rng.random_range(0..keys).to_string(), &format!("{}, {z}", number(rng, 4)))
        }
    }
}

struct View {
    name: String,
    query: Both,
    published: Published,
}

struct Run {
    engine: Kept,
    sqlite: Sqlite,
    views: Vec<View>,
    /// What has been inserted of a table and may come again.
    inserted: Vec<(&'static str, Both)>,
    size: Size,
}

impl Run {
    fn new(workers: usize, size: Size, losses: Option<u64>) -> Self {
        let engine = Kept::build(workers, losses, || Engine::builder().clock(Clock::Manual)).expect("an engine");
        let sqlite = Sqlite::new();
        engine
            .execute(
                "CREATE TABLE a (id INT, k INT, ts TIMESTAMP(3), x INT);
                 CREATE TABLE b (k INT, ts TIMESTAMP(3), y INT, z VARCHAR);
                 CREATE TABLE r (k INT, ts TIMESTAMP(3), y INT, z VARCHAR, PRIMARY KEY (k, ts) NOT ENFORCED, WATERMARK FOR ts AS ts);",
            )
            .expect("tables");
        sqlite.execute("CREATE TABLE a (id INT, k INT, ts INT, x INT)");
        sqlite.execute("CREATE TABLE b (k INT, ts INT, y INT, z VARCHAR)");
        sqlite.execute("CREATE TABLE r (k INT, ts INT, y INT, z VARCHAR, PRIMARY KEY (k, ts))");
        Run { engine, sqlite, views: vec![], inserted: vec![], size }
    }

    /// Perhaps loses the engine, and with it the subscriptions.
    fn perhaps_lose(&mut self) -> Result<(), String> {
        let before = self.engine.losses();
        let lost = |engine: &Engine| drop(engine.execute("DELETE FROM b WHERE y < 2; UPDATE a SET k = k + 1; DELETE FROM r WHERE y = 3"));
        self.engine.once_in(2, lost).map_err(|e| e.to_string())?;
        if self.engine.losses() == before {
            return Ok(());
        }
        again(&self.engine, self.views.iter_mut().map(|view| (&*view.name, &mut view.published)))
    }

    fn define(&mut self, rng: &mut StdRng) {
        let mut queries = queries();
        while queries.len() > self.size.views {
            queries.swap_remove(rng.random_range(0..queries.len()));
        }
        for query in queries {
            let name = format!("v{}", self.views.len());
            let create = format!("CREATE MATERIALIZED VIEW {name} AS {}", query.weir);
            self.engine.execute(&create).unwrap_or_else(|e| panic!("{e}: {create}"));
            let published = Published::of(&self.engine, &name);
            self.views.push(View { name, query, published });
        }
    }

    fn change(&mut self, rng: &mut StdRng) {
        let Size { times, keys, rows, .. } = self.size;
        let table = ["a", "b", "r"][rng.random_range(0..3)];
        if rng.random_bool(0.35) {
            let (k, ts, y) = (rng.random_range(0..keys), rng.random_range(0..times), rng.random_range(0..4));
            let moved = pick(rng, &["y = y + 1", "k = k + 1", "z = 'q'"]);
            let change = match (rng.random_range(0..3), table) {
                (0, "a") => format!("UPDATE a SET k = {k} WHERE x = {y}"),
                (0, "b") => format!("UPDATE b SET {moved} WHERE k = {k}"),
                (0, _) => format!("UPDATE r SET y = {y} WHERE k = {k}"),
                (1, _) => {
                    let delete = |ts: &str| format!("DELETE FROM {table} WHERE ts = {ts}");
                    self.sqlite.execute(&delete(&ts.to_string()));
                    self.engine.execute(&delete(&moment(&ts.to_string()))).expect("a change");
                    return;
                }
                (_, "a") => format!("DELETE FROM a WHERE id < {}", rng.random_range(0..20)),
                (_, other) => format!("DELETE FROM {other} WHERE k = {k} AND y = {y}"),
            };
            self.sqlite.execute(&change);
            self.engine.execute(&change).unwrap_or_else(|e| panic!("{e}: {change}"));
        } else {
            let new: Vec<Both> = (0..rng.random_range(1..rows)).map(|_| row(rng, table, self.size)).collect();
            // Rows that were there before: they are there twice now, or come again.
            let again = self.inserted.iter().filter(|(of, _)| *of == table && rng.random_bool(0.05)).map(|(_, row)| row.clone());
            let rows: Vec<Both> = new.iter().cloned().chain(again).collect();
            self.inserted.extend(new.into_iter().map(|row| (table, row)));
            let values = |of: fn(&Both) -> &str| rows.iter().map(of).collect::<Vec<_>>().join(", ");
            let insert = if table == "r" { "INSERT OR REPLACE" } else { "INSERT" };
            self.sqlite.execute(&format!("{insert} INTO {table} VALUES {}", values(|row| &row.sqlite)));
            self.engine.execute(&format!("INSERT INTO {table} VALUES {}", values(|row| &row.weir))).expect("rows");
        }
    }

    /// What a view shows, and what its changes come to, is what SQLite computes.
    fn compare(&mut self) -> Result<(), String> {
        self.engine.finish().map_err(|e| e.to_string())?;
        for View { name, query, published } in &mut self.views {
            let of_query = |message: String| format!("{message}\nof {}", query.weir);
            let expected = self.sqlite.query(&query.sqlite)?;
            let got = self.engine.query(&format!("SELECT * FROM {name}")).map_err(|e| of_query(e.to_string()))?;
            difference(&value::rows(&got), &expected).map_or(Ok(()), |message| Err(of_query(message)))?;
            published.follow().map_err(of_query)?;
            difference(&published.rows(), &expected).map_or(Ok(()), |message| Err(of_query(format!("its changes: {message}"))))?;
        }
        Ok(())
    }
}

fn run(seed: u64, workers: usize, size: Size, losses: Option<u64>) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    // Times that meet, and times that are mostly apart.
    let size = Size { times: if seed.is_multiple_of(3) { size.times / 10 } else { size.times }, ..size };
    let mut run = Run::new(workers, size, losses);
    let late = rng.random_range(1..4);
    for step in 0..size.steps {
        if step == 0 || step == late {
            run.define(&mut rng);
        }
        run.perhaps_lose().map_err(|message| format!("step {step}: {message}"))?;
        // Several changes that are one step, or that may come as one batch.
        let transaction = rng.random_bool(0.5);
        if transaction {
            run.engine.execute("BEGIN").expect("a transaction");
        }
        for _ in 0..rng.random_range(1..size.changes) {
            run.change(&mut rng);
        }
        if transaction {
            run.engine.execute("COMMIT").expect("a transaction");
        }
        run.compare().map_err(|message| format!("step {step}: {message}"))?;
    }
    Ok(())
}

/// Runs with these seeds, with one worker and two in turn.
fn runs(seeds: std::ops::Range<u64>, size: Size, losses: impl Fn(u64) -> Option<u64>) {
    let failures: Vec<String> = seeds
        .filter_map(|seed| {
            let workers = 1 + (seed % 2) as usize;
            run(seed, workers, size, losses(seed)).err().map(|message| format!("seed {seed}, {workers} workers: {message}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn an_as_of_join_is_what_sqlite_finds_for_each_left_row_after_any_changes() {
    runs(0..4, SMALL, |_| None);
}

#[test]
fn an_as_of_join_is_what_sqlite_finds_though_the_engine_is_lost_between_changes() {
    runs(20..23, SMALL, Some);
}

#[test]
fn an_as_of_join_of_many_rows_of_few_keys_is_what_sqlite_finds_after_any_changes() {
    runs(10..16, LARGE, |_| None);
}
