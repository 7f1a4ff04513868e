//! Operators over one arrangement that are a function of each group's rows: TopK and Window.
//!
//! [`per_group`] asks a [`GroupLogic`] for what the output of each group that changes was before it does and is after each
//! moment at which it does. What went and what came is the operator's output. No output trace is kept: with totally
//! ordered times the old answer can be read from the same arrangement as the new one. An answer may begin at the first
//! value that something has changed for: what is before it is the same in both.

use std::collections::btree_map::{self, Entry};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use timely::dataflow::Stream;

use super::settle::Expiries;
use super::sweep::{self, Change, Visit, per_key};
use crate::row::batch::RowBatch;
use crate::row::spine::RowTrace;
use crate::row::{ByteRows, Bytes, Diff, Time, Updates, UpdatesBuilder};

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

/// The values that are there, in order, each with how often it is.
pub trait Live {
    fn next(&mut self) -> Option<(&[u8], Diff)>;
}

/// Those of a group before a moment, from where its cursor stands.
struct Before<'g, 'a> {
    group: &'g mut Group<'a>,
    until: Time,
    stepped: bool,
}

impl Live for Before<'_, '_> {
    fn next(&mut self) -> Option<(&[u8], Diff)> {
        loop {
            if std::mem::replace(&mut self.stepped, true) {
                self.group.cursor.step_val(self.group.storage);
            }
            let value = self.group.cursor.get_val(self.group.storage)?;
            let count = self.group.count(self.until);
            if count > 0 {
                return Some((value.0, count));
            }
        }
    }
}

/// What is there of a group from a value on, at one moment after the other: each costs what it changes, not what is still to
/// come.
struct Moving {
    there: BTreeMap<Vec<u8>, Diff>,
    /// What is to come, the last of it first.
    coming: Vec<(Time, Vec<u8>, Diff)>,
}

impl Moving {
    /// At a moment, before what happens then.
    fn new(group: &mut Group<'_>, beginning: &[u8], moment: Time) -> Self {
        let (mut moving, as_of) = (Moving { there: BTreeMap::new(), coming: Vec::new() }, group.as_of);
        group.cursor.rewind_vals(group.storage);
        group.cursor.seek_val(group.storage, Bytes(beginning));
        while let Some(value) = group.cursor.get_val(group.storage) {
            let mut count = 0;
            group.cursor.map_times(group.storage, |time, diff| match as_of.max(*time) {
                time if time < moment => count += diff,
                time => moving.coming.push((time, value.to_vec(), *diff)),
            });
            if count != 0 {
                moving.there.insert(value.to_vec(), count);
            }
            group.cursor.step_val(group.storage);
        }
        moving.coming.sort_unstable_by(|a, b| b.cmp(a));
        moving
    }

    /// The first value that changes at a moment, if that is the next one at which anything does.
    fn first(&self, moment: Time) -> Option<&[u8]> {
        self.coming.last().filter(|(time, ..)| *time == moment).map(|(_, value, _)| value.as_slice())
    }

    /// Lets everything up to a moment happen.
    fn pass(&mut self, moment: Time) {
        while let Some((_, value, diff)) = self.coming.pop_if(|(time, ..)| *time <= moment) {
            match self.there.entry(value) {
                Entry::Vacant(vacant) => {
                    vacant.insert(diff);
                }
                Entry::Occupied(mut there) => {
                    *there.get_mut() += diff;
                    if *there.get() == 0 {
                        there.remove();
                    }
                }
            }
        }
    }

    /// The rows that are there from a value on.
    fn rows(&self, beginning: &[u8]) -> impl Live + use<'_> {
        There(self.there.range::<[u8], _>((Bound::Included(beginning), Bound::Unbounded)))
    }
}

struct There<'a>(btree_map::Range<'a, Vec<u8>, Diff>);

impl Live for There<'_> {
    fn next(&mut self) -> Option<(&[u8], Diff)> {
        self.0.find(|(_, count)| **count > 0).map(|(value, count)| (value.as_slice(), *count))
    }
}

/// What an operator makes of a group.
///
/// Of each group that changes it is told the first value that does, then asked for the answers before and after moments,
/// ascending, then told that the last of them stands; where it goes [by moment](GroupLogic::is_by_moment), all that for each
/// moment. All answers in between may leave out the same first values, if their part of the group's output has not changed.
pub trait GroupLogic: 'static {
    /// A group changes, from a value on; first of all, and where it goes by moment at each.
    fn changes(&mut self, _key: &[u8], _first: &[u8], _moment: Time) {}

    /// Whether rows expire one by one, those at the front of their group first, when no value of a row that can still change is
    /// made of them. Then what an expiry that nobody is told of changes is no change.
    fn forgets_rows(&self) -> bool {
        false
    }

    /// Values up to this one have expired.
    fn expired(&mut self, _key: &[u8], _last: &[u8]) {}

    /// Whether an answer costs what is behind its beginning, so that each moment is gone through by itself: each is told the
    /// first value that changes then, and its answer stands until the next one.
    fn is_by_moment(&self) -> bool {
        false
    }

    /// The value at which answers begin to look at the group; empty where that is its first.
    fn beginning(&self, _key: &[u8]) -> &[u8] {
        &[]
    }

    /// The group's output, of the rows that are there from the beginning on.
    fn answer(&mut self, key: &[u8], rows: &mut dyn Live) -> Answer;

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
    let [rows, errors] = per_key(arranged, name, as_of, Differences { logic, expiries, failing: HashMap::new() });
    (rows, errors)
}

