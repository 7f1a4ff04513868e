//! Filters and projections, fused as they are made.
//!
//! A [`Node::Linear`] never reads another one: its steps are appended to the other's. A projection over a projection
//! becomes one (unless that would evaluate an expression twice), a filter moves before a projection of plain columns,
//! and what comes out as it went in is not there at all.

use datafusion_physical_expr::expressions::Literal;

use crate::plan::{Expiry, Node, Plan, Policy, Rank, RowType, Scalar, Step};

use super::nodes;
use super::scalar::{Item, column_index, is_true, mentions, pick, substitute};
use super::temporal;

/// The rows of `input` on which `predicate` is true, while it is.
pub(super) fn filter(input: Plan, predicate: Scalar) -> Plan {
    if temporal::reads_time(&predicate) {
        return temporal::filter(input, &predicate);
    }
    let row = input.row().clone();
    append(input, Step::Filter(predicate), row)
}

/// Rows of these columns, computed of the rows of `input`. Names alone make no projection: where the columns are those
/// of `input`, the answer is `input`, with its names.
pub(super) fn project(input: Plan, items: Vec<Item>) -> Plan {
    let row = RowType::new(items.iter().map(|(_, column)| column.clone()));
    append(input, Step::Project(items), row)
}

/// The same; of a union it is one of each input, into which it can be fused.
pub(super) fn project_each(input: Plan, items: Vec<Item>) -> Plan {
    match input.node() {
        Node::Union { inputs } if !input.is_boundary() => {
            nodes::union(inputs.iter().map(|input| project(input.clone(), items.clone())).collect())
        }
        _ => project(input, items),
    }
}

/// These columns of `input`, in this order, in ascending order.
pub(super) fn project_columns(input: Plan, columns: impl IntoIterator<Item = usize>) -> Plan {
    let items = columns.into_iter().map(|index| pick(input.row(), index)).collect();
    project(input, items)
}

/// The rows that `steps`, of which the last makes rows of type `row`, make of those of `input`.
pub(super) fn steps(input: Plan, steps: &[Step], row: &RowType) -> Plan {
    if steps.iter().any(|step| matches!(step, Step::Unnest { .. })) {
        return Plan::new(Node::Linear { input, steps: steps.to_vec() }, row.clone());
    }
    let made = steps.iter().fold(input, |input, step| match step {
        Step::Filter(predicate) => filter(input, predicate.clone()),
        Step::Project(items) => project(input, items.clone()),
        Step::Unnest { .. } => input,
    });
    if made.row().columns.iter().zip(row.columns.iter()).all(|(made, column)| made.name == column.name) {
        return made;
    }
    let items = row.columns.iter().enumerate().map(|(index, column)| (pick(made.row(), index).0, column.clone())).collect();
    let (base, mut steps) = open(&made);
    push(&mut steps, Step::Project(items));
    Plan::new(Node::Linear { input: base, steps }, row.clone())
}

/// One row for each element of the list in `column`, which makes rows of type `row`.
pub(super) fn unnest(input: Plan, column: usize, outer: bool, row: RowType) -> Plan {
    append(input, Step::Unnest { column, outer }, row)
}

/// The first columns of the rows under these names, in ascending order.
pub(super) fn rename(input: Plan, names: impl IntoIterator<Item = String>) -> Plan {
    let items: Vec<Item> = names
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let (scalar, mut column) = pick(input.row(), index);
            column.name = name;
            (scalar, column)
        })
        .collect();
    if items.len() == input.row().len() && items.iter().zip(input.row().columns.iter()).all(|((_, new), old)| new == old) {
        return input;
    }
    let row = RowType::new(items.iter().map(|(_, column)| column.clone()));
    let (base, mut steps) = open(&input);
    push(&mut steps, Step::Project(items));
    Plan::new(Node::Linear { input: base, steps }, row)
}

