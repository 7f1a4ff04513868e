//! Working off what has come, a bounded piece at a time.
//!
//! A batch may change a million groups at one moment. An operator goes through them in the order of their keys, with a
//! [`Sweep`]; after [`TURN`] of them it lets the others have the worker and asks to be scheduled again. Until a sweep is
//! over the operator holds its capabilities and the compaction of what it reads, so what it sends, and at which times, is
//! what it would have sent at once.
//!
//! [`per_key`] is the whole of an operator over one arrangement that looks at each group that changes.

use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::cursor::{CursorList, cursor_list};
use differential_dataflow::trace::{Cursor, Navigable, Span};
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::arrange::{Held, Output, Reading};
use crate::row::batch::{RowBatch, SumBatch};
use crate::row::reader::SumContents;
use crate::row::reclaim::{Contents, Reclaim, Reclaiming};
use crate::row::{Bytes, Diff, SumsRef, Time, Updates, UpdatesBuilder};

/// How many groups an operator works off before the others' turn.
pub const TURN: usize = 1 << 13;

/// A batch by key, of which groups can be looked at.
pub trait Keyed: Reclaim<Cursor: for<'a> Cursor<Time = Time, Key<'a> = Bytes<'a>, TimeGat<'a> = &'a Time>> {
    /// All that an arrangement holds, in which groups are looked up in ascending order of their keys.
    type Contents: 'static;
    /// A group that has been found.
    type Found<'a>;
    /// The contents of these spans, of which the recent ones are worked off.
    fn contents(recent: &[Span<Time, Self>], all: Vec<Span<Time, Self>>) -> Self::Contents;
    /// The group of a key; None where nothing is of it, not even something that has cancelled.
    fn find<'a>(contents: &'a mut Self::Contents, key: &'a [u8], as_of: Time) -> Option<Self::Found<'a>>;
}

impl Keyed for RowBatch {
    type Contents = Contents<RowBatch>;
    type Found<'a> = Group<'a, RowBatch>;

    fn contents(_: &[Span<Time, RowBatch>], all: Vec<Span<Time, RowBatch>>) -> Contents<RowBatch> {
        cursor_list(all.into_iter().filter_map(|span| span.inner).collect())
    }

    fn find<'a>((cursor, storage): &'a mut Contents<RowBatch>, key: &'a [u8], as_of: Time) -> Option<Group<'a, RowBatch>> {
        cursor.seek_key(storage, Bytes(key));
        (cursor.get_key(storage) == Some(Bytes(key))).then_some(Group { cursor, storage, as_of })
    }
}

impl Keyed for SumBatch {
    type Contents = SumContents;
    type Found<'a> = SumGroup<'a>;

    fn contents(recent: &[Span<Time, SumBatch>], all: Vec<Span<Time, SumBatch>>) -> SumContents {
        SumContents::new(recent, all)
    }

    fn find<'a>(contents: &'a mut SumContents, key: &'a [u8], as_of: Time) -> Option<SumGroup<'a>> {
        Some(SumGroup { contents, key, as_of })
    }
}

/// A key whose sums can be looked at.
pub struct SumGroup<'a> {
    contents: &'a mut SumContents,
    key: &'a [u8],
    as_of: Time,
}

impl SumGroup<'_> {
    /// Calls `each` with the sums of the group and when they came.
    pub fn map_times(self, mut each: impl FnMut(Time, SumsRef<'_>)) {
        let as_of = self.as_of;
        self.contents.map_times(self.key, |time, sums| each(as_of.max(time), sums));
    }
}

/// A cursor that stands at a key.
pub struct Group<'a, B: Navigable> {
    pub cursor: &'a mut CursorList<B::Cursor>,
    pub storage: &'a Vec<B>,
    pub as_of: Time,
}

impl Group<'_, RowBatch> {
    /// How often the value under the cursor is there, counting updates before `until`.
    pub fn count(&mut self, until: Time) -> Diff {
        let (mut count, as_of) = (0, self.as_of);
        self.cursor.map_times(self.storage, |time, diff| count += if as_of.max(*time) < until { *diff } else { 0 });
        count
    }
}

/// The keys that waiting batches change, one after the other, beside all that the arrangement holds.
pub struct Sweep<B: Keyed> {
    pub as_of: Time,
    /// What is waiting is all from before the dataflow's beginning: it changes every key at one moment.
    pub initial: bool,
    /// Updates at times from here on are worked off,
    pub from: Time,
    /// and before this; None: all.
    pub through: Option<Time>,
    pub changes: Contents<B>,
    pub contents: B::Contents,
}

/// A key that changes.
pub struct Change<'a, B: Keyed> {
    pub key: &'a [u8],
    /// When it changes, ascending; never empty.
    pub moments: &'a mut Vec<Time>,
    /// What has come of it, from its first value on.
    pub changes: Group<'a, B>,
    contents: &'a mut B::Contents,
}

