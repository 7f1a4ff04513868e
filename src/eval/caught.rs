//! Panics of code that evaluates, as errors.
//!
//! Functions of Arrow and DataFusion are to return an error for a row that they have no value for. One that panics instead
//! would end its worker, and with it every view; so a panic while a row is evaluated is an error of that row like any other,
//! and says nothing on stderr. It is a bug all the same: nothing relies on this.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use datafusion_common::{DataFusionError, Result};

thread_local! {
    /// Whether a panic on this thread is caught here.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// What `compute` returns, or an error with what it has panicked with. It computes a value and changes nothing else, so that
/// a panic leaves nothing half done.
pub fn caught<T>(compute: impl FnOnce() -> Result<T>) -> Result<T> {
    silence();
    let outer = CATCHES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(compute));
    CATCHES.set(outer);
    outcome.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(DataFusionError::Execution(format!("it panicked: {}", said.unwrap_or("without a word"))))
    })
}

/// Lets the panic hook say nothing of panics that are caught here.
fn silence() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !CATCHES.get() {
                others(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words_and_the_next_evaluation_is_as_good_as_any() {
        let error = caught(|| -> Result<i32> { panic!("at {}", 9) }).unwrap_err();
        assert_eq!(error.strip_backtrace(), "Execution error: it panicked: at 9");
        assert_eq!(caught(|| Ok(7)).unwrap(), 7);
        assert_eq!(caught(|| caught(|| -> Result<i32> { panic!("inside") }).or(Ok(3))).unwrap(), 3);
        assert!(!CATCHES.get());
    }
}
