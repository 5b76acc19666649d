//! An advisory lock: one holder at a time, freed by the kernel when the holder dies.

use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::dir::{Dir, FileKind, retry};
use crate::error::FsError;
use crate::in_place_file::InPlaceFile;

const FIRST_PAUSE: Duration = Duration::from_micros(60);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// A held lock, released on drop.
#[derive(Debug)]
pub struct Lock {
    file: InPlaceFile,
}

/// The result of waiting for a lock.
#[derive(Debug)]
pub enum LockWait {
    /// The lock was acquired.
    Held(Lock),
    /// Another process held it until the timeout.
    TimedOut,
}

impl Drop for Lock {
    /// Unlocks explicitly: closing the file is not enough, because a child process that another thread is forking at
    /// this moment inherits a copy, and would keep the lock until it executes its program.
    fn drop(&mut self) {
        let _ = retry(|| flock(self.file.fd(), FlockOperation::Unlock));
    }
}

impl Lock {
    /// Waits up to `patience` for the lock file `name` in `dir`.
    ///
    /// A lock file that was removed or replaced meanwhile excludes nobody, so the inode is compared after locking, and
    /// on a mismatch the new file is locked instead.
    pub fn wait(
        dir: &Dir,
        name: &str,
        patience: Duration,
        shared: bool,
    ) -> Result<LockWait, FsError> {
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
                        return Ok(LockWait::Held(Lock { file }));
                    }
                    file = dir.open_in_place(name)?;
                    continue;
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(FsError::io("lock", &dir.join(name), error)),
            }
            if start.elapsed() >= patience {
                return Ok(LockWait::TimedOut);
            }
            std::thread::sleep(pause.min(patience.saturating_sub(start.elapsed())));
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns whether a process holds the lock file `name`. A missing file counts as not held, and is not created.
    pub fn is_held(dir: &Dir, name: &str) -> Result<bool, FsError> {
        let is_file = dir
            .stamp(name)?
            .is_some_and(|stamp| stamp.kind == FileKind::File);
        Ok(is_file
            && matches!(
                Self::wait(dir, name, Duration::ZERO, true)?,
                LockWait::TimedOut
            ))
    }

    /// Returns the lock file itself, in which the holder can keep notes.
    pub fn notes(&self) -> &InPlaceFile {
        &self.file
    }
}
