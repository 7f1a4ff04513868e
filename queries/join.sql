-- An outer join that learns late: what was published with a NULL is taken back when the other side comes.
--
--     weir run queries/join.sql
--
-- A table without WITH is in memory, and its rows come from INSERT. With a primary key, inserting a key that is there
-- replaces its row.
CREATE TABLE customers (id INT, name VARCHAR, PRIMARY KEY (id) NOT ENFORCED);

CREATE TABLE orders (id INT, customer INT, amount INT, PRIMARY KEY (id) NOT ENFORCED);

CREATE MATERIALIZED VIEW invoices AS
SELECT o.id, COALESCE(c.name, '(unknown)') AS name, o.amount
FROM orders AS o
LEFT JOIN customers AS c ON o.customer = c.id;

-- A changelog sink keeps every change that was published to it. It has the columns declared here and three more: op
-- (+I in, -D out, and -U, +U for the two halves of an update of the key), at (when) and seq (in which order).
CREATE TABLE published (id INT, name VARCHAR, amount INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changelog');

-- INSERT into a sink is a job: it goes on for as long as the engine runs.
INSERT INTO published SELECT id, name, amount FROM invoices;

-- Two orders before anyone knows their customer.
INSERT INTO orders VALUES (1, 7, 50), (2, 8, 20);

-- Customer 7 is known now: an update of order 1. Nobody asked about customer 9.
INSERT INTO customers VALUES (7, 'Ann'), (9, 'Eve');

-- Several statements between BEGIN and COMMIT are one step: nobody sees Bob without order 3.
BEGIN;
INSERT INTO customers VALUES (8, 'Bob');
INSERT INTO orders VALUES (3, 8, 5);
COMMIT;

-- An upsert of one side, an update and a delete on the other.
INSERT INTO customers VALUES (7, 'Anna');
UPDATE orders SET amount = 55 WHERE id = 1;
DELETE FROM orders WHERE id = 2;

SELECT id, name, amount FROM invoices ORDER BY id;

SELECT op, id, name, amount FROM published ORDER BY seq;
