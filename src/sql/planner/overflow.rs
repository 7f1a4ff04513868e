//! Constants that are too large.
//!
//! DataFusion computes an expression of constants when it plans, in integers that wrap around. So before it does, this
//! rule computes them in integers that do not, and refuses what does not fit. (What depends on a row is checked when the
//! row is there: see [`eval::checked`].)

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError, Result};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use super::errors::through;
use crate::error::Error;
use crate::eval;
use crate::plan::RowType;
use crate::plan::lower::scalar;

/// See the module.
#[derive(Debug)]
pub(super) struct ConstantOverflow;

impl OptimizerRule for ConstantOverflow {
    fn name(&self) -> &str {
        "constant_overflow"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                check(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(Transformed::no(plan))
    }
}

/// # Errors
/// An [`Error::Invalid`] that names the largest part of `expr` that is constant and overflows.
pub(super) fn check(expr: &Expr) -> Result<()> {
    expr.apply(|node| {
        let is_arithmetic = matches!(
            node,
            Expr::Negative(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Plus | Operator::Minus | Operator::Multiply, .. })
        );
        if !is_arithmetic || !is_constant(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        match overflow(node)? {
            None => Ok(TreeNodeRecursion::Jump),
            Some(error) => Err(through(error)),
        }
    })?;
    Ok(())
}

/// Whether `expr` is made of literals by operators, casts and nothing else.
fn is_constant(expr: &Expr) -> bool {
    let other = |node: &Expr| {
        !matches!(node, Expr::Literal(..) | Expr::Negative(_) | Expr::BinaryExpr(_) | Expr::Cast(_) | Expr::TryCast(_) | Expr::Alias(_))
    };
    !expr.exists(|node| Ok(other(node))).unwrap_or(true)
}

fn overflow(expr: &Expr) -> Result<Option<Error>> {
    let Ok(computed) = scalar(expr, &DFSchema::empty(), &RowType::new([])) else { return Ok(None) };
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row)?;
    Ok(match computed.evaluate(&row) {
        Err(error) if is_overflow(&error) => Some(eval::constant_failure(&computed, &error)),
        _ => None,
    })
}

fn is_overflow(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ArrowError(error, _) if matches!(**error, ArrowError::ArithmeticOverflow(_)))
}
