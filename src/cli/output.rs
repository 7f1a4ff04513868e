//! Rows for people and for programs: a table, CSV, or a JSON object a line.
//!
//! The forms differ in what survives. A table shows NULL as `NULL` and is for reading only. CSV (RFC 4180, with a
//! header) writes NULL as nothing and an empty string as `""`. JSON keeps numbers, booleans, lists and structs as
//! such, and NULL as `null`; what JSON has no form for (timestamps, NaN, infinities) is a string. Rows that stream
//! have two columns before their own, [`AT`] and [`DIFF`].

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema, TimeUnit};

use crate::engine::Update;
use crate::error::Result;
use crate::text::{cell, table};

/// The instant of a streamed change.
pub const AT: &str = "weir_at";
/// How many more of a streamed row there are.
pub const DIFF: &str = "weir_diff";

/// `--format` of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, for reading
    Table,
    /// Comma-separated, with a header
    Csv,
    /// An object a line
    Json,
}

impl Format {
    /// What was asked for; else what suits a terminal or a pipe.
    pub fn or_default(choice: Option<Format>, terminal: bool) -> Format {
        choice.unwrap_or(if terminal { Format::Table } else { Format::Csv })
    }
}

/// Writes results in one format, one after the other.
pub struct Results<W> {
    out: W,
    format: Format,
    any: bool,
}

impl<W: Write> Results<W> {
    pub fn new(out: W, format: Format) -> Self {
        Results { out, format, any: false }
    }

    /// Writes a query's rows. CSV results are set apart by an empty line, since each begins with a header.
    pub fn rows(&mut self, rows: &RecordBatch) -> io::Result<()> {
        let mut text = String::new();
        if self.format == Format::Csv && self.any {
            text.push('\n');
        }
        self.any = true;
        match self.format {
            Format::Table => {
                text.push_str(table(rows).trim_end_matches('\n'));
                text.push('\n');
            }
            Format::Csv => {
                csv_header(&mut text, rows.schema_ref());
                csv_rows(&mut text, rows);
            }
            Format::Json => json_rows(&mut text, rows),
        }
        self.write(&text)
    }

    /// Writes a column of text (a plan, a definition) as it is, except to a program that asked for JSON.
    pub fn text(&mut self, rows: &RecordBatch) -> io::Result<()> {
        if self.format == Format::Json || rows.num_columns() != 1 {
            return self.rows(rows);
        }
        let column = rows.column(0);
        let lines: String = (0..rows.num_rows()).map(|row| cell(column, row).trim_end_matches('\n').to_owned() + "\n").collect();
        self.write(&lines)
    }

    /// The writer and its format, for a stream.
    pub fn stream(&self) -> Stream<W>
    where
        W: Clone,
    {
        Stream { out: self.out.clone(), format: self.format, headed: false }
    }

    /// Hands over whole results, so that they do not mix with what others write.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// Writes the changes of one subscription as they come.
pub struct Stream<W> {
    out: W,
    format: Format,
    headed: bool,
}

impl<W: Write> Stream<W> {
    /// Writes the changes of one step, a line each.
    pub fn update(&mut self, update: &Update) -> Result<()> {
        let rows = with_time_and_diff(update)?;
        let mut text = String::new();
        match self.format {
            Format::Table => {
                if !self.headed {
                    let names: Vec<&str> = rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
                    text.push_str(&format!("{}\n", names.join(" | ")));
                }
                for row in 0..rows.num_rows() {
                    let cells: Vec<String> = rows.columns().iter().map(|column| cell(column, row)).collect();
                    text.push_str(&format!("{}\n", cells.join(" | ")));
                }
            }
            Format::Csv => {
                if !self.headed {
                    csv_header(&mut text, rows.schema_ref());
                }
                csv_rows(&mut text, &rows);
            }
            Format::Json => json_rows(&mut text, &rows),
        }
        self.headed = true;
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| unwritable(&error))
    }
}

