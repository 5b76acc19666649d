//! Executes commands from the page through the application layer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use teamster_app::permissions::{self, PermissionAnswer};
use teamster_app::plans::{self, PlanInput};
use teamster_app::questions::{self, Reply};
use teamster_app::workers::StopRequest;
use teamster_app::{App, diffs, gate, gc, logs, messages, workers};
use teamster_gc::zombies::{self, ReapOptions};
use teamster_journal::payload::GateAnswer;
use teamster_types::phrase::Phrase;
use teamster_types::{TeamName, WorkerName};
use teamster_workers::shutdown::{EndKind, StoppedWorker};

use super::StudioServer;
use super::handlers::{named, task_named, work_on};
use super::middleware::{answered, answered_whole};
use crate::api::{
    Answered, ApprovalAnswer, ApprovalWord, NewMessage, PermissionBody, PlanBody, PlanReplied,
    PlanWord, QuestionBody, QuestionReplied, ReapBody, Reaped, ReapedOne, RequestReplied, Sent,
    StopBody, Stopping, WorkerEnd, ZombieRow, Zombies,
};
use crate::error::ApiError;

/// How long workers have to stop by themselves, as on the command line.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long workers have that may finish their task first.
const DRAIN_DEADLINE: Duration = Duration::from_secs(600);

/// Opens the application for a request. As for a command, paths are resolved and the settings are read, which must be
/// valid.
pub(super) fn app() -> Result<App, ApiError> {
    let app = App::find_for_page()?;
    app.config.check()?;
    Ok(app)
}

/// Opens the application for a request that stops something, even with invalid settings.
fn app_to_stop() -> Result<App, ApiError> {
    Ok(App::find_for_page()?)
}

#[derive(Debug, Deserialize)]
pub(super) struct LogQuery {
    task: Option<String>,
    after: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiffQuery {
    path: Option<String>,
}

/// Stops workers, and returns how each ended.
fn stopping(
    app: &App,
    team: TeamName,
    only: Option<WorkerName>,
    request: &StopBody,
) -> Result<Stopping, ApiError> {
    let stop = StopRequest {
        team,
        only,
        drain: request.drain,
        force: request.force,
        deadline: if request.drain {
            DRAIN_DEADLINE
        } else {
            DEADLINE
        },
    };
    let ends = workers::stop(app, stop, &mut |_| {})?;
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

fn zombie(found: &zombies::Zombie) -> ZombieRow {
    ZombieRow {
        kind: found.kind.as_str().to_owned(),
        name: found.name.clone(),
        team: found.team.clone(),
        age: found.age.as_secs(),
        evidence: Phrase::texts(&found.evidence),
        evidence_codes: Phrase::keys(&found.evidence),
        action: found.action.as_str().to_owned(),
        command: found.command.clone(),
    }
}

/// Reads the body of a request.
pub(super) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::usage(format!("the request body is invalid: {error}")))
}

pub(super) async fn send(Path(key): Path<String>, bytes: Bytes) -> Response<Body> {
    answered(move || {
        let new: NewMessage = body(&bytes)?;
        let (team, app) = (named(&key)?, app()?);
        let from = app.actor.sender(None, new.to == messages::LEAD)?;
        let (_, sent) = messages::send(&app, &team, from, &new.to, new.text)?;
        Ok(Sent {
            ids: sent.iter().map(|message| message.id().to_owned()).collect(),
        })
    })
    .await
}

pub(super) async fn stop(
    Path((key, worker)): Path<(String, String)>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let request: StopBody = body(&bytes)?;
        let (team, app) = (named(&key)?, app_to_stop()?);
        let worker = workers::find(&app, team.clone(), &worker)?.worker;
        stopping(&app, team, Some(worker), &request)
    })
    .await
}

pub(super) async fn drain(Path(key): Path<String>, bytes: Bytes) -> Response<Body> {
    answered(move || {
        let request: StopBody = body(&bytes)?;
        let request = StopBody {
            drain: !request.force,
            ..request
        };
        stopping(&app_to_stop()?, named(&key)?, None, &request)
    })
    .await
}

