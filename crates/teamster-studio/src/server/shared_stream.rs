//! One connection for all pages of a browser.
//!
//! A browser has six connections to a server, for all its tabs together. Its pages therefore share one, which carries a
//! channel for each stream that a page follows. A channel is a stream like any other, with its own queue, so a slow
//! page is disconnected alone. Its events are written to the connection one after the other, each with the channel's
//! number in a field that readers of server-sent events ignore unless they know it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use teamster_app::ErrorKind;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::StudioServer;
use super::commands::body;
use super::middleware::{json, refused, status_of, text};
use super::stream::{log_events, team_events};
use crate::api::{ChannelEnd, ChannelRefused, FollowBody, Following, OpenChannel, SharedHello};
use crate::error::ApiError;
use crate::keys::Keys;
use crate::watch::{Stream, message};

/// How many events of all channels may be queued for the connection. Further events wait in their channel's queue.
const QUEUE: usize = 16;
/// The maximum number of channels per connection: more than any user has tabs.
const MOST_CHANNELS: usize = 512;

/// The connections that are shared by several pages, by id.
#[derive(Debug, Default)]
pub struct SharedStreams {
    open: Mutex<HashMap<String, SharedStream>>,
}

/// One connection, and the tasks that write to it.
#[derive(Debug)]
struct SharedStream {
    queue: mpsc::Sender<Bytes>,
    channels: HashMap<u32, AbortHandle>,
}

impl SharedStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, SharedStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_channel(&self, stream: &str, channel: u32) {
        if let Some(stream) = self.lock().get_mut(stream) {
            stream.channels.remove(&channel);
        }
    }
}

/// The end of a shared stream that the browser reads from. Dropping it closes every channel.
#[derive(Debug)]
struct SharedBody {
    queue: mpsc::Receiver<Bytes>,
    name: String,
    streams: Arc<SharedStreams>,
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.queue.poll_recv(context);
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Drop for SharedBody {
    fn drop(&mut self) {
        let stream = self.streams.lock().remove(&self.name);
        for (_, channel) in stream.into_iter().flat_map(|stream| stream.channels) {
            channel.abort();
        }
    }
}

pub(super) async fn open(State(studio): State<Arc<StudioServer>>) -> Response<Body> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    // The id is random, not a counter: after a restart of the server, a client must not find another client's stream.
    let name = Keys::random();
    let hello = message(
        "hello",
        None,
        &SharedHello {
            stream: name.clone(),
        },
    );
    if sender.try_send(hello).is_err() {
        return refused(&ApiError::failed("the stream could not be opened"));
    }
    let stream = SharedStream {
        queue: sender,
        channels: HashMap::new(),
    };
    studio.streams.lock().insert(name.clone(), stream);
    let body = SharedBody {
        queue: receiver,
        name,
        streams: studio.streams.clone(),
    };
    text(StatusCode::OK, "text/event-stream", Body::new(body))
}

pub(super) async fn follow(
    State(studio): State<Arc<StudioServer>>,
    Path(name): Path<String>,
    bytes: Bytes,
) -> Response<Body> {
    match body(&bytes).and_then(|wanted| change(&studio, &name, wanted)) {
        Ok(following) => json(StatusCode::OK, &following),
        Err(error) => refused(&error),
    }
}

fn change(
    studio: &Arc<StudioServer>,
    name: &str,
    wanted: FollowBody,
) -> Result<Following, ApiError> {
    let mut streams = studio.streams.lock();
    let stream = streams
        .get_mut(name)
        .ok_or_else(|| ApiError::not_found("there is no shared stream of that name"))?;
    for channel in wanted.close {
        if let Some(closed) = stream.channels.remove(&channel) {
            closed.abort();
        }
    }
    if stream.channels.len() + wanted.open.len() > MOST_CHANNELS {
        return Err(ApiError::new(
            ErrorKind::Conflict,
            format!("a shared stream has at most {MOST_CHANNELS} channels"),
        ));
    }
    for opened in wanted.open {
        let number = opened.channel;
        let told = tell(
            studio.clone(),
            name.to_owned(),
            stream.queue.clone(),
            opened,
        );
        let task = tokio::spawn(told).abort_handle();
        if let Some(replaced) = stream.channels.insert(number, task) {
            replaced.abort();
        }
    }
    Ok(Following {
        channels: stream.channels.len(),
    })
}

/// Writes the events of a channel to the connection until the channel ends.
async fn tell(
    studio: Arc<StudioServer>,
    name: String,
    queue: mpsc::Sender<Bytes>,
    opened: OpenChannel,
) {
    let channel = opened.channel;
    let last = match events_of(studio.clone(), opened).await {
        Ok(mut events) => {
            while let Some(Ok(frame)) = next_frame(&mut events).await {
                let Ok(event) = frame.into_data() else {
                    continue;
                };
                if queue.send(on_channel(channel, &event)).await.is_err() {
                    return;
                }
            }
            message("end", None, &ChannelEnd { channel })
        }
        Err(error) => {
            let refused = ChannelRefused {
                status: status_of(&error).as_u16(),
                error: error.body().error,
            };
            message("refused", None, &refused)
        }
    };
    studio.streams.forget_channel(&name, channel);
    // If the connection is gone, there is no client left to notify.
    let _ = queue.send(on_channel(channel, &last)).await;
}

async fn events_of(studio: Arc<StudioServer>, opened: OpenChannel) -> Result<Stream, ApiError> {
    match (opened.team, opened.worker) {
        (Some(team), Some(worker)) => log_events(team, worker, opened.task, opened.last).await,
        (None, Some(_)) => Err(ApiError::new(
            ErrorKind::Usage,
            "the log of a worker needs its team",
        )),
        (team, None) => {
            let after = opened.last.and_then(|last| last.parse().ok());
            team_events(studio, team, after, opened.overview).await
        }
    }
}

async fn next_frame(events: &mut Stream) -> Option<Result<Frame<Bytes>, std::convert::Infallible>> {
    poll_fn(|context| Pin::new(&mut *events).poll_frame(context)).await
}

/// Returns an event with its channel's number. Every frame of a stream is one whole event.
fn on_channel(channel: u32, event: &Bytes) -> Bytes {
    let mut marked = format!("channel: {channel}\n").into_bytes();
    marked.extend_from_slice(event);
    marked.into()
}
