//! Sentences that teamster shows in several languages.
//!
//! A [`Phrase`] is an English sentence together with the code and the parameters that it was made from. A translation
//! is made from these and never from the sentence. Every code is in one table below, with its English template; the web
//! page has a text for each of them in every other language, and its tests fail when one is missing.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! phrases {
    ($($code:ident: $template:literal,)*) => {
        /// The code of a sentence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #[expect(clippy::doc_markdown, reason = "each sentence stands here as people read it")]
        pub enum PhraseCode {
            $(#[doc = $template] $code,)*
        }

        impl PhraseCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Returns the English sentence, with `{name}` for each parameter.
            pub fn template(self) -> &'static str {
                match self {
                    $(Self::$code => $template,)*
                }
            }
        }
    };
}

phrases! {
    // Text from elsewhere, which is not translated.
    Verbatim: "{text}",
    // The evidence for the verdict about a worker.
    HeartbeatOld: "heartbeat {age} old",
    HeartbeatAhead: "heartbeat {ahead} in the future (a clock was set)",
    PidGone: "process {pid} is gone",
    PidGoneAlone: "process {pid} is gone, judged by its pid alone",
    PidAlive: "pid {pid} alive",
    PidElsewhere: "pid {pid} on {host} cannot be judged from here",
    PidNotJudged: "pid {pid} cannot be judged from here",
    NoHeartbeat: "no heartbeat",
    ProcessGone: "its process is gone",
    ProcessAlive: "process alive: it is starting, or its heartbeat was removed",
    NoProcess: "no process to judge: a missing heartbeat alone proves nothing",
    NotStarted: "the run has started no worker for it",
    OneError: "1 error in a row",
    ErrorsInARow: "{count} errors in a row",
    LastError: "the last one: {reason}",
    SaysQuarantined: "says it is quarantined",
    Limited: "{provider}: limited until {until}",
    LimitedWindow: "{provider}: limited until {until} ({window})",
    ProviderDown: "{provider} does not answer; it is tried again at {until}",
    ProviderSignedOut: "{provider} is not signed in; it is tried again at {until}",
    AgentQuiet: "no event from the agent for {quiet}",
    AgentQuietOnTask: "no event from the agent for {quiet} on task {task}",
    InLeadRuns: "in its lead's process, pid {pid} runs",
    InLeadGone: "in its lead's process, pid {pid} gone",
    InLeadNotJudged: "in its lead's process, pid {pid} cannot be judged from here",
    InLeadUnrecorded: "in its lead's process, no process is recorded",
    LeadRuns: "its lead: pid {pid} runs",
    LeadGone: "its lead: pid {pid} gone",
    LeadNotJudged: "its lead: pid {pid} cannot be judged from here",
    LeadUnrecorded: "its lead: no process is recorded",
    ClientCallsActive: "its client calls it active",
    ClientCallsIdle: "its client calls it idle",
    SessionInPaneRuns: "its session in pane {pane} (pid {pid}) runs",
    SessionInPaneGone: "its session in pane {pane} (pid {pid}) is gone",
    PlaceUnknown: "its client has not said where it runs",
    InPane: "in pane {pane}, which `teamster zombies scan` asks tmux about",
    EndedInOrder: "it ended in order",
    EndedInOrderBecause: "it ended in order: {reason}",
    JournalSays: "the journal says: {status}",
    AttemptsFailed: "{count} attempts failed in a row",
    StateFileSays: "its state file calls it {status}",
    LastActive: "last active {ago} ago",
    SeatTaken: "another process now runs as this worker",
    // What needs a person.
    WorkerVerdict: "{verdict}",
    WorkWaits: "{words}; waiting for your decision: `{command}` (or reject, revise)",
    WaitsForDecision: "waiting for your decision: `{command}` (or reject, revise)",
    PlanWaits: "revision {revision} waits for you: `teamster plan show --team {team}`, then accept, revise, edit or reject",
    MessageUndelivered: "1 message is not delivered after {age}",
    MessagesUndelivered: "{count} messages are not delivered after {age}",
    MessageUndeliveredLong: "1 message is not delivered after more than a minute",
    MessagesUndeliveredLong: "{count} messages are not delivered after more than a minute",
    FileDamaged: "it cannot be parsed: {error}",
    JournalLineDamaged: "1 line cannot be parsed: {error}",
    JournalLinesDamaged: "{count} lines cannot be parsed; the first: {error}",
    // What is left behind, and the evidence for it.
    LeadSessionEnds: "the session of its lead ends",
    LeadProcessGone: "its lead (pid {pid}) is gone",
    LeadProcessRuns: "its lead (pid {pid}) runs",
    LeadProcessNotJudged: "its lead (pid {pid}) cannot be judged from here",
    HostRuns: "its host (pid {pid}) runs",
    HostNotJudged: "its host (pid {pid}) cannot be judged from here",
    LeadSessionRuns: "the session of its lead (pid {pid}) runs",
    LeadSessionNotJudged: "the session of its lead (pid {pid}) cannot be judged from here",
    HeartbeatsUnreadable: "its heartbeats cannot be read: {error}",
    WorkerHeartbeat: "heartbeat of {worker} (pid {pid}) {age} old",
    WorkerNotJudged: "{worker} (pid {pid}) cannot be judged from here",
    InboxFolder: "there is a folder inboxes/{name}",
    InboxUnreadable: "inboxes/{name} cannot be read",
    InboxUnreadMessage: "1 unread message in inboxes/{name}",
    InboxUnreadMessages: "{count} unread messages in inboxes/{name}",
    ClaimRuns: "the claim of {worker} on task {task} is still valid",
    ClaimerRuns: "{worker} (pid {pid}), who claimed task {task}, runs",
    ClaimerNotJudged: "{worker} (pid {pid}), who claimed task {task}, cannot be judged from here",
    LockInUse: "{name} is in use",
    LockNotJudged: "{name} cannot be judged from here",
    LockHeld: "{name} is held",
    RunsAsMember: "pid {pid} runs as {name} of it",
    PidRuns: "pid {pid} runs",
    PaneOutOfReach: "pane {pane} of {name} cannot be inspected from here",
    ClientRunsInPane: "a session of Claude Code (pid {pid}) runs in pane {pane} of {name}",
    PaneNotLookedFor: "pane {pane} of {name} was not looked for",
    PaneNotFindable: "pane {pane} of {name} cannot be looked for: {error}",
    PaneProgramEnded: "pane {pane} is open, its program has ended",
    PaneOfMemberOpen: "pane {pane} of {name} is open",
    PaneOpen: "pane {pane} is open",
    OwnPaneEnded: "its program has ended, in our own tmux server",
    OddTime: "{odd}: its newest file change is used instead",
    OthersStopped: "every other member is proven stopped",
    OthersNotProven: "not every member is proven stopped",
    NoSignOfLife: "no change for {age}, no sign of life",
    OldAlive: "old, alive",
    OldPerhapsAlive: "old, perhaps alive",
    WasRestored: "it was restored from the trash",
    OpenTaskOfSession: "1 open task, which a resumed session would continue",
    OpenTasksOfSession: "{count} open tasks, which a resumed session would continue",
    OpenTask: "1 open task",
    OpenTasks: "{count} open tasks",
    RemovalUnfinished: "its removal was started but not finished",
    RunUnfinished: "its run has not finished; it can be resumed",
    RunNeverFinished: "it has no finished run",
    RunFinished: "its run has finished",
    RunHostGone: "the host of its run is gone",
    TeamRemoved: "its team was removed",
    TeamGone: "its team is gone",
    TeamHalfMade: "a team that pid {pid} did not finish creating",
    RegistryUnreadable: "config.json cannot be read: {error}",
    NameNotUtf8: "its name is not UTF-8, so no team can have it",
    LinkNotFollowed: "{path} is a symbolic link and not followed",
    OfAnotherUser: "{path} belongs to another user (uid {owner})",
    HeartbeatPidRuns: "heartbeat {age} old, pid {pid} runs",
    HeartbeatPidMayRun: "heartbeat {age} old, pid {pid} may run",
    HeartbeatPidGone: "heartbeat {age} old, pid {pid} gone",
    TaskInItsName: "task {task} is still assigned to it",
    TempFileLeft: "temp file, its writer (pid {pid}) is gone",
    LockFolderLeft: "stale lock folder of Claude Code",
    ClaimLockUnnamed: "claim lock that names no process",
    ClaimLockLeft: "claim lock, its claimer (pid {pid}) is gone",
    EndedWhenAsked: "it ended when it was asked to",
    KilledAfter: "it did not end within {limit} and was killed",
    // Whether the work at the gate was verified.
    NothingVerified: "Nothing was verified: no command has looked at this work.",
    VerifiedElsewhere: "Not verified: the checks ran on another commit, {commit}.",
    VerifiedByCheck: "Verified: 1 check passed.",
    VerifiedByChecks: "Verified: {count} checks passed.",
    PartOfCheckVerified: "Not fully verified: of 1 check",
    PartOfChecksVerified: "Not fully verified: of {count} checks",
    CountFailed: "{count} failed",
    CountFailedBefore: "{count} failed as before the work began",
    CountFlaky: "{count} flaky, which does not count as passed",
    CountStopped: "{count} did not finish",
    CountNotRun: "{count} not run",
    CountPassed: "{count} passed",
    GateVerified: "verified: every check passed",
    GateNothingVerified: "NOTHING WAS VERIFIED: no command was given, and none was found",
    GateNotVerified: "not every check passed",
    // Why a check does not count as passed.
    CheckElsewhere: "it ran on another commit",
    CheckFlaky: "flaky, which does not count as passed",
    CheckStopped: "did not finish",
    CheckFailed: "failed",
    CheckTimedOut: "timed out",
    CheckFailedBefore: "failed as before the work began",
    CheckNotRun: "not run",
    // Why a task will not be done.
    NobodySaidWhy: "no reason was given",
    TaskNotMergeable: "it could not be merged",
    TaskWaitsFor: "it waits for {tasks}",
    // What happened to the user's branches and tags.
    RefsNotCompared: "The branches could not be compared: {error}.",
    BranchMoved: "Branch {name} moved from {from} to {to}.",
    BranchDeleted: "Branch {name} was deleted; it was at {from}.",
    BranchNew: "Branch {name} is new, at {to}.",
    BranchMovedBeforeLanding: "Branch {name} was moved from {from} to {to} before the work landed on it.",
    TagMoved: "Tag {name} moved from {from} to {to}.",
    TagDeleted: "Tag {name} was deleted; it was at {from}.",
    TagNew: "Tag {name} is new, at {to}.",
    CheckoutMoved: "HEAD moved from {from} to {to}.",
    CheckoutDeleted: "HEAD was deleted; it was at {from}.",
    CheckoutNew: "HEAD is new, at {to}.",
    RefMoved: "{name} moved from {from} to {to}.",
    RefDeleted: "{name} was deleted; it was at {from}.",
    RefNew: "{name} is new, at {to}.",
    MoreRefsChanged: "{count} more references changed.",
    // Messages that were not delivered.
    MessageUntaken: "{from} to {to}: {words}",
    MoreMessagesUntaken: "and {count} more: `teamster message list` has them",
    // Why approved work was not merged into the user's branch.
    NotOnBranch: "{branch} does not have it",
    BranchNotChanged: "{branch} was not changed: {why}\nwhen that is resolved: {command}",
    BranchNotMoved: "{branch} was not moved: {why}\ngit changed these files before it failed, and they could not be restored: {files}\nthis restores them: {undo}\nwhen that is resolved: {command}",
    BranchGone: "there is no branch {branch} any more",
    BranchMovedBack: "{branch} was moved back to {tip} since the work began at {base}, and landing would bring back what was removed; if that is what you want: git merge {commit}",
    BranchStillConflicts: "what is new on {branch} conflicts with the work in {files}, and task {task} did not resolve that; merge {tip} by hand on top of the work, or revise it",
    // Who decided at the gate.
    ByChecks: "the checks (--approve auto)",
    ByPersonInStudio: "a person in Studio",
    ByPersonAtTerminal: "a person at a terminal",
    // Why a run entered a stage.
    RunBegins: "the run begins",
    RequirementsWanted: "they were asked for",
    LeaderAsksFirst: "the leader asks before it plans",
    PlanIsMade: "the plan is made",
    FinishedIsMerged: "finished work is merged",
    MoreIsFinished: "more is finished",
    EveryTaskDone: "every task is done",
    SomeTasksDone: "{done} tasks are done, {left} will not be",
    EveryFinishedTaskMerged: "every finished task is merged",
    FinishedTasksNotMerged: "{count} finished tasks could not be merged",
    TasksToDoAgain: "some tasks must be done again",
    MergedWorkMissing: "work that was marked as merged is missing",
    MergedWorkNotVerified: "the merged work is not what was verified",
    ApprovedWorkNotVerified: "what was approved is not what was verified",
    NeedsLeader: "something needs the leader",
    NoCheckFound: "nothing was verified: no command is given, and none was found",
    AllChecksPassed: "all checks passed",
    NoCheckBroken: "no new failures; what fails is flaky or failed before the work began",
    VerificationFailed: "verification failed: {commands}",
    ReviewFoundOne: "the review found 1 thing to fix",
    ReviewFoundSome: "the review found {count} things to fix",
    BranchHasMoved: "{branch} has moved; the work is verified and asked about again",
    BranchConflicts: "{branch} has moved and conflicts with the team's work",
    // Why a run ended.
    WorkStaysOnItsBranch: "approved; no branch was checked out when it began, so the work stays on its own branch",
    WorkIsInFolder: "approved; the work is in the project's folder",
    LandedOn: "approved and landed on {branch}",
    LandedBelowOthers: "approved and landed on {branch}, which has more commits on top that are not the team's: {commit} to {tip}",
    NothingChanged: "nothing was changed",
    NothingChangedAndFails: "nothing was changed, and not every check passes",
    PersonRejected: "a person rejected it",
    PersonCancelled: "a person cancelled it",
    PersonStopped: "a person stopped it",
    TooManyRevisions: "a person asked for more than {count} revisions",
    TasksFailedForGood: "{count} tasks failed permanently or wait for one that did",
    FailedTasksCancelled: "the leader cancelled what had failed and made no other task of it: {tasks}",
    TaskError: "task {task}: {error}",
    TaskNotMerged: "task {task}: its work is NOT merged",
    VerificationFails: "verification fails: {commands}",
    VerificationStillFails: "verification still fails after {count} rounds of fixing: {commands}",
    PlanNotAccepted: "the plan was not accepted",
    PlanNotAcceptedBecause: "the plan was not accepted: {words}",
    NoTaskDone: "none of {count} tasks could be done",
    NobodyLeft: "no worker is left for task {tasks}: every worker has ended or takes no more tasks",
    TooManyTasks: "{count} tasks were added to the run or restarted, and the setting run.max_tasks allows {most}: {tasks} are ignored; delete them or raise the setting, then resume: `teamster run --resume {team}`",
    TicketsNotDone: "the flow party does not go on to {phase} while {tickets} is not DONE: retry the task with `teamster task retry ID` or drop it with `teamster task delete ID`, and go on with `teamster run --resume {team}`",
    // Why an agent that was asked gave no answer.
    NoReviewer: "no agent that can review",
    NoRepositoryToReview: "there is no repository to review it in",
    BudgetUsedUp: "the budget is used up",
    AgentNotStarted: "it could not be started: {error}",
    AgentStopped: "it was stopped",
    AgentCannotWork: "it cannot work now: {reason}",
    AgentFailed: "it failed: {reason}",
    AgentUnusable: "it was asked twice, and its answer cannot be used: {faults}",
    LeaderNotStarted: "{leader} could not be started: {error}",
    LeaderStopped: "{leader} was stopped",
    LeaderCannotWork: "{leader} cannot work now: {reason}",
    LeaderFailed: "{leader} failed: {reason}",
    LeaderUnusable: "{leader} was asked twice, and its answer cannot be used: {faults}",
    LeaderLate: "it has used its share of the run's time",
    BudgetExhausted: "the budget is used up: {used} used of {allowed}",
    BudgetHasNoRoom: "the budget has no room for another task: {used} used of {allowed}; {rest} are left, and a task took {each} on average",
    MissingCommit: "task {task} is missing: its commit {commit} is kept as {name}",
    MissingWithoutCommit: "task {task} is marked as merged but has no commit",
    // Which of several results was chosen, and why not the others.
    NoResultTaken: "none of {count} results can be taken",
    ResultOfTask: "task {task}",
    ResultKeptAs: "(kept as {name})",
    ResultPasses: "it passes",
    ResultFailed: "it failed: {error}",
    ResultFailedUnexplained: "it failed: no reason was given",
    ResultUnchanged: "it changed nothing",
    ResultFailsChecks: "it fails {commands}",
    ResultLines: "{count} changed lines",
    ChosenByJudge: "{judge} chose it: {words}",
    ChosenAlone: "it is the only one that passes",
    ChosenSmallest: "of {count} that pass it is the smallest: {lines} changed lines",
    JudgeNotAsked: "{judge} was not asked, because the budget is used up",
    JudgeAsked: "{judge} was asked which is the best",
    JudgeChoseNone: "it chose {choice}, which is none of them",
    // Why a plan is not the one that was asked for.
    NobodyChangesPlan: "no agent leads this run, so no agent can change the plan; edit it yourself",
    LeaderMadeNoOtherPlan: "the leader made no other plan",
    EditedPlanUnusable: "the edited plan is not valid: {faults}",
    // Why a question is answered by another agent, or not at all.
    RunIsBeingStopped: "the run is being stopped",
    LeaderDidNotAnswer: "the leader did not answer it",
    NoLeader: "no agent leads this run",
    LeaderWokenOften: "the leader has reached its limit of wake-ups",
    LeaderFailedOften: "the leader failed too often in a row",
    LeaderShareUsed: "the leader has used its share of the budget",
    NobodyToAsk: "no person can be asked",
    LeftToLeader: "the person leaves it to the leader",
    QuestionTaskGivenUp: "its task was given up",
    QuestionTaskRemoved: "its task was removed",
    QuestionTaskGoesOn: "its task goes on without an answer",
    QuestionRunOver: "the run is over",
    QuestionWorkerRestarted: "its worker was restarted",
    QuestionWorkerStopped: "its worker was stopped",
    QuestionWorkerDead: "its worker is dead",
    QuestionWorkEnded: "the work on its task has ended",
    QuestionUnanswered: "nobody answered within {limit}",
    QuestionAgentGone: "the agent no longer waits for it",
    // Why a task is in its state.
    TaskFailed: "failed permanently: {error}",
    TaskFailedUnexplained: "failed permanently: no reason was recorded",
    TaskCompleted: "completed",
    WorksOnIt: "{owner} works on it",
    WorksOnItUntil: "{owner} works on it, lease until {until}",
    WorksOnItOverdue: "{owner} works on it; its lease ran out at {until}",
    BlockedByFailure: "blocked by failure of {tasks}",
    BlockedByMissing: "blocked by the missing task {tasks}",
    WaitsFor: "waits for {tasks}",
    WaitsForMerge: "waits for the merge of {tasks}",
    WaitsForAnswer: "waits for an answer to {asker}: {question}",
    NotAgainUntil: "failed; it is retried after {until}",
    FilesReserved: "may change the same files as task {task}, which is being worked on",
    Internal: "internal, claimed only by id",
    AssignedTo: "assigned to {owner}",
    Free: "free",
    FreeAgain: "free again: worker {worker} died: its lease ran out at {until}, pid {pid} is gone and no heartbeat is fresh",
}

