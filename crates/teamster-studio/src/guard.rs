//! Who is let in: one ruling for every request, made before anything else looks at it.
//!
//! | asked | must have |
//! |---|---|
//! | anything | a `Host` of ours, exactly once: a foreign name that leads here (DNS rebinding) is refused |
//! | anything | the key, as a cookie or as a bearer token; `/?token=…` gets the cookie, once |
//! | a page or data | no `Sec-Fetch-Site` but `same-origin` or `none`, no `Origin` but ours |
//! | a change, or the stream of events | the same, and with a cookie at least one of the two must be there |
//! | a change | a JSON body, which no form of another page can send |
//!
//! A program that sends the key as a bearer token is no browser that somebody else could drive, so it may leave the
//! headers of browsers out. If they are there they count.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};

use crate::keys::Keys;

/// The paths of streams of events, which tell as much as any answer and cannot be asked for by other pages.
const STREAM: &str = "/api/v1/events";
const SHARED_STREAM: &str = "/api/v1/stream";
const TEAM: &str = "/api/v1/teams/";
const LOG_STREAM: &str = "/log/stream";

fn is_stream(path: &str) -> bool {
    path == STREAM
        || path == SHARED_STREAM
        || (path.starts_with(TEAM) && path.ends_with(LOG_STREAM))
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is answered.
    Enter,
    /// The token was right: the browser gets the key as a cookie, and goes on to the page without the token in its
    /// address.
    Welcome {
        /// The cookie's value.
        key: String,
        /// Whether another page led here. Then the cookie would not be sent along with a redirection.
        led_here: bool,
    },
    /// The browser has the key already, and a token in its address that is worth nothing any more: it goes on without.
    GoOn,
    /// It is refused.
    Refuse(StatusCode, &'static str),
}

/// The name of the cookie. Cookies are shared by all ports of a host, so the port is in the name.
pub fn cookie_name(port: u16) -> String {
    format!("teamster-studio-{port}")
}

/// Rules on a request.
pub fn rule(method: &Method, uri: &Uri, headers: &HeaderMap, keys: &Keys, port: u16) -> Ruling {
    let refuse = Ruling::Refuse;
    let Some(host) = one(headers, HOST.as_str()) else {
        return refuse(StatusCode::BAD_REQUEST, "the request needs one Host");
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
            return Ruling::Welcome {
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
            "open the address that `teamster studio` printed; each is good for one browser",
        );
    }
    let origins = headers.get_all(ORIGIN).iter();
    let origins: Vec<&[u8]> = origins.map(axum::http::HeaderValue::as_bytes).collect();
    let own = format!("http://{host}");
    if origins.iter().any(|origin| *origin != own.as_bytes()) {
        return refuse(StatusCode::FORBIDDEN, "another page asks");
    }
    let looks = method == Method::GET || method == Method::HEAD;
    let acts = !looks || is_stream(uri.path());
    let may_be_none = |site: &&&[u8]| !acts && **site == b"none";
    if site
        .iter()
        .any(|site| *site != b"same-origin" && !may_be_none(&site))
    {
        return refuse(StatusCode::FORBIDDEN, "another page asks");
    }
    if acts && !has_bearer && origins.is_empty() && site.is_empty() {
        return refuse(
            StatusCode::FORBIDDEN,
            "the browser does not say which page asks",
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
        Ruling::GoOn
    } else {
        Ruling::Enter
    }
}

/// A header that is there exactly once.
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

/// A parameter of a query whose value needs no decoding.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}
