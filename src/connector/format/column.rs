//! Columns of a table on their way in: text or JSON values to Arrow arrays.
//!
//! # Contract
//! Every call that is given a value appends exactly one element, whatever happens: where the value is none of the
//! column's type, a placeholder is appended and a [`Fault`] says why. So the columns of a table never get out of step,
//! and whoever counts rows drops the faulty ones when the batch is complete.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;

use super::parse;
use super::scan::{Scanner, Syntax, Token};
use crate::error::{Error, Result};
use crate::text::{a_type_name, type_name};

/// Why a value is not one of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no value where there must be one.
    Null,
    /// The value is wrong: says what it is not.
    Value(String),
    /// The text around it is no JSON: the row cannot be read beyond this.
    Syntax(Syntax),
}

impl Fault {
    /// What is wrong with the value, or the position at which there is none.
    pub fn value(self) -> Result<String, Syntax> {
        match self {
            Fault::Null => Ok("NULL in a NOT NULL column".into()),
            Fault::Value(what) => Ok(what),
            Fault::Syntax(syntax) => Err(syntax),
        }
    }
}

impl From<Syntax> for Fault {
    fn from(syntax: Syntax) -> Self {
        Fault::Syntax(syntax)
    }
}

/// How a text format spells what has no natural spelling in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    Base64,
    Hex,
}

/// One column and its values so far.
pub struct Column {
    field: FieldRef,
    values: Values,
}

enum Values {
    Boolean(BooleanBuilder),
    Number(Box<dyn Numbers>),
    Text(StringBuilder),
    Binary(BinaryBuilder, Bytes),
    List { item: Box<Column>, ends: Vec<i32>, valid: Vec<bool> },
    Struct { members: Members, valid: Vec<bool> },
}

/// What is stored as a number, read from text.
trait Numbers: Send {
    /// Appends the number, or appends nothing and gives false.
    fn push(&mut self, text: &str) -> bool;
    fn push_null(&mut self);
    fn push_zero(&mut self);
    fn finish(&mut self) -> ArrayRef;
}

struct Numeric<T: ArrowPrimitiveType, F> {
    builder: PrimitiveBuilder<T>,
    parse: F,
}

impl<T: ArrowPrimitiveType, F: Fn(&str) -> Option<T::Native> + Send> Numbers for Numeric<T, F> {
    fn push(&mut self, text: &str) -> bool {
        (self.parse)(text).map(|value| self.builder.append_value(value)).is_some()
    }

    fn push_null(&mut self) {
        self.builder.append_null();
    }

