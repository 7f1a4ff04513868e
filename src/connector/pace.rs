//! How fast a generating source may go.

use std::time::{Duration, Instant};

/// How many rows a batch has where nothing makes it smaller.
pub(super) const BATCH: usize = 8192;

/// The longest that a source waits before it says that there is nothing yet.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// Lets `rate` items a second through, counted from the first question and from the items `done` by then; 0 lets everything
/// through.
#[derive(Debug)]
pub(super) struct Pace {
    rate: u64,
    start: Option<(Instant, u64)>,
}

impl Pace {
    pub fn new(rate: u64) -> Self {
        Pace { rate, start: None }
    }

    /// How many items are due by now beyond the `done` first; waits a little for the first of them.
    pub fn due(&mut self, done: u64) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let (start, before) = *self.start.get_or_insert_with(|| (Instant::now(), done));
        let due = || before.saturating_add((start.elapsed().as_secs_f64() * self.rate as f64) as u64);
        if due() <= done {
            std::thread::sleep(Duration::from_secs_f64(1.0 / self.rate as f64).clamp(Duration::from_millis(1), PATIENCE));
        }
        due().saturating_sub(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_through_what_the_time_gone_by_allows() {
        let mut pace = Pace { rate: 1000, start: Some((Instant::now() - Duration::from_secs(2), 70)) };
        let due = pace.due(570);
        assert!((1500..1600).contains(&due), "two seconds at 1000 a second less 500 is 1500, not {due}");
        assert_eq!(Pace::new(0).due(7), u64::MAX);
    }
}
