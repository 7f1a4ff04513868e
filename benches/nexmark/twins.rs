//! The queries by hand, in differential dataflow over typed tuples.
//!
//! As somebody would write them who knows it well: what can be added up is in the difference of `count_total`, which keeps no
//! output; a maximum over rows that are never taken back is such a sum, too ([`Max`]); a join emits only the rows that it
//! keeps. Days, minutes and windows are numbers.

use std::cmp::Reverse;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use differential_dataflow::difference::{IsZero, Multiply, Semigroup};
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::{CountTotal, ThresholdTotal};
use differential_dataflow::{AsCollection, Data, ExchangeData, VecCollection};
use serde::{Deserialize, Serialize};
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::probe::Handle;
use weir::text::instant;

use super::events::{Auction, Bid, Events, Multiset, Person};

type Rows<'s, D, R = i64> = VecCollection<'s, u64, D, R>;
/// Where a result is added up, for who wants it.
type Seen = Option<Arc<Mutex<Multiset>>>;
/// A query over all events.
pub type Twin = fn(&Events, Seen) -> Duration;

/// Every query that has a twin.
pub const ALL: &[(&str, Twin)] = &[
    ("q0", q0),
    ("q1", q1),
    ("q2", q2),
    ("q3", q3),
    ("q4", q4),
    ("q7", q7),
    ("q9", q9),
    ("q15", q15),
    ("q16", q16),
    ("q17", q17),
    ("q18", q18),
    ("q19", q19),
    ("q20", q20),
    ("q22", q22),
];

/// How long it takes to keep the result up to date over all ticks.
pub fn time(twin: Twin, events: &Events) -> Duration {
    twin(events, None)
}

/// The result after all ticks.
pub fn result(twin: Twin, events: &Events) -> Multiset {
    let seen = Arc::new(Mutex::new(Multiset::new()));
    twin(events, Some(Arc::clone(&seen)));
    let mut seen = std::mem::take(&mut *seen.lock().expect("nobody has panicked with it"));
    seen.retain(|_, count| *count != 0);
    seen
}

/// The input of a query.
struct Streams<'s> {
    bids: Rows<'s, Bid>,
    auctions: Rows<'s, Auction>,
    people: Rows<'s, Person>,
}

/// The kinds of events that a query reads, in the order of [`Streams`].
type Reads = [bool; 3];
const BIDS: Reads = [true, false, false];
const BIDS_AND_AUCTIONS: Reads = [true, true, false];
const AUCTIONS_AND_PEOPLE: Reads = [false, true, true];

/// A query, its lifetimes spelt out.
fn dataflow<D: 'static, F: for<'s> FnOnce(Streams<'s>) -> Rows<'s, D>>(query: F) -> F {
    query
}

/// Runs a query over ticks of events. What it does not read is not given to it.
fn run<D: Data>(
    events: &Events,
    [bids_read, auctions_read, people_read]: Reads,
    seen: Seen,
    query: impl for<'s> FnOnce(Streams<'s>) -> Rows<'s, D> + Send + Sync + 'static,
    shown: fn(&D) -> String,
) -> Duration {
    fn given<T: Clone>(rows: &[Vec<T>], is_read: bool) -> Vec<Vec<T>> {
        if is_read { rows.to_vec() } else { vec![vec![]; rows.len()] }
    }
    fn feed<T: Data>(input: &mut InputSession<u64, T, i64>, rows: Vec<T>, time: u64) {
        rows.into_iter().for_each(|row| input.update(row, 1));
        input.advance_to(time);
        input.flush();
    }
    let (bids, auctions, people) =
        (given(&events.bids, bids_read), given(&events.auctions, auctions_read), given(&events.people, people_read));
    timely::execute_directly(move |worker| {
        let probe = Handle::new();
        let (mut to_bids, mut to_auctions, mut to_people) = worker.dataflow::<u64, _, _>(|scope| {
            let (to_bids, bids) = scope.new_collection();
            let (to_auctions, auctions) = scope.new_collection();
            let (to_people, people) = scope.new_collection();
            let result = query(Streams { bids, auctions, people });
            match seen {
                None => result.inner.probe_with(&probe),
                Some(seen) => result.inspect(move |(row, _, diff)| add(&seen, shown(row), *diff)).inner.probe_with(&probe),
            };
            (to_bids, to_auctions, to_people)
        });
        let start = Instant::now();
        for (tick, ((bids, auctions), people)) in bids.into_iter().zip(auctions).zip(people).enumerate() {
            let next = tick as u64 + 1;
            feed(&mut to_bids, bids, next);
            feed(&mut to_auctions, auctions, next);
            feed(&mut to_people, people, next);
            worker.step_while(|| probe.less_than(&next));
        }
        start.elapsed()
    })
}

