//! The streams of events: one for each connection, of a team, of all teams or of a log.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use teamster_app::logs::{LogFollower, LogPlace};
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
    // What the browser itself remembers is newer than the address, which it repeats unchanged.
    let last = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let after = last.or(wanted.after);
    sent(team_events(studio, wanted.team, after, wanted.overview).await)
}

/// Returns the events of one team or, without one, of all teams in short.
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
                studio.hub.also(subscriber);
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
            // It ends when the client has caught up, or is gone.
            tokio::task::spawn_blocking(move || {
                let begun = feed.subscribe(subscriber.clone(), after);
                match begun {
                    // Not before it has caught up: what does not wait for a client would cut it off meanwhile.
                    Ok(()) if with_overview => hub.also(subscriber),
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

/// Returns what an agent prints, as it is written, from the place on that the client names.
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
        let logs = LogPlace::find(&app, worker)?.keep_bringing();
        Ok::<_, ApiError>(LogFollower::new(logs, task.as_ref(), last.as_deref()))
    });
    let log = begun
        .await
        .map_err(|error| failed("the log could not be opened", &error))??;
    let (subscriber, events) = stream_of(PARTS);
    // A thread of its own, not one of those that answer: it lasts as long as somebody looks.
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
