//! As-of joins: each left row with the one right row of its key that is nearest to it in time, on one side of it.
//!
//! The values of both sides begin with a time, left times and right times sorted in *opposite* directions. So the match of a
//! left row is the first right row, in order, at or behind its time's [place](Matching::place) on the right; and the
//! left rows that a right row can be the match of are those at or behind the right row's place on the left, up to the
//! first whose match is nearer. Both are found by seeking, so that a change of a left row costs a look at its match, and a change of a
//! right row costs the left rows whose match it is, or was. Which direction is which only the sorting knows.
//!
//! Of right rows with one time the first in order is taken. A left time of NULL has no match; right times are never NULL.

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
        let (mut key, mut changes, mut done) = (Vec::new(), Changes::default(), 0);
        while done < TURN {
            let Some(Bytes(least)) = self.left.key().into_iter().chain(self.right.key()).min() else { return true };
            key.clear();
            key.extend_from_slice(least);
            changes.clear();
            if self.left.key() == Some(Bytes(&key)) {
                changes.take(&mut self.left, Side::Left, matching);
            }
            if self.right.key() == Some(Bytes(&key)) {
                changes.take(&mut self.right, Side::Right, matching);
            }
            done += 1 + changes.entries.len();
            // Where there are no left rows, nor were any, there is nothing to match.
            if let (false, Some(left)) = (changes.entries.is_empty(), self.left.group(&key)) {
                Key { matching, key: &key, left, right: self.right.group(&key), place: Vec::new() }.emit(&changes.sorted(), rows);
            }
        }
        false
    }
}

/// Which side a change is of. At one place a right row is looked at before the left rows that it is the match of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Right,
    Left,
}

/// What changes of a key.
#[derive(Default)]
struct Changes {
    /// Of the left side values, of the right side their places on the left.
    places: ByteRows,
    entries: Vec<(Time, usize, Side)>,
}

/// A change: when, where in the order of left values, and of which side.
type Moved<'a> = (Time, &'a [u8], Side);

impl Changes {
    fn clear(&mut self) {
        self.places.clear();
        self.entries.clear();
    }

    /// Takes what changes of a side's next key, and goes on to the key after it.
    fn take(&mut self, sweep: &mut Sweep<RowBatch>, side: Side, matching: &Matching) {
        let (as_of, from, through) = (sweep.as_of, sweep.from, sweep.through);
        let mut place = Vec::new();
        let (cursor, storage) = &mut sweep.changes;
        while let Some(Bytes(value)) = cursor.get_val(storage) {
            let row = self.entries.last().map_or(0, |(_, row, _)| row + 1);
            let before = self.entries.len();
            if side == Side::Left || matching.place(value, &mut place) {
                cursor.map_times(storage, |time, _| {
                    let time = as_of.max(*time);
                    if time >= from && through.is_none_or(|through| time < through) {
                        self.entries.push((time, row, side));
                    }
                });
            }
            if self.entries.len() > before {
                self.places.push(if side == Side::Left { value } else { &place });
            }
            cursor.step_val(storage);
        }
        sweep.step();
    }

    /// The changes by time and place, each once.
    fn sorted(&self) -> Vec<Moved<'_>> {
        let mut sorted: Vec<Moved<'_>> = self.entries.iter().map(|(time, row, side)| (*time, self.places.get(*row), *side)).collect();
        sorted.sort_unstable();
        sorted.dedup();
        sorted
    }
}

/// A key that changes, and all that there is of it.
struct Key<'a> {
    matching: &'a Matching,
    key: &'a [u8],
    left: Group<'a, RowBatch>,
    right: Option<Group<'a, RowBatch>>,
    place: Vec<u8>,
}

/// The match of left rows that are asked for in ascending order, counting right updates before `until`. What was passed
/// over once as not there is not looked at again.
struct Lookup<'a> {
    until: Time,
    /// The first right row at or behind the place that was asked for last,
    first: Option<&'a [u8]>,
    /// and the first from there on that is there.
    found: Option<&'a [u8]>,
}

