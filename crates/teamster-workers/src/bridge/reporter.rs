//! Everything a bridge reports: events in the journal, messages to the lead, lines on its own output, and the log of
//! each task.
//!
//! A failed report never stops the work: the failure is only printed on the bridge's own output.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use teamster_agents::{AgentEvent, AgentSpending, PermissionDecision, PermissionReply};
use teamster_fs::{Dir, Durability, FsError, layout};
use teamster_isolate::OrTrace as _;
use teamster_isolate::git::{SecretFile, SecretReason};
use teamster_journal::payload::{
    AgentAction, AgentEventRecorded, SecretKept, WorkerLaunchFailed, WorkerSecretsKept,
};
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{OutgoingMessage, Recipient, Signal, Store};
use teamster_types::json::Object;
use teamster_types::redact::{LineRedactor, redact};
use teamster_types::text::{clean, shown};
use teamster_types::{TaskId, TeamName, Time, WorkerName};

use crate::alerts::EndAlerts;
use crate::ask::usage_event;

/// Minor events of an agent are recorded at most this often; its log has all of them.
const MINOR_EVENTS: Duration = Duration::from_secs(2);
/// The longest text in an event of an agent, in characters.
const EVENT_TEXT: usize = 200;
/// The longest reason of a failed launch in the journal, in characters.
const LAUNCH_REASON: usize = 4_000;

/// Who a worker is.
#[derive(Clone, Debug)]
pub(super) struct WorkerIdentity {
    /// The worker's team.
    pub(super) team: TeamName,
    /// The worker's name.
    pub(super) name: WorkerName,
    /// The provider of the worker's agent, as the user wrote it.
    pub(super) provider: String,
    /// The id of this launch of the worker.
    pub(super) launch: String,
}

fn secret_kept(file: &SecretFile) -> SecretKept {
    let (pattern, line) = match file.reason {
        SecretReason::Denied(pattern) => (Some(pattern.to_owned()), None),
        SecretReason::Key { line } => (None, Some(line)),
    };
    SecretKept {
        path: file.path.display().to_string(),
        pattern,
        line,
        kept: file.kept.as_ref().map(|kept| kept.display().to_string()),
    }
}

/// Reports on behalf of one worker.
pub(super) struct Reporter {
    store: Arc<dyn Store>,
    identity: WorkerIdentity,
    alerts: EndAlerts,
    output: Box<dyn FnMut(&str) + Send>,
    last_minor_event: Option<Instant>,
}

impl Reporter {
    /// Creates the reporter of a worker; `output` prints a line to the worker's pane or log.
    pub(super) fn new(
        store: Arc<dyn Store>,
        identity: WorkerIdentity,
        alerts: EndAlerts,
        output: Box<dyn FnMut(&str) + Send>,
    ) -> Self {
        Self {
            store,
            identity,
            alerts,
            output,
            last_minor_event: None,
        }
    }

    /// Returns where the ends of workers are recorded.
    pub(super) fn alerts(&self) -> &EndAlerts {
        &self.alerts
    }

    /// Returns the store that the worker belongs to.
    pub(super) fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Returns who the worker is.
    pub(super) fn identity(&self) -> &WorkerIdentity {
        &self.identity
    }

    /// Returns the worker's team.
    pub(super) fn team(&self) -> &TeamName {
        &self.identity.team
    }

    /// Returns the worker's name.
    pub(super) fn name(&self) -> &WorkerName {
        &self.identity.name
    }

    /// Prints a line to the worker's pane or log.
    pub(super) fn say(&mut self, text: &str) {
        tracing::info!("{text}");
        (self.output)(text);
    }

    /// Shows the agent's output where the worker's own output goes.
    pub(super) fn show(&mut self, text: &str) {
        (self.output)(text);
    }

    /// Returns an event of this worker.
    pub(super) fn event(&self, kind: EventKind) -> NewEvent {
        NewEvent::new(self.identity.name.as_str(), kind)
    }

    /// Records an event of this worker; returns its position if that succeeded.
    pub(super) fn record(&mut self, event: NewEvent) -> Option<u64> {
        match self.store.record(&self.identity.team, event) {
            Ok(seq) => Some(seq),
            Err(error) => {
                self.say(&format!("cannot record an event: {error}"));
                None
            }
        }
    }

    /// Sends a message to the lead.
    pub(super) fn send_to_lead(&mut self, kind: &str, content: &str, extra: Object) {
        self.send(Recipient::Lead, kind, content, extra);
    }

    /// Sends a message to another worker. A failure is printed.
    pub(super) fn send_to_worker(&mut self, to: &WorkerName, content: &str, extra: Object) {
        self.send(Recipient::Worker(to.to_string()), "message", content, extra);
    }

