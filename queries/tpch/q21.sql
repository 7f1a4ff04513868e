-- TPC-H q21, suppliers who kept orders waiting.
-- The suppliers of a nation who alone were late with their part of an order, by how often.
CREATE MATERIALIZED VIEW q21 AS
SELECT s.s_name, COUNT(*) AS numwait
FROM supplier AS s
JOIN lineitem AS l ON l.l_suppkey = s.s_suppkey
JOIN orders AS o ON o.o_orderkey = l.l_orderkey
JOIN nation AS n ON n.n_nationkey = s.s_nationkey
WHERE o.o_orderstatus = 'F' AND l.l_receiptdate > l.l_commitdate AND n.n_name = 'SAUDI ARABIA'
  AND EXISTS (SELECT 1 FROM lineitem AS other WHERE other.l_orderkey = l.l_orderkey AND other.l_suppkey <> l.l_suppkey)
  AND NOT EXISTS (SELECT 1
                  FROM lineitem AS late
                  WHERE late.l_orderkey = l.l_orderkey AND late.l_suppkey <> l.l_suppkey
                    AND late.l_receiptdate > late.l_commitdate)
GROUP BY s.s_name
ORDER BY numwait DESC, s.s_name
LIMIT 100;
