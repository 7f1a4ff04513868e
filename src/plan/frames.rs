//! How far the frames of window functions reach in time.
//!
//! In RANGE frames of intervals on both sides the value at a row is made of rows that are near to it in time. So a row that is
//! farther back than that from all rows whose values can still change matters to nobody.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_physical_expr::window::StandardWindowExpr;

use super::moments::months_and_nanoseconds;
use super::{Arrangement, Column, DAY, MILLISECOND, Reach, Scope, WindowFunction};
use crate::eval::{WindowAggregate, is_fallible};

/// Milliseconds by which the rows of a frame come at most before and after its own row; never less than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub before: i64,
    pub after: i64,
}

/// The span of the frames of all these functions over rows in the order of `time`; None where one is made of other rows, too.
pub(super) fn span(functions: &[WindowFunction], time: &Column) -> Option<Span> {
    let is_in_utc = match &time.data_type {
        DataType::Date32 | DataType::Timestamp(_, None) => true,
        DataType::Timestamp(_, Some(zone)) => &**zone == "+00:00",
        _ => false,
    };
    // Where NULL comes first, what is over is at the front.
    if !is_in_utc || time.sort.descending || !time.sort.nulls_first {
        return None;
    }
    let wider = |one: Span, other: Span| Span { before: one.before.max(other.before), after: one.after.max(other.after) };
    functions.iter().map(of_function).reduce(|one, other| Some(wider(one?, other?)))?
}

fn of_function(function: &WindowFunction) -> Option<Span> {
    let frame: &WindowFrame = function.expr.get_window_frame();
    if function.reach != Reach::Frame || frame.units != WindowFrameUnits::Range {
        return None;
    }
    let before = match &frame.start_bound {
        WindowFrameBound::Preceding(by) => longest(by)?,
        WindowFrameBound::CurrentRow | WindowFrameBound::Following(_) => 0,
    };
    let after = match &frame.end_bound {
        WindowFrameBound::Following(by) => longest(by)?,
        WindowFrameBound::CurrentRow | WindowFrameBound::Preceding(_) => 0,
    };
    Some(Span { before, after })
}

/// The most milliseconds that an interval has, if it is one and does not go back.
fn longest(interval: &ScalarValue) -> Option<i64> {
    let (months, nanoseconds) = months_and_nanoseconds(interval)?;
    let all = i128::from(months) * 31 * DAY + nanoseconds;
    let milliseconds = -(-all).div_euclid(MILLISECOND);
    i64::try_from(milliseconds).ok().filter(|_| months >= 0 && nanoseconds >= 0)
}

/// Whether there is a row on which one of the functions fails.
pub(super) fn can_fail(functions: &[WindowFunction]) -> bool {
    const TOTAL: &[&str] =
        &["count", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "first_value", "last_value", "nth_value"];
    functions.iter().any(|function| {
        let Some(expr) = function.expr.as_any().downcast_ref::<StandardWindowExpr>() else { return true };
        let function_of_frame = expr.get_standard_func_expr();
        let aggregate = function_of_frame.as_any().downcast_ref::<WindowAggregate>().map(WindowAggregate::function);
        let name = aggregate.map_or(function_of_frame.name(), |aggregate| aggregate.fun().name());
        // Doubles have infinity.
        let is_sum_of_doubles = matches!(name, "sum" | "avg") && function.column.data_type == DataType::Float64;
        let is_total = is_sum_of_doubles || aggregate.is_some() && TOTAL.contains(&name);
        !is_total || function_of_frame.expressions().iter().any(is_fallible)
    })
}

/// How many milliseconds after its time the value at a row of a partition changes no more, where rows are forgotten one by one.
pub fn stands_after(input: &Arrangement, functions: &[WindowFunction]) -> Option<i64> {
    let (retention, closes) = (input.retention?, input.closes()?);
    let span = span(functions, input.input.row().columns.get(input.key)?)?;
    (retention.scope == Scope::Row && closes.column == input.key).then(|| closes.after.saturating_sub(span.before))
}
