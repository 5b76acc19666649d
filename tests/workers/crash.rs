//! Sudden deaths of a bridge, of an agent, of the tmux server.

use std::path::PathBuf;
use std::time::Duration;

use super::{Crew, carriers, kill_9, kill_with_guard};

#[test]
fn the_task_of_a_killed_bridge_is_done_by_one_other_and_its_work_is_kept() {
    let crew = Crew::new();
    let id = crew.task("once more");
    crew.start("ann", "echo up; echo unsaved > unsaved.txt; sleep 600");
    crew.until("ann at work", || {
        crew.worktree("ann").join("unsaved.txt").exists()
    });
    crew.until("ann executing", || {
        crew.worker("ann")["status"] == "executing"
    });
    let beat = crew.heartbeat("ann").unwrap();
    let launch = beat["launch"].as_str().unwrap();
    assert!(carriers("TEAMSTER_LAUNCH", launch).len() >= 2);
    kill_with_guard(&beat["pid"]);
    assert!(
        !carriers("TEAMSTER_LAUNCH", launch).is_empty(),
        "its agent lives on"
    );
    crew.age_heartbeat("ann");
    assert_eq!(crew.worker("ann")["verdict"], "dead");
    crew.start("ben", "echo done > done.txt; echo ok");
    crew.start("cyn", "echo done > done.txt; echo ok");
    let task = crew.until_status(&id, "completed");
    assert_ne!(task["owner"], "ann");
    assert_eq!(crew.events("task.claimed").len(), 2, "one other took it");
    assert_eq!(crew.events("task.requeued").len(), 1);
    assert_eq!(
        carriers("TEAMSTER_LAUNCH", launch),
        [0_u32; 0],
        "what it left was ended"
    );
    let unsaved = crew.worktree("ann").join("unsaved.txt");
    assert_eq!(std::fs::read_to_string(unsaved).unwrap(), "unsaved\n");
    // A new worker of the same name starts, and even then nothing is lost.
    crew.start("ann", "echo ok");
    let aside = crew.worktree("ann.kept-1").join("unsaved.txt");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "unsaved\n");
}

#[test]
fn a_name_that_is_started_anew_ends_its_old_agent_and_does_its_old_task() {
    let crew = Crew::new();
    let id = crew.task("left behind");
    crew.start("ann", "echo up; echo unsaved > unsaved.txt; sleep 600");
    crew.until("ann at work", || {
        crew.worktree("ann").join("unsaved.txt").exists()
    });
    let beat = crew.heartbeat("ann").unwrap();
    let launch = beat["launch"].as_str().unwrap();
    kill_with_guard(&beat["pid"]);
    assert!(
        !carriers("TEAMSTER_LAUNCH", launch).is_empty(),
        "its agent lives on"
    );
    // Its last heartbeat is fresh, so it does not count as dead yet.
    crew.start("ann", "echo done > done.txt; echo ok");
    assert_eq!(carriers("TEAMSTER_LAUNCH", launch), [0_u32; 0]);
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "ann");
    assert_eq!(
        task["metadata"]["teamster"]["result"]["files"][0],
        "done.txt"
    );
    let aside = crew.worktree("ann.kept-1").join("unsaved.txt");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "unsaved\n");
}

#[test]
fn a_worker_that_runs_is_not_disturbed_by_another_start_of_its_name() {
    let crew = Crew::new();
    let id = crew.task("undisturbed");
    let command =
        "echo up; echo half > work.txt; until test -e ../../../go; do sleep 0.1; done; echo ok";
    crew.start("ann", command);
    crew.until("ann at work", || {
        crew.worktree("ann").join("work.txt").exists()
    });
    let again = crew.start_provider("ann", "command:echo other", &[], &[]);
    let again = again.exits(4);
    assert!(
        again.stderr.contains("is already running"),
        "{}",
        again.stderr
    );
    // Not even by the bridge process alone, which a second host would start.
    let args = ["worker", "bridge", "--team", "crew", "--name", "ann"];
    let bridge = crew
        .project
        .call(args.iter().chain(&["--provider", "command:true"]));
    bridge.run().exits(4);
    assert!(!crew.worktree("ann.kept-1").exists());
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    let task = crew.until_status(&id, "completed");
    assert_eq!(
        task["metadata"]["teamster"]["result"]["files"][0],
        "work.txt"
    );
    let team = crew.project.run(["team", "show", "crew", "--json"]).json();
    assert_eq!(
        team["team"]["members"][0]["provider"],
        format!("command:{command}")
    );
}

