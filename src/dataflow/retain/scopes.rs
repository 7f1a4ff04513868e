//! The scopes of an arrangement that are alive, and when each of them is due.
//!
//! A scope is known by its bytes: a key, or a whole row. Beside those it costs a [`Record`], a slot of the hash table that
//! finds it and one timer, 48 bytes at most. A short name is in the record itself, so that a write looks at two places of
//! memory and not at four. Timers are lazy: a write only moves the record's deadline, and a timer that goes off too early is
//! set again for when its scope is due by then.

use super::deadlines::Deadlines;
use super::names::{Name, Names};
use super::table::{NameHash, Table};
use super::timers::Timers;
use crate::engine::time::{self, LAST_INSTANT};
use crate::plan::{Refresh, Retention};
use crate::row::spine::prefix;
use crate::row::{Bytes, Time, Updates, UpdatesBuilder};

/// An instant that does not come.
pub const NEVER: u64 = u64::MAX;

/// A scope, by its number. Numbers are given again to others.
pub type ScopeId = u32;

/// A scope's name, and when it is due (milliseconds since the epoch).
#[derive(Clone, Copy)]
struct Record {
    name: Name,
    due: u64,
}

/// The live scopes of one worker's part of an arrangement.
pub struct Scopes {
    deadlines: Deadlines,
    records: Chunked<Record>,
    free: Vec<ScopeId>,
    table: Table,
    names: Names,
    timers: Timers,
    /// Whether every write to a live scope has moved its deadline.
    moves: bool,
}

/// Whether every write moves the deadline of its scope.
fn moves(retention: &Retention) -> bool {
    retention.refresh == Refresh::Write && retention.ttl_max.is_none() && retention.closes.is_none()
}

impl Scopes {
    /// No scopes yet.
    pub fn new(deadlines: Deadlines) -> Self {
        Scopes {
            records: Chunked::default(),
            free: Vec::new(),
            table: Table::with_room(0),
            names: Names::default(),
            timers: Timers::new(deadlines.retention()),
            moves: moves(deadlines.retention()),
            deadlines,
        }
    }

    /// What is forgotten, and when.
    pub fn retention(&self) -> &Retention {
        self.deadlines.retention()
    }

    /// A live scope whose bytes may hash to `hash`, without a look at them; None where there is none.
    #[inline]
    pub fn guess(&self, hash: NameHash) -> Option<ScopeId> {
        self.table.find(hash, |_| true)
    }

    /// Has the processor fetch what [`Scopes::guess`] and a look at the guess will read: without branches, so that it waits for
    /// many places of memory at a time.
    pub fn fetch(&self, hashes: impl Iterator<Item = NameHash> + Clone) {
        let last = self.records.len().saturating_sub(1) as ScopeId;
        std::hint::black_box(hashes.clone().fold(0, |seen, hash| seen ^ self.table.at_home(hash)));
        if self.table.len() > 0 {
            let due = |hash| self.records.get(self.table.at_home(hash).min(last)).due;
            std::hint::black_box(hashes.fold(0, |seen, hash| seen ^ due(hash)));
        }
    }

    /// The live scope with these bytes, which hash to `hash`.
    #[inline]
    pub fn find(&self, hash: NameHash, scope: &[u8]) -> Option<ScopeId> {
        self.table.find(hash, |id| Bytes(self.bytes(id)) == Bytes(scope))
    }

    /// The bytes of a live scope.
    pub fn bytes(&self, id: ScopeId) -> &[u8] {
        self.name(id).0
    }

    /// The bytes of a live scope, and how many of them are the key under which its rows are.
    pub fn name(&self, id: ScopeId) -> (&[u8], usize) {
        self.names.get(&self.records.get(id).name)
    }

    /// The instant at which a scope expires if nothing is written to it before.
    pub fn due(&self, id: ScopeId) -> u64 {
        self.records.get(id).due
    }

    /// A time from which on nothing has been written to a live scope, as far as is known.
    pub fn quiet_from(&self, id: ScopeId) -> Time {
        let last = self.retention().ttl.filter(|_| self.moves).map(|ttl| self.due(id).saturating_sub(ttl) as i64);
        last.filter(|last| (0..LAST_INSTANT).contains(last)).map_or(Time::MAX, |last| time::at(last + 1, 0))
    }

