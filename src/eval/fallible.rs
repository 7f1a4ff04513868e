//! Which expressions never fail.
//!
//! An operator over such expressions needs no path for errors. The answer is careful: what is not known to be total
//! is taken to fail. Running out of memory, or of the 2 GB that a text column can hold, is not counted.

use arrow::datatypes::{DataType, Schema};
use datafusion_expr::Operator;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};

use super::attempt::Attempt;
use super::checked::CheckedNegative;
use super::equal::Comparable;
use super::time_windows::TimeWindow;
use crate::plan::Scalar;

/// Functions that have a value for all arguments of their types: no argument is out of a domain, and no result out
/// of a range. Left out for good reason: `substr` with a (negative) length, `repeat`, `lpad` and `rpad` (too long),
/// `chr` (no such character), `split_part` (position 0), `to_*` (unreadable text), `abs` (the least integer),
/// `power`, `factorial`, `date_trunc`, `date_part` and `date_bin` (beyond the calendar), regular expressions (patterns).
const TOTAL: &[&str] = &[
    // Text, by character or byte.
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "concat",
    "concat_ws",
    "contains",
    "ends_with",
    "lower",
    "ltrim",
    "octet_length",
    "reverse",
    "rtrim",
    "split_index",
    "starts_with",
    "strpos",
    "upper",
    // Digests.
    "md5",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    // A choice among the arguments.
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    // Structs and lists of the arguments.
    "get_field",
    "make_array",
    "named_struct",
    "struct",
];

/// Whether evaluating the expression can fail on some row (a division, a cast, a function call) or never does (a
/// column, a literal, a comparison of equal types, boolean logic, IS NULL). True where it is not known.
///
/// The types of columns are not known here, so arithmetic on and casts of a bare column count as fallible.
pub fn is_fallible(expr: &Scalar) -> bool {
    !expr.is::<Attempt>() && (fails_by_itself(expr) || expr.children().into_iter().any(is_fallible))
}

/// Whether the root of the expression can fail on values that its arguments have.
fn fails_by_itself(expr: &Scalar) -> bool {
    let total = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<CaseExpr>()
        || expr.is::<LikeExpr>()
        || expr.is::<TryCastExpr>()
        || expr.is::<Comparable>();
    if total {
        return false;
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return operator_fails(binary);
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return !cast.cast_options().safe && !known_type(cast.expr()).is_some_and(|from| is_total_cast(&from, cast.cast_type()));
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let name = function.fun().name();
        return !(TimeWindow::of(expr).is_some() || TOTAL.contains(&name) || name == "substr" && function.args().len() == 2);
    }
    let negated = expr.downcast_ref::<CheckedNegative>().map(|e| &e.arg).or(expr.downcast_ref::<NegativeExpr>().map(NegativeExpr::arg));
    !negated.is_some_and(is_floating)
}

fn operator_fails(binary: &BinaryExpr) -> bool {
    use Operator::*;
    match binary.op() {
        And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => false,
        LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch | StringConcat => false,
        BitwiseAnd | BitwiseOr | BitwiseXor => false,
        // Both sides have the same type, so one that is known is enough. IEEE 754 has an answer for everything.
        Plus | Minus | Multiply | Divide | Modulo => !(is_floating(binary.left()) || is_floating(binary.right())),
        _ => true,
    }
}

fn is_floating(expr: &Scalar) -> bool {
    known_type(expr).is_some_and(|data_type| data_type.is_floating())
}

/// The type of an expression, where it follows without the types of columns.
fn known_type(expr: &Scalar) -> Option<DataType> {
    expr.data_type(&Schema::empty()).ok()
}

/// Whether every value of `from` is one of `to`.
fn is_total_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let rank = |data_type: &DataType| match data_type {
        Int8 | UInt8 => 1,
        Int16 | UInt16 => 2,
        Int32 | UInt32 => 3,
        Int64 | UInt64 => 4,
        _ => 0,
    };
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        _ if from.is_signed_integer() && to.is_signed_integer() => rank(from) <= rank(to),
        _ if from.is_unsigned_integer() && to.is_unsigned_integer() => rank(from) <= rank(to),
        _ if from.is_unsigned_integer() && to.is_signed_integer() => rank(from) < rank(to),
        _ if from.is_integer() => matches!(to, Float32 | Float64) || is_text(to),
        (Float32, Float64) => true,
        (Boolean | Float32 | Float64, to) => is_text(to),
        (Utf8 | LargeUtf8 | Utf8View, to) => is_text(to),
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use datafusion_common::config::ConfigOptions;
    use datafusion_physical_expr::expressions::lit;

    use super::*;

    fn column() -> Scalar {
        Arc::new(Column::new("v", 0))
    }

    fn binary(left: Scalar, op: Operator, right: Scalar) -> Scalar {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    fn cast(expr: Scalar, to: DataType) -> Scalar {
        Arc::new(CastExpr::new(expr, to, None))
    }

    fn call(fun: Arc<datafusion_expr::ScalarUDF>, args: Vec<Scalar>) -> Scalar {
        let schema = Schema::new(vec![arrow::datatypes::Field::new("v", DataType::Utf8, true)]);
        Arc::new(ScalarFunctionExpr::try_new(fun, args, &schema, Arc::new(ConfigOptions::new())).unwrap())
    }

    #[test]
    fn comparisons_and_logic_never_fail() {
        let compared = binary(column(), Operator::Lt, lit(3i64));
        let not_null: Scalar = Arc::new(IsNotNullExpr::new(column()));
        assert!(!is_fallible(&binary(compared, Operator::And, not_null)));
    }

    #[test]
    fn what_contains_a_division_can_fail_wherever_it_is() {
        let division = binary(lit(100i64), Operator::Divide, column());
        assert!(is_fallible(&division));
        assert!(is_fallible(&binary(column(), Operator::Or, binary(division, Operator::Gt, lit(1i64)))));
    }

    #[test]
    fn integers_overflow_and_doubles_do_not() {
        assert!(is_fallible(&binary(column(), Operator::Plus, lit(1i64))));
        assert!(!is_fallible(&binary(column(), Operator::Divide, lit(0.0f64))));
    }

    #[test]
    fn a_cast_never_fails_if_every_value_fits() {
        assert!(!is_fallible(&cast(lit(1i32), DataType::Int64)));
        assert!(!is_fallible(&cast(lit(1u32), DataType::Int64)));
        assert!(!is_fallible(&cast(lit(1i64), DataType::Utf8)));
        assert!(is_fallible(&cast(lit(1i64), DataType::Int32)));
        assert!(is_fallible(&cast(lit(1u64), DataType::Int64)));
        assert!(is_fallible(&cast(lit("x"), DataType::Int64)));
        assert!(is_fallible(&cast(column(), DataType::Int64)), "the column may be text");
    }

    #[test]
    fn total_functions_are_known_by_name_and_others_can_fail() {
        assert!(!is_fallible(&call(datafusion_functions::string::upper(), vec![column()])));
        let substr = datafusion_functions::unicode::substr;
        assert!(!is_fallible(&call(substr(), vec![column(), lit(2i64)])));
        assert!(is_fallible(&call(substr(), vec![column(), lit(2i64), lit(-1i64)])));
    }
}
