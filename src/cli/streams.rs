//! The subscriptions of a script: each is written by a thread of its own while the script goes on, to the script's end.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::output::Stream;
use super::stop::{POLL, spawn};
use crate::engine::Subscription;
use crate::error::{Error, Result};

/// Subscriptions that are being written.
#[derive(Default)]
pub struct Streams {
    ending: Arc<AtomicBool>,
    running: Vec<(JoinHandle<()>, mpsc::Receiver<Result<()>>)>,
}

impl Streams {
    /// Begins to write a subscription's changes.
    pub fn start<W: Write + Send + 'static>(&mut self, mut changes: Subscription, mut stream: Stream<W>) -> Result<()> {
        let ending = self.ending.clone();
        let (done, result) = mpsc::channel();
        let write = move || {
            // Nobody waits for the result of a script that was stopped.
            let _ = done.send(follow(&mut changes, &mut stream, || ending.load(Ordering::Relaxed)));
        };
        self.running.push((spawn("subscription", write)?, result));
        Ok(())
    }

    /// Writes what has been published and not yet written, and ends. Gives the first error that a subscription met.
    pub fn end(&mut self) -> Result<()> {
        self.ending.store(true, Ordering::Relaxed);
        let mut ended = Ok(());
        for (thread, result) in self.running.drain(..) {
            let _ = thread.join();
            ended = ended.and(result.recv().unwrap_or(Ok(())));
        }
        ended
    }
}

/// Writes a subscription's changes as they come, until it is to end and nothing more comes, or the engine stops.
pub fn follow<W: Write>(changes: &mut Subscription, stream: &mut Stream<W>, is_to_end: impl Fn() -> bool) -> Result<()> {
    loop {
        // Asked before the wait, so that what was published before the end is still seen.
        let last = is_to_end();
        match changes.next_within(POLL) {
            Ok(Some(update)) => stream.update(&update)?,
            Ok(None) if last => return Ok(()),
            Ok(None) => {}
            Err(Error::Stopped(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
