-- TPC-H q9, product type profit measure.
-- The profit with parts of a colour, by the supplier's nation and year.
CREATE MATERIALIZED VIEW q9 AS
SELECT nation, o_year, SUM(amount) AS sum_profit
FROM (SELECT n.n_name AS nation, EXTRACT(YEAR FROM o.o_orderdate) AS o_year,
             l.l_extendedprice * (1 - l.l_discount) - ps.ps_supplycost * l.l_quantity AS amount
      FROM part AS p
      JOIN lineitem AS l ON l.l_partkey = p.p_partkey
      JOIN supplier AS s ON s.s_suppkey = l.l_suppkey
      JOIN partsupp AS ps ON ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey
      JOIN orders AS o ON o.o_orderkey = l.l_orderkey
      JOIN nation AS n ON n.n_nationkey = s.s_nationkey
      WHERE p.p_name LIKE '%green%') AS profit
GROUP BY nation, o_year;
