//! Conditions on NOW(), as they are solved.

use crate::plan::{Format, explain};

use super::*;

/// The conditions of a query's temporal filters, as EXPLAIN prints them, the uppermost first.
fn filters(sql: &str) -> Vec<String> {
    let plan = maintained(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).plan;
    let text = explain(&plan, Format::Text);
    let filters = text.lines().filter_map(|line| line.trim_start().strip_prefix("Temporal filter=["));
    filters.map(|rest| rest.trim_end_matches(']').to_owned()).collect()
}

#[test]
fn a_comparison_is_solved_for_now_however_it_is_written() {
    for (condition, solved) in [
        ("ts > NOW() - INTERVAL '10' SECOND", "(NOW() - 10 s) < ts"),
        ("NOW() < ts + INTERVAL '10' SECOND", "(NOW() - 10 s) < ts"),
        ("NOW() - INTERVAL '10' SECOND < ts", "(NOW() - 10 s) < ts"),
        ("NOW() - ts < INTERVAL '10' SECOND", "(NOW() - 10 s) < ts"),
        ("INTERVAL '10' SECOND > CURRENT_TIMESTAMP - ts", "(NOW() - 10 s) < ts"),
        ("ts - NOW() > INTERVAL '-10' SECOND", "(NOW() - 10 s) < ts"),
        ("NOT (ts - INTERVAL '1' DAY >= LOCALTIMESTAMP)", "(NOW() + 1 day) > ts"),
        ("CAST(ts AS TIMESTAMP(9)) <= NOW()", "NOW() >= ts"),
        ("ts >= CURRENT_DATE", "NOW() in whole 1 day <= ts"),
        ("ts >= CURRENT_DATE - INTERVAL '7' DAY", "(NOW() in whole 1 day - 7 days) <= ts"),
        ("ts > DATE_TRUNC('hour', NOW() - INTERVAL '30' MINUTE)", "(NOW() - 30 min) in whole 1 h < ts"),
        ("ts < DATE_TRUNC('week', NOW())", "((NOW() + 3 days) in whole 7 days - 3 days) > ts"),
        ("NOW() < ts + INTERVAL '1' MONTH", "NOW() < ts + INTERVAL '1' MONTH"),
    ] {
        assert_eq!(filters(&format!("SELECT ts FROM d WHERE {condition}")), [solved], "{condition}");
    }
}

#[test]
fn what_time_does_not_change_stays_a_plain_filter_before() {
    let plan = maintained("SELECT x FROM d WHERE ts > NOW() AND p AND x > 1").expect("a plan").plan;
    let text = explain(&plan, Format::Text);
    let (temporal, plain) = (text.find("Temporal filter=[NOW() < ts]"), text.find("Linear filter=["));
    assert!(temporal.is_some() && plain > temporal, "{text}");
}

#[test]
fn a_filter_of_one_side_is_below_the_join_and_one_of_both_above() {
    let below = maintained("SELECT d.x FROM d JOIN d AS e ON d.x = e.x WHERE d.ts > NOW()").expect("a plan").plan;
    let text = explain(&below, Format::Text);
    assert!(text.find("Join") < text.find("Temporal"), "{text}");
    let above = maintained("SELECT d.x FROM d JOIN d AS e ON d.x = e.x WHERE d.ts + (e.ts - d.ts) > NOW()").expect("a plan").plan;
    let text = explain(&above, Format::Text);
    assert!(text.find("Temporal") < text.find("Join"), "{text}");
}

#[test]
fn two_spellings_of_a_filter_are_one_plan() {
    let print = |condition: &str| maintained(&format!("SELECT x FROM d WHERE {condition}")).expect("a plan").plan.fingerprint();
    let ten = print("ts > NOW() - INTERVAL '10' SECOND");
    assert_eq!(ten, print("CURRENT_TIMESTAMP < ts + INTERVAL '10000' MILLISECOND"));
    assert_ne!(ten, print("ts >= NOW() - INTERVAL '10' SECOND"));
    assert_ne!(ten, print("ts > NOW() - INTERVAL '11' SECOND"));
    assert_ne!(ten, print("ts > NOW() + INTERVAL '10' SECOND"));
}
