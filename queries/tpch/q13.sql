-- TPC-H q13, customer distribution.
-- How many customers have how many orders, special requests left out.
CREATE MATERIALIZED VIEW q13 AS
SELECT c_count, COUNT(*) AS custdist
FROM (SELECT c.c_custkey, COUNT(o.o_orderkey) AS c_count
      FROM customer AS c
      LEFT JOIN orders AS o ON o.o_custkey = c.c_custkey AND o.o_comment NOT LIKE '%special%requests%'
      GROUP BY c.c_custkey) AS c_orders
GROUP BY c_count;
