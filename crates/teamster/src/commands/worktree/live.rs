//! Whether somebody is at work in a worktree. Liveness is never inferred from a missing file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use teamster_fs::layout::Layout;
use teamster_fs::{Dir, Lock, Waited, layout, proc, team_store};
use teamster_isolate::git::{Listed, Listing};
use teamster_store::{FileStore, Read, SystemClock};
use teamster_types::health::Verdict;
use teamster_types::{TeamName, WorkerName};
use teamster_view::workers::{self, WorkerRow};

use crate::context::Context;
use crate::error::Result;

/// Why everything that a run may need stays while one is going on.
pub(super) const RUN_GOES_ON: &str = "a run is going on in this project";

/// What is known about the workers of one team.
pub(super) struct Live {
    rows: Vec<WorkerRow>,
    /// Its folder, in whichever store it lives,
    team: Option<Dir>,
    /// and that store, where it is not ours.
    store: Option<PathBuf>,
    /// Whether a run is going on in the project that may be its.
    is_run: bool,
}

impl Live {
    /// Looks at the registry and the heartbeats, in the store that the project names if the team is not in ours. A team
    /// that is gone has no workers.
    pub(super) fn of(context: &Context, team: &TeamName) -> Result<Self> {
        let ours = &context.layout;
        if let Some(folder) = folder(ours, team)? {
            let rows = rows(context.read()?, context, team)?;
            return Ok(Self {
                rows,
                team: Some(folder),
                store: None,
                is_run: false,
            });
        }
        let mut live = Self {
            rows: Vec::new(),
            team: None,
            store: team_store::other_store(&ours.project, team, &ours.claude),
            is_run: team_store::may_be_run(&ours.project, team, &ours.claude),
        };
        if let Some(store) = live.store.clone() {
            let theirs = Layout {
                claude: store,
                ..ours.clone()
            };
            // A store of another user's cannot be read; then everything of the team stays.
            live.team = folder(&theirs, team).ok().flatten();
            let settings = context.config.store_settings();
            if live.team.is_some() {
                let read = FileStore::open(&theirs, Arc::new(SystemClock), settings)?;
                live.rows = rows(&read, context, team)?;
            }
        }
        Ok(live)
    }

    /// Why a worktree is said to be in use; `None` when nothing speaks for it.
    pub(super) fn why(&self, listed: &Listed) -> Option<String> {
        let why = match &listed.listing {
            Listing::Worker(worker) => self.worker(worker),
            Listing::Integration | Listing::Checks if self.team.is_some() => {
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
            (None, _) => at_work(listed),
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
        // Asking must not make the file.
        team.stamp(&lock).ok()??;
        match Lock::wait(team, &lock, Duration::ZERO, true) {
            Ok(Waited::Held(_)) => None,
            Ok(Waited::TimedOut) => Some("its bridge is running".to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Whether a run may need it.
fn is_of_a_run(listed: &Listed) -> bool {
    matches!(
        listed.listing,
        Listing::Worker(_) | Listing::Integration | Listing::Checks
    )
}

/// The folder of a team in a store.
fn folder(layout: &Layout, team: &TeamName) -> Result<Option<Dir>> {
    let Some(root) = Dir::open_root(&layout.claude)? else {
        return Ok(None);
    };
    Ok(match root.child(layout::TEAMS)? {
        Some(teams) => teams.child(team.as_str())?,
        None => None,
    })
}

fn rows(read: &dyn Read, context: &Context, team: &TeamName) -> Result<Vec<WorkerRow>> {
    let config = read.team(team)?;
    Ok(workers::list(read, team, &config, &context.config.limits())?.rows)
}

fn at_work(listed: &Listed) -> Option<String> {
    let pids = proc::at_work_in(&listed.path)?;
    let pid = pids.first()?;
    Some(format!("process {pid} is at work in it"))
}
