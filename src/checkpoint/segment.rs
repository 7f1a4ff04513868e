//! Files of segments: columns of integers and bytes with names, checked before they are believed, used without a copy.
//!
//! What a [`Writer`] wrote, [`Segments`] reads: the same columns, or an error that names the file, the byte and what is wrong
//! there. A file that was cut, changed, or put together from others is an error, never other columns; and a file that was
//! forged, with the right checksums, is an error or other columns, never undefined behaviour (see [`in_place`]). What nobody
//! can see is that a whole file was replaced by another one: for that, keep its [`Written::checksum`] elsewhere.
//!
//! ```
//! use weir::checkpoint::segment::{Segments, Writer};
//! # use std::io::Cursor;
//!
//! # fn main() -> weir::Result<()> {
//! let (times, bytes) = (vec![3u64, 5], b"onetwo".to_vec());
//! let mut writer = Writer::new("state.0", Vec::new());
//! writer.write("orders", &[("times", (&times).into()), ("bytes", (&bytes).into())])?;
//! let (file, _) = writer.finish()?;
//!
//! let mut segments = Segments::of("state.0", Cursor::new(file))?;
//! let orders = segments.read(0)?;
//! assert_eq!(orders.name(), "orders");
//! assert_eq!(orders.column::<u64>("times")?, [3, 5]);
//! assert_eq!(orders.column::<u8>("bytes")?, b"onetwo");
//! # Ok(())
//! # }
//! ```
//!
//! # The format
//!
//! A file is segments, and an end. A segment is a head, a description, and columns as [`in_place`] has them; an end is a head
//! alone. A head is ten words of eight bytes, little-endian wherever it is written:
//!
//! | word | of a segment | of an end |
//! |---|---|---|
//! | 0 | magic `weir-seg` | magic `weir-end` |
//! | 1 | version of the format | same |
//! | 2 | [layout](in_place::layout) of vectors in memory | same |
//! | 3 | where in the file this head is, in bytes | same |
//! | 4 | segments before this one | segments |
//! | 5 | word 9 of the head before this one, 0 in the first | same |
//! | 6 | bytes of the description | 0 |
//! | 7 | bytes of the columns | 0 |
//! | 8 | checksum of the columns | 0 |
//! | 9 | checksum of the words before this one and of the description | same |
//!
//! So each head vouches for what is before it, and the end's word 9 for the whole file. The description is the segment's
//! name, and for each column its kind (a byte), the number of its elements (eight) and its name; a name has its length before it.
//!
//! A checksum is XXH3, 64 bits: it runs at the speed of memory, is no weaker than a CRC of as many bits against accidents,
//! and `twox-hash` is compiled anyway, for Arrow.
//!
//! # What it costs
//!
//! Memory: the segment that is being written, once, and of the one that is read its bytes. Opening a file reads its heads and
//! descriptions; [`Segments::read`] then reads one segment, in any order.

pub mod in_place;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use in_place::{Buffer, InPlace, Shape};
pub use in_place::{Column, Kind, Plain};
use twox_hash::XxHash3_64;

use crate::error::{Error, Result};

/// The version of the format that this program writes, and the only one that it reads.
pub const VERSION: u64 = 1;

/// Bytes that the names and counts of a segment's columns can take.
const LONGEST_DESCRIPTION: u64 = 1 << 20;

/// What has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// How many bytes it is.
    pub len: u64,
    /// A checksum of its head, its description and its columns (of a whole file: of all segments).
    pub checksum: u64,
}

/// A segment's head, or that of an end.
#[derive(Debug, Clone, Copy)]
struct Head {
    magic: u64,
    version: u64,
    layout: u64,
    offset: u64,
    index: u64,
    previous: u64,
    described: u64,
    payload: u64,
    checksum: u64,
    own_checksum: u64,
}

impl Head {
    const SEGMENT: u64 = u64::from_le_bytes(*b"weir-seg");
    const END: u64 = u64::from_le_bytes(*b"weir-end");
    const WORDS: usize = 10;
    const LEN: usize = Self::WORDS * 8;

