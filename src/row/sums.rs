//! Sums as differences: what an accumulable aggregate keeps of a group.
//!
//! A group's [`Sums`] are a vector of 64-bit integers under addition: how many rows there are, and for each [`Sum`] of
//! the plan some *slots*. Because nothing but integer addition ever happens to them, they do not depend on the order
//! of the updates, a retraction takes away exactly what its row added, and a merge of batches can add them blindly.
//!
//! - A count is one slot.
//! - An integer or decimal is cut into digits of 32 bits, one slot each, the top one signed. Digits are not carried
//!   while adding: 2^31 rows fit before a slot could overflow.
//! - A double is an integer times a power of two, so a sum of doubles is a sum of integers over a fixed point of 2^-1074
//!   (a *superaccumulator*: Kulisch's long accumulator, with digits kept sparsely because data rarely spans more than
//!   a few of them). It is exact: SUM over doubles does not drift under retractions, and one worker or eight give the
//!   same bits. Rounding happens once, when the result is read.
//! - A least or greatest value is one slot, its [rank](super::ranks), of which not the sum but the greater one is kept. That
//!   cannot be taken back: it is for rows that only come. Where all of a group goes at once it does not matter any more.

use std::sync::Arc;

use differential_dataflow::difference::{IsZero, Semigroup};
use differential_dataflow::trace::implementations::BatchContainer;
use num_bigint::{BigInt, Sign};
use smallvec::SmallVec;

use super::bytes::Bounds;
use super::columns::{Columns, Taken};
use crate::plan::{Sum, SumKind};

/// The sums of one group, or a change to them.
#[derive(Debug, Default, Eq, PartialOrd, Ord)]
pub struct Sums {
    rows: i64,
    shape: Shape,
    slots: SmallVec<[i64; 4]>,
}

/// What the slots of sums are: so many that are added up, then so many extremes, both at fixed places; behind them pairs
/// `(tag, digit)` of sparse digits, by ascending tag.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    added: u32,
    extremes: u32,
}

impl Shape {
    /// How many slots are at fixed places.
    #[inline(always)]
    fn dense(self) -> usize {
        self.added as usize + self.extremes as usize
    }

    /// The slots that are added up, the extremes and the sparse digits.
    #[inline(always)]
    fn split(self, slots: &[i64]) -> (&[i64], &[i64], &[i64]) {
        let (added, others) = slots.split_at((self.added as usize).min(slots.len()));
        let (extremes, sparse) = others.split_at((self.extremes as usize).min(others.len()));
        (added, extremes, sparse)
    }
}

/// Where in [`Sums`] each [`Sum`] of an arrangement has its slots.
#[derive(Debug, Clone)]
pub struct SlotLayout {
    places: Arc<[Place]>,
    shape: Shape,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    kind: SumKind,
    start: usize,
    digits: usize,
    scale: i8,
}

/// Slots of a double beside its digits: NaNs, infinities, negative infinities.
const SPECIALS: usize = 3;
/// The exponent of the lowest bit of the lowest digit of a sum of doubles, and of one of their squares.
const UNIT: i32 = -1074;
const SQUARE_UNIT: i32 = 2 * UNIT;

impl SlotLayout {
    /// Lays out these sums; `decimals(column)` gives the scale of a column that is a decimal, which has 128 bits.
    pub fn new(sums: &[Sum], decimals: impl Fn(usize) -> Option<i8>) -> Self {
        let mut shape = Shape::default();
        let mut places: Vec<Place> = Vec::with_capacity(sums.len());
        for sum in sums {
            let scale = sum.column.and_then(&decimals);
            let digits = match sum.kind {
                SumKind::Count | SumKind::True => 1,
                SumKind::Integer if scale.is_some() => 4,
                SumKind::Integer => 2,
                SumKind::Float | SumKind::FloatSquare => SPECIALS,
                SumKind::Least | SumKind::Greatest => 1,
            };
            let slots = if is_extreme(sum.kind) { &mut shape.extremes } else { &mut shape.added };
            places.push(Place { kind: sum.kind, start: *slots as usize, digits, scale: scale.unwrap_or(0) });
            *slots += digits as u32;
        }
        places.iter_mut().filter(|place| is_extreme(place.kind)).for_each(|place| place.start += shape.added as usize);
        SlotLayout { places: places.into(), shape }
    }

