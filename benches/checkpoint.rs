//! What the codec of checkpoints costs, and what it buys.
//!
//! `cargo bench --bench checkpoint` writes ten million rows (their bytes, ends, times and diffs) in segments of 8 MiB, and
//! reads them back: to memory and from it, and to a file and from it, through the system's cache and without a sync. Beside
//! it does bincode the same with serde, bytes as bytes and not one by one, and without checksums. It prints GB/s of the
//! columns, medians of five; for scale, also the checksum alone and a copy alone.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Seek, Write};
use std::path::Path;
use std::time::Instant;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir::checkpoint::segment::{Segments, Writer};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;
const SEGMENT: usize = 8 << 20;

/// Rows as bytes, one after the other, where each ends, and each one's time and diff.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Rows {
    #[serde(serialize_with = "as_bytes", deserialize_with = "from_bytes")]
    bytes: Vec<u8>,
    ends: Vec<u32>,
    times: Vec<u64>,
    diffs: Vec<i64>,
}

fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

fn from_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Vec<u8>, E> {
            Err(E::custom("bincode reads into a buffer"))
        }
    }

    deserializer.deserialize_byte_buf(Bytes).map_err(D::Error::custom)
}

impl Rows {
    /// Rows of 16 to 40 bytes, until a segment is full or there are as many as said.
    fn make(from: usize, most: usize) -> Self {
        let mut rows = Rows { bytes: vec![], ends: vec![], times: vec![], diffs: vec![] };
        for row in from..from + most {
            let random = (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            let len = 16 + (random >> 32) as usize % 25;
            rows.bytes.extend(random.to_le_bytes().iter().cycle().take(len));
            rows.ends.push(rows.bytes.len() as u32);
            rows.times.push(row as u64 >> 8);
            rows.diffs.push(1);
            if rows.len() >= SEGMENT {
                break;
            }
        }
        rows
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.ends.len() * 4 + self.times.len() * 8 + self.diffs.len() * 8
    }

    fn view(&self) -> View<'_> {
        View { bytes: &self.bytes, ends: &self.ends, times: &self.times, diffs: &self.diffs }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct View<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
    times: &'a [u64],
    diffs: &'a [i64],
}

impl View<'_> {
    /// What any use of the columns has to look at, and no more.
    fn touch(self) -> u64 {
        let (byte, end) = (self.bytes.last().map(|byte| u64::from(*byte)), self.ends.last().map(|end| u64::from(*end)));
        let (time, diff) = (self.times.last().copied(), self.diffs.last().map(|diff| diff.unsigned_abs()));
        [byte, end, time, diff].into_iter().flatten().sum()
    }
}

/// Sees each segment as it is read.
type Look<'a> = &'a mut dyn FnMut(usize, View<'_>);

fn weir_write(rows: &[Rows], out: impl Write) {
    let mut writer = Writer::new("bench", out);
    for rows in rows {
        let Rows { bytes, ends, times, diffs } = rows;
        let columns = [("bytes", bytes.into()), ("ends", ends.into()), ("times", times.into()), ("diffs", diffs.into())];
        writer.write("rows", &columns).expect("it can be written");
    }
    writer.finish().expect("it can be written");
}

fn weir_read(source: impl Read + Seek, look: Look<'_>) {
    let mut segments = Segments::of("bench", source).expect("it was written");
    for index in 0..segments.entries().len() {
        let segment = segments.read(index).expect("it was written");
        let column = "every column was written";
        let (bytes, ends) = (segment.column("bytes").expect(column), segment.column("ends").expect(column));
        let (times, diffs) = (segment.column("times").expect(column), segment.column("diffs").expect(column));
        look(index, View { bytes, ends, times, diffs });
        segments.recycle(segment);
    }
}

fn bincode_write(rows: &[Rows], mut out: impl Write) {
    for rows in rows {
        bincode::serialize_into(&mut out, rows).expect("it can be written");
    }
    out.flush().expect("it can be written");
}

fn bincode_read(mut source: impl Read, segments: usize, look: Look<'_>) {
    for index in 0..segments {
        let rows: Rows = bincode::deserialize_from(&mut source).expect("it was written");
        look(index, rows.view());
    }
}

/// GB/s of so many bytes, the median of several runs; one before them warms up.
fn rate(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    bytes as f64 / seconds[RUNS / 2] / 1e9
}

fn create(path: &Path) -> File {
    File::create(path).expect("the folder for temporary files can be written")
}

fn open(path: &Path) -> File {
    File::open(path).expect("it was written")
}

fn main() {
    // `cargo bench -- --test` only asks whether it runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let count = if quick { 100_000 } else { 10_000_000 };
    let (mut rows, mut made) = (Vec::new(), 0);
    while made < count {
        rows.push(Rows::make(made, count - made));
        made += rows.last().map_or(0, |rows| rows.ends.len());
    }
    let bytes = rows.iter().map(Rows::len).sum::<usize>();
    println!("{count} rows, {:.0} MB in {} segments; GB/s, medians of {RUNS}", bytes as f64 / 1e6, rows.len());
    println!("{:<28} {:>8} {:>8} {:>12} {:>12}", "", "encode", "decode", "write file", "read file");

    let path = std::env::temp_dir().join(format!("weir-bench-checkpoint-{}", std::process::id()));
    let expected: u64 = rows.iter().map(|rows| rows.view().touch()).sum();
    let touched = |read: &dyn Fn(Look<'_>)| {
        let mut sum = 0;
        read(&mut |_, view| sum += view.touch());
        assert_eq!(sum, expected);
    };
    let print =
        |name: &str, rates: [f64; 4]| println!("{name:<28} {:>8.2} {:>8.2} {:>12.2} {:>12.2}", rates[0], rates[1], rates[2], rates[3]);

    let mut encoded = Vec::new();
    let encode = rate(bytes, || {
        encoded.clear();
        weir_write(&rows, &mut encoded);
    });
    weir_read(Cursor::new(&encoded), &mut |index, view| assert_eq!(view, rows[index].view()));
    let decode = rate(bytes, || touched(&|look| weir_read(Cursor::new(&encoded), look)));
    let write = rate(bytes, || weir_write(&rows, create(&path)));
    let read = rate(bytes, || touched(&|look| weir_read(open(&path), look)));
    print("weir, with checksums", [encode, decode, write, read]);

    let encode = rate(bytes, || {
        encoded.clear();
        bincode_write(&rows, &mut encoded);
    });
    bincode_read(encoded.as_slice(), rows.len(), &mut |index, view| assert_eq!(view, rows[index].view()));
    let decode = rate(bytes, || touched(&|look| bincode_read(encoded.as_slice(), rows.len(), look)));
    let write = rate(bytes, || bincode_write(&rows, BufWriter::with_capacity(1 << 20, create(&path))));
    let read = rate(bytes, || touched(&|look| bincode_read(BufReader::with_capacity(1 << 20, open(&path)), rows.len(), look)));
    print("bincode, without", [encode, decode, write, read]);

    let mut copy = vec![0; encoded.len()];
    let copied = rate(encoded.len(), || copy.copy_from_slice(&encoded));
    let checksum = rate(encoded.len(), || {
        std::hint::black_box(twox_hash::XxHash3_64::oneshot(&copy));
    });
    println!("for scale: the checksum alone {checksum:.2}, a copy alone {copied:.2}");
    std::fs::remove_file(&path).expect("it was written");
}
