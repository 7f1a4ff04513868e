//! What makes things flow: the sources that are being read, and the pump that moves their rows and the clock.
//!
//! The pump is one thread an engine. Each round it takes what every reader has ready, in turn, adds all of it as one
//! step, and waits when too much is on its way. When no rows come it moves a wall clock on. A failure of the runtime
//! in the pump stops the engine; a failure of a source ends that source and is kept for whoever asks.
//!
//! Under an event clock the order of reading is part of the answer where rows have no times of their own. So what is bounded and
//! has no watermark is read first, to its end, and is one step. Of the readings that have one the pump prefers those that are
//! behind, which engine time waits for; the rows of the others would only wait in the dataflow.
//!
//! Locks are taken in this order: session, sources, timeline.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::clock::{Clock, Timeline};
use super::lock;
use super::meter::Meter;
use super::moment::Moment;
use super::reader::{Reader, Taken};
use super::runtime::{ArrangementInfo, DataflowId, Rows, Runtime};
use super::table::Table;
use super::watermark::{Follower, Readings, Watermarks};
use crate::connector::{self, Position, Skipped, Source};
use crate::error::{Error, Result};
use crate::plan::RelationId;

/// How often the state is counted for those who watch it.
const COUNT_EVERY: Duration = Duration::from_millis(250);

/// How many messages of skipped input are kept.
const SKIPS_KEPT: usize = 5;

/// What an engine that was shut down says of itself.
const SHUT_DOWN: &str = "it was shut down";

/// See the module.
pub(super) struct Driver {
    timeline: Timeline,
    sources: Mutex<Sources>,
    /// Notified when a source ends and when the engine stops.
    changed: Condvar,
    pub counters: Counters,
    pump: Mutex<Option<JoinHandle<()>>>,
    pump_thread: std::sync::OnceLock<Thread>,
    /// Times each step, if somebody wants to know.
    meter: Option<Meter>,
}

/// Counts since the engine was started.
#[derive(Default)]
pub(super) struct Counters {
    pub rows_in: AtomicU64,
    pub rows_out: Arc<AtomicU64>,
    pub skipped: Arc<Skips>,
    pub jobs: AtomicU64,
    /// As of when they were last counted.
    pub state_rows: AtomicU64,
    pub state_bytes: AtomicU64,
    /// Whether somebody would like them counted again.
    wanted: AtomicBool,
}

/// Input that could not be decoded and was skipped.
#[derive(Default)]
pub(super) struct Skips {
    rows: AtomicU64,
    first: Mutex<Vec<String>>,
}

/// Where the sources of dataflows were left, or are to be gone on with.
pub(super) type Positions = HashMap<(DataflowId, RelationId), Position>;

/// How the sources stand.
pub(super) struct Standing {
    /// Of every source that is being read or has been: exactly what has been fed of it to its dataflow is before it.
    pub positions: Positions,
    /// Of those that engine time follows, by what.
    pub followers: Readings,
    /// Sources are being read that are one step to their ends.
    pub are_halfway: bool,
}

#[derive(Default)]
struct Sources {
    readers: Vec<Reader>,
    /// Where those readers ended that have, as long as their dataflows are there.
    ended: Positions,
    failures: Vec<Failure>,
    /// All relations that were ever read.
    known: HashSet<RelationId>,
    /// Nothing is to be fed for now.
    frozen: bool,
    /// Why the engine has stopped, once it has.
    stopped: Option<String>,
}

struct Failure {
    dataflow: DataflowId,
    source: RelationId,
    error: Error,
}

/// Which sources to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Bounded,
    All,
    Of(DataflowId),
}

/// Whether a reader is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Now,
    /// It is ahead of others that engine time waits for.
    IfOthersHaveNothing,
    Later,
}

enum Round {
    Fed,
    Nothing,
    Stopped,
}

