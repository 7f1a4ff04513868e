//! Window functions from a row in the middle of a partition on.
//!
//! The values of the rows before a [`Mark`] do not depend on what is at its `barrier` or behind it, and those from the mark
//! on follow from what the functions have made of the rows before it, its [`Prefix`], and from the rows from its `context`
//! on. So after a change behind the barrier only the rows from the mark on have to be looked at again, and the values that
//! come out are, to the bit, those of the whole partition.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::UInt64Type;
use datafusion_common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion_expr::window_state::WindowFrameContext;
use datafusion_physical_expr::window::{StandardWindowExpr, WindowExpr};

use super::caught::caught;
use super::display::readable_window;
use super::failure::reason;
use super::linear::check_type;
use super::window::{Method, Partition, WindowAggregate, values};
use crate::error::{Error, Result};
use crate::plan::{Reach, WindowFunction};

/// Whether the functions' values can be computed from the middle of a partition on.
pub fn resumes(functions: &[WindowFunction]) -> bool {
    functions.iter().all(|function| function.reach != Reach::Partition)
}

/// What functions have made of the rows before a row; of none by default.
#[derive(Debug, Clone, Default)]
pub struct Prefix(Vec<Total>);

/// What one function has made of them.
#[derive(Debug, Clone)]
enum Total {
    /// Nothing that it has to know.
    None,
    /// So many come before.
    Position(u64),
    /// The value at the first row.
    First(ScalarValue),
    /// The sum of so many addends.
    Sum(i128, usize),
    State(Vec<ScalarValue>),
}

/// The last rows of a partition, in order.
pub struct Slice<'a> {
    pub rows: &'a RecordBatch,
    /// The row from which on values are wanted, the first of its peers. What is before it is context.
    pub start: usize,
    /// Of the rows before `start`.
    pub before: &'a Prefix,
}

/// A row from which on values can be computed again, if everything before its barrier is as it was.
pub struct Mark {
    pub row: usize,
    /// The first row that is looked at then.
    pub context: usize,
    /// The first row that those before the mark do not depend on.
    pub barrier: usize,
    pub before: Prefix,
}

/// The values of functions that [resume](resumes) at the rows from `slice.start` on, one array a function. Of `candidates`,
/// ascending rows after `slice.start` each the first of its peers, those are marks that have a barrier.
pub fn window_from(functions: &[WindowFunction], slice: &Slice<'_>, candidates: &[usize]) -> Result<(Vec<ArrayRef>, Vec<Mark>)> {
    let first = |row: usize| Mark { row, context: row, barrier: row, before: Prefix(Vec::with_capacity(functions.len())) };
    let mut marks: Vec<Mark> = candidates.iter().map(|row| first(*row)).collect();
    let mut arrays = Vec::with_capacity(functions.len());
    for (index, function) in functions.iter().enumerate() {
        let before = slice.before.0.get(index).unwrap_or(&Total::None);
        let array =
            caught(|| resume(function, slice, before, &mut marks)).and_then(|array| check_type(&array, &function.column).map(|()| array));
        let named = |error| Error::Data(format!("{}: {}", readable_window(function.expr.as_ref()), reason(&error)));
        arrays.push(array.map_err(named)?);
    }
    marks.retain(|mark| mark.barrier < slice.rows.num_rows());
    Ok((arrays, marks))
}

fn resume(function: &WindowFunction, slice: &Slice<'_>, before: &Total, marks: &mut [Mark]) -> DataFusionResult<ArrayRef> {
    let Slice { rows, start, .. } = *slice;
    let wanted = rows.num_rows() - start;
    match function.reach {
        Reach::Frame => {
            frames(function.expr.as_ref(), rows, marks)?;
            Ok(values(function, rows)?.slice(start, wanted))
        }
        Reach::Neighbours { before, after } => {
            for mark in marks {
                mark.context = mark.context.min(mark.row.saturating_sub(before));
                mark.barrier = mark.barrier.max(mark.row.saturating_add(after));
                mark.before.0.push(Total::None);
            }
            Ok(values(function, rows)?.slice(start, wanted))
        }
        Reach::Position => {
            let base = if let Total::Position(base) = before { *base } else { 0 };
            let within = values(function, &rows.slice(start, wanted))?;
            let positions: UInt64Array = within.as_primitive::<UInt64Type>().unary(|position| base + position);
            // The first of its peers has the number, and the rank, of what comes before it plus one.
            marks.iter_mut().for_each(|mark| mark.before.0.push(Total::Position(positions.value(mark.row - start) - 1)));
            Ok(Arc::new(positions))
        }
        Reach::First => {
            let first = match before {
                Total::First(value) => value.clone(),
                _ => ScalarValue::try_from_array(&values(function, &rows.slice(start, 1))?, 0)?,
            };
            marks.iter_mut().for_each(|mark| mark.before.0.push(Total::First(first.clone())));
            first.to_array_of_size(wanted)
        }
        Reach::Running => running(function.expr.as_ref(), &rows.slice(start, wanted), start, before, marks),
        Reach::Partition => Err(DataFusionError::Internal("a function of the whole partition cannot be resumed".into())),
    }
}

