//! Processes that race for tasks: through the command line as real workers do, and through the library for numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use teamster_store::{FileStore, Read};
use teamster_types::task::{Status, Task};

use crate::fixture;
use crate::product::{Finished, Product, TempProject};

/// Processes that race at a time.
pub(crate) const RACERS: usize = 4;
/// Locks in a stale-lock race that nobody may touch: half of them fresh and empty, half of them old but alive.
const LIVE_LOCKS: usize = 20;

/// The figures of several runs of one race.
#[derive(Debug, Default)]
pub(crate) struct Races {
    pub(crate) runs: usize,
    pub(crate) tasks: usize,
    /// Tasks that two processes were given.
    pub(crate) claimed_twice: usize,
    /// Tasks that were not completed exactly once.
    pub(crate) not_completed_once: usize,
    /// Tasks that nobody was given.
    pub(crate) left_over: usize,
    /// Live locks that were taken for stale.
    pub(crate) live_taken: usize,
    pub(crate) took: Duration,
}

impl Races {
    /// Returns one line for a terminal.
    pub(crate) fn line(&self, what: &str) -> String {
        format!(
            "  {what}: {} runs × {} tasks × {RACERS} processes in {:.1} s: {} claimed twice, {} not completed once, {} left over, {} live locks taken",
            self.runs,
            self.tasks,
            self.took.as_secs_f64(),
            self.claimed_twice,
            self.not_completed_once,
            self.left_over,
            self.live_taken,
        )
    }

    /// Returns the line when something went wrong.
    pub(crate) fn failure(&self, what: &str) -> Option<String> {
        let bad = self.claimed_twice + self.not_completed_once + self.left_over + self.live_taken;
        (bad > 0).then(|| self.line(what).trim().to_owned())
    }

    /// Counts tasks that were given twice or never, by what the processes were told.
    fn count(&mut self, given: &BTreeMap<String, usize>) {
        self.claimed_twice += given.values().filter(|count| **count > 1).count();
        let is_left = |number: &usize| !given.contains_key(&number.to_string());
        self.left_over += (1..=self.tasks).filter(is_left).count();
    }

    /// Counts, too, the live locks that were taken.
    fn count_locked(&mut self, given: &BTreeMap<String, usize>, store: &FileStore) -> Result<()> {
        self.count(given);
        let live = self.tasks + 1..=self.tasks + LIVE_LOCKS;
        let is_taken = |number: &usize| given.contains_key(&number.to_string());
        self.live_taken += live.filter(is_taken).count();
        let list = store.tasks(&fixture::team()?)?;
        let is_torn = |task: &&Task| task.status() == Status::InProgress && task.fence() != 1;
        self.claimed_twice += list.tasks.iter().filter(is_torn).count();
        Ok(())
    }
}

/// Lets four workers claim and complete all tasks.
pub(crate) fn for_tasks(product: &Product, runs: usize, tasks: usize) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let project = TempProject::new()?;
        let store = fixture::create_team(&project, RACERS)?;
        fixture::create_tasks(&store, tasks)?;
        races.count(&race(product, &project, true)?);
        let list = store.tasks(&fixture::team()?)?;
        races.not_completed_once += list.tasks.iter().filter(|task| !task.is_done()).count();
        let not_once = |kind| -> Result<usize> {
            let counts = journalled(&store, kind)?;
            Ok(counts.values().filter(|count| **count != 1).count())
        };
        races.not_completed_once += not_once("task.completed")?;
        races.claimed_twice += not_once("task.claimed")?;
        Ok(())
    })
}

/// Lets four workers claim tasks whose locks were left by a process that is gone, among locks that are alive.
pub(crate) fn for_stale_locks(product: &Product, runs: usize, tasks: usize) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let project = TempProject::new()?;
        let store = fixture::create_team(&project, RACERS)?;
        plant_locks(&project, &store, tasks)?;
        races.count_locked(&race(product, &project, false)?, &store)
    })
}

