//! What is known of a plan's columns, followed through the steps of a [`Node::Linear`](super::Node::Linear).

use super::{Scalar, Step};

/// What is known of columns that `steps` make of columns of which something is known already: of an expression what `of` says
/// of it, and of the elements of a list what `element` makes of what is known of the list.
pub(super) fn through<T: Copy>(
    mut known: Vec<Option<T>>,
    steps: &[Step],
    of: impl Fn(&Scalar, &Vec<Option<T>>) -> Option<T>,
    element: impl Fn(T) -> Option<T>,
) -> Vec<Option<T>> {
    for step in steps {
        match step {
            Step::Filter(_) => {}
            Step::Project(items) => known = items.iter().map(|(scalar, _)| of(scalar, &known)).collect(),
            Step::Unnest { column, .. } => known[*column] = known[*column].and_then(&element),
        }
    }
    known
}
