//! The store in plain files, which it shares with other programs that know their formats.
//!
//! A change of a team takes these steps, under the team's lock:
//!
//! 1. the lock's note records what is about to be touched (`note`);
//! 2. lock folders keep Claude Code out of the task files in question (`folder_lock`), and `{id}.lock` keeps other
//!    claimers out of a task that is being claimed (`claim_lock`);
//! 3. new contents are written and synced as `.{name}.{seq}.next` (`commit`);
//! 4. the event is appended to the journal and synced: **this is the commit**;
//! 5. the `.next` files are renamed, the locks are released, and the note is marked clean.
//!
//! A killed process leaves a note that is not clean. The next holder of the lock finishes what was committed and
//! removes what was not (`recover`).
//!
//! A message is different: its line in the mailbox is the commit, synced, and carries the position of its event. The
//! next holder writes the event if it is missing.

mod claim_lock;
mod commit;
mod damaged_lines;
mod event_outline;
mod folder_lock;
mod heartbeat;
mod held_team;
mod index;
mod journal;
mod last_events;
mod listen;
mod mailbox;
mod native;
mod note;
mod pages;
#[cfg(test)]
mod pages_tests;
mod read;
mod record;
mod recover;
mod rescan;
mod staged;
mod team;
mod transfer;
mod txn;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, Durability, Stamp, layout};
use teamster_journal::EventActor;
use teamster_types::TeamName;
use teamster_types::paths::Reservations;
use teamster_types::process::ProcessId;
use teamster_types::team::{NewTeam, SCHEMA, TeamConfig};

use crate::backend::{Backend, Clock, Txn};
use crate::error::{Result, StoreError};
use crate::export::TeamExport;
use crate::store::DeletedTeam;
use held_team::HeldTeam;
pub use native::client_sessions;
pub use pages::each_event;
pub use team::keep_journal;
use txn::FileTxn;

/// How a file store behaves.
#[derive(Clone, Copy, Debug)]
pub struct FileStoreSettings {
    /// How long a claim lasts.
    pub lease: Duration,
    /// Whether a change must be synced to disk before it counts.
    pub sync: Durability,
    /// How long to wait for locks.
    pub patience: Duration,
    /// How tasks with overlapping paths are handled.
    pub reservations: Reservations,
}

impl Default for FileStoreSettings {
    fn default() -> Self {
        Self {
            lease: teamster_types::transitions::LEASE,
            sync: Durability::Durable,
            patience: Duration::from_secs(5),
            reservations: Reservations::default(),
        }
    }
}

/// Teams in files below the Claude folder.
pub struct FileStore {
    claude: PathBuf,
    clock: Arc<dyn Clock>,
    machine: Machine,
    /// The process in whose name tasks are claimed.
    me: ProcessId,
    settings: FileStoreSettings,
    /// The project of the team that was read last, with the stamp of the configuration it came from.
    project: Mutex<Option<(TeamName, Stamp, Option<String>)>>,
    /// A team whose format was checked, with the stamp of its configuration at that time.
    known_format: Mutex<Option<(TeamName, Stamp)>>,
    /// A cache of the last events by type.
    known: last_events::LastEvents,
    /// A cache of the places where readers of journals stopped.
    places: pages::ReadPlaces,
    /// A cache of journal lines that are not events.
    damage: damaged_lines::DamagedLines,
}

impl FileStore {
    /// Opens a store at the roots of `layout`. Nothing is created or changed before the first transaction.
    pub fn open(
        layout: &Layout,
        clock: Arc<dyn Clock>,
        settings: FileStoreSettings,
    ) -> Result<Self> {
        let machine = Machine::read();
        Ok(Self {
            claude: layout.claude.clone(),
            clock,
            me: machine.me().clone(),
            machine,
            settings,
            project: Mutex::new(None),
            known_format: Mutex::new(None),
            known: last_events::LastEvents::default(),
            places: pages::ReadPlaces::default(),
            damage: damaged_lines::DamagedLines::default(),
        })
    }

    /// Returns the same store, claiming in the name of another process, so that a test can simulate a dead process.
    #[must_use]
    pub fn claiming_as(self, me: ProcessId) -> Self {
        Self { me, ..self }
    }

    /// Returns the two folders of a team.
    fn folders(&self, team: &TeamName) -> Result<TeamFolders> {
        let root = Dir::open_root(&self.claude)?.ok_or_else(|| no_team(team))?;
        let teams = root.child(layout::TEAMS)?.ok_or_else(|| no_team(team))?;
        let folder = teams.child(team.as_str())?.ok_or_else(|| no_team(team))?;
        let all_tasks = root.child_or_create(layout::TASKS)?;
        let tasks = all_tasks.child_or_create(team.as_str())?;
        Ok(TeamFolders {
            team: folder,
            tasks,
            teams,
            all_tasks,
        })
    }

