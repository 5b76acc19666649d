//! A worker that has nothing to do: what it waits for, and how it does so for next to nothing.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use teamster_types::json::Object;

use super::heartbeat::News;
use super::{Bridge, Event};
use crate::reclaim;

/// A claim that found nothing is not tried again before this time, however much happens in the team.
const BREATH: Duration = Duration::from_millis(300);
/// Tasks that wait for a time and not for an event (a back-off, a better worker's turn) are asked for this often.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Where all tasks are done, only a foreign program that writes to a file in place brings work without a sign. A team of
/// more than so many workers takes turns in looking for that, so that somebody does each time,
const LOOKERS: usize = 4;
/// and everybody after so many times.
const MOST_TURNS: usize = 24;

/// What there is to do for somebody who has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// There may be a task now.
    Now,
    /// There may be one later: others are at work.
    Later,
    /// All is done.
    Nothing,
}

impl Bridge {
    /// Tells the lead, once until the next task, that there is nothing to do, and whether everything is done.
    pub(super) fn say_idle(&mut self) {
        if std::mem::replace(&mut self.said_idle, true) {
            return;
        }
        self.send("idle", "there is no task for me now", Object::new());
        let progress = self.store.progress(&self.who.team);
        let is_all_done = progress.is_ok_and(|(progress, _)| {
            progress.total_tasks > 0 && progress.pending_tasks + progress.in_progress_tasks == 0
        });
        if is_all_done {
            self.send(
                "all_tasks_complete",
                "every task is done or failed for good",
                Object::new(),
            );
        }
    }

    /// Waits for something that makes another look worth it.
    pub(super) fn wait(&mut self, tried: Option<Instant>) {
        let rested = tried.map(|tried| tried + BREATH);
        let mut again = Instant::now() + ASK_AGAIN;
        let mut has_had_its_turn = false;
        loop {
            let until = match self.paused_until {
                Some(paused) if paused < again => paused,
                _ => again,
            };
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    let is_work = self.idle_event(event);
                    if self.stop.is_some() || self.gone {
                        return;
                    }
                    if is_work && self.may_work() {
                        let breath = rested.map_or(Duration::ZERO, |rested| {
                            rested.saturating_duration_since(Instant::now())
                        });
                        std::thread::sleep(breath);
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let waiting = if self.may_work() {
                        self.waiting_work()
                    } else {
                        Waiting::Later
                    };
                    if waiting == Waiting::Now {
                        return;
                    }
                    if self
                        .paused_until
                        .is_some_and(|until| Instant::now() >= until)
                    {
                        self.paused_until = None;
                        return;
                    }
                    let rest = match waiting {
                        Waiting::Nothing => {
                            let turns = self.turns();
                            let number = self.machine.me().pid % turns + 1;
                            let first = !std::mem::replace(&mut has_had_its_turn, true);
                            ASK_AGAIN * if first { number } else { turns }
                        }
                        _ => ASK_AGAIN,
                    };
                    again = Instant::now() + rest;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    /// The workers of a large team take turns in looking for what no event tells of; how many turns there are.
    fn turns(&self) -> u32 {
        let members = self.store.team(&self.who.team);
        let members = members.map_or(0, |team| team.members().len());
        u32::try_from((members / LOOKERS).clamp(1, MOST_TURNS)).unwrap_or(1)
    }

    /// Whether tasks wait for a time that no event tells of. Those of a dead colleague are put back.
    fn waiting_work(&mut self) -> Waiting {
        let Ok((progress, _)) = self.store.progress(&self.who.team) else {
            return Waiting::Later;
        };
        if progress.in_progress_tasks > 0 {
            let name = self.who.name.as_str();
            let store = self.store.as_ref();
            match reclaim::reclaim_all(store, &self.machine, &self.who.team, name) {
                Ok(reclaimed) if !reclaimed.is_empty() => return Waiting::Now,
                Ok(_) => {}
                Err(error) => self.tell(&format!("cannot look after the others: {error}")),
            }
        }
        match (progress.pending_tasks, progress.in_progress_tasks) {
            (0, 0) => Waiting::Nothing,
            (0, _) => Waiting::Later,
            _ => Waiting::Now,
        }
    }

    /// Something happened while there was no task; whether there may be one now.
    pub(super) fn idle_event(&mut self, event: Event) -> bool {
        match event {
            Event::Heart(News::Stop(signal)) => {
                self.asked_to_stop(signal);
                false
            }
            Event::Heart(News::NoTeam) => {
                self.gone = true;
                false
            }
            Event::Heart(News::Changed) => self.read_the_news(),
            Event::Heart(News::Lost(..)) | Event::Agent(..) => false,
        }
    }
}
