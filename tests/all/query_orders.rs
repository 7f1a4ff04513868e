//! The files of `queries/` publish the same bytes in whatever order their input comes within its watermark's bound, however it
//! is batched, and with one worker and with two: in a sink of each view, and in what their SELECTs show.
//!
//! A table's file becomes a folder of pieces. Where it has no watermark all of it is one step under an event clock, in any
//! order; in `dau.sql` the rows of a day may change places. What a script inserts itself comes in the order that it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::sql::statement::Statement;
use weir::text::line;
use weir::{Clock, Engine, Outcome};

use crate::event_time::{Folder, shuffled};

/// The scripts that read files, by their tables' watermarks or without, and those that insert what they read.
const OF_FILES: [&str; 4] = ["dau", "clicks", "top_n", "grouping_sets"];
const OF_STATEMENTS: [&str; 2] = ["join", "shared_view"];

/// What a script says: of each view what its sink has in the end, and of each SELECT its lines, in their order.
type Said = BTreeMap<String, String>;

fn queries() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("queries")
}

/// The day that a line begins with, as a number in the order of days.
fn day(line: &str) -> i64 {
    let date = line.split(',').next().expect("a line has a field");
    date.get(..10).expect("it begins with a date").replace('-', "").parse().expect("a date is of digits")
}

/// Writes the lines of a file in another order and in several pieces: by day, those of each day in any order, or all in any order.
fn write_pieces(file: &Path, by_day: bool, into: &Path, rng: &mut StdRng) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let (header, lines) = text.split_once('\n').expect("a file has a header");
    let lines: Vec<&str> = lines.lines().collect();
    let order = match by_day {
        true => shuffled(&lines, |line| day(line), 0, rng),
        false => shuffled(&lines, |_| 0, 1_000_000, rng),
    };
    std::fs::create_dir_all(into).expect("a folder");
    let (mut rest, mut number) = (order.as_slice(), 0);
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(rng.random_range(1..=rest.len().min(700)));
        std::fs::write(into.join(format!("{number:04}.csv")), format!("{header}\n{}\n", piece.join("\n"))).expect("a file");
        (rest, number) = (others, number + 1);
    }
}

/// The folder that a script over shuffled pieces of its files stands in, and its text.
fn laid_out(name: &str, folder: &Path, rng: &mut StdRng) -> String {
    let path = queries().join(name).with_extension("sql");
    let mut text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for file in ["logins", "clicks"] {
        let written = format!("'data/{file}.csv'");
        if text.contains(&written) {
            let has_watermark = text.contains("WATERMARK");
            write_pieces(&queries().join(format!("data/{file}.csv")), has_watermark, &folder.join(file), rng);
            text = text.replace(&written, &format!("'{file}'"));
        }
    }
    text
}

fn run(engine: &Engine, sql: &str) {
    engine.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// A job that writes what a view publishes into a file of its name.
fn publish(engine: &Engine, view: &str) {
    let described = engine.query(&format!("DESCRIBE {view}")).unwrap_or_else(|e| panic!("{view}: {e}"));
    let columns: Vec<String> = (0..described.num_rows()).map(|row| line(&described, row)).map(|c| format!("`{}` {}", c[0], c[1])).collect();
    let with = format!("'connector' = 'file', 'path' = '{view}.out', 'format' = 'csv', 'changelog' = 'true'");
    run(engine, &format!("CREATE TABLE {view}_out ({}) WITH ({with}); INSERT INTO {view}_out SELECT * FROM {view}", columns.join(", ")));
}

fn said(name: &str, clock: Clock, workers: usize, rng: &mut StdRng) -> Said {
    let folder = Folder::new(&format!("orders-{name}-{workers}"));
    let text = laid_out(name, &folder.0, rng);
    let engine = Engine::builder().workers(workers).clock(clock).base(&folder.0).build().expect("an engine");
    let (mut said, mut views) = (Said::new(), Vec::new());
    for statement in weir::sql::statements(&text) {
        let statement = statement.unwrap_or_else(|e| panic!("{name}: {e}"));
        let outcome = engine.execute_statement(&statement).unwrap_or_else(|e| panic!("{name}: {}: {e}", statement.text));
        match (&statement.statement, outcome) {
            (Statement::CreateView(view), _) => {
                publish(&engine, &view.name);
                views.push(view.name.clone());
            }
            (_, Outcome::Rows(rows)) => {
                let lines: Vec<String> = (0..rows.num_rows()).map(|row| line(&rows, row).join(", ")).collect();
                said.insert(statement.text.clone(), lines.join("\n"));
            }
            _ => {}
        }
    }
    engine.finish().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(engine.late(), [], "{name}");
    engine.shutdown().unwrap_or_else(|e| panic!("{name}: {e}"));
    for view in views {
        let written = std::fs::read_to_string(folder.0.join(format!("{view}.out"))).expect("the view's sink");
        assert!(!written.is_empty(), "{name}: {view} publishes nothing");
        said.insert(view, written);
    }
    said
}

fn check(name: &str, clock: Clock) {
    let mut rng = StdRng::seed_from_u64(name.len() as u64);
    let first = said(name, clock, 1, &mut rng);
    for workers in [1, 2] {
        let other = said(name, clock, workers, &mut rng);
        assert_eq!(first.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{name}");
        for (what, text) in &first {
            assert!(*text == other[what], "{name}, {workers} worker(s): {what} is another");
        }
    }
}

#[test]
fn what_query_files_publish_is_the_same_in_whatever_order_their_input_comes_and_for_two_workers() {
    OF_FILES.iter().for_each(|name| check(name, Clock::Event));
    OF_STATEMENTS.iter().for_each(|name| check(name, Clock::Manual));
}

#[test]
fn every_file_in_queries_is_run_in_several_orders() {
    let files = std::fs::read_dir(queries()).expect("there is a folder of queries");
    for path in files.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension().is_some_and(|e| e == "sql")) {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        assert!(OF_FILES.iter().chain(&OF_STATEMENTS).any(|known| *known == name), "{} is not", path.display());
    }
}