    /// Sums of nothing.
    pub fn zero(&self) -> Sums {
        let mut slots = SmallVec::from_elem(0, self.shape.dense());
        slots[self.shape.added as usize..].fill(i64::MIN);
        Sums { rows: 0, shape: self.shape, slots }
    }

    /// Counts `diff` rows.
    #[inline]
    pub fn add_rows(&self, sums: &mut Sums, diff: i64) {
        sums.rows += diff;
    }

    /// Adds `diff` to a count.
    #[inline]
    pub fn add_count(&self, sums: &mut Sums, sum: usize, diff: i64) {
        sums.slots[self.places[sum].start] += diff;
    }

    /// Adds `value * diff` to an integer sum.
    #[inline]
    pub fn add_integer(&self, sums: &mut Sums, sum: usize, value: i128, diff: i64) {
        let place = self.places[sum];
        let mut rest = value;
        for slot in place.start..place.start + place.digits - 1 {
            sums.slots[slot] += (rest & 0xFFFF_FFFF) as i64 * diff;
            rest >>= 32;
        }
        sums.slots[place.start + place.digits - 1] += rest as i64 * diff;
    }

    /// Takes note of a value's rank.
    #[inline]
    pub fn add_rank(&self, sums: &mut Sums, sum: usize, rank: i64) {
        let place = self.places[sum];
        let slot = &mut sums.slots[place.start];
        *slot = (*slot).max(if place.kind == SumKind::Least { !rank } else { rank });
    }

    /// The rank of the least or greatest value, if there is any.
    pub fn rank(&self, sums: &Sums, sum: usize) -> i64 {
        let place = self.places[sum];
        let slot = sums.slots[place.start];
        if place.kind == SumKind::Least { !slot } else { slot }
    }

    /// Adds `value * diff`, or `value * value * diff`, to a sum of doubles.
    pub fn add_float(&self, sums: &mut Sums, sum: usize, value: f64, diff: i64) {
        let place = self.places[sum];
        if !value.is_finite() {
            let square = place.kind == SumKind::FloatSquare;
            let special = if value.is_nan() {
                0
            } else if value > 0.0 || square {
                1
            } else {
                2
            };
            sums.slots[place.start + special] += diff;
            return;
        }
        if value == 0.0 {
            return;
        }
        let bits = value.abs().to_bits();
        let exponent = (bits >> 52) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // value = mantissa * 2^(position + UNIT)
        let (mantissa, position) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let (magnitude, position, negative) = match place.kind {
            SumKind::FloatSquare => (u128::from(mantissa) * u128::from(mantissa), 2 * position, false),
            _ => (u128::from(mantissa), position, value < 0.0),
        };
        let signed = if negative { -diff } else { diff };
        let (mut digit, shift) = (position / 32, position % 32);
        // The magnitude shifted into place, as a low digit and the rest.
        let mut low = ((magnitude << shift) & 0xFFFF_FFFF) as i64;
        let mut rest = magnitude >> (32 - shift);
        loop {
            sums.add_sparse(tag(sum, digit), low * signed);
            if rest == 0 {
                break;
            }
            low = (rest & 0xFFFF_FFFF) as i64;
            rest >>= 32;
            digit += 1;
        }
    }

    /// A count.
    pub fn count(&self, sums: &Sums, sum: usize) -> i64 {
        sums.slots[self.places[sum].start]
    }

    /// An integer sum; None where it does not fit 128 bits.
    pub fn integer(&self, sums: &Sums, sum: usize) -> Option<i128> {
        let place = self.places[sum];
        let mut total: i128 = 0;
        for slot in (place.start..place.start + place.digits).rev() {
            total = total.checked_mul(1 << 32)?.checked_add(i128::from(sums.slots[slot]))?;
        }
        Some(total)
    }

    /// Whether this is a sum of doubles.
    pub fn is_float(&self, sum: usize) -> bool {
        matches!(self.places[sum].kind, SumKind::Float | SumKind::FloatSquare)
    }

