//! The `metadata` of a task: the keys that teamster shares with Claude Code, and its own under `metadata.teamster`.
//!
//! This is the only place that knows the keys. Unknown keys, added by a foreign program or a later version, keep their
//! value and their place; a value of the wrong type counts as absent.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Claim, Status, Task};
use crate::json::{self, Object};
use crate::transitions::{Block, BlockAnswer};
use crate::{TaskId, Time, WorkerName};

const METADATA: &str = "metadata";
const OURS: &str = "teamster";

/// A key of `metadata` itself.
#[derive(Clone, Copy)]
enum SharedKey {
    Internal,
    PermanentlyFailed,
    FailedAttempts,
    Error,
}

impl SharedKey {
    const fn name(self) -> &'static str {
        match self {
            Self::Internal => "_internal",
            Self::PermanentlyFailed => "permanentlyFailed",
            Self::FailedAttempts => "failedAttempts",
            Self::Error => "error",
        }
    }
}

/// A key of `metadata.teamster`.
#[derive(Clone, Copy)]
enum OwnKey {
    Version,
    Fence,
    CreatedAt,
    NotBefore,
    CompletedAt,
    Claim,
    AssignedTo,
    Label,
    Capabilities,
    Paths,
    Verify,
    Accept,
    Result,
    Blocked,
    Answers,
    Merged,
    MergeCommit,
    Resolves,
    Conflict,
    Fix,
    Review,
    Revision,
    Update,
}

impl OwnKey {
    const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Fence => "fence",
            Self::CreatedAt => "createdAt",
            Self::NotBefore => "notBefore",
            Self::CompletedAt => "completedAt",
            Self::Claim => "claim",
            Self::AssignedTo => "assignedTo",
            Self::Label => "label",
            Self::Capabilities => "capabilities",
            Self::Paths => "paths",
            Self::Verify => "verify",
            Self::Accept => "accept",
            Self::Result => "result",
            Self::Blocked => "blocked",
            Self::Answers => "answers",
            Self::Merged => "merged",
            Self::MergeCommit => "mergeCommit",
            Self::Resolves => "resolves",
            Self::Conflict => "conflict",
            Self::Fix => "fix",
            Self::Review => "review",
            Self::Revision => "revision",
            Self::Update => "update",
        }
    }
}

/// The merge state of a task's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMark {
    /// The work must be merged before other tasks can build on it.
    Pending,
    /// The work is merged.
    Merged,
    /// The task was completed without a change, so there is nothing to merge.
    NoChange,
    /// The work is one of several candidate results, of which one will be chosen.
    Candidate,
    /// Another result was chosen. The work is kept but not merged.
    NotChosen,
}

impl MergeMark {
    const NO_CHANGE: &'static str = "no change";
    const CANDIDATE: &'static str = "candidate";
    const NOT_CHOSEN: &'static str = "not chosen";

