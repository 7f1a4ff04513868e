//! Subqueries in expressions, said in ways that the decorrelating rules get right.
//!
//! Those rules make joins of EXISTS where it stands in a WHERE, and of scalar subqueries of one row. This rule, which runs
//! before them, brings the rest to that form:
//!
//! - `x IN (S)` alone in a WHERE becomes `EXISTS(S where s = x)`.
//! - `x NOT IN (S)` is never true if S has a NULL, nor if x is NULL and S has a row. It becomes `NOT EXISTS(S where s =
//!   x)`, `NOT EXISTS(S where s IS NULL)` and `NOT EXISTS(S where x IS NULL)`, the last two only where NULLs can be.
//! - `x > ANY (S)` becomes `EXISTS(S where x > s)`, `x > ALL (S)` becomes `NOT EXISTS(S where (x > s) IS NOT TRUE)`.
//! - Inside a larger expression these have three values, and become a CASE over EXISTS.
//! - Outside of a WHERE, EXISTS becomes `(SELECT COUNT(*) > 0 FROM S)`.
//! - A scalar subquery that may have more rows than one becomes an aggregate that fails if it has
//!   ([`single_value`]); a correlated one with LIMIT 1 a FIRST_VALUE.
//! - A scalar subquery inside an aggregate or an ORDER BY moves to a projection below it, and a subquery in an inner join's ON to a
//!   filter above it.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion_expr::expr::{AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier, Sort as SortExpr};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::{Aggregate, FetchType, Filter, Join, Limit, Projection, SkipType, Sort, Subquery, SubqueryAlias};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, ExprSchemable, JoinType, LogicalPlan, binary_expr, lit, when};
use datafusion_functions_aggregate::count::count;
use datafusion_functions_aggregate::first_last::first_value_udaf;
use datafusion_optimizer::AnalyzerRule;

use super::errors::through;
use crate::error::Error;
use crate::sql::functions::single_value;

/// See the module.
#[derive(Debug)]
pub(super) struct PlainSubqueries;

impl AnalyzerRule for PlainSubqueries {
    fn name(&self) -> &str {
        "plain_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| rewrite(node).map(Transformed::yes)).data()
    }
}

fn rewrite(node: LogicalPlan) -> Result<LogicalPlan> {
    if !node.expressions().iter().any(has_subquery) {
        return Ok(node);
    }
    match node {
        LogicalPlan::Filter(filter) => filtered(filter),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => filter_above(join),
        LogicalPlan::Aggregate(aggregate) => project_below(aggregate),
        LogicalPlan::Sort(sort) => project_below_sort(sort),
        other => as_values(other),
    }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|node| Ok(matches!(node, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))))
        .unwrap_or(true)
}

/// A WHERE: what stands alone in it becomes EXISTS or stays IN, what is inside of something has a value.
fn filtered(filter: Filter) -> Result<LogicalPlan> {
    let schema = Arc::clone(filter.input.schema());
    let mut conjuncts = vec![];
    for conjunct in split_conjunction_owned(filter.predicate) {
        refuse_lossy(&conjunct)?;
        match in_subquery(&conjunct) {
            Some((test, true)) => conjuncts.extend(not_in(test, &schema)?),
            Some((test, false)) if is_one_row(&test.subquery.subquery) => conjuncts.push(one_row_in(test, false)),
            Some((test, false)) => conjuncts.push(is_in(test, &schema)?),
            None if matches!(conjunct, Expr::SetComparison(_)) => conjuncts.push(quantified(conjunct, &schema)?),
            None => conjuncts.push(conjunct.transform_up(|node| inside(node, &schema, true)).data()?),
        }
    }
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    let predicate = predicate.transform_up(|node| Ok(Transformed::yes(single(node)?))).data()?;
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?))
}

/// `[NOT] x [NOT] IN (S)`, and whether it is negated.
fn in_subquery(expr: &Expr) -> Option<(&InSubquery, bool)> {
    match expr {
        Expr::InSubquery(test) => Some((test, test.negated)),
        Expr::Not(inner) => in_subquery(inner).map(|(test, negated)| (test, !negated)),
        _ => None,
    }
}

