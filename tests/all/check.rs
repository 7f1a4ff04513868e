//! Runs views in Weir beside SQLite: after every step each view is what SQLite computes from scratch.
//!
//! A view is watched twice. SELECT reads it after every step; and its changelog, by a sink or by a subscription
//! (in turn), is integrated at the end: at every step's instant the integral must be the same result again, and no
//! row may at any moment be there less than zero times.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};
use weir::engine::{Clock, Engine, Subscription};
use weir::error::{Error, Result};

use crate::kept::Kept;
use crate::sqlite::Sqlite;
use crate::value::{self, Row, Value, difference};
use crate::world::{BASE_VIEWS, Script, Table};

/// Milliseconds of engine time between steps.
const STEP: i64 = 1000;

/// A query in the words of both engines.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub weir: String,
    pub sqlite: String,
}

/// What a run over several cases came to.
#[derive(Debug, Default)]
pub struct Report {
    /// The cases that went wrong: which, at which step, how. The first failure of each.
    pub failures: Vec<Failure>,
    /// The cases that Weir says it does not support, with its words.
    pub refused: Vec<(usize, String)>,
}

#[derive(Debug, Clone)]
pub struct Failure {
    pub case: usize,
    pub step: usize,
    pub message: String,
}

/// Runs the cases in one engine. If the engine itself fails, each case runs again in one of its own, to find which
/// of them it was.
pub fn run(cases: &[Case], script: &Script, workers: usize) -> Report {
    let together = catch_unwind(AssertUnwindSafe(|| Run::new(cases, script, workers)?.finish(script)));
    let (step, message) = match together {
        Ok(Ok(report)) => return report,
        Ok(Err((step, error))) => (step, error.to_string()),
        Err(panic) => (script.steps.len().saturating_sub(1), format!("a panic reached the caller: {}", panic_message(panic.as_ref()))),
    };
    if let [_] = cases {
        return Report { failures: vec![Failure { case: 0, step, message }], refused: vec![] };
    }
    let mut report = Report::default();
    for (i, case) in cases.iter().enumerate() {
        let alone = run(std::slice::from_ref(case), script, workers);
        report.failures.extend(alone.failures.into_iter().map(|failure| Failure { case: i, ..failure }));
        report.refused.extend(alone.refused.into_iter().map(|(_, why)| (i, why)));
    }
    if report.failures.is_empty() {
        report.failures.push(Failure { case: 0, step, message: format!("only together with the other queries: {message}") });
    }
    report
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "with no message".into())
}

/// An error of the whole engine, and the step in which it came.
type Stop = (usize, Error);

struct Run {
    engine: Kept,
    sqlite: Sqlite,
    views: Vec<View>,
    report: Report,
    /// Whether the engine is lost now and then.
    loses: bool,
}

/// A case that Weir has made a view of.
struct View {
    case: usize,
    name: String,
    query: String,
    changelog: Changelog,
    /// What SQLite said after each step from the view's first one on.
    expected: Vec<(usize, Vec<Row>)>,
    failed: bool,
}

enum Changelog {
    Sink(String),
    Subscription(Subscription),
    /// Nothing but SELECT: a subscription ends with its engine.
    None,
}

impl Run {
    /// Makes the tables and views, runs the script, and compares by SELECT after every step.
    fn new(cases: &[Case], script: &Script, workers: usize) -> Result<Self, Stop> {
        let engine = Kept::build(workers, script.losses, || Engine::builder().clock(Clock::Manual)).map_err(|e| (0, e))?;
        for table in Table::ALL {
            engine.execute(table.weir_definition()).map_err(|e| (0, e))?;
        }
        for (i, view) in BASE_VIEWS.iter().enumerate() {
            let definition = if i == 1 { view.replace("CREATE VIEW", "CREATE MATERIALIZED VIEW") } else { view.to_string() };
            engine.execute(&definition).map_err(|e| (0, e))?;
        }
        let mut run = Run { engine, sqlite: Sqlite::new(), views: vec![], report: Report::default(), loses: script.losses.is_some() };
        for (step, changes) in script.steps.iter().enumerate() {
            if step == script.views_before.min(script.steps.len() - 1) {
                run.create_views(cases, step, workers).map_err(|e| (step, e))?;
            }
            let to_come = &script.steps[step..];
            run.engine.once_in(5, |engine| lost(engine, step, &to_come[..to_come.len().min(2)])).map_err(|e| (step, e))?;
            run.make(step, changes).map_err(|e| (step, e))?;
            run.compare(step).map_err(|e| (step, e))?;
        }
        Ok(run)
    }

