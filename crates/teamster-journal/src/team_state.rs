//! The state of a team, folded from its journal alone: its run, its workers, and the history of each task.
//!
//! This is the one place that interprets events for people. The page, `top`, `status`, replay and the report read the
//! result. Facts for which the store is authoritative, such as the tasks themselves and which workers are alive, are
//! not part of it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::health::Verdict;
use teamster_types::heartbeat::{LIMITED, ProviderLimit};
use teamster_types::phrase::{PhraseKey, PhraseKeys};
use teamster_types::task::Status;
use teamster_types::{TaskId, Time};

use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{SecretKept, TaskChange, WorkerProgress};
use crate::questions::Questions;
use crate::run_state::RunState;

/// The maximum number of marks kept per worker; the newest are kept.
const MOST_MARKS: usize = 500;
/// The maximum number of work spans kept per worker; the newest are kept.
const MOST_SPANS: usize = 5_000;

/// The state of a team.
#[derive(Clone, Debug, Default)]
pub struct TeamState {
    /// The folder of the project.
    pub project: Option<String>,
    /// Whether the team was deleted.
    pub is_deleted: bool,
    /// The time of the last event.
    pub last: Option<Time>,
    /// The run.
    pub run: RunState,
    /// Members in the order in which they joined.
    pub members: Vec<String>,
    /// Every actor in the journal, by name. This includes people and the system.
    pub workers: BTreeMap<String, WorkerState>,
    /// The history of each task.
    pub tasks: BTreeMap<TaskId, TaskHistory>,
    /// The questions and their states.
    pub questions: Questions,
    /// Files of workers that must not be committed, in the order in which they were found.
    pub secrets: Vec<SecretKept>,
}

/// The history of a task.
#[derive(Clone, Debug, Default)]
pub struct TaskHistory {
    /// Its subject.
    pub subject: String,
    /// The number of attempts.
    pub attempts: usize,
    /// The worker that had it last.
    pub last_worker: Option<String>,
    /// The worker that has it now.
    holder: Option<String>,
    /// Whether its work is in the team's branch.
    pub is_merged: bool,
    /// Whether it was completed without a change, so that there is nothing to merge.
    pub is_unchanged: bool,
    /// How often merging it conflicted.
    pub conflicts: usize,
    /// Whether its last conflict will not be resolved any more.
    pub is_given_up: bool,
}

/// The phase of a worker, according to the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerPhase {
    /// The journal does not say.
    #[default]
    Unknown,
    /// It is a member and was not started.
    Joined,
    /// It is being started.
    Spawning,
    /// It has a task.
    Working,
    /// It has a task, and its agent waits for an answer.
    Waiting,
    /// It has no task.
    Idle,
    /// It waits for something.
    Paused,
    /// It waits until its provider can be used again, and keeps its task.
    Limited,
    /// It takes no more tasks.
    Quarantined,
    /// It was stopped.
    Stopped,
    /// It is dead.
    Dead,
    /// It has left the team.
    Left,
}

impl WorkerPhase {
    /// Returns its name; empty when the phase is unknown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Joined => "joined",
            Self::Spawning => "spawning",
            Self::Working => "working",
            Self::Waiting => "waiting for an answer",
            Self::Idle => "idle",
            Self::Paused => "paused",
            Self::Limited => LIMITED,
            Self::Quarantined => "quarantined",
            Self::Stopped => "stopped",
            Self::Dead => "dead",
            Self::Left => "left",
        }
    }
}

/// The state of one worker, according to the journal.
#[derive(Clone, Debug, Default)]
pub struct WorkerState {
    /// The client that it drives.
    pub provider: String,
    /// Its role.
    pub role: Option<String>,
    /// The model that it uses.
    pub model: Option<String>,
    /// Its phase.
    pub phase: WorkerPhase,
    /// When it entered that phase.
    pub since: Option<Time>,
    /// When it or its agent was last active.
    pub last_event_at: Option<Time>,
    /// The task that it has.
    pub holds: Option<TaskId>,
    /// The last verdict against it, with the evidence and its message codes; `None` while there is none.
    pub verdict: Option<(Verdict, Vec<String>, PhraseKeys)>,
    /// Attempts that it began.
    pub attempts: u64,
    /// Tasks that it completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// The number of consecutive failed attempts.
    pub failed_in_a_row: u32,
    /// How long it has had tasks, without the running attempts.
    busy: Duration,
    /// Its agent's report of the progress of the current task.
    pub progress: Option<WorkerProgress>,
    /// The provider limit that it waits for, while it is [`WorkerPhase::Limited`].
    pub limit: Option<ProviderLimit>,
    /// The signal that asked it to stop: `shutdown` or `drain`.
    pub asked_to: Option<&'static str>,
    /// Its work spans, in order.
    pub spans: Vec<Span>,
    /// What happened to it, in order.
    pub marks: Vec<Mark>,
}

