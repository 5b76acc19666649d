//! The stream of events.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Deserialize;
use teamster_view::model::Sessions;

use super::Studio;
use super::answers::named;
use super::door::{refused, text};
use crate::hands::Refused;
use crate::watch::stream;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    team: Option<String>,
    after: Option<u64>,
}

pub(super) async fn events(
    State(studio): State<Arc<Studio>>,
    Query(wanted): Query<Wanted>,
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
        Some(key) if Sessions::is_id(&key) => studio.hub.subscribe_to_session(&key, subscriber),
        Some(key) => {
            let opened = tokio::task::spawn_blocking(move || {
                Ok::<_, Refused>(studio.hub.desk(&named(&key)?)?)
            });
            match opened.await {
                Ok(Ok(desk)) => {
                    // It ends when the client has caught up, or is gone.
                    tokio::task::spawn_blocking(move || desk.subscribe(subscriber, after));
                    Ok(())
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Refused {
                    kind: "failed",
                    message: "the team could not be opened".to_owned(),
                    hint: None,
                }),
            }
        }
    };
    match begun {
        Ok(()) => text(StatusCode::OK, "text/event-stream", Body::new(events)),
        Err(error) => refused(&error),
    }
}
