//! Plans to operators.
//!
//! [`Renderer::collection`] and `Renderer::arrangement` walk a plan from its root. Whatever has the fingerprint of
//! something that is there already (in this dataflow, or as a trace that another dataflow keeps) is taken from there,
//! and what is below it is not rendered at all.

use std::collections::{BTreeSet, HashMap};

use differential_dataflow::operators::arrange::{Arranged, ShutdownButton};
use timely::dataflow::operators::CapabilitySet;
use timely::dataflow::operators::core::input::Handle as InputHandle;
use timely::dataflow::operators::core::{Concatenate, Input as _, Probe};
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::dataflow::{Scope as TimelyScope, Stream};

use super::accumulate::{Accumulate, count_rows};
use super::arrange::{arrange_rows, arrange_sums, flatten, written};
use super::asof::{Matching, asof};
use super::columnar::{ColumnBatch, Encode, Feed, columnar};
use super::groups::per_group;
use super::guard::guard;
use super::reduce::{Kept as Held, reduce};
use super::retain::{Keeper, Writes, arrange_retained};
use super::settle::{self, Expiries};
use super::temporal::temporal;
use super::threshold::threshold;
use super::topk::TopK;
use super::upsert::upsert;
use super::window::Window;
use super::{join, registry};
use crate::error::{Error, Result};
use crate::plan::{
    Arrangement, Bound, Column, Expiry, Fingerprint, Flow, JoinKind, Layout, Memory, Node, Origin, Plan, Policy, RelationId, Retention,
    RowType, Scope, Step, Validity, names,
};
use crate::row::{Codec, SumUpdates, Time, Updates, UpdatesBuilder, fixed_len, null_row, prefix_len};
use registry::{Entry, Label, Registry, Trace};

/// An operator on which rows can fail: what it computes, and the dataflow that it is in. (Two dataflows that read one
/// source apart have an error source each.)
pub type ErrorSource = (Fingerprint, u64);

/// A source's rows as they come.
type Columns<'s> = Stream<'s, Time, Vec<ColumnBatch>>;

/// A collection: its rows, and where its errors come from.
#[derive(Clone)]
pub struct Collection<'s> {
    pub rows: Stream<'s, Time, Updates>,
    pub errors: BTreeSet<ErrorSource>,
}

/// An arrangement in this dataflow.
#[derive(Clone)]
struct Arrangeds<'s> {
    kept: Held<'s>,
    errors: BTreeSet<ErrorSource>,
}

/// The worker's end of a relation's input.
pub struct RelationInput {
    pub rows: InputHandle<Time, timely::container::CapacityContainerBuilder<Vec<ColumnBatch>>>,
    pub errors: InputHandle<Time, UpdatesBuilder>,
}

/// The worker's end of what moves with engine time and nothing else.
pub type ClockInput = InputHandle<Time, UpdatesBuilder>;

/// A relation as the renderer knows it.
#[derive(Debug, Clone)]
pub struct Relation {
    pub id: RelationId,
    pub name: String,
    pub row: RowType,
    pub primary_key: Vec<usize>,
    /// Its rows are arranged as they come: it is a table, or rows of it may be taken away.
    pub kept: bool,
    /// How long its rows by primary key are remembered.
    pub memory: Memory,
}

/// Renders plans into one dataflow.
pub struct Renderer<'s, 'r> {
    scope: TimelyScope<'s, Time>,
    as_of: Time,
    registry: &'r mut Registry,
    /// Where what is arranged here is noted for others; None for a dataflow that is soon gone.
    publish: Option<u64>,
    view: String,
    relations: HashMap<RelationId, Relation>,
    pub inputs: HashMap<RelationId, RelationInput>,
    pub imported: Vec<ShutdownButton<CapabilitySet<Time>>>,
    pub depends: BTreeSet<u64>,
    pub probe: ProbeHandle<Time>,
    /// What moves with engine time although no rows come with it.
    clock: Option<(ClockInput, Stream<'s, Time, Updates>)>,
    columns: HashMap<RelationId, Columns<'s>>,
    collections: HashMap<(Fingerprint, usize), Collection<'s>>,
    arrangements: HashMap<Fingerprint, Arrangeds<'s>>,
    errors: HashMap<ErrorSource, Stream<'s, Time, Updates>>,
}

impl<'s, 'r> Renderer<'s, 'r> {
    pub fn new(
        scope: TimelyScope<'s, Time>,
        as_of: Time,
        registry: &'r mut Registry,
        publish: Option<u64>,
        relations: Vec<Relation>,
    ) -> Self {
        Renderer {
            scope,
            as_of,
            registry,
            publish,
            view: String::new(),
            relations: relations.into_iter().map(|relation| (relation.id, relation)).collect(),
            inputs: HashMap::new(),
            imported: Vec::new(),
            depends: BTreeSet::new(),
            probe: ProbeHandle::new(),
            clock: None,
            columns: HashMap::new(),
            collections: HashMap::new(),
            arrangements: HashMap::new(),
            errors: HashMap::new(),
        }
    }

