//! What forgetting costs: views beside what they would be if they forgot nothing.
//!
//! While an audit is on, whatever forgets is kept up to date twice in one dataflow: its plan, and the same plan without
//! retention. Both see the same rows at the same times, so at the end of each step the two can be compared: by what
//! each has *published*, as a consumer adds up its changes. Of that only the difference is kept, and the changes of steps
//! that one of the two has not finished.
//!
//! A view is compared from the first step after it was defined in which anything flows, materialized or not. One that reads
//! tables in memory begins with their rows of then, whatever a ttl would have made of them before.
//!
//! The figures of the state are those of what is live, whatever traces have not merged yet; beside the rows and sums they count
//! what tells when to forget them. A join side that forgets keeps columns that nobody reads, and so does the one that it is
//! compared with.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMillisecondArray};

use super::catalog::{Catalog, Member};
use super::runtime::{Export, Footprint};
use super::session::Session;
use super::show::{batch_of, texts};
use super::{Engine, lock, time};
use crate::dataflow::sink::Deliver;
use crate::error::{Error, Result};
use crate::plan::{Arrangement, Fingerprint, Plan, Policy};
use crate::row::{Codec, Diff, Time};
use crate::sql::duration::format_duration;
use crate::sql::planner::Purpose;
use crate::sql::statement::{Parsed, Statement};
use crate::text;

/// An audit of the views and jobs that are defined while it is on.
pub struct Audit {
    engine: Engine,
}

/// What an audit has found of a view, or of a job that remembers what no view does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// `dau`, or `job report`.
    pub name: String,
    /// What is forgotten when: `3 days by [t_date]`, `1 h of o`, each figure once. None where nothing is.
    pub ttls: Option<String>,
    /// None where nothing is forgotten.
    pub compared: Option<Compared>,
}

/// A view beside itself without retention. Instants are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Rows of the exact result at the end.
    pub rows: u64,
    /// Rows that are there more or less often than in the exact result, at the end.
    pub differ: u64,
    /// The same at the end of the step in which there were most, and its instant.
    pub worst: u64,
    pub worst_at: Option<i64>,
    pub first: Option<FirstDifference>,
    /// What it keeps at the end, and what it would keep.
    pub state: Footprint,
    pub exact_state: Footprint,
}

/// The first step at whose end something differed, with the first row of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstDifference {
    pub at: i64,
    /// A row that is there only because something was forgotten.
    pub added: Option<String>,
    /// A row that is not there because something was forgotten.
    pub missing: Option<String>,
}

/// What a session keeps of an audit.
#[derive(Default)]
pub(super) struct Auditor {
    /// Views and jobs, in the order in which they were installed.
    members: Vec<Member>,
    compared: HashMap<Member, Comparing>,
}

/// A comparison that is going on.
struct Comparing {
    /// What was forgotten when it began.
    ttls: String,
    exact: Plan,
    comparison: Arc<Mutex<Comparison>>,
}

/// Two collections, as their changes come.
#[derive(Default)]
struct Comparison {
    sides: [Side; 2],
    /// How much more often each row is in the first than in the second.
    difference: HashMap<Vec<u8>, Diff>,
    /// The sum of that, without signs.
    differ: u64,
    /// How many rows the second has.
    rows: Diff,
    worst: u64,
    worst_at: Option<Time>,
    first: Option<First>,
}

/// What has come of one of the two.
#[derive(Default)]
struct Side {
    /// Complete steps that the other has not completed.
    waiting: BTreeMap<Time, Vec<(Vec<u8>, Diff)>>,
    /// All before this is there.
    through: Time,
    errors: Vec<String>,
}

/// As [`FirstDifference`], in bytes.
struct First {
    at: Time,
    added: Option<Vec<u8>>,
    missing: Option<Vec<u8>>,
}

/// One side's end of the dataflow.
struct Ear {
    side: usize,
    comparison: Arc<Mutex<Comparison>>,
}

const BOUNDED: usize = 0;
const EXACT: usize = 1;

