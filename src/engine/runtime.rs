//! The worker threads, and what can be asked of them. What they are told goes by way of the module `command_log`.
//!
//! A runtime knows plans, times and inputs; it knows no names, no SQL and no session. Calls are asynchronous unless
//! they say that they wait. Engine time only moves by [`Runtime::advance`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::RecordBatch;

use super::command_log::{Dataflow, Handle, Log, Obituary, Progress, Table};
use super::publish::{ErrorBoard, summary};
use super::worker::{Agent, Alteration, Blueprint, Built, Command, ExportKind, Outlet, Peeked};
use super::{Update, time};
use crate::checkpoint::WorkerState;
use crate::connector::{Op, Sink};
use crate::dataflow::registry::{Label, Measure, Size, own_id, waiting_id};
use crate::dataflow::render::{Relation, whole_rows};
use crate::dataflow::sink::Deliver;
use crate::dataflow::state::Found;
use crate::error::{Error, Result};
use crate::plan::{Figures, Fingerprint, Memory, Node, Plan, RelationId};
use crate::row::{Codec, Updates};

/// A moment of the dataflow: `ms << 20 | step`. See the module `time`.
pub type Time = u64;

/// Worker threads and their command log. All methods take `&self`; calls from several threads are serialized.
pub struct Runtime {
    log: Mutex<Log>,
    progress: Arc<Progress>,
    board: ErrorBoard,
}

/// What a dataflow is built for. Everything in one `Vec<Export>` becomes one dataflow, in which equal plans are
/// rendered once; arrangements that other dataflows have are imported.
pub enum Export {
    /// Keep the plan's arrangements up to date for `SELECT`s and later dataflows to import: a materialized view.
    Maintain { name: String, plan: Plan },
    /// Compute the plan's changes, and keep and show none of them: for measurements.
    Compute { name: String, plan: Plan },
    /// Publish the plan's changes. `key` are the columns of a primary key: an update of it is `-U`, `+U`.
    Sink { name: String, plan: Plan, key: Vec<usize>, sink: Box<dyn Sink> },
    /// Send the plan's contents as of now and then its changes, a step at a time.
    Subscribe { name: String, plan: Plan, to: Sender<Result<Update>> },
    /// Hand the plan's contents as of now and then its changes to a receiver, as bytes.
    Deliver { name: String, plan: Plan, to: Box<dyn Deliver + Send> },
}

/// A relation that the plans of a dataflow `Get`.
#[derive(Debug, Clone)]
pub enum Input {
    /// A table in memory: arranged once and for all dataflows, when first declared. With a primary key a new row
    /// replaces the one of its key.
    Table { id: RelationId, name: String, row: crate::plan::RowType, primary_key: Vec<usize> },
    /// A connector's rows: every dataflow that gets it has an input of its own, which a reader of its own feeds.
    /// `retracts` says that it may take rows away, which makes its rows worth arranging.
    /// `memory` says how long its rows by primary key are remembered.
    Source { id: RelationId, name: String, row: crate::plan::RowType, primary_key: Vec<usize>, retracts: bool, memory: Memory },
}

/// A dataflow of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataflowId(pub u64);

/// What came of building a dataflow.
#[derive(Debug, Clone)]
pub struct Installed {
    pub id: DataflowId,
    /// The sources that this dataflow wants read from their beginning: an arrangement of another dataflow may make
    /// reading one unnecessary.
    pub reads: Vec<RelationId>,
}

/// Rows for an input.
#[derive(Debug, Clone)]
pub enum Rows {
    /// Each row `diffs[i]` times.
    Diffs { rows: RecordBatch, diffs: Vec<i64> },
    /// For relations with a primary key.
    Ops { rows: RecordBatch, ops: Vec<Op> },
    /// Input that could not be decoded: errors of the relation for ever.
    Errors(Vec<String>),
}

/// What all the arrangements that a plan may depend on hold together, once compacted; tables in memory are not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    pub rows: u64,
    pub bytes: u64,
    /// Scopes that have expired.
    pub expired: u64,
}

