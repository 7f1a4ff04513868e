//! Stopping: by Ctrl-C, or because nobody reads our output any more.
//!
//! A [`Stop`] is a flag that anything may raise and that everything that waits looks at. Work that cannot look,
//! because it waits inside the engine, runs under [`Stop::supervise`], which shuts the engine down around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::Exit;
use super::progress::note;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// How often those who wait look at the flag.
pub const POLL: Duration = Duration::from_millis(50);

/// How long an engine may take to shut down before the process ends regardless.
const GRACE: Duration = Duration::from_secs(5);

const RUNNING: u8 = 0;
const INTERRUPTED: u8 = 1;
const UNREAD: u8 = 2;

/// Whether to stop, and why. A handle: clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// A flag that Ctrl-C raises. A second Ctrl-C, with the flag still up, ends the process.
    pub fn on_interrupt() -> Self {
        let stop = Stop::default();
        let raised = stop.clone();
        let installed = ctrlc::set_handler(move || {
            if raised.0.swap(INTERRUPTED, Ordering::Relaxed) == INTERRUPTED {
                std::process::exit(Exit::Interrupted.code().into());
            }
        });
        if let Err(error) = installed {
            note(format_args!("warning: Ctrl-C will not stop cleanly: {error}"));
        }
        stop
    }

    /// Raises the flag because standard output has no reader left. An interrupt that came earlier stays the reason.
    pub fn unread(&self) {
        let _ = self.0.compare_exchange(RUNNING, UNREAD, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How the command is to end, once the flag is up.
    pub fn reason(&self) -> Option<Exit> {
        match self.0.load(Ordering::Relaxed) {
            RUNNING => None,
            UNREAD => Some(Exit::Ok),
            _ => Some(Exit::Interrupted),
        }
    }

    pub fn is_raised(&self) -> bool {
        self.reason().is_some()
    }

    /// Takes an interrupt back: it was meant for one statement, not for the command. A lost reader stays lost.
    pub fn clear_interrupt(&self) {
        let _ = self.0.compare_exchange(INTERRUPTED, RUNNING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Does `work` on a thread of its own and waits for it; None where the flag was raised first.
    pub fn unless_raised<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<Option<T>> {
        let (done, result) = mpsc::channel();
        spawn("work", move || {
            // The receiver is gone only if the wait was given up.
            let _ = done.send(work());
        })?;
        loop {
            match result.recv_timeout(POLL) {
                Ok(outcome) => return Ok(Some(outcome)),
                Err(RecvTimeoutError::Timeout) if self.is_raised() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                // The thread has gone without a result: it has panicked, and has said where.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Stopped("the command failed inside; this is a bug in Weir".into()));
                }
            }
        }
    }

    /// Does `work` on an engine, then shuts the engine down. Where the flag is raised first, the shutdown ends
    /// whatever the work waits for, and the flag's reason is the result.
    pub fn supervise(&self, engine: &Engine, work: impl FnOnce() -> Result<Exit> + Send + 'static) -> Result<Exit> {
        let outcome = self.unless_raised(work);
        let closed = self.shutdown(engine);
        match (self.reason(), outcome?) {
            (Some(reason), _) => {
                if let Err(error) = closed {
                    note(format_args!("warning: {error}"));
                }
                Ok(reason)
            }
            (None, outcome) => {
                let exit = outcome.unwrap_or(Ok(Exit::Ok))?;
                closed.map(|()| exit)
            }
        }
    }

    /// Shuts the engine down. It may take its time, but not much of it once the flag is up.
    pub fn shutdown(&self, engine: &Engine) -> Result<()> {
        let (done, result) = mpsc::channel();
        let engine = engine.clone();
        spawn("shutdown", move || {
            let _ = done.send(engine.shutdown());
        })?;
        let mut patience = GRACE;
        loop {
            match result.recv_timeout(POLL) {
                Ok(closed) => return closed,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Stopped("it failed while shutting down; this is a bug in Weir".into()));
                }
                Err(RecvTimeoutError::Timeout) if !self.is_raised() => {}
                Err(RecvTimeoutError::Timeout) if patience.is_zero() => {
                    return Err(Error::Stopped(format!("it did not shut down within {} s, and sinks may be incomplete", GRACE.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => patience = patience.saturating_sub(POLL),
            }
        }
    }
}

/// A named thread.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(format!("weir-{name}")).spawn(body).map_err(|error| Error::Io(format!("cannot start a thread: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_reader_ends_the_command_with_success() {
        let stop = Stop::default();
        assert_eq!(stop.reason(), None);
        stop.clone().unread();
        assert_eq!(stop.reason(), Some(Exit::Ok));
    }

    #[test]
    fn an_interrupt_stays_the_reason_when_the_reader_goes_too() {
        let stop = Stop(Arc::new(AtomicU8::new(INTERRUPTED)));
        stop.unread();
        assert_eq!(stop.reason(), Some(Exit::Interrupted));
    }

    #[test]
    fn work_that_never_ends_is_left_behind_when_the_flag_goes_up() {
        let stop = Stop::default();
        let raise = stop.clone();
        let outcome = stop.unless_raised(move || {
            raise.unread();
            loop {
                thread::park();
            }
        });
        assert_eq!(outcome, Ok(None::<()>));
    }

    #[test]
    fn work_that_ends_gives_its_result() {
        assert_eq!(Stop::default().unless_raised(|| 7), Ok(Some(7)));
    }

    #[test]
    fn an_interrupt_can_be_taken_back_and_a_lost_reader_cannot() {
        let interrupted = Stop(Arc::new(AtomicU8::new(INTERRUPTED)));
        interrupted.clear_interrupt();
        assert_eq!(interrupted.reason(), None);
        let unread = Stop(Arc::new(AtomicU8::new(UNREAD)));
        unread.clear_interrupt();
        assert_eq!(unread.reason(), Some(Exit::Ok));
    }
}
