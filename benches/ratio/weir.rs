//! The queries through SQL.

use super::Size;
use super::through_sql::{Tables, mix, run};

/// `SELECT k, COUNT(*) FROM t GROUP BY k`.
pub fn count(size: Size) -> u64 {
    let tables = Tables::new(&[("t", &["k"])]);
    let tick = |tick| {
        let keys = (tick * size.tick..(tick + 1) * size.tick).map(|row| (mix(row as u64) % size.keys) as i64).collect();
        vec![tables.rows(0, vec![keys])]
    };
    run("SELECT k, COUNT(*) FROM t GROUP BY k", &tables, size.updates / size.tick, tick, |_, _| {});
    size.updates as u64
}

/// `SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k`, half of the updates to each side.
pub fn join(size: Size) -> u64 {
    let tables = Tables::new(&[("a", &["k", "v"]), ("b", &["k", "w"])]);
    let tick = |tick| {
        let side = |parity: usize| {
            let rows = (tick * size.tick..(tick + 1) * size.tick).filter(|row| row % 2 == parity);
            let (keys, values) = rows.map(|row| ((mix(row as u64) % size.keys) as i64, row as i64)).unzip();
            vec![keys, values]
        };
        vec![tables.rows(0, side(0)), tables.rows(1, side(1))]
    };
    run("SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k", &tables, size.updates / size.tick, tick, |_, _| {});
    size.updates as u64
}
