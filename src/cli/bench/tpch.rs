//! TPC-H: what is loaded, and the orders that come and go afterwards.
//!
//! Of every hundred orders one is left out of the load and comes later, and another one goes. A transaction is one that comes
//! and one that goes, each with its lines: the refresh functions of the benchmark, in the smallest steps.

use std::fmt::Display;
use std::iter::Peekable;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringArray};
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::distribution::Distributions;
use tpchgen::generators::*;
use tpchgen::text::TextPool;

use crate::error::Result;

/// The definitions of all tables.
pub const TABLES: &str = include_str!("../../../queries/tpch/tables.sql");

/// How many rows of a table are loaded at once, at most.
const PIECE: usize = 8192;
/// How many orders are loaded at once, with their lines.
const ORDERS: usize = 2048;

/// How often an order comes later, or goes.
const EVERY: usize = 100;
/// Which of so many comes later.
const COMES: usize = 0;
/// Which of so many goes.
const GOES: usize = 50;

/// What comments are cut from. The benchmark's own is 300 MiB.
static TEXTS: LazyLock<TextPool> = LazyLock::new(|| TextPool::new(1 << 20, distributions()));

fn distributions() -> &'static Distributions {
    Distributions::static_default()
}

/// Rows of one table.
#[derive(Debug, Clone)]
pub struct Rows {
    pub table: &'static str,
    pub rows: RecordBatch,
}

/// An order that comes and one that goes, with their lines.
#[derive(Debug, Clone)]
pub struct Transaction {
    pub comes: Vec<Rows>,
    pub goes: Vec<Rows>,
}

/// What is loaded, piece by piece: an order and its lines are in one.
pub fn load(scale: f64) -> impl Iterator<Item = Result<Vec<Rows>>> {
    let pool = LazyLock::force(&TEXTS);
    let regions = RegionGenerator::new_with_distributions_and_text_pool(distributions(), pool).iter();
    let nations = NationGenerator::new_with_distributions_and_text_pool(distributions(), pool).iter();
    let suppliers = SupplierGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions(), pool).iter();
    let parts = PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions(), pool).iter();
    let offers = PartSuppGenerator::new_with_text_pool(scale, 1, 1, pool).iter();
    let customers = CustomerGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions(), pool).iter();
    let loaded = Orders::new(scale).enumerate().filter(|(index, _)| index % EVERY != COMES).map(|(_, order)| order);
    pieces(regions, region)
        .chain(pieces(nations, nation))
        .chain(pieces(suppliers, supplier))
        .chain(pieces(parts, part))
        .chain(pieces(offers, partsupp))
        .chain(pieces(customers, customer))
        .chain(chunks(loaded, ORDERS).map(|orders| with_lines(&orders)))
}

/// What happens afterwards, one by one.
pub fn transactions(scale: f64) -> impl Iterator<Item = Result<Transaction>> {
    let moving = Orders::new(scale).enumerate().filter(|(index, _)| [COMES, GOES].contains(&(index % EVERY)));
    chunks(moving.map(|(_, order)| order), 2).filter(|pair| pair.len() == 2).map(|pair| {
        let (comes, goes) = pair.split_at(1);
        Ok(Transaction { comes: with_lines(comes)?, goes: with_lines(goes)? })
    })
}

/// Orders with their lines, in the order of their keys.
struct Orders {
    orders: OrderGeneratorIterator<'static>,
    lines: Peekable<LineItemGeneratorIterator<'static>>,
}

type WithLines = (Order<'static>, Vec<LineItem<'static>>);

impl Orders {
    fn new(scale: f64) -> Self {
        let pool = LazyLock::force(&TEXTS);
        let orders = OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions(), pool).iter();
        let lines = LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions(), pool).iter();
        Orders { orders, lines: lines.peekable() }
    }
}

impl Iterator for Orders {
    type Item = WithLines;

    fn next(&mut self) -> Option<WithLines> {
        let order = self.orders.next()?;
        let lines = std::iter::from_fn(|| self.lines.next_if(|line| line.l_orderkey == order.o_orderkey)).collect();
        Some((order, lines))
    }
}

/// The items in groups of so many; the last one may have fewer.
fn chunks<T>(mut items: impl Iterator<Item = T>, size: usize) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || Some(items.by_ref().take(size).collect::<Vec<T>>()).filter(|chunk| !chunk.is_empty()))
}

