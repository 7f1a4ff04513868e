//! From plans to timely dataflows. Knows no SQL text and no catalog.
//!
//! - [`render`] walks a plan and calls one function a node; it finds arrangements that are there already.
//! - [`arrange`] makes arrangements and reads them; `sweep` works off what changes in them, a piece at a time.
//! - [`retain`] makes arrangements that forget, and `settle` says what consumers see of that.
//! - `columnar` and `accumulate` are the stateless operators; `delay` holds back what a window has not closed on; `join`, `asof`, `reduce`, `topk`, `window`, `session`, `threshold` and
//!   `upsert` the stateful ones.
//! - `temporal` lets rows come and go by engine time.
//! - [`state`] is what operators remember between steps, for checkpoints.
//! - [`sink`] is where changes leave a dataflow.
//!
//! # Errors
//!
//! Every collection is a pair: rows, and a set of *error sources* (operators on which a row can fail). An error source
//! is arranged, by message, where the failure happens; whoever reads a collection reads the errors of all sources
//! under it.
//!
//! ```text
//!   rows ──▶ Linear ──rows──▶ Join ──rows──▶ sink      the sink publishes nothing while
//!              └─errors─▶ arranged by message ──────▶ (its error sources hold a message)
//! ```
//!
//! So an error travels around the operators that come after it, and goes when the row that caused it is retracted.

pub mod accumulate;
mod ahead;
pub mod arrange;
mod asof;
pub mod columnar;
mod delay;
mod groups;
mod guard;
mod join;
mod owned;
mod reduce;
pub mod registry;
pub mod render;
pub mod retain;
mod session;
mod settle;
pub mod sink;
pub mod state;
mod sweep;
mod temporal;
mod threshold;
mod topk;
mod upsert;
mod window;
