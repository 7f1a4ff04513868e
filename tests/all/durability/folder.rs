//! The folder of a state: what becomes of it when the disk is full, a file is damaged or somebody else has it, and what is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir::engine::{Clock, Engine};
use weir::error::Result;

use crate::kept::Folder;
use crate::value::{self, Value};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A program whose state is saved as it goes, since each of its statements changes something.
const PROGRAM: &str = "
SET clock = 'manual';
CREATE TABLE t (k INT, n BIGINT);
CREATE TABLE out (k INT, n BIGINT) WITH ('connector' = 'file', 'path' = 'out.csv', 'format' = 'csv', 'changelog' = 'true');
INSERT INTO out SELECT k, SUM(n) AS n FROM t GROUP BY k;
INSERT INTO t VALUES (1, 10), (2, 20);
CHECKPOINT;
ADVANCE BY '1 s';
INSERT INTO t VALUES (1, 1);
CHECKPOINT;
ADVANCE BY '1 s';
INSERT INTO t VALUES (2, 2);
";

/// What the program writes: a step at a time, by arithmetic.
const WRITTEN: &str = "+I,1,10\n+I,2,20\n-D,1,10\n+I,1,11\n-D,2,20\n+I,2,22\n";

fn weir(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(WEIR).args(arguments).current_dir(folder.path()).output().expect("the binary runs")
}

fn run(folder: &Folder) -> Output {
    weir(folder, &["run", "-q", "q.sql", "--state", "state"])
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The checkpoints of a folder, from the oldest on.
fn checkpoints(state: &Path) -> Vec<PathBuf> {
    files(state, "checkpoint-")
}

fn files(state: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).expect("a folder of ours").flatten();
    let mut files: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Changes a byte in the middle of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).expect("a file of ours");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).expect("a file of ours");
}

/// A folder in which the program has run.
fn after_a_run() -> Folder {
    let folder = Folder::new().with("q.sql", PROGRAM);
    let output = run(&folder);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(written(&folder), WRITTEN);
    folder
}

fn written(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path().join("out.csv")).expect("the program writes it")
}

#[test]
fn a_program_that_has_ended_does_nothing_again() {
    let folder = after_a_run();
    for _ in 0..2 {
        let output = run(&folder);
        assert!(output.status.success(), "{}", errors(&output));
        assert_eq!(written(&folder), WRITTEN);
    }
}

#[test]
fn a_newest_checkpoint_that_was_cut_is_passed_over_and_the_one_before_comes_to_the_same() {
    for cut in [0, 1, 100, 200] {
        let folder = after_a_run();
        let newest = checkpoints(&folder.path().join("state")).pop().expect("there are two");
        let bytes = std::fs::read(&newest).expect("a checkpoint");
        std::fs::write(&newest, &bytes[..bytes.len().saturating_sub(1).min(cut * bytes.len() / 201)]).expect("a checkpoint");
        let output = run(&folder);
        assert!(output.status.success(), "{}", errors(&output));
        let said = errors(&output);
        let name = newest.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(said.starts_with("warning: checkpoint ") && said.contains(" is passed over: ") && said.contains(&name), "{said}");
        assert_eq!(written(&folder), WRITTEN);
        assert!(weir(&folder, &["state", "state", "--verify"]).status.success(), "what was cut is gone");
    }
}

