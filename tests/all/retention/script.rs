//! Small scripts in sqllogictest form, written where the test that needs them is.

use std::sync::OnceLock;

use weir::cli::test::run_file;
use weir::engine::{Clock, Engine};
use weir::error::Error;

/// Runs a script, with one worker and with two.
pub fn agrees(name: &str, script: &str) {
    if waits_for_the_engine() {
        return;
    }
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

/// Whether the engine says that it has no retention yet; then there is nothing to compare, and the test says so.
pub fn waits_for_the_engine() -> bool {
    static WAITS: OnceLock<bool> = OnceLock::new();
    let waits = *WAITS.get_or_init(|| {
        let engine = Engine::builder().clock(Clock::Manual).build().unwrap_or_else(|e| panic!("{e}"));
        let definitions = "CREATE TABLE t (k INT); CREATE VIEW v WITH (state_ttl = '1 s') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k";
        match engine.execute(definitions) {
            Ok(_) => false,
            Err(Error::Unsupported(what)) if what.contains("state_ttl") => true,
            Err(error) => panic!("{error}"),
        }
    });
    if waits {
        println!("waits for the engine's retention");
    }
    waits
}
