//! Drivers for coding agents: what to start for a job, what the client's bytes mean, and whether the work is done.
//!
//! # What it owns
//!
//! One module for each kind of agent, with its command line and its output format: [`ClaudeDriver`], [`CodexDriver`],
//! [`GeminiDriver`], any program ([`CommandDriver`]) and teamster's own agent that plays a script ([`ScriptedDriver`]).
//!
//! A *client* is an agent program such as Claude Code; a *provider* is the name by which a user asks for one, with its
//! settings; a *driver* is this crate's code for one client.
//!
//! # How it works
//!
//! ```text
//! word of the user ─▶ Provider ─▶ Driver ──launch(job)──▶ Launch          what to start, in the job's worktree
//!                                   └─────reader(job)───▶ OutputReader
//!                                                          ├ line(bytes) ─▶ LineEffects   events, replies, "close its input"
//!                                                          ├ answer(…)   ─▶ bytes         a person's decision, for its input
//!                                                          ├ deliver(…)  ─▶ MessageRoute  how a message reaches the running agent
//!                                                          └ end(exit)   ─▶ AgentOutcome  verdict, session, what it spent
//! ```
//!
//! Three rules hold for every client that reports its own result; `OutcomeBuilder` applies the first two, and the
//! readers keep the third:
//! 1. Success requires both the client's terminal event AND exit code 0. For some clients, either alone is misleading.
//! 2. Rate limits, outages and a lost sign-in do not count as failed attempts: they pause the worker.
//! 3. Unknown lines, costs and sessions stay unknown. They never turn into a success or a 0.
//!
//! A plain command has no terminal event: its exit code alone decides (`command.rs`).
//!
//! # Adding a client
//!
//! A program that reads its prompt from standard input needs no driver: `--provider NAME=command:…`, or `[providers.NAME]`
//! in the settings, is enough. For a client whose output is to be parsed, `gemini.rs` is the smallest complete example:
//! 1. In a file of its own, implement [`Driver`] (what to start, how it is asked to exit) and [`OutputReader`] (its lines to
//!    [`AgentEvent`]s). Keep an `OutcomeBuilder` in the reader and notify it of the start, of errors and of the terminal
//!    event; `error_class` classifies errors of the model's server, `text` shortens long texts. Declare the module and
//!    re-export the driver in `lib.rs`.
//! 2. Add it to [`ProviderKind`] and its driver to [`Provider::driver`]; its aliases, how to install it and the prefix
//!    of its tools to [`CLIENTS`]; its credentials to [`CREDENTIALS`]; and what its workers can do to
//!    `teamster_types::routing`. Code that chooses a client, a leader or a reviewer uses [`CLIENTS`]. If [`detect`]
//!    lists the client among those without a driver, remove it there. `check_agent` in `teamster-app` decides whether
//!    it is ready to start; the compiler asks for the missing arm.
//! 3. Record runs of the real client into `tests/fixtures/workers/NAME` of the repository (done, failed, limited,
//!    interrupted, killed) and add the name to the lists in `tests/agents/mod.rs`: every recording is then a test, both
//!    complete and cut off at any line.
//! 4. To offer teamster's tools to a person's own client of this kind, add it to `tool_server` of `teamster-app` and to
//!    `install` and `uninstall` in `teamster`.
//!
//! # What it refuses
//!
//! A prompt never becomes part of a command line, and a client sees only its own credentials. The crate starts no
//! agents (that is `teamster-isolate`) and keeps no state between runs. It starts no other program, writes no file and
//! reads no clock either, with three exceptions: [`detect`] searches the machine and asks programs for their version,
//! by which the driver of Codex chooses its protocol; the driver of Gemini creates a home folder for each launch; and
//! [`scripted::play`] runs inside a scripted worker's process.

mod claude;
mod client;
mod codex;
mod command;
pub mod detect;
mod driver;
mod error_class;
mod event;
mod gemini;
mod limit;
mod outcome;
mod permission;
mod provider;
pub mod scripted;
mod text;

pub use claude::ClaudeDriver;
pub use client::{CLIENTS, Client};
pub use codex::{CodexDriver, CodexProtocol};
pub use command::CommandDriver;
pub use driver::{
    AgentInput, AgentTools, CREDENTIALS, CannotLaunch, Driver, Interrupt, Job, JobTask, Launch,
    LineEffects, MessageRoute, OUTER_SESSION_VARS, OutputReader, PermissionReply, QuestionReply,
    ResumeSession, SoftSignal,
};
pub use event::{AgentEvent, AgentSpending, ErrorClass, PermissionDecision, Usage};
pub use gemini::GeminiDriver;
pub use limit::ReachedLimit;
pub use outcome::{AgentEnd, AgentOutcome, AgentVerdict, Exit, Stopped};
pub use permission::{Permissions, Rule};
pub use provider::{Provider, ProviderConfig, ProviderError, ProviderKind, Providers};
pub use scripted::ScriptedDriver;
