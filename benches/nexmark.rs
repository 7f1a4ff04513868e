//! The queries of Nexmark through SQL, each beside its twin in hand-written differential dataflow.
//!
//! Both get the same rows in the same ticks, in one process, in turn; inputs are made before the clock starts and both
//! drop their output at a probe. First the results of both are compared, row by row, over the first events. Then
//! come the runs; printed are the median rates, the median of the pairs' ratios and how far these lie apart.
//!
//! `cargo bench --bench nexmark` runs all that have a twin over a million events, `-- q4 q9` these, and `WEIR_EVENTS=100000` before
//! it makes them as many.

#[path = "nexmark/events.rs"]
mod events;
#[path = "through_sql/feed.rs"]
mod feed;
#[path = "nexmark/twins.rs"]
mod twins;
#[path = "nexmark/weir.rs"]
mod weir_side;

use std::time::Duration;

use events::{Events, TICK};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How the results differ, of the rows that are there more often on one side.
fn difference(weir: &events::Multiset, twin: &events::Multiset) -> Option<String> {
    let differs = |(row, count): &(&String, &i64)| weir.get(*row) != Some(*count) || twin.get(*row) != Some(*count);
    let row = weir.iter().chain(twin).filter(differs).map(|(row, _)| row).min()?;
    let count = |side: &events::Multiset| side.get(row).copied().unwrap_or(0);
    Some(format!("({row}) is there {} times through SQL and {} by hand", count(weir), count(twin)))
}

/// Both rates and the ratio of a query.
fn compare(name: &str, twin: twins::Twin, first: &Events, all: &Events, runs: usize) -> f64 {
    let page = weir_side::Page::of(name);
    let (weir, by_hand) = (page.result(first), twins::result(twin, first));
    assert!(!weir.is_empty(), "{name} has no rows to compare");
    if let Some(difference) = difference(&weir, &by_hand) {
        panic!("{name}: {difference}");
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for pair in 0..=runs {
        let (a, b) = (page.time(all), twins::time(twin, all));
        // The first pair warms up.
        if pair > 0 {
            ours.push(a);
            theirs.push(b);
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| b.as_secs_f64() / a.as_secs_f64()).collect();
    let (low, high) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let rate = |times: Vec<Duration>| all.len() as f64 / median(times.iter().map(Duration::as_secs_f64).collect()) / 1e6;
    let ratio = median(ratios);
    println!("{name:<5} weir {:>6.2} M/s   twin {:>6.2} M/s   ratio {ratio:.2} ({low:.2} to {high:.2})", rate(ours), rate(theirs));
    ratio
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --test` only ask whether it runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let asked = std::env::var("WEIR_EVENTS").ok().and_then(|events| events.parse().ok());
    let count: usize = asked.unwrap_or(if quick { TICK } else { 1_000_000 });
    let runs = if quick { 1 } else { RUNS };
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let all = Events::new(count);
    let first = Events::new(count.min(100_000));
    println!("{count} events, {TICK} a tick, 1 worker, medians of {runs} pairs");
    let mut ratios = Vec::new();
    for (name, twin) in twins::ALL {
        if chosen.is_empty() || chosen.iter().any(|choice| choice == name) {
            ratios.push(compare(name, *twin, &first, &all, runs));
        }
    }
    if !ratios.is_empty() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        println!("geometric mean of the ratios of {} queries: {mean:.2}", ratios.len());
    }
}