    fn value(self) -> Value {
        match self {
            Self::Pending => json!(false),
            Self::Merged => json!(true),
            Self::NoChange => json!(Self::NO_CHANGE),
            Self::Candidate => json!(Self::CANDIDATE),
            Self::NotChosen => json!(Self::NOT_CHOSEN),
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(false) => Some(Self::Pending),
            Value::Bool(true) => Some(Self::Merged),
            Value::String(word) => match word.as_str() {
                Self::NO_CHANGE => Some(Self::NoChange),
                Self::CANDIDATE => Some(Self::Candidate),
                Self::NOT_CHOSEN => Some(Self::NotChosen),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The conflict that a task must resolve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskConflict {
    /// The commit that conflicts with the merged work.
    #[serde(deserialize_with = "json::or_default")]
    pub commit: String,
    /// The files that both sides changed.
    #[serde(deserialize_with = "json::or_default")]
    pub files: Vec<String>,
    /// The number of conflicts of the same work so far, including this one.
    #[serde(deserialize_with = "json::or_default")]
    pub times: u64,
    /// Why an earlier task did not resolve it.
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub failed_before: Option<String>,
}

/// The failed check that a task must fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFix {
    /// The round of fixing, counted from 1.
    pub round: u32,
    /// The number of revisions that were requested before.
    pub revision: u32,
    /// The command that failed.
    pub command: String,
    /// The exit code of the command.
    pub exit_code: Option<i32>,
    /// The commit that it failed on.
    pub commit: String,
    /// Whether the command failed before the work began, so that making it pass is the purpose of the work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_target: bool,
}

/// The finding of a review that a task must resolve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskReview {
    /// The round of fixing, counted from 1.
    pub round: u32,
    /// The number of revisions that were requested before.
    pub revision: u32,
    /// The commit that was reviewed.
    pub commit: String,
    /// The number of the finding among those that need a fix, counted from 1.
    pub number: usize,
    /// The numbers of the findings in the whole review, counted from 1, if the lead combined them into the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<usize>,
}

/// What a run records about a task that it creates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskNotes {
    /// The acceptance criteria of the task.
    pub accept: Vec<String>,
    /// The failed check that the task must fix.
    pub fix: Option<TaskFix>,
    /// The finding of a review that the task must resolve.
    pub review: Option<TaskReview>,
    /// The gate at which a person asked for this revision.
    pub revision: Option<String>,
    /// The commit of the user's branch that the task must merge in.
    pub update: Option<String>,
    /// Whether the work must be merged before other tasks can build on it.
    pub is_to_be_merged: bool,
    /// Whether the work is one of several candidate results, of which one will be chosen.
    pub is_candidate: bool,
    /// The task whose conflict this one must resolve.
    pub resolves: Option<TaskId>,
    /// The conflict that it must resolve.
    pub conflict: Option<TaskConflict>,
}

impl TaskNotes {
    fn write(&self, ours: &mut Object) {
        let mut put = |key: OwnKey, value: Option<Value>| {
            if let Some(value) = value {
                ours.insert(key.name().to_owned(), value);
            }
        };
        let accept = (!self.accept.is_empty()).then(|| json!(self.accept));
        put(OwnKey::Accept, accept);
        put(OwnKey::Fix, self.fix.as_ref().map(|fix| json!(fix)));
        let review = self.review.as_ref();
        put(OwnKey::Review, review.map(|review| json!(review)));
        put(OwnKey::Revision, self.revision.as_ref().map(|id| json!(id)));
        put(OwnKey::Update, self.update.as_ref().map(|tip| json!(tip)));
        let mark = match (self.is_candidate, self.is_to_be_merged) {
            (true, _) => Some(MergeMark::Candidate),
            (false, true) => Some(MergeMark::Pending),
            (false, false) => None,
        };
        put(OwnKey::Merged, mark.map(MergeMark::value));
        put(OwnKey::Resolves, self.resolves.as_ref().map(|id| json!(id)));
        let conflict = self.conflict.as_ref();
        put(OwnKey::Conflict, conflict.map(|conflict| json!(conflict)));
    }
}

/// The result that a worker reports when it completes a task. A task that is completed by hand may have any other
/// value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskResult {
    /// What was done, in the worker's words.
    #[serde(deserialize_with = "json::or_default")]
    pub summary: Option<String>,
    /// What later tasks that build on the work must know, in the worker's words.
    #[serde(deserialize_with = "json::or_default")]
    pub handover: Option<String>,
    /// What was left open, in the worker's words.
    #[serde(deserialize_with = "json::texts")]
    pub problems: Vec<String>,
    /// Whether the worker itself reported the task as done, in the block that closes its last message.
    #[serde(deserialize_with = "json::or_default")]
    pub reported_done: bool,
    /// The commit that the work ended with, or `None` when nothing was changed.
    #[serde(deserialize_with = "json::or_default")]
    pub commit: Option<String>,
    /// The commit that the work began at.
    #[serde(deserialize_with = "json::or_default")]
    pub base: Option<String>,
    /// The git reference that keeps the work.
    #[serde(rename = "ref", deserialize_with = "json::or_default")]
    pub kept_as: Option<String>,
    /// The changed files; if there are many, only the first ones.
    #[serde(deserialize_with = "json::texts")]
    pub files: Vec<String>,
    /// The number of changed files.
    #[serde(deserialize_with = "json::or_default")]
    pub file_count: usize,
    /// The changed files that the task had not reserved.
    #[serde(deserialize_with = "json::texts")]
    pub outside_reservation: Vec<String>,
    /// Whether a person must review the work.
    #[serde(rename = "review", deserialize_with = "json::or_default")]
    pub needs_review: bool,
}

