//! A table as the catalog knows it: its columns, where its rows are, and how a row is completed.
//!
//! A table's row has all its declared columns in order. What comes from outside has the *physical* ones only;
//! [`Table::complete`] adds the computed ones when the row comes in, so that they are stored like any other.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, new_null_array};
use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::ScalarValue;
use sqlparser::ast;

use super::changelog::Log;
use super::event_time::{self, EventTime, is_proctime};
use super::plans;
use super::runtime::Input;
use super::show::sql_type;
use crate::connector::{Kind, TableSpec};
use crate::error::{Error, Result};
use crate::eval;
use crate::plan::{Arrangement, Changes, Column, Flow, Memory, Node, Plan, RelationId, RowType, Scalar, Scope, Step, TimeColumn};
use crate::sql::planner::{self, Purpose, Versions};
use crate::sql::statement::{ColumnDef, ColumnKind, CreateTable};

/// What becomes of rows with a key.
const REPLACED: &str = "are replaced by later ones of their key";

/// A table of the catalog.
pub(super) struct Table {
    pub id: RelationId,
    pub name: String,
    pub columns: Vec<TableColumn>,
    /// Positions among all columns.
    pub primary_key: Vec<usize>,
    pub storage: Storage,
    /// Whether it has all versions of the rows of the table of its name, and reads them once more.
    pub repeats: bool,
    /// How its rows find their place in event time, if it has a watermark.
    pub event_time: Option<EventTime>,
    /// The statement that made it.
    pub text: String,
    physical: SchemaRef,
    row: RowType,
    /// How long a connector's rows by primary key are remembered.
    memory: Memory,
}

/// Where a table's rows are.
pub(super) enum Storage {
    /// In memory: they change by INSERT, UPDATE and DELETE.
    Memory,
    /// Elsewhere: they are read or written by a connector.
    Connector { spec: TableSpec, kind: Kind },
    /// A changelog sink: jobs write it, SELECT reads it as it is at that moment.
    Changelog { spec: TableSpec, log: Arc<Log> },
}

/// A declared column.
pub(super) struct TableColumn {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    pub computed: Option<Computed>,
}

/// How a computed column gets its value.
pub(super) enum Computed {
    /// `PROCTIME()`: the engine's time at which the row came.
    Proctime,
    /// From the row's physical columns alone.
    Fixed(Scalar),
    /// From the row and from the engine's time, for which it is planned anew.
    Fresh(Box<ast::Expr>),
}

/// Rows with all their columns.
pub(super) struct Completed {
    pub rows: RecordBatch,
    /// For each row the one that it was made of; None where they are the same.
    pub from: Option<Vec<u32>>,
    /// Rows whose computed columns failed.
    pub failed: Vec<String>,
}

impl Table {
    /// A table as declared. `storage` is given the table's physical columns and the key's positions among them.
    pub fn new(
        id: RelationId,
        create: &CreateTable,
        text: &str,
        memory: Memory,
        storage: impl FnOnce(SchemaRef, Vec<usize>) -> Result<Storage>,
    ) -> Result<Self> {
        let physical = Arc::new(Schema::new(event_time::with_time(physical_fields(create)?, create)?));
        let columns = columns(create, &physical)?;
        let primary_key = key_positions(create, &columns)?;
        let physical_key = primary_key.iter().map(|k| physical.index_of(&columns[*k].name)).collect::<Result<Vec<_>, _>>()?;
        let storage = storage(physical.clone(), physical_key)?;
        let row = RowType::new(columns.iter().map(|c| Column::new(&c.name, c.data_type.clone(), c.nullable)));
        let retracts = matches!(&storage, Storage::Connector { spec, .. } if spec.retracts());
        let event_time = EventTime::of(create, &row.schema(), retracts)?;
        if event_time.is_some()
            && let Some(column) = columns.iter().find(|column| matches!(column.computed, Some(Computed::Fresh(_))))
        {
            return Err(Error::unsupported(format!(
                "NOW() and RANDOM() in a table with a WATERMARK (column '{}' of table '{}'): declare p AS PROCTIME(), which is the instant at which a row comes, and compute from p in a view",
                column.name, create.name
            )));
        }
        let (name, text) = (create.name.clone(), text.to_string());
        Ok(Table { id, name, columns, primary_key, storage, repeats: false, event_time, text, physical, row, memory })
    }

