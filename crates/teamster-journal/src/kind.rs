//! Every kind of event, declared once: its name in the journal, its payload, and what it means.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use teamster_types::json::Object;

use crate::payload::{
    AgentEventRecorded, BudgetExhausted, BudgetReserved, CandidateChosen, CaughtUp, CheckResult,
    CheckStarted, CursorMoved, EmptyPayload, FilesRecorded, FindingAdded, GateDecided, GateOpened,
    GateShown, HookReceived, JudgeAsked, JudgeFailed, LeaderActed, LeaderAsked, LeaderFailed,
    LeaderWoken, MalformedMessage, MemberJoined, MemberLeft, MergeAdopted, MergeConflict,
    MergeLost, MergePredicted, Merged, MessageSent, PhaseEntered, PlanAnswered, PlanFailed,
    PlanMade, PlanProposed, QuestionAnswered, QuestionAsked, QuestionExpired, QuestionForwarded,
    RefsRecorded, ReviewFailed, ReviewFinished, ReviewSkipped, ReviewStarted, RunFinished,
    RunStarted, RunStopRequested, SignalSent, StageEntered, TaskChange, TeamCreated, UsageReported,
    WorkerLaunchFailed, WorkerPaused, WorkerProgress, WorkerQuarantined, WorkerRestarted,
    WorkerResumed, WorkerSecretsKept, WorkerSpawned, WorkerStarted, WorkerStopped, WorkerVerdict,
    ZombieSeen,
};

/// An event that this version cannot parse, as it stands in the journal. Only parsing creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct UnparsedEvent {
    name: String,
    data: Object,
}

impl UnparsedEvent {
    fn new(name: &str, data: &Object) -> Self {
        Self {
            name: name.to_owned(),
            data: data.clone(),
        }
    }

    /// Returns the name of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its payload.
    pub fn data(&self) -> &Object {
        &self.data
    }
}

/// Declares the kinds: the variants of [`EventType`] and [`EventKind`], their names, and how a payload is read and written.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident($payload:ty) = $name:literal,)+) => {
        /// The kind of an event, without its payload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType {
            $($(#[doc = $doc])+ $variant,)+
        }

        /// The kind of an event, with its payload.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EventKind {
            $($(#[doc = $doc])+ $variant($payload),)+
            /// A kind that this version does not know, or a payload that it cannot read, as it stands in the journal.
            Unknown(UnparsedEvent),
        }

        impl EventType {
            /// Every kind, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name that stands in the journal.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the kind with this name, or `None` when this version does not know it.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Returns its meaning in one or two sentences.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)+),)+
                }
            }

            /// Returns the JSON schema of its payload.
            pub fn schema(self, generator: &mut SchemaGenerator) -> schemars::Schema {
                match self {
                    $(Self::$variant => <$payload>::json_schema(generator),)+
                }
            }
        }

        impl EventKind {
            /// Parses the payload of an event with this name. A payload that cannot be parsed is kept as it is.
            pub fn parse(name: &str, data: &Object) -> Self {
                match name {
                    $($name => read::<$payload>(data)
                        .map_or_else(|| Self::Unknown(UnparsedEvent::new(name, data)), Self::$variant),)+
                    _ => Self::Unknown(UnparsedEvent::new(name, data)),
                }
            }

            /// Returns the name and the payload to write.
            pub(crate) fn write(self) -> (Cow<'static, str>, Object) {
                match self {
                    $(Self::$variant(payload) => ($name.into(), write(&payload)),)+
                    Self::Unknown(unread) => (unread.name.into(), unread.data),
                }
            }
        }
    };
}

