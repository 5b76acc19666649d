//! Lets the team work: starts and supervises workers, merges finished tasks, and does not wait for tasks that will
//! never be done.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use teamster_journal::payload::{RunEnd, RunSpec};
use teamster_types::flow::Stage;
use teamster_types::health::Verdict;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::{Status, Task};
use teamster_types::{TaskId, TeamName, WorkerName};
use teamster_workers::reclaim;

use super::context::RunContext;
use super::merger::Merger;
use super::task_progress::{candidates, hopeless, not_merged, open};
use super::waker::{LeaderWaker, WakeStep};
use super::worker_pool::WorkerStart;
use super::{HostCommand, Result};
use crate::observer::StopLevel;

/// The number of tasks that are listed in a reason.
const MOST_NAMED: usize = 20;
/// How long to wait for a worker to return when none is left.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// Decides what the team does next while there are tasks to do.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Since when no worker is left.
    alone_since: Option<Instant>,
    /// The members that are reserved for the review but own a task.
    called: BTreeSet<WorkerName>,
}

impl Scheduler {
    /// Notes that a stage was entered, in which all members may work again.
    pub(super) fn note_stage_entered(&mut self) {
        self.alone_since = None;
        self.called.clear();
    }

    /// Starts missing workers, merges finished tasks, and returns the next commands when nothing is left to do.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        merger: &Merger,
        waker: &mut LeaderWaker,
    ) -> Result<Vec<HostCommand>> {
        if run.spec().collects {
            return collect(run, merger);
        }
        let most = run.env().max_tasks;
        if let Some(why) = too_many_tasks(run.team(), &run.state().added, most) {
            return Ok(vec![
                HostCommand::StopWorkers("too many tasks were added"),
                HostCommand::finish(RunEnd::TasksFailed, why),
            ]);
        }
        let tasks = run.tasks()?;
        let still = open(&tasks);
        // A task that only waits to be merged costs nothing any more.
        let is_costly = still.iter().any(|task| task.status() != Status::Completed);
        if is_costly && let Some(exceeded) = run.limit_reached() {
            return Ok(vec![HostCommand::ExhaustBudget(exceeded)]);
        }
        if run.workers().is_up() {
            run.supervise_if_due()?;
        }
        if merger.step(run, &tasks)? {
            return Ok(Vec::new());
        }
        // The stage does not end before the leader has decided about failed and blocked tasks; everything else
        // continues meanwhile.
        match waker.step(run, merger.guard(), &tasks)? {
            WakeStep::Changed => return Ok(Vec::new()),
            WakeStep::Thinking if still.is_empty() => return Ok(vec![HostCommand::Wait]),
            WakeStep::Thinking | WakeStep::Idle => {}
        }
        if still.is_empty() && !candidates(&tasks).is_empty() {
            return Ok(vec![HostCommand::ChooseResult]);
        }
        if still.is_empty() {
            return Ok(after_work(&tasks));
        }
        let is_new = self.note_owners(run.spec(), &still);
        if (is_new || !run.workers().is_up())
            && let Some(end) = start_workers(run)?
        {
            return Ok(vec![end]);
        }
        run.supervise_if_due()?;
        let can_work = can_work(run)?;
        if let Some(why) = self.nobody_left(&still, can_work, run.now()) {
            return Ok(vec![
                HostCommand::StopWorkers("no worker is left"),
                HostCommand::finish(RunEnd::TasksFailed, why),
            ]);
        }
        Ok(vec![HostCommand::Wait])
    }

    /// Notes which members that are reserved for the review own a task; returns whether there is a new one.
    fn note_owners(&mut self, spec: &RunSpec, open: &[&Task]) -> bool {
        let working = spec.working_members();
        let kept = spec.members.iter().filter(|one| !working.contains(one));
        let before = self.called.len();
        for member in kept {
            let owns = |task: &&Task| task.owner() == Some(member.name.as_str());
            if open.iter().any(owns) {
                self.called.insert(member.name.clone());
            }
        }
        self.called.len() > before
    }

    /// Returns why the remaining tasks will not be done, once no worker has been left for a while.
    fn nobody_left(&mut self, open: &[&Task], can_work: bool, now: Instant) -> Option<Phrase> {
        let is_worked_on = open.iter().any(|task| task.status() == Status::InProgress);
        if can_work || is_worked_on {
            self.alone_since = None;
            return None;
        }
        let since = *self.alone_since.get_or_insert(now);
        if now.saturating_duration_since(since) < RETURN_TIMEOUT {
            return None;
        }
        let list: Vec<&str> = open.iter().map(|task| task.id().as_str()).collect();
        let tasks = list.join(", ");
        Some(Phrase::new(PhraseCode::NobodyLeft, [("tasks", &tasks)]))
    }
}

/// Merges the finished tasks of workers without a run. Their unfinished tasks do not concern this run.
fn collect(run: &mut RunContext<'_>, merger: &Merger) -> Result<Vec<HostCommand>> {
    let tasks = run.tasks()?;
    if merger.step(run, &tasks)? {
        return Ok(Vec::new());
    }
    if run.state().stage == Some(Stage::Revise) {
        let team = run.team().clone();
        run.say(&format!(
            "the change is a task of the team; when a worker has done it, `teamster merge {team}` merges it"
        ));
    }
    let reason = match not_merged(&tasks).len() {
        0 => PhraseCode::EveryFinishedTaskMerged.into(),
        some => Phrase::new(PhraseCode::FinishedTasksNotMerged, [("count", &some)]),
    };
    Ok(vec![HostCommand::enter(Stage::Verify, reason)])
}

