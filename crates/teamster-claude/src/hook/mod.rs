//! `teamster hook EVENT`: what the client tells becomes a change of the state, and an answer.
//!
//! ```text
//! payload ──► who is it? (registry, panes) ──► operations on the state ──► one line of JSON
//!                                          └─► zombie record, journal
//! ```
//!
//! The client waits for us, so nothing here waits for long or fails: what goes wrong is said in the log, and the
//! answer is one that lets the agent go on.
//!
//! - [`payload`](Payload) reads what came, whatever its version and types;
//! - `actor` finds out who it is about and whose state it belongs to;
//! - `events` is the table of events, one function for each; `tools` has those of tools, `parts` what all are made of;
//! - `unfinished` is what a new session is told about a run that is not over;
//! - `answer` is what the client accepts.

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
use teamster_types::team::Kind as TeamKind;
use teamster_types::{TeamName, Time};

use crate::native::{Note, Registry, TaskFolder, pdca, structured};
use crate::state::{Begin, Change, Effect, Op, Row, StateError, States, Status};
use crate::words::{LONGEST_TASK, LONGEST_TEXT, line};
use crate::zombies;
use alert::Ended;
use payload::{Actor, Kind};

pub use payload::Payload;

/// How long stale teams are looked for when a session begins.
const SWEEP: Duration = Duration::from_millis(300);
/// And when one ends, where every hook of the client shares one and a half seconds.
const SWEEP_AT_END: Duration = Duration::from_millis(50);

/// No hook takes longer, whatever others do.
pub const LONGEST: Duration = Duration::from_millis(1_800);
/// Hooks at the end of a session share 1.5 s with everybody else's.
pub const LONGEST_AT_END: Duration = Duration::from_millis(400);

/// What a hook is called with, besides its payload.
#[derive(Clone, Debug)]
pub struct World {
    /// Where things are.
    pub layout: Layout,
    /// The time of day.
    pub now: Time,
    /// When the hook began.
    pub began: Instant,
    /// `TMUX_PANE`
    pub pane: Option<String>,
    /// `CLAUDE_PID`: the client.
    pub client: Option<u32>,
    /// `TEAMSTER_WORKER`: the agent is one of our own workers.
    pub worker: Option<String>,
    /// `TEAMSTER_TEAM`
    pub team: Option<String>,
    /// Whether anything may be written (`team.enabled`).
    pub writes: bool,
}

/// What a hook says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One JSON object for the client.
    pub stdout: Option<String>,
    /// For whoever reads the client's error stream.
    pub stderr: Vec<String>,
    /// For whoever asks what happened (`TEAMSTER_DEBUG`).
    pub log: Vec<String>,
}

/// Does what a hook has to do. It never fails: what cannot be done is in the log.
pub fn run(event: &str, input: &[u8], world: &World) -> Answer {
    let payload = match Payload::parse(input) {
        Ok(payload) => payload,
        Err(error) => {
            return Answer {
                stdout: after_bad_input(event),
                log: vec![format!("{event}: the payload is unusable: {error}")],
                ..Answer::default()
            };
        }
    };
    let event = match event {
        "" => payload.text("hook_event_name").unwrap_or_default(),
        event => event,
    };
    let mut hook = Hook::new(event, &payload, world);
    if world.worker.is_some() {
        hook.journal_as_worker();
        return hook.answer(after_bad_input(event));
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
    hook.answer(stdout)
}

/// One call of a hook.
struct Hook<'a> {
    event: &'a str,
    payload: &'a Payload,
    world: &'a World,
    registry: OnceCell<Option<Registry>>,
    actor: OnceCell<Actor>,
    said: Answer,
}

impl<'a> Hook<'a> {
    fn new(event: &'a str, payload: &'a Payload, world: &'a World) -> Self {
        Self {
            event,
            payload,
            world,
            registry: OnceCell::new(),
            actor: OnceCell::new(),
            said: Answer::default(),
        }
    }

    fn answer(mut self, stdout: Option<String>) -> Answer {
        self.said.stdout = stdout;
        self.said
    }

    fn registry(&self) -> Option<&Registry> {
        self.registry
            .get_or_init(|| Registry::open(&self.world.layout.claude))
            .as_ref()
    }

    fn actor(&self) -> &Actor {
        self.actor
            .get_or_init(|| Actor::find(self.payload, self.registry(), self.world))
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.said.log.push(format!("{}: {text}", self.event));
    }
}

