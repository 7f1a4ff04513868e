//! Queries as a user writes them, planned, lowered and rendered, and fed like a connector's table.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir::engine::runtime::{Export, Input, Rows, Runtime};
use weir::plan::{Flow, Memory, Node, Plan, RelationId, RowType};
use weir::sql::planner::{Catalog, Purpose, Relation, plan_query};
use weir::sql::retention::{Defaults, Retentions};
use weir::sql::statement::Query;

/// Tables by name, to which rows are only ever added, and views over them.
pub struct Tables {
    pub tables: Vec<(&'static str, SchemaRef)>,
    pub views: Vec<(String, Relation)>,
}

impl Tables {
    fn input(&self, index: usize) -> Input {
        let (name, schema) = &self.tables[index];
        Input::Source {
            id: RelationId(index as u64),
            name: (*name).to_owned(),
            row: RowType::from_schema(schema),
            primary_key: vec![],
            retracts: false,
            memory: Memory::default(),
        }
    }
}

/// Rows that are there once more.
pub fn added(rows: RecordBatch) -> Rows {
    Rows::Diffs { diffs: vec![1; rows.num_rows()], rows }
}

impl Catalog for Tables {
    fn relation(&self, name: &str) -> Option<Relation> {
        if let Some((_, view)) = self.views.iter().find(|(view, _)| view == name) {
            return Some(view.clone());
        }
        let index = self.tables.iter().position(|(table, _)| *table == name)?;
        let schema = self.tables[index].1.clone();
        let get = Node::Get { id: RelationId(index as u64), name: name.to_owned(), flow: Flow::Appends, times: vec![] };
        Some(Relation { plan: Plan::new(get, RowType::from_schema(&schema)), schema, versions: None })
    }

    fn names(&self) -> Vec<String> {
        self.tables.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// The plan that keeps a query up to date.
pub fn plan(query: &Query, tables: &Tables) -> Plan {
    let said = Retentions::new(&Defaults::default(), &[], query).expect("its hints can be honoured");
    plan_query(query, tables, Purpose::Maintain, &said).expect("it can be planned").plan
}

/// Runs a query over ticks of rows, a millisecond each; `tick(i)` gives each table's rows, and `look` sees the engine after
/// every tick. Gives the time from the first row to when all is worked off.
pub fn run_export(
    export: Export,
    tables: &Tables,
    ticks: usize,
    tick: impl Fn(usize) -> Vec<Rows>,
    mut look: impl FnMut(usize, &Runtime),
) -> Duration {
    let runtime = Runtime::start(1).expect("a worker");
    let inputs: Vec<Input> = (0..tables.tables.len()).map(|index| tables.input(index)).collect();
    let dataflow = runtime.install(vec![export], inputs, false).expect("it can be rendered").id;
    let start = Instant::now();
    for index in 0..ticks {
        for (table, rows) in tick(index).into_iter().enumerate() {
            runtime.feed(dataflow, RelationId(table as u64), rows, None).expect("the dataflow is there");
        }
        runtime.advance(weir::engine::time::at(index as i64 + 1, 1)).expect("the engine runs");
        runtime.settle().expect("the engine runs");
        look(index, &runtime);
    }
    let took = start.elapsed();
    runtime.shutdown().expect("the engine runs");
    took
}
