//! Identity of plans by content.
//!
//! A plan's fingerprint covers what it computes: operators, expressions, types, nullability, sort orders, and its
//! inputs by their fingerprints. It leaves out what only people read: column names, and the names of relations and
//! join sides. So a computation under other aliases is the same computation. It is the same on every worker, in every
//! run of a build.
//!
//! Expressions are walked where their kind is known, so that columns count by position; any other is taken by its
//! `Debug` text, which can only tell apart what is the same, not confuse what is not.

use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::{Array, RecordBatch};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion_physical_expr::{PhysicalSortExpr, ScalarFunctionExpr};

use super::{Arrangement, Column, Node, Output, Part, PartKind, RowType, Scalar, Step, WindowFunction};
use crate::eval::{Attempt, CheckedNegative, Comparable, WindowAggregate};

/// 128 bits that are equal for equal plans and, for all purposes, only for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The identity of something that is made of what has this one, and of nothing else.
    pub fn derived(self, what: &str) -> Self {
        let mut digest = Digest::new();
        digest.tag("derived");
        digest.tag(what);
        self.hash(&mut digest);
        digest.finish128()
    }

    pub(super) fn of_node(node: &Node, row: &RowType) -> Self {
        let mut digest = Digest::new();
        digest.node(node);
        digest.columns(&row.columns);
        digest.finish128()
    }

    pub(super) fn of_arrangement(arrangement: &Arrangement) -> Self {
        let mut digest = Digest::new();
        digest.tag("arrangement");
        arrangement.input.fingerprint().hash(&mut digest);
        arrangement.key.hash(&mut digest);
        arrangement.layout.hash(&mut digest);
        arrangement.retention.hash(&mut digest);
        digest.finish128()
    }
}

/// Two 64-bit hashes of the same bytes after different beginnings. Their keys are fixed.
struct Digest {
    low: DefaultHasher,
    high: DefaultHasher,
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.low.write(bytes);
        self.high.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.low.finish()
    }
}

impl Digest {
    fn new() -> Self {
        let mut high = DefaultHasher::new();
        high.write(b"high");
        Digest { low: DefaultHasher::new(), high }
    }

    fn finish128(&self) -> Fingerprint {
        Fingerprint(u128::from(self.high.finish()) << 64 | u128::from(self.low.finish()))
    }

    /// What follows is a `kind`. Strings hash with their end marked, so that no two sequences run into one another.
    fn tag(&mut self, kind: &str) {
        kind.hash(self);
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Get { id, name: _, flow: _, times: _ } => {
                self.tag("get");
                id.hash(self);
            }
            Node::Constant { rows, diffs } => {
                self.tag("constant");
                self.rows(rows);
                diffs.hash(self);
            }
            Node::Linear { input, steps } => {
                self.tag("linear");
                input.fingerprint().hash(self);
                steps.len().hash(self);
                steps.iter().for_each(|step| self.step(step));
            }
            Node::Join { kind, left, right } => {
                self.tag("join");
                (kind, left.fingerprint(), right.fingerprint()).hash(self);
            }
            Node::AsOf { outer, strict, left, right } => {
                self.tag("asof");
                (outer, strict, left.fingerprint(), right.fingerprint()).hash(self);
            }
            Node::Reduce { parts, outputs, always } => self.reduce(parts, outputs, always),
            Node::TopK { input, offset, limit, rank, expose } => {
                self.tag("topk");
                (input.fingerprint(), offset, limit, rank, expose).hash(self);
            }
            Node::Window { input, functions, .. } => {
                self.tag("window");
                input.fingerprint().hash(self);
                functions.len().hash(self);
                functions.iter().for_each(|function| self.window_function(function));
            }
            Node::Session { input, gap } => {
                self.tag("session");
                (input.fingerprint(), gap).hash(self);
            }
            Node::Delay { input, column, before_end } => {
                self.tag("delay");
                (input.fingerprint(), column, before_end).hash(self);
            }
            Node::Union { inputs } => {
                self.tag("union");
                inputs.len().hash(self);
                inputs.iter().for_each(|input| input.fingerprint().hash(self));
            }
            Node::Temporal { input, validity } => {
                self.tag("temporal");
                (input.fingerprint(), validity).hash(self);
            }
            Node::Negate { input } => {
                self.tag("negate");
                input.fingerprint().hash(self);
            }
            Node::Threshold { input, kind } => {
                self.tag("threshold");
                (input.fingerprint(), kind).hash(self);
            }
            Node::Remember { input } => {
                self.tag("remember");
                input.fingerprint().hash(self);
            }
            Node::Settle { input, policy, expiry } => {
                self.tag("settle");
                (input.fingerprint(), policy, expiry).hash(self);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Filter(predicate) => {
                self.tag("filter");
                self.scalar(predicate);
            }
            Step::Project(columns) => {
                self.tag("project");
                columns.len().hash(self);
                for (expr, column) in columns {
                    self.scalar(expr);
                    self.column(column);
                }
            }
            Step::Unnest { column, outer } => {
                self.tag("unnest");
                (column, outer).hash(self);
            }
        }
    }

