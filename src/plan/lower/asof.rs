//! As-of joins: `ASOF JOIN ... MATCH_CONDITION` and `JOIN t FOR SYSTEM_TIME AS OF`.
//!
//! DataFusion has no such join, so it comes here as an extension node, [`AsOf`]. Each left row goes with at most one right row,
//! which its key and its time choose; conditions beside that are asked of the pair that was chosen. So they are a filter behind an inner
//! join, and behind an outer one they make NULLs of the right side's columns.
//!
//! The right side is arranged with all of its columns behind its time, in descending order: of several rows with one time the
//! greatest is taken, whichever of its columns are read.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, DFSchemaRef, JoinType, ScalarValue, plan_datafusion_err};
use datafusion_expr::logical_plan::builder::build_join_schema;
use datafusion_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion_physical_expr::expressions;

use crate::error::{Error, Result};
use crate::plan::{Arrangement, Column, Node, Plan, RowType};
use crate::sql::retention::Retentions;

use super::join::common_type;
use super::remember::name_in_from;
use super::scalar::{self, Item, all, cast_item, column_index, key_item, labelled_item, literal, pick};
use super::{linear, lower, nodes, remember};

/// An as-of join in a logical plan. Its columns are the left side's, then the right side's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AsOf {
    pub left: LogicalPlan,
    pub right: LogicalPlan,
    /// What of the left side equals what of the right side.
    pub on: Vec<(Expr, Expr)>,
    /// The left side's time and the right side's.
    pub times: (Expr, Expr),
    pub matching: Match,
    /// Whether left rows without a match stay.
    pub outer: bool,
    /// What else is asked of a left row and its match.
    pub condition: Option<Expr>,
    schema: DFSchemaRef,
}

/// How the left side's time is to compare with the right side's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// The latest right row before or at the left one.
    AtOrAfter,
    /// The latest right row before it.
    After,
    /// The earliest right row at or after the left one.
    AtOrBefore,
    /// The earliest right row after it.
    Before,
}

impl AsOf {
    /// An as-of join of two relations.
    pub fn try_new(
        (left, right): (LogicalPlan, LogicalPlan),
        on: Vec<(Expr, Expr)>,
        times: (Expr, Expr),
        matching: Match,
        outer: bool,
        condition: Option<Expr>,
    ) -> datafusion_common::Result<Self> {
        let kind = if outer { JoinType::Left } else { JoinType::Inner };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &kind)?);
        Ok(AsOf { left, right, on, times, matching, outer, condition, schema })
    }
}

impl PartialOrd for AsOf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let parts = |node: &Self| (node.on.clone(), node.times.clone(), node.matching, node.outer, node.condition.clone());
        (&self.left, &self.right, parts(self))
            .partial_cmp(&(&other.left, &other.right, parts(other)))
            .filter(|o| o.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for AsOf {
    fn name(&self) -> &str {
        "AsOf"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let on = self.on.iter().flat_map(|(left, right)| [left, right]);
        on.chain([&self.times.0, &self.times.1]).chain(&self.condition).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "AsOf: {:?} of {} and {}", self.matching, self.times.0, self.times.1)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> datafusion_common::Result<Self> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs).map_err(|inputs| plan_datafusion_err!("{} sides", inputs.len()))?;
        let mut exprs = exprs.into_iter();
        let mut next = || exprs.next().ok_or_else(|| plan_datafusion_err!("an as-of join has as many expressions as before"));
        let on = self.on.iter().map(|_| Ok((next()?, next()?))).collect::<datafusion_common::Result<_>>()?;
        let times = (next()?, next()?);
        let condition = self.condition.is_some().then(next).transpose()?;
        AsOf::try_new((left, right), on, times, self.matching, self.outer, condition)
    }
}

impl Match {
    fn is_strict(self) -> bool {
        matches!(self, Match::After | Match::Before)
    }

    fn is_forward(self) -> bool {
        matches!(self, Match::AtOrBefore | Match::Before)
    }
}

