//! Lengths of time and instants as people write them, in whole milliseconds.

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;

use crate::error::{Error, Result};

/// The spellings of each unit (a plural `s` is taken off the longer ones first) and its milliseconds.
const UNITS: [(&[&str], i64); 6] = [
    (&["ms", "milli", "millisecond"], 1),
    (&["s", "sec", "second"], 1_000),
    (&["m", "min", "minute"], 60_000),
    (&["h", "hour"], 3_600_000),
    (&["d", "day"], 86_400_000),
    (&["w", "week"], 604_800_000),
];

/// A duration such as `60S`, `10 s`, `5 min`, `12 h`, `3 days` or `250 ms`, in milliseconds; `never` is `None`.
///
/// Zero and negative figures are errors: what should not end is written `never`.
pub fn parse_duration(text: &str) -> Result<Option<i64>> {
    match figure(text)? {
        Some(0) => Err(Error::invalid(format!("duration '{text}' is zero: a duration is positive, or 'never'"))),
        duration => Ok(duration),
    }
}

/// A duration where Flink's own spelling is read: as [`parse_duration`], and zero, with a unit or without, is `None` too.
pub fn parse_flink_duration(text: &str) -> Result<Option<i64>> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|digit| digit == b'0') {
        return Ok(None);
    }
    Ok(figure(text)?.filter(|milliseconds| *milliseconds != 0))
}

/// A duration that may be zero.
fn figure(text: &str) -> Result<Option<i64>> {
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("never") {
        return Ok(None);
    }
    let figure = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let unit = figure.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &figure[..figure.len() - unit.len()];
    let (Some(milliseconds), false) = (unit_milliseconds(unit.trim()), digits.is_empty()) else {
        return Err(Error::invalid(format!(
            "'{text}' is not a duration: write a whole number and a unit (ms, s, min, h, d or w), as in '10 s' or '3 days', or 'never'"
        )));
    };
    if digits.bytes().all(|digit| digit == b'0') {
        return Ok(Some(0));
    }
    if trimmed.starts_with('-') {
        return Err(Error::invalid(format!("duration '{text}' is negative: a duration is positive, or 'never'")));
    }
    let total = digits.parse::<i64>().ok().and_then(|amount| amount.checked_mul(milliseconds));
    total
        .map(Some)
        .ok_or_else(|| Error::invalid(format!("duration '{text}' is too long to count in milliseconds: write 'never' for no end")))
}

