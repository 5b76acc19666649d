//! Has the merged work reviewed by an agent that did not write it, after its checks hold and before the gate opens.
//!
//! ```text
//! checks hold ─▶ reviewer ─┬─▶ nothing to fix ─────────────────▶ gate
//!                          ├─▶ findings ─▶ fix ─▶ checks ─▶ review of what changed since
//!                          └─▶ no review, or no round left ────▶ gate, which says so
//! ```
//!
//! A review is one turn in a tree of the commit that goes with it. What comes of it is in the journal before anything builds
//! on it, once for each commit, so that a host that follows a killed one neither asks nor makes tasks twice.

use std::fmt::Write as _;

use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{
    Check, Member, ReviewFailed, ReviewFinding, ReviewFinished, ReviewMode, ReviewSkipped,
    ReviewStarted, RunSpec,
};
use teamster_journal::{EventActor, EventKind, ReviewOutcome, ReviewState, RunState};
use teamster_prompts::facts::{Finding, ReviewPrompt, ReviewedTask};
use teamster_types::flow::Stage;
use teamster_types::redact::redact;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskNotes, TaskReview};
use teamster_types::text::{clip, quoted};
use teamster_workers::briefing::done_task;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{Turn, TurnError, check_state, take};
use super::{HostCommand, Result};
use crate::leader::{LEADER, LeaderProblem};
use crate::review::{self, Review};
use teamster_document::Fault;

/// The name under which the agent is asked, whatever its name in the team is: it is not the worker of that name.
const NAME: &str = "reviewer";
/// The most tasks that one review makes. The last one names everything that is left.
const MOST_TASKS: usize = 10;
/// The longest diff that is told, in characters. The agent can look at the rest itself.
const DIFF: usize = 60_000;
/// The number of characters of a prompt that are left for what may have to be said the second time.
const FOR_LATER: usize = 10_000;
/// The longest reason that is journalled, in characters.
const REASON: usize = 1_000;

/// Why nobody reviews.
const NOBODY: &str = "no agent that can review";
const NO_REPOSITORY: &str = "there is no repository to review it in";
const NO_BUDGET: &str = "the budget is used up";

/// Returns what leads to the gate.
pub(super) fn to_gate(reason: &str) -> Vec<HostCommand> {
    // Before the gate is near: who still runs could change what is asked about, or answer.
    vec![
        HostCommand::StopWorkers("the gate opens"),
        HostCommand::enter(Stage::Approval, reason),
    ]
}

/// Has a commit reviewed whose checks hold, unless that was done; returns what follows. `reason` is why the gate may open.
pub(super) fn review(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    commit: &str,
    reason: &str,
) -> Result<Vec<HostCommand>> {
    if run.spec().review == ReviewMode::Off {
        return Ok(to_gate(reason));
    }
    let outcome = run.state().review_of(commit).map(|review| &review.outcome);
    if matches!(outcome, None | Some(ReviewOutcome::UnderWay)) && !make_review(run, guard, commit)?
    {
        return Ok(vec![HostCommand::Wait]);
    }
    let tasks = run.tasks()?;
    Ok(after_review(
        run.spec(),
        run.state(),
        &tasks,
        commit,
        reason,
    ))
}

/// Has a commit reviewed, if there is something to review and somebody who can; returns false when somebody did not want to
/// wait for the end of it.
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
            skip(run, commit, NO_REPOSITORY)?;
        }
        return Ok(true);
    };
    if repo.changed_files(&base, &head)?.is_empty() {
        return Ok(true);
    }
    if run.exhausted().is_some() {
        return skip(run, commit, NO_BUDGET).map(|()| true);
    }
    match choose(run)? {
        Some(reviewer) => ask(run, guard, repo, (&base, &head), &reviewer),
        None => skip(run, commit, NOBODY).map(|()| true),
    }
}

fn skip(run: &mut RunContext<'_>, commit: &str, reason: &str) -> Result<()> {
    run.journal(EventKind::ReviewSkipped(ReviewSkipped {
        commit: commit.to_owned(),
        reason: reason.to_owned(),
    }))
}

/// An agent that could review, and what speaks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reviewer {
    /// Its name in the team.
    name: String,
    /// The word that stands for its agent.
    word: String,
    /// What the user calls its agent.
    provider: String,
    /// Its model, where it is not the provider's.
    model: Option<String>,
    /// The actor whose cost it is.
    actor: EventActor,
    /// Whether reviewing is what it is for.
    is_reserved: bool,
    /// The vendor whose client it is, or `None` when it is a command or a script.
    vendor: Option<&'static str>,
    /// Whether some of the work is its own.
    is_author: bool,
}

