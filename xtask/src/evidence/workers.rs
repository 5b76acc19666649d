//! Workers at their limits: a task that takes minutes, and an agent that tries to get away.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use teamster_fs::proc::Machine;
use teamster_fs::processes;

use crate::crew::Crew;
use crate::kit;
use crate::product::{Answer, Product};

/// A heartbeat may be so old,
pub(super) const OLDEST_BEAT: Duration = Duration::from_secs(15);
/// and a shutdown may take so long.
pub(super) const OBEYED: Duration = Duration::from_secs(10);
/// Ignores every polite signal, forks twice, makes sessions of its own and leaves three generations.
const RUNAWAY: &str = r#"command:echo up; trap '' TERM INT HUP
setsid sh -c 'trap "" TERM INT HUP; (setsid sh -c "trap \"\" TERM; (trap \"\" TERM; sleep 600; :) & sleep 600; :" &); sleep 600; :' &
sleep 600; :"#;
/// Its processes, once all are there.
const GENERATIONS: usize = 6;
/// What all of them carry.
const PLANTED: &str = "TEAMSTER_PLANTED";
/// Starts a program where the kernel's groups cannot be found.
const WITHOUT_GROUPS: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "umount --all --types cgroup2 && exec \"$@\"",
    "sh",
];

/// A long task, watched.
pub(super) struct LongTask {
    pub(super) length: Duration,
    pub(super) looks: usize,
    pub(super) oldest_beat: Duration,
    /// How long a shutdown in the middle of the next one took,
    pub(super) shutdown: Duration,
    /// and how many processes were left after it.
    pub(super) left: usize,
}

pub(super) fn long_task(product: &Product, length: Duration) -> Result<LongTask> {
    let mut crew = Crew::assemble(product)?;
    let mark = teamster_fs::random_hex();
    let script = format!("steps = [ {{ sleep = \"{}s\" }} ]\n", length.as_secs());
    kit::free_tasks(&crew.store, 2)?;
    crew.grow(1, &crew.script(&script)?, &[(PLANTED, &mark)])?;
    let is_at = |crew: &Crew<'_>, task: &str| -> Result<bool> {
        let beats = crew.beats()?;
        let current = beats.first().and_then(|beat| beat.current_task_id.as_ref());
        Ok(current.is_some_and(|id| id.to_string() == task))
    };
    crew.until("the first task has begun", |crew| is_at(crew, "1"))?;
    let (start, mut looks, mut oldest_beat) = (Instant::now(), 0, Duration::ZERO);
    // The same worker goes on with the second task, so it is in the middle of one at any time.
    while !is_at(&crew, "2")? {
        let beats = crew.beats()?;
        let beat = beats.first().context("there is no heartbeat")?;
        oldest_beat = oldest_beat.max(kit::now().since(beat.last_poll_at));
        looks += 1;
        anyhow::ensure!(
            start.elapsed() < length + Duration::from_secs(120),
            "the task did not end"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let shutdown = crew.dismiss()?;
    Ok(LongTask {
        length,
        looks,
        oldest_beat,
        shutdown,
        left: carriers(&mark).len(),
    })
}

/// Who was there of a runaway agent, and who is left.
pub(super) struct Runaway {
    pub(super) processes: usize,
    /// Whether the kernel kept them in a group of ours.
    pub(super) grouped: bool,
    pub(super) shutdown: Duration,
    pub(super) left: usize,
}

/// Shuts a runaway agent down; why that half is left out, where it cannot be done.
pub(super) fn runaway(
    product: &Product,
    with_groups: bool,
) -> Result<std::result::Result<Runaway, String>> {
    let mut crew = Crew::assemble(product)?;
    if !with_groups {
        let mut probe = Command::new(WITHOUT_GROUPS[0]);
        let answer = Answer::of(probe.args(&WITHOUT_GROUPS[1..]).arg("true"));
        match answer {
            Ok(answer) if answer.status.success() => {}
            Ok(answer) => return Ok(Err(answer.said())),
            Err(error) => return Ok(Err(format!("{error:#}"))),
        }
        crew = crew.within(&WITHOUT_GROUPS);
    }
    let mark = teamster_fs::random_hex();
    kit::free_tasks(&crew.store, 1)?;
    crew.grow(1, RUNAWAY, &[(PLANTED, &mark)])?;
    let bridge = *crew.pids.first().context("there is no worker")?;
    let agents = || -> Vec<u32> {
        let mut all = carriers(&mark);
        all.retain(|pid| *pid != bridge);
        all
    };
    crew.until("the agent has got away", |_| {
        Ok(agents().len() >= GENERATIONS)
    })?;
    let all = agents();
    let grouped = all.iter().all(|pid| is_grouped(*pid, bridge));
    if with_groups && !grouped {
        drop(crew);
        return Ok(Err(
            "this machine lets us make no cgroup of version 2".to_owned()
        ));
    }
    let shutdown = crew.dismiss()?;
    Ok(Ok(Runaway {
        processes: all.len(),
        grouped,
        shutdown,
        left: carriers(&mark).len(),
    }))
}

/// Every process that was started with this mark.
fn carriers(mark: &str) -> Vec<u32> {
    processes::all(&Machine::read())
        .into_iter()
        .filter(|seen| !seen.over && processes::carries(seen.id.pid, PLANTED, mark))
        .map(|seen| seen.id.pid)
        .collect()
}

/// Whether a process is in a group of version 2 that its bridge is not in.
fn is_grouped(pid: u32, bridge: u32) -> bool {
    let group = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("0::"));
        line.map(str::to_owned)
    };
    group(pid).is_some() && group(pid) != group(bridge)
}
