//! How far apart the times in two columns of a row can be, by the conditions that the row has passed.
//!
//! `a.ts BETWEEN b.ts - i AND b.ts + j`, or the same as comparisons, in any order and with the intervals on either side.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, Literal};

use super::lag::recast;
use super::{RowType, Scalar, Step};

/// The time in column `to` is at most so many milliseconds (which may be negative) after the one in column `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Distance {
    pub from: usize,
    pub to: usize,
    pub at_most: i64,
}

/// A column, moved by so many nanoseconds.
pub(super) type Moved = (usize, i128);

pub(super) const MILLISECOND: i128 = 1_000_000;

/// The distances between the columns of `row` that rows keep which pass the filters among the first steps.
pub(super) fn distances(steps: &[Step], row: &RowType) -> Vec<Distance> {
    // Where each column at hand was before any step.
    let mut places: Vec<Option<usize>> = (0..row.len()).map(Some).collect();
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Filter(predicate) => gather(predicate, &places, row, &mut found),
            Step::Project(items) => {
                let place = |scalar: &Scalar| places[scalar.downcast_ref::<ColumnExpr>()?.index()];
                places = items.iter().map(|(scalar, _)| place(scalar)).collect();
            }
            Step::Unnest { .. } => break,
        }
    }
    found
}

fn gather(predicate: &Scalar, places: &[Option<usize>], row: &RowType, found: &mut Vec<Distance>) {
    let Some(binary) = predicate.downcast_ref::<BinaryExpr>() else { return };
    let (left, right) = (binary.left(), binary.right());
    let mut at_most = |smaller: &Scalar, greater: &Scalar| {
        let (Some((to, by)), Some((from, after))) = (moved(smaller, places), moved(greater, places)) else { return };
        found.push(Distance { from, to, at_most: milliseconds(after - by, [from, to].map(|column| &row.columns[column].data_type)) });
    };
    match binary.op() {
        Operator::And => {
            gather(left, places, row, found);
            gather(right, places, row, found);
        }
        Operator::LtEq | Operator::Lt => at_most(left, right),
        Operator::GtEq | Operator::Gt => at_most(right, left),
        Operator::Eq => {
            at_most(left, right);
            at_most(right, left);
        }
        _ => {}
    }
}

/// A distance of nanoseconds, as that of the milliseconds that times of these types are in.
fn milliseconds(nanoseconds: i128, types: [&DataType; 2]) -> i64 {
    let is_whole = |data_type: &DataType| matches!(data_type, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _));
    let rounded = -(-nanoseconds).div_euclid(MILLISECOND);
    let rounded = if types.into_iter().all(is_whole) { rounded } else { rounded + 1 };
    i64::try_from(rounded).unwrap_or(if rounded > 0 { i64::MAX } else { i64::MIN })
}

/// A column that is moved by intervals which do not change.
pub(super) fn moved(scalar: &Scalar, places: &[Option<usize>]) -> Option<Moved> {
    if let Some(column) = scalar.downcast_ref::<ColumnExpr>() {
        return Some((places[column.index()]?, 0));
    }
    if let Some(time) = recast(scalar) {
        return moved(time, places);
    }
    let binary = scalar.downcast_ref::<BinaryExpr>()?;
    match binary.op() {
        Operator::Plus => match (moved(binary.left(), places), interval(binary.right())) {
            (Some((column, by)), Some(more)) => Some((column, by + more)),
            _ => {
                let (column, by) = moved(binary.right(), places)?;
                Some((column, by + interval(binary.left())?))
            }
        },
        Operator::Minus => {
            let (column, by) = moved(binary.left(), places)?;
            Some((column, by - interval(binary.right())?))
        }
        _ => None,
    }
}

/// An interval of a fixed length, in nanoseconds.
fn interval(scalar: &Scalar) -> Option<i128> {
    const DAY: i128 = 86_400_000 * MILLISECOND;
    match scalar.downcast_ref::<Literal>()?.value() {
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            Some(i128::from(interval.days) * DAY + i128::from(interval.nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            Some(i128::from(interval.days) * DAY + i128::from(interval.milliseconds) * MILLISECOND)
        }
        _ => None,
    }
}
