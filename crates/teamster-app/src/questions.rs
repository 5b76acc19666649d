//! Answers questions of agents, and finds the bridge of the calling agent.

use std::path::PathBuf;

use teamster_journal::payload::{ProposedTask, QuestionAnswered, QuestionId, QuestionKind};
use teamster_journal::{EventActor, EventKind, NewEvent, Question, QuestionStatus};
use teamster_store::{AcceptedProposal, PlannedTask, StoreError, StoreErrorKind, TeamChanges};
use teamster_types::task::{NewTask, Task};
use teamster_types::text::shown_line;
use teamster_types::{TaskId, TeamName};
use teamster_view::questions::{self, QuestionView};

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::runs;

/// The maximum length of an answer, in characters.
const LONGEST: usize = 10_000;
/// The maximum length of quoted text in a message, in characters.
const SHOWN: usize = 200;

/// A person's reply to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An answer.
    Words(String),
    /// Acceptance of a proposal, with an optional comment: the task is created.
    Accept(String),
}

/// A question that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredQuestion {
    /// The question, as it was before the answer.
    pub question: Question,
    /// The answer that was recorded.
    pub answer: String,
    /// The task that was created from a proposal.
    pub task: Option<TaskId>,
}

/// Parses a question: `q17`, or the number of a blocked task.
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
        AppError::not_found(format!("task {task} is not waiting for an answer"))
            .hint("`teamster status` lists the open questions")
    })
}

/// Answers a question of an agent, for a person. Only the first answer counts; a late caller gets an error.
pub fn answer(
    app: &App,
    team: &TeamName,
    id: QuestionId,
    reply: Reply,
) -> Result<AnsweredQuestion> {
    app.must_be_a_person("answering a question")?;
    let question = open_question(app, team, id)?;
    match reply {
        Reply::Words(text) => answer_in_words(app, team, question, words(text)?),
        Reply::Accept(text) => accept(app, team, question, text),
    }
}

fn answer_in_words(
    app: &App,
    team: &TeamName,
    question: Question,
    answer: String,
) -> Result<AnsweredQuestion> {
    let answered = AnsweredQuestion {
        question,
        answer,
        task: None,
    };
    // Unblocking a task is itself the answer to its worker, so no other event is needed.
    if unblock(app, team, &answered)? {
        return Ok(answered);
    }
    let event = EventKind::QuestionAnswered(QuestionAnswered {
        question: answered.question.id,
        answer: answered.answer.clone(),
    });
    let mut event = NewEvent::new(EventActor::Person, event);
    if let Some(task) = &answered.question.task {
        event = event.task(task);
    }
    let changes = TeamChanges {
        record: vec![event],
        ..TeamChanges::default()
    };
    change(app, team, &answered.question, &changes)?;
    Ok(answered)
}

/// Creates the task that a question proposes, and answers the question with it.
fn accept(
    app: &App,
    team: &TeamName,
    question: Question,
    words: String,
) -> Result<AnsweredQuestion> {
    let changes = TeamChanges {
        create: vec![proposed(app, team, &question)?],
        accept: vec![AcceptedProposal {
            question: question.id,
            place: 0,
            about: question.task.clone(),
            words,
        }],
        ..TeamChanges::default()
    };
    let made = change(app, team, &question, &changes)?;
    let Some(QuestionStatus::Answered { answer, .. }) = fate(app, team, question.id)? else {
        return Err(unknown(question.id, team));
    };
    Ok(AnsweredQuestion {
        question,
        answer,
        task: made.first().map(|task| task.id().clone()),
    })
}

/// Commits changes that answer a question, atomically. The store accepts them only while the question is open.
fn change(
    app: &App,
    team: &TeamName,
    question: &Question,
    changes: &TeamChanges,
) -> Result<Vec<Task>> {
    let made = app.store()?.apply(team, &app.actor.recorded_as(), changes);
    made.or_else(|error| Err(explain_refusal(app, team, question.id, error)?))
}

/// Returns the state of a question if that is why the store refused an answer; otherwise the error of the store.
fn explain_refusal(
    app: &App,
    team: &TeamName,
    id: QuestionId,
    error: StoreError,
) -> Result<AppError> {
    if error.busy || error.kind != StoreErrorKind::Conflict {
        return Ok(error.into());
    }
    Ok(match fate(app, team, id)? {
        Some(QuestionStatus::Open) => error.into(),
        Some(fate) => is_over(id, &fate),
        None => unknown(id, team),
    })
}

/// Answers the worker of a blocked task. The task can be claimed again, and its next worker gets the answer.
pub fn answer_block(app: &App, team: &TeamName, task: &TaskId, text: &str) -> Result<Task> {
    app.actor.must_be_person("answering for the person")?;
    let store = app.store()?;
    Ok(store.unblock(team, &app.actor.recorded_as(), task, text)?)
}

fn fate(app: &App, team: &TeamName, id: QuestionId) -> Result<Option<QuestionStatus>> {
    let found = questions::find(app.read()?, team, id.seq())?;
    Ok(found.map(|question| question.state))
}

/// Returns an open question, or an error that describes its state.
fn open_question(app: &App, team: &TeamName, id: QuestionId) -> Result<Question> {
    match questions::find(app.read()?, team, id.seq())? {
        Some(question) if question.is_open() => Ok(question),
        Some(question) => Err(is_over(id, &question.state)),
        None => Err(unknown(id, team)),
    }
}

fn unknown(id: QuestionId, team: &TeamName) -> AppError {
    AppError::not_found(format!("team {team} has no question {id}"))
        .hint("`teamster status` lists the open ones")
}

fn is_over(id: QuestionId, state: &QuestionStatus) -> AppError {
    let what = match state {
        QuestionStatus::Answered { by, answer, .. } => {
            format!("{by} answered first: {}", shown_line(answer, SHOWN))
        }
        QuestionStatus::Expired { reason, .. } => shown_line(reason.as_str(), SHOWN),
        QuestionStatus::Open => "it is open".to_owned(),
    };
    AppError::new(
        ErrorKind::Conflict,
        format!("{id} no longer waits for an answer: {what}"),
    )
    .hint("`teamster message send` reaches the worker")
}

fn words(text: String) -> Result<String> {
    if text.trim().is_empty() {
        return Err(AppError::usage("the answer is empty").hint("write a text"));
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

/// Makes a blocked task claimable again. Returns whether that was the answer to the question.
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
        Err(error)
            if matches!(
                error.kind,
                StoreErrorKind::Conflict | StoreErrorKind::NotFound
            ) && !error.busy =>
        {
            tracing::debug!("task {task} does not wait for the answer: {error}");
            // Another answer came first, or the question was asked without blocking the task.
            match fate(app, team, question.id)? {
                Some(QuestionStatus::Open) => Ok(false),
                Some(fate) => Err(is_over(question.id, &fate)),
                None => Err(unknown(question.id, team)),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the proposed task.
fn proposed(app: &App, team: &TeamName, question: &Question) -> Result<PlannedTask> {
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
    Ok(PlannedTask {
        task: NewTask {
            subject,
            description,
            paths,
            blocked_by,
            ..NewTask::default()
        },
        after: Vec::new(),
    })
}

/// Returns the socket of the bridge that the caller runs below, if there is one. The variable may have been removed on
/// the way, but not from the agent that the bridge started.
pub fn socket_of_caller() -> Option<PathBuf> {
    let named = env_vars::get(env_vars::SOCKET).or_else(|| {
        teamster_fs::processes::carried(std::process::id(), env_vars::SOCKET)
            .filter(|value| !value.is_empty())
    });
    named.map(PathBuf::from)
}
