//! A relation's rows whose time has not come.
//!
//! Under an event clock rows come before engine time is where they happen. They wait here, at the door: when everything
//! before a time has been worked off, nothing of a later one is on its way through the dataflow, so that a checkpoint need
//! not look for it there.
//!
//! A batch is put in order of time once, and from then on handed out in slices.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;

use super::columnar::{ColumnBatch, Times};
use super::state::State;
use crate::error::Result;
use crate::row::{Codec, Diff, Time};

/// See the module.
pub struct Ahead {
    codec: Codec,
    waiting: Vec<Waiting>,
}

/// Rows in order of time, of which those up to `next` have been handed out.
struct Waiting {
    rows: RecordBatch,
    times: Vec<Time>,
    diffs: Option<Arc<[Diff]>>,
    next: usize,
}

impl Ahead {
    /// The rows that were found.
    pub fn new(codec: Codec, found: &State) -> Result<Self> {
        let mut ahead = Ahead { codec, waiting: Vec::new() };
        for rows in &found.apart {
            let batch = ahead.codec.decode((0..rows.len()).map(|index| rows.row(index)).collect::<Vec<_>>().into_iter())?;
            let diffs = (0..rows.len()).map(|index| rows.diff(index)).collect();
            ahead.waiting.push(Waiting { rows: batch, times: rows.times().to_vec(), diffs: Some(diffs), next: 0 });
        }
        Ok(ahead)
    }

    /// All that waits, for a checkpoint.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        for waiting in &self.waiting {
            let at = |row: usize| (waiting.times[row + waiting.next], waiting.diffs.as_ref().map_or(1, |diffs| diffs[row + waiting.next]));
            let left = waiting.rows.slice(waiting.next, waiting.times.len() - waiting.next);
            self.codec.encode(&left, at, |updates| state.apart.push(updates))?;
        }
        Ok(state)
    }

    /// Takes rows in, and hands out those that happen now.
    pub fn take(&mut self, batch: ColumnBatch, now: Time) -> Result<Option<ColumnBatch>> {
        let Times::Each(times) = &batch.times else { return Ok(Some(batch)) };
        if times.iter().all(|time| *time <= now) {
            return Ok(Some(batch));
        }
        let mut waiting = Waiting::new(batch.rows, times.to_vec(), batch.diffs)?;
        let first = waiting.before(now + 1);
        self.waiting.push(waiting);
        Ok(first)
    }

    /// Hands out what happens before a time, in the order in which it came.
    pub fn release(&mut self, to: Time, mut give: impl FnMut(ColumnBatch)) {
        self.waiting.iter_mut().filter_map(|waiting| waiting.before(to)).for_each(&mut give);
        self.waiting.retain(|waiting| waiting.next < waiting.times.len());
    }
}

impl Waiting {
    /// Puts rows in order of time; those of one time stay in theirs.
    fn new(rows: RecordBatch, times: Vec<Time>, diffs: Option<Arc<[Diff]>>) -> Result<Self> {
        if times.is_sorted() {
            return Ok(Waiting { rows, times, diffs, next: 0 });
        }
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        order.sort_by_key(|row| times[*row as usize]);
        let of = |row: &u32| *row as usize;
        Ok(Waiting {
            times: order.iter().map(|row| times[of(row)]).collect(),
            diffs: diffs.map(|diffs| order.iter().map(|row| diffs[of(row)]).collect()),
            rows: take_record_batch(&rows, &UInt32Array::from(order))?,
            next: 0,
        })
    }

    /// The rows that happen before a time and have not been handed out.
    fn before(&mut self, to: Time) -> Option<ColumnBatch> {
        let (start, end) = (self.next, self.times.partition_point(|time| *time < to));
        if start >= end {
            return None;
        }
        self.next = end;
        let times = &self.times[start..end];
        Some(ColumnBatch {
            rows: self.rows.slice(start, end - start),
            times: if times[0] == times[times.len() - 1] { Times::At(times[0]) } else { Times::Each(times.into()) },
            diffs: self.diffs.as_ref().map(|diffs| diffs[start..end].into()),
        })
    }
}
