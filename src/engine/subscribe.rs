//! Subscriptions: the changes of a view as an iterator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;

use super::clock::Clock;
use super::runtime::Export;
use super::session::{Session, Stay};
use super::{Shared, plans};
use crate::error::{Error, Result};
use crate::sql::planner::Purpose;
use crate::sql::statement::Query;

/// An iterator over the changes of a view, one step at a time; blocks for the next.
///
/// The first update is what was in the view. It ends when the engine is shut down, with an error if the engine
/// stopped by itself. Dropping it ends its part of the dataflow. It does not keep the engine running.
pub struct Subscription {
    updates: Receiver<Result<Update>>,
    closed: Arc<AtomicBool>,
    engine: Weak<Shared>,
    ended: bool,
}

/// What changed in one step.
#[derive(Debug, Clone)]
pub struct Update {
    /// The instant, milliseconds since the epoch.
    pub at: i64,
    /// The rows that changed.
    pub rows: RecordBatch,
    /// One a row: how many more (or fewer) of it there are.
    pub diffs: Vec<i64>,
}

impl Session {
    /// SUBSCRIBE.
    pub fn subscribe(&mut self, query: &Query, engine: Weak<Shared>) -> Result<Subscription> {
        self.check_no_transaction("SUBSCRIBE")?;
        let (planned, reads) = self.plan(query, Purpose::Maintain)?;
        let (to, updates) = channel();
        let closed = Arc::new(AtomicBool::new(false));
        let export = Export::Subscribe { name: "subscription".into(), plan: plans::shown(&planned), to };
        // What is being read has come. Under an event clock the subscription is there before anything that begins with it.
        self.catch_up()?;
        let driver = self.driver.clone();
        let dataflow = driver.holding(|| {
            self.flow()?;
            if driver.timeline().clock() != Clock::Event {
                self.catch_up()?;
            }
            self.install(vec![export], Stay::Subscribed)
        })?;
        let member = self.catalog.add_subscription(reads, closed.clone());
        self.catalog.installed(dataflow, [member]);
        Ok(Subscription { updates, closed, engine, ended: false })
    }
}

impl Subscription {
    /// The next update, if one comes within that time; None if none does.
    ///
    /// # Errors
    ///
    /// Those of the updates; [`Error::Stopped`] once there will be no more.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<Update>> {
        match self.updates.recv_timeout(patience) {
            Ok(update) => update.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                self.ended = true;
                Err(self.failure().unwrap_or_else(|| Error::Stopped("it was shut down".into())))
            }
        }
    }

    /// Why the updates have ended, unless they were to.
    fn failure(&self) -> Option<Error> {
        let engine = self.engine.upgrade()?;
        if engine.driver.is_shut_down() {
            return None;
        }
        engine.driver.check().and_then(|()| engine.driver.runtime().settle()).err()
    }
}

impl Iterator for Subscription {
    type Item = Result<Update>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.updates.recv() {
            Ok(update) => Some(update),
            Err(_) => {
                self.ended = true;
                self.failure().map(Err)
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // At once if no statement is running, else before the next one.
        if let Some(engine) = self.engine.upgrade()
            && let Ok(mut session) = engine.session.try_lock()
        {
            let _ = session.reap();
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("ended", &self.ended).finish_non_exhaustive()
    }
}
