//! What forgetting costs, and what it gives back.
//!
//! `cargo bench --bench retention` times each query with a ttl and without, in one process, in turn, and prints the median
//! of the pairs' ratios. Then it lets a million keys expire at one instant, and prints how long a query on another view has to
//! wait at worst. Last it runs a month of keys that are each written once, with a ttl of three days and without, each in a
//! process of its own, and prints the memory that the process holds at the end of each day.

mod through_sql;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use through_sql::{Tables, mix, run};
use weir::engine::runtime::Runtime;
use weir::text::line;
use weir::{Clock, Engine};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TICK: usize = 20_000;

/// Seconds that a query over these keys takes.
fn seconds(sql: &str, updates: usize, key: impl Fn(usize) -> i64) -> f64 {
    let tables = Tables::new(&[("t", &["k"])]);
    let tick = |tick: usize| vec![tables.rows(0, vec![(tick * TICK..(tick + 1) * TICK).map(&key).collect()])];
    let start = Instant::now();
    run(sql, &tables, updates / TICK, tick, |_, _| {});
    start.elapsed().as_secs_f64()
}

fn compare(name: &str, updates: usize, ttl: &str, key: impl Fn(usize) -> i64 + Copy) {
    const RUNS: usize = 5;
    let with = format!("SELECT /*+ STATE_TTL('t' = '{ttl}') */ k, COUNT(*) FROM t GROUP BY k");
    let without = "SELECT k, COUNT(*) FROM t GROUP BY k";
    let (mut ratios, mut times) = (Vec::new(), Vec::new());
    for pair in 0..=RUNS {
        let (forgetting, plain) = (seconds(&with, updates, key), seconds(without, updates, key));
        // The first pair warms up.
        if pair > 0 {
            ratios.push(plain / forgetting);
            times.push((forgetting, plain));
        }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let rate = |seconds: f64| updates as f64 / seconds / 1e6;
    println!(
        "{name:<44} ttl {:>5.2} M/s   none {:>5.2} M/s   ratio {:.2}",
        rate(median(times.iter().map(|times| times.0).collect())),
        rate(median(times.iter().map(|times| times.1).collect())),
        median(ratios)
    );
}

/// Lets so many keys expire at one instant; prints how long that takes, and the waits of those who ask something else meanwhile.
fn storm(keys: usize) {
    let engine = Engine::builder().clock(Clock::Manual).build().expect("an engine");
    let run = |sql: &str| engine.execute(sql).expect("the engine runs");
    run("CREATE TABLE storm (k BIGINT); CREATE TABLE calm (k BIGINT);
         CREATE MATERIALIZED VIEW stormy WITH (state_ttl = '1 s', on_expiry = 'retract') AS SELECT k, COUNT(*) AS n FROM storm GROUP BY k;
         CREATE MATERIALIZED VIEW left_over AS SELECT COUNT(*) AS n FROM stormy;
         CREATE MATERIALIZED VIEW quiet AS SELECT k, COUNT(*) AS n FROM calm GROUP BY k;
         INSERT INTO calm VALUES (1);");
    let column = Arc::new(Int64Array::from_iter_values((0..keys).map(|row| mix(row as u64) as i64)));
    let rows = RecordBatch::try_from_iter([("k", column as ArrayRef)]).expect("one column");
    engine.insert("storm", &rows, &vec![1; keys]).expect("the engine runs");
    let mut left = engine.subscribe("left_over").expect("the engine runs");
    let mut until = |count: usize| {
        loop {
            let change = left.next_within(Duration::from_secs(60)).expect("the engine runs").expect("a change within a minute");
            if (0..change.rows.num_rows()).any(|row| change.diffs[row] > 0 && line(&change.rows, row) == [count.to_string()]) {
                return;
            }
        }
    };
    until(keys);
    // It waits for the rows that came before.
    run("INSERT INTO calm VALUES (1)");
    let start = Instant::now();
    run("ADVANCE BY '1 s'");
    let (done, mut waits) = (AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until(0);
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let asked = Instant::now();
            run("INSERT INTO calm VALUES (1)");
            run("SELECT n FROM quiet");
            waits.push(asked.elapsed().as_secs_f64());
        }
    });
    waits.sort_by(f64::total_cmp);
    let (all, worst) = (start.elapsed().as_secs_f64(), waits.last().copied().unwrap_or(0.0));
    println!(
        "\n{keys} keys expire at one instant: gone after {all:.2} s; {} inserts and queries on another view meanwhile, the longest {worst:.2} s",
        waits.len()
    );
}

