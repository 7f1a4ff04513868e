//! `FROM t CROSS JOIN UNNEST(t.list)` and `FROM t CROSS JOIN LATERAL (SELECT t.a * 2 AS d)`: a list of each row, unnested
//! beside the row, and columns computed of it.
//!
//! The planner leaves these as a join with a subquery that reads the left side and nothing else. That is no join at all: the
//! list becomes a column of the left side, and UNNEST a step over it; what is computed becomes columns of a projection.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Column, NullHandling, Result, TableReference};
use datafusion_expr::logical_plan::{EmptyRelation, Filter, Join, LogicalPlanBuilder, Projection, SubqueryAlias, Unnest};
use datafusion_expr::{Expr, JoinType, LogicalPlan, lit};
use datafusion_optimizer::AnalyzerRule;

/// See the module.
#[derive(Debug)]
pub(super) struct LateralColumns;

impl AnalyzerRule for LateralColumns {
    fn name(&self) -> &str {
        "lateral_columns"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match beside(&join)? {
                Some(plan) => Ok(Transformed::yes(plan)),
                None => Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

/// What stands between a lateral join and the list it unnests: projections and aliases, outermost first.
enum Layer<'a> {
    Project(&'a Projection),
    Alias(&'a TableReference, &'a SubqueryAlias),
}

/// What the layers stand over.
enum Base<'a> {
    /// The UNNEST of lists that are computed of the outer row.
    Lists(&'a Unnest, &'a Projection),
    /// One row without columns.
    OneRow,
}

/// `join` as columns beside those of its left side, if it is that.
fn beside(join: &Join) -> Result<Option<LogicalPlan>> {
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        _ => return Ok(None),
    };
    let mut layers = vec![];
    let Some(base) = lateral_base(&join.right, &mut layers) else { return Ok(None) };
    let filter = join.filter.as_ref().filter(|filter| **filter != lit(true));
    if !join.on.is_empty() || (outer && filter.is_some()) {
        return Ok(None);
    }
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (mut plan, mut made) = match base {
        Base::Lists(unnest, lists) => (unnested(join, unnest, lists, outer)?, unnest.schema.columns()),
        Base::OneRow => (join.left.as_ref().clone(), vec![]),
    };
    // The layers, over the left side's columns beside their own.
    for layer in layers.into_iter().rev() {
        let own: Vec<(Expr, Option<TableReference>, String)> = match layer {
            Layer::Project(projection) => {
                let named = projection.expr.iter().zip(projection.schema.iter());
                let own = named.map(|(expr, (qualifier, field))| Ok((of_left(expr)?.unalias(), qualifier.cloned(), field.name().clone())));
                own.collect::<Result<_>>()?
            }
            Layer::Alias(name, alias) => {
                let named = made.iter().zip(alias.schema.fields());
                named.map(|(column, field)| (Expr::Column(column.clone()), Some(name.clone()), field.name().clone())).collect()
            }
        };
        made = own.iter().map(|(_, qualifier, name)| Column::new(qualifier.clone(), name)).collect();
        let own = own.into_iter().map(|(expr, qualifier, name)| expr.alias_qualified(qualifier, name));
        plan = LogicalPlanBuilder::from(plan).project(left.iter().cloned().chain(own).collect::<Vec<_>>())?.build()?;
    }
    Ok(Some(match filter {
        None => plan,
        Some(filter) => LogicalPlan::Filter(Filter::try_new(filter.clone(), Arc::new(plan))?),
    }))
}

/// The left side with the lists as columns, unnested.
fn unnested(join: &Join, unnest: &Unnest, lists: &Projection, outer: bool) -> Result<LogicalPlan> {
    let mut exprs: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    for list in &lists.expr {
        exprs.push(of_left(list)?);
    }
    let mut options = unnest.options.clone();
    if outer {
        options.null_handling = NullHandling::PreserveAndExpandEmpty;
    }
    LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(exprs)?
        .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
        .build()
}

/// An expression of the subquery as one of the left side's.
fn of_left(expr: &Expr) -> Result<Expr> {
    expr.clone()
        .transform_up(|node| match node {
            Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
            other => Ok(Transformed::no(other)),
        })
        .data()
}

/// What a lateral subquery that reads the outer row alone is over.
fn lateral_base<'a>(plan: &'a LogicalPlan, layers: &mut Vec<Layer<'a>>) -> Option<Base<'a>> {
    match plan {
        LogicalPlan::Subquery(subquery) => lateral_base(&subquery.subquery, layers),
        LogicalPlan::SubqueryAlias(alias) => {
            layers.push(Layer::Alias(&alias.alias, alias));
            lateral_base(&alias.input, layers)
        }
        LogicalPlan::Projection(projection) => {
            layers.push(Layer::Project(projection));
            lateral_base(&projection.input, layers)
        }
        LogicalPlan::Unnest(unnest) => match &*unnest.input {
            LogicalPlan::Projection(lists) if reads_outer(lists) && is_one_row(&lists.input) => Some(Base::Lists(unnest, lists)),
            _ => None,
        },
        _ if is_one_row(plan) && layers.iter().any(|layer| matches!(layer, Layer::Project(projection) if reads_outer(projection))) => {
            Some(Base::OneRow)
        }
        _ => None,
    }
}

fn reads_outer(projection: &Projection) -> bool {
    projection.expr.iter().any(Expr::contains_outer)
}

fn is_one_row(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }))
}
