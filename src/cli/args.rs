//! The command line's grammar, and its help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use indicatif::HumanCount;

use super::bench::{Size, Workload};
use super::output::Format;
use crate::engine::Engine;
use crate::error::Error;
use crate::plan;
use crate::sql;
use crate::sql::duration::parse_duration;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a statement failed, a result holds errors of rows, a test differs, or `check --deny-unbounded` has found something
  2    the command line is wrong
  130  stopped by Ctrl-C

Examples:
  weir run queries/dau.sql
  weir explain queries/dau.sql
  weir check queries/dau.sql
  weir shell
  weir test tests/scripts

`weir help COMMAND` has more on each.";

const RUN_EXAMPLES: &str = "\
The script stops at the first statement that fails. When all bounded input has been read the command ends; with
unbounded input it goes on until Ctrl-C. Relative paths in the script's tables start from the script's folder.

Examples:
  weir run queries/dau.sql
  weir run queries/dau.sql --workers 2 --format json > dau.jsonl
  weir run queries/clicks.sql --set tick='1 s' --quiet
  weir run queries/dau.sql --state dau.state --checkpoint-every '10 s'
  echo 'SELECT 1 + 1 AS two;' | weir run -";

const STATE_EXAMPLES: &str = "\
Rows and bytes are what lies on disk; rows that have cancelled and were not merged yet are among them.

Examples:
  weir state dau.state
  weir state dau.state --verify";

const EXPLAIN_EXAMPLES: &str = "\
Runs the script's definitions and prints the plan of every view, job and query in it. No input is read.

Examples:
  weir explain queries/join.sql
  weir explain queries/join.sql --format mermaid > join.md";

const CHECK_EXAMPLES: &str = "\
Runs the script's definitions, reads no input, and prints a warning for

  state that nothing bounds: an arrangement without a state_ttl whose input only grows
  a state_ttl that is shorter than that of what it reads, whose changes come for what it has forgotten

Warnings are on standard output, their number on standard error. With --deny-unbounded the first kind is an error:
the exit code is 1.

Examples:
  weir check queries/dau.sql
  weir check queries/dau.sql --set state_ttl='7 days'
  weir check queries/join.sql --deny-unbounded || echo 'it may grow for ever'";

const AUDIT_EXAMPLES: &str = "\
Runs the script to the end of its input and keeps every view up to date twice: with its state_ttl and without. It prints
of each view the rows of the exact result, how many of them differ at the end and at worst, and the state that each of
the two keeps. A row differs that a consumer has too often or not often enough, by the changes it was told of.

The script's own results are not shown, and its sinks are not written. Retention follows the clock, so a script that
is to show what a ttl does moves a manual one: SET clock = 'manual', ADVANCE.

Examples:
  weir audit queries/dau.sql
  weir audit queries/dau.sql --set clock=manual --format csv";

const SHELL_EXAMPLES: &str = "\
A statement ends with ';' and may take several lines; \\? lists the shell's own commands. With a pipe on standard
input there are no prompts; a statement that fails is reported, the rest still runs, and the exit code is 1.

Examples:
  weir shell
  weir shell --workers 2
  cat queries/join.sql queries/shared_view.sql | weir shell --format csv";

const TEST_EXAMPLES: &str = "\
Each file gets an engine of its own. A query whose rows differ is shown with both, and the file goes on; a statement
that should have worked and failed ends its file. Of a folder, every .slt file in it runs. What a print sink
writes goes to standard error.

Examples:
  weir test tests/scripts
  weir test tests/scripts/views.slt tests/scripts/top_n.slt --workers 2";

