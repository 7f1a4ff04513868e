//! What is refused says what it is.

use super::*;
use crate::sql::statement::SqlOption;

fn refusal(sql: &str) -> Error {
    match maintained(sql) {
        Err(error) => error,
        Ok(planned) => panic!("{sql} was planned\n{}", tree(&planned.plan)),
    }
}

#[test]
fn what_weir_does_not_do_is_refused_by_its_name() {
    for (sql, name) in [
        ("WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT * FROM r", "WITH RECURSIVE (r)"),
        ("SELECT * FROM TABLE(GENERATE(a, 1))", "table function GENERATE"),
        ("SELECT * FROM TUMBLE(d, ts, INTERVAL '1' MONTH)", "months"),
        ("SELECT COUNT(*) FROM d GROUP BY CUMULATE(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)", "CUMULATE in GROUP BY"),
        ("SELECT COUNT(*) FROM d GROUP BY CUBE (SESSION(ts, INTERVAL '1' MINUTE))", "SESSION in GROUPING SETS"),
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
        ("SELECT NOW() FROM t", "NOW()"),
        ("SELECT CAST(NOW() AS VARCHAR) || 'x' FROM t", "NOW()"),
        ("SELECT COUNT(*) FILTER (WHERE ts > CURRENT_TIMESTAMP) FROM d", "WHERE, HAVING and ON"),
        ("SELECT a FROM d, t WHERE EXTRACT(HOUR FROM NOW()) = a", "date_part('HOUR', now()) = a does not say"),
        ("SELECT ts FROM d WHERE ts > NOW() - INTERVAL '1' MONTH", "months differ in length"),
        ("SELECT ts FROM d WHERE LOCALTIME > TIME '10:00:00'", "does not say"),
        ("SELECT ts FROM d WHERE NOW() > CURRENT_DATE", "does not say"),
        ("SELECT CURRENT_DATE", "CURRENT_DATE"),
        ("SELECT PROCTIME()", "PROCTIME()"),
        ("SELECT RANDOM() FROM t", "RANDOM()"),
        ("SELECT a FROM t ORDER BY UUID() LIMIT 1", "UUID()"),
        ("SELECT CAST(a AS GEOMETRY) FROM t", "GEOMETRY"),
        ("SELECT a FROM t FULL JOIN u USING (a)", "FULL JOIN with USING"),
        ("SELECT * FROM t NATURAL RIGHT JOIN u", "RIGHT JOIN with USING or NATURAL"),
        ("SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES", "WITH TIES"),
        ("SELECT a, (SELECT COUNT(*) FROM u WHERE u.c > t.b) FROM t", "scalar subquery"),
        ("SELECT t.a, q.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a LIMIT 2) AS q", "LATERAL"),
        ("SELECT a FROM t WHERE a IN (SELECT c FROM u WHERE u.a = t.a LIMIT 2)", "LIMIT"),
        ("SELECT a FROM t WHERE EXISTS (SELECT c FROM u WHERE u.a = t.a OFFSET 2)", "OFFSET"),
        ("SELECT a FROM t WHERE a IN (SELECT MAX(c) FROM u WHERE u.a = t.a HAVING COUNT(*) > 1)", "HAVING"),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND NOT EXISTS (SELECT 1 FROM n WHERE n.k = u.c AND n.v = t.b))",
            "t.b",
        ),
        ("SELECT 1 FROM (t FULL JOIN u USING (a))", "FULL JOIN with USING"),
        ("SELECT a FROM t ORDER BY (SELECT MAX(c) FROM u WHERE u.c > t.b)", "a correlated scalar subquery"),
        ("SELECT UNNEST(items), UNNEST(ARRAY[1, 2]) FROM l", "UNNEST"),
        ("SELECT i, n FROM UNNEST(ARRAY[1]) WITH ORDINALITY AS q(i, n)", "WITH ORDINALITY"),
    ] {
        let error = refusal(sql);
        assert!(matches!(error, Error::Unsupported(_)), "{sql}: {error:?}");
        assert!(error.to_string().contains(name), "{sql}: {error}");
        assert!(!error.to_string().contains("__") && error.to_string().len() < 200, "{sql}: {error}");
    }
}

