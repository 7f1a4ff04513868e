//! Aggregates that are recomputed over their group.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take};
use datafusion_common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;

use super::caught::caught;
use super::display::readable_aggregate;
use super::exact::Addends;
use super::failure::reason;
use super::linear::truths;
use crate::error::{Error, Result};
use crate::plan::{GeneralAggregate, Scalar};

/// The values of general aggregates over one group: `rows` are the group's value columns, each row `diffs[i]` (> 0)
/// times. One array of length one an aggregate; of no rows, what the aggregate is of nothing.
///
/// Rows reach an order-sensitive aggregate in the order of `rows`, which decides between peers of its own ORDER BY.
/// DISTINCT costs the rows, not their multiplicities.
pub fn aggregate(aggregates: &[GeneralAggregate], rows: &RecordBatch, diffs: &[i64]) -> Result<Vec<ArrayRef>> {
    let value = |aggregate: &GeneralAggregate| {
        caught(|| value(aggregate, rows, diffs)?.to_array())
            .map_err(|error| Error::Data(format!("{}: {}", readable_aggregate(&aggregate.function), reason(&error))))
    };
    aggregates.iter().map(value).collect()
}

fn value(aggregate: &GeneralAggregate, rows: &RecordBatch, diffs: &[i64]) -> DataFusionResult<ScalarValue> {
    let function = &aggregate.function;
    let (rows, diffs) = passing(aggregate.filter.as_ref(), rows, diffs)?;
    let inputs = inputs(function, &rows)?;
    let inputs = if function.is_distinct() { inputs } else { repeat(inputs, &diffs)? };
    if let Some(addends) = Addends::of(function, &inputs[0])? {
        return addends.total();
    }
    let mut accumulator = function.create_accumulator()?;
    if !inputs[0].is_empty() {
        accumulator.update_batch(&inputs)?;
    }
    accumulator.evaluate()
}

/// The rows on which the FILTER is true.
fn passing(predicate: Option<&Scalar>, rows: &RecordBatch, diffs: &[i64]) -> DataFusionResult<(RecordBatch, Vec<i64>)> {
    let Some(predicate) = predicate.filter(|_| rows.num_rows() > 0) else {
        return Ok((rows.clone(), diffs.to_vec()));
    };
    let passing = truths(predicate, rows)?;
    let diffs = passing.values().set_indices().map(|row| diffs[row]).collect();
    Ok((filter_record_batch(rows, &passing)?, diffs))
}

/// What an accumulator is fed: the arguments, then the columns of the aggregate's own ORDER BY.
fn inputs(function: &AggregateFunctionExpr, rows: &RecordBatch) -> DataFusionResult<Vec<ArrayRef>> {
    let arguments = function.expressions();
    let order = function.order_bys().iter().map(|order| &order.expr);
    arguments.iter().chain(order).map(|expr| expr.evaluate(rows)?.into_array(rows.num_rows())).collect()
}

