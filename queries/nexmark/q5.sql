-- Nexmark q5, hot items.
-- Every 2 seconds, the auctions that had the most bids in the last 10.
-- A hopping window, and the maximum of its counts joined with the counts. Equals are all shown.
--
--     weir run queries/nexmark/q5.sql
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

CREATE VIEW counts AS
SELECT window_start, window_end, auction, COUNT(*) AS bids
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction;

CREATE MATERIALIZED VIEW q5 AS
SELECT c.window_start, c.window_end, c.auction, c.bids
FROM counts AS c
JOIN (SELECT window_start, window_end, MAX(bids) AS bids FROM counts GROUP BY window_start, window_end) AS most
  ON c.window_start = most.window_start AND c.window_end = most.window_end AND c.bids = most.bids;

SELECT window_end, auction, bids FROM q5 ORDER BY window_end, auction LIMIT 10;