/// The frames of the rows, asked for in their order.
struct Frames {
    context: WindowFrameContext,
    order: Vec<ArrayRef>,
    last: Range<usize>,
    rows: usize,
}

impl Frames {
    fn new(expr: &dyn WindowExpr, rows: &RecordBatch) -> DataFusionResult<Self> {
        let options = expr.order_by().iter().map(|by| by.options).collect();
        let order = expr.order_by_columns(rows)?.into_iter().map(|column| column.values).collect();
        let context = WindowFrameContext::new(Arc::clone(expr.get_window_frame()), options);
        Ok(Frames { context, order, last: 0..0, rows: rows.num_rows() })
    }

    fn at(&mut self, row: usize) -> DataFusionResult<Range<usize>> {
        self.last = self.context.calculate_range(&self.order, &self.last, self.rows, row)?;
        Ok(self.last.clone())
    }
}

/// Moves marks' contexts and barriers out to what their frames hold.
fn frames(expr: &dyn WindowExpr, rows: &RecordBatch, marks: &mut [Mark]) -> DataFusionResult<()> {
    let mut frames = Frames::new(expr, rows)?;
    for mark in marks {
        mark.barrier = mark.barrier.max(frames.at(mark.row - 1)?.end);
        mark.context = mark.context.min(frames.at(mark.row)?.start);
        mark.before.0.push(Total::None);
    }
    Ok(())
}

/// The values of a running aggregate of rows, of which the first is row `start` to marks.
fn running(expr: &dyn WindowExpr, rows: &RecordBatch, start: usize, before: &Total, marks: &mut [Mark]) -> DataFusionResult<ArrayRef> {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>();
    let aggregate = standard.and_then(|standard| standard.get_standard_func_expr().as_any().downcast_ref::<WindowAggregate>());
    let Some(aggregate) = aggregate else {
        return Err(DataFusionError::Internal("only an aggregate has a running total".into()));
    };
    let function = aggregate.function();
    let columns = expr.evaluate_args(rows)?;
    let mut partition = Partition::new(function, aggregate.filter().is_some(), true, &columns)?;
    let base = if let Total::Sum(sum, count) = before { (*sum, *count) } else { (0, 0) };
    if let (Method::Slide { accumulator, .. }, Total::State(state)) = (&mut partition.method, before) {
        let state = state.iter().map(ScalarValue::to_array).collect::<DataFusionResult<Vec<_>>>()?;
        accumulator.merge_batch(&state)?;
    }
    let mut frames = Frames::new(expr, rows)?;
    let mut marks = marks.iter_mut().peekable();
    let mut values = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        if let Some(mark) = marks.next_if(|mark| mark.row == start + row) {
            let passing = partition.passing(row);
            mark.before.0.push(match &mut partition.method {
                Method::Difference(addends) => addends.after(base, passing).map(|(sum, count)| Total::Sum(sum, count))?,
                Method::Slide { accumulator, .. } => Total::State(accumulator.state()?),
                Method::Afresh => return Err(DataFusionError::Internal("a growing frame is added to".into())),
            });
        }
        let frame = frames.at(row)?;
        let end = partition.passing(frame.end);
        values.push(match &partition.method {
            Method::Difference(addends) => addends.value(addends.after(base, end)?)?,
            _ => partition.value(function, &frame)?,
        });
    }
    ScalarValue::iter_to_array(values)
}