struct Differences<L> {
    logic: L,
    expiries: Expiries,
    /// The groups whose answer could not be given, and why: what they say goes with them.
    failing: HashMap<Vec<u8>, String>,
}

impl<L: GroupLogic> Visit<RowBatch, 2> for Differences<L> {
    fn visit(&mut self, mut change: Change<'_, RowBatch>, outputs: &mut [UpdatesBuilder; 2]) {
        let (key, as_of) = (change.key, change.as_of());
        let began = change.moments[0];
        let expired = match self.logic.forgets_rows() {
            true => self.tell_apart(key, &mut change.changes, began),
            false => {
                if let Some(first) = change.changes.cursor.get_val(change.changes.storage) {
                    self.logic.changes(key, first.0, began);
                }
                None
            }
        };
        if !self.failing.contains_key(key) {
            self.expiries.skip(change.moments, as_of);
        }
        let moments = std::mem::take(change.moments);
        if let (false, Some(group)) = (moments.is_empty(), change.group()) {
            if self.logic.is_by_moment() {
                self.by_moment(key, group, &moments, outputs);
            } else {
                self.at_once(key, group, &moments, outputs);
            }
        }
        // What was learnt of rows that have expired meanwhile.
        if let Some(last) = &expired {
            self.logic.expired(key, last);
        }
        *change.moments = moments;
    }
}

impl<L: GroupLogic> Differences<L> {
    /// Tells of a group what of it has expired without a word, of which it gives the last, and where it has changed otherwise.
    fn tell_apart(&mut self, key: &[u8], changes: &mut Group<'_>, began: Time) -> Option<Vec<u8>> {
        let (mut expired, mut first, as_of) = (None::<Vec<u8>>, None::<Vec<u8>>, changes.as_of);
        while let Some(value) = changes.cursor.get_val(changes.storage) {
            let (mut has_expired, mut has_changed) = (false, false);
            changes.cursor.map_times(changes.storage, |time, _| match self.expiries.hides(as_of.max(*time), as_of) {
                true => has_expired = true,
                false => has_changed = true,
            });
            if has_expired {
                expired = Some(value.to_vec());
            }
            if has_changed && first.is_none() {
                first = Some(value.to_vec());
            }
            changes.cursor.step_val(changes.storage);
        }
        if let Some(last) = &expired {
            self.logic.expired(key, last);
        }
        if let Some(first) = first {
            self.logic.changes(key, &first, began);
        }
        expired
    }

    /// Emits what changes at a moment between two answers.
    fn emit(&self, key: &[u8], [before, after]: [&Answer; 2], moment: Time, as_of: Time, [rows, errors]: &mut [UpdatesBuilder; 2]) {
        if !self.expiries.hides(moment, as_of) {
            emit_rows(key, before, after, moment, rows);
        }
        emit_errors(before, after, moment, errors);
    }

    /// The last answer stands.
    fn settle(&mut self, key: &[u8], last: &Answer) {
        self.logic.settled(key, last);
        if let Some(error) = &last.error {
            self.failing.insert(key.to_vec(), error.clone());
        } else if !self.failing.is_empty() {
            self.failing.remove(key);
        }
    }

    /// Goes through the moments, of which there are some, with one beginning for all.
    fn at_once(&mut self, key: &[u8], mut group: Group<'_>, moments: &[Time], outputs: &mut [UpdatesBuilder; 2]) {
        let as_of = group.as_of;
        let mut answer_until = |logic: &mut L, until| {
            group.cursor.rewind_vals(group.storage);
            logic.answer(key, &mut Before { group: &mut group, until, stepped: false })
        };
        let mut before = answer_until(&mut self.logic, moments[0]);
        for moment in moments {
            let after = answer_until(&mut self.logic, moment + 1);
            self.emit(key, [&before, &after], *moment, as_of, outputs);
            before = after;
        }
        self.settle(key, &before);
    }

    /// Goes through the moments, of which there are some, each from where it changes something.
    fn by_moment(&mut self, key: &[u8], mut group: Group<'_>, moments: &[Time], outputs: &mut [UpdatesBuilder; 2]) {
        let as_of = group.as_of;
        let answers = |logic: &mut L, moving: &mut Moving, failed: Option<&String>, moment| {
            let before = match failed {
                Some(error) => Answer { error: Some(error.clone()), ..Answer::default() },
                None => logic.answer(key, &mut moving.rows(logic.beginning(key))),
            };
            moving.pass(moment);
            let after = logic.answer(key, &mut moving.rows(logic.beginning(key)));
            [before, after]
        };
        let mut moving = Moving::new(&mut group, self.logic.beginning(key), moments[0]);
        for moment in moments {
            let failed = self.failing.get(key);
            if failed.is_none() && self.logic.forgets_rows() && self.expiries.hides(*moment, as_of) {
                continue;
            }
            // What has gone without a word.
            moving.pass(moment - 1);
            if let Some(value) = moving.first(*moment) {
                self.logic.changes(key, value, *moment);
            }
            let [mut before, mut after] = answers(&mut self.logic, &mut moving, failed, *moment);
            // An error stands for all of the group.
            if after.error.is_some() && self.logic.forget(key) {
                moving = Moving::new(&mut group, &[], *moment);
                [before, after] = answers(&mut self.logic, &mut moving, failed, *moment);
            }
            self.emit(key, [&before, &after], *moment, as_of, outputs);
            self.settle(key, &after);
        }
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
