//! Where rows come from: relations of the catalog, and rows that the query spells out.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::logical_plan::{EmptyRelation, TableScan, Values};
use datafusion_expr::{ColumnarValue, ExprSchemable, TableSource};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::eval;
use crate::plan::{Column, Node, Plan, RowType};

use super::linear;
use super::scalar::{plain_type, scalar};

/// A name in FROM as DataFusion's planner sees it: it carries what the name stands for.
#[derive(Debug)]
pub struct RelationSource {
    pub schema: SchemaRef,
    pub plan: Plan,
    pub versions: Option<Versions>,
}

/// What tells the versions of a table's rows from one another.
#[derive(Debug, Clone)]
pub struct Versions {
    /// The positions of its primary key; empty if it has none.
    pub key: Vec<usize>,
    /// The column of the time from which a row is valid, if one is declared.
    pub time: Option<usize>,
    /// The rows by that key and the time, where the table itself has one row a key.
    pub history: Option<Plan>,
}

impl TableSource for RelationSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The relation's own plan, cut to the columns that are read.
pub(super) fn scan(scan: &TableScan) -> Result<Plan> {
    let Some(source) = scan.source.downcast_ref::<RelationSource>() else {
        return Err(Error::unsupported(format!("table function {}", scan.table_name)));
    };
    let plan = source.plan.clone();
    Ok(match &scan.projection {
        None => plan,
        Some(columns) => linear::project_columns(plan, columns.iter().copied()),
    })
}

/// One row without columns, or nothing.
pub(super) fn empty(empty: &EmptyRelation) -> Result<Plan> {
    let row = RowType::new(empty.schema.fields().iter().map(|f| Column::new(f.name(), plain_type(f.data_type()), true)));
    let count = usize::from(empty.produce_one_row);
    let columns = row.columns.iter().map(|column| Ok(ScalarValue::try_from(&column.data_type)?.to_array_of_size(count)?));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    constant(row, columns, count)
}

/// The rows of VALUES. Their expressions have no columns to read, so they are evaluated here.
pub(super) fn values(values: &Values) -> Result<Plan> {
    let row = RowType::new(values.schema.fields().iter().enumerate().map(|(index, field)| {
        let nullable = values.values.iter().any(|row| row[index].nullable(values.schema.as_ref()).unwrap_or(true));
        Column::new(field.name(), plain_type(field.data_type()), nullable)
    }));
    let no_columns = RowType::new([]);
    let one_row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &RecordBatchOptions::new().with_row_count(Some(1)))?;
    let no_schema = datafusion_common::DFSchema::empty();
    let mut columns = vec![];
    for (index, column) in row.columns.iter().enumerate() {
        let cells = values.values.iter().map(|cells| {
            let cell = scalar(&cells[index], &no_schema, &no_columns)?;
            let value = match cell.evaluate(&one_row).map_err(|error| eval::constant_failure(&cell, &error))? {
                ColumnarValue::Scalar(value) => value,
                ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
            };
            Ok(value.cast_to(&column.data_type)?)
        });
        columns.push(ScalarValue::iter_to_array(cells.collect::<Result<Vec<_>>>()?)?);
    }
    constant(row, columns, values.values.len())
}

fn constant(row: RowType, columns: Vec<ArrayRef>, count: usize) -> Result<Plan> {
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let rows = RecordBatch::try_new_with_options(row.schema(), columns, &options)?;
    Ok(Plan::new(Node::Constant { rows, diffs: vec![1; count] }, row))
}
