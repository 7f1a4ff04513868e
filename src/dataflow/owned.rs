//! A trace that an operator makes by itself, since it looks into it to know what to write.

use std::rc::Rc;

use differential_dataflow::operators::arrange::{TraceAgent, TraceWriter};
use differential_dataflow::trace::{Description, Span, Trace, TraceReader};
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::{OperatorInfo, OutputBuilderSession};
use timely::progress::frontier::AntichainRef;
use timely::progress::{Antichain, Stamp};

use crate::row::Time;
use crate::row::reclaim::{Reclaim, Reclaiming};

/// Where the batches go that are written.
pub type Batches<'a, B> = OutputBuilderSession<'a, Time, NoopBuilder<Vec<Span<Time, B>>>>;

/// A trace with both of its ends, and the right to send what is written to it.
pub struct Owned<B: Reclaim> {
    reader: TraceAgent<Reclaiming<B>>,
    writer: TraceWriter<Reclaiming<B>>,
    capability: Option<Capability<Time>>,
    lower: Antichain<Time>,
}

impl<B: Reclaim> Owned<B> {
    /// The empty trace of an operator, and a reader of it for others.
    pub fn new(scope: Scope<'_, Time>, info: OperatorInfo) -> (Self, TraceAgent<Reclaiming<B>>) {
        let activator = scope.activator_for(Rc::clone(&info.address));
        let (reader, writer) = TraceAgent::new(Reclaiming::new(info.clone(), None, Some(activator)), info, None);
        let others = reader.clone();
        (Owned { reader, writer, capability: None, lower: Antichain::from_elem(0) }, others)
    }

    /// Takes the capability that the operator is built with.
    pub fn hold(mut self, capability: Option<Capability<Time>>) -> Self {
        self.capability = capability;
        self
    }

    /// The frontier up to which it is written.
    pub fn lower(&self) -> AntichainRef<'_, Time> {
        self.lower.borrow()
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
            Some(time) => self.capability.iter_mut().for_each(|capability| capability.downgrade(time)),
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
