//! Relations, and what becomes of their rows as they come.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use timely::dataflow::Stream;
use timely::dataflow::operators::core::Input as _;
use timely::dataflow::operators::core::input::Handle as InputHandle;

use super::{Arrangeds, Collection, ErrorSource, Renderer, whole_rows};
use crate::dataflow::ahead::Ahead;
use crate::dataflow::arrange::arrange_rows;
use crate::dataflow::columnar::{ColumnBatch, Encode, Feed, columnar};
use crate::dataflow::guard::guard;
use crate::dataflow::reduce::Kept as Held;
use crate::dataflow::retain::{Deadlines, Keeper, Writes, arrange_retained};
use crate::dataflow::settle;
use crate::dataflow::upsert::upsert;
use crate::error::{Error, Result};
use crate::plan::{Arrangement, Column, Flow, Memory, Node, Plan, Policy, RelationId, RowType, Scope, Step};
use crate::row::{Codec, Time, Updates, UpdatesBuilder};

/// A source's rows as they come.
pub(super) type Columns<'s> = Stream<'s, Time, Vec<ColumnBatch>>;

/// The worker's end of a relation's input.
pub struct RelationInput {
    rows: InputHandle<Time, timely::container::CapacityContainerBuilder<Vec<ColumnBatch>>>,
    errors: InputHandle<Time, UpdatesBuilder>,
    ahead: Rc<RefCell<Ahead>>,
}

impl RelationInput {
    /// Adds rows; those that happen later than now wait.
    pub fn give(&mut self, batch: ColumnBatch, now: Time) {
        let taken = self.ahead.borrow_mut().take(batch, now);
        match taken {
            Ok(None) => {}
            Ok(Some(batch)) => self.rows.send_batch(&mut vec![batch]),
            Err(error) => self.fail(&[error.to_string()], now),
        }
    }

    /// Adds errors: input that could not be taken.
    pub fn fail(&mut self, messages: &[String], now: Time) {
        let mut updates = Updates::default();
        messages.iter().for_each(|message| updates.push(message.as_bytes(), &[], now, 1));
        self.errors.send_batch(&mut updates);
    }

    /// Moves on to a time: what happens before it is complete.
    pub fn advance(&mut self, to: Time) {
        self.ahead.borrow_mut().release(to, |batch| self.rows.send_batch(&mut vec![batch]));
        self.rows.advance_to(to);
        self.errors.advance_to(to);
    }
}

/// The worker's end of what moves with engine time and nothing else.
pub type ClockInput = InputHandle<Time, UpdatesBuilder>;

/// A relation as the renderer knows it.
#[derive(Debug, Clone)]
pub struct Relation {
    pub id: RelationId,
    pub name: String,
    pub row: RowType,
    pub primary_key: Vec<usize>,
    /// Its rows are arranged as they come: it is a table, or rows of it may be taken away.
    pub kept: bool,
    /// How long its rows by primary key are remembered.
    pub memory: Memory,
}

