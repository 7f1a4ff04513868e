//! SELECT: one answer, as of now.
//!
//! What the query reads is complete first: bounded sources that are being read have been read to their ends. The
//! runtime answers from what other dataflows maintain wherever a part of the plan is that, once those have worked
//! everything off, whatever the rest have to do; if it would have to read a source for what is missing, the plan is
//! maintained for as long as it takes to read it.
//!
//! What is read for one answer has a time of its own under an event clock, which runs out where it ends: its windows are
//! closed then, PROCTIME() is each row's instant in it, and NOW() is its end. Nobody else's time is moved by it.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, lexsort_to_indices, take_record_batch};

use super::clock::Clock;
use super::driver::Which;
use super::plans;
use super::runtime::Export;
use super::session::{Session, Stay};
use super::table::Table;
use super::watermark::Watermarks;
use crate::error::{Error, Result};
use crate::plan::{Plan, RelationId};
use crate::sql::planner::{Planned, Purpose};
use crate::sql::statement::Query;

impl Session {
    /// Runs a query.
    pub fn select(&mut self, query: &Query) -> Result<RecordBatch> {
        let planned = self.plan_now(query)?;
        self.contents(query, &planned).map_err(|error| self.in_views(query, error))
    }

    /// An error of rows, with the views that the query reads them from.
    fn in_views(&self, query: &Query, error: Error) -> Error {
        let Error::Data(message) = error else { return error };
        let reads = self.plan(query, self.once()).map(|(_, reads)| reads).unwrap_or_default();
        let views: Vec<&str> = reads.iter().map(String::as_str).filter(|name| self.catalog.find_view(name).is_some()).collect();
        Error::Data(if views.is_empty() { message } else { format!("{}: {message}", views.join(", ")) })
    }

    /// Plans a query once all that it may see is there.
    pub fn plan_now(&mut self, query: &Query) -> Result<Planned> {
        self.flow()?;
        if self.driver.is_reading(Which::Bounded) {
            // For its errors, which should not wait for the sources.
            self.plan(query, self.once())?;
            self.driver.wait(Which::Bounded)?;
        }
        Ok(self.plan(query, self.once())?.0)
    }

    /// Plans the query of an INSERT, UPDATE or DELETE, which waits for sources only if it reads what comes from them.
    pub fn plan_rows(&mut self, query: &Query) -> Result<Planned> {
        self.flow()?;
        self.catch_up()?;
        let (planned, reads) = self.plan(query, self.once())?;
        let in_memory = |table: Option<&Arc<Table>>| table.is_some_and(|table| table.is_in_memory());
        let is_plain = plans::gets([&planned.plan]).into_iter().all(|id| in_memory(self.catalog.relation(id)))
            && reads.iter().all(|name| self.catalog.find_view(name).is_some() || in_memory(self.catalog.find_table(name)));
        if is_plain { Ok(planned) } else { self.plan_now(query) }
    }

    /// A query's rows as it shows them.
    pub fn contents(&self, query: &Query, planned: &Planned) -> Result<RecordBatch> {
        match self.sources_of_its_time(planned) {
            sources if sources.is_empty() => self.shown(planned),
            sources => self.at_the_end_of(&sources, query),
        }
    }

    fn shown(&self, planned: &Planned) -> Result<RecordBatch> {
        let (rows, diffs) = self.answer(&planned.plan)?;
        present(planned, &rows, &diffs)
    }

    /// The sources where a query's NOW() is: under an event clock those that would be read for it and whose rows have times.
    fn sources_of_its_time(&self, planned: &Planned) -> Vec<Arc<Table>> {
        if !planned.asks_time || self.driver.timeline().clock() != Clock::Event {
            return vec![];
        }
        let missing = self.driver.runtime().missing_sources(&planned.plan);
        let missing: Vec<&Arc<Table>> = missing.iter().filter_map(|id| self.catalog.relation(*id)).collect();
        match missing.iter().all(|table| table.ends()) {
            true => missing.into_iter().filter(|table| table.event_time.is_some()).cloned().collect(),
            // It will be refused.
            false => vec![],
        }
    }

    /// Answers a query as of when the time of these sources runs out, or now if that is later. Their rows are kept until then:
    /// a source need not be there to be read twice.
    fn at_the_end_of(&self, sources: &[Arc<Table>], query: &Query) -> Result<RecordBatch> {
        let timeline = self.driver.timeline();
        timeline.change_watermarks(Watermarks::take_greatest_apart)?;
        let kept = sources.iter().map(|table| Export::Maintain { name: "query".into(), plan: table.get() });
        let dataflow = self.install(kept.collect(), Stay::ForOneAnswer)?;
        let answer = self.driver.wait(Which::Of(dataflow)).and_then(|()| {
            let end = timeline.change_watermarks(Watermarks::take_greatest_apart)?;
            let now = timeline.present().max(end.unwrap_or_default());
            self.shown(&self.plan(query, Purpose::Once { now })?.0)
        });
        let ended = self.driver.uninstall(dataflow);
        answer.and_then(|answer| ended.map(|()| answer))
    }

    /// The rows of a plan and how often each is there.
    pub fn answer(&self, plan: &Plan) -> Result<(RecordBatch, Vec<i64>)> {
        self.check_sources(plan)?;
        if let Some(known) = plans::evaluate(plan) {
            return known;
        }
        let missing = self.driver.runtime().missing_sources(plan);
        if missing.is_empty() { self.peek(plan) } else { self.read_once(plan, &missing) }
    }

