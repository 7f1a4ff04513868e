//! GROUP BY and aggregates.
//!
//! What can be added up (COUNT, SUM, AVG, BOOL_AND and BOOL_OR, variances) shares one arrangement that holds nothing but
//! sums. MIN and MAX each read the first row of an arrangement in their order; of numbers and times that are never taken
//! away they are kept beside the sums. Everything else is recomputed over its
//! group, in arrangements of its rows in the order that the aggregate asks for. DISTINCT makes the arguments distinct
//! before that, FILTER leaves rows out. [`super::parts`] gathers who shares what.
//!
//! Without aggregates, GROUP BY is DISTINCT.

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::expr::{AggregateFunction, NullTreatment};
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::{Expr, Operator};
use datafusion_physical_expr::expressions::{self, CastExpr, Literal};

use crate::error::{Error, Result};
use crate::eval::readable;
use crate::plan::{Column, Finish, Memory, Plan, Scalar, SumKind, Threshold};
use crate::row::has_rank;
use crate::sql::retention::Retentions;

use super::grouping::Groups;
use super::parts::{General, Parts, SumsOf};
use super::remember::name_in_from;
use super::scalar::{Item, all, is_name, labelled_item, literal, plain_item, plain_type, shown_name};
use super::window::unaliased;
use super::{lower, lower_needing, needed_by, nodes, order, remember, scalar};

/// One row a group: the key and a column an aggregate.
pub(super) fn aggregate(aggregate: &Aggregate, said: &Retentions) -> Result<Plan> {
    let memory = said.of(name_in_from(&aggregate.input).as_deref());
    let needed = needed_by(aggregate.group_expr.iter().chain(&aggregate.aggr_expr), &aggregate.input)?;
    let input = match memory.ttl {
        None => lower_needing(&aggregate.input, &needed, said)?,
        Some(_) if aggregate.aggr_expr.is_empty() => remember::whole(&aggregate.input, said)?,
        Some(_) => lower(&aggregate.input, said)?,
    };
    over(aggregate, input, &memory, &needed)
}

/// The same of these rows, of which the `needed` columns are read.
pub(super) fn over(aggregate: &Aggregate, input: Plan, memory: &Memory, needed: &[bool]) -> Result<Plan> {
    let groups = Groups::new(aggregate, input)?.remembered(memory, needed)?;
    if aggregate.aggr_expr.is_empty() && groups.always.is_empty() {
        let width = groups.key.len();
        let distinct = nodes::threshold(groups.rows(None, &[]), Threshold::Distinct, memory);
        return Ok(remember::settle_groups(distinct, width, memory, false));
    }
    let mut parts = Parts::new(groups);
    let first = parts.groups.key.len();
    let mut calls = vec![];
    for (index, expr) in aggregate.aggr_expr.iter().enumerate() {
        let field = aggregate.schema.field(first + index);
        let Expr::AggregateFunction(function) = unaliased(expr) else {
            return Err(Error::unsupported(format!("{expr} as an aggregate")));
        };
        let data_type = plain_type(field.data_type());
        let mut call = Call { function, aggregate, name: shown_name(field.name()), data_type, position: index };
        if !is_name(field.name()) {
            call.name = call.text(&parts)?;
        }
        calls.push(call);
    }
    // An aggregate without an order can share the arrangement of one with an order, which must be there by then.
    calls.sort_by_key(|call| call.function.params.order_by.is_empty());
    for call in &calls {
        call.add(&mut parts)?;
    }
    parts.finish(memory)
}

/// One aggregate of the list.
struct Call<'a> {
    function: &'a AggregateFunction,
    aggregate: &'a Aggregate,
    name: String,
    data_type: DataType,
    position: usize,
}