    /// The clock's input, if something was rendered that goes by it.
    pub fn take_clock(&mut self) -> Option<ClockInput> {
        self.clock.take().map(|(input, _)| input)
    }

    /// What is rendered from now on is needed first by this view or job.
    pub fn begin_view(&mut self, name: &str) {
        name.clone_into(&mut self.view);
    }

    /// The rows of a plan, split into a key of that many columns and the rest.
    pub fn collection(&mut self, plan: &Plan, key: usize) -> Result<Collection<'s>> {
        let cached = (plan.fingerprint(), key);
        if let Some(collection) = self.collections.get(&cached) {
            return Ok(collection.clone());
        }
        let whole = whole_rows(plan);
        let (collection, natural) = if self.is_arranged(&whole) {
            let kept = self.arrangement(&whole, "Whole rows")?;
            (self.flat(kept)?, whole.key)
        } else {
            self.node(plan, key, Expiries::Loud)?
        };
        let collection = if natural == key { collection } else { resplit(collection, plan.row(), key) };
        self.collections.insert(cached, collection.clone());
        Ok(collection)
    }

    /// Keeps a plan's rows, whole, so that they can be read later.
    pub fn keep(&mut self, plan: &Plan) -> Result<BTreeSet<ErrorSource>> {
        Ok(self.arrangement(&whole_rows(plan), "Whole rows")?.errors)
    }