/// A logical as-of join, of whose columns those marked in `needed` are read.
pub(super) fn asof(join: &AsOf, needed: &[bool], said: &Retentions) -> Result<Plan> {
    let (left_name, right_name) = (name_in_from(&join.left), name_in_from(&join.right));
    let (left_memory, right_memory) = (remember::side(said, left_name.as_deref()), remember::side(said, right_name.as_deref()));
    let left = remember::rows(lower(&join.left, said)?, &left_memory);
    let right = remember::rows(lower(&join.right, said)?, &right_memory);
    let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
    let pair = |l: &Expr, r: &Expr| common_items((l, left_schema, left.row()), (r, right_schema, right.row()));
    let (left_keys, right_keys): (Vec<Item>, Vec<Item>) =
        join.on.iter().map(|(l, r)| pair(l, r)).collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let (left_time, right_time) = pair(&join.times.0, &join.times.1)?;
    check_time(join, &left_time.1.data_type)?;

    let read = condition_columns(join)?;
    // What remembers rows holds them whole.
    let is_carried = |column: usize| left_memory.ttl.is_some() || needed[column] || read[column];
    let forward = join.matching.is_forward();
    let ascending = SortOptions { descending: false, nulls_first: true };
    let descending = SortOptions { descending: true, nulls_first: true };
    let (left_sort, right_sort) = if forward { (descending, ascending) } else { (ascending, descending) };
    let left = Side { plan: left, keys: left_keys, time: sorted(left_time, left_sort), others: ascending, name: left_name };
    let right = Side { plan: right, keys: right_keys, time: sorted(right_time, right_sort), others: greatest_first(), name: right_name };
    let (left, left_places) = left.arranged(true, is_carried);
    // The key is the left side's: where a row has no match, the right side's columns are NULL.
    let (right, right_places) = right.with_key_and_time()?.arranged(!join.outer, |_| true);
    let width = left.input.row().len();
    let right_places =
        right_places.into_iter().map(|place| place.map(|place| if place < right.key { place } else { place + width - right.key }));
    let places: Vec<Option<usize>> = left_places.into_iter().chain(right_places).collect();
    let sides = [left_memory.clone(), right_memory.clone()];
    let joined = node(join, left.with_memory(&left_memory), right.with_memory(&right_memory));

    let items = places.iter().zip(join.schema.fields()).map(|(place, field)| match place {
        None => scalar::null_item(field.name(), &scalar::plain_type(field.data_type())),
        Some(place) => {
            let (scalar, made) = pick(joined.row(), *place);
            Ok((scalar, Column { name: scalar::shown_name(field.name()), ..made }))
        }
    });
    let items = items.collect::<Result<Vec<Item>>>()?;
    let plan = conditioned(join, linear::project(joined, items))?;
    // An earlier row may be the match once the one that was is gone.
    remember::settle_inputs(plan, &[(&sides[0], false), (&sides[1], true)])
}

/// The node over two arranged sides.
fn node(join: &AsOf, left: Arrangement, right: Arrangement) -> Plan {
    let nullable = |column: &Column| Column { nullable: column.nullable || join.outer, ..column.clone() };
    let right_values = right.input.row().columns[right.key..].iter().map(nullable);
    let row = RowType::new(left.input.row().columns.iter().cloned().chain(right_values));
    Plan::new(Node::AsOf { outer: join.outer, strict: join.matching.is_strict(), left, right }, row)
}

/// What is asked of a row and its match beside what chose it.
fn conditioned(join: &AsOf, plan: Plan) -> Result<Plan> {
    let Some(condition) = &join.condition else { return Ok(plan) };
    let condition = super::temporal::condition(condition, &join.schema, plan.row())?;
    if !join.outer {
        return Ok(linear::filter(plan, condition));
    }
    if super::temporal::reads_time(&condition) {
        return Err(Error::unsupported("NOW() in the ON of an outer as-of join: say it in WHERE"));
    }
    let width = join.left.schema().fields().len();
    let items = (0..plan.row().len()).map(|column| {
        let (scalar, made) = pick(plan.row(), column);
        if column < width {
            return Ok((scalar, made));
        }
        let none = literal(ScalarValue::try_from(&made.data_type)?);
        let scalar = expressions::case(None, vec![(condition.clone(), scalar)], Some(none))?;
        Ok((scalar, Column { nullable: true, ..made }))
    });
    let items = items.collect::<Result<Vec<Item>>>()?;
    Ok(linear::project(plan, items))
}

