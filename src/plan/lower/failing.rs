//! Rows on which something fails, where rows are forgotten.
//!
//! Such a row makes an error in the place of a value. If it is forgotten its error is to go, too, so the row is remembered
//! as any other, and what fails is computed of what is remembered. Mostly it is so anyway: an arrangement under a
//! [`Node::Remember`] holds the rows as they come. There are two places where it is not.
//!
//! [`apart`]: what rows are remembered *by* fails, the key of their group or a column of a subquery. Then they are in no
//! group. They go another way, on which each is remembered by itself:
//!
//! ```text
//! Remember by [key]                  Remember by [key]
//!   Linear project=[key, ...]  ──▶     Union
//!     rows                               Linear filter=[NOT fails(key)] project=[key, ...]
//!                                        Linear project=[key, ...]           makes errors, and no rows
//!                                          Remember rows
//!                                            Linear filter=[fails(key)]
//! ```
//!
//! [`in_groups`]: the rows of a group are not remembered but their sums are. The rows that fail are in their group as if
//! the value were NULL, so that they are counted and put its deadline off; beside that, they are remembered by their
//! group, with whatever else is written to it as one row of NULLs, so that both expire at one instant.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_physical_expr::expressions::{self, NotExpr};

use crate::eval::{fails, is_fallible, or_null};
use crate::plan::{Arrangement, Column, Expiry, Memory, Node, Plan, Policy, Scalar, Scope, Step};

use super::remember::{remembered_as_is, settled};
use super::scalar::{Item, mentions, pick, read_column, substitute};
use super::{linear, nodes};

/// The same rows, of which those on which something fails are remembered apart.
pub(super) fn apart(rows: &Plan, memory: &Memory) -> Plan {
    let (base, steps) = match rows.node() {
        Node::Linear { input, steps } if !rows.is_boundary() => (input, steps),
        Node::Union { inputs } if !rows.is_boundary() => return nodes::union(inputs.iter().map(|input| apart(input, memory)).collect()),
        _ => return rows.clone(),
    };
    let has_lists = steps.iter().any(|step| matches!(step, Step::Unnest { .. }));
    if has_lists || !steps.iter().any(Step::can_fail) {
        return rows.clone();
    }
    let (mut sound, mut summands) = (base.clone(), vec![]);
    for (at, step) in steps.iter().enumerate() {
        let fallible = fallible(step);
        if !fallible.is_empty() {
            let fails = fails(fallible);
            let failing = nodes::arrange_rows(linear::filter(sound.clone(), fails.clone()));
            let failing = Arrangement { retention: memory.retention(Scope::Row), memory: memory.clone(), ..failing };
            let made = linear::steps(remembered_as_is(failing), &steps[at..], rows.row());
            summands.push(settled(made, Policy::Forget, Expiry::Removes));
            sound = linear::filter(sound, Arc::new(NotExpr::new(fails)));
        }
        sound = match step {
            Step::Filter(predicate) => linear::filter(sound, predicate.clone()),
            Step::Project(items) => linear::project(sound, items.clone()),
            Step::Unnest { .. } => unreachable!("steps that make lists longer are left as they are"),
        };
    }
    summands.insert(0, sound);
    nodes::union(summands)
}

/// An arrangement by the same groups of what the values of this one are computed of, and how they are, where that can
/// fail: a row is in its group whether or not its values can be computed.
pub(super) fn before_values(arrangement: &Arrangement) -> Option<(Arrangement, Vec<Item>)> {
    let Node::Linear { input, steps } = arrangement.input.node() else { return None };
    let (Step::Project(items), before) = steps.split_last()? else { return None };
    let (keys, values) = items.split_at(arrangement.key);
    let is_of_groups = arrangement.retention.is_some_and(|retention| retention.scope == Scope::Group);
    if !is_of_groups || arrangement.input.is_boundary() || !values.iter().any(|(scalar, _)| is_fallible(scalar)) {
        return None;
    }
    let input = linear::steps(input.clone(), before, input.row());
    let is_read = |column: usize| !input.only_appends() || values.iter().any(|(scalar, _)| mentions(scalar).contains(&column));
    let read: Vec<usize> = (0..input.row().len()).filter(|column| is_read(*column)).collect();
    let under = keys.iter().cloned().chain(read.iter().map(|column| pick(input.row(), *column))).collect();
    let under = Arrangement { input: linear::project(input, under), ..arrangement.clone() };
    let row = under.input.row();
    let place = |column: usize| read.binary_search(&column).map_or(column, |place| keys.len() + place);
    let key = (0..keys.len()).map(|column| read_column(row, column));
    let values = values.iter().map(|(scalar, _)| substitute(scalar, |column| read_column(row, place(column))));
    let items = key.chain(values).zip(items.iter().map(|(_, column)| column.clone())).collect();
    Some((under, items))
}

