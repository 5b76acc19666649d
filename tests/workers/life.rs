//! Liveness of workers with its evidence, and the immediate consequences of a death.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_types::process::ProcessState;

use super::{Crew, carriers, kill_9};

/// The time within which everything of a killed bridge must have ended.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn killed_worker_is_dead_at_once_however_young_its_heartbeat_is() {
    let crew = Crew::new();
    crew.start("ann", "echo ok");
    crew.until("ann beats", || crew.worker("ann")["verdict"] == "healthy");
    let pid = crew.heartbeat("ann").unwrap()["pid"].clone();
    kill_9(&pid);
    crew.until("the process is gone", || {
        let machine = teamster_fs::proc::Machine::read();
        let number = u32::try_from(pid.as_u64().unwrap()).unwrap();
        let process = machine.process(number);
        process.is_none_or(|_| teamster_fs::proc::has_ended(number))
    });
    let row = crew.worker("ann");
    assert_eq!(row["verdict"], "dead");
    assert_eq!(row["evidence"][1], format!("process {pid} is gone"));
    let text = crew.project.run(["worker", "list"]).succeeds().stdout;
    assert!(text.contains("dead"), "{text}");
    let status = crew.project.run(["status"]).succeeds().stdout;
    assert!(
        status.contains(&format!("process {pid} is gone")),
        "{status}"
    );
}

#[test]
fn killed_worker_has_one_line_among_the_alerts_and_one_that_ends_in_order_has_none() {
    let crew = Crew::new();
    for name in ["ann", "bob", "cid"] {
        crew.start(name, "echo ok");
        crew.until("it beats", || crew.worker(name)["verdict"] == "healthy");
    }
    let end = |name: &str| {
        let beat = crew.heartbeat(name).unwrap();
        kill_9(&beat["pid"]);
        crew.until("it is dead", || crew.worker(name)["verdict"] == "dead");
        beat["launch"].clone()
    };
    crew.project.run(["worker", "stop", "bob"]).exits(0);
    assert_eq!(crew.project.alerts(), Vec::<serde_json::Value>::new());
    // One death is found by the supervisor, several times; the other by the command that starts the worker again.
    let ann = end("ann");
    for _ in 0..2 {
        crew.project.run(["worker", "supervise", "--once"]).exits(0);
    }
    let cid = end("cid");
    crew.start("cid", "echo ok");
    let alerts = crew.project.alerts();
    let told: Vec<_> = alerts
        .iter()
        .map(|alert| (&alert["teammate"], &alert["type"], &alert["session_id"]))
        .collect();
    let (crash, names) = (json!("crash"), [json!("ann"), json!("cid")]);
    assert_eq!(
        told,
        [(&names[0], &crash, &ann), (&names[1], &crash, &cid)],
        "{alerts:?}"
    );
    assert_eq!(alerts[0]["team"], "crew");
    assert_eq!(alerts[0]["exit_code"], -1);
    crew.project.run(["shutdown", "--force"]).exits(0);
}

#[test]
fn heartbeat_of_the_documented_fields_with_a_dead_pid_is_dead_by_its_pid_alone() {
    let crew = Crew::new();
    crew.project.run(["team", "join", "crew", "zed"]).exits(0);
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let pid = ended.id();
    let then = teamster_types::Time::from_millis(crate::kit::now().as_millis() - 600_000);
    let beat = json!({
        "workerName": "zed", "teamName": "crew", "provider": "codex", "pid": pid, "lastPollAt": then,
        "currentTaskId": null, "consecutiveErrors": 0, "status": "polling",
    });
    let folder = crew.project.folder().join(".omc/state/team-bridge/crew");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zed.heartbeat.json"), beat.to_string()).unwrap();
    let row = crew.worker("zed");
    assert_eq!(row["verdict"], "dead");
    let evidence = row["evidence"][1].as_str().unwrap();
    assert_eq!(
        evidence,
        format!("process {pid} is gone, judged by its pid alone")
    );
}

