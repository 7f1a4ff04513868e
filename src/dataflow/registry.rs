//! The traces that a worker's dataflows keep, by fingerprint: what later dataflows import.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use differential_dataflow::trace::TraceReader;
use timely::progress::Antichain;

use super::render::{ErrorSource, Kept};
use super::retain::{Account, Keeper};
use crate::plan::{Figures, Fingerprint, Memory, Plan, RelationId, Scope};
use crate::row::Time;
use crate::row::batch::MemoryUse;
use crate::row::reclaim::left_of;
use crate::row::spine::{RowTrace, SumTrace};

/// A worker's traces.
#[derive(Default)]
pub struct Registry {
    pub entries: HashMap<Fingerprint, Entry>,
    /// What holds rows until their time comes, by [`waiting_id`].
    pub waiting: HashMap<Fingerprint, Waiting>,
    pub errors: HashMap<ErrorSource, RowTrace>,
    kept: HashMap<RelationId, Kept>,
    /// The dataflows of which those that are not among them import nothing.
    pub passing: HashSet<u64>,
    /// When the clock has run out, if that is where it stands: what waits for a later instant happens then.
    pub run_out: Rc<Cell<Option<Time>>>,
}

/// A trace, where its errors are, and the dataflow that maintains it.
pub struct Entry {
    pub trace: Trace,
    pub errors: BTreeSet<ErrorSource>,
    pub dataflow: u64,
    pub label: Label,
    /// What it forgets by, if it does.
    pub keeper: Option<Keeper>,
}

/// An operator of a dataflow that holds rows until their time comes.
pub struct Waiting {
    pub dataflow: u64,
    pub label: Label,
    /// Where it is rendered more than once, each of them.
    pub held: Vec<Ask>,
}

/// Answers with what an operator holds.
pub type Ask = Rc<dyn Fn() -> Held>;

/// What is held until its time comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub rows: usize,
    pub bytes: usize,
    /// The first instant at which something of it happens, in milliseconds since the epoch.
    pub next: Option<u64>,
}

/// What tells an operator that holds rows in a dataflow from every other one.
pub fn waiting_id(plan: &Plan, dataflow: u64) -> Fingerprint {
    plan.fingerprint().derived("waiting").derived(&dataflow.to_string())
}

/// What tells an arrangement that no other dataflow is to share from those of others: one that has forgotten what is over lacks
/// what another that begins later is to see.
pub fn own_id(arrangement: Fingerprint, dataflow: u64) -> Fingerprint {
    arrangement.derived("own").derived(&dataflow.to_string())
}

/// What an arrangement is called in `weir_arrangements`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub view: String,
    pub operator: String,
    pub input: Option<String>,
    pub key: String,
    pub scope: Scope,
    pub memory: Memory,
    /// Whether other dataflows read it too.
    pub is_shared: bool,
}

/// A trace of either layout.
#[derive(Clone)]
pub enum Trace {
    Rows(RowTrace),
    Sums(SumTrace),
}

impl Trace {
    /// Lets the trace forget the difference between times that are complete: a dataflow to come starts later.
    fn compact(&mut self) {
        match self {
            Trace::Rows(trace) => compact(trace),
            Trace::Sums(trace) => compact(trace),
        }
    }

    /// Updates and bytes that are kept.
    pub fn size(&self, measure: Measure) -> (usize, usize) {
        match (self, measure) {
            (Trace::Rows(trace), Measure::Stored) => size(trace, |batch| batch.updates),
            (Trace::Sums(trace), Measure::Stored) => size(trace, |batch| batch.updates),
            (Trace::Rows(trace), Measure::Live) => left_of(batches(trace)),
            (Trace::Sums(trace), Measure::Live) => left_of(batches(trace)),
        }
    }
}

impl Entry {
    /// How big it is, and how what it forgets by stands.
    pub fn size(&self, measure: Measure) -> Size {
        let (rows, bytes) = self.trace.size(measure);
        let account = self.keeper.as_ref().map(|keeper| keeper.borrow().account());
        Size { rows, bytes: bytes + account.map_or(0, |account| account.bytes), account }
    }
}

impl Waiting {
    /// How much it holds, and until when.
    pub fn size(&self) -> Size {
        let sizes = self.held.iter().map(|held| {
            let Held { rows, bytes, next } = held();
            Size { rows, bytes, account: Some(Account { next_deadline: next, ..Account::default() }) }
        });
        sizes.fold(Size::default(), Size::plus)
    }
}

