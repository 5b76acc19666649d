//! The server: routes, answers, the stream, the page.

mod answers;
mod assets;
mod commands;
mod door;
mod metrics;
mod stream;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use teamster_types::Time;

use crate::api::{Method, ROUTES};
use crate::hands::Hands;
use crate::keys::Keys;
use crate::watch::Hub;

/// The longest body that is taken: a message has at most 64 KiB, and JSON may write each byte as six.
const LONGEST_BODY: usize = 512 * 1024;

/// What every answer is made from.
pub struct Studio {
    /// All teams.
    pub hub: Arc<Hub>,
    /// What a page can do.
    pub hands: Arc<dyn Hands>,
    /// Who may ask.
    pub keys: Keys,
    /// Where it listens.
    pub port: u16,
    /// The version of teamster.
    pub version: &'static str,
    /// When it was started.
    pub started_at: Time,
}

/// Listens on a port of the loopback; 0 takes any that is free.
pub fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub fn serve(studio: Studio, listener: TcpListener) -> std::io::Result<()> {
    // Answers are short and what takes long runs on threads of its own, so two are enough.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router(Arc::new(studio))).await
    })
}

/// Every route of the table, behind the one door.
fn router(studio: Arc<Studio>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, handler(route.id, route.method));
    }
    router
        .fallback(assets::serve)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(axum::middleware::from_fn_with_state(
            studio.clone(),
            door::pass,
        ))
        .with_state(studio)
}

/// Whoever answers a route. A route without one would be refused by the test that asks for all of them.
fn handler(id: &str, method: Method) -> MethodRouter<Arc<Studio>> {
    match (method, id) {
        (Method::Get, "server") => get(answers::server),
        (Method::Get, "teams") => get(answers::teams),
        (Method::Get, "team") => get(answers::team),
        (Method::Get, "timeline") => get(answers::timeline),
        (Method::Get, "task") => get(answers::task),
        (Method::Get, "messages") => get(answers::messages),
        (Method::Get, "journal") => get(answers::journal),
        (Method::Get, "log") => get(commands::log),
        (Method::Get, "changes") => get(commands::changes),
        (Method::Get, "diff") => get(commands::diff),
        (Method::Get, "findings") => get(commands::findings),
        (Method::Get, "zombies") => get(commands::zombies),
        (Method::Get, "events") => get(stream::events),
        (Method::Get, "openapi") => get(answers::openapi),
        (Method::Get, "metrics") => get(metrics::metrics),
        (Method::Post, "send") => post(commands::send),
        (Method::Post, "stop") => post(commands::stop),
        (Method::Post, "drain") => post(commands::drain),
        (Method::Post, "approval") => post(commands::approval),
        (Method::Post, "reap") => post(commands::reap),
        (_, _) => get(door::not_built),
    }
}