fn add(seen: &Mutex<Multiset>, row: String, diff: i64) {
    *seen.lock().expect("nobody has panicked with it").entry(row).or_default() += diff;
}

/// The greatest of what has come, as a difference: for rows that are never taken back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Max<T>(T);

impl<T> IsZero for Max<T> {
    fn is_zero(&self) -> bool {
        false
    }
}

impl<T: Ord + Clone> Semigroup for Max<T> {
    fn plus_equals(&mut self, other: &Self) {
        if other.0 > self.0 {
            self.0.clone_from(&other.0);
        }
    }
}

impl<T> Multiply<i64> for Max<T> {
    type Output = Self;

    fn multiply(self, _: &i64) -> Self {
        self
    }
}

const DAY: i64 = 86_400_000;

/// The day of a time, as the pages write it.
fn day(day: i64) -> String {
    instant(day * DAY)[..10].to_owned()
}

/// Columns as both sides show a row.
macro_rules! columns {
    ($($column:expr),* $(,)?) => { [$($column.to_string()),*].join(", ") };
}

fn q0(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| all.bids.map(|(auction, bidder, price, _, _, at, extra)| (auction, bidder, price, at, extra)));
    run(events, BIDS, seen, query, |(auction, bidder, price, at, extra)| columns![auction, bidder, price, at, extra])
}

fn q1(events: &Events, seen: Seen) -> Duration {
    // As the bits of a double, which has no order of its own.
    let euros = |price: u64| (0.908 * price as f64).to_bits();
    let query =
        dataflow(move |all| all.bids.map(move |(auction, bidder, price, _, _, at, extra)| (auction, bidder, euros(price), at, extra)));
    run(events, BIDS, seen, query, |(auction, bidder, euros, at, extra)| {
        columns![auction, bidder, format!("{:?}", f64::from_bits(*euros)), at, extra]
    })
}

fn q2(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| all.bids.filter(|bid| bid.0 % 123 == 0).map(|bid| (bid.0, bid.2)));
    run(events, BIDS, seen, query, |(auction, price)| columns![auction, price])
}

fn q3(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let auctions = all.auctions.filter(|auction| auction.8 == 10).map(|auction| (auction.7, auction.0));
        let people = all.people.filter(|person| ["or", "id", "ca"].contains(&person.5.as_str()));
        let people = people.map(|(id, name, _, _, city, state, _, _)| (id, (name, city, state)));
        auctions.join_map(people, |_, id, (name, city, state)| (name.clone(), city.clone(), state.clone(), *id))
    });
    run(events, AUCTIONS_AND_PEOPLE, seen, query, |(name, city, state, id)| columns![name, city, state, id])
}

fn q4(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|bid| (bid.0, (bid.2, bid.5))).arrange_by_key();
        let auctions = all.auctions.map(|auction| (auction.0, (auction.8, auction.5, auction.6))).arrange_by_key();
        let valid = bids
            .join_core(auctions, |id, (price, at), (category, from, to)| (from <= at && at <= to).then_some(((*id, *category), *price)));
        let best = valid.explode(|(auction, price)| Some((auction, Max(price)))).count_total_core::<i64>();
        let totals = best.explode(|((_, category), Max(price))| Some((category, (price as i64, 1i64)))).count_total_core::<i64>();
        totals.map(|(category, (sum, count))| (category, sum, count))
    });
    run(events, BIDS_AND_AUCTIONS, seen, query, |(category, sum, count)| columns![category, format!("{:?}", *sum as f64 / *count as f64)])
}

