//! A spine that gives memory back.
//!
//! Differential dataflow's spine merges batches as new ones come, and updates that cancel go when they are merged. So
//! where nothing comes any more nothing goes: a million rows and the million retractions that took them away stay, be it
//! in two batches or in one that was merged while a reader could still tell their times apart. [`Reclaiming`] is that
//! spine, and when much of what it holds may have cancelled, and all readers are past it, it writes everything anew: one
//! batch of what is left, in as much memory as that takes. The batches that readers have taken are shared and stay
//! whole; what comes meanwhile goes to the spine as ever.
//!
//! # What is promised
//!
//! Once the last rows that were taken away are behind all readers, the trace holds what is live and nothing else after a
//! bounded number of steps (advances of time, with rows or without): at once where as much was taken away as is left,
//! else after so many that their `EARNED` credit makes up for what is left.
//!
//! # What it costs
//!
//! Writing anew reads every update once. It happens for every half of them that was taken away, in steps in which at
//! most a thousandth of them comes, or on the credit of steps in which none does. So a trace that is busy is left to its
//! merges. Each activation reads at most `FUEL` updates.

use differential_dataflow::consolidation::consolidate;
use differential_dataflow::logging::Logger;
use differential_dataflow::trace::cursor::{CursorList, cursor_list};
use differential_dataflow::trace::implementations::BatchContainer;
use differential_dataflow::trace::implementations::spine_fueled::{Spine, SpineBatch};
use differential_dataflow::trace::{Cursor, Description, ExertionLogic, Navigable, Span, Trace, TraceReader};
use timely::PartialOrder;
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;
use timely::scheduling::Activator;

use super::batch::{MemoryUse, RowBatch, SumBatch};
use super::draft::{Draft, RowDraft, SumDraft};
use super::{SumsContainer, Time};

/// Updates that are read in one activation, at most.
const FUEL: usize = 1 << 15;

/// The credit, in updates, of the first step without updates and of those after the first six; it doubles in between.
/// A trace between whose changes there are only a few such steps earns next to nothing.
const EARNED: (usize, usize) = (1 << 7, 1 << 13);

/// Batches with a cursor over all of them.
pub type Contents<B> = (CursorList<<B as Navigable>::Cursor>, Vec<B>);

/// A batch that can be written anew.
pub trait Reclaim: SpineBatch<Time = Time> + Navigable<Cursor: Cursor<Time = Time>> + Clone + 'static {
    /// The batch as it is being written.
    type Draft: Draft<Batch = Self>;

    /// How many of its updates may cancel with updates that came before.
    fn suspects(&self) -> usize;
    /// Copies the value that the cursor stands at, times up to `since` as one, and goes on to the next. Gives the number
    /// of updates read; None at the end.
    fn copy(draft: &mut Self::Draft, from: &mut Contents<Self>, since: Time) -> Option<usize>;
}

/// See the module.
pub struct Reclaiming<B: Reclaim> {
    spine: Spine<B>,
    operator: OperatorInfo,
    logger: Option<Logger>,
    activator: Option<Activator>,
    /// Updates that may have cancelled, since everything was last written anew.
    suspects: usize,
    credit: usize,
    /// Steps without updates since the last one with some.
    idle: u32,
    /// Updates of the last step.
    latest: usize,
    /// All updates are at times before this.
    changed: Time,
    rewrite: Option<Rewrite<B>>,
}

/// What is being written anew.
struct Rewrite<B: Reclaim> {
    from: Contents<B>,
    draft: B::Draft,
    upper: Antichain<Time>,
    since: Time,
    /// What comes after.
    later: Vec<Span<Time, B>>,
}

/// How many updates, and in how many bytes, would be left of batches that are written anew with all times as one.
pub fn left_of<B: Reclaim + MemoryUse>(batches: Vec<B>) -> (usize, usize) {
    let (mut from, mut draft) = (cursor_list(batches), B::Draft::default());
    while B::copy(&mut draft, &mut from, Time::MAX).is_some() {}
    draft.finish_tight().map_or((0, 0), |batch| (batch.len(), batch.memory()))
}

impl<B: Reclaim> Reclaiming<B> {
    /// The updates that it holds.
    fn len(&self) -> usize {
        let mut len = 0;
        self.spine.map_spans(|span| len += span.inner.as_ref().map_or(0, SpineBatch::len));
        len
    }

