//! Stopping workers: by a request, by a signal, by force.

use std::time::{Duration, Instant};

use teamster_fs::layout::TEAM_LOCK;
use teamster_fs::{Dir, Lock, LockWait};
use teamster_testkit::wait::wait_for;

use super::limits::RUNAWAY;
use super::{Crew, carriers};

/// The time limit for a stop while the team's lock is held: two waits for the lock, and one for processes to end.
const BOUND: Duration = Duration::from_secs(40);

#[test]
fn a_bridge_that_hangs_is_ended_with_its_agent() {
    let crew = Crew::new();
    let id = crew.task("hang");
    let mark = teamster_fs::random_hex();
    crew.start_with("ann", RUNAWAY, &[], &[("PLANTED", &mark)]);
    crew.until("the tree has grown", || {
        carriers("PLANTED", &mark).len() >= 6
    });
    let pid = crew.heartbeat("ann").unwrap()["pid"].to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-STOP", &pid])
        .status();
    assert!(stopped.unwrap().success());
    let ran = crew
        .project
        .run(["shutdown", "--deadline", "1s", "--json"])
        .succeeds();
    assert_eq!(ran.json()["workers"][0]["how"], "killed", "{}", ran.stdout);
    assert_eq!(carriers("PLANTED", &mark), [0_u32; 0]);
    assert_eq!(crew.shown(&id)["status"], "pending");
}

#[test]
fn worker_stopped_with_the_lock_of_the_team_is_ended_by_a_shutdown_at_its_deadline() {
    let crew = Crew::new();
    let id = crew.task("hold the lock");
    let beat = crew.start_lock_holder("ann");
    let start = Instant::now();
    let ran = crew.project.run(["shutdown", "--deadline", "1s"]).exits(0);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    assert!(ran.stdout.contains("ann killed"), "{}", ran.stdout);
    let said = "ann cannot be asked yet: the lock of team crew is held";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    let launch = beat["launch"].as_str().unwrap();
    assert_eq!(carriers("TEAMSTER_LAUNCH", launch), [0_u32; 0]);
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert!(crew.heartbeat("ann").is_none());
}

#[test]
fn worker_stopped_with_the_lock_of_the_team_is_ended_by_a_forced_stop() {
    let crew = Crew::new();
    let id = crew.task("hold the lock");
    crew.start_lock_holder("ann");
    let start = Instant::now();
    let ran = crew
        .project
        .run(["worker", "stop", "ann", "--force"])
        .exits(0);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    assert!(ran.stdout.contains("ann killed"), "{}", ran.stdout);
    assert_eq!(crew.shown(&id)["status"], "pending");
}

/// Nobody may have to wait for a lock before the processes are killed.
#[test]
fn forced_stop_does_not_wait_for_the_lock_that_the_worker_holds() {
    let crew = Crew::new();
    crew.task("hold the lock");
    crew.start_lock_holder("ann");
    let start = Instant::now();
    crew.project
        .call(["worker", "stop", "ann", "--force"])
        .env("TEAMSTER_STORE_PATIENCE", "120s")
        .run()
        .exits(0);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    let launch = crew.project.folder();
    let launch = launch.join(".omc/state/team-bridge/crew/ann.launch.json");
    assert!(!launch.exists(), "a supervisor would start it again");
    let ends = crew.events("worker.stopped");
    let end = &ends.last().unwrap()["data"];
    assert_eq!(end["how"], "killed", "{ends:#?}");
}

#[test]
fn worker_stopped_with_the_lock_of_the_team_keeps_no_task_of_a_dead_colleague() {
    let crew = Crew::new();
    let (first, second) = (crew.task("first"), crew.task("second"));
    crew.start("ann", "echo up; sleep 600");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.start_lock_holder("ben");
    crew.kill_all_of("ann");
    let ran = crew.project.run(["shutdown", "--force", "--json"]);
    let ends = ran.succeeds().json()["workers"].clone();
    assert_eq!(ends[0]["how"], "gone", "{ends}");
    assert_eq!(ends[1]["how"], "killed", "{ends}");
    for id in [first, second] {
        assert_eq!(crew.shown(&id)["status"], "pending");
    }
}

