//! Two batches become one.
//!
//! Differential dataflow's spine merges batches a bounded piece at a time; times that no reader can tell apart any more are
//! one, and what cancels goes. Rows and sums are copied from batch to batch where they lie: none is taken out to be owned.

use std::cmp::Ordering;

use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::Vals;
use differential_dataflow::trace::implementations::spine_fueled::{Merger, SpineBatch};
use timely::progress::frontier::AntichainRef;

use super::batch::{Keys, RowStorage, SumStorage};
use super::changes::Changes;
use super::{ByteRows, Diff, Offsets, SumsContainer, Time};

/// A batch by key as it is written from two.
pub trait Merged: Sized + 'static {
    type Storage: SpineBatch<Time = Time> + Keys + 'static;
    /// Nothing yet, with room for both.
    fn for_both(one: &Self::Storage, other: &Self::Storage) -> Self;
    /// Writes a key that one of them has. Gives the number of updates read.
    fn copy(&mut self, from: &Self::Storage, key: usize, since: Time) -> usize;
    /// Writes a key that both have. Gives the number of updates read.
    fn merge(&mut self, sources: [(&Self::Storage, usize); 2], since: Time) -> usize;
    /// The batch; None where nothing is in it.
    fn finish(self) -> Option<Self::Storage>;
}

/// A merge that goes on: times before `since` are one; the keys before `at` have been read.
pub struct KeyMerger<M> {
    merged: M,
    since: Time,
    at: [usize; 2],
}

impl<M: Merged> Merger<M::Storage> for KeyMerger<M> {
    fn new(one: &M::Storage, other: &M::Storage, since: AntichainRef<'_, Time>) -> Self {
        KeyMerger { merged: M::for_both(one, other), since: since.first().copied().unwrap_or(0), at: [0, 0] }
    }

    fn work(&mut self, one: &M::Storage, other: &M::Storage, fuel: &mut isize) {
        let (keys, other_keys) = (one.keys(), other.keys());
        let KeyMerger { merged, since, at: [at, other_at] } = self;
        while *fuel > 0 {
            let order = match (*at < keys.len(), *other_at < other_keys.len()) {
                (true, true) => keys.index(*at).cmp(&other_keys.index(*other_at)),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => return,
            };
            let read = match order {
                Ordering::Less => merged.copy(one, *at, *since),
                Ordering::Greater => merged.copy(other, *other_at, *since),
                Ordering::Equal => merged.merge([(one, *at), (other, *other_at)], *since),
            };
            *at += usize::from(order.is_le());
            *other_at += usize::from(order.is_ge());
            *fuel -= read as isize;
        }
    }

    fn done(self) -> Option<M::Storage> {
        self.merged.finish()
    }
}

/// A batch of sums that is written from two.
pub struct MergedSums {
    keys: ByteRows,
    changes: Changes<SumsContainer>,
}

impl SpineBatch for SumStorage {
    type Time = Time;
    type Merger = KeyMerger<MergedSums>;

    fn len(&self) -> usize {
        self.updates
    }
}

impl Merged for MergedSums {
    type Storage = SumStorage;

    fn for_both(one: &SumStorage, other: &SumStorage) -> Self {
        MergedSums { keys: ByteRows::merge_capacity(&one.keys, &other.keys), changes: Changes::for_both(&one.upds, &other.upds) }
    }

    #[inline(always)]
    fn copy(&mut self, from: &SumStorage, key: usize, since: Time) -> usize {
        if self.changes.copy(&from.upds, key, since) {
            self.keys.push(from.keys.get(key));
        }
        count(from.upds.bounds(key))
    }

    #[inline(always)]
    fn merge(&mut self, [one, other]: [(&SumStorage, usize); 2], since: Time) -> usize {
        if self.changes.merge([one, other].map(|(source, key)| (&source.upds, key)), since) {
            self.keys.push(one.0.keys.get(one.1));
        }
        count(one.0.upds.bounds(one.1)) + count(other.0.upds.bounds(other.1))
    }

