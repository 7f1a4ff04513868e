//! INSERT, UPDATE and DELETE of rows of tables in memory, and transactions of them.
//!
//! A statement is one step, and so is a transaction. What an UPDATE or DELETE applies to is found by a query over
//! the table; its changes are then added to the table like any others.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use sqlparser::ast::{self, Ident, SelectItem};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::jobs::check_count;
use super::reader::{pick, rows_of};
use super::runtime::Rows;
use super::session::Session;
use super::table::{self, Table};
use super::transaction::{Transaction, latest};
use super::watermark::Judge;
use super::{Outcome, plans};
use crate::connector::Op;
use crate::error::{Error, Result};
use crate::sql::statement::{Delete, Insert, Query, Update};

/// How often a row can be added or taken at once. Counts are sums of such figures in 64 bits, which have to have room.
const MOST_TIMES: u64 = i32::MAX as u64;

impl Session {
    /// INSERT INTO a table in memory.
    pub fn insert_rows(&mut self, insert: &Insert) -> Result<Outcome> {
        let table = self.catalog.table(&insert.table)?.clone();
        let targets = table.targets(&insert.columns)?;
        let planned = self.plan_rows(&insert.query)?;
        check_count(&table, &targets, &planned)?;
        let rows = self.contents(&insert.query, &planned)?;
        let physical = table.conform(&targets, rows.columns(), rows.num_rows())?;
        let count = physical.num_rows() as u64;
        let added = self.write(&table, count, Judge::Step, |now| Ok(rows_of(&table, table.complete_all(&physical, now)?, None)))?;
        Ok(Outcome::Changed(added))
    }

    /// Adds rows to a table in memory, `diffs[i]` times each; with a primary key a negative figure deletes the key's row.
    pub fn push(&mut self, name: &str, rows: &RecordBatch, diffs: &[i64]) -> Result<()> {
        let table = self.memory_table(name)?;
        if diffs.len() != rows.num_rows() {
            return Err(Error::invalid(format!("table '{name}': {} rows come with {} diffs", rows.num_rows(), diffs.len())));
        }
        if let Some(diff) = diffs.iter().find(|diff| diff.unsigned_abs() > MOST_TIMES) {
            return Err(Error::invalid(format!(
                "table '{name}': a row is to be added {diff} times, and -{MOST_TIMES} to {MOST_TIMES} is possible"
            )));
        }
        let columns: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        let targets = table.targets(&columns)?;
        self.flow()?;
        self.catch_up()?;
        let kept: Vec<u32> = (0..diffs.len() as u32).filter(|i| diffs[*i as usize] != 0).collect();
        let diffs: Vec<i64> = diffs.iter().copied().filter(|diff| *diff != 0).collect();
        let rows = if kept.len() == rows.num_rows() { rows.clone() } else { pick(rows, kept)? };
        let physical = table.conform(&targets, rows.columns(), rows.num_rows())?;
        self.write(&table, diffs.len() as u64, Judge::Step, |now| {
            let rows = table.complete_all(&physical, now)?;
            if table.primary_key.is_empty() {
                return Ok(Rows::Diffs { rows, diffs });
            }
            Ok(Rows::Ops { rows, ops: diffs.iter().map(|diff| if *diff > 0 { Op::Upsert } else { Op::Delete }).collect() })
        })
        .map(drop)
    }

    /// DELETE FROM a table in memory.
    pub fn delete(&mut self, delete: &Delete) -> Result<Outcome> {
        let table = self.memory_table(&delete.table)?;
        let columns = table.columns.iter().map(|column| named(&column.name)).collect();
        let (rows, diffs) = self.matching(&table, columns, delete.predicate.clone())?;
        let old = full_rows(&table, &rows)?;
        let count = total(&diffs);
        self.write(&table, count, Judge::Nobody, |_| {
            Ok(match table.primary_key.is_empty() {
                true => Rows::Diffs { rows: old, diffs: diffs.iter().map(|diff| -diff).collect() },
                false => Rows::Ops { ops: vec![Op::Delete; old.num_rows()], rows: old },
            })
        })?;
        Ok(Outcome::Changed(count))
    }

