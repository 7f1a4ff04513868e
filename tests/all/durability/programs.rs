//! A program that is run again: what it says as before is gone on with, what it says otherwise is refused or starts anew.

use weir::engine::{Clock, Engine};
use weir::error::Result;

use crate::kept::Folder;
use crate::value;

/// A program that is run with a folder for its state.
struct Program<'a> {
    folder: &'a Folder,
    discards: bool,
    workers: usize,
}

impl Program<'_> {
    /// Runs a text; gives the engine, and what an earlier text has said and this one does not.
    fn run(&self, text: &str) -> Result<(Engine, Vec<String>)> {
        let state = self.folder.path().join("state");
        let builder = Engine::builder().clock(Clock::Manual).base(self.folder.path()).output(Box::new(std::io::sink()));
        let engine = builder.workers(self.workers).state(state).discard_changed(self.discards).build()?;
        for statement in weir::sql::statements(text) {
            engine.run_again(&statement?)?;
        }
        let gone = engine.forget_the_rest()?;
        engine.finish()?;
        Ok((engine, gone))
    }

    /// Runs a text and then statements, and ends; gives what a query says at last.
    fn after(&self, text: &str, then: &str, query: &str) -> Result<Vec<String>> {
        let (engine, _) = self.run(text)?;
        engine.execute(then)?;
        let shown = shown(&engine, query)?;
        engine.shutdown()?;
        Ok(shown)
    }
}

fn program(folder: &Folder) -> Program<'_> {
    Program { folder, discards: false, workers: 1 }
}

fn shown(engine: &Engine, query: &str) -> Result<Vec<String>> {
    let mut rows: Vec<String> = value::rows(&engine.query(query)?).iter().map(|row| value::show(row)).collect();
    rows.sort();
    Ok(rows)
}

const TABLE: &str = "CREATE TABLE t (k INT, n BIGINT);";
/// Forgets what it has not seen for ten seconds: what it remembers of rows that are gone shows whether it was gone on with.
const VIEW: &str = "CREATE MATERIALIZED VIEW v WITH (state_ttl = '10 s') AS SELECT k, SUM(n) AS n FROM t GROUP BY k;";
const SELECT: &str = "SELECT k, n FROM v";

/// A folder in which 1 has been forgotten of the view, and 2 is there.
fn forgetful() -> Folder {
    let folder = Folder::new();
    let then = "INSERT INTO t VALUES (1, 10); ADVANCE BY '15 s'; INSERT INTO t VALUES (2, 20);";
    let shown = program(&folder).after(&format!("{TABLE}{VIEW}"), then, SELECT).expect("the first run");
    assert_eq!(shown, ["(2, 20)"]);
    folder
}

#[test]
fn a_view_whose_text_alone_has_changed_is_gone_on_with() {
    let folder = forgetful();
    let other = "create materialized view v with ('state_ttl' = '10 s') as -- as before\n select k, sum(n) as n from t group by k;";
    for text in [other, VIEW, other] {
        assert_eq!(program(&folder).after(&format!("{TABLE}{text}"), "", SELECT).expect("another run"), ["(2, 20)"]);
    }
    let (engine, gone) = program(&folder).run(&format!("{TABLE}{other}")).expect("another run");
    assert_eq!(gone, Vec::<String>::new());
    engine.execute("ADVANCE BY '9999 ms'").expect("time goes on");
    assert_eq!(shown(&engine, SELECT).expect("rows"), ["(2, 20)"], "its deadline is what it was");
    engine.execute("ADVANCE BY '1 ms'").expect("time goes on");
    assert_eq!(shown(&engine, SELECT).expect("rows"), Vec::<String>::new());
}

