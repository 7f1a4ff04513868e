//! The frames of OVER windows, as they are written.
//!
//! DataFusion takes a bare number before a time to be months, and lets bounds be negative, which turns a frame inside out. Both
//! are refused here, while bounds are still the text that was written.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits};

use super::errors::{planning, through};
use crate::error::{Error, Result};

/// # Errors
/// [`Error::Invalid`] for a RANGE whose bounds are negative, or are no intervals though times are in order.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    let checked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Window(window) = node {
            for expr in &window.window_expr {
                expr.apply(|part| {
                    if let Expr::WindowFunction(function) = part {
                        let of_time = |by: &Expr| by.get_type(window.input.schema()).is_ok_and(|by| is_time(&by));
                        let is_time = function.params.order_by.first().is_some_and(|by| of_time(&by.expr));
                        check_function(function, is_time).map_err(through)?;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    checked.map(|_| ()).map_err(planning)
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_))
}

fn check_function(function: &WindowFunction, is_time: bool) -> Result<()> {
    let frame = &function.params.window_frame;
    if frame.units != WindowFrameUnits::Range {
        return Ok(());
    }
    for (bound, way) in [&frame.start_bound, &frame.end_bound].into_iter().filter_map(offset) {
        let name = function.fun.name();
        let interval = || match bound.split_once(' ') {
            Some((number, unit)) => format!("INTERVAL '{number}' {unit}"),
            None => bound.to_owned(),
        };
        if bound.trim_start().starts_with('-') {
            let turned = if way == "PRECEDING" { "FOLLOWING" } else { "PRECEDING" };
            let bound = interval();
            return Err(Error::invalid(format!(
                "the frame of {name} has a negative bound, {bound} {way}: what lies on the other side of the row is {} {turned}",
                bound.replacen('-', "", 1)
            )));
        }
        if is_time && bound.trim().parse::<f64>().is_ok() {
            return Err(Error::invalid(format!(
                "the frame of {name} is over a time, and {bound} {way} says no unit: write INTERVAL '{bound}' SECOND {way}, say"
            )));
        }
    }
    Ok(())
}

/// How far from the row a bound is, as it was written, and on which side.
fn offset(bound: &WindowFrameBound) -> Option<(&str, &'static str)> {
    let (offset, way) = match bound {
        WindowFrameBound::Preceding(offset) => (offset, "PRECEDING"),
        WindowFrameBound::Following(offset) => (offset, "FOLLOWING"),
        WindowFrameBound::CurrentRow => return None,
    };
    match offset {
        ScalarValue::Utf8(Some(text)) => Some((text, way)),
        _ => None,
    }
}
