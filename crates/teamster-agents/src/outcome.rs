//! How a run of a client ended, and how the verdict is derived from it, by one rule for every client.

use crate::event::{AgentEvent, AgentSpending, ErrorClass};
use crate::limit::ReachedLimit;
use crate::text::{describe_exit, last_line, reason, summary};

/// How a client's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentEnd {
    /// The exit code or the signal.
    pub exit: Exit,
    /// Why teamster ended the process, if it did.
    pub stopped: Option<Stopped>,
}

impl AgentEnd {
    /// Describes a process that ended by itself with this exit code.
    pub fn code(code: i32) -> Self {
        Self {
            exit: Exit::Code(code),
            stopped: None,
        }
    }

    /// Describes a process that was ended by a signal that teamster did not send.
    pub fn signal(signal: i32) -> Self {
        Self {
            exit: Exit::Signal(signal),
            stopped: None,
        }
    }

    /// Adds that teamster ended the process.
    #[must_use]
    pub fn stopped(self, stopped: Stopped) -> Self {
        Self {
            stopped: Some(stopped),
            ..self
        }
    }
}

/// The exit status of a process, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The process ended with this code.
    Code(i32),
    /// The process was ended by this signal.
    Signal(i32),
    /// The status is unknown: another process collected it, or it was lost.
    Unknown,
}

/// Why teamster ended a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The worker was asked to stop: by a shutdown, a budget or a person.
    Interrupted,
    /// The client sent no event for too long.
    Silent,
    /// The client exceeded the time limit of a task.
    Late,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentOutcome {
    /// Whether the work is done.
    pub verdict: AgentVerdict,
    /// Whether the agent itself ever showed that it was running. If not, the launch failed.
    pub started: bool,
    /// The client's session, to resume it later.
    pub session: Option<String>,
    /// The spending of this run.
    pub spent: AgentSpending,
    /// The limit that the client reports, when it is the reason for [`AgentVerdict::Paused`].
    pub limit: Option<ReachedLimit>,
}

/// Whether the work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentVerdict {
    /// The client reported success and exited with code 0.
    Done {
        /// The client's last message.
        summary: String,
    },
    /// The attempt failed, and counts as a failure.
    Failed {
        /// Why the attempt failed.
        reason: String,
    },
    /// An error that would have hit any task. The worker waits, and no failed attempt is counted.
    Paused {
        /// The kind of the error, never [`ErrorClass::Task`].
        class: ErrorClass,
        /// The error in the client's words.
        reason: String,
    },
    /// Teamster interrupted the client before it had finished.
    Interrupted,
    /// The session to resume does not exist. The job can be launched again without it; no failed attempt is counted.
    SessionGone {
        /// The error in the client's words.
        reason: String,
    },
}

impl AgentVerdict {
    /// Returns whether the work is done.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// Collects the facts that decide about a run, and derives its verdict.
#[derive(Debug, Default)]
pub(crate) struct OutcomeBuilder {
    started: bool,
    session: Option<String>,
    end: Option<TerminalEvent>,
    /// The last error since the agent last made progress.
    class: Option<(ErrorClass, String)>,
    /// The limit that is reached, by the client's latest report.
    limit: Option<ReachedLimit>,
}

/// The client's terminal event.
#[derive(Clone, Debug)]
pub(crate) enum TerminalEvent {
    /// The client reports that the work is done.
    Success { summary: String },
    /// The client reports that the work is not done.
    Failure { class: ErrorClass, reason: String },
    /// The session to resume does not exist.
    SessionGone { reason: String },
}

impl OutcomeBuilder {
    /// Notes that the agent has started, and returns the event the first time. A later start begins a new turn, so an earlier
    /// terminal event no longer counts.
    pub(crate) fn start(
        &mut self,
        session: Option<&str>,
        model: Option<&str>,
    ) -> Option<AgentEvent> {
        self.end = None;
        if let Some(session) = session {
            self.session = Some(session.to_owned());
        }
        (!std::mem::replace(&mut self.started, true)).then(|| AgentEvent::Started {
            session: self.session.clone(),
            model: model.map(str::to_owned),
        })
    }

    /// Notes that the agent made progress, so an earlier error is resolved.
    pub(crate) fn note_progress(&mut self) {
        self.class = None;
    }

    /// Notes an error, and returns its event.
    pub(crate) fn error(&mut self, class: ErrorClass, message: &str, retrying: bool) -> AgentEvent {
        let message = reason(message);
        self.class = Some((class, message.clone()));
        AgentEvent::Error {
            message,
            class,
            retrying,
        }
    }

