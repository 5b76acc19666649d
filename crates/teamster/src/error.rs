//! How a command fails: what happened, to what, what to do.

use std::io::Write;

use serde_json::json;
use teamster_fs::FsError;
use teamster_fs::layout::NoHome;
use teamster_store::{Kind, StoreError};
use teamster_types::NameError;

use crate::exit_codes;
use crate::shown::plain;

/// What sort of failure; the exit code follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// For a reason that none of the others names.
    Failed,
    /// Arguments, variables or settings that make no sense.
    Usage,
    /// It does not exist.
    NotFound,
    /// Taken, stale token, illegal step, still alive.
    Conflict,
    /// There is nothing to do.
    Nothing,
    /// Not allowed.
    Refused,
    /// The store cannot be read or written.
    Unreachable,
    /// Whoever read our output has gone, as `head` does. Nobody is left to tell.
    Unheard,
}

impl ErrorKind {
    fn word(self) -> &'static str {
        match self {
            Self::Failed | Self::Unheard => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Nothing => "nothing",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Failed => exit_codes::FAILED,
            Self::Usage => exit_codes::USAGE,
            Self::NotFound => exit_codes::NOT_FOUND,
            Self::Conflict => exit_codes::CONFLICT,
            Self::Nothing => exit_codes::NOTHING,
            Self::Refused => exit_codes::REFUSED,
            Self::Unreachable => exit_codes::UNREACHABLE,
            Self::Unheard => exit_codes::DONE,
        }
    }
}

/// A command that did not do what it was asked for.
#[derive(Debug)]
pub struct CommandError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

/// The result of a command.
pub type Result<T = ()> = std::result::Result<T, CommandError>;

impl CommandError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Not allowed.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// Something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// With what to do now.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The word for its kind in `--json`.
    pub fn kind_word(&self) -> &'static str {
        self.kind.word()
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do now.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Says it on the standard error stream, as text or as one JSON object; the exit code.
    pub fn report(&self, json: bool) -> u8 {
        if self.kind != ErrorKind::Unheard {
            let text = if json {
                let error = json!({
                    "kind": self.kind.word(),
                    "message": self.message,
                    "hint": self.hint,
                });
                json!({ "error": error }).to_string()
            } else {
                let mut text = format!("error: {}", plain(&self.message));
                if let Some(hint) = &self.hint {
                    text.push_str("\nhint: ");
                    text.push_str(&plain(hint));
                }
                text
            };
            // If even this cannot be written, the exit code still tells.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
        self.kind.exit_code()
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind {
            Kind::NotFound => ErrorKind::NotFound,
            Kind::Conflict => ErrorKind::Conflict,
            Kind::Refused => ErrorKind::Refused,
            Kind::Unreachable => ErrorKind::Unreachable,
            Kind::Failed => ErrorKind::Failed,
        };
        let fallback = match kind {
            _ if error.busy => "somebody else is at it; try again in a moment",
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

impl From<FsError> for CommandError {
    fn from(error: FsError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<NameError> for CommandError {
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

impl From<NoHome> for CommandError {
    fn from(error: NoHome) -> Self {
        Self::new(ErrorKind::Unreachable, error.to_string())
            .hint("set HOME, or set TEAMSTER_CLAUDE_DIR to the folder that keeps your teams")
    }
}
