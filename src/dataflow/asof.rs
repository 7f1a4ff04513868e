//! As-of joins: each left row with the one right row of its key that is nearest to it in time, on one side of it.
//!
//! The values of both sides begin with a time, left times and right times sorted in *opposite* directions. So the match of a
//! left row is the first right row, in order, at or behind its time's [place](Matching::place) on the right; and the
//! left rows that a right row can be the match of are those at or behind the right row's place on the left, up to the
//! first whose match is nearer. Both are found by seeking. Which direction is which only the sorting knows.
//!
//! What happens to a key between two frontiers is not worked off moment by moment but along its left rows, once, with the
//! match [at every moment](Matches) at hand. While that is one and the same, left rows that do not change are passed over,
//! by seeking. So the change of a left row costs a look at its match, and the change of a right row costs the left rows
//! whose match it is, or was; however many moments there are, and however many rows of the key.
//!
//! Of right rows with one time the first in order is taken. A left time of NULL has no match; right times are never NULL.

mod matches;

use std::ops::Bound;

use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::Cursor;
use differential_dataflow::trace::implementations::BatchContainer;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::arrange::{Held, Output, Reading};
use super::sweep::{Group, Sweep, TURN};
use crate::row::batch::RowBatch;
use crate::row::reclaim::Reclaiming;
use crate::row::spine::RowTrace;
use crate::row::{ByteRows, Bytes, Diff, Time, Updates, UpdatesBuilder};
use matches::{Match, Matches, Period, Rights};

/// What a match is.
#[derive(Debug, Clone)]
pub struct Matching {
    /// How many bytes a time takes: all take as many.
    pub width: usize,
    /// Whether a right row with the left row's own time is none.
    pub strict: bool,
    /// The right value of a left row without a match; None where there is no row then.
    pub absent: Option<Vec<u8>>,
}

/// The first byte of an encoded value that is not NULL.
const PRESENT: u8 = 1;

impl Matching {
    /// Where the times of the other side begin that are at (or, if that is no match, behind) the time that `value` begins
    /// with. Gives whether there can be any.
    fn place(&self, value: &[u8], into: &mut Vec<u8>) -> bool {
        into.clear();
        into.extend_from_slice(&value[..self.width]);
        if into[0] != PRESENT {
            return false;
        }
        into[1..].iter_mut().for_each(|byte| *byte = !*byte);
        !self.strict || increment(&mut into[1..])
    }
}

/// The next greater string of as many bytes; false if there is none.
fn increment(bytes: &mut [u8]) -> bool {
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return true;
        }
    }
    false
}

/// `key ++ left value ++ right value` for every left row and its match.
pub fn asof<'s>(left: Arranged<'s, RowTrace>, right: Arranged<'s, RowTrace>, as_of: Time, matching: Matching) -> Stream<'s, Time, Updates> {
    let scope = left.stream.scope();
    let mut builder = OperatorBuilder::new("AsOf".to_owned(), scope);
    let activator = scope.activator_for(builder.operator_info().address);
    let mut left_input = builder.new_input(left.stream, Pipeline);
    let mut right_input = builder.new_input(right.stream, Pipeline);
    let (output, rows) = builder.new_output();
    let mut join = Join::new(left.trace, right.trace, as_of, matching);
    builder.build(move |_| {
        let mut output = Output::from(output);
        let mut held = Held::new(1);
        move |frontiers| {
            left_input.for_each(|capability, spans| {
                held.hold(&capability);
                join.left.receive(spans);
            });
            right_input.for_each(|capability, spans| {
                held.hold(&capability);
                join.right.receive(spans);
            });
            join.left.follow(frontiers[0].frontier());
            join.right.follow(frontiers[1].frontier());
            let frontier = frontiers.iter().filter_map(|frontier| frontier.frontier().first().copied()).min();
            let mut rows = UpdatesBuilder::default();
            let through = join.work(frontier, &mut rows);
            held.send(0, rows, &mut output);
            let Some(through) = through else { return activator.activate() };
            held.downgrade(if join.is_pending() { through } else { None });
            if through != frontier {
                activator.activate();
            }
        }
    });
    rows
}

