//! The leader: an agent that makes the plan, and decides during the run what to do.
//!
//! ```text
//! prompt ─▶ agent ─▶ what it said ─▶ read ─┬─▶ an answer
//!    ▲                                     │
//!    └──── once more, with the faults ◀────┘
//! ```
//!
//! A turn ([`LeaderAgent::turn`]) is one question to the leader, together with the function that reads its answer. The
//! agent may only run read-only commands, and is asked at most twice. A plan ([`LeaderAgent::plan`]) must satisfy the
//! same rules as one that a person wrote, and some more: it may name only checks of the run, and every task must suit a
//! member. Commands that the leader wants to have run are dropped, because no person has accepted them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use teamster_agents::{
    AgentEvent, AgentSpending, AgentVerdict, Driver, Permissions, Rule, Stopped,
};
use teamster_journal::payload::{Budget, Limit, Member, PlanDraft, UnusableAnswer};
use teamster_prompts::facts::{AnswerFacts, CheckState, FolderFacts, WakePrompt};
use teamster_prompts::{PromptError, Prompts};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::redact::redact;
use teamster_workers::ask::{AgentNotStarted, Ask, AskResult, ask};
use teamster_workers::limits::WorkerLimits;

use crate::plan::Plan;
use teamster_document::Fault;

pub mod actions;
mod answer;
mod prompt;

pub(crate) use answer::last_object;

/// The name under which the leader of a run is asked.
pub const LEADER: &str = "leader";
/// The number of attempts in one turn.
const MOST_ATTEMPTS: usize = 2;
/// The number of characters of an answer that a person is shown.
const SHOWN_ANSWER: usize = 600;
/// The number of faults that are reported to the agent or to a person.
const MOST_FAULTS: usize = 20;

/// The number of a repository's files that are listed.
const MOST_PATHS: usize = 200;
/// The longest path that is listed, in bytes. A longer one says nothing about the repository.
const LONGEST_PATH: usize = 200;
/// The number of bytes that all listed paths may take together.
const ALL_PATHS: usize = 10_000;
/// The number of lines of the README that are shown.
const README_LINES: usize = 40;
/// The number of characters of the README that are shown.
const README_CHARS: usize = 4_000;

/// The number of folders that are listed.
const MOST_FOLDERS: usize = 30;
/// The number of files with instructions for agents that are listed.
const MOST_INSTRUCTIONS: usize = 20;
/// The number of characters of an unusable answer that are kept for the record.
const KEPT_ANSWER: usize = 2_000_000;

/// Names of files with instructions for agents.
const INSTRUCTIONS: [&str; 4] = [
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "copilot-instructions.md",
];

/// The file names of a README, the preferred one first.
const READMES: [&str; 4] = ["README.md", "README", "README.txt", "README.rst"];

pub use answer::MOST_TASKS;

/// How the leader of a run is started, whatever the question.
#[derive(Clone, Copy)]
pub struct LeaderAgent<'a> {
    /// The driver of its client.
    pub driver: &'a dyn Driver,
    /// The provider as the user names it.
    pub provider: &'a str,
    /// The name under which it is asked, such as [`LEADER`].
    pub name: &'a str,
    /// What the agent may do.
    pub permissions: Permissions,
    /// The model, or `None` for the client's own choice.
    pub model: Option<&'a str>,
    /// The team that it leads.
    pub team: &'a str,
    /// A folder that the agent may write to without harm; without one, it gets a temporary folder that is removed
    /// afterwards.
    pub folder: Option<&'a Path>,
    /// The limits of its time and of the length of a prompt.
    pub limits: &'a WorkerLimits,
    /// Additional environment variables for the agent.
    pub exported: &'a [(OsString, OsString)],
    /// The directories to search for programs, as in `PATH`.
    pub path: &'a OsStr,
    /// The path of the `teamster` program.
    pub teamster: &'a Path,
    /// The launch id that all its processes carry: they are found by it if the host is killed.
    pub launch: &'a str,
}