/// How a work span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpanEnd {
    /// It is still running.
    Open,
    /// The task was completed.
    Completed,
    /// The attempt failed.
    Failed,
    /// The task was given back.
    Released,
    /// The task was taken from a dead worker.
    Requeued,
}

/// A worker's uninterrupted work on one task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The task.
    pub task_id: TaskId,
    /// The subject of the task.
    pub subject: String,
    /// The position of the event at which it began.
    pub seq: u64,
    /// When it began.
    pub from: Time,
    /// When it ended; `null` while it is running.
    pub to: Option<Time>,
    /// How it ended.
    pub end: SpanEnd,
}

/// Something that happened to a worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The position of the event.
    pub seq: u64,
    /// When it happened.
    pub at: Time,
    /// The name of the event's kind, such as `worker.spawned` or `worker.dead`.
    pub what: String,
    /// Details, as text.
    pub words: String,
    /// The message codes of this text, for translation; empty if teamster did not write it.
    pub words_codes: Vec<PhraseKey>,
}

impl TeamState {
    /// Folds these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::default();
        for event in events {
            state.apply(event, &event.payload());
        }
        state
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        self.last = Some(event.ts);
        self.run.apply_kind(event, what);
        self.team_event(event, what);
        self.task_event(event, what);
        if let Some(asker) = self.questions.apply(event, what) {
            let is_waiting = self.questions.is_waiting(asker.as_str());
            if let Some(worker) = self.workers.get_mut(asker.as_str()) {
                worker.wait_for_answer(is_waiting, event);
            }
        }
    }

    /// Returns the merged task that resolved the merge conflict of a task, if there is one.
    pub fn merged_by(&self, task: &TaskId) -> Option<&TaskId> {
        let mut conflicts = self.run.conflicts.iter();
        let fix = conflicts.find_map(|(id, conflict)| {
            let fix = conflict.fix_task.as_ref().filter(|_| id == task)?;
            // A task that resolves a conflict is created after it, so this terminates.
            let is_later = fix.number() > task.number();
            let is_in = self.tasks.get(fix).is_some_and(|fix| fix.is_merged)
                || (is_later && self.merged_by(fix).is_some());
            is_in.then_some(fix)
        });
        fix.filter(|_| self.tasks.contains_key(task))
    }

    fn worker(&mut self, name: &str) -> &mut WorkerState {
        self.workers.entry(name.to_owned()).or_default()
    }

    fn join(&mut self, name: &str, provider: &str, event: &Event) {
        let worker = self
            .workers
            .entry(name.to_owned())
            .or_insert_with(|| WorkerState {
                phase: WorkerPhase::Joined,
                since: Some(event.ts),
                ..WorkerState::default()
            });
        if !provider.is_empty() {
            provider.clone_into(&mut worker.provider);
        }
        if !self.members.iter().any(|known| known == name) {
            self.members.push(name.to_owned());
        }
    }

    /// Records activity of a known actor.
    fn is_active(&mut self, name: &str, event: &Event) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.last_event_at = Some(event.ts);
        }
    }

    /// Applies an event about the team and its workers.
    fn team_event(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::TeamCreated(created) => {
                self.project.clone_from(&created.project);
                self.is_deleted = false;
                for name in &created.members {
                    self.join(name, "", event);
                }
            }
            EventKind::TeamDeleted(_) => self.is_deleted = true,
            EventKind::TeamRestored(_) => self.is_deleted = false,
            EventKind::RunStarted(started) => {
                for member in &started.spec.members {
                    let name = member.name.as_str();
                    self.join(name, &member.provider, event);
                    let worker = self.worker(name);
                    worker.role.clone_from(&member.role);
                    worker.model.clone_from(&member.model);
                }
            }
            EventKind::WorkerSecretsKept(found) => {
                self.secrets.extend_from_slice(&found.files);
                self.is_active(event.actor.as_str(), event);
            }
            EventKind::Usage(used) => {
                let worker = self.worker(event.actor.as_str());
                worker.last_event_at = Some(event.ts);
                if let Some(model) = &used.model {
                    worker.model = Some(model.clone());
                }
            }
            EventKind::MemberJoined(joined) => {
                let name = or_actor(Some(joined.name.as_str()), event);
                let provider = joined.provider.as_deref().unwrap_or_default();
                self.join(name, provider, event);
            }
            EventKind::MemberLeft(left) => {
                let name = or_actor(Some(left.name.as_str()), event);
                self.members.retain(|known| known != name);
                self.worker(name).enter(WorkerPhase::Left, event);
            }
            EventKind::SignalShutdown(sent) => {
                self.worker(or_actor(Some(sent.worker.as_str()), event))
                    .asked_to = Some("shutdown");
            }
            EventKind::SignalDrain(sent) => {
                self.worker(or_actor(Some(sent.worker.as_str()), event))
                    .asked_to = Some("drain");
            }
            EventKind::AgentEvent(_) => {
                self.worker(event.actor.as_str()).last_event_at = Some(event.ts);
            }
            EventKind::HookReceived(_) | EventKind::MessageSent(_) | EventKind::FindingAdded(_) => {
                self.is_active(event.actor.as_str(), event);
            }
            EventKind::WorkerProgress(progress) => {
                self.is_active(event.actor.as_str(), event);
                if let Some(worker) = self.workers.get_mut(event.actor.as_str()) {
                    worker.progress = worker.holds.as_ref().map(|_| progress.clone());
                }
            }
            _ => {
                if let Some(about) = AboutWorker::of(what) {
                    let name = or_actor(about.worker, event);
                    self.worker(name).apply_event(event, what, &about);
                }
            }
        }
    }

    /// Applies an event about a task, its merge, or the worker that has it.
    fn task_event(&mut self, event: &Event, what: &EventKind) {
        let Some(id) = &event.task_id else { return };
        let task = self.tasks.entry(id.clone()).or_default();
        match what {
            EventKind::TaskCreated(TaskChange {
                subject: Some(subject),
                ..
            })
            | EventKind::TaskUpdated(TaskChange {
                subject: Some(subject),
                ..
            }) => task.subject.clone_from(subject),
            // The first version also recorded a merge when there was no commit to merge.
            EventKind::MergeMerged(merged) => {
                task.is_merged = merged.commit.is_some();
                task.is_unchanged = !task.is_merged;
            }
            EventKind::MergeLost(_) => task.is_merged = false,
            EventKind::TaskUnchanged(_) => task.is_unchanged = true,
            EventKind::MergeConflict(conflict) => {
                task.conflicts += 1;
                task.is_given_up |= conflict.is_final;
            }
            _ => {}
        }
        if event.kind.starts_with(crate::event::family::TASK) {
            self.is_active(event.actor.as_str(), event);
        }
        let Some(end) = end_of_attempt(what) else {
            return;
        };
        let task = self.tasks.entry(id.clone()).or_default();
        if let Some(holder) = task.holder.take()
            && let Some(worker) = self.workers.get_mut(&holder)
        {
            worker.release(id, end, event);
        }
        let is_claimed = matches!(what, EventKind::TaskClaimed(_));
        if is_claimed {
            task.attempts += 1;
            task.last_worker = Some(event.actor.to_string());
            task.holder = Some(event.actor.to_string());
            let subject = task.subject.clone();
            self.worker(event.actor.as_str()).claim(id, subject, event);
        }
    }
}