    /// Decimal places of the numbers that are summed.
    pub fn scale(&self, sum: usize) -> i8 {
        self.places[sum].scale
    }

    /// The double nearest to an integer sum divided by `count`.
    pub fn integer_mean(&self, sums: &Sums, sum: usize, count: i64) -> f64 {
        // Both are doubles then, and a quotient of doubles is rounded once.
        let is_double = |magnitude: u128| magnitude <= 1 << f64::MANTISSA_DIGITS;
        match self.integer(sums, sum) {
            Some(total) if is_double(total.unsigned_abs()) && is_double(count.unsigned_abs().into()) => total as f64 / count as f64,
            _ => self.integer_digits(sums, sum).mean(count),
        }
    }

    /// An integer sum as an exact number.
    pub fn integer_digits(&self, sums: &Sums, sum: usize) -> Digits {
        Digits { special: None, value: self.integer(sums, sum).unwrap_or(i128::MAX).into(), exponent: 0 }
    }

    /// A sum of doubles, without rounding.
    pub fn digits(&self, sums: &Sums, sum: usize) -> Digits {
        let place = self.places[sum];
        let specials = &sums.slots[place.start..place.start + SPECIALS];
        let special = match (specials[0] != 0, specials[1] != 0, specials[2] != 0) {
            (false, false, false) => None,
            (false, true, false) => Some(f64::INFINITY),
            (false, false, true) => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        };
        let mut value = BigInt::ZERO;
        let mut low = None;
        for pair in sums.sparse().chunks_exact(2).filter(|pair| pair[0] >> 16 == sum as i64) {
            let digit = (pair[0] & 0xFFFF) as i32;
            let low = *low.get_or_insert(digit);
            value += BigInt::from(pair[1]) << (32 * (digit - low)) as usize;
        }
        let unit = if place.kind == SumKind::FloatSquare { SQUARE_UNIT } else { UNIT };
        Digits { special, value, exponent: unit + 32 * low.unwrap_or(0) }
    }
}

fn is_extreme(kind: SumKind) -> bool {
    matches!(kind, SumKind::Least | SumKind::Greatest)
}

fn tag(sum: usize, digit: i32) -> i64 {
    (sum as i64) << 16 | i64::from(digit)
}

impl Sums {
    /// How many rows the group has.
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// Nothing but a number of rows.
    pub fn of_rows(rows: i64) -> Sums {
        Sums { rows, ..Sums::default() }
    }

    /// A change that takes these sums away, extremes apart.
    pub fn negated(mut self) -> Sums {
        let (added, others) = self.slots.split_at_mut(self.shape.added as usize);
        added.iter_mut().for_each(|slot| *slot = -*slot);
        others.iter_mut().skip(self.shape.extremes as usize + 1).step_by(2).for_each(|digit| *digit = -*digit);
        self.rows = -self.rows;
        self
    }

    /// The same, borrowed.
    #[inline(always)]
    pub fn borrow(&self) -> SumsRef<'_> {
        SumsRef { rows: self.rows, shape: self.shape, slots: &self.slots }
    }

    fn sparse(&self) -> &[i64] {
        self.shape.split(&self.slots).2
    }

    fn add_sparse(&mut self, tag: i64, digit: i64) {
        if digit == 0 {
            return;
        }
        let mut index = self.shape.dense();
        while index < self.slots.len() && self.slots[index] < tag {
            index += 2;
        }
        if index < self.slots.len() && self.slots[index] == tag {
            self.slots[index + 1] += digit;
            if self.slots[index + 1] == 0 {
                self.slots.drain(index..index + 2);
            }
        } else {
            self.slots.insert_many(index, [tag, digit]);
        }
    }

    #[inline]
    fn add(&mut self, rows: i64, shape: Shape, slots: &[i64]) {
        self.rows += rows;
        if self.slots.is_empty() {
            self.shape = shape;
            self.slots.extend_from_slice(slots);
            return;
        }
        let (added, extremes, sparse) = shape.split(slots);
        let (ours, others) = self.slots.split_at_mut(added.len());
        ours.iter_mut().zip(added).for_each(|(ours, theirs)| *ours += theirs);
        others.iter_mut().zip(extremes).for_each(|(ours, theirs)| *ours = (*ours).max(*theirs));
        sparse.chunks_exact(2).for_each(|pair| self.add_sparse(pair[0], pair[1]));
    }
}

