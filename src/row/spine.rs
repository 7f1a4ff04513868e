//! Rows and sums in differential dataflow's traces.
//!
//! Traces are [`Reclaiming`] spines of `OrdValBatch` / `OrdKeyBatch` over our own containers. What is ours is how a batch comes about:
//! the [`Batcher`]s below keep containers as they came and sort *indices* when a frontier seals them, so that no row
//! is moved or allocated before it is written, in order and consolidated, to its batch.

use std::rc::Rc;

use differential_dataflow::batcher::{Batcher, Extract};
use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::ord_neu::key_batch::OrdKeyStorage;
use differential_dataflow::trace::implementations::ord_neu::val_batch::OrdValStorage;
use differential_dataflow::trace::implementations::ord_neu::{OrdKeyBatch, OrdValBatch, Upds, Vals};
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

use super::reclaim::Reclaiming;
use super::{ByteRows, Bytes, Diff, Offsets, SumUpdates, Sums, SumsContainer, Time, Updates};

/// How batches of rows are laid out.
pub type RowLayout = (ByteRows, ByteRows, Vec<Time>, Vec<Diff>, Offsets);
/// How batches of sums are laid out.
pub type SumLayout = (ByteRows, Vec<()>, Vec<Time>, SumsContainer, Offsets);
/// A batch of rows by key.
pub type RowBatch = Rc<OrdValBatch<RowLayout>>;
/// A batch of sums by key.
pub type SumBatch = Rc<OrdKeyBatch<SumLayout>>;
/// A trace of rows by key.
pub type RowSpine = Reclaiming<RowBatch>;
/// A trace of sums by key.
pub type SumSpine = Reclaiming<SumBatch>;
/// A shared, readable trace of rows.
pub type RowTrace = TraceAgent<RowSpine>;
/// A shared, readable trace of sums.
pub type SumTrace = TraceAgent<SumSpine>;

/// Bytes of memory that a batch uses.
pub trait Memory {
    fn memory(&self) -> usize;
}

impl Memory for RowBatch {
    fn memory(&self) -> usize {
        let storage = &self.storage;
        storage.keys.memory()
            + storage.vals.offs.memory()
            + storage.vals.vals.memory()
            + storage.upds.offs.memory()
            + 8 * (storage.upds.times.capacity() + storage.upds.diffs.capacity())
    }
}

impl Memory for SumBatch {
    fn memory(&self) -> usize {
        let storage = &self.storage;
        storage.keys.memory() + storage.upds.offs.memory() + 8 * storage.upds.times.capacity() + storage.upds.diffs.memory()
    }
}

/// Containers that wait for their times to be complete, for one kind of container.
pub struct Pending<C> {
    containers: Vec<C>,
    least: Antichain<Time>,
}

impl<C> Default for Pending<C> {
    fn default() -> Self {
        Pending { containers: Vec::new(), least: Antichain::new() }
    }
}

/// A position in a [`Pending`]: where an update is, with the first bytes of its row to compare by.
#[derive(Clone, Copy)]
struct Entry {
    prefix: u64,
    container: u32,
    index: u32,
}

/// The first eight bytes, so that most comparisons need not follow a reference.
#[inline]
fn prefix(row: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    let len = row.len().min(8);
    bytes[..len].copy_from_slice(&row[..len]);
    u64::from_be_bytes(bytes)
}

/// Whether a time comes before an upper bound; the empty frontier bounds nothing.
fn before(time: Time, upper: AntichainRef<'_, Time>) -> bool {
    upper.first().is_none_or(|upper| time < *upper)
}

impl Batcher<Updates> for Pending<Updates> {
    fn insert(&mut self, container: &mut Updates) {
        self.containers.push(std::mem::take(container));
    }
}

impl Extract for Pending<Updates> {
    type Time = Time;
    type Output = RowBatch;

    fn extract<'a>(&'a mut self, upper: AntichainRef<'_, Time>) -> (Option<RowBatch>, AntichainRef<'a, Time>) {
        let containers = std::mem::take(&mut self.containers);
        self.least.clear();
        let mut entries = Vec::with_capacity(containers.iter().map(Updates::len).sum());
        let mut later = Updates::default();
        for (container, updates) in containers.iter().enumerate() {
            for index in 0..updates.len() {
                if before(updates.time(index), upper) {
                    entries.push(Entry { prefix: prefix(updates.row(index)), container: container as u32, index: index as u32 });
                } else {
                    self.least.insert(updates.time(index));
                    later.push(updates.key(index), updates.value(index), updates.time(index), updates.diff(index));
                    if later.is_full() {
                        self.containers.push(std::mem::take(&mut later));
                    }
                }
            }
        }
        if !later.is_empty() {
            self.containers.push(later);
        }
        (build_rows(&containers, entries), self.least.borrow())
    }
}

