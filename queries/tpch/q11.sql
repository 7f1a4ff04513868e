-- TPC-H q11, important stock identification.
-- The parts that are a notable share of the stock of a nation. The share is that of scale 1; at scale
-- s it is 0.0001 / s.
CREATE MATERIALIZED VIEW q11 AS
SELECT ps.ps_partkey, SUM(ps.ps_supplycost * ps.ps_availqty) AS stock
FROM partsupp AS ps
JOIN supplier AS s ON s.s_suppkey = ps.ps_suppkey
JOIN nation AS n ON n.n_nationkey = s.s_nationkey
WHERE n.n_name = 'GERMANY'
GROUP BY ps.ps_partkey
HAVING SUM(ps.ps_supplycost * ps.ps_availqty) > (SELECT SUM(ps.ps_supplycost * ps.ps_availqty) * 0.0001
                                                 FROM partsupp AS ps
                                                 JOIN supplier AS s ON s.s_suppkey = ps.ps_suppkey
                                                 JOIN nation AS n ON n.n_nationkey = s.s_nationkey
                                                 WHERE n.n_name = 'GERMANY');
