//! Queries as DataFusion's planner wants them written.
//!
//! Its planner passes over parts of a query that it has no use for; a part that would change the answer is refused here by
//! its name. Other parts mean something to it that they do not mean in SQL, and are written another way.
//!
//! EXCEPT and INTERSECT, with and without ALL, are to be planned as a [`Multiset`](crate::plan::lower::Multiset). The planner
//! has no hook for set operations, but one for FROM: so the operation is rewritten to `SELECT * FROM (A CROSS JOIN B) AS
//! <marker>`, and [`super::relations`] takes the marker for what it stands for. As-of joins go the same way: see [`super::asof`].

use std::ops::ControlFlow;

use arrow::datatypes::DECIMAL128_MAX_PRECISION;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, DateTimeField, ExactNumberInfo, Expr, ExtractSyntax, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, LimitClause, ObjectNamePart, OrderByKind, Query, Select,
    SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
};

use super::{asof, group_windows, times};
use crate::error::{Error, Result};
use crate::plan::lower::REPEAT;

/// Marks EXCEPT.
pub(super) const EXCEPT: &str = "__except";
/// Marks INTERSECT.
pub(super) const INTERSECT: &str = "__intersect";
/// Marks EXCEPT ALL.
pub(super) const EXCEPT_ALL: &str = "__except_all";
/// Marks INTERSECT ALL.
pub(super) const INTERSECT_ALL: &str = "__intersect_all";

/// The query in a form that DataFusion's planner plans as it was meant.
pub(super) fn prepare(query: &Query) -> Result<Query> {
    let mut query = query.clone();
    match VisitMut::visit(&mut query, &mut Prepare) {
        ControlFlow::Continue(()) => Ok(query),
        ControlFlow::Break(error) => Err(error),
    }
}