impl<'s> Renderer<'s, '_> {
    /// Whether a relation is a source whose rows nothing arranges.
    pub fn is_stream(&self, id: RelationId) -> bool {
        self.relations.contains_key(&id) && self.kept(id).is_none()
    }

    pub(super) fn get(&mut self, plan: &Plan, id: RelationId, name: &str, key: usize) -> Result<(Collection<'s>, usize)> {
        if let Some(kept) = self.kept(id) {
            return self.kept_relation(plan, &kept);
        }
        if !self.relations.contains_key(&id) {
            return Err(Error::invalid(format!("the plan gets '{name}', which is not among its inputs")));
        }
        let (columns, errors) = self.source(plan, id)?;
        let encode = Encode { codec: Codec::new(plan.row(), key)?, made: vec![] };
        let (rows, _) = columnar(Feed::Columns(columns), None, "Encode", encode);
        Ok((Collection { rows, errors }, key))
    }

    /// How a relation's rows are arranged as they come, if they are.
    pub(super) fn kept(&self, id: RelationId) -> Option<Kept> {
        self.registry.kept(id).cloned().or_else(|| self.relations.get(&id)?.kept_as())
    }

    /// The rows, in declared order, of a relation that is arranged with its key in front.
    pub(super) fn kept_relation(&mut self, plan: &Plan, kept: &Kept) -> Result<(Collection<'s>, usize)> {
        let arranged = self.arrangement(&kept.arrangement, "Get")?;
        let mut flat = self.flat(arranged)?;
        if kept.arrangement.retention.is_some() {
            flat.rows = self.settled_relation(flat.rows, &kept.arrangement)?;
        }
        match &kept.restore {
            None => Ok((flat, kept.arrangement.key)),
            Some(restore) => {
                let feed = Feed::Rows(flat.rows, Codec::new(kept.arrangement.input.row(), 0)?);
                let encode = Encode { codec: Codec::new(plan.row(), 0)?, made: vec![] };
                let (rows, _) = columnar(feed, Some(restore.clone()), "Restore", encode);
                Ok((Collection { rows, errors: flat.errors }, 0))
            }
        }
    }

    /// What consumers see of a relation whose rows by primary key expire.
    pub(super) fn settled_relation(&mut self, rows: Stream<'s, Time, Updates>, by_key: &Arrangement) -> Result<Stream<'s, Time, Updates>> {
        match by_key.memory.policy {
            Policy::Retract => Ok(settle::showing(rows, self.as_of)),
            Policy::Forget => Ok(settle::without_expiries(rows, self.as_of)),
            Policy::Keep => self.with_kept_answers(rows, None, by_key.fingerprint(), "Get", &by_key.input.row().columns[..by_key.key]),
        }
    }

    /// A source's rows as they come, and its errors.
    pub(super) fn source(&mut self, plan: &Plan, id: RelationId) -> Result<(Columns<'s>, BTreeSet<ErrorSource>)> {
        let source = self.own(plan.fingerprint());
        if let Some(columns) = self.columns.get(&id) {
            return Ok((columns.clone(), BTreeSet::from([source])));
        }
        let (rows, columns) = self.scope.new_input::<Vec<ColumnBatch>>();
        let (errors, error_stream) = self.scope.new_input_with_builder::<UpdatesBuilder>();
        let place = self.states.place("Input");
        let ahead = Rc::new(RefCell::new(Ahead::new(Codec::new(plan.row(), 0)?, &place.found)?));
        let saved = Rc::clone(&ahead);
        self.states.keep_fallible(place.id(), move || saved.borrow().state());
        self.inputs.insert(id, RelationInput { rows, errors, ahead });
        self.columns.insert(id, columns.clone());
        let errors = self.error_source(plan.fingerprint(), error_stream);
        Ok((columns, errors))
    }

    /// Makes a table's input and arrangement, for all dataflows to come.
    pub fn table(&mut self, relation: &Relation) -> Result<()> {
        let kept = relation.kept_as().ok_or_else(|| Error::invalid(format!("table '{}' keeps no rows", relation.name)))?;
        self.begin_view(&relation.name);
        self.arrangement(&kept.arrangement, "Get").map(drop)
    }

    /// The arrangement that a relation's rows are in as they come, if that is what is asked for: with a primary key rows
    /// replace one another in it, without one a row that is there less than zero times is an error.
    pub(super) fn relation_as_it_comes(&mut self, arrangement: &Arrangement) -> Result<Option<(Arrangeds<'s>, Option<Keeper>)>> {
        let Some((get, id)) = relation_of(&arrangement.input) else { return Ok(None) };
        let Some(relation) = self.relations.get(&id).cloned() else { return Ok(None) };
        let Some(kept) = relation.kept_as() else { return Ok(None) };
        if kept.arrangement.fingerprint() != arrangement.fingerprint() {
            return Ok(None);
        }
        let (columns, mut errors) = self.source(get, id)?;
        let linear = matches!(arrangement.input.node(), Node::Linear { .. }).then(|| arrangement.input.clone());
        let encode = Encode { codec: Codec::new(arrangement.input.row(), arrangement.key)?, made: vec![] };
        let (rows, _) = columnar(Feed::Columns(columns), linear, "Encode", encode);
        let mut keeper = None;
        let arranged = if let Some(retention) = arrangement.retention {
            let deadlines = Deadlines::new(retention, arrangement.input.row());
            let (arranged, forgetting) = arrange_retained(rows, deadlines, Writes::Upserts, "Upsert, and forget", &mut self.states);
            keeper = Some(forgetting);
            arranged
        } else if relation.primary_key.is_empty() {
            let arranged = arrange_rows(rows, "Arrange", &mut self.states);
            let below_zero = guard(arranged.clone(), relation.name.clone(), Codec::new(&relation.row, 0)?, self.as_of);
            errors.extend(self.error_source(arrangement.fingerprint().derived("below zero"), below_zero));
            arranged
        } else {
            upsert(rows, "Upsert", &mut self.states)
        };
        if self.publish.is_some() {
            self.registry.keep(id, kept);
        }
        Ok(Some((Arrangeds { kept: Held::Rows(arranged), errors }, keeper)))
    }
}

