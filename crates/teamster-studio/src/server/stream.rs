//! The event streams: one per connection, for a team, for all teams or for a log.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use teamster_app::logs::{LogFollower, LogLocation};
use teamster_app::workers;
use teamster_view::model::Sessions;
use tracing::debug;

use super::StudioServer;
use super::commands::app;
use super::handlers::{named, task_named};
use super::middleware::{failed, refused, text};
use crate::error::ApiError;
use crate::watch::{PARTS, Stream, follow_log, stream, stream_of};

#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    team: Option<String>,
    after: Option<u64>,
    #[serde(default)]
    overview: bool,
}

pub(super) async fn events(
    State(studio): State<Arc<StudioServer>>,
    Query(wanted): Query<EventsQuery>,
    headers: HeaderMap,
) -> Response<Body> {
    // The browser's own last event id is newer than the one in the URL, which it repeats unchanged.
    let last = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = last.or(wanted.after);
    sent(team_events(studio, wanted.team, after, wanted.overview).await)
}

/// Returns the events of one team or, without a team, the overview of all teams.
pub(super) async fn team_events(
    studio: Arc<StudioServer>,
    team: Option<String>,
    after: Option<u64>,
    with_overview: bool,
) -> Result<Stream, ApiError> {
    let (subscriber, events) = stream();
    match team {
        None => studio.hub.subscribe(subscriber),
        Some(key) if Sessions::is_id(&key) => {
            studio.hub.subscribe_to_session(&key, subscriber.clone())?;
            if with_overview {
                studio.hub.subscribe_also(subscriber);
            }
        }
        Some(key) => {
            let hub = studio.hub.clone();
            let opened = tokio::task::spawn_blocking(move || {
                Ok::<_, ApiError>(studio.hub.feed(&named(&key)?)?)
            });
            let feed = opened
                .await
                .map_err(|error| failed("the team could not be opened", &error))??;
            // The thread ends when the client has caught up or is gone.
            tokio::task::spawn_blocking(move || {
                let begun = feed.subscribe(subscriber.clone(), after);
                match begun {
                    // Only after it has caught up: the overview does not wait for slow clients and would disconnect it
                    // before.
                    Ok(()) if with_overview => hub.subscribe_also(subscriber),
                    Ok(()) => {}
                    Err(error) => debug!("a client cannot follow its team: {error}"),
                }
            });
        }
    }
    Ok(events)
}

#[derive(Debug, Deserialize)]
pub(super) struct LogStreamQuery {
    task: Option<String>,
}

pub(super) async fn log(
    Path((key, worker)): Path<(String, String)>,
    Query(wanted): Query<LogStreamQuery>,
    headers: HeaderMap,
) -> Response<Body> {
    let last = headers.get("last-event-id");
    let last = last.and_then(|id| Some(id.to_str().ok()?.to_owned()));
    sent(log_events(key, worker, wanted.task, last).await)
}

/// Returns the output of an agent as it is written, starting at the position that the client names.
pub(super) async fn log_events(
    team: String,
    worker: String,
    task: Option<String>,
    last: Option<String>,
) -> Result<Stream, ApiError> {
    let key = team.clone();
    let begun = tokio::task::spawn_blocking(move || {
        let task = task.as_deref().map(task_named).transpose()?;
        let app = app()?;
        let worker = workers::find(&app, named(&key)?, &worker)?;
        let logs = LogLocation::find(&app, worker)?.keep_fetching();
        Ok::<_, ApiError>(LogFollower::new(logs, task.as_ref(), last.as_deref()))
    });
    let log = begun
        .await
        .map_err(|error| failed("the log could not be opened", &error))??;
    let (subscriber, events) = stream_of(PARTS);
    // It gets its own thread instead of one from the pool, because it runs as long as the client is connected.
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || follow_log(log, &subscriber, &team))
        .map_err(|error| ApiError::failed(format!("no thread: {error}")))?;
    Ok(events)
}

fn sent(begun: Result<Stream, ApiError>) -> Response<Body> {
    match begun {
        Ok(events) => text(StatusCode::OK, "text/event-stream", Body::new(events)),
        Err(error) => refused(&error),
    }
}
