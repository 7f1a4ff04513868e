//! Weir keeps SQL views up to date while their inputs change.
//!
//! A view compiles to a dataflow over *arrangements*: indexed multisets of rows, each row with a time and a signed count.
//! What comes in are changes, what goes out are changes, and the work in between is in proportion to them. Because a row
//! can be taken back as naturally as it is added, a view over a view is a view like any other; because equal plans have
//! equal fingerprints, what two views have in common is computed and kept once.
//!
//! ```
//! use weir::text::line;
//! use weir::{Clock, Engine};
//!
//! # fn main() -> weir::Result<()> {
//! let engine = Engine::builder().clock(Clock::Manual).build()?;
//! engine.execute(
//!     "CREATE TABLE orders (customer VARCHAR, amount INT);
//!      CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
//!      CREATE MATERIALIZED VIEW best AS SELECT MAX(total) AS total FROM totals;
//!      INSERT INTO orders VALUES ('ann', 5), ('bob', 9), ('ann', 7);",
//! )?;
//! assert_eq!(line(&engine.query("SELECT total FROM best")?, 0), ["12"]);
//!
//! engine.execute("DELETE FROM orders WHERE amount = 7")?;
//! assert_eq!(line(&engine.query("SELECT total FROM best")?, 0), ["9"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! The modules follow the path of a query.
//!
//! | module | from | to |
//! |---|---|---|
//! | [`sql`] | text | statements, and queries planned by DataFusion's planner |
//! | [`plan`] | logical plans | the algebra: a dozen operators, their arrangements, fingerprints, EXPLAIN |
//! | [`dataflow`] | plans | timely and differential dataflows over rows as bytes |
//! | [`row`] | Arrow columns | rows as bytes that compare in SQL order, and the containers that keep them |
//! | [`eval`] | expressions | values, with the rows that fail told apart |
//! | [`engine`] | statements | results: catalog, clock, workers, subscriptions; the public interface |
//! | [`checkpoint`] | state | files that a run can start from again |
//! | [`connector`] | files, streams, generators | Arrow batches, and changes back out |
//! | [`text`], [`error`], [`cli`] | values, failures, arguments | what a person reads |

#![deny(unsafe_code)]

pub mod checkpoint;
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

pub use engine::{Builder, Clock, Engine, Outcome, Stats, Subscription, Update};
pub use error::{Error, Result};
