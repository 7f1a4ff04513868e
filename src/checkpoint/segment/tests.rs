use std::io::Cursor;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const FILE: &str = "state.7";
const HEAD: usize = Head::LEN;
/// Miri is some hundred times slower.
const ROUNDS: u64 = if cfg!(miri) { 30 } else { 5_000 };

/// A column that is owned, to compare with.
#[derive(Debug, Clone, PartialEq)]
enum Owned {
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
}

impl Owned {
    fn borrowed(&self) -> Column<'_> {
        match self {
            Owned::U8(column) => column.into(),
            Owned::U32(column) => column.into(),
            Owned::U64(column) => column.into(),
            Owned::I64(column) => column.into(),
        }
    }

    fn random(random: &mut StdRng, longest: usize) -> Self {
        let len = if random.random_bool(0.2) { 0 } else { random.random_range(0..=longest) };
        match random.random_range(0..4) {
            0 => Owned::U8((0..len).map(|_| random.random()).collect()),
            1 => Owned::U32((0..len).map(|_| random.random()).collect()),
            2 => Owned::U64((0..len).map(|_| random.random()).collect()),
            _ => Owned::I64((0..len).map(|_| random.random()).collect()),
        }
    }

    fn read(segment: &Segment, name: &str, kind: Kind) -> Result<Self> {
        Ok(match kind {
            Kind::U8 => Owned::U8(segment.column(name)?.to_vec()),
            Kind::U32 => Owned::U32(segment.column(name)?.to_vec()),
            Kind::U64 => Owned::U64(segment.column(name)?.to_vec()),
            Kind::I64 => Owned::I64(segment.column(name)?.to_vec()),
        })
    }
}

type Content = Vec<(String, Vec<(String, Owned)>)>;

fn random_content(random: &mut StdRng) -> Content {
    let longest = if cfg!(miri) { 12 } else { 40 };
    let segment = |random: &mut StdRng, index: usize| {
        let columns = random.random_range(0..5);
        let columns = (0..columns).map(|column| (format!("column {column}"), Owned::random(random, longest))).collect();
        (format!("segment {index}"), columns)
    };
    let segments = random.random_range(0..5);
    (0..segments).map(|index| segment(random, index)).collect()
}

fn written(content: &Content) -> (Vec<u8>, Vec<Written>) {
    let mut writer = Writer::new(FILE, Vec::new());
    let mut places = Vec::new();
    for (name, columns) in content {
        let columns: Vec<_> = columns.iter().map(|(name, column)| (name.as_str(), column.borrowed())).collect();
        places.push(writer.write(name, &columns).unwrap());
    }
    let (bytes, whole) = writer.finish().unwrap();
    assert_eq!(whole.len, bytes.len() as u64);
    places.push(whole);
    (bytes, places)
}

fn read(bytes: &[u8]) -> Result<Content> {
    let mut segments = Segments::of(FILE, Cursor::new(bytes))?;
    let shapes: Vec<Vec<(String, Kind)>> =
        segments.entries().iter().map(|entry| entry.columns().map(|(name, kind, _)| (name.to_string(), kind)).collect()).collect();
    let mut content = Content::new();
    for columns in shapes {
        let segment = segments.next().expect("a segment for each entry")?;
        let read = columns.into_iter().map(|(name, kind)| Owned::read(&segment, &name, kind).map(|column| (name, column)));
        content.push((segment.name().to_string(), read.collect::<Result<_>>()?));
        segments.recycle(segment);
    }
    assert!(segments.next().is_none());
    Ok(content)
}

fn refusal(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(content) => panic!("read as {content:?}"),
        Err(error) => error.to_string(),
    }
}

