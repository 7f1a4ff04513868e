//! `weir bench` as a user meets it: each query of each workload runs, and its figures are of what it was given.

use std::collections::BTreeMap;
use std::process::{Command, Output};

/// A row of what the command prints, by column.
type Line = BTreeMap<String, String>;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("bench").args(arguments).output().expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is printed as CSV, a row a query.
fn figures(arguments: &[&str]) -> Vec<Line> {
    let output = bench(&[arguments, &["--format", "csv"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let printed = text(&output.stdout);
    let mut lines = printed.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

fn number(line: &Line, column: &str) -> f64 {
    line[column].parse().unwrap_or_else(|_| panic!("{column} of {line:?}"))
}

#[test]
fn every_query_of_nexmark_reads_every_event() {
    let all = figures(&["nexmark", "--events", "2000"]);
    assert_eq!(all.len(), 24);
    for line in all {
        // q13 joins with a table of ten thousand rows.
        let rows = if line["query"] == "q13" { 12_000.0 } else { 2_000.0 };
        assert_eq!(number(&line, "rows"), rows, "{line:?}");
        assert!(number(&line, "p50_ms") <= number(&line, "p99_ms") && number(&line, "p99_ms") <= number(&line, "max_ms"), "{line:?}");
    }
}

#[test]
fn workers_share_the_rate_and_clicks_and_logins_are_as_many_as_asked_for() {
    for workload in ["clicks", "dau"] {
        for line in figures(&[workload, "--events", "3000", "--workers", "2"]) {
            assert_eq!(number(&line, "rows"), 3_000.0, "{line:?}");
            let (all, one) = (number(&line, "rows_per_s"), number(&line, "per_core"));
            assert!((all / 2.0 - one).abs() <= 1.0, "{line:?}");
        }
    }
}

#[test]
fn names_that_are_not_there_are_answered_with_those_there_are() {
    for (arguments, answer) in [
        (["nexmarc", "--events", "1"].as_slice(), "nexmark"),
        (&["nexmark", "--queries", "q0,q77"], "there is no query of nexmark 'q77'; did you mean 'q17'?"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(answer), "{}", text(&output.stderr));
    }
}

#[test]
fn a_report_has_every_query_and_one_that_cannot_be_written_is_an_error_before_anything_runs() {
    let path = std::env::temp_dir().join(format!("weir bench {}.html", std::process::id()));
    let report = path.to_str().expect("a path of ours is text");
    figures(&["dau", "--events", "2000", "--report", report]);
    let page = std::fs::read_to_string(&path).expect("the report is there");
    std::fs::remove_file(&path).expect("it is ours");
    for query in ["as_it_is", "three_days", "for_ever"] {
        assert!(page.contains(&format!("<td>{query}</td>")), "{query}");
    }
    // It would take hours.
    let output = bench(&["nexmark", "--events", "10000000000", "--report", "no/such/folder/report.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot write the report 'no/such/folder/report.html': "), "{}", text(&output.stderr));
}
