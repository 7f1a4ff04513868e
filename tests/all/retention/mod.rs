//! Retention, checked from outside: what a view remembers, publishes and answers under random timelines and by hand.
//!
//! - [`model`]: a slow reading of the contract, which the engine is compared with; [`operators`] are its operators.
//! - [`plans`]: views, each as SQL and as nodes of the model.
//! - [`tables`]: the tables, and statements that both sides carry out.
//! - [`beside`]: runs a timeline in the engine beside the model, step by step or many steps in one batch ([`plug`]).
//! - [`timelines`]: random timelines, and how a failing one is made small.
//! - [`memory`]: what it takes to know when each scope is due.
//! - [`upserts`]: sources of which rows replace one another.
//! - [`worked`]: the model itself, against the contract's examples and the acceptance scenarios.
//! - [`mistakes`] and [`flink`]: small scripts with rows worked out by hand, run by [`script`].

mod beside;
mod failing;
mod flink;
mod memory;
mod mistakes;
mod model;
mod operators;
mod plans;
mod plug;
mod script;
mod settings;
mod tables;
#[path = "../../../benches/through_sql/mod.rs"]
mod through_sql;
mod timelines;
mod upserts;
mod worked;
