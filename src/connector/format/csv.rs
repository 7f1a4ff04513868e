//! Records of fields (RFC 4180): one a line, unless a quoted field has a line break in it.
//!
//! NULL is an unquoted field that is the null literal (by default, nothing), and the empty string is `""`, so that
//! what a sink writes a source reads back. A blank line is no record, unless the table has a single column, where it is a
//! NULL. Blanks around numbers are ignored. A list or struct is a field of JSON text.
//!
//! Decoding is two passes over a batch: the first finds where each field is, the second fills one column at a time.

use arrow::array::Array;
use arrow::datatypes::DataType;

use super::column::{Bytes, shown};
use super::{Decoder, Encoder, Rows, Tail, append_only, changelog, json, rows};
use crate::connector::options::Options;
use crate::connector::{Changes, Place, RowKind};
use crate::error::{Error, Result};
use crate::text;

/// How records are spelt.
#[derive(Debug, Clone)]
struct Dialect {
    delimiter: u8,
    quote: u8,
    null: String,
    header: bool,
    comments: bool,
    changelog: bool,
}

impl Dialect {
    fn new(options: &Options) -> Result<Self> {
        let character = |name: &str| -> Result<u8> {
            match options.require(name)? {
                "\\t" => Ok(b'\t'),
                value => match value.as_bytes() {
                    [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
                    _ => Err(options.wrong(name, "one ASCII character that ends no line")),
                },
            }
        };
        let (delimiter, quote) = (character("csv.field-delimiter")?, character("csv.quote-character")?);
        if delimiter == quote {
            return Err(options.wrong("csv.quote-character", "another one than csv.field-delimiter"));
        }
        let null = options.require("csv.null-literal")?;
        if null.bytes().any(|byte| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r') {
            return Err(options.wrong("csv.null-literal", "free of delimiters, quotes and line ends"));
        }
        Ok(Dialect {
            delimiter,
            quote,
            null: null.to_owned(),
            header: options.flag("csv.header")?,
            comments: options.flag("csv.allow-comments")?,
            changelog: changelog(options)?,
        })
    }
}

/// Where a field stands in the bytes, without its quotes.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bare,
    Quoted,
    /// Quoted, with quotes inside that stand twice.
    Escaped,
}

/// What stands at the front of the bytes.
enum Found {
    /// A record; where the next one begins.
    Record(usize),
    /// Something that is none; where the next one begins, and what is wrong.
    Wrong(usize, String),
    /// Half a record. `quoted` says that a quote is open.
    Half { quoted: bool },
}

/// Decodes csv.
pub struct CsvDecoder {
    dialect: Dialect,
    rows: Rows,
    /// Which field of a record each column is; without a header, the columns in order (after `op`).
    fields: Vec<usize>,
    /// How many fields a record has.
    width: usize,
    /// A header is still to come.
    expects_header: bool,
    /// The fields of the records found, record after record, and the line of each record.
    spans: Vec<Span>,
    lines: Vec<u64>,
    /// What was found that is no record: its line, and what is wrong.
    wrong: Vec<(u64, String)>,
}

impl CsvDecoder {
    pub fn new(options: &Options) -> Result<Self> {
        let dialect = Dialect::new(options)?;
        let first = usize::from(dialect.changelog);
        let width = options.spec.schema.fields().len() + first;
        Ok(CsvDecoder {
            rows: Rows::new(options, Bytes::Hex, dialect.changelog)?,
            expects_header: dialect.header,
            dialect,
            fields: (first..width).collect(),
            width,
            spans: Vec::new(),
            lines: Vec::new(),
            wrong: Vec::new(),
        })
    }

    /// Finds records from the front; gives where the first byte is that is none of theirs.
    fn find(&mut self, bytes: &[u8], mut tail: Tail) -> Result<usize> {
        let mut at = 0;
        while at < bytes.len() && self.lines.len() + self.rows.weight_of(self.wrong.len()) < self.rows.room() {
            let line = self.rows.place.line;
            if let Some(next) = self.pass_over(bytes, at, tail) {
                at = next;
                continue;
            }
            let before = self.spans.len();
            let next = match self.record(bytes, at, tail == Tail::End) {
                Found::Record(next) => next,
                Found::Wrong(next, message) => {
                    self.spans.truncate(before);
                    self.wrong.push((line, message));
                    self.rows.place.line += count_lines(&bytes[at..next]);
                    at = next;
                    continue;
                }
                Found::Half { quoted: true } if tail != Tail::More => {
                    let column = self.spans.len() - before + 1;
                    self.spans.truncate(before);
                    self.wrong.push((line, format!(", column {column}: a quote that opens here is never closed")));
                    // Only its line is lost: the quote is likelier a slip than what follows.
                    at += line_end(&bytes[at..]);
                    self.rows.place.line += 1;
                    tail = if tail == Tail::TooLong { Tail::More } else { tail };
                    continue;
                }
                Found::Half { .. } => {
                    self.spans.truncate(before);
                    break;
                }
            };
            self.rows.place.line += count_lines(&bytes[at..next]);
            at = next;
            if self.expects_header {
                let quote = self.dialect.quote;
                let name = |span| String::from_utf8_lossy(&unescaped(bytes, span, quote)).trim().to_owned();
                self.rows.place.header = self.spans.drain(before..).map(name).collect();
                self.find_columns()?;
            } else if self.spans.len() - before == self.width {
                self.lines.push(line);
            } else {
                let found = self.spans.len() - before;
                self.spans.truncate(before);
                let plural = if found == 1 { "" } else { "s" };
                self.wrong.push((line, format!(": {found} field{plural} where there must be {}", self.width)));
            }
        }
        Ok(at)
    }

