//! Queries over tables of numbers.

mod feed;

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use weir::engine::runtime::{Export, Rows, Runtime};
use weir::sql::statement::Statement;

use feed::{added, plan, run_export};

/// A bijection on 64 bits: numbers that look random and can be made again.
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Tables of a few BIGINT columns, by name, to which rows are only ever added.
pub struct Tables(feed::Tables);

impl Tables {
    pub fn new(tables: &[(&'static str, &[&str])]) -> Self {
        let field = |column: &&str| Field::new(*column, DataType::Int64, false);
        let schema = |columns: &[&str]| Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let tables = tables.iter().map(|(name, columns)| (*name, schema(columns))).collect();
        Tables(feed::Tables { tables, views: vec![] })
    }

    /// Rows of one of the tables, by columns.
    pub fn rows(&self, index: usize, columns: Vec<Vec<i64>>) -> Rows {
        let columns = columns.into_iter().map(|column| Arc::new(Int64Array::from(column)) as _).collect();
        added(RecordBatch::try_new(self.0.tables[index].1.clone(), columns).expect("columns of the schema's types"))
    }
}

/// Keeps a query up to date over ticks of rows, a millisecond each; `tick(i)` gives each table's rows, and `look` sees the engine
/// after every tick.
pub fn run(sql: &str, tables: &Tables, ticks: usize, tick: impl Fn(usize) -> Vec<Rows>, look: impl FnMut(usize, &Runtime)) {
    let statement = weir::sql::statements(sql).next().expect("one statement").expect("it parses").statement;
    let Statement::Query(query) = statement else { panic!("a query") };
    run_export(Export::Maintain { name: "q".to_owned(), plan: plan(&query, &tables.0) }, &tables.0, ticks, tick, look);
}
