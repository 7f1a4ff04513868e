//! The algebra: what EXPLAIN prints and the only thing the renderer knows.
//!
//! A [`Plan`] is an immutable tree of [`Node`]s over *collections*: multisets of rows that change with time, each
//! row with a signed multiplicity. Two plans with the same [`Fingerprint`] compute the same collection, which is
//! how equal work is found and rendered once, within a statement and across views and jobs.
//!
//! State lives in [`Arrangement`]s and nowhere else (but for what waits in a [`Node::Delay`] for its window to close): a stateful node names the arrangements it reads, each an
//! input collection indexed by its leading `key` columns. A row is `key columns ++ value columns`, and encoded
//! rows compare as SQL would order them column by column, so a group is a key prefix and MIN, top-N and ORDER BY
//! read an arrangement in order. Plans share their parts, so whoever walks one remembers, by fingerprint, where it has
//! been.
//!
//! For `SELECT k, COUNT(*) FROM t WHERE v > 0 GROUP BY k` the tree is
//!
//! ```text
//! Reduce key=[k] count(*)
//!   arranged by [k], sums in the diff: count(*)
//!     unbounded because no state_ttl is set
//!   Linear filter=[v > 0] project=[k]
//!     Get t
//! ```

mod alter;
mod bounds;
mod closing;
mod derived;
mod distance;
mod ended;
mod exact;
mod explain;
mod fingerprint;
mod frames;
mod known;
mod lag;
pub mod lower;
mod memory;
pub mod moments;
mod rewrite;
mod state;
mod validity;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;

use crate::eval::is_fallible;

pub use alter::Figures;
pub use bounds::Bound;
pub use ended::Course;
pub use explain::{Format, explain, operator};
pub use fingerprint::Fingerprint;
pub use frames::stands_after;
pub use memory::{Closes, Memory, Origin, Policy, Refresh, Retention, Scope};
pub use state::{State, Waiting, names};
pub use validity::{DAY, MILLISECOND, Stair, Turn, Validity, When};

/// A scalar expression over the columns of a row, by position.
pub type Scalar = Arc<dyn PhysicalExpr>;

/// A collection: how it is computed, and what its rows look like. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Plan(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    is_boundary: bool,
    row: RowType,
    fingerprint: Fingerprint,
}

/// The columns of a row, in order, and how each one sorts in the row's encoding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowType {
    pub columns: Arc<[Column]>,
}

/// One column of a [`RowType`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    pub sort: SortOptions,
}

/// A catalog relation, by an identity that is never used twice (a dropped and re-created table is another one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelationId(pub u64);

/// One operator. Inputs that are streamed are [`Plan`]s, inputs that are remembered are [`Arrangement`]s.
#[derive(Debug)]
pub enum Node {
    /// A table or source of the catalog. Undecodable input and negative multiplicities are errors of this relation.
    Get { id: RelationId, name: String, flow: Flow, times: Vec<TimeColumn> },
    /// Rows known at plan time, each with its multiplicity.
    Constant { rows: RecordBatch, diffs: Vec<i64> },
    /// Filters, projections and flat-maps, fused; stateless. A row on which an expression fails is an error.
    Linear { input: Plan, steps: Vec<Step> },
    /// Pairs of rows with equal keys, compared as bytes: a NULL key equals a NULL key, so whoever lowers an SQL
    /// equality filters NULLs first. `Inner` gives `key ++ left values ++ right values`, `Left` the same with
    /// NULLs for an absent right side; `Semi` and `Anti` give `key ++ left values`.
    Join { kind: JoinKind, left: Arrangement, right: Arrangement },
    /// Left rows with the one right row of their key that is nearest in time, on one side: `key ++ left values ++ right
    /// values`, with NULLs for an absent right side if `outer`. The values of both sides begin with their time, sorted
    /// in opposite directions, NULL first on the left and never on the right. With left times ascending the match is the latest right
    /// row at or before the left one's time, with left times descending the earliest at or after it; if `strict`, not at
    /// it. Of right rows with one time the first in the arrangement's order is taken, however often it is there.
    AsOf { outer: bool, strict: bool, left: Arrangement, right: Arrangement },
    /// One row a group: `key ++ one column an aggregate`.
    Reduce { parts: Vec<Part>, outputs: Vec<Output>, always: Vec<RecordBatch> },
    /// The rows of each group from the `offset`th on, `limit` of them, in the arrangement's value order.
    /// With `rank` a column is added: the row's position or rank in its group (BIGINT UNSIGNED, from 1).
    TopK { input: Arrangement, offset: u64, limit: Option<u64>, rank: Rank, expose: bool },
    /// `key ++ values ++ one column a function`, functions of the whole partition in the arrangement's value order.
    /// A change recomputes its partition, from there on where the functions' [`Reach`] allows.
    /// The first `order` value columns are the order's.
    Window { input: Arrangement, order: usize, functions: Vec<WindowFunction> },
    /// The input's rows without the columns that `validity` reads, which are their last: each is there while engine time
    /// meets the condition, and goes by retraction. Changes are of the first Data step of their instants.
    Temporal { input: Plan, validity: Validity },
    /// `key ++ values ++ start ++ end` of the session that the row is in: rows of one key whose times, the first of their
    /// values, follow one another in less than `gap` milliseconds. It ends the gap after its last row.
    Session { input: Arrangement, gap: i64 },
    /// The sum of several collections with equal row types.
    Union { inputs: Vec<Plan> },
    /// Every multiplicity negated.
    Negate { input: Plan },
    /// A function of each row's multiplicity.
    Threshold { input: Arrangement, kind: Threshold },
    /// Each update when the window of its row closes: that ends `before_end` milliseconds after the instant in a column, which
    /// sorts ascending. What has cancelled by then is never said, what comes later is said at once.
    Delay { input: Plan, column: usize, before_end: i64 },
    /// The rows that an arrangement with a retention remembers: an expiry takes them away in its instant's Expire phase.
    Remember { input: Arrangement },
    /// What consumers see of an operator over inputs that expire: changes of Expire phases are dropped and accounted
    /// for, or shown, as the policy says.
    Settle { input: Plan, policy: Policy, expiry: Expiry },
}

