//! One turn of the leader about what to do during the run: what it is asked, and what becomes of its answer.
//!
//! ```text
//! begin ─▶ prompt from the state of the team ─▶ agent, in the background ─▶ finish ─┬─▶ actions applied
//!   ▲                                                                               ├─▶ refused by the store, asked again
//!   └───────────────────────────────────────────────────────────────────────────────┘
//!                                                                                   └─▶ failed: `leader.failed`
//! ```
//!
//! The answer is checked against the state of the team at the moment of the question, and applied by the store only if it
//! still fits then. What the team decided meanwhile is not overwritten.

use std::time::Duration;

use teamster_document::Fault;
use teamster_journal::payload::{LeaderFailed, LeaderWoken, Member, QuestionKind, ReviewFinding};
use teamster_journal::{EventKind, QuestionStatus};
use teamster_prompts::facts::{
    AnswerFacts, MemberFacts, QuotedText, TaskStateFacts, WakeLimits, WakePrompt,
};
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::{Status, Task};
use teamster_types::text::clip;

use super::context::RunContext;
use super::digest::digest;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{self, RunningTurn, TurnError};
use super::task_progress::{hopeless, waits_for_merge};
use super::wake_actions;
use super::wake_reasons::{Wake, block_question_id, finding_id, questions_besides_blocks};
use super::{Result, RunError};
use crate::leader::actions::{LeaderActions, OpenFinding, OpenQuestion, TeamFacts, schema};

/// How often the leader is asked again when the store refuses what it decided.
const RETRIES: usize = 1;
/// The number of characters of a subject, and of a member's capabilities.
const LONGEST_LINE: usize = 160;
/// The number of characters of a task's description, and of the leader's own analysis.
const SHOWN_DESCRIPTION: usize = 1_000;
const SHOWN_ANALYSIS: usize = 4_000;

/// The review whose findings the leader decides about.
#[derive(Clone, Debug)]
pub(super) struct Triage {
    pub(super) commit: String,
    pub(super) findings: Vec<ReviewFinding>,
}

/// Everything that the leader is asked in one turn.
#[derive(Clone, Debug)]
pub(super) struct WakeRequest {
    wakes: Vec<Wake>,
    triage: Option<Triage>,
    /// How often it may be asked again.
    retries: usize,
}

impl WakeRequest {
    /// Creates a request without a review to decide about.
    pub(super) fn new(wakes: Vec<Wake>) -> Self {
        Self {
            wakes,
            triage: None,
            retries: RETRIES,
        }
    }

    /// Returns the same request, in which the leader also decides about the findings of a review.
    pub(super) fn with_triage(self, triage: Triage) -> Self {
        Self {
            triage: Some(triage),
            ..self
        }
    }
}

/// A turn of the leader in progress.
pub(super) struct WakeTurn {
    number: u32,
    request: WakeRequest,
    turn: RunningTurn<LeaderActions>,
}

impl WakeTurn {
    /// Begins a turn of the leader; if it cannot be asked, records that and returns `None`.
    pub(super) fn begin(
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        request: WakeRequest,
        refused: Option<String>,
    ) -> Result<Option<Self>> {
        let number = run.state().leader.wakes + 1;
        if number > run.env().leader.max_wakes {
            fail(
                run,
                &request,
                Phrase::verbatim(&refused.unwrap_or_default()),
            )?;
            return Ok(None);
        }
        let why = match begin_turn(run, guard, number, &request, refused) {
            Ok(turn) => {
                return Ok(Some(Self {
                    number,
                    request,
                    turn,
                }));
            }
            Err(TurnError::Host(error)) => return Err(error),
            Err(TurnError::Leader(error)) => error.cause(),
            Err(TurnError::NotTrusted(error)) => Phrase::verbatim(&error.to_string()),
        };
        fail(run, &request, why)?;
        Ok(None)
    }

    /// Runs a turn of the leader and waits for its end, when there is nothing else to do.
    pub(super) fn run_to_end(
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        request: WakeRequest,
    ) -> Result<()> {
        let mut next = Self::begin(run, guard, request, None)?;
        while let Some(wake) = next {
            wake.turn.wait(run)?;
            next = wake.finish(run, guard)?;
        }
        Ok(())
    }

