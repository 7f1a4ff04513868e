-- TPC-H q10, returned item reporting.
-- The twenty customers who have sent back most of what they ordered in a quarter.
CREATE MATERIALIZED VIEW q10 AS
SELECT c.c_custkey, c.c_name, SUM(l.l_extendedprice * (1 - l.l_discount)) AS revenue, c.c_acctbal, n.n_name,
       c.c_address, c.c_phone, c.c_comment
FROM customer AS c
JOIN orders AS o ON o.o_custkey = c.c_custkey
JOIN lineitem AS l ON l.l_orderkey = o.o_orderkey
JOIN nation AS n ON n.n_nationkey = c.c_nationkey
WHERE o.o_orderdate >= DATE '1993-10-01' AND o.o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH
  AND l.l_returnflag = 'R'
GROUP BY c.c_custkey, c.c_name, c.c_acctbal, c.c_phone, n.n_name, c.c_address, c.c_comment
ORDER BY revenue DESC
LIMIT 20;
