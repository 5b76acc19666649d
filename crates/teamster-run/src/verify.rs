//! Whether the work holds: which commands prove it, what they say, and what of that the team has to answer for.
//!
//! [`detect()`] finds the checks that a project's own files show. A [`Verifier`] runs one of them to its end and leaves
//! no process behind. [`charge()`] compares what it said with what the same command said before the work began.
//!
//! A check that fails is run once more at once. One that passes then is flaky: it is told as that, and never as passed.

mod charge;
mod detect;
mod environment;
mod output;
mod run;

pub use charge::{Charge, charge};
pub use detect::{Detected, Skipped, detect};
pub use run::{NotRun, Place, Verifier};
