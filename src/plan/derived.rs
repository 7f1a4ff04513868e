//! State that goes by itself, because the times of its rows say that they cannot matter any more.
//!
//! The rows of a window that has closed, the rows of a join that can find no match any more, and the rows of a partition that
//! are in no frame any more, are forgotten without being asked for: at the first instant at which nothing can change any more that they are read for (see [`super::lag`]). What
//! was published stands, and since no row comes that would correct it, it is what it would be if nothing were forgotten.
//! It is the retention of [`super::memory`], with the deadline read from the key (or, of a join's row, from the row).
//!
//! What something was said of (`state_ttl`, be it `never`) is left as it is.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::DataType;

use super::distance::{Distance, distances};
use super::frames;
use super::lag::{Lag, Lags, joined};
use super::rewrite::Rewrite;
use super::{
    Arrangement, Closes, Expiry, Fingerprint, JoinKind, Memory, Node, Origin, Part, Plan, Policy, Refresh, Retention, RowType, Scope,
    Threshold, TimeColumn,
};

impl Plan {
    /// The same plan with what is over forgotten. It has to run under an event clock.
    pub fn with_derived_bounds(&self) -> Plan {
        Deriving::default().plan(self)
    }

    /// Whether it forgets what is over; what stands under a materialized view that it reads does not count.
    pub fn forgets_what_is_over(&self) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![self]);
        while let Some(plan) = open.pop() {
            if !seen.insert(plan.fingerprint()) {
                continue;
            }
            if plan.arrangements().iter().any(|arrangement| arrangement.closes().is_some()) {
                return true;
            }
            open.extend(plan.inputs().into_iter().filter(|input| !input.is_boundary()));
        }
        false
    }
}

/// Whether what settles is there only for bounds that were derived.
pub(super) fn is_derived(settled: &Plan) -> bool {
    match settled.node() {
        Node::Linear { input, .. } => is_derived(input),
        _ => settled.arrangements().iter().any(|arrangement| arrangement.closes().is_some()),
    }
}

/// Plans with derived bounds, by what they are without: plans share their parts.
#[derive(Default)]
struct Deriving {
    lags: Lags,
    plans: HashMap<(Fingerprint, bool), Plan>,
    /// What stands between what remembers and what settles.
    between: HashMap<(Fingerprint, bool), Plan>,
}

impl Deriving {
    fn rebuilt(&mut self, plan: &Plan) -> Plan {
        match plan.node() {
            Node::Settle { input, policy, expiry } => {
                let input = Between(self).plan(input);
                Plan::new(Node::Settle { input, policy: *policy, expiry: *expiry }, plan.row().clone())
            }
            Node::Linear { input, steps } if !input.is_boundary() && joined(input).is_some() && is_plain(input) => {
                let input = self.join(input, &distances(steps, input.row()));
                Plan::new(Node::Linear { input, steps: steps.clone() }, plan.row().clone())
            }
            Node::Join { kind: JoinKind::Inner, .. } => self.join(plan, &[]),
            Node::AsOf { outer, strict, left, right } => self.as_of((*outer, *strict), left, right, plan.row()),
            node => {
                let over = node.over(self);
                match (self.key(plan), over) {
                    (Some(closes), over) => closed(over, closes, plan),
                    (None, Node::Window { input, order, functions }) => match self.out_of_frame(node) {
                        Some(closes) => {
                            let input = forgetting(input, Scope::Row, closes);
                            settled(Plan::new(Node::Window { input, order, functions }, plan.row().clone()), Expiry::Removes)
                        }
                        None => Plan::new(Node::Window { input, order, functions }, plan.row().clone()),
                    },
                    (None, over) => Plan::new(over, plan.row().clone()),
                }
            }
        }
    }

    /// When the groups of an operator are over.
    fn key(&mut self, plan: &Plan) -> Option<Closes> {
        let arrangements = plan.arrangements();
        if !arrangements.iter().all(|arrangement| nothing_is_said(arrangement)) {
            return None;
        }
        match plan.node() {
            // The sessions of a partition are over when the last row's is.
            Node::Session { input, gap } => match self.lags.of(&input.input)[input.key] {
                Some(Lag::Time(lag)) if is_time(input, input.key) => Some(Closes { column: input.key, after: lag.saturating_add(*gap) }),
                _ => None,
            },
            // Of a difference there may be less than nothing, which what forgets does not keep.
            Node::Threshold { kind: Threshold::Positive, .. } => None,
            _ => {
                let lags = self.lags.keys(plan);
                first_over(&lags, |column| arrangements.iter().all(|arrangement| is_time(arrangement, column)))
            }
        }
    }

