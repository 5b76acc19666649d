//! Handles `teamster hook EVENT`: turns the client's payload into a change of the state and a response.
//!
//! ```text
//! payload ──► who is it? (registry, panes) ──► operations on the state ──► one line of JSON
//!                                          └─► zombie record, journal
//! ```
//!
//! The client waits for its hooks, so nothing here waits for long and nothing fails: an error goes to the log, and the
//! response lets the agent go on.
//!
//! - [`run`] chooses the handler of an event; `HookCall` holds one handler for each event and the steps they share;
//! - [`HookPayload`] reads the fields of any version of the client, and `HookActor` is the agent it is about;
//! - `alert` records the end of a teammate;
//! - `unfinished` tells a new session about a run of its project that is not over.

mod alert;
mod payload;
mod unfinished;

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_fs::Sync;
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_journal::payload::HookReceived;
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{FileStore, Read as _, Settings, Store as _, StoreError, SystemClock};
use teamster_types::team::TeamOrigin;
use teamster_types::{TeamName, Time};

use crate::native::{InboxNote, NativeRegistry, TaskFolder, pdca, structured};
use crate::state::{Begin, Effect, Op, StateChange, StateError, States, Status, TeammateRow};
use crate::state::{LONGEST_TASK, LONGEST_TEXT};
use alert::TeammateEnd;
use payload::{ActorKind, HookActor};
use teamster_types::text::shown_line;

pub use payload::HookPayload;

/// Limits the time that any hook takes.
pub const LONGEST: Duration = Duration::from_millis(1_800);
/// Limits the time of a hook at the end of a session, where all hooks of the client share 1.5 s.
pub const LONGEST_AT_END: Duration = Duration::from_millis(400);

/// Holds what a hook is called with besides its payload.
#[derive(Clone, Debug)]
pub struct HookContext {
    /// The folders of the client and of the project.
    pub layout: Layout,
    /// The time of day.
    pub now: Time,
    /// When the hook began.
    pub began: Instant,
    /// The value of `TMUX_PANE`.
    pub pane: Option<String>,
    /// The client's process, from `CLAUDE_PID`.
    pub client: Option<u32>,
    /// The worker of ours whose agent calls the hook, from `TEAMSTER_WORKER`.
    pub worker: Option<String>,
    /// The team of that worker, from `TEAMSTER_TEAM`.
    pub team: Option<String>,
    /// Whether anything may be written (`team.enabled`).
    pub writes: bool,
}

/// Holds what a hook says, and to whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookResponse {
    /// One JSON object for the client.
    pub stdout: Option<String>,
    /// Lines for the client's error stream.
    pub stderr: Vec<String>,
    /// Lines for the debug log (`TEAMSTER_DEBUG`).
    pub log: Vec<String>,
    /// What the caller does before it gives the response to the client.
    pub follow_up: Option<FollowUp>,
}

/// The part of a hook that needs more than this crate has: removing teams that are over. The caller does it, and then
/// completes the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// A session began. Stale teams may be removed; afterwards the response is completed by [`add_unfinished_run`].
    SessionStarted {
        /// Whether anything may be removed.
        may_sweep: bool,
    },
    /// This session ended for good. The team that it led may be removed.
    SessionEnded {
        /// The id of the session.
        session: String,
    },
}

/// Adds to the response at the start of a session what it is told about a run that is not over. It is called after the
/// sweep: a run whose team was just removed is not mentioned.
pub fn add_unfinished_run(response: &mut HookResponse, context: &HookContext) {
    match unfinished::run_of(context) {
        Ok(run) => response.stdout = run.map(|text| context_response("SessionStart", &text)),
        Err(error) => response.log.push(format!(
            "SessionStart: nobody knows whether a run is unfinished: {error}"
        )),
    }
}