const BENCH_EXAMPLES: &str = "\
Each query runs alone, in a process of its own, from made-up rows into a sink that keeps nothing. The rows are made
while the clock stands, a tick of some 16,000 at a time; a tick ends when the last change is in the sink. tpch loads its
tables so; then an order comes and another one goes, each with its lines, in one transaction, until it was 1 % of each.

  rows_per_s, per_core      rows of input by the time that the engine worked on them; the same by workers
  p50_ms, p99_ms, max_ms    how long a tick took; of tpch, a transaction after the load
  peak_mib                  the most memory that the process held
  state_rows, state_mib     what all arrangements hold at the end: see weir_arrangements

A release build says how fast it is; any other says how slow.

Examples:
  weir bench nexmark --queries q1,q5 --events 20000
  weir bench clicks --events 20000 --workers 2 --format csv
  weir bench dau --events 20000 --report dau.html
  weir bench tpch --queries q6 --scale 0.001";

/// SQL views kept up to date while their inputs change.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a script: results on standard output, progress and a summary on standard error
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Print the plans of a script's views and queries without reading any input
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Say what a script's views would remember for ever, without reading any input
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Run a script with and without its ttls side by side, and say what they cost
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
    /// Type statements and see what they do
    #[command(after_help = SHELL_EXAMPLES)]
    Shell(ShellArgs),
    /// Run sqllogictest scripts: statements in, expected rows beside them
    #[command(after_help = TEST_EXAMPLES)]
    Test(TestArgs),
    /// List the checkpoints in a folder, and what is in them
    #[command(after_help = STATE_EXAMPLES)]
    State(ListArgs),
    /// Measure how fast well-known queries are on this machine
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The script; '-' reads it from standard input
    #[arg(value_name = "F.sql")]
    pub script: PathBuf,
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub workers: Workers,
    /// How rows are printed [default: table on a terminal, otherwise csv]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Neither progress nor a summary
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Where a run keeps its state.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Keep the state in this folder, and go on from what an earlier run has left in it
    #[arg(long = "state", value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// How often to save the state while the script runs; it is saved at the end in any case
    #[arg(long, value_name = "INTERVAL", value_parser = interval, requires = "folder", default_value = "10 s")]
    pub checkpoint_every: Duration,
    /// Start anew what the script now defines otherwise, and all that reads it, rather than refuse to run it
    #[arg(long, requires = "folder")]
    pub discard_changed: bool,
}

