-- TPC-H q8, national market share.
-- What share of a region a nation had in the sales of one kind of part, in two years.
CREATE MATERIALIZED VIEW q8 AS
SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share
FROM (SELECT EXTRACT(YEAR FROM o.o_orderdate) AS o_year, l.l_extendedprice * (1 - l.l_discount) AS volume, sn.n_name AS nation
      FROM part AS p
      JOIN lineitem AS l ON l.l_partkey = p.p_partkey
      JOIN supplier AS s ON s.s_suppkey = l.l_suppkey
      JOIN orders AS o ON o.o_orderkey = l.l_orderkey
      JOIN customer AS c ON c.c_custkey = o.o_custkey
      JOIN nation AS cn ON cn.n_nationkey = c.c_nationkey
      JOIN region AS r ON r.r_regionkey = cn.n_regionkey
      JOIN nation AS sn ON sn.n_nationkey = s.s_nationkey
      WHERE r.r_name = 'AMERICA' AND o.o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p.p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
GROUP BY o_year;
