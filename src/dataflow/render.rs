//! Plans to operators.
//!
//! [`Renderer::collection`] and `Renderer::arrangement` walk a plan from its root. Whatever has the fingerprint of
//! something that is there already (in this dataflow, or as a trace that another dataflow keeps) is taken from there,
//! and what is below it is not rendered at all. `arrangements` has what is found and made
//! that way, `relations` the leaves.

mod arrangements;
mod relations;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use differential_dataflow::operators::arrange::{Arranged, ShutdownButton};
use timely::dataflow::operators::CapabilitySet;
use timely::dataflow::operators::core::Input as _;
use timely::dataflow::operators::core::{Concatenate, Probe};
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::dataflow::{Scope as TimelyScope, Stream};

use super::arrange::{arrange_rows, flatten, written};
use super::asof::{Matching, asof};
use super::columnar::{Encode, Feed, columnar};
use super::delay::delay;
use super::groups::per_group;
use super::join;
use super::reduce::{Kept as Held, reduce};
use super::registry::{Label, Registry};
use super::session::sessions;
use super::settle::{self, Expiries};
use super::state::States;
use super::temporal::temporal;
use super::threshold::threshold;
use super::topk::TopK;
use super::window::Window;
use crate::error::{Error, Result};
use crate::plan::{
    Arrangement, Column, Expiry, Fingerprint, JoinKind, Memory, Node, Plan, Policy, RelationId, RowType, Scope, Step, Validity, names,
    stands_after,
};
use crate::row::{Codec, Time, Updates, UpdatesBuilder, fixed_len, null_row, prefix_len};
use relations::Columns;

pub use relations::{ClockInput, Kept, Relation, RelationInput};

/// An operator on which rows can fail: what it computes, and the dataflow that it is in. (Two dataflows that read one
/// source apart have an error source each.)
pub type ErrorSource = (Fingerprint, u64);

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
    /// What its operators remember.
    pub states: States,
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
        states: States,
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
            states,
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
        self.states.begin_view(name);
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
        let arranged = arrange_rows(keyed, "Arrange errors", &mut self.states);
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
            Node::Window { input, order, functions } => {
                let outputs = RowType::new(functions.iter().map(|function| function.column.clone()));
                let rows = Codec::new(input.input.row(), input.key)?;
                let values = &input.input.row().columns[input.key..];
                let logic = Window::new(functions, rows, Codec::new(&outputs, 0)?, values, *order);
                let logic = logic.forgetting(stands_after(input, functions));
                let arranged = self.arranged_rows(input, "Window")?;
                let (rows, errors) = per_group(arranged.0, "Window", self.as_of, expiries, logic);
                let mut sources = arranged.1;
                sources.extend(self.error_source(plan.fingerprint(), errors));
                (Collection { rows, errors: sources }, input.key)
            }
            Node::Delay { input, column, before_end } => {
                let Collection { rows, errors } = self.collection(input, key)?;
                let columns = &input.row().columns;
                let run_out = Rc::clone(&self.registry.run_out);
                let (rows, held) = delay(rows, columns[..*column].to_vec(), *before_end, run_out, &mut self.states);
                self.note_waiting(plan, held);
                (Collection { rows, errors }, key)
            }
            Node::Session { input, gap } => {
                let (arranged, errors) = self.arranged_rows(input, "Session")?;
                (Collection { rows: sessions(arranged, self.as_of, *gap, expiries), errors }, input.key)
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
            (Policy::Forget, Expiry::Removes) if matches!(input.node(), Node::Window { .. }) => self.node(input, key, Expiries::Silent),
            (Policy::Forget | Policy::Keep, Expiry::Removes) => {
                let Collection { rows, errors } = self.collection(input, key)?;
                Ok((Collection { rows: settle::without_expiries(rows, as_of), errors }, key))
            }
            (Policy::Forget | Policy::Keep, Expiry::Adds) => {
                let width = input.row().len();
                let Collection { rows, errors } = self.collection(input, width)?;
                Ok((Collection { rows: settle::owing(rows, as_of, &mut self.states), errors }, width))
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
        let (rows, held) = temporal(rows, input.row(), width, validity.clone(), !input.only_appends(), &mut self.states)?;
        self.note_waiting(plan, held);
        Ok(Collection { rows, errors })
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
                let kept = settle::keeping(rows.clone(), news, self.as_of, &mut self.states);
                let label = Label {
                    view: self.view.clone(),
                    operator: format!("{operator} (kept answers)"),
                    input: None,
                    key: names(key),
                    scope: Scope::Group,
                    memory: Memory::default(),
                    is_shared: true,
                };
                self.note(id, Held::Rows(kept), BTreeSet::new(), label, None)
            }
        };
        let kept = self.flat(kept)?.rows;
        Ok(settle::without_expiries(self.scope.concatenate([rows, kept]), self.as_of))
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
        let counts = join::key_counts(arranged, self.as_of, &mut self.states);
        self.note(counts_id, Held::Sums(counts.clone()), BTreeSet::new(), self.derived_label("Join (key counts)", side, &columns), None);
        let keys = join::distinct_keys(counts, self.as_of, &mut self.states);
        self.note(keys_id, Held::Rows(keys.clone()), BTreeSet::new(), self.derived_label("Join (keys)", side, &columns), None);
        keys
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
