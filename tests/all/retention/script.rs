//! Small scripts in sqllogictest form, written where the test that needs them is.

use weir::cli::test::run_file;

/// Runs a script, with one worker and with two.
pub fn agrees(name: &str, script: &str) {
    let path = std::env::temp_dir().join(format!("weir-{}-{name}.slt", std::process::id()));
    std::fs::write(&path, format!("statement ok\nSET clock = 'manual'\n\n{script}")).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let failures: Vec<String> = [1, 2]
        .into_iter()
        .filter_map(|workers| match run_file(&path, workers) {
            Ok(report) if report.passed() => None,
            Ok(report) => Some(format!("{workers} worker(s): {report}")),
            Err(error) => Some(format!("{workers} worker(s): {error}")),
        })
        .collect();
    assert!(failures.is_empty(), "{name}:\n{}\n{script}", failures.join("\n"));
    // a script that fails stays, to be run by hand
    std::fs::remove_file(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
