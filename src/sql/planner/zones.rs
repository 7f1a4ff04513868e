//! AT TIME ZONE, and moments of zones in expressions.
//!
//! DataFusion's planner makes a cast to nanoseconds of AT TIME ZONE, which year 9999 does not fit into; [`units`] gives the
//! instant the unit of what it is made of. And its casts between moments show UTC, or fail where clocks are changed: once all
//! of them are there, [`Clocks`] puts those of [`eval::zones`](crate::eval) in their place, and in that of sums with intervals.

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast};
use datafusion_optimizer::AnalyzerRule;
use sqlparser::ast::{self, Value};

use super::literals::with_expressions;
use crate::error::Error;
use crate::eval;

/// Functions that are an instant, of whose clock a query asks; LOCALTIMESTAMP is what a clock shows.
const INSTANTS: [&str; 4] = ["now", "current_timestamp", "proctime", "current_row_timestamp"];

/// What `timestamp AT TIME ZONE zone` is to be planned as.
///
/// # Errors
/// [`Error::Invalid`] for a zone that there is not, [`Error::Unsupported`] for one that is not a literal.
pub(super) fn at_time_zone(timestamp: &ast::Expr, zone: &ast::Expr) -> crate::error::Result<ast::Expr> {
    let name = match zone {
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    };
    let Some(name) = name else {
        return Err(Error::unsupported(format!("AT TIME ZONE {zone}: a zone is a name in quotes, as 'Europe/Berlin'")));
    };
    eval::zone(name)?;
    let is_instant = matches!(timestamp, ast::Expr::Function(function)
        if INSTANTS.iter().any(|name| function.name.to_string().eq_ignore_ascii_case(name)));
    let timestamp = match is_instant {
        true => ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(timestamp.clone()),
            data_type: ast::DataType::Timestamp(Some(3), ast::TimezoneInfo::WithTimeZone),
            array: false,
            format: None,
        },
        false => timestamp.clone(),
    };
    // A TIMESTAMP WITH TIME ZONE is of the zone +00:00, and one by that name would be taken for its type.
    let name = if eval::is_utc(name) { "UTC" } else { name };
    let zone = Box::new(ast::Expr::value(Value::SingleQuotedString(name.to_owned())));
    Ok(ast::Expr::AtTimeZone { timestamp: Box::new(timestamp), time_zone: zone })
}

/// `expr` with every AT TIME ZONE in the unit of what it is of.
pub(super) fn units(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| {
        let Expr::Cast(Cast { expr, field }) = &node else { return Ok(Transformed::no(node)) };
        let DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) = field.data_type() else { return Ok(Transformed::no(node)) };
        if zone.as_ref() == "+00:00" {
            return Ok(Transformed::no(node));
        }
        let unit = match expr.get_type(schema)? {
            DataType::Timestamp(unit, _) => unit,
            DataType::Date32 => TimeUnit::Second,
            _ => return Ok(Transformed::no(node)),
        };
        let field = Field::new(field.name(), DataType::Timestamp(unit, Some(zone.clone())), field.is_nullable());
        Ok(Transformed::yes(Expr::Cast(Cast { expr: expr.clone(), field: field.into() })))
    })
}

/// See the module.
#[derive(Debug)]
pub(super) struct Clocks;

impl AnalyzerRule for Clocks {
    fn name(&self) -> &str {
        "clocks"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            // Nothing else is done to what has none, which is nearly everything.
            match node.inputs().iter().any(|input| has_zone(input.schema())) || node.expressions().iter().any(makes_zone) {
                true => with_expressions(node, clocks),
                false => Ok(Transformed::no(node)),
            }
        })
        .data()
    }
}

fn has_zone(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| of_zone(field.data_type()))
}

fn makes_zone(expr: &Expr) -> bool {
    let makes = |node: &Expr| match node {
        Expr::Cast(cast) => of_zone(cast.field.data_type()),
        Expr::TryCast(cast) => of_zone(cast.field.data_type()),
        Expr::Literal(value, _) => of_zone(&value.data_type()),
        _ => false,
    };
    expr.exists(|node| Ok(makes(node))).unwrap_or(true)
}

fn of_zone(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(zone)) if !eval::is_utc(zone))
}

/// `expr` with casts that change clocks as they should, and calendar arithmetic on clocks.
pub(super) fn clocks(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| {
        let (of, to, is_try) = match &node {
            Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
            Expr::BinaryExpr(sum) => return Ok(moved(sum, schema)?.map_or_else(|| Transformed::no(node), Transformed::yes)),
            _ => return Ok(Transformed::no(node)),
        };
        if !eval::changes_clock(&of.get_type(schema)?, to) {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(eval::ClockCast::function(to.clone(), is_try).call(vec![of.as_ref().clone()])))
    })
}

/// An instant of a zone that moves by an interval.
fn moved(sum: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_plus = match sum.op {
        Operator::Plus => true,
        Operator::Minus => false,
        _ => return Ok(None),
    };
    let (left, right) = (sum.left.get_type(schema)?, sum.right.get_type(schema)?);
    let (instant, by) = match (&left, &right) {
        (instant, DataType::Interval(_)) if of_zone(instant) => (&sum.left, &sum.right),
        (DataType::Interval(_), instant) if is_plus && of_zone(instant) => (&sum.right, &sum.left),
        _ => return Ok(None),
    };
    Ok(Some(eval::ClockMove::function(is_plus).call(vec![instant.as_ref().clone(), by.as_ref().clone()])))
}
