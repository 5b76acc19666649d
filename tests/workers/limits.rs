//! Workers at their limits: a long task, and an agent that tries to escape.
//!
//! The measurements are printed, and `cargo xtask evidence` records them, with a longer task.

use std::time::{Duration, Instant};

use serde_json::Value;
use teamster_testkit::wait::poll;
use teamster_types::Time;

use super::{Crew, carriers};
use crate::kit::{now, skip};

/// The default length of the long task in seconds, and the variable that overrides it.
const SHORT: u64 = 3;
const LENGTH: &str = "TEAMSTER_LONG_TASK";
/// The maximum age of a heartbeat.
const OLDEST_BEAT: Duration = Duration::from_secs(15);
/// The time limit for a shutdown, on an idle machine and on a busy one.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);
const BUSY_SHUTDOWN_WITHIN: Duration = Duration::from_secs(30);
/// A variable that all processes of an agent inherit.
const PLANTED: &str = "PLANTED";
/// Ignores every soft signal, forks twice, makes its own sessions and leaves three generations.
pub const RUNAWAY: &str = r#"echo up; trap '' TERM INT HUP
setsid sh -c 'trap "" TERM INT HUP; (setsid sh -c "trap \"\" TERM; (trap \"\" TERM; sleep 600; :) & sleep 600; :" &); sleep 600; :' &
sleep 600; :"#;
/// The number of its processes once all are running.
const GENERATIONS: usize = 6;
/// Starts a program where cgroups cannot be found.
const WITHOUT_GROUPS: &str =
    r#"exec unshare --mount sh -c 'umount --all --types cgroup2 && exec "$@"' sh "$0" "$@""#;

#[test]
fn heartbeat_stays_fresh_during_a_long_task_and_a_shutdown_in_the_next_one_is_quick() {
    let given = std::env::var(LENGTH).ok().map(|text| text.parse().unwrap());
    let within = given.map_or(BUSY_SHUTDOWN_WITHIN, |_| SHUTDOWN_WITHIN);
    let length: u64 = given.unwrap_or(SHORT);
    let crew = Crew::new();
    let (first, second) = (crew.task("first"), crew.task("second"));
    let mark = teamster_fs::random_hex();
    let script = crew.project.home().join("script.toml");
    std::fs::write(
        &script,
        format!("[[step]]\ndo = 'sleep'\nseconds = {length}\n"),
    )
    .unwrap();
    let provider = format!("scripted:{}", script.display());
    let started = crew.start_provider("ann", &provider, &[], &[(PLANTED, &mark)]);
    started.succeeds();
    let beat = || crew.heartbeat("ann").unwrap_or_default();
    crew.until("the first task has begun", || {
        beat()["currentTaskId"] == *first
    });
    let (mut looks, mut oldest) = (0, Duration::ZERO);
    // The same worker continues with the second task, so it is always in the middle of one.
    let ended = poll(Duration::from_secs(length + 120), || {
        let beat = beat();
        let at: Time = serde_json::from_value(beat["lastPollAt"].clone()).unwrap();
        oldest = oldest.max(now().since(at));
        looks += 1;
        (beat["currentTaskId"] == *second).then_some(())
    });
    assert!(ended.is_some(), "the task did not end");
    let took = shut_down(&crew);
    let left = carriers(PLANTED, &mark).len();
    println!(
        "Task of {length} s, {looks} looks: oldest heartbeat {:.1} s (limit {} s). Shutdown: {:.1} s (limit {} s), processes left: {left}.",
        oldest.as_secs_f64(),
        OLDEST_BEAT.as_secs(),
        took.as_secs_f64(),
        within.as_secs(),
    );
    assert!(oldest <= OLDEST_BEAT && took <= within && left == 0);
}

#[test]
fn nobody_of_a_runaway_agent_is_left_after_a_shutdown() {
    println!("{}", run_away("With a cgroup", "exec \"$0\" \"$@\""));
}

#[test]
#[ignore = "it needs the rights of root, and is run by `cargo xtask evidence`"]
fn nobody_of_a_runaway_agent_is_left_where_there_are_no_cgroups() {
    println!("{}", run_away("Without cgroups", WITHOUT_GROUPS));
}

/// Starts the runaway agent through a shell command, shuts it down, and returns the measurements.
fn run_away(what: &str, line: &str) -> String {
    let crew = Crew::new();
    let id = crew.task("run away");
    let mark = teamster_fs::random_hex();
    let provider = format!("command:{RUNAWAY}");
    let words = ["worker", "start", "--name", "ann", "--json", "--provider"];
    let probe = crew.project.shell(line).command().arg("true").output();
    let probe = probe.unwrap();
    if !probe.status.success() {
        let why = String::from_utf8_lossy(&probe.stderr);
        skip(&why);
        return format!("{what}: SKIPPED, {why}");
    }
    let mut command = crew.project.shell(line).command();
    command.arg("teamster").args(words).arg(&provider);
    let output = command.env(PLANTED, &mark).output().unwrap();
    let started: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let bridge = u32::try_from(started["pid"].as_u64().unwrap()).unwrap();
    let agents = || -> Vec<u32> {
        let mut all = carriers(PLANTED, &mark);
        all.retain(|pid| *pid != bridge);
        all
    };
    crew.until("the tree has grown", || agents().len() >= GENERATIONS);
    let all = agents();
    let grouped = all.iter().all(|pid| is_grouped(*pid, bridge));
    let took = shut_down(&crew);
    let (count, left) = (all.len(), carriers(PLANTED, &mark).len());
    let group = if grouped {
        "all in one cgroup"
    } else {
        "in no cgroup"
    };
    let seconds = took.as_secs_f64();
    assert!(took < BUSY_SHUTDOWN_WITHIN && left == 0);
    assert!(!grouped || line != WITHOUT_GROUPS, "there are cgroups");
    if !grouped && line != WITHOUT_GROUPS && std::env::var_os(LENGTH).is_some() {
        skip("cgroups of version 2 cannot be made here");
    }
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert!(crew.heartbeat("ann").is_none());
    let scan = crew.project.run(["zombies", "scan", "--json"]).succeeds();
    let scan = scan.json();
    assert_eq!(scan["zombies"].as_array().map(Vec::len), Some(0), "{scan}");
    format!("{what}: {count} processes, {group}, shut down in {seconds:.1} s, left: {left}.")
}

/// Shuts the team down, which every worker must confirm, and returns how long that took.
fn shut_down(crew: &Crew) -> Duration {
    let start = Instant::now();
    let ran = crew.project.run(["shutdown", "--json"]).succeeds().json();
    let took = start.elapsed();
    assert_eq!(ran["verified"], true);
    assert_eq!(ran["workers"][0]["how"], "confirmed", "{ran}");
    took
}

/// Returns whether a process is in a cgroup of version 2 that its bridge is not in.
fn is_grouped(pid: u32, bridge: u32) -> bool {
    let group = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("0::"));
        line.map(str::to_owned)
    };
    group(pid).is_some() && group(pid) != group(bridge)
}
