//! What a session promises, from SQL in to rows out.

use arrow::array::{Int32Array, Int64Array};

use super::*;

fn engine() -> Engine {
    Engine::builder().clock(Clock::Manual).build().unwrap()
}

/// Runs statements that must succeed.
fn run(engine: &Engine, sql: &str) {
    engine.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A query's rows, one text a row.
fn rows(engine: &Engine, sql: &str) -> Vec<String> {
    let rows = engine.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (0..rows.num_rows()).map(|row| crate::text::line(&rows, row).join(" ")).collect()
}

/// The message of a statement that must fail.
fn error(engine: &Engine, sql: &str) -> String {
    engine.execute(sql).map(|_| ()).expect_err(sql).to_string()
}

#[test]
fn an_engine_can_be_used_from_any_thread() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Engine>();
    sent::<Subscription>();
    sent::<Outcome>();
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does_before_commit() {
    let engine = engine();
    run(&engine, "CREATE TABLE k (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED); CREATE VIEW total AS SELECT SUM(v) AS s FROM k");
    run(&engine, "INSERT INTO k VALUES (1, 10), (2, 20); BEGIN");
    run(
        &engine,
        "INSERT INTO k VALUES (3, 30); UPDATE k SET id = 4 WHERE id = 1; DELETE FROM k WHERE id = 2; UPDATE k SET v = v + 1 WHERE id = 3",
    );
    assert_eq!(rows(&engine, "SELECT * FROM k ORDER BY id"), ["3 31", "4 10"]);
    assert_eq!(rows(&engine, "SELECT s FROM total"), ["41"]);
    run(&engine, "ROLLBACK");
    assert_eq!(rows(&engine, "SELECT * FROM k ORDER BY id"), ["1 10", "2 20"]);
}

#[test]
fn a_transaction_is_one_step_of_a_changelog() {
    let engine = engine();
    run(&engine, "CREATE TABLE a (n INT); CREATE TABLE b (n INT)");
    run(&engine, "CREATE TABLE log (n INT) WITH ('connector' = 'changelog')");
    run(&engine, "INSERT INTO log SELECT COUNT(*) FROM (SELECT n FROM a UNION ALL SELECT n FROM b)");
    run(&engine, "BEGIN; INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1); COMMIT");
    assert_eq!(rows(&engine, "SELECT op, n FROM log ORDER BY seq"), ["+I 0", "-D 0", "+I 3"]);
}

#[test]
fn the_last_row_of_a_key_in_one_insert_wins() {
    let engine = engine();
    run(&engine, "CREATE TABLE k (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED); INSERT INTO k VALUES (1, 9), (1, 3), (1, 5)");
    assert_eq!(rows(&engine, "SELECT * FROM k"), ["1 5"]);
}

#[test]
fn an_update_that_moves_keys_along_loses_none() {
    let engine = engine();
    run(&engine, "CREATE TABLE k (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED); INSERT INTO k VALUES (1, 10), (2, 20), (3, 30)");
    run(&engine, "UPDATE k SET id = id + 1");
    assert_eq!(rows(&engine, "SELECT * FROM k ORDER BY id"), ["2 10", "3 20", "4 30"]);
}

#[test]
fn equal_rows_are_changed_as_often_as_they_are_there() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (1), (2)");
    assert!(matches!(engine.execute("UPDATE t SET n = 5 WHERE n = 1").unwrap()[..], [Outcome::Changed(2)]));
    assert_eq!(rows(&engine, "SELECT n FROM t ORDER BY n"), ["2", "5", "5"]);
    assert!(matches!(engine.execute("DELETE FROM t WHERE n = 5").unwrap()[..], [Outcome::Changed(2)]));
    assert_eq!(rows(&engine, "SELECT n FROM t"), ["2"]);
}