    /// UPDATE of a table in memory.
    pub fn update(&mut self, update: &Update) -> Result<Outcome> {
        let table = self.memory_table(&update.table)?;
        let assigned: Vec<String> = update.assignments.iter().map(|(column, _)| column.clone()).collect();
        let targets = table.targets(&assigned)?;
        let old_columns = table.columns.iter().map(|column| named(&column.name));
        let new_columns = update.assignments.iter().enumerate().map(|(i, (_, expr))| {
            // The alias only has to differ from every other column of the query.
            SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', format!("weir_new_{i}")) }
        });
        let (rows, diffs) = self.matching(&table, old_columns.chain(new_columns).collect(), update.predicate.clone())?;
        let old = full_rows(&table, &rows)?;
        let physical = updated(&table, &old, &targets, &rows.columns()[table.columns.len()..])?;
        let count = total(&diffs);
        self.write(&table, count, Judge::Nobody, |now| {
            let new = table.complete_all(&physical, now)?;
            let rows = arrow::compute::concat_batches(&new.schema(), [&old, &new])?;
            Ok(match table.primary_key.is_empty() {
                true => Rows::Diffs { rows, diffs: diffs.iter().map(|diff| -diff).chain(diffs.iter().copied()).collect() },
                // All old keys go before any new one comes; what stays under its key is one update.
                false => Rows::Ops { rows, ops: [vec![Op::Delete; old.num_rows()], vec![Op::Upsert; new.num_rows()]].concat() },
            })
        })?;
        Ok(Outcome::Changed(count))
    }

    /// BEGIN.
    pub fn begin(&mut self) -> Result<Outcome> {
        self.check_no_transaction("BEGIN")?;
        self.transaction = Some(Transaction::default());
        Ok(Outcome::Done("BEGIN".into()))
    }

    /// COMMIT: all changes, as one step.
    pub fn commit(&mut self) -> Result<Outcome> {
        let transaction = self.transaction.take().ok_or_else(|| Error::invalid("COMMIT without BEGIN: there is no transaction"))?;
        if !transaction.is_empty() {
            self.flow()?;
            let mut changes = Vec::new();
            for (id, late, rows) in transaction.into_changes() {
                let table = self.catalog.relation(id).ok_or_else(|| Error::invalid("a table that the transaction has changed is gone"))?;
                changes.push((table.clone(), late, rows));
            }
            let count = changes.iter().map(|(.., rows)| rows.count() as u64).sum();
            let timeline = self.driver.timeline();
            timeline.relieve()?;
            timeline.step(count, |moment| {
                changes.into_iter().try_for_each(|(table, late, rows)| {
                    moment.count_late(&table.name, late);
                    moment.insert(&table, rows, Judge::Nobody).map(drop)
                })
            })?;
        }
        Ok(Outcome::Done("COMMIT".into()))
    }

    /// ROLLBACK: no change.
    pub fn rollback(&mut self) -> Result<Outcome> {
        self.transaction.take().ok_or_else(|| Error::invalid("ROLLBACK without BEGIN: there is no transaction"))?;
        Ok(Outcome::Done("ROLLBACK".into()))
    }

    fn memory_table(&self, name: &str) -> Result<Arc<Table>> {
        let table = self.catalog.table(name)?;
        match table.is_in_memory() {
            true => Ok(table.clone()),
            false => Err(Error::invalid(format!("table '{name}' is not in memory: its rows are its connector's and cannot be changed"))),
        }
    }

    /// Adds changes to a table: in a step of their own, or to the open transaction. Returns how many were not late.
    fn write(&mut self, table: &Table, count: u64, judge: Judge, changes: impl FnOnce(i64) -> Result<Rows>) -> Result<u64> {
        let timeline = self.driver.timeline();
        if count == 0 {
            return Ok(0);
        }
        if let Some(transaction) = &mut self.transaction {
            let (rows, late) = timeline.in_time(table, changes(timeline.present())?, judge)?;
            transaction.add(table, rows, late)?;
            return Ok(count.saturating_sub(late));
        }
        // Before this step, not after it: who only reads next does not have to wait.
        timeline.relieve()?;
        let late = timeline.step(count, |moment| {
            let rows = changes(moment.now())?;
            // Rows of one key that have times of their own do not replace each other at once.
            let rows = if table.event_time.is_some() { rows } else { latest(rows, &table.primary_key)? };
            moment.insert(table, rows, judge)
        })?;
        Ok(count.saturating_sub(late))
    }

