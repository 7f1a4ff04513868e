//! Top-N by rank: a filter on ROW_NUMBER, RANK or DENSE_RANK that keeps a partition's first rows.
//!
//! `WHERE rn <= n` over `ROW_NUMBER() OVER (PARTITION BY k ORDER BY v)` need not number a partition: it is a
//! [`Node::TopK`] with key `k` and limit `n`, which reads its arrangement in order and stops. The rank may be read above
//! or not, and may have been renamed on its way to the filter. What else the filter says stays a filter.

use std::cmp::Ordering;

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::logical_plan::{Filter, Window};
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, WindowFunctionDefinition};

use crate::error::Result;
use crate::plan::{Column, Memory, Node, Plan, Rank, RowType};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::{null_item, pick_all};
use super::window::{Partitioned, unaliased};
use super::{linear, lower, nodes, remember, scalar, temporal, window};

/// The lowest and highest rank that a predicate lets pass, both included.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: i128,
    high: Option<i128>,
}

/// Which rows of a partition are kept.
struct Kept {
    offset: u64,
    limit: u64,
}

/// `filter` as a top-N, if it is one.
pub(super) fn top_n(filter: &Filter, said: &Retentions) -> Result<Option<Plan>> {
    let conjuncts = split_conjunction(&filter.predicate);
    let mut found: Option<(usize, Source)> = None;
    for conjunct in &conjuncts {
        if let Some((column, _)) = bounds_of(conjunct, &filter.input)
            && let Some(source) = source_of(&filter.input, column)
        {
            found = Some((column, source));
            break;
        }
    }
    let Some((column, source)) = found else { return Ok(None) };
    let mut bounds = Bounds { low: 1, high: None };
    let mut rest = vec![];
    for conjunct in conjuncts {
        match bounds_of(conjunct, &filter.input) {
            Some((of, more)) if of == column => {
                bounds = bounds.and(more);
                // A lower bound skips rows only where ranks are positions.
                if more.low > 1 && source.kind != Kind::RowNumber {
                    rest.push(conjunct);
                }
            }
            _ => rest.push(conjunct),
        }
    }
    let Some(high) = bounds.high else { return Ok(None) };
    let offset = if source.kind == Kind::RowNumber { bounds.low - 1 } else { 0 };
    let kept = Kept { offset: offset.try_into().unwrap_or(u64::MAX), limit: (high - offset).max(0).try_into().unwrap_or(u64::MAX) };
    let mut plan = ranked(&filter.input, &source, &kept, said)?;
    for conjunct in rest {
        let predicate = temporal::condition(conjunct, filter.input.schema(), plan.row())?;
        plan = linear::filter(plan, predicate);
    }
    Ok(Some(plan))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RowNumber,
    Rank,
    DenseRank,
}

/// The window node that makes a column, which of its functions does, and the window nodes over it, the lowest first.
struct Source<'a> {
    window: &'a Window,
    function: usize,
    kind: Kind,
    above: Vec<&'a Window>,
}

impl Bounds {
    fn and(self, other: Bounds) -> Bounds {
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Bounds { low: self.low.max(other.low), high }
    }
}

/// What `conjunct` says of a column's value, if it compares one to a whole number.
fn bounds_of(conjunct: &Expr, input: &LogicalPlan) -> Option<(usize, Bounds)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let (column, op, number) = match (column_of(left, input), whole_number(right)) {
        (Some(column), Some(number)) => (column, *op, number),
        _ => (column_of(right, input)?, op.swap()?, whole_number(left)?),
    };
    let bounds = match op {
        Operator::LtEq => Bounds { low: 1, high: Some(number) },
        Operator::Lt => Bounds { low: 1, high: Some(number - 1) },
        Operator::Eq => Bounds { low: number.max(1), high: Some(number) },
        Operator::GtEq => Bounds { low: number.max(1), high: None },
        Operator::Gt => Bounds { low: (number + 1).max(1), high: None },
        _ => return None,
    };
    Some((column, bounds))
}

fn column_of(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Column(column) => input.schema().index_of_column(column).ok(),
        Expr::Cast(cast) if cast.field.data_type().is_integer() => column_of(&cast.expr, input),
        _ => None,
    }
}

fn whole_number(expr: &Expr) -> Option<i128> {
    let Expr::Literal(value, _) = expr else { return None };
    match value {
        ScalarValue::UInt64(value) => value.map(i128::from),
        value if value.data_type().is_integer() && !value.is_null() => match value.cast_to(&DataType::Int64).ok()? {
            ScalarValue::Int64(value) => value.map(i128::from),
            _ => None,
        },
        _ => None,
    }
}

