//! Columns in a buffer, encoded by abomonation and used where they lie.
//!
//! Whatever bytes a buffer holds, what comes out is an error or columns that can be read: never undefined behaviour. This
//! module has all of the project's `unsafe` and all that it uses of `abomonation`; its interface is safe.
//!
//! # What lies in a buffer
//!
//! Columns, one after the other, each at a multiple of eight bytes: the three words of a `Vec` as it is in memory, the
//! elements, zeros up to the next multiple of eight. That is what [`abomonation::encode`] writes of a `Vec`, but for one
//! thing: it writes the words as they are, with an address of the writing process in them and a capacity that says how much
//! that process had to spare. Here they are replaced by what can be foretold: an address that is aligned and not null (the
//! alignment itself), the count of elements as the length and as the capacity. So equal columns are equal bytes, and a reader
//! that knows from elsewhere how many elements there are knows every byte that abomonation is going to believe.
//!
//! # Why this is sound
//!
//! RUSTSEC-2021-0120 says of abomonation that safe code can make any type of it out of any bytes, and look at any type as
//! bytes. What that can do, and what is done about it:
//!
//! 1. *Invalid values.* A [`Plain`] type is an integer: all its bit patterns are values. Nothing else can be a column; the
//!    trait is sealed.
//! 2. *Padding, which must not be read.* Integers have none, and a `Vec` is three words in the size of three words, which is
//!    asserted when this is compiled.
//! 3. *Forged lengths, addresses and capacities.* `exhume` compares the three words with what a column of so many elements
//!    has, after the elements are known to fit the buffer. abomonation multiplies lengths without looking for an overflow
//!    and `Vec::len` promises the compiler that a length is possible, so this is done before, not after.
//! 4. *Alignment.* A [`Buffer`] is allocated as `u64`s. Columns start at multiples of eight bytes, and so do their elements,
//!    also where there are none. No [`Plain`] type and no `Vec` has a larger alignment, which is asserted too.
//! 5. *Aliasing.* [`abomonation::decode`] makes a `&mut Vec` out of a `&mut u8`, which Stacked Borrows forbids: such a
//!    reference may only reach one byte. So it is not used: `exhume` makes the reference out of all the bytes of the three
//!    words, and calls what `decode` calls. The words and the elements are disjoint parts of one split, as are all columns.
//!    After that nothing reaches the elements but through the addresses that were put into the words, until the buffer is taken
//!    back and the columns are gone.
//! 6. *Ownership.* The `Vec`s in a buffer do not own what they point to. They are never dropped, moved or given out: only their
//!    elements are, as shared slices that borrow the buffer.
//! 7. *The order of a `Vec`'s words*, which Rust leaves open: `words` looks at a `Vec` for it, and [`layout`] tells it to
//!    those who write it into files, so that a program with another order refuses them.
//!
//! Miri agrees, under Stacked Borrows and under Tree Borrows, with the tests of this folder (they need nothing else of the crate).

#![allow(unsafe_code)]

use std::io::{self, Write};
use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use abomonation::Abomonation;

const WORD: usize = size_of::<usize>();
/// What columns and their elements are aligned to, in bytes.
const ALIGNMENT: usize = size_of::<u64>();
/// Bytes from the start of a column to its elements.
pub const HEADER: usize = (3 * WORD).next_multiple_of(ALIGNMENT);

/// What a column can be made of: integers, of which every bit pattern is one.
pub trait Plain: sealed::Sealed + Abomonation + Copy + Default + 'static {
    const KIND: Kind;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($kind:ident $type:ty, $tag:literal;)*) => {
        /// The type of a column's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($kind = $tag,)*
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Bytes of an element.
            pub fn size(self) -> usize {
                match self {
                    $(Kind::$kind => size_of::<$type>(),)*
                }
            }

            /// As Rust calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => stringify!($type),)*
                }
            }

            fn words(self) -> Words {
                match self {
                    $(Kind::$kind => words::<$type>(),)*
                }
            }

            fn exhume(self, column: &mut [u8], count: usize) -> bool {
                match self {
                    $(Kind::$kind => exhume::<$type>(column, count),)*
                }
            }
        }

        /// A column to encode.
        #[derive(Debug, Clone, Copy)]
        pub enum Column<'a> {
            $($kind(&'a Vec<$type>),)*
        }

        impl Column<'_> {
            /// What it is made of, and how many.
            pub fn shape(self) -> Shape {
                match self {
                    $(Column::$kind(column) => Shape { kind: Kind::$kind, count: column.len() as u64 },)*
                }
            }

            /// Writes what [`InPlace::decode`] takes.
            pub fn encode(self, out: &mut dyn Write) -> io::Result<()> {
                match self {
                    $(Column::$kind(column) => encode(column, out),)*
                }
            }
        }

        $(
            const _: () = assert!(align_of::<$type>() <= ALIGNMENT && align_of::<Vec<$type>>() <= ALIGNMENT);
            const _: () = assert!(size_of::<Vec<$type>>() == 3 * WORD);

            impl sealed::Sealed for $type {}

            impl Plain for $type {
                const KIND: Kind = Kind::$kind;
            }

            impl<'a> From<&'a Vec<$type>> for Column<'a> {
                fn from(column: &'a Vec<$type>) -> Self {
                    Column::$kind(column)
                }
            }
        )*
    };
}

