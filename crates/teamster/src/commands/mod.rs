//! The subcommands, each in a file or folder of its name, except: `approve`, `reject` and `revise` are in `gate`;
//! `uninstall` is in `install`; `answer` is in `ask`; `completions` and `man` are in `generate`; `session`, `state`,
//! `ticket` and `finding` are in `party`.

mod agent;
pub mod ask;
pub mod cancel;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod flow;
pub mod gate;
pub mod generate;
pub mod hook;
pub mod install;
pub mod journal;
pub mod mcp;
pub mod merge;
pub mod message;
pub mod party;
pub mod plan;
pub mod play;
pub mod plugin;
pub mod replay;
pub mod run;
pub mod shutdown;
pub mod state_file;
pub mod status;
pub mod store;
pub mod studio;
pub mod task;
pub mod team;
pub mod top;
pub mod trust;
pub mod worker;
pub mod worktree;
pub mod zombies;

use std::time::Duration;

use teamster_types::time::parse_span;

use crate::error::{AppError, ErrorKind};

/// The limit for durations: nothing in teamster waits for more than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Fails a command that could not remove everything, after it has reported the details.
pub(crate) fn all_removed(failed: usize) -> crate::error::Result {
    match failed {
        0 => Ok(()),
        count => Err(AppError::new(
            ErrorKind::Failed,
            format!("{count} of these could not be removed"),
        )
        .hint("each line above says why; the rest has been done")),
    }
}

/// Parses a duration argument.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text)
        .filter(|span| !span.is_zero() && *span <= LONGEST)
        .ok_or_else(|| "expected a time such as 5s, 10m or 24h, at most 365d".to_owned())
}
