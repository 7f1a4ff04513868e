//! Plans as text for people.
//!
//! The tree has an operator a line, its inputs below it. An input that is remembered is preceded by a line on its
//! arrangement: the columns it is looked up by, what it holds, and what bounds it. So all state of a query is on
//! the lines that begin with `arranged`, or with a join side and `arranged`:
//!
//! ```text
//! Reduce key=[k] count(*)
//!   arranged by [k], sums in the diff: count(*)
//!     unbounded because no state_ttl is set
//!   Linear filter=[v > 0] project=[k]
//!     Get t
//! ```
//!
//! What occurs twice is computed once, so it is printed once: `(#1)` where it is, `(shared as #1)` where it is read
//! again.

use std::collections::HashMap;
use std::fmt::Write;

use arrow::compute::SortOptions;

use super::bounds::after_column;
use super::{
    Arrangement, Bound, Column, Fingerprint, Finish, Flow, JoinKind, Layout, Node, Output, Part, PartKind, Plan, Rank, Refresh, Scalar,
    Step, Sum, SumKind, Threshold,
};
use crate::eval::{readable, readable_aggregate, readable_window, resumes};
use crate::sql::duration::format_duration;

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An indented tree.
    Text,
    /// A flowchart that GitHub and others draw, inputs at the bottom.
    Mermaid,
}

/// The plan as an indented tree, or as a Mermaid flowchart.
pub fn explain(plan: &Plan, format: Format) -> String {
    match format {
        Format::Text => Tree::of(plan),
        Format::Mermaid => Flowchart::of(plan),
    }
}

/// The text format, as far as it is written.
struct Tree {
    text: String,
    /// How often each plan is read.
    reads: HashMap<Fingerprint, usize>,
    /// The numbers of the shared plans that have been written.
    numbers: HashMap<Fingerprint, usize>,
}

impl Tree {
    fn of(plan: &Plan) -> String {
        let mut tree = Tree { text: String::new(), reads: HashMap::new(), numbers: HashMap::new() };
        tree.count(plan);
        tree.plan(plan, 0);
        tree.text
    }

    fn count(&mut self, plan: &Plan) {
        let reads = self.reads.entry(plan.fingerprint()).or_default();
        *reads += 1;
        if *reads == 1 {
            plan.inputs().into_iter().for_each(|input| self.count(input));
        }
    }

    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
    }

    fn plan(&mut self, plan: &Plan, depth: usize) {
        let print = plan.fingerprint();
        if let Some(number) = self.numbers.get(&print) {
            let reference = format!("{} (shared as #{number})", operator(plan.node()));
            return self.line(depth, &reference);
        }
        // A leaf is as short as a reference to it.
        let shared = self.reads[&print] > 1 && !plan.inputs().is_empty();
        let mut line = headline(plan);
        if shared {
            let number = self.numbers.len() + 1;
            self.numbers.insert(print, number);
            let _ = write!(line, " (#{number})");
        }
        self.line(depth, &line);
        if let Node::Get { flow: Flow::Upserts(arrangement), .. } = plan.node() {
            self.arrangement(plan.node(), 0, arrangement, depth + 1);
        }
        let arrangements = plan.arrangements();
        if arrangements.is_empty() {
            plan.inputs().into_iter().for_each(|input| self.plan(input, depth + 1));
        }
        for (i, arrangement) in arrangements.into_iter().enumerate() {
            self.arrangement(plan.node(), i, arrangement, depth + 1);
            self.plan(&arrangement.input, depth + 1);
        }
    }

    fn arrangement(&mut self, node: &Node, index: usize, arrangement: &Arrangement, depth: usize) {
        let side = match (node, index) {
            (Node::Join { .. } | Node::AsOf { .. }, 0) => "left ",
            (Node::Join { .. } | Node::AsOf { .. }, _) => "right ",
            _ => "",
        };
        let name = arrangement.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
        let key = match key(arrangement).as_str() {
            "[]" => "as one group".to_owned(),
            key => format!("by {key}"),
        };
        self.line(depth, &format!("{side}{name}arranged {key}, {}", layout(arrangement)));
        if let Some(cost) = cost(node, index) {
            self.line(depth + 1, cost);
        }
        self.line(depth + 1, &bound(arrangement));
    }
}