    /// Columns of a table's rows that match a predicate, and how often each row is there.
    fn matching(&mut self, table: &Table, columns: Vec<SelectItem>, predicate: Option<ast::Expr>) -> Result<(RecordBatch, Vec<i64>)> {
        let planned = self.plan_rows(&query_of(&table.name, columns, predicate)?)?;
        self.answer(&plans::shown(&planned))
    }
}

/// `SELECT columns FROM table [WHERE predicate]`; all columns where none are given.
pub(super) fn query_of(table: &str, columns: Vec<SelectItem>, predicate: Option<ast::Expr>) -> Result<Query> {
    let shape = || Error::invalid("a SELECT of one table could not be made");
    let mut parsed = Parser::parse_sql(&GenericDialect {}, "SELECT * FROM t").map_err(Error::invalid)?;
    let Some(ast::Statement::Query(mut ast)) = parsed.pop() else { return Err(shape()) };
    let ast::SetExpr::Select(select) = ast.body.as_mut() else { return Err(shape()) };
    let Some(ast::TableWithJoins { relation: ast::TableFactor::Table { name, .. }, .. }) = select.from.first_mut() else {
        return Err(shape());
    };
    *name = vec![Ident::with_quote('"', table)].into();
    select.selection = predicate;
    if !columns.is_empty() {
        select.projection = columns;
    }
    Ok(Query { ast, hints: Vec::new(), emit_on_window_close: false })
}

fn named(column: &str) -> SelectItem {
    SelectItem::UnnamedExpr(ast::Expr::Identifier(Ident::with_quote('"', column)))
}

/// The leading columns of a query's rows as whole rows of the table.
fn full_rows(table: &Table, rows: &RecordBatch) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(table.row().schema(), rows.columns()[..table.columns.len()].to_vec())?)
}

/// The physical columns of rows after an UPDATE.
fn updated(table: &Table, old: &RecordBatch, targets: &[usize], values: &[ArrayRef]) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(table.physical().fields().len());
    for (position, field) in table.physical().fields().iter().enumerate() {
        columns.push(match targets.iter().position(|target| *target == position) {
            Some(given) => values[given].clone(),
            None => old.column(table::find(&table.name, &old.schema(), field.name())?).clone(),
        });
    }
    let all: Vec<usize> = (0..columns.len()).collect();
    table.conform(&all, &columns, old.num_rows())
}

fn total(diffs: &[i64]) -> u64 {
    diffs.iter().map(|diff| diff.unsigned_abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    #[test]
    fn the_query_of_a_delete_reads_its_own_table_by_exact_names() {
        let predicate = ast::Expr::Identifier(Ident::new("gone"));
        let query = query_of("Order", vec![named("Id"), named("b")], Some(predicate)).unwrap();
        assert_eq!(query.ast.to_string(), "SELECT \"Id\", \"b\" FROM \"Order\" WHERE gone");
        assert_eq!(query_of("t", vec![], None).unwrap().ast.to_string(), "SELECT * FROM \"t\"");
    }

    #[test]
    fn an_update_keeps_the_columns_that_it_does_not_set() {
        let table = ints(1, &["a", "b"], &[]);
        let column = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as ArrayRef;
        let old = RecordBatch::try_new(table.physical().clone(), vec![column(vec![1, 2]), column(vec![10, 20])]).unwrap();
        let new = updated(&table, &old, &[1], &[column(vec![11, 21])]).unwrap();
        assert_eq!(new.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
        assert_eq!(new.column(1).as_primitive::<Int32Type>().values(), &[11, 21]);
    }
}