    /// Where the line after a blank line or a comment begins; None where a record stands here.
    fn pass_over(&mut self, bytes: &[u8], at: usize, tail: Tail) -> Option<usize> {
        let rest = &bytes[at..];
        let end = match rest {
            [b'\n', ..] if self.width > 1 => 1,
            [b'\r', b'\n', ..] if self.width > 1 => 2,
            [b'#', ..] if self.dialect.comments => line_end(rest),
            _ => return None,
        };
        if rest[end - 1] != b'\n' && tail != Tail::End {
            return None;
        }
        self.rows.place.line += 1;
        Some(at + end)
    }

    /// Appends the spans of the record that begins at `at`. `ended` says that nothing comes after the bytes.
    fn record(&mut self, bytes: &[u8], mut at: usize, ended: bool) -> Found {
        let first = self.spans.len();
        loop {
            let (span, after) = if bytes.get(at) == Some(&self.dialect.quote) {
                match quoted(bytes, at, self.dialect.quote, ended) {
                    Some(found) => found,
                    None => return Found::Half { quoted: true },
                }
            } else {
                let length = bytes[at..].iter().take_while(|&&byte| byte != self.dialect.delimiter && byte != b'\n').count();
                bare(bytes, at, at + length)
            };
            self.spans.push(span);
            match &bytes[after..] {
                [byte, ..] if *byte == self.dialect.delimiter => at = after + 1,
                [b'\n', ..] => return Found::Record(after + 1),
                [b'\r', b'\n', ..] => return Found::Record(after + 2),
                [] | [b'\r'] if ended => return Found::Record(bytes.len()),
                [] | [b'\r'] => return Found::Half { quoted: false },
                rest => {
                    let column = self.spans.len() - first;
                    let delimiter = char::from(self.dialect.delimiter).escape_debug();
                    let message = format!(", column {column}: after a closing quote comes '{delimiter}' or the end of the line");
                    let end = line_end(rest);
                    return if rest[end - 1] == b'\n' || ended {
                        Found::Wrong(after + end, message)
                    } else {
                        Found::Half { quoted: false }
                    };
                }
            }
        }
    }

    /// Finds every column's field by the names in the file's header.
    fn find_columns(&mut self) -> Result<()> {
        let Place { file, header: names, .. } = &self.rows.place;
        let find = |column: &str| {
            let exact = names.iter().position(|name| name == column);
            exact.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(column))).ok_or_else(|| {
                let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
                Error::Io(format!("{file} has no field '{column}' in its header (there is {})", names.join(", ")))
            })
        };
        self.fields = self.rows.members.columns.iter().map(|column| find(column.name())).collect::<Result<_>>()?;
        if self.dialect.changelog && find("op")? != 0 {
            return Err(Error::Io(format!("{file} must have op as the first field of its header")));
        }
        self.width = names.len();
        self.expects_header = false;
        Ok(())
    }

    /// Fills the columns with the records found, and turns down what is wrong, in the order of lines.
    fn fill(&mut self, bytes: &[u8]) {
        let count = self.lines.len();
        let mut faults: Vec<(usize, usize, String)> = Vec::new();
        if let Some(ops) = &mut self.rows.ops {
            for row in 0..count {
                let span = self.spans[row * self.width];
                let op = rows::op(&String::from_utf8_lossy(&bytes[span.start..span.end]));
                // A row that is dropped has an op all the same: there is one a row.
                ops.push(op.clone().unwrap_or(crate::connector::Op::Upsert));
                faults.extend(op.err().map(|what| (row, 0, format!(", column 1 (op): {what}"))));
            }
        }
        let null = self.dialect.null.as_bytes();
        for (column, &field) in self.rows.members.columns.iter_mut().zip(&self.fields) {
            for row in 0..count {
                let span = self.spans[row * self.width + field];
                let value = &bytes[span.start..span.end];
                let result = match span.form {
                    Form::Bare if value == null => column.null(),
                    Form::Bare | Form::Quoted => column.bytes(value),
                    Form::Escaped => column.bytes(&unescaped(bytes, span, self.dialect.quote)),
                };
                if let Err(fault) = result {
                    let what = fault.value().unwrap_or_else(|syntax| format!("expected {}", syntax.what));
                    faults.push((row, field, format!(", column {} ({}): {what}", field + 1, column.name())));
                }
            }
        }
        faults.sort_unstable();
        faults.dedup_by_key(|(row, _, _)| *row);
        let before = self.rows.len();
        for (row, _, message) in faults {
            self.rows.drop_row(before + row);
            self.wrong.push((self.lines[row], message));
        }
        self.wrong.sort_by_key(|(line, _)| *line);
        self.wrong.drain(..).for_each(|(line, message)| self.rows.reject(line, &message));
        self.rows.appended(count);
        self.spans.clear();
        self.lines.clear();
    }
}

