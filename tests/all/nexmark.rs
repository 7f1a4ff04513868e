//! The queries of `queries/nexmark`, each as its file says it, beside SQLite's answer to the same question over the
//! generator's own events; and the same bytes whatever the order of the events, their batches and the workers.

mod events;
mod questions;

use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use nexmark::event::Event;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use weir::Engine;
use weir::text::line;

use self::events::{events, in_sqlite, shuffled};
use self::questions::question;
use crate::event_time::{Folder, Printed};
use crate::sqlite::read;
use crate::value::{Row, Value, difference, values};

const QUERIES: usize = 24;

/// How many events the tests read, but for the one that reads as many as the files say.
const FEW: usize = 5_000;

fn file(number: usize) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("queries/nexmark/q{number}.sql"))
}

/// A query's file, in its parts.
struct Script {
    number: usize,
    /// Everything up to the last SELECT.
    definitions: String,
    /// The last SELECT, which shows some of the result.
    shown: String,
    /// The time of the first event.
    base_time: i64,
}

impl Script {
    fn of(number: usize) -> Self {
        let path = file(number);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (definitions, shown) = text.split_at(text.rfind("\nSELECT").expect("a file ends with a SELECT"));
        let base_time = text.split("'base-time' = '").nth(1).and_then(|rest| rest.split('\'').next()).expect("a file says its base time");
        Script { number, base_time: milliseconds(base_time), definitions: definitions.into(), shown: shown.into() }
    }

    /// With so many events.
    fn with_events(mut self, count: usize) -> Self {
        assert!(self.definitions.contains("'events' = '100000'"), "q{} reads another number of events", self.number);
        self.definitions = self.definitions.replace("'events' = '100000'", &format!("'events' = '{count}'"));
        self
    }

    /// The same over files of the folder `events`.
    fn over_files(mut self) -> Self {
        let with = self.definitions.find(") WITH ('connector' = 'nexmark'").expect("the events are nexmark's");
        let end = with + self.definitions[with..].find(';').expect("a statement ends");
        self.definitions.replace_range(with..end, ") WITH ('connector' = 'file', 'path' = 'events', 'format' = 'json')");
        self
    }

    /// The same, said when windows close. The query is the last statement.
    fn emitted_on_window_close(mut self) -> Self {
        let end = self.definitions.rfind(';').expect("a statement ends");
        self.definitions.insert_str(end, "\nEMIT ON WINDOW CLOSE");
        self
    }

    fn run(&self, engine: &Engine, sql: &str) {
        engine.execute(sql).unwrap_or_else(|e| panic!("q{}: {e}", self.number));
    }

    fn query(&self, engine: &Engine, sql: &str) -> RecordBatch {
        engine.query(sql).unwrap_or_else(|e| panic!("q{}: {e}", self.number))
    }

    /// The result of the query, its times in milliseconds.
    fn result(&self, engine: &Engine) -> Vec<Row> {
        rows(&self.query(engine, &format!("SELECT * FROM q{}", self.number)))
    }
}

/// A time of day of a July, as the files write it.
fn milliseconds(text: &str) -> i64 {
    const JULY_2015: i64 = 1_435_708_800_000;
    let numbers: Vec<i64> = text.split(['-', ' ', ':']).map(|number| number.parse().expect("a number")).collect();
    let [2015, 7, day, hour, minute, second] = numbers[..] else { panic!("'{text}' is not in July 2015") };
    JULY_2015 + (((day - 1) * 24 + hour) * 60 + minute) * 60_000 + second * 1000
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let plain = |column: &ArrayRef| match column.data_type() {
        DataType::Timestamp(..) => cast(column, &DataType::Int64).expect("a time is a number"),
        _ => ArrayRef::clone(column),
    };
    let columns: Vec<Vec<Value>> = batch.columns().iter().map(|column| values(&plain(column))).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn answer(sqlite: &Connection, number: usize) -> Vec<Row> {
    let sql = question(number);
    let mut statement = sqlite.prepare(&sql).unwrap_or_else(|e| panic!("SQLite refuses q{number}: {e}"));
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|i| row.get_ref(i).map(read)).collect());
    rows.and_then(Iterator::collect).unwrap_or_else(|e| panic!("SQLite fails on q{number}: {e}"))
}

/// Runs the file as it is, but for the number of events, and compares.
fn check(number: usize, count: usize, workers: usize) {
    let script = Script::of(number).with_events(count);
    let folder = Folder::new(&format!("nexmark-{number}-{workers}"));
    let engine = Engine::builder().workers(workers).base(&folder.0).build().unwrap();
    script.run(&engine, &script.definitions);
    let shown = script.query(&engine, &script.shown);
    assert!(shown.num_rows() > 0, "q{number} shows nothing");
    let expected = answer(&in_sqlite(&events(script.base_time, count)), number);
    if let Some(difference) = difference(&script.result(&engine), &expected) {
        panic!("q{number} of {count} events, {workers} worker(s): {difference}");
    }
    assert_eq!(engine.late(), [], "q{number}");
}

