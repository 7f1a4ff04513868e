//! What runs on a worker's thread: the commands of the log, in order, and the dataflows between them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Commands, Sender, TryRecvError};

use differential_dataflow::operators::arrange::ShutdownButton;
use timely::dataflow::operators::CapabilitySet;
use timely::dataflow::operators::core::Probe;
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::worker::Worker;

use super::command_log::Progress;
use super::publish::{ErrorBoard, Post, Publish, Send, Watch};
use super::runtime::Time;
use super::time;
use crate::checkpoint::WorkerState;
use crate::connector::Sink;
use crate::dataflow::columnar::ColumnBatch;
use crate::dataflow::registry::{Label, Measure, Registry, Size};
use crate::dataflow::render::{ClockInput, Relation, RelationInput, Renderer, whole_rows};
use crate::dataflow::sink::{Deliver, Receiver, deliver};
use crate::dataflow::state::{Asks, Found, States};
use crate::error::Result;
use crate::plan::{Figures, Fingerprint, Node, Plan, RelationId};
use crate::row::Updates;

/// An entry of the command log.
pub enum Command {
    CreateTable {
        dataflow: u64,
        relation: Relation,
        as_of: Time,
        reply: Sender<Result<Built>>,
    },
    Install {
        blueprint: Arc<Blueprint>,
        outlets: Vec<Option<Outlet>>,
        reply: Sender<Result<Built>>,
    },
    /// Takes a dataflow's sinks away; the rest of it goes on.
    Silence(u64),
    Uninstall(u64),
    Rows {
        dataflow: u64,
        relation: RelationId,
        batch: ColumnBatch,
    },
    Errors {
        dataflow: u64,
        relation: RelationId,
        time: Time,
        messages: Vec<String>,
    },
    Advance(Time),
    /// Time goes no further than to just after this: what waits for later happens then.
    RunOut(Time),
    Peek {
        plan: Plan,
        until: Time,
        reply: Sender<Result<Peeked>>,
    },
    /// Arrangements forget by other figures from now on, and are known by other names.
    Alter(Arc<Alteration>),
    Sizes {
        measure: Measure,
        reply: Sender<Vec<(Fingerprint, Size)>>,
    },
    /// What an earlier run has left of dataflows, which find it when they are built.
    Restore(HashMap<u64, Found>),
    /// Asks what the operators of dataflows remember, when all before the present time has been worked off.
    Save {
        dataflows: Arc<BTreeSet<u64>>,
        reply: Sender<Result<Vec<WorkerState>>>,
    },
    Shutdown,
}

/// What has other figures of retention from now on.
pub struct Alteration {
    /// What identifies plans and arrangements, by what did.
    pub renamed: HashMap<Fingerprint, Fingerprint>,
    /// The figures, by what identifies the arrangements now.
    pub figures: Figures,
    /// Whether the deadlines are those of the new figures already, since they were restored.
    pub is_restored: bool,
}

/// A dataflow to build.
pub struct Blueprint {
    pub dataflow: u64,
    pub exports: Vec<(String, Plan, ExportKind)>,
    pub relations: Vec<Relation>,
    pub as_of: Time,
    /// Dataflows that do not pass import nothing of it.
    pub passes: bool,
}

/// What an export asks of the dataflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportKind {
    Maintain,
    Compute,
    Deliver,
}

/// Where an export's changes go; worker 0 has them.
pub enum Outlet {
    Sink { key: Vec<usize>, sink: Box<dyn Sink> },
    Subscriber(Sender<Result<super::Update>>),
    Receiver(Box<dyn Deliver + std::marker::Send>),
}

/// What a dataflow came to be.
pub struct Built {
    pub reads: Vec<RelationId>,
    pub depends: BTreeSet<u64>,
    pub arrangements: Vec<(Fingerprint, Label)>,
}

/// One worker's share of a peek's answer.
pub struct Peeked {
    pub rows: Vec<Updates>,
    pub errors: Vec<Updates>,
}

/// A dataflow at work.
struct Running {
    inputs: HashMap<RelationId, RelationInput>,
    clock: Option<ClockInput>,
    imported: Vec<ShutdownButton<CapabilitySet<Time>>>,
    receivers: Vec<Receiver>,
    probe: ProbeHandle<Time>,
    /// Whom to ask what its operators remember.
    asks: Asks,
}

/// A peek that is not answered yet.
struct Peeking {
    running: Running,
    rows: Rc<RefCell<Vec<Updates>>>,
    errors: Rc<RefCell<Vec<Updates>>>,
    until: Time,
    reply: Sender<Result<Peeked>>,
}

