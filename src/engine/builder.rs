//! How an engine is set up.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::catalog::Catalog;
use super::driver::Driver;
use super::meter::Meter;
use super::runtime::Runtime;
use super::session::Session;
use super::{Clock, Engine, Handle, Shared};
use crate::error::{Error, Result};
use crate::sql::retention::Defaults;

/// How an engine is set up: see [`Engine::builder`].
pub struct Builder {
    workers: usize,
    clock: Option<Clock>,
    tick: Option<Duration>,
    base: PathBuf,
    output: Box<dyn Write + Send>,
    meter: Option<Meter>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { workers: 1, clock: None, tick: None, base: PathBuf::from("."), output: Box::new(std::io::stdout()), meter: None }
    }
}

impl Builder {
    /// How many worker threads (1).
    pub fn workers(self, workers: usize) -> Self {
        Builder { workers, ..self }
    }

    /// What engine time follows: unless it is said, the machine, or the watermarks of tables where one is declared before
    /// anything flows.
    pub fn clock(self, clock: Clock) -> Self {
        Builder { clock: Some(clock), ..self }
    }

    /// How often a wall clock moves when no rows come (100 ms); what the times of rows are rounded down to under an event
    /// clock (1 s).
    pub fn tick(self, tick: Duration) -> Self {
        Builder { tick: Some(tick), ..self }
    }

    /// Where relative paths in CREATE TABLE start (the current folder).
    pub fn base(self, folder: impl Into<PathBuf>) -> Self {
        Builder { base: folder.into(), ..self }
    }

    /// Where print sinks write (standard output).
    pub fn output(self, writer: Box<dyn Write + Send>) -> Self {
        Builder { output: writer, ..self }
    }

    /// Takes the rows of sources a tick at a time, and times each: for measurements.
    pub fn meter(self, meter: Meter) -> Self {
        Builder { meter: Some(meter), ..self }
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// With no workers, with a tick of zero, or if threads cannot be started.
    pub fn build(self) -> Result<Engine> {
        if self.workers == 0 {
            return Err(Error::invalid("an engine has at least one worker, not 0"));
        }
        if self.tick.is_some_and(|tick| tick.is_zero()) {
            return Err(Error::invalid("the tick is a positive duration, such as 100 ms"));
        }
        let driver = Driver::start(Runtime::start(self.workers)?, self.clock, self.tick, self.meter)?;
        let session = Session {
            catalog: Catalog::default(),
            driver: driver.clone(),
            transaction: None,
            base: self.base,
            output: Arc::new(Mutex::new(self.output)),
            default_clock: self.clock,
            default_tick: self.tick,
            defaults: Defaults::default(),
            alterations: 0,
            audit: None,
        };
        Ok(Engine(Arc::new(Handle(Arc::new(Shared { session: Mutex::new(session), driver })))))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Builder { workers, clock, tick, base, output: _, meter: _ } = self;
        f.debug_struct("Builder")
            .field("workers", workers)
            .field("clock", clock)
            .field("tick", tick)
            .field("base", base)
            .finish_non_exhaustive()
    }
}
