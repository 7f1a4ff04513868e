//! Batches that are being written, update by update.
//!
//! Whoever makes a batch gives its updates in order of row, then time; what is of one row and one time is added up, and
//! what comes to nothing is left out.

use differential_dataflow::difference::Semigroup;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::Vals;

use super::batch::{RowBatch, RowStorage, SumBatch, SumStorage};
use super::changes::Changes;
use super::{ByteRows, Bytes, Diff, Offsets, Sums, SumsContainer, Time};

/// A batch that is being written.
pub trait Draft: Default + 'static {
    type Batch;
    /// What an update changes.
    type Change: Semigroup + Default + 'static;

    /// Makes room for the bytes of this many more rows like this one.
    fn reserve(&mut self, rows: usize, key: &[u8], value: &[u8]);
    /// Says whether it is known of the key that comes next that all batches before come to nothing of it.
    fn say_new(&mut self, _is_new: bool) {}
    /// Adds an update of the row `key ++ value`, which is not before the one that was added last.
    fn add(&mut self, key: &[u8], value: &[u8], time: Time, change: &Self::Change);
    /// The batch, with its memory as it has grown; None where nothing is in it.
    fn finish(self) -> Option<Self::Batch>;
    /// The batch, in no more memory than it takes; None where nothing is in it.
    fn finish_tight(self) -> Option<Self::Batch>;
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
        let (upds, updates) = self.changes.finish();
        (updates > 0).then(|| RowBatch::new(RowStorage { keys: self.keys, vals: self.vals, upds, updates }))
    }

    fn finish_tight(mut self) -> Option<RowBatch> {
        self.close();
        self.keys.fit();
        self.vals.offs.fit();
        self.vals.vals.fit();
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
    /// Whether it is new,
    is_new: bool,
    /// and whether the next one is.
    is_next_new: bool,
    new: Vec<bool>,
}

impl SumDraft {
    fn end_key(&mut self) {
        if self.changes.end_row() {
            if self.is_new {
                self.new.resize(self.keys.len(), false);
                self.new.push(true);
            }
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
    fn say_new(&mut self, is_new: bool) {
        self.is_next_new = is_new;
    }

    #[inline]
    fn add(&mut self, key: &[u8], _: &[u8], time: Time, change: &Sums) {
        if Bytes(&self.key) != Bytes(key) {
            self.end_key();
            self.is_new = self.is_next_new;
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.changes.add(time, change.borrow());
    }

    fn finish(mut self) -> Option<SumBatch> {
        self.end_key();
        let (upds, updates) = self.changes.finish();
        (updates > 0).then(|| SumBatch::new(SumStorage { keys: self.keys, upds, updates, new: self.new }))
    }

    fn finish_tight(mut self) -> Option<SumBatch> {
        self.end_key();
        self.keys.fit();
        self.changes.fit();
        self.finish()
    }
}
