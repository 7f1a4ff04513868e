//! From rows to sums: the half of an accumulable aggregate that needs no state.
//!
//! The rows of a container are grouped by key and time in a hash table and added up, so that what is sent, sorted and
//! kept afterwards is one partial sum a key, however often a hot key occurs.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use differential_dataflow::difference::{IsZero, Semigroup};
use hashbrown::HashTable;
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};

use super::columnar::Consume;
use crate::error::{Error, Result};
use crate::plan::{RowType, Sum, SumKind};
use crate::row::{Codec, Diff, SlotLayout, SumUpdates, Sums, Time, Updates, key_hash, ranks};

/// Adds up the value columns of rows by key and time.
pub struct Accumulate {
    codec: Codec,
    key: usize,
    sums: Vec<Sum>,
    layout: SlotLayout,
    made: Vec<SumUpdates>,
    /// How many groups the last rows were in.
    groups: usize,
}

impl Accumulate {
    /// Sums over rows of this type, by their first `key` columns.
    pub fn new(row: &RowType, key: usize, sums: &[Sum]) -> Result<Self> {
        Ok(Accumulate {
            codec: Codec::new(row, key)?,
            key,
            sums: sums.to_vec(),
            layout: slot_layout(row, key, sums),
            made: vec![],
            groups: 0,
        })
    }

    /// Adds one sum's column into the groups that the rows belong to, each with a diff.
    fn add(&self, index: usize, sum: &Sum, values: &[ArrayRef], rows: &[(u32, Diff)], into: &mut SumUpdates) -> Result<()> {
        let (layout, column) = (&self.layout, sum.column.map(|column| &values[column]));
        let counted = counted(column, sum.filter.map(|column| values[column].as_boolean()));
        let counted = counted.as_ref();
        match (sum.kind, column) {
            (SumKind::Count, _) => each(counted, rows, into, |sums, _, diff| layout.add_count(sums, index, diff)),
            (SumKind::True, Some(column)) => {
                let trues: &BooleanArray = column.as_boolean();
                each(counted, rows, into, |sums, row, diff| layout.add_count(sums, index, if trues.value(row) { diff } else { 0 }));
            }
            (SumKind::Integer, Some(column)) => {
                let value = integers(column)?;
                each(counted, rows, into, |sums, row, diff| layout.add_integer(sums, index, value(row), diff));
            }
            (SumKind::Float | SumKind::FloatSquare, Some(column)) => {
                let value = floats(column)?;
                each(counted, rows, into, |sums, row, diff| layout.add_float(sums, index, value(row), diff));
            }
            (SumKind::Least | SumKind::Greatest, Some(column)) => {
                let rank = ranks(column)?;
                each(counted, rows, into, |sums, row, _| layout.add_rank(sums, index, rank(row)));
            }
            (kind, None) => return Err(Error::invalid(format!("a sum of kind {kind:?} needs a column"))),
        }
        Ok(())
    }
}

/// Goes through the rows that are counted (None: all), each with the sums of its group.
#[inline(always)]
fn each(counted: Option<&BooleanBuffer>, rows: &[(u32, Diff)], into: &mut SumUpdates, mut add: impl FnMut(&mut Sums, usize, Diff)) {
    let add = |row: usize| add(into.sums_mut(rows[row].0 as usize), row, rows[row].1);
    match counted {
        None => (0..rows.len()).for_each(add),
        Some(counted) => counted.set_indices().for_each(add),
    }
}

/// The rows that have a value and pass the filter; None where all do.
fn counted(column: Option<&ArrayRef>, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let there = |nulls: Option<&arrow::buffer::NullBuffer>| nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().clone());
    let both = |one: Option<BooleanBuffer>, other: Option<BooleanBuffer>| match (one, other) {
        (Some(one), Some(other)) => Some(&one & &other),
        (one, other) => one.or(other),
    };
    let passes = filter.and_then(|filter| both(Some(filter.values().clone()), there(filter.nulls())));
    both(column.and_then(|column| there(column.nulls())), passes)
}

/// Where the sums of an arrangement of such rows keep their slots.
pub fn slot_layout(row: &RowType, key: usize, sums: &[Sum]) -> SlotLayout {
    SlotLayout::new(sums, |column| match row.columns[key + column].data_type {
        DataType::Decimal128(_, scale) => Some(scale),
        _ => None,
    })
}

impl Consume for Accumulate {
    type Output = SumUpdates;

