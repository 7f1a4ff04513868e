//! Holds an engine's first worker up, so that what is said meanwhile comes to its operators in one batch.

use std::io::{Result, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use weir::engine::Engine;

/// A print sink's writer, which does not come back while the plug is in.
#[derive(Clone, Default)]
pub struct Plug(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    is_in: bool,
    /// Whether a worker is waiting for it to be out.
    holds: bool,
}

impl Plug {
    /// What makes an engine that writes to the plug ready for it.
    pub const DEFINITIONS: &str =
        "CREATE TABLE plug (n INT); CREATE TABLE plugged (n INT) WITH ('connector' = 'print'); INSERT INTO plugged SELECT n FROM plug";

    /// Holds the first worker up. What was defined before is built first.
    pub fn put_in(&self, engine: &Engine) -> weir::error::Result<()> {
        engine.query("SELECT 1")?;
        self.state().is_in = true;
        engine.execute("INSERT INTO plug VALUES (1)")?;
        let (_, changed) = &*self.0;
        let waited = changed.wait_timeout_while(self.state(), Duration::from_secs(60), |state| !state.holds);
        assert!(waited.is_ok_and(|(state, _)| state.holds), "no worker has come to the plug");
        Ok(())
    }

    /// Lets the worker go on.
    pub fn pull(&self) {
        self.state().is_in = false;
        self.0.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Write for Plug {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut state = self.state();
        state.holds = state.is_in;
        self.0.1.notify_all();
        while state.is_in {
            state = self.0.1.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.holds = false;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
