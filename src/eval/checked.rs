//! Arithmetic that does not wrap.
//!
//! DataFusion's planner makes `+`, `-`, `*` and unary minus that wrap around on integer overflow. A view whose totals
//! are silently wrong is worse than one that reports a row, so lowering rewrites every expression with [`checked`].
//! Division, casts, decimals and intervals report overflow as they are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::kernels::numeric::neg;
use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, NegativeExpr};

use crate::plan::Scalar;

/// The same expression, in which an integer overflow is an error.
pub fn checked(expr: Scalar) -> Scalar {
    let original = expr.clone();
    let rewritten = expr.transform_up(|expr| Ok(check(&expr).map_or_else(|| Transformed::no(expr), Transformed::yes)));
    // The rewrite cannot fail: it only rebuilds nodes from children of the types that they had.
    rewritten.map_or(original, |rewritten| rewritten.data)
}

fn check(expr: &Scalar) -> Option<Scalar> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>()
        && matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply)
    {
        return Some(Arc::new(binary.clone().with_fail_on_overflow(true)));
    }
    let negative = expr.downcast_ref::<NegativeExpr>()?;
    Some(Arc::new(CheckedNegative { arg: negative.arg().clone() }))
}

/// Unary minus; the least integer of a type has no negative.
#[derive(Debug, Eq)]
pub(crate) struct CheckedNegative {
    pub(super) arg: Scalar,
}

// Derived, it would compare trait objects by moving them (rust-lang/rust#78808).
impl PartialEq for CheckedNegative {
    fn eq(&self, other: &Self) -> bool {
        self.arg.eq(&other.arg)
    }
}

impl Hash for CheckedNegative {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.arg.hash(state);
    }
}

impl fmt::Display for CheckedNegative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(- {})", self.arg)
    }
}

impl PhysicalExpr for CheckedNegative {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.arg.return_field(schema)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        match self.arg.evaluate(rows)? {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(neg(array.as_ref())?)),
            ColumnarValue::Scalar(value) => Ok(ColumnarValue::Scalar(value.arithmetic_negate()?)),
        }
    }

    fn children(&self) -> Vec<&Scalar> {
        vec![&self.arg]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Scalar>) -> Result<Scalar> {
        match children.pop() {
            Some(arg) => Ok(Arc::new(CheckedNegative { arg })),
            None => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")?;
        self.arg.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion_physical_expr::expressions::{Column, lit};

    use super::*;

    fn least() -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
        RecordBatch::try_from_iter([("v", column)]).unwrap()
    }

    fn v() -> Scalar {
        Arc::new(Column::new("v", 0))
    }

    #[test]
    fn an_operator_anywhere_in_the_expression_reports_overflow() {
        let minus: Scalar = Arc::new(BinaryExpr::new(v(), Operator::Minus, lit(1i64)));
        let compared: Scalar = Arc::new(BinaryExpr::new(minus, Operator::Gt, lit(0i64)));
        assert!(compared.evaluate(&least()).is_ok(), "DataFusion reports overflow itself: the rewrite is obsolete");
        assert!(checked(compared).evaluate(&least()).is_err());
    }

    #[test]
    fn the_least_integer_cannot_be_negated() {
        let negative: Scalar = Arc::new(NegativeExpr::new(v()));
        assert!(negative.evaluate(&least()).is_ok(), "DataFusion reports overflow itself: the rewrite is obsolete");
        assert!(checked(negative).evaluate(&least()).is_err());
    }

    #[test]
    fn checking_twice_is_checking_once() {
        let expr: Scalar = Arc::new(NegativeExpr::new(Arc::new(BinaryExpr::new(v(), Operator::Plus, lit(1i64)))));
        let once = checked(expr);
        assert_eq!(&checked(once.clone()), &once);
    }
}
