//! OVER windows: each row of a partition with functions of the rows around it.
//!
//! # Cost
//!
//! Where a function at a row depends on any row of its partition ([`Reach::Partition`](crate::plan::Reach)), a change
//! recomputes the partition. Everywhere else a change recomputes the partition *from there on*: a row appended at the end
//! costs the rows in its frame and up to [`SPACING`] more, whatever is before them; one in the middle costs what comes after
//! it, which under running totals and positions is what it changes.
//!
//! For that the operator keeps, in memory and for every [`SPACING`] rows of a partition, a *checkpoint*: the row it stands
//! at, what the functions have made of the rows before it, from which row on their frames reach past it, and the row from
//! which on nothing concerns the rows before it. A change before that last row takes the checkpoint away; it is made again
//! when the rows around it are gone through. Checkpoints are recomputed when a dataflow begins, and are no state: answers
//! with and without them are the same.
//!
//! # Rows that are forgotten one by one
//!
//! Where frames are of intervals and time is the rows' own, rows go from the front of their partition when no value that can
//! still change is made of them. Behind them are rows whose values can change no more and whose frames may lack what has gone:
//! they are context for those behind them, and no part of an answer, unless something changes before them (which is
//! of a reading that catches up: what comes at one instant is all there until the next).

use std::collections::HashMap;

use differential_dataflow::trace::implementations::BatchContainer;

use super::groups::{Answer, GroupLogic, Live};
use crate::engine::time;
use crate::error::Result;
use crate::eval::{self, Mark, Prefix, Slice};
use crate::plan::{Column, WindowFunction};
use crate::row::{ByteRows, Codec, Time, milliseconds, prefix_len};

/// How many rows are between two checkpoints of a partition; peers are never parted.
const SPACING: usize = 64;

/// The rows of a partition, each with the values of window functions.
pub struct Window {
    functions: Vec<WindowFunction>,
    /// Rows of the arrangement.
    rows: Codec,
    /// Rows of nothing but the functions' values.
    outputs: Codec,
    /// The value columns of the arrangement, of which the first `order` are the order's.
    values: Vec<Column>,
    order: usize,
    resumes: bool,
    /// How many milliseconds after its time the value at a row stands, where rows are forgotten one by one.
    stands_after: Option<i64>,
    /// The time of the last rows that are context alone, in milliseconds.
    context_through: Option<i64>,
    /// The checkpoints of partitions, ascending.
    checkpoints: HashMap<Vec<u8>, Vec<Checkpoint>>,
    /// Those that the last answer adds to its partition's; None if there was no answer.
    made: Option<Vec<Checkpoint>>,
    /// How many rows have been looked at.
    #[cfg(test)]
    pub looked_at: std::rc::Rc<std::cell::Cell<usize>>,
}

/// Where a partition's answer can be taken up: see [`Mark`]. Rows are known by their values.
struct Checkpoint {
    row: Vec<u8>,
    context: Vec<u8>,
    barrier: Vec<u8>,
    before: Prefix,
}

impl Window {
    /// `values` are the value columns of the arrangement that `rows` is of.
    pub fn new(functions: &[WindowFunction], rows: Codec, outputs: Codec, values: &[Column], order: usize) -> Self {
        Window {
            functions: functions.to_vec(),
            rows,
            outputs,
            values: values.to_vec(),
            order,
            resumes: eval::resumes(functions),
            stands_after: None,
            context_through: None,
            checkpoints: HashMap::new(),
            made: None,
            #[cfg(test)]
            looked_at: Default::default(),
        }
    }

    /// The same over rows that are forgotten one by one: the value at each stands so many milliseconds after its time, which is
    /// what partitions are in the order of.
    pub fn forgetting(self, stands_after: Option<i64>) -> Self {
        Window { stands_after, ..self }
    }

    /// The time of a row, of which these are the values.
    fn time(&self, values: &[u8]) -> Option<i64> {
        milliseconds(self.values.first()?, values)
    }