/// The operator's state: what it reads, and how far that is worked off.
struct Join {
    matching: Matching,
    as_of: Time,
    left: Reading<RowBatch>,
    right: Reading<RowBatch>,
    at_work: Option<AtWork>,
}

/// What has come of both sides and happens before `through`.
struct AtWork {
    left: Sweep<RowBatch>,
    right: Sweep<RowBatch>,
    through: Option<Time>,
}

impl Join {
    fn new(left: TraceAgent<Reclaiming<RowBatch>>, right: TraceAgent<Reclaiming<RowBatch>>, as_of: Time, matching: Matching) -> Self {
        Join { matching, as_of, left: Reading::new(left, as_of), right: Reading::new(right, as_of), at_work: None }
    }

    fn is_pending(&self) -> bool {
        self.left.is_pending() || self.right.is_pending()
    }

    /// Works off about a turn's changes of what has come and happens before `frontier`. Gives the time before which all has
    /// been worked off then; None where the rest waits for another turn.
    fn work(&mut self, frontier: Option<Time>, rows: &mut UpdatesBuilder) -> Option<Option<Time>> {
        let is_whole = frontier.is_none_or(|frontier| frontier > self.as_of);
        if self.at_work.is_none() && is_whole && self.is_pending() {
            self.at_work = Some(AtWork { left: self.left.sweep(frontier), right: self.right.sweep(frontier), through: frontier });
        }
        let mut through = frontier;
        if let Some(at_work) = &mut self.at_work {
            if !at_work.turn(&self.matching, rows) {
                return None;
            }
            through = at_work.through;
            self.at_work = None;
        }
        self.left.finish(through);
        self.right.finish(through);
        Some(through)
    }
}

impl AtWork {
    /// Works off about a turn's changes. Returns whether all have been.
    fn turn(&mut self, matching: &Matching, rows: &mut UpdatesBuilder) -> bool {
        let period = Period { from: self.left.from, through: self.left.through };
        let (mut key, mut changes, mut done) = (Vec::new(), Changes::default(), 0);
        while done < TURN {
            let Some(Bytes(least)) = self.left.key().into_iter().chain(self.right.key()).min() else { return true };
            key.clear();
            key.extend_from_slice(least);
            changes.left.clear();
            changes.right.clear();
            if self.left.key() == Some(Bytes(&key)) {
                take(&mut self.left, period, |_| true, &mut changes.left);
            }
            if self.right.key() == Some(Bytes(&key)) {
                // No left row has one without a place as its match.
                take(&mut self.right, period, |value| matching.place(value, &mut changes.place), &mut changes.right);
            }
            let mut work = 1;
            // Where there are no left rows, nor were any, there is nothing to match.
            if let (false, Some(left)) = (changes.is_empty(), self.left.group(&key)) {
                let right = self.right.group(&key).map(|right| Rights::new(right, period));
                let rows = Rows { key: &key, absent: matching.absent.as_deref(), into: &mut *rows, pushed: 0 };
                work += Key { matching, period, left, right, events: Vec::new(), rows }.work(&mut changes);
            }
            #[cfg(test)]
            tests::DONE.set(tests::DONE.get() + work);
            done += work;
        }
        false
    }
}

/// What changes of a key: values of both sides, in order.
#[derive(Default)]
struct Changes {
    left: ByteRows,
    right: ByteRows,
    place: Vec<u8>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.left.len() == 0 && self.right.len() == 0
    }
}

