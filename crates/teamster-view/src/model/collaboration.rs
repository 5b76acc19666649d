//! The communication between agents and with the person: the leader's turns, reviews, findings, and the chosen result.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::{
    CancelledTask, Criterion, DismissedFinding, OtherResult, PlanAnswer, PlanDecision, PlanDraft,
    ReviewFinding, ReviewVerdict, Severity, WakeReason,
};
use teamster_journal::{
    ChoiceRecord, FindingRecord, LeaderActionRecord, ReviewOutcome, ReviewState, RunState,
    WakeOutcome, WakeRecord,
};
use teamster_types::phrase::{PhraseKey, Wording};
use teamster_types::{TaskId, Time};

/// The maximum number of findings that are shown per review; the worst are kept.
const MOST_FINDINGS: usize = 200;

/// The state of a turn of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WakeState {
    /// The leader is thinking.
    Thinking,
    /// The leader decided.
    Acted,
    /// The turn produced no decision.
    Failed,
    /// The decision could not be carried out, so the leader was asked again.
    Refused,
}

/// One turn of the leader after the plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Wake")]
pub struct WakeView {
    /// Its number in the run, counted from 1.
    pub number: u32,
    /// Its position in the journal.
    pub seq: u64,
    /// When the leader was woken.
    pub at: Time,
    /// When the turn ended.
    pub ended_at: Option<Time>,
    /// Why the leader was woken.
    pub reasons: Vec<WakeReason>,
    /// Its outcome.
    pub state: WakeState,
    /// What it did, in order.
    pub actions: Vec<LeaderActionView>,
    /// Tasks that it cancelled.
    pub cancelled: Vec<CancelledTask>,
    /// The notes that it wrote.
    pub notes: Vec<String>,
    /// Review findings that it decided not to have fixed.
    pub dismissed: Vec<DismissedFinding>,
    /// Why the turn failed, or why the decision could not be carried out.
    pub reason: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
}

/// One action of the leader.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LeaderAction")]
pub struct LeaderActionView {
    /// `create`, `update`, `cancel`, `answer`, `ask-person`, `message` or `finding`.
    pub kind: &'static str,
    /// The task that it concerns.
    pub task_id: Option<TaskId>,
    /// The question that it concerns.
    pub question: Option<String>,
    /// The recipient of a message.
    pub to: Option<String>,
    /// The text: the subject of a task, an answer, a message, or a finding.
    pub text: String,
}

/// The state of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewPhase {
    /// It is under way.
    Reviewing,
    /// The reviewer finished it.
    Finished,
    /// The reviewer produced no review.
    Failed,
    /// No reviewer was asked.
    Skipped,
}

/// A review of the merged work.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Review")]
pub struct ReviewView {
    /// The commit that is reviewed.
    pub commit: String,
    /// The previously reviewed commit: only later changes are reviewed.
    pub since: Option<String>,
    /// The reviewer; empty when there is none.
    pub reviewer: String,
    /// The time of the last event about it.
    pub at: Time,
    /// Its state.
    pub state: ReviewPhase,
    /// The reviewer's verdict on the work as a whole.
    pub verdict: Option<ReviewVerdict>,
    /// The findings, the worst first, at most 200.
    pub findings: Vec<ReviewFinding>,
    /// The findings that the leader decided not to have fixed, with its reasons.
    pub dismissed: Vec<DismissedFinding>,
    /// The status of the acceptance criteria.
    pub criteria: Vec<Criterion>,
    /// How many findings were dropped, because their location is not in the commit or there were too many.
    pub dropped: usize,
    /// Why there is no review.
    pub reason: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
}

/// A problem that a worker or the leader reported.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TeamFinding")]
pub struct FindingView {
    /// Its position in the journal.
    pub seq: u64,
    /// When it was found.
    pub at: Time,
    /// Who found it.
    pub by: String,
    /// The task that the reporter was working on.
    pub task_id: Option<TaskId>,
    /// How bad it is.
    pub severity: Severity,
    /// The location: `src/a.rs:12`, `src/a.rs`, or nothing.
    pub place: String,
    /// What is wrong.
    pub claim: String,
    /// The evidence for it.
    pub evidence: String,
    /// The suggested fix.
    pub suggestion: String,
}