    /// Notes which limit is reached, or that none is.
    pub(crate) fn note_limit(&mut self, limit: Option<ReachedLimit>) {
        self.limit = limit;
    }

    /// Returns the limit that is reached.
    pub(crate) fn limit(&self) -> Option<&ReachedLimit> {
        self.limit.as_ref()
    }

    /// Returns the kind of the last unresolved error.
    pub(crate) fn class(&self) -> Option<ErrorClass> {
        self.class.as_ref().map(|(class, _)| *class)
    }

    /// Notes that a new turn begins, so an earlier terminal event no longer counts.
    pub(crate) fn turn(&mut self) {
        self.end = None;
    }

    /// Notes the client's terminal event, and returns it as an event of the agent.
    pub(crate) fn finish(&mut self, mut end: TerminalEvent) -> AgentEvent {
        let (success, said) = match &mut end {
            TerminalEvent::Success { summary: said } => {
                *said = summary(said);
                (true, said)
            }
            TerminalEvent::Failure { reason: said, .. }
            | TerminalEvent::SessionGone { reason: said } => {
                *said = reason(said);
                (false, said)
            }
        };
        let summary = reason(said);
        self.end = Some(end);
        AgentEvent::Finished { success, summary }
    }

    /// Returns whether there was a terminal event.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// Substitutes a missing terminal event, for clients whose exit codes have a meaning.
    pub(crate) fn stand_in(&mut self, end: impl FnOnce() -> Option<TerminalEvent>) {
        if self.end.is_none() {
            self.end = end();
        }
    }

    /// Returns the outcome: success requires both a successful terminal event and exit code 0.
    pub(crate) fn outcome(
        self,
        ending: AgentEnd,
        stderr: &str,
        spent: AgentSpending,
    ) -> AgentOutcome {
        let verdict = judge(self.end, self.class, ending, stderr);
        let is_limited = matches!(
            verdict,
            AgentVerdict::Paused {
                class: ErrorClass::RateLimit,
                ..
            }
        );
        AgentOutcome {
            limit: self.limit.filter(|_| is_limited),
            verdict,
            started: self.started,
            session: self.session,
            spent,
        }
    }
}

fn judge(
    end: Option<TerminalEvent>,
    class: Option<(ErrorClass, String)>,
    ending: AgentEnd,
    stderr: &str,
) -> AgentVerdict {
    if let (Some(TerminalEvent::Success { summary: said }), Exit::Code(0)) = (&end, ending.exit) {
        return AgentVerdict::Done {
            summary: summary(said),
        };
    }
    let how = describe_exit(ending.exit);
    let with_last_words = |text: String| match last_line(stderr) {
        Some(said) => reason(&format!("{text}: {said}")),
        None => text,
    };
    match ending.stopped {
        Some(Stopped::Interrupted) => return AgentVerdict::Interrupted,
        Some(stopped) => {
            let what = match stopped {
                Stopped::Silent => "it sent no event for too long and was stopped",
                _ => "it exceeded the time limit of a task and was stopped",
            };
            return match class {
                Some((class, message)) => failed_by(class, &format!("{message} ({what})")),
                None => failed_by(ErrorClass::Task, &with_last_words(what.to_owned())),
            };
        }
        None => {}
    }
    match (end, class) {
        (Some(TerminalEvent::Failure { class, reason }), _) => failed_by(class, &reason),
        (Some(TerminalEvent::SessionGone { reason: why }), _) => AgentVerdict::SessionGone {
            reason: reason(&why),
        },
        (Some(TerminalEvent::Success { .. }), _) => failed_by(
            ErrorClass::Task,
            &with_last_words(format!(
                "it reported success, but did not end cleanly ({how})"
            )),
        ),
        // A client that gives up exits with a code; a client that was killed did not give up.
        (None, Some((class, message))) if matches!(ending.exit, Exit::Code(_)) => {
            failed_by(class, &format!("{message} ({how})"))
        }
        (None, _) => failed_by(
            ErrorClass::Task,
            &with_last_words(format!("it ended without a result ({how})")),
        ),
    }
}

fn failed_by(class: ErrorClass, why: &str) -> AgentVerdict {
    let reason = reason(why);
    if class.pauses() {
        AgentVerdict::Paused { class, reason }
    } else {
        AgentVerdict::Failed { reason }
    }
}