/// The workers' part of an engine as of a time.
pub struct Snapshot {
    /// Everything before this time has happened.
    pub now: Time,
    /// Where time has run out, if that is where it stands.
    pub run_out: Option<Time>,
    pub workers: usize,
    pub states: Vec<WorkerState>,
}

/// A question that the workers have been asked.
pub struct Peek {
    plan: Plan,
    answers: Receiver<Result<Peeked>>,
    workers: usize,
    progress: Arc<Progress>,
}

/// A row of the system table `weir_arrangements`.
#[derive(Debug, Clone)]
pub struct ArrangementInfo {
    pub view: String,
    pub operator: String,
    pub input: Option<String>,
    pub key: String,
    pub scope: String,
    pub ttl_ms: Option<i64>,
    pub policy: Option<String>,
    pub origin: String,
    /// How many views and jobs (exports) depend on it.
    pub readers: i64,
    pub rows: i64,
    pub bytes: i64,
    pub live_scopes: i64,
    pub expired: i64,
    pub late_retractions: i64,
    pub next_deadline: Option<i64>,
}

impl Runtime {
    /// Starts `workers` threads. The present time is the epoch's first step until it is moved.
    pub fn start(workers: usize) -> Result<Self> {
        let (now, board) = (time::at(0, 1), ErrorBoard::default());
        let progress = Arc::new(Progress::of(workers));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel()).unzip();
        let receivers: Mutex<Vec<Option<Receiver<Command>>>> = Mutex::new(receivers.into_iter().map(Some).collect());
        let config = if workers == 1 { timely::Config::thread() } else { timely::Config::process(workers) };
        let (shared, posts) = (Arc::clone(&progress), board.clone());
        let guards = timely::execute(config, move |worker| {
            let _obituary = Obituary(Arc::clone(&shared));
            let index = worker.index();
            let commands = receivers.lock().ok().and_then(|mut receivers| receivers[index].take());
            if let Some(commands) = commands {
                Agent::new(worker, commands, posts.clone(), now).run(&shared);
            }
        })
        .map_err(Error::Stopped)?;
        // The guards are in the order of the workers.
        let threads = guards.guards().iter().map(|guard| guard.thread().clone());
        let workers = senders.into_iter().zip(threads).map(|(commands, thread)| Handle { commands, thread, sent: 0 }).collect();
        let log = Log {
            workers,
            guards: Some(guards),
            now,
            run_out: None,
            is_restoring: false,
            dirty: false,
            next: 0,
            turn: 0,
            tables: HashMap::new(),
            dataflows: BTreeMap::new(),
        };
        Ok(Runtime { log: Mutex::new(log), progress, board })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes a table's input and arrangement.
    pub fn create_table(&self, table: Input) -> Result<()> {
        let mut log = self.log();
        log.complete(&self.progress)?;
        let (dataflow, as_of) = (log.next, log.now.saturating_sub(1));
        log.next += 1;
        let relation = table.relation();
        let (reply, answers) = channel();
        log.send_all(|_| Command::CreateTable { dataflow, relation: relation.clone(), as_of, reply: reply.clone() })?;
        let built = first(self.progress.gather(&answers, log.workers.len())?)?;
        let arrangement = built.arrangements.first().map(|(id, _)| *id);
        let arrangement = arrangement.ok_or_else(|| Error::invalid(format!("table '{}' has no arrangement", relation.name)))?;
        let keyed = !relation.primary_key.is_empty();
        log.tables.insert(relation.id, Table { dataflow, keyed, arrangement });
        log.dataflows.insert(dataflow, Dataflow::new(built, &[]));
        Ok(())
    }

    /// Drops a table's input and arrangement. The caller has made sure that no dataflow gets it.
    pub fn drop_table(&self, id: RelationId) -> Result<()> {
        let mut log = self.log();
        let Some(table) = log.tables.remove(&id) else { return Ok(()) };
        log.dataflows.remove(&table.dataflow);
        log.send_all(|_| Command::Uninstall(table.dataflow))
    }

