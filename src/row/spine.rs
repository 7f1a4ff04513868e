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
pub trait MemoryUse {
    fn memory(&self) -> usize;
}

impl MemoryUse for RowBatch {
    fn memory(&self) -> usize {
        let storage = &self.storage;
        storage.keys.memory()
            + storage.vals.offs.memory()
            + storage.vals.vals.memory()
            + storage.upds.offs.memory()
            + 8 * (storage.upds.times.capacity() + storage.upds.diffs.capacity())
    }
}

impl MemoryUse for SumBatch {
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

/// Where an update is among containers, with the first bytes of its row to compare by.
#[derive(Clone, Copy)]
pub struct Entry {
    prefix: u64,
    pub container: u32,
    pub index: u32,
}

/// Updates whose times are complete: positions among containers, in order of row, then time.
pub struct Sealed<C> {
    pub containers: Vec<C>,
    pub entries: Vec<Entry>,
}

impl<C> Default for Sealed<C> {
    fn default() -> Self {
        Sealed { containers: Vec::new(), entries: Vec::new() }
    }
}

/// Containers of updates that a batch can be made of.
pub trait Sealable: Default + 'static {
    type Batch;
    /// How many updates there are.
    fn count(&self) -> usize;
    /// The time of an update.
    fn at(&self, index: usize) -> Time;
    /// The bytes by which updates are in order.
    fn order(&self, index: usize) -> &[u8];
    /// Adds an update of another container.
    fn copy(&mut self, other: &Self, index: usize);
    /// Whether it has all that one container should.
    fn is_full(&self) -> bool;
    /// The batch of sealed updates.
    fn build(sealed: Sealed<Self>) -> Option<Self::Batch>;
}

impl<C: Sealable> Sealed<C> {
    /// The container of the update at a position, and where it is in that.
    #[inline]
    pub fn at(&self, position: usize) -> (&C, usize) {
        let entry = &self.entries[position];
        (&self.containers[entry.container as usize], entry.index as usize)
    }

    /// Adds containers.
    pub fn add_all(&mut self, made: Vec<C>) {
        let before = self.entries.len();
        for updates in made {
            let container = self.containers.len() as u32;
            let entry = |index| Entry { prefix: prefix(updates.order(index)), container, index: index as u32 };
            self.entries.extend((0..updates.count()).map(entry));
            self.containers.push(updates);
        }
        if self.entries.len() > before {
            let containers = &self.containers;
            self.entries[before..].sort_by(|a, b| Self::compare(containers, a, b));
            // Two runs in order, which is what a stable sort looks for.
            self.entries.sort_by(|a, b| Self::compare(containers, a, b));
        }
    }

    fn compare(containers: &[C], a: &Entry, b: &Entry) -> std::cmp::Ordering {
        let at = |entry: &Entry| (&containers[entry.container as usize], entry.index as usize);
        let ((of_a, a_index), (of_b, b_index)) = (at(a), at(b));
        let rows = || Bytes(of_a.order(a_index)).cmp(&Bytes(of_b.order(b_index)));
        a.prefix.cmp(&b.prefix).then_with(rows).then_with(|| of_a.at(a_index).cmp(&of_b.at(b_index)))
    }
}

impl<C: Sealable> Pending<C> {
    /// Takes the updates before `upper`, in order; the others stay.
    pub fn seal(&mut self, upper: AntichainRef<'_, Time>) -> Sealed<C> {
        let containers = std::mem::take(&mut self.containers);
        self.least.clear();
        let mut entries = Vec::with_capacity(containers.iter().map(C::count).sum());
        let mut later = C::default();
        for (container, updates) in containers.iter().enumerate() {
            for index in 0..updates.count() {
                if before(updates.at(index), upper) {
                    entries.push(Entry { prefix: prefix(updates.order(index)), container: container as u32, index: index as u32 });
                } else {
                    self.least.insert(updates.at(index));
                    later.copy(updates, index);
                    if later.is_full() {
                        self.containers.push(std::mem::take(&mut later));
                    }
                }
            }
        }
        if later.count() > 0 {
            self.containers.push(later);
        }
        entries.sort_unstable_by(|a, b| Sealed::compare(&containers, a, b));
        Sealed { containers, entries }
    }
}

impl<C> Pending<C> {
    /// Adds a container.
    pub fn push(&mut self, container: C) {
        self.containers.push(container);
    }
}

impl Sealable for Updates {
    type Batch = RowBatch;

    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn at(&self, index: usize) -> Time {
        self.time(index)
    }

    /// Keys are prefix-free, so rows in byte order are in order of key, then value.
    #[inline]
    fn order(&self, index: usize) -> &[u8] {
        self.row(index)
    }

    fn copy(&mut self, other: &Self, index: usize) {
        self.push(other.key(index), other.value(index), other.time(index), other.diff(index));
    }

    fn is_full(&self) -> bool {
        Updates::is_full(self)
    }

    fn build(sealed: Sealed<Self>) -> Option<RowBatch> {
        build_rows(&sealed.containers, &sealed.entries)
    }
}

impl Sealable for SumUpdates {
    type Batch = SumBatch;

    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn at(&self, index: usize) -> Time {
        self.time(index)
    }

    #[inline]
    fn order(&self, index: usize) -> &[u8] {
        self.key(index)
    }

    fn copy(&mut self, other: &Self, index: usize) {
        self.push(other.key(index), other.time(index), other.sums(index).clone());
    }

    fn is_full(&self) -> bool {
        false
    }

    fn build(sealed: Sealed<Self>) -> Option<SumBatch> {
        build_sums(&sealed.containers, &sealed.entries)
    }
}

/// The first eight bytes, so that most comparisons need not follow a reference.
#[inline]
pub fn prefix(row: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    let len = row.len().min(8);
    bytes[..len].copy_from_slice(&row[..len]);
    u64::from_be_bytes(bytes)
}

/// Whether a time comes before an upper bound; the empty frontier bounds nothing.
fn before(time: Time, upper: AntichainRef<'_, Time>) -> bool {
    upper.first().is_none_or(|upper| time < *upper)
}

impl<C: Sealable> Batcher<C> for Pending<C> {
    fn insert(&mut self, container: &mut C) {
        self.containers.push(std::mem::take(container));
    }
}

impl<C: Sealable> Extract for Pending<C> {
    type Time = Time;
    type Output = C::Batch;

    fn extract<'a>(&'a mut self, upper: AntichainRef<'_, Time>) -> (Option<C::Batch>, AntichainRef<'a, Time>) {
        let sealed = self.seal(upper);
        (C::build(sealed), self.least.borrow())
    }
}

/// A batch of the entries' updates, in order and consolidated.
fn build_rows(containers: &[Updates], entries: &[Entry]) -> Option<RowBatch> {
    let at = |entry: &Entry| (&containers[entry.container as usize], entry.index as usize);
    let row = |entry: &Entry| {
        let (updates, index) = at(entry);
        updates.row(index)
    };
    let time = |entry: &Entry| {
        let (updates, index) = at(entry);
        updates.time(index)
    };
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

/// A batch of the entries' sums, in order and added up by key and time.
fn build_sums(containers: &[SumUpdates], entries: &[Entry]) -> Option<SumBatch> {
    let key = |entry: &Entry| containers[entry.container as usize].key(entry.index as usize);
    let time = |entry: &Entry| containers[entry.container as usize].time(entry.index as usize);
    let sums = |entry: &Entry| containers[entry.container as usize].sums(entry.index as usize);
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