/// Holds the lock of the team, as another process would.
fn hold_team_lock(crew: &Crew) -> Lock {
    let tasks = Dir::open_root(&crew.project.claude("tasks/crew"));
    let tasks = tasks.unwrap().unwrap();
    wait_for("the lock of the team", || {
        match Lock::wait(&tasks, TEAM_LOCK, Duration::ZERO, false).unwrap() {
            LockWait::Held(lock) => Some(lock),
            LockWait::TimedOut => None,
        }
    })
}

#[test]
fn worker_whose_forced_stop_could_not_be_recorded_loses_its_task_and_is_not_started_again() {
    let crew = Crew::new();
    let id = crew.task("long");
    crew.start("ann", "echo up; sleep 600");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let lock = hold_team_lock(&crew);
    let stop = crew.project.run(["worker", "stop", "ann", "--force"]);
    assert!(stop.stdout.contains("not released yet"), "{}", stop.stdout);
    drop(lock);
    assert_eq!(crew.shown(&id)["status"], "in_progress");
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: dead: "), "{}", looked.stdout);
    assert_eq!(crew.shown(&id)["status"], "pending");
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert_eq!(
        crew.events("worker.restarted").len(),
        0,
        "{}",
        looked.stdout
    );
    let stopped = crew.project.run(["worker", "stop", "ann"]).exits(0);
    assert!(stopped.stdout.contains("ann gone"), "{}", stopped.stdout);
}

#[test]
fn shutdown_while_a_stranger_holds_the_lock_ends_everyone_and_says_what_is_left_to_do() {
    let crew = Crew::new();
    let id = crew.task("long");
    let mark = teamster_fs::random_hex();
    crew.start_with("ann", "echo up; sleep 600", &[], &[("PLANTED", &mark)]);
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let lock = hold_team_lock(&crew);
    let start = Instant::now();
    let ran = crew.project.run(["shutdown", "--force", "--json"]);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    let ended = ran.succeeds().json()["workers"][0].clone();
    assert_eq!(ended["how"], "killed", "{ended}");
    let note = ended["note"].as_str().unwrap();
    assert!(note.contains("not released yet: the lock"), "{note}");
    assert_eq!(carriers("PLANTED", &mark), [0_u32; 0]);
    drop(lock);
    let again = crew.project.run(["shutdown", "--json"]).succeeds().json();
    assert_eq!(again["workers"][0]["how"], "gone", "{again}");
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert!(crew.heartbeat("ann").is_none());
}

