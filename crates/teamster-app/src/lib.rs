//! The application layer: what a person, the page or a worker can ask of teamster, each as a function.
//!
//! # What it owns
//!
//! The use cases that take more than one operation: preparing and hosting a run, deciding at the gate, starting and
//! stopping workers, answering questions, trust, settings. A command that is one operation on a team, a task or an
//! inbox calls the store directly, and the commands of a session call `teamster-party`.
//!
//! # How it works
//!
//! An [`App`] holds what every use case needs: where things are, the settings, the store, and the [`Actor`] who asks. A
//! use case takes it with a typed request and returns a typed answer, or an [`AppError`] with a kind, a message and a hint.
//! The command line, Studio and other surfaces parse requests, call these functions and show the answers, so that they
//! cannot disagree.
//!
//! - [`config`], [`env_vars`]: settings with their sources, and every environment variable that is read.
//! - [`trust`], [`presets`], [`prompts`]: files that come with a project, and which of them the user accepts.
//! - [`runs`], [`gate`]: preparing, starting and hosting a run, and deciding about its work.
//! - [`workers`], [`messages`]: starting, running and stopping workers, and sending them messages.
//! - [`questions`], [`permissions`], [`plans`]: answering questions and permission requests of agents, and deciding
//!   about the plan of a run.
//! - [`logs`], [`diffs`]: the output of agents, and their changes.
//! - [`trace_log`]: the trace of a host or a bridge, for debugging.
//! - [`tool_server`]: installing teamster's MCP server in the settings of the user's own client.
//! - [`stores`]: choosing, creating and inspecting a store, and moving teams between stores.
//! - [`gc`]: finding and removing what dead teams and old runs left behind.
//!
//! # What it refuses
//!
//! It prints nothing, draws nothing and knows no exit codes. To ask a person, it calls a function that the surface
//! provides ([`App::confirm`]); if no person can be asked, the answer is no.

mod actor;
mod app;
pub mod config;
pub mod diffs;
pub mod env_vars;
pub mod error;
pub mod files;
pub mod gate;
pub mod gc;
pub mod logs;
pub mod messages;
pub mod permissions;
pub mod plans;
pub mod presets;
pub mod prompts;
pub mod questions;
pub mod runs;
pub mod session_gate;
pub mod stores;
pub mod tool_server;
pub mod trace_log;
pub mod trust;
pub mod workers;

pub use actor::Actor;
pub use app::{App, Confirm, START_TEAM, recordable};
pub use error::{AppError, ErrorKind};
