//! Engine time: what it follows, and the one place where it moves.
//!
//! Time only moves forward, and rows and the step that completes them go together: whoever adds rows does it in
//! [`Timeline::step`], which holds the clock from before the first row until the step after the last. So a statement,
//! a transaction or a batch of a source is one step, seen whole or not at all, whichever thread it came from.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::lock;
use super::moment::{Moment, stamp_all};
use super::runtime::{Rows, Runtime, Snapshot};
use super::table::Table;
use super::time::{self, EVENT_STEP, FIRST_DATA_STEP, LAST_INSTANT, LAST_STEP, OPEN_STEP, Time};
use super::watermark::{Follower, Judge, Marks, Reach, Readings, Watermarks, floor};
use crate::error::{Error, Result};

/// What engine time follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    Wall,
    /// The rows' own timestamps, by their tables' watermarks.
    Event,
    /// Nothing but ADVANCE and [`super::Engine::advance_to`].
    Manual,
}

/// Rows that may be on their way through the dataflow before whoever adds more waits: two full steps of a source.
const ROWS_IN_FLIGHT: u64 = 2 * super::reader::STEP_ROWS as u64;

/// How often a wall clock moves when no rows come.
const WALL_TICK: Duration = Duration::from_millis(100);

/// What the times of rows are rounded down to under an event clock.
const EVENT_TICK: Duration = Duration::from_secs(1);

/// A runtime and its clock.
pub(super) struct Timeline {
    runtime: Runtime,
    state: Mutex<State>,
    /// Rows added since the dataflow was last seen to have worked everything off.
    in_flight: AtomicU64,
    /// How many steps there have been.
    steps: AtomicU64,
}

struct State {
    /// As somebody has said.
    chosen: Option<Clock>,
    /// Whether a table has declared a watermark before anything flowed.
    has_watermark: bool,
    /// As somebody has said; each clock has a default.
    tick: Option<Duration>,
    /// Whether time has moved or rows have come: from then on the clock is what it is.
    flowed: bool,
    /// Whether time stays where it is whatever it follows: what an earlier run has left is being built.
    frozen: bool,
    marks: Watermarks,
}

impl Timeline {
    /// Engine time begins at the first data step of the epoch, where a manual clock stays; a wall clock leaves from
    /// there to the machine's time when something first flows, and an event clock when its tables' rows say so. Without a
    /// clock it is the machine's, until a table declares a watermark before anything flows.
    pub fn new(runtime: Runtime, clock: Option<Clock>, tick: Option<Duration>) -> Result<Self> {
        runtime.advance(time::at(0, FIRST_DATA_STEP))?;
        let state = State { chosen: clock, has_watermark: false, tick, flowed: false, frozen: false, marks: Watermarks::default() };
        Ok(Timeline { runtime, state: Mutex::new(state), in_flight: AtomicU64::new(0), steps: AtomicU64::new(0) })
    }

    /// Asks the runtime something between two steps. A question that completes what came at the present time would
    /// otherwise cut in two the step that is being added.
    pub fn between<T>(&self, ask: impl FnOnce(&Runtime) -> Result<T>) -> Result<T> {
        let _state = lock(&self.state);
        ask(&self.runtime)
    }

