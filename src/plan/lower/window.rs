//! OVER: functions of a partition in an order.
//!
//! One [`Node::Window`] for each different (PARTITION BY, ORDER BY) of the logical node. Its arrangement has the
//! partition's columns as its key and the order's columns first among its values; the functions' expressions read
//! columns of the whole arranged row, `key ++ values`.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef, TimeUnit};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{NullTreatment, Sort as SortExpr, WindowFunction as LogicalFunction};
use datafusion_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::logical_plan::Window;
use datafusion_expr::{Expr, LimitEffect, PartitionEvaluator, WindowFrame, WindowFrameBound, WindowFunctionDefinition, WindowUDF};
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions;
use datafusion_physical_expr::window::{StandardWindowExpr, StandardWindowFunctionExpr, WindowExpr};
use datafusion_physical_expr::{PhysicalExpr, PhysicalSortExpr};

use crate::error::{Error, Result};
use crate::eval::{WindowAggregate, is_bounded, readable_window};
use crate::plan::moments::finer_type;
use crate::plan::{Arrangement, Column, Memory, Node, Plan, Reach, RowType, Scalar, WindowFunction};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::{column_index, is_name, key_item, labelled_item, pick, plain_item, read_column, shown_name, substitute};
use super::{linear, lower, nodes, order, remember, scalar};

/// All functions of a logical window node.
pub(super) fn window(window: &Window, said: &Retentions) -> Result<Plan> {
    let all: Vec<usize> = (0..window.window_expr.len()).collect();
    functions(lower(&window.input, said)?, window, &all, &said.of(name_in_from(&window.input).as_deref()))
}

/// `input`, which is `window`'s, with a column for each of these functions of it, in this order.
pub(super) fn functions(input: Plan, window: &Window, which: &[usize], memory: &Memory) -> Result<Plan> {
    let width = input.row().len();
    let mut groups: Vec<(&LogicalFunction, Vec<usize>)> = vec![];
    for &index in which {
        let Expr::WindowFunction(function) = unaliased(&window.window_expr[index]) else {
            return Err(Error::unsupported(format!("{} with OVER", window.window_expr[index])));
        };
        match groups.iter_mut().find(|(first, _)| same_window(first, function)) {
            Some((_, members)) => members.push(index),
            None => groups.push((function, vec![index])),
        }
    }
    let mut plan = input;
    let mut made = vec![];
    for (_, members) in &groups {
        plan = one_window(plan, window, members, memory)?;
        made.extend(members.iter().copied());
    }
    let places = which.iter().map(|index| width + made.iter().position(|made| made == index).expect("every function was made"));
    let places: Vec<usize> = (0..width).chain(places).collect();
    Ok(linear::project_columns(plan, places))
}

fn same_window(a: &LogicalFunction, b: &LogicalFunction) -> bool {
    a.params.partition_by == b.params.partition_by && a.params.order_by == b.params.order_by
}

/// `input` with a column for each of `members`, which have the same PARTITION BY and ORDER BY.
fn one_window(input: Plan, window: &Window, members: &[usize], memory: &Memory) -> Result<Plan> {
    let schema = window.input.schema();
    let logical: Vec<(&LogicalFunction, &str)> = members
        .iter()
        .map(|&index| match unaliased(&window.window_expr[index]) {
            Expr::WindowFunction(function) => (function.as_ref(), window.schema.field(schema.fields().len() + index).name().as_str()),
            other => unreachable!("{other} was checked to be a window function"),
        })
        .collect();
    let params = &logical[0].0.params;
    let partitioned = Partitioned::new(input.clone(), schema, &params.partition_by, &params.order_by, memory)?;
    let functions = logical.iter().map(|(function, name)| partitioned.function(function, name, &input, schema));
    let functions = functions.collect::<Result<Vec<WindowFunction>>>()?;
    let arranged = partitioned.arrangement.input.row().clone();
    let made = functions.iter().map(|function| function.column.clone());
    let row = RowType::new(arranged.columns.iter().cloned().chain(made));
    let key = partitioned.arrangement.key;
    let node = Node::Window { input: partitioned.arrangement, order: partitioned.order, functions };
    let plan = remember::settle_groups(Plan::new(node, row.clone()), key, memory, false);
    let mut items: Vec<_> = partitioned.places.iter().map(|&place| pick(&row, place)).collect();
    for place in arranged.len()..row.len() {
        items.push(plain_item(read_column(&row, place), &row.columns[place].name, &row)?);
    }
    Ok(linear::project(plan, items))
}