    /// Returns whether the agent has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.turn.has_ended()
    }

    /// Ends the turn without its result, because the run ends.
    pub(super) fn stop(self, run: &mut RunContext<'_>) -> Result<()> {
        self.turn.stop();
        if let Err(error) = self.turn.finish(run)? {
            tracing::debug!("the leader was stopped: {error}");
        }
        Ok(())
    }

    /// Applies the decision of the leader; returns the next turn if it is asked again. Waits for the agent if it has
    /// not ended.
    pub(super) fn finish(
        self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
    ) -> Result<Option<Self>> {
        let Self {
            number,
            mut request,
            turn,
        } = self;
        let is_late = turn.is_late(run.now());
        let why = match turn.finish(run)? {
            Ok(decided) => {
                match wake_actions::apply(run, guard, number, request.triage.as_ref(), decided) {
                    Ok(()) => {
                        run.read()?;
                        return Ok(None);
                    }
                    // The state changed meanwhile, for example because a worker took a task that should be cancelled.
                    Err(error) if is_refusal(&error) && request.retries > 0 => {
                        request.retries -= 1;
                        return Self::begin(run, guard, request, Some(error.message));
                    }
                    Err(error) if is_refusal(&error) => Phrase::verbatim(&error.message),
                    Err(error) => return Err(RunError::Store(error)),
                }
            }
            Err(TurnError::Host(error)) => return Err(error),
            // The next host asks again.
            Err(_) if run.must_stop() => return Ok(None),
            Err(_) if is_late => PhraseCode::LeaderLate.into(),
            Err(TurnError::Leader(error)) => error.cause(),
            Err(TurnError::NotTrusted(error)) => Phrase::verbatim(&error.to_string()),
        };
        fail(run, &request, why)?;
        Ok(None)
    }
}

/// Asks the leader what to do.
fn begin_turn(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    number: u32,
    request: &WakeRequest,
    refused: Option<String>,
) -> std::result::Result<RunningTurn<LeaderActions>, TurnError> {
    let prompts = run.env().trust.prompts()?;
    let tasks = run.tasks()?;
    let prompt = prompt(run, &tasks, number, request, refused.as_deref())?;
    let team = TeamSnapshot::new(run, &tasks, request);
    let woken = woken(number, request, refused);
    let most = time_left(run);
    let read = move |said: &str| team.read(said);
    leader_turn::begin_wake(run, guard, woken, most, prompts, prompt, read)
}

/// Returns the facts for the leader's prompt.
fn prompt(
    run: &RunContext<'_>,
    tasks: &[Task],
    number: u32,
    request: &WakeRequest,
    refused: Option<&str>,
) -> Result<WakePrompt> {
    let spec = run.spec();
    let wakes = &request.wakes;
    let mut reasons: Vec<&str> = wakes.iter().map(|wake| wake.why.as_str()).collect();
    reasons.dedup();
    let mut subject: Vec<QuotedText> = wakes.iter().flat_map(|wake| wake.said.clone()).collect();
    if let Some(refused) = refused {
        subject.push(QuotedText {
            from: "Your last answer was refused when it was to be carried out".to_owned(),
            text: refused.to_owned(),
        });
    }
    let hopeless = hopeless(tasks);
    let tasks = tasks.iter().map(|task| TaskStateFacts {
        id: task.id().to_string(),
        state: state_phrase(task, hopeless.contains(task.id())).to_owned(),
        worker: task.owner().map(str::to_owned),
        subject: clip(task.subject(), LONGEST_LINE),
        description: match task.status() {
            Status::Completed if !task.is_failed() => String::new(),
            _ => clip(task.description(), SHOWN_DESCRIPTION),
        },
        accept: match task.status() {
            Status::Completed if !task.is_failed() => Vec::new(),
            _ => task
                .accept()
                .iter()
                .map(|it| clip(it, LONGEST_LINE))
                .collect(),
        },
    });
    let plan = run.state().planning.last().map(|last| &last.proposed.plan);
    let asked = run.state().questions.all();
    let answered = asked.filter_map(|question| match &question.state {
        QuestionStatus::Answered { by, answer, .. } if question.kind == QuestionKind::Plan => {
            Some(AnswerFacts {
                question: question.text.clone(),
                from: by.to_string(),
                text: answer.clone(),
            })
        }
        _ => None,
    });
    let members = spec.members.iter().map(|member| MemberFacts {
        name: member.name.to_string(),
        role: member.role.clone(),
        provider: member.provider_name().to_owned(),
        can: vec![clip(&member.can.join(", "), LONGEST_LINE)],
    });
    let most = run.env().leader.max_wakes;
    Ok(WakePrompt {
        team: run.team().to_string(),
        goal: spec.task.clone(),
        analysis: plan.map_or_else(String::new, |plan| clip(&plan.analysis, SHOWN_ANALYSIS)),
        assumptions: plan.map_or_else(Vec::new, |plan| plan.assumptions.clone()),
        answers: answered.collect(),
        notes: run.state().leader.notes.clone(),
        reason: reasons.join(", and "),
        subject,
        has_findings: request.triage.is_some(),
        digest: digest(run, run.state().leader.knows_until + 1)?,
        tasks: tasks.collect(),
        members: members.collect(),
        limits: WakeLimits {
            wakes_left: usize::try_from(most.saturating_sub(number)).ok(),
        },
        schema: format!("{:#}", schema()),
    })
}

