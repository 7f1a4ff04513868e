//! The folder of checkpoints.
//!
//! ```text
//! DIR/lock                     held by the process that writes here
//! DIR/checkpoint-000017.weir   small states, and last the manifest that names all segments of the checkpoint
//! DIR/rows-000012-3.weir       one long batch, which one or both of the last checkpoints name
//! ```
//!
//! A checkpoint is written as `checkpoint-000018.tmp`, after the batches that it names, all of it is on disk before it is renamed,
//! and only then goes what nothing names any longer. So whenever the process dies there is a whole one, and what is half
//! written is swept away by the next that opens the folder.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use serde::{Deserialize, Serialize};

use super::segment::{Segments, Writer};
use super::states::{At, Batch, Checkpoint, PieceOnDisk, Remembered, StateOnDisk, WorkerState, taken, written};
use crate::dataflow::state::{Piece, State};
use crate::error::{Error, Result};
use crate::row::Time;
use crate::row::columns::AsColumns;

/// How many checkpoints stay.
const KEPT: usize = 2;

/// Updates of a batch that is long enough for a file of its own.
const LONG: usize = 1 << 14;

/// A folder of checkpoints, which this process alone writes to.
pub struct Store {
    folder: PathBuf,
    _lock: File,
    next: u64,
    /// The files that each of the last checkpoints names.
    named: Vec<(u64, BTreeSet<String>)>,
    /// Batches that have been written, by address.
    remembered: HashMap<usize, (Remembered, At, u64)>,
}

/// A checkpoint's contents, by segment.
#[derive(Serialize, Deserialize)]
struct Manifest {
    weir: String,
    now: Time,
    workers: usize,
    session: serde_json::Value,
    states: Vec<StateOnDisk>,
}

/// What writing a checkpoint came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub number: u64,
    /// Bytes of all that it names, and of what had to be written.
    pub bytes: u64,
    pub written: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { number, bytes, written } = self;
        write!(f, "CHECKPOINT {number}: {} of state, {} of them written", HumanBytes(*bytes), HumanBytes(*written))
    }
}

/// A checkpoint of a folder, as far as it says so itself.
pub struct Listed {
    pub number: u64,
    pub now: Time,
    pub workers: usize,
    pub states: Vec<StateOnDisk>,
}

impl Store {
    /// Opens a folder, which is made if it is not there, and reads the newest checkpoint that is whole. Also says what is wrong
    /// with newer ones.
    ///
    /// # Errors
    ///
    /// Another process has the folder; it cannot be written to; there are checkpoints and none is whole.
    pub fn open(folder: &Path) -> Result<(Self, Option<Checkpoint>, Vec<String>)> {
        fs::create_dir_all(folder).map_err(|error| unusable(folder, "made", &error))?;
        let lock = lock(folder)?;
        let numbers = numbers(folder)?;
        let (mut passed_over, mut newest) = (Vec::new(), None);
        let mut named = Vec::new();
        for number in numbers.iter().rev() {
            match read_manifest(folder, *number) {
                Ok(manifest) if newest.is_none() => {
                    let files = manifest.files(*number);
                    match manifest.read(folder, *number) {
                        Ok(checkpoint) => {
                            newest = Some(checkpoint);
                            named.push((*number, files));
                        }
                        Err(error) => passed_over.push(format!("checkpoint {number} is passed over: {error}")),
                    }
                }
                Ok(manifest) => named.push((*number, manifest.files(*number))),
                Err(error) => passed_over.push(format!("checkpoint {number} is passed over: {error}")),
            }
        }
        if newest.is_none() && !numbers.is_empty() {
            return Err(Error::Io(format!(
                "no checkpoint in {} is whole: {}; another folder starts anew",
                folder.display(),
                passed_over.join("; ")
            )));
        }
        named.reverse();
        let next = numbers.last().map_or(1, |last| last + 1);
        let store = Store { folder: folder.to_owned(), _lock: lock, next, named, remembered: HashMap::new() };
        Ok((store, newest, passed_over))
    }

    /// Writes a checkpoint and lets go of what only older ones than the last two need.
    ///
    /// # Errors
    ///
    /// The folder's disk is full, or it cannot be written to. What was there before stays.
    pub fn write(&mut self, checkpoint: Checkpoint) -> Result<Summary> {
        let number = self.next;
        let temporary = self.folder.join(format!("checkpoint-{number:06}.tmp"));
        let result = self.write_files(checkpoint, number, &temporary);
        if result.is_err() {
            // What is half written; the reason why is the error that matters.
            let _ = fs::remove_file(&temporary);
        }
        let (summary, files) = result?;
        self.next += 1;
        self.named.push((number, files));
        self.sweep();
        Ok(summary)
    }

