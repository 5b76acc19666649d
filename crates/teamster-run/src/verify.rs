//! Verification: which commands check the work, what they report, and which failures the team has to fix.
//!
//! [`detect()`] finds checks by the project's own files. A [`CheckRunner`] runs one of them to its end and leaves no
//! process behind. [`compare_with_base()`] compares its result with that of the same command before the work began.
//!
//! A check that fails is run once more at once. If it passes then, it is reported as flaky, never as passed.

mod detect;
mod environment;
mod output;
mod regression;
mod run;

pub use detect::{DetectedChecks, SkippedCheck, detect};
pub use regression::{RegressionReport, compare_with_base};
pub use run::{CheckNotRun, CheckPlace, CheckRunner};