fn append(input: Plan, step: Step, row: RowType) -> Plan {
    let (base, mut steps) = open(&input);
    push(&mut steps, step);
    match base.node() {
        // An error that a forgotten row made is to go with it, so it is made where expiries are still seen.
        Node::Settle { input: operator, policy: Policy::Forget, expiry } if !base.is_boundary() && steps.iter().any(Step::can_fail) => {
            let below = close(operator.clone(), steps, row.clone());
            let expiry = if *expiry == Expiry::Adds { Expiry::Adds } else { Expiry::Removes };
            Plan::new(Node::Settle { input: below, policy: Policy::Forget, expiry }, row)
        }
        _ => close(base, steps, row),
    }
}

/// What a linear node would read, and the steps that are there already.
fn open(input: &Plan) -> (Plan, Vec<Step>) {
    match input.node() {
        Node::Linear { input: read, steps } if !input.is_boundary() => (read.clone(), steps.clone()),
        _ => (input.clone(), vec![]),
    }
}

fn close(base: Plan, mut steps: Vec<Step>, mut row: RowType) -> Plan {
    let base = without_unread_rank(base, &steps);
    let only_filters_before = steps.iter().rev().skip(1).all(|step| matches!(step, Step::Filter(_)));
    if only_filters_before && matches!(steps.last(), Some(Step::Project(items)) if is_identity(items, base.row())) {
        steps.pop();
        row = base.row().clone();
    }
    if steps.is_empty() { base } else { Plan::new(Node::Linear { input: base, steps }, row) }
}

fn push(steps: &mut Vec<Step>, step: Step) {
    match (steps.pop(), step) {
        (before, Step::Filter(predicate)) if is_true(&predicate) => steps.extend(before),
        (Some(Step::Project(items)), Step::Filter(predicate))
            if mentions(&predicate).into_iter().all(|column| is_plain(&items[column].0)) =>
        {
            push(steps, Step::Filter(through(&predicate, &items)));
            steps.push(Step::Project(items));
        }
        (Some(Step::Project(inner)), Step::Project(outer)) if evaluates_each_once(&inner, &outer) => {
            let fused = outer.into_iter().map(|(scalar, column)| (through(&scalar, &inner), column)).collect();
            push(steps, Step::Project(fused));
        }
        (before, step) => {
            steps.extend(before);
            steps.push(step);
        }
    }
}

/// `scalar` over the columns that `items` are computed of.
fn through(scalar: &Scalar, items: &[Item]) -> Scalar {
    substitute(scalar, |column| items[column].0.clone())
}

fn is_plain(scalar: &Scalar) -> bool {
    column_index(scalar).is_some() || scalar.is::<Literal>()
}

fn evaluates_each_once(inner: &[Item], outer: &[Item]) -> bool {
    let mut mentioned = vec![0; inner.len()];
    for column in outer.iter().flat_map(|(scalar, _)| mentions(scalar)) {
        mentioned[column] += 1;
    }
    inner.iter().zip(mentioned).all(|((scalar, _), times)| times <= 1 || is_plain(scalar))
}

/// Whether the items are the columns of `row` in a row's place and order, whatever they are called.
fn is_identity(items: &[Item], row: &RowType) -> bool {
    items.len() == row.len()
        && items.iter().zip(row.columns.iter()).enumerate().all(|(index, ((scalar, made), had))| {
            column_index(scalar) == Some(index) && made.data_type == had.data_type && made.sort == had.sort
        })
}

/// A top-N whose rank nobody reads need not say it.
fn without_unread_rank(base: Plan, steps: &[Step]) -> Plan {
    let Node::TopK { input, offset, limit, rank, expose: true } = base.node() else { return base };
    let rank_column = base.row().len() - 1;
    let mut read = vec![];
    for step in steps {
        match step {
            Step::Filter(predicate) => read.extend(mentions(predicate)),
            Step::Project(items) => {
                read.extend(items.iter().flat_map(|(scalar, _)| mentions(scalar)));
                if read.contains(&rank_column) {
                    return base;
                }
                let rank: Rank = *rank;
                let node = Node::TopK { input: input.clone(), offset: *offset, limit: *limit, rank, expose: false };
                return Plan::new(node, RowType::new(base.row().columns[..rank_column].iter().cloned()));
            }
            Step::Unnest { .. } => return base,
        }
    }
    base
}
