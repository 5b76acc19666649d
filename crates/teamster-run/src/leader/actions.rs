//! The answer of a leader that was woken: a list of actions, which are applied together or not at all.
//!
//! An answer is untrusted text. [`LeaderActions::read`] finds the list in it, and checks every action against the
//! present state of the team. Faults are reported to the leader, which is asked once more; an answer with a fault is
//! not applied.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use teamster_journal::payload::{Member, ReviewFinding};
use teamster_store::{OutgoingMessage, PlannedTask, Recipient, TeamChanges};
use teamster_types::graph::{find_cycle, plan_cycle};
use teamster_types::json::Object;
use teamster_types::paths::Glob;
use teamster_types::routing::fitness;
use teamster_types::task::{NewTask, Status, Task, TaskNotes};
use teamster_types::transitions::{TaskEdit, WORDS_LIMIT, check_texts};
use teamster_types::{TaskId, WorkerName};

use super::answer::last_object;
use crate::review::check_finding;

/// The most actions in one answer.
const MOST_ACTIONS: usize = 50;
/// The most acceptance criteria of a task, and the longest one in characters.
const CRITERIA: (usize, usize) = (20, 500);
/// The name under which the leader sends messages.
const LEAD: &str = "lead";
/// The key of the list in an answer.
const ACTIONS: &str = "actions";

/// One thing that a leader wants to be done.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
enum LeaderAction {
    /// Adds a task.
    CreateTask(TaskDraft),
    /// Changes what a task says.
    UpdateTask(TaskUpdate),
    /// Replaces a task that nobody works on by several.
    SplitTask(TaskSplit),
    /// Removes a task that nobody works on.
    CancelTask(TaskCancellation),
    /// Gives a task to a member of the team.
    Assign(TaskAssignment),
    /// Answers a question, or passes it on to the person.
    Answer(QuestionAnswer),
    /// Sends a message.
    Message(LeaderMessage),
    /// Writes down a finding.
    Finding(ReviewFinding),
    /// Writes something down for the report.
    Note(LeaderNote),
}

/// A task as a leader describes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TaskDraft {
    /// A label for this answer only.
    id: Option<String>,
    /// What is to be done, in one line.
    subject: String,
    /// All that the worker needs to know.
    description: String,
    /// The tasks that must be done before: labels of this answer, or ids of tasks that exist.
    blocked_by: Vec<String>,
    /// The member who gets it; without one, whoever suits.
    owner: Option<String>,
    /// What its worker should be good at.
    capabilities: Vec<String>,
    /// Globs of the files that it may change.
    paths: Vec<String>,
    /// Sentences that hold when it is done.
    accept: Vec<String>,
    /// The findings of a review that it settles, such as `f1`.
    findings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskUpdate {
    /// The id of the task.
    task: String,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    blocked_by: Option<Vec<String>>,
    #[serde(default)]
    paths: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskSplit {
    /// The id of the task.
    task: String,
    /// The tasks that take its place, at least two.
    into: Vec<TaskDraft>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskCancellation {
    /// The id of the task.
    task: String,
    /// Why nobody needs it any more.
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskAssignment {
    /// The id of the task.
    task: String,
    /// The member who gets it.
    owner: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuestionAnswer {
    /// The id of the question, such as `q17`; or of a finding that is not fixed, such as `f1`.
    question: String,
    /// The answer; or why the person is asked; or why the finding is not fixed.
    #[serde(default)]
    text: String,
    /// Whether the person is to answer instead.
    #[serde(default)]
    ask_person: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeaderMessage {
    /// A member of the team, or `all`.
    to: String,
    /// What is said.
    text: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeaderNote {
    /// What is written down.
    text: String,
}

/// The whole answer.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct ActionList {
    /// The actions, in any order. All of them are taken together, or none.
    actions: Vec<LeaderAction>,
}

/// Returns the JSON schema of the answer, for the leader.
pub fn schema() -> Value {
    json!(schemars::schema_for!(ActionList))
}

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Its id, such as `q17`.
    pub id: String,
    /// The task that cannot continue without the answer, if there is one.
    pub blocks: Option<TaskId>,
}

/// A review finding that the leader decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFinding {
    /// Its id, such as `f1`.
    pub id: String,
    /// Whether it is fixed unless the leader decides otherwise.
    pub needs_fix: bool,
}

/// The facts that the actions of a leader are checked against.
#[derive(Clone, Copy, Debug)]
pub struct TeamFacts<'a> {
    /// Every task of the team.
    pub tasks: &'a [Task],
    /// Every member of the team.
    pub members: &'a [Member],
    /// Every question that is open.
    pub questions: &'a [OpenQuestion],
    /// Every finding that the leader decides about.
    pub findings: &'a [OpenFinding],
    /// How many tasks the leader may still add.
    pub most_new: usize,
}

/// The reply of a leader to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderReply {
    /// The answer.
    Answer(String),
    /// The person is to answer, for this reason.
    AskPerson(String),
}

/// Actions of a leader that can all be applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaderActions {
    /// Changes of tasks, and messages. They are applied together.
    pub changes: TeamChanges,
    /// Replies to questions, by the id of each.
    pub replies: Vec<(String, LeaderReply)>,
    /// Tasks that were cancelled, with the reason.
    pub cancelled: Vec<(TaskId, String)>,
    /// Findings of the leader itself.
    pub findings: Vec<ReviewFinding>,
    /// The review findings that new tasks settle: the index of each task with the indexes of its findings, counted from
    /// 0.
    pub settles: Vec<(usize, Vec<usize>)>,
    /// The review findings that are not fixed, by their index, counted from 0; and why.
    pub dismissed: Vec<(usize, String)>,
    /// Notes for the report.
    pub notes: Vec<String>,
    /// How many actions there were.
    pub count: usize,
}

