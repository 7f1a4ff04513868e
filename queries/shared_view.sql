-- A view that many read is computed once.
--
--     weir run queries/shared_view.sql
--
-- Two jobs ask for the same sums over the same view. Weir finds equal plans, wherever they stand, and runs one.
CREATE TABLE sales (fruit VARCHAR, number INT);

CREATE VIEW fresh AS SELECT fruit, number FROM sales WHERE number > 0;

CREATE TABLE first_copy (fruit VARCHAR, total BIGINT, PRIMARY KEY (fruit) NOT ENFORCED) WITH ('connector' = 'changelog');

CREATE TABLE second_copy (fruit VARCHAR, total BIGINT, PRIMARY KEY (fruit) NOT ENFORCED) WITH ('connector' = 'changelog');

-- The jobs of a statement set are built together.
EXECUTE STATEMENT SET BEGIN
INSERT INTO first_copy SELECT fruit, SUM(number) FROM fresh GROUP BY fruit;
INSERT INTO second_copy SELECT fruit, SUM(number) FROM fresh GROUP BY fruit;
END;

INSERT INTO sales VALUES ('apple', 3), ('pear', 1), ('apple', 2), ('fig', 0);

INSERT INTO sales VALUES ('pear', 4);

DELETE FROM sales WHERE fruit = 'apple' AND number = 3;

-- Both sinks were told the same.
SELECT op, fruit, total FROM first_copy ORDER BY seq;

SELECT op, fruit, total FROM second_copy ORDER BY seq;

-- All memory stands in weir_arrangements. The second job has none of its own; the sum it reads is the first one's.
SELECT COUNT(*) AS arrangements_of_the_second_copy FROM weir_arrangements WHERE view = 'second_copy';

SELECT MIN(readers) AS readers_of_the_sums FROM weir_arrangements WHERE view = 'first_copy' AND operator LIKE 'Reduce%';
