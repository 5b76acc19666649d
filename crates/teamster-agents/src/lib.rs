//! A driver for each coding agent: what to start, what its bytes mean, whether the work is done.
//!
//! ```text
//! Provider ──driver()──▶ Driver ──launch(job)──▶ Launch      what the bridge starts, in the job's worktree
//!                          └─────reader(job)──▶ Reader
//!                                                 ├ line(bytes) ─▶ Step      events, replies, "close its input"
//!                                                 └ end(exit)   ─▶ Outcome   verdict, session, what it spent
//! ```
//!
//! Three rules decide everything here:
//! 1. Success is what the client's terminal event says AND exit code 0. Either alone lies for some client.
//! 2. Rate limits, outages and a lost sign-in are nobody's failed attempt: they pause the worker.
//! 3. What is unknown stays unknown: a line, a cost, a session. It never turns into a success or a 0.
//!
//! The crate starts no process (that is `teamster-isolate`) and reads no clock. Only [`detect`] looks at the machine,
//! and [`scripted::play`] is a program of its own: the agent that plays a script.

mod claude;
mod codex;
mod command;
pub mod detect;
mod driver;
mod event;
mod gemini;
mod lines;
mod outcome;
mod permission;
mod provider;
mod reader;
pub mod scripted;
mod trouble;
mod words;

pub use claude::ClaudeDriver;
pub use codex::CodexDriver;
pub use command::CommandDriver;
pub use driver::{
    AgentInput, CREDENTIALS, CannotLaunch, Driver, Interrupt, Job, Launch, OUTER_SESSION_VARS,
    ResumeSession, SoftSignal, TaskFacts,
};
pub use event::{AgentEvent, AgentSpending, PermissionDecision, Trouble, Usage};
pub use gemini::GeminiDriver;
pub use lines::{LONGEST_LINE, LineSplitter};
pub use permission::{Permissions, Rule};
pub use provider::{Configured, Provider, ProviderError, ProviderKind, Providers};
pub use reader::{
    AgentEnd, AgentOutcome, AgentVerdict, Exit, LineEffects, OutputReader, PermissionReply, Stopped,
};
pub use scripted::ScriptedDriver;
