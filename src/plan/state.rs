//! All that a plan remembers, in the order in which EXPLAIN prints it.

use std::collections::HashSet;

use super::bounds::after_column;
use super::{Arrangement, Bound, Column, Expiry, Fingerprint, Flow, Node, Plan, Policy, operator};

/// Something that a plan keeps.
#[derive(Debug, Clone, Copy)]
pub enum State<'a> {
    /// An arrangement, and the operator that reads it first.
    Arrangement { operator: &'static str, arrangement: &'a Arrangement },
    /// Under `on_expiry = 'keep'`, the last answer of each group by these columns whose rows have expired.
    Answers { operator: &'static str, key: &'a [Column] },
    /// Rows that wait in an operator until their time comes.
    Waiting { operator: &'static str, waiting: Waiting<'a> },
}

/// What waits in an operator, each row until instants that it says itself.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The columns that say them.
    pub times: &'a [Column],
    /// How long before the end of the window they are in, where they wait for that: milliseconds.
    before_end: Option<i64>,
}

impl Waiting<'_> {
    /// What bounds it.
    pub fn bound(&self) -> Bound {
        match (self.before_end, self.times) {
            (Some(before_end), [time]) => Bound::Closes(after_column(time, before_end)),
            _ => Bound::Filter,
        }
    }
}

impl Plan {
    /// All that the plan keeps, each once, an operator's before that of what it reads.
    pub fn state(&self) -> Vec<State<'_>> {
        let mut walk = Walk::default();
        walk.plan(self);
        walk.found
    }

    /// The arrangements among that.
    pub fn all_arrangements(&self) -> impl Iterator<Item = (&'static str, &Arrangement)> {
        self.state().into_iter().filter_map(|state| match state {
            State::Arrangement { operator, arrangement } => Some((operator, arrangement)),
            State::Answers { .. } | State::Waiting { .. } => None,
        })
    }

    /// What the root operator holds until its time comes, if it is one that does.
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        match self.node() {
            Node::Delay { input, column, before_end } => {
                Some(Waiting { times: std::slice::from_ref(&input.row().columns[*column]), before_end: Some(*before_end) })
            }
            Node::Temporal { input, validity } => {
                let width = self.row().len();
                Some(Waiting { times: &input.row().columns[width..width + validity.moments], before_end: None })
            }
            _ => None,
        }
    }
}

impl Arrangement {
    /// The names of its key's columns, with commas between.
    pub fn key_names(&self) -> String {
        names(&self.input.row().columns[..self.key])
    }
}

/// The names of columns, with commas between.
pub fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[derive(Default)]
struct Walk<'a> {
    plans: HashSet<Fingerprint>,
    arrangements: HashSet<Fingerprint>,
    found: Vec<State<'a>>,
}

impl<'a> Walk<'a> {
    fn plan(&mut self, plan: &'a Plan) {
        if !self.plans.insert(plan.fingerprint()) {
            return;
        }
        if let Node::Settle { input, policy: Policy::Keep, expiry: Expiry::Groups { key } } = plan.node() {
            self.found.push(State::Answers { operator: operator(input.node()), key: &input.row().columns[..*key] });
        }
        if let Node::Get { flow: Flow::Upserts(arrangement), .. } = plan.node() {
            self.found.push(State::Arrangement { operator: operator(plan.node()), arrangement });
        }
        self.found.extend(plan.waiting().map(|waiting| State::Waiting { operator: operator(plan.node()), waiting }));
        let arrangements = plan.arrangements();
        if arrangements.is_empty() {
            plan.inputs().into_iter().for_each(|input| self.plan(input));
        }
        for arrangement in arrangements {
            if self.arrangements.insert(arrangement.fingerprint()) {
                self.found.push(State::Arrangement { operator: operator(plan.node()), arrangement });
            }
            self.plan(&arrangement.input);
        }
    }
}