fn repeat(columns: Vec<ArrayRef>, diffs: &[i64]) -> DataFusionResult<Vec<ArrayRef>> {
    if diffs.iter().all(|diff| *diff == 1) {
        return Ok(columns);
    }
    let total: i128 = diffs.iter().map(|diff| i128::from(*diff)).sum();
    if total > i128::from(u32::MAX) {
        return Err(DataFusionError::Execution(format!("a group of {total} rows is too large to be recomputed")));
    }
    let repeated = diffs.iter().enumerate().flat_map(|(row, diff)| std::iter::repeat_n(row as u32, (*diff).max(0) as usize));
    let indices = UInt32Array::from_iter_values(repeated);
    columns.iter().map(|column| Ok(take(column, &indices, None)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{DataType, Float64Type, Int64Type};
    use datafusion_expr::{AggregateUDF, Operator};
    use datafusion_functions_aggregate::{array_agg, count, median, string_agg, sum};
    use datafusion_physical_expr::PhysicalSortExpr;
    use datafusion_physical_expr::aggregate::AggregateExprBuilder;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, lit};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// `(x BIGINT, s VARCHAR)`
    fn rows(x: &[Option<i64>], s: &[&str]) -> RecordBatch {
        let x: ArrayRef = Arc::new(Int64Array::from(x.to_vec()));
        let s: ArrayRef = Arc::new(StringArray::from(s.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("x", x, true), ("s", s, false)]).unwrap()
    }

    fn ints(x: &[Option<i64>]) -> RecordBatch {
        rows(x, &vec!["-"; x.len()])
    }

    fn x() -> Scalar {
        Arc::new(Column::new("x", 0))
    }

    fn s() -> Scalar {
        Arc::new(Column::new("s", 1))
    }

    fn builder(fun: Arc<AggregateUDF>, args: Vec<Scalar>) -> AggregateExprBuilder {
        AggregateExprBuilder::new(fun, args).schema(ints(&[]).schema()).alias("a")
    }

    fn plain(function: AggregateExprBuilder) -> GeneralAggregate {
        GeneralAggregate { function: Arc::new(function.build().unwrap()), filter: None }
    }

    fn one_int(a: &GeneralAggregate, rows: &RecordBatch, diffs: &[i64]) -> Option<i64> {
        aggregate(std::slice::from_ref(a), rows, diffs).unwrap()[0].as_primitive::<Int64Type>().iter().next().unwrap()
    }

    #[test]
    fn a_row_counts_as_often_as_it_is_there() {
        let median = plain(builder(median::median_udaf(), vec![x()]));
        assert_eq!(one_int(&median, &ints(&[Some(1), Some(5), Some(9)]), &[1, 1, 5]), Some(9));
        let listed = plain(builder(array_agg::array_agg_udaf(), vec![x()]));
        let list = aggregate(&[listed], &ints(&[Some(4), None]), &[2, 1]).unwrap();
        assert_eq!(list[0].as_list::<i32>().value(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(4), Some(4), None]);
    }

    #[test]
    fn distinct_ignores_multiplicities_however_large() {
        let summed = plain(builder(sum::sum_udaf(), vec![x()]).distinct());
        let counted = plain(builder(count::count_udaf(), vec![x()]).distinct());
        let group = ints(&[Some(3), Some(3), Some(4), None]);
        assert_eq!(one_int(&summed, &group, &[i64::MAX, 1, 2, 7]), Some(7));
        assert_eq!(one_int(&counted, &group, &[i64::MAX, 1, 2, 7]), Some(2));
    }

    #[test]
    fn a_filter_decides_what_is_fed() {
        let mut summed = plain(builder(sum::sum_udaf(), vec![x()]));
        summed.filter = Some(Arc::new(BinaryExpr::new(x(), Operator::Gt, lit(2i64))));
        assert_eq!(one_int(&summed, &ints(&[Some(1), Some(3), None, Some(10)]), &[9, 2, 1, 1]), Some(16));
        assert_eq!(one_int(&summed, &ints(&[Some(1)]), &[1]), None);
    }

    #[test]
    fn of_no_rows_a_sum_is_null_and_a_count_is_zero() {
        let aggregates = [plain(builder(sum::sum_udaf(), vec![x()])), plain(builder(count::count_udaf(), vec![x()]))];
        let values = aggregate(&aggregates, &ints(&[]), &[]).unwrap();
        assert!(values[0].is_null(0));
        assert_eq!(values[1].as_primitive::<Int64Type>().value(0), 0);
    }

    #[test]
    fn the_aggregates_own_order_decides_over_that_of_the_rows() {
        let descending = PhysicalSortExpr { expr: x(), options: SortOptions { descending: true, nulls_first: false } };
        let joined = plain(builder(string_agg::string_agg_udaf(), vec![s(), lit(",")]).order_by(vec![descending]));
        let group = rows(&[Some(1), Some(3), Some(2)], &["a", "c", "b"]);
        assert_eq!(aggregate(&[joined], &group, &[1, 1, 2]).unwrap()[0].as_string_opt::<i64>().map(|s| s.value(0)), Some("c,b,b,a"));
    }

    #[test]
    fn a_sum_out_of_range_is_an_error_that_names_the_aggregate() {
        let summed = plain(builder(sum::sum_udaf(), vec![x()]));
        let error = aggregate(std::slice::from_ref(&summed), &ints(&[Some(i64::MAX), Some(1)]), &[1, 1]).unwrap_err();
        assert_eq!(error, Error::Data("sum(x): the sum is out of the range of BIGINT".into()));
        assert_eq!(one_int(&summed, &ints(&[Some(i64::MAX), Some(1), Some(-1)]), &[1, 1, 1]), Some(i64::MAX));
    }

    #[test]
    fn sum_count_and_median_agree_with_arithmetic_on_random_groups() {
        let mut random = StdRng::seed_from_u64(7);
        let halves: Scalar = Arc::new(datafusion_physical_expr::expressions::CastExpr::new(x(), DataType::Float64, None));
        let aggregates = [
            plain(builder(sum::sum_udaf(), vec![x()])),
            plain(builder(count::count_udaf(), vec![x()])),
            plain(builder(median::median_udaf(), vec![halves])),
        ];
        for _ in 0..200 {
            let n = random.random_range(0..8);
            let values: Vec<Option<i64>> = (0..n).map(|_| random.random_bool(0.8).then(|| random.random_range(-50..50))).collect();
            let diffs: Vec<i64> = (0..n).map(|_| random.random_range(1..4)).collect();
            let mut all: Vec<i64> = values.iter().zip(&diffs).flat_map(|(v, d)| std::iter::repeat_n(*v, *d as usize)).flatten().collect();
            all.sort_unstable();
            let out = aggregate(&aggregates, &ints(&values), &diffs).unwrap();
            let sum = out[0].as_primitive::<Int64Type>().iter().next().unwrap();
            assert_eq!(sum, (!all.is_empty()).then(|| all.iter().sum()));
            assert_eq!(out[1].as_primitive::<Int64Type>().value(0), all.len() as i64);
            let middle = |i: usize| all[i] as f64;
            let expected = match all.len() {
                0 => None,
                n if n % 2 == 1 => Some(middle(n / 2)),
                n => Some((middle(n / 2 - 1) + middle(n / 2)) / 2.0),
            };
            assert_eq!(out[2].as_primitive::<Float64Type>().iter().next().unwrap(), expected);
        }
    }
}
