//! All exit codes in one place. They are part of the interface and do not change.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed |
//! | 2 | wrong usage |
//! | 3 | not found |
//! | 4 | conflict: taken, stale token, illegal step, still alive |
//! | 5 | nothing to do |
//! | 6 | refused: invalid name, limit, unsafe path, not allowed for this caller |
//! | 7 | the store cannot be reached |
//! | 10 | a run whose work was rejected |
//! | 11 | a run whose work fails its checks, or whose leader made no plan that can be used |
//! | 12 | a run whose budget is used up |
//! | 13 | a run that was cancelled |
//! | 14 | a run some of whose tasks failed permanently |
//!
//! `teamster hook` always exits with 0.

use teamster_app::ErrorKind;
use teamster_journal::payload::RunEnd;
use teamster_run::host::GateExit;

/// The command did what it was asked.
pub const DONE: u8 = 0;
/// Failed, for a reason without a code of its own.
pub const FAILED: u8 = 1;
/// Wrong usage: invalid arguments, environment variables or settings.
pub const USAGE: u8 = 2;
/// What was asked for does not exist.
pub const NOT_FOUND: u8 = 3;
/// Taken, stale token, illegal step, still alive.
pub const CONFLICT: u8 = 4;
/// There is nothing to do.
pub const NOTHING: u8 = 5;
/// An invalid name, a limit, an unsafe path, or not allowed for this caller.
pub const REFUSED: u8 = 6;
/// The store cannot be read or written.
pub const UNREACHABLE: u8 = 7;

/// Returns the exit code for a kind of error.
pub const fn of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Failed => FAILED,
        ErrorKind::Usage => USAGE,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Nothing => NOTHING,
        ErrorKind::Refused => REFUSED,
        ErrorKind::Unreachable => UNREACHABLE,
        // A run's exit code is recorded in its journal as `exitCode`, so it is part of that format and comes from
        // `RunEnd::exit_code`. The table above repeats it; a test compares the two.
        ErrorKind::Ended(code) => code,
        ErrorKind::Unheard => DONE,
    }
}

/// Returns the exit code of a command whose host left an open gate for this reason.
pub const fn of_gate(exit: GateExit) -> u8 {
    match exit {
        GateExit::Waiting => DONE,
        GateExit::NotLanded => CONFLICT,
        GateExit::Stopped => RunEnd::Cancelled.exit_code(),
        GateExit::Unverified => RunEnd::Unverified.exit_code(),
        GateExit::TasksFailed => RunEnd::TasksFailed.exit_code(),
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
  6  refused: invalid name, limit, unsafe path, not allowed for this caller
  7  the store cannot be reached
  10 to 14  how a run ended: `teamster run --help`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_run_ends_are_those_of_the_table() {
        for end in RunEnd::ALL {
            let expected = match end {
                RunEnd::Complete => DONE,
                RunEnd::Failed => FAILED,
                RunEnd::Rejected | RunEnd::RolledBack => 10,
                RunEnd::Unverified | RunEnd::FixRoundsUsedUp | RunEnd::Unplanned => 11,
                RunEnd::BudgetExhausted => 12,
                RunEnd::Cancelled => 13,
                RunEnd::CompleteInPart | RunEnd::TasksFailed => 14,
            };
            assert_eq!(of(ErrorKind::Ended(end.exit_code())), expected, "{end:?}");
        }
    }

    #[test]
    fn codes_at_an_open_gate_are_those_of_the_table() {
        let codes = [
            (GateExit::Waiting, 0),
            (GateExit::NotLanded, 4),
            (GateExit::Unverified, 11),
            (GateExit::Stopped, 13),
            (GateExit::TasksFailed, 14),
        ];
        for (exit, code) in codes {
            assert_eq!(of_gate(exit), code, "{exit:?}");
        }
    }
}
