//! Groups of which no answer can be given: when they expire, the view is well again.

use weir::engine::{Clock, Engine};
use weir::error::Error;

use super::plug::Plug;
use super::script::agrees;
use super::through_sql::{Tables, run};
use crate::value;

/// Queries over `t (k INT, v BIGINT)` that fail for a key with these rows and for no other, with what they select of the
/// rows (1, 3) and (2, 7), (2, 8), (2, 9).
const QUERIES: [(&str, &str, [&str; 2]); 8] = [
    ("SELECT k, SUM(v) AS s FROM t GROUP BY k", "(1, 9223372036854775807)", ["(1, 3)", "(2, 24)"]),
    ("SELECT k, MIN(v) AS m, SUM(v) AS s FROM t GROUP BY k", "(1, 9223372036854775807)", ["(1, 3, 3)", "(2, 7, 24)"]),
    ("SELECT k, SUM(DISTINCT v) AS s FROM t GROUP BY k", "(1, 9223372036854775807)", ["(1, 3)", "(2, 24)"]),
    ("SELECT k, SUM(72 / v) AS s FROM t GROUP BY k", "(1, 0)", ["(1, 24)", "(2, 27)"]),
    ("SELECT k, MAX(72 / v) AS s FROM t GROUP BY k", "(1, 0)", ["(1, 24)", "(2, 10)"]),
    ("SELECT k, MAX(72 / v) AS s, MAX(v) AS v FROM t GROUP BY k", "(1, 0)", ["(1, 24, 3)", "(2, 10, 9)"]),
    ("SELECT k, COUNT(*) FILTER (WHERE 72 / v > 8) AS n FROM t GROUP BY k", "(1, 0)", ["(1, 1)", "(2, 2)"]),
    (
        "SELECT k, s FROM (SELECT k, SUM(v) OVER (PARTITION BY k) AS s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t) AS w WHERE n = 1",
        "(1, 9223372036854775807)",
        ["(1, 3)", "(2, 24)"],
    ),
];

/// When a test looks at its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    AtEachStep,
    /// Everything until then comes in one batch.
    AfterTheDeadline,
    AtTheEnd,
}

struct Case {
    query: &'static str,
    bad: &'static str,
    policy: &'static str,
    workers: usize,
}

impl Case {
    /// The changelog, and what is selected at the end.
    fn run(&self, looks: Looks) -> (Vec<String>, Vec<String>) {
        let plug = Plug::default();
        let engine = Engine::builder().workers(self.workers).clock(Clock::Manual).output(Box::new(plug.clone())).build();
        let engine = engine.unwrap_or_else(|e| panic!("{e}"));
        let fails = |e: Error| -> ! { panic!("{}, {}, {} worker(s): {e}", self.query, self.policy, self.workers) };
        let execute = |sql: &str| drop(engine.execute(sql).unwrap_or_else(|e| fails(e)));
        let shown = |sql: &str| -> Vec<String> {
            let rows = engine.query(sql).unwrap_or_else(|e| fails(e));
            value::rows(&rows).iter().map(|row| value::show(row)).collect()
        };
        execute("CREATE TABLE t (k INT, v BIGINT)");
        execute(&format!("CREATE MATERIALIZED VIEW v WITH (state_ttl = '10 s', on_expiry = '{}') AS {}", self.policy, self.query));
        let columns = shown("DESCRIBE v").len();
        let columns: Vec<String> = (0..columns).map(|i| format!("c{i} BIGINT")).collect();
        execute(&format!("CREATE TABLE log ({}) WITH ('connector' = 'changelog')", columns.join(", ")));
        execute("INSERT INTO log SELECT * FROM v");
        execute(Plug::DEFINITIONS);
        if looks != Looks::AtEachStep {
            plug.put_in(&engine).unwrap_or_else(|e| fails(e));
        }
        execute("INSERT INTO t VALUES (1, 5), (2, 7)");
        execute("ADVANCE BY '1 s'");
        execute(&format!("INSERT INTO t VALUES {}", self.bad));
        if looks == Looks::AtEachStep {
            let asked = engine.query("SELECT * FROM v");
            assert!(matches!(asked, Err(Error::Data(_))), "{}, {}: {asked:?}", self.query, self.policy);
        }
        execute("ADVANCE BY '2 s'");
        execute("INSERT INTO t VALUES (2, 8)");
        execute("ADVANCE BY '8 s'");
        if looks != Looks::AtTheEnd {
            plug.pull();
            shown("SELECT * FROM v");
        }
        execute("ADVANCE BY '500 ms'");
        execute("INSERT INTO t VALUES (1, 3), (2, 9)");
        plug.pull();
        (shown("SELECT * FROM log ORDER BY seq"), shown("SELECT * FROM v ORDER BY k"))
    }
}

