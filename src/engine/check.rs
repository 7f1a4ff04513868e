//! What a script's views and jobs remember that they should perhaps not, told before anything runs.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::Engine;
use super::explain::{Made, MadeBy};
use super::session::Session;
use crate::error::Result;
use crate::plan::{Arrangement, Bound, Fingerprint};
use crate::sql::duration::format_duration;
use crate::sql::retention::Vain;
use crate::sql::statement::{CreateView, Parsed, Statement};

/// Looks at a script, a statement at a time. Arrangements that several views share are told of once, for the first.
pub struct Check {
    engine: Engine,
    seen: Seen,
}

/// The arrangements that were met, and what needed each first.
#[derive(Default)]
struct Seen {
    needed_by: HashMap<Fingerprint, MadeBy>,
}

/// Something about an arrangement, or an option, that deserves a second thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What needs it first.
    pub by: MadeBy,
    pub problem: Problem,
}

/// An arrangement, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As EXPLAIN names it.
    pub operator: String,
    /// A join side's name in FROM.
    pub input: Option<String>,
    /// The names of the key's columns, with commas between; empty where all rows are one group.
    pub key: String,
}

/// What is the matter with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Nothing bounds it, for this reason.
    Unbounded { place: Place, reason: String },
    /// It forgets sooner (milliseconds) than one that it reads from, so that changes come for what it has forgotten.
    ShorterThanUpstream { place: Place, ttl: u64, upstream: Place, needed_by: MadeBy, upstream_ttl: u64 },
    /// An option of the view changes nothing, for this reason.
    WithoutEffect { option: String, reason: Vain },
}

impl Check {
    pub(super) fn new(engine: Engine) -> Self {
        Check { engine, seen: Seen::default() }
    }

    /// What there is to say of a statement's views and jobs. Its definitions are made; nothing flows.
    ///
    /// # Errors
    ///
    /// Those of the statement.
    pub fn statement(&mut self, parsed: &Parsed) -> Result<Vec<Finding>> {
        let seen = &mut self.seen;
        self.engine.with_session(|session| {
            let made = session.plans_of(parsed)?;
            let stored = session.stored();
            let mut findings: Vec<Finding> =
                made.iter().filter(|made| made.is_maintained).flat_map(|made| seen.findings(made, &stored)).collect();
            findings.extend(session.without_effect_in(&parsed.statement)?);
            Ok(findings)
        })
    }
}

impl Session {
    /// What a statement that has been run says of a view's memory in vain.
    fn without_effect_in(&self, statement: &Statement) -> Result<Vec<Finding>> {
        let (Statement::CreateView(CreateView { name, .. }) | Statement::AlterView { name, .. }) = statement else { return Ok(vec![]) };
        let view = self.catalog.view(name)?;
        let found = self.options_without_effect(&view.query, &view.options)?.into_iter();
        let finding = |(option, reason)| Finding { by: MadeBy::View(name.clone()), problem: Problem::WithoutEffect { option, reason } };
        Ok(found.map(finding).collect())
    }

    /// The arrangements that are the tables in memory themselves.
    pub fn stored(&self) -> HashSet<Fingerprint> {
        self.catalog.tables().filter(|table| table.is_in_memory()).filter_map(|table| table.input().kept()).collect()
    }
}

