//! Fail-points: a thread that "dies" before the n-th file operation, for tests. Compiled out of release builds.
//!
//! After the n-th operation every later one of that thread fails too, so clean-up code cannot run: what is left on
//! disk is what a killed process leaves. A write that is hit may leave a part of its bytes.
//!
//! A whole process can be made to die as well, by SIGKILL and of its own hand: as soon as a journal has got so far.
//! And its clock can be moved while it runs.

#[cfg(debug_assertions)]
mod armed {
    use std::cell::Cell;
    use std::io;
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    static LAST_EVENT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// Lets this process die as soon as it has written or read the event of this number, or a later one.
    pub fn die_at_event(seq: u64) {
        LAST_EVENT.store(seq, Ordering::SeqCst);
    }

    /// Notes that the journal has reached this event, and dies where [`die_at_event`] said so.
    pub fn reached_event(seq: u64) {
        if seq >= LAST_EVENT.load(Ordering::SeqCst) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }

    static IS_MERGE_UNCHECKED: AtomicBool = AtomicBool::new(false);

    /// Switches off that a host looks whether what it calls merged is merged, so that a test can see what that is for.
    pub fn leave_merges_unchecked() {
        IS_MERGE_UNCHECKED.store(true, Ordering::SeqCst);
    }

    /// Returns whether a host looks whether what it calls merged is merged.
    pub fn are_merges_checked() -> bool {
        !IS_MERGE_UNCHECKED.load(Ordering::SeqCst)
    }

    static CLOCK_OFFSET: OnceLock<PathBuf> = OnceLock::new();

    /// Moves this process's wall clock by the number of milliseconds in a file, which is read at every look at the
    /// clock.
    pub fn move_clock_by(file: PathBuf) {
        let _ = CLOCK_OFFSET.set(file);
    }

    /// Returns by how many milliseconds the wall clock is moved; 0 when the file is missing or holds no number.
    pub fn clock_offset() -> i64 {
        let text = CLOCK_OFFSET
            .get()
            .and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Lets this thread do `steps` more file operations and then die.
    pub fn die_after(steps: u64) {
        LEFT.set(Some(steps));
    }

    /// Brings this thread back to life. True when it had died.
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

    /// Returns how many bytes of a write get through when the thread dies in it.
    pub(crate) fn torn(length: usize) -> Option<usize> {
        (LEFT.get() == Some(0)).then_some(length / 2)
    }

    /// Returns how many bytes of a write in place get through: the kernel copies it page by page, and a process is
    /// killed between two pages.
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

/// Returns whether a host looks whether what it calls merged is merged: always.
#[cfg(not(debug_assertions))]
#[inline]
pub fn are_merges_checked() -> bool {
    true
}

/// Notes that the journal has reached this event. A release never dies of it.
#[cfg(not(debug_assertions))]
#[inline]
pub fn reached_event(_seq: u64) {}

/// Returns by how many milliseconds the wall clock is moved, which only tests do.
#[cfg(not(debug_assertions))]
#[inline]
pub const fn clock_offset() -> i64 {
    0
}
