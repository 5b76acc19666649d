//! The server: routes, responses, streams, and the page.

mod assets;
mod commands;
mod handlers;
mod metrics;
mod middleware;
mod otlp;
mod shared_stream;
mod stream;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use teamster_types::Time;
use tokio::sync::Semaphore;
use tracing::{debug, info};

use crate::api::{Method, ROUTES};
use crate::keys::Keys;
use crate::watch::Hub;
pub use otlp::Otlp;
pub use shared_stream::SharedStreams;

/// The maximum length of a request body: a message has at most 64 KiB, and JSON may escape each byte as six.
const LONGEST_BODY: usize = 512 * 1024;

/// The maximum number of concurrent connections. More would exhaust the process's file descriptors, and no user has as
/// many pages.
const MOST_CONNECTIONS: usize = 256;
/// How long a client has to send its request headers before it is disconnected.
const HEADERS: Duration = Duration::from_secs(5);
/// How long to wait before accepting again after the system ran out of resources.
const OUT_OF_BREATH: Duration = Duration::from_millis(100);

/// The state that every handler uses.
pub struct StudioServer {
    /// All teams.
    pub hub: Arc<Hub>,
    /// The credentials that requests need.
    pub keys: Keys,
    /// The port that it listens on.
    pub port: u16,
    /// The version of teamster.
    pub version: &'static str,
    /// When it was started.
    pub started_at: Time,
    /// Where metrics are sent; `None` when they are not.
    pub otlp: Option<Otlp>,
    /// The connections that several pages of a browser share.
    pub streams: Arc<SharedStreams>,
}

/// Listens on a port of the loopback interface; 0 selects a free one.
pub fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub fn serve(studio: StudioServer, listener: TcpListener) -> std::io::Result<()> {
    // Responses are short and slow work runs on separate threads, so two are enough.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    info!("Studio {} answers on port {}", studio.version, studio.port);
    let studio = Arc::new(studio);
    if let Some(otlp) = studio.otlp.clone() {
        otlp::begin(studio.clone(), otlp)?;
    }
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let service = TowerToHyperService::new(router(studio));
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            // A permit is acquired before accepting: further clients wait in the system's queue, which costs nothing.
            let Ok(place) = room.clone().acquire_owned().await else {
                return Ok(());
            };
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    // Neither exhausted file descriptors nor a client that disconnected at once may end the server.
                    debug!("cannot accept a connection: {error}");
                    tokio::time::sleep(OUT_OF_BREATH).await;
                    continue;
                }
            };
            let service = service.clone();
            tokio::spawn(async move {
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
                if let Err(error) = http.serve_connection(TokioIo::new(socket), service).await {
                    debug!("a connection ended: {error}");
                }
                drop(place);
            });
        }
    })
}

/// Returns every route of the table, behind the middleware that guards them all.
fn router(studio: Arc<StudioServer>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, handler(route.id, route.method));
    }
    router
        .fallback(assets::serve)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(axum::middleware::from_fn_with_state(
            studio.clone(),
            middleware::pass,
        ))
        .with_state(studio)
}

/// Returns the handler of a route. A test requests every route, so a missing handler is found.
fn handler(id: &str, method: Method) -> MethodRouter<Arc<StudioServer>> {
    match (method, id) {
        (Method::Get, "server") => get(handlers::server),
        (Method::Get, "teams") => get(handlers::teams),
        (Method::Get, "team") => get(handlers::team),
        (Method::Get, "timeline") => get(handlers::timeline),
        (Method::Get, "task") => get(handlers::task),
        (Method::Get, "taskDiff") => get(commands::task_diff),
        (Method::Get, "messages") => get(handlers::messages),
        (Method::Get, "journal") => get(handlers::journal),
        (Method::Get, "log") => get(commands::log),
        (Method::Get, "logStream") => get(stream::log),
        (Method::Get, "changes") => get(commands::changes),
        (Method::Get, "diff") => get(commands::diff),
        (Method::Get, "zombies") => get(commands::zombies),
        (Method::Get, "events") => get(stream::events),
        (Method::Get, "sharedStream") => get(shared_stream::open),
        (Method::Get, "openapi") => get(handlers::openapi),
        (Method::Get, "metrics") => get(metrics::metrics),
        (Method::Post, "follow") => post(shared_stream::follow),
        (Method::Post, "send") => post(commands::send),
        (Method::Post, "stop") => post(commands::stop),
        (Method::Post, "drain") => post(commands::drain),
        (Method::Post, "approval") => post(commands::approval),
        (Method::Post, "plan") => post(commands::plan),
        (Method::Post, "answerQuestion") => post(commands::answer_question),
        (Method::Post, "answerRequest") => post(commands::answer_request),
        (Method::Post, "reap") => post(commands::reap),
        (_, _) => get(middleware::not_built),
    }
}
