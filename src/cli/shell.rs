//! `weir shell`: statements as they are typed, or as they come through a pipe.
//!
//! On a terminal a failing statement costs nothing but its message, Ctrl-C gives up the line (or the subscription
//! that is being watched), and Ctrl-D ends. Through a pipe there are no prompts; what follows a failing statement
//! still runs, and the exit code is 1; SUBSCRIBE does not hold up what follows it.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use super::Exit;
use super::args::ShellArgs;
use super::complete::Names;
use super::lines::{Input, Lines};
use super::output::{Format, Results, unwritable};
use super::progress::{note, skips};
use super::script::{Failure, Said, Script, execute};
use super::stdout::{self, Stdout};
use super::stop::Stop;
use super::streams::{Streams, follow};
use crate::connector::claim_stdin;
use crate::engine::{Engine, Outcome};
use crate::error::{Error, Result};
use crate::sql::statement::Parsed;

const HELP: &str = r"A statement ends with ';' and may take several lines. The shell's own commands:
  \d          tables and views
  \d NAME     the columns of a table or view
  \i FILE     run the statements of a file
  \timing     show how long each statement takes, or no longer
  \?          this help
  \q          quit (also Ctrl-D)
Ctrl-C gives up the line, or ends a SUBSCRIBE.
";

/// The shell's own commands, for messages.
const COMMANDS: &[&str] = &[r"\d", r"\i", r"\timing", r"\?", r"\q"];

/// How deep files may run files: deeper than anyone nests them, and short of any stack's end.
const MAX_DEPTH: usize = 16;

/// Runs the shell until its input ends.
pub fn shell(args: ShellArgs, stop: &Stop) -> Result<Exit> {
    let out = Stdout::new(stop);
    let engine = Engine::builder().workers(args.workers.count()).output(Box::new(out.clone())).build()?;
    let interactive = std::io::stdin().is_terminal();
    // What comes in are statements: a table that asked for the rest of it would wait for us as we for it.
    claim_stdin();
    let results = Results::new(out.clone(), Format::or_default(args.format, stdout::is_terminal()));
    let streams = Streams::default();
    let mut shell =
        Shell { engine: engine.clone(), out, results, streams, stop: stop.clone(), interactive, timing: false, failed: false, depth: 0 };
    if interactive {
        let ended = shell.converse();
        stop.clear_interrupt();
        stop.shutdown(&engine)?;
        ended.map(|()| Exit::Ok)
    } else {
        stop.supervise(&engine, move || shell.pipe())
    }
}

/// Whether there is to be more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Quit,
}

struct Shell {
    engine: Engine,
    out: Stdout,
    results: Results<Stdout>,
    streams: Streams,
    stop: Stop,
    interactive: bool,
    timing: bool,
    /// Whether anything has failed.
    failed: bool,
    /// How many files are being run, one from the other.
    depth: usize,
}

