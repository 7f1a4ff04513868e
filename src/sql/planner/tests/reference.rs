//! A slow evaluator of the algebra, for tests of lowering: a plan over tables as they are, one operator at a time, every
//! row a list of values. It shares no code with the renderer and takes its rules from the algebra's documentation. What it
//! cannot catch: anything about change.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::ScalarValue;
use datafusion_common::utils::get_row_at_idx;

use crate::plan::*;

pub type Row = Vec<ScalarValue>;
pub type Bag = HashMap<Row, i64>;

/// The rows of `plan` where `tables` are the relations' rows.
pub fn evaluate(plan: &Plan, tables: &HashMap<RelationId, Bag>) -> Bag {
    let of = |plan: &Plan| evaluate(plan, tables);
    let arranged = |arrangement: &Arrangement| evaluate(&arrangement.input, tables);
    match plan.node() {
        Node::Get { id, .. } => tables[id].clone(),
        Node::Constant { rows, diffs } => bag(rows_of(rows).into_iter().zip(diffs.iter().copied())),
        Node::Linear { input, steps } => linear(of(input), input.row(), steps),
        Node::Join { kind, left, right } => join(*kind, left, &arranged(left), right, &arranged(right)),
        Node::AsOf { .. } => panic!("as-of joins are tried beside SQLite"),
        Node::Reduce { parts, outputs, always } => {
            let parts: Vec<(&Part, Bag)> = parts.iter().map(|part| (part, arranged(&part.input))).collect();
            reduce(&parts, outputs, always)
        }
        Node::TopK { input, offset, limit, rank, expose } => {
            let mut out = Bag::new();
            for (_, rows) in groups(&arranged(input), input) {
                top_k(&rows, input, *offset, *limit, *rank, *expose, &mut out);
            }
            out
        }
        Node::Window { input, functions, .. } => {
            let mut out = vec![];
            for (_, rows) in groups(&arranged(input), input) {
                let batch = batch(&rows, input.input.row());
                let made: Vec<ArrayRef> = functions.iter().map(|f| f.expr.evaluate(&batch).expect("the function")).collect();
                for (at, mut row) in rows.into_iter().enumerate() {
                    row.extend(get_row_at_idx(&made, at).expect("a row"));
                    out.push((row, 1));
                }
            }
            bag(out)
        }
        Node::Session { input, gap } => {
            let mut out = vec![];
            for (_, mut rows) in groups(&arranged(input), input) {
                let time = |row: &Row| match row[input.key] {
                    ScalarValue::TimestampMillisecond(Some(time), _) => time,
                    ref other => panic!("{other} is no time"),
                };
                rows.sort_by_key(time);
                for session in rows.chunk_by(|a, b| time(b) - time(a) < *gap) {
                    let bounds = [time(&session[0]), time(&session[session.len() - 1]) + gap];
                    let bounds = bounds.map(|bound| ScalarValue::TimestampMillisecond(Some(bound), None));
                    out.extend(session.iter().map(|row| (row.iter().chain(&bounds).cloned().collect(), 1)));
                }
            }
            bag(out)
        }
        Node::Union { inputs } => bag(inputs.iter().flat_map(of)),
        Node::Temporal { .. } => panic!("the tables are as they are at no instant"),
        Node::Negate { input } => bag(of(input).into_iter().map(|(row, diff)| (row, -diff))),
        // Every window closes in the end.
        Node::Delay { input, .. } => bag(of(input)),
        // Nothing expires in what is evaluated at once.
        Node::Remember { input } => bag(arranged(input)),
        Node::Settle { input, .. } => bag(of(input)),
        Node::Threshold { input, kind } => bag(arranged(input).into_iter().map(|(row, diff)| match kind {
            Threshold::Distinct => (row, i64::from(diff > 0)),
            Threshold::Positive => (row, diff.max(0)),
        })),
    }
}

