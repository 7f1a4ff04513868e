//! As-of and temporal joins under an event clock: what is published of rows that come in any order within their watermarks'
//! bounds, in any batches and with any number of workers, is line by line what a small model says of the sorted rows.
//!
//! The model looks at all rows at each tick, and tells what has changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::Engine;
use weir::text::line;

use crate::event_time::{Folder, Printed, START, TICK, pieces, shuffled, timestamp};

/// How late orders and rates may come, in milliseconds, as their tables say.
const BOUNDS: [i64; 2] = [2000, 5000];
const KEYS: i32 = 3;

/// A time in milliseconds, a key, and what is told of it: an order's identity or a rate.
type Row = (i64, i32, i32);

/// Orders, and the versions of rates.
type Sides = [Vec<Row>; 2];

/// Rows of both sides by time. A key has one version at a time; many times are those of both sides.
fn sides(rng: &mut StdRng) -> Sides {
    sides_over(rng, 20, 60, 40)
}

/// So many of them, over so many seconds.
fn sides_over(rng: &mut StdRng, seconds: i64, orders: i32, versions: i32) -> Sides {
    let time = |rng: &mut StdRng| START + rng.random_range(0..4 * seconds) * 250;
    let orders = (0..orders).map(|id| (time(rng), rng.random_range(0..KEYS), id));
    let mut orders: Vec<Row> = orders.collect();
    orders.sort_unstable();
    let versions: BTreeMap<(i64, i32), i32> = (0..versions).map(|rate| ((time(rng), rng.random_range(0..KEYS - 1)), rate)).collect();
    [orders, versions.into_iter().map(|((at, key), rate)| (at, key, rate)).collect()]
}

/// A join, in words and as what it asks of a version's time and an order's; the last is whether orders without one stay.
struct Join {
    name: &'static str,
    sql: &'static str,
    matches: fn(i64, i64) -> bool,
    /// Whether the latest of those versions is the order's, or the earliest.
    latest: bool,
    outer: bool,
}

const JOINS: &[Join] = &[
    Join {
        name: "valid",
        sql: "orders AS o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k",
        matches: |version, order| version <= order,
        latest: true,
        outer: false,
    },
    Join {
        name: "any_valid",
        sql: "orders AS o LEFT JOIN versions FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k",
        matches: |version, order| version <= order,
        latest: true,
        outer: true,
    },
    Join {
        name: "a_second_before",
        sql: "orders AS o LEFT JOIN versions FOR SYSTEM_TIME AS OF o.ts - INTERVAL '1' SECOND AS r ON o.k = r.k",
        matches: |version, order| version <= order - 1000,
        latest: true,
        outer: true,
    },
    Join {
        name: "at_or_after",
        sql: "orders AS o ASOF JOIN rates AS r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k",
        matches: |version, order| version <= order,
        latest: true,
        outer: true,
    },
    Join {
        name: "after",
        sql: "orders AS o ASOF JOIN rates AS r MATCH_CONDITION (o.ts > r.ts) ON o.k = r.k",
        matches: |version, order| version < order,
        latest: true,
        outer: true,
    },
    Join {
        name: "at_or_before",
        sql: "orders AS o ASOF JOIN rates AS r MATCH_CONDITION (o.ts <= r.ts) ON o.k = r.k",
        matches: |version, order| version >= order,
        latest: false,
        outer: true,
    },
    Join {
        name: "before",
        sql: "orders AS o ASOF JOIN rates AS r MATCH_CONDITION (r.ts > o.ts) ON o.k = r.k",
        matches: |version, order| version > order,
        latest: false,
        outer: true,
    },
];

impl Join {
    /// The rate of each order among these rows, where it has one or stays without.
    fn of(&self, orders: &[Row], versions: &[Row]) -> BTreeMap<i32, Option<i32>> {
        let rate = |order: &Row| {
            let matching = versions.iter().filter(|version| version.1 == order.1 && (self.matches)(version.0, order.0));
            let nearest = if self.latest { matching.max() } else { matching.min() };
            nearest.map(|version| version.2)
        };
        orders.iter().map(|order| (order.2, rate(order))).filter(|(_, rate)| self.outer || rate.is_some()).collect()
    }