/// A positive duration.
fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Some(milliseconds @ 1..)) => Ok(Duration::from_millis(milliseconds.unsigned_abs())),
        Ok(_) => Err("an interval is positive, such as '10 s'".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// The folder that `weir run --state` was given
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Read every byte, and fail if one is not as it was written
    #[arg(long)]
    pub verify: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The script; '-' reads it from standard input
    #[arg(value_name = "F.sql")]
    pub script: PathBuf,
    #[command(flatten)]
    pub settings: Settings,
    /// An indented tree, or a Markdown document with a Mermaid diagram a plan
    #[arg(long, value_enum, default_value_t)]
    pub format: PlanFormat,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The script; '-' reads it from standard input
    #[arg(value_name = "F.sql")]
    pub script: PathBuf,
    #[command(flatten)]
    pub settings: Settings,
    /// Fail if anything keeps state that nothing bounds
    #[arg(long)]
    pub deny_unbounded: bool,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The script; '-' reads it from standard input
    #[arg(value_name = "F.sql")]
    pub script: PathBuf,
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub workers: Workers,
    /// How the figures are printed [default: table]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

#[derive(Debug, Args)]
pub struct ShellArgs {
    #[command(flatten)]
    pub workers: Workers,
    /// How rows are printed [default: table on a terminal, otherwise csv]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Scripts, or folders of them
    #[arg(value_name = "FILES", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub workers: Workers,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to run
    #[arg(value_enum)]
    pub workload: Workload,
    /// Only these queries [default: all of the workload]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub queries: Vec<String>,
    /// How many events there are [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,
    /// Of tpch, how large it is: 1 is 8.7 million rows [default: 0.1]
    #[arg(long, value_name = "S", value_parser = scale)]
    scale: Option<f64>,
    #[command(flatten)]
    pub workers: Workers,
    /// How the figures are printed [default: table]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Write a page with the figures and their plots, too
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Run the query in this process, and print its figures as JSON
    #[arg(long, hide = true)]
    pub alone: bool,
}

impl BenchArgs {
    /// How much input there is.
    ///
    /// # Errors
    /// Where it is said in terms that the workload does not have.
    pub fn size(&self) -> Result<Size, Error> {
        match (self.workload, self.events, self.scale) {
            (Workload::Tpch, None, scale) => Ok(Size::Scale(scale.unwrap_or(0.1))),
            (Workload::Tpch, Some(_), _) => Err(Error::invalid("--events: tpch has no events; --scale says how large it is")),
            (_, events, None) => Ok(Size::Events(events.unwrap_or(1_000_000))),
            (workload, _, Some(_)) => {
                Err(Error::Invalid(format!("--scale: it is for tpch; --events says how large {} is", workload.name())))
            }
        }
    }

    /// The arguments that run one of the queries alone.
    ///
    /// # Errors
    /// As [`BenchArgs::size`].
    pub fn for_one(&self, query: &str) -> Result<Vec<String>, Error> {
        let (option, size) = match self.size()? {
            Size::Events(events) => ("--events", events.to_string()),
            Size::Scale(scale) => ("--scale", scale.to_string()),
        };
        let one = ["bench", self.workload.name(), "--alone", "--queries", query, option, &size, "--workers"].map(str::to_owned);
        Ok(one.into_iter().chain([self.workers.count().to_string()]).collect())
    }

    /// What was run, for people.
    pub fn described(&self) -> String {
        let workers = match self.workers.count() {
            1 => "1 worker".to_owned(),
            count => format!("{count} workers"),
        };
        let size = match self.size() {
            Ok(Size::Events(events)) => format!("{} events, ", HumanCount(events)),
            Ok(Size::Scale(scale)) => format!("scale {scale}, "),
            Err(_) => String::new(),
        };
        format!("{size}{workers}, weir {}", env!("CARGO_PKG_VERSION"))
    }
}

/// How many threads keep the views up to date.
#[derive(Debug, Args)]
pub struct Workers {
    /// Worker threads; any number gives the same results
    #[arg(long = "workers", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    count: u16,
}

impl Workers {
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }
}

/// `--format` of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    Mermaid,
}

impl From<PlanFormat> for plan::Format {
    fn from(format: PlanFormat) -> Self {
        match format {
            PlanFormat::Text => plan::Format::Text,
            PlanFormat::Mermaid => plan::Format::Mermaid,
        }
    }
}

/// What holds before a script's first statement.
#[derive(Debug, Args)]
pub struct Settings {
    /// A setting to begin with, as SET would; may be given several times
    #[arg(long = "set", value_name = "K=V", value_parser = setting)]
    all: Vec<Setting>,
}

impl Settings {
    /// Carries them out in the order in which they were given.
    ///
    /// # Errors
    /// That of the first SET that fails, with its name.
    pub fn apply(&self, engine: &Engine) -> Result<(), Error> {
        let set = |setting: &Setting| sql::parse(&setting.statement())?.iter().try_for_each(|parsed| engine.run_again(parsed).map(drop));
        let mut all = self.all.iter();
        all.try_for_each(|setting| set(setting).map_err(|error| Error::Invalid(format!("--set {}: {error}", setting.name))))
    }
}

/// One `--set`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
}

