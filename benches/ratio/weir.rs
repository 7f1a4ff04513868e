//! The queries through SQL: planned, lowered and rendered as for a user, fed like a connector's table.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir::engine::runtime::{Export, Input, Rows, Runtime};
use weir::plan::{Node, Plan, RelationId, RowType};
use weir::sql::planner::{Catalog, Purpose, Relation, plan_query};
use weir::sql::retention::Retentions;
use weir::sql::statement::Statement;

use super::{Size, mix};

/// Tables of a few BIGINT columns, by name.
struct Tables(Vec<(&'static str, SchemaRef)>);

impl Tables {
    fn new(tables: &[(&'static str, &[&str])]) -> Self {
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
        }
    }

    fn rows(&self, index: usize, columns: Vec<Vec<i64>>) -> Rows {
        let columns = columns.into_iter().map(|column| Arc::new(Int64Array::from(column)) as _).collect();
        let rows = RecordBatch::try_new(self.0[index].1.clone(), columns).expect("columns of the schema's types");
        Rows::Diffs { diffs: vec![1; rows.num_rows()], rows }
    }
}

impl Catalog for Tables {
    fn relation(&self, name: &str) -> Option<Relation> {
        let index = self.0.iter().position(|(table, _)| *table == name)?;
        let schema = self.0[index].1.clone();
        let get = Node::Get { id: RelationId(index as u64), name: name.to_owned(), retracts: false };
        Some(Relation { plan: Plan::new(get, RowType::from_schema(&schema)), schema })
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

fn plan(sql: &str, tables: &Tables) -> Plan {
    let statement = weir::sql::statements(sql).next().expect("one statement").expect("it parses").statement;
    let Statement::Query(query) = statement else { panic!("a query") };
    plan_query(&query, tables, Purpose::Maintain, &Retentions::none()).expect("it can be planned").plan
}

/// Runs a query over ticks of rows; `tick(i)` gives each table's rows.
fn run(sql: &str, tables: &Tables, ticks: usize, tick: impl Fn(usize) -> Vec<Rows>) {
    let runtime = Runtime::start(1).expect("a worker");
    let inputs: Vec<Input> = (0..tables.0.len()).map(|index| tables.input(index)).collect();
    let export = Export::Maintain { name: "q".to_owned(), plan: plan(sql, tables) };
    let dataflow = runtime.install(vec![export], inputs).expect("it can be rendered").id;
    for index in 0..ticks {
        for (table, rows) in tick(index).into_iter().enumerate() {
            runtime.feed(dataflow, RelationId(table as u64), rows).expect("the dataflow is there");
        }
        runtime.advance(runtime.now() + 1).expect("the engine runs");
        runtime.settle().expect("the engine runs");
    }
    runtime.shutdown().expect("the engine runs");
}

/// `SELECT k, COUNT(*) FROM t GROUP BY k`.
pub fn count(size: Size) -> u64 {
    let tables = Tables::new(&[("t", &["k"])]);
    run("SELECT k, COUNT(*) FROM t GROUP BY k", &tables, size.updates / size.tick, |tick| {
        let keys = (tick * size.tick..(tick + 1) * size.tick).map(|row| (mix(row as u64) % size.keys) as i64).collect();
        vec![tables.rows(0, vec![keys])]
    });
    size.updates as u64
}

/// `SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k`, half of the updates to each side.
pub fn join(size: Size) -> u64 {
    let tables = Tables::new(&[("a", &["k", "v"]), ("b", &["k", "w"])]);
    run("SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k", &tables, size.updates / size.tick, |tick| {
        let side = |parity: usize| {
            let rows = (tick * size.tick..(tick + 1) * size.tick).filter(|row| row % 2 == parity);
            let (keys, values) = rows.map(|row| ((mix(row as u64) % size.keys) as i64, row as i64)).unzip();
            vec![keys, values]
        };
        vec![tables.rows(0, side(0)), tables.rows(1, side(1))]
    });
    size.updates as u64
}