    fn peek(&self, plan: &Plan) -> Result<(RecordBatch, Vec<i64>)> {
        self.driver.timeline().between(|runtime| runtime.peek(plan))?.answer()
    }

    /// Maintains a plan while its sources are read to their ends, for one answer.
    fn read_once(&self, plan: &Plan, missing: &[RelationId]) -> Result<(RecordBatch, Vec<i64>)> {
        for table in missing.iter().filter_map(|id| self.catalog.relation(*id)) {
            if !table.ends() {
                return Err(Error::invalid(format!(
                    "source '{}' does not end, so a SELECT that reads it would not: CREATE MATERIALIZED VIEW over it and SELECT from that",
                    table.name
                )));
            }
        }
        let dataflow = self.install(vec![Export::Maintain { name: "query".into(), plan: plan.clone() }], Stay::ForOneAnswer)?;
        let read = self.driver.wait(Which::Of(dataflow)).and_then(|()| self.check_sources(plan));
        let answer = read.and_then(|()| self.peek(plan));
        let ended = self.driver.uninstall(dataflow);
        answer.and_then(|answer| ended.map(|()| answer))
    }
}

/// Rows in the order that the query says, each as often as it is there, with the columns that it shows.
fn present(planned: &Planned, rows: &RecordBatch, diffs: &[i64]) -> Result<RecordBatch> {
    let shown = rows.project(&planned.show)?;
    if planned.order.is_empty() && diffs.iter().all(|diff| *diff == 1) {
        return Ok(shown);
    }
    let order = sorted(planned, rows)?;
    let repeated = order.iter().flat_map(|i| std::iter::repeat_n(*i, usize::try_from(diffs[*i as usize]).unwrap_or(0)));
    Ok(take_record_batch(&shown, &UInt32Array::from_iter_values(repeated))?)
}

/// Positions of the rows in order; rows that compare as equal stay as they are.
fn sorted(planned: &Planned, rows: &RecordBatch) -> Result<Vec<u32>> {
    let positions = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    if planned.order.is_empty() {
        return Ok(positions.values().to_vec());
    }
    let keys = planned.order.iter().map(|key| SortColumn { values: rows.column(key.column).clone(), options: Some(key.options) });
    let keys: Vec<SortColumn> = keys.chain([SortColumn { values: Arc::new(positions), options: None }]).collect();
    Ok(lexsort_to_indices(&keys, None)?.values().to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use crate::sql::planner::OrderBy;
    use arrow::array::{AsArray, Int32Array};
    use arrow::compute::SortOptions;
    use arrow::datatypes::Int32Type;

    fn shown(order: &[(usize, SortOptions)], show: &[usize], rows: &[[Option<i32>; 2]], diffs: &[i64]) -> Vec<Vec<Option<i32>>> {
        let table = ints(1, &["a", "b"], &[]);
        let column = |i: usize| Arc::new(rows.iter().map(|row| row[i]).collect::<Int32Array>()) as _;
        let batch = RecordBatch::try_new(table.physical().clone(), vec![column(0), column(1)]).unwrap();
        let order = order.iter().map(|(column, options)| OrderBy { column: *column, options: *options }).collect();
        let planned = Planned { plan: table.get(), order, show: show.to_vec(), asks_time: false };
        let result = present(&planned, &batch, diffs).unwrap();
        (0..result.num_rows())
            .map(|r| result.columns().iter().map(|c| c.as_primitive::<Int32Type>().iter().nth(r).unwrap()).collect())
            .collect()
    }

    const ASC: SortOptions = SortOptions { descending: false, nulls_first: false };
    const DESC: SortOptions = SortOptions { descending: true, nulls_first: true };

    #[test]
    fn rows_come_in_order_as_often_as_they_are_there() {
        let rows = [[Some(2), Some(20)], [None, Some(0)], [Some(1), Some(10)]];
        assert_eq!(shown(&[(0, ASC)], &[1], &rows, &[1, 1, 3]), [[Some(10)], [Some(10)], [Some(10)], [Some(20)], [Some(0)]]);
        assert_eq!(shown(&[(0, DESC)], &[1], &rows, &[1, 1, 1]), [[Some(0)], [Some(20)], [Some(10)]]);
    }

    #[test]
    fn rows_with_equal_keys_stay_in_their_order() {
        let rows: Vec<[Option<i32>; 2]> = (0..100).map(|i| [Some(i % 2), Some(i)]).collect();
        let result = shown(&[(0, ASC)], &[1], &rows, &[1; 100]);
        let expected: Vec<Vec<Option<i32>>> =
            (0..100).filter(|i| i % 2 == 0).chain((0..100).filter(|i| i % 2 == 1)).map(|i| vec![Some(i)]).collect();
        assert_eq!(result, expected);
    }

    #[test]
    fn without_order_and_repeats_the_rows_stay_as_they_are() {
        assert_eq!(shown(&[], &[1, 0], &[[Some(1), Some(2)]], &[1]), [[Some(2), Some(1)]]);
        assert_eq!(shown(&[], &[0], &[[Some(1), None], [Some(2), None]], &[2, 1]), [[Some(1)], [Some(1)], [Some(2)]]);
    }
}
