//! Multiplicities below zero, which are an error of the data: a row that was deleted more often than it was inserted.

use std::collections::HashSet;

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use timely::dataflow::Stream;

use super::sweep::{Change, Visit, per_key};
use crate::row::batch::RowBatch;
use crate::row::spine::RowTrace;
use crate::row::{Codec, Diff, Time, Updates, UpdatesBuilder};

/// An error for each row of a relation that is there less than zero times, for as long as it is. Looks only at rows
/// that a batch takes away, and at those that are in error.
pub fn guard<'s>(arranged: Arranged<'s, RowTrace>, relation: String, codec: Codec, as_of: Time) -> Stream<'s, Time, Updates> {
    let [errors] = per_key(arranged, "Guard", as_of, Guard { relation, codec, below_zero: HashSet::new() });
    errors
}

struct Guard {
    relation: String,
    codec: Codec,
    below_zero: HashSet<Vec<u8>>,
}

impl Visit<RowBatch, 1> for Guard {
    fn visit(&mut self, mut change: Change<'_, RowBatch>, [errors]: &mut [UpdatesBuilder; 1]) {
        let row = change.key;
        let mut suspicious = self.below_zero.contains(row);
        let changes = &mut change.changes;
        changes.cursor.map_times(changes.storage, |_, diff| suspicious |= *diff < 0);
        if !suspicious {
            return;
        }
        let moments = std::mem::take(change.moments);
        let mut group = change.group();
        let mut count_until = |until| group.as_mut().map_or(0, |group| group.count(until));
        let mut before = count_until(moments[0]);
        for moment in &moments {
            let after = count_until(moment + 1);
            self.report(row, before, -1, *moment, errors);
            self.report(row, after, 1, *moment, errors);
            before = after;
        }
        if before < 0 {
            self.below_zero.insert(row.to_vec());
        } else {
            self.below_zero.remove(row);
        }
    }
}

impl Guard {
    fn report(&self, row: &[u8], count: Diff, diff: Diff, time: Time, errors: &mut UpdatesBuilder) {
        if count < 0 {
            let shown = self.codec.decode([row].into_iter()).map(|batch| crate::text::line(&batch, 0).join(", "));
            let message = format!("{}: the row ({}) is there {count} times", self.relation, shown.unwrap_or_default());
            errors.push(message.as_bytes(), &[], time, diff);
        }
    }
}
