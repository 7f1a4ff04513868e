//! What a reduction reads from each of its arrangements.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use differential_dataflow::trace::cursor::CursorList;
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::spine_fueled::SpineBatch;
use differential_dataflow::trace::{Cursor, Navigable, Span};
use timely::communication::Pull;
use timely::dataflow::channels::Message;
use timely::dataflow::operators::generic::InputHandleCore;

use super::finish::Values;
use super::{Changed, PartReader};
use crate::dataflow::accumulate::{History, slot_layout};
use crate::dataflow::arrange::{Held, Reading};
use crate::error::Result;
use crate::eval;
use crate::plan::{Arrangement, GeneralAggregate, Layout};
use crate::row::spine::{RowBatch, RowTrace, SumBatch, SumTrace};
use crate::row::{ByteRows, Bytes, Codec, Diff, SlotLayout, Sums, Time, null_row};

/// An input of the operator that delivers an arrangement's batches.
type Input<B, P> = InputHandleCore<Time, Vec<Span<Time, B>>, P>;
type Contents<B> = Option<(CursorList<<B as Navigable>::Cursor>, Vec<B>)>;

/// The pulling end of an arrangement's batches.
pub trait Batches<B>: Pull<Message<Time, Vec<Span<Time, B>>>> + 'static {}
impl<B, P: Pull<Message<Time, Vec<Span<Time, B>>>> + 'static> Batches<B> for P {}

/// The part of every part: its input, its trace and its cursor.
struct Source<B: SpineBatch + Navigable + Clone + 'static, P: Batches<B>> {
    reading: Reading<B>,
    input: Input<B, P>,
    contents: Contents<B>,
}

impl<B, P> Source<B, P>
where
    B: SpineBatch<Time = Time> + Navigable + Clone + 'static,
    B::Cursor: for<'a> Cursor<Time = Time, Key<'a> = Bytes<'a>, TimeGat<'a> = &'a Time>,
    P: Batches<B>,
{
    fn receive(&mut self, held: &mut Held) {
        let reading = &mut self.reading;
        self.input.for_each(|capability, spans| {
            held.hold(&capability);
            reading.receive(spans);
        });
    }

    fn changed(&self, frontier: Option<Time>, into: &mut Changed) {
        let (mut cursor, storage) = self.reading.changes();
        let beginning = self.reading.is_initial().then(|| self.reading.effective(0));
        let mut times = Vec::new();
        while let Some(key) = cursor.get_key(&storage) {
            if let Some(beginning) = beginning {
                if self.reading.is_new(beginning, frontier) {
                    into.push(key.0, beginning);
                }
                cursor.step_key(&storage);
                continue;
            }
            times.clear();
            while cursor.val_valid(&storage) {
                cursor.map_times(&storage, |time, _| {
                    let time = self.reading.effective(*time);
                    if self.reading.is_new(time, frontier) {
                        times.push(time);
                    }
                });
                cursor.step_val(&storage);
            }
            times.sort_unstable();
            times.dedup();
            times.iter().for_each(|time| into.push(key.0, *time));
            cursor.step_key(&storage);
        }
    }

    /// The cursor, if it stands at the key.
    fn seek(&mut self, key: &[u8]) -> Option<(&mut CursorList<B::Cursor>, &Vec<B>)> {
        let (cursor, storage) = self.contents.as_mut()?;
        let key = Bytes(key);
        cursor.seek_key(storage, key);
        (cursor.get_key(storage) == Some(key)).then_some((cursor, &*storage))
    }

    fn open(&mut self) {
        self.contents = Some(self.reading.contents());
    }

    fn close(&mut self, frontier: Option<Time>) {
        self.contents = None;
        self.reading.finish(frontier);
    }
}

/// The moments at which a group's states are asked for: before the first one, and after each.
fn bounds(moments: &[Time]) -> impl Iterator<Item = Time> + '_ {
    std::iter::once(moments[0]).chain(moments.iter().map(|moment| moment + 1))
}

/// Reads sums out of the difference.
pub struct SumsPart<P: Batches<SumBatch>> {
    source: Source<SumBatch, P>,
    layout: SlotLayout,
    history: History,
    states: Vec<Sums>,
}

