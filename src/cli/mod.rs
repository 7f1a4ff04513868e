//! The `weir` command: scripts, plans, what they remember and what forgetting costs, an interactive shell and golden scripts, from a terminal.
//!
//! What every command keeps to: standard output carries results and nothing else, so that it can be piped; progress,
//! summaries and errors go to standard error; the exit code says what came of it ([`Exit`]); Ctrl-C stops cleanly,
//! and a second one at once; a reader of our output that goes away (`| head`) ends the command without a complaint.

mod args;
mod audit;
pub mod bench;
mod check;
mod complete;
mod exit;
mod explain;
mod lines;
mod output;
mod progress;
mod run;
mod script;
mod shell;
mod state;
mod stdout;
mod stop;
mod streams;
pub mod test;

use std::process::ExitCode;

use clap::Parser;

pub use exit::Exit;

use args::{Cli, Command};
use stop::Stop;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) => {
            let exit = if help.use_stderr() { Exit::Usage } else { Exit::Ok };
            // Where even help cannot be written there is nobody to tell.
            let _ = help.print();
            return exit.into();
        }
    };
    let stop = Stop::on_interrupt();
    let result = match cli.command {
        Command::Run(args) => run::run(args, &stop),
        Command::Explain(args) => explain::explain(args, &stop),
        Command::Check(args) => check::check(args, &stop),
        Command::Audit(args) => audit::audit(args, &stop),
        Command::Shell(args) => shell::shell(args, &stop),
        Command::Test(args) => test::test(args, &stop),
        Command::State(args) => state::state(&args, &stop),
        Command::Bench(args) => bench::bench(args, &stop),
    };
    result
        .unwrap_or_else(|error| {
            progress::note(format_args!("error: {error}"));
            Exit::Failed
        })
        .into()
}
