//! Times and changes, as a batch lists them.
//!
//! Each row has a list: times in order, each once, with a change that is something. Lists lie end to end. A list that is one
//! update like the last one before it (a step's new rows all come at one time, once each) takes no memory: it is written
//! as empty, which no list is. This is differential dataflow's own encoding of such runs.

use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::trace::implementations::BatchContainer;

use super::batch::UpdateLists;
use super::{Diff, Sums, SumsContainer, SumsRef, Time};

/// Many changes, of which each can be added to one that is held apart.
pub trait ChangeContainer: BatchContainer<Owned: Semigroup + Default> {
    fn add(to: &mut Self::Owned, change: Self::ReadItem<'_>);
    /// A change that is held apart.
    fn lend(change: &Self::Owned) -> Self::ReadItem<'_>;
    /// Gives back what memory is not needed.
    fn fit(&mut self);
}

impl ChangeContainer for Vec<Diff> {
    #[inline(always)]
    fn add(to: &mut Diff, change: &Diff) {
        *to += change;
    }

    #[inline(always)]
    fn lend(change: &Diff) -> &Diff {
        change
    }

    fn fit(&mut self) {
        self.shrink_to_fit();
    }
}

impl ChangeContainer for SumsContainer {
    #[inline(always)]
    fn add(to: &mut Sums, change: SumsRef<'_>) {
        to.plus_equals(&change);
    }

    #[inline(always)]
    fn lend(change: &Sums) -> SumsRef<'_> {
        change.borrow()
    }

    fn fit(&mut self) {
        SumsContainer::fit(self);
    }
}

/// The lists of a batch that is being written.
pub struct Changes<D: ChangeContainer> {
    written: UpdateLists<D>,
    /// The update that may still grow, if there is one.
    is_open: bool,
    time: Time,
    sum: D::Owned,
    /// Where those of the row at hand begin.
    start: usize,
    /// How many there are, those among them that take no memory.
    updates: usize,
}

impl<D: ChangeContainer> Default for Changes<D> {
    fn default() -> Self {
        Self::with_room(UpdateLists::default())
    }
}

impl<D: ChangeContainer> Changes<D> {
    /// Lists that are written to these, which are empty.
    fn with_room(written: UpdateLists<D>) -> Self {
        Changes { written, is_open: false, time: 0, sum: D::Owned::default(), start: 0, updates: 0 }
    }

    /// With room for all that two batches have.
    pub fn for_both(one: &UpdateLists<D>, other: &UpdateLists<D>) -> Self {
        Self::with_room(UpdateLists::merge_capacity(one, other))
    }

    /// Adds an update of the row at hand, which is not before the one that was added last.
    #[inline(always)]
    pub fn add(&mut self, time: Time, change: D::ReadItem<'_>) {
        if self.is_open && self.time == time {
            return D::add(&mut self.sum, change);
        }
        self.close();
        self.is_open = true;
        self.time = time;
        D::clone_onto(change, &mut self.sum);
    }

    /// Writes the update that may still grow: it does not any more.
    #[inline(always)]
    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) && !self.sum.is_zero() {
            self.written.times.push(self.time);
            self.written.diffs.push_own(&self.sum);
        }
    }

    /// Ends the row at hand; says whether anything is of it.
    #[inline(always)]
    pub fn end_row(&mut self) -> bool {
        if self.is_open && self.written.times.len() == self.start && !self.sum.is_zero() {
            self.is_open = false;
            let Changes { written, time, sum, start, updates, .. } = self;
            Self::push_alone(written, start, updates, *time, D::lend(sum));
            return true;
        }
        self.close();
        let end = self.written.times.len();
        if end == self.start {
            return false;
        }
        self.updates += end - self.start;
        self.start = end;
        self.written.offs.push(end);
        true
    }

    /// Writes a row of one update, which is something.
    #[inline(always)]
    fn push_alone(written: &mut UpdateLists<D>, start: &mut usize, updates: &mut usize, time: Time, change: D::ReadItem<'_>) {
        let is_like_last = |last| D::reborrow(last) == D::reborrow(change);
        if written.times.last() != Some(&time) || !BatchContainer::last(&written.diffs).is_some_and(is_like_last) {
            written.times.push(time);
            written.diffs.push_ref(change);
            *start += 1;
        }
        *updates += 1;
        written.offs.push(*start);
    }

    /// Writes a row as another batch has it, with its times not before `since`; says whether anything is of it.
    #[inline(always)]
    pub fn copy(&mut self, from: &UpdateLists<D>, row: usize, since: Time) -> bool {
        let (start, end) = from.bounds(row);
        if end - start == 1 {
            let Changes { written, start: own, updates, .. } = self;
            Self::push_alone(written, own, updates, since.max(from.times[start]), from.diffs.index(start));
            return true;
        }
        (start..end).for_each(|update| self.add(since.max(from.times[update]), from.diffs.index(update)));
        self.end_row()
    }

    /// Writes a row that two batches have, with its times not before `since`; says whether anything is of it.
    #[inline(always)]
    pub fn merge(&mut self, [one, other]: [(&UpdateLists<D>, usize); 2], since: Time) -> bool {
        let time = |(lists, _): (&UpdateLists<D>, usize), update: usize| since.max(lists.times[update]);
        let ((mut at, end), (mut other_at, other_end)) = (one.0.bounds(one.1), other.0.bounds(other.1));
        while at < end || other_at < other_end {
            let is_first = other_at == other_end || (at < end && time(one, at) <= time(other, other_at));
            let (from, update) = if is_first { (one, &mut at) } else { (other, &mut other_at) };
            self.add(time(from, *update), from.0.diffs.index(*update));
            *update += 1;
        }
        self.end_row()
    }

    /// Gives back what memory is not needed.
    pub fn fit(&mut self) {
        self.written.offs.fit();
        self.written.times.shrink_to_fit();
        self.written.diffs.fit();
    }

    /// The lists, with how many updates are in them.
    pub fn finish(self) -> (UpdateLists<D>, usize) {
        (self.written, self.updates)
    }
}