    /// When a row of a partition is over: when it is in no frame of a row whose value can change. An error is of all rows of a
    /// partition, and what it has taken back is there again when it goes; so where functions can fail it must not go.
    fn out_of_frame(&mut self, window: &Node) -> Option<Closes> {
        let Node::Window { input, functions, .. } = window else { return None };
        let (lag, span) = self.lags.of_frames(input, functions).filter(|_| nothing_is_said(input))?;
        let stays_failed = input.input.only_appends() || !frames::can_fail(functions);
        let after = lag.saturating_add(span.after).saturating_add(span.before).saturating_add(1);
        stays_failed.then_some(Closes { column: input.key, after })
    }

    /// An inner join whose rows keep these distances.
    fn join(&mut self, plan: &Plan, distances: &[Distance]) -> Plan {
        let Node::Join { kind, left, right } = plan.node() else { return self.plan(plan) };
        let lags = self.lags.by_partner(left, right, distances);
        let (key, middle) = (left.key, left.input.row().len());
        let (left_lags, right_lags) = (lags[..middle].to_vec(), [&lags[..key], &lags[middle..]].concat());
        let both = [left, right];
        let in_key = first_over(&lags[..key], |column| both.iter().all(|side| is_time(side, column)));
        let mut side = |side: &Arrangement, lags: &[Option<Lag>]| {
            let over = in_key.or_else(|| self.row_over(side, lags));
            let over = over.filter(|_| both.iter().all(|side| nothing_is_said(side)));
            let arrangement = self.arrangement(side);
            match over {
                Some(closes) => forgetting(arrangement, if closes.column < key { Scope::Group } else { Scope::Row }, closes),
                None => arrangement,
            }
        };
        let (left, right) = (side(left, &left_lags), side(right, &right_lags));
        let forgets = left.closes().or(right.closes()).is_some();
        let joined = Plan::new(Node::Join { kind: *kind, left, right }, plan.row().clone());
        if forgets { settled(joined, Expiry::Removes) } else { joined }
    }

    /// An as-of join that looks for the latest right row: a left row is over when none comes or goes any more that is no later,
    /// and a right row when this is so of all left rows that the next one of its key is too late for, and none of them comes.
    fn as_of(&mut self, (outer, strict): (bool, bool), left: &Arrangement, right: &Arrangement, row: &RowType) -> Plan {
        let [of_left, of_right] = [left, right].map(|side| match self.lags.of(&side.input)[side.key] {
            Some(Lag::Time(lag)) => Some(lag),
            _ => None,
        });
        let of_right = of_right.filter(|_| is_time(left, left.key) && [left, right].into_iter().all(nothing_is_said));
        let both = of_left.zip(of_right).map(|(one, other)| one.max(other));
        // A row that stays may come as late as it likes.
        let over = both.or(of_right.filter(|_| left.input.only_appends()));
        let side = |side: Arrangement, scope, lag: Option<i64>| match lag {
            Some(lag) => {
                let closes = Closes { column: side.key, after: lag.saturating_add(1) };
                forgetting(side, scope, closes)
            }
            None => side,
        };
        let (left, right) = (self.arrangement(left), self.arrangement(right));
        let (left, right) = (side(left, Scope::Row, over), side(right, Scope::Version, both));
        let joined = Plan::new(Node::AsOf { outer, strict, left, right }, row.clone());
        if over.is_some() { settled(joined, Expiry::Removes) } else { joined }
    }

    /// When a row of a join's side is over, whose columns have these lags where the other side changes. A row that stays is
    /// waiting for others and no more; one that can go has to be there then. A time that the table does not vouch for (until
    /// which an auction is open) is one that the row itself is free to choose, so that of the table's own is better.
    fn row_over(&mut self, side: &Arrangement, lags: &[Option<Lag>]) -> Option<Closes> {
        let own = self.lags.of(&side.input);
        let stays = side.input.only_appends();
        let values = (side.key..lags.len()).filter(|column| is_time(side, *column));
        let times = values.filter_map(|column| match (lags[column], own[column]) {
            (Some(Lag::Time(lag)), own) if stays => Some((own.is_none(), column, lag)),
            (Some(Lag::Time(lag)), Some(Lag::Time(own))) => Some((false, column, lag.max(own))),
            _ => None,
        });
        let (_, column, lag) = times.min_by_key(|(is_free, _, lag)| (*is_free, *lag))?;
        Some(Closes { column, after: lag.saturating_add(1) })
    }
}

impl Rewrite for Deriving {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let known = (plan.fingerprint(), plan.is_boundary());
        if let Some(derived) = self.plans.get(&known) {
            return derived.clone();
        }
        let derived = match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => plan.clone(),
            _ => plan.rewritten(self.rebuilt(plan)),
        };
        self.plans.insert(known, derived.clone());
        derived
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        Arrangement { input: self.plan(&arrangement.input), ..arrangement.clone() }
    }
}

/// What expires with what is remembered under it, and needs no bound of its own.
struct Between<'a>(&'a mut Deriving);

