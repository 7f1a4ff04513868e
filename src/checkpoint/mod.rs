//! What survives a restart.

pub mod segment;
