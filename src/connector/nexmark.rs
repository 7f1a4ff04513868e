//! The event stream of the Nexmark benchmark, from the `nexmark` crate: the same events every time.
//!
//! Of every 50 events one is a person, three are auctions and 46 are bids. A table has either the shape of the benchmark's
//! Flink DDL (`event_type INT, person ROW<...>, auction ROW<...>, bid ROW<...>`), or the fields of one kind of event as its
//! columns. Columns are found by the published names, whatever their case and underscores: `dateTime` is `date_time`.
//!
//! The crate computes event times in 32-bit floats, which stand still now and then after some millions of events; here
//! they are recomputed in whole milliseconds from the event's number, and an auction's `expires` is moved with them.
//!
//! What is drawn for an event follows from its number in an unending stream, so another seed is another [`Stretch`] of that
//! stream. It is told as if it were the beginning: people and auctions are numbered from 1000 on, whatever the seed.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use nexmark::EventGenerator;
use nexmark::config::NexmarkConfig;
use nexmark::event::{Auction, Bid, Event, EventType, Person};

use super::format::parse;
use super::options::Options;
use super::pace::{BATCH, Pace};
use super::{Position, Read, Source, SourceBatch};
use crate::error::{Error, Result};
use crate::text::a_type_name;

/// How one field is read off its event.
enum Value<E> {
    Number(fn(&E) -> usize),
    Text(fn(&E) -> &str),
    /// Milliseconds since the epoch.
    Time(fn(&E) -> u64),
}

/// The published fields of one kind of event.
type Published<E> = &'static [(&'static str, Value<E>)];

const PERSON: Published<Person> = &[
    ("id", Value::Number(|e| e.id)),
    ("name", Value::Text(|e| &e.name)),
    ("emailAddress", Value::Text(|e| &e.email_address)),
    ("creditCard", Value::Text(|e| &e.credit_card)),
    ("city", Value::Text(|e| &e.city)),
    ("state", Value::Text(|e| &e.state)),
    ("dateTime", Value::Time(|e| e.date_time)),
    ("extra", Value::Text(|e| &e.extra)),
];

const AUCTION: Published<Auction> = &[
    ("id", Value::Number(|e| e.id)),
    ("itemName", Value::Text(|e| &e.item_name)),
    ("description", Value::Text(|e| &e.description)),
    ("initialBid", Value::Number(|e| e.initial_bid)),
    ("reserve", Value::Number(|e| e.reserve)),
    ("dateTime", Value::Time(|e| e.date_time)),
    ("expires", Value::Time(|e| e.expires)),
    ("seller", Value::Number(|e| e.seller)),
    ("category", Value::Number(|e| e.category)),
    ("extra", Value::Text(|e| &e.extra)),
];

const BID: Published<Bid> = &[
    ("auction", Value::Number(|e| e.auction)),
    ("bidder", Value::Number(|e| e.bidder)),
    ("price", Value::Number(|e| e.price)),
    ("channel", Value::Text(|e| &e.channel)),
    ("url", Value::Text(|e| &e.url)),
    ("dateTime", Value::Time(|e| e.date_time)),
    ("extra", Value::Text(|e| &e.extra)),
];

const KINDS: &[&str] = &["person", "auction", "bid"];

/// Generates events.
pub(super) struct Nexmark {
    schema: SchemaRef,
    columns: Vec<Shape>,
    events: EventGenerator,
    /// How many events there are, of all kinds.
    limit: Option<u64>,
    /// How many events a batch has at most.
    batch: usize,
    pace: Pace,
    base_time: u64,
    event_rate: u64,
    stretch: Stretch,
}

/// Where in the benchmark's unending stream the events are from.
struct Stretch {
    /// How many people and auctions came before it.
    people: usize,
    auctions: usize,
}

/// What a column of the table is.
enum Shape {
    EventType(DataType),
    Person(Part<Person>),
    Auction(Part<Auction>),
    Bid(Part<Bid>),
}

