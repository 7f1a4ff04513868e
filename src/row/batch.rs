//! Batches: rows, or sums, by key.
//!
//! A batch lists its keys in order; rows have their values in order under each. What is of a row is a list of times with
//! changes, and a list that is one update like the last one of the row before takes no memory (see `changes`). Batches are
//! written by a [`draft`](super::draft), or merged from two.

use std::ops::Deref;
use std::sync::Arc;

use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::{Upds, Vals};
use differential_dataflow::trace::implementations::spine_fueled::{Merger, SpineBatch};
use differential_dataflow::trace::{Cursor, Navigable};
use timely::progress::frontier::AntichainRef;

use super::{ByteRows, Bytes, Diff, Offsets, Sums, SumsContainer, SumsRef, Time};

/// The lists of times and changes of a batch.
pub type UpdateLists<D> = Upds<Offsets, Vec<Time>, D>;
/// A batch of rows by key.
pub type RowBatch = Shared<RowStorage>;
/// A batch of sums by key.
pub type SumBatch = Shared<SumStorage>;

/// A batch that will not change, shared by whoever reads it: traces, operators, and the thread that writes a checkpoint.
pub struct Shared<S>(pub Arc<S>);

impl<S> Shared<S> {
    pub fn new(storage: S) -> Self {
        Shared(Arc::new(storage))
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<S> Deref for Shared<S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: SpineBatch> SpineBatch for Shared<S> {
    type Time = S::Time;
    type Merger = SharedMerger<S>;

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A merge of what is shared.
pub struct SharedMerger<S: SpineBatch>(S::Merger);

impl<S: SpineBatch> Merger<Shared<S>> for SharedMerger<S> {
    fn new(one: &Shared<S>, other: &Shared<S>, since: AntichainRef<'_, S::Time>) -> Self {
        SharedMerger(S::Merger::new(one, other, since))
    }

    fn work(&mut self, one: &Shared<S>, other: &Shared<S>, fuel: &mut isize) {
        self.0.work(one, other, fuel);
    }

    fn done(self) -> Option<Shared<S>> {
        self.0.done().map(Shared::new)
    }
}

/// Rows, each with a list of updates.
pub struct RowStorage {
    pub keys: ByteRows,
    /// The values of each key.
    pub vals: Vals<Offsets, ByteRows>,
    /// The updates of each value.
    pub upds: UpdateLists<Vec<Diff>>,
    /// How many updates there are, those among them that take no memory.
    pub updates: usize,
}

/// Keys, each with a list of sums.
pub struct SumStorage {
    pub keys: ByteRows,
    pub upds: UpdateLists<SumsContainer>,
    /// How many updates there are, those among them that take no memory.
    pub updates: usize,
    /// For each key, whether it is known that all batches before come to nothing of it; shorter where nothing is known.
    pub new: Vec<bool>,
}

impl RowStorage {
    /// Goes through all updates: key, value, time, diff.
    pub fn each(&self, mut each: impl FnMut(&[u8], &[u8], Time, Diff)) {
        for key in 0..self.keys.len() {
            let (start, end) = self.vals.bounds(key);
            for val in start..end {
                let (start, end) = self.upds.bounds(val);
                (start..end).for_each(|at| each(self.keys.get(key), self.vals.vals.get(val), self.upds.times[at], self.upds.diffs[at]));
            }
        }
    }
}

impl SumStorage {
    /// Goes through all updates: key, time, change.
    pub fn each(&self, mut each: impl FnMut(&[u8], Time, Sums)) {
        for key in 0..self.keys.len() {
            let (start, end) = self.upds.bounds(key);
            (start..end).for_each(|at| each(self.keys.get(key), self.upds.times[at], SumsContainer::into_owned(self.upds.diffs.index(at))));
        }
    }
}

/// What has a list of keys.
pub trait Keys {
    fn keys(&self) -> &ByteRows;
}

impl Keys for RowStorage {
    #[inline(always)]
    fn keys(&self) -> &ByteRows {
        &self.keys
    }
}

impl Keys for SumStorage {
    #[inline(always)]
    fn keys(&self) -> &ByteRows {
        &self.keys
    }
}

/// Bytes of memory that a batch uses.
pub trait MemoryUse {
    fn memory(&self) -> usize;
}

impl MemoryUse for RowBatch {
    fn memory(&self) -> usize {
        let RowStorage { keys, vals, upds, .. } = &**self;
        keys.memory() + vals.offs.memory() + vals.vals.memory() + upds.offs.memory() + 8 * (upds.times.capacity() + upds.diffs.capacity())
    }
}

impl MemoryUse for SumBatch {
    fn memory(&self) -> usize {
        let SumStorage { keys, upds, new, .. } = &**self;
        keys.memory() + upds.offs.memory() + 8 * upds.times.capacity() + upds.diffs.memory() + new.capacity()
    }
}

/// Goes through the values of a batch of rows.
pub struct RowCursor {
    key: usize,
    val: usize,
}

impl Navigable for RowBatch {
    type Cursor = RowCursor;

    fn cursor(&self) -> RowCursor {
        RowCursor { key: 0, val: 0 }
    }
}

impl RowCursor {
    #[inline(always)]
    fn stand_at(&mut self, storage: &RowBatch, key: usize) {
        self.key = key;
        if key < storage.keys.len() {
            self.val = storage.vals.bounds(key).0;
        }
    }
}

impl Cursor for RowCursor {
    type Storage = RowBatch;
    type Key<'a> = Bytes<'a>;
    type ValOwn = Vec<u8>;
    type Val<'a> = Bytes<'a>;
    type Time = Time;
    type TimeGat<'a> = &'a Time;
    type Diff = Diff;
    type DiffGat<'a> = &'a Diff;
    type KeyContainer = ByteRows;
    type ValContainer = ByteRows;
    type TimeContainer = Vec<Time>;
    type DiffContainer = Vec<Diff>;

    #[inline(always)]
    fn key_valid(&self, storage: &RowBatch) -> bool {
        self.key < storage.keys.len()
    }

    #[inline(always)]
    fn val_valid(&self, storage: &RowBatch) -> bool {
        self.key_valid(storage) && self.val < storage.vals.bounds(self.key).1
    }

    #[inline(always)]
    fn key<'a>(&self, storage: &'a RowBatch) -> Bytes<'a> {
        storage.keys.index(self.key)
    }

    #[inline(always)]
    fn val<'a>(&self, storage: &'a RowBatch) -> Bytes<'a> {
        storage.vals.vals.index(self.val)
    }

    #[inline(always)]
    fn get_key<'a>(&self, storage: &'a RowBatch) -> Option<Bytes<'a>> {
        self.key_valid(storage).then(|| self.key(storage))
    }

    #[inline(always)]
    fn get_val<'a>(&self, storage: &'a RowBatch) -> Option<Bytes<'a>> {
        self.val_valid(storage).then(|| self.val(storage))
    }

    #[inline(always)]
    fn map_times<L: FnMut(&Time, &Diff)>(&mut self, storage: &RowBatch, mut logic: L) {
        let (start, end) = storage.upds.bounds(self.val);
        storage.upds.times[start..end].iter().zip(&storage.upds.diffs[start..end]).for_each(|(time, diff)| logic(time, diff));
    }

    #[inline]
    fn step_key(&mut self, storage: &RowBatch) {
        self.stand_at(storage, (self.key + 1).min(storage.keys.len()));
    }

    #[inline]
    fn seek_key(&mut self, storage: &RowBatch, key: Bytes<'_>) {
        let passed = storage.keys.advance(self.key, storage.keys.len(), |there| there < key);
        self.stand_at(storage, self.key + passed);
    }

    #[inline(always)]
    fn step_val(&mut self, _: &RowBatch) {
        self.val += 1;
    }

    #[inline]
    fn seek_val(&mut self, storage: &RowBatch, val: Bytes<'_>) {
        if self.key_valid(storage) {
            let end = storage.vals.bounds(self.key).1;
            self.val += storage.vals.vals.advance(self.val, end, |there| there < val);
        }
    }

    fn rewind_keys(&mut self, storage: &RowBatch) {
        self.stand_at(storage, 0);
    }

    #[inline]
    fn rewind_vals(&mut self, storage: &RowBatch) {
        self.stand_at(storage, self.key);
    }
}

