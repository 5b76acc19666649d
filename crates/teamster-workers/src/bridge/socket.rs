//! The bridge's own socket: it accepts connections of what the bridge started, reads their requests, and hands each to the
//! bridge's one loop.
//!
//! A connection is a thread that has one request at a time. It waits for the reply of the loop, writes it, and tells the
//! loop whether it could, because a message counts as told only then. Nothing here looks at a team or decides anything.

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

/// The most connections at once, and so the most requests that the bridge has not answered.
const MOST_CONNECTIONS: usize = 16;
/// A connection that says nothing for this long is closed.
const QUIET_CONNECTION: Duration = Duration::from_secs(60);
/// A caller that does not take its reply for this long is given up.
const WRITING: Duration = Duration::from_secs(10);
/// It is looked this often whether a caller still waits for its reply.
const LOOK: Duration = Duration::from_millis(200);

/// A request of the agent, for the bridge's loop.
#[derive(Debug)]
pub(super) struct AgentRequest {
    /// Names the request among all of this bridge.
    pub(super) number: u64,
    /// The tool that is called.
    pub(super) tool: String,
    /// What the tool takes.
    pub(super) arguments: Value,
    reply: Sender<RequestReply>,
}

/// What the loop replies to a request.
#[derive(Debug)]
struct RequestReply {
    outcome: ReplyOutcome,
    /// Whether the loop wants to know that the reply was written.
    is_receipt_wanted: bool,
}

impl AgentRequest {
    /// Replies to the caller. With a receipt wanted, [`BridgeEvent::ReplyWritten`] follows.
    pub(super) fn reply(&self, outcome: Result<Value, ToolFailure>, is_receipt_wanted: bool) {
        let outcome = match outcome {
            Ok(value) => ReplyOutcome::Result(value),
            Err(failure) => ReplyOutcome::Error(failure),
        };
        // A caller that is gone has said so by an event of its own.
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
    /// Begins to listen; what is asked comes as events.
    pub(super) fn open(launch: &str, events: Sender<BridgeEvent>) -> Result<Self, FsError> {
        let folder = layout::launch_socket(launch);
        let (listener, file) = listen_privately(&std::env::temp_dir(), &folder)?;
        std::thread::spawn(move || accept(&listener, &events));
        Ok(Self { file })
    }

    /// Returns where the socket is.
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
                // Too many open files, for example: there may be room again in a moment.
                std::thread::sleep(LOOK);
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

/// One connection, for as long as it lasts.
struct Connection {
    events: Sender<BridgeEvent>,
    numbers: Arc<AtomicU64>,
}

impl Connection {
    fn serve(&self, stream: &UnixStream) {
        let is_limited = stream.set_read_timeout(Some(QUIET_CONNECTION)).is_ok()
            && stream.set_write_timeout(Some(WRITING)).is_ok();
        if !is_limited {
            return;
        }
        if !is_from_below(stream) {
            tracing::warn!("refused a connection of a process that this worker did not start");
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
                        format!("the line is no request: {error}"),
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

    /// Has the bridge answer a request; returns whether the connection is of further use.
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

/// Waits for the reply as long as somebody waits for it; `None` when nobody does, or none will come.
fn wait(stream: &UnixStream, replies: &Receiver<RequestReply>) -> Option<RequestReply> {
    loop {
        match replies.recv_timeout(LOOK) {
            Ok(reply) => return Some(reply),
            Err(RecvTimeoutError::Timeout) if is_hung_up(stream) => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
