//! Arrow columns to bytes and back.
//!
//! The encoding is that of `arrow-row`: the columns of a row one after another, each self-delimiting and comparing as
//! SQL orders its values under the column's [`SortOptions`](arrow::compute::SortOptions). So rows compare column by
//! column as plain bytes, the first columns of a row are a prefix of its bytes, and joining two rows is concatenation.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array, new_null_array};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use arrow::row::{RowConverter, Rows, SortField};

use super::{Diff, Time, Updates};
use crate::error::Result;
use crate::plan::{Column, RowType};

/// Encodes and decodes the rows of one [`RowType`], split into key and value.
pub struct Codec {
    schema: SchemaRef,
    key: usize,
    keys: RowConverter,
    values: RowConverter,
    rows: RowConverter,
}

impl Codec {
    /// A codec for rows whose first `key` columns are the key.
    pub fn new(row: &RowType, key: usize) -> Result<Self> {
        Ok(Codec {
            schema: row.schema(),
            key,
            keys: converter(&row.columns[..key])?,
            values: converter(&row.columns[key..])?,
            rows: converter(&row.columns)?,
        })
    }

    /// The Arrow schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Encodes rows and hands them over in containers of moderate size; `at(i)` gives the time and diff of row `i`.
    pub fn encode(&self, rows: &RecordBatch, at: impl Fn(usize) -> (Time, Diff), mut emit: impl FnMut(Updates)) -> Result<()> {
        let keys = encode_columns(&self.keys, &rows.columns()[..self.key])?;
        let values = encode_columns(&self.values, &rows.columns()[self.key..])?;
        let mut updates = Updates::default();
        for index in 0..rows.num_rows() {
            let (time, diff) = at(index);
            updates.push(row(&keys, index), row(&values, index), time, diff);
            if updates.is_full() {
                emit(std::mem::take(&mut updates));
            }
        }
        if !updates.is_empty() {
            emit(updates);
        }
        Ok(())
    }

    /// The encoded values (without keys) of columns that are the row's value columns.
    pub fn encode_values(&self, values: &[ArrayRef]) -> Result<Option<Rows>> {
        encode_columns(&self.values, values)
    }

    /// The encoded keys of columns that are the row's key columns.
    pub fn encode_keys(&self, keys: &[ArrayRef]) -> Result<Option<Rows>> {
        encode_columns(&self.keys, keys)
    }

    /// Decodes whole rows, key and value.
    pub fn decode<'a>(&self, rows: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<RecordBatch> {
        let count = rows.len();
        let columns = decode_columns(&self.rows, rows, self.schema.fields().is_empty())?;
        batch(&self.schema, columns, count)
    }

    /// Decodes the value columns of rows of which only the value is at hand.
    pub fn decode_values<'a>(&self, values: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        decode_columns(&self.values, values, self.schema.fields().len() == self.key)
    }

    /// Decodes the key columns of rows of which only the key is at hand.
    pub fn decode_keys<'a>(&self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        decode_columns(&self.keys, keys, self.key == 0)
    }
}

/// A batch that keeps its row count when it has no columns.
fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))?)
}

fn converter(columns: &[Column]) -> Result<RowConverter> {
    let fields = columns.iter().map(|c| SortField::new_with_options(c.data_type.clone(), c.sort)).collect();
    Ok(RowConverter::new(fields)?)
}

fn encode_columns(converter: &RowConverter, columns: &[ArrayRef]) -> Result<Option<Rows>> {
    if columns.is_empty() { Ok(None) } else { Ok(Some(converter.convert_columns(columns)?)) }
}

/// The bytes of an encoded row; those of no columns are none.
fn row(rows: &Option<Rows>, index: usize) -> &[u8] {
    rows.as_ref().map_or(&[], |rows| rows.row(index).data())
}

fn decode_columns<'a>(converter: &RowConverter, rows: impl Iterator<Item = &'a [u8]>, none: bool) -> Result<Vec<ArrayRef>> {
    if none {
        return Ok(vec![]);
    }
    let parser = converter.parser();
    let columns = converter.convert_rows(rows.map(|bytes| parser.parse(bytes)))?;
    columns.into_iter().map(over_zeros).collect()
}

/// A column whose NULLs of numbers stand over zeros. The converter leaves the least number of the type there, and there is
/// code that computes on it: DataFusion adds to it, and overflows.
fn over_zeros(column: ArrayRef) -> Result<ArrayRef> {
    let Some(width) = column.data_type().primitive_width().filter(|_| column.null_count() > 0) else { return Ok(column) };
    let data = column.to_data();
    let from = data.offset() * width;
    let mut bytes = MutableBuffer::new(data.len() * width);
    bytes.extend_from_slice(&data.buffers()[0].as_slice()[from..from + data.len() * width]);
    for row in (0..column.len()).filter(|row| column.is_null(*row)) {
        bytes.as_slice_mut()[row * width..(row + 1) * width].fill(0);
    }
    let made = ArrayData::builder(column.data_type().clone()).len(data.len()).nulls(data.nulls().cloned()).add_buffer(bytes.into());
    Ok(make_array(made.build()?))
}

