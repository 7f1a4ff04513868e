//! The last step of an aggregate: from sums to a column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};

use crate::error::{Error, Result};
use crate::plan::Finish;
use crate::row::{SlotLayout, Sums, of_ranks};

/// The values of a part, over a number of states.
pub enum Values {
    /// Sums, which a [`Finish`] turns into values.
    Sums(SlotLayout, Vec<Sums>),
    /// Values that are finished, and the states of which they could not be given, each with the reason.
    Columns(Vec<ArrayRef>, Vec<(usize, String)>),
}

impl Values {
    /// One value a state. A state whose value cannot be given (a sum out of its type's range) is noted in `failed`.
    pub fn finish(&self, finish: &Finish, field: &Field, states: usize, failed: &mut [Option<String>]) -> Result<ArrayRef> {
        match (self, finish) {
            (Values::Columns(columns, absent), Finish::Value(value)) => {
                absent.iter().for_each(|(state, reason)| failed[*state] = Some(reason.clone()));
                Ok(cast(&columns[*value], field.data_type())?)
            }
            (Values::Sums(layout, sums), finish) => {
                debug_assert_eq!(sums.len(), states);
                SumFinisher { layout, sums, field }.finish(finish, failed)
            }
            _ => Err(Error::invalid(format!("{} cannot be finished from a row", field.name()))),
        }
    }
}

struct SumFinisher<'a> {
    layout: &'a SlotLayout,
    sums: &'a [Sums],
    field: &'a Field,
}

impl SumFinisher<'_> {
    fn finish(&self, finish: &Finish, failed: &mut [Option<String>]) -> Result<ArrayRef> {
        let count = |sums: &Sums, sum: usize| self.layout.count(sums, sum);
        let array: ArrayRef = match *finish {
            Finish::Value(value) => Arc::new(Int64Array::from_iter_values(self.sums.iter().map(|sums| count(sums, value)))),
            Finish::All { trues, count: all } => {
                self.booleans(|sums| (count(sums, all) > 0).then(|| count(sums, trues) == count(sums, all)))
            }
            Finish::Any { trues, count: all } => self.booleans(|sums| (count(sums, all) > 0).then(|| count(sums, trues) > 0)),
            Finish::SumOrNull { sum, count: all } => self.numbers(sum, all, false, failed)?,
            Finish::Average { sum, count: all } => self.numbers(sum, all, true, failed)?,
            Finish::Extreme { value, count: all } => {
                let ranks = self.sums.iter().map(|sums| (count(sums, all) > 0).then(|| self.layout.rank(sums, value)));
                of_ranks(ranks, self.field.data_type())?
            }
            Finish::Variance { sum, squares, count: all, sample, root } => self.doubles(|sums| {
                let count = count(sums, all);
                if count < 1 + i64::from(sample) {
                    return None;
                }
                let variance = self.layout.digits(sums, sum).variance(&self.layout.digits(sums, squares), count, sample);
                Some(if root { variance.sqrt() } else { variance })
            }),
        };
        Ok(if array.data_type() == self.field.data_type() { array } else { cast(&array, self.field.data_type())? })
    }

    fn booleans(&self, value: impl Fn(&Sums) -> Option<bool>) -> ArrayRef {
        Arc::new(BooleanArray::from_iter(self.sums.iter().map(value)))
    }

    fn doubles(&self, value: impl Fn(&Sums) -> Option<f64>) -> ArrayRef {
        Arc::new(Float64Array::from_iter(self.sums.iter().map(value)))
    }

    /// A sum or a mean, in the output's type, NULL of nothing.
    fn numbers(&self, sum: usize, count: usize, mean: bool, failed: &mut [Option<String>]) -> Result<ArrayRef> {
        let layout = self.layout;
        let some = |sums: &Sums| Some(layout.count(sums, count)).filter(|count| *count > 0);
        let float = layout.is_float(sum);
        Ok(match self.field.data_type() {
            DataType::Float64 | DataType::Float32 => self.doubles(|sums| {
                let count = some(sums)?;
                Some(match (float, mean) {
                    (true, true) => layout.digits(sums, sum).mean(count),
                    (true, false) => layout.digits(sums, sum).to_f64(),
                    (false, true) => layout.integer_mean(sums, sum, count),
                    (false, false) => layout.integer(sums, sum).map_or_else(|| layout.integer_digits(sums, sum).to_f64(), |sum| sum as f64),
                })
            }),
            DataType::UInt64 => {
                let values = self.integers(sum, some, failed, |value, _| u64::try_from(value).ok());
                Arc::new(UInt64Array::from(values))
            }
            DataType::Decimal128(precision, scale) => {
                let limit = 10i128.pow(u32::from(*precision));
                let within = |value: i128| Some(value).filter(|value| value.abs() < limit);
                let values = if mean {
                    let places = 10i128.pow(u32::from(scale.saturating_sub(layout.scale(sum)).unsigned_abs()));
                    let mean = |value: i128, count| value.checked_mul(places).map(|value| value / i128::from(count));
                    self.integers(sum, some, failed, |value, count| mean(value, count).and_then(within))
                } else {
                    self.integers(sum, some, failed, |value, _| within(value))
                };
                Arc::new(Decimal128Array::from(values).with_precision_and_scale(*precision, *scale)?)
            }
            _ => Arc::new(Int64Array::from(self.integers(sum, some, failed, |value, _| i64::try_from(value).ok()))),
        })
    }

    /// Sums made into values of the output's type; where one does not fit, its state has failed. A mean of decimals is cut
    /// off, not rounded, as DataFusion's is.
    fn integers<T>(
        &self,
        sum: usize,
        some: impl Fn(&Sums) -> Option<i64>,
        failed: &mut [Option<String>],
        narrow: impl Fn(i128, i64) -> Option<T>,
    ) -> Vec<Option<T>> {
        let value = |(sums, failed): (&Sums, &mut Option<String>)| {
            let count = some(sums)?;
            let value = self.layout.integer(sums, sum).and_then(|value| narrow(value, count));
            if value.is_none() {
                *failed =
                    Some(format!("{}: out of the range of its type {}", self.field.name(), crate::text::type_name(self.field.data_type())));
            }
            value
        };
        self.sums.iter().zip(failed).map(value).collect()
    }
}
