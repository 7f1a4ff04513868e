//! Text to values: the inverse of [`crate::text`], and what else people write.
//!
//! Nothing here allocates or fails with more than None: whoever asked knows the place and the type, and says so.

use arrow::datatypes::TimeUnit;

use crate::text::{days_from_civil, per_second};

/// `true`, `false`, `t`, `f`, `1`, `0`, in any case.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("t") => Some(true),
        _ if text.eq_ignore_ascii_case("false") || text.eq_ignore_ascii_case("f") => Some(false),
        _ => None,
    }
}

/// `2026-01-31`: days since the epoch. Years may have a sign and more than four digits.
pub fn date(text: &str) -> Option<i32> {
    let mut rest = Rest(text.as_bytes());
    let days = rest.date()?;
    if rest.0.is_empty() { i32::try_from(days).ok() } else { None }
}

/// `12:30`, `12:30:01`, `12:30:01.5`: units since midnight. Digits finer than the unit are cut off.
pub fn time(text: &str, unit: TimeUnit) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let (seconds, nanoseconds) = rest.time()?;
    if rest.0.is_empty() { in_unit(seconds.into(), nanoseconds, unit) } else { None }
}

/// `2026-01-01`, `2026-01-01 00:00:01.5`, with `T` for the space, and `Z` or an offset such as `+02:00` at its end:
/// units since the epoch in UTC. Digits finer than the unit are cut off.
pub fn timestamp(text: &str, unit: TimeUnit) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    // In 128 bits, because a year may have as many digits as someone likes to write.
    let midnight = i128::from(rest.date()?) * 86_400;
    if rest.0.is_empty() {
        return in_unit(midnight, 0, unit);
    }
    rest.any(b" Tt")?;
    let (seconds, nanoseconds) = rest.time()?;
    let offset = rest.offset()?;
    in_unit(midnight + i128::from(seconds - offset), nanoseconds, unit)
}

/// `-12.345`, `1.5e3`: the value times 10^scale, rounded half away from zero; None where it needs more than `precision` digits.
pub fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let bytes = text.as_bytes();
    let (negative, bytes) = match bytes.first()? {
        b'-' => (true, &bytes[1..]),
        b'+' => (false, &bytes[1..]),
        _ => (false, bytes),
    };
    let (mut digits, mut fraction, mut any, mut point, mut full, mut at) = (0i128, 0i64, false, false, false, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'0'..=b'9' if full => {}
            b'0'..=b'9' => {
                any = true;
                let next = digits.checked_mul(10).and_then(|d| d.checked_add(i128::from(byte - b'0')));
                match next {
                    Some(next) => {
                        digits = next;
                        fraction += i64::from(point);
                    }
                    // Beyond 38 digits, what stands behind the point no longer counts; what stands before it does.
                    None if point => full = true,
                    None => return None,
                }
            }
            b'.' if !point => point = true,
            b'e' | b'E' => break,
            _ => return None,
        }
        at += 1;
    }
    let exponent: i64 = if at < bytes.len() { std::str::from_utf8(&bytes[at + 1..]).ok()?.parse::<i32>().ok()?.into() } else { 0 };
    if !any {
        return None;
    }
    let shift = i64::from(scale) + exponent - fraction;
    let value = if digits == 0 {
        0
    } else if shift >= 0 {
        digits.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?
    } else {
        match u32::try_from(-shift).ok().and_then(|by| 10i128.checked_pow(by)) {
            Some(by) => digits / by + i128::from(digits % by >= by / 2),
            None => 0,
        }
    };
    let limit = 10i128.checked_pow(u32::from(precision))?;
    if value >= limit { None } else { Some(if negative { -value } else { value }) }
}

/// Pairs of hexadecimal digits, as such or as `x'..'` or `\x..`, appended as bytes; None, and nothing said of `out`, where they are none.
pub fn hex(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix("x'").or_else(|| text.strip_prefix("X'")).and_then(|t| t.strip_suffix('\''));
    let digits = digits.or_else(|| text.strip_prefix("\\x")).unwrap_or(text).as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    for pair in digits.chunks_exact(2) {
        out.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(())
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 (RFC 4648), appended as bytes; padding may be absent. None, and nothing said of `out`, where it is none.
pub fn base64(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let text = text.trim_end_matches('=').as_bytes();
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            let value = BASE64.iter().position(|&symbol| symbol == byte)?;
            bits = bits << 6 | value as u32;
        }
        match group.len() {
            4 => out.extend_from_slice(&bits.to_be_bytes()[1..]),
            3 => out.extend_from_slice(&(bits << 6).to_be_bytes()[1..3]),
            2 => out.push((bits << 12).to_be_bytes()[1]),
            _ => return None,
        }
    }
    Some(())
}

/// Appends bytes as base64 with padding: the inverse of [`base64`].
pub fn write_base64(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0u32, |bits, (i, &byte)| bits | u32::from(byte) << (16 - 8 * i));
        for symbol in 0..4 {
            out.push(if symbol <= group.len() { char::from(BASE64[(bits >> (18 - 6 * symbol) & 63) as usize]) } else { '=' });
        }
    }
}