    /// The same, of which another reads the same rows.
    pub fn repeated(self) -> Self {
        Table { repeats: true, ..self }
    }

    /// All columns.
    pub fn row(&self) -> &RowType {
        &self.row
    }

    /// The columns that rows come with.
    pub fn physical(&self) -> &SchemaRef {
        &self.physical
    }

    pub fn is_in_memory(&self) -> bool {
        matches!(self.storage, Storage::Memory)
    }

    /// Whether it is a source that ends.
    pub fn ends(&self) -> bool {
        matches!(&self.storage, Storage::Connector { kind, .. } if kind.source && kind.bounded)
    }

    /// The declaration for a connector, unless the table is in memory.
    pub fn spec(&self) -> Option<&TableSpec> {
        match &self.storage {
            Storage::Memory => None,
            Storage::Connector { spec, .. } | Storage::Changelog { spec, .. } => Some(spec),
        }
    }

    /// Whether input that cannot be used is skipped and counted, rather than an error of the table.
    pub fn skips_errors(&self) -> bool {
        self.spec().is_some_and(TableSpec::skips_errors)
    }

    /// The table's rows as a plan.
    pub fn get(&self) -> Plan {
        let get = |flow, row, times| Plan::new(Node::Get { id: self.id, name: self.name.clone(), flow, times }, row);
        let flow = match self.spec() {
            Some(_) if !self.primary_key.is_empty() => {
                let others = (0..self.row.len()).filter(|column| !self.primary_key.contains(column));
                let columns = self.primary_key.iter().copied().chain(others).map(|column| self.row.columns[column].clone());
                let rows = Arrangement::rows(get(Flow::Changes, RowType::new(columns), vec![]), self.primary_key.len());
                let retention = self.memory.retention(Scope::Group);
                Flow::Upserts(Arc::new(Arrangement { retention, memory: self.memory.clone(), ..rows }))
            }
            Some(spec) if !spec.retracts() => Flow::Appends,
            _ => Flow::Changes,
        };
        let otherwise = match flow {
            Flow::Appends => None,
            // What replaces a row has its time.
            Flow::Upserts(_) if self.is_by_time() => None,
            Flow::Upserts(_) => Some(REPLACED),
            Flow::Changes if self.is_in_memory() => Some("can be updated and deleted at any time"),
            Flow::Changes => Some("are taken away by its source at any time"),
        };
        let times = self.event_time.as_ref().map_or(vec![], |event_time| self.times(event_time, otherwise));
        get(flow, self.row.clone(), times)
    }

    /// The columns that say when rows happen: their time, and PROCTIME(), for which none is late. The rows only ever come, or
    /// do what is said `otherwise`.
    fn times(&self, event_time: &EventTime, otherwise: Option<&'static str>) -> Vec<TimeColumn> {
        let time = event_time.column(otherwise);
        let is_instant = |column: &usize| *column != time.column && matches!(self.columns[*column].computed, Some(Computed::Proctime));
        // What replaces a row may come at a later instant.
        let changes = match self.primary_key.as_slice() {
            [] => otherwise.map_or(Changes::Until(0), Changes::Always),
            _ => Changes::Always(otherwise.unwrap_or(REPLACED)),
        };
        let instants = (0..self.columns.len()).filter(is_instant).map(|column| TimeColumn { column, changes });
        [time].into_iter().chain(instants).collect()
    }

    /// The position of the column with its rows' times, if they have one.
    fn time_column(&self) -> Option<usize> {
        let event_time = self.event_time.as_ref()?;
        self.columns.iter().position(|column| column.name == event_time.name)
    }

    /// Whether a row's time is part of its key.
    fn is_by_time(&self) -> bool {
        self.time_column().is_some_and(|time| self.primary_key.contains(&time))
    }

    /// What the versions of its rows are; `history` has them all, where the table has only the last of each key.
    pub fn versions(&self, history: Option<&Table>) -> Versions {
        Versions { key: self.primary_key.clone(), time: self.time_column(), history: history.map(Table::get) }
    }

