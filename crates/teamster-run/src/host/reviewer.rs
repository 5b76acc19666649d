//! Has the merged work reviewed by an agent in a session of its own, after its checks passed and before the gate opens.
//!
//! ```text
//! checks hold ─▶ reviewer ─┬─▶ nothing to fix ─────────────────────────▶ gate
//!                          ├─▶ findings ─▶ leader ─▶ fix ─▶ checks ─▶ review of what changed since
//!                          └─▶ no review, or no round left ────────────▶ gate, which says so
//! ```
//!
//! The leader decides which findings are fixed; without a leader, every blocker and every major is. A review is one
//! turn in a temporary worktree of the commit. Its result is journalled before anything builds on it, once for each
//! commit, so that the next host repeats neither the review nor its tasks.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{
    Check, ReviewFailed, ReviewFinding, ReviewFinished, ReviewMode, ReviewSkipped, ReviewStarted,
    RunSpec,
};
use teamster_journal::{EventKind, ReviewOutcome, ReviewState, RunState};
use teamster_prompts::facts::{FindingFacts, ReviewPrompt, ReviewedTask};
use teamster_types::flow::Stage;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::redact::redact;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskNotes, TaskReview};
use teamster_types::text::{clip, quoted};
use teamster_workers::briefing::done_task;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{Turn, TurnError, check_state, take};
use super::reviewer_choice::{Reviewer, choose_reviewer};
use super::task_progress::open;
use super::waker::wake_for_findings;
use super::{HostCommand, Result};
use crate::leader::LeaderProblem;
use crate::review::{self, Review};
use teamster_document::Fault;

/// The name under which the agent is asked, independent of its name in the team: it is not the worker of that name.
const REVIEWER_NAME: &str = "reviewer";
/// The most tasks that one review creates. The last one contains all remaining findings.
const MOST_TASKS: usize = 10;
/// The number of characters of a diff in the prompt. The agent can look at the rest itself.
const SHOWN_DIFF: usize = 60_000;
/// The number of characters of a prompt that are reserved for the second attempt.
const RETRY_ROOM: usize = 10_000;
/// The longest reason that is journalled, in characters.
const LONGEST_REASON: usize = 1_000;
/// The file with the whole diff, in the folder of the reviewer.
const CHANGE_FILE: &str = "teamster-change.patch";
/// The largest diff that is written to a file, in bytes.
const LARGEST_CHANGE: usize = 16 * 1024 * 1024;

/// Returns the commands that lead to the gate.
pub(super) fn gate_commands(reason: PhraseCode) -> Vec<HostCommand> {
    // The workers are stopped first: they could change the work, or decide themselves.
    vec![
        HostCommand::StopWorkers("the gate opens"),
        HostCommand::enter(Stage::Approval, reason),
    ]
}

/// Has a commit reviewed whose checks passed, unless that was done; returns the next commands. `reason` is why the gate
/// may open.
pub(super) fn review(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    commit: &str,
    reason: PhraseCode,
) -> Result<Vec<HostCommand>> {
    if run.spec().review == ReviewMode::Off {
        return Ok(gate_commands(reason));
    }
    let outcome = run.state().review_of(commit).map(|review| &review.outcome);
    if matches!(outcome, None | Some(ReviewOutcome::UnderWay)) && !make_review(run, guard, commit)?
    {
        return Ok(vec![HostCommand::Wait]);
    }
    let tasks = run.tasks()?;
    let review = run.state().review_of(commit).cloned();
    if let Some(review) = review
        && may_be_fixed(run.spec(), run.state(), &tasks, commit)
        && !review.to_fix().is_empty()
        && !wake_for_findings(run, guard, &review)?
    {
        return Ok(vec![HostCommand::Wait]);
    }
    Ok(after_review(
        run.spec(),
        run.state(),
        &run.tasks()?,
        commit,
        reason,
    ))
}

