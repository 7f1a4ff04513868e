-- TPC-H q2, minimum cost supplier.
-- Of each part of a kind, the suppliers of a region that sell it cheapest there.
CREATE MATERIALIZED VIEW q2 AS
SELECT s.s_acctbal, s.s_name, n.n_name, p.p_partkey, p.p_mfgr, s.s_address, s.s_phone, s.s_comment
FROM part AS p
JOIN partsupp AS ps ON ps.ps_partkey = p.p_partkey
JOIN supplier AS s ON s.s_suppkey = ps.ps_suppkey
JOIN nation AS n ON n.n_nationkey = s.s_nationkey
JOIN region AS r ON r.r_regionkey = n.n_regionkey
WHERE p.p_size = 15 AND p.p_type LIKE '%BRASS' AND r.r_name = 'EUROPE'
  AND ps.ps_supplycost = (SELECT MIN(other.ps_supplycost)
                          FROM partsupp AS other
                          JOIN supplier AS os ON os.s_suppkey = other.ps_suppkey
                          JOIN nation AS onat ON onat.n_nationkey = os.s_nationkey
                          JOIN region AS oreg ON oreg.r_regionkey = onat.n_regionkey
                          WHERE other.ps_partkey = p.p_partkey AND oreg.r_name = 'EUROPE')
ORDER BY s.s_acctbal DESC, n.n_name, s.s_name, p.p_partkey
LIMIT 100;
