//! Values as text: how results, print sinks and test scripts show them.
//!
//! The same value always has the same text, whatever Arrow layout it comes in, and the text of a scalar reads back
//! as that value (see `connector::format::parse`):
//!
//! | type | text |
//! |---|---|
//! | any | `NULL` |
//! | BOOLEAN | `true`, `false` |
//! | integers, DECIMAL(p, s) | `20`, `20.00` |
//! | FLOAT, DOUBLE | the shortest digits that read back as the same number: `20.0`, `0.1`, `1e16`, `NaN`, `-Infinity` |
//! | VARCHAR | as it is; the empty string is empty |
//! | DATE, TIME, TIMESTAMP | `1970-01-01`, `00:00:05`, `1970-01-01 00:00:05`; a fraction, where there is one, in 3, 6 or 9 digits |
//! | VARBINARY | `x'00ff'` |
//! | ARRAY, ROW, MAP | `[1, 2]`, `{a: 1}`, `{k: v}` |
//!
//! A timestamp with a time zone shows as that instant in UTC.

use std::fmt::Write;

use arrow::array::{Array, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// One value as text.
pub fn cell(array: &dyn Array, row: usize) -> String {
    let mut out = String::new();
    write_cell(&mut out, array, row);
    out
}

/// An instant, milliseconds since the epoch, as a TIMESTAMP(3) shows.
pub fn instant(ms: i64) -> String {
    cell(&TimestampMillisecondArray::from_value(ms, 1), 0)
}

/// One row as text, a string a column.
pub fn line(batch: &RecordBatch, row: usize) -> Vec<String> {
    batch.columns().iter().map(|column| cell(column, row)).collect()
}

/// Rows as a table for people: a frame, numbers to the right, and how many rows there are.
pub fn table(batch: &RecordBatch) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(batch.schema().fields().iter().map(|field| field.name().as_str()));
    for row in 0..batch.num_rows() {
        table.add_row(line(batch, row));
    }
    for (field, column) in batch.schema().fields().iter().zip(table.column_iter_mut()) {
        if field.data_type().is_numeric() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let rows = batch.num_rows();
    format!("{table}\n({rows} row{})", if rows == 1 { "" } else { "s" })
}

/// The SQL name of a type, for messages: `TIMESTAMP(3)`, `ARRAY<BIGINT>`.
pub fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Null => "NULL".into(),
        Boolean => "BOOLEAN".into(),
        Int8 => "TINYINT".into(),
        Int16 => "SMALLINT".into(),
        Int32 => "INT".into(),
        Int64 => "BIGINT".into(),
        UInt8 => "TINYINT UNSIGNED".into(),
        UInt16 => "SMALLINT UNSIGNED".into(),
        UInt32 => "INT UNSIGNED".into(),
        UInt64 => "BIGINT UNSIGNED".into(),
        Float16 | Float32 => "FLOAT".into(),
        Float64 => "DOUBLE".into(),
        Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s) | Decimal256(p, s) => format!("DECIMAL({p}, {s})"),
        Utf8 | LargeUtf8 | Utf8View => "VARCHAR".into(),
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "VARBINARY".into(),
        Date32 | Date64 => "DATE".into(),
        Time32(unit) | Time64(unit) => format!("TIME({})", unit_digits(*unit)),
        Timestamp(unit, None) => format!("TIMESTAMP({})", unit_digits(*unit)),
        Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", unit_digits(*unit)),
        Interval(_) | Duration(_) => "INTERVAL".into(),
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            format!("ARRAY<{}>", type_name(item.data_type()))
        }
        Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|f| format!("{} {}", f.name(), type_name(f.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        Map(entries, _) => match entries.data_type() {
            Struct(fields) if fields.len() == 2 => {
                format!("MAP<{}, {}>", type_name(fields[0].data_type()), type_name(fields[1].data_type()))
            }
            _ => "MAP".into(),
        },
        Dictionary(_, value) => type_name(value),
        other => other.to_string().to_uppercase(),
    }
}

/// The SQL name of a type with its article: `a BIGINT`, `an INT`.
pub fn a_type_name(data_type: &DataType) -> String {
    let name = type_name(data_type);
    format!("{} {name}", if name.starts_with(['A', 'I']) { "an" } else { "a" })
}

