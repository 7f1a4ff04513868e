//! Reading one source for one dataflow, on a thread of its own, a few batches ahead.
//!
//! A reader's rows wait in a bounded channel until the pump takes them, so a source is read no faster than the
//! dataflow takes its rows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::concat_batches;

use super::driver::Skips;
use super::runtime::{DataflowId, Rows};
use super::table::Table;
use super::watermark::Follower;
use crate::connector::{Op, Position, Read, Source, SourceBatch};
use crate::error::{Error, Result};

/// About how many rows of a source go into one step when they come fast. Larger steps cost less a row.
pub(super) const STEP_ROWS: usize = 65_536;

/// How long whoever wants a whole tick waits for more of it.
const TICK_PATIENCE: Duration = Duration::from_millis(500);

/// How many batches a reader is ahead of the pump.
const BATCHES_AHEAD: usize = 8;

enum Message {
    /// Rows, if there are any, and where what is read next begins.
    Read(Option<SourceBatch>, Position),
    End(Result<()>),
}

/// A source that is being read.
pub(super) struct Reader {
    pub dataflow: DataflowId,
    pub table: Arc<Table>,
    pub bounded: bool,
    /// By what engine time follows it, if its rows have times of their own.
    pub follower: Option<Follower>,
    /// Where that begins which has not been fed to the dataflow: under the lock of the sources, exactly that.
    pub position: Position,
    messages: Receiver<Message>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// What the pump takes from a reader at once.
#[derive(Default)]
pub(super) struct Taken {
    batches: Vec<SourceBatch>,
    rows: usize,
    /// Where it ends, if it got anywhere.
    pub position: Option<Position>,
    /// The reader has ended, and how.
    pub end: Option<Result<()>>,
}

impl Reader {
    /// Starts to read; `wake` is unparked when there is something to take.
    pub fn start(dataflow: DataflowId, table: Arc<Table>, source: Box<dyn Source>, wake: Thread, skips: Arc<Skips>) -> Result<Self> {
        let (sender, messages) = sync_channel(BATCHES_AHEAD);
        let stop = Arc::new(AtomicBool::new(false));
        let (bounded, position, name, stopped) = (source.is_bounded(), source.position(), table.name.clone(), stop.clone());
        let thread = thread::Builder::new()
            .name(format!("weir-read-{name}"))
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| read_all(source, &sender, &stopped, &wake, &skips)))
                    .unwrap_or_else(|_| Err(Error::Io(format!("source '{name}': its reader failed, which is a bug in its connector"))));
                // Nobody listens any longer to a reader that was stopped.
                let _ = sender.send(Message::End(ended));
                wake.unpark();
            })
            .map_err(|error| Error::Io(format!("cannot start a thread to read '{}': {error}", table.name)))?;
        Ok(Reader { dataflow, table, bounded, follower: None, position, messages, stop, thread })
    }

    /// Whether, under an event clock, it is read before those whose rows have times: it ends, and its rows have none.
    pub fn comes_first(&self) -> bool {
        self.bounded && self.follower.is_none()
    }

    /// What has been read, up to about [`STEP_ROWS`] rows; does not wait.
    pub fn take(&mut self) -> Taken {
        let mut taken = Taken::default();
        while taken.rows < STEP_ROWS && taken.end.is_none() {
            match self.messages.try_recv() {
                Ok(message) => taken.add(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => taken.end = Some(Ok(())),
            }
        }
        taken
    }

    /// What has been read, up to about so many rows; waits for them, unless they are long in coming.
    pub fn take_tick(&mut self, rows: usize) -> Taken {
        let mut taken = Taken::default();
        while taken.rows < rows && taken.end.is_none() {
            match self.messages.recv_timeout(TICK_PATIENCE) {
                Ok(message) => taken.add(message),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => taken.end = Some(Ok(())),
            }
        }
        taken
    }

    /// Tells the thread to end, which it does after at most one read.
    pub fn stop(self) -> JoinHandle<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
    }

    /// The rows for the dataflow, with all columns, as of an instant.
    pub fn complete(&self, taken: Taken, now: i64) -> Result<Vec<Rows>> {
        let mut fed = Vec::new();
        let mut errors: Vec<String> = taken.batches.iter().flat_map(|batch| batch.errors.iter().cloned()).collect();
        let (rows, ops) = concatenate(&self.table, &taken.batches)?;
        let completed = self.table.complete(&rows, now)?;
        let ops = match (ops, &completed.from) {
            (Some(ops), Some(from)) => Some(from.iter().map(|i| ops[*i as usize]).collect()),
            (ops, _) => ops,
        };
        errors.extend(completed.failed);
        if completed.rows.num_rows() > 0 {
            fed.push(rows_of(&self.table, completed.rows, ops));
        }
        if !errors.is_empty() {
            fed.push(Rows::Errors(errors));
        }
        Ok(fed)
    }
}

impl Taken {
    fn add(&mut self, message: Message) {
        match message {
            Message::Read(batch, position) => {
                self.rows += batch.as_ref().map_or(0, |batch| batch.rows.num_rows());
                self.batches.extend(batch);
                self.position = Some(position);
            }
            Message::End(ended) => self.end = Some(ended),
        }
    }

