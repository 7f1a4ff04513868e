//! SESSION: every row with the session that it is in, as rows come in any order and go.
//!
//! A session is as many rows of a partition as follow one another in less than a gap; it begins with the first of them and
//! ends the gap after the last. (A row at that end is not in it, so once time has come to the end no row to come is.) A row that comes may extend a session or make one of two, one that goes may split it; all rows
//! whose session is another one then are said anew. The result is that of the rows from scratch.
//!
//! The partition is arranged by time. What can be affected by a change is found by looking from its time to the neighbours
//! that are nearer than a gap, theirs, and so on; no other row is looked at. So a change costs the sessions that it
//! touches, not their partition. Looking to the left takes a seek for each gap that is passed, to the right a step a row.

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use differential_dataflow::trace::implementations::BatchContainer;
use timely::dataflow::Stream;

use super::settle::Expiries;
use super::sweep::{Change, Group, Visit, per_key};
use crate::row::batch::RowBatch;
use crate::row::spine::RowTrace;
use crate::row::{ByteRows, Bytes, Diff, Time, Updates, UpdatesBuilder, instant, instant_bytes};

/// Each row (`key ++ value`, of which the value begins with a time in milliseconds) with its session's start and end behind it.
/// A row without a time is in none.
pub fn sessions<'s>(arranged: Arranged<'s, RowTrace>, as_of: Time, gap: i64, expiries: Expiries) -> Stream<'s, Time, Updates> {
    let [rows] = per_key(arranged, "Session", as_of, Sessions { gap, expiries, near: Near::default() });
    rows
}

struct Sessions {
    gap: i64,
    expiries: Expiries,
    near: Near,
}

impl Visit<RowBatch, 1> for Sessions {
    fn visit(&mut self, mut change: Change<'_, RowBatch>, [rows]: &mut [UpdatesBuilder; 1]) {
        let (key, as_of) = (change.key, change.as_of());
        self.expiries.skip(change.moments, as_of);
        let Some(first) = change.moments.first().copied() else { return };
        let touched = touched(&mut change.changes, first);
        let Some(mut group) = change.group() else { return };
        let mut looked_to = None;
        for time in touched {
            if looked_to.is_some_and(|last| time <= last) {
                continue;
            }
            looked_to = Some(self.near.load(&mut group, time, first, self.gap));
            for update in self.near.updates.chunk_by(|a, b| a.0 == b.0) {
                let moment = update[0].0;
                let say = !self.expiries.hides(moment, as_of);
                let indices = update.iter().map(|(_, index, diff)| (*index, *diff));
                apply(&mut self.near.rows, &self.near.values, indices, self.gap, |value, diff| {
                    if say {
                        rows.push(key, value, moment, diff);
                    }
                });
            }
        }
    }
}

/// The times of values that change at or after a moment, ascending.
fn touched(changes: &mut Group<'_, RowBatch>, first: Time) -> Vec<i64> {
    let mut touched = Vec::new();
    while let Some(value) = changes.cursor.get_val(changes.storage) {
        let (mut is_new, as_of) = (false, changes.as_of);
        changes.cursor.map_times(changes.storage, |time, _| is_new |= as_of.max(*time) >= first);
        touched.extend(instant(value.0).filter(|_| is_new));
        changes.cursor.step_val(changes.storage);
    }
    touched.dedup();
    touched
}

/// The rows of a partition that a change may affect, in the order of their times.
#[derive(Default)]
struct Near {
    rows: Vec<Row>,
    values: ByteRows,
    /// Of which row how many more there are when, in the order of moments.
    updates: Vec<(Time, usize, Diff)>,
}

#[derive(Clone, Copy)]
struct Row {
    time: i64,
    /// How often it is there before a moment, and after it.
    before: Diff,
    after: Diff,
}

impl Row {
    /// Before the moment, or after it.
    fn is_there(&self) -> bool {
        self.before != 0 || self.after != 0
    }
}

impl Near {
    /// Loads the rows that follow one another in less than `gap` around `time`, whether they are there or have been; gives
    /// the last one's time.
    fn load(&mut self, group: &mut Group<'_, RowBatch>, time: i64, first: Time, gap: i64) -> i64 {
        self.rows.clear();
        self.values.clear();
        self.updates.clear();
        let mut earliest = time;
        loop {
            group.cursor.rewind_vals(group.storage);
            group.cursor.seek_val(group.storage, Bytes(&instant_bytes(earliest.saturating_sub(gap - 1))));
            match group.cursor.get_val(group.storage).and_then(|value| instant(value.0)) {
                Some(found) if found < earliest => earliest = found,
                _ => break,
            }
        }
        let (mut last, as_of) = (earliest, group.as_of);
        while let Some(value) = group.cursor.get_val(group.storage) {
            let Some(time) = instant(value.0).filter(|time| time.saturating_sub(last) < gap) else { break };
            last = time;
            let (index, updates, mut before) = (self.rows.len(), &mut self.updates, 0);
            self.values.push(value.0);
            group.cursor.map_times(group.storage, |time, diff| match as_of.max(*time) {
                time if time < first => before += diff,
                time => updates.push((time, index, *diff)),
            });
            self.rows.push(Row { time, before, after: before });
            group.cursor.step_val(group.storage);
        }
        self.updates.sort_unstable();
        last.max(time)
    }
}