impl Driver {
    /// Starts the pump.
    pub fn start(runtime: Runtime, clock: Option<Clock>, tick: Option<Duration>, meter: Option<Meter>) -> Result<Arc<Self>> {
        let driver = Arc::new(Driver {
            timeline: Timeline::new(runtime, clock, tick)?,
            sources: Mutex::default(),
            changed: Condvar::new(),
            counters: Counters::default(),
            pump: Mutex::new(None),
            pump_thread: std::sync::OnceLock::new(),
            meter,
        });
        let pumped = driver.clone();
        let pump = thread::Builder::new()
            .name("weir-pump".into())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| pumped.pump()))
                    .unwrap_or_else(|_| Err(Error::Stopped("the thread that feeds the workers failed".into())));
                if let Err(error) = ended {
                    pumped.stop(match error {
                        Error::Stopped(why) => why,
                        other => other.to_string(),
                    });
                }
            })
            .map_err(|error| Error::Io(format!("cannot start a thread: {error}")))?;
        driver.pump_thread.get_or_init(|| pump.thread().clone());
        *lock(&driver.pump) = Some(pump);
        Ok(driver)
    }

    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    pub fn runtime(&self) -> &Runtime {
        self.timeline.runtime()
    }

    /// An error if the engine has stopped.
    pub fn check(&self) -> Result<()> {
        stopped(&lock(&self.sources))
    }

    /// Whether the engine was shut down, rather than stopped by a failure.
    pub fn is_shut_down(&self) -> bool {
        lock(&self.sources).stopped.as_deref() == Some(SHUT_DOWN)
    }

    /// Does something at the end of which there may be more to read, with an event clock standing still and nothing being
    /// read under it meanwhile: what comes first would otherwise have time to itself.
    pub fn holding<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.timeline.change_watermarks(Watermarks::hold)?;
        let acted = act();
        self.timeline.change_watermarks(Watermarks::release)?;
        if let Some(pump) = self.pump_thread.get() {
            pump.unpark();
        }
        acted
    }

    /// Starts to read sources for a dataflow, which engine time follows if they `lead`; each from its position, or else from its
    /// beginning. One that cannot be opened is a failure of it, for whoever asks.
    pub fn read(&self, dataflow: DataflowId, lead: bool, tables: impl IntoIterator<Item = Arc<Table>>, from: &Positions) -> Result<()> {
        let pump = self.pump_thread.get().ok_or_else(|| Error::Stopped("it has not started".into()))?;
        for table in tables {
            let from = from.get(&(dataflow, table.id));
            match self
                .open(&table, from)
                .and_then(|source| Reader::start(dataflow, table.clone(), source, pump.clone(), self.counters.skipped.clone()))
            {
                Ok(mut reader) => {
                    let mut sources = lock(&self.sources);
                    if let Some(event) = &table.event_time {
                        reader.follower = Some(self.timeline.change_watermarks(|marks| {
                            let follower = marks.new_reading();
                            marks.follow(follower, lead, &table.name, event.idle_timeout, Instant::now());
                            if table.repeats {
                                marks.repeats(follower);
                            }
                            follower
                        })?);
                    }
                    sources.known.insert(table.id);
                    sources.readers.push(reader);
                }
                Err(error) => {
                    let mut sources = lock(&self.sources);
                    sources.ended.extend(from.map(|from| ((dataflow, table.id), from.clone())));
                    sources.failures.push(Failure { dataflow, source: table.id, error });
                }
            }
        }
        pump.unpark();
        Ok(())
    }

    /// Ends a dataflow, and the reading for it and for what was only kept for it.
    pub fn uninstall(&self, dataflow: DataflowId) -> Result<()> {
        // Under the lock, so that the pump does not feed a dataflow that is gone.
        let mut sources = lock(&self.sources);
        let gone = self.timeline.between(|runtime| runtime.uninstall(dataflow))?;
        let (stopping, staying): (Vec<Reader>, Vec<Reader>) = sources.readers.drain(..).partition(|reader| gone.contains(&reader.dataflow));
        sources.readers = staying;
        sources.ended.retain(|(dataflow, _), _| !gone.contains(dataflow));
        sources.failures.retain(|failure| !gone.contains(&failure.dataflow));
        self.leave(stopping.iter())?;
        for reader in stopping {
            // It ends by itself, within one read.
            drop(reader.stop());
        }
        Ok(())
    }

    /// Does something between two rounds of the pump, and tells it how the sources stand.
    pub fn between_rounds<T>(&self, act: impl FnOnce(&Standing) -> T) -> T {
        let sources = lock(&self.sources);
        let place = |reader: &Reader| (reader.dataflow, reader.table.id);
        act(&Standing {
            positions: sources.positions(),
            followers: sources.readers.iter().filter_map(|reader| Some((reader.follower?, place(reader)))).collect(),
            are_halfway: self.timeline.clock() == Clock::Event && sources.readers.iter().any(Reader::comes_first),
        })
    }

    /// Keeps everything as it is, time included, or lets it go on: what an earlier run has left is being built.
    pub fn freeze(&self, frozen: bool) {
        lock(&self.sources).frozen = frozen;
        self.timeline.freeze(frozen);
        self.pump_thread.get().into_iter().for_each(Thread::unpark);
    }

    /// Whether such a source is being read.
    pub fn is_reading(&self, which: Which) -> bool {
        lock(&self.sources).readers.iter().any(|reader| which.has(reader))
    }

    /// Whether a source that does not end is being read.
    pub fn is_unbounded(&self) -> bool {
        self.unbounded_source().is_some()
    }

    /// A source that is being read and does not end.
    pub fn unbounded_source(&self) -> Option<String> {
        lock(&self.sources).readers.iter().find(|reader| !reader.bounded).map(|reader| reader.table.name.clone())
    }

    /// Whether a relation is being read, for any dataflow.
    pub fn is_read(&self, relation: RelationId) -> bool {
        lock(&self.sources).readers.iter().any(|reader| reader.table.id == relation)
    }

    /// The relations that are being read or have been, for any dataflow.
    pub fn were_read(&self) -> Vec<RelationId> {
        lock(&self.sources).known.iter().copied().collect()
    }

    /// How many sources are being read.
    pub fn reading(&self) -> usize {
        lock(&self.sources).readers.len()
    }

    /// Waits until such sources have ended and their rows are in; an error if the engine stops first.
    pub fn wait(&self, which: Which) -> Result<()> {
        let mut sources = lock(&self.sources);
        loop {
            stopped(&sources)?;
            if !sources.readers.iter().any(|reader| which.has(reader)) {
                return Ok(());
            }
            sources = self.changed.wait(sources).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first failure of a source, of these relations or of any.
    pub fn failure(&self, of: Option<&[RelationId]>) -> Result<()> {
        let sources = lock(&self.sources);
        let failure = sources.failures.iter().find(|failure| of.is_none_or(|ids| ids.contains(&failure.source)));
        failure.map_or(Ok(()), |failure| Err(failure.error.clone()))
    }

    /// Stops reading, lets the workers finish what they have, counts the state a last time and ends the workers. The
    /// second time it does nothing.
    pub fn shut_down(&self) -> Result<()> {
        let Some(pump) = lock(&self.pump).take() else { return Ok(()) };
        let was_well = self.stop(SHUT_DOWN.into());
        pump.thread().unpark();
        // The pump reports its own failures through `stop`.
        let _ = pump.join();
        let readers: Vec<JoinHandle<()>> = {
            let mut sources = lock(&self.sources);
            sources.ended = sources.positions();
            sources.readers.drain(..).map(Reader::stop).collect()
        };
        for reader in readers {
            let _ = reader.join();
        }
        let settled = if was_well { self.timeline.settle().and_then(|()| self.count_state()) } else { Ok(()) };
        settled.and(self.runtime().shutdown())
    }

    /// Marks the engine as stopped and tells whoever waits. Returns whether it was not already.
    fn stop(&self, why: String) -> bool {
        let mut sources = lock(&self.sources);
        let was_well = sources.stopped.is_none();
        sources.stopped.get_or_insert(why);
        self.changed.notify_all();
        was_well
    }

    /// Counts the rows and bytes of all arrangements. Waits.
    pub fn count_state(&self) -> Result<()> {
        self.counters.wanted.store(false, Ordering::Relaxed);
        let arrangements = self.timeline.between(Runtime::arrangements)?;
        let sum = |of: fn(&ArrangementInfo) -> i64| arrangements.iter().map(of).sum::<i64>().unsigned_abs();
        self.counters.state_rows.store(sum(|arrangement| arrangement.rows), Ordering::Relaxed);
        self.counters.state_bytes.store(sum(|arrangement| arrangement.bytes), Ordering::Relaxed);
        Ok(())
    }

    fn pump(&self) -> Result<()> {
        let mut counted = Instant::now();
        loop {
            if self.counters.wanted.load(Ordering::Relaxed) && counted.elapsed() >= COUNT_EVERY {
                self.count_state()?;
                counted = Instant::now();
            }
            match self.round()? {
                Round::Stopped => return Ok(()),
                Round::Fed => self.timeline.relieve()?,
                Round::Nothing => {
                    self.timeline.idle()?;
                    thread::park_timeout(self.timeline.patience());
                }
            }
        }
    }

    /// Adds what all readers have ready as one step.
    fn round(&self) -> Result<Round> {
        let mut sources = lock(&self.sources);
        if sources.stopped.is_some() {
            return Ok(Round::Stopped);
        }
        if sources.frozen {
            return Ok(Round::Nothing);
        }
        let mut taken = self.take(&mut sources)?;
        let reached: Vec<Option<Position>> = taken.iter_mut().map(|taken| taken.position.take()).collect();
        let rows = taken.iter().map(Taken::len).sum::<usize>() as u64;
        let ends: Vec<Option<Result<()>>> = taken.iter().map(|taken| taken.end.clone()).collect();
        if rows > 0 {
            self.counters.rows_in.fetch_add(rows, Ordering::Relaxed);
            self.metered(rows, || self.timeline.step(rows, |moment| self.feed(moment, &sources, taken)))?;
        }
        for (reader, reached) in sources.readers.iter_mut().zip(reached) {
            if let Some(reached) = reached {
                reader.position = reached;
            }
        }
        let ended = ends.iter().any(Option::is_some);
        if ended {
            self.metered(0, || self.retire(&mut sources, ends))?;
        }
        Ok(if rows > 0 || ended { Round::Fed } else { Round::Nothing })
    }

    /// Does something of which so many rows come; if there is a meter, to the end and timed.
    fn metered(&self, rows: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(meter) = &self.meter else { return work() };
        meter.time(rows, || work().and_then(|()| self.timeline.settle()))?;
        if meter.is_to_look() {
            self.count_state()?;
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            meter.look(self.timeline.present(), count(&self.counters.state_rows), count(&self.counters.state_bytes));
        }
        Ok(())
    }

    /// What a reader has ready; a meter waits for a whole tick of it.
    fn take_from(&self, reader: &mut Reader) -> Taken {
        match &self.meter {
            None => reader.take(),
            Some(meter) => reader.take_tick(meter.rows_a_tick()),
        }
    }

    fn open(&self, table: &Table, from: Option<&Position>) -> Result<Box<dyn Source>> {
        let source = open(table, from)?;
        Ok(match &self.meter {
            None => source,
            Some(meter) => meter.around(source),
        })
    }

    /// What the readers have ready whose turn it is.
    fn take(&self, sources: &mut Sources) -> Result<Vec<Taken>> {
        let readers = &mut sources.readers;
        let mut turns = self.turns(readers);
        let mut taken: Vec<Taken> = readers
            .iter_mut()
            .zip(&turns)
            .map(|(reader, turn)| if *turn == Turn::Now { self.take_from(reader) } else { Taken::default() })
            .collect();
        if taken.iter().all(Taken::is_nothing) {
            for ((reader, taken), turn) in
                readers.iter_mut().zip(&mut taken).zip(&mut turns).filter(|(_, turn)| **turn == Turn::IfOthersHaveNothing)
            {
                (*taken, *turn) = (self.take_from(reader), Turn::Now);
            }
        }
        let is_heard = |(taken, turn): (&Taken, &Turn)| *turn != Turn::Now || !taken.is_nothing();
        let heard = readers.iter().zip(taken.iter().zip(&turns)).filter(|(_, asked)| is_heard(*asked));
        let heard: Vec<Follower> = heard.filter_map(|(reader, _)| reader.follower).collect();
        if !heard.is_empty() {
            let (present, now) = (self.timeline.present(), Instant::now());
            self.timeline.change_watermarks(|marks| heard.into_iter().for_each(|follower| marks.is_heard(follower, present, now)))?;
        }
        Ok(taken)
    }

    /// Whose turn it is to be read.
    fn turns(&self, readers: &[Reader]) -> Vec<Turn> {
        if self.timeline.clock() != Clock::Event {
            return vec![Turn::Now; readers.len()];
        }
        let is_first = readers.iter().any(Reader::comes_first);
        self.timeline.watermarks(|marks| {
            let leading = |reader: &Reader| reader.follower.filter(|follower| marks.leads(*follower));
            let least = readers.iter().filter_map(leading).map(|follower| marks.at(follower)).min();
            let turn = |reader: &Reader| match leading(reader) {
                _ if marks.is_held() => Turn::Later,
                _ if is_first => {
                    if reader.comes_first() {
                        Turn::Now
                    } else {
                        Turn::Later
                    }
                }
                Some(follower) if Some(marks.at(follower)) != least => Turn::IfOthersHaveNothing,
                Some(_) | None => Turn::Now,
            };
            readers.iter().map(turn).collect()
        })
    }

    fn feed(&self, moment: &mut Moment<'_>, sources: &Sources, taken: Vec<Taken>) -> Result<()> {
        for (reader, taken) in sources.readers.iter().zip(taken).filter(|(_, taken)| taken.len() > 0) {
            for rows in reader.complete(taken, moment.now())? {
                match moment.feed(reader.dataflow, &reader.table, reader.follower, rows)? {
                    untimed if untimed.is_empty() => {}
                    untimed if reader.table.skips_errors() => {
                        self.counters.skipped.add(0, &Skipped { rows: untimed.len() as u64, first: untimed });
                    }
                    untimed => drop(moment.feed(reader.dataflow, &reader.table, None, Rows::Errors(untimed))?),
                }
            }
        }
        if moment.is_event() && sources.readers.iter().any(Reader::comes_first) {
            moment.leave_open();
        }
        Ok(())
    }

    /// Engine time follows these readers no longer.
    fn leave<'a>(&self, readers: impl Iterator<Item = &'a Reader>) -> Result<()> {
        let followers: Vec<Follower> = readers.filter_map(|reader| reader.follower).collect();
        self.timeline.change_watermarks(|marks| followers.into_iter().for_each(|follower| marks.leave(follower)))
    }

    /// Lets go of the readers that have ended.
    fn retire(&self, sources: &mut Sources, ends: Vec<Option<Result<()>>>) -> Result<()> {
        let ended = sources.readers.iter().zip(&ends).filter(|(_, end)| end.is_some());
        let was_first = sources.readers.iter().any(Reader::comes_first);
        self.leave(ended.map(|(reader, _)| reader))?;
        let mut readers = Vec::with_capacity(sources.readers.len());
        for (reader, end) in sources.readers.drain(..).zip(ends) {
            let Some(ended) = end else {
                readers.push(reader);
                continue;
            };
            let (dataflow, source) = (reader.dataflow, reader.table.id);
            sources.ended.insert((dataflow, source), reader.position);
            sources.failures.extend(ended.err().map(|error| Failure { dataflow, source, error }));
        }
        sources.readers = readers;
        if was_first && !sources.readers.iter().any(Reader::comes_first) {
            self.timeline.seal()?;
        }
        self.changed.notify_all();
        Ok(())
    }
}