#[test]
fn a_killed_agent_costs_an_attempt_and_the_worker_goes_on() {
    let crew = Crew::new();
    let id = crew.task("twice");
    let command = r#"test "$TEAMSTER_TASK_ATTEMPT" = 2 && exec echo ok; echo $$; exec sleep 600"#;
    crew.start("ann", command);
    crew.until("a start", || !crew.events("worker.started").is_empty());
    kill_9(&crew.events("worker.started")[0]["data"]["process"]["pid"]);
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let error = crew.events("task.failed")[0]["data"]["failure"]["lastError"].clone();
    assert!(error.as_str().unwrap().contains("signal 9"), "{error}");
    crew.until_status(&id, "completed");
    assert_eq!(crew.worker("ann")["verdict"], "healthy");
}

#[test]
fn whoever_looks_after_a_team_replaces_the_dead_a_few_times() {
    let crew = Crew::new();
    let id = crew.task("replaced");
    crew.start("ann", "echo up; test -e ../../../go || sleep 600; echo ok");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let before = crew.heartbeat("ann").unwrap();
    kill_9(&before["pid"]);
    crew.age_heartbeat("ann");
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: dead: "), "{}", looked.stdout);
    assert!(
        looked.stdout.contains("ann: restarted (1 of 3)"),
        "{}",
        looked.stdout
    );
    crew.until_status(&id, "completed");
    let after = crew.heartbeat("ann").unwrap();
    assert_ne!(before["pid"], after["pid"]);
    assert_eq!(crew.events("worker.dead").len(), 1);
    assert_eq!(crew.events("worker.restarted").len(), 1);
    assert_eq!(
        crew.project
            .run(["worker", "supervise", "--once"])
            .exits(0)
            .stdout,
        ""
    );
}

#[test]
fn a_hung_worker_is_ended_and_started_anew() {
    let crew = Crew::new();
    let id = crew.task("hung");
    crew.start("ann", "echo up; test -e ../../../go || sleep 600; echo ok");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let before = crew.heartbeat("ann").unwrap();
    let pid = before["pid"].to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-STOP", &pid])
        .status();
    assert!(stopped.unwrap().success());
    crew.age_heartbeat("ann");
    assert_eq!(crew.worker("ann")["verdict"], "hung");
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: hung: "), "{}", looked.stdout);
    crew.until_status(&id, "completed");
    let launch = before["launch"].as_str().unwrap();
    assert_eq!(carriers("TEAMSTER_LAUNCH", launch), [0_u32; 0]);
    assert_eq!(crew.events("worker.hung").len(), 1);
}

/// Starts a worker that was restarted this many times before, and suspends its bridge. Returns the record of its launch.
fn hang_again(crew: &Crew, restarts: u32) -> PathBuf {
    crew.start("ann", "echo ok");
    // In the middle of a change it would hold the lock of the team.
    crew.until("ann has nothing to do", || {
        let mut sent = crew.events("message.sent").into_iter();
        sent.any(|event| event["data"]["content"] == "there is no task for me now")
    });
    suspend(crew, restarts)
}