/// Makes the updates of one moment, of rows in ascending order, and says what becomes of all rows whose session they touch.
fn apply(
    rows: &mut [Row],
    values: &ByteRows,
    updates: impl Iterator<Item = (usize, Diff)> + Clone,
    gap: i64,
    mut say: impl FnMut(&[&[u8]], Diff),
) {
    updates.clone().for_each(|(index, diff)| rows[index].after += diff);
    let mut done = 0;
    for (index, _) in updates.clone() {
        if index < done || !rows[index].is_there() {
            continue;
        }
        let (from, to) = around(rows, index, gap);
        done = to;
        let [old, new] = [spans(&rows[from..to], gap, |row| row.before), spans(&rows[from..to], gap, |row| row.after)];
        for (offset, row) in rows[from..to].iter().enumerate() {
            let mut said = |span: (i64, i64), diff: Diff| {
                if diff != 0 {
                    say(&[values.get(from + offset), &instant_bytes(span.0), &instant_bytes(span.1.saturating_add(gap))], diff);
                }
            };
            if old[offset] == new[offset] {
                said(new[offset], row.after - row.before);
            } else {
                said(old[offset], -row.before);
                said(new[offset], row.after);
            }
        }
    }
    updates.for_each(|(index, _)| rows[index].before = rows[index].after);
}

/// From and to which row those are that follow one another in less than `gap` around one, before or after the moment.
fn around(rows: &[Row], index: usize, gap: i64) -> (usize, usize) {
    let (mut from, mut to) = (index, index + 1);
    let mut earliest = rows[index].time;
    for (at, row) in rows[..index].iter().enumerate().rev() {
        if earliest.saturating_sub(row.time) >= gap {
            break;
        }
        if row.is_there() {
            (from, earliest) = (at, row.time);
        }
    }
    let mut last = rows[index].time;
    for (at, row) in rows.iter().enumerate().skip(index + 1) {
        if row.time.saturating_sub(last) >= gap {
            break;
        }
        if row.is_there() {
            (to, last) = (at + 1, row.time);
        }
    }
    (from, to)
}

