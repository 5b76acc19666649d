//! The leader: an agent that is asked for a plan.
//!
//! ```text
//! prompt ─▶ agent ─▶ the last JSON object it said ─▶ Plan ─┬─▶ a plan
//!    ▲                                                     │
//!    └────────── once more, with what was wrong ◀──────────┘
//! ```
//!
//! It is started in a folder that is nobody's work, may run no command, and is asked at most twice. A plan of its is held
//! to the same rules as one that a person wrote, and to some more: it names only members of the team, and asks for
//! nothing that nobody can do. Commands that it would have us run are left out: nobody has agreed to them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use teamster_agents::{
    AgentEvent, AgentSpending, AgentVerdict, Driver, Permissions, Rule, Stopped,
};
use teamster_journal::payload::Member;
use teamster_types::redact::redact;
use teamster_workers::ask::{AgentNotStarted, Ask, AskResult, ask};
use teamster_workers::limits::WorkerLimits;

use crate::plan::Plan;
use teamster_document::Fault;

mod answer;
mod prompt;

/// As whom the agent is asked.
const NAME: &str = "leader";
/// So often it is asked.
const ROUNDS: usize = 2;
/// So much of what it said is shown to a person.
const SHOWN: usize = 600;
/// No more faults than this are told, to the agent or to a person.
const MOST_FAULTS: usize = 20;

/// No more files of a repository than this are named.
const MOST_PATHS: usize = 200;
/// A path that is longer says nothing about the repository.
const LONGEST_PATH: usize = 200;
/// The paths that are named take no more bytes together than this.
const ALL_PATHS: usize = 10_000;
/// So much of the README is shown.
const README_LINES: usize = 40;
/// No more characters of the README than this are shown.
const README_CHARS: usize = 4_000;

/// Names by which a README is known, the preferred one first.
const READMES: [&str; 4] = ["README.md", "README", "README.txt", "README.rst"];

/// Who is asked for a plan, for what, and for whom.
pub struct LeaderJob<'a> {
    /// The agent.
    pub driver: &'a dyn Driver,
    /// What the user calls it.
    pub provider: &'a str,
    /// The model; else the client's own choice.
    pub model: Option<&'a str>,
    /// What is to be done, as it was said.
    pub task: &'a str,
    /// The team that it plans for.
    pub team: &'a str,
    /// Who will do it.
    pub members: &'a [Member],
    /// What the preset tells it; empty when that is nothing.
    pub told: &'a str,
    /// What the repository looks like.
    pub overview: &'a Overview,
    /// Where it runs: a folder that it may write to without harm; without one, a temp folder that goes with it.
    pub folder: Option<&'a Path>,
    /// How long it may take.
    pub rules: &'a WorkerLimits,
    /// Variables that it gets besides its own.
    pub exported: &'a [(OsString, OsString)],
    /// Where programs are looked for.
    pub path: &'a OsStr,
    /// Our own program.
    pub teamster: &'a Path,
    /// What everything that it starts carries: by this it is found should we be killed.
    pub launch: &'a str,
}

/// A plan of a leader.
#[derive(Debug)]
pub struct LeaderPlan {
    /// The plan.
    pub plan: Plan,
    /// The plan as it was said, for the record.
    pub text: String,
    /// Commands that it would have verified with, and that were left out.
    pub left_out: Vec<String>,
    /// What each time it was asked has cost.
    pub spent: Vec<AgentSpending>,
}

/// Why there is no plan, and what that cost.
#[derive(Debug)]
pub struct LeaderError {
    /// What went wrong.
    pub problem: Problem,
    /// Who was asked.
    pub provider: String,
    /// What each time it was asked has cost.
    pub spent: Vec<AgentSpending>,
}

/// What went wrong with a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It could not be started.
    NotStarted(AgentNotStarted),
    /// Somebody wanted it stopped.
    Stopped,
    /// It cannot work now, in its own words: a rate limit, an outage, no sign-in.
    Paused(String),
    /// It failed, or took too long.
    Failed(String),
    /// It was asked as often as it may be, and what it said is no plan.
    NoPlan {
        /// What is wrong with it.
        faults: Vec<Fault>,
        /// The end of what it said.
        said: String,
    },
}

impl std::error::Error for LeaderError {}

impl fmt::Display for LeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = &self.provider;
        let what = match &self.problem {
            Problem::NotStarted(error) => format!("could not be started: {error}; "),
            Problem::Stopped => {
                return write!(f, "the leader {who} was stopped before it had a plan");
            }
            Problem::Paused(reason) => format!("cannot work now: {reason}; "),
            Problem::Failed(reason) => format!("failed: {reason}; "),
            Problem::NoPlan { faults, said } => {
                let faults: Vec<String> = faults
                    .iter()
                    .map(|fault| format!("  line {}: {}\n", fault.line, fault.message))
                    .collect();
                let faults = faults.concat();
                let said = match said.trim() {
                    "" => "it said nothing".to_owned(),
                    said => format!("it said: {said}"),
                };
                format!("was asked twice and made no plan that can be used:\n{faults}{said}\n")
            }
        };
        write!(
            f,
            "the leader {who} {what}write the plan yourself and give it with `--plan FILE`, or do without a leader: \
             `--leader engine`"
        )
    }
}

