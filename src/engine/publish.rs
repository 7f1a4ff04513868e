//! From the changes of a step, as bytes, to what sinks and subscribers take.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::take_record_batch;

use super::Update;
use super::time;
use crate::connector::{Changes, RowKind, Sink};
use crate::dataflow::sink::Deliver;
use crate::error::{Error, Result};
use crate::plan::RowType;
use crate::row::{Codec, Diff, Time};

/// The errors that stand, by export: what is wrong with a view's rows, or with a sink's file.
#[derive(Clone, Default)]
pub struct ErrorBoard(Arc<Mutex<Standing>>);

/// Messages, by dataflow and export.
type Standing = BTreeMap<(u64, String), Vec<String>>;

impl ErrorBoard {
    /// Sets what is wrong with an export of a dataflow; nothing clears it.
    pub fn post(&self, dataflow: u64, export: &str, messages: Vec<String>) {
        let mut board = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = (dataflow, export.to_owned());
        if messages.is_empty() {
            board.remove(&place);
        } else {
            board.insert(place, messages);
        }
    }

    /// One message for each export that has errors.
    pub fn messages(&self) -> Vec<String> {
        let board = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        board.iter().map(|((_, export), messages)| format!("{export}: {}", summary(messages))).collect()
    }

    /// Takes a dataflow's errors off.
    pub fn clear(&self, dataflow: u64) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|(of, _), _| *of != dataflow);
    }
}

/// The first message, and how many more there are.
pub fn summary(messages: &[String]) -> String {
    match messages {
        [] => String::new(),
        [one] => one.clone(),
        [first, more @ ..] => format!("{first} (and {} more)", more.len()),
    }
}

/// Where an export's errors are posted.
pub struct Post {
    pub board: ErrorBoard,
    pub dataflow: u64,
    pub export: String,
}

impl Post {
    fn errors(&self, errors: &BTreeMap<String, Diff>) {
        self.board.post(self.dataflow, &self.export, errors.keys().cloned().collect());
    }
}

/// Watches a view's errors and nothing else.
pub struct Watch(pub Post);

impl Deliver for Watch {
    fn step(&mut self, _: Time, _: &[(&[u8], Diff)]) {}

    fn errors(&mut self, errors: &BTreeMap<String, Diff>) {
        self.0.errors(errors);
    }

    fn complete(&mut self, _: Option<Time>) {}
}

/// Publishes changes to a sink.
pub struct Publish {
    sink: Box<dyn Sink>,
    order: Order,
    post: Post,
    dirty: bool,
    failed: bool,
}

impl Publish {
    pub fn new(row: &RowType, key: Vec<usize>, sink: Box<dyn Sink>, post: Post) -> Result<Self> {
        Ok(Publish { sink, order: Order::new(row, key)?, post, dirty: false, failed: false })
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result
            && !self.failed
        {
            self.failed = true;
            self.post.board.post(self.post.dataflow, &self.post.export, vec![error.to_string()]);
        }
    }
}

impl Deliver for Publish {
    fn step(&mut self, time: Time, rows: &[(&[u8], Diff)]) {
        if self.failed {
            return;
        }
        let result = self.order.changes(time, rows).and_then(|changes| self.sink.write(&changes));
        self.dirty = true;
        self.note(result);
    }

    fn errors(&mut self, errors: &BTreeMap<String, Diff>) {
        if !self.failed {
            self.post.errors(errors);
        }
    }

    fn complete(&mut self, _: Option<Time>) {
        if std::mem::take(&mut self.dirty) {
            let result = self.sink.flush();
            self.note(result);
        }
    }
}

/// Sends changes to a subscriber.
pub struct Send {
    codec: Codec,
    to: Sender<Result<Update>>,
    post: Post,
}

impl Send {
    pub fn new(row: &RowType, to: Sender<Result<Update>>, post: Post) -> Result<Self> {
        Ok(Send { codec: Codec::new(row, 0)?, to, post })
    }
}

impl Deliver for Send {
    fn step(&mut self, time: Time, rows: &[(&[u8], Diff)]) {
        let decoded = self.codec.decode(rows.iter().map(|(row, _)| *row));
        let update = decoded.map(|batch| Update { at: time::ms(time), rows: batch, diffs: rows.iter().map(|(_, diff)| *diff).collect() });
        // A subscriber that is gone is no error: its dataflow is about to be taken down.
        let _gone = self.to.send(update);
    }

    fn errors(&mut self, errors: &BTreeMap<String, Diff>) {
        self.post.errors(errors);
        if !errors.is_empty() {
            let messages: Vec<String> = errors.keys().cloned().collect();
            let _gone = self.to.send(Err(Error::Data(format!("{}: {}", self.post.export, summary(&messages)))));
        }
    }

    fn complete(&mut self, _: Option<Time>) {}
}

/// The order in which a step's changes are published: by key, a key's removal before its insertion; without a key,
/// removals first.
struct Order {
    codec: Codec,
    key: Vec<usize>,
    key_codec: Codec,
}

impl Order {
    fn new(row: &RowType, key: Vec<usize>) -> Result<Self> {
        let key_row = RowType::new(key.iter().map(|column| row.columns[*column].clone()));
        Ok(Order { codec: Codec::new(row, 0)?, key_codec: Codec::new(&key_row, key.len())?, key })
    }

    fn changes(&self, time: Time, rows: &[(&[u8], Diff)]) -> Result<Changes> {
        let batch = self.codec.decode(rows.iter().map(|(row, _)| *row))?;
        if self.key.is_empty() && rows.iter().all(|(_, diff)| *diff == 1) {
            // They are in order.
            return Ok(Changes { at: time::ms(time), rows: batch, kinds: vec![RowKind::Insert; rows.len()] });
        }
        let keys: Vec<ArrayRef> = self.key.iter().map(|column| batch.column(*column).clone()).collect();
        let keys = self.key_codec.encode_keys(&keys)?;
        let key = |index: usize| keys.as_ref().map_or(&[][..], |keys| keys.row(index).data());
        let removal_first = |index: usize| rows[index].1 > 0;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| (key(*a), removal_first(*a), rows[*a].0).cmp(&(key(*b), removal_first(*b), rows[*b].0)));

        let (mut indices, mut kinds) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        let keyed = keys.is_some();
        for group in order.chunk_by(|a, b| keyed && key(*a) == key(*b)) {
            let is_update = matches!(group, [out, into] if keyed && rows[*out].1 == -1 && rows[*into].1 == 1);
            for index in group {
                let kind = match (rows[*index].1 > 0, is_update) {
                    (true, false) => RowKind::Insert,
                    (true, true) => RowKind::UpdateAfter,
                    (false, true) => RowKind::UpdateBefore,
                    (false, false) => RowKind::Delete,
                };
                for _ in 0..rows[*index].1.abs() {
                    indices.push(*index as u64);
                    kinds.push(kind);
                }
            }
        }
        let rows: RecordBatch = take_record_batch(&batch, &UInt64Array::from(indices))?;
        Ok(Changes { at: time::ms(time), rows, kinds })
    }
}
