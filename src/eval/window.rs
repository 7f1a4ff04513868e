//! Window functions over a whole partition.
//!
//! Functions of a position (ROW_NUMBER, RANK, LAG, FIRST_VALUE, ...) are DataFusion's. Aggregates over a frame are
//! [`WindowAggregate`]s, ours, because DataFusion's own take rows out of a running total: that is wrong for doubles
//! (a frame that an infinity has left keeps its NaN), wraps integers around, and is not there for every aggregate.
//! What they cost for frames of `f` rows in a partition of `n`:
//!
//! | aggregate | additions |
//! |---|---|
//! | SUM of integers and decimals | `n`: a frame is a difference of running totals |
//! | any, in frames that begin with the partition | `n`: each row is added once |
//! | one that can take exact values out again | `2 n` |
//! | any other | `n * f`: each frame afresh |
//!
//! [`super::resume`] computes the values of a part of the partition.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_empty_array};
use arrow::compute::filter;
use arrow::datatypes::FieldRef;
use datafusion_common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion_expr::{Accumulator, LimitEffect, PartitionEvaluator, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::window::{StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr};

use super::caught::caught;
use super::display::readable_window;
use super::exact::Addends;
use super::failure::reason;
use super::linear::{check_type, truths_in};
use crate::error::{Error, Result};
use crate::plan::{Reach, Scalar, WindowFunction};

/// The values of window functions over one partition, whose rows are in order. One array a function, one value a row.
pub fn window(functions: &[WindowFunction], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let values = |function: &WindowFunction| {
        values(function, rows).map_err(|error| Error::Data(format!("{}: {}", readable_window(function.expr.as_ref()), reason(&error))))
    };
    functions.iter().map(values).collect()
}

pub(super) fn values(function: &WindowFunction, rows: &RecordBatch) -> DataFusionResult<ArrayRef> {
    if rows.num_rows() == 0 {
        return Ok(new_empty_array(&function.column.data_type));
    }
    if is_inverted(function.expr.get_window_frame()) {
        return Err(DataFusionError::Execution("the frame ends before it begins".into()));
    }
    let array = caught(|| function.expr.evaluate(rows))?;
    check_type(&array, &function.column)?;
    Ok(array)
}

/// Whether the frame's bounds leave no row in it, whatever the partition.
fn is_inverted(frame: &WindowFrame) -> bool {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    match (&frame.start_bound, &frame.end_bound) {
        (Preceding(start), Preceding(end)) if !start.is_null() => start.partial_cmp(end) == Some(Ordering::Less),
        (Following(start), Following(end)) if !end.is_null() => start.partial_cmp(end) == Some(Ordering::Greater),
        (Following(_), Preceding(_) | CurrentRow) | (CurrentRow, Preceding(_)) => true,
        _ => false,
    }
}

/// Whether the frame ends at so many rows, or at such a distance, on both sides.
pub fn is_bounded(frame: &WindowFrame) -> bool {
    frame.units != WindowFrameUnits::Groups && !frame.start_bound.is_unbounded() && !frame.end_bound.is_unbounded()
}

/// An aggregate over a frame of rows around each row, as a window function. Only the rows on which `filter` is true
/// are aggregated.
#[derive(Debug)]
pub struct WindowAggregate {
    function: Arc<AggregateFunctionExpr>,
    filter: Option<Scalar>,
    /// Whether all frames begin with the partition.
    grows: bool,
}

impl WindowAggregate {
    /// The window expression of the aggregate over `frame` in rows ordered by `order`.
    pub fn over(
        function: Arc<AggregateFunctionExpr>,
        filter: Option<Scalar>,
        order: &[PhysicalSortExpr],
        frame: Arc<WindowFrame>,
    ) -> Arc<dyn WindowExpr> {
        let grows = frame.start_bound.is_unbounded();
        Arc::new(StandardWindowExpr::new(Arc::new(WindowAggregate { function, filter, grows }), &[], order, frame))
    }

    /// What the aggregate over `frame` at a row is made of. A running total can be taken up again in the middle where the
    /// accumulator's state is exactly what it has added up.
    pub fn reach(function: &AggregateFunctionExpr, frame: &WindowFrame) -> Reach {
        const RESUMED: &[&str] = &["sum", "count", "avg", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"];
        let plain = !function.is_distinct() && function.order_bys().is_empty() && RESUMED.contains(&function.fun().name());
        let to_current = frame.start_bound.is_unbounded() && matches!(frame.end_bound, WindowFrameBound::CurrentRow);
        match frame.units {
            WindowFrameUnits::Groups => Reach::Partition,
            _ if is_bounded(frame) => Reach::Frame,
            _ if plain && to_current => Reach::Running,
            _ => Reach::Partition,
        }
    }

    /// The aggregate.
    pub fn function(&self) -> &AggregateFunctionExpr {
        &self.function
    }

    /// What must be true of a row for it to be aggregated.
    pub fn filter(&self) -> Option<&Scalar> {
        self.filter.as_ref()
    }
}

impl StandardWindowFunctionExpr for WindowAggregate {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self) -> DataFusionResult<FieldRef> {
        Ok(self.function.field())
    }

    fn name(&self) -> &str {
        self.function.name()
    }

    /// The arguments, then the filter.
    fn expressions(&self) -> Vec<Scalar> {
        self.function.expressions().into_iter().chain(self.filter.clone()).collect()
    }

    fn create_evaluator(&self) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        let (function, filtered, grows) = (self.function.clone(), self.filter.is_some(), self.grows);
        Ok(Box::new(Evaluator { function, filtered, grows, partition: None }))
    }

    fn limit_effect(&self) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// Evaluates one partition, whose frames come in the order of its rows.
#[derive(Debug)]
struct Evaluator {
    function: Arc<AggregateFunctionExpr>,
    filtered: bool,
    grows: bool,
    /// What the partition's columns were made into when the first frame came.
    partition: Option<Partition>,
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn evaluate(&mut self, columns: &[ArrayRef], frame: &Range<usize>) -> DataFusionResult<ScalarValue> {
        let partition = match self.partition.take() {
            Some(partition) => partition,
            None => Partition::new(&self.function, self.filtered, self.grows, columns)?,
        };
        self.partition.insert(partition).value(&self.function, frame)
    }
}

#[derive(Debug)]
pub(super) struct Partition {
    /// The aggregate's arguments, of the rows that pass the filter.
    arguments: Vec<ArrayRef>,
    /// For each row the number of rows before it that pass the filter.
    passing: Option<Vec<usize>>,
    pub method: Method,
}

/// How the value of a frame is found.
#[derive(Debug)]
pub(super) enum Method {
    /// By running totals.
    Difference(Addends),
    /// By adding what is new to the last frame, and taking out what has left it.
    Slide { accumulator: Box<dyn Accumulator>, held: Range<usize> },
    /// By adding up every frame.
    Afresh,
}

impl Partition {
    pub fn new(function: &AggregateFunctionExpr, filtered: bool, grows: bool, columns: &[ArrayRef]) -> DataFusionResult<Self> {
        let width = function.expressions().len();
        let mut arguments = columns[..width].to_vec();
        let mut passing = None;
        if filtered {
            let mask = truths_in(&columns[width])?;
            arguments = arguments.iter().map(|column| Ok(filter(column, &mask)?)).collect::<DataFusionResult<_>>()?;
            passing = Some(counts_before(&mask));
        }
        let method = Method::of(function, grows, &arguments)?;
        Ok(Partition { arguments, passing, method })
    }

    /// How many of the first `rows` rows pass the filter.
    pub fn passing(&self, rows: usize) -> usize {
        self.passing.as_ref().map_or(rows, |before| before[rows])
    }

    pub fn value(&mut self, function: &AggregateFunctionExpr, frame: &Range<usize>) -> DataFusionResult<ScalarValue> {
        let frame = self.passing(frame.start)..self.passing(frame.end);
        match &mut self.method {
            Method::Difference(addends) => addends.sum(frame),
            Method::Slide { accumulator, held } => slide(accumulator.as_mut(), held, &self.arguments, frame),
            Method::Afresh => {
                let mut accumulator = function.create_accumulator()?;
                slide(accumulator.as_mut(), &mut (frame.start..frame.start), &self.arguments, frame)
            }
        }
    }
}

impl Method {
    fn of(function: &AggregateFunctionExpr, grows: bool, arguments: &[ArrayRef]) -> DataFusionResult<Self> {
        if let Some(addends) = Addends::of(function, &arguments[0])? {
            return Ok(Method::Difference(addends));
        }
        if grows {
            return Ok(Method::Slide { accumulator: function.create_accumulator()?, held: 0..0 });
        }
        // A double that is taken out of a sum leaves its rounding error, or NaN, behind.
        let exact = arguments.iter().all(|column| !column.data_type().is_floating());
        Ok(match function.create_sliding_accumulator() {
            Ok(accumulator) if exact => Method::Slide { accumulator, held: 0..0 },
            _ => Method::Afresh,
        })
    }
}

/// Moves an accumulator that holds the rows in `held` forward to those in `frame`. Neither end of a frame moves back.
fn slide(
    accumulator: &mut dyn Accumulator,
    held: &mut Range<usize>,
    arguments: &[ArrayRef],
    frame: Range<usize>,
) -> DataFusionResult<ScalarValue> {
    if frame.end > held.end {
        accumulator.update_batch(&slices(arguments, held.end..frame.end))?;
        held.end = frame.end;
    }
    if frame.start > held.start {
        accumulator.retract_batch(&slices(arguments, held.start..frame.start))?;
        held.start = frame.start;
    }
    accumulator.evaluate()
}

fn slices(columns: &[ArrayRef], range: Range<usize>) -> Vec<ArrayRef> {
    columns.iter().map(|column| column.slice(range.start, range.len())).collect()
}

fn counts_before(mask: &BooleanArray) -> Vec<usize> {
    let mut count = 0;
    let mut before = Vec::with_capacity(mask.len() + 1);
    before.push(0);
    before.extend(mask.values().iter().map(|passes| {
        count += usize::from(passes);
        count
    }));
    before
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
