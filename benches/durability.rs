//! What it costs to keep state in a folder: to write it in full, to write what has changed, to begin with it again; and how
//! long ticks take meanwhile.
//!
//! `cargo bench --bench durability` counts ten million keys with a ttl, and joins nothing: `WEIR_ROWS=1000000` before it makes it one
//! million. The folder is made in the folder for temporary files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use weir::{Clock, Engine};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TICK: usize = 20_000;
const PROGRAM: &str = "CREATE TABLE m (k BIGINT);
    CREATE MATERIALIZED VIEW counts WITH (state_ttl = '30 days') AS SELECT k, COUNT(*) AS n FROM m GROUP BY k;";

/// A bijection on 64 bits: numbers that look random and can be made again.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

fn tick(engine: &Engine, start: usize) -> Duration {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((start..start + TICK).map(|row| mix(row as u64) as i64)));
    let rows = RecordBatch::try_from_iter([("k", keys)]).expect("one column");
    let diffs = vec![1; TICK];
    let start = Instant::now();
    engine.insert("m", &rows, &diffs).expect("the engine runs");
    engine.settle().expect("the engine runs");
    start.elapsed()
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    format!("median {:.1} ms, p99 {:.1} ms, longest {:.1} ms of {}", at(0.5), at(0.99), at(0.9999), times.len())
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--test");
    let asked = std::env::var("WEIR_ROWS").ok().and_then(|rows| rows.parse().ok());
    let rows: usize = asked.unwrap_or(if quick { 100_000 } else { 10_000_000 });
    let folder = std::env::temp_dir().join(format!("weir-durability-{}", std::process::id()));
    let open = || {
        let engine = Engine::builder().clock(Clock::Manual).state(&folder).build().expect("an engine");
        for statement in weir::sql::statements(PROGRAM) {
            engine.run_again(&statement.expect("it parses")).expect("the engine runs");
        }
        engine
    };
    let engine = open();
    let ticks: Vec<Duration> = (0..rows / TICK).map(|number| tick(&engine, number * TICK)).collect();
    println!("{rows} rows of as many keys, {TICK} a tick, without a checkpoint: {}", percentiles(ticks[ticks.len() / 2..].to_vec()));

    let checkpoint = |what: &str| {
        let start = Instant::now();
        let summary = engine.checkpoint().expect("it can be written").expect("something has happened");
        let (seconds, megabytes) = (start.elapsed().as_secs_f64(), summary.written as f64 / 1e6);
        println!(
            "{what}: {megabytes:.0} MB of {:.0} MB written in {seconds:.2} s, {:.0} MB/s",
            summary.bytes as f64 / 1e6,
            megabytes / seconds
        );
    };
    checkpoint("full");
    // One in a hundred is written again.
    for number in 0..(rows / 100).div_ceil(TICK) {
        tick(&engine, number * TICK);
    }
    checkpoint("incremental");

    let writing = std::thread::spawn({
        let engine = engine.clone();
        move || {
            let (start, mut written) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_secs(if rows > 1_000_000 { 20 } else { 2 }) {
                written += usize::from(engine.checkpoint().expect("it can be written").is_some());
            }
            written
        }
    });
    let mut meanwhile = Vec::new();
    for number in 0.. {
        meanwhile.push(tick(&engine, number * TICK % rows));
        if writing.is_finished() {
            break;
        }
    }
    println!("while {} checkpoints are written one after the other: {}", writing.join().expect("it ends"), percentiles(meanwhile));
    let mut after: Vec<Duration> = Vec::new();
    (0..500.min(rows / TICK)).for_each(|number| after.push(tick(&engine, number * TICK % rows)));
    println!("and then without: {}", percentiles(after));
    engine.shutdown().expect("it can be written");
    drop(engine);

    let start = Instant::now();
    let engine = open();
    println!("begun with it again in {:.2} s", start.elapsed().as_secs_f64());
    println!("first tick {:.0} ms", tick(&engine, 0).as_secs_f64() * 1e3);
    drop(engine);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
