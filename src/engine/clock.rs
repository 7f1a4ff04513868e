//! Engine time: what it follows, and the one place where it moves.
//!
//! Time only moves forward, and rows and the step that completes them go together: whoever adds rows does it in
//! [`Timeline::step`], which holds the clock from before the first row until the step after the last. So a statement,
//! a transaction or a batch of a source is one step, seen whole or not at all, whichever thread it came from.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::lock;
use super::runtime::Runtime;
use super::time::{self, FIRST_DATA_STEP, LAST_INSTANT, LAST_STEP, Time};
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

/// A runtime and its clock.
pub(super) struct Timeline {
    runtime: Runtime,
    state: Mutex<State>,
    /// Rows added since the dataflow was last seen to have worked everything off.
    in_flight: AtomicU64,
}

#[derive(Clone, Copy)]
struct State {
    clock: Clock,
    tick: Duration,
    /// Whether time has moved or rows have come: from then on the clock is what it is.
    flowed: bool,
}

impl Timeline {
    /// Engine time begins at the first data step of the epoch, where a manual clock stays; a wall clock leaves from
    /// there to the machine's time when something first flows.
    pub fn new(runtime: Runtime, clock: Clock, tick: Duration) -> Result<Self> {
        check_clock(clock)?;
        runtime.advance(time::at(0, FIRST_DATA_STEP))?;
        Ok(Timeline { runtime, state: Mutex::new(State { clock, tick, flowed: false }), in_flight: AtomicU64::new(0) })
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
        lock(&self.state).clock
    }

    pub fn tick(&self) -> Duration {
        lock(&self.state).tick
    }

    pub fn set_tick(&self, tick: Duration) {
        lock(&self.state).tick = tick;
    }

    /// Whether anything has flowed, after which the clock is what it is.
    pub fn has_flowed(&self) -> bool {
        lock(&self.state).flowed
    }

    /// Changes what time follows; an error once anything has flowed.
    pub fn set_clock(&self, clock: Clock) -> Result<()> {
        check_clock(clock)?;
        let mut state = lock(&self.state);
        if state.flowed && state.clock != clock {
            return Err(Error::invalid(format!(
                "the clock is '{}' and cannot be changed now that rows have flowed: SET clock stands before the first INSERT, SELECT or ADVANCE",
                state.clock.name()
            )));
        }
        state.clock = clock;
        Ok(())
    }

    /// The present instant: what NOW() is for a query.
    pub fn present(&self) -> i64 {
        match self.clock() {
            Clock::Wall => machine_ms().max(time::ms(self.runtime.now())),
            Clock::Manual | Clock::Event => time::ms(self.runtime.now()),
        }
    }

    /// One step: what `add` does with the runtime happens at the present time, whose instant it is given, and is
    /// complete when this returns. `rows` is how many it may add, for [`Timeline::relieve`].
    pub fn step<T>(&self, rows: u64, add: impl FnOnce(&Runtime, i64) -> Result<T>) -> Result<T> {
        let mut state = lock(&self.state);
        state.flowed = true;
        self.follow(&state)?;
        let present = self.runtime.now();
        let next = after(present, state.clock)?;
        let added = add(&self.runtime, time::ms(present))?;
        self.runtime.advance(next)?;
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

    /// A wall clock's time goes on without rows, for what is due by time alone.
    pub fn idle(&self) -> Result<()> {
        let state = lock(&self.state);
        if state.flowed { self.follow(&state) } else { Ok(()) }
    }

    /// Moves a manual clock to an instant and completes that instant's first data step, in which expiries publish:
    /// a statement that follows is a later one.
    pub fn advance_to(&self, instant: i64) -> Result<()> {
        let mut state = lock(&self.state);
        if state.clock != Clock::Manual {
            return Err(Error::invalid(format!(
                "ADVANCE moves a manual clock, and this one is '{}': SET clock = 'manual' before anything flows",
                state.clock.name()
            )));
        }
        let present = time::ms(self.runtime.now());
        if instant < present {
            return Err(Error::invalid(format!("engine time is {present} ms since the epoch and does not go back to {instant}")));
        }
        if instant > LAST_INSTANT {
            return Err(Error::invalid(format!("engine time ends {LAST_INSTANT} ms after the epoch; {instant} is beyond that")));
        }
        state.flowed = true;
        if instant > present { self.runtime.advance(time::at(instant, FIRST_DATA_STEP + 1)) } else { Ok(()) }
    }

    /// Moves a manual clock on by milliseconds.
    pub fn advance_by(&self, duration: i64) -> Result<()> {
        let present = time::ms(self.runtime.now());
        self.advance_to(present.checked_add(duration).unwrap_or(i64::MAX))
    }

    /// Catches up with the machine's clock, if that is what is followed.
    fn follow(&self, state: &State) -> Result<()> {
        if state.clock == Clock::Wall {
            let machine = time::at(machine_ms(), FIRST_DATA_STEP);
            if machine > self.runtime.now() {
                return self.runtime.advance(machine);
            }
        }
        Ok(())
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

fn check_clock(clock: Clock) -> Result<()> {
    match clock {
        Clock::Event => {
            Err(Error::unsupported("clock = 'event' (event time), which comes with a later release; there is 'wall' and 'manual'"))
        }
        Clock::Wall | Clock::Manual => Ok(()),
    }
}

/// The step after a time. An instant that is full ends: the machine's clock has to follow, a manual one is asked to.
fn after(present: Time, clock: Clock) -> Result<Time> {
    match (time::step(present) < LAST_STEP, clock) {
        (true, _) => Ok(present + 1),
        (false, Clock::Manual) => Err(Error::invalid(format!(
            "an instant has room for {LAST_STEP} steps and instant {} is full: ADVANCE the clock",
            time::ms(present)
        ))),
        (false, Clock::Wall | Clock::Event) => Ok(time::at(time::ms(present) + 1, FIRST_DATA_STEP)),
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
        assert_eq!(after(full, Clock::Wall), Ok(time::at(10, FIRST_DATA_STEP)));
        assert!(after(full, Clock::Manual).unwrap_err().to_string().contains("ADVANCE"));
        assert_eq!(after(time::at(9, 1), Clock::Manual), Ok(time::at(9, 2)));
    }

    #[test]
    fn the_event_clock_is_refused_by_name() {
        assert!(check_clock(Clock::Event).unwrap_err().to_string().starts_with("not supported: clock = 'event'"));
    }
}