    fn send(&mut self, to: Recipient, kind: &str, content: &str, extra: Object) {
        let outgoing = OutgoingMessage {
            from: self.identity.name.to_string(),
            to,
            kind: kind.to_owned(),
            content: content.to_owned(),
            extra,
        };
        if let Err(error) = self.store.send(&self.identity.team, &outgoing) {
            self.say(&format!("cannot send a message: {error}"));
        }
    }

    /// Records an event of an agent on a task if it is recordable; returns the position of the recorded event.
    pub(super) fn record_agent_event(&mut self, task: &TaskId, event: &AgentEvent) -> Option<u64> {
        let recordable = RecordableEvent::of(event)?;
        if !recordable.always && !self.is_time_for_minor_event() {
            return None;
        }
        let recorded = self.event(EventKind::AgentEvent(AgentEventRecorded {
            what: recordable.action,
            request: recordable.request,
            text: shown(&recordable.text, EVENT_TEXT),
            ..AgentEventRecorded::default()
        }));
        self.record(recorded.task(task))
    }

    /// Records the decision about a request of an agent.
    pub(super) fn record_reply(&mut self, task: &TaskId, decided: &DecidedRequest<'_>) {
        let DecidedRequest {
            request,
            what,
            by,
            reply,
            words,
        } = decided;
        let reason = match reply {
            PermissionReply::Allow => None,
            PermissionReply::Deny(reason) => Some(shown(reason, EVENT_TEXT)),
        };
        // The decision must fit, however long the request is.
        let what = shown(what, EVENT_TEXT / 2);
        let recorded = self.event(EventKind::AgentEvent(AgentEventRecorded {
            what: AgentAction::Answered,
            request: Some((*request).to_owned()),
            allowed: Some(reason.is_none()),
            by: Some((*by).to_owned()),
            reason,
            text: shown(&format!("{what}: {words}"), EVENT_TEXT),
        }));
        self.record(recorded.task(task));
    }

    /// Records files that must not be committed, reports them to the lead, and returns their description.
    pub(super) fn record_secrets(&mut self, task: Option<&TaskId>, files: &[SecretFile]) -> String {
        let words: Vec<String> = files.iter().map(ToString::to_string).collect();
        let told = words.join("; ");
        self.say(&format!("not to be committed: {told}"));
        let event = self.event(EventKind::WorkerSecretsKept(WorkerSecretsKept {
            files: files.iter().map(secret_kept).collect(),
        }));
        self.record(match task {
            Some(task) => event.task(task),
            None => event,
        });
        told
    }

    /// Records that this launch of a task's agent failed.
    pub(super) fn record_failed_launch(&mut self, task: &TaskId, launch: u32, reason: &str) {
        self.say(&format!("the agent did not start: {reason}"));
        let failed = EventKind::WorkerLaunchFailed(WorkerLaunchFailed {
            launch,
            reason: clean(reason, LAUNCH_REASON).into_owned(),
        });
        let event = self.event(failed).task(task);
        self.record(event);
    }

    /// Records the usage of an agent for a task, if it is known.
    pub(super) fn record_usage(
        &mut self,
        task: &TaskId,
        model: Option<&str>,
        spent: &AgentSpending,
    ) {
        if spent.usage.is_none() && spent.cost_usd.is_none() {
            return;
        }
        let WorkerIdentity { name, provider, .. } = &self.identity;
        let event = usage_event(name.as_str(), provider, model, spent);
        self.record(event.task(task));
    }

    /// Acknowledges a stop request.
    pub(super) fn acknowledge_stop(&mut self, stop: &Signal) {
        let kind = if stop.drain {
            "drain_ack"
        } else {
            "shutdown_ack"
        };
        let mut extra = Object::new();
        extra.insert("requestId".into(), stop.request_id.clone().into());
        extra.insert("approve".into(), true.into());
        extra.insert("reason".into(), stop.reason.clone().into());
        self.send_to_lead(kind, "", extra);
    }

    fn is_time_for_minor_event(&mut self) -> bool {
        let is_time = self
            .last_minor_event
            .is_none_or(|last| last.elapsed() >= MINOR_EVENTS);
        if is_time {
            self.last_minor_event = Some(Instant::now());
        }
        is_time
    }
}

/// A request of an agent with the decision about it.
pub(super) struct DecidedRequest<'a> {
    /// The id of the request.
    pub(super) request: &'a str,
    /// What the agent wanted to do.
    pub(super) what: &'a str,
    /// Who decided.
    pub(super) by: &'a str,
    /// What was decided.
    pub(super) reply: &'a PermissionReply,
    /// The decision in words.
    pub(super) words: &'a str,
}

/// The part of an agent's event that is recorded.
struct RecordableEvent {
    action: AgentAction,
    text: String,
    /// Whether the event is recorded however recently another one was.
    always: bool,
    /// The request that a person has to decide.
    request: Option<String>,
}

