//! The oracle test: every query of [`crate::oracle_queries`], all in one engine, equals SQLite after every step.
//!
//! `WEIR_ORACLE_ONLY=word` runs only the queries whose names contain the word.

use std::collections::HashSet;

use crate::check::{Case, run};
use crate::oracle_queries::{Query, all};
use crate::shrink::reproducer;
use crate::sqlite::Sqlite;
use crate::world::Script;

const STEPS: usize = 30;
const ROWS: usize = 25;
/// How many failing queries are shrunk; the others are listed.
const SHRUNK: usize = 6;

fn check(seed: u64, workers: usize, losses: Option<u64>) {
    let only = std::env::var("WEIR_ORACLE_ONLY").unwrap_or_default();
    let queries: Vec<Query> = all().into_iter().filter(|query| query.name.contains(&only)).collect();
    let cases: Vec<Case> = queries.iter().map(Query::case).collect();
    let script = Script { losses, ..Script::random(seed, if losses.is_some() { STEPS / 2 } else { STEPS }, ROWS) };
    let report = run(&cases, &script, workers);
    let mut complaints = vec![];
    for (i, why) in &report.refused {
        if queries[*i].must_work {
            complaints.push(format!("{}: refused: {why}", cases[*i].name));
        } else {
            println!("{}: refused: {why}", cases[*i].name);
        }
    }
    for (i, failure) in report.failures.iter().enumerate() {
        let case = &cases[failure.case];
        complaints.push(match i {
            0..SHRUNK => reproducer(case, &script, failure, workers),
            _ => format!("{} at step {}: {}", case.name, failure.step, failure.message),
        });
    }
    let (bad, of) = (complaints.len(), cases.len());
    assert!(complaints.is_empty(), "{bad} of {of} queries fail, seed {seed}, {workers} worker(s):\n\n{}", complaints.join("\n\n"));
}

#[test]
fn every_view_and_changelog_equals_sqlite_after_every_step_on_one_worker() {
    check(1, 1, None);
}

#[test]
fn every_view_and_changelog_equals_sqlite_after_every_step_on_two_workers() {
    check(2, 2, None);
}

#[test]
fn every_view_and_changelog_equals_sqlite_after_every_step_though_the_engine_is_lost_between_steps() {
    check(3, 1, Some(3));
    check(4, 2, Some(4));
}

/// The test of the test: an expected result that is always empty would prove nothing.
#[test]
fn sqlite_takes_every_query_and_each_has_rows_and_changes() {
    let queries = all();
    let names: HashSet<&str> = queries.iter().map(|query| query.name).collect();
    assert_eq!(names.len(), queries.len(), "two queries have one name");
    assert!(queries.len() >= 75, "{} queries", queries.len());
    let mut complaints = vec![];
    for seed in [1, 2] {
        let sqlite = Sqlite::new();
        let mut results = vec![HashSet::new(); queries.len()];
        for step in Script::random(seed, STEPS, ROWS).steps {
            step.changes.into_iter().for_each(|mut change| change.make_in_sqlite(&sqlite));
            for (query, results) in queries.iter().zip(&mut results) {
                results.insert(format!("{:?}", sqlite.query(query.sqlite)));
            }
        }
        for (query, results) in queries.iter().zip(&results) {
            match results.iter().find(|result| result.starts_with("Err")) {
                Some(error) => complaints.push(format!("{}: {error}", query.name)),
                None if results.len() > query.least_results() => {}
                None => complaints.push(format!("{} has only {} results in {STEPS} steps", query.name, results.len())),
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
