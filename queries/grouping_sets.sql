-- One pass, several levels: active users by week and platform, by week, by platform, and in all.
--
--     weir run queries/grouping_sets.sql
CREATE TABLE logins (
  t_date   DATE,
  user_id  BIGINT,
  platform VARCHAR
) WITH ('connector' = 'file', 'path' = 'data/logins.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE VIEW weekly AS
SELECT CAST(DATE_TRUNC('week', t_date) AS DATE) AS week, platform, user_id FROM logins;

-- Distinct users cannot be added up from the finer levels to the coarser: a user with two platforms is in both. So
-- each set is counted by itself. GROUPING(x) is 1 where x is NULL because the row is a subtotal over it.
CREATE MATERIALIZED VIEW active AS
SELECT week, platform,
       GROUPING(week) AS all_weeks, GROUPING(platform) AS all_platforms,
       COUNT(*) AS logins, COUNT(DISTINCT user_id) AS users
FROM weekly
GROUP BY GROUPING SETS ((week, platform), (week), (platform), ());

SELECT CASE WHEN all_weeks = 1 THEN 'all weeks' ELSE CAST(week AS VARCHAR) END AS week,
       CASE WHEN all_platforms = 1 THEN 'all' ELSE platform END AS platform,
       logins, users
FROM active
ORDER BY all_weeks, week, all_platforms, platform;

-- ROLLUP (a, b) is short for the sets (a, b), (a), (); CUBE for all of them.
SELECT COUNT(*) AS rows_of_a_rollup
FROM (SELECT week, platform, COUNT(*) AS logins FROM weekly GROUP BY ROLLUP (week, platform)) AS r;
