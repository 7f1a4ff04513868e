//! Window functions against their definitions, computed naively over small random partitions.

use arrow::array::{AsArray, Int64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, UInt64Type};
use datafusion_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::{AggregateUDF, Operator, WindowFrameUnits, WindowUDF};
use datafusion_functions_aggregate::{array_agg, average, count, min_max, sum};
use datafusion_functions_window::{lead_lag, nth_value, rank, row_number};
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column as ColumnExpr, lit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::eval::{Mark, Prefix, Slice, resumes, window_from};
use crate::plan::Column;

/// A row `(t BIGINT NOT NULL, v BIGINT)` of a partition ordered by `t`.
type Row = (i64, Option<i64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let t: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.0)));
    let v: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.1)));
    RecordBatch::try_from_iter_with_nullable([("t", t, false), ("v", v, true)]).unwrap()
}

fn schema() -> Arc<Schema> {
    batch(&[]).schema()
}

fn v() -> Scalar {
    Arc::new(ColumnExpr::new("v", 1))
}

fn by_t() -> Vec<PhysicalSortExpr> {
    vec![PhysicalSortExpr { expr: Arc::new(ColumnExpr::new("t", 0)), options: SortOptions::default() }]
}

fn aggregate(fun: Arc<AggregateUDF>, argument: Scalar) -> AggregateExprBuilder {
    AggregateExprBuilder::new(fun, vec![argument]).schema(schema()).alias("a")
}

fn over(function: AggregateExprBuilder, filter: Option<Scalar>, frame: WindowFrame) -> WindowFunction {
    let function = Arc::new(function.build().unwrap());
    let column = Column::new("w", function.field().data_type().clone(), true);
    let reach = WindowAggregate::reach(&function, &frame);
    WindowFunction { expr: WindowAggregate::over(function, filter, &by_t(), Arc::new(frame)), column, reach }
}

fn ints(function: WindowFunction, rows: &[Row]) -> Vec<Option<i64>> {
    window(&[function], &batch(rows)).unwrap()[0].as_primitive::<Int64Type>().iter().collect()
}

/// DataFusion's window functions as window expressions.
#[derive(Debug)]
struct Positional {
    fun: Arc<WindowUDF>,
    args: Vec<Scalar>,
}

impl Positional {
    fn fields(&self) -> Vec<FieldRef> {
        self.args.iter().map(|arg| arg.return_field(&schema()).unwrap()).collect()
    }

    fn function(fun: Arc<WindowUDF>, args: Vec<Scalar>, frame: WindowFrame, data_type: DataType) -> WindowFunction {
        let reach = match fun.name() {
            "row_number" | "rank" | "dense_rank" => Reach::Position,
            "lag" => Reach::Neighbours { before: 2, after: 0 },
            "lead" => Reach::Neighbours { before: 0, after: 1 },
            _ if is_bounded(&frame) => Reach::Frame,
            "first_value" => Reach::First,
            "last_value" => Reach::Neighbours { before: 0, after: 0 },
            _ => Reach::Partition,
        };
        let expr = StandardWindowExpr::new(Arc::new(Positional { fun, args }), &[], &by_t(), Arc::new(frame));
        WindowFunction { expr: Arc::new(expr), column: Column::new("w", data_type, true), reach }
    }
}