#[test]
fn a_view_that_has_changed_in_substance_is_refused_by_name_and_loses_nothing() {
    let folder = forgetful();
    for other in [
        "CREATE MATERIALIZED VIEW v WITH (state_ttl = '10 s') AS SELECT k, SUM(n) + 1 AS n FROM t GROUP BY k;",
        "CREATE MATERIALIZED VIEW v WITH (state_ttl = '11 s') AS SELECT k, SUM(n) AS n FROM t GROUP BY k;",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM t GROUP BY k;",
        "CREATE VIEW v WITH (state_ttl = '10 s') AS SELECT k, SUM(n) AS n FROM t GROUP BY k;",
        "CREATE MATERIALIZED VIEW v WITH (state_ttl = '10 s') AS SELECT k, SUM(n) AS m FROM t GROUP BY k;",
    ] {
        let error = program(&folder).run(&format!("{TABLE}{other}")).err().expect("it has changed").to_string();
        assert!(error.contains("view 'v' is not what it was") && error.contains("--discard-changed"), "{error}");
    }
    let error = program(&folder).run(&format!("CREATE TABLE t (k INT, n INT);{VIEW}")).err().expect("it has changed").to_string();
    assert!(error.contains("table 't' is not what it was"), "{error}");
    assert_eq!(program(&folder).after(&format!("{TABLE}{VIEW}"), "", SELECT).expect("as before"), ["(2, 20)"]);
}

#[test]
fn a_view_that_has_changed_starts_anew_with_all_that_reads_it_if_that_is_asked_for() {
    let folder = Folder::new();
    let reader = "CREATE MATERIALIZED VIEW total AS SELECT SUM(n) AS n FROM v;";
    let sink = "CREATE TABLE out (n BIGINT) WITH ('connector' = 'file', 'path' = 'out.csv', 'format' = 'csv', 'changelog' = 'true'); \
                INSERT INTO out SELECT n FROM total;";
    let then = "INSERT INTO t VALUES (1, 10); ADVANCE BY '15 s'; INSERT INTO t VALUES (2, 20);";
    let text = format!("{TABLE}{VIEW}{reader}{sink}");
    assert_eq!(program(&folder).after(&text, then, "SELECT n FROM total").expect("the first run"), ["(30)"], "what was said stands");
    let other = VIEW.replace("SUM(n)", "SUM(n) + 1");
    let discarding = Program { discards: true, ..program(&folder) };
    // The table's rows are there, and so both groups: 11 and 21.
    let text = format!("{TABLE}{other}{reader}{sink}");
    assert_eq!(discarding.after(&text, "", "SELECT n FROM total").expect("anew"), ["(32)"]);
    let written = std::fs::read_to_string(folder.path().join("out.csv")).expect("a sink");
    assert_eq!(written, "+I,32\n", "its file begins anew, too");
    // From now on that is what was saved.
    assert_eq!(program(&folder).after(&text, "INSERT INTO t VALUES (2, 100)", "SELECT n FROM total").expect("again"), ["(132)"]);
    let written = std::fs::read_to_string(folder.path().join("out.csv")).expect("a sink");
    assert_eq!(written, "+I,32\n-D,32\n+I,132\n", "and its file goes on");
}

#[test]
fn a_view_that_is_added_starts_from_the_tables_and_views_that_are_there() {
    let folder = forgetful();
    let added =
        "CREATE MATERIALIZED VIEW w AS SELECT k, COUNT(*) AS n FROM t GROUP BY k; CREATE MATERIALIZED VIEW x AS SELECT SUM(n) AS n FROM v;";
    let text = format!("{TABLE}{VIEW}{added}");
    for _ in 0..2 {
        let (engine, gone) = program(&folder).run(&text).expect("another run");
        assert_eq!(gone, Vec::<String>::new());
        assert_eq!(shown(&engine, SELECT).expect("rows"), ["(2, 20)"]);
        assert_eq!(shown(&engine, "SELECT k, n FROM w").expect("rows"), ["(1, 1)", "(2, 1)"]);
        assert_eq!(shown(&engine, "SELECT n FROM x").expect("rows"), ["(20)"]);
        engine.shutdown().expect("it ends");
    }
    // Before what was there, it is all the same.
    let before = format!("{TABLE}CREATE MATERIALIZED VIEW a AS SELECT MAX(n) AS n FROM t;{VIEW}{added}");
    assert_eq!(program(&folder).after(&before, "", "SELECT n FROM a").expect("another run"), ["(20)"]);
}

