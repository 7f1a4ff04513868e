//! EMIT ON WINDOW CLOSE: an update waits until the window of its row closes.
//!
//! It is moved to the window's last instant (the end less a millisecond), after everything else that happens then, and is
//! seen as soon as time reaches the end. Updates of a row that wait for one instant are added up: what is told is what
//! was true when the window closed, each row once, and nothing of what it took to get there. What is waiting is no
//! more than the rows of the windows that are open.
//!
//! An update that comes when its window has closed happens at once: it corrects what has been said. A row without a
//! window does not wait. Where the clock has run out, at the end of all input, every window is closed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};

use super::arrange::give_all;
use super::registry::{Ask, Held};
use super::settle::changes;
use super::state::{State, States};
use crate::engine::time;
use crate::plan::Column;
use crate::row::spine::Sealed;
use crate::row::{Diff, Time, Updates, UpdatesBuilder, instant, prefix_len};

/// Delays rows that begin with `before` until the instant in the column that comes next, which sorts ascending, plus
/// `before_end` milliseconds; no longer than until the clock has `run_out`. And whom to ask what is waiting.
pub fn delay<'s>(
    rows: Stream<'s, Time, Updates>,
    before: Vec<Column>,
    before_end: i64,
    run_out: Rc<Cell<Option<Time>>>,
    states: &mut States,
) -> (Stream<'s, Time, Updates>, Ask) {
    let place = states.place("Delay");
    let begins = place.begins;
    let shared = Rc::new(RefCell::new(Waiting::of(&place.found)));
    let (asked, saved) = (Rc::clone(&shared), Rc::clone(&shared));
    states.keep(place.id(), move || saved.borrow_mut().state());
    let rows = rows.unary_frontier(Pipeline, "Delay", move |capability, _| {
        // At the frontier, no earlier: time may run out there.
        let mut held = Some(capability);
        move |(input, frontier), output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            let waiting = &mut *shared.borrow_mut();
            input.for_each(|capability, updates| {
                let mut now = UpdatesBuilder::default();
                for index in (0..updates.len()).filter(|index| updates.time(*index) >= begins) {
                    let (key, value, diff) = (updates.key(index), updates.value(index), updates.diff(index));
                    match closes(&before, before_end, updates.row(index)) {
                        Some(close) if close > updates.time(index) => waiting.add(close, key, value, diff),
                        _ => now.push(key, &[value], updates.time(index), diff),
                    }
                }
                give_all(now, output, &capability);
            });
            let upper = frontier.frontier().first().copied();
            if let Some(capability) = &held {
                let mut due = UpdatesBuilder::default();
                let run_out = run_out.get().map(|run_out| run_out.max(*capability.time()));
                waiting.release(upper, run_out, &mut due);
                give_all(due, output, capability);
            }
            match (upper, &mut held) {
                (Some(upper), Some(capability)) => capability.downgrade(&upper),
                _ => held = None,
            }
        }
    });
    (rows, Rc::new(move || asked.borrow_mut().held()))
}

/// The last moment of the window that a row is in.
fn closes(before: &[Column], before_end: i64, row: &[u8]) -> Option<Time> {
    let start = prefix_len(before, before.len(), row).ok()?;
    let last = instant(&row[start..])?.saturating_add(before_end).saturating_sub(1);
    Some(time::at(last.clamp(0, time::LAST_INSTANT), time::LAST_STEP)).filter(|_| last >= 0)
}

/// What waits, by when it is due.
#[derive(Default)]
struct Waiting(BTreeMap<Time, Due>);

/// Updates of one time.
#[derive(Default)]
struct Due {
    updates: Updates,
    /// How many there were when they were last added up.
    distinct: usize,
}

impl Waiting {
    /// What was found.
    fn of(found: &State) -> Self {
        let mut waiting = Waiting::default();
        for rows in &found.apart {
            (0..rows.len()).for_each(|index| waiting.add(rows.time(index), rows.key(index), rows.value(index), rows.diff(index)));
        }
        waiting
    }

    /// All that waits, for a checkpoint.
    fn state(&mut self) -> State {
        self.add_up();
        let ends = self.0.keys().next().zip(self.0.keys().next_back());
        let due = ends.map(|(first, last)| (time::ms(*first).unsigned_abs(), time::ms(*last).unsigned_abs()));
        State { apart: self.0.values().map(|due| due.updates.clone()).collect(), due, ..State::default() }
    }

    fn add(&mut self, close: Time, key: &[u8], value: &[u8], diff: Diff) {
        let due = self.0.entry(close).or_default();
        due.updates.push(key, value, close, diff);
        if due.updates.len() > 2 * due.distinct + 64 {
            due.add_up(close);
        }
    }

    /// Hands over all that is due before a time (None: all); and, where time has run out before it, what is due later, at the
    /// moment at which it has.
    fn release(&mut self, before: Option<Time>, run_out: Option<Time>, into: &mut UpdatesBuilder) {
        let is_due = |time: Time| before.is_none_or(|before| time < before);
        let run_out = run_out.filter(|run_out| is_due(*run_out));
        while let Some(first) = self.0.first_entry().filter(|entry| run_out.is_some() || is_due(*entry.key())) {
            let close = run_out.map_or(*first.key(), |run_out| run_out.min(*first.key()));
            let mut due = first.remove();
            due.add_up(close);
            into.push_container(due.updates);
        }
    }

    /// Lets go of what cancels.
    fn add_up(&mut self) {
        self.0.iter_mut().filter(|(_, due)| due.updates.len() > due.distinct).for_each(|(close, due)| due.add_up(*close));
        self.0.retain(|_, due| due.distinct > 0);
    }

    /// What is waiting, after what cancels has gone.
    fn held(&mut self) -> Held {
        self.add_up();
        Held {
            rows: self.0.values().map(|due| due.distinct).sum(),
            bytes: self.0.values().map(|due| due.updates.memory()).sum(),
            next: self.0.keys().next().map(|close| time::ms(*close).unsigned_abs()),
        }
    }
}

impl Due {
    /// Makes one update of those of each row.
    fn add_up(&mut self, close: Time) {
        let sealed = Sealed::of([std::mem::take(&mut self.updates)]);
        for change in changes(&sealed) {
            let (key, value) = change.row.split_at(change.key_len);
            self.updates.push(key, value, close, change.diff);
        }
        self.distinct = self.updates.len();
    }
}
