//! What a view is told about its retention: as options of the view, and as the model takes it.

use rand::Rng;
use rand::rngs::StdRng;

use super::model::{Instant, Policy, Refresh, Retention};

/// Which ttl a view, or an input of it, is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    Unset,
    Never,
    Of(Instant),
}

/// Where the ttl of an input is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Option,
    /// `STATE_TTL('l' = '1 s')`, which wins over an option that says never.
    Hint,
    /// `OPTIONS('state.ttl.left' = '1 s')` behind a JOIN, where the input is a side of one.
    JoinHint,
}

/// What is said of one input.
#[derive(Debug, Clone)]
pub struct Side {
    pub name: &'static str,
    pub ttl: Ttl,
    pub by: By,
    pub ttl_max: Option<Instant>,
    pub refresh: Option<Refresh>,
    pub policy: Option<Policy>,
}

/// The retention of a view.
#[derive(Debug, Clone)]
pub struct Settings {
    pub ttl: Ttl,
    /// Of inputs by name; those that are not here take the view's.
    pub sides: Vec<Side>,
    /// What the session has when the view is made.
    pub session: Ttl,
    pub ttl_max: Option<Instant>,
    pub refresh: Refresh,
    pub policy: Policy,
}

const TTLS: [Instant; 4] = [1000, 2000, 3000, 5000];
const POLICIES: [Policy; 3] = [Policy::Forget, Policy::Keep, Policy::Retract];

impl Ttl {
    fn random(rng: &mut StdRng) -> Self {
        Ttl::Of(TTLS[rng.random_range(0..TTLS.len())])
    }

    fn sql(self) -> String {
        match self {
            Ttl::Unset | Ttl::Never => "'never'".into(),
            Ttl::Of(ttl) => format!("'{ttl} ms'"),
        }
    }

    fn or(self, other: Ttl) -> Ttl {
        if self == Ttl::Unset { other } else { self }
    }

    fn is_bounded(self) -> bool {
        matches!(self, Ttl::Of(_))
    }
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Policy::Forget => "forget",
            Policy::Keep => "keep",
            Policy::Retract => "retract",
        }
    }
}

impl Refresh {
    fn name(self) -> &'static str {
        if self == Refresh::Write { "write" } else { "create" }
    }
}

impl Side {
    fn new(name: &'static str) -> Self {
        Side { name, ttl: Ttl::Unset, by: By::Option, ttl_max: None, refresh: None, policy: None }
    }
}

impl Settings {
    /// A view without a word about retention.
    pub fn none() -> Self {
        Settings { ttl: Ttl::Unset, sides: vec![], session: Ttl::Unset, ttl_max: None, refresh: Refresh::Write, policy: Policy::Forget }
    }

    /// One ttl for everything.
    pub fn of(ttl: Ttl, policy: Policy) -> Self {
        Settings { ttl, policy, ..Self::none() }
    }