#[test]
fn what_a_program_says_no_longer_is_gone_and_named() {
    let folder = Folder::new();
    let more =
        "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM v; CREATE TABLE u (a INT); CREATE MATERIALIZED VIEW x AS SELECT a FROM u;
                CREATE TABLE log (n BIGINT) WITH ('connector' = 'changelog'); INSERT INTO log SELECT n FROM w;";
    let then = "INSERT INTO t VALUES (1, 10); INSERT INTO u VALUES (3)";
    program(&folder).after(&format!("{TABLE}{VIEW}{more}"), then, SELECT).expect("the first run");
    let (engine, mut gone) = program(&folder).run(&format!("{TABLE}{VIEW}")).expect("another run");
    gone.sort();
    assert_eq!(gone, ["table 'log'", "table 'u'", "the job into 'log'", "view 'w'", "view 'x'"]);
    assert_eq!(shown(&engine, SELECT).expect("rows"), ["(1, 10)"]);
    assert_eq!(shown(&engine, "SHOW TABLES").expect("rows").len(), 1);
    engine.shutdown().expect("it ends");
    drop(engine);
    let (engine, gone) = program(&folder).run(&format!("{TABLE}{VIEW}{more}")).expect("a third run");
    assert_eq!(gone, Vec::<String>::new());
    assert_eq!(shown(&engine, "SELECT a FROM u").expect("rows"), Vec::<String>::new(), "what was gone begins anew");
    assert_eq!(shown(&engine, "SELECT n FROM w").expect("rows"), ["(1)"]);
}

#[test]
fn rows_that_a_program_inserts_are_inserted_once_and_new_ones_beside_them() {
    let folder = Folder::new();
    let text = format!(
        "{TABLE}{VIEW}INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, 1); BEGIN; DELETE FROM t WHERE n = 7; INSERT INTO t VALUES (5, 5); COMMIT;"
    );
    for _ in 0..3 {
        assert_eq!(program(&folder).after(&text, "", SELECT).expect("a run"), ["(1, 2)", "(5, 5)"]);
    }
    let more = format!("{text}INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (6, 6);");
    for _ in 0..2 {
        assert_eq!(program(&folder).after(&more, "", SELECT).expect("a run"), ["(1, 3)", "(5, 5)", "(6, 6)"]);
    }
}

#[test]
fn a_setting_that_a_view_was_made_under_is_the_programs_again() {
    let folder = Folder::new();
    let text =
        format!("{TABLE}SET state_ttl = '10 s'; CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM t GROUP BY k; RESET state_ttl;");
    let then = "INSERT INTO t VALUES (1, 10); ADVANCE BY '15 s'; INSERT INTO t VALUES (2, 20);";
    assert_eq!(program(&folder).after(&text, then, SELECT).expect("a run"), ["(2, 20)"]);
    assert_eq!(program(&folder).after(&text, "", SELECT).expect("a run"), ["(2, 20)"]);
    let error = program(&folder).run(&text.replace("10 s", "20 s")).err().expect("it remembers for longer").to_string();
    assert!(error.contains("view 'v' is not what it was"), "{error}");
}

#[test]
fn a_view_that_was_altered_is_as_it_was_altered() {
    let folder = forgetful();
    let altered = format!("{TABLE}{VIEW}ALTER VIEW v SET (state_ttl = '30 s');");
    // Twenty seconds after 2 was written it is there, by the new figure; the table has both rows.
    assert_eq!(program(&folder).after(&altered, "ADVANCE BY '20 s'", SELECT).expect("a run"), ["(2, 20)"]);
    assert_eq!(program(&folder).after(&altered, "ADVANCE BY '9999 ms'", SELECT).expect("a run"), ["(2, 20)"]);
    assert_eq!(program(&folder).after(&altered, "ADVANCE BY '1 ms'", SELECT).expect("a run"), Vec::<String>::new());
}

