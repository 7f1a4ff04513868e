//! The log of commands that all workers apply in the same order, and what the sending end knows of them.
//!
//! Whoever holds the [`Log`] is the only one that adds to it. It knows the present time, which dataflow reads which and
//! what each arranges, but not what the commands do: that is the worker's.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::Thread;
use std::time::Duration;

use super::publish::ErrorBoard;
use super::runtime::{DataflowId, Rows, Time};
use super::time;
use super::worker::{Built, Command};
use crate::connector::Op;
use crate::dataflow::columnar::{ColumnBatch, Times};
use crate::dataflow::registry::{Label, Measure, Size, own_id, waiting_id};
use crate::dataflow::render::{Relation, whole_rows};
use crate::error::{Error, Result};
use crate::plan::{Fingerprint, Node, Plan, RelationId};

/// The main thread's end of the command log, and what it knows of the dataflows.
pub(super) struct Log {
    pub workers: Vec<Handle>,
    pub guards: Option<timely::communication::WorkerGuards<()>>,
    pub now: Time,
    /// Where time has run out, if that is where it stands.
    pub run_out: Option<Time>,
    /// Dataflows are built that an earlier run has left.
    pub is_restoring: bool,
    /// Whether something came at the present time.
    pub dirty: bool,
    pub next: u64,
    pub turn: usize,
    pub tables: HashMap<RelationId, Table>,
    pub dataflows: BTreeMap<u64, Dataflow>,
}

/// A worker, as the log sees it.
pub(super) struct Handle {
    pub commands: Sender<Command>,
    pub thread: Thread,
    pub sent: u64,
}

/// A table in memory.
pub(super) struct Table {
    pub dataflow: u64,
    pub keyed: bool,
    pub arrangement: Fingerprint,
}

/// A dataflow, as far as others depend on it.
pub(super) struct Dataflow {
    /// What each export reads: fingerprints of all arrangements that it may depend on.
    pub exports: Vec<(String, BTreeSet<Fingerprint>)>,
    /// The sources that it arranges as their rows come, by which arrangement.
    pub kept: HashMap<RelationId, Fingerprint>,
    /// The sources of which rows replace one another, so that their order counts.
    pub keyed: HashSet<RelationId>,
    pub depends: BTreeSet<u64>,
    pub arrangements: Vec<(Fingerprint, Label)>,
    /// Nobody wants it for itself any more.
    pub retired: bool,
}

/// How far the workers are.
pub(super) struct Progress {
    state: Mutex<ProgressState>,
    changed: Condvar,
}

struct ProgressState {
    /// For each worker, how many commands it has applied and the time before which it has worked everything off.
    workers: Vec<(u64, Time)>,
    dead: Option<String>,
}

impl Progress {
    /// That of so many workers, which have done nothing.
    pub fn of(workers: usize) -> Self {
        Progress { state: Mutex::new(ProgressState { workers: vec![(0, 0); workers], dead: None }), changed: Condvar::new() }
    }

    /// Takes note of how far a worker is.
    pub fn report(&self, worker: usize, commands: u64, through: Time) {
        self.lock().workers[worker] = (commands, through);
        self.changed.notify_all();
    }

