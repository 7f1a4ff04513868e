//! What may stand in FROM, and the set operations that DataFusion's planner gets wrong.
//!
//! DataFusion's planner passes over parts of a query that it has no use for (FOR SYSTEM_TIME AS OF, a sample, a lock). A
//! part that would change the answer is refused here by its name.
//!
//! `A EXCEPT ALL B` and `A INTERSECT ALL B` are planned as a [`Multiset`]. There is no hook for set operations, but there
//! is one for FROM: so the operation is rewritten to `SELECT * FROM (A CROSS JOIN B) AS <marker>` and the marker is taken
//! for what it stands for when FROM is planned, where the operands' CTEs and outer columns are in scope.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_common::plan_datafusion_err;
use datafusion_expr::LogicalPlan;
use datafusion_expr::logical_plan::Extension;
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, LimitClause, Query, Select, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use super::errors::through;
use crate::error::{Error, Result};
use crate::plan::lower::{Multiset, MultisetKind};

const EXCEPT_ALL: &str = "__except_all";
const INTERSECT_ALL: &str = "__intersect_all";

/// The query in a form that DataFusion's planner plans as it was meant.
pub(super) fn prepare(query: &Query) -> Result<Query> {
    let mut query = query.clone();
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
        refuse(&refused)
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
    let rows = fetch.quantity.unwrap_or_else(|| Expr::value(sqlparser::ast::Value::Number("1".into(), false)));
    match &mut query.limit_clause {
        _ if fetch.with_ties => return ControlFlow::Break(Error::unsupported("FETCH ... WITH TIES: say RANK() <= n")),
        _ if fetch.percent => return ControlFlow::Break(Error::unsupported("FETCH ... PERCENT")),
        None => query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] }),
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return ControlFlow::Break(Error::invalid("a query has LIMIT or FETCH, not both")),
    }
    ControlFlow::Continue(())
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
    use sqlparser::ast::{GroupByExpr, SelectFlavor, SelectItem, WildcardAdditionalOptions};
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

/// Plans what [`prepare`] marked, and refuses what Weir has no relation for.
#[derive(Debug)]
pub(super) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> datafusion_common::Result<RelationPlanning> {
        refuse_relation(&relation).map_err(through)?;
        match relation {
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } => match alias.name.value.as_str() {
                EXCEPT_ALL => multiset(MultisetKind::ExceptAll, *table_with_joins, context),
                INTERSECT_ALL => multiset(MultisetKind::IntersectAll, *table_with_joins, context),
                _ => Ok(RelationPlanning::Original(Box::new(TableFactor::NestedJoin { table_with_joins, alias: Some(alias) }))),
            },
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

fn multiset(
    kind: MultisetKind,
    operands: TableWithJoins,
    context: &mut dyn RelationPlannerContext,
) -> datafusion_common::Result<RelationPlanning> {
    let TableWithJoins { relation: left, mut joins } = operands;
    let right = joins.pop().ok_or_else(|| plan_datafusion_err!("a set operation has two operands"))?.relation;
    let node = Multiset::try_new(kind, context.plan(left)?, context.plan(right)?)?;
    let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
}

fn refuse_relation(relation: &TableFactor) -> Result<()> {
    let what = match relation {
        TableFactor::Table { version: Some(_), name, .. } => format!("FOR SYSTEM_TIME AS OF on {name} (temporal joins)"),
        TableFactor::Table { args: Some(_), name, .. } | TableFactor::Function { name, .. } => table_function(&name.to_string()),
        TableFactor::TableFunction { expr, .. } => table_function(expr.to_string().split('(').next().unwrap_or_default()),
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => "TABLESAMPLE".into(),
        TableFactor::Table { with_ordinality: true, .. } | TableFactor::UNNEST { with_ordinality: true, .. } => "WITH ORDINALITY".into(),
        TableFactor::UNNEST { with_offset: true, .. } => "UNNEST ... WITH OFFSET".into(),
        TableFactor::Table { partitions, name, .. } if !partitions.is_empty() => format!("PARTITION (...) of {name}"),
        TableFactor::Table { with_hints, name, .. } if !with_hints.is_empty() => format!("WITH (...) on {name}"),
        TableFactor::Table { index_hints, name, .. } if !index_hints.is_empty() => format!("index hints on {name}"),
        TableFactor::Table { json_path: Some(_), name, .. } => format!("a path into {name}"),
        TableFactor::Pivot { .. } => "PIVOT".into(),
        TableFactor::Unpivot { .. } => "UNPIVOT".into(),
        TableFactor::MatchRecognize { .. } => "MATCH_RECOGNIZE".into(),
        TableFactor::JsonTable { .. } => "JSON_TABLE".into(),
        TableFactor::OpenJsonTable { .. } => "OPENJSON".into(),
        TableFactor::XmlTable { .. } => "XMLTABLE".into(),
        _ => return Ok(()),
    };
    Err(Error::unsupported(what))
}

fn table_function(name: &str) -> String {
    format!("table function {}", name.trim().to_uppercase())
}
