//! A random query generator over the tables of [`crate::world`].
//!
//! Whatever it writes has one answer: limits and rankings order by every column, averages are not computed with,
//! numbers stay small and nothing divides. A query is a tree, so that a failing one can be taken apart.

mod expressions;

use std::fmt::Write;

use rand::Rng;
use rand::rngs::StdRng;

use crate::check::Case;
use crate::world::Table;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Int,
    Double,
    Text,
    Bool,
}

/// A query with columns `c0`, `c1`, ... of these types.
#[derive(Debug, Clone)]
pub struct Query {
    node: Node,
    types: Vec<Type>,
}

#[derive(Debug, Clone)]
enum Node {
    Block(Block),
    Set {
        operation: &'static str,
        all: bool,
        sides: [Box<Query>; 2],
    },
    /// The first `limit` of each partition by a ranking function.
    Top {
        input: Box<Query>,
        function: &'static str,
        partition: Option<usize>,
        limit: u32,
        expose: bool,
    },
    /// One window function more.
    Over {
        input: Box<Query>,
        function: String,
    },
}

/// SELECT ... FROM ... WHERE ... GROUP BY ... HAVING ... ORDER BY ... LIMIT.
#[derive(Debug, Clone)]
struct Block {
    sources: Vec<Source>,
    filters: Vec<String>,
    outputs: Vec<String>,
    /// GROUP BY these; `Some` of none is a global aggregate.
    groups: Option<Vec<String>>,
    having: Option<String>,
    distinct: bool,
    limit: Option<(u32, u32)>,
}

#[derive(Debug, Clone)]
struct Source {
    /// How it joins what stands before it; of no meaning for the first.
    join: &'static str,
    relation: Relation,
    alias: String,
    on: Vec<String>,
}

#[derive(Debug, Clone)]
enum Relation {
    Table(Table),
    Query(Box<Query>),
}

/// A column that an expression may use.
#[derive(Debug, Clone)]
struct Column {
    text: String,
    data_type: Type,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Weir,
    Sqlite,
}

/// Makes queries.
pub struct Generator<'a> {
    rng: &'a mut StdRng,
    aliases: usize,
}

impl Query {
    /// The query in both engines' words.
    pub fn case(&self, name: impl Into<String>) -> Case {
        // the aggregates that SQLite knows by another name
        let sqlite = self.render(Dialect::Sqlite).replace("BOOL_AND(", "MIN(").replace("BOOL_OR(", "MAX(");
        Case { name: name.into(), weir: self.render(Dialect::Weir), sqlite }
    }

    /// Smaller queries, made by leaving something out. Some of them may not be valid.
    pub fn smaller(&self) -> Vec<Query> {
        match &self.node {
            Node::Block(block) => block.smaller(&self.types),
            Node::Set { operation, all, sides: [left, right] } => {
                let with = |left: &Query, right: &Query| {
                    let node = Node::Set { operation, all: *all, sides: [Box::new(left.clone()), Box::new(right.clone())] };
                    Query { node, types: self.types.clone() }
                };
                let mut smaller = vec![(**left).clone(), (**right).clone()];
                smaller.extend(left.smaller().iter().map(|left| with(left, right)));
                smaller.extend(right.smaller().iter().map(|right| with(left, right)));
                smaller
            }
            Node::Top { input, .. } | Node::Over { input, .. } => {
                let mut smaller = vec![(**input).clone()];
                for candidate in input.smaller() {
                    let mut outer = self.clone();
                    if let Node::Top { input, .. } | Node::Over { input, .. } = &mut outer.node {
                        **input = candidate;
                    }
                    smaller.push(outer);
                }
                smaller
            }
        }
    }

    fn render(&self, dialect: Dialect) -> String {
        let columns = names(self.types.len()).join(", ");
        match &self.node {
            Node::Block(block) => block.render(dialect),
            Node::Set { operation, all, sides } => {
                let [left, right] = sides.each_ref().map(|side| side.render(dialect));
                match (dialect, *all && *operation != "UNION") {
                    // the i-th copy of a row stands for itself: set operations on copies are bag operations on rows
                    (Dialect::Sqlite, true) => {
                        let copies =
                            |side: &str| format!("SELECT *, ROW_NUMBER() OVER (PARTITION BY {columns}) AS copy FROM ({side}) AS i");
                        format!("SELECT {columns} FROM ({} {operation} {}) AS b", copies(&left), copies(&right))
                    }
                    _ => {
                        let all = if *all { " ALL" } else { "" };
                        format!("SELECT * FROM ({left}) AS l {operation}{all} SELECT * FROM ({right}) AS r")
                    }
                }
            }
            Node::Top { input, function, partition, limit, expose } => {
                let inner = names(input.types.len());
                let partition = partition.map(|i| format!("PARTITION BY c{i} ")).unwrap_or_default();
                let over = format!("{function}() OVER ({partition}ORDER BY {})", order_by_all(&inner));
                let rank = if *expose { format!(", rank_in AS c{}", inner.len()) } else { String::new() };
                let inner = inner.join(", ");
                format!(
                    "SELECT {inner}{rank} FROM (SELECT {inner}, {over} AS rank_in FROM ({}) AS i) AS o WHERE rank_in <= {limit}",
                    input.render(dialect)
                )
            }
            Node::Over { input, function } => {
                let inner = names(input.types.len());
                format!("SELECT {}, {function} AS c{} FROM ({}) AS i", inner.join(", "), inner.len(), input.render(dialect))
            }
        }
    }
}

