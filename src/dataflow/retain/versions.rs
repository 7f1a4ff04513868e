//! Versions, which go when another has taken their place.
//!
//! At the deadline of a version ([`Scope::Version`]) it is not that one which goes but what it has taken the place of: what is
//! behind it in its key's order. So the first version of a key stays, whatever its deadline. A version that is taken away
//! before its deadline takes nothing's place.
//!
//! What has come and is due between the same two frontiers takes that place at the first instant after them.

use super::{Asked, Forgetting, NameHash, Remembered, ScopeId};
use crate::plan::Scope;
use crate::row::Time;
use crate::row::spine::prefix;

impl Forgetting {
    /// Whether rows are forgotten when another has taken their place.
    pub(super) fn is_by_version(&self) -> bool {
        self.scopes.retention().scope == Scope::Version
    }

    /// In the place of versions that are due, and stay, those behind them in their keys: each goes when the one before it is
    /// due.
    pub(super) fn superseded<C: Remembered>(&mut self, due: Vec<(u64, ScopeId)>, reader: &mut C::Reader) -> Vec<(u64, ScopeId)> {
        let (mut over, mut gone, mut key) = (Vec::new(), Vec::new(), None);
        for (_, id) in due {
            let (row, key_len) = self.scopes.name(id);
            let mut is_there = false;
            C::look_up(reader, row, key_len, Asked::Row, Time::MAX, |_, _| is_there = true);
            if !is_there {
                // It has been taken away, and takes nothing's place.
                gone.push(id);
                continue;
            }
            // What is behind a version is behind those before it, too.
            if key.as_deref() == Some(&row[..key_len]) {
                continue;
            }
            let mut behind = Vec::new();
            C::look_up(reader, row, key_len, Asked::Behind, Time::MAX, |row, _| behind.extend(self.scopes.find(NameHash::of(row), row)));
            key = Some(row[..key_len].to_vec());
            let mut until = self.scopes.due(id);
            for id in behind {
                let next = self.scopes.due(id);
                self.scopes.put_off(id, until);
                until = next;
                over.push((prefix(self.scopes.bytes(id)), id));
            }
        }
        self.scopes.remove(&mut gone);
        over
    }
}
