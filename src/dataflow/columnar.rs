//! Linear operators: Arrow columns in, evaluated at once, and out again.
//!
//! A tick's rows come as columns from a source ([`ColumnBatch`]), or as bytes from another operator and are decoded.
//! What comes out is encoded as rows ([`Encode`]) or, where the consumer keeps nothing but sums, added up right here
//! ([`Accumulate`](super::accumulate::Accumulate)): in both cases a whole chain of filters and projections is one
//! decode and one encode.

use arrow::array::RecordBatch;
use timely::Container;
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::arrange::{Output, give_all};
use crate::error::Result;
use crate::eval;
use crate::plan::{Node, Plan, Step};
use crate::row::{Codec, Diff, Time, Updates, UpdatesBuilder};

/// Rows of a source on their way in.
#[derive(Clone)]
pub struct ColumnBatch {
    pub rows: RecordBatch,
    pub times: Times,
    /// One a row; None where each row is there once.
    pub diffs: Option<std::sync::Arc<[Diff]>>,
}

/// When rows happen, none of them before the time at which they are sent.
#[derive(Debug, Clone)]
pub enum Times {
    /// All at once.
    At(Time),
    /// Each at its own time.
    Each(std::sync::Arc<[Time]>),
}

impl Times {
    fn of(&self, row: usize) -> Time {
        match self {
            Times::At(time) => *time,
            Times::Each(times) => times[row],
        }
    }
}

/// Where a linear operator's rows come from.
pub enum Feed<'s> {
    Columns(Stream<'s, Time, Vec<ColumnBatch>>),
    Rows(Stream<'s, Time, Updates>, Codec),
}

/// What is made of the columns in the end.
pub trait Consume: 'static {
    type Output: Container + Clone;
    /// Takes rows in; `at` gives the time and diff of each. What cannot be taken is an error.
    fn consume(&mut self, rows: &RecordBatch, at: &dyn Fn(usize) -> (Time, Diff)) -> Result<()>;
    /// Hands out what has been made.
    fn produce(&mut self) -> Vec<Self::Output>;
}

/// Encodes rows.
pub struct Encode {
    pub codec: Codec,
    pub made: Vec<Updates>,
}

impl Consume for Encode {
    type Output = Updates;

    fn consume(&mut self, rows: &RecordBatch, at: &dyn Fn(usize) -> (Time, Diff)) -> Result<()> {
        let made = &mut self.made;
        self.codec.encode(rows, at, |updates| made.push(updates))
    }

    fn produce(&mut self) -> Vec<Updates> {
        std::mem::take(&mut self.made)
    }
}

/// Runs a chain of steps (those of `linear`, or none) over a feed. Gives what the consumer makes, and errors.
pub fn columnar<'s, C: Consume>(
    feed: Feed<'s>,
    linear: Option<Plan>,
    name: &str,
    consumer: C,
) -> (Stream<'s, Time, C::Output>, Stream<'s, Time, Updates>) {
    let worker = Worker { linear, consumer, errors: UpdatesBuilder::default() };
    match feed {
        Feed::Columns(stream) => operator(stream, name, worker, |batches: &mut Vec<ColumnBatch>, worker| {
            for batch in batches.drain(..) {
                let diffs = batch.diffs.as_deref();
                worker.run(&batch.rows, &|row| (batch.times.of(row), diffs.map_or(1, |diffs| diffs[row])));
            }
        }),
        Feed::Rows(stream, codec) => operator(stream, name, worker, move |updates: &mut Updates, worker| {
            let rows: Vec<&[u8]> = (0..updates.len()).map(|index| updates.row(index)).collect();
            match codec.decode(rows.into_iter()) {
                Ok(rows) => worker.run(&rows, &|row| (updates.time(row), updates.diff(row))),
                Err(error) => worker.fail_all(&error.to_string(), updates.len(), &|row| (updates.time(row), updates.diff(row))),
            }
        }),
    }
}

struct Worker<C> {
    linear: Option<Plan>,
    consumer: C,
    errors: UpdatesBuilder,
}

impl<C: Consume> Worker<C> {
    fn run(&mut self, rows: &RecordBatch, at: &dyn Fn(usize) -> (Time, Diff)) {
        let steps: &[Step] = match self.linear.as_ref().map(Plan::node) {
            Some(Node::Linear { steps, .. }) => steps,
            _ => &[],
        };
        if steps.is_empty() {
            if let Err(error) = self.consumer.consume(rows, at) {
                self.fail_all(&error.to_string(), rows.num_rows(), at);
            }
            return;
        }
        let evaluated = eval::run_steps(steps, rows);
        for (row, message) in &evaluated.failed {
            let (time, diff) = at(*row as usize);
            self.errors.push(message.as_bytes(), &[], time, diff);
        }
        let result = match &evaluated.from {
            Some(from) => self.consumer.consume(&evaluated.rows, &|row| at(from[row] as usize)),
            None => self.consumer.consume(&evaluated.rows, at),
        };
        if let Err(error) = result {
            self.fail_all(&error.to_string(), rows.num_rows(), at);
        }
    }

    fn fail_all(&mut self, message: &str, rows: usize, at: &dyn Fn(usize) -> (Time, Diff)) {
        for row in 0..rows {
            let (time, diff) = at(row);
            self.errors.push(message.as_bytes(), &[], time, diff);
        }
    }
}

fn operator<'s, I: Container + Clone, C: Consume>(
    stream: Stream<'s, Time, I>,
    name: &str,
    mut worker: Worker<C>,
    mut take: impl FnMut(&mut I, &mut Worker<C>) + 'static,
) -> (Stream<'s, Time, C::Output>, Stream<'s, Time, Updates>) {
    let mut builder = OperatorBuilder::new(name.to_owned(), stream.scope());
    let mut input = builder.new_input(stream, Pipeline);
    let (output, made) = builder.new_output();
    let (error_output, errors) = builder.new_output();
    builder.build(move |_| {
        let mut output: OutputBuilder<Time, NoopBuilder<C::Output>> = OutputBuilder::from(output);
        let mut error_output = Output::from(error_output);
        move |_| {
            let mut output = output.activate();
            let mut error_output = error_output.activate();
            input.for_each(|capability, container| {
                take(container, &mut worker);
                let (Some(rows_at), Some(errors_at)) = (capability.retain_least(0), capability.retain_least(1)) else { return };
                let mut session = output.session_with_builder(&rows_at);
                for mut container in worker.consumer.produce() {
                    session.give_container(&mut container);
                }
                give_all(std::mem::take(&mut worker.errors), &mut error_output, &errors_at);
            });
        }
    });
    (made, errors)
}
