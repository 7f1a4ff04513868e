-- TPC-H q5, local supplier volume.
-- The revenue of a year, by nation of a region, where customer and supplier are of the same nation.
CREATE MATERIALIZED VIEW q5 AS
SELECT n.n_name, SUM(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM customer AS c
JOIN orders AS o ON o.o_custkey = c.c_custkey
JOIN lineitem AS l ON l.l_orderkey = o.o_orderkey
JOIN supplier AS s ON s.s_suppkey = l.l_suppkey AND s.s_nationkey = c.c_nationkey
JOIN nation AS n ON n.n_nationkey = s.s_nationkey
JOIN region AS r ON r.r_regionkey = n.n_regionkey
WHERE r.r_name = 'ASIA' AND o.o_orderdate >= DATE '1994-01-01' AND o.o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n.n_name;
