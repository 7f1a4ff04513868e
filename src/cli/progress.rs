//! What a run is doing, while it does it, and what it came to: on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use super::stop::spawn;
use crate::engine::{Engine, LateRows, Stats};

/// How often the progress line is brought up to date.
const REFRESH: Duration = Duration::from_millis(150);

/// A progress line on a terminal, and the summary that replaces it. Off a terminal only the summary is written.
pub struct Progress {
    started: Instant,
    bar: Option<ProgressBar>,
    quiet: bool,
    watcher: Option<Watcher>,
}

struct Watcher {
    ending: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Progress {
    /// Starts the clock, and makes the line where a person would see it.
    pub fn start(quiet: bool) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        Progress { started: Instant::now(), bar, quiet, watcher: None }
    }

    /// The line, for those who write around it.
    pub fn bar(&self) -> Option<ProgressBar> {
        self.bar.clone()
    }

    /// For what has to be said while the line is there.
    pub fn notes(&self) -> Notes {
        Notes(self.bar())
    }

    /// Keeps the line up to date with an engine's figures until [`Progress::finish`].
    pub fn watch(&mut self, engine: &Engine) {
        let Some(bar) = self.bar() else { return };
        let (engine, started, ending) = (engine.clone(), self.started, Arc::new(AtomicBool::new(false)));
        let ended = ending.clone();
        let watch = move || {
            while !ended.load(Ordering::Relaxed) {
                bar.set_message(describe(&engine.stats(), started.elapsed()));
                bar.tick();
                thread::park_timeout(REFRESH);
            }
        };
        // A run without a progress line is still a run.
        self.watcher = spawn("progress", watch).ok().map(|thread| Watcher { ending, thread });
    }

    /// Takes the line away, and writes the summary where the engine is given.
    pub fn finish(self, engine: Option<&Engine>) {
        if let Some(Watcher { ending, thread }) = self.watcher {
            ending.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            let _ = thread.join();
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        if let Some(engine) = engine.filter(|_| !self.quiet) {
            note(describe(&engine.stats(), self.started.elapsed()));
            skips(engine).into_iter().for_each(note);
            engine.late().iter().map(late).for_each(note);
        }
    }
}

/// Writes messages to standard error, around the progress line.
pub struct Notes(Option<ProgressBar>);

impl Notes {
    pub fn say(&self, message: impl Display) {
        match &self.0 {
            Some(bar) => bar.suspend(|| note(message)),
            None => note(message),
        }
    }
}

/// Writes a line to standard error. Where nobody reads that, there is nobody to tell.
pub fn note(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// An engine's figures in one line.
fn describe(stats: &Stats, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { (stats.rows_in as f64 / seconds) as u64 } else { 0 };
    let mut line = format!(
        "{} in, {} out, {}/s; state {}, {}; {seconds:.2} s",
        counted(stats.rows_in, "row"),
        counted(stats.rows_out, "row"),
        counted(rate, "row"),
        counted(stats.state_rows, "row"),
        HumanBytes(stats.state_bytes),
    );
    if stats.skipped > 0 {
        line.push_str(&format!("; {} skipped", counted(stats.skipped, "undecodable row")));
    }
    line
}

/// The input that was skipped, a line each for the first of it and one for the rest.
pub fn skips(engine: &Engine) -> Vec<String> {
    skips_of(engine.stats().skipped, &engine.skipped())
}

/// A table's late rows, and what has become of them.
fn late(rows: &LateRows) -> String {
    let part = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", counted(count, "row")));
    let parts: Vec<String> = [part(rows.dropped, "dropped"), part(rows.accepted, "accepted")].into_iter().flatten().collect();
    format!("late: table {}: {} behind the watermark", rows.table, parts.join(", "))
}

fn skips_of(count: u64, first: &[String]) -> Vec<String> {
    let rest = count.saturating_sub(first.len() as u64);
    let more = (rest > 0).then(|| format!("skipped: {} more", HumanCount(rest)));
    first.iter().map(|message| format!("skipped: {message}")).chain(more).collect()
}

/// So many of something, in the singular if it is one.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_rows_in_over_seconds() {
        let stats = Stats { rows_in: 3_000, rows_out: 20, state_rows: 1_500, state_bytes: 2_048, ..Stats::default() };
        let line = describe(&stats, Duration::from_millis(1_500));
        assert_eq!(line, "3,000 rows in, 20 rows out, 2,000 rows/s; state 1,500 rows, 2.00 KiB; 1.50 s");
    }

    #[test]
    fn one_is_told_in_the_singular() {
        let stats = Stats { rows_in: 1, rows_out: 1, state_rows: 1, state_bytes: 64, skipped: 1, ..Stats::default() };
        let line = describe(&stats, Duration::from_secs(1));
        assert_eq!(line, "1 row in, 1 row out, 1 row/s; state 1 row, 64 B; 1.00 s; 1 undecodable row skipped");
    }

    #[test]
    fn the_first_skipped_rows_are_shown_and_the_rest_is_counted() {
        let first = ["a.json, line 2: not JSON".to_owned(), "a.json, line 5: not JSON".to_owned()];
        let expected = ["skipped: a.json, line 2: not JSON", "skipped: a.json, line 5: not JSON", "skipped: 2 more"];
        assert_eq!(skips_of(4, &first), expected);
        assert_eq!(skips_of(2, &first), expected[..2]);
        assert!(skips_of(0, &[]).is_empty());
    }

    #[test]
    fn late_rows_are_told_by_table_with_what_became_of_them() {
        let rows = |dropped, accepted| LateRows { table: "t".into(), dropped, accepted };
        assert_eq!(late(&rows(2, 0)), "late: table t: 2 rows dropped behind the watermark");
        assert_eq!(late(&rows(0, 1)), "late: table t: 1 row accepted behind the watermark");
    }

    #[test]
    fn skipped_rows_are_told_only_when_there_are_some() {
        let line = describe(&Stats { skipped: 2, ..Stats::default() }, Duration::ZERO);
        assert!(line.ends_with("; 0.00 s; 2 undecodable rows skipped"), "{line}");
    }
}
