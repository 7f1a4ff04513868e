//! Which aggregates of one GROUP BY share an arrangement.
//!
//! [`Parts`] is filled aggregate by aggregate and finished into a [`Node::Reduce`](crate::plan::Node::Reduce). A group is
//! there as long as a row of it is, even if DISTINCT or FILTER leave an aggregate none: so the first part always reads
//! all rows, if need be only to count them.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::{AggregateUDF, Operator};
use datafusion_physical_expr::PhysicalSortExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions;

use crate::error::Result;
use crate::eval::is_fallible;
use crate::plan::{
    Column, Finish, GeneralAggregate, Layout, Memory, Output, Part, PartKind, Plan, RowType, Scalar, Sum, SumKind, Threshold,
};

use super::aggregate::{filter_item, is_constant};
use super::grouping::Groups;
use super::scalar::{Item, all, key_item, plain_item, read_column};
use super::{linear, nodes, remember};

/// The parts of one reduction, as far as they are known.
pub(super) struct Parts {
    pub groups: Groups,
    drafts: Vec<Draft>,
    outputs: Vec<(usize, Output)>,
}

/// An arrangement in the making: `values` of the rows on which `filter` is true, each group's once where `distinct`.
struct Draft {
    filter: Option<Scalar>,
    distinct: bool,
    values: Vec<Item>,
    kind: DraftKind,
}

enum DraftKind {
    Sums(Vec<Sum>),
    /// Sums of values that are made distinct: all that have a value, under each of these filters. A sum's filter is one of
    /// them.
    Distinct {
        sums: Vec<Sum>,
        present: Option<Scalar>,
        filters: Vec<Option<Scalar>>,
    },
    First,
    /// The first `order` values are what rows are ordered by.
    General {
        order: usize,
        aggregates: Vec<PlacedGeneral>,
    },
}

/// An aggregate that is recomputed, over the input's rows.
pub(super) struct General {
    pub function: Arc<AggregateUDF>,
    pub name: String,
    pub args: Vec<Item>,
    pub order: Vec<Item>,
    pub distinct: bool,
    pub ignore_nulls: bool,
}

/// The same over the value columns of its part.
struct PlacedGeneral {
    function: Arc<AggregateUDF>,
    name: String,
    args: Vec<PlacedArg>,
    order: usize,
    ignore_nulls: bool,
    filter: Option<usize>,
    position: usize,
}

enum PlacedArg {
    Constant(Scalar),
    Value(usize),
}

/// Sums over one argument under one filter: which part they are in, and of which value columns.
pub(super) struct SumsOf {
    pub part: usize,
    pub data_type: Option<DataType>,
    column: Option<usize>,
    filter: Option<usize>,
}

impl Parts {
    pub fn new(groups: Groups) -> Self {
        Parts { groups, drafts: vec![], outputs: vec![] }
    }

    /// Sums of `arg` over the rows on which `filter` is true. All such sums share a part.
    pub fn sums(&mut self, filter: Option<Scalar>, arg: Option<Item>) -> Result<SumsOf> {
        let arg = arg.map(|arg| kept_from(filter.as_ref(), arg)).transpose()?;
        let part = self.find_or_add(
            |draft| !draft.distinct && matches!(draft.kind, DraftKind::Sums(_)),
            || Draft { filter: None, distinct: false, values: vec![], kind: DraftKind::Sums(vec![]) },
        );
        let filter = filter.map(|filter| filter_item(&filter, self.groups.row())).transpose()?;
        let draft = &mut self.drafts[part];
        let data_type = arg.as_ref().map(|(_, column)| column.data_type.clone());
        let column = arg.map(|arg| place(&mut draft.values, arg));
        let filter = filter.map(|filter| place(&mut draft.values, filter));
        Ok(SumsOf { part, data_type, column, filter })
    }

