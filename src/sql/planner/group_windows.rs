//! Windows of time in GROUP BY: `GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)`, with TUMBLE_START, TUMBLE_END and
//! TUMBLE_ROWTIME of the same arguments beside aggregates; HOP and SESSION likewise.
//!
//! It is the grouping that the table functions of [`super::windows`] give, and becomes it in two steps. Before names are
//! resolved ([`in_group_by`], [`bound`]) the window in GROUP BY is written as its bounds, which are group keys, and the
//! others as what they are of these. In the plan ([`GroupWindows`]) these calls, of functions that have no value, become
//! columns of the aggregate's input; for HOP that is unnested, for SESSION put into sessions by the other group keys.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::logical_plan::{Aggregate, LogicalPlanBuilder};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_optimizer::AnalyzerRule;
use sqlparser::ast::{self, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, Visit, Visitor};

use super::errors::through;
use super::times::call;
use super::windows::{Kind, Windows, check_time, in_sessions, listed, with_time};
use crate::error::Error;
use crate::eval::TimeWindow;

/// `moved(time, interval)`: where a window that begins at a time ends.
const MOVED: &str = "__window_moved";
/// `last(end)`: the last instant of a window that ends there.
const LAST: &str = "__window_last";

/// The bounds of each row's window, as columns.
const START: &str = "__window_start";
const END: &str = "__window_end";

const SESSION_IN_SETS: &str = "SESSION in GROUPING SETS, ROLLUP or CUBE: the other keys say whose sessions they are";

/// Which bound of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Bound {
    Start,
    End,
}

/// Writes the windows in GROUP BY as their bounds.
pub(super) fn in_group_by(group_by: &mut GroupByExpr) -> ControlFlow<Error> {
    let GroupByExpr::Expressions(keys, _) = group_by else { return ControlFlow::Continue(()) };
    for key in std::mem::take(keys) {
        match as_keys(key) {
            Ok(made) => keys.extend(made),
            Err(error) => return ControlFlow::Break(error),
        }
    }
    ControlFlow::Continue(())
}

/// The group keys that one element of GROUP BY is.
fn as_keys(key: ast::Expr) -> crate::error::Result<Vec<ast::Expr>> {
    let sets = |sets: Vec<Vec<ast::Expr>>| -> crate::error::Result<Vec<Vec<ast::Expr>>> {
        let one = |key: ast::Expr| match as_keys(key)?.as_slice() {
            [key] => Ok(key.clone()),
            _ => Err(Error::unsupported(SESSION_IN_SETS)),
        };
        sets.into_iter().map(|set| set.into_iter().map(one).collect()).collect()
    };
    Ok(match key {
        ast::Expr::GroupingSets(of) => vec![ast::Expr::GroupingSets(sets(of)?)],
        ast::Expr::Rollup(of) => vec![ast::Expr::Rollup(sets(of)?)],
        ast::Expr::Cube(of) => vec![ast::Expr::Cube(sets(of)?)],
        ast::Expr::Nested(inner) if matches!(&*inner, ast::Expr::Function(_)) => as_keys(*inner)?,
        ast::Expr::Function(function) => match Kind::named(&function.name.to_string()) {
            None => vec![ast::Expr::Function(function)],
            Some(Kind::Cumulate) => {
                return Err(Error::unsupported(
                    "CUMULATE in GROUP BY: say FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), step, size)) GROUP BY window_start, window_end",
                ));
            }
            Some(Kind::Session) => vec![renamed(&function, "session_start"), renamed(&function, "session_end")],
            Some(kind) => vec![renamed(&function, &format!("{}_start", kind.name()))],
        },
        other => vec![other],
    })
}

/// What TUMBLE_END(...) or TUMBLE_ROWTIME(...) and their kin are of the start; None for any other function.
pub(super) fn bound(function: &Function) -> Option<crate::error::Result<ast::Expr>> {
    let name = function.name.to_string();
    let (kind, part) = name.split_once('_')?;
    let kind = Kind::named(kind).filter(|kind| *kind != Kind::Cumulate)?;
    let end = || -> crate::error::Result<ast::Expr> {
        if kind == Kind::Session {
            return Ok(renamed(function, "session_end"));
        }
        let start = renamed(function, &format!("{}_start", kind.name()));
        let size = size(kind, function).ok_or_else(|| Error::invalid(format!("{name}: it takes the arguments of {}", kind.name())))?;
        Ok(call(MOVED, vec![start, size]))
    };
    match part.to_uppercase().as_str() {
        "END" => Some(end()),
        "ROWTIME" => Some(end().map(|end| call(LAST, vec![end]))),
        "PROCTIME" => Some(Err(Error::unsupported(format!("{name}: time is the engine's here; say {}_ROWTIME", kind.name())))),
        _ => None,
    }
}

