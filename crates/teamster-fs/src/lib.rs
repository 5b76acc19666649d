//! The only crate that touches the file system.
//!
//! Everything below a folder of ours is reached through a [`Dir`]: an open folder and one plain name in it. A name
//! can hold no `/`, and no symbolic link is followed, so a path cannot lead anywhere else, whoever plants what
//! while we work. The first folder ([`Dir::open_root`]) is the one the user named, links and all.
//!
//! What a writer may rely on:
//! - [`Dir::replace`] gives readers the old file or the new one, never a part;
//! - [`Dir::append`] puts one whole line at the end of a file with one `write`;
//! - [`Lock`] is held by one process at a time and freed by the kernel when that process dies;
//! - with [`Sync::Durable`] what was written is on the disk before the call returns.
//!
//! A file that is the user's own, such as the client's settings, is a [`UserFile`]: it keeps its mode and its owner.
//! The files of a project that an agent of ours changes are reached through [`Beneath`].
//!
//! [`layout`] is the one table of paths, [`team_store`] tells which home a team of a project belongs to, [`proc`] tells who is alive, [`processes`] who started whom, [`cgroup`] keeps
//! what belongs together in one group of the kernel's, [`fail`] kills us on purpose in tests.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban protects"
)]

mod beneath;
mod cells;
pub mod cgroup;
mod copy;
mod dir;
mod error;
pub mod fail;
pub mod layout;
mod link;
mod lock;
mod log_file;
pub mod proc;
pub mod processes;
mod real;
pub mod stdin;
pub mod team_store;
pub mod terminal;
#[cfg(test)]
mod tests;
mod tree;
mod user_file;

pub use beneath::Beneath;
pub use cells::Cells;
pub use copy::{CopyLimits, copy_folder};
pub use dir::{Dir, Entry, FileKind, Stamp, Sync};
pub use error::{FsError, Problem};
pub use lock::{Lock, Waited};
pub use log_file::LogFile;
pub use real::real_path;
pub use tree::{remove_tree, remove_tree_while};
pub use user_file::{FolderLock, Owner, UserFile, Was};

/// How many bytes can still be written where a path lies; `None` when that cannot be told.
pub fn free_bytes(path: &std::path::Path) -> Option<u64> {
    // A file system that counts no blocks has no answer.
    let found = rustix::fs::statvfs(path)
        .ok()
        .filter(|found| found.f_blocks > 0)?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// With less than this a disk counts as full: what programs do could not be written down.
pub const LEAST_ROOM: u64 = 64 * 1024;

/// How many bytes are left where a path lies, when its disk is full.
pub fn left_on_full_disk(path: &std::path::Path) -> Option<u64> {
    free_bytes(path).filter(|free| *free < LEAST_ROOM)
}

/// A name that no other temp file has. Nobody needs to be kept from guessing it, so a machine without a random source
/// still gets one.
pub(crate) fn unique_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0_u8; 16];
    if fill(&mut bytes) {
        return format!("{:032x}", u128::from_le_bytes(bytes));
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{count:x}", proc::uptime())
}

/// Sixteen random bytes as 32 hexadecimal digits.
pub fn random_hex() -> String {
    use std::fmt::Write as _;
    let mut bytes = [0_u8; 16];
    if !fill(&mut bytes) {
        // Without a random source there is no safe way on: a token that can be guessed is no token.
        std::process::abort();
    }
    bytes
        .iter()
        .fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Straight from the kernel: a library that looks for the C function at run time finds none in a static binary and
/// falls back to reading `/dev/urandom`, which may be missing or fail.
#[cfg(target_os = "linux")]
fn fill(bytes: &mut [u8; 16]) -> bool {
    let wanted = bytes.len();
    dir::retry(|| rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()))
        == Ok(wanted)
}

#[cfg(not(target_os = "linux"))]
fn fill(bytes: &mut [u8; 16]) -> bool {
    getrandom::fill(bytes).is_ok()
}
