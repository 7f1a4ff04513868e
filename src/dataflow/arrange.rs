//! Arranging collections, and reading arrangements.
//!
//! Times are totally ordered, which makes reading simple. An operator that reads a trace keeps the trace's logical
//! compaction *one before* its own frontier: whatever it has worked off then bears a time before its frontier, and
//! what is still to do bears a time at or after it, so one cursor over everything answers both "what was" (times
//! before `t`) and "what is" (times up to `t`).
//!
//! A dataflow begins `as_of` a time: what an imported trace holds from before is one initial step at that time.

use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::cursor::cursor_list;
use differential_dataflow::trace::{Cursor, Navigable, Span, TraceReader};
use timely::PartialOrder;
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::{DistributorPact, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::{Operator, OutputBuilder, OutputBuilderSession};
use timely::dataflow::operators::{Capability, InputCapability};
use timely::dataflow::{Scope, Stream};
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

use super::owned::{Batches, Owned};
use super::state::{Saved, States};
use super::sweep::{Keyed, Sweep};
use crate::row::reclaim::Reclaiming;
use crate::row::spine::{Pending, RowTrace, Sealable, SumTrace};
use crate::row::{ByKey, SumUpdates, Time, Updates, UpdatesBuilder};

/// An output of an operator that builds its own containers.
pub type Output = OutputBuilder<Time, NoopBuilder<Updates>>;

/// Arranges rows by their keys, each on the worker that its key hashes to.
pub fn arrange_rows<'s>(stream: Stream<'s, Time, Updates>, name: &str, states: &mut States) -> Arranged<'s, RowTrace> {
    match peers(stream.scope()) {
        1 => arrange_core(stream, Pipeline, name, states),
        _ => arrange_core(stream, DistributorPact(ByKey::<Updates>::new as fn(usize) -> ByKey<Updates>), name, states),
    }
}

/// Arranges partial sums by their keys, each on the worker that its key hashes to.
pub fn arrange_sums<'s>(stream: Stream<'s, Time, SumUpdates>, name: &str, states: &mut States) -> Arranged<'s, SumTrace> {
    match peers(stream.scope()) {
        1 => arrange_core(stream, Pipeline, name, states),
        _ => arrange_core(stream, DistributorPact(ByKey::<SumUpdates>::new as fn(usize) -> ByKey<SumUpdates>), name, states),
    }
}

/// An arrangement's stream and its trace, of batches that are made of such containers.
pub type ArrangedAs<'s, C> = Arranged<'s, TraceAgent<Reclaiming<<C as Sealable>::Batch>>>;

fn arrange_core<'s, C, P>(stream: Stream<'s, Time, C>, pact: P, name: &str, states: &mut States) -> ArrangedAs<'s, C>
where
    C: Sealable<Batch: Saved> + timely::Container + Clone,
    P: ParallelizationContract<Time, C>,
{
    let scope = stream.scope();
    let mut place = states.place(name);
    let id = place.id();
    let mut trace = None;
    let trace_out = &mut trace;
    let stream = stream.unary_frontier(pact, name, move |capability, info| {
        let (owned, others) = Owned::new(scope, info, &mut place);
        *trace_out = Some(others);
        let mut owned = owned.hold(Some(capability));
        let mut pending = Pending::<C>::since(place.begins);
        move |(input, frontier), output: &mut Batches<'_, C::Batch>| {
            input.for_each(|capability, updates| {
                owned.claim(&capability);
                pending.push(std::mem::take(updates));
            });
            if owned.is_behind(frontier.frontier(), output) {
                let batch = pending.seal(frontier.frontier()).build();
                owned.seal(frontier.frontier().to_owned(), batch, output);
            }
            if pending.is_empty() {
                owned.release();
            }
            owned.exert();
        }
    });
    let arranged = Arranged { stream, trace: trace.expect("the operator's constructor has run") };
    states.keep_trace(id, &arranged.trace);
    arranged
}

/// How many workers there are.
pub fn peers(scope: Scope<'_, Time>) -> usize {
    scope.worker().peers()
}

/// An arrangement's batches as a stream of updates, none earlier than `as_of`.
pub fn flatten<'s>(arranged: Arranged<'s, RowTrace>, name: &str, as_of: Time) -> Stream<'s, Time, Updates> {
    arranged.stream.unary(Pipeline, name, move |_, _| {
        move |input, output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            input.for_each(|capability, spans| {
                let mut updates = UpdatesBuilder::default();
                for batch in spans.drain(..).filter_map(|span| span.inner) {
                    let mut cursor = batch.cursor();
                    while let Some(key) = cursor.get_key(&batch) {
                        while let Some(value) = cursor.get_val(&batch) {
                            cursor.map_times(&batch, |time, diff| updates.push(key.0, &[value.0], as_of.max(*time), *diff));
                            cursor.step_val(&batch);
                        }
                        cursor.step_key(&batch);
                    }
                }
                give_all(updates, output, &capability);
            });
        }
    })
}

/// The keys of an arrangement, each whenever it is written to.
pub fn written<'s, B: Keyed>(arranged: Arranged<'s, TraceAgent<Reclaiming<B>>>, as_of: Time) -> Stream<'s, Time, Updates> {
    arranged.stream.unary(Pipeline, "Written keys", move |_, _| {
        move |input, output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            input.for_each(|capability, spans| {
                let mut updates = UpdatesBuilder::default();
                for batch in spans.drain(..).filter_map(|span| span.inner) {
                    let mut cursor = batch.cursor();
                    while let Some(key) = cursor.get_key(&batch) {
                        while cursor.val_valid(&batch) {
                            cursor.map_times(&batch, |time, _| updates.push(key.0, &[], as_of.max(*time), 1));
                            cursor.step_val(&batch);
                        }
                        cursor.step_key(&batch);
                    }
                }
                give_all(updates, output, &capability);
            });
        }
    })
}

