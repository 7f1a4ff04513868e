//! Keeps conditions on engine time above the operators that forget: see [`Staying`].

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::logical_plan::{Extension, Filter, Join};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, JoinType, LogicalPlan};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::plan::lower::Staying;
use crate::sql::functions::EngineTime;

/// Makes nodes of their own of conditions that read engine time: those of WHERE and HAVING, and those of an inner join's ON,
/// which say the same.
#[derive(Debug)]
pub(super) struct StayingConditions {
    /// Whether anything in the query does.
    pub forgets: bool,
}

impl OptimizerRule for StayingConditions {
    fn name(&self) -> &str {
        "staying_conditions"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            plan if !self.forgets => Ok(Transformed::no(plan)),
            LogicalPlan::Filter(filter) => match timed(filter.predicate.clone())? {
                (None, _) => Ok(Transformed::no(LogicalPlan::Filter(filter))),
                (Some(condition), None) => Ok(staying(condition, Arc::unwrap_or_clone(filter.input))),
                (Some(condition), Some(rest)) => Ok(staying(condition, LogicalPlan::Filter(Filter::try_new(rest, filter.input)?))),
            },
            LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner => match join.filter.take().map(timed).transpose()? {
                Some((Some(condition), rest)) => {
                    join.filter = rest;
                    Ok(staying(condition, LogicalPlan::Join(join)))
                }
                Some((None, rest)) => Ok(Transformed::no(LogicalPlan::Join(Join { filter: rest, ..join }))),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        }
    }
}

fn staying(condition: Expr, input: LogicalPlan) -> Transformed<LogicalPlan> {
    Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(Staying { condition, input }) }))
}

/// The conjuncts that read engine time, and the others.
fn timed(condition: Expr) -> Result<(Option<Expr>, Option<Expr>)> {
    let (mut timed, mut rest) = (vec![], vec![]);
    for conjunct in split_conjunction_owned(condition) {
        if reads_time(&conjunct)? { timed.push(conjunct) } else { rest.push(conjunct) }
    }
    Ok((conjunction(timed), conjunction(rest)))
}

fn reads_time(expr: &Expr) -> Result<bool> {
    expr.exists(|node| Ok(matches!(node, Expr::ScalarFunction(call) if EngineTime::of(&call.func).is_some())))
}
