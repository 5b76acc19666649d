//! Decides when the leader of a run is woken, and what happens without it.
//!
//! ```text
//! tasks, questions, messages, a review, the gate ─▶ reasons ─▶ one turn ─▶ actions ─▶ one transaction with `leader.acted`
//!                                                      │
//!                                                      └─ no leader, or not this time ─▶ what the engine does by itself
//! ```
//!
//! While the team works, the leader thinks in the background: workers, merges and supervision continue, and only the
//! end of the stage waits for it. The reasons for waking it are journalled, so each reason is handled once, whichever
//! host runs. If a host is killed before the transaction, its reasons remain open, and the next one wakes the leader
//! again; if it is killed after it, nothing is left to do.

use std::collections::BTreeSet;

use teamster_journal::payload::{QuestionId, QuestionKind, WakeKind, WakeReason};
use teamster_journal::{EventActor, HOST, ReviewState};
use teamster_types::TaskId;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::{Status, Task};

use super::Result;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::task_progress::{open, waits_for_merge};
use super::wake_actions::forwarding_event;
use super::wake_reasons::{
    Wake, findings_wake, is_handled, message_wakes, phase_wake, question_wakes,
    questions_besides_blocks, questions_to_leader, revision_wake, task_wakes,
};
use super::wake_turn::{Triage, WakeRequest, WakeTurn};

/// The number of failed wakes in a row after which the leader is not woken again.
const MOST_FAILURES: u32 = 3;
/// The number of findings that the leader decides about at once, the worst first.
const MOST_FINDINGS: usize = 30;

/// The limits of the leader of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderBounds {
    /// How often it may be woken.
    pub max_wakes: u32,
    /// The share of each budget that it may use, in percent.
    pub budget_share: u32,
}

impl Default for LeaderBounds {
    fn default() -> Self {
        Self {
            max_wakes: 20,
            budget_share: 25,
        }
    }
}

/// The result of a step of the waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeStep {
    /// No decision is needed.
    Idle,
    /// The state has changed, with or without the leader.
    Changed,
    /// The leader is thinking; the stage must not end before it is done.
    Thinking,
}

/// Decides when the leader is woken, and what happens without it.
#[derive(Default)]
pub(super) struct LeaderWaker {
    /// Unread messages that were reported to the person at the observer.
    reported: BTreeSet<WakeReason>,
    /// The present turn of the leader.
    wake: Option<WakeTurn>,
}

