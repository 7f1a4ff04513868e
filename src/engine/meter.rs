//! Running a tick at a time, for measurements.
//!
//! A metered engine takes so many rows of its sources at once, works them off to the end, and only then reads on. So the time
//! of a tick is that of the engine alone, from the rows as Arrow columns to the last change in the sinks: while it is taken
//! no source makes or decodes anything, on whichever core, and what the sources take is on no clock.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use crate::connector::{Position, Read, Skipped, Source};
use crate::error::Result;

/// Ticks that are taken and timed. A handle: clones share what they have seen.
#[derive(Debug, Clone)]
pub struct Meter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Rows of each source in a tick, at least; a batch of a source is not cut.
    rows: usize,
    /// The state is looked at whenever so many rows more have come.
    look_every: u64,
    /// Held while a tick is timed, and by a source that reads.
    reading: Arc<Mutex<()>>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    ticks: Vec<Tick>,
    rows: u64,
    looks: Vec<Look>,
}

/// One tick. That of the end of the input, in which what waited for it happens, has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    pub rows: u64,
    pub took: Duration,
}

/// What was kept at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Rows that had come by then.
    pub rows: u64,
    /// Engine time, in milliseconds since the epoch.
    pub at: i64,
    pub state_rows: u64,
    pub state_bytes: u64,
}

impl Meter {
    /// Ticks of so many rows of each source, and a look at the state whenever `look_every` more have come.
    pub fn new(rows: usize, look_every: u64) -> Self {
        Meter(Arc::new(Shared { rows, look_every, reading: Arc::default(), seen: Mutex::default() }))
    }

    /// The ticks so far.
    pub fn ticks(&self) -> Vec<Tick> {
        lock(&self.0.seen).ticks.clone()
    }

    /// What was kept, in the order of time.
    pub fn looks(&self) -> Vec<Look> {
        lock(&self.0.seen).looks.clone()
    }

    pub(super) fn rows_a_tick(&self) -> usize {
        self.0.rows
    }

    /// A source that stands still while a tick is timed.
    pub(super) fn around(&self, source: Box<dyn Source>) -> Box<dyn Source> {
        Box::new(Halting { source, reading: self.0.reading.clone() })
    }

    /// Times a tick of so many rows: all that is done for them.
    pub(super) fn time<T>(&self, rows: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _halted = lock(&self.0.reading);
        let start = Instant::now();
        let done = work()?;
        let took = start.elapsed();
        let mut seen = lock(&self.0.seen);
        seen.ticks.push(Tick { rows, took });
        seen.rows += rows;
        Ok(done)
    }

    /// Whether enough rows have come since the last look.
    pub(super) fn is_to_look(&self) -> bool {
        let seen = lock(&self.0.seen);
        seen.rows - seen.looks.last().map_or(0, |look| look.rows) >= self.0.look_every
    }

    pub(super) fn look(&self, at: i64, state_rows: u64, state_bytes: u64) {
        let mut seen = lock(&self.0.seen);
        let rows = seen.rows;
        seen.looks.push(Look { rows, at, state_rows, state_bytes });
    }
}

struct Halting {
    source: Box<dyn Source>,
    reading: Arc<Mutex<()>>,
}

impl Source for Halting {
    fn read(&mut self) -> Result<Read> {
        let _reading = lock(&self.reading);
        self.source.read()
    }

    fn position(&self) -> Position {
        self.source.position()
    }

    fn is_bounded(&self) -> bool {
        self.source.is_bounded()
    }

    fn skipped(&self) -> Skipped {
        self.source.skipped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn ticks_have_the_rows_of_their_sources_and_looks_come_as_often_as_was_asked() {
        let meter = Meter::new(1_000, 20_000);
        let engine = Engine::builder().meter(meter.clone()).build().unwrap();
        engine
            .execute(
                "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'number-of-rows' = '50000',
                   'fields.i.min' = '0', 'fields.i.max' = '9');
                 CREATE TABLE counts (i BIGINT, n BIGINT, PRIMARY KEY (i) NOT ENFORCED) WITH ('connector' = 'blackhole');
                 INSERT INTO counts SELECT i, COUNT(*) FROM n GROUP BY i;",
            )
            .unwrap();
        engine.finish().unwrap();
        let (ticks, looks) = (meter.ticks(), meter.looks());
        assert_eq!(ticks.iter().map(|tick| tick.rows).sum::<u64>(), 50_000);
        assert!(ticks.iter().filter(|tick| tick.rows > 0).count() > 2, "a batch is a tick: {ticks:?}");
        assert_eq!(looks.len(), 2, "{looks:?}");
        assert!(looks.iter().all(|look| look.state_rows >= 10), "{looks:?}");
    }
}
