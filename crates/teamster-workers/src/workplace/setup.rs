//! Makes a worktree usable with the links and commands of the configuration, and checks each time that the user trusts them.

use std::time::Duration;

use teamster_isolate::git::{GitError, GitProblem, Worktree};

/// The number of a failed command's output lines that are shown.
const SHOWN_LINES: usize = 10;

/// The links and commands that make a new worktree usable, as the user has accepted them.
///
/// Only a [`SetupSource`] creates one, at the moment of use and after checking that the user accepts it. `clippy.toml`
/// forbids every other call of [`WorktreeSetup::accepted`].
#[derive(Debug)]
pub struct WorktreeSetup {
    links: Vec<String>,
    writable: bool,
    commands: Vec<String>,
    limit: Duration,
    withheld: &'static [&'static str],
}

impl WorktreeSetup {
    /// States that the user accepts these links and commands at this moment. A linked folder is a copy unless agents may
    /// write to it. `limit` bounds the total time, and the variables in `withheld` are hidden from the commands.
    pub fn accepted(
        links: Vec<String>,
        writable: bool,
        commands: Vec<String>,
        limit: Duration,
        withheld: &'static [&'static str],
    ) -> Self {
        Self {
            links,
            writable,
            commands,
            limit,
            withheld,
        }
    }
}

/// Returns the setup of a worktree, or why it may not run now.
pub type SetupSource = dyn Fn() -> Result<WorktreeSetup, NotTrusted> + Send;

/// The user has not accepted a part of the project's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotTrusted {
    /// What was not accepted.
    pub message: String,
    /// How to accept it.
    pub hint: String,
}

/// Why a worktree is not usable.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The user has not accepted the setup; nothing ran.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// A setup step failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl From<SetupError> for GitError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Git(error) => error,
            SetupError::NotTrusted(NotTrusted { message, hint }) => Self {
                problem: GitProblem::Refused,
                message,
                hint,
            },
        }
    }
}

/// Makes a worktree usable with the links and commands of the configuration, if the user accepts them at this moment.
/// Commands are ended early once `stopped` returns true. Their output goes to `say`; a failed command is an error.
pub fn make_usable(
    tree: &Worktree,
    setup: impl FnOnce() -> Result<WorktreeSetup, NotTrusted>,
    stopped: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<(), SetupError> {
    let WorktreeSetup {
        links,
        writable,
        commands,
        limit,
        withheld,
    } = setup()?;
    if links.is_empty() && commands.is_empty() {
        return Ok(());
    }
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that asks for trust first"
    )]
    let done = tree.set_up(&links, writable, &commands, limit, withheld, stopped)?;
    let linked = if writable { "linked" } else { "copied" };
    for link in &done.linked {
        say(&format!("{linked} {}", link.display()));
    }
    for step in &done.steps {
        say(&format!("`{}`: {}", step.command, step.status));
        for line in step.output.lines() {
            say(&format!("  {line}"));
        }
    }
    let Some(step) = done.failed() else {
        return Ok(());
    };
    let how = if step.timed_out {
        "did not end in time".to_owned()
    } else {
        format!("failed ({})", step.status)
    };
    let last: Vec<&str> = step.output.lines().rev().take(SHOWN_LINES).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(SetupError::Git(GitError {
        problem: GitProblem::Failed,
        message: format!(
            "the worktree could not be set up: `{}` {how}: {}",
            step.command,
            last.join(" ⏎ ")
        ),
        hint: "look at `worktree.setup` in the configuration".to_owned(),
    }))
}
