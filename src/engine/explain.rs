//! EXPLAIN: what would be built, without building it.

use std::fmt;

use arrow::array::RecordBatch;

use super::session::Session;
use super::show::{batch, batch_of, texts, texts_or_null};
use super::{Outcome, plans};
use crate::error::Result;
use crate::plan::{Arrangement, Bound, Format, Node, Plan, Retention, State, explain, names};
use crate::sql::duration::format_duration;
use crate::sql::planner::Purpose;
use crate::sql::statement::{ExplainTarget, Insert, Parsed, Query, Statement};

/// A plan of a script, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What it is the plan of: `view v`, `insert into sink`, or a statement's text.
    pub of: String,
    /// The plan in the format that was asked for.
    pub plan: String,
}

/// What a plan of a script is made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeBy {
    /// CREATE VIEW of that name.
    View(String),
    /// An INSERT into that table or sink.
    Insert(String),
    /// Any other statement, by its text.
    Statement(String),
}

/// A plan that a script's statement makes.
pub(super) struct Made {
    pub by: MadeBy,
    pub plan: Plan,
    /// Whether it is kept up to date, by itself or in what reads it, rather than answered once.
    pub is_maintained: bool,
}

impl Session {
    /// EXPLAIN: one row a line of the plan; or, of its STATE, one row for each thing that a view or job of that plan keeps.
    pub fn explain(&mut self, target: &ExplainTarget, state: bool) -> Result<Outcome> {
        let plan = match target {
            ExplainTarget::Query(query) if state => self.plan(query, Purpose::Maintain)?.0.plan,
            target => self.target(target)?,
        };
        if state {
            return Ok(Outcome::Rows(state_rows(&plan.state())?));
        }
        let text = self.explained(&plan, Format::Text);
        Ok(Outcome::Rows(batch([("plan", texts(text.lines().map(str::to_string)))])?))
    }

    /// The plans of a script's statement, for people: see [`Session::plans_of`].
    pub fn explain_statement(&mut self, parsed: &Parsed, format: Format) -> Result<Vec<Explained>> {
        let made = self.plans_of(parsed)?;
        let explained = |made: Made| Explained { of: made.by.to_string(), plan: self.explained(&made.plan, format) };
        Ok(made.into_iter().map(explained).collect())
    }

    /// A plan for people; below a tree, how the rows of its tables find their place in time.
    fn explained(&self, plan: &Plan, format: Format) -> String {
        let mut text = explain(plan, format);
        if format == Format::Text {
            let tables = plans::gets([plan]).into_iter().filter_map(|id| self.catalog.relation(id));
            for (table, event) in tables.filter_map(|table| Some((table, table.event_time.as_ref()?))) {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                text.push_str(&format!("{end}{}: {}\n", table.name, event.describe()));
            }
        }
        text
    }

    /// The plans of a script's statement. What defines something is done, since later statements name it; nothing
    /// flows and no row changes.
    pub fn plans_of(&mut self, parsed: &Parsed) -> Result<Vec<Made>> {
        self.prepare()?;
        let once = |by: MadeBy, plan: Plan| vec![Made { by, plan, is_maintained: false }];
        let maintained = |by: MadeBy, plan: Plan| Made { by, plan, is_maintained: true };
        let text = || MadeBy::Statement(parsed.text.clone());
        Ok(match &parsed.statement {
            Statement::CreateTable(create) => self.create_table(create, &parsed.text).map(|_| vec![])?,
            Statement::Set { name, value } => self.set(name, value).map(|_| vec![])?,
            Statement::Reset(name) => self.reset(name.as_deref()).map(|_| vec![])?,
            Statement::AlterView { name, options } => {
                self.alter_view(name, options)?;
                vec![maintained(MadeBy::View(name.clone()), self.catalog.view(name)?.plan.clone())]
            }
            Statement::CreateView(create) => {
                self.create_view(create, &parsed.text)?;
                vec![maintained(MadeBy::View(create.name.clone()), self.catalog.view(&create.name)?.plan.clone())]
            }
            Statement::Insert(insert) if self.catalog.table(&insert.table)?.is_in_memory() => {
                let plan = self.insert_plan(insert)?;
                // INSERT ... VALUES has no plan that would tell anything.
                if is_given(&plan) { vec![] } else { once(MadeBy::Insert(insert.table.clone()), plan) }
            }
            Statement::Insert(insert) => vec![maintained(MadeBy::Insert(insert.table.clone()), self.insert_plan(insert)?)],
            Statement::StatementSet(inserts) => {
                let made = |insert: &Insert| Ok(maintained(MadeBy::Insert(insert.table.clone()), self.insert_plan(insert)?));
                inserts.iter().map(made).collect::<Result<_>>()?
            }
            Statement::Subscribe(query) => {
                vec![maintained(text(), plans::shown(&self.plan(query, Purpose::Maintain)?.0))]
            }
            Statement::Query(query) => once(text(), self.query_plan(query)?),
            Statement::Explain { what, .. } => once(text(), self.target(what)?),
            Statement::Drop { .. }
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Begin
            | Statement::Commit
            | Statement::Rollback
            | Statement::Show(_)
            | Statement::AdvanceTo(_)
            | Statement::AdvanceBy(_)
            | Statement::Checkpoint => vec![],
        })
    }