/// The state of a worker.
pub struct Agent<'w> {
    worker: &'w mut Worker,
    commands: Commands<Command>,
    done: u64,
    board: ErrorBoard,
    registry: Registry,
    dataflows: HashMap<u64, Running>,
    peeks: Vec<Peeking>,
    now: Time,
    /// What an earlier run has left of dataflows that are not built yet.
    found: HashMap<u64, Found>,
}

impl<'w> Agent<'w> {
    pub fn new(worker: &'w mut Worker, commands: Commands<Command>, board: ErrorBoard, now: Time) -> Self {
        let (registry, dataflows, found) = (Registry::default(), HashMap::new(), HashMap::new());
        Agent { worker, commands, done: 0, board, registry, dataflows, peeks: Vec::new(), now, found }
    }

    /// Works until it is told to shut down, or nobody is left to tell it.
    pub fn run(mut self, progress: &Progress) {
        let index = self.worker.index();
        let mut reported = (0, 0);
        loop {
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Shutdown) | Err(TryRecvError::Disconnected) => return self.shut_down(),
                    Ok(command) => {
                        self.apply(command);
                        self.done += 1;
                    }
                    Err(TryRecvError::Empty) => break,
                }
            }
            let state = (self.done, self.through());
            if state != reported {
                reported = state;
                self.registry.compact();
                progress.report(index, state.0, state.1);
            }
            self.worker.step_or_park(None);
            self.answer_peeks();
        }
    }

    /// The time before which everything has been worked off.
    fn through(&self) -> Time {
        self.dataflows.values().filter_map(|running| running.probe.with_frontier(|f| f.first().copied())).min().unwrap_or(Time::MAX)
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::CreateTable { dataflow, relation, as_of, reply } => {
                let built = self.create_table(dataflow, &relation, as_of);
                let _gone = reply.send(built);
            }
            Command::Install { blueprint, outlets, reply } => {
                let built = self.install(&blueprint, outlets);
                let _gone = reply.send(built);
            }
            Command::Silence(dataflow) => {
                if let Some(running) = self.dataflows.get(&dataflow) {
                    running.receivers.iter().for_each(|receiver| *receiver.borrow_mut() = None);
                }
            }
            Command::Uninstall(dataflow) => self.uninstall(dataflow),
            Command::Rows { dataflow, relation, batch } => {
                let now = self.now;
                if let Some(input) = self.input(dataflow, relation) {
                    input.give(batch, now);
                }
            }
            Command::Errors { dataflow, relation, time, messages } => {
                if let Some(input) = self.input(dataflow, relation) {
                    input.fail(&messages, time);
                }
            }
            Command::RunOut(at) => self.registry.run_out.set(Some(at)),
            Command::Advance(to) => {
                let stands = self.registry.run_out.get().filter(|run_out| time::ms(*run_out) == time::ms(to));
                self.registry.run_out.set(stands);
                self.now = to;
                self.dataflows.values_mut().for_each(|running| running.advance(to));
            }
            Command::Peek { plan, until, reply } => match self.peek(&plan, until, reply.clone()) {
                Ok(peeking) => self.peeks.push(peeking),
                Err(error) => {
                    let _gone = reply.send(Err(error));
                }
            },
            Command::Alter(alteration) => {
                let Alteration { renamed, figures, is_restored } = &*alteration;
                self.registry.alter(renamed, figures, *is_restored);
            }
            Command::Restore(found) => self.found = found,
            Command::Save { dataflows, reply } => {
                let _gone = reply.send(self.save(&dataflows));
            }
            Command::Sizes { measure, reply } => {
                let sizes = self.registry.entries.iter().map(|(id, entry)| (*id, entry.size(measure)));
                let waiting = self.registry.waiting.iter().map(|(id, waiting)| (*id, waiting.size()));
                let _gone = reply.send(sizes.chain(waiting).collect());
            }
            Command::Shutdown => {}
        }
    }

    fn input(&mut self, dataflow: u64, relation: RelationId) -> Option<&mut RelationInput> {
        self.dataflows.get_mut(&dataflow)?.inputs.get_mut(&relation)
    }

    fn create_table(&mut self, dataflow: u64, relation: &Relation, as_of: Time) -> Result<Built> {
        let relations = vec![relation.clone()];
        self.build(dataflow, relations, as_of, |renderer| {
            renderer.table(relation)?;
            Ok(vec![])
        })
    }

    fn install(&mut self, blueprint: &Blueprint, mut outlets: Vec<Option<Outlet>>) -> Result<Built> {
        let (dataflow, as_of, board) = (blueprint.dataflow, blueprint.as_of, self.board.clone());
        if blueprint.passes {
            self.registry.passing.insert(dataflow);
        }
        self.build(dataflow, blueprint.relations.clone(), as_of, |renderer| {
            let mut receivers = Vec::new();
            for (index, (name, plan, kind)) in blueprint.exports.iter().enumerate() {
                renderer.begin_view(name);
                let post = Post { board: board.clone(), dataflow, export: name.clone() };
                let outlet = outlets.get_mut(index).and_then(Option::take);
                let receiver: Receiver = Rc::new(RefCell::new(outlet_receiver(plan, outlet, post)?));
                export(renderer, plan, *kind, as_of, Rc::clone(&receiver))?;
                receivers.push(receiver);
            }
            Ok(receivers)
        })
    }

    /// Builds a dataflow; one that cannot be built leaves nothing behind.
    fn build(
        &mut self,
        dataflow: u64,
        relations: Vec<Relation>,
        as_of: Time,
        render: impl FnOnce(&mut Renderer<'_, '_>) -> Result<Vec<Receiver>>,
    ) -> Result<Built> {
        let timely_index = self.worker.next_dataflow_index();
        let registry = &mut self.registry;
        let states = States::new(as_of, self.found.remove(&dataflow));
        let built = self.worker.dataflow::<Time, _, _>(|scope| {
            let mut renderer = Renderer::new(scope, as_of, registry, Some(dataflow), relations, states);
            let receivers = render(&mut renderer)?;
            let running = Running {
                asks: std::mem::take(&mut renderer.states).finish()?,
                inputs: std::mem::take(&mut renderer.inputs),
                clock: renderer.take_clock(),
                imported: std::mem::take(&mut renderer.imported),
                receivers,
                probe: renderer.probe.clone(),
            };
            Ok((running, std::mem::take(&mut renderer.depends)))
        });
        let (mut running, depends) = match built {
            Ok(built) => built,
            Err(error) => {
                self.worker.drop_dataflow(timely_index);
                self.registry.forget(dataflow);
                return Err(error);
            }
        };
        let reads = running.inputs.keys().copied().collect();
        running.advance(self.now);
        self.dataflows.insert(dataflow, running);
        let arrangements = self.registry.entries.iter().filter(|(_, entry)| entry.dataflow == dataflow);
        let waiting = self.registry.waiting.iter().filter(|(_, waiting)| waiting.dataflow == dataflow);
        let waiting = waiting.map(|(id, waiting)| (*id, waiting.label.clone()));
        let arrangements = arrangements.map(|(id, entry)| (*id, entry.label.clone())).chain(waiting).collect();
        Ok(Built { reads, depends, arrangements })
    }

    fn uninstall(&mut self, dataflow: u64) {
        self.registry.forget(dataflow);
        if let Some(running) = self.dataflows.remove(&dataflow) {
            running.end();
        }
    }

    fn peek(&mut self, plan: &Plan, until: Time, reply: Sender<Result<Peeked>>) -> Result<Peeking> {
        let timely_index = self.worker.next_dataflow_index();
        let registry = &mut self.registry;
        let built = self.worker.dataflow::<Time, _, _>(|scope| -> Result<_> {
            let mut renderer = Renderer::new(scope, until.saturating_sub(1), registry, None, vec![], States::default());
            let collection = renderer.collection(plan, 0)?;
            let error_stream = renderer.errors(&collection.errors)?;
            let (rows, errors) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
            capture(collection.rows, until, Rc::clone(&rows)).probe_with(&renderer.probe);
            capture(error_stream, until, Rc::clone(&errors)).probe_with(&renderer.probe);
            let running = Running {
                inputs: HashMap::new(),
                clock: None,
                imported: std::mem::take(&mut renderer.imported),
                receivers: vec![],
                probe: renderer.probe.clone(),
                asks: Asks::default(),
            };
            Ok((running, rows, errors))
        });
        match built {
            Ok((running, rows, errors)) => Ok(Peeking { running, rows, errors, until, reply }),
            Err(error) => {
                self.worker.drop_dataflow(timely_index);
                Err(error)
            }
        }
    }

    /// What the operators of dataflows remember now.
    fn save(&self, dataflows: &BTreeSet<u64>) -> Result<Vec<WorkerState>> {
        let worker = self.worker.index();
        let running = dataflows.iter().filter_map(|dataflow| Some((*dataflow, self.dataflows.get(dataflow)?)));
        let states = running.flat_map(|(dataflow, running)| running.asks.states().map(move |saved| (dataflow, saved)));
        let saved = states.map(|(dataflow, saved)| {
            let (number, name, state) = saved?;
            Ok(WorkerState { worker, dataflow, number, name: name.to_owned(), state })
        });
        saved.collect()
    }

    fn answer_peeks(&mut self) {
        let (waiting, done): (Vec<_>, Vec<_>) = self.peeks.drain(..).partition(|peek| peek.running.probe.less_than(&peek.until));
        self.peeks = waiting;
        for peek in done {
            let answer = Peeked { rows: peek.rows.take(), errors: peek.errors.take() };
            let _gone = peek.reply.send(Ok(answer));
            peek.running.end();
        }
    }

    fn shut_down(mut self) {
        self.dataflows.clear();
        self.peeks.clear();
        self.registry = Registry::default();
        for dataflow in self.worker.installed_dataflows() {
            self.worker.drop_dataflow(dataflow);
        }
    }
}

