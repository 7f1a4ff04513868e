-- Nexmark q10, log to file system.
-- Every bid as a line of a file, with its day and its minute.
-- Flink makes a folder of each day and minute (PARTITIONED BY); here they are columns of one file, q10.csv.
--
--     weir run queries/nexmark/q10.sql
CREATE TABLE events (
  event_type INT,
  person  ROW<id BIGINT, name VARCHAR, email_address VARCHAR, credit_card VARCHAR, city VARCHAR, state VARCHAR,
              date_time TIMESTAMP(3), extra VARCHAR>,
  auction ROW<id BIGINT, item_name VARCHAR, description VARCHAR, initial_bid BIGINT, reserve BIGINT,
              date_time TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra VARCHAR>,
  bid     ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
              date_time TIMESTAMP(3), extra VARCHAR>,
  date_time AS CASE event_type WHEN 0 THEN person.date_time WHEN 1 THEN auction.date_time ELSE bid.date_time END,
  WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark', 'events' = '100000', 'event-rate' = '200', 'base-time' = '2015-07-14 23:59:58');

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, date_time, bid.extra
FROM events WHERE event_type = 2;

CREATE MATERIALIZED VIEW q10 AS
SELECT auction, bidder, price, date_time, extra,
       DATE_FORMAT(date_time, 'yyyy-MM-dd') AS dt, DATE_FORMAT(date_time, 'HH:mm') AS hm
FROM bid;

CREATE TABLE log (
  auction BIGINT, bidder BIGINT, price BIGINT, date_time TIMESTAMP(3), extra VARCHAR, dt VARCHAR, hm VARCHAR
) WITH ('connector' = 'filesystem', 'path' = 'q10.csv', 'format' = 'csv');

INSERT INTO log SELECT auction, bidder, price, date_time, extra, dt, hm FROM q10;

SELECT dt, hm, COUNT(*) AS bids FROM q10 GROUP BY dt, hm ORDER BY dt, hm;
