//! What a reduction reads from each of its arrangements.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{Schema, SchemaRef};
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::{Cursor, Span};
use timely::communication::Pull;
use timely::dataflow::channels::Message;
use timely::dataflow::operators::generic::InputHandleCore;
use timely::progress::frontier::AntichainRef;

use super::PartReader;
use super::finish::Values;
use crate::dataflow::accumulate::{History, slot_layout};
use crate::dataflow::arrange::{Held, Reading};
use crate::dataflow::sweep::{Group, Keyed, SumGroup, Sweep};
use crate::error::Result;
use crate::eval;
use crate::plan::{Arrangement, GeneralAggregate, Layout};
use crate::row::batch::{RowBatch, SumBatch};
use crate::row::reclaim::{Contents, Reclaiming};
use crate::row::{ByteRows, Bytes, Codec, Diff, SlotLayout, Sums, Time, null_row};

/// An input of the operator that delivers an arrangement's batches.
type Input<B, P> = InputHandleCore<Time, Vec<Span<Time, B>>, P>;

/// The pulling end of an arrangement's batches.
pub trait Batches<B>: Pull<Message<Time, Vec<Span<Time, B>>>> + 'static {}
impl<B, P: Pull<Message<Time, Vec<Span<Time, B>>>> + 'static> Batches<B> for P {}

/// A part of a reduction: where it reads, and what it makes of a group.
pub struct Part<B: Keyed, P: Batches<B>, L> {
    reading: Reading<B>,
    input: Input<B, P>,
    sweep: Option<Sweep<B>>,
    logic: L,
}

/// What a part makes of a group. States are gathered until [`Logic::values`] takes them.
pub trait Logic<B: Keyed>: 'static {
    /// Takes note of what changes of a group, from the value on at which the cursor stands, before it is asked for.
    fn note(&mut self, _key: &[u8], _changes: &Contents<B>) {}
    /// Appends the states of a group (None: it has no rows, nor had any); says of each whether the group has rows.
    fn load(&mut self, group: Option<B::Found<'_>>, key: &[u8], moments: &[Time], present: &mut Vec<bool>);
    /// The values of all states since they were last taken.
    fn values(&mut self) -> Result<Values>;
}

impl<B: Keyed, P: Batches<B>, L> Part<B, P, L> {
    pub fn new(trace: TraceAgent<Reclaiming<B>>, as_of: Time, input: Input<B, P>, logic: L) -> Self {
        Part { reading: Reading::new(trace, as_of), input, sweep: None, logic }
    }
}

impl<B: Keyed, P: Batches<B>, L: Logic<B>> PartReader for Part<B, P, L> {
    fn receive(&mut self, held: &mut Held, frontier: AntichainRef<'_, Time>) {
        let reading = &mut self.reading;
        self.input.for_each(|capability, spans| {
            held.hold(&capability);
            reading.receive(spans);
        });
        reading.follow(frontier);
    }

    fn open(&mut self, through: Option<Time>) {
        self.sweep = Some(self.reading.sweep(through));
    }

    fn key(&self) -> Option<&[u8]> {
        Some(self.sweep.as_ref()?.key()?.0)
    }

    fn take_next(&mut self, key: &mut Vec<u8>, moments: &mut Vec<Time>, skip: &dyn Fn(&mut Vec<Time>)) -> bool {
        let Some(sweep) = &mut self.sweep else { return false };
        loop {
            let Some(next) = sweep.key() else { return false };
            self.logic.note(next.0, &sweep.changes);
            moments.clear();
            sweep.moments(moments);
            skip(moments);
            if let (false, Some(next)) = (moments.is_empty(), sweep.key()) {
                key.clear();
                key.extend_from_slice(next.0);
                sweep.step();
                return true;
            }
            sweep.step();
        }
    }

    fn take(&mut self, key: &[u8], moments: &mut Vec<Time>) {
        let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.key() == Some(Bytes(key))) else { return };
        self.logic.note(key, &sweep.changes);
        sweep.moments(moments);
        sweep.step();
    }

    fn load(&mut self, key: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        let group = self.sweep.as_mut().and_then(|sweep| sweep.group(key));
        self.logic.load(group, key, moments, present);
    }

    fn values(&mut self) -> Result<Values> {
        self.logic.values()
    }

    fn close(&mut self, through: Option<Time>) {
        self.sweep = None;
        self.reading.finish(through);
    }

    fn is_pending(&self) -> bool {
        self.reading.is_pending()
    }
}

/// The moments at which a group's states are asked for: before the first one, and after each.
fn bounds(moments: &[Time]) -> impl Iterator<Item = Time> + '_ {
    std::iter::once(moments[0]).chain(moments.iter().map(|moment| moment + 1))
}

/// Reads sums out of the difference.
pub struct SumsOf {
    layout: SlotLayout,
    history: History,
    states: Vec<Sums>,
}

impl SumsOf {
    pub fn new(arrangement: &Arrangement) -> Self {
        let sums = match &arrangement.layout {
            Layout::Sums(sums) => sums.as_slice(),
            Layout::Rows => &[],
        };
        let layout = slot_layout(arrangement.input.row(), arrangement.key, sums);
        SumsOf { layout, history: History::default(), states: Vec::new() }
    }
}

impl Logic<SumBatch> for SumsOf {
    fn load(&mut self, group: Option<SumGroup<'_>>, _: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        let history = &mut self.history;
        history.clear();
        history.base = Some(self.layout.zero());
        if let Some(group) = group {
            group.map_times(|time, sums| history.add(time, moments[0], sums));
        }
        for bound in bounds(moments) {
            let sums = history.until(bound);
            present.push(sums.rows() > 0);
            self.states.push(sums.clone());
        }
    }

