//! The application layer: what a person, the page or a worker can ask of teamster, each as a function.
//!
//! # How it works
//!
//! An [`App`] holds what every use case needs: where things are, the settings, the store, and the [`Actor`] who asks. A
//! use case takes it with a typed request and returns a typed answer, or an [`AppError`] with a kind, a message and a hint.
//! The command line, Studio and other surfaces parse requests, call these functions and show the answers, so that they
//! cannot disagree.
//!
//! - [`config`], [`env_vars`]: settings with their sources, and every variable that is read.
//! - [`trust`], [`presets`], [`prompts`]: what comes with a project, and what of it the user accepts.
//! - [`runs`], [`gate`]: preparing, starting and hosting a run, and deciding about its work.
//! - [`workers`], [`messages`]: starting, being and stopping workers, and writing to them.
//! - [`questions`], [`permissions`], [`plans`]: answering what agents ask, what they want to be allowed, and the plan of a
//!   run.
//! - [`logs`], [`diffs`]: what agents sent, and what they changed.
//! - [`trace_log`]: what a host or a bridge did, for whoever looks for the reason of something.
//! - [`tool_server`]: our tools in the settings of a person's own client.
//! - [`stores`]: which store is meant, making one, looking at it, and taking teams from one to another.
//! - [`gc`]: what is left behind.
//!
//! # What it refuses
//!
//! It prints nothing, draws nothing and knows no exit codes. Where a person has to be asked, the surface brings a function
//! that asks ([`App::confirm`]); where nobody can be asked, the answer is no.

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
pub mod text;
pub mod tool_server;
pub mod trace_log;
pub mod trust;
pub mod workers;

pub use actor::Actor;
pub use app::{App, Confirm, recordable};
pub use error::{AppError, ErrorKind};