#[test]
fn computed_columns_follow_the_columns_that_they_are_made_of() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (twice AS n * 2, n INT, came AS PROCTIME()); INSERT INTO t VALUES (3)");
    run(&engine, "ADVANCE BY '7 s'; INSERT INTO t VALUES (4)");
    assert_eq!(rows(&engine, "SELECT * FROM t ORDER BY n"), ["6 3 1970-01-01 00:00:00", "8 4 1970-01-01 00:00:07"]);
    run(&engine, "UPDATE t SET n = 10 WHERE twice = 6");
    assert_eq!(rows(&engine, "SELECT twice FROM t ORDER BY twice"), ["8", "20"]);
    assert!(error(&engine, "INSERT INTO t (twice) VALUES (1)").contains("'twice'"));
}

#[test]
fn a_definition_in_use_is_not_dropped_and_says_by_whom() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT n FROM t");
    let subscription = engine.subscribe("v").unwrap();
    assert!(error(&engine, "DROP TABLE t").contains("view 'v'"));
    assert!(error(&engine, "DROP VIEW v").contains("a subscription"));
    assert!(error(&engine, "CREATE OR REPLACE VIEW v AS SELECT 1 AS n").contains("a subscription"));
    drop(subscription);
    run(&engine, "DROP VIEW v; DROP TABLE t; CREATE TABLE t (other VARCHAR)");
    assert!(rows(&engine, "SELECT * FROM t").is_empty());
}

#[test]
fn a_second_job_into_a_sink_is_another_job() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); CREATE TABLE log (n INT) WITH ('connector' = 'changelog')");
    run(&engine, "INSERT INTO log SELECT n FROM t; INSERT INTO log SELECT n + 1 FROM t; INSERT INTO t VALUES (1)");
    assert_eq!(rows(&engine, "SELECT n FROM log ORDER BY n"), ["1", "2"]);
    run(&engine, "DROP JOB `log#2`; INSERT INTO t VALUES (5)");
    assert_eq!(rows(&engine, "SELECT n FROM log ORDER BY n"), ["1", "2", "5"]);
}

#[test]
fn a_statement_that_fails_has_done_nothing() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT NOT NULL, d INT); INSERT INTO t VALUES (1, 1)");
    assert!(error(&engine, "INSERT INTO t VALUES (2, 2), (NULL, 3)").contains("column 'n' of table 't' is NOT NULL"));
    assert!(error(&engine, "INSERT INTO t SELECT n, n / (d - 1) FROM t").to_lowercase().contains("divi"));
    assert!(error(&engine, "UPDATE t SET n = NULL").contains("'n'"));
    assert_eq!(rows(&engine, "SELECT * FROM t"), ["1 1"]);
}

#[test]
fn the_clock_is_chosen_before_anything_flows() {
    let engine = Engine::builder().build().unwrap();
    run(&engine, "SET clock = 'manual'; CREATE TABLE t (n INT); INSERT INTO t VALUES (1)");
    assert!(error(&engine, "SET clock = 'wall'").contains("'manual'"));
    assert!(error(&engine, "ADVANCE TO TIMESTAMP '1969-12-31 00:00:00'").contains("does not go back"));
    run(&engine, "ADVANCE TO TIMESTAMP '1970-01-02 00:00:00'");
    assert_eq!(rows(&engine, "SELECT NOW() = TIMESTAMP '1970-01-02 00:00:00'"), ["true"]);
}

#[test]
fn a_subscription_ends_with_the_engine_and_does_not_keep_it() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)");
    let mut subscription = engine.subscribe("t").unwrap();
    assert_eq!(subscription.next().unwrap().unwrap().diffs, [1]);
    drop(engine);
    assert!(subscription.next().is_none());
}

#[test]
fn two_engines_in_one_process_know_nothing_of_each_other() {
    let (one, two) = (engine(), engine());
    run(&one, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)");
    run(&two, "CREATE TABLE t (word VARCHAR); INSERT INTO t VALUES ('two')");
    assert_eq!((rows(&one, "SELECT * FROM t"), rows(&two, "SELECT * FROM t")), (vec!["1".to_string()], vec!["two".to_string()]));
}

#[test]
fn what_is_shut_down_says_so() {
    let engine = engine();
    assert_eq!((engine.shutdown(), engine.shutdown()), (Ok(()), Ok(())));
    assert!(matches!(engine.execute("SELECT 1"), Err(Error::Stopped(_))));
}

