//! What an agent did, in our words, whichever client it is.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
pub use teamster_types::usage::Usage;

/// One thing that an agent did or said.
///
/// Texts are as the client sent them, cut where they are very long and not redacted: whoever shows or keeps them
/// does that.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The agent is there: the proof of start.
    Started {
        /// What it calls its session; [`ResumeSession`](crate::ResumeSession) continues it.
        session: Option<String>,
        /// The model it says it uses.
        model: Option<String>,
    },
    /// It said something.
    Text(String),
    /// It calls a tool.
    ToolUse {
        /// The client's name of this call; the result has the same.
        call: String,
        /// The name of the tool.
        tool: String,
        /// What it is called with, in one line: the command, the path.
        detail: String,
    },
    /// A tool answered.
    ToolResult {
        /// The call that is answered.
        call: String,
        /// Whether the tool failed. For some clients a command that failed is no failure of the tool.
        failed: bool,
        /// The beginning of what came back.
        detail: String,
    },
    /// It changed files, as far as the client tells. What really changed is for git to say.
    FileChange {
        /// The paths of the files.
        paths: Vec<PathBuf>,
    },
    /// It used tokens since the last such event. All of a run's added up are what the run used.
    Usage(Usage),
    /// It asked whether it may do something.
    PermissionAsked {
        /// The client's name of the request, for [`OutputReader::answer`](crate::OutputReader::answer).
        request: String,
        /// With which tool.
        tool: String,
        /// What it wants to do, in one line.
        detail: String,
        /// What it was told.
        decision: PermissionDecision,
    },
    /// Its client asks the person something in words, and waits for the answer.
    QuestionAsked {
        /// The client's name of the question, for [`OutputReader::answer_question`](crate::OutputReader::answer_question).
        request: String,
        /// The question, with the answers that the client proposes.
        question: String,
    },
    /// Its client waits no more for the answer to a question.
    QuestionWithdrawn {
        /// The client's name of the question.
        request: String,
    },
    /// It wants its work committed now, with this message.
    CommitAsked {
        /// The message of the commit.
        message: String,
    },
    /// Something went wrong.
    Error {
        /// What, in the client's words.
        message: String,
        /// Whose trouble it is.
        trouble: Trouble,
        /// The client tries again by itself: nothing is decided yet.
        retrying: bool,
    },
    /// The client remarks on something that stops nothing.
    Notice(String),
    /// The client says that its turn is over. The verdict needs its exit code as well.
    Finished {
        /// Whether it calls that a success.
        success: bool,
        /// What it says at the end.
        summary: String,
    },
    /// A line that nobody understands, or its beginning. It is a sign of life and nothing else.
    Unknown(String),
}

impl AgentEvent {
    /// Takes in the sum of all that a run has used, where its client told one, and returns what is new in it. A sum that
    /// is smaller than what was told before changes nothing.
    pub(crate) fn usage_since(used: &mut Option<Usage>, total: Option<Usage>) -> Vec<Self> {
        let Some(total) = total else {
            return Vec::new();
        };
        let so_far = used.unwrap_or_default();
        let total = total.larger(so_far);
        *used = Some(total);
        let rest = total.minus(so_far);
        if rest.is_zero() {
            return Vec::new();
        }
        vec![Self::Usage(rest)]
    }

