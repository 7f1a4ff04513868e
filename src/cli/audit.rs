//! `weir audit`: what each ttl of a script costs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

use indicatif::{HumanBytes, HumanCount};

use super::Exit;
use super::args::{AuditArgs, Settings};
use super::output::{Format, Results, unwritable};
use super::progress::{counted, note};
use super::script::Script;
use super::stdout::Stdout;
use super::stop::Stop;
use crate::engine::runtime::Footprint;
use crate::engine::{Audit, Audited, Compared, Engine, FirstDifference, audited_rows};
use crate::error::Result;
use crate::text::instant;

/// Runs a script to the end of its input, every view beside itself without its ttl, and prints how they differ. A statement
/// that fails is reported here, with its place.
pub fn audit(args: AuditArgs, stop: &Stop) -> Result<Exit> {
    let Some(script) = Script::read_unless(stop, &args.script)? else { return Ok(stop.reason().unwrap_or(Exit::Interrupted)) };
    let engine = Engine::builder().workers(args.workers.count()).base(&script.base).build()?;
    let audited = engine.clone();
    let ends = stop.clone();
    stop.supervise(&engine, move || everything(&script, &audited, &args.settings, args.format.unwrap_or(Format::Table), &ends))
}

fn everything(script: &Script, engine: &Engine, settings: &Settings, format: Format, stop: &Stop) -> Result<Exit> {
    let audit = engine.audit()?;
    settings.apply(engine)?;
    let exit = script.each(stop, |parsed| audit.statement(parsed), |_, ()| Ok(()))?;
    if exit == Exit::Ok && !stop.is_raised() { report(&audit, format, stop) } else { Ok(exit) }
}

fn report(audit: &Audit, format: Format, stop: &Stop) -> Result<Exit> {
    let all = audit.report()?;
    let mut out = Stdout::new(stop);
    match format {
        Format::Table => {
            let mut text: String = all.iter().map(block).collect();
            if let Some(said) = summary(&all) {
                let _ = writeln!(text, "\n{said}");
            }
            out.write_all(text.as_bytes()).map_err(|error| unwritable(&error))?;
        }
        // A program reads rows and nothing else.
        Format::Csv | Format::Json => {
            Results::new(out, format).rows(&audited_rows(&all)?).map_err(|error| unwritable(&error))?;
            for audited in &all {
                if let Some(first) = audited.compared.as_ref().and_then(|compared| compared.first.as_ref()) {
                    note(format!("{} {}", audited.name, first_difference(first, "").trim_end()));
                }
            }
            summary(&all).into_iter().for_each(note);
        }
    }
    Ok(Exit::Ok)
}

/// How wide a line is for people, at most.
const WIDTH: usize = 100;

/// What was found of a view, for people.
fn block(audited: &Audited) -> String {
    let (Some(ttls), Some(compared)) = (&audited.ttls, &audited.compared) else { return format!("{}: no ttl\n", audited.name) };
    let Compared { rows, differ, worst, worst_at, first, state, exact_state } = compared;
    let differ = match worst_at {
        None => "none ever differs".to_owned(),
        Some(at) => format!("{} at the end, {} at worst ({})", differing(*differ), HumanCount(*worst), instant(*at)),
    };
    let kept = |state: &Footprint| format!("{}, {}", counted(state.rows, "row"), HumanBytes(state.bytes));
    let mut text = wrapped(&format!("{}: {ttls}", audited.name));
    let _ = writeln!(text, "  {}; {differ}; {} expired", counted(*rows, "row"), counted(state.expired, "scope"));
    let _ = writeln!(text, "  state {}; without a ttl {}", kept(state), kept(exact_state));
    if let Some(first) = first {
        let _ = write!(text, "  {}", first_difference(first, "  "));
    }
    text
}

fn differing(rows: u64) -> String {
    match rows {
        0 => "none differs".to_owned(),
        1 => "1 differs".to_owned(),
        rows => format!("{} differ", HumanCount(rows)),
    }
}

/// The first rows that differed, a line each.
fn first_difference(first: &FirstDifference, indent: &str) -> String {
    let mut text = format!("differs first at {}:\n", instant(first.at));
    for (sign, row, when) in [('+', &first.added, "only with its ttl"), ('-', &first.missing, "missing with its ttl")] {
        if let Some(row) = row {
            let room = WIDTH - indent.len() - "  + ".len() - "  ".len() - when.len();
            let _ = writeln!(text, "{indent}  {sign} {}  {when}", clipped(row, room));
        }
    }
    text
}

/// The beginning of a text that is longer than there is room for.
fn clipped(text: &str, room: usize) -> Cow<'_, str> {
    if text.chars().count() <= room { text.into() } else { text.chars().take(room - 1).chain(['…']).collect::<String>().into() }
}

/// A line as several, broken between words.
fn wrapped(line: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            text.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
    text
}

/// What there is to say of all together, if nothing differs.
fn summary(all: &[Audited]) -> Option<&'static str> {
    let compared = || all.iter().filter_map(|audited| audited.compared.as_ref());
    if compared().next().is_none() {
        Some("no view has a ttl")
    } else if compared().all(|compared| compared.state.expired == 0) {
        Some("nothing expired in this run")
    } else if compared().all(|compared| compared.first.is_none()) {
        Some("nothing that was published differs")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_at_most_a_hundred_columns_wide_whatever_its_rows_and_ttls() {
        let row = |c: &str| Some(format!("({})", c.repeat(300)));
        let (state, exact_state) = (Footprint { rows: 9 << 40, bytes: 9 << 50, expired: 9 << 20 }, Footprint::default());
        let first = FirstDifference { at: 0, added: row("a"), missing: row("ä") };
        let compared =
            Compared { rows: 1, differ: 0, worst: 2, worst_at: Some(253_402_300_799_999), first: Some(first), state, exact_state };
        let ttls = ["3 days by [a_column, another_column] (retract)"; 9].join(", ");
        let text = block(&Audited { name: "v".repeat(60), ttls: Some(ttls.clone()), compared: Some(compared) });
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width <= 100), "{widths:?}\n{text}");
        let said: Vec<&str> = text.split_whitespace().collect();
        assert!(said.join(" ").contains(&ttls), "all ttls are there: {text}");
        assert_eq!(text.matches('…').count(), 2, "{text}");
    }
}