impl LeaderActions {
    /// Reads the actions in an answer; or returns everything that is wrong with them.
    pub fn read(said: &str, facts: &TeamFacts<'_>) -> Result<Self, Vec<String>> {
        let Some(text) = last_object(said, ACTIONS) else {
            return Err(vec![format!(
                "there is no JSON object with the list `{ACTIONS}` in the answer"
            )]);
        };
        let list = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(mut object)) => match object.shift_remove(ACTIONS) {
                Some(Value::Array(list)) => list,
                _ => return Err(vec![format!("`{ACTIONS}` is not a list")]),
            },
            Ok(_) => return Err(vec!["the answer is not a JSON object".to_owned()]),
            Err(error) => return Err(vec![format!("the JSON cannot be read: {error}")]),
        };
        if list.len() > MOST_ACTIONS {
            return Err(vec![format!(
                "there are {} actions; the limit is {MOST_ACTIONS}",
                list.len()
            )]);
        }
        let mut checker = ActionChecker::new(facts);
        for (place, value) in list.into_iter().enumerate() {
            checker.place = place + 1;
            match LeaderAction::deserialize(&value) {
                Ok(action) => checker.check(action),
                Err(error) => checker.add_fault(error.to_string()),
            }
        }
        checker.finish()
    }
}

/// Takes actions one by one and collects their faults.
struct ActionChecker<'a> {
    facts: &'a TeamFacts<'a>,
    found: LeaderActions,
    faults: Vec<String>,
    /// The number of the action that is being checked.
    place: usize,
    /// The labels of new tasks, with their indexes.
    labels: BTreeMap<String, usize>,
    /// The dependencies of each new task as they were written, until every label is known.
    waits: Vec<(usize, usize, Vec<String>)>,
    /// Tasks that an earlier action has already changed or removed.
    touched: BTreeSet<TaskId>,
}

impl<'a> ActionChecker<'a> {
    fn new(facts: &'a TeamFacts<'a>) -> Self {
        Self {
            facts,
            found: LeaderActions::default(),
            faults: Vec::new(),
            place: 0,
            labels: BTreeMap::new(),
            waits: Vec::new(),
            touched: BTreeSet::new(),
        }
    }

    fn add_fault(&mut self, why: impl std::fmt::Display) {
        self.faults.push(format!("action {}: {why}", self.place));
    }

