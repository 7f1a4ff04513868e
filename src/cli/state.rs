//! `weir state`: what is in a folder of checkpoints.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanCount};

use super::Exit;
use super::args::ListArgs;
use super::output::unwritable;
use super::progress::{counted, note};
use super::stdout::Stdout;
use super::stop::Stop;
use crate::checkpoint::{Listed, Store};
use crate::engine::time;
use crate::error::Result;
use crate::text::instant;

/// Prints the checkpoints of a folder, the newest with all that it has. Fails if one is not whole.
pub fn state(args: &ListArgs, stop: &Stop) -> Result<Exit> {
    let mut listed = Store::list(&args.folder, args.verify)?;
    let newest = listed.pop();
    let mut exit = Exit::Ok;
    let mut text = String::new();
    for (number, checkpoint) in &listed {
        match checkpoint {
            Ok(checkpoint) => {
                let _ = writeln!(text, "{}", title(checkpoint));
            }
            Err(error) => {
                note(format_args!("checkpoint {number} is not whole: {error}"));
                exit = Exit::Failed;
            }
        }
    }
    match newest {
        None => note(format_args!("there is no checkpoint in {}", args.folder.display())),
        Some((number, Err(error))) => {
            note(format_args!("checkpoint {number} is not whole: {error}"));
            exit = Exit::Failed;
        }
        Some((_, Ok(newest))) => {
            let _ = writeln!(text, "{}\n\n{}", title(&newest), operators(&newest));
        }
    }
    let mut out = Stdout::new(stop);
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
    if args.verify && exit == Exit::Ok {
        note("every byte is as it was written");
    }
    Ok(exit)
}

/// A checkpoint in a line.
fn title(checkpoint: &Listed) -> String {
    let (rows, bytes) = checkpoint.states.iter().fold((0, 0), |(rows, bytes), state| (rows + state.rows(), bytes + state.bytes()));
    format!(
        "checkpoint {}: as of {}, {}, {}, {}",
        checkpoint.number,
        instant(time::ms(checkpoint.now)),
        counted(checkpoint.workers as u64, "worker"),
        counted(rows, "row"),
        HumanBytes(bytes)
    )
}

/// What each operator has, of all workers together.
fn operators(checkpoint: &Listed) -> String {
    struct Sum {
        name: String,
        rows: u64,
        bytes: u64,
        due: Option<(u64, u64)>,
    }
    let mut sums: BTreeMap<(u64, u32), Sum> = BTreeMap::new();
    for state in &checkpoint.states {
        let sum =
            sums.entry((state.dataflow, state.number)).or_insert_with(|| Sum { name: state.name.clone(), rows: 0, bytes: 0, due: None });
        sum.rows += state.rows();
        sum.bytes += state.bytes();
        sum.due = match (sum.due, state.due) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["view", "operator", "rows", "bytes", "first due", "last due"]);
    for column in [2, 3] {
        table.column_mut(column).into_iter().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    }
    for Sum { name, rows, bytes, due } in sums.values().filter(|sum| sum.rows > 0) {
        let (view, operator) = name.split_once(": ").unwrap_or(("", name));
        let shown = |due: Option<u64>| due.map_or(String::new(), |due| instant(due as i64));
        let (first, last) = (shown(due.map(|due| due.0)), shown(due.map(|due| due.1)));
        table.add_row([view, operator, &HumanCount(*rows).to_string(), &HumanBytes(*bytes).to_string(), &first, &last]);
    }
    table.to_string()
}
