//! State that goes by itself when windows close, joins can find no more matches and frames have passed: on random timelines with late rows, what
//! is published and what views show is byte for byte what it is where everything is remembered (`SET state_ttl = 'never'`),
//! and what is left is what is open.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::Engine;
use weir::text::line;

use crate::event_time::{BOUND, Row, START, TICK, Way, pieces, rows, run};

/// A query: its name, the columns of a sink of it, its text.
type Query = (&'static str, &'static str, &'static str);

const WINDOWS: [Query; 15] = [
    (
        "tumble",
        "e TIMESTAMP(3), k INT, n BIGINT, total BIGINT",
        "SELECT window_end AS e, k, COUNT(*) AS n, SUM(v) AS total FROM TUMBLE(t, ts, INTERVAL '5' SECOND) GROUP BY window_end, k",
    ),
    (
        "hop",
        "k INT, s TIMESTAMP(3), least BIGINT, most BIGINT, different BIGINT",
        "SELECT k, window_start AS s, MIN(v) AS least, MAX(v) AS most, COUNT(DISTINCT v) AS different
         FROM HOP(t, ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND) GROUP BY k, window_start",
    ),
    (
        "cumulate",
        "s TIMESTAMP(3), e TIMESTAMP(3), listed VARCHAR",
        "SELECT window_start AS s, window_end AS e, STRING_AGG(CAST(v AS VARCHAR), ',' ORDER BY v) AS listed
         FROM CUMULATE(t, ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND) GROUP BY window_start, window_end",
    ),
    (
        "session",
        "k INT, e TIMESTAMP(3), n BIGINT",
        "SELECT k, window_end AS e, COUNT(*) AS n FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_end",
    ),
    ("distinct_rows", "e TIMESTAMP(3), v BIGINT", "SELECT DISTINCT window_end AS e, v FROM TUMBLE(t, ts, INTERVAL '4' SECOND)"),
    (
        "top",
        "e TIMESTAMP(3), k INT, v BIGINT",
        "SELECT e, k, v FROM (SELECT window_end AS e, k, v, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY v DESC, k, ts) AS place
         FROM TUMBLE(t, ts, INTERVAL '5' SECOND)) AS ranked WHERE place <= 2",
    ),
    (
        "both",
        "e TIMESTAMP(3), k INT, n BIGINT, v BIGINT",
        "SELECT a.e, a.k, a.n, b.v FROM
         (SELECT window_end AS e, k, COUNT(*) AS n FROM TUMBLE(t, ts, INTERVAL '5' SECOND) GROUP BY window_end, k) AS a
         LEFT JOIN (SELECT window_end AS e, k, v FROM TUMBLE(t, ts, INTERVAL '5' SECOND) WHERE v > 10) AS b ON a.e = b.e AND a.k = b.k",
    ),
    (
        "over",
        "e TIMESTAMP(3), n BIGINT, total DECIMAL(38, 0)",
        "SELECT window_end AS e, COUNT(*) AS n, SUM(n) AS total FROM
         TUMBLE((SELECT window_time AS at, k, COUNT(*) AS n FROM TUMBLE(t, ts, INTERVAL '2' SECOND) GROUP BY window_time, k), at, INTERVAL '6' SECOND)
         GROUP BY window_end",
    ),
    (
        "joined",
        "s TIMESTAMP(3), e TIMESTAMP(3), k INT, n BIGINT, v BIGINT",
        "SELECT a.window_start AS s, b.window_end AS e, a.k, a.n, b.v FROM
         (SELECT window_start, window_end, k, COUNT(*) AS n FROM TUMBLE(t, ts, INTERVAL '3' SECOND) GROUP BY window_start, window_end, k) AS a
         JOIN (SELECT * FROM TUMBLE(t, ts, INTERVAL '3' SECOND)) AS b
         ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k + 1 = b.k",
    ),
    (
        "apart",
        "e TIMESTAMP(3), v BIGINT, f TIMESTAMP(3), w BIGINT",
        "SELECT a.e, a.v, b.e AS f, b.v AS w FROM
         (SELECT window_end AS e, v FROM TUMBLE(t, ts, INTERVAL '4' SECOND) WHERE k = 0) AS a
         FULL JOIN (SELECT window_end AS e, v FROM TUMBLE(t, ts, INTERVAL '4' SECOND) WHERE k = 1) AS b ON a.e = b.e AND a.v = b.v",
    ),
    (
        "among",
        "e TIMESTAMP(3), k INT, v BIGINT",
        "SELECT window_end AS e, k, v FROM TUMBLE(t, ts, INTERVAL '4' SECOND)
         WHERE window_end IN (SELECT window_end FROM TUMBLE(t, ts, INTERVAL '2' SECOND) WHERE v > 12)",
    ),
    (
        "running",
        "e TIMESTAMP(3), k INT, v BIGINT, place BIGINT, total DECIMAL(38, 0)",
        "SELECT window_end AS e, k, v, RANK() OVER (PARTITION BY window_end, k ORDER BY v) AS place,
         SUM(v) OVER (PARTITION BY window_end, k ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) AS total
         FROM TUMBLE(t, ts, INTERVAL '5' SECOND)",
    ),
    (
        "minutes",
        "minute TIMESTAMP(3), second TIMESTAMP(3), k INT, n BIGINT",
        "SELECT DATE_TRUNC('minute', ts) AS minute, DATE_TRUNC('second', ts) AS second, k, COUNT(*) AS n FROM t
         GROUP BY DATE_TRUNC('minute', ts), DATE_TRUNC('second', ts), k",
    ),
    (
        "longest",
        "k INT, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, most BIGINT",
        "SELECT k, s, e, n, most FROM (SELECT k, s, e, n, most, ROW_NUMBER() OVER (PARTITION BY e ORDER BY n DESC, k, s) AS place FROM
         (SELECT k, window_start AS s, window_end AS e, COUNT(*) AS n, MAX(v) AS most
          FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end) AS sessions) AS ranked
         WHERE place = 1",
    ),
    (
        "once",
        "e TIMESTAMP(3), k INT, n BIGINT",
        "SELECT window_end AS e, k, COUNT(*) AS n FROM TUMBLE(t, ts, INTERVAL '3' SECOND) GROUP BY window_end, k EMIT ON WINDOW CLOSE",
    ),
];

