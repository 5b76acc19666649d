//! Handles `teamster hook EVENT`: turns the client's payload into a change of the state and a response.
//!
//! ```text
//! payload ──► who is it? (registry, panes) ──► operations on the state ──► one line of JSON
//!                                          └─► zombie record, journal
//! ```
//!
//! The client waits for its hooks, so nothing here waits for long and nothing fails: an error goes to the log, and the
//! response lets the agent continue.
//!
//! - [`run`] chooses the handler of an event; `HookCall` holds one handler for each event and the steps they share;
//! - [`HookPayload`] reads the fields of any version of the client, and `HookActor` is the agent it is about;
//! - `tool_use` handles the two events of a tool;
//! - `journal` records the call itself;
//! - `unfinished` informs a new session about an unfinished run of its project.

mod journal;
mod payload;
mod tool_use;
mod unfinished;

use std::cell::OnceCell;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use teamster_fs::layout::{self, Layout};
use teamster_types::Time;
use teamster_types::end::EndRecord;
use teamster_types::text::shown_line;

use crate::native::{InboxMessage, NativeRegistry, Pdca, TaskFolder, pdca};
use crate::state::{
    AgentState, Applied, Begin, Effect, LONGEST_TASK, LONGEST_TEXT, Op, StateChange, StateError,
    StateFiles, Status, TeammateRow,
};
use payload::{ActorKind, HookActor};

pub use payload::HookPayload;

/// The time limit of any hook.
pub const LONGEST: Duration = Duration::from_millis(1_800);
/// The time limit of a hook at the end of a session, where all hooks of the client share 1.5 s.
pub const LONGEST_AT_END: Duration = Duration::from_millis(400);

/// The inputs of a hook call besides its payload.
#[derive(Clone, Debug)]
pub struct HookContext {
    /// The folders of the client and of the project.
    pub layout: Layout,
    /// The current time.
    pub now: Time,
    /// When the hook was started.
    pub began: Instant,
    /// The value of `TMUX_PANE`.
    pub pane: Option<String>,
    /// The client's process, from `CLAUDE_PID`.
    pub client: Option<u32>,
    /// The teamster worker whose agent calls the hook, from `TEAMSTER_WORKER`.
    pub worker: Option<String>,
    /// The team of that worker, from `TEAMSTER_TEAM`.
    pub team: Option<String>,
    /// Whether anything may be written (`team.enabled`).
    pub writes: bool,
}

/// The output of a hook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookResponse {
    /// One JSON object for the client.
    pub stdout: Option<String>,
    /// Lines for the client's error stream.
    pub stderr: Vec<String>,
    /// Lines for the debug log (`TEAMSTER_DEBUG`).
    pub log: Vec<String>,
    /// What the caller has to do before it sends the response to the client.
    pub follow_up: Option<FollowUp>,
}

/// The part of a hook that this crate cannot do: removing teams that are over. The caller does it, and then completes
/// the response.
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

/// Adds a note about an unfinished run to the response at the start of a session. It is called after the sweep, so that
/// a run whose team was just removed is not mentioned.
///
/// `moved` are the teams that the sweep has moved to the trash: the note says how to restore them.
pub fn add_unfinished_run(response: &mut HookResponse, context: &HookContext, moved: &[String]) {
    let mut texts = Vec::new();
    match unfinished::notice(context) {
        Ok(run) => texts.extend(run),
        Err(error) => response.log.push(format!(
            "SessionStart: cannot tell whether a run is unfinished: {error}"
        )),
    }
    texts.extend(moved.iter().map(|team| {
        let team = shown_line(team, LONGEST_TEXT);
        format!(
            "teamster moved the stale team {team} to its trash; `teamster zombies restore {team}` brings it back."
        )
    }));
    response.stdout =
        (!texts.is_empty()).then(|| context_response("SessionStart", &texts.join("\n")));
}

/// Handles one hook call. It never fails: problems are in the log of the response.
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
        "StopFailure" => hook.stop_failure(),
        "SessionStart" => hook.session_start(),
        "SessionEnd" => hook.session_end(),
        _ => {
            hook.journal_other();
            hook.change(Vec::new());
            None
        }
    };
    hook.respond(stdout)
}