impl Block {
    fn render(&self, dialect: Dialect) -> String {
        let outputs: Vec<String> = self.outputs.iter().enumerate().map(|(i, output)| format!("{output} AS c{i}")).collect();
        let mut sql = format!("SELECT {}{} FROM ", if self.distinct { "DISTINCT " } else { "" }, outputs.join(", "));
        for (i, source) in self.sources.iter().enumerate() {
            let relation = match &source.relation {
                Relation::Table(table) => table.name().to_string(),
                Relation::Query(query) => format!("({})", query.render(dialect)),
            };
            let join = if i == 0 { String::new() } else { format!(" {} ", source.join) };
            let _ = write!(sql, "{join}{relation} AS {}", source.alias);
            if i > 0 && !source.on.is_empty() {
                let _ = write!(sql, " ON {}", source.on.join(" AND "));
            }
        }
        if !self.filters.is_empty() {
            let _ = write!(sql, " WHERE {}", self.filters.join(" AND "));
        }
        if let Some(groups) = self.groups.as_ref().filter(|groups| !groups.is_empty()) {
            let _ = write!(sql, " GROUP BY {}", groups.join(", "));
        }
        if let Some(having) = &self.having {
            let _ = write!(sql, " HAVING {having}");
        }
        if let Some((limit, offset)) = self.limit {
            let _ = write!(sql, " ORDER BY {} LIMIT {limit} OFFSET {offset}", order_by_all(&names(self.outputs.len())));
        }
        sql
    }

    fn smaller(&self, types: &[Type]) -> Vec<Query> {
        let mut smaller = vec![];
        let mut keep = |change: &dyn Fn(&mut Block), types: &[Type]| {
            let mut block = self.clone();
            change(&mut block);
            smaller.push(Query { node: Node::Block(block), types: types.to_vec() });
        };
        if self.limit.is_some() {
            keep(&|block| block.limit = None, types);
        }
        if self.having.is_some() {
            keep(&|block| block.having = None, types);
        }
        if self.distinct {
            keep(&|block| block.distinct = false, types);
        }
        for i in 0..self.filters.len() {
            keep(&|block| drop(block.filters.remove(i)), types);
        }
        for i in (1..self.sources.len()).rev() {
            keep(&|block| drop(block.sources.remove(i)), types);
            for j in 1..self.sources[i].on.len() {
                keep(&|block| drop(block.sources[i].on.remove(j)), types);
            }
        }
        for i in (0..self.outputs.len()).rev().filter(|_| self.outputs.len() > 1) {
            let mut fewer = types.to_vec();
            fewer.remove(i);
            keep(&|block| drop(block.outputs.remove(i)), &fewer);
        }
        for (i, source) in self.sources.iter().enumerate() {
            if let Relation::Query(query) = &source.relation {
                smaller.push((**query).clone());
                for candidate in query.smaller() {
                    let mut block = self.clone();
                    block.sources[i].relation = Relation::Query(Box::new(candidate));
                    smaller.push(Query { node: Node::Block(block), types: types.to_vec() });
                }
            }
        }
        smaller
    }
}

impl<'a> Generator<'a> {
    pub fn new(rng: &'a mut StdRng) -> Self {
        Generator { rng, aliases: 0 }
    }

    /// A whole query.
    pub fn query(&mut self) -> Query {
        match self.rng.random_range(0..10) {
            0 => self.top(),
            1 => self.over(),
            _ => self.relation(2, None, true),
        }
    }

    /// A query with the given types, or any; `depth` bounds what nests in it.
    fn relation(&mut self, depth: u32, types: Option<&[Type]>, outermost: bool) -> Query {
        if depth > 0 && self.rng.random_bool(0.25) {
            let left = self.relation(depth - 1, types, false);
            let right = self.relation(depth - 1, Some(&left.types), false);
            let (operation, all) = (self.choose(&["UNION", "UNION", "INTERSECT", "EXCEPT", "EXCEPT"]), self.rng.random_bool(0.5));
            let types = left.types.clone();
            return Query { node: Node::Set { operation, all, sides: [Box::new(left), Box::new(right)] }, types };
        }
        self.block(depth, types, outermost)
    }