/// What an arrangement remembers, or that nothing makes it forget.
fn bound(arrangement: &Arrangement) -> String {
    match (arrangement.bound(), arrangement.retention) {
        (Bound::Retention, Some(retention)) => {
            let memory = &arrangement.memory;
            let mut text = format!("scope={}", retention.scope);
            for (name, figure) in [("ttl", retention.ttl), ("ttl_max", retention.ttl_max)] {
                if let Some(figure) = figure {
                    let _ = write!(text, " {name}={}", format_duration(figure));
                }
            }
            if retention.refresh == Refresh::Create {
                text.push_str(" refresh=create");
            }
            let _ = write!(text, " on_expiry={} from {}", memory.policy, memory.origin);
            text
        }
        (Bound::Closes(until), Some(retention)) => {
            format!("scope={} until {until} ({} from {})", retention.scope, arrangement.memory.origin, arrangement.times().join(", "))
        }
        (Bound::Nothing(reason), _) => format!("unbounded because {reason}"),
        (Bound::Filter, _) => "bounded by a temporal filter of its input".to_owned(),
        _ => "bounded by what its input remembers".to_owned(),
    }
}

/// The Mermaid format, as far as it is written.
struct Flowchart {
    text: String,
    numbers: HashMap<Fingerprint, usize>,
}

impl Flowchart {
    fn of(plan: &Plan) -> String {
        let mut chart = Flowchart { text: "flowchart BT\n".to_owned(), numbers: HashMap::new() };
        chart.plan(plan);
        chart.text
    }

    /// Writes a plan's box and the edges into it, after its inputs, and gives its number.
    fn plan(&mut self, plan: &Plan) -> usize {
        if let Some(number) = self.numbers.get(&plan.fingerprint()) {
            return *number;
        }
        let arrangements = plan.arrangements();
        let inputs: Vec<(usize, String)> = match arrangements.is_empty() {
            true => plan.inputs().into_iter().map(|input| (self.plan(input), String::new())).collect(),
            false => arrangements.into_iter().map(|a| (self.plan(&a.input), edge(a))).collect(),
        };
        let number = self.numbers.len() + 1;
        self.numbers.insert(plan.fingerprint(), number);
        let _ = writeln!(self.text, "  n{number}[\"{}\"]", escaped(&headline(plan)));
        for (input, label) in inputs {
            let _ = writeln!(self.text, "  n{input} -->{label} n{number}");
        }
        number
    }
}

/// The label of an edge into state: the key, and what bounds it.
fn edge(arrangement: &Arrangement) -> String {
    let bound = match (arrangement.bound(), arrangement.retention.and_then(|retention| retention.ttl)) {
        (Bound::Retention, Some(ttl)) => format!("ttl {}", format_duration(ttl)),
        (Bound::Closes(until), _) => format!("until {until}"),
        (Bound::Nothing(_), _) => "unbounded".to_owned(),
        (Bound::Filter, _) => "bounded by a temporal filter".to_owned(),
        _ => "bounded by its input".to_owned(),
    };
    format!("|\"{}<br/>{bound}\"|", escaped(&key(arrangement)))
}

/// Text inside the quotes of a Mermaid label.
fn escaped(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;")
}

