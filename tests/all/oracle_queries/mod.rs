//! The queries of the oracle test, over the tables of [`crate::world`].
//!
//! Most are one text for both engines. Where SQLite does not speak the query, a second text says the same by hand.
//! Whatever SQL leaves open is pinned down: ORDER BY says where NULLs go, and ties are ties of whole rows.

mod aggregates;
mod relational;
mod subqueries;
mod time_windows;
mod windows;

use crate::check::Case;

/// A query, and what SQLite is asked instead.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    pub name: &'static str,
    pub weir: &'static str,
    pub sqlite: &'static str,
    /// False where Weir may say "not supported", as long as it does not answer wrongly.
    pub must_work: bool,
    /// Whether it reads no table.
    constant: bool,
}

/// All of them.
pub fn all() -> Vec<Query> {
    [relational::QUERIES, subqueries::QUERIES, aggregates::QUERIES, windows::QUERIES, time_windows::QUERIES].concat()
}

/// A query that both engines speak.
const fn same(name: &'static str, sql: &'static str) -> Query {
    Query { name, weir: sql, sqlite: sql, must_work: true, constant: false }
}

/// A query that SQLite is asked in other words.
const fn translated(name: &'static str, weir: &'static str, sqlite: &'static str) -> Query {
    Query { name, weir, sqlite, must_work: true, constant: false }
}

impl Query {
    /// Right or refused.
    const fn may_be_refused(mut self) -> Self {
        self.must_work = false;
        self
    }

    const fn reads_no_table(mut self) -> Self {
        self.constant = true;
        self
    }

    pub fn case(&self) -> Case {
        Case { name: self.name.into(), weir: self.weir.into(), sqlite: self.sqlite.into() }
    }

    /// A changing query has more different results than this in the course of a test.
    pub fn least_results(&self) -> usize {
        if self.constant { 0 } else { 2 }
    }
}
