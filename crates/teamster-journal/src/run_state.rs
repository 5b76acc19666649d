//! The state of a run, folded from its journal alone. Every reader of the same events derives the same state, before a
//! crash and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use teamster_types::flow::{DecisionChannel, FlowKind, Stage};
use teamster_types::phrase::Wording;
use teamster_types::{TaskId, Time};

use crate::actor::EventActor;
use crate::cost::Costs;
use crate::event::Event;
use crate::kind::{EventKind, EventType};
use crate::leader_state::LeaderState;
use crate::payload::{
    CheckResult, CheckVerdict, Checked, DismissedFinding, FindingAdded, GateAnswer, GateDecided,
    GateOpened, MergeConflict, QuestionKind, ReviewFinding, ReviewFinished, ReviewStarted, RunEnd,
    RunFinished, RunSpec, RunStarted, RunStopRequested, StopLevel,
};
use crate::permissions::PermissionHistory;
use crate::planning::{PlanProposal, Planning};
use crate::questions::{Question, Questions};
use crate::run_history::RunHistory;
use crate::task_failures::TaskFailures;

/// The actor of everything that a host does.
pub const HOST: &EventActor = &EventActor::Lead;
/// The `on` value of checks that run before the work begins.
pub const ON_BASE: &str = "base";

/// The reason recorded when a resumed run re-enters the stage in which it ended.
const RESUMED: &str = "the run was taken up again";

/// The prefix of the `on` value for checks of a single task's result.
const ON_TASK: &str = "task-";

/// Returns the `on` value for checks of a single task's result.
pub fn on_candidate(task: &TaskId) -> String {
    format!("{ON_TASK}{task}")
}

/// Returns the task whose result was checked, given the `on` value.
fn candidate_of(on: &str) -> Option<TaskId> {
    on.strip_prefix(ON_TASK)?.parse().ok()
}

/// A stage that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEntry {
    /// The stage.
    pub stage: Stage,
    /// When it was entered.
    pub at: Time,
    /// Why it was entered.
    pub reason: String,
}

/// A phase of the run's flow that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseEntry {
    /// The phase, as the flow calls it.
    pub phase: String,
    /// The round that it belongs to, counted from 1.
    pub round: u32,
    /// When it was entered.
    pub at: Time,
    /// Why it was entered.
    pub reason: String,
}

/// The gate, opened for one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The id of this opening of the gate. It is generated after all workers have stopped, so no agent can know it.
    pub id: String,
    /// The commit that would land.
    pub commit: String,
    /// Whether checks ran on it and all passed.
    pub verified: bool,
}

/// A decision about one opening of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateDecision {
    /// The opening of the gate that it answers.
    pub gate: String,
    /// The commit that it refers to.
    pub commit: String,
    /// The answer.
    pub answer: GateAnswer,
    /// The channel of the decision.
    pub via: DecisionChannel,
}

impl GateDecision {
    /// Converts the payload of an event, or returns `None` when this version does not know the answer.
    pub fn from_event(event: &GateDecided) -> Option<Self> {
        Some(Self {
            gate: event.gate.clone(),
            commit: event.commit.clone(),
            answer: event.answer()?,
            via: DecisionChannel::of(&event.via),
        })
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRun {
    /// The end.
    pub end: RunEnd,
    /// The exit code of the command.
    pub exit_code: u8,
    /// Why it ended.
    pub reason: String,
}

impl FinishedRun {
    /// Returns whether the run used up its fix rounds: without more rounds it would only end the same way again.
    pub fn needs_more_rounds(&self) -> bool {
        self.end == RunEnd::FixRoundsUsedUp
    }

    /// Returns whether the run can be resumed.
    pub fn is_resumable(&self) -> bool {
        self.end.is_resumable()
    }
}

/// The outcome of the review of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// It is in progress, or was abandoned by a killed host.
    UnderWay,
    /// The reviewer finished it.
    Finished(ReviewFinished),
    /// The reviewer produced no review, for this reason.
    Failed(Wording),
    /// No reviewer was asked, for this reason.
    Skipped(Wording),
}

/// The review of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewState {
    /// The commit.
    pub commit: String,
    /// The reviewer; empty when there is none.
    pub reviewer: String,
    /// The previously reviewed commit: only later changes are reviewed.
    pub since: Option<String>,
    /// The time of the last event about it.
    pub at: Time,
    /// Its outcome.
    pub outcome: ReviewOutcome,
    /// The findings that the leader decided not to have fixed, by number, counted from 1, with the reasons.
    pub dismissed: BTreeMap<usize, String>,
}

