//! Multiplicities below zero, which are an error of the data: a row that was deleted more often than it was inserted.

use std::collections::HashSet;

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::arrange::{Held, Output, Reading};
use crate::row::spine::{RowBatch, RowTrace};
use crate::row::{Codec, Diff, Time, Updates, UpdatesBuilder};

/// An error for each row of a relation that is there less than zero times, for as long as it is. Looks only at rows
/// that a batch takes away, and at those that are in error.
pub fn guard<'s>(arranged: Arranged<'s, RowTrace>, relation: String, codec: Codec, as_of: Time) -> Stream<'s, Time, Updates> {
    let mut builder = OperatorBuilder::new("Guard".to_owned(), arranged.stream.scope());
    let mut input = builder.new_input(arranged.stream, Pipeline);
    let (output, errors) = builder.new_output();
    let mut reading = Reading::new(arranged.trace, as_of);
    builder.build(move |_| {
        let mut output = Output::from(output);
        let mut held = Held::new(1);
        let mut guard = Guard { relation, codec, below_zero: HashSet::new() };
        move |_| {
            input.for_each(|capability, spans| {
                held.hold(&capability);
                reading.receive(spans);
            });
            if reading.is_ready() {
                let mut errors = UpdatesBuilder::default();
                guard.work(&mut reading, &mut errors);
                held.send(0, errors, &mut output);
            }
            let received = reading.received();
            if !reading.finish(received) {
                held.downgrade(None);
            }
        }
    });
    errors
}

struct Guard {
    relation: String,
    codec: Codec,
    below_zero: HashSet<Vec<u8>>,
}

impl Guard {
    fn work(&mut self, reading: &mut Reading<RowBatch>, errors: &mut UpdatesBuilder) {
        let as_of = reading.effective(0);
        let (mut changes, change_storage) = reading.changes();
        let (mut cursor, storage) = reading.contents();
        let mut moments: Vec<Time> = Vec::new();
        while let Some(row) = changes.get_key(&change_storage) {
            moments.clear();
            let mut suspicious = self.below_zero.contains(row.0);
            changes.map_times(&change_storage, |time, diff| {
                moments.push(as_of.max(*time));
                suspicious |= *diff < 0;
            });
            if suspicious {
                moments.sort_unstable();
                moments.dedup();
                cursor.seek_key(&storage, row);
                let mut count_until = |until: Time| {
                    let mut count: Diff = 0;
                    if cursor.get_key(&storage) == Some(row) {
                        cursor.map_times(&storage, |time, diff| count += if as_of.max(*time) < until { *diff } else { 0 });
                    }
                    count
                };
                let mut before = count_until(moments[0]);
                for moment in &moments {
                    let after = count_until(moment + 1);
                    self.report(row.0, before, -1, *moment, errors);
                    self.report(row.0, after, 1, *moment, errors);
                    before = after;
                }
                if before < 0 {
                    self.below_zero.insert(row.to_vec());
                } else {
                    self.below_zero.remove(row.0);
                }
            }
            changes.step_key(&change_storage);
        }
    }

    fn report(&self, row: &[u8], count: Diff, diff: Diff, time: Time, errors: &mut UpdatesBuilder) {
        if count < 0 {
            let shown = self.codec.decode([row].into_iter()).map(|batch| crate::text::line(&batch, 0).join(", "));
            let message = format!("{}: the row ({}) is there {count} times", self.relation, shown.unwrap_or_default());
            errors.push(message.as_bytes(), &[], time, diff);
        }
    }
}
