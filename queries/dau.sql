-- Daily active users, and how many of them are new that day, from a log of logins.
--
--     weir run queries/dau.sql
--
-- The log is one row a login, day by day (queries/data/generate.py made it). Paths start from this file's folder.
CREATE TABLE logins (
  t_date   DATE,
  user_id  BIGINT,
  platform VARCHAR
) WITH ('connector' = 'file', 'path' = 'data/logins.csv', 'format' = 'csv', 'csv.header' = 'true');

-- Every login beside its user's first day. The first day needs a long memory: as long as users may come back. How
-- long each part of a query remembers is set in WITH (...) once issue 3 brings retention; until then it is for ever.
CREATE VIEW with_debut AS
SELECT t_date, user_id,
       MIN(t_date) OVER (PARTITION BY user_id ORDER BY t_date
                         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_debut
FROM logins;

-- A user counts once a day, however often they log in; and is new on the day of the debut.
CREATE MATERIALIZED VIEW dau AS
SELECT t_date,
       COUNT(DISTINCT user_id) AS active_users,
       COUNT(DISTINCT CASE WHEN t_date = t_debut THEN user_id END) AS new_users
FROM with_debut
GROUP BY t_date;

-- A SELECT sees all of a file, however it was read.
SELECT t_date, active_users, new_users FROM dau ORDER BY t_date;
