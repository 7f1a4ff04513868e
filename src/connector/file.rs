//! Files and standard input, read: bytes come in, and what they mean is the format's.
//!
//! A [`TextSource`] moves bytes from an [`Input`] to a decoder. Files are read where they are asked for; a pipe is read by
//! a thread, because nothing else can wait for it and say after a while that there is nothing yet.
//!
//! When a batch is handed over, all that was decoded is in it. So the source's position is that of the first byte that the
//! decoder has not used, whatever else was read ahead.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

use super::format::{self, Decoder, Tail};
use super::options::Options;
use super::pace::PATIENCE;
use super::{Place, Position, Read, Skipped, Source, TextPosition, position};
use crate::error::{Error, Result};

/// How many bytes are read at a time.
const CHUNK: usize = 256 * 1024;
/// How many bytes are read at a time at most, into a buffer with a long record.
const LONGEST_CHUNK: usize = 4 * 1024 * 1024;
/// How many bytes a record may surely have; one that is longer by less than a chunk passes on one reading and not on another.
const LONGEST: usize = 16 * 1024 * 1024;
/// How many bytes make a batch that is full however few its rows are.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes before a position are part of it.
const KNOWN_BY: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Checks the options of files; gives whether a source never ends.
pub(super) fn check(options: &Options) -> Result<bool> {
    options.require("path")?;
    format::check(options)?;
    options.flag("follow")
}

/// Opens the files of a table for reading, in batches of at most so many rows.
pub(super) fn open_files(options: &Options, from: Option<&TextPosition>, rows: usize) -> Result<TextSource> {
    let path = options.spec.base.join(options.require("path")?);
    let follow = options.flag("follow")?;
    let from = from.filter(|from| !from.place.file.is_empty());
    let changed = |from: &TextPosition, why: &str| position::changed(&options.spec.name, &from.place.file, from.offset, why);
    let paths = list(&path).map_err(|error| from.map_or(error.clone(), |from| changed(from, &error.to_string())))?;
    if follow && (paths.len() != 1 || path.is_dir()) {
        let message = format!("table '{}': 'follow' = 'true' reads one file, and {} is not one", options.spec.name, path.display());
        return Err(Error::Invalid(message));
    }
    let mut input = Files { base: options.spec.base.clone(), paths: paths.into(), current: None, follow };
    if let Some(from) = from {
        input.go_to(from).map_err(|why| changed(from, &why))?;
    }
    let mut source = TextSource::new(Box::new(input), format::decoder(options)?, rows);
    if let Some(from) = from {
        source.go_on(from)?;
    }
    Ok(source)
}

/// Takes standard input for the caller, who is the only one to read it; false if somebody has it already.
pub fn claim_stdin() -> bool {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    !TAKEN.swap(true, Ordering::SeqCst)
}

/// Opens standard input for reading, which can be done once.
pub(super) fn open_stdin(options: &Options, from: Option<&TextPosition>, rows: usize) -> Result<TextSource> {
    let decoder = format::decoder(options)?;
    if !claim_stdin() {
        return Err(Error::Io(format!("table '{}': standard input is being read already, and can be read once", options.spec.name)));
    }
    TextSource::of_stream("stdin", std::io::stdin(), decoder, from, rows)
}

/// The files that a path stands for, in the order of their names.
fn list(path: &Path) -> Result<Vec<PathBuf>> {
    let (folder, pattern) = if path.is_dir() {
        (path, None)
    } else {
        match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (Some(folder), Some(pattern)) if pattern.contains('*') && !path.exists() => (folder, Some(pattern)),
            _ => {
                std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
                return Ok(vec![path.to_owned()]);
            }
        }
    };
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(here).map_err(|error| unreadable(here, &error))? {
        let name = entry.map_err(|error| unreadable(here, &error))?.file_name();
        let text = name.to_string_lossy();
        let path = folder.join(&name);
        if !is_hidden(&text) && pattern.is_none_or(|pattern| matches(pattern, &text)) && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() && pattern.is_some() {
        return Err(Error::Io(format!("{} cannot be read: no file has such a name", path.display())));
    }
    paths.sort();
    Ok(paths)
}