/// Has a commit reviewed, if there are changes and an agent that can review them; returns false when the review was
/// stopped on request.
fn make_review(run: &mut RunContext<'_>, guard: &IntegrationGuard, commit: &str) -> Result<bool> {
    let base = run
        .spec()
        .base
        .as_ref()
        .and_then(|base| base.commit.parse().ok());
    let (Some(repo), Some(base), Ok(head), true) = (
        run.repo(),
        base,
        commit.parse::<CommitId>(),
        guard.is_active(),
    ) else {
        if run.spec().review == ReviewMode::Require {
            skip(run, commit, PhraseCode::NoRepositoryToReview)?;
        }
        return Ok(true);
    };
    if repo.changed_files(&base, &head)?.is_empty() {
        return Ok(true);
    }
    if run.limit_reached().is_some() {
        return skip(run, commit, PhraseCode::BudgetUsedUp).map(|()| true);
    }
    match choose_reviewer(run)? {
        Some(reviewer) => ask(run, guard, repo, (&base, &head), &reviewer),
        None => skip(run, commit, PhraseCode::NoReviewer).map(|()| true),
    }
}

fn skip(run: &mut RunContext<'_>, commit: &str, reason: PhraseCode) -> Result<()> {
    let (reason, reason_codes) = Wording::from(reason).into_parts();
    run.journal(EventKind::ReviewSkipped(ReviewSkipped {
        commit: commit.to_owned(),
        reason,
        reason_codes,
    }))
}

