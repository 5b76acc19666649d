//! Handlers that answer from the model.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use teamster_app::diffs::TaskCommits;
use teamster_journal::Event;
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, TeamName};
use teamster_view::model::{MergeState, Sessions, TeamView, Timeline, message_of};
use teamster_view::status::TeamProblem;

use super::StudioServer;
use super::middleware::{answered, json, text};
use crate::api::{self, Journal, Messages, Server, TaskDetail};
use crate::error::ApiError;

/// The maximum number of events that are shown for one task.
const MOST_EVENTS: usize = 200;
/// How many journal events are searched for one response.
const REACH: usize = 20_000;

/// A query with a journal position.
#[derive(Debug, Deserialize)]
pub(super) struct MomentQuery {
    at: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PageQuery {
    before: Option<u64>,
    from: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn server(State(studio): State<Arc<StudioServer>>) -> Response<Body> {
    let server = Server {
        version: studio.version.to_owned(),
        started_at: studio.started_at,
        now: studio.hub.read().now(),
    };
    json(StatusCode::OK, &server)
}

pub(super) async fn openapi() -> Response<Body> {
    text(
        StatusCode::OK,
        "application/json",
        api::openapi().to_string(),
    )
}

pub(super) async fn teams(State(studio): State<Arc<StudioServer>>) -> Response<Body> {
    json(StatusCode::OK, &studio.hub.overview())
}

pub(super) async fn team(
    State(studio): State<Arc<StudioServer>>,
    Path(key): Path<String>,
    Query(moment): Query<MomentQuery>,
) -> Response<Body> {
    answered(move || view(&studio, &key, moment.at)).await
}

fn view(studio: &StudioServer, key: &str, at: Option<u64>) -> Result<TeamView, ApiError> {
    if Sessions::is_id(key) {
        return studio.hub.session(key);
    }
    let feed = studio.hub.feed(&named(key)?)?;
    let now = feed.view();
    Ok(match at {
        None => now,
        Some(seq) => {
            // The origin and the project of a team are not in every journal, and do not change.
            let mut view = feed.view_at(seq.min(now.seq))?;
            view.history = now.history;
            view.kind = now.kind;
            view.project = now.project;
            view.description = now.description;
            view
        }
    })
}

pub(super) async fn timeline(
    State(studio): State<Arc<StudioServer>>,
    Path(key): Path<String>,
    Query(moment): Query<MomentQuery>,
) -> Response<Body> {
    answered(move || {
        if Sessions::is_id(&key) {
            studio.hub.session(&key)?;
            return Ok(Timeline::default());
        }
        let feed = studio.hub.feed(&named(&key)?)?;
        Ok(match moment.at {
            None => feed.timeline(),
            Some(seq) => feed.projection_at(seq)?.timeline(),
        })
    })
    .await
}

pub(super) async fn task(
    State(studio): State<Arc<StudioServer>>,
    Path((key, id)): Path<(String, String)>,
    Query(moment): Query<MomentQuery>,
) -> Response<Body> {
    answered(move || {
        let team = named(&key)?;
        let id = task_named(&id)?;
        let feed = studio.hub.feed(&team)?;
        let (projection, view) = match moment.at {
            None => (feed.projection(), feed.view()),
            Some(seq) => {
                let projection = feed.projection_at(seq)?;
                let view = projection.view();
                (projection, view)
            }
        };
        let missing = || ApiError::not_found(format!("team {team} has no task {id}"));
        let row = view.tasks.into_iter().find(|row| row.id == id);
        let row = row.ok_or_else(missing)?;
        let read = studio.hub.read();
        let task = match moment.at {
            None => read.task(&team, &id)?,
            Some(_) => projection.task(&id).ok_or_else(missing)?.clone(),
        };
        // The end of the journal, or the events before the requested moment.
        let events = match moment.at {
            None => read.last_events(&team, REACH)?.events,
            Some(at) => {
                let first = at.saturating_sub(REACH as u64).saturating_add(1);
                read.events(&team, first, REACH)?.events
            }
        };
        let mut events: Vec<Event> = events
            .into_iter()
            .filter(|event| event.task_id.as_ref() == Some(&id))
            .filter(|event| moment.at.is_none_or(|at| event.seq <= at))
            .collect();
        events.drain(..events.len().saturating_sub(MOST_EVENTS));
        Ok(TaskDetail {
            spent: projection.spent_on(&id),
            task: row,
            events,
            ..detail(&task)
        })
    })
    .await
}

/// Returns the results of one task, from the store and the journal.
pub(super) fn work_on(
    studio: &StudioServer,
    team: &TeamName,
    id: &TaskId,
) -> Result<TaskCommits, ApiError> {
    let task = studio.hub.read().task(team, id)?;
    let result = task.result().unwrap_or_default();
    let merges = studio.hub.feed(team)?.view().merges;
    let merge = merges.into_iter().rev().find_map(|merge| {
        let is_its = merge.task_id.as_ref() == Some(id) && merge.state == MergeState::Merged;
        merge.merge.filter(|_| is_its)
    });
    Ok(TaskCommits {
        task: id.clone(),
        commit: result.commit,
        base: result.base,
        merge,
        at_work: task
            .owner()
            .filter(|_| task.status() == Status::InProgress)
            .map(str::to_owned),
    })
}

/// Returns the details that the task itself contains.
fn detail(task: &Task) -> TaskDetail {
    let mut result = task.result().unwrap_or_default();
    result.files.truncate(200);
    TaskDetail {
        task: teamster_view::model::TaskRow::plain(task),
        description: task.description().to_owned(),
        capabilities: task.capabilities(),
        paths: task.paths(),
        blocks: task.blocks().to_vec(),
        leased_until: task.claim().map(|claim| claim.leased_until),
        accept: task.accept(),
        verify: task.verify(),
        summary: result.summary,
        handover: result.handover,
        problems: result.problems,
        commit: result.commit,
        files: result.files,
        error: task.error().map(str::to_owned),
        spent: teamster_view::model::Spent::default(),
        events: Vec::new(),
    }
}

pub(super) async fn messages(
    State(studio): State<Arc<StudioServer>>,
    Path(key): Path<String>,
    Query(page): Query<PageQuery>,
) -> Response<Body> {
    answered(move || {
        let limit = page.limit.unwrap_or(50).clamp(1, 500);
        if Sessions::is_id(&key) {
            let messages = studio.hub.session(&key)?.messages;
            return Ok(Messages {
                messages,
                more: false,
            });
        }
        let team = named(&key)?;
        let read = studio.hub.read();
        // There is nothing to search after the end.
        let end = read.position(&team)?.saturating_add(1);
        let before = page.before.unwrap_or(end).min(end);
        let mut found = Vec::new();
        let mut end = before;
        // Reads backwards from the end in pages, until there are enough.
        while end > 1 && found.len() <= limit {
            let from = end.saturating_sub(1_000).max(1);
            let count = usize::try_from(end - from).unwrap_or(0);
            let events = read.events(&team, from, count)?.events;
            let earlier = events.iter().rev().filter(|event| event.seq < end);
            found.extend(earlier.filter_map(message_of));
            end = from;
        }
        let more = found.len() > limit;
        found.truncate(limit);
        found.reverse();
        Ok(Messages {
            messages: found,
            more,
        })
    })
    .await
}

pub(super) async fn journal(
    State(studio): State<Arc<StudioServer>>,
    Path(key): Path<String>,
    Query(page): Query<PageQuery>,
) -> Response<Body> {
    answered(move || {
        let team = named(&key)?;
        let limit = page.limit.unwrap_or(200).clamp(1, 1_000);
        let read = studio.hub.read();
        let last = read.position(&team)?;
        let found = match page.from {
            Some(from) => read.events(&team, from, limit)?,
            None => read.last_events(&team, limit)?,
        };
        let problems = found.damaged.into_iter();
        Ok(Journal {
            events: found.events,
            problems: problems
                .map(|damaged| TeamProblem::damaged(&damaged.file, &damaged.error))
                .collect(),
            last,
        })
    })
    .await
}

/// Parses the task in a URL.
pub(super) fn task_named(id: &str) -> Result<TaskId, ApiError> {
    id.parse()
        .map_err(|error: teamster_types::NameError| ApiError::usage(error.to_string()))
}

/// Parses the team in a URL.
pub(super) fn named(key: &str) -> Result<TeamName, ApiError> {
    key.parse().map_err(|_| {
        ApiError::not_found(if Sessions::is_id(key) {
            "a session known only by its state file has no such data"
        } else {
            "there is no such team"
        })
    })
}