impl Running {
    fn advance(&mut self, to: Time) {
        self.inputs.values_mut().for_each(|input| input.advance(to));
        self.clock.iter_mut().for_each(|clock| clock.advance_to(to));
    }

    /// Lets a dataflow run dry: nothing comes in any more, and nobody receives what still comes out.
    fn end(mut self) {
        self.receivers.iter().for_each(|receiver| *receiver.borrow_mut() = None);
        self.imported.iter_mut().for_each(ShutdownButton::press);
    }
}

fn outlet_receiver(plan: &Plan, outlet: Option<Outlet>, post: Post) -> Result<Option<Box<dyn Deliver>>> {
    Ok(match outlet {
        None => Some(Box::new(Watch(post))),
        Some(Outlet::Sink { key, sink }) => Some(Box::new(Publish::new(plan.row(), key, sink, post)?)),
        Some(Outlet::Receiver(to)) => Some(to),
        Some(Outlet::Subscriber(to)) => Some(Box::new(Send::new(plan.row(), to, post)?)),
    })
}

/// Renders what an export needs.
fn export(renderer: &mut Renderer<'_, '_>, plan: &Plan, kind: ExportKind, as_of: Time, receiver: Receiver) -> Result<()> {
    // What is over is forgotten under it, and is in the view all the same.
    if kind == ExportKind::Maintain && (streams_a_source(plan, renderer) || plan.forgets_what_is_over()) {
        renderer.keep(plan)?;
    }
    let collection = renderer.collection(plan, 0)?;
    let errors = renderer.errors(&collection.errors)?;
    let rows = match kind {
        ExportKind::Deliver => collection.rows,
        ExportKind::Maintain | ExportKind::Compute => {
            collection.rows.probe_with(&renderer.probe);
            timely::dataflow::operators::generic::operator::empty(errors.scope())
        }
    };
    deliver(rows, errors, as_of, receiver, &mut renderer.states).probe_with(&renderer.probe);
    Ok(())
}

