//! Temporal filters: at every instant a view is what SQLite computes with that instant in the place of NOW().
//!
//! Conditions are made up of comparisons of NOW() with columns of several precisions, with AND, OR, NOT and tests for
//! NULL. Rows come and go, time moves by random steps. After each step every view is compared by SELECT, and by its
//! changelog at each instant of the step at which it changed and just before: in between no row moves. SQLite's moments are
//! whole microseconds, and its NOW() is `:now`.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::{Clock, Engine};

use crate::both::{Both, both, joined};
use crate::kept::Kept;
use crate::published::{Published, again};
use crate::sqlite::Sqlite;
use crate::value::{self, Row, difference};

/// The instants of a run, in milliseconds, come before this one.
const SPAN: i64 = 5_000;
const STEPS: usize = 12;
const CONDITIONS: usize = 5;

fn around(before: &str, inner: &Both, after: &str) -> Both {
    both(format!("{before}{}{after}", inner.weir), format!("{before}{}{after}", inner.sqlite))
}

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

/// A moment of the row: `qualifier` is its table's name in FROM.
fn moment(rng: &mut StdRng, qualifier: &str) -> Both {
    let column = pick(rng, &["ms", "us", "s"]);
    let column = format!("{qualifier}.{column}");
    let by = rng.random_range(0..1_500);
    match rng.random_range(0..4) {
        0 => both(format!("{column} + INTERVAL '{by}' MILLISECOND"), format!("{column} + {}", by * 1_000)),
        1 => both(format!("{column} - INTERVAL '{by}' MILLISECOND"), format!("{column} - {}", by * 1_000)),
        2 if rng.random_bool(0.3) => {
            let at = rng.random_range(0..SPAN);
            both(format!("TIMESTAMP '{}'", timestamp(at * 1_000)), format!("{}", at * 1_000))
        }
        _ => both(column.clone(), column),
    }
}

/// Engine time, as it is, moved or rounded.
fn now(rng: &mut StdRng) -> Both {
    let by = rng.random_range(0..2_000);
    match rng.random_range(0..8) {
        0 | 1 => both(format!("NOW() - INTERVAL '{by}' MILLISECOND"), format!("(:now - {})", by * 1_000)),
        2 => both(format!("NOW() + INTERVAL '{by}' MILLISECOND"), format!("(:now + {})", by * 1_000)),
        3 => both("CAST(NOW() AS TIMESTAMP(0))", "(:now / 1000000 * 1000000)"),
        4 => both("DATE_TRUNC('second', NOW()) - INTERVAL '1' SECOND", "(:now / 1000000 * 1000000 - 1000000)"),
        5 => both("LOCALTIMESTAMP", ":now"),
        6 => both("CURRENT_TIMESTAMP", ":now"),
        _ => both("NOW()", ":now"),
    }
}

fn comparison(rng: &mut StdRng, qualifier: &str) -> Both {
    let (now_side, x) = (now(rng), moment(rng, qualifier));
    let op = pick(rng, &["<", "<=", ">", ">=", "=", "<>", "<", ">"]);
    match rng.random_range(0..8) {
        0..3 => joined(&now_side, op, &x),
        3..5 => joined(&x, op, &now_side),
        5 => joined(&joined(&now_side, "BETWEEN", &x), "AND", &moment(rng, qualifier)),
        6 => joined(&joined(&x, "NOT BETWEEN", &now_side), "AND", &now(rng)),
        _ => {
            let (column, by) = (format!("{qualifier}.ms"), rng.random_range(0..2_000));
            both(format!("NOW() - {column} {op} INTERVAL '{by}' MILLISECOND"), format!(":now - {column} {op} {}", by * 1_000))
        }
    }
}

fn condition(rng: &mut StdRng, qualifier: &str, depth: usize) -> Both {
    if depth == 0 {
        return match rng.random_range(0..6) {
            0 => both(format!("{qualifier}.f"), format!("{qualifier}.f")),
            1 => both(format!("{qualifier}.id > 3"), format!("{qualifier}.id > 3")),
            _ => comparison(rng, qualifier),
        };
    }
    let inner = condition(rng, qualifier, depth - 1);
    match rng.random_range(0..8) {
        0..3 => around("(", &joined(&inner, "AND", &condition(rng, qualifier, depth - 1)), ")"),
        3..5 => around("(", &joined(&inner, "OR", &condition(rng, qualifier, depth - 1)), ")"),
        5 => around("NOT (", &inner, ")"),
        6 => around("(", &inner, pick(rng, &[") IS NULL", ") IS NOT NULL", ") IS TRUE", ") IS NOT TRUE", ") IS FALSE"])),
        _ => inner,
    }
}