/// Everything that a leader needs to make a plan.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The task in the words of the user.
    pub task: &'a str,
    /// The members of the team who will do the work.
    pub members: &'a [Member],
    /// The preset's text for the leader; empty when there is none.
    pub told: &'a str,
    /// An overview of the repository.
    pub overview: &'a RepositoryOverview,
    /// The checks, and their results before the work begins.
    pub checks: &'a [CheckState],
    /// The budget of the run.
    pub budget: &'a Budget,
    /// Whether a person can be asked what the leader cannot decide.
    pub may_ask: bool,
    /// Whether the person wants to clarify the requirements before anything is planned.
    pub requirements: bool,
    /// Whether the plan must contain an analysis: the flow `party` does not continue without one.
    pub needs_analysis: bool,
    /// The answers to the leader's questions.
    pub answers: &'a [AnswerFacts],
    /// The changes that a person wants in an earlier plan of the leader.
    pub revision: Option<&'a PlanRevision>,
    /// The prompt templates.
    pub prompts: &'a Prompts,
}

/// The changes that a person wants in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRevision {
    /// The plan as it was proposed.
    pub before: PlanDraft,
    /// The change that is wanted; `None` when there is a new plan only because questions were answered.
    pub words: Option<String>,
    /// The changes that were wanted in earlier plans, the oldest first.
    pub earlier: Vec<String>,
}

/// Returns the budget in words; `None` when it has no limit.
fn budget_words(budget: &Budget) -> Option<String> {
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let tokens = budget.tokens.map(|limit| Limit::Tokens.say(limit as f64));
    let usd = budget.usd.map(|limit| Limit::Usd.say(limit));
    let minutes = budget.minutes.map(|limit| Limit::Minutes.say(limit));
    let words: Vec<String> = [tokens, usd, minutes].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

impl PlanRequest<'_> {
    /// Returns the prompt for the leader of a team: at most `limit` characters, including the room for a second
    /// attempt.
    pub fn prompt(&self, team: &str, limit: usize) -> Result<String, PromptError> {
        prompt::plan_prompt(self, team, limit)
    }
}

/// How a turn is watched while the agent works.
pub struct TurnWatch<'a> {
    /// Returns whether the agent should stop; polled all the time.
    pub stop: &'a dyn Fn() -> bool,
    /// Receives everything that the agent does.
    pub hear: &'a mut dyn FnMut(&AgentEvent),
}

/// The result of one turn.
#[derive(Debug)]
pub struct TurnResult<T> {
    /// The answer, or why there is none.
    pub answer: Result<T, LeaderError>,
    /// The cost of each attempt.
    pub spent: Vec<AgentSpending>,
}

/// The plan of a leader.
#[derive(Debug)]
pub struct LeaderPlan {
    /// The plan.
    pub plan: Plan,
    /// The plan as the leader wrote it, for the record.
    pub text: String,
    /// Check commands that the leader asked for and that were dropped.
    pub left_out: Vec<String>,
}

/// The error of a turn without a usable answer.
#[derive(Debug)]
pub struct LeaderError {
    /// What went wrong.
    pub problem: LeaderProblem,
    /// The agent that was asked, as the user names it.
    pub provider: String,
    /// Its answers, and why they could not be used.
    pub answers: Vec<UnusableAnswer>,
}

/// The ways in which a leader can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderProblem {
    /// It could not be started.
    NotStarted(AgentNotStarted),
    /// It was stopped on request.
    Stopped,
    /// It cannot work now, with the client's own reason: a rate limit, an outage, no sign-in.
    Paused(String),
    /// It failed, or took too long.
    Failed(String),
    /// All attempts are used up, and the last answer could not be used.
    Unusable {
        /// The faults of the last answer.
        faults: Vec<Fault>,
        /// The end of the last answer.
        said: String,
    },
}

impl std::error::Error for LeaderError {}

impl LeaderError {
    /// Returns what went wrong, independent of the question.
    pub fn cause(&self) -> Phrase {
        let who = ("leader", &self.provider as &dyn fmt::Display);
        match &self.problem {
            LeaderProblem::NotStarted(error) => {
                Phrase::new(PhraseCode::LeaderNotStarted, [who, ("error", error)])
            }
            LeaderProblem::Stopped => Phrase::new(PhraseCode::LeaderStopped, [who]),
            LeaderProblem::Paused(reason) => {
                Phrase::new(PhraseCode::LeaderCannotWork, [who, ("reason", reason)])
            }
            LeaderProblem::Failed(reason) => {
                Phrase::new(PhraseCode::LeaderFailed, [who, ("reason", reason)])
            }
            LeaderProblem::Unusable { faults, .. } => {
                let faults: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
                let faults = faults.join("; ");
                Phrase::new(PhraseCode::LeaderUnusable, [who, ("faults", &faults)])
            }
        }
    }
}

