//! A dataflow's arrangements: found where they are there already, made where they are not, and noted for others.

use std::collections::BTreeSet;

use timely::dataflow::Stream;
use timely::dataflow::operators::core::{Concatenate as _, Probe as _};

use super::{Arrangeds, Collection, ErrorSource, Renderer, can_fail, whole_rows};
use crate::dataflow::accumulate::{Accumulate, count_rows};
use crate::dataflow::arrange::{arrange_rows, arrange_sums, flatten};
use crate::dataflow::columnar::columnar;
use crate::dataflow::reduce::Kept as Held;
use crate::dataflow::registry::{Ask, Entry, Label, Trace, Waiting, own_id, waiting_id};
use crate::dataflow::retain::{Deadlines, Keeper, Writes, arrange_retained};
use crate::error::{Error, Result};
use crate::plan::{Arrangement, Bound, Column, Fingerprint, Layout, Memory, Node, Origin, Plan, Scope, names, operator};
use crate::row::{SumUpdates, Time, Updates};

impl<'s> Renderer<'s, '_> {
    /// Whether an arrangement is there.
    pub fn has(&self, arrangement: &Arrangement) -> bool {
        self.is_arranged(arrangement)
    }

    pub(super) fn is_arranged(&self, arrangement: &Arrangement) -> bool {
        let id = arrangement.fingerprint();
        self.arrangements.contains_key(&id) || self.registry.importable(id, self.publish).is_some()
    }

    /// An arrangement that is there: in this dataflow, or kept by another.
    pub(super) fn existing(&mut self, id: Fingerprint) -> Result<Option<Arrangeds<'s>>> {
        if let Some(arranged) = self.arrangements.get(&id) {
            return Ok(Some(arranged.clone()));
        }
        let Some(entry) = self.registry.importable(id, self.publish) else { return Ok(None) };
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
    pub(super) fn arrangement(&mut self, arrangement: &Arrangement, operator: &str) -> Result<Arrangeds<'s>> {
        let id = arrangement.fingerprint();
        if let Some(arranged) = self.existing(id)? {
            return Ok(arranged);
        }
        let label = self.label(operator, arrangement, &arrangement.input.row().columns[..arrangement.key]);
        if let Some((arranged, keeper)) = self.relation_as_it_comes(arrangement)? {
            return Ok(self.note(id, arranged.kept, arranged.errors, label, keeper));
        }
        let deadlines = arrangement.retention.map(|retention| Deadlines::new(retention, arrangement.input.row()));
        let (kept, errors, keeper) = match &arrangement.layout {
            Layout::Rows => {
                let input = self.collection(&arrangement.input, arrangement.key)?;
                let (rows, keeper) = self.arrange_rows(input.rows, deadlines);
                (rows, input.errors, keeper)
            }
            Layout::Sums(sums) if sums.is_empty() => {
                let input = self.collection(&arrangement.input, arrangement.key)?;
                // The value columns do not matter: a group is counted by its key.
                let (sums, keeper) = self.arrange_sums(count_rows(input.rows), deadlines);
                (sums, input.errors, keeper)
            }
            Layout::Sums(sums) => {
                // What is a sum of others is added up a part at a time.
                let whole = &arrangement.input;
                let summands = match whole.node() {
                    Node::Union { inputs } if !self.is_arranged(&whole_rows(whole)) => inputs.as_slice(),
                    _ => std::slice::from_ref(whole),
                };
                let (mut partial, mut errors) = (vec![], BTreeSet::new());
                for summand in summands {
                    let accumulate = Accumulate::new(summand.row(), arrangement.key, sums)?;
                    let (sums, sources) = self.added_up(summand, accumulate)?;
                    partial.push(sums);
                    errors.extend(sources);
                }
                let (sums, keeper) = self.arrange_sums(self.scope.concatenate(partial), deadlines);
                (sums, errors, keeper)
            }
        };
        Ok(self.note(id, kept, errors, label, keeper))
    }

    /// The sums of a plan's rows, before they are arranged.
    fn added_up(&mut self, plan: &Plan, accumulate: Accumulate) -> Result<(Stream<'s, Time, SumUpdates>, BTreeSet<ErrorSource>)> {
        // A linear operator below an aggregate need not encode what would be decoded again.
        let linear = match plan.node() {
            Node::Linear { input, .. } if !self.is_arranged(&whole_rows(plan)) => Some(input),
            _ => None,
        };
        let (feed, mut errors) = self.feed(linear.unwrap_or(plan))?;
        let linear = linear.is_some().then(|| plan.clone());
        let fallible = linear.as_ref().is_some_and(can_fail);
        let (partial, failed) = columnar(feed, linear, "Accumulate", accumulate);
        if fallible {
            errors.extend(self.error_source(plan.fingerprint().derived("accumulated"), failed));
        }
        Ok((partial, errors))
    }

    fn arrange_rows(&mut self, rows: Stream<'s, Time, Updates>, deadlines: Option<Deadlines>) -> (Held<'s>, Option<Keeper>) {
        match deadlines {
            None => (Held::Rows(arrange_rows(rows, "Arrange", &mut self.states)), None),
            Some(deadlines) => {
                let (arranged, keeper) = arrange_retained(rows, deadlines, Writes::Updates, "Arrange, and forget", &mut self.states);
                (Held::Rows(arranged), Some(keeper))
            }
        }
    }

    fn arrange_sums(&mut self, sums: Stream<'s, Time, SumUpdates>, deadlines: Option<Deadlines>) -> (Held<'s>, Option<Keeper>) {
        match deadlines {
            None => (Held::Sums(arrange_sums(sums, "Arrange sums", &mut self.states)), None),
            Some(deadlines) => {
                let (arranged, keeper) = arrange_retained(sums, deadlines, Writes::Updates, "Arrange sums, and forget", &mut self.states);
                (Held::Sums(arranged), Some(keeper))
            }
        }
    }

    pub(super) fn flat(&mut self, arranged: Arrangeds<'s>) -> Result<Collection<'s>> {
        match arranged.kept {
            Held::Rows(rows) => Ok(Collection { rows: flatten(rows, "Flatten", self.as_of), errors: arranged.errors }),
            Held::Sums(_) => Err(Error::invalid("sums cannot be read as rows")),
        }
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
                Bound::Retention | Bound::Closes(_) | Bound::Nothing(_) => arrangement.memory.clone(),
                Bound::Input | Bound::Filter => Memory { origin: Origin::Reads, ..Memory::default() },
            },
            is_shared: arrangement.closes().is_none(),
        }
    }

    /// The label of what is derived from a join's side and forgets as that does.
    pub(super) fn derived_label(&self, operator: &str, side: &Arrangement, key: &[Column]) -> Label {
        let label = self.label(operator, side, key);
        let origin = if matches!(side.bound(), Bound::Retention | Bound::Closes(_)) { Origin::Reads } else { label.memory.origin };
        Label { input: None, memory: Memory { origin, ..Memory::default() }, ..label }
    }

    /// Notes an operator that holds rows until their time comes.
    pub(super) fn note_waiting(&mut self, plan: &Plan, held: Ask) {
        let Some(dataflow) = self.publish else { return };
        let Some(crate::plan::Waiting { times, .. }) = plan.waiting() else { return };
        let label = || Label {
            view: self.view.clone(),
            operator: operator(plan.node()).to_owned(),
            input: None,
            key: names(times),
            scope: Scope::Row,
            memory: Memory { origin: Origin::Reads, ..Memory::default() },
            is_shared: false,
        };
        let waiting = self.registry.waiting.entry(waiting_id(plan, dataflow));
        waiting.or_insert_with(|| Waiting { dataflow, label: label(), held: vec![] }).held.push(held);
    }

    /// Notes an arrangement that has been made.
    pub(super) fn note(
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
            let id = if label.is_shared { id } else { own_id(id, dataflow) };
            self.registry.entries.insert(id, Entry { trace, errors: errors.clone(), dataflow, label, keeper });
        }
        let arranged = Arrangeds { kept, errors };
        self.arrangements.insert(id, arranged.clone());
        arranged
    }
}
