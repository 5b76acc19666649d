//! Chooses one of several results of the same work.
//!
//! ```text
//! results ─▶ checks ─┬─▶ none passes ─▶ the run ends, and all are kept
//!                    ├─▶ one passes ──▶ that one
//!                    └─▶ several pass ─▶ judge ─┬─▶ its choice
//!                                               └─▶ none, or no choice ─▶ the smallest
//! ```
//!
//! The judge is a member of the team with that role, or else its reviewer. It looks at the results and changes nothing.
//! A failure of the judge is journalled, so that the next host does not ask it again.

use serde::Deserialize;
use serde_json::Value;
use teamster_document::Fault;
use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::payload::{CandidateChosen, JudgeAsked, JudgeFailed, OtherResult, RunEnd};
use teamster_journal::{EventKind, HOST, NewEvent};
use teamster_prompts::facts::{CandidateFacts, JudgePrompt};
use teamster_store::TeamChanges;
use teamster_types::TaskId;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::redact::redact;
use teamster_types::task::Task;
use teamster_types::text::{clip, one_line};

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{Turn, TurnError, take};
use super::projector::Projector;
use super::reviewer::{AgentFile, change_file, problem_words};
use super::reviewer_choice::Reviewer;
use super::task_progress::candidates;
use super::verifier::Verifier;
use super::{HostCommand, Result};
use crate::leader::last_object;
use crate::verify::compare_with_base;

/// The role of a member that is reserved for the choice, and the name under which it is asked.
const JUDGE: &str = "judge";
/// The number of characters of a diff that the judge is shown; the whole diff is in a file.
const SHOWN_DIFF: usize = 20_000;
/// The longest reason of a judge, and the longest that is journalled, in characters.
const LONGEST_REASON: usize = 1_000;
/// The number of characters of a prompt that are reserved for the second attempt.
const RETRY_ROOM: usize = 10_000;

/// The answer to the question which result is the best.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// The judge chose this one, for this reason.
    Chosen {
        task: TaskId,
        judge: String,
        reason: String,
    },
    /// No result was chosen; the words say why, if a judge was asked.
    None(Option<Wording>),
    /// The judge was stopped on request.
    Stopped,
}

/// A result that may be chosen, or why it may not be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RatedResult {
    task: TaskId,
    commit: Option<String>,
    kept_as: Option<String>,
    /// The number of lines that it adds and removes.
    lines: u64,
    /// Why it may not be chosen.
    out: Option<Phrase>,
}

/// Runs the checks on every result and chooses one; returns the next commands.
pub(super) fn choose(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    verifier: &mut Verifier,
    projector: &mut Projector,
) -> Result<Vec<HostCommand>> {
    let tasks = run.tasks()?;
    let tasks: Vec<Task> = candidates(&tasks).into_iter().cloned().collect();
    for task in tasks.iter().filter(|task| task.is_done()) {
        if let Some(commit) = task.commit()
            && !verifier.check_candidate(run, guard, projector, task.id(), commit)?
        {
            return Ok(vec![HostCommand::Wait]);
        }
    }
    let mut rated = Vec::new();
    for task in &tasks {
        rated.push(rate(run, task)?);
    }
    let Some(best) = best_of(&rated) else {
        let none = Phrase::new(PhraseCode::NoResultTaken, [("count", &rated.len())]);
        let why = rated
            .iter()
            .zip(std::iter::once(": ").chain(std::iter::repeat("; ")));
        let why = why.fold(Wording::from(none), |why, (result, between)| {
            why.and(between, describe(result))
        });
        return Ok(vec![
            HostCommand::StopWorkers("no result can be taken"),
            HostCommand::finish(RunEnd::Unverified, why),
        ]);
    };
    let passing: Vec<&RatedResult> = rated.iter().filter(|result| result.out.is_none()).collect();
    let smallest = |count: usize| {
        Phrase::new(
            PhraseCode::ChosenSmallest,
            [("count", &count), ("lines", &best.lines)],
        )
    };
    let (best, by, reason) = match (passing.len(), judge(run, guard, &tasks, &passing)?) {
        (_, Judgement::Stopped) => return Ok(vec![HostCommand::Wait]),
        (
            _,
            Judgement::Chosen {
                task,
                judge,
                reason,
            },
        ) => {
            let chosen = passing.iter().find(|result| result.task == task);
            let reason = Phrase::new(
                PhraseCode::ChosenByJudge,
                [("judge", &judge), ("words", &reason)],
            );
            let reason = Wording::from(reason);
            (*chosen.unwrap_or(&best), Some(judge), reason)
        }
        (1, Judgement::None(_)) => (best, None, PhraseCode::ChosenAlone.into()),
        (count, Judgement::None(None)) => (best, None, smallest(count).into()),
        (count, Judgement::None(Some(why))) => (best, None, why.and("; ", smallest(count))),
    };
    let (reason, reason_codes) = reason.into_parts();
    let others = rated.iter().filter(|result| result.task != best.task);
    let chosen = CandidateChosen {
        commit: best.commit.clone().unwrap_or_default(),
        reason,
        reason_codes,
        by,
        others: others
            .map(|other| {
                let lines = || Phrase::new(PhraseCode::ResultLines, [("count", &other.lines)]);
                let why = Wording::from(other.out.clone().unwrap_or_else(lines));
                let (why, why_codes) = why.into_parts();
                OtherResult {
                    task: other.task.clone(),
                    kept_as: other.kept_as.clone(),
                    why,
                    why_codes,
                }
            })
            .collect(),
    };
    let changes = TeamChanges {
        choose: rated
            .iter()
            .map(|result| (result.task.clone(), result.task == best.task))
            .collect(),
        record: vec![NewEvent::new(HOST, EventKind::CandidateChosen(chosen)).task(&best.task)],
        ..TeamChanges::default()
    };
    run.store().apply(run.team(), HOST, &changes)?;
    run.read()?;
    Ok(Vec::new())
}

