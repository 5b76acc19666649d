//! One file for each subcommand.

mod agent;
pub mod ask;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod flow;
pub mod gate;
pub mod hook;
pub mod install;
pub mod journal;
pub mod man;
pub mod mcp;
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
pub mod studio;
pub mod task;
pub mod team;
pub mod top;
pub mod trust;
pub mod uninstall;
pub mod worker;
pub mod worktree;
pub mod zombies;

use std::time::Duration;

use teamster_types::time::parse_span;

/// Nothing that teamster waits for takes longer than a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A span of time as an argument.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text)
        .filter(|span| !span.is_zero() && *span <= LONGEST)
        .ok_or_else(|| "expected a time such as 5s, 10m or 24h, at most 365d".to_owned())
}