/// The argument that says how long a window is.
fn size(kind: Kind, function: &Function) -> Option<ast::Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(if kind == Kind::Hop { 2 } else { 1 })? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(size)) => Some(size.clone()),
        _ => None,
    }
}

fn renamed(function: &Function, name: &str) -> ast::Expr {
    ast::Expr::Function(Function { name: ObjectName::from(vec![Ident::new(name.to_lowercase())]), ..function.clone() })
}

/// Of a query with a column that is not in GROUP BY: whether that is because a bound is of another window than those that are.
pub(super) fn of_another_window(query: &ast::Query) -> Option<Error> {
    struct Bounds(Vec<Function>);
    impl Visitor for Bounds {
        type Break = Error;

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Error> {
            let ast::Expr::Function(bound) = expr else { return ControlFlow::Continue(()) };
            let name = bound.name.to_string();
            let kind = name.split_once('_').filter(|(_, part)| BOUNDS.iter().any(|bound| part.eq_ignore_ascii_case(bound)));
            let Some(kind) = kind.and_then(|(kind, _)| Kind::named(kind)) else { return ControlFlow::Continue(()) };
            let is_of = |window: &Function| Kind::named(&window.name.to_string()) == Some(kind) && same_arguments(window, bound);
            match self.0.as_slice() {
                [window, ..] if !self.0.iter().any(is_of) => ControlFlow::Break(Error::invalid(format!(
                    "{bound}: GROUP BY has {window}, and a window's bounds take the arguments of the window"
                ))),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    struct Selects;
    impl Visitor for Selects {
        type Break = Error;

        fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<Error> {
            let mut windows = vec![];
            if let GroupByExpr::Expressions(keys, _) = &select.group_by {
                let _ = ast::visit_expressions(keys, |key| {
                    if let ast::Expr::Function(function) = key
                        && Kind::named(&function.name.to_string()).is_some()
                    {
                        windows.push(function.clone());
                    }
                    ControlFlow::<()>::Continue(())
                });
            }
            select.projection.visit(&mut Bounds(windows.clone()))?;
            select.having.visit(&mut Bounds(windows))
        }
    }
    match query.visit(&mut Selects) {
        ControlFlow::Break(error) => Some(error),
        ControlFlow::Continue(()) => None,
    }
}

/// The parts of a window that a function says.
const BOUNDS: [&str; 3] = ["START", "END", "ROWTIME"];

/// Whether two calls have the same arguments, as they are written.
fn same_arguments(one: &Function, other: &Function) -> bool {
    one.args.to_string().eq_ignore_ascii_case(&other.args.to_string())
}

/// A function that stands in a plan for a column to come.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: &'static str,
    stands_for: Option<(&'static str, Bound)>,
    signature: Signature,
}

/// The function of that name, if it is one of these.
pub(super) fn function(name: &str) -> Option<Arc<ScalarUDF>> {
    if name == LAST {
        return Some(Arc::new(TimeWindow::Shift { shift: -1 }.of_zone(None)));
    }
    let marker = |name, stands_for| {
        Some(Arc::new(ScalarUDF::new_from_impl(Marker { name, stands_for, signature: Signature::variadic_any(Volatility::Immutable) })))
    };
    match name {
        "tumble_start" => marker("tumble_start", Some(("TUMBLE", Bound::Start))),
        "hop_start" => marker("hop_start", Some(("HOP", Bound::Start))),
        "session_start" => marker("session_start", Some(("SESSION", Bound::Start))),
        "session_end" => marker("session_end", Some(("SESSION", Bound::End))),
        MOVED => marker(MOVED, None),
        _ => None,
    }
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Millisecond, None))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} has no value: the planner replaces it", self.name)
    }
}

/// A bound of a row's window, as the query says it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    kind: Kind,
    bound: Bound,
    args: Vec<Expr>,
}

fn marker(expr: &Expr) -> Option<(&Marker, &Vec<Expr>)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    Some(((func.inner().as_ref() as &dyn Any).downcast_ref::<Marker>()?, args))
}

impl Call {
    fn of(expr: &Expr) -> Option<Call> {
        let (Marker { stands_for: Some((kind, bound)), .. }, args) = marker(expr)? else { return None };
        Some(Call { kind: Kind::named(kind)?, bound: *bound, args: args.clone() })
    }
}