impl ReviewState {
    /// Returns the findings that have to be fixed and were not dismissed, with their numbers, counted from 1.
    pub fn to_fix(&self) -> Vec<(usize, &ReviewFinding)> {
        let findings = self.finished().map(|finished| finished.findings.as_slice());
        let findings = (1..).zip(findings.unwrap_or_default());
        findings
            .filter(|(place, finding)| {
                finding.severity.needs_fix() && !self.dismissed.contains_key(place)
            })
            .collect()
    }

    /// Returns the finished review, if there is one.
    pub fn finished(&self) -> Option<&ReviewFinished> {
        match &self.outcome {
            ReviewOutcome::Finished(finished) => Some(finished),
            _ => None,
        }
    }
}

/// The state of a run.
#[derive(Clone, Debug, Default)]
pub struct RunState {
    /// The specification of the run.
    pub spec: Option<RunSpec>,
    /// When it began.
    pub begun: Option<Time>,
    /// When the current host started.
    pub hosted_since: Option<Time>,
    /// How long the previous hosts worked.
    hosted_before: Duration,
    /// The time of the team's last activity, up to which the current host is known to have worked.
    last_activity: Option<Time>,
    /// The current stage; `None` before the run has begun.
    pub stage: Option<Stage>,
    /// The stage before the run ended.
    before_end: Option<Stage>,
    /// Every stage that was entered.
    pub stages: Vec<StageEntry>,
    /// Every phase of its flow that was entered; empty when the flow has only stages.
    pub phases: Vec<PhaseEntry>,
    /// Replaced objects, grafts and shallow boundaries that the repository had when the run began.
    pub replacements: Vec<String>,
    /// The source of the plan, such as `file`, `leader` or `sentence`.
    pub plan: Option<String>,
    /// The head of the integration branch, as the host left it.
    pub head: Option<String>,
    /// Every earlier head of the integration branch.
    pub past_heads: BTreeSet<String>,
    /// The head of the user's branch when it was last merged into the work.
    pub tip: Option<String>,
    /// The number of fix rounds that were begun.
    pub round: u32,
    /// The number of revisions that were requested.
    pub revisions: u32,
    /// The results of the checks before the work began.
    pub base: Vec<Checked>,
    /// The results of the checks on the commit in `checked`.
    pub checks: Vec<Checked>,
    /// The commit that was last checked.
    pub checked: Option<String>,
    /// The reviews of the merged work, in order; each commit appears at most once.
    pub reviews: Vec<ReviewState>,
    /// The results of the checks on each candidate result.
    pub candidates: BTreeMap<TaskId, Vec<Checked>>,
    /// The gate, while it is open.
    pub gate: Option<Gate>,
    /// Answers since the gate opened, each with the position of its event. The host has not validated all of them yet.
    pub answers: Vec<(u64, GateDecision)>,
    /// The decision at the gate.
    pub decision: Option<GateDecision>,
    /// A person's request to the current host, from outside its terminal, to stop.
    pub stop_request: Option<RunStopRequested>,
    /// How it ended.
    pub finished: Option<FinishedRun>,
    /// The costs so far.
    pub spent: Costs,
    /// Why the judge chose none of the candidate results, if it was asked.
    pub judge_failed: Option<Wording>,
    /// The launch id of a check, planner, reviewer or judge that has begun and not ended.
    pub under_way: Option<String>,
    /// Every merge conflict, with the task whose work was not merged.
    pub conflicts: Vec<(TaskId, MergeConflict)>,
    /// How often the work of a task was recorded as merged but was missing from the branch.
    pub lost: BTreeMap<TaskId, u32>,
    /// The user's refs when the run began, by their full names.
    pub refs: Option<BTreeMap<String, String>>,
    /// The files of the project when the run began, as a git tree; only if all workers work in them.
    pub files: Option<String>,
    /// Tasks that were added or restarted by others than the host since the run began, in this order.
    pub added: Vec<TaskId>,
    /// Findings of workers and the leader that must be fixed before the work lands, with the actor that reported each.
    pub found: Vec<(EventActor, FindingAdded)>,
    /// How its plan came about.
    pub planning: Planning,
    /// The time since which the plan has been waiting for a person.
    waiting_since: Option<Time>,
    /// The questions of agents.
    pub questions: Questions,
    /// The permission requests of agents: those that wait for a person, and those that were denied.
    pub permissions: PermissionHistory,
    /// The state of the agent that leads the run.
    pub leader: LeaderState,
    /// The tasks that failed, and those that the leader gave up.
    pub failures: TaskFailures,
    /// The history of the run, for viewers.
    pub history: RunHistory,
}

