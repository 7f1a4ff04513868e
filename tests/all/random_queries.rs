//! Queries that a generator makes up, kept up to date under random changes, equal SQLite.
//!
//! What Weir says it does not support is counted and listed; any other error is a failure, like a wrong answer.
//! `WEIR_FUZZ_SECONDS` (600) and `WEIR_FUZZ_SEED` (the time) are for the long run:
//! `cargo test --release -- --ignored --nocapture random_queries`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::check::{Case, Failure, run};
use crate::generator::{Generator, Query};
use crate::shrink::reproducer;
use crate::sqlite::Sqlite;
use crate::world::Script;

/// Queries that share an engine and its changes.
const BATCH: usize = 6;
const STEPS: usize = 8;
/// Three joined tables are up to a couple of thousand rows.
const ROWS: usize = 12;
/// How long to look for a smaller failing query.
const PATIENCE: Duration = Duration::from_secs(30);
/// The long run stops at so many failures: more of them are more of the same.
const ENOUGH: usize = 8;

/// What came of some batches.
#[derive(Default)]
struct Tally {
    tried: usize,
    refused: BTreeMap<String, usize>,
    failures: Vec<String>,
}

fn batch(seed: u64) -> Vec<Query> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..BATCH).map(|_| Generator::new(&mut rng).query()).collect()
}

impl Tally {
    fn add(&mut self, seed: u64, losses: Option<u64>) {
        let queries = batch(seed);
        let cases: Vec<Case> = queries.iter().enumerate().map(|(i, query)| query.case(format!("seed {seed}, query {i}"))).collect();
        let (script, workers) = (Script { losses, ..Script::random(seed, STEPS, ROWS) }, 1 + (seed % 2) as usize);
        let report = run(&cases, &script, workers);
        self.tried += cases.len();
        for (_, why) in report.refused {
            *self.refused.entry(why).or_default() += 1;
        }
        for failure in report.failures {
            let (case, failure) = shrink_query(&queries[failure.case], &cases[failure.case], failure, &script, workers);
            self.failures.push(reproducer(&case, &script, &failure, workers));
        }
    }

    fn report(&self) {
        println!("{} random queries, {} refused, {} failures", self.tried, self.refused.values().sum::<usize>(), self.failures.len());
        for (why, count) in &self.refused {
            println!("  {count} x not supported: {why}");
        }
    }
}

/// The smallest query found that still fails on the script.
fn shrink_query(query: &Query, case: &Case, failure: Failure, script: &Script, workers: usize) -> (Case, Failure) {
    let start = Instant::now();
    let (mut query, mut best, mut failure) = (query.clone(), case.clone(), failure);
    'smaller: loop {
        for candidate in query.smaller() {
            let smaller = candidate.case(case.name.clone());
            if start.elapsed() > PATIENCE {
                break 'smaller;
            }
            if Sqlite::new().query(&smaller.sqlite).is_err() {
                continue;
            }
            if let Some(same) = run(std::slice::from_ref(&smaller), script, workers).failures.pop() {
                (query, best, failure) = (candidate, smaller, same);
                continue 'smaller;
            }
        }
        break;
    }
    (best, Failure { case: 0, ..failure })
}

#[test]
fn sixty_random_queries_equal_sqlite_after_every_step() {
    let mut tally = Tally::default();
    (1..=10).for_each(|seed| tally.add(seed, None));
    tally.report();
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n\n"));
}

#[test]
fn thirty_random_queries_equal_sqlite_after_every_step_though_the_engine_is_lost_between_steps() {
    let mut tally = Tally::default();
    (101..=105).for_each(|seed| tally.add(seed, Some(seed)));
    tally.report();
    assert!(tally.failures.is_empty(), "{}", tally.failures.join("\n\n"));
}

/// Ignored because it runs for ten minutes by design; the test above is its short form.
#[test]
#[ignore = "runs for WEIR_FUZZ_SECONDS (600)"]
fn random_queries_equal_sqlite_for_as_long_as_you_like() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number("WEIR_FUZZ_SECONDS").unwrap_or(600));
    let first =
        number("WEIR_FUZZ_SEED").unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() * 1000));
    println!("from seed {first} for {} s", time.as_secs());
    let (start, mut tally, mut told) = (Instant::now(), Tally::default(), 0);
    for seed in first.. {
        if start.elapsed() > time || tally.failures.len() >= ENOUGH {
            break;
        }
        tally.add(seed, (seed % 2 == 1).then_some(seed));
        tally.failures[told..].iter().for_each(|failure| println!("{failure}\n"));
        told = tally.failures.len();
    }
    tally.report();
    assert!(tally.failures.is_empty(), "{} failures, printed above", tally.failures.len());
}

/// The test of the test: the generator writes SQL, and most of it says something.
#[test]
fn sqlite_takes_what_the_generator_writes_and_most_results_are_not_empty() {
    let mut with_rows = 0;
    let seeds = 1..=200;
    for seed in seeds.clone() {
        let (sqlite, queries) = (Sqlite::new(), batch(seed));
        let mut has_rows = [false; BATCH];
        for step in Script::random(seed, STEPS, ROWS).steps {
            step.changes.into_iter().for_each(|mut change| change.make_in_sqlite(&sqlite));
            for (query, has_rows) in queries.iter().zip(&mut has_rows) {
                let rows = sqlite.query(&query.case("generated").sqlite).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                *has_rows |= !rows.is_empty();
            }
        }
        with_rows += has_rows.into_iter().filter(|has_rows| *has_rows).count();
    }
    let tried = seeds.count() * BATCH;
    assert!(with_rows * 3 > tried * 2, "only {with_rows} of {tried} queries have rows");
}
