//! Durability, checked from outside: whatever ends the process, what is said afterwards is what would have been said.
//!
//! - [`folder`]: the folder of a state, and what can be wrong with it.
//! - [`kill`]: the command under SIGKILL, and the bytes of its files.
//! - [`programs`]: programs that are run again, changed or not.
//! - [`scripts`]: golden scripts with the engine lost and begun again between their statements.
//!
//! The random timelines of [`super::retention`] and the queries of [`super::oracle`] have runs of their own with losses.

mod folder;
mod kill;
mod programs;
pub mod scripts;
