//! Queries and scalar expressions to the algebra: name resolution, types and decorrelation by DataFusion's planner
//! and a chosen, ordered list of its optimizer rules, then [`crate::plan::lower`].

mod asof;
mod casts;
mod context;
mod equalities;
mod errors;
mod frames;
mod group_windows;
mod lateral;
mod literals;
mod moments;
mod overflow;
mod prepare;
mod relations;
mod rules;
mod staying;
mod subqueries;
#[cfg(test)]
mod tests;
mod time;
mod times;
mod types;
mod windows;
mod zones;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_expr::Expr;
use datafusion_expr::expr_rewriter::FunctionRewrite;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::planner::{PlannerContext, SqlToRel};
use sqlparser::ast;

use self::context::Context;
use self::errors::planning;
use self::time::Instants;
use super::retention::Retentions;
use super::statement::{Hint, Query};
use crate::error::{Error, Result};
use crate::plan::lower;
pub use crate::plan::lower::Versions;
use crate::plan::lower::{Ordered, lower_query, on_window_close, plain_item, scalar};
use crate::plan::{Plan, RowType, Scalar};

/// A name in FROM, looked up.
#[derive(Debug, Clone)]
pub struct Relation {
    pub schema: SchemaRef,
    /// What its rows are: a `Get` for a table, the view's own plan for a view, a `Constant` for a system table.
    pub plan: Plan,
    /// Of a table, what its versions are; None of anything else.
    pub versions: Option<Versions>,
}

/// Where names in FROM are looked up.
pub trait Catalog {
    /// The relation of that name (already in the catalog's case).
    fn relation(&self, name: &str) -> Option<Relation>;
    /// All names, for messages.
    fn names(&self) -> Vec<String>;
}

/// What a query is planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// One answer at one instant (milliseconds since the epoch): NOW() is that instant.
    Once { now: i64 },
    /// A result that is kept up to date: NOW() is in conditions only, and makes rows come and go.
    Maintain,
}

/// A planned query.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The collection.
    pub plan: Plan,
    /// What a final ORDER BY says of the order in which rows are shown; empty without one. A LIMIT beside it is in `plan`.
    pub order: Vec<OrderBy>,
    /// The columns to show, as positions in `plan`'s rows: ORDER BY may need columns that are not shown.
    pub show: Vec<usize>,
    /// Whether it asks what time it is, itself.
    pub asks_time: bool,
}

/// One key of a final ORDER BY: a column of the plan's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderBy {
    pub column: usize,
    pub options: arrow::compute::SortOptions,
}

/// Plans a query that remembers of its inputs what was `said`. The plan's rows are encoded in ascending order and have the query's column names; under
/// [`Purpose::Maintain`] a final ORDER BY is dropped, and the plan's rows are what is shown.
///
/// # Errors
/// [`Error::Unknown`] for a name that nothing has, [`Error::Unsupported`] for what Weir does not do, by its name,
/// [`Error::Invalid`] for what makes no sense.
pub fn plan_query(query: &Query, catalog: &dyn Catalog, purpose: Purpose, said: &Retentions) -> Result<Planned> {
    refuse_additions(query)?;
    let ast = prepare::prepare(&query.ast)?;
    let context = Context::new(catalog);
    let planner = SqlToRel::new_with_options(&context, context.parser_options());
    let logical = planner.sql_statement_to_plan(ast::Statement::Query(Box::new(ast))).map_err(|error| {
        let other_window = if errors::is_ungrouped(&error) { group_windows::of_another_window(&query.ast) } else { None };
        other_window.unwrap_or_else(|| planning(error))
    })?;
    frames::check(&logical)?;
    let names: Vec<String> = logical.schema().fields().iter().map(|field| lower::shown_name(field.name())).collect();
    let asks_time = time::asks(&logical).map_err(planning)?;
    let logical = rules::apply(logical, purpose, said.is_bounded())?;
    let lower_query = |said| match query.emit_on_window_close {
        false => lower_query(&logical, said),
        true => on_window_close(lower_query(&logical, said)?),
    };
    let lowered = lower_query(said)?;
    said.check_all_used()?;
    let Ordered { plan, visible, order } = match purpose {
        // What is answered once remembers nothing.
        Purpose::Once { .. } if said.is_bounded() => lower_query(&Retentions::none())?,
        Purpose::Once { .. } | Purpose::Maintain => lowered,
    };
    let kept = if purpose == Purpose::Maintain { visible } else { plan.row().len() };
    let hidden = (visible..kept).map(|index| plan.row().columns[index].name.clone());
    let names = names.into_iter().chain(hidden).collect();
    let order = match purpose {
        Purpose::Maintain => vec![],
        Purpose::Once { .. } => order.into_iter().map(|(column, options)| OrderBy { column, options }).collect(),
    };
    Ok(Planned { plan: lower::named(plan, names), order, show: (0..visible).collect(), asks_time })
}

