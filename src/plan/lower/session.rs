//! SESSION: rows with the session that they are in, by partition.
//!
//! The arrangement has the partition's columns as its key, and the time in milliseconds first among its values.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion_common::{DFSchema, DFSchemaRef, plan_datafusion_err};
use datafusion_expr::expr::Sort as SortExpr;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::error::{Error, Result};
use crate::eval::TimeWindow;
use crate::plan::{Column, Node, Plan, RowType};
use crate::sql::retention::Retentions;

use super::remember::name_in_from;
use super::scalar::pick;
use super::window::Partitioned;
use super::{linear, lower, remember};

const INSTANT: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// Sessions in a logical plan: the columns of the input, and each row's session behind them. A row without a time is in
/// none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sessions {
    input: LogicalPlan,
    partition: Vec<Expr>,
    time: Expr,
    /// Rows of one session follow one another in less than this, in milliseconds.
    gap: i64,
    schema: DFSchemaRef,
}

impl Sessions {
    /// The sessions of rows that agree in `partition`, their bounds called `names`.
    pub fn try_new(input: LogicalPlan, partition: Vec<Expr>, time: Expr, gap: i64, names: [&str; 2]) -> datafusion_common::Result<Self> {
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let bounds = names.map(|name| (None, Arc::new(Field::new(name, INSTANT, false))));
        let schema = DFSchema::new_with_metadata(fields.chain(bounds).collect(), Default::default())?;
        Ok(Sessions { input, partition, time, gap, schema: Arc::new(schema) })
    }

    /// The relation whose rows are in sessions.
    pub fn input(&self) -> &LogicalPlan {
        &self.input
    }
}

impl PartialOrd for Sessions {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let of = |sessions: &Self| (sessions.gap, sessions.time.clone(), sessions.partition.clone());
        (of(self), &self.input).partial_cmp(&(of(other), &other.input)).filter(|order| order.is_ne() || self == other)
    }
}

impl UserDefinedLogicalNodeCore for Sessions {
    fn name(&self) -> &str {
        "SESSION"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.partition.iter().chain([&self.time]).cloned().collect()
    }

    /// What says something of the partition alone may be asked before there are sessions.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let is_partition = |name: &str| self.partition.iter().any(|key| matches!(key, Expr::Column(column) if column.name == name));
        self.schema.fields().iter().map(|field| field.name().clone()).filter(|name| !is_partition(name)).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SESSION: gap={}", self.gap)
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> datafusion_common::Result<Self> {
        let (Some(time), Some(input)) = (exprs.pop(), inputs.pop()) else {
            return Err(plan_datafusion_err!("SESSION has a time and an input"));
        };
        let [.., start, end] = &self.schema.fields()[..] else { return Err(plan_datafusion_err!("SESSION has bounds")) };
        Sessions::try_new(input, exprs, time, self.gap, [start.name(), end.name()])
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|column| *column < width).collect()])
    }
}

/// The rows of a relation with their sessions.
pub(super) fn sessions(sessions: &Sessions, said: &Retentions) -> Result<Plan> {
    let Sessions { input, partition, time, gap, schema } = sessions;
    let memory = said.of(name_in_from(input).as_deref());
    let in_milliseconds = match time.get_type(input.schema())? {
        INSTANT => time.clone(),
        _ => TimeWindow::Shift { shift: 0 }.call(time.clone()),
    };
    let order = [SortExpr::new(in_milliseconds, true, true)];
    let partitioned = Partitioned::new(lower(input, said)?, input.schema(), partition, &order, &memory)?;
    if partitioned.order == 0 {
        return Err(Error::unsupported("SESSION partitioned by its own time: each time would be a session"));
    }
    let arranged = partitioned.arrangement.input.row().clone();
    let bounds = schema.fields().iter().rev().take(2).rev().map(|field| Column::new(field.name(), INSTANT, false));
    let row = RowType::new(arranged.columns.iter().cloned().chain(bounds));
    let key = partitioned.arrangement.key;
    let node = Node::Session { input: partitioned.arrangement, gap: *gap };
    let plan = remember::settle_groups(Plan::new(node, row.clone()), key, &memory, false);
    let places = partitioned.places.into_iter().chain(arranged.len()..row.len());
    Ok(linear::project(plan, places.map(|place| pick(&row, place)).collect()))
}
