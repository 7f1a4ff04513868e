-- TPC-H q17, small-quantity-order revenue.
-- What would be lost in a year if small orders of a kind of part were no longer filled.
CREATE MATERIALIZED VIEW q17 AS
SELECT SUM(l.l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem AS l
JOIN part AS p ON p.p_partkey = l.l_partkey
WHERE p.p_brand = 'Brand#23' AND p.p_container = 'MED BOX'
  AND l.l_quantity < (SELECT 0.2 * AVG(other.l_quantity) FROM lineitem AS other WHERE other.l_partkey = p.p_partkey);