#[test]
fn a_stop_interrupts_the_task_which_costs_it_nothing_and_loses_nothing() {
    let crew = Crew::new();
    let id = crew.task("interrupted");
    crew.start("ann", "echo up; echo half > half.txt; sleep 600");
    crew.until("ann at work", || {
        crew.worktree("ann").join("half.txt").exists()
    });
    crew.until("ann executing", || {
        crew.worker("ann")["status"] == "executing"
    });
    let start = Instant::now();
    let ran = crew.project.run(["worker", "stop", "ann"]).exits(0);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    assert!(ran.stdout.contains("ann confirmed"), "{}", ran.stdout);
    let task = crew.shown(&id);
    assert_eq!(task["status"], "pending");
    assert_eq!(crew.events("task.failed").len(), 0, "it costs no attempt");
    let kept = crew.git(&["show", "refs/teamster/crew/task-1.attempt-1:half.txt"]);
    assert_eq!(kept, "half");
    let listed = crew.project.run(["message", "list", "--json"]).succeeds();
    let all = listed.json()["messages"].as_array().unwrap().clone();
    let request = all.iter().find(|sent| sent["type"] == "shutdown_request");
    let request = request.unwrap();
    assert!(
        request["deliveredAt"].is_string(),
        "it was obeyed: {request}"
    );
    let again = crew.project.run(["worker", "stop", "ann"]).exits(0);
    assert!(
        again.stdout.contains("ann is not running"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_drain_lets_the_current_task_be_finished_and_no_other_begun() {
    let crew = Crew::new();
    let (first, second) = (crew.task("first"), crew.task("second"));
    crew.start("ann", "echo up; sleep 2; echo ok");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let ran = crew
        .project
        .run(["shutdown", "--drain", "--json"])
        .succeeds()
        .json();
    assert_eq!(ran["workers"][0]["how"], "confirmed", "{ran}");
    assert_eq!(crew.shown(&first)["status"], "completed");
    assert_eq!(crew.shown(&second)["status"], "pending");
    // An old request does not apply to a worker that starts now.
    crew.start("ann", "echo ok");
    crew.until_status(&second, "completed");
}

#[test]
fn what_we_did_not_start_is_not_ours_to_end() {
    let crew = Crew::new();
    crew.start("ann", "echo ok");
    let mut stranger = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let machine = teamster_fs::proc::Machine::read();
    let process = machine.process(stranger.id()).unwrap();
    let mut beat = crew.heartbeat("ann").unwrap();
    beat["workerName"] = "ben".into();
    beat["pid"] = process.pid.into();
    beat["processStartTime"] = process.process_start_time.into();
    let folder = crew.project.folder().join(".omc/state/team-bridge/crew");
    // Neither a heartbeat without a launch, nor one that claims another worker's launch.
    for launch in [serde_json::Value::Null, "0123456789abcdef".into()] {
        beat["launch"] = launch;
        std::fs::write(folder.join("ben.heartbeat.json"), beat.to_string()).unwrap();
        crew.project.run(["team", "join", "crew", "ben"]).exits(0);
        let ran = crew
            .project
            .run(["worker", "stop", "ben", "--force", "--json"])
            .exits(1);
        assert!(ran.stdout.contains("\"how\":\"alive\""), "{}", ran.stdout);
        assert!(
            stranger.try_wait().unwrap().is_none(),
            "a stranger was ended"
        );
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(crew.worker("ann")["verdict"], "healthy");
}

#[test]
fn a_team_with_living_workers_is_removed_only_by_force_which_ends_them() {
    let crew = Crew::new();
    let mark = teamster_fs::random_hex();
    crew.task("long");
    crew.start_with("ann", "echo up; sleep 600", &[], &[("PLANTED", &mark)]);
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let refused = crew.project.run(["team", "delete", "crew"]).fails(4);
    assert!(refused.stderr.contains("ann ("), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("teamster shutdown"),
        "{}",
        refused.stderr
    );
    crew.project
        .run(["team", "delete", "crew", "--force"])
        .exits(0);
    assert_eq!(carriers("PLANTED", &mark), [0_u32; 0]);
    assert!(!crew.project.claude("teams/crew").exists());
    assert!(
        crew.worktree("ann").exists(),
        "its worktree is not ours to throw away"
    );
}

#[test]
fn no_pane_and_no_terminal_server_is_left() {
    for more in [&["--force"][..], &[]] {
        let crew = Crew::new();
        crew.start_with("ann", "echo ok", &["--tmux"], &[]);
        crew.start_with("ben", "echo ok", &["--tmux"], &[]);
        let args = ["shutdown", "--json"];
        let ran = crew.project.run(args.iter().chain(more)).succeeds().json();
        assert_eq!(ran["verified"], true);
        let socket = crew.project.folder().join(".omc/state/tmux.sock");
        let asked = std::process::Command::new("tmux")
            .args(["-S", socket.to_str().unwrap(), "list-sessions"])
            .output()
            .unwrap();
        assert!(!asked.status.success(), "a server is left: {asked:?}");
    }
}

#[test]
fn a_worker_in_the_foreground_obeys_the_system() {
    let crew = Crew::new();
    let id = crew.task("interrupted");
    let mark = teamster_fs::random_hex();
    let args = [
        "worker",
        "start",
        "--name",
        "ann",
        "--foreground",
        "--provider",
    ];
    let provider = "command:echo up; sleep 600";
    let call = crew.project.call(args.iter().chain([&provider]));
    let mut child = call.env("PLANTED", &mark).spawn();
    crew.until("ann at work", || !crew.events("worker.started").is_empty());
    let pid = child.id().to_string();
    std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(carriers("PLANTED", &mark), [0_u32; 0]);
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert_eq!(crew.events("worker.stopped")[0]["data"]["reason"], "Ctrl-C");
}