    /// Sums of `arg`, which is one of `args`, over the rows on which `filter` and `present` are true, each group's `args`
    /// once. All such sums of the same `args` share a part, unless something that can fail would be computed of more rows
    /// than are counted.
    pub fn distinct_sums(&mut self, filter: Option<Scalar>, present: Option<Scalar>, args: Vec<Item>, arg: Option<Item>) -> Result<SumsOf> {
        let args: Vec<Item> = args.into_iter().map(key_item).collect();
        let can_fail = |filters: &[Option<Scalar>]| filters.iter().flatten().any(is_fallible);
        let shares = !args.iter().any(|(arg, _)| is_fallible(arg)) && !can_fail(std::slice::from_ref(&filter));
        let part = self.find_or_add(
            |draft| match &draft.kind {
                DraftKind::Distinct { filters, .. } => {
                    same(&draft.values, &args) && (filters.contains(&filter) || shares && !can_fail(filters))
                }
                _ => false,
            },
            || {
                let kind = DraftKind::Distinct { sums: vec![], present, filters: vec![] };
                Draft { filter: None, distinct: true, values: args.clone(), kind }
            },
        );
        let data_type = arg.as_ref().map(|(_, column)| column.data_type.clone());
        let DraftKind::Distinct { filters, .. } = &mut self.drafts[part].kind else { unreachable!("the part was found among these") };
        let filter = filters.iter().position(|have| *have == filter).unwrap_or_else(|| {
            filters.push(filter);
            filters.len() - 1
        });
        Ok(SumsOf { part, data_type, column: arg.map(|_| 0), filter: Some(filter) })
    }

    /// The position in its part of one sum.
    pub fn sum(&mut self, of: &SumsOf, kind: SumKind) -> usize {
        let sum = Sum { kind, column: of.column, filter: of.filter };
        let (DraftKind::Sums(sums) | DraftKind::Distinct { sums, .. }) = &mut self.drafts[of.part].kind else {
            unreachable!("sums are read from a part of sums")
        };
        sums.iter().position(|have| *have == sum).unwrap_or_else(|| {
            sums.push(sum);
            sums.len() - 1
        })
    }

    /// The part whose first row has the first of `value` in its order.
    pub fn first(&mut self, value: Item) -> usize {
        self.find_or_add(
            |draft| matches!(draft.kind, DraftKind::First) && same(&draft.values, std::slice::from_ref(&value)),
            || Draft { filter: None, distinct: false, values: vec![value.clone()], kind: DraftKind::First },
        )
    }

    /// An aggregate that is recomputed; its output is the `position`th.
    pub fn general(&mut self, position: usize, general: General, filter: Option<Scalar>) -> Result<()> {
        let General { function, name, mut args, mut order, distinct, ignore_nulls } = general;
        if distinct {
            args = args.into_iter().map(key_item).collect();
            order = order.into_iter().map(key_item).collect();
        }
        let (args, constants): (Vec<_>, Vec<_>) = args.into_iter().enumerate().partition(|(_, (arg, _))| !is_constant(arg));
        let part = if distinct {
            // Rows are made distinct by what the aggregate sees of them, so nothing else may be beside it.
            let mut values = vec![];
            order.iter().chain(args.iter().map(|(_, arg)| arg)).for_each(|item| {
                place(&mut values, item.clone());
            });
            self.drafts.push(Draft {
                filter: filter.clone(),
                distinct,
                values,
                kind: DraftKind::General { order: order.len(), aggregates: vec![] },
            });
            self.drafts.len() - 1
        } else {
            self.find_or_add(
                |draft| match &draft.kind {
                    DraftKind::General { order: width, .. } => {
                        !draft.distinct && (order.is_empty() || same(&draft.values[..*width], &order))
                    }
                    _ => false,
                },
                || Draft {
                    filter: None,
                    distinct,
                    values: order.clone(),
                    kind: DraftKind::General { order: order.len(), aggregates: vec![] },
                },
            )
        };
        let filter = if distinct { None } else { filter };
        let args = args.into_iter().map(|(at, arg)| Ok((at, kept_from(filter.as_ref(), arg)?))).collect::<Result<Vec<_>>>()?;
        let filter = filter.map(|filter| filter_item(&filter, self.groups.row())).transpose()?;
        let draft = &mut self.drafts[part];
        let filter = filter.map(|filter| place(&mut draft.values, filter));
        let mut placed: Vec<(usize, PlacedArg)> =
            constants.into_iter().map(|(at, (constant, _))| (at, PlacedArg::Constant(constant))).collect();
        placed.extend(args.into_iter().map(|(at, arg)| (at, PlacedArg::Value(place(&mut draft.values, arg)))));
        placed.sort_by_key(|(at, _)| *at);
        let args = placed.into_iter().map(|(_, arg)| arg).collect();
        let DraftKind::General { aggregates, .. } = &mut draft.kind else { unreachable!("the part was found among the general ones") };
        aggregates.push(PlacedGeneral { function, name, args, order: order.len(), ignore_nulls, filter, position });
        Ok(())
    }