    /// With one worker each view is built and watched by itself, with more all of them are built together: both are
    /// ways in which dataflows come to share.
    fn create_views(&mut self, cases: &[Case], step: usize, workers: usize) -> Result<()> {
        let together = workers > 1 && cases.len() > 1;
        let mut defined = vec![];
        for (i, case) in cases.iter().enumerate() {
            let created = self.define(i, case).and_then(|()| if together { Ok(()) } else { self.watch(i, case, workers) });
            match created {
                Ok(()) => defined.push((i, case)),
                Err(Error::Unsupported(what)) => self.report.refused.push((i, what)),
                Err(error) => self.report.failures.push(Failure { case: i, step, message: format!("cannot be created: {error}") }),
            }
        }
        if together {
            defined.into_iter().try_for_each(|(i, case)| self.watch(i, case, workers))?;
        }
        Ok(())
    }

    fn define(&self, i: usize, case: &Case) -> Result<()> {
        if i.is_multiple_of(3) {
            // through a view that is not materialized
            self.engine.execute(&format!("CREATE VIEW under_{i} AS {}", case.weir))?;
            self.engine.execute(&format!("CREATE MATERIALIZED VIEW view_{i} AS SELECT * FROM under_{i}"))?;
        } else {
            self.engine.execute(&format!("CREATE MATERIALIZED VIEW view_{i} AS {}", case.weir))?;
        }
        Ok(())
    }

    fn watch(&mut self, i: usize, case: &Case, workers: usize) -> Result<()> {
        let name = format!("view_{i}");
        let columns = sink_columns(&self.engine.query(&format!("SELECT * FROM {name}"))?.schema());
        let changelog = match columns {
            Some(columns) if (i + workers).is_multiple_of(2) || self.loses => {
                let sink = format!("log_{i}");
                self.engine.execute(&format!("CREATE TABLE {sink} ({columns}) WITH ('connector' = 'changelog')"))?;
                self.engine.execute(&format!("INSERT INTO {sink} SELECT * FROM {name}"))?;
                Changelog::Sink(sink)
            }
            _ if self.loses => Changelog::None,
            _ => Changelog::Subscription(self.engine.subscribe(&name)?),
        };
        self.views.push(View { case: i, name, query: case.sqlite.clone(), changelog, expected: vec![], failed: false });
        Ok(())
    }

    fn make(&mut self, step: usize, changes: &crate::world::Step) -> Result<()> {
        let mut changes = changes.clone();
        changes.changes.iter_mut().for_each(|change| change.make_in_sqlite(&self.sqlite));
        self.engine.advance_to(instant(step))?;
        changes.make_in_weir(&self.engine)
    }

    fn compare(&mut self, step: usize) -> Result<()> {
        for view in &mut self.views {
            let expected = self.sqlite.query(&view.query).unwrap_or_else(|e| panic!("{e}"));
            let differs = match self.engine.query(&format!("SELECT * FROM {}", view.name)) {
                Ok(got) => difference(&value::rows(&got), &expected),
                Err(error @ Error::Stopped(_)) => return Err(error),
                Err(error) => Some(format!("SELECT fails: {error}")),
            };
            view.expected.push((step, expected));
            if let Some(message) = differs.filter(|_| !view.failed) {
                view.failed = true;
                self.report.failures.push(Failure { case: view.case, step, message });
            }
        }
        Ok(())
    }

    /// Integrates the changelogs and compares them, too.
    fn finish(mut self, script: &Script) -> Result<Report, Stop> {
        let last = script.steps.len().saturating_sub(1);
        self.engine.finish().map_err(|e| (last, e))?;
        let mut logs: HashMap<String, RecordBatch> = HashMap::new();
        for view in &self.views {
            if let Changelog::Sink(sink) = &view.changelog {
                let log = self.engine.query(&format!("SELECT * FROM {sink} ORDER BY seq")).map_err(|e| (last, e))?;
                logs.insert(sink.clone(), log);
            }
        }
        // ends the subscriptions
        self.engine.shutdown().map_err(|e| (last, e))?;
        for view in self.views {
            let changes = match view.changelog {
                Changelog::Sink(sink) => sink_changes(&logs[&sink]),
                Changelog::Subscription(subscription) => subscription_changes(subscription).map_err(|e| (last, e))?,
                Changelog::None => continue,
            };
            if let Some((step, message)) = integrate(&changes, &view.expected)
                && !view.failed
            {
                self.report.failures.push(Failure { case: view.case, step, message: format!("in the changelog: {message}") });
            }
        }
        Ok(self.report)
    }
}

