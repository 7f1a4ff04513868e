//! Small plans that the engine puts around those of the planner.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::ScalarValue;
use datafusion_physical_expr::expressions::{self, Literal};
use datafusion_physical_expr::utils::collect_columns;

use crate::error::{Error, Result};
use crate::eval;
use crate::plan::{Column, Fingerprint, Node, Plan, RelationId, RowType, Scalar, Step};
use crate::sql::planner::Planned;

/// The relations that plans get. Shared sub-plans are looked at once.
pub(super) fn gets<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Vec<RelationId> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut open: Vec<&Plan> = plans.into_iter().collect();
    while let Some(plan) = open.pop() {
        if seen.insert(plan.fingerprint()) {
            if let Node::Get { id, .. } = plan.node() {
                found.push(*id);
            }
            open.extend(plan.inputs());
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Which columns plans look at of a relation's rows as they come.
pub(super) fn wanted<'a>(plans: impl IntoIterator<Item = &'a Plan>, relation: RelationId, columns: usize) -> Vec<bool> {
    let (mut seen, mut wanted) = (HashSet::new(), vec![false; columns]);
    let mut open: Vec<&Plan> = plans.into_iter().collect();
    let gets = |plan: &Plan| matches!(plan.node(), Node::Get { id, .. } if *id == relation);
    if open.iter().any(|plan| gets(plan)) {
        return vec![true; columns];
    }
    while let Some(plan) = open.pop() {
        if !seen.insert(plan.fingerprint()) {
            continue;
        }
        for input in plan.inputs() {
            match plan.node() {
                Node::Linear { steps, .. } if gets(input) => want_of_steps(steps, &mut wanted),
                _ if gets(input) => wanted.fill(true),
                _ => open.push(input),
            }
        }
    }
    wanted
}

/// Which columns a chain of steps looks at, up to where it replaces them all.
fn want_of_steps(steps: &[Step], wanted: &mut [bool]) {
    for step in steps {
        match step {
            Step::Filter(predicate) => collect_columns(predicate).iter().for_each(|column| wanted[column.index()] = true),
            Step::Project(columns) => {
                let used = columns.iter().flat_map(|(value, _)| collect_columns(value));
                return used.for_each(|column| wanted[column.index()] = true);
            }
            Step::Unnest { .. } => break,
        }
    }
    wanted.fill(true);
}

/// A reference to a column of a plan's rows.
pub(super) fn column(row: &RowType, position: usize) -> Scalar {
    Arc::new(expressions::Column::new(&row.columns[position].name, position))
}

/// A constant.
pub(super) fn literal(value: ScalarValue) -> Scalar {
    Arc::new(Literal::new(value))
}

/// The plan with these of its columns, under these names. A plan that is that already stays itself, so that its
/// fingerprint does and it is shared.
pub(super) fn select(plan: &Plan, positions: &[usize], names: &[String]) -> Plan {
    let row = plan.row();
    let is_same = positions.len() == row.len() && positions.iter().enumerate().all(|(i, p)| i == *p && row.columns[i].name == names[i]);
    if is_same {
        return plan.clone();
    }
    let columns = positions.iter().zip(names).map(|(p, name)| {
        let mut renamed = row.columns[*p].clone();
        renamed.name.clone_from(name);
        (column(row, *p), renamed)
    });
    project(plan, columns.collect())
}

/// The plan with its columns replaced by expressions over them.
pub(super) fn project(plan: &Plan, columns: Vec<(Scalar, Column)>) -> Plan {
    let row = RowType::new(columns.iter().map(|(_, column)| column.clone()));
    Plan::new(Node::Linear { input: plan.clone(), steps: vec![Step::Project(columns)] }, row)
}

/// The columns that a query shows and no others, which its ORDER BY may have needed.
pub(super) fn shown(planned: &Planned) -> Plan {
    select(&planned.plan, &planned.show, &shown_names(planned))
}

/// The names of the columns that a query shows.
pub(super) fn shown_names(planned: &Planned) -> Vec<String> {
    planned.show.iter().map(|p| planned.plan.row().columns[*p].name.clone()).collect()
}

/// For each group of plans, the number of the component that it belongs to: groups that have a source or an operator in
/// common, themselves or through others, are one component. Tables do not count: their arrangements are there for all.
pub(super) fn components<'a, G: IntoIterator<Item = &'a Plan>>(
    groups: impl IntoIterator<Item = G>,
    is_table: impl Fn(RelationId) -> bool,
) -> Vec<usize> {
    let mut component_of: HashMap<Fingerprint, usize> = HashMap::new();
    let mut components: Vec<usize> = Vec::new();
    for (number, plans) in groups.into_iter().enumerate() {
        let mut parts = HashSet::new();
        plans.into_iter().for_each(|plan| operators(plan, &is_table, &mut parts));
        let joined: HashSet<usize> = parts.iter().filter_map(|part| component_of.get(part).copied()).collect();
        // All that it touches becomes one component, under the least number.
        let component = joined.iter().copied().min().unwrap_or(number);
        let merge = |of: &mut usize| {
            if joined.contains(of) {
                *of = component;
            }
        };
        components.iter_mut().for_each(merge);
        component_of.values_mut().for_each(merge);
        component_of.extend(parts.into_iter().map(|part| (part, component)));
        components.push(component);
    }
    components
}

/// The operators of a plan, and the sources that it gets.
fn operators(plan: &Plan, is_table: &impl Fn(RelationId) -> bool, into: &mut HashSet<Fingerprint>) {
    let is_apart = match plan.node() {
        Node::Constant { .. } => true,
        Node::Get { id, .. } => is_table(*id),
        _ => false,
    };
    if !is_apart && into.insert(plan.fingerprint()) {
        plan.inputs().into_iter().for_each(|input| operators(input, is_table, into));
    }
}

/// Rows that are known.
pub(super) fn constant(rows: RecordBatch, row: RowType) -> Plan {
    let diffs = vec![1; rows.num_rows()];
    Plan::new(Node::Constant { rows, diffs }, row)
}

/// The rows of a plan over nothing but constants, in their order, without a dataflow: VALUES, a changelog's rows.
/// None for plans that need one.
pub(super) fn evaluate(plan: &Plan) -> Option<Result<(RecordBatch, Vec<i64>)>> {
    match plan.node() {
        Node::Constant { rows, diffs } => Some(Ok((rows.clone(), diffs.clone()))),
        Node::Linear { input, steps } => Some(evaluate(input)?.and_then(|(rows, diffs)| {
            let evaluated = eval::run_steps(steps, &rows);
            match evaluated.failed.into_iter().next() {
                Some((_, message)) => Err(Error::Data(message)),
                None => {
                    let kept = match evaluated.from {
                        Some(from) => from.iter().map(|i| diffs[*i as usize]).collect(),
                        None => diffs,
                    };
                    Ok((evaluated.rows, kept))
                }
            }
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    fn table(id: u64) -> Plan {
        let row = RowType::new([Column::new("a", DataType::Int32, true), Column::new("b", DataType::Int32, true)]);
        Plan::new(Node::Get { id: RelationId(id), name: format!("t{id}"), flow: crate::plan::Flow::Changes, times: vec![] }, row)
    }

    #[test]
    fn selecting_all_columns_under_their_own_names_is_the_same_plan() {
        let plan = table(1);
        let same = select(&plan, &[0, 1], &["a".into(), "b".into()]);
        assert_eq!(same.fingerprint(), plan.fingerprint());
        assert!(matches!(select(&plan, &[1, 0], &["b".into(), "a".into()]).node(), Node::Linear { .. }));
        assert!(matches!(select(&plan, &[0, 1], &["a".into(), "c".into()]).node(), Node::Linear { .. }));
    }

    #[test]
    fn plans_are_one_component_if_and_only_if_a_source_or_an_operator_connects_them() {
        let row = table(1).row().clone();
        let union = |ids: [u64; 2]| Plan::new(Node::Union { inputs: ids.map(table).to_vec() }, row.clone());
        let negated = |plan: Plan| Plan::new(Node::Negate { input: plan }, row.clone());
        let plans = [table(1), table(2), union([2, 3]), negated(table(9)), negated(negated(table(9))), table(9), union([1, 3])];
        let in_memory = RelationId(9);
        let apart = |plans: &[Plan]| components(plans.iter().map(std::iter::once), |id| id == in_memory);
        assert_eq!(apart(&plans[..6]), [0, 1, 1, 3, 3, 5]);
        assert_eq!(apart(&plans), [0, 0, 0, 3, 3, 5, 0]);
        assert_eq!(components([&plans[..1], &plans[5..], &plans[1..2]], |id| id == in_memory), [0, 0, 2]);
    }

    #[test]
    fn each_relation_is_named_once_however_often_it_is_read() {
        let row = table(1).row().clone();
        let union = Plan::new(Node::Union { inputs: vec![table(2), table(1), table(2)] }, row);
        assert_eq!(gets([&union, &table(3)]), [RelationId(1), RelationId(2), RelationId(3)]);
    }
}