    /// Settings of a view with these operators, each by the names of its inputs, where they can be told apart.
    pub fn random(rng: &mut StdRng, operators: &[&'static [&'static str]]) -> Self {
        let mut settings = Self::of(Ttl::random(rng), POLICIES[rng.random_range(0..3)]);
        let names: Vec<&'static str> = operators.concat();
        if !names.is_empty() && rng.random_bool(0.6) {
            for name in &names {
                let ttl = match rng.random_range(0..10) {
                    0..6 => Ttl::random(rng),
                    6 => Ttl::Never,
                    _ => continue,
                };
                let by = [By::Option, By::Option, By::Hint, By::JoinHint][rng.random_range(0..4)];
                settings.sides.push(Side { ttl, by, ..Side::new(name) });
            }
            settings.ttl = if rng.random_bool(0.5) { Ttl::Unset } else { settings.ttl };
        }
        if rng.random_bool(0.15) {
            (settings.ttl, settings.session) = (Ttl::Unset, Ttl::random(rng));
        }
        if rng.random_bool(0.2) {
            settings.refresh = Refresh::Create;
        }
        // a maximum is for those that have a ttl
        let all_have_one = settings.sides.iter().all(|side| side.ttl != Ttl::Never) && settings.ttl.or(settings.session) != Ttl::Unset;
        if all_have_one && rng.random_bool(0.25) {
            settings.ttl_max = Some(most(rng));
        }
        for operator in operators {
            // both sides of a join have one result
            let policy = rng.random_bool(0.25).then(|| POLICIES[rng.random_range(0..3)]);
            for name in *operator {
                let is_bounded = settings.ttl_of(Some(name)).is_bounded();
                let side = Side {
                    policy: policy.filter(|_| is_bounded || rng.random_bool(0.5)),
                    refresh: rng.random_bool(0.1).then(|| if rng.random_bool(0.5) { Refresh::Write } else { Refresh::Create }),
                    ttl_max: (is_bounded && rng.random_bool(0.1)).then(|| most(rng)),
                    ..Side::new(name)
                };
                match settings.sides.iter_mut().find(|there| there.name == *name) {
                    Some(there) => *there = Side { ttl: there.ttl, by: there.by, ..side },
                    None if side.policy.is_some() || side.refresh.is_some() || side.ttl_max.is_some() => settings.sides.push(side),
                    None => {}
                }
            }
        }
        settings
    }

    /// All its ttls made longer.
    pub fn longer_by(mut self, by: Instant) -> Self {
        let ttls = self.sides.iter_mut().map(|side| &mut side.ttl).chain([&mut self.ttl, &mut self.session]);
        for ttl in ttls {
            if let Ttl::Of(ttl) = ttl {
                *ttl += by;
            }
        }
        self
    }

    fn side(&self, name: Option<&str>) -> Option<&Side> {
        self.sides.iter().find(|side| Some(side.name) == name)
    }

    fn ttl_of(&self, side: Option<&str>) -> Ttl {
        self.side(side).map_or(Ttl::Unset, |side| side.ttl).or(self.ttl).or(self.session)
    }

    /// What an arrangement of the view has: an input's by its name, any other by None.
    pub fn retention(&self, side: Option<&str>) -> Retention {
        let own = self.side(side);
        match self.ttl_of(side) {
            Ttl::Unset | Ttl::Never => Retention::default(),
            Ttl::Of(ttl) => Retention {
                ttl: Some(ttl),
                ttl_max: own.and_then(|own| own.ttl_max).or(self.ttl_max),
                refresh: own.and_then(|own| own.refresh).unwrap_or(self.refresh),
            },
        }
    }

    /// The policy of an operator with these inputs.
    pub fn policy(&self, sides: &[&str]) -> Policy {
        let bounded = sides.iter().find(|name| self.ttl_of(Some(name)).is_bounded());
        bounded.and_then(|name| self.side(Some(name))?.policy).unwrap_or(self.policy)
    }

    /// ` WITH (...)`, or nothing. Hints say what these inputs are given by one.
    pub fn options(&self) -> String {
        let mut options = vec![];
        let mut say = |option: &str, side: Option<&str>, value: String| match side {
            None => options.push(format!("{option} = {value}")),
            Some(side) if side.contains('+') => options.push(format!("'{option}.{side}' = {value}")),
            Some(side) => options.push(format!("{option}.{side} = {value}")),
        };
        if self.ttl != Ttl::Unset {
            say("state_ttl", None, self.ttl.sql());
        }
        for side in &self.sides {
            let name = Some(side.name);
            if side.ttl != Ttl::Unset && side.by == By::Option {
                say("state_ttl", name, side.ttl.sql());
            } else if side.by == By::Hint {
                say("state_ttl", name, "'never'".into());
            }
            side.ttl_max.iter().for_each(|most| say("state_ttl_max", name, format!("'{most} ms'")));
            side.refresh.iter().for_each(|refresh| say("ttl_refresh", name, format!("'{}'", refresh.name())));
            side.policy.iter().for_each(|policy| say("on_expiry", name, format!("'{}'", policy.name())));
        }
        self.ttl_max.iter().for_each(|most| say("state_ttl_max", None, format!("'{most} ms'")));
        if self.refresh == Refresh::Create {
            say("ttl_refresh", None, "'create'".into());
        }
        if self.policy != Policy::Forget {
            say("on_expiry", None, format!("'{}'", self.policy.name()));
        }
        if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) }
    }

    /// A query with its hints. `joins` are the sides of each JOIN of its text.
    pub fn hinted(&self, query: &str, joins: &[[&str; 2]]) -> String {
        let value = |ttl: Ttl| if ttl == Ttl::Never { "'0s'".to_string() } else { ttl.sql() };
        let mut by_name = vec![];
        let mut by_join = vec![vec![]; joins.len()];
        for side in self.sides.iter().filter(|side| side.by != By::Option && side.ttl != Ttl::Unset) {
            let place = joins.iter().enumerate().find_map(|(join, sides)| Some((join, sides.iter().position(|name| *name == side.name)?)));
            match place.filter(|_| side.by == By::JoinHint) {
                Some((join, place)) => by_join[join].push(format!("'state.ttl.{}' = {}", ["left", "right"][place], value(side.ttl))),
                None => by_name.push(format!("'{}' = {}", side.name, value(side.ttl))),
            }
        }
        let (start, rest) = query.split_once("SELECT").expect("a query selects");
        let mut parts = rest.split(" JOIN ");
        let hint =
            |name: &str, said: &[String]| if said.is_empty() { String::new() } else { format!(" /*+ {name}({}) */", said.join(", ")) };
        let mut hinted = format!("{start}SELECT{}{}", hint("STATE_TTL", &by_name), parts.next().unwrap_or_default());
        for (join, part) in parts.enumerate() {
            hinted += &format!(" JOIN{} {part}", by_join.get(join).map_or(String::new(), |said| hint("OPTIONS", said)));
        }
        hinted
    }

    /// The statement before the view, if the session has something to say.
    pub fn session(&self) -> Option<String> {
        (self.session != Ttl::Unset).then(|| format!("SET state_ttl = {}", self.session.sql()))
    }
}

/// A `state_ttl_max` that is longer than any ttl.
fn most(rng: &mut StdRng) -> Instant {
    TTLS[TTLS.len() - 1] + 1000 * rng.random_range(1..=3)
}

#[test]
fn hints_stand_behind_select_and_behind_each_join() {
    let side = |name, by| Side { ttl: Ttl::Of(1000), by, ..Side::new(name) };
    let sides = vec![side("l", By::JoinHint), side("r", By::Hint), side("c", By::JoinHint), side("o", By::Option)];
    let settings = Settings { sides, ..Settings::none() };
    assert_eq!(
        settings.hinted("SELECT 1 FROM l JOIN r ON 1 JOIN c ON 1", &[["l", "r"], ["l+r", "c"]]),
        "SELECT /*+ STATE_TTL('r' = '1000 ms') */ 1 FROM l JOIN /*+ OPTIONS('state.ttl.left' = '1000 ms') */ r ON 1 \
         JOIN /*+ OPTIONS('state.ttl.right' = '1000 ms') */ c ON 1"
    );
    assert_eq!(settings.options(), " WITH (state_ttl.r = 'never', state_ttl.o = '1000 ms')");
}
