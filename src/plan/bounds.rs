//! What bounds the state that a plan keeps.

use std::fmt;

use super::{Arrangement, Layout, Node, Origin, Plan, Policy};

/// What bounds an arrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// It forgets by itself.
    Retention,
    /// What it reads is taken away again, so that it holds no more than what the operators under it remember; or it is one
    /// group's sums, whatever it reads.
    Input,
    /// Nothing, for this reason.
    Nothing(String),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Retention => f.write_str("ttl"),
            Bound::Input => f.write_str("its input"),
            Bound::Nothing(reason) => write!(f, "unbounded because {reason}"),
        }
    }
}

impl Arrangement {
    /// What bounds it.
    pub fn bound(&self) -> Bound {
        if self.forgets() {
            Bound::Retention
        } else if self.input.is_bounded() || self.is_one_sum() {
            Bound::Input
        } else {
            let said = match &self.memory.origin {
                Origin::Default => "no state_ttl is set".to_owned(),
                origin => format!("state_ttl is 'never' ({origin})"),
            };
            Bound::Nothing(said)
        }
    }

    /// Whether it forgets by itself.
    pub fn forgets(&self) -> bool {
        self.retention.is_some_and(|retention| retention.ttl.is_some())
    }

    /// Whether it is the sums of a single group, which take the same room over any number of rows.
    fn is_one_sum(&self) -> bool {
        self.key == 0 && matches!(self.layout, Layout::Sums(_))
    }

    fn is_bounded(&self) -> bool {
        self.bound() == Bound::Retention || self.input.is_bounded()
    }
}

impl Plan {
    /// Whether its rows at any moment are no more than what something remembers.
    fn is_bounded(&self) -> bool {
        match self.node() {
            Node::Get { .. } => false,
            Node::Constant { .. } => true,
            Node::Linear { input, .. } | Node::Negate { input } | Node::Delay { input, .. } => input.is_bounded(),
            Node::Union { inputs } => inputs.iter().all(Plan::is_bounded),
            // What is forgotten without a word stands with whoever was told of it.
            Node::Settle { input, policy, .. } => *policy == Policy::Retract && input.is_bounded(),
            Node::Remember { .. }
            | Node::Join { .. }
            | Node::Reduce { .. }
            | Node::TopK { .. }
            | Node::Window { .. }
            | Node::Session { .. }
            | Node::Threshold { .. } => self.arrangements().into_iter().all(Arrangement::is_bounded),
        }
    }
}
