//! The time of one step: rows on their way to the runtime, and when each of them happens.
//!
//! Under a wall or a manual clock, and for tables without a watermark, that is the present time. Under an event clock a row
//! of a table with a watermark happens at its own time, on the tick and at the step that is kept for such rows; nobody
//! sees it before engine time is past that. Rows of one tick so share one time, in however many batches they come.

use std::time::Instant;

use arrow::array::RecordBatch;

use super::clock::Clock;
use super::event_time::{EventTime, Stamped};
use super::reader::pick;
use super::runtime::{DataflowId, Rows, Runtime};
use super::table::Table;
use super::time::{self, EVENT_STEP, Time};
use super::watermark::{Follower, Judge, Watermarks};
use crate::connector::Op;
use crate::error::{Error, Result};

/// See the module.
pub(super) struct Moment<'a> {
    runtime: &'a Runtime,
    present: Time,
    clock: Clock,
    tick: i64,
    marks: &'a mut Watermarks,
    /// The step is complete even if nothing came at the present time.
    is_whole: bool,
    /// What happens at the present time is not complete with this step.
    is_open: bool,
}

/// Rows and when they happen.
struct Placed {
    rows: Rows,
    /// One a row; None where all happen now.
    times: Option<Vec<Time>>,
}

impl<'a> Moment<'a> {
    /// A step at the present time. `tick` is in milliseconds.
    pub fn new(runtime: &'a Runtime, present: Time, (clock, tick): (Clock, i64), marks: &'a mut Watermarks) -> Self {
        Moment { runtime, present, clock, tick, marks, is_whole: false, is_open: false }
    }

    /// The runtime, for what is a step whether or not rows come.
    pub fn whole(&mut self) -> &Runtime {
        self.is_whole = true;
        self.runtime
    }

    /// The present instant.
    pub fn now(&self) -> i64 {
        time::ms(self.present)
    }

    /// Whether rows have times of their own.
    pub fn is_event(&self) -> bool {
        self.clock == Clock::Event
    }

    /// Leaves what happens at the present time to be completed later.
    pub fn leave_open(&mut self) {
        self.is_open = true;
    }

    /// Whether the step is to be completed.
    pub fn completes(&self) -> bool {
        !self.is_open && (self.is_whole || self.runtime.is_dirty())
    }

    /// Adds rows to a table in memory. A row that has no time is an error, and then nothing is added.
    /// Returns how many were late and are not there.
    pub fn insert(&mut self, table: &Table, rows: Rows, judge: Judge) -> Result<u64> {
        let given = rows.count();
        let Placed { rows, times } = match self.event_time(table) {
            None => Placed { rows, times: None },
            Some(event) => {
                let (rows, stamped) = stamp_all(table, event, rows)?;
                self.place(Follower::Table(table.id), (table, event), rows, &stamped, judge)?
            }
        };
        let late = given - rows.count();
        self.runtime.insert(table.id, rows, times)?;
        Ok(late as u64)
    }

    /// Adds rows that a reading has given to its dataflow. Returns why some of them have no time and were left out.
    pub fn feed(&mut self, dataflow: DataflowId, table: &Table, follower: Option<Follower>, rows: Rows) -> Result<Vec<String>> {
        let mut untimed = Vec::new();
        let Placed { rows, times } = match (self.event_time(table), follower, rows) {
            (Some(event), Some(follower), rows @ (Rows::Diffs { .. } | Rows::Ops { .. })) => {
                let (rows, mut stamped) = stamp(table, event, rows)?;
                untimed = std::mem::take(&mut stamped.failed);
                self.place(follower, (table, event), rows, &stamped, Judge::Rows)?
            }
            (_, _, rows) => Placed { rows, times: None },
        };
        self.runtime.feed(dataflow, table.id, rows, times)?;
        Ok(untimed)
    }

    /// Takes note of late rows that a transaction has left out.
    pub fn count_late(&mut self, table: &str, dropped: u64) {
        self.marks.count_late(table, dropped, 0);
    }

