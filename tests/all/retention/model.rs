//! A small slow reading of the retention contract, sharing nothing with the engine: maps of plain values.
//!
//! A [`Node`] has inputs (an [`Arrangement`] each) and an operator, a function from what the inputs remember to rows,
//! group by group. The [`World`] moves time and steps: at a deadline scopes expire (R3), then the step's changes are
//! applied (R1, R4), and what a node publishes (R5, R6) goes on to its readers and into the log. After every step it
//! checks what must always be true of each node: nothing published is there less than zero times, and no more is owed
//! than is live.
//!
//! Where the contract is silent: a row's changes within one step net out before they are applied; with
//! `ttl_refresh = 'create'` only the write that creates a scope arms it, with `state_ttl_max` too; a scope that deletes
//! emptied stays armed until its deadline; while a group is kept, its kept answer is all there is of it; and an
//! operator that has no groups has no answers to keep, so that `keep` is `forget` there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// A value of a row. SQL order with NULLS FIRST.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    Null,
    Int(i64),
    /// A mean: the sum and the number of values.
    Mean(i64, i64),
    Text(String),
}

pub type Row = Vec<Cell>;

/// A multiset: how often each row is there, or changes to one. No row is in it zero times.
pub type Bag = BTreeMap<Row, i64>;

/// What an operator says: the rows of each group. An operator without groups has the one that is empty.
pub type Answers = BTreeMap<Row, Bag>;

/// A function of a row: the scope it belongs to, or the group.
pub type Key = Box<dyn Fn(&Row) -> Row>;

/// An operator: what its inputs remember, to what it says.
pub type Operator = Box<dyn Fn(&[&Bag]) -> Answers>;

/// A row as none, one or several rows.
pub type Spread = Box<dyn Fn(&Row) -> Vec<Row>>;

/// Milliseconds.
pub type Instant = i64;

/// An instant and its step; what a step does is seen as one.
pub type Moment = (Instant, u32);

/// Whether writes renew a scope, or only the one that creates it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    #[default]
    Write,
    Create,
}

/// How long an arrangement remembers a scope.
#[derive(Debug, Clone, Copy, Default)]
pub struct Retention {
    /// None is never.
    pub ttl: Option<Instant>,
    pub ttl_max: Option<Instant>,
    pub refresh: Refresh,
}

/// What consumers see of the changes that an expiry makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Forget,
    Keep,
    Retract,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Table(&'static str),
    /// A node that was added before, by its number.
    Node(usize),
}

/// The rows that come to an arrangement from one source.
pub struct Feed {
    pub source: Source,
    pub each: Spread,
}

/// What one input of a node remembers.
pub struct Arrangement {
    feeds: Vec<Feed>,
    scope: Key,
    retention: Retention,
    pub rows: Bag,
    armed: BTreeMap<Row, Instant>,
    /// Retractions that found nothing.
    pub late: i64,
}

/// A stateful operator with its inputs, and the account of what it published.
pub struct Node {
    pub inputs: Vec<Arrangement>,
    operator: Operator,
    policy: Policy,
    answers: Answers,
    kept: Answers,
    owed: Bag,
    pub published: Bag,
    /// How many removals were taken out of what was owed.
    pub absorbed: i64,
    /// Whether it remembers nothing: what it shows is what its sources show.
    is_streamed: bool,
}

/// The nodes, each after those it reads, and the time.
#[derive(Default)]
pub struct World {
    pub nodes: Vec<Node>,
    tables: BTreeMap<&'static str, Bag>,
    now: Instant,
    step: u32,
    /// What each node published in each step, net.
    pub log: BTreeMap<Moment, BTreeMap<usize, Bag>>,
}

/// Adds to a multiset.
pub fn add(bag: &mut Bag, row: &Row, diff: i64) {
    let count = bag.entry(row.clone()).or_insert(0);
    *count += diff;
    if *count == 0 {
        bag.remove(row);
    }
}

