//! Aggregates: one row a group, from one arrangement or several with the same key.
//!
//! Each *part* reads its own arrangement: sums out of the difference, the first row of a group, or the whole group.
//! The operator goes through the keys that any part's batch changes, a bounded number at a time, asks every part for its
//! value before and after each moment at which one does, finishes the values column-wise, and emits the rows that differ. There is no output
//! trace: the old answer is read from the same arrangements as the new one.

mod finish;
mod parts;

use std::collections::HashSet;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use differential_dataflow::operators::arrange::Arranged;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder as Builder;
use timely::dataflow::{Scope, Stream};
use timely::progress::frontier::{AntichainRef, MutableAntichain};

use super::arrange::{Held, Output as Port};
use super::settle::Expiries;
use super::sweep::TURN;
use crate::error::{Error, Result};
use crate::plan::{Node, PartKind, Plan};
use crate::row::spine::{RowTrace, SumTrace};
use crate::row::{ByteRows, Codec, Time, Updates, UpdatesBuilder, key_hash};
use parts::{First, Part, Recomputed, SumsOf};

/// An arrangement that a part of a reduction reads.
#[derive(Clone)]
pub enum Kept<'s> {
    Rows(Arranged<'s, RowTrace>),
    Sums(Arranged<'s, SumTrace>),
}

/// A part of a reduction at work. States are asked for key by key; each [`PartReader::load`] appends one state for the
/// group before its first moment and one for after each moment.
trait PartReader {
    /// Takes what has come, and notes how far.
    fn receive(&mut self, held: &mut Held, frontier: AntichainRef<'_, Time>);
    /// Begins to work off what happens before `through`; keys are asked for in ascending order until it is closed.
    fn open(&mut self, through: Option<Time>);
    /// The next key that changes in this part.
    fn key(&self) -> Option<&[u8]>;
    /// Goes on to the next key that changes at a moment that is not skipped, as [`PartReader::take`] does; those before it
    /// are done with. False where there is none.
    fn take_next(&mut self, key: &mut Vec<u8>, moments: &mut Vec<Time>, skip: &dyn Fn(&mut Vec<Time>)) -> bool;
    /// If that is the next key: adds the moments at which it changes, and goes on to the one after.
    fn take(&mut self, key: &[u8], moments: &mut Vec<Time>);
    /// Appends the states of a group; says of each whether the group has rows.
    fn load(&mut self, key: &[u8], moments: &[Time], present: &mut Vec<bool>);
    /// The `value`th value of every state since they were last taken.
    fn values(&mut self) -> Result<finish::Values>;
    /// Everything before `through` has been worked off.
    fn close(&mut self, through: Option<Time>);
    /// Whether something is left for later.
    fn is_pending(&self) -> bool;
}

/// Renders a [`Node::Reduce`]; gives rows and errors.
pub fn reduce<'s>(
    scope: Scope<'s, Time>,
    plan: &Plan,
    inputs: Vec<Kept<'s>>,
    as_of: Time,
    expiries: Expiries,
) -> Result<(Stream<'s, Time, Updates>, Stream<'s, Time, Updates>)> {
    let Node::Reduce { parts, outputs, always } = plan.node() else {
        return Err(Error::invalid("only a Reduce can be rendered as one"));
    };
    let key = parts[0].input.key;
    let codec = Codec::new(plan.row(), key)?;
    let always = always_keys(&codec, always, key, &scope)?;

    let mut builder: Builder<'s, Time> = OperatorBuilder::new("Reduce".to_owned(), scope);
    let activator = scope.activator_for(builder.operator_info().address);
    let mut readers: Vec<Box<dyn PartReader>> = Vec::new();
    for (part, kept) in parts.iter().zip(inputs) {
        readers.push(match (&part.kind, kept) {
            (PartKind::Accumulable, Kept::Sums(arranged)) => {
                let input = builder.new_input(arranged.stream, Pipeline);
                Box::new(Part::new(arranged.trace, as_of, input, SumsOf::new(&part.input)))
            }
            (PartKind::First, Kept::Rows(arranged)) => {
                let input = builder.new_input(arranged.stream, Pipeline);
                Box::new(Part::new(arranged.trace, as_of, input, First::new(&part.input)?))
            }
            (PartKind::General(aggregates), Kept::Rows(arranged)) => {
                let input = builder.new_input(arranged.stream, Pipeline);
                Box::new(Part::new(arranged.trace, as_of, input, Recomputed::new(&part.input, aggregates.clone())?))
            }
            _ => return Err(Error::invalid("a part of a Reduce reads an arrangement of another layout")),
        });
    }
    let (output, rows) = builder.new_output();
    let (error_output, errors) = builder.new_output();

    let finishing = Finishing { plan: plan.clone(), outputs: outputs.clone(), codec, key };
    let mut operator = Reduction { readers, finishing, always, as_of, begun: false, sweep: None, expiries, failing: HashSet::new() };
    builder.build(move |capabilities| {
        let (mut output, mut error_output) = (Port::from(output), Port::from(error_output));
        let mut initial = Some(capabilities);
        let mut held = Held::new(2);
        move |frontiers| {
            let frontier = least(frontiers);
            for (reader, frontier) in operator.readers.iter_mut().zip(frontiers) {
                reader.receive(&mut held, frontier.frontier());
            }
            if let Some(capabilities) = initial.take() {
                held.hold_all(capabilities);
            }
            let (mut rows, mut errors) = (UpdatesBuilder::default(), UpdatesBuilder::default());
            let through = operator.work(frontier, &mut rows, &mut errors);
            held.send(0, rows, &mut output);
            held.send(1, errors, &mut error_output);
            let Some(through) = through else { return activator.activate() };
            held.downgrade(if operator.is_pending() { through } else { None });
            if through != frontier {
                activator.activate();
            }
        }
    });
    Ok((rows, errors))
}

/// The least of the inputs' frontiers; None where all are closed.
fn least(frontiers: &[MutableAntichain<Time>]) -> Option<Time> {
    frontiers.iter().filter_map(|frontier| frontier.frontier().first().copied()).min()
}

/// The encoded keys that have a row whether or not the group has any, those that are this worker's.
fn always_keys(codec: &Codec, always: &[arrow::array::RecordBatch], key: usize, scope: &Scope<'_, Time>) -> Result<Vec<Vec<u8>>> {
    let (index, peers) = (scope.worker().index() as u64, scope.worker().peers() as u64);
    let mut keys = Vec::new();
    for batch in always {
        let encoded = codec.encode_keys(&batch.columns()[..key])?;
        for row in 0..batch.num_rows() {
            keys.push(encoded.as_ref().map_or(vec![], |rows| rows.row(row).data().to_vec()));
        }
    }
    keys.retain(|key| key_hash(key) % peers == index);
    keys.sort();
    keys.dedup();
    Ok(keys)
}

struct Reduction {
    readers: Vec<Box<dyn PartReader>>,
    finishing: Finishing,
    always: Vec<Vec<u8>>,
    as_of: Time,
    begun: bool,
    sweep: Option<Progress>,
    expiries: Expiries,
    /// The keys whose row could not be given.
    failing: HashSet<Vec<u8>>,
}

/// How far what has come is worked off.
struct Progress {
    through: Option<Time>,
    /// Whether the groups that are always there come into being, and how many have.
    beginning: bool,
    begun: usize,
}

/// Keys with their states: of each key the state before the first moment at which it changes, then one after each.
#[derive(Default)]
struct Runs {
    keys: ByteRows,
    /// For each key, where its moments begin.
    starts: Vec<usize>,
    moments: Vec<Time>,
    /// For each state, whether it has a row.
    shown: Vec<bool>,
}

impl Runs {
    /// The keys, each with its moments and the number of its first state.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[Time], usize)> {
        (0..self.starts.len()).map(|index| {
            let start = self.starts[index];
            let end = self.starts.get(index + 1).copied().unwrap_or(self.moments.len());
            (self.keys.get(index), &self.moments[start..end], start + index)
        })
    }
}