/// Plans a scalar expression over the columns of one row (a computed column, a default).
///
/// # Errors
/// As [`plan_query`]; a subquery is refused.
pub fn plan_scalar(expr: &ast::Expr, row: &SchemaRef, purpose: Purpose) -> Result<(Scalar, DataType)> {
    let context = Context::new(&NoRelations);
    let planner = SqlToRel::new_with_options(&context, context.parser_options());
    let schema = Arc::new(DFSchema::try_from(row.as_ref().clone()).map_err(planning)?);
    let options = context::options();
    let logical = planner.sql_to_expr(prepare::prepare_scalar(expr)?, &schema, &mut PlannerContext::new()).map_err(planning)?;
    refuse_rows(&logical)?;
    let instants = Instants(purpose);
    let logical = logical.transform_up(|node| instants.rewrite(node, &schema, &options)).data().map_err(planning)?;
    let simplify = SimplifyContext::builder().with_schema(Arc::clone(&schema)).with_config_options(Arc::new(options)).build();
    let simplifier = ExprSimplifier::new(simplify);
    let settled = literals::settle(logical, &schema).data().map_err(planning)?;
    let settled = zones::units(settled, &schema).data().map_err(planning)?;
    let settled = moments::refine(settled, &schema).data().map_err(planning)?;
    let typed = simplifier.coerce(settled, &schema).map_err(planning)?;
    let typed = zones::clocks(typed, &schema).data().map_err(planning)?;
    overflow::check(&typed).map_err(planning)?;
    let typed = casts::simplified(typed, &schema, |typed| simplifier.simplify(typed)).map_err(planning)?;
    let row = RowType::from_schema(row);
    let (scalar, column) = plain_item(scalar(&typed, &schema, &row)?, "expression", &row)?;
    Ok((scalar, column.data_type))
}

/// Refuses, in an expression of one row, what is of several.
fn refuse_rows(expr: &Expr) -> Result<()> {
    let mut found = None;
    let looked = expr.apply(|node| {
        found = match node {
            Expr::AggregateFunction(function) => Some(format!("{}(), which is of many rows,", function.func.name().to_uppercase())),
            Expr::WindowFunction(function) => Some(format!("{}() OVER, which is of many rows,", function.fun.name().to_uppercase())),
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => Some("a subquery".to_owned()),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    });
    looked.map_err(planning)?;
    found.map_or(Ok(()), |what| Err(Error::unsupported(format!("{what} in an expression that is computed of one row alone"))))
}

/// The Arrow type of an SQL type.
///
/// # Errors
/// [`Error::Unsupported`] for a type that rows do not hold, by its name.
pub fn data_type(sql: &ast::DataType) -> Result<DataType> {
    types::arrow_type(sql)
}

/// Refuses what stands around a query that nothing reads; its other hints are [`crate::sql::retention`]'s.
fn refuse_additions(query: &Query) -> Result<()> {
    let other = query.hints.iter().find_map(|hint| match hint {
        Hint::Other(name) => Some(name),
        Hint::StateTtl(_) | Hint::JoinOptions { .. } => None,
    });
    other
        .map_or(Ok(()), |name| Err(Error::unsupported(format!("the hint {name}: STATE_TTL after SELECT and OPTIONS after JOIN are there"))))
}

/// The catalog of an expression that stands alone.
struct NoRelations;

impl Catalog for NoRelations {
    fn relation(&self, _name: &str) -> Option<Relation> {
        None
    }

    fn names(&self) -> Vec<String> {
        vec![]
    }
}
