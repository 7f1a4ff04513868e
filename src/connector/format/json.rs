//! An object a line: rows (`json`) and Debezium's change events (`debezium-json`).
//!
//! A change event is `{"before": row, "after": row, "op": "c"}`; `c` and `r` insert `after`, `d` deletes `before`, and `u`
//! does both. An event that deletes must give `before`; of a table with a primary key, an update may leave it out, and a
//! deletion need give no more than the key.
//!
//! Times are strings as [`crate::text`] writes them, with `Z` where the column has a time zone; VARBINARY is base64;
//! the doubles that JSON has no number for are `"NaN"`, `"Infinity"` and `"-Infinity"`.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use super::column::{Bytes, Fault, Missing, shown};
use super::scan::{Scanner, Syntax, Token, write_string};
use super::{Decoder, Encoder, Rows, Tail, append_only, changelog, parse, rows};
use crate::connector::options::Options;
use crate::connector::{Changes, Op, Place, RowKind};
use crate::error::Result;
use crate::text;

/// What an object on a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Row,
    /// A row with its `op`.
    Change,
    /// Debezium's event; `enveloped` says that it is in the field `payload`.
    Event {
        enveloped: bool,
    },
}

/// Decodes json and debezium-json.
pub struct JsonDecoder {
    shape: Shape,
    key: Vec<usize>,
    rows: Rows,
}

impl JsonDecoder {
    pub fn new(options: &Options) -> Result<Self> {
        Self::of_shape(options, if changelog(options)? { Shape::Change } else { Shape::Row })
    }

    pub fn debezium(options: &Options) -> Result<Self> {
        Self::of_shape(options, Shape::Event { enveloped: options.flag("debezium-json.schema-include")? })
    }

    fn of_shape(options: &Options, shape: Shape) -> Result<Self> {
        let rows = Rows::new(options, Bytes::Base64, shape != Shape::Row)?;
        Ok(JsonDecoder { shape, key: options.spec.primary_key.clone(), rows })
    }

    /// Decodes one line. Rows that a faulty line has appended are marked to be dropped.
    fn line(&mut self, bytes: &[u8]) {
        let (line, before) = (self.rows.place.line, self.rows.len());
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let column = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).chars().count() + 1;
                return self.rows.reject(line, &format!(", column {column}: not UTF-8"));
            }
        };
        let read = match self.shape {
            Shape::Row | Shape::Change => self.row(text),
            Shape::Event { enveloped } => self.event(text, enveloped),
        };
        if let Err(fault) = read {
            (before..self.rows.len()).for_each(|row| self.rows.drop_row(row));
            let message = fault.value().map(|what| format!(", {what}")).unwrap_or_else(|Syntax { at, what }| {
                format!(", column {}: expected {what}", text[..at.min(text.len())].chars().count() + 1)
            });
            self.rows.reject(line, &message);
        }
    }

    fn row(&mut self, text: &str) -> Result<(), Fault> {
        let mut scanner = Scanner::at(text, 0);
        open_object(&mut scanner)?;
        let mut op = Err(Fault::Value("field op: there must be one, of +I, -U, +U, -D".into()));
        let with_op = self.shape == Shape::Change;
        let read = self.rows.members.json(&mut scanner, Missing::IsNull, |key, scanner| {
            if with_op && key == "op" {
                op = match scanner.token()? {
                    Token::String(text) => rows::op(&text).map_err(|what| Fault::Value(format!("field op: {what}"))),
                    token => scanner.skip_rest(&token).map_err(Fault::from).and(Err(Fault::Value("field op: not a string".into()))),
                };
                return Ok(());
            }
            Ok(scanner.skip()?)
        });
        self.rows.appended(1);
        if let Some(ops) = &mut self.rows.ops {
            ops.push(op.clone().unwrap_or(Op::Upsert));
            read.and(op)?;
        } else {
            read?;
        }
        Ok(scanner.end()?)
    }

    fn event(&mut self, text: &str, enveloped: bool) -> Result<(), Fault> {
        let mut scanner = Scanner::at(text, 0);
        open_object(&mut scanner)?;
        let event = if enveloped { Event::payload(&mut scanner)? } else { Event::fields(&mut scanner)? };
        scanner.end()?;
        let keyed = !self.key.is_empty();
        let absent = |side: &str| Fault::Value(format!("field {side}: there must be a row in an event of op '{}'", shown(&event.op)));
        match event.op.as_str() {
            "c" | "r" => self.side("after", event.after.ok_or_else(|| absent("after"))?, text, Op::Upsert),
            "u" => {
                let after = event.after.ok_or_else(|| absent("after"))?;
                match event.before {
                    Some(before) => self.side("before", before, text, Op::Delete)?,
                    None if keyed => {}
                    None => return Err(absent("before")),
                }
                self.side("after", after, text, Op::Upsert)
            }
            "d" => self.side("before", event.before.ok_or_else(|| absent("before"))?, text, Op::Delete),
            other => Err(Fault::Value(format!("field op: '{}' is not one of c, r, u, d", shown(other)))),
        }
    }

    /// Appends the row of one side of an event, whose value begins at `at`.
    fn side(&mut self, name: &str, at: usize, text: &str, op: Op) -> Result<(), Fault> {
        let mut scanner = Scanner::at(text, at);
        open_object(&mut scanner)?;
        let missing = if op == Op::Delete && !self.key.is_empty() { Missing::IsUnknownBeside(&self.key) } else { Missing::IsNull };
        let read = self.rows.members.json(&mut scanner, missing, |_, scanner| Ok(scanner.skip()?));
        self.rows.appended(1);
        if let Some(ops) = &mut self.rows.ops {
            ops.push(op);
        }
        read.map_err(|fault| match fault {
            Fault::Value(what) => Fault::Value(format!("{name}: {what}")),
            other => other,
        })
    }
}

