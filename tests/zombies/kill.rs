//! `zombies reap --kill` ends teamster's abandoned workers, and never any other process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_store::{ReadStore as _, Store as _};
use teamster_testkit::recorded;
use teamster_testkit::wait::wait_until;
use teamster_types::process::ProcessId;

use super::{DAY, evidence, scanned};
use crate::kit::{TestProject, living, skip};

/// A process that runs until it is ended, like a worker.
struct Worker {
    child: Child,
    record: ProcessId,
}

impl Worker {
    fn start() -> Self {
        Self::running("echo ready; read line")
    }

    fn running(script: &str) -> Self {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let record = ProcessId {
            pid: child.id(),
            process_start_time: teamster_fs::proc::start_time(child.id()).unwrap(),
            ..living()
        };
        Self { child, record }
    }

    fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Writes its heartbeat, with everything that proves its identity.
    fn beats(&self, project: &TestProject, name: &str) {
        let whole = json!({"pidNs": self.record.pid_ns});
        project.beat(name, DAY, &self.record, &whole);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn without_team() -> TestProject {
    let project = TestProject::new();
    std::fs::create_dir_all(project.claude("teams")).unwrap();
    project
}

/// Returns the result for one entry.
#[track_caller]
fn done<'a>(outcome: &'a Value, name: &str) -> &'a Value {
    let list = outcome["zombies"].as_array().unwrap();
    let is = |zombie: &&Value| zombie["name"] == name;
    list.iter()
        .find(is)
        .unwrap_or_else(|| panic!("{name}: {outcome}"))
}

#[test]
fn a_worker_without_a_team_is_ended_only_when_that_is_asked_for() {
    let project = without_team();
    let mut worker = Worker::start();
    worker.beats(&project, "lost");
    let found = scanned(&project, "worker", "lost").unwrap();
    assert_eq!(found["action"], "keep");
    assert_eq!(found["command"], "teamster zombies reap --kill");
    let said = format!("pid {} runs", worker.record.pid);
    assert!(evidence(&found).contains(&said), "{found}");
    project.hook_session_start();
    for words in [&["reap"][..], &["reap", "--kill", "--dry-run"]] {
        let call = ["zombies"].iter().chain(words).chain(&["--json"]);
        let outcome = project.run(call).succeeds().json();
        assert_eq!(done(&outcome, "lost")["reaped"], false, "{words:?}");
        assert_eq!(outcome["killed"], 0);
        assert!(worker.runs(), "{words:?}");
    }
    let call = ["zombies", "reap", "--kill", "--json"];
    let outcome = project.run(call).succeeds().json();
    assert_eq!(outcome["killed"], 1, "{outcome}");
    let lost = done(&outcome, "lost");
    assert_eq!(lost["reaped"], true);
    assert_eq!(lost["action"], "reap");
    assert!(
        evidence(lost).contains("it ended when it was asked to"),
        "{lost}"
    );
    assert!(!worker.runs(), "it must be gone when that is said");
    // Its heartbeat is left, which the next call removes.
    project.run(["zombies", "reap"]).succeeds();
    assert_eq!(scanned(&project, "worker", "lost"), None);
}