    /// Builds a dataflow that starts as of now. `inputs` has every relation its plans get. Of one that `passes` those that do not
    /// import nothing.
    pub fn install(&self, exports: Vec<Export>, inputs: Vec<Input>, passes: bool) -> Result<Installed> {
        let mut log = self.log();
        log.complete(&self.progress)?;
        let (dataflow, as_of) = (log.next, log.now.saturating_sub(1));
        log.next += 1;
        let relations: Vec<Relation> = inputs.iter().filter(|input| matches!(input, Input::Source { .. })).map(Input::relation).collect();
        let (exports, outlets): (Vec<_>, Vec<_>) = exports.into_iter().map(Export::split).unzip();
        let reached = exports.iter().map(|(name, plan, _)| {
            let mut reached = BTreeSet::new();
            log.reach(plan, &mut HashSet::new(), &mut reached);
            (name.clone(), reached)
        });
        let reached: Vec<_> = reached.collect();
        let blueprint = Arc::new(Blueprint { dataflow, exports, relations: relations.clone(), as_of, passes });
        let (reply, answers) = channel();
        let mut outlets = Some(outlets);
        log.send_all(|_| Command::Install {
            blueprint: Arc::clone(&blueprint),
            outlets: outlets.take().unwrap_or_default(),
            reply: reply.clone(),
        })?;
        let built = first(self.progress.gather(&answers, log.workers.len())?)?;
        let reads = built.reads.clone();
        log.dataflows.insert(dataflow, Dataflow { exports: reached, ..Dataflow::new(built, &relations) });
        Ok(Installed { id: DataflowId(dataflow), reads })
    }

    /// One of a dataflow's exports is not wanted any more, others are: it counts no longer as a reader.
    pub fn release(&self, id: DataflowId, export: &str) {
        if let Some(dataflow) = self.log().dataflows.get_mut(&id.0) {
            dataflow.exports.retain(|(name, _)| name != export);
        }
        self.board.post(id.0, export, vec![]);
    }

    /// Changes by what figures the arrangements forget of plans that are running: `plans` has each as it is and as it is to
    /// be, of the same shape. What is due by the new figures already goes at the next instant that comes. Waits.
    pub fn alter(&self, plans: &[(Plan, Plan)], figures: Figures) -> Result<()> {
        let mut log = self.log();
        log.complete(&self.progress)?;
        let mut renamed = HashMap::new();
        plans.iter().for_each(|(old, new)| old.renamed(new, &mut renamed));
        // What is derived from a plan or an arrangement goes by its name.
        let derived = ["key counts", "keys", "kept", "accumulated", "below zero"];
        let of_derived = renamed.iter().flat_map(|(old, new)| derived.map(|what| (old.derived(what), new.derived(what))));
        let of_derived: Vec<_> = of_derived.collect();
        renamed.extend(of_derived);
        let own = renamed.iter().flat_map(|(old, new)| (0..log.next).map(|dataflow| (own_id(*old, dataflow), own_id(*new, dataflow))));
        let own: Vec<_> = own.collect();
        renamed.extend(own);
        for (old, new) in plans {
            whole_rows_renamed(old, new, log.next, &mut renamed);
        }
        let new_id = |id: Fingerprint| renamed.get(&id).copied().unwrap_or(id);
        let figures: Figures = figures.into_iter().map(|(id, figures)| (new_id(id), figures)).collect();
        for dataflow in log.dataflows.values_mut() {
            for (_, reached) in &mut dataflow.exports {
                *reached = reached.iter().copied().map(new_id).collect();
            }
            for (id, label) in &mut dataflow.arrangements {
                *id = new_id(*id);
                if let Some((_, memory)) = figures.get(id) {
                    label.memory = memory.clone();
                }
            }
        }
        let alteration = Arc::new(Alteration { renamed, figures, is_restored: log.is_restoring });
        log.send_all(|_| Command::Alter(Arc::clone(&alteration)))
    }

    /// Ends a dataflow: its sinks are flushed and closed, and what nothing else reads is freed. Returns the dataflows
    /// that are gone with it: this one unless others import from it, and those that were kept only for it. Their
    /// sources need not be read any longer.
    pub fn uninstall(&self, id: DataflowId) -> Result<Vec<DataflowId>> {
        let mut log = self.log();
        log.complete(&self.progress)?;
        if let Some(dataflow) = log.dataflows.get_mut(&id.0) {
            dataflow.retired = true;
            dataflow.exports.clear();
        }
        log.send_all(|_| Command::Silence(id.0))?;
        self.board.clear(id.0);
        log.collect(&self.board)
    }