/// What a column takes from one kind of event.
enum Part<E: 'static> {
    Field(&'static Value<E>, DataType),
    Struct(Fields, Vec<(&'static Value<E>, DataType)>),
}

impl Nexmark {
    pub fn new(options: &Options) -> Result<Self> {
        let kind = options.get("table").map(|_| options.choice("table", KINDS)).transpose()?;
        let fields = options.spec.schema.fields();
        let columns = match kind {
            Some(0) => fields.iter().map(|f| Part::field("person", PERSON, f).map(Shape::Person)).collect::<Result<_>>()?,
            Some(1) => fields.iter().map(|f| Part::field("auction", AUCTION, f).map(Shape::Auction)).collect::<Result<_>>()?,
            Some(_) => fields.iter().map(|f| Part::field("bid", BID, f).map(Shape::Bid)).collect::<Result<_>>()?,
            None => fields.iter().map(Shape::of_event).collect::<Result<_>>()?,
        };
        let event_rate = match options.number("event-rate", "a number of events from 1 to 1000000000")? {
            Some(rate @ 1..=1_000_000_000) => rate,
            _ => return Err(options.wrong("event-rate", "a number of events from 1 to 1000000000")),
        };
        let base_time = parse::timestamp(options.require("base-time")?, TimeUnit::Millisecond).and_then(|time| u64::try_from(time).ok());
        let base_time = base_time.ok_or_else(|| options.wrong("base-time", "a timestamp since 1970"))?;
        let rate = event_rate as usize;
        let (stretch, first_event_id) = Stretch::of(options.number("seed", "a number, 0 or more")?.unwrap_or_default());
        let paced = NexmarkConfig { base_time, first_rate: rate, next_rate: rate, ..NexmarkConfig::default() };
        let events = EventGenerator::new(NexmarkConfig { first_event_id, ..paced });
        Ok(Nexmark {
            schema: options.spec.schema.clone(),
            columns,
            events: match kind {
                Some(0) => events.with_type_filter(EventType::Person),
                Some(1) => events.with_type_filter(EventType::Auction),
                Some(_) => events.with_type_filter(EventType::Bid),
                None => events,
            },
            limit: options.number("events", "a number of events")?,
            batch: BATCH,
            pace: Pace::new(options.number("rate", "a number of events")?.unwrap_or_default()),
            base_time,
            event_rate,
            stretch,
        })
    }

    /// The events behind the first `done` of the table's kind, in batches of at most so many.
    pub fn behind(self, done: u64, batch: usize) -> Self {
        Nexmark { events: self.events.with_offset(done), batch, ..self }
    }

    /// The next event, its time recomputed and its ids those of the stretch.
    fn next_event(&mut self) -> Option<Event> {
        let number = self.events.global_offset();
        let time = self.base_time + (u128::from(number) * 1000 / u128::from(self.event_rate)) as u64;
        let mut event = self.events.next()?;
        match &mut event {
            Event::Person(person) => person.date_time = time,
            Event::Auction(auction) => {
                auction.expires = time + auction.expires.saturating_sub(auction.date_time);
                auction.date_time = time;
            }
            Event::Bid(bid) => bid.date_time = time,
        }
        self.stretch.begin_at_its_first(&mut event, number as usize);
        Some(event)
    }
}

/// The first number of a person and of an auction.
const FIRST_ID: usize = 1000;
/// Events come in rounds of one person, three auctions and 46 bids.
const ROUND: usize = 50;
const AUCTIONS_A_ROUND: usize = 3;

impl Stretch {
    /// The stretch of a seed, and the number of its first event. That of seed 0 is the beginning.
    fn of(seed: u64) -> (Self, usize) {
        // Every hundredth person and auction is one that most events are about, so a stretch begins with such a one.
        const ROUNDS: usize = 100;
        // Spread over the numbers below 2^50 (Fibonacci hashing), which leaves the first event's number below 2^63.
        let spread = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 14) as usize;
        let rounds = spread * ROUNDS;
        (Stretch { people: rounds, auctions: rounds * AUCTIONS_A_ROUND }, rounds * ROUND)
    }

    /// Renumbers the people and auctions of the stretch's event with that number.
    fn begin_at_its_first(&self, event: &mut Event, number: usize) {
        let (people, auctions) = (number / ROUND + 1, (number / ROUND + 1) * AUCTIONS_A_ROUND);
        match event {
            Event::Person(person) => person.id -= self.people,
            Event::Auction(auction) => {
                auction.id -= self.auctions;
                auction.seller = renumbered(auction.seller, self.people, people);
            }
            Event::Bid(bid) => {
                bid.auction = renumbered(bid.auction, self.auctions, auctions);
                bid.bidder = renumbered(bid.bidder, self.people, people);
            }
        }
    }
}

/// A number without those `before` the stretch; one of before it becomes one of the `come` that have come in it.
fn renumbered(id: usize, before: usize, come: usize) -> usize {
    let first = FIRST_ID + before;
    if id >= first { id - before } else { FIRST_ID + (first - id) % come }
}

impl Source for Nexmark {
    fn read(&mut self) -> Result<Read> {
        let limit = self.limit.unwrap_or(u64::MAX);
        if self.events.global_offset() >= limit {
            return Ok(Read::End);
        }
        let reached = self.events.global_offset();
        let end = reached.saturating_add(self.pace.due(reached)).min(limit);
        let mut events = Vec::new();
        while events.len() < self.batch && self.events.global_offset() < end {
            events.extend(self.next_event());
        }
        if events.is_empty() {
            return Ok(Read::Idle);
        }
        let columns = self.columns.iter().map(|column| column.values(&events)).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(events.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Read::Batch(SourceBatch { rows, ops: None, errors: Vec::new() }))
    }

    fn position(&self) -> Position {
        Position::Made(self.events.offset())
    }

    fn is_bounded(&self) -> bool {
        self.limit.is_some()
    }
}

impl Shape {
    /// A column of a table of all events.
    fn of_event(field: &FieldRef) -> Result<Self> {
        match plain(field.name()).as_str() {
            "eventtype" if field.data_type().is_integer() => Ok(Shape::EventType(field.data_type().clone())),
            "eventtype" => Err(wrong_type("event", field.name(), "INT", field.data_type())),
            "person" => Part::of_struct("person", PERSON, field).map(Shape::Person),
            "auction" => Part::of_struct("auction", AUCTION, field).map(Shape::Auction),
            "bid" => Part::of_struct("bid", BID, field).map(Shape::Bid),
            _ => {
                let names = ["event_type"].into_iter().chain(KINDS.iter().copied());
                Err(Error::unknown("column of nexmark's events (one kind's columns come with the option 'table')", field.name(), names))
            }
        }
    }

    fn values(&self, events: &[Event]) -> Result<ArrayRef> {
        match self {
            Shape::EventType(data_type) => {
                let kinds: Int32Array = events.iter().map(|event| Some(event.event_type() as i32)).collect();
                Ok(cast(&kinds, data_type)?)
            }
            Shape::Person(part) => part.values(events, |event| if let Event::Person(person) = event { Some(person) } else { None }),
            Shape::Auction(part) => part.values(events, |event| if let Event::Auction(auction) = event { Some(auction) } else { None }),
            Shape::Bid(part) => part.values(events, |event| if let Event::Bid(bid) = event { Some(bid) } else { None }),
        }
    }
}

impl<E> Part<E> {
    /// The event's field that a column is for.
    fn field(kind: &'static str, published: Published<E>, field: &FieldRef) -> Result<Self> {
        find(kind, published, field).map(|(value, data_type)| Part::Field(value, data_type))
    }

    /// The event's fields that a ROW column is for.
    fn of_struct(kind: &'static str, published: Published<E>, field: &FieldRef) -> Result<Self> {
        match field.data_type() {
            DataType::Struct(_) if !field.is_nullable() => {
                Err(Error::invalid(format!("column '{}' of nexmark's events cannot be NOT NULL: every event is of one kind", field.name())))
            }
            DataType::Struct(fields) => {
                let parts = fields.iter().map(|field| find(kind, published, field)).collect::<Result<_>>()?;
                Ok(Part::Struct(fields.clone(), parts))
            }
            other => Err(wrong_type("event", field.name(), "ROW", other)),
        }
    }

    fn values(&self, events: &[Event], of_kind: impl Fn(&Event) -> Option<&E>) -> Result<ArrayRef> {
        let events: Vec<Option<&E>> = events.iter().map(of_kind).collect();
        match self {
            Part::Field(value, data_type) => value.array(&events, data_type),
            Part::Struct(fields, parts) => {
                let columns = parts.iter().map(|(value, data_type)| value.array(&events, data_type)).collect::<Result<_>>()?;
                let valid = events.iter().map(Option::is_some).collect::<Vec<_>>();
                Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid.into()))?))
            }
        }
    }
}