    /// The workers, for calls that neither add rows nor complete them.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub fn clock(&self) -> Clock {
        lock(&self.state).clock()
    }

    /// What time follows, if somebody has said so.
    pub fn chosen_clock(&self) -> Option<Clock> {
        lock(&self.state).chosen
    }

    /// How often a wall clock moves when no rows come; what the times of rows are rounded down to under an event clock.
    pub fn tick(&self) -> Duration {
        lock(&self.state).tick()
    }

    /// Sets the tick, or makes it the clock's default again.
    pub fn set_tick(&self, tick: Option<Duration>) {
        lock(&self.state).tick = tick;
    }

    /// The workers' part of the engine's state and the watermarks, as of now.
    pub fn save(&self, dataflows: BTreeSet<u64>, readings: &Readings) -> Result<(Snapshot, Marks)> {
        let state = lock(&self.state);
        self.in_flight.store(0, Ordering::Relaxed);
        Ok((self.runtime.save(dataflows)?, state.marks.saved(readings)))
    }

    /// How many steps there have been, for those who would like to know whether anything has happened.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// What a checkpoint had of the watermarks comes back.
    pub fn restore_marks(&self, marks: Marks, readings: &Readings) {
        let mut state = lock(&self.state);
        state.marks.restore(marks, readings);
        // Where time has moved, the clock is what it is.
        state.flowed |= self.runtime.now() > time::at(0, FIRST_DATA_STEP);
    }

    /// Keeps time where it is, or lets it go on.
    pub fn freeze(&self, frozen: bool) {
        lock(&self.state).frozen = frozen;
    }

    /// How long to wait for rows before time is looked at again.
    pub fn patience(&self) -> Duration {
        let state = lock(&self.state);
        if state.clock() == Clock::Event { WALL_TICK } else { state.tick() }
    }

    /// Whether anything has flowed, after which the clock is what it is.
    pub fn has_flowed(&self) -> bool {
        lock(&self.state).flowed
    }

    /// Changes what time follows, or leaves it to the tables; an error once anything has flowed.
    pub fn set_clock(&self, clock: Option<Clock>) -> Result<()> {
        let mut state = lock(&self.state);
        let before = std::mem::replace(&mut state.chosen, clock);
        let (was, is) = (state.clock_of(before), state.clock());
        if state.flowed && was != is {
            state.chosen = before;
            return Err(Error::invalid(format!(
                "the clock is '{}' and cannot be changed now that rows have flowed: SET clock stands before the first INSERT, SELECT or ADVANCE",
                was.name()
            )));
        }
        Ok(())
    }

    /// A table declares a watermark: time follows it, unless something else was said or rows have flowed.
    pub fn declare_watermark(&self) {
        let mut state = lock(&self.state);
        state.has_watermark |= !state.flowed;
    }

    /// The present instant: what NOW() is for a query.
    pub fn present(&self) -> i64 {
        match self.clock() {
            Clock::Wall => machine_ms().max(time::ms(self.runtime.now())),
            Clock::Manual | Clock::Event => time::ms(self.runtime.now()),
        }
    }

    /// One step: what `add` does happens at the present time and is complete when this returns, but for rows that an event
    /// clock has placed in the future. `rows` is how many it may add, for [`Timeline::relieve`].
    pub fn step<T>(&self, rows: u64, add: impl FnOnce(&mut Moment<'_>) -> Result<T>) -> Result<T> {
        let mut state = lock(&self.state);
        state.flowed = true;
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.follow(&state)?;
        let present = self.runtime.now();
        let next = after(present, state.clock())?;
        let clock = state.clock();
        let tick = state.tick_ms();
        let mut moment = Moment::new(&self.runtime, present, (clock, tick), &mut state.marks);
        let added = add(&mut moment)?;
        let completes = clock != Clock::Event || moment.completes();
        self.run(&state)?;
        if completes && self.runtime.now() == present {
            self.runtime.advance(next)?;
        }
        self.in_flight.fetch_add(rows, Ordering::Relaxed);
        Ok(added)
    }

    /// Waits for the dataflow if too many rows are on their way through it.
    pub fn relieve(&self) -> Result<()> {
        if self.in_flight.load(Ordering::Relaxed) >= ROWS_IN_FLIGHT { self.settle() } else { Ok(()) }
    }

    /// Waits until all that was added is worked off and is out of the sinks.
    pub fn settle(&self) -> Result<()> {
        self.in_flight.store(0, Ordering::Relaxed);
        self.runtime.settle()
    }

    /// A wall clock's time goes on without rows, for what is due by time alone; an event clock's when a table has become
    /// idle.
    pub fn idle(&self) -> Result<()> {
        let state = lock(&self.state);
        if state.flowed { self.follow(&state).and_then(|()| self.run(&state)) } else { Ok(()) }
    }

    /// Changes who is followed, or what is known of them, and moves an event clock as far as that lets it.
    pub fn change_watermarks<T>(&self, change: impl FnOnce(&mut Watermarks) -> T) -> Result<T> {
        let mut state = lock(&self.state);
        let changed = change(&mut state.marks);
        self.run(&state)?;
        Ok(changed)
    }

    /// The rows of a statement that would not be dropped as late if they came now, and how many would.
    pub fn in_time(&self, table: &Table, rows: Rows, judge: Judge) -> Result<(Rows, u64)> {
        let state = lock(&self.state);
        let Some(event) = table.event_time.as_ref().filter(|_| state.clock() == Clock::Event) else {
            return Ok((rows, 0));
        };
        let (rows, stamped) = stamp_all(table, event, rows)?;
        if judge != Judge::Step {
            return Ok((rows, 0));
        }
        let dropped = state.marks.would_drop(Follower::Table(table.id), &stamped, event.late);
        let stays: Vec<bool> = dropped.iter().enumerate().map(|(row, dropped)| !dropped || !rows.is_added(row)).collect();
        let count = stays.iter().filter(|stays| !**stays).count() as u64;
        Ok((rows.only(|row| stays[row])?, count))
    }

    /// What is known of the tables' watermarks.
    pub fn watermarks<T>(&self, ask: impl FnOnce(&Watermarks) -> T) -> T {
        ask(&lock(&self.state).marks)
    }

    /// Completes what came at the present time and was left open.
    pub fn seal(&self) -> Result<()> {
        let state = lock(&self.state);
        if self.runtime.is_dirty() { self.runtime.advance(after(self.runtime.now(), state.clock())?) } else { Ok(()) }
    }

    /// Moves a manual clock to an instant and completes that instant's first data step, in which expiries publish:
    /// a statement that follows is a later one.
    pub fn advance_to(&self, instant: i64) -> Result<()> {
        let mut state = lock(&self.state);
        match state.clock() {
            Clock::Manual => {}
            Clock::Event => {
                return Err(Error::invalid(
                    "ADVANCE moves a manual clock, and this one is 'event': it moves by the watermarks of its tables, so INSERT a row with a later time, \
                     or SET clock = 'manual' before anything flows",
                ));
            }
            Clock::Wall => {
                return Err(Error::invalid(
                    "ADVANCE moves a manual clock, and this one is 'wall': SET clock = 'manual' before anything flows",
                ));
            }
        }
        let present = time::ms(self.runtime.now());
        if instant < present {
            return Err(Error::invalid(format!("engine time is {present} ms since the epoch and does not go back to {instant}")));
        }
        if instant > LAST_INSTANT {
            return Err(Error::invalid(format!("engine time ends {LAST_INSTANT} ms after the epoch; {instant} is beyond that")));
        }
        state.flowed = true;
        if instant > present { self.runtime.advance(time::at(instant, OPEN_STEP)) } else { Ok(()) }
    }

    /// Moves a manual clock on by milliseconds.
    pub fn advance_by(&self, duration: i64) -> Result<()> {
        let present = time::ms(self.runtime.now());
        self.advance_to(present.checked_add(duration).unwrap_or(i64::MAX))
    }

    /// Catches up with the machine's clock, if that is what is followed.
    fn follow(&self, state: &State) -> Result<()> {
        if state.clock() == Clock::Wall && !state.frozen {
            let machine = time::at(machine_ms(), OPEN_STEP);
            if machine > self.runtime.now() {
                return self.runtime.advance(machine);
            }
        }
        Ok(())
    }

    /// Moves an event clock as far as the watermarks let it. Where the clock runs out, all of its last instant has been
    /// seen, the windows that are open have closed, and nothing else that is due later happens.
    fn run(&self, state: &State) -> Result<()> {
        if state.clock() != Clock::Event || state.frozen {
            return Ok(());
        }
        match state.marks.reach(Instant::now()) {
            Reach::Nowhere => Ok(()),
            Reach::Until(instant) => self.runtime.advance(time::at(floor(instant, state.tick_ms()), OPEN_STEP)),
            Reach::Through(instant) => self.runtime.run_out(time::at(instant, EVENT_STEP + 1)),
        }
    }
}