fn difference(new: &Bag, old: &Bag) -> Bag {
    let mut changes = new.clone();
    old.iter().for_each(|(row, count)| add(&mut changes, row, -count));
    changes
}

fn count(bag: &Bag, row: &Row) -> i64 {
    bag.get(row).copied().unwrap_or(0)
}

impl Feed {
    /// The rows as they are.
    pub fn of(source: Source) -> Self {
        Feed { source, each: Box::new(|row| vec![row.clone()]) }
    }
}

impl Arrangement {
    pub fn new(feeds: Vec<Feed>, scope: Key, retention: Retention) -> Self {
        Arrangement { feeds, scope, retention, rows: Bag::new(), armed: BTreeMap::new(), late: 0 }
    }

    /// Rows of one source, each a scope of its own.
    pub fn of_rows(source: Source, retention: Retention) -> Self {
        Self::new(vec![Feed::of(source)], Box::new(Row::clone), retention)
    }

    /// Applies the changes of one step and returns the scopes that they are of.
    fn apply(&mut self, at: Instant, changes: &Bag) -> BTreeSet<Row> {
        let mut scopes = BTreeSet::new();
        for (row, diff) in changes {
            let scope = (self.scope)(row);
            let applied = match self.retention.ttl {
                Some(_) => (*diff).max(-count(&self.rows, row)),
                None => *diff,
            };
            self.late += applied - diff;
            add(&mut self.rows, row, applied);
            assert!(count(&self.rows, row) >= 0, "{row:?} is remembered less than zero times");
            if applied != 0 {
                self.touch(at, &scope);
            }
            scopes.insert(scope);
        }
        scopes
    }

    /// R1 and R2.
    fn touch(&mut self, at: Instant, scope: &Row) {
        let Some(ttl) = self.retention.ttl else { return };
        let deadline = at + self.retention.ttl_max.unwrap_or(ttl);
        let rearms = match (self.armed.get(scope), self.retention.refresh) {
            (None, _) => true,
            (Some(_), Refresh::Create) => false,
            (Some(armed), Refresh::Write) => self.retention.ttl_max.is_none() || at + ttl > *armed,
        };
        if rearms {
            self.armed.insert(scope.clone(), deadline);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.armed.values().copied().min()
    }

    /// R3: takes out the scopes with this deadline, and returns those that had rows.
    fn expire(&mut self, deadline: Instant) -> BTreeSet<Row> {
        let due: BTreeSet<Row> = self.armed.iter().filter(|(_, armed)| **armed == deadline).map(|(scope, _)| scope.clone()).collect();
        self.armed.retain(|scope, _| !due.contains(scope));
        let had: BTreeSet<Row> = self.rows.keys().map(&self.scope).filter(|scope| due.contains(scope)).collect();
        self.rows.retain(|row, _| !had.contains(&(self.scope)(row)));
        had
    }

    fn has_rows(&self, scope: &Row) -> bool {
        self.rows.keys().any(|row| &(self.scope)(row) == scope)
    }
}

impl Node {
    /// An operator whose answers are by group, each group a scope of its one input.
    pub fn grouped(input: Arrangement, operator: Operator, policy: Policy) -> Self {
        Self::new(vec![input], operator, policy)
    }

    /// An operator without groups.
    pub fn ungrouped(inputs: Vec<Arrangement>, operator: Operator, policy: Policy) -> Self {
        Self::new(inputs, operator, if policy == Policy::Keep { Policy::Forget } else { policy })
    }

    /// A node that remembers nothing and says what comes.
    pub fn streamed(feeds: Vec<Feed>) -> Self {
        let input = Arrangement::new(feeds, Box::new(Row::clone), Retention::default());
        let same: Operator = Box::new(|inputs| Answers::from([(Row::new(), inputs[0].clone())]));
        Node { is_streamed: true, ..Self::new(vec![input], same, Policy::Retract) }
    }

    fn new(inputs: Vec<Arrangement>, operator: Operator, policy: Policy) -> Self {
        let (answers, kept, owed, published) = Default::default();
        let mut node = Node { inputs, operator, policy, answers, kept, owed, published, absorbed: 0, is_streamed: false };
        node.answer();
        node
    }

