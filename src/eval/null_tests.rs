//! What stands under a NULL is nobody's business.
//!
//! A NULL has a slot in an Arrow column, and what is in it is arbitrary: rows decode NULLs over zeros, but a kernel leaves
//! what it has computed. Arrow and DataFusion may compute on it all the same. So every function, cast and
//! operator that there is is tried on NULLs over the ends of their types, and has to give what it gives of NULLs over zeros.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, Int64Array, RecordBatch, StringArray, make_array};
use arrow::buffer::Buffer;
use arrow::compute::{can_cast_types, cast};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::Operator;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column, NegativeExpr, binary, lit};

use super::checked;
use crate::plan::Scalar;
use crate::sql::functions::functions;

/// The byte that a NULL's slot is full of: nothing, the least and the greatest integer, and some other number.
const UNDER: [u8; 4] = [0x00, 0x80, 0xff, 0x7f];

/// Types of a fixed width, whose slots hold something.
fn types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Int32,
        Int64,
        UInt64,
        Float64,
        Decimal128(20, 2),
        Date32,
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Millisecond, None),
        Timestamp(TimeUnit::Nanosecond, None),
        Timestamp(TimeUnit::Millisecond, Some("+00:00".into())),
        Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into())),
        Interval(IntervalUnit::MonthDayNano),
    ]
}

/// A column whose first value is an ordinary one, and whose second is NULL over bytes.
fn column(data_type: &DataType, under: u8) -> Option<ArrayRef> {
    if *data_type == DataType::Utf8 {
        return Some(Arc::new(StringArray::from(vec![Some("2"), None])));
    }
    let ordinary = match data_type {
        DataType::Interval(_) => ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(1, 2, 3))).to_array().ok()?,
        DataType::Timestamp(unit, _) => cast(&cast(&Int64Array::from(vec![2]), &DataType::Timestamp(*unit, None)).ok()?, data_type).ok()?,
        _ => cast(&cast(&Int64Array::from(vec![2]), &DataType::Int32).ok()?, data_type)
            .or_else(|_| cast(&Int64Array::from(vec![2]), data_type))
            .ok()?,
    };
    let width = data_type.primitive_width()?;
    let mut bytes = ordinary.to_data().buffers()[0].as_slice()[..width].to_vec();
    // The most significant byte is the last one; the least integer is 0x80 and then nothing.
    let fill = match under {
        0x00 | 0x80 => 0x00,
        _ => 0xff,
    };
    bytes.extend(std::iter::repeat_n(fill, width - 1).chain([under]));
    let data = ArrayData::builder(data_type.clone()).len(2).null_bit_buffer(Some(Buffer::from([0b01]))).add_buffer(bytes.into());
    Some(make_array(data.build().ok()?))
}

fn rows(types: &[DataType], under: u8) -> Option<RecordBatch> {
    let columns = types.iter().map(|data_type| column(data_type, under)).collect::<Option<Vec<_>>>()?;
    RecordBatch::try_new(Arc::new(schema(types)), columns).ok()
}

fn schema(types: &[DataType]) -> Schema {
    Schema::new(types.iter().enumerate().map(|(at, data_type)| Field::new(format!("c{at}"), data_type.clone(), true)).collect::<Vec<_>>())
}

fn read(at: usize) -> Scalar {
    Arc::new(Column::new(&format!("c{at}"), at))
}

/// What the expression comes to of NULLs over these bytes: a value, an error, or a panic.
fn outcome(expr: &Scalar, types: &[DataType], under: u8) -> String {
    let Some(rows) = rows(types, under) else { return "no rows".into() };
    let evaluated = catch_unwind(AssertUnwindSafe(|| expr.evaluate(&rows).and_then(|value| value.into_array(2))));
    match evaluated {
        Err(_) => "a panic".into(),
        Ok(Err(error)) => format!("the error {}", error.strip_backtrace().split('\n').next().unwrap_or_default()),
        // What stands under a NULL of the result is nobody's business, either.
        Ok(Ok(array)) => (0..2).map(|row| if array.is_null(row) { "NULL".into() } else { crate::text::cell(&array, row) } + " ").collect(),
    }
}

/// What differs between NULLs over zeros and NULLs over anything else, or panics.
fn differences(what: &str, expr: &Scalar, types: &[DataType], into: &mut Vec<String>) {
    let [zeros, others @ ..] = UNDER.map(|under| outcome(expr, types, under));
    for (other, under) in others.into_iter().zip(&UNDER[1..]) {
        if other != zeros || zeros == "a panic" {
            into.push(format!("{what} of {types:?}: {zeros} over zeros, {other} over {under:#x}"));
        }
    }
}

