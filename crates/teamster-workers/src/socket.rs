//! The client side of a bridge's socket: JSON lines, one request and one reply each.
//!
//! ```text
//! {"id":1,"tool":"message_send","arguments":{"to":"lead","text":"…"}}
//! {"id":1,"result":{…}}            or  {"id":1,"error":{"message":"…","hint":"…"}}
//! ```
//!
//! A caller on the socket acts as the worker whose bridge listens there; [`bridge`](crate::bridge) checks that the caller
//! runs below that bridge.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_fs::socket::connect;

use crate::tools::{FailureKind, ToolFailure};

/// The variable that holds the path of the socket, for the agent.
pub const SOCKET: &str = "TEAMSTER_SOCKET";
/// The longest line in either direction, in bytes.
pub const LONGEST_LINE: usize = 1024 * 1024;

/// A request on the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SocketRequest {
    /// Identifies the request in its reply.
    #[serde(default)]
    pub(crate) id: Value,
    /// The name of the tool.
    pub(crate) tool: String,
    /// The arguments of the tool.
    #[serde(default)]
    pub(crate) arguments: Value,
}

/// A reply on the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SocketReply {
    /// The id of the request.
    #[serde(default)]
    pub(crate) id: Value,
    /// The result or the error.
    #[serde(flatten)]
    pub(crate) outcome: ReplyOutcome,
}

/// The outcome of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReplyOutcome {
    /// The tool succeeded.
    Result(Value),
    /// The tool failed.
    Error(ToolFailure),
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocketLine {
    /// A whole line, without its line end.
    Whole(Vec<u8>),
    /// A line longer than [`LONGEST_LINE`].
    TooLong,
    /// The end of the stream.
    End,
}

/// Reads one line, and at most [`LONGEST_LINE`] bytes of it.
pub(crate) fn read_line(from: &mut impl BufRead) -> std::io::Result<SocketLine> {
    let mut line = Vec::new();
    let limit = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    from.take(limit + 1).read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(SocketLine::Whole(line));
    }
    Ok(match line.len() {
        0 => SocketLine::End,
        length if length > LONGEST_LINE => SocketLine::TooLong,
        // A caller may close its side right after the request without a line end; the request is still complete.
        _ => SocketLine::Whole(line),
    })
}

/// Calls a tool through the socket of a worker's bridge, and waits for the outcome without a time limit.
pub fn call(socket: &Path, tool: &str, arguments: Value) -> Result<Value, ToolFailure> {
    begin(socket, tool, arguments)?.finish()
}

/// Calls a tool through the socket of a worker's bridge.
pub fn begin(socket: &Path, tool: &str, arguments: Value) -> Result<PendingCall, ToolFailure> {
    let request = SocketRequest {
        id: 1.into(),
        tool: tool.to_owned(),
        arguments,
    };
    let mut line = serde_json::to_vec(&request)
        .map_err(|error| ToolFailure::new(error.to_string(), String::new()))?;
    if line.len() > LONGEST_LINE {
        return Err(ToolFailure::new(
            format!(
                "the request has {} bytes; the limit is {LONGEST_LINE}",
                line.len()
            ),
            "shorten it, or put the rest into a file of your worktree and name the file",
        ));
    }
    line.push(b'\n');
    let mut stream = connect(socket).map_err(|error| lost(&format!("does not listen: {error}")))?;
    // A bridge that refuses the caller sends the reason and closes the connection, possibly before the request is written.
    let unsent = stream.write_all(&line).err();
    Ok(PendingCall { stream, unsent })
}

/// A call whose reply was not read yet.
#[derive(Debug)]
pub struct PendingCall {
    stream: UnixStream,
    /// Why the request did not reach the bridge.
    unsent: Option<std::io::Error>,
}

impl PendingCall {
    /// Returns a handle that cancels the call from another thread, or `None` when the socket cannot be duplicated.
    pub fn canceller(&self) -> Option<CallCanceller> {
        self.stream.try_clone().ok().map(CallCanceller)
    }