/// Does the same through the library, in memory, by processes that do nothing else: many more races.
pub(crate) fn for_stale_locks_at_speed(
    workloads: &Path,
    runs: usize,
    tasks: usize,
) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let project = TempProject::in_memory()?;
        let store = fixture::create_team(&project, RACERS)?;
        plant_locks(&project, &store, tasks)?;
        let (ids, _) = fixture::drain(workloads, &project, RACERS, &["--fast"])?;
        races.count_locked(&counted(ids), &store)
    })
}

fn repeat(
    runs: usize,
    tasks: usize,
    mut run: impl FnMut(&mut Races) -> Result<()>,
) -> Result<Races> {
    let mut races = Races {
        runs,
        tasks,
        ..Races::default()
    };
    let start = Instant::now();
    for _ in 0..runs {
        run(&mut races)?;
    }
    races.took = start.elapsed();
    Ok(races)
}

/// Creates tasks with a stale lock each, and some more whose locks are alive.
fn plant_locks(project: &TempProject, store: &FileStore, tasks: usize) -> Result<()> {
    fixture::create_tasks(store, tasks + LIVE_LOCKS)?;
    let mut ended = Command::new("true").spawn()?;
    ended.wait()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let a_minute_ago = u64::try_from(now)? - 60_000;
    for number in 1..=tasks + LIVE_LOCKS {
        let lock = |pid: u32| {
            let worker = format!("other-{number}");
            json!({"pid": pid, "workerName": worker, "timestamp": a_minute_ago}).to_string()
        };
        let lock = match number {
            stale if stale <= tasks => lock(ended.id()),
            empty if empty % 2 == 0 => String::new(),
            _ => lock(std::process::id()),
        };
        let file = project.tasks().join(format!("{number}.lock"));
        std::fs::write(file, lock).context("cannot plant a lock")?;
    }
    Ok(())
}

/// Lets all workers claim, and returns how often each task was given to one of them.
fn race(
    product: &Product,
    project: &TempProject,
    complete: bool,
) -> Result<BTreeMap<String, usize>> {
    let claims = std::thread::scope(|scope| {
        let work = |number| move || work(product, project, number, complete);
        let racers: Vec<_> = (1..=RACERS)
            .map(|number| scope.spawn(work(number)))
            .collect();
        let join = |racer: std::thread::ScopedJoinHandle<'_, Result<Vec<String>>>| {
            racer
                .join()
                .unwrap_or_else(|_| Err(anyhow!("a racer panicked")))
        };
        racers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    Ok(counted(claims.into_iter().flatten().collect()))
}

fn counted(ids: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for id in ids {
        *counts.entry(id).or_insert(0) += 1;
    }
    counts
}

/// Claims as one worker until nothing is left, each time in a new process.
fn work(
    product: &Product,
    project: &TempProject,
    number: usize,
    complete: bool,
) -> Result<Vec<String>> {
    let worker = fixture::worker(number)?;
    let mut given = Vec::new();
    loop {
        let claim = product.call(project, &format!("task claim --json --worker {worker}"))?;
        match claim.code() {
            Some(0) => {}
            Some(5) => return Ok(given),
            _ => bail!("{worker} could not claim: {}", claim.describe()),
        }
        let claim = claim.json().context("a claim printed nothing")?;
        let id = claim["task"]["id"].as_str().context("a claim has no id")?;
        let token = claim["token"].as_str().context("a claim has no token")?;
        if complete {
            let words = ["task", "complete", id, "--json", "--token", token];
            Finished::checked(&mut product.command(project, words))?;
        }
        given.push(id.to_owned());
    }
}

/// Counts the events of a type in the journal by task.
fn journalled(store: &impl Read, kind: &str) -> Result<BTreeMap<String, usize>> {
    let page = store.events(&fixture::team()?, 1, usize::MAX)?;
    let events = page.events.into_iter().filter(|event| event.kind == kind);
    let id = |event: teamster_journal::Event| event.task_id.map(|id| id.to_string());
    Ok(counted(
        events.map(|event| id(event).unwrap_or_default()).collect(),
    ))
}