/// Returns how an event ends an attempt at a task, or `None` when the attempt continues.
pub(crate) fn end_of_attempt(what: &EventKind) -> Option<SpanEnd> {
    match what {
        EventKind::TaskClaimed(_)
        | EventKind::TaskReleased(_)
        | EventKind::TaskBlocked(_)
        | EventKind::TaskDeleted(_) => Some(SpanEnd::Released),
        EventKind::TaskCompleted(_) => Some(SpanEnd::Completed),
        EventKind::TaskFailed(_) => Some(SpanEnd::Failed),
        EventKind::TaskRequeued(_) => Some(SpanEnd::Requeued),
        // Another program may have ended it with a plain update.
        EventKind::TaskUpdated(change) => match change.to {
            Some(Status::Completed) => Some(SpanEnd::Completed),
            Some(Status::Pending) => Some(SpanEnd::Released),
            Some(Status::InProgress) | None => None,
        },
        _ => None,
    }
}

impl WorkerState {
    /// Returns how long it has had a task up to this time.
    pub fn busy(&self, now: Time) -> Duration {
        let open = self.spans.iter().filter(|span| span.to.is_none());
        open.fold(self.busy, |busy, span| {
            busy.saturating_add(now.since(span.from))
        })
    }

    /// Returns whether this is a worker. People and the system are actors, too.
    pub fn is_worker(&self) -> bool {
        !self.spans.is_empty() || !self.marks.is_empty()
    }

