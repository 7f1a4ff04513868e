-- Two figures: remembered for at least ten seconds after the last write, and for at most thirty.
--
--     weir run queries/retention/min_max_idle.sql
--
-- A deadline that is exact moves with every write. With state_ttl_max beside state_ttl it moves only if it would come
-- too early, and then by the longer figure: a key that is written a thousand times a second is put off every 20 seconds.
SET clock = 'manual';

CREATE TABLE clicks (session_id VARCHAR);

CREATE VIEW exact WITH (state_ttl = '10 s', on_expiry = 'retract') AS
SELECT session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id;

CREATE VIEW idle WITH (state_ttl = '10 s', state_ttl_max = '30 s', on_expiry = 'retract') AS
SELECT session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id;

CREATE TABLE exact_log (session_id VARCHAR, pages BIGINT, PRIMARY KEY (session_id) NOT ENFORCED) WITH ('connector' = 'changelog');

CREATE TABLE idle_log (session_id VARCHAR, pages BIGINT, PRIMARY KEY (session_id) NOT ENFORCED) WITH ('connector' = 'changelog');

INSERT INTO exact_log SELECT session_id, pages FROM exact;

INSERT INTO idle_log SELECT session_id, pages FROM idle;

-- 0 s: by the first figure both have until 10 s. By two, until 30 s.
INSERT INTO clicks VALUES ('a'), ('b');

-- 8 s: 8 + 10 is not after 30, so in the second view nothing is put off.
ADVANCE BY '8 s';
INSERT INTO clicks VALUES ('a');

-- 21 s: 21 + 10 is after 30, so a is put off to 21 + 30.
ADVANCE BY '13 s';
INSERT INTO clicks VALUES ('a');

ADVANCE TO TIMESTAMP '1970-01-01 00:01:00';

-- When everything went is to be seen, since these views take back what they forget: b at 10 s, a at 18 s and 31 s.
SELECT op, at, session_id, pages FROM exact_log ORDER BY seq;

-- b at 30 s, a at 51 s.
SELECT op, at, session_id, pages FROM idle_log ORDER BY seq;
