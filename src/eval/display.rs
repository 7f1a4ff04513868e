//! Expressions, types and values as a person who writes SQL would write them.
//!
//! Columns have their names and no positions, literals no type wrappers, and parentheses are only where they change
//! the meaning. For messages and EXPLAIN; nothing parses it again.

use std::fmt::Write;

use arrow::array::Array;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::ScalarValue;
use datafusion_expr::{Operator, WindowFrame, WindowFrameBound};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion_physical_expr::{PhysicalSortExpr, ScalarFunctionExpr};

use super::attempt::Attempt;
use super::checked::CheckedNegative;
use super::equal::Comparable;
use super::time_windows::TimeWindow;
use super::window::WindowAggregate;
use super::zones::{ClockCast, ClockMove, is_utc};
use crate::plan::Scalar;
use crate::sql::functions::TIMES;

/// An expression: `100 / v`, `CAST(s AS BIGINT)`, `lower(name) LIKE 'a%'`.
pub fn readable(expr: &Scalar) -> String {
    Text::of(expr).text
}

/// An aggregate call: `string_agg(DISTINCT s, ',' ORDER BY s)`.
pub fn readable_aggregate(function: &AggregateFunctionExpr) -> String {
    let mut inside = String::new();
    if function.is_distinct() {
        inside.push_str("DISTINCT ");
    }
    let arguments = function.expressions();
    let counts_rows = function.fun().name() == "count" && matches!(arguments.as_slice(), [one] if is_constant(one));
    inside.push_str(&if counts_rows { "*".to_owned() } else { list(&arguments) });
    if !function.order_bys().is_empty() {
        let _ = write!(inside, " ORDER BY {}", readable_order(function.order_bys()));
    }
    format!("{}({inside}){}", function.fun().name(), if function.ignore_nulls() { " IGNORE NULLS" } else { "" })
}

/// A window function with its frame: `sum(v) OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)`. What
/// partitions it is the arrangement's key.
pub fn readable_window(expr: &dyn WindowExpr) -> String {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>();
    let aggregate = standard.and_then(|standard| standard.get_standard_func_expr().as_any().downcast_ref::<WindowAggregate>());
    let call = match aggregate {
        Some(aggregate) => {
            let filter = aggregate.filter().map(|filter| format!(" FILTER (WHERE {})", readable(filter)));
            readable_aggregate(aggregate.function()) + &filter.unwrap_or_default()
        }
        // A name may be the bare function's or the planner's for the whole expression.
        None => format!("{}({})", expr.name().split(['(', ' ']).next().unwrap_or_default(), list(&expr.expressions())),
    };
    let order = match expr.order_by() {
        [] => String::new(),
        order => format!("ORDER BY {} ", readable_order(order)),
    };
    format!("{call} OVER ({order}{})", frame_text(expr.get_window_frame()))
}

fn frame_text(frame: &WindowFrame) -> String {
    let bound = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) if by.is_null() => "UNBOUNDED PRECEDING".to_owned(),
        WindowFrameBound::Following(by) if by.is_null() => "UNBOUNDED FOLLOWING".to_owned(),
        WindowFrameBound::Preceding(by) => format!("{} PRECEDING", literal_text(by)),
        WindowFrameBound::Following(by) => format!("{} FOLLOWING", literal_text(by)),
        WindowFrameBound::CurrentRow => "CURRENT ROW".to_owned(),
    };
    format!("{} BETWEEN {} AND {}", frame.units, bound(&frame.start_bound), bound(&frame.end_bound))
}

/// The keys of an ORDER BY. NULLs are mentioned where they are not first.
fn readable_order(order: &[PhysicalSortExpr]) -> String {
    let key = |key: &PhysicalSortExpr| {
        let direction = if key.options.descending { " DESC" } else { "" };
        let nulls = if key.options.nulls_first { "" } else { " NULLS LAST" };
        format!("{}{direction}{nulls}", readable(&key.expr))
    };
    order.iter().map(key).collect::<Vec<_>>().join(", ")
}

/// A type by its SQL name.
pub fn readable_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "TINYINT UNSIGNED".to_owned(),
        DataType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        DataType::UInt32 => "INT UNSIGNED".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".to_owned(),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", digits(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", digits(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP({}) WITH TIME ZONE", digits(unit)),
        DataType::Interval(_) => "INTERVAL".to_owned(),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            format!("{}[]", readable_type(element.data_type()))
        }
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|f| format!("{} {}", f.name(), readable_type(f.data_type()))).collect();
            format!("STRUCT({})", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn digits(unit: &TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// One value of a column; text as it is, NULL as `NULL`.
pub fn readable_value(array: &dyn Array, row: usize) -> String {
    let options = FormatOptions::new()
        .with_null("NULL")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
    match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).try_to_string().unwrap_or_else(|error| error.to_string()),
        Err(error) => error.to_string(),
    }
}