    /// Says what the `position`th output is made of.
    pub fn output(&mut self, position: usize, part: usize, finish: Finish, column: Column) {
        self.outputs.push((position, Output { part, finish, column }));
    }

    /// The reduction.
    pub fn finish(mut self, memory: &Memory) -> Result<Plan> {
        self.put_a_part_of_all_rows_first();
        let width = self.groups.key.len();
        let (mut parts, mut outputs) = (vec![], self.outputs);
        for (at, draft) in self.drafts.into_iter().enumerate() {
            let rows = match &draft.kind {
                DraftKind::Distinct { present, filters, .. } => distinct(&self.groups, &draft.values, present.as_ref(), filters, memory)?,
                _ => self.groups.rows(draft.filter.as_ref(), &draft.values),
            };
            let rows = match draft.kind {
                DraftKind::General { .. } if draft.distinct => nodes::threshold(rows, Threshold::Distinct, memory),
                _ => rows,
            };
            // Distinct rows are made so in ascending order; what comes after may ask for another one.
            let rows = if draft.distinct { reordered(rows, width, &draft.values) } else { rows };
            let values = RowType::new(rows.row().columns[width..].iter().cloned());
            let layout = match &draft.kind {
                DraftKind::Sums(sums) => Layout::Sums(sums.clone()),
                DraftKind::Distinct { sums, filters, .. } => {
                    let sums = sums
                        .iter()
                        .map(|sum| Sum { filter: sum.filter.and_then(|filter| test(filters, filter, draft.values.len())), ..*sum });
                    Layout::Sums(sums.collect())
                }
                DraftKind::First | DraftKind::General { .. } => Layout::Rows,
            };
            let input = nodes::arranged(rows, width, layout, None).with_memory(memory);
            let kind = match draft.kind {
                DraftKind::Sums(_) | DraftKind::Distinct { .. } => PartKind::Accumulable,
                DraftKind::First => PartKind::First,
                DraftKind::General { aggregates, .. } => {
                    let mut built = vec![];
                    for (value, aggregate) in aggregates.into_iter().enumerate() {
                        let general = aggregate.build(&values)?;
                        let field = general.function.field();
                        let column = Column::new(&aggregate.name, field.data_type().clone(), true);
                        outputs.push((aggregate.position, Output { part: at, finish: Finish::Value(value), column }));
                        built.push(general);
                    }
                    PartKind::General(built)
                }
            };
            parts.push(Part { input, kind });
        }
        outputs.sort_by_key(|(position, _)| *position);
        let outputs = outputs.into_iter().map(|(_, output)| output).collect();
        let is_always_there = !self.groups.always.is_empty();
        let reduced = nodes::reduce(&self.groups.key, parts, outputs, self.groups.always);
        plain(remember::settle_groups(reduced, width, memory, is_always_there))
    }

    fn put_a_part_of_all_rows_first(&mut self) {
        let all_rows = |draft: &Draft| draft.filter.is_none() && !draft.distinct;
        let sums = |draft: &Draft| matches!(draft.kind, DraftKind::Sums(_));
        let found = self.drafts.iter().position(|draft| all_rows(draft) && sums(draft)).or_else(|| self.drafts.iter().position(all_rows));
        let first = found.unwrap_or_else(|| {
            let count = Sum { kind: SumKind::Count, column: None, filter: None };
            self.drafts.push(Draft { filter: None, distinct: false, values: vec![], kind: DraftKind::Sums(vec![count]) });
            self.drafts.len() - 1
        });
        self.drafts[..=first].rotate_right(1);
        for (_, output) in &mut self.outputs {
            output.part = match output.part {
                part if part == first => 0,
                part if part < first => part + 1,
                part => part,
            };
        }
    }

    fn find_or_add(&mut self, is_it: impl Fn(&Draft) -> bool, make: impl FnOnce() -> Draft) -> usize {
        self.drafts.iter().position(is_it).unwrap_or_else(|| {
            self.drafts.push(make());
            self.drafts.len() - 1
        })
    }
}