impl Reduction {
    /// Whether something is left for later.
    fn is_pending(&self) -> bool {
        !self.begun || self.readers.iter().any(|reader| reader.is_pending())
    }

    /// Works off up to a turn's groups of what has come and happens before `frontier`. Gives the time before which all
    /// has been worked off then; None where the rest waits for another turn.
    fn work(&mut self, frontier: Option<Time>, rows: &mut UpdatesBuilder, errors: &mut UpdatesBuilder) -> Option<Option<Time>> {
        if self.sweep.is_none() {
            // What is there from the beginning is worked off as a whole; groups that are always there come into being
            // together with it.
            let is_whole = frontier.is_none_or(|frontier| frontier > self.as_of);
            let beginning = is_whole && !self.begun;
            if is_whole && self.is_pending() {
                self.readers.iter_mut().for_each(|reader| reader.open(frontier));
                self.sweep = Some(Progress { through: frontier, beginning, begun: 0 });
            }
        }
        let Some(mut sweep) = self.sweep.take() else {
            self.readers.iter_mut().for_each(|reader| reader.close(frontier));
            return Some(frontier);
        };
        let (mut runs, mut key, mut moments) = (Runs::default(), Vec::new(), Vec::new());
        let mut groups = 0;
        let done = loop {
            if !self.next(&mut sweep, &mut key, &mut moments) {
                break true;
            }
            if !moments.is_empty() {
                self.load(&key, &moments, &mut runs);
            }
            groups += 1;
            if groups.max(runs.shown.len()) >= TURN {
                break false;
            }
        };
        if !runs.shown.is_empty() {
            let (expiries, as_of) = (self.expiries, self.as_of);
            let is_silent = |time| expiries.hides(time, as_of);
            self.finishing.emit(&mut self.readers, &runs, is_silent, &mut self.failing, rows, errors);
        }
        if !done {
            self.sweep = Some(sweep);
            return None;
        }
        self.begun |= sweep.beginning;
        self.readers.iter_mut().for_each(|reader| reader.close(sweep.through));
        Some(sweep.through)
    }

