//! Rows that come and go by engine time.
//!
//! A row of a temporal filter is there in intervals of instants that it says itself ([`Validity`]). So an update of it at
//! a time is, for each interval that has not passed by then, an update at that time or at the interval's beginning, and
//! its opposite at the interval's end. That is linear: a retraction's updates cancel those of the insertion that are still
//! to come and take back what is there, and no row is looked up.
//!
//! What is to come is held here ([`Future`]) and sent when the frontier passes its instant. So nothing downstream carries
//! updates of a later time, which would be sorted and copied again with each batch: a filter for thirty days holds one
//! record a row, in here. The operator keeps a capability at its frontier, no earlier: it holds nobody back.
//!
//! A change is of the first Data step of its instant. What arrives at the instant at which a row ends is not there.

mod future;

use std::cell::RefCell;
use std::rc::Rc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType};
use arrow::datatypes::{TimestampNanosecondType, TimestampSecondType};
use timely::container::NoopBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{DistributorPact, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::{Operator, OutputBuilderSession};

use super::arrange::{give_all, peers};
use super::registry::Ask;
use super::state::States;
use crate::engine::time::{self, FIRST_DATA_STEP, LAST_INSTANT};
use crate::error::Result;
use crate::plan::{DAY, MILLISECOND, RowType, Validity};
use crate::row::{ByKey, Codec, Diff, Time, Updates, UpdatesBuilder};
use future::Future;

/// The rows of a temporal filter, keyed by all of their columns, as they come and go. Their values are what `validity`
/// reads. `row` is both together, of which the key is the first `width` columns.
///
/// A row's insertion and retraction have to be held in one place to cancel before their time: rows that are ever
/// taken away go to the worker that they hash to (`spread`). And whom to ask what is to come.
pub fn temporal<'s>(
    rows: Stream<'s, Time, Updates>,
    row: &RowType,
    width: usize,
    validity: Validity,
    spread: bool,
    states: &mut States,
) -> Result<(Stream<'s, Time, Updates>, Ask)> {
    let lives = Lives { codec: Codec::new(row, width)?, validity };
    if spread && peers(rows.scope()) > 1 {
        let by_row = DistributorPact(ByKey::<Updates>::new as fn(usize) -> ByKey<Updates>);
        Ok(temporal_core(rows, by_row, lives, states))
    } else {
        Ok(temporal_core(rows, Pipeline, lives, states))
    }
}

fn temporal_core<'s, P>(rows: Stream<'s, Time, Updates>, pact: P, lives: Lives, states: &mut States) -> (Stream<'s, Time, Updates>, Ask)
where
    P: ParallelizationContract<Time, Updates>,
{
    let place = states.place("Temporal");
    let begins = place.begins;
    let shared = Rc::new(RefCell::new(Future::of(&place.found, begins)));
    let (asked, saved) = (Rc::clone(&shared), Rc::clone(&shared));
    states.keep(place.id(), move || saved.borrow_mut().state());
    let rows = rows.unary_frontier(pact, "Temporal", move |capability, _| {
        let mut capability = Some(capability);
        move |(input, frontier), output: &mut OutputBuilderSession<'_, Time, NoopBuilder<Updates>>| {
            let future = &mut *shared.borrow_mut();
            let mut made = UpdatesBuilder::default();
            input.for_each(|_, updates| lives.live(updates, begins, &mut made, future));
            let upper = frontier.frontier().first().copied();
            if let Some(upper) = upper {
                future.take(first_instant_to_come(upper), |row, instant, diff| made.push(row, &[], began(instant), diff));
            }
            if let Some(capability) = &capability {
                give_all(made, output, capability);
            }
            match (upper, &mut capability) {
                (Some(upper), Some(capability)) => capability.downgrade(&upper),
                // Nothing happens any more, and so nothing ends.
                _ => (capability, *future) = (None, Future::default()),
            }
        }
    });
    (rows, Rc::new(move || asked.borrow_mut().held()))
}

/// When the changes of an instant are.
fn began(instant: u64) -> Time {
    time::at(instant as i64, FIRST_DATA_STEP)
}

/// The first instant whose changes are not complete before a frontier.
fn first_instant_to_come(frontier: Time) -> u64 {
    let instant = time::ms(frontier).unsigned_abs();
    if time::step(frontier) > FIRST_DATA_STEP { instant + 1 } else { instant }
}

/// When rows are there.
struct Lives {
    codec: Codec,
    validity: Validity,
}

impl Lives {
    /// What updates of rows are, as the rows come and go: at once into `now`, and in the future.
    fn live(&self, updates: &Updates, begins: Time, now: &mut UpdatesBuilder, future: &mut Future) {
        let read = self.codec.decode_values((0..updates.len()).map(|index| updates.value(index)).collect::<Vec<_>>().into_iter());
        debug_assert!(read.is_ok(), "an encoded row has the columns of its type");
        let Ok(read) = read else { return };
        let (moments, booleans) = read.split_at(self.validity.moments);
        let turned = self.validity.turns.iter().map(|turn| instants(&moments[turn.moment], |x| turn.at(x)));
        let turned: Vec<Vec<Option<u64>>> = turned.collect();
        let booleans: Vec<&BooleanArray> = booleans.iter().map(|array| array.as_boolean()).collect();
        let (mut turns, mut intervals) = (vec![], vec![]);
        for index in (0..updates.len()).filter(|index| updates.time(*index) >= begins) {
            turns.clear();
            turns.extend(turned.iter().map(|turned| turned[index]));
            let boolean = |number: usize| booleans[number].is_valid(index).then(|| booleans[number].value(index));
            self.validity.intervals(&turns, boolean, &mut intervals);
            let (row, time, diff) = (updates.key(index), updates.time(index), updates.diff(index));
            for (from, until) in &intervals {
                interval(row, time, diff, *from..*until, now, future);
            }
        }
    }
}

/// What an update of a row is for one interval in which it is there.
fn interval(row: &[u8], time: Time, diff: Diff, there: std::ops::Range<u64>, now: &mut UpdatesBuilder, future: &mut Future) {
    const NEVER: u64 = LAST_INSTANT.unsigned_abs() + 1;
    let ends = there.end < NEVER;
    if ends && began(there.end) <= time {
        return;
    }
    if there.start == 0 || began(there.start) <= time {
        now.push(row, &[], time, diff);
    } else {
        future.push(row, there.start, diff);
    }
    if ends {
        future.push(row, there.end, -diff);
    }
}

/// What a column of moments (in nanoseconds since the epoch) says.
fn instants(column: &ArrayRef, at: impl Fn(i128) -> u64) -> Vec<Option<u64>> {
    macro_rules! each {
        ($type:ty, $unit:expr) => {
            column.as_primitive::<$type>().iter().map(|x| x.map(|x| at(i128::from(x) * $unit))).collect()
        };
    }
    match column.data_type() {
        DataType::Date32 => each!(Date32Type, DAY),
        DataType::Timestamp(TimeUnit::Second, _) => each!(TimestampSecondType, 1_000 * MILLISECOND),
        DataType::Timestamp(TimeUnit::Millisecond, _) => each!(TimestampMillisecondType, MILLISECOND),
        DataType::Timestamp(TimeUnit::Microsecond, _) => each!(TimestampMicrosecondType, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => each!(TimestampNanosecondType, 1),
        other => unreachable!("lowering makes turns of moments, not of {other}"),
    }
}
