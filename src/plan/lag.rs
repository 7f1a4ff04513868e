//! How far engine time can be past the times in a plan's rows.
//!
//! Under an event clock a row comes no later than its table's lateness after its own time, and at its PROCTIME(). From
//! there it follows for other columns, through projections, windows, joins, group keys and views over views: a column has a
//! [`Lag`] `l` if whatever changes at an instant `t` (a row that comes, or one that goes) has a time there of at least
//! `t - l`. So a group whose key has such a column changes no more once engine time is past that by more than `l`.
//!
//! What an expiry takes away does not count: it is hidden by [`Node::Settle`], and where it is shown nothing is known of
//! the rows. Times are compared in whole milliseconds, rounded down.

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column as ColumnExpr, Literal};

use super::distance::{Distance, MILLISECOND, distances, moved};
use super::frames::{self, Span};
use super::{Arrangement, Changes, Fingerprint, JoinKind, Node, Plan, Policy, Scalar, Step, TimeColumn, WindowFunction, known};
use crate::eval::TimeWindow;

/// Milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lag {
    /// Of a column of times.
    Time(i64),
    /// Of all elements of a column of lists of times.
    List(i64),
}

type Columns = Vec<Option<Lag>>;

/// The lags of the columns of plans, which share their parts.
#[derive(Default)]
pub(super) struct Lags {
    known: HashMap<Fingerprint, Columns>,
    /// They are asked as if the rows of every relation came in time and stayed.
    as_if_all_stayed: bool,
}

impl Lags {
    /// What the lags would be if the rows of every relation came in time and stayed.
    pub fn as_if_all_stayed() -> Self {
        Lags { as_if_all_stayed: true, ..Lags::default() }
    }

    /// The lags of a plan's columns.
    pub fn of(&mut self, plan: &Plan) -> Columns {
        if let Some(known) = self.known.get(&plan.fingerprint()) {
            return known.clone();
        }
        let mut lags = self.found(plan);
        lags.resize(plan.row().len(), None);
        self.known.insert(plan.fingerprint(), lags.clone());
        lags
    }

    fn found(&mut self, plan: &Plan) -> Columns {
        match plan.node() {
            Node::Get { times, .. } => {
                let lag = |time: &TimeColumn| match time.changes {
                    Changes::Until(lateness) => Some(Lag::Time(lateness)),
                    Changes::Always(_) => self.as_if_all_stayed.then_some(Lag::Time(0)),
                };
                let of = |column| times.iter().find(|time| time.column == column).and_then(lag);
                (0..plan.row().len()).map(of).collect()
            }
            Node::Constant { .. } => vec![],
            Node::Linear { input, steps } => {
                let lags = match joined(input) {
                    Some((left, right)) => self.paired(left, right, &distances(steps, input.row())),
                    None => self.of(input),
                };
                through(lags, steps)
            }
            Node::Negate { input } => self.of(input),
            Node::Union { inputs } => inputs.iter().map(|input| self.of(input)).reduce(later).unwrap_or_default(),
            Node::Delay { input, column, before_end } => {
                let lag = self.of(input)[*column];
                let mut lags = vec![None; plan.row().len()];
                // At the latest in the last millisecond of the window, or when it comes.
                lags[*column] = match lag {
                    Some(Lag::Time(lag)) => Some(Lag::Time(lag.max(before_end - 1))),
                    _ => None,
                };
                lags
            }
            Node::Settle { policy: Policy::Retract, .. } | Node::Temporal { .. } | Node::Remember { .. } => vec![],
            // An answer that stood may be taken back long after.
            Node::Settle { input, policy: Policy::Keep, .. } => {
                let key = input.arrangements().first().map_or(0, |arrangement| arrangement.key);
                self.of(input).into_iter().take(key).collect()
            }
            Node::Settle { input, policy: Policy::Forget, .. } => self.of(input),
            Node::Join { kind: JoinKind::Inner, left, right } => self.paired(left, right, &[]),
            Node::Join { .. } | Node::Reduce { .. } | Node::TopK { .. } | Node::Threshold { .. } => self.keys(plan),
            // A row changes with its own time, or with that of the last row in its frame. An error is of all its partition.
            Node::Window { input, functions, .. } => {
                let mut lags = self.keys(plan);
                lags.resize(plan.row().len(), None);
                if let Some((lag, span)) = self.of_frames(input, functions).filter(|_| !frames::can_fail(functions)) {
                    lags[input.key] = Some(Lag::Time(lag.saturating_add(span.after)));
                }
                lags
            }
            // A left row changes with its own time, or with a right row's that is no later.
            Node::AsOf { left, right, .. } => {
                let mut lags = self.keys(plan);
                lags.resize(plan.row().len(), None);
                if !left.input.row().columns[left.key].sort.descending {
                    let times = [left, right].map(|side| vec![self.of(&side.input)[side.key]]);
                    lags[left.key] = times.into_iter().reduce(later).and_then(|both| both[0]);
                }
                lags
            }
            // A session ends after any row that changes it, and is cut anew in none of its past.
            Node::Session { input, .. } => {
                let mut lags = self.keys(plan);
                lags.resize(plan.row().len(), None);
                let time = self.of(&input.input).get(input.key).copied().flatten();
                if let Some(end) = lags.last_mut() {
                    *end = match time {
                        Some(Lag::Time(lag)) => Some(Lag::Time(lag - 1)),
                        _ => None,
                    };
                }
                lags
            }
        }
    }

