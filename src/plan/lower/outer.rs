//! Joins that keep rows for having no match, or keep them once for having one.
//!
//! On equalities alone these are one [`Node::Join`]. With a condition beside them, whether a row has a match is known
//! only after the condition: the matching rows are the inner join's, the rows with a match are its left (or right) halves,
//! each once, and the rows without are what an anti join by whole rows leaves. A condition that only one side is asked
//! for needs none of that: it is a filter of that side.

use datafusion_common::ScalarValue;

use crate::error::Result;
use crate::plan::{Column, JoinKind, Plan, RowType, Scalar, Threshold};

use super::join::{Pair, Side};
use super::scalar::{Item, all, is_not_true, literal, mentions, null_item, pick_all, read_column, substitute};
use super::{linear, nodes};
use arrow::datatypes::DataType;

/// Every left row with its matches, or with NULLs.
pub(super) fn left(pair: Pair, left_needed: &[bool], right_needed: &[bool]) -> Result<Plan> {
    let pair = filter_right(pair)?;
    if pair.conditions.is_empty() {
        return pair.equi(JoinKind::Left, left_needed, right_needed);
    }
    let (pair, hopeless) = split_left(pair)?;
    let matched_or_padded = if pair.conditions.is_empty() {
        pair.equi(JoinKind::Left, left_needed, right_needed)?
    } else {
        let matched = pair.inner(&vec![true; left_needed.len()], right_needed)?;
        let unmatched = by_rows(JoinKind::Anti, &pair, &pair.left.plan, left_half(&pair, &matched));
        nodes::union(vec![matched, padded(unmatched, pair.right.plan.row())?])
    };
    match hopeless {
        None => Ok(matched_or_padded),
        Some(hopeless) => Ok(nodes::union(vec![matched_or_padded, padded(hopeless, pair.right.plan.row())?])),
    }
}

/// Every right row with its matches, or with NULLs.
pub(super) fn right(pair: Pair, left_needed: &[bool], right_needed: &[bool]) -> Result<Plan> {
    if pair.conditions.is_empty() {
        return pair.equi(JoinKind::Right, left_needed, right_needed);
    }
    let (left_width, right_width) = (pair.left.plan.row().len(), pair.right.plan.row().len());
    let swapped = left(pair.swapped(), right_needed, left_needed)?;
    Ok(linear::project_columns(swapped, (right_width..right_width + left_width).chain(0..right_width)))
}

/// Every row of both sides with its matches, or with NULLs.
pub(super) fn full(pair: Pair, left_needed: &[bool], right_needed: &[bool]) -> Result<Plan> {
    if pair.conditions.is_empty() {
        return pair.equi(JoinKind::Full, left_needed, right_needed);
    }
    let (left_row, right_row) = (pair.left.plan.row().clone(), pair.right.plan.row().clone());
    let matched = pair.inner(&vec![true; left_row.len()], &vec![true; right_row.len()])?;
    let left_alone = by_rows(JoinKind::Anti, &pair, &pair.left.plan, left_half(&pair, &matched));
    let right_half = linear::project_columns(matched.clone(), left_row.len()..left_row.len() + right_row.len());
    let right_alone = by_rows(JoinKind::Anti, &pair, &pair.right.plan, right_half);
    let mut right_padded = left_row.columns.iter().map(|c| null_item(&c.name, &c.data_type)).collect::<Result<Vec<Item>>>()?;
    right_padded.extend(pick_all(right_alone.row()));
    Ok(nodes::union(vec![matched, padded(left_alone, &right_row)?, linear::project(right_alone, right_padded)]))
}

/// The left rows that have a match.
pub(super) fn semi(pair: Pair) -> Result<Plan> {
    let pair = filter_right(pair)?;
    let (pair, _) = split_left(pair)?;
    if pair.conditions.is_empty() {
        return pair.half(JoinKind::Semi);
    }
    let matched = matched_left(&pair)?;
    Ok(by_rows(JoinKind::Semi, &pair, &pair.left.plan, matched))
}