/// A collection indexed by partition, in the partition's order.
pub(super) struct Partitioned {
    pub arrangement: Arrangement,
    /// How many value columns, from the first, are the order's.
    pub order: usize,
    /// For each column of the input, where it is in the arranged row.
    pub places: Vec<usize>,
    sort: Vec<PhysicalSortExpr>,
}

impl Partitioned {
    /// Indexes `input`. `schema` names its first columns, of which the expressions are.
    pub fn new(input: Plan, schema: &DFSchema, partition_by: &[Expr], order_by: &[SortExpr], memory: &Memory) -> Result<Self> {
        let row = input.row().clone();
        let mut key = vec![];
        for expr in partition_by {
            let part = key_item(labelled_item(expr, schema, &row)?);
            if key.iter().all(|(scalar, _): &super::scalar::Item| scalar.as_ref() != part.0.as_ref()) {
                key.push(part);
            }
        }
        let input = remember::groups(input, &key, memory);
        let width = key.len();
        let mut items = key;
        let mut sort = vec![];
        for by in order_by {
            let (scalar, column) = key_item(labelled_item(&by.expr, schema, &row)?);
            let options = order::options(by);
            let place = match items.iter().position(|(placed, _)| placed.as_ref() == scalar.as_ref()) {
                Some(place) => place,
                None => {
                    items.push((scalar, Column { sort: options, ..column }));
                    items.len() - 1
                }
            };
            sort.push((place, options));
        }
        let order = items.len() - width;
        let mut places = vec![];
        for column in 0..row.len() {
            let placed = items.iter().position(|(scalar, _)| column_index(scalar) == Some(column));
            places.push(placed.unwrap_or(items.len()));
            if placed.is_none() {
                items.push(pick(&row, column));
            }
        }
        let values = items.split_off(width);
        let arrangement = nodes::arrange(input, items, values, None).with_memory(memory);
        let arranged = arrangement.input.row();
        let sort = sort.into_iter().map(|(place, options)| PhysicalSortExpr::new(read_column(arranged, place), options)).collect();
        Ok(Partitioned { arrangement, order, places, sort })
    }

    fn function(&self, function: &LogicalFunction, name: &str, input: &Plan, schema: &DFSchema) -> Result<WindowFunction> {
        let arranged = self.arrangement.input.row();
        let arranged_schema = arranged.schema();
        let over_arranged = |expr: &Expr| -> Result<Scalar> {
            let over_input = scalar(expr, schema, input.row())?;
            Ok(substitute(&over_input, |column| read_column(arranged, self.places[column])))
        };
        let params = &function.params;
        let args = params.args.iter().map(over_arranged).collect::<Result<Vec<_>>>()?;
        let filter = params.filter.as_deref().map(over_arranged).transpose()?;
        let ignore_nulls = params.null_treatment == Some(NullTreatment::IgnoreNulls);
        let partition: Vec<Scalar> = (0..self.arrangement.key).map(|column| read_column(arranged, column)).collect();
        let frame = Arc::new(params.window_frame.clone());
        let sort = self.sort_for(&frame)?;
        let (expr, reach): (Arc<dyn WindowExpr>, Reach) = match &function.fun {
            WindowFunctionDefinition::AggregateUDF(udf) => {
                let aggregate = AggregateExprBuilder::new(Arc::clone(udf), args)
                    .schema(arranged_schema)
                    .alias(name)
                    .with_ignore_nulls(ignore_nulls)
                    .with_distinct(params.distinct)
                    .build()?;
                let reach = WindowAggregate::reach(&aggregate, &frame);
                (WindowAggregate::over(Arc::new(aggregate), filter, &sort, frame), reach)
            }
            WindowFunctionDefinition::WindowUDF(udf) => {
                if params.distinct || filter.is_some() {
                    return Err(Error::unsupported(format!("DISTINCT or FILTER in {}", udf.name())));
                }
                let reach = if ignore_nulls { Reach::Partition } else { positional_reach(udf.name(), &args, &frame) };
                let function = UdfExpr::new(Arc::clone(udf), name, args, ignore_nulls, &arranged_schema)?;
                (Arc::new(StandardWindowExpr::new(Arc::new(function), &partition, &sort, frame)), reach)
            }
        };
        let field = expr.field()?;
        let name = if is_name(name) { shown_name(name) } else { readable_window(expr.as_ref()) };
        Ok(WindowFunction { expr, column: Column::new(name, field.data_type().clone(), field.is_nullable()), reach })
    }