    /// The table whose rows are the versions of this one's, if those are all that comes and this one has the last of each
    /// key: it reads the same, with their times, and replaces none.
    pub fn history(&self, create: &CreateTable) -> Option<CreateTable> {
        let watermark = create.watermark.as_ref()?;
        let is_read = matches!(&self.storage, Storage::Connector { spec, kind } if kind.source && !spec.retracts());
        let keeps_last = !create.primary_key.is_empty() && !create.primary_key.contains(&watermark.column);
        let comes = self.physical.index_of(&watermark.column).is_ok();
        (is_read && keeps_last && comes).then(|| {
            let is_key = |name| create.primary_key.contains(name);
            let columns =
                create.columns.iter().map(|column| ColumnDef { not_null: column.not_null || is_key(&column.name), ..column.clone() });
            CreateTable { primary_key: vec![], columns: columns.collect(), ..create.clone() }
        })
    }

    /// The table as a dataflow knows it.
    pub fn input(&self) -> Input {
        let (id, name, row, primary_key) = (self.id, self.name.clone(), self.row.clone(), self.primary_key.clone());
        match &self.storage {
            Storage::Memory => Input::Table { id, name, row, primary_key },
            Storage::Connector { spec, .. } | Storage::Changelog { spec, .. } => {
                Input::Source { id, name, row, primary_key, retracts: spec.retracts(), memory: self.memory.clone() }
            }
        }
    }

    /// Positions among the physical columns of those that an INSERT names, or of all where it names none.
    pub fn targets(&self, names: &[String]) -> Result<Vec<usize>> {
        if names.is_empty() {
            return Ok((0..self.physical.fields().len()).collect());
        }
        let mut targets = Vec::with_capacity(names.len());
        for name in names {
            if self.columns.iter().any(|c| c.name == *name && c.computed.is_some()) {
                return Err(Error::invalid(format!("column '{name}' of table '{}' is computed: it takes no values", self.name)));
            }
            let target = find(&self.name, &self.physical, name)?;
            if targets.contains(&target) {
                return Err(Error::invalid(format!("column '{name}' of table '{}' is named twice", self.name)));
            }
            targets.push(target);
        }
        Ok(targets)
    }

    /// Physical rows of some of their columns: values are cast to the columns' types, and what is not given is NULL.
    pub fn conform(&self, targets: &[usize], values: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let array = |(position, field): (usize, &Arc<Field>)| match targets.iter().position(|t| *t == position) {
            Some(given) => self.cast(&values[given], field),
            None => Ok(new_null_array(field.data_type(), rows)),
        };
        let arrays = self.physical.fields().iter().enumerate().map(array).collect::<Result<Vec<_>>>()?;
        for (field, array) in self.physical.fields().iter().zip(&arrays).filter(|(field, _)| !field.is_nullable()) {
            if let Some(row) = array.logical_nulls().and_then(|nulls| (0..rows).find(|row| nulls.is_null(*row))) {
                return Err(Error::invalid(self.null_in(field.name(), &arrays, row)));
            }
        }
        Ok(RecordBatch::try_new_with_options(self.physical.clone(), arrays, &RecordBatchOptions::new().with_row_count(Some(rows)))?)
    }

    /// What is said of a row with NULL in a column that has none.
    fn null_in(&self, column: &str, arrays: &[ArrayRef], row: usize) -> String {
        let named = self.physical.fields().iter().zip(arrays).map(|(field, array)| (field.name(), array.slice(row, 1)));
        let row = RecordBatch::try_from_iter(named).map_or_else(|_| String::new(), |row| crate::text::line(&row, 0).join(", "));
        match &self.event_time {
            Some(event) if event.name == column => event.missing(&self.name, &row),
            _ => format!("column '{column}' of table '{}' is NOT NULL and would be NULL in the row ({row})", self.name),
        }
    }

    fn cast(&self, values: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let (from, to) = (values.data_type(), field.data_type());
        if from == to {
            return Ok(values.clone());
        }
        let place = || format!("column '{}' of table '{}'", field.name(), self.name);
        if !can_cast_types(from, to) {
            return Err(Error::invalid(format!("{} is {}, which {} cannot be cast to", place(), sql_type(to), sql_type(from))));
        }
        eval::cast_values(values, to, false).map_err(|error| Error::invalid(format!("{}: {}", place(), eval::reason(&error))))
    }