#[test]
fn a_watermark_has_no_effect_under_another_clock_and_the_outcome_of_its_table_says_so() {
    let said = |sql: &str| {
        let outcomes = Engine::builder().build().and_then(|engine| engine.execute(sql)).unwrap();
        outcomes.into_iter().map(|outcome| format!("{outcome:?}")).collect::<Vec<_>>()
    };
    let table = "CREATE TABLE w (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)";
    assert_eq!(said(table), [r#"Done("CREATE TABLE w")"#]);
    assert_eq!(
        said(&format!("SET clock = 'wall'; {table}"))[1],
        r#"Done("CREATE TABLE w (WATERMARK FOR ts has no effect: the clock is 'wall')")"#
    );
}

#[test]
fn the_last_count_of_the_state_outlives_the_engine() {
    let engine = engine();
    run(&engine, "CREATE TABLE a (n INT); CREATE MATERIALIZED VIEW v AS SELECT n, COUNT(*) AS c FROM a GROUP BY n");
    run(&engine, "INSERT INTO a VALUES (1), (2), (3)");
    engine.shutdown().unwrap();
    assert!(engine.stats().state_rows >= 6, "three rows of the table and three groups: {:?}", engine.stats());
}

#[test]
fn rows_that_stand_in_an_insert_are_no_plan_to_explain_and_a_query_is() {
    let explained =
        engine().explain("CREATE TABLE a (n BIGINT); INSERT INTO a VALUES (1), (2); INSERT INTO a SELECT n + 1 FROM a", Format::Text);
    let plans: Vec<String> = explained.unwrap().into_iter().map(|explained| explained.plan).collect();
    assert!(matches!(plans.as_slice(), [plan] if plan.contains("Get a")), "{plans:?}");
}

/// Rows of two INT columns, k and v.
fn pairs(values: &[(i32, i32)]) -> RecordBatch {
    let column = |of: fn(&(i32, i32)) -> i32| std::sync::Arc::new(values.iter().map(of).collect::<Int32Array>()) as _;
    RecordBatch::try_from_iter([("k", column(|pair| pair.0)), ("v", column(|pair| pair.1))]).unwrap()
}

#[test]
fn a_row_taken_before_it_comes_is_an_error_of_every_view_until_it_has_come() {
    let views = [
        ("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k", "1 2 11"),
        ("SELECT MIN(v) AS lo, MAX(v) AS hi FROM t", "5 6"),
        ("SELECT DISTINCT k FROM t", "1"),
        ("SELECT DISTINCT t.k, u.v FROM t FULL JOIN u ON t.k = u.k", "1 NULL"),
        ("SELECT k, v FROM t ORDER BY v LIMIT 1", "1 5"),
        ("SELECT MAX(w) AS w FROM (SELECT SUM(v) OVER (PARTITION BY k ORDER BY v) AS w FROM t)", "11"),
        ("SELECT COUNT(*) AS n FROM (SELECT k FROM t EXCEPT ALL SELECT k FROM u)", "2"),
        ("SELECT COUNT(*) AS n FROM t WHERE k NOT IN (SELECT k FROM u)", "2"),
        ("SELECT STRING_AGG(CAST(v AS VARCHAR), ',' ORDER BY v) AS x FROM t", "5,6"),
        ("SELECT COUNT(DISTINCT v) AS n FROM t", "2"),
    ];
    for workers in [1, 2] {
        let engine = Engine::builder().workers(workers).clock(Clock::Manual).build().unwrap();
        run(&engine, "CREATE TABLE t (k INT, v INT); CREATE TABLE u (k INT, v INT)");
        for (number, (view, _)) in views.iter().enumerate() {
            run(&engine, &format!("CREATE MATERIALIZED VIEW m{number} AS {view}"));
        }
        engine.insert("t", &pairs(&[(1, 5)]), &[-1]).unwrap();
        for number in 0..views.len() {
            let expected = format!("m{number}: t: the row (1, 5) is there -1 times");
            assert_eq!(error(&engine, &format!("SELECT * FROM m{number}")), expected);
        }
        engine.insert("t", &pairs(&[(1, 5), (1, 6)]), &[2, 1]).unwrap();
        for (number, (view, expected)) in views.iter().enumerate() {
            assert_eq!(rows(&engine, &format!("SELECT * FROM m{number}")), [*expected], "{view}");
        }
    }
}

#[test]
fn a_multiplicity_that_sums_could_not_hold_is_refused() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (k INT, v INT)");
    for diff in [i64::MAX, i64::MIN, 1 << 31] {
        let error = engine.insert("t", &pairs(&[(1, 1)]), &[diff]).unwrap_err().to_string();
        assert_eq!(error, format!("table 't': a row is to be added {diff} times, and -2147483647 to 2147483647 is possible"));
    }
    engine.insert("t", &pairs(&[(1, 1), (1, 1)]), &[i64::from(i32::MAX), i64::from(-i32::MAX)]).unwrap();
    assert_eq!(rows(&engine, "SELECT COUNT(*) FROM t"), ["0"]);
}

#[test]
fn no_job_of_a_statement_set_is_there_if_one_sink_cannot_be_opened() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); CREATE TABLE log (n INT) WITH ('connector' = 'changelog')");
    run(&engine, "CREATE TABLE f (n INT) WITH ('connector' = 'file', 'path' = '/nosuch/folder/f', 'format' = 'csv')");
    let set = "EXECUTE STATEMENT SET BEGIN INSERT INTO log SELECT n FROM t; INSERT INTO f SELECT n FROM t; END";
    assert!(error(&engine, set).contains("/nosuch/folder/f cannot be written"));
    assert!(rows(&engine, "SHOW JOBS").is_empty());
}