/// How a relation's rows come.
#[derive(Debug, Clone)]
pub enum Flow {
    /// None is taken away.
    Appends,
    /// Rows come and go.
    Changes,
    /// A row replaces the one of its primary key, which is remembered for that: in this arrangement, as people see it.
    Upserts(Arc<Arrangement>),
}

/// A column of a relation's rows that says when they happen: the time of the watermark, or PROCTIME().
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeColumn {
    pub column: usize,
    pub changes: Changes,
}

impl TimeColumn {
    /// What the relation's rows do for which nothing is over, whatever its time.
    pub fn obstacle(&self) -> Option<&'static str> {
        match self.changes {
            Changes::Until(_) => None,
            Changes::Always(what) => Some(what),
        }
    }
}

/// For how long a relation's rows of a time can change, under an event clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// None comes when engine time is more than so many milliseconds past it, and none goes.
    Until(i64),
    /// For ever: rows of the relation do what is said.
    Always(&'static str),
}

/// What an expiry does to the operator below a [`Node::Settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// Rows go, and all that shared their first `key` columns go together.
    Groups { key: usize },
    /// Rows go.
    Removes,
    /// Rows go, others may come: the NULLs of an outer join, what an anti join lets pass, a count of nothing.
    Adds,
}

/// A stage of [`Node::Linear`]: columns in, columns out.
#[derive(Debug, Clone)]
pub enum Step {
    /// Keep the rows on which the predicate is true.
    Filter(Scalar),
    /// Replace the columns by these.
    Project(Vec<(Scalar, Column)>),
    /// One row for each element of the list in `column` (or one row of NULL for an empty or NULL list with `outer`),
    /// which takes the list's place.
    Unnest { column: usize, outer: bool },
}

/// An input that an operator remembers: `input` indexed by its first `key` columns.
///
/// Two arrangements with equal fingerprints (input, key, layout and retention; not `name` or `memory`) are one.
#[derive(Debug, Clone)]
pub struct Arrangement {
    pub input: Plan,
    pub key: usize,
    pub layout: Layout,
    /// A join side's name in FROM; the name its retention is spelt with.
    pub name: Option<String>,
    /// What it forgets; None where it forgets nothing.
    pub retention: Option<Retention>,
    /// What was said of its input, for people.
    pub memory: Memory,
}

/// What an arrangement holds under its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The value columns, in order, and how often each is there.
    Rows,
    /// Nothing but sums: the value columns are folded into the difference. See [`Sum`].
    Sums(Vec<Sum>),
}

/// One sum kept in the difference of a [`Layout::Sums`] arrangement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sum {
    pub kind: SumKind,
    /// The value column that is summed; rows in which it is NULL are left out. None counts rows.
    pub column: Option<usize>,
    /// A BOOLEAN column that must be true for the row to count.
    pub filter: Option<usize>,
}

/// What is added up. All are exact and independent of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// How many rows.
    Count,
    /// The sum of integers or decimals, in 128 bits.
    Integer,
    /// The sum of doubles, without rounding; NaN and the infinities are counted apart.
    Float,
    /// The sum of the squares of doubles, without rounding.
    FloatSquare,
    /// How many rows are true.
    True,
    /// The least value, of rows that are never taken away; of a type that [has a rank](crate::row::has_rank).
    Least,
    /// The greatest, of the same.
    Greatest,
}