    fn write_files(&mut self, checkpoint: Checkpoint, number: u64, temporary: &Path) -> Result<(Summary, BTreeSet<String>)> {
        self.remembered.retain(|_, (batch, ..)| batch.is_alive());
        let Checkpoint { now, workers, session, states, .. } = checkpoint;
        let mut writing = Writing {
            folder: &self.folder,
            remembered: &mut self.remembered,
            number,
            main: writer(temporary)?,
            segments: 0,
            files: 0,
            all: 0,
            new: 0,
        };
        let states = states.into_iter().map(|state| writing.state(state)).collect::<Result<Vec<_>>>()?;
        let manifest = Manifest { weir: env!("CARGO_PKG_VERSION").to_owned(), now, workers, session, states };
        let text = serde_json::to_vec(&manifest).map_err(|error| Error::invalid(format!("the manifest cannot be written: {error}")))?;
        writing.main.write(MANIFEST, &[("json", (&text).into())])?;
        let Writing { main, all, new, .. } = writing;
        let main_bytes = finish(main, temporary)?;
        let published = path(&self.folder, number);
        fs::rename(temporary, &published).map_err(|error| unusable(&published, "published", &error))?;
        sync_folder(&self.folder)?;
        Ok((Summary { number, bytes: all + main_bytes, written: new + main_bytes }, manifest.files(number)))
    }

    /// Removes all files but those that the last checkpoints name.
    fn sweep(&mut self) {
        let surplus = self.named.len().saturating_sub(KEPT);
        self.named.drain(..surplus);
        let named: BTreeSet<&String> = self.named.iter().flat_map(|(_, files)| files).collect();
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if (name.starts_with("checkpoint-") || name.starts_with("rows-")) && !named.contains(&name) {
                // It is in nobody's way; the next sweep tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The checkpoints of a folder, from the oldest on, whoever may be writing to it; with `verify` every byte of them is read.
    pub fn list(folder: &Path, verify: bool) -> Result<Vec<(u64, Result<Listed>)>> {
        let listed = |number: u64| {
            let manifest = read_manifest(folder, number)?;
            let Manifest { now, workers, states, .. } = &manifest;
            let listed = Listed { number, now: *now, workers: *workers, states: states.clone() };
            if verify {
                manifest.read(folder, number)?;
            }
            Ok(listed)
        };
        Ok(numbers(folder)?.into_iter().map(|number| (number, listed(number))).collect())
    }
}

/// The segment that names all others.
const MANIFEST: &str = "manifest";

type FileWriter = Writer<BufWriter<File>>;

/// A checkpoint that is being written.
struct Writing<'a> {
    folder: &'a Path,
    remembered: &'a mut HashMap<usize, (Remembered, At, u64)>,
    number: u64,
    main: FileWriter,
    segments: usize,
    files: usize,
    /// Bytes in files beside the main one: of all that is named, and of what is new.
    all: u64,
    new: u64,
}

impl Writing<'_> {
    fn state(&mut self, mut saved: WorkerState) -> Result<StateOnDisk> {
        saved.state.complete();
        let State { rows, sums, apart, counts, due, .. } = &saved.state;
        Ok(StateOnDisk {
            worker: saved.worker,
            dataflow: saved.dataflow,
            number: saved.number,
            name: saved.name.clone(),
            rows: rows.iter().map(|piece| self.piece(piece, &saved.name)).collect::<Result<_>>()?,
            sums: sums.iter().map(|piece| self.piece(piece, &saved.name)).collect::<Result<_>>()?,
            apart: apart.iter().map(|rows| Ok(self.small(rows, &saved.name)?.0)).collect::<Result<_>>()?,
            counts: counts.clone(),
            due: *due,
            rows_apart: apart.iter().map(crate::row::Updates::len).sum(),
        })
    }

    fn piece<B: Batch>(&mut self, piece: &Piece<B>, name: &str) -> Result<PieceOnDisk> {
        let (at, bytes) = match piece.batch.updates() {
            ..LONG => self.small(&piece.batch, name)?,
            LONG.. => self.long(&piece.batch, name)?,
        };
        Ok(PieceOnDisk { lower: piece.lower, upper: piece.upper, updates: piece.batch.updates(), bytes, at })
    }

    /// Something that is written each time.
    fn small(&mut self, what: &impl AsColumns, name: &str) -> Result<(At, u64)> {
        let bytes = written(what, |columns| self.main.write(name, columns))?.len;
        let at = At { file: file_name(self.number), segment: self.segments };
        self.segments += 1;
        Ok((at, bytes))
    }

