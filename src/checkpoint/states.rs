//! The states of operators as segments of files, and back.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use serde::{Deserialize, Serialize};

use super::segment::{Column, Segment};
use crate::dataflow::state::{Found, Number, Piece, State};
use crate::error::{Error, Result};
use crate::row::batch::{RowBatch, RowStorage, SumBatch, SumStorage};
use crate::row::columns::{AsColumns, Columns, Taken};
use crate::row::spine::{Pending, Sealable};
use crate::row::{SumUpdates, Time, Updates, UpdatesBuilder, key_hash};

/// An engine as of a time.
pub struct Checkpoint {
    /// Where it stands among those of its folder; given when it is written.
    pub number: u64,
    /// Everything before this time has happened.
    pub now: Time,
    /// How many workers had the states.
    pub workers: usize,
    /// What the session knows, as the engine writes it.
    pub session: serde_json::Value,
    pub states: Vec<WorkerState>,
}

/// What one worker's part of an operator remembers.
pub struct WorkerState {
    pub worker: usize,
    pub dataflow: u64,
    pub number: Number,
    pub name: String,
    pub state: State,
}

/// Where a segment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    pub file: String,
    pub segment: usize,
}

/// A [`WorkerState`] on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StateOnDisk {
    pub worker: usize,
    pub dataflow: u64,
    pub number: Number,
    pub name: String,
    pub rows: Vec<PieceOnDisk>,
    pub sums: Vec<PieceOnDisk>,
    pub apart: Vec<At>,
    pub counts: Vec<u64>,
    /// The first and the last instant at which something of it is due.
    pub due: Option<(u64, u64)>,
    /// How many rows lie apart.
    pub rows_apart: usize,
}

impl StateOnDisk {
    fn pieces(&self) -> impl Iterator<Item = &PieceOnDisk> {
        self.rows.iter().chain(&self.sums)
    }

    /// Updates of batches, and rows apart.
    pub fn rows(&self) -> u64 {
        (self.pieces().map(|piece| piece.updates).sum::<usize>() + self.rows_apart) as u64
    }

    /// Bytes on disk of batches.
    pub fn bytes(&self) -> u64 {
        self.pieces().map(|piece| piece.bytes).sum()
    }
}

/// A batch on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PieceOnDisk {
    pub lower: Time,
    pub upper: Time,
    pub updates: usize,
    pub bytes: u64,
    pub at: At,
}

/// A batch that was written, as long as somebody has it.
pub enum Remembered {
    Rows(Weak<RowStorage>),
    Sums(Weak<SumStorage>),
}

impl Remembered {
    /// Whether the batch is still there, so that its address is its own.
    pub fn is_alive(&self) -> bool {
        match self {
            Remembered::Rows(batch) => batch.strong_count() > 0,
            Remembered::Sums(batch) => batch.strong_count() > 0,
        }
    }
}

/// A batch that can be written and recognised.
pub trait Batch: AsColumns {
    fn updates(&self) -> usize;
    fn address(&self) -> usize;
    fn remember(&self) -> Remembered;
}

