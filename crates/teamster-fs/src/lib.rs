//! The only crate that reads and writes files.
//!
//! # What it owns
//!
//! Every read and write of a file, every lock and every look at `/proc` goes through here; `clippy.toml` refuses the
//! functions of `std::fs` that open or change files in all other crates. Those other crates only ask where a path
//! leads, whether it exists and what is there.
//!
//! - [`Dir`] is an open folder; everything below it is reached through it and one plain name at a time.
//! - [`layout`] is the one table of paths. [`team_store`] finds the store that a project's team is kept in.
//! - [`Lock`] is held by one process at a time and freed by the kernel when that process dies.
//! - [`UserFile`] is a file that belongs to the user, such as the client's settings: it keeps its mode and its owner.
//! - [`InboxFile`] is a file that teamster appends to for another program; it can tell whether that program has read
//!   it.
//! - [`ProjectFiles`] changes files of a project as a user's program would: default modes, no temp files, no locks.
//! - [`proc`] decides whether a process is alive; [`processes`] finds descendant processes, and [`cgroup`] keeps
//!   related processes in one control group.
//! - [`socket`] makes sockets that only this user can reach, and identifies the processes that connect to them.
//! - [`stdin`] and [`terminal`] read input from a program or a user without blocking for ever.
//! - [`OrTrace`] traces errors that are not fatal, for every crate. It writes nothing on success, so it costs a hook
//!   nothing.
//! - [`fail`] makes a test's process die between any two operations, and shifts its clock.
//!
//! # How it works
//!
//! A name cannot contain `/`, and no symbolic link is followed, so a path cannot lead out of its root folder, even if
//! another process replaces files meanwhile. The first folder ([`Dir::open_root`]) is the one that the user named, and
//! links in its path are followed. A writer may rely on this:
//!
//! - [`Dir::replace`] gives readers the old file or the new one, never a part;
//! - [`Dir::append`] puts one whole line at the end of a file with one `write`;
//! - with [`Durability::Durable`] the data is on disk before the call returns.
//!
//! # Who is alive
//!
//! Whether a *process* is alive is decided in one function, [`proc::Machine::process_state`], for every crate: by its pid
//! together with its start time, boot and pid namespace, and "gone" is only reported on proof. Whether a *worker* is
//! dead is decided by `teamster_types::health::judge`, from that answer and the worker's heartbeat.
//!
//! # What it refuses
//!
//! It follows no symbolic link below a root folder, opens no pipe or device in place of a file, reads no file beyond a
//! size limit, and starts no program.

#![allow(
    clippy::disallowed_methods,
    reason = "this is the crate that the ban protects"
)]

pub mod cgroup;
mod dir;
mod disk;
mod error;
pub mod fail;
mod folders;
mod git_exclude;
mod in_place_file;
mod inbox_file;
pub mod layout;
mod lock;
mod log_file;
pub mod proc;
pub mod processes;
mod project_files;
pub mod socket;
pub mod stdin;
pub mod team_store;
pub mod terminal;
#[cfg(test)]
mod tests;
mod user_file;

pub use dir::{Dir, DirEntry, Durability, FileKind, Stamp};
pub use disk::{LEAST_ROOM, free_bytes, left_on_full_disk, real_path};
pub use error::{FsError, FsProblem, OrTrace};
pub use folders::{CopyLimits, copy_folder, remove_tree, remove_tree_while};
pub use git_exclude::{exclude_from_git, with_lines};
pub use in_place_file::InPlaceFile;
pub use inbox_file::InboxFile;
pub use lock::{Lock, LockWait};
pub use log_file::LogFile;
pub use project_files::ProjectFiles;
pub use user_file::{FileOwner, FileSnapshot, FolderLock, UserFile};

/// Returns a unique name for a temp file. It need not be unguessable, so a machine without a random source still gets
/// one.
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

/// Returns sixteen random bytes as 32 hexadecimal digits.
pub fn random_hex() -> String {
    use std::fmt::Write as _;
    let mut bytes = [0_u8; 16];
    if !fill(&mut bytes) {
        // Without a random source there is no safe way to continue: a guessable token protects nothing.
        std::process::abort();
    }
    bytes
        .iter()
        .fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Fills the bytes by a direct system call: a library that resolves the C function at run time finds none in a static
/// binary and falls back to reading `/dev/urandom`, which may be missing or fail.
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
