//! Worktrees of workers: which of them have no unsaved work, and which are in use.
//!
//! A worktree is removed when it is clean, all its commits are elsewhere, and it is not in use. A missing file is never
//! taken as proof that it is unused: a team that is not in this home's store may be in another one.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, Lock, LockWait, layout, proc, team_store};
use teamster_isolate::git::{
    self, Git, GitError, ListedWorktree, Removal, Repo, WorktreeKind, WorktreeState,
};
use teamster_store::{FileStore, FileStoreSettings, ReadStore, SystemClock};
use teamster_types::health::{Limits, Verdict};
use teamster_types::{TeamName, WorkerName};
use teamster_view::workers::{self, WorkerRow};

use crate::Result;
use crate::shell;

/// The reason why everything that a run may need is kept while one is active.
pub(crate) const RUN_GOES_ON: &str = "a run is going on in this project";

/// The project to clean up, and how its store is read.
#[derive(Clone, Debug)]
pub struct ProjectGc<'a> {
    /// Where the project and the store are.
    pub layout: &'a Layout,
    /// Holds `PATH`, in which git is looked for.
    pub path: OsString,
    /// How the store is opened.
    pub settings: FileStoreSettings,
    /// The limits for judging the health of workers.
    pub limits: Limits,
}

/// A worktree, and whether it is in use.
#[derive(Debug)]
pub struct WorktreeStatus {
    /// What git knows about it.
    pub listed: ListedWorktree,
    /// Why it counts as in use; `None` when nothing indicates that it is.
    pub in_use: Option<String>,
}

impl ProjectGc<'_> {
    /// Opens the repository of the project.
    pub fn repo(&self) -> Result<Repo, GitError> {
        let git = Git::find(&self.path)?;
        Ok(Repo::find(&git, &self.layout.project)?.repo)
    }

    /// Returns the worktrees of one team, or of all teams.
    pub fn worktrees(&self, repo: &Repo, team: Option<&str>) -> Result<Vec<WorktreeStatus>> {
        let teams: Vec<TeamName> = match team {
            Some(name) => vec![name.parse()?],
            None => git::teams(repo)?,
        };
        let mut found = Vec::new();
        for team in teams {
            let workers = TeamWorkers::read(self, &team)?;
            for listed in git::list(repo, &team)? {
                found.push(WorktreeStatus {
                    in_use: workers.use_of(&listed),
                    listed,
                });
            }
        }
        Ok(found)
    }

    /// Removes the worktree of this name if it has no unsaved work and is not in use; otherwise returns why it is kept.
    /// With `dry_run` nothing is removed.
    pub(crate) fn remove_worktree(
        &self,
        repo: &Repo,
        team: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<Option<String>> {
        let all = self.worktrees(repo, Some(team))?;
        let Some(found) = all.into_iter().find(|found| found.listed.name == name) else {
            return Ok(Some("git does not know it".to_owned()));
        };
        Ok(match found.kept_because() {
            Some(why) => Some(why),
            None if dry_run => None,
            None => match found.remove(repo)? {
                Removal::Removed => None,
                Removal::Kept { why } => Some(why),
            },
        })
    }

    /// Opens the store of a home folder for reading.
    pub(crate) fn store(&self, layout: &Layout) -> Result<FileStore> {
        Ok(FileStore::open(
            layout,
            Arc::new(SystemClock),
            self.settings,
        )?)
    }
}

impl WorktreeStatus {
    /// Returns why the worktree is kept; `None` when it can be removed.
    pub fn kept_because(&self) -> Option<String> {
        self.in_use.clone().or_else(|| self.listed.holds())
    }

    /// Removes the worktree if it still has no unsaved work. No run can start in the project while a run's worktree is
    /// being removed.
    pub fn remove(&self, repo: &Repo) -> Result<Removal> {
        let mut held = None;
        if matches!(
            self.listed.kind,
            WorktreeKind::Integration | WorktreeKind::Checks
        ) {
            held = team_store::block_new_runs(repo.project())?;
            if held.is_none() {
                let why = RUN_GOES_ON.to_owned();
                return Ok(Removal::Kept { why });
            }
        }
        let removal = self.listed.remove_if_safe(repo);
        drop(held);
        Ok(removal?)
    }