/// A code with its parameters, which is all that a translation needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhraseKey {
    /// The code of the sentence.
    pub code: PhraseCode,
    /// The parameters, by name.
    pub params: BTreeMap<String, String>,
}

/// A translatable sentence. As text, and in JSON, it is the English one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    key: PhraseKey,
    text: String,
}

impl Phrase {
    /// Returns the sentence of this code with its parameters filled in.
    pub fn new<const N: usize>(code: PhraseCode, params: [(&str, &dyn fmt::Display); N]) -> Self {
        let params: BTreeMap<String, String> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect();
        Self::of(PhraseKey { code, params })
    }

    /// Returns the sentence of a code with parameters.
    pub fn of(key: PhraseKey) -> Self {
        let text = filled(key.code.template(), &key.params);
        Self { key, text }
    }

    /// Returns a sentence that comes from elsewhere, or that was recorded without its code.
    pub fn verbatim(text: &str) -> Self {
        Self::new(PhraseCode::Verbatim, [("text", &text)])
    }

    /// Returns its code and parameters.
    pub fn key(&self) -> &PhraseKey {
        &self.key
    }

    /// Returns the English sentence.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the codes and parameters of several sentences.
    pub fn keys(phrases: &[Self]) -> Vec<PhraseKey> {
        phrases.iter().map(|phrase| phrase.key.clone()).collect()
    }

