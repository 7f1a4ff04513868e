//! Joins by equality of keys.
//!
//! The inner join is differential dataflow's: each side's new batch meets the other side's trace, and an output row is
//! the concatenation of the key's bytes and the two values'. The others are made of it. A left row has a match as long
//! as its key *occurs* on the right, so a semi join is the inner join with the right side's distinct keys, an anti join
//! is what the semi join leaves, and an outer join adds the anti join's rows with NULLs. Each part changes only with
//! what changes: a second row of a key on the right costs a count, not a look at the left side.

use differential_dataflow::operators::arrange::Arranged;
use timely::dataflow::Stream;
use timely::dataflow::operators::core::Concatenate;

use super::accumulate::count_rows;
use super::arrange::{arrange_rows, arrange_sums, flatten};
use super::settle::Expiries;
use super::state::States;
use super::threshold::threshold;
use crate::plan::Threshold;
use crate::row::spine::{RowTrace, SumTrace};
use crate::row::{ByteRows, Time, Updates, UpdatesBuilder};

/// `key ++ left value ++ right value` for every pair with equal keys.
pub fn inner<'s>(left: Arranged<'s, RowTrace>, right: Arranged<'s, RowTrace>, name: &str, as_of: Time) -> Stream<'s, Time, Updates> {
    differential_dataflow::operators::cursor::join::join_traces::<_, _, ByteRows, _, UpdatesBuilder>(
        left,
        right,
        name,
        move |key, left, right, time, left_diff, right_diff, updates| {
            updates.push(key.0, &[left.0, right.0], as_of.max(time), left_diff * right_diff);
        },
    )
}

/// How many rows each key of an arrangement has, arranged.
pub fn key_counts<'s>(side: Arranged<'s, RowTrace>, as_of: Time, states: &mut States) -> Arranged<'s, SumTrace> {
    arrange_sums(count_rows(flatten(side, "Keys", as_of)), "Arrange key counts", states)
}

/// The keys that occur, arranged with empty values.
pub fn distinct_keys<'s>(counts: Arranged<'s, SumTrace>, as_of: Time, states: &mut States) -> Arranged<'s, RowTrace> {
    arrange_rows(threshold(counts, "Distinct keys", as_of, Threshold::Distinct, Expiries::Loud), "Arrange keys", states)
}

/// The left rows whose key is not among the keys.
pub fn anti<'s>(left: Arranged<'s, RowTrace>, keys: Arranged<'s, RowTrace>, as_of: Time) -> Stream<'s, Time, Updates> {
    let all = flatten(left.clone(), "Left rows", as_of);
    let matched = negate(inner(left, keys, "Join keys", as_of));
    all.scope().concatenate([all, matched])
}

/// Every diff negated.
pub fn negate<'s>(stream: Stream<'s, Time, Updates>) -> Stream<'s, Time, Updates> {
    map_containers(stream, |mut updates| {
        updates.negate();
        updates
    })
}

/// `key ++ nulls ++ value ++ nulls` for `key ++ value`: the NULLs of an absent side.
pub fn pad<'s>(stream: Stream<'s, Time, Updates>, before: Vec<u8>, after: Vec<u8>) -> Stream<'s, Time, Updates> {
    map_containers(stream, move |updates| {
        let mut padded = Updates::default();
        for index in 0..updates.len() {
            padded.push_parts(updates.key(index), &[&before, updates.value(index), &after], updates.time(index), updates.diff(index));
        }
        padded
    })
}

/// Applies a function to each container.
pub fn map_containers<'s>(
    stream: Stream<'s, Time, Updates>,
    mut logic: impl FnMut(Updates) -> Updates + 'static,
) -> Stream<'s, Time, Updates> {
    use timely::container::NoopBuilder;
    use timely::dataflow::channels::pact::Pipeline;
    use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};
    stream.unary(Pipeline, "Map", move |_, _| {
        move |input, output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            input.for_each(|capability, updates| {
                let mut mapped = logic(std::mem::take(updates));
                output.session_with_builder(&capability).give_container(&mut mapped);
            });
        }
    })
}
