//! Watermarks: how far each table's time has come, how far engine time may go, and which rows are late.
//!
//! A table's watermark is the greatest that its rows have said, and never goes back. Engine time is the least watermark of
//! the *followers*: the tables in memory and the readings of connectors' tables that have one. A reading that has ended is
//! no follower any more, and one that has been idle for its timeout is none until it has rows again; from then on the
//! others' time is its watermark. When the last follower has ended, the clock runs out: engine time is the greatest time that any
//! row had, at which all rows have been seen.
//!
//! A row is *late* if its time is before its table's watermark as it was when the row came. What that was is decided by the
//! table alone, so that lateness depends neither on how rows were batched nor on how far other tables are:
//!
//! - a row of a connector's table is judged by the rows that its reading has given before it, one by one;
//! - the rows of an INSERT, or of a transaction, are one step and judged by the steps before it;
//! - what corrects rows that are there (UPDATE, DELETE, a source's removals) is never late.
//!
//! A row is placed at its own time. What a reading gives behind its watermark and is accepted comes at the watermark it was
//! judged by, so that its place, too, is the table's alone to say; what a statement says of the past happens now. No row is
//! placed where engine time has been already.
//!
//! A reading for one SELECT stands apart: its rows are judged like any others, but they are seen as they come, since
//! the answer is all of them, and engine time does not follow it. Its own time runs out where it ends.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::event_time::{Late, Stamped};
use super::runtime::DataflowId;
use crate::plan::RelationId;

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Follower {
    /// A table in memory.
    Table(RelationId),
    /// One reading of a connector's table, by its number.
    Reading(u64),
}

/// By which watermark rows are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judge {
    /// Each by the rows before it.
    Rows,
    /// All by what was before any of them.
    Step,
    /// None is late.
    Nobody,
}

/// How far engine time may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nobody has said anything of it.
    Nowhere,
    /// To this instant, of which there may be more rows.
    Until(i64),
    /// To this instant and through it: nothing more comes.
    Through(i64),
}

/// Late rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRows {
    pub table: String,
    /// Rows that were left out.
    pub dropped: u64,
    /// Rows that came at their table's watermark instead of their own time.
    pub accepted: u64,
}

/// How a table's time stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub table: String,
    /// Milliseconds since the epoch; None while no row has said anything.
    pub watermark: Option<i64>,
    /// `open`, `idle`, `ended`, or `unread` while nobody has read it.
    pub state: &'static str,
    pub late: LateRows,
}

/// What a checkpoint has of the watermarks. A reading is known by its dataflow and its table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Marks {
    tables: Vec<(u64, Option<i64>, bool)>,
    readings: Vec<(u64, u64, Option<i64>)>,
    late: BTreeMap<String, LateRows>,
    late_repeated: BTreeMap<String, LateRows>,
    ended: BTreeMap<String, Option<i64>>,
    greatest: Option<i64>,
}

/// The readings that engine time follows, each with its dataflow and its table.
pub(super) type Readings = HashMap<Follower, (DataflowId, RelationId)>;

/// See the module.
#[derive(Default)]
pub(super) struct Watermarks {
    followers: BTreeMap<Follower, Watermark>,
    readings: u64,
    late: BTreeMap<String, LateRows>,
    /// What readings that repeat others have counted.
    late_repeated: BTreeMap<String, LateRows>,
    /// The watermarks of readings that have ended, by table.
    ended: BTreeMap<String, Option<i64>>,
    /// The greatest time of any row.
    greatest: Option<i64>,
    /// The same of rows of readings that stand apart.
    greatest_apart: Option<i64>,
    /// How many are about to add followers.
    holds: usize,
}

/// One follower's.
struct Watermark {
    table: String,
    /// Whether engine time follows it.
    leads: bool,
    /// Whether it reads once more what another reading of the table is for.
    repeats: bool,
    at: Option<i64>,
    idle_timeout: Option<Duration>,
    /// Since when it has been asked for rows and had none.
    quiet_since: Instant,
    /// It has no more rows, unless some come after all.
    has_ended: bool,
}

impl Watermark {
    fn is_idle(&self, now: Instant) -> bool {
        self.idle_timeout.is_some_and(|timeout| now.saturating_duration_since(self.quiet_since) >= timeout)
    }

