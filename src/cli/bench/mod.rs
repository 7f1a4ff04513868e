//! `weir bench`: how fast this machine is at queries that are known elsewhere.
//!
//! Each query runs in a process of its own, which prints its figures for the one that the user started: so its peak memory is
//! its own, and no query finds what another has left. Sources are made up; what that takes is on no clock (see
//! [`crate::engine::meter`]). Results go to a `blackhole`.

mod figures;
mod measure;
mod page;
mod plots;
mod report;
pub mod tpch;
mod workload;

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Exit;
use super::args::BenchArgs;
use super::output::{Format, Results, unwritable};
use super::progress::note;
use super::stdout::Stdout;
use super::stop::{POLL, Stop};
use crate::error::{Error, Result};
use figures::Figures;
use report::Report;
pub use workload::Workload;

/// How much input there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    Events(u64),
    /// Of TPC-H: 1 is 8.7 million rows.
    Scale(f64),
}

/// Runs the queries one after the other and prints their figures.
pub fn bench(args: BenchArgs, stop: &Stop) -> Result<Exit> {
    let queries = match args.size().and_then(|_| args.workload.chosen(&args.queries)) {
        Ok(queries) => queries,
        Err(error) => {
            note(format_args!("error: {error}"));
            return Ok(Exit::Usage);
        }
    };
    if args.alone {
        return measure::alone(&args, queries[0], stop);
    }
    let report = args.report.as_deref().map(Report::create).transpose()?;
    let mut all = Vec::new();
    for query in queries {
        match in_a_process(&args, query, stop)? {
            Ok(figures) => {
                note(figures.line());
                all.push(figures);
            }
            Err(exit) => return Ok(exit),
        }
    }
    let rows = figures::table(&all, args.workers.count())?;
    Results::new(Stdout::new(stop), args.format.unwrap_or(Format::Table)).rows(&rows).map_err(|error| unwritable(&error))?;
    report.map_or(Ok(()), |report| report.write(&args, &all))?;
    Ok(Exit::Ok)
}

/// Runs one query in a process of its own; the error is how that has ended without figures.
fn in_a_process(args: &BenchArgs, query: &str, stop: &Stop) -> Result<Result<Figures, Exit>> {
    let program = std::env::current_exe().map_err(|error| Error::Io(format!("cannot find the program that is running: {error}")))?;
    let failed = |error: std::io::Error| Error::Io(format!("cannot run {query} in a process of its own: {error}"));
    let mut command = Command::new(program);
    command.args(args.for_one(query)?).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let status = loop {
        if let Some(reason) = stop.reason() {
            // It may have ended by itself, by the same Ctrl-C.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Err(reason));
        }
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => std::thread::sleep(POLL),
        }
    };
    if !status.success() {
        // It has said why.
        return Ok(Err(Exit::Failed));
    }
    let mut said = String::new();
    child.stdout.take().map(|mut out| out.read_to_string(&mut said)).transpose().map_err(failed)?;
    let figures = serde_json::from_str::<Value>(&said).ok().and_then(|said| Figures::from_json(&said));
    figures.map(Ok).ok_or_else(|| Error::Io(format!("{query} has ended without figures: '{said}'")))
}