/// The ranking function that makes `column` of `plan`, through projections that only rename it.
fn source_of(plan: &LogicalPlan, column: usize) -> Option<Source<'_>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => source_of(&alias.input, column),
        LogicalPlan::Projection(projection) => {
            let Expr::Column(inner) = unaliased(&projection.expr[column]) else { return None };
            source_of(&projection.input, projection.input.schema().index_of_column(inner).ok()?)
        }
        LogicalPlan::Window(window) => match column.checked_sub(window.input.schema().fields().len()) {
            Some(function) => {
                let kind = kind_of(window_function(window, function)?)?;
                Some(Source { window, function, kind, above: vec![] })
            }
            // Another OVER of the same SELECT, which is of whole partitions and so comes before the top-N.
            None if matches!(&*window.input, LogicalPlan::Window(_)) && !reads(window, column) => {
                let mut source = source_of(&window.input, column)?;
                source.above.push(window);
                Some(source)
            }
            None => None,
        },
        _ => None,
    }
}

fn reads(window: &Window, column: usize) -> bool {
    let schema = window.input.schema();
    window.window_expr.iter().flat_map(Expr::column_refs).any(|read| schema.index_of_column(read).is_ok_and(|read| read == column))
}

fn window_function(window: &Window, function: usize) -> Option<&WindowFunction> {
    match unaliased(&window.window_expr[function]) {
        Expr::WindowFunction(function) => Some(function),
        _ => None,
    }
}

fn kind_of(function: &WindowFunction) -> Option<Kind> {
    let WindowFunctionDefinition::WindowUDF(udf) = &function.fun else { return None };
    match udf.name() {
        "row_number" => Some(Kind::RowNumber),
        "rank" => Some(Kind::Rank),
        "dense_rank" => Some(Kind::DenseRank),
        _ => None,
    }
}

/// `plan` with the window function of `source` made by a top-N.
fn ranked(plan: &LogicalPlan, source: &Source, kept: &Kept, said: &Retentions) -> Result<Plan> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => ranked(&alias.input, source, kept, said),
        LogicalPlan::Projection(projection) => {
            let input = ranked(&projection.input, source, kept, said)?;
            let exprs = projection.expr.iter().zip(projection.schema.fields());
            let items = exprs.map(|(expr, field)| scalar::item(expr, field.name(), projection.input.schema(), input.row()));
            let items = items.collect::<Result<_>>()?;
            Ok(linear::project(input, items))
        }
        _ => top_k(source, kept, said),
    }
}

fn top_k(source: &Source, kept: &Kept, said: &Retentions) -> Result<Plan> {
    let Source { window, function, kind, .. } = source;
    let ranking = window_function(window, *function).expect("the source is a ranking function");
    let input = lower(&window.input, said)?;
    let memory = said.of(name_in_from(&window.input).as_deref());
    let rank_place = input.row().len() + function;
    let name = window.schema.field(rank_place).name();
    let plan = all_but_the_rank(input, source, name, &memory)?;
    let width = plan.row().len();
    let plan = linear::project_columns(plan, (0..width).filter(|column| *column != rank_place));
    let partitioned = Partitioned::new(plan, window.input.schema(), &ranking.params.partition_by, &ranking.params.order_by, &memory)?;
    let rank = match kind {
        Kind::RowNumber => Rank::RowNumber,
        Kind::Rank => Rank::Rank { order: partitioned.order },
        Kind::DenseRank => Rank::DenseRank { order: partitioned.order },
    };
    let rank_column = Column::new(name, DataType::UInt64, false);
    let row = RowType::new(partitioned.arrangement.input.row().columns.iter().cloned().chain([rank_column]));
    let ranked_place = row.len() - 1;
    let plan = if kept.limit == 0 {
        nodes::nothing(&row)
    } else {
        let key = partitioned.arrangement.key;
        let node = Node::TopK { input: partitioned.arrangement, offset: kept.offset, limit: Some(kept.limit), rank, expose: true };
        remember::settle_groups(Plan::new(node, row), key, &memory, false)
    };
    let places = (0..width).map(|column| match column.cmp(&rank_place) {
        Ordering::Less => partitioned.places[column],
        Ordering::Equal => ranked_place,
        Ordering::Greater => partitioned.places[column - 1],
    });
    Ok(linear::project_columns(plan, places))
}

/// The columns of the topmost window, with every function but the ranking one computed and NULL in that one's place.
fn all_but_the_rank(input: Plan, source: &Source, name: &str, memory: &Memory) -> Result<Plan> {
    let width = input.row().len();
    let others: Vec<usize> = (0..source.window.window_expr.len()).filter(|other| *other != source.function).collect();
    let mut plan = window::functions(input, source.window, &others, memory)?;
    let mut items = pick_all(plan.row());
    items.insert(width + source.function, null_item(name, &DataType::UInt64)?);
    plan = linear::project(plan, items);
    for window in &source.above {
        let all: Vec<usize> = (0..window.window_expr.len()).collect();
        plan = window::functions(plan, window, &all, memory)?;
    }
    Ok(plan)
}