    fn compute(&mut self, key: &[u8], rows: &mut dyn Live) -> Result<Answer> {
        let from = self.checkpoints.get(key).and_then(|checkpoints| checkpoints.last());
        let (mut whole, mut values, mut row, mut start) = (ByteRows::default(), ByteRows::default(), Vec::new(), 0);
        while let Some((value, count)) = rows.next() {
            let is_context = from.is_some_and(|from| value < from.row.as_slice());
            for _ in 0..count {
                row.clear();
                row.extend_from_slice(key);
                row.extend_from_slice(value);
                whole.push(&row);
                values.push(value);
                start += usize::from(is_context);
            }
        }
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + whole.len());
        let mut answer = Answer::default();
        if let Some(through) = self.context_through {
            let is_context = |row: usize| self.time(values.get(row)).is_none_or(|time| time <= through);
            start = (start..whole.len()).find(|row| !is_context(*row)).unwrap_or(whole.len());
        }
        if whole.len() == start {
            return Ok(answer);
        }
        let decoded = self.rows.decode((0..whole.len()).map(|index| whole.get(index)))?;
        let arrays = if self.resumes {
            let nothing = Prefix::default();
            let slice = Slice { rows: &decoded, start, before: from.map_or(&nothing, |from| &from.before) };
            let (arrays, marks) = eval::window_from(&self.functions, &slice, &self.candidates(&values, start)?)?;
            self.made = Some(marks.into_iter().filter_map(|mark| checkpoint(mark, &values)).collect());
            arrays
        } else {
            eval::window(&self.functions, &decoded)?
        };
        let outputs = self.outputs.encode_values(&arrays)?;
        for index in start..whole.len() {
            row.clear();
            row.extend_from_slice(values.get(index));
            if let Some(outputs) = &outputs {
                row.extend_from_slice(outputs.row(index - start).data());
            }
            answer.push(&row, 1);
        }
        Ok(answer)
    }

    /// The rows after `start` at which checkpoints may stand: each the first of its peers.
    fn candidates(&self, values: &ByteRows, start: usize) -> Result<Vec<usize>> {
        let (mut candidates, mut last) = (Vec::new(), start);
        for index in start + 1..values.len() {
            if index < last + SPACING {
                continue;
            }
            let (value, previous) = (values.get(index), values.get(index - 1));
            let len = prefix_len(&self.values, self.order, value)?;
            if previous.get(..len) != Some(&value[..len]) {
                candidates.push(index);
                last = index;
            }
        }
        Ok(candidates)
    }
}

/// The checkpoint at a mark. Copies are told apart by nothing, so its barrier is behind all those of the row before it.
fn checkpoint(mark: Mark, values: &ByteRows) -> Option<Checkpoint> {
    let barrier = (mark.barrier..values.len()).find(|row| values.get(*row) != values.get(row - 1))?;
    let value = |row: usize| values.get(row).to_vec();
    Some(Checkpoint { row: value(mark.row), context: value(mark.context), barrier: value(barrier), before: mark.before })
}

impl GroupLogic for Window {
    fn changes(&mut self, key: &[u8], first: &[u8], moment: Time) {
        self.made = None;
        let before = self.time(first).map(|first| first.saturating_sub(1));
        self.context_through = self.stands_after.map(|after| time::ms(moment).saturating_sub(after)).min(before);
        if let Some(checkpoints) = self.checkpoints.get_mut(key) {
            // Barriers ascend with the rows.
            let standing = checkpoints.partition_point(|checkpoint| checkpoint.barrier.as_slice() <= first);
            checkpoints.truncate(standing);
            if checkpoints.is_empty() {
                self.checkpoints.remove(key);
            }
        }
    }

    fn forgets_rows(&self) -> bool {
        self.stands_after.is_some()
    }

    fn expired(&mut self, key: &[u8], last: &[u8]) {
        if let Some(checkpoints) = self.checkpoints.get_mut(key) {
            // Contexts ascend with the rows.
            let gone = checkpoints.partition_point(|checkpoint| checkpoint.context.as_slice() <= last);
            checkpoints.drain(..gone);
            if checkpoints.is_empty() {
                self.checkpoints.remove(key);
            }
        }
    }

    fn is_by_moment(&self) -> bool {
        self.resumes
    }

    fn beginning(&self, key: &[u8]) -> &[u8] {
        let last = self.checkpoints.get(key).and_then(|checkpoints| checkpoints.last());
        last.map_or(&[], |checkpoint| &checkpoint.context)
    }

    fn answer(&mut self, key: &[u8], rows: &mut dyn Live) -> Answer {
        self.made = Some(Vec::new());
        self.compute(key, rows).unwrap_or_else(|error| Answer { error: Some(error.to_string()), ..Answer::default() })
    }

    fn forget(&mut self, key: &[u8]) -> bool {
        self.checkpoints.remove(key).is_some()
    }

    fn settled(&mut self, key: &[u8], answer: &Answer) {
        let made = self.made.take().unwrap_or_default();
        if answer.error.is_some() {
            self.checkpoints.remove(key);
        } else if !made.is_empty() {
            self.checkpoints.entry(key.to_vec()).or_default().extend(made);
        }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
