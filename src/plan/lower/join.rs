//! Joins on equalities.
//!
//! Both sides are arranged by their keys, and a column that is a key is read from the key, not carried beside it. SQL's
//! `=` is never true of NULL while [`Node::Join`] compares bytes, so rows with a NULL key are filtered where they cannot
//! matter: on both sides of an inner or semi join, on the side that is not kept of the others. A full join keeps both,
//! and tells the NULLs of one from those of the other by one more key column.
//!
//! A condition beside the equalities is a filter over an inner join; over other joins see [`super::outer`]. A join
//! without equalities has a key of no columns.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, JoinType, NullEquality, ScalarValue};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::utils::{find_valid_equijoin_key_pair, split_conjunction};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion_physical_expr::expressions;

use crate::error::{Error, Result};
use crate::plan::{Arrangement, Column, JoinKind, Memory, Plan, RowType, Scalar};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::{Item, all, cast_item, column_index, is_true, key_item, labelled_item, literal, mentions, null_item, pick};
use super::{linear, lower, nodes, outer, remember, scalar, temporal};

/// One side of a join: its rows and what they are matched by.
#[derive(Clone)]
pub(super) struct Side {
    pub plan: Plan,
    pub keys: Vec<Item>,
    /// For each key, whether a NULL of it is equal to a NULL.
    pub null_safe: Vec<bool>,
    pub name: Option<String>,
    /// How long its rows are remembered; if not for ever, `plan` is those that are.
    pub memory: Memory,
}

/// A join as it is lowered: two sides whose keys have equal types, and the conditions beside the equalities, over the
/// left side's columns followed by the right side's.
#[derive(Clone)]
pub(super) struct Pair {
    pub left: Side,
    pub right: Side,
    pub conditions: Vec<Scalar>,
}

/// A logical join, of whose columns those marked in `needed` are read.
pub(super) fn join(join: &Join, needed: &[bool], said: &Retentions) -> Result<Plan> {
    if join.null_aware {
        return Err(Error::unsupported(format!("NOT IN here ({}): say NOT EXISTS", join_text(join))));
    }
    let pair = Pair::new(join, said)?;
    let sides = [pair.left.memory.clone(), pair.right.memory.clone()];
    let width = pair.left.plan.row().len();
    let (left_needed, right_needed) = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (&[][..], needed),
        _ => needed.split_at(width.min(needed.len())),
    };
    let joined = match join.join_type {
        JoinType::Inner if pair.conditions.is_empty() => pair.equi(JoinKind::Inner, left_needed, right_needed),
        JoinType::Inner => pair.inner(left_needed, right_needed),
        JoinType::Left => outer::left(pair, left_needed, right_needed),
        JoinType::Right => outer::right(pair, left_needed, right_needed),
        JoinType::Full => outer::full(pair, left_needed, right_needed),
        JoinType::LeftSemi => outer::semi(pair),
        JoinType::RightSemi => outer::semi(pair.swapped()),
        JoinType::LeftAnti => outer::anti(pair),
        JoinType::RightAnti => outer::anti(pair.swapped()),
        JoinType::LeftMark => outer::mark(pair),
        JoinType::RightMark => outer::mark(pair.swapped()),
    };
    // A row that goes leaves rows of the other side without a match, which an outer or anti join then shows.
    let adds = match join.join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => [false, false],
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => [false, true],
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => [true, false],
        JoinType::Full => [true, true],
    };
    remember::settle_inputs(joined?, &[(&sides[0], adds[0]), (&sides[1], adds[1])])
}

impl Pair {
    pub fn new(join: &Join, said: &Retentions) -> Result<Self> {
        let rows = |plan: &LogicalPlan| -> Result<_> {
            let name = name_in_from(plan);
            let memory = remember::side(said, name.as_deref());
            Ok((remember::rows(lower(plan, said)?, &memory), name, memory))
        };
        Self::over(join, rows(&join.left)?, rows(&join.right)?)
    }