impl<P: Batches<SumBatch>> SumsPart<P> {
    pub fn new(arrangement: &Arrangement, trace: SumTrace, as_of: Time, input: Input<SumBatch, P>) -> Result<Self> {
        let sums = match &arrangement.layout {
            Layout::Sums(sums) => sums.as_slice(),
            Layout::Rows => &[],
        };
        Ok(SumsPart {
            source: Source { reading: Reading::new(trace, as_of), input, contents: None },
            layout: slot_layout(arrangement.input.row(), arrangement.key, sums),
            history: History::default(),
            states: Vec::new(),
        })
    }
}

impl<P: Batches<SumBatch>> PartReader for SumsPart<P> {
    fn receive(&mut self, held: &mut Held) {
        self.source.receive(held);
    }

    fn changed(&self, frontier: Option<Time>, into: &mut Changed) {
        self.source.changed(frontier, into);
    }

    fn open(&mut self) {
        self.source.open();
    }

    fn load(&mut self, key: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        self.history.clear();
        self.history.base = Some(self.layout.zero());
        let (as_of, history) = (self.source.reading.effective(0), &mut self.history);
        if let Some((cursor, storage)) = self.source.seek(key) {
            cursor.map_times(storage, |time, sums| history.add(as_of.max(*time), moments[0], sums));
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

    fn close(&mut self, frontier: Option<Time>) {
        self.source.close(frontier);
    }

    fn is_pending(&self) -> bool {
        self.source.reading.is_pending()
    }
}

/// Reads the first row of a group in order.
///
/// Rows that are no longer there stay in the trace until it is merged, and a group that is emptied from its front (the
/// minimum of a queue) would make the way to its first row longer and longer. So where the way was long, it is
/// remembered how far nothing is; a row that comes before that takes the note away.
pub struct FirstPart<P: Batches<RowBatch>> {
    source: Source<RowBatch, P>,
    codec: Codec,
    /// A group's first value bytes before which nothing is.
    nothing_before: HashMap<Vec<u8>, Vec<u8>>,
    absent: Vec<u8>,
    states: ByteRows,
}

impl<P: Batches<RowBatch>> FirstPart<P> {
    /// Steps over absent rows that are worth remembering.
    const LONG: usize = 16;

    pub fn new(arrangement: &Arrangement, trace: RowTrace, as_of: Time, input: Input<RowBatch, P>) -> Result<Self> {
        let row = arrangement.input.row();
        Ok(FirstPart {
            source: Source { reading: Reading::new(trace, as_of), input, contents: None },
            codec: Codec::new(row, arrangement.key)?,
            nothing_before: HashMap::new(),
            absent: null_row(&row.columns[arrangement.key..])?,
            states: ByteRows::default(),
        })
    }
}

impl<P: Batches<RowBatch>> PartReader for FirstPart<P> {
    fn receive(&mut self, held: &mut Held) {
        self.source.receive(held);
    }

    fn changed(&self, frontier: Option<Time>, into: &mut Changed) {
        self.source.changed(frontier, into);
    }

    fn open(&mut self) {
        let (mut changes, storage) = self.source.reading.changes();
        if !self.nothing_before.is_empty() {
            while let Some(key) = changes.get_key(&storage) {
                if self.nothing_before.get(key.0).is_some_and(|bound| changes.get_val(&storage).is_some_and(|value| value < Bytes(bound))) {
                    self.nothing_before.remove(key.0);
                }
                changes.step_key(&storage);
            }
        }
        self.source.open();
    }

    fn load(&mut self, key: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        let as_of = self.source.reading.effective(0);
        let Some((cursor, storage)) = self.source.seek(key) else {
            for _ in bounds(moments) {
                present.push(false);
                self.states.push(&self.absent);
            }
            return;
        };
        for bound in bounds(moments) {
            cursor.rewind_vals(storage);
            if let Some(start) = self.nothing_before.get(key) {
                cursor.seek_val(storage, Bytes(start));
            }
            let mut steps = 0;
            let first = loop {
                let Some(value) = cursor.get_val(storage) else { break None };
                let mut count: Diff = 0;
                cursor.map_times(storage, |time, diff| {
                    if as_of.max(*time) < bound {
                        count += diff;
                    }
                });
                if count > 0 {
                    break Some(value);
                }
                steps += 1;
                cursor.step_val(storage);
            };
            present.push(first.is_some());
            self.states.push(first.map_or(self.absent.as_slice(), |first| first.0));
            // Only the latest state says what is nowhere: earlier ones may miss rows that come after them.
            if let (true, Some(first)) = (steps > Self::LONG && Some(&(bound - 1)) == moments.last(), first) {
                self.nothing_before.insert(key.to_vec(), first.to_vec());
            }
        }
        if present.last() == Some(&false) {
            self.nothing_before.remove(key);
        }
    }

    fn values(&mut self) -> Result<Values> {
        let states = std::mem::take(&mut self.states);
        Ok(Values::Columns(self.codec.decode_values((0..states.len()).map(|state| states.get(state)))?))
    }

    fn close(&mut self, frontier: Option<Time>) {
        self.source.close(frontier);
    }

    fn is_pending(&self) -> bool {
        self.source.reading.is_pending()
    }
}

/// Recomputes aggregates over all rows of the group.
pub struct GeneralPart<P: Batches<RowBatch>> {
    source: Source<RowBatch, P>,
    codec: Codec,
    key: usize,
    aggregates: Vec<GeneralAggregate>,
    states: Vec<Vec<ArrayRef>>,
    failed: Option<crate::error::Error>,
}

impl<P: Batches<RowBatch>> GeneralPart<P> {
    pub fn new(
        arrangement: &Arrangement,
        aggregates: Vec<GeneralAggregate>,
        trace: RowTrace,
        as_of: Time,
        input: Input<RowBatch, P>,
    ) -> Result<Self> {
        Ok(GeneralPart {
            source: Source { reading: Reading::new(trace, as_of), input, contents: None },
            codec: Codec::new(arrangement.input.row(), arrangement.key)?,
            key: arrangement.key,
            aggregates,
            states: Vec::new(),
            failed: None,
        })
    }
}

impl<P: Batches<RowBatch>> PartReader for GeneralPart<P> {
    fn receive(&mut self, held: &mut Held) {
        self.source.receive(held);
    }

    fn changed(&self, frontier: Option<Time>, into: &mut Changed) {
        self.source.changed(frontier, into);
    }

    fn open(&mut self) {
        self.source.open();
    }

    fn load(&mut self, key: &[u8], moments: &[Time], present: &mut Vec<bool>) {
        let as_of = self.source.reading.effective(0);
        for bound in bounds(moments) {
            let (mut rows, mut counts) = (ByteRows::default(), Vec::new());
            if let Some((cursor, storage)) = self.source.seek(key) {
                cursor.rewind_vals(storage);
                while let Some(value) = cursor.get_val(storage) {
                    let mut count: Diff = 0;
                    cursor.map_times(storage, |time, diff| {
                        if as_of.max(*time) < bound {
                            count += diff;
                        }
                    });
                    if count > 0 {
                        rows.push(value.0);
                        counts.push(count);
                    }
                    cursor.step_val(storage);
                }
            }
            present.push(!counts.is_empty());
            match self.aggregate(&rows, &counts) {
                Ok(values) => self.states.push(values),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn values(&mut self) -> Result<Values> {
        let states = std::mem::take(&mut self.states);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let column = |index: usize| {
            let values: Vec<&dyn arrow::array::Array> = states.iter().map(|state| state[index].as_ref()).collect();
            Ok(arrow::compute::concat(&values)?)
        };
        Ok(Values::Columns((0..self.aggregates.len()).map(column).collect::<Result<_>>()?))
    }

    fn close(&mut self, frontier: Option<Time>) {
        self.source.close(frontier);
    }

    fn is_pending(&self) -> bool {
        self.source.reading.is_pending()
    }
}

impl<P: Batches<RowBatch>> GeneralPart<P> {
    fn aggregate(&self, rows: &ByteRows, counts: &[Diff]) -> Result<Vec<ArrayRef>> {
        let columns = self.codec.decode_values((0..rows.len()).map(|row| rows.get(row)))?;
        let fields: Vec<_> = self.codec.schema().fields()[self.key..].to_vec();
        let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(fields));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = arrow::array::RecordBatch::try_new_with_options(schema, columns, &options)?;
        eval::aggregate(&self.aggregates, &batch, counts)
    }
}