impl RunState {
    /// The kinds whose last event alone shows whether a run has finished.
    pub const TURNING_POINTS: [EventType; 3] = [
        EventType::RunStarted,
        EventType::RunResumed,
        EventType::RunFinished,
    ];

    /// Returns whether the run has ended and cannot be resumed.
    pub fn is_over_for_good(&self) -> bool {
        let finished = self.finished.as_ref();
        finished.is_some_and(|finished| !finished.is_resumable())
    }

    /// Applies one event. Events that are unrelated to the run are ignored.
    pub fn apply(&mut self, event: &Event) {
        self.apply_kind(event, &event.payload());
    }

    /// Applies one event whose payload is already parsed.
    pub fn apply_kind(&mut self, event: &Event, what: &EventKind) {
        if let EventKind::RunStarted(_) = what {
            self.forget_last_run();
        }
        let counts = self.counts(what);
        self.history.apply(event, what, counts);
        self.questions.apply(event, what);
        self.permissions.apply(event, what);
        self.planning.apply(event, what);
        match what {
            EventKind::RunStarted(started) | EventKind::RunResumed(started) => {
                self.note_host(event.ts, started);
            }
            EventKind::RunOrdered(started) => self.order(&started.spec),
            EventKind::RunStage(entered) => {
                if let Some(stage) = entered.stage() {
                    self.enter(stage, event.ts, &entered.reason);
                }
            }
            EventKind::FlowPhase(entered) => self.phases.push(PhaseEntry {
                phase: entered.to.clone(),
                round: entered.round,
                at: event.ts,
                reason: entered.reason.clone(),
            }),
            EventKind::RunAsked(asked) => self.under_way = Some(asked.launch.clone()),
            EventKind::PlanProposed(_)
            | EventKind::PlanFailed(_)
            | EventKind::CandidateChosen(_) => self.under_way = None,
            EventKind::RunPlan(plan) => {
                self.under_way = None;
                self.leader.knows_until = event.seq;
                self.plan = Some(plan.source.clone());
            }
            EventKind::RunStopRequested(request) => self.ask_to_stop(request),
            EventKind::RunFinished(finished) => {
                self.under_way = None;
                self.stop_request = None;
                self.finish(event.ts, finished);
            }
            EventKind::RunRefs(recorded) => self.refs = Some(recorded.refs.clone()),
            EventKind::RunFiles(recorded) => self.files = Some(recorded.tree.clone()),
            EventKind::VerifyStarted(started) => self.under_way = Some(started.launch.clone()),
            EventKind::VerifyPassed(result) => self.check(result, CheckVerdict::Passed),
            EventKind::VerifyFlaky(result) => self.check(result, CheckVerdict::Flaky),
            EventKind::VerifyFailed(result) => self.check(result, CheckVerdict::Failed),
            EventKind::ReviewStarted(started) => self.begin_review(event.ts, started),
            EventKind::ReviewFinished(finished) => {
                let outcome = ReviewOutcome::Finished(finished.clone());
                self.set_review(event.ts, &finished.commit, &finished.reviewer, outcome);
            }
            EventKind::ReviewFailed(failed) => {
                let outcome = ReviewOutcome::Failed(failed.wording());
                self.set_review(event.ts, &failed.commit, &failed.reviewer, outcome);
            }
            EventKind::ReviewSkipped(skipped) => {
                let outcome = ReviewOutcome::Skipped(skipped.wording());
                self.set_review(event.ts, &skipped.commit, "", outcome);
            }
            EventKind::ApprovalRequested(opened) => self.ask_at_gate(opened),
            EventKind::ApprovalAnswered(answer) => {
                let answer = GateDecision::from_event(answer);
                self.answers
                    .extend(answer.map(|answer| (event.seq, answer)));
            }
            EventKind::ApprovalGiven(decided)
            | EventKind::ApprovalRefused(decided)
            | EventKind::ApprovalRevised(decided)
                if counts =>
            {
                self.decision = GateDecision::from_event(decided);
            }
            EventKind::MergeMerged(merged) => self.set_head(merged.merge.as_ref()),
            EventKind::MergeAdopted(adopted) => self.set_head(adopted.merge.as_ref()),
            EventKind::MergeCaughtUp(caught_up) => {
                self.set_head(caught_up.merge.as_ref());
                self.tip = Some(caught_up.commit.clone());
            }
            EventKind::MergeLost(_) => {
                if let Some(id) = &event.task_id {
                    *self.lost.entry(id.clone()).or_default() += 1;
                }
            }
            EventKind::MergeConflict(conflict) => {
                if let Some(id) = &event.task_id {
                    self.conflicts.push((id.clone(), conflict.clone()));
                }
            }
            EventKind::TaskCreated(_) | EventKind::TaskRetried(_)
                if self.begun.is_some() && event.actor != EventActor::Lead =>
            {
                self.added.extend(event.task_id.clone());
            }
            _ => self.apply_judgement(event, what),
        }
        self.leader.apply(event, what, self.begun.is_some());
        self.failures.apply(event, what);
        self.spent.apply(event, what);
        self.track_waiting(event.ts);
        self.note_activity(event);
    }

