//! The error type of the store: what happened, to what, and what to do.

use teamster_fs::FsError;
use teamster_types::NameError;
use teamster_types::transitions::Refusal;

/// The kind of failure, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The object does not exist.
    NotFound,
    /// A conflict: already claimed, stale token, illegal step, still alive, or busy.
    Conflict,
    /// Not allowed: an invalid name, a limit, an unsafe path.
    Refused,
    /// The store cannot be read or written.
    Unreachable,
    /// A record is damaged.
    Failed,
}

/// A store operation that failed or was refused.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// The kind of failure.
    pub kind: StoreErrorKind,
    /// What happened, to what.
    pub message: String,
    /// What to do now.
    pub hint: Option<String>,
    /// Whether the same call may succeed in a moment, because another process holds a lock.
    pub busy: bool,
}

/// The result of a store operation.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Returns an error without a hint.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            busy: false,
        }
    }

    /// Adds a hint about what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error for something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::NotFound, message)
    }

    /// Returns the error for something that is held by another worker or process, or for an illegal step.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Conflict, message)
    }

    /// Returns the error for something that is not allowed.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Refused, message)
    }

    /// Returns a conflict that may pass in a moment: another process holds a lock.
    pub fn busy(message: impl Into<String>) -> Self {
        Self {
            busy: true,
            ..Self::conflict(message)
        }
    }
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::TooLong { .. } => Self::refused(message)
                .hint("shorten it, or put the rest into a file the worker can read"),
            Refusal::Empty(_) => Self::refused(message),
            Refusal::Taken { .. } | Refusal::Assigned { .. } | Refusal::NotClaimable { .. } => {
                Self::conflict(message).hint("`teamster task list --claimable` shows others")
            }
            Refusal::StaleToken { .. } => Self::conflict(message)
                .hint("nothing was changed; `teamster task show` shows who has it"),
            Refusal::IllegalStep { .. } => Self::conflict(message),
        }
    }
}

impl StoreError {
    /// Returns whether it is a decision about the object: it does not exist any more, or belongs to somebody else. The same
    /// call does not succeed later.
    pub fn is_decision(&self) -> bool {
        !self.busy
            && matches!(
                self.kind,
                StoreErrorKind::Conflict | StoreErrorKind::NotFound
            )
    }
}

impl From<NameError> for StoreError {
    fn from(error: NameError) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<FsError> for StoreError {
    fn from(error: FsError) -> Self {
        use std::io::ErrorKind;
        let message = error.to_string();
        if error.is_unsafe() {
            return Self::refused(message)
                .hint("remove it, or move it away, and try again; nothing was changed");
        }
        let hint = match error.io_kind() {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                "the disk is full: free some space and try again"
            }
            Some(ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
                "check the permissions of this folder, or set TEAMSTER_CLAUDE_DIR to a folder you can write to"
            }
            Some(ErrorKind::NotFound) => "check that HOME exists, or set TEAMSTER_CLAUDE_DIR",
            _ => "`teamster doctor` checks the store",
        };
        Self::new(StoreErrorKind::Unreachable, message).hint(hint)
    }
}

impl StoreError {
    /// Returns the same error with the kind `Refused`.
    #[must_use]
    pub(crate) fn refused_instead(self) -> Self {
        Self {
            kind: StoreErrorKind::Refused,
            ..self
        }
    }
}