impl Hook<'_> {
    fn subagent_start(&mut self) -> String {
        let ops = vec![self.ensure(), Op::Start(self.row())];
        self.change(ops);
        started(self.actor())
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
            return go_on();
        }
        self.record_end();
        stopped(self.actor(), status)
    }

    fn teammate_idle(&mut self) -> String {
        let mut ops = vec![self.status(Status::Idle)];
        ops.extend(self.progress(None, None));
        ops.extend(self.inboxes());
        self.change(ops);
        let name = &self.actor().name;
        let next = self.tasks().and_then(|tasks| {
            let task = tasks.next_for(name)?;
            let subject = line(task.subject(), LONGEST_TASK);
            Some(format!("Next task for {name}: {} {subject}", task.id()))
        });
        next.map_or_else(empty, |text| message(&text))
    }

    fn task_created(&mut self) -> String {
        let id = self.payload.id("task_id");
        let ops = self.progress(id.as_deref(), None);
        self.change(ops);
        empty()
    }

    fn task_completed(&mut self) -> String {
        let id = self.payload.id("task_id");
        let mut ops = self.progress(None, id.as_deref());
        if self.actor().has_row() {
            ops.push(self.status(Status::Idle));
        }
        if let Some(status) = pdca(&self.world.layout)
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
        changed.map_or_else(empty, |text| message(&text))
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
        if self.actor().kind == Kind::Pane {
            let ops = vec![self.ensure(), Op::Join(self.row())];
            self.change(ops);
            return None;
        }
        let dead = self.dead_session();
        self.change(vec![Op::EndDead { dead }]);
        self.sweep(None);
        match unfinished::run_of(self.world) {
            Ok(run) => run.map(|text| context("SessionStart", &text)),
            Err(error) => {
                self.note(format!("nobody knows whether a run is unfinished: {error}"));
                None
            }
        }
    }

    fn session_end(&mut self) -> Option<String> {
        if self.actor().kind == Kind::Pane {
            let ops = vec![self.status(Status::Completed)];
            self.change(ops);
            self.record_end();
            return None;
        }
        self.change(vec![Op::CleanUp]);
        // A session that is cleared or resumed goes on under another id, and its team with it.
        let goes_on = matches!(self.payload.text("reason"), Some("clear" | "resume"));
        if let Some(session) = self.payload.text("session_id").filter(|_| !goes_on) {
            self.sweep(Some(session));
        }
        None
    }

    /// The agent of one of our own workers: its bridge tells everything else.
    fn journal_as_worker(&mut self) {
        let team = self.world.team.clone();
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
                let assigned = |note: &Note| note.kind.as_deref() == Some("task_assignment");
                ops.extend(self.notes(assigned));
            }
            _ => ops.extend(self.acts()),
        }
        self.change(ops);
        None
    }

    /// Whoever uses a tool works.
    fn acts(&self) -> Option<Op> {
        self.actor().has_row().then(|| Op::Act {
            name: self.actor().name.clone(),
            task: None,
            task_id: None,
        })
    }

    /// Somebody is spawned. The payload is about the spawned one, whoever spawns it.
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
            let row = Row {
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
        // A plain subagent is known by its id, which only the answer tells.
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

    /// A teammate that says it has begun a task.
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
            task_id: Some(line(&id, LONGEST_TEXT)),
        })
    }

    /// A session that is not active begins.
    fn ensure(&self) -> Op {
        let status = pdca(&self.world.layout);
        Op::Ensure(Begin {
            team: self.actor().team_name.clone(),
            phase: status.as_ref().and_then(|status| status.phase),
            feature: status.map(|status| status.feature).unwrap_or_default(),
            ..Begin::default()
        })
    }

    fn row(&self) -> Row {
        let actor = self.actor();
        let prompt = self.payload.inner("tool_input", "prompt");
        Row {
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

    /// How far the tasks are; nothing when nothing is known about tasks.
    fn progress(&self, created: Option<&str>, completed: Option<&str>) -> Vec<Op> {
        let tasks = self.tasks().into_iter();
        tasks
            .map(|tasks| Op::Progress(tasks.progress(created, completed)))
            .collect()
    }

    /// What lies in the client's inboxes.
    fn inboxes(&self) -> Vec<Op> {
        self.notes(|_| true)
    }

    /// Some of what lies in the client's inboxes.
    fn notes(&self, is_wanted: impl Fn(&Note) -> bool) -> Vec<Op> {
        let notes = match (self.registry(), &self.actor().team) {
            (Some(registry), Some(team)) => registry.notes(team),
            _ => Vec::new(),
        };
        let message = |note: Note| Op::Message {
            from: note.from,
            to: note.to,
            content: note.content,
            timestamp: Some(note.at),
        };
        notes.into_iter().filter(is_wanted).map(message).collect()
    }

    /// The session that is shown, if it is another one and its process is proven gone.
    fn dead_session(&self) -> Option<String> {
        let shown = States::of(&self.world.layout).read().ok()??;
        let is_other = shown.enabled && shown.session_id != self.actor().session;
        let is_dead = is_other && self.registry()?.is_dead(&shown.session_id);
        is_dead.then_some(shown.session_id)
    }

    /// Changes the state, now or later. What was refused is in the log.
    fn change(&mut self, ops: Vec<Op>) -> Vec<Effect> {
        if ops.is_empty() || !self.world.writes {
            return Vec::new();
        }
        let change = Change::new(self.actor().session.clone(), self.world.now, ops);
        let left = self.left();
        match States::of(&self.world.layout).apply_or_leave(change, left) {
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

    /// Removes the files of teams that are proven to be over: stale ones, or the one that an ended session led.
    fn sweep(&mut self, ended: Option<&str>) {
        let world = self.world;
        if !world.writes || self.registry().is_none() {
            return;
        }
        let machine = Machine::read();
        let (layout, now) = (&world.layout, world.now);
        let swept = match ended {
            None => zombies::sweep_at_session_start(layout, &machine, now, SWEEP),
            Some(session) => {
                zombies::clean_up_at_session_end(layout, &machine, now, SWEEP_AT_END, session)
            }
        };
        match swept {
            Ok(swept) => self.note(format!("{swept:?}")),
            Err(error) => self.note(format!("nothing was swept: {error}")),
        }
    }

    fn tell_full(&mut self, name: &str) {
        let why = "everybody of a full roster is active";
        self.note(format!("{name} is not shown: {why}"));
        let team = self.active_team();
        self.journal(team.as_deref(), Some((name, why)));
    }

    /// The team of ours whose journal tells what happens here: the one we were started for, the one that the payload
    /// speaks of, else the one that works on this project.
    fn active_team(&self) -> Option<String> {
        let named = self.world.team.clone();
        let spoken = || {
            let team = self.actor().team.as_ref();
            team.filter(|team| team.is_ours)
                .map(|team| team.folder.clone())
        };
        let here = || {
            let registry = self.registry()?;
            registry.working_on(&self.world.layout.project, &Machine::read())
        };
        named.or_else(spoken).or_else(here)
    }

    /// How long this hook may still wait.
    fn left(&self) -> Duration {
        let most = if self.event == "SessionEnd" {
            LONGEST_AT_END
        } else {
            LONGEST
        };
        let left = LONGEST.saturating_sub(self.world.began.elapsed());
        most.min(left)
    }

    /// Records a teammate's end.
    fn record_end(&mut self) {
        if !self.world.writes {
            return;
        }
        let Some(registry) = self.registry() else {
            return;
        };
        let Some(ended) = Ended::find(self.payload, self.actor(), registry) else {
            return;
        };
        let written = ended.record(self.payload, registry, self.world.now);
        self.said.stderr.extend(ended.alarm());
        if let Err(error) = written {
            self.said.stderr.push(format!(
                "teamster: the end of a teammate was not recorded: {error}"
            ));
        }
    }

    /// Writes to a team's journal that this hook was called, and perhaps who is not shown for it, and why.
    fn journal(&mut self, team: Option<&str>, hidden: Option<(&str, &str)>) {
        let Some(team) = team.filter(|_| self.world.writes) else {
            return;
        };
        let Ok(team) = team.parse() else {
            self.note(format!("there is no team {}", line(team, LONGEST_TEXT)));
            return;
        };
        let session = self.payload.text("session_id").unwrap_or_default();
        let actor = match &self.world.worker {
            Some(worker) => line(worker, LONGEST_TEXT),
            None => self.actor().name.clone(),
        };
        let received = HookReceived {
            event: line(self.event, LONGEST_TEXT),
            session: line(session, LONGEST_TEXT),
            name: actor.clone(),
            not_shown: hidden.map(|(name, _)| line(name, LONGEST_TEXT)),
            why: hidden.map(|(_, why)| why.to_owned()),
        };
        let event = NewEvent::new(actor, EventKind::HookReceived(received));
        if let Err(error) = record_in_journal(self.world, &team, self.left(), event) {
            self.note(format!("the journal was not written: {error}"));
        }
    }
}

/// Writes `hook.received`. `Ok(false)`: the team is none of ours, and nothing was written.
fn record_in_journal(
    world: &World,
    team: &TeamName,
    patience: Duration,
    event: NewEvent,
) -> Result<bool, StoreError> {
    let settings = Settings {
        sync: Sync::Fast,
        patience,
        ..Settings::default()
    };
    let store = FileStore::open(&world.layout, Arc::new(SystemClock), settings)?;
    if store.team(team)?.kind() != TeamKind::Teamster {
        return Ok(false);
    }
    store.record(team, event)?;
    Ok(true)
}

/// The answer that lets the agent go on and says nothing else.
fn after_bad_input(event: &str) -> Option<String> {
    matches!(event, "SubagentStart" | "SubagentStop").then(go_on)
}

fn go_on() -> String {
    r#"{"continue":true}"#.to_owned()
}

/// Nothing to say, where the client expects an object.
fn empty() -> String {
    "{}".to_owned()
}

/// A line for the person at the client.
fn message(text: &str) -> String {
    json!({ "systemMessage": text }).to_string()
}

/// Something that the agent gets to know.
fn context(event: &str, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
        .to_string()
}

fn started(actor: &Actor) -> String {
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

fn stopped(actor: &Actor, status: Status) -> String {
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
