//! The sources that make rows up.

use std::collections::HashSet;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};

use super::*;

fn generate(columns: &[&str], options: &[&str]) -> Everything {
    read(&spec(&Folder::new(), columns, options))
}

const FAST: &[&str] = &["connector=datagen", "rows-per-second=0"];

fn datagen(columns: &[&str], options: &[&str]) -> Everything {
    generate(columns, &[FAST, options].concat())
}

#[test]
fn a_sequence_counts_from_its_start_and_ends_the_source() {
    let kinds =
        ["fields.n.kind=sequence", "fields.n.start=5", "fields.n.end=7", "fields.s.kind=sequence", "fields.s.start=-1", "fields.s.end=9"];
    assert_eq!(datagen(&["n BIGINT", "s VARCHAR"], &kinds).lines(), ["5|-1", "6|0", "7|1"]);
    let decimals = ["fields.n.kind=sequence", "fields.n.start=1.5", "fields.n.end=3.6"];
    assert_eq!(datagen(&["n DECIMAL(10, 2)"], &decimals).lines(), ["1.50", "2.50", "3.50"]);
}

#[test]
fn a_sequence_needs_no_end_where_something_else_ends_the_source() {
    let kinds = ["fields.n.kind=sequence", "fields.n.start=5"];
    assert_eq!(datagen(&["n BIGINT"], &[&kinds[..], &["number-of-rows=3"]].concat()).lines(), ["5", "6", "7"]);
    let other = ["fields.s.kind=sequence", "fields.s.start=1", "fields.s.end=2"];
    assert_eq!(datagen(&["n BIGINT", "s VARCHAR"], &[&kinds[..], &other].concat()).lines(), ["5|1", "6|2"]);
    let last = ["fields.n.kind=sequence", "fields.n.start=126", "number-of-rows=2"];
    assert_eq!(datagen(&["n TINYINT"], &last).lines(), ["126", "127"]);
    let error = |columns: &[&str], options: &[&str]| refusal(&spec(&Folder::new(), columns, &[FAST, options].concat()));
    assert!(error(&["n BIGINT"], &kinds).contains("a sequence needs 'fields.n.end' or 'number-of-rows'"));
    let beyond = ["fields.n.kind=sequence", "fields.n.start=126", "number-of-rows=3"];
    assert!(error(&["n TINYINT"], &beyond).contains("is at the end of its type after 2 rows, and there are to be 3"));
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_one_others() {
    let columns = ["a BIGINT", "b DOUBLE", "c VARCHAR", "d BOOLEAN", "e TIMESTAMP(3)", "f VARBINARY", "g DECIMAL(38, 10)"];
    let rows = |options: &[&str]| datagen(&columns, &[&["number-of-rows=200"], options].concat()).rows;
    assert_eq!(rows(&["seed=1"]), rows(&["seed=1"]));
    assert_ne!(rows(&["seed=1"]), rows(&["seed=2"]));
    let spec = spec(&Folder::new(), &columns, &["connector=datagen", "rows-per-second=2000", "number-of-rows=200", "seed=1"]);
    let slowly = read_on(&spec, open_in_batches(&spec, None, 7).unwrap());
    assert!(slowly.batches > 1);
    assert_eq!(slowly.rows, rows(&["seed=1"]), "how rows are batched does not matter");
}

#[test]
fn random_values_are_within_their_range_and_all_of_it() {
    let options =
        ["number-of-rows=10000", "fields.n.min=-2", "fields.n.max=2", "fields.t.min=2026-01-01", "fields.t.max=2026-01-01 00:00:00.001"];
    let all = datagen(&["n INT", "t TIMESTAMP(3)"], &options);
    let numbers = all.rows.column(0).as_primitive::<Int32Type>();
    let mut seen: Vec<i32> = numbers.values().iter().copied().collect::<HashSet<_>>().into_iter().collect();
    seen.sort();
    assert_eq!(seen, [-2, -1, 0, 1, 2]);
    for value in seen {
        let count = numbers.values().iter().filter(|number| **number == value).count();
        assert!((1800..2200).contains(&count), "{count} of 10000 are {value}: five standard deviations from 2000 is 200");
    }
    let times: HashSet<i64> = all.rows.column(1).as_primitive::<TimestampMillisecondType>().values().iter().copied().collect();
    assert_eq!(times, HashSet::from([1_767_225_600_000, 1_767_225_600_001]));
}

#[test]
fn lengths_and_null_rates_are_kept_to() {
    let all = datagen(&["s VARCHAR", "n BIGINT"], &["number-of-rows=10000", "fields.s.length=3", "fields.n.null-rate=0.25"]);
    assert!(all.rows.column(0).as_string::<i32>().iter().all(|text| text.unwrap().len() == 3));
    let nulls = all.rows.column(1).null_count();
    assert!((2280..2720).contains(&nulls), "{nulls} of 10000 are NULL: five standard deviations from 2500 is 217");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let error = |columns: &[&str], options: &[&str]| refusal(&spec(&Folder::new(), columns, &[FAST, options].concat()));
    assert!(error(&["n INT"], &["fields.n.min=5", "fields.n.max=4"]).contains("no greater than the max"));
    assert!(error(&["n INT"], &["fields.n.max=3000000000"]).contains("must be an INT"));
    assert!(error(&["n INT"], &["fields.n.kind=sequence"]).contains("needs the option 'fields.n.start'"));
    assert!(error(&["s VARCHAR"], &["fields.s.length=18446744073709551615"]).contains("up to 65536"));
    assert!(error(&["n DATE"], &["fields.n.kind=sequence"]).contains("DATE"));
    assert!(error(&["n INT NOT NULL"], &["fields.n.null-rate=0.5"]).contains("NOT NULL"));
    assert!(error(&["l ARRAY<INT>"], &[]).contains("ARRAY<INT>"));
}

const BASE: i64 = 1_436_918_400_000;

#[test]
fn of_fifty_nexmark_events_one_is_a_person_three_are_auctions_and_the_rest_are_bids() {
    let rows = |table: &str, column: &str| generate(&[column], &["connector=nexmark", "events=100000", &format!("table={table}")]).rows;
    assert_eq!(rows("person", "id BIGINT").num_rows(), 2_000);
    assert_eq!(rows("auction", "id BIGINT").num_rows(), 6_000);
    let bids = rows("bid", "date_time TIMESTAMP(3)");
    assert_eq!(bids.num_rows(), 92_000);
    // At 10000 events a second the last one of 100000, which is a bid, comes after 9999.9 seconds / 1000.
    let times = bids.column(0).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.value(0), BASE, "the fifth event is in the first millisecond");
    assert_eq!(times.value(bids.num_rows() - 1), BASE + 9_999);
}

