//! Standard output, shared: by result rows, print sinks and subscriptions, around a progress line.
//!
//! Every writer has its own [`Stdout`]. One `write` call reaches the terminal whole, so writers hand over whole
//! lines. A reader that has gone away raises the [`Stop`] flag and is no error: what is written afterwards is dropped.

use std::io::{self, IsTerminal, Write};

use indicatif::ProgressBar;

use super::stop::Stop;

/// A handle on standard output.
#[derive(Clone)]
pub struct Stdout {
    stop: Stop,
    /// The progress line to step around, where both are on a terminal.
    bar: Option<ProgressBar>,
}

impl Stdout {
    pub fn new(stop: &Stop) -> Self {
        Stdout { stop: stop.clone(), bar: None }
    }

    /// Steps around a progress line.
    pub fn around(self, bar: Option<ProgressBar>) -> Self {
        Stdout { bar: bar.filter(|_| is_terminal()), ..self }
    }

    /// What a reader that has gone away makes of a write: nothing left to do.
    fn unless_unread<T>(&self, result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.stop.unread();
                Ok(otherwise)
            }
            result => result,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(bytes).map(|()| bytes.len())
        };
        let result = match &self.bar {
            Some(bar) => bar.suspend(|| write().and_then(|n| io::stdout().flush().map(|()| n))),
            None => write(),
        };
        self.unless_unread(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_unread(io::stdout().flush(), ())
    }
}

/// Whether a person looks at standard output.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Exit;

    #[test]
    fn a_broken_pipe_is_a_reason_to_stop_and_not_an_error() {
        let stop = Stop::default();
        let out = Stdout::new(&stop);
        let written = out.unless_unread(Err(io::ErrorKind::BrokenPipe.into()), 5);
        assert_eq!(written.ok(), Some(5));
        assert_eq!(stop.reason(), Some(Exit::Ok));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let stop = Stop::default();
        let out = Stdout::new(&stop);
        assert!(out.unless_unread::<()>(Err(io::ErrorKind::StorageFull.into()), ()).is_err());
        assert_eq!(stop.reason(), None);
    }
}