    fn target(&self, target: &ExplainTarget) -> Result<Plan> {
        match target {
            ExplainTarget::Query(query) => self.query_plan(query),
            ExplainTarget::Insert(insert) => self.insert_plan(insert),
            ExplainTarget::View(name) => Ok(self.catalog.view(name)?.plan.clone()),
        }
    }

    fn query_plan(&self, query: &Query) -> Result<Plan> {
        Ok(self.plan(query, self.once())?.0.plan)
    }

    fn insert_plan(&self, insert: &Insert) -> Result<Plan> {
        match self.catalog.table(&insert.table)?.is_in_memory() {
            true => self.query_plan(&insert.query),
            false => Ok(self.plan_insert(insert)?.0),
        }
    }
}

impl fmt::Display for MadeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadeBy::View(name) => write!(f, "view {name}"),
            MadeBy::Insert(table) => write!(f, "insert into {table}"),
            MadeBy::Statement(text) => f.write_str(text),
        }
    }
}

/// The rows of EXPLAIN (STATE).
fn state_rows(state: &[State<'_>]) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&State<'_>) -> String| texts(state.iter().map(of));
    let text_or_null = |of: &dyn Fn(&Arrangement) -> Option<String>| {
        texts_or_null(state.iter().map(|state| match state {
            State::Arrangement { arrangement, .. } => of(arrangement),
            State::Answers { .. } | State::Waiting { .. } => None,
        }))
    };
    let of_ttl = |of: fn(&Retention) -> Option<String>| {
        move |arrangement: &Arrangement| arrangement.retention.as_ref().filter(|retention| retention.ttl.is_some()).and_then(of)
    };
    batch_of([
        (
            "operator",
            false,
            text(&|state| match state {
                State::Arrangement { operator, .. } | State::Waiting { operator, .. } => operator.to_string(),
                State::Answers { operator, .. } => format!("{operator} (kept answers)"),
            }),
        ),
        ("input", true, text_or_null(&|arrangement| arrangement.name.clone())),
        (
            "key",
            false,
            text(&|state| match state {
                State::Arrangement { arrangement, .. } => arrangement.key_names(),
                State::Answers { key, .. } => names(key),
                State::Waiting { waiting, .. } => names(waiting.times),
            }),
        ),
        ("scope", true, text_or_null(&|a| a.retention.filter(|r| r.ttl.is_some() || r.closes.is_some()).map(|r| r.scope.to_string()))),
        ("ttl", true, text_or_null(&of_ttl(|retention| retention.ttl.map(format_duration)))),
        ("ttl_max", true, text_or_null(&of_ttl(|retention| retention.ttl_max.map(format_duration)))),
        ("on_expiry", true, text_or_null(&|a| a.forgets().then(|| a.memory.policy.to_string()))),
        ("ttl_refresh", true, text_or_null(&of_ttl(|retention| Some(retention.refresh.to_string())))),
        ("origin", true, text_or_null(&|a| (!matches!(a.bound(), Bound::Input | Bound::Filter)).then(|| a.memory.origin.to_string()))),
        (
            "bound",
            false,
            text(&|state| match state {
                State::Arrangement { arrangement, .. } => arrangement.bound().to_string(),
                State::Answers { .. } => "unbounded because on_expiry is 'keep': an answer a key stays".to_owned(),
                State::Waiting { waiting, .. } => waiting.bound().to_string(),
            }),
        ),
    ])
}

/// Whether a plan's rows stand in the statement.
fn is_given(plan: &Plan) -> bool {
    match plan.node() {
        Node::Constant { .. } => true,
        Node::Linear { input, .. } => is_given(input),
        _ => false,
    }
}