    fn check(&mut self, action: LeaderAction) {
        self.found.count += 1;
        match action {
            LeaderAction::CreateTask(draft) => {
                self.add(draft);
            }
            LeaderAction::UpdateTask(update) => self.update(update),
            LeaderAction::SplitTask(split) => self.split(split),
            LeaderAction::CancelTask(cancelled) => {
                if cancelled.reason.trim().is_empty() {
                    self.add_fault("a reason is needed to cancel a task");
                } else if let Some(id) = self.idle_task(&cancelled.task, "cancelled") {
                    self.found.changes.remove.push(id.clone());
                    self.found.cancelled.push((id, cancelled.reason));
                }
            }
            LeaderAction::Assign(assigned) => {
                let owner = self.member(&assigned.owner);
                let id = self.idle_task(&assigned.task, "assigned");
                if let (Some(id), Some(owner)) = (id, owner) {
                    let edit = TaskEdit {
                        owner: Some(Some(owner)),
                        ..TaskEdit::default()
                    };
                    self.found.changes.update.push((id, edit));
                }
            }
            LeaderAction::Answer(answer) => self.answer(&answer),
            LeaderAction::Message(message) => self.message(message),
            LeaderAction::Finding(finding) => match check_finding(&finding) {
                Ok(()) => self.found.findings.push(finding),
                Err(why) => self.add_fault(why),
            },
            LeaderAction::Note(note) if note.text.trim().is_empty() => {
                self.add_fault("the note is empty");
            }
            LeaderAction::Note(note) => self.found.notes.push(note.text),
        }
    }

    /// Adds a task; returns its index among the new ones.
    fn add(&mut self, draft: TaskDraft) -> Option<usize> {
        let before = self.faults.len();
        let created = self.found.changes.create.len();
        if created >= self.facts.most_new {
            self.add_fault(format!(
                "no more than {} tasks may be added to this run",
                self.facts.most_new
            ));
            return None;
        }
        if let Err(refusal) = check_texts(Some(&draft.subject), Some(&draft.description)) {
            self.add_fault(refusal);
        }
        self.check_paths(&draft.paths);
        let (most, longest) = CRITERIA;
        let is_long = |text: &String| text.chars().count() > longest;
        if draft.accept.len() > most || draft.accept.iter().any(is_long) {
            self.add_fault(format!(
                "`accept` takes at most {most} criteria of {longest} characters each"
            ));
        }
        let owner = draft.owner.as_ref().and_then(|owner| self.member(owner));
        let can = |member: &&Member| fitness(&draft.capabilities, &member.can) > 0.0;
        if draft.owner.is_none() && !self.working().iter().any(can) {
            let needs = draft.capabilities.join(", ");
            self.add_fault(format!("no member of the team can do any of {needs}"));
        }
        if let Some(label) = &draft.id {
            if self.labels.insert(label.clone(), created).is_some() {
                self.add_fault(format!("two tasks have the id {label:?}"));
            }
            if self.known(label).is_some() {
                self.add_fault(format!("the id {label:?} is that of a task that exists"));
            }
        }
        let settled = self.settled(&draft.findings);
        if self.faults.len() > before {
            return None;
        }
        if !settled.is_empty() {
            self.found.settles.push((created, settled));
        }
        self.waits.push((self.place, created, draft.blocked_by));
        self.found.changes.create.push(PlannedTask {
            task: NewTask {
                subject: draft.subject,
                description: draft.description,
                owner,
                capabilities: draft.capabilities,
                paths: draft.paths,
                notes: TaskNotes {
                    accept: draft.accept,
                    ..TaskNotes::default()
                },
                ..NewTask::default()
            },
            after: Vec::new(),
        });
        Some(created)
    }

