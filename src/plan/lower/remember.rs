//! Where retention is attached: what an operator remembers of its inputs, and what its consumers see of expiries.
//!
//! An operator with a retention is lowered as
//!
//! ```text
//! Settle(operator over Remember(input arranged with the retention))
//! ```
//!
//! Between the two everything is a plain operator over a collection from which rows are taken away when they expire, so
//! whatever it keeps (every level of an aggregate, distinct sets, the keys of a join side) expires with them: there is
//! one mechanism, and it is in the arrangement under [`Node::Remember`].
//!
//! That arrangement holds the input's whole rows, whichever columns the operator reads: two rows that differ in another
//! column are two rows, each with its own deadline, and a late retraction of one does not take the other away. Where that
//! cannot matter (a group's rows that only ever come), or where the operator's own arrangement holds the same rows,
//! [`absorb`] gives the retention to the operator's arrangement and there is none under it.

use datafusion_expr::logical_plan::{Distinct, Join};
use datafusion_expr::{JoinType, LogicalPlan};

use crate::error::{Error, Result};
use crate::eval::is_fallible;
use crate::plan::{Arrangement, Expiry, Layout, Memory, Node, Plan, Policy, Scalar, Scope, Step};
use crate::sql::retention::Retentions;

use super::scalar::{Item, column_index, item, pick, pick_all, substitute};
use super::session::Sessions;
use super::{AsOf, Staying, condition, failing, linear, lower, nodes};

/// Whether it is a subquery that stood in a condition or a SELECT list: decorrelation makes aliases that nobody wrote.
pub(super) fn is_of_condition(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => alias.alias.table().starts_with("__"),
        LogicalPlan::Projection(projection) => is_of_condition(&projection.input),
        _ => false,
    }
}

/// What an input is called in FROM: its alias, its table's name, or those that it is joined of with `+` between.
pub(super) fn name_in_from(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) if is_of_condition(plan) => name_in_from(&alias.input),
        LogicalPlan::SubqueryAlias(alias) => Some(alias.alias.table().to_string()),
        LogicalPlan::TableScan(scan) => Some(scan.table_name.table().to_string()),
        LogicalPlan::Join(join) => joined_name(join),
        LogicalPlan::Projection(projection) => name_in_from(&projection.input),
        LogicalPlan::Filter(filter) => name_in_from(&filter.input),
        LogicalPlan::Window(window) => name_in_from(&window.input),
        LogicalPlan::Aggregate(aggregate) => name_in_from(&aggregate.input),
        LogicalPlan::Distinct(Distinct::All(input)) => name_in_from(input),
        LogicalPlan::Sort(sort) => name_in_from(&sort.input),
        LogicalPlan::Limit(limit) => name_in_from(&limit.input),
        LogicalPlan::Unnest(unnest) => name_in_from(&unnest.input),
        LogicalPlan::Extension(extension) => {
            let node = extension.node.as_any();
            if let Some(join) = node.downcast_ref::<AsOf>() {
                return Some(format!("{}+{}", name_in_from(&join.left)?, name_in_from(&join.right)?));
            }
            let input = node.downcast_ref::<Staying>().map(|staying| &staying.input);
            name_in_from(input.or_else(|| node.downcast_ref::<Sessions>().map(Sessions::input))?)
        }
        _ => None,
    }
}

fn joined_name(join: &Join) -> Option<String> {
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => name_in_from(&join.left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => name_in_from(&join.right),
        _ if is_of_condition(&join.right) => name_in_from(&join.left),
        _ => Some(format!("{}+{}", name_in_from(&join.left)?, name_in_from(&join.right)?)),
    }
}

/// The rows of a relation by all their columns. A subquery in a condition and a SELECT DISTINCT read the rows that they
/// select from, as GROUP BY does, not what they select of them: those columns come behind the ones they select.
pub(super) fn whole(plan: &LogicalPlan, said: &Retentions) -> Result<Plan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) if is_of_condition(plan) => whole(&alias.input, said),
        LogicalPlan::Projection(projection) if !condition::has_value(plan) => {
            let is_inside = is_of_condition(&projection.input);
            let input = if is_inside { whole(&projection.input, said)? } else { lower(&projection.input, said)? };
            let exprs = projection.expr.iter().zip(projection.schema.fields());
            let items = exprs.map(|(expr, field)| item(expr, field.name(), projection.input.schema(), input.row()));
            let items = items.chain(pick_all(input.row()).into_iter().map(Ok)).collect::<Result<Vec<Item>>>()?;
            Ok(linear::project(input, items))
        }
        plan => lower(plan, said),
    }
}