    fn push_zero(&mut self) {
        self.builder.append_value(T::Native::default());
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

fn numbers(data_type: &DataType) -> Option<Box<dyn Numbers>> {
    fn boxed<T: ArrowPrimitiveType>(
        data_type: &DataType,
        parse: impl Fn(&str) -> Option<T::Native> + Send + 'static,
    ) -> Option<Box<dyn Numbers>> {
        Some(Box::new(Numeric { builder: PrimitiveBuilder::<T>::new().with_data_type(data_type.clone()), parse }))
    }
    use TimeUnit::*;
    match *data_type {
        DataType::Int8 => boxed::<Int8Type>(data_type, |text| text.parse().ok()),
        DataType::Int16 => boxed::<Int16Type>(data_type, |text| text.parse().ok()),
        DataType::Int32 => boxed::<Int32Type>(data_type, |text| text.parse().ok()),
        DataType::Int64 => boxed::<Int64Type>(data_type, |text| text.parse().ok()),
        DataType::UInt8 => boxed::<UInt8Type>(data_type, |text| text.parse().ok()),
        DataType::UInt16 => boxed::<UInt16Type>(data_type, |text| text.parse().ok()),
        DataType::UInt32 => boxed::<UInt32Type>(data_type, |text| text.parse().ok()),
        DataType::UInt64 => boxed::<UInt64Type>(data_type, |text| text.parse().ok()),
        DataType::Float32 => boxed::<Float32Type>(data_type, |text| text.parse().ok()),
        DataType::Float64 => boxed::<Float64Type>(data_type, |text| text.parse().ok()),
        DataType::Decimal128(precision, scale) => boxed::<Decimal128Type>(data_type, move |text| parse::decimal(text, precision, scale)),
        DataType::Date32 => boxed::<Date32Type>(data_type, parse::date),
        DataType::Time32(Second) => boxed::<Time32SecondType>(data_type, |text| parse::time(text, Second)?.try_into().ok()),
        DataType::Time32(Millisecond) => boxed::<Time32MillisecondType>(data_type, |text| parse::time(text, Millisecond)?.try_into().ok()),
        DataType::Time64(Microsecond) => boxed::<Time64MicrosecondType>(data_type, |text| parse::time(text, Microsecond)),
        DataType::Time64(Nanosecond) => boxed::<Time64NanosecondType>(data_type, |text| parse::time(text, Nanosecond)),
        DataType::Timestamp(Second, _) => boxed::<TimestampSecondType>(data_type, |text| parse::timestamp(text, Second)),
        DataType::Timestamp(Millisecond, _) => boxed::<TimestampMillisecondType>(data_type, |text| parse::timestamp(text, Millisecond)),
        DataType::Timestamp(Microsecond, _) => boxed::<TimestampMicrosecondType>(data_type, |text| parse::timestamp(text, Microsecond)),
        DataType::Timestamp(Nanosecond, _) => boxed::<TimestampNanosecondType>(data_type, |text| parse::timestamp(text, Nanosecond)),
        _ => None,
    }
}

impl Column {
    /// An empty column. A type that no format reads is an error that names the column.
    pub fn new(field: &FieldRef, bytes: Bytes) -> Result<Self> {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBuilder::new()),
            DataType::Utf8 => Values::Text(StringBuilder::new()),
            DataType::Binary => Values::Binary(BinaryBuilder::new(), bytes),
            // Inside a list or a struct the text is JSON, whatever is around it.
            DataType::List(item) => Values::List { item: Box::new(Column::new(item, Bytes::Base64)?), ends: vec![0], valid: Vec::new() },
            DataType::Struct(fields) => Values::Struct { members: Members::new(fields, Bytes::Base64)?, valid: Vec::new() },
            other => Values::Number(
                numbers(other)
                    .ok_or_else(|| Error::unsupported(format!("the type {} of column '{}' in a format", type_name(other), field.name())))?,
            ),
        };
        Ok(Column { field: field.clone(), values })
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// Appends NULL.
    pub fn null(&mut self) -> Result<(), Fault> {
        self.placeholder();
        if self.field.is_nullable() { Ok(()) } else { Err(Fault::Null) }
    }

    /// Whether any text is a value of it, and NULL is one.
    pub fn is_optional_text(&self) -> bool {
        self.field.is_nullable() && matches!(self.values, Values::Text(_))
    }

    /// Appends so many NULLs, or where that is not allowed as many arbitrary values.
    pub fn nulls(&mut self, count: usize) {
        match &mut self.values {
            Values::Text(builder) if self.field.is_nullable() => builder.append_nulls(count),
            _ => (0..count).for_each(|_| self.placeholder()),
        }
    }

    /// Appends NULL, or where that is not allowed an arbitrary value.
    pub fn placeholder(&mut self) {
        let nullable = self.field.is_nullable();
        match &mut self.values {
            Values::Boolean(builder) if nullable => builder.append_null(),
            Values::Boolean(builder) => builder.append_value(false),
            Values::Number(builder) if nullable => builder.push_null(),
            Values::Number(builder) => builder.push_zero(),
            Values::Text(builder) if nullable => builder.append_null(),
            Values::Text(builder) => builder.append_value(""),
            Values::Binary(builder, _) if nullable => builder.append_null(),
            Values::Binary(builder, _) => builder.append_value([]),
            Values::List { ends, valid, .. } => {
                ends.push(ends[ends.len() - 1]);
                valid.push(!nullable);
            }
            Values::Struct { members, valid } => {
                members.placeholder();
                valid.push(!nullable);
            }
        }
    }

    /// Appends a value that stands as plain text; that of a list or struct is JSON.
    pub fn bytes(&mut self, text: &[u8]) -> Result<(), Fault> {
        match std::str::from_utf8(text) {
            Ok(text) => self.text(text),
            Err(_) => {
                self.placeholder();
                Err(Fault::Value(format!("'{}' is not UTF-8", shown(&String::from_utf8_lossy(text)))))
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        let good = match &mut self.values {
            Values::Text(builder) => {
                builder.append_value(text);
                true
            }
            Values::Number(builder) => builder.push(trim(text)),
            Values::Boolean(builder) => parse::boolean(trim(text)).map(|value| builder.append_value(value)).is_some(),
            Values::Binary(builder, spelling) => {
                let mut bytes = Vec::with_capacity(text.len());
                let read = match spelling {
                    Bytes::Base64 => parse::base64(text, &mut bytes),
                    Bytes::Hex => parse::hex(text, &mut bytes),
                };
                read.map(|()| builder.append_value(&bytes)).is_some()
            }
            Values::List { .. } | Values::Struct { .. } => {
                let mut scanner = Scanner::at(text, 0);
                // The syntax error's position is one within the value: of no use to whoever has the file.
                return match self.json(&mut scanner) {
                    Ok(()) if scanner.end().is_err() => Err(self.not_a(text)),
                    Err(Fault::Syntax(_)) => Err(self.not_a(text)),
                    result => result,
                };
            }
        };
        if good {
            return Ok(());
        }
        self.placeholder();
        Err(self.not_a(text))
    }

    /// Appends the JSON value that begins here.
    pub fn json(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        let token = match scanner.token() {
            Ok(token) => token,
            Err(syntax) => {
                self.placeholder();
                return Err(syntax.into());
            }
        };
        match (&mut self.values, &token) {
            (_, Token::Null) => self.null(),
            (Values::List { item, ends, valid }, Token::Array) => {
                let result = elements(item, ends, scanner);
                valid.push(true);
                result
            }
            (Values::Struct { members, valid }, Token::Object) => {
                let result = members.json(scanner, Missing::IsNull, |_, scanner| Ok(scanner.skip()?));
                valid.push(true);
                result
            }
            (Values::List { .. } | Values::Struct { .. }, _) | (_, Token::Array | Token::Object) => self.bracketed(&token, scanner),
            (_, Token::Bool(true)) => self.text("true"),
            (_, Token::Bool(false)) => self.text("false"),
            (_, Token::Number(text)) => self.text(text),
            (_, Token::String(text)) => self.text(text),
        }
    }

    /// A bracket where the column is not of that shape: VARCHAR takes the text of the whole value, nothing else does.
    fn bracketed<'t>(&mut self, token: &Token<'t>, scanner: &mut Scanner<'t>) -> Result<(), Fault> {
        let raw = match token {
            Token::Array | Token::Object => scanner.raw_rest(token),
            Token::Number(text) => Ok(*text),
            Token::String(text) => {
                self.placeholder();
                return Err(self.not_a(text));
            }
            Token::Bool(true) => Ok("true"),
            Token::Bool(false) => Ok("false"),
            Token::Null => Ok("null"),
        };
        match raw {
            Ok(raw) if matches!(self.values, Values::Text(_)) => self.text(raw),
            Ok(raw) => {
                self.placeholder();
                Err(self.not_a(raw))
            }
            Err(syntax) => {
                self.placeholder();
                Err(syntax.into())
            }
        }
    }

    /// The values since the last call.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match &mut self.values {
            Values::Boolean(builder) => Arc::new(builder.finish()),
            Values::Number(builder) => builder.finish(),
            Values::Text(builder) => Arc::new(builder.finish()),
            Values::Binary(builder, _) => Arc::new(builder.finish()),
            Values::List { item, ends, valid } => {
                let DataType::List(field) = self.field.data_type() else { unreachable!("the values of a list are those of a List") };
                let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, vec![0])));
                let nulls = NullBuffer::from(std::mem::take(valid));
                Arc::new(ListArray::try_new(field.clone(), offsets, item.finish()?, Some(nulls))?)
            }
            Values::Struct { members, valid } => {
                let DataType::Struct(fields) = self.field.data_type() else { unreachable!("the values of a struct are those of a Struct") };
                let nulls = NullBuffer::from(std::mem::take(valid));
                let columns = members.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, Some(nulls.clone()), nulls.len())?)
            }
        })
    }

    fn not_a(&self, text: &str) -> Fault {
        Fault::Value(format!("'{}' is not {}", shown(text), a_type_name(self.field.data_type())))
    }
}

