//! Views whose retention is tried: each as SQL, and as nodes of the model.
//!
//! Where a view reads columns away, what it groups or joins still is the whole row of its input, as FROM names it. Joins
//! and set operations show every column, so that an account of what is owed is the same before and after a projection.

use std::fmt;

use rand::Rng;
use rand::rngs::StdRng;

use super::model::{Arrangement, Bag, Cell, Feed, Node, Operator, Policy, Retention, Row, Source, World, add};
use super::operators::{Aggregate, Join, On, SetOperation, combined, grouped, joined, keys_are_equal, tested};
use super::settings::Settings;
use super::tables::Table;

/// What a view computes. Those that read another view say so by their name.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Aggregates of a table by its key, with HAVING COUNT(*) > 1 or without.
    Group {
        table: Table,
        aggregates: Vec<Aggregate>,
        having: bool,
    },
    /// Aggregates of a whole table.
    Total {
        table: Table,
        aggregates: Vec<Aggregate>,
    },
    /// GROUPING SETS over `p`, with the grand total or without.
    GroupingSets {
        aggregates: Vec<Aggregate>,
        total: bool,
    },
    /// SELECT DISTINCT of a table's key.
    Distinct {
        table: Table,
    },
    /// `l` with another table, by key; with `l.v < ` the other's last column, too, or without.
    Join {
        join: Join,
        other: Table,
        residual: bool,
    },
    /// `l` with `r` with `c`; the kinds of the two joins.
    Cascade {
        joins: [Join; 2],
    },
    /// Aggregates over a join of `l` and `r`.
    GroupOfJoin {
        join: Join,
    },
    Union,
    /// Rows of `l` whose key is IN a subquery over `r`, or NOT IN, and what else is in the WHERE.
    In {
        not: bool,
        beside: Beside,
    },
    /// Rows of `l` whose value is above the least of `r`: a scalar subquery.
    Above,
    /// Rows of `l`, each with the number of rows of `r` that have its key: a scalar subquery for each row.
    Counting,
    /// Rows of `l`, each with whether its key is IN a subquery over `r`, or NOT IN, and whether it EXISTS in `c`.
    Marking {
        not: bool,
    },
    Set(SetOperation),
    /// The rows of each key whose ROW_NUMBER is at most, or is, so much.
    Top {
        rank: usize,
        at_most: bool,
        shows_rank: bool,
        descending: bool,
    },
    Over(Window),
    /// Of a view of [`Shape::Group`]: how many keys have the same first aggregate, and the greatest of them or not.
    HistogramOfView {
        greatest: bool,
    },
    /// Of a view of [`Shape::Group`]: the sum of its first aggregate.
    TotalOfView,
    /// Of a view of [`Shape::Group`], `b`, with `r` by key.
    JoinOfView {
        join: Join,
        width: usize,
    },
    /// Of a view of [`Shape::Join`]: aggregates by the left key.
    GroupOfView,
    /// Of two views of [`Shape::Group`]: UNION, or UNION ALL.
    UnionOfViews {
        all: bool,
    },
}

/// What stands beside a test in a WHERE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// Or `v > 1`: what is not known matters.
    OrAboveOne,
    /// And there is a row of `c` with the same key.
    AndExists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// SUM(v) OVER (PARTITION BY k ORDER BY v), peers together.
    Running,
    /// COUNT(*) OVER (PARTITION BY k)
    Partition,
    /// LAG(v) OVER (PARTITION BY k ORDER BY id) of `p`.
    Lag,
}

/// A view: what it computes and how it forgets.
#[derive(Debug, Clone)]
pub struct View {
    pub shape: Shape,
    pub settings: Settings,
}

const OF_NUMBERS: [Aggregate; 9] = [
    Aggregate::Rows,
    Aggregate::Count,
    Aggregate::Sum,
    Aggregate::Avg,
    Aggregate::Min,
    Aggregate::Max,
    Aggregate::CountDistinct,
    Aggregate::CountAboveOne,
    Aggregate::MinAboveZero,
];
const OF_TEXT: [Aggregate; 5] = [Aggregate::Rows, Aggregate::Min, Aggregate::Max, Aggregate::CountDistinct, Aggregate::Listed];