    /// What is published of rows, tick by tick.
    fn published(&self, [orders, versions]: &Sides) -> Vec<String> {
        let mut ticks: Vec<i64> = orders.iter().chain(versions).map(|row| row.0 - row.0 % TICK + TICK).collect();
        ticks.sort_unstable();
        ticks.dedup();
        let until = |rows: &[Row], end: i64| rows.iter().filter(|row| row.0 < end).copied().collect::<Vec<_>>();
        let (mut lines, mut before) = (vec![], BTreeMap::new());
        for end in ticks {
            let after = self.of(&until(orders, end), &until(versions, end));
            for (id, rate) in &after {
                let shown = |rate: &Option<i32>| rate.map_or("NULL".to_owned(), |rate| rate.to_string());
                match before.get(id) {
                    None => lines.push(format!("+I[{id}, {}]", shown(rate))),
                    Some(old) if old != rate => {
                        lines.extend([format!("-U[{id}, {}]", shown(old)), format!("+U[{id}, {}]", shown(rate))]);
                    }
                    Some(_) => {}
                }
            }
            before = after;
        }
        lines
    }
}

/// How rows come to the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// An INSERT a piece, now of one side and now of the other.
    Inserts,
    /// A file a piece. Temporal joins read a table that has the last version of each key.
    Files,
}

impl Way {
    /// The tables, with options.
    fn tables(self, options: &str) -> String {
        let with = |rows: &str| match self {
            Way::Inserts => String::new(),
            Way::Files => format!("WITH ('connector' = 'file', 'path' = '{rows}', 'format' = 'csv'{options})"),
        };
        let rates = |name: &str, key: &str| {
            format!(
                "CREATE TABLE {name} (ts TIMESTAMP(3), k INT, v INT, PRIMARY KEY ({key}) NOT ENFORCED,
                 WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) {};",
                with("rates")
            )
        };
        let orders = format!(
            "CREATE TABLE orders (ts TIMESTAMP(3), k INT, id INT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) {};",
            with("orders")
        );
        let feed = if self == Way::Files { rates("feed", "k") } else { String::new() };
        orders + &rates("rates", "k, ts") + &feed
    }

    /// All joins, each with what prints it.
    fn joins(self) -> String {
        let versions = if self == Way::Files { "feed" } else { "rates" };
        JOINS.iter().fold(String::new(), |mut text, Join { name, sql, .. }| {
            let sink = format!("WITH ('connector' = 'print', 'print-identifier' = '{name}')");
            writeln!(text, "CREATE TABLE {name} (id INT, rate INT, PRIMARY KEY (id) NOT ENFORCED) {sink};").expect("a string takes it");
            writeln!(text, "INSERT INTO {name} SELECT o.id, r.v FROM {};", sql.replace("versions", versions)).expect("a string takes it");
            text
        })
    }
}

/// Runs all joins over rows that come in this order, to the end.
fn run(sides: &Sides, way: Way, workers: usize, rng: &mut StdRng, name: &str) -> (Engine, Printed) {
    run_with("", "", sides, way, workers, rng, name)
}

/// Writes pieces of each table's rows to files, in a folder a table.
fn write(all: &[(&str, usize, Vec<Row>)], folder: &Folder) {
    for (table, number, piece) in all {
        let text = piece.iter().fold(String::new(), |mut text, (at, k, v)| {
            writeln!(text, "{},{k},{v}", timestamp(*at)).expect("a string takes it");
            text
        });
        std::fs::create_dir_all(folder.0.join(table)).expect("a folder");
        std::fs::write(folder.0.join(format!("{table}/{number:04}.csv")), text).expect("a file");
    }
}