/// The encoding of a TIMESTAMP(3) in a column that sorts ascending, NULLs first.
pub fn instant_bytes(milliseconds: i64) -> [u8; 9] {
    let mut bytes = [1; 9];
    bytes[1..].copy_from_slice(&(milliseconds ^ i64::MIN).to_be_bytes());
    bytes
}

/// The TIMESTAMP(3) that an encoded row begins with, in milliseconds, in a column that sorts ascending, NULLs first. None
/// of a NULL.
pub fn instant(row: &[u8]) -> Option<i64> {
    let (sentinel, rest) = row.split_first()?;
    let bytes = rest.first_chunk::<8>().filter(|_| *sentinel == 1)?;
    Some(i64::from_be_bytes(*bytes) ^ i64::MIN)
}

/// The DATE that an encoded row begins with, in days, in a column that sorts ascending, NULLs first. None of a NULL.
pub fn day(row: &[u8]) -> Option<i32> {
    let (sentinel, rest) = row.split_first()?;
    let bytes = rest.first_chunk::<4>().filter(|_| *sentinel == 1)?;
    Some(i32::from_be_bytes(*bytes) ^ i32::MIN)
}

/// The time that an encoded row begins with in a column that is a DATE or TIMESTAMP, NULLs first, in whole milliseconds. None
/// of a NULL.
pub fn milliseconds(column: &Column, row: &[u8]) -> Option<i64> {
    // A sentinel and eight bytes at most, which are inverted where the time sorts descending.
    let mut time: Vec<u8> = row.iter().take(9).copied().collect();
    if column.sort.descending {
        time.iter_mut().skip(1).for_each(|byte| *byte = !*byte);
    }
    Some(match column.data_type {
        DataType::Date32 => i64::from(day(&time)?) * 86_400_000,
        DataType::Timestamp(TimeUnit::Second, _) => instant(&time)?.saturating_mul(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => instant(&time)?.div_euclid(1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => instant(&time)?.div_euclid(1_000_000),
        _ => instant(&time)?,
    })
}

/// The encoding of a row in which every one of the columns is NULL.
pub fn null_row(columns: &[Column]) -> Result<Vec<u8>> {
    let nulls: Vec<ArrayRef> = columns.iter().map(|c| new_null_array(&c.data_type, 1)).collect();
    Ok(row(&encode_columns(&converter(columns)?, &nulls)?, 0).to_vec())
}

/// How many bytes the first `count` columns of an encoded row of `columns` take.
pub fn prefix_len(columns: &[Column], count: usize, row: &[u8]) -> Result<usize> {
    let mut len = 0;
    for column in &columns[..count] {
        match column_len(column, &row[len..]) {
            Some(width) => len += width,
            None => return prefix_len_by_decoding(columns, count, row),
        }
    }
    Ok(len)
}

/// Nested values delimit themselves too, but only the converter knows how: decode the row, and encode its prefix again.
fn prefix_len_by_decoding(columns: &[Column], count: usize, row: &[u8]) -> Result<usize> {
    let rows = converter(columns)?;
    let values = rows.convert_rows([rows.parser().parse(row)])?;
    Ok(converter(&columns[..count])?.convert_columns(&values[..count])?.row(0).data().len())
}

/// How many bytes the encoded column that `bytes` begin with takes; None for a nested one.
fn column_len(column: &Column, bytes: &[u8]) -> Option<usize> {
    match column.data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Some(variable_len(bytes, column.sort.descending))
        }
        _ => fixed_len(column),
    }
}

/// How many bytes an encoded column takes, where that is the same for every value: a sentinel byte, which is 1 but for
/// NULL, and the value's, inverted for descending order.
pub fn fixed_len(column: &Column) -> Option<usize> {
    Some(1 + fixed_width(&column.data_type)?)
}

/// Bytes of a fixed-width value behind its sentinel byte.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        other => other.primitive_width(),
    }
}