impl Seen {
    fn findings(&mut self, made: &Made, stored: &HashSet<Fingerprint>) -> Vec<Finding> {
        let all: Vec<(&str, &Arrangement)> = made.plan.all_arrangements().collect();
        let new = |(_, arrangement): &&(&str, &Arrangement)| {
            let id = arrangement.fingerprint();
            !stored.contains(&id) && !self.needed_by.contains_key(&id)
        };
        let new: Vec<(&str, &Arrangement)> = all.iter().filter(new).copied().collect();
        for (_, arrangement) in &new {
            self.needed_by.insert(arrangement.fingerprint(), made.by.clone());
        }
        let finding = |(operator, arrangement): &(&str, &Arrangement)| {
            let problem = self.problem(Place::of(operator, arrangement), arrangement)?;
            Some(Finding { by: made.by.clone(), problem })
        };
        let mut findings: Vec<Finding> = Vec::new();
        for finding in new.iter().filter_map(finding) {
            // The arrangements of one aggregate may differ in nothing that a person would see.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        findings
    }

    fn problem(&self, place: Place, arrangement: &Arrangement) -> Option<Problem> {
        match (arrangement.bound(), arrangement.retention.and_then(|retention| retention.ttl)) {
            (Bound::Nothing(reason), _) => Some(Problem::Unbounded { place, reason }),
            (_, Some(ttl)) => self.longer_upstream(place, arrangement, ttl),
            _ => None,
        }
    }

    /// The arrangement with the longest memory among those that this one reads from, if it is longer than its own.
    fn longer_upstream(&self, place: Place, arrangement: &Arrangement, ttl: u64) -> Option<Problem> {
        let finite = |(operator, upstream): (&'static str, &Arrangement)| {
            let upstream_ttl = upstream.retention?.ttl?;
            let needed_by = self.needed_by.get(&upstream.fingerprint())?.clone();
            Some((upstream_ttl, Place::of(operator, upstream), needed_by))
        };
        let all = arrangement.input.all_arrangements().filter_map(finite);
        // Of equal ones the first, which is the nearest.
        let longest = all.reduce(|longest, other| if other.0 > longest.0 { other } else { longest });
        let (upstream_ttl, upstream, needed_by) = longest.filter(|longest| longest.0 > ttl)?;
        Some(Problem::ShorterThanUpstream { place, ttl, upstream, needed_by, upstream_ttl })
    }
}

impl Place {
    fn of(operator: &str, arrangement: &Arrangement) -> Self {
        Place { operator: operator.to_owned(), input: arrangement.name.clone(), key: arrangement.key_names() }
    }
}

impl Finding {
    /// Whether it is state that nothing bounds.
    pub fn is_unbounded(&self) -> bool {
        matches!(self.problem, Problem::Unbounded { .. })
    }

