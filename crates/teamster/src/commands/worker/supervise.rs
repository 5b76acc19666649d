//! Implements `teamster worker supervise`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_app::workers;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, Lock, Waited, layout};
use teamster_store::Kind;
use teamster_types::TeamName;
use teamster_workers::alerts::EndAlerts;
use teamster_workers::launch::{self, Launcher};
use teamster_workers::record;
use teamster_workers::supervise::{MOST_RESTARTS, Supervisor, SupervisorFinding};

use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::viewed_line;

/// Workers are looked at this often: a dead one is seen within the age of its last heartbeat and this.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Keep a team's workers alive: replace the dead, start the hung anew
///
/// A worker that ends again and again is started anew at most 3 times, with growing pauses, and then left to a person.
/// Only one process does this for a team.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker supervise   # until Ctrl-C
  teamster worker supervise --once")]
pub struct WorkerSuperviseArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Look once, do what is to be done, and end
    #[arg(long)]
    once: bool,
}

impl WorkerSuperviseArgs {
    pub fn run(self, context: &Context) -> Result {
        context
            .actor
            .must_be_person("looking after a team's workers")?;
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
            let text = format!("looks after {} workers of team {}", known, supervisor.team);
            context
                .out
                .answer(|| json!({ "workers": known }), || format!("{text}\n"))?;
        }
        loop {
            let found = match supervisor.look() {
                Ok(found) => found,
                // A disk that is full or a store that is busy now may be well at the next look; a team that is gone is not.
                Err(error) if !self.once && error.kind != Kind::NotFound => {
                    context.out.remark(&format!("cannot look: {error}"));
                    Vec::new()
                }
                Err(error) => return Err(error.into()),
            };
            for found in found {
                let (worker, what) = say(&found);
                context.out.answer(
                    || json!({ "worker": worker, "what": what }),
                    || format!("{worker}: {}\n", viewed_line(&what)),
                )?;
            }
            if self.once && !supervisor.is_in_doubt() {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Takes the lock of the process that supervises the team.
fn hold(context: &Context, team: &TeamName) -> Result<Lock> {
    let folder = workers::team_folder(context, team)?;
    match Lock::wait(&folder, layout::HOST_LOCK, Duration::ZERO, false)? {
        Waited::Held(lock) => Ok(lock),
        Waited::TimedOut => Err(AppError::new(
            ErrorKind::Conflict,
            format!("somebody looks after team {team} already"),
        )
        .hint("`teamster status` shows its host")),
    }
}

fn say(found: &SupervisorFinding) -> (String, String) {
    match found {
        SupervisorFinding::Verdict(worker, verdict, why) => {
            (worker.to_string(), format!("{verdict}: {why}"))
        }
        SupervisorFinding::Restarted(worker, times) => (
            worker.to_string(),
            format!("started anew ({times} of {MOST_RESTARTS})"),
        ),
        SupervisorFinding::NotRestarted(worker, why) => (
            worker.to_string(),
            format!("could not be started anew: {why}"),
        ),
        SupervisorFinding::GivenUp(worker) => (
            worker.to_string(),
            format!(
                "was started anew {MOST_RESTARTS} times and ended again; `teamster worker start` starts it"
            ),
        ),
    }
}