/// An expression that stands alone, as [`prepare`] has those of queries.
pub(super) fn prepare_scalar(expr: &Expr) -> Result<Expr> {
    let mut expr = expr.clone();
    match VisitMut::visit(&mut expr, &mut Prepare) {
        ControlFlow::Continue(()) => Ok(expr),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Prepare;

impl VisitorMut for Prepare {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let refused = [
            (select.top.is_some(), "TOP: say LIMIT"),
            (select.into.is_some(), "SELECT INTO"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW: say CROSS JOIN UNNEST"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY: say ORDER BY"),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE"),
        ];
        refuse(&refused)?;
        for item in &mut select.from {
            prepare_joins(item)?;
        }
        name_columns(&mut select.projection, &relation_names(&select.from));
        group_windows::in_group_by(&mut select.group_by)
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Error> {
        match relation {
            relation if asof::is_folded(relation) => ControlFlow::Continue(()),
            TableFactor::NestedJoin { table_with_joins: item, .. } => prepare_joins(item),
            _ => ControlFlow::Continue(()),
        }
    }

    /// `x = ANY (S)` is `x IN (S)`, and `x <> ALL (S)` its opposite. A number that no DECIMAL holds is a DOUBLE, and a moment
    /// with more digits than a TIMESTAMP has is a TIMESTAMP(9). HOUR(t) is EXTRACT(HOUR FROM t), and MOD(a, b) is a % b.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        with_all_digits(expr);
        if let Some(made) = times::rewritten(expr) {
            return replace(expr, made);
        }
        if let Some(double) = as_double(expr) {
            *expr = double;
            return ControlFlow::Continue(());
        }
        let (left, right, negated) = match expr {
            Expr::Function(function) => {
                if let Some(operation) = calendar_part(function).or_else(|| remainder(function)) {
                    *expr = operation;
                    return ControlFlow::Continue(());
                }
                with_separator(function);
                return match group_windows::bound(function) {
                    None => ControlFlow::Continue(()),
                    Some(bound) => replace(expr, bound),
                };
            }
            Expr::InSubquery { expr, .. } if matches!(**expr, Expr::Tuple(_)) => {
                return refuse(&[(true, "(a, b) IN (SELECT ...): say EXISTS (SELECT ... WHERE ...)")]);
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
            Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
            _ => return ControlFlow::Continue(()),
        };
        if let Expr::Subquery(subquery) = &mut **right {
            let test = Expr::InSubquery { expr: left.clone(), subquery: subquery.clone(), negated };
            *expr = test;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let refused = [
            (!query.locks.is_empty(), "FOR UPDATE and FOR SHARE"),
            (query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
        ];
        refuse(&refused)?;
        fetch_as_limit(query)?;
        order_by_expressions(query);
        mark_set_operations(&mut query.body)
    }
}

fn replace(expr: &mut Expr, made: Result<Expr>) -> ControlFlow<Error> {
    match made {
        Ok(made) => {
            *expr = made;
            ControlFlow::Continue(())
        }
        Err(error) => ControlFlow::Break(error),
    }
}

fn refuse(parts: &[(bool, &str)]) -> ControlFlow<Error> {
    match parts.iter().find(|(present, _)| *present) {
        Some((_, what)) => ControlFlow::Break(Error::unsupported(what)),
        None => ControlFlow::Continue(()),
    }
}

/// FETCH FIRST n ROWS ONLY is LIMIT n.
fn fetch_as_limit(query: &mut Query) -> ControlFlow<Error> {
    let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
    let rows = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
    match &mut query.limit_clause {
        _ if fetch.with_ties => return ControlFlow::Break(Error::unsupported("FETCH ... WITH TIES: say RANK() <= n")),
        _ if fetch.percent => return ControlFlow::Break(Error::unsupported("FETCH ... PERCENT")),
        None => query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: vec![] }),
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return ControlFlow::Break(Error::invalid("a query has LIMIT or FETCH, not both")),
    }
    ControlFlow::Continue(())
}

/// A number with an exponent, or with more digits than a DECIMAL has, as a DOUBLE.
fn as_double(expr: &Expr) -> Option<Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let is_double =
        digits.contains(['e', 'E']) || digits.bytes().filter(u8::is_ascii_digit).count() > usize::from(DECIMAL128_MAX_PRECISION);
    is_double.then(|| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(Value::SingleQuotedString(digits.replace('_', "")))),
        data_type: SqlType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    })
}

/// Marks the as-of joins of an item of FROM, and refuses what it has no plan for.
fn prepare_joins(item: &mut TableWithJoins) -> ControlFlow<Error> {
    asof::fold(item);
    item.joins.iter().try_for_each(|join| refuse_join(&join.join_operator))
}

/// A literal's type is one that has all of its digits.
fn with_all_digits(expr: &mut Expr) {
    let Expr::TypedString(typed) = expr else { return };
    let Value::SingleQuotedString(text) = &typed.value.value else { return };
    let digits = text.rsplit_once('.').map_or(0, |(_, behind)| behind.bytes().take_while(u8::is_ascii_digit).count());
    match &mut typed.data_type {
        SqlType::Timestamp(precision @ None, _) | SqlType::TimestampNtz(precision @ None) if digits > 6 => *precision = Some(9),
        _ => {}
    }
}