kinds! {
    /// A team was made.
    TeamCreated(TeamCreated) = "team.created",
    /// A team was removed.
    TeamDeleted(EmptyPayload) = "team.deleted",
    /// A removed team was put back.
    TeamRestored(EmptyPayload) = "team.restored",
    /// A worker became a member of the team, or its registration changed.
    MemberJoined(MemberJoined) = "member.joined",
    /// A worker is no longer a member.
    MemberLeft(MemberLeft) = "member.left",
    /// A worker was asked to stop now.
    SignalShutdown(SignalSent) = "signal.shutdown",
    /// A worker was asked to finish its task and then stop.
    SignalDrain(SignalSent) = "signal.drain",
    /// A task was created.
    TaskCreated(TaskChange) = "task.created",
    /// Fields of a task changed.
    TaskUpdated(TaskChange) = "task.updated",
    /// A worker claimed a task: the event's actor.
    TaskClaimed(TaskChange) = "task.claimed",
    /// A task is completed.
    TaskCompleted(TaskChange) = "task.completed",
    /// An attempt at a task failed, or the task was given up.
    TaskFailed(TaskChange) = "task.failed",
    /// A task was given back by its worker, or taken back by a person.
    TaskReleased(TaskChange) = "task.released",
    /// A task that had failed permanently may be tried again.
    TaskRetried(TaskChange) = "task.retried",
    /// A task was taken from a dead worker and can be claimed again.
    TaskRequeued(TaskChange) = "task.requeued",
    /// A task was removed.
    TaskDeleted(TaskChange) = "task.deleted",
    /// A task is completed and has changed no file, so there is nothing to merge.
    TaskUnchanged(TaskChange) = "task.unchanged",
    /// The worker of a task needs an answer to continue. The task cannot be claimed until it is answered.
    TaskBlocked(TaskChange) = "task.blocked",
    /// The worker of a blocked task got its answer, and the task can be claimed again.
    TaskUnblocked(TaskChange) = "task.unblocked",
    /// A message was sent.
    MessageSent(MessageSent) = "message.sent",
    /// Messages were delivered to a reader.
    MessageDelivered(CursorMoved) = "message.delivered",
    /// A reader acknowledged messages.
    MessageAcked(CursorMoved) = "message.acked",
    /// A line of a mailbox cannot be parsed, and is skipped.
    MessageMalformed(MalformedMessage) = "message.malformed",
    /// The process of a worker has started and looks for tasks.
    WorkerSpawned(WorkerSpawned) = "worker.spawned",
    /// The agent of a worker has started.
    WorkerStarted(WorkerStarted) = "worker.started",
    /// The agent of a worker could not be started.
    WorkerLaunchFailed(WorkerLaunchFailed) = "worker.launch_failed",
    /// A worker left files that must not be committed, and they were moved to the private folder of the team.
    WorkerSecretsKept(WorkerSecretsKept) = "worker.secrets_kept",
    /// A worker waits because its client cannot work now, for example because of a rate limit.
    WorkerPaused(WorkerPaused) = "worker.paused",
    /// A worker goes on after a pause or a quarantine.
    WorkerResumed(WorkerResumed) = "worker.resumed",
    /// A worker takes no more tasks, because too many attempts failed in a row.
    WorkerQuarantined(WorkerQuarantined) = "worker.quarantined",
    /// A worker has ended.
    WorkerStopped(WorkerStopped) = "worker.stopped",
    /// A worker is proven dead.
    WorkerDead(WorkerVerdict) = "worker.dead",
    /// A worker is alive but makes no progress.
    WorkerHung(WorkerVerdict) = "worker.hung",
    /// The agent of a worker has produced no output for a long time.
    WorkerSilent(WorkerVerdict) = "worker.silent",
    /// A worker cannot write its heartbeat.
    WorkerBeatLost(WorkerVerdict) = "worker.beat_lost",
    /// The supervisor started a dead worker again.
    WorkerRestarted(WorkerRestarted) = "worker.restarted",
    /// The agent of a worker reports its progress.
    WorkerProgress(WorkerProgress) = "worker.progress",
    /// An agent needs the leader or a person: an answer, or a decision about a proposal.
    QuestionAsked(QuestionAsked) = "question.asked",
    /// A question was forwarded to another addressee.
    QuestionForwarded(QuestionForwarded) = "question.forwarded",
    /// A question was answered. Only the first answer counts.
    QuestionAnswered(QuestionAnswered) = "question.answered",
    /// A question expired: no agent waits for the answer any more.
    QuestionExpired(QuestionExpired) = "question.expired",
    /// A problem was found in the work.
    FindingAdded(FindingAdded) = "finding.added",
    /// The agent of a worker did something that a person may want to see, or asked for permission.
    AgentEvent(AgentEventRecorded) = "agent.event",
    /// A client reported its usage. Values that it did not report are `null`, never 0.
    Usage(UsageReported) = "usage",
    /// A hook of Claude Code was called.
    HookReceived(HookReceived) = "hook.received",
    /// Something was found that outlived its team.
    ZombieFound(ZombieSeen) = "zombie.found",
    /// Something that outlived its team was removed.
    ZombieReaped(ZombieSeen) = "zombie.reaped",
    /// A run began.
    RunStarted(RunStarted) = "run.started",
    /// Another host took the run over, or the same one went on.
    RunResumed(RunStarted) = "run.resumed",
    /// The specification of the run changed.
    RunOrdered(RunStarted) = "run.ordered",
    /// The user's branches and tags as they were when the run began.
    RunRefs(RefsRecorded) = "run.refs",
    /// The files of the project as they were when a run began whose workers work in them.
    RunFiles(FilesRecorded) = "run.files",
    /// The run entered a stage.
    RunStage(StageEntered) = "run.stage",
    /// The run entered a phase of the flow that it follows. A run that follows the flow `staged` has stages only.
    FlowPhase(PhaseEntered) = "flow.phase",
    /// A leader was asked for a plan.
    RunAsked(LeaderAsked) = "run.asked",
    /// A plan was proposed. No tasks are created from it yet.
    PlanProposed(PlanProposed) = "plan.proposed",
    /// A person decided about a proposed plan. Only the first answer to the current revision counts.
    PlanAnswered(PlanAnswered) = "plan.answered",
    /// A leader was asked for a plan and produced no usable one.
    PlanFailed(PlanFailed) = "plan.failed",
    /// The plan is final and its tasks were created.
    RunPlan(PlanMade) = "run.plan",
    /// The leader was woken, because something needs its decision.
    LeaderWoken(LeaderWoken) = "leader.woken",
    /// The leader decided. All resulting changes were committed together with this event.
    LeaderActed(LeaderActed) = "leader.acted",
    /// The leader was woken and came to no decision.
    LeaderFailed(LeaderFailed) = "leader.failed",
    /// A person requested that the run stop, from outside its terminal. The host complies; a resumed run needs a new
    /// request.
    RunStopRequested(RunStopRequested) = "run.stop_requested",
    /// The run ended.
    RunFinished(RunFinished) = "run.finished",
    /// A check began.
    VerifyStarted(CheckStarted) = "verify.started",
    /// A check passed.
    VerifyPassed(CheckResult) = "verify.passed",
    /// A check failed, or did not end in time.
    VerifyFailed(CheckResult) = "verify.failed",
    /// A check failed and passed when it was run again at once. That is not a pass.
    VerifyFlaky(CheckResult) = "verify.flaky",
    /// An agent began to review the merged work.
    ReviewStarted(ReviewStarted) = "review.started",
    /// The merged work was reviewed.
    ReviewFinished(ReviewFinished) = "review.finished",
    /// An agent was asked for a review and produced none.
    ReviewFailed(ReviewFailed) = "review.failed",
    /// The merged work is not reviewed.
    ReviewSkipped(ReviewSkipped) = "review.skipped",
    /// An agent was asked which of several results of the same work is the best.
    JudgeAsked(JudgeAsked) = "judge.asked",
    /// An agent was asked which of several results is the best, and chose none.
    JudgeFailed(JudgeFailed) = "judge.failed",
    /// One of several results of the same work was chosen. Only that one is merged.
    CandidateChosen(CandidateChosen) = "candidate.chosen",
    /// The outcome of a merge was predicted by git.
    MergePredicted(MergePredicted) = "merge.predicted",
    /// The work of a task was merged into the team's branch.
    MergeMerged(Merged) = "merge.merged",
    /// Work that was recorded as merged is missing from the team's branch; it is merged again.
    MergeLost(MergeLost) = "merge.lost",
    /// The work of a task conflicts with work that is already merged.
    MergeConflict(MergeConflict) = "merge.conflict",
    /// The team's branch was brought up to date with the user's.
    MergeCaughtUp(CaughtUp) = "merge.caught_up",
    /// The head of the team's branch was adopted as it was found: commits from outside, or an earlier head of the run
    /// because the last one is lost.
    MergeAdopted(MergeAdopted) = "merge.adopted",
    /// What a person is shown at the gate, recorded before the gate opens.
    ApprovalShown(GateShown) = "approval.shown",
    /// The gate is open: a decision about a commit is needed.
    ApprovalRequested(GateOpened) = "approval.requested",
    /// The gate was answered; the host has not validated the answer yet.
    ApprovalAnswered(GateDecided) = "approval.answered",
    /// The work is approved.
    ApprovalGiven(GateDecided) = "approval.given",
    /// The work is rejected.
    ApprovalRefused(GateDecided) = "approval.refused",
    /// A person asked for changes first.
    ApprovalRevised(GateDecided) = "approval.revised",
    /// Tokens were reserved for running attempts.
    BudgetReserved(BudgetReserved) = "budget.reserved",
    /// A limit of the budget was reached, which ends the run.
    BudgetExhausted(BudgetExhausted) = "budget.exhausted",
}

