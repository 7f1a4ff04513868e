//! ORDER BY and LIMIT.
//!
//! A LIMIT is a [`Node::TopK`] over one group. Its order is that of ORDER BY and then, so that the answer is one answer,
//! of all other columns; without ORDER BY of all columns.

use arrow::compute::SortOptions;
use datafusion_expr::LogicalPlan;
use datafusion_expr::expr::Sort as SortExpr;
use datafusion_expr::logical_plan::{FetchType, Limit, Projection, SkipType, Sort};

use crate::error::{Error, Result};
use crate::plan::{Column, Memory, Node, Plan, Rank, RowType};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::{Item, item, key_item, labelled_item, pick, pick_all};
use super::{linear, lower, nodes, remember};

/// A collection and what the query says of the order of its rows.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// The first `visible` columns are the query's; what follows is only there to sort by.
    pub plan: Plan,
    pub visible: usize,
    /// Columns to sort by, most significant first.
    pub order: Vec<(usize, SortOptions)>,
}

/// The collection that a whole query computes, and its final ORDER BY.
pub fn lower_query(plan: &LogicalPlan, said: &Retentions) -> Result<Ordered> {
    match plan {
        LogicalPlan::Sort(sort) => sorted(sort, said),
        LogicalPlan::Limit(limit) => limited(limit, said),
        LogicalPlan::SubqueryAlias(alias) if is_ordered(plan) => lower_query(&alias.input, said),
        LogicalPlan::Projection(projection) if is_ordered(plan) => projected(projection, said),
        other => {
            let plan = lower(other, said)?;
            let visible = plan.row().len();
            Ok(Ordered { plan, visible, order: vec![] })
        }
    }
}

/// ORDER BY or LIMIT where the order of the result means nothing.
pub(super) fn lower_unordered(plan: &LogicalPlan, said: &Retentions) -> Result<Plan> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => lower(&sort.input, said),
        other => {
            let Ordered { plan, visible, .. } = lower_query(other, said)?;
            Ok(linear::project_columns(plan, 0..visible))
        }
    }
}

/// The options that make encoded rows sort as `sort` asks.
pub(super) fn options(sort: &SortExpr) -> SortOptions {
    SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first }
}

/// Whether an ORDER BY reaches the root of `plan`.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Limit(limit) => is_ordered(&limit.input),
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_ordered(&alias.input),
        _ => false,
    }
}

fn sorted(sort: &Sort, said: &Retentions) -> Result<Ordered> {
    let Ordered { plan: input, visible, .. } = unordered(&sort.input, said)?;
    let mut items = pick_all(input.row());
    let mut order = vec![];
    for key in &sort.expr {
        let by = labelled_item(&key.expr, sort.input.schema(), input.row())?;
        order.push((place(&mut items, key_item(by)), options(key)));
    }
    let plan = if items.len() > input.row().len() { linear::project(input, items) } else { input };
    let plan = match sort.fetch {
        None => plan,
        Some(fetch) => top(plan, &order, 0, Some(fetch as u64), &said.of(name_in_from(&sort.input).as_deref()))?,
    };
    Ok(Ordered { plan, visible, order })
}

/// What is put in order and cut. Where it is remembered, that is the rows that are selected from, with all their columns: those
/// that are not selected come behind the ones that are.
fn unordered(plan: &LogicalPlan, said: &Retentions) -> Result<Ordered> {
    let visible = plan.schema().fields().len();
    let is_remembered = said.of(name_in_from(plan).as_deref()).ttl.is_some();
    let plan = if is_remembered { remember::whole(plan, said)? } else { lower(plan, said)? };
    Ok(Ordered { plan, visible, order: vec![] })
}

fn limited(limit: &Limit, said: &Retentions) -> Result<Ordered> {
    let is_ordered = is_ordered(&limit.input);
    let Ordered { plan, visible, order } = if is_ordered { lower_query(&limit.input, said) } else { unordered(&limit.input, said) }?;
    let SkipType::Literal(offset) = limit.get_skip_type()? else {
        return Err(Error::unsupported("OFFSET of anything but a number"));
    };
    let FetchType::Literal(fetch) = limit.get_fetch_type()? else {
        return Err(Error::unsupported("LIMIT of anything but a number"));
    };
    let memory = said.of(name_in_from(&limit.input).as_deref());
    let plan = top(plan, &order, offset as u64, fetch.map(|fetch| fetch as u64), &memory)?;
    Ok(Ordered { plan, visible, order })
}

/// A projection over an ordered input keeps the columns that the order is in, hidden where they are not shown.
fn projected(projection: &Projection, said: &Retentions) -> Result<Ordered> {
    let Ordered { plan, order, .. } = lower_query(&projection.input, said)?;
    let schema = projection.input.schema();
    let exprs = projection.expr.iter().zip(projection.schema.fields());
    let mut items = exprs.map(|(expr, field)| item(expr, field.name(), schema, plan.row())).collect::<Result<Vec<_>>>()?;
    let visible = items.len();
    let order = order.into_iter().map(|(column, options)| (place(&mut items, pick(plan.row(), column)), options)).collect();
    Ok(Ordered { plan: linear::project(plan, items), visible, order })
}

/// Where `item` stands among `items`, at the end if it was not there.
fn place(items: &mut Vec<Item>, item: Item) -> usize {
    items.iter().position(|(scalar, _)| scalar.as_ref() == item.0.as_ref()).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// The rows from the `offset`th on, `limit` of them, in this order.
fn top(input: Plan, order: &[(usize, SortOptions)], offset: u64, limit: Option<u64>, memory: &Memory) -> Result<Plan> {
    match limit {
        None if offset == 0 => Ok(input),
        Some(0) => Ok(nodes::nothing(input.row())),
        _ => {
            let (values, places) = in_order(input.row(), order);
            let arrangement = nodes::arrange(remember::groups(input, &[], memory), vec![], values, None).with_memory(memory);
            let row = arrangement.input.row().clone();
            let node = Node::TopK { input: arrangement, offset, limit, rank: Rank::RowNumber, expose: false };
            let plan = remember::settle_groups(Plan::new(node, row), 0, memory, false);
            Ok(linear::project_columns(plan, places))
        }
    }
}

/// The columns of `row`, those of `order` first, and where each column of `row` has gone.
fn in_order(row: &RowType, order: &[(usize, SortOptions)]) -> (Vec<Item>, Vec<usize>) {
    let mut columns: Vec<(usize, SortOptions)> = vec![];
    for (column, options) in order.iter().copied().chain((0..row.len()).map(|column| (column, SortOptions::default()))) {
        if columns.iter().all(|(placed, _)| *placed != column) {
            columns.push((column, options));
        }
    }
    let places = (0..row.len()).map(|column| columns.iter().position(|(placed, _)| *placed == column).expect("every column is placed"));
    let places = places.collect();
    let items = columns.into_iter().map(|(column, sort)| {
        let (scalar, made) = pick(row, column);
        (scalar, Column { sort, ..made })
    });
    (items.collect(), places)
}