/// A table in pieces.
fn pieces<T>(rows: impl Iterator<Item = T>, table: fn(&[T]) -> Result<Rows>) -> impl Iterator<Item = Result<Vec<Rows>>> {
    chunks(rows, PIECE).map(move |rows| Ok(vec![table(&rows)?]))
}

fn with_lines(orders: &[WithLines]) -> Result<Vec<Rows>> {
    let lines: Vec<&LineItem> = orders.iter().flat_map(|(_, lines)| lines).collect();
    let orders: Vec<&Order> = orders.iter().map(|(order, _)| order).collect();
    Ok(vec![self::orders(&orders)?, lineitem(&lines)?])
}

type Columns<const N: usize> = [(&'static str, ArrayRef); N];

fn of<const N: usize>(table: &'static str, columns: Columns<N>) -> Result<Rows> {
    Ok(Rows { table, rows: RecordBatch::try_from_iter(columns)? })
}

fn numbers<T>(rows: &[T], of: impl Fn(&T) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<Int64Array>())
}

fn texts<T, S: Display>(rows: &[T], of: impl Fn(&T) -> S) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row).to_string())).collect::<StringArray>())
}

fn days<T>(rows: &[T], of: impl Fn(&T) -> TPCHDate) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row).to_unix_epoch())).collect::<Date32Array>())
}

/// DECIMAL(15, 2), as all decimals of the benchmark.
fn hundredths<T>(rows: &[T], of: impl Fn(&T) -> TPCHDecimal) -> ArrayRef {
    let values = rows.iter().map(|row| Some(i128::from(of(row).into_inner())));
    let decimals = values.collect::<Decimal128Array>().with_precision_and_scale(15, 2);
    Arc::new(decimals.expect("a DECIMAL may be DECIMAL(15, 2)"))
}

fn region(rows: &[Region]) -> Result<Rows> {
    of(
        "region",
        [
            ("r_regionkey", numbers(rows, |r| r.r_regionkey)),
            ("r_name", texts(rows, |r| r.r_name)),
            ("r_comment", texts(rows, |r| r.r_comment)),
        ],
    )
}

fn nation(rows: &[Nation]) -> Result<Rows> {
    of(
        "nation",
        [
            ("n_nationkey", numbers(rows, |r| r.n_nationkey)),
            ("n_name", texts(rows, |r| r.n_name)),
            ("n_regionkey", numbers(rows, |r| r.n_regionkey)),
            ("n_comment", texts(rows, |r| r.n_comment)),
        ],
    )
}

fn supplier(rows: &[Supplier]) -> Result<Rows> {
    of(
        "supplier",
        [
            ("s_suppkey", numbers(rows, |r| r.s_suppkey)),
            ("s_name", texts(rows, |r| r.s_name)),
            ("s_address", texts(rows, |r| r.s_address.to_string())),
            ("s_nationkey", numbers(rows, |r| r.s_nationkey)),
            ("s_phone", texts(rows, |r| r.s_phone.to_string())),
            ("s_acctbal", hundredths(rows, |r| r.s_acctbal)),
            ("s_comment", texts(rows, |r| r.s_comment.clone())),
        ],
    )
}

fn part(rows: &[Part]) -> Result<Rows> {
    of(
        "part",
        [
            ("p_partkey", numbers(rows, |r| r.p_partkey)),
            ("p_name", texts(rows, |r| r.p_name.to_string())),
            ("p_mfgr", texts(rows, |r| r.p_mfgr)),
            ("p_brand", texts(rows, |r| r.p_brand)),
            ("p_type", texts(rows, |r| r.p_type)),
            ("p_size", numbers(rows, |r| r.p_size.into())),
            ("p_container", texts(rows, |r| r.p_container)),
            ("p_retailprice", hundredths(rows, |r| r.p_retailprice)),
            ("p_comment", texts(rows, |r| r.p_comment)),
        ],
    )
}

fn partsupp(rows: &[PartSupp]) -> Result<Rows> {
    of(
        "partsupp",
        [
            ("ps_partkey", numbers(rows, |r| r.ps_partkey)),
            ("ps_suppkey", numbers(rows, |r| r.ps_suppkey)),
            ("ps_availqty", numbers(rows, |r| r.ps_availqty.into())),
            ("ps_supplycost", hundredths(rows, |r| r.ps_supplycost)),
            ("ps_comment", texts(rows, |r| r.ps_comment)),
        ],
    )
}

