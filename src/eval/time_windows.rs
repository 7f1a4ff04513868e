//! Windows of time: which ones a time is in, as scalar functions with the window's figures in them.
//!
//! A window is a half-open interval of whole milliseconds, `[start, end)`, and contains a time if `start <= time < end`.
//! Windows are aligned to `offset` milliseconds after the epoch, times before the epoch included: all division here rounds
//! down. A time in microseconds or nanoseconds is in the windows of its millisecond. A TIMESTAMP is a reading of a clock
//! on a wall, so a day of windows has 24 hours whatever a zone does to it; one with a zone is an instant, windowed in UTC.
//!
//! No argument is out of a domain: NULL is in no window, and a sum that the type cannot hold (millions of years away) is
//! the last one that it can.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, TimestampMillisecondArray, TimestampMillisecondBuilder};
use arrow::datatypes::{
    DataType, Field, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::ScalarFunctionExpr;

use crate::plan::Scalar;
use crate::sql::duration::format_duration;

/// A function of a time, which gives TIMESTAMP(3)s. Figures are milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeWindow {
    /// The first instant of the window of `size` that the time is in, plus `shift`: with `shift = size` it is the end.
    Tumble { size: i64, offset: i64, shift: i64 },
    /// The time, plus `shift`.
    Shift { shift: i64 },
    /// The starts of all windows of `size`, one of which begins every `slide`, that the time is in.
    Starts { slide: i64, size: i64, offset: i64 },
    /// The ends, every `step` from the start of the window of `size` that the time is in, that come after it.
    Ends { step: i64, size: i64, offset: i64 },
}

impl TimeWindow {
    /// A call of it on a time.
    pub fn call(self, time: Expr) -> Expr {
        self.of_zone(None).call(vec![time])
    }

    /// The function, its values of this zone.
    pub fn of_zone(self, zone: Option<Arc<str>>) -> ScalarUDF {
        ScalarUDF::new_from_impl(TimeWindowFunction { window: self, zone, signature: Signature::any(1, Volatility::Immutable) })
    }

    /// The function that `scalar` calls and its argument, if it calls one.
    pub fn of(scalar: &Scalar) -> Option<(TimeWindow, &Scalar)> {
        let function = scalar.downcast_ref::<ScalarFunctionExpr>()?;
        let inner = (function.fun().inner().as_ref() as &dyn Any).downcast_ref::<TimeWindowFunction>()?;
        Some((inner.window, function.args().first()?))
    }

    fn name(&self) -> &'static str {
        match self {
            TimeWindow::Tumble { .. } => "tumble",
            TimeWindow::Shift { .. } => "shift",
            TimeWindow::Starts { .. } => "hop",
            TimeWindow::Ends { .. } => "cumulate",
        }
    }

    /// A call of it on `argument`, as EXPLAIN shows it.
    pub fn readable(&self, argument: &str) -> String {
        let duration = |ms: i64| match ms {
            0.. => format_duration(ms as u64),
            _ => format!("-{}", format_duration(ms.unsigned_abs())),
        };
        let [figures @ .., offset] = match *self {
            TimeWindow::Tumble { size, offset, .. } => [None, Some(size), Some(offset)],
            TimeWindow::Shift { shift } => [None, Some(shift), None],
            TimeWindow::Starts { slide, size, offset } => [Some(slide), Some(size), Some(offset)],
            TimeWindow::Ends { step, size, offset } => [Some(step), Some(size), Some(offset)],
        };
        let figures = figures.into_iter().flatten().chain(offset.filter(|offset| *offset != 0));
        let call = figures.fold(format!("{}({argument}", self.name()), |text, figure| text + ", " + &duration(figure)) + ")";
        match *self {
            TimeWindow::Tumble { shift, .. } if shift > 0 => format!("{call} + {}", duration(shift)),
            _ => call,
        }
    }

    /// The one value that it gives of a time.
    fn value(&self, time: i64) -> i64 {
        match *self {
            TimeWindow::Tumble { size, offset, shift } => aligned(time, size, offset).saturating_add(shift),
            TimeWindow::Shift { shift } => time.saturating_add(shift),
            TimeWindow::Starts { .. } | TimeWindow::Ends { .. } => unreachable!("it gives a list"),
        }
    }

    /// The values that it gives of a time, if it gives a list of them, in ascending order.
    fn values(&self, time: i64) -> impl Iterator<Item = i64> {
        let (first, last, step) = match *self {
            TimeWindow::Starts { slide, size, offset } => {
                // The first start after `time - size`, if that is not past `time`.
                let before = aligned(time.saturating_sub(size), slide, offset);
                (before.saturating_add(slide), time, slide)
            }
            TimeWindow::Ends { step, size, offset } => {
                let start = aligned(time, size, offset);
                let passed = (time.saturating_sub(start)) / step * step;
                (start.saturating_add(passed).saturating_add(step), start.saturating_add(size), step)
            }
            TimeWindow::Tumble { .. } | TimeWindow::Shift { .. } => unreachable!("it gives one value"),
        };
        std::iter::successors(Some(first), move |value| value.checked_add(step)).take_while(move |value| *value <= last)
    }

    fn is_list(&self) -> bool {
        matches!(self, TimeWindow::Starts { .. } | TimeWindow::Ends { .. })
    }
}

