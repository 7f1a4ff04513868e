//! EXPLAIN: what would be built, without building it.

use super::session::Session;
use super::show::{batch, texts};
use super::{Outcome, plans};
use crate::error::Result;
use crate::plan::{Format, Node, Plan, explain};
use crate::sql::planner::Purpose;
use crate::sql::statement::{ExplainTarget, Insert, Parsed, Query, Statement};

/// A plan of a script, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What it is the plan of: `view v`, `job sink`, or a query's text.
    pub of: String,
    /// The plan in the format that was asked for.
    pub plan: String,
}

impl Session {
    /// EXPLAIN: one row a line of the plan. Its arrangements are always in it, so EXPLAIN (STATE) is the same.
    pub fn explain(&mut self, target: &ExplainTarget) -> Result<Outcome> {
        let text = explain(&self.target(target)?, Format::Text);
        Ok(Outcome::Rows(batch([("plan", texts(text.lines().map(str::to_string)))])?))
    }

    /// The plans of a script's statement. What defines something is done, since later statements name it; nothing
    /// flows and no row changes.
    pub fn explain_statement(&mut self, parsed: &Parsed, format: Format) -> Result<Vec<Explained>> {
        self.prepare()?;
        let mut explained = Vec::new();
        let mut add = |of: String, plan: &Plan| explained.push(Explained { of, plan: explain(plan, format) });
        match &parsed.statement {
            Statement::CreateTable(create) => drop(self.create_table(create, &parsed.text)?),
            Statement::Set { name, value } => drop(self.set(name, value)?),
            Statement::Reset(name) => drop(self.reset(name.as_deref())?),
            Statement::AlterView { name, options } => drop(self.alter_view(name, options)?),
            Statement::CreateView(create) => {
                self.create_view(create, &parsed.text)?;
                add(format!("view {}", create.name), &self.catalog.view(&create.name)?.plan);
            }
            Statement::Insert(insert) => {
                let plan = self.insert_plan(insert)?;
                // INSERT ... VALUES has no plan that would tell anything.
                if !(self.catalog.table(&insert.table)?.is_in_memory() && is_given(&plan)) {
                    add(format!("insert into {}", insert.table), &plan);
                }
            }
            Statement::StatementSet(inserts) => {
                for insert in inserts {
                    add(format!("insert into {}", insert.table), &self.insert_plan(insert)?);
                }
            }
            Statement::Query(query) => add(parsed.text.clone(), &self.query_plan(query)?),
            Statement::Subscribe(query) => add(parsed.text.clone(), &plans::shown(&self.plan(query, Purpose::Maintain)?.0)),
            Statement::Explain { what, .. } => add(parsed.text.clone(), &self.target(what)?),
            Statement::Drop { .. }
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Begin
            | Statement::Commit
            | Statement::Rollback
            | Statement::Show(_)
            | Statement::AdvanceTo(_)
            | Statement::AdvanceBy(_) => {}
        }
        Ok(explained)
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

/// Whether a plan's rows stand in the statement.
fn is_given(plan: &Plan) -> bool {
    match plan.node() {
        Node::Constant { .. } => true,
        Node::Linear { input, .. } => is_given(input),
        _ => false,
    }
}
