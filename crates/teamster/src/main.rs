//! The `teamster` command: argument parsing, a file or folder for each subcommand, exit codes.
//!
//! # What it owns
//!
//! The command line: names, options, help, what is printed, and the table of exit codes.
//!
//! # How it works
//!
//! A subcommand turns its arguments into a typed request, calls a use case of `teamster-app` (or the store, for
//! operations on teams, tasks and inboxes, or `teamster-party`, for sessions), and prints the answer as text or JSON.
//!
//! # What it refuses
//!
//! Malformed arguments, and commands for people that an agent calls. Every other refusal comes from `teamster-app` or the store.

#![allow(
    clippy::unused_self,
    reason = "every command is run in the same way, whether it has options or not"
)]
#![allow(
    unreachable_pub,
    reason = "nothing of a binary can be reached from outside; `pub` means: for the rest of the command"
)]

mod cli;
mod commands;
mod context;
mod editor;
mod error;
mod exit_codes;
mod input;
mod notify;
mod output;
mod shown;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(debug_assertions)]
    if let Some(file) = teamster_app::env_vars::get(teamster_app::env_vars::CLOCK_OFFSET) {
        teamster_fs::fail::move_clock_by(file.into());
    }
    // The hook runs at every step of an agent, and building the parser would take longer than the hook's own work.
    if let Some(event) = commands::hook::event_of(std::env::args_os()) {
        return commands::hook::run(&event);
    }
    if let Some(asked) = commands::play::request_from_args(std::env::args_os()) {
        return commands::play::run(&asked);
    }
    if let Some(bridge) = commands::worker::GuardedBridge::from_args(std::env::args_os()) {
        return bridge.run();
    }
    cli::run(std::env::args_os().collect())
}