#[test]
fn a_file_that_something_reads_is_not_truncated_by_a_job() {
    let path = std::env::temp_dir().join(format!("weir-engine-{}-input.csv", std::process::id()));
    std::fs::write(&path, "1\n2\n").unwrap();
    let file = format!("(n INT) WITH ('connector' = 'file', 'path' = '{}', 'format' = 'csv')", path.display());
    let engine = engine();
    run(&engine, &format!("CREATE TABLE f {file}; CREATE TABLE same {file}; CREATE VIEW v AS SELECT n + 1 AS n FROM f"));
    let refusal = "would overwrite the file that table 'f' reads, for INSERT INTO";
    assert!(error(&engine, "INSERT INTO f SELECT n FROM f").contains(refusal));
    assert!(error(&engine, "INSERT INTO same SELECT n FROM v").contains(refusal));
    run(&engine, "CREATE MATERIALIZED VIEW m AS SELECT n FROM v");
    assert!(error(&engine, "INSERT INTO same VALUES (9)").contains("reads, for view '"));
    assert_eq!(rows(&engine, "SELECT n FROM m ORDER BY n"), ["2", "3"]);
    run(&engine, "DROP VIEW m; DROP VIEW v");
    assert!(error(&engine, "INSERT INTO same VALUES (9)").contains("reads, for a SELECT of this session"));
    // Where nothing has read it, the file is the job's.
    let engine = self::engine();
    run(&engine, &format!("CREATE TABLE same {file}; INSERT INTO same VALUES (9)"));
    engine.finish().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "9\n");
    std::fs::remove_file(&path).unwrap();
}

/// A table `t` of rows `(k, v)`, each key once.
fn table_of(engine: &Engine, rows: i64) {
    run(engine, "CREATE TABLE t (k BIGINT, v BIGINT)");
    fill(engine, rows);
}

fn fill(engine: &Engine, rows: i64) {
    let column = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(of))) as _;
    let batch = RecordBatch::try_from_iter([("k", column(|n| n)), ("v", column(|n| n % 1000))]).unwrap();
    engine.insert("t", &batch, &vec![1; rows as usize]).unwrap();
}