plain! {
    U8 u8, 1;
    U32 u32, 2;
    U64 u64, 3;
    I64 i64, 4;
}

/// What is known of a column before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub kind: Kind,
    /// Elements.
    pub count: u64,
}

impl Shape {
    /// Bytes in a buffer, unless no buffer can have as many.
    pub fn encoded_len(self) -> Option<u64> {
        let elements = self.count.checked_mul(self.kind.size() as u64)?;
        elements.checked_add(HEADER as u64)?.checked_next_multiple_of(ALIGNMENT as u64)
    }
}

/// Which of the three words of a `Vec` is which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Words {
    address: u8,
    capacity: u8,
    length: u8,
}

/// Finds the words of a `Vec<T>`, by looking at one in which all three differ.
fn words<T: Plain>() -> Words {
    let mut probe: Vec<T> = Vec::with_capacity(5);
    probe.push(T::default());
    let mut bytes = Vec::new();
    // SAFETY: neither a `Vec` nor a `Plain` type has padding (2).
    let encoded = unsafe { abomonation::encode(&probe, &mut bytes) };
    encoded.expect("a vector of bytes can be written to");
    let place = |of: usize| {
        let found = bytes[..3 * WORD].chunks_exact(WORD).position(|word| word == of.to_ne_bytes());
        found.expect("a vector is an address, a capacity and a length") as u8
    };
    Words { address: place(probe.as_ptr().addr()), capacity: place(probe.capacity()), length: place(probe.len()) }
}

/// What a column of `count` elements begins with.
fn header<T: Plain>(count: usize) -> [u8; HEADER] {
    let words = words::<T>();
    let mut header = [0; HEADER];
    for (word, value) in [(words.address, align_of::<T>()), (words.capacity, count), (words.length, count)] {
        header[usize::from(word) * WORD..][..WORD].copy_from_slice(&value.to_ne_bytes());
    }
    header
}

/// All that must be equal where columns are written and where they are read, in eight bytes: the order of bytes, the bytes of
/// a word, the alignment of `u64`, the minor version of abomonation, and for each kind of column the order of its words.
pub fn layout() -> u64 {
    let mut layout = [if cfg!(target_endian = "little") { b'L' } else { b'B' }, WORD as u8, align_of::<u64>() as u8, 7, 0, 0, 0, 0];
    for (byte, kind) in layout[4..].iter_mut().zip(Kind::ALL) {
        let words = kind.words();
        *byte = words.address << 4 | words.capacity << 2 | words.length;
    }
    u64::from_le_bytes(layout)
}

/// A layout for a person to read.
pub fn describe(layout: u64) -> String {
    let [endian, word, alignment, version, vectors @ ..] = layout.to_le_bytes();
    let endian = match endian {
        b'L' => "little-endian",
        b'B' => "big-endian",
        _ => "of an unknown order of bytes",
    };
    let bits = u32::from(word) * 8;
    let [a, b, c, d] = vectors;
    format!("{endian}, {bits} bits, u64 aligned to {alignment}, abomonation 0.{version}, vectors {a:02x}{b:02x}{c:02x}{d:02x}")
}

/// Writes a column.
fn encode<T: Plain>(column: &Vec<T>, out: &mut dyn Write) -> io::Result<()> {
    let mut out = Foretold { header: Some(header::<T>(column.len())), out };
    // SAFETY: neither a `Vec` nor a `Plain` type has padding (2).
    unsafe { abomonation::encode(column, &mut out)? };
    let bytes = std::mem::size_of_val(column.as_slice());
    out.write_all(&[0; ALIGNMENT][..bytes.next_multiple_of(ALIGNMENT) - bytes])
}