    /// The next key that changes in any part, and the moments at which it does that have to be looked at.
    fn next(&mut self, sweep: &mut Progress, key: &mut Vec<u8>, moments: &mut Vec<Time>) -> bool {
        if let ([reader], true) = (&mut self.readers[..], self.failing.is_empty() && self.always.is_empty()) {
            let (expiries, as_of) = (self.expiries, self.as_of);
            return reader.take_next(key, moments, &|moments| expiries.skip(moments, as_of));
        }
        let always = self.always.get(sweep.begun).filter(|_| sweep.beginning).map(Vec::as_slice);
        let Some(least) = self.readers.iter().filter_map(|reader| reader.key()).chain(always).min() else { return false };
        key.clear();
        key.extend_from_slice(least);
        moments.clear();
        if always == Some(key) {
            moments.push(self.as_of);
            sweep.begun += 1;
        }
        self.readers.iter_mut().for_each(|reader| reader.take(key, moments));
        if moments.len() > 1 {
            moments.sort_unstable();
            moments.dedup();
        }
        if !self.failing.contains(key) {
            self.expiries.skip(moments, self.as_of);
        }
        true
    }

    /// Loads the states of a key, which changes at these moments.
    fn load(&mut self, key: &[u8], moments: &[Time], runs: &mut Runs) {
        let (start, first_state) = (runs.moments.len(), runs.shown.len());
        runs.moments.extend_from_slice(moments);
        runs.keys.push(key);
        runs.starts.push(start);
        let mut others = Vec::new();
        for (index, reader) in self.readers.iter_mut().enumerate() {
            // The first part sees every row of the group; the others may be filtered.
            reader.load(key, &runs.moments[start..], if index == 0 { &mut runs.shown } else { &mut others });
        }
        if self.always.binary_search_by(|always| always.as_slice().cmp(key)).is_ok() {
            runs.shown[first_state..].fill(true);
            runs.shown[first_state] = self.begun;
        }
    }
}

/// From the parts' values to rows.
struct Finishing {
    plan: Plan,
    outputs: Vec<crate::plan::Output>,
    codec: Codec,
    key: usize,
}

impl Finishing {
    /// Emits what changes at each moment: errors, and rows but for moments that are silent.
    fn emit(
        &self,
        readers: &mut [Box<dyn PartReader>],
        runs: &Runs,
        is_silent: impl Fn(Time) -> bool,
        failing: &mut HashSet<Vec<u8>>,
        rows: &mut UpdatesBuilder,
        errors: &mut UpdatesBuilder,
    ) {
        let states = runs.shown.len();
        let mut failed: Vec<Option<String>> = vec![None; states];
        let encoded = self.columns(readers, states, &mut failed).and_then(|columns| self.codec.encode_values(&columns));
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                failed.iter_mut().for_each(|failed| *failed = Some(error.to_string()));
                None
            }
        };
        let value = |state: usize| encoded.as_ref().map_or(&[][..], |rows| rows.row(state).data());
        for (key, moments, first) in runs.iter() {
            for (step, time) in moments.iter().enumerate() {
                let (old, new) = (first + step, first + step + 1);
                if runs.shown[old] == runs.shown[new] && failed[old] == failed[new] && value(old) == value(new) {
                    continue;
                }
                for (state, diff) in [(old, -1), (new, 1)] {
                    match &failed[state] {
                        _ if !runs.shown[state] => {}
                        None if is_silent(*time) => {}
                        None => rows.push(key, &[value(state)], *time, diff),
                        Some(error) => errors.push(error.as_bytes(), &[], *time, diff),
                    }
                }
            }
            let last = first + moments.len();
            if runs.shown[last] && failed[last].is_some() {
                failing.insert(key.to_vec());
            } else if !failing.is_empty() {
                failing.remove(key);
            }
        }
    }

    /// One array an output, one value a state.
    fn columns(&self, readers: &mut [Box<dyn PartReader>], states: usize, failed: &mut [Option<String>]) -> Result<Vec<ArrayRef>> {
        let values = readers.iter_mut().map(|reader| reader.values()).collect::<Result<Vec<_>>>()?;
        let schema: &Schema = &self.plan.row().schema();
        self.outputs
            .iter()
            .enumerate()
            .map(|(index, output)| values[output.part].finish(&output.finish, schema.field(self.key + index), states, failed))
            .collect()
    }
}
