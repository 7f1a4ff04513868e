//! Chains of filters, projections and flat-maps over a batch.
//!
//! A step is evaluated over whole columns. Only when that fails is the batch halved, and halved again, until the
//! failing rows stand alone: `f` failures among `n` rows cost `f log n` more evaluations. A row that stands alone is
//! evaluated by the same code, so AND, OR and CASE skip what they would skip for that row: `v <> 0 AND 100 / v > 1`
//! never fails, though the columns of a batch are divided before they are filtered.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::{concat_batches, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

use super::caught::caught;
use super::display::readable_type;
use super::failure::{Failure, reason};
use super::unnest::unnest;
use crate::plan::{Column, Scalar, Step};

/// Columns after a chain of steps.
#[derive(Debug)]
pub struct Evaluated {
    pub rows: RecordBatch,
    /// For each row, the input row that it came from; None if row `i` came from row `i`.
    pub from: Option<Vec<u32>>,
    /// Rows that failed: the input row, and a message that names the expression and shows the row. An input row can
    /// fail more than once where an unnested list made several rows of it, and the others of these rows are in `rows`.
    pub failed: Vec<(u32, String)>,
}

/// Runs a [`crate::plan::Node::Linear`]'s steps over a batch of fewer than 2^32 rows. A row on which an expression
/// fails is in `failed`, the others are in `rows`, in order.
pub fn run_steps(steps: &[Step], rows: &RecordBatch) -> Evaluated {
    let start = Evaluated { rows: rows.clone(), from: None, failed: vec![] };
    steps.iter().fold(start, Evaluated::then)
}

impl Evaluated {
    fn then(self, step: &Step) -> Self {
        let Evaluated { rows, from, mut failed } = self;
        let after = run_step(step, &rows);
        failed.extend(after.failed.into_iter().map(|(row, message)| (from.as_ref().map_or(row, |from| from[row as usize]), message)));
        let from = match (from, after.from) {
            (from, None) => from,
            (None, after) => after,
            (Some(from), Some(after)) => Some(after.into_iter().map(|row| from[row as usize]).collect()),
        };
        Evaluated { rows: after.rows, from, failed }
    }
}

/// Runs one step; `from` and `failed` are of the step's own input rows.
fn run_step(step: &Step, rows: &RecordBatch) -> Evaluated {
    let mut pieces: Vec<(usize, Applied)> = vec![];
    let mut failed = vec![];
    let whole = 0..rows.num_rows();
    let mut pending = vec![whole];
    while let Some(range) = pending.pop() {
        let part = rows.slice(range.start, range.len());
        match (apply(step, &part), range.len()) {
            (Ok(applied), _) => pieces.push((range.start, applied)),
            (Err(_), 0) => {}
            (Err(failure), 1) => failed.push((range.start as u32, failure.message(&part))),
            (Err(_), _) => {
                let middle = range.start + range.len() / 2;
                pending.push(middle..range.end);
                pending.push(range.start..middle);
            }
        }
    }
    match pieces.len() {
        1 if failed.is_empty() => {
            let (_, applied) = pieces.remove(0);
            Evaluated { rows: applied.rows, from: applied.from, failed }
        }
        0 => Evaluated { rows: nothing(step, rows), from: Some(vec![]), failed },
        _ => match join(&pieces) {
            Ok(joined) => Evaluated { rows: joined, from: Some(origins(&pieces)), failed },
            // Each half fits in one batch, both together do not (text is limited to 2 GB a column).
            Err(error) => {
                let message = reason(&error.into());
                let failed = (0..rows.num_rows() as u32).map(|row| (row, message.clone())).collect();
                Evaluated { rows: nothing(step, rows), from: Some(vec![]), failed }
            }
        },
    }
}

/// What a step makes of rows none of which fails.
struct Applied {
    rows: RecordBatch,
    from: Option<Vec<u32>>,
}