fn fallible(step: &Step) -> Vec<Scalar> {
    let of_step = match step {
        Step::Filter(predicate) => vec![predicate],
        Step::Project(items) => items.iter().map(|(scalar, _)| scalar).collect(),
        Step::Unnest { .. } => vec![],
    };
    of_step.into_iter().filter(|scalar| is_fallible(scalar)).cloned().collect()
}

/// What an arrangement of sums by the key of `remembering` reads if it remembers in its place: `columns` are its input's,
/// computed of the rows that `remembering` holds.
pub(super) fn in_groups(arrangement: &Arrangement, remembering: &Arrangement, columns: &[Scalar]) -> Plan {
    let made: Vec<Item> = columns.iter().cloned().zip(arrangement.input.row().columns.iter().cloned()).collect();
    let tried = made.iter().map(|(scalar, column)| match is_fallible(scalar) {
        true => (or_null(scalar.clone()), Column { nullable: true, ..column.clone() }),
        false => (scalar.clone(), column.clone()),
    });
    let tried = tried.collect();

    let (width, base) = (remembering.key, remembering.input.row());
    let mut read: Vec<usize> = columns.iter().flat_map(mentions).filter(|column| *column >= width).collect();
    read.sort_unstable();
    read.dedup();
    let told = remembering_with_failures(&remembering.input, columns);
    let fails = read_column(told.row(), base.len());
    let if_it_fails = |column: usize| {
        let value = expressions::case(None, vec![(fails.clone(), read_column(told.row(), column))], None);
        value.expect("a CASE of one branch has no types that could differ")
    };
    let key = (0..width).map(|column| (read_column(told.row(), column), base.columns[column].clone()));
    let values = read.iter().map(|column| (if_it_fails(*column), Column { nullable: true, ..pick(base, *column).1 }));
    let items: Vec<Item> = key.chain([pick(told.row(), base.len())]).chain(values).collect();
    let rows = Arrangement {
        retention: remembering.retention,
        memory: remembering.memory.clone(),
        ..Arrangement::rows(linear::project_each(told, items), width)
    };
    let rows = remembered_as_is(rows);
    let rows = linear::filter(rows.clone(), read_column(rows.row(), width));
    // What an error shows is the row that it is of: not this column, which is why nothing is fused with what leaves it out.
    let shown = (0..width + 1 + read.len()).filter(|column| *column != width).map(|column| pick(rows.row(), column));
    let rows = linear::project(rows.clone(), shown.collect()).boundary();
    let place = |column: usize| read.binary_search(&column).map_or(column, |place| width + place);
    let failing = made.into_iter().map(|(scalar, column)| {
        let scalar = substitute(&scalar, |column| read_column(rows.row(), place(column)));
        (scalar, Column { nullable: true, ..column })
    });
    let failing = settled(linear::project(rows.clone(), failing.collect()), Policy::Forget, Expiry::Removes);
    nodes::union(vec![linear::project_each(remembering.input.clone(), tried), failing])
}

/// The same rows, and in one more column whether one of these expressions fails.
fn remembering_with_failures(rows: &Plan, columns: &[Scalar]) -> Plan {
    let fallible = columns.iter().filter(|scalar| is_fallible(scalar)).cloned().collect();
    let own = rows.row().columns.iter().enumerate().map(|(at, column)| (read_column(rows.row(), at), column.clone()));
    let told = (fails(fallible), Column::new("fails", DataType::Boolean, false));
    linear::project_each(rows.clone(), own.chain([told]).collect())
}
