//! Streams the output of an agent to a client as it is written.
//!
//! Each stream has its own thread, which continues reading when a file system notification arrives. Nothing is read
//! before the client has room for it, so a slow client costs no memory. A stalled client is disconnected and reconnects
//! with the id of the last part that it received, which encodes the file and the position.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use teamster_app::logs::LogFollower;
use teamster_store::FolderWatcher;

use super::subscriber::{Subscriber, message_at};
use crate::api::{Gone, Hello};

/// The poll interval, in case a notification is missed.
const TICK: Duration = Duration::from_secs(1);
/// The poll interval while there is no folder to watch.
const NO_FOLDER: Duration = Duration::from_millis(50);
/// The keep-alive interval: some proxies and browsers consider a silent connection dead.
const QUIET: Duration = Duration::from_secs(15);
/// How long a client may stall before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The maximum number of parts queued for one client.
pub(crate) const PARTS: usize = 8;

/// Streams a log to a client until the client is gone or too slow. Blocks, so it is called on its own thread.
pub fn follow_log(mut log: LogFollower, client: &Subscriber, team: &str) {
    let hello = Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        team: Some(team.to_owned()),
    };
    if !client.offer(&message_at("hello", None, &hello)) {
        return;
    }
    let mut folders = FolderWatcher::new();
    let wanted: BTreeSet<_> = [log.folder()].into();
    let mut spoke = Instant::now();
    loop {
        // Watching starts before reading, so that nothing written in between is missed.
        folders.watch_only(&wanted);
        let is_watched = wanted.iter().all(|folder| folders.is_watched(folder));
        loop {
            if !has_room(client) {
                // The queue is full, so this offer fails, which tells the client that it was disconnected.
                client.offer(&message_at("lines", None, &()));
                return;
            }
            match log.next_part() {
                Ok(Some((id, part))) => {
                    if !client.offer(&message_at("lines", Some(&id), &part)) {
                        return;
                    }
                    spoke = Instant::now();
                }
                Ok(None) => break,
                Err(error) => {
                    let message = error.message().to_owned();
                    client.offer(&message_at("gone", None, &Gone { message }));
                    return;
                }
            }
        }
        if spoke.elapsed() >= QUIET {
            client.offer(&axum::body::Bytes::from_static(b": still here\n\n"));
            spoke = Instant::now();
        }
        folders.wait(if is_watched { TICK } else { NO_FOLDER });
        if client.is_gone() {
            return;
        }
    }
}

/// Waits for room in the client's queue; returns `false` when the client stalls or is gone.
fn has_room(client: &Subscriber) -> bool {
    let until = Instant::now() + PATIENCE;
    while !client.has_room(0) {
        if client.is_gone() || Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}