impl Batch for RowBatch {
    fn updates(&self) -> usize {
        self.updates
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn remember(&self) -> Remembered {
        Remembered::Rows(Arc::downgrade(&self.0))
    }
}

impl Batch for SumBatch {
    fn updates(&self) -> usize {
        self.updates
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn remember(&self) -> Remembered {
        Remembered::Sums(Arc::downgrade(&self.0))
    }
}

/// Gives the columns of something to `write`, its counts among them.
pub fn written<T>(what: &impl AsColumns, write: impl FnOnce(&[(&str, Column<'_>)]) -> Result<T>) -> Result<T> {
    let mut columns = Columns::default();
    what.put(&mut columns);
    let Columns { columns, counts } = columns;
    let all: Vec<(&str, Column<'_>)> =
        columns.iter().map(|(name, column)| (name.as_str(), *column)).chain([(Taken::COUNTS, Column::from(&counts))]).collect();
    write(&all)
}

/// What a segment has.
pub fn taken<T: AsColumns>(segment: &Segment, file: &str) -> Result<T> {
    let taken = Taken::new(segment).and_then(|mut taken| T::take(&mut taken));
    let what = || format!("the columns of '{}' do not fit together", segment.name());
    taken.ok_or_else(|| Error::Damaged { file: file.to_owned(), offset: 0, what: what() })
}

/// The states of each of so many workers, of which another number may have written them.
pub fn deal(states: Vec<WorkerState>, workers: usize, wrote: usize) -> Vec<HashMap<u64, Found>> {
    let mut dealt: Vec<HashMap<u64, Found>> = (0..workers).map(|_| HashMap::new()).collect();
    if workers == wrote {
        for WorkerState { worker, dataflow, number, name, state } in states {
            dealt[worker].entry(dataflow).or_default().insert(number, (name, state));
        }
        return dealt;
    }
    let mut parts: HashMap<(u64, Number), (String, Vec<State>)> = HashMap::new();
    for WorkerState { dataflow, number, name, state, .. } in states {
        parts.entry((dataflow, number)).or_insert_with(|| (name, Vec::new())).1.push(state);
    }
    for ((dataflow, number), (name, states)) in parts {
        for (worker, state) in spread(states, workers, is_for_first(&name)).into_iter().enumerate() {
            dealt[worker].entry(dataflow).or_default().insert(number, (name.clone(), state));
        }
    }
    dealt
}

/// Whether the first worker has all of an operator's state: what comes in, and what goes out.
fn is_for_first(name: &str) -> bool {
    name.ends_with("Input") || name.ends_with("Sink")
}

/// Several workers' states of an operator, for another number of workers: what has a key goes to the key's worker.
fn spread(states: Vec<State>, workers: usize, for_first: bool) -> Vec<State> {
    let worker = |key: &[u8]| if for_first { 0 } else { (key_hash(key) % workers as u64) as usize };
    let mut rows: Vec<(Vec<Updates>, Time)> = (0..workers).map(|_| (Vec::new(), 0)).collect();
    let mut sums: Vec<(Vec<SumUpdates>, Time)> = (0..workers).map(|_| (Vec::new(), 0)).collect();
    let mut spread: Vec<State> = (0..workers).map(|_| State::default()).collect();
    for state in states {
        for Piece { upper, batch, .. } in &state.rows {
            let mut builders: Vec<UpdatesBuilder> = (0..workers).map(|_| UpdatesBuilder::default()).collect();
            batch.each(|key, value, time, diff| builders[worker(key)].push(key, &[value], time, diff));
            for ((all, last), builder) in rows.iter_mut().zip(builders) {
                all.extend(builder.into_containers());
                *last = (*upper).max(*last);
            }
        }
        for Piece { upper, batch, .. } in &state.sums {
            let mut parts: Vec<SumUpdates> = (0..workers).map(|_| SumUpdates::default()).collect();
            batch.each(|key, time, change| parts[worker(key)].push(key, time, change));
            for ((all, last), part) in sums.iter_mut().zip(parts) {
                all.push(part);
                *last = (*upper).max(*last);
            }
        }
        let mut apart: Vec<UpdatesBuilder> = (0..workers).map(|_| UpdatesBuilder::default()).collect();
        for rows in &state.apart {
            for index in 0..rows.len() {
                apart[worker(rows.key(index))].push(rows.key(index), &[rows.value(index)], rows.time(index), rows.diff(index));
            }
        }
        spread.iter_mut().zip(apart).for_each(|(spread, apart)| spread.apart.extend(apart.into_containers()));
        // Counts are added up when they are asked for.
        let first = &mut spread[0].counts;
        first.resize(first.len().max(state.counts.len()), 0);
        first.iter_mut().zip(&state.counts).for_each(|(sum, count)| *sum += count);
    }
    for (spread, ((rows, rows_upper), (sums, sums_upper))) in spread.iter_mut().zip(rows.into_iter().zip(sums)) {
        spread.rows.extend(one_piece(rows, rows_upper));
        spread.sums.extend(one_piece(sums, sums_upper));
    }
    spread
}

/// One batch of updates.
fn one_piece<C: Sealable>(containers: Vec<C>, upper: Time) -> Option<Piece<C::Batch>> {
    let mut pending = Pending::default();
    containers.into_iter().for_each(|container| pending.push(container));
    let batch = pending.seal(timely::progress::Antichain::new().borrow()).build()?;
    Some(Piece { lower: 0, upper, batch })
}