/// Two segments: of "ab" columns of all kinds, and of one that is empty.
fn sample() -> Content {
    let all = vec![
        ("bytes".to_string(), Owned::U8(b"weir".to_vec())),
        ("ends".to_string(), Owned::U32(vec![1, 4, u32::MAX])),
        ("times".to_string(), Owned::U64(vec![7, u64::MAX])),
        ("diffs".to_string(), Owned::I64(vec![-1, i64::MIN, i64::MAX])),
    ];
    vec![("ab".to_string(), all), ("c".to_string(), vec![("none".to_string(), Owned::U64(Vec::new()))])]
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().unwrap()))
}

fn set(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Makes all checksums right, as far as heads can be found.
fn reseal(bytes: &mut [u8]) {
    let (mut at, mut previous) = (0, 0);
    while at + HEAD <= bytes.len() {
        let lengths = (word(bytes, at + 48).unwrap(), word(bytes, at + 56).unwrap());
        let end = |from: usize, len: u64| usize::try_from(len).ok().and_then(|len| from.checked_add(len)).filter(|end| *end <= bytes.len());
        let Some(payload) = end(at + HEAD, lengths.0) else { return };
        let Some(next) = end(payload, lengths.1) else { return };
        if word(bytes, at) == Some(Head::SEGMENT) {
            let checksum = XxHash3_64::oneshot(&bytes[payload..next]);
            set(bytes, at + 64, checksum);
        }
        set(bytes, at + 40, previous);
        previous = XxHash3_64::oneshot(&[&bytes[at..at + 72], &bytes[at + HEAD..payload]].concat());
        set(bytes, at + 72, previous);
        at = next;
    }
}

/// Flips, cuts, swaps or duplicates bits, bytes and ranges.
fn damage(random: &mut StdRng, bytes: &mut Vec<u8>) {
    fn range(random: &mut StdRng, len: usize) -> Range<usize> {
        let start = random.random_range(0..=len);
        let longest = (len - start).min(if random.random_bool(0.5) { 8 } else { len });
        start..start + random.random_range(0..=longest)
    }
    let len = bytes.len();
    match random.random_range(0..7) {
        0 if len > 0 => bytes[random.random_range(0..len)] ^= 1 << random.random_range(0..8),
        1 => {
            for byte in &mut bytes[range(random, len)] {
                *byte = random.random();
            }
        }
        2 => bytes.truncate(random.random_range(0..=len)),
        3 => drop(bytes.drain(range(random, len))),
        4 => {
            let copy = bytes[range(random, len)].to_vec();
            let at = random.random_range(0..=len);
            bytes.splice(at..at, copy);
        }
        5 => {
            let (one, other) = (range(random, len), range(random, len));
            let common = one.len().min(other.len());
            for at in 0..common {
                bytes.swap(one.start + at, other.start + at);
            }
        }
        _ if len >= 8 => {
            // A word that is likely to be believed.
            let at = random.random_range(0..=(len - 8) / 8) * 8;
            let word = [0, 1, 8, 1 << 31, 1 << 32, 1 << 60, (1 << 63) - 1, 1 << 63, u64::MAX, u64::MAX / 4 + 2][random.random_range(0..10)];
            set(bytes, at, word);
        }
        _ => bytes.extend_from_slice(b"more"),
    }
}

/// An error that a person can use: it has the file and the byte.
fn assert_clear(error: &Error) {
    let text = error.to_string();
    assert!(text.contains(&format!("{FILE} at byte ")), "{text}");
}

#[test]
fn what_is_written_is_read() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..if cfg!(miri) { 10 } else { 500 } {
        let content = random_content(&mut random);
        assert_eq!(read(&written(&content).0).unwrap(), content);
    }
    assert_eq!(read(&written(&sample()).0).unwrap(), sample());
}

#[test]
fn a_damaged_file_is_refused_with_its_name_and_the_byte() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..ROUNDS {
        let (original, _) = written(&random_content(&mut random));
        let mut bytes = original.clone();
        for _ in 0..random.random_range(1..4) {
            damage(&mut random, &mut bytes);
        }
        if bytes != original {
            match read(&bytes) {
                Ok(content) => panic!("read as {content:?}"),
                Err(error) => assert_clear(&error),
            }
        }
    }
}

