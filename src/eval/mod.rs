//! Evaluation over Arrow columns: scalars, general aggregates and window functions, with failing rows told apart.
//!
//! What a row evaluates to depends on the row alone, never on the batch it came in: a row that failed when it was
//! inserted fails with the same words when it is retracted, so that the failure cancels as a value would. Integer
//! arithmetic is exact: a result that does not fit its type is a failure, not another number (see [`checked`]).
//!
//! Nothing in here keeps state or knows time; the operators that do are in the dataflow.

mod aggregate;
mod attempt;
mod caught;
mod checked;
mod display;
mod equal;
mod exact;
mod failure;
mod fallible;
mod linear;
#[cfg(test)]
mod null_tests;
mod resume;
mod time_windows;
mod unnest;
mod window;
mod zones;

pub(crate) use attempt::Attempt;
pub(crate) use checked::CheckedNegative;
pub(crate) use equal::Comparable;

pub use aggregate::aggregate;
pub use attempt::{fails, or_null};
pub use checked::checked;
pub use display::{readable, readable_aggregate, readable_type, readable_value, readable_window};
pub use equal::{comparable, comparing};
pub use failure::{constant_failure, reason};
pub use fallible::is_fallible;
pub use linear::{Evaluated, run_steps};
pub use resume::{Mark, Prefix, Slice, resumes, window_from};
pub use time_windows::TimeWindow;
pub use window::{WindowAggregate, is_bounded, window};
pub(crate) use zones::Clock;
pub use zones::{ClockCast, ClockMove, cast_to, cast_values, changes_clock, is_utc, zone};