    fn consume(&mut self, rows: &RecordBatch, at: &dyn Fn(usize) -> (Time, Diff)) -> Result<()> {
        let (keys, values) = rows.columns().split_at(self.key);
        let keys = self.codec.encode_keys(keys)?;
        let key = |row: usize| keys.as_ref().map_or(&[][..], |keys| keys.row(row).data());
        let mut into = SumUpdates::default();
        let mut table: HashTable<u32> = HashTable::with_capacity(self.groups.min(rows.num_rows()));
        let mut groups = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let (key, (time, diff)) = (key(row), at(row));
            let group = group_of(&mut table, &mut into, key, time, || self.layout.zero());
            self.layout.add_rows(into.sums_mut(group as usize), diff);
            groups.push((group, diff));
        }
        for (index, sum) in self.sums.iter().enumerate() {
            self.add(index, sum, values, &groups, &mut into)?;
        }
        self.groups = into.len();
        if !into.is_empty() {
            self.made.push(into);
        }
        Ok(())
    }

    fn produce(&mut self) -> Vec<SumUpdates> {
        std::mem::take(&mut self.made)
    }
}

/// The position in `into` of the group with this key and time, made if need be.
fn group_of(table: &mut HashTable<u32>, into: &mut SumUpdates, key: &[u8], time: Time, zero: impl FnOnce() -> Sums) -> u32 {
    let hash = key_hash(key) ^ time;
    if let Some(group) = table.find(hash, |group| into.key(*group as usize) == key && into.time(*group as usize) == time) {
        return *group;
    }
    let group = into.len() as u32;
    into.push(key, time, zero());
    table.insert_unique(hash, group, |group| key_hash(into.key(*group as usize)) ^ into.time(*group as usize));
    group
}

/// The integers of a column, by row.
fn integers(column: &ArrayRef) -> Result<Box<dyn Fn(usize) -> i128 + '_>> {
    macro_rules! reader {
        ($($data_type:pat => $arrow:ty),* $(,)?) => {
            match column.data_type() {
                $($data_type => {
                    let values = column.as_primitive::<$arrow>().values();
                    Ok(Box::new(move |row| i128::from(values[row])))
                })*
                other => Err(Error::invalid(format!("{other} cannot be summed as integers"))),
            }
        };
    }
    reader!(
        DataType::Int8 => Int8Type, DataType::Int16 => Int16Type, DataType::Int32 => Int32Type, DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type, DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type,
        DataType::Decimal128(..) => Decimal128Type,
    )
}

/// The doubles of a column, by row.
fn floats(column: &ArrayRef) -> Result<Box<dyn Fn(usize) -> f64 + '_>> {
    match column.data_type() {
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            Ok(Box::new(move |row| values[row]))
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            Ok(Box::new(move |row| f64::from(values[row])))
        }
        other => Err(Error::invalid(format!("{other} cannot be summed as doubles"))),
    }
}

/// How many rows each key has, as sums of nothing else: what DISTINCT, EXCEPT ALL and the sides of semi joins need.
pub fn count_rows<'s>(stream: Stream<'s, Time, Updates>) -> Stream<'s, Time, SumUpdates> {
    stream.unary(Pipeline, "CountRows", |_, _| {
        |input, output: &mut OutputBuilderSession<'_, Time, NoopBuilder<SumUpdates>>| {
            input.for_each(|capability, updates| {
                let layout = SlotLayout::new(&[], |_| None);
                let mut into = SumUpdates::default();
                let mut table: HashTable<u32> = HashTable::new();
                for index in 0..updates.len() {
                    let group = group_of(&mut table, &mut into, updates.key(index), updates.time(index), Sums::default);
                    layout.add_rows(into.sums_mut(group as usize), updates.diff(index));
                }
                output.session_with_builder(&capability).give_container(&mut into);
            });
        }
    })
}

/// What is kept of a key's sums before a moment, and how they change at each moment after it.
#[derive(Default)]
pub struct History {
    pub base: Option<Sums>,
    pub changes: Vec<(Time, Sums)>,
}

impl History {
    /// Empties it.
    pub fn clear(&mut self) {
        self.base = None;
        self.changes.clear();
    }

    /// Adds an update that happens at `time`; what happens before `start` is the base.
    pub fn add(&mut self, time: Time, start: Time, sums: crate::row::SumsRef<'_>) {
        let into = if time < start {
            self.base.get_or_insert_default()
        } else {
            self.changes.push((time, Sums::default()));
            let last = self.changes.len() - 1;
            &mut self.changes[last].1
        };
        into.plus_equals(&sums);
    }

    /// The sums counting updates before `until`; moments must be asked for in ascending order.
    pub fn until(&mut self, until: Time) -> &Sums {
        let base = self.base.get_or_insert_default();
        self.changes.retain(|(time, sums)| {
            let now = *time < until;
            if now {
                base.plus_equals(sums);
            }
            !now
        });
        base
    }

    /// Whether nothing is there.
    pub fn is_zero(&self) -> bool {
        self.base.as_ref().is_none_or(IsZero::is_zero)
    }
}