fn q7(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let window = |at: i64| at / 10_000;
        let best = all.bids.clone().explode(move |bid| Some((window(bid.5), Max(bid.2)))).count_total_core::<i64>();
        let best = best.map(|(window, Max(price))| ((window, price), ()));
        let bids = all.bids.map(move |(auction, bidder, price, _, _, at, extra)| ((window(at), price), (auction, bidder, at, extra)));
        bids.join_map(best, |(_, price), (auction, bidder, at, extra), ()| (*auction, *bidder, *price, *at, extra.clone()))
    });
    run(events, BIDS, seen, query, |(auction, bidder, price, at, extra)| columns![auction, bidder, price, at, extra])
}

fn q9(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|bid| (bid.0, (bid.1, bid.2, bid.5))).arrange_by_key();
        let auctions = all.auctions.map(|(id, item, _, _, _, from, to, seller, category, _)| (id, (item, seller, category, from, to)));
        let valid = bids.join_core(auctions.arrange_by_key(), |id, (bidder, price, at), (item, seller, category, from, to)| {
            let auction = || (*id, item.clone(), *seller, *category, *to);
            (from <= at && at <= to).then(|| (auction(), (*price, Reverse(*at), *bidder)))
        });
        valid.explode(|(auction, bid)| Some((auction, Max(bid)))).count_total_core::<i64>()
    });
    run(events, BIDS_AND_AUCTIONS, seen, query, |((id, item, seller, category, to), Max((price, Reverse(at), bidder)))| {
        columns![id, item, seller, category, to, bidder, price, at]
    })
}

/// How many in all, and in each of the three ranks of a price.
type Ranks = (i64, i64, i64, i64);
const NONE: Ranks = (0, 0, 0, 0);

fn ranks(price: u64) -> Ranks {
    let is = |is: bool| i64::from(is);
    (1, is(price < 10_000), is((10_000..1_000_000).contains(&price)), is(price >= 1_000_000))
}

/// How many different values each group has, in all and in each rank.
fn distinct<'s, G, K>(values: Rows<'s, (G, K), Ranks>) -> Rows<'s, G, Ranks>
where
    G: ExchangeData + Hash,
    K: ExchangeData + Hash,
{
    let is_any = |_: &(G, K), (all, one, two, three): &Ranks| (all.signum(), one.signum(), two.signum(), three.signum());
    values.threshold_total(is_any).map(|(group, _)| group)
}

/// The twelve counts of q15 and q16 as columns.
fn counts((bids, bidders, auctions): &(Ranks, Ranks, Ranks)) -> String {
    let four = |(all, one, two, three): &Ranks| columns![all, one, two, three];
    columns![four(bids), four(bidders), four(auctions)]
}

fn q15(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|bid| (bid.5 / DAY, bid.0, bid.1, bid.2));
        let bidders = distinct(bids.clone().explode(|(day, _, bidder, price)| Some(((day, bidder), ranks(price)))));
        let auctions = distinct(bids.clone().explode(|(day, auction, _, price)| Some(((day, auction), ranks(price)))));
        let bids = bids.explode(|(day, _, _, price)| Some((day, (ranks(price), NONE, NONE))));
        let bidders = diffs(bidders, |ranks| (NONE, ranks, NONE));
        let auctions = diffs(auctions, |ranks| (NONE, NONE, ranks));
        bids.concatenate([bidders, auctions]).count_total_core::<i64>()
    });
    run(events, BIDS, seen, query, |(on, all)| columns![day(*on), counts(all)])
}

/// Other differences for the same rows.
fn diffs<'s, D: Data, R2: Semigroup + 'static>(rows: Rows<'s, D, Ranks>, of: impl Fn(Ranks) -> R2 + 'static) -> Rows<'s, D, R2> {
    use timely::dataflow::operators::vec::Map;
    rows.inner.map(move |(row, time, ranks)| (row, time, of(ranks))).as_collection()
}

