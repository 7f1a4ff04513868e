//! Runs a timeline in the engine beside the model, and looks at both after every step or after several.
//!
//! Each view is watched twice: a changelog sink tells what it published, as rows and differences a step, and SELECT what
//! it remembers. What was published must never be there less than zero times on the way. Steps between two looks come
//! to the engine's operators as one batch; what comes of them must be the same.

use std::collections::HashMap;

use weir::engine::{Clock, Engine};
use weir::error::Result;

use super::model::{Cell, Moment, Row, World};
use super::plans::View;
use super::plug::Plug;
use super::tables::{Changes, Event, Statement, Table, Tables, pour};
use crate::kept::Kept;
use crate::value::{self, Value};

/// Views, and what happens to the tables that they read.
#[derive(Debug, Clone)]
pub struct Timeline {
    pub views: Vec<Defined>,
    pub events: Vec<Event>,
    /// How many events there are from one look to the next.
    pub stretch: usize,
    /// The engine is lost now and then, and begins again with what its folder has: how, by this seed.
    pub losses: Option<u64>,
}

/// A view, perhaps over others.
#[derive(Debug, Clone)]
pub struct Defined {
    /// By which events and names know it.
    pub number: usize,
    pub view: View,
    pub bases: Vec<View>,
    /// Whether the views below are materialized and watched, too.
    pub watches_bases: bool,
}

/// Where the two did not agree, or the engine failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The number of the view; None if it was none of them.
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
    /// The number of the timeline's view that it belongs to.
    of: usize,
    name: String,
    /// Its node in the model.
    node: usize,
    /// The model's last step at the last look.
    since: Option<Moment>,
    /// How many changes of the sink have been read.
    read: usize,
    published: HashMap<String, i64>,
}

/// The engine's side.
struct Run {
    engine: Kept,
    plug: Plug,
    is_plugged: bool,
    watches: Vec<Watch>,
}

impl Defined {
    fn base_name(&self, place: usize) -> String {
        format!("b{}{}", self.number, ["", "x"][place])
    }

    /// The statements that make it: the bases' names are `b` and the view's number, its own is `v` and the number.
    pub fn statements(&self) -> Vec<String> {
        let mut statements = vec![];
        let bases: Vec<String> = (0..self.bases.len()).map(|place| self.base_name(place)).collect();
        let mut create = |view: &View, name: &str, materialized: bool| {
            let (kind, options) = (if materialized { "MATERIALIZED VIEW" } else { "VIEW" }, view.settings.options());
            statements.extend(view.settings.session());
            statements.push(format!("CREATE {kind} {name}{options} AS {}", view.sql(&bases)));
            statements.extend(view.settings.session().map(|_| "RESET state_ttl".to_string()));
        };
        for (base, name) in self.bases.iter().zip(&bases) {
            create(base, name, self.watches_bases);
        }
        create(&self.view, &format!("v{}", self.number), true);
        statements
    }

    /// The statements that end it.
    fn ending(&self) -> Vec<String> {
        let jobs = self.watched().into_iter().map(|name| format!("DROP JOB log_{name}"));
        let bases = (0..self.bases.len()).map(|place| format!("DROP VIEW {}", self.base_name(place)));
        jobs.chain([format!("DROP VIEW v{}", self.number)]).chain(bases).collect()
    }

    /// The names under which it is watched, the bases' first.
    fn watched(&self) -> Vec<String> {
        let bases = (0..self.bases.len()).filter(|_| self.watches_bases).map(|place| self.base_name(place));
        bases.chain([format!("v{}", self.number)]).collect()
    }

    /// Adds its nodes to the model; one for each name under which it is watched.
    pub fn add_to(&self, world: &mut World) -> Vec<usize> {
        let bases: Vec<usize> = self.bases.iter().map(|base| base.add_to(world, &[])).collect();
        let view = self.view.add_to(world, &bases);
        bases.into_iter().filter(|_| self.watches_bases).chain([view]).collect()
    }
}

impl Timeline {
    /// The tables that its views read.
    pub fn tables(&self) -> Vec<Table> {
        let views = self.views.iter().flat_map(|defined| defined.bases.iter().chain([&defined.view]));
        let read: Vec<Table> = views.flat_map(|view| view.shape.tables()).collect();
        Table::ALL.into_iter().filter(|table| read.contains(table)).collect()
    }

    /// The views that are there from the beginning.
    pub fn first_views(&self) -> impl Iterator<Item = &Defined> {
        let is_made_later =
            |view: &Defined| self.events.iter().any(|event| matches!(event, Event::Define(number) if *number == view.number));
        self.views.iter().filter(move |view| !is_made_later(view))
    }

    pub fn view(&self, number: usize) -> Option<&Defined> {
        self.views.iter().find(|view| view.number == number)
    }

