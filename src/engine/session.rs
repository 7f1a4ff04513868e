//! Statements, one at a time: each goes to the file that is named for it.
//!
//! Definitions are planned when they are made, so that their errors come at once, and gathered until something has
//! to flow; [`Session::flow`] then installs all of them as one dataflow, in which they share what they can.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::audit::Auditor;
use super::catalog::{Catalog, Member};
use super::clock::Clock;
use super::driver::{Driver, Positions, Which};
use super::durable::{Defined, Durable, Entry, Restoring};
use super::names::Names;
use super::runtime::{DataflowId, Export};
use super::transaction::Transaction;
use super::{Outcome, Shared, plans};
use crate::connector::Output;
use crate::error::{Error, Result};
use crate::plan::{Course, RelationId};
use crate::sql::planner::{Planned, Purpose};
use crate::sql::retention::{Defaults, Retentions, Vain};
use crate::sql::statement::{DropKind, Parsed, Query, SqlOption, Statement};

/// What statements work on. There is one for an engine.
pub(super) struct Session {
    pub catalog: Catalog,
    pub driver: Arc<Driver>,
    pub transaction: Option<Transaction>,
    /// Where relative paths start.
    pub base: PathBuf,
    /// Where print sinks write.
    pub output: Output,
    /// As the engine was set up.
    pub default_clock: Option<Clock>,
    pub default_tick: Option<std::time::Duration>,
    /// What SET says of what views and jobs remember.
    pub defaults: Defaults,
    /// How often ALTER VIEW has changed what is remembered.
    pub alterations: u64,
    /// Where views are compared with what they would be if they forgot nothing.
    pub audit: Option<Auditor>,
    /// What is kept for checkpoints, if there is a folder for them.
    pub durable: Option<Arc<Durable>>,
    /// While what an earlier run has left is built again.
    pub restoring: Option<Restoring>,
    /// What a program has changed and its state does not fit starts anew.
    pub discards_changed: bool,
    /// Statements of an open transaction of a program.
    pub undone: Vec<Entry>,
    /// What is being dropped since the program says it no longer, or otherwise.
    pub discarding: Option<Defined>,
    /// Checkpoints are kept out.
    pub is_gated: bool,
}

/// How long a dataflow stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    /// As long as its views and jobs are there; a restart builds it again.
    Lasting,
    /// As long as somebody holds the subscription.
    Subscribed,
    /// Until its sources are read. Engine time does not follow them.
    ForOneAnswer,
}

/// A planned query and the names that it reads.
pub(super) type PlannedReads = (Planned, std::collections::BTreeSet<String>);

impl Session {
    /// Runs one statement. `engine` is what a subscription keeps of it.
    pub fn run(&mut self, parsed: &Parsed, engine: Weak<Shared>) -> Result<Outcome> {
        self.prepare()?;
        match parsed.statement.only_reads() {
            true => self.dispatch(parsed, engine),
            false => self.run_for_keeps(parsed, engine, false),
        }
    }

    /// Hands a statement to what is there for its kind.
    pub fn dispatch(&mut self, parsed: &Parsed, engine: Weak<Shared>) -> Result<Outcome> {
        match &parsed.statement {
            Statement::CreateTable(create) => self.create_table(create, &parsed.text),
            Statement::CreateView(create) => self.create_view(create, &parsed.text),
            Statement::AlterView { name, options } => self.alter_view(name, options),
            Statement::Drop { kind: DropKind::Table, name, if_exists } => self.drop_table(name, *if_exists),
            Statement::Drop { kind: DropKind::View, name, if_exists } => self.drop_view(name, *if_exists),
            Statement::Drop { kind: DropKind::Job, name, if_exists } => self.drop_job(name, *if_exists),
            Statement::Insert(insert) => self.insert(insert),
            Statement::StatementSet(inserts) => self.statement_set(inserts),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Begin => self.begin(),
            Statement::Commit => self.commit(),
            Statement::Rollback => self.rollback(),
            Statement::Query(query) => self.select(query).map(Outcome::Rows),
            Statement::Explain { what, state } => self.explain(what, *state),
            Statement::Show(show) => self.show(show),
            Statement::Set { name, value } => self.set(name, value),
            Statement::Reset(name) => self.reset(name.as_deref()),
            Statement::AdvanceTo(instant) => self.advance(|timeline| timeline.advance_to(*instant)),
            Statement::AdvanceBy(duration) => self.advance(|timeline| timeline.advance_by(*duration)),
            Statement::Subscribe(query) => self.subscribe(query, engine).map(Outcome::Subscription),
            Statement::Checkpoint => self.checkpoint(),
        }
    }

