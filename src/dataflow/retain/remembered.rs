//! What a retained arrangement asks of the updates that it is made of.

use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::trace::Cursor;
use differential_dataflow::trace::cursor::cursor_list;

use crate::row::reclaim::{Contents, Reclaim};
use crate::row::spine::{RowBatch, Sealable, SumBatch, SumReader};
use crate::row::{Bytes, Diff, SumUpdates, Sums, Time, Updates};

/// Updates that a retained arrangement is made of: it can look at each, and find in a trace what one of them takes away.
pub trait Remembered: Sealable<Batch: Reclaim, Change: Clone> {
    /// What an update changes.
    fn change(&self, index: usize) -> Self::Change;
    /// Whether an update adds rows.
    fn adds(&self, index: usize) -> bool;
    /// How many rows a change adds.
    fn rows(change: &Self::Change) -> Diff;
    /// A change that only says how many rows there are more.
    fn of_rows(rows: Diff) -> Self::Change;
    /// A change that undoes another.
    fn negated(change: Self::Change) -> Self::Change;
    /// Adds a change to another.
    fn add(into: &mut Self::Change, change: &Self::Change);
    /// Whether a change changes nothing.
    fn is_nothing(change: &Self::Change) -> bool;
    /// Adds an update of a row, which begins with its key.
    fn give(&mut self, row: &[u8], key_len: usize, time: Time, change: &Self::Change);
    /// Takes all updates out.
    fn clear(&mut self);
    /// Where rows are looked up.
    type Reader;
    /// A reader of these batches, which is asked in ascending order.
    fn reader(batches: Vec<Self::Batch>) -> Self::Reader;
    /// Calls `each` with the rows that a trace has of those that are asked for, and what they come to.
    fn look_up(reader: &mut Self::Reader, row: &[u8], key_len: usize, asked: Asked, each: impl FnMut(&[u8], Self::Change));
}

/// Which rows are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// All under a row's key.
    Key,
    /// The row itself.
    Row,
    /// Those behind it under its key.
    Behind,
}

impl Remembered for Updates {
    fn change(&self, index: usize) -> Diff {
        self.diff(index)
    }

    fn adds(&self, index: usize) -> bool {
        self.diff(index) > 0
    }

    fn rows(change: &Diff) -> Diff {
        *change
    }

    fn of_rows(rows: Diff) -> Diff {
        rows
    }

    fn negated(change: Diff) -> Diff {
        -change
    }

    fn add(into: &mut Diff, change: &Diff) {
        *into += change;
    }

    fn is_nothing(change: &Diff) -> bool {
        *change == 0
    }

    fn give(&mut self, row: &[u8], key_len: usize, time: Time, change: &Diff) {
        self.push(&row[..key_len], &row[key_len..], time, *change);
    }

    fn clear(&mut self) {
        Updates::clear(self);
    }

    type Reader = Contents<RowBatch>;

    fn reader(batches: Vec<RowBatch>) -> Contents<RowBatch> {
        cursor_list(batches)
    }

    fn look_up((cursor, storage): &mut Contents<RowBatch>, row: &[u8], key_len: usize, asked: Asked, mut each: impl FnMut(&[u8], Diff)) {
        let (key, value) = row.split_at(key_len);
        cursor.seek_key(storage, Bytes(key));
        if cursor.get_key(storage) != Some(Bytes(key)) {
            return;
        }
        cursor.rewind_vals(storage);
        if asked != Asked::Key {
            cursor.seek_val(storage, Bytes(value));
        }
        if asked == Asked::Behind && cursor.get_val(storage) == Some(Bytes(value)) {
            cursor.step_val(storage);
        }
        let mut found = Vec::new();
        while let Some(value_there) = cursor.get_val(storage) {
            if asked == Asked::Row && value_there != Bytes(value) {
                break;
            }
            let mut count = 0;
            cursor.map_times(storage, |_, diff| count += diff);
            if count != 0 {
                found.clear();
                found.extend_from_slice(key);
                found.extend_from_slice(value_there.0);
                each(&found, count);
            }
            cursor.step_val(storage);
        }
    }
}

impl Remembered for SumUpdates {
    fn change(&self, index: usize) -> Sums {
        self.sums(index).clone()
    }

    fn adds(&self, index: usize) -> bool {
        self.sums(index).rows() > 0
    }

    fn rows(change: &Sums) -> Diff {
        change.rows()
    }

    fn of_rows(rows: Diff) -> Sums {
        Sums::of_rows(rows)
    }

    fn negated(change: Sums) -> Sums {
        change.negated()
    }

    fn add(into: &mut Sums, change: &Sums) {
        into.plus_equals(change);
    }

    fn is_nothing(change: &Sums) -> bool {
        change.is_zero()
    }

    fn give(&mut self, row: &[u8], _: usize, time: Time, change: &Sums) {
        self.push(row, time, change.clone());
    }

    fn clear(&mut self) {
        SumUpdates::clear(self);
    }

    type Reader = SumReader;

    fn reader(batches: Vec<SumBatch>) -> SumReader {
        SumReader::new(batches)
    }

    fn look_up(reader: &mut SumReader, row: &[u8], _: usize, _: Asked, mut each: impl FnMut(&[u8], Sums)) {
        let total = reader.total(row);
        if !total.is_zero() {
            each(row, total);
        }
    }
}
