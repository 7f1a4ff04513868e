//! Values as whole numbers in the same order.
//!
//! The least and the greatest of many values can be kept as a number if values are as numbers are: as many, and in the order
//! that rows have. Numbers, dates and times of up to 64 bits are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::error::{Error, Result};

/// Calls a macro with the type of an Arrow array whose values are integers that go into 64 bits with their sign.
macro_rules! with_integers {
    ($data_type:expr, $call:ident, $other:expr) => {
        match $data_type {
            DataType::Int8 => $call!(Int8Type),
            DataType::Int16 => $call!(Int16Type),
            DataType::Int32 => $call!(Int32Type),
            DataType::Int64 => $call!(Int64Type),
            DataType::UInt8 => $call!(UInt8Type),
            DataType::UInt16 => $call!(UInt16Type),
            DataType::UInt32 => $call!(UInt32Type),
            DataType::Date32 => $call!(Date32Type),
            DataType::Date64 => $call!(Date64Type),
            DataType::Time32(TimeUnit::Second) => $call!(Time32SecondType),
            DataType::Time32(TimeUnit::Millisecond) => $call!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => $call!(Time64MicrosecondType),
            DataType::Time64(TimeUnit::Nanosecond) => $call!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => $call!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $call!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $call!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $call!(TimestampNanosecondType),
            DataType::Duration(TimeUnit::Second) => $call!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => $call!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => $call!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => $call!(DurationNanosecondType),
            _ => $other,
        }
    };
}

/// Whether values of a type have a rank: [`ranks`] and [`of_ranks`] know it.
pub fn has_rank(data_type: &DataType) -> bool {
    macro_rules! yes {
        ($arrow:ty) => {
            true
        };
    }
    let others = matches!(data_type, DataType::Boolean | DataType::UInt64 | DataType::Float32 | DataType::Float64);
    others || with_integers!(data_type, yes, false)
}

/// The ranks of a column's values, by row; what it is of a NULL does not matter.
pub fn ranks(column: &ArrayRef) -> Result<Box<dyn Fn(usize) -> i64 + '_>> {
    macro_rules! integers {
        ($arrow:ty) => {{
            let values = column.as_primitive::<$arrow>().values();
            Box::new(move |row| i64::from(values[row]))
        }};
    }
    Ok(match column.data_type() {
        DataType::Boolean => {
            let values: &BooleanArray = column.as_boolean();
            Box::new(move |row| i64::from(values.value(row)))
        }
        DataType::UInt64 => {
            let values = column.as_primitive::<UInt64Type>().values();
            Box::new(move |row| values[row] as i64 ^ i64::MIN)
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            Box::new(move |row| i64::from(flipped32(values[row].to_bits() as i32)))
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            Box::new(move |row| flipped(values[row].to_bits() as i64))
        }
        other => with_integers!(other, integers, return Err(unranked(other))),
    })
}

/// The values of these ranks.
pub fn of_ranks(ranks: impl Iterator<Item = Option<i64>>, data_type: &DataType) -> Result<ArrayRef> {
    macro_rules! integers {
        ($arrow:ty) => {{
            // A rank is that of a value of the type, which it goes back into.
            let values = ranks.map(|rank| rank.map(|rank| rank as <$arrow as arrow::datatypes::ArrowPrimitiveType>::Native));
            Arc::new(PrimitiveArray::<$arrow>::from_iter(values).with_data_type(data_type.clone()))
        }};
    }
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(ranks.map(|rank| rank.map(|rank| rank != 0)))),
        DataType::UInt64 => {
            let values = ranks.map(|rank| rank.map(|rank| (rank ^ i64::MIN) as u64));
            Arc::new(PrimitiveArray::<UInt64Type>::from_iter(values))
        }
        DataType::Float32 => {
            let values = ranks.map(|rank| rank.map(|rank| f32::from_bits(flipped32(rank as i32) as u32)));
            Arc::new(PrimitiveArray::<Float32Type>::from_iter(values))
        }
        DataType::Float64 => {
            let values = ranks.map(|rank| rank.map(|rank| f64::from_bits(flipped(rank) as u64)));
            Arc::new(PrimitiveArray::<Float64Type>::from_iter(values))
        }
        other => with_integers!(other, integers, return Err(unranked(other))),
    })
}

