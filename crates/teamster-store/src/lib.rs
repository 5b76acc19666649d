//! Teams, tasks, messages, heartbeats and the journal, behind one trait.
//!
//! # What it owns
//!
//! Everything durable about a team. In files that is `teams/{team}` (registry, journal, mailboxes, stop signals),
//! `tasks/{team}` (one file for each task, its record of failures, the locks, the index), and the heartbeats of its
//! workers. In teamster only this crate changes their contents; `teamster-gc` moves whole folders of dead teams to the
//! trash, under the same lock. Other programs write there, above all Claude Code, so their formats and their locks are
//! respected.
//!
//! # How it works
//!
//! [`Store`] is what the rest of teamster sees: create, claim, complete, send, watch. Nothing above it knows whether files,
//! memory or a database answer.
//!
//! The rules (who may claim, what a failure costs, that `blocks` and `blockedBy` of two tasks always match) exist once,
//! in `rules`, written against [`Txn`]: one change of one team, made whole or not at all. A back end implements
//! [`Backend`], which opens such a change, and [`ReadStore`], the plain reads; [`Store`] is then implemented for it.
//!
//! - [`FileStore`] keeps the files that other programs know. A change is made under the team's lock, prepared as
//!   `.next` files, committed by one append to the journal, and finished by renames. The next holder of the lock
//!   finishes or undoes what a killed process left. The module `file` describes the steps.
//! - `teamster-postgres` keeps teams in a database, for several machines.
//! - `teamster-testkit` has a back end that keeps everything in memory, and the suite that all three pass.
//!
//! The life of a claim:
//!
//! ```text
//! claim ──► in progress, with a token, a fence and a lease ──► complete, fail or release, with the token
//!                 │  ▲
//!                 │  └── renew, with the token: the lease starts again
//!                 ▼
//!           the lease ran out, or a supervisor asks: is the claim stale? ──► requeued, and one attempt is used up
//! ```
//!
//! # Where it is decided that a claim is stale
//!
//! In one pure function, `takeover` in the `transitions` of `teamster-types`, which `rules/claim.rs` calls with the
//! evidence: whether the claiming process is alive, whether its worker has a fresh heartbeat, and the time. A claim is
//! stale when its lease has expired, its process is gone and no heartbeat is fresh. Before the lease expires there are
//! two exceptions: a restarted worker gets its own task back by id, and a supervisor may requeue the task of a worker
//! that is proven dead (`requeue` in `rules/claim.rs`). Whether a lock file left by another claimer is stale is a
//! separate question, answered in `file/claim_lock.rs`.
//!
//! # What it refuses
//!
//! - A stale token changes nothing.
//! - A task is never taken from a worker that may still be alive, unless a person forces it (`task release --force`).
//! - A link is never followed, and no path leaves the team's folders.
//! - A file that cannot be parsed is reported and left as it is; the others are still read.
//! - A team in a newer format is read, and never changed.

pub mod backend;
mod error;
mod export;
mod export_format;
mod file;
pub mod rebuild;
mod rules;
mod store;
mod watch;

pub use backend::{Backend, Candidates, Clock, MailCursor, Position, SystemClock, Txn, TxnContext};
pub use error::{Result, StoreError, StoreErrorKind};
pub use export::{ExportedMailbox, MailLine, MailPlaces, TeamExport};
pub use export_format::{EXPORT_VERSION, mailbox_of};
pub use file::{FileStore, FileStoreSettings, client_sessions, each_event, keep_journal};
pub use store::{
    AcceptedProposal, ClaimRequest, Claimed, Damaged, DeletedTeam, Delivery, HostRight,
    JournalPage, KnownLog, LogPiece, LogRequest, LostMerge, OtherHost, OutgoingMessage,
    PlannedTask, ReadStore, Reader, Recipient, Signal, Store, StoredMessage, TaskList, TaskMerge,
    TeamChanges, TeamEntry, WorkLeft,
};
pub use watch::{Change, ChangeCounters, FolderWatcher, Listen, ListenerUpdate, Watch};
