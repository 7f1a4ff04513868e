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

/// The retention of a view.
#[derive(Debug, Clone)]
pub struct Settings {
    pub ttl: Ttl,
    /// Of inputs by name; those that are not here take the view's.
    pub sides: Vec<(&'static str, Ttl)>,
    /// What the session has when the view is made.
    pub session: Ttl,
    pub ttl_max: Option<Instant>,
    pub refresh: Refresh,
    pub policy: Policy,
}

const TTLS: [Instant; 4] = [1000, 2000, 3000, 5000];

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

    /// Settings of a view whose inputs, where they can be told apart, have these names.
    pub fn random(rng: &mut StdRng, sides: &[&'static str]) -> Self {
        let policy = [Policy::Forget, Policy::Keep, Policy::Retract][rng.random_range(0..3)];
        let mut settings = Self::of(Ttl::random(rng), policy);
        if !sides.is_empty() && rng.random_bool(0.6) {
            for side in sides {
                match rng.random_range(0..10) {
                    0..6 => settings.sides.push((*side, Ttl::random(rng))),
                    6 => settings.sides.push((*side, Ttl::Never)),
                    _ => {}
                }
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
        let all_have_one = settings.sides.iter().all(|(_, ttl)| *ttl != Ttl::Never) && settings.ttl.or(settings.session) != Ttl::Unset;
        if all_have_one && rng.random_bool(0.25) {
            settings.ttl_max = Some(TTLS[TTLS.len() - 1] + 1000 * rng.random_range(1..=3));
        }
        settings
    }

    /// What an arrangement of the view has: an input's by its name, any other by None.
    pub fn retention(&self, side: Option<&str>) -> Retention {
        let own = self.sides.iter().find(|(name, _)| Some(*name) == side).map_or(Ttl::Unset, |(_, ttl)| *ttl);
        match own.or(self.ttl).or(self.session) {
            Ttl::Unset | Ttl::Never => Retention::default(),
            Ttl::Of(ttl) => Retention { ttl: Some(ttl), ttl_max: self.ttl_max, refresh: self.refresh },
        }
    }

    /// ` WITH (...)`, or nothing.
    pub fn options(&self) -> String {
        let mut options = vec![];
        if self.ttl != Ttl::Unset {
            options.push(format!("state_ttl = {}", self.ttl.sql()));
        }
        for (side, ttl) in &self.sides {
            let quote = if side.contains('+') { "'" } else { "" };
            options.push(format!("{quote}state_ttl.{side}{quote} = {}", ttl.sql()));
        }
        options.extend(self.ttl_max.map(|most| format!("state_ttl_max = '{most} ms'")));
        if self.refresh == Refresh::Create {
            options.push("ttl_refresh = 'create'".into());
        }
        match self.policy {
            Policy::Forget => {}
            Policy::Keep => options.push("on_expiry = 'keep'".into()),
            Policy::Retract => options.push("on_expiry = 'retract'".into()),
        }
        if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) }
    }

    /// The statement before the view, if the session has something to say.
    pub fn session(&self) -> Option<String> {
        (self.session != Ttl::Unset).then(|| format!("SET state_ttl = {}", self.session.sql()))
    }
}
