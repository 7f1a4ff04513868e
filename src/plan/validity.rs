//! When a row is there: a condition on engine time, solved for it.
//!
//! A temporal filter's condition is a function of the row and of the instant. Over time each comparison in it changes
//! exactly once a row, at a moment that a value of the row says ([`Turn`]); what is left of the condition is how these
//! comparisons and the row's own booleans go together ([`When`]). So for one row the condition is constant between its
//! turns, and the row is there for a few intervals of instants, known from the row alone.

use std::fmt;

use super::Column;
use crate::engine::time::LAST_INSTANT;
use crate::sql::duration::format_duration;

/// Nanoseconds of a millisecond.
pub const MILLISECOND: i128 = 1_000_000;

/// Nanoseconds of a day.
pub const DAY: i128 = 86_400_000 * MILLISECOND;

/// A temporal filter's condition over the columns that follow a row's own: so many moments, then its BOOLEANs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Validity {
    pub moments: usize,
    pub turns: Vec<Turn>,
    pub when: When,
}

/// How comparisons with engine time and booleans of the row go together, by the three-valued logic of SQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum When {
    /// Whether the instant comes before the turn of this number; NULL where its moment is.
    Before(usize),
    /// The BOOLEAN of this number.
    Row(usize),
    Constant(Option<bool>),
    Not(Box<When>),
    And(Box<When>, Box<When>),
    Or(Box<When>, Box<When>),
    /// Whether both are the same, NULL being a value like others.
    Same(Box<When>, Box<When>),
}

/// When a comparison of engine time with a moment `x` of the row (a DATE or TIMESTAMP) changes: before that
/// `stair(instant) < x` or `<= x` is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Turn {
    pub moment: usize,
    pub stair: Stair,
    pub or_equal: bool,
}

/// A function of engine time that never decreases: `whole grains of (instant + phase) + offset`, all in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stair {
    pub grain: i128,
    pub phase: i128,
    pub offset: i128,
}

impl Stair {
    /// The instant itself.
    pub const NOW: Stair = Stair { grain: MILLISECOND, phase: 0, offset: 0 };

    /// This much later.
    pub fn plus(self, nanoseconds: i128) -> Stair {
        Stair { offset: self.offset + nanoseconds, ..self }
    }

    /// Rounded down to whole units, if that is such a function too.
    pub fn rounded(self, unit: i128) -> Option<Stair> {
        if self.grain % unit == 0 && self.offset % unit == 0 {
            Some(self)
        } else if unit % self.grain == 0 && self.offset % self.grain == 0 {
            Some(Stair { grain: unit, phase: self.phase + self.offset, offset: 0 })
        } else {
            None
        }
    }
}

impl Turn {
    /// The first instant at which the comparison with `x` (nanoseconds since the epoch) is true no longer, where it is one:
    /// 0 says that it never was, one behind [`LAST_INSTANT`] that it always will be.
    pub fn at(&self, x: i128) -> u64 {
        let Stair { grain, phase, offset } = self.stair;
        let x = x - offset;
        let grains = if self.or_equal { x.div_euclid(grain) + 1 } else { -(-x).div_euclid(grain) };
        let nanoseconds = grains * grain - phase;
        let instant = -(-nanoseconds).div_euclid(MILLISECOND);
        u64::try_from(instant.clamp(0, i128::from(LAST_INSTANT) + 1)).unwrap_or(0)
    }
}

impl When {
    /// The opposite.
    pub fn negated(self) -> When {
        match self {
            When::Not(inner) => *inner,
            other => When::Not(Box::new(other)),
        }
    }

    /// Both.
    pub fn and(self, other: When) -> When {
        When::And(Box::new(self), Box::new(other))
    }

    /// One or the other.
    pub fn or(self, other: When) -> When {
        When::Or(Box::new(self), Box::new(other))
    }

    /// Whether it is true, given what its parts are.
    pub fn is(&self, before: &impl Fn(usize) -> Option<bool>, row: &impl Fn(usize) -> Option<bool>) -> Option<bool> {
        match self {
            When::Before(turn) => before(*turn),
            When::Row(column) => row(*column),
            When::Constant(value) => *value,
            When::Not(inner) => inner.is(before, row).map(|value| !value),
            When::And(left, right) => and(left.is(before, row), right.is(before, row)),
            When::Or(left, right) => or(left.is(before, row), right.is(before, row)),
            When::Same(left, right) => Some(left.is(before, row) == right.is(before, row)),
        }
    }

