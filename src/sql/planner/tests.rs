//! What queries come to: the shape of their plans, what they are refused for, and whether they mean what SQL says.

mod names;
mod numbers;
mod oracle;
mod reference;
mod refusals;
mod shapes;
mod temporal;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::*;
use crate::plan::{Arrangement, Flow, Layout, Node, PartKind, RelationId, Step};

struct Tables(HashMap<&'static str, Relation>);

impl Catalog for Tables {
    fn relation(&self, name: &str) -> Option<Relation> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().map(|name| name.to_string()).collect()
    }
}

/// `t(a, b, s)`, `log(a, b, s)` to which rows are only added, `u(a, c, s)`, `n(k NOT NULL, v)`, `d(x DECIMAL, f DOUBLE, p BOOLEAN, ts TIMESTAMP(3))`, `l(id, items ARRAY)`.
fn tables() -> Tables {
    let int = |name: &str| Field::new(name, DataType::Int32, true);
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let all = [
        ("t", vec![int("a"), int("b"), Field::new("s", DataType::Utf8, true)]),
        ("u", vec![int("a"), int("c"), Field::new("s", DataType::Utf8, true)]),
        ("n", vec![Field::new("k", DataType::Int32, false), int("v")]),
        (
            "d",
            vec![
                Field::new("x", DataType::Decimal128(10, 2), true),
                Field::new("f", DataType::Float64, true),
                Field::new("p", DataType::Boolean, true),
                Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
            ],
        ),
        ("l", vec![int("id"), Field::new("items", list, true)]),
        ("log", vec![int("a"), int("b"), Field::new("s", DataType::Utf8, true)]),
    ];
    let relations = all.into_iter().enumerate().map(|(id, (name, fields))| {
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let flow = if name == "log" { Flow::Appends } else { Flow::Changes };
        let get = Node::Get { id: RelationId(id as u64), name: name.into(), flow, times: vec![] };
        let plan = Plan::new(get, RowType::from_schema(&schema));
        (name, Relation { schema, plan, versions: None })
    });
    Tables(relations.collect())
}

fn query(sql: &str) -> Query {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let Some(ast::Statement::Query(ast)) = statements.pop() else { panic!("{sql}: no query") };
    Query { ast, hints: vec![], emit_on_window_close: false }
}

fn maintained(sql: &str) -> Result<Planned> {
    plan_query(&query(sql), &tables(), Purpose::Maintain, &Retentions::none())
}

/// A plan in a form that a test can say.
fn tree(plan: &Plan) -> String {
    let mut text = String::new();
    write_tree(plan, 0, &mut text);
    text
}

fn write_tree(plan: &Plan, depth: usize, text: &mut String) {
    let pad = "  ".repeat(depth);
    let columns = plan.row().columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let head = match plan.node() {
        Node::Get { name, .. } => format!("Get {name}"),
        Node::Constant { rows, .. } => format!("Constant {}", rows.num_rows()),
        Node::Linear { steps, .. } => {
            let steps = steps.iter().map(|step| match step {
                Step::Filter(predicate) => format!("filter {predicate}"),
                Step::Project(items) => {
                    format!("project [{}]", items.iter().map(|(scalar, _)| scalar.to_string()).collect::<Vec<_>>().join(", "))
                }
                Step::Unnest { column, outer } => format!("unnest {column}{}", if *outer { " outer" } else { "" }),
            });
            format!("Linear {}", steps.collect::<Vec<_>>().join(" "))
        }
        Node::Join { kind, .. } => format!("Join {kind:?}"),
        Node::AsOf { outer, strict, .. } => format!("AsOf outer={outer} strict={strict}"),
        Node::Reduce { parts, outputs, always } => {
            let kinds = parts.iter().map(|part| match &part.kind {
                PartKind::Accumulable => "sums".to_string(),
                PartKind::First => "first".into(),
                PartKind::General(aggregates) => format!("general {}", aggregates.len()),
            });
            let outputs = outputs.iter().map(|o| format!("{}.{:?}", o.part, o.finish));
            format!("Reduce {} -> {} always={}", kinds.collect::<Vec<_>>().join("+"), outputs.collect::<Vec<_>>().join(", "), always.len())
        }
        Node::TopK { offset, limit, rank, expose, .. } => format!("TopK {offset} {limit:?} {rank:?} expose={expose}"),
        Node::Delay { column, before_end, .. } => format!("Delay {column} + {before_end}"),
        Node::Session { .. } => "Session".into(),
        Node::Window { functions, .. } => format!("Window {}", functions.len()),
        Node::Union { .. } => "Union".into(),
        Node::Temporal { validity, .. } => format!("Temporal {:?}", validity.when),
        Node::Negate { .. } => "Negate".into(),
        Node::Remember { .. } => "Remember".into(),
        Node::Settle { policy, expiry, .. } => format!("Settle {policy} {expiry:?}"),
        Node::Threshold { kind, .. } => format!("Threshold {kind:?}"),
    };
    writeln!(text, "{pad}{head} -> ({columns})").expect("a string takes all");
    let arrangements = plan.arrangements();
    for arrangement in &arrangements {
        writeln!(text, "{pad}  | {}", arrangement_text(arrangement)).expect("a string takes all");
        write_tree(&arrangement.input, depth + 2, text);
    }
    if arrangements.is_empty() {
        plan.inputs().into_iter().for_each(|input| write_tree(input, depth + 1, text));
    }
}

fn arrangement_text(arrangement: &Arrangement) -> String {
    let columns: Vec<String> = arrangement
        .input
        .row()
        .columns
        .iter()
        .map(|c| {
            let direction = if c.sort.descending { " desc" } else { "" };
            format!("{}{direction}{}", c.name, if c.sort.nulls_first { "" } else { " nulls last" })
        })
        .collect();
    let (key, values) = columns.split_at(arrangement.key);
    let sums = match &arrangement.layout {
        Layout::Rows => String::new(),
        Layout::Sums(sums) => format!(
            " {}",
            sums.iter()
                .map(|s| format!("{:?}({:?}{})", s.kind, s.column, s.filter.map_or(String::new(), |f| format!(" if {f}"))))
                .collect::<Vec<_>>()
                .join(" ")
        ),
    };
    let name = arrangement.name.as_ref().map_or(String::new(), |name| format!(" of {name}"));
    format!("by [{}] values [{}]{sums}{name}", key.join(", "), values.join(", "))
}