fn pick<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())].clone()
}

fn aggregates(rng: &mut StdRng, table: Table) -> Vec<Aggregate> {
    let all = if table == Table::C { &OF_TEXT[..] } else { &OF_NUMBERS[..] };
    match rng.random_range(0..4) {
        0 => vec![Aggregate::Rows, Aggregate::Min, Aggregate::CountDistinct],
        1 => vec![Aggregate::Rows],
        _ => (0..rng.random_range(1..=3)).map(|_| pick(rng, all)).collect(),
    }
}

impl Shape {
    /// How many kinds of shape there are that read tables.
    pub const OVER_TABLES: usize = 12;

    /// A shape that reads tables, of one of the kinds.
    pub fn random(rng: &mut StdRng, kind: usize) -> Self {
        let table = pick(rng, &[Table::L, Table::P, Table::C]);
        let all_joins = [Join::Inner, Join::Left, Join::Right, Join::Full, Join::Semi, Join::Anti];
        match kind % Self::OVER_TABLES {
            0 => Shape::Group { table, aggregates: aggregates(rng, table), having: rng.random_bool(0.15) },
            1 => Shape::Total { table, aggregates: aggregates(rng, table) },
            2 => Shape::GroupingSets { aggregates: aggregates(rng, Table::P), total: rng.random_bool(0.5) },
            3 => Shape::Distinct { table },
            4 | 5 => Shape::Join { join: pick(rng, &all_joins), other: pick(rng, &[Table::R, Table::P]), residual: rng.random_bool(0.35) },
            6 => Shape::Cascade { joins: [pick(rng, &all_joins[..2]), pick(rng, &all_joins[..2])] },
            7 => Shape::GroupOfJoin { join: pick(rng, &all_joins[..2]) },
            8 if rng.random_bool(0.2) => Shape::Union,
            8 => {
                Shape::Set(pick(rng, &[SetOperation::Except, SetOperation::Intersect, SetOperation::ExceptAll, SetOperation::IntersectAll]))
            }
            9 => {
                let (rank, at_most) = pick(rng, &[(1, true), (2, true), (2, false), (3, true)]);
                Shape::Top { rank, at_most, shows_rank: rng.random_bool(0.5), descending: rng.random_bool(0.5) }
            }
            10 => Shape::Over(pick(rng, &[Window::Running, Window::Partition, Window::Lag])),
            _ if rng.random_bool(0.3) => {
                pick(rng, &[Shape::Above, Shape::Counting, Shape::Marking { not: false }, Shape::Marking { not: true }])
            }
            _ => {
                let beside = pick(rng, &[Beside::Nothing, Beside::Nothing, Beside::OrAboveOne, Beside::AndExists]);
                Shape::In { not: rng.random_bool(0.6), beside }
            }
        }
    }

    /// Views to read, and a shape that reads them.
    pub fn random_over_views(rng: &mut StdRng) -> (Vec<Self>, Self) {
        if rng.random_bool(0.3) {
            let join = pick(rng, &[Join::Inner, Join::Left, Join::Full]);
            return (vec![Shape::Join { join, other: Table::R, residual: rng.random_bool(0.3) }], Shape::GroupOfView);
        }
        let aggregates = if rng.random_bool(0.5) { vec![Aggregate::Rows] } else { vec![Aggregate::Rows, Aggregate::Max] };
        let width = 1 + aggregates.len();
        let base = Shape::Group { table: pick(rng, &[Table::L, Table::P]), aggregates, having: false };
        if rng.random_bool(0.2) {
            return (vec![base.clone(), base], Shape::UnionOfViews { all: rng.random_bool(0.5) });
        }
        let shape = match rng.random_range(0..3) {
            0 => Shape::HistogramOfView { greatest: rng.random_bool(0.5) },
            1 => Shape::TotalOfView,
            _ => Shape::JoinOfView { join: pick(rng, &[Join::Inner, Join::Left, Join::Anti]), width },
        };
        (vec![base], shape)
    }