#[test]
fn nexmark_columns_are_found_by_their_published_names_whatever_the_case() {
    let options = ["connector=nexmark", "table=auction", "events=500", "base-time=2026-01-01", "event-rate=1"];
    let columns =
        ["item_name VARCHAR", "INITIALBID BIGINT", "reserve BIGINT", "dateTime TIMESTAMP(3)", "expires TIMESTAMP_LTZ(6)", "seller BIGINT"];
    let all = generate(&columns, &options);
    assert_eq!(all.rows.num_rows(), 30);
    let number = |column: usize, row: usize| all.rows.column(column).as_primitive::<Int64Type>().value(row);
    assert!((0..30).all(|row| number(1, row) <= number(2, row)), "the reserve is no less than the initial bid");
    assert_eq!(text::cell(all.rows.column(3), 0), "2026-01-01 00:00:01", "the second event, a second after the first");
    let millis = all.rows.column(3).as_primitive::<TimestampMillisecondType>();
    let micros = all.rows.column(4).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    assert!((0..30).all(|row| micros.value(row) > millis.value(row) * 1000), "an auction expires after it begins");
}

#[test]
fn nexmark_has_all_events_in_one_table_of_rows() {
    let folder = Folder::new();
    let mut whole = spec(&folder, &["event_type INT"], &["connector=nexmark", "events=100"]);
    let row = |name: &str, field: &str| Field::new(name, DataType::Struct(vec![Field::new(field, DataType::Int64, true)].into()), true);
    let event_type = Field::new("event_type", DataType::Int32, false);
    whole.schema = Arc::new(Schema::new(vec![event_type, row("person", "id"), row("auction", "seller"), row("bid", "price")]));
    let all = read(&whole);
    assert_eq!(all.rows.num_rows(), 100);
    for row in 0..100 {
        let kind = [0, 1, 1, 1].get(row % 50).copied().unwrap_or(2);
        assert_eq!(all.rows.column(0).as_primitive::<Int32Type>().value(row), kind);
        assert!((1..=3).all(|column| all.rows.column(column).is_valid(row) == (column as i32 == kind + 1)), "one kind is there");
    }
    let prices = generate(&["price BIGINT"], &["connector=nexmark", "events=100", "table=bid"]).lines();
    let bids = all.rows.column(3).as_struct();
    let nested: Vec<String> = (0..100).filter(|row| bids.is_valid(*row)).map(|row| text::cell(bids.column(0), row)).collect();
    assert_eq!(nested, prices, "the events are the same either way");
}

