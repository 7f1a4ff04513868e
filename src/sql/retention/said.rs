//! What is said in one place, and which of several places wins.

use serde::{Deserialize, Serialize};

use super::{HintedTtl, format_duration, key};
use crate::error::{Error, Result};
use crate::plan::{Memory, Origin, Policy, Refresh};
use crate::sql::duration::{parse_duration, parse_flink_duration};
use crate::sql::statement::SqlOption;

/// What can be said, of a session, of a view, and of an input with its name behind a dot.
pub const OPTIONS: [&str; 4] = ["state_ttl", "state_ttl_max", "on_expiry", "ttl_refresh"];

/// Flink's name for `state_ttl` as a session's default.
pub const FLINK_STATE_TTL: &str = "table.exec.state.ttl";

/// Milliseconds; `None` is never.
type Ttl = Option<u64>;

/// What one place says; as a session's defaults, what SET has said. `None` is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    #[serde(with = "told_apart")]
    ttl: Option<Ttl>,
    #[serde(with = "told_apart")]
    ttl_max: Option<Ttl>,
    refresh: Option<Refresh>,
    policy: Option<Policy>,
}

/// Never and nothing as two things, where both would be null.
mod told_apart {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Ttl;

    pub fn serialize<S: Serializer>(said: &Option<Ttl>, serializer: S) -> Result<S::Ok, S::Error> {
        said.map(|ttl| [ttl]).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ttl>, D::Error> {
        Ok(Option::<[Ttl; 1]>::deserialize(deserializer)?.map(|[ttl]| ttl))
    }
}

impl Defaults {
    /// SET: an option of [`OPTIONS`], or Flink's name for the first, where zero is never.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that means nothing, [`Error::Unknown`] for a setting of another name.
    pub fn set(&mut self, setting: &str, value: &str) -> Result<()> {
        if setting == FLINK_STATE_TTL {
            self.ttl = Some(milliseconds(setting, parse_flink_duration(value))?);
            return Ok(());
        }
        self.say(setting, setting, value)
    }

    /// RESET.
    pub fn reset(&mut self, setting: &str) {
        match setting {
            "state_ttl" | FLINK_STATE_TTL => self.ttl = None,
            "state_ttl_max" => self.ttl_max = None,
            "on_expiry" => self.policy = None,
            "ttl_refresh" => self.refresh = None,
            _ => {}
        }
    }

    /// What holds, spelt one way whichever way it was set.
    pub fn value(&self, setting: &str) -> String {
        match setting {
            "on_expiry" => self.policy.unwrap_or_default().to_string(),
            "ttl_refresh" => self.refresh.unwrap_or_default().to_string(),
            "state_ttl_max" => spelt(self.ttl_max.flatten()),
            _ => spelt(self.ttl.flatten()),
        }
    }

    /// The options that are said and are such; `never` bounds nothing and says so.
    pub(super) fn names(&self, is_such: fn(&str) -> bool) -> Vec<&'static str> {
        let [ttl, ttl_max, policy, refresh] = OPTIONS;
        let said = [
            (ttl, self.ttl.flatten().is_some()),
            (ttl_max, self.ttl_max.flatten().is_some()),
            (policy, self.policy.is_some()),
            (refresh, self.refresh.is_some()),
        ];
        said.into_iter().filter(|(name, is_said)| *is_said && is_such(name)).map(|(name, _)| name).collect()
    }

    /// What says nothing but a ttl.
    pub(super) fn of_ttl(ttl: Ttl) -> Self {
        Defaults { ttl: Some(ttl), ..Defaults::default() }
    }

    /// Takes an option whose whole name is `written`.
    fn say(&mut self, option: &str, written: &str, value: &str) -> Result<()> {
        match option {
            "state_ttl" => self.ttl = Some(milliseconds(written, parse_duration(value))?),
            "state_ttl_max" => self.ttl_max = Some(milliseconds(written, parse_duration(value))?),
            "on_expiry" => self.policy = Some(one_of(written, value, [Policy::Forget, Policy::Keep, Policy::Retract])?),
            "ttl_refresh" => self.refresh = Some(one_of(written, value, [Refresh::Write, Refresh::Create])?),
            _ => return Err(Error::unknown("option", written, OPTIONS)),
        }
        Ok(())
    }
}

/// Whether an option is about the ttl that another one sets. (A `state_ttl_max` without one is an error.)
pub(super) fn needs_ttl(option: &str) -> bool {
    matches!(option, "on_expiry" | "ttl_refresh")
}

/// Whether an option is the ttl itself.
pub(super) fn is_ttl(option: &str) -> bool {
    option == "state_ttl"
}

fn spelt(ttl: Ttl) -> String {
    ttl.map_or_else(|| "never".into(), format_duration)
}

/// A parsed duration, or its error with the name of what it is said of.
pub(super) fn milliseconds(written: &str, parsed: Result<Option<i64>>) -> Result<Ttl> {
    let parsed = parsed.map_err(|error| Error::invalid(format!("{written}: {error}")))?;
    Ok(parsed.map(i64::unsigned_abs))
}

