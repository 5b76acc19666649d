//! Fail-points for tests: a thread "dies" before its n-th file operation. Compiled out of release builds.
//!
//! From the n-th operation on every file operation of that thread fails, so that clean-up code cannot run and the disk
//! is left as after a killed process. A write that is hit may leave a part of its bytes.
//!
//! A whole process can also be made to kill itself with SIGKILL once a journal has reached a given event, and its wall
//! clock can be shifted while it runs.

#[cfg(debug_assertions)]
mod armed {
    use std::cell::Cell;
    use std::io;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    static LAST_EVENT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// Makes this process kill itself once it has written or read the event with this number or a later one.
    pub fn die_at_event(seq: u64) {
        LAST_EVENT.store(seq, Ordering::SeqCst);
    }

    /// Records that the journal has reached this event, and kills the process if [`die_at_event`] asked for it.
    pub fn reached_event(seq: u64) {
        if seq >= LAST_EVENT.load(Ordering::SeqCst) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }

    static IS_MERGE_UNCHECKED: AtomicBool = AtomicBool::new(false);

    /// Disables the host's verification that a task reported as merged really is merged, so that a test can show why it
    /// is needed.
    pub fn leave_merges_unchecked() {
        IS_MERGE_UNCHECKED.store(true, Ordering::SeqCst);
    }

    /// Returns whether a host verifies that a task reported as merged really is merged.
    pub fn are_merges_checked() -> bool {
        !IS_MERGE_UNCHECKED.load(Ordering::SeqCst)
    }

    static CLOCK_OFFSET: OnceLock<PathBuf> = OnceLock::new();

    /// Shifts this process's wall clock by the number of milliseconds in a file, which is read on every use of the
    /// clock.
    pub fn move_clock_by(file: PathBuf) {
        let _ = CLOCK_OFFSET.set(file);
    }

    /// Returns the shift of the wall clock in milliseconds; 0 when the file is missing or holds no number.
    pub fn clock_offset() -> i64 {
        let text = CLOCK_OFFSET
            .get()
            .and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes this thread fail after `steps` more file operations.
    pub fn die_after(steps: u64) {
        LEFT.set(Some(steps));
    }

    /// Ends the simulated death of this thread, and returns whether it had died.
    pub fn revive() -> bool {
        LEFT.take() == Some(0)
    }

    pub(crate) fn step() -> io::Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("killed by a fail-point")),
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }

    /// Returns how many bytes of a write get through when the thread dies during it.
    pub(crate) fn torn(length: usize) -> Option<usize> {
        (LEFT.get() == Some(0)).then_some(length / 2)
    }

    /// Returns how many bytes of an in-place write get through: the kernel copies page by page, and a process is killed
    /// between two pages.
    pub(crate) fn torn_in_place(offset: u64, length: usize) -> Option<usize> {
        const PAGE: u64 = 4096;
        let half = offset + length as u64 / 2;
        let whole_pages = (half / PAGE * PAGE).saturating_sub(offset);
        (LEFT.get() == Some(0)).then(|| usize::try_from(whole_pages).unwrap_or(0))
    }
}

#[cfg(debug_assertions)]
pub use armed::{
    are_merges_checked, clock_offset, die_after, die_at_event, leave_merges_unchecked,
    move_clock_by, reached_event, revive,
};
#[cfg(debug_assertions)]
pub(crate) use armed::{step, torn, torn_in_place};

#[cfg(not(debug_assertions))]
#[inline]
#[allow(
    clippy::unnecessary_wraps,
    reason = "the same signature as the armed one"
)]
pub(crate) fn step() -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn torn(_length: usize) -> Option<usize> {
    None
}

#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn torn_in_place(_offset: u64, _length: usize) -> Option<usize> {
    None
}

/// Returns whether a host verifies that a task reported as merged really is merged: always in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub fn are_merges_checked() -> bool {
    true
}

/// Does nothing: a release build has no fail-points.
#[cfg(not(debug_assertions))]
#[inline]
pub fn reached_event(_seq: u64) {}

/// Returns the shift of the wall clock in milliseconds: none in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub const fn clock_offset() -> i64 {
    0
}
