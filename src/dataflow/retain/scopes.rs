//! The scopes of an arrangement that are alive, and when each of them is due.
//!
//! A scope is known by its bytes: a key, or a whole row. Beside those it costs a [`Record`], a slot of the hash table that
//! finds it and one timer, 48 bytes at most. Timers are lazy: a write only moves the record's deadline, and a timer that
//! goes off too early is set again for when its scope is due by then. They wait in buckets of a fraction of the ttl each, and
//! only those of the nearest bucket are in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hashbrown::HashTable;

use crate::engine::time::LAST_INSTANT;
use crate::plan::{Refresh, Retention};
use crate::row::key_hash;
use crate::row::spine::prefix;

/// An instant that does not come.
const NEVER: u64 = u64::MAX;

/// A scope, by its number. Numbers are given again to others.
pub type ScopeId = u32;

/// Where a scope's bytes begin, and when it is due (milliseconds since the epoch).
#[derive(Clone, Copy)]
struct Record {
    at: u64,
    due: u64,
}

/// The live scopes of one worker's part of an arrangement.
pub struct Scopes {
    retention: Retention,
    records: Chunked<Record>,
    free: Vec<ScopeId>,
    table: HashTable<ScopeId>,
    names: Names,
    timers: Timers,
}

impl Scopes {
    /// No scopes yet.
    pub fn new(retention: Retention) -> Self {
        Scopes {
            retention,
            records: Chunked::default(),
            free: Vec::new(),
            table: HashTable::new(),
            names: Names::default(),
            timers: Timers::new(&retention),
        }
    }

    /// What is forgotten, and when.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// The live scope with these bytes.
    pub fn find(&self, scope: &[u8]) -> Option<ScopeId> {
        self.table.find(key_hash(scope), |id| self.bytes(*id) == scope).copied()
    }

    /// The bytes of a live scope.
    pub fn bytes(&self, id: ScopeId) -> &[u8] {
        self.name(id).0
    }

    /// The bytes of a live scope, and how many of them are the key under which its rows are.
    pub fn name(&self, id: ScopeId) -> (&[u8], usize) {
        self.names.get(self.records.get(id).at)
    }

    /// The instant at which a scope expires if nothing is written to it before.
    pub fn due(&self, id: ScopeId) -> u64 {
        self.records.get(id).due
    }

    /// The scope of a write at an instant, made if it is not there (its timer is set by [`Scopes::wake`]).
    pub fn create(&mut self, scope: &[u8], key_len: usize, now: u64) -> ScopeId {
        let record = Record { at: self.names.push(scope, key_len), due: self.armed(now) };
        let id = match self.free.pop() {
            Some(id) => {
                *self.records.get_mut(id) = record;
                id
            }
            None => self.records.push(record),
        };
        let (records, names) = (&self.records, &self.names);
        self.table.insert_unique(key_hash(scope), id, |id| key_hash(names.get(records.get(*id).at).0));
        id
    }

    /// Takes note of a write to a live scope.
    pub fn touch(&mut self, id: ScopeId, now: u64) {
        if self.retention.refresh == Refresh::Create {
            return;
        }
        let armed = self.armed(now);
        let ttl = self.retention.ttl.unwrap_or(NEVER);
        let record = self.records.get_mut(id);
        match self.retention.ttl_max {
            // Armed lazily: only where it would not live its ttl.
            Some(_) if now.saturating_add(ttl) <= record.due => {}
            _ => record.due = armed,
        }
    }

    /// A scope that has expired and was written again at an instant.
    pub fn revive(&mut self, id: ScopeId, now: u64) {
        self.records.get_mut(id).due = self.armed(now);
    }

    fn armed(&self, now: u64) -> u64 {
        now.saturating_add(self.retention.ttl_max.or(self.retention.ttl).unwrap_or(NEVER))
    }

    /// Sets the timer of a scope that has none.
    pub fn wake(&mut self, id: ScopeId) {
        self.timers.set(self.records.get(id).due, id);
    }

    /// Forgets a scope that has no timer.
    pub fn remove(&mut self, id: ScopeId) {
        let hash = key_hash(self.bytes(id));
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        self.names.remove(self.records.get(id).at);
        self.free.push(id);
    }

    /// The scopes that are due before an instant, whose timers are gone with that, in order of their bytes.
    pub fn take_due(&mut self, before: u64) -> Vec<ScopeId> {
        let mut due = Vec::new();
        let records = &self.records;
        self.timers.take(before, |id| records.get(id).due, &mut due);
        // By their first bytes where these tell them apart, without a look at the rest.
        let mut by_prefix: Vec<(u64, ScopeId)> = due.into_iter().map(|id| (prefix(self.bytes(id)), id)).collect();
        by_prefix.sort_unstable_by(|(a, a_id), (b, b_id)| a.cmp(b).then_with(|| self.bytes(*a_id).cmp(self.bytes(*b_id))));
        by_prefix.into_iter().map(|(_, id)| id).collect()
    }

    /// How many scopes are alive.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// When the next one is due.
    pub fn next_deadline(&self) -> Option<u64> {
        self.table.iter().map(|id| self.due(*id)).min().filter(|due| *due <= LAST_INSTANT.unsigned_abs())
    }

    /// Bytes of memory in use, those of the scopes' names among them.
    pub fn memory(&self) -> usize {
        let slots = self.table.allocation_size();
        self.records.memory() + 4 * self.free.capacity() + slots + self.names.memory() + self.timers.memory()
    }

    /// Gives back memory that scopes have left, if it is more than the live ones need. Every scope has a timer now.
    pub fn shrink(&mut self) {
        const SLACK: usize = 1 << 12;
        let (records, live) = (self.records.len(), self.len());
        if records > 2 * live + SLACK || self.names.garbage > self.names.live + (SLACK << 4) {
            self.rebuild(self.retention, |due| due);
        }
    }