/// How the sides of a [`Node::Join`] pair up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

/// One arrangement of a [`Node::Reduce`] and what it is read for. All parts have the same key.
#[derive(Debug, Clone)]
pub struct Part {
    pub input: Arrangement,
    pub kind: PartKind,
}

/// How a [`Part`] turns a group into values; their number is the part's width.
#[derive(Debug, Clone)]
pub enum PartKind {
    /// Reads a [`Layout::Sums`] arrangement: one value a sum (see `Output`).
    Accumulable,
    /// Reads the first row of the group in order: the values are its value columns. MIN and MAX.
    First,
    /// Recomputes aggregates over all rows of the group: one value an aggregate. Costs the group, not the change.
    General(Vec<GeneralAggregate>),
}

/// An aggregate that is recomputed over its group, by a DataFusion accumulator.
#[derive(Debug, Clone)]
pub struct GeneralAggregate {
    pub function: Arc<datafusion_physical_expr::aggregate::AggregateFunctionExpr>,
    /// A BOOLEAN over the value columns that must be true for a row to be fed to it.
    pub filter: Option<Scalar>,
}

/// How one output column of a [`Node::Reduce`] is finished from the parts' values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Output {
    pub part: usize,
    pub finish: Finish,
    pub column: Column,
}

/// The last step of an aggregate; numbers are positions of values within the part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The value as it is (a count; the first row's column; a general aggregate).
    Value(usize),
    /// A sum, NULL where `count` is zero; out of the column's range is an error.
    SumOrNull { sum: usize, count: usize },
    /// The least or the greatest value, NULL where `count` is zero.
    Extreme { value: usize, count: usize },
    /// `sum / count`, NULL where `count` is zero.
    Average { sum: usize, count: usize },
    /// (Population or sample) variance or standard deviation.
    Variance { sum: usize, squares: usize, count: usize, sample: bool, root: bool },
    /// BOOL_AND: NULL of nothing, else whether all are true.
    All { trues: usize, count: usize },
    /// BOOL_OR: NULL of nothing, else whether any is true.
    Any { trues: usize, count: usize },
}

/// What a [`Node::TopK`] counts to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rank {
    /// ROW_NUMBER: rows; ties are broken by the rest of the row.
    RowNumber,
    /// RANK: rows before the first of one's peers, plus one. `order` is how many value columns make peers.
    Rank { order: usize },
    /// DENSE_RANK: distinct peers before, plus one.
    DenseRank { order: usize },
}

/// A window function over a partition.
#[derive(Debug, Clone)]
pub struct WindowFunction {
    pub expr: Arc<dyn datafusion_physical_expr::window::WindowExpr>,
    pub column: Column,
    pub reach: Reach,
}

/// Which rows of its partition a window function's value at a row is made of: how far a change is felt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of its frame of ROWS or RANGE, which has a bound on both sides.
    Frame,
    /// Those up to so many rows away, and its peers: LAG and LEAD.
    Neighbours { before: usize, after: usize },
    /// How many come before it: ROW_NUMBER, RANK, DENSE_RANK.
    Position,
    /// The first of its partition.
    First,
    /// All up to it (with its peers under RANGE), added up from the first on.
    Running,
    /// Any.
    Partition,
}

/// What a [`Node::Threshold`] makes of a multiplicity `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Threshold {
    /// 1 where `n > 0`: DISTINCT.
    Distinct,
    /// `max(n, 0)`: EXCEPT ALL.
    Positive,
}

impl Step {
    /// Whether some row can fail in it.
    pub fn can_fail(&self) -> bool {
        match self {
            Step::Filter(predicate) => is_fallible(predicate),
            Step::Project(items) => items.iter().any(|(scalar, _)| is_fallible(scalar)),
            Step::Unnest { .. } => false,
        }
    }
}

impl Plan {
    /// Makes a plan of a node; `row` is what its rows look like.
    pub fn new(node: Node, row: RowType) -> Self {
        let fingerprint = Fingerprint::of_node(&node, &row);
        Plan(Arc::new(Inner { node: Arc::new(node), is_boundary: false, row, fingerprint }))
    }

    /// The same plan, into which nothing that reads it is fused: a materialized view, whose rows are kept as they are.
    pub fn boundary(&self) -> Self {
        let Inner { node, row, fingerprint, .. } = &*self.0;
        Plan(Arc::new(Inner { node: Arc::clone(node), is_boundary: true, row: row.clone(), fingerprint: *fingerprint }))
    }

    /// Whether nothing that reads it may be fused into it.
    pub fn is_boundary(&self) -> bool {
        self.0.is_boundary
    }

    /// The operator at the root.
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// The columns of its rows.
    pub fn row(&self) -> &RowType {
        &self.0.row
    }