#[test]
fn a_forged_file_with_the_right_checksums_is_refused_or_has_columns_that_can_be_read() {
    let mut random = StdRng::seed_from_u64(3);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let (mut bytes, _) = written(&random_content(&mut random));
        for _ in 0..random.random_range(1..4) {
            damage(&mut random, &mut bytes);
        }
        reseal(&mut bytes);
        match read(&bytes) {
            // It is what a writer would have made of what was read: but for zeros between columns, nothing is left to choose.
            Ok(content) => {
                accepted += 1;
                assert_eq!(read(&written(&content).0).unwrap(), content);
            }
            Err(error) => assert_clear(&error),
        }
    }
    assert!(accepted > ROUNDS / 20 && accepted < ROUNDS, "{accepted} of {ROUNDS} were accepted");
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_when_it_is_opened() {
    let (bytes, places) = written(&sample());
    for len in (0..bytes.len()).step_by(if cfg!(miri) { 29 } else { 1 }) {
        let error = Segments::of(FILE, Cursor::new(&bytes[..len])).unwrap_err();
        assert_clear(&error);
    }
    // Also where a segment ends, and the end would follow.
    let boundary = places[1].offset as usize;
    assert_eq!(
        refusal(&bytes[..boundary]),
        format!("state.7 at byte {boundary}: the file is cut off: it has {boundary} bytes, which is before the end of what begins here")
    );
}

