//! What DataFusion's planner says went wrong, in the crate's own words.

use datafusion_common::{DataFusionError, SchemaError};

use super::windows::Kind;
use crate::error::Error;
use crate::sql::functions::functions;

/// An error of planning. One of ours that passed through DataFusion comes out as it went in.
pub(super) fn planning(error: DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => planning(*inner),
        DataFusionError::Collection(errors) if !errors.is_empty() => planning(errors.into_iter().next().expect("it is not empty")),
        DataFusionError::Shared(inner) => match std::sync::Arc::try_unwrap(inner) {
            Ok(inner) => planning(inner),
            Err(shared) => Error::invalid(shared.strip_backtrace()),
        },
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(theirs) => Error::invalid(theirs),
        },
        DataFusionError::SchemaError(error, _) => schema(*error),
        DataFusionError::NotImplemented(what) => Error::Unsupported(first_line(&what)),
        DataFusionError::Plan(message) => plan(&message),
        DataFusionError::Execution(message) => Error::invalid(first_line(&message)),
        DataFusionError::Internal(message) => Error::Unsupported(format!("this query: {}", first_line(&message))),
        other => Error::invalid(other.strip_backtrace()),
    }
}

/// One of our errors, to be passed through DataFusion.
pub(super) fn through(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn schema(error: SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let qualified = valid_fields.iter().map(|valid| match &field.relation {
                Some(_) => valid.flat_name(),
                None => valid.name.clone(),
            });
            Error::unknown("column", field.flat_name(), qualified)
        }
        SchemaError::AmbiguousReference { field } => {
            Error::invalid(format!("column '{}' is ambiguous: it is in more than one table, so say which", field.flat_name()))
        }
        other => Error::invalid(first_line(&other.to_string())),
    }
}

fn plan(message: &str) -> Error {
    if let Some(name) = message.strip_prefix("Invalid function '").and_then(|rest| rest.split('\'').next()) {
        if let Some(kind) = Kind::named(name) {
            return Error::invalid(format!("{} is not a value: it stands in GROUP BY, or in FROM as a table function", kind.name()));
        }
        if let Some((_, instead)) = SAID_OTHERWISE.iter().find(|(other, _)| name.eq_ignore_ascii_case(other)) {
            return Error::unsupported(format!("the function {}: say {instead}", name.to_uppercase()));
        }
        return Error::unknown("function", name, functions().names());
    }
    if let Some(ungrouped) = ungrouped(message) {
        return Error::invalid(ungrouped);
    }
    Error::invalid(first_line(message))
}

/// `Column in SELECT must be in GROUP BY ...: While expanding wildcard, column "t.b" ...`, which it says with or without a
/// wildcard.
fn ungrouped(message: &str) -> Option<String> {
    let (rule, rest) = message.split_once(": While expanding wildcard, column \"")?;
    let (column, _) = rest.split_once("\" must appear")?;
    Some(format!("column {column}{}", rule.strip_prefix("Column")?))
}

/// Whether an error is that a column is neither in GROUP BY nor in an aggregate.
pub(super) fn is_ungrouped(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Plan(message) if ungrouped(message).is_some())
}

/// What to write for functions of other engines; in lower case.
const SAID_OTHERWISE: &[(&str, &str)] = &[
    ("dateadd", "TIMESTAMPADD(DAY, n, ts), or ts + INTERVAL '1' DAY"),
    ("date_add", "TIMESTAMPADD(DAY, n, ts), or ts + INTERVAL '1' DAY"),
    ("date_sub", "ts - INTERVAL '1' DAY"),
    ("datediff", "TIMESTAMPDIFF(DAY, a, b)"),
    ("date_diff", "TIMESTAMPDIFF(DAY, a, b)"),
    ("convert_tz", "CAST(ts AT TIME ZONE 'Europe/Berlin' AS TIMESTAMP(3))"),
    ("from_utc_timestamp", "CAST(ts AT TIME ZONE 'Europe/Berlin' AS TIMESTAMP(3)), of a TIMESTAMP_LTZ"),
    ("to_utc_timestamp", "ts AT TIME ZONE 'Europe/Berlin', of a TIMESTAMP"),
];

/// DataFusion adds advice to its own developers after the message, and wraps what a function says of its arguments.
fn first_line(message: &str) -> String {
    let said = message.split_once("coercion failed with: Error during planning: ").map_or(message, |(_, said)| said);
    let message = said.split_once(". No function matches").map_or(said, |(said, _)| said);
    message.lines().next().unwrap_or_default().trim_end_matches('.').to_string()
}