    /// Returns the event as a line for a person who reads along, empty where there is nothing to read, or `None` where only
    /// the client's own line tells.
    pub fn shown(&self) -> Option<String> {
        Some(match self {
            // A program that has no session says by its first line that it is there; and what something costs is shown
            // elsewhere, in sums.
            Self::Started {
                session: None,
                model: None,
            }
            | Self::Usage(_) => String::new(),
            Self::Started { session, model } => {
                let about = [session, model].into_iter().flatten().cloned();
                format!("begins ({})", about.collect::<Vec<_>>().join(", "))
            }
            Self::Text(text) | Self::Notice(text) => text.clone(),
            Self::ToolUse { tool, detail, .. } => format!("→ {tool} {detail}"),
            Self::ToolResult { failed, detail, .. } if *failed => format!("← FAILED {detail}"),
            Self::ToolResult { detail, .. } if detail.is_empty() => "← ok".to_owned(),
            Self::ToolResult { detail, .. } => format!("← {detail}"),
            Self::FileChange { paths } => {
                let paths = paths.iter().map(|path| path.display().to_string());
                format!("changed {}", paths.collect::<Vec<_>>().join(", "))
            }
            Self::PermissionAsked {
                tool,
                detail,
                decision,
                ..
            } => match decision {
                PermissionDecision::Allowed => format!("may {tool} {detail}"),
                PermissionDecision::Denied { reason } => {
                    format!("may not {tool} {detail}: {reason}")
                }
                PermissionDecision::Asked => format!("asks a person: {tool} {detail}"),
            },
            Self::QuestionAsked { question, .. } => format!("asks: {question}"),
            Self::QuestionWithdrawn { .. } => "asks that no more".to_owned(),
            Self::CommitAsked { message } => format!("commits: {message}"),
            Self::Error {
                message, retrying, ..
            } if *retrying => format!("error, it tries again: {message}"),
            Self::Error { message, .. } => format!("error: {message}"),
            Self::Finished { success, summary } if *success => format!("finished: {summary}"),
            Self::Finished { summary, .. } => format!("finished without success: {summary}"),
            Self::Unknown(_) => return None,
        })
    }
}

/// What an agent that asked was told, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The agent may do it.
    Allowed,
    /// The agent may not do it.
    Denied {
        /// Why the agent may not do it.
        reason: String,
    },
    /// A person has to say; [`OutputReader::answer`](crate::OutputReader::answer) passes the answer on.
    Asked,
}

/// Whose trouble an error is, which decides what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// Too many requests, or a quota is used up.
    RateLimit,
    /// The model's server or the way to it is out of order.
    Outage,
    /// The client is not signed in.
    SignIn,
    /// The attempt itself.
    Task,
}

impl Trouble {
    /// Returns whether the trouble would have hit any task: then the worker waits and the task loses no attempt.
    pub fn pauses(self) -> bool {
        self != Self::Task
    }

    /// Returns the trouble in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limit",
            Self::Outage => "outage",
            Self::SignIn => "not signed in",
            Self::Task => "error",
        }
    }
}

/// What a run of a client cost. Unknown is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpending {
    /// The tokens that were used.
    pub usage: Option<Usage>,
    /// Money, in US dollars, as the client itself reckons it.
    pub cost_usd: Option<f64>,
    /// The client ended before it told everything: it was at least this much.
    pub at_least: bool,
}

impl AgentSpending {
    /// Returns the sum of both. What is unknown on one side is unknown in the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usage: self
                .usage
                .zip(other.usage)
                .map(|(left, right)| left.plus(right)),
            cost_usd: self
                .cost_usd
                .zip(other.cost_usd)
                .map(|(left, right)| left + right),
            at_least: self.at_least || other.at_least,
        }
    }

    /// Returns the sum of a session after one more run, for [`ResumeSession::spent`](crate::ResumeSession::spent). A run that was cut short
    /// and told nothing leaves the last known sum standing: a client that counts on from there tells it with the next.
    #[must_use]
    pub fn then(self, run: Self) -> Self {
        let told_nothing = run.usage.is_none() && run.cost_usd.is_none() && run.at_least;
        if told_nothing {
            return Self {
                at_least: true,
                ..self
            };
        }
        self.plus(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(input: Option<u64>, cost_usd: Option<f64>, at_least: bool) -> AgentSpending {
        let usage = input.map(|input| Usage {
            input,
            ..Usage::default()
        });
        AgentSpending {
            usage,
            cost_usd,
            at_least,
        }
    }

    #[test]
    fn what_is_unknown_on_one_side_is_unknown_in_the_sum() {
        let known = spent(Some(3), Some(0.5), false);
        assert_eq!(known.plus(known), spent(Some(6), Some(1.0), false));
        let tokens_only = spent(Some(1), None, false);
        assert_eq!(known.plus(tokens_only), spent(Some(4), None, false));
        assert_eq!(
            known.plus(AgentSpending::default()),
            AgentSpending::default()
        );
    }

    #[test]
    fn a_run_that_was_cut_short_does_not_make_a_session_unknown() {
        let known = spent(Some(3), None, false);
        assert_eq!(
            known.then(spent(None, None, true)),
            spent(Some(3), None, true)
        );
        assert_eq!(known.then(spent(None, None, false)).usage, None);
        assert_eq!(known.then(known), spent(Some(6), None, false));
    }
}