    fn top(&mut self) -> Query {
        let input = Box::new(self.relation(1, None, false));
        let function = self.choose(&["ROW_NUMBER", "RANK", "DENSE_RANK"]);
        let partition = self.rng.random_bool(0.8).then(|| self.rng.random_range(0..input.types.len()));
        let expose = self.rng.random_bool(0.5);
        let mut types = input.types.clone();
        types.extend(expose.then_some(Type::Int));
        Query { node: Node::Top { input, function, partition, limit: self.rng.random_range(1..4), expose }, types }
    }

    fn over(&mut self) -> Query {
        let input = Box::new(self.relation(1, None, false));
        let (function, data_type) = self.window_function(&input.types);
        let types = [input.types.as_slice(), &[data_type]].concat();
        Query { node: Node::Over { input, function }, types }
    }

    fn block(&mut self, depth: u32, types: Option<&[Type]>, outermost: bool) -> Query {
        let (sources, scope) = self.sources(depth, outermost);
        let filters = (0..self.choose(&[0, 0, 1, 1, 2])).map(|_| self.filter(&scope, depth)).collect();
        let wanted: Vec<Type> = match types {
            Some(types) => types.to_vec(),
            None => (0..self.rng.random_range(1..4))
                .map(|_| self.choose(&[Type::Int, Type::Int, Type::Double, Type::Text, Type::Bool]))
                .collect(),
        };
        let mut block = Block { sources, filters, outputs: vec![], groups: None, having: None, distinct: false, limit: None };
        if self.rng.random_bool(0.4) {
            self.aggregate(&mut block, &scope, &wanted, outermost);
        } else {
            block.outputs = wanted.iter().map(|data_type| self.output(&scope, *data_type, depth)).collect();
            block.distinct = self.rng.random_bool(0.15);
        }
        if self.rng.random_bool(0.1) {
            block.limit = Some((self.rng.random_range(1..6), self.rng.random_range(0..3)));
        }
        Query { node: Node::Block(block), types: wanted }
    }

    fn aggregate(&mut self, block: &mut Block, scope: &[Column], wanted: &[Type], outermost: bool) {
        let mut groups = vec![];
        let global = self.rng.random_bool(0.2);
        for data_type in wanted {
            let output = if !global && self.rng.random_bool(0.4) {
                groups.push(self.group(scope, *data_type));
                groups[groups.len() - 1].clone()
            } else {
                self.aggregate_function(scope, *data_type, outermost)
            };
            block.outputs.push(output);
        }
        if !global && groups.is_empty() {
            groups.push(self.column(scope, None).text.clone());
        }
        block.groups = Some(groups);
        block.having = self.rng.random_bool(0.2).then(|| self.having(scope));
    }

    fn sources(&mut self, depth: u32, outermost: bool) -> (Vec<Source>, Vec<Column>) {
        let count = if outermost { self.rng.random_range(1..=3) } else { self.rng.random_range(1..=2) };
        let (mut sources, mut scope): (Vec<Source>, Vec<Column>) = (vec![], vec![]);
        for i in 0..count {
            // two queries joined are enough: their sizes multiply
            let nested = depth > 0 && i < 2 && self.rng.random_bool(0.3);
            let (relation, columns) = if nested {
                let query = self.relation(depth - 1, None, false);
                let columns = names(query.types.len()).into_iter().zip(query.types.clone()).collect();
                (Relation::Query(Box::new(query)), columns)
            } else {
                let table = self.choose(&Table::ALL);
                (Relation::Table(table), table_columns(table))
            };
            let alias = self.alias();
            let columns: Vec<Column> =
                columns.into_iter().map(|(name, data_type)| Column { text: format!("{alias}.{name}"), data_type }).collect();
            let join = self.choose(&["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
            let on = if i == 0 || join == "CROSS JOIN" { vec![] } else { self.join_condition(&scope, &columns) };
            sources.push(Source { join, relation, alias, on });
            scope.extend(columns);
        }
        (sources, scope)
    }

    fn join_condition(&mut self, left: &[Column], right: &[Column]) -> Vec<String> {
        let mut on = vec![];
        if self.rng.random_bool(0.92) {
            on.push(self.key_equality(left, right));
        }
        if on.is_empty() || self.rng.random_bool(0.3) {
            let both = [left, right].concat();
            on.push(self.predicate(&both, 1));
        }
        on
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("s{}", self.aliases)
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.random_range(0..choices.len())]
    }
}

fn table_columns(table: Table) -> Vec<(String, Type)> {
    let types = if table == Table::U { [Type::Int, Type::Double, Type::Text] } else { [Type::Int, Type::Int, Type::Text] };
    table.columns().into_iter().map(String::from).zip(types).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("c{i}")).collect()
}

/// An order in which only equal rows tie.
fn order_by_all(columns: &[String]) -> String {
    let keys: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, name)| format!("{name} {}", if i % 2 == 0 { "NULLS FIRST" } else { "DESC NULLS LAST" }))
        .collect();
    keys.join(", ")
}
