//! Many byte strings in one allocation.

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use differential_dataflow::trace::implementations::BatchContainer;

use super::columns::{Columns, Taken};

/// A borrowed row, or a part of one, which compares as SQL orders it.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq for Bytes<'_> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bytes<'_> {}

impl PartialOrd for Bytes<'_> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes<'_> {
    /// Byte order. Keys are short and mostly differ early (values are often empty), so this compares in place, eight bytes
    /// at a time or four, where a call of `memcmp` would cost more than the comparison.
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.0, other.0);
        let common = a.len().min(b.len());
        if common < 8 {
            return short(a, b, common);
        }
        let word = |bytes: &[u8], at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        let mut at = 0;
        while at + 8 <= common {
            let (x, y) = (word(a, at), word(b, at));
            if x != y {
                return x.cmp(&y);
            }
            at += 8;
        }
        // The last eight bytes again: those of them that were compared are equal.
        let (x, y) = (word(a, common - 8), word(b, common - 8));
        x.cmp(&y).then_with(|| a.len().cmp(&b.len()))
    }
}

/// How rows compare of which one has less than eight bytes.
#[inline(always)]
fn short(a: &[u8], b: &[u8], common: usize) -> Ordering {
    if common < 4 {
        let differ = (0..common).map(|at| a[at].cmp(&b[at])).find(|order| order.is_ne());
        return differ.unwrap_or_else(|| a.len().cmp(&b.len()));
    }
    // The first four bytes and the last four, some of them twice.
    let word = |bytes: &[u8]| {
        let half = |at: usize| u64::from(u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        half(0) << 32 | half(common - 4)
    };
    word(a).cmp(&word(b)).then_with(|| a.len().cmp(&b.len()))
}

/// Ascending positions: four bytes each while they fit.
pub struct Offsets {
    small: Vec<u32>,
    large: Vec<u64>,
}

impl Offsets {
    /// Adds a position.
    #[inline]
    pub fn push(&mut self, offset: usize) {
        match u32::try_from(offset) {
            Ok(small) if self.large.is_empty() => self.small.push(small),
            _ => self.large.push(offset as u64),
        }
    }

    #[cold]
    fn beyond_small(&self, index: usize) -> usize {
        let large = self.large.get(index - self.small.len()).or(self.large.last());
        large.map_or_else(|| self.small.last().map_or(0, |last| *last as usize), |offset| *offset as usize)
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.small.capacity() * 4 + self.large.capacity() * 8
    }

    /// Gives back what is not needed.
    pub fn fit(&mut self) {
        self.small.shrink_to_fit();
        self.large.shrink_to_fit();
    }
}

impl Offsets {
    /// Puts it away under a name.
    pub fn put<'a>(&'a self, name: &str, to: &mut Columns<'a>) {
        to.put(&format!("{name}: small"), &self.small);
        to.put(&format!("{name}: large"), &self.large);
    }

    /// What was put away, if it is in order.
    pub fn take(name: &str, from: &mut Taken<'_>) -> Option<Self> {
        let offsets = Offsets { small: from.column(&format!("{name}: small"))?, large: from.column(&format!("{name}: large"))? };
        let largest = offsets.small.last().map_or(0, |last| u64::from(*last));
        let in_order =
            offsets.small.is_sorted() && offsets.large.is_sorted() && offsets.large.first().is_none_or(|first| *first >= largest);
        in_order.then_some(offsets)
    }

    /// Whether these are the bounds of so many lists that lie end to end and have so many elements.
    pub fn lists(&self, lists: usize, elements: usize) -> bool {
        self.len() == lists + 1 && self.index(0) == 0 && self.index(lists) == elements
    }
}

impl BatchContainer for Offsets {
    type Owned = usize;
    type ReadItem<'a> = usize;

    #[inline(always)]
    fn into_owned<'a>(item: usize) -> usize {
        item
    }

    #[inline(always)]
    fn push_ref(&mut self, item: usize) {
        self.push(item);
    }

    #[inline(always)]
    fn push_own(&mut self, item: &usize) {
        self.push(*item);
    }

    fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }

    fn with_capacity(size: usize) -> Self {
        Offsets { small: Vec::with_capacity(size), large: Vec::new() }
    }

    fn merge_capacity(one: &Self, other: &Self) -> Self {
        Self::with_capacity(one.len() + other.len())
    }

    #[inline(always)]
    fn reborrow<'b, 'a: 'b>(item: usize) -> usize {
        item
    }

    /// Past the end it is the last position: `CursorList::seek_val` asks for the bounds of values even where one of its
    /// cursors has run out of keys.
    #[inline(always)]
    fn index(&self, index: usize) -> usize {
        match self.small.get(index) {
            Some(offset) => *offset as usize,
            None => self.beyond_small(index),
        }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }
}