    /// Refuses to change a team in a newer format: this version would damage it.
    fn refuse_newer(&self, team: &TeamName, folder: &Dir) -> Result<()> {
        let Some(stamp) = folder.stamp(layout::CONFIG)? else {
            return Ok(());
        };
        let known = || {
            self.known_format
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if matches!(&*known(), Some((name, seen)) if name == team && *seen == stamp) {
            return Ok(());
        }
        // An unreadable file is reported by the code that needs it.
        let read = folder.read(layout::CONFIG).ok().flatten();
        let schema = read.and_then(|(bytes, _)| TeamConfig::schema_of(&bytes));
        if let Some(newer) = schema.filter(|schema| *schema > SCHEMA) {
            return Err(StoreError::refused(format!(
                "team {team} uses a newer format ({newer}) than this teamster supports ({SCHEMA}); nothing was changed"
            ))
            .hint("use the newer teamster that wrote it"));
        }
        *known() = Some((team.clone(), stamp));
        Ok(())
    }

    /// Returns a team's own folder for reading; creates nothing.
    fn folder_to_read(&self, team: &TeamName) -> Result<Dir> {
        let root = Dir::open_root(&self.claude)?.ok_or_else(|| no_team(team))?;
        let folder = root.descend(&[layout::TEAMS, team.as_str()])?;
        folder.ok_or_else(|| no_team(team))
    }

    /// Returns the folder of a team's tasks for reading; `None` when the team has none yet.
    fn tasks_to_read(&self, team: &TeamName) -> Result<Option<Dir>> {
        let root = Dir::open_root(&self.claude)?.ok_or_else(|| no_team(team))?;
        let tasks = root.descend(&[layout::TASKS, team.as_str()])?;
        // A removed team may have left its tasks behind.
        let folder = root.descend(&[layout::TEAMS, team.as_str()])?;
        folder.map(|_| tasks).ok_or_else(|| no_team(team))
    }

    fn attempt(
        &self,
        team: &TeamName,
        what: &'static str,
        patience: Duration,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64> {
        let held = HeldTeam::take(self, team, what, patience)?;
        let mut txn = FileTxn::new(self, team, held);
        match change(&mut txn) {
            Ok(()) => txn.commit(),
            Err(error) => {
                txn.abandon();
                Err(error)
            }
        }
    }
}

/// The open folders of one team.
struct TeamFolders {
    /// The team's own folder, `teams/{team}`.
    team: Dir,
    /// The folder of the team's tasks, `tasks/{team}`.
    tasks: Dir,
    /// The folder of all teams, `teams`.
    teams: Dir,
    /// The folder of the tasks of all teams, `tasks`.
    all_tasks: Dir,
}

impl TeamFolders {
    /// Returns whether the open folders still belong to the team: it may have been removed, or removed and created
    /// again.
    fn are_current(&self, team: &TeamName) -> Result<bool> {
        for (parent, folder) in [(&self.teams, &self.team), (&self.all_tasks, &self.tasks)] {
            let there = parent.stamp(team.as_str())?.map(|stamp| stamp.inode);
            if there != Some(folder.own_stamp()?.inode) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Backend for FileStore {
    fn change(
        &self,
        team: &TeamName,
        what: &'static str,
        change: &mut dyn FnMut(&mut dyn Txn) -> Result<()>,
    ) -> Result<u64> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            let left = self.settings.patience.saturating_sub(start.elapsed());
            match self.attempt(team, what, left, change) {
                // The team's lock is not held during this wait for a foreign lock, so that other teamster processes can
                // go on.
                Err(error) if error.busy && !left.is_zero() => {
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
                other => return other,
            }
        }
    }

    fn new_team(&self, new: &NewTeam, base: Option<&str>) -> Result<TeamConfig> {
        team::create(self, new, base)
    }

    fn drop_team(&self, team: &TeamName, actor: &EventActor, force: bool) -> Result<DeletedTeam> {
        team::delete(self, team, actor, force)
    }

    fn snapshot_team(&self, team: &TeamName) -> Result<TeamExport> {
        transfer::export(self, team)
    }

    fn restore_team(&self, export: &TeamExport) -> Result<()> {
        transfer::import(self, export)
    }
}

fn no_team(team: &TeamName) -> StoreError {
    StoreError::not_found(format!("there is no team {team}")).hint(format!(
        "`teamster team list` shows the teams; `teamster team create {team}` creates it"
    ))
}