/// Whether a sink, in truncating its file, would destroy what a source reads.
pub(super) fn is_read(sink: &Options, source: &Options) -> Result<bool> {
    let path = |options: &Options| Ok::<_, Error>(options.spec.base.join(options.require("path")?));
    let (written, read) = (path(sink)?, path(source)?);
    let Some(written) = identity(&written) else { return Ok(false) };
    if identity(&read).is_some_and(|read| read == written) {
        return Ok(true);
    }
    let (Some(folder), Some(name)) = (written.parent(), written.file_name().map(|name| name.to_string_lossy())) else {
        return Ok(false);
    };
    let pattern = read.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains('*') && !read.exists());
    let (read_folder, takes) = match pattern {
        Some(pattern) => (read.parent().unwrap_or(Path::new("")).to_owned(), matches(&pattern, &name)),
        None => (read, true),
    };
    Ok(takes && !is_hidden(&name) && identity(&read_folder).is_some_and(|read| read == folder))
}

/// A path by which two names of one file are found to be the same: absolute, without links. The file need not be
/// there; None where its folder is not.
fn identity(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

/// Whether a file is left out where a folder or a pattern is read.
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

/// Whether a name is of a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{} cannot be read: {error}", path.display()))
}

/// What asking an input for bytes gives.
enum Filled {
    /// A file begins; its name, as messages show it.
    Begins(String),
    /// Bytes were appended.
    Bytes,
    /// Nothing now.
    Nothing,
    /// The file is at its end.
    Ends,
    /// There are no more files.
    Done,
}

/// Where bytes come from.
trait Input: Send {
    /// Appends bytes; returns soon.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<Filled>;
    fn is_bounded(&self) -> bool;
}

/// Files, one after the other.
struct Files {
    base: PathBuf,
    paths: VecDeque<PathBuf>,
    current: Option<(PathBuf, File, u64)>,
    follow: bool,
}

impl Files {
    /// A file's name, as messages show it.
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).display().to_string()
    }

    /// Goes on at a position; an error says why that cannot be.
    fn go_to(&mut self, from: &TextPosition) -> Result<(), String> {
        let found = self.paths.iter().position(|path| self.name(path) == from.place.file);
        let path = found.and_then(|found| self.paths.drain(..=found).next_back()).ok_or("it is gone")?;
        let mut file = File::open(&path).map_err(|error| error.to_string())?;
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        if length < from.offset {
            return Err(format!("it has only {length} bytes"));
        }
        let mut before = vec![0; from.before.len()];
        let start = SeekFrom::Start(from.offset.saturating_sub(before.len() as u64));
        file.seek(start).and_then(|_| file.read_exact(&mut before)).map_err(|error| error.to_string())?;
        if before != from.before {
            return Err("other bytes come before that than those that were read".into());
        }
        if length > from.offset && !from.begins_a_line() {
            return Err("something was appended to its last line, which was read as complete".into());
        }
        self.current = Some((path, file, from.offset));
        Ok(())
    }
}

impl TextPosition {
    /// Whether it is not behind a last line that nothing ended.
    fn begins_a_line(&self) -> bool {
        self.passing || self.before.is_empty() || self.before == BYTE_ORDER_MARK || self.before.ends_with(b"\n")
    }
}

impl Input for Files {
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<Filled> {
        let Some((path, file, read)) = &mut self.current else {
            let Some(path) = self.paths.pop_front() else { return Ok(Filled::Done) };
            let file = File::open(&path).map_err(|error| unreadable(&path, &error))?;
            let name = self.name(&path);
            self.current = Some((path, file, 0));
            return Ok(Filled::Begins(name));
        };
        // Twice as much each time, so that a long record is gone through a few times and not once a chunk.
        let count =
            file.take(buffer.len().clamp(CHUNK, LONGEST_CHUNK) as u64).read_to_end(buffer).map_err(|error| unreadable(path, &error))?;
        *read += count as u64;
        if count > 0 {
            return Ok(Filled::Bytes);
        }
        if !self.follow {
            self.current = None;
            return Ok(Filled::Ends);
        }
        let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        if length < *read {
            return Err(Error::Io(format!("{} cannot be followed any longer: it became shorter", path.display())));
        }
        std::thread::sleep(PATIENCE);
        Ok(Filled::Nothing)
    }