/// The same with options of the tables, after something else.
fn run_with(first: &str, options: &str, sides: &Sides, way: Way, workers: usize, rng: &mut StdRng, name: &str) -> (Engine, Printed) {
    let (printed, folder) = (Printed::default(), Folder::new(name));
    let engine = Engine::builder().workers(workers).base(&folder.0).output(Box::new(printed.clone())).build().expect("an engine");
    engine.execute(&(first.to_owned() + &way.tables(options))).expect("the tables");
    let mut all: Vec<(&str, usize, Vec<Row>)> = vec![];
    for (table, rows) in ["orders", "rates"].into_iter().zip(sides) {
        all.extend(pieces(rows, rng).into_iter().enumerate().map(|(number, piece)| (table, number, piece)));
    }
    if way == Way::Files {
        write(&all, &folder);
    }
    engine.execute(&way.joins()).expect("the joins");
    while way == Way::Inserts && !all.is_empty() {
        // Either side's next piece.
        let (table, ..) = all[rng.random_range(0..all.len())];
        let next = all.iter().position(|(other, ..)| *other == table).unwrap_or_default();
        let (_, _, piece) = all.remove(next);
        let values: Vec<String> = piece.iter().map(|(at, k, v)| format!("(TIMESTAMP '{}', {k}, {v})", timestamp(*at))).collect();
        engine.execute(&format!("INSERT INTO {table} VALUES {}", values.join(", "))).expect("rows");
    }
    engine.finish().expect("an end");
    (engine, printed)
}

fn compare(sides: &Sides, printed: &Printed, place: &str) {
    for join in JOINS {
        assert_eq!(printed.of(join.name), join.published(sides), "{place}, {}", join.name);
    }
}

#[test]
fn what_joins_by_time_publish_does_not_depend_on_order_within_the_bounds_on_batches_or_on_workers() {
    for seed in 0..3 {
        let mut rng = StdRng::seed_from_u64(seed);
        let sorted = sides(&mut rng);
        for (attempt, way) in [Way::Inserts, Way::Files, Way::Files, Way::Inserts].into_iter().enumerate() {
            let [orders, versions] = &sorted;
            let mut shuffle = |rows: &[Row], bound| shuffled(rows, |row| row.0, bound, &mut rng);
            let order = [shuffle(orders, BOUNDS[0]), shuffle(versions, BOUNDS[1])];
            let place = format!("seed {seed}, attempt {attempt}, {way:?}");
            let (engine, printed) = run(&order, way, 1 + attempt % 2, &mut rng, &format!("joins-{seed}-{attempt}"));
            assert_eq!(engine.late(), [], "{place}");
            compare(&sorted, &printed, &place);
        }
    }
}

/// The rows in an order in which some are late.
fn disordered(mut sides: Sides, rng: &mut StdRng) -> Sides {
    for rows in &mut sides {
        for _ in 0..15 {
            let (a, b) = (rng.random_range(0..rows.len()), rng.random_range(0..rows.len()));
            rows.swap(a, b);
        }
    }
    sides
}

#[test]
fn late_orders_and_late_versions_are_as_if_they_had_never_come() {
    for seed in 0..3 {
        let mut rng = StdRng::seed_from_u64(100 + seed);
        let sorted = sides(&mut rng);
        let order = disordered(sorted, &mut rng);
        let in_time = |rows: &[Row], bound: i64| {
            let mut watermark = 0;
            let is_in_time = |row: &&Row| {
                let is_late = row.0 < watermark;
                watermark = watermark.max(row.0 - bound);
                !is_late
            };
            rows.iter().filter(is_in_time).copied().collect::<Vec<_>>()
        };
        let kept = [in_time(&order[0], BOUNDS[0]), in_time(&order[1], BOUNDS[1])];
        let late = [0, 1].map(|side| (order[side].len() - kept[side].len()) as u64);
        assert!(late.iter().all(|late| *late > 0), "seed {seed} makes no row late");
        for workers in [1, 2] {
            let (engine, printed) = run(&order, Way::Files, workers, &mut rng, &format!("late-joins-{seed}-{workers}"));
            compare(&kept, &printed, &format!("seed {seed}, {workers} workers"));
            assert!(engine.late().iter().all(|late| late.dropped > 0), "{:?}", engine.late());
        }
    }
}

