//! The units of time, and what they do to a moment: DATE_TRUNC, FLOOR and CEIL to a unit, TIMESTAMPDIFF.
//!
//! A moment is a number of units of its type since the epoch, and stays one: all arithmetic is exact, for every value that
//! the type has, and NULL is NULL whatever stands under it. (DataFusion's DATE_TRUNC goes by way of nanoseconds, which end
//! in 2262, and computes on what stands under a NULL.) A moment of a zone is rounded as the clocks of the zone show it: see
//! [`crate::eval::zones`](crate::eval).

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, plan_err};

use crate::error::Error;
use crate::text::{civil_from_days, days_from_civil};

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    name: &'static str,
    length: Length,
}

/// How long a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Length {
    Nanoseconds(i64),
    /// Of seven days, from Monday on.
    Week,
    Months(i64),
}

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

const UNITS: [Unit; 10] = [
    Unit { name: "MICROSECOND", length: Length::Nanoseconds(1_000) },
    Unit { name: "MILLISECOND", length: Length::Nanoseconds(1_000_000) },
    Unit { name: "SECOND", length: Length::Nanoseconds(SECOND) },
    Unit { name: "MINUTE", length: Length::Nanoseconds(60 * SECOND) },
    Unit { name: "HOUR", length: Length::Nanoseconds(3_600 * SECOND) },
    Unit { name: "DAY", length: Length::Nanoseconds(DAY) },
    Unit { name: "WEEK", length: Length::Week },
    Unit { name: "MONTH", length: Length::Months(1) },
    Unit { name: "QUARTER", length: Length::Months(3) },
    Unit { name: "YEAR", length: Length::Months(12) },
];

/// Checks the name of a unit, in any case, which stands in a call of `function`.
///
/// # Errors
/// [`Error::Invalid`] for a name that is none, with those there are.
pub fn check_unit(name: &str, function: &str) -> crate::error::Result<()> {
    unit(name, function).map(|_| ())
}

fn unit(name: &str, function: &str) -> crate::error::Result<Unit> {
    UNITS.into_iter().find(|unit| unit.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names = UNITS.map(|unit| unit.name).join(", ");
        Error::invalid(format!("{function}: '{name}' is not a unit of time; there is {names}"))
    })
}

