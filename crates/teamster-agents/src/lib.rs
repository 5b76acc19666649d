//! Drivers for coding agents: what to start for a job, what the client's bytes mean, and whether the work is done.
//!
//! # What it owns
//!
//! One file for each client, with how it is run and what it says: [`ClaudeDriver`], [`CodexDriver`], [`GeminiDriver`], any program ([`CommandDriver`]) and our own agent that plays a script
//! ([`ScriptedDriver`]).
//!
//! # How it works
//!
//! ```text
//! word of the user ─▶ Provider ─▶ Driver ──launch(job)──▶ Launch          what to start, in the job's worktree
//!                                   └─────reader(job)───▶ OutputReader
//!                                                          ├ line(bytes) ─▶ LineEffects   events, replies, "close its input"
//!                                                          ├ answer(…)   ─▶ bytes         a person's decision, for its input
//!                                                          ├ deliver(…)  ─▶ MessageRoute  how words of others reach it now
//!                                                          └ end(exit)   ─▶ AgentOutcome  verdict, session, what it spent
//! ```
//!
//! Three rules decide everything here, and `OutcomeBuilder` applies them for every client:
//! 1. Success is what the client's terminal event says AND exit code 0. Either alone lies for some client.
//! 2. Rate limits, outages and a lost sign-in are nobody's failed attempt: they pause the worker.
//! 3. What is unknown stays unknown: a line, a cost, a session. It never turns into a success or a 0.
//!
//! # Adding a client
//!
//! `gemini.rs` is the smallest complete example.
//! 1. In a file of its own, implement [`Driver`] (what to start, how it is asked to end) and [`OutputReader`] (its lines to
//!    [`AgentEvent`]s). Keep an `OutcomeBuilder` in the reader and tell it of the start, of errors and of the terminal
//!    event; `trouble` classifies errors of the model's server, `text` cuts what is long.
//! 2. Add it to [`ProviderKind`] and its driver to [`Provider::driver`], its names and how to install it to [`CLIENTS`], its
//!    credentials to [`CREDENTIALS`], and what its workers can do to `teamster_types::routing`. Whoever chooses a client, a
//!    leader or a reviewer goes by [`CLIENTS`]. A name that [`detect`] lists as one without a driver is taken out there.
//! 3. Record runs of the real client into `tests/fixtures/workers/NAME` (done, failed, limited, interrupted, killed) and add
//!    the name to the lists in `tests/agents/mod.rs`: every recording is then a test, whole and cut off at any line.
//! 4. If a person's own client of this kind is to have our tools, add it to `tool_server` of `teamster-app`.
//!
//! # What it refuses
//!
//! The crate starts no process (that is `teamster-isolate`), reads no clock and keeps no state between runs. A prompt never
//! becomes part of a command line, and a client sees no credentials but its own. Only [`detect`] looks at the machine, and the
//! driver of Gemini, which makes a home for each launch; [`scripted::play`] is what a scripted worker's process runs.

mod claude;
mod client;
mod codex;
mod command;
pub mod detect;
mod driver;
mod event;
mod gemini;
mod limit;
mod outcome;
mod permission;
mod provider;
pub mod scripted;
mod text;
mod trouble;

pub use claude::ClaudeDriver;
pub use client::{CLIENTS, Client};
pub use codex::{CodexDriver, CodexProtocol};
pub use command::CommandDriver;
pub use driver::{
    AgentInput, AgentTools, CREDENTIALS, CannotLaunch, Driver, Interrupt, Job, JobTask, Launch,
    LineEffects, MessageRoute, OUTER_SESSION_VARS, OutputReader, PermissionReply, QuestionReply,
    ResumeSession, SoftSignal,
};
pub use event::{AgentEvent, AgentSpending, PermissionDecision, Trouble, Usage};
pub use gemini::GeminiDriver;
pub use limit::ReachedLimit;
pub use outcome::{AgentEnd, AgentOutcome, AgentVerdict, Exit, Stopped};
pub use permission::{Permissions, Rule};
pub use provider::{Provider, ProviderConfig, ProviderError, ProviderKind, Providers};
pub use scripted::ScriptedDriver;
