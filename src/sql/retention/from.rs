//! The names in a query's FROM clauses, and its joins in the order of their JOIN keywords.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::ptr;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, JoinOperator, ObjectName, ObjectNamePart, Query, Select, TableFactor, TableFunctionArgs,
    TableWithJoins, Visit, Visitor,
};

use super::key;
use crate::error::{Error, Result};

/// What all FROM clauses of a query say, those of its subqueries and CTEs and of every branch of a set operation included.
#[derive(Debug, Default)]
pub(super) struct FromClauses {
    /// Each name as often as it stands there, in the order of the text.
    names: Vec<String>,
    /// Tables that have an alias, and the alias.
    aliases: Vec<(String, String)>,
    /// The joins that have a JOIN keyword, in the order of these.
    pub joins: Vec<Sides>,
}

/// What the sides of a join are called: the names they are made of, in the order of the text. `None` if one has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sides {
    pub left: Option<String>,
    pub right: Option<String>,
}

impl FromClauses {
    pub fn of(query: &Query) -> Self {
        let mut walk = Walk::default();
        match query.visit(&mut walk) {
            ControlFlow::Continue(()) => walk.found,
            ControlFlow::Break(never) => match never {},
        }
    }

    /// An error if a part of an input's name stands more than once in FROM, or if the name is an alias and what a join made.
    /// `by` is what names it.
    pub fn check_unambiguous(&self, input: &str, by: &str) -> Result<()> {
        let times = |part: &str| self.names.iter().filter(|name| name.to_lowercase() == part).count();
        let parts = key(input);
        // An alias may have a plus in it.
        let whole = self.names.iter().filter(|name| name.contains('+') && key(name) == parts).count();
        if whole > 1 || whole == 1 && parts.iter().all(|part| times(part) > 0) {
            return Err(Error::invalid(format!(
                "{by}: '{input}' is ambiguous, it is an alias in FROM and {}: give the alias another name",
                if whole > 1 { "another one" } else { "what a join of these is called" }
            )));
        }
        let Some(part) = parts.into_iter().find(|part| times(part) > 1) else { return Ok(()) };
        let mut names: Vec<&str> = vec![];
        for name in &self.names {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        Err(Error::invalid(format!(
            "{by}: '{part}' is ambiguous, it stands {} times in FROM (there is {}): give each an alias of its own with AS",
            times(&part),
            names.join(", ")
        )))
    }

    /// What FROM calls a table instead of its own name.
    pub fn alias_of(&self, table: &str) -> Option<&str> {
        self.aliases.iter().find(|(name, _)| name.eq_ignore_ascii_case(table)).map(|(_, alias)| alias.as_str())
    }
}

/// A walk of a query in the order of its text.
#[derive(Default)]
struct Walk {
    found: FromClauses,
    /// Joins whose keyword has not been come to, by where in the tree the relation after it is. (The tree stays where it
    /// is during the walk.)
    ahead: HashMap<*const TableFactor, Sides>,
}

impl Walk {
    /// Looks at the joins of an item of FROM before the walk gets there: they are written before what is in them.
    fn look_ahead(&mut self, item: &TableWithJoins) {
        let mut left = parts(&item.relation);
        for join in &item.joins {
            let right = parts(&join.relation);
            let has_keyword =
                !matches!(join.join_operator, JoinOperator::CrossApply | JoinOperator::OuterApply | JoinOperator::StraightJoin(_));
            if has_keyword {
                self.ahead.insert(ptr::from_ref(&join.relation), Sides { left: joined(&left), right: joined(&right) });
            }
            left = left.zip(right).map(|(left, right)| [left, right].concat());
        }
    }
}

impl Visitor for Walk {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        select.from.iter().for_each(|item| self.look_ahead(item));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<Self::Break> {
        self.found.joins.extend(self.ahead.remove(&ptr::from_ref(relation)));
        self.found.names.extend(own_name(relation));
        match relation {
            TableFactor::NestedJoin { table_with_joins, .. } => self.look_ahead(table_with_joins),
            TableFactor::Table { name, alias: Some(alias), .. } => {
                self.found.aliases.extend(last(name).map(|table| (table, folded(&alias.name))));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The names that a relation in FROM is made of, if it has any.
fn parts(relation: &TableFactor) -> Option<Vec<String>> {
    match relation {
        TableFactor::NestedJoin { table_with_joins: item, alias: None } => {
            let relations = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
            Some(relations.map(parts).collect::<Option<Vec<_>>>()?.concat())
        }
        relation => own_name(relation).map(|name| vec![name]),
    }
}

fn joined(parts: &Option<Vec<String>>) -> Option<String> {
    parts.as_ref().map(|parts| parts.join("+"))
}

/// What a relation is called: its alias, else its table's name.
fn own_name(relation: &TableFactor) -> Option<String> {
    match relation {
        TableFactor::Table { name, alias: None, args: None, .. } => last(name),
        TableFactor::Table { alias: None, args: Some(call), .. } => windowed(call),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::JsonTable { alias, .. }
        | TableFactor::OpenJsonTable { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::Pivot { alias, .. }
        | TableFactor::Unpivot { alias, .. }
        | TableFactor::MatchRecognize { alias, .. }
        | TableFactor::XmlTable { alias, .. }
        | TableFactor::SemanticView { alias, .. } => alias.as_ref().map(|alias| folded(&alias.name)),
    }
}

/// The name of the table that a call of TUMBLE or its kin is on.
fn windowed(call: &TableFunctionArgs) -> Option<String> {
    match call.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(table)) | FunctionArg::Named { arg: FunctionArgExpr::Expr(table), .. } => match table {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(parts) => parts.last().map(folded),
            _ => None,
        },
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    match name.0.last()? {
        ObjectNamePart::Identifier(name) => Some(folded(name)),
        ObjectNamePart::Function(_) => None,
    }
}

/// A name as the catalog has it: quoted as it is, else in lower case.
fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}
