//! The stream of events.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use teamster_app::logs::LogFollower;
use teamster_app::workers;
use teamster_view::model::Sessions;
use tracing::debug;

use super::StudioServer;
use super::commands::app;
use super::handlers::{named, task_named};
use super::middleware::{failed, refused, text};
use crate::error::ApiError;
use crate::watch::{PARTS, follow_log, stream, stream_of};

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
    let (subscriber, events) = stream();
    let begun = match wanted.team {
        None => {
            studio.hub.subscribe(subscriber);
            Ok(())
        }
        Some(key) if Sessions::is_id(&key) => {
            let begun = studio.hub.subscribe_to_session(&key, subscriber.clone());
            if begun.is_ok() && wanted.overview {
                studio.hub.also(subscriber);
            }
            begun
        }
        Some(key) => {
            let hub = studio.hub.clone();
            let opened = tokio::task::spawn_blocking(move || {
                Ok::<_, ApiError>(studio.hub.feed(&named(&key)?)?)
            });
            match opened.await {
                Ok(Ok(feed)) => {
                    // It ends when the client has caught up, or is gone.
                    tokio::task::spawn_blocking(move || {
                        let begun = feed.subscribe(subscriber.clone(), after);
                        match begun {
                            // Not before it has caught up: what does not wait for a client would cut it off meanwhile.
                            Ok(()) if wanted.overview => hub.also(subscriber),
                            Ok(()) => {}
                            Err(error) => debug!("a client cannot follow its team: {error}"),
                        }
                    });
                    Ok(())
                }
                Ok(Err(error)) => Err(error),
                Err(error) => Err(failed("the team could not be opened", &error)),
            }
        }
    };
    match begun {
        Ok(()) => text(StatusCode::OK, "text/event-stream", Body::new(events)),
        Err(error) => refused(&error),
    }
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
    let team = key.clone();
    let begun = tokio::task::spawn_blocking(move || {
        let task = wanted.task.as_deref().map(task_named).transpose()?;
        let worker = workers::find(&app()?, named(&key)?, &worker)?;
        Ok::<_, ApiError>(LogFollower::new(worker, task.as_ref(), last.as_deref()))
    });
    match begun.await {
        Ok(Ok(log)) => {
            let (subscriber, events) = stream_of(PARTS);
            // A thread of its own, not one of those that answer: it lasts as long as somebody looks.
            let followed = std::thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || follow_log(log, &subscriber, &team));
            match followed {
                Ok(_) => text(StatusCode::OK, "text/event-stream", Body::new(events)),
                Err(error) => refused(&ApiError::failed(format!("no thread: {error}"))),
            }
        }
        Ok(Err(error)) => refused(&error),
        Err(error) => refused(&failed("the log could not be opened", &error)),
    }
}