    /// The tables it reads itself.
    pub fn tables(&self) -> Vec<Table> {
        match self {
            Shape::Group { table, .. } | Shape::Total { table, .. } | Shape::Distinct { table } => vec![*table],
            Shape::GroupingSets { .. } | Shape::Over(Window::Lag) => vec![Table::P],
            Shape::Join { other, .. } => vec![Table::L, *other],
            Shape::Cascade { .. } | Shape::In { beside: Beside::AndExists, .. } | Shape::Marking { .. } => {
                vec![Table::L, Table::R, Table::C]
            }
            Shape::GroupOfJoin { .. } | Shape::Union | Shape::In { .. } | Shape::Above | Shape::Counting | Shape::Set(_) => {
                vec![Table::L, Table::R]
            }
            Shape::Top { .. } | Shape::Over(_) => vec![Table::L],
            Shape::JoinOfView { .. } => vec![Table::R],
            Shape::HistogramOfView { .. } | Shape::TotalOfView | Shape::GroupOfView | Shape::UnionOfViews { .. } => vec![],
        }
    }

    /// The operators whose inputs may have a retention of their own, each by the names of these inputs. (Where a subquery
    /// is an operator, too, it is one with that which reads it: they have an input's name in common.)
    pub fn operators(&self) -> &'static [&'static [&'static str]] {
        match self {
            Shape::Group { table, .. } | Shape::Total { table, .. } | Shape::Distinct { table } => match table {
                Table::L => &[&["l"]],
                Table::P => &[&["p"]],
                Table::C => &[&["c"]],
                Table::R => &[&["r"]],
            },
            Shape::GroupingSets { .. } | Shape::Over(Window::Lag) => &[&["p"]],
            Shape::Top { .. } | Shape::Over(_) => &[&["l"]],
            Shape::Join { other: Table::P, .. } => &[&["l", "p"]],
            Shape::In { beside: Beside::AndExists, .. } | Shape::Marking { .. } => &[&["l", "r", "c"]],
            Shape::Join { .. } | Shape::Set(_) | Shape::In { .. } | Shape::Above | Shape::Counting => &[&["l", "r"]],
            Shape::GroupOfJoin { .. } => &[&["l", "r"], &["l+r"]],
            Shape::Cascade { .. } => &[&["l", "r"], &["l+r", "c"]],
            Shape::JoinOfView { .. } => &[&["b", "r"]],
            Shape::HistogramOfView { .. } | Shape::TotalOfView | Shape::GroupOfView => &[&["b"]],
            Shape::Union | Shape::UnionOfViews { .. } => &[],
        }
    }