/// Text, and how tightly its outermost operator binds.
struct Text {
    text: String,
    precedence: u8,
}

const ATOM: u8 = u8::MAX;
const UNARY_MINUS: u8 = 50;
/// LIKE, IN, BETWEEN and IS bind as tightly as LIKE the operator.
const PREDICATE: u8 = 25;
/// Between the comparisons and AND.
const NOT: u8 = 12;

impl Text {
    fn of(expr: &Scalar) -> Self {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return atom(column.name());
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return atom(literal_text(literal.value()));
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return infix(*binary.op(), binary.left(), binary.right());
        }
        if let Some((window, time)) = TimeWindow::of(expr) {
            return atom(window.readable(&readable(time)));
        }
        if let Some((to, of)) = ClockCast::of(expr) {
            return cast_text("CAST", of, to);
        }
        if let Some((op, instant, by)) = ClockMove::of(expr) {
            return infix(op, instant, by);
        }
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            if let (TIMES, [interval, number]) = (function.fun().name(), function.args()) {
                return infix(Operator::Multiply, interval, number);
            }
            return atom(format!("{}({})", function.fun().name(), list(function.args())));
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return cast_text("CAST", cast.expr(), cast.cast_type());
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            return cast_text("TRY_CAST", cast.expr(), cast.cast_type());
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return atom(case_text(case));
        }
        if let Some(attempt) = expr.downcast_ref::<Attempt>() {
            return atom(format!("{}({})", attempt.name(), list(attempt.of())));
        }
        if let Some(comparable) = expr.downcast_ref::<Comparable>() {
            return Text::of(&comparable.arg);
        }
        predicate_text(expr).unwrap_or_else(|| Text { text: without_positions(&expr.to_string()), precedence: 0 })
    }

    /// The text as an operand of an operator that binds with `precedence`.
    fn within(expr: &Scalar, precedence: u8) -> String {
        let Text { text, precedence: own } = Text::of(expr);
        if own < precedence { format!("({text})") } else { text }
    }
}

fn atom(text: impl Into<String>) -> Text {
    Text { text: text.into(), precedence: ATOM }
}

fn list(exprs: &[Scalar]) -> String {
    exprs.iter().map(readable).collect::<Vec<_>>().join(", ")
}

fn is_constant(expr: &Scalar) -> bool {
    expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
}

/// A cast; to a moment of a zone it is AT TIME ZONE.
fn cast_text(word: &str, of: &Scalar, to: &DataType) -> Text {
    match to {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) => atom(format!("{} AT TIME ZONE '{zone}'", Text::within(of, ATOM))),
        _ => atom(format!("{word}({} AS {})", readable(of), readable_type(to))),
    }
}

fn infix(op: Operator, left: &Scalar, right: &Scalar) -> Text {
    let precedence = op.precedence();
    // a - (b - c) is not (a - b) - c, but AND and OR may be regrouped as one likes.
    let regroups = matches!(op, Operator::And | Operator::Or);
    let left = Text::within(left, precedence);
    let right = Text::within(right, if regroups { precedence } else { precedence + 1 });
    let symbol = if op == Operator::NotEq { "<>".to_owned() } else { op.to_string() };
    Text { text: format!("{left} {symbol} {right}"), precedence }
}

fn predicate_text(expr: &Scalar) -> Option<Text> {
    if let Some(is) = expr.downcast_ref::<IsNullExpr>() {
        return Some(predicate(is.arg(), "IS NULL"));
    }
    if let Some(is) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(predicate(is.arg(), "IS NOT NULL"));
    }
    if let Some(within) = expr.downcast_ref::<InListExpr>() {
        let not = if within.negated() { "NOT " } else { "" };
        return Some(predicate(within.expr(), &format!("{not}IN ({})", list(within.list()))));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let (not, word) = (if like.negated() { "NOT " } else { "" }, if like.case_insensitive() { "ILIKE" } else { "LIKE" });
        return Some(predicate(like.expr(), &format!("{not}{word} {}", Text::within(like.pattern(), PREDICATE + 1))));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return Some(Text { text: format!("NOT {}", Text::within(not.arg(), NOT)), precedence: NOT });
    }
    let negated = expr.downcast_ref::<CheckedNegative>().map(|e| &e.arg).or(expr.downcast_ref::<NegativeExpr>().map(NegativeExpr::arg))?;
    Some(Text { text: format!("-{}", Text::within(negated, UNARY_MINUS + 1)), precedence: UNARY_MINUS })
}

