//! A round: what happens to the scopes of an arrangement between two frontiers.
//!
//! The updates between the frontiers and the scopes that are due between them are both in the order of scopes, and are gone
//! through side by side, scope by scope and a bounded number of them at a time. What comes of a scope is played through in
//! order of time: writes make it and move its deadline, retractions are clipped to what is there, and at the deadline it expires.

use std::cmp::Ordering;
use std::ops::Range;

use timely::progress::Antichain;

use super::scopes::{NEVER, ScopeId, Scopes};
use super::table::NameHash;
use super::versions::Superseding;
use super::{Asked, Forgetting, Remembered, Writes, first_instant_from};
use crate::engine::time;
use crate::plan::Scope;
use crate::row::draft::Draft;
use crate::row::spine::{Entry, Sealed, prefix};
use crate::row::{Bytes, Diff, Time};

/// The updates between two frontiers on their way to a batch, with the scopes that are due between them.
pub(super) struct Round<C: Remembered> {
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
}

impl<C: Remembered> Round<C> {
    /// Scopes that are looked at before others have their turn.
    pub(super) const FUEL: usize = 1 << 13;
    /// Scopes that are looked for one after the other, so that the processor waits for several places of memory at a time.
    const AHEAD: usize = 256;

    pub(super) fn new(
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
    pub(super) fn work(&mut self, forgetting: &mut Forgetting) -> bool {
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

    /// The batch, once all is worked off, and its upper bound.
    pub(super) fn finish(self) -> (Antichain<Time>, Option<C::Batch>) {
        (self.upper, self.draft.finish())
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
pub(super) fn scope_of<'a, C: Remembered>(sealed: &'a Sealed<C>, entry: &Entry, scope: Scope) -> &'a [u8] {
    let (container, index) = (&sealed.containers[entry.container as usize], entry.index as usize);
    match scope {
        Scope::Group => container.key_of(index),
        Scope::Row | Scope::Version => container.order(index),
    }
}