    /// What the node remembers, kept answers with it.
    pub fn live(&self) -> Bag {
        let mut live = Bag::new();
        let answered = self.answers.iter().filter(|(group, _)| !self.kept.contains_key(*group));
        for (row, count) in answered.chain(&self.kept).flat_map(|(_, rows)| rows) {
            add(&mut live, row, *count);
        }
        live
    }

    fn answer(&mut self) {
        let remembered: Vec<&Bag> = self.inputs.iter().map(|input| &input.rows).collect();
        self.answers = (self.operator)(&remembered);
    }

    /// The expiries of a deadline. Returns what `retract` will say of them.
    fn expire(&mut self, deadline: Instant) -> Bag {
        let before = self.live();
        for input in &mut self.inputs {
            for group in input.expire(deadline) {
                if self.policy == Policy::Keep {
                    self.kept.extend(self.answers.get(&group).map(|rows| (group, rows.clone())));
                }
            }
        }
        self.answer();
        let changes = difference(&self.live(), &before);
        if self.policy == Policy::Retract {
            return changes;
        }
        for (row, diff) in &changes {
            let owed = (count(&self.owed, row) + diff).max(0);
            self.owed.insert(row.clone(), owed);
        }
        self.owed.retain(|_, owed| *owed > 0);
        Bag::new()
    }

    /// The changes of a step, for each input. Returns what becomes of the answer.
    fn change(&mut self, at: Instant, changes: &[Bag]) -> Bag {
        let before = self.live();
        for (input, changes) in self.inputs.iter_mut().zip(changes) {
            for scope in input.apply(at, changes) {
                if input.has_rows(&scope) {
                    self.kept.remove(&scope);
                }
            }
        }
        self.answer();
        difference(&self.live(), &before)
    }

    /// R6: takes what goes out of what is owed first, and returns what is said.
    fn publish(&mut self, changes: Bag) -> Bag {
        let mut said = Bag::new();
        for (row, diff) in changes {
            let absorbed = count(&self.owed, &row).min(-diff).max(0);
            self.absorbed += absorbed;
            add(&mut self.owed, &row, -absorbed);
            add(&mut said, &row, diff + absorbed);
            add(&mut self.published, &row, diff + absorbed);
            assert!(count(&self.published, &row) >= 0, "{row:?} is published less than zero times");
        }
        said
    }

    fn check(&self) {
        let live = self.live();
        for row in self.published.keys().chain(live.keys()).chain(self.owed.keys()) {
            let (published, live, owed) = (count(&self.published, row), count(&live, row), count(&self.owed, row));
            assert!(0 <= owed && owed <= live, "{row:?}: {owed} owed, {live} live");
            assert!(published - live + owed >= 0, "{row:?}: {published} published, {live} live, {owed} owed");
            assert!(self.policy != Policy::Retract || published == live, "{row:?}: {published} published, {live} live");
        }
    }
}

impl World {
    /// Adds a node at the present step (the first of the epoch, unless time has moved): what its inputs hold comes to it
    /// there, and what it says of that is published. [`World::settle`] completes the step.
    pub fn add(&mut self, node: Node) -> usize {
        self.step = self.step.max(1);
        let number = self.nodes.len();
        self.nodes.push(node);
        let said = self.published_so_far();
        let changes = self.inputs_of(number, &self.tables, &said);
        let node = &mut self.nodes[number];
        node.change(self.now, &changes);
        let all = node.publish(node.live());
        self.record(number, &all);
        number
    }

    /// R12: what a SELECT on a node answers.
    pub fn shows(&self, number: usize) -> Bag {
        let node = &self.nodes[number];
        if !node.is_streamed {
            return node.live();
        }
        let shown = (0..number).map(|number| (number, self.shows(number))).collect();
        self.inputs_of(number, &self.tables, &shown).swap_remove(0)
    }