/// Subqueries in the expressions of any other node.
fn as_values(node: LogicalPlan) -> Result<LogicalPlan> {
    let mut schema = DFSchema::empty();
    node.inputs().into_iter().for_each(|input| schema.merge(input.schema()));
    let names = NamePreserver::new(&node);
    let node = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(value(expr, &schema)?)))
    });
    node.data()?.recompute_schema()
}

fn value(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    refuse_lossy(&expr)?;
    expr.transform_up(|node| inside(node, schema, false)).data()?.transform_up(|node| Ok(Transformed::yes(single(node)?))).data()
}

/// An IN or EXISTS inside an expression. In a WHERE, EXISTS may stay.
fn inside(expr: Expr, schema: &DFSchema, in_where: bool) -> Result<Transformed<Expr>> {
    let made = match expr {
        Expr::InSubquery(test) if is_one_row(&test.subquery.subquery) => one_row_in(&test, test.negated),
        Expr::InSubquery(test) => existence(three_valued(&test, schema)?, schema, in_where)?,
        Expr::SetComparison(test) => existence(three_valued_comparison(&test, schema)?, schema, in_where)?,
        Expr::Exists(exists) if is_one_row(&exists.subquery.subquery) => lit(!exists.negated),
        Expr::Exists(exists) if is_filtered_one_row(&exists.subquery) => holds(exists)?,
        Expr::Exists(exists) if !in_where => counted(exists)?,
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(made))
}

