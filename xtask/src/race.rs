//! Processes that race for tasks: through the command line like real workers, and through the library for large
//! numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use teamster_store::{FileStore, ReadStore};
use teamster_types::task::{Status, Task};

use crate::inject::in_parallel;
use crate::product::{Finished, Product, TempProject, table_line, text, unix_time};
use crate::{evidence, fixture};

/// The number of processes in a race.
const RACERS: usize = 4;
/// Locks in a stale-lock race that must not be taken: half of them fresh and empty, half of them old but alive.
const LIVE_LOCKS: usize = 20;

/// The results of several runs of one race.
#[derive(Debug, Default)]
pub(crate) struct Races {
    what: &'static str,
    runs: usize,
    tasks: usize,
    /// Tasks that two processes were given.
    claimed_twice: usize,
    /// Tasks that were not completed exactly once.
    not_completed_once: usize,
    /// Tasks that no process was given.
    left_over: usize,
    /// Live locks that were considered stale.
    live_taken: usize,
    took: Duration,
}

impl Races {
    /// The columns of a table.
    pub(crate) const COLUMNS: &str = "race | runs | tasks | claimed twice | not completed once | left over | live locks taken | took";

    /// Returns the cells of its row.
    pub(crate) fn cells(&self) -> Vec<String> {
        let counts = [self.runs, self.tasks].into_iter().chain(self.broken());
        let counts = counts.map(|count| count.to_string());
        let took = evidence::minutes(self.took);
        [self.what.to_owned()]
            .into_iter()
            .chain(counts)
            .chain([took])
            .collect()
    }

    /// Returns the counts that must be zero.
    fn broken(&self) -> [usize; 4] {
        let (twice, once) = (self.claimed_twice, self.not_completed_once);
        [twice, once, self.left_over, self.live_taken]
    }

    /// Returns the row in one line.
    pub(crate) fn line(&self) -> String {
        table_line(Self::COLUMNS, &self.cells())
    }

    /// Returns the line when something went wrong.
    pub(crate) fn failure(&self) -> Option<String> {
        let is_bad = self.broken().iter().any(|count| *count > 0);
        is_bad.then(|| self.line())
    }

    /// Counts tasks that were given twice or never, by the processes' own output.
    fn count(&mut self, given: &BTreeMap<String, usize>) {
        self.claimed_twice += given.values().filter(|count| **count > 1).count();
        let is_left = |number: &usize| !given.contains_key(&number.to_string());
        self.left_over += (1..=self.tasks).filter(is_left).count();
    }

    /// Also counts the live locks that were taken.
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
    repeat("claim and complete", runs, tasks, |races| {
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

/// Lets four workers claim tasks whose locks were left by a dead process, among locks that are alive.
pub(crate) fn for_stale_locks(product: &Product, runs: usize, tasks: usize) -> Result<Races> {
    stale_locks("stale locks", runs, tasks, TempProject::new, |project| {
        race(product, project, false)
    })
}

/// Does the same through the library, in memory, with processes that do nothing else: many more races.
pub(crate) fn for_stale_locks_at_speed(
    workloads: &Path,
    runs: usize,
    tasks: usize,
) -> Result<Races> {
    let make = TempProject::in_memory;
    stale_locks("stale locks at speed", runs, tasks, make, |project| {
        let (ids, _) = fixture::drain(workloads, project, RACERS, &["--fast"])?;
        Ok(counted(ids))
    })
}

fn stale_locks(
    what: &'static str,
    runs: usize,
    tasks: usize,
    make: fn() -> Result<TempProject>,
    race: impl Fn(&TempProject) -> Result<BTreeMap<String, usize>>,
) -> Result<Races> {
    repeat(what, runs, tasks, |races| {
        let project = make()?;
        let store = fixture::create_team(&project, RACERS)?;
        plant_locks(&project, &store, tasks)?;
        races.count_locked(&race(&project)?, &store)
    })
}

fn repeat(
    what: &'static str,
    runs: usize,
    tasks: usize,
    run: impl Fn(&mut Races) -> Result<()>,
) -> Result<Races> {
    let mut races = Races {
        what,
        runs,
        tasks,
        ..Races::default()
    };
    let start = Instant::now();
    (0..runs).try_for_each(|_| run(&mut races))?;
    races.took = start.elapsed();
    Ok(races)
}

/// Creates tasks with a stale lock each, and some more with live locks.
fn plant_locks(project: &TempProject, store: &FileStore, tasks: usize) -> Result<()> {
    fixture::create_tasks(store, tasks + LIVE_LOCKS)?;
    let mut ended = Command::new("true").spawn()?;
    ended.wait()?;
    let a_minute_ago = u64::try_from(unix_time().as_millis())? - 60_000;
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
    let racers: Vec<usize> = (1..=RACERS).collect();
    let claims = in_parallel(RACERS, &racers, |number| {
        work(product, project, *number, complete)
    });
    let claims = claims.into_iter().collect::<Result<Vec<_>>>()?;
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
        let (id, token) = (text(&claim["task"]["id"]), text(&claim["token"]));
        if complete {
            let words = ["task", "complete", id, "--json", "--token", token];
            Finished::checked(&mut product.command(project, words))?;
        }
        given.push(id.to_owned());
    }
}

/// Counts the events of a type in the journal by task.
pub(crate) fn journalled(store: &FileStore, kind: &str) -> Result<BTreeMap<String, usize>> {
    let mut events = fixture::journal(store)?;
    events.retain(|event| event.kind == kind);
    let ids = events.into_iter().filter_map(|event| event.task_id);
    Ok(counted(ids.map(|id| id.to_string()).collect()))
}
