//! Where a scope is found by the hash of its name.
//!
//! Open addressing: a scope stands in the first vacant slot from the one that its hash names, its home, and none is vacant in
//! between. With the hash beside its number the table grows without a look at what it has, in order of memory, and a slot's
//! home can be looked at without a branch ([`Table::at_home`]): so can many in a row, without one waiting for the other.

use super::scopes::ScopeId;
use crate::row::key_hash;

/// The hash by which a scope is found: the half of its key's hash by which keys are not spread over workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameHash(u32);

impl NameHash {
    #[inline]
    pub fn of(scope: &[u8]) -> Self {
        NameHash((key_hash(scope) >> 32) as u32)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    hash: NameHash,
    /// [`VACANT`] where there is none.
    id: ScopeId,
}

/// The number that no scope has.
const VACANT: ScopeId = ScopeId::MAX;

/// Scopes by the hashes of their names.
pub struct Table {
    /// As many as a power of two, a quarter of them vacant at least.
    slots: Vec<Slot>,
    len: usize,
}

impl Table {
    /// An empty table with room for this many.
    pub fn with_room(scopes: usize) -> Self {
        let slots = (scopes * 4 / 3 + 1).next_power_of_two().max(8);
        Table { slots: vec![Slot { hash: NameHash(0), id: VACANT }; slots], len: 0 }
    }

    /// How many scopes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn home(&self, hash: NameHash) -> usize {
        hash.0 as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// The scope that stands where one with this hash would be at home, whichever it is.
    #[inline(always)]
    pub fn at_home(&self, hash: NameHash) -> ScopeId {
        self.slots[self.home(hash)].id
    }

    /// The scope with this hash that is the one.
    #[inline]
    pub fn find(&self, hash: NameHash, is_it: impl Fn(ScopeId) -> bool) -> Option<ScopeId> {
        self.place(hash, is_it).map(|at| self.slots[at].id)
    }

    #[inline]
    fn place(&self, hash: NameHash, is_it: impl Fn(ScopeId) -> bool) -> Option<usize> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.id == VACANT {
                return None;
            }
            if slot.hash == hash && is_it(slot.id) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Adds a scope that is not there.
    pub fn insert(&mut self, hash: NameHash, id: ScopeId) {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            let before = std::mem::replace(self, Table::with_room(2 * self.len + 1));
            before.iter().for_each(|(hash, id)| self.put(hash, id));
        }
        self.put(hash, id);
    }

    fn put(&mut self, hash: NameHash, id: ScopeId) {
        let mut at = self.home(hash);
        while self.slots[at].id != VACANT {
            at = self.after(at);
        }
        self.slots[at] = Slot { hash, id };
        self.len += 1;
    }

    /// Takes a scope out. What stands behind it and would not be found any more moves up.
    pub fn remove(&mut self, hash: NameHash, id: ScopeId) {
        let Some(mut vacated) = self.place(hash, |there| there == id) else { return };
        let mut at = self.after(vacated);
        while self.slots[at].id != VACANT {
            let distance = |from: usize| at.wrapping_sub(from) & (self.slots.len() - 1);
            if distance(self.home(self.slots[at].hash)) >= distance(vacated) {
                self.slots[vacated] = self.slots[at];
                vacated = at;
            }
            at = self.after(at);
        }
        self.slots[vacated].id = VACANT;
        self.len -= 1;
    }

    /// All scopes, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (NameHash, ScopeId)> {
        self.slots.iter().filter(|slot| slot.id != VACANT).map(|slot| (slot.hash, slot.id))
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;

    #[test]
    fn what_is_there_is_found_whatever_has_come_and_gone_around_it() {
        let mut rng = StdRng::seed_from_u64(1);
        for hashes in [3, 40, 1 << 20] {
            let (mut table, mut expected) = (Table::with_room(0), BTreeMap::new());
            for id in 0..4_000 {
                let hash = NameHash(rng.random_range(0..hashes));
                table.insert(hash, id);
                expected.insert(id, hash);
                while expected.len() > 60 || (!expected.is_empty() && rng.random_bool(0.3)) {
                    let gone = *expected.keys().nth(rng.random_range(0..expected.len())).unwrap();
                    table.remove(expected.remove(&gone).unwrap(), gone);
                }
                assert_eq!(table.len(), expected.len());
                assert!(expected.iter().all(|(id, hash)| table.find(*hash, |there| there == *id) == Some(*id)));
                assert_eq!(table.find(NameHash(hashes), |_| true), None);
            }
            let mut all: Vec<_> = table.iter().map(|(hash, id)| (id, hash)).collect();
            all.sort_unstable_by_key(|(id, _)| *id);
            assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
