//! What can go wrong with a file, where it went wrong, and the trace of errors that stop nothing.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// An operation on a file that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {problem}", path.display())]
pub struct FsError {
    /// What was being done, as a verb such as `read` or `create`.
    pub action: &'static str,
    /// The file or folder it was done to.
    pub path: PathBuf,
    /// Why it failed.
    pub problem: FsProblem,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FsProblem {
    /// The system said so.
    #[error("{}", words(.0))]
    Io(io::Error),
    /// A symbolic link stands where a file or folder of ours should be.
    #[error("it is a symbolic link, and links are not followed here")]
    Link,
    /// Something else stands there: a folder, a pipe, a device.
    #[error("it is not a {0}")]
    NotA(&'static str),
    /// The file is larger than anything we write.
    #[error("it is larger than {0} MiB")]
    TooLarge(u64),
    /// A folder holds more than may be copied.
    #[error("the folder holds too much to be copied")]
    TooMuch,
    /// A name that is not one plain path component.
    #[error("its name is not a plain file name")]
    Name,
}

/// Returns the system's message without its error number, which means nothing to most people.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

impl FsError {
    pub(crate) fn new(action: &'static str, path: &Path, problem: FsProblem) -> Self {
        Self {
            action,
            path: path.to_owned(),
            problem,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let problem = match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => FsProblem::Link,
            _ => FsProblem::Io(error),
        };
        Self::new(action, path, problem)
    }

    /// Returns whether the path is unsafe to use (a link or a wrong kind of file), as opposed to an I/O failure.
    pub fn is_unsafe(&self) -> bool {
        !matches!(self.problem, FsProblem::Io(_))
    }

    /// Returns the kind of I/O failure, where it is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            FsProblem::Io(error) => Some(error.kind()),
            _ => None,
        }
    }
}

/// A result whose error stops nothing.
pub trait OrTrace<T> {
    /// Goes on whatever came of it; an error is noted in the trace with what was being done.
    fn or_trace(self, doing: &str);

    /// Returns the value, or `None` after an error, which is noted like that of [`OrTrace::or_trace`].
    fn ok_or_trace(self, doing: &str) -> Option<T>;
}

impl<T, E: Display> OrTrace<T> for Result<T, E> {
    fn or_trace(self, doing: &str) {
        self.ok_or_trace(doing);
    }

    fn ok_or_trace(self, doing: &str) -> Option<T> {
        self.inspect_err(|error| tracing::debug!("cannot {doing}: {error}"))
            .ok()
    }
}