    /// The pair of a join whose sides' rows are these, remembered as they are to be.
    pub fn over(
        join: &Join,
        (left, left_name, left_memory): (Plan, Option<String>, Memory),
        (right, right_name, right_memory): (Plan, Option<String>, Memory),
    ) -> Result<Self> {
        let (mut left_keys, mut right_keys, mut null_safe) = (vec![], vec![], vec![]);
        let (same, others): (Vec<_>, Vec<_>) = join
            .filter
            .iter()
            .flat_map(split_conjunction)
            .map(|condition| same_pair(join, condition).ok_or(condition))
            .partition(Result::is_ok);
        let equal_nulls = join.null_equality == NullEquality::NullEqualsNull;
        let on = join.on.iter().map(|(l, r)| (l, r, equal_nulls));
        let same: Vec<_> = same.into_iter().flatten().collect();
        for (l, r, nulls) in on.chain(same.iter().map(|(l, r)| (l, r, true))) {
            null_safe.push(nulls);
            let l = labelled_item(l, join.left.schema(), left.row())?;
            let r = labelled_item(r, join.right.schema(), right.row())?;
            let data_type = common_type(&l.1, &r.1)?;
            left_keys.push(key_item(cast_item(l, left.row(), &data_type)?));
            right_keys.push(key_item(cast_item(r, right.row(), &data_type)?));
        }
        let both: DFSchema = join.left.schema().join(join.right.schema())?;
        let row = beside(left.row(), right.row());
        let conditions = others.into_iter().filter_map(Result::err).map(|condition| temporal::condition(condition, &both, &row));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        Ok(Pair {
            left: Side { plan: left, keys: left_keys, null_safe: null_safe.clone(), name: left_name, memory: left_memory },
            right: Side { plan: right, keys: right_keys, null_safe, name: right_name, memory: right_memory },
            conditions: conditions.into_iter().filter(|condition| !is_true(condition)).collect(),
        })
    }

    /// The columns of both sides, left ones first.
    pub fn row(&self) -> RowType {
        beside(self.left.plan.row(), self.right.plan.row())
    }

    /// The same pair with its sides exchanged.
    pub fn swapped(self) -> Self {
        let (left, right) = (self.left.plan.row().len(), self.right.plan.row().len());
        let row = beside(self.right.plan.row(), self.left.plan.row());
        let moved = |column: usize| if column < left { column + right } else { column - left };
        let read = |column: usize| scalar::read_column(&row, moved(column));
        let conditions = self.conditions.iter().map(|condition| scalar::substitute(condition, read)).collect();
        Pair { left: self.right, right: self.left, conditions }
    }

    /// The inner join under all conditions.
    pub fn inner(&self, left_needed: &[bool], right_needed: &[bool]) -> Result<Plan> {
        let width = self.left.plan.row().len();
        let mut needed: Vec<bool> = left_needed.iter().chain(right_needed).copied().collect();
        for column in self.conditions.iter().flat_map(mentions) {
            needed[column] = true;
        }
        let mut plan = self.equi(JoinKind::Inner, &needed[..width], &needed[width..])?;
        for condition in &self.conditions {
            let condition = scalar::substitute(condition, |column| scalar::read_column(plan.row(), column));
            plan = linear::filter(plan, condition);
        }
        Ok(plan)
    }

    /// The join on the equalities alone, as the left side's columns followed by the right side's; a column that is not
    /// needed may be NULL.
    pub fn equi(&self, kind: JoinKind, left_needed: &[bool], right_needed: &[bool]) -> Result<Plan> {
        use JoinKind::*;
        let (mut left, mut right) = (self.left.clone(), self.right.clone());
        match kind {
            Inner | Semi => (left, right) = (left.without_null_keys()?, right.without_null_keys()?),
            Left | Anti => right = right.without_null_keys()?,
            Right => left = left.without_null_keys()?,
            Full => tell_nulls_apart(&mut left, &mut right)?,
        }
        let width = left.keys.len();
        let (left_values, left_places) = left.values(left_needed, matches!(kind, Inner | Left), width);
        let (right_values, right_places) = right.values(right_needed, matches!(kind, Inner | Right), width + left_values.len());
        let left = left.arranged(left_values);
        let right = right.arranged(right_values);
        let joined = nodes::join(kind, left, right);
        let names = self.row();
        let places = left_places.into_iter().chain(right_places);
        let items = places.zip(names.columns.iter()).map(|(place, column)| restored(&joined, place, column));
        let items = items.collect::<Result<_>>()?;
        Ok(linear::project(joined, items))
    }

    /// The left rows that have (or have not) a right row with an equal key.
    pub fn half(&self, kind: JoinKind) -> Result<Plan> {
        let (mut left, right) = (self.left.clone(), self.right.clone().without_null_keys()?);
        if kind == JoinKind::Semi {
            left = left.without_null_keys()?;
        }
        let row = left.plan.row().clone();
        let (values, places) = left.values(&vec![true; row.len()], true, left.keys.len());
        let (right_values, _) = right.values(&vec![false; right.plan.row().len()], false, 0);
        let left = left.arranged(values);
        let right = right.arranged(right_values);
        let joined = nodes::join(kind, left, right);
        let items = places.into_iter().zip(row.columns.iter()).map(|(place, column)| restored(&joined, place, column));
        let items = items.collect::<Result<_>>()?;
        Ok(linear::project(joined, items))
    }
}