const JOINS: [Query; 7] = [
    (
        "without",
        "at TIMESTAMP(3), v BIGINT, w BIGINT",
        "SELECT a.ts AS at, a.v, b.v AS w FROM t AS a LEFT JOIN t AS b
         ON a.k <> b.k AND a.v = b.v AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '2' SECOND",
    ),
    ("except", "at TIMESTAMP(3)", "SELECT ts AS at FROM t WHERE v < 15 EXCEPT ALL SELECT ts FROM t WHERE v > 5"),
    (
        "near",
        "at TIMESTAMP(3), v BIGINT, w BIGINT",
        "SELECT a.ts AS at, a.v, b.v AS w FROM t AS a JOIN t AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '3' SECOND AND b.ts + INTERVAL '1' SECOND",
    ),
    (
        "after",
        "at TIMESTAMP(3), v BIGINT, w BIGINT",
        "SELECT a.ts AS at, a.v, b.v AS w FROM t AS a, t AS b
         WHERE a.k = b.k AND a.ts + INTERVAL '1' SECOND < b.ts AND b.ts <= INTERVAL '2.5' SECOND + a.ts AND a.v <> b.v",
    ),
    (
        "while",
        "at TIMESTAMP(3), v BIGINT, w BIGINT",
        "SELECT a.ts AS at, a.v, b.v AS w FROM
         (SELECT ts, k, v, CASE WHEN v > 5 THEN ts + INTERVAL '3' SECOND ELSE ts - INTERVAL '1' SECOND END AS upto FROM t) AS a
         JOIN t AS b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.upto",
    ),
    (
        "same",
        "e TIMESTAMP(3), v BIGINT, at TIMESTAMP(3)",
        "SELECT a.e, a.v, b.ts AS at FROM (SELECT window_end AS e, k, MAX(v) AS v FROM TUMBLE(t, ts, INTERVAL '3' SECOND) GROUP BY window_end, k) AS a
         JOIN t AS b ON a.k = b.k AND b.ts >= a.e AND b.ts < a.e + INTERVAL '3' SECOND",
    ),
    (
        "counted",
        "e TIMESTAMP(3), n BIGINT",
        "SELECT window_end AS e, COUNT(*) AS n FROM TUMBLE((SELECT a.ts AS at, b.v FROM t AS a JOIN t AS b
         ON a.k = b.k AND a.ts >= b.ts - INTERVAL '2' SECOND AND a.ts <= b.ts), at, INTERVAL '4' SECOND) GROUP BY window_end",
    ),
];

