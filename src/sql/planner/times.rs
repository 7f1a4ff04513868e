//! Calls with a unit of time in them, as the functions that they are: FLOOR and CEIL of a moment TO a unit, TIMESTAMPADD and
//! TIMESTAMPDIFF.

use sqlparser::ast::{
    BinaryOperator, CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, Interval, ObjectName, Value,
};

use super::zones;
use crate::error::{Error, Result};
use crate::sql::functions::{CEIL, FLOOR, check_unit};

/// What such a call is to be planned as; None of any other expression.
pub(super) fn rewritten(expr: &Expr) -> Option<Result<Expr>> {
    match expr {
        Expr::AtTimeZone { timestamp, time_zone } => Some(zones::at_time_zone(timestamp, time_zone)),
        Expr::Floor { expr, field } => rounded(FLOOR, expr, field),
        Expr::Ceil { expr, field } => rounded(CEIL, expr, field),
        Expr::Function(function) => match function.name.to_string().to_uppercase().as_str() {
            "TIMESTAMPADD" => Some(added(function)),
            "TIMESTAMPDIFF" => Some(difference(function)),
            _ => None,
        },
        _ => None,
    }
}

fn rounded(name: &str, of: &Expr, field: &CeilFloorKind) -> Option<Result<Expr>> {
    let unit = match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) | CeilFloorKind::Scale(_) => return None,
        CeilFloorKind::DateTimeField(unit) => unit.to_string(),
    };
    let written = if name == FLOOR { "FLOOR" } else { "CEIL" };
    Some(check_unit(&unit, written).map(|()| call(name, vec![text(&unit), of.clone()])))
}

/// TIMESTAMPADD(unit, n, moment) is `moment + n * INTERVAL '1' unit`.
fn added(function: &Function) -> Result<Expr> {
    let usage = "it is called as TIMESTAMPADD(unit, n, moment): TIMESTAMPADD(DAY, 3, ts)";
    let [unit, number, moment] = arguments(function, usage)?;
    let (times, field) = match unit_name(&unit, "TIMESTAMPADD", usage)?.as_str() {
        "MICROSECOND" => (1, DateTimeField::Microsecond),
        "MILLISECOND" => (1, DateTimeField::Millisecond),
        "SECOND" => (1, DateTimeField::Second),
        "MINUTE" => (1, DateTimeField::Minute),
        "HOUR" => (1, DateTimeField::Hour),
        "DAY" => (1, DateTimeField::Day),
        "WEEK" => (7, DateTimeField::Day),
        "MONTH" => (1, DateTimeField::Month),
        "QUARTER" => (3, DateTimeField::Month),
        _ => (1, DateTimeField::Year),
    };
    let interval = Expr::Interval(Interval {
        value: Box::new(text(&times.to_string())),
        leading_field: Some(field),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    });
    let sum = |left: Expr, op, right: Expr| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
    let by = sum(Expr::Nested(Box::new(number)), BinaryOperator::Multiply, interval);
    Ok(Expr::Nested(Box::new(sum(Expr::Nested(Box::new(moment)), BinaryOperator::Plus, by))))
}

/// TIMESTAMPDIFF(unit, from, to), its unit as text.
fn difference(function: &Function) -> Result<Expr> {
    let usage = "it is called as TIMESTAMPDIFF(unit, from, to): TIMESTAMPDIFF(DAY, a, b)";
    let [unit, from, to] = arguments(function, usage)?;
    Ok(call("timestampdiff", vec![text(&unit_name(&unit, "TIMESTAMPDIFF", usage)?), from, to]))
}

/// The three arguments of a call.
fn arguments(function: &Function, usage: &str) -> Result<[Expr; 3]> {
    let wrong = || Error::invalid(format!("{}: {usage}", function.name.to_string().to_uppercase()));
    let FunctionArguments::List(list) = &function.args else { return Err(wrong()) };
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let args = list.args.iter().map(expr).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    args.try_into().map_err(|_| wrong())
}

/// A unit, which is written as a name (DAY, or SQL_TSI_DAY as in ODBC) or in quotes.
fn unit_name(unit: &Expr, function: &str, usage: &str) -> Result<String> {
    let name = match unit {
        Expr::Identifier(name) => Some(&name.value),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    };
    let Some(name) = name else { return Err(Error::invalid(format!("{function}: '{unit}' is not the name of a unit; {usage}"))) };
    let name = name.to_uppercase();
    let name = name.strip_prefix("SQL_TSI_").unwrap_or(&name);
    check_unit(name, function)?;
    Ok(name.to_owned())
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// A call of a function by its name.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}
