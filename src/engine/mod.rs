//! The engine: SQL in, results that stay right out.
//!
//! An [`Engine`] holds tables, views and jobs, and worker threads that keep them up to date. It is used through
//! SQL, and from Rust where SQL has no words for it: rows in by the batch, a view's changes as an iterator.
//!
//! Counting by key, kept up to date:
//!
//! ```
//! # fn main() -> weir::error::Result<()> {
//! use weir::engine::{Clock, Engine};
//!
//! let engine = Engine::builder().workers(2).clock(Clock::Manual).build()?;
//! engine.execute(
//!     "CREATE TABLE clicks (page VARCHAR);
//!      CREATE MATERIALIZED VIEW visits AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
//!      INSERT INTO clicks VALUES ('home'), ('cart'), ('home');",
//! )?;
//! let rows = engine.query("SELECT page, n FROM visits ORDER BY n DESC")?;
//! assert_eq!(rows.num_rows(), 2);
//!
//! engine.execute("DELETE FROM clicks WHERE page = 'cart'")?;
//! assert_eq!(engine.query("SELECT page, n FROM visits")?.num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What happens when
//!
//! A definition is checked at once and built when something first has to flow: a change of a table, a SELECT,
//! ADVANCE, a subscription, [`Engine::finish`]. What was defined until then is built together and shares what is
//! equal. Each statement that changes rows is one *step*, and so is a transaction (BEGIN ... COMMIT): a view, a sink
//! or a subscription shows all of it or nothing. A SELECT sees every step before it, and all of the bounded input.
//! Under an event clock a row has a time of its own and is seen when engine time, which follows the watermarks of the
//! tables, is past it; it runs out when the last source has ended.
//!
//! # Errors
//!
//! A statement that fails has done nothing. A *row* that fails (a division by zero, a line that is not JSON) is an
//! error of the views that it is in, while it is there: see [`crate::error::Error::Data`]. If a worker fails, every
//! call from then on is an [`crate::error::Error::Stopped`].
//!
//! # How it is made
//!
//! `session` takes statements one at a time and hands each to the file that is named for its kind; `catalog` knows
//! the names; `driver` reads the sources and moves the clock, by `watermark` where time is the rows' own; [`runtime`] has the workers. An engine has no global
//! state: there may be any number in a process.

mod audit;
mod builder;
mod catalog;
mod changelog;
mod check;
mod clock;
mod command_log;
mod ddl;
mod dml;
mod driver;
mod durable;
mod event_time;
mod explain;
mod gate;
mod jobs;
pub mod meter;
mod moment;
mod names;
mod plans;
mod publish;
mod query;
mod reader;
mod rerun;
pub mod runtime;
mod session;
mod settings;
mod show;
mod subscribe;
mod table;
pub mod time;
mod transaction;
mod watermark;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;

pub use crate::checkpoint::Summary;
pub use audit::{Audit, Audited, Compared, FirstDifference, audited_rows};
pub use builder::Builder;
pub use check::{Check, Finding, Place, Problem};
pub use clock::Clock;
use driver::{Driver, Which};
use durable::{Checkpoints, Durable};
pub use explain::{Explained, MadeBy};
use session::Session;
pub use subscribe::{Subscription, Update};
pub use watermark::LateRows;

use crate::error::{Error, Result};
use crate::plan::Format;
use crate::sql;
use crate::sql::statement::Parsed;

/// A running engine. A handle: cheap to clone, usable from any thread; dropping the last one shuts the engine down.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

/// What the clones of an [`Engine`] hold together.
struct Handle(Arc<Shared>);

/// What the engine's own threads and subscriptions may hold without keeping it running.
struct Shared {
    /// Statements run one at a time.
    session: Mutex<Session>,
    driver: Arc<Driver>,
    /// Where there is a folder for the state.
    durable: Option<Arc<Durable>>,
    checkpoints: Mutex<Option<Checkpoints>>,
    resumed: Resumed,
}

/// With what an engine has begun that has a folder for its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumed {
    /// The number of the checkpoint; None if there was none.
    pub checkpoint: Option<u64>,
    /// Newer checkpoints that are not whole, and why.
    pub passed_over: Vec<String>,
}

