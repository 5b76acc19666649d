//! An advisory lock: one holder at a time, freed by the kernel when the holder dies.

use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::dir::{Dir, FileKind, retry};
use crate::error::FsError;
use crate::in_place_file::InPlaceFile;

const FIRST_PAUSE: Duration = Duration::from_micros(60);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// A held lock. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Lock {
    file: InPlaceFile,
}

/// How waiting for a lock ended.
#[derive(Debug)]
pub enum Waited {
    /// It is ours.
    Held(Lock),
    /// Somebody else had it all the time.
    TimedOut,
}

impl Drop for Lock {
    /// Closing the file is not enough: a program that another thread is starting at this moment has a copy of it until
    /// it runs, and would keep the lock for so long.
    fn drop(&mut self) {
        let _ = retry(|| flock(self.file.fd(), FlockOperation::Unlock));
    }
}

impl Lock {
    /// Waits up to `patience` for the lock file `name` in `dir`.
    ///
    /// A lock file that was removed or replaced while we waited locks nobody out any more, so the inode is compared
    /// after locking, and the new file is tried instead.
    pub fn wait(
        dir: &Dir,
        name: &str,
        patience: Duration,
        shared: bool,
    ) -> Result<Waited, FsError> {
        let operation = if shared {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut file = dir.open_in_place(name)?;
        loop {
            match retry(|| flock(file.fd(), operation)) {
                Ok(()) => {
                    let there = dir.stamp(name)?;
                    if there.is_some_and(|there| there.inode == file.stamp().inode) {
                        return Ok(Waited::Held(Lock { file }));
                    }
                    file = dir.open_in_place(name)?;
                    continue;
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(FsError::io("lock", &dir.join(name), error)),
            }
            if start.elapsed() >= patience {
                return Ok(Waited::TimedOut);
            }
            std::thread::sleep(pause.min(patience.saturating_sub(start.elapsed())));
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns whether a process holds the lock file `name`. A file that is missing is held by nobody, and is not made.
    pub fn is_held(dir: &Dir, name: &str) -> Result<bool, FsError> {
        let is_file = dir
            .stamp(name)?
            .is_some_and(|stamp| stamp.kind == FileKind::File);
        Ok(is_file
            && matches!(
                Self::wait(dir, name, Duration::ZERO, true)?,
                Waited::TimedOut
            ))
    }

    /// Returns the lock file itself, in which the holder leaves its notes.
    pub fn notes(&self) -> &InPlaceFile {
        &self.file
    }
}
