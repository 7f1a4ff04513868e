//! What people get wrong about forgetting, one test each, numbered as in the contract.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int32Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use weir::engine::{Clock, Engine};

use super::script::agrees;

fn number(engine: &Engine, query: &str) -> i64 {
    let result = engine.query(query).unwrap_or_else(|e| panic!("{query}: {e}"));
    let column = cast(result.column(0), &DataType::Int64).unwrap_or_else(|e| panic!("{query}: {e}"));
    column.as_primitive::<Int64Type>().iter().next().flatten().unwrap_or_else(|| panic!("{query} has no number"))
}

fn engine(definitions: &str) -> Engine {
    let engine = Engine::builder().clock(Clock::Manual).build().unwrap_or_else(|e| panic!("{e}"));
    engine.execute(definitions).unwrap_or_else(|e| panic!("{definitions}: {e}"));
    engine
}

/// So many rows `(key, key % 7)` of a table of two INT columns, one step.
fn insert(engine: &Engine, table: &str, keys: i32) {
    let column = |values: Vec<i32>| Arc::new(Int32Array::from(values)) as _;
    let field = |name: &str| Field::new(name, DataType::Int32, true);
    let columns = vec![column((0..keys).collect()), column((0..keys).map(|key| key % 7).collect())];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field("k"), field("v")])), columns).expect("two columns of one length");
    engine.insert(table, &rows, &vec![1; keys as usize]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn mistake_1_restart_from_zero_is_counted_twice_only_under_forget() {
    agrees(
        "mistake-1",
        "
statement ok
CREATE TABLE t (k VARCHAR)

statement ok
CREATE MATERIALIZED VIEW c_forget WITH (state_ttl = '10 s') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW c_keep WITH (state_ttl = '10 s', on_expiry = 'keep') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW c_retract WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW t_forget AS SELECT SUM(n) AS total FROM c_forget

statement ok
CREATE MATERIALIZED VIEW t_keep AS SELECT SUM(n) AS total FROM c_keep

statement ok
CREATE MATERIALIZED VIEW t_retract AS SELECT SUM(n) AS total FROM c_retract

statement ok
INSERT INTO t VALUES ('a'), ('a'), ('a'), ('a'), ('a')

query I
SELECT total FROM t_forget
----
5

query I
SELECT total FROM t_keep
----
5

query I
SELECT total FROM t_retract
----
5

statement ok
ADVANCE BY '10 s'

query I
SELECT total FROM t_forget
----
5

query I
SELECT total FROM t_keep
----
5

query I
SELECT total FROM t_retract
----
NULL

statement ok
INSERT INTO t VALUES ('a')

query I
SELECT total FROM t_forget
----
6

query I
SELECT total FROM t_keep
----
1

query I
SELECT total FROM t_retract
----
1
",
    );
}

/// Tables `l` and `r`, inner and left joins of them by both policies, a changelog of each; `r` for ten seconds.
const JOINS: &str = "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW i_forget WITH (state_ttl.r = '10 s') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
CREATE MATERIALIZED VIEW i_retract WITH (state_ttl.r = '10 s', on_expiry = 'retract') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
CREATE MATERIALIZED VIEW o_forget WITH (state_ttl.r = '10 s') AS SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k

statement ok
CREATE TABLE log_i_forget (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
CREATE TABLE log_i_retract (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
CREATE TABLE log_o_forget (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log_i_forget SELECT * FROM i_forget

statement ok
INSERT INTO log_i_retract SELECT * FROM i_retract

statement ok
INSERT INTO log_o_forget SELECT * FROM o_forget

statement ok
INSERT INTO r VALUES (1, 'x')

statement ok
INSERT INTO l VALUES (1, 'A')

";

#[test]
fn mistake_2_a_stale_match_stands_under_forget_and_never_under_retract() {
    let script = "
statement ok
ADVANCE BY '11 s'

statement ok
UPDATE l SET a = 'B' WHERE k = 1

query TITTT
SELECT op, k, a, b, at FROM log_i_forget ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00

query TITTT
SELECT op, k, a, b, at FROM log_i_retract ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00
-D 1 A x 1970-01-01 00:00:10

# the padded row of A was owed and not said, so it is not taken back
query TITTT
SELECT op, k, a, b, at FROM log_o_forget ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00
+I 1 B NULL 1970-01-01 00:00:11

query ITT
SELECT * FROM i_forget
----

query ITT
SELECT * FROM o_forget
----
1 B NULL
";
    agrees("mistake-2", &format!("{JOINS}{script}"));
}

#[test]
fn mistake_3_what_an_expiry_took_back_its_own_delete_does_not_take_again() {
    let script = "
statement ok
ADVANCE BY '11 s'

statement ok
DELETE FROM r WHERE k = 1

statement ok
DELETE FROM l WHERE k = 1

query TITTT
SELECT op, k, a, b, at FROM log_i_forget ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00

query TITTT
SELECT op, k, a, b, at FROM log_i_retract ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00
-D 1 A x 1970-01-01 00:00:10

query TITTT
SELECT op, k, a, b, at FROM log_o_forget ORDER BY seq
----
+I 1 A x 1970-01-01 00:00:00
";
    agrees("mistake-3", &format!("{JOINS}{script}"));
}

#[test]
fn mistake_4_a_late_retraction_makes_no_state_and_is_counted() {
    agrees(
        "mistake-4",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW s WITH (state_ttl = '10 s') AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW m WITH (state_ttl = '10 s') AS SELECT k, MIN(v) AS least, COUNT(DISTINCT v) AS n FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW d WITH (state_ttl = '10 s') AS SELECT DISTINCT k FROM t

statement ok
INSERT INTO t VALUES ('a', 5), ('a', 6)

query TII
SELECT * FROM s
----
a 2 11

statement ok
ADVANCE BY '10 s'

statement ok
DELETE FROM t WHERE v = 5

query TII
SELECT * FROM s
----

query TII
SELECT * FROM m
----

query T
SELECT * FROM d
----

query II
SELECT SUM(late_retractions), SUM(live_scopes) FROM weir_arrangements WHERE view = 's'
----
1 0

# the row that is left of those that were forgotten is not remembered by a new one
statement ok
INSERT INTO t VALUES ('a', 7)

statement ok
DELETE FROM t WHERE v = 6

query TII
SELECT * FROM s
----
a 1 7

query TII
SELECT * FROM m
----
a 7 1

query T
SELECT * FROM d
----
a
",
    );
}

#[test]
fn mistake_5_an_expiry_needs_no_traffic() {
    agrees(
        "mistake-5",
        "
statement ok
CREATE TABLE t (k VARCHAR)

statement ok
CREATE MATERIALIZED VIEW c WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE TABLE log (k VARCHAR, n BIGINT) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM c

statement ok
INSERT INTO t VALUES ('a')

statement ok
ADVANCE BY '3250 ms'

statement ok
INSERT INTO t VALUES ('b')

# both deadlines in one advance, each at its own instant
statement ok
ADVANCE BY '1 h'

query TTIT
SELECT op, k, n, at FROM log ORDER BY seq
----
+I a 1 1970-01-01 00:00:00
+I b 1 1970-01-01 00:00:03.250
-D a 1 1970-01-01 00:00:10
-D b 1 1970-01-01 00:00:13.250
",
    );
}

#[test]
fn mistake_6_the_new_half_of_an_update_survives_its_forgotten_old_half() {
    agrees(
        "mistake-6",
        "
statement ok
CREATE TABLE o (id INT, customer VARCHAR, amount INT, PRIMARY KEY (id) NOT ENFORCED)

statement ok
CREATE TABLE c (customer VARCHAR, name VARCHAR)

statement ok
CREATE MATERIALIZED VIEW j WITH (state_ttl.o = '10 s') AS
SELECT o.id, o.customer, o.amount, c.name FROM o JOIN c ON o.customer = c.customer

statement ok
CREATE MATERIALIZED VIEW g WITH (state_ttl = '10 s') AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM o GROUP BY customer

statement ok
CREATE TABLE log (id INT, customer VARCHAR, amount INT, name VARCHAR) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM j

statement ok
INSERT INTO c VALUES ('c1', 'Ann')

statement ok
INSERT INTO o VALUES (1, 'c1', 5)

statement ok
ADVANCE BY '12 s'

statement ok
UPDATE o SET amount = 6 WHERE id = 1

query ITIT
SELECT * FROM j
----
1 c1 6 Ann

query TII
SELECT * FROM g
----
c1 1 6

query TITIT
SELECT op, id, customer, amount, name FROM log ORDER BY seq
----
+I 1 c1 5 Ann
+I 1 c1 6 Ann

query I
SELECT SUM(late_retractions) FROM weir_arrangements WHERE view = 'j' AND input = 'o'
----
1
",
    );
}

#[test]
fn mistake_7_the_memory_of_what_is_forgotten_comes_back() {
    let queries = [
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT k, COUNT(*) AS n, MIN(v) AS least, COUNT(DISTINCT v) AS d FROM t GROUP BY k",
        "SELECT DISTINCT k FROM t",
        "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM t) AS s WHERE rn <= 2",
        "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS s FROM t",
        "SELECT t.k, t.v, u.v AS w FROM t JOIN u ON t.k = u.k",
        "SELECT t.k, t.v, u.v AS w FROM t FULL JOIN u ON t.k = u.k",
        "SELECT k, v FROM t EXCEPT SELECT k, v FROM u",
    ];
    for policy in ["forget", "retract"] {
        let engine = engine("CREATE TABLE t (k INT, v INT); CREATE TABLE u (k INT, v INT)");
        for (i, query) in queries.iter().enumerate() {
            let view = format!("CREATE MATERIALIZED VIEW v{i} WITH (state_ttl = '10 s', on_expiry = '{policy}') AS {query}");
            engine.execute(&view).unwrap_or_else(|e| panic!("{view}: {e}"));
        }
        insert(&engine, "t", 300);
        insert(&engine, "u", 200);
        let remembered = |what: &str| {
            let engine = &engine;
            let sum = format!("SELECT SUM({what}) FROM weir_arrangements WHERE view LIKE 'v%'");
            number(engine, &sum)
        };
        assert!(remembered("live_scopes") >= 300, "{policy}: nothing was remembered");
        engine.execute("ADVANCE BY '10 s'").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(remembered("live_scopes"), 0, "{policy}");
        // a row and its removal may stand side by side until they are compacted, which takes traffic or time
        for _ in 0..20 {
            engine.execute("ADVANCE BY '1 s'").unwrap_or_else(|e| panic!("{e}"));
        }
        assert_eq!(remembered("rows"), 0, "{policy}");
    }
}

#[test]
fn mistake_8_a_side_without_a_ttl_takes_the_views_and_then_the_sessions() {
    agrees(
        "mistake-8",
        "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW never WITH (state_ttl.l = '5 s') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
CREATE MATERIALIZED VIEW views WITH (state_ttl = '9 s', state_ttl.l = '5 s') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
SET state_ttl = '20 s'

statement ok
CREATE MATERIALIZED VIEW sessions WITH (state_ttl.l = '5 s') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

query TTI rowsort
SELECT view, input, ttl_ms FROM weir_arrangements WHERE input = 'r'
----
never r NULL
sessions r 20000
views r 9000

statement ok
INSERT INTO r VALUES (1, 'x')

# l's five seconds are not r's
statement ok
ADVANCE BY '8999 ms'

statement ok
INSERT INTO l VALUES (1, 'A')

query ITT
SELECT * FROM views
----
1 A x

statement ok
ADVANCE BY '11 s'

statement ok
INSERT INTO l VALUES (1, 'B')

query ITT
SELECT * FROM views
----

query ITT
SELECT * FROM sessions
----
1 B x

statement ok
ADVANCE BY '1 ms'

statement ok
ADVANCE BY '1 h'

statement ok
INSERT INTO l VALUES (1, 'C')

query ITT
SELECT * FROM sessions
----

query ITT
SELECT * FROM never
----
1 C x
",
    );
}

/// Keys with one deadline. The contract says a million; so many does an unoptimized build bear.
const STORM: i32 = 20_000;

#[test]
fn mistake_9_many_keys_with_one_deadline_take_no_longer_than_they_took_to_come() {
    let engine = engine(
        "CREATE TABLE t (k INT, v INT);
         CREATE MATERIALIZED VIEW c WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
         CREATE TABLE log (k INT, n BIGINT) WITH ('connector' = 'changelog');
         INSERT INTO log SELECT * FROM c;",
    );
    assert_eq!(number(&engine, "SELECT COUNT(*) FROM c"), 0);
    let timed = |make: &dyn Fn()| {
        let start = Instant::now();
        make();
        start.elapsed()
    };
    let coming = timed(&|| {
        insert(&engine, "t", STORM);
        assert_eq!(number(&engine, "SELECT COUNT(*) FROM c"), i64::from(STORM));
    });
    let going = timed(&|| {
        engine.execute("ADVANCE BY '10 s'").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(number(&engine, "SELECT COUNT(*) FROM c"), 0);
    });
    assert_eq!(number(&engine, "SELECT COUNT(*) FROM log WHERE op = '-D'"), i64::from(STORM));
    assert!(going < 5 * coming + Duration::from_secs(2), "they came in {coming:?} and went in {going:?}");
    let after = timed(&|| {
        insert(&engine, "t", 1);
        assert_eq!(number(&engine, "SELECT COUNT(*) FROM c"), 1);
    });
    assert!(after < coming + Duration::from_secs(1), "a statement after the storm took {after:?}");
}

#[test]
fn a_kept_total_gives_way_to_one_that_is_the_same_as_over_nothing() {
    agrees(
        "kept-total",
        "
statement ok
CREATE TABLE t (k INT, v INT)

statement ok
CREATE MATERIALIZED VIEW total WITH (state_ttl = '10 s', on_expiry = 'keep') AS SELECT SUM(v) AS total FROM t

statement ok
CREATE MATERIALIZED VIEW sets WITH (state_ttl = '10 s', on_expiry = 'keep') AS
SELECT k, MIN(v) AS least FROM t GROUP BY GROUPING SETS ((k), ())

statement ok
INSERT INTO t VALUES (1, 5)

statement ok
ADVANCE BY '10 s'

query I
SELECT * FROM total
----
5

# there is a row again, and its total is NULL, as it is where there is none
statement ok
INSERT INTO t VALUES (1, NULL)

query I
SELECT * FROM total
----
NULL

query II rowsort
SELECT * FROM sets
----
1 NULL
NULL NULL
",
    );
}
