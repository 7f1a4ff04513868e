//! What holds for every statement: places, texts, and that no text makes the parser panic.

use std::path::{Path, PathBuf};

use super::testing::{one, refusal};
use super::*;

#[test]
fn a_script_is_its_statements_with_their_own_texts_and_lines() {
    let script = "-- first\n;;SET clock = 'manual' ;\n\nSELECT 'é;ü' /* ; */,\n  \"ß\"  -- end\n;/* between */ DROP VIEW v";
    let parsed = parse(script).unwrap();
    let texts: Vec<(&str, u64)> = parsed.iter().map(|parsed| (parsed.text.as_str(), parsed.line)).collect();
    assert_eq!(texts, [("SET clock = 'manual'", 2), ("SELECT 'é;ü' /* ; */,\n  \"ß\"", 4), ("DROP VIEW v", 6)]);
}

#[test]
fn a_statements_text_is_what_was_written_and_not_what_it_was_read_as() {
    for sql in [
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "TABLE t",
        "CREATE TABLE t (a TIMESTAMP_LTZ(3), b ROW<x INT>)",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a TABLE b; END",
        "SELECT 1 EMIT ON WINDOW CLOSE",
    ] {
        assert_eq!(parse(&format!(" {sql} ; -- next\n")).unwrap()[0].text, sql);
    }
}

#[test]
fn texts_without_a_statement_have_none() {
    for text in ["", "  \r\n\t", ";;;", "-- only a comment", "/* only */ /* /* nested */ comments */", ";-- x\n;"] {
        assert!(parse(text).unwrap().is_empty(), "{text:?}");
    }
}

#[test]
fn a_script_runs_up_to_its_first_mistake_and_no_further() {
    for (script, good) in
        [("SET a = 1; SELECT 2; SELEC 3; SELECT 4", 2), ("SELECT 1; SELECT 'open", 1), ("SELECT `lone", 0), ("SELECT 1; /* open", 1)]
    {
        let results: Vec<_> = statements(script).collect();
        assert_eq!(results.len(), good + 1, "{script}");
        assert!(results[..good].iter().all(Result::is_ok) && results[good].is_err(), "{script}");
    }
}

#[test]
fn a_syntax_error_has_its_line_and_column_in_the_whole_script() {
    let cases = [
        ("SELECT 1;\nSELEC 2", 2, 1),
        ("SELECT 1;\n  SELECT a FROM 5", 2, 17),
        ("SELECT 1;\n\nCREATE TABLE t (a INT,)", 3, 23),
        ("SELECT 1;\nSELECT (2", 2, 10),
        ("SELECT 1;\nSELECT 'é' 3 4", 2, 12),
        ("SELECT 1;\nSELECT 'open", 2, 8),
        ("SELECT 1;\nSELECT `lone", 2, 8),
        ("SET a = ;", 1, 9),
        ("SELECT 1 SELECT 2", 1, 10),
    ];
    for (script, expected_line, expected_column) in cases {
        let Err(Error::Syntax { message, line, column }) = parse(script) else { panic!("{script}") };
        assert_eq!((line, column), (expected_line, expected_column), "{script}: {message}");
    }
}

#[test]
fn a_mistake_before_an_open_quote_is_the_one_that_is_told() {
    assert!(refusal("SELEC 1; SELECT 'open").contains("found SELEC at line 1, column 1"));
}

#[test]
fn statements_that_are_not_ours_are_refused_by_name() {
    for (sql, name) in [("MERGE INTO t USING u ON a = b", "MERGE"), ("TRUNCATE TABLE t", "TRUNCATE"), ("USE CATALOG c", "USE")] {
        assert_eq!(refusal(sql), format!("not supported: statement {name}"));
    }
    assert!(refusal("FLY ME").contains("expected a statement, found FLY"));
    assert!(refusal("42").contains("expected a statement, found 42"));
}

#[test]
fn a_hint_that_belongs_to_no_statement_is_refused() {
    assert!(refusal("SET a = 1; /*+ LOST */").contains("hint LOST"));
    assert!(refusal("SET a = 1 /*+ LOST */; SELECT 1").contains("hint LOST"));
    assert!(refusal("CREATE TABLE t /*+ LOST */ (a INT)").contains("hint LOST"));
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    const DEEP: usize = 10_000;
    let nested = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(DEEP), close.repeat(DEEP));
    for sql in [
        format!("SELECT {}", nested("(", "1", ")")),
        nested("(", "SELECT 1", ")"),
        format!("SELECT * FROM {}", nested("(", "t", ")")),
        format!("SELECT * FROM {}", nested("(SELECT * FROM ", "t", ")")),
        format!("SELECT {}", nested("f(", "a", ")")),
        format!("CREATE VIEW v AS SELECT {}", nested("(", "1", ")")),
        format!("CREATE TABLE t (a AS {})", nested("(", "1", ")")),
        format!("DELETE FROM t WHERE {}", nested("(", "a", ")")),
    ] {
        assert!(refusal(&sql).contains("nested too deeply"), "{}: {}", &sql[..40], refusal(&sql));
    }
    // sqlparser takes a CASE or NOT that it cannot read for a column of that name: an error too, if a poor one.
    refusal(&format!("SELECT {}", nested("NOT ", "a", "")));
    refusal(&format!("SELECT {}", nested("CASE WHEN ", "a", " THEN 1 END")));
    one(&format!("SELECT {}1{}", "(".repeat(20), ")".repeat(20)));
}

