//! Rows and sums in differential dataflow's traces.
//!
//! Traces are [`Reclaiming`] spines of [batches](super::batch). A batch of what has come is made by [`Pending`]:
//! it keeps containers as they came and sorts *indices* when a frontier seals them, so that no row is moved or allocated
//! before it is written, in order and consolidated, to its batch.

use differential_dataflow::operators::arrange::TraceAgent;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

use super::batch::{RowBatch, SumBatch};
use super::draft::{Draft, RowDraft, SumDraft};
use super::reclaim::Reclaiming;
use super::sort::sort;
use super::{Diff, SumUpdates, Sums, Time, Updates};

pub use super::sort::Entry;

/// A trace of rows by key.
pub type RowSpine = Reclaiming<RowBatch>;
/// A trace of sums by key.
pub type SumSpine = Reclaiming<SumBatch>;
/// A shared, readable trace of rows.
pub type RowTrace = TraceAgent<RowSpine>;
/// A shared, readable trace of sums.
pub type SumTrace = TraceAgent<SumSpine>;

/// Containers that wait for their times to be complete, for one kind of container.
pub struct Pending<C> {
    containers: Vec<C>,
    /// What comes of times before this is dropped.
    begins: Time,
}

impl<C> Default for Pending<C> {
    fn default() -> Self {
        Pending::since(0)
    }
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
    /// What an update changes.
    type Change;
    type Batch;
    type Draft: Draft<Batch = Self::Batch, Change = Self::Change>;
    /// How many updates there are.
    fn count(&self) -> usize;
    /// The time of an update.
    fn at(&self, index: usize) -> Time;
    /// The bytes by which updates are in order: those of the key, and those of the value if there is one.
    fn order(&self, index: usize) -> &[u8];
    /// The bytes of an update's key.
    fn key_of(&self, index: usize) -> &[u8];
    /// Adds an update of another container.
    fn copy(&mut self, other: &Self, index: usize);
    /// Whether it has all that one container should.
    fn is_full(&self) -> bool;
    /// Writes an update to a batch.
    fn write(&self, index: usize, draft: &mut Self::Draft);
}

impl<C: Sealable> Sealed<C> {
    /// The container of the update at a position, and where it is in that.
    #[inline]
    pub fn at(&self, position: usize) -> (&C, usize) {
        let entry = &self.entries[position];
        (&self.containers[entry.container as usize], entry.index as usize)
    }

    /// All updates of these containers, whatever their times.
    pub fn of(containers: impl IntoIterator<Item = C>) -> Self {
        Pending { containers: containers.into_iter().collect(), ..Pending::default() }.seal(Antichain::new().borrow())
    }

    /// An empty batch, with room for this many updates like the first.
    pub fn draft(&self, updates: usize) -> C::Draft {
        let mut draft = C::Draft::default();
        if !self.entries.is_empty() {
            let (first, index) = self.at(0);
            draft.reserve(updates, first.key_of(index), &first.order(index)[first.key_of(index).len()..]);
        }
        draft
    }

    /// The batch of all updates.
    pub fn build(&self) -> Option<C::Batch> {
        let mut draft = self.draft(self.entries.len());
        for position in 0..self.entries.len() {
            let (updates, index) = self.at(position);
            updates.write(index, &mut draft);
        }
        draft.finish()
    }
}

impl<C: Sealable> Pending<C> {
    /// Takes the updates before `upper`, in order; the others stay.
    pub fn seal(&mut self, upper: AntichainRef<'_, Time>) -> Sealed<C> {
        let containers = std::mem::take(&mut self.containers);
        let mut entries = Vec::with_capacity(containers.iter().map(C::count).sum());
        let mut later = C::default();
        for (container, updates) in containers.iter().enumerate() {
            for index in 0..updates.count() {
                if updates.at(index) < self.begins {
                    continue;
                }
                if before(updates.at(index), upper) {
                    entries.push(Entry::new(container as u32, index as u32));
                } else {
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
        sort(&containers, &mut entries);
        Sealed { containers, entries }
    }
}

impl<C> Pending<C> {
    /// Nothing yet, and what comes of times before `begins` is dropped.
    pub fn since(begins: Time) -> Self {
        Pending { containers: Vec::new(), begins }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Adds a container.
    pub fn push(&mut self, container: C) {
        self.containers.push(container);
    }
}

impl Sealable for Updates {
    type Change = Diff;
    type Batch = RowBatch;
    type Draft = RowDraft;

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

    #[inline]
    fn key_of(&self, index: usize) -> &[u8] {
        self.key(index)
    }

    fn copy(&mut self, other: &Self, index: usize) {
        self.push(other.key(index), other.value(index), other.time(index), other.diff(index));
    }

    fn is_full(&self) -> bool {
        Updates::is_full(self)
    }

    #[inline]
    fn write(&self, index: usize, draft: &mut RowDraft) {
        draft.add(self.key(index), self.value(index), self.time(index), &self.diff(index));
    }
}

impl Sealable for SumUpdates {
    type Change = Sums;
    type Batch = SumBatch;
    type Draft = SumDraft;

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

    #[inline]
    fn key_of(&self, index: usize) -> &[u8] {
        self.key(index)
    }

    fn copy(&mut self, other: &Self, index: usize) {
        self.push(other.key(index), other.time(index), other.sums(index).clone());
    }

    fn is_full(&self) -> bool {
        false
    }

    #[inline]
    fn write(&self, index: usize, draft: &mut SumDraft) {
        draft.add(self.key(index), &[], self.time(index), self.sums(index));
    }
}

/// The first eight bytes (zeros where there are none), so that most comparisons need not follow a reference.
#[inline]
pub fn prefix(row: &[u8]) -> u64 {
    match row.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => row.iter().rev().fold(0, |bytes, byte| bytes >> 8 | u64::from(*byte) << 56),
    }
}

/// Whether a time comes before an upper bound; the empty frontier bounds nothing.
fn before(time: Time, upper: AntichainRef<'_, Time>) -> bool {
    upper.first().is_none_or(|upper| time < *upper)
}
