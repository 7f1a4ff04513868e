//! Names in FROM, looked up for the planner: what a table or view is to a query, by what the query is for.
//!
//! A view is its plan, so a query over it shares whatever that plan is already rendered as. Changelogs and system
//! tables are their rows at the moment of planning, which only a query that is answered once can have. In a
//! transaction a table is what the transaction sees of it, and a view is planned again over that. So is a view that nothing
//! runs where it is read once: nothing has been forgotten in it, whatever others remember of the same rows, and under an event
//! clock NOW() in it is when what it reads has ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Instant;

use super::catalog::{ARRANGEMENTS, Catalog, View, WATERMARKS};
use super::clock::Clock;
use super::driver::Driver;
use super::plans;
use super::runtime::Runtime;
use super::show;
use super::table::{Storage, Table};
use super::transaction::Transaction;
use super::watermark::Watermarks;
use crate::error::{Error, Result};
use crate::plan::{Plan, RowType};
use crate::sql::planner::{self, Planned, Purpose, Relation};
use crate::sql::retention::Retentions;
use crate::sql::statement::Query;

/// The catalog for one planning.
pub(super) struct Names<'a> {
    catalog: &'a Catalog,
    driver: &'a Driver,
    transaction: Option<&'a Transaction>,
    purpose: Purpose,
    read: RefCell<BTreeSet<String>>,
    /// Whether a view that is planned again asks what time it is.
    asks_time: Cell<bool>,
    /// Why a name that is there cannot be read: the planner only knows that it is not there.
    refused: RefCell<Option<Error>>,
}

impl<'a> Names<'a> {
    pub fn new(catalog: &'a Catalog, driver: &'a Driver, transaction: Option<&'a Transaction>, purpose: Purpose) -> Self {
        let transaction = transaction.filter(|transaction| !transaction.is_empty());
        Names { catalog, driver, transaction, purpose, read: RefCell::default(), asks_time: Cell::default(), refused: RefCell::default() }
    }

    /// Plans a query over these names, which remembers of them what was `said`.
    pub fn plan(&self, query: &Query, said: &Retentions) -> Result<Planned> {
        let planned = planner::plan_query(query, self, self.purpose, said);
        match self.refused.borrow_mut().take() {
            Some(refused) => Err(refused),
            None => planned.map(|planned| Planned { asks_time: planned.asks_time || self.asks_time.get(), ..planned }),
        }
    }

    /// The tables and views that were read, directly.
    pub fn into_read(self) -> BTreeSet<String> {
        self.read.into_inner()
    }

    fn look_up(&self, name: &str) -> Result<Option<Relation>> {
        let plan = if let Some(view) = self.catalog.find_view(name) {
            self.view(view)?
        } else if let Some(table) = self.catalog.find_table(name) {
            self.table(table)?
        } else if name == ARRANGEMENTS {
            self.check_once("system table", name)?;
            self.driver.timeline().settle()?;
            let rows = show::arrangements(self.driver.timeline().between(Runtime::arrangements)?)?;
            plans::constant(rows.clone(), RowType::from_schema(&rows.schema()))
        } else if name == WATERMARKS {
            self.check_once("system table", name)?;
            let timed: Vec<&str> = self.catalog.tables().filter(|table| table.event_time.is_some()).map(|table| &*table.name).collect();
            let now = Instant::now();
            let standing = |marks: &Watermarks| timed.iter().map(|table| marks.standing(table, now)).collect();
            let rows = show::watermarks(self.driver.timeline().watermarks(standing))?;
            plans::constant(rows.clone(), RowType::from_schema(&rows.schema()))
        } else {
            return Ok(None);
        };
        let versions = self.catalog.find_table(name).map(|table| table.versions(self.catalog.history(name)));
        Ok(Some(Relation { schema: plan.row().schema(), plan, versions }))
    }

    fn table(&self, table: &Table) -> Result<Plan> {
        match (&table.storage, self.transaction) {
            (Storage::Memory, Some(transaction)) => transaction.overlay(table),
            (Storage::Memory, None) => Ok(table.get()),
            (Storage::Connector { kind, .. }, _) if kind.source => Ok(table.get()),
            (Storage::Connector { .. }, _) => {
                Err(Error::invalid(format!("table '{}' is a sink: its connector writes rows and reads none", table.name)))
            }
            (Storage::Changelog { log, .. }, _) => {
                self.check_once("changelog", &table.name)?;
                self.driver.timeline().settle()?;
                Ok(plans::constant(log.snapshot()?, RowType::from_schema(log.schema())))
            }
        }
    }

    fn view(&self, view: &View) -> Result<Plan> {
        // What is read for itself has a time of its own under an event clock, by which its rows come and go.
        let is_by_time = || self.driver.timeline().clock() == Clock::Event && view.plan.is_filtered_by_time();
        let is_idle = || !self.catalog.is_running(&self.catalog.dependents(&view.name));
        let is_afresh = matches!(self.purpose, Purpose::Once { .. }) && (view.plan.forgets() || is_by_time()) && is_idle();
        let is_changed = self.transaction.is_some_and(|transaction| transaction.changes_any(&plans::gets([&view.plan])));
        if is_changed && view.plan.forgets() && !is_afresh {
            return Err(Error::invalid(format!(
                "view '{}' remembers for a time what this transaction has changed, and cannot say what it will make of that: COMMIT first",
                view.name
            )));
        }
        if !is_changed && !is_afresh {
            return Ok(match self.purpose {
                // The rows of a materialized view are kept, so what reads it is to find them as they are.
                _ if view.materialized => view.plan.boundary(),
                // What is over is in the answer, whether or not somebody needs it no more.
                Purpose::Once { .. } => view.plan.without_derived_bounds(),
                Purpose::Maintain => view.plan.clone(),
            });
        }
        let names = Names::new(self.catalog, self.driver, self.transaction, self.purpose);
        let planned = names.plan(&view.query, &Retentions::none())?;
        self.asks_time.set(self.asks_time.get() || planned.asks_time);
        let columns: Vec<String> = view.schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(plans::select(&planned.plan, &planned.show, &columns))
    }

    fn check_once(&self, kind: &str, name: &str) -> Result<()> {
        match self.purpose {
            Purpose::Once { .. } => Ok(()),
            Purpose::Maintain => Err(Error::unsupported(format!("a view, job or subscription over the {kind} '{name}'; SELECT reads it"))),
        }
    }
}

impl planner::Catalog for Names<'_> {
    fn relation(&self, name: &str) -> Option<Relation> {
        match self.look_up(name) {
            Ok(found) => {
                if found.is_some() {
                    self.read.borrow_mut().insert(name.to_string());
                }
                found
            }
            Err(error) => {
                self.refused.borrow_mut().get_or_insert(error);
                None
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.catalog.names()
    }
}