    fn enter(&mut self, phase: WorkerPhase, event: &Event) {
        if self.phase != phase || phase == WorkerPhase::Working {
            self.since = Some(event.ts);
        }
        self.phase = phase;
    }

    fn claim(&mut self, id: &TaskId, subject: String, event: &Event) {
        self.attempts += 1;
        self.holds = Some(id.clone());
        self.enter(WorkerPhase::Working, event);
        self.last_event_at = Some(event.ts);
        self.spans.push(Span {
            task_id: id.clone(),
            subject,
            seq: event.seq,
            from: event.ts,
            to: None,
            end: SpanEnd::Open,
        });
        shorten(&mut self.spans, MOST_SPANS);
    }

    /// Records whether its agent waits for an answer.
    fn wait_for_answer(&mut self, is_waiting: bool, event: &Event) {
        self.last_event_at = Some(event.ts);
        match (self.phase, is_waiting) {
            (WorkerPhase::Working, true) => self.enter(WorkerPhase::Waiting, event),
            (WorkerPhase::Waiting, false) => self.enter(WorkerPhase::Working, event),
            _ => {}
        }
    }

    fn release(&mut self, id: &TaskId, end: SpanEnd, event: &Event) {
        let mut spans = self.spans.iter_mut().rev();
        if let Some(span) = spans.find(|span| span.to.is_none() && span.task_id == *id) {
            span.to = Some(event.ts);
            span.end = end;
            self.busy = self.busy.saturating_add(event.ts.since(span.from));
        }
        if self.holds.as_ref() == Some(id) {
            self.holds = None;
            self.progress = None;
            if matches!(
                self.phase,
                WorkerPhase::Working | WorkerPhase::Waiting | WorkerPhase::Limited
            ) {
                self.enter(WorkerPhase::Idle, event);
            }
        }
        match end {
            SpanEnd::Completed => {
                self.completed += 1;
                self.failed_in_a_row = 0;
                self.verdict = None;
            }
            SpanEnd::Failed => {
                self.failed += 1;
                self.failed_in_a_row += 1;
            }
            _ => {}
        }
    }

