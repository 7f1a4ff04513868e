-- The three most visited pages of each day, with their rank, kept right as clicks come in.
--
--     weir run queries/top_n.sql
CREATE TABLE clicks (
  at         TIMESTAMP(3),
  session_id VARCHAR,
  url        VARCHAR
) WITH ('connector' = 'file', 'path' = 'data/clicks.csv', 'format' = 'csv', 'csv.header' = 'true');

CREATE VIEW visits AS
SELECT CAST(at AS DATE) AS day, url, COUNT(*) AS views
FROM clicks
GROUP BY CAST(at AS DATE), url;

-- A ranking function and a filter on it is a top-N, not a window: of each day it looks at the first rows only.
CREATE MATERIALIZED VIEW top_pages AS
SELECT day, place, url, views
FROM (SELECT day, url, views, ROW_NUMBER() OVER (PARTITION BY day ORDER BY views DESC, url) AS place FROM visits) AS ranked
WHERE place <= 3;

-- With RANK, equals share a place, and there may be more than two of them.
CREATE MATERIALIZED VIEW longest_sessions AS
SELECT day, session_id, pages
FROM (SELECT day, session_id, pages, RANK() OVER (PARTITION BY day ORDER BY pages DESC) AS place
      FROM (SELECT MIN(CAST(at AS DATE)) AS day, session_id, COUNT(*) AS pages FROM clicks GROUP BY session_id) AS s) AS ranked
WHERE place <= 2;

SELECT day, place, url, views FROM top_pages ORDER BY day, place;

SELECT day, session_id, pages FROM longest_sessions ORDER BY day, pages DESC, session_id;