    /// A batch in a file of its own, if it has none yet.
    fn long<B: Batch>(&mut self, batch: &B, name: &str) -> Result<(At, u64)> {
        if let Some((_, at, bytes)) = self.remembered.get(&batch.address()) {
            self.all += bytes;
            return Ok((at.clone(), *bytes));
        }
        let file = format!("rows-{:06}-{}.weir", self.number, self.files);
        let path = self.folder.join(&file);
        let mut writer = writer(&path)?;
        written(batch, |columns| writer.write(name, columns))?;
        let bytes = finish(writer, &path)?;
        self.files += 1;
        self.all += bytes;
        self.new += bytes;
        let at = At { file, segment: 0 };
        self.remembered.insert(batch.address(), (batch.remember(), at.clone(), bytes));
        Ok((at, bytes))
    }
}

impl Manifest {
    /// The files of a checkpoint.
    fn files(&self, number: u64) -> BTreeSet<String> {
        let segments = self.states.iter().flat_map(|state| {
            let pieces = state.rows.iter().chain(&state.sums).map(|piece| &piece.at);
            pieces.chain(&state.apart).map(|at| at.file.clone())
        });
        segments.chain([file_name(number)]).collect()
    }

    /// Reads all that it names.
    fn read(self, folder: &Path, number: u64) -> Result<Checkpoint> {
        let mut files = Files { folder, open: HashMap::new() };
        let states = self.states.into_iter().map(|state| files.state(state)).collect::<Result<_>>()?;
        Ok(Checkpoint { number, now: self.now, workers: self.workers, session: self.session, states })
    }
}

/// The files of a checkpoint that is being read.
struct Files<'a> {
    folder: &'a Path,
    open: HashMap<String, Segments<File>>,
}

impl Files<'_> {
    fn take<T: AsColumns>(&mut self, at: &At) -> Result<T> {
        if !self.open.contains_key(&at.file) {
            let segments = Segments::open(&self.folder.join(&at.file))?;
            self.open.insert(at.file.clone(), segments);
        }
        let Some(segments) = self.open.get_mut(&at.file) else { return Err(Error::invalid("a file that was opened is gone")) };
        let segment = segments.read(at.segment)?;
        let what = taken(&segment, &self.folder.join(&at.file).display().to_string())?;
        segments.recycle(segment);
        // One batch, one file: it is not needed again.
        if at.file.starts_with("rows-") {
            self.open.remove(&at.file);
        }
        Ok(what)
    }

    fn pieces<B: AsColumns>(&mut self, pieces: &[PieceOnDisk]) -> Result<Vec<Piece<B>>> {
        pieces.iter().map(|piece| Ok(Piece { lower: piece.lower, upper: piece.upper, batch: self.take(&piece.at)? })).collect()
    }

    fn state(&mut self, saved: StateOnDisk) -> Result<WorkerState> {
        let state = State {
            rows: self.pieces(&saved.rows)?,
            sums: self.pieces(&saved.sums)?,
            apart: saved.apart.iter().map(|at| self.take(at)).collect::<Result<_>>()?,
            counts: saved.counts,
            due: saved.due,
            later: None,
        };
        Ok(WorkerState { worker: saved.worker, dataflow: saved.dataflow, number: saved.number, name: saved.name, state })
    }
}

fn file_name(number: u64) -> String {
    format!("checkpoint-{number:06}.weir")
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(file_name(number))
}

/// The numbers of the checkpoints in a folder, ascending.
fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unusable(folder, "read", &error))? {
        let name = entry.map_err(|error| unusable(folder, "read", &error))?.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix("checkpoint-").and_then(|rest| rest.strip_suffix(".weir"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn read_manifest(folder: &Path, number: u64) -> Result<Manifest> {
    let path = path(folder, number);
    let mut segments = Segments::open(&path)?;
    let damaged = |what: String| Error::Damaged { file: path.display().to_string(), offset: 0, what };
    let last = segments.entries().len().checked_sub(1).ok_or_else(|| damaged("there is nothing in it".to_owned()))?;
    let segment = segments.read(last)?;
    serde_json::from_slice(segment.column::<u8>("json")?).map_err(|error| damaged(format!("its manifest cannot be read: {error}")))
}

fn writer(path: &Path) -> Result<FileWriter> {
    let file = File::create(path).map_err(|error| unusable(path, "written", &error))?;
    Ok(Writer::new(path.display().to_string(), BufWriter::with_capacity(1 << 20, file)))
}

/// Ends a file and has it on disk; gives its length.
fn finish(writer: FileWriter, path: &Path) -> Result<u64> {
    let (out, written) = writer.finish()?;
    let file = out.into_inner().map_err(|error| unusable(path, "written", error.error()))?;
    file.sync_all().map_err(|error| unusable(path, "written", &error))?;
    Ok(written.len)
}

/// Has a folder's names on disk.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unusable(folder, "written", &error))
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| unusable(&path, "written", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Io(format!("another process keeps its state in {}: give this one a folder of its own", folder.display())))
        }
        Err(TryLockError::Error(error)) => Err(unusable(&path, "locked", &error)),
    }
}

fn unusable(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::Io(format!("{} cannot be {what}: {error}", path.display()))
}
