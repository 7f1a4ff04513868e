//! A program that is run again with what an earlier run of it has left.
//!
//! Whoever starts a program says all of it, so [`Session::run_again`] passes over what the journal has: a definition that is
//! there, a change of rows that was made. SET and RESET are said again each time, since what comes after them depends on them. What
//! is defined otherwise than it was is refused, or discarded with all that reads it; and what a program says no longer is
//! dropped by [`Session::forget_the_rest`].
//!
//! Two definitions are the same if their words and the settings before them are, or if their plans are.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::catalog::Member;
use super::durable::{Defined, Durable, Entry, parsed};
use super::session::Session;
use super::{Outcome, Shared};
use crate::error::{Error, Result};
use crate::sql;
use crate::sql::retention::Defaults;
use crate::sql::statement::{DropKind, Insert, Parsed, Statement};

/// What an earlier run of the program has left.
#[derive(Default)]
pub(super) struct Left {
    /// What the program has not said again.
    unclaimed: Vec<Entry>,
    /// What it has said again, or is new.
    said: Vec<Defined>,
    /// The settings are still those with which the earlier run has ended.
    is_untouched: bool,
}

impl Left {
    /// What these entries of a journal are to the program: what was discarded is as if it had never been said.
    pub fn of(entries: &[Entry]) -> Self {
        let mut unclaimed: Vec<Entry> = Vec::new();
        for entry in entries {
            match entry {
                Entry::Discarded { what, .. } => unclaimed.retain(|entry| !is_of(entry, what)),
                Entry::Defined { .. } | Entry::Done { .. } => unclaimed.push(entry.clone()),
                Entry::Built { .. } => {}
            }
        }
        Left { unclaimed, said: Vec::new(), is_untouched: true }
    }

    /// Whether an earlier run has left what a statement says under these settings; from now on it is said again.
    fn claim(&mut self, text: &str, now: &Defaults) -> bool {
        let said = |entry: &Entry| match entry {
            Entry::Defined { text: before, under, .. } => sql::is_same(before, text) && (under == now || !heeds_settings(before)),
            Entry::Done { text: before } => sql::is_same(before, text),
            Entry::Discarded { .. } | Entry::Built { .. } => false,
        };
        let found = self.unclaimed.iter().position(said);
        found.map(|at| self.claim_at(at)).is_some()
    }

    fn claim_at(&mut self, at: usize) {
        let entry = self.unclaimed.remove(at);
        self.said.extend(entry.defines());
    }

    /// Where an earlier run has said something else of a thing.
    fn definition(&self, defined: &Defined) -> Option<usize> {
        self.unclaimed.iter().rposition(|entry| entry.defines().contains(defined))
    }

    /// What an earlier run has said of something is not to be said again.
    fn disclaim(&mut self, defined: &Defined) {
        self.unclaimed.retain(|entry| !is_of(entry, defined));
        self.said.retain(|said| said != defined);
    }

    /// All that was defined together with one of these jobs, by their sinks.
    fn with_companions(&self, sinks: BTreeSet<String>) -> BTreeSet<String> {
        let sink = |defined| if let Defined::Job(sink) = defined { Some(sink) } else { None };
        let sets = self.unclaimed.iter().map(|entry| entry.defines().into_iter().filter_map(sink).collect::<BTreeSet<String>>());
        let companions: BTreeSet<String> = sets.filter(|set| !set.is_disjoint(&sinks)).flatten().collect();
        companions.into_iter().chain(sinks).collect()
    }
}

/// Whether what a statement defines depends on what SET has said of memory.
fn heeds_settings(text: &str) -> bool {
    parsed(text).is_ok_and(|parsed| match &parsed.statement {
        Statement::CreateTable(create) => !create.primary_key.is_empty() && !create.options.is_empty(),
        Statement::CreateView(_) | Statement::Insert(_) | Statement::StatementSet(_) => true,
        _ => false,
    })
}

/// Whether an entry is the definition of something, or a change of the rows of that table.
fn is_of(entry: &Entry, what: &Defined) -> bool {
    let of_table = |table: &String| *what == Defined::Table(table.clone());
    match entry {
        Entry::Defined { .. } => entry.defines().contains(what),
        Entry::Done { text } => parsed(text).is_ok_and(|parsed| match &parsed.statement {
            Statement::Insert(insert) => of_table(&insert.table),
            Statement::Update(update) => of_table(&update.table),
            Statement::Delete(delete) => of_table(&delete.table),
            _ => false,
        }),
        Entry::Discarded { .. } | Entry::Built { .. } => false,
    }
}

impl Session {
    /// Runs a statement of a program that may have been run before: what it has left is not done again.
    pub fn run_again(&mut self, statement: &Parsed, engine: Weak<Shared>) -> Result<Outcome> {
        self.prepare()?;
        let Some(durable) = self.durable.clone().filter(|_| !statement.statement.only_reads()) else {
            return self.run(statement, engine);
        };
        if std::mem::take(&mut durable.journal().left.is_untouched) {
            self.defaults = Defaults::default();
            self.driver.timeline().set_tick(self.default_tick);
        }
        let claimed = durable.journal().left.claim(&statement.text, &self.defaults);
        if claimed {
            return match statement.statement {
                Statement::Set { .. } | Statement::Reset(_) => self.dispatch(statement, engine),
                _ => Ok(Outcome::Done("as before".to_owned())),
            };
        }
        let defines = Defined::by(&statement.statement);
        for defined in &defines {
            let Some(before) = durable.journal().left.definition(defined) else { continue };
            if !defined.is_there(&self.catalog) {
                continue;
            }
            if self.is_same(&statement.statement)? {
                durable.journal().left.claim_at(before);
                return Ok(Outcome::Done("as before".to_owned()));
            }
            if !self.discards_changed {
                return Err(Error::invalid(format!(
                    "{defined} is not what it was when its state was saved, and what was kept of it does not fit: give it another name, or run with \
                     --discard-changed, with which it and all that reads it start anew"
                )));
            }
            self.discard(&durable, defined)?;
        }
        let outcome = self.run_for_keeps(statement, engine, true)?;
        durable.journal().left.said.extend(defines);
        Ok(outcome)
    }

