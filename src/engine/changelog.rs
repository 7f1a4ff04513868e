//! A `changelog` sink: a table in memory of every change that was written to it.
//!
//! Its rows have the declared columns and `op` (`+I`, `-U`, `+U`, `-D`), `at` (the instant of the step) and `seq` (a
//! number from 1 in the order of writing, across all jobs that write it). They are never removed. A SELECT reads the
//! rows as they are when it is planned.

use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::lock;
use crate::connector::{Changes, Sink};
use crate::error::{Error, Result};
use crate::plan::RowType;
use crate::row::{Codec, Updates};

/// The columns that a changelog adds to the declared ones.
const ADDED: [&str; 3] = ["op", "at", "seq"];

/// The rows of a changelog sink.
pub(super) struct Log {
    schema: SchemaRef,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    batches: Vec<RecordBatch>,
    count: i64,
}

impl Log {
    /// An empty changelog of a table with these declared columns.
    pub fn new(table: &str, declared: &Schema) -> Result<Self> {
        if let Some(field) = declared.fields().iter().find(|f| ADDED.contains(&f.name().as_str())) {
            return Err(Error::invalid(format!(
                "table '{table}': column '{}' is one that connector 'changelog' adds ({}); name yours differently",
                field.name(),
                ADDED.join(", ")
            )));
        }
        let added = [DataType::Utf8, DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Int64];
        let declared = declared.fields().iter().map(|f| Field::new(f.name(), f.data_type().clone(), f.is_nullable()));
        let fields: Vec<Field> = declared.chain(ADDED.into_iter().zip(added).map(|(name, t)| Field::new(name, t, false))).collect();
        Ok(Log { schema: Arc::new(Schema::new(fields)), rows: Mutex::default() })
    }

    /// The declared columns, `op`, `at`, `seq`.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows so far as bytes, in order, for a checkpoint.
    pub fn saved(&self) -> Result<Vec<Updates>> {
        let (rows, mut saved) = (self.snapshot()?, Vec::new());
        self.codec()?.encode(&rows, |_| (0, 1), |updates| saved.push(updates))?;
        Ok(saved)
    }

    /// Puts rows that were saved in the place of those that are there.
    pub fn restore(&self, saved: &[Updates]) -> Result<()> {
        let codec = self.codec()?;
        let decode = |updates: &Updates| codec.decode((0..updates.len()).map(|row| updates.row(row)).collect::<Vec<_>>().into_iter());
        let batches = saved.iter().map(decode).collect::<Result<Vec<_>>>()?;
        let count = batches.iter().map(|batch| batch.num_rows() as i64).sum();
        *lock(&self.rows) = Rows { batches, count };
        Ok(())
    }

    fn codec(&self) -> Result<Codec> {
        Codec::new(&RowType::from_schema(&self.schema), 0)
    }

    /// The rows so far, in the order of `seq`.
    pub fn snapshot(&self) -> Result<RecordBatch> {
        let mut rows = lock(&self.rows);
        let all = concat_batches(&self.schema, &rows.batches)?;
        rows.batches = vec![all.clone()];
        Ok(all)
    }
}

/// A job's end of a changelog.
pub(super) struct LogWriter(pub Arc<Log>);

impl Sink for LogWriter {
    fn write(&mut self, changes: &Changes) -> Result<()> {
        let mut rows = lock(&self.0.rows);
        let (first, count) = (rows.count + 1, changes.kinds.len() as i64);
        let mut columns = changes.rows.columns().to_vec();
        columns.push(Arc::new(changes.kinds.iter().map(|kind| Some(kind.to_string())).collect::<StringArray>()) as ArrayRef);
        columns.push(Arc::new(TimestampMillisecondArray::from_value(changes.at, changes.kinds.len())));
        columns.push(Arc::new(Int64Array::from_iter_values(first..first + count)));
        rows.batches.push(RecordBatch::try_new(self.0.schema.clone(), columns)?);
        rows.count += count;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn commit(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::RowKind;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    fn declared() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
    }

    fn changes(at: i64, kinds: Vec<RowKind>) -> Changes {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..kinds.len() as i64));
        Changes { at, rows: RecordBatch::try_new(declared(), vec![values]).unwrap(), kinds }
    }

    #[test]
    fn rows_are_numbered_from_one_across_all_writers() {
        let log = Arc::new(Log::new("log", &declared()).unwrap());
        let (mut a, mut b) = (LogWriter(log.clone()), LogWriter(log.clone()));
        a.write(&changes(4, vec![RowKind::Insert])).unwrap();
        b.write(&changes(9, vec![RowKind::UpdateBefore, RowKind::UpdateAfter])).unwrap();
        a.write(&changes(9, vec![RowKind::Delete])).unwrap();
        for _ in 0..2 {
            let rows = log.snapshot().unwrap();
            assert_eq!(rows.column_by_name("seq").unwrap().as_primitive::<Int64Type>().values(), &[1, 2, 3, 4]);
            let ops: Vec<_> = rows.column_by_name("op").unwrap().as_string::<i32>().iter().flatten().collect();
            assert_eq!(ops, ["+I", "-U", "+U", "-D"]);
        }
    }

    #[test]
    fn a_declared_column_that_the_changelog_adds_is_refused() {
        let error = Log::new("log", &Schema::new(vec![Field::new("at", DataType::Int64, true)])).err().unwrap();
        assert!(error.to_string().contains("column 'at'"));
    }
}