impl Decoder for CsvDecoder {
    fn begin(&mut self, place: Place) -> Result<()> {
        self.rows.place = place;
        self.expects_header = self.dialect.header;
        if self.dialect.header && !self.rows.place.header.is_empty() { self.find_columns() } else { Ok(()) }
    }

    fn decode(&mut self, bytes: &[u8], tail: Tail) -> Result<usize> {
        let used = self.find(bytes, tail);
        self.fill(bytes);
        used
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }
}

/// The unquoted field from `start`: it ends before the carriage return of its line's end.
fn bare(bytes: &[u8], start: usize, end: usize) -> (Span, usize) {
    let ends_line = end == bytes.len() || bytes[end] == b'\n';
    let end = if ends_line && end > start && bytes[end - 1] == b'\r' { end - 1 } else { end };
    (Span { start, end, form: Form::Bare }, end)
}

/// The field whose opening quote is at `at`, and where it ends; None where it may go on beyond the bytes.
fn quoted(bytes: &[u8], at: usize, quote: u8, ended: bool) -> Option<(Span, usize)> {
    let (start, mut end, mut form) = (at + 1, at + 1, Form::Quoted);
    loop {
        end += bytes[end..].iter().position(|&byte| byte == quote)?;
        match bytes.get(end + 1) {
            Some(&next) if next == quote => form = Form::Escaped,
            None if !ended => return None,
            _ => return Some((Span { start, end, form }, end + 1)),
        }
        end += 2;
    }
}

/// A field's bytes with quotes that stand twice made one.
fn unescaped(bytes: &[u8], span: Span, quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(span.end - span.start);
    let mut rest = &bytes[span.start..span.end];
    if span.form == Form::Escaped {
        while let Some(at) = rest.iter().position(|&byte| byte == quote) {
            out.extend_from_slice(&rest[..=at]);
            rest = rest.get(at + 2..).unwrap_or_default();
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Where the line after this one begins.
fn line_end(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

fn count_lines(record: &[u8]) -> u64 {
    record.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Encodes csv.
pub struct CsvEncoder {
    table: String,
    names: Vec<String>,
    dialect: Dialect,
    /// A field before it is known whether it needs quotes.
    field: String,
}

impl CsvEncoder {
    pub fn new(options: &Options) -> Result<Self> {
        let names = options.spec.schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(CsvEncoder { table: options.spec.name.clone(), names, dialect: Dialect::new(options)?, field: String::new() })
    }

    fn value(&mut self, array: &dyn Array, row: usize, out: &mut String) {
        if array.is_null(row) {
            out.push_str(&self.dialect.null);
            return;
        }
        self.field.clear();
        match array.data_type() {
            DataType::List(_) | DataType::Struct(_) => json::write_value(&mut self.field, array, row),
            DataType::Binary => text::write_hex(&mut self.field, arrow::array::AsArray::as_binary::<i32>(array).value(row)),
            _ => text::write_cell(&mut self.field, array, row),
        }
        if let DataType::Timestamp(_, Some(_)) = array.data_type() {
            self.field.push('Z');
        }
        write_field(&self.dialect, &self.field, out);
    }
}

/// Appends a field that is not NULL, in quotes where it would be read as something else without.
fn write_field(dialect: &Dialect, field: &str, out: &mut String) {
    let special = |byte: u8| byte == dialect.delimiter || byte == dialect.quote || byte == b'\n' || byte == b'\r';
    let comment = dialect.comments && field.starts_with('#');
    if field != dialect.null && !comment && !field.starts_with('\u{feff}') && !field.bytes().any(special) {
        out.push_str(field);
        return;
    }
    let quote = char::from(dialect.quote);
    out.push(quote);
    for character in field.chars() {
        if character == quote {
            out.push(quote);
        }
        out.push(character);
    }
    out.push(quote);
}

impl Encoder for CsvEncoder {
    fn begin(&mut self, out: &mut String) {
        if !self.dialect.header {
            return;
        }
        let op = self.dialect.changelog.then_some("op");
        for (position, name) in op.into_iter().chain(self.names.iter().map(String::as_str)).enumerate() {
            if position > 0 {
                out.push(char::from(self.dialect.delimiter));
            }
            write_field(&self.dialect, name, out);
        }
        out.push('\n');
    }

    fn encode(&mut self, changes: &Changes, out: &mut String) -> Result<()> {
        let delimiter = char::from(self.dialect.delimiter);
        for (row, kind) in changes.kinds.iter().enumerate() {
            if self.dialect.changelog {
                out.push_str(kind.as_str());
            } else if *kind != RowKind::Insert {
                return Err(append_only(&self.table, "csv", *kind));
            }
            for (position, column) in changes.rows.columns().iter().enumerate() {
                if position > 0 || self.dialect.changelog {
                    out.push(delimiter);
                }
                self.value(column, row, out);
            }
            out.push('\n');
        }
        Ok(())
    }
}
