//! A table's time column: what `WATERMARK FOR ts AS expr` and the options beside it say of the table's rows.
//!
//! The watermark is an expression of one row. What it comes to is that row's word that no earlier row is to be expected
//! behind it; the words of all rows make the table's watermark, which is the greatest of them (module `watermark`).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use datafusion_physical_expr::expressions::cast;
use datafusion_physical_expr::utils::collect_columns;
use sqlparser::ast;

use super::plans;
use super::reader::pick;
use super::show::sql_type;
use super::table::find;
use super::time::LAST_INSTANT;
use crate::error::{Error, Result};
use crate::eval;
use crate::plan::{Changes, Column, RowType, Scalar, Step, TimeColumn};
use crate::sql::duration::{format_duration, parse_duration};
use crate::sql::planner::{self, Purpose};
use crate::sql::statement::{ColumnKind, CreateTable, SqlOption};

/// What becomes of rows behind their table's watermark.
pub(super) const LATE: &str = "late";

/// By how much they may be behind it and are accepted.
pub(super) const ALLOWED_LATENESS: &str = "allowed_lateness";

/// After how long without rows a table does not hold back engine time.
pub(super) const IDLE_TIMEOUT: &str = "idle_timeout";

/// Flink's name for that.
const FLINK_IDLE_TIMEOUT: &str = "scan.watermark.idle-timeout";

/// How the rows of a table find their place in event time.
pub(super) struct EventTime {
    /// The time column.
    pub name: String,
    column: usize,
    pub late: Late,
    pub idle_timeout: Option<Duration>,
    /// The watermark as it was written.
    text: String,
    /// The time column and the watermark of a row, in milliseconds.
    project: Step,
}

/// What becomes of a row behind the watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// It is dropped, and counted.
    Drop,
    /// It comes at the watermark, which is the earliest time that is not complete, and is counted; one that is farther behind
    /// than so many milliseconds, if that is said, is dropped.
    Accept { lateness: Option<i64> },
}

impl Late {
    /// Whether a row of this time is left out where the watermark is `by`.
    pub fn drops(self, time: i64, by: Option<i64>) -> bool {
        let behind = by.map_or(0, |by| by.saturating_sub(time));
        match self {
            Late::Drop => behind > 0,
            Late::Accept { lateness } => lateness.is_some_and(|lateness| behind > lateness),
        }
    }
}

/// Rows with their times, in milliseconds since the epoch.
pub(super) struct Stamped {
    pub times: Vec<i64>,
    /// What each says of the watermark; None where the expression is NULL.
    pub marks: Vec<Option<i64>>,
    /// The positions of these rows among those that were to be stamped; None where all of them are here.
    pub from: Option<Vec<u32>>,
    /// Of the other rows, why they have no time.
    pub failed: Vec<String>,
}

impl EventTime {
    /// What a table's definition says; None where it has no watermark. `declared` are all columns, `retracts` says whether
    /// its rows come with removals.
    pub fn of(create: &CreateTable, declared: &SchemaRef, retracts: bool) -> Result<Option<Self>> {
        let options: Vec<&SqlOption> = create.options.iter().filter(|option| is_of_time(option)).collect();
        let Some(watermark) = &create.watermark else {
            return match options.first() {
                None => Ok(None),
                Some(option) => Err(Error::invalid(format!(
                    "{} of table '{}': only a table with a WATERMARK has rows that are late or idle",
                    option.name, create.name
                ))),
            };
        };
        let column = find(&create.name, declared, &watermark.column)?;
        let field = declared.field(column);
        let place = format!("WATERMARK FOR {} of table '{}'", watermark.column, create.name);
        let DataType::Timestamp(_, zone) = field.data_type() else {
            return Err(Error::invalid(format!("{place}: {}", no_timestamp(&watermark.column, field.data_type()))));
        };
        let millis = DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
        let planned = planner::plan_scalar(&watermark.expr, declared, Purpose::Maintain);
        let (mark, mark_type) = planned.map_err(|error| error.at(&place))?;
        if !matches!(mark_type, DataType::Timestamp(..)) {
            return Err(Error::invalid(format!("{place}: the watermark is a TIMESTAMP, and this is {}", sql_type(&mark_type))));
        }
        let of_row = |value: Scalar| {
            // Of a column with a zone the watermark may be what the zone's clocks show; of one without, it is in UTC.
            let cast = if zone.is_some() { eval::cast_to(value, declared, millis.clone()) } else { cast(value, declared, millis.clone()) };
            cast.map_err(|error| Error::invalid(format!("{place}: {error}")))
        };
        let time = plans::column(&RowType::from_schema(declared), column);
        let names = [(time, "time"), (mark, "watermark")];
        let columns = names.into_iter().map(|(value, name)| Ok((of_row(value)?, Column::new(name, millis.clone(), true))));
        let (late, idle_timeout) = said(&create.name, &options, retracts)?;
        Ok(Some(EventTime {
            name: watermark.column.clone(),
            column,
            late,
            idle_timeout,
            text: format!("WATERMARK FOR {} AS {}", watermark.column, watermark.expr),
            project: Step::Project(columns.collect::<Result<_>>()?),
        }))
    }