fn customer(rows: &[Customer]) -> Result<Rows> {
    of(
        "customer",
        [
            ("c_custkey", numbers(rows, |r| r.c_custkey)),
            ("c_name", texts(rows, |r| r.c_name)),
            ("c_address", texts(rows, |r| r.c_address.to_string())),
            ("c_nationkey", numbers(rows, |r| r.c_nationkey)),
            ("c_phone", texts(rows, |r| r.c_phone.to_string())),
            ("c_acctbal", hundredths(rows, |r| r.c_acctbal)),
            ("c_mktsegment", texts(rows, |r| r.c_mktsegment)),
            ("c_comment", texts(rows, |r| r.c_comment)),
        ],
    )
}

fn orders(rows: &[&Order]) -> Result<Rows> {
    of(
        "orders",
        [
            ("o_orderkey", numbers(rows, |r| r.o_orderkey)),
            ("o_custkey", numbers(rows, |r| r.o_custkey)),
            ("o_orderstatus", texts(rows, |r| r.o_orderstatus.as_str())),
            ("o_totalprice", hundredths(rows, |r| r.o_totalprice)),
            ("o_orderdate", days(rows, |r| r.o_orderdate)),
            ("o_orderpriority", texts(rows, |r| r.o_orderpriority)),
            ("o_clerk", texts(rows, |r| r.o_clerk)),
            ("o_shippriority", numbers(rows, |r| r.o_shippriority.into())),
            ("o_comment", texts(rows, |r| r.o_comment)),
        ],
    )
}

fn lineitem(rows: &[&LineItem]) -> Result<Rows> {
    of(
        "lineitem",
        [
            ("l_orderkey", numbers(rows, |r| r.l_orderkey)),
            ("l_partkey", numbers(rows, |r| r.l_partkey)),
            ("l_suppkey", numbers(rows, |r| r.l_suppkey)),
            ("l_linenumber", numbers(rows, |r| r.l_linenumber.into())),
            ("l_quantity", hundredths(rows, |r| TPCHDecimal::new(r.l_quantity * 100))),
            ("l_extendedprice", hundredths(rows, |r| r.l_extendedprice)),
            ("l_discount", hundredths(rows, |r| r.l_discount)),
            ("l_tax", hundredths(rows, |r| r.l_tax)),
            ("l_returnflag", texts(rows, |r| r.l_returnflag)),
            ("l_linestatus", texts(rows, |r| r.l_linestatus)),
            ("l_shipdate", days(rows, |r| r.l_shipdate)),
            ("l_commitdate", days(rows, |r| r.l_commitdate)),
            ("l_receiptdate", days(rows, |r| r.l_receiptdate)),
            ("l_shipinstruct", texts(rows, |r| r.l_shipinstruct)),
            ("l_shipmode", texts(rows, |r| r.l_shipmode)),
            ("l_comment", texts(rows, |r| r.l_comment)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn keys(rows: &[Rows], table: &str) -> Vec<i64> {
        let of_table = rows.iter().filter(|rows| rows.table == table);
        of_table.flat_map(|rows| rows.rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[test]
    fn of_a_hundred_orders_one_comes_after_the_load_and_one_of_the_load_goes_each_with_all_its_lines() {
        const SCALE: f64 = 0.001;
        let loaded: Vec<Rows> = load(SCALE).flat_map(|piece| piece.unwrap()).collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        loaded.iter().for_each(|rows| *counts.entry(rows.table).or_default() += rows.rows.num_rows());
        let expected = [("customer", 150), ("nation", 25), ("orders", 1485), ("part", 200), ("partsupp", 800), ("region", 5)];
        for (table, count) in expected {
            assert_eq!(counts[table], count, "{table}");
        }
        let mut there: BTreeMap<i64, usize> = BTreeMap::new();
        keys(&loaded, "lineitem").into_iter().for_each(|order| *there.entry(order).or_default() += 1);
        assert_eq!(there.keys().copied().collect::<Vec<_>>(), keys(&loaded, "orders"), "every order has lines");
        let moves: Vec<Transaction> = transactions(SCALE).map(|transaction| transaction.unwrap()).collect();
        assert_eq!(moves.len(), 15);
        for Transaction { comes, goes } in moves {
            let (new, old) = (keys(&comes, "orders"), keys(&goes, "orders"));
            assert!(!there.contains_key(&new[0]) && keys(&comes, "lineitem").iter().all(|order| *order == new[0]));
            assert_eq!(keys(&goes, "lineitem"), vec![old[0]; there[&old[0]]]);
        }
    }
}