    /// It is idle no longer. Time may have gone on without it, and it is behind what the others have reached.
    fn is_heard(&mut self, engine: i64, now: Instant) {
        if self.is_idle(now) {
            self.at = self.at.max(Some(engine));
        }
        self.quiet_since = now;
    }
}

impl Watermarks {
    /// A number for another reading.
    pub fn new_reading(&mut self) -> Follower {
        self.readings += 1;
        Follower::Reading(self.readings)
    }

    /// Judges a table's rows from now on, and has engine time wait for it if it `leads`.
    pub fn follow(&mut self, follower: Follower, leads: bool, table: &str, idle_timeout: Option<Duration>, now: Instant) {
        let watermark =
            Watermark { table: table.to_string(), leads, at: None, idle_timeout, quiet_since: now, has_ended: false, repeats: false };
        self.followers.insert(follower, watermark);
    }

    /// The follower reads all versions of the rows of a table, which has readings of its own: both judge the same rows.
    pub fn repeats(&mut self, follower: Follower) {
        if let Some(watermark) = self.followers.get_mut(&follower) {
            watermark.repeats = true;
        }
    }

    /// What a checkpoint is to have of it.
    pub fn saved(&self, readings: &Readings) -> Marks {
        let mut marks = Marks {
            late: self.late.clone(),
            late_repeated: self.late_repeated.clone(),
            ended: self.ended.clone(),
            greatest: self.greatest,
            ..Marks::default()
        };
        for (follower, watermark) in &self.followers {
            match follower {
                Follower::Table(table) => marks.tables.push((table.0, watermark.at, watermark.has_ended)),
                Follower::Reading(_) => {
                    marks.readings.extend(readings.get(follower).map(|(dataflow, table)| (dataflow.0, table.0, watermark.at)));
                }
            }
        }
        marks
    }

    /// What a checkpoint had of it comes back, for the tables and readings that are there.
    pub fn restore(&mut self, marks: Marks, readings: &Readings) {
        for (follower, watermark) in &mut self.followers {
            match (follower, readings.get(follower)) {
                (Follower::Table(table), _) => {
                    if let Some((_, at, has_ended)) = marks.tables.iter().find(|(id, ..)| *id == table.0) {
                        (watermark.at, watermark.has_ended) = (*at, *has_ended);
                    }
                }
                (Follower::Reading(_), Some((dataflow, table))) => {
                    let of_reading = marks.readings.iter().find(|(of, id, _)| (*of, *id) == (dataflow.0, table.0));
                    // One that had ended is read once more, for what has been added.
                    watermark.at = of_reading.map_or_else(|| marks.ended.get(&watermark.table).copied().flatten(), |(.., at)| *at);
                }
                (Follower::Reading(_), None) => {}
            }
        }
        (self.late, self.late_repeated, self.ended, self.greatest) = (marks.late, marks.late_repeated, marks.ended, marks.greatest);
    }

    /// The greatest time of any row of a reading that stands apart, since this was last asked.
    pub fn take_greatest_apart(&mut self) -> Option<i64> {
        self.greatest_apart.take()
    }

    /// A table in memory has ended, unless rows come after all.
    pub fn end_tables(&mut self) {
        self.followers.values_mut().for_each(|watermark| watermark.has_ended = true);
    }

    /// A follower is gone.
    pub fn leave(&mut self, follower: Follower) {
        let Some(watermark) = self.followers.remove(&follower) else { return };
        if let Follower::Reading(_) = follower {
            let ended = self.ended.entry(watermark.table).or_default();
            *ended = watermark.at.max(*ended);
        }
    }

    /// A table is dropped: nothing is said of it any more.
    pub fn forget(&mut self, table: &str) {
        self.late.remove(table);
        self.late_repeated.remove(table);
        self.ended.remove(table);
    }

    /// Keeps engine time where it is until [`Watermarks::release`].
    pub fn hold(&mut self) {
        self.holds += 1;
    }