    /// Returns the members who may take a task without an owner: not those reserved for the review, unless there are no
    /// others.
    fn working(&self) -> Vec<&'a Member> {
        let all = self.facts.members.iter();
        let working: Vec<&Member> = all.clone().filter(|member| !member.is_reserved()).collect();
        if working.is_empty() {
            all.collect()
        } else {
            working
        }
    }

    /// Returns the indexes of the findings that a new task settles.
    fn settled(&mut self, ids: &[String]) -> Vec<usize> {
        let mut places = Vec::new();
        for id in ids {
            match self.finding(id) {
                Some(place) if places.contains(&place) => {}
                Some(place) => places.push(place),
                None => self.add_fault(format!("there is no finding {id:?} to decide about")),
            }
        }
        places
    }

    fn finding(&self, id: &str) -> Option<usize> {
        let mut findings = self.facts.findings.iter();
        findings.position(|finding| finding.id == id)
    }

    fn update(&mut self, update: TaskUpdate) {
        let Some(task) = self.task(&update.task).cloned() else {
            return;
        };
        if task.status() == Status::Completed {
            self.add_fault(format!(
                "task {} is completed and stays as it is",
                task.id()
            ));
            return;
        }
        if let Err(refusal) = check_texts(update.subject.as_deref(), update.description.as_deref())
        {
            self.add_fault(refusal);
        }
        self.check_paths(update.paths.as_deref().unwrap_or_default());
        let blocked_by = update.blocked_by.map(|words| {
            let mut ids = Vec::new();
            for word in words {
                ids.extend(self.task(&word).map(|task| task.id().clone()));
            }
            ids
        });
        if let Some(blockers) = &blocked_by {
            let facts = self.facts;
            let cycle = find_cycle(task.id(), blockers, |id| {
                let task = facts.tasks.iter().find(|task| task.id() == id);
                Ok::<_, ()>(task.map_or_else(Vec::new, |task| task.blocked_by().to_vec()))
            });
            if let Ok(Some(path)) = cycle {
                let path: Vec<&str> = path.iter().map(TaskId::as_str).collect();
                self.add_fault(format!(
                    "that would be a cycle: {}",
                    path.join(" waits for ")
                ));
            }
        }
        if !self.mark_touched(task.id()) {
            return;
        }
        let edit = TaskEdit {
            subject: update.subject,
            description: update.description,
            blocked_by,
            paths: update.paths,
            ..TaskEdit::default()
        };
        self.found.changes.update.push((task.id().clone(), edit));
    }

    fn split(&mut self, split: TaskSplit) {
        if split.into.len() < 2 {
            self.add_fault("a task is split into at least two");
            return;
        }
        let Some(id) = self.idle_task(&split.task, "split") else {
            return;
        };
        // The parts inherit the dependencies of the whole.
        let before: Vec<String> = self
            .known(id.as_str())
            .map(|task| task.blocked_by().iter().map(ToString::to_string).collect())
            .unwrap_or_default();
        let mut places = Vec::new();
        for mut draft in split.into {
            draft.blocked_by.extend(before.iter().cloned());
            places.extend(self.add(draft));
        }
        self.found.changes.split.push((id, places));
    }

    /// Records that a review finding is not fixed.
    fn dismiss(&mut self, place: usize, answer: &QuestionAnswer) {
        let (id, text) = (&answer.question, answer.text.trim());
        let mut dismissed = self.found.dismissed.iter();
        if dismissed.any(|(other, _)| *other == place) {
            self.add_fault(format!("finding {id} is answered twice"));
        } else if answer.ask_person {
            self.add_fault(format!("finding {id} stands at the gate, where the person sees it; say only why it is not fixed"));
        } else if text.is_empty() {
            self.add_fault(format!("a reason is needed not to fix finding {id}"));
        } else if text.chars().count() > WORDS_LIMIT {
            self.add_fault(format!("a reason has at most {WORDS_LIMIT} characters"));
        } else {
            self.found.dismissed.push((place, text.to_owned()));
        }
    }

    fn answer(&mut self, answer: &QuestionAnswer) {
        if let Some(place) = self.finding(&answer.question) {
            return self.dismiss(place, answer);
        }
        let mut questions = self.facts.questions.iter();
        let Some(question) = questions.find(|question| question.id == answer.question) else {
            self.add_fault(format!("there is no open question {:?}", answer.question));
            return;
        };
        let mut replies = self.found.replies.iter();
        if replies.any(|(id, _)| *id == question.id) {
            self.add_fault(format!("question {} is answered twice", question.id));
            return;
        }
        let text = answer.text.trim();
        if text.chars().count() > WORDS_LIMIT {
            self.add_fault(format!("an answer has at most {WORDS_LIMIT} characters"));
        } else if answer.ask_person {
            let reply = LeaderReply::AskPerson(text.to_owned());
            self.found.replies.push((question.id.clone(), reply));
        } else if text.is_empty() {
            self.add_fault(format!("the answer to {} is empty", question.id));
        } else {
            if let Some(task) = &question.blocks {
                let unblock = (task.clone(), text.to_owned());
                self.found.changes.unblock.push(unblock);
            }
            let reply = LeaderReply::Answer(text.to_owned());
            self.found.replies.push((question.id.clone(), reply));
        }
    }

    fn message(&mut self, message: LeaderMessage) {
        let to = match message.to.as_str() {
            "all" => Some(Recipient::All),
            name => self
                .member(name)
                .map(|name| Recipient::Worker(name.to_string())),
        };
        if message.text.trim().is_empty() {
            self.add_fault("the message is empty");
        }
        if let Some(to) = to {
            self.found.changes.send.push(OutgoingMessage {
                from: LEAD.to_owned(),
                to,
                kind: "message".to_owned(),
                content: message.text,
                extra: Object::new(),
            });
        }
    }

    fn check_paths(&mut self, paths: &[String]) {
        for path in paths {
            if let Err(error) = Glob::new(path) {
                self.add_fault(error);
            }
        }
    }

    fn known(&self, word: &str) -> Option<&'a Task> {
        let tasks = self.facts.tasks;
        tasks.iter().find(|task| task.id().as_str() == word)
    }

    fn task(&mut self, word: &str) -> Option<&'a Task> {
        let found = self.known(word);
        if found.is_none() {
            self.add_fault(format!("there is no task {word:?}"));
        }
        found
    }

    /// Returns the id of a task that is neither in progress nor done, if no other action has touched it.
    fn idle_task(&mut self, word: &str, step: &str) -> Option<TaskId> {
        let task = self.task(word)?;
        if task.status() == Status::InProgress || task.is_done() {
            let state = task.status().as_str().replace('_', " ");
            self.add_fault(format!("task {word} is {state}, so it cannot be {step}"));
            return None;
        }
        // Without the task, the missing work would go unnoticed.
        if task.commit().is_some() || task.resolves().is_some() {
            self.add_fault(format!(
                "task {word} has work that is not merged, so it cannot be {step}; create a task that brings it in"
            ));
            return None;
        }
        self.mark_touched(task.id()).then(|| task.id().clone())
    }

    fn mark_touched(&mut self, id: &TaskId) -> bool {
        let is_first = self.touched.insert(id.clone());
        if !is_first {
            self.add_fault(format!("another action changes task {id} already"));
        }
        is_first
    }

    fn member(&mut self, word: &str) -> Option<WorkerName> {
        let members = self.facts.members;
        let found = members.iter().find(|member| member.name.as_str() == word);
        if found.is_none() {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            let names = names.join(", ");
            self.add_fault(format!("{word:?} is not in the team; there are {names}"));
        }
        found.map(|member| member.name.clone())
    }

    /// Resolves the dependencies of new tasks, and returns the checked actions.
    fn finish(mut self) -> Result<LeaderActions, Vec<String>> {
        for (place, created, words) in std::mem::take(&mut self.waits) {
            self.place = place;
            for word in words {
                if let Some(other) = self.labels.get(&word) {
                    self.found.changes.create[created].after.push(*other);
                } else if let Some(task) = self.known(&word) {
                    if self.found.changes.remove.contains(task.id()) {
                        self.add_fault(format!("task {word} is cancelled by the same answer"));
                    }
                    let id = task.id().clone();
                    self.found.changes.create[created].task.blocked_by.push(id);
                } else {
                    self.add_fault(format!(
                        "{word:?} in `blockedBy` is neither a task nor an id of this answer"
                    ));
                }
            }
        }
        let create = self.found.changes.create.iter();
        let after: Vec<&[usize]> = create.map(|planned| planned.after.as_slice()).collect();
        if let Some(cycle) = plan_cycle(&after) {
            let names: Vec<String> = cycle
                .iter()
                .map(|place| format!("{:?}", self.found.changes.create[*place].task.subject))
                .collect();
            self.faults.push(format!(
                "the new tasks have a cycle: {}",
                names.join(" waits for ")
            ));
        }
        self.decide_all_findings();
        if self.faults.is_empty() {
            Ok(self.found)
        } else {
            Err(self.faults)
        }
    }

    /// Refuses an answer that leaves a finding undecided. An answer without any action leaves all findings to the host.
    fn decide_all_findings(&mut self) {
        if self.found.count == 0 {
            return;
        }
        for (place, finding) in self.facts.findings.iter().enumerate() {
            let mut settled = self.found.settles.iter();
            let is_settled = settled.any(|(_, places)| places.contains(&place));
            let mut dismissed = self.found.dismissed.iter();
            let is_dismissed = dismissed.any(|(other, _)| *other == place);
            let id = &finding.id;
            if is_settled && is_dismissed {
                self.faults
                    .push(format!("finding {id} is both fixed and left as it is"));
            } else if finding.needs_fix && !is_settled && !is_dismissed {
                self.faults.push(format!(
                    "nothing is said about finding {id}: create a task that names it in `findings`, or answer it with the \
                     reason why it is not fixed"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