    fn published_so_far(&self) -> BTreeMap<usize, Bag> {
        self.nodes.iter().enumerate().map(|(i, node)| (i, node.published.clone())).collect()
    }

    /// The changes that come to each input of a node.
    fn inputs_of(&self, node: usize, tables: &BTreeMap<&'static str, Bag>, said: &BTreeMap<usize, Bag>) -> Vec<Bag> {
        let of = |input: &Arrangement| {
            let mut changes = Bag::new();
            for feed in &input.feeds {
                let source = match &feed.source {
                    Source::Table(name) => tables.get(name),
                    Source::Node(number) => said.get(number),
                };
                for (row, diff) in source.into_iter().flatten() {
                    (feed.each)(row).iter().for_each(|row| add(&mut changes, row, *diff));
                }
            }
            changes
        };
        self.nodes[node].inputs.iter().map(of).collect()
    }

    fn record(&mut self, node: usize, said: &Bag) {
        let all = self.log.entry((self.now, self.step)).or_default().entry(node).or_default();
        said.iter().for_each(|(row, diff)| add(all, row, *diff));
    }

    /// One step: the changes of tables, and what nodes have said in it already.
    fn flow(&mut self, tables: &BTreeMap<&'static str, Bag>, mut said: BTreeMap<usize, Bag>) {
        for number in 0..self.nodes.len() {
            let changes = self.inputs_of(number, tables, &said);
            let node = &mut self.nodes[number];
            let changed = node.change(self.now, &changes);
            let new = node.publish(changed);
            self.record(number, &new);
            let all = said.entry(number).or_default();
            new.iter().for_each(|(row, diff)| add(all, row, *diff));
        }
        self.nodes.iter().for_each(Node::check);
        self.step += 1;
    }

    /// A statement or a transaction: one step.
    pub fn change(&mut self, changes: impl IntoIterator<Item = (&'static str, Row, i64)>) {
        let mut tables: BTreeMap<&'static str, Bag> = BTreeMap::new();
        for (table, row, diff) in changes {
            add(tables.entry(table).or_default(), &row, diff);
            add(self.tables.entry(table).or_default(), &row, diff);
        }
        self.flow(&tables, BTreeMap::new());
    }

    /// ADVANCE: every deadline on the way, in order, each before anything else of its instant.
    pub fn advance_to(&mut self, to: Instant) {
        while let Some(deadline) = self.next_deadline().filter(|deadline| *deadline <= to) {
            (self.now, self.step) = (deadline, 1);
            let mut said = BTreeMap::new();
            for number in 0..self.nodes.len() {
                let node = &mut self.nodes[number];
                let changes = node.expire(deadline);
                let new = node.publish(changes);
                self.record(number, &new);
                said.insert(number, new);
            }
            self.flow(&BTreeMap::new(), said);
        }
        if to > self.now {
            (self.now, self.step) = (to, 2);
        }
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.nodes.iter().flat_map(|node| &node.inputs).filter_map(Arrangement::next_deadline).min()
    }

    /// Completes the step that definitions were made in.
    pub fn settle(&mut self) {
        self.step += 1;
    }

    /// The last step in which anything could have been published.
    pub fn last_moment(&self) -> Option<Moment> {
        self.log.last_key_value().map(|(moment, _)| *moment)
    }

    /// What a node published after a step, or from the beginning.
    pub fn said_after(&self, node: usize, moment: Option<Moment>) -> Vec<(Moment, Row, i64)> {
        let from = moment.map_or(Bound::Unbounded, Bound::Excluded);
        let mut all = vec![];
        for (moment, said) in self.log.range((from, Bound::Unbounded)) {
            let rows = said.get(&node).into_iter().flatten();
            all.extend(rows.map(|(row, diff)| (*moment, row.clone(), *diff)));
        }
        all
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => f.write_str("NULL"),
            Cell::Int(number) => write!(f, "{number}"),
            Cell::Mean(sum, count) => write!(f, "{}", *sum as f64 / *count as f64),
            Cell::Text(text) => write!(f, "'{text}'"),
        }
    }
}