    /// Whether a statement is of a view or a job that computes what the one of that name does.
    fn is_same(&self, statement: &Statement) -> Result<bool> {
        match statement {
            Statement::CreateView(create) => {
                let Some(before) = self.catalog.find_view(&create.name) else { return Ok(false) };
                let now = self.plan_view(create, "")?;
                let is_as_kept = now.materialized == before.materialized && now.schema == before.schema;
                Ok(is_as_kept && now.plan.fingerprint() == before.plan.fingerprint())
            }
            Statement::Insert(insert) => self.is_same_job(insert),
            Statement::StatementSet(inserts) => inserts.iter().try_fold(true, |all, insert| Ok(all && self.is_same_job(insert)?)),
            _ => Ok(false),
        }
    }

    fn is_same_job(&self, insert: &Insert) -> Result<bool> {
        let (plan, _) = self.plan_insert(insert)?;
        Ok(self.catalog.jobs().any(|job| job.sink == insert.table && job.plan.fingerprint() == plan.fingerprint()))
    }

    /// Drops something, and all that reads it or was defined in one statement with it; whatever is said of them later is new.
    fn discard(&mut self, durable: &Arc<Durable>, defined: &Defined) -> Result<()> {
        let mut gone: BTreeSet<Member> = BTreeSet::new();
        let mut sinks: BTreeSet<String> = BTreeSet::new();
        match defined {
            Defined::View(name) => gone = self.catalog.dependents(name),
            Defined::Job(sink) => sinks.extend([sink.clone()]),
            Defined::Table(table) => {
                sinks.extend(self.catalog.jobs().filter(|job| job.sink == *table || job.reads.contains(table)).map(|job| job.sink.clone()));
                let readers = self.catalog.views().filter(|view| view.reads.contains(table));
                readers.for_each(|view| gone.extend(self.catalog.dependents(&view.name)));
            }
        }
        let of_job = |member: &Member| if let Member::Job(name) = member { self.catalog.job(name).ok() } else { None };
        sinks.extend(gone.iter().filter_map(of_job).map(|job| job.sink.clone()));
        let sinks = durable.journal().left.with_companions(sinks);
        self.check_unsaid(durable, &sinks)?;
        // Readers before what they read.
        for sink in &sinks {
            let jobs: Vec<String> = self.catalog.jobs().filter(|job| job.sink == *sink).map(|job| job.name.clone()).collect();
            jobs.iter().try_for_each(|job| self.drop_for_keeps(durable, DropKind::Job, job, Defined::Job(sink.clone())))?;
        }
        let mut views: Vec<String> =
            gone.into_iter().filter_map(|member| if let Member::View(name) = member { Some(name) } else { None }).collect();
        while let Some(at) = views.iter().position(|view| self.catalog.readers(view).is_empty()) {
            let view = views.swap_remove(at);
            self.drop_for_keeps(durable, DropKind::View, &view, Defined::View(view.clone()))?;
        }
        match defined {
            Defined::Table(table) => self.drop_for_keeps(durable, DropKind::Table, table, defined.clone()),
            Defined::View(_) | Defined::Job(_) => Ok(()),
        }
    }

    /// An error if a job is to start anew whose sink another one writes that the program has said again already.
    fn check_unsaid(&self, durable: &Durable, sinks: &BTreeSet<String>) -> Result<()> {
        let journal = durable.journal();
        match sinks.iter().find(|sink| journal.left.said.contains(&Defined::Job((*sink).clone()))) {
            None => Ok(()),
            Some(sink) => Err(Error::invalid(format!(
                "a job into '{sink}' is to start anew, and another one, which has not changed, writes to the same table: give it a table of its own, or \
                 another folder for the state"
            ))),
        }
    }

    fn drop_for_keeps(&mut self, durable: &Durable, kind: DropKind, name: &str, what: Defined) -> Result<()> {
        let keyword = match kind {
            DropKind::Table => "TABLE",
            DropKind::View => "VIEW",
            DropKind::Job => "JOB",
        };
        let dropping = parsed(&format!("DROP {keyword} `{}`", name.replace('`', "``")))?;
        self.discarding = Some(what.clone());
        let dropped = self.run_for_keeps(&dropping, Weak::new(), false);
        self.discarding = None;
        dropped?;
        durable.journal().left.disclaim(&what);
        Ok(())
    }

    /// Drops what an earlier run of the program has left and this one has not said again; names it.
    pub fn forget_the_rest(&mut self) -> Result<Vec<String>> {
        let Some(durable) = self.durable.clone() else { return Ok(vec![]) };
        let mut gone = Vec::new();
        while let Some(defined) = self.unsaid(&durable) {
            self.discard(&durable, &defined)?;
            durable.journal().left.disclaim(&defined);
            gone.push(defined.to_string());
        }
        durable.journal().left = Left::default();
        Ok(gone)
    }

    /// Something that is there and that the program has not said again, the last of all first.
    fn unsaid(&self, durable: &Durable) -> Option<Defined> {
        let journal = durable.journal();
        let left = &journal.left;
        let defined = left.unclaimed.iter().rev().flat_map(Entry::defines);
        defined.into_iter().find(|defined| defined.is_there(&self.catalog) && !left.said.contains(defined))
    }
}