    fn is_bounded(&self) -> bool {
        !self.follow
    }
}

/// A stream that is read by a thread. The thread lives as long as the stream: nothing can wake it from a read.
struct Pipe {
    name: Option<String>,
    chunks: Receiver<std::io::Result<Vec<u8>>>,
    ended: bool,
}

impl Pipe {
    fn new(name: &str, mut stream: impl std::io::Read + Send + 'static) -> Result<Self> {
        let (sender, chunks) = sync_channel(4);
        let read = move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = stream.read(&mut chunk).map(|count| {
                    chunk.truncate(count);
                    chunk
                });
                let last = read.as_ref().map_or_else(|error| error.kind() != std::io::ErrorKind::Interrupted, Vec::is_empty);
                let interrupted = read.is_err() && !last;
                if !interrupted && sender.send(read).is_err() || last {
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new().name(format!("weir-{name}")).spawn(read);
        spawned.map_err(|error| Error::Io(format!("no thread for reading {name}: {error}")))?;
        Ok(Pipe { name: Some(name.to_owned()), chunks, ended: false })
    }
}

impl Input for Pipe {
    fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<Filled> {
        if let Some(name) = self.name.take() {
            return Ok(Filled::Begins(name));
        }
        if self.ended {
            return Ok(Filled::Done);
        }
        match self.chunks.recv_timeout(PATIENCE) {
            Ok(Ok(chunk)) if chunk.is_empty() => {}
            Ok(Ok(chunk)) => {
                buffer.extend_from_slice(&chunk);
                return Ok(Filled::Bytes);
            }
            Ok(Err(error)) => return Err(Error::Io(format!("standard input cannot be read: {error}"))),
            Err(RecvTimeoutError::Timeout) => return Ok(Filled::Nothing),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        self.ended = true;
        Ok(Filled::Ends)
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// Bytes of an input, decoded.
pub(super) struct TextSource {
    input: Box<dyn Input>,
    decoder: Box<dyn Decoder>,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are used up. The last few of them stay, for the position.
    used: usize,
    /// Where in the file the buffer begins.
    start: u64,
    tail: Tail,
    /// The file's first bytes have not been looked at.
    fresh: bool,
    /// The rest of a line that was too long is to be passed over.
    passing: bool,
    /// How many bytes went into the present batch.
    batch_bytes: usize,
}

impl TextSource {
    fn new(input: Box<dyn Input>, mut decoder: Box<dyn Decoder>, rows: usize) -> Self {
        decoder.rows_mut().batch = rows;
        let buffer = Vec::new();
        TextSource { input, decoder, buffer, used: 0, start: 0, tail: Tail::More, fresh: true, passing: false, batch_bytes: 0 }
    }

    /// A stream's text. From a position it is another one, before which something may have been skipped.
    fn of_stream(
        name: &str,
        stream: impl std::io::Read + Send + 'static,
        decoder: Box<dyn Decoder>,
        from: Option<&TextPosition>,
        rows: usize,
    ) -> Result<Self> {
        let mut source = TextSource::new(Box::new(Pipe::new(name, stream)?), decoder, rows);
        source.decoder.rows_mut().skipped = from.map_or_else(Skipped::default, |from| from.skipped.clone());
        Ok(source)
    }

    /// Goes on at a position, behind which the input is.
    fn go_on(&mut self, from: &TextPosition) -> Result<()> {
        self.decoder.begin(from.place.clone())?;
        self.decoder.rows_mut().skipped = from.skipped.clone();
        self.buffer = from.before.clone();
        self.used = self.buffer.len();
        self.start = from.offset.saturating_sub(self.used as u64);
        (self.fresh, self.passing) = (from.offset == 0, from.passing);
        Ok(())
    }

    /// Lets go of what is used up and no part of the position.
    fn forget_used(&mut self) {
        let known_by = self.used.saturating_sub(KNOWN_BY);
        self.buffer.drain(..known_by);
        self.used -= known_by;
        self.start += known_by as u64;
    }

    /// Decodes what is in the buffer, as far as it goes.
    fn decode(&mut self) -> Result<()> {
        if self.fresh && (self.buffer.len() >= BYTE_ORDER_MARK.len() || self.tail == Tail::End) {
            self.fresh = false;
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.used = BYTE_ORDER_MARK.len();
            }
        }
        if self.passing {
            self.pass_line();
        }
        if self.fresh || self.passing {
            return Ok(());
        }
        let used = self.decoder.decode(&self.buffer[self.used..], self.tail)?;
        self.used += used;
        self.batch_bytes += used;
        if !self.is_full() && self.buffer.len() - self.used > LONGEST {
            self.give_up_record()?;
        }
        Ok(())
    }

    /// Gets past a record that is longer than any may be.
    fn give_up_record(&mut self) -> Result<()> {
        let rest = &self.buffer[self.used..];
        if rest.contains(&b'\n') {
            self.used += self.decoder.decode(rest, Tail::TooLong)?;
        } else {
            let rows = self.decoder.rows_mut();
            let line = rows.place.line;
            rows.reject(line, &format!(": a line of more than {} MB", LONGEST >> 20));
            self.passing = true;
            self.pass_line();
        }
        Ok(())
    }

    fn pass_line(&mut self) {
        match self.buffer[self.used..].iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                self.used += end + 1;
                self.decoder.rows_mut().place.line += 1;
                self.passing = false;
            }
            None => self.used = self.buffer.len(),
        }
    }