fn suspend(crew: &Crew, restarts: u32) -> PathBuf {
    let file = crew.project.folder();
    let file = file.join(".omc/state/team-bridge/crew/ann.launch.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["restarts"] = restarts.into();
    std::fs::write(&file, record.to_string()).unwrap();
    let pid = crew.heartbeat("ann").unwrap()["pid"].to_string();
    let stopped = std::process::Command::new("kill")
        .args(["-STOP", &pid])
        .status();
    assert!(stopped.unwrap().success());
    crew.age_heartbeat("ann");
    file
}

/// The bridge of a hung worker that is ended keeps the record of its launch, which its restart needs.
#[test]
fn worker_that_hangs_again_is_restarted_after_a_pause() {
    let crew = Crew::new();
    let file = hang_again(&crew, 1);
    let before = crew.heartbeat("ann").unwrap();
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: hung: "), "{}", looked.stdout);
    assert_eq!(crew.events("worker.stopped").len(), 1, "it ended in order");
    assert_eq!(crew.events("worker.restarted").len(), 0, "there is a pause");
    assert!(file.exists(), "its launch is still on record");
    let mut supervisor = crew.project.call(["worker", "supervise"]).spawn();
    crew.until("a restart", || crew.events("worker.restarted").len() == 1);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    assert_eq!(crew.events("worker.restarted")[0]["data"]["times"], 2);
    crew.until("ann at work", || {
        let beat = crew.heartbeat("ann");
        beat.is_some_and(|beat| beat["pid"] != before["pid"])
    });
}

#[test]
fn hung_worker_that_a_person_stops_meanwhile_is_not_restarted() {
    let crew = Crew::new();
    // A first restart would be immediate.
    let file = hang_again(&crew, 0);
    let mut stop = crew.project.call(["worker", "stop", "ann"]).spawn();
    let signal = crew.project.claude("teams/crew/signals/ann.shutdown");
    crew.until("the request", || signal.exists());
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: hung: "), "{}", looked.stdout);
    assert!(stop.wait().unwrap().success());
    assert!(!file.exists(), "nobody restarts a worker without a record");
    assert_eq!(crew.events("worker.restarted").len(), 0);
}

#[test]
fn hung_worker_that_a_person_stops_while_it_is_ended_is_not_restarted() {
    let crew = Crew::new();
    crew.task("end slowly");
    let script = "trap 'touch ../../../asked' TERM; touch ../../../began; \
                  until [ -e ../../../go ]; do sleep 0.05; done";
    crew.start("ann", script);
    let place = |name: &str| crew.project.folder().join(".omc").join(name);
    crew.until("ann at work", || place("began").exists());
    let file = suspend(&crew, 0);
    let supervisor = crew.project.call(["worker", "supervise", "--once"]).spawn();
    // The bridge ends its agent, which takes its time. The supervisor has looked for requests before.
    crew.until("the agent is asked to end", || place("asked").exists());
    let mut stop = crew.project.call(["worker", "stop", "ann"]).spawn();
    let signal = crew.project.claude("teams/crew/signals/ann.shutdown");
    crew.until("the request", || signal.exists());
    std::fs::write(place("go"), "").unwrap();
    assert!(supervisor.wait_with_output().unwrap().status.success());
    assert!(stop.wait().unwrap().success());
    assert_eq!(crew.events("worker.restarted").len(), 0);
    assert!(!file.exists(), "nobody restarts a worker without a record");
    assert_eq!(crew.heartbeat("ann"), None);
}

#[test]
fn worker_that_a_person_stops_before_its_restart_stays_stopped() {
    let crew = Crew::new();
    let file = hang_again(&crew, 1);
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: hung: "), "{}", looked.stdout);
    assert!(file.exists());
    let stopped = crew.project.run(["worker", "stop", "ann"]).exits(0);
    assert!(stopped.stdout.contains("ann gone"), "{}", stopped.stdout);
    assert!(!file.exists());
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert_eq!(looked.stdout, "");
    assert_eq!(crew.events("worker.restarted").len(), 0);
}

#[test]
fn hung_worker_with_the_lock_of_the_team_is_ended_before_a_dead_one_is_recorded() {
    let crew = Crew::new();
    let (first, second) = (crew.task("first"), crew.task("second"));
    crew.start("ann", "echo up; sleep 600");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.start_lock_holder("ben");
    crew.kill_all_of("ann");
    for worker in ["ann", "ben"] {
        crew.age_heartbeat(worker);
    }
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("ann: dead: "), "{}", looked.stdout);
    assert!(looked.stdout.contains("ben: hung: "), "{}", looked.stdout);
    assert_eq!(crew.events("worker.dead").len(), 1);
    assert_eq!(crew.events("worker.hung").len(), 1);
    // The agent of a hung worker is ended with it, and has not failed.
    assert_eq!(crew.events("task.failed"), Vec::<serde_json::Value>::new());
    let given_back = [crew.events("task.requeued"), crew.events("task.released")].concat();
    for id in [first, second] {
        let is_it = |event: &serde_json::Value| event["taskId"] == id.as_str();
        let told = &looked.stdout;
        assert!(
            given_back.iter().any(is_it),
            "task {id}: {told}\n{given_back:?}"
        );
    }
}