#[test]
fn another_seed_gives_nexmark_other_events_about_as_many_people_and_auctions() {
    let numbers = |table: &str, column: &str, seed: &str| -> Vec<i64> {
        let options = ["connector=nexmark", "events=10000", &format!("table={table}"), &format!("seed={seed}")];
        generate(&[&format!("{column} BIGINT")], &options).rows.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    for seed in ["0", "1", "77", "18446744073709551615"] {
        assert!(numbers("person", "id", seed).into_iter().eq(1000..1200), "seed {seed}: people are numbered from 1000 on");
        assert!(numbers("auction", "id", seed).into_iter().eq(1000..1600), "seed {seed}: and so are auctions");
        // A bid may be ahead by ten, of people and of auctions.
        let (bidders, auctions) = (numbers("bid", "bidder", seed), numbers("bid", "auction", seed));
        for (event, (bidder, auction)) in bidders.iter().zip(&auctions).enumerate() {
            let round = event as i64 / 46;
            assert!((1000..=1000 + round + 10).contains(bidder), "seed {seed}: bid {event} is of {bidder}");
            assert!((1000..=1000 + 3 * round + 2 + 10).contains(auction), "seed {seed}: bid {event} is for {auction}");
        }
        let sellers = numbers("auction", "seller", seed);
        assert!(sellers.iter().enumerate().all(|(event, seller)| (1000..=1000 + event as i64 / 3 + 10).contains(seller)), "seed {seed}");
    }
    assert_eq!(numbers("bid", "price", "5"), numbers("bid", "price", "5"));
    assert_ne!(numbers("bid", "price", "5"), numbers("bid", "price", "6"));
}

#[test]
fn nexmark_names_a_wrong_column_and_its_type() {
    let error = |column: &str, options: &[&str]| refusal(&spec(&Folder::new(), &[column], &[&["connector=nexmark"], options].concat()));
    assert!(error("biddr BIGINT", &["table=bid"]).starts_with("there is no field of nexmark's bid 'biddr'; did you mean 'bidder'?"));
    assert_eq!(error("price VARCHAR", &["table=bid"]), "'price' of nexmark's bid is a BIGINT, not a VARCHAR");
    assert!(error("price BIGINT", &[]).contains("event_type"));
    assert_eq!(error("bid BIGINT", &[]), "'bid' of nexmark's event is a ROW, not a BIGINT");
    assert!(error("price BIGINT", &["table=bids"]).contains("person or auction or bid"));
    assert!(error("price BIGINT", &["table=bid", "event-rate=0"]).contains("from 1 to 1000000000"));
}
