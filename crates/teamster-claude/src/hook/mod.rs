//! `teamster hook EVENT`: what the client tells becomes a change of the state, and an answer.
//!
//! ```text
//! payload ──► who is it? (registry, panes) ──► operations on the state ──► one line of JSON
//!                                          └─► zombie record, journal
//! ```
//!
//! The client waits for us, so nothing here waits for long or fails: what goes wrong is said in the log, and the
//! answer is one that lets the agent go on.
//!
//! - [`payload`](Payload) reads what came, whatever its version and types;
//! - `actor` finds out who it is about and whose state it belongs to;
//! - `events` is the table of events, one function for each; `tools` has those of tools, `parts` what all are made of;
//! - `unfinished` is what a new session is told about a run that is not over;
//! - `answer` is what the client accepts.

mod actor;
mod alert;
mod answer;
mod events;
mod journal;
mod parts;
mod payload;
mod tools;
mod unfinished;

use std::time::{Duration, Instant};

use teamster_fs::layout::Layout;
use teamster_types::Time;

pub use payload::Payload;

/// No hook takes longer, whatever others do.
pub const LONGEST: Duration = Duration::from_millis(1_800);
/// Hooks at the end of a session share 1.5 s with everybody else's.
pub const LONGEST_AT_END: Duration = Duration::from_millis(400);

/// What a hook is called with, besides its payload.
#[derive(Clone, Debug)]
pub struct World {
    /// Where things are.
    pub layout: Layout,
    /// The time of day.
    pub now: Time,
    /// When the hook began.
    pub began: Instant,
    /// `TMUX_PANE`
    pub pane: Option<String>,
    /// `CLAUDE_PID`: the client.
    pub client: Option<u32>,
    /// `TEAMSTER_WORKER`: the agent is one of our own workers.
    pub worker: Option<String>,
    /// `TEAMSTER_TEAM`
    pub team: Option<String>,
    /// Whether anything may be written (`team.enabled`).
    pub writes: bool,
}

/// What a hook says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One JSON object for the client.
    pub stdout: Option<String>,
    /// For whoever reads the client's error stream.
    pub stderr: Vec<String>,
    /// For whoever asks what happened (`TEAMSTER_DEBUG`).
    pub log: Vec<String>,
    /// What the caller does before it gives the answer to the client.
    pub follow_up: Option<FollowUp>,
}

/// The part of a hook that needs more than this crate has: removing teams that are over. The caller does it, and then
/// completes the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// A session began. Stale teams may be removed; afterwards the answer is completed by [`add_unfinished_run`].
    SessionStarted {
        /// Whether anything may be removed.
        may_sweep: bool,
    },
    /// This session ended for good. The team that it led may be removed.
    SessionEnded {
        /// The id of the session.
        session: String,
    },
}

/// Adds to the answer at the start of a session what it is told about a run that is not over. It is called after the
/// sweep: a run whose team was just removed is not mentioned.
pub fn add_unfinished_run(answer: &mut Answer, world: &World) {
    match unfinished::run_of(world) {
        Ok(run) => answer.stdout = run.map(|text| answer::context("SessionStart", &text)),
        Err(error) => answer.log.push(format!(
            "SessionStart: nobody knows whether a run is unfinished: {error}"
        )),
    }
}

/// Does what a hook has to do. It never fails: what cannot be done is in the log.
pub fn run(event: &str, input: &[u8], world: &World) -> Answer {
    let payload = match Payload::parse(input) {
        Ok(payload) => payload,
        Err(error) => {
            return Answer {
                stdout: answer::after_bad_input(event),
                log: vec![format!("{event}: the payload is unusable: {error}")],
                ..Answer::default()
            };
        }
    };
    let event = match event {
        "" => payload.text("hook_event_name").unwrap_or_default(),
        event => event,
    };
    let mut hook = events::Hook::new(event, &payload, world);
    if world.worker.is_some() {
        hook.journal_as_worker();
        return hook.answer(answer::after_bad_input(event));
    }
    let stdout = match event {
        "SubagentStart" => Some(hook.subagent_start()),
        "SubagentStop" => Some(hook.subagent_stop()),
        "PreToolUse" | "PostToolUse" => hook.tool_use(),
        "TeammateIdle" => Some(hook.teammate_idle()),
        "TaskCreated" => Some(hook.task_created()),
        "TaskCompleted" => Some(hook.task_completed()),
        "Notification" => hook.notification(),
        "Stop" => hook.stop(),
        "SessionStart" => hook.session_start(),
        "SessionEnd" => hook.session_end(),
        _ => {
            hook.journal_other();
            None
        }
    };
    hook.answer(stdout)
}
