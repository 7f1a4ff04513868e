//! What an engine with a folder for its state does beside its work: it keeps a journal, writes checkpoints, and begins with
//! the newest one.
//!
//! A checkpoint is taken between two statements that change something and two rounds of the pump, once all that came before is
//! worked off and out of the sinks. What it takes then are references to batches that do not change, and copies of the little
//! else there is; they are written while everything goes on.
//!
//! What is not rows is the *journal*: the statements that defined what there is, in order, and when what they defined was built. A
//! restart runs them again, with the numbers that they had, so that the same dataflows come to be, each of which finds its state.
//!
//! Then the program is run again, since that is what whoever starts it does: see the module `rerun`.
//!
//! Locks are taken in this order: session, writing, gate, sources, timeline, journal, store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::catalog::{Catalog, Member};
use super::changelog::Log;
use super::driver::{Driver, Positions};
use super::gate::Keeper;
use super::lock;
use super::rerun::Left;
use super::runtime::{DataflowId, Snapshot, Time};
use super::session::Session;
use super::table::Storage;
use super::watermark::Marks;
use super::{Outcome, Shared};
use crate::checkpoint::{Checkpoint, Store, Summary, WorkerState, deal};
use crate::connector::Position;
use crate::dataflow::state::State;
use crate::error::{Error, Result};
use crate::plan::RelationId;
use crate::sql;
use crate::sql::retention::Defaults;
use crate::sql::statement::{Parsed, Statement};

/// The dataflow that the rows of changelogs are said to be of.
const CHANGELOGS: u64 = u64::MAX;

/// What is kept for checkpoints.
pub(super) struct Durable {
    store: Mutex<Store>,
    journal: Mutex<Journal>,
    /// Held while a statement changes something.
    gate: Mutex<()>,
    /// Held from when a checkpoint is taken until it is written: the newest on disk is the one that was taken last.
    writing: Mutex<()>,
}

/// What the statements have come to, and where it goes.
#[derive(Default)]
pub(super) struct Journal {
    entries: Vec<Entry>,
    /// Of the last checkpoint that was written.
    written: Option<Taken>,
    sinks: BTreeMap<String, Keeper>,
    changelogs: BTreeMap<String, Arc<Log>>,
    numbers: Numbers,
    /// What an earlier run of the program has left, while the program is run again.
    pub left: Left,
}

/// What there was when a checkpoint was taken: so many entries of the journal, the time, and so many steps. (Rows that come ahead
/// of an event clock are a step that moves no time.)
type Taken = (usize, Time, u64);

/// Something that happened to what is defined.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Entry {
    /// A statement that defines something, the numbers that came next before it, and what SET had said of memory.
    Defined { text: String, numbers: Numbers, under: Defaults },
    /// Something was dropped because the program says it no longer, or otherwise.
    Discarded { text: String, numbers: Numbers, what: Defined },
    /// Dataflows were built, by number, each for these members.
    Built { dataflows: Vec<(u64, Vec<Member>)> },
    /// A statement of a program that did something and is not to do it again.
    Done { text: String },
}

/// The numbers that come next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Numbers {
    pub relation: u64,
    pub dataflow: u64,
    /// How often ALTER VIEW has changed what is remembered.
    pub alterations: u64,
}

/// Something that a statement defines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Defined {
    Table(String),
    View(String),
    /// A job into this sink.
    Job(String),
}

/// What a checkpoint has of a session.
#[derive(Serialize, Deserialize)]
struct Saved {
    journal: Vec<Entry>,
    numbers: Numbers,
    run_out: Option<Time>,
    marks: Marks,
    /// By dataflow and relation.
    positions: Vec<(u64, u64, Position)>,
    /// By job.
    sinks: BTreeMap<String, Option<u64>>,
}

/// What an earlier run has left, while it is built again.
pub(super) struct Restoring {
    positions: Positions,
    sinks: BTreeMap<String, Option<u64>>,
}

