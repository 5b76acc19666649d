//! Whether a team's run waits for a person, by the last events of its journal.

use teamster_store::{Read, Result};
use teamster_types::TeamName;
use teamster_journal::Event;

/// What is at the gate stands among the last events: nobody works while it is open.
const LAST: usize = 200;

/// What a person has to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGate {
    /// The commit; empty where everybody works in one folder.
    pub commit: String,
    /// What the checks came to, in words.
    pub words: String,
}

impl OpenGate {
    /// The command that takes the work.
    pub fn command(&self, team: &TeamName) -> String {
        match self.commit.as_str() {
            "" => format!("teamster approve --team {team}"),
            commit => format!("teamster approve --team {team} --commit {commit}"),
        }
    }
}

/// The gate of a team's run, if it is open.
pub fn open_gate(read: &dyn Read, team: &TeamName) -> Result<Option<OpenGate>> {
    let events = read.last_events(team, LAST)?.events;
    let last = events.iter().rfind(|event| is_about_gate(event));
    Ok(last
        .filter(|event| event.kind == "approval.requested")
        .map(|event| OpenGate {
            commit: text(event, "commit"),
            words: text(event, "words"),
        }))
}

/// Opens it or closes it.
fn is_about_gate(event: &Event) -> bool {
    matches!(
        event.kind.as_str(),
        "approval.requested"
            | "approval.given"
            | "approval.refused"
            | "approval.revised"
            | "run.stage"
            | "run.finished"
    )
}

fn text(event: &Event, key: &str) -> String {
    let value = event.data.get(key);
    let text = value.and_then(serde_json::Value::as_str);
    text.unwrap_or_default().to_owned()
}