    fn is_full(&self) -> bool {
        self.decoder.rows().room() == 0 || self.batch_bytes >= BATCH_BYTES
    }

    fn batch(&mut self) -> Result<Read> {
        self.batch_bytes = 0;
        self.decoder.rows_mut().take().map(Read::Batch)
    }
}

impl Source for TextSource {
    fn read(&mut self) -> Result<Read> {
        loop {
            self.decode()?;
            if self.is_full() {
                return self.batch();
            }
            if self.tail == Tail::End {
                (self.tail, self.used) = (Tail::More, self.buffer.len());
            }
            self.forget_used();
            match self.input.fill(&mut self.buffer)? {
                Filled::Bytes => {}
                Filled::Begins(name) => {
                    self.decoder.begin(Place::beginning_of(&name))?;
                    self.buffer.clear();
                    (self.start, self.used) = (0, 0);
                    (self.fresh, self.passing) = (true, false);
                }
                Filled::Ends => self.tail = Tail::End,
                Filled::Nothing if self.decoder.rows().is_empty() => return Ok(Read::Idle),
                Filled::Done if self.decoder.rows().is_empty() => return Ok(Read::End),
                Filled::Nothing | Filled::Done => return self.batch(),
            }
        }
    }

    fn is_bounded(&self) -> bool {
        self.input.is_bounded()
    }

    fn position(&self) -> Position {
        let rows = self.decoder.rows();
        Position::Text(TextPosition {
            place: rows.place.clone(),
            offset: self.start + self.used as u64,
            before: self.buffer[self.used.saturating_sub(KNOWN_BY)..self.used].to_vec(),
            passing: self.passing,
            skipped: rows.skipped.clone(),
        })
    }