    /// The head with the right checksum of its own, as bytes.
    fn seal(&mut self, description: &[u8]) -> [u8; Self::LEN] {
        self.own_checksum = self.expected(description);
        self.to_bytes()
    }

    /// What its own checksum must be.
    fn expected(&self, description: &[u8]) -> u64 {
        let mut checksum = XxHash3_64::new();
        checksum.write(&self.to_bytes()[..Self::LEN - 8]);
        checksum.write(description);
        checksum.finish()
    }

    /// Bytes to the next head.
    fn reach(&self) -> u64 {
        Self::LEN as u64 + self.described + self.payload
    }

    fn to_bytes(self) -> [u8; Self::LEN] {
        let Head { magic, version, layout, offset, index, previous, described, payload, checksum, own_checksum } = self;
        let words: [u64; Self::WORDS] = [magic, version, layout, offset, index, previous, described, payload, checksum, own_checksum];
        let mut bytes = [0; Self::LEN];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let mut words = [0; Self::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [magic, version, layout, offset, index, previous, described, payload, checksum, own_checksum] = words;
        Head { magic, version, layout, offset, index, previous, described, payload, checksum, own_checksum }
    }
}

/// Writes a file of segments, front to back.
///
/// It neither flushes nor syncs what it writes to before [`Writer::finish`], and never renames: a file is whole when `finish` has
/// returned, and durable when the caller has seen to it.
#[derive(Debug)]
pub struct Writer<W> {
    file: Arc<str>,
    out: W,
    offset: u64,
    index: u64,
    previous: u64,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which errors will call `file`.
    pub fn new(file: impl Into<Arc<str>>, out: W) -> Self {
        Writer { file: file.into(), out, offset: 0, index: 0, previous: 0, failed: false }
    }

