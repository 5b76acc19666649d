//! Errors that stop nothing leave a trace.

use std::fmt::Display;

/// A result whose error stops nothing.
pub trait OrTrace: Sized {
    /// The value of a result that is no error.
    type Value;

    /// Returns the value; an error is noted in the trace with what was being done.
    fn ok_or_trace(self, doing: &str) -> Option<Self::Value>;

    /// Goes on whatever came of it; an error is noted in the trace with what was being done.
    fn or_trace(self, doing: &str) {
        drop(self.ok_or_trace(doing));
    }
}

impl<T, E: Display> OrTrace for Result<T, E> {
    type Value = T;

    fn ok_or_trace(self, doing: &str) -> Option<T> {
        self.inspect_err(|error| tracing::debug!("cannot {doing}: {error}"))
            .ok()
    }
}