/// Asks the judge, if there is one, which of the passing results is the best.
fn judge(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    tasks: &[Task],
    passing: &[&RatedResult],
) -> Result<Judgement> {
    let members = run.spec().members.iter();
    let mut able: Vec<Reviewer> = members
        .map(|member| Reviewer::of_member(run, member, tasks))
        .filter(Reviewer::is_reserved)
        .collect();
    able.sort_by_key(|one| !one.is_for(JUDGE));
    let (Some(judge), Some(repo), true) = (able.first(), run.repo(), passing.len() > 1) else {
        return Ok(Judgement::None(None));
    };
    if let Some(why) = &run.state().judge_failed {
        return Ok(Judgement::None(Some(why.clone())));
    }
    if run.limit_reached().is_some() {
        let why = Phrase::new(PhraseCode::JudgeNotAsked, [("judge", &judge.name)]);
        return Ok(Judgement::None(Some(why.into())));
    }
    let asked = ask(run, guard, repo, judge, tasks, passing)?;
    let why = match asked {
        Ok(JudgeAnswer { choice, reason }) => {
            let chosen = passing.iter().find(|one| one.task.as_str() == choice);
            if let Some(chosen) = chosen {
                return Ok(Judgement::Chosen {
                    task: chosen.task.clone(),
                    judge: judge.name.clone(),
                    reason: one_line(&clip(&redact(&reason), LONGEST_REASON)),
                });
            }
            let choice = format!("{choice:?}");
            Phrase::new(PhraseCode::JudgeChoseNone, [("choice", &choice)])
        }
        Err(TurnError::Host(error)) => return Err(error),
        Err(_) if run.must_stop() => return Ok(Judgement::Stopped),
        Err(TurnError::NotTrusted(error)) => Phrase::verbatim(&error.to_string()),
        Err(TurnError::Leader(error)) => problem_words(&error.problem),
    };
    let asked = Phrase::new(PhraseCode::JudgeAsked, [("judge", &judge.name)]);
    let why = Wording::from(asked)
        .and(", and ", why)
        .map(|text| clip(&redact(text), LONGEST_REASON));
    run.journal(EventKind::JudgeFailed(JudgeFailed {
        judge: judge.name.clone(),
        reason: why.to_string(),
        reason_codes: why.codes().clone(),
    }))?;
    Ok(Judgement::None(Some(why)))
}