/// One hook call: its input, the facts found so far, and the output.
struct HookCall<'a> {
    event: &'a str,
    payload: &'a HookPayload,
    context: &'a HookContext,
    registry: OnceCell<Option<NativeRegistry>>,
    actor: OnceCell<HookActor>,
    pdca: OnceCell<Option<Pdca>>,
    tasks: OnceCell<Option<TaskFolder>>,
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
            pdca: OnceCell::new(),
            tasks: OnceCell::new(),
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
        self.actor.get_or_init(|| {
            HookActor::find(self.event, self.payload, self.registry(), self.context)
        })
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.said.log.push(format!("{}: {text}", self.event));
    }
}

impl HookCall<'_> {
    fn subagent_start(&mut self) -> String {
        let start = match self.actor().kind {
            ActorKind::Subagent => Op::StartAgent {
                prompt_id: self.payload.text("prompt_id").map(str::to_owned),
                row: self.row(),
            },
            _ => Op::Start(self.row()),
        };
        let mut ops = vec![self.begin_op(), start];
        ops.extend(self.progress(None, None));
        let applied = self.change(ops);
        let name = applied.name.as_deref();
        started_response(name.unwrap_or(&self.actor().name), self.actor())
    }

    fn subagent_stop(&mut self) -> String {
        let failed = !matches!(self.payload.exit_code(), None | Some(0));
        let mut ops = vec![Op::Stop {
            name: self.actor().name.clone(),
            failed,
            reason: None,
        }];
        ops.extend(self.progress(None, None));
        let applied = self.change(ops);
        let is_known = matches!(
            applied.effects.first(),
            Some(Effect::Changed | Effect::Nothing | Effect::Refused { .. })
        );
        // Compaction reports the end of an agent whose start was never reported.
        if self.payload.is_blank("agent_type") && !is_known {
            return continue_response();
        }
        self.record_end();
        if !is_known && self.actor().is_unknown_teammate {
            return continue_response();
        }
        // The row's current status is used: an earlier report about the same turn may have set another one.
        let name = applied.name.as_deref().unwrap_or(&self.actor().name);
        let row = applied
            .state
            .as_ref()
            .and_then(|state| state.teammate(name));
        let told = if failed {
            Status::Failed
        } else {
            Status::Completed
        };
        stopped_response(name, row.map_or(told, |row| row.status))
    }

    fn teammate_idle(&mut self) -> String {
        let mut ops = Vec::new();
        // Hooks that were installed later have not seen its start.
        if self.actor().is_registered {
            ops.extend([self.begin_op(), Op::Join(self.row())]);
        }
        ops.push(self.status(Status::Idle));
        ops.extend(self.progress(None, None));
        let changed = self.change(ops);
        let name = &self.actor().name;
        let next = self.tasks().and_then(|tasks| {
            let task = tasks.next_for(name)?;
            let subject = shown_line(task.subject(), LONGEST_TASK);
            Some(format!("Next task for {name}: {} {subject}", task.id()))
        });
        let text = next.or_else(|| phase_notice(&changed));
        text.map_or_else(empty_response, |text| message_response(&text))
    }

    fn task_created(&mut self) -> String {
        let id = self.payload.id("task_id");
        let ops = self.progress(id.as_deref(), None);
        let changed = self.change(ops);
        phase_notice(&changed).map_or_else(empty_response, |text| message_response(&text))
    }

    fn task_completed(&mut self) -> String {
        let id = self.payload.id("task_id");
        let mut ops = self.progress(None, id.as_deref());
        if self.actor().has_row() {
            ops.push(self.status(Status::Idle));
        }
        let changed = self.change(ops);
        phase_notice(&changed).map_or_else(empty_response, |text| message_response(&text))
    }

    fn notification(&mut self) -> Option<String> {
        if self.payload.text("notification_type") == Some("worker_permission_prompt")
            && let Some(notice) = self.payload.text("message")
        {
            let notice = notice.to_owned();
            self.change(vec![Op::Wait { notice }]);
        } else {
            self.change(Vec::new());
        }
        None
    }

    fn stop(&mut self) -> Option<String> {
        // Only the lead's Stop ends a session.
        if self.actor().has_row() {
            // A turn that ends normally is over, however the previous one ended.
            let mut ops: Vec<Op> = self.activity_op().into_iter().collect();
            ops.push(self.status(Status::Idle));
            self.change(ops);
            return None;
        }
        let team = self.actor().team.as_ref();
        let is_somebody_left = self.payload.has_background_tasks()
            || team.is_some_and(|team| team.teammates().next().is_some());
        let mut ops = self.progress(None, None);
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

    /// Handles a turn that ended with an error of the client: the model could not be reached, or a limit was exceeded.
    fn stop_failure(&mut self) -> Option<String> {
        let mut ops = Vec::new();
        if self.actor().has_row() {
            let words = ["last_assistant_message", "error_details", "error"];
            let reason = words.iter().find_map(|key| self.payload.text(key));
            ops.push(Op::Stop {
                name: self.actor().name.clone(),
                failed: true,
                reason: reason.map(str::to_owned),
            });
        }
        self.change(ops);
        None
    }

    fn session_start(&mut self) -> Option<String> {
        if self.actor().kind == ActorKind::Pane {
            let mut ops = vec![self.begin_op(), Op::Join(self.row())];
            ops.extend(self.progress(None, None));
            self.change(ops);
            return None;
        }
        let dead = StateFiles::of(&self.context.layout).dead_sessions(&self.actor().session);
        let dead = dead.unwrap_or_default();
        self.change(vec![Op::EndDead { dead }]);
        let may_sweep = self.may_sweep();
        self.said.follow_up = Some(FollowUp::SessionStarted { may_sweep });
        None
    }

    fn session_end(&mut self) -> Option<String> {
        if self.actor().kind == ActorKind::Pane {
            let name = self.actor().name.clone();
            self.change(vec![Op::Stop {
                name,
                failed: false,
                reason: None,
            }]);
            self.record_end();
            return None;
        }
        self.change(vec![Op::CleanUp]);
        // A session that is cleared or resumed continues under another id, together with its team.
        let goes_on = matches!(self.payload.text("reason"), Some("clear" | "resume"));
        if let Some(session) = self.payload.text("session_id").filter(|_| !goes_on) {
            let session = session.to_owned();
            self.said.follow_up = self
                .may_sweep()
                .then_some(FollowUp::SessionEnded { session });
        }
        None
    }

    /// Returns the operation that begins the session unless it is active.
    fn begin_op(&self) -> Op {
        let status = self.pdca();
        Op::Ensure(Begin {
            team: self.actor().team_name.clone(),
            phase: status.and_then(|status| status.phase),
            feature: status
                .map(|status| status.feature.clone())
                .unwrap_or_default(),
            ..Begin::default()
        })
    }

    /// Returns the project's PDCA status, read once.
    fn pdca(&self) -> Option<&Pdca> {
        self.pdca
            .get_or_init(|| pdca(&self.context.layout))
            .as_ref()
    }

    fn row(&self) -> TeammateRow {
        let actor = self.actor();
        let prompt = self.payload.inner("tool_input", "prompt");
        let (task, task_id) = self.held_task();
        TeammateRow {
            name: actor.name.clone(),
            role: actor.role.clone(),
            model: actor.model,
            task: task.or_else(|| prompt.map(str::to_owned)),
            task_id,
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

    /// Returns the client's tasks, read once.
    fn tasks(&self) -> Option<&TaskFolder> {
        let read = || {
            let actor = self.actor();
            self.registry()?.tasks(actor.team.as_ref(), &actor.session)
        };
        self.tasks.get_or_init(read).as_ref()
    }

    /// Returns the subject and the id of the one task that the actor has started, according to the client's files.
    fn held_task(&self) -> (Option<String>, Option<String>) {
        let held = self
            .tasks()
            .filter(|_| self.actor().has_row())
            .and_then(|tasks| tasks.held_by(&self.actor().name));
        let id = held.map(|task| shown_line(task.id().as_str(), LONGEST_TEXT));
        (held.map(|task| task.subject().to_owned()), id)
    }

    /// Returns the operation that sets the progress; none when nothing is known about tasks. The first task of a list
    /// is reported before the list exists.
    fn progress(&self, created: Option<&str>, completed: Option<&str>) -> Vec<Op> {
        let first = created.map(|_| TaskFolder::default());
        let tasks = self.tasks().or(first.as_ref()).into_iter();
        tasks
            .map(|tasks| Op::Progress(tasks.progress(created, completed)))
            .collect()
    }

    /// Returns the messages in the client's inboxes as operations.
    fn inbox_ops(&self) -> Vec<Op> {
        let notes = match (self.registry(), &self.actor().team) {
            (Some(registry), Some(team)) => registry.notes(team),
            _ => Vec::new(),
        };
        let message = |note: InboxMessage| Op::Message {
            from: note.from,
            to: note.to,
            content: note.content,
            timestamp: Some(note.at),
        };
        notes.into_iter().map(message).collect()
    }

    /// Returns the messages from other programs that the client delivered from an inbox in a turn that is over, and
    /// that no hook has seen there.
    fn delivered_ops(&self) -> Vec<Op> {
        let path = match self.event {
            "SubagentStop" => self.payload.text("agent_transcript_path"),
            "PreToolUse" | "PostToolUse" => None,
            // The client may write its transcript a moment after the end of a turn, so the next event is used as well.
            // In the lead's process every agent's events come with the lead's transcript.
            _ if matches!(self.actor().kind, ActorKind::Pane | ActorKind::Lead) => {
                self.payload.text("transcript_path")
            }
            _ => None,
        };
        let actor = self.actor();
        let (Some(path), Some(registry), Some(team)) = (path, self.registry(), &actor.team) else {
            return Vec::new();
        };
        let to = if actor.has_row() {
            &actor.name
        } else {
            actor.lead_name()
        };
        let notes = registry.delivered(team, to, &self.context.layout.claude, Path::new(path));
        let heard = |note: InboxMessage| Op::Heard {
            from: note.from,
            to: note.to,
            content: note.content,
            at: note.at,
        };
        notes.into_iter().map(heard).collect()
    }

    /// Returns the operation that takes over the phase from the project's status file; none when there is no such file.
    fn phase(&self) -> Option<Op> {
        let status = self.pdca()?;
        Some(Op::Phase {
            feature: status.feature.clone(),
            phase: status.phase?,
        })
    }

    /// Returns the operations that every hook of a session makes: the current content of the client's files, and the
    /// calling process. A hook without other operations makes them only if they would change something.
    fn add_common_ops(&self, ops: &mut Vec<Op>) {
        let begins = ops.iter().any(|op| matches!(op, Op::Ensure(_)));
        let ends = ops.iter().any(|op| matches!(op, Op::CleanUp));
        let at = usize::from(begins);
        if begins
            && let Some(process) = (self.context.client)
                .and_then(|pid| teamster_fs::proc::Machine::read().process(pid))
        {
            let is_pane = self.actor().kind == ActorKind::Pane;
            let name = is_pane.then(|| self.actor().name.clone());
            ops.insert(at, Op::Process { name, process });
        }
        let mut more = self.inbox_ops();
        more.extend(self.delivered_ops());
        more.extend(self.phase());
        if !ops.iter().any(|op| matches!(op, Op::Progress(_))) {
            more.extend(self.progress(None, None));
        }
        if more.is_empty() {
            return;
        }
        if ops.is_empty() {
            let is_news = |state: &AgentState| more.iter().any(|op| op.would_change(state));
            let state = StateFiles::of(&self.context.layout).of_session(&self.actor().session);
            if !state.ok().flatten().is_some_and(|state| is_news(&state)) {
                return;
            }
        }
        if ends {
            // These come first, because a session that is over does not change any more.
            ops.splice(0..0, more);
        } else {
            ops.extend(more);
        }
    }

    /// Changes the state, or leaves the change for the next writer. Refused operations are in the log.
    fn change(&mut self, mut ops: Vec<Op>) -> Applied {
        if !self.context.writes {
            return Applied::default();
        }
        let is_start = matches!(ops.as_slice(), [Op::EndDead { .. }]);
        if !is_start {
            self.add_common_ops(&mut ops);
        }
        if ops.is_empty()
            && StateFiles::of(&self.context.layout).has_unreported_gone(&self.actor().session)
        {
            // Any change, even an empty one, shows them as failed.
            ops.push(Op::Touch);
        }
        if ops.is_empty() {
            return Applied::default();
        }
        let change = StateChange::new(self.actor().session.clone(), self.context.now, ops);
        let left = self.time_left();
        match StateFiles::of(&self.context.layout).apply_or_leave(change, left) {
            Ok(Some(applied)) => {
                let alarms = applied.gone.iter().filter_map(EndRecord::alarm);
                self.said.stderr.extend(alarms);
                for effect in applied.effects.iter().chain(&applied.late) {
                    match effect {
                        Effect::Full(name) => self.journal_full_roster(name),
                        Effect::Changed | Effect::Nothing | Effect::Phase(_) => {}
                        other => self.note(format!("{other:?}")),
                    }
                }
                let rows = applied.state.as_ref().map(|state| &state.teammates);
                if rows.is_some_and(|rows| {
                    !rows.is_empty() && rows.iter().all(|row| !row.status.is_active())
                }) {
                    self.note("the last active teammate has ended");
                }
                applied
            }
            Ok(None) => {
                self.note("the state is locked; the next writer will apply this");
                Applied::default()
            }
            Err(error @ StateError::Session(_)) => {
                self.note(error);
                Applied::default()
            }
            Err(error) => {
                self.note(format!("the state was not changed: {error}"));
                Applied::default()
            }
        }
    }

    /// Returns whether teams may be removed: hooks may write, and there are teams.
    fn may_sweep(&self) -> bool {
        self.context.writes && self.registry().is_some()
    }

    /// Returns how long this hook may still wait.
    fn time_left(&self) -> Duration {
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
        let Some(ended) = payload::ended_teammate(self.payload, self.actor(), registry) else {
            return;
        };
        let session = self.payload.text("session_id").unwrap_or_default();
        let line = ended.to_line(session, self.context.now);
        let written =
            registry
                .claude()
                .append(layout::ZOMBIE_ALERTS, &line, teamster_fs::Durability::Fast);
        self.said.stderr.extend(ended.alarm());
        if let Err(error) = written {
            self.said.stderr.push(format!(
                "teamster: the end of a teammate was not recorded: {error}"
            ));
        }
    }
}

/// Returns the response to an unreadable payload: it lets the agent continue and contains nothing else.
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

/// Returns a response that shows a line to the user of the client.
fn message_response(text: &str) -> String {
    json!({ "systemMessage": text }).to_string()
}

/// Returns a response that adds a text to the agent's context.
fn context_response(event: &str, text: &str) -> String {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
        .to_string()
}

fn started_response(name: &str, actor: &HookActor) -> String {
    json!({
        "systemMessage": format!("Subagent {name} spawned"),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStart",
            "agentName": name,
            "agentType": actor.role,
            "teamName": actor.team_name,
        },
    })
    .to_string()
}

/// Returns the notice about a changed phase or feature.
fn phase_notice(applied: &Applied) -> Option<String> {
    let mut effects = applied.effects.iter();
    effects.find_map(|effect| match effect {
        Effect::Phase(notice) => Some(notice.clone()),
        _ => None,
    })
}

fn stopped_response(name: &str, status: Status) -> String {
    let status = status.as_str();
    json!({
        "continue": true,
        "systemMessage": format!("Subagent {name} stopped ({status})"),
        "hookSpecificOutput": {
            "hookEventName": "SubagentStop",
            "agentName": name,
            "status": status,
        },
    })
    .to_string()
}
