//! Batches: rows, or sums, by key.
//!
//! A batch lists its keys in order; rows have their values in order under each. What is of a row is a list of times with
//! changes, and a list that is one update like the last one of the row before takes no memory (see
//! [`Changes`](super::changes::Changes)). Batches are written by a [`draft`](super::draft) or by a [`merge`](super::merge) of
//! two.

use std::rc::Rc;

use differential_dataflow::difference::Semigroup;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::{Upds, Vals};
use differential_dataflow::trace::{Cursor, Navigable, Span};
use smallvec::SmallVec;

use super::{ByteRows, Bytes, Diff, Offsets, Sums, SumsContainer, SumsRef, Time};

/// The lists of times and changes of a batch.
pub type UpdateLists<D> = Upds<Offsets, Vec<Time>, D>;
/// A batch of rows by key.
pub type RowBatch = Rc<RowStorage>;
/// A batch of sums by key.
pub type SumBatch = Rc<SumStorage>;

/// Rows, each with a list of updates.
pub struct RowStorage {
    pub keys: ByteRows,
    /// The values of each key.
    pub vals: Vals<Offsets, ByteRows>,
    /// The updates of each value.
    pub upds: UpdateLists<Vec<Diff>>,
    /// How many updates there are, those among them that take no memory.
    pub updates: usize,
}

/// Keys, each with a list of sums.
pub struct SumStorage {
    pub keys: ByteRows,
    pub upds: UpdateLists<SumsContainer>,
    /// How many updates there are, those among them that take no memory.
    pub updates: usize,
    /// For each key, whether it is known that all batches before come to nothing of it; shorter where nothing is known.
    pub new: Vec<bool>,
}

/// Bytes of memory that a batch uses.
pub trait MemoryUse {
    fn memory(&self) -> usize;
}

impl MemoryUse for RowBatch {
    fn memory(&self) -> usize {
        let RowStorage { keys, vals, upds, .. } = &**self;
        keys.memory() + vals.offs.memory() + vals.vals.memory() + upds.offs.memory() + 8 * (upds.times.capacity() + upds.diffs.capacity())
    }
}

impl MemoryUse for SumBatch {
    fn memory(&self) -> usize {
        let SumStorage { keys, upds, new, .. } = &**self;
        keys.memory() + upds.offs.memory() + 8 * upds.times.capacity() + upds.diffs.memory() + new.capacity()
    }
}

/// What has a list of keys.
pub trait Keys {
    fn keys(&self) -> &ByteRows;
}

impl Keys for RowStorage {
    #[inline(always)]
    fn keys(&self) -> &ByteRows {
        &self.keys
    }
}

impl Keys for SumStorage {
    #[inline(always)]
    fn keys(&self) -> &ByteRows {
        &self.keys
    }
}

/// The batches of a trace, in which keys are looked up in ascending order.
pub struct KeyReader<S> {
    batches: Vec<Passed<S>>,
}

/// A batch, and how many of its keys have been passed.
struct Passed<S> {
    batch: Rc<S>,
    /// All of it happened at this time or later.
    lower: Time,
    keys: usize,
}

impl<S: Keys> KeyReader<S> {
    pub fn new(spans: Vec<Span<Time, Rc<S>>>) -> Self {
        let lower = |span: &Span<Time, Rc<S>>| span.lower().elements().first().copied().unwrap_or(0);
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

/// Goes through the values of a batch of rows.
pub struct RowCursor {
    key: usize,
    val: usize,
}

impl Navigable for RowStorage {
    type Cursor = RowCursor;

    fn cursor(&self) -> RowCursor {
        RowCursor { key: 0, val: 0 }
    }
}

impl RowCursor {
    #[inline(always)]
    fn stand_at(&mut self, storage: &RowStorage, key: usize) {
        self.key = key;
        if key < storage.keys.len() {
            self.val = storage.vals.bounds(key).0;
        }
    }
}

impl Cursor for RowCursor {
    type Storage = RowStorage;
    type Key<'a> = Bytes<'a>;
    type ValOwn = Vec<u8>;
    type Val<'a> = Bytes<'a>;
    type Time = Time;
    type TimeGat<'a> = &'a Time;
    type Diff = Diff;
    type DiffGat<'a> = &'a Diff;
    type KeyContainer = ByteRows;
    type ValContainer = ByteRows;
    type TimeContainer = Vec<Time>;
    type DiffContainer = Vec<Diff>;

    #[inline(always)]
    fn key_valid(&self, storage: &RowStorage) -> bool {
        self.key < storage.keys.len()
    }

    #[inline(always)]
    fn val_valid(&self, storage: &RowStorage) -> bool {
        self.key_valid(storage) && self.val < storage.vals.bounds(self.key).1
    }

    #[inline(always)]
    fn key<'a>(&self, storage: &'a RowStorage) -> Bytes<'a> {
        storage.keys.index(self.key)
    }

