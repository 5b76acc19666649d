//! The bridge's own socket: it accepts connections from the bridge's descendant processes, reads their requests, and passes
//! them to the bridge's event loop.
//!
//! Each connection is a thread with one request at a time. It waits for the loop's reply, writes it, and reports whether
//! that succeeded, because a message counts as delivered only then. This module makes no decisions about the team.

use std::io::{BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;
use teamster_fs::socket::{SocketFile, is_from_below, is_hung_up, listen_privately};
use teamster_fs::{FsError, layout};

use super::BridgeEvent;
use crate::socket::{ReplyOutcome, SocketLine, SocketReply, SocketRequest, read_line};
use crate::tools::ToolFailure;

/// The most connections at once, and so the most unanswered requests.
const MOST_CONNECTIONS: usize = 16;
/// A connection without a request for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a caller may stall before writing its reply is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The poll interval for whether a caller still waits for its reply.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A request of the agent to the bridge's event loop.
#[derive(Debug)]
pub(super) struct AgentRequest {
    /// Identifies the request among all requests to this bridge.
    pub(super) number: u64,
    /// The tool that is called.
    pub(super) tool: String,
    /// The arguments of the tool.
    pub(super) arguments: Value,
    reply: Sender<RequestReply>,
}

/// The event loop's reply to a request.
#[derive(Debug)]
struct RequestReply {
    outcome: ReplyOutcome,
    /// Whether the event loop wants to be notified that the reply was written.
    is_receipt_wanted: bool,
}

impl AgentRequest {
    /// Replies to the caller. With a receipt wanted, [`BridgeEvent::ReplyWritten`] follows.
    pub(super) fn reply(&self, outcome: Result<Value, ToolFailure>, is_receipt_wanted: bool) {
        let outcome = match outcome {
            Ok(value) => ReplyOutcome::Result(value),
            Err(failure) => ReplyOutcome::Error(failure),
        };
        // A caller that is gone was already reported by an event of its own.
        let _ = self.reply.send(RequestReply {
            outcome,
            is_receipt_wanted,
        });
    }
}

/// The socket of one bridge. Dropping it removes it.
#[derive(Debug)]
pub(super) struct WorkerSocket {
    file: SocketFile,
}

impl WorkerSocket {
    /// Starts to listen; requests arrive as events.
    pub(super) fn open(launch: &str, events: Sender<BridgeEvent>) -> Result<Self, FsError> {
        let folder = layout::launch_socket(launch);
        let (listener, file) = listen_privately(&std::env::temp_dir(), &folder)?;
        std::thread::spawn(move || accept(&listener, &events));
        Ok(Self { file })
    }

    /// Returns the path of the socket.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }
}

fn accept(listener: &UnixListener, events: &Sender<BridgeEvent>) {
    let open = Arc::new(AtomicUsize::new(0));
    let numbers = Arc::new(AtomicU64::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("cannot accept a connection: {error}");
                // For example, there are too many open files: a retry may succeed in a moment.
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            let failure = ToolFailure::new(
                format!("there are {MOST_CONNECTIONS} connections already"),
                "wait for the answers of earlier requests",
            );
            refuse(&stream, failure);
            continue;
        }
        let connection = Connection {
            events: events.clone(),
            numbers: Arc::clone(&numbers),
        };
        let open = Arc::clone(&open);
        std::thread::spawn(move || {
            connection.serve(&stream);
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn refuse(stream: &UnixStream, failure: ToolFailure) {
    let _ = write_reply(stream, Value::Null, ReplyOutcome::Error(failure));
}

fn write_reply(mut stream: &UnixStream, id: Value, outcome: ReplyOutcome) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&SocketReply { id, outcome })?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// One open connection.
struct Connection {
    events: Sender<BridgeEvent>,
    numbers: Arc<AtomicU64>,
}

impl Connection {
    fn serve(&self, stream: &UnixStream) {
        let is_limited = stream.set_read_timeout(Some(IDLE_TIMEOUT)).is_ok()
            && stream.set_write_timeout(Some(WRITE_TIMEOUT)).is_ok();
        if !is_limited {
            return;
        }
        if !is_from_below(stream) {
            tracing::warn!("refused a connection from a process that this worker did not start");
            let failure = ToolFailure::new(
                "this socket is for what its worker started",
                "use `teamster` commands from a terminal of your own",
            );
            return refuse(stream, failure);
        }
        let mut lines = BufReader::new(stream);
        loop {
            let request = match read_line(&mut lines) {
                Ok(SocketLine::Whole(line)) => serde_json::from_slice::<SocketRequest>(&line),
                Ok(SocketLine::TooLong) => {
                    let failure = ToolFailure::new("the request is too long", "shorten it");
                    return refuse(stream, failure);
                }
                Ok(SocketLine::End) | Err(_) => return,
            };
            let is_served = match request {
                Ok(request) => self.answer(stream, request),
                Err(error) => {
                    let failure = ToolFailure::new(
                        format!("the line is not a request: {error}"),
                        r#"a request looks like {"id":1,"tool":"team_status","arguments":{}}"#,
                    );
                    write_reply(stream, Value::Null, ReplyOutcome::Error(failure)).is_ok()
                }
            };
            if !is_served {
                return;
            }
        }
    }

    /// Passes a request to the bridge and writes its reply; returns whether the connection stays open.
    fn answer(&self, stream: &UnixStream, request: SocketRequest) -> bool {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (reply, replies) = channel();
        let asked = AgentRequest {
            number,
            tool: request.tool,
            arguments: request.arguments,
            reply,
        };
        if self.events.send(BridgeEvent::Requested(asked)).is_err() {
            return false;
        }
        let Some(reply) = wait(stream, &replies) else {
            let _ = self.events.send(BridgeEvent::CallerGone(number));
            return false;
        };
        let is_written = write_reply(stream, request.id, reply.outcome).is_ok();
        if reply.is_receipt_wanted {
            let _ = self
                .events
                .send(BridgeEvent::ReplyWritten { number, is_written });
        }
        is_written
    }
}

/// Waits for the reply while the caller is connected; `None` when the caller is gone or no reply will come.
fn wait(stream: &UnixStream, replies: &Receiver<RequestReply>) -> Option<RequestReply> {
    loop {
        match replies.recv_timeout(POLL_INTERVAL) {
            Ok(reply) => return Some(reply),
            Err(RecvTimeoutError::Timeout) if is_hung_up(stream) => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
