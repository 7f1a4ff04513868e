//! Scalar expressions over a plan's rows.
//!
//! A logical expression names columns; the algebra numbers them. [`scalar`] does the step from one to the other: the
//! `i`th field of the logical schema is the `i`th column of the row, whatever it is called there. Rows hold plain types
//! only (see [`plain_type`]), so an expression that was planned over another representation of a column sees it through
//! a cast.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column as Named, DFSchema, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{Expr, LogicalPlan, Operator};
use datafusion_physical_expr::create_physical_expr;
use datafusion_physical_expr::expressions::{self, Literal};

use crate::error::{Error, Result};
use crate::eval::{cast_to, checked, comparable, comparing, readable};
use crate::plan::{Column, RowType, Scalar};
use crate::sql::functions::EngineTime;

/// An expression and the column that it makes.
pub(super) type Item = (Scalar, Column);

/// What is behind this in a column's name is there to tell it from another one with the same name.
pub const REPEAT: char = '\u{1}';

/// A column's name as the query meant it.
pub fn shown_name(name: &str) -> String {
    name.split(REPEAT).next().unwrap_or_default().to_string()
}

/// Whether somebody gave this name, rather than the planner that made it of an expression.
pub(super) fn is_name(name: &str) -> bool {
    let name = name.split(REPEAT).next().unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// `expr` as a column of a plain type that is called what the expression says.
pub(super) fn labelled_item(expr: &Expr, schema: &DFSchema, row: &RowType) -> Result<Item> {
    let name = match expr {
        Expr::Column(column) => &column.name,
        Expr::Alias(alias) => &alias.name,
        _ => "",
    };
    item(expr, name, schema, row)
}

/// The physical form of `expr`, whose columns are those of `schema`, over rows of type `row`. Its arithmetic fails where
/// it would wrap around, and its comparisons take equal numbers for equal.
pub fn scalar(expr: &Expr, schema: &DFSchema, row: &RowType) -> Result<Scalar> {
    refuse_time(expr)?;
    scalar_over_time(expr, schema, row)
}

/// [`scalar`] of an expression that may read engine time, which nothing evaluates as it is.
pub(super) fn scalar_over_time(expr: &Expr, schema: &DFSchema, row: &RowType) -> Result<Scalar> {
    refuse_subqueries(expr)?;
    for column in expr.column_refs() {
        position(column, schema)?;
    }
    let planned = create_physical_expr(expr, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())?;
    let row_schema = row.schema();
    let placed = planned
        .transform_up(|node| {
            let Some(index) = column_index(&node) else { return Ok(Transformed::no(node)) };
            let read = read_column(row, index);
            let wanted = schema.field(index).data_type();
            let read = if row.columns[index].data_type == *wanted {
                read
            } else if wanted.is_null() {
                literal(ScalarValue::Null)
            } else {
                cast_to(read, &row_schema, wanted.clone())?
            };
            Ok(Transformed::yes(read))
        })
        .data()?;
    Ok(comparing(checked(placed), &row_schema)?)
}

/// Where `column` is in `schema`. Every name was found when the query was planned: one that is not there now was read in a
/// subquery, from a query that is not the next one out, and decorrelation has lost it.
pub(super) fn position(column: &Named, schema: &DFSchema) -> Result<usize> {
    let lost = |_| Error::unsupported(format!("a subquery that reads {column} from more than one query out"));
    schema.index_of_column(column).map_err(lost)
}

/// `expr` as a column of a plain type that is called `name`, or what the expression says where the name is the planner's
/// text of it and not a name.
pub(super) fn item(expr: &Expr, name: &str, schema: &DFSchema, row: &RowType) -> Result<Item> {
    let scalar = scalar(expr, schema, row)?;
    let name = if is_name(name) { shown_name(name) } else { readable(&scalar) };
    plain_item(scalar, &name, row)
}

/// `scalar` as a column called `name`, cast to a plain type where it is of another one.
pub fn plain_item(scalar: Scalar, name: &str, row: &RowType) -> Result<(Scalar, Column)> {
    let schema = row.schema();
    let data_type = scalar.data_type(&schema)?;
    let nullable = scalar.nullable(&schema)?;
    let plain = plain_type(&data_type);
    let scalar = if plain == data_type { scalar } else { expressions::cast(scalar, &schema, plain.clone())? };
    Ok((scalar, Column::new(shown_name(name), plain, nullable)))
}

/// Column `index` of the row as it is, in ascending order.
pub(super) fn pick(row: &RowType, index: usize) -> Item {
    let column = &row.columns[index];
    (read_column(row, index), Column::new(&column.name, column.data_type.clone(), column.nullable))
}

/// All columns of the row as they are, in ascending order.
pub(super) fn pick_all(row: &RowType) -> Vec<Item> {
    (0..row.len()).map(|index| pick(row, index)).collect()
}

/// `item` cast to `data_type`, where it is of another one.
pub(super) fn cast_item((scalar, column): Item, row: &RowType, data_type: &DataType) -> Result<Item> {
    if column.data_type == *data_type {
        return Ok((scalar, column));
    }
    Ok((cast_to(scalar, &row.schema(), data_type.clone())?, Column { data_type: data_type.clone(), ..column }))
}

/// `item` as a key: what is equal is the same (see [`comparable`]).
pub(super) fn key_item((scalar, column): Item) -> Item {
    (comparable(scalar, &column.data_type), column)
}

/// A reference to column `index` of a row.
pub(super) fn read_column(row: &RowType, index: usize) -> Scalar {
    Arc::new(expressions::Column::new(&row.columns[index].name, index))
}

/// A constant.
pub(super) fn literal(value: ScalarValue) -> Scalar {
    Arc::new(Literal::new(value))
}

/// NULL as a column.
pub(super) fn null_item(name: &str, data_type: &DataType) -> Result<Item> {
    Ok((literal(ScalarValue::try_from(data_type)?), Column::new(name, data_type.clone(), true)))
}

/// Whether `scalar` is the constant `true`.
pub(super) fn is_true(scalar: &Scalar) -> bool {
    scalar.downcast_ref::<Literal>().is_some_and(|literal| matches!(literal.value(), ScalarValue::Boolean(Some(true))))
}

/// Which column `scalar` is, if it is nothing but a column.
pub(super) fn column_index(scalar: &Scalar) -> Option<usize> {
    scalar.downcast_ref::<expressions::Column>().map(expressions::Column::index)
}

/// The columns that `scalar` reads, one entry a mention.
pub(super) fn mentions(scalar: &Scalar) -> Vec<usize> {
    let mut found = vec![];
    scalar
        .apply(|node| {
            found.extend(column_index(node));
            Ok(TreeNodeRecursion::Continue)
        })
        .expect("the visitor never fails");
    found
}

/// `scalar` with each of its columns replaced.
pub(super) fn substitute(scalar: &Scalar, with: impl Fn(usize) -> Scalar) -> Scalar {
    Arc::clone(scalar)
        .transform_up(|node| match column_index(&node) {
            Some(index) => Ok(Transformed::yes(with(index))),
            None => Ok(Transformed::no(node)),
        })
        .data()
        .expect("an expression takes children of the types it had")
}

/// The conjunction of `predicates`; None of none.
pub(super) fn all(predicates: impl IntoIterator<Item = Scalar>, schema: &Schema) -> Result<Option<Scalar>> {
    let mut conjunction = None;
    for predicate in predicates {
        conjunction = Some(match conjunction {
            None => predicate,
            Some(so_far) => expressions::binary(so_far, Operator::And, predicate, schema)?,
        });
    }
    Ok(conjunction)
}

/// Whether `predicate` is false or NULL.
pub(super) fn is_not_true(predicate: Scalar, schema: &Schema) -> Result<Scalar> {
    Ok(expressions::binary(predicate, Operator::IsDistinctFrom, literal(ScalarValue::Boolean(Some(true))), schema)?)
}

/// The type that a row holds for values of `data_type`: views, dictionaries, long offsets and fixed lists are ways to
/// lay values out, not other values, and rows know one way. A NULL that nothing gives a type is a VARCHAR.
pub fn plain_type(data_type: &DataType) -> DataType {
    if data_type.is_null() { DataType::Utf8 } else { plain_layout(data_type) }
}

fn plain_layout(data_type: &DataType) -> DataType {
    let element = |field: &Field| Arc::new(field.clone().with_data_type(plain_layout(field.data_type())));
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain_layout(value),
        DataType::List(field) | DataType::LargeList(field) | DataType::ListView(field) | DataType::FixedSizeList(field, _) => {
            DataType::List(element(field))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| element(field)).collect()),
        other => other.clone(),
    }
}