/// Asks an agent for a plan. `stop` is looked at all the time; `hear` is told of everything that the agent does.
pub fn lead(
    job: &LeaderJob<'_>,
    stop: &dyn Fn() -> bool,
    hear: &mut dyn FnMut(&AgentEvent),
) -> Result<LeaderPlan, LeaderError> {
    let mut spent = Vec::new();
    let outcome = rounds(job, stop, hear, &mut spent);
    match outcome {
        Ok((answer, text)) => Ok(LeaderPlan {
            plan: answer.plan,
            left_out: answer.left_out,
            text,
            spent,
        }),
        Err(problem) => Err(LeaderError {
            problem,
            provider: job.provider.to_owned(),
            spent,
        }),
    }
}

fn rounds(
    job: &LeaderJob<'_>,
    stop: &dyn Fn() -> bool,
    hear: &mut dyn FnMut(&AgentEvent),
    spent: &mut Vec<AgentSpending>,
) -> Result<(answer::Usable, String), Problem> {
    let first = prompt::first(job);
    let mut text = first.clone();
    let mut round = 1;
    loop {
        let asked = ask(&asking(job, &text), stop, hear).map_err(Problem::NotStarted)?;
        spent.push(asked.outcome.spent);
        let read = match ended(&asked)? {
            None => answer::read(&asked.said, job.members),
            Some(reason) if round == ROUNDS => return Err(failed(&reason)),
            Some(reason) => Err(vec![Fault::new(1, reason)]),
        };
        match read {
            Ok((usable, text)) => return Ok((usable, text)),
            Err(mut faults) => {
                faults.truncate(MOST_FAULTS);
                if round == ROUNDS {
                    let said = end_of(&redact(&asked.said), SHOWN);
                    return Err(Problem::NoPlan { faults, said });
                }
                text = prompt::again(&first, &asked.said, &faults, job.rules.prompt);
            }
        }
        round += 1;
    }
}

fn asking<'a>(job: &'a LeaderJob<'_>, prompt: &'a str) -> Ask<'a> {
    Ask {
        driver: job.driver,
        model: job.model,
        prompt,
        folder: job.folder,
        team: job.team,
        name: NAME,
        // Whoever plans needs no command, and one that reads the project with a shell could change it, too.
        permissions: Permissions {
            shell: Rule::Deny,
            other: Rule::Deny,
            ..Permissions::default()
        },
        limits: job.rules,
        exported: job.exported,
        path: job.path,
        teamster: job.teamster,
        launch: job.launch,
    }
}

/// `None`: it came to its end. A reason: it failed, and may be asked again.
fn ended(asked: &AskResult) -> Result<Option<String>, Problem> {
    match &asked.outcome.verdict {
        // It may have finished in the moment in which it was to stop.
        AgentVerdict::Interrupted => Err(Problem::Stopped),
        _ if asked.stopped == Some(Stopped::Interrupted) => Err(Problem::Stopped),
        AgentVerdict::Done { .. } => Ok(None),
        AgentVerdict::Paused { trouble, reason } => {
            let reason = redact(reason);
            Err(Problem::Paused(format!("{}: {reason}", trouble.words())))
        }
        // One that took too long would take as long again.
        AgentVerdict::Failed { reason } if asked.stopped.is_some() => Err(failed(reason)),
        AgentVerdict::Failed { reason } | AgentVerdict::SessionGone { reason } => {
            Ok(Some(reason.clone()))
        }
    }
}

fn failed(reason: &str) -> Problem {
    Problem::Failed(redact(reason).into_owned())
}

/// The end of a text, which says most about how it went.
fn end_of(text: &str, limit: usize) -> String {
    let text = text.trim();
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - limit).collect();
    format!("…{end}")
}

/// What a repository looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Some of its files.
    pub paths: Vec<String>,
    /// How many files it has.
    pub files: usize,
    /// How its README begins.
    pub readme: String,
}

impl Overview {
    /// From all tracked files and the text of the README. Of many files the ones near the top are named, because they
    /// tell the most.
    pub fn new<S: AsRef<str>>(tracked: &[S], readme: &str) -> Self {
        let mut paths: Vec<&str> = tracked
            .iter()
            .map(AsRef::as_ref)
            .filter(|path| path.len() <= LONGEST_PATH && !path.contains(char::is_control))
            .collect();
        paths.sort_by_key(|path| (path.matches('/').count(), *path));
        paths.truncate(MOST_PATHS);
        let mut room = ALL_PATHS;
        paths.retain(|path| {
            let fits = path.len() <= room;
            room = if fits { room - path.len() } else { 0 };
            fits
        });
        paths.sort_unstable();
        let lines: Vec<&str> = readme.trim().lines().take(README_LINES).collect();
        Self {
            paths: paths.into_iter().map(str::to_owned).collect(),
            files: tracked.len(),
            readme: lines.join("\n").chars().take(README_CHARS).collect(),
        }
    }

    /// The README among tracked files, if there is one.
    pub fn readme_of<S: AsRef<str>>(tracked: &[S]) -> Option<&'static str> {
        READMES
            .into_iter()
            .find(|name| tracked.iter().any(|path| path.as_ref() == *name))
    }
}

#[cfg(test)]
mod tests;
