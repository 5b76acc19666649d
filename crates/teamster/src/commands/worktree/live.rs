//! Whether somebody is at work in a worktree. Liveness is never inferred from a missing file.

use std::time::Duration;

use teamster_fs::{Dir, Lock, Waited, layout, proc};
use teamster_isolate::git::{Listed, Listing};
use teamster_types::health::Verdict;
use teamster_types::{TeamName, WorkerName};
use teamster_view::workers::{self, WorkerRow};

use crate::context::Context;
use crate::error::Result;

/// What is known about the workers of one team.
pub(super) struct Live {
    rows: Vec<WorkerRow>,
    team: Option<Dir>,
}

impl Live {
    /// Looks at the registry and the heartbeats. A team that is gone has no workers.
    pub(super) fn of(context: &Context, team: &TeamName) -> Result<Self> {
        let folder = match Dir::open_root(&context.layout.claude)? {
            Some(root) => match root.child(layout::TEAMS)? {
                Some(teams) => teams.child(team.as_str())?,
                None => None,
            },
            None => None,
        };
        let rows = match &folder {
            Some(_) => {
                let read = context.read()?;
                let config = read.team(team)?;
                workers::list(read, team, &config, &context.config.limits())?.rows
            }
            None => Vec::new(),
        };
        Ok(Self { rows, team: folder })
    }

    /// Why a worktree is said to be in use; `None` when nothing speaks for it.
    pub(super) fn why(&self, listed: &Listed) -> Option<String> {
        match &listed.listing {
            Listing::Worker(worker) => self.worker(worker),
            Listing::Integration | Listing::Checks if self.team.is_some() => {
                Some("its team is still there".to_owned())
            }
            _ => None,
        }
        .or_else(|| at_work(listed))
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

fn at_work(listed: &Listed) -> Option<String> {
    let pids = proc::at_work_in(&listed.path)?;
    let pid = pids.first()?;
    Some(format!("process {pid} is at work in it"))
}
