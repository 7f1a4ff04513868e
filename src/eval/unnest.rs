//! Lists to rows.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::DataFusionError;

use super::display::readable_type;
use super::linear::batch;

/// One row for each element of the list in `column`, in which the element takes the list's place, and for each row
/// the row that it came from. An empty or NULL list gives no row, or with `outer` one row of NULL. Lists of structs
/// give structs.
pub(super) fn unnest(rows: &RecordBatch, column: usize, outer: bool) -> Result<(RecordBatch, Vec<u32>), DataFusionError> {
    let lists = Lists::of(rows.column(column)).ok_or_else(|| {
        let field = rows.schema_ref().field(column);
        DataFusionError::Execution(format!("UNNEST takes a list, column '{}' is {}", field.name(), readable_type(field.data_type())))
    })?;
    let mut from: Vec<u32> = vec![];
    let mut elements: Vec<Option<u64>> = vec![];
    for row in 0..rows.num_rows() {
        let range = lists.elements(row);
        if range.is_empty() && outer {
            from.push(row as u32);
            elements.push(None);
        }
        from.extend(range.clone().map(|_| row as u32));
        elements.extend(range.map(|element| Some(element as u64)));
    }

    let (from, elements) = (UInt32Array::from(from), UInt64Array::from(elements));
    let mut columns: Vec<ArrayRef> = vec![];
    let mut fields: Vec<FieldRef> = vec![];
    for (i, (field, array)) in rows.schema_ref().fields().iter().zip(rows.columns()).enumerate() {
        if i == column {
            let array = take(lists.values, &elements, None)?;
            let nullable = lists.element.is_nullable() || outer || array.is_nullable();
            fields.push(Field::new(field.name(), lists.element.data_type().clone(), nullable).into());
            columns.push(array);
        } else {
            fields.push(field.clone());
            columns.push(take(array, &from, None)?);
        }
    }
    Ok((batch(Schema::new(fields), columns, from.len())?, from.values().to_vec()))
}

/// A list column of any of Arrow's layouts.
struct Lists<'a> {
    array: &'a ArrayRef,
    element: &'a FieldRef,
    values: &'a ArrayRef,
}

impl<'a> Lists<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        let (element, values) = match array.data_type() {
            DataType::List(element) => (element, array.as_list::<i32>().values()),
            DataType::LargeList(element) => (element, array.as_list::<i64>().values()),
            DataType::FixedSizeList(element, _) => (element, array.as_fixed_size_list().values()),
            _ => return None,
        };
        Some(Lists { array, element, values })
    }

    /// Where a row's elements are in `values`; nowhere for a NULL list.
    fn elements(&self, row: usize) -> Range<usize> {
        if self.array.is_null(row) {
            return 0..0;
        }
        match self.array.data_type() {
            DataType::List(_) => {
                let offsets = self.array.as_list::<i32>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
            DataType::LargeList(_) => {
                let offsets = self.array.as_list::<i64>().value_offsets();
                offsets[row] as usize..offsets[row + 1] as usize
            }
            _ => {
                let lists = self.array.as_fixed_size_list();
                let (start, length) = (lists.value_offset(row) as usize, lists.value_length() as usize);
                start..start + length
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{FixedSizeListArray, Int64Array, LargeListArray, ListArray, StructArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    type List = Option<Vec<Option<i64>>>;

    /// `(id, list, tag)` with id = tag = 1, 2, ...
    fn rows(list: ArrayRef) -> RecordBatch {
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=list.len() as i64));
        RecordBatch::try_from_iter_with_nullable([("id", id.clone(), false), ("list", list, true), ("tag", id, false)]).unwrap()
    }

    fn ids_and_elements(rows: &RecordBatch) -> Vec<(i64, Option<i64>)> {
        let column = |i: usize| rows.column(i).as_primitive::<Int64Type>();
        assert_eq!(column(0), column(2));
        column(0).values().iter().copied().zip(column(1)).collect()
    }

    fn lists() -> Vec<List> {
        vec![Some(vec![Some(10), None]), None, Some(vec![]), Some(vec![Some(40)])]
    }

    #[test]
    fn each_element_is_a_row_and_an_empty_or_null_list_is_none() {
        let expected = [(1, Some(10)), (1, None), (4, Some(40))];
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists()));
        let large: ArrayRef = Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(lists()));
        for list in [list, large] {
            let (out, from) = unnest(&rows(list), 1, false).unwrap();
            assert_eq!(ids_and_elements(&out), expected);
            assert_eq!(from, [0, 0, 3]);
        }
    }

    #[test]
    fn an_outer_unnest_keeps_rows_whose_list_has_nothing() {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists()));
        let (out, from) = unnest(&rows(list), 1, true).unwrap();
        assert_eq!(ids_and_elements(&out), [(1, Some(10)), (1, None), (2, None), (3, None), (4, Some(40))]);
        assert_eq!(from, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_null_list_of_fixed_size_is_no_rows_though_it_has_slots() {
        let lists = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![Some(5), Some(6)])];
        let list: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(lists, 2));
        let (out, _) = unnest(&rows(list.clone()), 1, false).unwrap();
        assert_eq!(ids_and_elements(&out), [(1, Some(1)), (1, Some(2)), (3, Some(5)), (3, Some(6))]);
        let (out, _) = unnest(&rows(list).slice(2, 1), 1, false).unwrap();
        assert_eq!(ids_and_elements(&out), [(3, Some(5)), (3, Some(6))]);
    }

    #[test]
    fn a_slice_unnests_its_own_lists() {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists()));
        let (out, from) = unnest(&rows(list).slice(2, 2), 1, false).unwrap();
        assert_eq!(ids_and_elements(&out), [(4, Some(40))]);
        assert_eq!(from, [1]);
    }

    #[test]
    fn a_list_of_structs_gives_structs() {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, false));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let structs = StructArray::from(vec![(field("a"), values.clone()), (field("b"), values)]);
        let item = Arc::new(Field::new("item", structs.data_type().clone(), false));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([2, 1]);
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(structs), None));
        let (out, from) = unnest(&rows(list), 1, false).unwrap();
        assert!(matches!(out.column(1).data_type(), DataType::Struct(fields) if fields.len() == 2));
        assert_eq!(from, [0, 0, 1]);
    }

    #[test]
    fn what_is_no_list_is_refused_by_name() {
        let error = unnest(&rows(Arc::new(Int64Array::from(vec![1]))), 1, false).unwrap_err();
        assert!(error.to_string().contains("column 'list' is BIGINT"), "{error}");
    }
}
