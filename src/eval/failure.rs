//! Why a row, or a group of them, could not be evaluated, in words for the person who wrote the query.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

use super::display::{readable, readable_value};
use crate::error::Error;
use crate::plan::Scalar;

/// How many characters of an expression, a reason or a value a message shows.
const LONGEST: usize = 300;

/// An error on the way through a step, before it is known which row it is about.
pub(super) struct Failure<'a> {
    /// What was being evaluated, if it was an expression.
    expr: Option<&'a Scalar>,
    error: DataFusionError,
}

impl<'a> Failure<'a> {
    /// A failure of an expression.
    pub(super) fn of(expr: &'a Scalar, error: impl Into<DataFusionError>) -> Self {
        Failure { expr: Some(expr), error: error.into() }
    }

    /// `{expression}: {reason} in row ({values})`, for the one row in `row`, if it has columns; what is long is cut short.
    pub(super) fn message(&self, row: &RecordBatch) -> String {
        let reason = clipped(reason(&self.error));
        let place = if row.num_columns() == 0 { String::new() } else { format!(" in row {}", row_text(row)) };
        match self.expr {
            Some(expr) => format!("{}: {reason}{place}", clipped(readable(expr))),
            None => format!("{reason}{place}"),
        }
    }
}

impl<E: Into<DataFusionError>> From<E> for Failure<'_> {
    fn from(error: E) -> Self {
        Failure { expr: None, error: error.into() }
    }
}

/// The failure of an expression that reads no row: `{expression}: {reason}`.
pub fn constant_failure(expr: &Scalar, error: &DataFusionError) -> Error {
    Error::Invalid(format!("{}: {}", readable(expr), reason(error)))
}

/// The root of an error, without the names of the layers that it came through and without a backtrace.
pub fn reason(error: &DataFusionError) -> String {
    let text = match error.find_root() {
        DataFusionError::ArrowError(error, _) => arrow_reason(error),
        root => root.message().into_owned(),
    };
    text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().trim().to_owned()
}

fn arrow_reason(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => "Divide by zero".to_owned(),
        ArrowError::ArithmeticOverflow(text)
        | ArrowError::CastError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::InvalidArgumentError(text)
        | ArrowError::NotYetImplemented(text)
        | ArrowError::ParseError(text) => text.clone(),
        ArrowError::ExternalError(error) => match error.downcast_ref::<DataFusionError>() {
            Some(error) => reason(error),
            None => error.to_string(),
        },
        error => error.to_string(),
    }
}

/// The values of a batch's one row: `(2, NULL)`.
fn row_text(row: &RecordBatch) -> String {
    let values: Vec<String> = row.columns().iter().map(|column| clipped(readable_value(column, 0))).collect();
    format!("({})", values.join(", "))
}

/// A part of a message, cut short where nobody would read on: a message is kept for as long as its row is there.
fn clipped(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn a_reason_is_the_root_error_without_the_layers_around_it() {
        let root = DataFusionError::from(ArrowError::DivideByZero);
        let wrapped = DataFusionError::Context("evaluating".into(), Box::new(DataFusionError::Shared(Arc::new(root))));
        assert_eq!(reason(&wrapped), "Divide by zero");
    }

    #[test]
    fn a_message_does_not_grow_with_the_value_that_it_is_about() {
        let long = "é".repeat(100_000);
        let row = RecordBatch::try_from_iter([("s", Arc::new(StringArray::from(vec![long.as_str(), "é"])) as _)]).unwrap();
        let failure = Failure::from(DataFusionError::Execution(format!("'{long}' is no number")));
        let expected = format!("'{}... in row ({}...)", "é".repeat(LONGEST - 1), "é".repeat(LONGEST));
        assert_eq!(failure.message(&row.slice(0, 1)), expected);
        assert!(failure.message(&row.slice(1, 1)).ends_with("in row (é)"));
    }

    #[test]
    fn a_reason_ends_where_a_backtrace_begins() {
        let error = DataFusionError::Execution(format!("no such zone{}at main", DataFusionError::BACK_TRACE_SEP));
        assert_eq!(reason(&error), "no such zone");
    }
}
