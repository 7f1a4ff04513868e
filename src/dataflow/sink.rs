//! Where changes leave a dataflow: on worker 0, a step at a time, in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::DistributorPact;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::state::{State, States};
use crate::row::{Diff, Time, ToFirst, Updates, UpdatesBuilder};

/// Takes the changes of complete steps. Lives on worker 0.
pub trait Deliver {
    /// The changes of one step: rows as bytes, consolidated, in byte order; never none.
    fn step(&mut self, time: Time, rows: Vec<(Vec<u8>, Diff)>);
    /// The messages of the errors that stand, when they have changed.
    fn errors(&mut self, errors: &BTreeMap<String, Diff>);
    /// All steps before `frontier` have been delivered.
    fn complete(&mut self, frontier: Option<Time>);
}

/// A receiver that can be taken away while the dataflow goes on.
pub type Receiver = Rc<RefCell<Option<Box<dyn Deliver>>>>;

/// Delivers a collection's changes. While errors stand, changes are held back; when none is left, what has come to
/// pass meanwhile is delivered as one step. The stream that is returned carries nothing but progress: what is before
/// its frontier has been delivered.
pub fn deliver<'s>(
    rows: Stream<'s, Time, Updates>,
    errors: Stream<'s, Time, Updates>,
    as_of: Time,
    receiver: Receiver,
    states: &mut States,
) -> Stream<'s, Time, Updates> {
    let place = states.place("Sink");
    let begins = place.begins;
    let shared = Rc::new(RefCell::new(HeldBack::of(&place.found)));
    let saved = Rc::clone(&shared);
    states.keep(place.id(), move || saved.borrow().state());
    let mut builder = OperatorBuilder::new("Sink".to_owned(), rows.scope());
    let to_first = || DistributorPact((|_| ToFirst) as fn(usize) -> ToFirst);
    let mut rows = builder.new_input(rows, to_first());
    let mut errors = builder.new_input(errors, to_first());
    let (output, progress) = builder.new_output::<Updates>();
    builder.build(move |mut capabilities| {
        let mut capability = capabilities.pop();
        let _output: OutputBuilder<Time, NoopBuilder<Updates>> = OutputBuilder::from(output);
        let mut waiting: BTreeMap<Time, (Vec<Updates>, Vec<Updates>)> = BTreeMap::new();
        move |frontiers| {
            rows.for_each(|_, updates| {
                split(std::mem::take(updates), as_of, |time, updates| {
                    // What was there at the beginning of what is restored has been delivered.
                    if time >= begins {
                        waiting.entry(time).or_default().0.push(updates);
                    }
                });
            });
            errors.for_each(|_, updates| {
                split(std::mem::take(updates), as_of, |time, updates| waiting.entry(time).or_default().1.push(updates));
            });
            let frontier = frontiers.iter().filter_map(|f| f.frontier().first().copied()).min();
            while let Some(entry) = waiting.first_entry() {
                if frontier.is_some_and(|frontier| *entry.key() >= frontier) {
                    break;
                }
                let (time, (rows, errors)) = entry.remove_entry();
                if let Some(receiver) = receiver.borrow_mut().as_mut() {
                    shared.borrow_mut().step(time, &rows, &errors, receiver.as_mut());
                }
            }
            if let Some(receiver) = receiver.borrow_mut().as_mut() {
                receiver.complete(frontier);
            }
            match frontier {
                Some(frontier) => capability.iter_mut().filter(|c| *c.time() < frontier).for_each(|c| c.downgrade(&frontier)),
                None => capability = None,
            }
        }
    });
    progress
}

/// Hands on the updates of a container by time.
fn split(updates: Updates, as_of: Time, mut give: impl FnMut(Time, Updates)) {
    let Some(first) = updates.times().first().copied() else { return };
    if updates.times().iter().all(|time| *time == first) {
        give(as_of.max(first), updates);
        return;
    }
    let mut by_time: BTreeMap<Time, Updates> = BTreeMap::new();
    for index in 0..updates.len() {
        let time = as_of.max(updates.time(index));
        by_time.entry(time).or_default().push(updates.key(index), updates.value(index), time, updates.diff(index));
    }
    by_time.into_iter().for_each(|(time, updates)| give(time, updates));
}

/// Rows and errors that are not out.
#[derive(Default)]
struct HeldBack {
    rows: Vec<(Vec<u8>, Diff)>,
    errors: BTreeMap<String, Diff>,
}

impl HeldBack {
    /// The rows that were found. (The errors come again.)
    fn of(found: &State) -> Self {
        let rows = found.apart.iter().flat_map(|rows| (0..rows.len()).map(|index| (rows.row(index).to_vec(), rows.diff(index))));
        HeldBack { rows: rows.collect(), errors: BTreeMap::new() }
    }

    /// The rows, for a checkpoint.
    fn state(&self) -> State {
        let mut all = UpdatesBuilder::default();
        self.rows.iter().for_each(|(row, diff)| all.push(row, &[], 0, *diff));
        State { apart: all.into_containers(), ..State::default() }
    }

    fn step(&mut self, time: Time, rows: &[Updates], errors: &[Updates], receiver: &mut dyn Deliver) {
        self.rows.extend(each(rows).map(|(row, diff)| (row.to_vec(), diff)));
        if !errors.is_empty() {
            for (message, diff) in each(errors) {
                *self.errors.entry(String::from_utf8_lossy(message).into_owned()).or_default() += diff;
            }
            self.errors.retain(|_, count| *count != 0);
            receiver.errors(&self.errors);
        }
        differential_dataflow::consolidation::consolidate(&mut self.rows);
        if self.errors.is_empty() && !self.rows.is_empty() {
            receiver.step(time, std::mem::take(&mut self.rows));
        }
    }
}

/// The rows of some containers, and how many more of each there are.
fn each(containers: &[Updates]) -> impl Iterator<Item = (&[u8], Diff)> {
    containers.iter().flat_map(|updates| (0..updates.len()).map(|index| (updates.row(index), updates.diff(index))))
}