/// Handles one call of a hook. It never fails: what cannot be done is in the log of the response.
pub fn run(event: &str, input: &[u8], context: &HookContext) -> HookResponse {
    let payload = match HookPayload::parse(input) {
        Ok(payload) => payload,
        Err(error) => {
            return HookResponse {
                stdout: fallback_response(event),
                log: vec![format!("{event}: the payload is unusable: {error}")],
                ..HookResponse::default()
            };
        }
    };
    let event = match event {
        "" => payload.text("hook_event_name").unwrap_or_default(),
        event => event,
    };
    let mut hook = HookCall::new(event, &payload, context);
    if context.worker.is_some() {
        hook.journal_as_worker();
        return hook.respond(fallback_response(event));
    }
    let stdout = match event {
        "SubagentStart" => Some(hook.subagent_start()),
        "SubagentStop" => Some(hook.subagent_stop()),
        "PreToolUse" | "PostToolUse" => hook.tool_use(),
        "TeammateIdle" => Some(hook.teammate_idle()),
        "TaskCreated" => Some(hook.task_created()),
        "TaskCompleted" => Some(hook.task_completed()),
        "Notification" => hook.notification(),
        "Stop" => hook.stop(),
        "SessionStart" => hook.session_start(),
        "SessionEnd" => hook.session_end(),
        _ => {
            hook.journal_other();
            None
        }
    };
    hook.respond(stdout)
}

/// Holds one call of a hook: what came, what was found out about it so far, and what is said.
struct HookCall<'a> {
    event: &'a str,
    payload: &'a HookPayload,
    context: &'a HookContext,
    registry: OnceCell<Option<NativeRegistry>>,
    actor: OnceCell<HookActor>,
    said: HookResponse,
}

impl<'a> HookCall<'a> {
    fn new(event: &'a str, payload: &'a HookPayload, context: &'a HookContext) -> Self {
        Self {
            event,
            payload,
            context,
            registry: OnceCell::new(),
            actor: OnceCell::new(),
            said: HookResponse::default(),
        }
    }

    fn respond(mut self, stdout: Option<String>) -> HookResponse {
        self.said.stdout = stdout;
        self.said
    }

    fn registry(&self) -> Option<&NativeRegistry> {
        self.registry
            .get_or_init(|| NativeRegistry::open(&self.context.layout.claude))
            .as_ref()
    }

    fn actor(&self) -> &HookActor {
        self.actor
            .get_or_init(|| HookActor::find(self.payload, self.registry(), self.context))
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.said.log.push(format!("{}: {text}", self.event));
    }
}