    /// Waits for the outcome without a time limit.
    pub fn finish(self) -> Result<Value, ToolFailure> {
        read_reply(self.stream).ok_or_else(|| match self.unsent {
            Some(error) => lost(&format!("does not listen: {error}")),
            None => lost("ended before it answered"),
        })?
    }
}

/// Cancels a call.
#[derive(Debug)]
pub struct CallCanceller(UnixStream);

impl CallCanceller {
    /// Cancels the call: the bridge sees that the caller no longer waits.
    pub fn cancel(self) {
        // This fails only when the other side is already gone.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn lost(what: &str) -> ToolFailure {
    ToolFailure::new(
        format!("the worker's bridge {what}"),
        "the task may be over; say what is left in your last message",
    )
    .of_kind(FailureKind::Unreachable)
}

fn read_reply(stream: UnixStream) -> Option<Result<Value, ToolFailure>> {
    let line = match read_line(&mut BufReader::new(stream)) {
        Ok(SocketLine::Whole(line)) => line,
        Ok(SocketLine::TooLong | SocketLine::End) | Err(_) => return None,
    };
    let reply: SocketReply = serde_json::from_slice(&line).ok()?;
    Some(match reply.outcome {
        ReplyOutcome::Result(value) => Ok(value),
        ReplyOutcome::Error(failure) => Err(failure),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_have_the_documented_form() {
        let reply = |outcome| {
            let reply = SocketReply {
                id: json!(1),
                outcome,
            };
            serde_json::to_value(reply).unwrap()
        };
        assert_eq!(
            reply(ReplyOutcome::Result(json!({ "a": 1 }))),
            json!({ "id": 1, "result": { "a": 1 } })
        );
        assert_eq!(
            reply(ReplyOutcome::Error(ToolFailure::new("no", "do"))),
            json!({ "id": 1, "error": { "kind": "refused", "message": "no", "hint": "do" } })
        );
    }

    #[test]
    fn refusal_is_read_whether_it_comes_before_the_request_or_after_it() {
        let name = format!("refusal-{}", std::process::id());
        let (listener, file) =
            teamster_fs::socket::listen_privately(&std::env::temp_dir(), &name).unwrap();
        let path = file.path();
        let replies: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    let (mut stream, _) = listener.accept().unwrap();
                    let outcome = ReplyOutcome::Error(ToolFailure::new("not yours", "leave"));
                    let id = Value::Null;
                    let mut line = serde_json::to_vec(&SocketReply { id, outcome }).unwrap();
                    line.push(b'\n');
                    stream.write_all(&line).unwrap();
                }
            });
            let calls = (0..200).map(|_| call(path, "team_status", json!({})));
            calls.collect()
        });
        for reply in replies {
            assert_eq!(reply.unwrap_err().message, "not yours");
        }
    }

    #[test]
    fn replies_are_read_as_they_were_written() {
        let line = json!({ "id": 7, "result": { "count": 3, "list": [1.5, null] } }).to_string();
        let reply: SocketReply = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&reply).unwrap(), line);
        let line = json!({ "error": { "message": "no" } }).to_string();
        let reply: SocketReply = serde_json::from_str(&line).unwrap();
        assert!(matches!(reply.outcome, ReplyOutcome::Error(failure) if failure.message == "no"));
    }

    #[test]
    fn lines_are_read_whole_or_refused() {
        let mut from = BufReader::new(&b"one\ntwo"[..]);
        assert_eq!(
            read_line(&mut from).unwrap(),
            SocketLine::Whole(b"one".to_vec())
        );
        assert_eq!(
            read_line(&mut from).unwrap(),
            SocketLine::Whole(b"two".to_vec())
        );
        assert_eq!(read_line(&mut from).unwrap(), SocketLine::End);
        let endless = std::io::repeat(b'x');
        let long = read_line(&mut BufReader::new(endless)).unwrap();
        assert_eq!(long, SocketLine::TooLong);
    }
}