/// Runs one turn of a judge. The outer error is the host's own.
fn ask(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    repo: &Repo,
    judge: &Reviewer,
    tasks: &[Task],
    passing: &[&RatedResult],
) -> Result<std::result::Result<JudgeAnswer, TurnError>> {
    let (facts, files) = facts(run, repo, tasks, passing)?;
    let limit = run.env().agent_limits.prompt.saturating_sub(RETRY_ROOM);
    let prompts = match run.env().trust.prompts() {
        Ok(prompts) => prompts,
        Err(error) => return Ok(Err(error.into())),
    };
    let prompt = prompts
        .render(&facts, limit)
        .map_err(|error| super::RunError::refused(error.to_string(), "fix the template"))?;
    let ids: Vec<String> = passing.iter().map(|one| one.task.to_string()).collect();
    let asked = JudgeAsked {
        judge: judge.name.clone(),
        provider: judge.provider.clone(),
        candidates: passing.iter().map(|one| one.task.clone()).collect(),
        launch: String::new(),
    };
    let base = facts.base.clone();
    let turn = Turn {
        word: &judge.word,
        model: judge.model.as_deref(),
        name: JUDGE,
        actor: judge.actor.clone(),
        commit: Some(&base),
        files,
        doing: "judges which result is the best",
    };
    let begun = |launch| EventKind::JudgeAsked(JudgeAsked { launch, ..asked });
    Ok(take(run, guard, &turn, begun, |agent, watch| {
        agent.turn(&prompt.text, |said| JudgeAnswer::read(said, &ids), watch)
    }))
}

/// Returns the facts for the judge's prompt, and the files with the whole diffs.
fn facts(
    run: &RunContext<'_>,
    repo: &Repo,
    tasks: &[Task],
    passing: &[&RatedResult],
) -> Result<(JudgePrompt, Vec<AgentFile>)> {
    let base = run.spec().base.as_ref().map(|base| base.commit.clone());
    let mut files = Vec::new();
    let mut listed = Vec::new();
    for result in passing {
        let task = tasks.iter().find(|task| *task.id() == result.task);
        let told = task.and_then(Task::result).unwrap_or_default();
        let from = told.base.or_else(|| base.clone()).unwrap_or_default();
        let commit = result.commit.clone().unwrap_or_default();
        let mut candidate = CandidateFacts {
            id: result.task.to_string(),
            worker: task.and_then(Task::owner).map(str::to_owned),
            commit: commit.clone(),
            summary: told.summary.unwrap_or_default(),
            ..CandidateFacts::default()
        };
        if let (Ok(from), Ok(to)) = (from.parse::<CommitId>(), commit.parse::<CommitId>()) {
            let diff = repo.diff(&from, &to, None)?;
            candidate.stat = repo.diff_stat(&from, &to)?;
            candidate.diff = clip(&String::from_utf8_lossy(&diff), SHOWN_DIFF);
            let file = change_file(&format!("result-{}.patch", result.task), &diff);
            candidate.patch = file.as_ref().map(|(name, _)| name.clone());
            files.extend(file);
        }
        listed.push(candidate);
    }
    let prompt = JudgePrompt {
        team: run.team().to_string(),
        goal: run.spec().task.clone(),
        base: base.unwrap_or_default(),
        candidates: listed,
    };
    Ok((prompt, files))
}

/// The answer of a judge. It is untrusted text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct JudgeAnswer {
    /// The id of the result.
    #[serde(deserialize_with = "id")]
    choice: String,
    /// Why it is the best.
    reason: String,
}

/// Reads an id, which may be written as a number.
fn id<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<String, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(word) => word.trim().to_owned(),
        other => other.to_string(),
    })
}

impl JudgeAnswer {
    /// Reads the choice in an answer, or returns its faults.
    fn read(said: &str, ids: &[String]) -> std::result::Result<Self, Vec<Fault>> {
        let wrong = |why: String| vec![Fault::new(0, why)];
        let Some(text) = last_object(said, "choice") else {
            let why = "there is no JSON object with a `choice` in the answer";
            return Err(wrong(why.to_owned()));
        };
        let answer: Self = serde_json::from_str(text)
            .map_err(|error| wrong(format!("the choice cannot be read: {error}")))?;
        if !ids.contains(&answer.choice) {
            let ids = ids.join(", ");
            let why = format!("`choice` is {:?}; there are {ids}", answer.choice);
            return Err(wrong(why));
        }
        if answer.reason.trim().is_empty() {
            return Err(wrong("`reason` is empty".to_owned()));
        }
        Ok(answer)
    }
}

/// Returns the passing result with the fewest changed lines; of two equal ones, that of the earlier task.
fn best_of(rated: &[RatedResult]) -> Option<&RatedResult> {
    let passing = rated.iter().filter(|result| result.out.is_none());
    passing.min_by_key(|result| (result.lines, result.task.number()))
}

