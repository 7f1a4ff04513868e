//! What a change costs in a long partition. (What it gives is checked beside SQLite.)

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion_functions_aggregate::sum;
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use timely::dataflow::operators::core::{Input as _, Probe};

use super::*;
use crate::dataflow::arrange::arrange_rows;
use crate::dataflow::groups::per_group;
use crate::dataflow::settle::Expiries;
use crate::dataflow::state::States;
use crate::eval::WindowAggregate;
use crate::plan::RowType;
use crate::row::Time;
use crate::row::{Updates, UpdatesBuilder};

const ROWS: i64 = 100_000;

fn row() -> RowType {
    let bigint = |name| Column::new(name, DataType::Int64, false);
    RowType::new([bigint("t"), bigint("v")])
}

/// SUM(v) over a frame of rows ordered by t.
fn total(units: WindowFrameUnits, start: WindowFrameBound, end: WindowFrameBound) -> WindowFunction {
    let v = Arc::new(ColumnExpr::new("v", 1));
    let function = AggregateExprBuilder::new(sum::sum_udaf(), vec![v]).schema(row().schema()).alias("s").build().unwrap();
    let frame = WindowFrame::new_bounds(units, start, end);
    let reach = WindowAggregate::reach(&function, &frame);
    let by = PhysicalSortExpr { expr: Arc::new(ColumnExpr::new("t", 0)), options: SortOptions::default() };
    let expr = WindowAggregate::over(Arc::new(function), None, &[by], Arc::new(frame));
    WindowFunction { expr, column: Column::new("s", DataType::Int64, true), reach }
}

fn rows(codec: &Codec, rows: impl Iterator<Item = i64>, time: Time, diff: i64) -> Updates {
    let t: Vec<i64> = rows.collect();
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(t.clone())), Arc::new(Int64Array::from(vec![1; t.len()]))];
    let encoded = codec.encode_values(&columns).unwrap().unwrap();
    let mut updates = Updates::default();
    (0..t.len()).for_each(|index| updates.push(&[], encoded.row(index).data(), time, diff));
    updates
}

/// How many rows the operator looks at for each of some changes to one partition of [`ROWS`] rows.
fn looked_at(functions: &[WindowFunction], changes: &[(i64, i64)]) -> Vec<usize> {
    looked_at_in_batches(functions, changes, 1)
}

/// The same for so many changes at a time, each at a moment of its own.
fn looked_at_in_batches(functions: &[WindowFunction], changes: &[(i64, i64)], batch: usize) -> Vec<usize> {
    let (functions, changes) = (functions.to_vec(), changes.to_vec());
    timely::execute_directly(move |worker| {
        let codec = Codec::new(&row(), 0).unwrap();
        let outputs = RowType::new(functions.iter().map(|function| function.column.clone()));
        let logic = Window::new(&functions, Codec::new(&row(), 0).unwrap(), Codec::new(&outputs, 0).unwrap(), &row().columns, 1);
        let count: Rc<Cell<usize>> = Rc::clone(&logic.looked_at);
        let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
            let (input, stream) = scope.new_input_with_builder::<UpdatesBuilder>();
            let (rows, _) = per_group(arrange_rows(stream, "Arrange", &mut States::default()), "Window", 0, Expiries::Loud, logic);
            (input, rows.probe().0)
        });
        input.send_batch(&mut rows(&codec, 0..ROWS, 0, 1));
        input.advance_to(1);
        worker.step_while(|| probe.less_than(&1));
        let mut costs = vec![];
        for batch in (1..).zip(changes).collect::<Vec<_>>().chunks(batch) {
            count.set(0);
            batch.iter().for_each(|(time, (t, diff))| input.send_batch(&mut rows(&codec, std::iter::once(*t), *time, *diff)));
            let through = batch[batch.len() - 1].0 + 1;
            input.advance_to(through);
            worker.step_while(|| probe.less_than(&through));
            costs.push(count.get());
        }
        costs
    })
}

fn before(rows: impl Into<ScalarValue>) -> WindowFrameBound {
    WindowFrameBound::Preceding(rows.into())
}

