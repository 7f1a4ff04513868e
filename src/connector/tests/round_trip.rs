//! A source reads back what a sink wrote: the same rows, bit by bit, and the same changes.

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// Every type that a format reads, over and over.
fn types() -> Vec<DataType> {
    use TimeUnit::*;
    let utc = || Some("UTC".into());
    let row = vec![Field::new("a \"b\"", DataType::Float64, true), Field::new("c", DataType::new_list(DataType::Binary, true), true)];
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 0),
        DataType::Decimal128(38, 38),
        DataType::Decimal128(10, 2),
        DataType::Decimal128(5, -3),
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::Time32(Second),
        DataType::Time32(Millisecond),
        DataType::Time64(Microsecond),
        DataType::Time64(Nanosecond),
        DataType::Timestamp(Second, None),
        DataType::Timestamp(Millisecond, utc()),
        DataType::Timestamp(Microsecond, None),
        DataType::Timestamp(Nanosecond, utc()),
        DataType::new_list(DataType::Utf8, true),
        DataType::new_list(DataType::Timestamp(Nanosecond, None), true),
        DataType::Struct(row.into()),
    ]
}

fn any<T: ArrowPrimitiveType>(
    random: &mut StdRng,
    data_type: &DataType,
    nulls: &[bool],
    value: impl Fn(&mut StdRng) -> T::Native,
) -> ArrayRef {
    let values = nulls.iter().map(|null| (!null).then(|| value(random)));
    Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
}

fn any_text(random: &mut StdRng) -> String {
    const PIECES: &[&str] =
        &["a", "NULL", " ", ",", "\"", "\n", "\r", "\\", "\t", "#", "\u{feff}", "é", "😀", "\u{1}", "{", "null", "1", "-", "\u{7f}"];
    (0..random.random_range(0..4)).map(|_| PIECES[random.random_range(0..PIECES.len())]).collect()
}

fn any_bytes(random: &mut StdRng) -> Vec<u8> {
    (0..random.random_range(0..5)).map(|_| random.random()).collect()
}

/// Random values, one for each element of `nulls`, NULL where it is true.
fn array(random: &mut StdRng, data_type: &DataType, nulls: &[bool]) -> ArrayRef {
    use TimeUnit::*;
    const DAY: i64 = 86_400;
    match data_type {
        DataType::Boolean => Arc::new(nulls.iter().map(|null| (!null).then(|| random.random())).collect::<BooleanArray>()),
        DataType::Int8 => any::<Int8Type>(random, data_type, nulls, |r| r.random()),
        DataType::Int16 => any::<Int16Type>(random, data_type, nulls, |r| r.random()),
        DataType::Int32 => any::<Int32Type>(random, data_type, nulls, |r| r.random()),
        DataType::Int64 => any::<Int64Type>(random, data_type, nulls, |r| r.random()),
        DataType::UInt8 => any::<UInt8Type>(random, data_type, nulls, |r| r.random()),
        DataType::UInt16 => any::<UInt16Type>(random, data_type, nulls, |r| r.random()),
        DataType::UInt32 => any::<UInt32Type>(random, data_type, nulls, |r| r.random()),
        DataType::UInt64 => any::<UInt64Type>(random, data_type, nulls, |r| r.random()),
        DataType::Float32 => any::<Float32Type>(random, data_type, nulls, |r| match f32::from_bits(r.random()) {
            value if value.is_nan() => f32::NAN,
            value => value,
        }),
        DataType::Float64 => any::<Float64Type>(random, data_type, nulls, |r| match f64::from_bits(r.random()) {
            value if value.is_nan() || r.random_ratio(1, 20) => f64::NAN,
            _ if r.random_ratio(1, 20) => f64::NEG_INFINITY,
            value => value,
        }),
        DataType::Decimal128(precision, _) => {
            let limit = 10i128.pow(u32::from(*precision));
            any::<Decimal128Type>(random, data_type, nulls, |r| r.random_range(1 - limit..limit))
        }
        DataType::Utf8 => Arc::new(nulls.iter().map(|null| (!null).then(|| any_text(random))).collect::<StringArray>()),
        DataType::Binary => Arc::new(nulls.iter().map(|null| (!null).then(|| any_bytes(random))).collect::<BinaryArray>()),
        DataType::Date32 => any::<Date32Type>(random, data_type, nulls, |r| r.random()),
        DataType::Time32(Second) => any::<Time32SecondType>(random, data_type, nulls, |r| r.random_range(0..DAY as i32)),
        DataType::Time32(_) => any::<Time32MillisecondType>(random, data_type, nulls, |r| r.random_range(0..DAY as i32 * 1_000)),
        DataType::Time64(Microsecond) => any::<Time64MicrosecondType>(random, data_type, nulls, |r| r.random_range(0..DAY * 1_000_000)),
        DataType::Time64(_) => any::<Time64NanosecondType>(random, data_type, nulls, |r| r.random_range(0..DAY * 1_000_000_000)),
        DataType::Timestamp(Second, _) => any::<TimestampSecondType>(random, data_type, nulls, |r| r.random()),
        DataType::Timestamp(Millisecond, _) => any::<TimestampMillisecondType>(random, data_type, nulls, |r| r.random()),
        DataType::Timestamp(Microsecond, _) => any::<TimestampMicrosecondType>(random, data_type, nulls, |r| r.random()),
        DataType::Timestamp(Nanosecond, _) => any::<TimestampNanosecondType>(random, data_type, nulls, |r| r.random()),
        DataType::List(item) => {
            let lengths: Vec<usize> = nulls.iter().map(|null| if *null { 0 } else { random.random_range(0..3) }).collect();
            let inner: Vec<bool> = (0..lengths.iter().sum()).map(|_| random.random_ratio(1, 4)).collect();
            let items = array(random, item.data_type(), &inner);
            let valid: NullBuffer = nulls.iter().map(|null| !null).collect::<Vec<_>>().into();
            Arc::new(ListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), items, Some(valid)))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| {
                let inner: Vec<bool> = nulls.iter().map(|null| *null || random.random_ratio(1, 4)).collect();
                array(random, field.data_type(), &inner)
            });
            let columns = columns.collect();
            let valid: NullBuffer = nulls.iter().map(|null| !null).collect::<Vec<_>>().into();
            Arc::new(StructArray::new(fields.clone(), columns, Some(valid)))
        }
        other => panic!("no values of {other}"),
    }
}

