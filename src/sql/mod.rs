//! From text to statements, and from queries to plans.
//!
//! [`statements`] reads a script one statement at a time, so that a script runs up to its first mistake; what Weir
//! adds to SQL (options, hints, watermarks, window functions over tables) is taken out of the text on the way, and what
//! remains of a query is a plain `sqlparser` tree for [`planner`].

pub mod dialect;
pub mod duration;
pub mod functions;
pub mod hints;
pub mod parse;
pub mod planner;
pub mod retention;
pub mod statement;

pub use parse::{Statements, is_complete, is_same, parse, statements};
