//! SET and RESET.
//!
//! A name or value that means nothing is an error that says which ones do. What is set of retention is the default for views
//! and jobs to come: see [`crate::sql::retention`].

use std::time::Duration;

use super::Outcome;
use super::clock::Clock;
use super::session::Session;
use crate::error::{Error, Result};
use crate::sql::duration::parse_duration;
use crate::sql::retention;

/// What SET knows.
const SETTINGS: [&str; 7] = {
    let [ttl, ttl_max, on_expiry, ttl_refresh] = retention::OPTIONS;
    ["clock", "tick", ttl, ttl_max, on_expiry, ttl_refresh, retention::FLINK_STATE_TTL]
};

impl Session {
    /// SET name = value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Outcome> {
        match known(name)? {
            "clock" => self.set_clock(Some(clock(value)?))?,
            "tick" => self.driver.timeline().set_tick(Some(tick(value)?)),
            setting => self.defaults.set(setting, value)?,
        }
        Ok(Outcome::Done(format!("SET {name}")))
    }

    /// RESET name, or RESET ALL.
    pub fn reset(&mut self, name: Option<&str>) -> Result<Outcome> {
        let names = match name {
            Some(name) => vec![known(name)?],
            None => SETTINGS.to_vec(),
        };
        for setting in &names {
            match *setting {
                // What cannot be changed any more stays as it is when everything is reset.
                "clock" if name.is_none() && self.driver.timeline().has_flowed() => {}
                "clock" => self.set_clock(self.default_clock)?,
                "tick" => self.driver.timeline().set_tick(self.default_tick),
                setting => self.defaults.reset(setting),
            }
        }
        Ok(Outcome::Done(format!("RESET {}", name.unwrap_or("ALL"))))
    }

    /// Changes the clock, unless what is defined counts on the one that is there: what forgets windows that are over has to see
    /// rows in the order of their times.
    fn set_clock(&self, clock: Option<Clock>) -> Result<()> {
        let timeline = self.driver.timeline();
        let before = timeline.chosen_clock();
        timeline.set_clock(clock)?;
        let counting = self.catalog.plans().find(|(_, plan)| plan.forgets_what_is_over());
        match counting {
            Some((member, _)) if timeline.clock() != Clock::Event => {
                timeline.set_clock(before)?;
                Err(Error::invalid(format!(
                    "{member} is made for the clock 'event', by which it forgets what is over: SET clock stands before it"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Each setting and its value.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let value = |name| match name {
            "clock" => self.driver.timeline().clock().name().to_string(),
            "tick" => format!("{} ms", self.driver.timeline().tick().as_millis()),
            setting => self.defaults.value(setting),
        };
        SETTINGS.into_iter().map(|name| (name, value(name))).collect()
    }
}

/// The name of a setting, as the table above has it.
pub(super) fn known(name: &str) -> Result<&'static str> {
    let found = SETTINGS.into_iter().find(|setting| setting.eq_ignore_ascii_case(name));
    found.ok_or_else(|| Error::unknown("setting", name, SETTINGS))
}

fn clock(value: &str) -> Result<Clock> {
    match value.to_ascii_lowercase().as_str() {
        "wall" => Ok(Clock::Wall),
        "event" => Ok(Clock::Event),
        "manual" => Ok(Clock::Manual),
        _ => Err(Error::invalid(format!("clock is 'wall', 'event' or 'manual', not '{value}'"))),
    }
}

fn tick(value: &str) -> Result<Duration> {
    match parse_duration(value).map_err(|error| Error::invalid(format!("tick: {error}")))? {
        Some(millis) => Ok(Duration::from_millis(millis.unsigned_abs())),
        None => Err(Error::invalid("tick is a duration such as '100 ms', not 'never'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_setting_is_answered_with_those_there_are() {
        let error = known("tikc").unwrap_err().to_string();
        assert!(error.contains("did you mean 'tick'") && error.contains("clock"), "{error}");
        assert_eq!(known("Table.Exec.State.TTL"), Ok(retention::FLINK_STATE_TTL));
    }

    #[test]
    fn the_tick_and_the_clock_are_read_as_written() {
        assert_eq!(tick("250 ms"), Ok(Duration::from_millis(250)));
        assert_eq!(clock("manual"), Ok(Clock::Manual));
        assert!(clock("sundial").unwrap_err().to_string().contains("clock is 'wall', 'event' or 'manual', not 'sundial'"));
        assert!(tick("never").unwrap_err().to_string().contains("tick is a duration"));
        assert!(tick("soon").unwrap_err().to_string().contains("tick: 'soon' is not a duration"));
    }
}