/// The first and the last time of each row's session, among the rows that `count` does not find zero of.
fn spans(rows: &[Row], gap: i64, count: impl Fn(&Row) -> Diff) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = rows.iter().map(|row| (row.time, row.time)).collect();
    let there: Vec<usize> = (0..rows.len()).filter(|index| count(&rows[*index]) != 0).collect();
    for session in there.chunk_by(|a, b| rows[*b].time.saturating_sub(rows[*a].time) < gap) {
        let span = (rows[session[0]].time, rows[session[session.len() - 1]].time);
        session.iter().for_each(|index| spans[*index] = span);
    }
    spans
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use timely::dataflow::operators::core::{Input as _, Probe};

    use super::*;
    use crate::dataflow::arrange::arrange_rows;
    use crate::dataflow::join::map_containers;
    use crate::dataflow::state::States;

    const GAP: i64 = 4;
    const TIMES: u64 = 40;

    /// Rows by key, time and tag, each as often as it is there.
    type Rows = BTreeMap<(u8, i64, u8), Diff>;
    /// The same with the session's start and end.
    type InSessions = BTreeMap<(u8, i64, u8, i64, i64), Diff>;
    /// What becomes of rows at one time.
    type Changes = Vec<((u8, i64, u8), Diff)>;
    /// Encoded rows as they are said.
    type Said = Rc<RefCell<Vec<(Vec<u8>, Time, Diff)>>>;

    /// The sessions of rows, from scratch.
    fn from_scratch(rows: &Rows) -> InSessions {
        let mut found = InSessions::new();
        let there: Vec<_> = rows.iter().filter(|(_, count)| **count != 0).collect();
        for session in there.chunk_by(|((key, time, _), _), ((next_key, next, _), _)| key == next_key && next - time < GAP) {
            let (start, end) = (session[0].0.1, session[session.len() - 1].0.1 + GAP);
            found.extend(session.iter().map(|((key, time, tag), count)| ((*key, *time, *tag, start, end), **count)));
        }
        found
    }

    /// Random inserts and deletes at each of the times, never of what is not there.
    fn random_changes(rng: &mut StdRng) -> Vec<Changes> {
        let mut rows = Rows::new();
        let mut step = || {
            let mut changes = vec![];
            for _ in 0..rng.random_range(0..4) {
                let there: Vec<_> = rows.iter().filter(|(_, count)| **count > 0).map(|(row, _)| *row).collect();
                let (row, diff) = match there.len() {
                    n if n > 0 && rng.random_bool(0.45) => (there[rng.random_range(0..n)], -1),
                    _ => ((rng.random_range(0..2), rng.random_range(-30..30), rng.random_range(0..2)), 1),
                };
                *rows.entry(row).or_default() += diff;
                changes.push((row, diff));
            }
            changes
        };
        (0..TIMES).map(|_| step()).collect()
    }

    fn check(seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        let changes = random_changes(&mut rng);
        let batches: Vec<u64> = (1..=TIMES).filter(|time| *time == TIMES || rng.random_bool(0.3)).collect();
        let fed = changes.clone();
        let out = timely::execute_directly(move |worker| {
            let out = Said::default();
            let seen = Rc::clone(&out);
            let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
                let rows = sessions(arrange_rows(stream, "Arrange", &mut States::default()), 0, GAP, Expiries::Loud);
                let rows = map_containers(rows, move |updates| {
                    let all = (0..updates.len()).map(|index| (updates.row(index).to_vec(), updates.time(index), updates.diff(index)));
                    seen.borrow_mut().extend(all);
                    updates
                });
                (input, rows.probe().0)
            });
            let mut time = 0;
            for batch in batches {
                let mut updates = Updates::default();
                for (offset, changes) in fed[time as usize..batch as usize].iter().enumerate() {
                    for ((key, at, tag), diff) in changes {
                        updates.push_parts(&[*key], &[&instant_bytes(*at), &[*tag]], time + offset as u64, *diff);
                    }
                }
                input.send_batch(&mut updates);
                input.advance_to(batch);
                worker.step_while(|| probe.less_than(&batch));
                time = batch;
            }
            out.take()
        });
        let (mut rows, mut said) = (Rows::new(), InSessions::new());
        for (time, changes) in changes.iter().enumerate() {
            changes.iter().for_each(|(row, diff)| *rows.entry(*row).or_default() += diff);
            for (row, _, diff) in out.iter().filter(|(_, at, _)| *at == time as u64) {
                let at = |from: usize| instant(&row[from..]).expect("a time is there");
                *said.entry((row[0], at(1), row[10], at(11), at(20))).or_default() += diff;
            }
            said.retain(|_, count| *count != 0);
            assert_eq!(said, from_scratch(&rows), "seed {seed}, at {time}");
        }
    }

    #[test]
    fn sessions_are_those_from_scratch_at_every_moment_however_many_come_at_once() {
        (0..200).for_each(check);
    }

    #[test]
    fn a_change_looks_at_the_rows_of_the_sessions_that_it_touches_and_at_no_other() {
        struct Looked(Rc<RefCell<Vec<usize>>>, Near);
        impl Visit<RowBatch, 1> for Looked {
            fn visit(&mut self, mut change: Change<'_, RowBatch>, _: &mut [UpdatesBuilder; 1]) {
                let first = change.moments[0];
                for time in touched(&mut change.changes, first) {
                    self.1.load(&mut change.group().expect("it has changed"), time, first, GAP);
                    self.0.borrow_mut().push(self.1.rows.len());
                }
            }
        }
        let loaded = timely::execute_directly(move |worker| {
            let loaded = Rc::new(RefCell::new(Vec::new()));
            let seen = Rc::clone(&loaded);
            let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
                let [rows] = per_key(arrange_rows(stream, "Arrange", &mut States::default()), "Looked", 0, Looked(seen, Near::default()));
                (input, rows.probe().0)
            });
            // A thousand sessions of three rows, then a row that extends one of them.
            let mut updates = Updates::default();
            (0..3_000).for_each(|row: i64| updates.push(&[], &instant_bytes(row / 3 * 10 + row % 3), 0, 1));
            input.send_batch(&mut updates);
            input.advance_to(1);
            worker.step_while(|| probe.less_than(&1));
            updates.push(&[], &instant_bytes(5_005), 1, 1);
            input.send_batch(&mut updates);
            input.advance_to(2);
            worker.step_while(|| probe.less_than(&2));
            loaded.take()
        });
        assert_eq!(loaded.len(), 3_001);
        assert_eq!(loaded.last(), Some(&4));
    }
}