    /// The time column of rows that only ever come, or do what is said.
    pub fn column(&self, otherwise: Option<&'static str>) -> TimeColumn {
        let changes = match (otherwise, self.late) {
            (Some(what), _) => Changes::Always(what),
            (None, Late::Drop) => Changes::Until(0),
            (None, Late::Accept { lateness: Some(lateness) }) => Changes::Until(lateness),
            (None, Late::Accept { lateness: None }) => Changes::Always("are accepted however late ('allowed_lateness' says how late)"),
        };
        TimeColumn { column: self.column, changes }
    }

    /// Times for rows with all their columns. A row of which `needs_no_time` has time 0 where it has none: the removal of a
    /// key comes without the rest of the row.
    pub fn stamp(&self, table: &str, rows: &RecordBatch, needs_no_time: impl Fn(usize) -> bool) -> Stamped {
        let evaluated = eval::run_steps(std::slice::from_ref(&self.project), rows);
        let mut failed: Vec<String> = evaluated.failed.into_iter().map(|(_, message)| format!("table '{table}': {message}")).collect();
        let times = evaluated.rows.column(0).as_primitive::<TimestampMillisecondType>();
        let said = evaluated.rows.column(1).as_primitive::<TimestampMillisecondType>();
        let mut stamped =
            Stamped { times: Vec::with_capacity(times.len()), marks: Vec::with_capacity(times.len()), from: None, failed: vec![] };
        let mut from = Vec::with_capacity(times.len());
        for index in 0..times.len() {
            let row = evaluated.from.as_ref().map_or(index as u32, |from| from[index]);
            let time = times.is_valid(index).then(|| times.value(index));
            match check(time.or_else(|| needs_no_time(row as usize).then_some(0))) {
                Ok(time) => {
                    stamped.times.push(time);
                    stamped.marks.push(said.is_valid(index).then(|| said.value(index).clamp(0, LAST_INSTANT)));
                    from.push(row);
                }
                Err(Untimed::Null) => failed.push(self.missing(table, &shown(rows, row))),
                Err(Untimed::Outside(what)) => {
                    failed.push(format!("table '{table}': in '{}' the row ({}) has a time {what}", self.name, shown(rows, row)));
                }
            }
        }
        stamped.from = (from.len() < rows.num_rows()).then_some(from);
        stamped.failed = failed;
        stamped
    }

    /// The clause, and what becomes of late rows and idle times.
    pub fn describe(&self) -> String {
        let late = match self.late {
            Late::Drop => "late rows are dropped".to_owned(),
            Late::Accept { lateness: None } => "late rows are accepted".to_owned(),
            Late::Accept { lateness: Some(lateness) } => format!("late rows are accepted for {}", format_duration(lateness.unsigned_abs())),
        };
        let idle = self.idle_timeout.map_or(String::new(), |idle| format!(", idle after {}", format_duration(idle.as_millis() as u64)));
        format!("{}, {late}{idle}", self.text)
    }

    /// What is said of a row without a time.
    pub fn missing(&self, table: &str, row: &str) -> String {
        format!("table '{table}': the row ({row}) has no time: '{}' is NULL, and is what WATERMARK FOR takes a row's time from", self.name)
    }
}

/// What is wrong with a time column of that type, and what to write.
fn no_timestamp(column: &str, data_type: &DataType) -> String {
    let is = sql_type(data_type);
    let computed = |value: String| format!("write {column}_time AS {value} beside it, and WATERMARK FOR {column}_time");
    let advice = match data_type {
        DataType::Utf8 => format!("declare it TIMESTAMP(3), or {}", computed(format!("CAST({column} AS TIMESTAMP(3))"))),
        DataType::Date32 => computed(format!("CAST({column} AS TIMESTAMP(3))")),
        other if other.is_integer() => {
            format!("{}, if it is in milliseconds", computed(format!("TO_TIMESTAMP_MILLIS({column})")))
        }
        _ => "a row's time is in a column of that type, or in one that is computed".to_owned(),
    };
    format!("the column is {is} and has to be a TIMESTAMP: {advice}")
}