/// The greatest number up to `time` that is `offset` plus a multiple of `size`.
fn aligned(time: i64, size: i64, offset: i64) -> i64 {
    let past = (i128::from(time) - i128::from(offset)).rem_euclid(i128::from(size));
    time.saturating_sub(past as i64)
}

/// A [`TimeWindow`] as DataFusion calls it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeWindowFunction {
    window: TimeWindow,
    zone: Option<Arc<str>>,
    signature: Signature,
}

impl TimeWindowFunction {
    fn element(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Millisecond, self.zone.clone())
    }
}

impl ScalarUDFImpl for TimeWindowFunction {
    fn name(&self) -> &str {
        self.window.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.window.is_list() {
            true => DataType::List(Arc::new(Field::new_list_field(self.element(), false))),
            false => self.element(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let times = milliseconds(&args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?)?;
        let made: ArrayRef = if self.window.is_list() {
            let values = TimestampMillisecondBuilder::new().with_data_type(self.element());
            let mut lists = ListBuilder::new(values).with_field(Field::new_list_field(self.element(), false));
            for time in &times {
                time.into_iter().for_each(|time| self.window.values(time).for_each(|value| lists.values().append_value(value)));
                lists.append(time.is_some());
            }
            Arc::new(lists.finish())
        } else {
            let made: TimestampMillisecondArray = times.unary(|time| self.window.value(time));
            Arc::new(made.with_timezone_opt(self.zone.clone()))
        };
        Ok(if is_scalar { ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?) } else { ColumnarValue::Array(made) })
    }
}

/// Times in whole milliseconds, rounded down.
fn milliseconds(times: &ArrayRef) -> Result<TimestampMillisecondArray> {
    Ok(match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => times.as_primitive::<TimestampSecondType>().unary(|time| time.saturating_mul(1_000)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => times.as_primitive::<TimestampMillisecondType>().clone(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            times.as_primitive::<TimestampMicrosecondType>().unary(|time| time.div_euclid(1_000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            times.as_primitive::<TimestampNanosecondType>().unary(|time| time.div_euclid(1_000_000))
        }
        other => return exec_err!("a window is one of times, not of {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts of the windows of `size`, one every `slide`, that contain `time`, by looking at all near it.
    fn starts_by_definition(time: i64, slide: i64, size: i64, offset: i64) -> Vec<i64> {
        (time - size - slide..=time).filter(|start| (start - offset) % slide == 0 && *start <= time && time < start + size).collect()
    }

    #[test]
    fn a_time_is_in_the_windows_whose_start_is_not_after_it_and_whose_end_is() {
        for time in -23..23 {
            for (slide, size) in [(1, 1), (5, 5), (2, 6), (3, 7), (7, 3), (4, 10)] {
                for offset in [-9, -1, 0, 1, 2, 13] {
                    let made: Vec<i64> = TimeWindow::Starts { slide, size, offset }.values(time).collect();
                    assert_eq!(made, starts_by_definition(time, slide, size, offset), "{time} every {slide} for {size} from {offset}");
                    let tumble = TimeWindow::Tumble { size, offset, shift: 0 }.value(time);
                    assert_eq!(vec![tumble], starts_by_definition(time, size, size, offset), "{time} for {size} from {offset}");
                }
            }
        }
    }

    #[test]
    fn windows_that_cumulate_end_at_each_step_after_a_time_up_to_the_size() {
        for time in -23..23 {
            for (step, size) in [(1, 1), (2, 6), (5, 5), (3, 12)] {
                for offset in [-1, 0, 4] {
                    let start = starts_by_definition(time, size, size, offset)[0];
                    let expected: Vec<i64> = (1..=size / step).map(|n| start + n * step).filter(|end| *end > time).collect();
                    let made: Vec<i64> = TimeWindow::Ends { step, size, offset }.values(time).collect();
                    assert_eq!(made, expected, "{time} every {step} up to {size} from {offset}");
                }
            }
        }
    }

    #[test]
    fn a_time_at_the_ends_of_its_type_has_a_window() {
        for time in [i64::MIN, i64::MAX] {
            let value = TimeWindow::Tumble { size: 7, offset: 3, shift: 7 }.value(time);
            assert!(value.abs_diff(time) <= 7);
            assert!(TimeWindow::Starts { slide: 2, size: 6, offset: 1 }.values(time).count() <= 3);
            assert!(TimeWindow::Ends { step: 2, size: 6, offset: 1 }.values(time).count() <= 3);
        }
    }

    #[test]
    fn a_time_between_two_milliseconds_before_the_epoch_is_in_the_earlier_one() {
        let micros: ArrayRef = Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![Some(-1), Some(1_999), None]));
        assert_eq!(milliseconds(&micros).unwrap(), TimestampMillisecondArray::from(vec![Some(-1), Some(1), None]));
    }
}
