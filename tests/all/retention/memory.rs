//! What it takes to know when each scope is due.

use std::fmt::Write;

use weir::engine::{Clock, Engine};

use crate::value;

use super::through_sql::{Tables, mix, run};

const KEYS: usize = 200_000;

/// Bytes of state of a count over keys that are each written once, with how many scopes are alive.
fn state(sql: &str) -> (i64, i64) {
    let tables = Tables::new(&[("t", &["k"])]);
    let per_tick = KEYS / 10;
    let tick =
        |tick: usize| vec![tables.rows(0, vec![(tick * per_tick..(tick + 1) * per_tick).map(|row| mix(row as u64) as i64).collect()])];
    let mut found = (0, 0);
    run(sql, &tables, 10, tick, |_, runtime| {
        let state = runtime.arrangements().expect("the engine runs");
        found = (state.iter().map(|arrangement| arrangement.bytes).sum(), state.iter().map(|arrangement| arrangement.live_scopes).sum());
    });
    found
}

#[test]
fn a_live_scope_costs_at_most_48_bytes_beyond_its_key() {
    const KEY: i64 = 9;
    let (with, scopes) = state("SELECT /*+ STATE_TTL('t' = '1 h') */ k, COUNT(*) FROM t GROUP BY k");
    let (without, none) = state("SELECT k, COUNT(*) FROM t GROUP BY k");
    assert_eq!((scopes, none), (KEYS as i64, 0));
    let each = (with - without) as f64 / scopes as f64;
    assert!(each <= (48 + KEY) as f64, "{each} bytes a scope, {KEY} of them its key");
}

/// What a join of any kind arranges is given back on both sides once a few steps have gone by, without a row.
#[test]
fn the_sides_of_every_join_fall_to_nothing_when_only_time_goes_on() {
    const ROWS: usize = 3000;
    let queries = [
        "SELECT l.k, l.v, r.v AS w FROM l JOIN r ON l.k = r.k",
        "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k",
        "SELECT l.k, l.v, r.v AS w FROM l RIGHT JOIN r ON l.k = r.k",
        "SELECT l.k, l.v, r.v AS w FROM l FULL JOIN r ON l.k = r.k",
        "SELECT l.k, l.v, r.v AS w FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v",
        "SELECT k, v FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
        "SELECT k, v FROM l WHERE k NOT IN (SELECT k FROM r)",
        "SELECT k, v FROM l EXCEPT SELECT k, v FROM r",
    ];
    let engine = Engine::builder().clock(Clock::Manual).build().expect("an engine");
    let execute = |sql: &str| drop(engine.execute(sql).unwrap_or_else(|e| panic!("{e}")));
    execute("CREATE TABLE l (k INT, v INT); CREATE TABLE r (k INT, v INT);");
    for (number, query) in queries.iter().enumerate() {
        execute(&format!("CREATE MATERIALIZED VIEW v{number} WITH (state_ttl = '10 s', state_ttl.r = '12 s') AS {query}"));
    }
    let rows = |from: usize| {
        let mut rows = String::new();
        (from..from + ROWS).for_each(|n| write!(rows, "{}({n}, {n})", if n > from { ", " } else { "" }).expect("a string has room"));
        rows
    };
    execute(&format!("INSERT INTO l VALUES {}; INSERT INTO r VALUES {};", rows(0), rows(ROWS / 2)));
    let held = || {
        let sql = "SELECT view, input, key, rows FROM weir_arrangements WHERE view NOT IN ('l', 'r') AND rows > 0 ORDER BY view";
        value::rows(&engine.query(sql).unwrap_or_else(|e| panic!("{e}"))).iter().map(|row| value::show(row)).collect::<Vec<_>>()
    };
    assert!(!held().is_empty());
    // A look is a step that has been made; without, several ADVANCEs may be one.
    for _ in 0..25 {
        execute("ADVANCE BY '1 s'");
        held();
    }
    assert_eq!(held(), Vec::<String>::new());
}
