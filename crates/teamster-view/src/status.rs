//! The summary of a team: its progress, the health of its workers, and its problems.

use std::collections::BTreeMap;

use serde::Serialize;
use teamster_journal::WorkerPhase;
use teamster_store::{Damaged, ReadStore, Result, StoredMessage, TeamEntry};
use teamster_types::health::{Limits, Verdict};
use teamster_types::phrase::{Phrase, PhraseCode, PhraseKey};
use teamster_types::progress::Progress;
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TeamName, Time};

use crate::messages;
use crate::model::{JournalReach, PhaseNow, RunNow, TeamKind, TeamView, kind};
use crate::questions::{self, QuestionView};
use crate::requests::{WaitingRequest, all_waiting, open_decisions};
use crate::workers::{self, WorkerRow, Workers};

/// A team as `status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TeamStatus {
    /// The name of its folder.
    pub name: String,
    /// The project it works on.
    pub project: Option<String>,
    /// The program that created the team; `None` when its registry cannot be read.
    pub kind: Option<TeamKind>,
    /// The stage of its run; `None` while it has no run.
    pub stage: Option<String>,
    /// The outcome of its run: `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted` or
    /// `tasks_failed`; `None` until it has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The phase of the flow that its run follows; `None` when the flow has only stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseNow>,
    /// The full state of the run.
    #[serde(skip)]
    pub run: RunNow,
    /// Its progress.
    pub progress: Progress,
    /// Its workers.
    pub workers: Vec<WorkerRow>,
    /// The problems that need a person.
    #[serde(serialize_with = "without_codes")]
    pub problems: Vec<TeamProblem>,
    /// The open questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionView>,
    /// The permission requests of agents that wait for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<WaitingRequest>,
}

impl TeamStatus {
    /// Returns the number of answers that are expected from a person.
    pub fn answers_wanted(&self) -> usize {
        let questions = self.questions.iter().filter(|open| open.is_for_person());
        let plans = self.problems.iter();
        let plans = plans.filter(|problem| problem.kind == ProblemKind::Plan);
        questions.count() + self.requests.len() + plans.count()
    }
}

/// A problem that needs a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Problem")]
pub struct TeamProblem {
    /// The kind of a problem.
    pub kind: ProblemKind,
    /// The subject: a worker, a mailbox, a file.
    pub about: String,
    /// The description of the problem.
    pub error: String,
    /// The message codes of the description, for translation.
    pub codes: Vec<PhraseKey>,
}

impl TeamProblem {
    /// Creates a problem with a one-sentence description.
    pub(crate) fn new(kind: ProblemKind, about: &str, error: &Phrase) -> Self {
        Self {
            kind,
            about: about.to_owned(),
            error: error.to_string(),
            codes: vec![error.key().clone()],
        }
    }

    /// Creates the problem of a file that cannot be parsed.
    pub fn damaged(file: &str, error: &str) -> Self {
        let told = Phrase::new(PhraseCode::FileDamaged, [("error", &error)]);
        Self {
            error: error.to_owned(),
            ..Self::new(ProblemKind::Damaged, file, &told)
        }
    }

    /// Creates the problem of an unhealthy worker.
    pub(crate) fn of_worker(
        name: &str,
        error: String,
        verdict: Verdict,
        evidence: &[PhraseKey],
    ) -> Self {
        let verdict = Phrase::new(PhraseCode::WorkerVerdict, [("verdict", &verdict)]);
        let codes = std::iter::once(verdict.key()).chain(evidence);
        Self {
            kind: ProblemKind::Worker,
            about: name.to_owned(),
            error,
            codes: codes.cloned().collect(),
        }
    }
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProblemKind {
    /// A file cannot be parsed.
    Damaged,
    /// A worker is not healthy.
    Worker,
    /// A message was not read in time.
    Undelivered,
    /// The work of a run waits for a decision.
    Approval,
    /// The plan of a run waits for a decision.
    Plan,
}

/// Serialises problems in the format that scripts rely on, without the codes for translation.
fn without_codes<S: serde::Serializer>(
    problems: &[TeamProblem],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct ProblemWithoutCodes<'a> {
        kind: ProblemKind,
        about: &'a str,
        error: &'a str,
    }
    serializer.collect_seq(problems.iter().map(|problem| ProblemWithoutCodes {
        kind: problem.kind,
        about: &problem.about,
        error: &problem.error,
    }))
}

