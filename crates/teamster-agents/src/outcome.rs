//! How a run of a client ended, and how a verdict is made of it: one rule for every client.

use crate::event::{AgentEvent, AgentSpending, Trouble};
use crate::limit::ReachedLimit;
use crate::text::{describe_exit, last_line, reason, summary};

/// How a client's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentEnd {
    /// By itself or by a signal.
    pub exit: Exit,
    /// Whether we made it end.
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

    /// Describes a process that was ended by a signal which we did not send.
    pub fn signal(signal: i32) -> Self {
        Self {
            exit: Exit::Signal(signal),
            stopped: None,
        }
    }

    /// Adds that we made the process end.
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
    /// The limit that the client says is reached, when that is why it is [`AgentVerdict::Paused`].
    pub limit: Option<ReachedLimit>,
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
        /// Why the attempt failed.
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

/// Collects what decides about a run, and makes the verdict of it.
#[derive(Debug, Default)]
pub(crate) struct OutcomeBuilder {
    started: bool,
    session: Option<String>,
    end: Option<TerminalEvent>,
    /// The last error since the agent last made progress.
    trouble: Option<(Trouble, String)>,
    /// The limit that is reached, by what the client last told.
    limit: Option<ReachedLimit>,
}

/// What the client's terminal event said.
#[derive(Clone, Debug)]
pub(crate) enum TerminalEvent {
    /// The client says that the work is done.
    Success { summary: String },
    /// The client says that the work is not done.
    Failure { trouble: Trouble, reason: String },
    /// The session that was to go on is not there.
    SessionGone { reason: String },
}

impl OutcomeBuilder {
    /// Notes the agent's first event, and returns it. Later ones begin a new turn, so an earlier end is none.
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

    /// Notes that the agent made progress: an earlier error was overcome.
    pub(crate) fn note_progress(&mut self) {
        self.trouble = None;
    }

    /// Notes an error, and returns its event.
    pub(crate) fn error(&mut self, trouble: Trouble, message: &str, retrying: bool) -> AgentEvent {
        let message = reason(message);
        self.trouble = Some((trouble, message.clone()));
        AgentEvent::Error {
            message,
            trouble,
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

    /// Returns the kind of the error that is not overcome.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble.as_ref().map(|(trouble, _)| *trouble)
    }

    /// Notes that a new turn begins: what ended before is not the end.
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

    /// Returns whether a terminal event came.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// Puts an end in the place of a missing terminal event, for exit codes that mean something to a client.
    pub(crate) fn stand_in(&mut self, end: impl FnOnce() -> Option<TerminalEvent>) {
        if self.end.is_none() {
            self.end = end();
        }
    }

    /// Returns the outcome: success needs the terminal event and exit code 0, both.
    pub(crate) fn outcome(
        self,
        ending: AgentEnd,
        stderr: &str,
        spent: AgentSpending,
    ) -> AgentOutcome {
        let verdict = judge(self.end, self.trouble, ending, stderr);
        let is_limited = matches!(
            verdict,
            AgentVerdict::Paused {
                trouble: Trouble::RateLimit,
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
    trouble: Option<(Trouble, String)>,
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
                _ => "it took longer than a task may and was stopped",
            };
            return match trouble {
                Some((trouble, message)) => failed_by(trouble, &format!("{message} ({what})")),
                None => failed_by(Trouble::Task, &with_last_words(what.to_owned())),
            };
        }
        None => {}
    }
    match (end, trouble) {
        (Some(TerminalEvent::Failure { trouble, reason }), _) => failed_by(trouble, &reason),
        (Some(TerminalEvent::SessionGone { reason: why }), _) => AgentVerdict::SessionGone {
            reason: reason(&why),
        },
        (Some(TerminalEvent::Success { .. }), _) => failed_by(
            Trouble::Task,
            &with_last_words(format!(
                "it said that it was done, but ended otherwise ({how})"
            )),
        ),
        // A client that gave up trying says so with an exit code; one that was killed did not give up.
        (None, Some((trouble, message))) if matches!(ending.exit, Exit::Code(_)) => {
            failed_by(trouble, &format!("{message} ({how})"))
        }
        (None, _) => failed_by(
            Trouble::Task,
            &with_last_words(format!("it ended without a result ({how})")),
        ),
    }
}

fn failed_by(trouble: Trouble, why: &str) -> AgentVerdict {
    let reason = reason(why);
    if trouble.pauses() {
        AgentVerdict::Paused { trouble, reason }
    } else {
        AgentVerdict::Failed { reason }
    }
}
