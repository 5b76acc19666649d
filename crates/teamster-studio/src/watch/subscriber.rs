//! One client of an event stream.
//!
//! Between a feed and a client there is a short queue. A thread that watches files never waits for a client: when its
//! queue is full, the client is disconnected with an event that says so, and reconnects with the id of the last event
//! that it received.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use http_body::{Body, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::api::Lagging;
use crate::shown::display_json;

/// The maximum number of events queued for one client.
const QUEUE: usize = 1_024;
/// The maximum number of bytes queued for one client, unless a single event is longer.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How long a client that is catching up may stall before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The sending end of a stream.
#[derive(Clone, Debug)]
pub struct Subscriber {
    queue: mpsc::Sender<Bytes>,
    lags: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    bytes: Arc<AtomicUsize>,
}

/// The receiving end of a stream, which a client reads from.
#[derive(Debug)]
pub struct Stream {
    queue: mpsc::Receiver<Bytes>,
    lags: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    bytes: Arc<AtomicUsize>,
    told: bool,
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
struct QueueFull;

/// Returns both ends of one stream, with room for the usual number of events.
pub fn stream() -> (Subscriber, Stream) {
    stream_of(QUEUE)
}

/// Returns both ends of one stream, with room for this many queued events.
pub fn stream_of(queue: usize) -> (Subscriber, Stream) {
    let (sender, receiver) = mpsc::channel(queue);
    let lags = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let bytes = Arc::new(AtomicUsize::new(0));
    let subscriber = Subscriber {
        queue: sender,
        lags: lags.clone(),
        over: over.clone(),
        bytes: bytes.clone(),
    };
    let stream = Stream {
        queue: receiver,
        lags,
        over,
        bytes,
        told: false,
    };
    (subscriber, stream)
}

/// Encodes one server-sent event.
pub(crate) fn message(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    message_at(name, id.map(|id| id.to_string()).as_deref(), data)
}

/// Encodes one server-sent event, with an arbitrary text as its id.
pub(super) fn message_at(name: &str, id: Option<&str>, data: &impl Serialize) -> Bytes {
    // Compact JSON contains no line breaks, so one `data` line is enough.
    let data = display_json(data);
    match id {
        Some(id) => format!("event: {name}\nid: {id}\ndata: {data}\n\n").into(),
        None => format!("event: {name}\ndata: {data}\n\n").into(),
    }
}

impl Subscriber {
    /// Queues an event. Returns `false` when the client is gone or too slow, and gets nothing more.
    pub(super) fn offer(&self, event: &Bytes) -> bool {
        let sent = self.put(event);
        if sent == Err(QueueFull) {
            self.lags.store(true, Ordering::Release);
        }
        sent == Ok(true)
    }

    /// Queues the last event: the stream ends after it, even if others still send on it.
    pub(super) fn end_with(&self, event: &Bytes) {
        self.over.store(true, Ordering::Release);
        self.offer(event);
    }

    /// Queues an event, waiting while the queue is full. Returns `false` when the client is gone or stalled.
    pub(super) fn give(&self, event: &Bytes) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.put(event) == Err(QueueFull) {
            if Instant::now() >= until {
                return self.offer(event);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        !self.is_gone()
    }

    /// Queues an event if there is room. Returns `false` when the client is gone.
    fn put(&self, event: &Bytes) -> Result<bool, QueueFull> {
        let waiting = self.bytes.fetch_add(event.len(), Ordering::AcqRel);
        let sent = if waiting > 0 && waiting + event.len() > MOST_BYTES {
            Err(QueueFull)
        } else {
            match self.queue.try_send(event.clone()) {
                Ok(()) => return Ok(true),
                Err(TrySendError::Full(_)) => Err(QueueFull),
                Err(TrySendError::Closed(_)) => Ok(false),
            }
        };
        self.bytes.fetch_sub(event.len(), Ordering::AcqRel);
        sent
    }

    /// Returns whether this many more events fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.queue.capacity() > count && self.bytes.load(Ordering::Acquire) < MOST_BYTES
    }

    /// Waits until the client has read everything, and returns whether it did in time.
    pub(super) fn has_read_all(&self) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.bytes.load(Ordering::Acquire) > 0 && !self.is_gone() {
            if Instant::now() >= until {
                self.lags.store(true, Ordering::Release);
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        !self.is_gone()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.queue.poll_recv(context) {
            Poll::Ready(Some(bytes)) => {
                self.bytes.fetch_sub(bytes.len(), Ordering::AcqRel);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            // One sender found the client too slow, so events are missing: the other senders stop as well.
            _ if self.lags.load(Ordering::Acquire) && !self.told => {
                self.told = true;
                let lagging = Lagging {
                    message: "events came faster than they were read; the stream goes on from the last one"
                        .to_owned(),
                };
                Poll::Ready(Some(Ok(Frame::data(message("lagging", None, &lagging)))))
            }
            _ if self.told || self.over.load(Ordering::Acquire) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}
