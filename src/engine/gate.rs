//! What stands between a dataflow and a sink: a gate that can be closed without taking the dataflow apart.
//!
//! Several jobs may share one dataflow; dropping one of them closes its gate, and its sink is flushed and let go at
//! once. The gate also gives the rows the sink's declared columns, holds it to its NOT NULLs, and counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};

use super::lock;
use crate::connector::{Changes, Sink};
use crate::error::{Error, Result};

type Shared = Arc<Mutex<Option<Box<dyn Sink>>>>;

/// The dataflow's end.
pub(super) struct Gate {
    table: String,
    declared: SchemaRef,
    written: SchemaRef,
    sink: Shared,
    rows: Arc<AtomicU64>,
}

/// The job's end.
#[derive(Clone)]
pub(super) struct Keeper(Shared);

impl Gate {
    /// A gate in front of the sink of a table with these columns. `rows` counts what goes through.
    pub fn new(table: &str, declared: SchemaRef, sink: Box<dyn Sink>, rows: Arc<AtomicU64>) -> (Gate, Keeper) {
        let sink: Shared = Arc::new(Mutex::new(Some(sink)));
        let nullable = declared.fields().iter().map(|f| Field::new(f.name(), f.data_type().clone(), true)).collect::<Vec<_>>();
        let gate = Gate { table: table.to_string(), declared, written: Arc::new(Schema::new(nullable)), sink: sink.clone(), rows };
        (gate, Keeper(sink))
    }

    /// A NULL in a NOT NULL column is refused by name, before the sink has seen any row of the step.
    fn check(&self, rows: &RecordBatch) -> Result<()> {
        for (field, column) in self.declared.fields().iter().zip(rows.columns()) {
            if !field.is_nullable() && column.logical_null_count() > 0 {
                return Err(Error::Data(format!("sink '{}': column '{}' is NOT NULL and a row has NULL there", self.table, field.name())));
            }
        }
        Ok(())
    }
}

impl Sink for Gate {
    fn write(&mut self, changes: &Changes) -> Result<()> {
        let mut sink = lock(&self.sink);
        let Some(sink) = sink.as_mut() else { return Ok(()) };
        self.check(&changes.rows)?;
        let rows = RecordBatch::try_new(self.written.clone(), changes.rows.columns().to_vec())?;
        sink.write(&Changes { at: changes.at, rows, kinds: changes.kinds.clone() })?;
        self.rows.fetch_add(changes.kinds.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        lock(&self.sink).as_mut().map_or(Ok(()), |sink| sink.flush())
    }

    fn commit(&mut self) -> Result<Option<u64>> {
        lock(&self.sink).as_mut().map_or(Ok(None), |sink| sink.commit())
    }
}

impl Keeper {
    /// Makes what was written visible to others.
    pub fn flush(&self) -> Result<()> {
        lock(&self.0).as_mut().map_or(Ok(()), |sink| sink.flush())
    }

    /// Makes what was written outlast a crash, and gives the length at which the sink goes on, if it can.
    pub fn commit(&self) -> Result<Option<u64>> {
        lock(&self.0).as_mut().map_or(Ok(None), |sink| sink.commit())
    }

    /// Flushes the sink and lets it go; what the dataflow still sends is dropped.
    pub fn close(&self) -> Result<()> {
        lock(&self.0).take().map_or(Ok(()), |mut sink| sink.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::RowKind;
    use arrow::array::Int32Array;
    use arrow::datatypes::DataType;

    #[derive(Default)]
    struct Seen(Arc<AtomicU64>);

    impl Sink for Seen {
        fn write(&mut self, changes: &Changes) -> Result<()> {
            assert_eq!(changes.rows.schema().field(0).name(), "declared");
            self.0.fetch_add(changes.kinds.len() as u64, Ordering::Relaxed);
            Ok(())
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
        fn commit(&mut self) -> Result<Option<u64>> {
            Ok(Some(self.0.load(Ordering::Relaxed)))
        }
    }

    fn changes(value: Option<i32>) -> Changes {
        let schema = Arc::new(Schema::new(vec![Field::new("other", DataType::Int32, true)]));
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![value]))]).unwrap();
        Changes { at: 0, rows, kinds: vec![RowKind::Insert] }
    }

    #[test]
    fn nothing_goes_through_a_closed_gate() {
        let (seen, counted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let declared = Arc::new(Schema::new(vec![Field::new("declared", DataType::Int32, false)]));
        let (mut gate, keeper) = Gate::new("s", declared, Box::new(Seen(seen.clone())), counted.clone());
        gate.write(&changes(Some(1))).unwrap();
        assert!(gate.write(&changes(None)).unwrap_err().to_string().contains("'declared' is NOT NULL"));
        assert_eq!(keeper.commit(), Ok(Some(1)));
        keeper.close().unwrap();
        assert_eq!(keeper.commit(), Ok(None), "a sink that was let go has no length");
        gate.write(&changes(Some(2))).unwrap();
        assert_eq!((seen.load(Ordering::Relaxed), counted.load(Ordering::Relaxed)), (1, 1));
    }
}
