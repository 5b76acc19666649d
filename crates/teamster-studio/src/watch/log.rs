//! What an agent prints, to a client, as it is written.
//!
//! Each stream has a thread of its own, which reads on whenever the system says that the folder changed. Nothing is read
//! before the client has room for it, so a slow client costs no memory; one that takes nothing at all is cut off and
//! comes back with the id of the last part that it got, which says where in which file that ended.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use teamster_app::logs::LogFollower;
use teamster_store::Folders;

use super::subscriber::{Subscriber, message_at};
use crate::api::{Gone, Hello};

/// A notice may be missed; so often is looked without one.
const TICK: Duration = Duration::from_secs(1);
/// How often is looked while there is no folder to be told about.
const NO_FOLDER: Duration = Duration::from_millis(50);
/// A connection that nothing is sent on looks dead to some proxies and browsers.
const QUIET: Duration = Duration::from_secs(15);
/// So long a client may take nothing.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Parts that may be on their way to one client.
pub(crate) const PARTS: usize = 8;

/// Tells a client what a log says, until the client is gone or too slow. Called on a thread of its own.
pub fn follow_log(mut log: LogFollower, client: &Subscriber, team: &str) {
    let hello = Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        team: Some(team.to_owned()),
    };
    if !client.offer(&message_at("hello", None, &hello)) {
        return;
    }
    let mut folders = Folders::new();
    let wanted: BTreeSet<_> = [log.folder()].into();
    let mut spoke = Instant::now();
    loop {
        // Watched before it is looked: what is written in between is noticed.
        folders.watch_only(&wanted);
        let is_watched = wanted.iter().all(|folder| folders.is_watched(folder));
        loop {
            if !has_room(client) {
                // Nothing fits, so this is what tells the client that it was cut off.
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

/// Waits for the client to take something, if need be; `false` when it does not, or is gone.
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
