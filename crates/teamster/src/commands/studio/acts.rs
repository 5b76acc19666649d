//! What the page does, done by the code of the commands.

use std::time::Duration;

use teamster_gc::zombies;
use teamster_journal::payload::GateAnswer;
use teamster_studio::api::{
    Answered, ApprovalAnswer, ApprovalWord, Changes, Diff, Log, Reaped, ReapedOne, Sent, StopWish,
    Stopping, WorkerEnd, Zombie, Zombies,
};
use teamster_studio::{FollowLog, Hands, Refused, TaskWork};
use teamster_types::{TaskId, TeamName, WorkerName};
use teamster_workers::shutdown::{EndKind, StoppedWorker};

use super::follow::Following;
use super::{changes, log};
use crate::commands::shutdown::{Asked, end_workers};
use crate::commands::worker::{Named, WorkerArg};
use crate::commands::{gate, message, zombies as left_over};
use crate::context::Context;
use crate::error::CommandError;
use crate::output::Output;

/// How long workers have to end by themselves, as for the commands.
const DEADLINE: Duration = Duration::from_secs(60);
/// The same for those who may finish their task first.
const DRAIN_DEADLINE: Duration = Duration::from_secs(600);

/// The hands of Studio. Each call begins as a command does: with a look at where things are and at the settings.
pub(super) struct Acts;

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        Self {
            kind: error.kind_word(),
            message: error.message().to_owned(),
            hint: error.advice().map(str::to_owned),
        }
    }
}

/// What a command works with. Remarks to a terminal are left out.
fn context() -> Result<Context, Refused> {
    Ok(Context::find_checked(Output::new(true))?)
}

/// The same for what stops something, with any settings.
fn context_to_stop() -> Result<Context, Refused> {
    Ok(Context::find_to_stop(Output::new(true))?)
}

/// A worker of a team, or an error that names those there are.
pub(super) fn named(context: &Context, team: &TeamName, worker: &str) -> Result<Named, Refused> {
    Ok(WorkerArg::of(team, worker).find(context)?)
}

fn stop(
    context: &Context,
    team: &TeamName,
    only: Option<WorkerName>,
    wish: &StopWish,
) -> Result<Stopping, Refused> {
    let ends = end_workers(
        context,
        Asked {
            team: team.clone(),
            only,
            drain: wish.drain,
            force: wish.force,
            deadline: if wish.drain { DRAIN_DEADLINE } else { DEADLINE },
        },
    )?;
    Ok(Stopping {
        verified: ends.iter().all(|end| end.how != EndKind::Alive),
        workers: ends.iter().map(ended).collect(),
    })
}

fn ended(end: &StoppedWorker) -> WorkerEnd {
    WorkerEnd {
        worker: end.worker.to_string(),
        how: end.how.as_str().to_owned(),
        note: end.note.clone(),
    }
}

fn zombie(found: &zombies::Zombie) -> Zombie {
    Zombie {
        kind: found.kind.as_str().to_owned(),
        name: found.name.clone(),
        team: found.team.clone(),
        age: found.age.as_secs(),
        evidence: found.evidence.clone(),
        action: found.action.as_str().to_owned(),
        command: found.command.clone(),
    }
}

impl Hands for Acts {
    fn send(&self, team: &TeamName, to: &str, text: &str) -> Result<Sent, Refused> {
        let context = context()?;
        let from = context.identity.sender(None, to == "lead")?;
        let (_, sent) = message::deliver(&context, team, from, to, text.to_owned())?;
        Ok(Sent {
            ids: sent.iter().map(|message| message.id().to_owned()).collect(),
        })
    }

    fn stop(&self, team: &TeamName, worker: &str, wish: &StopWish) -> Result<Stopping, Refused> {
        let context = context_to_stop()?;
        let worker = named(&context, team, worker)?.worker;
        stop(&context, team, Some(worker), wish)
    }

    fn drain(&self, team: &TeamName, wish: &StopWish) -> Result<Stopping, Refused> {
        let wish = StopWish {
            drain: !wish.force,
            ..wish.clone()
        };
        stop(&context_to_stop()?, team, None, &wish)
    }

    fn answer(&self, team: &TeamName, given: &ApprovalAnswer) -> Result<Answered, Refused> {
        let context = match given.answer {
            ApprovalWord::Reject => context_to_stop()?,
            ApprovalWord::Approve | ApprovalWord::Revise => context()?,
        };
        let answer = match given.answer {
            ApprovalWord::Approve => GateAnswer::Approve,
            ApprovalWord::Reject => GateAnswer::Reject {
                rollback: given.rollback,
                text: given.text.clone(),
            },
            ApprovalWord::Revise if given.text.trim().is_empty() => {
                return Err(CommandError::usage("what is to be changed?").into());
            }
            ApprovalWord::Revise => GateAnswer::Revise {
                text: given.text.clone(),
            },
        };
        let seen = (given.gate.as_str(), given.commit.as_str());
        let seq = gate::from_elsewhere(&context, team, seen, &answer, "studio")?;
        Ok(Answered { seq })
    }

    fn zombies(&self) -> Result<Zombies, Refused> {
        let found = left_over::find(&context_to_stop()?, zombies::TTL)?;
        Ok(Zombies {
            zombies: found.iter().map(zombie).collect(),
        })
    }

    fn reap(&self, dry_run: bool) -> Result<Reaped, Refused> {
        // Processes are never ended from a page: only `zombies reap --kill` does that.
        let outcome = left_over::remove(
            &context_to_stop()?,
            zombies::TTL,
            zombies::ReapOptions {
                dry_run,
                kill: false,
            },
        )?;
        Ok(Reaped {
            zombies: outcome
                .zombies
                .iter()
                .map(|done| ReapedOne {
                    zombie: zombie(&done.zombie),
                    reaped: done.reaped,
                    problem: done.problem.clone(),
                })
                .collect(),
            dry_run,
        })
    }

    fn log(
        &self,
        team: &TeamName,
        worker: &str,
        task: Option<&TaskId>,
        after: u64,
    ) -> Result<Log, Refused> {
        let context = context()?;
        let named = named(&context, team, worker)?;
        Ok(log::read(&named, task, after)?)
    }

    fn follow_log(
        &self,
        team: &TeamName,
        worker: &str,
        task: Option<&TaskId>,
        after: Option<&str>,
    ) -> Result<Box<dyn FollowLog>, Refused> {
        let named = named(&context()?, team, worker)?;
        Ok(Box::new(Following::new(named, task, after)))
    }

    fn changes(&self, team: &TeamName) -> Result<Changes, Refused> {
        changes::list(&context()?, team)
    }

    fn diff(&self, team: &TeamName, branch: &str, path: Option<&str>) -> Result<Diff, Refused> {
        changes::diff(&context()?, team, branch, path)
    }

    fn task_diff(
        &self,
        team: &TeamName,
        work: &TaskWork,
        path: Option<&str>,
    ) -> Result<Diff, Refused> {
        changes::of_task(&context()?, team, work, path)
    }
}
