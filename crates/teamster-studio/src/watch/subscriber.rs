//! One client of the stream of events.
//!
//! Between a desk and a client there is a short queue. Whoever watches files never waits for a client: when its queue is
//! full, the client is cut off with an event that says so, and comes back with the id of the last event that it got.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Bytes;
use http_body::{Body, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::api::Lagging;
use crate::shown::fit_to_see;

/// How many events may be on their way to one client.
const QUEUE: usize = 1_024;

/// The end that events are put into.
#[derive(Clone, Debug)]
pub struct Subscriber {
    queue: mpsc::Sender<Bytes>,
    lags: Arc<AtomicBool>,
}

/// The end that a client reads from.
#[derive(Debug)]
pub struct Stream {
    queue: mpsc::Receiver<Bytes>,
    lags: Arc<AtomicBool>,
    told: bool,
}

/// Both ends of one stream.
pub fn stream() -> (Subscriber, Stream) {
    stream_of(QUEUE)
}

/// The same for so many events that may be on their way.
pub fn stream_of(queue: usize) -> (Subscriber, Stream) {
    let (sender, receiver) = mpsc::channel(queue);
    let lags = Arc::new(AtomicBool::new(false));
    let subscriber = Subscriber {
        queue: sender,
        lags: lags.clone(),
    };
    let stream = Stream {
        queue: receiver,
        lags,
        told: false,
    };
    (subscriber, stream)
}

/// One event in the form of the stream.
pub(super) fn message(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    message_at(name, id.map(|id| id.to_string()).as_deref(), data)
}

/// The same with an id that is no number.
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
        match self.queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lags.store(true, Ordering::Release);
                false
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// The same for whoever has the time to wait for the client. `false`: the client is gone.
    pub(super) fn give(&self, event: Bytes) -> bool {
        self.queue.blocking_send(event).is_ok()
    }

    /// Whether this many more events fit.
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.queue.capacity() > count
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
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(None) if self.lags.load(Ordering::Acquire) && !self.told => {
                self.told = true;
                let lagging = Lagging {
                    message: "events came faster than they were read; the stream goes on from the last one"
                        .to_owned(),
                };
                Poll::Ready(Some(Ok(Frame::data(message("lagging", None, &lagging)))))
            }
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}