    /// Adds rows to a table, each at its time or, without times, all at the present one.
    pub fn insert(&self, table: RelationId, rows: Rows, times: Option<Vec<Time>>) -> Result<()> {
        let mut log = self.log();
        let Some(Table { dataflow, keyed, .. }) = log.tables.get(&table) else {
            return Err(Error::invalid("the table is gone"));
        };
        let (dataflow, keyed) = (*dataflow, *keyed);
        log.rows(dataflow, table, keyed, rows, times)
    }

    /// Adds rows to one dataflow's source, each at its time or, without times, all at the present one. A dataflow that is gone
    /// takes none.
    pub fn feed(&self, dataflow: DataflowId, source: RelationId, rows: Rows, times: Option<Vec<Time>>) -> Result<()> {
        let mut log = self.log();
        match log.dataflows.get(&dataflow.0) {
            Some(known) => {
                let keyed = known.keyed.contains(&source);
                log.rows(dataflow.0, source, keyed, rows, times)
            }
            None => Ok(()),
        }
    }

    /// The present time: that of rows that come now.
    pub fn now(&self) -> Time {
        self.log().now
    }

    /// Whether something came at the present time.
    pub fn is_dirty(&self) -> bool {
        self.log().dirty
    }

    /// Moves the present time forward; what came before is complete.
    pub fn advance(&self, to: Time) -> Result<()> {
        self.log().advance(to)
    }

    /// Moves the present time to where it runs out, unless it is there: windows that are open close then.
    pub fn run_out(&self, at: Time) -> Result<()> {
        self.log().run_out(at)
    }

    /// Whether all that is complete has been worked off.
    #[cfg(test)]
    pub fn is_settled(&self) -> bool {
        self.progress.is_through(self.now())
    }

    /// Waits until all that is complete has been worked off and is out of the sinks.
    pub fn settle(&self) -> Result<()> {
        let (sent, now) = {
            let log = self.log();
            (log.workers.iter().map(|worker| worker.sent).collect::<Vec<_>>(), log.now)
        };
        self.progress.wait(&sent, now)
    }

    /// Asks for the rows of a plan just before the present time. Advances time by a step first if rows came at the
    /// present one. Whoever waits for the answer waits only for the dataflows that the plan reads.
    pub fn peek(&self, plan: &Plan) -> Result<Peek> {
        let mut log = self.log();
        log.seal()?;
        let until = log.now;
        let (reply, answers) = channel();
        log.send_all(|_| Command::Peek { plan: plan.clone(), until, reply: reply.clone() })?;
        Ok(Peek { plan: plan.clone(), answers, workers: log.workers.len(), progress: Arc::clone(&self.progress) })
    }