/// Why a row has no place in time.
enum Untimed {
    Null,
    Outside(&'static str),
}

fn check(time: Option<i64>) -> Result<i64, Untimed> {
    match time {
        None => Err(Untimed::Null),
        Some(time) if time < 0 => Err(Untimed::Outside("before 1970, where engine time begins")),
        Some(time) if time > LAST_INSTANT => Err(Untimed::Outside("after the year 2527, where engine time ends")),
        Some(time) => Ok(time),
    }
}

/// Whether an option is about a table's time, and not the connector's.
pub(super) fn is_of_time(option: &SqlOption) -> bool {
    [LATE, ALLOWED_LATENESS, IDLE_TIMEOUT, FLINK_IDLE_TIMEOUT].iter().any(|name| name.eq_ignore_ascii_case(&option.name))
}

/// Whether an expression of a definition is `PROCTIME()`.
pub(super) fn is_proctime(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("proctime"))
}

/// What the options say of late rows and of idle times. What takes rows away corrects what it has said before, so its rows
/// are late by nature: half of an update must not be lost.
fn said(table: &str, options: &[&SqlOption], retracts: bool) -> Result<(Late, Option<Duration>)> {
    let (mut late, mut lateness, mut idle) = (None, None, None);
    for option in options {
        let place = format!("{} of table '{table}'", option.name);
        if option.name.eq_ignore_ascii_case(LATE) {
            late = Some(match option.value.to_ascii_lowercase().as_str() {
                "accept" => Late::Accept { lateness: None },
                "drop" if retracts => {
                    return Err(Error::invalid(format!(
                        "{place}: its rows come with changes of earlier rows, which are late by nature: only 'accept' keeps both halves of an update"
                    )));
                }
                "drop" => Late::Drop,
                other => return Err(Error::invalid(format!("{place} is 'drop' or 'accept', not '{other}'"))),
            });
        } else if option.name.eq_ignore_ascii_case(ALLOWED_LATENESS) {
            lateness = parse_duration(&option.value).map_err(|error| Error::invalid(format!("{place}: {error}")))?;
            if retracts {
                return Err(Error::invalid(format!(
                    "{place}: its rows come with changes of earlier rows, which are late by nature, however late"
                )));
            }
        } else {
            let millis = parse_duration(&option.value).map_err(|error| Error::invalid(format!("{place}: {error}")))?;
            idle = millis.map(|millis| Duration::from_millis(millis.unsigned_abs()));
        }
    }
    let late = match (late, lateness) {
        (Some(Late::Drop), Some(_)) => {
            return Err(Error::invalid(format!(
                "{ALLOWED_LATENESS} of table '{table}' beside '{LATE}' = 'drop': a row is dropped as soon as it is late, or accepted for a time"
            )));
        }
        (_, Some(lateness)) => Late::Accept { lateness: Some(lateness) },
        (Some(late), None) => late,
        (None, None) if retracts => Late::Accept { lateness: None },
        (None, None) => Late::Drop,
    };
    Ok((late, idle))
}

/// A row as messages show it.
fn shown(rows: &RecordBatch, row: u32) -> String {
    pick(rows, vec![row]).map_or_else(|_| format!("number {row}"), |row| crate::text::line(&row, 0).join(", "))
}

/// The physical columns of a table, with NOT NULL where a NULL would leave a row without a time: who decodes the row then
/// refuses it with its place. That is the time column, or the one column that it is computed from.
pub(super) fn with_time(fields: Vec<Field>, create: &CreateTable) -> Result<Vec<Field>> {
    let Some(watermark) = &create.watermark else { return Ok(fields) };
    let computed = create.columns.iter().find_map(|column| match &column.kind {
        ColumnKind::Computed(expr) if column.name == watermark.column && !is_proctime(expr) => Some(expr),
        _ => None,
    });
    let needed = match computed {
        None => Some(watermark.column.clone()),
        Some(expr) => strict_in(expr, &fields)?,
    };
    let timed = |field: Field| if Some(field.name()) == needed.as_ref() { field.with_nullable(false) } else { field };
    Ok(fields.into_iter().map(timed).collect())
}

/// The column that an expression is of, if it is of one alone and NULL where that is.
fn strict_in(expr: &ast::Expr, fields: &[Field]) -> Result<Option<String>> {
    let schema = Arc::new(Schema::new(fields.iter().map(|field| field.clone().with_nullable(true)).collect::<Vec<_>>()));
    // What time would change is not of the row alone.
    let Ok((value, _)) = planner::plan_scalar(expr, &schema, Purpose::Maintain) else { return Ok(None) };
    let columns: Vec<_> = collect_columns(&value).into_iter().collect();
    let [column] = columns.as_slice() else { return Ok(None) };
    let nulls = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
    let of_nulls = value.evaluate(&RecordBatch::try_new(schema, nulls)?).and_then(|value| value.into_array(1));
    Ok(of_nulls.is_ok_and(|value| value.is_null(0)).then(|| column.name().to_string()))
}
