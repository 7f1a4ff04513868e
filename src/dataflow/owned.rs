//! A trace with its writer, as an operator holds it that arranges.

use std::rc::Rc;

use differential_dataflow::operators::arrange::{TraceAgent, TraceWriter};
use differential_dataflow::trace::{Description, Span, Trace, TraceReader};
use timely::PartialOrder;
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::{OperatorInfo, OutputBuilderSession};
use timely::dataflow::operators::{Capability, InputCapability};
use timely::progress::frontier::AntichainRef;
use timely::progress::{Antichain, Stamp};

use super::state::{Piece, Place, Saved};
use crate::row::Time;
use crate::row::reclaim::Reclaiming;

/// Where the batches go that are written.
pub type Batches<'a, B> = OutputBuilderSession<'a, Time, NoopBuilder<Vec<Span<Time, B>>>>;

/// A trace with both of its ends, and the right to send what is written to it.
pub struct Owned<B: Saved> {
    reader: TraceAgent<Reclaiming<B>>,
    writer: TraceWriter<Reclaiming<B>>,
    capability: Option<Capability<Time>>,
    lower: Antichain<Time>,
    /// What was found in it and has not been sent.
    found: Vec<Span<Time, B>>,
}

impl<B: Saved> Owned<B> {
    /// The trace of an operator with what was found at its place, and a reader of it for others.
    pub fn new(scope: Scope<'_, Time>, info: OperatorInfo, place: &mut Place) -> (Self, TraceAgent<Reclaiming<B>>) {
        let activator = scope.activator_for(Rc::clone(&info.address));
        let (reader, mut writer) = TraceAgent::new(Reclaiming::new(info.clone(), None, Some(activator)), info, None);
        let others = reader.clone();
        let (mut lower, mut found) = (Antichain::from_elem(0), Vec::new());
        for Piece { upper, batch, .. } in std::mem::take(B::pieces(&mut place.found)) {
            let upper = Antichain::from_elem(upper);
            // Where nothing came there is no piece.
            let span =
                Span::new(Description::new(std::mem::replace(&mut lower, upper.clone()), upper, Antichain::from_elem(0)), Some(batch));
            writer.insert(span.clone(), Stamp::from_elem(0));
            found.push(span);
        }
        if PartialOrder::less_than(&lower, &Antichain::from_elem(place.begins)) {
            lower = Antichain::from_elem(place.begins);
            writer.seal(lower.clone());
        }
        (Owned { reader, writer, capability: None, lower, found }, others)
    }

    /// Takes the capability that the operator is built with.
    pub fn hold(mut self, capability: Option<Capability<Time>>) -> Self {
        self.capability = capability;
        self
    }

    /// Takes note of a message that has come.
    pub fn claim(&mut self, capability: &InputCapability<Time>) {
        let earlier = |held: &Capability<Time>| capability.least().is_some_and(|time| time < held.time());
        if self.capability.as_ref().is_none_or(earlier) {
            self.capability = capability.retain_least(0);
        }
    }

    /// Nothing waits to be written: time need not be held for it.
    pub fn release(&mut self) {
        if self.found.is_empty() {
            self.capability = None;
        }
    }

    /// The frontier up to which it is written.
    pub fn lower(&self) -> AntichainRef<'_, Time> {
        self.lower.borrow()
    }

    /// Sends on what was found, if that has not been done, and says whether there is something to write up to a frontier.
    pub fn is_behind(&mut self, frontier: AntichainRef<'_, Time>, output: &mut Batches<'_, B>) -> bool {
        if let (false, Some(capability)) = (self.found.is_empty(), &self.capability) {
            output.session_with_builder(capability).give_container(&mut self.found);
            self.found.clear();
        }
        // What comes before has been written, or found: time is not held for it, also where nothing is written for a while.
        if let (Some(lower), Some(held)) = (self.lower.elements().first(), &mut self.capability)
            && held.time() < lower
        {
            held.downgrade(lower);
        }
        PartialOrder::less_than(&self.lower.borrow(), &frontier)
    }

    /// All that is in it.
    pub fn spans(&mut self) -> Vec<Span<Time, B>> {
        let spans = self.reader.spans_through(self.lower.borrow());
        spans.expect("the operator holds back physical compaction to what it has written")
    }

    /// Writes the updates up to a frontier, and sends them on.
    pub fn seal(&mut self, upper: Antichain<Time>, batch: Option<B>, output: &mut Batches<'_, B>) {
        match (&batch, &self.capability) {
            (Some(_), Some(capability)) => {
                let span = Span::new(Description::new(self.lower.clone(), upper.clone(), Antichain::from_elem(0)), batch);
                self.writer.insert(span.clone(), Stamp::from_elem(*capability.time()));
                output.session_with_builder(capability).give_container(&mut vec![span]);
            }
            _ => self.writer.seal(upper.clone()),
        }
        match upper.elements().first() {
            Some(time) => self.capability.iter_mut().filter(|held| held.time() < time).for_each(|held| held.downgrade(time)),
            None => self.capability = None,
        }
        self.lower = upper;
        self.reader.set_logical_compaction(self.lower.borrow());
        self.reader.set_physical_compaction(self.lower.borrow());
    }

    /// Lets merges go on.
    pub fn exert(&mut self) {
        self.writer.exert();
    }
}
