//! What a small change of a large view costs: one row at a time, from the call that adds it until a subscriber has what came of it.
//!
//! `cargo bench --bench latency` prints, for each view, the median and the 99th percentile over transactions of one row that is
//! added and one that is taken away again; `WEIR_ROWS=100000` before it makes the views as large.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use weir::{Clock, Engine};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TRANSACTIONS: usize = 4_000;

struct Case {
    name: &'static str,
    views: &'static str,
}

const CASES: [Case; 3] = [
    Case { name: "count", views: "CREATE VIEW v AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;" },
    Case { name: "join", views: "CREATE VIEW v AS SELECT a.k, a.x, b.x AS y FROM a JOIN b ON a.k = b.k;" },
    Case {
        name: "top-N",
        views: "CREATE VIEW v AS SELECT g, x FROM (SELECT k % 1000 AS g, x, ROW_NUMBER() OVER (PARTITION BY k % 1000 ORDER BY x DESC) AS n FROM a) AS t
                WHERE n <= 3;",
    },
];

fn rows(range: std::ops::Range<i64>) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone()));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
    RecordBatch::try_from_iter([("k", keys), ("x", values)]).expect("two columns")
}

fn run(case: &Case, count: i64) {
    let engine = Engine::builder().clock(Clock::Manual).build().expect("an engine");
    let execute = |sql: &str| engine.execute(sql).expect("the engine runs");
    execute("CREATE TABLE a (k BIGINT, x BIGINT); CREATE TABLE b (k BIGINT, x BIGINT);");
    execute(case.views);
    for start in (0..count).step_by(100_000) {
        let rows = rows(start..(start + 100_000).min(count));
        let diffs = vec![1; rows.num_rows()];
        engine.insert("a", &rows, &diffs).expect("the engine runs");
        engine.insert("b", &rows, &diffs).expect("the engine runs");
    }
    let mut changes = engine.subscribe("v").expect("the engine runs");
    let mut next = || changes.next_within(Duration::from_secs(60)).expect("the engine runs").expect("a change within a minute");
    next();
    let mut times: Vec<Duration> = (0..2 * TRANSACTIONS)
        .map(|transaction| {
            // A row of a key that is there, above all others of its group; then it goes again.
            let key = (transaction as i64 / 2 * 7_919) % count;
            let keys: ArrayRef = Arc::new(Int64Array::from(vec![key]));
            let values: ArrayRef = Arc::new(Int64Array::from(vec![2 * count]));
            let row = RecordBatch::try_from_iter([("k", keys), ("x", values)]).expect("two columns");
            let start = Instant::now();
            engine.insert("a", &row, &[if transaction % 2 == 0 { 1 } else { -1 }]).expect("the engine runs");
            next();
            start.elapsed()
        })
        .skip(TRANSACTIONS / 10)
        .collect();
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{:<8} {count} rows: median {:>6.0} µs   p99 {:>6.0} µs", case.name, at(0.5), at(0.99));
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--test");
    let asked = std::env::var("WEIR_ROWS").ok().and_then(|rows| rows.parse().ok());
    let count = asked.unwrap_or(if quick { 10_000 } else { 1_000_000 });
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for case in CASES.iter().filter(|case| chosen.is_empty() || chosen.iter().any(|choice| case.name.contains(choice.as_str()))) {
        run(case, count);
    }
}