/// Makes steps that the engine will not know of.
fn lost(engine: &Engine, first: usize, steps: &[crate::world::Step]) {
    for (step, changes) in steps.iter().enumerate() {
        // What is wrong with them comes out when they are made again.
        let _ = engine.advance_to(instant(first + step)).and_then(|()| changes.make_in_weir(engine));
    }
}

/// Engine time in a step.
fn instant(step: usize) -> i64 {
    (step as i64 + 1) * STEP
}

/// The declaration of a sink's columns; None where one has a type that we do not write down.
fn sink_columns(schema: &SchemaRef) -> Option<String> {
    let columns: Option<Vec<String>> =
        schema.fields().iter().enumerate().map(|(i, field)| Some(format!("c{i} {}", sql_type(field.data_type())?))).collect();
    Some(columns?.join(", "))
}

fn sql_type(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => "INT".into(),
        data_type if data_type.is_integer() => "BIGINT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        _ => return None,
    })
}

/// Changes that happen together: an instant and rows with differences.
struct Changed {
    at: i64,
    rows: Vec<(Row, i64)>,
}

/// Each row of a changelog table is a change of its own: in the order of `seq`, none may take what is not there.
fn sink_changes(log: &RecordBatch) -> Vec<Changed> {
    let (mut data, mut ops, mut at) = (vec![], vec![], vec![]);
    for (field, column) in log.schema().fields().iter().zip(log.columns()) {
        match field.name().as_str() {
            "op" => ops = value::values(column),
            "at" => {
                let milliseconds =
                    cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None)).and_then(|at| cast(&at, &DataType::Int64));
                let milliseconds = milliseconds.expect("'at' is a timestamp");
                at = milliseconds.as_primitive::<Int64Type>().values().to_vec();
            }
            "seq" => {}
            _ => data.push(value::values(column)),
        }
    }
    let change = |i: usize| {
        let row: Row = data.iter().map(|column| column[i].clone()).collect();
        let diff = if matches!(&ops[i], Value::Text(op) if op.starts_with('+')) { 1 } else { -1 };
        Changed { at: at[i], rows: vec![(row, diff)] }
    };
    (0..log.num_rows()).map(change).collect()
}

fn subscription_changes(subscription: Subscription) -> Result<Vec<Changed>> {
    let changed =
        |update: weir::engine::Update| Changed { at: update.at, rows: value::rows(&update.rows).into_iter().zip(update.diffs).collect() };
    subscription.map(|update| update.map(changed)).collect()
}

/// The first step at whose end the integral of the changes is not what was expected, or in which it went below zero.
fn integrate(changes: &[Changed], expected: &[(usize, Vec<Row>)]) -> Option<(usize, String)> {
    let mut held: HashMap<String, (Row, i64)> = HashMap::new();
    let mut changes = changes.iter().peekable();
    let last = expected.last().map(|(step, _)| *step);
    for (step, rows) in expected {
        while let Some(changed) = changes.next_if(|changed| changed.at < instant(step + 1) || Some(*step) == last) {
            for (row, diff) in &changed.rows {
                held.entry(value::key(row)).or_insert_with(|| (row.clone(), 0)).1 += diff;
            }
            for (row, _) in &changed.rows {
                let count = held[&value::key(row)].1;
                if count < 0 {
                    return Some((*step, format!("{} is there {count} times at {} ms", value::show(row), changed.at)));
                }
            }
        }
        let integral: Vec<Row> = held.values().flat_map(|(row, count)| std::iter::repeat_n(row.clone(), *count as usize)).collect();
        if let Some(message) = difference(&integral, rows) {
            return Some((*step, message));
        }
    }
    None
}

#[test]
fn an_integral_that_goes_below_zero_is_found() {
    let row = vec![Value::Int(1)];
    let change = |diff| Changed { at: 1000, rows: vec![(row.clone(), diff)] };
    assert_eq!(integrate(&[change(1)], &[(0, vec![row.clone()])]), None);
    assert!(integrate(&[change(-1), change(1)], &[(0, vec![])]).is_some());
    assert!(integrate(&[change(1), change(1)], &[(0, vec![row.clone()])]).is_some(), "a row too many");
}
