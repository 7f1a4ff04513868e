//! Scalar expressions, predicates with and without subqueries, aggregate and window functions.

use rand::Rng;

use super::{Column, Generator, Type, names, order_by_all, table_columns};
use crate::world::Table;

impl Generator<'_> {
    /// A column of the type; of any type with None. Falls back on any column where none has the type.
    pub(super) fn column<'c>(&mut self, scope: &'c [Column], data_type: Option<Type>) -> &'c Column {
        let fitting: Vec<&Column> = scope.iter().filter(|column| data_type.is_none_or(|wanted| column.data_type == wanted)).collect();
        match fitting.is_empty() {
            true => &scope[self.rng.random_range(0..scope.len())],
            false => fitting[self.rng.random_range(0..fitting.len())],
        }
    }

    fn column_of(&mut self, scope: &[Column], data_type: Type) -> Option<String> {
        let column = self.column(scope, Some(data_type));
        (column.data_type == data_type).then(|| column.text.clone())
    }

    /// An expression of the type. It reads a column if there is one of the type.
    pub(super) fn expression(&mut self, scope: &[Column], data_type: Type) -> String {
        let choice = self.rng.random_range(0..10);
        match (data_type, self.column_of(scope, data_type)) {
            (Type::Bool, _) => self.predicate(scope, 1),
            (_, Some(column)) if choice < 5 => column,
            (Type::Int, Some(column)) => match choice {
                5 => format!("({column} + {})", self.rng.random_range(1..3)),
                6 => format!("({column} - {})", self.column_of(scope, Type::Int).unwrap_or_default()),
                7 => format!("COALESCE({column}, 0)"),
                8 => format!("CASE WHEN {} THEN {column} ELSE 1 END", self.predicate(scope, 0)),
                _ => format!("({column} % 2)"),
            },
            (Type::Double, Some(column)) => match choice {
                5 | 6 => format!("({column} + 0.25)"),
                7 => format!("COALESCE({column}, 0.5)"),
                8 => format!("CASE WHEN {} THEN {column} END", self.predicate(scope, 0)),
                _ => format!("(-{column})"),
            },
            (Type::Text, Some(column)) => match choice {
                5 | 6 => format!("({column} || '-')"),
                7 => format!("COALESCE({column}, 'none')"),
                8 => format!("CASE WHEN {} THEN {column} ELSE 'else' END", self.predicate(scope, 0)),
                _ => format!("REPLACE({column}, 'x', 'w')"),
            },
            (Type::Int, None) => match self.column_of(scope, Type::Text) {
                Some(text) => format!("LENGTH({text})"),
                None => "CAST(2 AS INT)".into(),
            },
            (Type::Double, None) => match self.column_of(scope, Type::Int) {
                Some(int) => format!("({int} * 0.5)"),
                None => "0.5".into(),
            },
            (Type::Text, None) => format!("CASE WHEN {} THEN 'yes' ELSE 'no' END", self.predicate(scope, 0)),
        }
    }

    /// An expression for GROUP BY, which reads a column: a constant there would be a position.
    pub(super) fn group(&mut self, scope: &[Column], data_type: Type) -> String {
        let expression = self.expression(scope, data_type);
        if scope.iter().any(|column| expression.contains(&column.text)) { expression } else { self.predicate_as(scope, data_type) }
    }

    /// An expression of the type that reads a column, whichever types those have.
    fn predicate_as(&mut self, scope: &[Column], data_type: Type) -> String {
        let known = format!("{} IS NULL", self.column(scope, None).text);
        match data_type {
            Type::Bool => known,
            Type::Int => format!("CASE WHEN {known} THEN 0 ELSE 1 END"),
            Type::Double => format!("CASE WHEN {known} THEN 0.5 ELSE 1.5 END"),
            Type::Text => format!("CASE WHEN {known} THEN 'unknown' ELSE 'known' END"),
        }
    }

    /// An output column: an expression, or a correlated scalar subquery.
    pub(super) fn output(&mut self, scope: &[Column], data_type: Type, depth: u32) -> String {
        if depth > 0 && matches!(data_type, Type::Int | Type::Double) && self.rng.random_bool(0.1) {
            return self.scalar_subquery(scope, data_type);
        }
        self.expression(scope, data_type)
    }

    /// `left = right` in one of its forms, for columns of types that compare.
    pub(super) fn key_equality(&mut self, left: &[Column], right: &[Column]) -> String {
        let l = self.column(left, None).clone();
        let r = self.column(right, Some(l.data_type)).clone();
        let comparable = l.data_type == r.data_type || [&l, &r].iter().all(|column| matches!(column.data_type, Type::Int | Type::Double));
        let operator = if self.rng.random_bool(0.12) { "IS NOT DISTINCT FROM" } else { "=" };
        match comparable {
            true => format!("({} {operator} {})", l.text, r.text),
            false => format!("({} IS NULL) = ({} IS NULL)", l.text, r.text),
        }
    }

    /// A predicate without subqueries; `depth` bounds AND, OR and NOT.
    pub(super) fn predicate(&mut self, scope: &[Column], depth: u32) -> String {
        if depth > 0 && self.rng.random_bool(0.3) {
            let (left, right) = (self.predicate(scope, depth - 1), self.predicate(scope, depth - 1));
            return match self.rng.random_range(0..4) {
                0 => format!("NOT ({left})"),
                1 => format!("({left} AND {right})"),
                _ => format!("({left} OR {right})"),
            };
        }
        let column = self.column(scope, None).clone();
        let other = self.column(scope, Some(column.data_type)).clone();
        let differs = other.data_type == column.data_type && other.text != column.text;
        let name = &column.text;
        let comparison = self.choose(&["=", "<>", "<", "<=", ">", ">="]);
        match (column.data_type, self.rng.random_range(0..10)) {
            (_, 0) => format!("{name} IS NULL"),
            (_, 1) => format!("{name} IS NOT NULL"),
            (Type::Bool, _) => format!("({name})"),
            (_, 2) if differs => format!("({name} IS DISTINCT FROM {})", other.text),
            (_, 3 | 4) if differs => format!("{name} {comparison} {}", other.text),
            (Type::Int, 5) => format!("{name} IN (1, 3, 4)"),
            (Type::Int, 6) => format!("{name} BETWEEN 1 AND 3"),
            (Type::Int, _) => format!("{name} {comparison} {}", self.rng.random_range(0..5)),
            (Type::Double, _) => format!("{name} {comparison} {:?}", f64::from(self.rng.random_range(0..8)) * 0.25),
            (Type::Text, 5) => format!("{name} LIKE 'x%'"),
            (Type::Text, 6) => format!("{name} NOT IN ('x', 'z')"),
            (Type::Text, _) => format!("{name} {comparison} '{}'", self.choose(&["", "x", "y", "xy"])),
        }
    }

    /// A conjunct of WHERE; with a subquery now and then.
    pub(super) fn filter(&mut self, scope: &[Column], depth: u32) -> String {
        if depth == 0 || self.rng.random_bool(0.7) {
            return self.predicate(scope, 1);
        }
        let subquery = match self.rng.random_range(0..3) {
            0 => self.exists(scope),
            1 => self.membership(scope),
            _ => self.scalar_comparison(scope),
        };
        if self.rng.random_bool(0.12) { format!("({subquery} OR {})", self.predicate(scope, 0)) } else { subquery }
    }

    /// A table in a subquery: its FROM item and its columns.
    fn inner_table(&mut self) -> (String, Vec<Column>) {
        let table = self.choose(&Table::ALL);
        let alias = self.alias();
        let columns =
            table_columns(table).into_iter().map(|(name, data_type)| Column { text: format!("{alias}.{name}"), data_type }).collect();
        (format!("{} AS {alias}", table.name()), columns)
    }

    fn exists(&mut self, scope: &[Column]) -> String {
        let (from, inner) = self.inner_table();
        let not = self.choose(&["", "NOT "]);
        let mut condition = self.key_equality(scope, &inner);
        if self.rng.random_bool(0.5) {
            let more = if self.rng.random_bool(0.5) { self.predicate(&inner, 0) } else { self.predicate(&[scope, &inner].concat(), 0) };
            condition = format!("{condition} AND {more}");
        }
        format!("{not}EXISTS (SELECT 1 FROM {from} WHERE {condition})")
    }

    fn membership(&mut self, scope: &[Column]) -> String {
        let (from, inner) = self.inner_table();
        let not = self.choose(&["", "NOT "]);
        let data_type = self.choose(&[Type::Int, Type::Int, Type::Text]);
        let (left, right) = (self.expression(scope, data_type), self.expression(&inner, data_type));
        let condition = if self.rng.random_bool(0.6) { format!(" WHERE {}", self.predicate(&inner, 0)) } else { String::new() };
        format!("{left} {not}IN (SELECT {right} FROM {from}{condition})")
    }

    fn scalar_comparison(&mut self, scope: &[Column]) -> String {
        let data_type = self.choose(&[Type::Int, Type::Double]);
        format!("{} {} {}", self.expression(scope, data_type), self.choose(&["=", "<", ">="]), self.scalar_subquery(scope, data_type))
    }

    /// One value of a table, mostly for the outer row's key.
    fn scalar_subquery(&mut self, scope: &[Column], data_type: Type) -> String {
        let (from, inner) = self.inner_table();
        let value = match (data_type, self.rng.random_range(0..3)) {
            (Type::Int, 0) => "COUNT(*)".to_string(),
            (_, 1) => format!("MIN({})", self.expression(&inner, data_type)),
            _ => format!("MAX({})", self.expression(&inner, data_type)),
        };
        let condition = if self.rng.random_bool(0.75) { self.key_equality(scope, &inner) } else { self.predicate(&inner, 0) };
        format!("(SELECT {value} FROM {from} WHERE {condition})")
    }

    /// An aggregate of the type. Averages only where nothing is computed with them.
    pub(super) fn aggregate_function(&mut self, scope: &[Column], data_type: Type, outermost: bool) -> String {
        let argument = self.expression(scope, data_type);
        let any = self.column(scope, None).text.clone();
        let function = match (data_type, self.rng.random_range(0..8)) {
            (Type::Int, 0) => "COUNT(*)".into(),
            (Type::Int, 1) => format!("COUNT({any})"),
            (Type::Int, 2) => format!("COUNT(DISTINCT {any})"),
            (Type::Int, 3) => format!("SUM(DISTINCT {argument})"),
            (Type::Double, 0 | 1) if outermost => format!("AVG({argument})"),
            (Type::Int | Type::Double, 4 | 5) => format!("SUM({argument})"),
            (Type::Bool, choice) => format!("{}({argument})", if choice < 4 { "BOOL_AND" } else { "BOOL_OR" }),
            (Type::Text, 0) => format!("STRING_AGG({argument}, ',' ORDER BY {argument})"),
            (_, 6) => format!("MIN({argument})"),
            _ => format!("MAX({argument})"),
        };
        if self.rng.random_bool(0.15) { format!("{function} FILTER (WHERE {})", self.predicate(scope, 0)) } else { function }
    }

    pub(super) fn having(&mut self, scope: &[Column]) -> String {
        match self.rng.random_range(0..3) {
            0 => format!("COUNT(*) > {}", self.rng.random_range(1..3)),
            1 => format!("COUNT(DISTINCT {}) <= 2", self.column(scope, None).text),
            _ => format!("MIN({}) > 0", self.expression(scope, Type::Int)),
        }
    }

    /// A window function over a query's columns, in an order in which only equal rows tie; and its type.
    pub(super) fn window_function(&mut self, types: &[Type]) -> (String, Type) {
        let columns: Vec<Column> =
            names(types.len()).into_iter().zip(types).map(|(text, data_type)| Column { text, data_type: *data_type }).collect();
        let partition =
            if self.rng.random_bool(0.7) { format!("PARTITION BY {} ", self.column(&columns, None).text) } else { String::new() };
        let order = order_by_all(&names(types.len()));
        let column = self.column(&columns, None).clone();
        let ordered = format!("OVER ({partition}ORDER BY {order})");
        let frame = self.choose(&[
            "UNBOUNDED PRECEDING AND CURRENT ROW",
            "1 PRECEDING AND 1 FOLLOWING",
            "CURRENT ROW AND UNBOUNDED FOLLOWING",
            "2 PRECEDING AND 1 PRECEDING",
        ]);
        let framed = format!("OVER ({partition}ORDER BY {order} ROWS BETWEEN {frame})");
        let name = column.text;
        match (column.data_type, self.rng.random_range(0..8)) {
            (_, 0) => (format!("COUNT({name}) {framed}"), Type::Int),
            (_, 1) => (format!("ROW_NUMBER() {ordered}"), Type::Int),
            (_, 2) => (format!("DENSE_RANK() {ordered}"), Type::Int),
            (data_type, 3) => (format!("LAG({name}) {ordered}"), data_type),
            (data_type, 4) => (format!("LEAD({name}, 2) {ordered}"), data_type),
            (data_type, 5) => (format!("FIRST_VALUE({name}) {framed}"), data_type),
            (data_type @ (Type::Int | Type::Double), 6) => (format!("SUM({name}) {framed}"), data_type),
            (data_type @ (Type::Int | Type::Double | Type::Text), _) => (format!("MAX({name}) {framed}"), data_type),
            (Type::Bool, _) => (format!("COUNT(*) OVER ({partition})"), Type::Int),
        }
    }
}
