//! Windows of time as table functions in FROM: `TUMBLE(t, ts, size)`, HOP, CUMULATE and SESSION.
//!
//! Each gives the rows of a relation with `window_start`, `window_end` (the first instant in the window and the first after
//! it, TIMESTAMP(3)) and `window_time` (the last one in it) behind their columns. Of a tumbling window that is a
//! projection; of windows that overlap, an UNNEST of the list of a row's windows. A row whose time is NULL is in no window
//! and goes. (Flink's `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ...))` has become such a call in [`crate::sql::parse`].)

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema, ExprSchema, NullHandling, Result, UnnestOptions};
use datafusion_expr::logical_plan::{Extension, LogicalPlanBuilder};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{Expr, LogicalPlan, is_null};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableFactor};

use super::errors::through;
use crate::error::Error;
use crate::eval::{TimeWindow, is_utc, readable_type};
use crate::plan::MILLISECOND;
use crate::plan::lower::Sessions;
use crate::plan::moments::months_and_nanoseconds;

/// The columns that windows add.
pub(super) const START: &str = "window_start";
pub(super) const END: &str = "window_end";
pub(super) const TIME: &str = "window_time";

/// In how many windows a row can be.
const MOST: i64 = 10_000;

/// How time is cut into windows, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    /// One after the other.
    Tumble { size: i64, offset: i64 },
    /// One every `slide`, which overlap where that is less than their size.
    Hop { slide: i64, size: i64, offset: i64 },
    /// Those that grow by `step` up to `size`, where the next begin.
    Cumulate { step: i64, size: i64, offset: i64 },
    /// From a row on for as long as another one follows in less than `gap`.
    Session { gap: i64 },
}

/// A kind of windows: what its function is called and what its figures are, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tumble,
    Hop,
    Cumulate,
    Session,
}

impl Kind {
    /// The kind whose function has this name.
    pub fn named(name: &str) -> Option<Kind> {
        [Kind::Tumble, Kind::Hop, Kind::Cumulate, Kind::Session].into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Tumble => "TUMBLE",
            Kind::Hop => "HOP",
            Kind::Cumulate => "CUMULATE",
            Kind::Session => "SESSION",
        }
    }

    /// What its figures are called. An offset may follow, but for sessions.
    fn figures(self) -> &'static [&'static str] {
        match self {
            Kind::Tumble => &["SIZE"],
            Kind::Hop => &["SLIDE", "SIZE"],
            Kind::Cumulate => &["STEP", "SIZE"],
            Kind::Session => &["GAP"],
        }
    }

    /// How a call of it is written.
    fn usage(self) -> String {
        let figures = self.figures().join(", ").to_lowercase();
        let offset = if self == Kind::Session { "" } else { " [, offset]" };
        let partition = if self == Kind::Session { " [PARTITION BY k]" } else { "" };
        format!("{}(TABLE t{partition}, DESCRIPTOR(ts), {figures}{offset})", self.name())
    }

    /// Its windows of these figures, each an interval that does not change.
    pub fn windows(self, figures: &[Expr]) -> crate::error::Result<Windows> {
        let names = self.figures();
        let most = names.len() + usize::from(self != Kind::Session);
        if figures.len() < names.len() || figures.len() > most {
            let offset = if most > names.len() { "[, OFFSET]" } else { "" };
            return Err(Error::invalid(format!("{}: of intervals it takes {}{offset}", self.name(), names.join(", "))));
        }
        let figure = |index: usize| -> crate::error::Result<i64> {
            let what = names[index].to_lowercase();
            match milliseconds(&figures[index], self.name(), &what)? {
                positive @ 1.. => Ok(positive),
                _ => Err(Error::invalid(format!("{}: the {what} is not positive", self.name()))),
            }
        };
        let offset = || figures.get(names.len()).map_or(Ok(0), |offset| milliseconds(offset, self.name(), "offset"));
        Ok(match self {
            Kind::Tumble => Windows::Tumble { size: figure(0)?, offset: offset()? },
            Kind::Hop => {
                let (slide, size) = (figure(0)?, figure(1)?);
                refuse_many(self, size / slide)?;
                Windows::Hop { slide, size, offset: offset()? }
            }
            Kind::Cumulate => {
                let (step, size) = (figure(0)?, figure(1)?);
                if size % step != 0 {
                    return Err(Error::invalid("CUMULATE: the size is not a multiple of the step"));
                }
                refuse_many(self, size / step)?;
                Windows::Cumulate { step, size, offset: offset()? }
            }
            Kind::Session => Windows::Session { gap: figure(0)? },
        })
    }
}

