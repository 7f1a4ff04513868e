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
//! A million scopes may be due at one instant. What is due is worked off in rounds of bounded length, between which the
//! worker's other operators run.

mod deadlines;
mod names;
mod remembered;
mod scopes;
mod table;
mod timers;
mod versions;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::Range;
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
use crate::plan::{Retention, Scope};
use crate::row::draft::Draft;
use crate::row::reclaim::Reclaiming;
use crate::row::spine::{Entry, Pending, Sealable, Sealed, prefix};
use crate::row::{ByKey, Bytes, Diff, Time};
use scopes::{NEVER, ScopeId, Scopes};
use table::NameHash;
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
        let (apart, due) = self.scopes.saved();
        State { apart, due, counts: vec![self.expired, self.late_retractions], ..State::default() }
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
                if let Some(Round { upper, draft, .. }) = round.take() {
                    kept.borrow_mut().reached(&upper);
                    owned.seal(upper, draft.finish(), output);
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

/// What becomes of a scope between two frontiers.
struct Life {
    hash: NameHash,
    key_len: usize,
    id: Option<ScopeId>,
    /// Whether a timer is set for it.
    has_timer: bool,
    alive: bool,
    /// Whether the rows that the trace has of it are there.
    base: bool,
}

impl Forgetting {
    /// Takes note of a write of a row of a scope, which comes into being with it or again.
    fn write(&mut self, life: &mut Life, (scope, row): (&[u8], &[u8]), now: u64) {
        match life.id {
            Some(id) if life.alive => self.scopes.touch(id, row, now),
            Some(id) => self.scopes.revive(id, row, now),
            None => life.id = Some(self.scopes.create(life.hash, (scope, row), life.key_len, now)),
        }
        life.alive = true;
    }

    /// The instant at which a scope expires if nothing is written to it before: its deadline, or the first one to come.
    fn due(&self, id: ScopeId) -> u64 {
        self.scopes.due(id).max(first_instant_from(self.lower))
    }

    /// The same of a scope that is written to, and that may be due. Of versions that are not, others go when they would be.
    fn ends(&self, id: ScopeId, is_due: bool) -> u64 {
        if is_due || !self.is_by_version() { self.due(id) } else { NEVER }
    }

    /// Which rows are forgotten with one.
    fn forgotten(&self) -> Asked {
        if self.scopes.retention().scope == Scope::Group { Asked::Key } else { Asked::Row }
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

/// The updates between two frontiers on their way to a batch, with the scopes that are due between them.
struct Round<C: Remembered> {
    upper: Antichain<Time>,
    sealed: Sealed<C>,
    writes: Writes,
    due: Vec<(u64, ScopeId)>,
    /// Those that are due, where others go in their place.
    versions: Option<Superseding<C>>,
    contents: C::Reader,
    /// How far it has come.
    next_entry: usize,
    next_due: usize,
    /// The next scopes that are written to, the last of them first.
    coming: Vec<Coming>,
    /// What has been worked off.
    draft: C::Draft,
    /// Scopes that are no more.
    gone: Vec<ScopeId>,
    /// Of the scope at hand: what happens to it, and what has come since its life began;
    events: Vec<Event<C::Change>>,
    life: Vec<(usize, C::Change)>,
    /// updates that are added (what expires, what is left of clipped retractions), and entries that are not passed on.
    made: C,
    dropped: Vec<usize>,
}

/// A scope that is written to.
struct Coming {
    /// Where its entries end.
    end: usize,
    hash: NameHash,
    /// Its number, if it is alive.
    id: Option<ScopeId>,
}

/// The updates of one row at one time, added up.
struct Event<D> {
    time: Time,
    first: usize,
    last: usize,
    change: D,
}

impl<C: Remembered> Round<C> {
    /// Scopes that are looked at before others have their turn.
    const FUEL: usize = 1 << 13;
    /// Scopes that are looked for one after the other, so that the processor waits for several places of memory at a time.
    const AHEAD: usize = 256;

    fn new(
        upper: Antichain<Time>,
        sealed: Sealed<C>,
        writes: Writes,
        due: Vec<(u64, ScopeId)>,
        versions: Option<Superseding<C>>,
        contents: C::Reader,
    ) -> Self {
        let draft = sealed.draft(sealed.entries.len() + due.len());
        Round {
            upper,
            sealed,
            writes,
            due,
            versions,
            contents,
            next_entry: 0,
            next_due: 0,
            coming: Vec::new(),
            draft,
            gone: Vec::new(),
            events: Vec::new(),
            life: Vec::new(),
            made: C::default(),
            dropped: Vec::new(),
        }
    }

    /// Works off scopes in order; says whether none is left.
    fn work(&mut self, forgetting: &mut Forgetting) -> bool {
        if let Some(versions) = &mut self.versions {
            if !versions.work(&self.sealed, forgetting) {
                return false;
            }
            self.due = std::mem::take(&mut versions.over);
            self.versions = None;
        }
        // What is sealed stays as it is while the rest changes.
        let sealed = std::mem::take(&mut self.sealed);
        let kind = forgetting.scopes.retention().scope;
        let mut done = false;
        for _ in 0..Self::FUEL {
            if self.coming.is_empty() {
                self.look_ahead(&sealed, kind, &forgetting.scopes);
            }
            let due = self.due.get(self.next_due).copied();
            let entry = sealed.entries.get(self.next_entry);
            match (entry, due) {
                (None, None) => {
                    done = true;
                    break;
                }
                (None, Some((_, id))) => self.expire_only(id, forgetting),
                (Some(entry), None) => self.written(&sealed, scope_of(&sealed, entry, kind), false, forgetting),
                (Some(entry), Some((first_bytes, id))) => {
                    let scope = scope_of(&sealed, entry, kind);
                    let rest = || Bytes(forgetting.scopes.bytes(id)).cmp(&Bytes(scope));
                    match first_bytes.cmp(&prefix(scope)).then_with(rest) {
                        Ordering::Less => self.expire_only(id, forgetting),
                        Ordering::Equal => self.written(&sealed, scope, true, forgetting),
                        Ordering::Greater => self.written(&sealed, scope, false, forgetting),
                    }
                }
            }
        }
        self.sealed = sealed;
        forgetting.scopes.remove(&mut self.gone);
        done
    }

    /// Looks for the next scopes that are written to. Those that are alive stay so until it is their turn.
    fn look_ahead(&mut self, sealed: &Sealed<C>, kind: Scope, scopes: &Scopes) {
        let mut end = self.next_entry;
        while self.coming.len() < Self::AHEAD
            && let Some(first) = sealed.entries.get(end)
        {
            let scope = scope_of(sealed, first, kind);
            end += 1;
            while let Some(entry) = sealed.entries.get(end)
                && Bytes(scope_of(sealed, entry, kind)) == Bytes(scope)
            {
                end += 1;
            }
            self.coming.push(Coming { end, hash: NameHash::of(scope), id: None });
        }
        scopes.fetch(self.coming.iter().map(|coming| coming.hash));
        // Mostly the guess is right.
        self.coming.iter_mut().for_each(|coming| coming.id = scopes.guess(coming.hash));
        for coming in &mut self.coming {
            let scope = scope_of(sealed, &sealed.entries[coming.end - 1], kind);
            if coming.id.is_some_and(|id| Bytes(scopes.bytes(id)) != Bytes(scope)) {
                coming.id = scopes.find(coming.hash, scope);
            }
        }
        self.coming.reverse();
    }

    /// The instant before which everything is worked off: what is due before it expires.
    fn horizon(&self) -> u64 {
        self.upper.elements().first().map_or(0, |upper| first_instant_from(*upper))
    }

    /// A scope that is due and that nothing is written to.
    fn expire_only(&mut self, id: ScopeId, forgetting: &mut Forgetting) {
        self.next_due += 1;
        let due = forgetting.due(id);
        // One that has become overdue goes at the next instant that comes.
        if due >= self.horizon() {
            return forgetting.scopes.wake(id);
        }
        let ((bytes, key_len), time) = (forgetting.scopes.name(id), time::at(due as i64, 0));
        let (mut anything, draft) = (false, &mut self.draft);
        draft.say_new(false);
        C::look_up(&mut self.contents, bytes, key_len, forgetting.forgotten(), forgetting.scopes.quiet_from(id), |row, change| {
            draft.add(&row[..key_len], &row[key_len..], time, &C::negated(change));
            anything = true;
        });
        forgetting.expired += u64::from(anything);
        self.gone.push(id);
    }

    /// A scope that is written to, and that may be due as well, its timer gone.
    fn written(&mut self, sealed: &Sealed<C>, scope: &[u8], is_due: bool, forgetting: &mut Forgetting) {
        self.next_due += usize::from(is_due);
        let Some(Coming { end, hash, id }) = self.coming.pop() else { return };
        let start = std::mem::replace(&mut self.next_entry, end);
        let (first, index) = sealed.at(start);
        let moment = first.at(index);
        // Whether nothing is taken away and all is written at one time, as most things are.
        let plain = (start..end).all(|position| {
            let (updates, index) = sealed.at(position);
            updates.adds(index) && updates.at(index) == moment
        });
        self.life.clear();
        self.made.clear();
        self.dropped.clear();
        let (key_len, is_alive) = (first.key_of(index).len(), id.is_some());
        // A version that was due and stays has none; it gets one for a look at whether it still is there.
        let has_timer = !is_due && id.is_some_and(|id| !forgetting.is_by_version() || forgetting.scopes.due(id) >= self.horizon());
        let mut life = Life { hash, key_len, id, has_timer, alive: is_alive, base: is_alive };
        let now = time::ms(moment).unsigned_abs();
        if self.writes == Writes::Upserts {
            self.upserted(sealed, scope, start..end, &mut life, forgetting);
        } else if plain && id.is_none_or(|id| forgetting.ends(id, is_due) > now) {
            // Of a group's rows the last is the one with the latest time, where that is what counts.
            let (last, index) = sealed.at(end - 1);
            forgetting.write(&mut life, (scope, last.order(index)), now);
            if life.id.is_none_or(|id| forgetting.ends(id, is_due) < self.horizon()) {
                self.gather(sealed, start, end);
                self.life.extend(self.events.drain(..).map(|event| (event.first, event.change)));
            }
        } else {
            self.gather(sealed, start, end);
            for number in 0..self.events.len() {
                let now = time::ms(self.events[number].time).unsigned_abs();
                if let Some(id) = life.id.filter(|id| life.alive && forgetting.ends(*id, is_due) <= now) {
                    self.expire(sealed, id, life.base, forgetting);
                    (life.alive, life.base) = (false, false);
                    self.life.clear();
                }
                if self.apply(sealed, number, key_len, life.base, forgetting) {
                    let (updates, index) = sealed.at(self.events[number].first);
                    forgetting.write(&mut life, (scope, updates.order(index)), now);
                }
            }
        }
        if let Some(id) = life.id {
            if life.alive && forgetting.ends(id, is_due) < self.horizon() {
                self.expire(sealed, id, life.base, forgetting);
                life.alive = false;
            }
            if !life.alive {
                self.gone.push(id);
            } else if !life.has_timer {
                forgetting.scopes.wake(id);
            }
        }
        // What it had before has expired.
        self.draft.say_new(!is_alive);
        self.pass_on(sealed, start..end);
    }

    /// Writes the entries of the scope at hand that are passed on, and what is made.
    fn pass_on(&mut self, sealed: &Sealed<C>, entries: Range<usize>) {
        let Round { draft, made, dropped, .. } = self;
        let mut write = |updates: &C, index: usize| updates.write(index, draft);
        if made.count() == 0 && dropped.is_empty() {
            return entries.map(|position| sealed.at(position)).for_each(|(updates, index)| write(updates, index));
        }
        dropped.sort_unstable();
        let passed_on = entries.filter(|position| dropped.binary_search(position).is_err()).map(|position| sealed.at(position));
        let mut all: Vec<(&C, usize)> = passed_on.chain((0..made.count()).map(|index| (&*made, index))).collect();
        all.sort_by(|(a, a_index), (b, b_index)| {
            Bytes(a.order(*a_index)).cmp(&Bytes(b.order(*b_index))).then_with(|| a.at(*a_index).cmp(&b.at(*b_index)))
        });
        all.into_iter().for_each(|(updates, index)| write(updates, index));
    }

    /// Upserts of a key: each replaces the row that is there, if one is.
    fn upserted(&mut self, sealed: &Sealed<C>, key: &[u8], entries: Range<usize>, life: &mut Life, forgetting: &mut Forgetting) {
        self.dropped.extend(entries.clone());
        let arrival = |position: &usize| {
            let (updates, index) = sealed.at(*position);
            let entry = &sealed.entries[*position];
            (updates.at(index), entry.container, entry.index)
        };
        let mut upserts: Vec<usize> = entries.collect();
        upserts.sort_unstable_by_key(arrival);
        for (number, position) in upserts.iter().enumerate() {
            let (updates, index) = sealed.at(*position);
            let time = updates.at(index);
            if upserts.get(number + 1).is_some_and(|next| arrival(next).0 == time) {
                continue;
            }
            let now = time::ms(time).unsigned_abs();
            if let Some(id) = life.id.filter(|id| life.alive && forgetting.due(*id) <= now) {
                self.expire(sealed, id, life.base, forgetting);
                (life.alive, life.base) = (false, false);
                self.life.clear();
            }
            let mut there = self.life.first().map(|(position, _)| {
                let (updates, index) = sealed.at(*position);
                updates.order(index).to_vec()
            });
            if life.base {
                C::look_up(&mut self.contents, key, key.len(), Asked::Key, Time::MAX, |row, _| there = Some(row.to_vec()));
            }
            let next = updates.adds(index).then(|| updates.order(index));
            if there.is_none() && next.is_none() {
                forgetting.late_retractions += 1;
                continue;
            }
            if there.as_deref() != next {
                if let Some(there) = &there {
                    self.made.give(there, key.len(), time, &C::of_rows(-1));
                }
                if let Some(next) = next {
                    self.made.give(next, key.len(), time, &C::of_rows(1));
                }
                life.base = false;
                self.life.clear();
                self.life.extend(next.map(|_| (*position, C::of_rows(1))));
            }
            forgetting.write(life, (key, key), now);
        }
    }

    /// Adds up the entries of a scope by row and time, in order of time.
    fn gather(&mut self, sealed: &Sealed<C>, start: usize, end: usize) {
        self.events.clear();
        for position in start..end {
            let (updates, index) = sealed.at(position);
            let time = updates.at(index);
            if let Some(event) = self.events.last_mut().filter(|event| event.time == time) {
                let (first, of_first) = sealed.at(event.first);
                if first.order(of_first) == updates.order(index) {
                    C::add(&mut event.change, &updates.change(index));
                    event.last = position;
                    continue;
                }
            }
            self.events.push(Event { time, first: position, last: position, change: updates.change(index) });
        }
        if !self.events.is_sorted_by_key(|event| event.time) {
            self.events.sort_by_key(|event| event.time);
        }
    }

    /// Applies an event to a scope, clipping what it takes away to what is there; says whether anything is left of it.
    fn apply(&mut self, sealed: &Sealed<C>, number: usize, key_len: usize, base: bool, forgetting: &mut Forgetting) -> bool {
        let Event { time, first, last, ref change } = self.events[number];
        if C::is_nothing(change) {
            return false;
        }
        let (change, rows) = (change.clone(), C::rows(change));
        if rows >= 0 {
            self.life.push((first, change));
            return true;
        }
        let (updates, index) = sealed.at(first);
        let row = updates.order(index);
        let mut there = self.lived(sealed, row);
        if base {
            C::look_up(&mut self.contents, row, key_len, Asked::Row, Time::MAX, |_, change| there += C::rows(&change));
        }
        let taken = rows.max(-there);
        forgetting.late_retractions += (taken - rows).unsigned_abs();
        if taken == rows {
            self.life.push((first, change));
            return true;
        }
        self.dropped.extend(first..=last);
        if taken == 0 {
            return false;
        }
        let change = C::of_rows(taken);
        self.made.give(row, key_len, time, &change);
        self.life.push((first, change));
        true
    }

    /// How often a row has come since the scope's life began between these frontiers.
    fn lived(&self, sealed: &Sealed<C>, row: &[u8]) -> Diff {
        let of_row = self.life.iter().filter(|(position, _)| {
            let (updates, index) = sealed.at(*position);
            updates.order(index) == row
        });
        of_row.map(|(_, change)| C::rows(change)).sum()
    }

    /// Takes away what a scope holds, at its deadline: the trace's rows if they are its `base`, and what has come since.
    fn expire(&mut self, sealed: &Sealed<C>, id: ScopeId, base: bool, forgetting: &mut Forgetting) {
        let time = time::at(forgetting.due(id) as i64, 0);
        let (bytes, key_len) = forgetting.scopes.name(id);
        let asked = forgetting.forgotten();
        let mut anything = !self.life.is_empty();
        let made = &mut self.made;
        if base {
            C::look_up(&mut self.contents, bytes, key_len, asked, forgetting.scopes.quiet_from(id), |row, change| {
                made.give(row, key_len, time, &C::negated(change));
                anything = true;
            });
        }
        for (position, change) in &self.life {
            let (updates, index) = sealed.at(*position);
            made.give(updates.order(index), key_len, time, &C::negated(change.clone()));
        }
        forgetting.expired += u64::from(anything);
    }
}

/// The bytes by which an entry's scope is known.
fn scope_of<'a, C: Remembered>(sealed: &'a Sealed<C>, entry: &Entry, scope: Scope) -> &'a [u8] {
    let (container, index) = (&sealed.containers[entry.container as usize], entry.index as usize);
    match scope {
        Scope::Group => container.key_of(index),
        Scope::Row | Scope::Version => container.order(index),
    }
}

#[cfg(test)]
mod tests;
