//! When to look at which scope.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::scopes::{NEVER, ScopeId};
use crate::plan::Retention;

/// One timer a scope. They wait in buckets of a fraction of the ttl each; only those of the nearest bucket are in order.
pub struct Timers {
    /// How long a bucket is, in milliseconds.
    width: u64,
    /// Where the first of the far buckets begins.
    far_from: u64,
    near: BinaryHeap<Reverse<(u64, ScopeId)>>,
    far: BTreeMap<u64, Vec<ScopeId>>,
}

impl Timers {
    /// Into how many buckets a scope's life falls.
    const BUCKETS: u64 = 64;

    /// How long a bucket is where deadlines are not so long after a write.
    const OF_CLOSES: u64 = 10_000;

    /// No timers.
    pub fn new(retention: &Retention) -> Self {
        let life = retention.ttl_max.or(retention.ttl).unwrap_or(NEVER);
        let width = if retention.closes.is_some() { Self::OF_CLOSES } else { (life / Self::BUCKETS).max(1) };
        Timers { width, far_from: 0, near: BinaryHeap::new(), far: BTreeMap::new() }
    }

    /// Sets the timer of a scope that has none.
    #[inline]
    pub fn set(&mut self, due: u64, id: ScopeId) {
        if due < self.far_from {
            self.near.push(Reverse((due, id)));
        } else {
            self.far.entry(due / self.width).or_default().push(id);
        }
    }

    /// Takes the scopes that are due before an instant, in no order; sets the timers anew of those that were written since
    /// theirs was set.
    pub fn take(&mut self, before: u64, due: impl Fn(ScopeId) -> u64, mut taken: impl FnMut(ScopeId)) {
        let mut take = |timers: &mut Self, id| match due(id) {
            due if due < before => taken(id),
            due => timers.set(due, id),
        };
        loop {
            while let Some(Reverse((_, id))) = self.near.peek().copied().filter(|Reverse((time, _))| *time < before) {
                self.near.pop();
                take(self, id);
            }
            let Some(bucket) = self.far.first_entry().filter(|bucket| bucket.key().saturating_mul(self.width) < before) else { break };
            let (number, ids) = bucket.remove_entry();
            self.far_from = number.saturating_add(1).saturating_mul(self.width);
            ids.into_iter().for_each(|id| take(self, id));
        }
        if self.near.capacity() > 4 * self.near.len() + 1024 {
            self.near.shrink_to_fit();
        }
    }

    /// Sets all timers anew, by what is forgotten now and when.
    pub fn reset(&mut self, retention: &Retention, due: impl Fn(ScopeId) -> u64) {
        let before = std::mem::replace(self, Timers::new(retention));
        let near = before.near.into_iter().map(|Reverse((_, id))| id);
        near.chain(before.far.into_values().flatten()).for_each(|id| self.set(due(id), id));
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let far: usize = self.far.values().map(|ids| size_of::<ScopeId>() * ids.capacity() + 64).sum();
        size_of::<(u64, ScopeId)>() * self.near.capacity() + far
    }
}