/// Passes on what is written, but for the first write, which is that of a `Vec`'s words.
struct Foretold<'a> {
    header: Option<[u8; HEADER]>,
    out: &'a mut dyn Write,
}

impl Write for Foretold<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.header.take() {
            Some(header) => self.out.write_all(&header).map(|()| bytes.len()),
            None => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Makes a `Vec` of the first bytes of `column` whose elements are the others; says whether it did. It does not if the first
/// bytes are not what a column of `count` elements begins with, or the others are not as many.
fn exhume<T: Plain>(column: &mut [u8], count: usize) -> bool {
    let Some((words, elements)) = column.split_at_mut_checked(HEADER) else { return false };
    let Some((elements, _)) = count.checked_mul(size_of::<T>()).and_then(|bytes| elements.split_at_mut_checked(bytes)) else {
        return false;
    };
    let vec = words.as_mut_ptr().cast::<Vec<T>>();
    if *words != header::<T>(count) || !vec.is_aligned() || !elements.as_ptr().cast::<T>().is_aligned() {
        return false;
    }
    // SAFETY: the reference is to all the bytes of a `Vec`, aligned, that nothing else refers to (4, 5). They are those of a
    // `Vec` with a possible length and capacity and an address that is not null (3), of which abomonation reads the length
    // alone; it overwrites the whole without dropping it. The elements are as many, aligned, and values of their type (1).
    let rest = unsafe { (*vec).exhume(elements) };
    rest.is_some_and(|rest| rest.is_empty())
}

/// Zeroed memory, aligned for columns.
#[derive(Debug)]
pub struct Buffer(NonNull<[u64]>);

// SAFETY: it owns its memory, as a `Box` does.
unsafe impl Send for Buffer {}
// SAFETY: it has no interior mutability.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Memory for so many bytes, rounded up.
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0u64; bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        // From here on, the memory is reached through this pointer alone: moving a `Box` would assert that nothing
        // else reaches what it owns, and the `Vec`s in it do (5).
        Buffer(NonNull::from(Box::leak(memory)))
    }

    /// How many bytes it has: a multiple of eight.
    pub fn size(&self) -> usize {
        self.0.len() * size_of::<u64>()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialised and as long, and is borrowed as long as the buffer is.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast::<u8>().as_ptr(), self.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and `Buffer::new` alone makes buffers.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Columns in a buffer.
#[derive(Debug)]
pub struct InPlace {
    buffer: Buffer,
    /// What each column is made of, and where in the buffer it is.
    columns: Vec<(Kind, usize)>,
}

impl InPlace {
    /// Makes columns of such shapes out of the buffer, in which they follow each other from the start.
    ///
    /// # Errors
    ///
    /// The byte at which a column should begin, and does not.
    pub fn decode(mut buffer: Buffer, shapes: impl IntoIterator<Item = Shape>) -> Result<Self, u64> {
        let mut columns = Vec::new();
        let (mut at, mut rest) = (0, buffer.bytes_mut());
        for Shape { kind, count } in shapes {
            let fits = Shape { kind, count }.encoded_len().filter(|len| *len <= rest.len() as u64);
            // Split off, not indexed: an index into `rest` would be a use of all of it, and end what the `Vec`s refer to (5).
            let (column, after) = rest.split_at_mut(fits.ok_or(at as u64)? as usize);
            if !kind.exhume(column, count as usize) {
                return Err(at as u64);
            }
            columns.push((kind, at));
            at += column.len();
            rest = after;
        }
        Ok(InPlace { buffer, columns })
    }

    /// The elements of a column, if there are as many columns and this one is made of `T`.
    pub fn column<T: Plain>(&self, index: usize) -> Option<&[T]> {
        let &(kind, at) = self.columns.get(index)?;
        if kind != T::KIND {
            return None;
        }
        // SAFETY: `exhume` made a `Vec<T>` here, of elements in the same memory, which nobody writes to while `self` is borrowed.
        let column: &Vec<T> = unsafe { self.buffer.0.byte_add(at).cast().as_ref() };
        Some(column)
    }

    /// The buffer, for other columns.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}