impl Setting {
    /// The statement that it stands for.
    pub fn statement(&self) -> String {
        format!("SET {} = '{}'", self.name, self.value.replace('\'', "''"))
    }
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=100.0).contains(&scale) => Ok(scale),
        _ => Err("a scale is a number from 0.001 to 100".into()),
    }
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("a setting is NAME=VALUE, such as clock=manual")?;
    let (name, value) = (name.trim(), value.trim());
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !name.split('.').all(is_word) {
        return Err(format!("'{name}' is not the name of a setting: one is letters, digits, '_' and '.'"));
    }
    Ok(Setting { name: name.into(), value: value.into() })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_grammar_is_free_of_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_keep_their_order_and_everything_after_the_first_equals_sign() {
        let Ok(Command::Run(args)) = parse("weir run f.sql --set a=1 --set x.y=p=q --workers 3") else { panic!("does not parse") };
        let settings: Vec<(&str, &str)> = args.settings.all.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
        assert_eq!(settings, [("a", "1"), ("x.y", "p=q")]);
        assert_eq!(args.workers.count(), 3);
    }

    #[test]
    fn every_command_that_reads_a_script_takes_settings() {
        for command in ["run", "explain", "check", "audit"] {
            assert!(parse(&format!("weir {command} f.sql --set a=1 --set b=2")).is_ok(), "{command}");
        }
    }

    #[test]
    fn a_setting_cannot_smuggle_in_a_statement() {
        assert_eq!(setting("tick=1 s'; DROP TABLE t").map(|s| s.statement()), Ok("SET tick = '1 s''; DROP TABLE t'".into()));
        assert!(setting("tick; DROP TABLE t=1").is_err());
        assert!(setting("a..b=1").is_err());
        assert!(setting("=1").is_err());
        assert!(setting("tick").is_err());
    }

    #[test]
    fn rows_take_three_formats_and_plans_two() {
        for format in ["table", "csv", "json"] {
            assert!(parse(&format!("weir run f.sql --format {format}")).is_ok());
        }
        assert!(parse("weir run f.sql --format mermaid").is_err());
        assert!(parse("weir explain f.sql --format mermaid").is_ok());
        assert!(parse("weir explain f.sql --format csv").is_err());
    }

    #[test]
    fn a_query_alone_is_measured_as_it_was_asked_for() {
        let Ok(Command::Bench(args)) = parse("weir bench nexmark --queries q1,q5 --events 77 --workers 3") else {
            panic!("does not parse")
        };
        assert_eq!(args.queries, ["q1", "q5"]);
        let again = ["weir".to_owned()].into_iter().chain(args.for_one("q5").expect("a size that nexmark has"));
        let Ok(Command::Bench(one)) = Cli::try_parse_from(again).map(|cli| cli.command) else { panic!("does not parse") };
        assert!(one.alone && one.queries == ["q5"] && one.size() == Ok(Size::Events(77)) && one.workers.count() == 3);
        assert!(parse("weir bench nexmark --events 0").is_err());
    }

    #[test]
    fn events_are_for_streams_and_a_scale_is_for_tpch() {
        let size = |line: &str| match parse(line) {
            Ok(Command::Bench(args)) => args.size().map_err(|error| error.to_string()),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(size("weir bench tpch"), Ok(Size::Scale(0.1)));
        assert_eq!(size("weir bench dau"), Ok(Size::Events(1_000_000)));
        assert!(size("weir bench tpch --events 7").is_err_and(|error| error.contains("--scale")));
        assert!(size("weir bench clicks --scale 0.5").is_err_and(|error| error.contains("--events")));
        assert!(parse("weir bench tpch --scale 0").is_err());
    }

    #[test]
    fn zero_workers_are_refused() {
        assert_eq!(parse("weir run f.sql --workers 0").map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::ValueValidation));
    }

    #[test]
    fn the_script_may_come_from_standard_input() {
        assert!(matches!(parse("weir run -"), Ok(Command::Run(args)) if args.script.as_os_str() == "-"));
    }

    #[test]
    fn a_command_that_is_not_there_is_unknown() {
        assert_eq!(parse("weir state folder").map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::InvalidSubcommand));
    }

    #[test]
    fn tests_need_a_file() {
        assert_eq!(parse("weir test").map(|_| ()).map_err(|e| e.kind()), Err(ErrorKind::MissingRequiredArgument));
    }
}
