//! UNION, DISTINCT, and the set operations on bags.
//!
//! DataFusion plans INTERSECT and EXCEPT as joins over a DISTINCT, which is right without ALL, but would make of one
//! operator two that remember. With ALL, SQL asks for `min(m, n)` and `max(m - n, 0)` copies of a row that the operands
//! have `m` and `n` times. So all four come here as an extension node, [`Multiset`]. `A EXCEPT ALL B` is the positive
//! part of `A - B`, and `A INTERSECT ALL B` is `A` less that; without ALL they are an anti and a semi join of A's
//! distinct rows.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion_common::{DFSchema, DFSchemaRef, plan_datafusion_err};
use datafusion_expr::logical_plan::{Extension, Union};
use datafusion_expr::type_coercion::binary::type_union_coercion;
use datafusion_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::error::{Error, Result};
use crate::plan::{JoinKind, Plan, Threshold};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::{Item, cast_item, key_item, pick_all, plain_type};
use super::session::{self, Sessions};
use super::{linear, lower, nodes, remember};

/// Which bag operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub enum MultisetKind {
    Except,
    ExceptAll,
    Intersect,
    IntersectAll,
}

/// A set operation in a logical plan; the columns are named after the left operand's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Multiset {
    pub kind: MultisetKind,
    left: LogicalPlan,
    right: LogicalPlan,
    schema: DFSchemaRef,
}

impl Multiset {
    /// The operation on two operands of equal width, whose columns are brought to common types.
    pub fn try_new(kind: MultisetKind, left: LogicalPlan, right: LogicalPlan) -> datafusion_common::Result<Self> {
        let (left_fields, right_fields) = (left.schema().fields(), right.schema().fields());
        let name = kind.name();
        if left_fields.len() != right_fields.len() {
            return Err(plan_datafusion_err!(
                "{name}: the left side has {} columns, the right side {}",
                left_fields.len(),
                right_fields.len()
            ));
        }
        let fields = left_fields.iter().zip(right_fields).map(|(left, right)| {
            let data_type = type_union_coercion(left.data_type(), right.data_type()).ok_or_else(|| {
                plan_datafusion_err!(
                    "{name}: column {} is {} on the left and {} on the right",
                    left.name(),
                    left.data_type(),
                    right.data_type()
                )
            })?;
            Ok((None, Arc::new(Field::new(left.name(), data_type, left.is_nullable() || right.is_nullable()))))
        });
        let fields = fields.collect::<datafusion_common::Result<Vec<_>>>()?;
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Multiset { kind, left, right, schema })
    }
}

impl MultisetKind {
    fn name(self) -> &'static str {
        match self {
            MultisetKind::Except => "EXCEPT",
            MultisetKind::ExceptAll => "EXCEPT ALL",
            MultisetKind::Intersect => "INTERSECT",
            MultisetKind::IntersectAll => "INTERSECT ALL",
        }
    }
}

impl PartialOrd for Multiset {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.kind, &self.left, &self.right).partial_cmp(&(other.kind, &other.left, &other.right)).filter(|o| o.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Multiset {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.kind.name())
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> datafusion_common::Result<Self> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs).map_err(|inputs| plan_datafusion_err!("{} operands", inputs.len()))?;
        Multiset::try_new(self.kind, left, right)
    }
}

/// A node that DataFusion does not know.
pub(super) fn extension(extension: &Extension, said: &Retentions) -> Result<Plan> {
    if let Some(sessions) = extension.node.as_any().downcast_ref::<Sessions>() {
        return session::sessions(sessions, said);
    }
    let Some(multiset) = extension.node.as_any().downcast_ref::<Multiset>() else {
        return Err(Error::unsupported(extension.node.name()));
    };
    let memory = |operand| remember::side(said, name_in_from(operand).as_deref());
    let (left_memory, right_memory) = (memory(&multiset.left), memory(&multiset.right));
    let operand = |plan, memory| Ok::<_, Error>(remember::rows(of_keys(of_types(lower(plan, said)?, &multiset.schema)?), memory));
    let left = operand(&multiset.left, &left_memory)?;
    let right = operand(&multiset.right, &right_memory)?;
    let excess = |left, right| nodes::threshold(nodes::union(vec![left, nodes::negate(right)]), Threshold::Positive, &left_memory);
    let plain = |kind, left, right| {
        let distinct = nodes::threshold(left, Threshold::Distinct, &left_memory);
        nodes::join(kind, nodes::arrange_rows(distinct).with_memory(&left_memory), nodes::arrange_rows(right).with_memory(&right_memory))
    };
    let result = match multiset.kind {
        MultisetKind::Except => plain(JoinKind::Anti, left, right),
        MultisetKind::ExceptAll => excess(left, right),
        MultisetKind::Intersect => plain(JoinKind::Semi, left, right),
        MultisetKind::IntersectAll => nodes::union(vec![left.clone(), nodes::negate(excess(left, right))]),
    };
    let shows_more = matches!(multiset.kind, MultisetKind::Except | MultisetKind::ExceptAll);
    remember::settle_inputs(result, &[(&left_memory, false), (&right_memory, shows_more)])
}

/// UNION ALL. (UNION is a DISTINCT over it.)
pub(super) fn union(union: &Union, said: &Retentions) -> Result<Plan> {
    let inputs = union.inputs.iter().map(|input| of_types(lower(input, said)?, &union.schema));
    Ok(linear_names(nodes::union(inputs.collect::<Result<_>>()?), &union.schema))
}

/// `input` with equal values made one.
fn of_keys(input: Plan) -> Plan {
    let items = pick_all(input.row()).into_iter().map(key_item).collect();
    linear::project(input, items)
}

/// `input` with the types of `schema`, encoded in ascending order.
fn of_types(input: Plan, schema: &DFSchema) -> Result<Plan> {
    let items = pick_all(input.row()).into_iter().zip(schema.fields()).map(|(item, field)| {
        let mut item = cast_item(item, input.row(), &plain_type(field.data_type()))?;
        item.1.name = field.name().clone();
        Ok(item)
    });
    let items = items.collect::<Result<Vec<Item>>>()?;
    Ok(linear::project(input, items))
}

/// A union takes its names from the query, not from its first input.
fn linear_names(plan: Plan, schema: &DFSchema) -> Plan {
    use crate::plan::{Column, Node, RowType};
    let Node::Union { inputs } = plan.node() else { return plan };
    let columns = plan.row().columns.iter().zip(schema.fields());
    let row = RowType::new(columns.map(|(column, field)| Column { name: field.name().clone(), ..column.clone() }));
    Plan::new(Node::Union { inputs: inputs.clone() }, row)
}
