//! UNNEST: a row for each element of a list.

use arrow::datatypes::DataType;
use datafusion_common::NullHandling;
use datafusion_expr::logical_plan::Unnest;

use crate::error::{Error, Result};
use crate::plan::{Column, Plan, RowType};
use crate::sql::retention::Retentions;

use super::scalar::pick_all;
use super::{linear, lower};

/// One list column, any number of levels deep.
pub(super) fn unnest(unnest: &Unnest, said: &Retentions) -> Result<Plan> {
    if !unnest.struct_type_columns.is_empty() {
        return Err(Error::unsupported("UNNEST of a ROW"));
    }
    let [(column, list)] = unnest.list_type_columns.as_slice() else {
        return Err(Error::unsupported("UNNEST of several lists side by side"));
    };
    let outer = match unnest.options.null_handling {
        NullHandling::Drop => false,
        NullHandling::PreserveAndExpandEmpty => true,
        NullHandling::Preserve => return Err(Error::unsupported("UNNEST that keeps NULL and drops empty lists")),
    };
    let mut plan = lower(&unnest.input, said)?;
    let items = pick_all(plan.row());
    plan = linear::project(plan, items);
    for _ in 0..list.depth {
        plan = one_level(plan, *column, outer)?;
    }
    let items = unnest.dependency_indices.iter().zip(unnest.schema.fields()).map(|(&index, field)| {
        let (scalar, made) = super::scalar::pick(plan.row(), index);
        (scalar, Column { name: field.name().clone(), ..made })
    });
    let items = items.collect();
    Ok(linear::project(plan, items))
}

fn one_level(input: Plan, column: usize, outer: bool) -> Result<Plan> {
    let list = &input.row().columns[column];
    let DataType::List(element) = &list.data_type else {
        return Err(Error::invalid(format!("UNNEST of {}, which is no list but {}", list.name, list.data_type)));
    };
    let made = Column::new(&list.name, element.data_type().clone(), element.is_nullable() || outer);
    let columns = input.row().columns.iter().enumerate();
    let row = RowType::new(columns.map(|(index, had)| if index == column { made.clone() } else { had.clone() }));
    Ok(linear::unnest(input, column, outer, row))
}
