//! What holds of every connector and format, through the functions that the engine calls.

mod check;
mod csv;
mod generated;
mod json;
mod positions;
mod round_trip;
mod sinks;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::*;
use crate::text;

/// A folder of its own for a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let path = std::env::temp_dir().join(format!("weir-connector-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let folder = Folder::new();
        folder.write(name, content);
        folder
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A table of columns `name TYPE [NOT NULL]` and options `name=value`.
fn spec(folder: &Folder, columns: &[&str], options: &[&str]) -> TableSpec {
    let field = |column: &&str| {
        let (definition, nullable) = column.strip_suffix(" NOT NULL").map_or((*column, true), |definition| (definition, false));
        let (name, data_type) = definition.split_once(' ').unwrap();
        Field::new(name, sql_type(data_type), nullable)
    };
    let option = |option: &&str| option.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    TableSpec {
        name: "t".into(),
        schema: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
        primary_key: Vec::new(),
        options: options.iter().map(option).collect(),
        base: folder.0.clone(),
    }
}

fn sql_type(name: &str) -> DataType {
    match name {
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" => DataType::Int8,
        "INT" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "BIGINT UNSIGNED" => DataType::UInt64,
        "FLOAT" => DataType::Float32,
        "DOUBLE" => DataType::Float64,
        "DECIMAL(38, 10)" => DataType::Decimal128(38, 10),
        "DECIMAL(10, 2)" => DataType::Decimal128(10, 2),
        "VARCHAR" => DataType::Utf8,
        "VARBINARY" => DataType::Binary,
        "DATE" => DataType::Date32,
        "TIME(3)" => DataType::Time32(TimeUnit::Millisecond),
        "TIME(6)" => DataType::Time64(TimeUnit::Microsecond),
        "TIMESTAMP(3)" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP_LTZ(6)" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "ARRAY<INT>" => DataType::new_list(DataType::Int32, true),
        "ROW<a INT, b VARCHAR>" => {
            DataType::Struct(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)].into())
        }
        other => panic!("the tests know no type {other}"),
    }
}

/// Everything that a bounded source gives.
struct Everything {
    rows: RecordBatch,
    ops: Option<Vec<Op>>,
    errors: Vec<String>,
    skipped: Skipped,
    batches: usize,
}

impl Everything {
    /// The rows as text, their values separated by `|`.
    fn lines(&self) -> Vec<String> {
        (0..self.rows.num_rows()).map(|row| text::line(&self.rows, row).join("|")).collect()
    }

    /// The rows as text after what each one does.
    fn changes(&self) -> Vec<String> {
        let ops = self.ops.as_ref().expect("the source says what its rows do");
        let sign = |op: &Op| if *op == Op::Upsert { "+" } else { "-" };
        ops.iter().zip(self.lines()).map(|(op, line)| format!("{} {line}", sign(op))).collect()
    }
}

fn read(spec: &TableSpec) -> Everything {
    read_on(spec, open_source(spec, None).unwrap())
}

/// The rest of a source.
fn read_on(spec: &TableSpec, mut source: Box<dyn Source>) -> Everything {
    let (mut batches, mut ops, mut errors): (Vec<_>, Option<Vec<Op>>, Vec<_>) = Default::default();
    loop {
        match source.read().unwrap() {
            Read::Batch(batch) => {
                if let Some(more) = &batch.ops {
                    assert_eq!(more.len(), batch.rows.num_rows());
                    ops.get_or_insert_default().extend(more);
                }
                batches.push(batch.rows);
                errors.extend(batch.errors);
            }
            Read::Idle => {}
            Read::End => break,
        }
    }
    let rows = concat_batches(&spec.schema, &batches).unwrap();
    Everything { rows, ops, errors, skipped: source.skipped(), batches: batches.len() }
}

/// What is said of a table that cannot be made.
fn refusal(spec: &TableSpec) -> String {
    match check(spec) {
        Ok(kind) => panic!("not refused: {kind:?}"),
        Err(error) => error.to_string(),
    }
}

/// What is said of a table that cannot be read.
fn unreadable(spec: &TableSpec) -> String {
    unreadable_from(spec, None)
}

fn unreadable_from(spec: &TableSpec, from: Option<&Position>) -> String {
    match open_source(spec, from) {
        Ok(_) => panic!("not refused"),
        Err(error) => error.to_string(),
    }
}

fn changes(spec: &TableSpec, kinds: &[RowKind], columns: Vec<ArrayRef>) -> Changes {
    Changes { at: 1000, rows: RecordBatch::try_new(spec.schema.clone(), columns).unwrap(), kinds: kinds.to_vec() }
}

fn nowhere() -> Output {
    Arc::new(Mutex::new(std::io::sink()))
}
