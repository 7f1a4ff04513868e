//! What a plan would be if it forgot nothing.

use std::collections::HashMap;

use super::{Arrangement, Fingerprint, Memory, Node, Part, Plan, lower};

impl Plan {
    /// The same query with all retention taken out, in whatever it reads, too: a plan with the same rows but for what has
    /// expired. Where there is none it is the plan itself.
    pub fn without_retention(&self) -> Plan {
        Exact::default().plan(self)
    }

    /// Whether anything in it is forgotten after a time.
    pub fn forgets(&self) -> bool {
        self.all_arrangements().any(|(_, arrangement)| arrangement.forgets())
    }
}

/// Plans without retention, by what they are with it (and whether that is a boundary): plans share their parts.
#[derive(Default)]
struct Exact(HashMap<(Fingerprint, bool), Plan>);

impl Exact {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let known = (plan.fingerprint(), plan.is_boundary());
        if let Some(exact) = self.0.get(&known) {
            return exact.clone();
        }
        let exact = match self.rebuilt(plan) {
            same if same.fingerprint() == plan.fingerprint() => plan.clone(),
            other if plan.is_boundary() => other.boundary(),
            other => other,
        };
        self.0.insert(known, exact.clone());
        exact
    }

    fn rebuilt(&mut self, plan: &Plan) -> Plan {
        let node = match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => return plan.clone(),
            Node::Settle { input, .. } => return self.plan(input),
            Node::Remember { input } => return self.plan(&input.input),
            // What was between two operators may be between them no longer.
            Node::Linear { input, steps } => {
                let exact = self.plan(input);
                let is_same = exact.fingerprint() == input.fingerprint();
                return if is_same { plan.clone() } else { lower::linear(exact, steps, plan.row()) };
            }
            Node::Negate { input } => Node::Negate { input: self.plan(input) },
            Node::Union { inputs } => Node::Union { inputs: inputs.iter().map(|input| self.plan(input)).collect() },
            Node::Join { kind, left, right } => Node::Join { kind: *kind, left: self.arrangement(left), right: self.arrangement(right) },
            Node::Reduce { parts, outputs, always } => {
                let part = |part: &Part| Part { input: self.arrangement(&part.input), kind: part.kind.clone() };
                Node::Reduce { parts: parts.iter().map(part).collect(), outputs: outputs.clone(), always: always.clone() }
            }
            Node::TopK { input, offset, limit, rank, expose } => {
                Node::TopK { input: self.arrangement(input), offset: *offset, limit: *limit, rank: *rank, expose: *expose }
            }
            Node::Window { input, functions } => Node::Window { input: self.arrangement(input), functions: functions.clone() },
            Node::Threshold { input, kind } => Node::Threshold { input: self.arrangement(input), kind: *kind },
        };
        Plan::new(node, plan.row().clone())
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        Arrangement { input: self.plan(&arrangement.input), retention: None, memory: Memory::default(), ..arrangement.clone() }
    }
}