/// Megabytes that this process holds.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0 / 1e6
}

/// A month of keys, an hour a tick: prints the day, the memory held, the trace's rows and bytes and the live scopes.
fn month(ttl: Option<&str>, keys: usize) {
    const HOURS: usize = 24 * 30;
    let per_hour = keys / HOURS;
    let hint = ttl.map_or_else(String::new, |ttl| format!("/*+ STATE_TTL('t' = '{ttl}') */ "));
    let tables = Tables::new(&[("t", &["k"])]);
    let tick =
        |hour: usize| vec![tables.rows(0, vec![(hour * per_hour..(hour + 1) * per_hour).map(|row| mix(row as u64) as i64).collect()])];
    let look = |hour: usize, runtime: &Runtime| {
        if hour % 24 == 23 {
            let state = runtime.arrangements().expect("the engine runs");
            let sum = |of: fn(&weir::engine::runtime::ArrangementInfo) -> i64| state.iter().map(of).sum::<i64>();
            println!("{} {:.1} {} {} {}", hour / 24 + 1, resident(), sum(|a| a.rows), sum(|a| a.bytes), sum(|a| a.live_scopes));
        }
    };
    run(&format!("SELECT {hint}k, COUNT(*) FROM t GROUP BY k"), &tables, HOURS, tick, look);
}

/// The lines that [`month`] prints in a process of its own, as figures.
fn month_apart(arguments: &[&str]) -> Vec<Vec<f64>> {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(arguments).output().expect("it can be run again");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(|line| line.split_whitespace().filter_map(|figure| figure.parse().ok()).collect()).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [month_of, keys, ttl @ ..] = arguments.as_slice()
        && month_of == "month"
        && let Ok(keys) = keys.parse()
    {
        // An hour is a millisecond here, so three days are 72 of them.
        return month(ttl.first().map(String::as_str), keys);
    }
    // `cargo bench -- --test` only asks whether it runs.
    let quick = arguments.iter().any(|argument| argument == "--test");
    let (updates, keys) = if quick { (100_000, 72_000) } else { (2_000_000, 5_000_000) };
    println!("{updates} updates, {TICK} a tick, 1 worker, medians of 5 pairs");
    compare("count, 1,000 hot keys, nothing expires", updates, "1 h", |row| (mix(row as u64) % 1_000) as i64);
    compare("count, 500,000 keys, nothing expires", updates, "1 h", |row| (mix(row as u64) % 500_000) as i64);
    compare("count, every key once, lives 30 ticks", updates, "30 ms", |row| mix(row as u64) as i64);

    storm(if quick { 50_000 } else { 1_000_000 });
    println!("\n{keys} keys, each written once, over a month of hourly ticks; memory in MB");
    let keys = keys.to_string();
    let (with, without) = (month_apart(&["month", &keys, "72 ms"]), month_apart(&["month", &keys]));
    println!("{:>4} {:>14} {:>14} {:>12} {:>12}", "day", "ttl 3 days", "no ttl", "rows (ttl)", "scopes");
    for (with, without) in with.iter().zip(&without) {
        println!("{:>4} {:>14.0} {:>14.0} {:>12} {:>12}", with[0], with[1], without[1], with[2], with[4]);
    }
}