    /// Returns the English sentences.
    pub fn texts(phrases: &[Self]) -> Vec<String> {
        phrases.iter().map(|phrase| phrase.text.clone()).collect()
    }
}

impl From<PhraseCode> for Phrase {
    fn from(code: PhraseCode) -> Self {
        Self::new(code, [])
    }
}

/// The codes that a journal event carries beside its English text. A list that contains an unknown code, written by a
/// newer version, is read as empty: the text is shown instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PhraseKeys(Vec<PhraseKey>);

impl PhraseKeys {
    /// Returns an empty list.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns them as a list.
    pub fn to_vec(&self) -> Vec<PhraseKey> {
        self.0.clone()
    }
}

impl From<Vec<PhraseKey>> for PhraseKeys {
    fn from(keys: Vec<PhraseKey>) -> Self {
        Self(keys)
    }
}

impl<'de> Deserialize<'de> for PhraseKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(serde_json::from_value(keys).unwrap_or_default()))
    }
}

impl JsonSchema for PhraseKeys {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Vec::<PhraseKey>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<PhraseKey>::json_schema(generator)
    }
}

/// A text of one or more sentences: the English text, and the codes of its sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wording {
    text: String,
    codes: PhraseKeys,
}

impl Wording {
    /// Returns a finished text with its codes.
    pub fn new(text: impl Into<String>, codes: impl Into<PhraseKeys>) -> Self {
        Self {
            text: text.into(),
            codes: codes.into(),
        }
    }

