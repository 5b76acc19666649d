//! Teams, tasks, messages, heartbeats and the journal, behind one trait.
//!
//! # How it works
//!
//! [`Store`] is what the rest of teamster sees: create, claim, complete, send, watch. Nothing above it knows whether
//! files, memory or a database answer.
//!
//! The rules (who may claim, what a failure costs, which mirror changes with which task) exist once, in `rules`,
//! written against [`Txn`]: one change of one team, made whole or not at all. A back end implements [`Backend`],
//! which opens such a change, and [`Read`], the plain reads; [`Store`] then follows by itself.
//!
//! - [`FileStore`] keeps the files that other programs know. A change is made under the team's lock, prepared as
//!   `.next` files, committed by one append to the journal, and finished by renames. Whoever holds the lock next
//!   finishes or undoes what a killed process left.
//! - `teamster-testkit` has a second one, which keeps everything in memory, and the one suite that every back end passes.
//!
//! # What it refuses
//!
//! A stale token changes nothing. A task is never taken from a worker that may still be alive. A link is never
//! followed. A file that cannot be understood is named, and hides no other.

pub mod backend;
pub mod clock;
mod error;
mod file;
mod folders;
mod listen;
pub mod rebuild;
mod rules;
mod store;
mod watch;

pub use backend::{Backend, Candidates, MailCursor, Position, Txn};
pub use clock::{Clock, SystemClock};
pub use error::{Kind, Result, StoreError};
pub use file::{FileStore, Settings, client_sessions, each_event, keep_journal};
pub use folders::Folders;
pub use listen::{Heard, Listen, Pulse};
pub use store::{
    ClaimRequest, Claimed, Damaged, DeletedTeam, Delivery, Filed, JournalPage, LostMerge, Merge,
    Outgoing, PlannedTask, Read, Reader, Recipient, Signal, Store, TaskList, TeamEntry,
};
pub use watch::{Change, Watch};
