//! Functions of a key's multiplicity, read from an arrangement that counts rows in its difference.

use differential_dataflow::operators::arrange::Arranged;
use timely::dataflow::Stream;

use super::accumulate::History;
use super::settle::Expiries;
use super::sweep::{Change, Visit, per_key};
use crate::plan::Threshold;
use crate::row::batch::SumBatch;
use crate::row::spine::SumTrace;
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
    let [rows] = per_key(arranged, name, as_of, Counts { kind, expiries, history: History::default() });
    rows
}

struct Counts {
    kind: Threshold,
    expiries: Expiries,
    history: History,
}

impl Visit<SumBatch, 1> for Counts {
    fn visit(&mut self, mut change: Change<'_, SumBatch>, [rows]: &mut [UpdatesBuilder; 1]) {
        let (history, as_of) = (&mut self.history, change.as_of());
        self.expiries.skip(change.moments, as_of);
        let Some(first) = change.moments.first().copied() else { return };
        history.clear();
        if let Some(group) = change.group() {
            group.map_times(|time, sums| history.add(time, first, sums));
        }
        let mut before = self.kind.of(history.until(first).rows());
        for moment in &*change.moments {
            let after = self.kind.of(history.until(moment + 1).rows());
            if after != before && !self.expiries.hides(*moment, as_of) {
                rows.push(change.key, &[], *moment, after - before);
            }
            before = after;
        }
    }
}