impl LeaderWaker {
    /// Wakes the leader when a decision is needed, applies its decision, or continues without it.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        tasks: &[Task],
    ) -> Result<WakeStep> {
        if let Some(wake) = self.wake.take() {
            if !wake.has_ended() {
                self.wake = Some(wake);
                return Ok(WakeStep::Thinking);
            }
            self.wake = wake.finish(run, guard)?;
            return Ok(WakeStep::Changed);
        }
        if run.must_stop() {
            return Ok(WakeStep::Idle);
        }
        let wakes = open_wakes(run, tasks)?;
        if !wakes.is_empty() {
            self.wake = WakeTurn::begin(run, guard, WakeRequest::new(wakes), None)?;
            return Ok(WakeStep::Changed);
        }
        self.continue_without_leader(run, tasks)
    }

    /// Returns whether something needs the leader's decision before the gate opens.
    pub(super) fn is_needed(run: &RunContext<'_>, tasks: &[Task]) -> Result<bool> {
        Ok(!run.must_stop() && !open_wakes(run, tasks)?.is_empty())
    }

    /// Returns whether the leader has ended its turn and the result was not processed yet.
    pub(super) fn has_result(&self) -> bool {
        self.wake.as_ref().is_some_and(WakeTurn::has_ended)
    }

    /// Ends the present turn because the run ends. The next host asks again.
    pub(super) fn stop(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        match self.wake.take() {
            Some(wake) => wake.stop(run),
            None => Ok(()),
        }
    }

    /// Ends the present turn because a person stops the run, and forwards the workers' open questions to the person.
    pub(super) fn stop_and_forward_questions(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.stop(run)?;
        let asked: Vec<QuestionId> = questions_besides_blocks(run)
            .map(|question| question.id)
            .collect();
        for question in asked {
            run.journal(forwarding_event(question, PhraseCode::RunIsBeingStopped))?;
        }
        Ok(())
    }

    /// Forwards the questions for the leader to a person; gives up blocked tasks where no person can be asked.
    fn continue_without_leader(
        &mut self,
        run: &mut RunContext<'_>,
        tasks: &[Task],
    ) -> Result<WakeStep> {
        let can_ask = run.can_ask_person();
        let mut changed = false;
        // Without a person, the questions of blocked tasks are not forwarded: the tasks are given up below.
        let unanswered: Vec<QuestionId> = questions_to_leader(run)
            .filter(|question| can_ask || question.kind != QuestionKind::Blocked)
            .map(|question| question.id)
            .collect();
        for question in unanswered {
            let reason = WakeReason::new(WakeKind::Question, question.to_string());
            let why = if may_wake(run) || is_handled(run, &reason) {
                PhraseCode::LeaderDidNotAnswer
            } else {
                why_not_woken(run)
            };
            run.journal(forwarding_event(question, why))?;
            changed = true;
        }
        self.report_unread_messages(run);
        for task in tasks {
            let Some(block) = task.block() else {
                continue;
            };
            if !can_ask {
                let why = format!("blocked: {}", block.reason);
                run.store().give_up(run.team(), HOST, task.id(), &why)?;
                changed = true;
            }
        }
        if changed {
            run.read()?;
            return Ok(WakeStep::Changed);
        }
        if only_answers_help(tasks) {
            run.set_waiting(true);
        }
        Ok(WakeStep::Idle)
    }

    /// Tells the person that their messages to the leader are not read.
    fn report_unread_messages(&mut self, run: &mut RunContext<'_>) {
        let mut unread = message_wakes(run);
        unread.retain(|wake| !is_handled(run, &wake.reason));
        for wake in unread {
            if self.reported.insert(wake.reason) {
                let why = Phrase::from(why_not_woken(run));
                run.say(&format!("your message to the leader is not read: {why}"));
            }
        }
    }
}

/// Returns the open reasons to wake the leader; none when it may not be woken.
fn open_wakes(run: &RunContext<'_>, tasks: &[Task]) -> Result<Vec<Wake>> {
    if !may_wake(run) {
        return Ok(Vec::new());
    }
    let mut wakes = task_wakes(run, tasks)?;
    wakes.extend(question_wakes(run));
    wakes.extend(message_wakes(run));
    wakes.retain(|wake| !is_handled(run, &wake.reason));
    Ok(wakes)
}

/// Wakes the leader for a revision that a person asks for at the gate. Returns whether it was woken now; it is not
/// woken twice for the same gate.
pub(super) fn wake_for_revision(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    gate: &str,
    words: &str,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Revision, gate);
    if is_handled(run, &reason) || !may_wake(run) || run.must_stop() {
        return Ok(false);
    }
    let wake = revision_wake(reason, words);
    WakeTurn::run_to_end(run, guard, WakeRequest::new(vec![wake]))?;
    Ok(true)
}

/// Wakes the leader because the work of a phase is done; its note completes the phase. Returns whether it was woken
/// now; it is not woken twice for the same reason.
pub(super) fn wake_for_phase(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    phase: &str,
    about: &str,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Phase, about);
    if is_handled(run, &reason) || !may_wake(run) || run.must_stop() {
        return Ok(false);
    }
    let wake = phase_wake(reason, phase, &run.tasks()?);
    WakeTurn::run_to_end(run, guard, WakeRequest::new(vec![wake]))?;
    Ok(true)
}

