//! Processes that race for tasks, through the command line as real workers do, and through the library for numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use teamster_store::{FileStore, Read};
use teamster_types::task::{Status, Task};

use crate::product::{Place, Product};
use crate::{drain, kit};

/// Processes at a time.
pub(crate) const RACERS: usize = 4;
/// Locks in a stale-lock race that nobody may touch: half of them fresh and empty, half of them old but alive.
const LIVE_LOCKS: usize = 20;

/// The figures of several runs of one race.
#[derive(Debug, Default)]
pub(crate) struct Races {
    pub runs: usize,
    pub tasks: usize,
    /// Tasks that two processes were given.
    pub claimed_twice: usize,
    /// Tasks that were completed other than once.
    pub not_completed_once: usize,
    /// Tasks that nobody was given.
    pub left_over: usize,
    /// Live locks that were taken for stale.
    pub live_taken: usize,
    pub took: Duration,
    pub violations: Vec<String>,
}

impl Races {
    fn clean(&self) -> bool {
        let bad = self.claimed_twice + self.not_completed_once + self.left_over + self.live_taken;
        bad == 0 && self.violations.is_empty()
    }

    /// One line for a terminal.
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

    /// What went wrong, if anything did.
    pub(crate) fn failures(&self, what: &str) -> Vec<String> {
        let mut failures = self.violations.clone();
        if !self.clean() {
            failures.push(self.line(what).trim().to_owned());
        }
        failures
    }
}

/// Four processes claim and complete all tasks.
pub(crate) fn for_tasks(product: &Product, runs: usize, tasks: usize) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, RACERS)?;
        kit::free_tasks(&store, tasks)?;
        let claims = race(product, &place, true)?;
        count(&claims, tasks, races);
        let list = store.tasks(&kit::team()?)?;
        races.not_completed_once += list.tasks.iter().filter(|task| !task.is_done()).count();
        let completions = journalled(&store, "task.completed")?;
        races.not_completed_once += completions.values().filter(|count| **count != 1).count();
        let claimed = journalled(&store, "task.claimed")?;
        races.claimed_twice += claimed.values().filter(|count| **count != 1).count();
        Ok(())
    })
}

/// Four processes claim tasks whose locks were left by a process that is gone, among locks that are alive.
pub(crate) fn for_stale_locks(product: &Product, runs: usize, tasks: usize) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, RACERS)?;
        plant_all(&place, &store, tasks)?;
        let claims = race(product, &place, false)?;
        count_locked(&claims, &store, tasks, races)
    })
}

/// The same through the library, in memory, by processes that do nothing else: many more races.
pub(crate) fn for_stale_locks_at_speed(
    workloads: &Path,
    runs: usize,
    tasks: usize,
) -> Result<Races> {
    repeat(runs, tasks, |races| {
        let place = Place::in_memory()?;
        let store = kit::team_of(&place, RACERS)?;
        plant_all(&place, &store, tasks)?;
        let drained = drain::run(workloads, &place, RACERS, &["--fast"])?;
        count_locked(&given(drained.ids), &store, tasks, races)
    })
}

/// Tasks with a stale lock each, and some more whose locks are alive.
fn plant_all(place: &Place, store: &FileStore, tasks: usize) -> Result<()> {
    kit::free_tasks(store, tasks + LIVE_LOCKS)?;
    let dead = dead_process()?;
    for number in 1..=tasks + LIVE_LOCKS {
        let lock = match number {
            stale if stale <= tasks => old_lock(dead, number)?,
            empty if empty % 2 == 0 => Vec::new(),
            _ => old_lock(std::process::id(), number)?,
        };
        let file = place.tasks().join(format!("{number}.lock"));
        std::fs::write(file, lock).context("cannot plant a lock")?;
    }
    Ok(())
}

fn count_locked(
    claims: &BTreeMap<String, usize>,
    store: &FileStore,
    tasks: usize,
    races: &mut Races,
) -> Result<()> {
    races.live_taken += (tasks + 1..=tasks + LIVE_LOCKS)
        .filter(|number| claims.contains_key(&number.to_string()))
        .count();
    count(claims, tasks, races);
    let list = store.tasks(&kit::team()?)?;
    let is_torn = |task: &&Task| task.status() == Status::InProgress && task.fence() != 1;
    races.claimed_twice += list.tasks.iter().filter(is_torn).count();
    Ok(())
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

/// How often each task was given to somebody, by what the processes were told.
fn race(product: &Product, place: &Place, complete: bool) -> Result<BTreeMap<String, usize>> {
    let claims = std::thread::scope(|scope| {
        let racers: Vec<_> = (1..=RACERS)
            .map(|number| scope.spawn(move || work(product, place, number, complete)))
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap_or_else(|_| bail!("a racer panicked")))
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(given(claims.into_iter().flatten().collect()))
}

fn given(ids: Vec<String>) -> BTreeMap<String, usize> {
    let mut given = BTreeMap::new();
    for id in ids {
        *given.entry(id).or_insert(0) += 1;
    }
    given
}

/// One worker: claims until nothing is left, each time in a new process.
fn work(product: &Product, place: &Place, number: usize, complete: bool) -> Result<Vec<String>> {
    let worker = kit::worker(number)?;
    let mut given = Vec::new();
    loop {
        let answer = product.call(
            place,
            ["task", "claim", "--json", "--worker", worker.as_str()],
        )?;
        match answer.code() {
            Some(0) => {}
            Some(5) => return Ok(given),
            _ => bail!("{worker} could not claim: {}", answer.said()),
        }
        let claim: Value = answer.json().context("a claim was not answered")?;
        let id = claim["task"]["id"].as_str().context("a claim has no id")?;
        let token = claim["token"].as_str().context("a claim has no token")?;
        if complete {
            let done = product.call(place, ["task", "complete", id, "--json", "--token", token])?;
            if !done.status.success() {
                bail!("{worker} could not complete {id}: {}", done.said());
            }
        }
        given.push(id.to_owned());
    }
}

fn count(claims: &BTreeMap<String, usize>, tasks: usize, races: &mut Races) {
    races.claimed_twice += claims.values().filter(|count| **count > 1).count();
    races.left_over += (1..=tasks)
        .filter(|number| !claims.contains_key(&number.to_string()))
        .count();
}

/// How many events of a type the journal has for each task.
fn journalled(store: &impl Read, kind: &str) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let page = store.events(&kit::team()?, 1, usize::MAX)?;
    for event in page.events.into_iter().filter(|event| event.kind == kind) {
        let id = event.task_id.map(|id| id.to_string()).unwrap_or_default();
        *counts.entry(id).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The pid of a process that has ended.
fn dead_process() -> Result<u32> {
    let mut child = std::process::Command::new("true").spawn()?;
    child.wait()?;
    Ok(child.id())
}

/// A claim lock of this process, a minute old, as another program writes it.
fn old_lock(pid: u32, number: usize) -> Result<Vec<u8>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let lock = json!({
        "pid": pid,
        "workerName": format!("other-{number}"),
        "timestamp": u64::try_from(now)? - 60_000,
    });
    Ok(lock.to_string().into_bytes())
}