impl Rewrite for Between<'_> {
    fn plan(&mut self, plan: &Plan) -> Plan {
        let known = (plan.fingerprint(), plan.is_boundary());
        if let Some(derived) = self.0.between.get(&known) {
            return derived.clone();
        }
        let derived = match plan.node() {
            Node::Get { .. } | Node::Constant { .. } => plan.clone(),
            Node::Settle { .. } => self.0.plan(plan),
            node => plan.rewritten(Plan::new(node.over(self), plan.row().clone())),
        };
        self.0.between.insert(known, derived.clone());
        derived
    }

    fn arrangement(&mut self, arrangement: &Arrangement) -> Arrangement {
        match arrangement.retention {
            Some(_) => self.0.arrangement(arrangement),
            None => Arrangement { input: self.plan(&arrangement.input), ..arrangement.clone() },
        }
    }
}

/// Whether a join is one whose rows nothing settles yet.
fn is_plain(join: &Plan) -> bool {
    matches!(join.node(), Node::Join { .. })
}

/// What stands in the way of a bound, if there is a time in the rows of an arrangement that would be one: what the rows of a
/// table can do.
pub(super) fn what_changes(arrangement: &Arrangement) -> Option<String> {
    let lags = Lags::as_if_all_stayed().of(&arrangement.input);
    // A join waits for other rows; everything else is over with its key.
    let asked = if arrangement.name.is_some() { lags.len() } else { arrangement.key };
    let is_bound = |column: &usize| matches!(lags[*column], Some(Lag::Time(_))) && is_time(arrangement, *column);
    (0..asked).find(is_bound)?;
    let (mut open, mut seen) = (vec![&arrangement.input], HashSet::new());
    while let Some(plan) = open.pop() {
        if let Node::Get { name, times, .. } = plan.node()
            && let Some(what) = times.iter().find_map(TimeColumn::obstacle)
        {
            return Some(format!("rows of '{name}' {what}"));
        }
        open.extend(plan.inputs().into_iter().filter(|input| seen.insert(input.fingerprint())));
    }
    None
}

/// Whether nobody has said how long an arrangement is remembered.
fn nothing_is_said(arrangement: &Arrangement) -> bool {
    arrangement.retention.is_none() && arrangement.memory.origin == Origin::Default
}

/// Whether a column of an arrangement is a time that its encoding shows.
fn is_time(arrangement: &Arrangement, column: usize) -> bool {
    let column = &arrangement.input.row().columns[column];
    matches!(column.data_type, DataType::Timestamp(..) | DataType::Date32) && !column.sort.descending
}

/// The column among these by which rows are over, and when: the soonest after its time.
fn first_over(lags: &[Option<Lag>], is_time: impl Fn(usize) -> bool) -> Option<Closes> {
    let times = lags.iter().enumerate().filter_map(|(column, lag)| match lag {
        Some(Lag::Time(lag)) if is_time(column) => Some(Closes { column, after: lag.saturating_add(1) }),
        _ => None,
    });
    times.min_by_key(|closes| closes.after)
}

fn forgetting(arrangement: Arrangement, scope: Scope, closes: Closes) -> Arrangement {
    // Where the time is behind what is forgotten together, it is that of the last row.
    let is_of_last = scope == Scope::Group && closes.column >= arrangement.key;
    let refresh = if is_of_last { Refresh::Write } else { Refresh::Create };
    let retention = Retention { scope, ttl: None, ttl_max: None, refresh, closes: Some(closes), history: 0 };
    Arrangement { retention: Some(retention), memory: Memory { origin: Origin::Derived, ..Memory::default() }, ..arrangement }
}

/// An operator over groups that are forgotten when they are over.
fn closed(node: Node, closes: Closes, plan: &Plan) -> Plan {
    let group = |arrangement: Arrangement| forgetting(arrangement, Scope::Group, closes);
    let key = plan.arrangements().first().map_or(0, |arrangement| arrangement.key);
    let expiry = if matches!(node, Node::Join { .. }) { Expiry::Removes } else { Expiry::Groups { key } };
    let node = match node {
        Node::Join { kind, left, right } => Node::Join { kind, left: group(left), right: group(right) },
        Node::Reduce { parts, outputs, always } => {
            let parts = parts.into_iter().map(|part| Part { input: group(part.input), ..part }).collect();
            Node::Reduce { parts, outputs, always }
        }
        Node::TopK { input, offset, limit, rank, expose } => Node::TopK { input: group(input), offset, limit, rank, expose },
        Node::Window { input, functions, order } => Node::Window { input: group(input), functions, order },
        Node::Threshold { input, kind } => Node::Threshold { input: group(input), kind },
        Node::Session { input, gap } => Node::Session { input: group(input), gap },
        other => return Plan::new(other, plan.row().clone()),
    };
    settled(Plan::new(node, plan.row().clone()), expiry)
}

fn settled(input: Plan, expiry: Expiry) -> Plan {
    let row = input.row().clone();
    Plan::new(Node::Settle { input, policy: Policy::Forget, expiry }, row)
}
