//! Which columns of a plan's rows say when the window of a row closes.
//!
//! A bound of a window says it wherever it is carried: through projections, group keys, joins, views over views. What is
//! known of a column is how far it is from the window's end, in milliseconds: 0 for an end, the size for the start of a
//! window that has a fixed one.

use std::collections::HashMap;

use datafusion_physical_expr::expressions::Column as ColumnExpr;

use super::{Arrangement, Fingerprint, JoinKind, Node, Plan, Scalar, Step, known};
use crate::eval::TimeWindow;

/// What a column is of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A bound, so far before the end.
    Bound(i64),
    /// A list of bounds of windows.
    Bounds(i64),
}

type Roles = Vec<Option<Role>>;

impl Plan {
    /// The column by which the rows close, and how far it is before the end of the row's window: no row of an open window is of
    /// one that has closed. So it is in the key of whatever the rows are an answer of. None where there is no such column.
    pub fn closing(&self) -> Option<(usize, i64)> {
        let roles = Walk::default().closing(self);
        let bounds = roles.into_iter().enumerate().filter_map(|(column, role)| match role {
            Some(Role::Bound(before)) => Some((column, before)),
            _ => None,
        });
        // The start of windows that cumulate says when the last of them ends: an end says it better.
        bounds.min_by_key(|(_, before)| *before)
    }
}

/// The roles of the columns of plans, which share their parts.
#[derive(Default)]
struct Walk(HashMap<Fingerprint, Roles>);

impl Walk {
    /// The roles of columns by which the rows close.
    fn closing(&mut self, plan: &Plan) -> Roles {
        let in_key = |roles: Roles, key: usize| roles.into_iter().enumerate().map(|(i, role)| role.filter(|_| i < key)).collect();
        match plan.node() {
            Node::Linear { input, steps } => through(self.closing(input), steps),
            Node::Settle { input, .. } | Node::Negate { input } | Node::Delay { input, .. } => self.closing(input),
            Node::Union { inputs } => common(inputs.iter().map(|input| self.closing(input)).collect()),
            // Its rows come and go whether or not their windows are open: with time, or with a match that comes late.
            Node::Temporal { .. } | Node::AsOf { .. } => vec![None; plan.row().len()],
            Node::Join { left, .. } => in_key(self.roles(plan), left.key),
            Node::TopK { input, .. } | Node::Window { input, .. } => in_key(self.roles(plan), input.key),
            // A session ends when its own end says so, whatever else its rows are of.
            Node::Session { .. } => {
                let end = plan.row().len() - 1;
                self.roles(plan).into_iter().enumerate().map(|(i, role)| role.filter(|_| i == end)).collect()
            }
            Node::Get { .. } | Node::Constant { .. } | Node::Reduce { .. } | Node::Threshold { .. } | Node::Remember { .. } => {
                self.roles(plan)
            }
        }
    }

    /// The roles of all columns.
    fn roles(&mut self, plan: &Plan) -> Roles {
        if let Some(known) = self.0.get(&plan.fingerprint()) {
            return known.clone();
        }
        let mut roles = match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => vec![],
            Node::Linear { input, steps } => through(self.roles(input), steps),
            Node::Settle { input, .. } | Node::Temporal { input, .. } | Node::Negate { input } | Node::Delay { input, .. } => {
                self.roles(input)
            }
            Node::Union { inputs } => common(inputs.iter().map(|input| self.roles(input)).collect()),
            Node::Join { kind, left, right } => self.joined(*kind, left, right),
            Node::AsOf { left, right, .. } => self.joined(JoinKind::Left, left, right),
            Node::Reduce { parts, .. } => {
                let input = &parts[0].input;
                self.roles(&input.input)[..input.key].to_vec()
            }
            Node::TopK { input, .. } | Node::Window { input, .. } | Node::Threshold { input, .. } | Node::Remember { input } => {
                self.roles(&input.input)
            }
            Node::Session { input, .. } => {
                let mut roles = self.roles(&input.input);
                roles.extend([None, Some(Role::Bound(0))]);
                roles
            }
        };
        roles.resize(plan.row().len(), None);
        self.0.insert(plan.fingerprint(), roles.clone());
        roles
    }

    fn joined(&mut self, kind: JoinKind, left: &Arrangement, right: &Arrangement) -> Roles {
        let (l, r) = (self.roles(&left.input), self.roles(&right.input));
        let key = left.key;
        let keys = match kind {
            JoinKind::Right => r[..key].to_vec(),
            JoinKind::Full => common(vec![l[..key].to_vec(), r[..key].to_vec()]),
            // What is equal to a bound of a window is that bound.
            JoinKind::Inner => l[..key].iter().zip(&r[..key]).map(|(left, right)| left.or(*right)).collect(),
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti => l[..key].to_vec(),
        };
        let values = if matches!(kind, JoinKind::Semi | JoinKind::Anti) { &[][..] } else { &r[key..] };
        [&keys, &l[key..], values].concat()
    }
}

/// The roles that all have.
fn common(all: Vec<Roles>) -> Roles {
    let Some(first) = all.first() else { return vec![] };
    let agreed = |column: usize| first[column].filter(|role| all.iter().all(|roles| roles[column] == Some(*role)));
    (0..first.len()).map(agreed).collect()
}

/// The roles of what `steps` make of columns.
fn through(roles: Roles, steps: &[Step]) -> Roles {
    known::through(roles, steps, role, |list| match list {
        Role::Bounds(before) => Some(Role::Bound(before)),
        Role::Bound(_) => None,
    })
}

/// What an expression over columns with these roles is of a window.
fn role(scalar: &Scalar, roles: &Roles) -> Option<Role> {
    if let Some(column) = scalar.downcast_ref::<ColumnExpr>() {
        return roles[column.index()];
    }
    match TimeWindow::of(scalar)? {
        (TimeWindow::Tumble { size, shift, .. }, _) => Some(Role::Bound(size - shift)),
        (TimeWindow::Starts { size, .. }, _) => Some(Role::Bounds(size)),
        (TimeWindow::Ends { .. }, _) => Some(Role::Bounds(0)),
        (TimeWindow::Shift { shift }, time) => match role(time, roles)? {
            Role::Bound(before) => Some(Role::Bound(before - shift)),
            Role::Bounds(_) => None,
        },
    }
}