/// Where a value is computed once a row and kept, there is no instant that it could be of.
fn refuse_time(expr: &Expr) -> Result<()> {
    let mut found = None;
    expr.apply(|node| {
        if let Expr::ScalarFunction(call) = node
            && EngineTime::of(&call.func).is_some()
        {
            found = Some(call.func.name().to_uppercase());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match found {
        None => Ok(()),
        Some(name) => Err(Error::unsupported(format!(
            "{name}() here: time alone would change what is computed of it. It may be in WHERE, HAVING and ON, as in NOW() < ts + INTERVAL '1' DAY"
        ))),
    }
}

/// A subquery that no rule turned into a join stays in its expression and cannot be evaluated a row at a time.
fn refuse_subqueries(expr: &Expr) -> Result<()> {
    let mut found = None;
    expr.apply(|node| {
        let (what, plan) = match node {
            Expr::ScalarSubquery(subquery) => ("a correlated scalar subquery here", Some(&subquery.subquery)),
            Expr::Exists(exists) => ("EXISTS here", Some(&exists.subquery.subquery)),
            Expr::InSubquery(test) => ("IN (subquery) here", Some(&test.subquery.subquery)),
            Expr::SetComparison(test) => ("ANY or ALL of a subquery here", Some(&test.subquery.subquery)),
            Expr::OuterReferenceColumn(_, column) => {
                found = Some(format!("{column}, a column of an outer query, here"));
                return Ok(TreeNodeRecursion::Stop);
            }
            Expr::Placeholder(_) => ("a parameter", None),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        let why = match plan {
            Some(plan) => hindrance(plan)?,
            None => None,
        };
        found = Some(what.to_owned() + &why.map_or(String::new(), |why| format!(", with {why} in it")));
        Ok(TreeNodeRecursion::Stop)
    })?;
    match found {
        None => Ok(()),
        Some(what) => Err(Error::unsupported(format!(
            "{what}: it cannot be turned into a join, which takes equalities of an inner and an outer column in WHERE, with AND between"
        ))),
    }
}

/// The first condition, or other expression, of a subquery that reads the outer query and is not such an equality.
fn hindrance(subquery: &LogicalPlan) -> datafusion_common::Result<Option<String>> {
    let mut found = None;
    subquery.apply_with_subqueries(|node| {
        let exprs = match node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().cloned().collect(),
            other => other.expressions(),
        };
        found = exprs.iter().find(|expr| expr.contains_outer() && !is_correlated_equality(expr)).map(written);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_correlated_equality(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(equality)
        if equality.op == Operator::Eq && equality.left.contains_outer() != equality.right.contains_outer())
}

/// An expression as it was written, or nearly so.
fn written(expr: &Expr) -> String {
    let plain = expr.clone().transform_up(|node| match node {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    });
    plain.map_or_else(|_| expr.human_display().to_string(), |plain| plain.data.human_display().to_string())
}