impl Audit {
    pub(super) fn start(engine: Engine) -> Result<Self> {
        engine.with_session(|session| {
            session.audit.get_or_insert_with(Auditor::default);
            Ok(())
        })?;
        Ok(Audit { engine })
    }

    /// Runs a statement. Its rows are nobody's, and a SUBSCRIBE is only checked.
    pub fn statement(&self, parsed: &Parsed) -> Result<()> {
        match &parsed.statement {
            Statement::Subscribe(query) => self.engine.with_session(|session| session.plan(query, Purpose::Maintain).map(drop)),
            _ => self.engine.execute_statement(parsed).map(drop),
        }
    }

    /// Waits until all that is read has been read, and says what was found.
    ///
    /// # Errors
    ///
    /// A source that does not end; those of [`Engine::finish`]; errors among the rows of a view, with or without what it
    /// forgets.
    pub fn report(&self) -> Result<Vec<Audited>> {
        self.engine.with_session(|session| {
            session.prepare()?;
            session.flow()?;
            match session.driver.unbounded_source() {
                Some(source) => {
                    Err(Error::invalid(format!("source '{source}' does not end, and an audit reads all of its input: bound what it reads")))
                }
                None => Ok(()),
            }
        })?;
        self.engine.finish()?;
        self.engine.with_session(|session| session.audited())
    }
}

impl Session {
    fn audited(&self) -> Result<Vec<Audited>> {
        let Some(audit) = &self.audit else { return Ok(vec![]) };
        let of_views: BTreeSet<Fingerprint> =
            self.catalog.views().flat_map(|view| forgetting(&view.plan)).map(|a| a.fingerprint()).collect();
        let is_listed = |member: &&Member| match member {
            Member::View(name) => self.catalog.find_view(name).is_some(),
            Member::Job(name) => self
                .catalog
                .job(name)
                .is_ok_and(|job| forgetting(&job.plan).any(|arrangement| !of_views.contains(&arrangement.fingerprint()))),
            Member::Subscription(_) => false,
        };
        let plans: HashMap<Member, &Plan> = self.catalog.plans().collect();
        let listed: Vec<Subject> = audit.members.iter().filter(is_listed).map(|member| subject(member, audit, &plans)).collect();
        // All at once: what several of them share is read once.
        let both = listed.iter().filter_map(|subject| subject.compared).flat_map(|(comparing, plan)| [plan, &comparing.exact]);
        let both: Vec<Plan> = both.cloned().collect();
        let footprints = self.driver.timeline().between(|runtime| runtime.footprints(&both))?;
        let mut footprints = footprints.chunks_exact(2);
        let audited = listed.into_iter().map(|Subject { name, compared }| {
            let Some((comparing, plan)) = compared else { return Ok(Audited { name, ttls: None, compared: None }) };
            let Some([state, exact]) = footprints.next() else { return Err(Error::invalid("two plans have two footprints")) };
            comparing.audited(name, plan, [*state, *exact])
        });
        audited.collect()
    }
}

/// What is audited, with what goes on where it forgets something.
struct Subject<'a> {
    name: String,
    compared: Option<(&'a Comparing, &'a Plan)>,
}

fn subject<'a>(member: &Member, audit: &'a Auditor, plans: &HashMap<Member, &'a Plan>) -> Subject<'a> {
    let name = match member {
        Member::View(name) => name.clone(),
        Member::Job(_) | Member::Subscription(_) => member.to_string().replace('\'', ""),
    };
    Subject { name, compared: audit.compared.get(member).zip(plans.get(member).copied()) }
}