impl<B: Keyed> Sweep<B> {
    /// The next key that changes.
    pub fn key(&self) -> Option<Bytes<'_>> {
        self.changes.0.get_key(&self.changes.1)
    }

    /// Goes on to the next key.
    pub fn step(&mut self) {
        self.changes.0.step_key(&self.changes.1);
    }

    /// Adds the moments at which the key changes that are to be worked off, ascending.
    pub fn moments(&mut self, into: &mut Vec<Time>) {
        let (as_of, from, through) = (self.as_of, self.from, self.through);
        let is_new = |time: Time| time >= from && through.is_none_or(|through| time < through);
        let start = into.len();
        if self.initial {
            into.extend(is_new(as_of).then_some(as_of));
            return;
        }
        let (cursor, storage) = &mut self.changes;
        while cursor.val_valid(storage) {
            cursor.map_times(storage, |time, _| into.extend(Some(as_of.max(*time)).filter(|time| is_new(*time))));
            cursor.step_val(storage);
        }
        if into.len() > start + 1 {
            into[start..].sort_unstable();
            into.dedup();
        }
    }

    /// The group of a key in all that the arrangement holds; keys are asked for in ascending order. None where nothing is
    /// of it, not even something that has cancelled.
    pub fn group<'a>(&'a mut self, key: &'a [u8]) -> Option<B::Found<'a>> {
        B::find(&mut self.contents, key, self.as_of)
    }

    /// Visits up to `groups` keys. Returns whether all have been.
    fn work(&mut self, groups: usize, moments: &mut Vec<Time>, mut visit: impl FnMut(Change<'_, B>)) -> bool {
        for _ in 0..groups {
            if self.key().is_none() {
                return true;
            }
            moments.clear();
            self.moments(moments);
            let (cursor, storage) = &mut self.changes;
            if let (Some(key), false) = (cursor.get_key(storage), moments.is_empty()) {
                cursor.rewind_vals(storage);
                let changes = Group { cursor, storage, as_of: self.as_of };
                visit(Change { key: key.0, moments, changes, contents: &mut self.contents });
            }
            self.step();
        }
        self.key().is_none()
    }
}

impl<B: Keyed> Change<'_, B> {
    /// The dataflow's beginning.
    pub fn as_of(&self) -> Time {
        self.changes.as_of
    }

    /// All that the arrangement holds of the key. A key whose updates have cancelled in the trace is not there: its group
    /// is empty, before and after.
    pub fn group(&mut self) -> Option<B::Found<'_>> {
        B::find(self.contents, self.key, self.changes.as_of)
    }
}

/// What an operator with `N` outputs makes of a group that changes.
pub trait Visit<B: Keyed, const N: usize>: 'static {
    fn visit(&mut self, change: Change<'_, B>, outputs: &mut [UpdatesBuilder; N]);
}

