//! Weir keeps SQL views up to date while their inputs change.

pub mod cli;
pub mod connector;
pub mod dataflow;
pub mod engine;
pub mod error;
pub mod eval;
pub mod plan;
pub mod row;
pub mod sql;
pub mod text;
