-- TPC-H q20, potential part promotion.
-- The suppliers of a nation with more of some part than half of what they shipped of it in a year.
CREATE MATERIALIZED VIEW q20 AS
SELECT s.s_name, s.s_address
FROM supplier AS s
JOIN nation AS n ON n.n_nationkey = s.s_nationkey
WHERE n.n_name = 'CANADA'
  AND s.s_suppkey IN (SELECT ps.ps_suppkey
                      FROM partsupp AS ps
                      WHERE ps.ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
                        AND ps.ps_availqty > (SELECT 0.5 * SUM(l.l_quantity)
                                              FROM lineitem AS l
                                              WHERE l.l_partkey = ps.ps_partkey AND l.l_suppkey = ps.ps_suppkey
                                                AND l.l_shipdate >= DATE '1994-01-01'
                                                AND l.l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR));