/// An expression over EXISTS, where EXISTS may stay or must have a value.
fn existence(expr: Expr, schema: &DFSchema, in_where: bool) -> Result<Expr> {
    if in_where {
        return Ok(expr);
    }
    expr.transform_up(|node| match node {
        Expr::Exists(_) => inside(node, schema, false),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// `x op ANY (S)` or `x op ALL (S)` in a WHERE, where NULL is as good as false.
fn quantified(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::SetComparison(test) = expr else { return Ok(expr) };
    let Some(x) = Correlated::new(&test.expr, schema)? else { return Ok(Expr::SetComparison(test)) };
    let subquery = apart(&test.subquery, schema)?;
    let (s, _) = output(&subquery);
    let holds = binary_expr(x.expr, test.op, s);
    match test.quantifier {
        SetQuantifier::Any => exists_where(&subquery, Some(holds), &x.outer, false),
        SetQuantifier::All => exists_where(&subquery, Some(holds.is_not_true()), &x.outer, true),
    }
}

/// The same with its three values.
fn three_valued_comparison(test: &SetComparison, schema: &DFSchema) -> Result<Expr> {
    let Some(x) = Correlated::new(&test.expr, schema)? else { return Ok(Expr::SetComparison(test.clone())) };
    let subquery = apart(&test.subquery, schema)?;
    let (s, _) = output(&subquery);
    let holds = binary_expr(x.expr, test.op, s);
    let (decisive, decided) = match test.quantifier {
        SetQuantifier::Any => (holds.clone().is_true(), true),
        SetQuantifier::All => (holds.clone().is_false(), false),
    };
    when(exists_where(&subquery, Some(decisive), &x.outer, false)?, lit(decided))
        .when(exists_where(&subquery, Some(holds.is_null()), &x.outer, false)?, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(!decided))
}

/// `x IN (S)` with S of exactly one row is a comparison.
fn one_row_in(test: &InSubquery, negated: bool) -> Expr {
    let value = Expr::ScalarSubquery(test.subquery.clone());
    let tested = test.expr.as_ref().clone();
    if negated { tested.not_eq(value) } else { tested.eq(value) }
}

/// `x IN (S)` in a WHERE.
fn is_in(test: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let Some(x) = Correlated::new(&test.expr, schema)? else { return Ok(Expr::InSubquery(test.clone())) };
    let subquery = apart(&test.subquery, schema)?;
    exists_where(&subquery, Some(output(&subquery).0.eq(x.expr)), &x.outer, false)
}

/// `x NOT IN (S)` in a WHERE.
fn not_in(test: &InSubquery, schema: &DFSchema) -> Result<Vec<Expr>> {
    if is_one_row(&test.subquery.subquery) {
        return Ok(vec![one_row_in(test, true)]);
    }
    let Some(x) = Correlated::new(&test.expr, schema)? else {
        return Ok(vec![Expr::InSubquery(InSubquery::new(test.expr.clone(), test.subquery.clone(), true))]);
    };
    let subquery = apart(&test.subquery, schema)?;
    let (s, s_nullable) = output(&subquery);
    let mut none = vec![exists_where(&subquery, Some(s.clone().eq(x.expr.clone())), &x.outer, true)?];
    if s_nullable {
        none.push(exists_where(&subquery, Some(s.is_null()), &[], true)?);
    }
    if test.expr.nullable(schema)? {
        none.push(exists_where(&subquery, Some(x.expr.clone().is_null()), &x.outer, true)?);
    }
    Ok(none)
}

/// `x IN (S)` with its three values.
fn three_valued(test: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let Some(x) = Correlated::new(&test.expr, schema)? else {
        return Ok(Expr::InSubquery(test.clone()));
    };
    let subquery = apart(&test.subquery, schema)?;
    let (s, s_nullable) = output(&subquery);
    let null = lit(ScalarValue::Boolean(None));
    let mut case = when(exists_where(&subquery, Some(s.clone().eq(x.expr.clone())), &x.outer, false)?, lit(true));
    if test.expr.nullable(schema)? {
        let has_row = exists_where(&subquery, None, &[], false)?;
        case = case.when(test.expr.clone().is_null().and(has_row), null.clone());
    }
    if s_nullable {
        case = case.when(exists_where(&subquery, Some(s.is_null()), &[], false)?, null);
    }
    let is_in = case.otherwise(lit(false))?;
    Ok(if test.negated { Expr::Not(Box::new(is_in)) } else { is_in })
}

/// An expression of the outer query as the inner one sees it.
struct Correlated {
    expr: Expr,
    outer: Vec<Expr>,
}

impl Correlated {
    /// None where the expression is itself of a query further out, or has a subquery.
    fn new(expr: &Expr, schema: &DFSchema) -> Result<Option<Self>> {
        if expr.contains_outer() || has_subquery(expr) {
            return Ok(None);
        }
        let mut outer = vec![];
        let expr = expr.clone().transform_up(|node| match node {
            Expr::Column(column) => {
                let (_, field) = schema.qualified_field_from_column(&column)?;
                let reference = Expr::OuterReferenceColumn(Arc::clone(field), column);
                outer.push(reference.clone());
                Ok(Transformed::yes(reference))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(Some(Correlated { expr: expr.data()?, outer }))
    }
}

/// A subquery whose column cannot be taken for one of the outer query, which may read the same table under the same name.
fn apart(subquery: &Subquery, schema: &DFSchema) -> Result<Subquery> {
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    if !schema.iter().any(|(outer, other)| outer == qualifier && other.name() == field.name()) {
        return Ok(subquery.clone());
    }
    // Subqueries inside have their names already.
    let depth = subquery.subquery.display_indent().to_string().matches("__apart_").count();
    let alias = SubqueryAlias::try_new(Arc::clone(&subquery.subquery), format!("__apart_{depth}"))?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::SubqueryAlias(alias)), ..subquery.clone() })
}

/// The first column of a subquery, and whether it may be NULL.
fn output(subquery: &Subquery) -> (Expr, bool) {
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    (Expr::Column(Column::from((qualifier, field))), field.is_nullable())
}

/// `[NOT] EXISTS(subquery WHERE predicate)`.
fn exists_where(subquery: &Subquery, predicate: Option<Expr>, outer: &[Expr], negated: bool) -> Result<Expr> {
    let plan = match predicate {
        None => Arc::clone(&subquery.subquery),
        Some(predicate) => Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, Arc::clone(&subquery.subquery))?)),
    };
    let mut outer_ref_columns = subquery.outer_ref_columns.clone();
    outer_ref_columns.extend(outer.iter().filter(|reference| !subquery.outer_ref_columns.contains(reference)).cloned());
    Ok(Expr::Exists(Exists::new(Subquery { subquery: plan, outer_ref_columns, spans: subquery.spans.clone() }, negated)))
}