    /// What it may be of some row when all turns are past.
    fn in_the_end(&self) -> Vec<Option<bool>> {
        let both = |left: &When, right: &When, of: &dyn Fn(Option<bool>, Option<bool>) -> Option<bool>| {
            let right = right.in_the_end();
            left.in_the_end().into_iter().flat_map(|left| right.iter().map(move |right| of(left, *right))).collect()
        };
        let mut found: Vec<Option<bool>> = match self {
            When::Before(_) => vec![None, Some(false)],
            When::Row(_) => vec![None, Some(false), Some(true)],
            When::Constant(value) => vec![*value],
            When::Not(inner) => inner.in_the_end().into_iter().map(|value| value.map(|value| !value)).collect(),
            When::And(left, right) => both(left, right, &and),
            When::Or(left, right) => both(left, right, &or),
            When::Same(left, right) => both(left, right, &|left, right| Some(left == right)),
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

impl Validity {
    /// Whether every row goes at some time.
    pub fn ends(&self) -> bool {
        !self.when.in_the_end().contains(&Some(true))
    }

    /// The intervals `from..until` of instants in which a row is there, in order and apart; `turns` are its turns' instants,
    /// `row` its booleans. The first instant is 0, and what has no end ends behind the last instant.
    pub fn intervals(&self, turns: &[Option<u64>], row: impl Fn(usize) -> Option<bool>, into: &mut Vec<(u64, u64)>) {
        const END: u64 = LAST_INSTANT.unsigned_abs() + 1;
        into.clear();
        let mut from = 0;
        while from < END {
            let until = turns.iter().flatten().copied().filter(|turn| *turn > from).min().unwrap_or(END);
            if self.when.is(&|turn| turns[turn].map(|turn| from < turn), &row) == Some(true) {
                match into.last_mut() {
                    Some(last) if last.1 == from => last.1 = until,
                    _ => into.push((from, until)),
                }
            }
            from = until;
        }
    }

    /// The condition as a person would write it, with the columns that it is over.
    pub(super) fn text<'a>(&'a self, columns: &'a [Column]) -> impl fmt::Display + 'a {
        Text { validity: self, columns, when: &self.when, within: 0 }
    }
}

/// A condition as text.
struct Text<'a> {
    validity: &'a Validity,
    columns: &'a [Column],
    when: &'a When,
    /// How tightly what it stands in binds.
    within: u8,
}

impl Text<'_> {
    fn part<'b>(&'b self, when: &'b When, within: u8) -> Text<'b> {
        Text { when, within, ..*self }
    }

    fn comparison(&self, f: &mut fmt::Formatter<'_>, turn: usize, negated: bool) -> fmt::Result {
        let Turn { moment, stair, or_equal } = self.validity.turns[turn];
        let op = match (or_equal, negated) {
            (false, false) => "<",
            (true, false) => "<=",
            (false, true) => ">=",
            (true, true) => ">",
        };
        write!(f, "{stair} {op} {}", self.columns[moment].name)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, binds, left, right) = match self.when {
            When::Before(turn) => return self.comparison(f, *turn, false),
            When::Row(column) => return f.write_str(&self.columns[self.validity.moments + column].name),
            When::Constant(Some(value)) => return write!(f, "{value}"),
            When::Constant(None) => return f.write_str("NULL"),
            When::Not(inner) => match &**inner {
                When::Before(turn) => return self.comparison(f, *turn, true),
                inner => return write!(f, "NOT {}", self.part(inner, 4)),
            },
            When::Same(left, right) => ("IS NOT DISTINCT FROM", 3, left, right),
            When::And(left, right) => ("AND", 2, left, right),
            When::Or(left, right) => ("OR", 1, left, right),
        };
        let (left, right) = (self.part(left, binds), self.part(right, binds));
        if binds < self.within { write!(f, "({left} {operator} {right})") } else { write!(f, "{left} {operator} {right}") }
    }
}

impl fmt::Display for Stair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = shifted("NOW()", self.phase);
        let whole = match self.grain {
            MILLISECOND => now,
            grain => format!("{now} in whole {}", length(grain)),
        };
        f.write_str(&shifted(&whole, self.offset))
    }
}

fn shifted(what: &str, by: i128) -> String {
    match by {
        0 => what.to_owned(),
        1.. => format!("({what} + {})", length(by)),
        _ => format!("({what} - {})", length(-by)),
    }
}

