//! A run, as its events tell it. A key that a journal leaves out is shown with its default.

use teamster_journal::payload::{
    self, CheckResult, CheckStarted, GateDecided, GateOpened, GateShown, MergeConflict, PlanMade,
    RunFinished, RunSpec, StageEntered,
};
use teamster_journal::{Event, EventKind, RunState};

use crate::model::cost::Budget;
use crate::model::run::{
    Answer, Approval, Base, Finished, Merge, MergeState, Plan, PlanTask, Run, RunMember, Stage,
    Verification, VerificationState, VerifyCommand,
};

/// Verifications and merges that are kept in mind, the newest.
const MOST: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) run: Option<Run>,
    pub(super) approval: Option<Approval>,
    pub(super) verifications: Vec<Verification>,
    pub(super) merges: Vec<Merge>,
    /// What is to be shown at the gate that opens next.
    shown: Option<GateShown>,
    /// The state by which the host goes, so that no view can disagree with it about the gate.
    state: RunState,
}

impl Runs {
    pub(super) fn apply(&mut self, event: &Event, what: &EventKind) {
        self.state.apply_kind(event, what);
        match what {
            EventKind::RunStarted(started) => self.started(event, &started.spec),
            EventKind::RunStage(entered) => self.stage(event, entered),
            EventKind::RunPlan(plan) => self.run().plan = Some(shown_plan(plan)),
            EventKind::RunResumed(_) => {
                let run = self.run();
                run.resumed_at = Some(event.ts);
                run.finished = None;
            }
            EventKind::RunFinished(finished) => self.finished(event, finished),
            EventKind::VerifyStarted(started) => self.check_started(event, started),
            EventKind::VerifyPassed(result) => {
                self.check_ended(event, VerificationState::Passed, result);
            }
            EventKind::VerifyFailed(result) => {
                self.check_ended(event, VerificationState::Failed, result);
            }
            EventKind::VerifyFlaky(result) => {
                self.check_ended(event, VerificationState::Flaky, result);
            }
            EventKind::MergePredicted(predicted) => {
                let merge = self.merge(MergeState::Predicted, &predicted.commit, event);
                merge.predicted = predicted.result.map(|result| result.as_str().to_owned());
            }
            EventKind::MergeMerged(merged) => {
                let commit = merged.commit.as_deref().unwrap_or_default();
                let merge = self.merge(MergeState::Merged, commit, event);
                merge.merge.clone_from(&merged.merge);
                merge.worker.clone_from(&merged.worker);
            }
            EventKind::MergeLost(lost) => {
                let commit = lost.commit.as_deref().unwrap_or_default();
                self.merge(MergeState::Lost, commit, event).merge = None;
            }
            EventKind::MergeConflict(conflict) => self.conflict(event, conflict),
            EventKind::ApprovalShown(shown) => self.shown = Some(shown.clone()),
            EventKind::ApprovalRequested(opened) => self.gate(event, opened),
            EventKind::ApprovalAnswered(answer) => self.answer(event, answer, false),
            EventKind::ApprovalGiven(decided)
            | EventKind::ApprovalRefused(decided)
            | EventKind::ApprovalRevised(decided) => self.answer(event, decided, true),
            _ => {}
        }
        if let Some(approval) = &mut self.approval {
            let open = self.state.open_gate();
            approval.waits = open.is_some_and(|gate| gate.id == approval.gate);
        }
    }

    fn run(&mut self) -> &mut Run {
        self.run.get_or_insert_with(Run::default)
    }

