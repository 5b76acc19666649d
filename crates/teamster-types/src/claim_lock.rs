//! The claim lock `{id}.lock` as other processes find it, and the rule for when it is abandoned.

use std::time::Duration;

use serde_json::Value;

use crate::Time;
use crate::process::{ProcessId, ProcessState};

/// The age from which an untouched lock can be abandoned. A claim takes a fraction of it, and a younger lock may still
/// be being written.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// A timestamp below this is in seconds, not in milliseconds.
const FIRST_MILLISECONDS: i64 = 100_000_000_000;

/// A claim lock that another process made, perhaps another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundClaimLock {
    /// The process that made it, if the file names one.
    pub process: Option<ProcessId>,
    /// When it was made.
    pub since: Time,
}

/// Whether a lock is still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUse {
    /// The process that made it is alive, or made it a short time ago.
    InUse,
    /// The process that made it cannot be judged from here.
    Unsure,
    /// The process that made it is gone, or is not recorded, and the lock is old.
    Abandoned,
}

impl FoundClaimLock {
    /// Reads the content of a lock file, which was last modified at `modified`.
    ///
    /// That time counts where the file does not name another one in milliseconds.
    pub fn parse(bytes: &[u8], modified: Time) -> Self {
        let content: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let made = content.get("timestamp").and_then(Value::as_i64);
        Self {
            process: process_of(&content),
            since: made
                .filter(|made| *made > FIRST_MILLISECONDS)
                .map_or(modified, Time::from_millis),
        }
    }

    /// Returns whether the lock is still in use; `state_of` judges the process that it names.
    ///
    /// A lock is held as long as its process may be alive, whatever else the file contains.
    pub fn state(&self, now: Time, state_of: impl FnOnce(&ProcessId) -> ProcessState) -> LockUse {
        match self.process.as_ref().map(state_of) {
            None | Some(ProcessState::Gone) if self.is_old(now) => LockUse::Abandoned,
            Some(ProcessState::Unknown) => LockUse::Unsure,
            _ => LockUse::InUse,
        }
    }

    /// Returns whether the lock is old enough to be abandoned. A time far in the future was written before the clock
    /// was set back.
    fn is_old(&self, now: Time) -> bool {
        now.since(self.since) >= ABANDONED_AFTER || self.since.since(now) >= ABANDONED_AFTER
    }
}

/// Returns the process that made the lock. Another program may write no more than its pid.
fn process_of(content: &Value) -> Option<ProcessId> {
    let text = |key: &str| {
        let value = content.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    Some(ProcessId {
        pid: number(content.get("pid"))?.try_into().ok()?,
        process_start_time: number(content.get("processStartTime")).unwrap_or(0),
        boot_id: text("bootId"),
        pid_ns: text("pidNs"),
        host: text("host"),
    })
}

/// Parses a number, which may be written as a string.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: i64 = 1_800_000_000_000;

    fn state(content: &str, seconds_later: i64, process: ProcessState) -> LockUse {
        let now = Time::from_millis(MADE + seconds_later * 1_000);
        FoundClaimLock::parse(content.as_bytes(), Time::from_millis(MADE)).state(now, |_| process)
    }

    #[test]
    fn lock_is_abandoned_when_it_is_old_and_nobody_can_hold_it() {
        let named = format!("{{\"pid\": 7, \"timestamp\": {MADE}}}");
        assert_eq!(state(&named, 29, ProcessState::Gone), LockUse::InUse);
        assert_eq!(state(&named, 30, ProcessState::Gone), LockUse::Abandoned);
        assert_eq!(state(&named, 3_600, ProcessState::Alive), LockUse::InUse);
        assert_eq!(state(&named, 3_600, ProcessState::Unknown), LockUse::Unsure);
        for unnamed in ["", "{", "{}", "{\"pid\": -1}"] {
            assert_eq!(state(unnamed, 29, ProcessState::Alive), LockUse::InUse);
            assert_eq!(state(unnamed, 30, ProcessState::Alive), LockUse::Abandoned);
        }
    }

    #[test]
    fn lock_from_before_the_clock_was_set_back_is_old() {
        let future = format!("{{\"pid\": 7, \"timestamp\": {}}}", MADE + 60_000);
        assert_eq!(state(&future, 0, ProcessState::Gone), LockUse::Abandoned);
        assert_eq!(state(&future, 0, ProcessState::Alive), LockUse::InUse);
    }

    #[test]
    fn lock_of_another_program_may_have_a_number_as_text_and_a_time_in_seconds() {
        let other = "{\"pid\": \"7\", \"timestamp\": 1600000000}";
        let lock = FoundClaimLock::parse(other.as_bytes(), Time::from_millis(MADE));
        assert_eq!(lock.process.map(|process| process.pid), Some(7));
        assert_eq!(lock.since, Time::from_millis(MADE));
    }
}