/// Output that cannot be written.
pub fn unwritable(error: &io::Error) -> crate::error::Error {
    crate::error::Error::Io(format!("cannot write to standard output: {error}"))
}

fn with_time_and_diff(update: &Update) -> Result<RecordBatch> {
    let rows = &update.rows;
    let at = TimestampMillisecondArray::from_value(update.at, rows.num_rows());
    let diffs = Int64Array::from(update.diffs.clone());
    let own = rows.schema_ref().fields().iter().cloned();
    let added = [Field::new(AT, DataType::Timestamp(TimeUnit::Millisecond, None), false), Field::new(DIFF, DataType::Int64, false)];
    let fields: Vec<Arc<Field>> = added.map(Arc::new).into_iter().chain(own).collect();
    let added: [Arc<dyn Array>; 2] = [Arc::new(at), Arc::new(diffs)];
    let columns = added.into_iter().chain(rows.columns().iter().cloned()).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn csv_header(text: &mut String, schema: &Schema) {
    let names: Vec<String> = schema.fields().iter().map(|field| csv_field(field.name())).collect();
    text.push_str(&names.join(","));
    text.push('\n');
}

fn csv_rows(text: &mut String, rows: &RecordBatch) {
    for row in 0..rows.num_rows() {
        for (i, column) in rows.columns().iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            if column.is_valid(row) {
                text.push_str(&csv_field(&cell(column, row)));
            }
        }
        text.push('\n');
    }
}

/// Quotes what would otherwise be read as something else.
fn csv_field(value: &str) -> String {
    if value.is_empty() || value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

fn json_rows(text: &mut String, rows: &RecordBatch) {
    for row in 0..rows.num_rows() {
        let members = rows.schema_ref().fields().iter().zip(rows.columns());
        json_object(text, members.map(|(field, column)| (field.name().as_str(), column.as_ref())), row);
        text.push('\n');
    }
}

fn json_object<'a>(text: &mut String, members: impl Iterator<Item = (&'a str, &'a dyn Array)>, row: usize) {
    text.push('{');
    for (i, (name, column)) in members.enumerate() {
        if i > 0 {
            text.push(',');
        }
        json_string(text, name);
        text.push(':');
        json_value(text, column, row);
    }
    text.push('}');
}

fn json_list(text: &mut String, items: &dyn Array) {
    text.push('[');
    for item in 0..items.len() {
        if item > 0 {
            text.push(',');
        }
        json_value(text, items, item);
    }
    text.push(']');
}

