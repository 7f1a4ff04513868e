//! What flows between operators.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};

use timely::communication::Push;
use timely::container::{Accountable, ContainerBuilder};
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::dataflow::channels::{ContainerBytes, Message};
use timely::progress::Stamp;

use super::columns::{AsColumns, Columns, Taken};
use super::{Diff, Sums, Time};

/// Updates of a collection: rows as bytes, each the bytes of its key followed by those of its value, with a time and a
/// diff. A collection that nobody has keyed has empty keys.
#[derive(Clone, Default)]
pub struct Updates {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    splits: Vec<u32>,
    times: Vec<Time>,
    diffs: Vec<Diff>,
}

impl Updates {
    /// Rows and bytes at which a container is full enough to be sent on.
    const FULL_ROWS: usize = 1 << 13;
    const FULL_BYTES: usize = 1 << 20;

    /// Adds one update of the row `key ++ value`.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8], time: Time, diff: Diff) {
        self.push_parts(key, &[value], time, diff);
    }

    /// Adds one update of a row whose value is the concatenation of `values`.
    #[inline]
    pub fn push_parts(&mut self, key: &[u8], values: &[&[u8]], time: Time, diff: Diff) {
        self.bytes.extend_from_slice(key);
        self.splits.push(self.bytes.len() as u32);
        for value in values {
            self.bytes.extend_from_slice(value);
        }
        self.ends.push(self.bytes.len() as u32);
        self.times.push(time);
        self.diffs.push(diff);
    }

    /// How many updates there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Takes all updates out; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.splits.clear();
        self.times.clear();
        self.diffs.clear();
    }

    /// Whether it is time to send this container on.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= Self::FULL_ROWS || self.bytes.len() >= Self::FULL_BYTES
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] as usize }
    }

    /// The bytes of a row: key and value.
    #[inline]
    pub fn row(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index] as usize]
    }

    /// The bytes of a row's key.
    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.splits[index] as usize]
    }

    /// The bytes of a row's value.
    #[inline]
    pub fn value(&self, index: usize) -> &[u8] {
        &self.bytes[self.splits[index] as usize..self.ends[index] as usize]
    }

    /// The time of an update.
    #[inline]
    pub fn time(&self, index: usize) -> Time {
        self.times[index]
    }

    /// The diff of an update.
    #[inline]
    pub fn diff(&self, index: usize) -> Diff {
        self.diffs[index]
    }

    /// All times.
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// Splits every row anew: `key_len` gives the bytes of a row's key.
    pub fn split_by<E>(&mut self, key_len: impl Fn(&[u8]) -> Result<usize, E>) -> Result<(), E> {
        for index in 0..self.len() {
            let start = self.start(index);
            self.splits[index] = (start + key_len(&self.bytes[start..self.ends[index] as usize])?) as u32;
        }
        Ok(())
    }

    /// Moves every update to another time.
    pub fn retime(&mut self, moved: impl Fn(Time) -> Time) {
        self.times.iter_mut().for_each(|time| *time = moved(*time));
    }

    /// Negates every diff.
    pub fn negate(&mut self) {
        self.diffs.iter_mut().for_each(|d| *d = -*d);
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + 4 * (self.ends.capacity() + self.splits.capacity()) + 8 * (self.times.capacity() + self.diffs.capacity())
    }

    fn push_from(&mut self, other: &Updates, index: usize) {
        self.push(other.key(index), other.value(index), other.time(index), other.diff(index));
    }
}

impl AsColumns for Updates {
    fn put<'a>(&'a self, to: &mut Columns<'a>) {
        to.put("bytes", &self.bytes);
        to.put("ends", &self.ends);
        to.put("splits", &self.splits);
        to.put("times", &self.times);
        to.put("diffs", &self.diffs);
    }

    fn take(from: &mut Taken<'_>) -> Option<Self> {
        let (bytes, ends, splits): (Vec<u8>, Vec<u32>, Vec<u32>) = (from.column("bytes")?, from.column("ends")?, from.column("splits")?);
        let (times, diffs): (Vec<Time>, Vec<Diff>) = (from.column("times")?, from.column("diffs")?);
        let are_as_many = [ends.len(), splits.len(), diffs.len()].iter().all(|len| *len == times.len());
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let in_order = starts.zip(&splits).zip(&ends).all(|((start, split), end)| start <= *split && split <= end);
        let fits = ends.last().map_or(0, |end| *end as usize) == bytes.len();
        (are_as_many && in_order && fits).then_some(Updates { bytes, ends, splits, times, diffs })
    }
}

/// Builds containers of updates of moderate size.
#[derive(Default)]
pub struct UpdatesBuilder {
    current: Updates,
    full: VecDeque<Updates>,
    handed_out: Updates,
}

impl UpdatesBuilder {
    /// Adds one update of the row `key ++ values`.
    #[inline]
    pub fn push(&mut self, key: &[u8], values: &[&[u8]], time: Time, diff: Diff) {
        self.current.push_parts(key, values, time, diff);
        if self.current.is_full() {
            self.full.push_back(std::mem::take(&mut self.current));
        }
    }

    /// Adds a whole container.
    pub fn push_container(&mut self, updates: Updates) {
        if !updates.is_empty() {
            if !self.current.is_empty() {
                self.full.push_back(std::mem::take(&mut self.current));
            }
            self.full.push_back(updates);
        }
    }
}

impl UpdatesBuilder {
    /// All containers.
    pub fn into_containers(mut self) -> Vec<Updates> {
        if !self.current.is_empty() {
            self.full.push_back(self.current);
        }
        self.full.into()
    }
}