impl Defined {
    /// What a statement defines.
    pub fn by(statement: &Statement) -> Vec<Self> {
        match statement {
            Statement::CreateTable(create) => vec![Defined::Table(create.name.clone())],
            Statement::CreateView(create) => vec![Defined::View(create.name.clone())],
            Statement::Insert(insert) => vec![Defined::Job(insert.table.clone())],
            Statement::StatementSet(inserts) => inserts.iter().map(|insert| Defined::Job(insert.table.clone())).collect(),
            _ => vec![],
        }
    }

    pub fn is_there(&self, catalog: &Catalog) -> bool {
        match self {
            Defined::Table(name) => catalog.find_table(name).is_some(),
            Defined::View(name) => catalog.find_view(name).is_some(),
            Defined::Job(sink) => catalog.jobs().any(|job| job.sink == *sink),
        }
    }
}

impl fmt::Display for Defined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defined::Table(name) => write!(f, "table '{name}'"),
            Defined::View(name) => write!(f, "view '{name}'"),
            Defined::Job(sink) => write!(f, "the job into '{sink}'"),
        }
    }
}

impl Entry {
    /// What it defines.
    pub fn defines(&self) -> Vec<Defined> {
        match self {
            Entry::Defined { text, .. } => parsed(text).map_or(vec![], |parsed| Defined::by(&parsed.statement)),
            Entry::Discarded { .. } | Entry::Built { .. } | Entry::Done { .. } => vec![],
        }
    }
}

/// The statement of a text that was one.
pub(super) fn parsed(text: &str) -> Result<Parsed> {
    let statement = sql::statements(text).next();
    statement.unwrap_or_else(|| Err(Error::invalid(format!("the journal has '{text}', which is no statement"))))
}

/// Whether a statement that was run has defined something; what else it may have done is done.
fn defines(statement: &Statement, outcome: &Outcome) -> bool {
    match statement {
        Statement::CreateTable(_) | Statement::CreateView(_) | Statement::AlterView { .. } | Statement::Drop { .. } => true,
        Statement::StatementSet(_) | Statement::Set { .. } | Statement::Reset(_) => true,
        Statement::Insert(_) => matches!(outcome, Outcome::Done(_)),
        _ => false,
    }
}

impl Restoring {
    /// Where a job's sink is gone on with; None where there is no sink any more.
    pub fn sink(&self, job: &str) -> Option<Option<u64>> {
        self.sinks.get(job).copied()
    }

    /// Where sources are gone on with.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }
}

impl Durable {
    pub fn new(store: Store) -> Self {
        Durable { store: Mutex::new(store), journal: Mutex::default(), gate: Mutex::new(()), writing: Mutex::new(()) }
    }

    /// Keeps checkpoints out as long as it is held.
    pub fn gate(&self) -> MutexGuard<'_, ()> {
        lock(&self.gate)
    }

    /// What the statements have come to.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// Writes a checkpoint of what there is; None where nothing has happened since the last one.
    pub fn checkpoint(&self, driver: &Driver) -> Result<Option<Summary>> {
        let _writing = lock(&self.writing);
        let Some((checkpoint, taken)) = self.take(driver)? else { return Ok(None) };
        let summary = lock(&self.store).write(checkpoint)?;
        lock(&self.journal).written = Some(taken);
        Ok(Some(summary))
    }

    /// Takes a checkpoint, to be written.
    fn take(&self, driver: &Driver) -> Result<Option<(Checkpoint, Taken)>> {
        let _gate = self.gate();
        driver.between_rounds(|sources| {
            let journal = lock(&self.journal);
            let present = (journal.entries.len(), driver.runtime().now(), driver.timeline().steps());
            if sources.are_halfway || journal.written == Some(present) {
                return Ok(None);
            }
            let (snapshot, marks) = driver.timeline().save(journal.dataflows(), &sources.followers)?;
            let Snapshot { now, run_out, workers, mut states } = snapshot;
            let sinks = journal.sinks.iter().map(|(job, keeper)| Ok((job.clone(), keeper.commit()?))).collect::<Result<_>>()?;
            for (number, (table, log)) in journal.changelogs.iter().enumerate() {
                let state = State { apart: log.saved()?, ..State::default() };
                states.push(WorkerState { worker: 0, dataflow: CHANGELOGS, number: number as u32, name: table.clone(), state });
            }
            let saved = Saved {
                journal: journal.entries.clone(),
                numbers: Numbers { dataflow: driver.runtime().next_dataflow(), ..journal.numbers },
                run_out,
                marks,
                positions: sources.positions.iter().map(|((dataflow, source), at)| (dataflow.0, source.0, at.clone())).collect(),
                sinks,
            };
            let taken = (journal.entries.len(), now, driver.timeline().steps());
            let session = serde_json::to_value(saved).map_err(|error| Error::invalid(format!("the journal cannot be written: {error}")))?;
            Ok(Some((Checkpoint { number: 0, now, workers, session, states }, taken)))
        })
    }
}