    fn reduce(&mut self, parts: &[Part], outputs: &[Output], always: &[RecordBatch]) {
        self.tag("reduce");
        (parts.len(), outputs.len(), always.len()).hash(self);
        for part in parts {
            part.input.fingerprint().hash(self);
            match &part.kind {
                PartKind::Accumulable => self.tag("accumulable"),
                PartKind::First => self.tag("first"),
                PartKind::General(aggregates) => {
                    self.tag("general");
                    aggregates.len().hash(self);
                    for aggregate in aggregates {
                        self.aggregate(&aggregate.function);
                        self.optional(aggregate.filter.as_ref());
                    }
                }
            }
        }
        for output in outputs {
            (output.part, &output.finish).hash(self);
            self.column(&output.column);
        }
        always.iter().for_each(|rows| self.rows(rows));
    }

    fn columns(&mut self, columns: &[Column]) {
        columns.len().hash(self);
        columns.iter().for_each(|column| self.column(column));
    }

    fn column(&mut self, column: &Column) {
        let Column { name: _, data_type, nullable, sort } = column;
        (data_type, nullable, sort).hash(self);
    }

    fn rows(&mut self, rows: &RecordBatch) {
        (rows.num_rows(), rows.num_columns()).hash(self);
        for column in rows.columns() {
            column.data_type().hash(self);
            for row in 0..column.len() {
                match ScalarValue::try_from_array(column, row) {
                    Ok(value) => value.hash(self),
                    Err(_) => self.tag(&format!("{:?}", column.slice(row, 1))),
                }
            }
        }
    }

