//! While work goes on: workers are there, the dead are replaced, what is done is merged, and nothing is waited for that
//! will not come.

use std::time::{Duration, Instant};

use teamster_journal::payload::RunEnd;
use teamster_types::TaskId;
use teamster_types::flow::Stage;
use teamster_types::health::Verdict;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::task::{Status, Task};
use teamster_workers::reclaim;

use super::task_progress::{self, open};
use super::worker_pool::Started;
use super::{Host, Next, Result};
use crate::observer::StopLevel;

/// How many tasks a reason names.
const NAMED: usize = 20;
/// So long somebody may still come back when nobody is left who could work.
const ALONE: Duration = Duration::from_secs(5);

impl Host<'_> {
    pub(super) fn work(&mut self) -> Result<Next> {
        if let Some(why) = self.too_many_tasks() {
            self.run.stop_workers("too many tasks were added")?;
            self.finish(RunEnd::TasksFailed, &why)?;
            return Ok(Next::GoOn);
        }
        let tasks = self.run.tasks()?;
        let still = open(&tasks);
        // What is only waiting to be merged costs nothing any more.
        let is_costly = still.iter().any(|task| task.status() != Status::Completed);
        if is_costly && let Some(why) = self.run.exhausted() {
            return self.out_of_budget(&why);
        }
        if self.run.workers().is_up() {
            self.run.supervise_if_due()?;
        }
        if self.merge(&tasks)? {
            return Ok(Next::GoOn);
        }
        if still.is_empty() {
            return self.worked(&tasks);
        }
        if !self.run.workers().is_up() {
            self.start_workers()?;
        }
        self.run.supervise_if_due()?;
        if let Some(why) = self.nobody_left(&still)? {
            self.run.stop_workers("nobody is left who could work")?;
            self.finish(RunEnd::TasksFailed, &why)?;
            return Ok(Next::GoOn);
        }
        Ok(Next::Wait)
    }

    /// Why the run ends that others have added more to than they may: one that adds tasks without end never would.
    fn too_many_tasks(&self) -> Option<String> {
        let (added, most) = (&self.run.state().added, self.run.env().max_tasks);
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
            self.run.team()
        ))
    }

    /// Everything that can be done is done.
    fn worked(&mut self, tasks: &[Task]) -> Result<Next> {
        let hopeless = task_progress::hopeless(tasks);
        let done = tasks.iter().filter(|task| task.is_done()).count();
        if done == 0 {
            self.run.stop_workers("no task could be done")?;
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

    /// Starts everyone of the team who does not run. The supervisor looks after those with a launch on record.
    fn start_workers(&mut self) -> Result<()> {
        // Each worker looks for itself, but a team of which nobody may begin has not failed: it waits for a person.
        self.run.env().trust.workers(self.run.spec())?;
        let mut why_not = Vec::new();
        let mut there = 0;
        let mut leaving = false;
        for member in self.run.spec().members.clone() {
            if self.run.stop_level() > StopLevel::GoOn {
                return Ok(());
            }
            match self.run.start_worker(&member)? {
                Started::Known { is_leaving } => {
                    there += 1;
                    leaving |= is_leaving;
                    continue;
                }
                Started::New => there += 1,
                Started::Failed(text) => {
                    self.run.say(&text);
                    why_not.push(text);
                }
            }
            self.run.read()?;
            self.run.show()?;
        }
        self.run.all_started(leaving);
        if there == 0 {
            let why = why_not.join("; ");
            self.finish(RunEnd::Failed, &why)?;
        }
        Ok(())
    }

    /// Why nobody will do what is still to be done, once that has been so for a while.
    fn nobody_left(&mut self, open: &[&Task]) -> Result<Option<String>> {
        let is_worked_on = open.iter().any(|task| task.status() == Status::InProgress);
        let beats = self.run.beats()?;
        // The heartbeat of one who died too often stays, and says nothing for ever.
        let is_well = |beat: &Heartbeat| {
            let found = reclaim::assess(self.run.store(), Some(beat), None, &self.run.env().limits);
            !matches!(found.verdict, Verdict::Dead | Verdict::Quarantined)
        };
        let can_work = self.run.spec().members.iter().any(|member| {
            let mut beats = beats.iter();
            beats.any(|beat| beat.worker_name == member.name && is_well(beat))
        });
        if can_work || is_worked_on || self.run.workers().will_restart() {
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
}