    /// Where in the file the next segment begins: how many bytes have been written.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Writes a segment: columns that differ in their names. One of some megabytes has no part of its cost in heads.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be written, and from then on: what is in the file has no end that can be added to.
    pub fn write(&mut self, name: &str, columns: &[(&str, Column<'_>)]) -> Result<Written> {
        let description = Description::encode(name, columns);
        if description.len() as u64 > LONGEST_DESCRIPTION {
            let most = LONGEST_DESCRIPTION;
            return Err(Error::Invalid(format!(
                "{}: the names of a segment take {} bytes, and at most {most}",
                self.file,
                description.len()
            )));
        }
        let mut checksum = Checksum::default();
        encode(columns, &mut checksum).map_err(|error| unwritable(&self.file, self.offset, error))?;
        let (payload, checksum) = (checksum.len, checksum.state.finish());
        let head = Head { described: description.len() as u64, payload, checksum, ..self.head(Head::SEGMENT) };
        self.put(head, &description, columns)
    }

    /// Writes the end, and flushes. The file is whole then.
    pub fn finish(mut self) -> Result<(W, Written)> {
        let end = self.put(self.head(Head::END), &[], &[])?;
        let flushed = self.out.flush();
        flushed.map_err(|error| unwritable(&self.file, self.offset, error))?;
        Ok((self.out, Written { offset: 0, len: self.offset, checksum: end.checksum }))
    }

    /// A head at this place in the file, of nothing yet.
    fn head(&self, magic: u64) -> Head {
        let (offset, index, previous) = (self.offset, self.index, self.previous);
        Head {
            magic,
            version: VERSION,
            layout: in_place::layout(),
            offset,
            index,
            previous,
            described: 0,
            payload: 0,
            checksum: 0,
            own_checksum: 0,
        }
    }

    fn put(&mut self, mut head: Head, description: &[u8], columns: &[(&str, Column<'_>)]) -> Result<Written> {
        if self.failed {
            return Err(Error::Io(format!("{} cannot be written any further: writing it failed before", self.file)));
        }
        let mut start = head.seal(description).to_vec();
        start.extend_from_slice(description);
        let put = self.out.write_all(&start).and_then(|()| encode(columns, &mut self.out));
        if let Err(error) = put {
            self.failed = true;
            return Err(unwritable(&self.file, self.offset, error));
        }
        let written = Written { offset: self.offset, len: head.reach(), checksum: head.own_checksum };
        self.offset += written.len;
        self.index += 1;
        self.previous = written.checksum;
        Ok(written)
    }
}

fn encode(columns: &[(&str, Column<'_>)], out: &mut dyn Write) -> io::Result<()> {
    columns.iter().try_for_each(|(_, column)| column.encode(out))
}

/// Takes what is written for its checksum and its length.
#[derive(Default)]
struct Checksum {
    state: XxHash3_64,
    len: u64,
}

impl Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state.write(bytes);
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a segment is called, and its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Description {
    name: String,
    columns: Vec<(String, Shape)>,
}

impl Description {
    fn encode(name: &str, columns: &[(&str, Column<'_>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let put_name = |bytes: &mut Vec<u8>, name: &str| {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
        };
        put_name(&mut bytes, name);
        for (name, column) in columns {
            let Shape { kind, count } = column.shape();
            bytes.push(kind as u8);
            bytes.extend(count.to_le_bytes());
            put_name(&mut bytes, name);
        }
        bytes
    }

    /// What `encode` made these bytes of, if it did.
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        fn word(bytes: &mut &[u8]) -> Option<u64> {
            let (word, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(u64::from_le_bytes(*word))
        }
        fn name(bytes: &mut &[u8]) -> Option<String> {
            let len = usize::try_from(word(bytes)?).ok()?;
            let (name, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            String::from_utf8(name.to_vec()).ok()
        }
        let mut description = Description { name: name(&mut bytes)?, columns: Vec::new() };
        while let Some((tag, rest)) = bytes.split_first() {
            bytes = rest;
            let kind = *Kind::ALL.iter().find(|kind| **kind as u8 == *tag)?;
            let shape = Shape { kind, count: word(&mut bytes)? };
            description.columns.push((name(&mut bytes)?, shape));
        }
        Some(description)
    }

    /// Bytes of the columns, unless no file can have as many.
    fn payload(&self) -> Option<u64> {
        self.columns.iter().try_fold(0u64, |sum, (_, shape)| sum.checked_add(shape.encoded_len()?))
    }
}

/// What a file has to say about one of its segments.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Head, description and columns.
    pub written: Written,
    description: Arc<Description>,
    /// Bytes of the columns, and their checksum.
    payload: u64,
    checksum: u64,
}

impl Entry {
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Of each column its name, its kind and the number of its elements.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Kind, u64)> {
        self.description.columns.iter().map(|(name, shape)| (name.as_str(), shape.kind, shape.count))
    }
}

/// A file of segments, to read: as an iterator in the order they were written, or each by its number.
#[derive(Debug)]
pub struct Segments<R> {
    file: Arc<str>,
    source: R,
    whole: Written,
    entries: Vec<Entry>,
    next: usize,
    spare: Option<Buffer>,
}

impl Segments<File> {
    /// Opens a file, which is checked as [`Segments::of`] says.
    pub fn open(path: &Path) -> Result<Self> {
        let file: Arc<str> = path.display().to_string().into();
        let opened = File::open(path).map_err(|error| Error::Io(format!("{file} cannot be read: {error}")))?;
        Segments::of(file, opened)
    }
}

impl<R: Read + Seek> Segments<R> {
    /// Reads all heads of what errors will call `file`, up to its end. A segment's columns are read, and checked, when they
    /// are asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the file is not as it was written, or nothing that a [`Writer`] writes; [`Error::Unsupported`] if
    /// it is in another version of the format or from a program that lays out memory in another way; [`Error::Io`].
    pub fn of(file: impl Into<Arc<str>>, mut source: R) -> Result<Self> {
        let file = file.into();
        let len = source.seek(SeekFrom::End(0)).map_err(|error| unreadable(&file, 0, error))?;
        let mut entries = Vec::new();
        let (mut offset, mut previous) = (0, 0);
        loop {
            let mut at = At { file: &file, offset, len };
            let (head, description) = at.head(&mut source)?;
            at.check_place(&head, entries.len() as u64, previous)?;
            if head.magic == Head::END {
                at.check_end(&head)?;
                let whole = Written { offset: 0, len, checksum: head.own_checksum };
                return Ok(Segments { file, source, whole, entries, next: 0, spare: None });
            }
            let description = at.check_description(&head, &description)?;
            let written = Written { offset, len: head.reach(), checksum: head.own_checksum };
            entries.push(Entry { written, description: Arc::new(description), payload: head.payload, checksum: head.checksum });
            offset += head.reach();
            previous = head.own_checksum;
        }
    }

    /// The whole file, as [`Writer::finish`] described it.
    pub fn whole(&self) -> Written {
        self.whole
    }

    /// What there is to read.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Reads a segment.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if its columns are not as they were written; [`Error::Io`], also if there is no such segment.
    pub fn read(&mut self, index: usize) -> Result<Segment> {
        let Some(entry) = self.entries.get(index) else {
            return Err(Error::Io(format!("{} has no segment {index}: it has {}", self.file, self.entries.len())));
        };
        let (written, len) = (entry.written, entry.payload as usize);
        let start = written.offset + written.len - entry.payload;
        let spare = self.spare.take().filter(|buffer| (len..=2 * len).contains(&buffer.size()));
        let mut buffer = spare.unwrap_or_else(|| Buffer::new(len));
        let bytes = &mut buffer.bytes_mut()[..len];
        let read = self.source.seek(SeekFrom::Start(start)).and_then(|_| self.source.read_exact(bytes));
        read.map_err(|error| unreadable(&self.file, start, error))?;
        if XxHash3_64::oneshot(bytes) != entry.checksum {
            let what = format!("{len} bytes of columns of '{}' (segment {index}) do not have the checksum that was written", entry.name());
            return Err(damaged(&self.file, start, what));
        }
        let shapes = entry.description.columns.iter().map(|(_, shape)| *shape);
        let columns = InPlace::decode(buffer, shapes).map_err(|at| {
            damaged(&self.file, start + at, format!("this is not how a column of '{}' (segment {index}) begins", entry.name()))
        })?;
        Ok(Segment { file: self.file.clone(), offset: written.offset, description: entry.description.clone(), columns })
    }

    /// Takes back a segment that is not needed any longer: its memory is used for the next.
    pub fn recycle(&mut self, segment: Segment) {
        self.spare = Some(segment.columns.into_buffer());
    }
}

impl<R: Read + Seek> Iterator for Segments<R> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Result<Segment>> {
        let index = self.next;
        (index < self.entries.len()).then(|| {
            self.next += 1;
            self.read(index)
        })
    }
}

/// A segment that has been read and checked.
#[derive(Debug)]
pub struct Segment {
    file: Arc<str>,
    offset: u64,
    description: Arc<Description>,
    columns: InPlace,
}

impl Segment {
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// A column's elements, where they were read to.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if it has no such column, or one of another type.
    pub fn column<T: Plain>(&self, name: &str) -> Result<&[T]> {
        let wanted = T::KIND.name();
        let mut columns = self.description.columns.iter();
        let index = columns.position(|column| column.0 == name);
        if let Some(column) = index.and_then(|index| self.columns.column(index)) {
            return Ok(column);
        }
        let have: Vec<_> = self.description.columns.iter().map(|(name, shape)| format!("{name} {}", shape.kind.name())).collect();
        let what = format!("'{}' has no column {name} {wanted} (there is {})", self.name(), have.join(", "));
        Err(damaged(&self.file, self.offset, what))
    }
}

/// A place in a file of `len` bytes where a head should be.
struct At<'a> {
    file: &'a str,
    offset: u64,
    len: u64,
}

impl At<'_> {
    /// Reads a head and its description: of this format, with the right checksum, from a program with this one's layout.
    fn head(&mut self, source: &mut (impl Read + Seek)) -> Result<(Head, Vec<u8>)> {
        let left = self.len - self.offset;
        let mut bytes = [0; Head::LEN];
        let here = left.min(Head::LEN as u64) as usize;
        self.read(source, self.offset, &mut bytes[..here])?;
        let head = Head::from_bytes(&bytes);
        let magic = if here < 8 { 0 } else { head.magic };
        match magic {
            Head::SEGMENT | Head::END => {}
            _ if self.offset == 0 && here > 0 => {
                return self
                    .damaged(format!("this is not a file of a Weir checkpoint: it begins with '{}'", bytes[..here.min(8)].escape_ascii()));
            }
            _ if here < 8 => return self.cut(),
            _ => return self.damaged(format!("a segment or the end should begin here, and not '{}'", bytes[..8].escape_ascii())),
        }
        if here == Head::LEN && head.version != VERSION {
            let (file, at, version) = (self.file, self.offset + 8, head.version);
            return Err(Error::Unsupported(format!("{file} at byte {at}: format version {version}; this program reads version {VERSION}")));
        }
        if here < Head::LEN {
            return self.cut();
        }
        let most = LONGEST_DESCRIPTION.min(left - Head::LEN as u64);
        let mut description = vec![0; head.described.min(most) as usize];
        self.read(source, self.offset + Head::LEN as u64, &mut description)?;
        if head.described > most || head.own_checksum != head.expected(&description) {
            return self.damaged("the head of a segment or of the end does not have the checksum that was written");
        }
        if head.layout != in_place::layout() {
            let (file, at) = (self.file, self.offset + 16);
            let (theirs, ours) = (in_place::describe(head.layout), in_place::describe(in_place::layout()));
            return Err(Error::Unsupported(format!(
                "{file} at byte {at}: written by a program that lays out memory in another way ({theirs}; this one: {ours})"
            )));
        }
        Ok((head, description))
    }

    /// That a head was written for this place, after what is before it, and that all it is about is there.
    fn check_place(&self, head: &Head, index: u64, previous: u64) -> Result<()> {
        if (head.offset, head.index) != (self.offset, index) {
            let (offset, was) = (head.offset, head.index);
            return self.damaged(format!("segment {index} should be here, and not what was written at byte {offset} as segment {was}"));
        }
        if head.previous != previous {
            return self.damaged("this was written after other segments than those before it");
        }
        let left = self.len - self.offset - Head::LEN as u64 - head.described;
        if head.payload > left {
            return self.cut();
        }
        Ok(())
    }

    fn check_end(&self, head: &Head) -> Result<()> {
        if head.described != 0 || head.payload != 0 || head.checksum != 0 {
            return self.damaged("the end of the file describes a segment");
        }
        let left = self.len - self.offset - Head::LEN as u64;
        if left != 0 {
            return self.damaged(format!("the end of the file is here, and {left} bytes follow it"));
        }
        Ok(())
    }

    fn check_description(&self, head: &Head, description: &[u8]) -> Result<Description> {
        let found = Description::decode(description).filter(|description| description.payload() == Some(head.payload));
        found.map_or_else(|| self.damaged("the description of this segment does not fit its columns"), Ok)
    }

    fn read(&self, source: &mut (impl Read + Seek), offset: u64, bytes: &mut [u8]) -> Result<()> {
        let read = source.seek(SeekFrom::Start(offset)).and_then(|_| source.read_exact(bytes));
        read.map_err(|error| unreadable(self.file, offset, error))
    }

    fn cut<T>(&self) -> Result<T> {
        let len = self.len;
        self.damaged(format!("the file is cut off: it has {len} bytes, which is before the end of what begins here"))
    }

    fn damaged<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(damaged(self.file, self.offset, what))
    }
}

fn damaged(file: &str, offset: u64, what: impl Into<String>) -> Error {
    Error::Damaged { file: file.to_string(), offset, what: what.into() }
}

fn unreadable(file: &str, offset: u64, error: io::Error) -> Error {
    Error::Io(format!("{file} cannot be read at byte {offset}: {error}"))
}

fn unwritable(file: &str, offset: u64, error: io::Error) -> Error {
    Error::Io(format!("{file} cannot be written at byte {offset}: {error}"))
}
