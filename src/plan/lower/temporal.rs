//! Temporal filters: conditions that engine time changes.
//!
//! A condition may say NOW() wherever a comparison can be solved for it: where one side of the comparison is engine time,
//! moved by a constant interval or rounded down, and the other any DATE or TIMESTAMP of the row. So of each comparison
//! it is known, a row, at what instant it changes, and [`Node::Temporal`] lets the row in and out at that instant. A
//! condition in which a comparison has no such form is refused.
//!
//! [`condition`] is how a condition is made, and solved for a first time; from then on it is an expression like others,
//! which joins move to a side or negate, until it comes to [`filter`].

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{Expr, Operator};
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr};
use datafusion_physical_expr::{ScalarFunctionExpr, split_conjunction};

use super::linear;
use super::scalar::{Item, all, pick_all, plain_item, scalar_over_time};
use crate::error::{Error, Result};
use crate::eval::{is_utc, readable};
use crate::plan::moments::months_and_nanoseconds;
use crate::plan::{DAY, MILLISECOND, Node, Plan, RowType, Scalar, Stair, Turn, Validity, When};
use crate::sql::functions::{EngineTime, Instant};
use crate::text::per_second;

/// The physical form of a condition, which may say NOW() if it can be solved for it.
pub(super) fn condition(expr: &Expr, schema: &DFSchema, row: &RowType) -> Result<Scalar> {
    let condition = scalar_over_time(expr, schema, row)?;
    if reads_time(&condition) {
        solved(row, &timed(&condition).0)?;
    }
    Ok(condition)
}

/// Whether engine time changes the value of an expression.
pub(super) fn reads_time(scalar: &Scalar) -> bool {
    scalar.exists(|node| Ok(engine_time(node).is_some())).expect("the visitor never fails")
}

/// The rows of `input` on which a [`condition`] that reads engine time is true, while it is.
pub(super) fn filter(input: Plan, condition: &Scalar) -> Plan {
    let (timed, plain) = timed(condition);
    let input = plain.into_iter().fold(input, linear::filter);
    let (validity, read) = solved(input.row(), &timed).expect("a condition was solved when it was made");
    let row = RowType::new(pick_all(input.row()).into_iter().map(|(_, column)| column));
    let items = pick_all(input.row()).into_iter().chain(read).collect();
    Plan::new(Node::Temporal { input: linear::project(input, items), validity }, row)
}

/// The conjuncts that engine time changes, and the others.
fn timed(condition: &Scalar) -> (Vec<Scalar>, Vec<Scalar>) {
    split_conjunction(condition).into_iter().cloned().partition(reads_time)
}

/// When all of `conditions` are true of a row, and the columns that this is read from.
fn solved(row: &RowType, conditions: &[Scalar]) -> Result<(Validity, Vec<Item>)> {
    let mut solver = Solver { row, schema: row.schema().as_ref().clone(), turns: vec![], moments: vec![], booleans: vec![] };
    let Some(condition) = all(conditions.iter().cloned(), &solver.schema)? else {
        return Err(Error::invalid("a temporal filter without a condition"));
    };
    let when = solver.when(&condition)?;
    let Solver { turns, moments, booleans, .. } = solver;
    Ok((Validity { moments: moments.len(), turns, when }, moments.into_iter().chain(booleans).collect()))
}

/// The function of engine time that an expression is.
fn engine_time(scalar: &Scalar) -> Option<Instant> {
    let function = scalar.downcast_ref::<ScalarFunctionExpr>()?;
    EngineTime::of(function.fun()).map(|time| time.instant)
}

/// Solves a condition, as far as it has come.
struct Solver<'a> {
    row: &'a RowType,
    schema: Schema,
    turns: Vec<Turn>,
    /// The values that turns are read from.
    moments: Vec<Item>,
    booleans: Vec<Item>,
}

