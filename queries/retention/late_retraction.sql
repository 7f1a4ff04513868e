-- A row is deleted, or updated, that a view has forgotten.
--
--     weir run queries/retention/late_retraction.sql
SET clock = 'manual';

-- The table remembers all of its rows: a ttl is about what views remember.
CREATE TABLE orders (id INT, customer VARCHAR, amount INT, PRIMARY KEY (id) NOT ENFORCED);

CREATE MATERIALIZED VIEW spend WITH (state_ttl = '10 s') AS
SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer;

CREATE TABLE published (customer VARCHAR, orders BIGINT, total BIGINT, PRIMARY KEY (customer) NOT ENFORCED)
WITH ('connector' = 'changelog');

INSERT INTO published SELECT customer, orders, total FROM spend;

INSERT INTO orders VALUES (1, 'ann', 5), (2, 'ann', 6), (3, 'bob', 7);

-- 11 s: Ann and Bob were forgotten at 10 s. This delete finds nothing to take away, and makes nothing.
ADVANCE BY '11 s';
DELETE FROM orders WHERE id = 1;

-- An update takes a row away and adds one. The first half finds nothing; the second counts.
UPDATE orders SET amount = 9 WHERE id = 3;

-- 12 s: Ann is back.
ADVANCE BY '1 s';
INSERT INTO orders VALUES (4, 'ann', 4);

-- 13 s: order 2 went with the Ann who was forgotten. It is not taken out of the Ann who is there.
ADVANCE BY '1 s';
DELETE FROM orders WHERE id = 2;

SELECT customer, orders, total FROM spend ORDER BY customer;

SELECT op, at, customer, orders, total FROM published ORDER BY seq;

-- What found nothing is counted: two deletes and half of an update.
SELECT SUM(late_retractions) AS late_retractions, SUM(expired) AS expired, SUM(live_scopes) AS live_scopes
FROM weir_arrangements WHERE view = 'spend';
