//! The files of `queries/` and `queries/retention/`, run by the binary as a user would, against `tests/expected`, which
//! `tests/expected/make.py` computes from the same data, or says by the rules, without Weir.

use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: [&str; 12] = [
    "dau",
    "clicks",
    "join",
    "top_n",
    "grouping_sets",
    "shared_view",
    "retention/two_memories",
    "retention/join_sides",
    "retention/min_max_idle",
    "retention/count_restart",
    "retention/late_retraction",
    "retention/view_over_view",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(file: &Path, workers: u32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "--format", "csv", "--workers", &workers.to_string()])
        .arg(file)
        // paths in a script start from the script
        .current_dir(std::env::temp_dir())
        .output()
        .expect("the binary starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{errors}", file.display(), output.status);
    String::from_utf8(output.stdout).expect("results are UTF-8")
}

/// The lines that say something.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

/// Whether two lines have the same values; numbers may be written differently.
fn same_values(a: &str, b: &str) -> bool {
    let same = |a: &str, b: &str| {
        let (a, b) = (a.trim().trim_matches('"'), b.trim().trim_matches('"'));
        a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if (a - b).abs() <= 1e-9 * a.abs().max(b.abs()))
    };
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split(',').collect(), b.split(',').collect());
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
}

fn check(name: &str, workers: u32) {
    let sql = root().join("queries").join(name).with_extension("sql");
    let expected: PathBuf = root().join("tests/expected").join(name).with_extension("txt");
    let expected = std::fs::read_to_string(&expected).unwrap_or_else(|e| panic!("{}: {e}", expected.display()));
    let got = run(&sql, workers);
    let (got, expected) = (lines(&got), lines(&expected));
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(same_values(got, expected), "{name}, {workers} worker(s), line {}: {got} where {expected} is due", i + 1);
    }
    assert_eq!(got.len(), expected.len(), "{name}, {workers} worker(s): so many lines");
}

#[test]
fn every_query_file_prints_what_sqlite_and_python_compute() {
    FILES.iter().for_each(|name| check(name, 1));
}

#[test]
fn query_files_print_the_same_with_two_workers() {
    FILES.iter().for_each(|name| check(name, 2));
}

#[test]
fn every_file_in_queries_is_tested() {
    let tested: Vec<PathBuf> = FILES.iter().map(|name| root().join("queries").join(name).with_extension("sql")).collect();
    for folder in ["queries", "queries/retention"] {
        let folder = std::fs::read_dir(root().join(folder)).expect("there is a folder of queries");
        for path in folder.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "sql")) {
            assert!(tested.contains(&path), "{} has no test", path.display());
        }
    }
}
