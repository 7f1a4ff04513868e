//! Comparisons mean what they say of both their operands, whatever their types.
//!
//! DataFusion takes a cast off a column by casting the literal that the column is compared with. That is the same only if
//! the cast tells all values apart and the literal has one that is cast to it. Its own tests for that let through
//! `CAST(seconds AS TIMESTAMP(6)) < TIMESTAMP '... 00:00:02.997'` (with a literal that is cut to 00:00:02), and
//! `CAST(x AS INT) = 2` of a DECIMAL (as `x = 2.00`, which 2.40 is not), and forget that `CAST(x AS TINYINT)` of 300 fails.
//!
//! So while it simplifies, [`Simplify`] shows it only the casts that it is right about; it sees the others as calls of a
//! function that it knows nothing of, [`Opaque`]. What it is not shown is unwrapped here, for moments, which have no other
//! way to be compared with a literal:
//!
//! | `r` is the literal rounded down to the column's unit | it is `r` | it is later than `r` |
//! |---|---|---|
//! | `<`, `<=` | as they are | `column <= r` |
//! | `>`, `>=` | as they are | `column > r` |
//! | `=`, `<>` and IN | as they are | never equal; NULL where the column is |

use std::any::Any;
use std::cmp::Ordering;

use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility, lit,
};
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::text::per_second;

/// DataFusion's simplification, less what it gets wrong.
#[derive(Debug, Default)]
pub(super) struct Simplify(SimplifyExpressions);

impl OptimizerRule for Simplify {
    fn name(&self) -> &str {
        "simplify"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut schema = DFSchema::empty();
        plan.inputs().into_iter().for_each(|input| schema.merge(input.schema()));
        let aggregates = matches!(plan, LogicalPlan::Aggregate(_));
        let hidden = plan.map_expressions(|expr| hide(expr, &schema))?.data;
        let simplified = self.0.rewrite(hidden, config)?;
        simplified.transform_data(|plan| {
            let shown = plan.map_expressions(show)?;
            // An aggregate may have become a projection of one.
            match aggregates && matches!(shown.data, LogicalPlan::Projection(_)) {
                true => shown.transform_data(|plan| plan.map_children(|input| input.map_expressions(show))),
                false => Ok(shown),
            }
        })
    }
}

/// `expr`, simplified by a function that must not see all of its casts.
pub(super) fn simplified(expr: Expr, schema: &DFSchema, simplify: impl FnOnce(Expr) -> Result<Expr>) -> Result<Expr> {
    show(simplify(hide(expr, schema)?.data)?).data()
}

fn hide(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|node| {
        let (of, field, is_try) = match node {
            Expr::Cast(Cast { expr, field }) => (expr, field, false),
            Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
            other => return Ok(Transformed::no(other)),
        };
        let from = of.get_type(schema)?;
        if matches!(*of, Expr::Literal(..)) || loses_nothing(&from, field.data_type()) {
            let cast = if is_try { Expr::TryCast(TryCast { expr: of, field }) } else { Expr::Cast(Cast { expr: of, field }) };
            return Ok(Transformed::no(cast));
        }
        let opaque = Opaque { from, field, is_try, signature: Signature::any(1, Volatility::Immutable) };
        Ok(Transformed::yes(ScalarUDF::new_from_impl(opaque).call(vec![*of])))
    })
}

fn show(expr: Expr) -> Result<Transformed<Expr>> {
    let unwrapped = expr.transform_up(|node| {
        let compared = compare_moments(&node);
        Ok(compared.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    unwrapped.transform_data(|expr| {
        expr.transform_up(|node| match opaque(&node) {
            None => Ok(Transformed::no(node)),
            Some((cast, of)) => {
                let (expr, field) = (Box::new(of.clone()), cast.field.clone());
                let shown = if cast.is_try { Expr::TryCast(TryCast { expr, field }) } else { Expr::Cast(Cast { expr, field }) };
                Ok(Transformed::yes(shown))
            }
        })
    })
}

/// Whether a cast never fails and tells all values apart, so that taking it off a column changes no comparison with a
/// literal that is the cast of something.
fn loses_nothing(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, Float32, Float64, LargeUtf8, Timestamp, Utf8, Utf8View};
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_integer() && to.is_integer() => {
            let (from, to) = (range(from), range(to));
            to.0 <= from.0 && from.1 <= to.1
        }
        (from, Decimal128(precision, scale)) if from.is_integer() => {
            let (least, most) = range(from);
            let digits = u32::try_from(i16::from(*precision) - i16::from(*scale)).ok();
            digits.and_then(|digits| 10_i128.checked_pow(digits)).is_some_and(|bound| most < bound && -bound < least)
        }
        (Decimal128(p, s), Decimal128(precision, scale)) => {
            s <= scale && i16::from(*p) - i16::from(*s) <= i16::from(*precision) - i16::from(*scale)
        }
        (Timestamp(unit, zone), Timestamp(other, other_zone)) => unit == other && is_utc(zone.as_deref()) && is_utc(other_zone.as_deref()),
        // DataFusion takes off a cast to a string only where the string is what the number is written as.
        (from, Utf8 | LargeUtf8 | Utf8View) => from.is_integer() || matches!(from, Utf8 | LargeUtf8 | Utf8View),
        // These it does not take off.
        (Boolean | Float32 | Float64 | Utf8 | Binary, Boolean | Float32 | Float64 | Date32) => true,
        (from, Float32 | Float64) => from.is_integer() || from.is_decimal(),
        _ => false,
    }
}

/// The least and the greatest integer of a type.
fn range(integer: &DataType) -> (i128, i128) {
    match integer {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        _ => (0, u64::MAX.into()),
    }
}

fn is_utc(zone: Option<&str>) -> bool {
    zone.is_none_or(crate::eval::is_utc)
}

/// A cast that simplification is not to look through.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Opaque {
    from: DataType,
    field: FieldRef,
    is_try: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        "cast"
    }

    /// That of the cast, so that what is called after it keeps its name.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.is_try || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(self.field.as_ref().clone().with_nullable(nullable).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return internal_err!("a cast is of one value") };
        value.cast_to(self.field.data_type(), Some(&CastOptions { safe: self.is_try, ..CastOptions::default() }))
    }
}

