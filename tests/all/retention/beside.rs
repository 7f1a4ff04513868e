//! Runs a timeline in the engine beside the model: after every statement and every ADVANCE they must agree.
//!
//! Each view is watched twice: a changelog sink tells what it published in that step, as rows and differences an
//! instant, and SELECT what it remembers. What was published must never be there less than zero times on the way.

use std::collections::HashMap;

use arrow::datatypes::{DataType, SchemaRef};
use weir::engine::{Clock, Engine};
use weir::error::Result;

use super::model::{Cell, Moment, Row, World};
use super::plans::View;
use super::tables::{Event, Statement, Table, Tables};
use crate::value::{self, Value};

/// Views, and what happens to the tables that they read.
#[derive(Debug, Clone)]
pub struct Timeline {
    pub views: Vec<Defined>,
    pub events: Vec<Event>,
}

/// A view, perhaps over another.
#[derive(Debug, Clone)]
pub struct Defined {
    pub view: View,
    pub base: Option<View>,
    /// Whether the view below is materialized and watched, too.
    pub watches_base: bool,
}

/// Where the two did not agree, or the engine failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Which of the timeline's views; None if it was none of them.
    pub view: Option<usize>,
    /// The event after which it was seen; none were made when the views were defined.
    pub event: Option<usize>,
    pub message: String,
}

/// A change that a sink was told of.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub op: String,
    pub at: String,
    pub row: value::Row,
}

/// A view that is watched.
struct Watch {
    /// Which of the timeline's views it belongs to.
    of: usize,
    name: String,
    /// How many changes of the sink have been read.
    read: usize,
    published: HashMap<String, i64>,
}

/// The engine's side.
struct Run {
    engine: Engine,
    watches: Vec<Watch>,
}

impl Defined {
    /// The statements that make it: the base's name is `b` and the view's number, its own is `v` and the number.
    pub fn statements(&self, number: usize) -> Vec<String> {
        let mut statements = vec![];
        let mut create = |view: &View, name: &str, materialized: bool| {
            let (kind, options) = (if materialized { "MATERIALIZED VIEW" } else { "VIEW" }, view.settings.options());
            statements.extend(view.settings.session());
            statements.push(format!("CREATE {kind} {name}{options} AS {}", view.shape.sql(&format!("b{number}"))));
            statements.extend(view.settings.session().map(|_| "RESET state_ttl".to_string()));
        };
        if let Some(base) = &self.base {
            create(base, &format!("b{number}"), self.watches_base);
        }
        create(&self.view, &format!("v{number}"), true);
        statements
    }

    /// The names under which it is watched, the base's first.
    fn watched(&self, number: usize) -> Vec<String> {
        let base = self.base.is_some() && self.watches_base;
        base.then(|| format!("b{number}")).into_iter().chain([format!("v{number}")]).collect()
    }

    /// Adds its nodes to the model; one for each name under which it is watched.
    pub fn add_to(&self, world: &mut World) -> Vec<usize> {
        let base = self.base.as_ref().map(|base| base.add_to(world, None));
        let view = self.view.add_to(world, base);
        base.filter(|_| self.watches_base).into_iter().chain([view]).collect()
    }
}

impl Timeline {
    /// The tables that its views read.
    pub fn tables(&self) -> Vec<Table> {
        let views = self.views.iter().flat_map(|defined| defined.base.iter().chain([&defined.view]));
        let read: Vec<Table> = views.flat_map(|view| view.shape.tables()).collect();
        Table::ALL.into_iter().filter(|table| read.contains(table)).collect()
    }

    /// The tables and views.
    pub fn definitions(&self) -> Vec<String> {
        let tables = self.tables().into_iter().map(|table| table.definition().to_string());
        tables.chain(self.views.iter().enumerate().flat_map(|(i, view)| view.statements(i))).collect()
    }
}