/// The memory of one side of a join or set operation, which has no answer of its own to keep.
pub(super) fn side(said: &Retentions, name: Option<&str>) -> Memory {
    let memory = said.of(name);
    let policy = if memory.policy == Policy::Keep { Policy::Forget } else { memory.policy };
    Memory { policy, ..memory }
}

/// The rows of `input` that are remembered, each by itself.
pub(super) fn rows(input: Plan, memory: &Memory) -> Plan {
    let Some(retention) = memory.retention(Scope::Row) else { return input };
    let arranged = nodes::arrange_rows(input);
    remembered(Arrangement { retention: Some(retention), memory: memory.clone(), ..arranged })
}

/// The rows of `input` that are remembered, those with one key together.
pub(super) fn groups(input: Plan, key: &[Item], memory: &Memory) -> Plan {
    let Some(retention) = memory.retention(Scope::Group) else { return input };
    let row = input.row().clone();
    let in_key = |column: usize| key.iter().position(|(scalar, _)| column_index(scalar) == Some(column));
    let values: Vec<usize> = (0..row.len()).filter(|column| in_key(*column).is_none()).collect();
    let value = |column: usize| values.iter().position(|value| *value == column).map(|place| key.len() + place);
    let places: Vec<usize> = (0..row.len()).filter_map(|column| in_key(column).or_else(|| value(column))).collect();
    let items = values.iter().map(|column| pick(&row, *column)).collect();
    let arranged = nodes::arrange(input, key.to_vec(), items, None);
    let plan = remembered(Arrangement { retention: Some(retention), memory: memory.clone(), ..arranged });
    linear::project_columns(plan, places)
}

/// What an arrangement with a retention remembers.
pub(super) fn remembered(input: Arrangement) -> Plan {
    match failing::before_values(&input) {
        Some((under, items)) => linear::project(remembered(under), items),
        None => remembered_as_is(Arrangement { input: failing::apart(&input.input, &input.memory), ..input }),
    }
}

/// The same, of an input on which no row fails.
pub(super) fn remembered_as_is(input: Arrangement) -> Plan {
    let row = input.input.row().clone();
    Plan::new(Node::Remember { input }, row)
}

/// What consumers see of an operator over groups that expire, whose key its first `key` columns are.
pub(super) fn settle_groups(plan: Plan, key: usize, memory: &Memory, is_always_there: bool) -> Plan {
    match (memory.ttl, memory.policy) {
        (None, _) => plan,
        (Some(_), Policy::Forget) if is_always_there => settled(plan, Policy::Forget, Expiry::Adds),
        (Some(_), policy) => settled(plan, policy, Expiry::Groups { key }),
    }
}

/// What consumers see of an operator over inputs whose rows expire, and of each whether an expiry of it can add rows to the
/// result.
pub(super) fn settle_inputs(plan: Plan, inputs: &[(&Memory, bool)]) -> Result<Plan> {
    let bounded: Vec<&(&Memory, bool)> = inputs.iter().filter(|(memory, _)| memory.ttl.is_some()).collect();
    let Some((first, _)) = bounded.first() else { return Ok(plan) };
    if let Some((other, _)) = bounded.iter().find(|(memory, _)| memory.policy != first.policy) {
        return Err(Error::invalid(format!(
            "on_expiry is '{}' for one side of a join and '{}' for the other: the changes of both are one result, so say one policy for both",
            first.policy, other.policy
        )));
    }
    let expiry = if bounded.iter().any(|(_, adds)| *adds) { Expiry::Adds } else { Expiry::Removes };
    Ok(settled(plan, first.policy, expiry))
}

pub(super) fn settled(input: Plan, policy: Policy, expiry: Expiry) -> Plan {
    let row = input.row().clone();
    Plan::new(Node::Settle { input, policy, expiry }, row)
}