#[test]
fn rows_that_were_deleted_leave_no_memory_when_nothing_but_time_goes_on() {
    for workers in [1, 2] {
        let engine = Engine::builder().clock(Clock::Manual).workers(workers).build().unwrap();
        run(&engine, "CREATE TABLE k (k BIGINT, w BIGINT, PRIMARY KEY (k) NOT ENFORCED)");
        table_of(&engine, 20_000);
        run(
            &engine,
            "CREATE MATERIALIZED VIEW sums AS SELECT v, COUNT(*) AS n, SUM(k) AS s, MIN(k) AS least FROM t GROUP BY v;
             CREATE MATERIALIZED VIEW joined AS SELECT t.k, w FROM t LEFT JOIN k ON t.k = k.k;
             CREATE MATERIALIZED VIEW firsts AS SELECT DISTINCT k FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k) AS r FROM t) WHERE r < 9;
             INSERT INTO k SELECT k, v FROM t",
        );
        assert_eq!(rows(&engine, "SELECT COUNT(*), SUM(s), SUM(least) FROM sums"), ["1000 199990000 499500"]);
        assert_eq!(rows(&engine, "SELECT COUNT(*), COUNT(w) FROM joined"), ["20000 20000"]);
        run(&engine, "DELETE FROM t; DELETE FROM k");
        let mut advances = 0;
        let state = || rows(&engine, "SELECT SUM(rows), SUM(bytes) FROM weir_arrangements").remove(0);
        while state() != "0 0" {
            run(&engine, "ADVANCE BY '1 s'");
            advances += 1;
            assert!(advances < 20, "{:?}", rows(&engine, "SELECT view, operator, key, rows, bytes FROM weir_arrangements WHERE rows > 0"));
        }
        assert!(rows(&engine, "SELECT * FROM joined").is_empty());
        // What was written anew goes on as ever.
        fill(&engine, 3000);
        assert_eq!(rows(&engine, "SELECT COUNT(*), SUM(n), SUM(least) FROM sums"), ["1000 3000 499500"]);
        assert_eq!(rows(&engine, "SELECT COUNT(*), COUNT(w) FROM joined"), ["3000 0"]);
    }
}

#[test]
fn an_answer_is_as_of_the_question_whatever_comes_before_it_is_given() {
    let engine = engine();
    run(&engine, "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)");
    let plan = lock(&engine.0.0.session).catalog.find_table("t").unwrap().get();
    for n in 1..50 {
        let peek = engine.0.0.driver.timeline().between(|runtime| runtime.peek(&plan)).unwrap();
        run(&engine, "INSERT INTO t VALUES (1), (2)");
        run(&engine, "DELETE FROM t WHERE n = 2");
        let (rows, counts) = peek.answer().unwrap();
        assert_eq!((rows.num_rows(), counts), (1, vec![n]));
    }
}

#[test]
fn a_select_does_not_wait_for_a_storm_in_another_view() {
    let engine = engine();
    table_of(&engine, 200_000);
    run(
        &engine,
        "CREATE MATERIALIZED VIEW heavy AS SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS least, MAX(v) AS most FROM t GROUP BY k;
         CREATE TABLE log (k BIGINT) WITH ('connector' = 'changelog');
         INSERT INTO log SELECT k FROM heavy WHERE n > 1;
         CREATE TABLE small (n INT);
         CREATE MATERIALIZED VIEW tiny AS SELECT COUNT(*) AS n FROM small;
         INSERT INTO small VALUES (1), (2)",
    );
    assert_eq!(rows(&engine, "SELECT COUNT(*) FROM heavy"), ["200000"]);
    run(&engine, "DELETE FROM t");
    assert_eq!(rows(&engine, "SELECT n FROM tiny"), ["2"]);
    assert!(!engine.0.0.driver.runtime().is_settled(), "the storm was over before the answer came");
    assert_eq!(rows(&engine, "SELECT COUNT(*) FROM heavy"), ["0"]);
}

