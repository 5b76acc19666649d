//! The figures of `/metrics`, sent to a collector: OTLP over HTTP, as JSON.
//!
//! It is one request with a known body every some seconds, from a thread of its own: a client library with its own
//! runtime, its protocol buffers and its TLS would be larger than all of Studio. What is sent are names and numbers, never
//! a text of an agent. Whatever goes wrong is told once, until it goes well again; Studio does not notice.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use teamster_app::config::Endpoint;

use super::StudioServer;
use super::metrics::{Figure, Figures, figures};

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
const PATH: &str = "/v1/metrics";

/// Where figures are sent, and how often.
#[derive(Clone)]
pub struct Otlp {
    /// Where to.
    pub endpoint: Endpoint,
    /// How often.
    pub every: Duration,
    /// Told when they do not arrive.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Sends until the process ends.
pub(super) fn begin(studio: Arc<StudioServer>, otlp: Otlp) -> std::io::Result<()> {
    let sending = std::thread::Builder::new().name("otlp".to_owned());
    sending
        .spawn(move || {
            let mut has_failed = false;
            loop {
                let body = body(&figures(&studio), studio.version, SystemTime::now()).to_string();
                match send(&otlp.endpoint, &body) {
                    Ok(()) => has_failed = false,
                    Err(error) if !has_failed => {
                        has_failed = true;
                        let endpoint = &otlp.endpoint;
                        (otlp.tell)(&format!(
                            "figures do not arrive at {endpoint}{PATH}: {error}; it is tried again every {} s",
                            otlp.every.as_secs_f32()
                        ));
                    }
                    Err(error) => tracing::debug!("figures still do not arrive: {error}"),
                }
                std::thread::sleep(otlp.every);
            }
        })
        .map(drop)
}

/// The message, in the JSON form of OTLP: 64-bit numbers are texts.
fn body(figures: &Figures, version: &str, now: SystemTime) -> Value {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = since.as_nanos().to_string();
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let metrics: Vec<Value> = figures
        .iter()
        .map(|(name, (help, rows))| {
            let points: Vec<Value> = rows
                .iter()
                .map(|(labels, figure)| {
                    let labels: Vec<Value> =
                        labels.iter().map(|(key, value)| text(key, value)).collect();
                    let mut point = json!({ "attributes": labels, "timeUnixNano": nanos });
                    match figure {
                        Figure::Count(count) => point["asInt"] = json!(count.to_string()),
                        Figure::Amount(amount) => point["asDouble"] = json!(amount),
                    }
                    point
                })
                .collect();
            json!({ "name": name, "description": help, "gauge": { "dataPoints": points } })
        })
        .collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": [text("service.name", "teamster"), text("service.version", version)] },
        "scopeMetrics": [{ "scope": { "name": "teamster.studio", "version": version }, "metrics": metrics }],
    }] })
}

/// Sends one message.
fn send(endpoint: &Endpoint, body: &str) -> std::io::Result<()> {
    let mut last = std::io::Error::other("there is no such host");
    for address in endpoint.addresses()? {
        match send_to(endpoint, address, body) {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn send_to(endpoint: &Endpoint, address: SocketAddr, body: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (authority, path) = (endpoint.authority(), endpoint.path());
    let head = format!(
        "POST {path}{PATH} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         User-Agent: teamster\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    // The first line is enough; a collector that says more is not heard to its end.
    let mut answer = Vec::new();
    let _ = stream.take(1024).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap_or_default();
    if answer.starts_with("HTTP/1.") && status.starts_with('2') {
        return Ok(());
    }
    Err(std::io::Error::other(match status {
        "" => "it does not answer".to_owned(),
        status => {
            let status: String = status
                .chars()
                .filter(char::is_ascii_digit)
                .take(3)
                .collect();
            format!("it answers {status}")
        }
    }))
}