    /// The tables and the first views.
    pub fn definitions(&self) -> Vec<String> {
        let tables = self.tables().into_iter().map(|table| table.definition().to_string());
        tables.chain(self.first_views().flat_map(Defined::statements)).collect()
    }
}

impl Run {
    /// Makes the tables.
    fn new(timeline: &Timeline, workers: usize) -> Result<Self> {
        let plug = Plug::default();
        let output = plug.clone();
        let make = move || Engine::builder().clock(Clock::Manual).output(Box::new(output.clone()));
        let engine = Kept::build(workers, timeline.losses, make)?;
        timeline.tables().iter().try_for_each(|table| engine.execute(table.definition()).map(drop))?;
        if timeline.stretch > 1 {
            engine.execute(Plug::DEFINITIONS)?;
        }
        Ok(Run { engine, plug, is_plugged: false, watches: vec![] })
    }

    /// Makes a view and its sinks, which follow these nodes.
    fn define(&mut self, defined: &Defined, nodes: &[usize], since: Option<Moment>) -> Result<()> {
        self.pull_plug();
        defined.statements().iter().try_for_each(|statement| self.engine.execute(statement).map(drop))?;
        for (name, node) in defined.watched().into_iter().zip(nodes) {
            let columns = value::rows(&self.engine.query(&format!("DESCRIBE {name}"))?);
            let columns = columns.into_iter().enumerate().map(|(i, mut column)| format!("c{i} {}", text(column.swap_remove(1))));
            let columns: Vec<String> = columns.collect();
            self.engine.execute(&format!("CREATE TABLE log_{name} ({}) WITH ('connector' = 'changelog')", columns.join(", ")))?;
            self.engine.execute(&format!("INSERT INTO log_{name} SELECT * FROM {name}"))?;
            self.watches.push(Watch { of: defined.number, name, node: *node, since, read: 0, published: HashMap::new() });
        }
        Ok(())
    }

    fn end(&mut self, defined: &Defined) -> Result<()> {
        self.watches.retain(|watch| watch.of != defined.number);
        defined.ending().iter().try_for_each(|statement| self.engine.execute(statement).map(drop))
    }

    fn make(&self, event: &Event) -> Result<()> {
        make_in_engine(&self.engine, event)
    }

    /// Perhaps loses the engine, after it has made some of the events to come.
    fn perhaps_lose(&mut self, tables: &Tables, to_come: &[Event]) -> Result<()> {
        self.pull_plug();
        let mut tables = tables.clone();
        let to_come = to_come.iter().take_while(|event| matches!(event, Event::Advance(_) | Event::Change(_)));
        self.engine.once_in(4, |engine| {
            for event in to_come.take(3) {
                let (event, _) = make_in_model(&mut World::default(), &mut tables, event);
                // What is wrong with it comes out when it is made again.
                let _ = make_in_engine(engine, &event);
            }
        })
    }

    /// Makes an event without waiting for anything, while the first worker is held up.
    fn make_at_once(&mut self, event: &Event, changes: &Changes) -> Result<()> {
        if !self.is_plugged {
            self.plug.put_in(&self.engine)?;
            self.is_plugged = true;
        }
        match event {
            Event::Change(_) => pour(&self.engine, changes),
            event => self.make(event),
        }
    }

