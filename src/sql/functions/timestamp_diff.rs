//! TIMESTAMPDIFF(unit, from, to): how many whole units `to` is after `from`, as in Flink. See [`super::calendar`].

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::{binary, cast};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::calendar::{Unit, moment_type};
use crate::eval::{cast_values, is_utc};
use crate::text::per_second;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimestampDiff {
    signature: Signature,
}

impl TimestampDiff {
    pub fn new() -> Self {
        TimestampDiff { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The finer of two types of moments, and the zone of one of them.
fn joint(left: &DataType, right: &DataType) -> Result<DataType> {
    match (left, right) {
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone)) => {
            let finer = if per_second(*unit) < per_second(*other) { other } else { unit };
            Ok(DataType::Timestamp(*finer, zone.as_ref().or(other_zone.as_ref()).cloned()))
        }
        _ => internal_err!("TIMESTAMPDIFF of {left} and {right}"),
    }
}

impl ScalarUDFImpl for TimestampDiff {
    fn name(&self) -> &str {
        "timestampdiff"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [_, from, to] = given else { return plan_err!("TIMESTAMPDIFF takes a unit and two moments, as TIMESTAMPDIFF(DAY, a, b)") };
        let joint = joint(&moment_type(from, "TIMESTAMPDIFF")?, &moment_type(to, "TIMESTAMPDIFF")?)?;
        Ok(vec![DataType::Utf8, joint.clone(), joint])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), from, to] = args.args.as_slice() else {
            return exec_err!("TIMESTAMPDIFF: its unit is a constant, as DAY");
        };
        let unit = Unit::named(unit.try_as_str().flatten().unwrap_or("NULL"), "TIMESTAMPDIFF")?;
        let is_constant = matches!((from, to), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (from, to) = (numbers(&from.to_array(rows)?, unit)?, numbers(&to.to_array(rows)?, unit)?);
        let DataType::Timestamp(of_type, _) = args.arg_fields[1].data_type() else { return internal_err!("TIMESTAMPDIFF is of moments") };
        let per_second = per_second(*of_type);
        let made: Int64Array =
            binary(from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>(), |from, to| unit.between(from, to, per_second))?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(Arc::new(made)),
        })
    }
}

/// Moments as numbers: what the clocks of their zone show, where a unit is counted in days.
fn numbers(moments: &ArrayRef, unit: Unit) -> Result<ArrayRef> {
    let shown = match moments.data_type() {
        DataType::Timestamp(of_type, Some(zone)) if !is_utc(zone) && !unit.is_within_a_day() => {
            cast_values(moments, &DataType::Timestamp(*of_type, None), false)?
        }
        _ => Arc::clone(moments),
    };
    Ok(cast(&shown, &DataType::Int64)?)
}
