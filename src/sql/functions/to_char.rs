//! TO_CHAR, as DataFusion has it, but each text written once.
//!
//! Most times of a batch of rows come to the same text: of `'%Y-%m-%d'` there is one a day. So under a constant pattern a
//! time is written for the first row that falls into what the pattern tells apart (its *grain*), and copied to the others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature};
use datafusion_functions::datetime::to_char::ToCharFunc;
use hashbrown::HashMap;

/// TO_CHAR(timestamp, date, time or duration; pattern).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToChar(ToCharFunc);

impl ToChar {
    pub fn new() -> Self {
        ToChar(ToCharFunc::new())
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((times, units)) = repeating(&args.args) else { return self.0.invoke_with_args(args) };
        let (first, place) = distinct(&times, units)?;
        args.number_rows = first.len();
        args.args[0] = ColumnarValue::Array(take(&times, &first, None)?);
        let written = self.0.invoke_with_args(args)?.into_array(first.len())?;
        Ok(ColumnarValue::Array(take(&written, &place, None)?))
    }
}

/// The times of a call whose pattern is a constant and has a grain, and how many of their units are one grain.
fn repeating(args: &[ColumnarValue]) -> Option<(ArrayRef, i64)> {
    let [ColumnarValue::Array(times), ColumnarValue::Scalar(ScalarValue::Utf8(Some(pattern)))] = args else { return None };
    let DataType::Timestamp(unit, None) = times.data_type() else { return None };
    let a_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    Some((Arc::clone(times), grain(pattern)? * a_second))
}

/// The rows that are the first in their grain (and the first NULL), and for each row which of these it is like.
fn distinct(times: &ArrayRef, units: i64) -> Result<(UInt32Array, UInt32Array)> {
    let numbers = cast(times, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let (mut first, mut places): (Vec<u32>, HashMap<Option<i64>, u32>) = Default::default();
    let mut last: Option<(Option<i64>, u32)> = None;
    let place = (0..numbers.len()).map(|row| {
        let grain = numbers.is_valid(row).then(|| numbers.value(row).div_euclid(units));
        if let Some((_, place)) = last.filter(|(last, _)| *last == grain) {
            return place;
        }
        let place = *places.entry(grain).or_insert_with(|| {
            first.push(row as u32);
            first.len() as u32 - 1
        });
        last = Some((grain, place));
        place
    });
    let place = place.collect::<Vec<u32>>();
    Ok((first.into(), place.into()))
}

/// The seconds that a pattern of Chrono's does not tell apart; None where there may be less than one.
fn grain(pattern: &str) -> Option<i64> {
    let (mut grain, mut letters) = (86_400, pattern.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        let mut specifier = letters.next()?;
        // How a number is padded.
        if matches!(specifier, '-' | '_' | '0') {
            specifier = letters.next()?;
        }
        grain = grain.min(match specifier {
            'Y' | 'C' | 'y' | 'q' | 'm' | 'b' | 'B' | 'h' | 'd' | 'e' | 'a' | 'A' | 'w' | 'u' | 'U' | 'W' | 'G' | 'g' | 'V' | 'j' | 'D'
            | 'x' | 'F' | 'v' | 't' | 'n' | '%' => 86_400,
            'H' | 'k' | 'I' | 'l' | 'P' | 'p' => 3_600,
            'M' | 'R' => 60,
            'S' | 'T' | 'X' | 'r' | 'c' | 's' => 1,
            _ => return None,
        });
    }
    Some(grain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::TimestampMillisecondArray;
    use arrow::datatypes::Field;
    use datafusion_common::config::ConfigOptions;

    fn call(function: &dyn ScalarUDFImpl, times: &ArrayRef, pattern: &str) -> Result<ArrayRef> {
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::clone(times)), ColumnarValue::Scalar(ScalarValue::Utf8(Some(pattern.to_owned())))],
            arg_fields: vec![
                Arc::new(Field::new("time", times.data_type().clone(), true)),
                Arc::new(Field::new("pattern", DataType::Utf8, false)),
            ],
            number_rows: times.len(),
            return_field: Arc::new(Field::new("text", DataType::Utf8, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        function.invoke_with_args(args)?.into_array(times.len())
    }

    #[test]
    fn every_pattern_says_of_every_time_what_datafusions_says() {
        let instants = (0..500i64).map(|row| (row % 7 != 3).then_some((row % 50 - 25) * 40_000_003 - row / 100 * 499));
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter(instants));
        let letters = "YCyqmbBhdeaAwuUWGgVjDxFvHkIlPpMRSTXrcszZ+fnt%";
        let patterns = letters.chars().map(|letter| format!("<%{letter}>"));
        let more = ["%Y-%m-%d", "%H:%M", "%-d.%_m.", "%.3f", "%3f", "%d%%H", "", "no times"].map(str::to_owned);
        for pattern in patterns.chain(more) {
            let (ours, theirs) = (call(&ToChar::new(), &times, &pattern), call(&ToCharFunc::new(), &times, &pattern));
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => assert_eq!(&ours, &theirs, "{pattern}"),
                (ours, theirs) => assert_eq!(ours.is_err(), theirs.is_err(), "{pattern}"),
            }
        }
    }

    #[test]
    fn a_day_is_written_once() {
        let times: ArrayRef =
            Arc::new(TimestampMillisecondArray::from(vec![Some(0), Some(86_399_999), None, Some(86_400_000), Some(-1), Some(5)]));
        let (first, place) = distinct(&times, 86_400_000).unwrap();
        assert_eq!((first.values().to_vec(), place.values().to_vec()), (vec![0, 2, 3, 4], vec![0, 0, 1, 2, 3, 0]));
    }
}
