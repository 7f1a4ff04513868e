//! Operators over one arrangement that are a function of each group's rows: TopK, Window, Threshold.
//!
//! [`per_group`] is the driver: it finds the keys that a batch changes and the times at which it does, and asks a
//! [`GroupLogic`] for what the group's output was before and what it is after each of them. What went and what came is
//! the operator's output. No output trace is kept: with totally ordered times the old answer can be read from the
//! same arrangement as the new one.

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use differential_dataflow::trace::cursor::CursorList;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use std::collections::HashSet;

use super::arrange::{Held, Output, Reading};
use super::settle::Expiries;
use crate::row::spine::{RowBatch, RowTrace};
use crate::row::{ByteRows, Diff, Time, UpdatesBuilder};

/// A cursor over an arrangement of rows, at one of its keys.
pub struct Group<'a> {
    pub cursor: &'a mut CursorList<<RowBatch as differential_dataflow::trace::Navigable>::Cursor>,
    pub storage: &'a Vec<RowBatch>,
    pub as_of: Time,
}

impl Group<'_> {
    /// How often the value under the cursor is there, counting updates before `until`.
    pub fn count(&mut self, until: Time) -> Diff {
        let (mut count, as_of) = (0, self.as_of);
        self.cursor.map_times(self.storage, |time, diff| {
            if as_of.max(*time) < until {
                count += diff;
            }
        });
        count
    }
}

/// The output of one group at one moment: values (the key is the group's) and how often each is there, or an error.
#[derive(Default)]
pub struct Answer {
    pub values: ByteRows,
    pub counts: Vec<Diff>,
    pub error: Option<String>,
}

impl Answer {
    /// Adds a value.
    pub fn push(&mut self, value: &[u8], count: Diff) {
        self.values.push(value);
        self.counts.push(count);
    }
}

/// What an operator makes of a group.
pub trait GroupLogic: 'static {
    /// The group's output, counting updates before `until`. The cursor stands at the group, its values rewound.
    fn answer(&mut self, key: &[u8], group: &mut Group<'_>, until: Time) -> Answer;
}

/// Runs `logic` over the groups that change; gives rows (`key ++ value`) and errors.
pub fn per_group<'s, L: GroupLogic>(
    arranged: Arranged<'s, RowTrace>,
    name: &str,
    as_of: Time,
    expiries: Expiries,
    mut logic: L,
) -> (Stream<'s, Time, crate::row::Updates>, Stream<'s, Time, crate::row::Updates>) {
    let mut builder = OperatorBuilder::new(name.to_owned(), arranged.stream.scope());
    let mut input = builder.new_input(arranged.stream, Pipeline);
    let (output, rows) = builder.new_output();
    let (error_output, errors) = builder.new_output();
    let mut reading = Reading::new(arranged.trace, as_of);
    builder.build(move |_| {
        let (mut output, mut error_output) = (Output::from(output), Output::from(error_output));
        let mut held = Held::new(2);
        let mut failing = HashSet::new();
        move |_| {
            input.for_each(|capability, spans| {
                held.hold(&capability);
                reading.receive(spans);
            });
            if reading.is_ready() {
                let (mut rows, mut errors) = (UpdatesBuilder::default(), UpdatesBuilder::default());
                work(&mut reading, &mut logic, expiries, &mut failing, &mut rows, &mut errors);
                held.send(0, rows, &mut output);
                held.send(1, errors, &mut error_output);
            }
            let received = reading.received();
            if !reading.finish(received) {
                held.downgrade(None);
            }
        }
    });
    (rows, errors)
}

fn work<L: GroupLogic>(
    reading: &mut Reading<RowBatch>,
    logic: &mut L,
    expiries: Expiries,
    failing: &mut HashSet<Vec<u8>>,
    rows: &mut UpdatesBuilder,
    errors: &mut UpdatesBuilder,
) {
    let (as_of, initial) = (reading.effective(0), reading.is_initial());
    let (mut changes, change_storage) = reading.changes();
    let (mut cursor, storage) = reading.contents();
    let mut times: Vec<Time> = Vec::new();
    while let Some(key) = changes.get_key(&change_storage) {
        times.clear();
        if initial {
            times.push(as_of);
        }
        while !initial && changes.val_valid(&change_storage) {
            changes.map_times(&change_storage, |time, _| times.push(as_of.max(*time)));
            changes.step_val(&change_storage);
        }
        times.sort_unstable();
        times.dedup();
        let times = if failing.contains(key.0) { times.as_slice() } else { expiries.moments(&times, as_of) };
        // A key whose updates have cancelled in the trace is not there: its group is empty, before and after.
        cursor.seek_key(&storage, key);
        if !times.is_empty() && cursor.get_key(&storage) == Some(key) {
            let mut answer_until = |until| {
                cursor.rewind_vals(&storage);
                logic.answer(key.0, &mut Group { cursor: &mut cursor, storage: &storage, as_of }, until)
            };
            let mut before = answer_until(times[0]);
            for time in times {
                let after = answer_until(time + 1);
                if expiries.are_said(*time, as_of) {
                    emit_difference(key.0, &before, &after, *time, rows, errors);
                } else {
                    emit_errors(&before, &after, *time, errors);
                }
                before = after;
            }
            if before.error.is_some() {
                failing.insert(key.to_vec());
            } else {
                failing.remove(key.0);
            }
        }
        changes.step_key(&change_storage);
    }
}

/// Emits what leads from one answer to the next.
fn emit_difference(key: &[u8], before: &Answer, after: &Answer, time: Time, rows: &mut UpdatesBuilder, errors: &mut UpdatesBuilder) {
    let mut changes: Vec<(&[u8], Diff)> = Vec::new();
    for (answer, sign) in [(before, -1), (after, 1)] {
        changes.extend(answer.counts.iter().enumerate().map(|(index, count)| (answer.values.get(index), sign * count)));
    }
    differential_dataflow::consolidation::consolidate(&mut changes);
    for (value, diff) in changes {
        rows.push(key, &[value], time, diff);
    }
    emit_errors(before, after, time, errors);
}

fn emit_errors(before: &Answer, after: &Answer, time: Time, errors: &mut UpdatesBuilder) {
    if before.error != after.error {
        for (error, diff) in [(&before.error, -1), (&after.error, 1)] {
            if let Some(error) = error {
                errors.push(error.as_bytes(), &[], time, diff);
            }
        }
    }
}
