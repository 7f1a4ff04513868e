//! `FROM t CROSS JOIN UNNEST(t.list)`: a list of each row, unnested beside the row.
//!
//! The planner leaves this as a join with a subquery that reads the left side and nothing else. That is no join at all: the
//! list becomes a column of the left side, and UNNEST a step over it.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, NullHandling, Result, TableReference};
use datafusion_expr::logical_plan::{EmptyRelation, Filter, Join, LogicalPlanBuilder, Projection, SubqueryAlias, Unnest};
use datafusion_expr::{Expr, JoinType, LogicalPlan, lit};
use datafusion_optimizer::AnalyzerRule;

/// See the module.
#[derive(Debug)]
pub(super) struct LateralUnnest;

impl AnalyzerRule for LateralUnnest {
    fn name(&self) -> &str {
        "lateral_unnest"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) => match unnested(&join)? {
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

/// `join` as an UNNEST over its left side, if it is one.
fn unnested(join: &Join) -> Result<Option<LogicalPlan>> {
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        _ => return Ok(None),
    };
    let mut layers = vec![];
    let Some((unnest, lists)) = lateral_lists(&join.right, &mut layers) else { return Ok(None) };
    let filter = join.filter.as_ref().filter(|filter| **filter != lit(true));
    if !join.on.is_empty() || (outer && filter.is_some()) {
        return Ok(None);
    }
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let mut exprs = left.clone();
    for list in &lists.expr {
        exprs.push(
            list.clone()
                .transform_up(|node| match node {
                    Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
                    other => Ok(Transformed::no(other)),
                })
                .data()?,
        );
    }
    let mut options = unnest.options.clone();
    if outer {
        options.null_handling = NullHandling::PreserveAndExpandEmpty;
    }
    let mut plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(exprs)?
        .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
        .build()?;
    // The layers, over the left side's columns beside their own.
    let mut made: Vec<Column> = unnest.schema.columns();
    for layer in layers.into_iter().rev() {
        let own: Vec<(Expr, Option<TableReference>, String)> = match layer {
            Layer::Project(projection) => {
                let named = projection.expr.iter().zip(projection.schema.iter());
                named.map(|(expr, (qualifier, field))| (expr.clone().unalias(), qualifier.cloned(), field.name().clone())).collect()
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

/// The UNNEST of lists that are computed of the outer row alone.
fn lateral_lists<'a>(plan: &'a LogicalPlan, layers: &mut Vec<Layer<'a>>) -> Option<(&'a Unnest, &'a Projection)> {
    match plan {
        LogicalPlan::Subquery(subquery) => lateral_lists(&subquery.subquery, layers),
        LogicalPlan::SubqueryAlias(alias) => {
            layers.push(Layer::Alias(&alias.alias, alias));
            lateral_lists(&alias.input, layers)
        }
        LogicalPlan::Projection(projection) => {
            layers.push(Layer::Project(projection));
            lateral_lists(&projection.input, layers)
        }
        LogicalPlan::Unnest(unnest) => match &*unnest.input {
            LogicalPlan::Projection(lists) if reads_outer(lists) && is_one_row(&lists.input) => Some((unnest, lists)),
            _ => None,
        },
        _ => None,
    }
}

fn reads_outer(lists: &Projection) -> bool {
    let mut found = false;
    for expr in &lists.expr {
        let visited = expr.apply(|node| {
            found |= matches!(node, Expr::OuterReferenceColumn(..));
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(visited.is_ok(), "the visitor never fails");
    }
    found
}

fn is_one_row(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }))
}
