-- A join whose sides are remembered for different times.
--
--     weir run queries/retention/join_sides.sql
SET clock = 'manual';

CREATE TABLE shown (ad INT, place VARCHAR);

CREATE TABLE clicked (ad INT, who VARCHAR);

-- What was shown may be clicked for two minutes. A click that comes before its ad waits for half a minute. Each row of
-- a side has its own deadline. An input is called by the name that it has in FROM.
CREATE MATERIALIZED VIEW hits WITH (state_ttl.s = '2 min', state_ttl.c = '30 s') AS
SELECT s.ad, s.place, c.who
FROM shown AS s
JOIN clicked AS c ON s.ad = c.ad;

-- Other figures, by a hint after JOIN. It says nothing of the left side, which takes the session's ttl.
SET state_ttl = '1 min';

CREATE MATERIALIZED VIEW hinted_hits AS
SELECT s.ad, s.place, c.who
FROM shown AS s
JOIN /*+ OPTIONS('state.ttl.right' = '45S') */ clicked AS c ON s.ad = c.ad;

CREATE TABLE published (ad INT, place VARCHAR, who VARCHAR) WITH ('connector' = 'changelog');

CREATE TABLE hinted_published (ad INT, place VARCHAR, who VARCHAR) WITH ('connector' = 'changelog');

INSERT INTO published SELECT ad, place, who FROM hits;

INSERT INTO hinted_published SELECT ad, place, who FROM hinted_hits;

-- 0 s
INSERT INTO shown VALUES (1, 'top');

-- 90 s: a click. Two minutes are not over, one minute is.
ADVANCE BY '90 s';
INSERT INTO clicked VALUES (1, 'ann');

-- 100 s: the ad is shown again, and finds the click.
ADVANCE BY '10 s';
INSERT INTO shown VALUES (1, 'side');

-- 130 s: another click. The ad at the top was forgotten at 120 s (or 60 s).
ADVANCE BY '30 s';
INSERT INTO clicked VALUES (1, 'bob');

-- SELECT shows the pairs of what is remembered: the first click went at 120 s.
SELECT ad, place, who FROM hits;

-- 170 s: the second click went at 160 s. By the hint it has until 175 s.
ADVANCE BY '40 s';
INSERT INTO shown VALUES (1, 'foot');

-- Published are all pairs that have met.
SELECT op, at, ad, place, who FROM published ORDER BY seq;

SELECT op, at, ad, place, who FROM hinted_published ORDER BY seq;

-- How long each side is remembered, in milliseconds, and where that was said.
SELECT view, input, ttl_ms, origin FROM weir_arrangements WHERE input IS NOT NULL ORDER BY view, input;
