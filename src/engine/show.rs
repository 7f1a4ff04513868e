//! SHOW, DESCRIBE, and the rows of the system tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, IntervalUnit, SchemaRef, TimeUnit};

use super::catalog::{Job, Member};
use super::plans;
use super::runtime::ArrangementInfo;
use super::session::Session;
use super::settings;
use super::table::{Storage, Table};
use super::watermark::Standing;
use super::{
    Outcome,
    catalog::{ARRANGEMENTS, WATERMARKS},
};
use crate::error::{Error, Result};
use crate::sql::statement::Show;

impl Session {
    /// SHOW and DESCRIBE.
    pub fn show(&self, show: &Show) -> Result<Outcome> {
        Ok(Outcome::Rows(match show {
            Show::Tables => {
                let storage = |table: &Table| connector_of(table).unwrap_or("memory").to_string();
                batch([
                    ("table", texts(self.catalog.tables().map(|table| table.name.clone()))),
                    ("connector", texts(self.catalog.tables().map(|table| storage(table)))),
                ])?
            }
            Show::Views => batch([
                ("view", texts(self.catalog.views().map(|view| view.name.clone()))),
                ("materialized", truths(self.catalog.views().map(|view| view.materialized))),
            ])?,
            Show::Jobs => batch([
                ("job", texts(self.catalog.jobs().map(|job| job.name.clone()))),
                ("sink", texts(self.catalog.jobs().map(|job| job.sink.clone()))),
                ("status", texts(self.catalog.jobs().map(|job| self.status(job).to_string()))),
                ("statement", texts(self.catalog.jobs().map(|job| job.text.clone()))),
            ])?,
            Show::Create(name) => batch([("statement", texts([self.statement(name)?]))])?,
            Show::Settings => {
                let all = self.settings();
                batch([
                    ("name", texts(all.iter().map(|(name, _)| name.to_string()))),
                    ("value", texts(all.iter().map(|(_, value)| value.clone()))),
                ])?
            }
            Show::Setting(name) => {
                let known = settings::known(name)?;
                batch([(known, texts(self.settings().into_iter().filter(|(name, _)| *name == known).map(|(_, value)| value)))])?
            }
            Show::Columns(name) => self.columns(name)?,
        }))
    }

    fn columns(&self, name: &str) -> Result<RecordBatch> {
        let (schema, key) = self.relation_schema(name)?;
        let fields = schema.fields();
        batch([
            ("column", texts(fields.iter().map(|field| field.name().clone()))),
            ("type", texts(fields.iter().map(|field| sql_type(field.data_type())))),
            ("nullable", truths(fields.iter().map(|field| field.is_nullable()))),
            ("key", truths((0..fields.len()).map(|position| key.contains(&position)))),
        ])
    }

    fn relation_schema(&self, name: &str) -> Result<(SchemaRef, Vec<usize>)> {
        if let Some(view) = self.catalog.find_view(name) {
            return Ok((view.schema.clone(), Vec::new()));
        }
        if name == ARRANGEMENTS {
            return Ok((arrangements(Vec::new())?.schema(), Vec::new()));
        }
        if name == WATERMARKS {
            return Ok((watermarks(Vec::new())?.schema(), Vec::new()));
        }
        let table = self.catalog.find_table(name).ok_or_else(|| Error::unknown("table or view", name, self.catalog.names()))?;
        Ok(match &table.storage {
            Storage::Changelog { spec, log } => (log.schema().clone(), spec.primary_key.clone()),
            Storage::Memory | Storage::Connector { .. } => (table.row().schema(), table.primary_key.clone()),
        })
    }

    fn statement(&self, name: &str) -> Result<String> {
        let view = self.catalog.find_view(name).map(|view| view.text.clone());
        let text = view.or_else(|| self.catalog.find_table(name).map(|table| table.text.clone()));
        text.ok_or_else(|| Error::unknown("table or view", name, self.catalog.names()))
    }

    fn status(&self, job: &Job) -> &'static str {
        let reads = plans::gets([&job.plan]);
        let is_open = |table: &Arc<Table>| table.is_in_memory() || self.driver.is_read(table.id);
        if self.catalog.dataflow(&Member::Job(job.name.clone())).is_none() {
            "pending"
        } else if self.driver.failure(Some(&reads)).is_err() {
            "failed"
        } else if reads.iter().filter_map(|id| self.catalog.relation(*id)).any(is_open) {
            "running"
        } else {
            "finished"
        }
    }
}

fn connector_of(table: &Table) -> Option<&str> {
    let options = &table.spec()?.options;
    options.iter().find(|(name, _)| name == "connector").map(|(_, value)| value.as_str())
}

