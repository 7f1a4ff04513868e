//! Conditions that stay where they were written.
//!
//! A condition may move below a join or a grouping if it says the same there. One on engine time does not where that
//! operator forgets: a row that ends below it may be forgotten by then, and what was published of it would stand for ever.
//! So in a query that forgets, a condition that reads engine time is a node that DataFusion does not know, [`Staying`].

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

use datafusion_common::{DFSchemaRef, Result, plan_datafusion_err};
use datafusion_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

/// The rows of its input on which a condition is true.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Staying {
    pub condition: Expr,
    pub input: LogicalPlan,
}

impl PartialOrd for Staying {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (&self.condition, &self.input).partial_cmp(&(&other.condition, &other.input)).filter(|o| o.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Staying {
    fn name(&self) -> &str {
        "Staying"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.condition.clone()]
    }

    /// Other conditions may move below it.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Staying: {}", self.condition)
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (exprs.pop(), inputs.pop()) {
            (Some(condition), Some(input)) => Ok(Staying { condition, input }),
            _ => Err(plan_datafusion_err!("a condition and its input")),
        }
    }
}
