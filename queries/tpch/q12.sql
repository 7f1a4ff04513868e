-- TPC-H q12, shipping modes and order priority.
-- What came late in a year though it had been shipped in time, by mode: of urgent orders, and of
-- others.
CREATE MATERIALIZED VIEW q12 AS
SELECT l.l_shipmode,
       SUM(CASE WHEN o.o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
       SUM(CASE WHEN o.o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 0 ELSE 1 END) AS low_line_count
FROM orders AS o
JOIN lineitem AS l ON l.l_orderkey = o.o_orderkey
WHERE l.l_shipmode IN ('MAIL', 'SHIP') AND l.l_commitdate < l.l_receiptdate AND l.l_shipdate < l.l_commitdate
  AND l.l_receiptdate >= DATE '1994-01-01' AND l.l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l.l_shipmode;
