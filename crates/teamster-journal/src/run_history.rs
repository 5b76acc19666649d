//! The history of a run for viewers: checks, merges, gates and decisions, in order.
//!
//! [`RunState`](crate::RunState) keeps it beside the facts that the host decides by. The page, the report, replay and
//! `status` are built from it, so they agree.

use teamster_types::{TaskId, Time};

use crate::actor::EventActor;
use crate::collaboration::Collaboration;
use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{
    BudgetExhausted, CheckResult, CheckStarted, CheckVerdict, GateDecided, GateOpened, GateShown,
    MergeConflict, PlanMade, Prediction, RunFinished, RunSpec, Shown, StageEntered,
};

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub struct RunHistory {
    /// The specification of the run as recorded last. One of which no run can be made is kept only until there is
    /// another. [`RunState`](crate::RunState) sets it.
    pub spec: Option<RunSpec>,
    /// When the run began.
    pub started: Option<Time>,
    /// When a host last took the run over.
    pub resumed: Option<Time>,
    /// How many times a host took the run over.
    pub resumptions: usize,
    /// Every stage that was entered.
    pub stages: Vec<StageRecord>,
    /// The plan.
    pub plan: Option<PlanMade>,
    /// Every check that was begun.
    pub checks: Vec<CheckRecord>,
    /// Every commit that was considered for merging.
    pub merges: Vec<MergeRecord>,
    /// The gate that was opened last.
    pub gate: Option<GateRecord>,
    /// What is shown at the gate; it is recorded before the gate opens.
    pub shown: Option<GateShown>,
    /// Every decision that counted.
    pub decisions: Vec<DecisionRecord>,
    /// The communication between the agents and with the person.
    pub collaboration: Collaboration,
    /// The limit that ended the run.
    pub exhausted: Option<(Time, BudgetExhausted)>,
    /// How the run ended; `None` while it is running.
    pub finished: Option<(Time, RunFinished)>,
}

/// A stage that was entered.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRecord {
    /// The position of the event.
    pub seq: u64,
    /// When it was entered.
    pub at: Time,
    /// The payload of the event.
    pub entered: StageEntered,
}

/// A check that was begun.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRecord {
    /// The position of the event that records its start, or its end if the start was not recorded.
    pub seq: u64,
    /// The result; `None` while it runs, and permanently if it was interrupted.
    pub verdict: Option<CheckVerdict>,
    /// What was checked, and the result as far as it is known.
    pub result: CheckResult,
    /// When it began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
}

impl CheckRecord {
    fn begun(event: &Event, started: &CheckStarted) -> Self {
        Self {
            seq: event.seq,
            verdict: None,
            result: CheckResult {
                on: started.on.clone(),
                commit: started.commit.clone(),
                command: started.command.clone(),
                round: started.round,
                ..CheckResult::default()
            },
            started: Some(event.ts),
            ended: None,
        }
    }

    fn is_same(&self, other: &CheckResult) -> bool {
        let CheckResult {
            on,
            commit,
            command,
            round,
            ..
        } = &self.result;
        *on == other.on
            && *commit == other.commit
            && *command == other.command
            && *round == other.round
    }
}

/// The state of a commit's merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeStanding {
    /// It was predicted, but not performed yet.
    Predicted,
    /// It was performed.
    Merged,
    /// It conflicts.
    Conflict,
    /// It was recorded as performed, but is missing from the team's branch; it is performed again.
    Lost,
}

/// A commit that was considered for merging.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeRecord {
    /// The position of the first event about it.
    pub seq: u64,
    /// The task whose work it is.
    pub task: Option<TaskId>,
    /// The commit of the task.
    pub commit: String,
    /// Its state.
    pub standing: MergeStanding,
    /// When it entered this state.
    pub at: Time,
    /// The predicted result.
    pub predicted: Option<Prediction>,
    /// The worker whose work it is.
    pub worker: Option<String>,
    /// The merge commit.
    pub merge: Option<String>,
    /// The last conflict.
    pub conflict: Option<MergeConflict>,
}

/// An opening of the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRecord {
    /// The position of the event.
    pub seq: u64,
    /// When it was opened.
    pub at: Time,
    /// The payload of the event.
    pub opened: GateOpened,
    /// What a person was shown.
    pub shown: Option<Shown>,
    /// The last answer, whether it counts or not.
    pub answer: Option<DecisionRecord>,
}

/// A decision at the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRecord {
    /// When it was given.
    pub at: Time,
    /// Who wrote the event.
    pub actor: EventActor,
    /// Whether the run has accepted it. Until then it is only a submitted answer.
    pub is_taken: bool,
    /// The payload of the event.
    pub decided: GateDecided,
}

impl RunHistory {
    /// Returns the stages, each with its end: the start of the next stage, or the end of the run.
    pub fn stage_spans(&self) -> impl Iterator<Item = (&StageRecord, Option<Time>)> {
        let last = self.finished.as_ref().map(|(at, _)| *at);
        let ends = self.stages.iter().skip(1).map(|next| Some(next.at));
        self.stages.iter().zip(ends.chain([last]))
    }

