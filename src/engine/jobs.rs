//! INSERT INTO a sink: a continuous job.

use datafusion_common::ScalarValue;

use super::Outcome;
use super::catalog::{Job, Member};
use super::changelog::LogWriter;
use super::gate::{Gate, Keeper};
use super::plans;
use super::session::Session;
use super::show::sql_type;
use super::table::{Storage, Table};
use crate::connector::{self, Sink};
use crate::error::{Error, Result};
use crate::eval::cast_to;
use crate::plan::{Column, Plan, RelationId, Scalar};
use crate::sql::planner::{Planned, Purpose};
use crate::sql::statement::Insert;

impl Session {
    /// INSERT: rows into a table in memory, or a job into a sink.
    pub fn insert(&mut self, insert: &Insert) -> Result<Outcome> {
        if self.catalog.table(&insert.table)?.is_in_memory() {
            return self.insert_rows(insert);
        }
        self.check_no_transaction("INSERT INTO a sink")?;
        let planned = self.plan_job(insert)?;
        self.check_keeps_inputs(std::slice::from_ref(&planned))?;
        let sink = self.open(&planned)?;
        Ok(Outcome::Done(self.add_job(planned, sink)))
    }

    /// EXECUTE STATEMENT SET: all of its jobs, or none if one cannot be planned or its sink cannot be opened.
    pub fn statement_set(&mut self, inserts: &[Insert]) -> Result<Outcome> {
        self.check_no_transaction("EXECUTE STATEMENT SET")?;
        let jobs = inserts.iter().map(|insert| self.plan_job(insert)).collect::<Result<Vec<_>>>()?;
        self.check_keeps_inputs(&jobs)?;
        let sinks = jobs.iter().map(|job| self.open(job)).collect::<Result<Vec<_>>>()?;
        let names: Vec<String> = jobs.into_iter().zip(sinks).map(|(job, sink)| self.add_job(job, sink)).collect();
        Ok(Outcome::Done(names.join(", ")))
    }

    /// DROP JOB: its sink is flushed and closed.
    pub fn drop_job(&mut self, name: &str, if_exists: bool) -> Result<Outcome> {
        self.check_no_transaction("DROP JOB")?;
        let done = Outcome::Done(format!("DROP JOB {name}"));
        if if_exists && self.catalog.jobs().all(|job| job.name != name) {
            return Ok(done);
        }
        self.catalog.job(name)?;
        self.driver.timeline().settle()?;
        self.remove(&Member::Job(name.to_string()))?;
        Ok(done)
    }

    /// The plan that an INSERT writes to its sink: the query's rows as the sink's declared columns.
    pub fn plan_insert(&self, insert: &Insert) -> Result<(Plan, std::collections::BTreeSet<String>)> {
        let table = self.catalog.table(&insert.table)?;
        let (planned, reads) = self.plan(&insert.query, Purpose::Maintain)?;
        Ok((written(table, &insert.columns, &planned)?, reads))
    }

    fn plan_job(&self, insert: &Insert) -> Result<PlannedJob> {
        let table = self.catalog.table(&insert.table)?;
        match &table.storage {
            Storage::Memory => return Err(Error::invalid(format!("table '{}' is in memory: a STATEMENT SET is for sinks", table.name))),
            Storage::Connector { kind, .. } if !kind.sink => {
                return Err(Error::invalid(format!("table '{}' is a source: its connector reads rows and writes none", table.name)));
            }
            Storage::Connector { .. } | Storage::Changelog { .. } => {}
        }
        let (plan, reads) = self.plan_insert(insert)?;
        let text = match insert.columns.as_slice() {
            [] => format!("INSERT INTO {} {}", insert.table, insert.query.ast),
            columns => format!("INSERT INTO {} ({}) {}", insert.table, columns.join(", "), insert.query.ast),
        };
        Ok(PlannedJob { sink: insert.table.clone(), plan, reads, text })
    }