/// Refuses joins that DataFusion's planner does not know, or that it plans wrongly: a column that USING names is the
/// COALESCE of both sides', and it takes the left one.
fn refuse_join(operator: &JoinOperator) -> ControlFlow<Error> {
    use JoinOperator::{CrossApply, FullOuter, OuterApply, Right, RightOuter, StraightJoin};
    let (kind, constraint) = match operator {
        CrossApply => return ControlFlow::Break(Error::unsupported("CROSS APPLY: say CROSS JOIN LATERAL")),
        OuterApply => return ControlFlow::Break(Error::unsupported("OUTER APPLY: say LEFT JOIN LATERAL ... ON TRUE")),
        StraightJoin(_) => return ControlFlow::Break(Error::unsupported("STRAIGHT_JOIN: say JOIN")),
        Right(constraint) | RightOuter(constraint) => ("RIGHT", constraint),
        FullOuter(constraint) => ("FULL", constraint),
        _ => return ControlFlow::Continue(()),
    };
    match constraint {
        JoinConstraint::Using(_) | JoinConstraint::Natural => {
            ControlFlow::Break(Error::unsupported(format!("{kind} JOIN with USING or NATURAL: say ON, and COALESCE in SELECT")))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// `ORDER BY 2` is the second expression of SELECT, whatever it is; and one that SELECT has already is that column.
fn order_by_expressions(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (&*query.body, &mut query.order_by) else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    for key in keys {
        if let Some(item) = item_at(&select.projection, &key.expr).or_else(|| item_that_is(&select.projection, &key.expr)) {
            match item {
                SelectItem::UnnamedExpr(expr) => key.expr = expr.clone(),
                SelectItem::ExprWithAlias { alias, .. } => key.expr = Expr::Identifier(alias.clone()),
                _ => {}
            }
        }
    }
}

/// The item whose number `key` is, unless a `*` before it makes that another.
fn item_at<'a>(items: &'a [SelectItem], key: &Expr) -> Option<&'a SelectItem> {
    let Expr::Value(value) = key else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let index = digits.parse::<usize>().ok()?.checked_sub(1)?;
    let is_one = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if items.iter().take(index).all(is_one) { items.get(index) } else { None }
}

fn item_that_is<'a>(items: &'a [SelectItem], key: &Expr) -> Option<&'a SelectItem> {
    items.iter().find(|item| matches!(item, SelectItem::ExprWithAlias { expr, .. } if expr == key && !is_column(expr)))
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Gives each expression of SELECT the name that it has for a reader: its own text, or the column's that it reads. An
/// expression that stands there again has the same name, told apart by what is behind [`REPEAT`]. `x.y` is a column where
/// FROM has a relation `x`, and else the field `y` of a ROW, which is called `y` too.
fn name_columns(items: &mut [SelectItem], relations: &[String]) {
    let mut taken: Vec<String> = vec![];
    for item in items {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let name = column_name(expr);
        let repeats = taken.iter().filter(|had| **had == name).count();
        let is_field = |parts: &[Ident]| parts.len() != 2 || !relations.contains(&folded(&parts[0]));
        let has_its_name = match &*expr {
            Expr::CompoundIdentifier(parts) => !is_field(parts),
            other => is_column(other),
        };
        if repeats > 0 || !has_its_name {
            let unique = if repeats == 0 { name.clone() } else { format!("{name}{REPEAT}{repeats}") };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', unique) };
        }
        taken.push(name);
    }
}

/// The names by which a SELECT can qualify columns of its FROM.
fn relation_names(from: &[TableWithJoins]) -> Vec<String> {
    let joined = from.iter().flat_map(|from| from.joins.iter().map(|join| &join.relation).chain([&from.relation]));
    joined.flat_map(names_of).collect()
}

fn names_of(relation: &TableFactor) -> Vec<String> {
    match relation {
        TableFactor::Table { alias: None, name, .. } => name.0.last().and_then(ObjectNamePart::as_ident).map(folded).into_iter().collect(),
        TableFactor::NestedJoin { alias: None, table_with_joins } => relation_names(std::slice::from_ref(table_with_joins)),
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => vec![folded(&alias.name)],
        _ => vec![],
    }
}

/// What a column that SELECT does not name is called.
fn column_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, folded),
        Expr::Nested(inner) => column_name(inner),
        other => {
            let mut other = other.clone();
            match VisitMut::visit(&mut other, &mut Folded) {
                ControlFlow::Continue(()) => other.to_string(),
                ControlFlow::Break(never) => match never {},
            }
        }
    }
}