#[test]
fn a_subscription_leaves_nothing_that_a_later_view_stands_on() {
    for workers in [1, 2] {
        let folder = Folder::new();
        let kept = Program { workers, ..program(&folder) };
        let (engine, _) = kept.run(TABLE).expect("a run");
        engine.execute("INSERT INTO t VALUES (1, 10)").expect("a row");
        let group = "SELECT k, SUM(n) AS n, MAX(n) AS m FROM t GROUP BY k";
        engine.execute(&format!("CREATE VIEW under AS {group}")).expect("a view");
        let subscription = engine.subscribe("under").expect("a subscription");
        engine.execute(&format!("CREATE MATERIALIZED VIEW v AS {group}; INSERT INTO t VALUES (2, 20);")).expect("a view");
        assert_eq!(shown(&engine, SELECT).expect("rows"), ["(1, 10)", "(2, 20)"]);
        engine.shutdown().expect("it ends");
        drop((subscription, engine));
        let text = format!("{TABLE} CREATE VIEW under AS {group}; CREATE MATERIALIZED VIEW v AS {group};");
        assert_eq!(kept.after(&text, "INSERT INTO t VALUES (2, 1)", SELECT).expect("another run"), ["(1, 10)", "(2, 21)"]);
    }
}

#[test]
fn a_file_that_has_grown_is_read_on_and_one_that_is_not_what_it_was_is_named() {
    let folder = Folder::new().with("in.csv", "1,10\n2,20\n");
    let text = "CREATE TABLE s (k INT, n BIGINT) WITH ('connector' = 'file', 'path' = 'in.csv', 'format' = 'csv');
                CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM s GROUP BY k;";
    let path = folder.path().join("in.csv");
    assert_eq!(program(&folder).after(text, "", SELECT).expect("a run"), ["(1, 10)", "(2, 20)"]);
    std::fs::write(&path, "1,10\n2,20\n1,5\n").expect("the file grows");
    assert_eq!(program(&folder).after(text, "", SELECT).expect("a run"), ["(1, 15)", "(2, 20)"]);
    assert_eq!(program(&folder).after(text, "", SELECT).expect("a run"), ["(1, 15)", "(2, 20)"]);
    for (what, change) in [("shorter", Some("1,10\n")), ("another", Some("1,10\n2,21\n1,5\n9,9\n")), ("gone", None)] {
        match change {
            Some(text) => std::fs::write(&path, text).expect("the file changes"),
            None => std::fs::remove_file(&path).expect("the file goes"),
        }
        let error = program(&folder).run(text).err().unwrap_or_else(|| panic!("{what}: it is not what it was")).to_string();
        assert!(error.contains("table 's': in.csv was left at byte 14 and cannot be gone on with there: "), "{what}: {error}");
    }
    std::fs::write(&path, "1,10\n2,20\n1,5\n3,30\n").expect("the file is back");
    assert_eq!(program(&folder).after(text, "", SELECT).expect("a run"), ["(1, 15)", "(2, 20)", "(3, 30)"]);
}

#[test]
fn a_file_that_was_written_and_is_shorter_than_it_was_is_named() {
    let folder = Folder::new();
    let text = format!(
        "{TABLE} CREATE TABLE out (k INT, n BIGINT) WITH ('connector' = 'file', 'path' = 'out.csv', 'format' = 'csv'); INSERT INTO out SELECT k, n FROM t;"
    );
    let path = folder.path().join("out.csv");
    program(&folder).after(&text, "INSERT INTO t VALUES (1, 10)", "SELECT k FROM t").expect("a run");
    std::fs::write(&path, "1,10\n and what a crash has left").expect("a sink");
    program(&folder).after(&text, "INSERT INTO t VALUES (2, 20)", "SELECT k FROM t").expect("a run");
    assert_eq!(std::fs::read_to_string(&path).expect("a sink"), "1,10\n2,20\n");
    std::fs::write(&path, "1").expect("a sink");
    let error = program(&folder).run(&text).err().expect("it is shorter").to_string();
    assert!(error.contains("table 'out'") && error.contains("it has only 1 bytes"), "{error}");
    std::fs::remove_file(&path).expect("a sink");
    let error = program(&folder).run(&text).err().expect("it is gone").to_string();
    assert!(error.contains("table 'out'") && error.contains("out.csv was left at byte 10"), "{error}");
}

