//! The batch that a decoder is filling, and the account of what it could not decode.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::column::{Bytes, Members, shown};
use crate::connector::options::Options;
use crate::connector::pace::BATCH;
use crate::connector::{Op, Place, Skipped, SourceBatch};
use crate::error::Result;

/// How many messages are kept under `skip`.
const KEPT: usize = 5;

/// Rows so far: one element a row in every column, faulty rows included until [`Rows::take`] drops them.
pub struct Rows {
    schema: arrow::datatypes::SchemaRef,
    pub members: Members,
    /// One a row, where the format has changes; else None.
    pub ops: Option<Vec<Op>>,
    pub place: Place,
    /// How many rows, or errors, make a full batch.
    pub batch: usize,
    len: usize,
    bad: Vec<usize>,
    errors: Vec<String>,
    skip: bool,
    /// What `skip` has left out so far.
    pub skipped: Skipped,
}

impl Rows {
    /// No rows yet. `changes` says whether every row comes with an [`Op`].
    pub fn new(options: &Options, bytes: Bytes, changes: bool) -> Result<Self> {
        Ok(Rows {
            schema: options.spec.schema.clone(),
            members: Members::new(options.spec.schema.fields(), bytes)?,
            ops: changes.then(Vec::new),
            place: Place::default(),
            batch: BATCH,
            len: 0,
            bad: Vec::new(),
            errors: Vec::new(),
            skip: options.choice("on_error", &["fail", "skip"])? == 1,
            skipped: Skipped::default(),
        })
    }

    /// How many more rows, or errors, make a full batch.
    pub fn room(&self) -> usize {
        self.batch.saturating_sub(self.len + self.errors.len())
    }

    /// How much room so many errors take.
    pub fn weight_of(&self, errors: usize) -> usize {
        if self.skip { 0 } else { errors }
    }

    /// Whether there is anything to take.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.errors.is_empty()
    }

    /// How many rows there are, faulty ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Counts rows that were appended to all columns.
    pub fn appended(&mut self, rows: usize) {
        self.len += rows;
    }

    /// Marks a row, by its number in this batch, as one to drop. Rows are marked in ascending order.
    pub fn drop_row(&mut self, row: usize) {
        debug_assert!(self.bad.last().is_none_or(|last| *last < row));
        self.bad.push(row);
    }

    /// Tells of a row that cannot be decoded, on a line of the present file.
    pub fn reject(&mut self, line: u64, message: &str) {
        let describe = || format!("{}, line {line}{message}", self.place.file);
        if !self.skip {
            self.errors.push(describe());
            return;
        }
        if self.skipped.first.len() < KEPT {
            let message = describe();
            self.skipped.first.push(message);
        }
        self.skipped.rows += 1;
    }

    /// The rows so far, without the faulty ones.
    pub fn take(&mut self) -> Result<SourceBatch> {
        let columns = self.members.columns.iter_mut().map(|column| column.finish()).collect::<Result<Vec<_>>>()?;
        let rows = std::mem::take(&mut self.len);
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let mut batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        let mut ops = self.ops.as_mut().map(std::mem::take);
        let bad = std::mem::take(&mut self.bad);
        if !bad.is_empty() {
            let mut keep = vec![true; rows];
            bad.iter().for_each(|&row| keep[row] = false);
            if let Some(ops) = &mut ops {
                let mut kept = keep.iter();
                ops.retain(|_| kept.next().copied().unwrap_or(true));
            }
            batch = filter_record_batch(&batch, &BooleanArray::from(keep))?;
        }
        Ok(SourceBatch { rows: batch, ops, errors: std::mem::take(&mut self.errors) })
    }
}

/// The change that a changelog's `op` field names.
pub fn op(text: &str) -> Result<Op, String> {
    match text {
        "+I" | "+U" => Ok(Op::Upsert),
        "-U" | "-D" => Ok(Op::Delete),
        _ => Err(format!("'{}' is not one of +I, -U, +U, -D", shown(text))),
    }
}