impl Reviewer {
    fn of_member(run: &RunContext<'_>, member: &Member, tasks: &[Task]) -> Self {
        let name = member.name.as_str();
        let is_author = tasks
            .iter()
            .any(|task| task.owner() == Some(name) && task.commit().is_some());
        let (provider, vendor) = agent(run, &member.provider);
        Self {
            name: name.to_owned(),
            word: member.provider.clone(),
            provider,
            model: member.model.clone(),
            actor: EventActor::from(&member.name),
            is_reserved: member.is_reserved(),
            vendor,
            is_author,
        }
    }
}

/// Returns what the user calls an agent, and the vendor whose client it is. One that cannot be used is of no vendor.
fn agent(run: &RunContext<'_>, word: &str) -> (String, Option<&'static str>) {
    match run.env().trust.agent(word) {
        Ok((provider, _)) => {
            let vendor = Some(provider.kind.word()).filter(|kind| VENDORS.contains(kind));
            (provider.name, vendor)
        }
        Err(_) => (word.to_owned(), None),
    }
}

/// The clients that can review without being told how.
const VENDORS: [&str; 3] = ["claude", "codex", "gemini"];

/// Returns who reviews the work of the run.
fn choose(run: &RunContext<'_>) -> Result<Option<Reviewer>> {
    let tasks = run.tasks()?;
    let spec = run.spec();
    let members = spec.members.iter();
    let mut able: Vec<Reviewer> = members
        .map(|member| Reviewer::of_member(run, member, &tasks))
        .collect();
    if let Some(word) = spec.leading_agent() {
        let (provider, vendor) = agent(run, word);
        able.push(Reviewer {
            name: LEADER.to_owned(),
            word: word.to_owned(),
            provider,
            model: spec.leader_model.clone(),
            actor: EventActor::Leader,
            is_reserved: false,
            vendor,
            is_author: false,
        });
    }
    Ok(best(&able).cloned())
}

/// Returns the one who should review: whoever is there for it, then an agent of another vendor than the authors', then one
/// that has written nothing. Whoever it is works in a session of its own.
fn best(able: &[Reviewer]) -> Option<&Reviewer> {
    let authors: Vec<&str> = able
        .iter()
        .filter(|one| one.is_author)
        .filter_map(|one| one.vendor)
        .collect();
    able.iter()
        .filter(|one| one.is_reserved || one.vendor.is_some())
        .min_by_key(|one| {
            let is_of_author = one.vendor.is_some_and(|vendor| authors.contains(&vendor));
            (!one.is_reserved, is_of_author, one.is_author)
        })
}

/// Asks for a review of what came between two commits, and records what came of it; returns false when somebody did not want
/// to wait.
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
    let facts = facts(run, repo, (base, head), last.as_ref())?;
    let limit = run.env().agent_limits.prompt.saturating_sub(FOR_LATER);
    let prompt = match run.env().trust.prompts() {
        Ok(prompts) => prompts
            .render(&facts, limit)
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let prompt = match prompt {
        Ok(prompt) => prompt.text,
        Err(why) => return fail(run, &started, &why).map(|()| true),
    };
    let turn = Turn {
        word: &reviewer.word,
        model: reviewer.model.as_deref(),
        name: NAME,
        actor: reviewer.actor.clone(),
        permissions: run.env().agent_permissions,
        commit: Some(&started.commit),
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
        Err(TurnError::NotTrusted(error)) => fail(run, &started, &error.to_string())?,
        Err(TurnError::Leader(error)) => fail(run, &started, &problem_words(&error.problem))?,
    }
    Ok(true)
}