/// The bits of a double as a number in the order of doubles (IEEE 754's total order, which rows have), and back.
fn flipped(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The same of a float.
fn flipped32(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

fn unranked(data_type: &DataType) -> Error {
    Error::invalid(format!("the least and the greatest {data_type} cannot be kept as a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float32Array, Float64Array, Int64Array, UInt64Array};
    use arrow::compute::cast;
    use arrow::row::{RowConverter, SortField};

    /// Values at the ends of a type's range, and some between.
    fn columns() -> Vec<ArrayRef> {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, -86_400_000, -3, -1, 0, 1, 2, 86_400_000, i64::MAX]));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![true, false])),
            Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1, 1 << 63, (1 << 63) - 1])),
            Arc::new(Float64Array::from(vec![
                f64::NAN,
                -f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -0.0,
                0.0,
                1.5,
                -1.5,
                5e-324,
                f64::MIN,
            ])),
            Arc::new(Float32Array::from(vec![f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1.5, -1.5, f32::MAX])),
            integers.clone(),
        ];
        let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
        let types = units
            .iter()
            .flat_map(|unit| [DataType::Timestamp(*unit, None), DataType::Timestamp(*unit, Some("UTC".into())), DataType::Duration(*unit)]);
        columns.extend(types.chain([DataType::Date64]).map(|data_type| cast(&integers, &data_type).unwrap()));
        let narrow: ArrayRef = Arc::new(Int64Array::from(vec![-128, -1, 0, 1, 127, 200, 65_535]));
        let types = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::UInt8, DataType::UInt16, DataType::UInt32];
        columns.extend(types.into_iter().map(|data_type| cast(&narrow, &data_type).unwrap()));
        let int32 = cast(&narrow, &DataType::Int32).unwrap();
        let times = [DataType::Date32, DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)];
        columns.extend(times.into_iter().map(|data_type| cast(&int32, &data_type).unwrap()));
        let times = [DataType::Time64(TimeUnit::Microsecond), DataType::Time64(TimeUnit::Nanosecond)];
        columns.extend(times.into_iter().map(|data_type| cast(&narrow, &data_type).unwrap()));
        columns
    }

    #[test]
    fn ranks_are_in_the_order_of_rows_and_lead_back_to_the_values() {
        for column in columns() {
            let data_type = column.data_type();
            assert!(has_rank(data_type));
            let rows =
                RowConverter::new(vec![SortField::new(data_type.clone())]).unwrap().convert_columns(std::slice::from_ref(&column)).unwrap();
            let rank = ranks(&column).unwrap();
            let present: Vec<usize> = (0..column.len()).filter(|row| column.is_valid(*row)).collect();
            for (a, b) in present.iter().flat_map(|a| present.iter().map(move |b| (*a, *b))) {
                assert_eq!(rank(a).cmp(&rank(b)), rows.row(a).cmp(&rows.row(b)), "{data_type}, rows {a} and {b}");
            }
            let back = of_ranks((0..column.len()).map(|row| column.is_valid(row).then(|| rank(row))), data_type).unwrap();
            // By their bytes: NaN is not equal to itself.
            let again =
                RowConverter::new(vec![SortField::new(data_type.clone())]).unwrap().convert_columns(std::slice::from_ref(&back)).unwrap();
            assert_eq!((back.data_type(), again.num_rows()), (data_type, rows.num_rows()));
            assert!((0..rows.num_rows()).all(|row| again.row(row) == rows.row(row)), "{data_type}");
        }
    }

    #[test]
    fn what_is_longer_or_has_no_order_of_its_own_has_no_rank() {
        for data_type in [DataType::Utf8, DataType::Decimal128(10, 2), DataType::Binary, DataType::Null] {
            assert!(!has_rank(&data_type) && of_ranks(std::iter::once(None), &data_type).is_err());
        }
    }
}