    /// Applies an event about the worker itself.
    fn apply_event(&mut self, event: &Event, what: &EventKind, about: &AboutWorker<'_>) {
        let AboutWorker {
            evidence,
            codes,
            reason,
            ..
        } = *about;
        let said = |verdict: Verdict| {
            let mut words = evidence.to_vec();
            if words.is_empty() {
                words.push(if reason.is_empty() {
                    event.kind.clone()
                } else {
                    reason.to_owned()
                });
            }
            Some((verdict, words, codes.clone()))
        };
        match what {
            EventKind::WorkerSpawned(_) => {
                self.verdict = None;
                self.asked_to = None;
                self.failed_in_a_row = 0;
                self.enter(WorkerPhase::Spawning, event);
            }
            EventKind::WorkerStarted(_) => {
                self.verdict = None;
                self.last_event_at = Some(event.ts);
                let phase = match self.holds {
                    Some(_) => WorkerPhase::Working,
                    None => WorkerPhase::Idle,
                };
                self.enter(phase, event);
            }
            EventKind::WorkerStopped(_) => {
                self.verdict = None;
                self.asked_to = None;
                self.enter(WorkerPhase::Stopped, event);
            }
            EventKind::WorkerDead(_) => {
                self.verdict = said(Verdict::Dead);
                self.enter(WorkerPhase::Dead, event);
            }
            EventKind::WorkerHung(_) | EventKind::WorkerBeatLost(_) => {
                self.verdict = said(Verdict::Hung);
            }
            EventKind::WorkerSilent(_) => self.verdict = said(Verdict::Silent),
            EventKind::WorkerQuarantined(_) => {
                self.verdict = said(Verdict::Quarantined);
                self.enter(WorkerPhase::Quarantined, event);
            }
            EventKind::WorkerResumed(_) => {
                self.verdict = None;
                self.failed_in_a_row = 0;
                self.enter(WorkerPhase::Idle, event);
            }
            EventKind::WorkerPaused(paused) => {
                let phase = match paused.limit {
                    Some(_) => WorkerPhase::Limited,
                    None => WorkerPhase::Paused,
                };
                self.limit.clone_from(&paused.limit);
                self.enter(phase, event);
            }
            EventKind::WorkerRestarted(_) => self.enter(WorkerPhase::Spawning, event),
            _ => {}
        }
        let (words, words_codes) = if reason.is_empty() {
            (evidence.join(", "), codes.to_vec())
        } else {
            (reason.to_owned(), Vec::new())
        };
        self.marks.push(Mark {
            seq: event.seq,
            at: event.ts,
            what: event.kind.clone(),
            words,
            words_codes,
        });
        shorten(&mut self.marks, MOST_MARKS);
    }
}

/// What an event says about a worker.
struct AboutWorker<'a> {
    /// The worker, if it is named; otherwise it is the event's actor.
    worker: Option<&'a str>,
    evidence: &'a [String],
    codes: &'a PhraseKeys,
    reason: &'a str,
}

impl<'a> AboutWorker<'a> {
    /// Returns what an event says about a worker, or `None` when it is about something else.
    fn of(what: &'a EventKind) -> Option<Self> {
        const NONE: &PhraseKeys = &PhraseKeys::none();
        let about = |worker: Option<&'a str>, reason: &'a str| Self {
            worker,
            evidence: &[],
            codes: NONE,
            reason,
        };
        Some(match what {
            EventKind::WorkerSpawned(_)
            | EventKind::WorkerStarted(_)
            | EventKind::WorkerResumed(_) => about(None, ""),
            EventKind::WorkerLaunchFailed(failed) => about(None, &failed.reason),
            EventKind::WorkerPaused(paused) => about(None, &paused.reason),
            EventKind::WorkerQuarantined(told) => Self {
                evidence: &told.evidence,
                codes: &told.evidence_codes,
                ..about(told.worker.as_deref(), &told.reason)
            },
            EventKind::WorkerStopped(told) => about(told.worker.as_deref(), &told.reason),
            EventKind::WorkerDead(told)
            | EventKind::WorkerHung(told)
            | EventKind::WorkerSilent(told)
            | EventKind::WorkerBeatLost(told) => {
                let reason = told.reason.as_deref().unwrap_or_default();
                Self {
                    evidence: &told.evidence,
                    codes: &told.evidence_codes,
                    ..about(told.worker.as_deref(), reason)
                }
            }
            EventKind::WorkerRestarted(told) => about(Some(&told.worker), ""),
            _ => return None,
        })
    }
}

/// Returns the worker that an event is about: the named one, otherwise the event's actor.
pub(crate) fn worker_of<'a>(event: &'a Event, what: &'a EventKind) -> &'a str {
    or_actor(AboutWorker::of(what).and_then(|about| about.worker), event)
}

/// Returns the given name, or that of the event's actor.
fn or_actor<'a>(name: Option<&'a str>, event: &'a Event) -> &'a str {
    match name {
        Some(name) if !name.is_empty() => name,
        _ => event.actor.as_str(),
    }
}

fn shorten<T>(list: &mut Vec<T>, most: usize) {
    if list.len() > most {
        list.drain(..list.len() - most);
    }
}