    /// Returns several sentences as one text, separated by `between`.
    pub fn joined(phrases: &[Phrase], between: &str) -> Self {
        Self::new(phrases.join(between), Phrase::keys(phrases))
    }

    /// Appends `more`, separated by `between`.
    #[must_use]
    pub fn and(mut self, between: &str, more: impl Into<Self>) -> Self {
        let more = more.into();
        self.text = self.text + between + &more.text;
        self.codes.0.extend(more.codes.0);
        self
    }

    /// Applies `change` to its text and every parameter, for example to redact or shorten them.
    #[must_use]
    pub fn map(mut self, change: impl Fn(&str) -> String) -> Self {
        self.text = change(&self.text);
        let keys = self.codes.0.iter_mut();
        for value in keys.flat_map(|key| key.params.values_mut()) {
            *value = change(value);
        }
        self
    }

    /// Returns the English text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the codes of its sentences.
    pub fn codes(&self) -> &PhraseKeys {
        &self.codes
    }

    /// Returns the English text and the codes separately.
    pub fn into_parts(self) -> (String, PhraseKeys) {
        (self.text, self.codes)
    }
}

impl From<Phrase> for Wording {
    fn from(phrase: Phrase) -> Self {
        Self::new(phrase.text, vec![phrase.key])
    }
}

