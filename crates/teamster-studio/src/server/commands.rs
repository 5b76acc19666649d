//! What is done by the hands that the binary brought.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use teamster_types::TaskId;

use super::Studio;
use super::answers::named;
use super::door::answered;
use crate::api::{ApprovalAnswer, NewMessage, ReapWish, StopWish};
use crate::hands::Refused;

#[derive(Debug, Deserialize)]
pub(super) struct LogOf {
    task: Option<String>,
    after: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiffOf {
    path: Option<String>,
}

/// The body of a request.
fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Refused> {
    serde_json::from_slice(bytes)
        .map_err(|error| Refused::usage(format!("the body is not what is needed: {error}")))
}

pub(super) async fn send(
    State(studio): State<Arc<Studio>>,
    Path(key): Path<String>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let new: NewMessage = body(&bytes)?;
        studio.hands.send(&named(&key)?, &new.to, &new.text)
    })
    .await
}

pub(super) async fn stop(
    State(studio): State<Arc<Studio>>,
    Path((key, worker)): Path<(String, String)>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let wish: StopWish = body(&bytes)?;
        studio.hands.stop(&named(&key)?, &worker, &wish)
    })
    .await
}

pub(super) async fn drain(
    State(studio): State<Arc<Studio>>,
    Path(key): Path<String>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let wish: StopWish = body(&bytes)?;
        studio.hands.drain(&named(&key)?, &wish)
    })
    .await
}

pub(super) async fn approval(
    State(studio): State<Arc<Studio>>,
    Path(key): Path<String>,
    bytes: Bytes,
) -> Response<Body> {
    answered(move || {
        let answer: ApprovalAnswer = body(&bytes)?;
        studio.hands.answer(&named(&key)?, &answer)
    })
    .await
}

pub(super) async fn reap(State(studio): State<Arc<Studio>>, bytes: Bytes) -> Response<Body> {
    answered(move || {
        let wish: ReapWish = body(&bytes)?;
        studio.hands.reap(wish.dry_run)
    })
    .await
}

pub(super) async fn zombies(State(studio): State<Arc<Studio>>) -> Response<Body> {
    answered(move || studio.hands.zombies()).await
}

pub(super) async fn log(
    State(studio): State<Arc<Studio>>,
    Path((key, worker)): Path<(String, String)>,
    Query(wanted): Query<LogOf>,
) -> Response<Body> {
    answered(move || {
        let task = wanted.task.as_deref().map(str::parse::<TaskId>);
        let task = task
            .transpose()
            .map_err(|error| Refused::usage(error.to_string()))?;
        let after = wanted.after.unwrap_or(0);
        studio
            .hands
            .log(&named(&key)?, &worker, task.as_ref(), after)
    })
    .await
}

pub(super) async fn changes(
    State(studio): State<Arc<Studio>>,
    Path(key): Path<String>,
) -> Response<Body> {
    answered(move || studio.hands.changes(&named(&key)?)).await
}

pub(super) async fn findings(
    State(studio): State<Arc<Studio>>,
    Path(key): Path<String>,
) -> Response<Body> {
    answered(move || studio.hands.findings(&named(&key)?)).await
}

pub(super) async fn diff(
    State(studio): State<Arc<Studio>>,
    Path((key, branch)): Path<(String, String)>,
    Query(wanted): Query<DiffOf>,
) -> Response<Body> {
    answered(move || {
        let path = wanted.path.as_deref();
        studio.hands.diff(&named(&key)?, &branch, path)
    })
    .await
}
