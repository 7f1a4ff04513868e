//! The command as a user meets it: what `--help` says, what stands on standard error, and how it ends.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir command {name} {}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn with(self, file: &str, text: &str) -> Self {
        std::fs::write(self.0.join(file), text).expect("a file in a folder of ours");
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn weir(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(WEIR);
    command.args(arguments).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    // A command that ends without reading closes the pipe, which is its right.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("the binary ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_example_in_every_help_runs() {
    let folder = Folder::new("examples");
    for name in ["queries", "tests"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(name), folder.0.join(name)).expect("a link in a folder of ours");
    }
    let mut examples = BTreeSet::new();
    for command in ["", "run", "explain", "check", "audit", "shell", "test", "state", "bench"] {
        let arguments = [command, "--help"];
        let arguments = if command.is_empty() { &arguments[1..] } else { &arguments };
        let help = text(&weir(&folder.0, arguments, "").stdout);
        let (_, shown) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{arguments:?} has no examples"));
        examples.extend(shown.lines().take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()));
    }
    assert!(examples.len() >= 10, "{examples:?}");
    let path = format!("{}:{}", Path::new(WEIR).parent().expect("it is in a folder").display(), std::env::var("PATH").unwrap_or_default());
    for example in examples {
        let mut command = Command::new("sh");
        let output = command.args(["-c", &example]).current_dir(&folder.0).env("PATH", &path).stdin(Stdio::null()).output();
        let output = output.expect("there is a shell");
        assert!(output.status.success(), "{example}\n{}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn a_clock_that_is_not_there_is_answered_with_those_there_are() {
    let folder = Folder::new("clock");
    let errors = text(&weir(&folder.0, &["run", "-q", "-"], "SET clock = 'slow';").stderr);
    assert!(errors.starts_with("error: stdin:1: clock is 'wall', 'event' or 'manual', not 'slow'\n"), "{errors}");
}

#[test]
fn a_watermark_is_told_to_have_no_effect_wherever_outcomes_are_not_shown() {
    let script = "SET clock = 'wall';\nCREATE TABLE w (ts TIMESTAMP(3), WATERMARK FOR ts AS ts);";
    let folder = Folder::new("watermark");
    for arguments in [&["run", "-q", "-"][..], &["shell"]] {
        let output = weir(&folder.0, arguments, script);
        assert_eq!(text(&output.stderr), "note: stdin:2: WATERMARK FOR ts has no effect: the clock is 'wall'\n", "{arguments:?}");
        assert!(output.status.success());
    }
}

#[test]
fn a_run_ends_with_the_late_rows_of_each_table() {
    let rows = "2026-01-01 00:00:01,1\n2026-01-01 00:00:05,2\n2026-01-01 00:00:03,3\n2026-01-01 00:00:04,4\n";
    let table = |name: &str, option: &str| {
        format!(
            "CREATE TABLE {name} (ts TIMESTAMP(3), n INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
             WITH ('connector' = 'file', 'path' = 'rows.csv', 'format' = 'csv'{option});
             INSERT INTO out SELECT n FROM {name};"
        )
    };
    let sink = "CREATE TABLE out (n INT) WITH ('connector' = 'blackhole');";
    let script = format!("{sink} {} {}", table("strict", ""), table("lax", ", 'late' = 'accept'"));
    let folder = Folder::new("late").with("rows.csv", rows).with("q.sql", &script);
    let errors = text(&weir(&folder.0, &["run", "q.sql"], "").stderr);
    assert!(errors.starts_with("8 rows in, 7 rows out, "), "{errors}");
    let late = "late: table lax: 1 row accepted behind the watermark\nlate: table strict: 1 row dropped behind the watermark\n";
    assert!(errors.ends_with(late), "{errors}");
}

#[test]
fn what_the_parser_refuses_has_its_file_line_and_text_in_every_command() {
    let script = "SELECT 1 AS a;\n\nMERGE INTO t USING u;\nSELECT 2 AS b;";
    let folder = Folder::new("refusals").with("q.sql", script);
    let refusal = ":3: not supported: statement MERGE\n    MERGE INTO t USING u\n";
    for arguments in [&["run", "-q", "q.sql"][..], &["explain", "q.sql"], &["check", "q.sql"], &["audit", "q.sql"]] {
        let output = weir(&folder.0, arguments, "");
        assert_eq!(text(&output.stderr), format!("error: q.sql{refusal}"), "{arguments:?}");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = weir(&folder.0, &["shell"], script);
    assert_eq!(text(&output.stderr), format!("error: stdin{refusal}"));
    assert_eq!(text(&output.stdout), "a\n1\n\nb\n2\n", "a shell goes on");
}

#[test]
fn skipped_rows_are_counted_and_the_first_are_shown_with_file_and_line() {
    let table = "CREATE TABLE e (n INT) WITH ('connector' = 'file', 'path' = 'e.json', 'format' = 'json', 'on_error' = 'skip');";
    let bad: String = (1..=6).map(|n| format!("bad {n}\n")).collect();
    let folder =
        Folder::new("skipped").with("e.json", &format!("{{\"n\": 1}}\n{bad}")).with("q.sql", &format!("{table}\nSELECT n FROM e;"));
    for (arguments, input) in [(&["run", "q.sql"][..], ""), (&["shell"], &*format!("{table}\nSELECT n FROM e;"))] {
        let output = weir(&folder.0, arguments, input);
        assert_eq!(text(&output.stdout), "n\n1\n");
        let told = text(&output.stderr);
        let skipped: Vec<&str> = told.lines().filter(|line| line.starts_with("skipped: ")).collect();
        assert_eq!(skipped.len(), 6, "five and the rest: {told}");
        assert!(skipped[0].contains("e.json, line 2") && skipped[5] == "skipped: 1 more", "{told}");
        assert!(output.status.success());
    }
    assert!(text(&weir(&folder.0, &["run", "q.sql"], "").stderr).contains("; 6 undecodable rows skipped\n"));
}

#[test]
fn the_summary_after_ctrl_c_has_the_state_of_a_job_that_held_groups() {
    let script = "CREATE TABLE g (k INT) WITH ('connector' = 'datagen', 'fields.k.min' = '1', 'fields.k.max' = '3');
        CREATE TABLE out (k INT, n BIGINT) WITH ('connector' = 'print');
        INSERT INTO out SELECT k, COUNT(*) FROM g GROUP BY k;";
    let folder = Folder::new("interrupt").with("q.sql", script);
    let mut command = Command::new(WEIR);
    command.args(["run", "q.sql"]).current_dir(&folder.0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert!(lines.next().is_some_and(|line| line.is_ok_and(|line| line.starts_with("+I["))), "the job has begun to print");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|status| status.success()));
    lines.for_each(drop);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let summary = text(&output.stderr);
    // How many depends on what has been compacted: at least one a group that was printed.
    assert!(summary.contains("; state ") && !summary.contains("state 0 rows"), "{summary}");
}

#[test]
fn a_script_may_have_windows_line_ends_a_byte_order_mark_and_a_path_with_spaces() {
    let script = "\u{feff}-- from an editor\r\nCREATE TABLE t (\r\n  a INT\r\n);\r\nINSERT INTO t VALUES (1);\r\nSELECT a FROM t;\r\nSELECT b FROM t;\r\n";
    let folder = Folder::new("windows").with("my query.sql", script);
    let output = weir(&folder.0, &["run", "-q", "my query.sql"], "");
    assert_eq!(text(&output.stdout), "a\n1\n");
    assert_eq!(
        text(&output.stderr),
        "error: my query.sql:7: there is no column 'b'; did you mean 'a'? (there is a)\n    SELECT b FROM t\n"
    );
    let output = weir(&folder.0, &["shell"], script);
    assert_eq!(text(&output.stdout), "a\n1\n");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_command_without_a_complaint() {
    let script = "CREATE TABLE g (k INT) WITH ('connector' = 'datagen');
        CREATE TABLE out (k INT) WITH ('connector' = 'print');
        INSERT INTO out SELECT k FROM g;";
    let folder = Folder::new("head").with("q.sql", script);
    let mut command = Command::new(WEIR);
    command.args(["run", "q.sql"]).current_dir(&folder.0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("it is piped"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn ctrl_c_ends_a_command_that_waits_for_its_script() {
    for arguments in [&["run", "-"][..], &["explain", "-"], &["shell"]] {
        let mut command = Command::new(WEIR);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let open = child.stdin.take();
        // Until its handler is there an interrupt ends a process by a signal, which has no code.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(interrupted.is_ok_and(|status| status.success()));
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{arguments:?}");
        drop(open);
    }
}

#[test]
fn a_file_that_a_script_has_read_is_not_overwritten_by_an_insert_into_its_table() {
    let folder = Folder::new("overwrite").with("e.csv", "1\n2\n");
    let table = "CREATE TABLE e (n INT) WITH ('connector' = 'file', 'path' = 'e.csv', 'format' = 'csv');";
    for script in [
        "SELECT n FROM e; INSERT INTO e VALUES (3);",
        "CREATE VIEW v AS SELECT n FROM e; INSERT INTO e VALUES (3);",
        "INSERT INTO e SELECT n + 1 FROM e;",
    ] {
        let output = weir(&folder.0, &["run", "-q", "-"], &format!("{table}{script}"));
        assert!(text(&output.stderr).contains("would overwrite the file that table 'e' reads"), "{script}: {}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(folder.0.join("e.csv")).expect("it is there"), "1\n2\n", "{script}");
    }
}

const LOGIN: &str = "CREATE TABLE login (user_id BIGINT, t_date DATE);\n";

#[test]
fn check_tells_what_is_unbounded_with_its_place_and_fails_only_if_told_to() {
    let script = format!(
        "{LOGIN}\nCREATE VIEW n AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
CREATE MATERIALIZED VIEW m WITH (state_ttl = '3 days') AS SELECT t_date, COUNT(*) AS n FROM login GROUP BY t_date;
CREATE TABLE out (user_id BIGINT, n BIGINT) WITH ('connector' = 'file', 'path' = 'out.csv', 'format' = 'csv');
INSERT INTO out SELECT user_id, n FROM n;
INSERT INTO out SELECT a.user_id, b.n FROM login AS a JOIN n AS b ON a.user_id = b.user_id;"
    );
    let folder = Folder::new("check").with("q.sql", &script);
    let expected = "\
q.sql:3: warning: view n: Reduce by [user_id]: unbounded because no state_ttl is set
    write VIEW n WITH (state_ttl = '...') AS, or SET state_ttl = '...' before it
q.sql:7: warning: insert into out: Join of a by [user_id]: unbounded because no state_ttl is set
    write SELECT /*+ STATE_TTL('a' = '...') */, or SET state_ttl = '...' before it
q.sql:7: warning: insert into out: Join of b by [user_id]: unbounded because no state_ttl is set
    write SELECT /*+ STATE_TTL('b' = '...') */, or SET state_ttl = '...' before it
";
    for (arguments, code) in [(&["check", "q.sql"][..], 0), (&["check", "--deny-unbounded", "q.sql"], 1)] {
        let output = weir(&folder.0, arguments, "");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (expected.to_owned(), "3 warnings\n".to_owned()), "{arguments:?}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
    assert!(!folder.0.join("out.csv").exists(), "a check opens no sink");
}

#[test]
fn a_memory_shorter_than_that_of_what_it_reads_is_a_warning_and_no_reason_to_fail() {
    let script = format!(
        "{LOGIN}CREATE VIEW n WITH (state_ttl = '7 days') AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
CREATE VIEW o WITH (state_ttl = '3 days') AS SELECT n, COUNT(*) AS users FROM n GROUP BY n;"
    );
    let folder = Folder::new("shorter").with("q.sql", &script);
    let output = weir(&folder.0, &["check", "--deny-unbounded", "q.sql"], "");
    let told = text(&output.stdout);
    assert!(told.starts_with("q.sql:3: warning: view o: "), "{told}");
    assert!(told.contains("its ttl of 3 days is shorter than the 7 days of view n: "), "{told}");
    assert_eq!((text(&output.stderr).as_str(), output.status.code()), ("1 warning\n", Some(0)));
}

#[test]
fn a_check_fails_at_a_statement_that_is_wrong() {
    let output = weir(&Folder::new("check fails").0, &["check", "-"], "SELECT 1 AS one;\nCREATE VIEW v AS SELECT a FROM nowhere;");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: stdin:2: "), "{}", text(&output.stderr));
}

/// Two of three users come back nine days after their first day; one of them on a day between.
const DAYS: &str = "SET clock = 'manual';
CREATE TABLE login (user_id BIGINT, t_date DATE, proctime AS PROCTIME());
CREATE VIEW debut DEBUT AS
SELECT t_date, user_id,
       MIN(t_date) OVER (PARTITION BY user_id ORDER BY proctime ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_debut
FROM login;
CREATE MATERIALIZED VIEW dau WITH (state_ttl = '3 days') AS
SELECT t_date, COUNT(DISTINCT user_id) AS users, COUNT(DISTINCT CASE WHEN t_date = t_debut THEN user_id END) AS new_users
FROM debut GROUP BY t_date;
CREATE TABLE report (t_date DATE, users BIGINT, new_users BIGINT) WITH ('connector' = 'file', 'path' = 'report.json', 'format' = 'json');
INSERT INTO report SELECT t_date, users, new_users FROM dau;
CREATE TABLE shown (t_date DATE, users BIGINT, new_users BIGINT) WITH ('connector' = 'print');
INSERT INTO shown SELECT t_date, users, new_users FROM dau;
ADVANCE TO TIMESTAMP '2026-01-01 08:00:00';
INSERT INTO login (user_id, t_date) VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-01'), (3, DATE '2026-01-01');
ADVANCE TO TIMESTAMP '2026-01-03 08:00:00';
INSERT INTO login (user_id, t_date) VALUES (2, DATE '2026-01-03');
SELECT * FROM dau;
ADVANCE TO TIMESTAMP '2026-01-05 08:00:00';
INSERT INTO login (user_id, t_date) VALUES (2, DATE '2026-01-05');
ADVANCE TO TIMESTAMP '2026-01-10 08:00:00';
INSERT INTO login (user_id, t_date) VALUES (1, DATE '2026-01-10'), (2, DATE '2026-01-10');
";

/// The figures of an audit that do not depend on how state is stored: view, ttl, rows, differ, worst, worst_at, first_at.
fn figures(csv: &str) -> Vec<String> {
    let mut reader = csv.lines();
    assert!(reader.next().is_some_and(|header| header.starts_with("view,ttl,rows,differ,worst,worst_at,first_at,expired,")), "{csv}");
    reader.map(|line| line.rsplitn(6, ',').last().unwrap_or_default().to_owned()).collect()
}

#[test]
fn an_audit_of_a_coarse_ttl_says_which_new_users_were_counted_twice() {
    // The ttl of three days has forgotten user 1 on the 4th and user 2 on the 8th, so on the 10th both are new again.
    let folder = Folder::new("audit coarse").with("q.sql", &DAYS.replace("DEBUT", "WITH (state_ttl = '3 days')"));
    for workers in ["1", "2"] {
        let output = weir(&folder.0, &["audit", "q.sql", "--workers", workers, "--format", "csv"], "");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        // Of the seven logins two have the wrong debut, of the four days one has the wrong figure: a wrong row is one too many
        // and one too few.
        let expected = [
            "debut,3 days by [user_id],7,4,4,2026-01-10 08:00:00,2026-01-10 08:00:00",
            "dau,\"3 days by [t_date], 3 days by [user_id]\",4,2,2,2026-01-10 08:00:00,2026-01-10 08:00:00",
        ];
        assert_eq!(figures(&text(&output.stdout)), expected, "{workers} worker(s)");
        let said = "debut differs first at 2026-01-10 08:00:00:
  + (2026-01-10, 1, 2026-01-10)  only with its ttl
  - (2026-01-10, 1, 2026-01-01)  missing with its ttl
dau differs first at 2026-01-10 08:00:00:
  + (2026-01-10, 2, 2)  only with its ttl
  - (2026-01-10, 2, 0)  missing with its ttl
";
        assert_eq!(text(&output.stderr), said, "{workers} worker(s)");
    }
    let table = text(&weir(&folder.0, &["audit", "q.sql"], "").stdout);
    // Three users and three days have been forgotten.
    let of_dau = "dau: 3 days by [t_date], 3 days by [user_id]
  4 rows; 2 differ at the end, 2 at worst (2026-01-10 08:00:00); 6 scopes expired
  state ";
    assert!(table.contains(of_dau), "{table}");
    let first = "  differs first at 2026-01-10 08:00:00:
    + (2026-01-10, 2, 2)  only with its ttl
    - (2026-01-10, 2, 0)  missing with its ttl
";
    assert!(table.ends_with(first), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(!table.contains("+I[") && !table.contains("new_users"), "what the script shows is not a part of it: {table}");
    assert!(!folder.0.join("report.json").exists(), "an audit writes no sink");
}

#[test]
fn an_audit_of_a_ttl_that_costs_nothing_says_so() {
    // The days are forgotten after three, and nobody asks for one of them again; the debuts are never.
    let folder = Folder::new("audit fine").with("q.sql", &DAYS.replace("DEBUT", "WITH (state_ttl = 'never')"));
    let output = weir(&folder.0, &["audit", "q.sql", "--format", "csv"], "");
    assert_eq!(figures(&text(&output.stdout)), ["debut,no ttl,,,,,", "dau,3 days by [t_date],4,0,0,,"]);
    assert_eq!(text(&output.stderr), "nothing that was published differs\n");
}

#[test]
fn an_audit_without_a_ttl_or_without_an_expiry_says_so() {
    let folder = Folder::new("audit nothing");
    let script = DAYS.replace("DEBUT", "").replace("WITH (state_ttl = '3 days')", "");
    let output = weir(&folder.0, &["audit", "-", "--format", "csv"], &script);
    assert_eq!(figures(&text(&output.stdout)), ["debut,no ttl,,,,,", "dau,no ttl,,,,,"]);
    assert_eq!(text(&output.stderr), "no view has a ttl\n");
    let output = weir(&folder.0, &["audit", "-", "--format", "csv", "--set", "state_ttl=30 days"], &script);
    assert_eq!(figures(&text(&output.stdout))[1], "dau,\"30 days by [t_date], 30 days by [user_id]\",4,0,0,,");
    assert_eq!(text(&output.stderr), "nothing expired in this run\n");
}
