//! Joins of two and three.

use crate::retention::script::agrees;

/// Flink joins it with the other side all the same, and says -D.
#[test]
fn an_inner_join_drops_the_retraction_of_a_forgotten_row() {
    agrees(
        "flink-inner",
        "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW j WITH (state_ttl.l = '10 s') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
CREATE TABLE log (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM j

statement ok
INSERT INTO l VALUES (1, 'A'), (2, 'B')

statement ok
INSERT INTO r VALUES (1, 'x')

statement ok
ADVANCE BY '11 s'

# (1,A) was published and stands; (2,B) never was
statement ok
INSERT INTO r VALUES (2, 'y')

statement ok
DELETE FROM l WHERE k > 0

query TITT
SELECT op, k, a, b FROM log ORDER BY seq
----
+I 1 A x

query I
SELECT SUM(late_retractions) FROM weir_arrangements WHERE view = 'j' AND input = 'l'
----
2
",
    );
}

/// Flink takes back a padded row that it never sent.
#[test]
fn a_left_join_does_not_take_back_a_padded_row_that_it_owed() {
    agrees(
        "flink-left",
        "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW j WITH (state_ttl.r = '10 s') AS SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k

statement ok
CREATE TABLE log (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM j

statement ok
INSERT INTO r VALUES (1, 'x')

statement ok
INSERT INTO l VALUES (1, 'A')

statement ok
ADVANCE BY '11 s'

query ITT
SELECT * FROM j
----
1 A NULL

statement ok
DELETE FROM l WHERE k = 1

query TITT
SELECT op, k, a, b FROM log ORDER BY seq
----
+I 1 A x
",
    );
}

/// In Flink the count of matches goes to -1, and the next match does not take back the padded row.
#[test]
fn a_left_join_takes_back_its_padded_row_after_a_late_retraction() {
    agrees(
        "flink-left-late",
        "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW j WITH (state_ttl.r = '10 s') AS SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k

statement ok
CREATE TABLE log (k INT, a VARCHAR, b VARCHAR) WITH ('connector' = 'changelog')

statement ok
INSERT INTO log SELECT * FROM j

statement ok
INSERT INTO r VALUES (1, 'x')

statement ok
ADVANCE BY '11 s'

statement ok
INSERT INTO l VALUES (1, 'A')

statement ok
DELETE FROM r WHERE b = 'x'

statement ok
INSERT INTO r VALUES (1, 'y')

query TITT
SELECT op, k, a, b FROM log ORDER BY seq
----
+I 1 A NULL
-D 1 A NULL
+I 1 A y

query ITT
SELECT * FROM j
----
1 A y
",
    );
}

/// In Flink a match renews the left row of a left join, and not that of an inner join.
#[test]
fn a_match_renews_nothing_in_any_join() {
    agrees(
        "flink-renews",
        "
statement ok
CREATE TABLE l (k INT, a VARCHAR)

statement ok
CREATE TABLE r (k INT, b VARCHAR)

statement ok
CREATE MATERIALIZED VIEW i WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT l.k, l.a, r.b FROM l JOIN r ON l.k = r.k

statement ok
CREATE MATERIALIZED VIEW o WITH (state_ttl = '10 s', on_expiry = 'retract') AS SELECT l.k, l.a, r.b FROM l LEFT JOIN r ON l.k = r.k

statement ok
INSERT INTO l VALUES (1, 'A')

statement ok
ADVANCE BY '8 s'

statement ok
INSERT INTO r VALUES (1, 'x')

query ITT
SELECT * FROM i
----
1 A x

query ITT
SELECT * FROM o
----
1 A x

statement ok
ADVANCE BY '2 s'

query ITT
SELECT * FROM i
----

query ITT
SELECT * FROM o
----
",
    );
}

/// In Flink the joined side of a second join takes the job's ttl.
#[test]
fn the_joined_side_of_a_cascade_has_a_ttl_of_its_own() {
    agrees(
        "flink-cascade",
        "
statement ok
CREATE TABLE a (k INT, x VARCHAR)

statement ok
CREATE TABLE b (k INT, y VARCHAR)

statement ok
CREATE TABLE c (k INT, z VARCHAR)

statement ok
CREATE MATERIALIZED VIEW j WITH ('state_ttl.a+b' = '5 s') AS
SELECT a.k, a.x, b.y, c.z FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k

query TI rowsort
SELECT input, ttl_ms FROM weir_arrangements WHERE view = 'j' AND ttl_ms IS NOT NULL
----
a+b 5000

statement ok
INSERT INTO a VALUES (1, 'a1')

statement ok
INSERT INTO b VALUES (1, 'b1')

statement ok
ADVANCE BY '6 s'

# (a1,b1) is forgotten; a and b themselves are not
statement ok
INSERT INTO c VALUES (1, 'c1')

query ITTT
SELECT * FROM j
----

statement ok
INSERT INTO b VALUES (1, 'b2')

query ITTT
SELECT * FROM j
----
1 a1 b2 c1
",
    );
}
