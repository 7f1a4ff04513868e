//! CREATE, ALTER and DROP of tables and views.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::Outcome;
use super::catalog::{Member, View};
use super::changelog::Log;
use super::clock::Clock;
use super::event_time::is_of_time;
use super::plans;
use super::session::Session;
use super::table::{Storage, Table};
use super::watermark::Follower;
use crate::connector::{self, TableSpec};
use crate::error::{Error, Result};
use crate::plan::{Figures, Memory, Plan};
use crate::sql::planner::Purpose;
use crate::sql::retention::{OPTIONS, altered, memory_of_table};
use crate::sql::statement::{CreateTable, CreateView, SqlOption, Statement};

impl Session {
    /// What a statement has said that is accepted and has no effect, in a few words.
    pub fn without_effect(&self, statement: &Statement) -> Option<String> {
        match statement {
            Statement::CreateTable(create) => self.watermark_without_effect(create),
            _ => None,
        }
    }

    fn watermark_without_effect(&self, create: &CreateTable) -> Option<String> {
        let watermark = create.watermark.as_ref()?;
        match self.driver.timeline().clock() {
            Clock::Event => None,
            clock => Some(format!("WATERMARK FOR {} has no effect: the clock is '{}'", watermark.column, clock.name())),
        }
    }

    /// CREATE TABLE: in memory without options, else by its connector.
    pub fn create_table(&mut self, create: &CreateTable, text: &str) -> Result<Outcome> {
        self.check_no_transaction("CREATE TABLE")?;
        if create.if_not_exists && self.catalog.find_table(&create.name).is_some() {
            return Ok(Outcome::Done(format!("table {} exists already", create.name)));
        }
        self.catalog.check_free(&create.name)?;
        if create.columns.is_empty() {
            return Err(Error::invalid(format!("table '{}' has no columns", create.name)));
        }
        let id = self.catalog.new_relation();
        let base = &self.base;
        let (of_memory, others): (Vec<SqlOption>, Vec<SqlOption>) = create.options.iter().cloned().partition(is_of_memory);
        let of_connector: Vec<SqlOption> = others.into_iter().filter(|option| !is_of_time(option)).collect();
        let memory = self.table_memory(create, &of_memory, &of_connector)?;
        let stored = |schema, primary_key| {
            let options: Vec<(String, String)> = of_connector.iter().map(|o| (o.name.clone(), o.value.clone())).collect();
            if options.is_empty() {
                return Ok(Storage::Memory);
            }
            storage(TableSpec { name: create.name.clone(), schema, primary_key, options, base: base.clone() })
        };
        let table = Table::new(id, create, text, memory.clone(), stored)?;
        let history = match table.history(create) {
            Some(create) => Some(Table::new(self.catalog.new_relation(), &create, text, memory, stored)?.repeated()),
            None => None,
        };
        let timeline = self.driver.timeline();
        if table.is_in_memory() {
            timeline.between(|runtime| runtime.create_table(table.input()))?;
        }
        if let Some(event) = &table.event_time {
            timeline.declare_watermark();
            if table.is_in_memory() {
                timeline
                    .change_watermarks(|marks| marks.follow(Follower::Table(id), true, &table.name, event.idle_timeout, Instant::now()))?;
            }
        }
        self.catalog.add_table(table, history);
        let note = self.watermark_without_effect(create).map_or_else(String::new, |note| format!(" ({note})"));
        Ok(Outcome::Done(format!("CREATE TABLE {}{note}", create.name)))
    }

    /// How long a connector's rows by primary key are remembered: what a row replaces has to be known for that long.
    fn table_memory(&self, create: &CreateTable, options: &[SqlOption], connector: &[SqlOption]) -> Result<Memory> {
        let keeps = !create.primary_key.is_empty() && !connector.is_empty();
        match (keeps, options.first()) {
            (true, _) => memory_of_table(&self.defaults, options),
            (false, None) => Ok(Memory::default()),
            (false, Some(option)) => Err(Error::invalid(format!(
                "{} of table '{}': only a connector's table with a PRIMARY KEY remembers rows, and a table in memory keeps its rows until they are deleted; \
                 say it of the views that read it",
                option.name, create.name
            ))),
        }
    }