impl Solver<'_> {
    fn when(&mut self, condition: &Scalar) -> Result<When> {
        if !reads_time(condition) {
            return self.boolean(condition);
        }
        if let Some(not) = condition.downcast_ref::<NotExpr>() {
            return Ok(self.when(not.arg())?.negated());
        }
        if let Some(null) = condition.downcast_ref::<IsNullExpr>() {
            return Ok(same(self.when(null.arg())?, When::Constant(None)));
        }
        if let Some(present) = condition.downcast_ref::<IsNotNullExpr>() {
            return Ok(same(self.when(present.arg())?, When::Constant(None)).negated());
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return self.among(list, condition);
        }
        let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return Err(unsolved(condition)) };
        let (left, right) = (binary.left(), binary.right());
        match binary.op() {
            Operator::And => Ok(self.when(left)?.and(self.when(right)?)),
            Operator::Or => Ok(self.when(left)?.or(self.when(right)?)),
            op if left.data_type(&self.schema)? == DataType::Boolean => {
                let equal = same(self.when(left)?, self.when(right)?);
                match op {
                    Operator::IsNotDistinctFrom => Ok(equal),
                    Operator::IsDistinctFrom => Ok(equal.negated()),
                    _ => Err(unsolved(condition)),
                }
            }
            Operator::IsNotDistinctFrom => self.same_moment(left, right, condition),
            Operator::IsDistinctFrom => Ok(self.same_moment(left, right, condition)?.negated()),
            op => self.comparison(left, *op, right, condition),
        }
    }

    /// A boolean of the row.
    fn boolean(&mut self, scalar: &Scalar) -> Result<When> {
        match scalar.downcast_ref::<Literal>().map(Literal::value) {
            Some(ScalarValue::Boolean(value)) => return Ok(When::Constant(*value)),
            Some(ScalarValue::Null) => return Ok(When::Constant(None)),
            _ => {}
        }
        Ok(When::Row(number_of(scalar, &mut self.booleans, self.row)?))
    }

    /// `x IN (a, b)` is `x = a OR x = b`.
    fn among(&mut self, list: &InListExpr, condition: &Scalar) -> Result<When> {
        let mut found = When::Constant(Some(false));
        for member in list.list() {
            let equal = match reads_time(list.expr()) || reads_time(member) {
                true => self.comparison(list.expr(), Operator::Eq, member, condition)?,
                false => {
                    let equal: Scalar = Arc::new(BinaryExpr::new(Arc::clone(list.expr()), Operator::Eq, Arc::clone(member)));
                    self.boolean(&equal)?
                }
            };
            found = found.or(equal);
        }
        Ok(if list.negated() { found.negated() } else { found })
    }

    /// Whether both are one moment; engine time is never NULL.
    fn same_moment(&mut self, left: &Scalar, right: &Scalar, condition: &Scalar) -> Result<When> {
        Ok(same(self.comparison(left, Operator::Eq, right, condition)?, When::Constant(Some(true))))
    }

    fn comparison(&mut self, left: &Scalar, op: Operator, right: &Scalar, condition: &Scalar) -> Result<When> {
        let (time, op, other) = match (reads_time(left), reads_time(right), op.swap()) {
            (true, false, _) => (left, op, right),
            (false, true, Some(swapped)) => (right, swapped, left),
            _ => return Err(unsolved(condition)),
        };
        let (stair, op, moment) = match self.difference(time, op, other)? {
            Some(solved) => solved,
            None => (self.stair(time).map_err(|reason| reason.of(condition))?, op, Arc::clone(other)),
        };
        let (stair, moment) = self.without_constants(stair, moment)?;
        if self.unit(&moment)?.is_none() {
            return Err(unsolved(condition));
        }
        Ok(match op {
            Operator::Lt => self.before(stair, false, &moment)?,
            Operator::LtEq => self.before(stair, true, &moment)?,
            Operator::Gt => self.before(stair, true, &moment)?.negated(),
            Operator::GtEq => self.before(stair, false, &moment)?.negated(),
            Operator::Eq => self.before(stair, true, &moment)?.and(self.before(stair, false, &moment)?.negated()),
            Operator::NotEq => self.before(stair, false, &moment)?.or(self.before(stair, true, &moment)?.negated()),
            _ => return Err(unsolved(condition)),
        })
    }

    /// Whether `stair` of the instant is before the moment.
    fn before(&mut self, stair: Stair, or_equal: bool, moment: &Scalar) -> Result<When> {
        let turn = Turn { moment: number_of(moment, &mut self.moments, self.row)?, stair, or_equal };
        let number = self.turns.iter().position(|had| *had == turn).unwrap_or(self.turns.len());
        if number == self.turns.len() {
            self.turns.push(turn);
        }
        Ok(When::Before(number))
    }

    /// `NOW() - x < i` is `NOW() - i < x`, and `x - NOW() < i` is `NOW() + i > x`.
    fn difference(&self, time: &Scalar, op: Operator, other: &Scalar) -> Result<Option<(Stair, Operator, Scalar)>> {
        if !matches!(time.data_type(&self.schema)?, DataType::Duration(_) | DataType::Interval(_)) {
            return Ok(None);
        }
        let mut difference = time;
        while let Some(cast) = difference.downcast_ref::<CastExpr>() {
            difference = cast.expr();
        }
        let Some(binary) = difference.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Minus) else {
            return Ok(None);
        };
        let Some(Ok(length)) = constant(other) else { return Ok(None) };
        let (left, right) = (binary.left(), binary.right());
        let solved = match (reads_time(left), reads_time(right), op.swap()) {
            (true, false, _) => self.stair(left).ok().map(|stair| (stair.plus(-length), op, Arc::clone(right))),
            (false, true, Some(swapped)) => self.stair(right).ok().map(|stair| (stair.plus(length), swapped, Arc::clone(left))),
            _ => None,
        };
        Ok(solved)
    }

    /// A moment without what is constantly added to it, or taken for granted in it, and engine time moved instead: one
    /// condition has one form, and a moment at the end of its type's range does not overflow.
    fn without_constants(&self, mut stair: Stair, mut moment: Scalar) -> Result<(Stair, Scalar)> {
        loop {
            let next = if let Some(cast) = moment.downcast_ref::<CastExpr>() {
                match (self.unit(cast.expr())?, self.unit(&moment)?) {
                    (Some(inner), Some(unit)) if inner % unit == 0 => Some((stair, Arc::clone(cast.expr()))),
                    _ => None,
                }
            } else {
                self.shift(&moment)?.map(|(inner, by)| (stair.plus(-by), inner))
            };
            match next {
                Some(next) => (stair, moment) = next,
                None => return Ok((stair, moment)),
            }
        }
    }

    /// The expression that this one is but for a constant in whole units of its type, and that constant.
    fn shift(&self, scalar: &Scalar) -> Result<Option<(Scalar, i128)>> {
        let Some(binary) = scalar.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let (left, right) = (binary.left(), binary.right());
        let (inner, by) = match (binary.op(), constant(left), constant(right)) {
            (Operator::Plus, None, Some(Ok(by))) => (left, by),
            (Operator::Plus, Some(Ok(by)), None) => (right, by),
            (Operator::Minus, None, Some(Ok(by))) => (left, -by),
            _ => return Ok(None),
        };
        match (self.unit(inner)?, self.unit(scalar)?) {
            (Some(before), Some(after)) if before == after && by % before == 0 => Ok(Some((Arc::clone(inner), by))),
            _ => Ok(None),
        }
    }

    /// The function of engine time that an expression is.
    fn stair(&self, scalar: &Scalar) -> std::result::Result<Stair, Unsolved> {
        if let Some(instant) = engine_time(scalar) {
            return match instant {
                Instant::Timestamp => Ok(Stair::NOW),
                Instant::Date => Stair::NOW.rounded(DAY).ok_or(Unsolved::Form),
                Instant::Time => Err(Unsolved::Form),
            };
        }
        let unit = self.unit(scalar).ok().flatten().ok_or(Unsolved::Form)?;
        let exact = if let Some(cast) = scalar.downcast_ref::<CastExpr>() {
            self.stair(cast.expr())?
        } else if let Some(binary) = scalar.downcast_ref::<BinaryExpr>() {
            let (left, right) = (binary.left(), binary.right());
            let (time, by) = match (binary.op(), constant(left), constant(right)) {
                (Operator::Plus, None, Some(by)) => (left, by?),
                (Operator::Plus, Some(by), None) => (right, by?),
                (Operator::Minus, None, Some(by)) => (left, -by?),
                _ => return Err(Unsolved::Form),
            };
            self.stair(time)?.plus(by)
        } else if let Some(function) = scalar.downcast_ref::<ScalarFunctionExpr>() {
            self.truncated(function)?
        } else {
            return Err(Unsolved::Form);
        };
        exact.rounded(unit).ok_or(Unsolved::Form)
    }

    /// DATE_TRUNC to units of one length.
    fn truncated(&self, function: &ScalarFunctionExpr) -> std::result::Result<Stair, Unsolved> {
        let ("date_trunc", [unit, time]) = (function.fun().name(), function.args()) else { return Err(Unsolved::Form) };
        let unit = unit.downcast_ref::<Literal>().and_then(|unit| unit.value().try_as_str().flatten()).ok_or(Unsolved::Form)?;
        let time = self.stair(time)?;
        const SECOND: i128 = 1_000 * MILLISECOND;
        // The first Monday is three days before the epoch.
        const TO_MONDAY: i128 = 3 * DAY;
        let rounded = match unit.to_lowercase().as_str() {
            "millisecond" => time.rounded(MILLISECOND),
            "second" => time.rounded(SECOND),
            "minute" => time.rounded(60 * SECOND),
            "hour" => time.rounded(3_600 * SECOND),
            "day" => time.rounded(DAY),
            "week" => time.plus(TO_MONDAY).rounded(7 * DAY).map(|week| week.plus(-TO_MONDAY)),
            _ => None,
        };
        rounded.ok_or(Unsolved::Form)
    }

    /// The nanoseconds of which an expression's values are whole multiples since the epoch, if they are moments in UTC.
    fn unit(&self, scalar: &Scalar) -> Result<Option<i128>> {
        Ok(match scalar.data_type(&self.schema)? {
            DataType::Date32 => Some(DAY),
            DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(is_utc) => {
                Some(i128::from(per_second(TimeUnit::Nanosecond) / per_second(unit)))
            }
            _ => None,
        })
    }
}