const FRAMES: [Query; 8] = [
    (
        "up_to_now",
        "at TIMESTAMP(3), k INT, v BIGINT, n BIGINT, total DECIMAL(38, 0), least BIGINT, mean DOUBLE",
        "SELECT ts AS at, k, v, COUNT(*) OVER w AS n, SUM(v) OVER w AS total, MIN(v) OVER w AS least, AVG(v) OVER w AS mean FROM t
         WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW)",
    ),
    (
        "around",
        "at TIMESTAMP(3), k INT, total DECIMAL(38, 0), first BIGINT, listed VARCHAR",
        "SELECT ts AS at, k, SUM(v) OVER w AS total, FIRST_VALUE(v) OVER w AS first, STRING_AGG(CAST(v AS VARCHAR), ',') OVER w AS listed
         FROM (SELECT ts, k, v FROM t) AS r
         WINDOW w AS (ORDER BY ts, k, v RANGE BETWEEN CURRENT ROW AND CURRENT ROW)",
    ),
    (
        "wide",
        "at TIMESTAMP(3), k INT, total DECIMAL(38, 0), most BIGINT",
        "SELECT ts AS at, k, SUM(v) OVER w AS total, MAX(v) FILTER (WHERE k < 3) OVER w AS most FROM t
         WINDOW w AS (ORDER BY ts RANGE BETWEEN INTERVAL '1500' MILLISECOND PRECEDING AND INTERVAL '2' SECOND FOLLOWING)",
    ),
    (
        "before",
        "at TIMESTAMP(3), k INT, total DECIMAL(38, 0)",
        "SELECT ts AS at, k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '6' SECOND PRECEDING AND INTERVAL '2' SECOND PRECEDING) AS total FROM t",
    ),
    (
        "ahead",
        "at TIMESTAMP(3), k INT, n BIGINT, total DECIMAL(38, 0)",
        "SELECT ts AS at, k, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND FOLLOWING AND INTERVAL '5' SECOND FOLLOWING) AS n,
         SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '1' SECOND FOLLOWING) AS total FROM t",
    ),
    (
        "of_windows",
        "at TIMESTAMP(3), k INT, n BIGINT, mean DOUBLE, most BIGINT",
        "SELECT at, k, n, AVG(n) OVER w AS mean, MAX(n) OVER w AS most FROM
         (SELECT window_time AS at, k, COUNT(*) AS n FROM TUMBLE(t, ts, INTERVAL '2' SECOND) GROUP BY window_time, k) AS w
         WINDOW w AS (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '6' SECOND PRECEDING AND CURRENT ROW)",
    ),
    (
        "in_windows",
        "e TIMESTAMP(3), k INT, most BIGINT",
        "SELECT window_end AS e, k, MAX(n) AS most FROM TUMBLE((SELECT ts, k,
         COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '3' SECOND FOLLOWING) AS n FROM t), ts, INTERVAL '4' SECOND)
         GROUP BY window_end, k",
    ),
    (
        "finer",
        "at TIMESTAMP(3), k INT, n BIGINT",
        "SELECT ts AS at, k, COUNT(*) OVER (PARTITION BY k ORDER BY s RANGE BETWEEN INTERVAL '1.5' SECOND PRECEDING AND INTERVAL '0.5' SECOND FOLLOWING) AS n
         FROM (SELECT ts, k, DATE_TRUNC('second', ts) AS s FROM t) AS r",
    ),
];

/// Each query as a job, as a view that a job reads, and as a materialized view.
fn definitions(queries: &[Query], first: &str) -> String {
    let define = |(name, columns, query): &Query| {
        format!(
            "CREATE TABLE {name}_s ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}');
             CREATE TABLE {name}_vs ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}_v');
             INSERT INTO {name}_s {query};
             CREATE VIEW {name}_v AS {query};
             INSERT INTO {name}_vs SELECT * FROM {name}_v;
             CREATE MATERIALIZED VIEW {name}_m AS {query};"
        )
    };
    queries.iter().map(define).fold(first.to_owned(), |text, defined| text + &defined)
}

/// Rows of which some are late, within the watermark's bound and beyond it, where there are `swaps`.
fn disordered(rng: &mut StdRng, swaps: usize) -> Vec<Row> {
    let mut order = rows(rng, 80);
    for _ in 0..swaps {
        let place = rng.random_range(0..order.len() - 6);
        order.swap(place, place + rng.random_range(1..6));
    }
    order
}

fn shown(engine: &Engine, query: &str) -> Vec<String> {
    let rows = engine.query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut lines: Vec<String> = (0..rows.num_rows()).map(|row| line(&rows, row).join(", ")).collect();
    lines.sort();
    lines
}

/// What derived bounds come to, with one worker and with two, where queries are run with them and without; says how many rows
/// were late.
fn compare(queries: &[Query], seed: u64, swaps: usize, options: &str) -> u64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let order = disordered(&mut rng, swaps);
    let mut at_work = |first: &str, workers: usize, name: &str| {
        let definitions = definitions(queries, first);
        run(&pieces(&order, &mut rng), Way::Files, workers, options, &definitions, &format!("derived-{seed}-{workers}-{name}"))
    };
    let derived = "SELECT COALESCE(SUM(late_retractions), 0), COUNT(*) > 0 FROM weir_arrangements WHERE origin = 'derived'";
    let (remembering, expected) = at_work("SET state_ttl = 'never';", 1, "remembering");
    assert_eq!(shown(&remembering, derived), ["0, false"]);
    for workers in [1, 2] {
        let (forgetting, printed) = at_work("", workers, "forgetting");
        assert_eq!(forgetting.late(), remembering.late());
        for (name, ..) in queries {
            for sink in [name.to_string(), format!("{name}_v")] {
                assert!(!expected.of(&sink).is_empty(), "{sink} is told nothing");
                assert_eq!(printed.of(&sink), expected.of(&sink), "seed {seed}, {workers} workers: {sink}");
            }
            let view = format!("SELECT * FROM {name}_m");
            assert_eq!(shown(&forgetting, &view), shown(&remembering, &view), "seed {seed}, {workers} workers: {view}");
        }
        assert_eq!(shown(&forgetting, derived), ["0, true"]);
    }
    remembering.late().iter().map(|late| late.dropped + late.accepted).sum()
}

