//! The stateful nodes and what their rows look like.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;

use crate::plan::{
    Arrangement, Column, Finish, JoinKind, Layout, Memory, Node, Output, Part, PartKind, Plan, RowType, Sum, SumKind, Threshold,
};

use super::scalar::{Item, pick_all};
use super::{linear, remember};

/// `input` indexed by its first `key` columns.
pub(super) fn arranged(input: Plan, key: usize, layout: Layout, name: Option<String>) -> Arrangement {
    remember::absorb(Arrangement { layout, name, ..Arrangement::rows(input, key) })
}

/// `input` brought to `key ++ values`, indexed by `key`.
pub(super) fn arrange(input: Plan, key: Vec<Item>, values: Vec<Item>, name: Option<String>) -> Arrangement {
    let width = key.len();
    arranged(linear::project(input, key.into_iter().chain(values).collect()), width, Layout::Rows, name)
}

/// `input` indexed by its whole rows.
pub(super) fn arrange_rows(input: Plan) -> Arrangement {
    let items = pick_all(input.row());
    arrange(input, items, vec![], None)
}

/// A join, with the rows that [`Node::Join`] promises.
pub(super) fn join(kind: JoinKind, left: Arrangement, right: Arrangement) -> Plan {
    use JoinKind::*;
    let (key, left_values) = left.input.row().columns.split_at(left.key);
    let (right_key, right_values) = right.input.row().columns.split_at(right.key);
    let nullable = |column: &Column, padded: bool| Column { nullable: column.nullable || padded, ..column.clone() };
    let key = key.iter().zip(right_key).map(|(left, right)| Column {
        nullable: match kind {
            Inner | Semi => left.nullable && right.nullable,
            Left | Anti => left.nullable,
            Right => right.nullable,
            Full => left.nullable || right.nullable,
        },
        ..left.clone()
    });
    let left_values = left_values.iter().map(|column| nullable(column, matches!(kind, Right | Full)));
    let right_values = match kind {
        Semi | Anti => &[][..],
        _ => right_values,
    };
    let right_values = right_values.iter().map(|column| nullable(column, matches!(kind, Left | Full)));
    let row = RowType::new(key.chain(left_values).chain(right_values));
    Plan::new(Node::Join { kind, left, right }, row)
}

/// A reduction: its key and one column an output.
pub(super) fn reduce(key: &[Column], parts: Vec<Part>, outputs: Vec<Output>, always: Vec<RecordBatch>) -> Plan {
    let row = RowType::new(key.iter().cloned().chain(outputs.iter().map(|output| output.column.clone())));
    Plan::new(Node::Reduce { parts, outputs, always }, row)
}

/// Each row of `input` once, or as often as it is there where that is above zero, of which this was said.
pub(super) fn threshold(input: Plan, kind: Threshold, memory: &Memory) -> Plan {
    // Nothing is asked of a row but its multiplicity: a count in the difference, and no value.
    let width = input.row().len();
    let items = pick_all(input.row());
    let input = arranged(linear::project(input, items), width, Layout::Sums(vec![]), None).with_memory(memory);
    let row = input.input.row().clone();
    Plan::new(Node::Threshold { input, kind }, row)
}

/// Each `key` of the rows of `input` with what is behind it, all of it BOOLEAN: true where it is so in any of them, else
/// NULL.
pub(super) fn any_true(input: Plan, key: usize, memory: &Memory) -> Plan {
    let tests: Vec<Column> = input.row().columns[key..].to_vec();
    let sums = (0..tests.len()).map(|test| Sum { kind: SumKind::True, column: Some(test), filter: None }).collect();
    let items = pick_all(input.row());
    let input = arranged(linear::project(input, items), key, Layout::Sums(sums), None).with_memory(memory);
    let output = |(test, column): (usize, Column)| {
        let finish = Finish::Any { trues: test, count: test };
        Output { part: 0, finish, column: Column::new(column.name, DataType::Boolean, true) }
    };
    let outputs = tests.into_iter().enumerate().map(output).collect();
    let columns = input.input.row().columns[..key].to_vec();
    reduce(&columns, vec![Part { input, kind: PartKind::Accumulable }], outputs, vec![])
}

/// The sum of collections whose rows differ at most in names and in what may be NULL.
pub(super) fn union(inputs: Vec<Plan>) -> Plan {
    let mut inputs: Vec<Plan> = inputs.iter().flat_map(summands).collect();
    if inputs.len() == 1 {
        return inputs.remove(0);
    }
    // Inputs must be encoded alike, and a filter passes on whatever order its input is encoded for.
    let sorts = |input: &Plan| input.row().columns.iter().map(|column| column.sort).collect::<Vec<_>>();
    if inputs.iter().any(|input| sorts(input) != sorts(&inputs[0])) {
        inputs = inputs.into_iter().map(|input| linear::project_columns(input.clone(), 0..input.row().len())).collect();
    }
    let rows: Vec<&RowType> = inputs.iter().map(Plan::row).collect();
    let columns = (0..rows[0].len())
        .map(|index| Column { nullable: rows.iter().any(|row| row.columns[index].nullable), ..rows[0].columns[index].clone() });
    let row = RowType::new(columns);
    Plan::new(Node::Union { inputs }, row)
}

/// What a plan is the sum of: itself, if it is no union.
fn summands(plan: &Plan) -> Vec<Plan> {
    match plan.node() {
        Node::Union { inputs } if !plan.is_boundary() => inputs.clone(),
        _ => vec![plan.clone()],
    }
}

/// `input` with every multiplicity negated.
pub(super) fn negate(input: Plan) -> Plan {
    let row = input.row().clone();
    Plan::new(Node::Negate { input }, row)
}

/// No rows.
pub(super) fn nothing(row: &RowType) -> Plan {
    let columns: Vec<Column> = row.columns.iter().map(|c| Column { sort: Default::default(), ..c.clone() }).collect();
    let row = RowType::new(columns);
    Plan::new(Node::Constant { rows: RecordBatch::new_empty(row.schema()), diffs: vec![] }, row)
}
