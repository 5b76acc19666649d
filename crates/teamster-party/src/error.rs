//! The error of an operation: what happened, and what to do about it.

use teamster_fs::FsError;
use teamster_types::flow::StepError;

/// The kind of an error, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyErrorKind {
    /// It does not exist.
    NotFound,
    /// An illegal transition, or a session that is in progress.
    Conflict,
    /// The operation is not allowed.
    Refused,
    /// A file cannot be read or written.
    Unreachable,
    /// A file is damaged.
    Damaged,
}

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PartyError {
    /// The kind of the error.
    pub kind: PartyErrorKind,
    /// A sentence that says what happened.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl PartyError {
    fn new(kind: PartyErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub(crate) fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(PartyErrorKind::NotFound, message, hint)
    }

    pub(crate) fn conflict(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(PartyErrorKind::Conflict, message, hint)
    }

    pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(PartyErrorKind::Refused, message, hint)
    }

    pub(crate) fn damaged(file: &str, error: &dyn std::fmt::Display) -> Self {
        Self::new(
            PartyErrorKind::Damaged,
            format!("{file}: {error}"),
            "repair or remove the file; nothing was changed",
        )
    }
}

impl From<FsError> for PartyError {
    fn from(error: FsError) -> Self {
        let kind = if error.is_unsafe() {
            PartyErrorKind::Refused
        } else {
            PartyErrorKind::Unreachable
        };
        Self::new(
            kind,
            error.to_string(),
            "look at that file; nothing was changed",
        )
    }
}

impl From<StepError> for PartyError {
    fn from(error: StepError) -> Self {
        Self::new(PartyErrorKind::Conflict, error.to_string(), error.hint())
    }
}