impl StandardWindowFunctionExpr for Positional {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn field(&self) -> DataFusionResult<FieldRef> {
        self.fun.field(WindowUDFFieldArgs::new(&self.fields(), "w"))
    }
    fn expressions(&self) -> Vec<Scalar> {
        self.fun.expressions(ExpressionArgs::new(&self.args, &self.fields()))
    }
    fn create_evaluator(&self) -> DataFusionResult<Box<dyn PartitionEvaluator>> {
        self.fun.partition_evaluator_factory(PartitionEvaluatorArgs::new(&self.args, &self.fields(), false, false))
    }
    fn limit_effect(&self) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// A bound of a frame: an offset before (< 0) or after the current row, or none.
type Bound = Option<i64>;

fn frame(units: WindowFrameUnits, start: Bound, end: Bound) -> WindowFrame {
    let offset = |n: Option<u64>| match units {
        WindowFrameUnits::Range => ScalarValue::Int64(n.map(|n| n as i64)),
        _ => ScalarValue::UInt64(n),
    };
    let bound = |bound: i64| match bound {
        0 => WindowFrameBound::CurrentRow,
        n if n < 0 => WindowFrameBound::Preceding(offset(Some(n.unsigned_abs()))),
        n => WindowFrameBound::Following(offset(Some(n.unsigned_abs()))),
    };
    let start = start.map_or(WindowFrameBound::Preceding(offset(None)), bound);
    let end = end.map_or(WindowFrameBound::Following(offset(None)), bound);
    WindowFrame::new_bounds(units, start, end)
}

/// The rows in the frame of row `i`, by the standard's definition.
fn framed(units: WindowFrameUnits, start: Bound, end: Bound, rows: &[Row], i: usize) -> Vec<Row> {
    let group = |j: usize| {
        let mut times: Vec<i64> = rows[..=j].iter().map(|r| r.0).collect();
        times.dedup();
        times.len() as i64
    };
    let distance = |j: usize| match units {
        WindowFrameUnits::Rows => j as i64 - i as i64,
        WindowFrameUnits::Range => rows[j].0 - rows[i].0,
        WindowFrameUnits::Groups => group(j) - group(i),
    };
    let within = |j: &usize| start.is_none_or(|s| distance(*j) >= s) && end.is_none_or(|e| distance(*j) <= e);
    (0..rows.len()).filter(within).map(|j| rows[j]).collect()
}

fn partition(random: &mut StdRng) -> Vec<Row> {
    let n = random.random_range(1..12);
    let value = |random: &mut StdRng| random.random_bool(0.8).then(|| random.random_range(-20..20));
    let mut rows: Vec<Row> = (0..n).map(|_| (random.random_range(0..8), value(random))).collect();
    rows.sort_by_key(|r| r.0);
    rows
}

fn bounds(random: &mut StdRng) -> (Bound, Bound) {
    let mut bound = || random.random_bool(0.75).then(|| random.random_range(-3..=3));
    let (a, b) = (bound(), bound());
    match (a, b) {
        (Some(start), Some(end)) if start > end => (b, a),
        bounds => bounds,
    }
}

#[test]
fn aggregates_over_any_frame_are_the_aggregates_of_its_rows() {
    use WindowFrameUnits::{Groups, Range, Rows};
    let mut random = StdRng::seed_from_u64(11);
    for round in 0..600 {
        let rows = partition(&mut random);
        let units = [Rows, Range, Groups][round % 3];
        let (start, end) = bounds(&mut random);
        let positive: Scalar = Arc::new(BinaryExpr::new(v(), Operator::Gt, lit(0i64)));
        let filter = random.random_bool(0.4).then_some(positive);
        let framed: Vec<Vec<i64>> = (0..rows.len())
            .map(|i| framed(units, start, end, &rows, i).into_iter().filter_map(|r| r.1).filter(|v| filter.is_none() || *v > 0).collect())
            .collect();
        let expect = |of: &dyn Fn(&Vec<i64>) -> Option<i64>| framed.iter().map(of).collect::<Vec<_>>();
        let values = |fun: Arc<AggregateUDF>| ints(over(aggregate(fun, v()), filter.clone(), frame(units, start, end)), &rows);
        let shown = format!("{units} {start:?} {end:?} over {rows:?}");
        assert_eq!(values(sum::sum_udaf()), expect(&|f| (!f.is_empty()).then(|| f.iter().sum())), "sum {shown}");
        assert_eq!(values(count::count_udaf()), expect(&|f| Some(f.len() as i64)), "count {shown}");
        assert_eq!(values(min_max::min_udaf()), expect(&|f| f.iter().min().copied()), "min {shown}");
        assert_eq!(values(min_max::max_udaf()), expect(&|f| f.iter().max().copied()), "max {shown}");
        let distinct = over(aggregate(sum::sum_udaf(), v()).distinct(), filter.clone(), frame(units, start, end));
        let expected = expect(&|f| {
            let set: std::collections::BTreeSet<i64> = f.iter().copied().collect();
            (!set.is_empty()).then(|| set.iter().sum())
        });
        assert_eq!(ints(distinct, &rows), expected, "sum distinct {shown}");
    }
}

#[test]
fn positions_ranks_and_neighbours_follow_their_definitions() {
    let mut random = StdRng::seed_from_u64(12);
    for _ in 0..200 {
        let rows = partition(&mut random);
        let whole = || frame(WindowFrameUnits::Range, None, Some(0));
        let functions = [
            Positional::function(row_number::row_number_udwf(), vec![], whole(), DataType::UInt64),
            Positional::function(rank::rank_udwf(), vec![], whole(), DataType::UInt64),
            Positional::function(rank::dense_rank_udwf(), vec![], whole(), DataType::UInt64),
            Positional::function(lead_lag::lag_udwf(), vec![v(), lit(2i64), lit(-1i64)], whole(), DataType::Int64),
            Positional::function(lead_lag::lead_udwf(), vec![v()], whole(), DataType::Int64),
        ];
        let out = window(&functions, &batch(&rows)).unwrap();
        let before = |i: usize| rows.iter().map(|r| r.0).filter(|t| *t < rows[i].0).collect::<Vec<i64>>();
        for i in 0..rows.len() {
            let position = |column: usize| out[column].as_primitive::<UInt64Type>().value(i) as usize;
            let value = |column: usize| out[column].as_primitive::<Int64Type>().iter().nth(i).unwrap();
            let times: std::collections::BTreeSet<i64> = before(i).into_iter().collect();
            assert_eq!(position(0), i + 1);
            assert_eq!(position(1), before(i).len() + 1);
            assert_eq!(position(2), times.len() + 1);
            assert_eq!(value(3), if i < 2 { Some(-1) } else { rows[i - 2].1 });
            assert_eq!(value(4), rows.get(i + 1).and_then(|r| r.1));
        }
    }
}

#[test]
fn first_last_and_nth_value_look_into_the_frame() {
    use WindowFrameUnits::{Groups, Range, Rows};
    let mut random = StdRng::seed_from_u64(13);
    for round in 0..300 {
        let rows = partition(&mut random);
        let units = [Rows, Range, Groups][round % 3];
        let (start, end) = bounds(&mut random);
        let make = |fun, args| Positional::function(fun, args, frame(units, start, end), DataType::Int64);
        let functions = [
            make(nth_value::first_value_udwf(), vec![v()]),
            make(nth_value::last_value_udwf(), vec![v()]),
            make(nth_value::nth_value_udwf(), vec![v(), lit(2i64)]),
        ];
        let out = window(&functions, &batch(&rows)).unwrap();
        for i in 0..rows.len() {
            let inside = framed(units, start, end, &rows, i);
            let expected = [inside.first(), inside.last(), inside.get(1)].map(|row| row.and_then(|r| r.1));
            let values = [0, 1, 2].map(|column: usize| out[column].as_primitive::<Int64Type>().iter().nth(i).unwrap());
            assert_eq!(values, expected, "row {i}: {units} {start:?} {end:?} over {rows:?}");
        }
    }
}

#[test]
fn an_infinity_that_has_left_the_frame_leaves_nothing_behind() {
    let t: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let x: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![f64::INFINITY, 1.0, 2.0]));
    let rows = RecordBatch::try_from_iter([("t", t), ("x", x)]).unwrap();
    let function = AggregateExprBuilder::new(sum::sum_udaf(), vec![Arc::new(ColumnExpr::new("x", 1))]).schema(rows.schema()).alias("a");
    let out = window(&[over(function, None, frame(WindowFrameUnits::Rows, Some(-1), Some(0)))], &rows).unwrap();
    assert_eq!(out[0].as_primitive::<Float64Type>().values().to_vec(), [f64::INFINITY, f64::INFINITY, 3.0]);
}

