//! Moments moved by less than their unit.
//!
//! `s + INTERVAL '500' MILLISECOND` of a TIMESTAMP(0) is half a second later, and `day + INTERVAL '1' HOUR` of a DATE is
//! an hour later: the moment that moves is first cast to the coarsest type that holds both. DataFusion would cut the
//! result to the type that was there, and the difference of two TIMESTAMP(6) to the unit of a TIMESTAMP(3) that it is
//! added to. (AT TIME ZONE gets its unit in the same pass: see [`super::zones`].) An interval whose length is not known when the query is planned moves a moment by whole units of the
//! moment's own type.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion_optimizer::AnalyzerRule;

use super::literals::with_expressions;
use super::zones;
use crate::plan::moments::{finer_type, finer_unit};
use crate::sql::functions::multiplied;

/// See the module.
#[derive(Debug)]
pub(super) struct FineMoments;

impl AnalyzerRule for FineMoments {
    fn name(&self) -> &str {
        "fine_moments"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            with_expressions(node, |expr, schema| zones::units(expr, schema)?.transform_data(|expr| refine(expr, schema)))
        })
        .data()
    }
}

/// `expr` with every moment in it that moves in a type that holds where it moves to.
pub(super) fn refine(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = node else {
            return Ok(Transformed::no(node));
        };
        let (left_as, right_as) = (finer(&left, &right, schema)?, finer(&right, &left, schema)?);
        let changes = left_as.is_some() || right_as.is_some();
        let cast_to = |operand: Box<Expr>, to: Option<DataType>| match to {
            Some(to) => Box::new(cast(*operand, to)),
            None => operand,
        };
        let moved = Expr::BinaryExpr(BinaryExpr { left: cast_to(left, left_as), op, right: cast_to(right, right_as) });
        Ok(if changes { Transformed::yes(moved) } else { Transformed::no(moved) })
    })
}

/// The type that holds `moment` moved `by` another operand, where it is not the moment's own.
fn finer(moment: &Expr, by: &Expr, schema: &DFSchema) -> Result<Option<DataType>> {
    let data_type = moment.get_type(schema)?;
    if !matches!(data_type, DataType::Timestamp(..) | DataType::Date32) {
        return Ok(None);
    }
    if let DataType::Duration(unit) = by.get_type(schema)? {
        return Ok(finer_unit(&data_type, unit));
    }
    Ok(interval(by).and_then(|interval| finer_type(&data_type, interval)))
}

/// The literal interval that `expr` is, or is whole times of.
fn interval(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Negative(of) => interval(of),
        Expr::Alias(alias) => interval(&alias.expr),
        // Whole times of it are moments of the same unit.
        _ => interval(multiplied(expr)?),
    }
}