fn predicate(of: &Scalar, what: &str) -> Text {
    Text { text: format!("{} {what}", Text::within(of, PREDICATE + 1)), precedence: PREDICATE }
}

fn case_text(case: &CaseExpr) -> String {
    let mut text = "CASE".to_owned();
    if let Some(of) = case.expr() {
        let _ = write!(text, " {}", readable(of));
    }
    for (when, then) in case.when_then_expr() {
        let _ = write!(text, " WHEN {} THEN {}", readable(when), readable(then));
    }
    if let Some(otherwise) = case.else_expr() {
        let _ = write!(text, " ELSE {}", readable(otherwise));
    }
    text + " END"
}

fn literal_text(value: &ScalarValue) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    if let Some(interval) = interval_text(value) {
        return interval;
    }
    let text = match value.to_array() {
        Ok(array) => readable_value(&array, 0),
        Err(_) => value.to_string(),
    };
    match value.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("'{}'", text.replace('\'', "''")),
        DataType::Date32 | DataType::Date64 => format!("DATE '{text}'"),
        DataType::Time32(_) | DataType::Time64(_) => format!("TIME '{text}'"),
        DataType::Timestamp(..) => format!("TIMESTAMP '{text}'"),
        DataType::Duration(_) => format!("INTERVAL '{text}'"),
        _ => text,
    }
}

/// An interval as SQL: `INTERVAL '90' MINUTE`, or `INTERVAL '1 month 2 days 3 hours'` where no one unit says it.
fn interval_text(value: &ScalarValue) -> Option<String> {
    let (months, days, nanoseconds) = match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => (interval.months, interval.days, interval.nanoseconds),
        ScalarValue::IntervalDayTime(Some(interval)) => (0, interval.days, i64::from(interval.milliseconds) * 1_000_000),
        ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0, 0),
        _ => return None,
    };
    let largest = |units: &[(i64, &'static str)], value: i64| {
        let (length, unit) = units.iter().copied().find(|(length, _)| value % length == 0)?;
        Some(((value / length).to_string(), unit))
    };
    let months = largest(&[(12, "YEAR"), (1, "MONTH")], i64::from(months)).filter(|_| months != 0);
    let days = (days != 0).then(|| (days.to_string(), "DAY"));
    let clock = largest(&[(3_600 * SECOND, "HOUR"), (60 * SECOND, "MINUTE"), (SECOND, "SECOND")], nanoseconds);
    let clock = clock.unwrap_or_else(|| (decimal_seconds(nanoseconds), "SECOND"));
    let clock = (nanoseconds != 0).then_some(clock);
    let parts: Vec<(String, &str)> = [months, days, clock].into_iter().flatten().collect();
    Some(match parts.as_slice() {
        [] => "INTERVAL '0' SECOND".to_owned(),
        [(number, unit)] => format!("INTERVAL '{number}' {unit}"),
        parts => {
            let parts: Vec<String> = parts.iter().map(|(number, unit)| format!("{number} {}", unit.to_lowercase())).collect();
            format!("INTERVAL '{}'", parts.join(" "))
        }
    })
}

const SECOND: i64 = 1_000_000_000;

fn decimal_seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, rest) = (nanoseconds.unsigned_abs() / SECOND as u64, nanoseconds.unsigned_abs() % SECOND as u64);
    format!("{sign}{whole}.{}", format!("{rest:09}").trim_end_matches('0'))
}