#[test]
fn nobody_can_tell_that_orders_and_versions_are_forgotten_where_late_rows_are_accepted_for_a_time() {
    for seed in 0..3 {
        let mut rng = StdRng::seed_from_u64(200 + seed);
        let sorted = sides(&mut rng);
        let order = disordered(sorted, &mut rng);
        let mut at_work = |first: &str, workers: usize| {
            let options = ", 'late' = 'accept', 'allowed_lateness' = '4 s'";
            let name = format!("forgotten-joins-{seed}-{workers}{}", first.len());
            run_with(first, options, &order, Way::Files, workers, &mut rng, &name)
        };
        let (remembering, expected) = at_work("SET state_ttl = 'never';", 1);
        assert!(remembering.late().iter().any(|late| late.accepted > 0), "seed {seed} makes no row late and accepted");
        for workers in [1, 2] {
            let (forgetting, printed) = at_work("", workers);
            for join in JOINS {
                assert_eq!(printed.of(join.name), expected.of(join.name), "seed {seed}, {workers} workers, {}", join.name);
            }
            let late = "SELECT COUNT(*) > 0, COALESCE(SUM(late_retractions), 0) FROM weir_arrangements WHERE origin = 'derived'";
            assert_eq!(line(&forgetting.query(late).expect("the arrangements"), 0), ["true", "0"]);
        }
    }
}