/// A batch of the entries' updates, in order and consolidated.
fn build_rows(containers: &[Updates], mut entries: Vec<Entry>) -> Option<RowBatch> {
    let at = |entry: &Entry| (&containers[entry.container as usize], entry.index as usize);
    let row = |entry: &Entry| {
        let (updates, index) = at(entry);
        updates.row(index)
    };
    let time = |entry: &Entry| {
        let (updates, index) = at(entry);
        updates.time(index)
    };
    // Keys are prefix-free, so rows in byte order are in order of key, then value.
    entries.sort_unstable_by(|a, b| {
        a.prefix.cmp(&b.prefix).then_with(|| Bytes(row(a)).cmp(&Bytes(row(b)))).then_with(|| time(a).cmp(&time(b)))
    });

    let mut storage: OrdValStorage<RowLayout> = OrdValStorage {
        keys: ByteRows::default(),
        vals: Vals::with_capacity(entries.len(), entries.len()),
        upds: Upds::with_capacity(entries.len(), entries.len()),
    };
    let mut position = 0;
    while position < entries.len() {
        let first = &entries[position];
        let written = storage.upds.times.len();
        // All updates of one row, added up by time.
        while position < entries.len() && (entries[position].prefix == first.prefix && row(&entries[position]) == row(first)) {
            let now = time(&entries[position]);
            let mut diff = 0;
            while position < entries.len() && row(&entries[position]) == row(first) && time(&entries[position]) == now {
                let (updates, index) = at(&entries[position]);
                diff += updates.diff(index);
                position += 1;
            }
            if diff != 0 {
                storage.upds.times.push(now);
                storage.upds.diffs.push(diff);
            }
        }
        if storage.upds.times.len() > written {
            let (updates, index) = at(first);
            if storage.keys.last() != Some(Bytes(updates.key(index))) {
                if storage.keys.len() > 0 {
                    storage.vals.offs.push(storage.vals.vals.len());
                }
                storage.keys.push(updates.key(index));
            }
            storage.vals.vals.push(updates.value(index));
            storage.upds.offs.push(storage.upds.times.len());
        }
    }
    storage.vals.offs.push(storage.vals.vals.len());
    let updates = storage.upds.times.len();
    (updates > 0).then(|| Rc::new(OrdValBatch { storage, updates }))
}

impl Batcher<SumUpdates> for Pending<SumUpdates> {
    fn insert(&mut self, container: &mut SumUpdates) {
        self.containers.push(std::mem::take(container));
    }
}

impl Extract for Pending<SumUpdates> {
    type Time = Time;
    type Output = SumBatch;

    fn extract<'a>(&'a mut self, upper: AntichainRef<'_, Time>) -> (Option<SumBatch>, AntichainRef<'a, Time>) {
        let containers = std::mem::take(&mut self.containers);
        self.least.clear();
        let mut entries = Vec::with_capacity(containers.iter().map(SumUpdates::len).sum());
        let mut later = SumUpdates::default();
        for (container, updates) in containers.iter().enumerate() {
            for index in 0..updates.len() {
                if before(updates.time(index), upper) {
                    entries.push(Entry { prefix: prefix(updates.key(index)), container: container as u32, index: index as u32 });
                } else {
                    self.least.insert(updates.time(index));
                    later.push(updates.key(index), updates.time(index), updates.sums(index).clone());
                }
            }
        }
        if !later.is_empty() {
            self.containers.push(later);
        }
        (build_sums(&containers, entries), self.least.borrow())
    }
}

/// A batch of the entries' sums, in order and added up by key and time.
fn build_sums(containers: &[SumUpdates], mut entries: Vec<Entry>) -> Option<SumBatch> {
    let key = |entry: &Entry| containers[entry.container as usize].key(entry.index as usize);
    let time = |entry: &Entry| containers[entry.container as usize].time(entry.index as usize);
    let sums = |entry: &Entry| containers[entry.container as usize].sums(entry.index as usize);
    entries.sort_unstable_by(|a, b| {
        a.prefix.cmp(&b.prefix).then_with(|| Bytes(key(a)).cmp(&Bytes(key(b)))).then_with(|| time(a).cmp(&time(b)))
    });

    let mut storage: OrdKeyStorage<SumLayout> =
        OrdKeyStorage { keys: ByteRows::default(), upds: Upds::with_capacity(entries.len(), entries.len()) };
    let mut position = 0;
    while position < entries.len() {
        let first = entries[position];
        let written = storage.upds.times.len();
        while position < entries.len() && key(&entries[position]) == key(&first) {
            let now = time(&entries[position]);
            let mut total = Sums::default();
            while position < entries.len() && key(&entries[position]) == key(&first) && time(&entries[position]) == now {
                total.plus_equals(sums(&entries[position]));
                position += 1;
            }
            if !total.is_zero() {
                storage.upds.times.push(now);
                storage.upds.diffs.push_own(&total);
            }
        }
        if storage.upds.times.len() > written {
            storage.keys.push(key(&first));
            storage.upds.offs.push(storage.upds.times.len());
        }
    }
    let updates = storage.upds.times.len();
    (updates > 0).then(|| Rc::new(OrdKeyBatch { storage, updates, value: vec![()] }))
}
