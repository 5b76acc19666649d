//! Access control: one ruling for every request, before it reaches any other code.
//!
//! | request | must have |
//! |---|---|
//! | any | a `Host` that names this server, exactly once: a foreign name that resolves here (DNS rebinding) is refused |
//! | any | the key, as a cookie or as a bearer token; `/?token=…` is exchanged for the cookie, once |
//! | a page or data | no `Sec-Fetch-Site` other than `same-origin` or `none`, no foreign `Origin` |
//! | a change, or an event stream | the same, and with a cookie at least one of the two headers must be present |
//! | a change | a JSON body, which a form on another page cannot send |
//!
//! A program that sends the key as a bearer token is not a browser that another page could drive, so it may omit the
//! browser headers. If they are present, they are checked.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use crate::keys::Keys;

/// The paths of the event streams. They contain as much data as any response, so other pages must not open them.
const STREAM: &str = "/api/v1/events";
const SHARED_STREAM: &str = "/api/v1/stream";
const TEAM: &str = "/api/v1/teams/";
const LOG_STREAM: &str = "/log/stream";

fn is_stream(path: &str) -> bool {
    path == STREAM
        || path == SHARED_STREAM
        || (path.starts_with(TEAM) && path.ends_with(LOG_STREAM))
}

/// The ruling on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// The request is processed.
    Enter,
    /// The token was correct: the browser gets the key as a cookie, and is redirected to the page without the token in
    /// the URL.
    Welcome {
        /// The cookie's value.
        key: String,
        /// Whether another page linked here. In that case a redirect would not carry the cookie.
        led_here: bool,
    },
    /// The browser already has the key, and a spent token in its URL: it is redirected without the token.
    GoOn,
    /// The request is rejected.
    Refuse(StatusCode, &'static str),
}

/// Returns the name of the cookie. Cookies are shared by all ports of a host, so the name contains the port.
pub fn cookie_name(port: u16) -> String {
    format!("teamster-studio-{port}")
}

/// Rules on a request.
pub fn rule(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    keys: &Keys,
    port: u16,
) -> RequestVerdict {
    let refuse = RequestVerdict::Refuse;
    let Some(host) = one(headers, HOST.as_str()) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "the request needs exactly one Host header",
        );
    };
    let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_ours = |name: &str| ours.iter().any(|host| host == name);
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    if !is_ours(host) || authority.is_some_and(|name| !is_ours(name)) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers for 127.0.0.1 and localhost only",
        );
    }
    let site = headers.get_all("sec-fetch-site").iter();
    let site: Vec<&[u8]> = site.map(axum::http::HeaderValue::as_bytes).collect();
    let mut has_token = false;
    if method == Method::GET && uri.path() == "/" {
        let token = uri.query().and_then(|query| parameter(query, "token"));
        has_token = token.is_some();
        if let Some(key) = token.and_then(|token| keys.exchange(token)) {
            let led_here = site
                .iter()
                .any(|site| *site != b"none" && *site != b"same-origin");
            return RequestVerdict::Welcome {
                key: key.to_owned(),
                led_here,
            };
        }
    }
    let bearer = one(headers, AUTHORIZATION.as_str()).and_then(bearer);
    let has_bearer = bearer.is_some_and(|key| keys.is_key(key));
    if !has_bearer && !has_cookie(headers, keys, port) {
        return refuse(
            StatusCode::UNAUTHORIZED,
            "open the address that `teamster studio` printed; each link works once",
        );
    }
    let origins = headers.get_all(ORIGIN).iter();
    let origins: Vec<&[u8]> = origins.map(axum::http::HeaderValue::as_bytes).collect();
    let own = format!("http://{host}");
    if origins.iter().any(|origin| *origin != own.as_bytes()) {
        return refuse(StatusCode::FORBIDDEN, "the request comes from another page");
    }
    let looks = method == Method::GET || method == Method::HEAD;
    let acts = !looks || is_stream(uri.path());
    let may_be_none = |site: &&&[u8]| !acts && **site == b"none";
    if site
        .iter()
        .any(|site| *site != b"same-origin" && !may_be_none(&site))
    {
        return refuse(StatusCode::FORBIDDEN, "the request comes from another page");
    }
    if acts && !has_bearer && origins.is_empty() && site.is_empty() {
        return refuse(
            StatusCode::FORBIDDEN,
            "the browser does not say which page sent the request",
        );
    }
    if !looks {
        let kind = one(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be application/json",
            );
        }
    }
    if has_token {
        RequestVerdict::GoOn
    } else {
        RequestVerdict::Enter
    }
}

/// Returns the value of a header that occurs exactly once.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    match all.next() {
        None => first.to_str().ok(),
        Some(_) => None,
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

fn has_cookie(headers: &HeaderMap, keys: &Keys, port: u16) -> bool {
    let name = cookie_name(port);
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .any(|(key, value)| key == name && keys.is_key(value))
}

/// Returns a query parameter whose value needs no decoding.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}