    /// The stream of all errors of these sources.
    pub fn errors(&mut self, sources: &BTreeSet<ErrorSource>) -> Result<Stream<'s, Time, Updates>> {
        let streams = sources.iter().map(|source| self.error_stream(*source)).collect::<Result<Vec<_>>>()?;
        let nothing = timely::dataflow::operators::generic::operator::empty(self.scope);
        Ok(self.scope.concatenate(streams.into_iter().chain([nothing])))
    }

    fn error_stream(&mut self, source: ErrorSource) -> Result<Stream<'s, Time, Updates>> {
        if let Some(stream) = self.errors.get(&source) {
            return Ok(stream.clone());
        }
        let Some(trace) = self.registry.errors.get(&source) else {
            return Err(Error::invalid("an arrangement names an error source that is gone"));
        };
        let mut trace = trace.clone();
        self.depends.insert(source.1);
        let (arranged, button) = trace.import_core(self.scope, "Import errors");
        self.imported.push(button);
        let stream = flatten(arranged, "Errors", self.as_of);
        self.errors.insert(source, stream.clone());
        Ok(stream)
    }

    /// The error source that an operator of this dataflow is.
    fn own(&self, operator: Fingerprint) -> ErrorSource {
        (operator, self.publish.unwrap_or(u64::MAX))
    }

    /// Arranges the errors of an operator and makes them a source.
    fn error_source(&mut self, operator: Fingerprint, errors: Stream<'s, Time, Updates>) -> BTreeSet<ErrorSource> {
        let source = self.own(operator);
        // An error's key is its message.
        let keyed = join::map_containers(errors, |updates| updates);
        let arranged = arrange_rows(keyed, "Arrange errors");
        arranged.stream.clone().probe_with(&self.probe);
        if self.publish.is_some() {
            self.registry.errors.insert(source, arranged.trace.clone());
        }
        self.errors.insert(source, flatten(arranged, "Errors", self.as_of));
        BTreeSet::from([source])
    }

    /// Renders a node; gives its rows and the key by which they are split. Where expiries are silent, an operator over groups
    /// gives no changes for those.
    fn node(&mut self, plan: &Plan, key: usize, expiries: Expiries) -> Result<(Collection<'s>, usize)> {
        Ok(match plan.node() {
            Node::Get { id, name, .. } => self.get(plan, *id, name, key)?,
            Node::Constant { rows, diffs } => (self.constant(plan, rows, diffs, key)?, key),
            Node::Linear { input, .. } => (self.linear(plan, input, key)?, key),
            Node::Union { inputs } => {
                let inputs = inputs.iter().map(|input| self.collection(input, key)).collect::<Result<Vec<_>>>()?;
                let errors = inputs.iter().flat_map(|input| input.errors.iter().copied()).collect();
                (Collection { rows: self.scope.concatenate(inputs.into_iter().map(|input| input.rows)), errors }, key)
            }
            Node::Temporal { input, validity } => (self.temporal(plan, input, validity)?, plan.row().len()),
            Node::Negate { input } => {
                let input = self.collection(input, key)?;
                (Collection { rows: join::negate(input.rows), errors: input.errors }, key)
            }
            Node::Join { kind, left, right } => (self.join(*kind, left, right)?, left.key),
            Node::AsOf { outer, strict, left, right } => (self.asof(*outer, *strict, left, right)?, left.key),
            Node::Reduce { parts, .. } => {
                let inputs = parts.iter().map(|part| self.arrangement(&part.input, "Reduce")).collect::<Result<Vec<_>>>()?;
                let mut sources: BTreeSet<_> = inputs.iter().flat_map(|input| input.errors.iter().copied()).collect();
                let kept = inputs.into_iter().map(|input| input.kept).collect();
                let (rows, errors) = reduce(self.scope, plan, kept, self.as_of, expiries)?;
                sources.extend(self.error_source(plan.fingerprint(), errors));
                (Collection { rows, errors: sources }, parts[0].input.key)
            }
            Node::TopK { input, offset, limit, rank, expose } => {
                let values = input.input.row().columns[input.key..].to_vec();
                let logic = TopK { offset: *offset, limit: *limit, rank: *rank, expose: *expose, values };
                let arranged = self.arranged_rows(input, "TopK")?;
                let (rows, errors) = per_group(arranged.0, "TopK", self.as_of, expiries, logic);
                let mut sources = arranged.1;
                if *rank != crate::plan::Rank::RowNumber {
                    sources.extend(self.error_source(plan.fingerprint(), errors));
                }
                (Collection { rows, errors: sources }, input.key)
            }
            Node::Window { input, functions } => {
                let outputs = RowType::new(functions.iter().map(|function| function.column.clone()));
                let logic = Window {
                    functions: functions.clone(),
                    rows: Codec::new(input.input.row(), input.key)?,
                    outputs: Codec::new(&outputs, 0)?,
                };
                let arranged = self.arranged_rows(input, "Window")?;
                let (rows, errors) = per_group(arranged.0, "Window", self.as_of, expiries, logic);
                let mut sources = arranged.1;
                sources.extend(self.error_source(plan.fingerprint(), errors));
                (Collection { rows, errors: sources }, input.key)
            }
            Node::Remember { input } => {
                let arranged = self.arrangement(input, "Remember")?;
                (self.flat(arranged)?, input.key)
            }
            Node::Settle { input, policy, expiry } => self.settle(plan, input, *policy, *expiry, key)?,
            Node::Threshold { input, kind } => {
                let arranged = self.arrangement(input, "Threshold")?;
                let Held::Sums(sums) = arranged.kept else {
                    return Err(Error::invalid("a Threshold reads an arrangement of sums"));
                };
                (Collection { rows: threshold(sums, "Threshold", self.as_of, *kind, expiries), errors: arranged.errors }, input.key)
            }
        })
    }

    /// What consumers see of an operator over inputs that expire, and the key by which it is split.
    fn settle(&mut self, plan: &Plan, input: &Plan, policy: Policy, expiry: Expiry, key: usize) -> Result<(Collection<'s>, usize)> {
        let as_of = self.as_of;
        match (policy, expiry) {
            (Policy::Retract, _) => {
                let Collection { rows, errors } = self.collection(input, key)?;
                Ok((Collection { rows: settle::showing(rows, as_of), errors }, key))
            }
            (Policy::Forget, Expiry::Groups { .. }) => self.node(input, key, Expiries::Silent),
            (Policy::Forget | Policy::Keep, Expiry::Removes) => {
                let Collection { rows, errors } = self.collection(input, key)?;
                Ok((Collection { rows: settle::without_expiries(rows, as_of), errors }, key))
            }
            (Policy::Forget | Policy::Keep, Expiry::Adds) => {
                let width = input.row().len();
                let Collection { rows, errors } = self.collection(input, width)?;
                Ok((Collection { rows: settle::owing(rows, as_of), errors }, width))
            }
            (Policy::Keep, Expiry::Groups { key }) => {
                let Collection { rows, errors } = self.collection(input, key)?;
                let news = self.news(input)?;
                let columns = &input.row().columns[..key];
                let rows = self.with_kept_answers(rows, news, plan.fingerprint(), crate::plan::operator(input.node()), columns)?;
                Ok((Collection { rows, errors }, key))
            }
        }
    }

    /// The keys of an operator's groups when they are written to, where its rows may not tell: a top-N that skips the first
    /// rows is empty over a group that has few, and an aggregate that is always there may be over some rows what it is over none.
    fn news(&mut self, plan: &Plan) -> Result<Option<Stream<'s, Time, Updates>>> {
        let (arrangement, operator) = match plan.node() {
            Node::TopK { input, offset: 1.., .. } => (input, "TopK"),
            Node::Reduce { parts, always, .. } if !always.is_empty() => (&parts[0].input, "Reduce"),
            _ => return Ok(None),
        };
        Ok(Some(match self.arrangement(arrangement, operator)?.kept {
            Held::Rows(rows) => written(rows, self.as_of),
            Held::Sums(sums) => written(sums, self.as_of),
        }))
    }

    /// The rows that a temporal filter lets pass, keyed by all of their columns. It goes on with the clock, whatever it reads.
    fn temporal(&mut self, plan: &Plan, input: &Plan, validity: &Validity) -> Result<Collection<'s>> {
        let width = plan.row().len();
        let Collection { rows, errors } = self.collection(input, width)?;
        let ticking = self.ticking();
        let rows = self.scope.concatenate([rows, ticking]);
        Ok(Collection { rows: temporal(rows, input.row(), width, validity.clone(), !input.only_appends())?, errors })
    }

    /// No rows, up to the present time.
    fn ticking(&mut self) -> Stream<'s, Time, Updates> {
        let (_, stream) = self.clock.get_or_insert_with(|| self.scope.new_input_with_builder::<UpdatesBuilder>());
        stream.clone()
    }

    fn linear(&mut self, plan: &Plan, input: &Plan, key: usize) -> Result<Collection<'s>> {
        let (feed, mut errors) = self.feed(input)?;
        let encode = Encode { codec: Codec::new(plan.row(), key)?, made: vec![] };
        let (rows, failed) = columnar(feed, Some(plan.clone()), "Linear", encode);
        if can_fail(plan) {
            errors.extend(self.error_source(plan.fingerprint(), failed));
        }
        Ok(Collection { rows, errors })
    }

    /// A plan's rows for a linear operator: as columns where they come from a source as such.
    fn feed(&mut self, plan: &Plan) -> Result<(Feed<'s>, BTreeSet<ErrorSource>)> {
        if let Node::Get { id, .. } = plan.node()
            && self.is_stream(*id)
            && !self.is_arranged(&whole_rows(plan))
        {
            let (columns, errors) = self.source(plan, *id)?;
            return Ok((Feed::Columns(columns), errors));
        }
        let input = self.collection(plan, 0)?;
        Ok((Feed::Rows(input.rows, Codec::new(plan.row(), 0)?), input.errors))
    }

    fn get(&mut self, plan: &Plan, id: RelationId, name: &str, key: usize) -> Result<(Collection<'s>, usize)> {
        if let Some(kept) = self.kept(id) {
            return self.kept_relation(plan, &kept);
        }
        if !self.relations.contains_key(&id) {
            return Err(Error::invalid(format!("the plan gets '{name}', which is not among its inputs")));
        }
        let (columns, errors) = self.source(plan, id)?;
        let encode = Encode { codec: Codec::new(plan.row(), key)?, made: vec![] };
        let (rows, _) = columnar(Feed::Columns(columns), None, "Encode", encode);
        Ok((Collection { rows, errors }, key))
    }

    /// How a relation's rows are arranged as they come, if they are.
    fn kept(&self, id: RelationId) -> Option<Kept> {
        self.registry.kept(id).cloned().or_else(|| self.relations.get(&id)?.kept_as())
    }

    /// The rows, in declared order, of a relation that is arranged with its key in front.
    fn kept_relation(&mut self, plan: &Plan, kept: &Kept) -> Result<(Collection<'s>, usize)> {
        let arranged = self.arrangement(&kept.arrangement, "Get")?;
        let mut flat = self.flat(arranged)?;
        if kept.arrangement.retention.is_some() {
            flat.rows = self.settled_relation(flat.rows, &kept.arrangement)?;
        }
        match &kept.restore {
            None => Ok((flat, kept.arrangement.key)),
            Some(restore) => {
                let feed = Feed::Rows(flat.rows, Codec::new(kept.arrangement.input.row(), 0)?);
                let encode = Encode { codec: Codec::new(plan.row(), 0)?, made: vec![] };
                let (rows, _) = columnar(feed, Some(restore.clone()), "Restore", encode);
                Ok((Collection { rows, errors: flat.errors }, 0))
            }
        }
    }

    /// What consumers see of a relation whose rows by primary key expire.
    fn settled_relation(&mut self, rows: Stream<'s, Time, Updates>, by_key: &Arrangement) -> Result<Stream<'s, Time, Updates>> {
        match by_key.memory.policy {
            Policy::Retract => Ok(settle::showing(rows, self.as_of)),
            Policy::Forget => Ok(settle::without_expiries(rows, self.as_of)),
            Policy::Keep => self.with_kept_answers(rows, None, by_key.fingerprint(), "Get", &by_key.input.row().columns[..by_key.key]),
        }
    }

    /// An operator's rows with what stands of answers that were forgotten: what is published of it.
    fn with_kept_answers(
        &mut self,
        rows: Stream<'s, Time, Updates>,
        news: Option<Stream<'s, Time, Updates>>,
        of: Fingerprint,
        operator: &str,
        key: &[Column],
    ) -> Result<Stream<'s, Time, Updates>> {
        let id = of.derived("kept");
        let kept = match self.existing(id)? {
            Some(kept) => kept,
            None => {
                let kept = settle::keeping(rows.clone(), news, self.as_of);
                let label = Label {
                    view: self.view.clone(),
                    operator: format!("{operator} (kept answers)"),
                    input: None,
                    key: names(key),
                    scope: Scope::Group,
                    memory: Memory::default(),
                };
                self.note(id, Held::Rows(kept), BTreeSet::new(), label, None)
            }
        };
        let kept = self.flat(kept)?.rows;
        Ok(settle::without_expiries(self.scope.concatenate([rows, kept]), self.as_of))
    }

    /// A source's rows as they come, and its errors.
    fn source(&mut self, plan: &Plan, id: RelationId) -> Result<(Columns<'s>, BTreeSet<ErrorSource>)> {
        let source = self.own(plan.fingerprint());
        if let Some(columns) = self.columns.get(&id) {
            return Ok((columns.clone(), BTreeSet::from([source])));
        }
        let (rows, columns) = self.scope.new_input::<Vec<ColumnBatch>>();
        let (errors, error_stream) = self.scope.new_input_with_builder::<UpdatesBuilder>();
        self.inputs.insert(id, RelationInput { rows, errors });
        self.columns.insert(id, columns.clone());
        let errors = self.error_source(plan.fingerprint(), error_stream);
        Ok((columns, errors))
    }

    fn constant(&mut self, plan: &Plan, rows: &arrow::array::RecordBatch, diffs: &[i64], key: usize) -> Result<Collection<'s>> {
        let mut made = Vec::new();
        if self.scope.worker().index() == 0 {
            Codec::new(plan.row(), key)?.encode(rows, |row| (self.as_of, diffs[row]), |updates| made.push(updates))?;
        }
        let rows = timely::dataflow::operators::generic::operator::source(self.scope, "Constant", move |capability, _| {
            let mut capability = Some(capability);
            move |output: &mut timely::dataflow::operators::generic::OutputBuilderSession<
                '_,
                Time,
                timely::container::NoopBuilder<Updates>,
            >| {
                if let Some(capability) = capability.take() {
                    let mut session = output.session_with_builder(&capability);
                    made.iter_mut().for_each(|updates| session.give_container(updates));
                }
            }
        });
        Ok(Collection { rows, errors: BTreeSet::new() })
    }

    fn join(&mut self, kind: JoinKind, left: &Arrangement, right: &Arrangement) -> Result<Collection<'s>> {
        let (l, left_errors) = self.arranged_rows(left, "Join")?;
        let (r, right_errors) = self.arranged_rows(right, "Join")?;
        let errors = left_errors.union(&right_errors).copied().collect();
        let as_of = self.as_of;
        let nulls = |side: &Arrangement| null_row(&side.input.row().columns[side.key..]);
        let rows = match kind {
            JoinKind::Inner => join::inner(l, r, "Join", as_of),
            JoinKind::Semi => join::inner(l, self.keys(right, r), "Semi join", as_of),
            JoinKind::Anti => join::anti(l, self.keys(right, r), as_of),
            JoinKind::Left | JoinKind::Right | JoinKind::Full => {
                let mut streams = vec![join::inner(l.clone(), r.clone(), "Join", as_of)];
                if kind != JoinKind::Right {
                    let keys = self.keys(right, r.clone());
                    streams.push(join::pad(join::anti(l.clone(), keys, as_of), vec![], nulls(right)?));
                }
                if kind != JoinKind::Left {
                    let keys = self.keys(left, l);
                    streams.push(join::pad(join::anti(r, keys, as_of), nulls(left)?, vec![]));
                }
                self.scope.concatenate(streams)
            }
        };
        Ok(Collection { rows, errors })
    }

    fn asof(&mut self, outer: bool, strict: bool, left: &Arrangement, right: &Arrangement) -> Result<Collection<'s>> {
        let (l, left_errors) = self.arranged_rows(left, "AsOf")?;
        let (r, right_errors) = self.arranged_rows(right, "AsOf")?;
        let values = |side: &Arrangement| side.input.row().columns[side.key..].to_vec();
        let width = match (values(left).first(), values(right).first()) {
            (Some(left), Some(right)) if left.data_type == right.data_type && left.sort.descending != right.sort.descending => {
                fixed_len(left)
            }
            _ => None,
        };
        let width =
            width.ok_or_else(|| Error::invalid("an AsOf reads times of one type and a fixed length, sorted in opposite directions"))?;
        let absent = outer.then(|| null_row(&values(right))).transpose()?;
        let rows = asof(l, r, self.as_of, Matching { width, strict, absent });
        Ok(Collection { rows, errors: left_errors.union(&right_errors).copied().collect() })
    }

    /// The distinct keys of a join's side, arranged; shared by all joins that ask for them.
    fn keys(
        &mut self,
        side: &Arrangement,
        arranged: Arranged<'s, crate::row::spine::RowTrace>,
    ) -> Arranged<'s, crate::row::spine::RowTrace> {
        let (counts_id, keys_id) = (side.fingerprint().derived("key counts"), side.fingerprint().derived("keys"));
        if let Ok(Some(Arrangeds { kept: Held::Rows(keys), .. })) = self.existing(keys_id) {
            return keys;
        }
        let columns: Vec<Column> = side.input.row().columns[..side.key].to_vec();
        let counts = join::key_counts(arranged, self.as_of);
        self.note(counts_id, Held::Sums(counts.clone()), BTreeSet::new(), self.derived_label("Join (key counts)", side, &columns), None);
        let keys = join::distinct_keys(counts, self.as_of);
        self.note(keys_id, Held::Rows(keys.clone()), BTreeSet::new(), self.derived_label("Join (keys)", side, &columns), None);
        keys
    }

    fn arranged_rows(
        &mut self,
        arrangement: &Arrangement,
        operator: &str,
    ) -> Result<(Arranged<'s, crate::row::spine::RowTrace>, BTreeSet<ErrorSource>)> {
        match self.arrangement(arrangement, operator)? {
            Arrangeds { kept: Held::Rows(rows), errors } => Ok((rows, errors)),
            Arrangeds { kept: Held::Sums(_), .. } => Err(Error::invalid(format!("a {operator} reads an arrangement of rows"))),
        }
    }

    fn flat(&mut self, arranged: Arrangeds<'s>) -> Result<Collection<'s>> {
        match arranged.kept {
            Held::Rows(rows) => Ok(Collection { rows: flatten(rows, "Flatten", self.as_of), errors: arranged.errors }),
            Held::Sums(_) => Err(Error::invalid("sums cannot be read as rows")),
        }
    }

    /// Whether an arrangement is there.
    pub fn has(&self, arrangement: &Arrangement) -> bool {
        self.is_arranged(arrangement)
    }

    /// Whether a relation is a source whose rows nothing arranges.
    pub fn is_stream(&self, id: RelationId) -> bool {
        self.relations.contains_key(&id) && self.kept(id).is_none()
    }

    fn is_arranged(&self, arrangement: &Arrangement) -> bool {
        let id = arrangement.fingerprint();
        self.arrangements.contains_key(&id) || self.registry.entries.contains_key(&id)
    }

    /// An arrangement that is there: in this dataflow, or kept by another.
    fn existing(&mut self, id: Fingerprint) -> Result<Option<Arrangeds<'s>>> {
        if let Some(arranged) = self.arrangements.get(&id) {
            return Ok(Some(arranged.clone()));
        }
        let Some(entry) = self.registry.entries.get(&id) else { return Ok(None) };
        self.depends.insert(entry.dataflow);
        let errors = entry.errors.clone();
        let (kept, button) = match entry.trace.clone() {
            Trace::Rows(mut trace) => {
                let (arranged, button) = trace.import_core(self.scope, "Import");
                (Held::Rows(arranged), button)
            }
            Trace::Sums(mut trace) => {
                let (arranged, button) = trace.import_core(self.scope, "Import");
                (Held::Sums(arranged), button)
            }
        };
        self.imported.push(button);
        let arranged = Arrangeds { kept, errors };
        self.arrangements.insert(id, arranged.clone());
        Ok(Some(arranged))
    }

    /// An arrangement, made if it is not there.
    fn arrangement(&mut self, arrangement: &Arrangement, operator: &str) -> Result<Arrangeds<'s>> {
        let id = arrangement.fingerprint();
        if let Some(arranged) = self.existing(id)? {
            return Ok(arranged);
        }
        let label = self.label(operator, arrangement, &arrangement.input.row().columns[..arrangement.key]);
        if let Some((arranged, keeper)) = self.relation_as_it_comes(arrangement)? {
            return Ok(self.note(id, arranged.kept, arranged.errors, label, keeper));
        }
        let (kept, errors, keeper) = match &arrangement.layout {
            Layout::Rows => {
                let input = self.collection(&arrangement.input, arrangement.key)?;
                let (rows, keeper) = self.arrange_rows(input.rows, arrangement.retention);
                (rows, input.errors, keeper)
            }
            Layout::Sums(sums) if sums.is_empty() => {
                let input = self.collection(&arrangement.input, arrangement.key)?;
                // The value columns do not matter: a group is counted by its key.
                let (sums, keeper) = self.arrange_sums(count_rows(input.rows), arrangement.retention);
                (sums, input.errors, keeper)
            }
            Layout::Sums(sums) => {
                let accumulate = Accumulate::new(arrangement.input.row(), arrangement.key, sums)?;
                // A linear operator below an aggregate need not encode what would be decoded again.
                let (feed, mut errors, linear) = match arrangement.input.node() {
                    Node::Linear { input, .. } if !self.is_arranged(&whole_rows(&arrangement.input)) => {
                        let (feed, errors) = self.feed(input)?;
                        (feed, errors, Some(arrangement.input.clone()))
                    }
                    _ => {
                        let (feed, errors) = self.feed(&arrangement.input)?;
                        (feed, errors, None)
                    }
                };
                let fallible = linear.as_ref().is_some_and(can_fail);
                let (partial, failed) = columnar(feed, linear, "Accumulate", accumulate);
                if fallible {
                    errors.extend(self.error_source(arrangement.input.fingerprint().derived("accumulated"), failed));
                }
                let (sums, keeper) = self.arrange_sums(partial, arrangement.retention);
                (sums, errors, keeper)
            }
        };
        Ok(self.note(id, kept, errors, label, keeper))
    }

    fn arrange_rows(&self, rows: Stream<'s, Time, Updates>, retention: Option<Retention>) -> (Held<'s>, Option<Keeper>) {
        match retention {
            None => (Held::Rows(arrange_rows(rows, "Arrange")), None),
            Some(retention) => {
                let (arranged, keeper) = arrange_retained(rows, retention, Writes::Updates, "Arrange, and forget");
                (Held::Rows(arranged), Some(keeper))
            }
        }
    }

    fn arrange_sums(&self, sums: Stream<'s, Time, SumUpdates>, retention: Option<Retention>) -> (Held<'s>, Option<Keeper>) {
        match retention {
            None => (Held::Sums(arrange_sums(sums, "Arrange sums")), None),
            Some(retention) => {
                let (arranged, keeper) = arrange_retained(sums, retention, Writes::Updates, "Arrange sums, and forget");
                (Held::Sums(arranged), Some(keeper))
            }
        }
    }

    /// The arrangement that a relation's rows are in as they come, if that is what is asked for: with a primary key rows
    /// replace one another in it, without one a row that is there less than zero times is an error.
    fn relation_as_it_comes(&mut self, arrangement: &Arrangement) -> Result<Option<(Arrangeds<'s>, Option<Keeper>)>> {
        let Some((get, id)) = relation_of(&arrangement.input) else { return Ok(None) };
        let Some(relation) = self.relations.get(&id).cloned() else { return Ok(None) };
        let Some(kept) = relation.kept_as() else { return Ok(None) };
        if kept.arrangement.fingerprint() != arrangement.fingerprint() {
            return Ok(None);
        }
        let (columns, mut errors) = self.source(get, id)?;
        let linear = matches!(arrangement.input.node(), Node::Linear { .. }).then(|| arrangement.input.clone());
        let encode = Encode { codec: Codec::new(arrangement.input.row(), arrangement.key)?, made: vec![] };
        let (rows, _) = columnar(Feed::Columns(columns), linear, "Encode", encode);
        let mut keeper = None;
        let arranged = if let Some(retention) = arrangement.retention {
            let (arranged, forgetting) = arrange_retained(rows, retention, Writes::Upserts, "Upsert, and forget");
            keeper = Some(forgetting);
            arranged
        } else if relation.primary_key.is_empty() {
            let arranged = arrange_rows(rows, "Arrange");
            let below_zero = guard(arranged.clone(), relation.name.clone(), Codec::new(&relation.row, 0)?, self.as_of);
            errors.extend(self.error_source(arrangement.fingerprint().derived("below zero"), below_zero));
            arranged
        } else {
            upsert(rows, "Upsert")
        };
        if self.publish.is_some() {
            self.registry.keep(id, kept);
        }
        Ok(Some((Arrangeds { kept: Held::Rows(arranged), errors }, keeper)))
    }

    /// Makes a table's input and arrangement, for all dataflows to come.
    pub fn table(&mut self, relation: &Relation) -> Result<()> {
        let kept = relation.kept_as().ok_or_else(|| Error::invalid(format!("table '{}' keeps no rows", relation.name)))?;
        self.begin_view(&relation.name);
        self.arrangement(&kept.arrangement, "Get").map(drop)
    }

    fn label(&self, operator: &str, arrangement: &Arrangement, key: &[Column]) -> Label {
        Label {
            view: self.view.clone(),
            operator: operator.to_owned(),
            input: arrangement.name.clone(),
            key: names(key),
            scope: match arrangement.retention {
                Some(retention) => retention.scope,
                None if operator.starts_with("Join") || operator == "AsOf" || operator == "Get" => Scope::Row,
                None => Scope::Group,
            },
            memory: match arrangement.bound() {
                Bound::Retention | Bound::Nothing(_) => arrangement.memory.clone(),
                Bound::Input | Bound::Filter => Memory { origin: Origin::Reads, ..Memory::default() },
            },
        }
    }

    /// The label of what is derived from a join's side and forgets as that does.
    fn derived_label(&self, operator: &str, side: &Arrangement, key: &[Column]) -> Label {
        let label = self.label(operator, side, key);
        let origin = if side.bound() == Bound::Retention { Origin::Reads } else { label.memory.origin };
        Label { input: None, memory: Memory { origin, ..Memory::default() }, ..label }
    }

    /// Notes an arrangement that has been made.
    fn note(
        &mut self,
        id: Fingerprint,
        kept: Held<'s>,
        errors: BTreeSet<ErrorSource>,
        label: Label,
        keeper: Option<Keeper>,
    ) -> Arrangeds<'s> {
        let trace = match &kept {
            Held::Rows(arranged) => {
                arranged.stream.clone().probe_with(&self.probe);
                Trace::Rows(arranged.trace.clone())
            }
            Held::Sums(arranged) => {
                arranged.stream.clone().probe_with(&self.probe);
                Trace::Sums(arranged.trace.clone())
            }
        };
        if let Some(dataflow) = self.publish {
            self.registry.entries.insert(id, Entry { trace, errors: errors.clone(), dataflow, label, keeper });
        }
        let arranged = Arrangeds { kept, errors };
        self.arrangements.insert(id, arranged.clone());
        arranged
    }
}

