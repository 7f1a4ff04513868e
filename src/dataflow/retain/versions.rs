//! Versions, which go when another has taken their place.
//!
//! At the deadline of a version ([`Scope::Version`]) it is not that one which goes but what it has taken the place of: what is
//! behind it in its key's order. So the first version of a key stays, whatever its deadline. A version that is taken away
//! before its deadline takes nothing's place.
//!
//! What has come and is due between the same two frontiers takes that place at the first instant after them.

use super::round::{Round, scope_of};
use super::scopes::{ScopeId, Scopes};
use super::table::NameHash;
use super::{Asked, Forgetting, Remembered};
use crate::engine::time;
use crate::plan::Scope;
use crate::row::spine::{Sealed, prefix};
use crate::row::{Bytes, Diff, Time};

impl Forgetting {
    /// Whether rows are forgotten when another has taken their place.
    pub(super) fn is_by_version(&self) -> bool {
        self.scopes.retention().scope == Scope::Version
    }
}

/// Versions that are due, and those that go in their place.
pub(super) struct Superseding<C: Remembered> {
    due: std::vec::IntoIter<(u64, ScopeId)>,
    contents: C::Reader,
    /// The last key of which a version is due and is there.
    key: Option<Vec<u8>>,
    pub(super) over: Vec<(u64, ScopeId)>,
}

impl<C: Remembered> Superseding<C> {
    pub(super) fn new(due: Vec<(u64, ScopeId)>, contents: C::Reader) -> Self {
        Superseding { due: due.into_iter(), contents, key: None, over: Vec::new() }
    }

    /// Looks at versions that are due, in order, before others have their turn; says whether none is left. Of a key all is
    /// looked at in one turn.
    pub(super) fn work(&mut self, coming: &Sealed<C>, forgetting: &mut Forgetting) -> bool {
        let (mut gone, mut fuel) = (Vec::new(), Round::<C>::FUEL);
        while let (Some((_, id)), true) = (self.due.as_slice().first().copied(), fuel > 0) {
            self.due.next();
            let over = self.over.len();
            if !self.supersede(id, coming, &mut forgetting.scopes) {
                gone.push(id);
            }
            fuel = fuel.saturating_sub(1 + self.over.len() - over);
        }
        forgetting.scopes.remove(&mut gone);
        self.due.as_slice().is_empty()
    }

    /// Has each version behind one that is due go when the one before it is due. Says whether that one was there up to now: if
    /// not, it has been taken away and takes nothing's place.
    fn supersede(&mut self, id: ScopeId, coming: &Sealed<C>, scopes: &mut Scopes) -> bool {
        let (row, key_len) = scopes.name(id);
        let mut count = 0;
        C::look_up(&mut self.contents, row, key_len, Asked::Row, Time::MAX, |_, change| count = C::rows(&change));
        // What is behind a version is behind those before it, too.
        if count <= 0 || self.key.as_deref() == Some(&row[..key_len]) || !stays(row, count, scopes.due(id), coming) {
            return count > 0;
        }
        self.key = Some(row[..key_len].to_vec());
        let mut behind = Vec::new();
        C::look_up(&mut self.contents, row, key_len, Asked::Behind, Time::MAX, |row, change| {
            behind.extend(scopes.find(NameHash::of(row), row).map(|id| (id, C::rows(&change))));
        });
        let mut until = scopes.due(id);
        let is_followed = is_followed(row, key_len, coming);
        for (id, count) in behind {
            let due = scopes.due(id);
            let stays = stays(scopes.bytes(id), count, due, coming);
            scopes.put_off(id, until);
            if stays {
                until = due;
            }
            self.over.push((prefix(scopes.bytes(id)), id));
        }
        if is_followed {
            scopes.wake(id);
        }
        true
    }
}

/// Whether something comes behind a version in its key: it takes that one's place, too, once it is there. (A version of which
/// something comes itself is looked at again in any case.)
fn is_followed<C: Remembered>(row: &[u8], key_len: usize, coming: &Sealed<C>) -> bool {
    let start = coming.entries.partition_point(|entry| Bytes(scope_of(coming, entry, Scope::Version)) < Bytes(row));
    let next = (start < coming.entries.len()).then(|| coming.at(start));
    next.is_some_and(|(updates, index)| updates.order(index) != row && *updates.key_of(index) == row[..key_len])
}

/// Whether a version that is there so often is still there when it is due, after what comes of it before.
fn stays<C: Remembered>(row: &[u8], mut count: Diff, due: u64, coming: &Sealed<C>) -> bool {
    let start = coming.entries.partition_point(|entry| Bytes(scope_of(coming, entry, Scope::Version)) < Bytes(row));
    for (updates, index) in (start..coming.entries.len()).map(|position| coming.at(position)) {
        if updates.order(index) != row || updates.at(index) >= time::at(due as i64, 0) {
            break;
        }
        count += C::rows(&updates.change(index));
    }
    count > 0
}