#[test]
fn nobody_can_tell_that_closed_windows_are_forgotten() {
    let late: u64 = (0..3).map(|seed| compare(&WINDOWS, seed, 20, "")).sum();
    assert!(late > 0);
}

#[test]
fn nobody_can_tell_that_rows_without_matches_to_come_are_forgotten() {
    let late: u64 = (10..14).map(|seed| compare(&JOINS, seed, 20, "")).sum();
    assert!(late > 0);
}

#[test]
fn nobody_can_tell_that_rows_in_no_frame_to_come_are_forgotten() {
    let late: u64 = (40..46).map(|seed| compare(&FRAMES, seed, 20, "")).sum();
    assert!(late > 0);
}

#[test]
fn nobody_can_tell_where_rows_come_in_the_order_of_their_times() {
    let all = [&WINDOWS[..], &JOINS[..], &FRAMES[..]].concat();
    assert_eq!(compare(&all, 5, 0, ""), 0);
}

#[test]
fn rows_that_may_be_late_are_waited_for() {
    let all = [&WINDOWS[..], &JOINS[..], &FRAMES[..]].concat();
    let late: u64 = (20..22).map(|seed| compare(&all, seed, 20, ", 'allowed_lateness' = '3 s'")).sum();
    assert!(late > 0);
}

#[test]
fn what_is_left_is_what_is_open() {
    for (seed, lateness) in [(30, 0), (31, 0), (32, 2500)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let order = disordered(&mut rng, 20);
        let options = if lateness == 0 { String::new() } else { format!(", 'allowed_lateness' = '{lateness} ms'") };
        let queries = [WINDOWS[0], WINDOWS[3], JOINS[2], FRAMES[0]];
        let (engine, _) = run(&pieces(&order, &mut rng), Way::Files, 1, &options, &definitions(&queries, ""), &format!("left-{seed}"));
        let mut watermark = 0;
        let in_time = |row: &&Row| {
            let is_in_time = row.0 >= watermark - lateness;
            watermark = watermark.max(if is_in_time { row.0 - BOUND } else { 0 });
            is_in_time
        };
        let kept: Vec<Row> = order.iter().filter(in_time).copied().collect();
        let now = kept.iter().map(|row| row.0 - row.0 % TICK).max().unwrap_or(START);
        let end = |row: &Row| row.0 - row.0 % 5000 + 5000;
        let windows: BTreeSet<(i64, i32)> = kept.iter().filter(|row| end(row) + lateness > now).map(|row| (end(row), row.1)).collect();
        let live = |operator: &str, input: &str| {
            let query = "SELECT DISTINCT live_scopes FROM weir_arrangements WHERE origin = 'derived'";
            shown(&engine, &format!("{query} AND operator = '{operator}' AND {input}"))
        };
        assert_eq!(live("Reduce", "key = 'window_end, k'"), [windows.len().to_string()], "seed {seed}");
        // The sessions of a key are waited for until the last of them can grow no more.
        let mut last: BTreeMap<i32, i64> = BTreeMap::new();
        for row in &kept {
            let last = last.entry(row.1).or_default();
            *last = row.0.max(*last);
        }
        let open = last.values().filter(|last| **last + 2000 + lateness > now).count();
        assert_eq!(live("Session", "key = 'k'"), [open.to_string()], "seed {seed}");
        // A row is in frames of rows up to 3 s later.
        let framed: BTreeSet<Row> = kept.iter().filter(|row| row.0 + 3000 + lateness + 1 > now).copied().collect();
        assert_eq!(live("Window", "key = 'k'"), [framed.len().to_string()], "seed {seed}");
        // A row of `a` waits for rows up to 3 s later, one of `b` for rows up to 1 s later.
        for (input, wait) in [("a", 3000), ("b", 1000)] {
            let waiting: BTreeSet<Row> = kept.iter().filter(|row| row.0 + wait + lateness + 1 > now).copied().collect();
            assert_eq!(live("Join", &format!("input = '{input}'")), [waiting.len().to_string()], "seed {seed}: {input}");
        }
    }
}