#[test]
fn an_aggregate_that_cannot_take_rows_out_works_in_a_sliding_frame() {
    let function = over(aggregate(array_agg::array_agg_udaf(), v()), None, frame(WindowFrameUnits::Rows, Some(-1), Some(0)));
    let out = window(&[function], &batch(&[(1, Some(7)), (2, Some(8)), (3, None)])).unwrap();
    let last = out[0].as_list::<i32>().value(2);
    assert_eq!(last.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(8), None]);
}

#[test]
fn a_mean_of_integers_is_a_double() {
    let halves: Scalar = Arc::new(CastExpr::new(v(), DataType::Float64, None));
    let function = over(aggregate(average::avg_udaf(), halves), None, frame(WindowFrameUnits::Rows, Some(-1), Some(0)));
    let out = window(&[function], &batch(&[(1, Some(1)), (2, Some(2)), (3, None)])).unwrap();
    assert_eq!(out[0].as_primitive::<Float64Type>().values().to_vec(), [1.0, 1.5, 2.0]);
}

#[test]
fn a_sum_over_a_frame_overflows_only_if_the_frame_does() {
    let rows = [(1, Some(i64::MAX)), (2, Some(i64::MIN)), (3, Some(i64::MIN)), (4, Some(5))];
    let two = |end| over(aggregate(sum::sum_udaf(), v()), None, frame(WindowFrameUnits::Rows, Some(0), end));
    assert_eq!(ints(two(Some(0)), &rows), [Some(i64::MAX), Some(i64::MIN), Some(i64::MIN), Some(5)]);
    let error = window(&[two(Some(1))], &batch(&rows)).unwrap_err().to_string();
    assert!(error.starts_with("sum(v) OVER (ORDER BY t ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING): the sum is out of the range"), "{error}");
}