    fn event_time<'t>(&self, table: &'t Table) -> Option<&'t EventTime> {
        table.event_time.as_ref().filter(|_| self.is_event())
    }

    fn place(
        &mut self,
        follower: Follower,
        (table, event): (&Table, &EventTime),
        rows: Rows,
        stamped: &Stamped,
        judge: Judge,
    ) -> Result<Placed> {
        let present = (self.tick, self.now(), Instant::now());
        let instants = self.marks.place(follower, stamped, (judge, event.late), |row| rows.is_added(row), present);
        let rows = rows.only(|row| instants[row].is_some())?;
        let instants: Vec<i64> = instants.into_iter().flatten().collect();
        if !self.marks.leads(follower) {
            return Ok(Placed { rows: rows.map(|rows| table.as_of(rows, &instants))?, times: None });
        }
        // What is accepted behind the present time happens now.
        let happens: Vec<i64> = instants.iter().map(|instant| self.now().max(*instant)).collect();
        let rows = rows.map(|rows| table.as_of(rows, &happens))?;
        let times = instants.into_iter().map(|instant| time::at(instant, EVENT_STEP)).collect();
        Ok(Placed { rows, times: Some(times) })
    }
}

/// Rows with their times; those that have none are left out.
fn stamp(table: &Table, event: &EventTime, rows: Rows) -> Result<(Rows, Stamped)> {
    let stamped = match &rows {
        Rows::Errors(_) => return Err(Error::invalid(format!("table '{}': errors have no time", table.name))),
        Rows::Diffs { rows, .. } => event.stamp(&table.name, rows, |_| false),
        Rows::Ops { rows, ops } => event.stamp(&table.name, rows, |row| ops[row] == Op::Delete),
    };
    let rows = match &stamped.from {
        None => rows,
        Some(from) => {
            let mut kept = from.iter().peekable();
            rows.only(|row| kept.next_if(|kept| **kept as usize == row).is_some())?
        }
    };
    Ok((rows, stamped))
}

/// Rows with their times; one that has none is an error.
pub(super) fn stamp_all(table: &Table, event: &EventTime, rows: Rows) -> Result<(Rows, Stamped)> {
    let (rows, mut stamped) = stamp(table, event, rows)?;
    match stamped.failed.is_empty() {
        true => Ok((rows, stamped)),
        false => Err(Error::Data(stamped.failed.swap_remove(0))),
    }
}

impl Rows {
    /// Whether a row is added, and not taken away.
    pub(super) fn is_added(&self, row: usize) -> bool {
        match self {
            Rows::Diffs { diffs, .. } => diffs[row] > 0,
            Rows::Ops { ops, .. } => ops[row] == Op::Upsert,
            Rows::Errors(_) => false,
        }
    }

    /// How many rows, or errors, these are.
    pub(super) fn count(&self) -> usize {
        match self {
            Rows::Diffs { diffs, .. } => diffs.len(),
            Rows::Ops { ops, .. } => ops.len(),
            Rows::Errors(errors) => errors.len(),
        }
    }

    /// Other rows in the place of these, one for one.
    fn map(self, other: impl FnOnce(RecordBatch) -> Result<RecordBatch>) -> Result<Self> {
        Ok(match self {
            Rows::Diffs { rows, diffs } => Rows::Diffs { rows: other(rows)?, diffs },
            Rows::Ops { rows, ops } => Rows::Ops { rows: other(rows)?, ops },
            errors @ Rows::Errors(_) => errors,
        })
    }

    /// Those of the rows that are to stay, asked of each in order.
    pub(super) fn only(self, mut stays: impl FnMut(usize) -> bool) -> Result<Self> {
        let count = self.count();
        let kept: Vec<u32> = (0..count).filter(|row| stays(*row)).map(|row| row as u32).collect();
        if kept.len() == count {
            return Ok(self);
        }
        Ok(match self {
            Rows::Diffs { rows, diffs } => {
                Rows::Diffs { diffs: kept.iter().map(|row| diffs[*row as usize]).collect(), rows: pick(&rows, kept)? }
            }
            Rows::Ops { rows, ops } => Rows::Ops { ops: kept.iter().map(|row| ops[*row as usize]).collect(), rows: pick(&rows, kept)? },
            errors @ Rows::Errors(_) => errors,
        })
    }
}
