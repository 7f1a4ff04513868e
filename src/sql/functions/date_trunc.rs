//! DATE_TRUNC, and FLOOR and CEIL of a moment to a unit (`FLOOR(ts TO HOUR)`), which the parser's form of them becomes a
//! call of: see [`super::calendar`].
//!
//! FLOOR and CEIL of a DATE are DATEs, as in Flink; DATE_TRUNC of one is a TIMESTAMP(0), as in PostgreSQL.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::calendar::{Unit, moment_type};
use crate::eval::{Clock, is_utc, readable_type};
use crate::text::per_second;

/// The function that FLOOR(x TO unit) becomes, of the unit's name and x.
pub const FLOOR: &str = "floor_to";
/// The function that CEIL(x TO unit) becomes.
pub const CEIL: &str = "ceil_to";

/// DATE_TRUNC(unit, moment), and what rounds up as it rounds down.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateTrunc {
    up: bool,
    aliases: Vec<String>,
    signature: Signature,
}

impl DateTrunc {
    pub fn new(up: bool) -> Self {
        let aliases = if up { vec![] } else { vec!["datetrunc".to_owned()] };
        DateTrunc { up, aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn called(&self) -> &'static str {
        if self.up { "CEIL" } else { "DATE_TRUNC" }
    }

    /// The unit that is named, which is a constant.
    fn unit(&self, name: Option<&ScalarValue>) -> Result<Unit> {
        match name.and_then(ScalarValue::try_as_str).flatten() {
            Some(name) => Unit::named(name, self.called()),
            None => plan_err!("{}: its unit is a constant, as 'hour'", self.called()),
        }
    }

    fn check(&self, unit: Unit, of: &DataType) -> Result<()> {
        match of {
            DataType::Time32(_) | DataType::Time64(_) if !unit.is_within_a_day() => {
                plan_err!("{}: a TIME is within a day, so there is no {} of it", self.called(), unit.name())
            }
            _ => Ok(()),
        }
    }

    fn rounded(&self, unit: Unit, moments: &ArrayRef) -> Result<ArrayRef> {
        let data_type = moments.data_type();
        let is_time = matches!(data_type, DataType::Time32(_) | DataType::Time64(_));
        let (of_type, clock) = match data_type {
            DataType::Timestamp(of_type, Some(zone)) if !is_utc(zone) => (of_type, Some(Clock::of(zone)?)),
            DataType::Timestamp(of_type, _) | DataType::Time64(of_type) | DataType::Time32(of_type) => (of_type, None),
            other => return internal_err!("DATE_TRUNC of {other}"),
        };
        let per_second = per_second(*of_type);
        let round = |moment: i64| match clock {
            // A TIME is within a day.
            None => unit.round(moment, per_second, self.up).filter(|rounded| !is_time || *rounded < 86_400 * per_second),
            Some(clock) => {
                let shown = unit.round(clock.shown(moment, per_second)?, per_second, self.up)?;
                clock.instant_near(shown, moment, per_second)
            }
        };
        let beyond = || {
            let (way, data_type) = (if self.up { "end" } else { "beginning" }, readable_type(data_type));
            exec_datafusion_err!("the {way} of its {} is beyond what {data_type} holds", unit.name())
        };
        let numbers = cast_number(moments)?;
        let made: Int64Array = numbers.as_primitive::<Int64Type>().try_unary(|moment| round(moment).ok_or_else(beyond))?;
        from_number(made, data_type)
    }
}

/// Moments as the numbers that they are.
fn cast_number(moments: &ArrayRef) -> Result<ArrayRef> {
    Ok(match moments.data_type() {
        // Arrow goes from 32 bits to 64 by way of 32.
        DataType::Time32(_) => cast(&cast(moments, &DataType::Int32)?, &DataType::Int64)?,
        _ => cast(moments, &DataType::Int64)?,
    })
}

fn from_number(numbers: PrimitiveArray<Int64Type>, data_type: &DataType) -> Result<ArrayRef> {
    let numbers: ArrayRef = Arc::new(numbers);
    Ok(match data_type {
        DataType::Time32(_) => cast(&cast(&numbers, &DataType::Int32)?, data_type)?,
        _ => cast(&numbers, data_type)?,
    })
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        if self.up { "date_ceil" } else { "date_trunc" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [_, time @ (DataType::Time32(_) | DataType::Time64(_))] => Ok(vec![DataType::Utf8, time.clone()]),
            [_, moment] => Ok(vec![DataType::Utf8, moment_type(moment, self.called())?]),
            _ => plan_err!("{0} takes a unit and a moment, as {0}('hour', ts)", self.called()),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[1].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = &args.arg_fields[1];
        self.check(self.unit(args.scalar_arguments[0])?, of.data_type())?;
        Ok(Arc::new(Field::new(self.name(), of.data_type().clone(), of.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), moments] = args.args.as_slice() else {
            return exec_err!("{}: its unit is a constant, as 'hour'", self.called());
        };
        let unit = self.unit(Some(unit))?;
        Ok(match moments {
            ColumnarValue::Array(moments) => ColumnarValue::Array(self.rounded(unit, moments)?),
            ColumnarValue::Scalar(moment) => {
                let rounded = self.rounded(unit, &moment.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?)
            }
        })
    }
}

/// FLOOR(x TO unit) and CEIL(x TO unit), which are [`DateTrunc`] but for the type that they are of.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RoundTo {
    up: bool,
    signature: Signature,
}

impl RoundTo {
    pub fn new(up: bool) -> Self {
        RoundTo { up, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for RoundTo {
    fn name(&self) -> &str {
        if self.up { CEIL } else { FLOOR }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let called = if self.up { "CEIL(x TO unit)" } else { "FLOOR(x TO unit)" };
        match given {
            [_, own @ (DataType::Date32 | DataType::Time32(_) | DataType::Time64(_))] => Ok(vec![DataType::Utf8, own.clone()]),
            [_, moment] => Ok(vec![DataType::Utf8, moment_type(moment, called)?]),
            _ => plan_err!("{called} is of one moment"),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[1].clone())
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [unit, moment] = <[Expr; 2]>::try_from(args).or_else(|_| plan_err!("{} takes two arguments", self.name()))?;
        let function = ScalarUDF::new_from_impl(DateTrunc::new(self.up));
        let simplified = match info.get_data_type(&moment)? {
            DataType::Date32 => {
                let midnight = datafusion_expr::cast(moment, DataType::Timestamp(TimeUnit::Second, None));
                datafusion_expr::cast(function.call(vec![unit, midnight]), DataType::Date32)
            }
            _ => function.call(vec![unit, moment]),
        };
        Ok(ExprSimplifyResult::Simplified(simplified))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} is not evaluated: the planner translates it", self.name())
    }
}