    /// Takes note of a step.
    fn note(&mut self, span: &Span<Time, B>) {
        self.latest = span.inner.as_ref().map_or(0, SpineBatch::len);
        match &span.inner {
            Some(batch) => {
                self.idle = 0;
                self.suspects += batch.suspects();
                self.changed = span.upper().elements().first().copied().unwrap_or(Time::MAX);
            }
            None if self.suspects > 0 => {
                self.credit += (EARNED.0 << self.idle.min(6)).min(EARNED.1);
                self.idle += 1;
            }
            None => {}
        }
    }

    /// Since when times are one to all readers, if it is time to write everything anew.
    fn is_due(&mut self) -> Option<Time> {
        if self.suspects == 0 || self.rewrite.is_some() {
            return None;
        }
        let since = self.spine.get_logical_compaction().first().copied()?;
        let released = self.spine.get_physical_compaction().first().is_none_or(|released| *released >= self.changed);
        if !released || since < self.changed - 1 {
            return None;
        }
        let len = self.len();
        let weight = if self.latest == 0 { 2 } else { 1 };
        (self.latest <= len >> 10 && weight * self.suspects + self.credit >= len).then_some(since)
    }

    fn begin(&mut self, since: Time) {
        (self.suspects, self.credit) = (0, 0);
        let released = self.spine.get_physical_compaction().to_owned();
        let (mut upper, mut batches, mut later) = (Antichain::from_elem(0), Vec::new(), Vec::new());
        self.spine.map_spans(|span| {
            if PartialOrder::less_equal(span.upper(), &released) {
                upper.clone_from(span.upper());
                batches.extend(span.inner.clone());
            } else {
                later.push(span.clone());
            }
        });
        self.rewrite = Some(Rewrite { from: cursor_list(batches), draft: B::Draft::default(), upper, since, later });
    }

    /// Puts what was written in the place of what it was written from.
    fn replace(&mut self, rewrite: Rewrite<B>) {
        let mut spine = Spine::new(self.operator.clone(), self.logger.clone(), self.activator.clone());
        spine.set_logical_compaction(self.spine.get_logical_compaction());
        spine.set_physical_compaction(self.spine.get_physical_compaction());
        let description = Description::new(Antichain::from_elem(0), rewrite.upper, Antichain::from_elem(rewrite.since));
        spine.insert(Span::new(description, rewrite.draft.finish_tight()));
        rewrite.later.into_iter().for_each(|span| spine.insert(span));
        self.spine = spine;
    }
}

impl<B: Reclaim> Rewrite<B> {
    /// Reads some updates. Returns whether all have been read.
    fn work(&mut self, mut fuel: usize) -> bool {
        while fuel > 0 {
            match B::copy(&mut self.draft, &mut self.from, self.since) {
                Some(read) => fuel = fuel.saturating_sub(read),
                None => return true,
            }
        }
        false
    }
}

impl<B: Reclaim> TraceReader for Reclaiming<B> {
    type Time = Time;
    type Batch = B;

    fn spans_through(&mut self, upper: AntichainRef<'_, Time>) -> Option<Vec<Span<Time, B>>> {
        self.spine.spans_through(upper)
    }

    fn set_logical_compaction(&mut self, frontier: AntichainRef<'_, Time>) {
        self.spine.set_logical_compaction(frontier);
    }

    fn get_logical_compaction(&mut self) -> AntichainRef<'_, Time> {
        self.spine.get_logical_compaction()
    }

    fn set_physical_compaction(&mut self, frontier: AntichainRef<'_, Time>) {
        self.spine.set_physical_compaction(frontier);
    }

    fn get_physical_compaction(&mut self) -> AntichainRef<'_, Time> {
        self.spine.get_physical_compaction()
    }

    fn map_spans<F: FnMut(&Span<Time, B>)>(&self, f: F) {
        self.spine.map_spans(f);
    }
}

impl<B: Reclaim> Trace for Reclaiming<B> {
    fn new(operator: OperatorInfo, logger: Option<Logger>, activator: Option<Activator>) -> Self {
        let spine = Spine::new(operator.clone(), logger.clone(), activator.clone());
        let (suspects, credit, idle, latest, changed) = (0, 0, 0, 0, 0);
        Reclaiming { spine, operator, logger, activator, suspects, credit, idle, latest, changed, rewrite: None }
    }