    /// Whether there is neither input nor the end of it.
    pub fn is_nothing(&self) -> bool {
        self.len() == 0 && self.end.is_none()
    }

    /// How many rows and undecodable inputs there are.
    pub fn len(&self) -> usize {
        self.rows + self.batches.iter().map(|batch| batch.errors.len()).sum::<usize>()
    }
}

fn read_all(mut source: Box<dyn Source>, messages: &SyncSender<Message>, stop: &AtomicBool, wake: &Thread, skips: &Skips) -> Result<()> {
    let (mut reached, mut skipped) = (source.position(), 0);
    while !stop.load(Ordering::Relaxed) {
        let read = source.read();
        let so_far = source.skipped();
        if so_far.rows > skipped {
            skips.add(skipped, &so_far);
            skipped = so_far.rows;
        }
        let (batch, ended) = match read? {
            Read::Batch(batch) => (Some(batch), false),
            Read::Idle => (None, false),
            Read::End => (None, true),
        };
        let position = source.position();
        // Also without a batch, past what was skipped.
        if batch.is_some() || position != reached {
            if messages.send(Message::Read(batch, position.clone())).is_err() {
                return Ok(());
            }
            reached = position;
            wake.unpark();
        } else if !ended {
            // For sources that do not wait themselves.
            thread::sleep(Duration::from_millis(1));
        }
        if ended {
            return Ok(());
        }
    }
    Ok(())
}

/// All rows of several batches, and what each one does; None where all are inserts.
fn concatenate(table: &Table, batches: &[SourceBatch]) -> Result<(RecordBatch, Option<Vec<Op>>)> {
    let rows = match batches {
        [one] => one.rows.clone(),
        several => concat_batches(table.physical(), several.iter().map(|batch| &batch.rows))?,
    };
    if batches.iter().all(|batch| batch.ops.is_none()) {
        return Ok((rows, None));
    }
    let mut ops = Vec::with_capacity(rows.num_rows());
    for batch in batches {
        match &batch.ops {
            Some(given) => ops.extend_from_slice(given),
            None => ops.resize(ops.len() + batch.rows.num_rows(), Op::Upsert),
        }
    }
    Ok((rows, Some(ops)))
}

/// Rows as their table takes them: by key, or each as often as it comes.
pub(super) fn rows_of(table: &Table, rows: RecordBatch, ops: Option<Vec<Op>>) -> Rows {
    let count = rows.num_rows();
    if !table.primary_key.is_empty() {
        return Rows::Ops { rows, ops: ops.unwrap_or_else(|| vec![Op::Upsert; count]) };
    }
    let sign = |op: Op| if op == Op::Upsert { 1 } else { -1 };
    let diffs = ops.map_or_else(|| vec![1; count], |ops| ops.into_iter().map(sign).collect());
    Rows::Diffs { rows, diffs }
}

/// Rows of a batch by their positions, in the order of the positions.
pub(super) fn pick(rows: &RecordBatch, positions: Vec<u32>) -> Result<RecordBatch> {
    Ok(arrow::compute::take_record_batch(rows, &UInt32Array::from(positions))?)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::ints;
    use super::*;
    use arrow::array::Int32Array;

    struct Numbers(i32, Result<()>);

    impl Source for Numbers {
        fn read(&mut self) -> Result<Read> {
            if self.0 == 0 {
                return self.1.clone().map(|()| Read::End);
            }
            self.0 -= 1;
            Ok(Read::Batch(batch(vec![self.0], None)))
        }
        fn position(&self) -> Position {
            Position::Made(self.0.unsigned_abs().into())
        }
        fn is_bounded(&self) -> bool {
            true
        }
    }

    fn batch(values: Vec<i32>, ops: Option<Vec<Op>>) -> SourceBatch {
        let rows = RecordBatch::try_new(ints(1, &["a"], &[]).physical().clone(), vec![Arc::new(Int32Array::from(values))]).unwrap();
        SourceBatch { rows, ops, errors: vec![] }
    }

    fn drain(source: Numbers) -> (usize, Result<()>) {
        let table = Arc::new(ints(1, &["a"], &[]));
        let mut reader = Reader::start(DataflowId(0), table, Box::new(source), thread::current(), Arc::default()).unwrap();
        let mut rows = 0;
        loop {
            let taken = reader.take();
            rows += taken.len();
            if let Some(end) = taken.end {
                return (rows, end);
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_reader_hands_over_every_row_and_then_how_it_ended() {
        assert_eq!(drain(Numbers(100, Ok(()))), (100, Ok(())));
        assert_eq!(drain(Numbers(3, Err(Error::Io("gone".into())))), (3, Err(Error::Io("gone".into()))));
    }

    #[test]
    fn batches_without_ops_beside_some_with_are_inserts() {
        let table = ints(1, &["a"], &[]);
        let (rows, ops) = concatenate(&table, &[batch(vec![1, 2], None), batch(vec![1], Some(vec![Op::Delete]))]).unwrap();
        assert_eq!((rows.num_rows(), ops), (3, Some(vec![Op::Upsert, Op::Upsert, Op::Delete])));
        let Rows::Diffs { diffs, .. } = rows_of(&table, rows, Some(vec![Op::Upsert, Op::Upsert, Op::Delete])) else { panic!("not diffs") };
        assert_eq!(diffs, [1, 1, -1]);
    }
}
