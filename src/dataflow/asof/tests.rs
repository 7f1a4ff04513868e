use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use timely::dataflow::operators::core::{Input as _, Probe};

use super::*;
use crate::dataflow::arrange::arrange_rows;
use crate::dataflow::join::map_containers;
use crate::dataflow::state::States;

const END: Time = 8;

thread_local! {
    /// How much work has been done, in rows.
    pub static DONE: Cell<usize> = const { Cell::new(0) };
}

/// A key, a time (None: NULL) and an identity.
type Row = (u8, Option<u8>, u8);

/// What becomes of a row, and when.
type Event = (Row, Time, Diff);

/// Rows that come and go: each change has a time, and no row is there less than zero times. Some have the least of all times
/// or the greatest, and some of the left side none.
fn history(rng: &mut StdRng, is_left: bool) -> Vec<Event> {
    let mut there: BTreeMap<Row, Diff> = BTreeMap::new();
    let mut times: Vec<Time> = (0..rng.random_range(1..120)).map(|_| rng.random_range(0..END)).collect();
    times.sort_unstable();
    let (goes, among) = (rng.random_range(0.0..0.6), rng.random_range(1..12));
    let change = |time| {
        let held: Vec<Row> = there.iter().filter(|(_, count)| **count > 0).map(|(row, _)| *row).collect();
        let (row, diff) = match held.as_slice() {
            [_, ..] if rng.random_bool(goes) => (held[rng.random_range(0..held.len())], -1),
            _ => {
                let at = match rng.random_range(0..10) {
                    0 => Some(u8::MAX),
                    1 if is_left => None,
                    _ => Some(rng.random_range(0..among)),
                };
                ((rng.random_range(0..2), at, rng.random_range(0..3)), 1)
            }
        };
        *there.entry(row).or_default() += diff;
        (row, time, diff)
    };
    times.into_iter().map(change).collect()
}

fn at(history: &[Event], until: Time) -> BTreeMap<Row, Diff> {
    let mut there = BTreeMap::new();
    history.iter().filter(|(_, time, _)| *time < until).for_each(|(row, _, diff)| *there.entry(*row).or_default() += diff);
    there.retain(|_, count| *count != 0);
    there
}

type Pairs = BTreeMap<(Row, Option<Row>), Diff>;

/// Both sides, and what is asked of them.
struct Case {
    sides: [Vec<Event>; 2],
    strict: bool,
    outer: bool,
    as_of: Time,
}

impl Case {
    fn new(rng: &mut StdRng) -> Self {
        let sides = [history(rng, true), history(rng, false)];
        let as_of = if rng.random_bool(0.5) { 0 } else { rng.random_range(0..END - 2) };
        Case { sides, strict: rng.random_bool(0.5), outer: rng.random_bool(0.5), as_of }
    }

    /// The join run from scratch: the latest right row, of those the one with the least identity.
    fn joined(&self, until: Time) -> Pairs {
        let [left, right] = self.sides.each_ref().map(|history| at(history, until));
        let nearest = |row: &Row| {
            let is_match = |other: &&Row| {
                let [time, other_time] = [row.1, other.1];
                other.0 == row.0 && time.is_some() && if self.strict { other_time < time } else { other_time <= time }
            };
            right.keys().filter(is_match).max_by_key(|other| (other.1, std::cmp::Reverse(other.2))).copied()
        };
        let pairs = left.iter().map(|(row, count)| ((*row, nearest(row)), *count));
        pairs.filter(|((_, found), _)| self.outer || found.is_some()).collect()
    }

    /// What leads from the join before each moment to the join after it.
    fn expected(&self) -> BTreeMap<Time, Pairs> {
        let mut expected = BTreeMap::new();
        for time in self.as_of..END {
            let mut change = self.joined(time + 1);
            let before = if time > self.as_of { self.joined(time) } else { Pairs::new() };
            before.into_iter().for_each(|(pair, count)| *change.entry(pair).or_default() -= count);
            change.retain(|_, diff| *diff != 0);
            if !change.is_empty() {
                expected.insert(time, change);
            }
        }
        expected
    }

