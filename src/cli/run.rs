//! `weir run`: a script from its first statement to the end of its input.

use std::io::Write;
use std::path::Path;

use super::Exit;
use super::args::{RunArgs, Settings, StateArgs};
use super::output::{Format, Results};
use super::progress::{Notes, Progress};
use super::script::{Said, Script, execute};
use super::stdout::{self, Stdout};
use super::stop::{POLL, Stop};
use super::streams::Streams;
use crate::engine::{Engine, Resumed};
use crate::error::{Error, Result};

/// Runs a script. A statement that fails is reported here, with its place; other errors are the caller's to report.
pub fn run(args: RunArgs, stop: &Stop) -> Result<Exit> {
    let Some(script) = Script::read_unless(stop, &args.script)? else { return Ok(stop.reason().unwrap_or(Exit::Interrupted)) };
    let mut progress = Progress::start(args.quiet);
    let out = Stdout::new(stop).around(progress.bar());
    let engine = engine(&args, &script.base, Box::new(out.clone()), progress.notes())?;
    progress.watch(&engine);

    let results = Results::new(out, Format::or_default(args.format, stdout::is_terminal()));
    let notes = progress.notes();
    let mut run = Run { engine: engine.clone(), script, results, streams: Streams::default(), notes, stop: stop.clone() };
    let result = stop.supervise(&engine, move || run.everything(&args.settings));
    let unread = stop.reason() == Some(Exit::Ok);
    progress.finish((!unread).then_some(&engine));
    result
}

/// The engine for a script, which begins with what an earlier run has left if it is to.
fn engine(args: &RunArgs, base: &Path, out: Box<dyn Write + Send>, notes: Notes) -> Result<Engine> {
    let StateArgs { folder, checkpoint_every, discard_changed } = &args.state;
    let builder = Engine::builder().workers(args.workers.count()).base(base).output(out);
    match folder {
        None => builder.build(),
        Some(folder) => {
            let failed = move |error: &Error| notes.say(format_args!("warning: the state was not saved: {error}"));
            builder.state(folder).checkpoint_every(*checkpoint_every, failed).discard_changed(*discard_changed).build()
        }
    }
}

/// A script on its way.
struct Run {
    engine: Engine,
    script: Script,
    results: Results<Stdout>,
    streams: Streams,
    notes: Notes,
    stop: Stop,
}

impl Run {
    /// Runs everything, and writes what the subscriptions still have to say, whatever came of it.
    fn everything(&mut self, settings: &Settings) -> Result<Exit> {
        let result = self.script_and_input(settings);
        let streamed = self.streams.end();
        result.and_then(|exit| streamed.map(|()| exit))
    }

    /// Runs the statements, reads the bounded input to its end and waits out the unbounded.
    fn script_and_input(&mut self, settings: &Settings) -> Result<Exit> {
        self.say_resumed();
        settings.apply(&self.engine)?;
        if !self.statements() {
            return Ok(Exit::Failed);
        }
        for gone in self.engine.forget_the_rest()? {
            self.notes.say(format_args!("note: {gone} is gone: it was in the saved state and the script does not define it any longer"));
        }
        self.input()
    }

    /// Says with what the engine has begun.
    fn say_resumed(&self) {
        let Resumed { checkpoint, passed_over } = self.engine.resumed();
        passed_over.iter().for_each(|what| self.notes.say(format_args!("warning: {what}")));
        if let Some(number) = checkpoint {
            self.notes.say(format_args!("going on from checkpoint {number}"));
        }
    }

    /// Whether all statements went well; reports the first that does not, and stops there.
    fn statements(&mut self) -> bool {
        for parsed in self.script.statements() {
            if self.stop.is_raised() {
                break;
            }
            let failure = match parsed {
                Err(failure) => failure,
                Ok(parsed) => {
                    let result = execute(&self.engine, &parsed, &mut self.results).and_then(|said| match said {
                        Said::Changes(changes) => self.streams.start(changes, self.results.stream()),
                        // What was done without rows is nobody's result.
                        Said::Nothing | Said::Tag(_) => Ok(()),
                    });
                    match result {
                        Ok(()) => {
                            if let Some(said) = self.script.note(&self.engine, &parsed) {
                                self.notes.say(said);
                            }
                            continue;
                        }
                        Err(error) => self.script.failed(&parsed, &error),
                    }
                }
            };
            if !self.stop.is_raised() {
                self.notes.say(format_args!("error: {failure}"));
            }
            return false;
        }
        true
    }

    /// Waits until there is nothing left to read. Errors of rows are told as soon as the bounded input is read, but
    /// while more may come they may still go away, so they do not end the run.
    fn input(&self) -> Result<Exit> {
        match self.engine.finish() {
            Err(Error::Data(message)) if self.engine.stats().unbounded => self.notes.say(format_args!("warning: {message}")),
            result => result?,
        }
        if !self.engine.stats().unbounded {
            return Ok(Exit::Ok);
        }
        while self.engine.stats().unbounded {
            if let Some(reason) = self.stop.reason() {
                return Ok(reason);
            }
            std::thread::sleep(POLL);
        }
        // An unbounded job ends before Ctrl-C only when it fails; the engine knows why.
        self.engine.finish()?;
        Ok(Exit::Ok)
    }
}
