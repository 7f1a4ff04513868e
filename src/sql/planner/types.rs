//! SQL types and the Arrow types that rows hold for them.
//!
//! Strings of any declared length are Utf8. A TIMESTAMP is in the coarsest unit that holds its precision (seconds to
//! nanoseconds; 6, microseconds, where none is given) and has no zone; TIMESTAMP_LTZ, too: engine time is UTC.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use datafusion_expr::planner::TypePlanner;
use sqlparser::ast::{self, ArrayElemTypeDef, CharacterLength, ExactNumberInfo, TimezoneInfo};

use super::prepare::folded;
use crate::error::{Error, Result};

/// The Arrow type of an SQL type.
pub(super) fn arrow_type(sql: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    Ok(match sql {
        Sql::Boolean | Sql::Bool => DataType::Boolean,
        Sql::TinyInt(_) => DataType::Int8,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => DataType::Int16,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) | Sql::MediumInt(_) | Sql::Int32 => DataType::Int32,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => DataType::Int64,
        Sql::TinyIntUnsigned(_) | Sql::UInt8 => DataType::UInt8,
        Sql::SmallIntUnsigned(_) | Sql::Int2Unsigned(_) | Sql::UInt16 => DataType::UInt16,
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::Int4Unsigned(_) | Sql::UInt32 => DataType::UInt32,
        Sql::BigIntUnsigned(_) | Sql::Int8Unsigned(_) | Sql::UInt64 => DataType::UInt64,
        Sql::Float(_) | Sql::Real | Sql::Float4 | Sql::Float32 => DataType::Float32,
        Sql::Double(_) | Sql::DoublePrecision | Sql::Float8 | Sql::Float64 => DataType::Float64,
        Sql::Numeric(info) | Sql::Decimal(info) | Sql::Dec(info) => decimal(sql, info)?,
        Sql::Char(length)
        | Sql::Character(length)
        | Sql::Varchar(length)
        | Sql::CharVarying(length)
        | Sql::CharacterVarying(length)
        | Sql::Nvarchar(length) => string(sql, *length)?,
        Sql::Text | Sql::String(_) | Sql::Clob(_) | Sql::CharacterLargeObject(_) | Sql::CharLargeObject(_) => DataType::Utf8,
        Sql::Binary(_) | Sql::Varbinary(_) | Sql::Blob(_) | Sql::Bytes(_) | Sql::Bytea => DataType::Binary,
        Sql::Date | Sql::Date32 => DataType::Date32,
        Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time64(TimeUnit::Nanosecond),
        Sql::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | Sql::TimestampNtz(precision)
        | Sql::Datetime(precision) => timestamp(sql, *precision)?,
        Sql::Timestamp(precision, _) => match timestamp(sql, *precision)? {
            DataType::Timestamp(unit, _) => DataType::Timestamp(unit, Some("+00:00".into())),
            other => other,
        },
        Sql::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        Sql::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Parenthesis(element),
        ) => DataType::List(Arc::new(Field::new_list_field(arrow_type(element)?, true))),
        Sql::Struct(fields, _) => {
            let fields = fields.iter().enumerate().map(|(index, field)| {
                let name = field.field_name.as_ref().map_or_else(|| format!("c{index}"), folded);
                Ok(Field::new(name, arrow_type(&field.field_type)?, true))
            });
            DataType::Struct(fields.collect::<Result<Fields>>()?)
        }
        Sql::Custom(name, modifiers) => custom(sql, &name.to_string().to_uppercase(), modifiers)?,
        other => return Err(Error::unsupported(format!("type {other}"))),
    })
}

/// Flink's names that `sqlparser` has no type for.
fn custom(sql: &ast::DataType, name: &str, modifiers: &[String]) -> Result<DataType> {
    match name {
        "TIMESTAMP_LTZ" => {
            let precision =
                modifiers.first().map(|digits| digits.parse().map_err(|_| Error::invalid(format!("type {sql}: a precision is a number"))));
            timestamp(sql, precision.transpose()?)
        }
        _ => Err(Error::unsupported(format!("type {sql}"))),
    }
}

fn timestamp(sql: &ast::DataType, precision: Option<u64>) -> Result<DataType> {
    let unit = match precision {
        Some(0) => TimeUnit::Second,
        Some(1..=3) => TimeUnit::Millisecond,
        None | Some(4..=6) => TimeUnit::Microsecond,
        Some(7..=9) => TimeUnit::Nanosecond,
        Some(_) => return Err(Error::invalid(format!("type {sql}: a precision is from 0 to 9"))),
    };
    Ok(DataType::Timestamp(unit, None))
}

/// A string, of any length: a length that would cut or refuse some is not honoured, so it is refused.
fn string(sql: &ast::DataType, length: Option<CharacterLength>) -> Result<DataType> {
    const LONGEST: u64 = i32::MAX as u64;
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) if length < LONGEST => {
            Err(Error::unsupported(format!("the length of {sql}: strings are of any length here, so write VARCHAR")))
        }
        _ => Ok(DataType::Utf8),
    }
}

fn decimal(sql: &ast::DataType, info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (10, 0),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale >= 0 && scale as u8 <= precision => Ok(DataType::Decimal128(precision, scale)),
        _ => Err(Error::invalid(format!("type {sql}: a precision is from 1 to 38 and a scale from 0 to the precision"))),
    }
}

/// Makes DataFusion's planner read types in expressions as [`arrow_type`] does.
#[derive(Debug)]
pub(super) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql: &ast::DataType) -> datafusion_common::Result<Option<FieldRef>> {
        let data_type = arrow_type(sql).map_err(super::errors::through)?;
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}