    /// Adds the computed columns to physical rows that come at an instant.
    pub fn complete(&self, physical: &RecordBatch, now: i64) -> Result<Completed> {
        if self.columns.iter().all(|c| c.computed.is_none()) {
            return Ok(Completed { rows: physical.clone(), from: None, failed: Vec::new() });
        }
        let mut next = 0..;
        let columns = self.columns.iter().zip(self.row.columns.iter()).map(|(declared, column)| {
            let value = match &declared.computed {
                None => plans::column(&RowType::from_schema(&self.physical), next.next().unwrap_or_default()),
                Some(Computed::Proctime) => plans::literal(ScalarValue::TimestampMillisecond(Some(now), None)),
                Some(Computed::Fixed(scalar)) => scalar.clone(),
                Some(Computed::Fresh(expr)) => planner::plan_scalar(expr, &self.physical, Purpose::Once { now })?.0,
            };
            Ok((value, column.clone()))
        });
        let evaluated = eval::run_steps(&[Step::Project(columns.collect::<Result<_>>()?)], physical);
        Ok(Completed {
            rows: evaluated.rows,
            from: evaluated.from,
            failed: evaluated.failed.into_iter().map(|(_, message)| format!("table '{}': {message}", self.name)).collect(),
        })
    }

    /// Complete rows as they are where each comes at an instant of its own, in milliseconds: that is what PROCTIME() says,
    /// unless it is what a row's time is taken from.
    pub fn as_of(&self, rows: RecordBatch, instants: &[i64]) -> Result<RecordBatch> {
        let is_time = |column: &TableColumn| self.event_time.as_ref().is_some_and(|event| event.name == column.name);
        let is_instant = |column: &TableColumn| matches!(column.computed, Some(Computed::Proctime)) && !is_time(column);
        if !self.columns.iter().any(is_instant) {
            return Ok(rows);
        }
        let instants: ArrayRef = Arc::new(TimestampMillisecondArray::from(instants.to_vec()));
        let columns = self.columns.iter().zip(rows.columns());
        let columns = columns.map(|(declared, given)| Arc::clone(if is_instant(declared) { &instants } else { given })).collect();
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    }

    /// As [`Table::complete`], where a row that fails is an error.
    pub fn complete_all(&self, physical: &RecordBatch, now: i64) -> Result<RecordBatch> {
        let completed = self.complete(physical, now)?;
        match completed.failed.into_iter().next() {
            Some(message) => Err(Error::Data(message)),
            None => Ok(completed.rows),
        }
    }
}

/// The position of a column, or an error that names those there are.
pub(super) fn find(table: &str, schema: &Schema, name: &str) -> Result<usize> {
    schema
        .index_of(name)
        .map_err(|_| Error::unknown("column", format!("{table}.{name}"), schema.fields().iter().map(|f| format!("{table}.{}", f.name()))))
}

fn physical_fields(create: &CreateTable) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for (position, column) in create.columns.iter().enumerate() {
        if create.columns[..position].iter().any(|c| c.name == column.name) {
            return Err(Error::Exists { kind: "column", name: format!("{}.{}", create.name, column.name) });
        }
        if let ColumnKind::Physical(sql) = &column.kind {
            let nullable = !column.not_null && !create.primary_key.contains(&column.name);
            fields.push(Field::new(&column.name, planner::data_type(sql)?, nullable));
        }
    }
    Ok(fields)
}

fn columns(create: &CreateTable, physical: &SchemaRef) -> Result<Vec<TableColumn>> {
    let column = |declared: &crate::sql::statement::ColumnDef| {
        let name = declared.name.clone();
        Ok(match &declared.kind {
            ColumnKind::Physical(_) => {
                let field = physical.field_with_name(&name)?;
                TableColumn { name, data_type: field.data_type().clone(), nullable: field.is_nullable(), computed: None }
            }
            ColumnKind::Computed(expr) => {
                let place = || format!("column '{name}' of table '{}'", create.name);
                let (computed, data_type) = computed(expr, physical).map_err(|error| error.at(place()))?;
                let nullable = !matches!(computed, Computed::Proctime);
                TableColumn { name, data_type, nullable, computed: Some(computed) }
            }
        })
    };
    create.columns.iter().map(column).collect()
}