/// Lets the leader decide about the findings of a review, once for each commit. Returns false when it was stopped on
/// request.
pub(super) fn wake_for_findings(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    review: &ReviewState,
) -> Result<bool> {
    let reason = WakeReason::new(WakeKind::Findings, review.commit.as_str());
    if is_handled(run, &reason) || !may_wake(run) {
        return Ok(true);
    }
    let Some(finished) = review.finished() else {
        return Ok(true);
    };
    let mut findings = finished.findings.clone();
    findings.truncate(MOST_FINDINGS);
    let wake = findings_wake(reason, &review.reviewer, &findings);
    let request = WakeRequest::new(vec![wake]).with_triage(Triage {
        commit: review.commit.clone(),
        findings,
    });
    WakeTurn::run_to_end(run, guard, request)?;
    Ok(!run.must_stop())
}

/// Returns whether there is a leader, and it may be woken again.
fn may_wake(run: &RunContext<'_>) -> bool {
    let leader = &run.state().leader;
    run.spec().leading_agent().is_some()
        && leader.wakes < run.env().leader.max_wakes
        && leader.failures < MOST_FAILURES
        && has_budget_left(run)
        && run.limit_reached().is_none()
}

/// Returns why the leader is not asked.
fn why_not_woken(run: &RunContext<'_>) -> PhraseCode {
    let leader = &run.state().leader;
    if run.spec().leading_agent().is_none() {
        PhraseCode::NoLeader
    } else if leader.wakes >= run.env().leader.max_wakes {
        PhraseCode::LeaderWokenOften
    } else if leader.failures >= MOST_FAILURES {
        PhraseCode::LeaderFailedOften
    } else {
        PhraseCode::LeaderShareUsed
    }
}

/// Returns whether the leader has used less than its share of each budget. Costs that its client does not report count
/// as zero.
#[allow(
    clippy::cast_precision_loss,
    reason = "a limit of tokens is far below what a float tells apart"
)]
fn has_budget_left(run: &RunContext<'_>) -> bool {
    let (state, budget) = (run.state(), &run.spec().budget);
    let told = state
        .spent
        .reported_by_worker
        .get(EventActor::Leader.as_str());
    let spent = told.map(|told| told.cost).unwrap_or_default();
    let used = [
        (
            budget.tokens.map(|limit| limit as f64),
            spent.total().unwrap_or(0) as f64,
        ),
        (budget.usd, spent.money.unwrap_or_default().usd()),
        (budget.minutes, state.leader.thought.as_secs_f64() / 60.0),
    ];
    let share = f64::from(run.env().leader.budget_share) / 100.0;
    let is_left =
        |(limit, used): (Option<f64>, f64)| limit.is_none_or(|limit| used < limit * share);
    used.into_iter().all(is_left)
}

/// Returns whether no task can continue before a question is answered.
fn only_answers_help(tasks: &[Task]) -> bool {
    let still = open(tasks);
    let waits = |task: &&Task| {
        let is_before = |id: &TaskId| still.iter().any(|other| other.id() == id);
        task.status() == Status::Pending
            && (task.block().is_some() || task.blocked_by().iter().any(is_before))
    };
    still.iter().any(|task| task.block().is_some())
        && still.iter().all(waits)
        && !tasks.iter().any(waits_for_merge)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::task_progress::example as task;
    use super::*;

    #[test]
    fn run_waits_for_a_person_only_when_nothing_else_can_be_done() {
        let blocked = json!({ "blocked": { "reason": "Which port?", "by": "ann", "at": "2026-02-07T12:00:00.123Z" } });
        let first = task(1, &[], "pending", &blocked);
        assert!(first.block().is_some());
        let after = task(2, &[1], "pending", &json!({}));
        assert!(only_answers_help(&[first.clone(), after.clone()]));
        let free = task(3, &[], "pending", &json!({}));
        assert!(!only_answers_help(&[first.clone(), free]));
        let working = task(3, &[], "in_progress", &json!({}));
        assert!(!only_answers_help(&[first, after, working]));
        assert!(!only_answers_help(&[]));
    }
}
