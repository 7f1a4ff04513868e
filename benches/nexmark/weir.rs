//! The queries through SQL, as the pages of `queries/nexmark` have them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use weir::dataflow::sink::Deliver;
use weir::engine::runtime::{Export, Rows, Time};
use weir::plan::Plan;
use weir::row::{Codec, Diff};
use weir::sql::planner::Relation;
use weir::sql::statement::Statement;
use weir::text::cell;

use super::events::{Events, Multiset, tables};
use super::feed::{Tables, added, plan, run_export};

/// A page's query, over tables of bids, auctions and people.
pub struct Page {
    tables: Tables,
    plan: Plan,
}

impl Page {
    pub fn of(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("queries/nexmark/{name}.sql"));
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut views, mut result) = (Tables { tables: tables(), views: vec![] }, None);
        for parsed in weir::sql::statements(&page) {
            // The views that take the stream of events apart are the tables here.
            if let Statement::CreateView(view) = parsed.expect("a page parses").statement
                && tables().iter().all(|(table, _)| *table != view.name)
            {
                let plan = plan(&view.query, &views);
                views.views.push((view.name, Relation { schema: plan.row().schema(), plan: plan.clone(), versions: None }));
                result = Some(plan);
            }
        }
        Page { tables: views, plan: result.expect("a page has a query") }
    }

    fn run(&self, export: Export, events: &Events) -> Duration {
        let tick = |tick: usize| -> Vec<Rows> { events.columns.iter().map(|ticks| added(ticks[tick].clone())).collect() };
        run_export(export, &self.tables, events.ticks(), tick, |_, _| {})
    }

    /// How long it takes to keep the result up to date over all ticks.
    pub fn time(&self, events: &Events) -> Duration {
        self.run(Export::Compute { name: "q".into(), plan: self.plan.clone() }, events)
    }

    /// The result after all ticks.
    pub fn result(&self, events: &Events) -> Multiset {
        let seen = Arc::new(Mutex::new(Multiset::new()));
        let to = Box::new(Collect { plan: self.plan.clone(), seen: Arc::clone(&seen) });
        self.run(Export::Deliver { name: "q".into(), plan: self.plan.clone(), to }, events);
        std::mem::take(&mut *seen.lock().expect("nobody has panicked with it"))
    }
}

/// Adds up what is delivered.
struct Collect {
    plan: Plan,
    seen: Arc<Mutex<Multiset>>,
}

impl Deliver for Collect {
    fn step(&mut self, _: Time, rows: &[(&[u8], Diff)]) {
        let codec = Codec::new(self.plan.row(), 0).expect("the result's rows");
        let batch = codec.decode(rows.iter().map(|(row, _)| *row)).expect("rows of the result");
        let mut seen = self.seen.lock().expect("nobody has panicked with it");
        for (index, (_, diff)) in rows.iter().enumerate() {
            *seen.entry(shown(&batch, index)).or_default() += diff;
        }
        seen.retain(|_, count| *count != 0);
    }

    fn errors(&mut self, errors: &BTreeMap<String, Diff>) {
        assert!(errors.is_empty(), "{errors:?}");
    }

    fn complete(&mut self, _: Option<Time>) {}
}

/// A row as both sides show it: times in milliseconds.
fn shown(rows: &RecordBatch, row: usize) -> String {
    let value = |column: &ArrayRef| match column.data_type() {
        DataType::Timestamp(..) => cell(&cast(column, &DataType::Int64).expect("a time is a number"), row),
        DataType::Float64 if column.is_valid(row) => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        _ => cell(column, row),
    };
    rows.columns().iter().map(value).collect::<Vec<_>>().join(", ")
}