/// What one statement came to.
#[derive(Debug)]
pub enum Outcome {
    /// Rows to show: SELECT, SHOW, EXPLAIN (one column of text).
    Rows(RecordBatch),
    /// How many rows were changed by INSERT, UPDATE, DELETE on a table in memory.
    Changed(u64),
    /// The changes that SUBSCRIBE asked for.
    Subscription(Subscription),
    /// Done; what was done, in a few words ("CREATE VIEW v").
    Done(String),
}

/// How an engine is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rows that were read from sources.
    pub rows_in: u64,
    /// Changes that were written to sinks.
    pub rows_out: u64,
    /// Rows in all arrangements.
    pub state_rows: u64,
    /// Bytes in all arrangements.
    pub state_bytes: u64,
    /// Input that could not be decoded and was skipped, as `on_error = 'skip'` asks.
    pub skipped: u64,
    /// Sources that are being read.
    pub sources_running: u64,
    /// Continuous INSERTs.
    pub jobs: u64,
    /// Whether one of the sources does not end by itself.
    pub unbounded: bool,
}

impl Engine {
    /// Starts to set up an engine.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs the statements of a script in order and stops at the first that fails.
    pub fn execute(&self, sql: &str) -> Result<Vec<Outcome>> {
        sql::statements(sql).map(|parsed| self.execute_statement(&parsed?)).collect()
    }

    /// Runs one statement: for those who show each outcome as it comes. See [`crate::sql::statements`].
    pub fn execute_statement(&self, statement: &Parsed) -> Result<Outcome> {
        self.with_session(|session| session.run(statement, Arc::downgrade(&self.0.0)))
    }

    /// Runs one statement of a program that may have been run before with the same [folder](Builder::state) for its state: what is
    /// defined already is not defined again, and rows that were changed are not changed again. Queries are answered anew.
    ///
    /// ```
    /// # fn main() -> weir::error::Result<()> {
    /// # use weir::engine::Engine;
    /// # let folder = std::env::temp_dir().join(format!("weir-doc-{}", std::process::id()));
    /// let program = "CREATE TABLE words (word VARCHAR); INSERT INTO words VALUES ('weir');";
    /// for _ in 0..2 {
    ///     let engine = Engine::builder().state(&folder).build()?;
    ///     for statement in weir::sql::statements(program) {
    ///         engine.run_again(&statement?)?;
    ///     }
    ///     assert_eq!(engine.query("SELECT word FROM words")?.num_rows(), 1);
    ///     engine.shutdown()?;
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Something is defined otherwise than it was, unless the engine [discards](Builder::discard_changed) what has changed.
    pub fn run_again(&self, statement: &Parsed) -> Result<Outcome> {
        self.with_session(|session| session.run_again(statement, Arc::downgrade(&self.0.0)))
    }

    /// Drops what an earlier run of the program has defined and [`Engine::run_again`] was not asked for; names each.
    pub fn forget_the_rest(&self) -> Result<Vec<String>> {
        self.with_session(Session::forget_the_rest)
    }

    /// Writes a checkpoint, and waits until it is on disk; None if nothing has happened since the last one. What is to flow flows
    /// first.
    ///
    /// # Errors
    ///
    /// There is no [folder](Builder::state) for the state, or it cannot be written to.
    pub fn checkpoint(&self) -> Result<Option<Summary>> {
        let Some(durable) = &self.0.0.durable else {
            return Err(Error::invalid("a checkpoint needs a folder for the state: see Builder::state"));
        };
        self.with_session(|session| {
            session.prepare()?;
            session.flow()
        })?;
        durable.checkpoint(&self.0.0.driver)
    }

    /// With what the engine has begun.
    pub fn resumed(&self) -> &Resumed {
        &self.0.0.resumed
    }

    /// Runs one query and gives its rows; in order where it says ORDER BY.
    pub fn query(&self, sql: &str) -> Result<RecordBatch> {
        let mut outcomes = self.execute(sql)?;
        match (outcomes.pop(), outcomes.is_empty()) {
            (Some(Outcome::Rows(rows)), true) => Ok(rows),
            _ => Err(Error::invalid("query() takes one SELECT, SHOW or EXPLAIN; execute() runs everything else")),
        }
    }

