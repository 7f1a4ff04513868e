//! What type a number with a point has.
//!
//! DataFusion's planner reads `0.1` as a DECIMAL, so that `12345678901234567890.12` is that number and no other. It stays
//! one where that can be seen: standing alone (in VALUES, in SELECT, under a CAST), compared with an exact number, or
//! beside a DECIMAL. In any other expression it is the DOUBLE nearest to it: `a / 2.0` of a BIGINT has 16 digits, not the
//! four that a division of decimals keeps.
//!
//! A number with an exponent is a DOUBLE ([`super::prepare`] writes it as one).

use std::sync::Arc;

use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::{LogicalPlanBuilder, Projection, Union, Values};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion_optimizer::AnalyzerRule;

/// See the module.
#[derive(Debug)]
pub(super) struct ExactLiterals;

impl AnalyzerRule for ExactLiterals {
    fn name(&self) -> &str {
        "exact_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let node = match node {
                LogicalPlan::Values(values) => return Ok(Transformed::yes(settle_values(values)?)),
                LogicalPlan::Union(union) => settle_union(union)?,
                other => other,
            };
            with_expressions(node, settle).map(|settled| Transformed::yes(settled.data))
        })
        .data()
    }
}

/// `node` with what `change` makes of each of its expressions over the columns of its inputs, by the name that it had.
pub(super) fn with_expressions(
    node: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = DFSchema::empty();
    node.inputs().into_iter().for_each(|input| schema.merge(input.schema()));
    let names = NamePreserver::new(&node);
    let changed = node.map_expressions(|expr| {
        let name = names.save(&expr);
        change(expr, &schema)?.map_data(|expr| Ok(name.restore(expr)))
    })?;
    // A changed input may have changed what this node's columns are, too.
    changed.map_data(LogicalPlan::recompute_schema)
}

/// `expr` with every number of it as what it is there.
pub(super) fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| {
        let node = match has_exact_child(&node)? && !keeps_exact(&node, schema)? {
            true => node.map_children(|child| if is_exact(&child) { approximate(child) } else { Ok(Transformed::no(child)) })?.data,
            false => node,
        };
        compare_as_doubles(node, schema)
    })
}

/// A DECIMAL compared with a DOUBLE is compared as one: not every DOUBLE is a DECIMAL.
fn compare_as_doubles(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !compares(&expr) {
        return Ok(Transformed::no(expr));
    }
    let mut floating = false;
    expr.apply_children(|child| {
        floating |= child.get_type(schema)?.is_floating();
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !floating {
        return Ok(Transformed::no(expr));
    }
    expr.map_children(|child| match child.get_type(schema)?.is_decimal() {
        true => Ok(Transformed::yes(cast(child, DataType::Float64))),
        false => Ok(Transformed::no(child)),
    })
}

/// VALUES, in which a column with a DOUBLE in it is one of DOUBLEs.
fn settle_values(values: Values) -> Result<LogicalPlan> {
    let settled = values.values.into_iter().map(|row| row.into_iter().map(|cell| Ok(settle(cell, &values.schema)?.data)).collect());
    let mut rows = settled.collect::<Result<Vec<Vec<Expr>>>>()?;
    for (column, field) in values.schema.fields().iter().enumerate() {
        // The planner has cast all to one type, which is a DECIMAL if any is.
        let written = |cell: &Expr| match cell {
            Expr::Cast(cast) if cast.field.data_type() == field.data_type() => cast.expr.as_ref().clone(),
            other => other.clone(),
        };
        let cells = rows.iter().map(|row| written(&row[column]));
        let cells: Vec<Expr> = cells.collect();
        let mut floating = false;
        for cell in &cells {
            floating |= cell.get_type(&values.schema)?.is_floating();
        }
        if floating && field.data_type().is_decimal() {
            for (row, cell) in rows.iter_mut().zip(cells) {
                row[column] = if is_exact(&cell) { approximate(cell)?.data } else { cell };
            }
        }
    }
    LogicalPlanBuilder::values(rows)?.build()
}

/// A union, in which a number beside a column of DOUBLEs is a DOUBLE.
fn settle_union(union: Union) -> Result<LogicalPlan> {
    let mut inputs: Vec<LogicalPlan> = union.inputs.iter().map(|input| input.as_ref().clone()).collect();
    for column in 0..union.schema.fields().len() {
        let types = |input: &LogicalPlan| input.schema().fields().get(column).map(|field| field.data_type().clone());
        if inputs.iter().filter_map(types).any(|data_type| data_type.is_floating()) {
            inputs = inputs.into_iter().map(|input| approximate_column(input, column)).collect::<Result<_>>()?;
        }
    }
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.into_iter().map(Arc::new).collect())?))
}