impl fmt::Display for LeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = &self.provider;
        let what = match &self.problem {
            LeaderProblem::NotStarted(error) => format!("could not be started: {error}; "),
            LeaderProblem::Stopped => {
                return write!(f, "the leader {who} was stopped before it had a plan");
            }
            LeaderProblem::Paused(reason) => format!("cannot work now: {reason}; "),
            LeaderProblem::Failed(reason) => format!("failed: {reason}; "),
            LeaderProblem::Unusable { faults, said } => {
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

/// Returns the permissions of a leader: it looks at the project with read-only commands, and changes nothing.
pub fn leader_permissions() -> Permissions {
    Permissions {
        shell: Rule::Read,
        other: Rule::Deny,
        ..Permissions::default()
    }
}

impl LeaderAgent<'_> {
    /// Asks for a plan.
    pub fn plan(
        &self,
        request: &PlanRequest<'_>,
        watch: &mut TurnWatch<'_>,
    ) -> TurnResult<LeaderPlan> {
        match request.prompt(self.team, self.limits.prompt) {
            Ok(prompt) => self.turn(&prompt, |said| answer::read(said, request), watch),
            Err(error) => self.not_asked(&error),
        }
    }

    /// Asks what to do during the run.
    pub fn decide<T>(
        &self,
        prompts: &Prompts,
        facts: &WakePrompt,
        read: impl Fn(&str) -> Result<T, Vec<Fault>>,
        watch: &mut TurnWatch<'_>,
    ) -> TurnResult<T> {
        match prompt::wake_prompt(prompts, facts, self.limits.prompt) {
            Ok(prompt) => self.turn(&prompt, read, watch),
            Err(error) => self.not_asked(&error),
        }
    }

    fn not_asked<T>(&self, error: &PromptError) -> TurnResult<T> {
        TurnResult {
            answer: Err(LeaderError {
                problem: LeaderProblem::Failed(error.to_string()),
                provider: self.provider.to_owned(),
                answers: Vec::new(),
            }),
            spent: Vec::new(),
        }
    }

    /// Asks one question. The faults that `read` finds in an answer are reported to the agent, which is then asked once
    /// more.
    pub fn turn<T>(
        &self,
        prompt: &str,
        read: impl Fn(&str) -> Result<T, Vec<Fault>>,
        watch: &mut TurnWatch<'_>,
    ) -> TurnResult<T> {
        let (mut spent, mut answers) = (Vec::new(), Vec::new());
        let answer = self.rounds(prompt, read, watch, &mut spent, &mut answers);
        let answer = answer.map_err(|problem| LeaderError {
            problem,
            provider: self.provider.to_owned(),
            answers,
        });
        TurnResult { answer, spent }
    }

    fn rounds<T>(
        &self,
        prompt: &str,
        read: impl Fn(&str) -> Result<T, Vec<Fault>>,
        watch: &mut TurnWatch<'_>,
        spent: &mut Vec<AgentSpending>,
        unusable: &mut Vec<UnusableAnswer>,
    ) -> Result<T, LeaderProblem> {
        let mut text = prompt.to_owned();
        let mut round = 1;
        loop {
            let asked = ask(&self.asking(&text), watch.stop, watch.hear)
                .map_err(LeaderProblem::NotStarted)?;
            spent.push(asked.outcome.spent);
            let answer = match failure(&asked)? {
                None => read(&asked.said),
                Some(reason) if round == MOST_ATTEMPTS => return Err(failed(&reason)),
                Some(reason) => Err(vec![Fault::new(1, reason)]),
            };
            let mut faults = match answer {
                Ok(answer) => return Ok(answer),
                Err(faults) => faults,
            };
            faults.truncate(MOST_FAULTS);
            unusable.push(UnusableAnswer {
                text: tail(&redact(&asked.said), KEPT_ANSWER),
                faults: faults.iter().map(|fault| fault.message.clone()).collect(),
            });
            if round == MOST_ATTEMPTS {
                let said = tail(&redact(&asked.said), SHOWN_ANSWER);
                return Err(LeaderProblem::Unusable { faults, said });
            }
            text = prompt::retry_prompt(prompt, &asked.said, &faults, self.limits.prompt);
            round += 1;
        }
    }

    fn asking<'a>(&'a self, prompt: &'a str) -> Ask<'a> {
        Ask {
            driver: self.driver,
            model: self.model,
            prompt,
            folder: self.folder,
            team: self.team,
            name: self.name,
            permissions: self.permissions,
            limits: self.limits,
            exported: self.exported,
            path: self.path,
            teamster: self.teamster,
            launch: self.launch,
        }
    }
}

/// Returns why the agent failed, if it did and may be asked again.
fn failure(asked: &AskResult) -> Result<Option<String>, LeaderProblem> {
    match &asked.outcome.verdict {
        // It may have finished just when it was asked to stop.
        AgentVerdict::Interrupted => Err(LeaderProblem::Stopped),
        _ if asked.stopped == Some(Stopped::Interrupted) => Err(LeaderProblem::Stopped),
        AgentVerdict::Done { .. } => Ok(None),
        AgentVerdict::Paused { class, reason } => {
            let reason = redact(reason);
            Err(LeaderProblem::Paused(format!(
                "{}: {reason}",
                class.words()
            )))
        }
        // An agent that took too long would take as long again.
        AgentVerdict::Failed { reason } if asked.stopped.is_some() => Err(failed(reason)),
        AgentVerdict::Failed { reason } | AgentVerdict::SessionGone { reason } => {
            Ok(Some(reason.clone()))
        }
    }
}

fn failed(reason: &str) -> LeaderProblem {
    LeaderProblem::Failed(redact(reason).into_owned())
}

/// Returns the end of a text, which says most about how the turn went.
fn tail(text: &str, limit: usize) -> String {
    let text = text.trim();
    let length = text.chars().count();
    if length <= limit {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - limit).collect();
    format!("…{end}")
}

/// An overview of a repository for the agent that plans work on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryOverview {
    /// Some of its files.
    pub paths: Vec<String>,
    /// How many files it has.
    pub files: usize,
    /// Its top-level folders, those with the most files first.
    pub folders: Vec<FolderFacts>,
    /// Files with instructions for agents, those near the root first.
    pub instructions: Vec<String>,
    /// The beginning of its README.
    pub readme: String,
}