    /// What the operator gives at each time. Now the one side comes on by so many moments at most, and now the other.
    fn output(&self, batch: Time, rng: &mut StdRng) -> BTreeMap<Time, Pairs> {
        let Case { sides, strict, outer, as_of } = self;
        let (sides, strict, outer, as_of, mut rng) = (sides.clone(), *strict, *outer, *as_of, rng.clone());
        timely::execute_directly(move |worker| {
            let seen: Rc<RefCell<BTreeMap<Time, Pairs>>> = Rc::default();
            let into = Rc::clone(&seen);
            let (mut inputs, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (lefts, left) = scope.new_input_with_builder::<UpdatesBuilder>();
                let (rights, right) = scope.new_input_with_builder::<UpdatesBuilder>();
                let matching = Matching { width: 2, strict, absent: outer.then(Vec::new) };
                let rows = asof(
                    arrange_rows(left, "Left", &mut States::default()),
                    arrange_rows(right, "Right", &mut States::default()),
                    as_of,
                    matching,
                );
                let rows = map_containers(rows, move |updates| {
                    for index in 0..updates.len() {
                        let (key, value) = (updates.key(index)[0], updates.value(index));
                        let found = (value.len() > 3).then(|| (key, Some(!value[4]), value[5]));
                        let row = (key, (value[0] == PRESENT).then_some(value[1]), value[2]);
                        let pairs = &mut *into.borrow_mut();
                        *pairs.entry(updates.time(index)).or_default().entry((row, found)).or_default() += updates.diff(index);
                    }
                    updates
                });
                ([lefts, rights], rows.probe().0)
            });
            let mut reached = [0, 0];
            while reached.iter().any(|reached| *reached < END) {
                let side = if reached[0] == END {
                    1
                } else if reached[1] == END {
                    0
                } else {
                    rng.random_range(0..2)
                };
                let times = reached[side]..END.min(reached[side] + rng.random_range(1..=batch));
                let mut updates = Updates::default();
                for ((key, time, id), at, diff) in sides[side].iter().filter(|(_, at, _)| times.contains(at)) {
                    let [sentinel, byte] = time.map_or([0, 0], |time| [PRESENT, if side == 0 { time } else { !time }]);
                    updates.push(&[*key], &[sentinel, byte, *id], *at, *diff);
                }
                reached[side] = times.end;
                inputs[side].send_batch(&mut updates);
                inputs[side].advance_to(times.end);
                (0..rng.random_range(0..4)).for_each(|_| {
                    worker.step();
                });
            }
            worker.step_while(|| probe.less_than(&END));
            let mut seen = seen.take();
            seen.values_mut().for_each(|pairs| pairs.retain(|_, diff| *diff != 0));
            seen.retain(|_, pairs| !pairs.is_empty());
            seen
        })
    }
}