impl Relation {
    /// The plan that gets this relation.
    pub fn get(&self) -> Plan {
        Plan::new(Node::Get { id: self.id, name: self.name.clone(), flow: self.flow(), times: vec![] }, self.row.clone())
    }

    fn flow(&self) -> Flow {
        if self.kept || !self.primary_key.is_empty() { Flow::Changes } else { Flow::Appends }
    }

    /// How its rows are arranged as they come, if they are.
    pub fn kept_as(&self) -> Option<Kept> {
        match (self.primary_key.as_slice(), self.kept) {
            ([], false) => None,
            ([], true) => Some(Kept { arrangement: whole_rows(&self.get()), restore: None }),
            (key, _) => Some(by_primary_key(&self.get(), key, &self.memory)),
        }
    }
}

/// How a relation's rows are arranged as they come.
#[derive(Clone)]
pub struct Kept {
    pub arrangement: Arrangement,
    /// What puts the columns back in their declared order, if the key's are not in front.
    restore: Option<Plan>,
}

/// A relation's rows by its primary key, whose columns are brought to the front.
fn by_primary_key(get: &Plan, primary_key: &[usize], memory: &Memory) -> Kept {
    let columns = &get.row().columns;
    let order: Vec<usize> = primary_key.iter().copied().chain((0..columns.len()).filter(|c| !primary_key.contains(c))).collect();
    let arranged = |input: Plan| Arrangement {
        retention: memory.retention(Scope::Group),
        memory: memory.clone(),
        ..Arrangement::rows(input, primary_key.len())
    };
    if order.iter().enumerate().all(|(index, column)| index == *column) {
        return Kept { arrangement: arranged(get.clone()), restore: None };
    }
    let permuted = pick(get.clone(), &order);
    let back: Vec<usize> = (0..order.len()).map(|column| order.iter().position(|c| *c == column).unwrap_or(column)).collect();
    let restore = pick(permuted.clone(), &back);
    Kept { arrangement: arranged(permuted), restore: Some(restore) }
}

/// A projection that does nothing but pick columns.
fn pick(input: Plan, order: &[usize]) -> Plan {
    use datafusion_physical_expr::expressions::Column as ColumnExpr;
    let columns: Vec<Column> = order.iter().map(|column| input.row().columns[*column].clone()).collect();
    let exprs = order.iter().zip(&columns).map(|(index, column)| {
        let expr: crate::plan::Scalar = std::sync::Arc::new(ColumnExpr::new(&column.name, *index));
        (expr, column.clone())
    });
    let steps = vec![Step::Project(exprs.collect())];
    Plan::new(Node::Linear { input, steps }, RowType::new(columns))
}

/// The relation that a plan gets, as it is or with its columns picked in another order.
fn relation_of(plan: &Plan) -> Option<(&Plan, RelationId)> {
    match plan.node() {
        Node::Get { id, .. } => Some((plan, *id)),
        Node::Linear { input, .. } => match input.node() {
            Node::Get { id, .. } => Some((input, *id)),
            _ => None,
        },
        _ => None,
    }
}
