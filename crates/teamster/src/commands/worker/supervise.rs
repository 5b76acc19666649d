//! Implements `teamster worker supervise`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::workers;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, Lock, LockWait, layout};
use teamster_store::StoreErrorKind;
use teamster_types::TeamName;
use teamster_workers::alerts::EndAlerts;
use teamster_workers::launch::{self, Launcher};
use teamster_workers::record;
use teamster_workers::supervise::{MOST_RESTARTS, Supervisor, SupervisorFinding};

use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::display_line;

/// The poll interval: a dead worker is noticed within the maximum age of a heartbeat plus this.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Keep a team's workers running: replace dead ones and restart hung ones
///
/// A worker that keeps exiting is restarted at most 3 times, with growing pauses, and then left to you. Only one process
/// supervises a team.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker supervise   # until Ctrl-C
  teamster worker supervise --once")]
pub struct WorkerSuperviseArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Check once, do what is needed, and exit
    #[arg(long)]
    once: bool,
}

impl WorkerSuperviseArgs {
    pub fn run(self, context: &Context) -> Result {
        context
            .actor
            .must_be_person("supervising a team's workers")?;
        let team = self.team.find(context)?;
        let _host = hold(context, &team)?;
        let project = workers::project_of(context, &team)?;
        let dir = Dir::open_or_create_root(&project)?;
        let machine = Machine::read();
        let teamster = launch::own_program();
        let launcher = Launcher {
            store: context.read()?,
            project: &project,
            teamster: &teamster,
            tmux: workers::tmux(&project),
            setup: workers::setup_time(context, &project),
            address: context.store_address()?,
        };
        let known = record::all(&dir, &team)?.len();
        let mut supervisor = Supervisor::new(
            context.store()?,
            &machine,
            &dir,
            &launcher,
            context.config.limits(),
            EndAlerts::below(&context.layout.claude),
            team,
        );
        if !self.once {
            let text = format!("supervising {} workers of team {}", known, supervisor.team);
            context
                .out
                .answer(|| json!({ "workers": known }), || format!("{text}\n"))?;
        }
        loop {
            let found = match supervisor.check_workers() {
                Ok(found) => found,
                // A full disk or a busy store may recover by the next poll; a missing team does not.
                Err(error) if !self.once && error.kind != StoreErrorKind::NotFound => {
                    context
                        .out
                        .remark(&format!("cannot check the workers: {error}"));
                    Vec::new()
                }
                Err(error) => return Err(error.into()),
            };
            for found in found {
                let (worker, what) = finding_text(&found);
                context.out.answer(
                    || json!({ "worker": worker, "what": what }),
                    || format!("{worker}: {}\n", display_line(&what)),
                )?;
            }
            if self.once && !supervisor.is_in_doubt() {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Takes the lock of the team's supervisor.
fn hold(context: &Context, team: &TeamName) -> Result<Lock> {
    let folder = workers::team_folder(context, team)?;
    match Lock::wait(&folder, layout::HOST_LOCK, Duration::ZERO, false)? {
        LockWait::Held(lock) => Ok(lock),
        LockWait::TimedOut => Err(AppError::new(
            ErrorKind::Conflict,
            format!("team {team} is already supervised"),
        )
        .hint("`teamster status` shows its host")),
    }
}

fn finding_text(found: &SupervisorFinding) -> (String, String) {
    match found {
        SupervisorFinding::Verdict(worker, verdict, why) => {
            (worker.to_string(), format!("{verdict}: {why}"))
        }
        SupervisorFinding::Restarted(worker, times) => (
            worker.to_string(),
            format!("restarted ({times} of {MOST_RESTARTS})"),
        ),
        SupervisorFinding::NotRestarted(worker, why) => {
            (worker.to_string(), format!("could not be restarted: {why}"))
        }
        SupervisorFinding::GivenUp(worker) => (
            worker.to_string(),
            format!(
                "was restarted {MOST_RESTARTS} times and exited again; `teamster worker start` starts it"
            ),
        ),
    }
}
