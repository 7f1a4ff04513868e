-- What visitors of a shop do: a view of sessions, and two views over that view.
--
--     weir run queries/clicks.sql
CREATE TABLE clicks (
  at         TIMESTAMP(3),
  session_id VARCHAR,
  url        VARCHAR
) WITH ('connector' = 'file', 'path' = 'data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');

-- A row a session. While clicks come in, its figures change: each change takes the old row out of everything that
-- reads this view and puts the new one in.
CREATE VIEW sessions AS
SELECT session_id,
       COUNT(*) AS pages,
       MIN(at) AS began,
       BOOL_OR(url = '/checkout') AS bought
FROM clicks
GROUP BY session_id;

-- An aggregate of an aggregate: how long sessions are. A session that grows moves from one row here to the next.
CREATE MATERIALIZED VIEW lengths AS
SELECT pages, COUNT(*) AS sessions, COUNT(*) FILTER (WHERE bought) AS bought
FROM sessions
GROUP BY pages;

-- Each page: how often it was seen, in how many sessions, and in how many of these something was bought.
CREATE MATERIALIZED VIEW pages AS
SELECT c.url,
       COUNT(*) AS views,
       COUNT(DISTINCT c.session_id) AS sessions,
       COUNT(DISTINCT CASE WHEN s.bought THEN s.session_id END) AS sessions_that_bought
FROM clicks AS c
JOIN sessions AS s ON c.session_id = s.session_id
GROUP BY c.url;

SELECT pages, sessions, bought FROM lengths ORDER BY pages;

SELECT url, views, sessions, sessions_that_bought FROM pages ORDER BY views DESC, url;

-- Those who had bought within three pages, the earliest first.
SELECT session_id, pages FROM sessions WHERE bought AND pages <= 3 ORDER BY began, session_id LIMIT 5;
