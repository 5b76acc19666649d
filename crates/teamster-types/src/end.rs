//! The end of a teammate or worker, as it stands in `zombie-alerts.jsonl`.

use serde_json::json;

use crate::Time;
use crate::json::to_line;
use crate::text::shown_line;

/// The exit code of somebody who is gone without a word: nobody has seen the real one.
pub const UNSEEN: i64 = -1;
/// The longest name that is recorded, in characters.
const LONGEST_NAME: usize = 200;

/// Somebody's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndRecord {
    team: String,
    name: String,
    exit_code: i64,
}

impl EndRecord {
    /// Returns the end of a member of a team with an exit code. Names are made fit to be shown.
    pub fn new(team: &str, name: &str, exit_code: i64) -> Self {
        Self {
            team: shown_line(team, LONGEST_NAME),
            name: shown_line(name, LONGEST_NAME),
            exit_code,
        }
    }

    /// Returns the end of somebody whose process is gone and who did not say so.
    pub fn unseen(team: &str, name: &str) -> Self {
        Self::new(team, name, UNSEEN)
    }

    /// Returns the line for the error stream when it was a crash; a normal end is only recorded.
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

    /// Returns the line of the file. `session` is the session of whoever told of the end, or the launch of a worker.
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