#[test]
fn a_view_is_well_again_when_the_group_that_fails_has_expired() {
    for (query, bad, selected) in QUERIES {
        for (policy, workers) in [("forget", 1), ("forget", 2), ("keep", 1), ("retract", 2)] {
            let case = Case { query, bad, policy, workers };
            let step_by_step = case.run(Looks::AtEachStep);
            assert_eq!(step_by_step.1, selected, "{query}, {policy}, {workers} worker(s)");
            for looks in [Looks::AfterTheDeadline, Looks::AtTheEnd] {
                assert_eq!(case.run(looks), step_by_step, "{query}, {policy}, {workers} worker(s), {looks:?}");
            }
        }
    }
}

#[test]
fn a_row_whose_join_key_or_least_value_fails_takes_its_error_with_it() {
    agrees(
        "failing-rows",
        "
statement ok
CREATE TABLE t (k INT, v INT)

statement ok
CREATE TABLE u (k INT, v INT)

statement ok
CREATE MATERIALIZED VIEW joined WITH (state_ttl = '10 s') AS SELECT t.k, u.v FROM t JOIN u ON t.k = 72 / u.v

statement ok
CREATE MATERIALIZED VIEW over WITH (state_ttl = '10 s') AS SELECT k, v, MAX(72 / v) OVER (PARTITION BY k) AS most FROM t

statement ok
INSERT INTO u VALUES (1, 0)

statement ok
INSERT INTO t VALUES (1, 0)

query error zero
SELECT * FROM joined

query error zero
SELECT * FROM over

statement ok
ADVANCE BY '10 s'

query II
SELECT * FROM joined
----

query III
SELECT * FROM over
----
",
    );
}

/// Queries over `t (k, v)`, to which rows only come, with a ttl of 10 ms; and when the error of a row (1, 0) at 0 ms goes if a
/// row (1, 5) comes at 5 ms: with its group, or if it is in none, by itself.
const OF_A_SOURCE: [(&str, i64); 15] = [
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, SUM(72 / v) FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, AVG(72 / v), COUNT(*), MIN(v) FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, COUNT(72 / v) FILTER (WHERE 72 / v > 1) FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ SUM(k + 72 / v) FROM t", 22),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, MAX(72 / v) FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, SUM(DISTINCT 72 / v) FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, STRING_AGG(CAST(72 / v AS VARCHAR), ',') FROM t GROUP BY k", 15),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, v, SUM(72 / v) OVER (PARTITION BY k) FROM t", 15),
    (
        "SELECT /*+ STATE_TTL('t' = '10 ms') */ k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY 72 / v) AS n FROM t) WHERE n = 1",
        15,
    ),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ 72 / v, COUNT(*) FROM t GROUP BY 72 / v", 10),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, 72 / v, SUM(72 / v) FROM t GROUP BY GROUPING SETS ((k, 72 / v), (72 / v))", 10),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ DISTINCT 72 / v FROM t", 10),
    ("SELECT /*+ STATE_TTL('t' = '10 ms') */ k, v, COUNT(*) OVER (PARTITION BY 72 / v) FROM t", 10),
    ("SELECT /*+ STATE_TTL('t' = '10 ms', 'u' = '10 ms') */ t.k, u.k FROM t JOIN u ON t.k = u.k AND 72 / t.v + u.k > 1", 10),
    ("SELECT /*+ STATE_TTL('t' = '10 ms', 'u' = '10 ms') */ 72 / v FROM t EXCEPT SELECT k FROM u", 10),
];

#[test]
fn an_error_of_a_row_that_no_one_takes_back_goes_with_the_scope_that_it_is_in() {
    let tables = Tables::new(&[("t", &["k", "v"]), ("u", &["k"])]);
    let tick = |tick: usize| {
        let (t, u) = match tick {
            0 => (vec![vec![1, 2], vec![0, 4]], vec![vec![1]]),
            5 => (vec![vec![1], vec![5]], vec![vec![]]),
            12 => (vec![vec![2], vec![4]], vec![vec![]]),
            _ => (vec![vec![], vec![]], vec![vec![]]),
        };
        vec![tables.rows(0, t), tables.rows(1, u)]
    };
    for (sql, until) in OF_A_SOURCE {
        let mut seen = vec![];
        run(sql, &tables, 24, tick, |tick, runtime| {
            let held: i64 = runtime.arrangements().expect("the engine runs").iter().map(|held| held.live_scopes).sum();
            seen.push((tick as i64 + 1, runtime.errors().expect("the engine runs"), held));
        });
        for (now, errors, held) in seen {
            assert_eq!(errors.is_empty(), now >= until, "{sql}\nat {now} ms: {errors:?}");
            assert!(errors.iter().all(|error| error.contains("Divide by zero") && !error.contains("(1, true")), "{sql}: {errors:?}");
            assert!(now < 22 || held == 0, "{sql}: {held} scopes at {now} ms");
        }
    }
}