/// Appends the elements of an array, after its `[`, as one list.
fn elements(item: &mut Column, ends: &mut Vec<i32>, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    let (mut end, mut first, mut result) = (ends[ends.len() - 1], true, Ok(()));
    loop {
        match scanner.element(&mut first) {
            Ok(true) => {}
            Ok(false) => break,
            Err(syntax) => {
                result = Err(syntax.into());
                break;
            }
        }
        let element = item.json(scanner);
        end += 1;
        let broken = matches!(element, Err(Fault::Syntax(_)));
        result = if broken { element } else { result.and(element) };
        if broken {
            break;
        }
    }
    ends.push(end);
    result
}

/// What it means that a column has no value in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing<'a> {
    /// NULL, which NOT NULL does not allow.
    IsNull,
    /// Nothing, beside these columns: a deletion need only give its key.
    IsUnknownBeside(&'a [usize]),
}

impl Missing<'_> {
    fn is_fault(self, position: usize) -> bool {
        match self {
            Missing::IsNull => true,
            Missing::IsUnknownBeside(columns) => columns.contains(&position),
        }
    }
}

/// Columns that are filled from the fields of objects, by name.
pub struct Members {
    pub columns: Vec<Column>,
    positions: HashMap<String, usize>,
    filled: Vec<bool>,
}