/// The rows of `weir_arrangements`.
pub(super) fn arrangements(all: Vec<ArrangementInfo>) -> Result<RecordBatch> {
    let text = |of: fn(&ArrangementInfo) -> &str| texts(all.iter().map(|a| of(a).to_string()));
    let text_or_null = |of: fn(&ArrangementInfo) -> &Option<String>| texts_or_null(all.iter().map(|a| of(a).clone()));
    let count = |of: fn(&ArrangementInfo) -> i64| Arc::new(Int64Array::from_iter_values(all.iter().map(of))) as ArrayRef;
    let count_or_null = |of: fn(&ArrangementInfo) -> Option<i64>| Arc::new(all.iter().map(of).collect::<Int64Array>()) as ArrayRef;
    batch_of([
        ("view", false, text(|a| &a.view)),
        ("operator", false, text(|a| &a.operator)),
        ("input", true, text_or_null(|a| &a.input)),
        ("key", false, text(|a| &a.key)),
        ("scope", false, text(|a| &a.scope)),
        ("ttl_ms", true, count_or_null(|a| a.ttl_ms)),
        ("policy", true, text_or_null(|a| &a.policy)),
        ("origin", false, text(|a| &a.origin)),
        ("readers", false, count(|a| a.readers)),
        ("rows", false, count(|a| a.rows)),
        ("bytes", false, count(|a| a.bytes)),
        ("live_scopes", false, count(|a| a.live_scopes)),
        ("expired", false, count(|a| a.expired)),
        ("late_retractions", false, count(|a| a.late_retractions)),
        ("next_deadline", true, count_or_null(|a| a.next_deadline)),
    ])
}

/// The rows of `weir_watermarks`.
pub(super) fn watermarks(all: Vec<Standing>) -> Result<RecordBatch> {
    let count = |of: fn(&Standing) -> u64| {
        Arc::new(Int64Array::from_iter_values(all.iter().map(|standing| i64::try_from(of(standing)).unwrap_or(i64::MAX)))) as ArrayRef
    };
    batch_of([
        ("table_name", false, texts(all.iter().map(|standing| standing.table.clone()))),
        ("watermark", true, Arc::new(all.iter().map(|standing| standing.watermark).collect::<TimestampMillisecondArray>()) as ArrayRef),
        ("state", false, texts(all.iter().map(|standing| standing.state.to_string()))),
        ("late_dropped", false, count(|standing| standing.late.dropped)),
        ("late_accepted", false, count(|standing| standing.late.accepted)),
    ])
}

/// A column of text.
pub(super) fn texts(values: impl IntoIterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from(values.into_iter().collect::<Vec<_>>()))
}

/// A column of text or NULL.
pub(super) fn texts_or_null(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

fn truths(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(values.into_iter().collect::<Vec<_>>()))
}

/// Rows of columns that are never NULL.
pub(super) fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<RecordBatch> {
    batch_of(columns.into_iter().map(|(name, values)| (name, false, values)))
}

/// Rows of columns, each with whether it may be NULL.
pub(super) fn batch_of<'a>(columns: impl IntoIterator<Item = (&'a str, bool, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, nullable, values)| (name, values, nullable)))?)
}

/// A type as SQL spells it.
pub(super) fn sql_type(data_type: &DataType) -> String {
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float16 | DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => {
            format!("DECIMAL({p}, {s})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "VARBINARY".into(),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", precision(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", precision(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP({}) WITH TIME ZONE", precision(unit)),
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH".into(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".into(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!("ARRAY<{}>", sql_type(item.data_type()))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("{} {}", field.name(), sql_type(field.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        DataType::Dictionary(_, values) => sql_type(values),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_table_of_arrangements_has_the_columns_of_its_documentation() {
        let schema = arrangements(Vec::new()).unwrap().schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let documented = "view, operator, input, key, scope, ttl_ms, policy, origin, readers, rows, bytes, live_scopes, expired, late_retractions, next_deadline";
        assert_eq!(names.join(", "), documented);
        for name in ["readers", "rows", "bytes", "live_scopes", "expired", "late_retractions"] {
            assert_eq!(schema.field_with_name(name).unwrap().data_type(), &DataType::Int64, "{name}");
        }
    }

    #[test]
    fn types_are_spelt_as_sql_spells_them() {
        assert_eq!(sql_type(&DataType::Timestamp(TimeUnit::Millisecond, None)), "TIMESTAMP(3)");
        assert_eq!(sql_type(&DataType::Decimal128(10, 2)), "DECIMAL(10, 2)");
        assert_eq!(sql_type(&DataType::new_list(DataType::Int64, true)), "ARRAY<BIGINT>");
    }
}
