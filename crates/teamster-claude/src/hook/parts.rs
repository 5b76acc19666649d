//! What the events are made of: operations, and how they are carried out.

use std::time::Duration;

use teamster_fs::proc::Machine;
use teamster_journal::payload::HookReceived;
use teamster_journal::{EventKind, NewEvent};

use super::alert::Ended;
use super::events::Hook;
use super::{LONGEST, LONGEST_AT_END, journal};
use crate::native::{Note, TaskFolder, pdca};
use crate::state::{Begin, Change, Effect, Op, Row, StateError, States, Status};
use crate::words::{LONGEST_TEXT, line};

impl Hook<'_> {
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

    pub(super) fn status(&self, status: Status) -> Op {
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
    pub(super) fn inboxes(&self) -> Vec<Op> {
        self.notes(|_| true)
    }

    /// Some of what lies in the client's inboxes.
    pub(super) fn notes(&self, is_wanted: impl Fn(&Note) -> bool) -> Vec<Op> {
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
    pub(super) fn dead_session(&self) -> Option<String> {
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
    pub(super) fn may_sweep(&self) -> bool {
        self.world.writes && self.registry().is_some()
    }

    pub(super) fn tell_full(&mut self, name: &str) {
        let why = "everybody of a full roster is active";
        self.note(format!("{name} is not shown: {why}"));
        let team = self.active_team();
        self.journal(team.as_deref(), Some((name, why)));
    }

    /// The team of ours whose journal tells what happens here: the one we were started for, the one that the payload
    /// speaks of, else the one that works on this project.
    pub(super) fn active_team(&self) -> Option<String> {
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
    pub(super) fn left(&self) -> Duration {
        let most = if self.event == "SessionEnd" {
            LONGEST_AT_END
        } else {
            LONGEST
        };
        let left = LONGEST.saturating_sub(self.world.began.elapsed());
        most.min(left)
    }

    /// Records a teammate's end.
    pub(super) fn record_end(&mut self) {
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
    pub(super) fn journal(&mut self, team: Option<&str>, hidden: Option<(&str, &str)>) {
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
        if let Err(error) = journal::record(self.world, &team, self.left(), event) {
            self.note(format!("the journal was not written: {error}"));
        }
    }
}