#[test]
fn a_frame_that_ends_before_it_begins_is_refused() {
    let function = over(aggregate(count::count_udaf(), v()), None, frame(WindowFrameUnits::Rows, Some(-1), Some(-3)));
    let error = window(&[function], &batch(&[(1, None)])).unwrap_err().to_string();
    assert!(error.ends_with("the frame ends before it begins"), "{error}");
}

#[test]
fn no_rows_have_no_values() {
    let function = over(aggregate(count::count_udaf(), v()), None, frame(WindowFrameUnits::Rows, None, Some(0)));
    assert!(ints(function, &[]).is_empty());
}

#[test]
fn a_frame_without_order_is_the_whole_partition() {
    let function = aggregate(count::count_udaf(), v()).build().unwrap();
    let column = Column::new("w", DataType::Int64, false);
    let expr = WindowAggregate::over(Arc::new(function), None, &[], Arc::new(frame(WindowFrameUnits::Range, None, Some(0))));
    let out = window(&[WindowFunction { expr, column, reach: Reach::Partition }], &batch(&[(1, Some(1)), (2, Some(2))])).unwrap();
    assert_eq!(out[0].as_primitive::<Int64Type>().values().to_vec(), [2, 2]);
}

/// The rows that are the first of their peers, but for the first of all.
fn firsts(rows: &[Row]) -> Vec<usize> {
    (1..rows.len()).filter(|row| rows[*row].0 != rows[row - 1].0).collect()
}