impl Clone for Sums {
    #[inline]
    fn clone(&self) -> Self {
        Sums { rows: self.rows, shape: self.shape, slots: SmallVec::from_slice(&self.slots) }
    }

    /// Where it is, without a move.
    #[inline]
    fn clone_from(&mut self, other: &Self) {
        (self.rows, self.shape) = (other.rows, other.shape);
        self.slots.clear();
        self.slots.extend_from_slice(&other.slots);
    }
}

impl PartialEq for Sums {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.borrow() == other.borrow()
    }
}

impl IsZero for Sums {
    /// Whatever the extremes are: of no rows there is none.
    fn is_zero(&self) -> bool {
        let (added, _, sparse) = self.shape.split(&self.slots);
        self.rows == 0 && added.iter().all(|slot| *slot == 0) && sparse.is_empty()
    }
}

impl Semigroup for Sums {
    fn plus_equals(&mut self, other: &Self) {
        self.add(other.rows, other.shape, &other.slots);
    }
}

/// An exact number: `value * 2^exponent`, or a NaN or infinity.
#[derive(Debug, Clone, PartialEq)]
pub struct Digits {
    special: Option<f64>,
    value: BigInt,
    exponent: i32,
}

impl Digits {
    /// The nearest double.
    pub fn to_f64(&self) -> f64 {
        self.special.unwrap_or_else(|| round(&self.value, self.exponent, 1))
    }

    /// The double nearest to this divided by `count`.
    pub fn mean(&self, count: i64) -> f64 {
        self.special.map_or_else(|| round(&self.value, self.exponent, count), |special| special / count as f64)
    }

    /// The variance of `count` numbers of which this is the sum and `squares` the sum of squares, over `count` or
    /// (`sample`) `count - 1`; exact but for one rounding.
    pub fn variance(&self, squares: &Digits, count: i64, sample: bool) -> f64 {
        if self.special.is_some() || squares.special.is_some() {
            return f64::NAN;
        }
        // (count * sum(x^2) - sum(x)^2) / (count * divisor), over a common exponent.
        let square = &self.value * &self.value;
        let common = squares.exponent.min(2 * self.exponent);
        let scaled = (&squares.value * count) << (squares.exponent - common) as usize;
        let square = square << (2 * self.exponent - common) as usize;
        let divisor = if sample { count - 1 } else { count };
        let numerator = scaled - square;
        round_ratio(&numerator, common, &(BigInt::from(count) * divisor))
    }
}

fn round(value: &BigInt, exponent: i32, divisor: i64) -> f64 {
    round_ratio(value, exponent, &BigInt::from(divisor))
}

/// The double nearest to `value * 2^exponent / divisor`, for a positive divisor.
fn round_ratio(value: &BigInt, exponent: i32, divisor: &BigInt) -> f64 {
    if value.sign() == Sign::NoSign {
        return 0.0;
    }
    // Scale so that the quotient has 64 or 65 bits: more than a double's 53, so that one more bit for the remainder
    // ("sticky") is enough to round right.
    let shift = 64 - (value.bits() as i64 - divisor.bits() as i64);
    let numerator = if shift >= 0 { value.magnitude() << shift as usize } else { value.magnitude() >> (-shift) as usize };
    let lost = shift < 0 && (&numerator << (-shift) as usize) != *value.magnitude();
    let divisor = divisor.magnitude();
    let quotient = &numerator / divisor;
    let sticky = lost || &quotient * divisor != numerator;
    let bits: u128 = quotient.iter_u64_digits().enumerate().map(|(i, digit)| u128::from(digit) << (64 * i)).sum();
    let rounded = (bits << 1 | u128::from(sticky)) as f64;
    let magnitude = scale(rounded, i64::from(exponent) - shift - 1);
    if value.sign() == Sign::Minus { -magnitude } else { magnitude }
}