/// Sends everything that a builder holds.
pub fn give_all<C: timely::dataflow::operators::CapabilityTrait<Time>>(
    mut updates: UpdatesBuilder,
    output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>,
    capability: &C,
) {
    use timely::container::ContainerBuilder;
    let mut session = output.session_with_builder(capability);
    while let Some(container) = updates.finish() {
        session.give_container(container);
    }
}

/// The right to send at each of an operator's outputs, from the earliest time at which something is pending.
pub struct Held {
    outputs: usize,
    capabilities: Vec<Capability<Time>>,
}

impl Held {
    /// Holds nothing yet, for this many outputs.
    pub fn new(outputs: usize) -> Self {
        Held { outputs, capabilities: Vec::new() }
    }

    /// Takes note of a message that has come.
    pub fn hold(&mut self, capability: &InputCapability<Time>) {
        let earlier = |held: &Capability<Time>| capability.least().is_some_and(|time| time < held.time());
        if self.capabilities.first().is_none_or(earlier) {
            self.capabilities = (0..self.outputs).filter_map(|port| capability.retain_least(port)).collect();
        }
    }

    /// Takes note of the capabilities that an operator is built with.
    pub fn hold_all(&mut self, capabilities: Vec<Capability<Time>>) {
        self.capabilities = capabilities;
    }

    /// Sends updates at an output.
    pub fn send(&self, port: usize, updates: UpdatesBuilder, output: &mut Output) {
        if let Some(capability) = self.capabilities.get(port) {
            give_all(updates, &mut output.activate(), capability);
        }
    }

    /// Everything before `through` has been sent; None says that nothing is pending.
    pub fn downgrade(&mut self, through: Option<Time>) {
        match through {
            Some(through) => self.capabilities.iter_mut().filter(|c| *c.time() < through).for_each(|c| c.downgrade(&through)),
            None => self.capabilities.clear(),
        }
    }
}

/// An arrangement as an operator reads it: the trace, and the batches that have come and are not worked off.
pub struct Reading<B: Keyed> {
    trace: TraceAgent<Reclaiming<B>>,
    /// The upper bound of what has come.
    received: Antichain<Time>,
    pending: Vec<Span<Time, B>>,
    /// The time before which all has been worked off.
    done: Time,
    as_of: Time,
}

impl<B: Keyed> Reading<B> {
    /// Reads a trace from its beginning; what it holds from before `as_of` is of that time.
    pub fn new(trace: TraceAgent<Reclaiming<B>>, as_of: Time) -> Self {
        Reading { trace, received: Antichain::from_elem(0), pending: Vec::new(), done: 0, as_of }
    }

    /// Takes note of batches.
    pub fn receive(&mut self, spans: &mut Vec<Span<Time, B>>) {
        for span in spans.drain(..) {
            if PartialOrder::less_equal(&self.received, span.upper()) {
                self.received.clone_from(span.upper());
            }
            if span.has_updates() {
                self.pending.push(span);
            }
        }
    }

    /// Takes note of how far the batches have come, those included that are not sent because they have no updates.
    pub fn follow(&mut self, frontier: AntichainRef<'_, Time>) {
        let received = &mut self.received;
        // Where batches meet: the trace can be read up to there. It may have merged some that have come one by one.
        self.trace.map_spans(|span| {
            if PartialOrder::less_equal(&span.upper().borrow(), &frontier) && PartialOrder::less_equal(received, span.upper()) {
                received.clone_from(span.upper());
            }
        });
    }

    /// Whether batches are waiting.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The time before which all has come; None once nothing more will. What is there from the beginning has come as a
    /// whole when this is past it.
    pub fn received(&self) -> Option<Time> {
        self.received.elements().first().copied()
    }

    /// Whether batches are waiting and can all be worked off.
    pub fn is_ready(&self) -> bool {
        self.is_pending() && self.received().is_none_or(|received| received > self.as_of)
    }

    /// Begins to work off what is waiting and happens before `through`.
    pub fn sweep(&mut self, through: Option<Time>) -> Sweep<B> {
        let ends_at_beginning = |span: &Span<Time, B>| span.upper().elements().first().is_some_and(|upper| *upper <= self.as_of + 1);
        let contents = self.trace.spans_through(self.received.borrow());
        Sweep {
            as_of: self.as_of,
            initial: self.pending.iter().all(ends_at_beginning),
            from: self.done,
            through,
            changes: cursor_list(self.pending.iter().filter_map(|span| span.inner.clone()).collect()),
            contents: B::contents(&self.pending, contents.expect("an operator holds back physical compaction to what it has received")),
        }
    }

    /// All before `through` has been worked off (None: all there will be): the trace may forget the difference between
    /// times before it. Returns whether something is left for later.
    pub fn finish(&mut self, through: Option<Time>) -> bool {
        match through {
            // What is there from the beginning has not come as a whole.
            Some(through) if through <= self.as_of => {}
            Some(through) => {
                self.done = through;
                self.pending.retain(|span| span.upper().elements().first().is_none_or(|upper| *upper > through));
                let since = Antichain::from_elem(through - 1);
                self.trace.set_logical_compaction(since.borrow());
                self.trace.set_physical_compaction(self.received.borrow());
            }
            None => {
                self.pending.clear();
                self.trace.set_logical_compaction(Antichain::new().borrow());
                self.trace.set_physical_compaction(Antichain::new().borrow());
            }
        }
        self.is_pending()
    }
}
