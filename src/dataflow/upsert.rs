//! Rows by primary key: a row that comes replaces the one of its key, a delete removes whichever is there.
//!
//! The operator owns the trace that it makes and looks into it to know what a row replaces, so that what flows on are
//! plain updates, and a key that is written again at one moment comes out as one.

use differential_dataflow::operators::arrange::Arranged;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{DistributorPact, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::Operator;
use timely::progress::frontier::AntichainRef;

use super::arrange::peers;
use super::owned::{Batches, Owned};
use super::state::States;
use crate::row::batch::RowBatch;
use crate::row::reader::KeyReader;
use crate::row::spine::{RowTrace, Sealed};
use crate::row::{ByKey, Time, Updates};

/// Arranges upserts: an update with a positive diff says that its value is the key's, one with a negative diff that
/// the key has none. Of several at one time the last to come counts.
pub fn upsert<'s>(stream: Stream<'s, Time, Updates>, name: &str, states: &mut States) -> Arranged<'s, RowTrace> {
    if peers(stream.scope()) == 1 {
        upsert_core(stream, Pipeline, name, states)
    } else {
        upsert_core(stream, DistributorPact(ByKey::<Updates>::new as fn(usize) -> ByKey<Updates>), name, states)
    }
}

fn upsert_core<'s, P: ParallelizationContract<Time, Updates>>(
    stream: Stream<'s, Time, Updates>,
    pact: P,
    name: &str,
    states: &mut States,
) -> Arranged<'s, RowTrace> {
    let scope = stream.scope();
    let mut place = states.place(name);
    let id = place.id();
    let mut trace = None;
    let trace_out = &mut trace;
    let stream = stream.unary_frontier(pact, name, move |capability, info| {
        let (owned, others) = Owned::new(scope, info, &mut place);
        *trace_out = Some(others);
        let mut owned = owned.hold(Some(capability));
        let mut waiting: Vec<Updates> = Vec::new();
        move |(input, frontier), output: &mut Batches<'_, RowBatch>| {
            input.for_each(|_, updates| waiting.push(std::mem::take(updates)));
            if owned.is_behind(frontier.frontier(), output) {
                let batch = replacements(&mut waiting, &mut owned, frontier.frontier());
                owned.seal(frontier.frontier().to_owned(), batch, output);
            }
            owned.exert();
        }
    });
    let arranged = Arranged { stream, trace: trace.expect("the operator's constructor has run") };
    states.keep_trace(id, &arranged.trace);
    arranged
}

/// The batch of updates that the complete upserts come to.
fn replacements(waiting: &mut Vec<Updates>, owned: &mut Owned<RowBatch>, upper: AntichainRef<'_, Time>) -> Option<RowBatch> {
    let containers = std::mem::take(waiting);
    let complete = |time: Time| upper.first().is_none_or(|upper| time < *upper);
    let mut entries: Vec<(&[u8], Time, &Updates, usize)> = Vec::new();
    let mut later = Updates::default();
    for updates in &containers {
        for index in 0..updates.len() {
            if complete(updates.time(index)) {
                entries.push((updates.key(index), updates.time(index), updates, index));
            } else {
                later.push(updates.key(index), updates.value(index), updates.time(index), updates.diff(index));
            }
        }
    }
    if !later.is_empty() {
        waiting.push(later);
    }
    if entries.is_empty() {
        return None;
    }
    // A stable sort: what came last at a time stays last.
    entries.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let mut contents = KeyReader::new(owned.spans());
    let mut made = Updates::default();
    for of_key in entries.chunk_by(|a, b| a.0 == b.0) {
        let key = of_key[0].0;
        let mut current: Option<Vec<u8>> = None;
        contents.values(key, None, Time::MAX, |value, _| current = Some(value.to_vec()));
        for at_time in of_key.chunk_by(|a, b| a.1 == b.1) {
            let (_, time, updates, index) = at_time[at_time.len() - 1];
            let next = (updates.diff(index) > 0).then(|| updates.value(index));
            if current.as_deref() != next {
                if let Some(old) = &current {
                    made.push(key, old, time, -1);
                }
                if let Some(new) = next {
                    made.push(key, new, time, 1);
                }
                current = next.map(<[u8]>::to_vec);
            }
        }
    }
    Sealed::of([made]).build()
}