#[test]
fn agent_of_a_killed_bridge_is_ended_while_its_heartbeat_is_still_young() {
    let crew = Crew::new();
    let id = crew.task("take long");
    crew.start("ann", "echo up; sleep 600");
    crew.until("ann executing", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.start("ben", "echo ok");
    crew.until("ben beats", || crew.worker("ben")["verdict"] == "healthy");
    let beat = crew.heartbeat("ann").unwrap();
    let launch = beat["launch"].as_str().unwrap();
    let killed = Instant::now();
    kill_9(&beat["pid"]);
    crew.until("its agent is ended", || {
        carriers("TEAMSTER_LAUNCH", launch).is_empty()
    });
    let took = killed.elapsed();
    assert!(took < ENDED_WITHIN, "it took {took:?}");
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "ben");
}

#[test]
fn agent_of_a_lone_worker_is_ended_with_all_it_started_when_its_bridge_is_killed() {
    let crew = Crew::new();
    crew.task("take long");
    // One process has its own session, one ignores signals, and one has dropped its launch variable.
    let script = "echo $$ > pids; \
        setsid sh -c 'echo $$ >> pids; exec sleep 600' & \
        (trap '' TERM HUP INT; exec setsid sh -c 'echo $$ >> pids; sleep 600; sleep 600') & \
        env -i setsid sh -c 'echo $$ >> pids; (exec env -i sleep 600) & exec sleep 600' & \
        wait";
    crew.start("ann", script);
    let pids = || -> Vec<u32> {
        let text = std::fs::read_to_string(crew.worktree("ann").join("pids"));
        let text = text.unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    crew.until("all of them run", || pids().len() == 4);
    let machine = teamster_fs::proc::Machine::read();
    let all = teamster_fs::processes::all(&machine);
    let below = teamster_fs::processes::descendants(&all, &pids().into_iter().collect());
    let agents: Vec<_> = all
        .into_iter()
        .map(|seen| seen.id)
        .filter(|id| below.contains(&id.pid) || pids().contains(&id.pid))
        .collect();
    assert!(agents.len() >= 4, "{agents:?}");
    let beat = crew.heartbeat("ann").unwrap();
    let launch = beat["launch"].as_str().unwrap();
    let killed = Instant::now();
    kill_9(&beat["pid"]);
    crew.until("nobody of it is left", || {
        let is_gone = |id| machine.process_state(id) != ProcessState::Alive;
        agents.iter().all(is_gone) && carriers("TEAMSTER_LAUNCH", launch).is_empty()
    });
    let took = killed.elapsed();
    assert!(took < ENDED_WITHIN, "it took {took:?}");
    let temp = std::env::temp_dir().join(teamster_fs::layout::launch_temp(launch));
    crew.until("its folder is gone", || !temp.exists());
    assert_eq!(crew.worker("ann")["verdict"], "dead");
}

#[test]
fn silent_program_is_ended_at_the_idle_limit_and_not_at_the_start_limit() {
    let crew = Crew::new();
    let id = crew.task("say nothing");
    crew.start_with(
        "ann",
        "sleep 3; exit 0",
        &[],
        &[("TEAMSTER_WORKER_START_LIMIT", "500ms")],
    );
    crew.until("ann executing", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.until_status(&id, "completed");
    assert_eq!(crew.events("worker.launch_failed").len(), 0);
    crew.project.run(["worker", "stop", "ann"]).exits(0);
    crew.task("say nothing for ever");
    crew.start_with(
        "ann",
        "sleep 600",
        &[],
        &[("TEAMSTER_WORKER_IDLE_LIMIT", "1s")],
    );
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    assert_eq!(crew.events("worker.launch_failed").len(), 0);
}

#[test]
fn status_says_why_a_worker_is_quarantined() {
    let crew = Crew::new();
    for number in 1..=3 {
        crew.task(&format!("fail {number}"));
    }
    crew.start("ann", "echo the press is jammed >&2; exit 7");
    crew.until("quarantine", || {
        crew.worker("ann")["verdict"] == "quarantined"
    });
    let status = crew.project.run(["status"]).succeeds().stdout;
    assert!(status.contains("the press is jammed"), "{status}");
}
