//! EMIT ON WINDOW CLOSE.

use crate::error::{Error, Result};
use crate::plan::{Node, Plan};

use super::scalar::pick_all;
use super::{Ordered, linear};

/// The rows of a query, each when its window closes.
pub fn on_window_close(query: Ordered) -> Result<Ordered> {
    Ok(Ordered { plan: closed(&query.plan)?, ..query })
}

/// `plan` behind a [`Node::Delay`]: at its root or, where the query does not show a bound of the window, under the
/// projection that leaves it out.
fn closed(plan: &Plan) -> Result<Plan> {
    match (plan.closing(), plan.node()) {
        (Some((column, before_end)), _) => Ok(delay(plan, column, before_end)),
        (None, Node::Linear { input, steps }) if !plan.is_boundary() => Ok(linear::steps(closed(input)?, steps, plan.row())),
        // A projection that can fail stands under what settles; here it says nothing before the window closes.
        (None, Node::Settle { input: below, policy, expiry }) if let Node::Linear { input, steps } = below.node() => {
            let settled = Node::Settle { input: input.clone(), policy: *policy, expiry: *expiry };
            Ok(linear::steps(closed(&Plan::new(settled, input.row().clone()))?, steps, plan.row()))
        }
        _ => Err(Error::unsupported(
            "EMIT ON WINDOW CLOSE here: no window is in the key of this result, so none of its rows is ever final; group by \
             window_end of TUMBLE, HOP, CUMULATE or SESSION, or by a window in GROUP BY",
        )),
    }
}

fn delay(plan: &Plan, column: usize, before_end: i64) -> Plan {
    let input = linear::project(plan.clone(), pick_all(plan.row()));
    let row = input.row().clone();
    Plan::new(Node::Delay { input, column, before_end }, row)
}
