//! Batches that are being written, update by update.
//!
//! Whoever makes a batch gives its updates in order of row, then time; what is of one row and one time is added up, and
//! what comes to nothing is left out. A row whose one update is like the one before it (a step's new rows all come at one
//! time, once each) takes no memory for that: this is differential dataflow's own encoding of such runs.

use std::rc::Rc;

use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::key_batch::OrdKeyStorage;
use differential_dataflow::trace::implementations::ord_neu::val_batch::OrdValStorage;
use differential_dataflow::trace::implementations::ord_neu::{OrdKeyBatch, OrdValBatch, Upds, Vals};

use super::spine::{RowBatch, RowLayout, SumBatch, SumLayout};
use super::{ByteRows, Bytes, Diff, Offsets, Sums, SumsContainer, Time};

/// A batch that is being written.
pub trait Draft: Default + 'static {
    type Batch;
    /// What an update changes.
    type Change: Semigroup + Default + 'static;

    /// Makes room for the bytes of this many more rows like this one.
    fn reserve(&mut self, rows: usize, key: &[u8], value: &[u8]);
    /// Adds an update of the row `key ++ value`, which is not before the one that was added last.
    fn add(&mut self, key: &[u8], value: &[u8], time: Time, change: &Self::Change);
    /// The batch, with its memory as it has grown; None where nothing is in it.
    fn finish(self) -> Option<Self::Batch>;
    /// The batch, in no more memory than it takes; None where nothing is in it.
    fn finish_tight(self) -> Option<Self::Batch>;
}

/// Times and changes, row by row.
struct Changes<D: BatchContainer> {
    written: Upds<Offsets, Vec<Time>, D>,
    /// The update that may still grow, if there is one.
    is_open: bool,
    time: Time,
    sum: D::Owned,
    /// Where those of the row at hand begin.
    start: usize,
    /// How many there are, those among them that take no memory.
    updates: usize,
}

impl<D: BatchContainer<Owned: Default>> Default for Changes<D> {
    fn default() -> Self {
        Changes { written: Upds::default(), is_open: false, time: 0, sum: D::Owned::default(), start: 0, updates: 0 }
    }
}

impl<D: BatchContainer<Owned: Semigroup + Default>> Changes<D> {
    #[inline(always)]
    fn add(&mut self, time: Time, change: &D::Owned) {
        if self.is_open && self.time == time {
            return self.sum.plus_equals(change);
        }
        if self.is_open && !self.sum.is_zero() {
            self.written.times.push(self.time);
            self.written.diffs.push_own(&self.sum);
        }
        self.is_open = true;
        self.time = time;
        self.sum.clone_from(change);
    }

    /// Ends the row at hand; says whether anything is of it.
    #[inline(always)]
    fn end_row(&mut self) -> bool {
        if !std::mem::take(&mut self.is_open) {
            return false;
        }
        if !self.sum.is_zero() {
            let is_alone = self.written.times.len() == self.start;
            let is_like_last = || {
                let same = |diff: D::ReadItem<'_>| D::into_owned(diff) == self.sum;
                self.written.times.last() == Some(&self.time) && BatchContainer::last(&self.written.diffs).is_some_and(same)
            };
            if is_alone && is_like_last() {
                self.updates += 1;
                self.written.offs.push(self.start);
                return true;
            }
            self.written.times.push(self.time);
            self.written.diffs.push_own(&self.sum);
        }
        let end = self.written.times.len();
        if end == self.start {
            return false;
        }
        self.updates += end - self.start;
        self.start = end;
        self.written.offs.push(end);
        true
    }

    fn fit(&mut self) {
        self.written.offs.fit();
        self.written.times.shrink_to_fit();
    }
}

/// A batch of rows that is being written.
#[derive(Default)]
pub struct RowDraft {
    keys: ByteRows,
    vals: Vals<Offsets, ByteRows>,
    changes: Changes<Vec<Diff>>,
    /// The row at hand, and how many of its bytes are its key.
    row: Vec<u8>,
    key_len: usize,
}

impl RowDraft {
    fn end_row(&mut self) {
        if !self.changes.end_row() {
            return;
        }
        let (key, value) = self.row.split_at(self.key_len);
        if self.keys.last() != Some(Bytes(key)) {
            if self.keys.len() > 0 {
                self.vals.offs.push(self.vals.vals.len());
            }
            self.keys.push(key);
        }
        self.vals.vals.push(value);
    }

    /// Ends the last row, and the values of the last key; done again it changes nothing.
    fn close(&mut self) {
        self.end_row();
        if self.vals.offs.last() != Some(self.vals.vals.len()) {
            self.vals.offs.push(self.vals.vals.len());
        }
    }
}

impl Draft for RowDraft {
    type Batch = RowBatch;
    type Change = Diff;

    fn reserve(&mut self, rows: usize, key: &[u8], value: &[u8]) {
        self.keys.reserve(rows, key.len());
        self.vals.vals.reserve(rows, value.len());
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8], time: Time, change: &Diff) {
        let (last_key, last_value) = self.row.split_at(self.key_len);
        if Bytes(last_key) != Bytes(key) || Bytes(last_value) != Bytes(value) {
            self.end_row();
            self.row.clear();
            self.row.extend_from_slice(key);
            self.row.extend_from_slice(value);
            self.key_len = key.len();
        }
        self.changes.add(time, change);
    }

    fn finish(mut self) -> Option<RowBatch> {
        self.close();
        let Changes { written: upds, updates, .. } = self.changes;
        let storage: OrdValStorage<RowLayout> = OrdValStorage { keys: self.keys, vals: self.vals, upds };
        (updates > 0).then(|| Rc::new(OrdValBatch { storage, updates }))
    }

    fn finish_tight(mut self) -> Option<RowBatch> {
        self.close();
        self.keys.fit();
        self.vals.offs.fit();
        self.vals.vals.fit();
        self.changes.written.diffs.shrink_to_fit();
        self.changes.fit();
        self.finish()
    }
}

/// A batch of sums that is being written.
#[derive(Default)]
pub struct SumDraft {
    keys: ByteRows,
    changes: Changes<SumsContainer>,
    /// The key at hand.
    key: Vec<u8>,
}

impl SumDraft {
    fn end_key(&mut self) {
        if self.changes.end_row() {
            self.keys.push(&self.key);
        }
    }
}

impl Draft for SumDraft {
    type Batch = SumBatch;
    type Change = Sums;

    fn reserve(&mut self, rows: usize, key: &[u8], _: &[u8]) {
        self.keys.reserve(rows, key.len());
    }

    #[inline]
    fn add(&mut self, key: &[u8], _: &[u8], time: Time, change: &Sums) {
        if Bytes(&self.key) != Bytes(key) {
            self.end_key();
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.changes.add(time, change);
    }

    fn finish(mut self) -> Option<SumBatch> {
        self.end_key();
        let Changes { written: upds, updates, .. } = self.changes;
        let storage: OrdKeyStorage<SumLayout> = OrdKeyStorage { keys: self.keys, upds };
        (updates > 0).then(|| Rc::new(OrdKeyBatch { storage, updates, value: vec![()] }))
    }

    fn finish_tight(mut self) -> Option<SumBatch> {
        self.end_key();
        self.keys.fit();
        self.changes.written.diffs.fit();
        self.changes.fit();
        self.finish()
    }
}