impl Side {
    /// The side indexed by its keys.
    fn arranged(self, values: Vec<Item>) -> Arrangement {
        nodes::arrange(self.plan, self.keys, values, self.name).with_memory(&self.memory)
    }

    /// The keys of which a NULL is equal to nothing, where there may be one.
    fn nulls_unequal(&self) -> impl Iterator<Item = &Scalar> {
        let unequal = self.keys.iter().zip(&self.null_safe).filter(|((_, column), null_safe)| column.nullable && !**null_safe);
        unequal.map(|((key, _), _)| key)
    }

    /// The rows that can have a match.
    fn without_null_keys(mut self) -> Result<Self> {
        let present = self.nulls_unequal().map(|key| Ok(expressions::is_not_null(key.clone())?)).collect::<Result<Vec<_>>>()?;
        if let Some(predicate) = all(present, &self.plan.row().schema())? {
            self.plan = linear::filter(self.plan, predicate);
        }
        Ok(self)
    }

    /// The needed columns to carry beside the key, and the place of each column in the joined row. `from_key` says that
    /// the joined row's key is this side's, so that a column that is a key need not be carried.
    fn values(&self, needed: &[bool], from_key: bool, first_value: usize) -> (Vec<Item>, Vec<Option<usize>>) {
        let mut values = vec![];
        let places = needed.iter().enumerate().map(|(column, needed)| {
            let key = self.keys.iter().position(|(key, _)| column_index(key) == Some(column));
            match key {
                // What remembers rows holds them whole.
                _ if !needed && self.memory.ttl.is_none() => None,
                Some(_) if !needed => None,
                Some(key) if from_key => Some(key),
                _ => {
                    values.push(pick(self.plan.row(), column));
                    Some(first_value + values.len() - 1)
                }
            }
        });
        let places = places.collect();
        (values, places)
    }
}

/// The sides of `l IS NOT DISTINCT FROM r` where one is of the left side and one of the right.
fn same_pair(join: &Join, condition: &Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) = condition else { return None };
    find_valid_equijoin_key_pair(left, right, join.left.schema(), join.right.schema()).ok().flatten()
}

/// The columns of one row beside those of another.
fn beside(left: &RowType, right: &RowType) -> RowType {
    RowType::new(left.columns.iter().chain(right.columns.iter()).cloned())
}

fn restored(joined: &Plan, place: Option<usize>, column: &Column) -> Result<Item> {
    match place {
        None => null_item(&column.name, &column.data_type),
        Some(place) => {
            let (scalar, made) = pick(joined.row(), place);
            Ok((scalar, Column { name: column.name.clone(), ..made }))
        }
    }
}

pub(super) fn common_type(left: &Column, right: &Column) -> Result<DataType> {
    let (l, r) = (&left.data_type, &right.data_type);
    if l == r {
        return Ok(l.clone());
    }
    let common = comparison_coercion(l, r).map(|common| scalar::plain_type(&common));
    common.ok_or_else(|| Error::invalid(format!("{} is {l} and {} is {r}: they cannot be compared", left.name, right.name)))
}

/// Adds a key column that is 0 where no key is NULL and else another number on each side.
fn tell_nulls_apart(left: &mut Side, right: &mut Side) -> Result<()> {
    if left.nulls_unequal().chain(right.nulls_unequal()).next().is_none() {
        return Ok(());
    }
    for (side, number) in [(left, 1i8), (right, 2i8)] {
        let schema = side.plan.row().schema();
        let mut absent: Option<Scalar> = None;
        for key in side.nulls_unequal() {
            let null = expressions::is_null(key.clone())?;
            absent = Some(match absent {
                None => null,
                Some(others) => expressions::binary(others, Operator::Or, null, &schema)?,
            });
        }
        let none = literal(ScalarValue::Int8(Some(0)));
        let scalar = match absent {
            None => none,
            Some(absent) => expressions::case(None, vec![(absent, literal(ScalarValue::Int8(Some(number))))], Some(none))?,
        };
        side.keys.push((scalar, Column::new("null_key", DataType::Int8, false)));
        side.null_safe.push(true);
    }
    Ok(())
}

fn join_text(join: &Join) -> String {
    let pairs: Vec<String> = join.on.iter().map(|(l, r)| format!("{l} = {r}")).collect();
    pairs.join(" AND ")
}