    fn started(&mut self, event: &Event, spec: &RunSpec) {
        *self = Self {
            run: Some(Run {
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
                base: spec.base.as_ref().map(|base| Base {
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
                budget: Some(Budget {
                    tokens: spec.budget.tokens,
                    usd: spec.budget.usd,
                    minutes: spec.budget.minutes,
                }),
                uncommitted: spec.uncommitted as u64,
                started_at: Some(event.ts),
                ..Run::default()
            }),
            state: std::mem::take(&mut self.state),
            ..Self::default()
        };
    }

    fn stage(&mut self, event: &Event, entered: &StageEntered) {
        let stage = Stage {
            stage: entered.to.clone(),
            at: event.ts,
            seq: event.seq,
            reason: entered.reason.clone(),
            round: entered.round.into(),
        };
        let run = self.run();
        run.round = stage.round;
        run.stage = Some(stage.stage.clone());
        run.stages.push(stage);
    }

    fn finished(&mut self, event: &Event, finished: &RunFinished) {
        self.run().finished = Some(Finished {
            outcome: finished.outcome.clone(),
            exit_code: finished.exit_code,
            reason: finished.reason.clone(),
            commit: finished.commit.clone(),
            at: event.ts,
        });
    }

    fn check_started(&mut self, event: &Event, started: &CheckStarted) {
        self.verifications.push(Verification {
            seq: event.seq,
            on: started.on.clone(),
            commit: started.commit.clone(),
            command: started.command.clone(),
            round: started.round.into(),
            state: VerificationState::Running,
            exit_code: None,
            seconds: None,
            timed_out: false,
            last: String::new(),
            log: None,
            charged: true,
            started_at: Some(event.ts),
            ended_at: None,
        });
        shorten(&mut self.verifications);
    }

    fn check_ended(&mut self, event: &Event, state: VerificationState, result: &CheckResult) {
        let mut now = Verification {
            seq: event.seq,
            on: result.on.clone(),
            commit: result.commit.clone(),
            command: result.command.clone(),
            round: result.round.into(),
            state,
            exit_code: result.exit_code.map(Into::into),
            seconds: Some(result.seconds),
            timed_out: result.timed_out,
            last: result.last.clone(),
            log: Some(result.log.clone()),
            charged: result.charged,
            started_at: None,
            ended_at: Some(event.ts),
        };
        let is_it = |before: &&mut Verification| {
            before.state == VerificationState::Running
                && before.on == now.on
                && before.command == now.command
        };
        match self.verifications.iter_mut().rev().find(is_it) {
            Some(before) => {
                now.started_at = before.started_at;
                now.seq = before.seq;
                *before = now;
            }
            None => self.verifications.push(now),
        }
        shorten(&mut self.verifications);
    }

    /// Returns the merge of this commit, now in this state.
    fn merge(&mut self, state: MergeState, commit: &str, event: &Event) -> &mut Merge {
        let place = self.merges.iter().rposition(|merge| {
            merge.commit == commit && (event.task_id.is_none() || merge.task_id == event.task_id)
        });
        if place.is_none() {
            self.merges.push(Merge {
                seq: event.seq,
                task_id: event.task_id.clone(),
                worker: None,
                commit: commit.to_owned(),
                state,
                predicted: None,
                merge: None,
                files: Vec::new(),
                times: 0,
                is_final: false,
                fix_task: None,
                at: event.ts,
            });
            shorten(&mut self.merges);
        }
        let newest = self.merges.len() - 1;
        let merge = &mut self.merges[place.unwrap_or(newest)];
        merge.state = state;
        merge.at = event.ts;
        merge
    }

    fn conflict(&mut self, event: &Event, conflict: &MergeConflict) {
        let commit = conflict.commit.as_deref().unwrap_or_default();
        let merge = self.merge(MergeState::Conflict, commit, event);
        merge.files.clone_from(&conflict.files);
        merge.times = conflict.times;
        merge.is_final = conflict.is_final;
        merge.fix_task.clone_from(&conflict.fix_task);
    }

    fn gate(&mut self, event: &Event, opened: &GateOpened) {
        let shown = self.shown.take().filter(|shown| shown.gate == opened.gate);
        let base = opened.base.as_ref();
        self.approval = Some(Approval {
            seq: event.seq,
            gate: opened.gate.clone(),
            commit: opened.commit.clone(),
            base: base.map(|base| base.commit.clone()),
            branch: base.and_then(|base| base.branch.clone()),
            verified: opened.verified,
            words: opened.words.clone(),
            refused: opened.refused.clone(),
            shown: shown.map(|shown| shown.shown),
            asked_at: event.ts,
            waits: true,
            answer: None,
        });
    }

    /// What somebody says counts once the run has taken it: until then the gate is still open.
    fn answer(&mut self, event: &Event, decided: &GateDecided, taken: bool) {
        let is_its = |open: &&mut Approval| open.gate == decided.gate && (taken || open.waits);
        let Some(approval) = self.approval.as_mut().filter(is_its) else {
            return;
        };
        approval.answer = Some(Answer {
            answer: decided.answer.clone(),
            taken,
            by: match decided.by.as_deref() {
                None | Some("") => event.actor.clone(),
                Some(by) => by.to_owned(),
            },
            rollback: decided.rollback == Some(true),
            text: decided.text.clone().unwrap_or_default(),
            at: event.ts,
        });
    }
}

fn shorten<T>(list: &mut Vec<T>) {
    if list.len() > MOST {
        list.drain(..list.len() - MOST);
    }
}

fn shown_plan(plan: &PlanMade) -> Plan {
    let tasks = plan
        .tasks
        .iter()
        .map(|task: &payload::PlannedTask| PlanTask {
            label: task.label.clone(),
            id: task.id.clone(),
            subject: task.subject.clone(),
            blocked_by: task.blocked_by.clone(),
        });
    Plan {
        source: plan.source.clone(),
        path: plan.path.clone(),
        tasks: tasks.collect(),
    }
}