/// The calls in an expression.
fn calls(expr: &Expr, into: &mut Vec<Call>) -> Result<()> {
    expr.apply(|node| {
        into.extend(Call::of(node));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// See the module.
#[derive(Debug)]
pub(super) struct GroupWindows;

impl AnalyzerRule for GroupWindows {
    fn name(&self) -> &str {
        "group_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let grouped = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) => grouped(aggregate),
            other => Ok(Transformed::no(other)),
        });
        let moved = grouped.data()?.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(moved)));
        moved.data()
    }
}

/// The place where a window ends, and an error where a window stands that nothing groups by.
fn moved(expr: Expr) -> Result<Transformed<Expr>> {
    let Some((marker, args)) = marker(&expr) else { return Ok(Transformed::no(expr)) };
    match (marker.stands_for, &args[..]) {
        (None, [time, by]) => {
            // The size was an argument of the window itself.
            let figures = Kind::Tumble.windows(std::slice::from_ref(by)).map_err(through)?;
            let Windows::Tumble { size, .. } = figures else { unreachable!("TUMBLE makes tumbling windows") };
            Ok(Transformed::yes(TimeWindow::Shift { shift: size }.call(time.clone())))
        }
        (Some((kind, _)), _) => {
            let bounds = format!("{kind}_START, {kind}_END and {kind}_ROWTIME");
            Err(through(Error::invalid(format!("{bounds}: there is no {kind} of the same arguments in GROUP BY"))))
        }
        (None, _) => exec_err!("{MOVED} takes a time and an interval"),
    }
}

/// An aggregate by windows as one by columns of its input.
fn grouped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let mut found = vec![];
    aggregate.group_expr.iter().try_for_each(|expr| calls(expr, &mut found))?;
    let Some(window) = found.first().cloned() else { return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))) };
    if found.iter().any(|other| (other.kind, &other.args) != (window.kind, &window.args)) {
        return Err(through(Error::unsupported("two windows in one GROUP BY: one of them as a table function, in FROM")));
    }
    let [time, figures @ ..] = &window.args[..] else {
        return Err(through(Error::invalid(format!("{}: it takes a time and intervals", window.kind.name()))));
    };
    check_time(window.kind, &time.schema_name().to_string(), &time.get_type(aggregate.input.schema())?).map_err(through)?;
    let input = aggregate.input.as_ref().clone();
    let (input, start, end) = match window.kind.windows(figures).map_err(through)? {
        Windows::Tumble { size, offset } => {
            let start = TimeWindow::Tumble { size, offset, shift: 0 }.call(time.clone());
            (with_time(input, time)?, start, None)
        }
        Windows::Hop { slide, size, offset } => {
            let starts = TimeWindow::Starts { slide, size, offset }.call(time.clone());
            (listed(input, starts, START)?, Expr::Column(Column::from_name(START)), None)
        }
        Windows::Session { gap } => {
            if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
                return Err(through(Error::unsupported(SESSION_IN_SETS)));
            }
            let partition = aggregate.group_expr.iter().filter(|expr| Call::of(expr).is_none()).cloned().collect();
            let bound = |name| Expr::Column(Column::from_name(name));
            (in_sessions(input, partition, time.clone(), gap, [START, END])?, bound(START), Some(bound(END)))
        }
        Windows::Cumulate { .. } => return Err(through(Error::unsupported("CUMULATE in GROUP BY"))),
    };
    let column = |expr: Expr| match (Call::of(&expr), &end) {
        (Some(Call { bound: Bound::Start, .. }), _) => Ok(Transformed::yes(start.clone())),
        (Some(Call { bound: Bound::End, .. }), Some(end)) => Ok(Transformed::yes(Expr::clone(end))),
        _ => Ok(Transformed::no(expr)),
    };
    let columns = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| expr.transform_up(column).data()).collect::<Result<Vec<_>>>();
    let made = Aggregate::try_new(Arc::new(input), columns(aggregate.group_expr)?, columns(aggregate.aggr_expr)?)?;
    // Whoever reads the aggregate knows its columns by the names they had.
    let named = made.schema.columns().into_iter().zip(aggregate.schema.iter());
    let named: Vec<Expr> =
        named.map(|(column, (qualifier, field))| Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())).collect();
    Ok(Transformed::yes(LogicalPlanBuilder::from(LogicalPlan::Aggregate(made)).project(named)?.build()?))
}
