//! Updates whose time has not come.
//!
//! The farther away an update is, the less is its place in order worth: it waits in a bucket, which holds the updates of a
//! span of instants as they came. A bucket is an eighth as long as it is far away when it is made, at most, so that there
//! are few of them, and when its time comes it is split into shorter ones, until its updates are few or of one instant. Buckets
//! do not overlap, so a row's update and its opposite meet in one bucket; whenever that has grown by half, what cancels
//! goes. So what is held is less than three times what is needed, and a few hundred updates a bucket.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::dataflow::registry::Held;
use crate::dataflow::settle::changes;
use crate::dataflow::state::State;
use crate::engine::time;
use crate::row::spine::Sealed;
use crate::row::{Diff, Time, Updates, UpdatesBuilder};

/// Updates of rows at instants to come.
#[derive(Default)]
pub struct Future {
    /// Those before `near_until`, in order.
    near: BTreeMap<(u64, Box<[u8]>), Diff>,
    near_until: u64,
    /// The others, by the first instant of their buckets.
    far: BTreeMap<u64, Bucket>,
    /// Up to where all has been taken.
    taken: u64,
}

/// Updates of a span of instants, which stand in for their times.
struct Bucket {
    /// The instant behind its last.
    until: u64,
    updates: Vec<Updates>,
    len: usize,
    /// How many updates were left when what cancels went last.
    settled: usize,
}

/// Bytes of a near update beside its row: its instant, where its row is, and its difference.
const NEAR_ENTRY: usize = 32;

impl Future {
    /// As many updates are put in order as soon as their bucket's time has come.
    const NEAR: usize = 1 << 12;

    /// What was found, of instants that had not come at a time.
    pub fn of(found: &State, begins: Time) -> Self {
        let mut future = Future { taken: time::ms(begins).unsigned_abs(), ..Future::default() };
        for rows in &found.apart {
            (0..rows.len()).for_each(|index| future.push(rows.row(index), rows.time(index), rows.diff(index)));
        }
        future
    }

    /// All that is to come, each with its instant as its time, for a checkpoint.
    pub fn state(&mut self) -> State {
        let mut all = UpdatesBuilder::default();
        self.near.iter().for_each(|((instant, row), diff)| all.push(row, &[], *instant, *diff));
        for bucket in self.far.values_mut() {
            bucket.settle();
            bucket.updates.iter().for_each(|updates| all.push_container(updates.clone()));
        }
        let apart = all.into_containers();
        let instants = || apart.iter().flat_map(Updates::times).copied();
        let due = instants().min().zip(instants().max());
        State { apart, due, ..State::default() }
    }

    /// Adds an update of a row at an instant.
    pub fn push(&mut self, row: &[u8], instant: u64, diff: Diff) {
        if instant < self.near_until {
            return self.push_near(row, instant, diff);
        }
        let start = match self.far.range(..=instant).next_back() {
            Some((start, bucket)) if instant < bucket.until => *start,
            _ => self.make_bucket(instant),
        };
        if let Some(bucket) = self.far.get_mut(&start) {
            bucket.push(row, instant, diff);
            if bucket.len == 0 {
                self.far.remove(&start);
            }
        }
    }

    /// Takes all updates before an instant.
    pub fn take(&mut self, before: u64, mut each: impl FnMut(&[u8], u64, Diff)) {
        self.taken = before;
        loop {
            while let Some(first) = self.near.first_entry().filter(|first| first.key().0 < before) {
                let ((instant, row), diff) = first.remove_entry();
                each(&row, instant, diff);
            }
            let Some(first) = self.far.first_entry().filter(|first| *first.key() < before) else { return };
            let mut bucket = first.remove();
            bucket.settle();
            if bucket.until <= before {
                bucket.each(&mut each);
                continue;
            }
            if bucket.len <= Self::NEAR {
                self.near_until = bucket.until;
            }
            bucket.each(|row, instant, diff| match instant < before {
                true => each(row, instant, diff),
                false => self.push(row, instant, diff),
            });
        }
    }

    fn push_near(&mut self, row: &[u8], instant: u64, diff: Diff) {
        match self.near.entry((instant, row.into())) {
            Entry::Vacant(free) => {
                free.insert(diff);
            }
            Entry::Occupied(mut had) => {
                *had.get_mut() += diff;
                if *had.get() == 0 {
                    had.remove();
                }
            }
        }
    }

    /// Makes the bucket of an instant that has none; gives its first instant. Buckets are as long as a power of two, and
    /// begin at a multiple of that: of two, either one is within the other or they are apart.
    fn make_bucket(&mut self, instant: u64) -> u64 {
        let farness = instant.saturating_sub(self.taken) / 8;
        let mut length = farness.checked_ilog2().map_or(1, |bits| 1 << bits);
        loop {
            let start = instant - instant % length;
            let is_free = start >= self.near_until && self.far.range(start..start + length).next().is_none();
            if is_free || length == 1 {
                self.far.insert(start, Bucket { until: start + length, updates: vec![], len: 0, settled: 0 });
                return start;
            }
            length /= 2;
        }
    }

