//! One client of the stream of events.
//!
//! Between a feed and a client there is a short queue. Whoever watches files never waits for a client: when its queue is
//! full, the client is cut off with an event that says so, and comes back with the id of the last event that it got.

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
use crate::shown::fit_to_see;

/// How many events may be on their way to one client.
const QUEUE: usize = 1_024;
/// How many bytes may be on their way to one client, unless a single event is longer.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// So long a client that is told what it missed may take for the next event.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The end that events are put into.
#[derive(Clone, Debug)]
pub struct Subscriber {
    queue: mpsc::Sender<Bytes>,
    lags: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    bytes: Arc<AtomicUsize>,
}

/// The end that a client reads from.
#[derive(Debug)]
pub struct Stream {
    queue: mpsc::Receiver<Bytes>,
    lags: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    bytes: Arc<AtomicUsize>,
    told: bool,
}

/// The queue has no room.
#[derive(Debug, PartialEq, Eq)]
struct Full;

/// Returns both ends of one stream, with room for the usual number of events.
pub fn stream() -> (Subscriber, Stream) {
    stream_of(QUEUE)
}

/// Returns both ends of one stream, with room for so many events on their way.
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

/// Returns one event in the form of the stream.
pub(crate) fn message(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    message_at(name, id.map(|id| id.to_string()).as_deref(), data)
}

/// Returns one event in the form of the stream, with an id that may be any text.
pub(super) fn message_at(name: &str, id: Option<&str>, data: &impl Serialize) -> Bytes {
    // JSON on one line has no line end in it, so one `data` line is enough.
    let data = fit_to_see(data);
    match id {
        Some(id) => format!("event: {name}\nid: {id}\ndata: {data}\n\n").into(),
        None => format!("event: {name}\ndata: {data}\n\n").into(),
    }
}

impl Subscriber {
    /// Puts an event on its way. `false`: the client is gone or too slow, and gets nothing more.
    pub(super) fn offer(&self, event: &Bytes) -> bool {
        let sent = self.put(event);
        if sent == Err(Full) {
            self.lags.store(true, Ordering::Release);
        }
        sent == Ok(true)
    }

    /// The last event: the stream ends behind it, whoever else would tell something on it.
    pub(super) fn end_with(&self, event: &Bytes) {
        self.over.store(true, Ordering::Release);
        self.offer(event);
    }

    /// Puts an event on its way, and waits for the client where its queue is full. `false`: it is gone, or does not read at all.
    pub(super) fn give(&self, event: &Bytes) -> bool {
        let until = Instant::now() + PATIENCE;
        while self.put(event) == Err(Full) {
            if Instant::now() >= until {
                return self.offer(event);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        !self.is_gone()
    }

    /// Puts an event into the queue, if it has room. `false`: the client is gone.
    fn put(&self, event: &Bytes) -> Result<bool, Full> {
        let waiting = self.bytes.fetch_add(event.len(), Ordering::AcqRel);
        let sent = if waiting > 0 && waiting + event.len() > MOST_BYTES {
            Err(Full)
        } else {
            match self.queue.try_send(event.clone()) {
                Ok(()) => return Ok(true),
                Err(TrySendError::Full(_)) => Err(Full),
                Err(TrySendError::Closed(_)) => Ok(false),
            }
        };
        self.bytes.fetch_sub(event.len(), Ordering::AcqRel);
        sent
    }

    /// Whether this many more events fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.queue.capacity() > count && self.bytes.load(Ordering::Acquire) < MOST_BYTES
    }

    /// Waits until it has read everything; whether it did in time.
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
            // One of those who tell it things found it too slow, so there is a gap: the others do not go on either.
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