    /// The sides of each JOIN of its text.
    fn joins(&self) -> &'static [[&'static str; 2]] {
        match self {
            Shape::Join { join: Join::Semi | Join::Anti, .. } | Shape::JoinOfView { join: Join::Semi | Join::Anti, .. } => &[],
            Shape::Join { other: Table::P, .. } => &[["l", "p"]],
            Shape::Join { .. } | Shape::GroupOfJoin { .. } => &[["l", "r"]],
            Shape::Cascade { .. } => &[["l", "r"], ["l+r", "c"]],
            Shape::JoinOfView { .. } => &[["b", "r"]],
            _ => &[],
        }
    }

    /// The query without hints. `views` are the views it reads.
    fn sql(&self, views: &[String]) -> String {
        let view = views.first().map_or("b", String::as_str);
        match self {
            Shape::Group { table, aggregates, having } => {
                let having = if *having { " HAVING COUNT(*) > 1" } else { "" };
                format!("SELECT k, {} FROM {} GROUP BY k{having}", listed(*table, aggregates), table.name())
            }
            Shape::Total { table, aggregates } => format!("SELECT {} FROM {}", listed(*table, aggregates), table.name()),
            Shape::GroupingSets { aggregates, total } => {
                let (list, total) = (listed(Table::P, aggregates), if *total { ", ()" } else { "" });
                let columns = "k, v, GROUPING(k) AS gk, GROUPING(v) AS gv";
                format!("SELECT {columns}, {list} FROM p GROUP BY GROUPING SETS ((k, v), (k){total})")
            }
            Shape::Distinct { table } => format!("SELECT DISTINCT k FROM {}", table.name()),
            Shape::Join { join, other, residual } => join_sql(*join, "l", Table::L.columns(), *other, *residual),
            Shape::Cascade { joins: [first, second] } => format!(
                "SELECT l.k AS x0, l.v AS x1, r.k AS x2, r.w AS x3, c.k AS x4, c.s AS x5 \
                 FROM l {} JOIN r ON l.k = r.k {} JOIN c ON c.k = l.k",
                join_word(*first),
                join_word(*second)
            ),
            Shape::GroupOfJoin { join } => format!(
                "SELECT l.k AS k, COUNT(*) AS n, COUNT(r.k) AS m, SUM(l.v) AS s, MIN(r.w) AS least \
                 FROM l {} JOIN r ON l.k = r.k GROUP BY l.k",
                join_word(*join)
            ),
            Shape::Union => "SELECT k, v FROM l UNION SELECT k, w FROM r".into(),
            Shape::In { not, beside } => {
                let test = format!("k {}IN (SELECT k FROM r)", if *not { "NOT " } else { "" });
                match beside {
                    Beside::Nothing => format!("SELECT k, v FROM l WHERE {test}"),
                    Beside::OrAboveOne => format!("SELECT k, v FROM l WHERE v > 1 OR {test}"),
                    Beside::AndExists => format!("SELECT k, v FROM l WHERE {test} AND EXISTS (SELECT 1 FROM c WHERE c.k = l.k)"),
                }
            }
            Shape::Above => "SELECT k, v FROM l WHERE v > (SELECT MIN(w) FROM r)".into(),
            Shape::Marking { not } => {
                let not = if *not { "NOT " } else { "" };
                let exists = "EXISTS (SELECT 1 FROM c WHERE c.k = l.k)";
                format!("SELECT k, v, CAST(k {not}IN (SELECT k FROM r) AS INT) AS i, CAST({exists} AS INT) AS e FROM l")
            }
            Shape::Counting => "SELECT k, v, (SELECT COUNT(*) FROM r WHERE r.k = l.k) AS n FROM l".into(),
            Shape::Set(operation) => {
                let words = match operation {
                    SetOperation::Except => "EXCEPT",
                    SetOperation::Intersect => "INTERSECT",
                    SetOperation::ExceptAll => "EXCEPT ALL",
                    SetOperation::IntersectAll => "INTERSECT ALL",
                };
                format!("SELECT k, v FROM l {words} SELECT k, w FROM r")
            }
            Shape::Top { rank, at_most, shows_rank, descending } => {
                let shown = if *shows_rank { ", rn" } else { "" };
                let order = if *descending { "v DESC NULLS LAST" } else { "v NULLS FIRST" };
                let compare = if *at_most { "<=" } else { "=" };
                format!(
                    "SELECT k, v{shown} FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM l) AS t \
                     WHERE rn {compare} {rank}"
                )
            }
            Shape::Over(Window::Running) => "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v NULLS FIRST) AS s FROM l".into(),
            Shape::Over(Window::Partition) => "SELECT k, v, COUNT(*) OVER (PARTITION BY k) AS n FROM l".into(),
            Shape::Over(Window::Lag) => "SELECT id, k, v, LAG(v) OVER (PARTITION BY k ORDER BY id) AS before FROM p".into(),
            Shape::HistogramOfView { greatest } => {
                let greatest = if *greatest { ", MAX(k) AS greatest" } else { "" };
                format!("SELECT n0, COUNT(*) AS n{greatest} FROM {view} AS b GROUP BY n0")
            }
            Shape::TotalOfView => format!("SELECT SUM(n0) AS total, COUNT(*) AS n FROM {view} AS b"),
            Shape::JoinOfView { join, width } => join_sql(*join, &format!("{view} AS b"), &["k", "n0", "n1"][..*width], Table::R, false),
            Shape::GroupOfView => {
                format!("SELECT x0, COUNT(*) AS n, SUM(x1) AS s, COUNT(x2) AS m, MIN(x3) AS least FROM {view} AS b GROUP BY x0")
            }
            Shape::UnionOfViews { all } => {
                let all = if *all { " ALL" } else { "" };
                format!("SELECT k, n0 FROM {view} UNION{all} SELECT k, n0 FROM {}", views.get(1).map_or("b", String::as_str))
            }
        }
    }
}

