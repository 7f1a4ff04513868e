//! The operators of the model, each computed from scratch over what its inputs remember.

use std::collections::BTreeMap;

use super::model::{Answers, Bag, Cell, Key, Operator, Row, add};

/// An aggregate over the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// COUNT(*)
    Rows,
    /// COUNT of a column.
    Count,
    Sum,
    Avg,
    Min,
    Max,
    CountDistinct,
    SumDistinct,
    /// COUNT(*) FILTER (WHERE column > 1)
    CountAboveOne,
    /// MIN(column) FILTER (WHERE column > 0)
    MinAboveZero,
    /// STRING_AGG(column, ',' ORDER BY column)
    Listed,
}

/// How the rows of two sides are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    Inner,
    Left,
    Right,
    Full,
    /// EXISTS
    Semi,
    /// NOT EXISTS
    Anti,
}

/// An operation on two multisets of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOperation {
    Except,
    Intersect,
    ExceptAll,
    IntersectAll,
}

/// Whether a pair of rows matches.
pub type On = Box<dyn Fn(&Row, &Row) -> bool>;

impl Aggregate {
    pub fn sql(self, column: &str) -> String {
        match self {
            Aggregate::Rows => "COUNT(*)".into(),
            Aggregate::Count => format!("COUNT({column})"),
            Aggregate::Sum => format!("SUM({column})"),
            Aggregate::Avg => format!("AVG({column})"),
            Aggregate::Min => format!("MIN({column})"),
            Aggregate::Max => format!("MAX({column})"),
            Aggregate::CountDistinct => format!("COUNT(DISTINCT {column})"),
            Aggregate::SumDistinct => format!("SUM(DISTINCT {column})"),
            Aggregate::CountAboveOne => format!("COUNT(*) FILTER (WHERE {column} > 1)"),
            Aggregate::MinAboveZero => format!("MIN({column}) FILTER (WHERE {column} > 0)"),
            Aggregate::Listed => format!("STRING_AGG({column}, ',' ORDER BY {column})"),
        }
    }

    /// The aggregate of one column of some rows.
    pub fn of(self, rows: &[Row], column: usize) -> Cell {
        let mut cells: Vec<Cell> = rows.iter().map(|row| row[column].clone()).filter(|cell| *cell != Cell::Null).collect();
        cells.sort();
        let above = |least: i64| cells.iter().filter(move |cell| **cell > Cell::Int(least));
        let distinct = |cells: &[Cell]| {
            let mut cells = cells.to_vec();
            cells.dedup();
            cells
        };
        match self {
            Aggregate::Rows => number(rows.len()),
            Aggregate::Count => number(cells.len()),
            Aggregate::CountDistinct => number(distinct(&cells).len()),
            Aggregate::CountAboveOne => number(above(1).count()),
            Aggregate::Sum => sum(&cells),
            Aggregate::SumDistinct => sum(&distinct(&cells)),
            Aggregate::Avg => mean(&cells),
            Aggregate::Min => cells.first().cloned().unwrap_or(Cell::Null),
            Aggregate::Max => cells.last().cloned().unwrap_or(Cell::Null),
            Aggregate::MinAboveZero => above(0).min().cloned().unwrap_or(Cell::Null),
            Aggregate::Listed if cells.is_empty() => Cell::Null,
            Aggregate::Listed => Cell::Text(cells.iter().map(text).collect::<Vec<_>>().join(",")),
        }
    }
}

fn number(count: usize) -> Cell {
    Cell::Int(count as i64)
}