impl Relation {
    /// The plan that gets this relation.
    pub fn get(&self) -> Plan {
        Plan::new(Node::Get { id: self.id, name: self.name.clone(), flow: self.flow() }, self.row.clone())
    }

    fn flow(&self) -> Flow {
        if self.kept || !self.primary_key.is_empty() { Flow::Changes } else { Flow::Appends }
    }

    /// How its rows are arranged as they come, if they are.
    pub fn kept_as(&self) -> Option<Kept> {
        match (self.primary_key.as_slice(), self.kept) {
            ([], false) => None,
            ([], true) => Some(Kept { arrangement: whole_rows(&self.get()), restore: None }),
            (key, _) => Some(by_primary_key(&self.get(), key, &self.memory)),
        }
    }
}

/// How a relation's rows are arranged as they come.
#[derive(Clone)]
pub struct Kept {
    pub arrangement: Arrangement,
    /// What puts the columns back in their declared order, if the key's are not in front.
    restore: Option<Plan>,
}

/// A relation's rows by its primary key, whose columns are brought to the front.
fn by_primary_key(get: &Plan, primary_key: &[usize], memory: &Memory) -> Kept {
    let columns = &get.row().columns;
    let order: Vec<usize> = primary_key.iter().copied().chain((0..columns.len()).filter(|c| !primary_key.contains(c))).collect();
    let arranged = |input: Plan| Arrangement {
        retention: memory.retention(Scope::Group),
        memory: memory.clone(),
        ..Arrangement::rows(input, primary_key.len())
    };
    if order.iter().enumerate().all(|(index, column)| index == *column) {
        return Kept { arrangement: arranged(get.clone()), restore: None };
    }
    let permuted = pick(get.clone(), &order);
    let back: Vec<usize> = (0..order.len()).map(|column| order.iter().position(|c| *c == column).unwrap_or(column)).collect();
    let restore = pick(permuted.clone(), &back);
    Kept { arrangement: arranged(permuted), restore: Some(restore) }
}