    fn scalars<'a>(&mut self, exprs: impl ExactSizeIterator<Item = &'a Scalar>) {
        exprs.len().hash(self);
        exprs.for_each(|expr| self.scalar(expr));
    }

    fn optional(&mut self, expr: Option<&Scalar>) {
        self.scalars(expr.into_iter());
    }

    fn scalar(&mut self, expr: &Scalar) {
        if let Some(column) = expr.downcast_ref::<ColumnExpr>() {
            self.tag("column");
            column.index().hash(self);
        } else if let Some(literal) = expr.downcast_ref::<Literal>() {
            self.tag("literal");
            (literal.value().data_type(), literal.value()).hash(self);
        } else if self.composite(expr) {
            self.scalars(expr.children().into_iter());
        } else {
            self.tag("other");
            self.tag(&format!("{expr:?}"));
        }
    }

    /// What an expression adds to its children, if its kind is known.
    fn composite(&mut self, expr: &Scalar) -> bool {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            self.tag("binary");
            let is_checked = binary == &binary.clone().with_fail_on_overflow(true);
            (binary.op(), is_checked).hash(self);
        } else if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.tag("function");
            (function.fun().name(), function.return_type(), function.nullable()).hash(self);
            // Two functions of one name may differ in parameters of their own.
            self.tag(&format!("{:?}", function.fun().inner()));
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.tag("cast");
            (cast.cast_type(), cast.cast_options().safe).hash(self);
        } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            self.tag("try_cast");
            cast.cast_type().hash(self);
        } else if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            self.tag("case");
            (case.expr().is_some(), case.when_then_expr().len(), case.else_expr().is_some()).hash(self);
        } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
            self.tag("in");
            list.negated().hash(self);
        } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            self.tag("like");
            (like.negated(), like.case_insensitive()).hash(self);
        } else if expr.is::<Comparable>() {
            self.tag("comparable");
        } else if let Some(attempt) = expr.downcast_ref::<Attempt>() {
            self.tag(attempt.name());
        } else if expr.is::<CheckedNegative>() {
            self.tag("negative");
        } else if expr.is::<NotExpr>() {
            self.tag("not");
        } else if expr.is::<IsNullExpr>() {
            self.tag("is_null");
        } else if expr.is::<IsNotNullExpr>() {
            self.tag("is_not_null");
        } else {
            return false;
        }
        true
    }

    fn aggregate(&mut self, function: &AggregateFunctionExpr) {
        (function.fun().name(), function.field().data_type()).hash(self);
        self.tag(&format!("{:?}", function.fun().inner()));
        (function.is_distinct(), function.ignore_nulls(), function.is_reversed()).hash(self);
        self.scalars(function.expressions().iter());
        self.order(function.order_bys());
    }

    fn order(&mut self, order: &[PhysicalSortExpr]) {
        self.scalars(order.iter().map(|key| &key.expr));
        order.iter().for_each(|key| key.options.hash(self));
    }

    fn window_function(&mut self, function: &WindowFunction) {
        let expr = function.expr.as_ref();
        let standard = expr.as_any().downcast_ref::<StandardWindowExpr>();
        match standard.and_then(|standard| standard.get_standard_func_expr().as_any().downcast_ref::<WindowAggregate>()) {
            Some(aggregate) => {
                self.tag("aggregate");
                self.aggregate(aggregate.function());
                self.optional(aggregate.filter());
                self.over(expr);
            }
            None => {
                self.tag("positional");
                self.tag(&format!("{expr:?}"));
            }
        }
        self.column(&function.column);
    }

    fn over(&mut self, expr: &dyn WindowExpr) {
        self.scalars(expr.partition_by().iter());
        self.order(expr.order_by());
        self.tag(&format!("{:?}", expr.get_window_frame()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::DataType;
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::lit;

    use super::super::{Layout, Plan, RelationId, Sum, SumKind};
    use super::*;
    use crate::eval::checked;

    fn get(id: u64, name: &str) -> Plan {
        let row = RowType::new([Column::new("k", DataType::Int64, false), Column::new("v", DataType::Int64, true)]);
        Plan::new(Node::Get { id: RelationId(id), name: name.into(), flow: crate::plan::Flow::Changes, times: vec![] }, row)
    }

    fn column(name: &str, index: usize) -> Scalar {
        Arc::new(ColumnExpr::new(name, index))
    }

    fn filter(input: Plan, predicate: Scalar) -> Plan {
        let row = input.row().clone();
        Plan::new(Node::Linear { input, steps: vec![Step::Filter(predicate)] }, row)
    }

    fn compared(name: &str, index: usize, op: Operator, with: i64) -> Scalar {
        Arc::new(BinaryExpr::new(column(name, index), op, lit(with)))
    }

    fn project(input: Plan, expr: Scalar, column: Column) -> Plan {
        let row = RowType::new([column.clone()]);
        Plan::new(Node::Linear { input, steps: vec![Step::Project(vec![(expr, column)])] }, row)
    }

    fn constant(rows: RecordBatch) -> Plan {
        let (row, diffs) = (RowType::from_schema(&rows.schema()), vec![1; rows.num_rows()]);
        Plan::new(Node::Constant { rows, diffs }, row)
    }

    fn text(values: &[Option<&str>]) -> RecordBatch {
        let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("s", column, true)]).unwrap()
    }

    #[test]
    fn a_relation_is_its_identity_and_not_its_name() {
        assert_eq!(get(1, "orders").fingerprint(), get(1, "o").fingerprint());
        assert_ne!(get(1, "orders").fingerprint(), get(2, "orders").fingerprint());
    }

    #[test]
    fn aliases_do_not_tell_plans_apart() {
        let plan = |input: &str, output: &str| {
            let filtered = filter(get(1, input), compared(input, 1, Operator::Gt, 0));
            project(filtered, column(input, 0), Column::new(output, DataType::Int64, false))
        };
        assert_eq!(plan("a", "x").fingerprint(), plan("b", "y").fingerprint());
    }

    #[test]
    fn every_part_of_an_expression_tells_plans_apart() {
        let plans = [
            filter(get(1, "t"), compared("v", 1, Operator::Gt, 0)),
            filter(get(1, "t"), compared("v", 0, Operator::Gt, 0)),
            filter(get(1, "t"), compared("v", 1, Operator::Lt, 0)),
            filter(get(1, "t"), compared("v", 1, Operator::Gt, 1)),
            filter(get(2, "t"), compared("v", 1, Operator::Gt, 0)),
            get(1, "t"),
            filter(get(1, "t"), Arc::new(NotExpr::new(compared("v", 1, Operator::Gt, 0)))),
            filter(get(1, "t"), Arc::new(IsNullExpr::new(column("v", 1)))),
            filter(get(1, "t"), Arc::new(IsNotNullExpr::new(column("v", 1)))),
        ];
        let mut prints: Vec<Fingerprint> = plans.iter().map(Plan::fingerprint).collect();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), plans.len());
    }

    #[test]
    fn checked_and_wrapping_arithmetic_are_different() {
        let plus: Scalar = compared("v", 1, Operator::Plus, 1);
        let plan = |expr| project(get(1, "t"), expr, Column::new("x", DataType::Int64, true));
        assert_ne!(plan(plus.clone()).fingerprint(), plan(checked(plus)).fingerprint());
    }

    #[test]
    fn types_nullability_and_sort_order_tell_plans_apart() {
        let plan = |column: Column| project(get(1, "t"), self::column("k", 0), column).fingerprint();
        let base = Column::new("k", DataType::Int64, false);
        assert_ne!(plan(base.clone()), plan(Column { nullable: true, ..base.clone() }));
        assert_ne!(plan(base.clone()), plan(Column { data_type: DataType::UInt64, ..base.clone() }));
        let descending = SortOptions { descending: true, nulls_first: true };
        assert_ne!(plan(base.clone()), plan(Column { sort: descending, ..base }));
    }

    #[test]
    fn constants_are_told_apart_by_their_values() {
        assert_eq!(constant(text(&[Some("a"), None])).fingerprint(), constant(text(&[Some("a"), None])).fingerprint());
        assert_ne!(constant(text(&[Some("NULL")])).fingerprint(), constant(text(&[None])).fingerprint());
        assert_ne!(constant(text(&[Some("ab"), Some("c")])).fingerprint(), constant(text(&[Some("a"), Some("bc")])).fingerprint());
        let sliced = text(&[Some("x"), Some("a")]).slice(1, 1);
        assert_eq!(constant(sliced).fingerprint(), constant(text(&[Some("a")])).fingerprint());
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let numbers = RecordBatch::try_from_iter_with_nullable([("s", numbers, true)]).unwrap();
        assert_ne!(constant(numbers).fingerprint(), constant(text(&[Some("1")])).fingerprint());
    }

    #[test]
    fn an_arrangement_is_its_input_key_and_layout_and_not_its_name() {
        let rows = |key, name: Option<&str>| Arrangement { name: name.map(str::to_owned), ..Arrangement::rows(get(1, "t"), key) };
        assert_eq!(rows(1, Some("a")).fingerprint(), rows(1, None).fingerprint());
        assert_ne!(rows(1, None).fingerprint(), rows(2, None).fingerprint());
        let count = Sum { kind: SumKind::Count, column: None, filter: None };
        let sums = Arrangement { layout: Layout::Sums(vec![count]), ..rows(1, None) };
        assert_ne!(sums.fingerprint(), rows(1, None).fingerprint());
    }

    /// The number is SipHash-1-3 with zero keys, of bytes fixed by this file: another process must find it again.
    /// It may change with this file or with Rust's hasher, never from run to run.
    #[test]
    fn a_fingerprint_does_not_depend_on_the_process() {
        let program = std::env::current_exe().unwrap();
        let print = |_| {
            let arguments = ["--exact", "plan::fingerprint::tests::prints_a_fingerprint", "--nocapture", "--ignored"];
            let output = std::process::Command::new(&program).args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap().lines().find(|line| line.contains("fingerprint=")).map(str::to_owned)
        };
        let prints: Vec<Option<String>> = (0..2).map(print).collect();
        assert!(prints[0].is_some());
        assert_eq!(prints[0], prints[1]);
    }

    #[test]
    #[ignore = "run by a_fingerprint_does_not_depend_on_the_process"]
    fn prints_a_fingerprint() {
        let upper = datafusion_functions::string::upper();
        let schema = text(&[]).schema();
        let config = Arc::new(datafusion_common::config::ConfigOptions::new());
        let call: Scalar = Arc::new(ScalarFunctionExpr::try_new(upper, vec![column("s", 0)], &schema, config).unwrap());
        let plan = project(constant(text(&[Some("a"), None])), call, Column::new("u", DataType::Utf8, true));
        println!("\nfingerprint={:?}", plan.fingerprint());
    }
}
