//! Answering what agents ask, and how an agent reaches its own bridge.

use std::path::PathBuf;

use teamster_journal::payload::{ProposedTask, QuestionAnswered, QuestionId, QuestionKind};
use teamster_journal::{EventActor, EventKind, NewEvent, Question, QuestionFate};
use teamster_store::Kind;
use teamster_types::task::NewTask;
use teamster_types::text::shown_line;
use teamster_types::{TaskId, TeamName};
use teamster_view::questions;

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;

/// The longest answer, in characters.
const LONGEST: usize = 10_000;
/// The longest text of others in a message of ours, in characters.
const SHOWN: usize = 200;

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These words.
    Words(String),
    /// Yes to a proposal, with more words if there are some: the task is made.
    Accept(String),
}

/// A question that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredQuestion {
    /// The question, as it was before.
    pub question: Question,
    /// The answer that was recorded.
    pub answer: String,
    /// The task that was made of a proposal.
    pub task: Option<TaskId>,
}

/// Answers a question of an agent for a person. Only the first answer to a question counts; whoever is late is told.
pub fn answer(
    app: &App,
    team: &TeamName,
    id: QuestionId,
    reply: Reply,
) -> Result<AnsweredQuestion> {
    app.must_be_a_person("answering a question")?;
    let question = open_question(app, team, id)?;
    let (answer, task) = match reply {
        Reply::Words(text) => (words(text)?, None),
        Reply::Accept(text) => {
            let task = make(app, team, &question)?;
            let answer = match text.trim() {
                "" => format!("accepted as task {task}"),
                more => format!("accepted as task {task}: {more}"),
            };
            (answer, Some(task))
        }
    };
    let answered = EventKind::QuestionAnswered(QuestionAnswered {
        question: id,
        answer: answer.clone(),
    });
    let mut event = NewEvent::new(EventActor::Person, answered);
    if let Some(task) = &question.task {
        event = event.task(task);
    }
    let seq = app.store()?.record(team, event)?;
    let fate = questions::find(app.read()?, team, id.seq())?.map(|question| question.fate);
    match fate {
        Some(QuestionFate::Answered { seq: first, .. }) if first == seq => {
            unblock(app, team, &question, &answer)?;
            Ok(AnsweredQuestion {
                question,
                answer,
                task,
            })
        }
        Some(fate) => Err(is_over(id, &fate)),
        None => Err(unknown(id, team)),
    }
}

/// Returns a question that waits for an answer, or an error that says what became of it.
fn open_question(app: &App, team: &TeamName, id: QuestionId) -> Result<Question> {
    match questions::find(app.read()?, team, id.seq())? {
        Some(question) if question.is_open() => Ok(question),
        Some(question) => Err(is_over(id, &question.fate)),
        None => Err(unknown(id, team)),
    }
}

fn unknown(id: QuestionId, team: &TeamName) -> AppError {
    AppError::not_found(format!("team {team} has no question {id}"))
        .hint("`teamster status` lists the open ones")
}

fn is_over(id: QuestionId, fate: &QuestionFate) -> AppError {
    let what = match fate {
        QuestionFate::Answered { by, answer, .. } => {
            format!("{by} answered first: {}", shown_line(answer, SHOWN))
        }
        QuestionFate::Expired { reason, .. } => shown_line(reason, SHOWN),
        QuestionFate::Open => "it is open".to_owned(),
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("nobody waits for an answer to {id} any more: {what}"),
    )
    .hint("`teamster message send` reaches the worker")
}

fn words(text: String) -> Result<String> {
    if text.trim().is_empty() {
        return Err(AppError::usage("the answer is empty").hint("say something"));
    }
    let length = text.chars().count();
    if length > LONGEST {
        return Err(AppError::refused(format!(
            "the answer has {length} characters; the limit is {LONGEST}"
        ))
        .hint("put it into a file and name the file"));
    }
    Ok(text)
}

/// Lets the task of a worker that could not go on be claimed again. The host of a run may have been faster.
fn unblock(app: &App, team: &TeamName, question: &Question, answer: &str) -> Result {
    let Some(task) = question
        .task
        .as_ref()
        .filter(|_| question.kind == QuestionKind::Blocked)
    else {
        return Ok(());
    };
    match app.store()?.unblock(team, app.actor.name(), task, answer) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind, Kind::Conflict | Kind::NotFound) && !error.busy => {
            tracing::debug!("task {task} does not wait for the answer: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the task that was proposed.
fn make(app: &App, team: &TeamName, question: &Question) -> Result<TaskId> {
    let Some(proposed) = question
        .proposal
        .as_ref()
        .filter(|_| question.kind == QuestionKind::Proposal)
    else {
        return Err(
            AppError::usage(format!("{} proposes no task", question.id)).hint(format!(
                "answer it in words: `teamster answer {} \"…\"`",
                question.id
            )),
        );
    };
    runs::may_add_tasks(app, team, 1)?;
    let ProposedTask {
        subject,
        description,
        paths,
        blocked_by,
    } = proposed.clone();
    let new = NewTask {
        subject,
        description,
        paths,
        blocked_by,
        ..NewTask::default()
    };
    let task = app.store()?.create_task(team, app.actor.name(), &new)?;
    Ok(task.id().clone())
}

/// Returns the socket of the bridge that the caller runs below, if there is one: its variable may have been taken away on
/// the way, but not from the agent that the bridge started.
pub fn socket_of_caller() -> Option<PathBuf> {
    let named = env_vars::get(env_vars::SOCKET).or_else(|| {
        teamster_fs::processes::carried(std::process::id(), env_vars::SOCKET)
            .filter(|value| !value.is_empty())
    });
    named.map(PathBuf::from)
}
