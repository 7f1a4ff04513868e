//! Expiry itself, hints, upserts, sharing.

use crate::retention::script::agrees;

/// Flink emits nothing when state expires.
#[test]
fn an_expiry_is_seen_at_the_very_deadline_under_retract() {
    agrees(
        "flink-expiry",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW s WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT k, MAX(v) AS most FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM s

statement ok
INSERT INTO t VALUES ('a', 1)

statement ok
ADVANCE BY '9999 ms'

query I
SELECT n FROM n
----
1

statement ok
ADVANCE BY '1 ms'

query I
SELECT n FROM n
----
0
",
    );
}

/// Flink sends unchanged results again once a ttl is set.
#[test]
fn a_ttl_by_which_nothing_expires_changes_nothing() {
    agrees(
        "flink-unchanged",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW s WITH (state_ttl = '10 s') AS SELECT k, MAX(v) AS most FROM t GROUP BY k

statement ok
CREATE TABLE log (k VARCHAR, most INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM s

statement ok
INSERT INTO t VALUES ('a', 5)

statement ok
ADVANCE BY '1 s'

statement ok
INSERT INTO t VALUES ('a', 3)

statement ok
DELETE FROM t WHERE v = 3

query TTI
SELECT op, k, most FROM log ORDER BY seq
----
+I a 5
",
    );
}

/// In Flink a STATE_TTL hint on such a query is silently without effect.
#[test]
fn a_hint_on_a_row_number_query_is_honoured() {
    agrees(
        "flink-rank-hint",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW top AS
SELECT k, v FROM (SELECT /*+ STATE_TTL('t' = '10s') */ k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) AS s
WHERE rn <= 1

statement ok
INSERT INTO t VALUES ('a', 5)

statement ok
ADVANCE BY '10 s'

query TI
SELECT * FROM top
----

statement ok
INSERT INTO t VALUES ('a', 3)

query TI
SELECT * FROM top
----
a 3
",
    );
}

/// The same as Flink: where there is an alias, it is the name.
#[test]
fn a_hint_names_a_table_by_its_alias_or_not_at_all() {
    agrees(
        "flink-alias",
        "
statement ok
CREATE TABLE orders (k INT, v INT)

statement ok
CREATE TABLE lines (k INT, w INT)

statement error (?i)orders.*(\\bo\\b.*\\bl\\b|\\bl\\b.*\\bo\\b)
CREATE VIEW bad AS SELECT /*+ STATE_TTL('orders' = '3d') */ o.k, l.w FROM orders AS o JOIN lines AS l ON o.k = l.k

statement ok
CREATE MATERIALIZED VIEW j AS SELECT /*+ STATE_TTL('o' = '3d') */ o.k, l.w FROM orders AS o JOIN lines AS l ON o.k = l.k

query TI rowsort
SELECT input, ttl_ms FROM weir_arrangements WHERE view = 'j' AND input IS NOT NULL
----
l NULL
o 259200000
",
    );
}

/// In Flink an update of a forgotten key becomes an insert and its delete is dropped, and neither is seen.
#[test]
fn an_upsert_of_a_forgotten_key_is_visible() {
    agrees(
        "flink-upsert",
        "
statement ok
CREATE TABLE p (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)

statement ok
CREATE MATERIALIZED VIEW f WITH (state_ttl = '10 s') AS SELECT id, COUNT(*) AS n, SUM(v) AS v FROM p GROUP BY id

statement ok
CREATE MATERIALIZED VIEW r WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT id, COUNT(*) AS n, SUM(v) AS v FROM p GROUP BY id

statement ok
CREATE MATERIALIZED VIEW f_total AS SELECT SUM(v) AS total FROM f

statement ok
CREATE MATERIALIZED VIEW r_total AS SELECT SUM(v) AS total FROM r

statement ok
INSERT INTO p VALUES (1, 5)

statement ok
ADVANCE BY '12 s'

query I
SELECT total FROM r_total
----
NULL

statement ok
INSERT INTO p VALUES (1, 7)

query I
SELECT total FROM f_total
----
12

query I
SELECT total FROM r_total
----
7

query I
SELECT SUM(late_retractions) FROM weir_arrangements WHERE view = 'f'
----
1

statement ok
ADVANCE BY '12 s'

statement ok
DELETE FROM p WHERE id = 1

query I
SELECT SUM(late_retractions) FROM weir_arrangements WHERE view = 'f'
----
2

query I
SELECT total FROM f_total
----
12
",
    );
}

/// In Flink they give different changelogs where nothing expires.
#[test]
fn a_hint_of_a_day_and_one_of_zero_say_the_same_where_nothing_expires() {
    agrees(
        "flink-zero",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW a AS SELECT /*+ STATE_TTL('t' = '1d') */ k, MAX(v) AS most FROM t GROUP BY k

statement ok
CREATE MATERIALIZED VIEW b AS SELECT /*+ STATE_TTL('t' = '0s') */ k, MAX(v) AS most FROM t GROUP BY k

statement ok
CREATE TABLE log_a (k VARCHAR, most INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
CREATE TABLE log_b (k VARCHAR, most INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log_a SELECT * FROM a

statement ok
INSERT INTO log_b SELECT * FROM b

statement ok
INSERT INTO t VALUES ('a', 5)

statement ok
INSERT INTO t VALUES ('a', 3)

statement ok
ADVANCE BY '1 h'

statement ok
INSERT INTO t VALUES ('a', 8)

query TTI
SELECT op, k, most FROM log_a ORDER BY seq
----
+I a 5
-U a 5
+U a 8

query TTI
SELECT op, k, most FROM log_b ORDER BY seq
----
+I a 5
-U a 5
+U a 8

# never is never
statement ok
ADVANCE BY '30 days'

query TI
SELECT * FROM a
----

query TI
SELECT * FROM b
----
a 8
",
    );
}

/// Flink computes a shared view again for each separate job.
#[test]
fn equal_retention_is_computed_once_and_another_is_another() {
    agrees(
        "flink-shared",
        "
statement ok
CREATE TABLE t (k VARCHAR)

statement ok
CREATE VIEW c WITH (state_ttl = '10 s') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE VIEW longer WITH (state_ttl = '20 s') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k

statement ok
CREATE TABLE log_1 (k VARCHAR, n BIGINT) WITH ('connector' = 'changelog')

statement ok
CREATE TABLE log_2 (k VARCHAR, n BIGINT) WITH ('connector' = 'changelog')

statement ok
CREATE TABLE log_3 (k VARCHAR, n BIGINT) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log_1 SELECT * FROM c

statement ok
INSERT INTO t VALUES ('a')

# a job that comes later finds what the first one built; one with another ttl does not
statement ok
INSERT INTO log_2 SELECT * FROM c

statement ok
INSERT INTO log_3 SELECT * FROM longer

statement ok
INSERT INTO t VALUES ('a')

query I
SELECT COUNT(*) FROM weir_arrangements WHERE view = 'log_2'
----
0

statement ok
ADVANCE BY '15 s'

statement ok
INSERT INTO t VALUES ('a')

query TTI
SELECT op, k, n FROM log_1 ORDER BY seq
----
+I a 1
-D a 1
+I a 2
+I a 1

query TTI
SELECT op, k, n FROM log_2 ORDER BY seq
----
+I a 1
-D a 1
+I a 2
+I a 1

query TTI
SELECT op, k, n FROM log_3 ORDER BY seq
----
+I a 1
-D a 1
+I a 2
-D a 2
+I a 3
",
    );
}