    /// CREATE [MATERIALIZED] VIEW: planned now; run when something flows, if it is materialized or when it is read.
    pub fn create_view(&mut self, create: &CreateView, text: &str) -> Result<Outcome> {
        self.check_no_transaction("CREATE VIEW")?;
        let name = &create.name;
        let replaces = create.or_replace && self.catalog.find_view(name).is_some();
        if create.if_not_exists && self.catalog.find_view(name).is_some() {
            return Ok(Outcome::Done(format!("view {name} exists already")));
        }
        if replaces {
            self.check_replaceable(name)?;
        } else {
            self.catalog.check_free(name)?;
        }
        let view = self.plan_view(create, text)?;
        if view.reads.contains(name) {
            return Err(Error::invalid(format!("view '{name}' cannot be replaced by a query over itself")));
        }
        if replaces {
            self.remove(&Member::View(name.clone()))?;
        }
        self.catalog.add_view(view);
        if self.audit.is_some() {
            self.catalog.install_later(name);
        }
        Ok(Outcome::Done(format!("CREATE VIEW {name}")))
    }

    fn check_replaceable(&self, name: &str) -> Result<()> {
        match self.catalog.readers(name).as_slice() {
            [] => Ok(()),
            [reader] => Err(Error::invalid(format!("view '{name}' cannot be replaced while {reader} reads it"))),
            readers => Err(Error::invalid(format!("view '{name}' cannot be replaced while {} read it", readers.join(", ")))),
        }
    }