#[test]
fn every_nexmark_query_is_what_sqlite_answers() {
    (0..QUERIES).for_each(|number| check(number, FEW, 1 + number % 2));
}

#[test]
#[ignore = "takes minutes: every query over the 100 000 events that its file says"]
fn every_nexmark_query_is_what_sqlite_answers_of_all_events() {
    (0..QUERIES).for_each(|number| check(number, 100_000, 1 + number % 2));
}

/// What a job says of the query, in bytes: in a sink of its own, or in the one that the file has.
fn published(script: Script, events: &[Event], rng: &mut StdRng, workers: usize) -> String {
    let script = script.over_files();
    let number = script.number;
    let folder = Folder::new(&format!("nexmark-shuffled-{number}"));
    write_pieces(&folder.0.join("events"), events, rng);
    let printed = Printed::default();
    let engine = Engine::builder().workers(workers).base(&folder.0).output(Box::new(printed.clone())).build().unwrap();
    // Nothing may flow before the job is there, or it would begin with what had come by then.
    script.run(&engine, &script.definitions.replace("CREATE MATERIALIZED VIEW", "CREATE VIEW"));
    let has_its_own = script.definitions.contains("INSERT INTO");
    if !has_its_own {
        let columns = script.query(&engine, &format!("DESCRIBE q{number}"));
        let columns: Vec<String> = (0..columns.num_rows()).map(|row| line(&columns, row)).map(|c| format!("`{}` {}", c[0], c[1])).collect();
        script.run(&engine, &format!("CREATE TABLE published ({}) WITH ('connector' = 'print')", columns.join(", ")));
        script.run(&engine, &format!("INSERT INTO published SELECT * FROM q{number}"));
    }
    engine.finish().unwrap_or_else(|e| panic!("q{number}: {e}"));
    assert_eq!(engine.late(), [], "q{number}");
    match has_its_own {
        true => std::fs::read_to_string(folder.0.join(format!("q{number}.csv"))).expect("the file that the query writes"),
        false => printed.all(),
    }
}

/// The events in an order of their own, in several files.
fn write_pieces(folder: &Path, events: &[Event], rng: &mut StdRng) {
    std::fs::create_dir_all(folder).unwrap();
    let order = shuffled(events, rng);
    let mut rest = order.as_slice();
    for number in 0.. {
        if rest.is_empty() {
            break;
        }
        let (piece, others) = rest.split_at(rng.random_range(1..=rest.len().min(1500)));
        let lines: String = piece.iter().map(|event| events::line(event)).collect();
        std::fs::write(folder.join(format!("{number:04}.json")), lines).unwrap();
        rest = others;
    }
}

#[test]
fn what_nexmark_queries_publish_is_the_same_in_whatever_order_within_the_bound_and_for_two_workers() {
    for number in 0..QUERIES {
        let mut rng = StdRng::seed_from_u64(number as u64);
        let events = events(Script::of(number).base_time, 2_000);
        let first = published(Script::of(number), &events, &mut rng, 1);
        assert!(!first.is_empty(), "q{number} publishes nothing");
        for workers in [1, 2] {
            let other = published(Script::of(number), &events, &mut rng, workers);
            assert!(first == other, "q{number}, {workers} worker(s): {}", first_difference(&first, &other));
        }
    }
}

fn first_difference(a: &str, b: &str) -> String {
    let at = a.lines().zip(b.lines()).position(|(a, b)| a != b).unwrap_or_else(|| a.lines().count().min(b.lines().count()));
    format!("line {}: {:?} and {:?}", at + 1, a.lines().nth(at), b.lines().nth(at))
}

/// The queries whose results are of windows.
const WINDOWED: [usize; 5] = [5, 7, 8, 11, 12];

#[test]
fn on_window_close_nexmark_queries_say_what_sqlite_answers_and_each_row_once() {
    for number in WINDOWED {
        let script = || Script::of(number).with_events(FEW).emitted_on_window_close();
        let engine = Engine::builder().build().unwrap();
        script().run(&engine, &script().definitions);
        let events = events(script().base_time, FEW);
        let expected = answer(&in_sqlite(&events), number);
        // The windows that are open at the end close then.
        if let Some(difference) = difference(&script().result(&engine), &expected) {
            panic!("q{number}: {difference}");
        }
        let published = published(script(), &events, &mut StdRng::seed_from_u64(number as u64), 2);
        assert!(published.lines().all(|line| line.starts_with("+I")), "q{number} takes something back");
        assert_eq!(published.lines().count(), expected.len(), "q{number}");
    }
}

#[test]
fn every_file_of_nexmark_is_a_query_and_all_read_the_same_events() {
    let folder = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/nexmark")).expect("there is a folder of queries");
    let files = folder.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "sql"));
    assert_eq!(files.count(), QUERIES);
    let table = |number: usize| {
        let text = Script::of(number).definitions;
        let (from, to) = (text.find("CREATE TABLE events").expect("a table of events"), text.find("'base-time'").expect("a base time"));
        text[from..to].replace("  p_time AS PROCTIME(),\n", "")
    };
    (1..QUERIES).for_each(|number| assert_eq!(table(number), table(0), "q{number}"));
}
