//! A connector's table with a primary key remembers, of each key, the row that the next one replaces.

use std::sync::Arc;
use std::sync::mpsc::channel;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use weir::connector::Op::{self, Delete, Upsert};
use weir::engine::runtime::{Export, Input, Rows, Runtime};
use weir::engine::time::at;
use weir::plan::{Flow, Memory, Node, Plan, Policy, RelationId, RowType};

/// Ten seconds and a policy.
fn memory(policy: Policy) -> Memory {
    Memory { ttl: Some(10_000), policy, ..Memory::default() }
}

/// `(instant, key, value, diff)`.
type Change = (i64, i64, i64, i64);

/// What is published of a keyed source `(k, v)`, and its late retractions, when these operations come at these seconds, all
/// in one batch of the dataflow where `at_once`.
fn published(policy: Policy, events: &[(i64, Op, i64, i64)], until: i64, workers: usize, at_once: bool) -> (Vec<Change>, i64) {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("v", DataType::Int64, false)]));
    let (id, row) = (RelationId(0), RowType::from_schema(&schema));
    let input = Input::Source { id, name: "s".into(), row: row.clone(), primary_key: vec![0], retracts: true, memory: memory(policy) };
    let runtime = Runtime::start(workers).expect("workers");
    let (to, updates) = channel();
    let plan = Plan::new(Node::Get { id, name: "s".into(), flow: Flow::Changes, times: vec![] }, row);
    let dataflow = runtime.install(vec![Export::Subscribe { name: "q".into(), plan, to }], vec![input], false).expect("a plan").id;
    for (second, op, key, value) in events {
        runtime.advance(at(second * 1000, 1).max(runtime.now() + 1)).expect("time goes on");
        if !at_once {
            runtime.settle().expect("it runs");
        }
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(Int64Array::from(vec![*key])), Arc::new(Int64Array::from(vec![*value]))];
        let rows = RecordBatch::try_new(schema.clone(), columns).expect("columns of the schema's types");
        runtime.feed(dataflow, id, Rows::Ops { rows, ops: vec![*op] }, None).expect("the dataflow is there");
    }
    runtime.advance(at(until * 1000, 2)).expect("time goes on");
    runtime.settle().expect("it runs");
    let late = runtime.arrangements().expect("it runs").iter().map(|arrangement| arrangement.late_retractions).sum();
    runtime.shutdown().expect("it ran");
    let mut changes = Vec::new();
    for update in updates.try_iter() {
        let update = update.expect("no errors");
        let column = |index: usize| update.rows.column(index).as_any().downcast_ref::<Int64Array>().expect("BIGINT").values().to_vec();
        let (keys, values) = (column(0), column(1));
        changes.extend((0..keys.len()).map(|row| (update.at / 1000, keys[row], values[row], update.diffs[row])));
    }
    changes.sort_by_key(|(instant, key, _, diff)| (*instant, *key, *diff));
    (changes, late)
}

/// Key 1 is written at 0 s and 5 s, forgotten at 15 s, and comes back at 20 s; key 2 is deleted after it was forgotten.
const EVENTS: [(i64, Op, i64, i64); 5] =
    [(0, Upsert, 1, 10), (1, Upsert, 2, 20), (5, Upsert, 1, 11), (18, Delete, 2, 0), (20, Upsert, 1, 12)];

fn check(policy: Policy, expected: &[Change], late: i64) {
    for (workers, at_once) in [(1, false), (2, false), (1, true), (2, true)] {
        let found = published(policy, &EVENTS, 25, workers, at_once);
        assert_eq!(found, (expected.to_vec(), late), "{policy}, {workers} worker(s), at once: {at_once}");
    }
}

#[test]
fn forgotten_rows_stand_and_a_key_that_comes_back_is_an_insert() {
    check(Policy::Forget, &[(0, 1, 10, 1), (1, 2, 20, 1), (5, 1, 10, -1), (5, 1, 11, 1), (20, 1, 12, 1)], 1);
}

#[test]
fn kept_rows_are_replaced_when_their_key_comes_back() {
    check(Policy::Keep, &[(0, 1, 10, 1), (1, 2, 20, 1), (5, 1, 10, -1), (5, 1, 11, 1), (20, 1, 11, -1), (20, 1, 12, 1)], 1);
}

#[test]
fn retracted_rows_go_at_their_deadline() {
    check(
        Policy::Retract,
        &[(0, 1, 10, 1), (1, 2, 20, 1), (5, 1, 10, -1), (5, 1, 11, 1), (11, 2, 20, -1), (15, 1, 11, -1), (20, 1, 12, 1)],
        1,
    );
}
