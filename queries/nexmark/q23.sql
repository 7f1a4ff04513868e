-- Nexmark q23, expand bid with person and auction.
-- Every bid by somebody who also sells, with the person and each of the auctions.
-- A join of three streams, any of which may come last.
--
--     weir run queries/nexmark/q23.sql
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

CREATE VIEW person AS
SELECT person.id, person.name, person.email_address, person.credit_card, person.city, person.state, date_time, person.extra
FROM events WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, auction.item_name, auction.description, auction.initial_bid, auction.reserve, date_time,
       auction.expires, auction.seller, auction.category, auction.extra
FROM events WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, date_time, bid.extra
FROM events WHERE event_type = 2;

CREATE MATERIALIZED VIEW q23 AS
SELECT b.auction AS bid_auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_time, b.extra AS bid_extra,
       p.name, p.email_address, p.credit_card, p.city, p.state, p.extra AS person_extra,
       a.id AS auction, a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_time, a.expires,
       a.category, a.extra AS auction_extra
FROM bid AS b
JOIN person AS p ON p.id = b.bidder
JOIN auction AS a ON a.seller = b.bidder;

SELECT bidder, name, COUNT(DISTINCT auction) AS auctions, COUNT(*) AS n FROM q23
GROUP BY bidder, name ORDER BY n DESC, bidder LIMIT 10;