/// The operator and all that it does, on one line.
fn headline(plan: &Plan) -> String {
    let operator = operator(plan.node());
    match plan.node() {
        Node::Get { name, .. } => format!("{operator} {name}"),
        Node::Constant { rows, .. } => format!("{operator} {}", counted(rows.num_rows(), "row")),
        Node::Linear { input, steps } => steps_text(operator, input, steps),
        Node::Join { kind, left, right } => format!("{operator} {} {}", join_kind(*kind), join_key(left, right)),
        Node::AsOf { outer, strict, left, right } => {
            let kind = if *outer { "left" } else { "inner" };
            format!("{operator} {kind} {} match=[{}]", join_key(left, right), match_condition(*strict, left, right))
        }
        Node::Reduce { parts, outputs, always } => reduce(operator, parts, outputs, always.iter().map(|rows| rows.num_rows()).sum()),
        Node::TopK { input, offset, limit, rank, expose } => top(operator, input, *offset, *limit, *rank, *expose),
        Node::Window { input, functions, .. } => {
            let functions: Vec<String> = functions.iter().map(|function| readable_window(function.expr.as_ref())).collect();
            format!("{operator} key={} {}", key(input), functions.join(", "))
        }
        Node::Session { input, gap } => format!("{operator} key={} gap={}", key(input), format_duration(gap.unsigned_abs())),
        Node::Delay { input, column, before_end } => {
            format!("{operator} until {}", after_column(&input.row().columns[*column], *before_end))
        }
        Node::Threshold { kind: Threshold::Distinct, .. } => format!("{operator} distinct"),
        Node::Threshold { kind: Threshold::Positive, .. } => format!("{operator} positive"),
        Node::Temporal { input, validity } => {
            let columns = &input.row().columns[plan.row().len()..];
            format!("{operator} filter=[{}]", validity.text(columns))
        }
        Node::Settle { policy, .. } => format!("{operator} on_expiry={policy}"),
        Node::Union { .. } | Node::Negate { .. } | Node::Remember { .. } => operator.to_owned(),
    }
}

/// The operator's name in the algebra.
pub fn operator(node: &Node) -> &'static str {
    match node {
        Node::Get { .. } => "Get",
        Node::Constant { .. } => "Constant",
        Node::Linear { .. } => "Linear",
        Node::Join { .. } => "Join",
        Node::AsOf { .. } => "AsOf",
        Node::Reduce { .. } => "Reduce",
        Node::TopK { .. } => "TopK",
        Node::Window { .. } => "Window",
        Node::Delay { .. } => "Delay",
        Node::Session { .. } => "Session",
        Node::Union { .. } => "Union",
        Node::Temporal { .. } => "Temporal",
        Node::Negate { .. } => "Negate",
        Node::Threshold { .. } => "Threshold",
        Node::Remember { .. } => "Remember",
        Node::Settle { .. } => "Settle",
    }
}

/// What a change costs, where it is more than the change.
fn cost(node: &Node, index: usize) -> Option<&'static str> {
    match node {
        Node::Window { functions, .. } if resumes(functions) => Some("a change recomputes its partition from there on"),
        Node::Window { .. } => Some("a change recomputes its partition"),
        Node::Session { .. } => Some("a change recomputes the sessions that it touches"),
        Node::Reduce { parts, .. } if matches!(parts[index].kind, PartKind::General(_)) => Some("a change recomputes its group"),
        _ => None,
    }
}

fn steps_text(operator: &str, input: &Plan, steps: &[Step]) -> String {
    let mut text = operator.to_owned();
    let mut names: Vec<&str> = input.row().columns.iter().map(|column| column.name.as_str()).collect();
    for step in steps {
        match step {
            Step::Filter(predicate) => {
                let _ = write!(text, " filter=[{}]", readable(predicate));
            }
            Step::Project(columns) => {
                let columns_text: Vec<String> = columns.iter().map(projected).collect();
                let _ = write!(text, " project=[{}]", columns_text.join(", "));
                names = columns.iter().map(|(_, column)| column.name.as_str()).collect();
            }
            Step::Unnest { column, outer } => {
                let name = names.get(*column).copied().unwrap_or("?");
                let _ = write!(text, " unnest=[{name}{}]", if *outer { " outer" } else { "" });
            }
        }
    }
    text
}

/// An expression, and its name where somebody gave it one.
fn projected((expr, column): &(Scalar, Column)) -> String {
    let text = readable(expr);
    let given = column.name.chars().all(|c| c.is_alphanumeric() || c == '_') && column.name != text;
    if given { format!("{text} as {}", column.name) } else { text }
}

fn join_kind(kind: JoinKind) -> &'static str {
    match kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left",
        JoinKind::Right => "right",
        JoinKind::Full => "full",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    }
}