/// The last proposed plan, and the reply to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Proposal")]
pub struct ProposalView {
    /// Its position in the journal.
    pub seq: u64,
    /// The number of the proposal within the run, counted from 1. An answer refers to it.
    pub revision: u32,
    /// The author: `leader`, `person`, `file`, `preset`, `session` or `sentence`.
    pub by: &'static str,
    /// When it was proposed.
    pub at: Time,
    /// Whether a person has to decide about it now.
    pub waits: bool,
    /// The plan.
    pub plan: PlanDraft,
    /// Commands that the leader proposed and that were left out, because no person has approved them.
    pub left_out: Vec<String>,
    /// Why this plan differs from what was last asked for.
    pub problem: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub problem_codes: Vec<PhraseKey>,
    /// The reply to it.
    pub reply: Option<PlanReplyView>,
}

/// A reply to a proposed plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PlanReply")]
pub struct PlanReplyView {
    /// The decision.
    pub decision: PlanDecision,
    /// Which changes are needed, or why the plan is rejected.
    pub words: Option<String>,
    /// Who decided.
    pub by: String,
    /// When it was decided.
    pub at: Time,
}

/// Which of several candidate results was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Choice")]
pub struct ChoiceView {
    /// The task whose result was chosen.
    pub task_id: Option<TaskId>,
    /// The commit.
    pub commit: String,
    /// Why it was chosen.
    pub reason: String,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub reason_codes: Vec<PhraseKey>,
    /// The judge that chose it; `null` when the smallest passing result was taken.
    pub by: Option<String>,
    /// Why the judge chose none.
    pub judge_failed: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub judge_failed_codes: Vec<PhraseKey>,
    /// The other results.
    pub others: Vec<OtherResult>,
    /// When it was chosen.
    pub at: Time,
}

impl WakeView {
    fn of(record: &WakeRecord) -> Self {
        let base = Self {
            number: record.number,
            seq: record.seq,
            at: record.at,
            ended_at: None,
            reasons: record.reasons.clone(),
            state: WakeState::Thinking,
            actions: record.actions.iter().map(action).collect(),
            cancelled: Vec::new(),
            notes: Vec::new(),
            dismissed: Vec::new(),
            reason: None,
            reason_codes: Vec::new(),
        };
        match &record.outcome {
            WakeOutcome::UnderWay => base,
            WakeOutcome::Acted {
                at,
                cancelled,
                notes,
                dismissed,
                ..
            } => Self {
                ended_at: Some(*at),
                state: WakeState::Acted,
                cancelled: cancelled.clone(),
                notes: notes.clone(),
                dismissed: dismissed.clone(),
                ..base
            },
            WakeOutcome::Failed { at, reason } => Self {
                ended_at: Some(*at),
                state: WakeState::Failed,
                reason: Some(reason.to_string()),
                reason_codes: reason.codes().to_vec(),
                ..base
            },
            WakeOutcome::Refused { at, reason } => Self {
                ended_at: Some(*at),
                state: WakeState::Refused,
                reason: (!reason.is_empty()).then(|| reason.clone()),
                ..base
            },
        }
    }
}

fn action(record: &LeaderActionRecord) -> LeaderActionView {
    LeaderActionView {
        kind: record.kind.as_str(),
        task_id: record.task.clone(),
        question: record.question.map(|question| question.to_string()),
        to: record.to.clone(),
        text: record.text.clone(),
    }
}

