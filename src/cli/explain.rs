//! `weir explain`: the plans of a script, without its input.

use std::io::Write;

use super::Exit;
use super::args::{ExplainArgs, PlanFormat};
use super::output::unwritable;
use super::script::Script;
use super::stdout::Stdout;
use super::stop::Stop;
use crate::engine::{Engine, Explained};
use crate::error::Result;
use crate::sql::statement::Parsed;

/// Prints the plans of a script: its definitions are made, nothing is read or changed. A statement that fails is
/// reported here, with its place.
pub fn explain(args: ExplainArgs, stop: &Stop) -> Result<Exit> {
    Script::define(&args.script, &args.settings, stop, |script, engine| statements(script, engine, args.format, stop))
}

fn statements(script: &Script, engine: &Engine, format: PlanFormat, stop: &Stop) -> Result<Exit> {
    let mut out = Stdout::new(stop);
    let mut any = false;
    let show = |parsed: &Parsed, plans: Vec<Explained>| {
        for plan in plans {
            let text = section(&format!("{} ({})", plan.of, script.place(parsed.line)), &plan.plan, format);
            let gap = if any { "\n" } else { "" };
            out.write_all(format!("{gap}{text}").as_bytes()).map_err(|error| unwritable(&error))?;
            any = true;
        }
        Ok(())
    };
    let exit = script.each(stop, |parsed| engine.explain(&parsed.text, format.into()), show)?;
    out.flush().map_err(|error| unwritable(&error))?;
    Ok(exit)
}

/// A plan under its title: as a SQL comment above a tree, or as a chapter of a Markdown document.
fn section(title: &str, plan: &str, format: PlanFormat) -> String {
    let plan = plan.trim_end();
    match format {
        PlanFormat::Text => format!("-- {title}\n{plan}\n"),
        PlanFormat::Mermaid => format!("### {title}\n\n```mermaid\n{plan}\n```\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_is_fenced_for_markdown() {
        let text = section("view v (q.sql:1)", "flowchart TD\n  a --> b\n", PlanFormat::Mermaid);
        assert_eq!(text, "### view v (q.sql:1)\n\n```mermaid\nflowchart TD\n  a --> b\n```\n");
    }
}