impl Shell {
    /// Reads statements from a person.
    fn converse(&mut self) -> Result<()> {
        let mut editor = editor(&self.engine)?;
        let history = history_file();
        if let Some(history) = &history {
            // The first time there is none.
            let _ = editor.load_history(history);
        }
        note(format_args!(r"weir {}; \? for help, \q to quit", env!("CARGO_PKG_VERSION")));
        let mut lines = Lines::default();
        let mut typed = String::new();
        loop {
            let prompt = if lines.is_pending() { "   -> " } else { "weir> " };
            let line = match editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    lines.abandon();
                    typed.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(Error::Io(format!("cannot read from the terminal: {error}"))),
            };
            if !typed.is_empty() {
                typed.push('\n');
            }
            typed.push_str(&line);
            let input = lines.push(&line);
            if !lines.is_pending() {
                // A history that cannot grow is no reason to stop.
                let _ = editor.add_history_entry(std::mem::take(&mut typed).as_str());
            }
            self.stop.clear_interrupt();
            if let Some(input) = input
                && self.take(input, "typed") == Next::Quit
            {
                break;
            }
            // Nobody reads the answers any more.
            if self.stop.reason() == Some(Exit::Ok) {
                break;
            }
        }
        if let Some(history) = &history {
            let _ = history.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(history);
        }
        Ok(())
    }

    /// Reads statements from a pipe, then waits for the bounded input of the jobs that they started.
    fn pipe(&mut self) -> Result<Exit> {
        let read = self.read(std::io::stdin().lock(), "stdin").and_then(|_| self.engine.finish());
        let streamed = self.streams.end();
        skips(&self.engine).into_iter().for_each(note);
        read.and(streamed)?;
        Ok(if self.failed { Exit::Failed } else { Exit::Ok })
    }

    /// Runs everything in a text; what fails is reported, and the rest still runs.
    fn read(&mut self, text: impl BufRead, source: &str) -> Result<Next> {
        let mut lines = Lines::default();
        for line in text.lines() {
            let line = line.map_err(|error| Error::Io(format!("cannot read {source}: {error}")))?;
            let Some(input) = lines.push(&line) else { continue };
            if self.stop.is_raised() || self.take(input, source) == Next::Quit {
                return Ok(Next::Quit);
            }
        }
        Ok(lines.rest().map_or(Next::Go, |input| self.take(input, source)))
    }

    /// Does what was asked; `source` is where it was, for messages.
    fn take(&mut self, input: Input, source: &str) -> Next {
        let started = Instant::now();
        let next = match input {
            Input::Command(line) => self.command(&line).unwrap_or_else(|error| {
                self.complain(Failure::of(&error));
                Next::Go
            }),
            Input::Statements { text, line } => {
                self.statements(&Script { name: source.into(), text, base: PathBuf::from("."), first_line: line });
                if self.timing {
                    note(format_args!("Time: {:.3} ms", started.elapsed().as_secs_f64() * 1e3));
                }
                Next::Go
            }
        };
        if let Err(error) = self.out.flush() {
            note(format_args!("error: {}", unwritable(&error)));
        }
        next
    }

    /// Runs statements until one does not parse, since where the next begins is then unknown.
    fn statements(&mut self, script: &Script) {
        for parsed in script.statements() {
            if self.stop.is_raised() {
                return;
            }
            match parsed {
                Err(failure) => return self.complain(self.placed(failure)),
                Ok(statement) => match self.statement(&statement) {
                    Err(error) => self.complain(self.placed(script.failed(&statement, &error))),
                    // To a person the outcome says it.
                    Ok(()) if self.is_typed() => {}
                    Ok(()) => script.note(&self.engine, &statement).into_iter().for_each(note),
                },
            }
        }
    }

    fn statement(&mut self, statement: &Parsed) -> Result<()> {
        match execute(&self.engine, statement, &mut self.results)? {
            Said::Changes(mut changes) => {
                let mut stream = self.results.stream();
                if self.interactive {
                    let stop = self.stop.clone();
                    return follow(&mut changes, &mut stream, move || stop.is_raised());
                }
                return self.streams.start(changes, stream);
            }
            Said::Tag(tag) if self.is_typed() => note(tag),
            Said::Tag(_) | Said::Nothing => {}
        }
        Ok(())
    }

    /// A command of the shell's own.
    fn command(&mut self, line: &str) -> Result<Next> {
        let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (command, argument.trim().trim_end_matches(';')) {
            (r"\q", "") => return Ok(Next::Quit),
            (r"\?", "") => self.out.write_all(HELP.as_bytes()).map_err(|error| unwritable(&error))?,
            (r"\d", "") => self.show("SHOW TABLES; SHOW VIEWS")?,
            (r"\d", name) => self.show(&format!("SHOW COLUMNS FROM {name}"))?,
            (r"\timing", "") => {
                self.timing = !self.timing;
                note(format_args!("Timing is {}.", if self.timing { "on" } else { "off" }));
            }
            (r"\i", "") => return Err(Error::invalid(r"\i needs the file to run: \i FILE")),
            (r"\i", file) => return self.file(Path::new(file)),
            _ if COMMANDS.contains(&command) => return Err(Error::Invalid(format!(r"{command} takes no argument; \? lists the commands"))),
            _ => return Err(Error::unknown("command", command, COMMANDS.iter().copied())),
        }
        Ok(Next::Go)
    }

    fn show(&mut self, sql: &str) -> Result<()> {
        for outcome in self.engine.execute(sql)? {
            if let Outcome::Rows(rows) = outcome {
                self.results.rows(&rows).map_err(|error| unwritable(&error))?;
            }
        }
        Ok(())
    }

    /// Runs a file's statements and commands. Quitting in it ends the file only.
    fn file(&mut self, path: &Path) -> Result<Next> {
        if self.depth == MAX_DEPTH {
            return Err(Error::Invalid(format!(
                "'{}' is the {}th file to run another: does one run itself?",
                path.display(),
                MAX_DEPTH + 1
            )));
        }
        let script = Script::read(path)?;
        self.depth += 1;
        let read = self.read(script.text.as_bytes(), &script.name);
        self.depth -= 1;
        read.map(|_| Next::Go)
    }

    /// Whether a person has just typed what is being run.
    fn is_typed(&self) -> bool {
        self.interactive && self.depth == 0
    }

    /// A failure as it is told.
    fn placed(&self, failure: Failure) -> Failure {
        if self.is_typed() { failure.typed() } else { failure }
    }

    fn complain(&mut self, failure: Failure) {
        self.failed = true;
        // In a pipe that was stopped everything fails, and everyone knows why.
        if self.interactive || !self.stop.is_raised() {
            note(format_args!("error: {failure}"));
        }
    }
}

fn editor(engine: &Engine) -> Result<Editor<Names, FileHistory>> {
    let config = Config::builder().max_history_size(10_000).map(|config| config.auto_add_history(false).build());
    let mut editor =
        config.and_then(Editor::with_config).map_err(|error| Error::Io(format!("cannot edit lines on this terminal: {error}")))?;
    editor.set_helper(Some(Names::of(engine)));
    Ok(editor)
}

/// Where history is kept: under the user's data folder, by the XDG convention. None without a home.
fn history_file() -> Option<PathBuf> {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("weir").join("history"))
}
