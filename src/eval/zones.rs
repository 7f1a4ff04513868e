//! Instants, and what the clocks of a zone show.
//!
//! `ts AT TIME ZONE 'X'` is an instant that carries a zone. Whatever reads its parts (a CAST to TIMESTAMP, DATE, TIME or
//! VARCHAR, EXTRACT, DATE_TRUNC, FLOOR, DATE_FORMAT) reads the clocks of that zone, and a TIMESTAMP, DATE or text that
//! becomes one, in AT TIME ZONE or beside one in a comparison, is what those clocks show.
//!
//! Where clocks are put forward some times are never shown, where they are put back some are shown twice. The rule is that
//! of RFC 5545, java.time and Flink: a skipped time is read with the offset before the change (02:30 is 03:30 of the new
//! time), and of a doubled one the first is meant. (PostgreSQL means the second.) Calendar days and months that are added
//! to an instant move what its clock shows; hours and less move the instant.
//!
//! Arrow's own casts show UTC where a TIMESTAMP is made, and fail at such times. With UTC itself there is nothing to do, so
//! those stay casts.

use std::any::Any;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::kernels::numeric::{add, sub};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{CastOptions, cast, cast_with_options, is_not_null};
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Schema};
use chrono::{DateTime, Offset, TimeZone};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions;

use crate::error::Error;
use crate::plan::Scalar;
use crate::text::per_second;

/// Whether a zone of this name is UTC.
pub fn is_utc(zone: &str) -> bool {
    matches!(zone, "+00:00" | "UTC" | "Z")
}

/// The zone of that name.
///
/// # Errors
/// [`Error::Invalid`] where there is none.
pub fn zone(name: &str) -> crate::error::Result<Tz> {
    name.parse().map_err(|_| {
        Error::invalid(format!(
            "there is no time zone '{name}': it is a name of the IANA database, as 'Europe/Berlin', or an offset, as '+02:00'"
        ))
    })
}

/// Whether a cast reads or sets a clock that does not show UTC.
pub fn changes_clock(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, LargeUtf8, Timestamp, Utf8, Utf8View};
    match (from, to) {
        (Timestamp(_, Some(zone)), Timestamp(_, None)) | (Timestamp(_, None), Timestamp(_, Some(zone))) => !is_utc(zone),
        (Date32 | Utf8 | LargeUtf8 | Utf8View, Timestamp(_, Some(zone))) => !is_utc(zone),
        _ => false,
    }
}

/// A zone's clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Tz);

impl Clock {
    pub fn of(zone_name: &str) -> Result<Self> {
        zone(zone_name).map(Clock).map_err(|error| exec_datafusion_err!("{error}"))
    }

    /// By how many seconds it is ahead of UTC at an instant, in seconds since the epoch; None outside of the calendar.
    fn offset(self, instant: i64) -> Option<i64> {
        let utc = DateTime::from_timestamp(instant, 0)?.naive_utc();
        Some(self.0.offset_from_utc_datetime(&utc).fix().local_minus_utc().into())
    }

    /// What it shows at an instant. Both are in units of which so many make a second; None where there is no such time.
    pub fn shown(self, instant: i64, per_second: i64) -> Option<i64> {
        instant.checked_add(self.offset(instant.div_euclid(per_second))?.checked_mul(per_second)?)
    }

    /// The instant that is meant by what it shows.
    pub fn instant(self, shown: i64, per_second: i64) -> Option<i64> {
        // No offset is a whole day, and no zone changes its clocks twice in two days.
        const DAY: i64 = 86_400;
        let seconds = shown.div_euclid(per_second);
        let (before, after) = (self.offset(seconds.checked_sub(DAY)?)?, self.offset(seconds.checked_add(DAY)?)?);
        let is_shown = |offset: i64| self.offset(seconds - offset) == Some(offset);
        let offset = if !is_shown(before) && is_shown(after) { after } else { before };
        shown.checked_sub(offset.checked_mul(per_second)?)
    }

    /// [`Self::instant`] of a time near another instant: of a doubled time the one with that instant's offset.
    pub fn instant_near(self, shown: i64, near: i64, per_second: i64) -> Option<i64> {
        let offset = self.offset(near.div_euclid(per_second))?;
        let same = shown.checked_sub(offset.checked_mul(per_second)?)?;
        if self.offset(same.div_euclid(per_second))? == offset { Some(same) } else { self.instant(shown, per_second) }
    }
}