/// The hidden cast that `expr` is, and of what.
fn opaque(expr: &Expr) -> Option<(&Opaque, &Expr)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    Some(((func.inner().as_ref() as &dyn Any).downcast_ref()?, args.first()?))
}

/// A comparison of a cast of a moment to a finer unit with literals, as one of the moment.
fn compare_moments(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (refined(left), refined(right)) {
            (Some((moment, unit)), None) => compare_moment(moment, unit, *op, right),
            (None, Some((moment, unit))) => compare_moment(moment, unit, op.swap()?, left),
            _ => None,
        },
        Expr::InList(InList { expr, list, negated }) => {
            let (moment, unit) = refined(expr)?;
            let rounded = list.iter().map(|item| rounded(item, unit)).collect::<Option<Vec<_>>>()?;
            let exact = rounded.into_iter().filter(|(_, is_exact)| *is_exact).map(|(literal, _)| literal);
            let list: Vec<Expr> = exact.collect();
            let is_in = match list.is_empty() {
                true => never(moment),
                false => moment.clone().in_list(list, false),
            };
            Some(if *negated { Expr::Not(Box::new(is_in)) } else { is_in })
        }
        _ => None,
    }
}

/// The moment that `expr` casts to a finer unit, and its own type.
fn refined(expr: &Expr) -> Option<(&Expr, &DataType)> {
    let (cast, of) = opaque(expr)?;
    let (DataType::Timestamp(from, zone), DataType::Timestamp(to, other)) = (&cast.from, cast.field.data_type()) else { return None };
    let finer = per_second(*to) > per_second(*from) && !cast.is_try && is_utc(zone.as_deref()) && is_utc(other.as_deref());
    finer.then_some((of, &cast.from))
}

fn compare_moment(moment: &Expr, data_type: &DataType, op: Operator, literal: &Expr) -> Option<Expr> {
    let (literal, is_exact) = rounded(literal, data_type)?;
    let compare = |op| Expr::BinaryExpr(BinaryExpr { left: Box::new(moment.clone()), op, right: Box::new(literal.clone()) });
    Some(match op {
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq | Operator::Eq | Operator::NotEq if is_exact => compare(op),
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom if is_exact => compare(op),
        Operator::Lt | Operator::LtEq => compare(Operator::LtEq),
        Operator::Gt | Operator::GtEq => compare(Operator::Gt),
        Operator::Eq => never(moment),
        Operator::NotEq => Expr::Not(Box::new(never(moment))),
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}

/// Not true of any moment: false, or NULL where the moment is.
fn never(moment: &Expr) -> Expr {
    moment.clone().is_null().and(lit(ScalarValue::Boolean(None)))
}

/// A literal moment rounded down to a type's unit, and whether that changes nothing. None of what is no such literal.
fn rounded(literal: &Expr, data_type: &DataType) -> Option<(Expr, bool)> {
    let Expr::Literal(value, _) = literal else { return None };
    let (value, unit) = match value {
        ScalarValue::TimestampSecond(value, _) => (value, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(value, _) => (value, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(value, _) => (value, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(value, _) => (value, TimeUnit::Nanosecond),
        _ => return None,
    };
    let DataType::Timestamp(coarse, zone) = data_type else { return None };
    let (value, zone) = ((*value)?, zone.clone());
    let scale = match per_second(unit).cmp(&per_second(*coarse)) {
        Ordering::Less => return None,
        _ => per_second(unit) / per_second(*coarse),
    };
    let down = Some(value.div_euclid(scale));
    let moment = match coarse {
        TimeUnit::Second => ScalarValue::TimestampSecond(down, zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(down, zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(down, zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(down, zone),
    };
    Some((lit(moment), value.rem_euclid(scale) == 0))
}