fn any_spec(random: &mut StdRng, folder: &Folder, options: &[&str]) -> TableSpec {
    let types = types();
    let fields: Vec<Field> = (0..random.random_range(1..7))
        .map(|position| {
            let data_type = types[random.random_range(0..types.len())].clone();
            Field::new(format!("column {position}, \"é\""), data_type, random.random_ratio(3, 4))
        })
        .collect();
    let mut spec = spec(folder, &[], &[&["connector=file", "path=data"], options].concat());
    spec.schema = Arc::new(Schema::new(fields));
    spec
}

fn any_changes(random: &mut StdRng, spec: &TableSpec, kinds: &[RowKind]) -> Changes {
    let columns = spec.schema.fields().iter().map(|field| {
        let nulls: Vec<bool> = kinds.iter().map(|_| field.is_nullable() && random.random_ratio(1, 5)).collect();
        array(random, field.data_type(), &nulls)
    });
    let columns = columns.collect();
    changes(spec, kinds, columns)
}

/// Inserts only, or insertions, deletions and pairs of updates.
fn any_kinds(random: &mut StdRng, inserts: bool) -> Vec<RowKind> {
    let mut kinds = Vec::new();
    for _ in 0..random.random_range(0..20) {
        match if inserts { 0 } else { random.random_range(0..3) } {
            0 => kinds.push(RowKind::Insert),
            1 => kinds.push(RowKind::Delete),
            _ => kinds.extend([RowKind::UpdateBefore, RowKind::UpdateAfter]),
        }
    }
    kinds
}

fn comes_back(seed: u64, options: &[&str], inserts: bool) {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = Folder::new();
    let mut rows = 0;
    for _ in 0..150 {
        let spec = any_spec(&mut random, &folder, options);
        let mut sink = open_sink(&spec, nowhere(), None).unwrap();
        let steps: Vec<Changes> = (0..random.random_range(0..4))
            .map(|_| {
                let kinds = any_kinds(&mut random, inserts);
                any_changes(&mut random, &spec, &kinds)
            })
            .collect();
        for step in &steps {
            sink.write(step).unwrap();
        }
        sink.flush().unwrap();
        let all = read(&spec);
        assert_eq!(all.errors, [""; 0], "{spec:?}\n{}", folder.read("data"));
        let written = concat_batches(&spec.schema, steps.iter().map(|step| &step.rows)).unwrap();
        assert_eq!(all.rows, written, "{}", folder.read("data"));
        if !inserts {
            let kinds = steps.iter().flat_map(|step| &step.kinds);
            let ops: Vec<Op> =
                kinds.map(|kind| if matches!(kind, RowKind::Insert | RowKind::UpdateAfter) { Op::Upsert } else { Op::Delete }).collect();
            assert_eq!(all.ops.unwrap_or_default(), ops);
        }
        rows += written.num_rows();
    }
    assert!(rows > 500, "{rows} rows are too few to say much");
}

#[test]
fn rows_come_back_from_csv() {
    comes_back(1, &["format=csv"], true);
    comes_back(2, &["format=csv", "csv.header=true", "csv.null-literal=NULL", "csv.field-delimiter=|", "csv.allow-comments=true"], true);
}

#[test]
fn rows_come_back_from_json() {
    comes_back(3, &["format=json"], true);
}

#[test]
fn changes_come_back_from_csv_and_json_changelogs() {
    comes_back(4, &["format=csv", "changelog=true"], false);
    comes_back(5, &["format=json", "changelog=true"], false);
}

#[test]
fn changes_come_back_from_debezium_json() {
    comes_back(6, &["format=debezium-json"], false);
}
