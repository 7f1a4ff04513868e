//! One query, measured in this process.

use std::io::Write;
use std::time::Instant;

use super::Size;
use super::figures::{Figures, Latency};
use super::tpch::{self, Rows, Transaction};
use super::workload::Job;
use crate::cli::Exit;
use crate::cli::args::BenchArgs;
use crate::cli::output::unwritable;
use crate::cli::progress::Progress;
use crate::cli::stdout::Stdout;
use crate::cli::stop::Stop;
use crate::engine::meter::{Look, Meter, Tick};
use crate::engine::{Engine, Stats};
use crate::error::Result;
use crate::text::line;

/// How many rows are a tick.
const TICK: usize = 16_384;

/// How many times the state is looked at.
const LOOKS: u64 = 100;

/// The state is looked at once in so many pieces of a load.
const LOAD_TICKS_A_LOOK: usize = 4;

/// Runs a query and writes its figures as JSON.
pub fn alone(args: &BenchArgs, query: &str, stop: &Stop) -> Result<Exit> {
    let size = args.size()?;
    let (events, meter) = match size {
        Size::Events(events) => (events, Meter::new(TICK, (events / LOOKS).max(1))),
        Size::Scale(_) => (0, Meter::new(TICK, u64::MAX)),
    };
    let job = args.workload.job(query, events)?;
    let engine = Engine::builder().workers(args.workers.count()).meter(meter.clone()).build()?;
    let mut progress = Progress::start(false);
    progress.watch(&engine);
    let (query, measured, mut out) = (query.to_owned(), engine.clone(), Stdout::new(stop).around(progress.bar()));
    let ended = stop.supervise(&engine, move || {
        start(&measured, &job)?;
        let run = match size {
            Size::Events(_) => streamed(&measured, &meter)?,
            Size::Scale(scale) => transacted(&measured, scale)?,
        };
        let figures = run.figures(query, &measured);
        writeln!(out, "{}", figures.to_json()).and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
        Ok(Exit::Ok)
    });
    progress.finish(None);
    ended
}

/// Defines everything, the results into sinks that keep nothing.
fn start(engine: &Engine, job: &Job) -> Result<()> {
    for definition in job.definitions() {
        engine.execute(definition)?;
    }
    let mut inserts = String::new();
    for view in job.results() {
        let columns = engine.query(&format!("DESCRIBE {view}"))?;
        let columns: Vec<String> =
            (0..columns.num_rows()).map(|row| line(&columns, row)).map(|column| format!("`{}` {}", column[0], column[1])).collect();
        engine.execute(&format!("CREATE TABLE {view}_sink ({}) WITH ('connector' = 'blackhole')", columns.join(", ")))?;
        inserts.push_str(&format!("INSERT INTO {view}_sink SELECT * FROM {view}; "));
    }
    // Together, so that what they share is computed once and what they read is read once.
    engine.execute(&format!("EXECUTE STATEMENT SET BEGIN {inserts} END"))?;
    Ok(())
}

/// What a run came to.
struct Run {
    ticks: Vec<Tick>,
    latency: Latency,
    looks: Vec<Look>,
}

impl Run {
    fn figures(self, query: String, engine: &Engine) -> Figures {
        let stats = engine.stats();
        Figures {
            query,
            rows: self.ticks.iter().map(|tick| tick.rows).sum(),
            seconds: Figures::seconds(&self.ticks),
            latency: self.latency,
            peak_bytes: peak_memory(),
            state_rows: stats.state_rows,
            state_bytes: stats.state_bytes,
            looks: self.looks,
        }
    }
}

/// Reads the sources to their end.
fn streamed(engine: &Engine, meter: &Meter) -> Result<Run> {
    engine.finish()?;
    let ticks = meter.ticks();
    Ok(Run { latency: Latency::of(ticks.iter().map(|tick| tick.took)), ticks, looks: meter.looks() })
}

/// Loads the tables of TPC-H that are there, and then lets orders come and go.
fn transacted(engine: &Engine, scale: f64) -> Result<Run> {
    let tables = engine.query("SHOW TABLES")?;
    let tables: Vec<String> = (0..tables.num_rows()).map(|row| line(&tables, row).swap_remove(0)).collect();
    let is_there = |rows: &Rows| tables.iter().any(|table| table == rows.table);
    let add = |all: &[Rows], diff: i64| -> Result<u64> {
        all.iter().try_fold(0, |count, Rows { table, rows }| {
            engine.insert(table, rows, &vec![diff; rows.num_rows()])?;
            Ok(count + rows.num_rows() as u64)
        })
    };
    let (mut ticks, mut looks, mut loaded) = (Vec::new(), Vec::new(), 0);
    for piece in tpch::load(scale) {
        let piece = kept(piece?, is_there);
        let start = Instant::now();
        let rows = add(&piece, 1)?;
        engine.settle()?;
        ticks.push(Tick { rows, took: start.elapsed() });
        loaded += rows;
        if ticks.len().is_multiple_of(LOAD_TICKS_A_LOOK) {
            engine.finish()?;
            let Stats { state_rows, state_bytes, .. } = engine.stats();
            looks.push(Look { rows: loaded, at: 0, state_rows, state_bytes });
        }
    }
    let mut times = Vec::new();
    for transaction in tpch::transactions(scale) {
        let Transaction { comes, goes } = transaction?;
        let (comes, goes) = (kept(comes, is_there), kept(goes, is_there));
        // A query that reads no orders has no transactions.
        if comes.is_empty() {
            break;
        }
        let start = Instant::now();
        engine.execute("BEGIN")?;
        add(&comes, 1)?;
        add(&goes, -1)?;
        engine.execute("COMMIT")?;
        engine.settle()?;
        times.push(start.elapsed());
    }
    engine.finish()?;
    Ok(Run { ticks, latency: Latency::of(times), looks })
}

fn kept(all: Vec<Rows>, is_there: impl Fn(&Rows) -> bool) -> Vec<Rows> {
    all.into_iter().filter(is_there).collect()
}

/// The most memory that this process has held so far, in bytes; None where the system does not say.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