/// Goes through the keys of a batch of sums: each has one value, which is nothing.
pub struct SumCursor {
    key: usize,
    /// Whether the value of the key has been passed.
    is_passed: bool,
}

impl Navigable for SumBatch {
    type Cursor = SumCursor;

    fn cursor(&self) -> SumCursor {
        SumCursor { key: 0, is_passed: false }
    }
}

impl Cursor for SumCursor {
    type Storage = SumBatch;
    type Key<'a> = Bytes<'a>;
    type ValOwn = ();
    type Val<'a> = &'a ();
    type Time = Time;
    type TimeGat<'a> = &'a Time;
    type Diff = Sums;
    type DiffGat<'a> = SumsRef<'a>;
    type KeyContainer = ByteRows;
    type ValContainer = Vec<()>;
    type TimeContainer = Vec<Time>;
    type DiffContainer = SumsContainer;

    #[inline(always)]
    fn key_valid(&self, storage: &SumBatch) -> bool {
        self.key < storage.keys.len()
    }

    #[inline(always)]
    fn val_valid(&self, storage: &SumBatch) -> bool {
        !self.is_passed && self.key_valid(storage)
    }

    #[inline(always)]
    fn key<'a>(&self, storage: &'a SumBatch) -> Bytes<'a> {
        storage.keys.index(self.key)
    }

    #[inline(always)]
    fn val<'a>(&self, _: &'a SumBatch) -> &'a () {
        &()
    }

    #[inline(always)]
    fn get_key<'a>(&self, storage: &'a SumBatch) -> Option<Bytes<'a>> {
        self.key_valid(storage).then(|| self.key(storage))
    }

    #[inline(always)]
    fn get_val<'a>(&self, storage: &'a SumBatch) -> Option<&'a ()> {
        self.val_valid(storage).then_some(&())
    }

    #[inline(always)]
    fn map_times<L: FnMut(&Time, SumsRef<'_>)>(&mut self, storage: &SumBatch, mut logic: L) {
        let (start, end) = storage.upds.bounds(self.key);
        (start..end).for_each(|update| logic(&storage.upds.times[update], storage.upds.diffs.index(update)));
    }

    #[inline]
    fn step_key(&mut self, storage: &SumBatch) {
        *self = SumCursor { key: (self.key + 1).min(storage.keys.len()), is_passed: false };
    }

    #[inline]
    fn seek_key(&mut self, storage: &SumBatch, key: Bytes<'_>) {
        let passed = storage.keys.advance(self.key, storage.keys.len(), |there| there < key);
        *self = SumCursor { key: self.key + passed, is_passed: false };
    }

    #[inline(always)]
    fn step_val(&mut self, _: &SumBatch) {
        self.is_passed = true;
    }

    #[inline(always)]
    fn seek_val(&mut self, _: &SumBatch, _: &()) {}

    fn rewind_keys(&mut self, storage: &SumBatch) {
        *self = storage.cursor();
    }

    #[inline(always)]
    fn rewind_vals(&mut self, _: &SumBatch) {
        self.is_passed = false;
    }
}
