-- TPC-H q6, forecasting revenue change.
-- What the discounts of about 6 % on small quantities have cost in a year.
CREATE MATERIALIZED VIEW q6 AS
SELECT SUM(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24;