    /// What of an engine's state is the workers', as of now: completes what came at the present time and waits for it. Of the
    /// dataflows only these are asked.
    pub fn save(&self, dataflows: BTreeSet<u64>) -> Result<Snapshot> {
        let mut log = self.log();
        log.complete(&self.progress)?;
        let dataflows = Arc::new(dataflows);
        let (reply, answers) = channel();
        log.send_all(|_| Command::Save { dataflows: Arc::clone(&dataflows), reply: reply.clone() })?;
        let states = self.progress.gather(&answers, log.workers.len())?.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Snapshot { now: log.now, run_out: log.run_out, workers: log.workers.len(), states: states.into_iter().flatten().collect() })
    }

    /// Begins at a time with what an earlier run has left: dataflows that are built until [`Runtime::restored`] find it. There is
    /// a part for each worker.
    pub fn restore(&self, now: Time, run_out: Option<Time>, found: Vec<HashMap<u64, Found>>) -> Result<()> {
        let mut log = self.log();
        (log.is_restoring, log.run_out) = (true, run_out);
        log.now = now;
        log.send_all(|_| Command::Advance(now))?;
        if let Some(at) = run_out {
            log.send_all(|_| Command::RunOut(at))?;
        }
        found.into_iter().enumerate().try_for_each(|(worker, found)| log.send(worker, Command::Restore(found)))
    }

    /// What is built from now on begins anew.
    pub fn restored(&self) -> Result<()> {
        let mut log = self.log();
        log.is_restoring = false;
        log.send_all(|_| Command::Restore(HashMap::new()))
    }

    /// The number that the next dataflow has.
    pub fn next_dataflow(&self) -> u64 {
        self.log().next
    }

    /// Gives the next dataflow a number, which no other has.
    pub fn number_next(&self, number: u64) {
        self.log().next = number;
    }

    /// All arrangements as they are, whatever is on its way to them.
    pub fn arrangements(&self) -> Result<Vec<ArrangementInfo>> {
        let mut log = self.log();
        let sizes = log.sizes(Measure::Stored, &self.progress)?;
        let readers = |dataflow: &Dataflow, id| dataflow.exports.iter().filter(|(_, reached)| reached.contains(id)).count();
        let arrangements = log.dataflows.values().flat_map(|dataflow| dataflow.arrangements.iter().map(move |entry| (dataflow, entry)));
        let infos = arrangements.map(|(dataflow, (id, label))| {
            let size = sizes.get(id).copied().unwrap_or_default();
            let readers = match label.is_shared {
                true => log.dataflows.values().map(|dataflow| readers(dataflow, id)).sum(),
                false => readers(dataflow, id),
            };
            ArrangementInfo::new(label, readers, size)
        });
        let mut infos: Vec<ArrangementInfo> = infos.collect();
        infos.sort_by(|a, b| (&a.view, &a.operator, &a.input, &a.key).cmp(&(&b.view, &b.operator, &b.input, &b.key)));
        Ok(infos)
    }

    /// What each plan keeps, however it is stored: the same as if every trace had just been compacted. What they share counts
    /// for each. Reads all of it, and needs the memory of one more of the largest arrangement meanwhile.
    pub fn footprints(&self, plans: &[Plan]) -> Result<Vec<Footprint>> {
        let mut log = self.log();
        let sizes = log.sizes(Measure::Live, &self.progress)?;
        let tables: HashSet<Fingerprint> = log.tables.values().map(|table| table.arrangement).collect();
        let footprint = |plan: &Plan| {
            let mut reached = BTreeSet::new();
            log.reach(plan, &mut HashSet::new(), &mut reached);
            let sizes = reached.iter().filter(|id| !tables.contains(id)).filter_map(|id| sizes.get(id));
            sizes.fold(Footprint::default(), |sum, size| Footprint {
                rows: sum.rows + size.rows as u64,
                bytes: sum.bytes + size.bytes as u64,
                expired: sum.expired + size.account.map_or(0, |account| account.expired),
            })
        };
        Ok(plans.iter().map(footprint).collect())
    }

    /// The sources that would have to be read to answer the plan: those that no dataflow's arrangement stands for.
    pub fn missing_sources(&self, plan: &Plan) -> Vec<RelationId> {
        let log = self.log();
        let have = log.dataflows.values().flat_map(|dataflow| &dataflow.arrangements).map(|(id, _)| *id).collect();
        let mut missing = BTreeSet::new();
        log.missing(plan, &have, &mut HashSet::new(), &mut missing);
        missing.into_iter().collect()
    }

    /// One message for each maintained view or sink that has errors now, or whose sink failed. Waits.
    pub fn errors(&self) -> Result<Vec<String>> {
        self.settle()?;
        Ok(self.board.messages())
    }

    /// Ends all dataflows and joins the threads; the second time it does nothing.
    pub fn shutdown(&self) -> Result<()> {
        let mut log = self.log();
        let Some(guards) = log.guards.take() else { return Ok(()) };
        // Every one of them, whichever are gone already: who is not told is waited for and never ends.
        let told: Vec<Result<()>> = (0..log.workers.len()).map(|worker| log.send(worker, Command::Shutdown)).collect();
        drop(log);
        let failed = guards.join().into_iter().find_map(Result::err);
        match failed {
            Some(why) => Err(Error::Stopped(why)),
            None => told.into_iter().collect(),
        }
    }
}

