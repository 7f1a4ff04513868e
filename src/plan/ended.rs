//! What a plan is once the time of what it reads has run out.
//!
//! Where all input has ended, every window is closed: nothing waits for that any more ([`Node::Delay`]). So one answer over
//! sources that have been read to their ends is that of the plan without what waits.

use std::collections::{HashMap, HashSet};

use super::rewrite::Rewrite;
use super::{Arrangement, Fingerprint, Node, Plan, RelationId, lower};

/// How the time of a relation's rows goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It has run out: no row comes any more.
    Ended,
    GoesOn,
    /// Its rows have no time, and nobody waits for them.
    None,
}

impl Plan {
    /// The same plan, where the windows over relations that have all ended have closed. Materialized views that it reads stay as
    /// they are.
    pub fn with_windows_closed(&self, course: &dyn Fn(RelationId) -> Course) -> Plan {
        Closing { course, plans: HashMap::new() }.plan(self)
    }

    /// Whether rows of it come and go with time alone; what stands under a materialized view that it reads does not count.
    pub fn is_filtered_by_time(&self) -> bool {
        self.any(&mut |plan| matches!(plan.node(), Node::Temporal { .. }), &|plan| !plan.is_boundary())
    }

    /// Whether `is` holds of this plan or of one that it is made of, as far as these are `open`. Each is asked once.
    fn any<'a>(&'a self, is: &mut dyn FnMut(&'a Plan) -> bool, open: &dyn Fn(&Plan) -> bool) -> bool {
        let (mut seen, mut plans) = (HashSet::new(), vec![self]);
        while let Some(plan) = plans.pop() {
            if seen.insert(plan.fingerprint()) {
                if is(plan) {
                    return true;
                }
                plans.extend(plan.inputs().into_iter().filter(|input| open(input)));
            }
        }
        false
    }
}

/// Plans with their windows closed, by what they are before: plans share their parts.
struct Closing<'a> {
    course: &'a dyn Fn(RelationId) -> Course,
    plans: HashMap<Fingerprint, Plan>,
}

impl Closing<'_> {
    /// Whether what a plan reads has ended: one relation at least has, and of none the time goes on.
    fn has_ended(&self, plan: &Plan) -> bool {
        let mut ended = false;
        let goes_on = plan.any(
            &mut |plan| match plan.node() {
                Node::Get { id, .. } => {
                    let course = (self.course)(*id);
                    ended |= course == Course::Ended;
                    course == Course::GoesOn
                }
                _ => false,
            },
            &|_| true,
        );
        ended && !goes_on
    }

    fn rebuilt(&mut self, plan: &Plan) -> Plan {
        match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => plan.clone(),
            Node::Delay { input, .. } if self.has_ended(input) => self.plan(input),
            Node::Linear { input, steps } => {
                let closed = self.plan(input);
                if closed.fingerprint() == input.fingerprint() { plan.clone() } else { lower::linear(closed, steps, plan.row()) }
            }
            node => Plan::new(node.over(self), plan.row().clone()),
        }
    }
}

impl Rewrite for Closing<'_> {
    fn plan(&mut self, plan: &Plan) -> Plan {
        if plan.is_boundary() {
            return plan.clone();
        }
        if let Some(closed) = self.plans.get(&plan.fingerprint()) {
            return closed.clone();
        }
        let closed = plan.rewritten(self.rebuilt(plan));
        self.plans.insert(plan.fingerprint(), closed.clone());
        closed
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        Arrangement { input: self.plan(&arrangement.input), ..arrangement.clone() }
    }
}
