//! The run of a team as the page shows it, built from its journal. A key that is missing from the journal is shown with
//! its default.

use teamster_journal::payload::CheckVerdict;
use teamster_journal::payload::{PlanMade, PlannedTaskEntry, RunSpec};
use teamster_journal::{
    CheckRecord, DecisionRecord, MergeRecord, MergeStanding, Planning, RunHistory, RunState,
    StageRecord,
};

use crate::model::cost::BudgetView;
use crate::model::run::{
    AnswerView, Approval, BaseView, FinishedView, MergeState, MergeView, PlanTask, PlanView,
    RunMember, RunView, StageView, Verification, VerificationState, VerifyCommand,
};

/// The maximum number of verifications and merges that are shown; the newest are kept.
const MOST: usize = 1_000;

/// Returns the run; `None` while there is none.
pub(super) fn run(state: &RunState) -> Option<RunView> {
    let history = &state.history;
    let last = history.stages.last().map(|record| &record.entered);
    is_told(history).then(|| RunView {
        stage: last.map(|entered| entered.to.clone()),
        round: last.map_or(0, |entered| entered.round.into()),
        stages: history.stages.iter().map(stage).collect(),
        plan: (history.plan.as_ref()).map(|made| plan(made, &state.planning)),
        started_at: history.started,
        resumed_at: history.resumed,
        finished: finished(history),
        ..history.spec.as_ref().map(asked_for).unwrap_or_default()
    })
}

/// Returns whether the journal contains a run at all. A truncated journal may lack its beginning.
pub(super) fn is_told(history: &RunHistory) -> bool {
    history.spec.is_some()
        || history.plan.is_some()
        || history.resumed.is_some()
        || history.finished.is_some()
        || !history.stages.is_empty()
}

/// Returns the view of a run that has not done anything yet, from its specification.
fn asked_for(spec: &RunSpec) -> RunView {
    RunView {
        task: spec.task.clone(),
        agents: spec.agents.clone(),
        members: spec
            .members
            .iter()
            .map(|member| RunMember {
                name: member.name.to_string(),
                provider: Some(member.provider.clone()),
                role: member.role.clone(),
                model: member.model.clone(),
            })
            .collect(),
        base: spec.base.as_ref().map(|base| BaseView {
            commit: base.commit.clone(),
            branch: base.branch.clone(),
        }),
        verify: spec
            .verify
            .iter()
            .map(|check| VerifyCommand {
                command: check.command.clone(),
                source: Some(check.source.clone()),
            })
            .collect(),
        approve: Some(spec.approve.as_str().to_owned()),
        max_fix: Some(spec.max_fix.into()),
        flow: Some(spec.flow.clone()),
        leader: Some(spec.leader.clone()),
        in_place: spec.in_place,
        budget: Some(BudgetView {
            tokens: spec.budget.tokens,
            usd: spec.budget.usd,
            minutes: spec.budget.minutes,
        }),
        uncommitted: spec.uncommitted as u64,
        ..RunView::default()
    }
}

fn stage(record: &StageRecord) -> StageView {
    StageView {
        stage: record.entered.to.clone(),
        at: record.at,
        seq: record.seq,
        reason: record.entered.reason.clone(),
        reason_codes: record.entered.reason_codes.to_vec(),
        round: record.entered.round.into(),
    }
}

fn finished(history: &RunHistory) -> Option<FinishedView> {
    let (at, finished) = history.finished.as_ref()?;
    Some(FinishedView {
        outcome: finished.outcome.clone(),
        exit_code: finished.exit_code,
        reason: finished.reason.clone(),
        reason_codes: finished.reason_codes.to_vec(),
        commit: finished.commit.clone(),
        at: *at,
    })
}