/// How often checkpoints are written, and who is told of one that cannot be.
pub(super) struct Interval {
    pub length: Duration,
    pub failed: Box<dyn FnMut(&Error) + Send>,
}

/// The thread that writes checkpoints at an interval.
pub(super) struct Checkpoints {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// Starts it. What goes wrong is told once, until it goes well or something else does.
    pub fn start(durable: Arc<Durable>, driver: Arc<Driver>, Interval { length: interval, mut failed }: Interval) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let write = move || {
            let mut told = None;
            let mut next = Instant::now() + interval;
            while !stopped.load(Ordering::Relaxed) {
                let left = next.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    thread::park_timeout(left);
                    continue;
                }
                // While the engine is not well it has nothing to write.
                if driver.check().is_ok() {
                    let error = durable.checkpoint(&driver).err();
                    // A disk that is full is so at another byte each time, and of another checkpoint.
                    let what = error.as_ref().map(|error| error.to_string().replace(|c: char| c.is_ascii_digit(), ""));
                    if what != told {
                        error.iter().for_each(&mut failed);
                        told = what;
                    }
                }
                next = Instant::now() + interval;
            }
        };
        let spawned = thread::Builder::new().name("weir-checkpoint".into()).spawn(write);
        let thread = spawned.map_err(|error| Error::Io(format!("cannot start a thread: {error}")))?;
        Ok(Checkpoints { stop, thread })
    }

    /// Ends it, once it has written what it writes.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // It has no panic of its own to tell of that the engine would not.
        let _ = self.thread.join();
    }
}

impl Journal {
    /// Takes note of what else a checkpoint has to look at.
    fn follow(&mut self, catalog: &Catalog, numbers: Numbers) {
        self.numbers = numbers;
        self.sinks = catalog.jobs().map(|job| (job.name.clone(), job.keeper.clone())).collect();
        let log = |storage: &Storage| match storage {
            Storage::Changelog { log, .. } => Some(Arc::clone(log)),
            Storage::Memory | Storage::Connector { .. } => None,
        };
        self.changelogs = catalog.tables().filter_map(|table| Some((table.name.clone(), log(&table.storage)?))).collect();
    }

    /// The dataflows that a restart builds.
    fn dataflows(&self) -> BTreeSet<u64> {
        let built = self.entries.iter().flat_map(|entry| match entry {
            Entry::Built { dataflows } => dataflows.iter().map(|(dataflow, _)| *dataflow).collect::<Vec<_>>(),
            // A table's, if it has one.
            Entry::Defined { numbers, .. } => vec![numbers.dataflow],
            Entry::Discarded { .. } | Entry::Done { .. } => vec![],
        });
        built.collect()
    }
}

