//! Errors that stop nothing leave a trace.

use std::fmt::Display;

/// A result whose error stops nothing.
pub trait OrTrace {
    /// Goes on whatever came of it; an error is noted in the trace with what was being done.
    fn or_trace(self, doing: &str);
}

impl<T, E: Display> OrTrace for Result<T, E> {
    fn or_trace(self, doing: &str) {
        if let Err(error) = self {
            tracing::debug!("cannot {doing}: {error}");
        }
    }
}