    /// What to write instead.
    pub fn advice(&self) -> String {
        match (&self.problem, &self.by) {
            (Problem::ShorterThanUpstream { ttl, upstream_ttl, .. }, _) => {
                format!("give it '{}' or more, or what it reads '{}' or less", format_duration(*upstream_ttl), format_duration(*ttl))
            }
            (Problem::WithoutEffect { reason: Vain::NothingRemembered, .. }, _) => "leave it out".to_owned(),
            (Problem::WithoutEffect { reason: Vain::NoTtl, .. }, _) => "write state_ttl = '...' beside it, or leave it out".to_owned(),
            (Problem::WithoutEffect { reason: Vain::OnlyCreated, .. }, _) => {
                "leave state_ttl_max out, or write ttl_refresh = 'write'; to say nothing new, leave this out".to_owned()
            }
            (Problem::Unbounded { place, .. }, _) if place.operator == "Get" => {
                "write 'state_ttl' = '...' in the WITH of the table that it reads by primary key, or SET state_ttl = '...' before that"
                    .to_owned()
            }
            (Problem::Unbounded { place, .. }, MadeBy::View(name)) => {
                let option = match place.input.as_deref() {
                    None => "state_ttl".to_owned(),
                    Some(input) if input.chars().all(|c| c.is_alphanumeric() || c == '_') => format!("state_ttl.{input}"),
                    Some(input) => format!("'state_ttl.{input}'"),
                };
                format!("write VIEW {name} WITH ({option} = '...') AS, or SET state_ttl = '...' before it")
            }
            (Problem::Unbounded { place, .. }, _) => match &place.input {
                None => "write SET state_ttl = '...' before it".to_owned(),
                Some(input) => format!("write SELECT /*+ STATE_TTL('{input}' = '...') */, or SET state_ttl = '...' before it"),
            },
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.by)?;
        match &self.problem {
            Problem::WithoutEffect { option, reason } => write!(f, "{option} has no effect: {reason}"),
            Problem::Unbounded { place, reason } => write!(f, "{place}: unbounded because {reason}"),
            Problem::ShorterThanUpstream { place, ttl, upstream, needed_by, upstream_ttl } => {
                write!(f, "{place}: its ttl of {} is shorter than the {} of ", format_duration(*ttl), format_duration(*upstream_ttl))?;
                if *needed_by != self.by {
                    write!(f, "{needed_by}: ")?;
                }
                write!(f, "{upstream}, which it reads: changes come for what it has forgotten")
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operator)?;
        if let Some(input) = &self.input {
            write!(f, " of {input}")?;
        }
        if self.key.is_empty() { f.write_str(" as one group") } else { write!(f, " by [{}]", self.key) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Clock;

    /// The findings of a script's statements, as text.
    fn check(script: &str) -> Vec<String> {
        let engine = Engine::builder().clock(Clock::Manual).build().unwrap();
        let mut check = engine.check();
        crate::sql::statements(script).flat_map(|parsed| check.statement(&parsed.unwrap()).unwrap()).map(|f| f.to_string()).collect()
    }

    const LOGIN: &str = "CREATE TABLE login (user_id BIGINT, t_date DATE);";

    #[test]
    fn state_that_nothing_bounds_is_found_once_however_many_views_need_it() {
        let views = "CREATE VIEW n AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
            CREATE VIEW m AS SELECT user_id AS u, COUNT(*) AS m FROM login GROUP BY user_id;
            CREATE VIEW o WITH (state_ttl = 'never') AS SELECT n, COUNT(*) AS users FROM n GROUP BY n;";
        let found = check(&format!("{LOGIN}{views}"));
        let expected = [
            "view n: Reduce by [user_id]: unbounded because no state_ttl is set",
            "view o: Reduce by [n]: unbounded because state_ttl is 'never' (view)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_ttl_or_constants_bound_and_what_is_answered_once_is_no_finding() {
        let statements = "CREATE VIEW n WITH (state_ttl = '3 days') AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
            CREATE VIEW c AS SELECT a, COUNT(*) AS n FROM (VALUES (1), (2)) AS t (a) GROUP BY a;
            INSERT INTO login VALUES (1, DATE '2026-01-01');
            SELECT t_date, COUNT(*) AS n FROM login GROUP BY t_date;
            EXPLAIN SELECT t_date, COUNT(*) AS n FROM login GROUP BY t_date;";
        assert_eq!(check(&format!("{LOGIN}{statements}")), Vec::<String>::new());
    }

    #[test]
    fn what_a_temporal_filter_ends_is_bounded_and_what_it_only_begins_is_not() {
        let view = |name: &str, condition: &str| {
            format!("CREATE VIEW {name} AS SELECT user_id, COUNT(*) AS {name} FROM login WHERE {condition} GROUP BY user_id;")
        };
        let views = [
            view("ends", "t_date > CURRENT_DATE - INTERVAL '3' DAY"),
            view("both", "CURRENT_DATE BETWEEN t_date AND t_date + INTERVAL '3' DAY"),
            view("some", "t_date > CURRENT_DATE OR user_id = 1"),
            view("begins", "t_date <= CURRENT_DATE"),
        ];
        let found = check(&format!("{LOGIN}{}", views.concat()));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("view some: Reduce") && found[1].starts_with("view begins: Reduce"), "{found:?}");
    }

    #[test]
    fn a_table_in_memory_is_storage_and_an_index_of_it_is_state() {
        let tables = "CREATE TABLE u (id BIGINT, name VARCHAR, PRIMARY KEY (id) NOT ENFORCED); CREATE TABLE o (id BIGINT, u BIGINT);";
        let view = "CREATE VIEW v AS SELECT o.id, u.name FROM o JOIN u ON o.u = u.id WHERE u.id IS NOT NULL;";
        let found = check(&format!("{tables}{view}"));
        assert!(found.iter().any(|finding| finding.starts_with("view v: Join of o by [u]: ")), "{found:?}");
        assert!(!found.iter().any(|finding| finding.contains("Join of u")), "{found:?}");
    }

    #[test]
    fn a_ttl_shorter_than_that_of_what_it_reads_is_found_with_both() {
        let views = "CREATE VIEW n WITH (state_ttl = '7 days') AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
            CREATE VIEW o WITH (state_ttl = '3 days') AS SELECT n, COUNT(*) AS users FROM n GROUP BY n;
            CREATE VIEW p WITH (state_ttl = '7 days') AS SELECT n + 1 AS n1, COUNT(*) AS users FROM n GROUP BY n + 1;";
        let found = check(&format!("{LOGIN}{views}"));
        let expected = "view o: Reduce by [n]: its ttl of 3 days is shorter than the 7 days of view n: Reduce by [user_id], which it reads: \
            changes come for what it has forgotten";
        assert_eq!(found.len(), 1, "{found:?}");
        // Whole rows that expire are remembered below an operator that does not read all of them.
        assert_eq!(found[0].replace("Remember", "Reduce"), expected);
    }

    #[test]
    fn an_option_that_changes_nothing_is_found_with_the_reason() {
        let views = "CREATE VIEW plain WITH (state_ttl = '3 days') AS SELECT user_id FROM login;
            CREATE VIEW never WITH (state_ttl = 'never') AS SELECT user_id FROM login;
            CREATE VIEW n WITH (on_expiry = 'keep', ttl_refresh = 'create') AS SELECT user_id, COUNT(*) AS n FROM login GROUP BY user_id;
            CREATE VIEW j WITH (state_ttl.a = '1 h', on_expiry = 'retract', on_expiry.b = 'retract') AS
                SELECT a.user_id FROM login AS a JOIN login AS b ON a.user_id = b.user_id;
            CREATE VIEW once WITH (state_ttl = '1 h', ttl_refresh = 'create', state_ttl_max = '1 day') AS
                SELECT user_id, COUNT(*) AS once FROM login GROUP BY user_id;
            CREATE VIEW equal WITH (state_ttl = '1 h', ttl_refresh = 'create', state_ttl_max = '1 h') AS
                SELECT user_id, COUNT(*) AS equal FROM login GROUP BY user_id;
            CREATE VIEW side WITH (state_ttl = '1 h', state_ttl.b = '2 h', ttl_refresh.b = 'create', state_ttl_max.b = '1 day') AS
                SELECT a.t_date FROM login AS a JOIN login AS b ON a.user_id = b.user_id;
            ALTER VIEW n SET (state_ttl = '1 h');
            SET state_ttl = '1 h';
            CREATE VIEW m WITH (on_expiry = 'keep') AS SELECT t_date, COUNT(*) AS m FROM login GROUP BY t_date;";
        let found = check(&format!("{LOGIN}{views}"));
        let expected = [
            "view plain: state_ttl has no effect: the view remembers nothing",
            "view n: on_expiry has no effect: no ttl is set beside it",
            "view n: ttl_refresh has no effect: no ttl is set beside it",
            "view j: on_expiry.b has no effect: no ttl is set beside it",
            "view once: state_ttl has no effect: with ttl_refresh = 'create' only the first write counts, and from it on state_ttl_max is how long",
            "view side: state_ttl.b has no effect: with ttl_refresh = 'create' only the first write counts, and from it on state_ttl_max is how long",
        ];
        assert_eq!(found.iter().filter(|found| found.contains("effect")).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_advice_names_the_option_that_would_bound_it() {
        let finding = |by: MadeBy, input: Option<&str>| {
            let place = Place { operator: "Join".into(), input: input.map(str::to_owned), key: "id".into() };
            Finding { by, problem: Problem::Unbounded { place, reason: "no state_ttl is set".into() } }.advice()
        };
        let view = || MadeBy::View("v".into());
        assert!(finding(view(), None).starts_with("write VIEW v WITH (state_ttl = '...') AS, or SET state_ttl = '...'"));
        assert!(finding(view(), Some("o")).contains("(state_ttl.o = '...')"));
        assert!(finding(view(), Some("o+l")).contains("('state_ttl.o+l' = '...')"));
        assert!(finding(MadeBy::Insert("s".into()), Some("o")).contains("/*+ STATE_TTL('o' = '...') */"));
    }
}