fn join_key(left: &Arrangement, right: &Arrangement) -> String {
    if left.key == 0 {
        return "every pair".to_owned();
    }
    let pair = |(left, right): (&Column, &Column)| match left.name == right.name {
        true => left.name.clone(),
        false => format!("{} = {}", left.name, right.name),
    };
    let pairs: Vec<String> = key_columns(left).iter().zip(key_columns(right)).map(pair).collect();
    format!("on [{}]", pairs.join(", "))
}

/// The comparison of times that an as-of join matches by, the left side's first.
fn match_condition(strict: bool, left: &Arrangement, right: &Arrangement) -> String {
    let time = |side: &Arrangement| {
        let name = value_columns(side).first().map(|column| column.name.clone()).unwrap_or_default();
        side.name.as_ref().map_or(name.clone(), |side| format!("{side}.{name}"))
    };
    let is_forward = value_columns(left).first().is_some_and(|column| column.sort.descending);
    let direction = if is_forward { "<" } else { ">" };
    format!("{} {direction}{} {}", time(left), if strict { "" } else { "=" }, time(right))
}

fn reduce(operator: &str, parts: &[Part], outputs: &[Output], always: usize) -> String {
    let key = parts.first().map(|part| key(&part.input)).unwrap_or_default();
    let mut text = format!("{operator} key={key}");
    let outputs: Vec<String> = outputs.iter().map(|output| aggregate(parts, output)).collect();
    if !outputs.is_empty() {
        let _ = write!(text, " {}", outputs.join(", "));
    }
    if always > 0 {
        let _ = write!(text, " ({} even of no rows)", counted(always, "group"));
    }
    text
}

/// The aggregate that an output column is, as in SQL.
fn aggregate(parts: &[Part], output: &Output) -> String {
    let text = parts.get(output.part).and_then(|part| match (&part.kind, &output.finish) {
        (PartKind::General(aggregates), Finish::Value(i)) => {
            let aggregate = aggregates.get(*i)?;
            let filter = aggregate.filter.as_ref().map(|filter| format!(" FILTER (WHERE {})", readable(filter)));
            Some(readable_aggregate(&aggregate.function) + &filter.unwrap_or_default())
        }
        (PartKind::First, Finish::Value(i)) => {
            let column = value_columns(&part.input).get(*i)?;
            Some(format!("{}({})", if column.sort.descending { "max" } else { "min" }, column.name))
        }
        // What was made distinct is not said by the sums of it.
        (PartKind::Accumulable, _) if is_distinct(&part.input.input) => None,
        (PartKind::Accumulable, finish) => accumulated(&part.input, finish),
        _ => None,
    });
    text.unwrap_or_else(|| output.column.name.clone())
}

fn is_distinct(plan: &Plan) -> bool {
    match plan.node() {
        Node::Threshold { .. } => true,
        Node::Reduce { outputs, .. } => outputs.iter().all(|output| matches!(output.finish, Finish::Any { .. })),
        Node::Settle { input, .. } => is_distinct(input),
        _ => false,
    }
}

fn accumulated(input: &Arrangement, finish: &Finish) -> Option<String> {
    let Layout::Sums(sums) = &input.layout else { return None };
    let (function, sum) = match finish {
        Finish::Value(sum) | Finish::Extreme { value: sum, .. } => return Some(sum_text(input, sums.get(*sum)?)),
        Finish::SumOrNull { sum, .. } => ("sum", sum),
        Finish::Average { sum, .. } => ("avg", sum),
        Finish::Variance { sum, sample: true, root: false, .. } => ("var_samp", sum),
        Finish::Variance { sum, sample: false, root: false, .. } => ("var_pop", sum),
        Finish::Variance { sum, sample: true, root: true, .. } => ("stddev_samp", sum),
        Finish::Variance { sum, sample: false, root: true, .. } => ("stddev_pop", sum),
        Finish::All { trues, .. } => ("bool_and", trues),
        Finish::Any { trues, .. } => ("bool_or", trues),
    };
    let sum = sums.get(*sum)?;
    Some(call(input, sum, &format!("{function}({})", summed(input, sum))))
}

