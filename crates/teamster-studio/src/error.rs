//! Why a request was not carried out.

use teamster_app::{AppError, ErrorKind};
use teamster_store::{StoreError, StoreErrorKind};

use crate::api::{ApiRefusal, ApiRefusalReason};

/// Why a request was not carried out, with the same kinds and messages as the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The kind of the error, which determines the HTTP status.
    pub kind: ErrorKind,
    /// The message: what failed, and on what.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl ApiError {
    /// Returns an error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns an error about something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Returns an error about an invalid request.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Returns an error without a more specific kind.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Returns the response body.
    pub fn body(&self) -> ApiRefusal {
        ApiRefusal {
            error: ApiRefusalReason {
                kind: self.kind.word().to_owned(),
                message: self.message.clone(),
                hint: self.hint.clone(),
            },
        }
    }
}

impl From<AppError> for ApiError {
    fn from(error: AppError) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            hint: error.advice().map(str::to_owned),
        }
    }
}

/// Only the store's own hint is kept: the hints of the command line name commands that a page does not have.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self {
            kind: match error.kind {
                StoreErrorKind::NotFound => ErrorKind::NotFound,
                StoreErrorKind::Conflict => ErrorKind::Conflict,
                StoreErrorKind::Refused => ErrorKind::Refused,
                StoreErrorKind::Unreachable => ErrorKind::Unreachable,
                StoreErrorKind::Failed => ErrorKind::Failed,
            },
            message: error.message,
            hint: error.hint,
        }
    }
}
