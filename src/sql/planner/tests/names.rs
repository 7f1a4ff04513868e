//! What columns are called, and how plans say what they compute.

use super::*;
use crate::plan::{Format, explain};

fn names(sql: &str) -> Vec<String> {
    let plan = maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).plan;
    plan.row().columns.iter().map(|column| column.name.clone()).collect()
}

fn explained(sql: &str) -> String {
    explain(&maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).plan, Format::Text)
}

#[test]
fn a_column_without_a_name_is_called_what_was_written() {
    assert_eq!(
        names("SELECT 1, 'x', a + 1, (b), t.a, Upper(S), CAST(a AS VARCHAR) FROM t"),
        ["1", "'x'", "a + 1", "b", "a", "upper(s)", "CAST(a AS VARCHAR)"]
    );
    assert_eq!(
        names("SELECT COUNT(*), SUM(a) FILTER (WHERE b > 1), MAX(b) AS most FROM t"),
        ["count(*)", "sum(a) FILTER (WHERE b > 1)", "most"]
    );
    assert_eq!(names("SELECT a IN (SELECT a FROM u) FROM t"), ["a IN (SELECT a FROM u)"]);
    assert_eq!(names("SELECT * FROM (SELECT a + 1, COUNT(*) FROM t GROUP BY a + 1) AS q"), ["a + 1", "count(*)"]);
    assert_eq!(names("SELECT a + 1 FROM t UNION SELECT c FROM u"), ["a + 1"]);
    assert_eq!(names("SELECT a * 0.5, ROW_NUMBER() OVER (ORDER BY a) FROM t"), ["a * 0.5", "row_number() OVER (ORDER BY a)"]);
}

#[test]
fn a_column_that_is_asked_for_twice_is_there_twice_under_its_name() {
    assert_eq!(names("SELECT a, a, t.a, a + 1, a + 1 FROM t"), ["a", "a", "a", "a + 1", "a + 1"]);
    assert_eq!(names("SELECT x.*, y.* FROM u AS x JOIN u AS y ON x.a = y.a"), ["a", "c", "s", "a", "c", "s"]);
    assert_eq!(names("SELECT a, CAST(a AS BIGINT), 1, 1 FROM t"), ["a", "CAST(a AS BIGINT)", "1", "1"]);
}

#[test]
fn an_expression_of_select_can_be_sorted_by() {
    for sql in [
        "SELECT DISTINCT a + 1 FROM t ORDER BY a + 1 LIMIT 3",
        "SELECT COUNT(*) FROM t GROUP BY a ORDER BY COUNT(*) DESC LIMIT 3",
        "SELECT a + 1, a + 1 FROM t ORDER BY 2 LIMIT 3",
        "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY SUM(b) LIMIT 1",
        "SELECT a FROM t ORDER BY (SELECT MAX(c) FROM u) - a LIMIT 2",
    ] {
        assert!(maintained(sql).is_ok(), "{sql}: {}", maintained(sql).unwrap_err());
    }
}

#[test]
fn a_plan_says_its_expressions_as_sql() {
    let text = explained("SELECT CAST(ts AS DATE), COUNT(*), SUM(f) FROM d GROUP BY CAST(ts AS DATE) HAVING COUNT(*) > 1");
    assert!(text.contains("Reduce key=[CAST(ts AS DATE)] count(*), sum(f)"), "{text}");
    assert!(text.contains("filter=[count(*) > 1]"), "{text}");
    let text = explained("SELECT a, COUNT(DISTINCT b) FROM t GROUP BY a");
    assert!(text.contains("Reduce key=[a] count(DISTINCT b)") && text.contains("arranged by [a, b], counts in the diff\n"), "{text}");
    let text = explained("SELECT q.b FROM (SELECT SUM(b) OVER (PARTITION BY a + 1) AS b FROM t) AS q JOIN d ON q.b = d.f");
    assert!(text.contains("Window key=[CAST(a AS BIGINT) + 1] sum("), "{text}");
    assert!(!text.contains('@') && !text.contains("Int64("), "{text}");
}

#[test]
fn columns_computed_of_the_outer_row_need_no_join() {
    for sql in [
        "SELECT t.a, q.d FROM t CROSS JOIN LATERAL (SELECT t.b * 2 AS d) AS q",
        "SELECT t.a, q.e FROM t, LATERAL (SELECT p.d + t.a AS e FROM (SELECT t.b * 2 AS d) AS p) AS q",
        "SELECT t.a, q.d FROM t JOIN LATERAL (SELECT t.b * 2) AS q(d) ON q.d > 3",
    ] {
        let plan = maintained(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).plan;
        assert!(!tree(&plan).contains("Join"), "{}", tree(&plan));
    }
}

#[test]
fn an_interval_in_a_frame_is_written_as_in_sql() {
    for (frame, shown) in [
        ("INTERVAL '90' MINUTE PRECEDING AND CURRENT ROW", "INTERVAL '90' MINUTE PRECEDING AND CURRENT ROW"),
        ("INTERVAL '60' MINUTE PRECEDING AND INTERVAL '1' DAY FOLLOWING", "INTERVAL '1' HOUR PRECEDING AND INTERVAL '1' DAY FOLLOWING"),
        ("UNBOUNDED PRECEDING AND INTERVAL '1' SECOND FOLLOWING", "UNBOUNDED PRECEDING AND INTERVAL '1' SECOND FOLLOWING"),
    ] {
        let text = explained(&format!("SELECT COUNT(*) OVER (ORDER BY ts RANGE BETWEEN {frame}) AS n FROM d"));
        assert!(text.contains(&format!("(ORDER BY ts RANGE BETWEEN {shown})")), "{text}");
    }
}