    /// The order, of a type that holds where the bounds of `frame` are: half a second before a TIMESTAMP(0) is none.
    fn sort_for(&self, frame: &WindowFrame) -> Result<Vec<PhysicalSortExpr>> {
        let [by] = self.sort.as_slice() else { return Ok(self.sort.clone()) };
        let schema = self.arrangement.input.row().schema();
        let data_type = by.expr.data_type(&schema)?;
        let offsets = [&frame.start_bound, &frame.end_bound].into_iter().filter_map(offset);
        let finest = offsets.filter_map(|offset| finer_type(&data_type, offset)).max_by_key(|finer| match finer {
            DataType::Timestamp(unit, _) => *unit,
            _ => TimeUnit::Second,
        });
        let Some(finest) = finest else { return Ok(self.sort.clone()) };
        Ok(vec![PhysicalSortExpr::new(expressions::cast(Arc::clone(&by.expr), &schema, finest)?, by.options)])
    }
}

/// How far from the current row a frame's bound is.
fn offset(bound: &WindowFrameBound) -> Option<&ScalarValue> {
    match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) if !offset.is_null() => Some(offset),
        _ => None,
    }
}

/// Whether a frame that begins with the partition has the current row in it.
fn holds_current(frame: &WindowFrame) -> bool {
    !matches!(frame.end_bound, WindowFrameBound::Preceding(_))
}

/// What a positional function's value at a row is made of.
fn positional_reach(name: &str, args: &[Scalar], frame: &WindowFrame) -> Reach {
    let shift = match args.get(1).map(|arg| arg.downcast_ref::<expressions::Literal>()) {
        None => Some(1),
        Some(literal) => literal.and_then(|literal| match literal.value().cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(rows)) => rows,
            _ => None,
        }),
    };
    let shift = shift.and_then(|rows| Some((usize::try_from(rows.unsigned_abs()).ok()?, rows < 0)));
    match (name, shift) {
        ("row_number" | "rank" | "dense_rank", _) => Reach::Position,
        ("lag", Some((rows, false))) | ("lead", Some((rows, true))) => Reach::Neighbours { before: rows, after: 0 },
        ("lead", Some((rows, false))) | ("lag", Some((rows, true))) => Reach::Neighbours { before: 0, after: rows },
        ("first_value" | "last_value" | "nth_value", _) if is_bounded(frame) => Reach::Frame,
        ("first_value", _) if frame.start_bound.is_unbounded() && holds_current(frame) => Reach::First,
        ("last_value", _) if frame.start_bound.is_unbounded() && frame.end_bound == WindowFrameBound::CurrentRow => {
            Reach::Neighbours { before: 0, after: 0 }
        }
        _ => Reach::Partition,
    }
}

/// `expr` without its aliases.
pub(super) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// A window function with its arguments, as DataFusion's evaluation wants it. (The one that its executor uses lives in a
/// crate that plans need not depend on.)
#[derive(Debug)]
struct UdfExpr {
    udf: Arc<WindowUDF>,
    name: String,
    args: Vec<Scalar>,
    arg_fields: Vec<FieldRef>,
    ignore_nulls: bool,
}

impl UdfExpr {
    fn new(udf: Arc<WindowUDF>, name: &str, args: Vec<Scalar>, ignore_nulls: bool, schema: &SchemaRef) -> Result<Self> {
        let arg_fields = args.iter().map(|arg| Ok(arg.return_field(schema)?)).collect::<Result<_>>()?;
        Ok(UdfExpr { udf, name: name.into(), args, arg_fields, ignore_nulls })
    }
}

impl StandardWindowFunctionExpr for UdfExpr {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn field(&self) -> datafusion_common::Result<FieldRef> {
        self.udf.field(WindowUDFFieldArgs::new(&self.arg_fields, &self.name))
    }

    fn expressions(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.udf.expressions(ExpressionArgs::new(&self.args, &self.arg_fields))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn create_evaluator(&self) -> datafusion_common::Result<Box<dyn PartitionEvaluator>> {
        self.udf.partition_evaluator_factory(PartitionEvaluatorArgs::new(&self.args, &self.arg_fields, false, self.ignore_nulls))
    }

    fn limit_effect(&self) -> LimitEffect {
        LimitEffect::Unknown
    }
}
