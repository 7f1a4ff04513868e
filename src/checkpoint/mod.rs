//! What survives a restart: checkpoints in a folder, and what is in them.
//!
//! A [`Checkpoint`] is an engine as of one time: what its session knows, as the engine says it, and the states of all operators
//! ([`crate::dataflow::state`]). [`Store`] is the folder: it writes checkpoints aside, publishes each by one rename, keeps the last
//! two, and gives back the newest that is whole.
//!
//! - [`segment`] is how columns lie in a file, checked before they are believed;
//! - `states` are the operators' states as segments;
//! - `store` the files of a folder.
//!
//! A batch of a trace does not change. So one that was written for an earlier checkpoint, and is long enough for a file of its
//! own, is named by the next and not written again: a checkpoint costs what has changed since the last one, as merges do.

pub mod segment;
mod states;
mod store;

pub use states::{Checkpoint, WorkerState, deal};
pub use store::{Listed, Store, Summary};