    /// The scope of a write at an instant, which is not there (its timer is set by [`Scopes::wake`]).
    pub fn create(&mut self, hash: NameHash, (scope, row): (&[u8], &[u8]), key_len: usize, now: u64) -> ScopeId {
        let record = Record { name: self.names.add(scope, key_len), due: self.deadlines.armed(row, now) };
        let id = match self.free.pop() {
            Some(id) => {
                *self.records.get_mut(id) = record;
                id
            }
            None => self.records.push(record),
        };
        self.table.insert(hash, id);
        id
    }

    /// Takes note of a write of a row of a live scope.
    pub fn touch(&mut self, id: ScopeId, row: &[u8], now: u64) {
        let due = self.deadlines.touched(self.due(id), row, now);
        self.records.get_mut(id).due = due;
    }

    /// A scope that has expired and was written again at an instant.
    pub fn revive(&mut self, id: ScopeId, row: &[u8], now: u64) {
        self.records.get_mut(id).due = self.deadlines.armed(row, now);
    }

    /// Sets a live scope's deadline, whatever is written to it.
    pub fn put_off(&mut self, id: ScopeId, due: u64) {
        self.records.get_mut(id).due = due;
    }

    /// Sets the timer of a scope that has none.
    pub fn wake(&mut self, id: ScopeId) {
        self.timers.set(self.records.get(id).due, id);
    }

    /// Forgets scopes that have no timers.
    pub fn remove(&mut self, scopes: &mut Vec<ScopeId>) {
        for id in scopes.iter() {
            self.table.remove(NameHash::of(self.bytes(*id)), *id);
            self.names.remove(&self.records.get(*id).name);
        }
        self.free.append(scopes);
    }

    /// The scopes that are due before an instant, whose timers are gone with that, in order of their bytes; each with the
    /// first of them.
    pub fn take_due(&mut self, before: u64) -> Vec<(u64, ScopeId)> {
        let mut due = Vec::new();
        let (records, names) = (&self.records, &self.names);
        let bytes = |id: ScopeId| names.get(&records.get(id).name).0;
        self.timers.take(before, |id| records.get(id).due, |id| due.push((prefix(bytes(id)), id)));
        due.sort_unstable_by(|(a, a_id), (b, b_id)| a.cmp(b).then_with(|| bytes(*a_id).cmp(bytes(*b_id))));
        // A version that is to be looked at again may have been waked twice.
        due.dedup();
        due
    }

    /// How many scopes are alive.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// When the next one is due, from an instant on.
    pub fn next_deadline(&self, from: u64) -> Option<u64> {
        let all = self.table.iter().map(|(_, id)| self.due(id));
        all.filter(|due| *due >= from).min().filter(|due| *due <= LAST_INSTANT.unsigned_abs())
    }

    /// Bytes of memory in use, those of the scopes' names among them.
    pub fn memory(&self) -> usize {
        let slots = self.table.memory();
        self.records.memory() + 4 * self.free.capacity() + slots + self.names.memory() + self.timers.memory()
    }

    /// Gives back memory that scopes have left, if it is more than the live ones need. Every scope has a timer now.
    pub fn shrink(&mut self) {
        const SLACK: usize = 1 << 12;
        if self.records.len() > 2 * self.len() + SLACK || self.names.is_sparse(SLACK << 4) {
            self.rebuild();
        }
    }

    /// Everything anew; scopes get other numbers.
    fn rebuild(&mut self) {
        let mut anew = Scopes { moves: self.moves, ..Scopes::new(self.deadlines.clone()) };
        anew.table = Table::with_room(self.len());
        for (hash, id) in self.table.iter() {
            let Record { name, due } = self.records.get(id);
            let (bytes, key_len) = self.names.get(name);
            let new = anew.records.push(Record { name: anew.names.add(bytes, key_len), due: *due });
            anew.timers.set(*due, new);
            anew.table.insert(hash, new);
        }
        *self = anew;
    }

