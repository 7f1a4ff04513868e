//! Rows as bytes: the encoding, and the containers that carry and keep them.
//!
//! - [`Codec`] turns Arrow columns into rows that compare in SQL order as bytes, and back.
//! - [`Updates`] is what flows between operators: rows, each split into a key and a value, with times and diffs.
//! - [`ByteRows`] is what a trace keeps: many rows in one allocation.
//! - [`Sums`] are the sums of an accumulable aggregate, kept in a trace's difference.
//! - A [`batch`] of a trace is written as a [`draft`] or merged from two, and a [`reader`] looks keys up in it; [`spine`] puts
//!   it into differential dataflow's traces, and [`reclaim`] gives memory back from them.
//! - [`columns`] are what a checkpoint writes of all that.

pub mod batch;
mod bytes;
mod changes;
mod codec;
pub mod columns;
pub mod draft;
mod merge;
mod ranks;
pub mod reader;
pub mod reclaim;
mod sort;
pub mod spine;
mod sums;
mod updates;

pub use bytes::{ByteRows, Bytes, Offsets};
pub use codec::{Codec, fixed_len, instant, instant_bytes, milliseconds, null_row, prefix_len};
pub use ranks::{has_rank, of_ranks, ranks};
pub use sums::{Digits, SlotLayout, Sums, SumsContainer, SumsRef};
pub use updates::{ByKey, SumUpdates, ToFirst, Updates, UpdatesBuilder, key_hash};

/// A moment of the dataflow: `ms << 20 | step`, totally ordered. See [`crate::engine::time`].
pub type Time = u64;
/// How many more (or fewer) of a row there are.
pub type Diff = i64;
