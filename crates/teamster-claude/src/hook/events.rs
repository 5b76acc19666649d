//! The table of events, one function for each. What a function returns is what the client gets to read.

use std::cell::OnceCell;

use super::actor::{Actor, Kind};
use super::payload::Payload;
use super::{Answer, FollowUp, World, answer};
use crate::native::{Registry, pdca};
use crate::state::{Effect, Op, Status};
use crate::words::{LONGEST_TASK, line};

/// One call of a hook.
pub(super) struct Hook<'a> {
    pub(super) event: &'a str,
    pub(super) payload: &'a Payload,
    pub(super) world: &'a World,
    registry: OnceCell<Option<Registry>>,
    actor: OnceCell<Actor>,
    pub(super) said: Answer,
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
        let may_sweep = self.may_sweep();
        self.said.follow_up = Some(FollowUp::SessionStarted { may_sweep });
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

    /// The agent of one of our own workers: its bridge tells everything else.
    pub(super) fn journal_as_worker(&mut self) {
        let team = self.world.team.clone();
        self.journal(team.as_deref(), None);
    }

    pub(super) fn journal_other(&mut self) {
        let team = self.active_team();
        self.journal(team.as_deref(), None);
    }
}
