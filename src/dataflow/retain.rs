//! Arrangements that forget.
//!
//! [`arrange_retained`] stands where [`super::arrange`] stands for what is remembered for ever. It owns the trace's
//! writer, and before it seals a batch it
//!
//! - takes note of the scopes that the batch writes to, which sets their deadlines;
//! - clips retractions of rows that are not there (they have expired before), and counts them;
//! - reads the rows of every scope whose deadline has come out of the trace, and adds their retractions to the batch, at
//!   `(deadline, Expire)`.
//!
//! So an expiry is an update like any other to whatever reads the arrangement, exact at its instant however time moves, and
//! the memory it frees is freed by the trace's own compaction. A batch in which nothing is due and nothing is taken away is
//! passed on as it came.
//!
//! ```text
//! updates ─▶ sealed, in order ─▶ scope by scope: touch, clip, expire ─▶ batch ─▶ trace, readers
//!                                      │            │
//!                                   Scopes     the trace, as it was
//! ```
//!
//! A million scopes may be due at one instant. What happens between two frontiers is a `Round`, which is worked off in
//! turns of bounded length, between which the worker's other operators run.

mod deadlines;
mod names;
mod remembered;
mod round;
mod scopes;
mod table;
mod timers;
mod versions;

use std::cell::RefCell;
use std::rc::Rc;

use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{DistributorPact, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::Operator;
use timely::progress::Antichain;

use super::arrange::peers;
use super::owned::{Batches, Owned};
use super::state::{Place, Saved, State, States, unheld};
use crate::engine::time;
use crate::plan::Retention;
use crate::row::reclaim::Reclaiming;
use crate::row::spine::{Pending, Sealable};
use crate::row::{ByKey, Time};
use round::Round;
use scopes::{ScopeId, Scopes};
use versions::Superseding;

pub use deadlines::Deadlines;
pub use remembered::{Asked, Remembered};

/// A retained arrangement at work, for whoever asks how it is or changes what it forgets.
pub type Keeper = Rc<RefCell<Forgetting>>;

/// The scopes of one worker's part of an arrangement, and what has come to pass.
pub struct Forgetting {
    scopes: Scopes,
    /// Scopes that have expired with something in them.
    expired: u64,
    /// Retractions that found nothing.
    late_retractions: u64,
    /// The time up to which all has been worked off.
    lower: Time,
}

/// How a retained arrangement is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    pub live_scopes: u64,
    pub expired: u64,
    pub late_retractions: u64,
    /// Milliseconds since the epoch.
    pub next_deadline: Option<u64>,
    /// Bytes of memory beside the trace.
    pub bytes: usize,
}

impl Forgetting {
    /// With the scopes, and the counts, that were found at its place.
    fn new(deadlines: Deadlines, place: &mut Place) -> Self {
        let mut scopes = Scopes::new(deadlines);
        std::mem::take(&mut place.found.apart).iter().for_each(|saved| scopes.restore(saved));
        let count = |index: usize| place.found.counts.get(index).copied().unwrap_or(0);
        Forgetting { scopes, expired: count(0), late_retractions: count(1), lower: place.begins }
    }

    /// The scopes and the counts, for a checkpoint.
    fn state(&self) -> State {
        let scopes = self.scopes.snapshot();
        State { later: Some(Box::new(|| scopes.saved())), counts: vec![self.expired, self.late_retractions], ..State::default() }
    }

    /// How it is.
    pub fn account(&self) -> Account {
        Account {
            live_scopes: self.scopes.len() as u64,
            expired: self.expired,
            late_retractions: self.late_retractions,
            next_deadline: self.scopes.next_deadline(first_instant_from(self.lower)),
            bytes: self.scopes.memory(),
        }
    }

    /// Changes what is forgotten and when; what is overdue by the new figures goes at the next instant that comes.
    /// Deadlines that were restored are those of the new figures already.
    pub fn retune(&mut self, retention: Retention, is_restored: bool) {
        if is_restored {
            return self.scopes.say(retention);
        }
        let soonest = first_instant_from(self.lower);
        self.scopes.retune(retention, soonest);
    }

    /// All before a frontier has been worked off.
    fn reached(&mut self, frontier: &Antichain<Time>) {
        self.lower = frontier.elements().first().copied().unwrap_or(self.lower);
        self.scopes.shrink();
    }

    /// The scopes that are due before an upper bound, in order, each with its first bytes.
    fn take_due(&mut self, upper: &Antichain<Time>) -> Vec<(u64, ScopeId)> {
        // Where nothing happens any more, nothing expires.
        let Some(upper) = upper.elements().first() else { return Vec::new() };
        let horizon = first_instant_from(*upper);
        // What goes in the place of a version that is due does so while that is known.
        if self.is_by_version() && first_instant_from(self.lower) >= horizon {
            return Vec::new();
        }
        self.scopes.take_due(horizon)
    }
}

