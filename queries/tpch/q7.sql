-- TPC-H q7, volume shipping.
-- What two nations shipped to each other in two years.
CREATE MATERIALIZED VIEW q7 AS
SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
FROM (SELECT sn.n_name AS supp_nation, cn.n_name AS cust_nation, EXTRACT(YEAR FROM l.l_shipdate) AS l_year,
             l.l_extendedprice * (1 - l.l_discount) AS volume
      FROM supplier AS s
      JOIN lineitem AS l ON l.l_suppkey = s.s_suppkey
      JOIN orders AS o ON o.o_orderkey = l.l_orderkey
      JOIN customer AS c ON c.c_custkey = o.o_custkey
      JOIN nation AS sn ON sn.n_nationkey = s.s_nationkey
      JOIN nation AS cn ON cn.n_nationkey = c.c_nationkey
      WHERE ((sn.n_name = 'FRANCE' AND cn.n_name = 'GERMANY') OR (sn.n_name = 'GERMANY' AND cn.n_name = 'FRANCE'))
        AND l.l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year;