fn plan(plan: &PlanMade, planning: &Planning) -> PlanView {
    let words = planning.carried_out();
    let tasks = plan.tasks.iter().map(|task: &PlannedTaskEntry| PlanTask {
        label: task.label.clone(),
        id: task.id.clone(),
        subject: task.subject.clone(),
        blocked_by: task.blocked_by.clone(),
    });
    PlanView {
        source: plan.source.clone(),
        path: plan.path.clone(),
        analysis: planning.analysis().to_owned(),
        assumptions: words.map_or_else(Vec::new, |words| words.assumptions.clone()),
        risks: words.map_or_else(Vec::new, |words| words.risks.clone()),
        tasks: tasks.collect(),
    }
}

/// Returns the newest checks.
pub(super) fn verifications(state: &RunState) -> Vec<Verification> {
    newest(&state.history.checks).map(verification).collect()
}

fn verification(record: &CheckRecord) -> Verification {
    let CheckRecord {
        seq,
        verdict,
        result,
        started,
        ended,
    } = record;
    Verification {
        seq: *seq,
        on: result.on.clone(),
        commit: result.commit.clone(),
        command: result.command.clone(),
        round: result.round.into(),
        state: match verdict {
            None => VerificationState::Running,
            Some(CheckVerdict::Passed) => VerificationState::Passed,
            Some(CheckVerdict::Flaky) => VerificationState::Flaky,
            Some(_) => VerificationState::Failed,
        },
        exit_code: result.exit_code.map(Into::into),
        seconds: verdict.map(|_| result.seconds),
        timed_out: result.timed_out,
        last: result.last.clone(),
        log: verdict.map(|_| result.log.clone()),
        charged: result.charged,
        started_at: *started,
        ended_at: *ended,
    }
}

/// Returns the newest merges.
pub(super) fn merges(state: &RunState) -> Vec<MergeView> {
    newest(&state.history.merges).map(merge).collect()
}

fn merge(record: &MergeRecord) -> MergeView {
    let conflict = record.conflict.as_ref();
    MergeView {
        seq: record.seq,
        task_id: record.task.clone(),
        worker: record.worker.clone(),
        commit: record.commit.clone(),
        state: match record.standing {
            MergeStanding::Predicted => MergeState::Predicted,
            MergeStanding::Merged => MergeState::Merged,
            MergeStanding::Conflict => MergeState::Conflict,
            MergeStanding::Lost => MergeState::Lost,
        },
        predicted: record.predicted.map(|result| result.as_str().to_owned()),
        merge: record.merge.clone(),
        files: conflict.map_or_else(Vec::new, |conflict| conflict.files.clone()),
        times: conflict.map_or(0, |conflict| conflict.times),
        is_final: conflict.is_some_and(|conflict| conflict.is_final),
        fix_task: conflict.and_then(|conflict| conflict.fix_task.clone()),
        at: record.at,
    }
}

/// Returns the last opened gate.
pub(super) fn approval(state: &RunState) -> Option<Approval> {
    let record = state.history.gate.as_ref()?;
    let opened = &record.opened;
    let base = opened.base.as_ref();
    Some(Approval {
        seq: record.seq,
        gate: opened.gate.clone(),
        commit: opened.commit.clone(),
        base: base.map(|base| base.commit.clone()),
        branch: base.and_then(|base| base.branch.clone()),
        verified: opened.verified,
        words: opened.words.clone(),
        words_codes: opened.words_codes.to_vec(),
        refused: opened.refused.clone(),
        refused_codes: opened.refused_codes.to_vec(),
        shown: record.shown.clone(),
        asked_at: record.at,
        waits: state.open_gate().is_some_and(|gate| gate.id == opened.gate),
        answer: record.answer.as_ref().map(answer),
    })
}

fn answer(record: &DecisionRecord) -> AnswerView {
    let decided = &record.decided;
    AnswerView {
        answer: decided.answer.clone(),
        taken: record.is_taken,
        by: match decided.by.as_deref() {
            None | Some("") => record.actor.to_string(),
            Some(by) => by.to_owned(),
        },
        by_codes: decided.by_codes.to_vec(),
        rollback: decided.rollback == Some(true),
        text: decided.text.clone().unwrap_or_default(),
        at: record.at,
    }
}

fn newest<T>(list: &[T]) -> impl Iterator<Item = &T> {
    list.iter().skip(list.len().saturating_sub(MOST))
}