fn fail(run: &mut RunContext<'_>, started: &ReviewStarted, why: &str) -> Result<()> {
    run.journal(EventKind::ReviewFailed(ReviewFailed {
        commit: started.commit.clone(),
        reviewer: started.reviewer.clone(),
        reason: clip(&redact(why), REASON),
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

/// Returns why there is no review, in words.
fn problem_words(problem: &LeaderProblem) -> String {
    match problem {
        LeaderProblem::NotStarted(error) => format!("it could not be started: {error}"),
        LeaderProblem::Stopped => "it was stopped".to_owned(),
        LeaderProblem::Paused(reason) => format!("it cannot work now: {reason}"),
        LeaderProblem::Failed(reason) => format!("it failed: {reason}"),
        LeaderProblem::Unusable { faults, .. } => {
            let faults: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
            format!(
                "it was asked twice and made no review that can be used: {}",
                faults.join("; ")
            )
        }
    }
}

/// Returns everything that a reviewer is told.
fn facts(
    run: &RunContext<'_>,
    repo: &Repo,
    (base, head): (&CommitId, &CommitId),
    last: Option<&ReviewFinished>,
) -> Result<ReviewPrompt> {
    let (spec, state) = (run.spec(), run.state());
    let since: Option<CommitId> = last.and_then(|last| last.commit.parse().ok());
    let from = since.as_ref().unwrap_or(base);
    let diff = repo.diff(from, head, None)?;
    let tasks = run.tasks()?;
    let tasks = tasks.iter().filter(|task| task.is_done());
    let check = |check: &Check| check_state(check, &state.checks);
    let finding = |found: &ReviewFinding| Finding {
        severity: found.severity.as_str().to_owned(),
        path: found.path.clone(),
        line: found.line,
        claim: found.claim.clone(),
    };
    Ok(ReviewPrompt {
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
        diff: clip(&String::from_utf8_lossy(&diff), DIFF),
        findings: last.map_or_else(Vec::new, |last| last.findings.iter().map(finding).collect()),
        schema: format!("{:#}", review::schema()),
    })
}

/// Returns what follows from the review of a commit: tasks that settle what was found, or the gate.
fn after_review(
    spec: &RunSpec,
    state: &RunState,
    tasks: &[Task],
    commit: &str,
    reason: &str,
) -> Vec<HostCommand> {
    let review = state.review_of(commit).and_then(ReviewState::finished);
    let to_fix: Vec<&ReviewFinding> = review.map_or_else(Vec::new, |it| it.to_fix().collect());
    // Whoever was to settle them has changed nothing: nobody would do it the next time either.
    let was_worked_on = tasks.iter().filter_map(Task::review).any(|noted| {
        noted.commit == commit && noted.revision == state.revisions && noted.round <= state.round
    });
    if to_fix.is_empty() || was_worked_on || state.round >= spec.max_fix {
        return to_gate(reason);
    }
    let mut commands = Vec::new();
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
        };
        // A host that was killed half-way has made some of them already.
        if !tasks
            .iter()
            .any(|task| task.review().as_ref() == Some(&note))
        {
            commands.push(HostCommand::add_task(fixing(findings, note)));
        }
    }
    let reason = match to_fix.len() {
        1 => "the review found 1 thing to fix".to_owned(),
        count => format!("the review found {count} things to fix"),
    };
    commands.push(HostCommand::enter(Stage::Fix, reason));
    commands
}

/// Returns the task to settle what a reviewer found.
fn fixing(findings: &[&ReviewFinding], note: TaskReview) -> NewTask {
    let subject = match findings {
        [one] if one.path.is_some() => format!("Fix what the review found in {}", one.place()),
        [_] => "Fix what the review found".to_owned(),
        more => format!("Fix {} more things that the review found", more.len()),
    };
    let mut description = "The team's work is merged, and a reviewer found this in it. Make sure that it is so, then mend \
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
            ("What shows it", &finding.evidence),
            ("What to do, as the reviewer sees it", &finding.suggestion),
        ] {
            if !text.trim().is_empty() {
                let _ = writeln!(description, "\n{heading}:\n\n{}", quoted(text));
            }
        }
    }
    NewTask {
        subject: clip(&subject, SUBJECT_LIMIT - 1),
        description: clip(&description, LONGEST_DESCRIPTION),
        notes: TaskNotes {
            review: Some(note),
            ..TaskNotes::default()
        },
        ..NewTask::default()
    }
}

/// The longest description of a task, in characters. What does not fit stands in the report.
const LONGEST_DESCRIPTION: usize = 20_000;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teamster_journal::payload::{ReviewVerdict, Severity};

    use super::super::task_progress::example;
    use super::*;

    fn able(
        name: &str,
        vendor: Option<&'static str>,
        is_reserved: bool,
        is_author: bool,
    ) -> Reviewer {
        Reviewer {
            name: name.to_owned(),
            word: name.to_owned(),
            provider: name.to_owned(),
            model: None,
            actor: EventActor::Leader,
            is_reserved,
            vendor,
            is_author,
        }
    }

    #[test]
    fn reviewer_is_whoever_is_there_for_it_then_another_vendor_then_another_worker() {
        let (claude, codex) = (Some("claude"), Some("codex"));
        let name = |able: &[Reviewer]| best(able).map(|one| one.name.clone());
        let author = able("author", claude, false, true);
        let other = able("other", claude, false, false);
        let vendor = able("vendor", codex, false, false);
        let script = able("script", None, false, false);
        let kept = able("kept", None, true, false);
        for (all, expected) in [
            (vec![&author, &other, &vendor, &kept], Some("kept")),
            (vec![&author, &other, &vendor, &script], Some("vendor")),
            (vec![&author, &other, &script], Some("other")),
            (vec![&author, &script], Some("author")),
            (vec![&script], None),
        ] {
            let all: Vec<Reviewer> = all.into_iter().cloned().collect();
            assert_eq!(name(&all).as_deref(), expected, "{all:?}");
        }
    }

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
            outcome: ReviewOutcome::Finished(ReviewFinished {
                commit: "c0ffee".to_owned(),
                verdict: ReviewVerdict::Changes,
                findings: found,
                ..ReviewFinished::default()
            }),
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
        for command in after_review(&spec, state, tasks, "c0ffee", "all checks passed") {
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