#[test]
fn a_byte_that_was_changed_is_found_by_verify_and_at_the_next_start() {
    let folder = after_a_run();
    let state = folder.path().join("state");
    checkpoints(&state).iter().for_each(|file| damage(file));
    let output = weir(&folder, &["state", "state", "--verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains(" is not whole: "), "{}", errors(&output));
    let output = run(&folder);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("no checkpoint in state is whole: ") && said.contains("another folder starts anew"), "{said}");
    assert_eq!(written(&folder), WRITTEN, "a run that does not begin writes nothing");
}

#[test]
fn a_checkpoint_of_another_version_of_the_format_says_so() {
    let folder = after_a_run();
    let state = folder.path().join("state");
    for file in checkpoints(&state) {
        // The second word of each head is the version; the first and the last head are looked at first.
        let mut bytes = std::fs::read(&file).expect("a checkpoint");
        for magic in [b"weir-seg", b"weir-end"] {
            let heads: Vec<usize> = (0..bytes.len() - 16).filter(|at| bytes[*at..].starts_with(magic)).collect();
            heads.into_iter().for_each(|at| bytes[at + 8] = 77);
        }
        std::fs::write(&file, bytes).expect("a checkpoint");
    }
    let said = errors(&run(&folder));
    assert!(said.contains("version") && said.contains("77"), "{said}");
}

#[test]
fn two_processes_do_not_have_one_folder() {
    let folder = Folder::new().with("q.sql", PROGRAM);
    let engine = Engine::builder().state(folder.path().join("state")).build().expect("the first has it");
    let output = run(&folder);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert_eq!(said, "error: another process keeps its state in state: give this one a folder of its own\n");
    assert!(!folder.path().join("out.csv").exists(), "it has opened no sink");
    engine.shutdown().expect("it ends");
    drop(engine);
    assert!(run(&folder).status.success(), "the folder is free again");
}

#[test]
fn a_folder_that_cannot_be_made_or_written_to_is_named() {
    let folder = Folder::new().with("q.sql", PROGRAM).with("file", "");
    for (state, what) in
        [("file/state", "file/state cannot be made: "), ("file", "file cannot be made: "), ("/proc/sys", "cannot be written: ")]
    {
        let output = weir(&folder, &["run", "-q", "q.sql", "--state", state]);
        assert_eq!(output.status.code(), Some(1), "{state}");
        assert!(errors(&output).starts_with("error: ") && errors(&output).contains(what), "{}", errors(&output));
        assert!(!folder.path().join("out.csv").exists(), "it has opened no sink");
    }
    let output = weir(&folder, &["state", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("nowhere cannot be read: "), "{}", errors(&output));
}

#[test]
fn a_full_disk_is_told_and_what_was_saved_before_stays() {
    // So many rows that a checkpoint of them is longer than any file may be (in blocks of 512 bytes or 1024, as the shell has it).
    let script = format!(
        "{PROGRAM}
         CREATE TABLE g (k INT, s VARCHAR) WITH ('connector' = 'datagen', 'number-of-rows' = '30000');
         CREATE MATERIALIZED VIEW big AS SELECT k, s, COUNT(*) AS n FROM g GROUP BY k, s;
         SELECT COUNT(*) AS n FROM big;"
    );
    let folder = Folder::new().with("q.sql", PROGRAM);
    assert!(run(&folder).status.success());
    std::fs::write(folder.path().join("q.sql"), script).expect("a script of ours");
    let full = "trap '' XFSZ; ulimit -f 200; exec \"$0\" run -q q.sql --state state --checkpoint-every '20 ms'";
    let output = Command::new("sh").args(["-c", full, WEIR]).current_dir(folder.path()).output().expect("there is a shell");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: ") && said.contains("state/") && said.contains(" cannot be written at byte "), "{said}");
    assert!(said.matches("warning: ").count() <= 3, "the same is told once: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n30000\n", "the run itself goes on");
    assert!(
        files(&folder.path().join("state"), "").iter().all(|file| !file.to_string_lossy().ends_with(".tmp")),
        "nothing half written is left"
    );
    assert!(weir(&folder, &["state", "state", "--verify"]).status.success());
    let output = run(&folder);
    assert!(output.status.success(), "with room again: {}", errors(&output));
    assert_eq!(written(&folder), WRITTEN);
}

/// A count of so many rows, and its state.
fn count(state: &Path, rows: usize) -> Result<(Engine, Vec<value::Row>)> {
    let engine = Engine::builder().clock(Clock::Manual).state(state).build()?;
    let program = format!(
        "CREATE TABLE g (k BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '{rows}');
         CREATE TABLE t (k BIGINT);
         CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM g GROUP BY k;
         CREATE MATERIALIZED VIEW w AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
    );
    for statement in weir::sql::statements(&program) {
        engine.run_again(&statement?)?;
    }
    let counted = value::rows(&engine.query("SELECT COUNT(*) AS n, (SELECT COUNT(*) FROM w) AS m FROM v")?);
    Ok((engine, counted))
}

#[test]
fn a_damaged_file_of_rows_that_both_checkpoints_name_is_an_error_with_its_name() {
    let folder = Folder::new();
    let (engine, counted) = count(folder.path(), 40_000).expect("an engine");
    assert_eq!(counted, [[Value::Int(40_000), Value::Int(0)]]);
    // As soon as the batches have been merged they are long, and are written once.
    let is_written_once = |row: i64| {
        engine.execute(&format!("INSERT INTO t VALUES ({row})")).expect("a row");
        let written = engine.checkpoint().expect("a checkpoint").expect("a row has come");
        written.written * 5 < written.bytes
    };
    let rows = (1..40).find(|row| is_written_once(*row)).expect("long batches are written once");
    engine.shutdown().expect("it ends");
    drop(engine);
    let (engine, counted) = count(folder.path(), 40_000).expect("an engine");
    assert_eq!(counted, [[Value::Int(40_000), Value::Int(rows)]]);
    engine.shutdown().expect("it ends");
    drop(engine);
    let rows = files(folder.path(), "rows-");
    assert!(!rows.is_empty());
    rows.iter().for_each(|file| damage(file));
    let error = count(folder.path(), 40_000).err().expect("the rows are damaged").to_string();
    assert!(
        error.contains("is whole: ") && error.contains(&rows[0].file_name().expect("a name").to_string_lossy().into_owned()),
        "{error}"
    );
}