/// Returns the state of a task, as the rest of a sentence.
fn state_phrase(task: &Task, is_hopeless: bool) -> &'static str {
    match task.status() {
        _ if task.is_failed() => "failed permanently",
        _ if task.block().is_some() => "waits for an answer",
        Status::Pending if is_hopeless => "waits for one that will not be done",
        Status::InProgress => "is being worked on",
        Status::Completed if waits_for_merge(task) => "is done and not merged",
        Status::Completed => "is done",
        Status::Pending if !task.blocked_by().is_empty() => "waits for others",
        Status::Pending => "is to be done",
    }
}

/// Returns how long the leader may think before its share of the run's time is used up.
fn time_left(run: &RunContext<'_>) -> Option<Duration> {
    let minutes = run.spec().budget.minutes?;
    let seconds = minutes * 60.0 * f64::from(run.env().leader.budget_share) / 100.0;
    let share = Duration::try_from_secs_f64(seconds).ok()?;
    Some(share.saturating_sub(run.state().leader.thought))
}

/// The state of the team when the leader was asked, against which its answer is checked.
struct TeamSnapshot {
    tasks: Vec<Task>,
    members: Vec<Member>,
    questions: Vec<OpenQuestion>,
    findings: Vec<OpenFinding>,
    most_new: usize,
}

impl TeamSnapshot {
    fn new(run: &RunContext<'_>, tasks: &[Task], request: &WakeRequest) -> Self {
        let blocked = tasks.iter().filter(|task| task.block().is_some());
        let mut questions: Vec<OpenQuestion> = blocked
            .map(|task| OpenQuestion {
                id: block_question_id(task.id()),
                blocks: Some(task.id().clone()),
            })
            .collect();
        questions.extend(questions_besides_blocks(run).map(|question| OpenQuestion {
            id: question.id.to_string(),
            blocks: None,
        }));
        let findings = request.triage.iter().flat_map(|triage| &triage.findings);
        let findings = (1..).zip(findings).map(|(place, finding)| OpenFinding {
            id: finding_id(place),
            needs_fix: finding.severity.needs_fix(),
        });
        Self {
            tasks: tasks.to_vec(),
            members: run.spec().members.clone(),
            questions,
            findings: findings.collect(),
            most_new: run.env().max_tasks.saturating_sub(run.state().added.len()),
        }
    }

    fn read(&self, said: &str) -> std::result::Result<LeaderActions, Vec<Fault>> {
        let facts = TeamFacts {
            tasks: &self.tasks,
            members: &self.members,
            questions: &self.questions,
            findings: &self.findings,
            most_new: self.most_new,
        };
        LeaderActions::read(said, &facts).map_err(|faults| {
            let faults = faults.into_iter();
            faults.map(|fault| Fault::new(0, fault)).collect()
        })
    }
}

fn is_refusal(error: &StoreError) -> bool {
    let kinds = [
        StoreErrorKind::NotFound,
        StoreErrorKind::Conflict,
        StoreErrorKind::Refused,
    ];
    !error.busy && kinds.contains(&error.kind)
}

/// Records that a wake failed, so that the run continues without the leader's decision.
fn fail(run: &mut RunContext<'_>, request: &WakeRequest, why: Phrase) -> Result<()> {
    if run.state().leader.open.is_empty() {
        // The turn did not even begin.
        let woken = woken(run.state().leader.wakes + 1, request, None);
        run.journal(EventKind::LeaderWoken(LeaderWoken {
            launch: teamster_fs::random_hex(),
            ..woken
        }))?;
    }
    run.say(&format!("the leader decided nothing: {why}"));
    let wake = run.state().leader.wakes;
    let (reason, reason_codes) = Wording::from(why).into_parts();
    run.journal(EventKind::LeaderFailed(LeaderFailed {
        wake,
        reason,
        reason_codes,
    }))
}

fn woken(wake: u32, request: &WakeRequest, refused: Option<String>) -> LeaderWoken {
    let wakes = request.wakes.iter();
    LeaderWoken {
        wake,
        reasons: wakes.map(|wake| wake.reason.clone()).collect(),
        launch: String::new(),
        refused,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::task_progress::example as task;
    use super::*;

    #[test]
    fn state_of_a_task_is_told_in_words() {
        let none = json!({});
        for (task, is_hopeless, words) in [
            (
                task(1, &[], "completed", &json!({ "failed": true })),
                true,
                "failed permanently",
            ),
            (
                task(2, &[1], "pending", &none),
                true,
                "waits for one that will not be done",
            ),
            (task(2, &[1], "pending", &none), false, "waits for others"),
            (task(2, &[], "pending", &none), false, "is to be done"),
            (
                task(2, &[], "in_progress", &none),
                false,
                "is being worked on",
            ),
            (
                task(2, &[], "completed", &json!({ "merged": false })),
                false,
                "is done and not merged",
            ),
            (
                task(2, &[], "completed", &json!({ "merged": true })),
                false,
                "is done",
            ),
        ] {
            assert_eq!(state_phrase(&task, is_hopeless), words);
        }
    }
}
