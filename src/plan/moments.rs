//! The units of moments: which type holds a moment that has moved.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::ScalarValue;

use super::{DAY, MILLISECOND};
use crate::text::per_second;

const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

/// The calendar months of a constant interval, and the nanoseconds of its days and what is less; None of what is no interval.
pub fn months_and_nanoseconds(interval: &ScalarValue) -> Option<(i32, i128)> {
    Some(match interval {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            (interval.months, i128::from(interval.days) * DAY + i128::from(interval.nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            (0, i128::from(interval.days) * DAY + i128::from(interval.milliseconds) * MILLISECOND)
        }
        ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0),
        _ => return None,
    })
}

/// The coarsest type that holds every moment of a DATE or TIMESTAMP type moved by this interval; None if that is the type
/// itself, and of other types. Months and days move all of them.
pub fn finer_type(moment: &DataType, interval: &ScalarValue) -> Option<DataType> {
    let nanoseconds = match interval {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => interval.nanoseconds,
        ScalarValue::IntervalDayTime(Some(interval)) => i64::from(interval.milliseconds) * 1_000_000,
        _ => 0,
    };
    if nanoseconds == 0 {
        return None;
    }
    let holds = |unit: &TimeUnit| nanoseconds % (per_second(TimeUnit::Nanosecond) / per_second(*unit)) == 0;
    finer_unit(moment, UNITS.into_iter().find(holds).unwrap_or(TimeUnit::Nanosecond))
}

/// The type of the moments of a DATE or TIMESTAMP type in `unit`; None where it holds them itself, and of other types.
pub fn finer_unit(moment: &DataType, unit: TimeUnit) -> Option<DataType> {
    match moment {
        DataType::Timestamp(own, zone) => (per_second(unit) > per_second(*own)).then(|| DataType::Timestamp(unit, zone.clone())),
        DataType::Date32 => Some(DataType::Timestamp(unit, None)),
        _ => None,
    }
}