impl HookCall<'_> {
    fn subagent_start(&mut self) -> String {
        let ops = vec![self.ensure(), Op::Start(self.row())];
        self.change(ops);
        started_response(self.actor())
    }

    fn subagent_stop(&mut self) -> String {
        let status = match self.payload.integer("exit_code") {
            None | Some(0) => Status::Completed,
            Some(_) => Status::Failed,
        };
        let mut ops = vec![self.status(status)];
        ops.extend(self.progress(None, None));
        ops.extend(self.inboxes());
        let effects = self.change(ops);
        let is_known = matches!(
            effects.first(),
            Some(Effect::Changed | Effect::Nothing | Effect::Refused { .. })
        );
        // Compaction ends an agent that nobody has seen begin.
        if self.payload.is_blank("agent_type") && !is_known {
            return continue_response();
        }
        self.record_end();
        stopped_response(self.actor(), status)
    }

    fn teammate_idle(&mut self) -> String {
        let mut ops = vec![self.status(Status::Idle)];
        ops.extend(self.progress(None, None));
        ops.extend(self.inboxes());
        self.change(ops);
        let name = &self.actor().name;
        let next = self.tasks().and_then(|tasks| {
            let task = tasks.next_for(name)?;
            let subject = shown_line(task.subject(), LONGEST_TASK);
            Some(format!("Next task for {name}: {} {subject}", task.id()))
        });
        next.map_or_else(empty_response, |text| message_response(&text))
    }

    fn task_created(&mut self) -> String {
        let id = self.payload.id("task_id");
        let ops = self.progress(id.as_deref(), None);
        self.change(ops);
        empty_response()
    }

    fn task_completed(&mut self) -> String {
        let id = self.payload.id("task_id");
        let mut ops = self.progress(None, id.as_deref());
        if self.actor().has_row() {
            ops.push(self.status(Status::Idle));
        }
        if let Some(status) = pdca(&self.context.layout)
            && let Some(phase) = status.phase
        {
            ops.push(Op::Phase {
                feature: status.feature,
                phase,
            });
        }
        let changed = self
            .change(ops)
            .into_iter()
            .find_map(|effect| match effect {
                Effect::Phase { from, to } => Some(format!(
                    "Phase {} → {} (auto-advanced)",
                    from.as_str(),
                    to.as_str()
                )),
                _ => None,
            });
        changed.map_or_else(empty_response, |text| message_response(&text))
    }

    fn notification(&mut self) -> Option<String> {
        if self.payload.text("notification_type") == Some("worker_permission_prompt")
            && let Some(notice) = self.payload.text("message")
        {
            let notice = notice.to_owned();
            self.change(vec![Op::Wait { notice }]);
        }
        None
    }

    fn stop(&mut self) -> Option<String> {
        // Only the lead's Stop ends a session.
        if self.actor().has_row() {
            let ops = vec![self.status(Status::Idle)];
            self.change(ops);
            return None;
        }
        let team = self.actor().team.as_ref();
        let is_somebody_left = self.payload.has_background_tasks()
            || team.is_some_and(|team| team.teammates().next().is_some());
        let mut ops = self.progress(None, None);
        ops.extend(self.inboxes());
        if is_somebody_left {
            ops.push(Op::Status {
                name: self.actor().lead_name().to_owned(),
                status: Status::Idle,
                task: None,
                task_id: None,
            });
            ops.push(Op::Touch);
        } else {
            ops.push(Op::CleanUp);
        }
        self.change(ops);
        None
    }

    fn session_start(&mut self) -> Option<String> {
        if self.actor().kind == ActorKind::Pane {
            let ops = vec![self.ensure(), Op::Join(self.row())];
            self.change(ops);
            return None;
        }
        let dead = self.dead_session();
        self.change(vec![Op::EndDead { dead }]);
        let may_sweep = self.may_sweep();
        self.said.follow_up = Some(FollowUp::SessionStarted { may_sweep });
        None
    }

    fn session_end(&mut self) -> Option<String> {
        if self.actor().kind == ActorKind::Pane {
            let ops = vec![self.status(Status::Completed)];
            self.change(ops);
            self.record_end();
            return None;
        }
        self.change(vec![Op::CleanUp]);
        // A session that is cleared or resumed goes on under another id, and its team with it.
        let goes_on = matches!(self.payload.text("reason"), Some("clear" | "resume"));
        if let Some(session) = self.payload.text("session_id").filter(|_| !goes_on) {
            let session = session.to_owned();
            self.said.follow_up = self
                .may_sweep()
                .then_some(FollowUp::SessionEnded { session });
        }
        None
    }

    /// Records a hook of one of our own workers' agents; everything else about it is told by its bridge.
    fn journal_as_worker(&mut self) {
        let team = self.context.team.clone();
        self.journal(team.as_deref(), None);
    }

    fn journal_other(&mut self) {
        let team = self.active_team();
        self.journal(team.as_deref(), None);
    }

    fn tool_use(&mut self) -> Option<String> {
        let is_done = self.event == "PostToolUse";
        let mut ops = Vec::new();
        match self.payload.text("tool_name").unwrap_or_default() {
            "Agent" | "Task" => ops.extend(self.spawns(is_done)),
            "SendMessage" if is_done => {
                ops.extend(self.acts());
                ops.extend(self.says());
            }
            "TaskCreate" | "TaskUpdate" if is_done => {
                ops.extend(self.takes_a_task().or_else(|| self.acts()));
                ops.extend(self.progress(None, None));
                // Whoever gets a task is told by the client, with no tool that would tell us.
                let assigned = |note: &InboxNote| note.kind.as_deref() == Some("task_assignment");
                ops.extend(self.notes(assigned));
            }
            _ => ops.extend(self.acts()),
        }
        self.change(ops);
        None
    }

    /// Marks an agent that uses a tool as working.
    fn acts(&self) -> Option<Op> {
        self.actor().has_row().then(|| Op::Act {
            name: self.actor().name.clone(),
            task: None,
            task_id: None,
        })
    }

    /// Adds the agent that a tool call spawns. The payload is about the spawned agent, not the one that spawns it.
    fn spawns(&self, is_done: bool) -> Vec<Op> {
        let response = |key: &str| self.payload.inner("tool_response", key);
        let task = self.payload.inner("tool_input", "prompt");
        let task = task.map(str::to_owned);
        let name = self
            .payload
            .inner("tool_input", "name")
            .or(response("name"));
        if is_done
            && response("status") == Some("teammate_spawned")
            && let Some(name) = name
        {
            let role = response("agent_type").or(self.payload.inner("tool_input", "subagent_type"));
            let row = TeammateRow {
                name: name.to_owned(),
                role: role.unwrap_or("agent").to_owned(),
                model: self.actor().model,
                task,
                task_id: None,
            };
            let mut ops = vec![self.ensure(), Op::Join(row)];
            // A teammate in a pane gets its prompt as a message, and takes it out of its inbox at once.
            let prompt = self.payload.inner("tool_input", "prompt");
            ops.extend(self.notes(|note| note.to == name && Some(note.content.as_str()) == prompt));
            return ops;
        }
        // A plain subagent is known by its id, which only the response of the tool tells.
        let id = response("agentId").or(response("agent_id"));
        [name, id]
            .into_iter()
            .flatten()
            .map(|name| Op::Act {
                name: name.to_owned(),
                task: task.clone(),
                task_id: None,
            })
            .collect()
    }

    fn says(&self) -> Option<Op> {
        let input = |key: &str| self.payload.inner("tool_input", key);
        let routing = |key: &str| {
            let routing = self.payload.value("tool_response", "routing")?;
            routing.get(key)?.as_str()
        };
        let content = match self.payload.value("tool_input", "message") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(message @ Value::Object(_)) => structured(message),
            _ => input("content").or(routing("content")).map(str::to_owned),
        }?;
        let actor = self.actor();
        let from = if actor.has_row() {
            &actor.name
        } else {
            routing("sender").unwrap_or_else(|| actor.lead_name())
        };
        let to = input("to")
            .or(input("recipient"))
            .or(routing("target").map(|target| target.trim_start_matches('@')));
        Some(Op::Message {
            from: from.to_owned(),
            to: to.unwrap_or_default().to_owned(),
            content,
            timestamp: None,
        })
    }

    /// Notes the task that a teammate says it has begun.
    fn takes_a_task(&self) -> Option<Op> {
        let begins = self.payload.inner("tool_input", "status") == Some("in_progress");
        if !begins || !self.actor().has_row() {
            return None;
        }
        let id = self.payload.inner_id("tool_input", "taskId")?;
        let tasks = self.tasks();
        let subject = tasks.as_ref().and_then(|tasks| tasks.subject(&id));
        Some(Op::Act {
            name: self.actor().name.clone(),
            task: subject.map(str::to_owned),
            task_id: Some(shown_line(&id, LONGEST_TEXT)),
        })
    }

    /// Returns the operation that begins the session unless it is active.
    fn ensure(&self) -> Op {
        let status = pdca(&self.context.layout);
        Op::Ensure(Begin {
            team: self.actor().team_name.clone(),
            phase: status.as_ref().and_then(|status| status.phase),
            feature: status.map(|status| status.feature).unwrap_or_default(),
            ..Begin::default()
        })
    }

    fn row(&self) -> TeammateRow {
        let actor = self.actor();
        let prompt = self.payload.inner("tool_input", "prompt");
        TeammateRow {
            name: actor.name.clone(),
            role: actor.role.clone(),
            model: actor.model,
            task: prompt.map(str::to_owned),
            task_id: None,
        }
    }

    fn status(&self, status: Status) -> Op {
        Op::Status {
            name: self.actor().name.clone(),
            status,
            task: None,
            task_id: None,
        }
    }

    fn tasks(&self) -> Option<TaskFolder> {
        let actor = self.actor();
        self.registry()?.tasks(actor.team.as_ref(), &actor.session)
    }

    /// Returns the operation that sets the progress; none when nothing is known about tasks.
    fn progress(&self, created: Option<&str>, completed: Option<&str>) -> Vec<Op> {
        let tasks = self.tasks().into_iter();
        tasks
            .map(|tasks| Op::Progress(tasks.progress(created, completed)))
            .collect()
    }

    /// Returns the messages in the client's inboxes as operations.
    fn inboxes(&self) -> Vec<Op> {
        self.notes(|_| true)
    }

    /// Returns the messages in the client's inboxes that are wanted, as operations.
    fn notes(&self, is_wanted: impl Fn(&InboxNote) -> bool) -> Vec<Op> {
        let notes = match (self.registry(), &self.actor().team) {
            (Some(registry), Some(team)) => registry.notes(team),
            _ => Vec::new(),
        };
        let message = |note: InboxNote| Op::Message {
            from: note.from,
            to: note.to,
            content: note.content,
            timestamp: Some(note.at),
        };
        notes.into_iter().filter(is_wanted).map(message).collect()
    }

    /// Returns the session that is shown, if it is another one and its process is proven gone.
    fn dead_session(&self) -> Option<String> {
        let shown = States::of(&self.context.layout).read().ok()??;
        let is_other = shown.enabled && shown.session_id != self.actor().session;
        let is_dead = is_other && self.registry()?.is_dead(&shown.session_id);
        is_dead.then_some(shown.session_id)
    }

    /// Changes the state, or leaves the change for the next writer. What was refused is in the log.
    fn change(&mut self, ops: Vec<Op>) -> Vec<Effect> {
        if ops.is_empty() || !self.context.writes {
            return Vec::new();
        }
        let change = StateChange::new(self.actor().session.clone(), self.context.now, ops);
        let left = self.left();
        match States::of(&self.context.layout).apply_or_leave(change, left) {
            Ok(Some(applied)) => {
                for effect in applied.effects.iter().chain(&applied.late) {
                    match effect {
                        Effect::Full(name) => self.tell_full(name),
                        Effect::Changed | Effect::Nothing => {}
                        other => self.note(format!("{other:?}")),
                    }
                }
                let rows = applied.state.as_ref().map(|state| &state.teammates);
                if rows.is_some_and(|rows| {
                    !rows.is_empty() && rows.iter().all(|row| !row.status.is_active())
                }) {
                    self.note("the last active teammate has ended");
                }
                applied.effects
            }
            Ok(None) => {
                self.note("the state is locked; the next writer will apply this");
                Vec::new()
            }
            Err(error @ StateError::Session(_)) => {
                self.note(error);
                Vec::new()
            }
            Err(error) => {
                self.note(format!("the state was not changed: {error}"));
                Vec::new()
            }
        }
    }

    /// Returns whether files of teams may be removed: the hooks may write, and there are teams.
    fn may_sweep(&self) -> bool {
        self.context.writes && self.registry().is_some()
    }

    fn tell_full(&mut self, name: &str) {
        let why = "everybody of a full roster is active";
        self.note(format!("{name} is not shown: {why}"));
        let team = self.active_team();
        self.journal(team.as_deref(), Some((name, why)));
    }

    /// Returns the team of ours whose journal records this hook: the one we were started for, the one that the payload
    /// names, else the one that works on this project.
    fn active_team(&self) -> Option<String> {
        let named = self.context.team.clone();
        let spoken = || {
            let team = self.actor().team.as_ref();
            team.filter(|team| team.is_ours)
                .map(|team| team.folder.clone())
        };
        let here = || {
            let registry = self.registry()?;
            registry.working_on(&self.context.layout.project, &Machine::read())
        };
        named.or_else(spoken).or_else(here)
    }

    /// Returns how long this hook may still wait.
    fn left(&self) -> Duration {
        let most = if self.event == "SessionEnd" {
            LONGEST_AT_END
        } else {
            LONGEST
        };
        let left = LONGEST.saturating_sub(self.context.began.elapsed());
        most.min(left)
    }

    /// Records a teammate's end.
    fn record_end(&mut self) {
        if !self.context.writes {
            return;
        }
        let Some(registry) = self.registry() else {
            return;
        };
        let Some(ended) = TeammateEnd::find(self.payload, self.actor(), registry) else {
            return;
        };
        let written = ended.record(self.payload, registry, self.context.now);
        self.said.stderr.extend(ended.alarm());
        if let Err(error) = written {
            self.said.stderr.push(format!(
                "teamster: the end of a teammate was not recorded: {error}"
            ));
        }
    }

    /// Records in a team's journal that this hook was called; `hidden` is an agent that is not shown, and why.
    fn journal(&mut self, team: Option<&str>, hidden: Option<(&str, &str)>) {
        let Some(team) = team.filter(|_| self.context.writes) else {
            return;
        };
        let Ok(team) = team.parse() else {
            self.note(format!(
                "there is no team {}",
                shown_line(team, LONGEST_TEXT)
            ));
            return;
        };
        let session = self.payload.text("session_id").unwrap_or_default();
        let actor = match &self.context.worker {
            Some(worker) => shown_line(worker, LONGEST_TEXT),
            None => self.actor().name.clone(),
        };
        let received = HookReceived {
            event: shown_line(self.event, LONGEST_TEXT),
            session: shown_line(session, LONGEST_TEXT),
            name: actor.clone(),
            not_shown: hidden.map(|(name, _)| shown_line(name, LONGEST_TEXT)),
            why: hidden.map(|(_, why)| why.to_owned()),
        };
        let event = NewEvent::new(actor, EventKind::HookReceived(received));
        if let Err(error) = record_in_journal(self.context, &team, self.left(), event) {
            self.note(format!("the journal was not written: {error}"));
        }
    }
}

