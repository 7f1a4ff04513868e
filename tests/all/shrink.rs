//! Makes a failing script small enough to read: whatever can go while the failure stays, goes.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::check::{Case, Failure, run};
use crate::world::{BASE_VIEWS, Change, Script, Table};

/// How long to try.
const PATIENCE: Duration = Duration::from_secs(20);

/// A failing case as text: definitions, the fewest changes found that still fail, and how it fails.
pub fn reproducer(case: &Case, script: &Script, failure: &Failure, workers: usize) -> String {
    let (script, message) = shrink(case, script, failure, workers);
    let mut text = format!("{} ({workers} worker(s))\n", case.name);
    for table in Table::ALL {
        let _ = writeln!(text, "  {};", table.weir_definition());
    }
    if ["v1", "v2", "v3"].iter().any(|view| case.weir.contains(view)) {
        BASE_VIEWS.iter().for_each(|view| text.push_str(&format!("  {view};\n")));
    }
    for (i, step) in script.steps.iter().enumerate() {
        if i == script.views_before.min(script.steps.len() - 1) {
            let _ = writeln!(text, "  CREATE MATERIALIZED VIEW v AS {};", case.weir);
        }
        let _ = writeln!(text, "  -- step {i}\n{step}");
    }
    let _ = write!(text, "  => {message}\n  SQLite: {}", case.sqlite);
    text
}

/// The smallest failing script found, and its message.
fn shrink(case: &Case, script: &Script, failure: &Failure, workers: usize) -> (Script, String) {
    let start = Instant::now();
    let fails = |script: &Script| {
        let in_time = start.elapsed() < PATIENCE && !script.steps.is_empty();
        in_time.then(|| run(std::slice::from_ref(case), script, workers).failures.into_iter().next()).flatten()
    };
    let (mut best, mut message) = (script.clone(), failure.message.clone());
    let mut keep_if_it_fails = |best: &mut Script, candidate: Script| match fails(&candidate) {
        Some(failure) => {
            *best = candidate;
            message = failure.message;
            true
        }
        None => false,
    };
    let mut prefix = best.clone();
    prefix.steps.truncate(failure.step + 1);
    if prefix.steps.len() < best.steps.len() {
        keep_if_it_fails(&mut best, prefix);
    }
    let from_the_start = Script { views_before: 0, ..best.clone() };
    keep_if_it_fails(&mut best, from_the_start);
    for remove in [remove_step, remove_change, remove_row] {
        let mut at = 0;
        while let Some(candidate) = remove(&best, at) {
            if !keep_if_it_fails(&mut best, candidate) {
                at += 1;
            }
        }
    }
    (best, message)
}

fn remove_step(script: &Script, at: usize) -> Option<Script> {
    let mut script = script.clone();
    (at < script.steps.len()).then(|| script.steps.remove(at))?;
    script.views_before = script.views_before.saturating_sub(usize::from(at < script.views_before));
    Some(script)
}

fn remove_change(script: &Script, at: usize) -> Option<Script> {
    let mut script = script.clone();
    let mut before = 0;
    let step = script.steps.iter_mut().find(|step| {
        before += step.changes.len();
        at < before
    })?;
    step.changes.remove(at - (before - step.changes.len()));
    Some(script)
}

fn remove_row(script: &Script, at: usize) -> Option<Script> {
    let mut script = script.clone();
    let mut left = at;
    for change in script.steps.iter_mut().flat_map(|step| &mut step.changes) {
        let rows = match change {
            Change::Insert { rows, .. } => rows.len(),
            Change::Diffs { rows, .. } => rows.len(),
            Change::Statement(_) => 0,
        };
        if left < rows {
            match change {
                Change::Insert { rows, .. } => drop(rows.remove(left)),
                Change::Diffs { rows, .. } => drop(rows.remove(left)),
                Change::Statement(_) => {}
            }
            return Some(script);
        }
        left -= rows;
    }
    None
}

#[test]
fn every_part_of_a_script_can_be_removed() {
    let script = Script::random(7, 6, 20);
    let count = |remove: fn(&Script, usize) -> Option<Script>| (0..).take_while(|at| remove(&script, *at).is_some()).count();
    assert_eq!(count(remove_step), 6);
    assert_eq!(count(remove_change), script.steps.iter().map(|step| step.changes.len()).sum::<usize>());
    assert!(count(remove_row) > 0);
}