/// `value * 2^exponent`, in steps that stay within a double's range.
fn scale(mut value: f64, mut exponent: i64) -> f64 {
    while exponent > 1000 {
        value *= 2f64.powi(1000);
        exponent -= 1000;
        if value.is_infinite() {
            return value;
        }
    }
    while exponent < -1000 {
        value *= 2f64.powi(-1000);
        exponent += 1000;
        if value == 0.0 {
            return value;
        }
    }
    value * 2f64.powi(exponent as i32)
}

/// A borrowed [`Sums`].
#[derive(Debug, Clone, Copy, Eq, PartialOrd, Ord)]
pub struct SumsRef<'a> {
    rows: i64,
    shape: Shape,
    slots: &'a [i64],
}

impl PartialEq for SumsRef<'_> {
    /// Slot by slot: there are few, and a call of `memcmp` costs more than they do.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.shape, self.slots.len()) == (other.rows, other.shape, other.slots.len())
            && self.slots.iter().zip(other.slots).all(|(ours, theirs)| ours == theirs)
    }
}

impl Semigroup<SumsRef<'_>> for Sums {
    fn plus_equals(&mut self, other: &SumsRef<'_>) {
        self.add(other.rows, other.shape, other.slots);
    }
}

/// Many [`Sums`] of one layout in three allocations.
pub struct SumsContainer {
    rows: Vec<i64>,
    shape: Shape,
    bounds: Bounds,
    slots: Vec<i64>,
}

impl SumsContainer {
    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        8 * (self.rows.capacity() + self.slots.capacity()) + self.bounds.memory()
    }

    /// Gives back what is not needed.
    pub fn fit(&mut self) {
        self.rows.shrink_to_fit();
        self.slots.shrink_to_fit();
        self.bounds.fit();
    }
}

impl SumsContainer {
    /// Puts it away under a name.
    pub fn put<'a>(&'a self, name: &str, to: &mut Columns<'a>) {
        to.count(self.shape.added as usize);
        to.count(self.shape.extremes as usize);
        to.put(&format!("{name}: rows"), &self.rows);
        to.put(name, &self.slots);
        self.bounds.put(name, to);
    }

    /// What was put away, if it is sums.
    pub fn take(name: &str, from: &mut Taken<'_>) -> Option<Self> {
        let shape = Shape { added: u32::try_from(from.count()?).ok()?, extremes: u32::try_from(from.count()?).ok()? };
        let (rows, slots): (Vec<i64>, Vec<i64>) = (from.column(&format!("{name}: rows"))?, from.column(name)?);
        let bounds = Bounds::take(name, slots.len(), from).filter(|bounds| bounds.len() == rows.len())?;
        // After the fixed places come pairs.
        let is_sums = |sums: usize| bounds.range(sums).len().checked_sub(shape.dense()).is_some_and(|sparse| sparse % 2 == 0);
        (0..rows.len()).all(is_sums).then_some(SumsContainer { rows, shape, bounds, slots })
    }
}

impl BatchContainer for SumsContainer {
    type Owned = Sums;
    type ReadItem<'a> = SumsRef<'a>;

