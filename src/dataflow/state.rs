//! What operators remember from one step to the next: how a checkpoint gets it, and how they find it again.
//!
//! When everything before a time has been worked off, a dataflow is its traces and the little that a few operators hold beside
//! them; nothing is on its way. So a checkpoint asks each operator for its [`State`] as of that time: batches, which do not
//! change and are shared with whoever writes them to disk, and rows that are held apart, which are copied.
//!
//! A dataflow that is restored is built like one that begins late ([`super::arrange`]): it begins `as_of` the moment before the
//! checkpoint. Operators that hold a state find it when they are built, and drop what comes of the beginning from above, since
//! they have it: the others compute it and it goes nowhere.
//!
//! A state is known by its dataflow and its number in the order in which the dataflow is built, which is the same each time;
//! its name is compared, so that what is found is never taken for what it is not.

use std::collections::{BTreeMap, HashMap};

use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::trace::{Span, TraceReader};
use timely::progress::Antichain;

use crate::error::{Error, Result};
use crate::row::batch::{RowBatch, SumBatch};
use crate::row::reclaim::{Reclaim, Reclaiming};
use crate::row::{Time, Updates};

/// What one worker's part of an operator remembers as of a time.
#[derive(Default)]
pub struct State {
    /// A trace's batches, from the earliest on, each with the bounds of its times.
    pub rows: Vec<Piece<RowBatch>>,
    pub sums: Vec<Piece<SumBatch>>,
    /// Rows beside them, whose times and diffs mean what the operator says.
    pub apart: Vec<Updates>,
    /// What gives them and `due`, where that takes its time.
    pub later: Option<Later>,
    /// Counts, in the operator's order.
    pub counts: Vec<u64>,
    /// The first and the last instant at which something of it is due, in milliseconds since the epoch.
    pub due: Option<(u64, u64)>,
}

/// Rows apart, with the first and the last instant at which one is due, when there is time for them.
pub type Later = Box<dyn FnOnce() -> (Vec<Updates>, Option<(u64, u64)>) + Send>;

/// A batch of a trace.
pub struct Piece<B> {
    pub lower: Time,
    pub upper: Time,
    pub batch: B,
}

/// A batch that a state can have.
pub trait Saved: Reclaim {
    fn pieces(state: &mut State) -> &mut Vec<Piece<Self>>;
}

impl Saved for RowBatch {
    fn pieces(state: &mut State) -> &mut Vec<Piece<Self>> {
        &mut state.rows
    }
}

impl Saved for SumBatch {
    fn pieces(state: &mut State) -> &mut Vec<Piece<Self>> {
        &mut state.sums
    }
}

impl State {
    /// Has all rows apart that there are.
    pub fn complete(&mut self) {
        if let Some(later) = self.later.take() {
            let (apart, due) = later();
            self.apart.extend(apart);
            self.due = self.due.or(due);
        }
    }

    /// Adds the batches of a trace.
    pub fn add_trace<B: Saved>(&mut self, trace: &TraceAgent<Reclaiming<B>>) {
        let pieces = B::pieces(self);
        let bound = |bound: &Antichain<Time>| bound.elements().first().copied().unwrap_or(Time::MAX);
        trace.map_spans(|span: &Span<Time, B>| {
            let piece = |batch: &B| Piece { lower: bound(span.lower()), upper: bound(span.upper()), batch: batch.clone() };
            pieces.extend(span.inner.as_ref().map(piece));
        });
    }
}

/// Gives an operator's state, as of when it is asked.
pub type Ask = Box<dyn Fn() -> Result<State>>;

/// The number of a state within its dataflow.
pub type Number = u32;

/// The states of one dataflow by number, each with its name, as an earlier run has left them.
pub type Found = HashMap<Number, (String, State)>;

/// The operators of a dataflow that have states.
#[derive(Default)]
pub struct Asks(BTreeMap<Number, (String, Ask)>);