impl Sources {
    fn positions(&self) -> Positions {
        let reading = self.readers.iter().map(|reader| ((reader.dataflow, reader.table.id), reader.position.clone()));
        self.ended.clone().into_iter().chain(reading).collect()
    }
}

impl Counters {
    /// Asks the pump to count the state again, soon.
    pub fn want_state(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }
}

impl Skips {
    /// Takes note of what a source has skipped since it had skipped `before` rows.
    pub fn add(&self, before: u64, skipped: &Skipped) {
        self.rows.fetch_add(skipped.rows.saturating_sub(before), Ordering::Relaxed);
        let mut first = lock(&self.first);
        let room = SKIPS_KEPT.saturating_sub(first.len());
        let new = usize::try_from(before).unwrap_or(usize::MAX);
        first.extend(skipped.first.iter().skip(new).take(room).cloned());
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// What was wrong with the first of them.
    pub fn first(&self) -> Vec<String> {
        lock(&self.first).clone()
    }
}

impl Which {
    fn has(self, reader: &Reader) -> bool {
        match self {
            Which::Bounded => reader.bounded,
            Which::All => true,
            Which::Of(dataflow) => reader.dataflow == dataflow,
        }
    }
}

fn stopped(sources: &Sources) -> Result<()> {
    sources.stopped.clone().map_or(Ok(()), |why| Err(Error::Stopped(why)))
}

fn open(table: &Table, from: Option<&Position>) -> Result<Box<dyn Source>> {
    let spec = table.spec().ok_or_else(|| Error::invalid(format!("table '{}' is in memory: there is nothing to open", table.name)))?;
    connector::open_source(spec, from)
}
