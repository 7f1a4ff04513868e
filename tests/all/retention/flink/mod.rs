//! Where Weir differs from Flink 2.3: a script for each row of the comparison, with what Flink does instead.
//!
//! Rows are worked out from the contract. Two rows of the comparison are scenarios already (a hint after JOIN, the frame
//! of one preceding row), and a side that is left out of a hint is the eighth of the mistakes.

mod groups;
mod joins;
mod views;
