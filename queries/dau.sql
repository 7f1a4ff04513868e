-- Daily active users, and how many of them are new that day, from a log of logins.
--
--     weir run queries/dau.sql
--
-- The log is one row a login, day by day (queries/data/generate.py made it). Paths start from this file's folder.
--
-- Time is the log's own: a login happens on its day, and five weeks pass in a second, with everything forgotten on the
-- day on which it would have been.
CREATE TABLE logins (
  t_date   DATE,
  user_id  BIGINT,
  platform VARCHAR,
  ts AS CAST(t_date AS TIMESTAMP(3)),
  WATERMARK FOR ts AS ts
) WITH ('connector' = 'file', 'path' = 'data/logins.csv', 'format' = 'csv', 'csv.header' = 'true');

-- Every login beside its user's first day. Nothing is said of its memory, so it forgets nobody: whoever was here before is
-- not new, however long ago that was.
--
-- The frame begins with the user's first login. With ROWS BETWEEN 1 PRECEDING AND CURRENT ROW, the second login of a day
-- would see nothing but that day, and an old user who logs in twice would count as new.
CREATE VIEW with_debut AS
SELECT t_date, user_id,
       MIN(t_date) OVER (PARTITION BY user_id ORDER BY t_date
                         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_debut
FROM logins;

-- A user counts once a day, however often they log in; and is new on the day of the debut. A day's users are remembered
-- for three days after the day's last login. Then they go, and the day's figures are kept.
CREATE MATERIALIZED VIEW dau WITH (state_ttl = '3 days', on_expiry = 'keep') AS
SELECT t_date,
       COUNT(DISTINCT user_id) AS active_users,
       COUNT(DISTINCT CASE WHEN t_date = t_debut THEN user_id END) AS new_users
FROM with_debut
GROUP BY t_date;

-- What would one number for the whole job do, as in other engines? It takes old users for new:
--
--     weir audit queries/dau.sql --set "state_ttl=3 days"

-- A SELECT sees all of a file, however it was read.
SELECT t_date, active_users, new_users FROM dau ORDER BY t_date;
