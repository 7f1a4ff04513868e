//! Which right row is the match at which moment.
//!
//! Going along the left rows in order, the places that are asked for on the right go down. A right row that has been
//! passed is nearer than all that were passed before it, at each moment at which it is there.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use differential_dataflow::consolidation::consolidate;
use differential_dataflow::trace::Cursor;

use crate::dataflow::sweep::Group;
use crate::row::batch::RowBatch;
use crate::row::{Bytes, Diff, Time};

/// A left row's match, if it has one.
pub type Match<'a> = Option<&'a [u8]>;

/// From when to when.
type Span = (Bound<Time>, Bound<Time>);

/// The times that are worked off.
#[derive(Clone, Copy)]
pub struct Period {
    pub from: Time,
    /// Up to this; None: all there will be.
    pub through: Option<Time>,
}

impl Period {
    pub fn contains(self, time: Time) -> bool {
        time >= self.from && self.through.is_none_or(|through| time < through)
    }

    /// How often the value under a group's cursor is there as the period begins, and by time what happens to it then.
    pub fn history(self, group: &mut Group<'_, RowBatch>, events: &mut Vec<(Time, Diff)>) -> Diff {
        events.clear();
        let (mut count, as_of) = (0, group.as_of);
        group.cursor.map_times(group.storage, |time, diff| match as_of.max(*time) {
            time if time < self.from => count += diff,
            time if self.contains(time) => events.push((time, *diff)),
            _ => {}
        });
        consolidate(events);
        count
    }
}

/// The match of a left row at every moment of a period.
#[derive(Default)]
pub struct Matches<'a> {
    /// As the period begins,
    first: Match<'a>,
    /// and from each of these times on. No two in a row are the same.
    later: BTreeMap<Time, Match<'a>>,
}

impl<'a> Matches<'a> {
    /// Whether it is not the same all the time.
    pub fn is_moving(&self) -> bool {
        !self.later.is_empty()
    }

    /// Before what happens at a time.
    pub fn before(&self, time: Time) -> Match<'a> {
        self.later.range(..time).next_back().map_or(self.first, |(_, found)| *found)
    }

    /// After what happens at a time.
    pub fn after(&self, time: Time) -> Match<'a> {
        self.later.range(..=time).next_back().map_or(self.first, |(_, found)| *found)
    }

    /// When it becomes another, each time with what it was and what it is then.
    pub fn changes(&self, span: Span) -> impl Iterator<Item = (Time, [Match<'a>; 2])> {
        self.later.range(span).map(|(time, found)| (*time, [self.before(*time), *found]))
    }

    /// It is the same all the time.
    fn fix(&mut self, found: Match<'a>) {
        self.first = found;
        self.later.clear();
    }

    /// It is this right row for as long as that is there.
    fn set(&mut self, span: Span, right: &'a [u8]) {
        let (from, until) = span;
        if let Bound::Excluded(until) = until {
            let then = self.after(until);
            self.later.insert(until, then);
        }
        while let Some((time, _)) = self.later.range(span).next() {
            let time = *time;
            self.later.remove(&time);
        }
        match from {
            Bound::Included(from) => {
                self.later.insert(from, Some(right));
            }
            _ => self.first = Some(right),
        }
    }
}

/// The right rows of a key, along which places go down.
pub struct Rights<'a> {
    group: Group<'a, RowBatch>,
    period: Period,
    /// The first right row at or behind the place that was asked for last,
    first: Match<'a>,
    /// and the first from there on that is there all the time.
    steady: Match<'a>,
    events: Vec<(Time, Diff)>,
    /// How many right rows have been looked at.
    pub looked_at: usize,
}

impl<'a> Rights<'a> {
    pub fn new(group: Group<'a, RowBatch>, period: Period) -> Self {
        Rights { group, period, first: None, steady: None, events: Vec::new(), looked_at: 0 }
    }

    /// Goes down to a place: makes the matches of left rows before it those of the left rows at it. Takes those right rows on the way that change.
    pub fn approach<'c>(&mut self, place: &[u8], changing: &mut Peekable<impl Iterator<Item = &'c [u8]>>, matches: &mut Matches<'a>) {
        let before = self.steady;
        self.seek_steady(place);
        if self.steady != before {
            matches.fix(self.steady);
        }
        while let Some(right) = changing.next_if(|right| *right >= place) {
            if self.steady.is_none_or(|steady| right < steady) {
                self.set(right, matches);
            }
        }
    }

    /// Looks for the first right row at or behind a place that is there all the time. What was once passed over is not
    /// looked at again.
    fn seek_steady(&mut self, place: &[u8]) {
        let storage = self.group.storage;
        self.group.cursor.rewind_vals(storage);
        self.group.cursor.seek_val(storage, Bytes(place));
        let first = self.group.cursor.get_val(storage).map(|first| first.0);
        while let Some(Bytes(value)) = self.group.cursor.get_val(storage) {
            if self.first.is_some_and(|known| value >= known) {
                break;
            }
            self.looked_at += 1;
            if self.period.history(&mut self.group, &mut self.events) > 0 && self.events.is_empty() {
                self.steady = Some(value);
                break;
            }
            self.group.cursor.step_val(storage);
        }
        self.first = first;
    }

    /// Makes a right row the match for as long as it is there.
    fn set(&mut self, right: &[u8], matches: &mut Matches<'a>) {
        let storage = self.group.storage;
        self.group.cursor.rewind_vals(storage);
        self.group.cursor.seek_val(storage, Bytes(right));
        let Some(Bytes(value)) = self.group.cursor.get_val(storage).filter(|value| value.0 == right) else { return };
        self.looked_at += 1;
        let mut count = self.period.history(&mut self.group, &mut self.events);
        let mut since = (count > 0).then_some(Bound::Unbounded);
        for (time, diff) in &self.events {
            count += diff;
            match since {
                Some(from) if count <= 0 => {
                    matches.set((from, Bound::Excluded(*time)), value);
                    since = None;
                }
                None if count > 0 => since = Some(Bound::Included(*time)),
                _ => {}
            }
        }
        if let Some(from) = since {
            matches.set((from, Bound::Unbounded), value);
        }
    }
}
