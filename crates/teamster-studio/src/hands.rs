//! What a page can do. The binary brings it, with the code of its own commands, so that both do the same.

use teamster_app::diffs::TaskWork;
use teamster_app::logs::LogFollower;
use teamster_types::{TaskId, TeamName};

use crate::api::{
    Answered, ApprovalAnswer, Changes, Diff, Log, Reaped, Refusal, RefusalReason, Sent, StopWish,
    Stopping, Zombies,
};

/// Why something was not done, in the words of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// `usage`, `not_found`, `conflict`, `nothing`, `refused`, `unreachable` or `failed`.
    pub kind: &'static str,
    /// What happened, to what.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Refused {
    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self {
            kind: "not_found",
            message: message.into(),
            hint: None,
        }
    }

    /// A request that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            kind: "usage",
            message: message.into(),
            hint: None,
        }
    }

    /// The answer's body.
    pub fn body(&self) -> Refusal {
        Refusal {
            error: RefusalReason {
                kind: self.kind.to_owned(),
                message: self.message.clone(),
                hint: self.hint.clone(),
            },
        }
    }
}

impl From<teamster_app::AppError> for Refused {
    fn from(error: teamster_app::AppError) -> Self {
        Self {
            kind: error.kind().word(),
            message: error.message().to_owned(),
            hint: error.advice().map(str::to_owned),
        }
    }
}

impl From<teamster_store::StoreError> for Refused {
    fn from(error: teamster_store::StoreError) -> Self {
        use teamster_store::Kind;
        Self {
            kind: match error.kind {
                Kind::NotFound => "not_found",
                Kind::Conflict => "conflict",
                Kind::Refused => "refused",
                Kind::Unreachable => "unreachable",
                Kind::Failed => "failed",
            },
            message: error.message,
            hint: error.hint,
        }
    }
}

/// What a page can do and can ask for beyond the model. Every call may take long: it is made on a thread of its own.
pub trait Hands: Send + Sync {
    /// Sends a message from the person to a worker, the lead or everyone.
    fn send(&self, team: &TeamName, to: &str, text: &str) -> Result<Sent, Refused>;

    /// Stops one worker.
    fn stop(&self, team: &TeamName, worker: &str, wish: &StopWish) -> Result<Stopping, Refused>;

    /// Lets everyone finish the current task and stop.
    fn drain(&self, team: &TeamName, wish: &StopWish) -> Result<Stopping, Refused>;

    /// Answers at the gate of a run.
    fn answer(&self, team: &TeamName, answer: &ApprovalAnswer) -> Result<Answered, Refused>;

    /// What is over but still there.
    fn zombies(&self) -> Result<Zombies, Refused>;

    /// Removes what is over.
    fn reap(&self, dry_run: bool) -> Result<Reaped, Refused>;

    /// What a worker's agent sent, of one task or the latest, from a place on.
    fn log(
        &self,
        team: &TeamName,
        worker: &str,
        task: Option<&TaskId>,
        after: u64,
    ) -> Result<Log, Refused>;

    /// The same as it is written, from the place on where an earlier part ended.
    fn follow_log(
        &self,
        team: &TeamName,
        worker: &str,
        task: Option<&TaskId>,
        after: Option<&str>,
    ) -> Result<LogFollower, Refused>;

    /// What the branches of a team changed.
    fn changes(&self, team: &TeamName) -> Result<Changes, Refused>;

    /// What one branch changed, as text.
    fn diff(&self, team: &TeamName, branch: &str, path: Option<&str>) -> Result<Diff, Refused>;

    /// What one task changed, as text.
    fn task_diff(
        &self,
        team: &TeamName,
        work: &TaskWork,
        path: Option<&str>,
    ) -> Result<Diff, Refused>;
}