    /// The plans of a script's views, jobs and queries. Its definitions are made; nothing flows.
    pub fn explain(&self, sql: &str, format: Format) -> Result<Vec<Explained>> {
        let mut explained = Vec::new();
        for parsed in sql::statements(sql) {
            let parsed = parsed?;
            explained.extend(self.with_session(|session| session.explain_statement(&parsed, format))?);
        }
        Ok(explained)
    }

    /// Looks at a script for state that nothing bounds, and for memories that do not fit together.
    ///
    /// ```
    /// # fn main() -> weir::error::Result<()> {
    /// # use weir::engine::Engine;
    /// let script = "CREATE TABLE clicks (page VARCHAR); CREATE VIEW visits AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;";
    /// let engine = Engine::builder().build()?;
    /// let mut check = engine.check();
    /// for statement in weir::sql::statements(script) {
    ///     for finding in check.statement(&statement?)? {
    ///         assert_eq!(finding.to_string(), "view visits: Reduce by [page]: unbounded because no state_ttl is set");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Check {
        Check::new(self.clone())
    }

    /// From now on compares every view and every job with what it would be if nothing were forgotten. What jobs write goes
    /// nowhere; see [`Audit`].
    pub fn audit(&self) -> Result<Audit> {
        Audit::start(self.clone())
    }

    /// Adds rows to a table in memory, `diffs[i]` times each, as one step (or to the open transaction).
    ///
    /// The batch has the table's columns by name; one that it does not have is NULL, and values are cast to the
    /// column's type. A negative figure takes rows away; none is beyond 2147483647.
    /// In a table with a primary key a positive one puts the row in
    /// the place of its key's row, and a negative one deletes its key's row.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use weir::engine::{Clock, Engine};
    /// use std::sync::Arc;
    /// use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
    /// use arrow::datatypes::Int64Type;
    ///
    /// let engine = Engine::builder().clock(Clock::Manual).build()?;
    /// engine.execute("CREATE TABLE readings (sensor VARCHAR, level BIGINT)")?;
    /// let rows = RecordBatch::try_from_iter([
    ///     ("sensor", Arc::new(StringArray::from(vec!["a", "b"])) as _),
    ///     ("level", Arc::new(Int64Array::from(vec![7, 9])) as _),
    /// ])?;
    /// engine.insert("readings", &rows, &[2, 1])?;
    /// engine.insert("readings", &rows.slice(0, 1), &[-1])?;
    ///
    /// let total = engine.query("SELECT SUM(level) FROM readings")?;
    /// assert_eq!(total.column(0).as_primitive::<Int64Type>().value(0), 16);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert(&self, table: &str, rows: &RecordBatch, diffs: &[i64]) -> Result<()> {
        self.with_session(|session| {
            session.prepare()?;
            let name = session.catalog.spelt(table);
            session.push(&name, rows, diffs)
        })
    }

    /// Moves a manual clock, to milliseconds since the epoch.
    pub fn advance_to(&self, instant: i64) -> Result<()> {
        self.with_session(|session| {
            session.prepare()?;
            session.advance(|timeline| timeline.advance_to(instant)).map(drop)
        })
    }

    /// The changes of a view or table from now on, beginning with what is in it.
    ///
    /// ```
    /// # fn main() -> weir::error::Result<()> {
    /// # use weir::engine::{Clock, Engine};
    /// let engine = Engine::builder().clock(Clock::Manual).build()?;
    /// engine.execute(
    ///     "CREATE TABLE words (word VARCHAR);
    ///      CREATE VIEW counts AS SELECT word, COUNT(*) AS n FROM words GROUP BY word;
    ///      INSERT INTO words VALUES ('weir');",
    /// )?;
    /// let mut changes = engine.subscribe("counts")?;
    /// let first = changes.next().expect("the engine is running")?;
    /// assert_eq!(first.diffs, [1]);
    ///
    /// engine.execute("ADVANCE BY '1 s'; INSERT INTO words VALUES ('weir');")?;
    /// let second = changes.next().expect("the engine is running")?;
    /// assert_eq!(second.at, 1000);
    /// let mut diffs = second.diffs;
    /// diffs.sort();
    /// assert_eq!(diffs, [-1, 1]); // ('weir', 1) has become ('weir', 2)
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe(&self, view: &str) -> Result<Subscription> {
        self.with_session(|session| {
            session.prepare()?;
            let name = session.catalog.spelt(view);
            let query = dml::query_of(&name, Vec::new(), None)?;
            session.subscribe(&query, Arc::downgrade(&self.0.0))
        })
    }

    /// Waits until every source that is being read has ended and all results are out, and reports what failed. With
    /// a source that does not end, it waits until [`Engine::shutdown`]. Under an event clock the tables in memory have ended,
    /// too, and time runs out; rows that are inserted later go on from there.
    ///
    /// # Errors
    ///
    /// A source that could not be read to its end, or [`Error::Data`] if a sink or a materialized view has errors.
    pub fn finish(&self) -> Result<()> {
        let driver = self.with_session(|session| {
            session.prepare()?;
            session.flow()?;
            Ok(session.driver.clone())
        })?;
        match driver.wait(Which::All) {
            Err(_) if driver.is_shut_down() => return Ok(()),
            waited => waited?,
        }
        driver.timeline().change_watermarks(|marks| marks.end_tables())?;
        driver.timeline().settle()?;
        self.with_session(|session| session.flush_sinks())?;
        driver.count_state()?;
        driver.failure(None)?;
        match driver.runtime().errors()?.as_slice() {
            [] => Ok(()),
            errors => Err(Error::Data(errors.join("\n"))),
        }
    }

    /// Waits until all that has come so far is worked off and is out of the sinks.
    pub fn settle(&self) -> Result<()> {
        self.0.0.driver.timeline().settle()
    }

    /// Ends all jobs, closes the sinks, joins the threads. Calls that wait return, and later ones are errors; shutting
    /// down again does nothing.
    pub fn shutdown(&self) -> Result<()> {
        self.0.0.shut_down()
    }

    /// What a statement that was run has said that is accepted and has no effect, in a few words: for those who show no
    /// outcomes.
    pub fn without_effect(&self, statement: &sql::statement::Statement) -> Option<String> {
        lock(&self.0.0.session).without_effect(statement)
    }

    /// The tables that had rows behind their watermark, under an event clock.
    pub fn late(&self) -> Vec<LateRows> {
        self.0.0.driver.timeline().watermarks(|marks| marks.late())
    }

    /// How the engine is doing. Does not wait, neither for the workers nor for a statement: the figures of the state
    /// are those of the last time that it was counted: soon after they were asked for, in `finish` and in `shutdown`.
    pub fn stats(&self) -> Stats {
        let driver = &self.0.0.driver;
        let counters = &driver.counters;
        counters.want_state();
        Stats {
            rows_in: counters.rows_in.load(Ordering::Relaxed),
            rows_out: counters.rows_out.load(Ordering::Relaxed),
            state_rows: counters.state_rows.load(Ordering::Relaxed),
            state_bytes: counters.state_bytes.load(Ordering::Relaxed),
            skipped: counters.skipped.rows(),
            sources_running: driver.reading() as u64,
            jobs: counters.jobs.load(Ordering::Relaxed),
            unbounded: driver.is_unbounded(),
        }
    }

    /// What was wrong with the first few inputs that `on_error = 'skip'` has left out, each with its place.
    pub fn skipped(&self) -> Vec<String> {
        self.0.0.driver.counters.skipped.first()
    }

    /// Runs something on the session, alone. A panic in it is a bug of ours, and an error to the caller.
    fn with_session<T>(&self, run: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let mut session = lock(&self.0.0.session);
        catch_unwind(AssertUnwindSafe(|| run(&mut session))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().map(|said| said.to_string()).or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Error::invalid(format!("this statement has met a bug in Weir: {}", said.unwrap_or_else(|| "it panicked".into()))))
        })
    }
}

impl Shared {
    fn shut_down(&self) -> Result<()> {
        if let Some(checkpoints) = lock(&self.checkpoints).take() {
            checkpoints.end();
        }
        let saved = match &self.durable {
            Some(durable) if self.driver.check().is_ok() => durable.checkpoint(&self.driver).map(drop),
            _ => Ok(()),
        };
        // The threads first: a statement that waits for them returns, and lets go of the session.
        let stopped = self.driver.shut_down();
        let closed = lock(&self.session).close_sinks();
        saved.and(stopped).and(closed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.0.shut_down();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Locks a mutex. One that a panic has left is as good as any: what it guards is changed in single moves.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
