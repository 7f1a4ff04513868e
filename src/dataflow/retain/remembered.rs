//! What a retained arrangement asks of the updates that it is made of.

use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::trace::Span;

use crate::row::batch::{RowBatch, RowStorage, SumBatch, SumStorage};
use crate::row::reader::KeyReader;
use crate::row::reclaim::Reclaim;
use crate::row::spine::Sealable;
use crate::row::{Diff, SumUpdates, Sums, Time, Updates};

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
    /// A reader of a trace, which is asked in ascending order.
    fn reader(spans: Vec<Span<Time, Self::Batch>>) -> Self::Reader;
    /// Calls `each` with the rows that a trace has of those that are asked for, and what they come to. All that happened to
    /// them did before `until`.
    fn look_up(reader: &mut Self::Reader, row: &[u8], key_len: usize, asked: Asked, until: Time, each: impl FnMut(&[u8], Self::Change));
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

    type Reader = KeyReader<RowStorage>;

    fn reader(spans: Vec<Span<Time, RowBatch>>) -> KeyReader<RowStorage> {
        KeyReader::new(spans)
    }

    fn look_up(
        reader: &mut KeyReader<RowStorage>,
        row: &[u8],
        key_len: usize,
        asked: Asked,
        until: Time,
        mut each: impl FnMut(&[u8], Diff),
    ) {
        let (key, value) = row.split_at(key_len);
        let mut found = key.to_vec();
        let of_value = |value: &[u8], count| {
            found.truncate(key_len);
            found.extend_from_slice(value);
            each(&found, count);
        };
        match asked {
            Asked::Key => reader.values(key, None, until, of_value),
            Asked::Row => reader.values(key, Some(value), until, of_value),
            Asked::Behind => reader.values_behind(key, value, until, of_value),
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

    type Reader = KeyReader<SumStorage>;

    fn reader(spans: Vec<Span<Time, SumBatch>>) -> KeyReader<SumStorage> {
        KeyReader::new(spans)
    }

    fn look_up(reader: &mut KeyReader<SumStorage>, row: &[u8], _: usize, _: Asked, until: Time, mut each: impl FnMut(&[u8], Sums)) {
        let total = reader.total(row, until);
        if !total.is_zero() {
            each(row, total);
        }
    }
}