    pub fn release(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    /// Whether somebody keeps engine time where it is.
    pub fn is_held(&self) -> bool {
        self.holds > 0
    }

    /// A follower has rows, or has not been asked for any: it is not idle from now on. `engine` is the present instant.
    pub fn is_heard(&mut self, follower: Follower, engine: i64, now: Instant) {
        if let Some(watermark) = self.followers.get_mut(&follower) {
            watermark.is_heard(engine, now);
        }
    }

    /// Whether engine time follows it.
    pub fn leads(&self, follower: Follower) -> bool {
        self.followers.get(&follower).is_some_and(|watermark| watermark.leads)
    }

    /// A follower's watermark, for those who read the one that is behind first.
    pub fn at(&self, follower: Follower) -> Option<i64> {
        self.followers.get(&follower)?.at
    }

    /// How far engine time may go.
    pub fn reach(&self, now: Instant) -> Reach {
        if self.is_held() {
            return Reach::Nowhere;
        }
        let open = || self.followers.values().filter(|watermark| watermark.leads && !watermark.has_ended);
        if open().next().is_none() {
            return self.greatest.map_or(Reach::Nowhere, Reach::Through);
        }
        let (idle, active): (Vec<&Watermark>, Vec<&Watermark>) = open().partition(|watermark| watermark.is_idle(now));
        let reached = match active.is_empty() {
            false => active.iter().map(|watermark| watermark.at).min().flatten(),
            // Nobody is waited for, and so the one that is farthest leads.
            true => idle.iter().filter_map(|watermark| watermark.at).max(),
        };
        reached.map_or(Reach::Nowhere, Reach::Until)
    }

    /// Takes rows in: the instant of each, on the tick, or None for a row that is dropped. `is_arrival` says whether a row is
    /// one that can be late at all; `engine` is the present instant.
    pub fn place(
        &mut self,
        follower: Follower,
        stamped: &Stamped,
        (judge, late): (Judge, Late),
        is_arrival: impl Fn(usize) -> bool,
        (tick, engine, now): (i64, i64, Instant),
    ) -> Vec<Option<i64>> {
        let Some(watermark) = self.followers.get_mut(&follower) else {
            return stamped.times.iter().map(|time| Some(floor(*time, tick))).collect();
        };
        watermark.is_heard(engine, now);
        watermark.has_ended = false;
        let before = watermark.at;
        let (mut dropped, mut accepted) = (0, 0);
        let mut placed = Vec::with_capacity(stamped.times.len());
        for (row, (time, mark)) in stamped.times.iter().zip(&stamped.marks).enumerate() {
            let by = if judge == Judge::Rows { watermark.at } else { before };
            let is_late = by.is_some_and(|by| *time < by) && judge != Judge::Nobody && is_arrival(row);
            if is_late && late.drops(*time, by) {
                dropped += 1;
                placed.push(None);
                continue;
            }
            accepted += u64::from(is_late);
            let instant = if judge == Judge::Rows { (*time).max(by.unwrap_or(0)) } else { *time };
            placed.push(Some(floor(instant, tick)));
            watermark.at = watermark.at.max(*mark);
            let greatest = if watermark.leads { &mut self.greatest } else { &mut self.greatest_apart };
            *greatest = (*greatest).max(Some(floor(instant, tick)));
        }
        let (table, counts) = (watermark.table.clone(), if watermark.repeats { &mut self.late_repeated } else { &mut self.late });
        count(counts, &table, dropped, accepted);
        placed
    }

    /// Which rows of a step would be dropped if it came now.
    pub fn would_drop(&self, follower: Follower, stamped: &Stamped, late: Late) -> Vec<bool> {
        let by = self.at(follower);
        stamped.times.iter().map(|time| late.drops(*time, by)).collect()
    }

    pub fn count_late(&mut self, table: &str, dropped: u64, accepted: u64) {
        count(&mut self.late, table, dropped, accepted);
    }

    /// The tables with late rows. Those of a table that is read for itself and for all of its versions are the same, unless one
    /// reading is farther.
    pub fn late(&self) -> Vec<LateRows> {
        let mut all = self.late.clone();
        for (table, repeated) in &self.late_repeated {
            let late = all.entry(table.clone()).or_default();
            late.table.clone_from(table);
            late.dropped = late.dropped.max(repeated.dropped);
            late.accepted = late.accepted.max(repeated.accepted);
        }
        all.into_values().collect()
    }

    /// How a table's time stands: what is read several times is as far as the reading that is behind.
    pub fn standing(&self, table: &str, now: Instant) -> Standing {
        let of_table = || self.followers.values().filter(|watermark| watermark.table == table && !watermark.has_ended);
        let late = self.late().into_iter().find(|late| late.table == table).unwrap_or_default();
        let table = table.to_string();
        if of_table().next().is_none() {
            let ended = self.followers.values().find(|watermark| watermark.table == table).map(|watermark| watermark.at);
            let ended = ended.or_else(|| self.ended.get(&table).copied());
            return Standing { table, watermark: ended.flatten(), state: if ended.is_some() { "ended" } else { "unread" }, late };
        }
        let state = if of_table().all(|watermark| watermark.is_idle(now)) { "idle" } else { "open" };
        Standing { watermark: of_table().map(|watermark| watermark.at).min().flatten(), table, state, late }
    }
}

fn count(counts: &mut BTreeMap<String, LateRows>, table: &str, dropped: u64, accepted: u64) {
    if dropped + accepted > 0 {
        let late = counts.entry(table.to_string()).or_default();
        late.table = table.to_string();
        late.dropped += dropped;
        late.accepted += accepted;
    }
}

/// The tick that an instant is in.
pub(super) fn floor(instant: i64, tick: i64) -> i64 {
    instant - instant.rem_euclid(tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Follower = Follower::Table(RelationId(1));
    const B: Follower = Follower::Reading(1);
    const SECOND: i64 = 1000;

    /// Rows of these seconds, whose watermark is two seconds before each.
    fn rows(seconds: &[i64]) -> Stamped {
        let times: Vec<i64> = seconds.iter().map(|second| second * SECOND).collect();
        let marks = times.iter().map(|time| Some((time - 2 * SECOND).max(0))).collect();
        Stamped { times, marks, from: None, failed: vec![] }
    }

    fn following(followers: &[Follower]) -> (Watermarks, Instant) {
        let (mut all, now) = (Watermarks::default(), Instant::now());
        followers.iter().for_each(|follower| all.follow(*follower, true, "t", None, now));
        (all, now)
    }

    fn place(all: &mut Watermarks, who: Follower, seconds: &[i64], judge: Judge, late: Late, now: Instant) -> Vec<Option<i64>> {
        let placed = all.place(who, &rows(seconds), (judge, late), |_| true, (SECOND, 0, now));
        placed.into_iter().map(|instant| instant.map(|instant| instant / SECOND)).collect()
    }

    #[test]
    fn engine_time_is_the_least_watermark_and_waits_for_those_who_have_said_nothing() {
        let (mut all, now) = following(&[A, B]);
        place(&mut all, A, &[10], Judge::Step, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Nowhere);
        place(&mut all, B, &[7], Judge::Rows, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Until(5 * SECOND));
        all.hold();
        assert_eq!(all.reach(now), Reach::Nowhere);
        all.release();
        all.leave(B);
        assert_eq!(all.reach(now), Reach::Until(8 * SECOND));
        all.end_tables();
        assert_eq!(all.reach(now), Reach::Through(10 * SECOND));
    }

    #[test]
    fn rows_of_a_reading_are_judged_one_by_one_however_they_are_batched() {
        let seconds = [10, 8, 7, 12, 9, 10, 30, 27, 28];
        let expected: Vec<Option<i64>> = vec![Some(10), Some(8), None, Some(12), None, Some(10), Some(30), None, Some(28)];
        for size in 1..=seconds.len() {
            let (mut all, now) = following(&[B]);
            let placed: Vec<_> = seconds.chunks(size).flat_map(|batch| place(&mut all, B, batch, Judge::Rows, Late::Drop, now)).collect();
            assert_eq!(placed, expected, "batches of {size}");
            assert_eq!(all.late(), [LateRows { table: "t".into(), dropped: 3, accepted: 0 }]);
        }
    }

    #[test]
    fn rows_of_a_step_are_judged_by_the_steps_before_it() {
        let (mut all, now) = following(&[A]);
        assert_eq!(place(&mut all, A, &[10, 1], Judge::Step, Late::Drop, now), [Some(10), Some(1)]);
        assert_eq!(place(&mut all, A, &[7, 8], Judge::Step, Late::Drop, now), [None, Some(8)]);
    }

    #[test]
    fn a_late_row_that_is_accepted_comes_at_the_watermark_and_a_correction_is_never_late() {
        let (mut all, now) = following(&[A]);
        place(&mut all, A, &[10], Judge::Rows, Late::Accept { lateness: None }, now);
        assert_eq!(place(&mut all, A, &[3], Judge::Rows, Late::Accept { lateness: None }, now), [Some(8)]);
        assert_eq!(place(&mut all, A, &[3], Judge::Nobody, Late::Drop, now), [Some(3)]);
        let removed = all.place(A, &rows(&[3]), (Judge::Rows, Late::Drop), |_| false, (SECOND, 0, now));
        assert_eq!(removed, [Some(8 * SECOND)]);
        assert_eq!(all.late(), [LateRows { table: "t".into(), dropped: 0, accepted: 1 }]);
    }

    #[test]
    fn late_rows_of_a_reading_that_repeats_another_are_counted_once_and_it_holds_the_clock() {
        let (mut all, now) = following(&[A, B]);
        all.repeats(B);
        place(&mut all, A, &[10, 3, 4], Judge::Rows, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Nowhere);
        place(&mut all, B, &[10, 3], Judge::Rows, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Until(8 * SECOND));
        assert_eq!(all.standing("t", now).late.dropped, 2);
        all.leave(A);
        place(&mut all, B, &[4, 5], Judge::Rows, Late::Drop, now);
        assert_eq!(all.late(), [LateRows { table: "t".into(), dropped: 3, accepted: 0 }]);
    }

    #[test]
    fn a_watermark_does_not_go_back() {
        let (mut all, now) = following(&[A]);
        place(&mut all, A, &[10], Judge::Step, Late::Drop, now);
        place(&mut all, A, &[8], Judge::Step, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Until(8 * SECOND));
    }

    #[test]
    fn an_idle_follower_holds_nobody_back_and_is_judged_by_the_others_time_when_it_returns() {
        let (mut all, start) = following(&[A]);
        all.follow(B, true, "u", Some(Duration::from_secs(5)), start);
        place(&mut all, A, &[10], Judge::Step, Late::Drop, start);
        assert_eq!(all.reach(start + Duration::from_millis(4999)), Reach::Nowhere);
        let later = start + Duration::from_secs(5);
        assert_eq!(all.reach(later), Reach::Until(8 * SECOND));
        assert_eq!(all.standing("u", later).state, "idle");
        let placed = all.place(B, &rows(&[7, 9]), (Judge::Rows, Late::Drop), |_| true, (SECOND, 8 * SECOND, later));
        assert_eq!(placed, [None, Some(9 * SECOND)]);
        assert_eq!(all.standing("u", later).state, "open");
    }

    #[test]
    fn when_all_are_idle_the_farthest_leads() {
        let (mut all, start) = (Watermarks::default(), Instant::now());
        [A, B].into_iter().for_each(|follower| all.follow(follower, true, "t", Some(Duration::from_secs(1)), start));
        place(&mut all, A, &[10], Judge::Step, Late::Drop, start);
        place(&mut all, B, &[20], Judge::Step, Late::Drop, start);
        assert_eq!(all.reach(start), Reach::Until(8 * SECOND));
        assert_eq!(all.reach(start + Duration::from_secs(1)), Reach::Until(18 * SECOND));
    }

    #[test]
    fn a_reading_that_stands_apart_is_judged_and_moves_nothing() {
        let (mut all, now) = following(&[A]);
        all.follow(B, false, "t", None, now);
        assert_eq!(place(&mut all, B, &[10, 3], Judge::Rows, Late::Drop, now), [Some(10), None]);
        assert_eq!((all.take_greatest_apart(), all.take_greatest_apart()), (Some(10 * SECOND), None));
        place(&mut all, A, &[5], Judge::Step, Late::Drop, now);
        assert_eq!(all.reach(now), Reach::Until(3 * SECOND));
        all.leave(A);
        assert_eq!(all.reach(now), Reach::Through(5 * SECOND));
    }

    #[test]
    fn a_tick_begins_at_a_multiple_of_itself() {
        assert_eq!([0, 999, 1000, 1999].map(|instant| floor(instant, SECOND)), [0, 0, 1000, 1000]);
    }
}