    fn finish(self) -> Option<SumStorage> {
        let (upds, updates) = self.changes.finish();
        (updates > 0).then_some(SumStorage { keys: self.keys, upds, updates, new: Vec::new() })
    }
}

/// A batch of rows that is written from two.
pub struct MergedRows {
    keys: ByteRows,
    vals: Vals<Offsets, ByteRows>,
    changes: Changes<Vec<Diff>>,
}

impl SpineBatch for RowStorage {
    type Time = Time;
    type Merger = KeyMerger<MergedRows>;

    fn len(&self) -> usize {
        self.updates
    }
}

impl MergedRows {
    /// Copies the values of a key from one on; gives the number of updates read.
    #[inline(always)]
    fn copy_vals(&mut self, from: &RowStorage, vals: std::ops::Range<usize>, since: Time) -> usize {
        let mut read = 0;
        for val in vals {
            if self.changes.copy(&from.upds, val, since) {
                self.vals.vals.push(from.vals.vals.get(val));
            }
            read += count(from.upds.bounds(val));
        }
        read
    }

    /// Ends a key, whose values have been written.
    #[inline(always)]
    fn end_key(&mut self, key: &[u8]) {
        let end = self.vals.vals.len();
        if self.vals.offs.last() != Some(end) {
            self.vals.offs.push(end);
            self.keys.push(key);
        }
    }
}

impl Merged for MergedRows {
    type Storage = RowStorage;

    fn for_both(one: &RowStorage, other: &RowStorage) -> Self {
        MergedRows {
            keys: ByteRows::merge_capacity(&one.keys, &other.keys),
            vals: Vals::merge_capacity(&one.vals, &other.vals),
            changes: Changes::for_both(&one.upds, &other.upds),
        }
    }

    #[inline(always)]
    fn copy(&mut self, from: &RowStorage, key: usize, since: Time) -> usize {
        let (start, end) = from.vals.bounds(key);
        let read = self.copy_vals(from, start..end, since);
        self.end_key(from.keys.get(key));
        read
    }

    fn merge(&mut self, [(one, key), (other, other_key)]: [(&RowStorage, usize); 2], since: Time) -> usize {
        let ((mut at, end), (mut other_at, other_end)) = (one.vals.bounds(key), other.vals.bounds(other_key));
        let mut read = 0;
        while at < end && other_at < other_end {
            let order = one.vals.vals.index(at).cmp(&other.vals.vals.index(other_at));
            read += match order {
                Ordering::Less => self.copy_vals(one, at..at + 1, since),
                Ordering::Greater => self.copy_vals(other, other_at..other_at + 1, since),
                Ordering::Equal => {
                    if self.changes.merge([(&one.upds, at), (&other.upds, other_at)], since) {
                        self.vals.vals.push(one.vals.vals.get(at));
                    }
                    count(one.upds.bounds(at)) + count(other.upds.bounds(other_at))
                }
            };
            at += usize::from(order.is_le());
            other_at += usize::from(order.is_ge());
        }
        read += self.copy_vals(one, at..end, since) + self.copy_vals(other, other_at..other_end, since);
        self.end_key(one.keys.get(key));
        read
    }

    fn finish(self) -> Option<RowStorage> {
        let (upds, updates) = self.changes.finish();
        (updates > 0).then_some(RowStorage { keys: self.keys, vals: self.vals, upds, updates })
    }
}

