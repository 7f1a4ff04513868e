//! What a subquery of a WHERE or a SELECT list is to the query that it stands in.
//!
//! It is part of one operator with that query's FROM: what it reads is remembered, once, and everything from there to the
//! rows that consumers see is computed of what is remembered. A GROUP BY in it remembers its groups, EXISTS and IN the rows
//! that they select from. Were the subquery's answer remembered as well, it would expire while what it was computed of is
//! still being written, for an answer that stays the same is not written again.

use datafusion_expr::{Expr, LogicalPlan};

use crate::error::Result;
use crate::plan::rewrite::Rewrite;
use crate::plan::{Arrangement, Memory, Node, Origin, Plan};
use crate::sql::retention::Retentions;

use super::{Staying, aggregate, linear, lower, needed_by, projected, remember};

/// An input of a query with subqueries: its FROM, or one of them.
pub(super) struct Input {
    /// The rows that are remembered, or what is computed of them.
    pub plan: Plan,
    pub name: Option<String>,
    pub memory: Memory,
    /// Whether `plan` is computed of what is remembered, so that an expiry can add rows to it.
    pub is_answer: bool,
}

impl Input {
    /// The input that `plan` is. Where only whether there are rows is asked `of_rows`, they are remembered by all their columns.
    pub fn new(plan: &LogicalPlan, of_rows: bool, said: &Retentions) -> Result<Self> {
        let name = remember::name_in_from(plan);
        let memory = remember::side(said, name.as_deref());
        let is_answer = memory.ttl.is_some() && has_state(plan);
        let plan = match is_answer {
            true if is_existence(plan) => existence(plan, &memory, said)?,
            true => Unsettled.plan(&lower(plan, said)?),
            false if of_rows && memory.ttl.is_some() => remember::rows(remember::whole(plan, said)?, &memory),
            false => remember::rows(lower(plan, said)?, &memory),
        };
        Ok(Input { plan, name, memory, is_answer })
    }
}

/// Whether there is an operator that remembers rows between the relation that a plan is named after and the plan's rows.
fn has_state(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Limit(_) => true,
        LogicalPlan::SubqueryAlias(alias) => remember::is_of_condition(plan) && has_state(&alias.input),
        LogicalPlan::Projection(projection) => has_state(&projection.input),
        LogicalPlan::Filter(filter) => has_state(&filter.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_some() || has_state(&sort.input),
        LogicalPlan::Extension(extension) => {
            extension.node.as_any().downcast_ref::<Staying>().is_some_and(|staying| has_state(&staying.input))
        }
        _ => false,
    }
}

/// Whether it is an EXISTS as a value: `COUNT(*) > 0 AS exists`, which groups rows that nobody has said to group.
fn is_existence(plan: &LogicalPlan) -> bool {
    let is_test = |expr: &Expr| matches!(expr, Expr::Alias(alias) if alias.name == "exists" && matches!(*alias.expr, Expr::BinaryExpr(_)));
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_existence(&alias.input),
        LogicalPlan::Projection(projection) => match &*projection.input {
            LogicalPlan::Aggregate(_) => projection.expr.iter().any(is_test),
            input => is_existence(input),
        },
        _ => false,
    }
}

/// The same, computed of the rows that are remembered each by itself.
fn existence(plan: &LogicalPlan, memory: &Memory, said: &Retentions) -> Result<Plan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => existence(&alias.input, memory, said),
        LogicalPlan::Projection(projection) => projected(projection, existence(&projection.input, memory, said)?),
        LogicalPlan::Aggregate(counted) => {
            let rows = remember::rows(remember::whole(&counted.input, said)?, memory);
            let needed = needed_by(counted.group_expr.iter().chain(&counted.aggr_expr), &counted.input)?;
            aggregate::over(counted, rows, &Memory { origin: Origin::Reads, ..Memory::default() }, &needed)
        }
        plan => lower(plan, said),
    }
}

/// An operator of which nothing that expires is kept from who reads it. What is below the rows that it remembers stays.
struct Unsettled;

impl Rewrite for Unsettled {
    fn plan(&mut self, plan: &Plan) -> Plan {
        match plan.node() {
            _ if plan.is_boundary() => plan.clone(),
            Node::Remember { .. } => plan.clone(),
            Node::Settle { input, .. } => self.plan(input),
            Node::Linear { input, steps } => linear::steps(self.plan(input), steps, plan.row()),
            node => Plan::new(node.over(self), plan.row().clone()),
        }
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        match arrangement.retention {
            Some(_) => arrangement.clone(),
            None => Arrangement { input: self.plan(&arrangement.input), ..arrangement.clone() },
        }
    }
}
