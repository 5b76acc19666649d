//! Lets the team work: workers are started and looked after, what is done is merged, and nothing is waited for that will
//! not come.

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

/// How many tasks a reason names.
const NAMED: usize = 20;
/// So long somebody may still come back when nobody is left who could work.
const ALONE: Duration = Duration::from_secs(5);

/// Decides what the team does next while there are tasks to do.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Since when nobody is left who could work.
    alone_since: Option<Instant>,
    /// The members who are kept for the review and were given a task all the same.
    called: BTreeSet<WorkerName>,
}

impl Scheduler {
    /// Notes that a stage was entered, in which everybody may work again.
    pub(super) fn stage_entered(&mut self) {
        self.alone_since = None;
        self.called.clear();
    }

    /// Starts who is missing, merges what is done, and returns what follows when nothing is left to do.
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
        // What is only waiting to be merged costs nothing any more.
        let is_costly = still.iter().any(|task| task.status() != Status::Completed);
        if is_costly && let Some(exceeded) = run.exhausted() {
            return Ok(vec![HostCommand::ExhaustBudget(exceeded)]);
        }
        if run.workers().is_up() {
            run.supervise_if_due()?;
        }
        if merger.step(run, &tasks)? {
            return Ok(Vec::new());
        }
        // Nothing ends before the leader has decided about what failed or cannot go on; everything else does not wait for it.
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
                HostCommand::StopWorkers("nobody is left who could work"),
                HostCommand::finish(RunEnd::TasksFailed, why),
            ]);
        }
        Ok(vec![HostCommand::Wait])
    }

    /// Notes which members that are kept for the review have something to do; returns whether there is one more.
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

    /// Returns why nobody will do what is still to be done, once that has been so for a while.
    fn nobody_left(&mut self, open: &[&Task], can_work: bool, now: Instant) -> Option<Phrase> {
        let is_worked_on = open.iter().any(|task| task.status() == Status::InProgress);
        if can_work || is_worked_on {
            self.alone_since = None;
            return None;
        }
        let since = *self.alone_since.get_or_insert(now);
        if now.saturating_duration_since(since) < ALONE {
            return None;
        }
        let list: Vec<&str> = open.iter().map(|task| task.id().as_str()).collect();
        let tasks = list.join(", ");
        Some(Phrase::new(PhraseCode::NobodyLeft, [("tasks", &tasks)]))
    }
}

/// Merges what workers without a run have finished. What they have not is no business of this run.
fn collect(run: &mut RunContext<'_>, merger: &Merger) -> Result<Vec<HostCommand>> {
    let tasks = run.tasks()?;
    if merger.step(run, &tasks)? {
        return Ok(Vec::new());
    }
    if run.state().stage == Some(Stage::Revise) {
        let team = run.team().clone();
        run.say(&format!(
            "what is to be changed is a task of the team; when a worker has done it, `teamster merge {team}` brings it in"
        ));
    }
    let reason = match not_merged(&tasks).len() {
        0 => PhraseCode::EveryFinishedTaskMerged.into(),
        some => Phrase::new(PhraseCode::FinishedTasksNotMerged, [("count", &some)]),
    };
    Ok(vec![HostCommand::enter(Stage::Verify, reason)])
}

/// Returns why the run ends that others have added more to than they may: one that adds tasks without end never would.
fn too_many_tasks(team: &TeamName, added: &[TaskId], most: usize) -> Option<Phrase> {
    let beyond = added.get(most..).filter(|beyond| !beyond.is_empty())?;
    let mut names: Vec<&str> = beyond.iter().take(NAMED).map(TaskId::as_str).collect();
    if beyond.len() > NAMED {
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

/// Returns what follows when everything that can be done is done.
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

/// Starts everyone of the team who does not run; the supervisor looks after those with a launch on record. Returns the end
/// of a run of which nobody could be started.
fn start_workers(run: &mut RunContext<'_>) -> Result<Option<HostCommand>> {
    // Each worker looks for itself, but a team of which nobody may begin has not failed: it waits for a person.
    run.env().trust.workers(run.spec())?;
    let mut why_not = Vec::new();
    let mut there = 0;
    let mut leaving = false;
    let tasks = run.tasks()?;
    for member in run.spec().members.clone() {
        // Who is kept for the review has nothing to do until then, unless the plan names it.
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
    run.all_started(leaving);
    if there > 0 {
        return Ok(None);
    }
    // A full disk is the most common reason, and no failure of the team.
    run.require_room()?;
    Ok(Some(HostCommand::finish(
        RunEnd::Failed,
        Phrase::verbatim(&why_not.join("; ")),
    )))
}

/// Returns whether a member of the team can take a task, now or after a restart.
fn can_work(run: &RunContext<'_>) -> Result<bool> {
    let beats = run.beats()?;
    // The heartbeat of one who died too often stays, and says nothing for ever.
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
            why.as_str().contains("allows 28: 29, 30 are not followed"),
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