/// Milliseconds as people write them, exactly, in the longest unit that gives a whole number: `3 days`, `36 h`, `250 ms`.
/// [`parse_duration`] reads it back.
pub fn format_duration(milliseconds: u64) -> String {
    const SPELT: [(&str, u64); 5] = [("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];
    let whole = SPELT.iter().find(|(_, unit)| milliseconds >= *unit && milliseconds.is_multiple_of(*unit));
    match whole {
        Some(("day", unit)) if milliseconds > *unit => format!("{} days", milliseconds / unit),
        Some((name, unit)) => format!("{} {name}", milliseconds / unit),
        None => format!("{milliseconds} ms"),
    }
}

/// Milliseconds in one of a unit, in any case, singular or plural.
fn unit_milliseconds(unit: &str) -> Option<i64> {
    let unit = unit.to_ascii_lowercase();
    let find = |name: &str| UNITS.iter().find(|(names, _)| names.contains(&name)).map(|(_, milliseconds)| *milliseconds);
    let singular = unit.strip_suffix('s').filter(|singular| singular.len() > 2);
    find(&unit).or_else(|| find(singular?))
}

/// An instant such as `2026-01-02`, `2026-01-02 08:00:00` or `2026-01-02T08:00:00.250`, as milliseconds since the epoch.
/// Without an offset it is in UTC.
pub fn parse_timestamp(text: &str) -> Result<i64> {
    let bad =
        || Error::invalid(format!("'{text}' is not a timestamp: write 'YYYY-MM-DD HH:MM:SS', with milliseconds after a dot if need be"));
    let utc: Tz = "UTC".parse()?;
    let instant = string_to_datetime(&utc, text.trim()).map_err(|_| bad())?;
    if instant.timestamp_subsec_nanos() % 1_000_000 != 0 {
        return Err(Error::invalid(format!("timestamp '{text}' is finer than a millisecond, which engine time is not")));
    }
    Ok(instant.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_in_the_contract_is_its_number_of_milliseconds() {
        let cases = [("60S", 60_000), ("10 s", 10_000), ("5 min", 300_000), ("12 h", 43_200_000), ("3 days", 259_200_000), ("250 ms", 250)];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), Ok(Some(milliseconds)), "{text}");
        }
    }

    #[test]
    fn units_are_read_in_any_case_singular_and_plural() {
        for text in ["1 d", "1d", "1 Day", "1 DAYS", " 24 hours ", "1440 Minutes", "86400 secs", "86400000 millis"] {
            assert_eq!(parse_duration(text), Ok(Some(86_400_000)), "{text}");
        }
        assert_eq!(parse_duration("2 weeks"), Ok(Some(14 * 86_400_000)));
    }

    #[test]
    fn never_is_no_end() {
        assert_eq!(parse_duration("never"), Ok(None));
        assert_eq!(parse_duration(" NEVER "), Ok(None));
    }

    #[test]
    fn zero_and_negative_figures_are_errors_that_offer_never() {
        for (text, word) in [("0 s", "zero"), ("0ms", "zero"), ("-0 s", "zero"), ("-5 min", "negative")] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("never"), "{message}");
        }
    }

    #[test]
    fn zero_is_never_in_flinks_spelling_and_all_else_is_as_ever() {
        for text in ["0", "0s", "0 s", "0 ms", "00 d", "never"] {
            assert_eq!(parse_flink_duration(text), Ok(None), "{text}");
        }
        assert_eq!(parse_flink_duration("60S"), Ok(Some(60_000)));
        for text in ["-1 s", "0 fortnights", "x0", "60", ""] {
            assert!(parse_flink_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_shown_in_the_longest_unit_that_is_exact_and_reads_back() {
        let cases = [
            (250, "250 ms"),
            (10_000, "10 s"),
            (60_000, "1 min"),
            (90_000, "90 s"),
            (3_600_000, "1 h"),
            (86_400_000, "1 day"),
            (129_600_000, "36 h"),
            (259_200_000, "3 days"),
            (604_800_000, "7 days"),
            (86_400_001, "86400001 ms"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(format_duration(milliseconds), text);
            assert_eq!(parse_duration(text), Ok(Some(milliseconds as i64)), "{text}");
        }
        assert_eq!(format_duration(0), "0 ms");
    }

    #[test]
    fn what_is_no_duration_is_told_what_would_be() {
        for text in ["", "three days", "3", "d", "1.5 h", "3 fortnights", "1 day 2 h", "- 5 s", "--5 s", "5 ss", "٣ s", "5 µs"] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(message.contains("is not a duration") && message.contains("'3 days'"), "{text}: {message}");
        }
    }

    #[test]
    fn a_duration_that_overflows_is_an_error() {
        for text in ["9223372036854775807 s", "99999999999999999999 ms"] {
            assert!(parse_duration(text).unwrap_err().to_string().contains("too long"), "{text}");
        }
        assert_eq!(parse_duration("9223372036854775807 ms"), Ok(Some(i64::MAX)));
    }

    #[test]
    fn timestamps_are_milliseconds_since_the_epoch_in_utc() {
        let cases = [
            ("1970-01-01", 0),
            ("1970-01-01 00:00:20", 20_000),
            ("1970-01-02T00:00:00.250", 86_400_250),
            ("1970-01-01 00:00:00.5", 500),
            ("1969-12-31 23:59:50", -10_000),
            ("1970-01-01T01:00:00Z", 3_600_000),
            ("2000-03-01 00:00:00", 951_868_800_000),
            ("2500-01-01 00:00:00", 16_725_225_600_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse_timestamp(text), Ok(milliseconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_an_error() {
        for text in ["", "noon", "2026-13-01", "2026-02-30", "2026-01-01 25:00:00", "2026-01-01 00:00:00.0001"] {
            assert!(parse_timestamp(text).is_err(), "{text}");
        }
    }
}