/// Where each of many strings of elements, laid end to end, begins and ends. As long as all are of one length (numbers,
/// dates, a fixed set of sums) this is nothing but that length.
pub struct Bounds {
    len: usize,
    ends: Ends,
}

enum Ends {
    /// Every string has this many elements.
    Even(usize),
    /// Where each string ends.
    Listed(Offsets),
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { len: 0, ends: Ends::Even(0) }
    }
}

impl Bounds {
    /// Adds a string of `width` elements.
    #[inline]
    pub fn push(&mut self, width: usize) {
        match &mut self.ends {
            Ends::Even(even) if *even == width => {}
            Ends::Even(_) => self.uneven(width),
            Ends::Listed(ends) => {
                let end = ends.index(self.len - 1) + width;
                ends.push(end);
            }
        }
        self.len += 1;
    }

    /// Takes note of a string whose length is not that of those before it.
    #[cold]
    fn uneven(&mut self, width: usize) {
        let Ends::Even(before) = self.ends else { return };
        if self.len == 0 {
            self.ends = Ends::Even(width);
            return;
        }
        let mut ends = Offsets::with_capacity(self.len + 1);
        (1..=self.len).for_each(|string| ends.push(string * before));
        ends.push(self.len * before + width);
        self.ends = Ends::Listed(ends);
    }

    /// Where a string is.
    #[inline(always)]
    pub fn range(&self, index: usize) -> Range<usize> {
        match &self.ends {
            Ends::Even(width) => index * width..(index + 1) * width,
            Ends::Listed(ends) => (if index == 0 { 0 } else { ends.index(index - 1) })..ends.index(index),
        }
    }

    /// How many strings there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No strings; those to come are thought to be as long as those before.
    pub fn clear(&mut self) {
        self.len = 0;
        if let Ends::Listed(_) = self.ends {
            self.ends = Ends::Even(0);
        }
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        match &self.ends {
            Ends::Even(_) => 0,
            Ends::Listed(ends) => ends.memory(),
        }
    }

    /// Gives back what is not needed.
    pub fn fit(&mut self) {
        if let Ends::Listed(ends) = &mut self.ends {
            ends.fit();
        }
    }

    /// Puts it away under a name.
    pub fn put<'a>(&'a self, name: &str, to: &mut Columns<'a>) {
        to.count(self.len);
        match &self.ends {
            Ends::Even(width) => to.count(width + 1),
            Ends::Listed(ends) => {
                to.count(0);
                ends.put(name, to);
            }
        }
    }

    /// What was put away, if it is the bounds of strings of so many elements in all.
    pub fn take(name: &str, elements: usize, from: &mut Taken<'_>) -> Option<Self> {
        let len = from.count()?;
        let ends = match from.count()? {
            0 => Ends::Listed(Offsets::take(name, from).filter(|ends| ends.len() == len && ends.last().unwrap_or(0) == elements)?),
            width => Ends::Even(Some(width - 1).filter(|width| width.checked_mul(len) == Some(elements))?),
        };
        Some(Bounds { len, ends })
    }
}

/// A list of byte strings: one buffer, and their bounds. What a trace keeps its keys and values in: no allocation a row,
/// and for rows of one length nothing but their bytes.
#[derive(Default)]
pub struct ByteRows {
    bytes: Vec<u8>,
    bounds: Bounds,
}

impl ByteRows {
    /// Room for rows of that many bytes in all.
    pub fn with_bytes(bytes: usize) -> Self {
        ByteRows { bytes: Vec::with_capacity(bytes), bounds: Bounds::default() }
    }

    /// Makes room for this many more rows of a length.
    pub fn reserve(&mut self, rows: usize, len: usize) {
        self.bytes.reserve(rows * len);
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.bounds.push(row.len());
    }

    /// The bytes of a row.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.bounds.range(index)]
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.bounds.memory()
    }

    /// Gives back what is not needed.
    pub fn fit(&mut self) {
        self.bytes.shrink_to_fit();
        self.bounds.fit();
    }
}

impl ByteRows {
    /// Puts it away under a name.
    pub fn put<'a>(&'a self, name: &str, to: &mut Columns<'a>) {
        to.put(name, &self.bytes);
        self.bounds.put(name, to);
    }

    /// What was put away, if it is rows.
    pub fn take(name: &str, from: &mut Taken<'_>) -> Option<Self> {
        let bytes: Vec<u8> = from.column(name)?;
        Some(ByteRows { bounds: Bounds::take(name, bytes.len(), from)?, bytes })
    }
}

impl BatchContainer for ByteRows {
    type Owned = Vec<u8>;
    type ReadItem<'a> = Bytes<'a>;