fn in_unit(seconds: i128, nanoseconds: i64, unit: TimeUnit) -> Option<i64> {
    let per_second = per_second(unit);
    let value = seconds * i128::from(per_second) + i128::from(nanoseconds / (1_000_000_000 / per_second));
    i64::try_from(value).ok()
}

/// What is left to read of a date or time.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn any(&mut self, of: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        of.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        (count >= least).then(|| digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    fn date(&mut self) -> Option<i64> {
        let sign = if self.any(b"+-") == Some(b'-') { -1 } else { 1 };
        let year = sign * self.digits(4, 12)?;
        self.any(b"-")?;
        let month = self.digits(1, 2)?;
        self.any(b"-")?;
        let day = self.digits(1, 2)?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=days).contains(&day).then(|| days_from_civil(year, month, day))
    }

    fn time(&mut self) -> Option<(i64, i64)> {
        let hours = self.digits(1, 2)?;
        self.any(b":")?;
        let minutes = self.digits(2, 2)?;
        let seconds = if self.any(b":").is_some() { self.digits(2, 2)? } else { 0 };
        let nanoseconds = if self.any(b".,").is_some() {
            let before = self.0.len();
            let value = self.digits(1, 9)?;
            value * 10i64.pow(9 - (before - self.0.len()) as u32)
        } else {
            0
        };
        (hours < 24 && minutes < 60 && seconds < 60).then_some((hours * 3600 + minutes * 60 + seconds, nanoseconds))
    }

    /// The rest: nothing, `Z`, `UTC`, or `+hh`, `+hhmm`, `+hh:mm`, in seconds east of Greenwich.
    fn offset(&mut self) -> Option<i64> {
        let text = self.0.trim_ascii();
        if text.is_empty() || text.eq_ignore_ascii_case(b"Z") || text.eq_ignore_ascii_case(b"UTC") {
            return Some(0);
        }
        self.0 = text;
        let sign = if self.any(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.digits(2, 2)?;
        self.any(b":");
        let minutes = if self.0.is_empty() { 0 } else { self.digits(2, 2)? };
        (self.0.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_in_every_spelling() {
        let second = |text| timestamp(text, TimeUnit::Second);
        assert_eq!(second("1970-01-02"), Some(86_400));
        assert_eq!(second("1970-01-01 00:01"), Some(60));
        assert_eq!(second("1970-01-01T00:00:05Z"), Some(5));
        assert_eq!(second("1970-01-01 02:00:05+02:00"), Some(5));
        assert_eq!(second("1969-12-31T23:00:05-0100"), Some(5));
        assert_eq!(timestamp("1970-01-01 00:00:01.5", TimeUnit::Millisecond), Some(1_500));
        assert_eq!(timestamp("1969-12-31 23:59:59.999", TimeUnit::Millisecond), Some(-1));
        assert_eq!(timestamp("1970-01-01 00:00:00.123456789", TimeUnit::Microsecond), Some(123_456));
        assert_eq!(timestamp("1677-09-21 00:12:43.145224192", TimeUnit::Nanosecond), Some(i64::MIN));
    }

    #[test]
    fn dates_that_no_calendar_has_are_refused() {
        for text in ["2026-02-29", "1900-02-29", "2026-13-01", "2026-00-01", "2026-1-0", "26-01-01", "2026-01-01x", ""] {
            assert_eq!(date(text), None, "{text}");
        }
        assert_eq!(date("2000-02-29"), Some(11_016));
        for text in ["2026-01-01 24:00:00", "2026-01-01 00:60:00", "2026-01-01 1", "2026-01-01 00:00:00 +2", "2026-01-01 00:00:00."] {
            assert_eq!(timestamp(text, TimeUnit::Second), None, "{text}");
        }
    }

    #[test]
    fn decimals_are_exact_and_rounded_half_away_from_zero() {
        assert_eq!(decimal("12.345", 10, 3), Some(12_345));
        assert_eq!(decimal("-0.005", 10, 2), Some(-1));
        assert_eq!(decimal("0.0049", 10, 2), Some(0));
        assert_eq!(decimal("1.5e3", 10, 0), Some(1_500));
        assert_eq!(decimal("99999999999999999999999999999999999999", 38, 0), Some(10i128.pow(38) - 1));
        for text in ["100", "1e40", "", ".", "-", "1.2.3", "1e", "0x1"] {
            assert_eq!(decimal(text, 2, 0), None, "{text}");
        }
    }

    #[test]
    fn bytes_come_back_from_hex_and_base64() {
        // The test vectors of RFC 4648.
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")] {
            let (mut written, mut read) = (String::new(), Vec::new());
            write_base64(&mut written, bytes.as_bytes());
            assert_eq!(written, text);
            base64(text, &mut read).unwrap();
            assert_eq!(read, bytes.as_bytes());
        }
        let mut read = Vec::new();
        hex("x'00fF'", &mut read).unwrap();
        assert_eq!(read, [0, 255]);
        assert_eq!(hex("abc", &mut read), None);
        assert_eq!(base64("Z", &mut read), None);
    }
}
