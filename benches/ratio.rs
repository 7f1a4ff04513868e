//! Weir beside hand-written differential dataflow: the same updates, the same ticks, one process, in turn.
//!
//! `cargo bench` prints, for each query, the median rate of both over several runs and the ratio. The twin is what an
//! expert would write for this one query with typed tuples: a count by key is `count_total` over keys, which keeps no
//! output trace. Inputs are made before the clock starts; both sides drop their output at a probe.

mod through_sql;
#[path = "ratio/twins.rs"]
mod twins;
#[path = "ratio/weir.rs"]
mod weir_side;

use std::time::{Duration, Instant};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Updates in all, updates a tick, and distinct keys.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub updates: usize,
    pub tick: usize,
    pub keys: u64,
}

fn timed(run: impl FnOnce() -> u64) -> (Duration, u64) {
    let start = Instant::now();
    let rows = run();
    (start.elapsed(), rows)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn compare(name: &str, size: Size, weir: impl Fn(Size) -> Duration, twin: impl Fn(Size) -> Duration) {
    const RUNS: usize = 5;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let (a, b) = (weir(size), twin(size));
        // The first pair warms up.
        if run > 0 {
            ours.push(a);
            theirs.push(b);
        }
    }
    let rate = |time: Duration| size.updates as f64 / time.as_secs_f64() / 1e6;
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| b.as_secs_f64() / a.as_secs_f64()).collect();
    let (low, high) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "{name:<28} weir {:>6.2} M/s   twin {:>6.2} M/s   ratio {:.2} ({low:.2} to {high:.2})",
        rate(ours),
        rate(theirs),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --test` only ask whether it runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let updates = if quick { 20_000 } else { 2_000_000 };
    // Any other argument chooses among the names.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|choice| name.contains(choice.as_str()));
    println!("{updates} updates, 20,000 a tick, 1 worker, medians of 5 runs");
    for keys in [1_000, 500_000] {
        let (name, size) = (format!("count by key, {keys} keys"), Size { updates, tick: 20_000, keys });
        if is_chosen(&name) {
            compare(&name, size, |size| timed(|| weir_side::count(size)).0, |size| timed(|| twins::count(size)).0);
        }
    }
    let (name, size) = ("join of two, 500000 keys", Size { updates, tick: 20_000, keys: 500_000 });
    if is_chosen(name) {
        compare(name, size, |size| timed(|| weir_side::join(size)).0, |size| timed(|| twins::join(size)).0);
    }
}