    /// The live scopes as they are now, copied as they lie: to take them apart takes its time, and need not be done here.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { records: self.records.clone(), free: self.free.clone(), names: self.names.clone() }
    }

    /// Scopes that were [saved](Snapshot::saved) come back, with the deadlines that they had.
    pub fn restore(&mut self, saved: &Updates) {
        for index in 0..saved.len() {
            let scope = saved.row(index);
            let record = Record { name: self.names.add(scope, saved.key(index).len()), due: saved.time(index) };
            let id = self.records.push(record);
            self.table.insert(NameHash::of(scope), id);
            self.wake(id);
        }
    }

    /// Changes what is forgotten and when. A deadline moves by as much as its figure, be it into the past; but a scope lives at
    /// least its ttl after its last write, and where that is not known after the latest that it can have been, which is before
    /// `now`.
    pub fn retune(&mut self, retention: Retention, now: u64) {
        let figure = |retention: &Retention| retention.ttl_max.or(retention.ttl);
        let before = *self.retention();
        let is_lazy = before.ttl_max.is_some() && before.refresh == Refresh::Write;
        for (_, id) in self.table.iter() {
            let due = &mut self.records.get_mut(id).due;
            let last = before.ttl.filter(|_| is_lazy).map_or(0, |ttl| due.saturating_sub(ttl).min(now.saturating_sub(1)));
            let least = if is_lazy { last.saturating_add(retention.ttl.unwrap_or(NEVER)) } else { 0 };
            *due = match (figure(&before), figure(&retention)) {
                (Some(old), Some(new)) => (*due - old).saturating_add(new).max(least),
                (None, Some(new)) => now.saturating_add(new),
                (_, None) => NEVER,
            };
        }
        self.say(retention);
    }

    /// Takes note of what is forgotten and when from now on; deadlines stay.
    pub fn say(&mut self, retention: Retention) {
        let records = &self.records;
        self.timers.reset(&retention, |id| records.get(id).due);
        self.moves &= moves(&retention);
        self.deadlines.retune(retention);
    }
}

/// Scopes as they were at a moment.
pub struct Snapshot {
    records: Chunked<Record>,
    free: Vec<ScopeId>,
    names: Names,
}

impl Snapshot {
    /// The scopes, each a row of its name and, as its time, when it is due; and the first and the last time at which one is.
    pub fn saved(self) -> (Vec<Updates>, Option<(u64, u64)>) {
        let mut is_live = vec![true; self.records.len()];
        self.free.iter().for_each(|id| is_live[*id as usize] = false);
        let mut all = UpdatesBuilder::default();
        let mut bounds: Option<(u64, u64)> = None;
        for id in (0..self.records.len() as ScopeId).filter(|id| is_live[*id as usize]) {
            let Record { name, due } = self.records.get(id);
            let (bytes, key_len) = self.names.get(name);
            let (key, rest) = bytes.split_at(key_len);
            all.push(key, &[rest], *due, 1);
            if *due <= LAST_INSTANT.unsigned_abs() {
                bounds = Some(bounds.map_or((*due, *due), |(first, last)| (first.min(*due), last.max(*due))));
            }
        }
        (all.into_containers(), bounds)
    }
}

/// A list that grows by pieces, so that it never holds twice what it needs.
#[derive(Clone)]
struct Chunked<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    const BITS: u32 = 10;

    fn get(&self, index: u32) -> &T {
        &self.chunks[(index >> Self::BITS) as usize][(index & ((1 << Self::BITS) - 1)) as usize]
    }

    fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[(index >> Self::BITS) as usize][(index & ((1 << Self::BITS) - 1)) as usize]
    }

    fn push(&mut self, item: T) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == 1 << Self::BITS) {
            // The first one grows as it is needed: most arrangements have few scopes.
            let room = if self.chunks.is_empty() { 0 } else { 1 << Self::BITS };
            self.chunks.push(Vec::with_capacity(room));
        }
        let index = self.len() as u32;
        let last = self.chunks.len() - 1;
        self.chunks[last].push(item);
        index
    }

    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| ((self.chunks.len() - 1) << Self::BITS) + last.len())
    }

    fn memory(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}