impl Asks {
    /// What each of them remembers now.
    pub fn states(&self) -> impl Iterator<Item = Result<(Number, &str, State)>> {
        self.0.iter().map(|(number, (name, ask))| Ok((*number, name.as_str(), ask()?)))
    }
}

/// The states of a dataflow while it is built; by default of one that finds nothing.
#[derive(Default)]
pub struct States {
    /// The first time that is not restored.
    begins: Time,
    found: Option<Found>,
    next: Number,
    asks: Asks,
    /// What is built is needed first by this view or job.
    view: String,
    /// What is built and what was found are not the same.
    mismatch: Option<String>,
}

/// An operator's number among those that have states, and what was found of it.
pub struct Place {
    number: Number,
    name: String,
    pub found: State,
    /// What comes before this time the operator has, and drops.
    pub begins: Time,
}

impl States {
    /// The states of a dataflow that begins `as_of` a time with what was `found`, or with nothing.
    pub fn new(as_of: Time, found: Option<Found>) -> Self {
        let begins = if found.is_some() { as_of + 1 } else { 0 };
        States { begins, found, ..States::default() }
    }

    /// What is built from now on is needed first by this view or job.
    pub fn begin_view(&mut self, view: &str) {
        view.clone_into(&mut self.view);
    }

    /// The place of the operator that is built next.
    pub fn place(&mut self, name: &str) -> Place {
        let number = self.next;
        self.next += 1;
        let name = format!("{}: {name}", self.view);
        let mut place = Place { number, name: name.clone(), found: State::default(), begins: self.begins };
        if let Some(found) = &mut self.found {
            match found.remove(&number) {
                Some((saved, state)) if saved == name => place.found = state,
                other => {
                    let saved = other.map_or("nothing".to_owned(), |(saved, _)| format!("'{saved}'"));
                    self.mismatch.get_or_insert(format!("where '{name}' is built the checkpoint has {saved}"));
                }
            }
        }
        place
    }

    /// Says whom to ask for an operator's state.
    pub fn keep(&mut self, place: (Number, String), ask: impl Fn() -> State + 'static) {
        self.keep_fallible(place, move || Ok(ask()));
    }

    /// The same where it may not come to be.
    pub fn keep_fallible(&mut self, place: (Number, String), ask: impl Fn() -> Result<State> + 'static) {
        self.asks.0.insert(place.0, (place.1, Box::new(ask)));
    }

    /// The same for an operator whose state is a trace.
    pub fn keep_trace<B: Saved>(&mut self, place: (Number, String), trace: &TraceAgent<Reclaiming<B>>) {
        let trace = unheld(trace);
        self.keep(place, move || {
            let mut state = State::default();
            state.add_trace(&trace);
            state
        });
    }

    /// The first time that is not restored; 0 where nothing is.
    pub fn begins(&self) -> Time {
        self.begins
    }

    /// Whom to ask, once all is built.
    ///
    /// # Errors
    ///
    /// What was found is not of this dataflow.
    pub fn finish(self) -> Result<Asks> {
        let left = self.found.iter().flat_map(HashMap::values).map(|(name, _)| format!("'{name}' of the checkpoint is built no longer"));
        match self.mismatch.or_else(|| left.min()) {
            None => Ok(self.asks),
            Some(what) => Err(Error::invalid(format!("the state was saved by another version of Weir: {what}"))),
        }
    }
}

impl Place {
    /// By what the operator keeps its state.
    pub fn id(&self) -> (Number, String) {
        (self.number, self.name.clone())
    }
}

/// A handle to a trace that holds nothing of it back.
pub fn unheld<B: Reclaim>(trace: &TraceAgent<Reclaiming<B>>) -> TraceAgent<Reclaiming<B>> {
    let mut trace = trace.clone();
    trace.set_logical_compaction(Antichain::new().borrow());
    trace.set_physical_compaction(Antichain::new().borrow());
    trace
}