/// The values of a column as another type, with what the clocks of their zones show.
///
/// # Errors
/// A value that the type does not hold, unless it is to be NULL then (`is_try`).
pub fn cast_values(values: &ArrayRef, to: &DataType, is_try: bool) -> Result<ArrayRef> {
    let options = CastOptions { safe: is_try, ..CastOptions::default() };
    match (values.data_type(), to) {
        (from, to) if !changes_clock(from, to) => Ok(cast_with_options(values, to, &options)?),
        (DataType::Timestamp(unit, Some(zone)), _) => {
            let clock = Clock::of(zone)?;
            let shown = each(values, &DataType::Timestamp(*unit, None), is_try, |instant| clock.shown(instant, per_second(*unit)))?;
            Ok(cast_with_options(&shown, to, &options)?)
        }
        (from, DataType::Timestamp(unit, Some(zone))) => {
            let clock = Clock::of(zone)?;
            let shown = cast_with_options(values, &DataType::Timestamp(*unit, None), &options)?;
            let instants = each(&shown, to, is_try, |shown| clock.instant(shown, per_second(*unit)))?;
            if !matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                return Ok(instants);
            }
            // A text may say an offset itself.
            let said = cast_with_options(values, to, &CastOptions::default())?;
            Ok(zip(&is_not_null(&said)?, &said, &instants)?)
        }
        (from, to) => internal_err!("no clock is changed from {from} to {to}"),
    }
}

/// What `value` makes of each of the TIMESTAMPs in a column, as a TIMESTAMP type of the same unit. NULL is NULL.
fn each(values: &ArrayRef, to: &DataType, is_try: bool, value: impl Fn(i64) -> Option<i64>) -> Result<ArrayRef> {
    let counts = cast(values, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    let beyond = || exec_datafusion_err!("a time beyond the calendar has no local time");
    let made: Int64Array = if is_try { counts.unary_opt(value) } else { counts.try_unary(|count| value(count).ok_or_else(beyond))? };
    Ok(cast(&made, to)?)
}

/// A cast of an expression to a type, which may change the clock.
///
/// # Errors
/// Types that cannot be cast.
pub fn cast_to(value: Scalar, schema: &Schema, to: DataType) -> Result<Scalar> {
    let from = value.data_type(schema)?;
    if !changes_clock(&from, &to) {
        return expressions::cast(value, schema, to);
    }
    let function = Arc::new(ClockCast::function(to, false));
    Ok(Arc::new(ScalarFunctionExpr::try_new(function, vec![value], schema, Arc::new(ConfigOptions::default()))?))
}

/// The values of columns, as [`ColumnarValue`]s are, without a row for each where all are constants.
fn of_arrays(args: &ScalarFunctionArgs, make: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let made = make(&arrays)?;
    Ok(if is_constant { ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?) } else { ColumnarValue::Array(made) })
}

/// A cast that changes the clock.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ClockCast {
    to: DataType,
    is_try: bool,
    signature: Signature,
}

impl ClockCast {
    /// The function that casts to a type, or to NULL what it does not hold.
    pub fn function(to: DataType, is_try: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(ClockCast { to, is_try, signature: Signature::any(1, Volatility::Immutable) })
    }

    /// The type that `scalar` casts to and what it casts, if it is such a cast.
    pub fn of(scalar: &Scalar) -> Option<(&DataType, &Scalar)> {
        let function = scalar.downcast_ref::<ScalarFunctionExpr>()?;
        let cast = (function.fun().inner().as_ref() as &dyn Any).downcast_ref::<ClockCast>()?;
        Some((&cast.to, function.args().first()?))
    }
}

impl ScalarUDFImpl for ClockCast {
    fn name(&self) -> &str {
        "cast"
    }

    /// That of what is cast, as of any cast.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.is_try || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(args.arg_fields[0].as_ref().clone().with_data_type(self.to.clone()).with_nullable(nullable).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |values| cast_values(&values[0], &self.to, self.is_try))
    }
}

/// An instant with a zone, plus or minus an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ClockMove {
    is_plus: bool,
    signature: Signature,
}

impl ClockMove {
    /// The function that adds, or subtracts.
    pub fn function(is_plus: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(ClockMove { is_plus, signature: Signature::any(2, Volatility::Immutable) })
    }

