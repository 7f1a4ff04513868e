//! `weir check`: what a script would remember for ever, without its input.

use std::io::Write;

use super::Exit;
use super::args::CheckArgs;
use super::output::unwritable;
use super::progress::{counted, note};
use super::script::Script;
use super::stdout::Stdout;
use super::stop::Stop;
use crate::engine::{Engine, Finding};
use crate::error::Result;
use crate::sql::statement::Parsed;

/// Prints what there is to say of a script's views and jobs: its definitions are made, nothing is read or changed. A
/// statement that fails is reported here, with its place.
pub fn check(args: CheckArgs, stop: &Stop) -> Result<Exit> {
    Script::define(&args.script, &args.settings, stop, |script, engine| statements(script, engine, args.deny_unbounded, stop))
}

fn statements(script: &Script, engine: &Engine, deny_unbounded: bool, stop: &Stop) -> Result<Exit> {
    let mut out = Stdout::new(stop);
    let (mut warnings, mut unbounded) = (0, 0);
    let mut check = engine.check();
    let show = |parsed: &Parsed, findings: Vec<Finding>| {
        for finding in findings {
            warnings += 1;
            unbounded += usize::from(finding.is_unbounded());
            let text = format!("{}: warning: {finding}\n    {}\n", script.place(parsed.line), finding.advice());
            out.write_all(text.as_bytes()).map_err(|error| unwritable(&error))?;
        }
        Ok(())
    };
    let exit = script.each(stop, |parsed| check.statement(parsed), show)?;
    out.flush().map_err(|error| unwritable(&error))?;
    if exit == Exit::Ok {
        note(counted(warnings, "warning"));
    }
    Ok(if deny_unbounded && unbounded > 0 { Exit::Failed } else { exit })
}