fn apply<'a>(step: &'a Step, rows: &RecordBatch) -> Result<Applied, Failure<'a>> {
    match step {
        Step::Filter(predicate) => filter(predicate, rows),
        Step::Project(columns) => Ok(Applied { rows: project(columns, rows)?, from: None }),
        Step::Unnest { column, outer } => {
            let (rows, from) = unnest(rows, *column, *outer)?;
            Ok(Applied { rows, from: Some(from) })
        }
    }
}

fn filter<'a>(predicate: &'a Scalar, rows: &RecordBatch) -> Result<Applied, Failure<'a>> {
    if rows.num_rows() == 0 {
        return Ok(Applied { rows: rows.clone(), from: None });
    }
    let kept = truths(predicate, rows).map_err(|error| Failure::of(predicate, error))?;
    if !kept.has_false() {
        return Ok(Applied { rows: rows.clone(), from: None });
    }
    let from = kept.values().set_indices().map(|row| row as u32).collect();
    Ok(Applied { rows: filter_record_batch(rows, &kept)?, from: Some(from) })
}

fn project<'a>(columns: &'a [(Scalar, Column)], rows: &RecordBatch) -> Result<RecordBatch, Failure<'a>> {
    let mut arrays = Vec::with_capacity(columns.len());
    let mut fields = Vec::with_capacity(columns.len());
    for (expr, column) in columns {
        let array = evaluate_as(expr, column, rows).map_err(|error| Failure::of(expr, error))?;
        // A planner's claim that a column has no NULLs is not worth failing a row that has one.
        fields.push(Field::new(&column.name, column.data_type.clone(), column.nullable || array.is_nullable()));
        arrays.push(array);
    }
    Ok(batch(Schema::new(fields), arrays, rows.num_rows())?)
}

/// An expression's values, which must be of the column's type.
fn evaluate_as(expr: &Scalar, column: &Column, rows: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
    if rows.num_rows() == 0 {
        return Ok(new_empty_array(&column.data_type));
    }
    let array = evaluate(expr, rows)?;
    check_type(&array, column)?;
    Ok(array)
}

/// An expression's values, one a row.
pub(super) fn evaluate(expr: &Scalar, rows: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
    caught(|| expr.evaluate(rows)?.into_array(rows.num_rows()))
}

/// An error where a value is not of the type that the plan has for its column.
pub(super) fn check_type(array: &ArrayRef, column: &Column) -> Result<(), DataFusionError> {
    if array.data_type() == &column.data_type {
        return Ok(());
    }
    let (is, planned) = (readable_type(array.data_type()), readable_type(&column.data_type));
    Err(DataFusionError::Execution(format!("column '{}' is {is} where the plan has {planned}", column.name)))
}

/// On which rows a predicate is true; not where it is NULL.
pub(super) fn truths(predicate: &Scalar, rows: &RecordBatch) -> Result<BooleanArray, DataFusionError> {
    truths_in(&evaluate(predicate, rows)?)
}

/// Where a predicate's values are true; not where they are NULL.
pub(super) fn truths_in(values: &ArrayRef) -> Result<BooleanArray, DataFusionError> {
    match values.as_boolean_opt() {
        Some(truths) if truths.null_count() == 0 => Ok(truths.clone()),
        Some(truths) => Ok(prep_null_mask_filter(truths)),
        None if values.data_type() == &DataType::Null => Ok(BooleanArray::from(vec![false; values.len()])),
        None => {
            let is = readable_type(values.data_type());
            Err(DataFusionError::Execution(format!("a condition must be BOOLEAN, this is {is}")))
        }
    }
}

