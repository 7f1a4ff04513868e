//! `ASOF JOIN ... MATCH_CONDITION` and `JOIN t FOR SYSTEM_TIME AS OF`, planned as an [`AsOf`].
//!
//! DataFusion's planner knows neither, and has no hook for joins but one for what stands in FROM. So [`fold`] makes of such a
//! join, with all that stands before it, one relation `(left JOIN right) AS <marker>`, and [`plan`] plans that.
//!
//! In an ASOF JOIN, ON is made of equalities that choose the rows to compare times with. A temporal join compares the left
//! row with the version of a key: equalities with the columns of the primary key choose that, and what else ON says is asked of the
//! version that was chosen.

use datafusion_common::{Column, DFSchema, JoinSide, TableReference, plan_datafusion_err};
use datafusion_expr::logical_plan::{Extension, LogicalPlanBuilder};
use datafusion_expr::planner::RelationPlannerContext;
use datafusion_expr::utils::{conjunction, find_valid_equijoin_key_pair, split_conjunction_owned};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use sqlparser::ast::{
    BinaryOperator, Expr as Ast, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor, TableVersion, TableWithJoins,
};
use std::sync::Arc;

use super::errors::through;
use crate::error::Error;
use crate::plan::lower::{AsOf, Match, RelationSource, Versions};

/// Marks an as-of join.
pub(super) const AS_OF: &str = "__as_of";

/// Makes of each as-of join, with what is before it, one marked relation.
pub(super) fn fold(item: &mut TableWithJoins) {
    while let Some(position) = item.joins.iter().position(is_as_of) {
        let mut before: Vec<Join> = item.joins.drain(..=position).collect();
        let join = before.split_off(position);
        let relation = item.relation.clone();
        let left = match before.is_empty() {
            true => relation,
            false => nested(TableWithJoins { relation, joins: before }, None),
        };
        let marker = TableAlias { explicit: true, name: sqlparser::ast::Ident::new(AS_OF), columns: vec![], at: None };
        item.relation = nested(TableWithJoins { relation: left, joins: join }, Some(marker));
    }
}

fn is_as_of(join: &Join) -> bool {
    matches!(join.join_operator, JoinOperator::AsOf { .. }) || matches!(join.relation, TableFactor::Table { version: Some(_), .. })
}

fn nested(item: TableWithJoins, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(item), alias }
}

/// Whether a relation is one that [`fold`] made.
pub(super) fn is_folded(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::NestedJoin { alias: Some(alias), .. } if alias.name.value == AS_OF)
}

/// The relations of a join, and what names their columns together.
struct Sides {
    left: LogicalPlan,
    right: LogicalPlan,
    both: DFSchema,
}

/// Plans what [`fold`] has made.
pub(super) fn plan(item: TableWithJoins, context: &mut dyn RelationPlannerContext) -> datafusion_common::Result<LogicalPlan> {
    let TableWithJoins { relation, mut joins } = item;
    let Some(Join { relation: mut right, join_operator, .. }) = joins.pop() else {
        return Err(plan_datafusion_err!("an as-of join has two sides"));
    };
    let version = match &mut right {
        TableFactor::Table { version, name, .. } => version.take().map(|version| (version, name.to_string())),
        _ => None,
    };
    let left = context.plan(relation)?;
    let right = context.plan(right)?;
    let both = left.schema().join(right.schema())?;
    let sides = Sides { left, right, both };
    match (join_operator, version) {
        (JoinOperator::AsOf { match_condition, constraint }, None) => asof(sides, &match_condition, constraint, context),
        (JoinOperator::AsOf { .. }, Some((_, name))) => {
            Err(unsupported(format!("ASOF JOIN with FOR SYSTEM_TIME AS OF on {name}: each of them chooses a row by time, so say one")))
        }
        (operator, Some((TableVersion::ForSystemTimeAsOf(time), name))) => {
            let (constraint, outer) = match operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, false),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
                _ => return Err(unsupported(format!("FOR SYSTEM_TIME AS OF on {name} in this join: there is JOIN and LEFT JOIN"))),
            };
            temporal(sides, time, constraint, outer, &name, context)
        }
        (_, Some((version, name))) => Err(unsupported(format!("{version} on {name}: say FOR SYSTEM_TIME AS OF"))),
        (_, None) => Err(plan_datafusion_err!("a join that is marked as as-of is one")),
    }
}

