//! Sorting updates by the bytes of their rows.
//!
//! Rows lie in containers, and to compare two of them is to follow two references. So they are sorted by eight of their bytes
//! at a time, as numbers that are held beside the references: first by those that follow what all rows begin with (the ids
//! of a day have most of their bytes in common), then, among rows that are alike in these, by those that follow what these
//! rows begin with, and so on.

use std::ops::Range;

use super::Bytes;
use super::spine::{Sealable, prefix};

/// Where an update is among containers, with some bytes of its row to sort by.
#[derive(Clone, Copy)]
pub struct Entry {
    bytes: u64,
    pub container: u32,
    pub index: u32,
}

impl Entry {
    pub fn new(container: u32, index: u32) -> Self {
        Entry { bytes: 0, container, index }
    }

    #[inline(always)]
    fn row<'a, C: Sealable>(&self, containers: &'a [C]) -> &'a [u8] {
        containers[self.container as usize].order(self.index as usize)
    }

    #[inline(always)]
    fn time<C: Sealable>(&self, containers: &[C]) -> u64 {
        containers[self.container as usize].at(self.index as usize)
    }
}

/// So few rows are sorted by comparing them.
const FEW: usize = 16;

/// Brings entries in order of row, then time.
pub fn sort<C: Sealable>(containers: &[C], entries: &mut [Entry]) {
    // Rows that are alike in their first so many bytes.
    let mut open: Vec<(Range<usize>, usize)> = vec![(0..entries.len(), 0)];
    while let Some((range, alike)) = open.pop() {
        let mut at = range.start;
        let entries = &mut entries[range];
        let beginning = if entries.len() > FEW { beginning(containers, entries, alike) } else { Beginning::Ends };
        match beginning {
            Beginning::Whole => entries.sort_unstable_by_key(|entry| entry.time(containers)),
            Beginning::Ends => entries.sort_unstable_by(|a, b| {
                let rows = Bytes(&a.row(containers)[alike..]).cmp(&Bytes(&b.row(containers)[alike..]));
                rows.then_with(|| a.time(containers).cmp(&b.time(containers)))
            }),
            Beginning::Goes(alike) => {
                entries.iter_mut().for_each(|entry| entry.bytes = prefix(&entry.row(containers)[alike..]));
                entries.sort_unstable_by_key(|entry| entry.bytes);
                for entries in entries.chunk_by(|a, b| a.bytes == b.bytes) {
                    // Rows that end among these bytes are not told apart by them.
                    if entries.len() > 1 {
                        open.push((at..at + entries.len(), alike));
                    }
                    at += entries.len();
                }
            }
        }
    }
}

/// What some rows begin with.
enum Beginning {
    /// All are the same.
    Whole,
    /// One of them is the beginning of the others.
    Ends,
    /// All go on behind so many bytes.
    Goes(usize),
}

/// What rows begin with that are alike in their first `alike` bytes.
fn beginning<C: Sealable>(containers: &[C], entries: &[Entry], alike: usize) -> Beginning {
    let first = entries[0].row(containers);
    let (mut common, mut shortest, mut longest) = (first.len(), first.len(), first.len());
    for entry in &entries[1..] {
        let row = entry.row(containers);
        (shortest, longest) = (shortest.min(row.len()), longest.max(row.len()));
        common = alike + shared(&first[alike..common], &row[alike..]);
    }
    match common {
        _ if common == longest => Beginning::Whole,
        _ if common == shortest => Beginning::Ends,
        _ => Beginning::Goes(common),
    }
}

/// How many bytes two strings begin with alike, up to the length of the first.
#[inline(always)]
fn shared(one: &[u8], other: &[u8]) -> usize {
    match other.get(..one.len()) {
        Some(other) if Bytes(one) == Bytes(other) => one.len(),
        _ => one.iter().zip(other).take_while(|(a, b)| a == b).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Updates;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn updates_come_in_the_order_of_their_rows_then_times() {
        let mut rng = StdRng::seed_from_u64(1);
        for round in 0..400 {
            // Rows that begin alike, of many lengths, some of them the beginning of others, some there more than once.
            let letters = rng.random_range(1..4u8);
            let common = vec![7; rng.random_range(0..20)];
            let longest = rng.random_range(0..40);
            let mut row = || {
                let mut row = common.clone();
                row.extend((0..rng.random_range(0..=longest)).map(|_| rng.random_range(0..letters)));
                (row, rng.random_range(0..4u64))
            };
            let rows: Vec<(Vec<u8>, u64)> = (0..round).map(|_| row()).collect();
            let mut containers = Vec::new();
            for rows in rows.chunks(37) {
                let mut updates = Updates::default();
                rows.iter().for_each(|(row, time)| updates.push(&row[..row.len() / 2], &row[row.len() / 2..], *time, 1));
                containers.push(updates);
            }
            let entry =
                |(container, updates): (usize, &Updates)| (0..updates.len()).map(move |index| Entry::new(container as u32, index as u32));
            let mut entries: Vec<Entry> = containers.iter().enumerate().flat_map(entry).collect();
            sort(&containers, &mut entries);
            let sorted: Vec<(Vec<u8>, u64)> =
                entries.iter().map(|entry| (entry.row(&containers).to_vec(), entry.time(&containers))).collect();
            let mut expected = rows;
            expected.sort();
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn first_bytes_are_a_number_in_the_order_of_the_bytes() {
        assert_eq!(prefix(b""), 0);
        assert_eq!(prefix(b"\x01\x02"), 0x0102_0000_0000_0000);
        assert_eq!(prefix(b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), 0x0102_0304_0506_0708);
    }
}