    fn die(&self, why: String) {
        self.lock().dead.get_or_insert(why);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether every worker has worked off what is before a time.
    #[cfg(test)]
    pub fn is_through(&self, now: Time) -> bool {
        self.lock().workers.iter().all(|(_, through)| *through >= now)
    }

    /// Waits until every worker has applied its commands and worked off what is before `now`.
    pub fn wait(&self, sent: &[u64], now: Time) -> Result<()> {
        let mut state = self.lock();
        loop {
            if let Some(why) = &state.dead {
                return Err(Error::Stopped(why.clone()));
            }
            if state.workers.iter().zip(sent).all(|((commands, through), sent)| commands >= sent && *through >= now) {
                return Ok(());
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Receives one answer from each worker; the death of one is an error, not a wait for ever.
    pub fn gather<T>(&self, answers: &Receiver<T>, count: usize) -> Result<Vec<T>> {
        const PATIENCE: Duration = Duration::from_millis(20);
        let mut gathered = Vec::with_capacity(count);
        while gathered.len() < count {
            match answers.recv_timeout(PATIENCE) {
                Ok(answer) => gathered.push(answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    if let Some(why) = &self.lock().dead {
                        return Err(Error::Stopped(why.clone()));
                    }
                }
            }
        }
        Ok(gathered)
    }
}

/// Marks the engine as stopped when a worker's thread ends, however it ends.
pub(super) struct Obituary(pub Arc<Progress>);

impl Drop for Obituary {
    fn drop(&mut self) {
        let why = if std::thread::panicking() { "a worker has failed" } else { "it was shut down" };
        self.0.die(why.to_owned());
    }
}

impl Log {
    pub fn send(&mut self, worker: usize, command: Command) -> Result<()> {
        let handle = &mut self.workers[worker];
        handle.sent += 1;
        handle.commands.send(command).map_err(|_| Error::Stopped("a worker is gone".to_owned()))?;
        handle.thread.unpark();
        Ok(())
    }

    pub fn send_all(&mut self, mut command: impl FnMut(usize) -> Command) -> Result<()> {
        (0..self.workers.len()).try_for_each(|worker| self.send(worker, command(worker)))
    }

    pub fn advance(&mut self, to: Time) -> Result<()> {
        if to > self.now {
            self.now = to;
            self.run_out = self.run_out.filter(|run_out| time::ms(*run_out) == time::ms(to));
            self.dirty = false;
            self.send_all(|_| Command::Advance(to))?;
        }
        Ok(())
    }

    /// Moves time to the moment at which it runs out, and completes that: what waits for later happens then.
    pub fn run_out(&mut self, at: Time) -> Result<()> {
        if at >= self.now {
            self.advance(at)?;
            self.run_out = Some(at);
            self.send_all(|_| Command::RunOut(at))?;
            self.advance(at + 1)?;
        }
        Ok(())
    }

    pub fn settle(&self, progress: &Progress) -> Result<()> {
        let sent: Vec<u64> = self.workers.iter().map(|worker| worker.sent).collect();
        progress.wait(&sent, self.now)
    }

    /// Makes what came at the present time complete.
    pub fn seal(&mut self) -> Result<()> {
        if self.dirty { self.advance(self.now + 1) } else { Ok(()) }
    }

    /// Makes what came at the present time complete, and waits for it.
    pub fn complete(&mut self, progress: &Progress) -> Result<()> {
        self.seal()?;
        self.settle(progress)
    }

    /// Sends rows to the worker whose turn it is; those with a key, whose order counts, all to the first. They happen at the
    /// given times, or, where that is later, now; without times all happen now.
    pub fn rows(&mut self, dataflow: u64, relation: RelationId, keyed: bool, rows: Rows, times: Option<Vec<Time>>) -> Result<()> {
        self.turn = (self.turn + 1) % self.workers.len();
        let worker = if keyed { 0 } else { self.turn };
        let time = self.now;
        self.dirty |= times.as_ref().is_none_or(|times| times.iter().any(|given| *given <= time));
        let times = times.map_or(Times::At(time), |times| Times::Each(times.into_iter().map(|given| given.max(time)).collect()));
        let command = match rows {
            Rows::Errors(messages) => Command::Errors { dataflow, relation, time, messages },
            Rows::Diffs { rows, diffs } => {
                let diffs = diffs.iter().any(|diff| *diff != 1).then(|| diffs.into());
                Command::Rows { dataflow, relation, batch: ColumnBatch { rows, times, diffs } }
            }
            Rows::Ops { rows, ops } => {
                let sign = |op: &Op| if *op == Op::Upsert { 1 } else { -1 };
                let diffs = ops.iter().any(|op| *op != Op::Upsert).then(|| ops.iter().map(sign).collect());
                Command::Rows { dataflow, relation, batch: ColumnBatch { rows, times, diffs } }
            }
        };
        self.send(worker, command)
    }

    /// The sizes of all arrangements as they are, of all workers together.
    pub fn sizes(&mut self, measure: Measure, progress: &Progress) -> Result<HashMap<Fingerprint, Size>> {
        let (reply, answers) = channel();
        self.send_all(|_| Command::Sizes { measure, reply: reply.clone() })?;
        let mut sizes: HashMap<Fingerprint, Size> = HashMap::new();
        for (id, part) in progress.gather(&answers, self.workers.len())?.into_iter().flatten() {
            let size = sizes.entry(id).or_default();
            *size = size.plus(part);
        }
        Ok(sizes)
    }

    /// All arrangements that a plan may depend on, by any of the ways in which the renderer looks for one.
    pub fn reach(&self, plan: &Plan, seen: &mut HashSet<Fingerprint>, into: &mut BTreeSet<Fingerprint>) {
        if !seen.insert(plan.fingerprint()) {
            return;
        }
        into.insert(whole_rows(plan).fingerprint());
        if let Node::Get { id, .. } = plan.node() {
            into.extend(self.tables.get(id).map(|table| table.arrangement));
            for kept in self.dataflows.values().filter_map(|dataflow| dataflow.kept.get(id).copied()) {
                into.extend([kept, kept.derived("kept")]);
            }
        }
        for arrangement in plan.arrangements() {
            let id = arrangement.fingerprint();
            for id in [id, id.derived("key counts"), id.derived("keys")] {
                match arrangement.closes() {
                    Some(_) => into.extend((0..self.next).map(|dataflow| own_id(id, dataflow))),
                    None => into.extend([id]),
                }
            }
        }
        if let Node::Settle { .. } = plan.node() {
            into.insert(plan.fingerprint().derived("kept"));
        }
        if let Node::Delay { .. } | Node::Temporal { .. } = plan.node() {
            into.extend((0..self.next).map(|dataflow| waiting_id(plan, dataflow)));
        }
        plan.inputs().into_iter().for_each(|input| self.reach(input, seen, into));
    }

    /// The sources that are reached from a plan without meeting an arrangement that is there. What was `seen` is not
    /// walked again: plans share their parts.
    pub fn missing(&self, plan: &Plan, have: &HashSet<Fingerprint>, seen: &mut HashSet<Fingerprint>, into: &mut BTreeSet<RelationId>) {
        if !seen.insert(plan.fingerprint()) || have.contains(&whole_rows(plan).fingerprint()) {
            return;
        }
        match plan.node() {
            Node::Get { id, .. } => {
                let is_kept = |dataflow: &Dataflow| dataflow.kept.get(id).is_some_and(|kept| have.contains(kept));
                if !self.tables.contains_key(id) && !self.dataflows.values().any(is_kept) {
                    into.insert(*id);
                }
            }
            _ => {
                plan.streams().into_iter().for_each(|input| self.missing(input, have, seen, into));
                for arrangement in plan.arrangements() {
                    if !have.contains(&arrangement.fingerprint()) {
                        self.missing(&arrangement.input, have, seen, into);
                    }
                }
            }
        }
    }

    /// Ends the dataflows that nobody wants for themselves and nobody imports from.
    pub fn collect(&mut self, board: &ErrorBoard) -> Result<Vec<DataflowId>> {
        let mut gone = Vec::new();
        loop {
            let wanted: BTreeSet<u64> = self.dataflows.values().flat_map(|dataflow| dataflow.depends.iter().copied()).collect();
            let Some(id) = self.dataflows.iter().find(|(id, dataflow)| dataflow.retired && !wanted.contains(id)).map(|(id, _)| *id) else {
                return Ok(gone);
            };
            self.dataflows.remove(&id);
            self.send_all(|_| Command::Uninstall(id))?;
            board.clear(id);
            gone.push(DataflowId(id));
        }
    }
}

impl Dataflow {
    pub fn new(built: Built, sources: &[Relation]) -> Self {
        let kept = sources.iter().filter_map(|source| Some((source.id, source.kept_as()?.arrangement.fingerprint()))).collect();
        let keyed = sources.iter().filter(|source| !source.primary_key.is_empty()).map(|source| source.id).collect();
        Dataflow { exports: vec![], kept, keyed, depends: built.depends, arrangements: built.arrangements, retired: false }
    }
}
