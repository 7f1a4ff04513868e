//! Functions whose value is not the row's alone: those of engine time, and volatile ones.
//!
//! NOW() and its kin are the instant a query is asked at. In a result that is kept up to date their value changes with
//! nothing in the data changing: there they stay, and lowering solves the conditions that they are in. A function that
//! gives another value each time is refused there.

use datafusion_common::DFSchema;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::expr_rewriter::FunctionRewrite;
use datafusion_expr::{Expr, LogicalPlan, Volatility};

use super::Purpose;
use super::errors::through;
use crate::error::Error;
use crate::sql::functions::EngineTime;

/// Puts the instant in the place of functions of engine time, where there is one.
#[derive(Debug)]
pub(super) struct Instants(pub Purpose);

impl FunctionRewrite for Instants {
    fn name(&self) -> &str {
        "instants"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> datafusion_common::Result<Transformed<Expr>> {
        let Expr::ScalarFunction(ScalarFunction { func, .. }) = &expr else { return Ok(Transformed::no(expr)) };
        match (EngineTime::of(func), self.0) {
            (Some(time), Purpose::Once { now }) => Ok(Transformed::yes(Expr::Literal(time.instant.at(now), None))),
            (None, Purpose::Maintain) if func.signature().volatility == Volatility::Volatile => {
                let name = func.name().to_uppercase();
                Err(through(Error::unsupported(format!("{name}() in a result that is kept up to date: it is another value each time"))))
            }
            _ => Ok(Transformed::no(expr)),
        }
    }
}

/// Whether a query asks what time it is, by NOW() and the like.
pub(super) fn asks(plan: &LogicalPlan) -> datafusion_common::Result<bool> {
    let is_time = |expr: &Expr| Ok(matches!(expr, Expr::ScalarFunction(function) if EngineTime::of(&function.func).is_some()));
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.exists(is_time)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}
