-- A key that comes back after it was forgotten, under each of the three policies.
--
--     weir run queries/retention/count_restart.sql
SET clock = 'manual';

CREATE TABLE clicks (session_id VARCHAR);

-- forget is what holds if nothing is said: what was published stands, and a key that comes back is a new one.
CREATE MATERIALIZED VIEW c_forget WITH (state_ttl = '10 s', on_expiry = 'forget') AS
SELECT session_id, COUNT(*) AS n FROM clicks GROUP BY session_id;

-- keep: what was published stands until there is a new answer, which replaces it.
CREATE MATERIALIZED VIEW c_keep WITH (state_ttl = '10 s', on_expiry = 'keep') AS
SELECT session_id, COUNT(*) AS n FROM clicks GROUP BY session_id;

-- retract: what was published is taken back at the deadline.
CREATE MATERIALIZED VIEW c_retract WITH (state_ttl = '10 s', on_expiry = 'retract') AS
SELECT session_id, COUNT(*) AS n FROM clicks GROUP BY session_id;

-- A total over each, which forgets nothing itself.
CREATE MATERIALIZED VIEW t_forget AS SELECT SUM(n) AS total FROM c_forget;
CREATE MATERIALIZED VIEW t_keep AS SELECT SUM(n) AS total FROM c_keep;
CREATE MATERIALIZED VIEW t_retract AS SELECT SUM(n) AS total FROM c_retract;

CREATE TABLE log_forget (session_id VARCHAR, n BIGINT, PRIMARY KEY (session_id) NOT ENFORCED) WITH ('connector' = 'changelog');
CREATE TABLE log_keep (session_id VARCHAR, n BIGINT, PRIMARY KEY (session_id) NOT ENFORCED) WITH ('connector' = 'changelog');
CREATE TABLE log_retract (session_id VARCHAR, n BIGINT, PRIMARY KEY (session_id) NOT ENFORCED) WITH ('connector' = 'changelog');

INSERT INTO log_forget SELECT session_id, n FROM c_forget;
INSERT INTO log_keep SELECT session_id, n FROM c_keep;
INSERT INTO log_retract SELECT session_id, n FROM c_retract;

-- Clicks at 0 s and 4 s. The deadline is 14 s.
INSERT INTO clicks VALUES ('a');
ADVANCE BY '4 s';
INSERT INTO clicks VALUES ('a');

-- 15 s: nothing has come, and the deadline is over. SELECT shows what each view remembers: two of them nothing.
ADVANCE BY '11 s';
SELECT 'forget' AS policy, session_id, n FROM c_forget
UNION ALL SELECT 'keep', session_id, n FROM c_keep
UNION ALL SELECT 'retract', session_id, n FROM c_retract;

SELECT f.total AS forget, k.total AS keep, r.total AS retract
FROM t_forget AS f CROSS JOIN t_keep AS k CROSS JOIN t_retract AS r;

-- 20 s: the key is back, with one click. Three were made: forget has counted all of them, once each, but in two rows.
ADVANCE BY '5 s';
INSERT INTO clicks VALUES ('a');

SELECT f.total AS forget, k.total AS keep, r.total AS retract
FROM t_forget AS f CROSS JOIN t_keep AS k CROSS JOIN t_retract AS r;

-- What each of them said, and when.
SELECT op, at, session_id, n FROM log_forget ORDER BY seq;

SELECT op, at, session_id, n FROM log_keep ORDER BY seq;

SELECT op, at, session_id, n FROM log_retract ORDER BY seq;