/// The choice of that spelling.
fn one_of<T: ToString + Copy, const N: usize>(written: &str, value: &str, choices: [T; N]) -> Result<T> {
    let found = choices.into_iter().find(|choice| choice.to_string().eq_ignore_ascii_case(value.trim()));
    found.ok_or_else(|| {
        let names = choices.map(|choice| choice.to_string());
        Error::invalid(format!("{written} is one of {}, not '{value}'", names.join(", ")))
    })
}

/// What a view's options and a query's hints say of one input.
#[derive(Debug)]
pub(super) struct Said {
    /// The input, as it was written first.
    pub name: String,
    /// What said it first.
    pub by: String,
    pub options: Defaults,
    pub hint: Option<HintedTtl>,
}

impl Said {
    /// What stands behind an option's name.
    pub fn suffix(&self) -> String {
        format!(".{}", self.name)
    }
}

/// Sorts a view's options by what they are said of: the view, and each input.
pub(super) fn read_options(options: &[SqlOption]) -> Result<(Defaults, Vec<Said>)> {
    let (mut view, mut named) = (Defaults::default(), Vec::<Said>::new());
    for (n, SqlOption { name: written, value }) in options.iter().enumerate() {
        if options[..n].iter().any(|earlier| same_option(&earlier.name, written)) {
            return Err(Error::invalid(format!("option '{written}' is given twice")));
        }
        let (option, input) = split(written);
        let Some(input) = input else {
            view.say(&option, written, value)?;
            continue;
        };
        if !OPTIONS.contains(&option.as_str()) {
            return Err(Error::unknown("option", written, OPTIONS));
        }
        check_name(input, written)?;
        let position = named.iter().position(|said| key(&said.name) == key(input)).unwrap_or_else(|| {
            named.push(Said { name: input.into(), by: written.clone(), options: Defaults::default(), hint: None });
            named.len() - 1
        });
        named[position].options.say(&option, written, value)?;
    }
    Ok((view, named))
}

/// An option's own name, and the input's behind it.
fn split(written: &str) -> (String, Option<&str>) {
    match written.split_once('.') {
        Some((option, input)) => (option.to_lowercase(), Some(input)),
        None => (written.to_lowercase(), None),
    }
}

/// Whether two options say the same thing of the same input.
pub(super) fn same_option(a: &str, b: &str) -> bool {
    let ((a, a_input), (b, b_input)) = (split(a), split(b));
    a == b && a_input.map(key) == b_input.map(key)
}

/// An error if an input's name, or a part of it, is empty.
pub(super) fn check_name(input: &str, written: &str) -> Result<()> {
    match key(input).iter().any(String::is_empty) {
        true => Err(Error::invalid(format!("{written}: '{input}' is not the name of an input, such as o, or o+l for what a join made"))),
        false => Ok(()),
    }
}

/// One of the places in which something may be said of an input.
#[derive(Debug)]
pub(super) struct Level<'a> {
    pub said: &'a Defaults,
    /// What stands behind an option's name here.
    pub suffix: &'a str,
    /// Where a ttl is said that is said here.
    pub origin: Origin,
}

/// What holds where these levels are, the nearest first. A `state_ttl_max` from farther away than the ttl gives way to a longer
/// ttl, and to `never`.
///
/// # Errors
/// [`Error::Invalid`] for any other `state_ttl_max` that is shorter than the ttl, or that has no ttl to bound.
pub(super) fn resolve(levels: &[&Level]) -> Result<Memory> {
    let first = |says: fn(&Defaults) -> Option<Ttl>| {
        levels.iter().enumerate().find_map(|(distance, level)| says(level.said).map(|ttl| (distance, ttl)))
    };
    let ttl = first(|said| said.ttl);
    let (origin, figure) = ttl.map_or((Origin::Default, None), |(distance, ttl)| (levels[distance].origin.clone(), ttl));
    let ttl_max = match first(|said| said.ttl_max) {
        None | Some((_, None)) => None,
        Some((_, Some(max))) if figure.is_some_and(|ttl| max >= ttl) => Some(max),
        Some((distance, _)) if ttl.is_some_and(|(nearer, _)| nearer < distance) => None,
        Some((distance, Some(max))) => return Err(bounds_nothing(levels[distance], max, figure, &origin)),
    };
    Ok(Memory {
        ttl: figure,
        ttl_max,
        refresh: levels.iter().find_map(|level| level.said.refresh).unwrap_or_default(),
        policy: levels.iter().find_map(|level| level.said.policy).unwrap_or_default(),
        origin,
    })
}

fn bounds_nothing(level: &Level, max: u64, ttl: Ttl, origin: &Origin) -> Error {
    let place = if level.origin == Origin::Session { " (session)" } else { "" };
    let said = format!("state_ttl_max{} = '{}'{place}", level.suffix, format_duration(max));
    match ttl {
        Some(ttl) => Error::invalid(format!("{said} is shorter than the ttl, '{}' ({origin}): it is at least that", format_duration(ttl))),
        None => Error::invalid(format!("{said} has no ttl beside it: state_ttl says how long at least, state_ttl_max how long at most")),
    }
}
