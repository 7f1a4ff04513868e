//! `weir audit`: what each ttl of a script costs.

use std::fmt::Write as _;
use std::io::Write;

use super::Exit;
use super::args::{AuditArgs, Settings};
use super::output::{Format, Results, unwritable};
use super::progress::note;
use super::script::Script;
use super::stdout::Stdout;
use super::stop::Stop;
use crate::engine::{Audit, Audited, Engine, audited_rows};
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
    let out = Stdout::new(stop);
    Results::new(out.clone(), format).rows(&audited_rows(&all)?).map_err(|error| unwritable(&error))?;
    let said = remarks(&all);
    match format {
        Format::Table => out.clone().write_all(format!("\n{said}").as_bytes()).map_err(|error| unwritable(&error))?,
        // A program reads rows and nothing else.
        Format::Csv | Format::Json => note(said.trim_end()),
    }
    Ok(Exit::Ok)
}

/// What the table has no columns for: the first rows that differed, or why none did.
fn remarks(all: &[Audited]) -> String {
    let mut text = String::new();
    for audited in all {
        let Some(first) = audited.compared.as_ref().and_then(|compared| compared.first.as_ref()) else { continue };
        let _ = writeln!(text, "{} differs first at {}:", audited.name, instant(first.at));
        for (sign, row, when) in [('+', &first.added, "only with its ttl"), ('-', &first.missing, "missing with its ttl")] {
            if let Some(row) = row {
                let _ = writeln!(text, "  {sign} {row}  {when}");
            }
        }
    }
    let compared = || all.iter().filter_map(|audited| audited.compared.as_ref());
    if compared().next().is_none() {
        text.push_str("no view has a ttl\n");
    } else if compared().all(|compared| compared.state.expired == 0) {
        text.push_str("nothing expired in this run\n");
    } else if text.is_empty() {
        text.push_str("nothing that was published differs\n");
    }
    text
}
