//! The error of a use case: what happened, to what, and what to do about it.

use teamster_claude::state::StateError;
use teamster_fs::FsError;
use teamster_fs::layout::NoHome;
use teamster_gc::GcError;
use teamster_isolate::git::{GitError, GitProblem};
use teamster_journal::payload::NoQuestionId;
use teamster_party::PartyError;
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::NameError;
use teamster_workers::tools::{FailureKind, ToolFailure};
use teamster_workers::workplace::NotTrusted;

/// The kind of an error. The exit code of a command and the HTTP status follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No more specific kind applies.
    Failed,
    /// Invalid arguments, variables or settings.
    Usage,
    /// It does not exist.
    NotFound,
    /// A conflict: already taken, stale token, illegal transition, still alive.
    Conflict,
    /// There is nothing to do.
    Nothing,
    /// Not allowed.
    Refused,
    /// The store cannot be read or written.
    Unreachable,
    /// A run ended unsuccessfully, with this exit code.
    Ended(u8),
    /// The reader of our output has closed it, as `head` does, so nothing can be reported.
    Unheard,
}

impl ErrorKind {
    /// Returns its name in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed | Self::Unheard => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Nothing => "nothing",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Ended(_) => "ended",
        }
    }
}

/// Why a use case was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AppError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

/// The result of a use case.
pub type Result<T = ()> = std::result::Result<T, AppError>;

impl AppError {
    /// Returns an error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns an error about wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Returns an error about something that is not allowed.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Returns the error of a run that ended unsuccessfully.
    pub fn ended(code: u8, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Ended(code), message)
    }

    /// Returns an error about something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Adds a hint on what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the kind of the error.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns what happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind {
            StoreErrorKind::NotFound => ErrorKind::NotFound,
            StoreErrorKind::Conflict => ErrorKind::Conflict,
            StoreErrorKind::Refused => ErrorKind::Refused,
            StoreErrorKind::Unreachable => ErrorKind::Unreachable,
            StoreErrorKind::Failed => ErrorKind::Failed,
        };
        let fallback = match kind {
            _ if error.busy => "another process is using it; try again in a moment",
            ErrorKind::NotFound => {
                "`teamster team list` shows the teams, `teamster task list` the tasks"
            }
            ErrorKind::Conflict => {
                "nothing was changed; `teamster task list` shows where each task stands"
            }
            ErrorKind::Refused => "nothing was changed",
            _ => "`teamster doctor` checks the store",
        };
        Self {
            kind,
            message: error.message,
            hint: error.hint.or_else(|| Some(fallback.to_owned())),
        }
    }
}

impl From<ToolFailure> for AppError {
    fn from(failure: ToolFailure) -> Self {
        let kind = match failure.kind {
            FailureKind::Refused => ErrorKind::Refused,
            FailureKind::NotFound => ErrorKind::NotFound,
            FailureKind::Conflict => ErrorKind::Conflict,
            FailureKind::Unreachable => ErrorKind::Unreachable,
            FailureKind::Failed => ErrorKind::Failed,
        };
        let error = Self::new(kind, failure.message);
        match failure.hint.as_str() {
            "" => error,
            hint => error.hint(hint),
        }
    }
}

impl From<FsError> for AppError {
    fn from(error: FsError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<NameError> for AppError {
    fn from(error: NameError) -> Self {
        let hint = match &error {
            NameError::Team(_) => {
                "a good one is fix-login; `teamster team list` shows those there are"
            }
            NameError::Worker(_) | NameError::Reserved(_) => "a good one is worker-1",
            NameError::Task(_) => "`teamster task list` shows the ids",
        };
        Self::refused(error.to_string()).hint(hint)
    }
}

impl From<NoQuestionId> for AppError {
    fn from(error: NoQuestionId) -> Self {
        Self::refused(error.to_string()).hint("`teamster status` lists the open questions")
    }
}

impl From<NoHome> for AppError {
    fn from(error: NoHome) -> Self {
        Self::new(ErrorKind::Unreachable, error.to_string())
            .hint("set HOME, or set TEAMSTER_CLAUDE_DIR to the folder that keeps your teams")
    }
}

impl From<StateError> for AppError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Fs(error) => error.into(),
            StateError::Busy { .. } => Self::new(ErrorKind::Conflict, error.to_string())
                .hint("nothing was changed; try again in a moment"),
            StateError::Session(_) => Self::refused(error.to_string())
                .hint("a good session id has letters, digits and hyphens"),
            StateError::NoProject(_) => Self::new(ErrorKind::Unreachable, error.to_string())
                .hint("check TEAMSTER_PROJECT and CLAUDE_PROJECT_DIR"),
            StateError::Corrupt { .. } => Self::new(ErrorKind::Failed, error.to_string())
                .hint("the next change moves it aside and starts a new file"),
        }
    }
}

impl From<PartyError> for AppError {
    fn from(error: PartyError) -> Self {
        let kind = match error.kind {
            teamster_party::PartyErrorKind::NotFound => ErrorKind::NotFound,
            teamster_party::PartyErrorKind::Conflict => ErrorKind::Conflict,
            teamster_party::PartyErrorKind::Refused => ErrorKind::Refused,
            teamster_party::PartyErrorKind::Unreachable => ErrorKind::Unreachable,
            teamster_party::PartyErrorKind::Damaged => ErrorKind::Failed,
        };
        Self::new(kind, error.message).hint(error.hint)
    }
}

impl From<GitError> for AppError {
    fn from(error: GitError) -> Self {
        let kind = match error.problem {
            GitProblem::NotRepository => ErrorKind::NotFound,
            GitProblem::Bare | GitProblem::NoCommits | GitProblem::Refused => ErrorKind::Refused,
            GitProblem::Busy => ErrorKind::Conflict,
            GitProblem::NoProgram
            | GitProblem::NoRoom
            | GitProblem::NotTaken
            | GitProblem::TimedOut
            | GitProblem::Failed => ErrorKind::Failed,
        };
        Self::new(kind, error.message).hint(error.hint)
    }
}

impl From<AppError> for NotTrusted {
    fn from(error: AppError) -> Self {
        Self {
            message: error.message().to_owned(),
            hint: error.advice().unwrap_or_default().to_owned(),
        }
    }
}

impl From<GcError> for AppError {
    fn from(error: GcError) -> Self {
        match error {
            GcError::Store(error) => error.into(),
            GcError::Git(error) => error.into(),
            GcError::Name(error) => error.into(),
        }
    }
}