fn bag(rows: impl IntoIterator<Item = (Row, i64)>) -> Bag {
    let mut bag = Bag::new();
    for (row, diff) in rows {
        *bag.entry(row).or_default() += diff;
    }
    bag.retain(|_, diff| *diff != 0);
    bag
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    (0..batch.num_rows()).map(|at| get_row_at_idx(batch.columns(), at).expect("a row")).collect()
}

fn batch(rows: &[Row], row: &RowType) -> RecordBatch {
    let columns = row.columns.iter().enumerate().map(|(index, column)| {
        if rows.is_empty() {
            return arrow::array::new_empty_array(&column.data_type);
        }
        let cells = rows.iter().map(|row| {
            assert!(column.nullable || !row[index].is_null(), "NULL in column {} that has none", column.name);
            assert_eq!(row[index].data_type(), column.data_type, "column {}", column.name);
            row[index].clone()
        });
        ScalarValue::iter_to_array(cells).expect("one type a column")
    });
    let columns = columns.collect();
    RecordBatch::try_new_with_options(row.schema(), columns, &RecordBatchOptions::new().with_row_count(Some(rows.len()))).expect("a batch")
}

fn linear(input: Bag, row: &RowType, steps: &[Step]) -> Bag {
    let (mut rows, mut diffs): (Vec<Row>, Vec<i64>) = input.into_iter().unzip();
    let mut row = row.clone();
    for step in steps {
        let columns = batch(&rows, &row);
        match step {
            Step::Filter(predicate) => {
                let kept = predicate.evaluate(&columns).and_then(|v| v.into_array(rows.len())).expect("the predicate");
                let kept: Vec<bool> = truths(kept.as_boolean());
                let mut at = kept.iter();
                rows.retain(|_| *at.next().expect("one a row"));
                let mut at = kept.iter();
                diffs.retain(|_| *at.next().expect("one a row"));
            }
            Step::Project(items) => {
                let made = items.iter().map(|(scalar, column)| {
                    let made = scalar.evaluate(&columns).and_then(|v| v.into_array(rows.len())).expect("the expression");
                    assert_eq!(made.data_type(), &column.data_type, "{scalar} as {}", column.name);
                    made
                });
                let made: Vec<ArrayRef> = made.collect();
                rows = (0..rows.len()).map(|at| get_row_at_idx(&made, at).expect("a row")).collect();
                row = RowType::new(items.iter().map(|(_, column)| column.clone()));
            }
            Step::Unnest { column, outer } => {
                let (mut longer, mut times) = (vec![], vec![]);
                for (had, diff) in rows.iter().zip(&diffs) {
                    let list = had[*column].to_array().expect("a list");
                    let elements = list.as_list::<i32>();
                    let elements = if elements.is_null(0) { None } else { Some(elements.value(0)) };
                    let DataType::List(element) = &row.columns[*column].data_type else { panic!("a list") };
                    let mut values: Vec<ScalarValue> = match elements {
                        None => vec![],
                        Some(values) => (0..values.len()).map(|at| ScalarValue::try_from_array(&values, at).expect("an element")).collect(),
                    };
                    if values.is_empty() && *outer {
                        values.push(ScalarValue::try_from(element.data_type()).expect("a NULL"));
                    }
                    for value in values {
                        let mut made = had.clone();
                        made[*column] = value;
                        longer.push(made);
                        times.push(*diff);
                    }
                }
                let DataType::List(element) = row.columns[*column].data_type.clone() else { panic!("a list") };
                row = RowType::new(row.columns.iter().enumerate().map(|(index, had)| match index == *column {
                    true => Column::new(&had.name, element.data_type().clone(), true),
                    false => had.clone(),
                }));
                (rows, diffs) = (longer, times);
            }
        }
    }
    bag(rows.into_iter().zip(diffs))
}

fn truths(values: &BooleanArray) -> Vec<bool> {
    values.iter().map(|value| value == Some(true)).collect()
}