fn sum_text(input: &Arrangement, sum: &Sum) -> String {
    let column = summed(input, sum);
    let text = match sum.kind {
        SumKind::Count => format!("count({column})"),
        SumKind::Integer | SumKind::Float => format!("sum({column})"),
        SumKind::FloatSquare => format!("sum({column} * {column})"),
        SumKind::True => format!("count({column} = true)"),
        SumKind::Least => format!("min({column})"),
        SumKind::Greatest => format!("max({column})"),
    };
    call(input, sum, &text)
}

/// The name of the column that is summed, `*` for rows.
fn summed<'a>(input: &'a Arrangement, sum: &Sum) -> &'a str {
    sum.column.map_or("*", |column| value_name(input, column))
}

fn call(input: &Arrangement, sum: &Sum, text: &str) -> String {
    match sum.filter {
        Some(filter) => format!("{text} FILTER (WHERE {})", value_name(input, filter)),
        None => text.to_owned(),
    }
}

fn top(operator: &str, input: &Arrangement, offset: u64, limit: Option<u64>, rank: Rank, expose: bool) -> String {
    let (peers, function) = match rank {
        Rank::RowNumber => (usize::MAX, "row_number"),
        Rank::Rank { order } => (order, "rank"),
        Rank::DenseRank { order } => (order, "dense_rank"),
    };
    let order: Vec<String> = value_columns(input).iter().take(peers).map(sorted).collect();
    let mut text = format!("{operator} key={} order=[{}]", key(input), order.join(", "));
    if let Some(limit) = limit {
        let _ = write!(text, " limit={limit}");
    }
    if offset > 0 {
        let _ = write!(text, " offset={offset}");
    }
    if expose || rank != Rank::RowNumber {
        let _ = write!(text, " by {function}{}", if expose { " (shown)" } else { "" });
    }
    text
}

/// What an arrangement holds under its key.
fn layout(arrangement: &Arrangement) -> String {
    match &arrangement.layout {
        Layout::Rows => format!("rows [{}]", value_columns(arrangement).iter().map(sorted).collect::<Vec<_>>().join(", ")),
        Layout::Sums(sums) => {
            if sums.is_empty() {
                return "counts in the diff".into();
            }
            let sums: Vec<String> = sums.iter().map(|sum| sum_text(arrangement, sum)).collect();
            format!("sums in the diff: {}", sums.join(", "))
        }
    }
}

fn key(arrangement: &Arrangement) -> String {
    let names: Vec<&str> = key_columns(arrangement).iter().map(|column| column.name.as_str()).collect();
    format!("[{}]", names.join(", "))
}

fn key_columns(arrangement: &Arrangement) -> &[Column] {
    let columns = &arrangement.input.row().columns;
    &columns[..arrangement.key.min(columns.len())]
}

fn value_columns(arrangement: &Arrangement) -> &[Column] {
    let columns = &arrangement.input.row().columns;
    &columns[arrangement.key.min(columns.len())..]
}

fn value_name(arrangement: &Arrangement, column: usize) -> &str {
    value_columns(arrangement).get(column).map_or("?", |column| column.name.as_str())
}