/// The number of an expression among columns, to which it is added if it is not there.
fn number_of(scalar: &Scalar, among: &mut Vec<Item>, row: &RowType) -> Result<usize> {
    if let Some(number) = among.iter().position(|(had, _)| had.as_ref() == scalar.as_ref()) {
        return Ok(number);
    }
    among.push(plain_item(Arc::clone(scalar), &readable(scalar), row)?);
    Ok(among.len() - 1)
}

fn same(left: When, right: When) -> When {
    When::Same(Box::new(left), Box::new(right))
}

/// The nanoseconds of a constant interval; None of what is none.
fn constant(scalar: &Scalar) -> Option<std::result::Result<i128, Unsolved>> {
    let length = match scalar.downcast_ref::<Literal>()?.value() {
        ScalarValue::DurationSecond(Some(length)) => i128::from(*length) * 1_000 * MILLISECOND,
        ScalarValue::DurationMillisecond(Some(length)) => i128::from(*length) * MILLISECOND,
        ScalarValue::DurationMicrosecond(Some(length)) => i128::from(*length) * 1_000,
        ScalarValue::DurationNanosecond(Some(length)) => i128::from(*length),
        ScalarValue::IntervalYearMonth(Some(_)) => return Some(Err(Unsolved::Months)),
        interval => match months_and_nanoseconds(interval)? {
            (0, nanoseconds) => nanoseconds,
            _ => return Some(Err(Unsolved::Months)),
        },
    };
    Some(Ok(length))
}

/// Why a comparison cannot be solved.
#[derive(Debug, Clone, Copy)]
enum Unsolved {
    Form,
    Months,
}

impl Unsolved {
    fn of(self, condition: &Scalar) -> Error {
        match self {
            Unsolved::Form => unsolved(condition),
            Unsolved::Months => Error::unsupported(format!(
                "{}: months differ in length, so rows would come back at their ends; add the interval to the other side, as in NOW() < ts + INTERVAL '1' MONTH",
                readable(condition)
            )),
        }
    }
}

fn unsolved(condition: &Scalar) -> Error {
    Error::unsupported(format!(
        "{} does not say at which instant a row comes or goes: bring NOW() to one side, as in NOW() < ts + INTERVAL '1' DAY",
        readable(condition)
    ))
}
