-- Nexmark q4, average price for a category.
-- What the winning bids of a category's auctions come to on average.
-- A bid counts while its auction is open. An average of maxima: a better bid takes its auction's old one out.
--
--     weir run queries/nexmark/q4.sql
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

CREATE VIEW auction AS
SELECT auction.id, auction.item_name, auction.description, auction.initial_bid, auction.reserve, date_time,
       auction.expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, date_time, bid.extra
FROM events WHERE event_type = 2;

CREATE VIEW best AS
SELECT a.id, a.category, MAX(b.price) AS price
FROM auction AS a
JOIN bid AS b ON a.id = b.auction
WHERE b.date_time BETWEEN a.date_time AND a.expires
GROUP BY a.id, a.category;

CREATE MATERIALIZED VIEW q4 AS
SELECT category, AVG(price) AS price FROM best GROUP BY category;

SELECT category, price FROM q4 ORDER BY category;
