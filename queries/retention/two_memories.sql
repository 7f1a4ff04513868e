-- One query, two memories: who was ever here, for ever; who was here on a day, for three days.
--
--     weir run queries/retention/two_memories.sql
--
-- Time is the engine's. With a manual clock it stands still until ADVANCE moves it.
SET clock = 'manual';

CREATE TABLE logins (t_date DATE, user_id VARCHAR);

-- Somebody is new who was never here before, so this part may forget nobody. It holds a partition for each user.
CREATE VIEW with_debut WITH (state_ttl = 'never') AS
SELECT t_date, user_id,
       MIN(t_date) OVER (PARTITION BY user_id ORDER BY t_date
                         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_debut
FROM logins;

-- The users of a day are needed for as long as logins of that day may come: three days after the last of them, the day
-- is forgotten. It holds three or four days, however long it runs.
CREATE MATERIALIZED VIEW dau WITH (state_ttl = '3 days') AS
SELECT t_date,
       COUNT(DISTINCT user_id) AS active_users,
       COUNT(DISTINCT CASE WHEN t_date = t_debut THEN user_id END) AS new_users
FROM with_debut
GROUP BY t_date;

-- The same, with three days for everything.
CREATE VIEW with_forgotten_debut WITH (state_ttl = '3 days') AS
SELECT t_date, user_id,
       MIN(t_date) OVER (PARTITION BY user_id ORDER BY t_date
                         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_debut
FROM logins;

CREATE MATERIALIZED VIEW coarse_dau WITH (state_ttl = '3 days') AS
SELECT t_date,
       COUNT(DISTINCT user_id) AS active_users,
       COUNT(DISTINCT CASE WHEN t_date = t_debut THEN user_id END) AS new_users
FROM with_forgotten_debut
GROUP BY t_date;

-- Two sinks that keep all that is published to them.
CREATE TABLE report (t_date DATE, active_users BIGINT, new_users BIGINT, PRIMARY KEY (t_date) NOT ENFORCED)
WITH ('connector' = 'changelog');

CREATE TABLE coarse_report (t_date DATE, active_users BIGINT, new_users BIGINT, PRIMARY KEY (t_date) NOT ENFORCED)
WITH ('connector' = 'changelog');

INSERT INTO report SELECT t_date, active_users, new_users FROM dau;

INSERT INTO coarse_report SELECT t_date, active_users, new_users FROM coarse_dau;

ADVANCE TO TIMESTAMP '2026-01-05 09:00:00';
INSERT INTO logins VALUES ('2026-01-05', 'ann'), ('2026-01-05', 'bob'), ('2026-01-05', 'ann');

ADVANCE TO TIMESTAMP '2026-01-06 09:00:00';
INSERT INTO logins VALUES ('2026-01-06', 'ann'), ('2026-01-06', 'cid');

-- Six days later Ann is back, and Dan is new.
ADVANCE TO TIMESTAMP '2026-01-12 09:00:00';
INSERT INTO logins VALUES ('2026-01-12', 'ann'), ('2026-01-12', 'dan');

-- A login of the 12th that comes a day late: that day is still remembered, and is corrected.
ADVANCE TO TIMESTAMP '2026-01-13 09:00:00';
INSERT INTO logins VALUES ('2026-01-12', 'bob');

-- One of the three users of the 12th is new.
SELECT op, t_date, active_users, new_users FROM report ORDER BY seq;

-- With one ttl for everything, all three are: Ann and Bob were forgotten on the 9th and the 8th.
SELECT op, t_date, active_users, new_users FROM coarse_report ORDER BY seq;

-- A SELECT shows what the view remembers. The days before were published, stand in the report, and are forgotten here.
SELECT t_date, active_users, new_users FROM dau;
