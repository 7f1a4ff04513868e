//! The subqueries of a WHERE.
//!
//! IN, EXISTS and comparisons with a subquery are semi, anti and mark joins of FROM's rows with the subquery's; a NOT IN is
//! up to three of them. However many there are in one WHERE, one over the other and with filters over what they mark, they
//! are one operator: FROM's rows are remembered once, and what consumers see of expiries is settled once, of the rows on
//! which the whole condition holds. Were each an operator of its own, a row that the first says late would be remembered by
//! the second from then on, and one that the first owes would never come to the second.

use datafusion_expr::logical_plan::{Filter, Join, Projection};
use datafusion_expr::{Expr, JoinType, LogicalPlan};

use crate::error::Result;
use crate::plan::{Memory, Plan};
use crate::sql::retention::Retentions;

use super::join::Pair;
use super::scalar::{Item, null_item, pick, position};
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

/// A WHERE with subqueries, as one operator; None for any other plan. What marks is not `needed` is left out of the rows.
pub(super) fn condition(plan: &LogicalPlan, needed: &[bool], said: &Retentions) -> Result<Option<Plan>> {
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
            LogicalPlan::Projection(projection) if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
                Self::of(&projection.input, said)?.map(|condition| condition.picked(projection)).transpose()
            }
            LogicalPlan::Join(join) if is_test(join) => Self::tested(join, said).map(Some),
            _ => Ok(None),
        }
    }

    /// FROM's rows with one more test, which is the first if there is none under it.
    fn tested(join: &Join, said: &Retentions) -> Result<Self> {
        let (pair, mut inputs, mut marks) = match Self::of(&join.left, said)? {
            None => {
                let pair = Pair::new(join, said)?;
                let from = (pair.left.memory.clone(), false);
                (pair, vec![from], vec![])
            }
            Some(Condition { plan, inputs, marks, from: (name, memory) }) => (Pair::over(join, (plan, name, memory), said)?, inputs, marks),
        };
        // A row of a subquery that goes leaves rows without a match.
        inputs.push((pair.right.memory.clone(), join.join_type != JoinType::LeftSemi));
        let from = (pair.left.name.clone(), pair.left.memory.clone());
        if join.join_type == JoinType::LeftMark {
            marks.push(pair.left.plan.row().len());
        }
        let plan = match join.join_type {
            JoinType::LeftSemi => outer::semi(pair)?,
            JoinType::LeftAnti => outer::anti(pair)?,
            _ => outer::mark(pair)?,
        };
        Ok(Condition { plan, inputs, marks, from })
    }

    fn filtered(self, filter: &Filter) -> Result<Self> {
        let predicate = scalar(&filter.predicate, filter.input.schema(), self.plan.row())?;
        Ok(Condition { plan: linear::filter(self.plan, predicate), ..self })
    }

    fn picked(self, projection: &Projection) -> Result<Self> {
        let schema = projection.input.schema();
        let columns = projection.expr.iter().flat_map(Expr::column_refs).map(|column| position(column, schema));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let marks = (0..columns.len()).filter(|place| self.marks.contains(&columns[*place])).collect();
        Ok(Condition { plan: linear::project_columns(self.plan, columns), marks, ..self })
    }
}

/// Whether a join tests rows of its left side by a subquery.
fn is_test(join: &Join) -> bool {
    let tests = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark);
    tests && !join.null_aware && remember::is_of_condition(&join.right)
}