#[test]
fn a_row_appended_to_a_long_partition_costs_its_frame_and_not_the_partition() {
    use WindowFrameBound::CurrentRow;
    let running = |units, none: ScalarValue| total(units, WindowFrameBound::Preceding(none), CurrentRow);
    let functions = [
        running(WindowFrameUnits::Rows, ScalarValue::UInt64(None)),
        running(WindowFrameUnits::Range, ScalarValue::Int64(None)),
        total(WindowFrameUnits::Rows, before(10u64), CurrentRow),
        total(WindowFrameUnits::Range, before(100i64), CurrentRow),
        total(WindowFrameUnits::Range, before(100i64), WindowFrameBound::Following(ScalarValue::Int64(Some(10)))),
    ];
    // The answer before and the one after: each of the frame, and of what is between two checkpoints on either side.
    let most = 2 * (100 + 10 + 2 * SPACING + 2);
    let appends: Vec<(i64, i64)> = (0..300).map(|n| (ROWS + n, 1)).collect();
    let costs = looked_at(&functions, &appends);
    assert!(costs.iter().all(|cost| *cost <= most), "{costs:?}");
    // Nearly at the end, and away from it again.
    let costs = looked_at(&functions, &[(ROWS + 1, 1), (ROWS - 500, 1), (ROWS - 500, -1), (ROWS + 1, -1)]);
    assert!(costs.iter().all(|cost| *cost <= most + 2 * 502), "{costs:?}");
}

#[test]
fn rows_appended_at_many_moments_of_one_batch_cost_their_frames_each() {
    let frame = total(WindowFrameUnits::Range, before(100i64), WindowFrameBound::CurrentRow);
    let appends: Vec<(i64, i64)> = (0..500).map(|n| (ROWS + n, 1)).collect();
    let costs = looked_at_in_batches(&[frame], &appends, 500);
    assert!(costs.len() == 1 && costs[0] <= 500 * 2 * (100 + 2 * SPACING + 2), "{costs:?}");
}

#[test]
fn a_change_in_the_middle_costs_what_comes_after_it() {
    let running = total(WindowFrameUnits::Rows, before(ScalarValue::UInt64(None)), WindowFrameBound::CurrentRow);
    let costs = looked_at(&[running], &[(ROWS / 2, -1)]);
    assert!(costs[0] <= (ROWS as usize) + 4 * SPACING, "{costs:?}");
}

/// Rows of these times, in order.
struct Times(std::vec::IntoIter<Vec<u8>>, Vec<u8>);

impl Live for Times {
    fn next(&mut self) -> Option<(&[u8], i64)> {
        self.1 = self.0.next()?;
        Some((&self.1, 1))
    }
}

/// A sum over the ten rows up to each, where rows go one by one and a value stands a millisecond after its time, and the values
/// of two hundred rows.
fn forgetting() -> (Window, Vec<Vec<u8>>) {
    let functions = [total(WindowFrameUnits::Range, before(9i64), WindowFrameBound::CurrentRow)];
    let outputs = RowType::new(functions.iter().map(|function| function.column.clone()));
    let codec = Codec::new(&row(), 0).unwrap();
    let updates = rows(&codec, 0..200, 0, 1);
    let values = (0..200).map(|index| updates.value(index).to_vec()).collect();
    let window = Window::new(&functions, codec, Codec::new(&outputs, 0).unwrap(), &row().columns, 1);
    (window.forgetting(Some(1)), values)
}

/// How many values there are after a change of row `first` at an instant.
fn answered(window: &mut Window, values: &[Vec<u8>], first: usize, instant: i64) -> usize {
    window.changes(&[], &values[first], time::at(instant, 1));
    let beginning = window.beginning(&[]).to_vec();
    let rows: Vec<Vec<u8>> = values.iter().filter(|value| **value >= beginning).cloned().collect();
    let answer = window.answer(&[], &mut Times(rows.into_iter(), vec![]));
    assert_eq!(answer.error, None);
    window.settled(&[], &answer);
    answer.counts.len()
}

#[test]
fn a_row_whose_value_stands_is_no_part_of_an_answer_unless_something_changes_before_it() {
    let (mut window, values) = forgetting();
    assert_eq!(answered(&mut window, &values, 199, 100), 100, "those of 100 ms and later");
    let (mut window, values) = forgetting();
    assert_eq!(answered(&mut window, &values, 30, 100), 170);
    let (mut window, values) = forgetting();
    assert_eq!(answered(&mut window, &values, 199, 1_000), 1, "but the change itself");
}

#[test]
fn what_is_known_of_rows_goes_with_them_and_what_is_known_of_others_stays() {
    let (mut window, values) = forgetting();
    answered(&mut window, &values, 0, 0);
    let rows_of = |window: &Window| window.checkpoints.get(&[][..]).map(|checkpoints| checkpoints.len());
    assert_eq!(rows_of(&window), Some(3));
    window.expired(&[], &values[100]);
    assert_eq!(rows_of(&window), Some(2), "the first stands at 64, and looks back to 55");
    window.expired(&[], &values[199]);
    assert_eq!(rows_of(&window), None);
}