    /// Of window functions whose frames are of intervals, the lag of the time that partitions are in the order of, and how far
    /// the frames reach.
    pub fn of_frames(&mut self, input: &Arrangement, functions: &[WindowFunction]) -> Option<(i64, Span)> {
        let span = frames::span(functions, input.input.row().columns.get(input.key)?)?;
        match self.of(&input.input)[input.key] {
            Some(Lag::Time(lag)) => Some((lag, span)),
            _ => None,
        }
    }

    /// The lags of what the operator of a plan looks its rows up by.
    pub fn keys(&mut self, plan: &Plan) -> Columns {
        let of_key = |lags: &mut Self, arrangement: &Arrangement| {
            let mut columns = lags.of(&arrangement.input);
            columns.truncate(arrangement.key);
            columns
        };
        let all: Vec<Columns> = plan.arrangements().into_iter().map(|arrangement| of_key(self, arrangement)).collect();
        all.into_iter().reduce(later).unwrap_or_default()
    }

    /// The lags of `key ++ left values ++ right values` of rows that are joined where these distances hold between their
    /// columns. A pair comes with the later of its rows, whose time says how long ago the earlier one's can be.
    fn paired(&mut self, left: &Arrangement, right: &Arrangement, distances: &[Distance]) -> Columns {
        let own = [&self.of(&left.input)[..], &self.of(&right.input)[left.key..]].concat();
        let mut lags = self.by_partner(left, right, distances);
        for (lag, own) in lags.iter_mut().zip(own).skip(left.key) {
            *lag = later(vec![*lag], vec![own])[0];
        }
        lags
    }

    /// The same of what changes with the other side's row alone; of the key, with either's.
    pub fn by_partner(&mut self, left: &Arrangement, right: &Arrangement, distances: &[Distance]) -> Columns {
        let (left_lags, right_lags) = (self.of(&left.input), self.of(&right.input));
        let (key, middle) = (left.key, left_lags.len());
        let keys = later(left_lags[..key].to_vec(), right_lags[..key].to_vec());
        // The time of the other side's row that a column of it says, which is in both rows if it is in the key.
        let of_partner = |is_left: bool, column: usize| match (is_left, column) {
            (true, column) if column < key => right_lags[column],
            (true, column) if column >= middle => right_lags[column - middle + key],
            (false, column) if column < middle => left_lags[column],
            _ => None,
        };
        let of_value = |column: usize| {
            let distances = distances.iter().filter(|distance| distance.from == column);
            let lags = distances.filter_map(|distance| match of_partner(column < middle, distance.to)? {
                Lag::Time(lag) => Some(lag.saturating_add(distance.at_most)),
                Lag::List(_) => None,
            });
            lags.min().map(Lag::Time)
        };
        keys.into_iter().chain((key..middle + right_lags.len() - key).map(of_value)).collect()
    }
}

