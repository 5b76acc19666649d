//! Shared code for the tests of several crates. It is not part of any release.
//!
//! # What it owns
//!
//! - [`scratch`]: a folder for one test, in memory if the machine supports it, stores in it, and a clock that only the
//!   test advances.
//! - [`wait`]: waiting for a condition, with a timeout and a message that says what never happened.
//! - [`MemStore`]: a store without a disk.
//! - [`postgres`]: a database server for tests.
//! - [`wire`]: a TCP forwarder between a client and its server, which a test can cut.
//! - [`conformance`]: the suite that every back end of the store passes.
//! - [`linear`]: a linearizability checker (Wing and Gong): is there an order of the operations, each between its start
//!   and its end, in which a sequential model gives the same answers?
//! - [`claims`]: that model for one task: claim, renew, complete, fail, release, retry.
//! - [`history`]: the operations of clients with their start and end times, and how to split them by task.
//! - [`drive`]: clients that make such histories on a real store.
//! - [`Dice`]: random-looking numbers that are the same in every run.
//! - [`recorded()`]: events with arbitrary payloads, complete or not.
//! - [`RunCmd`]: the arguments of a whole `teamster run …` call.
//! - [`skip()`]: the one rule for checks that need a missing tool.
//!
//! # How it works
//!
//! It uses only the public API of the store. [`wait`] waits for a condition instead of a fixed time; [`ManualClock`]
//! and [`Dice`] make time and chance the same in every run.
//!
//! # What it refuses
//!
//! A product crate may name it as a dev-dependency only. Where `CI` is set, [`skip()`] skips nothing: it returns an
//! error.

#![allow(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    reason = "tests make and remove their own files, and end in a panic when something is wrong"
)]

pub mod claims;
pub mod conformance;
// Clients die at fail points, which release builds do not have.
#[cfg(debug_assertions)]
pub mod drive;
pub mod history;
pub mod linear;
mod memory;
pub mod postgres;
mod run_cmd;
pub mod scratch;
pub mod wait;
pub mod wire;

use std::io::Write as _;

use serde_json::Value;
use teamster_journal::{EventKind, NewEvent};

pub use memory::MemStore;
pub use run_cmd::RunCmd;
pub use scratch::ManualClock;

/// Skips a check whose tool is missing: an error when `CI` is set, otherwise a note on stderr.
///
/// The note bypasses the test runner, which hides the output of passing tests.
pub fn skip(what: &str) -> Result<(), String> {
    let ci = std::env::var("CI").unwrap_or_default();
    if !matches!(ci.as_str(), "" | "0" | "false") {
        return Err(format!("with CI set, no check may be skipped: {what}"));
    }
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
    Ok(())
}

/// Returns an event of this kind with `data` unchanged, even if it does not match the kind's payload.
pub fn recorded(kind: &str, actor: &str, data: &Value) -> NewEvent {
    let data = data.as_object().cloned().unwrap_or_default();
    NewEvent::new(actor, EventKind::parse(kind, &data))
}

/// Random-looking numbers that are the same in every run with the same seed (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}