#[test]
fn a_name_that_nothing_has_is_answered_with_those_there_are() {
    for (sql, kind, name) in [
        ("SELECT nosuch FROM t", "column", "nosuch"),
        ("SELECT t.nosuch FROM t", "column", "t.nosuch"),
        ("SELECT * FROM missing", "table or view", "missing"),
        ("SELECT nosuch(a) FROM t", "function", "nosuch"),
    ] {
        let Error::Unknown { kind: found, name: what, have } = refusal(sql) else { panic!("{sql}: {}", refusal(sql)) };
        assert_eq!((found, what.as_str()), (kind, name), "{sql}");
        assert!(!have.is_empty(), "{sql}");
    }
    assert!(refusal("SELECT coutn(a) FROM t").to_string().contains("did you mean 'count'"));
}

#[test]
fn what_makes_no_sense_is_said_in_one_line() {
    for (sql, part) in [
        ("SELECT a FROM t JOIN u ON t.a = u.a", "more than one table"),
        ("SELECT a, b FROM t GROUP BY a", "column t.b in SELECT must be in GROUP BY"),
        ("SELECT a FROM t UNION SELECT a, b FROM t", "different number of columns"),
        ("SELECT a FROM t EXCEPT ALL SELECT a, b FROM t", "EXCEPT ALL"),
        ("SELECT CAST(a AS DECIMAL(99, 2)) FROM t", "precision"),
    ] {
        let message = refusal(sql).to_string();
        assert!(message.contains(part), "{sql}: {message}");
        assert_eq!(message.lines().count(), 1, "{sql}: {message}");
    }
}

#[test]
fn a_hint_that_nothing_reads_is_refused_by_its_name() {
    let option = SqlOption { name: "t".into(), value: "3d".into() };
    let hints = vec![Hint::StateTtl(vec![option]), Hint::Other("BROADCAST".into())];
    let hinted = Query { hints, ..query("SELECT a FROM t") };
    let error = plan_query(&hinted, &tables(), Purpose::Maintain, &Retentions::none()).expect_err("a hint").to_string();
    assert!(error.contains("hint BROADCAST") && error.contains("STATE_TTL"), "{error}");
    let closing = Query { emit_on_window_close: true, ..query("SELECT a FROM t") };
    let error = plan_query(&closing, &tables(), Purpose::Maintain, &Retentions::none()).expect_err("EMIT").to_string();
    assert!(error.contains("EMIT ON WINDOW CLOSE"), "{error}");
}

#[test]
fn a_volatile_function_is_allowed_in_a_query_that_is_asked_once() {
    assert!(plan_query(&query("SELECT RANDOM() FROM t"), &tables(), Purpose::Once { now: 0 }, &Retentions::none()).is_ok());
}

#[test]
fn a_range_over_a_time_says_its_unit_and_no_range_is_negative() {
    for (frame, expected) in [
        ("5 PRECEDING", "5 PRECEDING says no unit: write INTERVAL '5' SECOND PRECEDING"),
        ("'5' PRECEDING", "says no unit"),
        (
            "INTERVAL '-5' SECOND PRECEDING",
            "INTERVAL '-5' SECOND PRECEDING: what lies on the other side of the row is INTERVAL '5' SECOND FOLLOWING",
        ),
    ] {
        let error = refusal(&format!("SELECT COUNT(*) OVER (ORDER BY ts RANGE BETWEEN {frame} AND CURRENT ROW) FROM d"));
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(expected), "{frame}: {error}");
    }
    assert!(maintained("SELECT COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW) FROM d").is_ok());
    assert!(maintained("SELECT COUNT(*) OVER (ORDER BY a RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) FROM t").is_ok());
}