    /// Returns the shell command that removes the worktree anyway. A process that uses it has to be stopped first.
    pub fn removal_command(&self) -> String {
        let listed = &self.listed;
        let path = shell::word(&listed.path.to_string_lossy());
        let branch = listed.branch.as_deref().map(shell::word);
        let branch = branch.map(|branch| format!("git branch -D {branch}"));
        match (&listed.kind, &listed.state) {
            (WorktreeKind::Foreign, _) => format!("rm -r -- {path}"),
            (_, WorktreeState::Gone) => branch.unwrap_or_else(|| "git worktree prune".to_owned()),
            _ => {
                let remove = format!("git worktree remove --force {path}");
                branch.map_or(remove.clone(), |branch| format!("{remove} && {branch}"))
            }
        }
    }
}

/// What is known about the workers of one team.
struct TeamWorkers {
    rows: Vec<WorkerRow>,
    /// The team's folder, in the store that the team is kept in.
    team: Option<Dir>,
    /// The store that the team is kept in, if it is not this home's.
    store: Option<PathBuf>,
    /// Whether an active run in the project may be this team's.
    is_run: bool,
}

impl TeamWorkers {
    /// Reads the registry and the heartbeats, from the store recorded in the project if the team is not in this home's.
    /// A removed team has no workers.
    fn read(gc: &ProjectGc<'_>, team: &TeamName) -> Result<Self> {
        let ours = gc.layout;
        if let Some(folder) = team_folder(ours, team)? {
            return Ok(Self {
                rows: rows(&gc.store(ours)?, gc, team)?,
                team: Some(folder),
                store: None,
                is_run: false,
            });
        }
        let mut found = Self {
            rows: Vec::new(),
            team: None,
            store: team_store::other_store(&ours.project, team, &ours.claude),
            is_run: team_store::may_be_run(&ours.project, team, &ours.claude),
        };
        if let Some(store) = found.store.clone() {
            let theirs = Layout {
                claude: store,
                ..ours.clone()
            };
            // Another user's store cannot be read; then everything of the team is kept.
            found.team = team_folder(&theirs, team).ok().flatten();
            if found.team.is_some() {
                found.rows = rows(&gc.store(&theirs)?, gc, team)?;
            }
        }
        Ok(found)
    }

    /// Returns why a worktree counts as in use; `None` when nothing indicates that it is.
    fn use_of(&self, listed: &ListedWorktree) -> Option<String> {
        let why = match &listed.kind {
            WorktreeKind::Worker(worker) => self.worker(worker),
            WorktreeKind::Integration | WorktreeKind::Checks if self.team.is_some() => {
                Some("its team is still there".to_owned())
            }
            _ => None,
        };
        match (why, &self.store) {
            (None, Some(store)) if self.team.is_none() => Some(format!(
                "its team lives in {}, which cannot be read",
                store.display()
            )),
            (Some(why), Some(store)) => Some(format!("{why} (in {})", store.display())),
            (Some(why), None) => Some(why),
            (None, _) if self.is_run && is_of_a_run(listed) => Some(RUN_GOES_ON.to_owned()),
            (None, _) => process_in(listed),
        }
    }

    fn worker(&self, worker: &WorkerName) -> Option<String> {
        let row = self.rows.iter().find(|row| row.name == worker.as_str());
        if let Some(row) = row.filter(|row| {
            row.status.is_some() && !row.has_stopped() && row.verdict != Verdict::Dead
        }) {
            let evidence = row.evidence.join(", ");
            return Some(format!(
                "its worker is {}: {evidence}",
                row.verdict.as_str()
            ));
        }
        let team = self.team.as_ref()?;
        let lock = layout::bridge_lock(worker);
        // Checking must not create the file.
        team.stamp(&lock).ok()??;
        match Lock::wait(team, &lock, Duration::ZERO, true) {
            Ok(LockWait::Held(_)) => None,
            Ok(LockWait::TimedOut) => Some("its bridge is running".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Returns whether a run may need the worktree.
fn is_of_a_run(listed: &ListedWorktree) -> bool {
    matches!(
        listed.kind,
        WorktreeKind::Worker(_) | WorktreeKind::Integration | WorktreeKind::Checks
    )
}

/// Opens the folder of a team in a store.
fn team_folder(layout: &Layout, team: &TeamName) -> Result<Option<Dir>> {
    Ok(Dir::open_at(
        &layout.claude,
        &[layout::TEAMS, team.as_str()],
    )?)
}

fn rows(store: &FileStore, gc: &ProjectGc<'_>, team: &TeamName) -> Result<Vec<WorkerRow>> {
    let config = store.team(team)?;
    Ok(workers::list(store, team, &config, &gc.limits)?.rows)
}

/// Names a process that is in the worktree, or was started with its path.
fn process_in(listed: &ListedWorktree) -> Option<String> {
    let pids = proc::processes_in(&listed.path)?;
    let pid = pids.first()?;
    Some(format!("process {pid} is at work in it"))
}