    fn exert(&mut self) {
        self.spine.exert();
        if let Some(since) = self.is_due() {
            self.begin(since);
        }
        if let Some(mut rewrite) = self.rewrite.take() {
            if rewrite.work(FUEL) {
                self.replace(rewrite);
            } else {
                self.rewrite = Some(rewrite);
                self.activator.iter().for_each(Activator::activate);
            }
        }
    }

    /// The spine's own idle merges are not for us: it would lose them with the next rewrite.
    fn set_exert_logic(&mut self, _: ExertionLogic) {}

    fn insert(&mut self, span: Span<Time, B>) {
        self.note(&span);
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.later.push(span.clone());
        }
        self.spine.insert(span);
    }

    fn close(&mut self) {
        let mut upper = Antichain::new();
        self.spine.read_upper(&mut upper);
        if !upper.is_empty() {
            self.insert(Span::empty(upper, Antichain::new()));
        }
    }
}

impl Reclaim for RowBatch {
    type Draft = RowDraft;

    /// Retractions. (A row that comes twice is one update after a merge, but not soon for that.)
    fn suspects(&self) -> usize {
        let upds = &self.upds;
        let retractions = |value: usize| {
            let (start, end) = upds.bounds(value);
            upds.diffs[start..end].iter().filter(|diff| **diff < 0).count()
        };
        (0..self.vals.vals.len()).map(retractions).sum()
    }

    fn copy(draft: &mut RowDraft, (cursor, storage): &mut Contents<Self>, since: Time) -> Option<usize> {
        let key = cursor.get_key(storage)?;
        let mut read = 0;
        if let Some(value) = cursor.get_val(storage) {
            let mut updates = Vec::new();
            cursor.map_times(storage, |time, diff| updates.push((since.max(*time), *diff)));
            read = updates.len();
            consolidate(&mut updates);
            updates.iter().for_each(|(time, diff)| draft.add(key.0, value.0, *time, diff));
            cursor.step_val(storage);
        }
        if !cursor.val_valid(storage) {
            cursor.step_key(storage);
        }
        Some(read)
    }
}

impl Reclaim for SumBatch {
    type Draft = SumDraft;

    /// All of them: a group has as many as it has changed.
    fn suspects(&self) -> usize {
        self.updates
    }