/// Takes the values of a side's next key that change in a period and are `wanted`, and goes on to the key after it.
fn take(sweep: &mut Sweep<RowBatch>, period: Period, mut wanted: impl FnMut(&[u8]) -> bool, into: &mut ByteRows) {
    let as_of = sweep.as_of;
    let (cursor, storage) = &mut sweep.changes;
    while let Some(Bytes(value)) = cursor.get_val(storage) {
        let mut changes = false;
        cursor.map_times(storage, |time, _| changes |= period.contains(as_of.max(*time)));
        if changes && wanted(value) {
            into.push(value);
        }
        cursor.step_val(storage);
    }
    sweep.step();
}

/// A key that changes, and all that there is of it.
struct Key<'a> {
    matching: &'a Matching,
    period: Period,
    left: Group<'a, RowBatch>,
    right: Option<Rights<'a>>,
    /// What happens to the left row at hand.
    events: Vec<(Time, Diff)>,
    rows: Rows<'a>,
}

impl Key<'_> {
    /// Emits what the changes come to. Gives how much work that was, in rows.
    fn work(&mut self, changes: &mut Changes) -> usize {
        let Changes { left, right, place } = changes;
        if self.right.is_none() {
            right.clear();
        }
        let mut lefts = (0..left.len()).map(|index| left.get(index)).peekable();
        // In the order in which left rows come to where they can be their matches.
        let mut rights = (0..right.len()).rev().map(|index| right.get(index)).peekable();
        let (mut matches, mut looked_at) = (Matches::default(), 0);
        loop {
            if !matches.is_moving() {
                // Nothing changes before one of these.
                let right = rights.peek().filter(|right| self.matching.place(right, place)).map(|_| &place[..]);
                let Some(next) = lefts.peek().copied().into_iter().chain(right).min() else { break };
                self.left.cursor.seek_val(self.left.storage, Bytes(next));
            }
            let Some(Bytes(value)) = self.left.cursor.get_val(self.left.storage) else { break };
            while lefts.next_if(|left| *left <= value).is_some() {}
            if !self.matching.place(value, place) {
                self.emit(value, &Matches::default());
            } else {
                if let Some(right) = &mut self.right {
                    right.approach(place, &mut rights, &mut matches);
                }
                self.emit(value, &matches);
            }
            self.left.cursor.step_val(self.left.storage);
            looked_at += 1;
        }
        looked_at + self.rows.pushed + self.right.as_ref().map_or(0, |right| right.looked_at)
    }

    /// Emits what happens to the left row under the cursor and to its match.
    fn emit(&mut self, value: &[u8], matches: &Matches<'_>) {
        let mut count = self.period.history(&mut self.left, &mut self.events);
        let mut since = Bound::Unbounded;
        for (time, diff) in &self.events {
            self.rows.rematch(value, count, matches.changes((since, Bound::Excluded(*time))));
            let (was, is) = (matches.before(*time), matches.after(*time));
            if was == is {
                self.rows.push(value, is, *time, *diff);
            } else {
                self.rows.push(value, was, *time, -count);
                self.rows.push(value, is, *time, count + diff);
            }
            count += diff;
            since = Bound::Excluded(*time);
        }
        self.rows.rematch(value, count, matches.changes((since, Bound::Unbounded)));
    }
}

/// What is emitted of a key.
struct Rows<'a> {
    key: &'a [u8],
    absent: Option<&'a [u8]>,
    into: &'a mut UpdatesBuilder,
    pushed: usize,
}

impl Rows<'_> {
    fn push(&mut self, value: &[u8], found: Match<'_>, time: Time, diff: Diff) {
        if let (Some(right), true) = (found.or(self.absent), diff != 0) {
            self.into.push(self.key, &[value, right], time, diff);
            self.pushed += 1;
        }
    }

    /// A left row that is there so often has one match after the other.
    fn rematch<'m>(&mut self, value: &[u8], count: Diff, changes: impl Iterator<Item = (Time, [Match<'m>; 2])>) {
        if count != 0 {
            for (time, [was, is]) in changes {
                self.push(value, was, time, -count);
                self.push(value, is, time, count);
            }
        }
    }
}

#[cfg(test)]
mod tests;