    #[inline(always)]
    fn into_owned<'a>(item: Bytes<'a>) -> Vec<u8> {
        item.to_vec()
    }

    #[inline(always)]
    fn clone_onto<'a>(item: Bytes<'a>, other: &mut Vec<u8>) {
        other.clear();
        other.extend_from_slice(item.0);
    }

    #[inline(always)]
    fn push_ref(&mut self, item: Bytes<'_>) {
        self.push(item.0);
    }

    fn push_own(&mut self, item: &Vec<u8>) {
        self.push(item);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bounds.clear();
    }

    fn with_capacity(_: usize) -> Self {
        Self::default()
    }

    fn merge_capacity(one: &Self, other: &Self) -> Self {
        Self::with_bytes(one.bytes.len() + other.bytes.len())
    }

    #[inline(always)]
    fn reborrow<'b, 'a: 'b>(item: Bytes<'a>) -> Bytes<'b> {
        item
    }

    #[inline(always)]
    fn index(&self, index: usize) -> Bytes<'_> {
        Bytes(self.get(index))
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.bounds.len()
    }

    /// By steps that double, and then halve. A key that is sought is mostly the next one or a few on: where a batch is small
    /// beside those that seek in it, one comparison tells.
    #[inline]
    fn advance<F: for<'a> Fn(Bytes<'a>) -> bool>(&self, start: usize, end: usize, function: F) -> usize {
        let holds = |index: usize| index < end && function(self.index(index));
        if !holds(start) {
            return 0;
        }
        let (mut last, mut step) = (start, 1);
        while holds(last + step) {
            last += step;
            step <<= 1;
        }
        while step > 1 {
            step >>= 1;
            if holds(last + step) {
                last += step;
            }
        }
        last + 1 - start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn rows_are_what_was_pushed_whatever_their_lengths() {
        let mut rng = StdRng::seed_from_u64(1);
        for lengths in [[9, 9], [0, 0], [0, 3], [7, 40]] {
            let pushed: Vec<Vec<u8>> = (0..300).map(|_| vec![rng.random(); rng.random_range(lengths[0]..=lengths[1])]).collect();
            let mut rows = ByteRows::default();
            pushed.iter().for_each(|row| rows.push(row));
            assert_eq!(rows.len(), pushed.len());
            assert!(pushed.iter().enumerate().all(|(index, row)| rows.get(index) == row.as_slice()));
        }
    }

    #[test]
    fn advancing_counts_the_rows_before_a_key() {
        let mut rows = ByteRows::default();
        (0..100u8).for_each(|n| rows.push(&[n]));
        for start in 0..=100 {
            for end in start..=100 {
                for key in 0..=101u8 {
                    let expected = (start..end).filter(|n| *n < usize::from(key)).count();
                    assert_eq!(rows.advance(start, end, |row| row < Bytes(&[key])), expected);
                }
            }
        }
    }

    #[test]
    fn rows_of_one_length_take_no_memory_but_their_bytes() {
        let mut rows = ByteRows::with_bytes(9 * 100);
        (0..100u64).for_each(|n| rows.push(&[[1].as_slice(), &n.to_be_bytes()].concat()));
        assert_eq!(rows.memory(), 9 * 100);
    }

    #[test]
    fn a_value_is_found_beside_batches_whose_keys_have_come_to_their_end() {
        use crate::row::Updates;
        use crate::row::spine::Pending;
        use differential_dataflow::trace::{Cursor, cursor::cursor_list};
        let batch = |rows: &[(&[u8], &[u8])]| {
            let (mut pending, mut updates) = (Pending::<Updates>::default(), Updates::default());
            rows.iter().for_each(|(key, value)| updates.push(key, value, 1, 1));
            pending.push(updates);
            pending.seal(timely::progress::Antichain::new().borrow()).build().unwrap()
        };
        let (mut cursor, storage) = cursor_list(vec![batch(&[(b"a", b"1")]), batch(&[(b"b", b"1"), (b"b", b"2"), (b"b", b"3")])]);
        cursor.seek_key(&storage, Bytes(b"b"));
        cursor.seek_val(&storage, Bytes(b"2"));
        assert_eq!(cursor.get_val(&storage), Some(Bytes(b"2")));
    }

    #[test]
    fn bytes_compare_as_slices_do() {
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..20_000 {
            let mut row = || -> Vec<u8> { (0..rng.random_range(0..20)).map(|_| rng.random_range(0..3)).collect() };
            let (a, b) = (row(), row());
            assert_eq!(Bytes(&a).cmp(&Bytes(&b)), a.cmp(&b));
            assert_eq!(Bytes(&a) == Bytes(&b), a == b);
        }
    }
}