impl State {
    fn clock(&self) -> Clock {
        self.clock_of(self.chosen)
    }

    fn clock_of(&self, chosen: Option<Clock>) -> Clock {
        chosen.unwrap_or(if self.has_watermark { Clock::Event } else { Clock::Wall })
    }

    fn tick(&self) -> Duration {
        self.tick.unwrap_or(if self.clock() == Clock::Event { EVENT_TICK } else { WALL_TICK })
    }

    fn tick_ms(&self) -> i64 {
        i64::try_from(self.tick().as_millis()).unwrap_or(LAST_INSTANT).max(1)
    }
}

impl Clock {
    /// As it is spelt in `SET clock = '...'`.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Wall => "wall",
            Clock::Event => "event",
            Clock::Manual => "manual",
        }
    }
}

/// The step after a time. An instant that is full ends: the machine's clock has to follow, a manual one is asked to. (An event
/// clock's instant has a million steps, and who takes half of them sees rows of that tick before it is over.)
fn after(present: Time, clock: Clock) -> Result<Time> {
    match (time::step(present) < LAST_STEP, clock) {
        (true, _) => Ok(present + 1),
        (false, Clock::Manual) => Err(Error::invalid(format!(
            "an instant has room for {LAST_STEP} steps and instant {} is full: ADVANCE the clock",
            time::ms(present)
        ))),
        (false, Clock::Wall | Clock::Event) => Ok(time::at(time::ms(present) + 1, OPEN_STEP)),
    }
}

fn machine_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(LAST_INSTANT).min(LAST_INSTANT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_instant_is_left_by_a_wall_clock_and_refused_by_a_manual_one() {
        let full = time::at(9, LAST_STEP);
        assert_eq!(after(full, Clock::Wall), Ok(time::at(10, OPEN_STEP)));
        assert!(after(full, Clock::Manual).unwrap_err().to_string().contains("ADVANCE"));
        assert_eq!(after(time::at(9, 1), Clock::Manual), Ok(time::at(9, 2)));
    }
}