/// Visits the groups that change.
pub fn per_key<'s, B: Keyed, const N: usize>(
    arranged: Arranged<'s, TraceAgent<Reclaiming<B>>>,
    name: &str,
    as_of: Time,
    mut visitor: impl Visit<B, N>,
) -> [Stream<'s, Time, Updates>; N] {
    let scope = arranged.stream.scope();
    let mut builder = OperatorBuilder::new(name.to_owned(), scope);
    let activator = scope.activator_for(builder.operator_info().address);
    let mut input = builder.new_input(arranged.stream, Pipeline);
    let ports: [_; N] = std::array::from_fn(|_| builder.new_output());
    let streams = ports.each_ref().map(|(_, stream)| stream.clone());
    let mut reading = Reading::new(arranged.trace, as_of);
    builder.build(move |_| {
        let mut outputs = ports.map(|(output, _)| Output::from(output));
        let mut held = Held::new(N);
        let mut at_work: Option<Sweep<B>> = None;
        let mut moments = Vec::new();
        move |frontiers| {
            input.for_each(|capability, spans| {
                held.hold(&capability);
                reading.receive(spans);
            });
            reading.follow(frontiers[0].frontier());
            if at_work.is_none() && reading.is_ready() {
                at_work = Some(reading.sweep(reading.received()));
            }
            let mut through = reading.received();
            if let Some(sweep) = &mut at_work {
                let mut updates = std::array::from_fn(|_| UpdatesBuilder::default());
                let done = sweep.work(TURN, &mut moments, |change| visitor.visit(change, &mut updates));
                for (port, (updates, output)) in updates.into_iter().zip(&mut outputs).enumerate() {
                    held.send(port, updates, output);
                }
                if !done {
                    return activator.activate();
                }
                through = sweep.through;
                at_work = None;
            }
            let pending = reading.finish(through);
            held.downgrade(if pending { through } else { None });
            if reading.is_ready() {
                activator.activate();
            }
        }
    });
    streams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataflow::accumulate::count_rows;
    use crate::dataflow::arrange::{arrange_rows, arrange_sums};
    use crate::dataflow::groups::{Answer, GroupLogic, Live, per_group};
    use crate::dataflow::join::map_containers;
    use crate::dataflow::settle::Expiries;
    use crate::dataflow::state::States;
    use crate::dataflow::threshold::threshold;
    use crate::plan::Threshold;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use timely::dataflow::operators::core::{Input as _, Probe};

    const GROUPS: u64 = 3 * TURN as u64 + 7;

    /// A group's rows as they are, counted as it is looked at.
    struct Itself(Rc<Cell<usize>>);

    impl GroupLogic for Itself {
        fn answer(&mut self, _: &[u8], rows: &mut dyn Live) -> Answer {
            self.0.set(self.0.get() + 1);
            let mut answer = Answer::default();
            while let Some((value, count)) = rows.next() {
                answer.push(value, count);
            }
            answer
        }
    }

    /// Each group once at each of these times, with these diffs.
    fn all_groups(times: &[(Time, Diff)]) -> Updates {
        let mut updates = Updates::default();
        for (time, diff) in times {
            (0..GROUPS).for_each(|key| updates.push(&key.to_be_bytes(), b"value", *time, *diff));
        }
        updates
    }

    /// The updates that come by.
    type Seen = Rc<RefCell<Vec<(Time, Diff)>>>;

    fn spy<'s>(rows: Stream<'s, Time, Updates>, seen: &Seen) -> Stream<'s, Time, Updates> {
        let seen = Rc::clone(seen);
        map_containers(rows, move |updates| {
            seen.borrow_mut().extend((0..updates.len()).map(|index| (updates.time(index), updates.diff(index))));
            updates
        })
    }

    #[test]
    fn a_storm_is_worked_off_in_turns_and_comes_out_as_if_at_once() {
        timely::execute_directly(|worker| {
            let answers = Rc::new(Cell::new(0));
            let out = Seen::default();
            let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
                let (rows, _) = per_group(
                    arrange_rows(stream, "Arrange", &mut States::default()),
                    "Itself",
                    0,
                    Expiries::Loud,
                    Itself(Rc::clone(&answers)),
                );
                (input, spy(rows, &out).probe().0)
            });
            // Both moments come as one batch.
            input.send_batch(&mut all_groups(&[(1, 1), (2, -1)]));
            input.advance_to(3);
            let mut turns = 0;
            while probe.less_than(&3) {
                let before = answers.get();
                worker.step();
                let answered = answers.get() - before;
                assert!(answered <= 3 * TURN, "{answered} answers in one step");
                turns += usize::from(answered > 0);
                // A group that is not worked off holds back time.
                assert!(probe.less_than(&3) || answers.get() == 3 * GROUPS as usize);
            }
            assert_eq!(turns, 4);
            let count = |update| out.borrow().iter().filter(|seen| **seen == update).count() as u64;
            assert_eq!([count((1, 1)), count((2, -1))], [GROUPS, GROUPS]);
            assert_eq!(out.borrow().len() as u64, 2 * GROUPS);
        });
    }

    #[test]
    fn what_comes_during_a_storm_is_worked_off_after_it() {
        timely::execute_directly(|worker| {
            let out = Seen::default();
            let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
                let counts = arrange_sums(count_rows(stream), "Arrange", &mut States::default());
                (input, spy(threshold(counts, "Distinct", 0, Threshold::Distinct, Expiries::Loud), &out).probe().0)
            });
            for time in 0..6 {
                input.send_batch(&mut all_groups(&[(time, if time % 2 == 0 { 1 } else { -1 })]));
                input.advance_to(time + 1);
                worker.step();
            }
            worker.step_while(|| probe.less_than(&6));
            for time in 0..6 {
                let seen: Vec<Diff> = out.borrow().iter().filter(|(at, _)| *at == time).map(|(_, diff)| *diff).collect();
                assert_eq!(seen, vec![if time % 2 == 0 { 1 } else { -1 }; GROUPS as usize], "at {time}");
            }
        });
    }

    #[test]
    fn a_group_that_expires_between_two_rows_of_one_batch_starts_afresh() {
        let at = crate::engine::time::at;
        let times = [(at(1, 1), 1), (at(2, 0), -1), (at(2, 1), 1), (at(3, 0), -1)];
        type Operator = fn(Stream<'_, Time, Updates>) -> Stream<'_, Time, Updates>;
        let outputs: [Operator; 2] = [
            |rows| per_group(arrange_rows(rows, "Arrange", &mut States::default()), "Itself", 0, Expiries::Silent, Itself(Rc::default())).0,
            |rows| {
                threshold(
                    arrange_sums(count_rows(rows), "Arrange", &mut States::default()),
                    "Distinct",
                    0,
                    Threshold::Distinct,
                    Expiries::Silent,
                )
            },
        ];
        for output in outputs {
            timely::execute_directly(move |worker| {
                let out = Seen::default();
                let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                    let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
                    (input, spy(output(stream), &out).probe().0)
                });
                let mut updates = Updates::default();
                times.iter().for_each(|(time, diff)| updates.push(b"key", b"value", *time, *diff));
                input.send_batch(&mut updates);
                input.advance_to(at(4, 0));
                worker.step_while(|| probe.less_than(&at(4, 0)));
                assert_eq!(*out.borrow(), [(at(1, 1), 1), (at(2, 1), 1)]);
            });
        }
    }
}