/// However a runtime goes, its threads end: a worker that has nothing to do sleeps until it is told something.
impl Drop for Runtime {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.shutdown();
    }
}

impl Peek {
    /// The rows with their multiplicities (positive); errors among them are an [`Error::Data`]. Waits.
    pub fn answer(self) -> Result<(RecordBatch, Vec<i64>)> {
        let peeked = self.progress.gather(&self.answers, self.workers)?.into_iter().collect::<Result<Vec<_>>>()?;
        let errors = consolidated(peeked.iter().flat_map(|peeked| &peeked.errors));
        if !errors.is_empty() {
            let messages: Vec<String> = errors.iter().map(|(message, _)| String::from_utf8_lossy(message).into_owned()).collect();
            return Err(Error::Data(summary(&messages)));
        }
        let codec = Codec::new(self.plan.row(), 0)?;
        let rows = consolidated(peeked.iter().flat_map(|peeked| &peeked.rows));
        if let Some((row, count)) = rows.iter().find(|(_, count)| *count < 0) {
            let row = codec.decode([*row].into_iter())?;
            return Err(Error::Data(format!("the row ({}) is there {count} times", crate::text::line(&row, 0).join(", "))));
        }
        let batch = codec.decode(rows.iter().map(|(row, _)| *row))?;
        Ok((batch, rows.iter().map(|(_, count)| *count).collect()))
    }
}

impl Export {
    /// What it exports.
    pub fn plan(&self) -> &Plan {
        match self {
            Export::Maintain { plan, .. } | Export::Compute { plan, .. } | Export::Sink { plan, .. } => plan,
            Export::Subscribe { plan, .. } | Export::Deliver { plan, .. } => plan,
        }
    }

    /// What every worker builds, and what only the first one gets.
    fn split(self) -> ((String, Plan, ExportKind), Option<Outlet>) {
        match self {
            Export::Maintain { name, plan } => ((name, plan, ExportKind::Maintain), None),
            Export::Compute { name, plan } => ((name, plan, ExportKind::Compute), None),
            Export::Sink { name, plan, key, sink } => ((name, plan, ExportKind::Deliver), Some(Outlet::Sink { key, sink })),
            Export::Subscribe { name, plan, to } => ((name, plan, ExportKind::Deliver), Some(Outlet::Subscriber(to))),
            Export::Deliver { name, plan, to } => ((name, plan, ExportKind::Deliver), Some(Outlet::Receiver(to))),
        }
    }
}

impl Input {
    /// The arrangement that holds its rows as they come, if one does.
    pub fn kept(&self) -> Option<Fingerprint> {
        Some(self.relation().kept_as()?.arrangement.fingerprint())
    }

    fn relation(&self) -> Relation {
        match self.clone() {
            Input::Table { id, name, row, primary_key } => Relation { id, name, row, primary_key, kept: true, memory: Memory::default() },
            Input::Source { id, name, row, primary_key, retracts, memory } => {
                Relation { id, name, row, primary_key, kept: retracts, memory }
            }
        }
    }
}

impl ArrangementInfo {
    fn new(label: &Label, readers: usize, size: Size) -> Self {
        let Memory { ttl, policy, origin, .. } = &label.memory;
        let account = size.account.unwrap_or_default();
        ArrangementInfo {
            view: label.view.clone(),
            operator: label.operator.clone(),
            input: label.input.clone(),
            key: label.key.clone(),
            scope: label.scope.to_string(),
            ttl_ms: ttl.map(|ttl| ttl as i64),
            policy: ttl.map(|_| policy.to_string()),
            origin: origin.to_string(),
            readers: readers as i64,
            rows: size.rows as i64,
            bytes: size.bytes as i64,
            live_scopes: account.live_scopes as i64,
            expired: account.expired as i64,
            late_retractions: account.late_retractions as i64,
            next_deadline: account.next_deadline.map(|instant| instant as i64),
        }
    }
}