/// Appends the text of one value.
pub fn write_cell(out: &mut String, array: &dyn Array, row: usize) {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        out.push_str("NULL");
        return;
    }
    match array.data_type() {
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Int8 => display(out, array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => display(out, array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => display(out, array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => display(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => display(out, array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => display(out, array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => display(out, array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => display(out, array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            write_float(out, value.is_finite(), f64::from(value), value);
        }
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            write_float(out, value.is_finite(), value, value);
        }
        DataType::Decimal128(_, scale) => write_decimal(out, array.as_primitive::<Decimal128Type>().value(row), *scale),
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => out.push_str(array.as_string::<i64>().value(row)),
        DataType::Utf8View => out.push_str(array.as_string_view().value(row)),
        DataType::Binary => write_binary(out, array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => write_binary(out, array.as_binary::<i64>().value(row)),
        DataType::BinaryView => write_binary(out, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => write_binary(out, array.as_fixed_size_binary().value(row)),
        DataType::Date32 => write_date(out, i64::from(array.as_primitive::<Date32Type>().value(row))),
        DataType::Date64 => write_date(out, array.as_primitive::<Date64Type>().value(row).div_euclid(86_400_000)),
        DataType::Time32(TimeUnit::Second) => write_time(out, i64::from(array.as_primitive::<Time32SecondType>().value(row)), 1),
        DataType::Time32(_) => write_time(out, i64::from(array.as_primitive::<Time32MillisecondType>().value(row)), 1_000),
        DataType::Time64(TimeUnit::Nanosecond) => write_time(out, array.as_primitive::<Time64NanosecondType>().value(row), 1_000_000_000),
        DataType::Time64(_) => write_time(out, array.as_primitive::<Time64MicrosecondType>().value(row), 1_000_000),
        DataType::Timestamp(unit, _) => {
            let value = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
            };
            write_timestamp(out, value, *unit);
        }
        DataType::List(_) => write_list(out, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => write_list(out, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => write_list(out, &array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            write_sequence(out, '{', '}', fields.len(), |out, i| {
                out.push_str(fields[i].name());
                out.push_str(": ");
                write_cell(out, &columns[i], row);
            });
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            write_sequence(out, '{', '}', entries.len(), |out, i| {
                write_cell(out, entries.column(0), i);
                out.push_str(": ");
                write_cell(out, entries.column(1), i);
            });
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            write_cell(out, dictionary.values(), dictionary.normalized_keys()[row]);
        }
        _ => match ArrayFormatter::try_new(array, &FormatOptions::default()) {
            Ok(formatter) => display(out, formatter.value(row)),
            Err(error) => display(out, error),
        },
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar (the method of Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms": eras of 400 years that begin in March).
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let year_of_era = year.rem_euclid(400);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01: the inverse of [`days_from_civil`].
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many of a unit make a second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Appends a timestamp, given in units since the epoch.
pub(crate) fn write_timestamp(out: &mut String, value: i64, unit: TimeUnit) {
    let per_second = per_second(unit);
    let seconds = value.div_euclid(per_second);
    write_date(out, seconds.div_euclid(86_400));
    out.push(' ');
    write_time(out, seconds.rem_euclid(86_400) * per_second + value.rem_euclid(per_second), per_second);
}

fn unit_digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to a string does not fail");
}

fn write_float(out: &mut String, finite: bool, value: f64, shortest: impl std::fmt::Debug) {
    if finite {
        write!(out, "{shortest:?}").expect("writing to a string does not fail");
    } else if value.is_nan() {
        out.push_str("NaN");
    } else {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
}

fn write_decimal(out: &mut String, value: i128, scale: i8) {
    if value < 0 {
        out.push('-');
    }
    let digits = value.unsigned_abs();
    match u32::try_from(scale) {
        Ok(0) => display(out, digits),
        Ok(scale) => match 10u128.checked_pow(scale) {
            Some(unit) => write!(out, "{}.{:0width$}", digits / unit, digits % unit, width = scale as usize)
                .expect("writing to a string does not fail"),
            None => write!(out, "0.{digits:0width$}", width = scale as usize).expect("writing to a string does not fail"),
        },
        Err(_) => {
            display(out, digits);
            if digits != 0 {
                out.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
            }
        }
    }
}

fn write_binary(out: &mut String, bytes: &[u8]) {
    out.push_str("x'");
    write_hex(out, bytes);
    out.push('\'');
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn write_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn write_date(out: &mut String, days: i64) {
    let (year, month, day) = civil_from_days(days);
    if year < 0 {
        out.push('-');
    }
    push_padded(out, year.unsigned_abs(), 4);
    out.push('-');
    push_padded(out, month.unsigned_abs(), 2);
    out.push('-');
    push_padded(out, day.unsigned_abs(), 2);
}

fn write_time(out: &mut String, value: i64, per_second: i64) {
    let seconds = value.div_euclid(per_second).unsigned_abs();
    push_padded(out, seconds / 3600, 2);
    out.push(':');
    push_padded(out, seconds / 60 % 60, 2);
    out.push(':');
    push_padded(out, seconds % 60, 2);
    let nanoseconds = (value.rem_euclid(per_second) * (1_000_000_000 / per_second)).unsigned_abs();
    if nanoseconds == 0 {
        return;
    }
    out.push('.');
    if nanoseconds.is_multiple_of(1_000_000) {
        push_padded(out, nanoseconds / 1_000_000, 3);
    } else if nanoseconds.is_multiple_of(1_000) {
        push_padded(out, nanoseconds / 1_000, 6);
    } else {
        push_padded(out, nanoseconds, 9);
    }
}

/// Appends a number with leading zeros; formatting by hand because timestamps are most of what a sink writes.
fn push_padded(out: &mut String, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let (mut at, mut rest) = (digits.len(), value);
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let from = at.min(digits.len() - width);
    out.extend(digits[from..].iter().map(|&digit| char::from(digit)));
}

fn write_list(out: &mut String, items: &dyn Array) {
    write_sequence(out, '[', ']', items.len(), |out, i| write_cell(out, items, i));
}

fn write_sequence(out: &mut String, open: char, close: char, len: usize, mut item: impl FnMut(&mut String, usize)) {
    out.push(open);
    for i in 0..len {
        if i > 0 {
            out.push_str(", ");
        }
        item(out, i);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;

    use super::*;

    fn texts(array: &dyn Array) -> Vec<String> {
        (0..array.len()).map(|row| cell(array, row)).collect()
    }

    #[test]
    fn a_timestamp_shows_a_fraction_only_where_there_is_one() {
        let array = TimestampMillisecondArray::from(vec![Some(5_000), Some(5_500), Some(-1), None]);
        assert_eq!(texts(&array), ["1970-01-01 00:00:05", "1970-01-01 00:00:05.500", "1969-12-31 23:59:59.999", "NULL"]);
        let array = TimestampNanosecondArray::from(vec![1_000_000_000, 1_500_000_000, 1_000_250_000, 1_000_000_001]);
        let expected = ["1970-01-01 00:00:01", "1970-01-01 00:00:01.500", "1970-01-01 00:00:01.000250", "1970-01-01 00:00:01.000000001"];
        assert_eq!(texts(&array), expected);
    }

    #[test]
    fn numbers_show_every_digit_they_have_and_no_other() {
        assert_eq!(
            texts(&Float64Array::from(vec![20.0, 0.1, -0.5, f64::NAN, f64::NEG_INFINITY])),
            ["20.0", "0.1", "-0.5", "NaN", "-Infinity"]
        );
        assert_eq!(texts(&Float32Array::from(vec![0.1])), ["0.1"]);
        let decimals = Decimal128Array::from(vec![12345, -5, 0]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(texts(&decimals), ["123.45", "-0.05", "0.00"]);
        let thousands = Decimal128Array::from(vec![12, 0]).with_precision_and_scale(10, -3).unwrap();
        assert_eq!(texts(&thousands), ["12000", "0"]);
        assert_eq!(texts(&UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
    }

    #[test]
    fn nested_values_show_their_parts() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), Some(vec![]), None]);
        assert_eq!(texts(&list), ["[1, NULL]", "[]", "NULL"]);
        let row = StructArray::from(vec![
            (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(vec![1])) as ArrayRef),
            (Arc::new(Field::new("b", DataType::Binary, true)), Arc::new(BinaryArray::from(vec![&[0u8, 255][..]])) as ArrayRef),
        ]);
        assert_eq!(texts(&row), ["{a: 1, b: x'00ff'}"]);
        let words: DictionaryArray<Int8Type> = [Some("x"), None, Some("y")].into_iter().collect();
        assert_eq!(texts(&words), ["x", "NULL", "y"]);
    }

    #[test]
    fn days_and_dates_are_inverse_over_nine_thousand_years() {
        for (days, date) in [(0, (1970, 1, 1)), (-1, (1969, 12, 31)), (11_016, (2000, 2, 29)), (20_454, (2026, 1, 1))] {
            assert_eq!(civil_from_days(days), date);
        }
        for days in -1_500_000..1_500_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn a_table_puts_numbers_to_the_right_and_counts_its_rows() {
        let batch = RecordBatch::try_from_iter([
            ("word", Arc::new(StringArray::from(vec!["a", "long"])) as ArrayRef),
            ("number", Arc::new(Int64Array::from(vec![1, 23])) as ArrayRef),
        ])
        .unwrap();
        let shown = table(&batch);
        assert!(shown.contains("│ a    ┆      1 │"), "{shown}");
        assert!(shown.ends_with("(2 rows)"), "{shown}");
        assert!(table(&batch.slice(0, 1)).ends_with("(1 row)"));
    }

    #[test]
    fn types_are_named_as_sql_names_them() {
        let names = [
            (DataType::Int64, "BIGINT"),
            (DataType::Decimal128(10, 2), "DECIMAL(10, 2)"),
            (DataType::Timestamp(TimeUnit::Millisecond, None), "TIMESTAMP(3)"),
            (DataType::new_list(DataType::Utf8, true), "ARRAY<VARCHAR>"),
            (DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into()), "ROW<a INT>"),
        ];
        for (data_type, name) in names {
            assert_eq!(type_name(&data_type), name);
        }
        assert_eq!(a_type_name(&DataType::Int32), "an INT");
        assert_eq!(a_type_name(&DataType::Int64), "a BIGINT");
    }
}