/// DataFusion's text of an expression, in which a column is `name@position`, without the positions.
fn without_positions(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after_name = out.chars().last().is_some_and(|c| c.is_alphanumeric() || c == '_');
        if c == '@' && after_name && rest.peek().is_some_and(char::is_ascii_digit) {
            while rest.next_if(char::is_ascii_digit).is_some() {}
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion_expr::Operator::*;
    use datafusion_physical_expr::expressions::{in_list, lit};

    use super::*;

    fn column(name: &str) -> Scalar {
        Arc::new(Column::new(name, 3))
    }

    fn binary(left: Scalar, op: Operator, right: Scalar) -> Scalar {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    #[test]
    fn parentheses_are_only_where_they_change_the_meaning() {
        let sum = |a, b| binary(column(a), Plus, column(b));
        assert_eq!(readable(&binary(sum("a", "b"), Multiply, column("c"))), "(a + b) * c");
        assert_eq!(readable(&binary(sum("a", "b"), Minus, column("c"))), "a + b - c");
        assert_eq!(readable(&binary(column("a"), Minus, binary(column("b"), Minus, column("c")))), "a - (b - c)");
        let all = binary(column("p"), And, binary(column("q"), And, binary(column("r"), Or, column("s"))));
        assert_eq!(readable(&all), "p AND q AND (r OR s)");
        assert_eq!(readable(&binary(binary(column("a"), Eq, column("b")), Eq, lit(true))), "a = b = true");
    }

    #[test]
    fn literals_are_written_as_in_sql() {
        assert_eq!(readable(&lit("it's")), "'it''s'");
        assert_eq!(readable(&lit(ScalarValue::Int64(None))), "NULL");
        assert_eq!(readable(&lit(ScalarValue::Date32(Some(0)))), "DATE '1970-01-01'");
        assert_eq!(readable(&lit(ScalarValue::TimestampMillisecond(Some(90_500), None))), "TIMESTAMP '1970-01-01 00:01:30.500'");
        assert_eq!(readable(&lit(ScalarValue::TimestampMillisecond(Some(60_000), None))), "TIMESTAMP '1970-01-01 00:01:00'");
        assert_eq!(readable(&lit(ScalarValue::Decimal128(Some(1250), 10, 2))), "12.50");
    }

    #[test]
    fn an_interval_is_written_in_the_largest_unit_that_says_it() {
        let interval = |months, days, nanoseconds| {
            readable(&lit(ScalarValue::IntervalMonthDayNano(Some(arrow::datatypes::IntervalMonthDayNano::new(months, days, nanoseconds)))))
        };
        assert_eq!(interval(0, 0, 3_600 * SECOND), "INTERVAL '1' HOUR");
        assert_eq!(interval(0, 0, 90 * 60 * SECOND), "INTERVAL '90' MINUTE");
        assert_eq!(interval(0, 0, -1_500_000_000), "INTERVAL '-1.5' SECOND");
        assert_eq!(interval(0, 0, 1), "INTERVAL '0.000000001' SECOND");
        assert_eq!(interval(24, 0, 0), "INTERVAL '2' YEAR");
        assert_eq!(interval(-14, 0, 0), "INTERVAL '-14' MONTH");
        assert_eq!(interval(0, 0, 0), "INTERVAL '0' SECOND");
        assert_eq!(interval(1, 2, 3_600 * SECOND), "INTERVAL '1 month 2 day 1 hour'");
    }

    #[test]
    fn predicates_and_cases_are_written_as_in_sql() {
        let not: Scalar = Arc::new(NotExpr::new(binary(column("a"), And, column("b"))));
        assert_eq!(readable(&not), "NOT (a AND b)");
        let null: Scalar = Arc::new(IsNullExpr::new(binary(column("a"), Plus, lit(1i64))));
        assert_eq!(readable(&null), "a + 1 IS NULL");
        let like: Scalar = Arc::new(LikeExpr::new(true, false, column("s"), lit("x%")));
        assert_eq!(readable(&like), "s NOT LIKE 'x%'");
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new("k", DataType::Int64, true); 4]);
        let listed = in_list(column("k"), vec![lit(1i64), lit(2i64)], &true, &schema).unwrap();
        assert_eq!(readable(&listed), "k NOT IN (1, 2)");
        let case = CaseExpr::try_new(None, vec![(binary(column("a"), Gt, lit(0i64)), lit("up"))], Some(lit("down"))).unwrap();
        assert_eq!(readable(&(Arc::new(case) as Scalar)), "CASE WHEN a > 0 THEN 'up' ELSE 'down' END");
        let negative: Scalar = Arc::new(NegativeExpr::new(binary(column("a"), Plus, column("b"))));
        assert_eq!(readable(&negative), "-(a + b)");
    }

    #[test]
    fn positions_are_left_out_of_what_datafusion_prints() {
        assert_eq!(without_positions("f(total@12, 'x') AND y@0 @> 1"), "f(total, 'x') AND y @> 1");
        assert_eq!(without_positions("'@7' = a_b@7"), "'@7' = a_b");
    }
}
