//! What Weir promises, checked from outside: one binary, because each one links the whole planner.
//!
//! - [`oracle`]: more than a hundred queries, kept up to date under random changes, equal SQLite run from scratch.
//! - [`random_queries`]: the same for queries that a generator makes up.
//! - [`comparisons`]: what is compared is compared exactly, whatever the types.
//! - [`over`]: OVER windows on time equal SQLite run from scratch, in long partitions.
//! - [`retention`]: what views remember and publish on random timelines, beside a model, and by hand.
//! - [`asof`]: as-of and temporal joins under random changes of both sides equal SQLite's latest rows.
//! - [`temporal_joins`]: as-of and temporal joins under an event clock publish what a model does, in whatever order rows come.
//! - [`temporal`]: views over NOW() are at every instant what SQLite computes for that instant.
//! - [`event_time`]: the same results in whatever order, batches and workers rows come.
//! - [`closing`]: what is said when windows close, on random timelines, beside a model.
//! - [`derived`]: what is over is forgotten by itself, and nobody can tell but by the memory.
//! - [`nexmark`]: the queries of the Nexmark benchmark, beside SQLite, in whatever order events come.
//! - [`tpch`]: the queries of TPC-H beside SQLite, while orders come and go.
//! - [`scripts`]: golden scripts in sqllogictest form, ours and the shared acceptance scenarios.
//! - [`command`]: the command line: help, messages, interruption.
//! - [`bench`]: `weir bench`: every query runs, and what is said of it.
//! - [`query_files`]: the files of `queries/`, through the binary, against results computed without Weir.
//! - [`query_orders`]: what these files publish is the same in whatever order their input comes.
//!
//! The rest serves these: [`value`] reads and compares results, [`sqlite`] is the other engine, [`both`] says things to both,
//! [`world`] makes tables change, [`published`] adds up what a view says, [`check`] runs views beside SQLite, [`shrink`] makes
//! a failure small enough to read.

mod asof;
mod bench;
mod both;
mod check;
mod closing;
mod command;
mod comparisons;
mod derived;
mod event_time;
mod generator;
mod nexmark;
mod oracle;
mod oracle_queries;
mod over;
mod published;
mod query_files;
mod query_orders;
mod random_queries;
mod retention;
mod scripts;
mod shrink;
mod sqlite;
mod temporal;
mod temporal_joins;
mod tpch;
mod value;
mod world;
