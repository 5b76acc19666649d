//! The table of events, one function for each. What a function returns is what the client gets to read.

use std::cell::OnceCell;
use std::time::Duration;

use teamster_types::event::NewEvent;

use super::actor::{Actor, Kind};
use super::alert::Ended;
use super::payload::Payload;
use super::{Answer, LONGEST, LONGEST_AT_END, World, answer, journal};
use crate::native::{Registry, TaskFolder, pdca};
use crate::state::{Begin, Change, Effect, Op, Row, StateError, States, Status};
use crate::words::{LONGEST_TASK, LONGEST_TEXT, line};

/// One call of a hook.
pub(super) struct Hook<'a> {
    pub(super) event: &'a str,
    pub(super) payload: &'a Payload,
    pub(super) world: &'a World,
    registry: OnceCell<Option<Registry>>,
    actor: OnceCell<Actor>,
    said: Answer,
}

impl<'a> Hook<'a> {
    pub(super) fn new(event: &'a str, payload: &'a Payload, world: &'a World) -> Self {
        Self {
            event,
            payload,
            world,
            registry: OnceCell::new(),
            actor: OnceCell::new(),
            said: Answer::default(),
        }
    }

    pub(super) fn answer(mut self, stdout: Option<String>) -> Answer {
        self.said.stdout = stdout;
        self.said
    }

    pub(super) fn registry(&self) -> Option<&Registry> {
        self.registry
            .get_or_init(|| Registry::open(&self.world.layout.claude))
            .as_ref()
    }

    pub(super) fn actor(&self) -> &Actor {
        self.actor
            .get_or_init(|| Actor::find(self.payload, self.registry(), self.world))
    }

    pub(super) fn note(&mut self, text: impl std::fmt::Display) {
        self.said.log.push(format!("{}: {text}", self.event));
    }

    // The events.

    pub(super) fn subagent_start(&mut self) -> String {
        let ops = vec![self.ensure(), Op::Start(self.row())];
        self.change(ops);
        answer::started(self.actor())
    }

    pub(super) fn subagent_stop(&mut self) -> String {
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
            return answer::go_on();
        }
        self.record_end();
        answer::stopped(self.actor(), status)
    }

    pub(super) fn teammate_idle(&mut self) -> String {
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
        next.map_or_else(answer::empty, |text| answer::message(&text))
    }

    pub(super) fn task_created(&mut self) -> String {
        let id = self.payload.id("task_id");
        let ops = self.progress(id.as_deref(), None);
        self.change(ops);
        answer::empty()
    }

    pub(super) fn task_completed(&mut self) -> String {
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
        changed.map_or_else(answer::empty, |text| answer::message(&text))
    }

    pub(super) fn notification(&mut self) -> Option<String> {
        if self.payload.text("notification_type") == Some("worker_permission_prompt")
            && let Some(notice) = self.payload.text("message")
        {
            let notice = notice.to_owned();
            self.change(vec![Op::Wait { notice }]);
        }
        None
    }

    pub(super) fn stop(&mut self) -> Option<String> {
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

    pub(super) fn session_start(&mut self) -> Option<String> {
        if self.actor().kind == Kind::Pane {
            let ops = vec![self.ensure(), Op::Join(self.row())];
            self.change(ops);
            return None;
        }
        let dead = self.dead_session();
        self.change(vec![Op::EndDead { dead }]);
        None
    }

    pub(super) fn session_end(&mut self) -> Option<String> {
        if self.actor().kind == Kind::Pane {
            let ops = vec![self.status(Status::Completed)];
            self.change(ops);
            self.record_end();
            return None;
        }
        self.change(vec![Op::CleanUp]);
        None
    }

    /// The agent of one of our own workers: its bridge tells everything else.
    pub(super) fn journal_as_worker(&mut self) {
        let team = self.world.team.clone();
        self.journal(team.as_deref());
    }

    pub(super) fn journal_other(&mut self) {
        let team = self.world.team.clone().or_else(|| {
            let team = self.actor().team.as_ref();
            team.filter(|team| team.is_ours)
                .map(|team| team.folder.clone())
        });
        self.journal(team.as_deref());
    }

    // What they are made of.

    /// A session that is not active begins.
    pub(super) fn ensure(&self) -> Op {
        let status = pdca(&self.world.layout);
        Op::Ensure(Begin {
            team: self.actor().team_name.clone(),
            phase: status.as_ref().and_then(|status| status.phase),
            feature: status.map(|status| status.feature).unwrap_or_default(),
            ..Begin::default()
        })
    }

    pub(super) fn row(&self) -> Row {
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

    pub(super) fn tasks(&self) -> Option<TaskFolder> {
        let actor = self.actor();
        self.registry()?.tasks(actor.team.as_ref(), &actor.session)
    }

    /// How far the tasks are; nothing when nothing is known about tasks.
    pub(super) fn progress(&self, created: Option<&str>, completed: Option<&str>) -> Vec<Op> {
        let tasks = self.tasks().into_iter();
        tasks
            .map(|tasks| Op::Progress(tasks.progress(created, completed)))
            .collect()
    }

    /// What lies in the client's inboxes.
    fn inboxes(&self) -> Vec<Op> {
        let notes = match (self.registry(), &self.actor().team) {
            (Some(registry), Some(team)) => registry.notes(team),
            _ => Vec::new(),
        };
        let message = |note: crate::native::Note| Op::Message {
            from: note.from,
            to: note.to,
            content: note.content,
            timestamp: Some(note.at),
        };
        notes.into_iter().map(message).collect()
    }

    /// The session that is shown, if it is another one and its process is proven gone.
    fn dead_session(&self) -> Option<String> {
        let shown = States::of(&self.world.layout).read().ok()??;
        let is_other = shown.enabled && shown.session_id != self.actor().session;
        let is_dead = is_other && self.registry()?.is_dead(&shown.session_id);
        is_dead.then_some(shown.session_id)
    }

    /// Changes the state, now or later. What was refused is in the log.
    pub(super) fn change(&mut self, ops: Vec<Op>) -> Vec<Effect> {
        if ops.is_empty() || !self.world.writes {
            return Vec::new();
        }
        let change = Change::new(self.actor().session.clone(), self.world.now, ops);
        let left = self.left();
        match States::of(&self.world.layout).apply_or_leave(change, left) {
            Ok(Some(applied)) => {
                for effect in &applied.effects {
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

    fn tell_full(&mut self, name: &str) {
        self.note(format!(
            "{name} is not shown: everybody of a full roster is active"
        ));
        if let Some(team) = self.actor().team.as_ref().filter(|team| team.is_ours) {
            let team = team.folder.clone();
            self.journal(Some(&team));
        }
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

    fn journal(&mut self, team: Option<&str>) {
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
        let event = NewEvent::new("hook.received", actor.clone())
            .with("event", line(self.event, LONGEST_TEXT))
            .with("session", line(session, LONGEST_TEXT))
            .with("name", actor);
        if let Err(error) = journal::record(self.world, &team, self.left(), event) {
            self.note(format!("the journal was not written: {error}"));
        }
    }
}
