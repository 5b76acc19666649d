//! A line on its way from a program to whoever hears it. All that are on their way take up only so much memory: a
//! program that prints faster than it is heard waits, as it would for a full pipe.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// So much is on its way at most; one line alone may be longer.
pub const ON_THE_WAY: usize = 1024 * 1024;
/// Whoever waits for room is woken when there is this much again: to wake them for every line would cost more than the
/// line itself.
const ROOM_AGAIN: usize = ON_THE_WAY / 2;
/// What a line takes up besides its bytes.
const EACH: usize = 128;

/// The room for one program's lines.
#[derive(Debug, Default)]
pub(super) struct Room {
    taken: Mutex<usize>,
    freed: Condvar,
}

/// A line, without its end. It gives its room back when it is dropped.
#[derive(Debug)]
pub struct Line {
    bytes: Vec<u8>,
    room: Arc<Room>,
}

impl Line {
    /// A line that is on its way once there is room for it.
    pub(super) fn new(bytes: Vec<u8>, room: &Arc<Room>) -> Self {
        let size = bytes.len() + EACH;
        let taken = room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken > 0 && *taken + size > ON_THE_WAY;
        let waited = room.freed.wait_while(taken, is_full);
        *waited.unwrap_or_else(PoisonError::into_inner) += size;
        Self {
            bytes,
            room: Arc::clone(room),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let taken = self.room.taken.lock();
        let mut taken = taken.unwrap_or_else(PoisonError::into_inner);
        let before = *taken;
        *taken = before.saturating_sub(self.bytes.len() + EACH);
        // A line that is longer than that waits until it is alone.
        if *taken == 0 || before > ROOM_AGAIN && *taken <= ROOM_AGAIN {
            self.room.freed.notify_all();
        }
    }
}

impl Deref for Line {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Line {}