/// A column's name, with its order where that is not the usual one.
fn sorted(column: &Column) -> String {
    let SortOptions { descending, nulls_first } = column.sort;
    let direction = if descending { " DESC" } else { "" };
    let nulls = if nulls_first { "" } else { " NULLS LAST" };
    format!("{}{direction}{nulls}", column.name)
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::DataType;
    use datafusion_expr::Operator;
    use datafusion_functions_aggregate::{count, string_agg};
    use datafusion_physical_expr::aggregate::AggregateExprBuilder;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column as ColumnExpr, lit};

    use super::super::{GeneralAggregate, Reach, RelationId, RowType, WindowFunction};
    use super::*;
    use crate::eval::WindowAggregate;

    fn int(name: &str) -> Column {
        Column::new(name, DataType::Int64, true)
    }

    fn get(id: u64, name: &str, columns: &[&str]) -> Plan {
        Plan::new(
            Node::Get { id: RelationId(id), name: name.into(), flow: Flow::Changes, times: vec![] },
            RowType::new(columns.iter().map(|c| int(c))),
        )
    }

    fn column(name: &str, index: usize) -> Scalar {
        Arc::new(ColumnExpr::new(name, index))
    }

    fn positive(name: &str, index: usize) -> Step {
        Step::Filter(Arc::new(BinaryExpr::new(column(name, index), Operator::Gt, lit(0i64))))
    }

    fn rows(input: Plan, key: usize, name: Option<&str>) -> Arrangement {
        Arrangement { name: name.map(str::to_owned), ..Arrangement::rows(input, key) }
    }

    /// `SELECT k, COUNT(*) FROM t WHERE v > 0 GROUP BY k`
    fn counted_by_key() -> Plan {
        let row = RowType::new([int("k")]);
        let steps = vec![positive("v", 1), Step::Project(vec![(column("k", 0), int("k"))])];
        let input = Plan::new(Node::Linear { input: get(1, "t", &["k", "v"]), steps }, row);
        let sums = Layout::Sums(vec![Sum { kind: SumKind::Count, column: None, filter: None }]);
        let part = Part { input: Arrangement { layout: sums, ..Arrangement::rows(input, 1) }, kind: PartKind::Accumulable };
        let outputs = vec![Output { part: 0, finish: Finish::Value(0), column: int("count(*)") }];
        let row = RowType::new([int("k"), int("count(*)")]);
        Plan::new(Node::Reduce { parts: vec![part], outputs, always: vec![] }, row)
    }

    fn join(left: Plan, right: Plan) -> Plan {
        let row = RowType::new([int("k"), int("a"), int("b")]);
        Plan::new(Node::Join { kind: JoinKind::Inner, left: rows(left, 1, Some("o")), right: rows(right, 1, None) }, row)
    }

    fn assert_text(plan: &Plan, expected: &str) {
        assert_eq!(explain(plan, Format::Text).trim_end(), expected.trim_matches('\n'));
    }

    #[test]
    fn a_stateful_operator_says_what_it_remembers_and_what_bounds_it() {
        assert_text(
            &counted_by_key(),
            "
Reduce key=[k] count(*)
  arranged by [k], sums in the diff: count(*)
    unbounded because no state_ttl is set
  Linear filter=[v > 0] project=[k]
    Get t",
        );
    }

    #[test]
    fn a_shared_plan_is_printed_once_and_a_table_as_often_as_it_is_read() {
        assert_text(
            &join(counted_by_key(), counted_by_key()),
            "
Join inner on [k]
  left o arranged by [k], rows [count(*)]
    unbounded because no state_ttl is set
  Reduce key=[k] count(*) (#1)
    arranged by [k], sums in the diff: count(*)
      unbounded because no state_ttl is set
    Linear filter=[v > 0] project=[k]
      Get t
  right arranged by [k], rows [count(*)]
    unbounded because no state_ttl is set
  Reduce (shared as #1)",
        );
        let t = || get(1, "t", &["k", "v"]);
        assert_eq!(explain(&join(t(), t()), Format::Text).matches("  Get t\n").count(), 2);
    }

    #[test]
    fn what_costs_more_than_the_change_says_so() {
        let t = get(1, "t", &["k", "v"]);
        let values = RowType::new([int("v")]).schema();
        let aggregate = |fun, args| Arc::new(AggregateExprBuilder::new(fun, args).schema(values.clone()).alias("a").build().unwrap());
        let frame = Arc::new(datafusion_expr::WindowFrame::new(Some(false)));
        let expr = WindowAggregate::over(aggregate(count::count_udaf(), vec![column("v", 0)]), None, &[], frame);
        let window = Node::Window {
            input: rows(t.clone(), 1, None),
            order: 0,
            functions: vec![WindowFunction { expr, column: int("n"), reach: Reach::Partition }],
        };
        assert_text(
            &Plan::new(window, RowType::new([int("k"), int("v"), int("n")])),
            "
Window key=[k] count(v) OVER (RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
  arranged by [k], rows [v]
    a change recomputes its partition
    unbounded because no state_ttl is set
  Get t",
        );
        let function = aggregate(string_agg::string_agg_udaf(), vec![column("v", 0), lit(",")]);
        let general = PartKind::General(vec![GeneralAggregate { function, filter: None }]);
        let parts = vec![Part { input: rows(t, 0, None), kind: general }];
        let outputs = vec![Output { part: 0, finish: Finish::Value(0), column: int("a") }];
        assert_text(
            &Plan::new(Node::Reduce { parts, outputs, always: vec![] }, RowType::new([int("a")])),
            "
Reduce key=[] string_agg(v, ',')
  arranged as one group, rows [k, v]
    a change recomputes its group
    unbounded because no state_ttl is set
  Get t",
        );
    }

    #[test]
    fn aggregates_are_named_as_in_sql_whatever_they_are_kept_as() {
        let mut v = int("v");
        v.sort.descending = true;
        let row = RowType::new([int("k"), v.clone()]);
        let input = Plan::new(Node::Get { id: RelationId(1), name: "t".into(), flow: Flow::Changes, times: vec![] }, row);
        let sum = |kind| Sum { kind, column: Some(0), filter: None };
        let sums = Layout::Sums(vec![sum(SumKind::Float), sum(SumKind::FloatSquare), sum(SumKind::Count)]);
        let parts = vec![
            Part { input: Arrangement { layout: sums, ..Arrangement::rows(input.clone(), 1) }, kind: PartKind::Accumulable },
            Part { input: rows(input, 1, None), kind: PartKind::First },
        ];
        let output = |part, finish| Output { part, finish, column: v.clone() };
        let outputs = vec![
            output(0, Finish::SumOrNull { sum: 0, count: 2 }),
            output(0, Finish::Average { sum: 0, count: 2 }),
            output(0, Finish::Variance { sum: 0, squares: 1, count: 2, sample: true, root: true }),
            output(0, Finish::Value(2)),
            output(1, Finish::Value(0)),
        ];
        let plan = Plan::new(Node::Reduce { parts, outputs, always: vec![] }, RowType::new([int("k")]));
        let text = explain(&plan, Format::Text);
        assert!(text.starts_with("Reduce key=[k] sum(v), avg(v), stddev_samp(v), count(v), max(v)\n"), "{text}");
        assert!(text.contains("  arranged by [k], sums in the diff: sum(v), sum(v * v), count(v)\n"), "{text}");
        assert!(text.contains("  arranged by [k], rows [v DESC]\n"), "{text}");
    }

    #[test]
    fn a_top_n_says_its_order_limit_and_rank() {
        let top = |rank, offset, expose| {
            let input = rows(get(1, "t", &["k", "v", "id"]), 1, None);
            let node = Node::TopK { input, offset, limit: Some(3), rank, expose };
            explain(&Plan::new(node, RowType::new([int("k")])), Format::Text).lines().next().map(str::to_owned)
        };
        assert_eq!(top(Rank::RowNumber, 0, false).unwrap(), "TopK key=[k] order=[v, id] limit=3");
        assert_eq!(top(Rank::Rank { order: 1 }, 2, true).unwrap(), "TopK key=[k] order=[v] limit=3 offset=2 by rank (shown)");
    }

    #[test]
    fn a_flowchart_has_each_plan_once_and_keys_and_bounds_on_the_edges_into_state() {
        let expected = [
            "flowchart BT",
            "  n1[\"Get t\"]",
            "  n2[\"Linear filter=[v #gt; 0] project=[k]\"]",
            "  n1 --> n2",
            "  n3[\"Reduce key=[k] count(*)\"]",
            "  n2 -->|\"[k]<br/>unbounded\"| n3",
            "  n4[\"Join inner on [k]\"]",
            "  n3 -->|\"[k]<br/>unbounded\"| n4",
            "  n3 -->|\"[k]<br/>unbounded\"| n4",
        ];
        let chart = explain(&join(counted_by_key(), counted_by_key()), Format::Mermaid);
        assert_eq!(chart.lines().collect::<Vec<_>>(), expected);
    }
}
