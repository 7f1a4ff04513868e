-- Nexmark q13, bounded side input join.
-- Every bid with what a bounded table said of it at the time of the bid.
-- Flink's query asks what the table says when the bid comes (AS OF a PROCTIME() column), which is another answer each time.
--
--     weir run queries/nexmark/q13.sql
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

CREATE TABLE side_input (
  `key` BIGINT, `value` VARCHAR, valid_from TIMESTAMP(3),
  PRIMARY KEY (`key`) NOT ENFORCED, WATERMARK FOR valid_from AS valid_from
) WITH (
  'connector' = 'datagen', 'rows-per-second' = '0',
  'fields.key.kind' = 'sequence', 'fields.key.start' = '0', 'fields.key.end' = '9999',
  'fields.value.kind' = 'sequence', 'fields.value.start' = '1000', 'fields.value.end' = '10999',
  'fields.valid_from.min' = '2015-07-14 00:00:00', 'fields.valid_from.max' = '2015-07-14 00:00:00'
);

CREATE MATERIALIZED VIEW q13 AS
SELECT b.auction, b.bidder, b.price, b.date_time, s.`value`
FROM bid AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.date_time AS s ON MOD(b.auction, 10000) = s.`key`;

SELECT auction, bidder, price, date_time, `value` FROM q13 ORDER BY date_time LIMIT 10;
