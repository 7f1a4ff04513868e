//! EMIT ON WINDOW CLOSE on random timelines, beside a model that finds the windows of its rows from scratch: after every
//! step a view shows the plain query over the windows that have closed, and where no row comes too late a sink has
//! been told each row once, at its window's last instant, and nothing was taken back.

use std::collections::{BTreeMap, HashSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::text::line;
use weir::{Clock, Engine};

use crate::kept::Kept;

const STEPS: usize = 25;
const GAP: i64 = 4;

/// A row: its time in seconds, its key, its number.
type Row = (i64, i64, i64);
/// What is answered of a window: the key, the window's end, how many rows, and their sum.
type Answer = (i64, i64, i64, i64);

/// Windows, as the query says them and as the model finds them.
#[derive(Clone, Copy)]
struct Windows {
    name: &'static str,
    sql: &'static str,
    ends: fn(i64) -> Vec<i64>,
}

const WINDOWS: [Windows; 3] = [
    Windows { name: "tumble", sql: "TUMBLE(r, ts, INTERVAL '5' SECOND, INTERVAL '1' SECOND)", ends: |ts| in_steps(ts, 5, 5, 1) },
    Windows { name: "hop", sql: "HOP(r, ts, INTERVAL '2' SECOND, INTERVAL '6' SECOND)", ends: |ts| in_steps(ts, 2, 6, 0) },
    Windows {
        name: "cumulate",
        sql: "CUMULATE(r, ts, INTERVAL '3' SECOND, INTERVAL '9' SECOND)",
        ends: |ts| (ts + 1..=ts / 9 * 9 + 9).filter(|end| end % 3 == 0).collect(),
    },
];

/// The ends of all windows of `size`, one every `step`, that contain a time.
fn in_steps(ts: i64, step: i64, size: i64, offset: i64) -> Vec<i64> {
    (ts - size + 1..=ts).filter(|start| (start - offset) % step == 0).map(|start| start + size).collect()
}

/// The answers of windows of a fixed length.
fn answers(rows: &[Row], windows: Windows) -> HashSet<Answer> {
    let mut groups: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    for (ts, k, n) in rows {
        for end in (windows.ends)(*ts) {
            let group = groups.entry((*k, end)).or_default();
            *group = (group.0 + 1, group.1 + n);
        }
    }
    groups.into_iter().map(|((k, end), (count, sum))| (k, end, count, sum)).collect()
}

/// The answers of sessions.
fn session_answers(rows: &[Row]) -> HashSet<Answer> {
    let mut sorted: Vec<Row> = rows.iter().map(|(ts, k, n)| (*k, *ts, *n)).collect();
    sorted.sort_unstable();
    let sessions = sorted.chunk_by(|a, b| a.0 == b.0 && b.1 - a.1 < GAP);
    sessions.map(|rows| (rows[0].0, rows[rows.len() - 1].1 + GAP, rows.len() as i64, rows.iter().map(|row| row.2).sum())).collect()
}

fn expected(rows: &[Row], name: &str, now: i64) -> HashSet<Answer> {
    let all = match WINDOWS.iter().find(|windows| windows.name == name) {
        Some(windows) => answers(rows, *windows),
        None => session_answers(rows),
    };
    all.into_iter().filter(|(_, end, ..)| *end <= now).collect()
}

fn numbers(engine: &Engine, sql: &str) -> Vec<Vec<String>> {
    let rows = engine.query(sql).expect(sql);
    (0..rows.num_rows()).map(|row| line(&rows, row)).collect()
}

fn answered(engine: &Engine, relation: &str) -> HashSet<Answer> {
    let sql = format!("SELECT k, CAST(EXTRACT(EPOCH FROM e) AS BIGINT), n, total FROM {relation}");
    let rows = numbers(engine, &sql);
    let found: HashSet<Answer> = rows
        .iter()
        .map(|row| row.iter().map(|number| number.parse().expect("a number")).collect::<Vec<i64>>())
        .map(|row| (row[0], row[1], row[2], row[3]))
        .collect();
    assert_eq!(found.len(), rows.len(), "{relation} has a row twice");
    found
}

fn timestamp(seconds: i64) -> String {
    format!("to_timestamp_millis({})", seconds * 1000)
}

fn check(seed: u64, workers: usize, late: bool, losses: Option<u64>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut engine = Kept::build(workers, losses, || Engine::builder().clock(Clock::Manual)).expect("an engine");
    let said = |engine: &Engine, sql: &str| drop(engine.execute(sql).unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}")));
    let run = |sql: &str| said(&engine, sql);
    run("CREATE TABLE r (ts TIMESTAMP(3), k INT, n INT)");
    let mut queries: Vec<(&str, String)> = WINDOWS
        .iter()
        .map(|windows| {
            (windows.name, format!("SELECT k, window_end AS e, COUNT(*) AS n, SUM(n) AS total FROM {} GROUP BY k, window_end", windows.sql))
        })
        .collect();
    let session = format!("SESSION(ts, INTERVAL '{GAP}' SECOND)");
    queries.push((
        "session",
        format!("SELECT k, SESSION_END(ts, INTERVAL '{GAP}' SECOND) AS e, COUNT(*) AS n, SUM(n) AS total FROM r GROUP BY k, {session}"),
    ));
    for (name, query) in &queries {
        run(&format!("CREATE MATERIALIZED VIEW {name}_v AS {query} EMIT ON WINDOW CLOSE"));
        run(&format!("CREATE TABLE {name}_s (k INT, e TIMESTAMP(3), n BIGINT, total BIGINT) WITH ('connector' = 'changelog')"));
        run(&format!("INSERT INTO {name}_s {query} EMIT ON WINDOW CLOSE"));
    }
    let (mut rows, mut now): (Vec<Row>, i64) = (vec![], 0);
    for step in 0..STEPS {
        let mut changes = vec![];
        for _ in 0..rng.random_range(0..4) {
            // Without late rows what has closed stays as it is: all that changes is from now on.
            let from = if late { 0 } else { now };
            let deletable: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].0 >= from).collect();
            if !deletable.is_empty() && rng.random_bool(0.3) {
                let (ts, k, n) = rows[deletable[rng.random_range(0..deletable.len())]];
                rows.retain(|row| *row != (ts, k, n));
                changes.push(format!("DELETE FROM r WHERE ts = {} AND k = {k} AND n = {n}", timestamp(ts)));
            } else {
                let row = (rng.random_range(from..now + 20), rng.random_range(0..2), rng.random_range(0..5));
                rows.push(row);
                changes.push(format!("INSERT INTO r VALUES ({}, {}, {})", timestamp(row.0), row.1, row.2));
            }
        }
        let to_come = changes.clone();
        let lost = engine.once_in(3, |engine| {
            to_come.iter().for_each(|change| said(engine, change));
            engine.advance_to((now + 5) * 1000).expect("time goes on");
        });
        lost.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        let run = |sql: &str| said(&engine, sql);
        // One step of several statements, or a step each.
        if rng.random_bool(0.3) && changes.iter().all(|change| change.starts_with("INSERT")) {
            run(&format!("BEGIN; {}; COMMIT", changes.join(";")));
        } else {
            changes.iter().for_each(|change| run(change));
        }
        now += rng.random_range(0..8);
        engine.advance_to(now * 1000).expect("time goes on");
        for (name, _) in &queries {
            let expected = expected(&rows, name, now);
            assert_eq!(answered(&engine, &format!("{name}_v")), expected, "seed {seed}, step {step}: {name} at {now} s");
            if !late {
                let taken_back =
                    numbers(&engine, &format!("SELECT op, at FROM {name}_s WHERE op <> '+I' OR at <> e - INTERVAL '0.001' SECOND"));
                assert!(taken_back.is_empty(), "seed {seed}, step {step}: {name}: {taken_back:?}");
                assert_eq!(answered(&engine, &format!("{name}_s")), expected, "seed {seed}, step {step}: what {name} was told");
            }
        }
    }
}

#[test]
fn each_row_is_said_once_when_its_window_closes_and_never_taken_back_if_none_is_late() {
    (0..4).for_each(|seed| check(seed, 1, false, None));
    (4..6).for_each(|seed| check(seed, 2, false, None));
}

#[test]
fn a_view_shows_the_windows_that_have_closed_whatever_comes_late_or_goes() {
    (10..13).for_each(|seed| check(seed, 1, true, None));
    (13..15).for_each(|seed| check(seed, 2, true, None));
}

#[test]
fn windows_close_once_though_the_engine_is_lost_while_they_are_open() {
    (20..23).for_each(|seed| check(seed, 1, false, Some(seed)));
    (23..26).for_each(|seed| check(seed, 2, true, Some(seed)));
}