impl Unit {
    /// The unit of that name, in any case.
    ///
    /// # Errors
    /// A name that is none, for `function`, which lists those there are.
    pub fn named(name: &str, function: &str) -> Result<Unit> {
        unit(name, function).or_else(|error| plan_err!("{error}"))
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether it is a part of a day.
    pub fn is_within_a_day(self) -> bool {
        matches!(self.length, Length::Nanoseconds(length) if length < DAY)
    }

    /// The last beginning of a unit that is not after `moment`, or the first one that is not before it, where a second has
    /// `per_second` of the moment's own units. None where its type has no such moment.
    pub fn round(self, moment: i64, per_second: i64, up: bool) -> Option<i64> {
        let day = i128::from(per_second) * 86_400;
        let (down, next) = match self.length {
            Length::Nanoseconds(length) => {
                let step = (i128::from(length) * i128::from(per_second) / i128::from(SECOND)).max(1);
                let down = i128::from(moment).div_euclid(step) * step;
                (down, down + step)
            }
            Length::Week => {
                // The first Monday is three days before the epoch.
                let monday = (i128::from(moment) + 3 * day).div_euclid(7 * day) * 7 * day - 3 * day;
                (monday, monday + 7 * day)
            }
            Length::Months(months) => {
                let first = month_of(moment, per_second).div_euclid(months) * months;
                (start_of_month(first, per_second), start_of_month(first + months, per_second))
            }
        };
        let rounded = if up && down != i128::from(moment) { next } else { down };
        i64::try_from(rounded).ok()
    }

    /// How many whole units `to` is after `from`; below zero where it is before it. Of months, the most that can be added to
    /// the earlier one without passing the later one.
    pub fn between(self, from: i64, to: i64, per_second: i64) -> i64 {
        let nanoseconds = (i128::from(to) - i128::from(from)) * i128::from(SECOND / per_second);
        let whole = match self.length {
            Length::Nanoseconds(length) => nanoseconds / i128::from(length),
            Length::Week => nanoseconds / (7 * i128::from(DAY)),
            Length::Months(months) if from <= to => i128::from(months_between(from, to, per_second) / months),
            Length::Months(months) => i128::from(-(months_between(to, from, per_second) / months)),
        };
        // Nanoseconds between seconds of the longest type are more than there are numbers; no unit is that short.
        i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
    }
}

/// The months from year 0 to the one that a moment is in.
fn month_of(moment: i64, per_second: i64) -> i64 {
    let (year, month, _) = civil_from_days(moment.div_euclid(86_400 * per_second));
    year * 12 + month - 1
}

fn start_of_month(month: i64, per_second: i64) -> i128 {
    i128::from(days_from_civil(month.div_euclid(12), month.rem_euclid(12) + 1, 1)) * 86_400 * i128::from(per_second)
}

/// The most months that can be added to `from` without passing `to`, which is not before it. A day that a month does not
/// have is its last one.
fn months_between(from: i64, to: i64, per_second: i64) -> i64 {
    let months = month_of(to, per_second) - month_of(from, per_second);
    let day = i128::from(per_second) * 86_400;
    let start = |month: i64| start_of_month(month, per_second);
    let in_month = i128::from(from) - start(month_of(from, per_second));
    let target = month_of(to, per_second);
    let last_day = start(target + 1) - day;
    let moved = (start(target) + in_month.div_euclid(day) * day).min(last_day) + in_month.rem_euclid(day);
    if moved > i128::from(to) { months - 1 } else { months }
}

/// The type of moments that `given`, an argument of `function`, is taken as: a DATE is its first second.
///
/// # Errors
/// Types that are no moments.
pub(super) fn moment_type(given: &DataType, function: &str) -> Result<DataType> {
    Ok(match given {
        DataType::Timestamp(..) => given.clone(),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Second, None),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => {
            let other = crate::text::a_type_name(other);
            return plan_err!(
                "{function} is of a DATE or a TIMESTAMP, and this is {other}: CAST it, or TO_TIMESTAMP_MILLIS what counts milliseconds"
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(name: &str) -> Unit {
        super::unit(name, "f").unwrap()
    }

    /// Seconds since the epoch.
    fn at(year: i64, month: i64, day: i64, seconds: i64) -> i64 {
        days_from_civil(year, month, day) * 86_400 + seconds
    }

    #[test]
    fn a_moment_is_rounded_to_a_beginning_of_its_unit_that_is_next_to_it() {
        for (name, down, up) in [
            ("SECOND", at(2026, 8, 19, 36_061), at(2026, 8, 19, 36_061)),
            ("MINUTE", at(2026, 8, 19, 36_060), at(2026, 8, 19, 36_120)),
            ("HOUR", at(2026, 8, 19, 36_000), at(2026, 8, 19, 39_600)),
            ("DAY", at(2026, 8, 19, 0), at(2026, 8, 20, 0)),
            // 19 August 2026 is a Wednesday.
            ("WEEK", at(2026, 8, 17, 0), at(2026, 8, 24, 0)),
            ("MONTH", at(2026, 8, 1, 0), at(2026, 9, 1, 0)),
            ("QUARTER", at(2026, 7, 1, 0), at(2026, 10, 1, 0)),
            ("YEAR", at(2026, 1, 1, 0), at(2027, 1, 1, 0)),
        ] {
            let moment = at(2026, 8, 19, 36_061);
            for per_second in [1, 1_000, 1_000_000, SECOND] {
                let rounded = |up| unit(name).round(moment * per_second, per_second, up);
                assert_eq!((rounded(false), rounded(true)), (Some(down * per_second), Some(up * per_second)), "{name}");
            }
            assert_eq!((unit(name).round(down, 1, false), unit(name).round(down, 1, true)), (Some(down), Some(down)), "{name}");
        }
    }

    #[test]
    fn the_ends_of_a_type_are_rounded_where_it_holds_what_they_are_rounded_to() {
        assert_eq!(unit("YEAR").round(at(9999, 12, 31, 86_399), 1, false), Some(at(9999, 1, 1, 0)));
        assert_eq!(unit("HOUR").round(i64::MIN, SECOND, false), None);
        assert_eq!(unit("HOUR").round(i64::MAX, SECOND, true), None);
        assert!(unit("MONTH").round(i64::MAX, 1_000, false).is_some_and(|month| month < i64::MAX));
        assert_eq!(unit("MICROSECOND").round(i64::MIN, 1, true), Some(i64::MIN));
    }

    #[test]
    fn whole_months_are_the_most_that_can_be_added_without_passing_the_later_moment() {
        let months = |from, to| unit("MONTH").between(from, to, 1);
        assert_eq!(months(at(2026, 1, 15, 10), at(2026, 2, 15, 10)), 1);
        assert_eq!(months(at(2026, 1, 15, 10), at(2026, 2, 15, 9)), 0);
        assert_eq!(months(at(2026, 1, 31, 0), at(2026, 2, 28, 0)), 1);
        assert_eq!(months(at(2026, 2, 28, 0), at(2026, 1, 31, 0)), -1);
        assert_eq!(months(at(2026, 1, 31, 0), at(2026, 3, 30, 0)), 1);
        assert_eq!(unit("YEAR").between(at(2024, 2, 29, 0), at(2028, 2, 28, 0), 1), 3);
        assert_eq!(unit("QUARTER").between(at(2026, 1, 1, 0), at(2025, 1, 1, 0), 1), -4);
    }

    #[test]
    fn units_of_one_length_between_moments_are_cut_toward_zero() {
        assert_eq!(unit("MINUTE").between(0, 119, 1), 1);
        assert_eq!(unit("MINUTE").between(119, 0, 1), -1);
        assert_eq!(unit("WEEK").between(0, 13 * 86_400, 1), 1);
        assert_eq!(unit("DAY").between(i64::MIN, i64::MAX, 1_000), 213_503_982_334);
    }
}