fn join_word(join: Join) -> &'static str {
    match join {
        Join::Inner => "INNER",
        Join::Left => "LEFT",
        Join::Right => "RIGHT",
        Join::Full => "FULL",
        Join::Semi => "EXISTS",
        Join::Anti => "NOT EXISTS",
    }
}

fn join_sql(join: Join, from: &str, left_columns: &[&str], other: Table, residual: bool) -> String {
    let (left, right) = (from.rsplit(' ').next().unwrap_or(from), other.name());
    let last = other.columns()[other.columns().len() - 1];
    let residual = if residual { format!(" AND {left}.v < {right}.{last}") } else { String::new() };
    let on = format!("{left}.k = {right}.k{residual}");
    let both = matches!(join, Join::Inner | Join::Left | Join::Right | Join::Full);
    let right_columns = if both { other.columns() } else { &[] };
    let columns = left_columns.iter().map(|column| (left, column)).chain(right_columns.iter().map(|column| (right, column)));
    let columns: Vec<String> = columns.enumerate().map(|(i, (table, column))| format!("{table}.{column} AS x{i}")).collect();
    let columns = columns.join(", ");
    if both {
        format!("SELECT {columns} FROM {from} {} JOIN {right} ON {on}", join_word(join))
    } else {
        format!("SELECT {columns} FROM {from} WHERE {} (SELECT 1 FROM {right} WHERE {on})", join_word(join))
    }
}

fn listed(table: Table, aggregates: &[Aggregate]) -> String {
    let column = table.columns()[table.key() + 1];
    let listed = aggregates.iter().enumerate().map(|(i, aggregate)| format!("{} AS n{i}", aggregate.sql(column)));
    listed.collect::<Vec<_>>().join(", ")
}

impl View {
    /// The query. `views` are the views it reads.
    pub fn sql(&self, views: &[String]) -> String {
        self.settings.hinted(&self.shape.sql(views), self.shape.joins())
    }