/// What identifies the arrangements of plans by all of their columns, and what they hold in each of so many dataflows; and did.
fn whole_rows_renamed(old: &Plan, new: &Plan, dataflows: u64, into: &mut HashMap<Fingerprint, Fingerprint>) {
    if old.fingerprint() != new.fingerprint() && into.insert(whole_rows(old).fingerprint(), whole_rows(new).fingerprint()).is_none() {
        if let Node::Delay { .. } | Node::Temporal { .. } = old.node() {
            into.extend((0..dataflows).map(|dataflow| (waiting_id(old, dataflow), waiting_id(new, dataflow))));
        }
        old.inputs().into_iter().zip(new.inputs()).for_each(|(old, new)| whole_rows_renamed(old, new, dataflows, into));
    }
}

/// All workers build the same: the first answer stands for all, an error for any.
fn first(built: Vec<Result<Built>>) -> Result<Built> {
    // The first worker's answer need not come first; what is said of inputs and arrangements is the same.
    let mut built = built.into_iter().collect::<Result<Vec<_>>>()?;
    built.pop().ok_or_else(|| Error::Stopped("no worker has answered".to_owned()))
}

/// Rows added up, in byte order.
fn consolidated<'a>(containers: impl Iterator<Item = &'a Updates>) -> Vec<(&'a [u8], i64)> {
    let each = containers.flat_map(|updates| (0..updates.len()).map(move |index| (updates.row(index), updates.diff(index))));
    let mut rows: Vec<(&[u8], i64)> = each.collect();
    differential_dataflow::consolidation::consolidate(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;
    use crate::plan::{Flow, Node, RowType};
    use crate::row::Diff;

    const TABLE: RelationId = RelationId(1);

    /// Fails when it is given rows, on its worker's thread.
    struct Failing;

    impl Deliver for Failing {
        fn step(&mut self, _: Time, _: Vec<(Vec<u8>, Diff)>) {
            panic!("on purpose");
        }

        fn errors(&mut self, _: &BTreeMap<String, Diff>) {}

        fn complete(&mut self, _: Option<Time>) {}
    }

    fn rows() -> RecordBatch {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap()
    }

    /// A table whose changes go to `to`, with a row in it.
    fn fed(workers: usize, to: Box<dyn Deliver + Send>) -> Runtime {
        let runtime = Runtime::start(workers).unwrap();
        let row = RowType::from_schema(&rows().schema());
        runtime.create_table(Input::Table { id: TABLE, name: "t".into(), row: row.clone(), primary_key: vec![] }).unwrap();
        let plan = Plan::new(Node::Get { id: TABLE, name: "t".into(), flow: Flow::Changes, times: vec![] }, row);
        runtime.install(vec![Export::Deliver { name: "d".into(), plan, to }], vec![], false).unwrap();
        runtime.insert(TABLE, Rows::Diffs { rows: rows(), diffs: vec![1] }, None).unwrap();
        runtime.advance(time::at(1, 1)).unwrap();
        runtime
    }

    /// Runs something on a thread of its own; whether it ends soon, and how.
    fn ends(run: impl FnOnce() + Send + 'static) -> std::thread::Result<()> {
        let (ended, waiting) = channel();
        std::thread::spawn(move || ended.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))));
        waiting.recv_timeout(Duration::from_secs(60)).expect("it hangs")
    }

    #[test]
    fn a_runtime_that_is_dropped_ends_be_it_idle_or_because_of_a_panic() {
        for workers in [1, 2] {
            assert!(ends(move || drop(Runtime::start(workers).unwrap())).is_ok());
            let panicked = ends(move || {
                let _runtime = Runtime::start(workers).unwrap();
                panic!("on purpose");
            });
            assert!(panicked.is_err());
        }
    }

    #[test]
    fn a_runtime_of_which_a_worker_has_failed_says_so_and_ends() {
        for workers in [1, 2] {
            let ended = ends(move || {
                let runtime = fed(workers, Box::new(Failing));
                assert_eq!(runtime.settle(), Err(Error::Stopped("a worker has failed".into())));
                assert!(matches!(runtime.shutdown(), Err(Error::Stopped(_))));
                drop(fed(workers, Box::new(Failing)));
            });
            assert!(ended.is_ok(), "{workers} worker(s)");
        }
    }
}