/// The rows of a table, as the engine holds them.
fn held(engine: &Engine, table: &str, value: &str) -> Vec<Row> {
    let rows = engine.query(&format!("SELECT CAST(ts AS BIGINT), k, {value} FROM {table}")).expect("the rows");
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let mut rows: Vec<Row> = (0..rows.num_rows())
        .map(|row| {
            let line = line(&rows, row);
            (number(&line[0]), number(&line[1]) as i32, number(&line[2]) as i32)
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// Inserts the rows in pieces, and takes some of either side away again (or changes them) while they are not late, several
/// changes in one transaction now and then.
fn insert_and_delete(engine: &Engine, sides: &Sides, rng: &mut StdRng) {
    let tables = ["orders", "rates"];
    let mut rest = sides.each_ref().map(|rows| pieces(rows, rng));
    let mut came: Sides = [vec![], vec![]];
    let mut in_transaction = false;
    while rest.iter().any(|rest| !rest.is_empty()) {
        if rng.random_bool(0.3) {
            engine.execute(if in_transaction { "COMMIT" } else { "BEGIN" }).expect("a transaction");
            in_transaction = !in_transaction;
        }
        let side = if rest[0].is_empty() || (!rest[1].is_empty() && rng.random_bool(0.5)) { 1 } else { 0 };
        let piece = rest[side].remove(0);
        let values: Vec<String> = piece.iter().map(|(at, k, v)| format!("(TIMESTAMP '{}', {k}, {v})", timestamp(*at))).collect();
        engine.execute(&format!("INSERT INTO {} VALUES {}", tables[side], values.join(", "))).expect("rows");
        came[side].extend(piece);
        for _ in 0..rng.random_range(0..4) {
            let side = rng.random_range(0..2);
            let watermark = came[side].iter().map(|row| row.0 - BOUNDS[side]).max().unwrap_or_default();
            let in_time: Vec<Row> = came[side].iter().filter(|row| row.0 > watermark).copied().collect();
            let [.., (at, k, v)] = in_time[..] else { continue };
            let at = format!("ts = TIMESTAMP '{}'", timestamp(at));
            engine
                .execute(&match (side, rng.random_range(0..3)) {
                    (0, _) => format!("DELETE FROM orders WHERE {at} AND k = {k} AND id = {v}"),
                    (_, 0) => format!("UPDATE rates SET v = {} WHERE {at} AND k = {k}", 1000 + v),
                    _ => format!("DELETE FROM rates WHERE {at} AND k = {k}"),
                })
                .expect("a change");
            came[side].retain(|row| *row != (in_time[in_time.len() - 1].0, k, v));
        }
    }
    if in_transaction {
        engine.execute("COMMIT").expect("a transaction");
    }
}

#[test]
fn after_deletions_of_orders_and_of_versions_in_time_each_order_has_the_rate_of_those_that_are_left() {
    for seed in 0..8 {
        let mut rng = StdRng::seed_from_u64(400 + seed);
        let workers = 1 + (seed % 2) as usize;
        // Few of them over a long time, and many over a short one.
        let sorted = if seed < 4 { sides_over(&mut rng, 120, 60, 60) } else { sides_over(&mut rng, 20, 150, 150) };
        let [orders, versions] = &sorted;
        let order = [shuffled(orders, |row| row.0, BOUNDS[0], &mut rng), shuffled(versions, |row| row.0, BOUNDS[1], &mut rng)];
        let engine = Engine::builder().workers(workers).build().expect("an engine");
        engine.execute(&Way::Inserts.tables("")).expect("tables");
        for Join { name, sql, .. } in JOINS {
            let sql = sql.replace("versions", "rates");
            engine.execute(&format!("CREATE MATERIALIZED VIEW {name} AS SELECT o.id, r.v FROM {sql}")).expect("a view");
        }
        insert_and_delete(&engine, &order, &mut rng);
        engine.finish().expect("an end");
        let left = [held(&engine, "orders", "id"), held(&engine, "rates", "v")];
        assert!(left[0].len() < orders.len() && left[1].len() < versions.len(), "seed {seed} deletes nothing");
        for join in JOINS {
            let found = engine.query(&format!("SELECT id, v FROM {} ORDER BY id", join.name)).expect("the rows");
            let found: Vec<Vec<String>> = (0..found.num_rows()).map(|row| line(&found, row)).collect();
            let shown = |rate: &Option<i32>| rate.map_or("NULL".to_owned(), |rate| rate.to_string());
            let expected: Vec<Vec<String>> =
                join.of(&left[0], &left[1]).iter().map(|(id, rate)| vec![id.to_string(), shown(rate)]).collect();
            assert_eq!(found, expected, "seed {seed}, {workers} workers, {}", join.name);
        }
    }
}

#[test]
fn of_a_long_history_only_what_orders_can_still_ask_for_is_kept() {
    const SECONDS: i64 = 600;
    let [orders, versions] = sides_over(&mut StdRng::seed_from_u64(300), SECONDS, 1200, 1200);
    let folder = Folder::new("history");
    write(&[("orders", 0, orders), ("rates", 0, versions)], &folder);
    let engine = Engine::builder().base(&folder.0).build().expect("an engine");
    // The gate lets time go on.
    engine.execute("CREATE TABLE gate (at TIMESTAMP(3), WATERMARK FOR at AS at)").expect("a table");
    engine.execute(&Way::Files.tables("")).expect("tables");
    for Join { name, sql, .. } in JOINS.iter().filter(|join| join.latest) {
        let sql = sql.replace("versions", "feed");
        engine.execute(&format!("CREATE MATERIALIZED VIEW {name} AS SELECT o.id, r.v FROM {sql}")).expect("a view");
    }
    for second in (0..=SECONDS).step_by(5) {
        engine.execute(&format!("INSERT INTO gate VALUES (TIMESTAMP '{}')", timestamp(START + 1000 * second))).expect("a row");
        engine.query("SELECT COUNT(*) FROM valid").expect("an answer once all has come so far");
    }
    // Orders of the last seconds before the least watermark; versions of as many, and the last one of each key before them.
    let all = "SELECT view, input, live_scopes, expired FROM weir_arrangements WHERE operator = 'AsOf'";
    let bounded = format!("SELECT COUNT(*) > 4, BOOL_AND(expired > 1000 AND live_scopes < 60) FROM ({all})");
    assert_eq!(line(&engine.query(&bounded).expect("the arrangements"), 0), ["true", "true"], "{:?}", engine.query(all));
}