    #[inline(always)]
    fn val<'a>(&self, storage: &'a RowStorage) -> Bytes<'a> {
        storage.vals.vals.index(self.val)
    }

    #[inline(always)]
    fn get_key<'a>(&self, storage: &'a RowStorage) -> Option<Bytes<'a>> {
        self.key_valid(storage).then(|| self.key(storage))
    }

    #[inline(always)]
    fn get_val<'a>(&self, storage: &'a RowStorage) -> Option<Bytes<'a>> {
        self.val_valid(storage).then(|| self.val(storage))
    }

    #[inline(always)]
    fn map_times<L: FnMut(&Time, &Diff)>(&mut self, storage: &RowStorage, mut logic: L) {
        let (start, end) = storage.upds.bounds(self.val);
        storage.upds.times[start..end].iter().zip(&storage.upds.diffs[start..end]).for_each(|(time, diff)| logic(time, diff));
    }

    #[inline]
    fn step_key(&mut self, storage: &RowStorage) {
        self.stand_at(storage, (self.key + 1).min(storage.keys.len()));
    }

    #[inline]
    fn seek_key(&mut self, storage: &RowStorage, key: Bytes<'_>) {
        let passed = storage.keys.advance(self.key, storage.keys.len(), |there| there < key);
        self.stand_at(storage, self.key + passed);
    }

    #[inline(always)]
    fn step_val(&mut self, _: &RowStorage) {
        self.val += 1;
    }

    #[inline]
    fn seek_val(&mut self, storage: &RowStorage, val: Bytes<'_>) {
        if self.key_valid(storage) {
            let end = storage.vals.bounds(self.key).1;
            self.val += storage.vals.vals.advance(self.val, end, |there| there < val);
        }
    }

    fn rewind_keys(&mut self, storage: &RowStorage) {
        self.stand_at(storage, 0);
    }

    #[inline]
    fn rewind_vals(&mut self, storage: &RowStorage) {
        self.stand_at(storage, self.key);
    }
}

/// Goes through the keys of a batch of sums: each has one value, which is nothing.
pub struct SumCursor {
    key: usize,
    /// Whether the value of the key has been passed.
    is_passed: bool,
}

impl Navigable for SumStorage {
    type Cursor = SumCursor;

    fn cursor(&self) -> SumCursor {
        SumCursor { key: 0, is_passed: false }
    }
}

impl Cursor for SumCursor {
    type Storage = SumStorage;
    type Key<'a> = Bytes<'a>;
    type ValOwn = ();
    type Val<'a> = &'a ();
    type Time = Time;
    type TimeGat<'a> = &'a Time;
    type Diff = Sums;
    type DiffGat<'a> = SumsRef<'a>;
    type KeyContainer = ByteRows;
    type ValContainer = Vec<()>;
    type TimeContainer = Vec<Time>;
    type DiffContainer = SumsContainer;

    #[inline(always)]
    fn key_valid(&self, storage: &SumStorage) -> bool {
        self.key < storage.keys.len()
    }

    #[inline(always)]
    fn val_valid(&self, storage: &SumStorage) -> bool {
        !self.is_passed && self.key_valid(storage)
    }

    #[inline(always)]
    fn key<'a>(&self, storage: &'a SumStorage) -> Bytes<'a> {
        storage.keys.index(self.key)
    }

    #[inline(always)]
    fn val<'a>(&self, _: &'a SumStorage) -> &'a () {
        &()
    }

    #[inline(always)]
    fn get_key<'a>(&self, storage: &'a SumStorage) -> Option<Bytes<'a>> {
        self.key_valid(storage).then(|| self.key(storage))
    }

    #[inline(always)]
    fn get_val<'a>(&self, storage: &'a SumStorage) -> Option<&'a ()> {
        self.val_valid(storage).then_some(&())
    }

    #[inline(always)]
    fn map_times<L: FnMut(&Time, SumsRef<'_>)>(&mut self, storage: &SumStorage, mut logic: L) {
        let (start, end) = storage.upds.bounds(self.key);
        (start..end).for_each(|update| logic(&storage.upds.times[update], storage.upds.diffs.index(update)));
    }

    #[inline]
    fn step_key(&mut self, storage: &SumStorage) {
        *self = SumCursor { key: (self.key + 1).min(storage.keys.len()), is_passed: false };
    }

    #[inline]
    fn seek_key(&mut self, storage: &SumStorage, key: Bytes<'_>) {
        let passed = storage.keys.advance(self.key, storage.keys.len(), |there| there < key);
        *self = SumCursor { key: self.key + passed, is_passed: false };
    }

    #[inline(always)]
    fn step_val(&mut self, _: &SumStorage) {
        self.is_passed = true;
    }

    #[inline(always)]
    fn seek_val(&mut self, _: &SumStorage, _: &()) {}

    fn rewind_keys(&mut self, storage: &SumStorage) {
        *self = storage.cursor();
    }

    #[inline(always)]
    fn rewind_vals(&mut self, _: &SumStorage) {
        self.is_passed = false;
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