/// Queries that read a temporal filter in one way or another.
fn query(rng: &mut StdRng, kind: usize) -> Both {
    let on = |rng: &mut StdRng, qualifier: &str| {
        let depth = rng.random_range(0..3);
        condition(rng, qualifier, depth)
    };
    match kind {
        0 => around("SELECT e.id, e.k FROM e WHERE ", &on(rng, "e"), ""),
        1 => around("SELECT e.k, COUNT(*) AS n, MAX(e.id) AS m FROM e WHERE ", &on(rng, "e"), " GROUP BY e.k"),
        2 => around("SELECT e.id, o.id AS other FROM e JOIN o ON e.k = o.k AND ", &joined(&on(rng, "e"), "AND", &on(rng, "o")), ""),
        3 => {
            let column = pick(rng, &["us", "ms", "s"]);
            let mixed = both(format!("e.{column} + (o.ms - e.us) > NOW()"), format!("e.{column} + (o.ms - e.us) > :now"));
            let side = pick(rng, &["e", "o"]);
            let condition = if rng.random_bool(0.5) { mixed } else { on(rng, side) };
            around("SELECT e.id, o.id AS other FROM e LEFT JOIN o ON e.k = o.k AND ", &condition, "")
        }
        _ => around("SELECT e.id FROM e WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.k = e.k AND ", &on(rng, "o"), ")"),
    }
}

/// Microseconds since the epoch as SQL has them.
fn timestamp(us: i64) -> String {
    let (day, us) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    let date = if day < 0 { "1969-12-31" } else { "1970-01-01" };
    let seconds = us / 1_000_000;
    format!("{date} {:02}:{:02}:{:02}.{:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60, us % 1_000_000)
}

/// A random row: its literals for both engines.
fn row(rng: &mut StdRng) -> Both {
    let mut at = |unit: i64| {
        let us = rng.random_range(-1_000_000..SPAN * 1_000) / unit * unit;
        if rng.random_bool(0.1) { None } else { Some(us) }
    };
    let moments = [at(1_000), at(1), at(1_000_000)];
    let (id, k) = (rng.random_range(0..8), rng.random_range(0..3));
    let f = pick(rng, &["TRUE", "FALSE", "NULL"]);
    let weir = moments.map(|us| us.map_or("NULL".to_owned(), |us| format!("TIMESTAMP '{}'", timestamp(us)))).join(", ");
    let sqlite = moments.map(|us| us.map_or("NULL".to_owned(), |us| us.to_string())).join(", ");
    both(format!("({id}, {k}, {weir}, {f})"), format!("({id}, {k}, {sqlite}, {f})"))
}

struct Watched {
    query: Both,
    name: String,
    published: Published,
}

impl Watched {
    fn expected(&self, sqlite: &Sqlite, now: i64) -> Vec<Row> {
        sqlite
            .query(&self.query.sqlite.replace(":now", &(now * 1_000).to_string()))
            .unwrap_or_else(|e| panic!("{e}: {}", self.query.sqlite))
    }

    /// Takes what has been published. Where nothing but time has moved, what is there is compared at each instant at which
    /// it changed, and just before.
    fn follow(&mut self, sqlite: &Sqlite, only_time: bool) -> Result<(), String> {
        while let Some(update) = self.published.next()? {
            if only_time {
                self.same(sqlite, update.at - 1, "before a change")?;
            }
            self.published.add(&update)?;
            if only_time {
                self.same(sqlite, update.at, "after a change")?;
            }
        }
        Ok(())
    }

    fn same(&self, sqlite: &Sqlite, now: i64, when: &str) -> Result<(), String> {
        match difference(&self.published.rows(), &self.expected(sqlite, now)) {
            Some(message) => Err(format!("the changelog at {now} ms, {when}: {message}")),
            None => Ok(()),
        }
    }
}

/// A run of random changes over random conditions.
struct Run {
    engine: Kept,
    sqlite: Sqlite,
    views: Vec<Watched>,
    now: i64,
}

impl Run {
    fn new(workers: usize, losses: Option<u64>) -> Self {
        let engine = Kept::build(workers, losses, || Engine::builder().clock(Clock::Manual)).expect("an engine");
        let sqlite = Sqlite::new();
        for table in ["e", "o"] {
            let weir = "(id INT, k INT, ms TIMESTAMP(3), us TIMESTAMP(6), s TIMESTAMP(0), f BOOLEAN)";
            engine.execute(&format!("CREATE TABLE {table} {weir}")).expect("a table");
            sqlite.execute(&format!("CREATE TABLE {table} (id INT, k INT, ms INT, us INT, s INT, f INT)"));
        }
        Run { engine, sqlite, views: vec![], now: 0 }
    }

    fn define(&mut self, rng: &mut StdRng) {
        for kind in 0..CONDITIONS {
            let (name, query) = (format!("v{}", self.views.len()), query(rng, kind));
            let create = format!("CREATE MATERIALIZED VIEW {name} AS {}", query.weir);
            self.engine.execute(&create).unwrap_or_else(|e| panic!("{e}: {create}"));
            let published = Published::of(&self.engine, &name);
            self.views.push(Watched { query, name, published });
        }
    }

    fn change(&self, rng: &mut StdRng) {
        let table = pick(rng, &["e", "o"]);
        if rng.random_bool(0.3) {
            let delete = match rng.random_range(0..3) {
                0 => format!("DELETE FROM {table} WHERE id = {}", rng.random_range(0..8)),
                1 => format!("DELETE FROM {table} WHERE k = {} AND f", rng.random_range(0..3)),
                _ => format!("UPDATE {table} SET k = k + 1 WHERE id < {}", rng.random_range(0..4)),
            };
            self.sqlite.execute(&delete);
            self.engine.execute(&delete).expect("a change");
        } else {
            let rows: Vec<Both> = (0..rng.random_range(1..6)).map(|_| row(rng)).collect();
            let values = |of: fn(&Both) -> &str| rows.iter().map(of).collect::<Vec<_>>().join(", ");
            self.sqlite.execute(&format!("INSERT INTO {table} VALUES {}", values(|row| &row.sqlite)));
            self.engine.execute(&format!("INSERT INTO {table} VALUES {}", values(|row| &row.weir))).expect("rows");
        }
    }

    /// Perhaps loses the engine, and with it the subscriptions.
    fn perhaps_lose(&mut self) -> Result<(), String> {
        let later = self.now + SPAN / 3;
        let lost = |engine: &Engine| {
            let _ = engine.execute("DELETE FROM e WHERE id < 3").and_then(|_| engine.advance_to(later));
        };
        let before = self.engine.losses();
        self.engine.once_in(3, lost).map_err(|e| e.to_string())?;
        if self.engine.losses() == before {
            return Ok(());
        }
        again(&self.engine, self.views.iter_mut().map(|view| (&*view.name, &mut view.published)))
    }

    /// Compares all views at the present instant.
    fn compare(&mut self, only_time: bool) -> Result<(), String> {
        self.engine.finish().map_err(|e| e.to_string())?;
        for view in &mut self.views {
            let text = view.query.weir.clone();
            let told = |message: String| format!("{message}\nof {text}");
            view.follow(&self.sqlite, only_time).and_then(|()| view.same(&self.sqlite, self.now, "at the end")).map_err(told)?;
            let select = self.engine.query(&format!("SELECT * FROM {}", view.name)).map_err(|e| told(e.to_string()))?;
            if let Some(message) = difference(&value::rows(&select), &view.expected(&self.sqlite, self.now)) {
                return Err(told(format!("SELECT at {} ms: {message}", self.now)));
            }
        }
        Ok(())
    }
}

fn run(seed: u64, workers: usize, losses: Option<u64>) -> Result<(), String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut run = Run::new(workers, losses);
    let (early, late) = (rng.random_range(0..2), rng.random_range(3..6));
    for step in 0..STEPS {
        if step == early || step == late {
            run.define(&mut rng);
        }
        run.perhaps_lose()?;
        for _ in 0..rng.random_range(0..3) {
            run.change(&mut rng);
        }
        run.compare(false)?;
        run.now += rng.random_range(1..2 * SPAN / STEPS as i64);
        run.engine.advance_to(run.now).map_err(|e| e.to_string())?;
        run.compare(true)?;
    }
    Ok(())
}

