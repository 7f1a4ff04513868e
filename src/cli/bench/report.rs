//! The report: a file that needs nothing else.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::figures::Figures;
use super::page;
use crate::cli::args::BenchArgs;
use crate::error::{Error, Result};

/// A file that is there, for what is to be written into it.
pub struct Report {
    path: PathBuf,
    file: File,
}

impl Report {
    /// Makes the file, so that a run does not end with a report that cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| unwritten(path, &error))?;
        Ok(Report { path: path.to_owned(), file })
    }

    pub fn write(mut self, args: &BenchArgs, all: &[Figures]) -> Result<()> {
        let page = page::page(args.workload, args.workers.count(), &args.described(), all)?;
        self.file.write_all(page.as_bytes()).and_then(|()| self.file.flush()).map_err(|error| unwritten(&self.path, &error))
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("cannot write the report '{}': {error}", path.display()))
}
