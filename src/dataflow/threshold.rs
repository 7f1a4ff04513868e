//! Functions of a key's multiplicity, read from an arrangement that counts rows in its difference.

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Cursor;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::accumulate::History;
use super::arrange::{Held, Output, Reading};
use super::settle::Expiries;
use crate::plan::Threshold;
use crate::row::spine::{SumBatch, SumTrace};
use crate::row::{Diff, Time, Updates, UpdatesBuilder};

impl Threshold {
    fn of(self, count: Diff) -> Diff {
        match self {
            Threshold::Distinct => Diff::from(count > 0),
            Threshold::Positive => count.max(0),
        }
    }
}

/// Each key as often as `kind` makes of its count.
pub fn threshold<'s>(
    arranged: Arranged<'s, SumTrace>,
    name: &str,
    as_of: Time,
    kind: Threshold,
    expiries: Expiries,
) -> Stream<'s, Time, Updates> {
    let mut builder = OperatorBuilder::new(name.to_owned(), arranged.stream.scope());
    let mut input = builder.new_input(arranged.stream, Pipeline);
    let (output, rows) = builder.new_output();
    let mut reading = Reading::new(arranged.trace, as_of);
    builder.build(move |_| {
        let mut output = Output::from(output);
        let mut held = Held::new(1);
        move |_| {
            input.for_each(|capability, spans| {
                held.hold(&capability);
                reading.receive(spans);
            });
            if reading.is_ready() {
                let mut rows = UpdatesBuilder::default();
                work(&mut reading, kind, expiries, &mut rows);
                held.send(0, rows, &mut output);
            }
            let received = reading.received();
            if !reading.finish(received) {
                held.downgrade(None);
            }
        }
    });
    rows
}

fn work(reading: &mut Reading<SumBatch>, kind: Threshold, expiries: Expiries, rows: &mut UpdatesBuilder) {
    let as_of = reading.effective(0);
    let (mut changes, change_storage) = reading.changes();
    let (mut cursor, storage) = reading.contents();
    let (mut times, mut history) = (Vec::new(), History::default());
    while let Some(key) = changes.get_key(&change_storage) {
        times.clear();
        changes.map_times(&change_storage, |time, _| times.push(as_of.max(*time)));
        times.sort_unstable();
        times.dedup();
        let times = expiries.moments(&times, as_of);
        if times.is_empty() {
            changes.step_key(&change_storage);
            continue;
        }
        history.clear();
        cursor.seek_key(&storage, key);
        if cursor.get_key(&storage) == Some(key) {
            cursor.map_times(&storage, |time, sums| history.add(as_of.max(*time), times[0], sums));
        }
        let mut before = kind.of(history.until(times[0]).rows());
        for time in times {
            let after = kind.of(history.until(time + 1).rows());
            if after != before && expiries.are_said(*time, as_of) {
                rows.push(key.0, &[], *time, after - before);
            }
            before = after;
        }
        changes.step_key(&change_storage);
    }
}