    /// What tells this plan from every other one.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The plans that this one reads, left to right: as they come, or arranged.
    pub fn inputs(&self) -> Vec<&Plan> {
        let mut inputs = self.streams();
        inputs.extend(self.arrangements().into_iter().map(|arrangement| &arrangement.input));
        inputs
    }

    /// The plans that the root operator reads as their rows come, left to right.
    pub fn streams(&self) -> Vec<&Plan> {
        match self.node() {
            Node::Linear { input, .. }
            | Node::Negate { input }
            | Node::Settle { input, .. }
            | Node::Temporal { input, .. }
            | Node::Delay { input, .. } => vec![input],
            Node::Union { inputs } => inputs.iter().collect(),
            Node::Get { .. }
            | Node::Constant { .. }
            | Node::Join { .. }
            | Node::AsOf { .. }
            | Node::Reduce { .. }
            | Node::TopK { .. }
            | Node::Window { .. }
            | Node::Session { .. }
            | Node::Threshold { .. }
            | Node::Remember { .. } => vec![],
        }
    }

    /// The arrangements that the root operator reads, left to right.
    pub fn arrangements(&self) -> Vec<&Arrangement> {
        match self.node() {
            Node::Join { left, right, .. } | Node::AsOf { left, right, .. } => vec![left, right],
            Node::Reduce { parts, .. } => parts.iter().map(|p| &p.input).collect(),
            Node::TopK { input, .. }
            | Node::Window { input, .. }
            | Node::Session { input, .. }
            | Node::Threshold { input, .. }
            | Node::Remember { input } => vec![input],
            Node::Get { .. }
            | Node::Constant { .. }
            | Node::Linear { .. }
            | Node::Temporal { .. }
            | Node::Union { .. }
            | Node::Negate { .. }
            | Node::Settle { .. }
            | Node::Delay { .. } => vec![],
        }
    }

    /// Whether rows only ever come, as far as the plan tells; between a [`Node::Remember`] and its [`Node::Settle`], but for
    /// what expires.
    pub fn only_appends(&self) -> bool {
        self.appends(true)
    }

    /// Whether rows only ever come, and nothing expires either.
    pub fn only_grows(&self) -> bool {
        self.appends(false)
    }

    /// Whether rows only ever come, `but_for_expiries` or not.
    fn appends(&self, but_for_expiries: bool) -> bool {
        let arranged = |input: &Arrangement| (but_for_expiries || input.retention.is_none()) && input.input.appends(but_for_expiries);
        match self.node() {
            Node::Get { flow, .. } => matches!(flow, Flow::Appends),
            Node::Constant { diffs, .. } => diffs.iter().all(|diff| *diff > 0),
            Node::Linear { input, .. } => input.appends(but_for_expiries),
            Node::Union { inputs } => inputs.iter().all(|input| input.appends(but_for_expiries)),
            Node::Join { kind: JoinKind::Inner | JoinKind::Semi, left, right } => arranged(left) && arranged(right),
            Node::Threshold { input, kind: Threshold::Distinct } | Node::Remember { input } => arranged(input),
            // What expires is not said to those that read it.
            Node::Settle { input, policy: Policy::Forget, expiry: Expiry::Groups { .. } | Expiry::Removes } => input.only_appends(),
            _ => false,
        }
    }
}

impl Arrangement {
    /// `input` by its first `key` columns, as rows that nothing makes it forget.
    pub fn rows(input: Plan, key: usize) -> Self {
        Arrangement { input, key, layout: Layout::Rows, name: None, retention: None, memory: Memory::default() }
    }

    /// The same, with what was said of its input where it does not know that yet.
    pub fn with_memory(self, memory: &Memory) -> Self {
        if self.retention.is_some() { self } else { Arrangement { memory: memory.clone(), ..self } }
    }

    /// What tells this arrangement from every other one.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_arrangement(self)
    }

    /// Whether rows only ever come, but for what expires.
    fn only_appends(&self) -> bool {
        self.input.only_appends()
    }
}

impl RowType {
    /// A row of these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        RowType { columns: columns.into_iter().collect() }
    }

    /// A row with the fields of an Arrow schema, in ascending order, NULLs first.
    pub fn from_schema(schema: &arrow::datatypes::Schema) -> Self {
        Self::new(schema.fields().iter().map(|f| Column::new(f.name(), f.data_type().clone(), f.is_nullable())))
    }

    /// The Arrow schema of the columns.
    pub fn schema(&self) -> SchemaRef {
        use arrow::datatypes::{Field, Schema};
        Arc::new(Schema::new(self.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable)).collect::<Vec<_>>()))
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}

impl Column {
    /// A column that sorts ascending, NULLs first.
    pub fn new(name: impl Into<String>, data_type: DataType, nullable: bool) -> Self {
        Column { name: name.into(), data_type, nullable, sort: SortOptions::default() }
    }
}
