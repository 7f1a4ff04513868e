//! What there is: tables, views, jobs, subscriptions, and who reads whom.
//!
//! Names come in the catalog's case. A relation's identity is never used twice, so that a table which is dropped
//! and made again is another one to every plan. What is defined and has to be kept up to date (a materialized view,
//! a job) is *pending* until the session installs it together with whatever else is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::gate::{Gate, Keeper};
use super::plans;
use super::runtime::{DataflowId, Input};
use super::table::Table;
use crate::error::{Error, Result};
use crate::plan::{Plan, RelationId};
use crate::sql::statement::{Query, SqlOption};

/// The system table of all arrangements.
pub(super) const ARRANGEMENTS: &str = "weir_arrangements";

/// The system table of the tables that have a watermark.
pub(super) const WATERMARKS: &str = "weir_watermarks";

/// All system tables.
const SYSTEM_TABLES: [&str; 2] = [ARRANGEMENTS, WATERMARKS];

/// See the module.
#[derive(Default)]
pub(super) struct Catalog {
    next_relation: u64,
    next_subscription: u64,
    tables: BTreeMap<String, Arc<Table>>,
    /// By the name of the table whose versions they have.
    histories: BTreeMap<String, Arc<Table>>,
    views: BTreeMap<String, View>,
    jobs: BTreeMap<String, Job>,
    subscriptions: BTreeMap<u64, Watch>,
    pending: Vec<Member>,
    dataflows: BTreeMap<DataflowId, BTreeSet<Member>>,
}

/// A view: a name for a plan.
pub(super) struct View {
    pub name: String,
    pub materialized: bool,
    pub schema: SchemaRef,
    pub plan: Plan,
    /// What it was planned from, for planning it again over a transaction's own writes.
    pub query: Query,
    pub options: Vec<SqlOption>,
    pub text: String,
    pub reads: BTreeSet<String>,
}

/// A continuous INSERT into a sink.
pub(super) struct Job {
    pub name: String,
    pub sink: String,
    pub plan: Plan,
    pub text: String,
    pub reads: BTreeSet<String>,
    pub keeper: Keeper,
    /// Until it is installed.
    pub gate: Option<Gate>,
}

/// A subscription, as far as the catalog cares.
struct Watch {
    reads: BTreeSet<String>,
    closed: Arc<AtomicBool>,
}

/// What a dataflow is kept for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Member {
    View(String),
    Job(String),
    Subscription(u64),
}

impl Member {
    /// The name under which the runtime exports it.
    pub fn export(&self) -> Option<&str> {
        match self {
            Member::View(name) | Member::Job(name) => Some(name),
            Member::Subscription(_) => None,
        }
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Member::View(name) => write!(f, "view '{name}'"),
            Member::Job(name) => write!(f, "job '{name}'"),
            Member::Subscription(_) => f.write_str("a subscription"),
        }
    }
}

impl Catalog {
    /// An identity that nothing has had.
    pub fn new_relation(&mut self) -> RelationId {
        self.next_relation += 1;
        RelationId(self.next_relation)
    }

    /// The number of the last identity.
    pub fn next_relation(&self) -> u64 {
        self.next_relation
    }

    /// Numbers the identities to come from another number on.
    pub fn number_next(&mut self, relation: u64) {
        self.next_relation = relation;
    }

    /// An error if a table or view has the name, or the system does.
    pub fn check_free(&self, name: &str) -> Result<()> {
        let kind = if self.views.contains_key(name) {
            "view"
        } else if self.tables.contains_key(name) {
            "table"
        } else if SYSTEM_TABLES.contains(&name) {
            "system table"
        } else {
            return Ok(());
        };
        Err(Error::Exists { kind, name: name.into() })
    }

    /// All names that stand in FROM.
    pub fn names(&self) -> Vec<String> {
        self.tables.keys().chain(self.views.keys()).cloned().chain(SYSTEM_TABLES.map(str::to_string)).collect()
    }