fn join(kind: JoinKind, left: &Arrangement, l: &Bag, right: &Arrangement, r: &Bag) -> Bag {
    let nulls = |arrangement: &Arrangement| -> Row {
        arrangement.input.row().columns[arrangement.key..].iter().map(|c| ScalarValue::try_from(&c.data_type).expect("a NULL")).collect()
    };
    for (a, b) in left.input.row().columns[..left.key].iter().zip(right.input.row().columns[..right.key].iter()) {
        assert_eq!((&a.data_type, a.sort), (&b.data_type, b.sort), "keys of a join");
    }
    let k = left.key;
    let mut out = vec![];
    for (lrow, ld) in l {
        let matches: Vec<(&Row, &i64)> = r.iter().filter(|(rrow, _)| rrow[..k] == lrow[..k]).collect();
        match kind {
            JoinKind::Semi if !matches.is_empty() => out.push((lrow.clone(), *ld)),
            JoinKind::Anti if matches.is_empty() => out.push((lrow.clone(), *ld)),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => {
                for (rrow, rd) in &matches {
                    out.push(([&lrow[..], &rrow[k..]].concat(), ld * **rd));
                }
                if matches.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full) {
                    out.push(([&lrow[..], &nulls(right)[..]].concat(), *ld));
                }
            }
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for (rrow, rd) in r.iter().filter(|(rrow, _)| l.keys().all(|lrow| lrow[..k] != rrow[..k])) {
            out.push(([&rrow[..k], &nulls(left)[..], &rrow[k..]].concat(), *rd));
        }
    }
    bag(out)
}

/// Groups by key, each group's rows in the arrangement's order and as often as they are there.
fn groups(rows: &Bag, arrangement: &Arrangement) -> Vec<(Row, Vec<Row>)> {
    let mut by_key: HashMap<Row, Vec<Row>> = HashMap::new();
    for (row, diff) in rows {
        assert!(*diff > 0, "a group has a row {diff} times");
        let group = by_key.entry(row[..arrangement.key].to_vec()).or_default();
        group.extend(std::iter::repeat_n(row.clone(), *diff as usize));
    }
    let values = &arrangement.input.row().columns[arrangement.key..];
    by_key.into_iter().map(|(key, rows)| (key, ordered(rows, arrangement.key, values))).collect()
}

fn ordered(mut rows: Vec<Row>, key: usize, values: &[Column]) -> Vec<Row> {
    if values.is_empty() || rows.is_empty() {
        return rows;
    }
    let fields = values.iter().map(|c| SortField::new_with_options(c.data_type.clone(), c.sort)).collect();
    let converter = RowConverter::new(fields).expect("types that rows hold");
    let columns: Vec<ArrayRef> = (0..values.len())
        .map(|at| ScalarValue::iter_to_array(rows.iter().map(|row| row[key + at].clone())).expect("one type a column"))
        .collect();
    let encoded = converter.convert_columns(&columns).expect("the encoding");
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| encoded.row(*a).cmp(&encoded.row(*b)));
    order.into_iter().map(|at| std::mem::take(&mut rows[at])).collect()
}

fn top_k(rows: &[Row], input: &Arrangement, offset: u64, limit: Option<u64>, rank: Rank, expose: bool, out: &mut Bag) {
    let peers = |order: usize, a: &Row, b: &Row| a[input.key..input.key + order] == b[input.key..input.key + order];
    let (mut position, mut ranked, mut dense) = (0u64, 0u64, 0u64);
    for (at, row) in rows.iter().enumerate() {
        position += 1;
        let number = match rank {
            Rank::RowNumber => position,
            Rank::Rank { order } | Rank::DenseRank { order } => {
                if at == 0 || !peers(order, &rows[at - 1], row) {
                    ranked = position;
                    dense += 1;
                }
                if matches!(rank, Rank::Rank { .. }) { ranked } else { dense }
            }
        };
        if number > offset && limit.is_none_or(|limit| number <= offset + limit) {
            let mut row = row.clone();
            if expose {
                row.push(ScalarValue::UInt64(Some(number)));
            }
            *out.entry(row).or_default() += 1;
        }
    }
}

