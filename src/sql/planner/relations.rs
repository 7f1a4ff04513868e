//! What may stand in FROM.
//!
//! DataFusion's planner passes over parts of a table reference that it has no use for (FOR SYSTEM_TIME AS OF, a sample). A
//! part that would change the answer is refused here by its name. What [`super::prepare`] marked as a set operation of bags
//! or as an as-of join is planned here, where the operands' CTEs and outer columns are in scope.

use std::sync::Arc;

use datafusion_common::plan_datafusion_err;
use datafusion_expr::LogicalPlan;
use datafusion_expr::logical_plan::Extension;
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use sqlparser::ast::{Expr, FunctionArg, FunctionArguments, TableAlias, TableFactor, TableWithJoins};

use super::asof::{self, AS_OF};
use super::errors::through;
use super::prepare::{EXCEPT, EXCEPT_ALL, INTERSECT, INTERSECT_ALL};
use super::windows::{self, Kind};
use crate::error::{Error, Result};
use crate::plan::lower::{Multiset, MultisetKind};

/// Plans what was marked, and refuses what Weir has no relation for.
#[derive(Debug)]
pub(super) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> datafusion_common::Result<RelationPlanning> {
        let relation = match window_function(relation) {
            Ok((kind, args, alias)) => {
                let plan = windows::table_function(kind, args, context)?;
                return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
            }
            Err(other) => *other,
        };
        refuse_relation(&relation).map_err(through)?;
        match relation {
            TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } => match alias.name.value.as_str() {
                EXCEPT => multiset(MultisetKind::Except, *table_with_joins, context),
                INTERSECT => multiset(MultisetKind::Intersect, *table_with_joins, context),
                EXCEPT_ALL => multiset(MultisetKind::ExceptAll, *table_with_joins, context),
                INTERSECT_ALL => multiset(MultisetKind::IntersectAll, *table_with_joins, context),
                AS_OF => Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(asof::plan(*table_with_joins, context)?, None)))),
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

/// The windows that a relation is a call of, the arguments and the alias; or the relation.
fn window_function(relation: TableFactor) -> std::result::Result<(Kind, Vec<FunctionArg>, Option<TableAlias>), Box<TableFactor>> {
    let kind = match &relation {
        TableFactor::Table { name, args: Some(_), .. } => Kind::named(&name.to_string()),
        TableFactor::TableFunction { expr: Expr::Function(call), .. } => Kind::named(&call.name.to_string()),
        _ => None,
    };
    match (kind, relation) {
        (Some(kind), TableFactor::Table { args: Some(args), alias, .. }) => Ok((kind, args.args, alias)),
        (Some(kind), TableFactor::TableFunction { expr: Expr::Function(call), alias }) => {
            let args = if let FunctionArguments::List(list) = call.args { list.args } else { vec![] };
            Ok((kind, args, alias))
        }
        (_, relation) => Err(Box::new(relation)),
    }
}

fn refuse_relation(relation: &TableFactor) -> Result<()> {
    let what = match relation {
        TableFactor::Table { version: Some(version), name, .. } => {
            format!("{version} on {name} here: FOR SYSTEM_TIME AS OF stands in a JOIN or LEFT JOIN, on the table that is joined")
        }
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
