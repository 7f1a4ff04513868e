//! What consumers see of an operator whose inputs expire.
//!
//! An expiry changes what the operator would answer at a time of the Expire phase (step 0 of an instant), at which nothing
//! else happens. By the policy these changes are shown a step later, or dropped and accounted for:
//!
//! - An expiry that only takes rows away leaves what was published standing. Nothing need be known of it: the operator
//!   will not take away again what it has taken away.
//! - A row that an expiry *adds* (the NULLs of an outer join whose match was forgotten) is *owed*: it is there for the
//!   operator and was never said. When the operator takes it away later, that is not said either ([`owing`]).
//! - What an answer lost stands under `keep` until its group has another: then it is taken back ([`keeping`]).
//!
//! A dataflow begins with everything it finds as one initial step, which is no expiry whatever its time.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use differential_dataflow::operators::arrange::Arranged;
use differential_dataflow::trace::Span;
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{Operator, OutputBuilder, OutputBuilderSession};
use timely::progress::Antichain;

use super::arrange::{give_all, peers};
use super::join::map_containers;
use super::owned::Owned;
use super::state::{State, States};
use crate::engine::time;
use crate::row::batch::{RowBatch, RowStorage};
use crate::row::reader::KeyReader;
use crate::row::spine::{Pending, RowTrace, Sealed};
use crate::row::{ByKey, Diff, Time, Updates, UpdatesBuilder};

/// Whether what happens at a time is an expiry, in a dataflow that begins `as_of` a time.
#[inline]
pub fn is_expiry(time: Time, as_of: Time) -> bool {
    time::step(time) == 0 && time > as_of
}

/// Whether an operator says what changes when a group expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiries {
    Loud,
    /// It need not even look: what was published stands. (Errors go with their groups all the same.)
    Silent,
}

impl Expiries {
    /// Whether the operator does not say what changes at a time.
    pub fn hides(self, time: Time, as_of: Time) -> bool {
        self == Expiries::Silent && is_expiry(time, as_of)
    }

    /// Leaves out of a group's moments the expiries before anything else, which need not be looked at where the group's
    /// answer is no error. One after something else has to be: what is said next is said of what it has left, and the
    /// error goes with it that has come just before.
    pub fn skip(self, moments: &mut Vec<Time>, as_of: Time) {
        let skipped = moments.iter().take_while(|moment| self.hides(**moment, as_of)).count();
        moments.drain(..skipped);
    }
}

/// The changes that are not expiries.
pub fn without_expiries<'s>(stream: Stream<'s, Time, Updates>, as_of: Time) -> Stream<'s, Time, Updates> {
    map_containers(stream, move |updates| {
        if updates.times().iter().all(|time| !is_expiry(*time, as_of)) {
            return updates;
        }
        let mut kept = Updates::default();
        for index in (0..updates.len()).filter(|index| !is_expiry(updates.time(*index), as_of)) {
            kept.push(updates.key(index), updates.value(index), updates.time(index), updates.diff(index));
        }
        kept
    })
}

/// All changes, expiries at the first Data step of their instant.
pub fn showing<'s>(stream: Stream<'s, Time, Updates>, as_of: Time) -> Stream<'s, Time, Updates> {
    map_containers(stream, move |mut updates| {
        updates.retime(|time| if is_expiry(time, as_of) { time + 1 } else { time });
        updates
    })
}

/// The changes that are not expiries, less the removals of rows that only expiries had added. Rows are keyed by all of their
/// columns.
pub fn owing<'s>(stream: Stream<'s, Time, Updates>, as_of: Time, states: &mut States) -> Stream<'s, Time, Updates> {
    let by_row = DistributorPact(ByKey::<Updates>::new as fn(usize) -> ByKey<Updates>);
    match peers(stream.scope()) {
        1 => owing_core(stream, Pipeline, as_of, states),
        _ => owing_core(stream, by_row, as_of, states),
    }
}

fn owing_core<'s, P>(stream: Stream<'s, Time, Updates>, pact: P, as_of: Time, states: &mut States) -> Stream<'s, Time, Updates>
where
    P: timely::dataflow::channels::pact::ParallelizationContract<Time, Updates>,
{
    let place = states.place("Settle");
    let (id, begins) = (place.id(), place.begins);
    let shared = Rc::new(RefCell::new(Owed::of(&place.found)));
    let saved = Rc::clone(&shared);
    states.keep(id, move || saved.borrow().state());
    stream.unary_frontier(pact, "Settle", move |capability, _| {
        let mut capability = Some(capability);
        let mut pending = Pending::<Updates>::since(begins);
        move |(input, frontier), output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            input.for_each(|_, updates| pending.push(std::mem::take(updates)));
            let sealed = pending.seal(frontier.frontier());
            let owed = &mut *shared.borrow_mut();
            if let Some(capability) = &capability {
                let mut said = UpdatesBuilder::default();
                for change in changes(&sealed) {
                    let (row, time, mut diff) = (change.row, change.time, change.diff);
                    if is_expiry(time, as_of) {
                        owed.owe(row, diff);
                        continue;
                    }
                    if diff < 0 && !owed.0.is_empty() {
                        let taken = owed.of_row(row).min(-diff);
                        owed.owe(row, -taken);
                        diff += taken;
                    }
                    if diff != 0 {
                        said.push(row, &[], time, diff);
                    }
                }
                give_all(said, output, capability);
            }
            match frontier.frontier().first() {
                Some(time) => capability.iter_mut().for_each(|capability| capability.downgrade(time)),
                None => capability = None,
            }
        }
    })
}

/// How often rows are owed; never less than once.
struct Owed(HashMap<Vec<u8>, Diff>);