    /// A name that comes from Rust, as the catalog has it: as given, or in lower case as SQL would read it.
    pub fn spelt(&self, name: &str) -> String {
        match self.tables.contains_key(name) || self.views.contains_key(name) {
            true => name.to_string(),
            false => name.to_lowercase(),
        }
    }

    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    pub fn views(&self) -> impl Iterator<Item = &View> {
        self.views.values()
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    pub fn find_table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    pub fn find_view(&self, name: &str) -> Option<&View> {
        self.views.get(name)
    }

    /// The table of that name, or an error that says what else it is or what there is.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        match self.tables.get(name) {
            Some(table) => Ok(table),
            None if self.views.contains_key(name) => Err(Error::invalid(format!("'{name}' is a view, not a table"))),
            None if SYSTEM_TABLES.contains(&name) => Err(Error::invalid(format!("'{name}' is a system table: it can only be read"))),
            None => Err(Error::unknown("table", name, self.tables.keys())),
        }
    }

    /// The view of that name, likewise.
    pub fn view(&self, name: &str) -> Result<&View> {
        match self.views.get(name) {
            Some(view) => Ok(view),
            None if self.tables.contains_key(name) => Err(Error::invalid(format!("'{name}' is a table, not a view"))),
            None => Err(Error::unknown("view", name, self.views.keys())),
        }
    }

    /// The job of that name.
    pub fn job(&self, name: &str) -> Result<&Job> {
        self.jobs.get(name).ok_or_else(|| Error::unknown("job", name, self.jobs.keys()))
    }

    /// The views and jobs that read a view, themselves or through others, and the view itself.
    pub fn dependents(&self, view: &str) -> BTreeSet<Member> {
        let mut found = BTreeSet::from([Member::View(view.to_string())]);
        let mut open = vec![view.to_string()];
        while let Some(name) = open.pop() {
            for reader in self.views.values().filter(|reader| reader.reads.contains(&name)) {
                if found.insert(Member::View(reader.name.clone())) {
                    open.push(reader.name.clone());
                }
            }
            found.extend(self.jobs.values().filter(|job| job.reads.contains(&name)).map(|job| Member::Job(job.name.clone())));
        }
        found
    }

    /// Whether any of these is at work.
    pub fn is_running(&self, members: &BTreeSet<Member>) -> bool {
        members.iter().any(|member| self.dataflow(member).is_some())
    }

    /// All views and jobs with their plans.
    pub fn plans(&self) -> impl Iterator<Item = (Member, &Plan)> {
        let views = self.views.values().map(|view| (Member::View(view.name.clone()), &view.plan));
        views.chain(self.jobs.values().map(|job| (Member::Job(job.name.clone()), &job.plan)))
    }

    /// Gives a view or a job another plan.
    pub fn replan(&mut self, member: &Member, plan: Plan) {
        let place = match member {
            Member::View(name) => self.views.get_mut(name).map(|view| &mut view.plan),
            Member::Job(name) => self.jobs.get_mut(name).map(|job| &mut job.plan),
            Member::Subscription(_) => None,
        };
        if let Some(place) = place {
            *place = plan;
        }
    }

    pub fn view_mut(&mut self, name: &str) -> Option<&mut View> {
        self.views.get_mut(name)
    }

    /// The table of that identity.
    pub fn relation(&self, id: RelationId) -> Option<&Arc<Table>> {
        self.tables.values().chain(self.histories.values()).find(|table| table.id == id)
    }

    /// What the plans get, for a dataflow.
    pub fn inputs<'a>(&self, plans: impl IntoIterator<Item = &'a Plan>) -> Result<Vec<Input>> {
        let table =
            |id| self.relation(id).ok_or_else(|| Error::invalid(format!("relation {} was dropped while a plan still reads it", id.0)));
        plans::gets(plans).into_iter().map(|id| Ok(table(id)?.input())).collect()
    }

    /// Adds a table and, where it keeps the last of them only, the one of all its versions.
    pub fn add_table(&mut self, table: Table, history: Option<Table>) {
        self.histories.extend(history.map(|history| (table.name.clone(), Arc::new(history))));
        self.tables.insert(table.name.clone(), Arc::new(table));
    }

    /// The table of all versions of a table's rows.
    pub fn history(&self, table: &str) -> Option<&Table> {
        self.histories.get(table).map(Arc::as_ref)
    }

    /// Adds a view, to be installed if it is materialized.
    pub fn add_view(&mut self, view: View) {
        if view.materialized {
            self.pending.push(Member::View(view.name.clone()));
        }
        self.views.insert(view.name.clone(), view);
    }

    /// Has a view installed that is not materialized.
    pub fn install_later(&mut self, view: &str) {
        let member = Member::View(view.to_string());
        if !self.pending.contains(&member) {
            self.pending.push(member);
        }
    }

    /// Adds a job, to be installed.
    pub fn add_job(&mut self, job: Job) {
        self.pending.push(Member::Job(job.name.clone()));
        self.jobs.insert(job.name.clone(), job);
    }

    /// The name for another job into a sink: the sink's, then `sink#2`, `sink#3`.
    pub fn job_name(&self, sink: &str) -> String {
        let numbered = (2..).map(|n| format!("{sink}#{n}"));
        let mut names = std::iter::once(sink.to_string()).chain(numbered);
        names.find(|name| !self.jobs.contains_key(name)).unwrap_or_else(|| sink.to_string())
    }

    /// Adds a subscription, which is reaped after `closed` is set.
    pub fn add_subscription(&mut self, reads: BTreeSet<String>, closed: Arc<AtomicBool>) -> Member {
        self.next_subscription += 1;
        self.subscriptions.insert(self.next_subscription, Watch { reads, closed });
        Member::Subscription(self.next_subscription)
    }

    /// The subscriptions whose holders have let go of them.
    pub fn closed_subscriptions(&self) -> Vec<Member> {
        let closed = self.subscriptions.iter().filter(|(_, watch)| watch.closed.load(Ordering::Relaxed));
        closed.map(|(number, _)| Member::Subscription(*number)).collect()
    }

    /// What reads a table or view, directly.
    pub fn readers(&self, name: &str) -> Vec<String> {
        let views = self.views.values().filter(|view| view.reads.contains(name)).map(|view| Member::View(view.name.clone()));
        let jobs = self.jobs.values().filter(|job| job.reads.contains(name)).map(|job| Member::Job(job.name.clone()));
        let open = self.subscriptions.iter().filter(|(_, watch)| watch.reads.contains(name) && !watch.closed.load(Ordering::Relaxed));
        let subscriptions = open.map(|(number, _)| Member::Subscription(*number));
        views.chain(jobs).chain(subscriptions).map(|member| member.to_string()).collect()
    }

    /// An error that names who reads or writes a table or view, if anything does.
    pub fn check_unused(&self, kind: &'static str, name: &str) -> Result<()> {
        let readers = self.readers(name);
        if !readers.is_empty() {
            return Err(Error::InUse { kind, name: name.into(), readers });
        }
        match self.jobs.values().find(|job| job.sink == name) {
            Some(job) => Err(Error::invalid(format!("{kind} '{name}' cannot be dropped: job '{}' writes it; DROP JOB first", job.name))),
            None => Ok(()),
        }
    }

    pub fn remove_table(&mut self, name: &str) -> Option<Arc<Table>> {
        self.histories.remove(name);
        self.tables.remove(name)
    }

    /// Removes a view, job or subscription, and returns the dataflow that nothing else is kept for any longer.
    pub fn remove(&mut self, member: &Member) -> (Option<Job>, Option<DataflowId>) {
        let mut removed = None;
        match member {
            Member::View(name) => drop(self.views.remove(name)),
            Member::Job(name) => removed = self.jobs.remove(name),
            Member::Subscription(number) => drop(self.subscriptions.remove(number)),
        }
        self.pending.retain(|pending| pending != member);
        let dataflow = self.dataflows.iter_mut().find_map(|(id, members)| members.remove(member).then_some(*id));
        let freed = dataflow.filter(|id| self.dataflows.get(id).is_some_and(BTreeSet::is_empty));
        if let Some(id) = freed {
            self.dataflows.remove(&id);
        }
        (removed, freed)
    }

    /// Takes these of what is to be installed.
    pub fn take(&mut self, members: &[Member]) {
        self.pending.retain(|pending| !members.contains(pending));
    }

    /// Takes what is to be installed, in the order in which it was defined.
    pub fn take_pending(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.pending)
    }

    /// Takes the sink's end of a job that is being installed.
    pub fn take_gate(&mut self, job: &str) -> Option<Gate> {
        self.jobs.get_mut(job)?.gate.take()
    }

    /// Records what a dataflow was installed for.
    pub fn installed(&mut self, dataflow: DataflowId, members: impl IntoIterator<Item = Member>) {
        self.dataflows.entry(dataflow).or_default().extend(members);
    }

    /// The dataflow that a member is part of, once it is installed.
    pub fn dataflow(&self, member: &Member) -> Option<DataflowId> {
        self.dataflows.iter().find(|(_, members)| members.contains(member)).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use arrow::datatypes::Schema;
    use sqlparser::{dialect::GenericDialect, parser::Parser};

    fn query() -> Query {
        let mut parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1").unwrap();
        let sqlparser::ast::Statement::Query(ast) = parsed.remove(0) else { panic!("not a query") };
        Query { ast, hints: vec![], emit_on_window_close: false }
    }

    fn view(name: &str, reads: &[&str], materialized: bool) -> View {
        View {
            name: name.into(),
            materialized,
            schema: Arc::new(Schema::empty()),
            plan: ints(1, &["a"], &[]).get(),
            query: query(),
            options: vec![],
            text: String::new(),
            reads: reads.iter().map(|r| r.to_string()).collect(),
        }
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        catalog.add_table(ints(1, &["a"], &[]), None);
        catalog
    }

    #[test]
    fn a_table_that_a_view_or_subscription_reads_is_in_use_until_they_are_gone() {
        let mut catalog = catalog();
        catalog.add_view(view("v", &["t"], false));
        let closed = Arc::new(AtomicBool::new(false));
        catalog.add_subscription(BTreeSet::from(["t".to_string()]), closed.clone());
        let error = catalog.check_unused("table", "t").unwrap_err().to_string();
        assert_eq!(error, "table 't' cannot be dropped: view 'v', a subscription read it");
        closed.store(true, Ordering::Relaxed);
        catalog.remove(&Member::View("v".into()));
        assert_eq!(catalog.check_unused("table", "t"), Ok(()));
    }

    #[test]
    fn a_dataflow_is_freed_with_the_last_that_it_was_installed_for() {
        let mut catalog = catalog();
        for name in ["v", "w"] {
            catalog.add_view(view(name, &["t"], true));
        }
        let members = catalog.take_pending();
        assert_eq!(members, [Member::View("v".into()), Member::View("w".into())]);
        catalog.installed(DataflowId(7), members);
        assert_eq!(catalog.remove(&Member::View("v".into())).1, None);
        assert_eq!(catalog.remove(&Member::View("w".into())).1, Some(DataflowId(7)));
    }

    #[test]
    fn a_view_that_is_dropped_before_anything_flows_is_never_installed() {
        let mut catalog = catalog();
        catalog.add_view(view("v", &["t"], true));
        catalog.remove(&Member::View("v".into()));
        assert!(catalog.take_pending().is_empty());
    }

    #[test]
    fn a_name_is_taken_by_tables_views_and_the_system_alike() {
        let mut catalog = catalog();
        catalog.add_view(view("v", &[], false));
        for name in ["t", "v", ARRANGEMENTS] {
            assert!(matches!(catalog.check_free(name), Err(Error::Exists { .. })), "{name}");
        }
        assert_eq!(catalog.check_free("u"), Ok(()));
        assert_eq!(catalog.view("t").err().unwrap().to_string(), "'t' is a table, not a view");
        assert_eq!(catalog.table("v").err().unwrap().to_string(), "'v' is a view, not a table");
    }

    #[test]
    fn identities_are_not_used_again() {
        let mut catalog = catalog();
        let first = catalog.new_relation();
        catalog.remove_table("t");
        assert_ne!(first, catalog.new_relation());
    }
}