/// Whether a plan's rows come from a source with no arrangement between, so that nothing would remember them.
fn streams_a_source(plan: &Plan, renderer: &Renderer<'_, '_>) -> bool {
    !renderer.has(&whole_rows(plan))
        && match plan.node() {
            Node::Get { id, .. } => renderer.is_stream(*id),
            _ => plan.streams().into_iter().any(|input| streams_a_source(input, renderer)),
        }
}

/// Keeps what comes by and happens before `until`.
fn capture<'s>(
    stream: timely::dataflow::Stream<'s, Time, Updates>,
    until: Time,
    into: Rc<RefCell<Vec<Updates>>>,
) -> timely::dataflow::Stream<'s, Time, Updates> {
    use timely::container::NoopBuilder;
    use timely::dataflow::channels::pact::Pipeline;
    use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};
    stream.unary(Pipeline, "Capture", move |_, _| {
        move |input, _: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            input.for_each(|_, updates| into.borrow_mut().push(earlier(std::mem::take(updates), until)));
        }
    })
}

/// The updates before a time.
fn earlier(updates: Updates, until: Time) -> Updates {
    if updates.times().iter().all(|time| *time < until) {
        return updates;
    }
    let mut kept = Updates::default();
    for index in (0..updates.len()).filter(|index| updates.time(*index) < until) {
        kept.push(updates.key(index), updates.value(index), updates.time(index), updates.diff(index));
    }
    kept
}