/// `(SELECT COUNT(*) > 0 FROM S)`.
fn counted(exists: Exists) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = exists.subquery;
    let rows = count(lit(1i64)).alias("rows");
    let counted = LogicalPlan::Aggregate(Aggregate::try_new(subquery, vec![], vec![rows])?);
    let rows = Expr::Column(Column::from_name("rows"));
    let test = if exists.negated { rows.eq(lit(0i64)) } else { rows.gt(lit(0i64)) };
    let tested = LogicalPlan::Projection(Projection::try_new(vec![test.alias("exists")], Arc::new(counted))?);
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(tested), outer_ref_columns, spans }))
}

/// `EXISTS (SELECT ... HAVING p)` without GROUP BY is whether `p` holds of the one group, which is there whatever rows are.
fn holds(exists: Exists) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = exists.subquery;
    let mut plan = &subquery;
    let tested = loop {
        match &**plan {
            LogicalPlan::Projection(projection) => plan = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => plan = &alias.input,
            LogicalPlan::Sort(sort) => plan = &sort.input,
            LogicalPlan::Filter(filter) => {
                break Projection::try_new(vec![filter.predicate.clone().alias("holds")], Arc::clone(&filter.input))?;
            }
            other => return plan_err!("{} is not a filter of one row", other.display()),
        }
    };
    let value = Expr::ScalarSubquery(Subquery { subquery: Arc::new(LogicalPlan::Projection(tested)), outer_ref_columns, spans });
    Ok(if exists.negated { value.is_not_true() } else { value.is_true() })
}

/// Whether a correlated subquery is a filter of exactly one row.
fn is_filtered_one_row(subquery: &Subquery) -> bool {
    fn filtered(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Projection(projection) => filtered(&projection.input),
            LogicalPlan::SubqueryAlias(alias) => filtered(&alias.input),
            LogicalPlan::Sort(sort) => filtered(&sort.input),
            LogicalPlan::Filter(filter) => is_one_row(&filter.input),
            _ => false,
        }
    }
    !subquery.outer_ref_columns.is_empty() && filtered(&subquery.subquery)
}

/// Decorrelation makes a group of rows, and so loses the group that has none; and it takes the LIMIT off an EXISTS.
fn refuse_lossy(expr: &Expr) -> Result<()> {
    let mut lossy = None;
    expr.apply(|node| {
        let (subquery, is_exists) = match node {
            Expr::InSubquery(test) => (&test.subquery, false),
            Expr::SetComparison(test) => (&test.subquery, false),
            Expr::Exists(exists) => (&exists.subquery, true),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if !is_exists && is_filtered_one_row(subquery) {
            lossy = Some("IN, ANY or ALL of a correlated subquery with HAVING and no GROUP BY");
        }
        if let LogicalPlan::Limit(limit) = &*subquery.subquery
            && !subquery.outer_ref_columns.is_empty()
            && !(is_exists && matches!(limit.get_skip_type()?, SkipType::Literal(0)))
        {
            lossy = Some("LIMIT or OFFSET in a correlated subquery of IN, ANY, ALL or EXISTS");
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match lossy {
        None => Ok(()),
        Some(what) => Err(through(Error::unsupported(what))),
    }
}

/// A scalar subquery as one that has at most one row.
fn single(expr: Expr) -> Result<Expr> {
    let Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }) = expr else { return Ok(expr) };
    if subquery.schema().fields().len() != 1 {
        return Ok(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }));
    }
    let subquery = match &*subquery {
        LogicalPlan::Limit(limit) if !outer_ref_columns.is_empty() && is_first_row(limit)? => first_value_of(&limit.input)?,
        plan if has_at_most_one_row(plan) => subquery,
        plan => {
            let (qualifier, field) = plan.schema().qualified_field(0);
            let column = Expr::Column(Column::from((qualifier, field)));
            ungrouped(single_value(), column, vec![], field.name(), Arc::clone(&subquery))?
        }
    };
    Ok(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }))
}

fn is_first_row(limit: &Limit) -> Result<bool> {
    Ok(matches!(limit.get_fetch_type()?, FetchType::Literal(Some(1))) && matches!(limit.get_skip_type()?, SkipType::Literal(0)))
}

