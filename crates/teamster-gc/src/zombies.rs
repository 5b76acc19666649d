//! Abandoned teams, processes, panes and locks: how they are found, judged and removed.
//!
//! # How a team is judged
//!
//! A team is *old* when neither its registry (`createdAt`) nor any file in its two folders is younger than the
//! time-to-live. It is *alive* when anything says so: a recorded process that runs, a session of Claude Code, an open
//! pane, a fresh heartbeat, a claim whose lease has not expired, a lock in use, an unread message. Anything that cannot
//! be judged from here (a process on another machine, a pane whose server was not queried) counts as alive. Once its
//! lead is proven gone, an unread message keeps a team only until it is old.
//!
//! - A team that is old and has no sign of life is removed. A team that teamster created is removed only if its run has
//!   finished and no task is open; otherwise it stays, however old, because it can be resumed.
//! - A team of Claude Code is removed at any age once its lead is proven gone and every other member is proven stopped,
//!   unless a task is open, a message is unread, or a user has restored it from the trash.
//! - Every other team stays. If something about it is unusual or old, it is listed with the command that would remove
//!   it.
//!
//! # How it is removed
//!
//! Both folders are renamed into `.teamster-trash/{time}-{team}/` and stay there for seven days. A note in that folder
//! is written first, so that the next process can finish a move that was interrupted: a team ends up completely in its
//! place or completely in the trash. After the move the files are compared once more, and if they were changed
//! meanwhile the team is moved back. Only then is the removal reported.
//!
//! # What it refuses
//!
//! Without [`ReapOptions::kill`] it sends no signal, and a hook never sets that. With it, workers without a run are
//! ended if a complete record proves that they are teamster's, and so are the processes that a dead worker left
//! running; dead panes of teamster's own tmux server are closed. It follows no symbolic link, removes files of a team
//! only in `teams/{team}` and `tasks/{team}`, and touches nothing that belongs to another user.

mod folder;
mod heartbeats;
mod journal;
mod leftovers;
mod life_signs;
mod lock_files;
mod members;
mod panes;
mod processes;
mod reap;
mod restore;
mod scan;
mod scanner;
pub mod session_hooks;
mod trash;
mod verdict;

use std::time::Duration;

use serde::Serialize;
use teamster_types::phrase::Phrase;

pub use panes::{ListedPane, Panes, TmuxEnvironment, TmuxServer};
pub use reap::{ReapOptions, ReapReport, ReapResult, reap};
pub use restore::{Restored, restore};
pub use scan::scan;
pub use scanner::{ScanOptions, TimeBudget};
pub use session_hooks::{SweepReport, clean_up_at_session_end, sweep_at_session_start};

/// The default age from which a team counts as old.
pub const TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The kind of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ZombieKind {
    /// A team's files.
    Team,
    /// A worker: its process, or its leftover heartbeat.
    Worker,
    /// A worker's worktree.
    Worktree,
    /// A lock, a temp file or a partly created team of a dead process.
    Lock,
    /// A tmux pane.
    Pane,
}

impl ZombieKind {
    /// Returns its name in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::Worker => "worker",
            Self::Worktree => "worktree",
            Self::Lock => "lock",
            Self::Pane => "pane",
        }
    }
}

/// What `zombies reap` does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ZombieAction {
    /// `zombies reap` removes it.
    Reap,
    /// It stays.
    Keep,
}

impl ZombieAction {
    /// Returns its name in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reap => "reap",
            Self::Keep => "keep",
        }
    }
}

/// Something that is, or may be, left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zombie {
    /// The kind of leftover.
    pub kind: ZombieKind,
    /// Its name, which another program may have chosen freely.
    pub name: String,
    /// The team it belongs to.
    pub team: String,
    /// Its age in seconds.
    #[serde(serialize_with = "as_seconds")]
    pub age: Duration,
    /// The evidence for the verdict.
    pub evidence: Vec<Phrase>,
    /// What `zombies reap` does with it.
    pub action: ZombieAction,
    /// A shell command that removes it, or that notifies the lead about a teammate that has ended.
    pub command: String,
}

/// The command that removes everything that needs no confirmation by a user.
const REAP_COMMAND: &str = "teamster zombies reap";

/// Returns the command that removes a team that is old according to this time-to-live.
fn reap_command(ttl: Duration) -> String {
    if ttl == TTL {
        return REAP_COMMAND.to_owned();
    }
    let millis = ttl.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let whole = units
        .into_iter()
        .find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    let (unit, word) = whole.unwrap_or((1, "ms"));
    format!("{REAP_COMMAND} --ttl {}{word}", millis / unit)
}

/// The command that also ends teamster's abandoned processes and closes its dead panes, which only a user may request.
const REAP_AND_KILL: &str = "teamster zombies reap --kill";

fn as_seconds<S: serde::Serializer>(age: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(age.as_secs())
}
