//! The end of a teammate or worker, as recorded in `zombie-alerts.jsonl`.

use serde_json::json;

use crate::Time;
use crate::json::to_line;
use crate::text::shown_line;

/// The exit code of a process that ended unobserved: the real one is unknown.
pub const UNSEEN: i64 = -1;
/// The longest name that is recorded, in characters.
const LONGEST_NAME: usize = 200;

/// The end of a teammate or worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndRecord {
    team: String,
    name: String,
    exit_code: i64,
}

impl EndRecord {
    /// Returns the record of a member that ended with an exit code. Names are sanitized for display.
    pub fn new(team: &str, name: &str, exit_code: i64) -> Self {
        Self {
            team: shown_line(team, LONGEST_NAME),
            name: shown_line(name, LONGEST_NAME),
            exit_code,
        }
    }

    /// Returns the record of a member whose process is gone without having reported its end.
    pub fn vanished(team: &str, name: &str) -> Self {
        Self::new(team, name, UNSEEN)
    }

    /// Returns the line for the error stream if it was a crash; a normal end is only recorded.
    pub fn alarm(&self) -> Option<String> {
        let Self {
            team,
            name,
            exit_code,
        } = self;
        (*exit_code != 0).then(|| {
            format!(
                "[ZOMBIE-ALERT] teammate '{name}' in team '{team}' has exited (code={exit_code})"
            )
        })
    }

    /// Returns the line of the file. `session` is the session that reported the end, or the launch of a worker.
    pub fn to_line(&self, session: &str, now: Time) -> Vec<u8> {
        to_line(&json!({
            "ts": now.as_millis(),
            "team": self.team,
            "teammate": self.name,
            "exit_code": self.exit_code,
            "type": if self.exit_code == 0 { "normal" } else { "crash" },
            "session_id": shown_line(session, LONGEST_NAME),
        }))
    }
}