    fn copy(draft: &mut SumDraft, (cursor, storage): &mut Contents<Self>, since: Time) -> Option<usize> {
        let key = cursor.get_key(storage)?;
        let mut updates = Vec::new();
        cursor.map_times(storage, |time, sums| updates.push((since.max(*time), SumsContainer::into_owned(sums))));
        let read = updates.len();
        consolidate(&mut updates);
        updates.iter().for_each(|(time, sums)| draft.add(key.0, &[], *time, sums));
        cursor.step_key(storage);
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::spine::Pending;
    use crate::row::{Diff, SumUpdates, Sums, Updates};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::collections::BTreeMap;
    use std::rc::Rc;

    type Row = (u64, u64);

    /// A trace that nobody but the test reads.
    struct Tested {
        trace: Reclaiming<RowBatch>,
        upper: Time,
    }

    impl Tested {
        fn new() -> Self {
            Tested { trace: Reclaiming::new(OperatorInfo::new(0, 0, Rc::from([0])), None, None), upper: 0 }
        }

        /// A step up to `upper`.
        fn step(&mut self, upper: Time, rows: impl IntoIterator<Item = (Row, Time, Diff)>) {
            let mut pending = Pending::<Updates>::default();
            let mut updates = Updates::default();
            for ((key, value), time, diff) in rows {
                updates.push(&key.to_be_bytes(), &value.to_be_bytes(), time, diff);
            }
            pending.push(updates);
            let inner = pending.seal(Antichain::from_elem(upper).borrow()).build();
            let description = Description::new(Antichain::from_elem(self.upper), Antichain::from_elem(upper), Antichain::from_elem(0));
            self.trace.insert(Span::new(description, inner));
            self.upper = upper;
        }

        /// Readers let go of the difference between times up to `since`.
        fn release(&mut self, since: Time) {
            self.trace.set_logical_compaction(Antichain::from_elem(since).borrow());
            self.trace.set_physical_compaction(Antichain::from_elem(self.upper).borrow());
        }

        /// Steps of nothing but time until the trace stays as it is; how many.
        fn idle(&mut self) -> usize {
            let mut steps = 0;
            while self.trace.suspects > 0 || self.trace.rewrite.is_some() {
                self.step(self.upper + 1, []);
                self.release(self.upper - 1);
                self.trace.exert();
                steps += 1;
                assert!(steps < 10_000, "the trace is never written anew");
            }
            steps
        }

        fn memory(&self) -> usize {
            let mut memory = 0;
            self.trace.map_spans(|span| memory += span.inner.as_ref().map_or(0, MemoryUse::memory));
            memory
        }

        fn batches(&mut self) -> Vec<RowBatch> {
            self.trace.batches_through(Antichain::from_elem(self.upper).borrow()).expect("a bound of the last batch")
        }

        /// What is there just before `until`.
        fn at(&mut self, until: Time) -> BTreeMap<Row, Diff> {
            let (mut cursor, storage) = cursor_list(self.batches());
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            let mut rows = BTreeMap::new();
            while let Some(key) = cursor.get_key(&storage) {
                while let Some(value) = cursor.get_val(&storage) {
                    let mut count = 0;
                    cursor.map_times(&storage, |time, diff| count += if *time < until { *diff } else { 0 });
                    if count != 0 {
                        rows.insert((number(key.0), number(value.0)), count);
                    }
                    cursor.step_val(&storage);
                }
                cursor.step_key(&storage);
            }
            rows
        }
    }

    #[test]
    fn rows_that_were_taken_away_leave_no_memory_once_time_has_gone_on() {
        let mut tested = Tested::new();
        let rows = || (0..100_000u64).map(|n| (n % 1000, n));
        tested.step(2, rows().map(|row| (row, 1, 1)));
        tested.release(1);
        tested.step(3, rows().map(|row| (row, 2, -1)));
        assert_eq!(tested.trace.len(), 200_000);
        // Two hundred thousand updates are read in seven activations.
        assert!(tested.idle() <= 10);
        assert_eq!((tested.trace.len(), tested.memory()), (0, 0));
    }

    #[test]
    fn what_is_left_takes_the_memory_of_its_size() {
        let mut tested = Tested::new();
        tested.step(2, (0..50_000).map(|n| ((n, n), 1, 1)));
        tested.step(3, (0..49_000).map(|n| ((n, n), 2, -1)));
        tested.release(2);
        tested.idle();
        assert_eq!(tested.trace.len(), 1000);
        let mut fresh = Tested::new();
        fresh.step(2, (49_000..50_000).map(|n| ((n, n), 1, 1)));
        assert!(tested.memory() <= fresh.memory(), "{} > {}", tested.memory(), fresh.memory());
    }

    #[test]
    fn what_would_be_left_is_known_before_it_is_all_that_is_left() {
        let mut tested = Tested::new();
        tested.step(2, (0..900).map(|n| ((n % 300, 0), 1, 1)));
        tested.step(3, (0..300).map(|n| ((n, 0), 2, if n < 100 { -3 } else { 1 })));
        tested.step(4, (0..100).map(|n| ((n, 0), 3, 1)));
        // Three of each of three hundred rows; then none of a third of them; then those again.
        let expected = left_of(tested.batches());
        assert_eq!((tested.trace.len(), expected.0), (300 + 300 + 100, 300));
        tested.release(3);
        tested.idle();
        assert_eq!((tested.trace.len(), tested.memory()), expected);
    }

    #[test]
    fn a_few_retractions_wait_for_the_credit_of_idle_steps() {
        let mut tested = Tested::new();
        tested.step(2, (0..100_000).map(|n| ((n, n), 1, 1)));
        tested.step(3, (0..10).map(|n| ((n, n), 2, -1)));
        tested.release(2);
        // 100,000 updates at 8192 a step, after six steps of less.
        let steps = tested.idle();
        assert!((10..30).contains(&steps), "{steps}");
        assert_eq!(tested.trace.len(), 99_990);
    }

    #[test]
    fn a_reader_that_is_behind_keeps_what_it_can_tell_apart() {
        let mut tested = Tested::new();
        tested.step(2, [((1, 1), 1, 1)]);
        tested.step(3, [((1, 1), 2, -1)]);
        tested.release(1);
        for _ in 0..20 {
            tested.step(tested.upper + 1, []);
            tested.trace.exert();
        }
        assert_eq!(tested.trace.len(), 2);
        assert_eq!(tested.at(2), BTreeMap::from([((1, 1), 1)]));
    }

    #[test]
    fn a_busy_trace_is_left_to_its_merges() {
        let mut tested = Tested::new();
        tested.step(2, (0..1000).map(|n| ((n, 0), 1, 1)));
        for step in 0..200 {
            let time = tested.upper;
            tested.step(time + 1, (0..1000).flat_map(|n| [((n, step), time, -1), ((n, step + 1), time, 1)]));
            tested.release(time);
            tested.trace.exert();
            assert!(tested.trace.rewrite.is_none() && tested.trace.suspects >= 1000 * (step as usize + 1));
        }
    }

    #[test]
    fn rows_are_the_same_at_all_times_that_readers_can_tell_apart() {
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..30 {
            let mut tested = Tested::new();
            let mut expected: BTreeMap<Row, BTreeMap<Time, Diff>> = BTreeMap::new();
            let mut since = 0;
            for _ in 0..120 {
                let lower = tested.upper;
                let upper = lower + rng.random_range(1..4);
                let count = if rng.random_bool(0.4) { rng.random_range(0..40) } else { 0 };
                let mut rows = Vec::new();
                for _ in 0..count {
                    let (row, time, diff) =
                        ((rng.random_range(0..9), rng.random_range(0..9)), rng.random_range(lower..upper), rng.random_range(-2..3));
                    *expected.entry(row).or_default().entry(time).or_default() += diff;
                    rows.push((row, time, diff));
                }
                tested.step(upper, rows);
                if rng.random_bool(0.7) {
                    since = rng.random_range(since..upper);
                    tested.release(since);
                }
                // Sometimes a part of a rewrite only, so that steps come in between.
                match tested.trace.rewrite.take() {
                    Some(mut rewrite) if rng.random_bool(0.5) => {
                        if rewrite.work(5) {
                            tested.trace.replace(rewrite)
                        } else {
                            tested.trace.rewrite = Some(rewrite)
                        }
                    }
                    rewrite => {
                        tested.trace.rewrite = rewrite;
                        if tested.trace.rewrite.is_none() && rng.random_bool(0.5) {
                            if let Some(since) = tested.trace.is_due() {
                                tested.trace.begin(since);
                            }
                        } else {
                            tested.trace.exert();
                        }
                    }
                }
                for until in since + 1..=upper {
                    let at = expected.iter().map(|(row, times)| (*row, times.range(..until).map(|(_, diff)| diff).sum::<Diff>()));
                    assert_eq!(tested.at(until), at.filter(|(_, count)| *count != 0).collect());
                }
            }
            tested.idle();
            assert_eq!(tested.trace.len(), tested.at(tested.upper).len());
        }
    }

    #[test]
    fn sums_of_a_group_become_one_and_those_of_none_go() {
        let mut trace: Reclaiming<SumBatch> = Reclaiming::new(OperatorInfo::new(0, 0, Rc::from([0])), None, None);
        let layout = crate::row::SlotLayout::new(&[], |_| None);
        let mut step = |lower: Time, counts: &[(u8, Diff)]| {
            let (mut pending, mut updates) = (Pending::<SumUpdates>::default(), SumUpdates::default());
            for (key, count) in counts {
                let mut sums = Sums::default();
                layout.add_rows(&mut sums, *count);
                updates.push(&[*key], lower, sums);
            }
            pending.push(updates);
            let upper = Antichain::from_elem(lower + 1);
            let inner = pending.seal(upper.borrow()).build();
            trace.insert(Span::new(Description::new(Antichain::from_elem(lower), upper.clone(), Antichain::from_elem(0)), inner));
            trace.set_logical_compaction(Antichain::from_elem(lower).borrow());
            trace.set_physical_compaction(upper.borrow());
            trace.exert();
            trace.len()
        };
        for (time, counts) in [vec![(1, 2), (2, 1)], vec![(1, 3)], vec![(2, -1), (3, 4)]].into_iter().enumerate() {
            step(time as Time, &counts);
        }
        // Groups 1 and 3.
        assert_eq!(step(3, &[]), 2);
    }
}
