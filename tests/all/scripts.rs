//! Golden scripts: `tests/scripts/*.slt`, and the shared acceptance scenarios where their folder is there.

use std::path::{Path, PathBuf};

use weir::cli::test::run_file;

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut scripts: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "slt")).collect();
    scripts.sort();
    scripts
}

/// Runs all of them, with one worker and with two, and tells of all that fail.
fn run_all(scripts: &[PathBuf]) {
    let failure = |(path, workers): (&PathBuf, usize)| match run_file(path, workers) {
        Ok(report) if report.passed() => None,
        Ok(report) => Some(format!("{workers} workers: {report}")),
        Err(error) => Some(format!("{workers} workers: {}: {error}", path.display())),
    };
    let failures: Vec<String> = scripts.iter().flat_map(|path| [(path, 1), (path, 2)]).filter_map(failure).collect();
    assert!(failures.is_empty(), "{} of {} scripts fail:\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

#[test]
fn every_golden_script_gives_the_rows_it_says() {
    let scripts = scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts"));
    assert!(!scripts.is_empty());
    run_all(&scripts);
}

#[test]
fn every_shared_scenario_gives_the_rows_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/scenarios");
    if !folder.exists() {
        println!("no {}: nothing to run", folder.display());
        return;
    }
    run_all(&scripts(&folder));
}