/// A string is one sentinel byte, then blocks (four of 8 bytes, then of 32), each followed by a byte that says whether
/// another one follows (0xFF) or how much of this one is used; all inverted for descending order.
fn variable_len(bytes: &[u8], descending: bool) -> usize {
    const NON_EMPTY: u8 = 2;
    const CONTINUES: u8 = 0xFF;
    let plain = |byte: u8| if descending { !byte } else { byte };
    let sentinel = bytes[0];
    // NULL is 0 or 0xFF whatever the direction; 0xFF inverted is 0 and 0 inverted is 0xFF, neither of which is NON_EMPTY.
    if plain(sentinel) != NON_EMPTY {
        return 1;
    }
    let mut len = 1;
    for block in 0.. {
        let size = if block < 4 { 8 } else { 32 };
        len += size + 1;
        if plain(bytes[len - 1]) != CONTINUES {
            break;
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray};
    use arrow::compute::SortOptions;

    fn columns(sort: SortOptions) -> Vec<Column> {
        let mut columns = vec![
            Column::new("a", DataType::Int32, true),
            Column::new("b", DataType::Utf8, true),
            Column::new("c", DataType::Float64, true),
            Column::new("d", DataType::Utf8, true),
        ];
        columns.iter_mut().for_each(|c| c.sort = sort);
        columns
    }

    #[test]
    fn the_length_of_a_nested_value_is_found_too() {
        use arrow::array::ListArray;
        use arrow::datatypes::{Field, Int32Type};
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        let columns = [Column::new("a", list, true), Column::new("b", DataType::Utf8, true)];
        let lists = vec![Some(vec![Some(1), None, Some(3)]), None, Some(vec![]), Some(vec![Some(7); 40])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some(""), Some("a longer one than eight")]));
        let rows = converter(&columns).unwrap().convert_columns(&[lists.clone(), strings]).unwrap();
        let prefixes = converter(&columns[..1]).unwrap().convert_columns(&[lists]).unwrap();
        for index in 0..4 {
            let row = rows.row(index).data();
            assert_eq!(prefix_len(&columns, 1, row).unwrap(), prefixes.row(index).data().len());
            assert_eq!(prefix_len(&columns, 2, row).unwrap(), row.len());
        }
    }

    fn sample() -> Vec<ArrayRef> {
        let strings: Vec<Option<String>> = (0..200).map(|n| (n % 7 != 3).then(|| "x".repeat(n))).collect();
        vec![
            Arc::new(Int32Array::from_iter((0..200).map(|n| (n % 5 != 0).then_some(n - 100)))),
            Arc::new(StringArray::from_iter(strings.clone())),
            Arc::new(Float64Array::from_iter((0..200).map(|n| (n % 3 != 0).then_some(n as f64 / 8.0)))),
            Arc::new(StringArray::from_iter(strings.into_iter().rev())),
        ]
    }

    #[test]
    fn prefix_lengths_are_those_that_the_converter_gives_each_prefix() {
        for sort in [(false, true), (false, false), (true, true), (true, false)]
            .map(|(descending, nulls_first)| SortOptions { descending, nulls_first })
        {
            let (columns, arrays) = (columns(sort), sample());
            let rows = converter(&columns).unwrap().convert_columns(&arrays).unwrap();
            for count in 1..=columns.len() {
                let prefixes = converter(&columns[..count]).unwrap().convert_columns(&arrays[..count]).unwrap();
                for index in 0..rows.num_rows() {
                    assert_eq!(prefix_len(&columns, count, rows.row(index).data()).unwrap(), prefixes.row(index).data().len());
                }
            }
        }
    }

    #[test]
    fn a_null_is_decoded_over_zeros_in_any_order_of_its_column() {
        use arrow::array::AsArray;
        use arrow::datatypes::{Float64Type, Int32Type};
        for descending in [false, true] {
            let (columns, arrays) = (columns(SortOptions { descending, nulls_first: true }), sample());
            let converter = converter(&columns).unwrap();
            let rows = converter.convert_columns(&arrays).unwrap();
            let decoded = decode_columns(&converter, (0..200).map(|row| rows.row(row).data()), false).unwrap();
            assert_eq!(decoded, arrays);
            let (integers, doubles) = (decoded[0].as_primitive::<Int32Type>(), decoded[2].as_primitive::<Float64Type>());
            assert!((0..200).filter(|row| integers.is_null(*row)).all(|row| integers.value(row) == 0));
            assert!((0..200).filter(|row| doubles.is_null(*row)).all(|row| doubles.value(row) == 0.0));
        }
    }

    #[test]
    fn a_row_is_the_concatenation_of_its_key_and_its_value_and_decodes_to_itself() {
        let row = RowType::new(columns(SortOptions::default()));
        let rows = batch(&row.schema(), sample(), 200).unwrap();
        for key in 0..=4 {
            let codec = Codec::new(&row, key).unwrap();
            let mut decoded = vec![];
            codec
                .encode(
                    &rows,
                    |i| (7, i as i64 + 1),
                    |updates| {
                        decoded.push(codec.decode((0..updates.len()).map(|i| updates.row(i)).collect::<Vec<_>>().into_iter()).unwrap());
                    },
                )
                .unwrap();
            assert_eq!(arrow::compute::concat_batches(&row.schema(), &decoded).unwrap(), rows);
        }
    }
}