    /// What comes before every statement: is the engine well, and has a subscription been let go of?
    pub fn prepare(&mut self) -> Result<()> {
        self.driver.check()?;
        self.reap()
    }

    /// Plans a query, and says what it reads.
    pub fn plan(&self, query: &Query, purpose: Purpose) -> Result<PlannedReads> {
        self.plan_remembering(query, purpose, &[])
    }

    /// [`Session::plan`] with options that say what is remembered for how long.
    pub fn plan_remembering(&self, query: &Query, purpose: Purpose, options: &[SqlOption]) -> Result<PlannedReads> {
        let names = Names::new(&self.catalog, &self.driver, self.transaction.as_ref(), purpose);
        let said = match purpose {
            Purpose::Maintain => self.retentions(options, query)?,
            // What is answered once remembers nothing; its hints are checked all the same.
            Purpose::Once { .. } => Retentions::new(&Defaults::default(), &[], query)?,
        };
        let mut planned = names.plan(query, &said)?;
        if self.driver.timeline().clock() == Clock::Event {
            planned.plan = match purpose {
                // Where rows come in the order of their times, what is over needs no state.
                Purpose::Maintain => planned.plan.with_derived_bounds(),
                // What is read for one answer is read to its end, where windows close.
                Purpose::Once { .. } => planned.plan.with_windows_closed(&|id| self.course(id)),
            };
        }
        Ok((planned, names.into_read()))
    }

    /// The options of a view that change nothing, each with the reason.
    pub fn options_without_effect(&self, query: &Query, options: &[SqlOption]) -> Result<Vec<(String, Vain)>> {
        let said = self.retentions(options, query)?;
        Names::new(&self.catalog, &self.driver, None, Purpose::Maintain).plan(query, &said)?;
        Ok(said.without_effect())
    }

    /// What a view (by its options), a job or a query (which have none) says of its memory, with the session's defaults.
    pub fn retentions(&self, options: &[SqlOption], query: &Query) -> Result<Retentions> {
        Retentions::new(&self.defaults, options, query)
    }

    /// How the time of a relation's rows goes on once all bounded sources have been read.
    fn course(&self, id: RelationId) -> Course {
        match self.catalog.relation(id) {
            Some(table) if table.ends() => Course::Ended,
            Some(table) if table.is_in_memory() && table.event_time.is_none() => Course::None,
            _ => Course::GoesOn,
        }
    }

    /// A query's answer is as of now.
    pub fn once(&self) -> Purpose {
        Purpose::Once { now: self.driver.timeline().present() }
    }

    /// Definitions stay out of transactions, which are about rows.
    pub fn check_no_transaction(&self, what: &str) -> Result<()> {
        match self.transaction {
            Some(_) => Err(Error::invalid(format!("{what} cannot stand in a transaction: COMMIT or ROLLBACK first"))),
            None => Ok(()),
        }
    }

    /// Moves a manual clock, once what is being read has come in.
    pub fn advance(&mut self, go: impl FnOnce(&super::clock::Timeline) -> Result<()>) -> Result<Outcome> {
        self.check_no_transaction("ADVANCE")?;
        self.flow()?;
        self.catch_up()?;
        go(self.driver.timeline())?;
        Ok(Outcome::Done("ADVANCE".into()))
    }