/// Returns the `metadata` of a new task.
pub(super) fn fresh(new: &super::NewTask, now: Time) -> Value {
    let mut ours = Object::new();
    let mut put = |key: OwnKey, value: Value| ours.insert(key.name().to_owned(), value);
    put(OwnKey::Version, json!(1));
    put(OwnKey::Fence, json!(0));
    put(OwnKey::CreatedAt, json!(now));
    if let Some(label) = &new.label {
        put(OwnKey::Label, json!(label));
    }
    for (key, list) in [
        (OwnKey::Capabilities, &new.capabilities),
        (OwnKey::Paths, &new.paths),
        (OwnKey::Verify, &new.verify),
    ] {
        if !list.is_empty() {
            put(key, json!(list));
        }
    }
    new.notes.write(&mut ours);
    let mut metadata = Object::new();
    for (key, value) in [
        (SharedKey::PermanentlyFailed, json!(false)),
        (SharedKey::FailedAttempts, json!(0)),
    ] {
        metadata.insert(key.name().to_owned(), value);
    }
    metadata.insert(OURS.to_owned(), Value::Object(ours));
    Value::Object(metadata)
}

/// Removes the claim's token from the object of a task.
pub(super) fn hide_token(task: &mut Object) {
    if let Some(Value::Object(claim)) = task
        .get_mut(METADATA)
        .and_then(|metadata| metadata.get_mut(OURS))
        .and_then(|ours| ours.get_mut(OwnKey::Claim.name()))
    {
        claim.shift_remove("token");
    }
}

impl Task {
    /// Returns whether it is marked as internal: not counted, and claimed only by id.
    pub fn is_internal(&self) -> bool {
        self.shared(SharedKey::Internal) == Some(&Value::Bool(true))
    }

    /// Returns whether it failed permanently: it will not be tried again.
    pub fn is_failed(&self) -> bool {
        self.shared(SharedKey::PermanentlyFailed) == Some(&Value::Bool(true))
    }

