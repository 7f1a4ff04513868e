//! The dataflow's timestamp: an instant and a step within it, in one totally ordered number.
//!
//! An instant is whole milliseconds since the epoch. Its step 0 is the Expire phase, in which whatever reaches its
//! deadline goes; steps 1, 2, ... are the Data phase, one for each statement, transaction or batch of that instant.
//! 44 bits of milliseconds last until the year 2527, and 20 bits leave an instant a million steps.

pub use super::runtime::Time;

const STEP_BITS: u32 = 20;

/// The last step that an instant has room for.
pub const LAST_STEP: u32 = (1 << STEP_BITS) - 1;

/// The first step of an instant at which rows can arrive.
pub const FIRST_DATA_STEP: u32 = 1;

/// The step at which an instant is open for rows once time has come to it: the steps before it, in which what is due expires
/// and that is published, are complete.
pub const OPEN_STEP: u32 = FIRST_DATA_STEP + 1;

/// The step at which a row that is placed in time by its own timestamp is in its instant. The steps before it are for what
/// happens at an instant while there may be more such rows of it; those after it for what happens when time has run out
/// there.
pub const EVENT_STEP: u32 = 1 << (STEP_BITS - 1);

/// The last instant there is, in milliseconds since the epoch.
pub const LAST_INSTANT: i64 = (1 << (64 - STEP_BITS)) - 1;

/// The time of a step of an instant (milliseconds since the epoch, from 0 to [`LAST_INSTANT`]).
pub const fn at(ms: i64, step: u32) -> Time {
    debug_assert!(ms >= 0 && ms <= LAST_INSTANT && step <= LAST_STEP);
    (ms as Time) << STEP_BITS | step as Time
}

/// The instant of a time, in milliseconds since the epoch.
pub const fn ms(time: Time) -> i64 {
    (time >> STEP_BITS) as i64
}

/// The step of a time within its instant.
pub const fn step(time: Time) -> u32 {
    (time & LAST_STEP as Time) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_gives_back_what_it_was_made_of() {
        for (instant, number) in [(0, 0), (0, 1), (1, LAST_STEP), (1_767_225_600_000, 7), (LAST_INSTANT, LAST_STEP)] {
            assert_eq!((ms(at(instant, number)), step(at(instant, number))), (instant, number));
        }
    }

    #[test]
    fn every_step_of_an_instant_comes_before_the_next_instant() {
        assert!(at(5, LAST_STEP) < at(6, 0));
        assert_eq!(at(5, LAST_STEP) + 1, at(6, 0));
    }
}
