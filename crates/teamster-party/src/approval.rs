//! Records of decisions at the gate. They are for people and auditors; decisions are never read back from them.

use serde::{Deserialize, Serialize};
use serde_json::json;
use teamster_fs::{Durability, layout};
use teamster_types::Time;
use teamster_types::flow::DecisionChannel;
use teamster_types::redact::redact;

use crate::{Party, PartyError, Result};

/// The maximum number of decisions within one millisecond.
const MOST_AT_ONCE: u32 = 1_000;

/// A decision at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// The work is accepted.
    Approved,
    /// The work is not accepted.
    Rejected,
    /// The work needs changes first.
    Revision,
}

impl ApprovalDecision {
    /// Returns the phase of a session that the decision leads to.
    pub const fn phase(self) -> &'static str {
        match self {
            Self::Approved => "APPROVED",
            Self::Rejected => "REJECTED",
            Self::Revision => "REVISION",
        }
    }

    /// Returns the decision that leads to a phase; `None` when entering it is not a decision.
    pub fn of_phase(phase: &str) -> Option<Self> {
        let all = [Self::Approved, Self::Rejected, Self::Revision];
        all.into_iter().find(|decision| decision.phase() == phase)
    }
}

/// A decision to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApproval {
    /// The decision.
    pub decision: ApprovalDecision,
    /// The commit that was decided about.
    pub commit: String,
    /// The commit where the work began.
    pub base: String,
    /// The session it belongs to.
    pub session_id: String,
    /// The channel of the decision.
    pub via: DecisionChannel,
    /// The reason, as the decider gave it; may be empty.
    pub reason: String,
}

/// The record of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The id, `approval-{timestamp}`, which is also the name of its file.
    pub id: String,
    /// The decision.
    pub decision: ApprovalDecision,
    /// The commit that was decided about.
    pub commit: String,
    /// The commit where the work began.
    pub base: String,
    /// The session it belongs to.
    pub session_id: String,
    /// The channel of the decision.
    pub via: DecisionChannel,
    /// The reason, as the decider gave it.
    pub reason: String,
    /// When it was decided.
    pub at: Time,
}

impl Party {
    /// Records a decision in its own file; an earlier record is never replaced.
    pub fn record_approval(&self, new: &NewApproval, now: Time) -> Result<ApprovalRecord> {
        let _held = self.lock()?;
        let folder = self.folder(layout::APPROVALS)?;
        // Colons are not allowed in file names on all systems.
        let time = now.to_string().replace([':', '.'], "-");
        for number in 1..=MOST_AT_ONCE {
            let stamp = match number {
                1 => time.clone(),
                _ => format!("{time}-{number}"),
            };
            let record = ApprovalRecord {
                id: format!("approval-{stamp}"),
                decision: new.decision,
                commit: new.commit.clone(),
                base: new.base.clone(),
                session_id: new.session_id.clone(),
                via: new.via,
                reason: redact(&new.reason).into_owned(),
                at: now,
            };
            let name = format!("{stamp}.json");
            let mut bytes = serde_json::to_vec_pretty(&record)
                .map_err(|error| PartyError::damaged(&name, &error))?;
            bytes.push(b'\n');
            if folder.create_new(&name, &bytes, Durability::Durable)? {
                self.append_event(
                    now,
                    &json!({ "type": "approval.recorded", "approval": record.id, "decision": record.decision }),
                )?;
                return Ok(record);
            }
        }
        Err(PartyError::conflict(
            format!("there are {MOST_AT_ONCE} approvals of {now} already"),
            "try again",
        ))
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests look at files as any other program would"
)]
mod tests {
    use serde_json::Value;
    use teamster_fs::Dir;

    use super::*;

    #[test]
    fn two_decisions_of_one_moment_are_two_records() {
        let folder =
            std::env::temp_dir().join(format!("teamster-approval-{}", teamster_fs::random_hex()));
        let party = Party::make(&Dir::open_or_create_root(&folder).unwrap()).unwrap();
        let now: Time = "2026-02-07T12:00:00.123Z".parse().unwrap();
        let mut new = NewApproval {
            decision: ApprovalDecision::Revision,
            commit: "c1".into(),
            base: "b1".into(),
            session_id: "party-t-20260207120000-abcd".into(),
            via: DecisionChannel::Terminal,
            reason: "tests are missing".into(),
        };
        let first = party.record_approval(&new, now).unwrap();
        new.decision = ApprovalDecision::Approved;
        let second = party.record_approval(&new, now).unwrap();
        assert_ne!(first.id, second.id);
        let read = |name: &str| -> Value {
            let file = folder.join(".party/approvals").join(name);
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
        };
        assert_eq!(
            read("2026-02-07T12-00-00-123Z.json"),
            json!({
                "id": "approval-2026-02-07T12-00-00-123Z", "decision": "revision", "commit": "c1", "base": "b1",
                "session_id": "party-t-20260207120000-abcd", "via": "terminal", "reason": "tests are missing",
                "at": "2026-02-07T12:00:00.123Z",
            })
        );
        assert_eq!(
            read("2026-02-07T12-00-00-123Z-2.json")["decision"],
            "approved"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