#[test]
fn what_comes_at_each_moment_leads_from_the_join_before_it_to_the_join_after_it_however_moments_are_batched() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let case = Case::new(&mut rng);
        let expected = case.expected();
        for batch in [1, 3, END] {
            assert_eq!(case.output(batch, &mut rng), expected, "seed {seed}, up to {batch} moments a batch");
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

/// A left row and a right row, or one of them, that come (or go) at a time.
type Step = (Time, [Option<u32>; 2], Diff);

/// How much work each batch of changes is, to one key. All times are even on the left and odd on the right.
fn costs(batches: &[Vec<Step>]) -> Vec<usize> {
    let batches = batches.to_vec();
    timely::execute_directly(move |worker| {
        let (mut lefts, mut rights, probe) = worker.dataflow::<Time, _, _>(|scope| {
            let (lefts, left) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (rights, right) = scope.new_input_with_builder::<UpdatesBuilder>();
            let matching = Matching { width: 5, strict: false, absent: None };
            (
                lefts,
                rights,
                asof(arrange_rows(left, "Left", &mut States::default()), arrange_rows(right, "Right", &mut States::default()), 0, matching)
                    .probe()
                    .0,
            )
        });
        let cost = |batch: Vec<Step>| {
            let (mut left, mut right, mut through) = (Updates::default(), Updates::default(), 0);
            for (time, [of_left, of_right], diff) in batch {
                of_left.iter().for_each(|at| left.push(&[7], &[&[PRESENT][..], &(2 * at).to_be_bytes()].concat(), time, diff));
                of_right.iter().for_each(|at| right.push(&[7], &[&[PRESENT][..], &(!(2 * at + 1)).to_be_bytes()].concat(), time, diff));
                through = through.max(time + 1);
            }
            DONE.set(0);
            lefts.send_batch(&mut left);
            rights.send_batch(&mut right);
            lefts.advance_to(through);
            rights.advance_to(through);
            worker.step_while(|| probe.less_than(&through));
            DONE.get()
        };
        batches.into_iter().map(cost).collect()
    })
}

/// So many left rows and right rows in turn, all at one time.
fn long(rows: u32) -> Vec<Step> {
    (0..rows).map(|row| (1, [Some(row), Some(row)], 1)).collect()
}

const ROWS: u32 = 2_000;

#[test]
fn a_change_of_a_key_with_many_rows_costs_the_left_rows_whose_match_changes() {
    let one = |time, sides| vec![(time, sides, 1)];
    let gone = |time, sides| vec![(time, sides, -1)];
    let changes = [
        long(ROWS),
        // At the end, where nothing is behind it; in the midst, where one left row has it as its match; and before all.
        one(2, [None, Some(ROWS + 5)]),
        one(3, [Some(ROWS + 7), None]),
        gone(4, [None, Some(ROWS / 2)]),
        one(5, [None, Some(ROWS / 2)]),
        gone(6, [Some(ROWS / 3), None]),
        one(7, [Some(ROWS / 3), Some(ROWS + 9)]),
        gone(8, [None, Some(0)]),
    ];
    let costs = costs(&changes);
    // A key, a left row or two, its matches that are looked at, and what comes of it.
    assert!(costs[1..].iter().all(|cost| *cost <= 12), "{costs:?}");
    // One version before a thousand left rows is the match of all of them.
    let lefts: Vec<Step> = (0..ROWS).map(|row| (1, [Some(row), None], 1)).collect();
    let costs = self::costs(&[lefts, one(2, [None, Some(ROWS - 1001)]), one(3, [None, Some(ROWS - 501)])]);
    assert!((2000..2010).contains(&costs[1]) && (1500..1600).contains(&costs[2]), "{costs:?}");
}

#[test]
fn many_moments_of_one_batch_cost_what_they_change_each() {
    // At each moment one row comes to either side, or first all of one side: in the order of their times, or the other way
    // around. In none of these does a left row change its match more than once or twice.
    let (up, down): (Vec<u32>, Vec<u32>) = ((0..ROWS).collect(), (0..ROWS).rev().collect());
    let [one, other] = [2, 2 + Time::from(ROWS)];
    let steps = |from: Time, rows: &[u32], sides: fn(u32) -> [Option<u32>; 2]| -> Vec<Step> {
        (from..).zip(rows).map(|(time, row)| (time, sides(*row), 1)).collect()
    };
    let both = |rows: &[u32]| steps(one, rows, |row| [Some(row), Some(row)]);
    let left = |from, rows: &[u32]| steps(from, rows, |row| [Some(row), None]);
    let right = |from, rows: &[u32]| steps(from, rows, |row| [None, Some(row)]);
    let orders = [
        both(&up),
        both(&down),
        [right(one, &up), left(other, &up)].concat(),
        [right(one, &up), left(other, &down)].concat(),
        [right(one, &down), left(other, &up)].concat(),
        [left(one, &up), right(other, &down)].concat(),
        [left(one, &down), right(other, &down)].concat(),
    ];
    for (number, batch) in orders.into_iter().enumerate() {
        // Into a key without rows, and into one with as many others.
        for before in [vec![], (0..ROWS).map(|row| (1, [Some(2 * ROWS + row), Some(2 * ROWS + row)], 1)).collect()] {
            let cost = costs(&[before, batch.clone()])[1];
            assert!(cost <= 8 * ROWS as usize, "{cost} in order {number}");
        }
    }
}

#[test]
fn versions_that_come_and_go_within_a_batch_cost_no_more_than_what_they_match() {
    // Each is there for a moment, before a left row that stays.
    let flickers = (0..ROWS).flat_map(|row| {
        let time = 2 + 2 * Time::from(row);
        [(time, [None, Some(row)], 1), (time + 1, [None, Some(row)], -1)]
    });
    let cost = costs(&[vec![(1, [Some(2 * ROWS), None], 1)], flickers.collect()])[1];
    assert!(cost <= 6 * ROWS as usize, "{cost}");
}
