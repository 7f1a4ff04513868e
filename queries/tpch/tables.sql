-- The tables of TPC-H. In memory, so that orders come and go while the queries are kept up to date:
--
--     cat queries/tpch/tables.sql queries/tpch/q3.sql | weir explain -
--     weir bench tpch
CREATE TABLE region (
  r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR, PRIMARY KEY (r_regionkey) NOT ENFORCED
);

CREATE TABLE nation (
  n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR, PRIMARY KEY (n_nationkey) NOT ENFORCED
);

CREATE TABLE supplier (
  s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR, s_acctbal DECIMAL(15, 2),
  s_comment VARCHAR, PRIMARY KEY (s_suppkey) NOT ENFORCED
);

CREATE TABLE part (
  p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size INT, p_container VARCHAR,
  p_retailprice DECIMAL(15, 2), p_comment VARCHAR, PRIMARY KEY (p_partkey) NOT ENFORCED
);

CREATE TABLE partsupp (
  ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15, 2), ps_comment VARCHAR,
  PRIMARY KEY (ps_partkey, ps_suppkey) NOT ENFORCED
);

CREATE TABLE customer (
  c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR, c_acctbal DECIMAL(15, 2),
  c_mktsegment VARCHAR, c_comment VARCHAR, PRIMARY KEY (c_custkey) NOT ENFORCED
);

CREATE TABLE orders (
  o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15, 2), o_orderdate DATE,
  o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INT, o_comment VARCHAR,
  PRIMARY KEY (o_orderkey) NOT ENFORCED
);

CREATE TABLE lineitem (
  l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15, 2),
  l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag VARCHAR,
  l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR,
  l_shipmode VARCHAR, l_comment VARCHAR, PRIMARY KEY (l_orderkey, l_linenumber) NOT ENFORCED
);