    fn pull_plug(&mut self) {
        self.plug.pull();
        self.is_plugged = false;
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

fn make_in_engine(engine: &Engine, event: &Event) -> Result<()> {
    match event {
        Event::Advance(by) => engine.execute(&format!("ADVANCE BY '{by} ms'")).map(drop),
        Event::Change(statements) => match statements.as_slice() {
            [statement] => statement.make_in(engine),
            statements => {
                engine.execute("BEGIN")?;
                statements.iter().try_for_each(|statement| statement.make_in(engine))?;
                engine.execute("COMMIT").map(drop)
            }
        },
        Event::Define(_) | Event::Drop(_) => Ok(()),
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.plug.pull();
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        other => other.to_string(),
    }
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

/// What the model published in one step, a change for each time that a row comes or goes.
fn changes(said: &[(Moment, Row, i64)]) -> Vec<value::Row> {
    let change = |((at, _), cells, diff): &(Moment, Row, i64)| {
        let sign = if *diff > 0 { "+" } else { "-" };
        let change = [vec![Value::Text(sign.into()), Value::Text(instant(*at))], row(cells)].concat();
        std::iter::repeat_n(change, diff.unsigned_abs() as usize)
    };
    said.iter().flat_map(change).collect()
}

/// Runs a timeline on both sides.
pub fn run(timeline: &Timeline, workers: usize) -> Result<(), Failure> {
    let (mut world, mut tables) = (World::default(), Tables::default());
    let at_first = |error: weir::error::Error| failure(None, error.to_string());
    let mut run = Run::new(timeline, workers).map_err(at_first)?;
    for view in timeline.first_views() {
        let nodes = view.add_to(&mut world);
        run.define(view, &nodes, None).map_err(at_first)?;
    }
    world.settle();
    compare(&mut run, &world)?;
    for (i, event) in timeline.events.iter().enumerate() {
        let fails = |failure: Failure| Failure { event: Some(i), ..failure };
        let breaks = |error: weir::error::Error| fails(failure(None, error.to_string()));
        run.perhaps_lose(&tables, &timeline.events[i..]).map_err(breaks)?;
        match event {
            Event::Define(number) => {
                let Some(view) = timeline.view(*number) else { continue };
                let since = world.last_moment();
                let nodes = view.add_to(&mut world);
                world.settle();
                run.define(view, &nodes, since).map_err(breaks)?;
            }
            Event::Drop(number) => {
                let Some(view) = timeline.view(*number) else { continue };
                compare(&mut run, &world).map_err(fails)?;
                run.end(view).map_err(breaks)?;
            }
            event => {
                let (event, changes) = make_in_model(&mut world, &mut tables, event);
                let made = if timeline.stretch > 1 { run.make_at_once(&event, &changes) } else { run.make(&event) };
                made.map_err(breaks)?;
            }
        }
        if (i + 1) % timeline.stretch == 0 || i + 1 == timeline.events.len() {
            compare(&mut run, &world).map_err(fails)?;
        }
    }
    Ok(())
}

/// Returns the event without the parts that find nothing to take, and its changes.
pub fn make_in_model(world: &mut World, tables: &mut Tables, event: &Event) -> (Event, Changes) {
    match event {
        Event::Advance(by) => world.advance_to(world.now() + by),
        Event::Change(statements) => {
            let (statements, changes): (Vec<Statement>, Vec<_>) = statements.iter().map(|statement| tables.make(statement)).unzip();
            let changes = changes.concat();
            world.change(changes.iter().cloned());
            return (Event::Change(statements), changes);
        }
        Event::Define(_) | Event::Drop(_) => {}
    }
    (event.clone(), vec![])
}

fn failure(view: Option<usize>, message: String) -> Failure {
    Failure { view, event: None, message }
}

/// Looks at both sides.
fn compare(run: &mut Run, world: &World) -> Result<(), Failure> {
    run.pull_plug();
    for i in 0..run.watches.len() {
        let news = run.news(i);
        let watch = &mut run.watches[i];
        let (of, name, node) = (watch.of, watch.name.clone(), watch.node);
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
        let mut news: Vec<value::Row> = news.into_iter().map(sign).collect();
        let said = world.said_after(node, watch.since);
        watch.since = world.last_moment();
        for step in said.chunk_by(|a, b| a.0 == b.0) {
            let expected = changes(step);
            let later = news.split_off(expected.len().min(news.len()));
            if let Some(message) = value::difference(&news, &expected) {
                let rest: Vec<String> = later.iter().map(|row| value::show(row)).collect();
                let rest = if rest.is_empty() { String::new() } else { format!("; then came {}", rest.join(", ")) };
                return Err(fails(format!("in one step published {message}{rest}")));
            }
            news = later;
        }
        if let Some(message) = value::difference(&news, &[]) {
            return Err(fails(format!("published {message}")));
        }
        let got = run.engine.query(&format!("SELECT * FROM {name}")).map_err(|error| fails(format!("SELECT: {error}")))?;
        let live = world.shows(node);
        let live: Vec<value::Row> = live.iter().flat_map(|(cells, count)| std::iter::repeat_n(row(cells), *count as usize)).collect();
        if let Some(message) = value::difference(&value::rows(&got), &live) {
            return Err(fails(format!("SELECT has {message}")));
        }
    }
    Ok(())
}

/// Everything that the sinks of a timeline's first views were told, in the order of telling.
pub fn changelogs(timeline: &Timeline, workers: usize) -> Result<Vec<Vec<Change>>> {
    let (mut run, mut tables) = (Run::new(timeline, workers)?, Tables::default());
    timeline.first_views().try_for_each(|view| run.define(view, &vec![0; view.watched().len()], None))?;
    for event in &timeline.events {
        let (event, _) = make_in_model(&mut World::default(), &mut tables, event);
        run.make(&event)?;
    }
    (0..run.watches.len()).map(|watch| run.news(watch)).collect()
}

#[test]
fn an_instant_reads_as_a_changelog_has_it() {
    assert_eq!(instant(0), "1970-01-01T00:00:00");
    assert_eq!(instant(3_723_004), "1970-01-01T01:02:03.004");
}