impl Owed {
    /// What was found.
    fn of(found: &State) -> Self {
        let rows = found.apart.iter().flat_map(|rows| (0..rows.len()).map(|index| (rows.row(index).to_vec(), rows.diff(index))));
        Owed(rows.collect())
    }

    /// All that is owed, for a checkpoint.
    fn state(&self) -> State {
        let mut all = UpdatesBuilder::default();
        self.0.iter().for_each(|(row, count)| all.push(row, &[], 0, *count));
        State { apart: all.into_containers(), ..State::default() }
    }

    fn of_row(&self, row: &[u8]) -> Diff {
        self.0.get(row).copied().unwrap_or(0)
    }

    /// Changes how often a row is owed.
    fn owe(&mut self, row: &[u8], diff: Diff) {
        let now = self.of_row(row) + diff;
        if now > 0 {
            self.0.insert(row.to_vec(), now);
        } else {
            self.0.remove(row);
        }
    }
}

/// A change of one row at one time.
pub(super) struct Change<'a> {
    pub row: &'a [u8],
    pub key_len: usize,
    pub time: Time,
    pub diff: Diff,
}

/// Sealed updates added up by row and time, in that order; what comes to nothing is left out.
pub(super) fn changes(sealed: &Sealed<Updates>) -> impl Iterator<Item = Change<'_>> {
    let at = |position: usize| {
        let entry = sealed.entries.get(position)?;
        Some((&sealed.containers[entry.container as usize], entry.index as usize))
    };
    let mut position = 0;
    std::iter::from_fn(move || {
        loop {
            let (updates, index) = at(position)?;
            let (row, time, mut diff) = (updates.row(index), updates.time(index), 0);
            while let Some((updates, index)) =
                at(position).filter(|(updates, index)| updates.time(*index) == time && updates.row(*index) == row)
            {
                diff += updates.diff(index);
                position += 1;
            }
            if diff != 0 {
                return Some(Change { row, key_len: updates.key(index).len(), time, diff });
            }
        }
    })
}

/// What makes up for expiries under `keep`, arranged by group: the operator's rows and these are what is published. `news`
/// tells of groups that have rows again, where the operator's rows do not.
pub fn keeping<'s>(
    rows: Stream<'s, Time, Updates>,
    news: Option<Stream<'s, Time, Updates>>,
    as_of: Time,
    states: &mut States,
) -> Arranged<'s, RowTrace> {
    let scope = rows.scope();
    let mut place = states.place("Keep");
    let begins = place.begins;
    let mut builder = OperatorBuilder::new("Keep".to_owned(), scope);
    let info = builder.operator_info();
    let news = news.unwrap_or_else(|| timely::dataflow::operators::generic::operator::empty(scope));
    let mut rows = builder.new_input(rows, Pipeline);
    let mut news = builder.new_input(news, Pipeline);
    let (output, stream) = builder.new_output::<Vec<Span<Time, RowBatch>>>();
    let (owned, trace) = Owned::<RowBatch>::new(scope, info, &mut place);
    states.keep_trace(place.id(), &trace);
    builder.build(move |mut capabilities| {
        let mut owned = owned.hold(capabilities.pop());
        let mut output: OutputBuilder<Time, NoopBuilder<_>> = OutputBuilder::from(output);
        let (mut pending, mut pending_news) = (Pending::<Updates>::since(begins), Pending::<Updates>::since(begins));
        move |frontiers| {
            rows.for_each(|_, updates| pending.push(std::mem::take(updates)));
            news.for_each(|_, updates| pending_news.push(std::mem::take(updates)));
            let least = frontiers.iter().filter_map(|frontier| frontier.frontier().first().copied()).min();
            let upper: Antichain<Time> = least.into_iter().collect();
            if owned.is_behind(upper.borrow(), &mut output.activate()) {
                let news = pending_news.seal(upper.borrow());
                let batch = kept(&pending.seal(upper.borrow()), &news, as_of, &mut KeyReader::new(owned.spans()));
                owned.seal(upper, batch, &mut output.activate());
            }
            owned.exert();
        }
    });
    Arranged { stream, trace }
}

/// How what is kept changes with changes of an operator's rows and with news of its groups.
fn kept(rows: &Sealed<Updates>, news: &Sealed<Updates>, as_of: Time, contents: &mut KeyReader<RowStorage>) -> Option<RowBatch> {
    let mut made = Updates::default();
    let told: HashSet<(&[u8], Time)> =
        changes(news).filter(|news| !is_expiry(news.time, as_of)).map(|news| (news.row, news.time)).collect();
    let mut of_rows: Vec<Change<'_>> = changes(rows).collect();
    // A group's news come to it even where its rows do not change.
    of_rows.extend(told.iter().map(|(key, time)| Change { row: key, key_len: key.len(), time: *time, diff: 0 }));
    of_rows.sort_by(|a, b| (&a.row[..a.key_len], a.time).cmp(&(&b.row[..b.key_len], b.time)));
    for group in of_rows.chunk_by(|a, b| a.row[..a.key_len] == b.row[..b.key_len]) {
        let key = &group[0].row[..group[0].key_len];
        let mut stands: HashMap<Vec<u8>, Diff> = HashMap::new();
        contents.values(key, None, Time::MAX, |value, count| {
            stands.insert(value.to_vec(), count);
        });
        for moment in group.chunk_by(|a, b| a.time == b.time) {
            let time = moment[0].time;
            if is_expiry(time, as_of) {
                for change in moment {
                    let value = &change.row[change.key_len..];
                    *stands.entry(value.to_vec()).or_default() -= change.diff;
                    made.push(key, value, time, -change.diff);
                }
            } else {
                stands.drain().filter(|(_, count)| *count != 0).for_each(|(value, count)| made.push(key, &value, time, -count));
            }
        }
    }
    Sealed::of([made]).build()
}