impl PlacedGeneral {
    fn build(&self, values: &RowType) -> Result<GeneralAggregate> {
        let args = self.args.iter().map(|arg| match arg {
            PlacedArg::Constant(constant) => constant.clone(),
            PlacedArg::Value(column) => read_column(values, *column),
        });
        let mut builder = AggregateExprBuilder::new(self.function.clone(), args.collect())
            .schema(values.schema())
            .alias(&self.name)
            .with_ignore_nulls(self.ignore_nulls);
        // Rows are fed in order, which is all that ORDER BY asks for. WITHIN GROUP says what the value is, and which way
        // is up.
        if self.function.supports_within_group_clause() {
            let order = (0..self.order).map(|column| PhysicalSortExpr::new(read_column(values, column), values.columns[column].sort));
            builder = builder.order_by(order.collect());
        }
        let filter = self.filter.map(|column| read_column(values, column));
        Ok(GeneralAggregate { function: Arc::new(builder.build()?), filter })
    }
}

/// The different values of each group that are `present` and that any of the filters lets pass; where these are several,
/// with a column for each that is no filter at all, true where the value passes it.
fn distinct(groups: &Groups, values: &[Item], present: Option<&Scalar>, filters: &[Option<Scalar>], memory: &Memory) -> Result<Plan> {
    let schema = groups.row().schema();
    if let [filter] = filters {
        let counted = all(filter.iter().chain(present).cloned(), &schema)?;
        return Ok(nodes::threshold(groups.rows(counted.as_ref(), values), Threshold::Distinct, memory));
    }
    let mut passing: Option<Scalar> = None;
    if filters.iter().all(Option::is_some) {
        for filter in filters.iter().flatten().cloned() {
            passing = Some(match passing {
                None => filter,
                Some(others) => expressions::binary(others, Operator::Or, filter, &schema)?,
            });
        }
    }
    let tests = filters.iter().flatten().map(|filter| filter_item(filter, groups.row())).collect::<Result<Vec<_>>>()?;
    let rows = groups.rows(all(present.cloned().into_iter().chain(passing), &schema)?.as_ref(), &[values, &tests].concat());
    Ok(nodes::any_true(rows, groups.key.len() + values.len(), memory))
}

/// The value column that tells whether a value passes the `filter`th of these; None where all do. It is behind `values`.
fn test(filters: &[Option<Scalar>], filter: usize, values: usize) -> Option<usize> {
    let is_one = filters.len() > 1 && filters[filter].is_some();
    is_one.then(|| values + filters[..filter].iter().flatten().count())
}

/// An argument that may fail, computed of the rows on which a filter is true and NULL of the others, which the filter keeps out.
fn kept_from(filter: Option<&Scalar>, (arg, column): Item) -> Result<Item> {
    match filter {
        Some(filter) if is_fallible(&arg) => {
            Ok((expressions::case(None, vec![(Arc::clone(filter), arg)], None)?, Column { nullable: true, ..column }))
        }
        _ => Ok((arg, column)),
    }
}

/// Where `item` stands among `values`, at the end if it was not there.
fn place(values: &mut Vec<Item>, item: Item) -> usize {
    values.iter().position(|(scalar, _)| scalar.as_ref() == item.0.as_ref()).unwrap_or_else(|| {
        values.push(item);
        values.len() - 1
    })
}

/// Whether two lists say the same columns in the same order.
fn same(a: &[Item], b: &[Item]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0.as_ref() == b.0.as_ref() && a.1.sort == b.1.sort)
}

/// Rows of `key ++ values`, and what is behind, with the values encoded for their own order.
fn reordered(rows: Plan, width: usize, values: &[Item]) -> Plan {
    let items = (0..rows.row().len()).map(|index| {
        let (scalar, column) = super::scalar::pick(rows.row(), index);
        let sort = index.checked_sub(width).and_then(|value| values.get(value)).map_or(column.sort, |(_, column)| column.sort);
        (scalar, Column { sort, ..column })
    });
    let items = items.collect();
    linear::project(rows, items)
}

/// Aggregates may make values of types that rows do not hold.
fn plain(reduced: Plan) -> Result<Plan> {
    let row = reduced.row();
    let items = row.columns.iter().enumerate().map(|(index, column)| {
        let (scalar, made) = plain_item(read_column(row, index), &column.name, row)?;
        Ok((scalar, Column { sort: column.sort, ..made }))
    });
    let items = items.collect::<Result<Vec<Item>>>()?;
    Ok(linear::project(reduced, items))
}