fn refuse_many(kind: Kind, windows: i64) -> crate::error::Result<()> {
    if windows <= MOST {
        return Ok(());
    }
    Err(Error::unsupported(format!("{} with each row in {windows} windows: at most {MOST}", kind.name())))
}

/// An interval that does not change, in milliseconds.
fn milliseconds(interval: &Expr, function: &str, what: &str) -> crate::error::Result<i64> {
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    let folded = simplifier.simplify(interval.clone()).unwrap_or_else(|_| interval.clone());
    let Expr::Literal(value, _) = &folded else {
        return Err(Error::invalid(format!("{function}: the {what} is an interval that does not change, as INTERVAL '5' SECOND")));
    };
    let Some((months, nanoseconds)) = months_and_nanoseconds(value) else {
        let given = readable_type(&value.data_type());
        return Err(Error::invalid(format!("{function}: the {what} is {given}, not an interval, as INTERVAL '5' SECOND")));
    };
    if months != 0 {
        return Err(Error::unsupported(format!("{function}: a {what} in months or years, which are of no one length; say days")));
    }
    if nanoseconds % MILLISECOND != 0 {
        return Err(Error::unsupported(format!("{function}: a {what} of less than a millisecond")));
    }
    i64::try_from(nanoseconds / MILLISECOND).map_err(|_| Error::invalid(format!("{function}: the {what} is too long")))
}

/// The relation that a call in FROM gives.
pub(super) fn table_function(kind: Kind, args: Vec<FunctionArg>, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let call = Call::of(kind, args).map_err(through)?;
    let input = context.plan(call.data)?;
    let time = context.sql_to_expr(call.time, input.schema())?;
    let time = time_column(kind, &time, input.schema()).map_err(through)?;
    let none = DFSchema::empty();
    let figures = call.figures.into_iter().map(|figure| context.sql_to_expr(figure, &none)).collect::<Result<Vec<_>>>()?;
    let windows = kind.windows(&figures).map_err(through)?;
    let partition = call.partition.into_iter().map(|key| context.sql_to_expr(key, input.schema())).collect::<Result<Vec<_>>>()?;
    for name in [START, END, TIME] {
        if input.schema().has_column_with_unqualified_name(name) {
            return Err(through(Error::invalid(format!("{}: there is a column {name} already: rename it in a subquery", kind.name()))));
        }
    }
    windowed(input, time, partition, windows)
}

/// The column of times that windows are of.
fn time_column(kind: Kind, time: &Expr, schema: &DFSchema) -> crate::error::Result<Column> {
    let Expr::Column(column) = time else {
        return Err(Error::invalid(format!("{}: the time is a column, as DESCRIPTOR(ts)", kind.name())));
    };
    let data_type = schema.field_from_column(column).map_err(super::errors::planning)?.data_type();
    check_time(kind, &column.name, data_type)?;
    Ok(column.clone())
}

/// Refuses windows of what is no TIMESTAMP, and of one that is read off clocks that are put forward and back.
pub(super) fn check_time(kind: Kind, name: &str, data_type: &DataType) -> crate::error::Result<()> {
    match data_type {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) => Err(Error::unsupported(format!(
            "{}: '{name}' is of the zone '{zone}', and windows are of UTC: leave AT TIME ZONE out, or CAST to TIMESTAMP(3) for windows of local time",
            kind.name()
        ))),
        DataType::Timestamp(..) => Ok(()),
        other => Err(Error::invalid(format!("{}: '{name}' is {}, windows are of a TIMESTAMP", kind.name(), readable_type(other)))),
    }
}

/// The rows of `input` with the windows that the time in a column is in.
fn windowed(input: LogicalPlan, time: Column, partition: Vec<Expr>, windows: Windows) -> Result<LogicalPlan> {
    let zone = match input.schema().field_from_column(&time)?.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let time = Expr::Column(time);
    let (input, [start, end]) = match windows {
        Windows::Tumble { size, offset } => {
            let of = |shift| TimeWindow::Tumble { size, offset, shift }.call(time.clone());
            (with_time(input, &time)?, [of(0), of(size)])
        }
        Windows::Hop { slide, size, offset } => {
            let starts = listed(input, TimeWindow::Starts { slide, size, offset }.call(time), START)?;
            let start = Expr::Column(Column::from_name(START));
            (starts, [start.clone(), TimeWindow::Shift { shift: size }.call(start)])
        }
        Windows::Cumulate { step, size, offset } => {
            let ends = listed(input, TimeWindow::Ends { step, size, offset }.call(time), END)?;
            let end = Expr::Column(Column::from_name(END));
            let last = TimeWindow::Shift { shift: -1 }.call(end.clone());
            (ends, [TimeWindow::Tumble { size, offset, shift: 0 }.call(last), end])
        }
        Windows::Session { gap } => {
            let bound = |name| Expr::Column(Column::from_name(name));
            (in_sessions(input, partition, time, gap, [START, END])?, [bound(START), bound(END)])
        }
    };
    let last = TimeWindow::Shift { shift: -1 }.of_zone(zone).call(vec![end.clone()]);
    let added = [start.alias(START), end.alias(END), last.alias(TIME)];
    LogicalPlanBuilder::from(input).project(columns.into_iter().chain(added).collect::<Vec<_>>())?.build()
}

