//! From DataFusion's logical plans to the algebra, one file a node family.
//!
//! `lower` keeps one promise that every file relies on: the `i`th column of the plan's rows is the `i`th field of the
//! logical plan's schema, of its plain type ([`plain_type`]). What a stateful node needs first (its key, its order) is
//! brought there by a projection before it, and brought back by one after it; adjacent projections fuse.
//!
//! Collections have no order. [`lower_query`] keeps what ORDER BY says beside the plan, for whoever shows the rows; under
//! a LIMIT it becomes a top-N; anywhere else it means nothing and is dropped.
//!
//! What has no lowering is refused by its SQL name.

mod aggregate;
mod asof;
mod close;
mod condition;
mod failing;
mod grouping;
mod join;
mod leaf;
mod linear;
mod nodes;
mod order;
mod outer;
mod parts;
mod rank;
mod remember;
mod scalar;
mod session;
mod set_ops;
mod staying;
mod subquery;
mod temporal;
mod unnest;
mod window;

use datafusion_expr::logical_plan::{Distinct, Projection};
use datafusion_expr::{Expr, LogicalPlan};

use crate::error::{Error, Result};
use crate::plan::{Plan, RowType, Step};
use crate::sql::retention::Retentions;

pub use asof::{AsOf, Match};
pub use close::on_window_close;
pub use leaf::{RelationSource, Versions};
pub use order::{Ordered, lower_query};
pub use scalar::{REPEAT, plain_item, plain_type, scalar, shown_name};
pub use session::Sessions;
pub use set_ops::{Multiset, MultisetKind};
pub use staying::Staying;

/// The collection that `plan` computes, remembering of its inputs what was `said`.
fn lower(plan: &LogicalPlan, said: &Retentions) -> Result<Plan> {
    lower_needing(plan, &vec![true; plan.schema().fields().len()], said)
}

/// [`lower`], of which only the columns marked in `needed` are read: the others may be NULL.
fn lower_needing(plan: &LogicalPlan, needed: &[bool], said: &Retentions) -> Result<Plan> {
    if let Some(plan) = condition::condition(plan, needed, said)? {
        return Ok(plan);
    }
    match plan {
        LogicalPlan::TableScan(scan) => leaf::scan(scan),
        LogicalPlan::EmptyRelation(empty) => leaf::empty(empty),
        LogicalPlan::Values(values) => leaf::values(values),
        LogicalPlan::Projection(projection) => project(projection, said),
        LogicalPlan::Filter(filter) => match rank::top_n(filter, said)? {
            Some(plan) => Ok(plan),
            None => filtered(&filter.predicate, &filter.input, needed, said),
        },
        LogicalPlan::SubqueryAlias(alias) => lower_needing(&alias.input, needed, said),
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => order::lower_unordered(plan, said),
        LogicalPlan::Join(join) => join::join(join, needed, said),
        LogicalPlan::Aggregate(aggregate) => aggregate::aggregate(aggregate, said),
        LogicalPlan::Union(union) => set_ops::union(union, said),
        LogicalPlan::Extension(extension) => match extension.node.as_any() {
            node if let Some(Staying { condition, input }) = node.downcast_ref() => filtered(condition, input, needed, said),
            node if let Some(join) = node.downcast_ref() => asof::asof(join, needed, said),
            _ => set_ops::extension(extension, said),
        },
        LogicalPlan::Window(window) => window::window(window, said),
        LogicalPlan::Unnest(unnest) => unnest::unnest(unnest, said),
        LogicalPlan::Repartition(repartition) => lower_needing(&repartition.input, needed, said),
        other => Err(Error::unsupported(what_it_is(other))),
    }
}

/// The same collection with these column names, its rows encoded in ascending order; of the first columns, as many as
/// there are names.
pub fn named(plan: Plan, names: Vec<String>) -> Plan {
    linear::rename(plan, names)
}

/// These steps over `input`, which make rows of type `row`: fused with those that `input` ends with.
pub fn linear(input: Plan, steps: &[Step], row: &RowType) -> Plan {
    linear::steps(input, steps, row)
}

fn project(projection: &Projection, said: &Retentions) -> Result<Plan> {
    let needed = needed_by(projection.expr.iter(), &projection.input)?;
    projected(projection, lower_needing(&projection.input, &needed, said)?)
}

/// The projection of these rows, which its input has been lowered to.
fn projected(projection: &Projection, input: Plan) -> Result<Plan> {
    let fields = projection.schema.fields().iter();
    let items =
        projection.expr.iter().zip(fields).map(|(expr, field)| scalar::item(expr, field.name(), projection.input.schema(), input.row()));
    let items = items.collect::<Result<_>>()?;
    Ok(linear::project(input, items))
}

fn filtered(condition: &Expr, input: &LogicalPlan, needed: &[bool], said: &Retentions) -> Result<Plan> {
    let mut read = needed_by([condition], input)?;
    read.iter_mut().zip(needed).for_each(|(read, needed)| *read |= needed);
    let lowered = lower_needing(input, &read, said)?;
    let predicate = temporal::condition(condition, input.schema(), lowered.row())?;
    Ok(linear::filter(lowered, predicate))
}

/// Which columns of `input` the expressions read.
fn needed_by<'a>(exprs: impl IntoIterator<Item = &'a Expr>, input: &LogicalPlan) -> Result<Vec<bool>> {
    let schema = input.schema();
    let mut needed = vec![false; schema.fields().len()];
    for column in exprs.into_iter().flat_map(|expr| expr.column_refs()) {
        needed[scalar::position(column, schema)?] = true;
    }
    Ok(needed)
}

/// The SQL name of what has no lowering.
fn what_it_is(plan: &LogicalPlan) -> String {
    match plan {
        LogicalPlan::RecursiveQuery(query) => format!("WITH RECURSIVE ({})", query.name),
        LogicalPlan::Subquery(_) => "LATERAL over this subquery: it cannot be turned into a join".into(),
        LogicalPlan::Distinct(Distinct::On(_)) => "DISTINCT ON here".into(),
        LogicalPlan::Statement(statement) => statement.name().into(),
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => "EXPLAIN here".into(),
        LogicalPlan::Dml(dml) => dml.op.name().into(),
        LogicalPlan::Ddl(ddl) => ddl.name().into(),
        LogicalPlan::Copy(_) => "COPY".into(),
        LogicalPlan::DescribeTable(_) => "DESCRIBE here".into(),
        other => other.display().to_string(),
    }
}