/// Values of random functions differ anyhow.
const RANDOM: [&str; 2] = ["random", "uuid"];

#[test]
fn no_function_gives_anything_else_or_panics_for_what_stands_under_a_null() {
    let literals = |data_type: &DataType| -> Vec<Scalar> {
        match data_type {
            DataType::Utf8 => ["hour", "month", "%Y-%m-%d", "a"].map(lit).to_vec(),
            DataType::Int64 => vec![lit(1i64)],
            DataType::Interval(_) => {
                let interval =
                    |months, days, nanos| lit(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos))));
                vec![interval(0, 1, 0), interval(1, 0, 0)]
            }
            _ => vec![],
        }
    };
    let types: Vec<DataType> = types().into_iter().chain([DataType::Utf8]).collect();
    let lists: Vec<Vec<DataType>> = types
        .iter()
        .map(|one| vec![one.clone()])
        .chain(types.iter().flat_map(|one| types.iter().map(move |two| vec![one.clone(), two.clone()])))
        .chain([DataType::Int64, DataType::Int32].map(|integer| vec![integer; 3]))
        .chain([vec![DataType::Utf8, DataType::Int64, DataType::Int64], vec![DataType::Utf8, DataType::Int64, DataType::Utf8]])
        .collect();
    let mut found = vec![];
    let mut tried = std::collections::BTreeSet::new();
    for (name, function) in &functions().scalar {
        if RANDOM.contains(&name.as_str()) || *name != function.name() {
            continue;
        }
        for types in &lists {
            let fields: Vec<_> = schema(types).fields().to_vec();
            let Ok(coerced) = fields_with_udf(&fields, function.as_ref()) else { continue };
            if coerced.iter().map(|field| field.data_type()).ne(types) {
                continue;
            }
            let mut arguments: Vec<Vec<Scalar>> = vec![(0..types.len()).map(read).collect()];
            for (at, data_type) in types.iter().enumerate() {
                for literal in literals(data_type) {
                    let mut with = arguments[0].clone();
                    with[at] = literal;
                    arguments.push(with);
                }
            }
            for arguments in arguments {
                let call = ScalarFunctionExpr::try_new(Arc::clone(function), arguments, &schema(types), Arc::new(ConfigOptions::default()));
                let Ok(call) = call else { continue };
                tried.insert(name);
                differences(&call.to_string(), &(Arc::new(call) as Scalar), types, &mut found);
            }
        }
    }
    assert!(tried.len() > 100, "{} functions were tried", tried.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_cast_gives_anything_else_or_panics_for_what_stands_under_a_null() {
    let mut found = vec![];
    for from in types() {
        for to in types().into_iter().chain([DataType::Utf8]).filter(|to| can_cast_types(&from, to)) {
            let expr: Scalar = Arc::new(CastExpr::new(read(0), to.clone(), None));
            differences(&format!("CAST AS {to}"), &expr, std::slice::from_ref(&from), &mut found);
            let ours = super::cast_to(read(0), &schema(std::slice::from_ref(&from)), to.clone()).unwrap();
            differences(&format!("our CAST AS {to}"), &ours, std::slice::from_ref(&from), &mut found);
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_operator_gives_anything_else_or_panics_for_what_stands_under_a_null() {
    use Operator::*;
    let mut found = vec![];
    for left in types() {
        for right in types() {
            let types = [left.clone(), right.clone()];
            for op in [Plus, Minus, Multiply, Divide, Modulo, Lt, Eq, BitwiseAnd, BitwiseShiftLeft, BitwiseShiftRight] {
                // DataFusion adds what is under NULLs to a TIME: rows have zeros there. Bits are of one type of integers.
                let is_time =
                    types.contains(&DataType::Time64(TimeUnit::Nanosecond)) && types.iter().any(|of| matches!(of, DataType::Interval(_)));
                let is_bits = matches!(op, BitwiseAnd | BitwiseShiftLeft | BitwiseShiftRight);
                if is_time || is_bits && !(left == right && left.is_integer()) {
                    continue;
                }
                let Ok(expr) = binary(read(0), op, read(1), &schema(&types)) else { continue };
                differences(&op.to_string(), &checked(expr), &types, &mut found);
            }
        }
        let negative: Scalar = Arc::new(NegativeExpr::new(read(0)));
        differences("minus", &checked(negative), &[left.clone(), left], &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
