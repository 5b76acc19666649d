//! Every exit code, in one place. They are part of the interface and do not change.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed |
//! | 2 | wrong usage |
//! | 3 | not found |
//! | 4 | conflict: taken, stale token, illegal step, still alive |
//! | 5 | nothing to do |
//! | 6 | refused: invalid name, limit, unsafe path, not allowed for this identity |
//! | 7 | the store cannot be reached |
//! | 10 to 14 | how a run ended, kept free for `teamster run` |
//!
//! `teamster hook` always exits with 0.

use teamster_app::ErrorKind;

/// Done.
pub const DONE: u8 = 0;
/// Failed, for a reason that none of the others names.
pub const FAILED: u8 = 1;
/// Wrong usage: arguments, variables or settings that make no sense.
pub const USAGE: u8 = 2;
/// What was asked for does not exist.
pub const NOT_FOUND: u8 = 3;
/// Taken, stale token, illegal step, still alive.
pub const CONFLICT: u8 = 4;
/// There is nothing to do.
pub const NOTHING: u8 = 5;
/// An invalid name, a limit, an unsafe path, or not allowed for this identity.
pub const REFUSED: u8 = 6;
/// The store cannot be read or written.
pub const UNREACHABLE: u8 = 7;

/// Returns the exit code of a command that failed in this way.
pub const fn of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Failed => FAILED,
        ErrorKind::Usage => USAGE,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Nothing => NOTHING,
        ErrorKind::Refused => REFUSED,
        ErrorKind::Unreachable => UNREACHABLE,
        ErrorKind::Ended(code) => code,
        ErrorKind::Unheard => DONE,
    }
}

/// The table as `teamster --help` shows it.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage
  3  not found
  4  conflict: taken, stale token, illegal step, still alive
  5  nothing to do
  6  refused: invalid name, limit, unsafe path, not allowed for this identity
  7  the store cannot be reached";