    /// Under a manual or an event clock what comes first is what was said first: bounded sources are read to their ends
    /// before anything else happens. A wall clock waits for nobody.
    pub fn catch_up(&self) -> Result<()> {
        match self.driver.timeline().clock() {
            Clock::Manual | Clock::Event => self.driver.wait(Which::Bounded),
            Clock::Wall => Ok(()),
        }
    }

    /// Installs what was gathered, and starts to read for it.
    pub fn flow(&mut self) -> Result<()> {
        let pending = self.catalog.take_pending();
        if pending.is_empty() {
            return Ok(());
        }
        let durable = self.durable.clone();
        let _gate = durable.as_ref().filter(|_| !self.is_gated).map(|durable| durable.gate());
        // All readings begin together: engine time waits for every one of them.
        let driver = self.driver.clone();
        driver.holding(|| self.install_all(pending))
    }

    /// CHECKPOINT: writes what there is to the folder for it.
    fn checkpoint(&mut self) -> Result<Outcome> {
        let Some(durable) = self.durable.clone() else {
            return Err(Error::invalid("CHECKPOINT needs a folder for the state: weir run --state DIR, or Builder::state"));
        };
        self.check_no_transaction("CHECKPOINT")?;
        self.flow()?;
        self.catch_up()?;
        let written = durable.checkpoint(&self.driver)?;
        Ok(Outcome::Done(
            written.map_or_else(|| "CHECKPOINT (nothing has happened since the last)".to_owned(), |summary| summary.to_string()),
        ))
    }

    fn install_all(&mut self, pending: Vec<Member>) -> Result<()> {
        // What has nothing in common is built apart, so that it can end apart.
        let (members, exports): (Vec<Member>, Vec<Vec<Export>>) = pending
            .into_iter()
            .map(|member| {
                let exports = self.exports(&member);
                (member, exports)
            })
            .unzip();
        let is_table = |id| self.catalog.relation(id).is_some_and(|table| table.is_in_memory());
        let components = plans::components(exports.iter().map(|exports| exports.iter().map(Export::plan)), is_table);
        let mut parts: Vec<(usize, Member, Vec<Export>)> = components
            .into_iter()
            .zip(members)
            .zip(exports)
            .filter(|(_, exports)| !exports.is_empty())
            .map(|((component, member), exports)| (component, member, exports))
            .collect();
        parts.sort_by_key(|(component, ..)| *component);
        let (mut built, mut failed) = (Vec::new(), Ok(()));
        while let Some((component, ..)) = parts.first() {
            let component = *component;
            let rest = parts.split_off(parts.partition_point(|part| part.0 == component));
            let (members, exports): (Vec<Member>, Vec<Vec<Export>>) =
                parts.into_iter().map(|(_, member, exports)| (member, exports)).unzip();
            parts = rest;
            match self.install(exports.into_iter().flatten().collect(), Stay::Lasting) {
                Ok(dataflow) => {
                    built.push((dataflow.0, members.clone()));
                    self.catalog.installed(dataflow, members);
                }
                Err(error) => {
                    // What cannot be built is not there, or every later statement would fail with it.
                    members.iter().for_each(|member| drop(self.catalog.remove(member)));
                    self.count_jobs();
                    failed = failed.and(Err(error));
                }
            }
        }
        self.note_built(built);
        failed
    }

    /// Installs as one dataflow what was so installed before.
    pub fn install_again(&mut self, members: Vec<Member>) -> Result<()> {
        let exports = members.iter().flat_map(|member| self.exports(member)).collect();
        let dataflow = self.install(exports, Stay::Lasting)?;
        self.catalog.take(&members);
        self.catalog.installed(dataflow, members);
        Ok(())
    }