/// `left ASOF JOIN right MATCH_CONDITION (left.ts >= right.ts) ON left.k = right.k`. Left rows without a match stay.
fn asof(
    sides: Sides,
    match_condition: &Ast,
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> datafusion_common::Result<LogicalPlan> {
    let (times, matching) = matched(&sides, match_condition, context)?;
    let text = match &constraint {
        JoinConstraint::On(condition) => condition.to_string(),
        _ => String::new(),
    };
    let Constraint { on, rest, merged } = Constraint::new(&sides, constraint, "ASOF JOIN", context)?;
    if !rest.is_empty() {
        return Err(through(Error::invalid(format!(
            "ON {text}: in an ASOF JOIN it is made of equalities of both sides with AND between; say what else there is in WHERE"
        ))));
    }
    finished(AsOf::try_new((sides.left, sides.right), on, times, matching, true, None)?, &merged)
}

/// The times that MATCH_CONDITION compares, the left side's first.
fn matched(sides: &Sides, condition: &Ast, context: &mut dyn RelationPlannerContext) -> datafusion_common::Result<((Expr, Expr), Match)> {
    let refused = || {
        through(Error::invalid(format!(
            "MATCH_CONDITION ({condition}): it compares a time of the left side with one of the right by >=, >, <= or <"
        )))
    };
    let mut inner = condition;
    while let Ast::Nested(nested) = inner {
        inner = nested;
    }
    let Ast::BinaryOp { left, op, right } = inner else { return Err(refused()) };
    let (as_written, exchanged) = match op {
        BinaryOperator::GtEq => (Match::AtOrAfter, Match::AtOrBefore),
        BinaryOperator::Gt => (Match::After, Match::Before),
        BinaryOperator::LtEq => (Match::AtOrBefore, Match::AtOrAfter),
        BinaryOperator::Lt => (Match::Before, Match::After),
        _ => return Err(refused()),
    };
    let one = context.sql_to_expr(left.as_ref().clone(), &sides.both)?;
    let other = context.sql_to_expr(right.as_ref().clone(), &sides.both)?;
    match (sides.of(&one), sides.of(&other)) {
        (JoinSide::Left, JoinSide::Right) => Ok(((one, other), as_written)),
        (JoinSide::Right, JoinSide::Left) => Ok(((other, one), exchanged)),
        _ => Err(refused()),
    }
}

/// `left JOIN right FOR SYSTEM_TIME AS OF time ON left.k = right.k`: the latest version of the key at or before that time.
fn temporal(
    mut sides: Sides,
    time: Ast,
    constraint: JoinConstraint,
    outer: bool,
    name: &str,
    context: &mut dyn RelationPlannerContext,
) -> datafusion_common::Result<LogicalPlan> {
    let versions = versions(&mut sides.right, name)?;
    let left_time = context.sql_to_expr(time, sides.left.schema())?;
    let column = |index: usize| Column::from(sides.right.schema().qualified_field(index));
    let right_time = Expr::Column(column(versions.time));
    let key: Vec<Column> = versions.key.into_iter().map(column).collect();
    let Constraint { on, mut rest, merged } = Constraint::new(&sides, constraint, "a temporal join", context)?;
    let is_key = |expr: &Expr| matches!(expr, Expr::Column(column) if key.contains(column));
    let (on, others): (Vec<_>, Vec<_>) = on.into_iter().partition(|(_, right)| is_key(right));
    rest.extend(others.into_iter().map(|(left, right)| left.eq(right)));
    if let Some(missing) = key.iter().find(|column| !on.iter().any(|(_, right)| matches!(right, Expr::Column(found) if found == *column))) {
        return Err(through(Error::invalid(format!(
            "ON of a temporal join says what each column of the primary key of {name} is equal to, and says nothing of {}",
            missing.flat_name()
        ))));
    }
    let node = AsOf::try_new((sides.left, sides.right), on, (left_time, right_time), Match::AtOrAfter, outer, conjunction(rest))?;
    finished(node, &merged)
}

/// Which columns of a versioned table tell a version: those of its key, and its time.
struct Versioned {
    key: Vec<usize>,
    time: usize,
}

/// What makes `right` a versioned table; puts all versions in the place of the last one of each key.
fn versions(right: &mut LogicalPlan, name: &str) -> datafusion_common::Result<Versioned> {
    let (table, alias) = match &*right {
        LogicalPlan::SubqueryAlias(alias) => (alias.input.as_ref(), Some(alias.alias.clone())),
        other => (other, None),
    };
    let (table_name, versions) = match table {
        LogicalPlan::TableScan(scan) => {
            (scan.table_name.clone(), scan.source.downcast_ref::<RelationSource>().and_then(|source| source.versions.clone()))
        }
        _ => (TableReference::bare(name), None),
    };
    let Versions { key, time, history } = versions.ok_or_else(|| through(no_versions(name, NO_TABLE)))?;
    if key.is_empty() {
        return Err(through(no_versions(name, NO_KEY)));
    }
    let time = time.ok_or_else(|| through(no_versions(name, NO_TIME)))?;
    if !key.contains(&time) {
        let Some(plan) = history else {
            let named = key.iter().chain([&time]).map(|column| right.schema().field(*column).name().as_str());
            let named = named.collect::<Vec<_>>().join(", ");
            return Err(through(no_versions(name, &format!("{ONE_ROW}: PRIMARY KEY ({named})"))));
        };
        let source = RelationSource { schema: plan.row().schema(), plan, versions: None };
        let scan = LogicalPlanBuilder::scan(table_name, Arc::new(source), None)?;
        *right = match alias {
            Some(alias) => scan.alias(alias)?.build()?,
            None => scan.build()?,
        };
    }
    Ok(Versioned { key: key.into_iter().filter(|column| *column != time).collect(), time })
}

const NO_TABLE: &str = "it is no table, and versions are those of a table; \
    ASOF JOIN ... MATCH_CONDITION (left.ts >= right.ts) joins rows of any kind by time";
const NO_KEY: &str = "the table has no PRIMARY KEY, which says whose versions its rows are; \
    ASOF JOIN ... MATCH_CONDITION (left.ts >= right.ts) joins rows of any kind by time";
const NO_TIME: &str = "the table has no WATERMARK, which names the time of its versions: declare WATERMARK FOR ts AS ts; \
    the rows that are there now are joined without FOR SYSTEM_TIME";
const ONE_ROW: &str = "the table holds one row of each PRIMARY KEY, so that the time of its versions is to be part of that \
    (a source that only appends may leave it out, if it is no computed column)";

fn no_versions(name: &str, why: &str) -> Error {
    Error::invalid(format!("FOR SYSTEM_TIME AS OF on {name}: {why}"))
}

/// The join, without the right side's columns that USING has merged into the left side's.
fn finished(node: AsOf, merged: &[Column]) -> datafusion_common::Result<LogicalPlan> {
    let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    if merged.is_empty() {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().filter(|column| !merged.contains(column)).map(Expr::Column);
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// What ON or USING says.
struct Constraint {
    /// Equalities of a left and a right expression.
    on: Vec<(Expr, Expr)>,
    /// Other conditions.
    rest: Vec<Expr>,
    /// Columns of the right side that are the left side's, too.
    merged: Vec<Column>,
}

impl Constraint {
    fn new(
        sides: &Sides,
        constraint: JoinConstraint,
        join: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> datafusion_common::Result<Self> {
        let mut found = Constraint { on: vec![], rest: vec![], merged: vec![] };
        match constraint {
            JoinConstraint::None => {}
            JoinConstraint::Natural => return Err(unsupported(format!("NATURAL in {join}: say ON or USING"))),
            JoinConstraint::Using(names) => {
                for name in &names {
                    let right = using(sides.right.schema(), name, context)?;
                    found.on.push((Expr::Column(using(sides.left.schema(), name, context)?), Expr::Column(right.clone())));
                    found.merged.push(right);
                }
            }
            JoinConstraint::On(condition) => {
                for conjunct in split_conjunction_owned(context.sql_to_expr(condition, &sides.both)?) {
                    let pair = match &conjunct {
                        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                            find_valid_equijoin_key_pair(left, right, sides.left.schema(), sides.right.schema())?
                        }
                        _ => None,
                    };
                    match pair {
                        Some(pair) => found.on.push(pair),
                        None => found.rest.push(conjunct),
                    }
                }
            }
        }
        Ok(found)
    }
}

/// The column that USING names.
fn using(schema: &DFSchema, name: &ObjectName, context: &mut dyn RelationPlannerContext) -> datafusion_common::Result<Column> {
    let [part] = name.0.as_slice() else {
        return Err(through(Error::invalid(format!("USING ({name}): it names columns alone, without their table"))));
    };
    let name = part.as_ident().map(|name| context.normalize_ident(name.clone()));
    let name = name.ok_or_else(|| plan_datafusion_err!("USING names columns"))?;
    Ok(Column::from(schema.qualified_field_with_unqualified_name(&name)?))
}

impl Sides {
    /// The side whose columns an expression reads.
    fn of(&self, expr: &Expr) -> JoinSide {
        let columns = expr.column_refs();
        let all_of = |plan: &LogicalPlan| !columns.is_empty() && columns.iter().all(|column| plan.schema().has_column(column));
        match (all_of(&self.left), all_of(&self.right)) {
            (true, false) => JoinSide::Left,
            (false, true) => JoinSide::Right,
            _ => JoinSide::None,
        }
    }
}

fn unsupported(what: String) -> datafusion_common::DataFusionError {
    through(Error::unsupported(what))
}