#[test]
fn a_clock_that_jumped_makes_nobody_hung() {
    let crew = Crew::new();
    let id = crew.task("long");
    crew.start("ann", "echo up; test -e ../../../go || sleep 600; echo ok");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let before = crew.heartbeat("ann").unwrap();
    // A machine that slept for a minute: the last heartbeat is old, and the next one is about to come.
    crew.age_heartbeat("ann");
    assert_eq!(crew.worker("ann")["verdict"], "hung");
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert_eq!(looked.stdout, "");
    assert_eq!(crew.heartbeat("ann").unwrap()["pid"], before["pid"]);
    assert_eq!(crew.shown(&id)["status"], "in_progress");
}

#[test]
fn a_worker_that_ran_long_may_die_as_often_as_anybody() {
    let crew = Crew::new();
    crew.start("ann", "echo ok");
    let file = crew.project.folder();
    let file = file.join(".omc/state/team-bridge/crew/ann.launch.json");
    let kill = |started: i64| {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let then = crate::kit::now().as_millis() - started;
        record["restarts"] = 3.into();
        record["startedAt"] = serde_json::json!(teamster_types::Time::from_millis(then));
        std::fs::write(&file, record.to_string()).unwrap();
        kill_9(&crew.heartbeat("ann").unwrap()["pid"]);
        crew.age_heartbeat("ann");
    };
    kill(3_600_000);
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("1 of 3"), "{}", looked.stdout);
    kill(100_000);
    let looked = crew.project.run(["worker", "supervise", "--once"]).exits(0);
    assert!(looked.stdout.contains("3 times"), "{}", looked.stdout);
}

#[test]
fn only_one_looks_after_a_team() {
    let crew = Crew::new();
    let begin = || crew.project.call(["worker", "supervise"]).spawn();
    let mut first = begin();
    crew.until("the first holds its seat", || {
        // It may have found the lock taken by one of the processes below, which poll once.
        if first.try_wait().unwrap().is_some() {
            first = begin();
        }
        let second = crew.project.run(["worker", "supervise", "--once"]);
        second.code == Some(4)
    });
    first.kill().unwrap();
    first.wait().unwrap();
    crew.project.run(["worker", "supervise", "--once"]).exits(0);
}

#[test]
fn a_killed_terminal_server_does_not_take_the_task_with_it() {
    let crew = Crew::new();
    let id = crew.task("in a pane");
    crew.start_with("ann", "echo up; sleep 2; echo ok", &["--tmux"], &[]);
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let socket = crew.project.folder().join(".omc/state/tmux.sock");
    let socket = socket.to_str().unwrap();
    let pid = std::process::Command::new("tmux")
        .args(["-S", socket, "display-message", "-p", "#{pid}"])
        .output()
        .unwrap();
    let pid: u64 = String::from_utf8(pid.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    kill_9(&serde_json::json!(pid));
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "ann");
    crew.until("ann has gone home", || crew.heartbeat("ann").is_none());
}

#[test]
fn the_heart_beats_while_the_agent_works() {
    let crew = Crew::new();
    crew.task("long");
    crew.start("ann", "echo up; sleep 600");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let mut seen = std::collections::BTreeSet::new();
    crew.until("a third beat", || {
        let beat = crew.heartbeat("ann").unwrap();
        let at: teamster_types::Time = serde_json::from_value(beat["lastPollAt"].clone()).unwrap();
        let age = crate::kit::now().since(at);
        assert!(age < Duration::from_secs(15), "{age:?}");
        seen.insert(at.as_millis());
        seen.len() == 3
    });
}
