//! Exports the metrics of `/metrics` to a collector: OTLP over HTTP, as JSON.
//!
//! It is one request with a known body every few seconds, on a separate thread: a client library with its own runtime,
//! its protocol buffers and its TLS would be larger than all of Studio. Only names and numbers are sent, never a text
//! of an agent. A failure is reported once, until a request succeeds again; it does not affect Studio.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use teamster_app::config::Endpoint;

use super::StudioServer;
use super::metrics::{MetricValue, Metrics, figures};

/// The timeout of a request to the collector.
const PATIENCE: Duration = Duration::from_secs(5);
const PATH: &str = "/v1/metrics";

/// Where metrics are sent, and how often.
#[derive(Clone)]
pub struct Otlp {
    /// The collector.
    pub endpoint: Endpoint,
    /// The interval between two requests.
    pub every: Duration,
    /// Called with the error when sending fails.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Sends metrics until the process ends.
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
                            "cannot send metrics to {endpoint}{PATH}: {error}; retrying every {} s",
                            otlp.every.as_secs_f32()
                        ));
                    }
                    Err(error) => tracing::debug!("still cannot send metrics: {error}"),
                }
                std::thread::sleep(otlp.every);
            }
        })
        .map(drop)
}

/// Returns the message in the JSON encoding of OTLP, in which 64-bit integers are strings.
fn body(figures: &Metrics, version: &str, now: SystemTime) -> Value {
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
                        MetricValue::Count(count) => point["asInt"] = json!(count.to_string()),
                        MetricValue::Amount(amount) => point["asDouble"] = json!(amount),
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
    // The status line is enough; the rest of the response is not read.
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
