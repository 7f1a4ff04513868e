//! How an engine is set up.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::catalog::Catalog;
use super::driver::Driver;
use super::durable::{Checkpoints, Durable, Interval};
use super::meter::Meter;
use super::runtime::Runtime;
use super::session::Session;
use super::{Clock, Engine, Handle, Resumed, Shared};
use crate::checkpoint::Store;
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
    state: Option<PathBuf>,
    checkpoints: Option<Interval>,
    discards_changed: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            workers: 1,
            clock: None,
            tick: None,
            base: PathBuf::from("."),
            output: Box::new(std::io::stdout()),
            meter: None,
            state: None,
            checkpoints: None,
            discards_changed: false,
        }
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

    /// Keeps the state in a folder, which is made if it is not there, and begins with what an earlier engine has left in it. That
    /// is its newest checkpoint: they are written by CHECKPOINT, [`Engine::checkpoint`] and [`Engine::shutdown`], and at an
    /// interval if one is [said](Builder::checkpoint_every).
    pub fn state(self, folder: impl Into<PathBuf>) -> Self {
        Builder { state: Some(folder.into()), ..self }
    }

    /// How often a checkpoint is written while things happen. `failed` is told of one that cannot be, on a thread of the engine;
    /// the next is tried all the same.
    pub fn checkpoint_every(self, interval: Duration, failed: impl FnMut(&Error) + Send + 'static) -> Self {
        Builder { checkpoints: Some(Interval { length: interval, failed: Box::new(failed) }), ..self }
    }

    /// What [`Engine::run_again`] finds defined otherwise than it was starts anew, with all that reads it.
    pub fn discard_changed(self, discards: bool) -> Self {
        Builder { discards_changed: discards, ..self }
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// With no workers, with a tick of zero, or if threads cannot be started; if the folder for the state cannot be used, belongs to
    /// another process or has no checkpoint that is whole, or if what it has cannot be built again: a file that was read or
    /// written is gone, say.
    pub fn build(self) -> Result<Engine> {
        if self.workers == 0 {
            return Err(Error::invalid("an engine has at least one worker, not 0"));
        }
        if self.tick.is_some_and(|tick| tick.is_zero()) {
            return Err(Error::invalid("the tick is a positive duration, such as 100 ms"));
        }
        if self.checkpoints.as_ref().is_some_and(|interval| interval.length.is_zero()) {
            return Err(Error::invalid("checkpoints are written at an interval that is a positive duration, such as 10 s"));
        }
        if self.checkpoints.is_some() && self.state.is_none() {
            return Err(Error::invalid("an interval for checkpoints needs a folder for the state to write them to"));
        }
        let opened = self.state.as_deref().map(Store::open).transpose()?;
        let (store, checkpoint, passed_over) = opened.map_or((None, None, vec![]), |(store, found, over)| (Some(store), found, over));
        let durable = store.map(|store| Arc::new(Durable::new(store)));
        let driver = Driver::start(Runtime::start(self.workers)?, self.clock, self.tick, self.meter)?;
        let mut session = Session {
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
            durable: durable.clone(),
            restoring: None,
            discards_changed: self.discards_changed,
            undone: Vec::new(),
            discarding: None,
            is_gated: false,
        };
        let restored = checkpoint.map(|checkpoint| {
            let number = checkpoint.number;
            session.restore(checkpoint, self.workers).map(|()| number)
        });
        let restored = match restored.transpose() {
            Ok(restored) => restored,
            Err(error) => {
                // The error that matters is why there is nothing to go on with.
                let _ = driver.shut_down();
                return Err(error);
            }
        };
        let checkpoints = match (&durable, self.checkpoints) {
            (Some(durable), Some(interval)) => Some(Checkpoints::start(durable.clone(), driver.clone(), interval)?),
            _ => None,
        };
        let resumed = Resumed { checkpoint: restored, passed_over };
        let shared = Shared { session: Mutex::new(session), driver, durable, checkpoints: Mutex::new(checkpoints), resumed };
        Ok(Engine(Arc::new(Handle(Arc::new(shared)))))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Builder { workers, clock, tick, base, state, .. } = self;
        f.debug_struct("Builder")
            .field("workers", workers)
            .field("clock", clock)
            .field("tick", tick)
            .field("base", base)
            .field("state", state)
            .finish_non_exhaustive()
    }
}