impl Account {
    /// The account of two workers' parts together.
    pub fn plus(self, other: Account) -> Account {
        Account {
            live_scopes: self.live_scopes + other.live_scopes,
            expired: self.expired + other.expired,
            late_retractions: self.late_retractions + other.late_retractions,
            next_deadline: self.next_deadline.into_iter().chain(other.next_deadline).min(),
            bytes: self.bytes + other.bytes,
        }
    }
}

/// The first instant whose Expire phase is at or after a time.
fn first_instant_from(time: Time) -> u64 {
    let instant = time::ms(time).unsigned_abs();
    if time::step(time) == 0 { instant } else { instant + 1 }
}

/// A retained arrangement, and what tells how it is.
pub type Retained<'s, C> = (Arranged<'s, TraceAgent<Reclaiming<<C as Sealable>::Batch>>>, Keeper);

/// What the updates of an arrangement mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Rows come and go.
    Updates,
    /// One with a positive diff says that its row is the one of its key, one with a negative diff that the key has none. Of
    /// several at one time the last to come counts.
    Upserts,
}

/// Arranges updates by their keys, each on the worker that its key hashes to, and forgets them at their `deadlines`.
pub fn arrange_retained<'s, C>(
    stream: Stream<'s, Time, C>,
    deadlines: Deadlines,
    writes: Writes,
    name: &str,
    states: &mut States,
) -> Retained<'s, C>
where
    C: Remembered<Batch: Saved> + timely::Container + Clone,
    ByKey<C>: timely::dataflow::channels::pushers::exchange::Distributor<C>,
    DistributorPact<fn(usize) -> ByKey<C>>: ParallelizationContract<Time, C>,
{
    if peers(stream.scope()) == 1 {
        arrange_core(stream, Pipeline, deadlines, writes, name, states)
    } else {
        arrange_core(stream, DistributorPact(ByKey::<C>::new as fn(usize) -> ByKey<C>), deadlines, writes, name, states)
    }
}

fn arrange_core<'s, C, P>(
    stream: Stream<'s, Time, C>,
    pact: P,
    deadlines: Deadlines,
    writes: Writes,
    name: &str,
    states: &mut States,
) -> Retained<'s, C>
where
    C: Remembered<Batch: Saved> + timely::Container + Clone,
    P: ParallelizationContract<Time, C>,
{
    let scope = stream.scope();
    let mut place = states.place(name);
    let id = place.id();
    let keeper = Rc::new(RefCell::new(Forgetting::new(deadlines, &mut place)));
    let kept = Rc::clone(&keeper);
    let mut trace = None;
    let trace_out = &mut trace;
    let stream = stream.unary_frontier(pact, name, move |capability, info| {
        let activator = scope.activator_for(Rc::clone(&info.address));
        let (owned, others) = Owned::new(scope, info, &mut place);
        *trace_out = Some(others);
        let mut owned = owned.hold(Some(capability));
        let mut pending = Pending::<C>::since(place.begins);
        let mut round: Option<Round<C>> = None;
        move |(input, frontier), output: &mut Batches<'_, C::Batch>| {
            input.for_each(|_, updates| pending.push(std::mem::take(updates)));
            if round.is_none() && owned.is_behind(frontier.frontier(), output) {
                let upper = frontier.frontier().to_owned();
                let sealed = pending.seal(upper.borrow());
                let mut forgetting = kept.borrow_mut();
                let mut due = forgetting.take_due(&upper);
                let is_by_version = forgetting.is_by_version() && !due.is_empty();
                let versions = is_by_version.then(|| Superseding::new(std::mem::take(&mut due), C::reader(owned.spans())));
                drop(forgetting);
                round = Some(Round::new(upper, sealed, writes, due, versions, C::reader(owned.spans())));
            }
            if let Some(at_work) = &mut round {
                if !at_work.work(&mut kept.borrow_mut()) {
                    return activator.activate();
                }
                if let Some((upper, batch)) = round.take().map(Round::finish) {
                    kept.borrow_mut().reached(&upper);
                    owned.seal(upper, batch, output);
                }
                if owned.lower() != frontier.frontier() {
                    activator.activate();
                }
            }
            owned.exert();
        }
    });
    let trace = trace.expect("the operator's constructor has run");
    let (saved, forgetting) = (unheld(&trace), Rc::clone(&keeper));
    states.keep(id, move || {
        let mut state = forgetting.borrow().state();
        state.add_trace(&saved);
        state
    });
    (Arranged { stream, trace }, keeper)
}

#[cfg(test)]
mod tests;
