//! What is remembered, for how long, and what consumers see when it is forgotten.
//!
//! A stateful operator remembers rows of its inputs. [`Memory`] is what was said of one input, [`Retention`] what the
//! arrangement that holds it does about it, and [`Policy`] what the operator's consumers see.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How long an operator's input is remembered and what its expiry shows, with where it was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// Milliseconds after the last write; None is for ever.
    pub ttl: Option<u64>,
    /// With it deadlines are armed lazily: a scope lives at least `ttl` and at most this after its last write.
    pub ttl_max: Option<u64>,
    pub refresh: Refresh,
    pub policy: Policy,
    /// Where the ttl was said.
    pub origin: Origin,
}

/// Which writes set a scope's deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Refresh {
    /// Every one.
    #[default]
    Write,
    /// The one that creates it.
    Create,
}

/// What consumers see of the changes that an expiry causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Nothing; the operator goes on as if it had never seen the scope.
    #[default]
    Forget,
    /// Nothing; the last answer stands until there is a new one, which replaces it.
    Keep,
    /// The changes, at the deadline's first Data step.
    Retract,
}

/// Where a figure was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    #[default]
    Default,
    Session,
    Table,
    /// A view's option for all of its inputs, as written.
    View(String),
    /// A view's option for one input, as written.
    Input(String),
    /// A hint, as written.
    Hint(String),
    /// Nothing was, and nothing need be: what it reads is taken away again.
    Reads,
    /// Nothing was: the times of its rows say when they cannot matter any more.
    Derived,
}

/// What expires as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All rows with one key of the arrangement.
    Group,
    /// One row: key and value.
    Row,
    /// One row, which is over when another has taken its place: the one before it in its key's order.
    Version,
}

/// What an arrangement forgets, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Retention {
    pub scope: Scope,
    /// Milliseconds; None, where a view has been altered to it, is for ever.
    pub ttl: Option<u64>,
    pub ttl_max: Option<u64>,
    pub refresh: Refresh,
    /// When a scope is over because no row of it comes any more; instead of a ttl.
    pub closes: Option<Closes>,
    /// What tells arrangements of the same figures apart that have come to them by different ways: each ALTER VIEW has a number
    /// of its own. 0 where they were created with them.
    pub history: u64,
}

/// The instant from which no row of a scope changes any more: so many milliseconds after the time that is in a column of the
/// scope, a TIMESTAMP or DATE; of a group where it is the first column behind the key (and sorts ascending), the last row's; of a
/// version, that of the row that takes its place. A scope in which that is NULL stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Closes {
    pub column: usize,
    pub after: i64,
}

impl Memory {
    /// What an arrangement does about it; None where it has nothing to do.
    pub fn retention(&self, scope: Scope) -> Option<Retention> {
        self.ttl.map(|ttl| Retention { scope, ttl: Some(ttl), ttl_max: self.ttl_max, refresh: self.refresh, closes: None, history: 0 })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Forget => "forget",
            Policy::Keep => "keep",
            Policy::Retract => "retract",
        })
    }
}

impl fmt::Display for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refresh::Write => "write",
            Refresh::Create => "create",
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Group => "group",
            Scope::Row => "row",
            Scope::Version => "version",
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Session => f.write_str("session"),
            Origin::Table => f.write_str("table option"),
            Origin::View(_) => f.write_str("view"),
            Origin::Input(option) => write!(f, "view option {option}"),
            Origin::Hint(hint) => write!(f, "hint {hint}"),
            Origin::Reads => f.write_str("its input"),
            Origin::Derived => f.write_str("derived"),
        }
    }
}