    /// Returns how often it failed so far.
    pub fn failed_attempts(&self) -> u32 {
        let count = self.shared(SharedKey::FailedAttempts);
        let count = count.and_then(Value::as_u64);
        count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Returns the error that ended it, when it failed permanently.
    pub fn error(&self) -> Option<&str> {
        self.shared(SharedKey::Error).and_then(Value::as_str)
    }

    /// Returns the merge state of its work, or `None` when none is recorded.
    pub fn merge_mark(&self) -> Option<MergeMark> {
        MergeMark::read(self.own(OwnKey::Merged)?)
    }

    /// Returns whether its work must still be merged before other tasks can build on it.
    pub fn is_unmerged(&self) -> bool {
        self.merge_mark() == Some(MergeMark::Pending)
    }

    /// Returns whether its work is recorded as merged.
    pub fn is_merged(&self) -> bool {
        self.merge_mark() == Some(MergeMark::Merged)
    }

    /// Returns whether it was completed without a change, so that there is nothing to merge.
    pub fn is_unchanged(&self) -> bool {
        self.merge_mark() == Some(MergeMark::NoChange)
    }

    /// Returns the merge commit of its work, if there was one.
    pub fn merge_commit(&self) -> Option<&str> {
        self.own_text(OwnKey::MergeCommit)
    }

    /// Returns how often teamster has written it.
    pub fn version(&self) -> u64 {
        self.own(OwnKey::Version)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }

    /// Returns its fencing number, the count of its claims, by which an old holder is distinguished from the current
    /// one.
    pub fn fence(&self) -> u64 {
        self.own(OwnKey::Fence).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns the current claim, or the one it was completed under.
    pub fn claim(&self) -> Option<Claim> {
        Claim::deserialize(self.own(OwnKey::Claim)?).ok()
    }

    /// Returns the worker that the task was assigned to before that worker claimed it. When the task is released, it is
    /// assigned to this worker again.
    pub fn assigned_to(&self) -> Option<&str> {
        self.own_text(OwnKey::AssignedTo)
    }

    /// Returns its label in the plan that it came from.
    pub fn label(&self) -> Option<&str> {
        self.own_text(OwnKey::Label)
    }

    /// Returns the capabilities that its worker must have.
    pub fn capabilities(&self) -> Vec<String> {
        self.own_texts(OwnKey::Capabilities)
    }

    /// Returns the files it will change.
    pub fn paths(&self) -> Vec<String> {
        self.own_texts(OwnKey::Paths)
    }

    /// Returns the commands that verify that it is done.
    pub fn verify(&self) -> Vec<String> {
        self.own_texts(OwnKey::Verify)
    }

    /// Returns its acceptance criteria.
    pub fn accept(&self) -> Vec<String> {
        self.own_texts(OwnKey::Accept)
    }

    /// Returns when it was created.
    pub fn created_at(&self) -> Option<Time> {
        self.own_time(OwnKey::CreatedAt)
    }

    /// Returns the end of its retry delay after a failure.
    pub fn not_before(&self) -> Option<Time> {
        self.own_time(OwnKey::NotBefore)
    }

    /// Returns when it was completed.
    pub fn completed_at(&self) -> Option<Time> {
        self.own_time(OwnKey::CompletedAt)
    }

    /// Returns the value it was completed with, unchanged.
    pub fn raw_result(&self) -> Option<&Value> {
        self.own(OwnKey::Result)
    }

    /// Returns the worker's result, or `None` when it was completed without one or with another value.
    pub fn result(&self) -> Option<TaskResult> {
        TaskResult::deserialize(self.own(OwnKey::Result)?).ok()
    }

    /// Returns why it waits for an answer, or `None` when it does not.
    pub fn block(&self) -> Option<Block> {
        if self.status() != Status::Pending {
            return None;
        }
        Block::deserialize(self.own(OwnKey::Blocked)?).ok()
    }

    /// Returns the answers to its questions, the oldest first.
    pub fn block_answers(&self) -> Vec<BlockAnswer> {
        let list = self.own(OwnKey::Answers).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|answer| BlockAnswer::deserialize(answer).ok())
            .collect()
    }

    /// Returns the commit that it was completed with, or `None` when it changed nothing.
    pub fn commit(&self) -> Option<&str> {
        self.own(OwnKey::Result)?.get("commit")?.as_str()
    }

    /// Returns the task whose conflict this one must resolve.
    pub fn resolves(&self) -> Option<TaskId> {
        self.own_text(OwnKey::Resolves)?.parse().ok()
    }

    /// Returns the conflict that it must resolve.
    pub fn conflict(&self) -> Option<TaskConflict> {
        TaskConflict::deserialize(self.own(OwnKey::Conflict)?).ok()
    }

    /// Returns the failed check that it must fix.
    pub fn fix(&self) -> Option<TaskFix> {
        TaskFix::deserialize(self.own(OwnKey::Fix)?).ok()
    }

    /// Returns the finding of a review that it must resolve.
    pub fn review(&self) -> Option<TaskReview> {
        TaskReview::deserialize(self.own(OwnKey::Review)?).ok()
    }

    /// Returns the gate at which a person asked for it as a revision.
    pub fn revision(&self) -> Option<&str> {
        self.own_text(OwnKey::Revision)
    }

    /// Returns the commit of the user's branch that it must merge in.
    pub fn update(&self) -> Option<&str> {
        self.own_text(OwnKey::Update)
    }

    fn shared(&self, key: SharedKey) -> Option<&Value> {
        self.raw.get(METADATA)?.get(key.name())
    }

    fn own(&self, key: OwnKey) -> Option<&Value> {
        self.raw.get(METADATA)?.get(OURS)?.get(key.name())
    }

    fn own_text(&self, key: OwnKey) -> Option<&str> {
        self.own(key)?.as_str()
    }

    fn own_time(&self, key: OwnKey) -> Option<Time> {
        self.own_text(key)?.parse().ok()
    }

    fn own_texts(&self, key: OwnKey) -> Vec<String> {
        self.own(key).map_or_else(Vec::new, json::texts_in)
    }
}

/// Setters for the transitions.
impl Task {
    pub(crate) fn set_permanently_failed(&mut self, is_failed: bool) {
        self.set_shared(SharedKey::PermanentlyFailed, Some(json!(is_failed)));
    }

