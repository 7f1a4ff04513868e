//! What a plan would be if it forgot nothing.

use std::collections::HashMap;

use super::derived::is_derived;
use super::rewrite::Rewrite;
use super::{Arrangement, Fingerprint, Memory, Node, Plan, lower};

impl Plan {
    /// The same query with all retention taken out, in whatever it reads, too: a plan with the same rows but for what has
    /// expired. Where there is none it is the plan itself.
    pub fn without_retention(&self) -> Plan {
        Exact::default().plan(self)
    }

    /// The same plan without the bounds that were derived, but for those under materialized views that it reads.
    pub fn without_derived_bounds(&self) -> Plan {
        Exact { only_derived: true, ..Exact::default() }.plan(self)
    }

    /// Whether anything in it is forgotten after a time.
    pub fn forgets(&self) -> bool {
        self.all_arrangements().any(|(_, arrangement)| arrangement.forgets())
    }
}

/// Plans without retention, by what they are with it (and whether that is a boundary): plans share their parts.
#[derive(Default)]
struct Exact {
    plans: HashMap<(Fingerprint, bool), Plan>,
    /// Only what nobody asked for is taken out.
    only_derived: bool,
}

impl Exact {
    fn rebuilt(&mut self, plan: &Plan) -> Plan {
        match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => plan.clone(),
            Node::Settle { input, .. } if !self.only_derived || is_derived(input) => self.plan(input),
            Node::Remember { input } if !self.only_derived => self.plan(&input.input),
            // What was between two operators may be between them no longer.
            Node::Linear { input, steps } => {
                let exact = self.plan(input);
                if exact.fingerprint() == input.fingerprint() { plan.clone() } else { lower::linear(exact, steps, plan.row()) }
            }
            node => Plan::new(node.over(self), plan.row().clone()),
        }
    }
}

impl Rewrite for Exact {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let known = (plan.fingerprint(), plan.is_boundary());
        if let Some(exact) = self.plans.get(&known) {
            return exact.clone();
        }
        if self.only_derived && plan.is_boundary() {
            return plan.clone();
        }
        let exact = plan.rewritten(self.rebuilt(plan));
        self.plans.insert(known, exact.clone());
        exact
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        let input = self.plan(&arrangement.input);
        match self.only_derived && arrangement.closes().is_none() {
            true => Arrangement { input, ..arrangement.clone() },
            false => Arrangement { input, retention: None, memory: Memory::default(), ..arrangement.clone() },
        }
    }
}