#[test]
fn every_flipped_bit_is_seen() {
    let (bytes, _) = written(&sample());
    for bit in (0..bytes.len() * 8).step_by(if cfg!(miri) { 301 } else { 1 }) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_file_of_another_kind_version_or_layout_is_told_apart() {
    let (bytes, _) = written(&sample());
    assert_eq!(refusal(b"ann,5\nbob,9\n"), "state.7 at byte 0: this is not a file of a Weir checkpoint: it begins with 'ann,5\\nbo'");
    assert!(refusal(b"").starts_with("state.7 at byte 0: the file is cut off: it has 0 bytes"));

    let mut newer = bytes.clone();
    set(&mut newer, 8, VERSION + 1);
    assert_eq!(refusal(&newer), "not supported: state.7 at byte 8: format version 2; this program reads version 1");

    // Vectors whose length is their second word: a layout differs only with the right checksum, else it is damage.
    let mut other = bytes.clone();
    other[20] = 0b00_10_01;
    assert!(refusal(&other).starts_with("state.7 at byte 0: the head of a segment or of the end does not have the checksum"));
    reseal(&mut other);
    let text = refusal(&other);
    assert!(text.starts_with("not supported: state.7 at byte 16: written by a program that lays out memory in another way ("), "{text}");
}

#[test]
fn a_changed_column_is_named() {
    let (mut bytes, places) = written(&sample());
    let start = places[0].offset + places[0].len - 4;
    bytes[start as usize] ^= 1;
    let text = refusal(&bytes);
    let payload = word(&bytes, 56).unwrap();
    let columns = places[0].len - payload;
    assert_eq!(
        text,
        format!("state.7 at byte {columns}: {payload} bytes of columns of 'ab' (segment 0) do not have the checksum that was written")
    );
}

#[test]
fn segments_that_are_swapped_repeated_left_out_or_of_another_file_are_refused() {
    let same = |name: &str, value: u64| (name.to_string(), vec![("k".to_string(), Owned::U64(vec![value]))]);
    let (bytes, places) = written(&vec![same("a", 1), same("b", 2), same("c", 3)]);
    let part = |index: usize| bytes[places[index].offset as usize..][..places[index].len as usize].to_vec();
    let end = bytes[bytes.len() - HEAD..].to_vec();
    for order in [vec![1, 0, 2], vec![0, 0, 1, 2], vec![0, 1], vec![0, 1, 1], vec![1, 2], vec![]] {
        let parts: Vec<u8> = order.into_iter().flat_map(part).chain(end.clone()).collect();
        assert!(refusal(&parts).contains("segment "), "{}", refusal(&parts));
    }
    assert_eq!(part(0).len(), part(1).len());
    let swapped = [part(1), part(0), part(2), end.clone()].concat();
    assert_eq!(
        refusal(&swapped),
        format!("state.7 at byte 0: segment 0 should be here, and not what was written at byte {} as segment 1", part(0).len())
    );
    // The first segment of another file, at the same place.
    let (other, _) = written(&vec![same("a", 9)]);
    let mixed = [&other[..part(0).len()], &bytes[part(0).len()..]].concat();
    assert_eq!(refusal(&mixed), format!("state.7 at byte {}: this was written after other segments than those before it", part(0).len()));
    let longer = [&bytes[..], b"tail"].concat();
    assert_eq!(refusal(&longer), format!("state.7 at byte {}: the end of the file is here, and 4 bytes follow it", bytes.len() - HEAD));
}

#[test]
fn a_forged_length_address_or_capacity_of_a_vector_is_refused() {
    let (bytes, places) = written(&sample());
    let payload = (places[0].len - word(&bytes, 56).unwrap()) as usize;
    for at in [payload, payload + 8, payload + 16] {
        for forged in [0, 3, 5, 1 << 20, 1 << 60, 1 << 63, u64::MAX] {
            let mut bytes = bytes.clone();
            set(&mut bytes, at, forged);
            reseal(&mut bytes);
            let expected = format!("state.7 at byte {payload}: this is not how a column of 'ab' (segment 0) begins");
            assert_eq!(refusal(&bytes), expected);
        }
    }
}

#[test]
fn a_forged_count_in_a_description_is_refused() {
    let (bytes, _) = written(&sample());
    // After the head: the length of "ab", "ab", the kind of the first column.
    let at = HEAD + 8 + 2 + 1;
    assert_eq!(word(&bytes, at), Some(4));
    for forged in [0, 9, 1 << 40, 1 << 61, 1 << 62, u64::MAX - 7, u64::MAX] {
        let mut bytes = bytes.clone();
        set(&mut bytes, at, forged);
        reseal(&mut bytes);
        assert_eq!(refusal(&bytes), "state.7 at byte 0: the description of this segment does not fit its columns");
    }
    // As many as there is room for with zeros, but not as many as the vector has.
    let mut bytes = bytes.clone();
    set(&mut bytes, at, 8);
    reseal(&mut bytes);
    assert!(refusal(&bytes).contains("this is not how a column of 'ab' (segment 0) begins"));
}

#[test]
fn equal_columns_are_equal_bytes_wherever_their_vectors_are() {
    let columns = |spare: usize| {
        let mut keys = Vec::with_capacity(3 + spare);
        keys.extend([1u64, 2, 3]);
        let mut writer = Writer::new(FILE, Vec::new());
        writer.write("s", &[("keys", (&keys).into())]).unwrap();
        writer.finish().unwrap()
    };
    assert_eq!(columns(0), columns(100));
}

#[test]
fn columns_outlive_a_move_of_their_segment_to_another_thread() {
    let (bytes, _) = written(&sample());
    let segments: Vec<Segment> = Segments::of(FILE, Cursor::new(bytes)).unwrap().collect::<Result<_>>().unwrap();
    let read = std::thread::spawn(move || (segments[0].column::<u64>("times").unwrap().to_vec(), segments)).join().unwrap();
    assert_eq!(read.0, [7, u64::MAX]);
    assert_eq!(read.1[0].column::<u8>("bytes").unwrap(), b"weir");
    assert_eq!(read.1[1].column::<u64>("none").unwrap(), [0u64; 0]);
}

#[test]
fn segments_are_read_in_any_order_by_their_number() {
    let (bytes, places) = written(&sample());
    let mut segments = Segments::of(FILE, Cursor::new(bytes)).unwrap();
    assert_eq!(segments.whole(), places[2]);
    assert_eq!(segments.entries().iter().map(|entry| entry.written).collect::<Vec<_>>(), places[..2]);
    assert_eq!(segments.entries()[0].columns().nth(1), Some(("ends", Kind::U32, 3)));
    assert_eq!(segments.read(1).unwrap().name(), "c");
    assert_eq!(segments.read(0).unwrap().column::<i64>("diffs").unwrap(), [-1, i64::MIN, i64::MAX]);
    assert_eq!(segments.read(2).unwrap_err().to_string(), "state.7 has no segment 2: it has 2");
}

#[test]
fn a_column_that_is_not_there_or_of_another_type_is_an_error_that_lists_those_that_are() {
    let (bytes, _) = written(&sample());
    let segment = Segments::of(FILE, Cursor::new(bytes)).unwrap().read(0).unwrap();
    let error = |name: &str| segment.column::<u32>(name).unwrap_err().to_string();
    let have = "(there is bytes u8, ends u32, times u64, diffs i64)";
    assert_eq!(error("keys"), format!("state.7 at byte 0: 'ab' has no column keys u32 {have}"));
    assert_eq!(error("times"), format!("state.7 at byte 0: 'ab' has no column times u32 {have}"));
}

/// Takes so many bytes.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 && !bytes.is_empty() { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_at_every_byte_and_nothing_is_written_after_it() {
    let keys = vec![1u64, 2, 3];
    let columns: [(&str, Column); 1] = [("keys", (&keys).into())];
    let whole = {
        let mut writer = Writer::new(FILE, Vec::new());
        writer.write("s", &columns).unwrap();
        writer.finish().unwrap().0.len()
    };
    for room in (0..whole).step_by(if cfg!(miri) { 17 } else { 1 }) {
        let mut writer = Writer::new(FILE, Disk(room));
        let first = writer.write("s", &columns);
        if let Err(error) = &first {
            assert_eq!(error.to_string(), "state.7 cannot be written at byte 0: no storage space");
            assert_eq!(writer.offset(), 0);
            let again = writer.write("s", &columns).unwrap_err();
            assert_eq!(again.to_string(), "state.7 cannot be written any further: writing it failed before");
        }
        assert!(writer.finish().is_err());
    }
    let mut writer = Writer::new(FILE, Disk(whole));
    writer.write("s", &columns).unwrap();
    writer.finish().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "a checksum of a megabyte takes minutes there")]