/// The parsing policy of a payload.
trait Payload: DeserializeOwned {
    /// Whether invalid fields are dropped instead of rejecting the whole payload.
    const IS_LENIENT: bool = true;
}

/// An incomplete record would differ from what the person was shown.
impl Payload for GateShown {
    const IS_LENIENT: bool = false;
}

/// An incomplete plan would differ from the one that a person decides about.
impl Payload for PlanProposed {
    const IS_LENIENT: bool = false;
}

/// An incomplete decision would be a different decision.
impl Payload for PlanAnswered {
    const IS_LENIENT: bool = false;
}

impl Payload for AgentEventRecorded {}
impl Payload for BudgetExhausted {}
impl Payload for BudgetReserved {}
impl Payload for CandidateChosen {}
impl Payload for CaughtUp {}
impl Payload for CheckResult {}
impl Payload for CheckStarted {}
impl Payload for CursorMoved {}
impl Payload for FilesRecorded {}
impl Payload for FindingAdded {}
impl Payload for GateDecided {}
impl Payload for GateOpened {}
impl Payload for HookReceived {}
impl Payload for JudgeAsked {}
impl Payload for JudgeFailed {}
impl Payload for LeaderActed {}
impl Payload for LeaderAsked {}
impl Payload for LeaderFailed {}
impl Payload for LeaderWoken {}
impl Payload for MalformedMessage {}
impl Payload for MemberJoined {}
impl Payload for MemberLeft {}
impl Payload for MergeAdopted {}
impl Payload for MergeConflict {}
impl Payload for MergeLost {}
impl Payload for MergePredicted {}
impl Payload for Merged {}
impl Payload for MessageSent {}
impl Payload for EmptyPayload {}
impl Payload for PhaseEntered {}
impl Payload for PlanFailed {}
impl Payload for PlanMade {}
impl Payload for QuestionAnswered {}
impl Payload for QuestionAsked {}
impl Payload for QuestionExpired {}
impl Payload for QuestionForwarded {}
impl Payload for RefsRecorded {}
impl Payload for ReviewFailed {}
impl Payload for ReviewFinished {}
impl Payload for ReviewSkipped {}
impl Payload for ReviewStarted {}
impl Payload for RunFinished {}
impl Payload for RunStarted {}
impl Payload for RunStopRequested {}
impl Payload for SignalSent {}
impl Payload for StageEntered {}
impl Payload for TaskChange {}
impl Payload for TeamCreated {}
impl Payload for UsageReported {}
impl Payload for WorkerLaunchFailed {}
impl Payload for WorkerPaused {}
impl Payload for WorkerProgress {}
impl Payload for WorkerQuarantined {}
impl Payload for WorkerRestarted {}
impl Payload for WorkerResumed {}
impl Payload for WorkerSecretsKept {}
impl Payload for WorkerSpawned {}
impl Payload for WorkerStarted {}
impl Payload for WorkerStopped {}
impl Payload for WorkerVerdict {}
impl Payload for ZombieSeen {}

/// Parses a payload. Other programs may write to a journal, so a field with an invalid value is treated as missing and
/// the rest is still parsed.
fn read<T: Payload>(data: &Object) -> Option<T> {
    if let Ok(payload) = T::deserialize(data) {
        return Some(payload);
    }
    if !T::IS_LENIENT {
        return None;
    }
    let mut readable = Object::new();
    for (key, value) in data {
        readable.insert(key.clone(), value.clone());
        if T::deserialize(&readable).is_err() {
            readable.shift_remove(key);
        }
    }
    T::deserialize(&readable).ok()
}

fn write(payload: &impl Serialize) -> Object {
    match serde_json::to_value(payload) {
        Ok(Value::Object(fields)) => fields,
        // A payload is a struct of plain values, which always becomes an object.
        _ => Object::new(),
    }
}