fn q16(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|(auction, bidder, price, channel, _, at, _)| ((channel, at / DAY), auction, bidder, price, at));
        let bidders = distinct(bids.clone().explode(|(group, _, bidder, price, _)| Some(((group, bidder), ranks(price)))));
        let auctions = distinct(bids.clone().explode(|(group, auction, _, price, _)| Some(((group, auction), ranks(price)))));
        let minute = |at: i64| Max(at / 60_000 % 1440);
        let bids = bids.explode(move |(group, _, _, price, at)| Some((group, (minute(at), (ranks(price), NONE, NONE)))));
        let bidders = diffs(bidders, |ranks| (Max(0), (NONE, ranks, NONE)));
        let auctions = diffs(auctions, |ranks| (Max(0), (NONE, NONE, ranks)));
        bids.concatenate([bidders, auctions]).count_total_core::<i64>()
    });
    run(events, BIDS, seen, query, |((channel, on), (Max(minute), all))| {
        columns![channel, day(*on), format!("{:02}:{:02}", minute / 60, minute % 60), counts(all)]
    })
}

fn q17(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|bid| ((bid.0, bid.5 / DAY), bid.2));
        let figures = |price: u64| (ranks(price), Max(Reverse(price)), Max(price), price as i64);
        bids.explode(move |(group, price)| Some((group, figures(price)))).count_total_core::<i64>()
    });
    run(events, BIDS, seen, query, |((auction, on), (ranks, Max(Reverse(min)), Max(max), sum))| {
        let (all, one, two, three) = ranks;
        columns![auction, day(*on), all, one, two, three, min, max, format!("{:?}", *sum as f64 / *all as f64), sum]
    })
}

fn q18(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|(auction, bidder, price, channel, url, at, extra)| ((bidder, auction), (at, price, channel, url, extra)));
        bids.explode(|(pair, bid)| Some((pair, Max(bid)))).count_total_core::<i64>()
    });
    run(events, BIDS, seen, query, |((bidder, auction), Max((at, price, channel, url, extra)))| {
        columns![auction, bidder, price, channel, url, at, extra]
    })
}

fn q19(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids =
            all.bids.map(|(auction, bidder, price, channel, url, at, extra)| (auction, (Reverse(price), at, bidder, channel, url, extra)));
        bids.reduce(|_, bids, best: &mut Vec<(_, i64)>| {
            best.extend(bids.iter().take(10).enumerate().map(|(place, (bid, _))| ((place + 1, (*bid).clone()), 1)));
        })
    });
    run(events, BIDS, seen, query, |(auction, (place, (Reverse(price), at, bidder, channel, url, extra)))| {
        columns![auction, bidder, price, channel, url, at, extra, place]
    })
}

fn q20(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        let bids = all.bids.map(|(auction, bidder, price, channel, url, at, extra)| (auction, (bidder, price, channel, url, at, extra)));
        let auctions = all.auctions.filter(|auction| auction.8 == 10);
        let auctions = auctions.map(|(id, item, about, initial, reserve, from, to, seller, category, extra)| {
            (id, (item, about, initial, reserve, from, to, seller, category, extra))
        });
        bids.join_map(auctions, |auction, bid, of| (*auction, bid.clone(), of.clone()))
    });
    run(events, BIDS_AND_AUCTIONS, seen, query, |(auction, bid, of)| {
        let (bidder, price, channel, url, at, bid_extra) = bid;
        let (item, about, initial, reserve, from, to, seller, category, extra) = of;
        let bid = columns![auction, bidder, price, channel, url, at, bid_extra];
        columns![bid, item, about, initial, reserve, from, to, seller, category, extra]
    })
}

fn q22(events: &Events, seen: Seen) -> Duration {
    let query = dataflow(|all| {
        all.bids.map(|(auction, bidder, price, channel, url, _, _)| {
            let mut parts = url.split('/').skip(3).map(str::to_owned);
            let directories = (parts.next(), parts.next(), parts.next());
            (auction, bidder, price, channel, directories)
        })
    });
    run(events, BIDS, seen, query, |(auction, bidder, price, channel, (one, two, three))| {
        let shown = |directory: &Option<String>| directory.clone().unwrap_or_else(|| "NULL".to_owned());
        columns![auction, bidder, price, channel, shown(one), shown(two), shown(three)]
    })
}
