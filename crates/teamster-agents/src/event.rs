//! What an agent did, in the same terms for every client.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
pub use teamster_types::usage::Usage;

/// One thing that an agent did or said.
///
/// Texts are as the client sent them: very long ones are cut, and nothing is redacted. Code that shows or stores them must
/// redact them.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// The agent runs: the proof of start.
    Started {
        /// The client's id of the session; [`ResumeSession`](crate::ResumeSession) continues it.
        session: Option<String>,
        /// The model that the client reports.
        model: Option<String>,
    },
    /// The agent wrote a text.
    Text(String),
    /// The agent calls a tool.
    ToolUse {
        /// The client's id of this call; the result has the same id.
        call: String,
        /// The name of the tool.
        tool: String,
        /// The arguments in one line, such as the command or the path.
        detail: String,
    },
    /// A tool returned a result.
    ToolResult {
        /// The id of the call.
        call: String,
        /// Whether the tool failed. For some clients, a failed command is not a failure of the tool.
        failed: bool,
        /// The beginning of the result.
        detail: String,
    },
    /// The agent changed files, as far as the client reports it. Only git knows what really changed.
    FileChange {
        /// The paths of the files.
        paths: Vec<PathBuf>,
    },
    /// The agent used tokens since the last such event. The sum over a run is the usage of the run.
    Usage(Usage),
    /// The agent asked for permission.
    PermissionAsked {
        /// The client's id of the request, for [`OutputReader::answer`](crate::OutputReader::answer).
        request: String,
        /// The tool that the agent wants to use.
        tool: String,
        /// What the agent wants to do, in one line.
        detail: String,
        /// The decision.
        decision: PermissionDecision,
    },
    /// The client asks the person a question in words, and waits for the answer.
    QuestionAsked {
        /// The client's id of the question, for [`OutputReader::answer_question`](crate::OutputReader::answer_question).
        request: String,
        /// The question, with the answers that the client proposes.
        question: String,
    },
    /// The client no longer waits for the answer to a question.
    QuestionWithdrawn {
        /// The client's id of the question.
        request: String,
    },
    /// The agent wants its work committed now, with this message.
    CommitAsked {
        /// The message of the commit.
        message: String,
    },
    /// An error occurred.
    Error {
        /// The error in the client's words.
        message: String,
        /// The kind of the error.
        class: ErrorClass,
        /// Whether the client retries by itself, so that the error is not final.
        retrying: bool,
    },
    /// A remark of the client that does not stop the work.
    Notice(String),
    /// The client reports the end of its turn. The verdict also needs its exit code.
    Finished {
        /// Whether the client reports success.
        success: bool,
        /// The client's last message.
        summary: String,
    },
    /// A line that is not understood, or its beginning. It is only a sign of life.
    Unknown(String),
}

impl AgentEvent {
    /// Updates the total usage of a run, if its client reported one, and returns the increase. A total that is smaller than the
    /// one before changes nothing.
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

    /// Returns the event as a line for a person who follows the run: empty when there is nothing to show, or `None` when only
    /// the client's own line can be shown.
    pub fn shown(&self) -> Option<String> {
        Some(match self {
            // A program without a session shows by its first line that it runs, and usage is shown elsewhere, in totals.
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
            Self::QuestionWithdrawn { .. } => "withdraws its question".to_owned(),
            Self::CommitAsked { message } => format!("commits: {message}"),
            Self::Error {
                message, retrying, ..
            } if *retrying => format!("error, retrying: {message}"),
            Self::Error { message, .. } => format!("error: {message}"),
            Self::Finished { success, summary } if *success => format!("finished: {summary}"),
            Self::Finished { summary, .. } => format!("finished without success: {summary}"),
            Self::Unknown(_) => return None,
        })
    }
}

/// The reply to an agent that asked for permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionDecision {
    /// The agent may do it.
    Allowed,
    /// The agent may not do it.
    Denied {
        /// Why it was denied.
        reason: String,
    },
    /// A person has to decide; [`OutputReader::answer`](crate::OutputReader::answer) passes on the answer.
    Asked,
}

/// The kind of an error, which decides whether it counts as a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// Too many requests, or a quota is used up.
    RateLimit,
    /// The model's server or the connection to it does not work.
    Outage,
    /// The client is not signed in.
    SignIn,
    /// The attempt itself failed.
    Task,
}

impl ErrorClass {
    /// Returns whether the error would have hit any task: then the worker waits, and no failed attempt is counted.
    pub fn pauses(self) -> bool {
        self != Self::Task
    }

    /// Returns the kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::RateLimit => "rate limit",
            Self::Outage => "outage",
            Self::SignIn => "not signed in",
            Self::Task => "error",
        }
    }
}

/// The spending of a client's run. Unknown amounts are `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentSpending {
    /// The tokens that were used.
    pub usage: Option<Usage>,
    /// The cost in US dollars, as the client computes it.
    pub cost_usd: Option<f64>,
    /// Whether the client ended before it reported everything, so that the amounts are lower bounds.
    pub at_least: bool,
}

impl AgentSpending {
    /// Returns the sum of both. An amount that is unknown on one side is unknown in the sum.
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

    /// Returns the total of a session after one more run, for [`ResumeSession::spent`](crate::ResumeSession::spent). A run
    /// that was cut short without any report keeps the last known total: a client with cumulative amounts includes that run in
    /// its next report.
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