/// Asks for a review of the changes between two commits, and records the result; returns false when it was stopped on
/// request.
fn ask(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    repo: &Repo,
    (base, head): (&CommitId, &CommitId),
    reviewer: &Reviewer,
) -> Result<bool> {
    let last = run.state().last_review().cloned();
    let started = ReviewStarted {
        commit: head.to_string(),
        since: last.as_ref().map(|last| last.commit.clone()),
        reviewer: reviewer.name.clone(),
        provider: reviewer.provider.clone(),
        launch: String::new(),
    };
    let (facts, change) = facts(run, repo, (base, head), last.as_ref())?;
    let limit = run.env().agent_limits.prompt.saturating_sub(RETRY_ROOM);
    let prompt = match run.env().trust.prompts() {
        Ok(prompts) => prompts
            .render(&facts, limit)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let prompt = match prompt {
        Ok(prompt) => prompt.text,
        Err(why) => return fail(run, &started, Phrase::verbatim(&why)).map(|()| true),
    };
    let turn = Turn {
        word: &reviewer.word,
        model: reviewer.model.as_deref(),
        name: REVIEWER_NAME,
        actor: reviewer.actor.clone(),
        commit: Some(&started.commit),
        files: change.into_iter().collect(),
        doing: "reviews the merged work",
    };
    let begun = |launch| {
        EventKind::ReviewStarted(ReviewStarted {
            launch,
            ..started.clone()
        })
    };
    let said = take(run, guard, &turn, begun, |agent, watch| {
        agent.turn(&prompt, |said| read(said, repo, head), watch)
    });
    match said {
        Ok(review) => {
            run.journal(EventKind::ReviewFinished(ReviewFinished {
                commit: started.commit,
                reviewer: started.reviewer,
                verdict: review.verdict,
                findings: review.findings,
                criteria: review.criteria,
                dropped: review.dropped,
            }))?;
        }
        Err(TurnError::Host(error)) => return Err(error),
        Err(_) if run.must_stop() => return Ok(false),
        Err(TurnError::NotTrusted(error)) => {
            fail(run, &started, Phrase::verbatim(&error.to_string()))?;
        }
        Err(TurnError::Leader(error)) => fail(run, &started, problem_words(&error.problem))?,
    }
    Ok(true)
}

fn fail(run: &mut RunContext<'_>, started: &ReviewStarted, why: Phrase) -> Result<()> {
    let why = Wording::from(why).map(|text| clip(&redact(text), LONGEST_REASON));
    let (reason, reason_codes) = why.into_parts();
    run.journal(EventKind::ReviewFailed(ReviewFailed {
        commit: started.commit.clone(),
        reviewer: started.reviewer.clone(),
        reason,
        reason_codes,
    }))
}

fn read(said: &str, repo: &Repo, commit: &CommitId) -> std::result::Result<Review, Vec<Fault>> {
    let mut lines = |path: &str| {
        let count = repo.line_count(commit, path);
        count
            .inspect_err(|error| tracing::debug!("cannot count the lines of {path:?}: {error}"))
            .ok()
            .flatten()
    };
    Review::read(said, &mut lines)
        .map_err(|faults| faults.into_iter().map(|why| Fault::new(1, why)).collect())
}

/// Returns why an agent gave no answer, in words.
pub(super) fn problem_words(problem: &LeaderProblem) -> Phrase {
    match problem {
        LeaderProblem::NotStarted(error) => {
            Phrase::new(PhraseCode::AgentNotStarted, [("error", error)])
        }
        LeaderProblem::Stopped => PhraseCode::AgentStopped.into(),
        LeaderProblem::Paused(reason) => {
            Phrase::new(PhraseCode::AgentCannotWork, [("reason", reason)])
        }
        LeaderProblem::Failed(reason) => Phrase::new(PhraseCode::AgentFailed, [("reason", reason)]),
        LeaderProblem::Unusable { faults, .. } => {
            let faults: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
            Phrase::new(PhraseCode::AgentUnusable, [("faults", &faults.join("; "))])
        }
    }
}

/// A file for an agent: its name, and its content.
pub(super) type AgentFile = (String, Vec<u8>);

/// Returns the file with a diff, unless the diff is too large.
pub(super) fn change_file(name: &str, change: &[u8]) -> Option<AgentFile> {
    let is_fit = !change.is_empty() && change.len() <= LARGEST_CHANGE;
    is_fit.then(|| (name.to_owned(), change.to_vec()))
}

/// Returns the facts for the reviewer's prompt, and the file with the whole diff. The reviewer may only run read-only
/// commands, so it is not left to git to show the diff.
fn facts(
    run: &RunContext<'_>,
    repo: &Repo,
    (base, head): (&CommitId, &CommitId),
    last: Option<&ReviewFinished>,
) -> Result<(ReviewPrompt, Option<AgentFile>)> {
    let (spec, state) = (run.spec(), run.state());
    let since: Option<CommitId> = last.and_then(|last| last.commit.parse().ok());
    let from = since.as_ref().unwrap_or(base);
    let diff = repo.diff(from, head, None)?;
    let tasks = run.tasks()?;
    let tasks = tasks.iter().filter(|task| task.is_done());
    let check = |check: &Check| check_state(check, &state.checks);
    let left = last.and_then(|last| state.review_of(&last.commit));
    let finding = |(place, found): (usize, &ReviewFinding)| FindingFacts {
        severity: found.severity.as_str().to_owned(),
        path: found.path.clone(),
        line: found.line,
        claim: found.claim.clone(),
        left: left.and_then(|review| review.dismissed.get(&place).cloned()),
    };
    let change = change_file(CHANGE_FILE, &diff);
    let prompt = ReviewPrompt {
        team: run.team().to_string(),
        goal: spec.task.clone(),
        tasks: tasks
            .map(|task| ReviewedTask {
                done: done_task(task),
                accept: task.accept(),
            })
            .collect(),
        checks: spec.verify.iter().map(check).collect(),
        base: base.to_string(),
        commit: head.to_string(),
        since: since.as_ref().map(ToString::to_string),
        stat: repo.diff_stat(from, head)?,
        diff: clip(&String::from_utf8_lossy(&diff), SHOWN_DIFF),
        patch: change.as_ref().map(|(name, _)| name.clone()),
        findings: last.map_or_else(Vec::new, |last| {
            (1..).zip(&last.findings).map(finding).collect()
        }),
        schema: format!("{:#}", review::schema()),
    };
    Ok((prompt, change))
}

/// Returns whether there is a round left to fix the findings of a commit, and no task has tried it before.
fn may_be_fixed(spec: &RunSpec, state: &RunState, tasks: &[Task], commit: &str) -> bool {
    // The tasks for the findings have changed nothing, and would not do so the next time.
    let was_worked_on = tasks.iter().filter_map(Task::review).any(|noted| {
        noted.commit == commit && noted.revision == state.revisions && noted.round <= state.round
    });
    !was_worked_on && state.round < spec.max_fix
}

/// Returns the commands after the review of a commit: tasks that fix the findings, or the gate.
fn after_review(
    spec: &RunSpec,
    state: &RunState,
    tasks: &[Task],
    commit: &str,
    reason: PhraseCode,
) -> Vec<HostCommand> {
    let review = state.review_of(commit);
    let mut to_fix = review.map_or_else(Vec::new, ReviewState::to_fix);
    if !may_be_fixed(spec, state, tasks, commit) {
        return gate_commands(reason);
    }
    // The leader has created tasks for some of them.
    let made: Vec<TaskReview> = tasks
        .iter()
        .filter_map(Task::review)
        .filter(|noted| noted.commit == commit && noted.revision == state.revisions)
        .collect();
    to_fix.retain(|(place, _)| !made.iter().any(|noted| noted.findings.contains(place)));
    let is_made = made.iter().any(|noted| noted.round == state.round + 1);
    if to_fix.is_empty() && !is_made {
        if open(tasks).is_empty() {
            return gate_commands(reason);
        }
        let reason = PhraseCode::TasksToDoAgain;
        return vec![HostCommand::enter(Stage::Execute, reason)];
    }
    let mut commands = Vec::new();
    let to_fix: Vec<&ReviewFinding> = to_fix.into_iter().map(|(_, finding)| finding).collect();
    let single = match to_fix.len() {
        count if count > MOST_TASKS => MOST_TASKS - 1,
        count => count,
    };
    let (single, rest) = to_fix.split_at(single);
    let groups = single.chunks(1).chain((!rest.is_empty()).then_some(rest));
    for (number, findings) in (1..).zip(groups) {
        let note = TaskReview {
            round: state.round + 1,
            revision: state.revisions,
            commit: commit.to_owned(),
            number,
            findings: Vec::new(),
        };
        // A host that was killed half-way has created some of them already.
        if !made.contains(&note) {
            commands.push(HostCommand::add_task(fix_task(findings, note)));
        }
    }
    let settled: BTreeSet<usize> = made
        .iter()
        .flat_map(|noted| noted.findings.clone())
        .collect();
    let reason = match to_fix.len() + settled.len() {
        1 => PhraseCode::ReviewFoundOne.into(),
        count => Phrase::new(PhraseCode::ReviewFoundSome, [("count", &count)]),
    };
    commands.push(HostCommand::enter(Stage::Fix, reason));
    commands
}

/// Returns the task to fix findings of a reviewer.
fn fix_task(findings: &[&ReviewFinding], note: TaskReview) -> NewTask {
    let subject = match findings {
        [one] if one.path.is_some() => format!("Fix what the review found in {}", one.place()),
        [_] => "Fix what the review found".to_owned(),
        more => format!("Fix {} more things that the review found", more.len()),
    };
    NewTask {
        subject: clip(&subject, SUBJECT_LIMIT - 1),
        description: clip(&describe_findings(findings), LONGEST_DESCRIPTION),
        notes: TaskNotes {
            review: Some(note),
            ..TaskNotes::default()
        },
        ..NewTask::default()
    }
}

/// Returns the description of findings for the worker that fixes them.
pub(super) fn describe_findings(findings: &[&ReviewFinding]) -> String {
    let mut description = "The team's work is merged, and a reviewer found this in it. Make sure that it is so, then fix \
                           the cause. If the reviewer is wrong, change nothing and say why in your last message.\n"
        .to_owned();
    for finding in findings {
        let place = match finding.place().as_str() {
            "" => String::new(),
            place => format!(" in {place}"),
        };
        let _ = writeln!(
            description,
            "\nA {}{place}:\n\n{}",
            finding.severity.as_str(),
            quoted(&finding.claim)
        );
        for (heading, text) in [
            ("Evidence", &finding.evidence),
            ("Suggested fix", &finding.suggestion),
        ] {
            if !text.trim().is_empty() {
                let _ = writeln!(description, "\n{heading}:\n\n{}", quoted(text));
            }
        }
    }
    description
}

/// The longest description of a task, in characters. The rest is in the report.
const LONGEST_DESCRIPTION: usize = 20_000;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teamster_journal::payload::{ReviewVerdict, Severity};

    use super::super::task_progress::example;
    use super::*;

    fn reviewed(findings: usize) -> RunState {
        let finding = |line: usize| ReviewFinding {
            severity: if line.is_multiple_of(2) {
                Severity::Major
            } else {
                Severity::Blocker
            },
            path: Some("a.rs".to_owned()),
            line: Some(line as u64),
            claim: format!("claim {line}"),
            ..ReviewFinding::default()
        };
        let mut found: Vec<ReviewFinding> = (1..=findings).map(finding).collect();
        found.push(ReviewFinding {
            severity: Severity::Nit,
            claim: "taste".to_owned(),
            ..ReviewFinding::default()
        });
        let mut state = RunState::default();
        state.reviews.push(ReviewState {
            commit: "c0ffee".to_owned(),
            reviewer: "r".to_owned(),
            since: None,
            at: teamster_types::Time::from_millis(0),
            outcome: ReviewOutcome::Finished(ReviewFinished {
                commit: "c0ffee".to_owned(),
                verdict: ReviewVerdict::Changes,
                findings: found,
                ..ReviewFinished::default()
            }),
            dismissed: std::collections::BTreeMap::new(),
        });
        state
    }

    fn after(state: &RunState, tasks: &[Task]) -> (Vec<String>, Stage) {
        let spec = RunSpec {
            max_fix: 2,
            ..RunSpec::default()
        };
        let mut subjects = Vec::new();
        let mut entered = None;
        for command in after_review(&spec, state, tasks, "c0ffee", PhraseCode::AllChecksPassed) {
            match command {
                HostCommand::AddTask(task) => subjects.push(task.subject),
                HostCommand::Enter { stage, .. } => entered = Some(stage),
                HostCommand::StopWorkers(_) => {}
                other => panic!("{other:?}"),
            }
        }
        (subjects, entered.unwrap())
    }

    #[test]
    fn findings_become_a_bounded_number_of_tasks() {
        assert_eq!(after(&reviewed(0), &[]), (Vec::new(), Stage::Approval));
        let (subjects, stage) = after(&reviewed(2), &[]);
        assert_eq!(stage, Stage::Fix);
        assert_eq!(
            subjects,
            [
                "Fix what the review found in a.rs:1",
                "Fix what the review found in a.rs:2"
            ]
        );
        let (subjects, _) = after(&reviewed(10), &[]);
        assert_eq!(subjects.len(), 10);
        let (subjects, _) = after(&reviewed(25), &[]);
        assert_eq!(subjects.len(), 10);
        assert_eq!(subjects[9], "Fix 16 more things that the review found");
    }

    #[test]
    fn tasks_of_a_killed_host_are_not_made_again() {
        let note = |round: u32, number: usize| json!({ "review": { "round": round, "revision": 0, "commit": "c0ffee", "number": number } });
        let made = [example(1, &[], "pending", &note(1, 1))];
        let (subjects, stage) = after(&reviewed(2), &made);
        assert_eq!(subjects, ["Fix what the review found in a.rs:2"]);
        assert_eq!(stage, Stage::Fix);
    }

    #[test]
    fn finding_is_not_made_a_task_that_the_leader_left_or_made_one_of() {
        let mut state = reviewed(3);
        state.reviews[0].dismissed.insert(2, "no".to_owned());
        let (subjects, _) = after(&state, &[]);
        let left = [
            "Fix what the review found in a.rs:1",
            "Fix what the review found in a.rs:3",
        ];
        assert_eq!(subjects, left);
        let note = json!({ "review": {
            "round": 1, "revision": 0, "commit": "c0ffee", "number": 1, "findings": [1, 3]
        } });
        let made = [example(1, &[], "pending", &note)];
        assert_eq!(after(&state, &made), (Vec::new(), Stage::Fix));
        for place in [1, 3] {
            state.reviews[0].dismissed.insert(place, "no".to_owned());
        }
        assert_eq!(after(&state, &[]), (Vec::new(), Stage::Approval));
    }

    #[test]
    fn findings_stand_at_the_gate_when_nobody_settled_them_or_no_round_is_left() {
        let note =
            json!({ "review": { "round": 1, "revision": 0, "commit": "c0ffee", "number": 1 } });
        let mut state = reviewed(1);
        state.round = 1;
        let done = [example(1, &[], "completed", &note)];
        assert_eq!(after(&state, &done), (Vec::new(), Stage::Approval));
        assert_eq!(after(&state, &[]).1, Stage::Fix, "the round was another's");
        state.round = 2;
        assert_eq!(after(&state, &[]), (Vec::new(), Stage::Approval));
    }
}