fn rate(run: &RunContext<'_>, task: &Task) -> Result<RatedResult> {
    let result = task.result().unwrap_or_default();
    let mut rated = RatedResult {
        task: task.id().clone(),
        commit: result.commit.clone(),
        kept_as: result.kept_as,
        lines: 0,
        out: None,
    };
    if task.is_failed() {
        rated.out = Some(match task.error() {
            Some(error) => Phrase::new(PhraseCode::ResultFailed, [("error", &error)]),
            None => PhraseCode::ResultFailedUnexplained.into(),
        });
        return Ok(rated);
    }
    let Some(commit) = &result.commit else {
        rated.out = Some(PhraseCode::ResultUnchanged.into());
        return Ok(rated);
    };
    let state = run.state();
    if let Some(checks) = state.candidates.get(task.id()) {
        let report = compare_with_base(&run.spec().verify, &state.base, checks);
        let failed: Vec<&str> = report
            .to_fix()
            .chain(report.stopped.iter().copied())
            .map(|checked| checked.command.as_str())
            .collect();
        if !failed.is_empty() {
            let commands = failed.join(", ");
            let fails = Phrase::new(PhraseCode::ResultFailsChecks, [("commands", &commands)]);
            rated.out = Some(fails);
        }
    }
    if let Some(repo) = run.repo() {
        rated.lines = changed_lines(repo, result.base.as_deref(), commit)?;
    }
    Ok(rated)
}

fn changed_lines(repo: &Repo, base: Option<&str>, commit: &str) -> Result<u64> {
    let (Some(Ok(base)), Ok(commit)) =
        (base.map(str::parse::<CommitId>), commit.parse::<CommitId>())
    else {
        return Ok(u64::MAX);
    };
    let counts = repo.line_counts(&base, &commit)?;
    // A binary file has no lines; it counts as one change.
    let lines = counts
        .iter()
        .map(|count| match (count.added, count.removed) {
            (None, None) => 1,
            (added, removed) => added.unwrap_or(0) + removed.unwrap_or(0),
        });
    Ok(lines.sum())
}

fn describe(rated: &RatedResult) -> Wording {
    let why = rated.out.clone();
    let why = why.unwrap_or_else(|| PhraseCode::ResultPasses.into());
    let of = Phrase::new(PhraseCode::ResultOfTask, [("task", &rated.task)]);
    let told = Wording::from(of).and(": ", why);
    match &rated.kept_as {
        Some(name) => told.and(" ", Phrase::new(PhraseCode::ResultKeptAs, [("name", name)])),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(number: u64, lines: u64, out: Option<&str>) -> RatedResult {
        RatedResult {
            task: TaskId::from_number(number),
            commit: Some("c".to_owned()),
            kept_as: None,
            lines,
            out: out.map(Phrase::verbatim),
        }
    }

    #[test]
    fn choice_of_a_judge_is_read_or_refused_in_words() {
        let ids = ["1".to_owned(), "3".to_owned()];
        let read = |said: &str| JudgeAnswer::read(said, &ids);
        for said in [
            "I looked.\n```json\n{\"choice\": \"3\", \"reason\": \"It is whole.\"}\n```",
            r#"{"choice": 3, "reason": "It is whole."}"#,
        ] {
            let answer = read(said).unwrap();
            assert_eq!(
                (answer.choice.as_str(), answer.reason.as_str()),
                ("3", "It is whole.")
            );
        }
        for (said, why) in [
            ("The third.", "no JSON object with a `choice`"),
            (
                r#"{"choice": "2", "reason": "x"}"#,
                "`choice` is \"2\"; there are 1, 3",
            ),
            (r#"{"choice": "3", "reason": " "}"#, "`reason` is empty"),
            (r#"{"choice": "3"}"#, "missing field `reason`"),
            (
                r#"{"choice": "3", "reason": "x", "approve": true}"#,
                "unknown field",
            ),
        ] {
            let faults = read(said).unwrap_err();
            assert!(faults[0].message.contains(why), "{said}: {faults:?}");
        }
    }

    #[test]
    fn smallest_result_that_passes_is_chosen() {
        let results = [
            rated(1, 3, Some("it fails make test")),
            rated(2, 20, None),
            rated(3, 10, None),
            rated(4, 10, None),
        ];
        assert_eq!(best_of(&results).unwrap().task, TaskId::from_number(3));
        assert_eq!(best_of(&results[..1]), None);
    }
}