/// A batch that knows how many rows it has even without columns.
pub(super) fn batch(schema: Schema, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

/// The step's columns, without rows.
fn nothing(step: &Step, rows: &RecordBatch) -> RecordBatch {
    let none = rows.slice(0, 0);
    match apply(step, &none) {
        Ok(applied) => applied.rows,
        Err(_) => none,
    }
}

fn join(pieces: &[(usize, Applied)]) -> Result<RecordBatch, ArrowError> {
    let schema = joint_schema(pieces.iter().map(|(_, piece)| piece.rows.schema()));
    concat_batches(&schema, pieces.iter().map(|(_, piece)| &piece.rows))
}

/// The schema of several pieces of one step's output: a column may have NULLs if it may in any of them.
fn joint_schema(schemas: impl Iterator<Item = SchemaRef>) -> SchemaRef {
    schemas
        .reduce(|a, b| {
            if a == b {
                return a;
            }
            let fields = a.fields().iter().zip(b.fields());
            Arc::new(Schema::new(
                fields.map(|(a, b)| a.as_ref().clone().with_nullable(a.is_nullable() || b.is_nullable())).collect::<Vec<_>>(),
            ))
        })
        .unwrap_or_else(|| Arc::new(Schema::empty()))
}

fn origins(pieces: &[(usize, Applied)]) -> Vec<u32> {
    let mut all = vec![];
    for (start, piece) in pieces {
        let start = *start as u32;
        match &piece.from {
            Some(from) => all.extend(from.iter().map(|row| start + row)),
            None => all.extend(start..start + piece.rows.num_rows() as u32),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use datafusion_expr::Operator::{And, Divide, Gt, Multiply, NotEq, Plus};
    use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column as ColumnExpr, lit};

    use super::super::checked;
    use super::*;

    fn column(name: &str, index: usize) -> Scalar {
        Arc::new(ColumnExpr::new(name, index))
    }

    fn binary(left: Scalar, op: datafusion_expr::Operator, right: Scalar) -> Scalar {
        checked(Arc::new(BinaryExpr::new(left, op, right)))
    }

    fn project_one(expr: Scalar, name: &str) -> Step {
        Step::Project(vec![(expr, Column::new(name, DataType::Int64, true))])
    }

    fn pairs(rows: &[(i64, Option<i64>)]) -> RecordBatch {
        let k = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
        let v = Int64Array::from_iter(rows.iter().map(|r| r.1));
        RecordBatch::try_from_iter_with_nullable([("k", Arc::new(k) as ArrayRef, false), ("v", Arc::new(v) as ArrayRef, true)]).unwrap()
    }

    fn ints(rows: &RecordBatch, column: usize) -> Vec<Option<i64>> {
        rows.column(column).as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn only_the_rows_that_divide_by_zero_fail_and_the_message_shows_them() {
        let rows = pairs(&[(1, Some(50)), (2, Some(0)), (3, None), (4, Some(0)), (5, Some(100))]);
        let steps = [project_one(binary(lit(100i64), Divide, column("v", 1)), "q")];
        let done = run_steps(&steps, &rows);
        assert_eq!(ints(&done.rows, 0), [Some(2), None, Some(1)]);
        assert_eq!(done.from, Some(vec![0, 2, 4]));
        assert_eq!(
            done.failed,
            [(1, "100 / v: Divide by zero in row (2, 0)".to_owned()), (3, "100 / v: Divide by zero in row (4, 0)".to_owned())]
        );
    }

    #[test]
    fn a_row_gives_the_same_alone_and_among_others() {
        let guarded =
            binary(binary(column("v", 1), NotEq, lit(0i64)), And, binary(binary(lit(100i64), Divide, column("v", 1)), Gt, lit(1i64)));
        let rows = pairs(&[(1, Some(50)), (2, Some(0)), (3, Some(200)), (4, None), (5, Some(0)), (6, Some(7))]);
        let steps = [Step::Filter(guarded), project_one(column("k", 0), "k")];
        let together = run_steps(&steps, &rows);
        assert!(together.failed.is_empty());
        assert_eq!(together.from, Some(vec![0, 5]));
        for i in 0..rows.num_rows() {
            let alone = run_steps(&steps, &rows.slice(i, 1));
            assert!(alone.failed.is_empty());
            assert_eq!(alone.rows.num_rows() == 1, [0, 5].contains(&i), "row {i}");
        }
    }

    #[test]
    fn overflow_is_a_failure_and_not_a_wrapped_number() {
        let rows = pairs(&[(1, Some(i64::MAX)), (2, Some(1))]);
        for (op, by) in [(Plus, 1i64), (Multiply, 2)] {
            let done = run_steps(&[project_one(binary(column("v", 1), op, lit(by)), "x")], &rows);
            assert_eq!(done.from, Some(vec![1]));
            assert_eq!(done.failed.len(), 1);
            assert!(done.failed[0].1.contains("9223372036854775807"), "{}", done.failed[0].1);
        }
    }

    #[test]
    fn origins_lead_through_several_steps_to_the_input() {
        let rows = pairs(&[(1, Some(1)), (2, Some(0)), (3, Some(5)), (4, Some(0)), (5, Some(9))]);
        let steps = [
            Step::Filter(binary(column("k", 0), Gt, lit(1i64))),
            project_one(binary(lit(90i64), Divide, column("v", 1)), "q"),
            Step::Filter(binary(column("q", 0), Gt, lit(10i64))),
        ];
        let done = run_steps(&steps, &rows);
        assert_eq!(ints(&done.rows, 0), [Some(18)]);
        assert_eq!(done.from, Some(vec![2]));
        assert_eq!(done.failed.iter().map(|f| f.0).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_filter_that_keeps_all_leaves_origins_out() {
        let rows = pairs(&[(1, None), (2, None)]);
        let done = run_steps(&[Step::Filter(binary(column("k", 0), Gt, lit(0i64)))], &rows);
        assert_eq!(done.from, None);
        assert_eq!(done.rows.num_rows(), 2);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let rows = pairs(&[(1, None), (2, None), (3, None)]);
        let done = run_steps(&[Step::Project(vec![]), Step::Filter(lit(true)), project_one(lit(7i64), "x")], &rows);
        assert_eq!(ints(&done.rows, 0), [Some(7); 3]);
        let none = run_steps(&[Step::Filter(lit(false)), Step::Project(vec![])], &rows);
        assert_eq!((none.rows.num_rows(), none.rows.num_columns()), (0, 0));
    }

    #[test]
    fn no_rows_have_the_columns_of_the_last_step_even_if_all_fail() {
        let done = run_steps(&[project_one(binary(lit(1i64), Divide, lit(0i64)), "x")], &pairs(&[(1, None), (2, None)]));
        assert_eq!(done.failed.len(), 2);
        assert_eq!(done.rows.schema().field(0).name(), "x");
        let empty = run_steps(&[project_one(binary(lit(1i64), Divide, lit(0i64)), "x")], &pairs(&[]));
        assert!(empty.failed.is_empty());
        assert_eq!(empty.rows.schema().field(0).data_type(), &DataType::Int64);
    }

    #[test]
    fn a_failed_cast_names_the_text_that_is_no_number() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["12", "twelve"]));
        let rows = RecordBatch::try_from_iter([("s", text)]).unwrap();
        let cast: Scalar = Arc::new(CastExpr::new(column("s", 0), DataType::Int64, None));
        let done = run_steps(&[project_one(cast, "n")], &rows);
        assert_eq!(ints(&done.rows, 0), [Some(12)]);
        assert!(done.failed[0].1.starts_with("CAST(s AS BIGINT): "), "{}", done.failed[0].1);
        assert!(done.failed[0].1.ends_with(" in row (twelve)"), "{}", done.failed[0].1);
    }

    #[test]
    fn a_value_of_another_type_than_planned_is_a_failure_that_names_both() {
        let step = Step::Project(vec![(column("k", 0), Column::new("k", DataType::Utf8, true))]);
        let done = run_steps(&[step], &pairs(&[(1, None)]));
        assert_eq!(done.failed, [(0, "k: column 'k' is BIGINT where the plan has VARCHAR in row (1, NULL)".to_owned())]);
    }

    #[test]
    fn a_null_in_a_column_that_claims_to_have_none_is_kept() {
        let step = Step::Project(vec![(column("v", 1), Column::new("v", DataType::Int64, false))]);
        let done = run_steps(&[step], &pairs(&[(1, None), (2, Some(3))]));
        assert_eq!(ints(&done.rows, 0), [None, Some(3)]);
        assert!(done.failed.is_empty());
    }
}
