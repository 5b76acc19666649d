//! The model of a team that every viewer shows.
//!
//! # What it owns
//!
//! What the command line, the web page and an MCP client show of a team, and how it is derived.
//!
//! # How it works
//!
//! What is shown is derived from durable facts: tasks, heartbeats, claims, receipts, the journal. Most functions take the store
//! and compute their answer at the moment of asking; [`model::LiveTeam`] keeps one team in memory and follows its events.
//!
//! - [`tasks`]: the state of each task and the reason for it; [`graph`]: the dependencies between tasks
//! - [`workers`]: the health of each worker, with the evidence; [`routes`]: which worker should get a task
//! - `native`: the same for teammates of Claude Code, which have no heartbeats
//! - [`messages`]: what was sent and whether it was delivered
//! - [`requests`]: what needs a person's decision: permission requests of agents, and the gate of a run
//! - [`questions`]: open questions of agents
//! - [`teams`]: which teams there are, and whether their host or any of their workers is alive
//! - [`model`]: all of it for one team, now and at any past moment
//! - [`status`]: all of it in short, fast enough to be asked every second
//!
//! # What it refuses
//!
//! It writes nothing: no status is ever stored. Texts are passed on as they were written; the caller that displays them
//! cleans and redacts them.

pub mod graph;
pub mod messages;
pub mod model;
mod native;
pub mod questions;
pub mod requests;
pub mod routes;
pub mod status;
pub mod tasks;
pub mod teams;
pub mod workers;
