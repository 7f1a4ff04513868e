//! BEGIN ... COMMIT: the changes of several statements, gathered into one step.
//!
//! Until COMMIT nothing is added to any table. What the transaction's own statements read is the table with the
//! gathered changes laid over it, by a plan: the rows plus the changes, or, with a primary key, the rows of the keys
//! that were not written plus the last row of each that was.

use std::collections::{BTreeMap, HashMap};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::row::{RowConverter, SortField};

use super::plans;
use super::reader::pick;
use super::runtime::Rows;
use super::table::Table;
use crate::connector::Op;
use crate::error::Result;
use crate::plan::{Arrangement, JoinKind, Node, Plan, RelationId, RowType};

/// The changes of an open transaction.
#[derive(Default)]
pub(super) struct Transaction {
    changes: BTreeMap<RelationId, Rows>,
    /// How many rows of a table were late, and are not among its changes.
    late: BTreeMap<RelationId, u64>,
}

impl Transaction {
    /// Adds changes of a table, after those there are. `late` others were left out.
    pub fn add(&mut self, table: &Table, rows: Rows, late: u64) -> Result<()> {
        *self.late.entry(table.id).or_default() += late;
        let all = match self.changes.remove(&table.id) {
            Some(before) => append(before, rows)?,
            None => rows,
        };
        self.changes.insert(table.id, latest(all, &table.primary_key)?);
        Ok(())
    }