    /// Changes what is forgotten and when. A deadline moves by as much as its figure, be it into the past; one that nothing
    /// was known of is counted from `now`.
    pub fn retune(&mut self, retention: Retention, now: u64) {
        let figure = |retention: &Retention| retention.ttl_max.or(retention.ttl);
        let (old, new) = (figure(&self.retention), figure(&retention));
        self.rebuild(retention, |due| match (old, new) {
            (Some(old), Some(new)) => (due - old).saturating_add(new),
            // When it was written last is not known.
            (None, Some(new)) => now.saturating_add(new),
            (_, None) => NEVER,
        });
    }

    /// Everything anew, with every scope's deadline moved.
    fn rebuild(&mut self, retention: Retention, moved: impl Fn(u64) -> u64) {
        let mut anew = Scopes::new(retention);
        anew.table.reserve(self.len(), |_| unreachable!("nothing is there to be moved"));
        for id in &self.table {
            let Record { at, due } = *self.records.get(*id);
            let (bytes, key_len) = self.names.get(at);
            let record = Record { at: anew.names.push(bytes, key_len), due: moved(due) };
            let new = anew.records.push(record);
            anew.timers.set(record.due, new);
            anew.table.insert_unique(key_hash(bytes), new, |_| unreachable!("room was made for all"));
        }
        *self = anew;
    }
}

/// A list that grows by pieces, so that it never holds twice what it needs.
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

/// The bytes of scopes, end to end in blocks, each with its length before it and, where its key is not all of it, the key's.
#[derive(Default)]
struct Names {
    blocks: Vec<Vec<u8>>,
    live: usize,
    garbage: usize,
}

impl Names {
    const BLOCK: usize = 1 << 16;
    /// Marks a length that is followed by that of a shorter key.
    const PARTIAL: u32 = 1 << 31;

    /// Adds a name; gives its place.
    fn push(&mut self, bytes: &[u8], key_len: usize) -> u64 {
        let partial = key_len < bytes.len();
        let needed = bytes.len() + if partial { 8 } else { 4 };
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < needed) {
            // Blocks double up to their full length: most arrangements have few scopes.
            let room = self.blocks.last().map_or(1 << 8, |block| 2 * block.capacity()).min(Self::BLOCK);
            self.blocks.push(Vec::with_capacity(needed.max(room)));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let place = (number as u64) << 32 | block.len() as u64;
        let len = bytes.len() as u32 | if partial { Self::PARTIAL } else { 0 };
        block.extend_from_slice(&len.to_le_bytes());
        if partial {
            block.extend_from_slice(&(key_len as u32).to_le_bytes());
        }
        block.extend_from_slice(bytes);
        self.live += needed;
        place
    }

    /// The bytes at a place, and how many of them are the key.
    fn get(&self, place: u64) -> (&[u8], usize) {
        let block = &self.blocks[(place >> 32) as usize][(place & 0xFFFF_FFFF) as usize..];
        let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
        let len = word(0);
        match len & Self::PARTIAL {
            0 => (&block[4..4 + len as usize], len as usize),
            _ => (&block[8..8 + (len & !Self::PARTIAL) as usize], word(4) as usize),
        }
    }

    fn remove(&mut self, place: u64) {
        let (bytes, key_len) = self.get(place);
        let len = bytes.len() + if key_len < bytes.len() { 8 } else { 4 };
        self.live -= len;
        self.garbage += len;
    }

    fn memory(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() + self.blocks.capacity() * size_of::<Vec<u8>>()
    }
}

/// When to look at which scope.
struct Timers {
    /// How long a bucket is, in milliseconds.
    width: u64,
    /// Where the first of the far buckets begins.
    far_from: u64,
    near: BinaryHeap<Reverse<(u64, ScopeId)>>,
    far: BTreeMap<u64, Vec<ScopeId>>,
}

impl Timers {
    /// Into how many buckets a scope's life falls.
    const BUCKETS: u64 = 64;

    fn new(retention: &Retention) -> Self {
        let life = retention.ttl_max.or(retention.ttl).unwrap_or(NEVER);
        Timers { width: (life / Self::BUCKETS).max(1), far_from: 0, near: BinaryHeap::new(), far: BTreeMap::new() }
    }

    fn set(&mut self, due: u64, id: ScopeId) {
        if due < self.far_from {
            self.near.push(Reverse((due, id)));
        } else {
            self.far.entry(due / self.width).or_default().push(id);
        }
    }

    /// Takes the scopes that are due before an instant; sets the timers anew of those that were written since theirs was set.
    fn take(&mut self, before: u64, due: impl Fn(ScopeId) -> u64, into: &mut Vec<ScopeId>) {
        loop {
            while let Some(Reverse((time, id))) = self.near.peek().copied() {
                if time >= before {
                    break;
                }
                self.near.pop();
                match due(id) {
                    due if due < before => into.push(id),
                    due => self.set(due, id),
                }
            }
            let Some(bucket) = self.far.first_entry().filter(|bucket| bucket.key().saturating_mul(self.width) < before) else { break };
            let (number, ids) = bucket.remove_entry();
            self.far_from = number.saturating_add(1).saturating_mul(self.width);
            ids.into_iter().for_each(|id| self.set(due(id), id));
        }
        if self.near.capacity() > 4 * self.near.len() + 1024 {
            self.near.shrink_to_fit();
        }
    }

    fn memory(&self) -> usize {
        let far: usize = self.far.values().map(|ids| 4 * ids.capacity() + 64).sum();
        16 * self.near.capacity() + far
    }
}
