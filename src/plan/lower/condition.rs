//! The subqueries of a WHERE and of a SELECT list.
//!
//! IN and EXISTS in a WHERE are semi, anti and mark joins of FROM's rows with the subquery's; a NOT IN is up to three of
//! them. A subquery that is a value is a left join, or an inner one where a condition is never true of NULL. However many
//! there are in one query, one over the other and with filters over what they say, they are one operator: FROM's rows are
//! remembered once, [each subquery's](super::subquery) once, and what consumers see of expiries is settled once, of the
//! rows on which the whole condition holds. Were each an operator of its own, a row that the first says late would be
//! remembered by the second from then on, and one that the first owes would never come to the second.

use datafusion_expr::logical_plan::{Filter, Join, Projection};
use datafusion_expr::{Expr, JoinType, LogicalPlan};

use crate::error::Result;
use crate::plan::{Memory, Plan};
use crate::sql::retention::Retentions;

use super::join::Pair;
use super::scalar::{Item, null_item, pick, position};
use super::subquery::Input;
use super::{linear, outer, remember, scalar};

/// A condition as far as it has been lowered.
struct Condition {
    plan: Plan,
    /// What each input is remembered for, and whether its expiry can add rows.
    inputs: Vec<(Memory, bool)>,
    /// The columns that say whether a subquery has a match.
    marks: Vec<usize>,
    /// FROM, as what is joined next has it for its left side.
    from: (Option<String>, Memory),
}

/// A query with subqueries, as one operator; None for any other plan. What marks is not `needed` is left out of the rows.
pub(super) fn condition(plan: &LogicalPlan, needed: &[bool], said: &Retentions) -> Result<Option<Plan>> {
    // What is computed last of rows that are only tested is no part of what is settled: rows that differ do not stand in
    // for one another.
    if matches!(plan, LogicalPlan::Projection(projection) if !is_pick(projection)) && !has_value(plan) {
        return Ok(None);
    }
    let Some(condition) = Condition::of(plan, said)? else { return Ok(None) };
    let row = condition.plan.row().clone();
    let is_idle = |column: usize| condition.marks.contains(&column) && !needed[column];
    let shown = |column: usize| match is_idle(column) {
        true => null_item(&row.columns[column].name, &row.columns[column].data_type),
        false => Ok(pick(&row, column)),
    };
    let plan = match (0..row.len()).any(is_idle) {
        true => linear::project(condition.plan, (0..row.len()).map(shown).collect::<Result<Vec<Item>>>()?),
        false => condition.plan,
    };
    let inputs: Vec<(&Memory, bool)> = condition.inputs.iter().map(|(memory, adds)| (memory, *adds)).collect();
    remember::settle_inputs(plan, &inputs).map(Some)
}

impl Condition {
    fn of(plan: &LogicalPlan, said: &Retentions) -> Result<Option<Self>> {
        match plan {
            LogicalPlan::Filter(filter) => Self::of(&filter.input, said)?.map(|condition| condition.filtered(filter)).transpose(),
            LogicalPlan::Projection(projection) if is_pick(projection) || said.is_bounded() => {
                Self::of(&projection.input, said)?.map(|condition| condition.projected(projection)).transpose()
            }
            LogicalPlan::Join(join) if is_test(join) || said.is_bounded() && is_value(join) => Self::joined(join, said).map(Some),
            _ => Ok(None),
        }
    }

    /// FROM's rows with one more subquery, which is the first if there is none under it.
    fn joined(join: &Join, said: &Retentions) -> Result<Self> {
        let (left, mut inputs, mut marks) = match Self::of(&join.left, said)? {
            None => {
                let from = Input::new(&join.left, false, said)?;
                let inputs = vec![(from.memory.clone(), from.is_answer)];
                ((from.plan, from.name, from.memory), inputs, vec![])
            }
            Some(Condition { plan, inputs, marks, from: (name, memory) }) => ((plan, name, memory), inputs, marks),
        };
        let subquery = Input::new(&join.right, is_test(join), said)?;
        // A row of a subquery that goes leaves rows without a match.
        let adds = subquery.is_answer || !matches!(join.join_type, JoinType::LeftSemi | JoinType::Inner);
        inputs.push((subquery.memory.clone(), adds));
        let pair = Pair::over(join, left, (subquery.plan, subquery.name, subquery.memory))?;
        // What is not bounded is not by what was said of an input that is not.
        let unbounded = inputs.iter().map(|(memory, _)| memory).find(|memory| memory.ttl.is_none());
        let from = (pair.left.name.clone(), unbounded.unwrap_or(&pair.left.memory).clone());
        let widths = [pair.left.plan.row().len(), pair.right.plan.row().len()];
        if join.join_type == JoinType::LeftMark {
            marks.push(widths[0]);
        }
        let [left, right] = widths.map(|width| vec![true; width]);
        let plan = match join.join_type {
            JoinType::LeftSemi => outer::semi(pair)?,
            JoinType::LeftAnti => outer::anti(pair)?,
            JoinType::LeftMark => outer::mark(pair)?,
            JoinType::Inner => pair.inner(&left, &right)?,
            _ => outer::left(pair, &left, &right)?,
        };
        Ok(Condition { plan, inputs, marks, from })
    }

    fn filtered(self, filter: &Filter) -> Result<Self> {
        let predicate = scalar(&filter.predicate, filter.input.schema(), self.plan.row())?;
        Ok(Condition { plan: linear::filter(self.plan, predicate), ..self })
    }

    fn projected(self, projection: &Projection) -> Result<Self> {
        let schema = projection.input.schema();
        let is_mark = |expr: &Expr| match expr {
            Expr::Column(column) => Ok(self.marks.contains(&position(column, schema)?)),
            _ => Ok(false),
        };
        let is_mark = projection.expr.iter().map(is_mark).collect::<Result<Vec<bool>>>()?;
        let marks = (0..is_mark.len()).filter(|place| is_mark[*place]).collect();
        Ok(Condition { plan: super::projected(projection, self.plan)?, marks, ..self })
    }
}

/// Whether rows have a subquery's value beside them, or columns computed of it. A change of that value may change nothing
/// that the query shows, so what is settled of such rows is what it shows.
pub(super) fn has_value(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => has_value(&filter.input),
        LogicalPlan::Projection(projection) => has_value(&projection.input),
        LogicalPlan::Join(join) => is_value(join) || is_test(join) && has_value(&join.left),
        _ => false,
    }
}

fn is_pick(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// Whether a join tests rows of its left side by a subquery.
fn is_test(join: &Join) -> bool {
    let tests = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
    tests && !join.null_aware && remember::is_of_condition(&join.right)
}

/// Whether a join puts a subquery's value beside rows of its left side.
fn is_value(join: &Join) -> bool {
    matches!(join.join_type, JoinType::Left | JoinType::Inner) && remember::is_of_condition(&join.right)
}
