-- TPC-H q22, global sales opportunity.
-- Customers of some countries who have more than the average on their account and no orders, by
-- country.
CREATE MATERIALIZED VIEW q22 AS
SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
FROM (SELECT SUBSTR(c.c_phone, 1, 2) AS cntrycode, c.c_acctbal
      FROM customer AS c
      WHERE SUBSTR(c.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c.c_acctbal > (SELECT AVG(rich.c_acctbal)
                           FROM customer AS rich
                           WHERE rich.c_acctbal > 0.00
                             AND SUBSTR(rich.c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        AND NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.o_custkey = c.c_custkey)) AS custsale
GROUP BY cntrycode;