    /// The view's node and those before it. `under` are the nodes of the views it reads.
    pub fn add_to(&self, world: &mut World, under: &[usize]) -> usize {
        let operators = self.shape.operators();
        let side = |name: &str| self.settings.retention(Some(name));
        let policy = self.settings.policy(operators.first().copied().unwrap_or_default());
        let last = operators.last().copied().unwrap_or_default();
        // of the operator at the end, if it is over groups
        let view = self.settings.retention(last.first().copied());
        let own = self.settings.policy(last);
        let read = || Source::Node(under[0]);
        let by = |column: usize| move |row: &Row| vec![row[column].clone()];
        let node = match &self.shape {
            Shape::Group { table, aggregates, having } => {
                let (key, aggregates, having) = (table.key(), aggregates.clone(), *having);
                let answer = move |group: &Row, rows: &[Row]| {
                    let answer = [group.clone(), all_of(&aggregates, rows, key + 1)].concat();
                    if having && rows.len() < 2 { vec![] } else { vec![answer] }
                };
                groups(vec![Feed::of(table_of(*table))], by(key), view, vec![], answer, own)
            }
            Shape::Total { table, aggregates } => {
                let (column, aggregates) = (table.key() + 1, aggregates.clone());
                let answer = move |_: &Row, rows: &[Row]| vec![all_of(&aggregates, rows, column)];
                groups(vec![Feed::of(table_of(*table))], |_: &Row| vec![], view, vec![vec![]], answer, own)
            }
            Shape::GroupingSets { aggregates, total } => grouping_sets(aggregates.clone(), *total, view, own),
            Shape::Distinct { table } => {
                let answer = |group: &Row, _: &[Row]| vec![group.clone()];
                groups(vec![Feed::of(table_of(*table))], by(table.key()), view, vec![], answer, own)
            }
            Shape::Join { join, other, residual } => {
                let inputs = vec![rows_of(Table::L, side("l")), rows_of(*other, side(other.name()))];
                let on = matches(Table::L, *other, *residual);
                Node::ungrouped(inputs, joined(*join, [2, other.columns().len()], on), policy)
            }
            Shape::Cascade { joins: [first, second] } => {
                let inputs = vec![rows_of(Table::L, side("l")), rows_of(Table::R, side("r"))];
                let first = world.add(Node::ungrouped(inputs, joined(*first, [2, 2], Box::new(keys_are_equal)), policy));
                let inputs = vec![Arrangement::of_rows(Source::Node(first), side("l+r")), rows_of(Table::C, side("c"))];
                Node::ungrouped(inputs, joined(*second, [4, 2], Box::new(keys_are_equal)), own)
            }
            Shape::GroupOfJoin { join } => {
                let inputs = vec![rows_of(Table::L, side("l")), rows_of(Table::R, side("r"))];
                let join = world.add(Node::ungrouped(inputs, joined(*join, [2, 2], Box::new(keys_are_equal)), policy));
                groups(vec![Feed::of(Source::Node(join))], by(0), view, vec![], of_join, own)
            }
            Shape::Union => {
                let feeds = vec![Feed::of(table_of(Table::L)), Feed::of(table_of(Table::R))];
                groups(feeds, Row::clone, view, vec![], |group: &Row, _: &[Row]| vec![group.clone()], own)
            }
            Shape::In { not, beside } => {
                let (not, beside) = (*not, *beside);
                let mut inputs = vec![rows_of(Table::L, side("l")), rows_of(Table::R, side("r"))];
                if beside == Beside::AndExists {
                    inputs.push(rows_of(Table::C, side("c")));
                }
                let passes = move |l: &Row, others: &[&Bag]| {
                    // NOT IN is not true where it is not known
                    let may_be_in = |r: &Row| l[0] == Cell::Null || r[0] == Cell::Null || l[0] == r[0];
                    let test = match not {
                        true => !others[0].keys().any(may_be_in),
                        false => others[0].keys().any(|r| keys_are_equal(l, r)),
                    };
                    match beside {
                        Beside::Nothing => test,
                        Beside::OrAboveOne => test || l[1] > Cell::Int(1),
                        Beside::AndExists => test && others[1].keys().any(|c| keys_are_equal(l, c)),
                    }
                };
                Node::ungrouped(inputs, tested(passes), policy)
            }
            Shape::Above => {
                let key = |_: &Row| vec![];
                let least = grouped(Box::new(key), vec![vec![]], |_, rows| vec![vec![Aggregate::Min.of(rows, 1)]]);
                let of_r = Arrangement::new(vec![Feed::of(table_of(Table::R))], Box::new(key), side("r"));
                let is_above: On = Box::new(|l, least| least[0] != Cell::Null && l[1] > least[0]);
                let test = with_answers(least, joined(Join::Inner, [2, 1], is_above));
                let shown = shown(test, |row| row[..2].to_vec());
                Node::ungrouped(vec![rows_of(Table::L, side("l")), of_r], shown, policy)
            }
            Shape::Counting => {
                let count = |group: &Row, rows: &[Row]| vec![vec![group[0].clone(), Aggregate::Rows.of(rows, 0)]];
                let of_r = Arrangement::new(vec![Feed::of(table_of(Table::R))], Box::new(by(0)), side("r"));
                let beside = joined(Join::Left, [2, 2], Box::new(keys_are_equal));
                let beside = with_answers(grouped(Box::new(by(0)), vec![], count), beside);
                let count = |cell: &Cell| if *cell == Cell::Null { Cell::Int(0) } else { cell.clone() };
                let shown = shown(beside, move |row| [row[..2].to_vec(), vec![count(&row[3])]].concat());
                Node::ungrouped(vec![rows_of(Table::L, side("l")), of_r], shown, policy)
            }
            Shape::Marking { not } => {
                let not = *not;
                let inputs = vec![rows_of(Table::L, side("l")), rows_of(Table::R, side("r")), rows_of(Table::C, side("c"))];
                let marked = move |inputs: &[&Bag]| {
                    let mut said = Bag::new();
                    for (l, n) in inputs[0] {
                        let is_null = |r: &Row| l[0] == Cell::Null || r[0] == Cell::Null;
                        let is_in = match inputs[1].keys().any(|r| keys_are_equal(l, r)) {
                            true => Cell::Int(i64::from(!not)),
                            false if inputs[1].keys().any(is_null) => Cell::Null,
                            false => Cell::Int(i64::from(not)),
                        };
                        let exists = Cell::Int(i64::from(inputs[2].keys().any(|c| keys_are_equal(l, c))));
                        add(&mut said, &[l.clone(), vec![is_in, exists]].concat(), *n);
                    }
                    said
                };
                Node::ungrouped(inputs, Box::new(move |inputs| [(Row::new(), marked(inputs))].into()), policy)
            }
            Shape::Set(operation) => {
                let inputs = vec![rows_of(Table::L, side("l")), rows_of(Table::R, side("r"))];
                Node::ungrouped(inputs, combined(*operation), policy)
            }
            Shape::Top { rank, at_most, shows_rank, descending } => {
                let (rank, at_most, shows_rank, descending) = (*rank, *at_most, *shows_rank, *descending);
                let answer = move |_: &Row, rows: &[Row]| {
                    let mut rows = rows.to_vec();
                    if descending {
                        rows.reverse();
                    }
                    let ranked = (1..).zip(rows).filter(|(n, _)| if at_most { *n <= rank } else { *n == rank });
                    let shown = |n: usize| if shows_rank { vec![Cell::Int(n as i64)] } else { vec![] };
                    ranked.map(|(n, row)| [row, shown(n)].concat()).collect()
                };
                groups(vec![Feed::of(table_of(Table::L))], by(0), view, vec![], answer, own)
            }
            Shape::Over(window) => {
                let (window, table) = (*window, if *window == Window::Lag { Table::P } else { Table::L });
                let answer = move |_: &Row, rows: &[Row]| windowed(window, rows);
                groups(vec![Feed::of(table_of(table))], by(table.key()), view, vec![], answer, own)
            }
            Shape::HistogramOfView { greatest } => {
                let greatest = *greatest;
                let answer = move |group: &Row, rows: &[Row]| {
                    let greatest = if greatest { vec![Aggregate::Max.of(rows, 0)] } else { vec![] };
                    vec![[group.clone(), vec![Aggregate::Rows.of(rows, 0)], greatest].concat()]
                };
                groups(vec![Feed::of(read())], by(1), view, vec![], answer, own)
            }
            Shape::TotalOfView => {
                let answer = |_: &Row, rows: &[Row]| vec![vec![Aggregate::Sum.of(rows, 1), Aggregate::Rows.of(rows, 0)]];
                groups(vec![Feed::of(read())], |_: &Row| vec![], view, vec![vec![]], answer, own)
            }
            Shape::JoinOfView { join, width } => {
                let inputs = vec![Arrangement::of_rows(read(), side("b")), rows_of(Table::R, side("r"))];
                Node::ungrouped(inputs, joined(*join, [*width, 2], Box::new(keys_are_equal)), policy)
            }
            Shape::UnionOfViews { all } => {
                let feed = |node: &usize| Feed { source: Source::Node(*node), each: Box::new(|row| vec![row[..2].to_vec()]) };
                let feeds = under.iter().map(feed).collect();
                match all {
                    true => Node::streamed(feeds),
                    false => groups(feeds, Row::clone, view, vec![], |group: &Row, _: &[Row]| vec![group.clone()], own),
                }
            }
            Shape::GroupOfView => groups(vec![Feed::of(read())], by(0), view, vec![], of_view, own),
        };
        world.add(node)
    }
}