/// The parts of a change event: where its rows begin, if they are not null, and what it does.
struct Event {
    before: Option<usize>,
    after: Option<usize>,
    op: String,
}

impl Event {
    /// Reads an event's fields, after its `{`.
    fn fields(scanner: &mut Scanner<'_>) -> Result<Event, Fault> {
        let (mut event, mut op, mut first) = (Event { before: None, after: None, op: String::new() }, None, true);
        while let Some(key) = scanner.key(&mut first)? {
            let at = scanner.position();
            let token = scanner.token()?;
            scanner.skip_rest(&token)?;
            let row = (token != Token::Null).then_some(at);
            match (key.as_ref(), token) {
                ("before", _) => event.before = row,
                ("after", _) => event.after = row,
                ("op", Token::String(text)) => op = Some(text.into_owned()),
                _ => {}
            }
        }
        event.op = op.ok_or_else(|| Fault::Value("field op: there must be one, of c, r, u, d".into()))?;
        Ok(event)
    }

    /// Reads the event in the field `payload` of an envelope, after its `{`.
    fn payload(scanner: &mut Scanner<'_>) -> Result<Event, Fault> {
        let (mut event, mut first) = (None, true);
        while let Some(key) = scanner.key(&mut first)? {
            if key == "payload" {
                open_object(scanner)?;
                event = Some(Event::fields(scanner)?);
            } else {
                scanner.skip()?;
            }
        }
        event.ok_or_else(|| Fault::Value("field payload: there must be one, with the event".into()))
    }
}

fn open_object(scanner: &mut Scanner<'_>) -> Result<(), Syntax> {
    let at = scanner.position();
    match scanner.token()? {
        Token::Object => Ok(()),
        _ => Err(Syntax { at, what: "an object" }),
    }
}

impl Decoder for JsonDecoder {
    fn begin(&mut self, place: Place) -> Result<()> {
        self.rows.place = place;
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], tail: Tail) -> Result<usize> {
        let mut at = 0;
        while at < bytes.len() && self.rows.room() > 0 {
            let rest = &bytes[at..];
            let (line, next) = match rest.iter().position(|&byte| byte == b'\n') {
                Some(end) => (&rest[..end], end + 1),
                None if tail == Tail::End => (rest, rest.len()),
                None => break,
            };
            if !line.trim_ascii().is_empty() {
                self.line(line);
            }
            self.rows.place.line += 1;
            at += next;
        }
        Ok(at)
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }
}

/// Encodes json.
pub struct JsonEncoder {
    table: String,
    /// Every column's name, as it stands before its value.
    keys: Vec<String>,
    changelog: bool,
}

impl JsonEncoder {
    pub fn new(options: &Options) -> Result<Self> {
        Ok(JsonEncoder { table: options.spec.name.clone(), keys: keys(options), changelog: changelog(options)? })
    }
}

impl Encoder for JsonEncoder {
    fn begin(&mut self, _out: &mut String) {}

