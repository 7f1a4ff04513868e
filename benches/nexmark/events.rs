//! The events, as Arrow columns and as typed tuples, a tick at a time.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use weir::connector::{Read, TableSpec, open_source};

/// How many events are a tick, of all kinds.
pub const TICK: usize = 20_000;

/// Of fifty events, how many are of which kind, in the order of the tables.
const OF_FIFTY: [usize; 3] = [46, 3, 1];

/// The rows of a result and how often each is there.
pub type Multiset = HashMap<String, i64>;

/// auction, bidder, price, channel, url, date_time, extra
pub type Bid = (u64, u64, u64, String, String, i64, String);
/// id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra
pub type Auction = (u64, String, String, u64, u64, i64, i64, u64, u64, String);
/// id, name, email_address, credit_card, city, state, date_time, extra
pub type Person = (u64, String, String, String, String, String, i64, String);

/// See the module.
pub struct Events {
    pub bids: Vec<Vec<Bid>>,
    pub auctions: Vec<Vec<Auction>>,
    pub people: Vec<Vec<Person>>,
    /// By table, by tick.
    pub columns: Vec<Vec<RecordBatch>>,
}

/// The tables, as the pages declare them.
pub fn tables() -> Vec<(&'static str, SchemaRef)> {
    let table = |columns: &str| {
        let field = |name: &str| {
            let data_type = match name {
                "date_time" | "expires" => DataType::Timestamp(TimeUnit::Millisecond, None),
                "id" | "auction" | "bidder" | "price" | "initial_bid" | "reserve" | "seller" | "category" => DataType::Int64,
                _ => DataType::Utf8,
            };
            Field::new(name, data_type, true)
        };
        Arc::new(Schema::new(columns.split(' ').map(field).collect::<Vec<_>>()))
    };
    vec![
        ("bid", table("auction bidder price channel url date_time extra")),
        ("auction", table("id item_name description initial_bid reserve date_time expires seller category extra")),
        ("person", table("id name email_address credit_card city state date_time extra")),
    ]
}

impl Events {
    /// The first so many events, up to a whole number of ticks.
    pub fn new(count: usize) -> Self {
        let ticks = count.div_ceil(TICK);
        let columns: Vec<Vec<RecordBatch>> = tables()
            .into_iter()
            .zip(OF_FIFTY)
            .map(|((name, schema), of_fifty)| {
                let (rows, a_tick) = (read(name, schema, ticks * TICK), TICK / 50 * of_fifty);
                (0..ticks).map(|tick| rows.slice(tick * a_tick, a_tick)).collect()
            })
            .collect();
        Events {
            bids: columns[0].iter().map(bids).collect(),
            auctions: columns[1].iter().map(auctions).collect(),
            people: columns[2].iter().map(people).collect(),
            columns,
        }
    }

    pub fn ticks(&self) -> usize {
        self.bids.len()
    }

    /// Events of all kinds.
    pub fn len(&self) -> usize {
        self.ticks() * TICK
    }
}

/// The events of one kind among so many.
fn read(table: &str, schema: SchemaRef, events: usize) -> RecordBatch {
    let options = [("connector", "nexmark"), ("table", table), ("events", &events.to_string()), ("event-rate", "200")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let spec = TableSpec { name: table.into(), schema: schema.clone(), primary_key: vec![], options, base: ".".into() };
    let mut source = open_source(&spec, None).expect("nexmark's events can be read");
    let mut batches = Vec::new();
    loop {
        match source.read().expect("nexmark's events can be read") {
            Read::Batch(batch) => batches.push(batch.rows),
            Read::Idle => {}
            Read::End => return concat_batches(&schema, &batches).expect("batches of one schema"),
        }
    }
}

fn number(rows: &RecordBatch, column: usize, row: usize) -> u64 {
    rows.column(column).as_primitive::<Int64Type>().value(row) as u64
}

fn time(rows: &RecordBatch, column: usize, row: usize) -> i64 {
    rows.column(column).as_primitive::<TimestampMillisecondType>().value(row)
}

fn text(rows: &RecordBatch, column: usize, row: usize) -> String {
    rows.column(column).as_string::<i32>().value(row).to_owned()
}

fn bids(rows: &RecordBatch) -> Vec<Bid> {
    let (n, s, t) = (|c, i| number(rows, c, i), |c, i| text(rows, c, i), |c, i| time(rows, c, i));
    (0..rows.num_rows()).map(|i| (n(0, i), n(1, i), n(2, i), s(3, i), s(4, i), t(5, i), s(6, i))).collect()
}

fn auctions(rows: &RecordBatch) -> Vec<Auction> {
    let (n, s, t) = (|c, i| number(rows, c, i), |c, i| text(rows, c, i), |c, i| time(rows, c, i));
    let row = |i| (n(0, i), s(1, i), s(2, i), n(3, i), n(4, i), t(5, i), t(6, i), n(7, i), n(8, i), s(9, i));
    (0..rows.num_rows()).map(row).collect()
}

fn people(rows: &RecordBatch) -> Vec<Person> {
    let (n, s, t) = (|c, i| number(rows, c, i), |c, i| text(rows, c, i), |c, i| time(rows, c, i));
    (0..rows.num_rows()).map(|i| (n(0, i), s(1, i), s(2, i), s(3, i), s(4, i), s(5, i), t(6, i), s(7, i))).collect()
}