#[test]
fn a_chain_that_would_exhaust_a_stack_is_an_error() {
    for link in ["a + ", "a = 1 OR ", "a = 1 AND ", "'x' || "] {
        assert!(refusal(&format!("SELECT 1 WHERE {}1", link.repeat(100_000))).contains("operators in a row"), "{link}");
    }
    // Of these some nest to the left and some to the right, where the limit on nesting ends them.
    for link in [" IS NULL", "::INT", " IN (1)", " IS NOT DISTINCT FROM 1", " BETWEEN 1 AND 2"] {
        let message = refusal(&format!("SELECT a{}", link.repeat(100_000)));
        assert!(message.contains("operators in a row") || message.contains("nested too deeply"), "{link}: {message}");
    }
    for link in ["SELECT 1 UNION ALL ", "SELECT 1 EXCEPT "] {
        assert!(refusal(&format!("{}SELECT 1", link.repeat(100_000))).contains("set operations"), "{link}");
    }
    // What is allowed can be copied on a test's small stack.
    let longest = format!("SELECT {}1", "a + ".repeat(190));
    drop(one(&longest).clone());
    drop(one(&format!("{}SELECT 1", "SELECT 1 UNION ALL ".repeat(100))).clone());
}

#[test]
fn ugly_texts_parse_or_fail_without_a_panic() {
    let pieces = [
        "SELECT",
        "'",
        "`",
        "\"",
        "(",
        ")",
        ";",
        "/*",
        "*/",
        "/*+",
        "--",
        "\n",
        "\r",
        "\u{0}",
        "é",
        "日本",
        "🦀",
        "$$",
        "$1",
        "E'",
        "U&'\\",
        "X'",
        "@",
        "#",
        "?",
        "1e",
        "1.",
        "..",
        "TABLE(",
        "TUMBLE(",
        "TABLE",
        "DESCRIPTOR(",
        "CREATE",
        "TABLE t (",
        "WITH (",
        "AS",
        "EMIT",
        "ON WINDOW",
        "EXPLAIN (",
        "SET",
        "=",
        "INSERT INTO t",
        "EXECUTE STATEMENT SET BEGIN",
        "END",
        "ADVANCE BY",
        "ROW<",
        ">>",
        "[",
        "{",
        "::",
        "->",
        "\\",
        "|>",
        "INTERVAL",
        "CAST(",
        "CASE",
        "PARTITION BY",
    ];
    // Every three of them in a row, and each cut of a good script.
    for first in pieces {
        for second in pieces {
            for third in pieces {
                let text = format!("{first} {second}{third}");
                let _outcome = parse(&text);
                is_complete(&text);
            }
        }
    }
    let script = "CREATE TABLE `é` (a INT PRIMARY KEY NOT ENFORCED, b ROW<x INT>) WITH ('k' = 'v');
        SELECT /*+ STATE_TTL('o' = '3d') */ * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) AS w WHERE a = \"ü\" EMIT ON WINDOW CLOSE;
        EXECUTE STATEMENT SET BEGIN INSERT INTO s TABLE t; END; ADVANCE BY INTERVAL '10' SECOND";
    for (cut, _) in script.char_indices() {
        let (head, tail) = script.split_at(cut);
        let _outcomes = (parse(head), parse(tail));
    }
}

#[test]
fn every_statement_of_every_script_in_tests_parses_alone_and_in_line() {
    let scripts = scripts(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")));
    assert!(!scripts.is_empty(), "there are scripts in tests/");
    for script in scripts {
        let text = std::fs::read_to_string(&script).expect("a script that was listed can be read");
        for sql in sqllogictest_statements(&text) {
            let parsed = parse(&sql).unwrap_or_else(|error| panic!("{}: {sql}\n{error}", script.display()));
            assert_eq!(parsed.len(), 1, "{}: {sql}", script.display());
            assert_eq!(parsed[0].text, sql);
            assert!(is_complete(&format!("{sql};")), "{sql}");
        }
    }
}

/// The `.slt` files under a folder.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let here = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "slt"));
    here.chain(folders.iter().flat_map(|folder| scripts(folder))).collect()
}

/// The SQL of a script's records that are to succeed.
fn sqllogictest_statements(text: &str) -> Vec<String> {
    let records =
        text.split("\n\n").map(|record| record.lines().skip_while(|line| line.starts_with('#') || line.is_empty()).collect::<Vec<_>>());
    let succeeding =
        records.filter(|lines| lines.first().is_some_and(|head| head.starts_with("statement ok") || head.starts_with("query")));
    succeeding.map(|lines| lines[1..].iter().take_while(|line| **line != "----").copied().collect::<Vec<_>>().join("\n")).collect()
}

#[test]
fn a_statement_that_cannot_be_parsed_is_given_with_its_first_line_and_its_text() {
    let cases = [
        ("SELECT 1;\n-- c\nMERGE INTO t\nUSING u ;\nSELECT 2", 3, "MERGE INTO t\nUSING u"),
        ("SELECT 1;\n\nDROP VIEW v CASCADE", 3, "DROP VIEW v CASCADE"),
        ("ADVANCE BY '0 s'; SELECT ';'", 1, "ADVANCE BY '0 s'"),
        ("SELECT 1;\nSELECT 'open", 2, "SELECT 'open"),
    ];
    for (script, expected_line, expected_text) in cases {
        let mut parsed = statements(script);
        assert!(parsed.by_ref().any(|parsed| parsed.is_err()), "{script}");
        assert_eq!(parsed.failed(), (expected_line, expected_text), "{script}");
    }
}