/// Writes `hook.received` to the journal of a team that exists. Returns false, and writes nothing, when the team is none
/// of ours: a hook never creates a team.
fn record_in_journal(
    context: &HookContext,
    team: &TeamName,
    patience: Duration,
    event: NewEvent,
) -> Result<bool, StoreError> {
    let settings = Settings {
        sync: Sync::Fast,
        patience,
        ..Settings::default()
    };
    let store = FileStore::open(&context.layout, Arc::new(SystemClock), settings)?;
    if store.team(team)?.kind() != TeamOrigin::Teamster {
        return Ok(false);
    }
    store.record(team, event)?;
    Ok(true)
}

/// Returns the response to a payload that cannot be read: it lets the agent go on and says nothing else.
///
/// For some events the client discards a whole response that has `hookSpecificOutput`.
fn fallback_response(event: &str) -> Option<String> {
    matches!(event, "SubagentStart" | "SubagentStop").then(continue_response)
}

fn continue_response() -> String {
    r#"{"continue":true}"#.to_owned()
}

/// Returns an empty response for events where the client expects an object.
fn empty_response() -> String {
    "{}".to_owned()
}

/// Returns a response that shows a line to the person at the client.
fn message_response(text: &str) -> String {
    json!({ "systemMessage": text }).to_string()
}

/// Returns a response that adds a text to the agent's context.
fn context_response(event: &str, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
        .to_string()
}

fn started_response(actor: &HookActor) -> String {
    json!({
        "systemMessage": format!("Subagent {} spawned", actor.name),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStart",
            "agentName": actor.name,
            "agentType": actor.role,
            "teamName": actor.team_name,
        },
    })
    .to_string()
}

fn stopped_response(actor: &HookActor, status: Status) -> String {
    let status = status.as_str();
    json!({
        "continue": true,
        "systemMessage": format!("Subagent {} stopped ({status})", actor.name),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStop",
            "agentName": actor.name,
            "status": status,
        },
    })
    .to_string()
}
