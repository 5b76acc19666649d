//! The middleware that every request and every response passes through.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Response, StatusCode};
use axum::middleware::Next;
use teamster_app::ErrorKind;
use tracing::{debug, warn};

use super::StudioServer;
use crate::error::ApiError;
use crate::guard::{RequestVerdict, cookie_name, rule};
use crate::shown::{display_json, full_text};

/// The content security policy: only resources from this server, no inline scripts or styles, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The maximum length of a framework error message that is passed on.
const LONGEST_REASON: usize = 4 * 1024;

/// How long a browser keeps the key, in seconds.
const A_MONTH: u32 = 30 * 24 * 60 * 60;

/// Accepts or rejects a request, and adds the headers to every response.
pub(super) async fn pass(
    State(studio): State<Arc<StudioServer>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let ruling = rule(
        request.method(),
        request.uri(),
        request.headers(),
        &studio.keys,
        studio.port,
    );
    let is_api = request.uri().path().starts_with("/api/");
    let mut answer = match ruling {
        RequestVerdict::Enter => {
            let answer = next.run(request).await;
            if is_api {
                to_api_error(answer).await
            } else {
                answer
            }
        }
        RequestVerdict::Welcome { key, led_here } => set_cookie(&key, led_here, studio.port),
        RequestVerdict::GoOn => redirect_to_page(),
        RequestVerdict::Refuse(status, message) if is_api => {
            let refused = ApiError::new(ErrorKind::Refused, message);
            json(status, &refused.body())
        }
        RequestVerdict::Refuse(status, message) => {
            text(status, "text/plain; charset=utf-8", message)
        }
    };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
        .headers_mut()
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    answer
}

/// Converts the framework's own rejections (unknown route, wrong method, invalid number, body too long) to the format
/// of all other errors.
async fn to_api_error(answer: Response<Body>) -> Response<Body> {
    let status = answer.status();
    let is_ours = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/json");
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return answer;
    }
    let (kind, usual) = match status {
        StatusCode::NOT_FOUND => (ErrorKind::NotFound, "there is nothing at this path"),
        StatusCode::METHOD_NOT_ALLOWED => (ErrorKind::Usage, "this route takes another method"),
        StatusCode::PAYLOAD_TOO_LARGE => (ErrorKind::Usage, "the body is too long"),
        _ => (ErrorKind::Usage, "the request cannot be understood"),
    };
    let said = axum::body::to_bytes(answer.into_body(), LONGEST_REASON).await;
    let said = said.map(|said| String::from_utf8_lossy(&said).trim().to_owned());
    let said = said.unwrap_or_default();
    let refused = ApiError {
        kind,
        message: if said.is_empty() {
            usual.to_owned()
        } else {
            said
        },
        hint: Some("docs/studio.md and /api/v1/openapi.json describe the API".to_owned()),
    };
    json(status, &refused.body())
}

/// Returns the cookie in exchange for the token, and a redirect to the page without the token in the URL.
fn set_cookie(key: &str, led_here: bool, port: u16) -> Response<Body> {
    let cookie = format!(
        "{}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={A_MONTH}",
        cookie_name(port)
    );
    let mut answer = if led_here {
        // The cookie is not sent with a redirect that another page started; this page starts its own.
        let page = "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url=/\"><title>teamster</title>";
        text(StatusCode::OK, "text/html; charset=utf-8", page)
    } else {
        redirect_to_page()
    };
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

fn redirect_to_page() -> Response<Body> {
    let mut answer = text(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    answer
        .headers_mut()
        .insert(LOCATION, HeaderValue::from_static("/"));
    answer
}

/// Returns a JSON response, redacted and cleaned.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    text(status, "application/json", display_json(value))
}

/// Returns a response with this body, unchanged.
pub(super) fn text(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Returns the response to a request that was not carried out.
pub(super) fn refused(refused: &ApiError) -> Response<Body> {
    debug!(kind = refused.kind.word(), "{refused}");
    json(status_of(refused), &refused.body())
}

/// Returns the status of the response to a request that was not carried out.
pub(super) fn status_of(refused: &ApiError) -> StatusCode {
    match refused.kind {
        ErrorKind::Usage => StatusCode::BAD_REQUEST,
        ErrorKind::Refused => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::Nothing => StatusCode::CONFLICT,
        ErrorKind::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Failed | ErrorKind::Ended(_) | ErrorKind::Unheard => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// Responds with the result of `work`, which runs on a thread that may block on files and processes.
pub(super) async fn answered<T, F>(work: F) -> Response<Body>
where
    T: serde::Serialize + Send + 'static,
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
{
    made_by(move || work().map(|answer| display_json(&answer))).await
}

/// Responds with the result of `work` without shortening its texts, because `work` has limited them.
pub(super) async fn answered_whole<T, F>(work: F) -> Response<Body>
where
    T: serde::Serialize + Send + 'static,
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
{
    made_by(move || work().map(|answer| full_text(&answer))).await
}

async fn made_by(
    work: impl FnOnce() -> Result<String, ApiError> + Send + 'static,
) -> Response<Body> {
    let done = tokio::task::spawn_blocking(move || match work() {
        Ok(answer) => text(StatusCode::OK, "application/json", answer),
        Err(error) => refused(&error),
    });
    done.await
        .unwrap_or_else(|error| refused(&failed("the response could not be built", &error)))
}

/// Returns the error for a thread that ended without a result, and logs its cause.
pub(super) fn failed(what: &str, cause: &tokio::task::JoinError) -> ApiError {
    warn!("{what}: {cause}");
    ApiError::failed(what)
}

/// Responds for a route of the table that has no handler.
pub(super) async fn not_built() -> Response<Body> {
    text(StatusCode::NOT_IMPLEMENTED, "text/plain; charset=utf-8", "")
}
