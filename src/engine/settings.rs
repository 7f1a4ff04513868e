//! SET, RESET, and the options of views.
//!
//! A name or value that means nothing is an error that says which ones do. Retention is spelt and checked here
//! already, and refused by name until the engine can honour it; the defaults, which are what holds, are accepted.

use std::time::Duration;

use super::clock::Clock;
use super::session::Session;
use super::{DEFAULT_TICK, Outcome};
use crate::error::{Error, Result};
use crate::sql::duration::parse_duration;
use crate::sql::statement::SqlOption;

/// Flink's name for `state_ttl` as a session's default.
const FLINK_STATE_TTL: &str = "table.exec.state.ttl";

/// What SET knows.
const SETTINGS: [&str; 7] = ["clock", "tick", "state_ttl", "state_ttl_max", "on_expiry", "ttl_refresh", FLINK_STATE_TTL];

/// What a view's WITH knows; each may be followed by `.` and the name of an input.
const VIEW_OPTIONS: [&str; 4] = ["state_ttl", "state_ttl_max", "on_expiry", "ttl_refresh"];

/// What may happen to what expires, and what begins its time anew; the default is the first.
const ON_EXPIRY: [&str; 3] = ["forget", "keep", "retract"];
const TTL_REFRESH: [&str; 2] = ["write", "create"];

/// A setting, understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Clock(Clock),
    Tick(Duration),
    /// A retention's default, which keeps everything, as there is.
    Default,
}

impl Session {
    /// SET name = value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Outcome> {
        match parse(name, value)? {
            Setting::Clock(clock) => self.driver.timeline().set_clock(clock)?,
            Setting::Tick(tick) => self.driver.timeline().set_tick(tick),
            Setting::Default => {}
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
                "clock" => self.driver.timeline().set_clock(self.default_clock)?,
                "tick" => self.driver.timeline().set_tick(DEFAULT_TICK),
                _ => {}
            }
        }
        Ok(Outcome::Done(format!("RESET {}", name.unwrap_or("ALL"))))
    }

    /// Each setting and its value.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let value = |name| match name {
            "clock" => self.driver.timeline().clock().name().to_string(),
            "tick" => format!("{} ms", self.driver.timeline().tick().as_millis()),
            "on_expiry" => ON_EXPIRY[0].to_string(),
            "ttl_refresh" => TTL_REFRESH[0].to_string(),
            _ => "never".to_string(),
        };
        SETTINGS.into_iter().map(|name| (name, value(name))).collect()
    }
}

/// The name of a setting, as the table above has it.
pub(super) fn known(name: &str) -> Result<&'static str> {
    let found = SETTINGS.into_iter().find(|setting| setting.eq_ignore_ascii_case(name));
    found.ok_or_else(|| Error::unknown("setting", name, SETTINGS))
}

/// Checks what a view's WITH or ALTER VIEW SET says.
pub(super) fn check_view_options(options: &[SqlOption]) -> Result<()> {
    options.iter().try_for_each(|option| {
        let base = option.name.split('.').next().unwrap_or_default();
        match VIEW_OPTIONS.contains(&base) {
            true => check_retention(&option.name, base, &option.value),
            false => Err(Error::unknown("option", &option.name, VIEW_OPTIONS)),
        }
    })
}

fn parse(name: &str, value: &str) -> Result<Setting> {
    match known(name)? {
        "clock" => match value.to_ascii_lowercase().as_str() {
            "wall" => Ok(Setting::Clock(Clock::Wall)),
            "event" => Ok(Setting::Clock(Clock::Event)),
            "manual" => Ok(Setting::Clock(Clock::Manual)),
            _ => Err(Error::invalid(format!("clock is 'wall' or 'manual', not '{value}'"))),
        },
        "tick" => match duration("tick", value)? {
            Some(tick) => Ok(Setting::Tick(tick)),
            None => Err(Error::invalid("tick is a duration such as '100 ms', not 'never'")),
        },
        FLINK_STATE_TTL if is_zero(value) => Ok(Setting::Default),
        FLINK_STATE_TTL => check_retention(name, "state_ttl", value).map(|()| Setting::Default),
        setting => check_retention(name, setting, value).map(|()| Setting::Default),
    }
}