/// FIRST_VALUE of the one column of `plan`, in its order.
fn first_value_of(plan: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let (qualifier, field) = plan.schema().qualified_field(0);
    let name = field.name().clone();
    let column = Expr::Column(Column::from((qualifier, field)));
    let (value, order, input) = match &**plan {
        LogicalPlan::Sort(sort) => (column, sort.expr.clone(), &sort.input),
        LogicalPlan::Projection(projection) => match &*projection.input {
            LogicalPlan::Sort(sort) => (projection.expr[0].clone().unalias(), sort.expr.clone(), &sort.input),
            _ => (column, vec![], plan),
        },
        _ => (column, vec![], plan),
    };
    ungrouped(first_value_udaf(), value, order, &name, Arc::clone(input))
}

fn ungrouped(
    function: Arc<datafusion_expr::AggregateUDF>,
    arg: Expr,
    order: Vec<SortExpr>,
    name: &str,
    input: Arc<LogicalPlan>,
) -> Result<Arc<LogicalPlan>> {
    let call = Expr::AggregateFunction(AggregateFunction::new_udf(function, vec![arg], false, None, order, None));
    Ok(Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(input, vec![], vec![call.alias(name)])?)))
}

/// Whether `plan` has one row, whatever is in its tables.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && is_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

fn has_at_most_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_at_most_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_at_most_one_row(&alias.input),
        LogicalPlan::Filter(filter) => has_at_most_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_at_most_one_row(&sort.input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1)))) || has_at_most_one_row(&limit.input)
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        _ => false,
    }
}

/// Subqueries in an inner join's ON, in a WHERE above it.
fn filter_above(join: Join) -> Result<LogicalPlan> {
    if join.on.iter().any(|(l, r)| has_subquery(l) || has_subquery(r)) {
        return as_values(LogicalPlan::Join(join));
    }
    let conjuncts = join.filter.map(split_conjunction_owned).unwrap_or_default();
    let (moved, kept): (Vec<Expr>, Vec<Expr>) = conjuncts.into_iter().partition(has_subquery);
    let join = Join { filter: conjunction(kept), ..join };
    let predicate = conjunction(moved).unwrap_or_else(|| lit(true));
    filtered(Filter::try_new(predicate, Arc::new(LogicalPlan::Join(join)))?)
}

/// Subqueries in GROUP BY and in aggregates, as columns of a projection below.
fn project_below(aggregate: Aggregate) -> Result<LogicalPlan> {
    let mut below = Below::new(aggregate.input);
    let mut hoist = |expr: Expr| {
        let name = expr.schema_name().to_string();
        below.hoist(expr)?.alias_if_changed(name)
    };
    let group_expr = aggregate.group_expr.into_iter().map(&mut hoist).collect::<Result<Vec<_>>>()?;
    let aggr_expr = aggregate.aggr_expr.into_iter().map(&mut hoist).collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(below.projection()?, group_expr, aggr_expr)?))
}

/// Subqueries in ORDER BY, as columns of a projection below that another one above leaves out.
fn project_below_sort(sort: Sort) -> Result<LogicalPlan> {
    let shown: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut below = Below::new(sort.input);
    let keys = sort.expr.into_iter().map(|key| Ok(SortExpr { expr: below.hoist(key.expr)?, ..key }));
    let expr = keys.collect::<Result<Vec<_>>>()?;
    let sorted = LogicalPlan::Sort(Sort { expr, input: below.projection()?, fetch: sort.fetch });
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(sorted))?))
}

/// A projection in the making: all columns of its input, and subqueries.
struct Below {
    input: Arc<LogicalPlan>,
    columns: Vec<Expr>,
    subqueries: usize,
}

impl Below {
    fn new(input: Arc<LogicalPlan>) -> Self {
        let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
        Below { input, columns, subqueries: 0 }
    }

    /// `expr` with the subqueries in it replaced by columns.
    fn hoist(&mut self, expr: Expr) -> Result<Expr> {
        let expr = value(expr, self.input.schema())?;
        expr.transform_down(|node| match node {
            Expr::ScalarSubquery(_) => {
                let alias = format!("__subquery_{}", self.subqueries);
                self.subqueries += 1;
                self.columns.push(node.alias(&alias));
                Ok(Transformed::yes(Expr::Column(Column::from_name(alias))))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn projection(self) -> Result<Arc<LogicalPlan>> {
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(self.columns, self.input)?)))
    }
}
