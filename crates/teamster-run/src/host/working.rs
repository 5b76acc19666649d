//! While work goes on: workers are there, the dead are replaced, what is done is merged, and nothing is waited for that
//! will not come.

use std::time::{Duration, Instant};

use teamster_journal::HOST;
use teamster_journal::payload::{Member, RunEnd};
use teamster_types::TaskId;
use teamster_types::flow::Stage;
use teamster_types::health::Verdict;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::{Status, Task};
use teamster_workers::dead;
use teamster_workers::record::{self, Backend, Wanted};
use teamster_workers::shutdown::{How, Shutdown};
use teamster_workers::supervise::Found;

use super::task_progress::{self, open};
use super::{Host, Next, Result, RunError};
use crate::observer::StopLevel;

/// The dead are looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long workers may take to stop when the run cannot go on.
const ERROR_DEADLINE: Duration = Duration::from_secs(15);
/// How many tasks a reason names.
const NAMED: usize = 20;
/// So long somebody may still come back when nobody is left who could work.
const ALONE: Duration = Duration::from_secs(5);

impl Host<'_> {
    pub(super) fn work(&mut self) -> Result<Next> {
        if let Some(why) = self.too_many_tasks() {
            self.stop_workers("too many tasks were added")?;
            self.finish(RunEnd::TasksFailed, &why)?;
            return Ok(Next::GoOn);
        }
        let tasks = self.tasks()?;
        let still = open(&tasks);
        // What is only waiting to be merged costs nothing any more.
        let is_costly = still.iter().any(|task| task.status() != Status::Completed);
        if is_costly && let Some(why) = self.exhausted() {
            return self.out_of_budget(&why);
        }
        if self.workers_are_up {
            self.look_after_if_due()?;
        }
        if self.merge(&tasks)? {
            return Ok(Next::GoOn);
        }
        if still.is_empty() {
            return self.worked(&tasks);
        }
        if !self.workers_are_up {
            self.start_workers()?;
        }
        self.look_after_if_due()?;
        if let Some(why) = self.nobody_left(&still)? {
            self.stop_workers("nobody is left who could work")?;
            self.finish(RunEnd::TasksFailed, &why)?;
            return Ok(Next::GoOn);
        }
        Ok(Next::Wait)
    }

    /// Why the run ends that others have added more to than they may: one that adds tasks without end never would.
    fn too_many_tasks(&self) -> Option<String> {
        let (added, most) = (&self.state.added, self.env.max_tasks);
        let beyond = added.get(most..).filter(|beyond| !beyond.is_empty())?;
        let mut names: Vec<&str> = beyond.iter().take(NAMED).map(TaskId::as_str).collect();
        if beyond.len() > NAMED {
            names.push("…");
        }
        Some(format!(
            "{} tasks were added to the run or begun anew, and the setting run.max_tasks allows {most}: {} are not followed; \
             delete them, or raise the setting, and go on with `teamster run --resume {}`",
            added.len(),
            names.join(", "),
            self.team
        ))
    }

    /// Everything that can be done is done.
    fn worked(&mut self, tasks: &[Task]) -> Result<Next> {
        let hopeless = task_progress::hopeless(tasks);
        let done = tasks.iter().filter(|task| task.is_done()).count();
        if done == 0 {
            self.stop_workers("no task could be done")?;
            let why = format!("none of {} tasks could be done", tasks.len());
            self.finish(RunEnd::TasksFailed, &why)?;
            return Ok(Next::GoOn);
        }
        let reason = match hopeless.len() {
            0 => "every task is done".to_owned(),
            some => format!("{done} tasks are done, {some} will not be"),
        };
        self.enter(Stage::Verify, &reason)?;
        Ok(Next::GoOn)
    }

    /// Starts everyone of the team who does not run. Whoever has a launch on record is the supervisor's business.
    fn start_workers(&mut self) -> Result<()> {
        // Each worker looks for itself, but a team of which nobody may begin has not failed: it waits for a person.
        self.env.trust.workers(&self.spec)?;
        let mut why_not = Vec::new();
        let mut there = 0;
        let mut leaving = false;
        for member in self.spec.members.clone() {
            if self.env.observer.stop_level() > StopLevel::GoOn {
                return Ok(());
            }
            let known = record::read(self.env.project, &self.team, &member.name)?;
            if known.is_some() {
                there += 1;
                // An earlier host has asked it to stop: once it is gone, another takes its place.
                leaving |= !self.env.store.signals(&self.team, &member.name)?.is_empty();
                continue;
            }
            // A signal for an earlier one of this name is not for the next.
            self.env.store.clear_signals(&self.team, &member.name)?;
            match self.env.launcher.start(&self.wanted(&member), 0) {
                Ok(_) => there += 1,
                Err(error) => {
                    let text = format!("{} could not be started: {error}", member.name);
                    self.env.observer.say(&text);
                    why_not.push(text);
                }
            }
            self.read()?;
            self.show()?;
        }
        self.workers_are_up = !leaving;
        self.workers_since = Some(Instant::now());
        if there == 0 {
            let why = why_not.join("; ");
            self.finish(RunEnd::Failed, &why)?;
        }
        Ok(())
    }

    fn wanted(&self, member: &Member) -> Wanted {
        Wanted {
            team: self.team.clone(),
            worker: member.name.clone(),
            provider: member.provider.clone(),
            model: member.model.clone(),
            in_place: self.spec.in_place,
            backend: if self.spec.tmux {
                Backend::Tmux
            } else {
                Backend::Process
            },
        }
    }

    /// Looks for the dead, unless that was done a moment ago.
    pub(super) fn look_after_if_due(&mut self) -> Result<()> {
        if Instant::now() < self.next_look {
            return Ok(());
        }
        self.require_room()?;
        self.look_after()?;
        self.next_look = Instant::now() + LOOK_AGAIN;
        Ok(())
    }

    fn look_after(&mut self) -> Result<()> {
        for found in self.supervisor.look()? {
            let text = match found {
                Found::Verdict(worker, verdict, why) => format!("{worker} is {verdict}: {why}"),
                Found::Restarted(worker, times) => format!("{worker} is started anew ({times})"),
                Found::NotRestarted(worker, why) => format!("{worker} cannot be started: {why}"),
                Found::GivenUp(worker) => format!("{worker} ended too often and is left"),
            };
            self.env.observer.say(&text);
        }
        self.read()
    }

    /// Why nobody will do what is still to be done, once that has been so for a while.
    fn nobody_left(&mut self, open: &[&Task]) -> Result<Option<String>> {
        let is_worked_on = open.iter().any(|task| task.status() == Status::InProgress);
        let beats = self.beats()?;
        // The heartbeat of one who died too often stays, and says nothing for ever.
        let is_well = |beat: &Heartbeat| {
            let found = dead::assess(self.env.store, Some(beat), None, &self.env.limits);
            !matches!(found.verdict, Verdict::Dead | Verdict::Quarantined)
        };
        let can_work = self.spec.members.iter().any(|member| {
            let mut beats = beats.iter();
            beats.any(|beat| beat.worker_name == member.name && is_well(beat))
        });
        if can_work || is_worked_on || self.supervisor.will_restart() {
            self.alone_since = None;
            return Ok(None);
        }
        let since = *self.alone_since.get_or_insert_with(Instant::now);
        if since.elapsed() < ALONE {
            return Ok(None);
        }
        let list: Vec<&str> = open.iter().map(|task| task.id().as_str()).collect();
        Ok(Some(format!(
            "nobody is left who could do task {}: every worker has ended or takes no more tasks",
            list.join(", ")
        )))
    }

    /// Refuses to go on where a disk is so full that what workers do could not be written down: they would wait for room
    /// without end, and nobody would hear of it.
    pub(super) fn require_room(&self) -> Result<()> {
        for folder in [self.env.layout.claude.as_path(), self.env.folder] {
            if let Some(free) = teamster_fs::left_on_full_disk(folder) {
                return Err(RunError::NoRoom {
                    message: format!(
                        "the disk of {} is full: {} KiB are free, and a run needs {} KiB to be kept safe",
                        folder.display(),
                        free / 1024,
                        teamster_fs::LEAST_ROOM / 1024
                    ),
                    hint: "make room there".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Stops everyone because the run cannot go on. Where they cannot even be asked, because nothing can be written, they
    /// are ended; what they were doing is in their worktrees, and is taken up again.
    pub(super) fn stop_after_error(&mut self) {
        let asked = teamster_workers::shutdown::Wish {
            team: self.team.clone(),
            only: None,
            actor: HOST.to_owned(),
            reason: "the run cannot go on".to_owned(),
            drain: false,
            force: false,
            deadline: ERROR_DEADLINE,
        };
        let observer = std::cell::RefCell::new(&mut *self.env.observer);
        let mut tell = |text: &str| observer.borrow_mut().say(text);
        let hurry = || observer.borrow().stop_level() > StopLevel::Drain;
        let mut shutdown = Shutdown {
            store: self.env.store,
            machine: self.env.machine,
            project: self.env.project,
            tmux: self.env.tmux,
            tell: &mut tell,
            hurry: &hurry,
        };
        if let Err(error) = shutdown.run(&asked) {
            let text = format!("the workers could not be asked to stop and are ended: {error}");
            (shutdown.tell)(&text);
            for left in shutdown.end_processes(&asked) {
                (shutdown.tell)(&left);
            }
        }
    }

    /// Stops everyone, and goes on only when nobody is left. Whoever sits before the run can make it faster.
    pub(super) fn stop_workers(&mut self, reason: &str) -> Result<()> {
        self.workers_are_up = false;
        self.workers_since = None;
        loop {
            let level = self.env.observer.stop_level();
            let asked = teamster_workers::shutdown::Wish {
                team: self.team.clone(),
                only: None,
                actor: HOST.to_owned(),
                reason: reason.to_owned(),
                drain: level == StopLevel::Drain,
                force: level == StopLevel::Kill,
                deadline: self.env.stop_deadline,
            };
            let observer = std::cell::RefCell::new(&mut *self.env.observer);
            let mut tell = |text: &str| observer.borrow_mut().say(text);
            let hurry = || observer.borrow().stop_level() > level;
            let ends = Shutdown {
                store: self.env.store,
                machine: self.env.machine,
                project: self.env.project,
                tmux: self.env.tmux,
                tell: &mut tell,
                hurry: &hurry,
            }
            .run(&asked)?;
            let alive: Vec<String> = ends
                .iter()
                .filter(|end| end.how == How::Alive)
                .map(|end| format!("{}: {}", end.worker, end.note))
                .collect();
            self.read()?;
            if alive.is_empty() {
                return Ok(());
            }
            if self.env.observer.stop_level() == level {
                return Err(RunError::refused(
                    format!("somebody is still there: {}", alive.join(", ")),
                    "`teamster shutdown --force` ends them; then `teamster run --resume TEAM`",
                ));
            }
        }
    }
}
