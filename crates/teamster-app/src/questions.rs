//! Answering what agents ask, and how an agent reaches its own bridge.

use std::path::PathBuf;

use teamster_journal::payload::{ProposedTask, QuestionAnswered, QuestionId, QuestionKind};
use teamster_journal::{EventActor, EventKind, NewEvent, Question, QuestionFate};
use teamster_store::Kind;
use teamster_types::task::{NewTask, Task};
use teamster_types::text::shown_line;
use teamster_types::{TaskId, TeamName};
use teamster_view::questions::{self, QuestionView};

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

/// Returns the question that a word names: `q17`, or the number of a task whose worker cannot go on.
pub fn named(app: &App, team: &TeamName, word: &str) -> Result<QuestionId> {
    let Ok(task) = word.parse::<TaskId>() else {
        return Ok(word.parse()?);
    };
    let open = questions::open(app.read()?, team)?;
    let is_its = |open: &&QuestionView| {
        open.kind == QuestionKind::Blocked.as_str() && open.task_id.as_ref() == Some(&task)
    };
    let found = open.iter().find(is_its).and_then(|it| it.id.parse().ok());
    found.ok_or_else(|| {
        AppError::not_found(format!("task {task} waits for no answer"))
            .hint("`teamster status` lists the open questions")
    })
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
    let answered = AnsweredQuestion {
        question,
        answer,
        task,
    };
    // What unblocks a task is the answer to its worker. There is nobody else who could be faster.
    if unblock(app, team, &answered)? {
        return Ok(answered);
    }
    let event = EventKind::QuestionAnswered(QuestionAnswered {
        question: id,
        answer: answered.answer.clone(),
    });
    let mut event = NewEvent::new(EventActor::Person, event);
    if let Some(task) = &answered.question.task {
        event = event.task(task);
    }
    let seq = app.store()?.record(team, event)?;
    match fate(app, team, id)? {
        Some(QuestionFate::Answered { seq: first, .. }) if first == seq => Ok(answered),
        Some(fate) => Err(is_over(id, &fate)),
        None => Err(unknown(id, team)),
    }
}

/// Answers the worker of a blocked task. The task can be claimed again, and whoever claims it is told.
pub fn answer_block(app: &App, team: &TeamName, task: &TaskId, text: &str) -> Result<Task> {
    app.actor.must_be_person("answering for the person")?;
    let store = app.store()?;
    Ok(store.unblock(team, &app.actor.recorded_as(), task, text)?)
}

fn fate(app: &App, team: &TeamName, id: QuestionId) -> Result<Option<QuestionFate>> {
    let found = questions::find(app.read()?, team, id.seq())?;
    Ok(found.map(|question| question.fate))
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

/// Lets the task of a worker that could not go on be claimed again. Returns whether that was the answer to the question.
fn unblock(app: &App, team: &TeamName, answered: &AnsweredQuestion) -> Result<bool> {
    let question = &answered.question;
    let Some(task) = question
        .task
        .as_ref()
        .filter(|_| question.kind == QuestionKind::Blocked)
    else {
        return Ok(false);
    };
    let unblocked = app
        .store()?
        .unblock(team, &app.actor.recorded_as(), task, &answered.answer);
    match unblocked {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind, Kind::Conflict | Kind::NotFound) && !error.busy => {
            tracing::debug!("task {task} does not wait for the answer: {error}");
            // Somebody was faster, or only the question was asked and the task never waited.
            match fate(app, team, question.id)? {
                Some(QuestionFate::Open) => Ok(false),
                Some(fate) => Err(is_over(question.id, &fate)),
                None => Err(unknown(question.id, team)),
            }
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
    let task = app
        .store()?
        .create_task(team, &app.actor.recorded_as(), &new)?;
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