/// Functions that resume, of all kinds.
fn resuming(random: &mut StdRng, units: WindowFrameUnits) -> Vec<WindowFunction> {
    let (start, end) = bounds(random);
    let bounded = frame(units, start.or(Some(-3)), end.or(Some(3)));
    let running = || frame(units, None, Some(0));
    let filter = random.random_bool(0.4).then(|| Arc::new(BinaryExpr::new(v(), Operator::Gt, lit(0i64))) as Scalar);
    let halves: Scalar = Arc::new(CastExpr::new(v(), DataType::Float64, None));
    let tenths: Scalar = Arc::new(BinaryExpr::new(halves, Operator::Multiply, lit(0.1f64)));
    let position = |fun, args, data_type| Positional::function(fun, args, frame(WindowFrameUnits::Range, None, Some(0)), data_type);
    vec![
        over(aggregate(sum::sum_udaf(), v()), filter.clone(), running()),
        over(aggregate(sum::sum_udaf(), Arc::clone(&tenths)), filter.clone(), running()),
        over(aggregate(average::avg_udaf(), Arc::clone(&tenths)), filter.clone(), running()),
        over(aggregate(count::count_udaf(), v()), filter.clone(), running()),
        over(aggregate(min_max::min_udaf(), v()), None, running()),
        over(aggregate(sum::sum_udaf(), tenths), None, bounded.clone()),
        over(aggregate(sum::sum_udaf(), v()).distinct(), filter.clone(), bounded.clone()),
        over(aggregate(min_max::max_udaf(), v()), filter, bounded.clone()),
        Positional::function(nth_value::nth_value_udwf(), vec![v(), lit(2i64)], bounded, DataType::Int64),
        Positional::function(nth_value::first_value_udwf(), vec![v()], running(), DataType::Int64),
        Positional::function(nth_value::last_value_udwf(), vec![v()], running(), DataType::Int64),
        position(row_number::row_number_udwf(), vec![], DataType::UInt64),
        position(rank::rank_udwf(), vec![], DataType::UInt64),
        position(rank::dense_rank_udwf(), vec![], DataType::UInt64),
        position(lead_lag::lag_udwf(), vec![v(), lit(2i64), lit(-1i64)], DataType::Int64),
        position(lead_lag::lead_udwf(), vec![v()], DataType::Int64),
    ]
}

/// The values and marks of functions over rows that begin with so much context.
fn resumed(functions: &[WindowFunction], rows: &[Row], start: usize, before: &Prefix) -> (Vec<ArrayRef>, Vec<Mark>) {
    let candidates: Vec<usize> = firsts(rows).into_iter().filter(|row| *row > start).collect();
    window_from(functions, &Slice { rows: &batch(rows), start, before }, &candidates).unwrap()
}

#[test]
fn from_a_mark_on_values_are_those_of_the_whole_partition_whatever_has_changed_behind_its_barrier() {
    let mut random = StdRng::seed_from_u64(14);
    let mut resumptions = 0;
    for round in 0..400 {
        let units = [WindowFrameUnits::Rows, WindowFrameUnits::Range][round % 2];
        let mut functions = resuming(&mut random, units);
        // All at once, or each with the marks that it alone has.
        if round % 4 > 1 {
            functions = vec![functions.swap_remove(random.random_range(0..functions.len()))];
        }
        assert!(resumes(&functions));
        let mut rows: Vec<Row> = (0..3).flat_map(|_| partition(&mut random)).collect();
        rows.sort();
        let (whole, marks) = resumed(&functions, &rows, 0, &Prefix::default());
        assert_eq!(whole, window(&functions, &batch(&rows)).unwrap());
        for mark in marks {
            let barrier = rows[mark.barrier];
            if rows[mark.barrier - 1] == barrier {
                continue;
            }
            // Rows at the barrier and behind it come and go.
            let mut changed: Vec<Row> = rows.iter().filter(|row| **row < barrier || random.random_bool(0.6)).copied().collect();
            changed.extend(partition(&mut random).into_iter().map(|(t, v)| (t + 4, v)).filter(|row| *row >= barrier));
            changed.sort();
            let expected = window(&functions, &batch(&changed)).unwrap();
            let ends = |arrays: &[ArrayRef], from: usize, to: usize| arrays.iter().map(|a| a.slice(from, to - from)).collect::<Vec<_>>();
            assert_eq!(ends(&expected, 0, mark.row), ends(&whole, 0, mark.row), "{rows:?} and {changed:?} before {}", mark.row);
            if changed.len() > mark.row {
                let (found, further) = resumed(&functions, &changed[mark.context..], mark.row - mark.context, &mark.before);
                assert_eq!(found, ends(&expected, mark.row, changed.len()), "{changed:?} from {}", mark.row);
                resumptions += 1;
                for next in further {
                    let context = mark.context + next.context;
                    let (found, _) = resumed(&functions, &changed[context..], next.row - next.context, &next.before);
                    assert_eq!(found, ends(&expected, mark.context + next.row, changed.len()), "{changed:?} from {}", next.row);
                }
            }
        }
    }
    assert!(resumptions > 1_000, "{resumptions}");
}
