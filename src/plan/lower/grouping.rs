//! What rows are grouped by: GROUP BY's columns, or its grouping sets.
//!
//! With grouping sets every row is in one group of each set. So the rows go through one projection a set, which has NULL
//! for the columns that the set leaves out and a number that tells the sets apart (a NULL of a subtotal is not a NULL of
//! the data), and all of them are grouped at once. The empty set, and a query without GROUP BY, have their one group
//! even over no rows.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use datafusion_expr::expr::GroupingSet;
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::utils::grouping_set_to_exprlist;

use crate::error::Result;
use crate::plan::{Arrangement, Column, Layout, Memory, Plan, RowType, Scalar, Scope};

use super::scalar::{Item, column_index, key_item, labelled_item, literal, null_item, pick};
use super::{linear, nodes, remember};

/// The rows of an aggregate's input under the keys of their groups.
pub(super) struct Groups {
    input: Plan,
    /// The key's columns.
    pub key: Vec<Column>,
    /// For each grouping set, the key computed of a row.
    sets: Vec<Vec<Item>>,
    /// The keys of groups that are there over no rows: one batch of one row each.
    pub always: Vec<RecordBatch>,
}

impl Groups {
    /// The groups of `aggregate` over the rows of `input`.
    pub fn new(aggregate: &Aggregate, input: Plan) -> Result<Self> {
        let exprs = grouping_set_to_exprlist(&aggregate.group_expr)?;
        let names = aggregate.schema.fields();
        let items = exprs.iter().map(|expr| Ok(key_item(labelled_item(expr, aggregate.input.schema(), input.row())?)));
        let items = items.collect::<Result<Vec<Item>>>()?;
        let Some(masks) = masks(&aggregate.group_expr, &exprs) else {
            let key: Vec<Column> = items.iter().map(|(_, column)| column.clone()).collect();
            let always = if key.is_empty() { vec![one_row(&key, vec![])?] } else { vec![] };
            return Ok(Groups { input, key, sets: vec![items], always });
        };
        let id_type = names[items.len()].data_type();
        let id = Column::new(names[items.len()].name(), id_type.clone(), false);
        let mut key: Vec<Column> = items.iter().map(|(_, column)| Column { nullable: true, ..column.clone() }).collect();
        key.push(id.clone());
        let (mut sets, mut always) = (vec![], vec![]);
        for (at, present) in masks.iter().enumerate() {
            let repeat = masks[..at].iter().filter(|earlier| *earlier == present).count();
            let number = ScalarValue::UInt64(Some(set_number(present, repeat))).cast_to(id_type)?;
            if present.iter().all(|present| !present) {
                let nulls = key[..items.len()].iter().map(|column| Ok(ScalarValue::try_from(&column.data_type)?));
                let cells = nulls.chain([Ok(number.clone())]).collect::<Result<Vec<_>>>()?;
                always.push(one_row(&key, cells)?);
            }
            let set = items.iter().zip(present).map(|((scalar, column), present)| match present {
                true => Ok((scalar.clone(), Column { nullable: true, ..column.clone() })),
                false => null_item(&column.name, &column.data_type),
            });
            sets.push(set.chain([Ok((literal(number), id.clone()))]).collect::<Result<Vec<_>>>()?);
        }
        Ok(Groups { input, key, sets, always })
    }

    /// The same groups of what is remembered of their rows. Of input that only grows, no more is remembered than the
    /// columns that are `needed`.
    pub fn remembered(self, memory: &Memory, needed: &[bool]) -> Result<Self> {
        let Some(retention) = memory.retention(Scope::Group) else { return Ok(self) };
        let (width, row) = (self.key.len(), self.input.row().clone());
        let is_key = |column: usize| match self.sets.as_slice() {
            [set] => set.iter().position(|(scalar, _)| column_index(scalar) == Some(column)),
            _ => None,
        };
        let needs = |column: usize| !self.input.only_appends() || needed.get(column).copied().unwrap_or(false);
        let values: Vec<usize> = (0..row.len()).filter(|column| is_key(*column).is_none() && needs(*column)).collect();
        let items: Vec<Item> = values.iter().map(|column| pick(&row, *column)).collect();
        let arranged = nodes::arranged(self.rows(None, &items), width, Layout::Rows, None);
        let plan = remember::remembered(Arrangement { retention: Some(retention), memory: memory.clone(), ..arranged });
        let place = |column: usize| match values.iter().position(|value| *value == column) {
            Some(place) => Some(width + place),
            None => is_key(column),
        };
        let columns = (0..row.len()).map(|column| match place(column) {
            Some(place) => Ok(pick(plan.row(), place)),
            None => null_item(&row.columns[column].name, &row.columns[column].data_type),
        });
        let keys = (0..width).map(|column| Ok(pick(plan.row(), column)));
        let items = columns.chain(keys).collect::<Result<Vec<Item>>>()?;
        let input = linear::project(plan, items);
        let set = (0..width).map(|column| pick(input.row(), row.len() + column)).collect();
        Ok(Groups { sets: vec![set], input, ..self })
    }

    /// Whether no row of a group is ever taken away.
    pub fn only_grow(&self) -> bool {
        self.input.only_grows()
    }

    /// What the rows of the aggregate's input look like.
    pub fn row(&self) -> &RowType {
        self.input.row()
    }

    /// `key ++ values` of every row in every group it is in; only of rows on which `filter` is true.
    pub fn rows(&self, filter: Option<&Scalar>, values: &[Item]) -> Plan {
        let input = match filter {
            None => self.input.clone(),
            Some(filter) => linear::filter(self.input.clone(), filter.clone()),
        };
        let of_set = |set: &Vec<Item>| linear::project(input.clone(), set.iter().chain(values).cloned().collect());
        nodes::union(self.sets.iter().map(of_set).collect())
    }
}

/// DataFusion's `__grouping_id`: a bit for each absent column, the last column's lowest, and above them how many equal
/// sets came before. GROUPING() reads it.
fn set_number(present: &[bool], repeat: usize) -> u64 {
    let absent = present.iter().fold(0, |bits, present| bits << 1 | u64::from(!present));
    absent | (repeat as u64).checked_shl(present.len() as u32).unwrap_or(0)
}

/// For each grouping set, which of `exprs` are in it. None without grouping sets.
fn masks(group_expr: &[Expr], exprs: &[&Expr]) -> Option<Vec<Vec<bool>>> {
    let [Expr::GroupingSet(sets)] = group_expr else { return None };
    let width = exprs.len();
    Some(match sets {
        GroupingSet::Rollup(_) => (0..=width).rev().map(|length| (0..width).map(|index| index < length).collect()).collect(),
        GroupingSet::Cube(_) => {
            let bit = |set: u64, index: usize| set >> (width - 1 - index) & 1 == 1;
            (0..1u64 << width).rev().map(|set| (0..width).map(|index| bit(set, index)).collect()).collect()
        }
        GroupingSet::GroupingSets(sets) => sets.iter().map(|set| exprs.iter().map(|expr| set.contains(expr)).collect()).collect(),
    })
}

fn one_row(key: &[Column], cells: Vec<ScalarValue>) -> Result<RecordBatch> {
    let columns = cells.iter().map(|cell| Ok(cell.to_array()?)).collect::<Result<Vec<ArrayRef>>>()?;
    let schema = RowType::new(key.iter().cloned()).schema();
    Ok(RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(1)))?)
}
