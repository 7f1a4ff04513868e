//! Clauses that `sqlparser` reads in any dialect and DataFusion's planner drops without a word.
//!
//! A query that has one is refused by its name here, so that nothing in a query is ignored. What is missing from this list is
//! planned, or refused by the planner itself. One is left to it on purpose: FOR SYSTEM_TIME AS OF, which parses.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, FunctionArguments, GroupByExpr, Query, Select, TableFactor, Visit, Visitor};

use crate::error::{Error, Result};

/// Refuses a query or expression in which, at any depth, such a clause stands.
pub(super) fn refuse_dropped(tree: &impl Visit) -> Result<()> {
    match tree.visit(&mut Dropped) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(clause) => Err(Error::unsupported(format!("{clause} in a query"))),
    }
}

struct Dropped;

impl Visitor for Dropped {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        first(&[
            (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE"),
            (query.for_clause.is_some(), "FOR XML or FOR JSON"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
        ])
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        first(&[
            (select.into.is_some(), "SELECT INTO"),
            (select.select_modifiers.is_some(), "a modifier of SELECT"),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (has_modifiers(&select.group_by), "GROUP BY ... WITH ROLLUP, CUBE or TOTALS (write GROUP BY ROLLUP (...))"),
            (select.from.iter().flat_map(|from| &from.joins).any(|join| join.global), "GLOBAL JOIN"),
        ])
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        let parametric = matches!(expr, Expr::Function(function) if function.parameters != FunctionArguments::None);
        first(&[(parametric, "a function with parameters before its arguments, f(...)(...)")])
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<Self::Break> {
        match relation {
            TableFactor::Table { with_hints, with_ordinality, partitions, json_path, sample, index_hints, .. } => first(&[
                (!with_hints.is_empty() || !index_hints.is_empty(), "a table hint in WITH"),
                (*with_ordinality, "WITH ORDINALITY"),
                (!partitions.is_empty(), "PARTITION"),
                (json_path.is_some(), "a path into a table"),
                (sample.is_some(), "TABLESAMPLE"),
            ]),
            TableFactor::Derived { sample, .. } => first(&[(sample.is_some(), "TABLESAMPLE")]),
            TableFactor::Function { with_ordinality, .. } => first(&[(*with_ordinality, "WITH ORDINALITY")]),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn has_modifiers(group_by: &GroupByExpr) -> bool {
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
    !modifiers.is_empty()
}

/// The first of these clauses that is there.
fn first(clauses: &[(bool, &'static str)]) -> ControlFlow<&'static str> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => ControlFlow::Break(clause),
        None => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::parse::testing::refusal;

    #[test]
    fn a_clause_that_would_be_dropped_is_refused_by_name_at_any_depth() {
        let cases = [
            ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
            ("SELECT a INTO u FROM t", "SELECT INTO"),
            ("SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b", "CONNECT BY"),
            ("SELECT a FROM t GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
            ("SELECT quantile(0.5)(a) FROM t", "f(...)(...)"),
            ("SELECT a FROM x GLOBAL JOIN y ON true", "GLOBAL JOIN"),
            ("SELECT a FROM t WITH (NOLOCK)", "table hint"),
            ("SELECT a FROM t PARTITION (p)", "PARTITION"),
            ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
            ("SELECT a FROM f(1) WITH ORDINALITY", "WITH ORDINALITY"),
            ("WITH c AS (SELECT * FROM (SELECT * FROM t TABLESAMPLE (1 ROWS)) AS s) SELECT 1", "TABLESAMPLE"),
            ("CREATE VIEW v AS SELECT 1 WHERE EXISTS (SELECT 1 FROM u FOR UPDATE)", "FOR UPDATE"),
            ("DELETE FROM t WHERE a IN (SELECT b FROM u FOR UPDATE)", "FOR UPDATE"),
        ];
        for (sql, clause) in cases {
            let message = refusal(sql);
            assert!(message.contains("not supported") && message.contains(clause), "{sql}: {message}");
        }
    }
}