/// How many updates lie between two bounds.
#[inline(always)]
fn count((start, end): (usize, usize)) -> usize {
    end - start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Sum, SumKind};
    use crate::row::batch::{RowBatch, SumBatch};
    use crate::row::spine::Sealed;
    use crate::row::{SlotLayout, SumUpdates, Updates};
    use differential_dataflow::difference::IsZero;
    use differential_dataflow::trace::Cursor;
    use differential_dataflow::trace::cursor::cursor_list;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;
    use timely::progress::Antichain;

    /// A row's key and value, and a time: how often it came.
    type Model = BTreeMap<(u8, u8, Time), Diff>;

    fn random(rng: &mut StdRng, times: std::ops::Range<Time>) -> Vec<(u8, u8, Time, Diff)> {
        let updates = rng.random_range(1..60);
        (0..updates)
            .map(|_| (rng.random_range(0..9), rng.random_range(0..4), rng.random_range(times.clone()), rng.random_range(-2..3)))
            .collect()
    }

    fn rows(updates: &[(u8, u8, Time, Diff)]) -> Option<RowBatch> {
        let mut rows = Updates::default();
        updates.iter().for_each(|(key, value, time, diff)| rows.push(&[*key], &[*value], *time, *diff));
        Sealed::of([rows]).build()
    }

    /// A count for each value.
    fn layout() -> SlotLayout {
        let counts = [0, 1, 2, 3].map(|_| Sum { kind: SumKind::Count, column: None, filter: None });
        SlotLayout::new(&counts, |_| None)
    }

    /// The values of a key as counts.
    fn sums(updates: &[(u8, u8, Time, Diff)]) -> Option<SumBatch> {
        let layout = layout();
        let mut rows = SumUpdates::default();
        for (key, value, time, diff) in updates {
            let mut sums = layout.zero();
            layout.add_count(&mut sums, usize::from(*value), *diff);
            rows.push(&[*key], *time, sums);
        }
        Sealed::of([rows]).build()
    }

    /// Merges two batches, a few updates at a time.
    fn merge<B: SpineBatch<Time = Time>>(one: &B, other: &B, since: Time, rng: &mut StdRng) -> Option<B> {
        let mut merger = B::Merger::new(one, other, Antichain::from_elem(since).borrow());
        loop {
            let mut fuel = rng.random_range(1..9i32) as isize;
            merger.work(one, other, &mut fuel);
            if fuel > 0 {
                return merger.done();
            }
        }
    }

    fn expected(updates: impl Iterator<Item = (u8, u8, Time, Diff)>, since: Time) -> Model {
        let mut model = Model::new();
        updates.for_each(|(key, value, time, diff)| *model.entry((key, value, time.max(since))).or_default() += diff);
        model.retain(|_, diff| *diff != 0);
        model
    }

    fn of_rows(batch: Option<RowBatch>) -> Model {
        let mut model = Model::new();
        let (mut cursor, storage) = cursor_list(batch.into_iter().collect());
        while let Some(key) = cursor.get_key(&storage) {
            while let Some(value) = cursor.get_val(&storage) {
                cursor.map_times(&storage, |time, diff| assert_eq!(model.insert((key[0], value[0], *time), *diff), None));
                cursor.step_val(&storage);
            }
            cursor.step_key(&storage);
        }
        model
    }

    fn of_sums(batch: Option<SumBatch>) -> Model {
        let mut model = Model::new();
        let (mut cursor, storage) = cursor_list(batch.into_iter().collect());
        while let Some(key) = cursor.get_key(&storage) {
            cursor.map_times(&storage, |time, sums| {
                let sums = SumsContainer::into_owned(sums);
                assert!(!sums.is_zero());
                let counts = (0..4).map(|value| (value, layout().count(&sums, usize::from(value))));
                for (value, count) in counts.filter(|(_, count)| *count != 0) {
                    assert_eq!(model.insert((key[0], value, *time), count), None);
                }
            });
            cursor.step_key(&storage);
        }
        model
    }

    #[test]
    fn two_batches_become_what_their_updates_come_to() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..2_000 {
            let (one, other) = (random(&mut rng, 0..5), random(&mut rng, 5..9));
            let since = rng.random_range(0..12);
            let all = || expected(one.iter().chain(&other).copied(), since);
            if let (Some(one), Some(other)) = (rows(&one), rows(&other)) {
                assert_eq!(of_rows(merge(&one, &other, since, &mut rng)), all());
            }
            if let (Some(one), Some(other)) = (sums(&one), sums(&other)) {
                assert_eq!(of_sums(merge(&one, &other, since, &mut rng)), all());
            }
        }
    }
}