/// An expression that time would change cannot be maintained, so it is planned for each instant; others once.
fn computed(expr: &ast::Expr, physical: &SchemaRef) -> Result<(Computed, DataType)> {
    if is_proctime(expr) {
        return Ok((Computed::Proctime, DataType::Timestamp(TimeUnit::Millisecond, None)));
    }
    match planner::plan_scalar(expr, physical, Purpose::Maintain) {
        Ok((scalar, data_type)) => Ok((Computed::Fixed(scalar), data_type)),
        Err(_) => planner::plan_scalar(expr, physical, Purpose::Once { now: 0 }).map(|(_, t)| (Computed::Fresh(Box::new(expr.clone())), t)),
    }
}

fn key_positions(create: &CreateTable, columns: &[TableColumn]) -> Result<Vec<usize>> {
    let mut positions = Vec::new();
    for name in &create.primary_key {
        let found = columns.iter().position(|c| c.name == *name);
        let Some(position) = found else {
            return Err(Error::unknown("column", name, columns.iter().map(|c| &c.name)));
        };
        if columns[position].computed.is_some() {
            return Err(Error::invalid(format!("PRIMARY KEY of table '{}': column '{name}' is computed", create.name)));
        }
        if !positions.contains(&position) {
            positions.push(position);
        }
    }
    Ok(positions)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;

    /// A table in memory of nullable INT columns, of which `key` are the primary key.
    pub fn ints(id: u64, names: &[&str], key: &[usize]) -> Table {
        let fields: Vec<Field> = names.iter().enumerate().map(|(i, n)| Field::new(*n, DataType::Int32, !key.contains(&i))).collect();
        let columns = fields.iter().map(|f| TableColumn {
            name: f.name().clone(),
            data_type: DataType::Int32,
            nullable: f.is_nullable(),
            computed: None,
        });
        let schema = Schema::new(fields.clone());
        Table {
            id: RelationId(id),
            name: "t".into(),
            columns: columns.collect(),
            primary_key: key.to_vec(),
            storage: Storage::Memory,
            repeats: false,
            event_time: None,
            text: String::new(),
            row: RowType::from_schema(&schema),
            physical: Arc::new(schema),
            memory: Memory::default(),
        }
    }

    #[test]
    fn columns_that_an_insert_does_not_name_are_null() {
        let table = ints(1, &["a", "b"], &[]);
        let targets = table.targets(&["b".into()]).unwrap();
        let rows = table.conform(&targets, &[Arc::new(Int32Array::from(vec![7, 8]))], 2).unwrap();
        assert_eq!(rows.column(0).null_count(), 2);
        assert_eq!(rows.column(1).as_primitive::<Int32Type>().values(), &[7, 8]);
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_column() {
        let table = ints(1, &["a"], &[]);
        let error = table.conform(&[0], &[Arc::new(StringArray::from(vec!["x"]))], 1).unwrap_err().to_string();
        assert!(error.starts_with("column 'a' of table 't'"), "{error}");
        let rows = table.conform(&[0], &[Arc::new(StringArray::from(vec!["12"]))], 1).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int32Type>().value(0), 12);
    }

    #[test]
    fn a_key_without_a_value_is_refused() {
        let table = ints(1, &["a", "b"], &[0]);
        let error = table.conform(&[1], &[Arc::new(Int32Array::from(vec![1]))], 1).unwrap_err().to_string();
        assert_eq!(error, "column 'a' of table 't' is NOT NULL and would be NULL in the row (NULL, 1)");
    }

    #[test]
    fn naming_a_column_twice_or_wrongly_is_refused() {
        let table = ints(1, &["alpha", "beta"], &[]);
        assert!(table.targets(&["alpha".into(), "alpha".into()]).unwrap_err().to_string().contains("twice"));
        assert!(table.targets(&["alhpa".into()]).unwrap_err().to_string().contains("did you mean 't.alpha'"));
    }
}
