//! Workers at their limits: a task that takes minutes, and an agent that tries to get away.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use teamster_fs::proc::Machine;
use teamster_fs::processes;

use crate::fixture::{self, WorkerTeam};
use crate::product::{Finished, Product};

/// The oldest that a heartbeat may be.
pub(super) const OLDEST_BEAT: Duration = Duration::from_secs(15);
/// The longest that a shutdown may take.
pub(super) const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);
/// Ignores every signal that can be ignored, forks twice, makes sessions of its own and leaves three generations.
const RUNAWAY: &str = r#"command:echo up; trap '' TERM INT HUP
setsid sh -c 'trap "" TERM INT HUP; (setsid sh -c "trap \"\" TERM; (trap \"\" TERM; sleep 600; :) & sleep 600; :" &); sleep 600; :' &
sleep 600; :"#;
/// The number of its processes once all are there.
const GENERATIONS: usize = 6;
/// A variable that all of them carry.
const PLANTED: &str = "TEAMSTER_PLANTED";
/// Starts a program where cgroups cannot be found.
const WITHOUT_GROUPS: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "umount --all --types cgroup2 && exec \"$@\"",
    "sh",
];

/// What was seen of a worker with a long task.
pub(super) struct LongTask {
    pub(super) length: Duration,
    pub(super) looks: usize,
    pub(super) oldest_beat: Duration,
    /// How long a shutdown in the middle of the next task took.
    pub(super) shutdown: Duration,
    /// How many processes were left after it.
    pub(super) left: usize,
}

/// Watches the heartbeat of a worker during a long task, and shuts it down in the middle of the next one.
pub(super) fn long_task(product: &Product, length: Duration) -> Result<LongTask> {
    let mut team = WorkerTeam::create(product)?;
    let mark = teamster_fs::random_hex();
    let script = format!("[[step]]\ndo = \"sleep\"\nseconds = {}\n", length.as_secs());
    fixture::create_tasks(&team.store, 2)?;
    team.grow(1, &team.script(&script)?, &[(PLANTED, &mark)])?;
    let is_at = |team: &WorkerTeam<'_>, task: &str| -> Result<bool> {
        let beats = team.beats()?;
        let current = beats.first().and_then(|beat| beat.current_task_id.as_ref());
        Ok(current.is_some_and(|id| id.to_string() == task))
    };
    team.until("the first task has begun", |team| is_at(team, "1"))?;
    let (start, mut looks, mut oldest_beat) = (Instant::now(), 0, Duration::ZERO);
    // The same worker goes on with the second task, so it is in the middle of one at any time.
    while !is_at(&team, "2")? {
        let beats = team.beats()?;
        let beat = beats.first().context("there is no heartbeat")?;
        oldest_beat = oldest_beat.max(fixture::now().since(beat.last_poll_at));
        looks += 1;
        let limit = length + Duration::from_secs(120);
        ensure!(start.elapsed() < limit, "the task did not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(LongTask {
        length,
        looks,
        oldest_beat,
        shutdown: team.shut_down()?,
        left: carriers(&mark).len(),
    })
}

/// What was seen of a runaway agent.
pub(super) struct Runaway {
    pub(super) processes: usize,
    /// Whether the kernel kept them in a cgroup of ours.
    pub(super) grouped: bool,
    pub(super) shutdown: Duration,
    pub(super) left: usize,
}

/// Shuts a runaway agent down, or returns why that cannot be tried here.
pub(super) fn runaway(product: &Product, with_groups: bool) -> Result<Result<Runaway, String>> {
    let mut team = WorkerTeam::create(product)?;
    if !with_groups {
        let mut probe = Command::new(WITHOUT_GROUPS[0]);
        if let Err(why) = Finished::checked(probe.args(&WITHOUT_GROUPS[1..]).arg("true")) {
            return Ok(Err(format!("{why:#}")));
        }
        team = team.wrapped_in(&WITHOUT_GROUPS);
    }
    let mark = teamster_fs::random_hex();
    fixture::create_tasks(&team.store, 1)?;
    team.grow(1, RUNAWAY, &[(PLANTED, &mark)])?;
    let bridge = *team.pids.first().context("there is no worker")?;
    let agents = || -> Vec<u32> {
        let mut all = carriers(&mark);
        all.retain(|pid| *pid != bridge);
        all
    };
    team.until("the agent has started all its processes", |_| {
        Ok(agents().len() >= GENERATIONS)
    })?;
    let all = agents();
    let grouped = all.iter().all(|pid| is_grouped(*pid, bridge));
    if with_groups && !grouped {
        return Ok(Err("cgroups of version 2 cannot be made here".to_owned()));
    }
    Ok(Ok(Runaway {
        processes: all.len(),
        grouped,
        shutdown: team.shut_down()?,
        left: carriers(&mark).len(),
    }))
}

/// Returns every process that was started with this mark.
fn carriers(mark: &str) -> Vec<u32> {
    processes::all(&Machine::read())
        .into_iter()
        .filter(|seen| !seen.over && processes::carries(seen.id.pid, PLANTED, mark))
        .map(|seen| seen.id.pid)
        .collect()
}

/// Tells whether a process is in a cgroup of version 2 that its bridge is not in.
fn is_grouped(pid: u32, bridge: u32) -> bool {
    let group = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("0::"));
        line.map(str::to_owned)
    };
    group(pid).is_some() && group(pid) != group(bridge)
}
