//! From the bytes of one run to events and, at its end, a verdict.

use crate::event::{AgentEvent, AgentSpending, Trouble};

/// Understands one run of a client.
///
/// Whatever the lines hold, a reader neither fails nor takes for a success what is none.
pub trait OutputReader: Send {
    /// One line of the client's standard output, with or without its line end.
    fn line(&mut self, line: &[u8]) -> LineEffects;

    /// A person's answer to a request that was [`PermissionDecision::Asked`](crate::PermissionDecision::Asked): what to write to the
    /// client's input. `None`: nobody waits for it any more.
    fn answer(&mut self, request: &str, answer: PermissionReply) -> Option<Vec<u8>> {
        let _ = (request, answer);
        None
    }

    /// The client has ended. `stderr_tail` is the end of its error stream, for the reason.
    fn end(self: Box<Self>, ending: AgentEnd, stderr_tail: &str) -> AgentOutcome;
}

/// What one line led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineEffects {
    /// What the agent did.
    pub events: Vec<AgentEvent>,
    /// What to write to its input now, each with its line end.
    pub replies: Vec<Vec<u8>>,
    /// Close its input after that: it has nothing more to wait for.
    pub close_input: bool,
}

impl LineEffects {
    pub(crate) fn event(event: AgentEvent) -> Self {
        Self {
            events: vec![event],
            ..Self::default()
        }
    }
}

/// What a person says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionReply {
    /// It may.
    Allow,
    /// It may not, for this reason.
    Deny(String),
}

/// How a client's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentEnd {
    /// By itself or by a signal.
    pub exit: Exit,
    /// Whether we made it end.
    pub stopped: Option<Stopped>,
}

impl AgentEnd {
    /// It ended by itself with this exit code.
    pub fn code(code: i32) -> Self {
        Self {
            exit: Exit::Code(code),
            stopped: None,
        }
    }

    /// A signal ended it, and we did not send it.
    pub fn signal(signal: i32) -> Self {
        Self {
            exit: Exit::Signal(signal),
            stopped: None,
        }
    }

    /// We made it end.
    #[must_use]
    pub fn stopped(self, stopped: Stopped) -> Self {
        Self {
            stopped: Some(stopped),
            ..self
        }
    }
}

/// What the kernel says about a process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody knows: somebody else's child, or it was lost.
    Unknown,
}

/// Why we made a client end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to: shutdown, budget, a person.
    Interrupted,
    /// It sent no event for too long.
    Silent,
    /// It took longer than a task may.
    Late,
}

/// How a run ended, all in all.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOutcome {
    /// Whether the work is done.
    pub verdict: AgentVerdict,
    /// Whether the agent itself ever showed that it was there. If not, the launch failed.
    pub started: bool,
    /// The client's session, to go on with.
    pub session: Option<String>,
    /// What this run spent.
    pub spent: AgentSpending,
}

/// Whether the work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentVerdict {
    /// The client said so at its end and exited with 0.
    Done {
        /// What it said.
        summary: String,
    },
    /// The attempt failed and counts.
    Failed {
        /// Why.
        reason: String,
    },
    /// Something that would have hit any task. The worker waits; the task loses no attempt.
    Paused {
        /// What: never [`Trouble::Task`].
        trouble: Trouble,
        /// In the client's words.
        reason: String,
    },
    /// We interrupted it, and it had not finished.
    Interrupted,
    /// The session to go on with is not there. The job can be launched again without it; no attempt is lost.
    SessionGone {
        /// In the client's words.
        reason: String,
    },
}

impl AgentVerdict {
    /// Whether the work is done.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}
