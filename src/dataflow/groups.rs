//! Operators over one arrangement that are a function of each group's rows: TopK and Window.
//!
//! [`per_group`] asks a [`GroupLogic`] for what the output of each group that changes was before it does and is after each
//! moment at which it does. What went and what came is the operator's output. No output trace is kept: with totally
//! ordered times the old answer can be read from the same arrangement as the new one. An answer may begin at the first
//! value that something has changed for: what is before it is the same in both.

use std::collections::HashSet;

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use timely::dataflow::Stream;

use super::settle::Expiries;
use super::sweep::{self, Change, Visit, per_key};
use crate::row::batch::RowBatch;
use crate::row::spine::RowTrace;
use crate::row::{ByteRows, Diff, Time, Updates, UpdatesBuilder};

/// A group of rows.
pub type Group<'a> = sweep::Group<'a, RowBatch>;

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
///
/// Of each group that changes it is told the first value that does, then asked for the answers at some moments, ascending,
/// then told that the last of them stands. All answers in between may leave out the same first values, if their part of
/// the group's output has not changed.
pub trait GroupLogic: 'static {
    /// A group changes, from a value on.
    fn changes(&mut self, _key: &[u8], _first: &[u8]) {}

    /// The group's output, counting updates before `until`. The cursor stands at the group, its values rewound.
    fn answer(&mut self, key: &[u8], group: &mut Group<'_>, until: Time) -> Answer;

    /// Makes further answers those of the whole group. Returns whether they were not.
    fn forget(&mut self, _key: &[u8]) -> bool {
        false
    }

    /// An answer stands until the group changes again.
    fn settled(&mut self, _key: &[u8], _answer: &Answer) {}
}

/// Runs `logic` over the groups that change; gives rows (`key ++ value`) and errors.
pub fn per_group<'s, L: GroupLogic>(
    arranged: Arranged<'s, RowTrace>,
    name: &str,
    as_of: Time,
    expiries: Expiries,
    logic: L,
) -> (Stream<'s, Time, Updates>, Stream<'s, Time, Updates>) {
    let [rows, errors] = per_key(arranged, name, as_of, Differences { logic, expiries, failing: HashSet::new() });
    (rows, errors)
}

struct Differences<L> {
    logic: L,
    expiries: Expiries,
    /// The groups whose answer could not be given: what they say goes with them.
    failing: HashSet<Vec<u8>>,
}

impl<L: GroupLogic> Visit<RowBatch, 2> for Differences<L> {
    fn visit(&mut self, mut change: Change<'_, RowBatch>, [rows, errors]: &mut [UpdatesBuilder; 2]) {
        let (key, as_of) = (change.key, change.as_of());
        if let Some(first) = change.changes.cursor.get_val(change.changes.storage) {
            self.logic.changes(key, first.0);
        }
        if !self.failing.contains(key) {
            self.expiries.skip(change.moments, as_of);
        }
        let moments = std::mem::take(change.moments);
        if let (Some(first), Some(mut group)) = (moments.first(), change.group()) {
            let logic = &mut self.logic;
            let mut answer_until = |logic: &mut L, until| {
                group.cursor.rewind_vals(group.storage);
                logic.answer(key, &mut group, until)
            };
            let mut before = answer_until(logic, *first);
            for moment in &moments {
                let mut after = answer_until(logic, moment + 1);
                // An error stands for all of the group.
                if after.error.is_some() && logic.forget(key) {
                    before = answer_until(logic, *moment);
                    after = answer_until(logic, moment + 1);
                }
                if !self.expiries.hides(*moment, as_of) {
                    emit_rows(key, &before, &after, *moment, rows);
                }
                emit_errors(&before, &after, *moment, errors);
                before = after;
            }
            logic.settled(key, &before);
            if before.error.is_some() {
                self.failing.insert(key.to_vec());
            } else if !self.failing.is_empty() {
                self.failing.remove(key);
            }
        }
        *change.moments = moments;
    }
}

/// Emits the rows that lead from one answer to the next.
fn emit_rows(key: &[u8], before: &Answer, after: &Answer, time: Time, rows: &mut UpdatesBuilder) {
    let mut changes: Vec<(&[u8], Diff)> = Vec::new();
    for (answer, sign) in [(before, -1), (after, 1)] {
        changes.extend(answer.counts.iter().enumerate().map(|(index, count)| (answer.values.get(index), sign * count)));
    }
    differential_dataflow::consolidation::consolidate(&mut changes);
    for (value, diff) in changes {
        rows.push(key, &[value], time, diff);
    }
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