impl RecordableEvent {
    /// Returns the part of an event that is recorded, or `None` when it goes only to the log.
    fn of(event: &AgentEvent) -> Option<Self> {
        let mut asked = None;
        let (action, text, always) = match event {
            AgentEvent::ToolUse { tool, detail, .. } => {
                (AgentAction::Tool, format!("{tool} {detail}"), false)
            }
            AgentEvent::PermissionAsked {
                request,
                tool,
                detail,
                decision,
            } => match decision {
                PermissionDecision::Allowed => {
                    (AgentAction::Allowed, format!("{tool} {detail}"), false)
                }
                PermissionDecision::Denied { reason } => (
                    AgentAction::Denied,
                    format!("{tool} {detail}: {reason}"),
                    true,
                ),
                PermissionDecision::Asked => {
                    asked = Some(request.clone());
                    (AgentAction::Asked, format!("{tool} {detail}"), true)
                }
            },
            AgentEvent::Error { message, .. } => (AgentAction::Error, message.clone(), true),
            AgentEvent::Finished { summary, .. } => (AgentAction::Finished, summary.clone(), true),
            _ => return None,
        };
        Some(Self {
            action,
            text,
            always,
            request: asked,
        })
    }
}

/// Where a line of a task's log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskLogSource {
    /// The agent's standard output.
    Agent,
    /// The agent's standard error.
    Stderr,
    /// The bridge itself.
    Bridge,
}

impl TaskLogSource {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Stderr => "stderr",
            Self::Bridge => "teamster",
        }
    }
}

/// The log of one task: the whole output of its agent, redacted. It is rotated so that it cannot grow without bound.
#[derive(Debug)]
pub(super) struct TaskLog {
    /// The folder of the log, or `None` when the log could not be opened and nothing is logged.
    folder: Option<Dir>,
    task: TaskId,
    limit: u64,
    /// One redactor for each [`TaskLogSource`].
    redactors: [LineRedactor; 3],
}

impl TaskLog {
    /// Opens the log of a task, which continues what an earlier attempt wrote.
    pub(super) fn open(project: &Dir, reporter: &mut Reporter, task: &TaskId, limit: u64) -> Self {
        let folder = log_folder(project, reporter.identity());
        if let Err(error) = &folder {
            reporter.say(&format!("cannot keep a log: {error}"));
        }
        Self {
            folder: folder.ok(),
            task: task.clone(),
            limit,
            redactors: Default::default(),
        }
    }

    /// Adds a line of the bridge itself.
    pub(super) fn note(&mut self, now: Time, text: &str) {
        let line = json!({ "teamster": text }).to_string();
        let _ = self.line(now, TaskLogSource::Bridge, line.as_bytes(), None);
    }

    /// Adds a line; `shown` is its human-readable form, if that is known. A line that cannot be written is lost, because
    /// logging must not stop the work. Returns the human-readable form, redacted.
    pub(super) fn line(
        &mut self,
        now: Time,
        source: TaskLogSource,
        line: &[u8],
        shown: Option<&str>,
    ) -> Option<String> {
        let text = String::from_utf8_lossy(line);
        let text = self.redactors[source as usize].line(&text)?.into_owned();
        // JSON output of the client stays JSON; any other line becomes a text.
        let is_event = text.trim_start().starts_with('{')
            && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        let shown = shown.map(|shown| redact(shown).into_owned());
        self.append(now, source, &text, is_event, shown.as_deref())
            .or_trace("write the log of a task");
        shown.or_else(|| (!is_event).then_some(text))
    }

    fn append(
        &self,
        now: Time,
        source: TaskLogSource,
        text: &str,
        is_event: bool,
        shown: Option<&str>,
    ) -> Result<(), FsError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let (key, value) = if is_event {
            ("event", text.trim().to_owned())
        } else {
            ("text", serde_json::Value::from(text).to_string())
        };
        let word = source.word();
        let shown = shown.map(serde_json::Value::from);
        let shown = shown.map_or_else(String::new, |shown| format!(",\"shown\":{shown}"));
        let entry = format!("{{\"ts\":\"{now}\",\"from\":\"{word}\",\"{key}\":{value}{shown}}}\n");
        let name = layout::task_log(&self.task);
        let size = folder.append(&name, entry.as_bytes(), Durability::Fast)?;
        if size >= self.limit {
            folder.rename(&name, folder, &layout::old_task_log(&self.task))?;
        }
        Ok(())
    }
}

fn log_folder(project: &Dir, identity: &WorkerIdentity) -> Result<Dir, FsError> {
    let folder = project.child_or_create(layout::OMC)?;
    folder.descend_or_create(&layout::log_folders(&identity.team, &identity.name))
}