impl Session {
    /// Runs a statement that changes something, with checkpoints kept out, and notes in the journal what is to be known of it;
    /// if it is a program's, that it is done.
    pub fn run_for_keeps(&mut self, parsed: &Parsed, engine: Weak<Shared>, is_program: bool) -> Result<Outcome> {
        let Some(durable) = self.durable.clone() else { return self.dispatch(parsed, engine) };
        let (numbers, under) = (self.numbers(), self.defaults.clone());
        let gate = durable.gate();
        self.is_gated = true;
        let ran = self.dispatch(parsed, engine);
        self.is_gated = false;
        if let Ok(outcome) = &ran {
            let mut journal = lock(&durable.journal);
            if let Some(what) = &self.discarding {
                journal.entries.push(Entry::Discarded { text: parsed.text.clone(), numbers, what: what.clone() });
            } else if defines(&parsed.statement, outcome) {
                journal.entries.push(Entry::Defined { text: parsed.text.clone(), numbers, under });
            } else if is_program {
                self.undone.push(Entry::Done { text: parsed.text.clone() });
            }
            // A transaction's statements have done something once it is over.
            if self.transaction.is_none() {
                journal.entries.append(&mut self.undone);
            }
            journal.follow(&self.catalog, self.numbers());
        }
        drop(gate);
        ran
    }

    /// What was gathered has been built: the journal has to know, for what is built later.
    pub fn note_built(&self, dataflows: Vec<(u64, Vec<Member>)>) {
        if let (Some(durable), None) = (&self.durable, &self.restoring) {
            let mut journal = lock(&durable.journal);
            journal.entries.push(Entry::Built { dataflows });
            journal.follow(&self.catalog, self.numbers());
        }
    }

    pub fn numbers(&self) -> Numbers {
        let dataflow = self.driver.runtime().next_dataflow();
        Numbers { relation: self.catalog.next_relation(), dataflow, alterations: self.alterations }
    }

    fn take_numbers(&mut self, numbers: Numbers) {
        self.catalog.number_next(numbers.relation);
        self.driver.runtime().number_next(numbers.dataflow);
        self.alterations = numbers.alterations;
    }

    /// Begins with what an earlier run has left, in an engine in which nothing has happened yet.
    pub fn restore(&mut self, checkpoint: Checkpoint, workers: usize) -> Result<()> {
        let Checkpoint { now, workers: wrote, session, states, .. } = checkpoint;
        let saved: Saved = serde_json::from_value(session)
            .map_err(|error| Error::invalid(format!("the journal of the checkpoint was written by another version of Weir: {error}")))?;
        let (of_changelogs, states): (Vec<WorkerState>, Vec<WorkerState>) =
            states.into_iter().partition(|state| state.dataflow == CHANGELOGS);
        self.driver.freeze(true);
        self.driver.runtime().restore(now, saved.run_out, deal(states, workers, wrote))?;
        let position = |(dataflow, source, at)| ((DataflowId(dataflow), RelationId(source)), at);
        self.restoring = Some(Restoring { positions: saved.positions.into_iter().map(position).collect(), sinks: saved.sinks });
        saved.journal.iter().try_for_each(|entry| self.replay(entry))?;
        self.restoring = None;
        for WorkerState { name, state, .. } in of_changelogs {
            if let Some(Storage::Changelog { log, .. }) = self.catalog.find_table(&name).map(|table| &table.storage) {
                log.restore(&state.apart)?;
            }
        }
        self.take_numbers(saved.numbers);
        self.driver.runtime().restored()?;
        self.driver.between_rounds(|sources| self.driver.timeline().restore_marks(saved.marks, &sources.followers));
        if let Some(durable) = &self.durable {
            let mut journal = lock(&durable.journal);
            journal.left = Left::of(&saved.journal);
            journal.entries = saved.journal;
            journal.follow(&self.catalog, saved.numbers);
        }
        self.driver.freeze(false);
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Defined { text, numbers, under } => {
                self.defaults = under.clone();
                self.say_again(text, *numbers)
            }
            Entry::Discarded { text, numbers, .. } => self.say_again(text, *numbers),
            Entry::Built { dataflows } => dataflows.iter().try_for_each(|(dataflow, members)| {
                self.driver.runtime().number_next(*dataflow);
                self.install_again(members.clone())
            }),
            Entry::Done { .. } => Ok(()),
        }
    }

    fn say_again(&mut self, text: &str, numbers: Numbers) -> Result<()> {
        self.take_numbers(numbers);
        let again = parsed(text).and_then(|parsed| self.dispatch(&parsed, Weak::new()));
        again.map(drop).map_err(|error| Error::invalid(format!("what the checkpoint has cannot be built again: {error} (in '{text}')")))
    }
}