/// What is measured of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// What it occupies, with all that has cancelled but was not merged yet.
    Stored,
    /// What it would occupy if everything was merged and the difference between times forgotten. Reads and copies it.
    Live,
}

/// How much a worker's part of an arrangement holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    pub rows: usize,
    pub bytes: usize,
    pub account: Option<Account>,
}

impl Size {
    /// Two workers' parts together.
    pub fn plus(self, other: Size) -> Size {
        let account = match (self.account, other.account) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        Size { rows: self.rows + other.rows, bytes: self.bytes + other.bytes, account }
    }
}

fn compact<T: TraceReader<Time = Time>>(trace: &mut T) {
    let mut upper = Antichain::new();
    trace.read_upper(&mut upper);
    // The one before: see `arrange`, on how traces are read. A trace that is closed is left as it is.
    if let Some(time) = upper.elements().first().copied() {
        trace.set_logical_compaction(Antichain::from_elem(time.saturating_sub(1)).borrow());
        trace.set_physical_compaction(upper.borrow());
    }
}

fn batches<T: TraceReader>(trace: &T) -> Vec<T::Batch> {
    let mut batches = Vec::new();
    trace.map_spans(|span| batches.extend(span.inner.clone()));
    batches
}

fn size<T: TraceReader<Batch: MemoryUse>>(trace: &T, len: impl Fn(&T::Batch) -> usize) -> (usize, usize) {
    let (mut updates, mut bytes) = (0, 0);
    trace.map_spans(|span| {
        if let Some(batch) = &span.inner {
            updates += len(batch);
            bytes += batch.memory();
        }
    });
    (updates, bytes)
}

impl Registry {
    /// An arrangement that a dataflow may import (one that is soon gone has no number).
    pub fn importable(&self, id: Fingerprint, by: Option<u64>) -> Option<&Entry> {
        let passes = |dataflow: u64| self.passing.contains(&dataflow);
        self.entries.get(&id).filter(|entry| !passes(entry.dataflow) || by.is_none_or(passes))
    }

    /// How a relation is arranged as its rows come, if a dataflow maintains that.
    pub fn kept(&self, id: RelationId) -> Option<&Kept> {
        self.kept.get(&id)
    }

    /// Notes that a dataflow arranges a relation as its rows come.
    pub fn keep(&mut self, id: RelationId, kept: Kept) {
        self.kept.insert(id, kept);
    }

    /// Lets every trace compact up to what is complete.
    pub fn compact(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.trace.compact());
        self.errors.values_mut().for_each(compact);
    }

    /// Changes by what figures arrangements forget, and by what everything is known that depends on them. Deadlines that are
    /// restored are those of the new figures already.
    pub fn alter(&mut self, renamed: &HashMap<Fingerprint, Fingerprint>, figures: &Figures, is_restored: bool) {
        let new_id = |id: Fingerprint| renamed.get(&id).copied().unwrap_or(id);
        let new_source = |(id, dataflow): ErrorSource| (new_id(id), dataflow);
        self.errors = std::mem::take(&mut self.errors).into_iter().map(|(source, trace)| (new_source(source), trace)).collect();
        let entries = std::mem::take(&mut self.entries).into_iter().map(|(id, mut entry)| {
            entry.errors = entry.errors.into_iter().map(new_source).collect();
            let id = new_id(id);
            if let (Some((retention, memory)), Some(keeper)) = (figures.get(&id), &entry.keeper) {
                keeper.borrow_mut().retune(*retention, is_restored);
                entry.label.memory = memory.clone();
            }
            (id, entry)
        });
        self.entries = entries.collect();
        self.waiting = std::mem::take(&mut self.waiting).into_iter().map(|(id, waiting)| (new_id(id), waiting)).collect();
    }

    /// Forgets what a dataflow keeps.
    pub fn forget(&mut self, dataflow: u64) {
        self.entries.retain(|_, entry| entry.dataflow != dataflow);
        self.waiting.retain(|_, waiting| waiting.dataflow != dataflow);
        self.errors.retain(|(_, owner), _| *owner != dataflow);
        self.passing.remove(&dataflow);
        let entries = &self.entries;
        self.kept.retain(|_, kept| entries.contains_key(&kept.arrangement.fingerprint()));
    }
}