pub(super) async fn approval(Path(key): Path<String>, bytes: Bytes) -> Response<Body> {
    answered(move || {
        let given: ApprovalAnswer = body(&bytes)?;
        let team = named(&key)?;
        let app = match given.answer {
            ApprovalWord::Reject => app_to_stop()?,
            ApprovalWord::Approve | ApprovalWord::Revise => app()?,
        };
        let answer = match given.answer {
            ApprovalWord::Approve => GateAnswer::Approve,
            ApprovalWord::Reject => GateAnswer::Reject {
                rollback: given.rollback,
                text: given.text,
            },
            ApprovalWord::Revise => gate::revise(&given.text)?,
        };
        let seen = (given.gate.as_str(), given.commit.as_str());
        let seq = gate::submit(&app, &team, seen, &answer)?;
        Ok(Answered { seq })
    })
    .await
}

pub(super) async fn plan(Path(key): Path<String>, bytes: Bytes) -> Response<Body> {
    answered(move || {
        let given: PlanBody = body(&bytes)?;
        let (team, app) = (named(&key)?, app()?);
        let input = match given.decision {
            PlanWord::Accept => PlanInput::Accept,
            PlanWord::Reject => PlanInput::Reject(given.text),
            PlanWord::Revise => PlanInput::Revise(given.text),
            PlanWord::Edit => PlanInput::Edit(given.text),
        };
        let answered = plans::answer_plan(&app, &team, Some(given.revision), input)?;
        Ok(PlanReplied { seq: answered.seq })
    })
    .await
}

pub(super) async fn answer_question(
    Path((key, question)): Path<(String, String)>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let given: QuestionBody = body(&bytes)?;
        let (team, app) = (named(&key)?, app()?);
        let id = questions::named(&app, &team, &question)?;
        let reply = if given.accept {
            Reply::Accept(given.text)
        } else {
            Reply::Words(given.text)
        };
        let answered = questions::answer(&app, &team, id, reply)?;
        Ok(QuestionReplied {
            answer: answered.answer,
            task: answered.task,
        })
    })
    .await
}

pub(super) async fn answer_request(
    Path((key, worker)): Path<(String, String)>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let given: PermissionBody = body(&bytes)?;
        let (team, app) = (named(&key)?, app()?);
        let worker = workers::find(&app, team.clone(), &worker)?.worker;
        let decision = PermissionAnswer {
            allow: given.allow,
            reason: given.reason,
        };
        permissions::answer(&app, &team, &worker, &given.request, None, &decision)?;
        Ok(RequestReplied {
            allowed: given.allow,
        })
    })
    .await
}

pub(super) async fn reap(bytes: Bytes) -> Response<Body> {
    answered(move || {
        let request: ReapBody = body(&bytes)?;
        let dry_run = request.dry_run;
        // Processes are never killed from a page: only `zombies reap --kill` does that.
        let options = ReapOptions {
            dry_run,
            kill: false,
        };
        let outcome = gc::reap(&app_to_stop()?, zombies::TTL, options)?;
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
    })
    .await
}

pub(super) async fn zombies() -> Response<Body> {
    answered(move || {
        let found = gc::scan(&app_to_stop()?, zombies::TTL)?;
        Ok(Zombies {
            zombies: found.iter().map(zombie).collect(),
        })
    })
    .await
}

pub(super) async fn log(
    Path((key, worker)): Path<(String, String)>,
    Query(wanted): Query<LogQuery>,
) -> Response<Body> {
    answered(move || {
        let task = wanted.task.as_deref().map(task_named).transpose()?;
        let after = wanted.after.unwrap_or(0);
        let app = app()?;
        let worker = workers::find(&app, named(&key)?, &worker)?;
        Ok(logs::page(&app, worker, task.as_ref(), after)?)
    })
    .await
}

pub(super) async fn changes(Path(key): Path<String>) -> Response<Body> {
    answered(move || Ok(diffs::changes(&app()?, &named(&key)?)?)).await
}

pub(super) async fn diff(
    Path((key, branch)): Path<(String, String)>,
    Query(wanted): Query<DiffQuery>,
) -> Response<Body> {
    answered_whole(move || {
        let path = wanted.path.as_deref();
        Ok(diffs::of_branch(&app()?, &named(&key)?, &branch, path)?)
    })
    .await
}

pub(super) async fn task_diff(
    State(studio): State<Arc<StudioServer>>,
    Path((key, id)): Path<(String, String)>,
    Query(wanted): Query<DiffQuery>,
) -> Response<Body> {
    answered_whole(move || {
        let team = named(&key)?;
        let id = task_named(&id)?;
        let work = work_on(&studio, &team, &id)?;
        let path = wanted.path.as_deref();
        Ok(diffs::of_task(&app()?, &team, &work, path)?)
    })
    .await
}