impl Comparing {
    fn audited(&self, name: String, plan: &Plan, [state, exact_state]: [Footprint; 2]) -> Result<Audited> {
        let comparison = lock(&self.comparison);
        for (side, what) in [(BOUNDED, ""), (EXACT, ", without its ttl")] {
            if let [first, more @ ..] = &comparison.sides[side].errors[..] {
                let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
                return Err(Error::Data(format!("{name}{what}: {first}{more}")));
            }
        }
        let codec = Codec::new(plan.row(), 0)?;
        let shown = |row: &Option<Vec<u8>>| -> Result<Option<String>> {
            let Some(row) = row else { return Ok(None) };
            Ok(Some(format!("({})", text::line(&codec.decode(std::iter::once(row.as_slice()))?, 0).join(", "))))
        };
        let first = comparison.first.as_ref().map(|first| {
            Ok::<_, Error>(FirstDifference { at: time::ms(first.at), added: shown(&first.added)?, missing: shown(&first.missing)? })
        });
        let compared = Compared {
            rows: comparison.rows.unsigned_abs(),
            differ: comparison.differ,
            worst: comparison.worst,
            worst_at: comparison.worst_at.map(time::ms),
            first: first.transpose()?,
            state,
            exact_state,
        };
        // ALTER VIEW may have changed them.
        let now = ttls(plan);
        let ttls = match now.as_str() {
            same if same == self.ttls => now,
            "" => format!("{}; then none", self.ttls),
            other => format!("{}; then {other}", self.ttls),
        };
        Ok(Audited { name, ttls: Some(ttls), compared: Some(compared) })
    }
}

/// The arrangements of a plan that forget.
fn forgetting(plan: &Plan) -> impl Iterator<Item = &Arrangement> {
    plan.all_arrangements().map(|(_, arrangement)| arrangement).filter(|arrangement| arrangement.forgets())
}

