-- TPC-H q14, promotion effect.
-- What share of a month's revenue came from parts in promotion.
CREATE MATERIALIZED VIEW q14 AS
SELECT 100.00 * SUM(CASE WHEN p.p_type LIKE 'PROMO%' THEN l.l_extendedprice * (1 - l.l_discount) ELSE 0 END)
         / SUM(l.l_extendedprice * (1 - l.l_discount)) AS promo_revenue
FROM lineitem AS l
JOIN part AS p ON p.p_partkey = l.l_partkey
WHERE l.l_shipdate >= DATE '1995-09-01' AND l.l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH;