fn json_value(text: &mut String, array: &dyn Array, row: usize) {
    if !array.is_valid(row) || array.data_type() == &DataType::Null {
        return text.push_str("null");
    }
    let is_finite = match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).is_finite(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_finite(),
        _ => true,
    };
    match array.data_type() {
        DataType::Boolean => text.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        number if number.is_numeric() && is_finite => text.push_str(&cell(array, row)),
        DataType::List(_) => json_list(text, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => json_list(text, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => json_list(text, &array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            json_object(text, fields.iter().zip(columns).map(|(field, column)| (field.name().as_str(), column.as_ref())), row);
        }
        _ => json_string(text, &cell(array, row)),
    }
}

fn json_string(text: &mut String, value: &str) {
    text.push_str(&serde_json::Value::from(value).to_string());
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, ListArray, StringArray, StructArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
            .expect("columns of one length")
    }

    fn written(format: Format, batches: &[RecordBatch]) -> String {
        let mut results = Results::new(Vec::new(), format);
        for rows in batches {
            results.rows(rows).expect("memory takes all");
        }
        String::from_utf8(results.out).expect("text")
    }

    fn texts(values: Vec<Option<&str>>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }

    #[test]
    fn a_terminal_gets_a_table_and_a_pipe_gets_csv_unless_told() {
        assert_eq!(Format::or_default(None, true), Format::Table);
        assert_eq!(Format::or_default(None, false), Format::Csv);
        assert_eq!(Format::or_default(Some(Format::Json), true), Format::Json);
    }

    #[test]
    fn csv_tells_null_from_an_empty_string() {
        let rows = batch(vec![("a", texts(vec![None, Some("")])), ("b", texts(vec![Some("x"), Some("y")]))]);
        assert_eq!(written(Format::Csv, &[rows]), "a,b\n,x\n\"\",y\n");
    }

    #[test]
    fn csv_quotes_only_what_would_be_read_otherwise() {
        let rows = batch(vec![("a,b", texts(vec![Some("1,2"), Some("say \"hi\""), Some("two\nlines"), Some("two words")]))]);
        assert_eq!(written(Format::Csv, &[rows]), "\"a,b\"\n\"1,2\"\n\"say \"\"hi\"\"\"\n\"two\nlines\"\ntwo words\n");
    }

    #[test]
    fn an_empty_csv_result_still_has_its_header() {
        assert_eq!(written(Format::Csv, &[batch(vec![("a", texts(vec![]))])]), "a\n");
    }

    #[test]
    fn csv_results_are_set_apart_by_an_empty_line() {
        let rows = batch(vec![("a", texts(vec![Some("x")]))]);
        assert_eq!(written(Format::Csv, &[rows.clone(), rows]), "a\nx\n\na\nx\n");
    }

    #[test]
    fn json_keeps_numbers_booleans_and_null_as_such() {
        let rows = batch(vec![
            ("i", Arc::new(Int64Array::from(vec![Some(-7), None]))),
            ("f", Arc::new(Float64Array::from(vec![0.5, f64::NAN]))),
            ("b", Arc::new(BooleanArray::from(vec![true, false]))),
            ("d", Arc::new(Decimal128Array::from(vec![1234, -5]).with_precision_and_scale(10, 2).expect("in range"))),
            ("s", texts(vec![Some("a \"b\"\n"), Some("")])),
        ]);
        let lines = written(Format::Json, &[rows]);
        let expected = [
            r#"{"i":-7,"f":0.5,"b":true,"d":12.34,"s":"a \"b\"\n"}"#, //
            r#"{"i":null,"f":"NaN","b":false,"d":-0.05,"s":""}"#,
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn json_keeps_lists_and_structs_as_such() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
        let fields = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Utf8, true)), texts(vec![Some("a"), None]))]);
        let rows = batch(vec![("l", Arc::new(list)), ("o", Arc::new(fields))]);
        let lines = written(Format::Json, &[rows]);
        assert_eq!(lines.lines().collect::<Vec<_>>(), [r#"{"l":[1,null],"o":{"x":"a"}}"#, r#"{"l":null,"o":{"x":null}}"#]);
    }

    #[test]
    fn every_line_of_json_is_read_back_by_a_json_reader() {
        let rows = batch(vec![("k \"", texts(vec![Some("\u{1}\t\\ü")]))]);
        let value: serde_json::Value = serde_json::from_str(&written(Format::Json, &[rows])).expect("valid JSON");
        assert_eq!(value["k \""], "\u{1}\t\\ü");
    }

    #[test]
    fn a_plan_is_printed_as_it_is_and_not_quoted() {
        let plan = batch(vec![("plan", texts(vec![Some("Join on a, b"), Some("  Get t")]))]);
        let mut results = Results::new(Vec::new(), Format::Csv);
        results.text(&plan).expect("memory takes all");
        assert_eq!(String::from_utf8_lossy(&results.out), "Join on a, b\n  Get t\n");
    }

    #[test]
    fn streamed_changes_have_one_header_and_a_signed_count_a_row() {
        let step = |at, diff| Update { at, rows: batch(vec![("k", texts(vec![Some("a")]))]), diffs: vec![diff] };
        let mut stream = Results::new(Vec::new(), Format::Csv).stream();
        stream.update(&step(5_000, 1)).expect("written");
        stream.update(&step(6_000, -2)).expect("written");
        let text = String::from_utf8_lossy(&stream.out).into_owned();
        assert_eq!(text, "weir_at,weir_diff,k\n1970-01-01 00:00:05,1,a\n1970-01-01 00:00:06,-2,a\n");
    }
}
