//! The page and its files.

use std::fmt::Write as _;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::http::{Method, Response, StatusCode, Uri};

use super::middleware::text;
use crate::api::ROUTES;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Serves a file of the page. Any other path outside the API serves the page itself, which does its own routing.
pub(super) async fn serve(method: Method, uri: Uri) -> Response<Body> {
    if method != Method::GET && method != Method::HEAD {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain; charset=utf-8",
            "",
        );
    }
    let path = uri.path();
    if let Some((name, bytes)) = file(path) {
        return with_bytes(name, bytes);
    }
    if path.starts_with("/api/") || path.contains('.') {
        return text(
            StatusCode::NOT_FOUND,
            "text/plain; charset=utf-8",
            "there is nothing here",
        );
    }
    match file("/index.html") {
        Some((name, bytes)) => with_bytes(name, bytes),
        None => text(StatusCode::OK, "text/html; charset=utf-8", without_page()),
    }
}

fn file(path: &str) -> Option<(&'static str, &'static [u8])> {
    let found = FILES.iter().find(|(name, _)| *name == path);
    found.map(|(name, bytes)| (*name, *bytes))
}

fn with_bytes(name: &str, bytes: &'static [u8]) -> Response<Body> {
    let mut answer = text(StatusCode::OK, kind_of(name), Bytes::from_static(bytes));
    // File names in this folder contain a content hash, so the files never change.
    if name.starts_with("/assets/") {
        answer.headers_mut().insert(
            CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=31536000, immutable"),
        );
    }
    answer
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "webmanifest" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Returns the page of a binary that was built without the web page; the API is complete.
fn without_page() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>teamster studio</title><h1>teamster studio</h1>\
         <p>This binary was built without its page. The API is here; <code>teamster top</code> shows the teams in a terminal.</p><ul>",
    );
    for route in ROUTES {
        let _ = write!(
            page,
            "<li><code>{} {}</code> {}</li>",
            route.method.word().to_uppercase(),
            route.path,
            route.about
        );
    }
    page.push_str("</ul></html>");
    page
}
