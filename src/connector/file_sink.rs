//! Files that changes are written to.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::format::{self, Encoder};
use super::options::Options;
use super::{Changes, Sink, position};
use crate::error::{Error, Result};

/// How many bytes are kept back at most before they go to the file.
const CHUNK: usize = 256 * 1024;

/// The files that this process is writing. Two writers of one would write over each other's lines.
static WRITTEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The right to write a file, until it is dropped.
struct Claim(Option<PathBuf>);

impl Claim {
    /// Claims a file that is open. A device or a pipe takes any number of writers.
    fn new(path: &Path, file: &File) -> Result<Claim> {
        let unwritable = |error: std::io::Error| unwritable(path, &error);
        if !file.metadata().map_err(unwritable)?.is_file() {
            return Ok(Claim(None));
        }
        let identity = path.canonicalize().map_err(unwritable)?;
        if !WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.clone()) {
            return Err(Error::Io(format!(
                "{} is being written by another job already: write to another file, or one job of both queries with UNION ALL",
                path.display()
            )));
        }
        Ok(Claim(Some(identity)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(identity) = &self.0 {
            WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).remove(identity);
        }
    }
}

/// Writes changes to a file. A file has one sink at a time.
pub(super) struct FileSink {
    path: PathBuf,
    file: std::io::BufWriter<File>,
    /// Given back after the file is flushed and closed: fields are dropped in order.
    claim: Claim,
    encoder: Box<dyn Encoder>,
    /// Kept between steps for its memory.
    text: String,
    /// The file's name outlasts a crash too.
    is_listed: bool,
}

impl FileSink {
    /// Opens a table's file, which is truncated; or cut back to a length at which it was committed, and gone on with there.
    pub fn open(options: &Options, at: Option<u64>) -> Result<Self> {
        let path = options.spec.base.join(options.require("path")?);
        let mut encoder = format::encoder(options)?;
        let unwritable = |error: std::io::Error| unwritable(&path, &error);
        let changed = |at, why: &str| position::changed(&options.spec.name, &path.display().to_string(), at, why);
        let goes_on = at.is_some();
        let file = File::options().write(true).create(!goes_on).truncate(false).open(&path);
        let mut file = file.map_err(|error| match at {
            Some(at) => changed(at, &error.to_string()),
            None => unwritable(error),
        })?;
        let claim = Claim::new(&path, &file)?;
        let length = file.metadata().map_err(unwritable)?.len();
        if let Some(at) = at.filter(|at| length < *at) {
            return Err(changed(at, &format!("it has only {length} bytes")));
        }
        if claim.0.is_some() {
            let length = at.unwrap_or_default();
            file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length))).map_err(unwritable)?;
        }
        let mut text = String::new();
        if !goes_on {
            encoder.begin(&mut text);
        }
        let file = std::io::BufWriter::with_capacity(CHUNK, file);
        let mut sink = FileSink { path, file, claim, encoder, text, is_listed: goes_on };
        sink.put()?;
        Ok(sink)
    }

    fn put(&mut self) -> Result<()> {
        let written = self.file.write_all(self.text.as_bytes());
        self.text.clear();
        written.map_err(|error| unwritable(&self.path, &error))
    }
}

impl Sink for FileSink {
    fn write(&mut self, changes: &Changes) -> Result<()> {
        // What stands before the change that is refused is not written either: a step is written whole or not at all.
        if let Err(error) = self.encoder.encode(changes, &mut self.text) {
            self.text.clear();
            return Err(error);
        }
        self.put()
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| unwritable(&self.path, &error))
    }

    fn commit(&mut self) -> Result<Option<u64>> {
        self.flush()?;
        let Some(path) = &self.claim.0 else { return Ok(None) };
        let unwritable = |error: std::io::Error| unwritable(&self.path, &error);
        let file = self.file.get_mut();
        file.sync_data().map_err(unwritable)?;
        if !self.is_listed {
            sync_folder_of(path).map_err(unwritable)?;
            self.is_listed = true;
        }
        file.stream_position().map(Some).map_err(unwritable)
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{} cannot be written: {error}", path.display()))
}

/// Makes the names in a file's folder outlast a crash, which on Unix is the folder's own affair.
fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}
