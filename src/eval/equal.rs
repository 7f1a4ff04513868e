//! Floating-point numbers of which equal ones are the same.
//!
//! SQL takes -0.0 and 0.0 for equal and every NaN for every other one, and IEEE 754 has several of each. Rows are compared
//! as bytes, and Arrow compares numbers in IEEE's total order, which tell all of them apart. So before a number is
//! compared it goes through [`comparable`], which makes equal ones one.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type, Schema};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, InListExpr, Literal, in_list};

use crate::plan::Scalar;

/// The expression, of type `data_type`, with one value for all that are equal.
pub fn comparable(expr: Scalar, data_type: &DataType) -> Scalar {
    if !data_type.is_floating() || expr.is::<Comparable>() {
        return expr;
    }
    match expr.downcast_ref::<Literal>() {
        Some(literal) => Arc::new(Literal::new(one_of_equals(literal.value()))),
        None => Arc::new(Comparable { arg: expr }),
    }
}

/// The expression, over rows of `schema`, in which floating-point numbers compare as SQL compares them.
///
/// # Errors
/// Where the expression has no type over such rows.
pub fn comparing(expr: Scalar, schema: &Schema) -> Result<Scalar> {
    expr.transform_up(|node| {
        if let Some(binary) = node.downcast_ref::<BinaryExpr>()
            && compares(binary.op())
        {
            let data_type = binary.left().data_type(schema)?;
            if data_type.is_floating() {
                let sides = [binary.left(), binary.right()].map(|side| comparable(side.clone(), &data_type));
                return Ok(Transformed::yes(node.with_new_children(sides.to_vec())?));
            }
        }
        if let Some(list) = node.downcast_ref::<InListExpr>() {
            let data_type = list.expr().data_type(schema)?;
            if data_type.is_floating() {
                let members = list.list().iter().map(|member| comparable(member.clone(), &data_type)).collect();
                let made = in_list(comparable(list.expr().clone(), &data_type), members, &list.negated(), schema)?;
                return Ok(Transformed::yes(made));
            }
        }
        Ok(Transformed::no(node))
    })
    .data()
}

fn compares(op: &Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn one_of_equals(value: &ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(value)) => ScalarValue::Float64(Some(if value.is_nan() { f64::NAN } else { value + 0.0 })),
        ScalarValue::Float32(Some(value)) => ScalarValue::Float32(Some(if value.is_nan() { f32::NAN } else { value + 0.0 })),
        other => other.clone(),
    }
}

/// See [`comparable`].
#[derive(Debug, Eq)]
pub(crate) struct Comparable {
    pub(super) arg: Scalar,
}

// Derived, it would compare trait objects by moving them (rust-lang/rust#78808).
impl PartialEq for Comparable {
    fn eq(&self, other: &Self) -> bool {
        self.arg.eq(&other.arg)
    }
}

impl Hash for Comparable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.arg.hash(state);
    }
}

impl fmt::Display for Comparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "comparable({})", self.arg)
    }
}

impl PhysicalExpr for Comparable {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.arg.return_field(schema)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.arg.evaluate(rows)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(match array.data_type() {
                DataType::Float64 => mapped::<Float64Type>(&array, |value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
                DataType::Float32 => mapped::<Float32Type>(&array, |value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
                _ => array,
            }),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(one_of_equals(&value)),
        })
    }

    fn children(&self) -> Vec<&Scalar> {
        vec![&self.arg]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Scalar>) -> Result<Scalar> {
        match children.pop() {
            Some(arg) => Ok(Arc::new(Comparable { arg })),
            None => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.arg.fmt_sql(f)
    }
}

fn mapped<T: ArrowPrimitiveType>(array: &ArrayRef, one: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let values: PrimitiveArray<T> = array.as_primitive::<T>().unary(one);
    Arc::new(values)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Float64Array};
    use arrow::datatypes::Field;
    use datafusion_physical_expr::expressions::{Column, lit};

    use super::*;

    fn rows(values: &[Option<f64>]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("d", column, true)]).unwrap()
    }

    fn d() -> Scalar {
        Arc::new(Column::new("d", 0))
    }

    #[test]
    fn numbers_that_are_equal_have_the_same_bits_and_others_keep_theirs() {
        let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
        let rows = rows(&[Some(-0.0), Some(odd_nan), None, Some(-1.5), Some(f64::NEG_INFINITY)]);
        let made = comparable(d(), &DataType::Float64).evaluate(&rows).unwrap().into_array(5).unwrap();
        let bits: Vec<Option<u64>> = made.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect();
        let expected =
            [Some(0.0), Some(f64::NAN), None, Some(-1.5), Some(f64::NEG_INFINITY)].map(|value: Option<f64>| value.map(f64::to_bits));
        assert_eq!(bits, expected);
    }

    #[test]
    fn a_negative_zero_equals_zero_in_comparisons_and_lists() {
        let schema = Schema::new(vec![Field::new("d", DataType::Float64, true)]);
        let equal: Scalar = Arc::new(BinaryExpr::new(d(), Operator::Eq, lit(0.0f64)));
        let less: Scalar = Arc::new(BinaryExpr::new(d(), Operator::Lt, lit(0.0f64)));
        let listed = in_list(d(), vec![lit(0.0f64), lit(7.0f64)], &false, &schema).unwrap();
        let rows = rows(&[Some(-0.0)]);
        for (expr, expected) in [(equal, true), (less, false), (listed, true)] {
            let value = comparing(expr.clone(), &schema).unwrap().evaluate(&rows).unwrap().into_array(1).unwrap();
            assert_eq!(value.as_boolean(), &BooleanArray::from(vec![expected]), "{expr}");
        }
    }

    #[test]
    fn what_is_comparable_already_stays_as_it_is() {
        let once = comparable(d(), &DataType::Float64);
        assert_eq!(&comparable(once.clone(), &DataType::Float64), &once);
        assert_eq!(&comparable(d(), &DataType::Int64), &d());
    }
}
