//! Whether the work holds: which commands prove it, what they say, and what of that the team has to answer for.
//!
//! [`detect()`] finds the checks that a project's own files show. A [`CheckRunner`] runs one of them to its end and leaves
//! no process behind. [`compare_with_base()`] compares what it said with what the same command said before the work began.
//!
//! A check that fails is run once more at once. One that passes then is flaky: it is told as that, and never as passed.

mod detect;
mod environment;
mod output;
mod regression;
mod run;

pub use detect::{Detected, Skipped, detect};
pub use regression::{RegressionReport, compare_with_base};
pub use run::{CheckPlace, CheckRunner, NotRun};