    /// The operation that `scalar` is, of an instant and an interval.
    pub fn of(scalar: &Scalar) -> Option<(Operator, &Scalar, &Scalar)> {
        let function = scalar.downcast_ref::<ScalarFunctionExpr>()?;
        let moves = (function.fun().inner().as_ref() as &dyn Any).downcast_ref::<ClockMove>()?;
        let [instant, by] = function.args() else { return None };
        Some((if moves.is_plus { Operator::Plus } else { Operator::Minus }, instant, by))
    }

    fn moved(&self, instants: &ArrayRef, by: &ArrayRef) -> Result<ArrayRef> {
        let DataType::Timestamp(unit, _) = instants.data_type() else { return internal_err!("an instant moves") };
        let by = cast(by, &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let by = by.as_primitive::<IntervalMonthDayNanoType>();
        let plus = |to: &ArrayRef, part: fn(IntervalMonthDayNano) -> IntervalMonthDayNano| -> Result<ArrayRef> {
            let part: ArrayRef = Arc::new(by.unary::<_, IntervalMonthDayNanoType>(part));
            Ok(if self.is_plus { add(to, &part)? } else { sub(to, &part)? })
        };
        let shown = cast_values(instants, &DataType::Timestamp(*unit, None), false)?;
        let moved = plus(&shown, |by| IntervalMonthDayNano { nanoseconds: 0, ..by })?;
        let moved = cast_values(&moved, instants.data_type(), false)?;
        // What no calendar moves is not read off a clock: a doubled time stays the one that it is.
        let has_moved = arrow::compute::kernels::cmp::distinct(&moved_by_calendar(by), &Int64Array::new_scalar(0))?;
        let moved = zip(&has_moved, &moved, instants)?;
        plus(&moved, |by| IntervalMonthDayNano { months: 0, days: 0, nanoseconds: by.nanoseconds })
    }
}

/// Not 0 where an interval has months or days.
fn moved_by_calendar(by: &arrow::array::PrimitiveArray<IntervalMonthDayNanoType>) -> Int64Array {
    by.unary(|by| i64::from(by.months != 0 || by.days != 0))
}

impl ScalarUDFImpl for ClockMove {
    fn name(&self) -> &str {
        if self.is_plus { "plus" } else { "minus" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |values| self.moved(&values[0], &values[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since the epoch of a time in UTC.
    fn utc(text: &str) -> i64 {
        chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap().and_utc().timestamp()
    }

    fn meant(zone: &str, shown: &str) -> i64 {
        Clock::of(zone).unwrap().instant(utc(shown), 1).unwrap()
    }

    #[test]
    fn a_skipped_time_is_read_with_the_offset_before_the_change() {
        // Berlin goes from 02:00 +01:00 to 03:00 +02:00, Los Angeles from 02:00 -08:00 to 03:00 -07:00.
        assert_eq!(meant("Europe/Berlin", "2026-03-29 02:30:00"), utc("2026-03-29 01:30:00"));
        assert_eq!(meant("America/Los_Angeles", "2026-03-08 02:30:00"), utc("2026-03-08 10:30:00"));
        // Samoa had no 30 December 2011: it went from -10:00 to +14:00.
        assert_eq!(meant("Pacific/Apia", "2011-12-30 12:00:00"), utc("2011-12-30 22:00:00"));
    }

    #[test]
    fn a_doubled_time_is_the_first_of_the_two() {
        assert_eq!(meant("Europe/Berlin", "2026-10-25 02:30:00"), utc("2026-10-25 00:30:00"));
        assert_eq!(meant("America/Los_Angeles", "2026-11-01 01:30:00"), utc("2026-11-01 08:30:00"));
        // Half an hour is doubled on Lord Howe Island: 02:00 +11:00 becomes 01:30 +10:30.
        assert_eq!(meant("Australia/Lord_Howe", "2026-04-05 01:45:00"), utc("2026-04-04 14:45:00"));
    }

    #[test]
    fn what_a_clock_shows_once_is_meant_by_it() {
        for zone in ["Europe/Berlin", "America/Los_Angeles", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Kathmandu", "-03:30"] {
            let clock = Clock::of(zone).unwrap();
            // Every 20 minutes of the years around Samoa's missing day.
            for instant in (utc("2011-01-01 00:00:00")..utc("2013-01-01 00:00:00")).step_by(1_200) {
                let shown = clock.shown(instant, 1).unwrap();
                let again = clock.instant(shown, 1).unwrap();
                assert!(again <= instant && clock.shown(again, 1) == Some(shown), "{zone}: {instant} is shown as {shown}");
                assert_eq!(clock.instant_near(shown, instant, 1), Some(instant), "{zone}");
            }
        }
    }
}