/// The left rows that have none.
pub(super) fn anti(pair: Pair) -> Result<Plan> {
    let pair = filter_right(pair)?;
    let (pair, hopeless) = split_left(pair)?;
    let unmatched = if pair.conditions.is_empty() {
        pair.half(JoinKind::Anti)?
    } else {
        let matched = matched_left(&pair)?;
        by_rows(JoinKind::Anti, &pair, &pair.left.plan, matched)
    };
    Ok(nodes::union([Some(unmatched), hopeless].into_iter().flatten().collect()))
}

/// Every left row, and whether it has a match.
pub(super) fn mark(pair: Pair) -> Result<Plan> {
    let marked = |plan: Plan, mark: bool| {
        let mut items = pick_all(plan.row());
        items.push((literal(ScalarValue::Boolean(Some(mark))), Column::new("mark", DataType::Boolean, false)));
        linear::project(plan, items)
    };
    Ok(nodes::union(vec![marked(semi(pair.clone())?, true), marked(anti(pair)?, false)]))
}

/// The left rows that are in the inner join, each once.
fn matched_left(pair: &Pair) -> Result<Plan> {
    let width = pair.left.plan.row().len();
    let matched = pair.inner(&vec![true; width], &vec![false; pair.right.plan.row().len()])?;
    Ok(left_half(pair, &matched))
}

fn left_half(pair: &Pair, matched: &Plan) -> Plan {
    linear::project_columns(matched.clone(), 0..pair.left.plan.row().len())
}

/// The rows of one side of `pair` that are (or are not) among `matched`, as often as they are there. Where these are not
/// bounded, it is by what was said of the side that is not.
fn by_rows(kind: JoinKind, pair: &Pair, plan: &Plan, matched: Plan) -> Plan {
    let sides = [&pair.left, &pair.right];
    let memory = &sides.into_iter().find(|side| side.memory.ttl.is_none()).unwrap_or(&pair.left).memory;
    let matched = nodes::threshold(matched, Threshold::Distinct, memory);
    nodes::join(kind, nodes::arrange_rows(plan.clone()).with_memory(memory), nodes::arrange_rows(matched).with_memory(memory))
}

/// `plan` with a NULL for each of `columns`.
fn padded(plan: Plan, columns: &RowType) -> Result<Plan> {
    let mut items = pick_all(plan.row());
    for column in columns.columns.iter() {
        items.push(null_item(&column.name, &column.data_type)?);
    }
    Ok(linear::project(plan, items))
}

/// Makes conditions on the right side alone a filter of it: a right row that fails them matches nothing.
fn filter_right(mut pair: Pair) -> Result<Pair> {
    let width = pair.left.plan.row().len();
    let (ours, rest) = partition(pair.conditions, |column| column >= width);
    pair.conditions = rest;
    let row = pair.right.plan.row().clone();
    for condition in ours {
        let condition = substitute(&condition, |column| read_column(&row, column - width));
        pair.right.plan = linear::filter(pair.right.plan, condition);
    }
    Ok(pair)
}

/// Makes conditions on the left side alone a filter of it, beside the left rows that fail them and so match nothing.
fn split_left(mut pair: Pair) -> Result<(Pair, Option<Plan>)> {
    let width = pair.left.plan.row().len();
    let (ours, rest) = partition(pair.conditions, |column| column < width);
    pair.conditions = rest;
    let schema = pair.left.plan.row().schema();
    let Some(condition) = all(ours, &schema)? else { return Ok((pair, None)) };
    let hopeless = linear::filter(pair.left.plan.clone(), is_not_true(condition.clone(), &schema)?);
    let Side { plan, .. } = pair.left.clone();
    pair.left.plan = linear::filter(plan, condition);
    Ok((pair, Some(hopeless)))
}

/// The conditions that read some column and only columns that are `ours`, and the others.
fn partition(conditions: Vec<Scalar>, ours: impl Fn(usize) -> bool) -> (Vec<Scalar>, Vec<Scalar>) {
    conditions.into_iter().partition(|condition| {
        let mentioned = mentions(condition);
        !mentioned.is_empty() && mentioned.into_iter().all(&ours)
    })
}