impl Run {
    /// Makes tables, views and sinks, and reads each view once.
    fn new(timeline: &Timeline, workers: usize) -> Result<Self, Failure> {
        let mut watches = vec![];
        let mut make = || -> Result<Engine> {
            let engine = Engine::builder().workers(workers).clock(Clock::Manual).build()?;
            timeline.definitions().iter().try_for_each(|statement| engine.execute(statement).map(drop))?;
            for (of, defined) in timeline.views.iter().enumerate() {
                for name in defined.watched(of) {
                    let columns = sink_columns(&engine.query(&format!("SELECT * FROM {name}"))?.schema());
                    engine.execute(&format!("CREATE TABLE log_{name} ({columns}) WITH ('connector' = 'changelog')"))?;
                    engine.execute(&format!("INSERT INTO log_{name} SELECT * FROM {name}"))?;
                    watches.push(Watch { of, name, read: 0, published: HashMap::new() });
                }
            }
            for watch in &watches {
                engine.query(&format!("SELECT * FROM {}", watch.name))?;
            }
            Ok(engine)
        };
        match make() {
            Ok(engine) => Ok(Run { engine, watches }),
            Err(error) => Err(Failure { view: None, event: None, message: error.to_string() }),
        }
    }

    fn make(&self, event: &Event) -> Result<()> {
        match event {
            Event::Advance(by) => self.engine.execute(&format!("ADVANCE BY '{by} ms'")).map(drop),
            Event::Change(statements) => match statements.as_slice() {
                [statement] => statement.make_in(&self.engine),
                statements => {
                    self.engine.execute("BEGIN")?;
                    statements.iter().try_for_each(|statement| statement.make_in(&self.engine))?;
                    self.engine.execute("COMMIT").map(drop)
                }
            },
        }
    }

    /// What a view's sink was told since the last time.
    fn news(&mut self, watch: usize) -> Result<Vec<Change>> {
        let watch = &mut self.watches[watch];
        let log = self.engine.query(&format!("SELECT * FROM log_{} ORDER BY seq", watch.name))?;
        let log = log.slice(watch.read, log.num_rows() - watch.read);
        watch.read += log.num_rows();
        let texts = |name: &str| value::values(log.column_by_name(name).expect("a changelog has it")).into_iter().map(text);
        let columns = log.num_columns() - 3;
        let rows = value::rows(&log).into_iter().map(|mut row| {
            row.truncate(columns);
            row
        });
        Ok(texts("op").zip(texts("at")).zip(rows).map(|((op, at), row)| Change { op, at, row }).collect())
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        other => other.to_string(),
    }
}

/// The declaration of a sink's columns.
fn sink_columns(schema: &SchemaRef) -> String {
    let name = |data_type: &DataType| match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => "INT",
        data_type if data_type.is_integer() => "BIGINT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        other => panic!("no view here has a column of {other}"),
    };
    let columns = schema.fields().iter().enumerate().map(|(i, field)| format!("c{i} {}", name(field.data_type())));
    columns.collect::<Vec<_>>().join(", ")
}

/// A row of the model as one of the engine's.
pub fn row(row: &Row) -> value::Row {
    let cell = |cell: &Cell| match cell {
        Cell::Null => Value::Null,
        Cell::Int(number) => Value::Int(*number),
        Cell::Mean(sum, count) => Value::Double(*sum as f64 / *count as f64),
        Cell::Text(text) => Value::Text(text.clone()),
    };
    row.iter().map(cell).collect()
}