/// An operator's arrangement of remembered rows as one that itself remembers, if it can take that over: if what expires
/// together in one does in the other, and a retraction finds in it what it would find in the other.
pub(super) fn absorb(arrangement: Arrangement) -> Arrangement {
    let (base, steps) = match arrangement.input.node() {
        Node::Linear { input, steps } if !arrangement.input.is_boundary() => (input.clone(), steps.clone()),
        _ => (arrangement.input.clone(), vec![]),
    };
    let Node::Remember { input: remembering } = base.node() else { return arrangement };
    let Some(retention) = remembering.retention else { return arrangement };
    let Some(columns) = traced(&steps, &base) else { return arrangement };
    let holds = |column: usize| columns.iter().any(|traced| column_index(traced) == Some(column));
    let holds_all = (remembering.key..base.row().len()).all(holds);
    let can = match (retention.scope, &arrangement.layout) {
        (Scope::Row | Scope::Version, Layout::Rows) => (0..base.row().len()).all(holds),
        (Scope::Row | Scope::Version, Layout::Sums(_)) => false,
        (Scope::Group, layout) => {
            let is_filtered = steps.iter().any(|step| matches!(step, Step::Filter(_)));
            // A sum cannot tell whether a late row is in it; a count of whole rows can.
            let tells = match layout {
                Layout::Rows => holds_all,
                Layout::Sums(sums) => sums.is_empty() && remembering.key == base.row().len(),
            };
            !is_filtered && (tells || remembering.only_appends()) && same_keys(&columns[..arrangement.key], remembering)
        }
    };
    // A row of which these columns cannot be computed would not be in it, and its error would not expire.
    let shown = if retention.scope == Scope::Group { arrangement.key } else { 0 };
    let input = match (can, can_fail(&steps, shown), &arrangement.layout) {
        (false, ..) | (true, true, Layout::Rows) => return arrangement,
        // To remember the rows under sums would be to remember far more.
        (true, true, Layout::Sums(_)) => failing::in_groups(&arrangement, remembering, &columns),
        (true, false, _) => steps.into_iter().fold(remembering.input.clone(), |plan, step| match step {
            Step::Filter(predicate) => linear::filter(plan, predicate),
            Step::Project(items) => linear::project_each(plan, items),
            Step::Unnest { .. } => unreachable!("a list that is unnested is not traced"),
        }),
    };
    Arrangement { input, retention: Some(retention), memory: remembering.memory.clone(), ..arrangement }
}

/// Whether some row can fail in these steps, but for the first `but` columns that come out of them.
fn can_fail(steps: &[Step], but: usize) -> bool {
    match steps.split_last() {
        Some((Step::Project(items), before)) => {
            items.iter().skip(but).any(|(scalar, _)| is_fallible(scalar)) || before.iter().any(Step::can_fail)
        }
        _ => steps.iter().any(Step::can_fail),
    }
}

/// The columns that come out of `steps` as expressions over the rows of `base`.
fn traced(steps: &[Step], base: &Plan) -> Option<Vec<Scalar>> {
    let mut columns: Vec<Scalar> = pick_all(base.row()).into_iter().map(|(scalar, _)| scalar).collect();
    for step in steps {
        match step {
            Step::Filter(_) => {}
            Step::Project(items) => {
                columns = items.iter().map(|(scalar, _)| substitute(scalar, |column| columns[column].clone())).collect()
            }
            Step::Unnest { .. } => return None,
        }
    }
    Some(columns)
}

/// Whether a key of these columns of the rows that `remembering` holds tells apart what its own key does, and no more.
fn same_keys(key: &[Scalar], remembering: &Arrangement) -> bool {
    let made: Vec<Item> = match remembering.input.node() {
        Node::Linear { steps, .. } if !remembering.input.is_boundary() => match steps.last() {
            Some(Step::Project(items)) => items.clone(),
            _ => pick_all(remembering.input.row()),
        },
        _ => pick_all(remembering.input.row()),
    };
    let of_input = |scalar: &Scalar| substitute(scalar, |column| made[column].0.clone());
    let place = |scalar: &Scalar| match column_index(scalar) {
        Some(column) if column < remembering.key => Some(column),
        _ => made[..remembering.key].iter().position(|(own, _)| own.as_ref() == of_input(scalar).as_ref()),
    };
    let places: Vec<Option<usize>> = key.iter().map(place).collect();
    places.iter().all(Option::is_some) && (0..remembering.key).all(|own| places.contains(&Some(own)))
}
