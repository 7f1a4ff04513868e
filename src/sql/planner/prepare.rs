//! Queries as DataFusion's planner wants them written.
//!
//! Its planner passes over parts of a query that it has no use for; a part that would change the answer is refused here by
//! its name. Other parts mean something to it that they do not mean in SQL, and are written another way.
//!
//! `A EXCEPT ALL B` and `A INTERSECT ALL B` are to be planned as a [`Multiset`](crate::plan::lower::Multiset). The planner
//! has no hook for set operations, but one for FROM: so the operation is rewritten to `SELECT * FROM (A CROSS JOIN B) AS
//! <marker>`, and [`super::relations`] takes the marker for what it stands for.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr,
    SetOperator, SetQuantifier, TableAlias, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
};

use crate::error::{Error, Result};

/// Marks EXCEPT ALL.
pub(super) const EXCEPT_ALL: &str = "__except_all";
/// Marks INTERSECT ALL.
pub(super) const INTERSECT_ALL: &str = "__intersect_all";

/// The query in a form that DataFusion's planner plans as it was meant.
pub(super) fn prepare(query: &Query) -> Result<Query> {
    let mut query = query.clone();
    tell_repeats_apart(&mut query);
    match VisitMut::visit(&mut query, &mut Prepare) {
        ControlFlow::Continue(()) => Ok(query),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Prepare;

impl VisitorMut for Prepare {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let refused = [
            (select.top.is_some(), "TOP: say LIMIT"),
            (select.into.is_some(), "SELECT INTO"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW: say CROSS JOIN UNNEST"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY: say ORDER BY"),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE"),
        ];
        refuse(&refused)?;
        for join in select.from.iter().flat_map(|from| &from.joins) {
            refuse_coalescing_join(&join.join_operator)?;
        }
        ControlFlow::Continue(())
    }

    /// `x = ANY (S)` is `x IN (S)`, and `x <> ALL (S)` its opposite.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let (left, right, negated) = match expr {
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
            _ => return ControlFlow::Continue(()),
        };
        if let Expr::Subquery(subquery) = &mut **right {
            let test = Expr::InSubquery { expr: left.clone(), subquery: subquery.clone(), negated };
            *expr = test;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let refused = [
            (!query.locks.is_empty(), "FOR UPDATE and FOR SHARE"),
            (query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
        ];
        refuse(&refused)?;
        fetch_as_limit(query)?;
        order_by_expressions(query);
        mark_set_operations(&mut query.body)
    }
}

fn refuse(parts: &[(bool, &str)]) -> ControlFlow<Error> {
    match parts.iter().find(|(present, _)| *present) {
        Some((_, what)) => ControlFlow::Break(Error::unsupported(what)),
        None => ControlFlow::Continue(()),
    }
}

/// FETCH FIRST n ROWS ONLY is LIMIT n.
fn fetch_as_limit(query: &mut Query) -> ControlFlow<Error> {
    let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
    let rows = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
    match &mut query.limit_clause {
        _ if fetch.with_ties => return ControlFlow::Break(Error::unsupported("FETCH ... WITH TIES: say RANK() <= n")),
        _ if fetch.percent => return ControlFlow::Break(Error::unsupported("FETCH ... PERCENT")),
        None => query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] }),
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return ControlFlow::Break(Error::invalid("a query has LIMIT or FETCH, not both")),
    }
    ControlFlow::Continue(())
}

/// A column that USING names is the COALESCE of both sides', and DataFusion's planner takes the left one.
fn refuse_coalescing_join(operator: &JoinOperator) -> ControlFlow<Error> {
    use JoinOperator::{FullOuter, Right, RightOuter};
    let (kind, constraint) = match operator {
        Right(constraint) | RightOuter(constraint) => ("RIGHT", constraint),
        FullOuter(constraint) => ("FULL", constraint),
        _ => return ControlFlow::Continue(()),
    };
    match constraint {
        JoinConstraint::Using(_) | JoinConstraint::Natural => {
            ControlFlow::Break(Error::unsupported(format!("{kind} JOIN with USING or NATURAL: say ON, and COALESCE in SELECT")))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// `ORDER BY 2` is the second expression of SELECT, whatever it is.
fn order_by_expressions(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, &mut query.order_by) else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    for key in keys {
        let Expr::Value(value) = &key.expr else { continue };
        let Value::Number(digits, _) = &value.value else { continue };
        let Some(index) = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) else { continue };
        if select.projection.iter().take(index).any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })) {
            continue;
        }
        match select.projection.get(index) {
            Some(SelectItem::UnnamedExpr(expr)) => key.expr = expr.clone(),
            Some(SelectItem::ExprWithAlias { alias, .. }) => key.expr = Expr::Identifier(alias.clone()),
            _ => {}
        }
    }
}

/// What is behind this in a column's name is not part of it.
const REPEAT: char = '\u{1}';

/// SELECT may say the same expression twice, and DataFusion's planner wants names of them. (A cast has its operand's.)
fn tell_repeats_apart(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let mut said: Vec<Expr> = vec![];
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let uncast = without_casts(expr).clone();
        if !said.contains(&uncast) {
            said.push(uncast);
            continue;
        }
        let name = match &uncast {
            Expr::Identifier(name) => name.value.clone(),
            Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, |name| name.value.clone()),
            _ => expr.to_string(),
        };
        let alias = Ident::with_quote('"', format!("{name}{REPEAT}{}", said.len()));
        said.push(uncast);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => without_casts(expr),
        other => other,
    }
}

/// A column's name as the query meant it.
pub(super) fn shown_name(name: &str) -> String {
    name.split(REPEAT).next().unwrap_or_default().to_string()
}

/// Rewrites EXCEPT ALL and INTERSECT ALL in a query's body, the innermost first. (Queries in it were visited before.)
fn mark_set_operations(body: &mut SetExpr) -> ControlFlow<Error> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return ControlFlow::Continue(()) };
    mark_set_operations(left)?;
    mark_set_operations(right)?;
    let marker = match (*op, *set_quantifier) {
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::All) => EXCEPT_ALL,
        (SetOperator::Intersect, SetQuantifier::All) => INTERSECT_ALL,
        (SetOperator::Minus, _) => {
            *op = SetOperator::Except;
            return ControlFlow::Continue(());
        }
        _ => return ControlFlow::Continue(()),
    };
    let operand =
        |body: &SetExpr| TableFactor::Derived { lateral: false, subquery: Box::new(only(body.clone())), alias: None, sample: None };
    let joins = vec![Join { relation: operand(right), global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) }];
    let alias = TableAlias { explicit: true, name: Ident::new(marker), columns: vec![], at: None };
    let marked =
        TableFactor::NestedJoin { table_with_joins: Box::new(TableWithJoins { relation: operand(left), joins }), alias: Some(alias) };
    *body = SetExpr::Select(Box::new(everything_of(marked)));
    ControlFlow::Continue(())
}

/// A query that is nothing but `body`.
fn only(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

/// `SELECT * FROM relation`.
fn everything_of(relation: TableFactor) -> Select {
    use sqlparser::ast::helpers::attached_token::AttachedToken;
    use sqlparser::ast::{GroupByExpr, SelectFlavor, WildcardAdditionalOptions};
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation, joins: vec![] }],
        lateral_views: vec![],
        prewhere: None,
        selection: None,
        connect_by: vec![],
        group_by: GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