    fn skipped(&self) -> Skipped {
        self.decoder.rows().skipped.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::connector::TableSpec;
    use crate::connector::pace::BATCH;
    use crate::text;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name) in [("*.csv", "a.csv"), ("a*", "a"), ("a*b*c", "a-b-b-c"), ("*", ""), ("day-*.csv", "day-1.csv")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.csv", "a.csv.gz"), ("a*b", "a"), ("ab*ba", "aba"), ("a*b*c", "acb")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    /// A stream that gives so many bytes at a time.
    struct Trickle(&'static [u8], usize);

    impl std::io::Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let (now, later) = self.0.split_at(self.1.min(self.0.len()));
            buffer[..now.len()].copy_from_slice(now);
            self.0 = later;
            Ok(now.len())
        }
    }

    /// The rows and the errors of a stream, as text, and its position.
    fn read(
        options: &[(&str, &str)],
        content: &'static str,
        size: usize,
        from: Option<&TextPosition>,
    ) -> (Vec<String>, Vec<String>, Position) {
        let fields = vec![Field::new("s", DataType::Utf8, true), Field::new("n", DataType::Int64, true)];
        let spec = TableSpec {
            name: "t".into(),
            schema: Arc::new(Schema::new(fields)),
            primary_key: Vec::new(),
            options: [("connector", "stdin")].iter().chain(options).map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            base: PathBuf::new(),
        };
        let decoder = format::decoder(&Options::new(&spec).unwrap()).unwrap();
        let mut source = TextSource::of_stream("in", Trickle(content.as_bytes(), size), decoder, from, BATCH).unwrap();
        let (mut batches, mut errors) = (Vec::new(), Vec::new());
        loop {
            match source.read().unwrap() {
                Read::Batch(batch) => {
                    batches.push(batch.rows);
                    errors.extend(batch.errors);
                }
                Read::Idle => {}
                Read::End => break,
            }
        }
        let rows = concat_batches(&spec.schema, &batches).unwrap();
        ((0..rows.num_rows()).map(|row| text::line(&rows, row).join("|")).collect(), errors, source.position())
    }

    #[test]
    fn where_a_stream_is_cut_into_pieces_does_not_matter() {
        let csv = "\u{feff}\"a\"\"\r\nb\",1\r\né,x\n\"q\"z,2\n\n,3\r\nc\n\"\"\"\",4\r\n\"open,5\nd,6";
        let json = "\u{feff}{\"s\":\"é\\n\",\"n\":1}\r\n\n{\"n\":x}\n{\"n\":2}";
        for size in 1..40 {
            let (rows, errors, _) = read(&[("format", "csv")], csv, size, None);
            assert_eq!(rows, ["a\"\r\nb|1", "NULL|3", "\"|4", "d|6"], "{size} bytes at a time");
            let lines: Vec<&str> = errors.iter().map(|error| &error[..10]).collect();
            assert_eq!(lines, ["in, line 3", "in, line 4", "in, line 7", "in, line 9"], "{size} bytes at a time");
            let (rows, errors, _) = read(&[("format", "json")], json, size, None);
            assert_eq!((rows, errors), (vec!["é\n|1".into(), "NULL|2".into()], vec!["in, line 3, column 6: expected a value".into()]));
        }
    }

    #[test]
    fn a_stream_that_is_gone_on_with_is_another_text_behind_what_was_skipped() {
        let options = [("format", "csv"), ("csv.header", "true"), ("on_error", "skip")];
        let (rows, _, Position::Text(left)) = read(&options, "s,n\na,1\nb,x\n", 5, None) else { panic!("text has a position in it") };
        assert_eq!((rows, left.skipped.rows), (vec!["a|1".to_owned()], 1));
        let (rows, _, Position::Text(left)) = read(&options, "n,s\n2,c\nx,d\n", 5, Some(&left)) else {
            panic!("text has a position in it")
        };
        assert_eq!(rows, ["c|2"]);
        let messages = ["in, line 3, column 2 (n): 'x' is not a BIGINT", "in, line 3, column 1 (n): 'x' is not a BIGINT"];
        assert_eq!(left.skipped, Skipped { rows: 2, first: messages.map(str::to_owned).to_vec() });
    }
}
