//! Whole numbers times intervals, which DataFusion has no type for: `n * INTERVAL '1' DAY`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::error::ArrowError;
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use sqlparser::ast::BinaryOperator;

use crate::eval::readable_type;

/// The product, of an interval and a number.
pub const TIMES: &str = "interval_times";

/// Plans a product of an interval, and refuses what intervals have no other arithmetic for.
#[derive(Debug)]
pub(super) struct Intervals;

impl ExprPlanner for Intervals {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
        if !matches!(raw.op, Plus | Minus | Multiply | Divide | Modulo) {
            return Ok(PlannerResult::Original(raw));
        }
        // What has no type yet (a subquery's outer columns have) is no interval.
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
        let (interval, number, of) = match (is_interval(&left), is_interval(&right)) {
            (true, false) if right.is_numeric() => (&raw.left, &raw.right, right),
            (false, true) if left.is_numeric() => (&raw.right, &raw.left, left),
            _ => return Ok(PlannerResult::Original(raw)),
        };
        match raw.op {
            Multiply if of.is_integer() => {
                let product = ScalarUDF::new_from_impl(Times::new()).call(vec![interval.clone(), number.clone()]);
                Ok(PlannerResult::Planned(product))
            }
            Multiply | Divide => plan_err!(
                "an interval {} {}: it is multiplied by whole numbers; in a smaller unit it may be one, as 90 * INTERVAL '1' MINUTE",
                if raw.op == Multiply { "times" } else { "divided by" },
                a(&of)
            ),
            _ => plan_err!("INTERVAL {} {}: a number has no unit; INTERVAL '1' DAY has, say", raw.op, readable_type(&of)),
        }
    }
}

fn a(data_type: &DataType) -> String {
    crate::text::a_type_name(data_type)
}

/// The interval that `expr` multiplies, and moves moments by whole times of.
pub fn multiplied(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == TIMES => call.args.first(),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Times {
    signature: Signature,
}

impl Times {
    pub fn new() -> Self {
        let types = vec![DataType::Interval(IntervalUnit::MonthDayNano), DataType::Int64];
        Times { signature: Signature::new(TypeSignature::Exact(types), Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Times {
    fn name(&self) -> &str {
        TIMES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [interval, number] = args.args.as_slice() else { return internal_err!("{TIMES} is of two values") };
        let is_constant = matches!((interval, number), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (intervals, numbers) = (interval.to_array(rows)?, number.to_array(rows)?);
        let product: arrow::array::PrimitiveArray<IntervalMonthDayNanoType> =
            try_binary(intervals.as_primitive::<IntervalMonthDayNanoType>(), numbers.as_primitive::<Int64Type>(), |interval, number| {
                times(interval, number).ok_or_else(|| ArrowError::ArithmeticOverflow("the interval is too long".into()))
            })?;
        let product: ArrayRef = Arc::new(product);
        Ok(if is_constant { ColumnarValue::Scalar(ScalarValue::try_from_array(&product, 0)?) } else { ColumnarValue::Array(product) })
    }
}

fn times(interval: IntervalMonthDayNano, number: i64) -> Option<IntervalMonthDayNano> {
    let part = |part: i32| i32::try_from(i64::from(part).checked_mul(number)?).ok();
    Some(IntervalMonthDayNano {
        months: part(interval.months)?,
        days: part(interval.days)?,
        nanoseconds: interval.nanoseconds.checked_mul(number)?,
    })
}