impl<'a> Key<'a> {
    /// Emits what these changes come to.
    fn emit(&mut self, changes: &[Moved<'_>], rows: &mut UpdatesBuilder) {
        for at_once in changes.chunk_by(|a, b| a.0 == b.0) {
            self.moment(at_once[0].0, at_once, rows);
        }
    }

    /// Emits what the changes of one moment come to: looks at each left row that one of them may concern, once.
    fn moment(&mut self, time: Time, changes: &[Moved<'_>], rows: &mut UpdatesBuilder) {
        let mut before = Lookup { until: time, first: None, found: None };
        let mut after = Lookup { until: time + 1, first: None, found: None };
        self.left.cursor.rewind_vals(self.left.storage);
        for (_, place, side) in changes {
            // Left rows before the one that the cursor stands at have been looked at.
            self.left.cursor.seek_val(self.left.storage, Bytes(place));
            while let Some(Bytes(value)) = self.left.cursor.get_val(self.left.storage) {
                if *side == Side::Left && value != *place {
                    break;
                }
                let matches = (self.find(value, &mut before), self.find(value, &mut after));
                if *side == Side::Right && self.is_nearer(matches.0, place) && self.is_nearer(matches.1, place) {
                    break;
                }
                self.emit_row(value, matches, time, rows);
                self.left.cursor.step_val(self.left.storage);
            }
        }
    }

    /// The match of a left row.
    fn find(&mut self, left: &[u8], lookup: &mut Lookup<'a>) -> Option<&'a [u8]> {
        let Group { cursor, storage, .. } = self.right.as_mut()?;
        let storage: &'a Vec<RowBatch> = storage;
        if !self.matching.place(left, &mut self.place) {
            return None;
        }
        cursor.rewind_vals(storage);
        cursor.seek_val(storage, Bytes(&self.place));
        let first = cursor.get_val(storage)?.0;
        let mut found = None;
        while let Some(Bytes(value)) = self.right.as_ref().and_then(|right| right.cursor.get_val(storage)) {
            if lookup.first.is_some_and(|known| value >= known) {
                found = lookup.found;
                break;
            }
            let right = self.right.as_mut()?;
            if right.count(lookup.until) > 0 {
                found = Some(value);
                break;
            }
            right.cursor.step_val(storage);
        }
        (lookup.first, lookup.found) = (Some(first), found);
        found
    }

    /// Whether a match is nearer to left rows from `place` on than the right rows that have this place.
    fn is_nearer(&mut self, right: Option<&[u8]>, place: &[u8]) -> bool {
        right.is_some_and(|right| self.matching.place(right, &mut self.place) && self.place.as_slice() > place)
    }

    /// Emits what leads from a left row with its match before a moment to the same after it.
    fn emit_row(&mut self, value: &[u8], (before, after): (Option<&[u8]>, Option<&[u8]>), time: Time, rows: &mut UpdatesBuilder) {
        let (was, is) = (self.left.count(time), self.left.count(time + 1));
        let mut push = |right: Option<&[u8]>, diff: Diff| {
            if let (Some(right), true) = (right.or(self.matching.absent.as_deref()), diff != 0) {
                rows.push(self.key, &[value, right], time, diff);
            }
        };
        if before == after {
            push(after, is - was);
        } else {
            push(before, -was);
            push(after, is);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use timely::dataflow::operators::core::{Input as _, Probe};

    use super::*;
    use crate::dataflow::arrange::arrange_rows;
    use crate::dataflow::join::map_containers;
    use crate::dataflow::state::States;

    const END: Time = 8;

    /// A key, a time and an identity.
    type Row = (u8, u8, u8);

    /// Rows that come and go: each change has a time, and no row is there less than zero times.
    fn history(rng: &mut StdRng) -> Vec<(Row, Time, Diff)> {
        let mut there: BTreeMap<Row, Diff> = BTreeMap::new();
        let mut times: Vec<Time> = (0..60).map(|_| rng.random_range(1..END)).collect();
        times.sort_unstable();
        let change = |time| {
            let held: Vec<Row> = there.iter().filter(|(_, count)| **count > 0).map(|(row, _)| *row).collect();
            let (row, diff) = match held.as_slice() {
                [_, ..] if rng.random_bool(0.4) => (held[rng.random_range(0..held.len())], -1),
                _ => ((rng.random_range(0..2), rng.random_range(0..9), rng.random_range(0..3)), 1),
            };
            *there.entry(row).or_default() += diff;
            (row, time, diff)
        };
        times.into_iter().map(change).collect()
    }

    fn at(history: &[(Row, Time, Diff)], until: Time) -> BTreeMap<Row, Diff> {
        let mut there = BTreeMap::new();
        history.iter().filter(|(_, time, _)| *time < until).for_each(|(row, _, diff)| *there.entry(*row).or_default() += diff);
        there.retain(|_, count| *count != 0);
        there
    }

    type Pairs = BTreeMap<(Row, Option<Row>), Diff>;

    /// The join run from scratch: the latest right row, of those the one with the least identity.
    fn joined(left: &BTreeMap<Row, Diff>, right: &BTreeMap<Row, Diff>, strict: bool, outer: bool) -> Pairs {
        let nearest = |row: &Row| {
            let is_match = |other: &&Row| other.0 == row.0 && if strict { other.1 < row.1 } else { other.1 <= row.1 };
            right.keys().filter(is_match).max_by_key(|other| (other.1, std::cmp::Reverse(other.2))).copied()
        };
        let pairs = left.iter().map(|(row, count)| ((*row, nearest(row)), *count));
        pairs.filter(|((_, found), _)| outer || found.is_some()).collect()
    }

    fn send(input: &mut crate::dataflow::render::ClockInput, history: &[(Row, Time, Diff)], times: std::ops::Range<Time>, mirrored: bool) {
        let mut updates = Updates::default();
        for ((key, time, id), at, diff) in history.iter().filter(|(_, at, _)| times.contains(at)) {
            updates.push(&[*key], &[PRESENT, if mirrored { !time } else { *time }, *id], *at, *diff);
        }
        input.send_batch(&mut updates);
        input.advance_to(times.end);
    }

    /// What the operator gives at each time, where this many times come as one batch.
    fn output(left: &[(Row, Time, Diff)], right: &[(Row, Time, Diff)], strict: bool, outer: bool, batch: usize) -> BTreeMap<Time, Pairs> {
        let (left, right) = (left.to_vec(), right.to_vec());
        timely::execute_directly(move |worker| {
            let seen: Rc<RefCell<BTreeMap<Time, Pairs>>> = Rc::default();
            let into = Rc::clone(&seen);
            let (mut lefts, mut rights, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (lefts, left) = scope.new_input_with_builder::<UpdatesBuilder>();
                let (rights, right) = scope.new_input_with_builder::<UpdatesBuilder>();
                let matching = Matching { width: 2, strict, absent: outer.then(Vec::new) };
                let rows = asof(
                    arrange_rows(left, "Left", &mut States::default()),
                    arrange_rows(right, "Right", &mut States::default()),
                    0,
                    matching,
                );
                let rows = map_containers(rows, move |updates| {
                    for index in 0..updates.len() {
                        let (key, value) = (updates.key(index)[0], updates.value(index));
                        let found = (value.len() > 3).then(|| (key, !value[4], value[5]));
                        let pairs = &mut *into.borrow_mut();
                        *pairs.entry(updates.time(index)).or_default().entry(((key, value[1], value[2]), found)).or_default() +=
                            updates.diff(index);
                    }
                    updates
                });
                (lefts, rights, rows.probe().0)
            });
            for from in (0..END).step_by(batch) {
                let times = from..END.min(from + batch as Time);
                send(&mut lefts, &left, times.clone(), false);
                send(&mut rights, &right, times.clone(), true);
                worker.step_while(|| probe.less_than(&times.end));
            }
            let mut seen = seen.take();
            seen.values_mut().for_each(|pairs| pairs.retain(|_, diff| *diff != 0));
            seen.retain(|_, pairs| !pairs.is_empty());
            seen
        })
    }

    #[test]
    fn what_comes_at_each_moment_leads_from_the_join_before_it_to_the_join_after_it_however_moments_are_batched() {
        for seed in 0..40 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (left, right) = (history(&mut rng), history(&mut rng));
            let (strict, outer) = (seed % 2 == 0, seed % 4 < 2);
            let mut expected: BTreeMap<Time, Pairs> = BTreeMap::new();
            for time in 0..END {
                let run = |until| joined(&at(&left, until), &at(&right, until), strict, outer);
                let mut change = run(time + 1);
                run(time).into_iter().for_each(|(pair, count)| *change.entry(pair).or_default() -= count);
                change.retain(|_, diff| *diff != 0);
                if !change.is_empty() {
                    expected.insert(time, change);
                }
            }
            for batch in [1, 3, END as usize] {
                assert_eq!(output(&left, &right, strict, outer, batch), expected, "seed {seed}, {batch} moments a batch");
            }
        }
    }

    #[test]
    fn the_place_of_a_time_on_the_other_side_is_its_mirror_image_or_the_next_one() {
        let place = |strict, value: &[u8]| {
            let mut place = vec![];
            Matching { width: 3, strict, absent: None }.place(value, &mut place).then_some(place)
        };
        assert_eq!(place(false, &[1, 0, 255, 7]), Some(vec![1, 255, 0]));
        assert_eq!(place(true, &[1, 0, 0x10, 7]), Some(vec![1, 255, 0xf0]));
        assert_eq!(place(true, &[1, 1, 0, 7]), Some(vec![1, 255, 0]));
        // Nothing is beyond the least time, and NULL has no place.
        assert_eq!(place(true, &[1, 0, 0, 7]), None);
        assert_eq!(place(false, &[0, 0, 0, 7]), None);
    }

    /// How long a hundred moments take, at each of which a left row and a right row come to a key that has so many of each.
    fn cost(rows: u32) -> Duration {
        timely::execute_directly(move |worker| {
            let (mut lefts, mut rights, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (lefts, left) = scope.new_input_with_builder::<UpdatesBuilder>();
                let (rights, right) = scope.new_input_with_builder::<UpdatesBuilder>();
                let matching = Matching { width: 5, strict: false, absent: None };
                (
                    lefts,
                    rights,
                    asof(
                        arrange_rows(left, "Left", &mut States::default()),
                        arrange_rows(right, "Right", &mut States::default()),
                        0,
                        matching,
                    )
                    .probe()
                    .0,
                )
            });
            let mut step = |times: &mut dyn Iterator<Item = u32>, now: Time| {
                let (mut left, mut right) = (Updates::default(), Updates::default());
                for time in times {
                    left.push(&[7], &[&[PRESENT][..], &time.to_be_bytes()].concat(), now, 1);
                    right.push(&[7], &[&[PRESENT][..], &(!time).to_be_bytes()].concat(), now, 1);
                }
                lefts.send_batch(&mut left);
                rights.send_batch(&mut right);
                lefts.advance_to(now + 1);
                rights.advance_to(now + 1);
                worker.step_while(|| probe.less_than(&(now + 1)));
            };
            step(&mut (0..rows).map(|row| 1000 * row), 1);
            let start = Instant::now();
            // In the midst of them, where no two meet.
            (0..100).for_each(|change| step(&mut std::iter::once(1000 * (rows / 2) + 1 + change), 2 + Time::from(change)));
            start.elapsed()
        })
    }

    #[test]
    fn a_change_costs_no_more_in_a_key_with_a_long_history() {
        let least = |rows| (0..3).map(|_| cost(rows)).min().unwrap_or_default();
        let (short, long) = (least(100), least(100_000));
        assert!(long < 10 * short, "{long:?} with 100 000 rows, {short:?} with 100");
    }
}