impl<E> Value<E> {
    fn array(&self, events: &[Option<&E>], data_type: &DataType) -> Result<ArrayRef> {
        match self {
            Value::Number(get) => {
                let values: Int64Array = events.iter().map(|event| event.map(|event| get(event) as i64)).collect();
                Ok(cast(&values, data_type)?)
            }
            Value::Text(get) => Ok(Arc::new(events.iter().map(|event| event.map(get)).collect::<StringArray>())),
            Value::Time(get) => {
                let values: TimestampMillisecondArray = events.iter().map(|event| event.map(|event| get(event) as i64)).collect();
                // A zone is put on without moving the instant, so it cannot be left to the cast.
                match data_type {
                    DataType::Timestamp(unit, Some(zone)) => {
                        let in_unit = cast(&values, &DataType::Timestamp(*unit, None))?;
                        let data = in_unit.to_data().into_builder().data_type(DataType::Timestamp(*unit, Some(zone.clone()))).build()?;
                        Ok(make_array(data))
                    }
                    _ => Ok(cast(&values, data_type)?),
                }
            }
        }
    }

    /// Whether a column of this type can hold the field, and what SQL calls the type it best has.
    fn fits(&self, data_type: &DataType) -> Result<(), &'static str> {
        match self {
            Value::Number(_) if matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Int32 | DataType::UInt32) => Ok(()),
            Value::Number(_) => Err("BIGINT"),
            Value::Text(_) if data_type == &DataType::Utf8 => Ok(()),
            Value::Text(_) => Err("VARCHAR"),
            Value::Time(_) if matches!(data_type, DataType::Timestamp(..)) => Ok(()),
            Value::Time(_) => Err("TIMESTAMP(3)"),
        }
    }
}

fn find<E>(kind: &'static str, published: Published<E>, field: &FieldRef) -> Result<(&'static Value<E>, DataType)> {
    let name = plain(field.name());
    let Some((_, value)) = published.iter().find(|(published, _)| plain(published) == name) else {
        let kind = match kind {
            "person" => "field of nexmark's person",
            "auction" => "field of nexmark's auction",
            _ => "field of nexmark's bid",
        };
        return Err(Error::unknown(kind, field.name(), published.iter().map(|(name, _)| *name)));
    };
    value.fits(field.data_type()).map_err(|is| wrong_type(kind, field.name(), is, field.data_type()))?;
    Ok((value, field.data_type().clone()))
}

fn wrong_type(kind: &str, name: &str, is: &str, declared: &DataType) -> Error {
    Error::invalid(format!("'{name}' of nexmark's {kind} is a {is}, not {}", a_type_name(declared)))
}

/// A name without case and underscores.
fn plain(name: &str) -> String {
    name.chars().filter(|&character| character != '_').flat_map(char::to_lowercase).collect()
}
