//! Looking keys up in the batches of a trace.
//!
//! Whoever asks for keys in ascending order never goes back in any batch: each look-up gallops from where the last one
//! ended. Nothing is merged on the way, as a cursor over all batches would; what the batches have of a key is added up.

use differential_dataflow::difference::Semigroup;
use differential_dataflow::trace::Span;
use differential_dataflow::trace::implementations::BatchContainer;
use smallvec::SmallVec;

use super::batch::{Keys, RowStorage, Shared, SumBatch, SumStorage};
use super::{ByteRows, Bytes, Diff, Sums, SumsRef, Time};

/// The batches of a trace, in which keys are looked up in ascending order.
pub struct KeyReader<S> {
    batches: Vec<Passed<S>>,
}

/// A batch, and how many of its keys have been passed.
struct Passed<S> {
    batch: Shared<S>,
    /// All of it happened at this time or later.
    lower: Time,
    keys: usize,
}

impl<S: Keys> KeyReader<S> {
    pub fn new(spans: Vec<Span<Time, Shared<S>>>) -> Self {
        let lower = |span: &Span<Time, Shared<S>>| span.lower().elements().first().copied().unwrap_or(0);
        let batches = spans.into_iter().filter_map(|span| Some(Passed { lower: lower(&span), batch: span.inner?, keys: 0 }));
        KeyReader { batches: batches.collect() }
    }

    /// The batches that have a key, of those that have anything from before `until`, each with the key's place.
    #[inline(always)]
    fn find(&mut self, key: &[u8], until: Time) -> impl Iterator<Item = (&S, usize)> {
        self.batches.iter_mut().filter(move |passed| passed.lower < until).filter_map(move |Passed { batch, keys: at, .. }| {
            let keys = batch.keys();
            *at += keys.advance(*at, keys.len(), |there| there < Bytes(key));
            (BatchContainer::get(keys, *at) == Some(Bytes(key))).then_some((&**batch, *at))
        })
    }
}

/// The batches of sums that an operator works off, and the whole trace with them in it.
pub struct SumContents {
    recent: KeyReader<SumStorage>,
    all: KeyReader<SumStorage>,
}

impl SumContents {
    /// The spans are in order of time.
    pub fn new(recent: &[Span<Time, SumBatch>], all: Vec<Span<Time, SumBatch>>) -> Self {
        let tells = recent.iter().flat_map(|span| &span.inner).any(|batch| !batch.new.is_empty());
        SumContents { recent: KeyReader::new(if tells { recent.to_vec() } else { Vec::new() }), all: KeyReader::new(all) }
    }

    /// Calls `each` with the updates of a key, all but such as come to nothing together. What is new need not be looked for
    /// in the whole trace.
    pub fn map_times(&mut self, key: &[u8], mut each: impl FnMut(Time, SumsRef<'_>)) {
        let SumContents { recent, all } = self;
        let is_new = recent.find(key, Time::MAX).next().is_some_and(|(batch, at)| batch.new.get(at) == Some(&true));
        for (SumStorage { upds, .. }, at) in (if is_new { recent } else { all }).find(key, Time::MAX) {
            let (start, end) = upds.bounds(at);
            (start..end).for_each(|update| each(upds.times[update], upds.diffs.index(update)));
        }
    }
}

impl KeyReader<SumStorage> {
    /// What a key's updates come to, all of which are from before `until`.
    pub fn total(&mut self, key: &[u8], until: Time) -> Sums {
        let mut total = Sums::default();
        for (SumStorage { upds, .. }, at) in self.find(key, until) {
            let (start, end) = upds.bounds(at);
            (start..end).for_each(|update| total.plus_equals(&upds.diffs.index(update)));
        }
        total
    }
}

impl KeyReader<RowStorage> {
    /// The values of a key (or the one that is asked for) of which there are any, in order, with how many there are. All
    /// that happened to them did before `until`.
    pub fn values(&mut self, key: &[u8], value: Option<&[u8]>, until: Time, each: impl FnMut(&[u8], Diff)) {
        let wanted = |vals: &ByteRows, start, end| {
            let Some(value) = value else { return (start, end) };
            let at = start + vals.advance(start, end, |there| there < Bytes(value));
            (at, at + usize::from(at < end && vals.index(at) == Bytes(value)))
        };
        self.within(key, wanted, until, each);
    }

    /// The same of the values of a key behind one.
    pub fn values_behind(&mut self, key: &[u8], value: &[u8], until: Time, each: impl FnMut(&[u8], Diff)) {
        self.within(key, |vals, start, end| (start + vals.advance(start, end, |there| there <= Bytes(value)), end), until, each);
    }

    /// The same of those that are `wanted` among the values from one place to another.
    #[inline(always)]
    fn within(
        &mut self,
        key: &[u8],
        wanted: impl Fn(&ByteRows, usize, usize) -> (usize, usize),
        until: Time,
        mut each: impl FnMut(&[u8], Diff),
    ) {
        let (mut found, mut batches) = (SmallVec::<[(Bytes<'_>, Diff); 4]>::new(), 0);
        for (RowStorage { vals, upds, .. }, at) in self.find(key, until) {
            let (start, end) = vals.bounds(at);
            let (start, end) = wanted(&vals.vals, start, end);
            let there = (start..end).map(|val| (vals.vals.index(val), upds.bounds(val)));
            found.extend(there.map(|(there, (start, end))| (there, upds.diffs[start..end].iter().sum())));
            batches += 1;
        }
        if batches > 1 {
            found.sort_unstable_by_key(|(value, _)| *value);
        }
        for of_value in found.chunk_by(|(one, _), (next, _)| one == next) {
            let count: Diff = of_value.iter().map(|(_, diff)| diff).sum();
            if count != 0 {
                each(of_value[0].0.0, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Updates;
    use crate::row::spine::Sealed;
    use differential_dataflow::trace::Description;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;
    use timely::progress::Antichain;

    #[test]
    fn a_key_has_the_values_that_its_updates_come_to_in_all_batches_that_may_have_them() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..500 {
            let mut expected: BTreeMap<u8, (Time, BTreeMap<u8, Diff>)> = BTreeMap::new();
            let mut spans = Vec::new();
            for time in 0..5 {
                let mut updates = Updates::default();
                for _ in 0..rng.random_range(0..12) {
                    let (key, value, diff) = (rng.random_range(0..5), rng.random_range(0..3), rng.random_range(-1..2));
                    updates.push(&[key], &[value], time, diff);
                    let (last, values) = expected.entry(key).or_default();
                    *last = time;
                    *values.entry(value).or_default() += diff;
                }
                let [lower, upper] = [time, time + 1].map(Antichain::from_elem);
                spans.push(Span::new(Description::new(lower, upper, Antichain::from_elem(0)), Sealed::of([updates]).build()));
            }
            let mut reader = KeyReader::<RowStorage>::new(spans);
            for key in 0..5 {
                let (last, mut values) = expected.remove(&key).unwrap_or_default();
                let asked = rng.random_bool(0.5).then(|| rng.random_range(0..3));
                values.retain(|value, count| *count != 0 && asked.is_none_or(|asked| asked == *value));
                let mut found = Vec::new();
                reader.values(&[key], asked.as_ref().map(std::slice::from_ref), last + 1, |value, count| found.push((value[0], count)));
                assert_eq!(found, values.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