fn table_of(table: Table) -> Source {
    Source::Table(table.name())
}

fn rows_of(table: Table, retention: Retention) -> Arrangement {
    Arrangement::of_rows(table_of(table), retention)
}

/// A node whose scopes are its groups.
fn groups(
    feeds: Vec<Feed>,
    key: impl Fn(&Row) -> Row + Clone + 'static,
    retention: Retention,
    always: Vec<Row>,
    answer: impl Fn(&Row, &[Row]) -> Vec<Row> + 'static,
    policy: Policy,
) -> Node {
    let input = Arrangement::new(feeds, Box::new(key.clone()), retention);
    Node::grouped(input, grouped(Box::new(key), always, answer), policy)
}

/// A join of the first input with what another operator says of the second.
fn with_answers(of_second: Operator, join: Operator) -> Operator {
    Box::new(move |inputs| {
        let mut said = Bag::new();
        of_second(&inputs[1..]).values().flatten().for_each(|(row, n)| add(&mut said, row, *n));
        join(&[inputs[0], &said])
    })
}

/// What an operator without groups says, of which something else is shown.
fn shown(of: Operator, each: impl Fn(&Row) -> Row + 'static) -> Operator {
    Box::new(move |inputs| {
        let mut said = Bag::new();
        of(inputs).values().flatten().for_each(|(row, n)| add(&mut said, &each(row), *n));
        [(Row::new(), said)].into()
    })
}