    /// What is to come, after what cancels has gone.
    pub fn held(&mut self) -> Held {
        self.far.values_mut().for_each(Bucket::settle);
        self.far.retain(|_, bucket| bucket.len > 0);
        // Of a bucket's updates the times are in no order.
        let of_bucket = |bucket: &Bucket| bucket.updates.iter().flat_map(|updates| updates.times()).min().copied();
        let first = self.near.keys().next().map(|(instant, _)| *instant);
        let near_bytes = self.near.keys().map(|(_, row)| row.len() + NEAR_ENTRY).sum::<usize>();
        Held {
            rows: self.near.len() + self.far.values().map(|bucket| bucket.len).sum::<usize>(),
            bytes: near_bytes + self.far.values().flat_map(|bucket| &bucket.updates).map(Updates::memory).sum::<usize>(),
            next: first.or_else(|| self.far.values().next().and_then(of_bucket)),
        }
    }

    /// How many updates are held.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.near.len() + self.far.values().map(|bucket| bucket.len).sum::<usize>()
    }
}

impl Bucket {
    /// So many updates are held without a look at what cancels.
    const SLACK: usize = 1 << 8;

    fn push(&mut self, row: &[u8], instant: u64, diff: Diff) {
        match self.updates.last_mut().filter(|last| !last.is_full()) {
            Some(last) => last.push(row, &[], instant, diff),
            None => {
                let mut first = Updates::default();
                first.push(row, &[], instant, diff);
                self.updates.push(first);
            }
        }
        self.len += 1;
        if self.len > self.settled + self.settled / 2 + Self::SLACK {
            self.settle();
        }
    }

    /// Lets go what cancels.
    fn settle(&mut self) {
        if self.len == self.settled {
            return;
        }
        let sealed = Sealed::of(self.updates.drain(..));
        let (mut updates, mut len) = (vec![], 0);
        let mut last = Updates::default();
        for change in changes(&sealed) {
            last.push(change.row, &[], change.time, change.diff);
            len += 1;
            if last.is_full() {
                updates.push(std::mem::take(&mut last));
            }
        }
        if !last.is_empty() {
            updates.push(last);
        }
        *self = Bucket { until: self.until, updates, len, settled: len };
    }

    fn each(&self, mut each: impl FnMut(&[u8], u64, Diff)) {
        for updates in &self.updates {
            (0..updates.len()).for_each(|index| each(updates.row(index), updates.time(index), updates.diff(index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    /// All before an instant, added up.
    fn taken(future: &mut Future, before: u64) -> BTreeMap<(u64, Vec<u8>), Diff> {
        let mut found = BTreeMap::new();
        future.take(before, |row, instant, diff| *found.entry((instant, row.to_vec())).or_default() += diff);
        found.retain(|_, diff| *diff != 0);
        found
    }

    /// Numbers that look random, and are the same each time.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    #[test]
    fn each_update_is_taken_when_its_instant_has_passed_and_not_before() {
        for seed in 0..40 {
            let mut number = numbers(seed);
            let span = [20, 5_000, 10 * DAY][seed as usize % 3];
            let (mut future, mut model) = (Future::default(), BTreeMap::new());
            let mut now = 0;
            for _ in 0..60 {
                for _ in 0..number(300) {
                    let row = number(20).to_le_bytes();
                    let (instant, diff) = (now + number(span), if number(3) == 0 { -1 } else { 1 });
                    future.push(&row, instant, diff);
                    *model.entry((instant, row.to_vec())).or_default() += diff;
                }
                now += number(span / 4);
                let later = model.split_off(&(now, vec![]));
                let mut due = std::mem::replace(&mut model, later);
                due.retain(|_, diff| *diff != 0);
                assert_eq!(taken(&mut future, now), due);
            }
        }
    }

    #[test]
    fn a_row_that_is_there_for_thirty_days_is_one_record_in_few_buckets() {
        let (mut future, rows) = (Future::default(), 50_000);
        for number in 0..rows {
            // A row a second, for half a day.
            let now = number * 1_000;
            taken(&mut future, now);
            future.push(&number.to_le_bytes(), now + 30 * DAY, -1);
        }
        assert_eq!(future.len(), rows as usize);
        assert!(future.far.len() < 64, "{} buckets", future.far.len());
    }

    #[test]
    fn rows_that_are_deleted_before_their_time_leave_nothing_that_grows() {
        let (mut future, mut most) = (Future::default(), 0);
        for round in 0..1_000u64 {
            let now = round * 60_000;
            taken(&mut future, now);
            let due = |row: u64| now + 30 * DAY + row * 7;
            (0..100u64).for_each(|row| future.push(&row.to_le_bytes(), due(row), -1));
            (0..100u64).for_each(|row| future.push(&row.to_le_bytes(), due(row), 1));
            most = most.max(future.len());
        }
        assert!(most <= 16 * Bucket::SLACK, "{most} records of rows that are gone");
    }

    #[test]
    fn what_is_deleted_half_way_meets_its_insertion() {
        let mut future = Future::default();
        let rows = 0..20_000u64;
        rows.clone().for_each(|row| future.push(&row.to_le_bytes(), 30 * DAY + row, -1));
        taken(&mut future, 20 * DAY);
        rows.for_each(|row| future.push(&row.to_le_bytes(), 30 * DAY + row, 1));
        assert!(future.len() <= 8 * Bucket::SLACK, "{} records", future.len());
        assert!(taken(&mut future, 31 * DAY).is_empty());
    }
}
