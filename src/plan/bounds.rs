//! What bounds the state that a plan keeps.

use std::collections::HashSet;
use std::fmt;

use super::derived::what_changes;
use super::{Arrangement, Changes, Closes, Column, Layout, Node, Origin, Plan, Policy, Refresh, Scope};
use crate::sql::duration::format_duration;

/// What bounds an arrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// It forgets by itself.
    Retention,
    /// It forgets what is over, from an instant on that is so written.
    Closes(String),
    /// What it reads is taken away again, so that it holds no more than what the operators under it remember; or it is one
    /// group's sums, whatever it reads.
    Input,
    /// What it reads goes at an instant that a temporal filter under it says.
    Filter,
    /// Nothing, for this reason.
    Nothing(String),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Retention => f.write_str("ttl"),
            Bound::Closes(until) => write!(f, "until {until}"),
            Bound::Input => f.write_str("its input"),
            Bound::Filter => f.write_str("a temporal filter"),
            Bound::Nothing(reason) => write!(f, "unbounded because {reason}"),
        }
    }
}

impl Arrangement {
    /// What bounds it.
    pub fn bound(&self) -> Bound {
        let said = || match &self.memory.origin {
            Origin::Default => match what_changes(self) {
                Some(rows) => format!("no state_ttl is set, and {rows}"),
                None => "no state_ttl is set".to_owned(),
            },
            origin => format!("state_ttl is 'never' ({origin})"),
        };
        match self.input.limit() {
            _ if self.forgets() => Bound::Retention,
            _ if let Some(until) = self.until() => Bound::Closes(until),
            Some(Limit::Filter) => Bound::Filter,
            Some(Limit::Memory) => Bound::Input,
            None if self.is_one_sum() => Bound::Input,
            None => Bound::Nothing(said()),
        }
    }

    /// When a scope is over, if the times of its rows say so.
    pub fn closes(&self) -> Option<Closes> {
        self.retention.and_then(|retention| retention.closes)
    }

    /// That in words.
    fn until(&self) -> Option<String> {
        let (retention, Closes { column, after }) = (self.retention?, self.closes()?);
        let mut column = self.input.row().columns[column].clone();
        match (retention.scope, retention.refresh) {
            (Scope::Version, _) => column.name = format!("the next {}", column.name),
            (_, Refresh::Write) => column.name = format!("the last {}", column.name),
            _ => {}
        }
        // Of a time that is in the rows themselves: as long as engine time is not past it.
        Some(match after.rem_euclid(1_000) {
            1 => format!("after {}", after_column(&column, after - 1)),
            _ => after_column(&column, after),
        })
    }

    /// The tables' time columns from which it is known when a scope is over.
    pub(super) fn times(&self) -> Vec<String> {
        let (mut times, mut open, mut seen) = (Vec::new(), vec![&self.input], HashSet::new());
        while let Some(plan) = open.pop() {
            if !seen.insert(plan.fingerprint()) {
                continue;
            }
            if let Node::Get { name, times: columns, .. } = plan.node() {
                let known = columns.iter().filter(|time| matches!(time.changes, Changes::Until(_)));
                times.extend(known.map(|time| format!("{name}.{}", plan.row().columns[time.column].name)));
            }
            open.extend(plan.inputs());
        }
        times.sort();
        times
    }

    /// Whether it forgets by a ttl.
    pub fn forgets(&self) -> bool {
        self.retention.is_some_and(|retention| retention.ttl.is_some())
    }

    /// Whether it is the sums of a single group, which take the same room over any number of rows.
    fn is_one_sum(&self) -> bool {
        self.key == 0 && matches!(self.layout, Layout::Sums(_))
    }

    fn limit(&self) -> Option<Limit> {
        if self.forgets() || self.closes().is_some() { Some(Limit::Memory) } else { self.input.limit() }
    }
}

/// An instant so many milliseconds after the one in a column, in words.
pub(super) fn after_column(column: &Column, after: i64) -> String {
    let distance = format_duration(after.unsigned_abs());
    match after {
        0 => column.name.clone(),
        1.. => format!("{} + {distance}", column.name),
        _ => format!("{} - {distance}", column.name),
    }
}

/// What keeps a plan's rows from growing in number for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    /// Its rows at any moment are no more than what something remembers.
    Memory,
    /// They are no more than what is valid at that moment.
    Filter,
}

/// The limit of what reads several inputs, which is there if each has one.
fn limit_of_all(inputs: impl IntoIterator<Item = Option<Limit>>) -> Option<Limit> {
    inputs.into_iter().try_fold(Limit::Memory, |limit, input| Some(limit.max(input?)))
}

impl Plan {
    fn limit(&self) -> Option<Limit> {
        match self.node() {
            Node::Get { .. } => None,
            Node::Constant { .. } => Some(Limit::Memory),
            Node::Temporal { validity, .. } if validity.ends() => Some(Limit::Filter),
            Node::Linear { input, .. } | Node::Temporal { input, .. } | Node::Negate { input } | Node::Delay { input, .. } => input.limit(),
            Node::Union { inputs } => limit_of_all(inputs.iter().map(Plan::limit)),
            // What is forgotten without a word stands with whoever was told of it.
            Node::Settle { input, policy, .. } => input.limit().filter(|_| *policy == Policy::Retract),
            Node::Remember { .. }
            | Node::Join { .. }
            | Node::AsOf { .. }
            | Node::Reduce { .. }
            | Node::TopK { .. }
            | Node::Window { .. }
            | Node::Session { .. }
            | Node::Threshold { .. } => limit_of_all(self.arrangements().into_iter().map(Arrangement::limit)),
        }
    }
}