fn length(nanoseconds: i128) -> String {
    match u64::try_from(nanoseconds / MILLISECOND) {
        Ok(milliseconds) if nanoseconds % MILLISECOND == 0 => format_duration(milliseconds),
        _ => format!("{nanoseconds} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = LAST_INSTANT as u64 + 1;

    fn intervals(when: When, turns: &[Option<u64>]) -> Vec<(u64, u64)> {
        let turn = Turn { moment: 0, stair: Stair::NOW, or_equal: false };
        let mut found = vec![];
        Validity { moments: 1, turns: vec![turn; turns.len()], when }.intervals(turns, |_| None, &mut found);
        found
    }

    fn before(turn: usize) -> When {
        When::Before(turn)
    }

    #[test]
    fn a_turn_is_the_first_instant_at_which_the_comparison_fails() {
        let stairs = [
            Stair::NOW,
            Stair::NOW.plus(-7 * MILLISECOND),
            Stair::NOW.plus(1_500),
            Stair { grain: 4 * MILLISECOND, phase: 0, offset: 0 },
            Stair { grain: 4 * MILLISECOND, phase: 3 * MILLISECOND, offset: -2_000_001 },
        ];
        for stair in stairs {
            for or_equal in [false, true] {
                for x in (-20_000_000i128..20_000_000).step_by(333_333).chain([0, 4_000_000, 8_000_000, 5_000_000]) {
                    let holds = |instant: i128| {
                        let value = (instant * MILLISECOND + stair.phase).div_euclid(stair.grain) * stair.grain + stair.offset;
                        value < x || or_equal && value == x
                    };
                    let expected = (0..100).find(|instant| !holds(*instant)).expect("it fails in the end");
                    assert_eq!(i128::from(Turn { moment: 0, stair, or_equal }.at(x)), expected, "{stair:?} {or_equal} {x}");
                }
            }
        }
    }

    #[test]
    fn moments_out_of_range_are_never_and_always() {
        let turn = Turn { moment: 0, stair: Stair::NOW.plus(-DAY * 100_000), or_equal: false };
        assert_eq!(turn.at(i128::from(i64::MIN) * DAY), 0);
        assert_eq!(turn.at(i128::from(i64::MAX) * DAY), END);
    }

    #[test]
    fn rounding_is_refused_where_the_steps_would_be_uneven() {
        let now = Stair::NOW;
        assert_eq!(now.rounded(1), Some(now));
        assert_eq!(now.plus(1).rounded(MILLISECOND), None);
        let day = now.plus(5 * MILLISECOND).rounded(DAY).expect("days");
        assert_eq!(day, Stair { grain: DAY, phase: 5 * MILLISECOND, offset: 0 });
        assert_eq!(day.plus(DAY).rounded(MILLISECOND), Some(day.plus(DAY)));
        assert_eq!(day.rounded(DAY * 3 / 2), None);
    }

    #[test]
    fn a_row_is_there_in_intervals_that_do_not_touch() {
        assert_eq!(intervals(before(0), &[Some(7)]), [(0, 7)]);
        assert_eq!(intervals(before(0).negated(), &[Some(7)]), [(7, END)]);
        assert_eq!(intervals(before(0), &[Some(0)]), []);
        assert_eq!(intervals(before(0), &[Some(END)]), [(0, END)]);
        assert_eq!(intervals(before(0).or(before(1).negated()), &[Some(3), Some(9)]), [(0, 3), (9, END)]);
        assert_eq!(intervals(before(0).or(before(1).negated()), &[Some(9), Some(3)]), [(0, END)]);
        assert_eq!(intervals(before(0).negated().and(before(1)), &[Some(3), Some(9)]), [(3, 9)]);
    }

    #[test]
    fn what_is_compared_with_null_is_not_there_unless_the_rest_is_true() {
        assert_eq!(intervals(before(0), &[None]), []);
        assert_eq!(intervals(before(0).negated(), &[None]), []);
        assert_eq!(intervals(before(0).or(before(1)), &[None, Some(4)]), [(0, 4)]);
        let is_null = When::Same(Box::new(before(0)), Box::new(When::Constant(None)));
        assert_eq!(intervals(is_null, &[None]), [(0, END)]);
    }

    #[test]
    fn a_condition_ends_if_no_row_can_pass_it_when_all_turns_are_past() {
        let ends = |when| Validity { moments: 0, turns: vec![], when }.ends();
        assert!(ends(before(0)));
        assert!(!ends(before(0).negated()));
        assert!(ends(before(0).negated().and(before(1))));
        assert!(!ends(before(0).or(When::Row(0))));
        assert!(ends(before(0).and(When::Row(0))));
        assert!(!ends(When::Same(Box::new(before(0)), Box::new(When::Constant(None)))));
        assert!(ends(When::Same(Box::new(before(0)), Box::new(When::Constant(Some(true))))));
    }
}
