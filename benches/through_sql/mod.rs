//! Queries as a user writes them, planned, lowered and rendered, and fed like a connector's table.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir::engine::runtime::{Export, Input, Rows, Runtime};
use weir::plan::{Flow, Memory, Node, Plan, RelationId, RowType};
use weir::sql::planner::{Catalog, Purpose, Relation, plan_query};
use weir::sql::retention::{Defaults, Retentions};
use weir::sql::statement::Statement;

/// A bijection on 64 bits: numbers that look random and can be made again.
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Tables of a few BIGINT columns, by name, to which rows are only ever added.
pub struct Tables(Vec<(&'static str, SchemaRef)>);

impl Tables {
    pub fn new(tables: &[(&'static str, &[&str])]) -> Self {
        let schema =
            |columns: &[&str]| Arc::new(Schema::new(columns.iter().map(|c| Field::new(*c, DataType::Int64, false)).collect::<Vec<_>>()));
        Tables(tables.iter().map(|(name, columns)| (*name, schema(columns))).collect())
    }

    fn input(&self, index: usize) -> Input {
        let (name, schema) = &self.0[index];
        Input::Source {
            id: RelationId(index as u64),
            name: (*name).to_owned(),
            row: RowType::from_schema(schema),
            primary_key: vec![],
            retracts: false,
            memory: Memory::default(),
        }
    }

    pub fn rows(&self, index: usize, columns: Vec<Vec<i64>>) -> Rows {
        let columns = columns.into_iter().map(|column| Arc::new(Int64Array::from(column)) as _).collect();
        let rows = RecordBatch::try_new(self.0[index].1.clone(), columns).expect("columns of the schema's types");
        Rows::Diffs { diffs: vec![1; rows.num_rows()], rows }
    }
}

impl Catalog for Tables {
    fn relation(&self, name: &str) -> Option<Relation> {
        let index = self.0.iter().position(|(table, _)| *table == name)?;
        let schema = self.0[index].1.clone();
        let get = Node::Get { id: RelationId(index as u64), name: name.to_owned(), flow: Flow::Appends, times: vec![] };
        Some(Relation { plan: Plan::new(get, RowType::from_schema(&schema)), schema, versions: None })
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

fn plan(sql: &str, tables: &Tables) -> Plan {
    let statement = weir::sql::statements(sql).next().expect("one statement").expect("it parses").statement;
    let Statement::Query(query) = statement else { panic!("a query") };
    let said = Retentions::new(&Defaults::default(), &[], &query).expect("its hints can be honoured");
    plan_query(&query, tables, Purpose::Maintain, &said).expect("it can be planned").plan
}

/// Runs a query over ticks of rows, a millisecond each; `tick(i)` gives each table's rows, and `look` sees the engine after
/// every tick.
pub fn run(sql: &str, tables: &Tables, ticks: usize, tick: impl Fn(usize) -> Vec<Rows>, mut look: impl FnMut(usize, &Runtime)) {
    let runtime = Runtime::start(1).expect("a worker");
    let inputs: Vec<Input> = (0..tables.0.len()).map(|index| tables.input(index)).collect();
    let export = Export::Maintain { name: "q".to_owned(), plan: plan(sql, tables) };
    let dataflow = runtime.install(vec![export], inputs).expect("it can be rendered").id;
    for index in 0..ticks {
        for (table, rows) in tick(index).into_iter().enumerate() {
            runtime.feed(dataflow, RelationId(table as u64), rows, None).expect("the dataflow is there");
        }
        runtime.advance(weir::engine::time::at(index as i64 + 1, 1)).expect("the engine runs");
        runtime.settle().expect("the engine runs");
        look(index, &runtime);
    }
    runtime.shutdown().expect("the engine runs");
}
