//! What a view has published, as the sum of its changes.

use std::collections::HashMap;
use std::time::Duration;

use weir::engine::{Engine, Subscription, Update};

use crate::value::{self, Row};

/// A view's changes, and the rows that they come to.
pub struct Published {
    changes: Subscription,
    held: HashMap<String, (Row, i64)>,
}

/// Begins again to follow views, in an engine that has lost its subscriptions.
pub fn again<'a>(engine: &Engine, views: impl Iterator<Item = (&'a str, &'a mut Published)>) -> Result<(), String> {
    let mut views: Vec<(&str, &mut Published)> = views.collect();
    views.iter_mut().for_each(|(name, published)| **published = Published::of(engine, name));
    engine.settle().map_err(|e| e.to_string())?;
    views.iter_mut().try_for_each(|(_, published)| published.follow())
}

impl Published {
    /// Of a view from now on.
    pub fn of(engine: &Engine, view: &str) -> Self {
        Published { changes: engine.subscribe(view).expect("a subscription"), held: HashMap::new() }
    }

    /// The next change that is there and is not added yet.
    pub fn next(&mut self) -> Result<Option<Update>, String> {
        self.changes.next_within(Duration::ZERO).map_err(|e| e.to_string())
    }

    /// Adds a change, after which no row may be there less than zero times.
    pub fn add(&mut self, update: &Update) -> Result<(), String> {
        for (row, diff) in value::rows(&update.rows).into_iter().zip(&update.diffs) {
            let held = self.held.entry(value::key(&row)).or_insert_with(|| (row.clone(), 0));
            held.1 += diff;
        }
        let negative = self.held.values().find(|(_, count)| *count < 0);
        let said = negative.map(|(row, count)| format!("{} is there {count} times at {} ms", value::show(row), update.at));
        self.held.retain(|_, (_, count)| *count != 0);
        said.map_or(Ok(()), Err)
    }

    /// Adds all changes that are there.
    pub fn follow(&mut self) -> Result<(), String> {
        while let Some(update) = self.next()? {
            self.add(&update)?;
        }
        Ok(())
    }

    /// The rows, each as often as it is there.
    pub fn rows(&self) -> Vec<Row> {
        self.held.values().flat_map(|(row, count)| std::iter::repeat_n(row.clone(), usize::try_from(*count).unwrap_or(0))).collect()
    }
}