fn reduce(parts: &[(&Part, Bag)], outputs: &[Output], always: &[RecordBatch]) -> Bag {
    let mut keys: Vec<Row> = groups_of(&parts[0]).into_keys().collect();
    for key in always.iter().flat_map(rows_of) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let grouped: Vec<HashMap<Row, Vec<Row>>> = parts.iter().map(groups_of).collect();
    let none = vec![];
    let made = keys.into_iter().map(|key| {
        let values: Vec<Row> =
            parts.iter().zip(&grouped).map(|((part, _), groups)| part_values(part, groups.get(&key).unwrap_or(&none))).collect();
        let mut row = key;
        row.extend(outputs.iter().map(|output| finish(output, &values[output.part], &parts[output.part].0.input)));
        (row, 1)
    });
    bag(made)
}

fn groups_of((part, rows): &(&Part, Bag)) -> HashMap<Row, Vec<Row>> {
    groups(rows, &part.input).into_iter().collect()
}

/// One value a sum, a column or an aggregate.
fn part_values(part: &Part, rows: &[Row]) -> Row {
    let key = part.input.key;
    let columns = &part.input.input.row().columns[key..];
    match &part.kind {
        PartKind::Accumulable => {
            let Layout::Sums(sums) = &part.input.layout else { panic!("sums") };
            sums.iter().map(|sum| sum_of(sum, rows, key)).collect()
        }
        PartKind::First => match rows.first() {
            Some(row) => row[key..].to_vec(),
            None => columns.iter().map(|c| ScalarValue::try_from(&c.data_type).expect("a NULL")).collect(),
        },
        PartKind::General(aggregates) => {
            let values: Vec<Row> = rows.iter().map(|row| row[key..].to_vec()).collect();
            let all = batch(&values, &RowType::new(columns.iter().cloned()));
            aggregates
                .iter()
                .map(|aggregate| {
                    let rows = match &aggregate.filter {
                        None => all.clone(),
                        Some(filter) => {
                            let kept = filter.evaluate(&all).and_then(|v| v.into_array(all.num_rows())).expect("the filter");
                            arrow::compute::filter_record_batch(&all, kept.as_boolean()).expect("a batch")
                        }
                    };
                    let args = aggregate.function.expressions();
                    let args: Vec<ArrayRef> = args
                        .iter()
                        .map(|arg| arg.evaluate(&rows).and_then(|v| v.into_array(rows.num_rows())).expect("an argument"))
                        .collect();
                    let mut accumulator = aggregate.function.create_accumulator().expect("an accumulator");
                    if rows.num_rows() > 0 {
                        accumulator.update_batch(&args).expect("an update");
                    }
                    accumulator.evaluate().expect("a value")
                })
                .collect()
        }
    }
}

/// Integers as Decimal128 of scale 0, doubles as they are: exact enough for the small numbers of tests.
fn sum_of(sum: &Sum, rows: &[Row], key: usize) -> ScalarValue {
    let counted = rows.iter().filter(|row| {
        let passes = sum.filter.is_none_or(|filter| row[key + filter] == ScalarValue::Boolean(Some(true)));
        passes && sum.column.is_none_or(|column| !row[key + column].is_null())
    });
    let value = |row: &Row| row[key + sum.column.expect("a column to sum")].clone();
    match sum.kind {
        SumKind::Count => ScalarValue::Int64(Some(counted.count() as i64)),
        SumKind::True => ScalarValue::Int64(Some(counted.filter(|row| value(row) == ScalarValue::Boolean(Some(true))).count() as i64)),
        SumKind::Integer => ScalarValue::Decimal128(Some(counted.map(|row| whole(&value(row))).sum()), 38, 0),
        SumKind::Float => ScalarValue::Float64(Some(counted.map(|row| double(&value(row))).sum())),
        SumKind::FloatSquare => ScalarValue::Float64(Some(counted.map(|row| double(&value(row)).powi(2)).sum())),
        SumKind::Least | SumKind::Greatest => {
            let comes_before = |a: &ScalarValue, b: &ScalarValue| (a < b) == (sum.kind == SumKind::Least);
            counted.map(value).reduce(|best, next| if comes_before(&next, &best) { next } else { best }).unwrap_or(ScalarValue::Null)
        }
    }
}