fn names_that_are_too_long_are_refused_and_the_file_goes_on() {
    let mut writer = Writer::new(FILE, Vec::new());
    let error = writer.write(&"n".repeat(LONGEST_DESCRIPTION as usize), &[]).unwrap_err();
    assert_eq!(error.to_string(), "state.7: the names of a segment take 1048584 bytes, and at most 1048576");
    writer.write("n", &[]).unwrap();
    assert_eq!(read(&writer.finish().unwrap().0).unwrap(), [("n".to_string(), Vec::new())]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri keeps programs away from files")]
fn a_file_is_opened_by_its_path() {
    let path = std::env::temp_dir().join(format!("weir-segment-{}", std::process::id()));
    let (bytes, places) = written(&sample());
    std::fs::write(&path, bytes).unwrap();
    let mut segments = Segments::open(&path).unwrap();
    assert_eq!(segments.whole(), places[2]);
    assert_eq!(
        segments.by_ref().map(|segment| segment.map(|segment| segment.name().to_string())).collect::<Result<Vec<_>>>().unwrap(),
        ["ab", "c"]
    );
    // One that becomes shorter after it was opened.
    File::options().write(true).open(&path).unwrap().set_len(HEAD as u64).unwrap();
    let error = segments.read(0).unwrap_err().to_string();
    assert!(error.contains(&format!("{} cannot be read at byte ", path.display())), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = Segments::open(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} cannot be read: ", path.display())), "{error}");
}