    /// Applies one event. `counts` says whether it is an answer or a decision at the gate that counts.
    pub(crate) fn apply(&mut self, event: &Event, what: &EventKind, counts: bool) {
        match what {
            EventKind::RunStarted(_) => {
                *self = Self {
                    started: Some(event.ts),
                    ..Self::default()
                };
            }
            EventKind::RunResumed(_) => {
                self.resumed = Some(event.ts);
                self.resumptions += 1;
                self.finished = None;
            }
            EventKind::RunStage(entered) => self.stages.push(StageRecord {
                seq: event.seq,
                at: event.ts,
                entered: entered.clone(),
            }),
            EventKind::RunPlan(plan) => self.plan = Some(plan.clone()),
            EventKind::RunFinished(finished) => {
                self.finished = Some((event.ts, finished.clone()));
            }
            EventKind::BudgetExhausted(exhausted) => {
                self.exhausted = Some((event.ts, exhausted.clone()));
            }
            EventKind::VerifyStarted(started) => {
                let begun = CheckRecord::begun(event, started);
                // An earlier check without an end was interrupted together with its host.
                self.checks
                    .retain(|check| check.verdict.is_some() || !check.is_same(&begun.result));
                self.checks.push(begun);
            }
            EventKind::VerifyPassed(result) => self.check(event, result, CheckVerdict::Passed),
            EventKind::VerifyFlaky(result) => self.check(event, result, CheckVerdict::Flaky),
            EventKind::VerifyFailed(result) => self.check(event, result, CheckVerdict::Failed),
            EventKind::MergePredicted(predicted) => {
                let merge = self.merge(event, MergeStanding::Predicted, &predicted.commit);
                merge.predicted = predicted.result;
            }
            EventKind::MergeMerged(merged) => {
                let commit = merged.commit.as_deref().unwrap_or_default();
                let merge = self.merge(event, MergeStanding::Merged, commit);
                merge.merge.clone_from(&merged.merge);
                merge.worker.clone_from(&merged.worker);
            }
            EventKind::MergeLost(lost) => {
                let commit = lost.commit.as_deref().unwrap_or_default();
                self.merge(event, MergeStanding::Lost, commit).merge = None;
            }
            EventKind::MergeConflict(conflict) => {
                let commit = conflict.commit.as_deref().unwrap_or_default();
                let merge = self.merge(event, MergeStanding::Conflict, commit);
                merge.conflict = Some(conflict.clone());
            }
            EventKind::ApprovalShown(shown) => self.shown = Some(shown.clone()),
            EventKind::ApprovalRequested(opened) => self.open_gate(event, opened),
            EventKind::ApprovalAnswered(decided) if counts => {
                self.answer(event, decided, None);
            }
            EventKind::ApprovalGiven(decided) if counts => {
                self.answer(event, decided, Some("approve"));
            }
            EventKind::ApprovalRefused(decided) if counts => {
                self.answer(event, decided, Some("reject"));
            }
            EventKind::ApprovalRevised(decided) if counts => {
                self.answer(event, decided, Some("revise"));
            }
            _ => self.collaboration.apply(event, what),
        }
    }

    fn check(&mut self, event: &Event, result: &CheckResult, of_kind: CheckVerdict) {
        let verdict = result.verdict_or(of_kind);
        let mut checks = self.checks.iter_mut().rev();
        let begun = checks.find(|check| check.verdict.is_none() && check.is_same(result));
        if let Some(check) = begun {
            check.verdict = Some(verdict);
            check.result = result.clone();
            check.ended = Some(event.ts);
        } else {
            self.checks.push(CheckRecord {
                seq: event.seq,
                verdict: Some(verdict),
                result: result.clone(),
                started: None,
                ended: Some(event.ts),
            });
        }
    }

    /// Returns the merge record of a commit, after setting its state.
    fn merge(&mut self, event: &Event, standing: MergeStanding, commit: &str) -> &mut MergeRecord {
        let known = self.merges.iter().rposition(|merge| {
            merge.commit == commit && (event.task_id.is_none() || merge.task == event.task_id)
        });
        let place = known.unwrap_or_else(|| {
            self.merges.push(MergeRecord {
                seq: event.seq,
                task: event.task_id.clone(),
                commit: commit.to_owned(),
                standing,
                at: event.ts,
                predicted: None,
                worker: None,
                merge: None,
                conflict: None,
            });
            self.merges.len() - 1
        });
        let merge = &mut self.merges[place];
        merge.standing = standing;
        merge.at = event.ts;
        merge
    }

    fn open_gate(&mut self, event: &Event, opened: &GateOpened) {
        let shown = self.shown.clone();
        let shown = shown.filter(|shown| shown.gate == opened.gate);
        self.gate = Some(GateRecord {
            seq: event.seq,
            at: event.ts,
            opened: opened.clone(),
            shown: shown.map(|shown| shown.shown),
            answer: None,
        });
    }

    /// Records an answer; `taken` is its name if the run has accepted it.
    fn answer(&mut self, event: &Event, decided: &GateDecided, taken: Option<&str>) {
        let mut decided = decided.clone();
        if let Some(word) = taken.filter(|_| decided.answer.is_empty()) {
            word.clone_into(&mut decided.answer);
        }
        let record = DecisionRecord {
            at: event.ts,
            actor: event.actor.clone(),
            is_taken: taken.is_some(),
            decided,
        };
        if record.is_taken {
            self.decisions.push(record.clone());
        }
        if let Some(gate) = &mut self.gate
            && gate.opened.gate == record.decided.gate
        {
            gate.answer = Some(record);
        }
    }
}
