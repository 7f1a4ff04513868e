//! SUM of integers and decimals, without wrapping around.
//!
//! DataFusion's accumulator adds in the type of the result and wraps. Here the addends are added in 128 bits and the
//! total is checked against its type, so whether a sum overflows depends on the total alone, not on the order of the
//! rows or on a total on the way there.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::display::readable_type;

/// What a SUM adds up, ready for the sum of any range of it.
#[derive(Debug)]
pub(super) struct Addends {
    values: Values,
    total: DataType,
}

#[derive(Debug)]
enum Values {
    /// The sum and the number of the addends before each position: a range is a difference of two.
    All(Vec<(i128, usize)>),
    /// Equal addends count once, which no difference tells.
    Distinct(Vec<Option<i128>>),
}

impl Addends {
    /// The addends of a SUM over `argument`, if it is a SUM of integers or decimals.
    pub(super) fn of(function: &AggregateFunctionExpr, argument: &ArrayRef) -> Result<Option<Self>> {
        let total = function.field().data_type().clone();
        if function.fun().name() != "sum" {
            return Ok(None);
        }
        let values: Vec<Option<i128>> = match (&total, argument.data_type()) {
            (DataType::Int64, _) => cast(argument, &total)?.as_primitive::<Int64Type>().iter().map(|v| v.map(i128::from)).collect(),
            (DataType::UInt64, _) => cast(argument, &total)?.as_primitive::<UInt64Type>().iter().map(|v| v.map(i128::from)).collect(),
            (DataType::Decimal128(_, to), DataType::Decimal128(_, from)) if to == from => {
                argument.as_primitive::<Decimal128Type>().iter().collect()
            }
            _ => return Ok(None),
        };
        let values = match function.is_distinct() {
            true => Values::Distinct(values),
            false => Values::All(running(&values).ok_or_else(|| overflow(&total))?),
        };
        Ok(Some(Addends { values, total }))
    }

    /// The sum of a range of the addends; NULL of nothing.
    pub(super) fn sum(&self, range: Range<usize>) -> Result<ScalarValue> {
        let sum = match &self.values {
            Values::All(running) => {
                let ((from, before), (to, after)) = (running[range.start], running[range.end]);
                if before == after { Some(None) } else { to.checked_sub(from).map(Some) }
            }
            Values::Distinct(values) => {
                let distinct: HashSet<i128> = values[range].iter().flatten().copied().collect();
                let sum = distinct.iter().try_fold(0i128, |sum, value| sum.checked_add(*value));
                if distinct.is_empty() { Some(None) } else { sum.map(Some) }
            }
        };
        self.finish(sum.ok_or_else(|| overflow(&self.total))?)
    }

    /// The sum and the number of the first addends, and of all before them, of which there were `base`. They are not distinct.
    pub(super) fn after(&self, (sum, count): (i128, usize), addends: usize) -> Result<(i128, usize)> {
        let Values::All(running) = &self.values else {
            return Err(DataFusionError::Internal("distinct addends have no running total".into()));
        };
        let (more, further) = running[addends];
        Ok((sum.checked_add(more).ok_or_else(|| overflow(&self.total))?, count + further))
    }

    /// The value of a sum of so many addends; NULL of none.
    pub(super) fn value(&self, (sum, count): (i128, usize)) -> Result<ScalarValue> {
        self.finish((count > 0).then_some(sum))
    }

    /// The sum of all the addends.
    pub(super) fn total(&self) -> Result<ScalarValue> {
        self.sum(
            0..match &self.values {
                Values::All(running) => running.len() - 1,
                Values::Distinct(values) => values.len(),
            },
        )
    }

    fn finish(&self, sum: Option<i128>) -> Result<ScalarValue> {
        let Some(value) = sum else { return ScalarValue::try_from(&self.total) };
        let fitting = match self.total {
            DataType::Int64 => i64::try_from(value).ok().map(ScalarValue::from),
            DataType::UInt64 => u64::try_from(value).ok().map(ScalarValue::from),
            DataType::Decimal128(precision, scale) => {
                let valid = value.unsigned_abs() < 10u128.pow(u32::from(precision));
                valid.then_some(ScalarValue::Decimal128(sum, precision, scale))
            }
            _ => None,
        };
        fitting.ok_or_else(|| overflow(&self.total))
    }
}

/// Sums and counts of the values before each position, and of all; None if a sum does not fit in 128 bits.
fn running(values: &[Option<i128>]) -> Option<Vec<(i128, usize)>> {
    let mut running = Vec::with_capacity(values.len() + 1);
    let (mut sum, mut count) = (0i128, 0);
    running.push((sum, count));
    for value in values {
        sum = sum.checked_add(value.unwrap_or(0))?;
        count += usize::from(value.is_some());
        running.push((sum, count));
    }
    Some(running)
}

fn overflow(total: &DataType) -> DataFusionError {
    DataFusionError::Execution(format!("the sum is out of the range of {}", readable_type(total)))
}