#[test]
fn a_view_over_now_is_at_every_instant_what_sqlite_computes_for_it() {
    check(0..10, |_| None);
}

#[test]
fn what_is_to_come_of_a_view_over_now_comes_though_the_engine_is_lost_before() {
    check(100..106, Some);
}

fn check(seeds: std::ops::Range<u64>, losses: impl Fn(u64) -> Option<u64>) {
    let failures: Vec<String> = seeds
        .filter_map(|seed| {
            let workers = 1 + (seed % 2) as usize;
            run(seed, workers, losses(seed)).err().map(|message| format!("seed {seed}, {workers} workers: {message}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn on_the_machines_clock_a_row_goes_at_its_instant_though_nothing_else_happens() {
    let engine = Engine::builder().workers(2).clock(Clock::Wall).tick(Duration::from_millis(20)).build().expect("an engine");
    engine
        .execute(
            "CREATE TABLE e (id INT, ts TIMESTAMP(3));
             CREATE MATERIALIZED VIEW v AS SELECT id, ts FROM e WHERE ts > NOW() - INTERVAL '300' MILLISECOND;",
        )
        .expect("a view");
    let mut changes = engine.subscribe("v").expect("a subscription");
    engine.execute("INSERT INTO e VALUES (1, NOW())").expect("a row");
    let mut next = || changes.next_within(Duration::from_secs(20)).expect("the engine runs").expect("a change");
    let (came, went) = (next(), next());
    assert_eq!((came.diffs, went.diffs), (vec![1], vec![-1]));
    let ts = engine.query("SELECT CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) AS ts FROM e").expect("the row");
    let value::Value::Int(ts) = value::rows(&ts)[0][0] else { panic!("a number of milliseconds") };
    assert_eq!(went.at, ts + 300);
    assert_eq!(value::rows(&engine.query("SELECT * FROM v").expect("the view")), Vec::<Row>::new());
}
