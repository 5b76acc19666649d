//! The line in `zombie-alerts.jsonl` about a teammate's end.

use serde_json::json;
use teamster_fs::{Dir, FsError, Sync, layout};
use teamster_types::Time;
use teamster_types::json::to_line;
use teamster_types::text::shown_line;

use crate::state::LONGEST_TEXT;

/// The exit code of somebody who is gone without a word: nobody has seen the real one.
const UNSEEN: i64 = -1;

/// Somebody's end, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TeammateEnd {
    /// The team's name, fit to be shown.
    pub(crate) team: String,
    /// The teammate's name, fit to be shown.
    pub(crate) teammate: String,
    /// The code with which it ended.
    pub(crate) exit_code: i64,
}

impl TeammateEnd {
    /// Returns the end of somebody whose process is gone and who did not say so.
    pub(crate) fn unseen(team: &str, teammate: &str) -> Self {
        Self {
            team: shown_line(team, LONGEST_TEXT),
            teammate: shown_line(teammate, LONGEST_TEXT),
            exit_code: UNSEEN,
        }
    }

    /// Returns the line for the error stream when the teammate crashed; a normal end is only recorded.
    pub(crate) fn alarm(&self) -> Option<String> {
        let Self {
            team,
            teammate,
            exit_code,
        } = self;
        (*exit_code != 0).then(|| {
            format!(
                "[ZOMBIE-ALERT] teammate '{teammate}' in team '{team}' has exited (code={exit_code})"
            )
        })
    }

    /// Writes the line. `session` is that of whoever told of the end.
    pub(crate) fn record(&self, claude: &Dir, session: &str, now: Time) -> Result<(), FsError> {
        let record = json!({
            "ts": now.as_millis(),
            "team": self.team,
            "teammate": self.teammate,
            "exit_code": self.exit_code,
            "type": if self.exit_code == 0 { "normal" } else { "crash" },
            "session_id": shown_line(session, LONGEST_TEXT),
        });
        claude.append(layout::ZOMBIE_ALERTS, &to_line(&record), Sync::Fast)?;
        Ok(())
    }
}