    /// All changes, by table, with the number of late rows that are not among them.
    pub fn into_changes(self) -> impl Iterator<Item = (RelationId, u64, Rows)> {
        let late = self.late;
        self.changes.into_iter().map(move |(table, rows)| (table, late.get(&table).copied().unwrap_or_default(), rows))
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether it has changed any of these relations.
    pub fn changes_any(&self, relations: &[RelationId]) -> bool {
        relations.iter().any(|relation| self.changes.contains_key(relation))
    }

    /// The table's rows as the transaction sees them.
    pub fn overlay(&self, table: &Table) -> Result<Plan> {
        let get = table.get();
        let row = table.row().clone();
        let inputs = match self.changes.get(&table.id) {
            None | Some(Rows::Errors(_)) => return Ok(get),
            Some(Rows::Diffs { rows, diffs }) => {
                vec![get, Plan::new(Node::Constant { rows: rows.clone(), diffs: diffs.clone() }, row.clone())]
            }
            Some(Rows::Ops { rows, ops }) => {
                let there = ops.iter().enumerate().filter(|(_, op)| **op == Op::Upsert).map(|(i, _)| i as u32);
                let upserts = plans::constant(pick(rows, there.collect())?, row.clone());
                vec![without_keys(&get, rows, &table.primary_key)?, upserts]
            }
        };
        Ok(Plan::new(Node::Union { inputs }, row))
    }
}

/// The rows of a table whose keys are not among those of `written`.
fn without_keys(get: &Plan, written: &RecordBatch, key: &[usize]) -> Result<Plan> {
    let row = get.row();
    let names: Vec<String> = row.columns.iter().map(|column| column.name.clone()).collect();
    let keys = RowType::new(key.iter().map(|k| row.columns[*k].clone()));
    let arranged = |input| Arrangement::rows(input, key.len());

    // An arrangement's key leads its row, so the key's columns move to the front and, after the join, back.
    let order: Vec<usize> = key.iter().copied().chain((0..row.len()).filter(|i| !key.contains(i))).collect();
    let leading: Vec<String> = order.iter().map(|i| names[*i].clone()).collect();
    let left = plans::select(get, &order, &leading);
    let joined = left.row().clone();
    let right = plans::constant(written.project(key)?, keys);
    let rest = Plan::new(Node::Join { kind: JoinKind::Anti, left: arranged(left), right: arranged(right) }, joined);

    let back: Vec<usize> = (0..row.len()).filter_map(|i| order.iter().position(|o| *o == i)).collect();
    Ok(plans::select(&rest, &back, &names))
}

/// Changes of a table without those that later ones of the same key replace.
pub(super) fn latest(changes: Rows, key: &[usize]) -> Result<Rows> {
    let Rows::Ops { rows, ops } = changes else { return Ok(changes) };
    let keys = rows.project(key)?;
    let fields = keys.columns().iter().map(|column| SortField::new(column.data_type().clone()));
    let encoded = RowConverter::new(fields.collect())?.convert_columns(keys.columns())?;
    let mut last: HashMap<&[u8], usize> = HashMap::with_capacity(ops.len());
    for position in 0..ops.len() {
        last.insert(encoded.row(position).data(), position);
    }
    if last.len() == ops.len() {
        return Ok(Rows::Ops { rows, ops });
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    let ops = kept.iter().map(|position| ops[*position]).collect();
    Ok(Rows::Ops { rows: pick(&rows, kept.into_iter().map(|position| position as u32).collect())?, ops })
}

/// The changes of one table in the order given. A table's changes are all of one kind, by whether it has a key.
fn append(before: Rows, after: Rows) -> Result<Rows> {
    let both = |a: &RecordBatch, b: &RecordBatch| concat_batches(&a.schema(), [a, b]);
    Ok(match (before, after) {
        (Rows::Diffs { rows: a, diffs: mut before }, Rows::Diffs { rows: b, diffs: after }) => {
            before.extend(after);
            Rows::Diffs { rows: both(&a, &b)?, diffs: before }
        }
        (Rows::Ops { rows: a, ops: mut before }, Rows::Ops { rows: b, ops: after }) => {
            before.extend(after);
            Rows::Ops { rows: both(&a, &b)?, ops: before }
        }
        (_, after) => after,
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;
    use std::sync::Arc;

    fn rows(table: &Table, values: &[[i32; 2]]) -> RecordBatch {
        let column = |i: usize| Arc::new(Int32Array::from_iter_values(values.iter().map(|row| row[i]))) as _;
        RecordBatch::try_new(table.physical().clone(), vec![column(0), column(1)]).unwrap()
    }

    fn values(rows: &RecordBatch) -> Vec<[i32; 2]> {
        let column = |i: usize| rows.column(i).as_primitive::<Int32Type>().values().to_vec();
        column(0).into_iter().zip(column(1)).map(|(a, b)| [a, b]).collect()
    }

    fn ops(table: &Table, changes: &[([i32; 2], Op)]) -> Rows {
        Rows::Ops { rows: rows(table, &changes.iter().map(|c| c.0).collect::<Vec<_>>()), ops: changes.iter().map(|c| c.1).collect() }
    }

    #[test]
    fn the_last_change_of_each_key_stays_in_the_order_of_writing() {
        let table = ints(1, &["v", "k"], &[1]);
        let mut transaction = Transaction::default();
        transaction.add(&table, ops(&table, &[([10, 1], Op::Upsert), ([20, 2], Op::Upsert)]), 0).unwrap();
        transaction.add(&table, ops(&table, &[([10, 1], Op::Delete), ([30, 3], Op::Upsert), ([21, 2], Op::Upsert)]), 0).unwrap();
        let (_, _, changes) = transaction.into_changes().next().unwrap();
        let Rows::Ops { rows, ops } = changes else { panic!("not ops") };
        assert_eq!(values(&rows), [[10, 1], [30, 3], [21, 2]]);
        assert_eq!(ops, [Op::Delete, Op::Upsert, Op::Upsert]);
    }

    #[test]
    fn a_table_that_was_not_changed_is_read_as_it_is() {
        let table = ints(1, &["a", "b"], &[]);
        assert_eq!(Transaction::default().overlay(&table).unwrap().fingerprint(), table.get().fingerprint());
    }

    #[test]
    fn without_a_key_the_changes_are_added_to_the_rows() {
        let table = ints(1, &["a", "b"], &[]);
        let mut transaction = Transaction::default();
        transaction.add(&table, Rows::Diffs { rows: rows(&table, &[[1, 1]]), diffs: vec![2] }, 0).unwrap();
        transaction.add(&table, Rows::Diffs { rows: rows(&table, &[[1, 1]]), diffs: vec![-1] }, 0).unwrap();
        let plan = transaction.overlay(&table).unwrap();
        let Node::Union { inputs } = plan.node() else { panic!("not a union") };
        assert_eq!(inputs[0].fingerprint(), table.get().fingerprint());
        let Node::Constant { rows, diffs } = inputs[1].node() else { panic!("not a constant") };
        assert_eq!((values(rows), diffs.as_slice()), (vec![[1, 1], [1, 1]], [2, -1].as_slice()));
    }

    #[test]
    fn with_a_key_written_keys_hide_their_rows_and_the_columns_stay_where_they_were() {
        let table = ints(1, &["v", "k"], &[1]);
        let mut transaction = Transaction::default();
        transaction.add(&table, ops(&table, &[([0, 1], Op::Delete), ([20, 2], Op::Upsert)]), 0).unwrap();
        let plan = transaction.overlay(&table).unwrap();
        assert_eq!(plan.row(), table.row());
        let Node::Union { inputs } = plan.node() else { panic!("not a union") };
        assert!(inputs.iter().all(|input| input.row() == table.row()));
        let Node::Linear { input: anti, .. } = inputs[0].node() else { panic!("columns do not move back") };
        let Node::Join { kind: JoinKind::Anti, left, right } = anti.node() else { panic!("not an anti join") };
        assert_eq!((left.input.row().columns[0].name.as_str(), left.key), ("k", 1));
        let Node::Constant { rows: hidden, .. } = right.input.node() else { panic!("not constant keys") };
        assert_eq!(hidden.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
        let Node::Constant { rows: upserts, .. } = inputs[1].node() else { panic!("not constant rows") };
        assert_eq!(values(upserts), [[20, 2]]);
    }
}