impl ContainerBuilder for UpdatesBuilder {
    type Container = Updates;

    fn extract(&mut self) -> Option<&mut Updates> {
        self.handed_out = self.full.pop_front()?;
        Some(&mut self.handed_out)
    }

    fn finish(&mut self) -> Option<&mut Updates> {
        if !self.current.is_empty() {
            self.full.push_back(std::mem::take(&mut self.current));
        }
        self.extract()
    }
}

impl Accountable for Updates {
    fn record_count(&self) -> i64 {
        self.len() as i64
    }
}

/// Partial sums of an accumulable aggregate, by key and time, on their way to the worker that keeps the key.
#[derive(Clone, Default)]
pub struct SumUpdates {
    keys: Vec<u8>,
    ends: Vec<u32>,
    times: Vec<Time>,
    sums: Vec<Sums>,
}

impl SumUpdates {
    /// Adds one partial sum.
    pub fn push(&mut self, key: &[u8], time: Time, sums: Sums) {
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len() as u32);
        self.times.push(time);
        self.sums.push(sums);
    }

    /// How many partial sums there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The bytes of a key.
    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.keys[start..self.ends[index] as usize]
    }

    /// The time of a partial sum.
    #[inline]
    pub fn time(&self, index: usize) -> Time {
        self.times[index]
    }

    /// Takes all partial sums out; keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.times.clear();
        self.sums.clear();
    }

    /// A partial sum.
    #[inline]
    pub fn sums(&self, index: usize) -> &Sums {
        &self.sums[index]
    }

    /// A partial sum, to add to.
    #[inline]
    pub fn sums_mut(&mut self, index: usize) -> &mut Sums {
        &mut self.sums[index]
    }
}

impl Accountable for SumUpdates {
    fn record_count(&self) -> i64 {
        self.len() as i64
    }
}

/// The hash by which keys are spread over workers.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Spreads containers over workers by the hash of their keys.
pub struct ByKey<C> {
    staged: Vec<C>,
}

impl<C: Default> ByKey<C> {
    /// A distributor for this many workers.
    pub fn new(peers: usize) -> Self {
        ByKey { staged: std::iter::repeat_with(C::default).take(peers).collect() }
    }
}

fn send<T: Clone, C: Accountable + Default, P: Push<Message<T, C>>>(container: C, stamp: &Stamp<T>, pusher: &mut P) {
    if container.record_count() > 0 {
        let mut container = container;
        Message::push_at(&mut container, stamp.clone(), pusher);
    }
}

impl Distributor<Updates> for ByKey<Updates> {
    fn partition<T: Clone, P: Push<Message<T, Updates>>>(&mut self, container: &mut Updates, stamp: &Stamp<T>, pushers: &mut [P]) {
        let peers = pushers.len() as u64;
        for index in 0..container.len() {
            let target = (key_hash(container.key(index)) % peers) as usize;
            self.staged[target].push_from(container, index);
            if self.staged[target].is_full() {
                send(std::mem::take(&mut self.staged[target]), stamp, &mut pushers[target]);
            }
        }
        *container = Updates::default();
    }

    fn flush<T: Clone, P: Push<Message<T, Updates>>>(&mut self, stamp: &Stamp<T>, pushers: &mut [P]) {
        for (staged, pusher) in self.staged.iter_mut().zip(pushers) {
            send(std::mem::take(staged), stamp, pusher);
        }
    }
}

impl Distributor<SumUpdates> for ByKey<SumUpdates> {
    fn partition<T: Clone, P: Push<Message<T, SumUpdates>>>(&mut self, container: &mut SumUpdates, stamp: &Stamp<T>, pushers: &mut [P]) {
        let peers = pushers.len() as u64;
        let taken = std::mem::take(container);
        for index in 0..taken.len() {
            let target = (key_hash(taken.key(index)) % peers) as usize;
            self.staged[target].push(taken.key(index), taken.time(index), taken.sums(index).clone());
        }
        self.flush(stamp, pushers);
    }

    fn flush<T: Clone, P: Push<Message<T, SumUpdates>>>(&mut self, stamp: &Stamp<T>, pushers: &mut [P]) {
        for (staged, pusher) in self.staged.iter_mut().zip(pushers) {
            send(std::mem::take(staged), stamp, pusher);
        }
    }
}

/// Timely asks how a container crosses between processes. Weir's workers are threads of one process, where containers
/// move as they are and none of this is called.
macro_rules! within_one_process {
    ($($container:ty),*) => {$(
        impl ContainerBytes for $container {
            fn from_bytes(_: timely::bytes::arc::Bytes) -> Self {
                unreachable!("workers are threads of one process")
            }
            fn length_in_bytes(&self) -> usize {
                unreachable!("workers are threads of one process")
            }
            fn into_bytes<W: std::io::Write>(&self, _: &mut W) {
                unreachable!("workers are threads of one process")
            }
        }
    )*};
}
within_one_process!(Updates, SumUpdates);

/// Sends everything to worker 0.
pub struct ToFirst;

impl Distributor<Updates> for ToFirst {
    fn partition<T: Clone, P: Push<Message<T, Updates>>>(&mut self, container: &mut Updates, stamp: &Stamp<T>, pushers: &mut [P]) {
        send(std::mem::take(container), stamp, &mut pushers[0]);
    }

    fn flush<T: Clone, P: Push<Message<T, Updates>>>(&mut self, _: &Stamp<T>, _: &mut [P]) {}
}