    pub fn plan_view(&self, create: &CreateView, text: &str) -> Result<View> {
        let (planned, reads) = self.plan_remembering(&create.query, Purpose::Maintain, &create.options)?;
        let mut names = plans::shown_names(&planned);
        if !create.columns.is_empty() {
            if create.columns.len() != names.len() {
                return Err(Error::invalid(format!(
                    "view '{}' names {} columns and its query gives {} ({})",
                    create.name,
                    create.columns.len(),
                    names.len(),
                    names.join(", ")
                )));
            }
            names.clone_from(&create.columns);
        }
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(Error::invalid(format!("view '{}' has two columns '{}': name one differently with AS", create.name, twice.1)));
        }
        let plan = plans::select(&planned.plan, &planned.show, &names);
        Ok(View {
            name: create.name.clone(),
            materialized: create.materialized,
            schema: plan.row().schema(),
            plan,
            query: create.query.clone(),
            options: create.options.clone(),
            text: text.to_string(),
            reads,
        })
    }

    /// ALTER VIEW name SET (options).
    pub fn alter_view(&mut self, name: &str, options: &[SqlOption]) -> Result<Outcome> {
        self.check_no_transaction("ALTER VIEW")?;
        let view = self.catalog.view(name)?;
        let text = altered_text(&view.text, name, options);
        let options = altered(&view.options, options);
        let (planned, _) = self.plan_remembering(&view.query, Purpose::Maintain, &options)?;
        let names: Vec<String> = view.schema.fields().iter().map(|field| field.name().clone()).collect();
        let (old, new) = (view.plan.clone(), plans::select(&planned.plan, &planned.show, &names));
        let dependents = self.catalog.dependents(name);
        let figures = old.other_figures(&new);
        let is_same = figures.as_ref().is_some_and(HashMap::is_empty);
        match figures {
            Some(figures) => self.alter_figures(name, &dependents, figures)?,
            None if self.catalog.is_running(&dependents) => {
                return Err(Error::invalid(format!(
                    "view '{name}' is running, and ALTER VIEW changes no more of it than the figures of what it forgets already (state_ttl, \
                     state_ttl_max, ttl_refresh): what it remembers for ever or until it is over, and on_expiry, are changed by DROP VIEW and CREATE VIEW"
                )));
            }
            None if dependents.len() > 1 => {
                return Err(Error::invalid(format!(
                    "view '{name}' is read by others, and what it remembers for ever or until it is over, and on_expiry, are part of their plans: drop them first"
                )));
            }
            None => self.catalog.replan(&Member::View(name.to_string()), new),
        }
        if let Some(view) = self.catalog.view_mut(name) {
            view.options = options;
            view.text = text;
        }
        let note = if is_same { " (nothing of what it remembers has changed)" } else { "" };
        Ok(Outcome::Done(format!("ALTER VIEW {name}{note}")))
    }

    /// Has a view and all that read it forget by other figures from now on.
    fn alter_figures(&mut self, name: &str, dependents: &BTreeSet<Member>, mut figures: Figures) -> Result<()> {
        self.alterations += 1;
        figures.values_mut().for_each(|(retention, _)| retention.history = self.alterations);
        let altered = |(member, plan): (Member, &Plan)| {
            let new = plan.with_figures(&figures);
            (new.fingerprint() != plan.fingerprint()).then_some((member, plan.clone(), new))
        };
        let altered: Vec<(Member, Plan, Plan)> = self.catalog.plans().filter_map(altered).collect();
        if let Some((other, ..)) = altered.iter().find(|(member, ..)| !dependents.contains(member)) {
            return Err(Error::invalid(format!(
                "view '{name}' shares what it remembers with {other}, which says the same of the same rows and is not to change with it: \
                 DROP VIEW and CREATE VIEW it with the new figures"
            )));
        }
        let running: Vec<(Plan, Plan)> = altered.iter().map(|(_, old, new)| (old.clone(), new.clone())).collect();
        self.driver.timeline().between(|runtime| runtime.alter(&running, figures))?;
        altered.into_iter().for_each(|(member, _, new)| self.catalog.replan(&member, new));
        Ok(())
    }

    /// DROP TABLE, refused while anything reads or writes it.
    pub fn drop_table(&mut self, name: &str, if_exists: bool) -> Result<Outcome> {
        self.check_no_transaction("DROP TABLE")?;
        let done = Outcome::Done(format!("DROP TABLE {name}"));
        if if_exists && self.catalog.find_table(name).is_none() && self.catalog.find_view(name).is_none() {
            return Ok(done);
        }
        let (id, is_in_memory) = self.catalog.table(name).map(|table| (table.id, table.is_in_memory()))?;
        self.catalog.check_unused("table", name)?;
        if is_in_memory {
            self.driver.timeline().between(|runtime| runtime.drop_table(id))?;
        }
        self.driver.timeline().change_watermarks(|marks| {
            marks.leave(Follower::Table(id));
            marks.forget(name);
        })?;
        self.catalog.remove_table(name);
        Ok(done)
    }

    /// DROP VIEW, refused while anything reads it.
    pub fn drop_view(&mut self, name: &str, if_exists: bool) -> Result<Outcome> {
        self.check_no_transaction("DROP VIEW")?;
        let done = Outcome::Done(format!("DROP VIEW {name}"));
        if if_exists && self.catalog.find_table(name).is_none() && self.catalog.find_view(name).is_none() {
            return Ok(done);
        }
        self.catalog.view(name)?;
        self.catalog.check_unused("view", name)?;
        self.remove(&Member::View(name.to_string()))?;
        Ok(done)
    }
}

/// The statements that make a view, with an ALTER VIEW more: each ends with a semicolon.
fn altered_text(text: &str, view: &str, options: &[SqlOption]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let said: Vec<String> = options.iter().map(|option| format!("{} = {}", quoted(&option.name), quoted(&option.value))).collect();
    let is_plain =
        |name: &str| name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    let view = if is_plain(view) { view.to_owned() } else { format!("`{}`", view.replace('`', "``")) };
    // A comment at the end would swallow it.
    let in_comment = text.lines().last().is_some_and(|line| line.contains("--"));
    let end = if text.ends_with(';') {
        ""
    } else if in_comment {
        "\n;"
    } else {
        ";"
    };
    format!("{text}{end}\nALTER VIEW {view} SET ({});", said.join(", "))
}

/// Whether an option is about what is remembered, and not the connector's.
fn is_of_memory(option: &SqlOption) -> bool {
    OPTIONS.iter().any(|name| name.eq_ignore_ascii_case(&option.name))
}

fn storage(spec: TableSpec) -> Result<Storage> {
    let kind = connector::check(&spec)?;
    if kind.changelog_table {
        let log = Log::new(&spec.name, &spec.schema)?;
        return Ok(Storage::Changelog { spec, log: Arc::new(log) });
    }
    Ok(Storage::Connector { spec, kind })
}