    fn values(&mut self) -> Result<Values> {
        Ok(Values::Sums(self.layout.clone(), std::mem::take(&mut self.states)))
    }
}

/// Reads the first row of a group in order.
///
/// Rows that are no longer there stay in the trace until it is merged, and a group that is emptied from its front (the
/// minimum of a queue) would make the way to its first row longer and longer. So where the way was long, it is
/// remembered how far nothing is; a row that comes before that takes the note away.
pub struct First {
    codec: Codec,
    /// A group's first value bytes before which nothing is.
    nothing_before: HashMap<Vec<u8>, Vec<u8>>,
    absent: Vec<u8>,
    states: ByteRows,
}

impl First {
    /// Steps over absent rows that are worth remembering.
    const LONG: usize = 16;

    pub fn new(arrangement: &Arrangement) -> Result<Self> {
        let row = arrangement.input.row();
        let absent = null_row(&row.columns[arrangement.key..])?;
        Ok(First { codec: Codec::new(row, arrangement.key)?, nothing_before: HashMap::new(), absent, states: ByteRows::default() })
    }
}

impl Logic<RowBatch> for First {
    fn note(&mut self, key: &[u8], (changes, storage): &Contents<RowBatch>) {
        let comes_before = |bound: &Vec<u8>| changes.get_val(storage).is_some_and(|value| value < Bytes(bound));
        if self.nothing_before.get(key).is_some_and(comes_before) {
            self.nothing_before.remove(key);
        }
    }

    fn load(&mut self, group: Option<Group<'_, RowBatch>>, key: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        let Some(mut group) = group else {
            for _ in bounds(moments) {
                present.push(false);
                self.states.push(&self.absent);
            }
            return;
        };
        for bound in bounds(moments) {
            group.cursor.rewind_vals(group.storage);
            if let Some(start) = self.nothing_before.get(key) {
                group.cursor.seek_val(group.storage, Bytes(start));
            }
            let mut steps = 0;
            let first = loop {
                let Some(value) = group.cursor.get_val(group.storage) else { break None };
                if group.count(bound) > 0 {
                    break Some(value);
                }
                steps += 1;
                group.cursor.step_val(group.storage);
            };
            present.push(first.is_some());
            self.states.push(first.map_or(self.absent.as_slice(), |first| first.0));
            // Only the latest state says what is nowhere: earlier ones may miss rows that come after them.
            let is_latest = Some(&(bound - 1)) == moments.last();
            if let (true, Some(first)) = (is_latest && steps > Self::LONG, first) {
                self.nothing_before.insert(key.to_vec(), first.to_vec());
            }
        }
        if present.last() == Some(&false) {
            self.nothing_before.remove(key);
        }
    }

    fn values(&mut self) -> Result<Values> {
        let states = std::mem::take(&mut self.states);
        Ok(Values::Columns(self.codec.decode_values((0..states.len()).map(|state| states.get(state)))?, vec![]))
    }
}

/// Recomputes aggregates over all rows of the group.
pub struct Recomputed {
    codec: Codec,
    /// The value columns.
    schema: SchemaRef,
    aggregates: Vec<GeneralAggregate>,
    states: Vec<Vec<ArrayRef>>,
    /// The states of which an aggregate failed, and why: those and no others.
    failed: Vec<(usize, String)>,
    /// The aggregates of nothing, which stand where one failed.
    nothing: Vec<ArrayRef>,
}

impl Recomputed {
    pub fn new(arrangement: &Arrangement, aggregates: Vec<GeneralAggregate>) -> Result<Self> {
        let codec = Codec::new(arrangement.input.row(), arrangement.key)?;
        let schema = Arc::new(Schema::new(codec.schema().fields()[arrangement.key..].to_vec()));
        let nothing = eval::aggregate(&aggregates, &RecordBatch::new_empty(Arc::clone(&schema)), &[])?;
        Ok(Recomputed { codec, schema, aggregates, states: Vec::new(), failed: Vec::new(), nothing })
    }

    fn aggregate(&self, rows: &ByteRows, counts: &[Diff]) -> Result<Vec<ArrayRef>> {
        let columns = self.codec.decode_values((0..rows.len()).map(|row| rows.get(row)))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        eval::aggregate(&self.aggregates, &batch, counts)
    }
}

impl Logic<RowBatch> for Recomputed {
    fn load(&mut self, mut group: Option<Group<'_, RowBatch>>, _: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        for bound in bounds(moments) {
            let (mut rows, mut counts) = (ByteRows::default(), Vec::new());
            if let Some(group) = &mut group {
                group.cursor.rewind_vals(group.storage);
                while let Some(value) = group.cursor.get_val(group.storage) {
                    let count = group.count(bound);
                    if count > 0 {
                        rows.push(value.0);
                        counts.push(count);
                    }
                    group.cursor.step_val(group.storage);
                }
            }
            present.push(!counts.is_empty());
            let values = self.aggregate(&rows, &counts).unwrap_or_else(|error| {
                self.failed.push((self.states.len(), error.to_string()));
                self.nothing.clone()
            });
            self.states.push(values);
        }
    }

    fn values(&mut self) -> Result<Values> {
        let states = std::mem::take(&mut self.states);
        let column = |index: usize| {
            let values: Vec<&dyn Array> = states.iter().map(|state| state[index].as_ref()).collect();
            Ok(concat(&values)?)
        };
        let columns = (0..self.aggregates.len()).map(column).collect::<Result<_>>()?;
        Ok(Values::Columns(columns, std::mem::take(&mut self.failed)))
    }
}