fn all_of(aggregates: &[Aggregate], rows: &[Row], column: usize) -> Row {
    aggregates.iter().map(|aggregate| aggregate.of(rows, column)).collect()
}

fn matches(left: Table, right: Table, residual: bool) -> On {
    let (value, last) = (left.key() + 1, right.columns().len() - 1);
    Box::new(move |l, r| {
        let (a, b) = (&l[left.key()], &r[right.key()]);
        let equal = *a != Cell::Null && a == b;
        equal && (!residual || (l[value] != Cell::Null && r[last] != Cell::Null && l[value] < r[last]))
    })
}

/// Each row of `p` once a set, behind the set's number and what it is grouped by: (k, v), (k), ().
fn grouping_sets(aggregates: Vec<Aggregate>, total: bool, retention: Retention, policy: Policy) -> Node {
    let sets = if total { 3 } else { 2 };
    let each = move |row: &Row| {
        let key = |set: i64| match set {
            0 => vec![Cell::Int(0), row[1].clone(), row[2].clone()],
            1 => vec![Cell::Int(1), row[1].clone(), Cell::Null],
            _ => vec![Cell::Int(2), Cell::Null, Cell::Null],
        };
        (0..sets).map(|set| [key(set), row.clone()].concat()).collect()
    };
    let answer = move |group: &Row, rows: &[Row]| {
        let flag = |is: bool| Cell::Int(i64::from(is));
        let flags = vec![flag(group[0] == Cell::Int(2)), flag(group[0] != Cell::Int(0))];
        vec![[group[1..].to_vec(), flags, all_of(&aggregates, rows, 5)].concat()]
    };
    let always = if total { vec![vec![Cell::Int(2), Cell::Null, Cell::Null]] } else { vec![] };
    let feed = Feed { source: table_of(Table::P), each: Box::new(each) };
    groups(vec![feed], |row: &Row| row[..3].to_vec(), retention, always, answer, policy)
}

fn of_join(group: &Row, rows: &[Row]) -> Vec<Row> {
    let of = [Aggregate::Rows.of(rows, 0), Aggregate::Count.of(rows, 2), Aggregate::Sum.of(rows, 1), Aggregate::Min.of(rows, 3)];
    vec![[group.clone(), of.to_vec()].concat()]
}

fn of_view(group: &Row, rows: &[Row]) -> Vec<Row> {
    let of = [Aggregate::Rows.of(rows, 0), Aggregate::Sum.of(rows, 1), Aggregate::Count.of(rows, 2), Aggregate::Min.of(rows, 3)];
    vec![[group.clone(), of.to_vec()].concat()]
}

fn windowed(window: Window, rows: &[Row]) -> Vec<Row> {
    let of = |i: usize, row: &Row| match window {
        Window::Running => Aggregate::Sum.of(&rows.iter().filter(|other| other[1] <= row[1]).cloned().collect::<Vec<_>>(), 1),
        Window::Partition => Aggregate::Rows.of(rows, 0),
        Window::Lag => i.checked_sub(1).map_or(Cell::Null, |before| rows[before][2].clone()),
    };
    rows.iter().enumerate().map(|(i, row)| [row.clone(), vec![of(i, row)]].concat()).collect()
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sql(&[]), self.settings.options())
    }
}
