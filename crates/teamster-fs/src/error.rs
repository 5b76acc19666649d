//! Errors of file operations, and the trace for errors that are not fatal.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {problem}", path.display())]
pub struct FsError {
    /// The attempted operation, as a verb such as `read` or `create`.
    pub action: &'static str,
    /// The affected file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub problem: FsProblem,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FsProblem {
    /// The system call failed.
    #[error("{}", system_message(.0))]
    Io(io::Error),
    /// A symbolic link is in the place of a file or folder of teamster's.
    #[error("it is a symbolic link, and links are not followed here")]
    Link,
    /// Another kind of file is in its place: a folder, a pipe, a device.
    #[error("it is not a {0}")]
    NotA(&'static str),
    /// The file is larger than anything teamster writes.
    #[error("it is larger than {0} MiB")]
    TooLarge(u64),
    /// A folder exceeds the limits for a copy.
    #[error("the folder is too large to be copied")]
    TooMuch,
    /// The name is not a single plain path component.
    #[error("its name is not a plain file name")]
    Name,
}

/// Returns the system's message without its error number, which means nothing to most people.
fn system_message(error: &io::Error) -> String {
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

    /// Returns the kind of the I/O error; `None` for any other problem.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            FsProblem::Io(error) => Some(error.kind()),
            _ => None,
        }
    }
}

/// A result whose error is not fatal.
pub trait OrTrace<T> {
    /// Ignores the result; an error is written to the trace together with the attempted operation.
    fn or_trace(self, doing: &str);

    /// Returns the value, or `None` after an error, which is traced like that of [`OrTrace::or_trace`].
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
