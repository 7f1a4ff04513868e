-- A histogram of counts: a view over a view that forgets.
--
--     weir run queries/retention/view_over_view.sql
SET clock = 'manual';

CREATE TABLE clicks (session_id VARCHAR);

CREATE VIEW pages_forget WITH (state_ttl = '10 s') AS
SELECT session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id;

CREATE VIEW pages_retract WITH (state_ttl = '10 s', on_expiry = 'retract') AS
SELECT session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id;

-- Each reads all that the view below it publishes. The ttl of that view is not handed up: these two forget nothing.
CREATE MATERIALIZED VIEW lengths_forget AS
SELECT pages, COUNT(*) AS sessions FROM pages_forget GROUP BY pages;

CREATE MATERIALIZED VIEW lengths_retract AS
SELECT pages, COUNT(*) AS sessions FROM pages_retract GROUP BY pages;

CREATE TABLE log_forget (pages BIGINT, sessions BIGINT, PRIMARY KEY (pages) NOT ENFORCED) WITH ('connector' = 'changelog');

CREATE TABLE log_retract (pages BIGINT, sessions BIGINT, PRIMARY KEY (pages) NOT ENFORCED) WITH ('connector' = 'changelog');

INSERT INTO log_forget SELECT pages, sessions FROM lengths_forget;

INSERT INTO log_retract SELECT pages, sessions FROM lengths_retract;

-- 0 s: three sessions of a page each. 1 s: one of them has two.
INSERT INTO clicks VALUES ('a'), ('b'), ('c');
ADVANCE BY '1 s';
INSERT INTO clicks VALUES ('a');

-- b and c are forgotten at 10 s and a at 11 s. At 20 s there is a session a again.
ADVANCE BY '19 s';
INSERT INTO clicks VALUES ('a');

-- Over forget: all sessions that there ever were, by their length. Nothing is taken back but what changed while it was
-- remembered.
SELECT pages, sessions FROM lengths_forget ORDER BY pages;

-- Over retract: the sessions of the last ten seconds.
SELECT pages, sessions FROM lengths_retract ORDER BY pages;

SELECT op, at, pages, sessions FROM log_forget ORDER BY seq;

SELECT op, at, pages, sessions FROM log_retract ORDER BY seq;