/// Returns the status of a listed team. A registry that cannot be read is a problem, not an error: it must not hide the
/// other teams.
pub fn of_entry(read: &dyn ReadStore, entry: &TeamEntry, limits: &Limits) -> Result<TeamStatus> {
    of_entry_by(read, entry, limits, JournalReach::Whole)
}

/// Returns the status of a listed team. Unless the whole journal is read, questions, permission requests, undelivered
/// messages and damaged lines are left out, and of a run only what recent events tell.
pub(crate) fn of_entry_by(
    read: &dyn ReadStore,
    entry: &TeamEntry,
    limits: &Limits,
    reach: JournalReach,
) -> Result<TeamStatus> {
    match (&entry.config, entry.name.parse::<TeamName>()) {
        (Ok(config), Ok(team)) => of_team(read, &team, config, limits, reach),
        (Ok(config), Err(error)) => {
            // Another program may choose any team name; an invalid one never becomes a path.
            let mut status = empty(&entry.name);
            status.project = config.project().map(str::to_owned);
            status.kind = Some(kind(config.kind()));
            status
                .problems
                .push(damaged(&entry.name, &error.to_string()));
            Ok(status)
        }
        (Err(error), _) => {
            let mut status = empty(&entry.name);
            status.problems.push(damaged("config.json", error));
            Ok(status)
        }
    }
}

/// Returns the status of one team.
fn of_team(
    read: &dyn ReadStore,
    team: &TeamName,
    config: &TeamConfig,
    limits: &Limits,
    reach: JournalReach,
) -> Result<TeamStatus> {
    let run = reach.run(read, team)?;
    let (progress, broken) = read.progress(team)?;
    let mut workers = workers::list(read, team, config, limits)?;
    let is_whole = reach == JournalReach::Whole;
    let questions = if is_whole {
        questions::open(read, team)?
    } else {
        Vec::new()
    };
    for row in &mut workers.rows {
        if row.status.is_some()
            && questions
                .iter()
                .any(|open| open.is_waited_for_by(&row.name))
        {
            row.status = Some(WorkerPhase::Waiting.as_str());
        }
    }
    let mut problems = with_workers(&broken, &workers);
    if is_whole {
        problems.extend(damaged_journal(read, team)?);
    }
    problems.extend(at_gate(read, team)?);
    if is_whole {
        problems.extend(unread(read, team)?);
    }
    Ok(TeamStatus {
        name: team.as_str().to_owned(),
        project: config.project().map(str::to_owned),
        kind: Some(kind(config.kind())),
        stage: run.stage.clone(),
        outcome: run.finished.as_ref().map(|run| run.outcome.clone()),
        phase: run.phase.clone(),
        run,
        progress,
        workers: workers.rows,
        problems,
        questions,
        requests: if is_whole {
            all_waiting(read, team)?
        } else {
            Vec::new()
        },
    })
}

/// Returns the status of a session that is known only by its state file, as [`Sessions`](crate::model::Sessions) shows
/// it.
pub fn of_session(view: &TeamView) -> TeamStatus {
    TeamStatus {
        project: view.project.clone(),
        kind: view.kind,
        stage: view
            .session
            .as_ref()
            .map(|session| session.pdca_phase.clone()),
        progress: view.progress,
        workers: view.workers.iter().map(WorkerRow::of_view).collect(),
        problems: view.problems.clone(),
        ..empty(&view.name)
    }
}

/// Adds what the state file of a session says about its team, which has a registry.
pub fn add_session(status: &mut TeamStatus, session: &TeamView) {
    let known: Vec<TeamProblem> = status.workers.iter().filter_map(worker_problem).collect();
    workers::add_session(&mut status.workers, session);
    let worker_problem = status.workers.iter().filter_map(worker_problem);
    let is_new = |problem: &TeamProblem| !known.contains(problem);
    status.problems.extend(worker_problem.filter(is_new));
    if status.stage.is_none() {
        let told = session.session.as_ref();
        status.stage = told.map(|session| session.pdca_phase.clone());
    }
}

/// Returns the problems of unparsable files and unhealthy workers.
pub(crate) fn with_workers(broken: &[Damaged], workers: &Workers) -> Vec<TeamProblem> {
    let files = broken.iter().chain(&workers.problems);
    files
        .map(|file| damaged(&file.file, &file.error))
        .chain(workers.rows.iter().filter_map(worker_problem))
        .collect()
}