#[test]
fn many_that_do_not_listen_share_one_grace() {
    let project = without_team();
    let deaf = "trap '' TERM; echo ready; read line";
    let mut workers: Vec<Worker> = (0..5).map(|_| Worker::running(deaf)).collect();
    for (number, worker) in workers.iter().enumerate() {
        worker.beats(&project, &format!("deaf-{number}"));
    }
    let began = std::time::Instant::now();
    let call = ["zombies", "reap", "--kill", "--json"];
    let outcome = project.run(call).succeeds().json();
    assert_eq!(outcome["killed"], 5, "{outcome}");
    for (number, worker) in workers.iter_mut().enumerate() {
        let deaf = done(&outcome, &format!("deaf-{number}"));
        assert!(evidence(deaf).contains("was killed"), "{deaf}");
        assert!(!worker.runs());
    }
    // One after the other would take five times as long as one.
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_stranger_with_the_pid_of_a_dead_worker_is_not_touched() {
    let project = without_team();
    let mut stranger = Worker::start();
    let whole = json!({"pidNs": stranger.record.pid_ns});
    let dead = ProcessId {
        process_start_time: stranger.record.process_start_time - 1,
        ..stranger.record.clone()
    };
    project.beat("dead", DAY, &dead, &whole);
    let other_boot = ProcessId {
        boot_id: "another".to_owned(),
        ..stranger.record.clone()
    };
    project.beat("before", DAY, &other_boot, &whole);
    // An incomplete record: another container of this machine has the same boot id.
    project.beat("half", DAY, &stranger.record, &json!({}));
    project.beat(
        "elsewhere",
        DAY,
        &stranger.record,
        &json!({"pidNs": "pid:[1]"}),
    );
    let call = ["zombies", "reap", "--kill", "--json"];
    let outcome = project.run(call).succeeds().json();
    assert_eq!(outcome["killed"], 0, "{outcome}");
    assert!(stranger.runs());
    for (name, reaped) in [
        ("dead", true),
        ("before", true),
        ("half", false),
        ("elsewhere", false),
    ] {
        assert_eq!(done(&outcome, name)["reaped"], reaped, "{name}: {outcome}");
    }
    let by_hand = format!("kill {}", stranger.record.pid);
    assert_eq!(done(&outcome, "half")["command"], by_hand);
}

#[test]
fn workers_of_a_team_without_a_run_are_somebodys() {
    let project = TestProject::with_team();
    let mut worker = Worker::start();
    worker.beats(&project, "worker-1");
    assert_eq!(scanned(&project, "worker", "worker-1"), None);
    project.run(["zombies", "reap", "--kill"]).succeeds();
    assert!(worker.runs());
}

#[test]
fn a_worker_whose_run_lost_its_host_is_ended_and_the_journal_tells() {
    let project = TestProject::with_team();
    let mut worker = Worker::start();
    worker.beats(&project, "worker-1");
    let team = "fix-auth".parse().unwrap();
    let store = project.store(Duration::ZERO);
    store
        .record(
            &team,
            recorded("run.started", "host", &serde_json::json!({})),
        )
        .unwrap();
    let events = |kind: &str| {
        let events = store.last_events(&team, 100).unwrap().events;
        events
            .into_iter()
            .filter(|event| event.kind == kind)
            .collect::<Vec<_>>()
    };
    // As long as the host's lock is held, the run is alive.
    let lock = std::fs::File::create(project.claude("teams/fix-auth/host.lock")).unwrap();
    lock.lock().unwrap();
    project.run(["zombies", "reap", "--kill"]).succeeds();
    assert!(worker.runs());
    lock.unlock().unwrap();
    project.run(["zombies", "scan"]).succeeds();
    assert!(events("zombie.found").is_empty(), "looking tells nothing");
    for _ in 0..2 {
        project.run(["zombies", "reap"]).succeeds();
        assert!(worker.runs());
        assert_eq!(events("zombie.found").len(), 1, "it is told once");
    }
    let outcome = project
        .run(["zombies", "reap", "--kill", "--json"])
        .succeeds()
        .json();
    assert_eq!(outcome["killed"], 1, "{outcome}");
    assert!(!worker.runs());
    let reaped = events("zombie.reaped");
    assert_eq!(reaped.len(), 1);
    assert_eq!(reaped[0].actor, "user");
    assert_eq!(reaped[0].data["kind"], "worker");
    assert_eq!(reaped[0].data["name"], "worker-1");
    assert_eq!(reaped[0].data["evidence"][0], "the host of its run is gone");
}

/// The project's own tmux server and the user's, both gone when dropped.
struct Servers {
    ours: String,
    theirs: String,
}

impl Servers {
    /// Starts both servers; `None` where tmux is not installed.
    fn start(project: &TestProject) -> Option<Self> {
        let state = project.folder().join(".omc/state");
        let others = project.home().join("t");
        for folder in [&state, &others] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let servers = Self {
            ours: state.join("tmux.sock").display().to_string(),
            theirs: others.join("s").display().to_string(),
        };
        for socket in [&servers.ours, &servers.theirs] {
            tmux(socket, &["new-session", "-d", "cat"])?;
            tmux(socket, &["set-option", "-g", "remain-on-exit", "on"])?;
            tmux(socket, &["split-window", "-d", "true"])?;
            wait_until("a living pane and a dead one", || {
                panes(socket) == ["%0 0", "%1 1"]
            });
        }
        Some(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for socket in [&self.ours, &self.theirs] {
            tmux(socket, &["kill-server"]);
        }
    }
}

fn tmux(socket: &str, words: &[&str]) -> Option<String> {
    let mut command = Command::new("tmux");
    command.args(["-f", "/dev/null", "-S", socket]).args(words);
    let output = command.env_remove("TMUX").output().ok()?;
    Some(String::from_utf8(output.stdout).unwrap())
}

fn panes(socket: &str) -> Vec<String> {
    let list = tmux(
        socket,
        &["list-panes", "-a", "-F", "#{pane_id} #{pane_dead}"],
    );
    list.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn dead_panes_of_our_own_server_are_closed_and_no_others() {
    let project = without_team();
    let Some(servers) = Servers::start(&project) else {
        return skip("tmux is not installed");
    };
    let theirs = format!("{},1,0", servers.theirs);
    let call = |words: &[&str]| project.call(words).env("TMUX", &theirs).run().succeeds();
    let found = call(&["zombies", "scan", "--json"]).json();
    assert_eq!(found["zombies"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["zombies"][0]["kind"], "pane");
    assert_eq!(found["zombies"][0]["name"], "%1");
    assert_eq!(
        found["zombies"][0]["command"],
        "teamster zombies reap --kill"
    );
    call(&["zombies", "reap"]);
    assert_eq!(panes(&servers.ours), ["%0 0", "%1 1"]);
    let outcome = call(&["zombies", "reap", "--kill", "--json"]).json();
    assert_eq!(done(&outcome, "%1")["reaped"], true, "{outcome}");
    assert_eq!(outcome["killed"], 0, "a pane is no process");
    assert_eq!(panes(&servers.ours), ["%0 0"]);
    assert_eq!(panes(&servers.theirs), ["%0 0", "%1 1"]);
}

#[test]
fn a_link_in_the_place_of_our_server_leads_nowhere() {
    let project = without_team();
    let Some(servers) = Servers::start(&project) else {
        return skip("tmux is not installed");
    };
    tmux(&servers.ours, &["kill-server"]);
    let _ = std::fs::remove_file(&servers.ours);
    std::os::unix::fs::symlink(&servers.theirs, &servers.ours).unwrap();
    project.run(["zombies", "reap", "--kill"]).succeeds();
    assert_eq!(panes(&servers.theirs), ["%0 0", "%1 1"]);
}

impl TestProject {
    /// Calls the hook of a new Claude Code session in this project.
    fn hook_session_start(&self) {
        let payload = json!({"session_id": "s1", "source": "startup"});
        let call = self.call(["hook", "SessionStart"]);
        call.input(payload.to_string()).run().exits(0);
    }
}