    #[inline(always)]
    fn into_owned<'a>(item: SumsRef<'a>) -> Sums {
        Sums { rows: item.rows, shape: item.shape, slots: SmallVec::from_slice(item.slots) }
    }

    #[inline(always)]
    fn clone_onto<'a>(item: SumsRef<'a>, other: &mut Sums) {
        (other.rows, other.shape) = (item.rows, item.shape);
        other.slots.clear();
        other.slots.extend_from_slice(item.slots);
    }

    #[inline(always)]
    fn push_ref(&mut self, item: SumsRef<'_>) {
        self.rows.push(item.rows);
        self.shape = item.shape;
        self.slots.extend_from_slice(item.slots);
        self.bounds.push(item.slots.len());
    }

    fn push_own(&mut self, item: &Sums) {
        self.push_ref(item.borrow());
    }

    /// Keeps its memory: a merge clears one for each key.
    fn clear(&mut self) {
        self.rows.clear();
        self.slots.clear();
        self.bounds.clear();
    }

    fn with_capacity(size: usize) -> Self {
        SumsContainer { rows: Vec::with_capacity(size), shape: Shape::default(), bounds: Bounds::default(), slots: Vec::new() }
    }

    fn merge_capacity(one: &Self, other: &Self) -> Self {
        let mut merged = Self::with_capacity(one.rows.len() + other.rows.len());
        merged.slots.reserve(one.slots.len() + other.slots.len());
        merged
    }

    #[inline(always)]
    fn reborrow<'b, 'a: 'b>(item: SumsRef<'a>) -> SumsRef<'b> {
        item
    }

    #[inline(always)]
    fn index(&self, index: usize) -> SumsRef<'_> {
        SumsRef { rows: self.rows[index], shape: self.shape, slots: &self.slots[self.bounds.range(index)] }
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn layout(kinds: &[SumKind]) -> SlotLayout {
        let sums: Vec<Sum> = kinds.iter().map(|kind| Sum { kind: *kind, column: Some(0), filter: None }).collect();
        SlotLayout::new(&sums, |_| None)
    }

    #[test]
    fn what_is_added_and_taken_away_leaves_zero() {
        let layout = layout(&[SumKind::Integer, SumKind::Float, SumKind::FloatSquare]);
        let mut rng = StdRng::seed_from_u64(1);
        let values: Vec<(i64, f64)> = (0..500).map(|_| (rng.random(), f64::from_bits(rng.random()))).collect();
        let mut sums = layout.zero();
        for sign in [1, -1] {
            for (integer, float) in &values {
                layout.add_rows(&mut sums, sign);
                layout.add_integer(&mut sums, 0, i128::from(*integer), sign);
                layout.add_float(&mut sums, 1, *float, sign);
                layout.add_float(&mut sums, 2, *float, sign);
            }
        }
        assert!(sums.is_zero());
    }

    #[test]
    fn integers_sum_as_in_128_bits() {
        let layout = layout(&[SumKind::Integer]);
        let mut rng = StdRng::seed_from_u64(2);
        let (mut sums, mut expected) = (layout.zero(), 0i128);
        for _ in 0..1000 {
            let (value, diff): (i64, i64) = (rng.random(), rng.random_range(-3..4));
            layout.add_integer(&mut sums, 0, i128::from(value), diff);
            expected += i128::from(value) * i128::from(diff);
        }
        assert_eq!(layout.integer(&sums, 0), Some(expected));
    }

    #[test]
    fn the_mean_of_integers_is_the_nearest_double_whatever_their_size() {
        let layout = layout(&[SumKind::Integer]);
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..2000 {
            let (mut sums, shift) = (layout.zero(), rng.random_range(0..62));
            let count = rng.random_range(1..1000);
            layout.add_integer(&mut sums, 0, i128::from(rng.random::<i64>() >> shift), rng.random_range(1..3));
            let exact = layout.integer_digits(&sums, 0).mean(count);
            assert_eq!(layout.integer_mean(&sums, 0, count), exact);
        }
    }

    #[test]
    fn extremes_are_those_of_all_that_came_beside_sums_of_it() {
        let layout = layout(&[SumKind::Least, SumKind::Integer, SumKind::Greatest, SumKind::Float, SumKind::Count]);
        let mut rng = StdRng::seed_from_u64(4);
        for _ in 0..200 {
            let ranks: Vec<i64> =
                (0..rng.random_range(1..9)).map(|_| rng.random_range(-99..99) * rng.random_range(1..i64::MAX / 99)).collect();
            let mut all = layout.zero();
            // Each on its own, then together, as batches are merged.
            for rank in &ranks {
                let mut one = layout.zero();
                layout.add_rows(&mut one, 1);
                layout.add_rank(&mut one, 0, *rank);
                layout.add_integer(&mut one, 1, i128::from(*rank), 1);
                layout.add_rank(&mut one, 2, *rank);
                layout.add_float(&mut one, 3, 0.5, 1);
                layout.add_count(&mut one, 4, 1);
                if rng.random_bool(0.5) { all.plus_equals(&one) } else { all.plus_equals(&one.borrow()) }
            }
            assert_eq!(
                [Some(layout.rank(&all, 0)), Some(layout.rank(&all, 2))],
                [ranks.iter().copied().min(), ranks.iter().copied().max()]
            );
            assert_eq!(layout.integer(&all, 1), Some(ranks.iter().map(|rank| i128::from(*rank)).sum()));
            assert_eq!((layout.digits(&all, 3).to_f64(), layout.count(&all, 4)), (0.5 * ranks.len() as f64, ranks.len() as i64));
        }
    }

    #[test]
    fn of_a_group_that_went_as_a_whole_no_extreme_is_left() {
        let layout = layout(&[SumKind::Greatest, SumKind::Integer]);
        let mut sums = layout.zero();
        for value in [5, -7] {
            layout.add_rows(&mut sums, 1);
            layout.add_rank(&mut sums, 0, value);
            layout.add_integer(&mut sums, 1, i128::from(value), 1);
        }
        let gone = sums.clone().negated();
        assert!(!sums.is_zero() && !gone.is_zero());
        sums.plus_equals(&gone);
        assert!(sums.is_zero());
    }

    #[test]
    fn a_sum_of_doubles_is_exact_where_rounding_would_lose_it() {
        let layout = layout(&[SumKind::Float]);
        let mut sums = layout.zero();
        for value in [1e300, 1.0, -1e300, 2f64.powi(-1074), 0.1] {
            layout.add_float(&mut sums, 0, value, 1);
        }
        // 1.0 + 0.1 + the least double, rounded once.
        assert_eq!(layout.digits(&sums, 0).to_f64(), 1.1);
        layout.add_float(&mut sums, 0, 1.0, -1);
        layout.add_float(&mut sums, 0, 0.1, -1);
        assert_eq!(layout.digits(&sums, 0).to_f64(), 2f64.powi(-1074));
    }

    #[test]
    fn a_sum_of_doubles_rounds_like_addition_of_two() {
        // IEEE addition of two numbers is their exact sum rounded once: so is ours.
        let layout = layout(&[SumKind::Float]);
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..20_000 {
            let a = rng.random_range(-1e3..1e3) * 2f64.powi(rng.random_range(-60..60));
            let b = rng.random_range(-1e3..1e3) * 2f64.powi(rng.random_range(-60..60));
            let mut sums = layout.zero();
            layout.add_float(&mut sums, 0, a, 1);
            layout.add_float(&mut sums, 0, b, 1);
            assert_eq!(layout.digits(&sums, 0).to_f64(), a + b, "{a} + {b}");
        }
    }

    #[test]
    fn infinities_and_nan_count_for_as_long_as_they_are_there() {
        let layout = layout(&[SumKind::Float]);
        let mut sums = layout.zero();
        layout.add_float(&mut sums, 0, 2.5, 1);
        layout.add_float(&mut sums, 0, f64::INFINITY, 1);
        assert_eq!(layout.digits(&sums, 0).to_f64(), f64::INFINITY);
        layout.add_float(&mut sums, 0, f64::NEG_INFINITY, 1);
        assert!(layout.digits(&sums, 0).to_f64().is_nan());
        layout.add_float(&mut sums, 0, f64::NEG_INFINITY, -1);
        layout.add_float(&mut sums, 0, f64::INFINITY, -1);
        assert_eq!(layout.digits(&sums, 0).to_f64(), 2.5);
    }

    #[test]
    fn variance_does_not_cancel() {
        // 1e9 + {0, 1, 2}: population variance 2/3, which the textbook formula in doubles loses.
        let layout = layout(&[SumKind::Float, SumKind::FloatSquare]);
        let mut sums = layout.zero();
        for value in [1e9, 1e9 + 1.0, 1e9 + 2.0] {
            layout.add_float(&mut sums, 0, value, 1);
            layout.add_float(&mut sums, 1, value, 1);
        }
        let (total, squares) = (layout.digits(&sums, 0), layout.digits(&sums, 1));
        assert_eq!(total.variance(&squares, 3, false), 2.0 / 3.0);
        assert_eq!(total.variance(&squares, 3, true), 1.0);
        assert_eq!(total.mean(3), 1e9 + 1.0);
    }
}
