//! A session's file as it may be found: written by this version, or by one that stored the entered phases instead of
//! transitions.

use serde::Deserialize;
use serde_json::Value;
use teamster_types::Time;
use teamster_types::json::Object;

use super::{FixLoop, PartySession, PhaseChange};

#[derive(Deserialize)]
pub(super) struct Stored {
    id: String,
    team: String,
    task: String,
    phase: String,
    phase_history: Vec<StoredStep>,
    fix_loop: FixLoop,
    #[serde(default)]
    artifacts: Vec<Value>,
    #[serde(default)]
    members: Vec<Value>,
    created_at: Time,
    updated_at: Option<Time>,
    #[serde(flatten)]
    more: Object,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredStep {
    Step(PhaseChange),
    /// The older format, which includes the first phase.
    Entered {
        phase: String,
        entered_at: Time,
        #[serde(default)]
        reason: String,
    },
}

impl From<Stored> for PartySession {
    fn from(stored: Stored) -> Self {
        let mut phase_history: Vec<PhaseChange> = Vec::new();
        let mut before: Option<String> = None;
        for step in stored.phase_history {
            let passed = match (step, before.take()) {
                (StoredStep::Step(passed), _) => Some(passed),
                // The first phase has no transition to it.
                (StoredStep::Entered { phase, .. }, None) => {
                    before = Some(phase);
                    None
                }
                (
                    StoredStep::Entered {
                        phase,
                        entered_at,
                        reason,
                    },
                    Some(from),
                ) => Some(PhaseChange {
                    from,
                    to: phase,
                    reason,
                    at: entered_at,
                }),
            };
            if let Some(passed) = passed {
                before = Some(passed.to.clone());
                phase_history.push(passed);
            }
        }
        let last = phase_history.last().map(|passed| passed.at);
        Self {
            id: stored.id,
            team: stored.team,
            task: stored.task,
            phase: stored.phase,
            phase_history,
            fix_loop: stored.fix_loop,
            artifacts: stored.artifacts,
            members: stored.members,
            created_at: stored.created_at,
            updated_at: stored.updated_at.or(last).unwrap_or(stored.created_at),
            more: stored.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_older_version_wrote_becomes_steps() {
        let old = json!({
            "id": "party-t-20260101000000-aaaa", "team": "t", "task": "x", "phase": "PLANNING",
            "phase_history": [
                { "phase": "IDLE", "entered_at": "2026-01-01T00:00:00.000Z", "reason": "begun" },
                { "phase": "ANALYZING", "entered_at": "2026-01-01T00:00:01.000Z", "reason": "a" },
                { "phase": "PLANNING", "entered_at": "2026-01-01T00:00:02.000Z", "reason": "b" },
            ],
            "fix_loop": { "attempt": 0, "max_attempts": 3 },
            "created_at": "2026-01-01T00:00:00.000Z", "theirs": 1,
        });
        let session: PartySession = serde_json::from_value(old).unwrap();
        let written = serde_json::to_value(&session).unwrap();
        assert_eq!(
            written["phase_history"],
            json!([
                { "from": "IDLE", "to": "ANALYZING", "reason": "a", "at": "2026-01-01T00:00:01.000Z" },
                { "from": "ANALYZING", "to": "PLANNING", "reason": "b", "at": "2026-01-01T00:00:02.000Z" },
            ])
        );
        assert_eq!(written["updated_at"], "2026-01-01T00:00:02.000Z");
        assert_eq!(written["theirs"], 1);
        assert_eq!(
            serde_json::from_value::<PartySession>(written).unwrap(),
            session,
            "what this version writes it reads as it was"
        );
    }
}
