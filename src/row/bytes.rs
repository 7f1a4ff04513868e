//! Many byte strings in one allocation.

use differential_dataflow::trace::implementations::{BatchContainer, OffsetList};

/// A list of byte strings: one buffer and the offsets that bound them. What a trace keeps its keys and values in:
/// no allocation a row, and four bytes of offset as long as a batch is under 4 GiB.
pub struct ByteRows {
    bytes: Vec<u8>,
    ends: OffsetList,
}

impl Default for ByteRows {
    fn default() -> Self {
        Self::with_bytes(0, 0)
    }
}

impl ByteRows {
    /// Room for `rows` rows of `bytes` bytes in all.
    pub fn with_bytes(rows: usize, bytes: usize) -> Self {
        let mut ends = OffsetList::with_capacity(rows + 1);
        ends.push(0);
        ByteRows { bytes: Vec::with_capacity(bytes), ends }
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.smol.capacity() * 4 + self.ends.chonk.capacity() * 8
    }
}

impl BatchContainer for ByteRows {
    type Owned = Vec<u8>;
    type ReadItem<'a> = &'a [u8];

    #[inline(always)]
    fn into_owned<'a>(item: &'a [u8]) -> Vec<u8> {
        item.to_vec()
    }

    #[inline(always)]
    fn clone_onto<'a>(item: &'a [u8], other: &mut Vec<u8>) {
        other.clear();
        other.extend_from_slice(item);
    }

    fn push_ref(&mut self, item: &[u8]) {
        self.push(item);
    }

    fn push_own(&mut self, item: &Vec<u8>) {
        self.push(item);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.ends.push(0);
    }

    fn with_capacity(size: usize) -> Self {
        Self::with_bytes(size, 0)
    }

    fn merge_capacity(one: &Self, other: &Self) -> Self {
        Self::with_bytes(one.len() + other.len(), one.bytes.len() + other.bytes.len())
    }

    #[inline(always)]
    fn reborrow<'b, 'a: 'b>(item: &'a [u8]) -> &'b [u8] {
        item
    }

    #[inline(always)]
    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.ends.index(index)..self.ends.index(index + 1)]
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.ends.len() - 1
    }
}
