//! What a person sees of a team.
//!
//! Every function here takes the store and derives what it shows from durable facts at the moment of asking: tasks,
//! heartbeats, claims, receipts, the journal. Nothing is remembered between two calls and no status is ever written
//! down, so the command line, the web page and an MCP client cannot disagree.
//!
//! - [`tasks`]: where each task stands and why; [`graph`]: who waits for whom
//! - [`workers`]: how each worker is, with the evidence; [`routes`]: who should get a task
//! - `native`: the same for teammates of Claude Code, which have no heartbeats
//! - [`messages`]: what was sent and whether it arrived
//! - [`requests`]: what agents want to do, and what a run waits for at its gate: a person has to decide
//! - [`questions`]: what somebody asked and nobody has answered
//! - [`teams`]: which teams there are and whether any of their workers is alive
//! - [`model`]: all of it for one team, now and at any past moment
//! - [`status`]: all of it in short, fast enough to be asked every second
//!
//! Texts are passed on as they were written. Whoever shows them cleans and redacts them.

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
