//! Batches and containers as named columns of integers and bytes, and back: what a checkpoint writes of them.
//!
//! What is read back need not be what was written, if somebody meant it to be something else. So everything that
//! positions are looked up by is checked once, and what does not fit is None, never a batch that a later look would find broken.

use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::{Upds, Vals};

use super::batch::{RowBatch, RowStorage, SumBatch, SumStorage, UpdateLists};
use super::{ByteRows, Offsets, SumsContainer};
use crate::checkpoint::segment::{Column, Plain, Segment};

/// Columns to write.
#[derive(Default)]
pub struct Columns<'a> {
    pub columns: Vec<(String, Column<'a>)>,
    /// Counts that are no columns, in the order in which they are asked for.
    pub counts: Vec<u64>,
}

impl<'a> Columns<'a> {
    /// Adds a column.
    pub fn put(&mut self, name: &str, column: impl Into<Column<'a>>) {
        self.columns.push((name.to_owned(), column.into()));
    }

    /// Adds a count.
    pub fn count(&mut self, count: usize) {
        self.counts.push(count as u64);
    }
}

/// The columns of a segment that has been read.
pub struct Taken<'a> {
    segment: &'a Segment,
    counts: &'a [u64],
}

impl<'a> Taken<'a> {
    /// The column in which the counts are.
    pub const COUNTS: &'static str = "counts";

    /// What a segment has; None if it has no counts.
    pub fn new(segment: &'a Segment) -> Option<Self> {
        Some(Taken { segment, counts: segment.column(Self::COUNTS).ok()? })
    }

    pub(super) fn column<T: Plain>(&self, name: &str) -> Option<Vec<T>> {
        self.segment.column(name).ok().map(<[T]>::to_vec)
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        let (first, rest) = self.counts.split_first()?;
        self.counts = rest;
        usize::try_from(*first).ok()
    }
}

/// What can be written as columns.
pub trait AsColumns: Sized {
    fn put<'a>(&'a self, to: &mut Columns<'a>);
    /// What was put; None where the columns are not those of anything that can be.
    fn take(from: &mut Taken<'_>) -> Option<Self>;
}

impl AsColumns for RowBatch {
    fn put<'a>(&'a self, to: &mut Columns<'a>) {
        to.count(self.updates);
        self.keys.put("keys", to);
        self.vals.offs.put("values of keys", to);
        self.vals.vals.put("values", to);
        self.upds.offs.put("updates of values", to);
        to.put("times", &self.upds.times);
        to.put("diffs", &self.upds.diffs);
    }

    fn take(from: &mut Taken<'_>) -> Option<Self> {
        let updates = from.count()?;
        let keys = ByteRows::take("keys", from)?;
        let vals = Vals { offs: Offsets::take("values of keys", from)?, vals: ByteRows::take("values", from)? };
        let upds = Upds { offs: Offsets::take("updates of values", from)?, times: from.column("times")?, diffs: from.column("diffs")? };
        let fits = vals.offs.lists(keys.len(), vals.vals.len()) && is_sound(&upds, vals.vals.len(), upds.diffs.len());
        fits.then(|| RowBatch::new(RowStorage { keys, vals, upds, updates }))
    }
}

impl AsColumns for SumBatch {
    fn put<'a>(&'a self, to: &mut Columns<'a>) {
        to.count(self.updates);
        self.keys.put("keys", to);
        self.upds.offs.put("updates of keys", to);
        to.put("times", &self.upds.times);
        self.upds.diffs.put("sums", to);
    }

    /// Which keys were new is not kept: it only saves looks at batches that come before.
    fn take(from: &mut Taken<'_>) -> Option<Self> {
        let updates = from.count()?;
        let keys = ByteRows::take("keys", from)?;
        let offs = Offsets::take("updates of keys", from)?;
        let upds = Upds { offs, times: from.column("times")?, diffs: SumsContainer::take("sums", from)? };
        let fits = is_sound(&upds, keys.len(), upds.diffs.len());
        fits.then(|| SumBatch::new(SumStorage { keys, upds, updates, new: Vec::new() }))
    }
}

/// Whether lists of updates are there for so many rows, none of them the like of one before it where there is none.
fn is_sound<D: BatchContainer>(upds: &UpdateLists<D>, rows: usize, changes: usize) -> bool {
    upds.offs.lists(rows, upds.times.len()) && upds.times.len() == changes && (rows == 0 || upds.offs.index(1) > 0)
}