/// The rows of `input` that have a time.
pub(super) fn with_time(input: LogicalPlan, time: &Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(input).filter(Expr::Not(Box::new(is_null(time.clone()))))?.build()
}

/// The rows of `input` that have a time, with the sessions by partition that they are in.
pub(super) fn in_sessions(input: LogicalPlan, partition: Vec<Expr>, time: Expr, gap: i64, names: [&str; 2]) -> Result<LogicalPlan> {
    let node = Sessions::try_new(with_time(input, &time)?, partition, time, gap, names)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The rows of `input`, each once for each element of a list of it.
pub(super) fn listed(input: LogicalPlan, list: Expr, name: &str) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().map(Expr::Column).chain([list.alias(name)]);
    let options = UnnestOptions { null_handling: NullHandling::Drop, ..UnnestOptions::default() };
    LogicalPlanBuilder::from(input.clone())
        .project(columns.collect::<Vec<_>>())?
        .unnest_columns_with_options(vec![Column::from_name(name)], options)?
        .build()
}

/// A call of a window function in FROM.
struct Call {
    data: TableFactor,
    time: ast::Expr,
    figures: Vec<ast::Expr>,
    partition: Vec<ast::Expr>,
}

impl Call {
    fn of(kind: Kind, args: Vec<FunctionArg>) -> crate::error::Result<Call> {
        let wrong = || Error::invalid(format!("{}: it is called as {}", kind.name(), kind.usage()));
        let (mut named, mut unnamed): (Vec<(String, ast::Expr)>, Vec<ast::Expr>) = (vec![], vec![]);
        for arg in args {
            match arg {
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => named.push((name.value.to_uppercase(), value)),
                FunctionArg::ExprNamed { name: ast::Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
                    named.push((name.value.to_uppercase(), value));
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => unnamed.push(value),
                _ => return Err(wrong()),
            }
        }
        let mut unnamed = unnamed.into_iter();
        let mut take = |name: &str| named.iter().position(|(given, _)| given == name).map(|index| named.remove(index).1);
        let data = take("DATA").or_else(|| unnamed.next()).ok_or_else(wrong)?;
        let mut partition: Vec<ast::Expr> = take("PARTITION_BY").into_iter().collect();
        let time = take("TIMECOL");
        let mut figures = vec![];
        for name in kind.figures() {
            figures.push(take(name));
        }
        let offset = if kind == Kind::Session { None } else { take("OFFSET") };
        // What comes between the first column of PARTITION BY and the time are the others of it.
        let rest = figures.iter().filter(|figure| figure.is_none()).count() + usize::from(time.is_none());
        if !partition.is_empty() {
            let more = unnamed.len().saturating_sub(rest);
            partition.extend(unnamed.by_ref().take(more));
        }
        let time = time.or_else(|| unnamed.next()).ok_or_else(wrong)?;
        let figures = figures.into_iter().map(|figure| figure.or_else(|| unnamed.next())).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let figures: Vec<ast::Expr> = figures.into_iter().chain(offset).chain(unnamed).collect();
        if let Some((name, _)) = named.first() {
            return Err(Error::invalid(format!("{}: it has no argument {name}; it is called as {}", kind.name(), kind.usage())));
        }
        if !partition.is_empty() && kind != Kind::Session {
            return Err(Error::unsupported(format!("{} with PARTITION BY: a time is in the same windows in every partition", kind.name())));
        }
        Ok(Call { data: relation(data).ok_or_else(wrong)?, time, figures, partition })
    }
}

/// The relation that an argument stands for: a name or a subquery.
fn relation(arg: ast::Expr) -> Option<TableFactor> {
    let table = |name: Vec<Ident>| TableFactor::Table {
        name: ObjectName(name.into_iter().map(ObjectNamePart::Identifier).collect()),
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    };
    match arg {
        ast::Expr::Identifier(name) => Some(table(vec![name])),
        ast::Expr::CompoundIdentifier(name) => Some(table(name)),
        ast::Expr::Subquery(subquery) => Some(TableFactor::Derived { lateral: false, subquery, alias: None, sample: None }),
        ast::Expr::Nested(inner) => relation(*inner),
        _ => None,
    }
}