/// One side of the join.
struct Side {
    plan: Plan,
    keys: Vec<Item>,
    time: Item,
    /// How the columns behind the time sort.
    others: SortOptions,
    name: Option<String>,
}

impl Side {
    /// The rows whose key and time are there.
    fn with_key_and_time(mut self) -> Result<Self> {
        let nullable = self.keys.iter().chain([&self.time]).filter(|(_, column)| column.nullable);
        let present = nullable.map(|(scalar, _)| Ok(expressions::is_not_null(scalar.clone())?)).collect::<Result<Vec<_>>>()?;
        if let Some(predicate) = all(present, &self.plan.row().schema())? {
            self.plan = linear::filter(self.plan, predicate);
        }
        self.time.1.nullable = false;
        self.keys.iter_mut().for_each(|(_, column)| column.nullable = false);
        Ok(self)
    }

    /// The side indexed by its keys, with its time first, and the place of each column among key and values. A column that is
    /// a key is not carried beside it where it can be read `from_key`.
    fn arranged(self, from_key: bool, is_carried: impl Fn(usize) -> bool) -> (Arrangement, Vec<Option<usize>>) {
        let row = self.plan.row().clone();
        let width = self.keys.len();
        let time = column_index(&self.time.0);
        let mut values = vec![self.time];
        let places = (0..row.len()).map(|column| {
            if !is_carried(column) {
                return None;
            }
            match self.keys.iter().position(|(key, _)| column_index(key) == Some(column)) {
                Some(key) if from_key => return Some(key),
                _ if time == Some(column) => return Some(width),
                _ => {}
            }
            values.push(sorted(pick(&row, column), self.others));
            Some(width + values.len() - 1)
        });
        let places = places.collect();
        (nodes::arrange(self.plan, self.keys, values, self.name), places)
    }
}

fn sorted((scalar, column): Item, sort: SortOptions) -> Item {
    (scalar, Column { sort, ..column })
}

/// The reverse of the order in which NULL is the least.
fn greatest_first() -> SortOptions {
    SortOptions { descending: true, nulls_first: false }
}

/// An expression of a relation: itself, what names the relation's columns, and its rows.
type Of<'a> = (&'a Expr, &'a DFSchema, &'a RowType);

/// Two expressions as columns of one type, in which what is equal is the same.
fn common_items(left: Of<'_>, right: Of<'_>) -> Result<(Item, Item)> {
    let item = |(expr, schema, row): Of<'_>| labelled_item(expr, schema, row);
    let (l, r) = (item(left)?, item(right)?);
    let data_type = common_type(&l.1, &r.1)?;
    Ok((key_item(cast_item(l, left.2, &data_type)?), key_item(cast_item(r, right.2, &data_type)?)))
}

/// Which columns of the left side the condition reads.
fn condition_columns(join: &AsOf) -> Result<Vec<bool>> {
    let mut read = vec![false; join.schema.fields().len()];
    for column in join.condition.iter().flat_map(|condition| condition.column_refs()) {
        read[scalar::position(column, &join.schema)?] = true;
    }
    Ok(read)
}

/// What is nearest is known of numbers and moments.
fn check_time(join: &AsOf, data_type: &DataType) -> Result<()> {
    let is_measured = data_type.is_numeric()
        || matches!(data_type, DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..));
    if is_measured {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} and {} are {data_type}: the times that an as-of join compares are TIMESTAMP, DATE, TIME or numbers",
        join.times.0, join.times.1
    )))
}