impl RepositoryOverview {
    /// Returns the overview of all tracked files and the text of the README. If there are many files, those near the
    /// root are listed, because they say the most.
    pub fn new<S: AsRef<str>>(tracked: &[S], readme: &str) -> Self {
        let mut paths: Vec<&str> = tracked
            .iter()
            .map(AsRef::as_ref)
            .filter(|path| path.len() <= LONGEST_PATH && !path.contains(char::is_control))
            .collect();
        paths.sort_by_key(|path| (path.matches('/').count(), *path));
        let is_instruction = |path: &&&str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            INSTRUCTIONS.contains(&name)
        };
        let instructions = paths.iter().filter(is_instruction).take(MOST_INSTRUCTIONS);
        let instructions = instructions.map(|path| (*path).to_owned()).collect();
        let folders = folders(&paths);
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
            folders,
            instructions,
            readme: lines.join("\n").chars().take(README_CHARS).collect(),
        }
    }

    /// Returns the README among tracked files, if there is one.
    pub fn readme_of<S: AsRef<str>>(tracked: &[S]) -> Option<&'static str> {
        READMES
            .into_iter()
            .find(|name| tracked.iter().any(|path| path.as_ref() == *name))
    }
}

/// Returns the top-level folders, those with the most files first.
fn folders(paths: &[&str]) -> Vec<FolderFacts> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        let top = path.split_once('/').map_or("", |(top, _)| top);
        *counts.entry(top).or_default() += 1;
    }
    let mut folders: Vec<FolderFacts> = counts
        .into_iter()
        .map(|(path, files)| FolderFacts {
            path: path.to_owned(),
            files,
        })
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.files));
    folders.truncate(MOST_FOLDERS);
    folders
}

#[cfg(test)]
mod tests;
