//! Rows of either engine in one form, and when two results are the same multiset.
//!
//! Booleans read as 0 and 1, lists as `[1, NULL]`. Doubles are equal within a relative 1e-9; everything else exactly.

use std::cmp::Ordering;
use std::fmt;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Double(f64),
    Text(String),
}

/// A row of a result or a table.
pub type Row = Vec<Value>;

impl Value {
    /// The value as an SQL literal of both engines.
    pub fn sql(&self) -> String {
        match self {
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Double(number) => format!("{number:?}"),
            other => other.to_string(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            Value::Null | Value::Text(_) => None,
        }
    }

    fn is_like(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a == b,
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => is_close(a, b),
                _ => self == other,
            },
        }
    }

    /// What sorts and groups equal values together, however an engine typed them.
    fn key(&self) -> String {
        match self.number() {
            // 0.0 and -0.0 are one value
            Some(number) => format!("{:.8e}", number + 0.0),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Double(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "'{text}'"),
        }
    }
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) || (a - b).abs() < 1e-12
}

/// A row as text.
pub fn show(row: &[Value]) -> String {
    let values: Vec<String> = row.iter().map(Value::to_string).collect();
    format!("({})", values.join(", "))
}

/// A row as a key of a map, with doubles rounded to nine digits.
pub fn key(row: &[Value]) -> String {
    row.iter().map(|value| value.key() + "\u{1f}").collect()
}

/// The rows of a batch.
pub fn rows(batch: &RecordBatch) -> Vec<Row> {
    let columns: Vec<Vec<Value>> = batch.columns().iter().map(values).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// The values of a column.
pub fn values(array: &ArrayRef) -> Vec<Value> {
    let as_type =
        |to: &DataType| cast(array, to).unwrap_or_else(|e| panic!("a column of {} does not read as {to}: {e}", array.data_type()));
    let read = |array: &dyn Array, value: &dyn Fn(usize) -> Value| -> Vec<Value> {
        (0..array.len()).map(|row| if array.is_null(row) { Value::Null } else { value(row) }).collect()
    };
    match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => read(array, &|row| Value::Int(i64::from(array.as_boolean().value(row)))),
        data_type if data_type.is_integer() => {
            let numbers = as_type(&DataType::Int64);
            read(&numbers, &|row| Value::Int(numbers.as_primitive::<Int64Type>().value(row)))
        }
        data_type if data_type.is_numeric() => {
            let numbers = as_type(&DataType::Float64);
            read(&numbers, &|row| Value::Double(numbers.as_primitive::<Float64Type>().value(row)))
        }
        DataType::List(_) => read(array, &|row| {
            let elements: Vec<String> = values(&array.as_list::<i32>().value(row)).iter().map(Value::to_string).collect();
            Value::Text(format!("[{}]", elements.join(", ")))
        }),
        _ => {
            let texts = as_type(&DataType::Utf8);
            read(&texts, &|row| Value::Text(texts.as_string::<i32>().value(row).to_string()))
        }
    }
}

/// How two multisets of rows differ; None where they are the same.
pub fn difference(got: &[Row], expected: &[Row]) -> Option<String> {
    let sorted = |rows: &[Row]| {
        let mut keyed: Vec<(String, Row)> = rows.iter().map(|row| (key(row), row.clone())).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        keyed
    };
    let (got, expected) = (sorted(got), sorted(expected));
    let is_like = |a: &Row, b: &Row| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b));
    if got.len() == expected.len() && got.iter().zip(&expected).all(|(a, b)| is_like(&a.1, &b.1)) {
        return None;
    }
    let (mut missing, mut surplus) = (vec![], vec![]);
    let (mut g, mut e) = (got.iter().peekable(), expected.iter().peekable());
    loop {
        let order = match (g.peek(), e.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) if is_like(&a.1, &b.1) => Ordering::Equal,
            // equal keys of unlike values (a double where an integer was due) count as two rows
            (Some(a), Some(b)) => a.0.cmp(&b.0).then(Ordering::Less),
        };
        if order.is_le()
            && let Some((_, row)) = g.next()
            && order.is_lt()
        {
            surplus.push(show(row));
        }
        if order.is_ge()
            && let Some((_, row)) = e.next()
            && order.is_gt()
        {
            missing.push(show(row));
        }
    }
    Some(format!("{} rows where {} are due; missing: {}; not due: {}", got.len(), expected.len(), list(&missing), list(&surplus)))
}

fn list(rows: &[String]) -> String {
    const SHOWN: usize = 8;
    match rows.len() {
        0 => "none".into(),
        n if n > SHOWN => format!("{} and {} more", rows[..SHOWN].join(" "), n - SHOWN),
        _ => rows.join(" "),
    }
}

#[test]
fn results_are_equal_as_multisets_and_doubles_within_a_billionth() {
    let row = |number: f64| vec![Value::Int(1), Value::Double(number)];
    assert_eq!(difference(&[row(0.1 + 0.2), row(1.0)], &[row(1.0), row(0.3)]), None);
    assert!(difference(&[row(1.0)], &[row(1.0), row(1.0)]).is_some(), "a duplicate counts");
    assert!(difference(&[row(1.000001)], &[row(1.0)]).is_some());
    assert_eq!(difference(&[vec![Value::Int(2)]], &[vec![Value::Double(2.0)]]), None);
}