/// The sides of the inner join that a plan is, as others see it.
pub(super) fn joined(plan: &Plan) -> Option<(&Arrangement, &Arrangement)> {
    match plan.node() {
        Node::Join { kind: JoinKind::Inner, left, right } => Some((left, right)),
        Node::Settle { input, policy: Policy::Forget, .. } => joined(input),
        _ => None,
    }
}

/// The lags of columns of which each is of one of two plans.
fn later(one: Columns, other: Columns) -> Columns {
    let of_both = |pair: (Option<Lag>, Option<Lag>)| match pair {
        (Some(Lag::Time(one)), Some(Lag::Time(other))) => Some(Lag::Time(one.max(other))),
        (Some(Lag::List(one)), Some(Lag::List(other))) => Some(Lag::List(one.max(other))),
        _ => None,
    };
    one.into_iter().zip(other).map(of_both).collect()
}

/// The lags of what `steps` make of columns.
fn through(lags: Columns, steps: &[Step]) -> Columns {
    known::through(lags, steps, lag, |list| match list {
        Lag::List(lag) => Some(Lag::Time(lag)),
        Lag::Time(_) => None,
    })
}

/// The lag of an expression over columns with these.
fn lag(scalar: &Scalar, lags: &Columns) -> Option<Lag> {
    if let Some(column) = scalar.downcast_ref::<ColumnExpr>() {
        return lags[column.index()];
    }
    if let Some(time) = recast(scalar) {
        return lag(time, lags);
    }
    if let Some((longest, time)) = truncated(scalar) {
        let Lag::Time(lag) = lag(time, lags)? else { return None };
        return Some(Lag::Time(lag.saturating_add(longest - 1)));
    }
    let places: Vec<Option<usize>> = (0..lags.len()).map(Some).collect();
    if let Some((column, by)) = moved(scalar, &places) {
        let Lag::Time(lag) = lags[column]? else { return None };
        return Some(Lag::Time(lag.saturating_sub(i64::try_from(by.div_euclid(MILLISECOND)).ok()?)));
    }
    let (window, time) = TimeWindow::of(scalar)?;
    let Lag::Time(lag) = lag(time, lags)? else { return None };
    Some(match window {
        // A window starts less than its size before a time that is in it, and ends after that.
        TimeWindow::Tumble { size, shift, .. } => Lag::Time(lag.saturating_add(size - 1 - shift)),
        TimeWindow::Starts { size, .. } => Lag::List(lag.saturating_add(size - 1)),
        TimeWindow::Ends { .. } => Lag::List(lag - 1),
        TimeWindow::Shift { shift } => Lag::Time(lag.saturating_sub(shift)),
    })
}

/// The time of which an expression is the beginning of its day, month and the like, and the most milliseconds that one has.
fn truncated(scalar: &Scalar) -> Option<(i64, &Scalar)> {
    const DAY: i64 = 86_400_000;
    if let Some(cast) = scalar.downcast_ref::<CastExpr>() {
        return (*cast.cast_type() == DataType::Date32).then_some((DAY, cast.expr()));
    }
    let function = scalar.downcast_ref::<ScalarFunctionExpr>()?;
    let ("date_trunc", [unit, time]) = (function.fun().name(), function.args()) else { return None };
    let unit = unit.downcast_ref::<Literal>()?.value().try_as_str().flatten()?;
    let longest = match unit.to_lowercase().as_str() {
        "millisecond" => 1,
        "second" => 1_000,
        "minute" => 60_000,
        "hour" => 3_600_000,
        "day" => DAY,
        "week" => 7 * DAY,
        "month" => 31 * DAY,
        "quarter" => 92 * DAY,
        "year" => 366 * DAY,
        _ => return None,
    };
    Some((longest, time))
}

/// The TIMESTAMP that `scalar` is in another precision, no coarser than milliseconds.
pub(super) fn recast(scalar: &Scalar) -> Option<&Scalar> {
    let cast = scalar.downcast_ref::<CastExpr>()?;
    let is_timestamp = |data_type: &DataType| matches!(data_type, DataType::Timestamp(unit, None) if *unit != TimeUnit::Second);
    let from = cast.expr().downcast_ref::<ColumnExpr>().and(Some(cast.expr()))?;
    is_timestamp(cast.cast_type()).then_some(from)
}
