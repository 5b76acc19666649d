//! What a reader keeps of a run, and how a verdict is made of it: one rule for every client.

use crate::event::{AgentEvent, AgentSpending, Trouble};
use crate::reader::{AgentEnd, AgentOutcome, AgentVerdict, Exit, Stopped};
use crate::words::{exit_words, last_words, reason};

/// What decides about a run.
#[derive(Debug, Default)]
pub(crate) struct OutcomeBuilder {
    started: bool,
    session: Option<String>,
    end: Option<TerminalEvent>,
    /// The last error since the agent last got on.
    trouble: Option<(Trouble, String)>,
}

/// What the client's terminal event said.
#[derive(Clone, Debug)]
pub(crate) enum TerminalEvent {
    /// All is well.
    Success { summary: String },
    /// It is not.
    Failure { trouble: Trouble, reason: String },
    /// The session that was to go on is not there.
    SessionGone { reason: String },
}

impl OutcomeBuilder {
    /// The agent's first event. Later ones begin a new turn, so an earlier end is none.
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

    /// The agent got on: an earlier error was overcome.
    pub(crate) fn gets_on(&mut self) {
        self.trouble = None;
    }

    /// An error came.
    pub(crate) fn error(&mut self, trouble: Trouble, message: &str, retrying: bool) -> AgentEvent {
        let message = reason(message);
        self.trouble = Some((trouble, message.clone()));
        AgentEvent::Error {
            message,
            trouble,
            retrying,
        }
    }

    /// The error that is not overcome.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble.as_ref().map(|(trouble, _)| *trouble)
    }

    /// A new turn begins: what ended before is not the end.
    pub(crate) fn turn(&mut self) {
        self.end = None;
    }

    /// The client's terminal event.
    pub(crate) fn finish(&mut self, mut end: TerminalEvent) -> AgentEvent {
        let (success, said) = match &mut end {
            TerminalEvent::Success { summary } => (true, summary),
            TerminalEvent::Failure { reason, .. } | TerminalEvent::SessionGone { reason } => {
                (false, reason)
            }
        };
        *said = reason(said);
        let summary = said.clone();
        self.end = Some(end);
        AgentEvent::Finished { success, summary }
    }

    /// Whether a terminal event came.
    pub(crate) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// Exits that a client has a meaning of its own for stand in for a missing terminal event.
    pub(crate) fn stand_in(&mut self, end: impl FnOnce() -> Option<TerminalEvent>) {
        if self.end.is_none() {
            self.end = end();
        }
    }

    /// The verdict: success needs the terminal event and exit code 0, both.
    pub(crate) fn outcome(
        self,
        ending: AgentEnd,
        stderr: &str,
        spent: AgentSpending,
    ) -> AgentOutcome {
        let verdict = judge(self.end, self.trouble, ending, stderr);
        AgentOutcome {
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
    if let (Some(TerminalEvent::Success { summary }), Exit::Code(0)) = (&end, ending.exit) {
        return AgentVerdict::Done {
            summary: reason(summary),
        };
    }
    let how = exit_words(ending.exit);
    let with_last_words = |text: String| match last_words(stderr) {
        Some(words) => reason(&format!("{text}: {words}")),
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