/// Returns why a run ends to which others have added more tasks than allowed: otherwise it might never end.
fn too_many_tasks(team: &TeamName, added: &[TaskId], most: usize) -> Option<Phrase> {
    let beyond = added.get(most..).filter(|beyond| !beyond.is_empty())?;
    let mut names: Vec<&str> = beyond.iter().take(MOST_NAMED).map(TaskId::as_str).collect();
    if beyond.len() > MOST_NAMED {
        names.push("…");
    }
    let beyond: [(&str, &dyn std::fmt::Display); 4] = [
        ("count", &added.len()),
        ("most", &most),
        ("tasks", &names.join(", ")),
        ("team", team),
    ];
    Some(Phrase::new(PhraseCode::TooManyTasks, beyond))
}

/// Returns the commands when everything that can be done is done.
fn after_work(tasks: &[Task]) -> Vec<HostCommand> {
    let done = tasks.iter().filter(|task| task.is_done()).count();
    if done == 0 {
        let why = Phrase::new(PhraseCode::NoTaskDone, [("count", &tasks.len())]);
        return vec![
            HostCommand::StopWorkers("no task could be done"),
            HostCommand::finish(RunEnd::TasksFailed, why),
        ];
    }
    let reason = match hopeless(tasks).len() {
        0 => PhraseCode::EveryTaskDone.into(),
        some => Phrase::new(
            PhraseCode::SomeTasksDone,
            [("done", &done), ("left", &some)],
        ),
    };
    vec![HostCommand::enter(Stage::Verify, reason)]
}

/// Starts every member of the team that does not run; the supervisor looks after those with a launch on record. Returns
/// the end of a run of which no worker could be started.
fn start_workers(run: &mut RunContext<'_>) -> Result<Option<HostCommand>> {
    // Each worker checks this itself, but a team that is not trusted has not failed: it waits for a person.
    run.env().trust.workers(run.spec())?;
    let mut why_not = Vec::new();
    let mut there = 0;
    let mut leaving = false;
    let tasks = run.tasks()?;
    for member in run.spec().members.clone() {
        // A member that is reserved for the review has nothing to do until then, unless it owns a task.
        let is_kept = !run.spec().working_members().contains(&&member);
        let owns = |task: &&Task| task.owner() == Some(member.name.as_str());
        if is_kept && !open(&tasks).iter().any(owns) {
            continue;
        }
        if run.stop_level() > StopLevel::GoOn {
            return Ok(None);
        }
        match run.start_worker(&member)? {
            WorkerStart::Known { is_leaving } => {
                there += 1;
                leaving |= is_leaving;
                continue;
            }
            WorkerStart::New => there += 1,
            WorkerStart::Failed(text) => {
                run.say(&text);
                why_not.push(text);
            }
        }
        run.read()?;
        run.show()?;
    }
    run.note_all_started(leaving);
    if there > 0 {
        return Ok(None);
    }
    // A full disk is the most common reason, and not a failure of the team.
    run.require_disk_space()?;
    Ok(Some(HostCommand::finish(
        RunEnd::Failed,
        Phrase::verbatim(&why_not.join("; ")),
    )))
}

/// Returns whether a member of the team can take a task, now or after a restart.
fn can_work(run: &RunContext<'_>) -> Result<bool> {
    let beats = run.heartbeats()?;
    // The heartbeat of a worker that died too often remains, and is never updated again.
    let is_well = |beat: &Heartbeat| {
        let found = reclaim::assess(run.store(), Some(beat), None, &run.env().limits);
        !matches!(found.verdict, Verdict::Dead | Verdict::Quarantined)
    };
    let is_there = run.spec().members.iter().any(|member| {
        let mut beats = beats.iter();
        beats.any(|beat| beat.worker_name == member.name && is_well(beat))
    });
    Ok(is_there || run.workers().will_restart())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teamster_types::Time;
    use teamster_types::task::NewTask;

    use super::*;

    fn task(number: u64, status: &str) -> Task {
        let id = TaskId::from_number(number);
        let made = Task::new(id.clone(), &NewTask::default(), Time::from_millis(0));
        let mut raw = made.as_object().clone();
        raw.insert("status".into(), json!(status));
        Task::from_object(&id, raw).unwrap()
    }

    #[test]
    fn team_without_workers_is_given_up_after_a_while() {
        let began = Instant::now();
        let (pending, working) = (task(1, "pending"), task(2, "in_progress"));
        let mut scheduler = Scheduler::default();
        for (open, can_work, after, is_over) in [
            (&pending, false, 0, false),
            (&pending, false, 4, false),
            (&working, false, 5, false),
            (&pending, false, 6, false),
            (&pending, true, 10, false),
            (&pending, false, 11, false),
            (&pending, false, 16, true),
        ] {
            let now = began + Duration::from_secs(after);
            let why = scheduler.nobody_left(&[open], can_work, now);
            assert_eq!(why.is_some(), is_over, "after {after} s: {why:?}");
        }
    }

    #[test]
    fn tasks_beyond_the_limit_are_named() {
        let team: TeamName = "shop".parse().unwrap();
        let added: Vec<TaskId> = (1..=30).map(TaskId::from_number).collect();
        assert_eq!(too_many_tasks(&team, &added, 30), None);
        assert_eq!(too_many_tasks(&team, &added, 31), None);
        let why = too_many_tasks(&team, &added, 28).unwrap();
        assert!(
            why.as_str().contains("allows 28: 29, 30 are ignored"),
            "{why}"
        );
        assert!(
            too_many_tasks(&team, &added, 1)
                .unwrap()
                .as_str()
                .contains("21, … are")
        );
    }
}