    fn encode(&mut self, changes: &Changes, out: &mut String) -> Result<()> {
        for (row, kind) in changes.kinds.iter().enumerate() {
            out.push('{');
            if self.changelog {
                out.push_str("\"op\":\"");
                out.push_str(kind.as_str());
                out.push_str(if self.keys.is_empty() { "\"" } else { "\"," });
            } else if *kind != RowKind::Insert {
                return Err(append_only(&self.table, "json", *kind));
            }
            write_fields(out, &self.keys, changes, row);
            out.push_str("}\n");
        }
        Ok(())
    }
}

/// Encodes debezium-json. A removal and the insertion right after it that replaces it are one event.
pub struct DebeziumEncoder {
    keys: Vec<String>,
}

impl DebeziumEncoder {
    pub fn new(options: &Options) -> Self {
        DebeziumEncoder { keys: keys(options) }
    }

    fn event(&self, out: &mut String, changes: &Changes, before: Option<usize>, after: Option<usize>) {
        let op = match (before, after) {
            (Some(_), Some(_)) => 'u',
            (Some(_), None) => 'd',
            (None, _) => 'c',
        };
        for (name, row) in [("{\"before\":", before), (",\"after\":", after)] {
            out.push_str(name);
            match row {
                Some(row) => {
                    out.push('{');
                    write_fields(out, &self.keys, changes, row);
                    out.push('}');
                }
                None => out.push_str("null"),
            }
        }
        out.push_str(&format!(",\"op\":\"{op}\",\"ts_ms\":{}}}\n", changes.at));
    }
}

impl Encoder for DebeziumEncoder {
    fn begin(&mut self, _out: &mut String) {}

    fn encode(&mut self, changes: &Changes, out: &mut String) -> Result<()> {
        let mut row = 0;
        while let Some(kind) = changes.kinds.get(row) {
            match kind {
                RowKind::UpdateBefore if changes.kinds.get(row + 1) == Some(&RowKind::UpdateAfter) => {
                    self.event(out, changes, Some(row), Some(row + 1));
                    row += 1;
                }
                RowKind::UpdateBefore | RowKind::Delete => self.event(out, changes, Some(row), None),
                RowKind::UpdateAfter | RowKind::Insert => self.event(out, changes, None, Some(row)),
            }
            row += 1;
        }
        Ok(())
    }
}

fn keys(options: &Options) -> Vec<String> {
    let key = |field: &arrow::datatypes::FieldRef| {
        let mut key = String::new();
        write_string(&mut key, field.name());
        key.push(':');
        key
    };
    options.spec.schema.fields().iter().map(key).collect()
}

fn write_fields(out: &mut String, keys: &[String], changes: &Changes, row: usize) {
    for (position, (key, column)) in keys.iter().zip(changes.rows.columns()).enumerate() {
        if position > 0 {
            out.push(',');
        }
        out.push_str(key);
        write_value(out, column, row);
    }
}

/// Appends one value as JSON.
pub fn write_value(out: &mut String, array: &dyn Array, row: usize) {
    if array.is_null(row) {
        out.push_str("null");
        return;
    }
    match array.data_type() {
        DataType::Null => out.push_str("null"),
        DataType::Float32 if !array.as_primitive::<Float32Type>().value(row).is_finite() => write_quoted(out, array, row),
        DataType::Float64 if !array.as_primitive::<Float64Type>().value(row).is_finite() => write_quoted(out, array, row),
        data_type if data_type.is_numeric() || data_type == &DataType::Boolean => text::write_cell(out, array, row),
        DataType::Utf8 => write_string(out, array.as_string::<i32>().value(row)),
        DataType::Binary => {
            out.push('"');
            parse::write_base64(out, array.as_binary::<i32>().value(row));
            out.push('"');
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            out.push('[');
            for item in 0..items.len() {
                if item > 0 {
                    out.push(',');
                }
                write_value(out, &items, item);
            }
            out.push(']');
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            out.push('{');
            for (position, (field, column)) in fields.iter().zip(columns).enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_string(out, field.name());
                out.push(':');
                write_value(out, column, row);
            }
            out.push('}');
        }
        _ => write_quoted(out, array, row),
    }
}

/// Appends the text of a value as a string.
fn write_quoted(out: &mut String, array: &dyn Array, row: usize) {
    let mut cell = text::cell(array, row);
    if let DataType::Timestamp(_, Some(_)) = array.data_type() {
        cell.push('Z');
    }
    write_string(out, &cell);
}