/// What a plan forgets when, for people.
fn ttls(plan: &Plan) -> String {
    let mut texts: Vec<String> = Vec::new();
    for arrangement in forgetting(plan) {
        let Some(ttl) = arrangement.retention.and_then(|retention| retention.ttl) else { continue };
        let what = match &arrangement.name {
            Some(input) => format!("of {input}"),
            None if arrangement.key == 0 => "as one group".to_owned(),
            None => format!("by [{}]", arrangement.key_names()),
        };
        let policy = match arrangement.memory.policy {
            Policy::Forget => String::new(),
            policy => format!(" ({policy})"),
        };
        let text = format!("{} {what}{policy}", format_duration(ttl));
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

impl Auditor {
    /// What compares a member with itself without retention; None where that is the same.
    pub fn exports(&mut self, member: &Member, catalog: &Catalog) -> Option<Vec<Export>> {
        let (name, plan, is_kept) = match member {
            Member::View(name) => catalog.find_view(name).map(|view| (name, view.plan.clone(), view.materialized))?,
            Member::Job(name) => catalog.job(name).ok().map(|job| (name, job.plan.clone(), false))?,
            Member::Subscription(_) => return None,
        };
        self.members.retain(|known| known != member);
        self.members.push(member.clone());
        self.compared.remove(member);
        if !plan.forgets() {
            return None;
        }
        let (exact, ttls) = (plan.without_retention(), ttls(&plan));
        let comparison = Arc::new(Mutex::new(Comparison::default()));
        let ear = |side| Box::new(Ear { side, comparison: comparison.clone() });
        let exact_name = format!("{name} (without ttl)");
        let mut exports = vec![
            Export::Deliver { name: name.clone(), plan, to: ear(BOUNDED) },
            Export::Deliver { name: exact_name.clone(), plan: exact.clone(), to: ear(EXACT) },
        ];
        // What is kept of the one is kept of the other.
        if is_kept {
            exports.push(Export::Maintain { name: exact_name, plan: exact.clone() });
        }
        self.compared.insert(member.clone(), Comparing { ttls, exact, comparison });
        Some(exports)
    }
}

impl Deliver for Ear {
    fn step(&mut self, time: Time, rows: &[(&[u8], Diff)]) {
        let rows = rows.iter().map(|(row, diff)| (row.to_vec(), *diff)).collect();
        lock(&self.comparison).sides[self.side].waiting.insert(time, rows);
    }

    fn errors(&mut self, errors: &BTreeMap<String, Diff>) {
        lock(&self.comparison).sides[self.side].errors = errors.keys().cloned().collect();
    }

    fn complete(&mut self, frontier: Option<Time>) {
        let mut comparison = lock(&self.comparison);
        comparison.sides[self.side].through = frontier.unwrap_or(Time::MAX);
        comparison.catch_up();
    }
}

impl Comparison {
    /// Compares at the end of each step that both have finished.
    fn catch_up(&mut self) {
        let through = self.sides.iter().map(|side| side.through).min().unwrap_or_default();
        while let Some(time) = self.sides.iter().filter_map(|side| side.waiting.keys().next().copied()).min().filter(|time| *time < through)
        {
            let [bounded, exact] = [BOUNDED, EXACT].map(|side| self.sides[side].waiting.remove(&time).unwrap_or_default());
            self.rows += exact.iter().map(|(_, diff)| diff).sum::<Diff>();
            bounded.into_iter().for_each(|(row, diff)| self.add(row, diff));
            exact.into_iter().for_each(|(row, diff)| self.add(row, -diff));
            self.look(time);
        }
    }

    fn add(&mut self, row: Vec<u8>, diff: Diff) {
        use std::collections::hash_map::Entry;
        let (before, after) = match self.difference.entry(row) {
            Entry::Vacant(entry) => {
                entry.insert(diff);
                (0, diff)
            }
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                *entry.get_mut() += diff;
                if before + diff == 0 {
                    entry.remove();
                }
                (before, before + diff)
            }
        };
        self.differ = self.differ + after.unsigned_abs() - before.unsigned_abs();
    }

    fn look(&mut self, time: Time) {
        if self.differ > self.worst {
            (self.worst, self.worst_at) = (self.differ, Some(time));
        }
        if self.differ > 0 && self.first.is_none() {
            let least = |is: fn(Diff) -> bool| self.difference.iter().filter(|(_, diff)| is(**diff)).map(|(row, _)| row).min().cloned();
            self.first = Some(First { at: time, added: least(|diff| diff > 0), missing: least(|diff| diff < 0) });
        }
    }
}

/// What an audit has found as a table: a row a view, NULL where there is nothing to compare.
pub fn audited_rows(all: &[Audited]) -> Result<RecordBatch> {
    let figure = |of: fn(&Compared) -> u64| {
        let figures = all.iter().map(|audited| audited.compared.as_ref().map(|compared| i64::try_from(of(compared)).unwrap_or(i64::MAX)));
        Arc::new(figures.collect::<Int64Array>()) as ArrayRef
    };
    let instant = |of: fn(&Compared) -> Option<i64>| {
        let instants = all.iter().map(|audited| audited.compared.as_ref().and_then(of));
        Arc::new(instants.collect::<TimestampMillisecondArray>()) as ArrayRef
    };
    batch_of([
        ("view", false, texts(all.iter().map(|audited| audited.name.clone()))),
        ("ttl", false, texts(all.iter().map(|audited| audited.ttls.clone().unwrap_or_else(|| "no ttl".to_owned())))),
        ("rows", true, figure(|compared| compared.rows)),
        ("differ", true, figure(|compared| compared.differ)),
        ("worst", true, figure(|compared| compared.worst)),
        ("worst_at", true, instant(|compared| compared.worst_at)),
        ("first_at", true, instant(|compared| compared.first.as_ref().map(|first| first.at))),
        ("expired", true, figure(|compared| compared.state.expired)),
        ("state_rows", true, figure(|compared| compared.state.rows)),
        ("exact_state_rows", true, figure(|compared| compared.exact_state.rows)),
        ("state_bytes", true, figure(|compared| compared.state.bytes)),
        ("exact_state_bytes", true, figure(|compared| compared.exact_state.bytes)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Clock;

    const TABLES: &str = "CREATE TABLE o (id INT, c INT, v INT); CREATE TABLE c (id INT, name VARCHAR);";

    /// Queries of every operator.
    const QUERIES: [&str; 12] = [
        "SELECT c, COUNT(*) AS n, SUM(v) AS s FROM o GROUP BY c",
        "SELECT c, COUNT(DISTINCT v) AS n, MIN(v) AS least, MAX(v) AS most FROM o WHERE v > 1 GROUP BY c",
        "SELECT COUNT(*) AS n FROM o",
        "SELECT DISTINCT c FROM o",
        "SELECT o.id, c.name FROM o JOIN c ON o.c = c.id",
        "SELECT o.id, c.name FROM o FULL JOIN c ON o.c = c.id",
        "SELECT id FROM o WHERE c IN (SELECT id FROM c)",
        "SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c AND c.name <> 'x')",
        "SELECT c, v FROM o EXCEPT SELECT id, id FROM c",
        "SELECT id, c, n FROM (SELECT id, c, ROW_NUMBER() OVER (PARTITION BY c ORDER BY v DESC) AS n FROM o) AS r WHERE n <= 2",
        "SELECT id, SUM(v) OVER (PARTITION BY c ORDER BY id) AS s FROM o",
        "SELECT n, COUNT(*) AS times FROM (SELECT c, COUNT(*) AS n FROM o GROUP BY c) AS q GROUP BY n",
    ];

    fn engine(workers: usize) -> Engine {
        Engine::builder().workers(workers).clock(Clock::Manual).build().unwrap()
    }

    fn run(audit: &Audit, script: &str) -> Vec<Audited> {
        for parsed in crate::sql::statements(script) {
            let parsed = parsed.unwrap();
            audit.statement(&parsed).unwrap_or_else(|error| panic!("{}: {error}", parsed.text));
        }
        audit.report().unwrap()
    }

    #[test]
    fn a_plan_without_its_retention_is_the_plan_of_the_query_without_a_ttl_but_for_what_a_join_side_keeps() {
        let engine = engine(1);
        engine.execute(TABLES).unwrap();
        for query in QUERIES {
            engine.execute(&format!("CREATE OR REPLACE VIEW v WITH (state_ttl = '1 h') AS {query}")).unwrap();
            let plan = || engine.with_session(|session| Ok(session.catalog.view("v")?.plan.clone())).unwrap();
            let bounded = plan();
            assert!(bounded.forgets() && !bounded.without_retention().forgets(), "{query}");
            engine.execute(&format!("CREATE OR REPLACE VIEW v AS {query}")).unwrap();
            let exact = plan();
            assert_eq!(exact.without_retention().fingerprint(), exact.fingerprint(), "{query}");
            // A join side that forgets keeps columns that nobody reads, which tell its rows apart: those it keeps here, too.
            let has_join = bounded.all_arrangements().any(|(operator, _)| operator == "Join");
            assert!(has_join || bounded.without_retention().fingerprint() == exact.fingerprint(), "{query}");
        }
    }

    #[test]
    fn what_a_view_reads_of_other_views_forgets_nothing_either() {
        let engine = engine(1);
        engine.execute(TABLES).unwrap();
        let views = |ttl: &str| {
            format!(
                "CREATE OR REPLACE VIEW w AS SELECT 1 AS one; DROP VIEW w; DROP VIEW IF EXISTS v;
                CREATE MATERIALIZED VIEW v {ttl} AS SELECT c, COUNT(*) AS n FROM o GROUP BY c;
                CREATE VIEW w AS SELECT n, COUNT(*) AS times FROM v GROUP BY n;"
            )
        };
        let plan = |ttl: &str| {
            engine.execute(&views(ttl)).unwrap();
            let plan = engine.with_session(|session| Ok(session.catalog.view("w")?.plan.clone())).unwrap();
            engine.execute("DROP VIEW w; DROP VIEW v;").unwrap();
            plan
        };
        let bounded = plan("WITH (state_ttl = '1 h')");
        assert!(bounded.forgets());
        assert_eq!(bounded.without_retention().fingerprint(), plan("").fingerprint());
    }

    #[test]
    fn a_ttl_that_nothing_outlives_differs_in_nothing_and_one_of_an_hour_in_something() {
        for (ttl, workers, differs) in [("1000 days", 1, false), ("1000 days", 2, false), ("1 h", 2, true)] {
            let audit = engine(workers).audit().unwrap();
            let views: String = QUERIES
                .iter()
                .enumerate()
                .map(|(n, query)| format!("CREATE {} VIEW v{n} AS {query};", if n % 2 == 0 { "MATERIALIZED" } else { "" }))
                .collect();
            let day = |n: i32| {
                format!(
                    "ADVANCE BY '1 day'; INSERT INTO o VALUES ({n}, {}, {n}), ({}, {}, 4); INSERT INTO c VALUES ({}, 'x');
                    DELETE FROM o WHERE id = {}; UPDATE c SET name = 'y' WHERE id = {};",
                    n % 3,
                    n + 10,
                    n % 2,
                    n % 4,
                    n - 1,
                    n % 2
                )
            };
            let days: String = (1..6).map(day).collect();
            let report = run(&audit, &format!("SET state_ttl = '{ttl}'; {TABLES}{views}{days}"));
            assert_eq!(report.len(), QUERIES.len());
            let worst: Vec<u64> = report.iter().map(|audited| audited.compared.as_ref().unwrap().worst).collect();
            assert_eq!(worst.iter().any(|worst| *worst > 0), differs, "{ttl}, {workers} worker(s): {worst:?}");
            let expired: u64 = report.iter().map(|audited| audited.compared.as_ref().unwrap().state.expired).sum();
            assert_eq!(expired > 0, differs, "{ttl}");
        }
    }

    #[test]
    fn a_count_that_starts_afresh_is_two_rows_that_differ_from_then_on() {
        // As in the contract's worked example: rows of `a` at 0 s, 4 s and 20 s with a ttl of 10 s publish 1, 2 and 1.
        let script = "CREATE TABLE clicks (session_id VARCHAR);
            CREATE VIEW c WITH (state_ttl = '10 s') AS SELECT session_id, COUNT(*) AS n FROM clicks GROUP BY session_id;
            CREATE VIEW d AS SELECT SUM(n) AS total FROM c;
            CREATE VIEW plain AS SELECT session_id FROM clicks;
            INSERT INTO clicks VALUES ('a'); ADVANCE BY '4 s'; INSERT INTO clicks VALUES ('a'); ADVANCE BY '16 s';
            INSERT INTO clicks VALUES ('a');";
        let report = run(&engine(1).audit().unwrap(), script);
        let [c, d, plain] = &report[..] else { panic!("{report:?}") };
        assert_eq!(c.ttls.as_deref(), Some("10 s by [session_id]"));
        let compared = c.compared.as_ref().unwrap();
        // The third row says (a, 1) beside the (a, 2) that stands, where the exact count is (a, 3).
        assert_eq!((compared.rows, compared.differ, compared.worst, compared.worst_at), (1, 3, 3, Some(20_000)));
        let first = FirstDifference { at: 20_000, added: Some("(a, 1)".into()), missing: Some("(a, 3)".into()) };
        assert_eq!(compared.first, Some(first));
        assert_eq!(compared.state.expired, 1);
        // The total is 3 with and without, by luck.
        assert_eq!(d.compared.as_ref().map(|compared| (compared.rows, compared.worst)), Some((1, 0)));
        assert_eq!((plain.ttls.as_deref(), &plain.compared), (None, &None));
    }

    #[test]
    fn the_state_is_that_of_what_is_live_whatever_was_there_before() {
        let state = |ttl: &str, steps: &[&str]| {
            let tables = "CREATE TABLE t (k INT, v INT);";
            let view = format!("CREATE MATERIALIZED VIEW n WITH (state_ttl = '{ttl}') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;");
            let report = run(&engine(2).audit().unwrap(), &format!("{tables}{view}{}", steps.join("ADVANCE BY '1 s';")));
            let compared = report[0].compared.as_ref().unwrap();
            (compared.state.rows, compared.exact_state.rows)
        };
        let insert = |keys: std::ops::Range<i32>| {
            format!("INSERT INTO t VALUES {};", keys.map(|k| format!("({k}, 0)")).collect::<Vec<_>>().join(", "))
        };
        let (old, live) = (insert(0..300), insert(300..307));
        // Rows that stay but came in many steps, and rows that went.
        let history = [&old, &old, "DELETE FROM t WHERE k < 100;", "ADVANCE BY '8 s';", &live];
        let (rows, exact) = state("10 s", &history);
        assert_eq!((rows, rows % 7), (state("10 s", &[&live]).0, 0));
        // Without a ttl there are the groups from 100 on.
        assert_eq!((exact, exact % 207), (state("10 s", &[&insert(100..307)]).1, 0));
    }

    #[test]
    fn a_difference_that_goes_away_is_remembered_as_the_worst() {
        let script = "CREATE TABLE clicks (session_id VARCHAR);
            CREATE VIEW c WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT session_id, COUNT(*) AS n FROM clicks GROUP BY session_id;
            INSERT INTO clicks VALUES ('a'), ('b'); ADVANCE BY '30 s'; DELETE FROM clicks;";
        let report = run(&engine(1).audit().unwrap(), script);
        let compared = report[0].compared.as_ref().unwrap();
        // Both rows are retracted at 10 s, and are in the exact result until 30 s.
        assert_eq!((compared.rows, compared.differ, compared.worst, compared.worst_at), (0, 0, 2, Some(10_000)));
        assert_eq!(compared.first.as_ref().map(|first| (&first.added, first.missing.as_deref())), Some((&None, Some("(a, 1)"))));
    }

    #[test]
    fn steps_are_compared_once_both_have_finished_them_however_far_ahead_one_is() {
        let comparison = Arc::new(Mutex::new(Comparison::default()));
        let [mut bounded, mut exact] = [BOUNDED, EXACT].map(|side| Ear { side, comparison: comparison.clone() });
        bounded.step(3, &[(b"a", 1)]);
        bounded.step(5, &[(b"a", -1)]);
        bounded.complete(Some(9));
        assert_eq!(lock(&comparison).worst, 0, "the other has finished nothing");
        exact.step(3, &[(b"a", 1)]);
        exact.complete(Some(4));
        exact.complete(Some(6));
        assert_eq!(lock(&comparison).worst_at, Some(5));
        exact.step(7, &[(b"a", -1)]);
        exact.complete(None);
        let comparison = lock(&comparison);
        assert_eq!((comparison.differ, comparison.rows, comparison.difference.len()), (0, 0, 0));
        assert!(comparison.sides.iter().all(|side| side.waiting.is_empty()));
    }

    #[test]
    fn a_job_is_listed_if_it_remembers_what_no_view_does() {
        let sink = |name: &str| format!("CREATE TABLE {name} (c INT, n BIGINT) WITH ('connector' = 'print');");
        let script = format!(
            "{TABLES}{}{} SET state_ttl = '1 h';
            CREATE VIEW v AS SELECT c, COUNT(*) AS n FROM o GROUP BY c;
            INSERT INTO of_view SELECT c, n FROM v;
            INSERT INTO own SELECT v AS c, COUNT(*) AS n FROM o GROUP BY v;",
            sink("of_view"),
            sink("own")
        );
        let names: Vec<String> = run(&engine(1).audit().unwrap(), &script).into_iter().map(|audited| audited.name).collect();
        assert_eq!(names, ["v", "job own"]);
    }

    #[test]
    fn input_that_does_not_end_is_refused_by_name() {
        let audit = engine(1).audit().unwrap();
        let script = "CREATE TABLE g (k INT) WITH ('connector' = 'datagen');
            CREATE VIEW v WITH (state_ttl = '1 h') AS SELECT k, COUNT(*) AS n FROM g GROUP BY k;";
        crate::sql::statements(script).for_each(|parsed| audit.statement(&parsed.unwrap()).unwrap());
        let error = audit.report().unwrap_err().to_string();
        assert!(error.contains("source 'g' does not end"), "{error}");
    }
}