fn whole(value: &ScalarValue) -> i128 {
    match value {
        ScalarValue::Decimal128(Some(value), ..) => *value,
        other => match other.cast_to(&DataType::Decimal128(38, 0)).expect("a number") {
            ScalarValue::Decimal128(Some(value), ..) => value,
            other => panic!("{other} is no whole number"),
        },
    }
}

fn double(value: &ScalarValue) -> f64 {
    match value.cast_to(&DataType::Float64).expect("a number") {
        ScalarValue::Float64(Some(value)) => value,
        other => panic!("{other} is no double"),
    }
}

fn count(values: &Row, at: usize) -> i64 {
    match values[at] {
        ScalarValue::Int64(Some(count)) => count,
        ref other => panic!("{other} is no count"),
    }
}

fn finish(output: &Output, values: &Row, input: &Arrangement) -> ScalarValue {
    let data_type = &output.column.data_type;
    let null = || ScalarValue::try_from(data_type).expect("a NULL");
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal128(_, scale) => i32::from(*scale),
        _ => 0,
    };
    let summed_scale = |sum: usize| {
        let Layout::Sums(sums) = &input.layout else { panic!("sums") };
        sums[sum].column.map_or(0, |column| scale(&input.input.row().columns[input.key + column].data_type))
    };
    let made = match &output.finish {
        Finish::Value(at) => values[*at].clone(),
        Finish::SumOrNull { count: n, .. } | Finish::Average { count: n, .. } | Finish::Variance { count: n, .. }
            if count(values, *n) == 0 =>
        {
            null()
        }
        Finish::All { count: n, .. } | Finish::Any { count: n, .. } | Finish::Extreme { count: n, .. } if count(values, *n) == 0 => null(),
        Finish::Extreme { value, .. } => values[*value].clone(),
        Finish::SumOrNull { sum, .. } => match data_type {
            DataType::Decimal128(precision, to) => ScalarValue::Decimal128(Some(whole(&values[*sum])), *precision, *to),
            other => values[*sum].cast_to(other).expect("a sum in range"),
        },
        Finish::Average { sum, count: n } => {
            let total = match &values[*sum] {
                ScalarValue::Decimal128(Some(sum_of), ..) => *sum_of as f64 / 10f64.powi(summed_scale(*sum)),
                other => double(other),
            };
            let mean = total / count(values, *n) as f64;
            match data_type {
                DataType::Decimal128(precision, to) => {
                    ScalarValue::Decimal128(Some((mean * 10f64.powi(i32::from(*to))).round() as i128), *precision, *to)
                }
                _ => ScalarValue::Float64(Some(mean)),
            }
        }
        Finish::Variance { sum, squares, count: n, sample, root } => {
            let (n, mean) = (count(values, *n) as f64, double(&values[*sum]) / count(values, *n) as f64);
            let spread = double(&values[*squares]) - n * mean * mean;
            match (*sample, n) {
                (true, 1.0) => null(),
                (sample, n) => {
                    let variance = spread / if sample { n - 1.0 } else { n };
                    ScalarValue::Float64(Some(if *root { variance.max(0.0).sqrt() } else { variance }))
                }
            }
        }
        Finish::All { trues, count: n } => ScalarValue::Boolean(Some(count(values, *trues) == count(values, *n))),
        Finish::Any { trues, .. } => ScalarValue::Boolean(Some(count(values, *trues) > 0)),
    };
    assert_eq!(&made.data_type(), data_type, "{:?} of {}", output.finish, output.column.name);
    made
}