#[test]
fn an_error_of_a_row_that_stands_when_the_state_is_saved_stands_afterwards_until_its_row_goes() {
    for workers in [1, 2] {
        let folder = Folder::new();
        let kept = Program { workers, ..program(&folder) };
        let text = "CREATE TABLE t (k INT, n BIGINT); CREATE TABLE log (k INT, n BIGINT) WITH ('connector' = 'changelog');
                    CREATE MATERIALIZED VIEW v AS SELECT k, 100 / n AS n FROM t; INSERT INTO log SELECT k, n FROM v;";
        let (engine, _) = kept.run(text).expect("a run");
        engine.execute("INSERT INTO t VALUES (1, 10); INSERT INTO t VALUES (2, 0), (3, 20)").expect("rows");
        assert!(engine.query(SELECT).is_err(), "a division by zero");
        engine.shutdown().expect("it ends");
        drop(engine);
        let state = folder.path().join("state");
        let engine = Engine::builder().clock(Clock::Manual).workers(3 - workers).state(&state).build().expect("it begins again");
        let error = engine.query(SELECT).err().expect("the error stands").to_string();
        assert!(error.contains("zero"), "{error}");
        assert_eq!(shown(&engine, "SELECT k, n, op FROM log").expect("rows"), ["(1, 10, '+I')"], "what came with it is held back");
        engine.execute("INSERT INTO t VALUES (4, 50); DELETE FROM t WHERE n = 0").expect("the row goes");
        assert_eq!(shown(&engine, SELECT).expect("rows"), ["(1, 10)", "(3, 5)", "(4, 2)"]);
        assert_eq!(shown(&engine, "SELECT k, n, op FROM log").expect("rows"), ["(1, 10, '+I')", "(3, 5, '+I')", "(4, 2, '+I')"]);
        assert_eq!(engine.finish(), Ok(()));
    }
}

#[test]
fn a_view_that_is_added_after_a_setting_is_made_under_it() {
    let folder = Folder::new();
    let text = |more: &str| {
        let view = "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS n FROM t GROUP BY k;";
        format!(
            "{TABLE}SET state_ttl = '10 s';{view}{more}RESET state_ttl; CREATE MATERIALIZED VIEW w AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
        )
    };
    program(&folder).after(&text(""), "INSERT INTO t VALUES (1, 10)", SELECT).expect("a run");
    let more = "CREATE MATERIALIZED VIEW x AS SELECT k, MAX(n) AS n FROM t GROUP BY k;";
    let (engine, _) = program(&folder).run(&text(more)).expect("another run");
    assert_eq!(shown(&engine, "SELECT k, n FROM x").expect("rows"), ["(1, 10)"]);
    engine.execute("ADVANCE BY '10 s'").expect("time goes on");
    let rows = |query: &str| shown(&engine, query).expect("rows");
    assert_eq!((rows(SELECT).len(), rows("SELECT k, n FROM w").len(), rows("SELECT k, n FROM x").len()), (0, 1, 0));
}

#[test]
fn the_rows_that_a_program_puts_into_a_table_are_put_in_again_when_it_starts_anew() {
    let folder = Folder::new();
    let text = |column: &str| {
        format!("CREATE TABLE t (k INT, {column} BIGINT); INSERT INTO t VALUES (1, 10); CREATE TABLE u (a INT); INSERT INTO u VALUES (7);")
    };
    assert_eq!(
        program(&folder).after(&text("n"), "INSERT INTO t VALUES (2, 2)", "SELECT k, n FROM t").expect("a run"),
        ["(1, 10)", "(2, 2)"]
    );
    let discarding = Program { discards: true, ..program(&folder) };
    for _ in 0..2 {
        assert_eq!(discarding.after(&text("m"), "", "SELECT k, m FROM t").expect("another run"), ["(1, 10)"]);
        assert_eq!(discarding.after(&text("m"), "", "SELECT a FROM u").expect("another run"), ["(7)"]);
    }
}

