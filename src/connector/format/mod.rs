//! Formats: bytes to rows and changes to bytes.
//!
//! A decoder reads complete records from the front of a buffer and says how much of it it used up. A record that is
//! wrong costs that record: it becomes a message with file, line and column, and the next one is read as if nothing had
//! been. There is one way to decode, by columns where the format allows it, and positions come out of it for free.

mod column;
mod csv;
mod json;
pub(super) mod parse;
mod rows;
mod scan;

use super::options::Options;
use super::{Changes, Place, RowKind};
use crate::error::{Error, Result};
pub use rows::Rows;

/// What stands behind the bytes that a decoder is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// More bytes, perhaps: an incomplete record is left for later.
    More,
    /// The end of the file: what is left is a record, or half of one.
    End,
    /// Enough to say that the record at the front is never going to be complete.
    TooLong,
}

/// Bytes to rows.
pub trait Decoder: Send {
    /// Begins a file, or goes on with one from a place in it. What was left of the one before is lost.
    fn begin(&mut self, place: Place) -> Result<()>;

    /// Decodes records from the front until the batch is full or no record is complete; gives how many bytes they
    /// were. An error is one of the whole file.
    fn decode(&mut self, bytes: &[u8], tail: Tail) -> Result<usize>;

    /// The rows so far.
    fn rows(&self) -> &Rows;

    /// The rows so far, to be taken or turned down.
    fn rows_mut(&mut self) -> &mut Rows;
}

/// Changes to text.
pub trait Encoder: Send {
    /// Appends what stands before the first change.
    fn begin(&mut self, out: &mut String);

    /// Appends the changes of one step.
    fn encode(&mut self, changes: &Changes, out: &mut String) -> Result<()>;
}

/// Checks the format's options and that it has every column's type.
pub fn check(options: &Options) -> Result<()> {
    decoder(options)?;
    encoder(options)?;
    Ok(())
}

/// The decoder of a table's format.
pub fn decoder(options: &Options) -> Result<Box<dyn Decoder>> {
    Ok(match format_name(options) {
        "csv" => Box::new(csv::CsvDecoder::new(options)?),
        "json" => Box::new(json::JsonDecoder::new(options)?),
        _ => Box::new(json::JsonDecoder::debezium(options)?),
    })
}

/// The encoder of a table's format.
pub fn encoder(options: &Options) -> Result<Box<dyn Encoder>> {
    Ok(match format_name(options) {
        "csv" => Box::new(csv::CsvEncoder::new(options)?),
        "json" => Box::new(json::JsonEncoder::new(options)?),
        _ => Box::new(json::DebeziumEncoder::new(options)),
    })
}

fn format_name(options: &Options) -> &'static str {
    options.format.expect("a connector whose rows have a format was looked up with it").name
}

/// Whether rows come with an `op`; a column of that name would be taken for it.
fn changelog(options: &Options) -> Result<bool> {
    let changelog = options.flag("changelog")?;
    if changelog && options.spec.schema.fields().iter().any(|field| field.name() == "op") {
        let message = format!("table '{}': with 'changelog' = 'true' the name op is taken; the column needs another", options.spec.name);
        return Err(Error::Invalid(message));
    }
    Ok(changelog)
}

/// The error of a change that a format without changes cannot take.
fn append_only(table: &str, format: &str, kind: RowKind) -> Error {
    Error::invalid(format!(
        "table '{table}' cannot take the change {kind}: {format} only appends; use 'format' = 'debezium-json' or 'changelog' = 'true'"
    ))
}