impl Members {
    /// Empty columns.
    pub fn new(fields: &Fields, bytes: Bytes) -> Result<Self> {
        let columns = fields.iter().map(|field| Column::new(field, bytes)).collect::<Result<Vec<_>>>()?;
        let positions = fields.iter().enumerate().map(|(position, field)| (field.name().clone(), position)).collect();
        Ok(Members { filled: vec![false; columns.len()], columns, positions })
    }

    /// Appends the fields of an object, after its `{`, one value a column. `other` reads the value of a field that is
    /// no column. The first faulty value is told of; the fields after it are read nevertheless.
    pub fn json(
        &mut self,
        scanner: &mut Scanner<'_>,
        missing: Missing<'_>,
        mut other: impl FnMut(&str, &mut Scanner<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.filled.fill(false);
        let mut result = Ok(());
        let (mut first, mut guess) = (true, 0);
        let broken = loop {
            let key = match scanner.key(&mut first) {
                Ok(Some(key)) => key,
                Ok(None) => break None,
                Err(syntax) => break Some(syntax),
            };
            // Fields mostly come in the order of the columns.
            let position = match self.columns.get(guess) {
                Some(column) if column.name() == key => Some(guess),
                _ => self.positions.get(key.as_ref()).copied(),
            };
            let read = match position {
                Some(position) if self.filled[position] => scanner.skip().map_err(Fault::from).and(Err(Fault::Value("given twice".into()))),
                Some(position) => {
                    guess = position + 1;
                    self.filled[position] = true;
                    self.columns[position].json(scanner)
                }
                None => other(&key, scanner),
            };
            match read {
                Err(Fault::Syntax(syntax)) => break Some(syntax),
                Err(Fault::Null) if position.is_some_and(|position| !missing.is_fault(position)) => {}
                read => result = result.and(read.map_err(|fault| named(fault, &key))),
            }
        };
        for (position, column) in self.columns.iter_mut().enumerate() {
            if self.filled[position] {
                continue;
            }
            let absent = column.null();
            if missing.is_fault(position) {
                result = result.and(absent.map_err(|fault| named(fault, column.name())));
            }
        }
        broken.map_or(result, |syntax| Err(syntax.into()))
    }

    /// Appends a placeholder to every column.
    pub fn placeholder(&mut self) {
        self.columns.iter_mut().for_each(Column::placeholder);
    }
}

/// A fault of a value with the field that has it.
fn named(fault: Fault, field: &str) -> Fault {
    match fault.value() {
        Ok(what) => Fault::Value(format!("field {field}: {what}")),
        Err(syntax) => Fault::Syntax(syntax),
    }
}

/// A number's text without the blanks around it.
fn trim(text: &str) -> &str {
    text.trim_matches(' ')
}

/// The beginning of a text, for a message.
pub fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text[..end].escape_debug()),
        None => text.escape_debug().to_string(),
    }
}