/// A projection that does nothing but pick columns.
fn pick(input: Plan, order: &[usize]) -> Plan {
    use datafusion_physical_expr::expressions::Column as ColumnExpr;
    let columns: Vec<Column> = order.iter().map(|column| input.row().columns[*column].clone()).collect();
    let exprs = order.iter().zip(&columns).map(|(index, column)| {
        let expr: crate::plan::Scalar = std::sync::Arc::new(ColumnExpr::new(&column.name, *index));
        (expr, column.clone())
    });
    let steps = vec![Step::Project(exprs.collect())];
    Plan::new(Node::Linear { input, steps }, RowType::new(columns))
}

/// The relation that a plan gets, as it is or with its columns picked in another order.
fn relation_of(plan: &Plan) -> Option<(&Plan, RelationId)> {
    match plan.node() {
        Node::Get { id, .. } => Some((plan, *id)),
        Node::Linear { input, .. } => match input.node() {
            Node::Get { id, .. } => Some((input, *id)),
            _ => None,
        },
        _ => None,
    }
}

/// The arrangement of a plan by all of its columns.
pub fn whole_rows(plan: &Plan) -> Arrangement {
    Arrangement::rows(plan.clone(), plan.row().len())
}

/// Whether some row can fail in a linear operator.
fn can_fail(plan: &Plan) -> bool {
    matches!(plan.node(), Node::Linear { steps, .. } if steps.iter().any(Step::can_fail))
}

/// Splits rows anew, by a key of that many columns.
fn resplit<'s>(collection: Collection<'s>, row: &RowType, key: usize) -> Collection<'s> {
    let columns = row.columns.clone();
    let rows = join::map_containers(collection.rows, move |mut updates| {
        let split = updates.split_by(|row| if key == columns.len() { Ok(row.len()) } else { prefix_len(&columns, key, row) });
        debug_assert!(split.is_ok(), "an encoded row has the columns of its type");
        updates
    });
    Collection { rows, errors: collection.errors }
}
