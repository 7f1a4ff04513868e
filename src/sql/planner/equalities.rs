//! Equalities of a join's condition as its keys.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, find_valid_equijoin_key_pair, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

/// Makes keys of the conjuncts `l = r` of a join's condition. DataFusion's own rule does the same, and makes keys of
/// `l IS NOT DISTINCT FROM r` too, with a mark on the *join* that NULLs are equal. Its other rules then add and merge keys
/// of both kinds under one mark. Here such a conjunct stays what it is, and lowering makes a key of it.
#[derive(Debug)]
pub(super) struct Equalities;

impl OptimizerRule for Equalities {
    fn name(&self) -> &str {
        "equalities"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(Join { filter: Some(condition), .. }) = &plan else { return Ok(Transformed::no(plan)) };
        let conjuncts = split_conjunction_owned(condition.clone());
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let (before, mut rest) = (join.on.len(), vec![]);
        for conjunct in conjuncts {
            let pair = match &conjunct {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    find_valid_equijoin_key_pair(left, right, join.left.schema(), join.right.schema())?
                }
                _ => None,
            };
            match pair {
                Some(pair) => join.on.push(pair),
                None => rest.push(conjunct),
            }
        }
        let found = join.on.len() > before;
        join.filter = conjunction(rest);
        Ok(if found { Transformed::yes(LogicalPlan::Join(join)) } else { Transformed::no(LogicalPlan::Join(join)) })
    }
}