fn integer(cell: &Cell) -> i64 {
    match cell {
        Cell::Int(number) => *number,
        other => panic!("{other:?} is no integer"),
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn sum(cells: &[Cell]) -> Cell {
    if cells.is_empty() { Cell::Null } else { Cell::Int(cells.iter().map(integer).sum()) }
}

/// In lowest terms, so that equal means are equal cells.
fn mean(cells: &[Cell]) -> Cell {
    let (Cell::Int(sum), count) = (sum(cells), cells.len() as i64) else { return Cell::Null };
    let divisor = (1..=count).rev().find(|d| sum % d == 0 && count % d == 0).unwrap_or(1);
    Cell::Mean(sum / divisor, count / divisor)
}

/// The rows of a bag, each as often as it is there, in order.
fn each(bag: &Bag) -> impl Iterator<Item = &Row> {
    bag.iter().flat_map(|(row, count)| std::iter::repeat_n(row, *count as usize))
}

fn groups(bag: &Bag, key: &Key) -> BTreeMap<Row, Vec<Row>> {
    let mut groups: BTreeMap<Row, Vec<Row>> = BTreeMap::new();
    each(bag).for_each(|row| groups.entry(key(row)).or_default().push(row.clone()));
    groups
}

/// Rows of each group, computed from all rows of the group, which come in order. The groups `always` are there over
/// no rows, too.
pub fn grouped(key: Key, always: Vec<Row>, answer: impl Fn(&Row, &[Row]) -> Vec<Row> + 'static) -> Operator {
    Box::new(move |inputs| {
        let mut groups = groups(inputs[0], &key);
        groups.extend(always.iter().filter(|key| !groups.contains_key(*key)).map(|key| (key.clone(), vec![])).collect::<Vec<_>>());
        let mut answers = Answers::new();
        for (key, rows) in groups {
            let said = answers.entry(key.clone()).or_default();
            answer(&key, &rows).iter().for_each(|row| add(said, row, 1));
        }
        answers
    })
}

/// The only group, of which all rows are.
fn all(bag: Bag) -> Answers {
    Answers::from([(Row::new(), bag)])
}

/// A join of sides with so many columns, every column of both in the result; of the left alone with EXISTS.
pub fn joined(join: Join, widths: [usize; 2], on: On) -> Operator {
    Box::new(move |inputs| {
        let [left, right] = inputs else { panic!("a join has two inputs") };
        let pad = |side: usize| vec![Cell::Null; widths[side]];
        let mut result = Bag::new();
        for (l, count) in left.iter() {
            let matches: Vec<(&Row, i64)> = right.iter().filter(|(r, _)| on(l, r)).map(|(r, n)| (r, *n)).collect();
            match join {
                Join::Semi | Join::Anti if matches.is_empty() == (join == Join::Anti) => add(&mut result, l, *count),
                Join::Semi | Join::Anti => {}
                Join::Left | Join::Full if matches.is_empty() => add(&mut result, &[l.clone(), pad(1)].concat(), *count),
                _ => matches.iter().for_each(|(r, n)| add(&mut result, &[l.clone(), (*r).clone()].concat(), count * n)),
            }
        }
        if matches!(join, Join::Right | Join::Full) {
            for (r, count) in right.iter().filter(|(r, _)| left.keys().all(|l| !on(l, r))) {
                add(&mut result, &[pad(0), r.clone()].concat(), *count);
            }
        }
        all(result)
    })
}

/// The rows of the first input that pass a test by what the others hold.
pub fn tested(passes: impl Fn(&Row, &[&Bag]) -> bool + 'static) -> Operator {
    Box::new(move |inputs| all(inputs[0].iter().filter(|(row, _)| passes(row, &inputs[1..])).map(|(row, n)| (row.clone(), *n)).collect()))
}

/// Whether the first columns are equal, which NULLs never are.
pub fn keys_are_equal(left: &Row, right: &Row) -> bool {
    left[0] != Cell::Null && left[0] == right[0]
}

pub fn combined(operation: SetOperation) -> Operator {
    Box::new(move |inputs| {
        let [left, right] = inputs else { panic!("a set operation has two inputs") };
        let mut result = Bag::new();
        for (row, l) in left.iter() {
            let r = right.get(row).copied().unwrap_or(0);
            let count = match operation {
                SetOperation::Except => i64::from(r == 0),
                SetOperation::Intersect => i64::from(r > 0),
                SetOperation::ExceptAll => (l - r).max(0),
                SetOperation::IntersectAll => *l.min(&r),
            };
            add(&mut result, row, count);
        }
        all(result)
    })
}

#[test]
fn aggregates_leave_nulls_out_and_count_duplicates() {
    let rows: Vec<Row> = [Cell::Int(2), Cell::Null, Cell::Int(2), Cell::Int(0)].map(|cell| vec![cell]).to_vec();
    let of = |aggregate: Aggregate| aggregate.of(&rows, 0).to_string();
    use Aggregate::*;
    assert_eq!([Rows, Count, Sum, Min, Max].map(of), ["4", "3", "4", "0", "2"]);
    assert_eq!([CountDistinct, SumDistinct, CountAboveOne, MinAboveZero, Listed].map(of), ["2", "2", "2", "2", "'0,2,2'"]);
    assert_eq!(Avg.of(&rows, 0), Cell::Mean(4, 3));
    assert_eq!([Rows, Count, Sum, Listed].map(|aggregate| aggregate.of(&[], 0).to_string()), ["0", "0", "NULL", "NULL"]);
}

#[test]
fn outer_joins_pad_both_sides_and_null_keys_match_nothing() {
    let bag = |rows: &[[Cell; 2]]| rows.iter().map(|row| (row.to_vec(), 1)).collect::<Bag>();
    let int = Cell::Int;
    let left = bag(&[[int(1), int(5)], [Cell::Null, int(6)]]);
    let right = bag(&[[int(1), int(7)], [int(2), int(8)], [Cell::Null, int(9)]]);
    let size = |join| joined(join, [2, 2], Box::new(keys_are_equal))(&[&left, &right])[&vec![]].len();
    assert_eq!([Join::Inner, Join::Left, Join::Right, Join::Full].map(size), [1, 2, 3, 4]);
    assert_eq!([Join::Semi, Join::Anti].map(size), [1, 1]);
}

#[test]
fn set_operations_count_as_sql_asks() {
    let (a, b) = (vec![Cell::Int(1)], vec![Cell::Null]);
    let (left, right) = (Bag::from([(a.clone(), 3), (b.clone(), 2)]), Bag::from([(a.clone(), 1)]));
    let of = |operation| combined(operation)(&[&left, &right])[&vec![]].clone();
    assert_eq!(of(SetOperation::Except), Bag::from([(b.clone(), 1)]));
    assert_eq!(of(SetOperation::Intersect), Bag::from([(a.clone(), 1)]));
    assert_eq!(of(SetOperation::ExceptAll), Bag::from([(a.clone(), 2), (b, 2)]));
    assert_eq!(of(SetOperation::IntersectAll), Bag::from([(a, 1)]));
}