impl From<PhraseCode> for Wording {
    fn from(code: PhraseCode) -> Self {
        Phrase::from(code).into()
    }
}

impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Fills in the parameters. Braces inside a parameter are literal text.
fn filled(template: &str, params: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(params.get(name).map_or("", String::as_str));
        rest = after;
    }
    text + rest
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Allows a list of phrases to be joined like strings.
impl Borrow<str> for Phrase {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Serialize for Phrase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Phrase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::verbatim(&text))
    }
}

impl JsonSchema for Phrase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrase_is_its_template_with_the_parameters_filled_in() {
        let phrase = Phrase::new(
            PhraseCode::AgentQuietOnTask,
            [("quiet", &"6 min"), ("task", &3)],
        );
        let english = "no event from the agent for 6 min on task 3";
        assert_eq!(phrase.to_string(), english);
        assert_eq!(serde_json::to_value(&phrase).unwrap(), english);
        let key = serde_json::to_value(phrase.key()).unwrap();
        assert_eq!(key["code"], "agent-quiet-on-task");
        assert_eq!(key["params"]["quiet"], "6 min");
    }

    #[test]
    fn braces_in_a_parameter_are_text() {
        let phrase = Phrase::verbatim("{text} {other");
        assert_eq!(phrase.as_str(), "{text} {other");
    }

    #[test]
    fn codes_in_a_journal_are_read_again_and_those_of_a_newer_version_are_none() {
        let landed = Phrase::new(PhraseCode::LandedOn, [("branch", &"main")]);
        let said = Wording::from(landed).and("; ", PhraseCode::NothingChanged);
        assert_eq!(
            said.as_str(),
            "approved and landed on main; nothing was changed"
        );
        let written = serde_json::to_value(said.codes()).unwrap();
        let read: PhraseKeys = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read, *said.codes());
        let mut newer = written;
        newer[1]["code"] = "of-a-newer-version".into();
        for unknown in [newer, serde_json::Value::Null, "a text".into()] {
            let read: PhraseKeys = serde_json::from_value(unknown).unwrap();
            assert!(read.is_empty());
        }
    }

    #[test]
    fn wording_is_changed_with_its_parameters() {
        let failed = Phrase::new(PhraseCode::AgentFailed, [("reason", &"key 123")]);
        let said = Wording::from(failed).map(|text| text.replace("123", "…"));
        assert_eq!(said.as_str(), "it failed: key …");
        assert_eq!(said.codes().to_vec()[0].params["reason"], "key …");
    }

    #[test]
    fn every_template_has_whole_parameters() {
        for code in PhraseCode::ALL {
            let template = code.template();
            assert_eq!(
                template.matches('{').count(),
                template.matches('}').count(),
                "{template}"
            );
        }
    }
}