#[test]
fn what_a_view_was_created_and_altered_by_can_be_run_again() {
    let tables = "CREATE TABLE t (k INT);";
    let create = "CREATE VIEW `My View` WITH (state_ttl = '1 h') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k -- by k";
    let engine = Engine::builder().clock(Clock::Manual).build().unwrap();
    engine.execute(&format!("{tables}{create}\n;")).unwrap();
    engine.execute("ALTER VIEW `My View` SET (state_ttl = '2 h'); ALTER VIEW `My View` SET ('state_ttl_max' = '3 h')").unwrap();
    let shown = |engine: &Engine| {
        let rows = engine.query("SHOW CREATE VIEW `My View`").unwrap();
        crate::text::cell(rows.column(0), 0)
    };
    let text = shown(&engine);
    assert_eq!(text.matches("ALTER VIEW `My View` SET (").count(), 2, "{text}");
    assert!(text.ends_with("('state_ttl_max' = '3 h');"), "{text}");
    let again = Engine::builder().clock(Clock::Manual).build().unwrap();
    assert_eq!(again.execute(&format!("{tables}{text}")).unwrap().len(), 4);
    assert_eq!(shown(&again), text);
}

/// The only position of an engine's sources.
fn position(engine: &Engine) -> crate::connector::TextPosition {
    let positions: Vec<_> = engine.0.0.driver.between_rounds(|sources| sources.positions.values().cloned().collect());
    match positions.as_slice() {
        [crate::connector::Position::Text(text)] => text.clone(),
        other => panic!("not one position in a text: {other:?}"),
    }
}

#[test]
fn a_source_that_has_ended_is_gone_on_with_where_it_ended_until_its_dataflow_is_dropped() {
    let folder = std::env::temp_dir().join(format!("weir-engine-positions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("in.csv");
    std::fs::write(&file, "1\nx\n2\ny\n").unwrap();
    let engine = engine();
    let table =
        format!("CREATE TABLE t (n INT) WITH ('connector' = 'file', 'format' = 'csv', 'on_error' = 'skip', 'path' = '{}')", file.display());
    run(&engine, &table);
    run(&engine, "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(n) AS s FROM t");
    engine.finish().unwrap();
    let ended = position(&engine);
    assert_eq!((ended.offset, ended.place.line, ended.skipped.rows), (8, 5, 2), "behind the last line, which was skipped");

    std::fs::write(&file, "1\nx\n2\ny\n5\nz\n").unwrap();
    let driver = &engine.0.0.driver;
    let from = driver.between_rounds(|sources| sources.positions.clone());
    let ((dataflow, id), _) = from.iter().next().unwrap();
    let table = engine.with_session(|session| Ok(session.catalog.relation(*id).cloned())).unwrap().unwrap();
    driver.read(*dataflow, false, [table.clone()], &from).unwrap();
    engine.finish().unwrap();
    assert_eq!(rows(&engine, "SELECT n, s FROM v"), ["3 8"], "what was appended was read, and nothing twice");
    let ended = position(&engine);
    assert_eq!((ended.offset, ended.place.line, ended.skipped.rows), (12, 7, 3));

    std::fs::remove_dir_all(&folder).unwrap();
    let from = driver.between_rounds(|sources| sources.positions.clone());
    driver.read(*dataflow, false, [table], &from).unwrap();
    assert!(engine.finish().unwrap_err().to_string().contains("was left at byte 12"));
    assert_eq!(position(&engine), ended, "a source that cannot be opened is where it was");
    run(&engine, "DROP VIEW v");
    assert!(driver.between_rounds(|sources| sources.positions.is_empty()));
}

#[test]
fn between_rounds_a_sources_position_is_behind_exactly_what_has_been_fed() {
    let engine = engine();
    run(
        &engine,
        "CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'number-of-rows' = '300000');
         CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t",
    );
    let driver = &engine.0.0.driver;
    engine.with_session(|session| session.flow()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while !seen.contains(&300_000) {
        let (made, fed) = driver.between_rounds(|sources| {
            (sources.positions.values().cloned().collect::<Vec<_>>(), driver.counters.rows_in.load(Ordering::Relaxed))
        });
        assert_eq!(made, [crate::connector::Position::Made(fed)]);
        seen.insert(fed);
    }
    assert_eq!(rows(&engine, "SELECT n FROM v"), ["300000"]);
}
