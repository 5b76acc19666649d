//! Reading the standard input with a limit on size and time.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dir::retry;

const CHUNK: usize = 16 * 1024;

/// The input that was read, and why reading ended.
#[derive(Debug)]
pub struct StdinInput {
    /// The bytes up to the end of the input, the size cap or the time limit.
    pub bytes: Vec<u8>,
    /// Why reading ended.
    pub end: InputEnd,
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputEnd {
    /// The end of the input was reached.
    Whole,
    /// There is more input than the size cap.
    TooLong,
    /// The writer neither wrote nor closed its end within the time limit.
    TimedOut,
    /// The input cannot be read.
    Unreadable,
}

/// Reads the standard input to its end: at most `cap` bytes, for at most `limit`.
pub fn read(cap: usize, limit: Duration) -> StdinInput {
    let stdin = std::io::stdin();
    let deadline = Instant::now() + limit;
    let mut bytes = vec![0; CHUNK];
    let mut filled = 0;
    let end = loop {
        if filled > cap {
            break InputEnd::TooLong;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match retry(|| poll(&mut fds, Some(&wait))) {
            Ok(0) => break InputEnd::TimedOut,
            Ok(_) => {}
            Err(_) => break InputEnd::Unreadable,
        }
        if filled == bytes.len() {
            bytes.resize(filled * 2, 0);
        }
        match retry(|| rustix::io::read(&stdin, &mut bytes[filled..])) {
            Ok(0) => break InputEnd::Whole,
            Ok(count) => filled += count,
            Err(_) => break InputEnd::Unreadable,
        }
    };
    bytes.truncate(filled);
    StdinInput { bytes, end }
}