impl ReviewView {
    fn of(review: &ReviewState) -> Self {
        let base = Self {
            commit: review.commit.clone(),
            since: review.since.clone(),
            reviewer: review.reviewer.clone(),
            at: review.at,
            state: ReviewPhase::Reviewing,
            verdict: None,
            findings: Vec::new(),
            dismissed: (review.dismissed.iter())
                .map(|(place, reason)| DismissedFinding {
                    commit: review.commit.clone(),
                    finding: *place,
                    reason: reason.clone(),
                })
                .collect(),
            criteria: Vec::new(),
            dropped: 0,
            reason: None,
            reason_codes: Vec::new(),
        };
        let without = |state: ReviewPhase, reason: &Wording| Self {
            state,
            reason: Some(reason.to_string()),
            reason_codes: reason.codes().to_vec(),
            ..base.clone()
        };
        match &review.outcome {
            ReviewOutcome::UnderWay => base,
            ReviewOutcome::Finished(finished) => Self {
                state: ReviewPhase::Finished,
                verdict: Some(finished.verdict),
                findings: (finished.findings.iter().take(MOST_FINDINGS))
                    .cloned()
                    .collect(),
                criteria: finished.criteria.clone(),
                dropped: finished.dropped,
                ..base
            },
            ReviewOutcome::Failed(reason) => without(ReviewPhase::Failed, reason),
            ReviewOutcome::Skipped(reason) => without(ReviewPhase::Skipped, reason),
        }
    }
}

/// Returns the last proposed plan. A plan that contains questions is not shown as one yet: its questions are shown
/// instead.
pub(super) fn proposal(state: &RunState) -> Option<ProposalView> {
    let last = state.planning.last()?;
    let proposed = &last.proposed;
    let is_plan = proposed.plan.questions.is_empty() && proposed.ask;
    let open = state.open_plan().map(|open| open.seq);
    is_plan.then(|| ProposalView {
        seq: last.seq,
        revision: proposed.revision,
        by: proposed.by.as_str(),
        at: last.at,
        waits: open == Some(last.seq),
        plan: proposed.plan.clone(),
        left_out: proposed.left_out.clone(),
        problem: proposed.problem.clone(),
        problem_codes: proposed.problem_codes.to_vec(),
        reply: last.reply.as_ref().map(|reply| PlanReplyView {
            decision: reply.answer.decision(),
            words: match &reply.answer {
                PlanAnswer::Reject { why } if !why.is_empty() => Some(why.clone()),
                PlanAnswer::Revise { words } => Some(words.clone()),
                _ => None,
            },
            by: reply.by.as_str().to_owned(),
            at: reply.at,
        }),
    })
}

/// Returns the turns of the leader.
pub(super) fn wakes(state: &RunState) -> Vec<WakeView> {
    let wakes = state.history.collaboration.wakes.iter();
    wakes.map(WakeView::of).collect()
}

/// Returns the reviews, in order.
pub(super) fn reviews(state: &RunState) -> Vec<ReviewView> {
    state.reviews.iter().map(ReviewView::of).collect()
}

/// Returns the findings of workers and the leader, in order.
pub(super) fn findings(state: &RunState) -> Vec<FindingView> {
    let findings = state.history.collaboration.findings.iter();
    findings.map(finding).collect()
}

fn finding(record: &FindingRecord) -> FindingView {
    let found = &record.finding;
    FindingView {
        seq: record.seq,
        at: record.at,
        by: record.by.as_str().to_owned(),
        task_id: record.task.clone(),
        severity: found.severity,
        place: found.place(),
        claim: found.claim.clone(),
        evidence: found.evidence.clone(),
        suggestion: found.suggestion.clone(),
    }
}

/// Returns which of several candidate results was chosen.
pub(super) fn choice(state: &RunState) -> Option<ChoiceView> {
    let record: &ChoiceRecord = state.history.collaboration.choice.as_ref()?;
    let failed = state.history.collaboration.judge_failed.as_ref();
    Some(ChoiceView {
        task_id: record.task.clone(),
        commit: record.chosen.commit.clone(),
        reason: record.chosen.reason.clone(),
        reason_codes: record.chosen.reason_codes.to_vec(),
        by: record.chosen.by.clone(),
        judge_failed: failed.map(|failed| format!("{}: {}", failed.judge, failed.reason)),
        // The codes already contain the name of the judge.
        judge_failed_codes: failed.map_or_else(Vec::new, |failed| failed.reason_codes.to_vec()),
        others: record.chosen.others.clone(),
        at: record.at,
    })
}
