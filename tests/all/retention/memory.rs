//! What it takes to know when each scope is due.

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
