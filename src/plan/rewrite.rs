//! Plans made of plans, a node at a time.

use super::{Arrangement, Node, Part, Plan};

/// What becomes of the inputs of a node that otherwise stays as it is.
pub(super) trait Rewrite {
    fn plan(&mut self, plan: &Plan) -> Plan;
    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement;
}

impl Plan {
    /// What a rewrite has made of this plan: itself where that is the same, and a boundary if it is one.
    pub(super) fn rewritten(&self, made: Plan) -> Plan {
        match made {
            same if same.fingerprint() == self.fingerprint() => self.clone(),
            other if self.is_boundary() => other.boundary(),
            other => other,
        }
    }
}

impl Node {
    /// The same operator over other inputs.
    pub(super) fn over(&self, by: &mut impl Rewrite) -> Node {
        match self {
            Node::Get { id, name, flow, times } => Node::Get { id: *id, name: name.clone(), flow: flow.clone(), times: times.clone() },
            Node::Constant { rows, diffs } => Node::Constant { rows: rows.clone(), diffs: diffs.clone() },
            Node::Linear { input, steps } => Node::Linear { input: by.plan(input), steps: steps.clone() },
            Node::Temporal { input, validity } => Node::Temporal { input: by.plan(input), validity: validity.clone() },
            Node::Negate { input } => Node::Negate { input: by.plan(input) },
            Node::Union { inputs } => Node::Union { inputs: inputs.iter().map(|input| by.plan(input)).collect() },
            Node::Settle { input, policy, expiry } => Node::Settle { input: by.plan(input), policy: *policy, expiry: *expiry },
            Node::Delay { input, column, before_end } => Node::Delay { input: by.plan(input), column: *column, before_end: *before_end },
            Node::Remember { input } => Node::Remember { input: by.arrangement(input) },
            Node::Join { kind, left, right } => Node::Join { kind: *kind, left: by.arrangement(left), right: by.arrangement(right) },
            Node::AsOf { outer, strict, left, right } => {
                Node::AsOf { outer: *outer, strict: *strict, left: by.arrangement(left), right: by.arrangement(right) }
            }
            Node::Reduce { parts, outputs, always } => {
                let parts = parts.iter().map(|part| Part { input: by.arrangement(&part.input), kind: part.kind.clone() }).collect();
                Node::Reduce { parts, outputs: outputs.clone(), always: always.clone() }
            }
            Node::TopK { input, offset, limit, rank, expose } => {
                Node::TopK { input: by.arrangement(input), offset: *offset, limit: *limit, rank: *rank, expose: *expose }
            }
            Node::Session { input, gap } => Node::Session { input: by.arrangement(input), gap: *gap },
            Node::Window { input, order, functions } => {
                Node::Window { input: by.arrangement(input), order: *order, functions: functions.clone() }
            }
            Node::Threshold { input, kind } => Node::Threshold { input: by.arrangement(input), kind: *kind },
        }
    }
}
