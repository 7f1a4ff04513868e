//! The bytes by which scopes are known.

/// A scope's bytes, and how many of them are its key; or, where they are many, the place at which [`Names`] has them.
#[derive(Clone, Copy)]
pub struct Name([u8; 16]);

impl Name {
    /// How long a name is at most that is its own place: one of its 16 bytes says how long it is and its key.
    const SHORT: usize = 14;
    /// What that byte says of a long one.
    const LONG: u8 = 0xFF;

    fn short(bytes: &[u8], key_len: usize) -> Self {
        let mut name = [0; 16];
        name[..bytes.len()].copy_from_slice(bytes);
        name[15] = (key_len as u8) << 4 | bytes.len() as u8;
        Name(name)
    }

    fn long(block: u32, start: u32) -> Self {
        let mut name = [0; 16];
        name[..4].copy_from_slice(&block.to_le_bytes());
        name[4..8].copy_from_slice(&start.to_le_bytes());
        name[15] = Self::LONG;
        Name(name)
    }

    /// The block and the place in it at which a long name is.
    fn place(&self) -> Option<(usize, usize)> {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        let at = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        (self.0[15] == Self::LONG).then_some((at.0 as usize, at.1 as usize))
    }
}

/// Long names, end to end in blocks, each with its length before it and that of its key.
#[derive(Default, Clone)]
pub struct Names {
    blocks: Vec<Vec<u8>>,
    live: usize,
    garbage: usize,
}

impl Names {
    const BLOCK: usize = 1 << 16;
    /// Bytes before a name.
    const LENGTHS: usize = 8;

    /// Adds a name, the first `key_len` bytes of which are the key.
    #[inline]
    pub fn add(&mut self, bytes: &[u8], key_len: usize) -> Name {
        if bytes.len() <= Name::SHORT { Name::short(bytes, key_len) } else { self.add_long(bytes, key_len) }
    }

    fn add_long(&mut self, bytes: &[u8], key_len: usize) -> Name {
        let needed = Self::LENGTHS + bytes.len();
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < needed) {
            // Blocks double up to their full length: most arrangements have few scopes.
            let room = self.blocks.last().map_or(1 << 8, |block| 2 * block.capacity()).min(Self::BLOCK);
            self.blocks.push(Vec::with_capacity(needed.max(room)));
        }
        let number = self.blocks.len() - 1;
        let block = &mut self.blocks[number];
        let start = block.len();
        block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        block.extend_from_slice(&(key_len as u32).to_le_bytes());
        block.extend_from_slice(bytes);
        self.live += needed;
        Name::long(number as u32, start as u32)
    }

    /// The bytes of a name, and how many of them are the key.
    #[inline(always)]
    pub fn get<'a>(&'a self, name: &'a Name) -> (&'a [u8], usize) {
        match name.0[15] {
            Name::LONG => self.get_long(name),
            lengths => (&name.0[..usize::from(lengths & 0xF)], usize::from(lengths >> 4)),
        }
    }

    fn get_long(&self, name: &Name) -> (&[u8], usize) {
        let (block, start) = name.place().unwrap_or_default();
        let (lengths, bytes) = self.blocks[block][start..].split_at(Self::LENGTHS);
        let length = |at: usize| u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]) as usize;
        (&bytes[..length(0)], length(4))
    }

    /// Forgets a name. Its memory is free once all names are written anew.
    pub fn remove(&mut self, name: &Name) {
        if name.place().is_some() {
            let len = self.get(name).0.len() + Self::LENGTHS;
            self.live -= len;
            self.garbage += len;
        }
    }

    /// Whether more than half of the memory, and more than `slack` bytes, would be free if all were written anew.
    pub fn is_sparse(&self, slack: usize) -> bool {
        self.garbage > self.live + slack
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum::<usize>() + self.blocks.capacity() * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_was_added_whatever_its_length_and_its_keys() {
        let mut names = Names::default();
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let lengths = [0, 1, 7, 8, 13, 14, 15, 16, 17, 255, 256, 70_000];
        let all: Vec<(usize, usize)> = lengths.iter().flat_map(|len| [0, 1, len / 2, *len].map(|key| (*len, key.min(*len)))).collect();
        let added: Vec<Name> = all.iter().map(|(len, key)| names.add(&bytes[..*len], *key)).collect();
        for (name, (len, key)) in added.iter().zip(&all) {
            assert_eq!(names.get(name), (&bytes[..*len], *key));
        }
        added.iter().for_each(|name| names.remove(name));
        assert_eq!(names.live, 0);
        assert!(names.is_sparse(0));
    }
}