    /// An error if a new job's sink would truncate a file that a view or a job, there or new, reads, or that was read in
    /// this session.
    fn check_keeps_inputs(&self, new: &[PlannedJob]) -> Result<()> {
        let gets = |plan: &Plan| plans::gets([plan]);
        let news = new.iter().map(|job| (format!("INSERT INTO {}", job.sink), gets(&job.plan)));
        let jobs = self.catalog.jobs().map(|job| (format!("job '{}'", job.name), gets(&job.plan)));
        let views = self.catalog.views().map(|view| (format!("view '{}'", view.name), gets(&view.plan)));
        let session = std::iter::once(("a SELECT of this session".to_string(), self.driver.were_read()));
        let readers: Vec<(String, Vec<RelationId>)> = news.chain(jobs).chain(views).chain(session).collect();
        for job in new {
            let Some(sink) = self.catalog.table(&job.sink)?.spec() else { continue };
            for (reader, read) in &readers {
                let read = read.iter().filter_map(|id| self.catalog.relation(*id));
                for (source, spec) in read.filter_map(|table| Some((&table.name, table.spec()?))) {
                    if connector::overwrites(sink, spec)? {
                        return Err(Error::invalid(format!(
                            "table '{}' would overwrite the file that table '{source}' reads, for {reader}: write to another file",
                            job.sink
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens the sink of a job that is about to be added, anew or at a length that it was committed at.
    fn open(&self, planned: &PlannedJob) -> Result<(Gate, Keeper)> {
        let table = self.catalog.table(&planned.sink)?;
        // A job that an earlier run has had goes on where that left it; one that it has dropped writes nowhere.
        let left = self.restoring.as_ref().map(|restoring| restoring.sink(&self.catalog.job_name(&planned.sink)));
        let at = left.flatten().flatten();
        let writer: Box<dyn Sink> = match &table.storage {
            Storage::Connector { .. } if left == Some(None) => connector::nowhere(),
            Storage::Changelog { log, .. } => Box::new(LogWriter(log.clone())),
            Storage::Connector { .. } if self.audit.is_some() => connector::nowhere(),
            Storage::Connector { spec, .. } => connector::open_sink(spec, self.output.clone(), at)?,
            Storage::Memory => return Err(Error::invalid(format!("table '{}' is in memory and takes no jobs", table.name))),
        };
        Ok(Gate::new(&table.name, table.physical().clone(), writer, self.driver.counters.rows_out.clone()))
    }

    /// Adds a job, and says so.
    fn add_job(&mut self, planned: PlannedJob, (gate, keeper): (Gate, Keeper)) -> String {
        let PlannedJob { sink, plan, reads, text } = planned;
        let name = self.catalog.job_name(&sink);
        self.catalog.add_job(Job { name: name.clone(), sink, plan, text, reads, keeper, gate: Some(gate) });
        self.count_jobs();
        format!("job {name}")
    }
}

/// A job whose sink has not been opened.
struct PlannedJob {
    sink: String,
    plan: Plan,
    reads: std::collections::BTreeSet<String>,
    text: String,
}

/// The query's columns as those of a table: cast where the types differ, NULL where a column is not given.
fn written(table: &Table, columns: &[String], planned: &Planned) -> Result<Plan> {
    let targets = table.targets(columns)?;
    check_count(table, &targets, planned)?;
    let row = planned.plan.row();
    let schema = row.schema();
    let mut is_same = planned.show.len() == row.len();
    let mut projected: Vec<(Scalar, Column)> = Vec::new();
    for (position, field) in table.physical().fields().iter().enumerate() {
        let (value, nullable) = match targets.iter().position(|target| *target == position) {
            None if !field.is_nullable() => {
                return Err(Error::invalid(format!(
                    "column '{}' of table '{}' is NOT NULL and is given no value",
                    field.name(),
                    table.name
                )));
            }
            None => (plans::literal(ScalarValue::try_new_null(field.data_type())?), true),
            Some(given) => {
                let from = &row.columns[planned.show[given]];
                let value = plans::column(row, planned.show[given]);
                if from.data_type == *field.data_type() {
                    is_same &= planned.show[given] == position;
                    (value, from.nullable)
                } else {
                    is_same = false;
                    (cast_to(value, &schema, field.data_type().clone()).map_err(|_| uncastable(table, field, from))?, true)
                }
            }
        };
        is_same &= targets.contains(&position);
        projected.push((value, Column::new(field.name(), field.data_type().clone(), nullable)));
    }
    // The gate names the columns, so that a second identical job is the same plan.
    Ok(if is_same { planned.plan.clone() } else { plans::project(&planned.plan, projected) })
}

fn uncastable(table: &Table, field: &arrow::datatypes::Field, from: &Column) -> Error {
    let (to, given) = (sql_type(field.data_type()), sql_type(&from.data_type));
    Error::invalid(format!(
        "column '{}' of table '{}' is {to}, which the query's column '{}' ({given}) cannot be cast to",
        field.name(),
        table.name,
        from.name
    ))
}

/// An error that names the columns if an INSERT's query has another number of them.
pub(super) fn check_count(table: &Table, targets: &[usize], planned: &Planned) -> Result<()> {
    if planned.show.len() == targets.len() {
        return Ok(());
    }
    let names: Vec<&str> = targets.iter().map(|target| table.physical().field(*target).name().as_str()).collect();
    Err(Error::invalid(format!(
        "INSERT INTO {} takes {} column{} ({}) and the query gives {}",
        table.name,
        names.len(),
        if names.len() == 1 { "" } else { "s" },
        names.join(", "),
        planned.show.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use crate::plan::Node;

    fn query(names: &[&str], show: &[usize]) -> Planned {
        Planned { plan: ints(9, names, &[]).get(), order: vec![], show: show.to_vec(), asks_time: false }
    }

    #[test]
    fn a_query_that_gives_just_the_sinks_columns_is_written_as_it_is() {
        let planned = query(&["x", "y"], &[0, 1]);
        let plan = written(&ints(1, &["a", "b"], &[]), &[], &planned).unwrap();
        assert_eq!(plan.fingerprint(), planned.plan.fingerprint());
    }

    #[test]
    fn columns_go_where_they_are_named_and_the_rest_is_null() {
        let plan = written(&ints(1, &["a", "b"], &[]), &["b".into()], &query(&["x"], &[0])).unwrap();
        assert!(matches!(plan.node(), Node::Linear { .. }));
        let names: Vec<&str> = plan.row().columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let swapped = written(&ints(1, &["a", "b"], &[]), &["b".into(), "a".into()], &query(&["x", "y"], &[0, 1])).unwrap();
        assert!(matches!(swapped.node(), Node::Linear { .. }));
    }

    #[test]
    fn a_wrong_number_of_columns_and_a_missing_not_null_are_refused_by_name() {
        let error = written(&ints(1, &["a", "b"], &[]), &[], &query(&["x"], &[0])).unwrap_err().to_string();
        assert_eq!(error, "INSERT INTO t takes 2 columns (a, b) and the query gives 1");
        let error = written(&ints(1, &["a", "b"], &[0]), &["b".into()], &query(&["x"], &[0])).unwrap_err().to_string();
        assert!(error.contains("column 'a' of table 't' is NOT NULL"), "{error}");
    }
}