/// Zero is how Flink spells never, in its own setting.
fn is_zero(value: &str) -> bool {
    value.trim_end_matches(|c: char| !c.is_ascii_digit()).trim() == "0"
}

/// Accepts the default, and refuses everything else: what would be right by name, until it is in.
fn check_retention(name: &str, base: &str, value: &str) -> Result<()> {
    let refused = || Err(Error::unsupported(format!("{name} (retention)")));
    let one_of = |choices: &[&str]| match choices.iter().position(|choice| choice.eq_ignore_ascii_case(value)) {
        Some(0) => Ok(()),
        Some(_) => refused(),
        None => Err(Error::invalid(format!("{name} is one of {}, not '{value}'", choices.join(", ")))),
    };
    match base {
        "on_expiry" => one_of(&ON_EXPIRY),
        "ttl_refresh" => one_of(&TTL_REFRESH),
        _ => match duration(name, value)? {
            None => Ok(()),
            Some(_) => refused(),
        },
    }
}

/// A duration, or None for `never`.
fn duration(name: &str, value: &str) -> Result<Option<Duration>> {
    let named = |error| Error::invalid(format!("{name}: {error}"));
    Ok(parse_duration(value).map_err(named)?.map(|millis| Duration::from_millis(millis.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> String {
        let option = SqlOption { name: name.into(), value: value.into() };
        check_view_options(&[option]).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn an_unknown_setting_is_answered_with_those_there_are() {
        let error = parse("tikc", "1 s").unwrap_err().to_string();
        assert!(error.contains("did you mean 'tick'") && error.contains("clock"), "{error}");
    }

    #[test]
    fn every_retention_can_be_set_to_its_default_for_the_session_and_for_a_view() {
        let defaults = [("state_ttl", "never"), ("state_ttl_max", "never"), ("on_expiry", "forget"), ("ttl_refresh", "write")];
        for (name, value) in defaults {
            assert_eq!(parse(name, value), Ok(Setting::Default), "SET {name} = '{value}'");
            assert_eq!(with(name, value), "", "WITH ({name} = '{value}')");
            assert_eq!(with(&format!("{name}.o"), value), "", "WITH ({name}.o = '{value}')");
        }
    }

    #[test]
    fn retention_is_refused_by_name_and_never_is_not() {
        assert_eq!(with("state_ttl", "3 days"), "not supported: state_ttl (retention)");
        assert_eq!(with("state_ttl.o", "3 days"), "not supported: state_ttl.o (retention)");
        assert_eq!(with("on_expiry", "keep"), "not supported: on_expiry (retention)");
        assert_eq!(with("ttl_refresh", "create"), "not supported: ttl_refresh (retention)");
        assert_eq!(parse(FLINK_STATE_TTL, "0 s"), Ok(Setting::Default));
        assert!(parse(FLINK_STATE_TTL, "1 d").is_err());
    }

    #[test]
    fn a_value_that_means_nothing_is_its_own_error() {
        assert!(with("state_ttl", "three days").contains("duration"));
        assert!(with("state_ttl", "0 s").contains("positive"));
        assert!(with("on_expiry", "drop").contains("on_expiry is one of forget, keep, retract"));
        assert!(with("state_tll", "1 s").contains("did you mean 'state_ttl'"));
    }

    #[test]
    fn the_tick_and_the_clock_are_read_as_written() {
        assert_eq!(parse("tick", "250 ms"), Ok(Setting::Tick(Duration::from_millis(250))));
        assert_eq!(parse("clock", "manual"), Ok(Setting::Clock(Clock::Manual)));
        assert!(parse("clock", "sundial").unwrap_err().to_string().contains("clock is 'wall' or 'manual', not 'sundial'"));
    }
}