/// Returns one problem for all lines of the journal that are not events.
pub(crate) fn damaged_journal(
    read: &dyn ReadStore,
    team: &TeamName,
) -> Result<Option<TeamProblem>> {
    let (lines, count) = read.damaged_lines(team)?;
    Ok(lines.first().map(|first| {
        let told = match count {
            1 => Phrase::new(PhraseCode::JournalLineDamaged, [("error", &first.error)]),
            _ => Phrase::new(
                PhraseCode::JournalLinesDamaged,
                [("count", &count), ("error", &first.error)],
            ),
        };
        TeamProblem::new(ProblemKind::Damaged, &first.file, &told)
    }))
}

/// Returns the problems of messages that were not read in time.
pub(crate) fn unread(read: &dyn ReadStore, team: &TeamName) -> Result<Vec<TeamProblem>> {
    Ok(undelivered(&messages::overdue(read, team)?, read.now()))
}

fn empty(name: &str) -> TeamStatus {
    TeamStatus {
        name: name.to_owned(),
        project: None,
        kind: None,
        stage: None,
        outcome: None,
        phase: None,
        run: RunNow::default(),
        progress: Progress::default(),
        workers: Vec::new(),
        problems: Vec::new(),
        questions: Vec::new(),
        requests: Vec::new(),
    }
}

fn damaged(file: &str, error: &str) -> TeamProblem {
    TeamProblem::damaged(file, error)
}

/// Returns the decision that a person has to make: about the work at the gate, or about a plan.
pub(crate) fn at_gate(read: &dyn ReadStore, team: &TeamName) -> Result<Option<TeamProblem>> {
    let (gate, plan) = open_decisions(read, team)?;
    let gate = gate.map(|gate| {
        let command = gate.command(team);
        let waits = [("words", &gate.words as _), ("command", &command as _)];
        let waits = Phrase::new(PhraseCode::WorkWaits, waits);
        let mut problem = TeamProblem::new(ProblemKind::Approval, "approval", &waits);
        if !gate.words.codes().is_empty() {
            // The text itself has its own codes.
            let decide = Phrase::new(PhraseCode::WaitsForDecision, [("command", &command)]);
            problem.codes = gate.words.codes().to_vec();
            problem.codes.push(decide.key().clone());
        }
        problem
    });
    Ok(gate.or_else(|| {
        plan.map(|revision| {
            let waits = [("revision", &revision as _), ("team", team as _)];
            let waits = Phrase::new(PhraseCode::PlanWaits, waits);
            TeamProblem::new(ProblemKind::Plan, "plan", &waits)
        })
    }))
}

fn worker_problem(row: &WorkerRow) -> Option<TeamProblem> {
    row.needs_a_person().then(|| {
        let error = format!("{}: {}", row.verdict, row.evidence.join(", "));
        TeamProblem::of_worker(&row.name, error, row.verdict, &Phrase::keys(&row.evidence))
    })
}

/// Returns one problem per mailbox, however many messages wait in it.
fn undelivered(overdue: &[StoredMessage], now: Time) -> Vec<TeamProblem> {
    let mut boxes: BTreeMap<&str, Vec<&StoredMessage>> = BTreeMap::new();
    for filed in overdue {
        boxes.entry(&filed.mailbox).or_default().push(filed);
    }
    let waits = |filed: &&StoredMessage| filed.message.timestamp().map(|sent| now.since(sent));
    boxes
        .into_iter()
        .map(|(mailbox, waiting)| {
            let longest = waiting.iter().filter_map(waits).max();
            let count = waiting.len();
            let told = match longest.map(say_span) {
                Some(age) if count == 1 => {
                    Phrase::new(PhraseCode::MessageUndelivered, [("age", &age)])
                }
                Some(age) => Phrase::new(
                    PhraseCode::MessagesUndelivered,
                    [("count", &count), ("age", &age)],
                ),
                None if count == 1 => Phrase::new(PhraseCode::MessageUndeliveredLong, []),
                None => Phrase::new(PhraseCode::MessagesUndeliveredLong, [("count", &count)]),
            };
            TeamProblem::new(ProblemKind::Undelivered, mailbox, &told)
        })
        .collect()
}