    /// Opens the gate. Answers and a decision about an earlier opening no longer count.
    fn ask_at_gate(&mut self, opened: &GateOpened) {
        self.gate = Some(Gate {
            id: opened.gate.clone(),
            commit: opened.commit.clone(),
            verified: opened.verified,
        });
        self.answers.clear();
        self.decision = None;
    }

    /// Applies what a judge, a leader or a worker has found out about the work.
    fn apply_judgement(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::JudgeAsked(asked) => self.under_way = Some(asked.launch.clone()),
            EventKind::JudgeFailed(failed) => {
                self.under_way = None;
                let codes = failed.reason_codes.clone();
                self.judge_failed = Some(Wording::new(failed.reason.as_str(), codes));
            }
            EventKind::LeaderActed(acted) => self.dismiss(&acted.dismissed),
            EventKind::FindingAdded(finding) if finding.severity.needs_fix() => {
                self.found.push((event.actor.clone(), finding.clone()));
            }
            _ => {}
        }
    }

    /// Records when the team was last active. What a person or another program does to a run without a host does not
    /// count as working time.
    fn note_activity(&mut self, event: &Event) {
        let is_outside = matches!(event.actor, EventActor::Person | EventActor::Foreign);
        if self.finished.is_none() && !is_outside {
            self.last_activity = Some(event.ts);
        }
    }

    /// Discards a finished run when the same team begins another one. Merged work that neither landed nor was rolled
    /// back is still on its branch, and workers that the run did not start may still wait for permission.
    fn forget_last_run(&mut self) {
        if let Some(finished) = &self.finished {
            let head = self.head.take().filter(|_| finished.end.keeps_branch());
            *self = Self {
                head,
                permissions: std::mem::take(&mut self.permissions).without_denials(),
                ..Self::default()
            };
        }
    }

    /// Returns the plan that a person has to decide about now.
    pub fn open_plan(&self) -> Option<&PlanProposal> {
        self.planning.open().filter(|_| self.finished.is_none())
    }

    /// Returns the leader's unanswered questions before planning, the oldest first.
    pub fn plan_questions(&self) -> impl Iterator<Item = &Question> {
        let questions = self.questions.open();
        questions.filter(|question| question.kind == QuestionKind::Plan)
    }

    /// Excludes the time in which the plan waits for a person from the working time.
    fn track_waiting(&mut self, at: Time) {
        let is_planning = matches!(self.stage, Some(Stage::Plan | Stage::Requirements));
        if !is_planning && self.waiting_since.is_none() {
            return;
        }
        let waits =
            is_planning && (self.open_plan().is_some() || self.plan_questions().next().is_some());
        match (waits, self.waiting_since) {
            (true, None) => self.waiting_since = Some(at),
            (false, Some(since)) => {
                self.waiting_since = None;
                if let Some(hosted) = self.hosted_since {
                    self.hosted_since = Some(hosted.after(at.since(since.max(hosted))));
                }
            }
            _ => {}
        }
    }

    /// Records which findings the leader dismisses.
    fn dismiss(&mut self, dismissed: &[DismissedFinding]) {
        for finding in dismissed {
            let mut reviews = self.reviews.iter_mut();
            if let Some(review) = reviews.find(|review| review.commit == finding.commit) {
                let reason = finding.reason.clone();
                review.dismissed.insert(finding.finding, reason);
            }
        }
    }

    fn begin_review(&mut self, at: Time, started: &ReviewStarted) {
        let commit = &started.commit;
        self.set_review(at, commit, &started.reviewer, ReviewOutcome::UnderWay);
        if let Some(review) = self.reviews.last_mut() {
            review.since.clone_from(&started.since);
        }
        self.under_way = Some(started.launch.clone());
    }

    fn set_review(&mut self, at: Time, commit: &str, reviewer: &str, outcome: ReviewOutcome) {
        self.under_way = None;
        let begun = self.reviews.iter().position(|it| it.commit == commit);
        let since = begun.and_then(|place| self.reviews.remove(place).since);
        self.reviews.push(ReviewState {
            commit: commit.to_owned(),
            reviewer: reviewer.to_owned(),
            since,
            at,
            outcome,
            dismissed: BTreeMap::new(),
        });
    }

    /// Returns the review of a commit, however it ended.
    pub fn review_of(&self, commit: &str) -> Option<&ReviewState> {
        self.reviews.iter().find(|review| review.commit == commit)
    }

    /// Returns the last finished review.
    pub fn last_review(&self) -> Option<&ReviewFinished> {
        self.reviews.iter().rev().find_map(ReviewState::finished)
    }

    fn set_head(&mut self, merge: Option<&String>) {
        if let Some(merge) = merge {
            self.past_heads.extend(self.head.replace(merge.clone()));
        }
    }

    /// Returns the current stage or phase, as the run's flow calls it; `None` before the run has begun.
    pub fn phase(&self) -> Option<&str> {
        let stage = self.stage?;
        let flow = self.spec.as_ref().map(RunSpec::flow_kind);
        let entered = self.phases.last().map(|entered| entered.phase.as_str());
        match (flow.unwrap_or_default(), entered) {
            (FlowKind::Party | FlowKind::Pdca, Some(phase)) => Some(phase),
            // A journal of an earlier version contains only stages.
            (FlowKind::Party, None) => stage.party().last().copied(),
            (FlowKind::Pdca, None) => Some(stage.pdca()),
            (FlowKind::Staged, _) => Some(stage.staged()),
        }
    }

    /// Returns how long the run has been worked on, given how long its current host has hosted it. The time between two
    /// hosts is not counted. The host measures its own time, because the wall clock may be changed while it runs.
    pub fn worked(&self, hosted: Duration) -> Duration {
        self.hosted_before + hosted
    }

    /// Returns the stage that the run is in, or was in when it ended.
    pub fn last_stage(&self) -> Option<Stage> {
        let mut stages = self.stages.iter().map(|entry| entry.stage);
        stages.rfind(|stage| !matches!(stage, Stage::End(_)))
    }

    /// Returns whether the gate is open and undecided.
    pub fn is_at_gate(&self) -> bool {
        self.stage == Some(Stage::Approval) && self.open_gate().is_some()
    }

    /// Returns the gate while it waits for a decision. This is the only rule for that: a decision closes it, and so
    /// does leaving the stage or ending the run.
    pub fn open_gate(&self) -> Option<&Gate> {
        let is_closed = self.decision.is_some() || self.finished.is_some();
        self.gate.as_ref().filter(|_| !is_closed)
    }

    /// Notes the specification of a run whose host has not begun yet. Until it has, the history is that of the run before.
    fn order(&mut self, spec: &RunSpec) {
        if self.finished.is_none() {
            self.set_spec(spec);
        } else if spec.can_be_run() {
            self.spec = Some(spec.clone());
        }
    }

    fn set_spec(&mut self, spec: &RunSpec) {
        if spec.can_be_run() {
            self.spec = Some(spec.clone());
        }
        if spec.can_be_run() || self.history.spec.is_none() {
            self.history.spec = Some(spec.clone());
        }
    }

    /// Records a person's request to stop. A weaker request does not revoke a stronger one.
    fn ask_to_stop(&mut self, request: &RunStopRequested) {
        if self.finished.is_some() {
            return;
        }
        let known = self.stop_request.take().unwrap_or_default();
        self.stop_request = Some(RunStopRequested {
            level: request.level.max(known.level),
            cancel: request.cancel || known.cancel,
            deadline_ms: request.deadline_ms.or(known.deadline_ms),
        });
    }

    /// Returns how urgently a person requested, from outside the run's terminal, that it stop.
    pub fn stop_level(&self) -> StopLevel {
        let request = self.stop_request.as_ref();
        request.map_or(StopLevel::GoOn, |request| request.level)
    }

    /// Returns whether a person cancelled the run from outside its terminal, so that it ends in any stage.
    pub fn is_cancelled_elsewhere(&self) -> bool {
        let request = self.stop_request.as_ref();
        request.is_some_and(|request| request.cancel)
    }

    fn note_host(&mut self, at: Time, started: &RunStarted) {
        self.set_spec(&started.spec);
        self.stop_request = None;
        let base = started.spec.base.as_ref().map(|base| base.commit.clone());
        self.head = self.head.take().or_else(|| base.clone());
        self.tip = self.tip.take().or(base);
        self.begun.get_or_insert(at);
        if let Some(replacements) = &started.replacements {
            self.replacements.clone_from(replacements);
        }
        if let (Some(since), Some(last)) = (self.hosted_since, self.last_activity) {
            self.hosted_before += last.since(since);
        }
        self.hosted_since = Some(at);
        if self
            .finished
            .take_if(|finished| finished.is_resumable())
            .is_some()
        {
            self.stage = self.before_end.take();
            self.stages.extend(self.stage.map(|stage| StageEntry {
                stage,
                at,
                reason: RESUMED.to_owned(),
            }));
        }
    }

    fn enter(&mut self, stage: Stage, at: Time, reason: &str) {
        // The time in which a person decides at the gate does not count as the team's.
        if self.stage == Some(Stage::Approval)
            && let (Some(since), Some(asked)) = (self.hosted_since, self.stages.last())
        {
            self.hosted_since = Some(since.after(at.since(asked.at.max(since))));
        }
        match stage {
            Stage::Fix => self.round += 1,
            Stage::Revise => {
                self.revisions += 1;
                // A requested revision is new work, with its own fix rounds.
                self.round = 0;
            }
            _ => {}
        }
        if matches!(stage, Stage::Fix | Stage::Revise) {
            // The next checks are about different work, even if the commit is the same.
            self.checked = None;
        }
        // An answer from before the gate opens does not count.
        self.gate = None;
        self.decision = None;
        self.answers.clear();
        self.stage = Some(stage);
        self.stages.push(StageEntry {
            stage,
            at,
            reason: reason.to_owned(),
        });
    }

    fn check(&mut self, result: &CheckResult, of_kind: CheckVerdict) {
        self.under_way = None;
        let checked = result.checked(result.verdict_or(of_kind));
        if result.on == ON_BASE {
            self.base.retain(|known| known.command != checked.command);
            self.base.push(checked);
            return;
        }
        if let Some(task) = candidate_of(&result.on) {
            let known = self.candidates.entry(task).or_default();
            known.retain(|known| known.command != checked.command);
            known.push(checked);
            return;
        }
        if self.checked.as_ref() != Some(&result.commit) {
            self.checks.clear();
            self.checked = Some(result.commit.clone());
        }
        self.checks.retain(|known| known.command != checked.command);
        self.checks.push(checked);
    }

    /// Returns whether an answer or a decision at the gate counts. An answer counts while the gate waits for one. A
    /// decision counts only for the gate and the commit that it names, and only once.
    fn counts(&self, what: &EventKind) -> bool {
        match what {
            EventKind::ApprovalAnswered(_) => self.open_gate().is_some(),
            EventKind::ApprovalGiven(decided)
            | EventKind::ApprovalRefused(decided)
            | EventKind::ApprovalRevised(decided) => {
                let fits = |gate: &Gate| gate.id == decided.gate && gate.commit == decided.commit;
                self.decision.is_none() && self.gate.as_ref().is_some_and(fits)
            }
            _ => false,
        }
    }

    fn finish(&mut self, at: Time, finished: &RunFinished) {
        let Some(end) = finished.end() else {
            return;
        };
        let code = finished.exit_code.and_then(|code| u8::try_from(code).ok());
        self.finished = Some(FinishedRun {
            end,
            exit_code: code.unwrap_or(1),
            reason: finished.reason.clone(),
        });
        if !matches!(self.stage, Some(Stage::End(_))) {
            self.before_end = self.stage;
        }
        self.stage = Some(end.stage());
        self.stages.push(StageEntry {
            stage: end.stage(),
            at,
            reason: finished.reason.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::NewEvent;

    /// Folds events, each given as kind and data.
    fn fold(events: &[(&str, Value)]) -> RunState {
        let mut state = RunState::default();
        for (seq, (kind, data)) in (1..).zip(events) {
            let what = EventKind::parse(kind, data.as_object().unwrap());
            let at = Time::from_millis(1_000 * i64::try_from(seq).unwrap());
            state.apply(&NewEvent::new(EventActor::Lead, what).placed(
                seq,
                String::new(),
                at,
                "t".into(),
            ));
        }
        state
    }

    fn at_gate() -> Vec<(&'static str, Value)> {
        let member = json!({ "name": "worker-1", "provider": "claude" });
        vec![
            ("run.started", json!({ "members": [member] })),
            ("run.stage", json!({ "to": "approval" })),
            ("approval.requested", json!({ "gate": "g", "commit": "c" })),
        ]
    }

    #[test]
    fn gate_is_closed_by_a_decision_a_stage_and_the_end() {
        assert!(fold(&at_gate()).is_at_gate());
        let decided = json!({ "gate": "g", "commit": "c", "answer": "approve" });
        for (kind, data) in [
            ("approval.given", decided),
            ("run.stage", json!({ "to": "execute" })),
            (
                "run.finished",
                json!({ "to": "cancelled", "outcome": "cancelled" }),
            ),
        ] {
            let mut events = at_gate();
            events.push((kind, data));
            let state = fold(&events);
            assert!(state.open_gate().is_none() && !state.is_at_gate(), "{kind}");
        }
    }

    #[test]
    fn request_of_a_worker_that_the_run_did_not_start_outlives_the_run() {
        let asked = json!({ "what": "asked", "request": "r1", "text": "Bash rm -r build" });
        let finished = json!({ "to": "complete", "outcome": "complete" });
        let mut events = at_gate();
        events.extend([("agent.event", asked), ("run.finished", finished)]);
        assert!(fold(&events).permissions.is_waiting("lead"));
        events.push(at_gate().remove(0));
        let state = fold(&events);
        assert!(state.permissions.is_waiting("lead") && state.finished.is_none());
    }

    #[test]
    fn resume_without_a_specification_keeps_the_one_that_is_known() {
        let mut events = at_gate();
        events.push(("run.resumed", json!({})));
        let state = fold(&events);
        for spec in [&state.spec, &state.history.spec] {
            assert_eq!(spec.as_ref().unwrap().members.len(), 1);
        }
    }

    #[test]
    fn run_that_was_only_ordered_leaves_the_history_of_the_one_before() {
        let finished = json!({ "to": "complete", "outcome": "complete" });
        let members = json!([{ "name": "ann", "provider": "claude" }, { "name": "ben", "provider": "claude" }]);
        let ordered = json!({ "members": members });
        let mut events = at_gate();
        events.extend([("run.finished", finished), ("run.ordered", ordered.clone())]);
        let members = |spec: &Option<RunSpec>| spec.as_ref().map(|spec| spec.members.len());
        let state = fold(&events);
        assert_eq!(
            (members(&state.spec), members(&state.history.spec)),
            (Some(2), Some(1))
        );
        events.push(("run.started", ordered));
        assert_eq!(members(&fold(&events).history.spec), Some(2));
    }

    #[test]
    fn finding_that_the_leader_leaves_is_not_to_be_fixed() {
        let finding = |severity: &str| json!({ "severity": severity, "claim": severity });
        let found = [finding("blocker"), finding("major"), finding("nit")];
        let mut events = vec![(
            "review.finished",
            json!({ "commit": "c", "findings": found }),
        )];
        let places = |events: &[(&str, Value)]| -> Vec<usize> {
            let state = fold(events);
            let review = state.review_of("c").unwrap();
            review.to_fix().iter().map(|(place, _)| *place).collect()
        };
        assert_eq!(places(&events), [1, 2]);
        let left = json!([{ "commit": "c", "finding": 1, "reason": "no" }, { "commit": "d", "finding": 2, "reason": "no" }]);
        events.push(("leader.acted", json!({ "dismissed": left })));
        assert_eq!(places(&events), [2]);
    }

    #[test]
    fn gate_of_a_cancelled_run_is_open_again_after_resume() {
        let mut events = at_gate();
        events.push(("run.finished", json!({ "to": "cancelled" })));
        events.push(("run.resumed", events[0].1.clone()));
        assert!(fold(&events).is_at_gate());
    }

    #[test]
    fn decision_about_another_commit_or_an_earlier_gate_does_not_count() {
        for (gate, commit) in [("g", "other"), ("earlier", "c")] {
            let mut events = at_gate();
            let data = json!({ "gate": gate, "commit": commit, "answer": "approve" });
            events.push(("approval.given", data));
            assert!(fold(&events).is_at_gate(), "{gate} {commit}");
        }
    }
}