impl Call<'_> {
    fn add(&self, parts: &mut Parts) -> Result<()> {
        let params = &self.function.params;
        let filter = params.filter.as_deref().map(|filter| self.scalar(filter, parts)).transpose()?;
        let args = params.args.iter().map(|arg| self.item(arg, parts)).collect::<Result<Vec<_>>>()?;
        match (self.function.func.name(), args.as_slice()) {
            ("count", _) => self.count(args, filter, parts),
            ("sum", [arg]) if is_summable(&arg.1.data_type) => self.sum(arg, filter, parts),
            ("avg", [arg]) if is_summable(&arg.1.data_type) => self.average(arg, filter, parts),
            ("bool_and" | "bool_or", [arg]) => self.truth(arg, filter, parts),
            ("var" | "var_pop" | "stddev" | "stddev_pop", [arg]) if arg.1.data_type == DataType::Float64 => {
                self.variance(arg, filter, parts)
            }
            ("min", [arg]) => self.first(arg, filter, false, parts),
            ("max", [arg]) => self.first(arg, filter, true, parts),
            _ => self.general(args, filter, parts),
        }
    }

    /// The call as SQL has it.
    fn text(&self, parts: &Parts) -> Result<String> {
        let params = &self.function.params;
        let args = params.args.iter().map(|arg| Ok(self.item(arg, parts)?.1.name)).collect::<Result<Vec<_>>>()?;
        let function = self.function.func.name();
        let args = match params.args.as_slice() {
            [Expr::Literal(..)] if function == "count" => "*".into(),
            _ => args.join(", "),
        };
        let distinct = if params.distinct { "DISTINCT " } else { "" };
        let filter = match &params.filter {
            Some(filter) => format!(" FILTER (WHERE {})", readable(&self.scalar(filter, parts)?)),
            None => String::new(),
        };
        Ok(format!("{function}({distinct}{args}){filter}"))
    }

    fn count(&self, args: Vec<Item>, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let nullable = args.iter().filter(|(_, column)| column.nullable);
        let present = nullable.map(|(arg, _)| Ok(expressions::is_not_null(arg.clone())?)).collect::<Result<Vec<_>>>()?;
        let schema = parts.groups.row().schema();
        let sums = match (self.function.params.distinct, args.as_slice()) {
            (false, [arg]) => parts.sums(filter, arg.1.nullable.then(|| arg.clone()))?,
            // Of several arguments, rows in which none is NULL.
            (false, _) => parts.sums(all(filter.into_iter().chain(present), &schema)?, None)?,
            (true, _) => parts.distinct_sums(filter, all(present, &schema)?, args, None)?,
        };
        let count = parts.sum(&sums, SumKind::Count);
        self.output(sums.part, Finish::Value(count), false, parts);
        Ok(())
    }

    fn sum(&self, arg: &Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let sums = self.sums_of(arg, filter, parts)?;
        let finish = Finish::SumOrNull { sum: parts.sum(&sums, sum_kind(&sums)), count: parts.sum(&sums, SumKind::Count) };
        self.output(sums.part, finish, true, parts);
        Ok(())
    }

    fn average(&self, arg: &Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let sums = self.sums_of(arg, filter, parts)?;
        let finish = Finish::Average { sum: parts.sum(&sums, sum_kind(&sums)), count: parts.sum(&sums, SumKind::Count) };
        self.output(sums.part, finish, true, parts);
        Ok(())
    }

    fn variance(&self, arg: &Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let name = self.function.func.name();
        let sums = self.distinct_or_all(arg.clone(), filter, parts)?;
        let finish = Finish::Variance {
            sum: parts.sum(&sums, SumKind::Float),
            squares: parts.sum(&sums, SumKind::FloatSquare),
            count: parts.sum(&sums, SumKind::Count),
            sample: !name.ends_with("_pop"),
            root: name.starts_with("stddev"),
        };
        self.output(sums.part, finish, true, parts);
        Ok(())
    }

    fn truth(&self, arg: &Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let sums = parts.sums(filter, Some(arg.clone()))?;
        let (trues, count) = (parts.sum(&sums, SumKind::True), parts.sum(&sums, SumKind::Count));
        let finish = match self.function.func.name() {
            "bool_and" => Finish::All { trues, count },
            _ => Finish::Any { trues, count },
        };
        self.output(sums.part, finish, true, parts);
        Ok(())
    }

    /// MIN and MAX: NULLs last in either direction, so that the first row has NULL only where all have.
    fn first(&self, arg: &Item, filter: Option<Scalar>, descending: bool, parts: &mut Parts) -> Result<()> {
        if parts.groups.only_grow() && has_rank(&arg.1.data_type) {
            return self.extreme(arg.clone(), filter, if descending { SumKind::Greatest } else { SumKind::Least }, parts);
        }
        let (scalar, column) = arg.clone();
        let scalar = match filter {
            None => scalar,
            Some(filter) => expressions::case(None, vec![(filter, scalar)], None)?,
        };
        let sort = SortOptions { descending, nulls_first: false };
        let part = parts.first((scalar, Column { nullable: true, sort, ..column }));
        parts.output(
            self.position,
            part,
            Finish::Value(0),
            Column { name: self.name.clone(), nullable: true, data_type: arg.1.data_type.clone(), sort },
        );
        Ok(())
    }

    /// MIN and MAX of rows that are never taken away.
    fn extreme(&self, (scalar, column): Item, filter: Option<Scalar>, kind: SumKind, parts: &mut Parts) -> Result<()> {
        let sums = parts.sums(filter, Some((scalar, column)))?;
        let finish = Finish::Extreme { value: parts.sum(&sums, kind), count: parts.sum(&sums, SumKind::Count) };
        self.output(sums.part, finish, true, parts);
        Ok(())
    }

    fn general(&self, args: Vec<Item>, filter: Option<Scalar>, parts: &mut Parts) -> Result<()> {
        let params = &self.function.params;
        if args.is_empty() {
            return Err(Error::unsupported(format!("aggregate {}", self.name)));
        }
        let order = params.order_by.iter().map(|by| {
            let (scalar, column) = self.item(&by.expr, parts)?;
            Ok((scalar, Column { sort: order::options(by), ..column }))
        });
        let order = order.collect::<Result<Vec<Item>>>()?;
        let general = General {
            function: self.function.func.clone(),
            name: self.name.clone(),
            args,
            order,
            distinct: params.distinct,
            ignore_nulls: params.null_treatment == Some(NullTreatment::IgnoreNulls),
        };
        parts.general(self.position, general, filter)
    }

    /// The sums that SUM and AVG read. Whole numbers are added up as such: the type that DataFusion widens them to is the
    /// result's, not the sum's.
    fn sums_of(&self, arg: &Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<SumsOf> {
        let arg = match arg.0.downcast_ref::<CastExpr>() {
            Some(cast) => {
                let inner = plain_item(cast.expr().clone(), &arg.1.name, parts.groups.row())?;
                if inner.1.data_type.is_integer() { inner } else { arg.clone() }
            }
            None => arg.clone(),
        };
        self.distinct_or_all(arg, filter, parts)
    }

    fn distinct_or_all(&self, arg: Item, filter: Option<Scalar>, parts: &mut Parts) -> Result<SumsOf> {
        if !self.function.params.distinct {
            return parts.sums(filter, Some(arg));
        }
        let present = arg.1.nullable.then(|| expressions::is_not_null(arg.0.clone())).transpose()?;
        parts.distinct_sums(filter, present, vec![arg.clone()], Some(arg))
    }

    fn output(&self, part: usize, finish: Finish, nullable: bool, parts: &mut Parts) {
        parts.output(self.position, part, finish, Column::new(&self.name, self.data_type.clone(), nullable));
    }

    fn item(&self, expr: &Expr, parts: &Parts) -> Result<Item> {
        labelled_item(expr, self.aggregate.input.schema(), parts.groups.row())
    }

    fn scalar(&self, expr: &Expr, parts: &Parts) -> Result<Scalar> {
        scalar(expr, self.aggregate.input.schema(), parts.groups.row())
    }
}

fn is_summable(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(..) | DataType::Float64 | DataType::Float32)
}

fn sum_kind(sums: &SumsOf) -> SumKind {
    match sums.data_type {
        Some(DataType::Float64 | DataType::Float32) => SumKind::Float,
        _ => SumKind::Integer,
    }
}

/// Whether `scalar` is a constant.
pub(super) fn is_constant(scalar: &Scalar) -> bool {
    scalar.is::<Literal>()
}

/// A filter as a column of its own: true, or not.
pub(super) fn filter_item(filter: &Scalar, row: &crate::plan::RowType) -> Result<Item> {
    let schema = row.schema();
    let is_true = expressions::binary(filter.clone(), Operator::IsNotDistinctFrom, literal(ScalarValue::Boolean(Some(true))), &schema)?;
    Ok((is_true, Column::new("filter", DataType::Boolean, false)))
}
