//! Aggregates, top-N and OVER windows.

use crate::retention::script::agrees;

/// Flink counts from one again and a total downstream counts twice. So does `forget`; the others do not.
#[test]
fn a_key_that_comes_back_replaces_its_kept_answer() {
    agrees(
        "flink-back",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW s WITH (state_ttl = '10 s', on_expiry = 'keep') AS SELECT k, MIN(v) AS least, MAX(v) AS most FROM t GROUP BY k

statement ok
CREATE TABLE log (k VARCHAR, least INT, most INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM s

statement ok
INSERT INTO t VALUES ('a', 1), ('a', 9)

statement ok
ADVANCE BY '10 s'

query TII
SELECT * FROM s
----
a 1 9

# the forgotten rows have no part in the new answer
statement ok
INSERT INTO t VALUES ('a', 5)

query TTII
SELECT op, k, least, most FROM log ORDER BY seq
----
+I a 1 9
-U a 1 9
+U a 5 5
",
    );
}

/// In Flink each x lives from its first arrival, and a busy one is counted again while its group lives.
#[test]
fn a_distinct_value_lives_as_long_as_its_group() {
    agrees(
        "flink-distinct",
        "
statement ok
CREATE TABLE t (k VARCHAR, x INT)

statement ok
CREATE MATERIALIZED VIEW d WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT k, COUNT(DISTINCT x) AS n FROM t GROUP BY k

statement ok
CREATE TABLE log (k VARCHAR, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM d

statement ok
INSERT INTO t VALUES ('a', 1)

statement ok
ADVANCE BY '6 s'

statement ok
INSERT INTO t VALUES ('a', 1)

statement ok
ADVANCE BY '6 s'

statement ok
INSERT INTO t VALUES ('a', 1)

# 2 has written once, and lives on by what 1 writes
statement ok
INSERT INTO t VALUES ('a', 2)

statement ok
ADVANCE BY '9 s'

statement ok
INSERT INTO t VALUES ('a', 1)

statement ok
ADVANCE BY '9 s'

query TI
SELECT * FROM d
----
a 2

statement ok
ADVANCE BY '1 h'

query TTIT
SELECT op, k, n, at FROM log ORDER BY seq
----
+I a 1 1970-01-01 00:00:00
-U a 1 1970-01-01 00:00:12
+U a 2 1970-01-01 00:00:12
-D a 2 1970-01-01 00:00:31
",
    );
}

/// In Flink each member of a top N has its own clock and goes unseen: a top 2 grew to 5 rows downstream.
#[test]
fn a_top_n_never_has_more_than_n() {
    agrees(
        "flink-top",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW top WITH (state_ttl = '10 s', on_expiry = 'keep') AS
SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM t) AS s WHERE rn <= 2

statement ok
CREATE MATERIALIZED VIEW downstream AS SELECT COUNT(*) AS n, MIN(v) AS least, MAX(v) AS most FROM top

statement ok
INSERT INTO t VALUES ('a', 5)

statement ok
ADVANCE BY '4 s'

statement ok
INSERT INTO t VALUES ('a', 4)

statement ok
ADVANCE BY '4 s'

# not of the two, and yet it keeps the partition
statement ok
INSERT INTO t VALUES ('a', 3)

statement ok
ADVANCE BY '8 s'

statement ok
INSERT INTO t VALUES ('a', 6)

query III
SELECT n, least, most FROM downstream
----
2 5 6

statement ok
ADVANCE BY '1 h'

query III
SELECT n, least, most FROM downstream
----
2 5 6

statement ok
INSERT INTO t VALUES ('a', 1)

query III
SELECT n, least, most FROM downstream
----
1 1 1
",
    );
}

/// In Flink MAX over a view that takes rows back can become NULL when the rows are forgotten.
#[test]
fn a_maximum_over_a_view_that_retracts_is_never_null() {
    agrees(
        "flink-max",
        "
statement ok
CREATE TABLE t (g VARCHAR, k VARCHAR)

statement ok
CREATE VIEW c AS SELECT g, k, COUNT(*) AS n FROM t GROUP BY g, k

statement ok
CREATE MATERIALIZED VIEW m WITH (state_ttl = '10 s') AS SELECT g, MAX(n) AS most FROM c GROUP BY g

statement ok
CREATE TABLE log (g VARCHAR, most BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM m

statement ok
INSERT INTO t VALUES ('g', 'a')

statement ok
ADVANCE BY '5 s'

statement ok
INSERT INTO t VALUES ('g', 'b')

statement ok
ADVANCE BY '7 s'

statement ok
INSERT INTO t VALUES ('g', 'a')

# 23 s: forgotten at 22 s; the old half of b's update finds nothing, the new half begins the group
statement ok
ADVANCE BY '11 s'

statement ok
INSERT INTO t VALUES ('g', 'b')

query TTIT
SELECT op, g, most, at FROM log ORDER BY seq
----
+I g 1 1970-01-01 00:00:00
-U g 1 1970-01-01 00:00:12
+U g 2 1970-01-01 00:00:12
+I g 2 1970-01-01 00:00:23

query TI
SELECT * FROM m
----
g 2
",
    );
}

/// Flink takes it from the new rows: sums below zero, and a group deleted when its count comes to zero.
#[test]
fn a_late_retraction_takes_nothing_from_a_key_that_came_back() {
    agrees(
        "flink-late",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW s WITH (state_ttl = '10 s') AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k

statement ok
CREATE TABLE log (k VARCHAR, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM s

statement ok
INSERT INTO t VALUES ('a', 50)

statement ok
ADVANCE BY '12 s'

statement ok
INSERT INTO t VALUES ('a', 7)

statement ok
DELETE FROM t WHERE v = 50

query TII
SELECT * FROM s
----
a 1 7

query TTII
SELECT op, k, n, total FROM log ORDER BY seq
----
+I a 1 50
+I a 1 7
",
    );
}

/// In Flink an OVER window has no ttl of its own, or the old timers of one to one and a half times the time.
#[test]
fn an_over_window_forgets_a_partition_at_its_deadline() {
    agrees(
        "flink-over",
        "
statement ok
CREATE TABLE t (k VARCHAR, v INT)

statement ok
CREATE MATERIALIZED VIEW w WITH (state_ttl = '10 s', on_expiry = 'retract') AS
SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS s FROM t

statement ok
INSERT INTO t VALUES ('a', 1), ('b', 1)

statement ok
ADVANCE BY '9 s'

statement ok
INSERT INTO t VALUES ('a', 2)

statement ok
ADVANCE BY '1 s'

query TII rowsort
SELECT * FROM w
----
a 1 1
a 2 3

statement ok
ADVANCE BY '8999 ms'

query TII rowsort
SELECT * FROM w
----
a 1 1
a 2 3

statement ok
ADVANCE BY '1 ms'

query TII
SELECT * FROM w
----
",
    );
}
