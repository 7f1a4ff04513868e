//! The sinks that keep nothing: `print` and `blackhole`.

use std::fmt::Write;

use super::options::Options;
use super::{Changes, Output, Sink};
use crate::error::{Error, Result};
use crate::text;

/// Writes every change as a line: its kind and its values, as [`text::cell`] shows them.
pub(super) struct Print {
    prefix: String,
    out: Output,
    /// Kept between steps for its memory.
    lines: String,
}

impl Print {
    pub fn new(options: &Options, out: Output) -> Self {
        let prefix = options.get("print-identifier").map_or(String::new(), |identifier| format!("{identifier}> "));
        Print { prefix, out, lines: String::new() }
    }

    fn with_output(&self, action: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> Result<()> {
        // A writer that panicked elsewhere is still a writer.
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        action(&mut *out).map_err(|error| Error::Io(format!("the output of print cannot be written: {error}")))
    }
}

impl Sink for Print {
    fn write(&mut self, changes: &Changes) -> Result<()> {
        self.lines.clear();
        for (row, kind) in changes.kinds.iter().enumerate() {
            write!(self.lines, "{}{kind}[", self.prefix).expect("writing to a string does not fail");
            for (position, column) in changes.rows.columns().iter().enumerate() {
                if position > 0 {
                    self.lines.push_str(", ");
                }
                text::write_cell(&mut self.lines, column, row);
            }
            self.lines.push_str("]\n");
        }
        self.with_output(|out| out.write_all(self.lines.as_bytes()))
    }

    fn flush(&mut self) -> Result<()> {
        self.with_output(|out| out.flush())
    }

    fn commit(&mut self) -> Result<Option<u64>> {
        self.flush().map(|()| None)
    }
}

/// Drops every change.
pub(super) struct Blackhole;

impl Sink for Blackhole {
    fn write(&mut self, _changes: &Changes) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn commit(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}