    pub(crate) fn set_failed_attempts(&mut self, count: u32) {
        self.set_shared(SharedKey::FailedAttempts, Some(json!(count)));
    }

    pub(crate) fn set_error(&mut self, error: Option<&str>) {
        self.set_shared(SharedKey::Error, error.map(|error| json!(error)));
    }

    /// Records the merge state and the merge commit.
    pub(crate) fn set_merge_mark(&mut self, mark: MergeMark, commit: Option<&str>) {
        self.set_own(OwnKey::Merged, Some(mark.value()));
        self.set_own(OwnKey::MergeCommit, commit.map(|commit| json!(commit)));
    }

    /// Increments the count of teamster's writes.
    pub(crate) fn count_version(&mut self) {
        self.set_own(OwnKey::Version, Some(json!(self.version() + 1)));
    }

    /// Counts and records a claim; the retry delay ends.
    pub(crate) fn set_new_claim(&mut self, claim: &Claim) {
        self.set_own(OwnKey::Fence, Some(json!(self.fence() + 1)));
        self.set_own(OwnKey::Claim, Some(json!(claim)));
        self.set_own(OwnKey::NotBefore, None);
    }

    /// Records the renewed lease of the current claim; keys of later versions are preserved.
    pub(crate) fn set_lease(&mut self, claim: &Claim) {
        let claim = match self.own(OwnKey::Claim) {
            Some(Value::Object(old)) => {
                let mut renewed = old.clone();
                renewed.insert("leasedUntil".into(), json!(claim.leased_until));
                Value::Object(renewed)
            }
            _ => json!(claim),
        };
        self.set_own(OwnKey::Claim, Some(claim));
    }

    pub(crate) fn remove_claim(&mut self) {
        self.set_own(OwnKey::Claim, None);
    }

    pub(crate) fn set_assigned_to(&mut self, worker: Option<&WorkerName>) {
        self.set_own(OwnKey::AssignedTo, worker.map(|worker| json!(worker)));
    }

    pub(crate) fn set_not_before(&mut self, moment: Option<Time>) {
        self.set_own(OwnKey::NotBefore, moment.map(|moment| json!(moment)));
    }

    pub(crate) fn set_completed_at(&mut self, moment: Option<Time>) {
        self.set_own(OwnKey::CompletedAt, moment.map(|moment| json!(moment)));
    }

    pub(crate) fn set_result(&mut self, result: Option<Value>) {
        self.set_own(OwnKey::Result, result);
    }

    pub(crate) fn set_block(&mut self, block: Option<&Block>) {
        self.set_own(OwnKey::Blocked, block.map(|block| json!(block)));
    }

    pub(crate) fn set_block_answers(&mut self, answers: &[BlockAnswer]) {
        self.set_own(OwnKey::Answers, Some(json!(answers)));
    }

    pub(crate) fn set_capabilities(&mut self, list: &[String]) {
        self.set_own_texts(OwnKey::Capabilities, list);
    }

    pub(crate) fn set_paths(&mut self, list: &[String]) {
        self.set_own_texts(OwnKey::Paths, list);
    }

    fn set_own_texts(&mut self, key: OwnKey, list: &[String]) {
        self.set_own(key, (!list.is_empty()).then(|| json!(list)));
    }

    fn set_shared(&mut self, key: SharedKey, value: Option<Value>) {
        change_object(&mut self.raw, METADATA, |metadata| {
            json::set(metadata, key.name(), value);
        });
    }

    fn set_own(&mut self, key: OwnKey, value: Option<Value>) {
        change_object(&mut self.raw, METADATA, |metadata| {
            change_object(metadata, OURS, |ours| json::set(ours, key.name(), value));
        });
    }
}

/// Changes the object under a key, which is created if it is missing.
fn change_object(object: &mut Object, key: &str, change: impl FnOnce(&mut Object)) {
    let value = object.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Object::new());
    }
    if let Value::Object(object) = value {
        change(object);
    }
}
