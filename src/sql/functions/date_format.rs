//! DATE_FORMAT with Java's date patterns, as Flink and Hive have it: `DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')`.
//!
//! The pattern is a constant. It is translated to the one of TO_CHAR while the query is planned, so nothing of it is left
//! when rows are evaluated.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{Result, ScalarValue, internal_err, plan_datafusion_err, plan_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit};

use super::to_char::ToChar;

/// DATE_FORMAT(timestamp, date or string, pattern).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateFormat {
    signature: Signature,
}

impl DateFormat {
    pub fn new() -> Self {
        DateFormat { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateFormat {
    fn name(&self) -> &str {
        "date_format"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(Expr::Literal(ScalarValue::Utf8(Some(pattern)), _)) = args.pop() else {
            return plan_err!("DATE_FORMAT takes a pattern that is a constant, as 'yyyy-MM-dd'");
        };
        let instant = args.pop().ok_or_else(|| plan_datafusion_err!("DATE_FORMAT takes a time and a pattern"))?;
        let instant = match info.get_data_type(&instant)? {
            DataType::Timestamp(..) => instant,
            _ => cast(instant, DataType::Timestamp(TimeUnit::Millisecond, None)),
        };
        let to_char = ScalarUDF::new_from_impl(ToChar::new());
        Ok(ExprSimplifyResult::Simplified(to_char.call(vec![instant, lit(chrono_pattern(&pattern)?)])))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("DATE_FORMAT is not evaluated: the planner translates it")
    }
}

/// A Java date pattern in the letters of TO_CHAR.
fn chrono_pattern(java: &str) -> Result<String> {
    let mut pattern = String::new();
    let mut letters = java.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\'' {
            quoted(&mut letters, &mut pattern);
            continue;
        }
        if !letter.is_ascii_alphabetic() {
            plain(letter, &mut pattern);
            continue;
        }
        let mut width = 1;
        while letters.next_if_eq(&letter).is_some() {
            width += 1;
        }
        pattern.push_str(match (letter, width) {
            ('y' | 'u', 2) => "%y",
            ('y' | 'u', 1 | 4) => "%Y",
            ('M' | 'L', 1) => "%-m",
            ('M' | 'L', 2) => "%m",
            ('M' | 'L', 3) => "%b",
            ('M' | 'L', 4) => "%B",
            ('d', 1) => "%-d",
            ('d', 2) => "%d",
            ('D', 3) => "%j",
            ('H', 1) => "%-H",
            ('H', 2) => "%H",
            ('h', 1) => "%-I",
            ('h', 2) => "%I",
            ('m', 1) => "%-M",
            ('m', 2) => "%M",
            ('s', 1) => "%-S",
            ('s', 2) => "%S",
            ('S', 3) => "%3f",
            ('S', 6) => "%6f",
            ('S', 9) => "%9f",
            ('a', 1) => "%p",
            ('E', 1..=3) => "%a",
            ('E', 4) => "%A",
            _ => return plan_err!("DATE_FORMAT: '{}' in the pattern '{java}'", letter.to_string().repeat(width)),
        });
    }
    Ok(pattern)
}

/// Text up to the closing quote; two quotes are one.
fn quoted(letters: &mut std::iter::Peekable<std::str::Chars>, pattern: &mut String) {
    if letters.next_if_eq(&'\'').is_some() {
        return pattern.push('\'');
    }
    while let Some(letter) = letters.next() {
        if letter == '\'' && letters.next_if_eq(&'\'').is_none() {
            return;
        }
        plain(letter, pattern);
    }
}

fn plain(letter: char, pattern: &mut String) {
    if letter == '%' {
        pattern.push('%');
    }
    pattern.push(letter);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_letters_become_chronos() {
        assert_eq!(chrono_pattern("yyyy-MM-dd HH:mm:ss.SSS").unwrap(), "%Y-%m-%d %H:%M:%S.%3f");
        assert_eq!(chrono_pattern("yyyyMMdd'T'HH 'o''clock' 100%").unwrap(), "%Y%m%dT%H o'clock 100%%");
    }

    #[test]
    fn a_letter_without_a_meaning_is_refused_with_its_pattern() {
        let error = chrono_pattern("yyyy-ww").unwrap_err().to_string();
        assert!(error.contains("'ww' in the pattern 'yyyy-ww'"), "{error}");
    }
}