#[test]
fn jobs_of_one_statement_start_anew_together_and_none_is_there_twice() {
    let folder = Folder::new();
    let text = |sum: &str| {
        format!(
            "{TABLE} CREATE TABLE a (n BIGINT) WITH ('connector' = 'file', 'path' = 'a.csv', 'format' = 'csv', 'changelog' = 'true');
             CREATE TABLE b (k INT) WITH ('connector' = 'file', 'path' = 'b.csv', 'format' = 'csv', 'changelog' = 'true');
             CREATE VIEW v AS SELECT {sum} AS n FROM t;
             EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT n FROM v; INSERT INTO b SELECT k FROM t; END;"
        )
    };
    let written = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a sink");
    program(&folder).after(&text("SUM(n)"), "INSERT INTO t VALUES (1, 10)", "SELECT n FROM v").expect("a run");
    assert_eq!((written("a.csv"), written("b.csv")), ("+I,\n-D,\n+I,10\n".into(), "+I,1\n".into()));
    let discarding = Program { discards: true, ..program(&folder) };
    for row in [2, 3] {
        discarding.after(&text("MAX(n)"), &format!("INSERT INTO t VALUES ({row}, 1)"), "SELECT n FROM v").expect("another run");
    }
    assert_eq!((written("a.csv"), written("b.csv")), ("+I,10\n".into(), "+I,1\n+I,2\n+I,3\n".into()));
}

#[test]
fn a_program_that_drops_and_makes_again_is_as_it_was_however_often_it_is_run() {
    let folder = Folder::new();
    let text = format!(
        "{TABLE} CREATE MATERIALIZED VIEW v AS SELECT k FROM t; INSERT INTO t VALUES (1, 10); SELECT k FROM v; DROP VIEW v;
         CREATE MATERIALIZED VIEW v AS SELECT n FROM t; CREATE MATERIALIZED VIEW w AS SELECT n + 1 AS n FROM v;"
    );
    let text = text.replace("SELECT k FROM v; ", "");
    for _ in 0..3 {
        let (engine, gone) = program(&folder).run(&text).expect("a run");
        assert_eq!(gone, Vec::<String>::new());
        assert_eq!(shown(&engine, "SELECT n FROM w").expect("rows"), ["(11)"]);
        engine.shutdown().expect("it ends");
    }
    // Without what was dropped it is the same.
    let text = format!(
        "{TABLE} INSERT INTO t VALUES (1, 10); CREATE MATERIALIZED VIEW v AS SELECT n FROM t; CREATE MATERIALIZED VIEW w AS SELECT n + 1 AS n FROM v;"
    );
    let (engine, gone) = program(&folder).run(&text).expect("a run");
    assert_eq!(gone, Vec::<String>::new());
    assert_eq!(shown(&engine, "SELECT n FROM w").expect("rows"), ["(11)"]);
}

#[test]
fn a_row_that_comes_ahead_of_an_event_clock_is_saved() {
    let folder = Folder::new();
    let begin = |state: &std::path::Path| Engine::builder().state(state).build().expect("an engine");
    let engine = begin(folder.path());
    let rows = |rows: &str| format!("INSERT INTO e VALUES {rows}");
    let define = "CREATE TABLE e (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
                  CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM e GROUP BY k;";
    engine.execute(define).expect("a view");
    engine.execute(&rows("(1, TIMESTAMP '2026-01-01 00:00:10')")).expect("a row");
    assert!(engine.checkpoint().expect("a checkpoint").is_some());
    engine.execute(&rows("(2, TIMESTAMP '2026-01-01 00:00:08')")).expect("a row that moves no time");
    assert!(engine.checkpoint().expect("a checkpoint").is_some(), "a row has come");
    assert!(engine.checkpoint().expect("a checkpoint").is_none(), "nothing has happened");
    let copy = folder.copy();
    engine.shutdown().expect("it ends");
    let engine = begin(copy.path());
    engine.execute(&rows("(3, TIMESTAMP '2026-01-01 00:00:20')")).expect("time goes on");
    assert_eq!(shown(&engine, "SELECT k, n FROM v").expect("rows"), ["(1, 1)", "(2, 1)"]);
}
