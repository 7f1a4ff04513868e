//! Expressions that ask whether others fail.
//!
//! [`fails`] is true of a row on which one of several expressions cannot be evaluated, [`or_null`] is NULL where the
//! expression cannot be. Neither fails itself. Both find the failing rows of a batch as [`run_steps`](super::run_steps)
//! does, so they agree with it on which rows these are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::linear::evaluate;
use crate::plan::Scalar;

/// Whether one of these fails: BOOLEAN, never NULL.
pub fn fails(of: Vec<Scalar>) -> Scalar {
    Arc::new(Attempt { of, asks: Asks::Whether })
}

/// The value of an expression, or NULL where it fails.
pub fn or_null(of: Scalar) -> Scalar {
    Arc::new(Attempt { of: vec![of], asks: Asks::Value })
}

/// See [`fails`] and [`or_null`].
#[derive(Debug, Eq)]
pub(crate) struct Attempt {
    of: Vec<Scalar>,
    asks: Asks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asks {
    Whether,
    /// Of the only expression.
    Value,
}

impl Attempt {
    /// What is attempted.
    pub fn of(&self) -> &[Scalar] {
        &self.of
    }

    /// Its name as a function.
    pub fn name(&self) -> &'static str {
        match self.asks {
            Asks::Whether => "fails",
            Asks::Value => "try",
        }
    }
}

// Derived, it would compare trait objects by moving them (rust-lang/rust#78808).
impl PartialEq for Attempt {
    fn eq(&self, other: &Self) -> bool {
        self.of.eq(&other.of) && self.asks == other.asks
    }
}

impl Hash for Attempt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
        self.asks.hash(state);
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of: Vec<String> = self.of.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name(), of.join(", "))
    }
}

impl PhysicalExpr for Attempt {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        match self.asks {
            Asks::Whether => Ok(Arc::new(Field::new(self.name(), DataType::Boolean, false))),
            Asks::Value => Ok(Arc::new(self.of[0].return_field(schema)?.as_ref().clone().with_nullable(true))),
        }
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(match self.asks {
            Asks::Value => values(&self.of[0], rows)?,
            Asks::Whether => {
                let mut fail = vec![false; rows.num_rows()];
                self.of.iter().for_each(|of| pieces(of, rows, &mut |start, value| fail[start] |= value.is_none()));
                Arc::new(BooleanArray::from(fail))
            }
        }))
    }

    fn children(&self) -> Vec<&Scalar> {
        self.of.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Scalar>) -> Result<Scalar> {
        Ok(Arc::new(Attempt { of: children, asks: self.asks }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name())?;
        for (at, of) in self.of.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            of.fmt_sql(f)?;
        }
        f.write_str(")")
    }
}

/// Evaluates an expression on pieces of a batch, in order: the values from a row on, or None for one row that fails.
fn pieces(expr: &Scalar, rows: &RecordBatch, take: &mut impl FnMut(usize, Option<ArrayRef>)) {
    let whole = 0..rows.num_rows();
    let mut pending = vec![whole];
    while let Some(range) = pending.pop() {
        let part = rows.slice(range.start, range.len());
        let evaluated = evaluate(expr, &part);
        match (evaluated, range.len()) {
            (_, 0) => {}
            (Ok(values), _) => take(range.start, Some(values)),
            (Err(_), 1) => take(range.start, None),
            (Err(_), _) => {
                let middle = range.start + range.len() / 2;
                pending.push(middle..range.end);
                pending.push(range.start..middle);
            }
        }
    }
}

fn values(expr: &Scalar, rows: &RecordBatch) -> Result<ArrayRef> {
    let nothing = new_null_array(&expr.data_type(&rows.schema())?, 1);
    let mut made = vec![nothing.slice(0, 0)];
    pieces(expr, rows, &mut |_, values| made.push(values.unwrap_or_else(|| Arc::clone(&nothing))));
    match made.as_slice() {
        [_, whole] => Ok(Arc::clone(whole)),
        made => Ok(concat(&made.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, lit};

    use super::*;
    use crate::eval::is_fallible;

    fn column(values: &[Option<i64>]) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("v", Arc::new(Int64Array::from(values.to_vec())) as ArrayRef, true)]).unwrap()
    }

    fn quotient(of: i64) -> Scalar {
        Arc::new(BinaryExpr::new(lit(of), Operator::Divide, Arc::new(Column::new("v", 0))))
    }

    #[test]
    fn rows_that_fail_are_told_from_rows_that_are_null() {
        let rows = column(&[Some(2), Some(0), None, Some(0), Some(5)]);
        let told = fails(vec![quotient(10)]).evaluate(&rows).unwrap().into_array(5).unwrap();
        assert_eq!(told.as_boolean().iter().collect::<Vec<_>>(), [false, true, false, true, false].map(Some));
        let tried = or_null(quotient(10)).evaluate(&rows).unwrap().into_array(5).unwrap();
        assert_eq!(tried.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(5), None, None, None, Some(2)]);
    }

    #[test]
    fn one_of_several_is_enough_to_fail() {
        let sum: Scalar = Arc::new(BinaryExpr::new(Arc::new(Column::new("v", 0)), Operator::Plus, lit(1i64)));
        let sum = crate::eval::checked(sum);
        let told = fails(vec![quotient(1), sum]).evaluate(&column(&[Some(0), Some(i64::MAX), Some(3)])).unwrap().into_array(3).unwrap();
        assert_eq!(told.as_boolean().iter().collect::<Vec<_>>(), [true, true, false].map(Some));
    }

    #[test]
    fn neither_fails_itself() {
        assert!(is_fallible(&quotient(1)) && !is_fallible(&fails(vec![quotient(1)])) && !is_fallible(&or_null(quotient(1))));
    }

    #[test]
    fn no_rows_have_no_answers_of_the_right_type() {
        let none = column(&[]);
        for (expr, data_type) in [(fails(vec![quotient(1)]), DataType::Boolean), (or_null(quotient(1)), DataType::Int64)] {
            let made = expr.evaluate(&none).unwrap().into_array(0).unwrap();
            assert_eq!((made.len(), made.data_type()), (0, &data_type));
        }
    }
}