/// An instant as a changelog has it.
fn instant(at: i64) -> String {
    let (seconds, milliseconds) = (at / 1000, at % 1000);
    let fraction = if milliseconds == 0 { String::new() } else { format!(".{milliseconds:03}") };
    format!("1970-01-01T{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// What the model published, a change for each time that a row comes or goes.
fn changes(said: Vec<(Moment, Row, i64)>) -> Vec<value::Row> {
    let change = |((at, _), cells, diff): (Moment, Row, i64)| {
        let sign = if diff > 0 { "+" } else { "-" };
        let change = [vec![Value::Text(sign.into()), Value::Text(instant(at))], row(&cells)].concat();
        std::iter::repeat_n(change, diff.unsigned_abs() as usize)
    };
    said.into_iter().flat_map(change).collect()
}

/// Runs a timeline on both sides.
pub fn run(timeline: &Timeline, workers: usize) -> Result<(), Failure> {
    let mut world = World::default();
    let nodes: Vec<usize> = timeline.views.iter().flat_map(|view| view.add_to(&mut world)).collect();
    world.settle();
    let mut run = Run::new(timeline, workers)?;
    compare(&mut run, &world, &nodes, None).map_err(|failure| Failure { event: None, ..failure })?;
    let mut tables = Tables::default();
    for (i, event) in timeline.events.iter().enumerate() {
        let before = world.last_moment();
        let event = make_in_model(&mut world, &mut tables, event);
        let fails = |failure: Failure| Failure { event: Some(i), ..failure };
        run.make(&event).map_err(|error| fails(failure(None, error.to_string())))?;
        compare(&mut run, &world, &nodes, before).map_err(fails)?;
    }
    Ok(())
}

/// Returns the event without the parts that find nothing to take.
pub fn make_in_model(world: &mut World, tables: &mut Tables, event: &Event) -> Event {
    match event {
        Event::Advance(by) => {
            world.advance_to(world.now() + by);
            event.clone()
        }
        Event::Change(statements) => {
            let (statements, changes): (Vec<Statement>, Vec<_>) = statements.iter().map(|statement| tables.make(statement)).unzip();
            world.change(changes.concat());
            Event::Change(statements)
        }
    }
}

fn failure(view: Option<usize>, message: String) -> Failure {
    Failure { view, event: None, message }
}

fn compare(run: &mut Run, world: &World, nodes: &[usize], since: Option<Moment>) -> Result<(), Failure> {
    for (i, node) in nodes.iter().enumerate() {
        let news = run.news(i);
        let watch = &mut run.watches[i];
        let (of, name) = (watch.of, watch.name.clone());
        let fails = |message: String| failure(Some(of), format!("{name}: {message}"));
        let news = news.map_err(|error| fails(format!("its changelog: {error}")))?;
        for change in &news {
            let count = watch.published.entry(value::key(&change.row)).or_insert(0);
            *count += if change.op.starts_with('+') { 1 } else { -1 };
            if *count < 0 {
                return Err(fails(format!("{} is published {count} times at {}", value::show(&change.row), change.at)));
            }
        }
        let sign = |change: Change| [vec![Value::Text(change.op[..1].into()), Value::Text(change.at)], change.row].concat();
        let got: Vec<value::Row> = news.into_iter().map(sign).collect();
        if let Some(message) = value::difference(&got, &changes(world.said_after(*node, since))) {
            return Err(fails(format!("published {message}")));
        }
        let got = run.engine.query(&format!("SELECT * FROM {name}")).map_err(|error| fails(format!("SELECT: {error}")))?;
        let live = world.nodes[*node].live();
        let live: Vec<value::Row> = live.iter().flat_map(|(cells, count)| std::iter::repeat_n(row(cells), *count as usize)).collect();
        if let Some(message) = value::difference(&value::rows(&got), &live) {
            return Err(fails(format!("SELECT has {message}")));
        }
    }
    Ok(())
}

/// Everything that the sinks of a timeline's views were told, in the order of telling.
pub fn changelogs(timeline: &Timeline, workers: usize) -> Result<Vec<Vec<Change>>, Failure> {
    let mut run = Run::new(timeline, workers)?;
    let mut tables = Tables::default();
    for (i, event) in timeline.events.iter().enumerate() {
        let event = make_in_model(&mut World::default(), &mut tables, event);
        run.make(&event).map_err(|error| Failure { event: Some(i), ..failure(None, error.to_string()) })?;
    }
    let all: Result<Vec<_>> = (0..run.watches.len()).map(|watch| run.news(watch)).collect();
    all.map_err(|error| failure(None, error.to_string()))
}

#[test]
fn an_instant_reads_as_a_changelog_has_it() {
    assert_eq!(instant(0), "1970-01-01T00:00:00");
    assert_eq!(instant(3_723_004), "1970-01-01T01:02:03.004");
}