/// The functions that say one part of a date or a time, and what EXTRACT calls it.
const CALENDAR: &[(&str, DateTimeField)] = &[
    ("year", DateTimeField::Year),
    ("quarter", DateTimeField::Quarter),
    ("month", DateTimeField::Month),
    ("week", DateTimeField::Week(None)),
    ("dayofyear", DateTimeField::Doy),
    ("dayofmonth", DateTimeField::Day),
    ("hour", DateTimeField::Hour),
    ("minute", DateTimeField::Minute),
    ("second", DateTimeField::Second),
];

/// HOUR(t) and the like as EXTRACT.
fn calendar_part(function: &Function) -> Option<Expr> {
    let name = function.name.to_string();
    let (_, field) = CALENDAR.iter().find(|(part, _)| name.eq_ignore_ascii_case(part))?;
    let [of] = arguments(function)?;
    Some(Expr::Extract { field: field.clone(), syntax: ExtractSyntax::From, expr: Box::new(of) })
}

/// MOD(a, b) as `(a) % (b)`.
fn remainder(function: &Function) -> Option<Expr> {
    if !function.name.to_string().eq_ignore_ascii_case("mod") {
        return None;
    }
    let [left, right] = arguments(function)?.map(|argument| Box::new(Expr::Nested(Box::new(argument))));
    Some(Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right })))
}

/// The arguments of a function that has so many, and nothing else in its parentheses.
fn arguments<const N: usize>(function: &Function) -> Option<[Expr; N]> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let given = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    given.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// LISTAGG of one argument joins with a comma.
fn with_separator(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args
        && function.name.to_string().eq_ignore_ascii_case("listagg")
        && list.args.len() == 1
    {
        let comma = Expr::Value(Value::SingleQuotedString(",".into()).into());
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
    }
}

/// A name as the planner has it: without quotes in lower case.
pub(super) fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Writes the names of columns and functions as the planner has them.
struct Folded;

impl VisitorMut for Folded {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let fold = |name: &mut Ident| name.value = folded(name);
        match expr {
            Expr::Identifier(name) => fold(name),
            Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(fold),
            Expr::Function(function) => function.name.0.iter_mut().for_each(|part| {
                if let ObjectNamePart::Identifier(name) = part {
                    fold(name);
                }
            }),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites EXCEPT and INTERSECT in a query's body, the innermost first. (Queries in it were visited before.)
fn mark_set_operations(body: &mut SetExpr) -> ControlFlow<Error> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return ControlFlow::Continue(()) };
    mark_set_operations(left)?;
    mark_set_operations(right)?;
    let marker = match (*op, *set_quantifier) {
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::All) => EXCEPT_ALL,
        (SetOperator::Intersect, SetQuantifier::All) => INTERSECT_ALL,
        (SetOperator::Except | SetOperator::Minus, SetQuantifier::None | SetQuantifier::Distinct) => EXCEPT,
        (SetOperator::Intersect, SetQuantifier::None | SetQuantifier::Distinct) => INTERSECT,
        _ => return ControlFlow::Continue(()),
    };
    let operand =
        |body: &SetExpr| TableFactor::Derived { lateral: false, subquery: Box::new(only(body.clone())), alias: None, sample: None };
    let joins = vec![Join { relation: operand(right), global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) }];
    let alias = TableAlias { explicit: true, name: Ident::new(marker), columns: vec![], at: None };
    let marked =
        TableFactor::NestedJoin { table_with_joins: Box::new(TableWithJoins { relation: operand(left), joins }), alias: Some(alias) };
    *body = SetExpr::Select(Box::new(everything_of(marked)));
    ControlFlow::Continue(())
}

/// A query that is nothing but `body`.
fn only(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

/// `SELECT * FROM relation`.
fn everything_of(relation: TableFactor) -> Select {
    use sqlparser::ast::helpers::attached_token::AttachedToken;
    use sqlparser::ast::{GroupByExpr, SelectFlavor, WildcardAdditionalOptions};
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation, joins: vec![] }],
        lateral_views: vec![],
        prewhere: None,
        selection: None,
        connect_by: vec![],
        group_by: GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
