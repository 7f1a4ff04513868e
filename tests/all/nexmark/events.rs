//! The events of the benchmark, straight from its generator: in SQLite, and as lines of JSON in any order.

use nexmark::EventGenerator;
use nexmark::config::NexmarkConfig;
use nexmark::event::Event;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rusqlite::{Connection, params};
use serde_json::{Value as Json, json};
use weir::text::instant;

/// How many events there are in a second of event time, as the queries say it.
const RATE: usize = 200;
/// What the queries' watermarks allow, in milliseconds.
const BOUND: u64 = 4000;

/// The first `count` events from `base_time` on, in the order of their times.
pub fn events(base_time: i64, count: usize) -> Vec<Event> {
    let base_time = u64::try_from(base_time).expect("the queries begin after 1970");
    let config = NexmarkConfig { base_time, first_rate: RATE, next_rate: RATE, ..NexmarkConfig::default() };
    EventGenerator::new(config).take(count).collect()
}

/// The events in another order, in which none comes after one that is later by more than the watermark allows.
pub fn shuffled<'a>(events: &'a [Event], rng: &mut StdRng) -> Vec<&'a Event> {
    let mut keyed: Vec<(u64, &Event)> = events.iter().map(|event| (event.timestamp() + rng.random_range(0..=BOUND), event)).collect();
    keyed.shuffle(rng);
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, event)| event).collect()
}

/// An event as a line of JSON.
pub fn line(event: &Event) -> String {
    let time = |ms: u64| instant(i64::try_from(ms).expect("a time of this era"));
    let (kind, name, fields): (i32, &str, Json) = match event {
        Event::Person(p) => {
            let fields = json!({
                "id": p.id, "name": p.name, "email_address": p.email_address, "credit_card": p.credit_card, "city": p.city,
                "state": p.state, "date_time": time(p.date_time), "extra": p.extra,
            });
            (0, "person", fields)
        }
        Event::Auction(a) => {
            let fields = json!({
                "id": a.id, "item_name": a.item_name, "description": a.description, "initial_bid": a.initial_bid, "reserve": a.reserve,
                "date_time": time(a.date_time), "expires": time(a.expires), "seller": a.seller, "category": a.category, "extra": a.extra,
            });
            (1, "auction", fields)
        }
        Event::Bid(b) => {
            let fields = json!({
                "auction": b.auction, "bidder": b.bidder, "price": b.price, "channel": b.channel, "url": b.url,
                "date_time": time(b.date_time), "extra": b.extra,
            });
            (2, "bid", fields)
        }
    };
    json!({ "event_type": kind, name: fields }).to_string() + "\n"
}

const TABLES: &str = "
    CREATE TABLE person (id INTEGER, name TEXT, email_address TEXT, credit_card TEXT, city TEXT, state TEXT, date_time INTEGER, extra TEXT);
    CREATE TABLE auction (id INTEGER, item_name TEXT, description TEXT, initial_bid INTEGER, reserve INTEGER, date_time INTEGER,
                          expires INTEGER, seller INTEGER, category INTEGER, extra TEXT);
    CREATE TABLE bid (auction INTEGER, bidder INTEGER, price INTEGER, channel TEXT, url TEXT, date_time INTEGER, extra TEXT);
    CREATE INDEX by_price ON bid (auction, price);
    CREATE INDEX by_bidder ON bid (bidder, auction, date_time);
    CREATE INDEX by_seller ON auction (seller);";

/// SQLite with the events in it.
pub fn in_sqlite(events: &[Event]) -> Connection {
    let mut sqlite = Connection::open_in_memory().expect("SQLite opens a database in memory");
    sqlite.execute_batch(TABLES).expect("SQLite makes tables");
    let filling = sqlite.transaction().expect("SQLite begins");
    for event in events {
        insert(&filling, event).expect("SQLite takes an event");
    }
    filling.commit().expect("SQLite commits");
    sqlite
}

fn insert(sqlite: &Connection, event: &Event) -> rusqlite::Result<usize> {
    match event {
        Event::Person(p) => sqlite.prepare_cached("INSERT INTO person VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
            p.id as i64,
            p.name,
            p.email_address,
            p.credit_card,
            p.city,
            p.state,
            p.date_time as i64,
            p.extra
        ]),
        Event::Auction(a) => sqlite.prepare_cached("INSERT INTO auction VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
            a.id as i64,
            a.item_name,
            a.description,
            a.initial_bid as i64,
            a.reserve as i64,
            a.date_time as i64,
            a.expires as i64,
            a.seller as i64,
            a.category as i64,
            a.extra
        ]),
        Event::Bid(b) => sqlite.prepare_cached("INSERT INTO bid VALUES (?, ?, ?, ?, ?, ?, ?)")?.execute(params![
            b.auction as i64,
            b.bidder as i64,
            b.price as i64,
            b.channel,
            b.url,
            b.date_time as i64,
            b.extra
        ]),
    }
}