fn approximate_column(plan: LogicalPlan, column: usize) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(mut projection) if column < projection.expr.len() => {
            let expr = &projection.expr[column];
            if !is_exact(&expr.clone().unalias()) {
                return Ok(LogicalPlan::Projection(projection));
            }
            let name = NamePreserver::new_for_projection().save(expr);
            projection.expr[column] = name.restore(approximate(expr.clone())?.data);
            Ok(LogicalPlan::Projection(Projection::try_new(projection.expr, projection.input)?))
        }
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.into_iter().map(|input| Ok(Arc::new(approximate_column(Arc::unwrap_or_clone(input), column)?)));
            Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?))
        }
        other => Ok(other),
    }
}

/// A number with a point, or a sum, difference or product of numbers with one among them.
fn is_exact(expr: &Expr) -> bool {
    is_number(expr) && expr.exists(|node| Ok(matches!(node, Expr::Literal(ScalarValue::Decimal128(Some(_), ..), _)))).unwrap_or(false)
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.data_type().is_integer() || matches!(value, ScalarValue::Decimal128(..)),
        Expr::Negative(inner) => is_number(inner),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus | Operator::Multiply, right }) => {
            is_number(left) && is_number(right)
        }
        _ => false,
    }
}

fn has_exact_child(expr: &Expr) -> Result<bool> {
    let mut found = false;
    expr.apply_children(|child| {
        found |= is_exact(child);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether the numbers among the operands of `expr` stay as they are written.
fn keeps_exact(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let compares = match expr {
        Expr::Alias(_) | Expr::Negative(_) => return Ok(true),
        Expr::Cast(cast) => return Ok(!cast.field.data_type().is_floating()),
        Expr::TryCast(cast) => return Ok(!cast.field.data_type().is_floating()),
        Expr::BinaryExpr(_) if is_exact(expr) => return Ok(true),
        _ => compares(expr),
    };
    let (mut others, mut exact, mut floating) = (0, 0, 0);
    expr.apply_children(|child| {
        if !is_exact(child) {
            let data_type = child.get_type(schema)?;
            others += 1;
            floating += usize::from(data_type.is_floating());
            exact += usize::from(data_type.is_decimal() || compares && data_type.is_integer());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(if compares { exact == others } else { exact > 0 && floating == 0 })
}

/// Whether `expr` compares its operands.
fn compares(expr: &Expr) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    match expr {
        Expr::BinaryExpr(binary) => matches!(binary.op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom),
        Expr::Between(_) | Expr::InList(_) => true,
        _ => false,
    }
}

/// The numbers in `expr` as the DOUBLEs nearest to them.
fn approximate(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| match node {
        Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), metadata) => {
            let text = Decimal128Type::format_decimal(value, precision, scale);
            let nearest = text.parse().map_or_else(|_| ScalarValue::Decimal128(Some(value), precision, scale), |double: f64| double.into());
            Ok(Transformed::yes(Expr::Literal(nearest, metadata)))
        }
        other => Ok(Transformed::no(other)),
    })
}