    /// Installs exports as one dataflow and starts to read the sources that it wants.
    pub fn install(&self, exports: Vec<Export>, stay: Stay) -> Result<DataflowId> {
        let inputs = self.catalog.inputs(exports.iter().map(Export::plan))?;
        let timeline = self.driver.timeline();
        // A restart does not build it, and nothing that it builds may be found to depend on it.
        let passes = self.durable.is_some() && stay != Stay::Lasting;
        let lead = stay != Stay::ForOneAnswer;
        self.driver.holding(|| {
            // As a step of its own: what the dataflow begins with is complete once it is there.
            let installed = timeline.step(0, |moment| moment.whole().install(exports, inputs, passes))?;
            let tables = installed.reads.iter().filter_map(|id| self.catalog.relation(*id).cloned());
            match &self.restoring {
                None => self.driver.read(installed.id, lead, tables, &Positions::new())?,
                Some(restoring) => {
                    let positions = restoring.positions();
                    let left = tables.filter(|table| positions.contains_key(&(installed.id, table.id)));
                    self.driver.read(installed.id, lead, left, positions)?;
                }
            }
            Ok(installed.id)
        })
    }

    /// What keeps a member up to date; under an audit also what it is compared with.
    fn exports(&mut self, member: &Member) -> Vec<Export> {
        let export = self.export(member);
        let audited = self.audit.as_mut().and_then(|audit| audit.exports(member, &self.catalog));
        export.into_iter().chain(audited.into_iter().flatten()).collect()
    }

    fn export(&mut self, member: &Member) -> Option<Export> {
        match member {
            Member::View(name) => {
                let view = self.catalog.find_view(name).filter(|view| view.materialized)?;
                Some(Export::Maintain { name: name.clone(), plan: view.plan.clone() })
            }
            Member::Job(name) => {
                let gate = self.catalog.take_gate(name)?;
                let job = self.catalog.job(name).ok()?;
                let key = self.catalog.find_table(&job.sink)?.spec()?.primary_key.clone();
                Some(Export::Sink { name: name.clone(), plan: job.plan.clone(), key, sink: Box::new(gate) })
            }
            Member::Subscription(_) => None,
        }
    }

    /// Removes a view, job or subscription: its sink is closed, and its dataflow ended if nothing else needs it.
    pub fn remove(&mut self, member: &Member) -> Result<()> {
        let shared = self.catalog.dataflow(member);
        let (job, dataflow) = self.catalog.remove(member);
        if let (None, Some(shared), Some(export)) = (dataflow, shared, member.export()) {
            self.driver.runtime().release(shared, export);
        }
        let ended = dataflow.map_or(Ok(()), |dataflow| self.driver.uninstall(dataflow));
        let closed = job.map_or(Ok(()), |job| job.keeper.close());
        self.count_jobs();
        ended.and(closed)
    }

    /// Ends the subscriptions whose holders have let go of them.
    pub fn reap(&mut self) -> Result<()> {
        self.catalog.closed_subscriptions().iter().try_for_each(|member| self.remove(member))
    }

    /// Makes everything that was written visible to others.
    pub fn flush_sinks(&self) -> Result<()> {
        self.catalog.jobs().try_for_each(|job| job.keeper.flush())
    }

    /// Lets go of all sinks.
    pub fn close_sinks(&self) -> Result<()> {
        self.catalog.jobs().try_for_each(|job| job.keeper.close())
    }

    /// The first failure among the sources of a plan's relations.
    pub fn check_sources(&self, plan: &crate::plan::Plan) -> Result<()> {
        let relations: Vec<RelationId> = plans::gets([plan]);
        self.driver.failure(Some(&relations))
    }

    /// Keeps the count of jobs that `stats` shows without asking the session.
    pub fn count_jobs(&self) {
        self.driver.counters.jobs.store(self.catalog.jobs().count() as u64, Ordering::Relaxed);
    }
}
