//! The rules that a query goes through between names and the algebra, in order.
//!
//! They are DataFusion's, chosen, and a few of our own before them. Left out are those that say for a batch executor
//! what the algebra says better: `SingleDistinctToGroupBy` (DISTINCT in an aggregate is a threshold below it),
//! `PushDownLimit` (a LIMIT costs an arrangement wherever it is), `FilterNullJoinKeys` (lowering does it, from either side
//! of any join), `UnionsToFilter`, `EliminateGroupByConstant`, and the pushing of leaf expressions into files.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, Result};
use datafusion_expr::expr::{Sort as SortExpr, WindowFunction};
use datafusion_expr::logical_plan::{Distinct, DistinctOn, LogicalPlanBuilder, Sort};
use datafusion_expr::{Expr, LogicalPlan, WindowFunctionDefinition, lit};
use datafusion_functions_window::row_number::row_number_udwf;
use datafusion_optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion_optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion_optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion_optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion_optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion_optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion_optimizer::eliminate_filter::EliminateFilter;
use datafusion_optimizer::eliminate_join::EliminateJoin;
use datafusion_optimizer::eliminate_limit::EliminateLimit;
use datafusion_optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion_optimizer::optimize_projections::OptimizeProjections;
use datafusion_optimizer::optimize_unions::OptimizeUnions;
use datafusion_optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion_optimizer::push_down_filter::PushDownFilter;
use datafusion_optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion_optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion_optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion_optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerConfig, OptimizerContext, OptimizerRule};

use super::Purpose;
use super::casts::Simplify;
use super::context::options;
use super::equalities::Equalities;
use super::errors::planning;
use super::group_windows::GroupWindows;
use super::lateral::LateralColumns;
use super::literals::ExactLiterals;
use super::moments::FineMoments;
use super::overflow::ConstantOverflow;
use super::staying::StayingConditions;
use super::subqueries::PlainSubqueries;
use super::time::Instants;
use super::zones::Clocks;
use crate::error::Error;

/// A planned query in the form that lowering takes; with `whole_rows` every operator's input has all the columns that the
/// query gives it, read or not.
pub(super) fn apply(plan: LogicalPlan, purpose: Purpose, whole_rows: bool) -> crate::error::Result<LogicalPlan> {
    let options = options();
    let plan = analyzer(purpose).execute_and_check(plan, &options, |_, _| {}).map_err(planning)?;
    // Without a start time no rule folds a clock into the plan.
    let context = OptimizerContext::new_with_config_options(Arc::new(options)).without_query_execution_start_time();
    let plan = optimizer(whole_rows, filters_what_it_computes(&plan)).optimize(plan, &context, |_, _| {}).map_err(lost)?;
    // A subquery knows its outer columns by the types they had before coercion.
    let plan = TypeCoercion::new().analyze(plan, context.options().as_ref()).map_err(lost)?;
    Clocks.analyze(plan, context.options().as_ref()).map_err(planning)
}

/// Every name was found before: what is not found now was taken out of one subquery into another.
fn lost(error: DataFusionError) -> Error {
    match planning(error) {
        Error::Unknown { name, .. } => Error::unsupported(format!("a subquery that reads {name} from more than one query out")),
        other => other,
    }
}

/// What makes a plan mean what it says.
fn analyzer(purpose: Purpose) -> Analyzer {
    let mut analyzer = Analyzer::with_rules(vec![
        Arc::new(GroupWindows),
        Arc::new(FirstRows),
        Arc::new(LateralColumns),
        Arc::new(PlainSubqueries),
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(ExactLiterals),
        Arc::new(FineMoments),
        Arc::new(TypeCoercion::new()),
        Arc::new(Clocks),
    ]);
    analyzer.add_function_rewrite(Arc::new(Instants(purpose)));
    analyzer
}

/// Whether an aggregate's FILTER keeps a computed argument from rows for which it may fail. What stands in several aggregates
/// would be computed below all of them, of every row.
fn filters_what_it_computes(plan: &LogicalPlan) -> bool {
    let is_computed = |argument: &Expr| !matches!(argument, Expr::Column(_) | Expr::Literal(..));
    let is_filtered = |expr: &Expr| {
        expr.exists(|expr| {
            Ok(matches!(expr, Expr::AggregateFunction(function) if function.params.filter.is_some() && function.params.args.iter().any(is_computed)))
        })
    };
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            found |= aggregate.aggr_expr.iter().map(is_filtered).collect::<Result<Vec<_>>>()?.contains(&true);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found || walked.is_err()
}

/// What makes it one that can be lowered, and a good one; with each thing `apart` that is computed in several places.
fn optimizer(whole_rows: bool, apart: bool) -> Optimizer {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![
        Arc::new(RewriteSetComparison::new()),
        Arc::new(OptimizeUnions::new()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        // Subqueries become columns before expressions are simplified, which would mention (and so join) them twice.
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        Arc::new(StayingConditions { forgets: whole_rows }),
        Arc::new(ConstantOverflow),
        Arc::new(Simplify::default()),
        Arc::new(EliminateJoin::new()),
        Arc::new(Equalities),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateFilter::new()),
        Arc::new(EliminateCrossJoin::new()),
        Arc::new(EliminateLimit::new()),
        Arc::new(PropagateEmptyRelation::new()),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownFilter::new()),
    ];
    if !apart {
        rules.push(Arc::new(CommonSubexprEliminate::new()));
    }
    if !whole_rows {
        rules.push(Arc::new(OptimizeProjections::new()));
    }
    Optimizer::with_rules(rules)
}

/// DISTINCT ON is the first row of each group, which is what a filter on ROW_NUMBER says and lowering knows as a top-1.
#[derive(Debug)]
struct FirstRows;

impl AnalyzerRule for FirstRows {
    fn name(&self) -> &str {
        "first_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Distinct(Distinct::On(on)) => Ok(Transformed::yes(first_rows(on)?)),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn first_rows(on: DistinctOn) -> Result<LogicalPlan> {
    const POSITION: &str = "__position";
    let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = on;
    let order: Vec<SortExpr> = sort_expr.unwrap_or_default();
    let mut number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    number.params.partition_by = on_expr;
    number.params.order_by = order.clone();
    let number = Expr::WindowFunction(Box::new(number)).alias(POSITION);
    let first = LogicalPlanBuilder::from(input.as_ref().clone())
        .window(vec![number])?
        .filter(Expr::Column(Column::from_name(POSITION)).eq(lit(1u64)))?
        .build()?;
    let first = match order.is_empty() {
        true => first,
        false => LogicalPlan::Sort(Sort { expr: order, input: Arc::new(first), fetch: None }),
    };
    let named =
        select_expr.into_iter().zip(schema.iter()).map(|(expr, (qualifier, field))| expr.alias_qualified(qualifier.cloned(), field.name()));
    LogicalPlanBuilder::from(first).project(named.collect::<Vec<_>>())?.build()
}
