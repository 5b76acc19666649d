//! What dead processes leave in teams that stay.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{DAY, HOUR, evidence, put, scanned};
use crate::kit::{TestProject, gone, living};

fn age(project: &TestProject, path: &str, ago: Duration) {
    std::fs::File::open(project.claude(path))
        .unwrap()
        .set_modified(SystemTime::now() - ago)
        .unwrap();
}

/// Returns a pid that is not in use.
fn no_pid() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

#[test]
fn locks_and_temp_files_of_the_dead_are_removed_and_those_of_the_living_are_not() {
    let project = TestProject::with_team();
    let lock = |process: &teamster_types::process::ProcessId| {
        json!({"pid": process.pid, "workerName": "w", "timestamp": super::millis(HOUR),
            "processStartTime": process.process_start_time, "bootId": process.boot_id})
        .to_string()
    };
    let pid = no_pid();
    let dead_temp = format!("teams/fix-auth/.config.json.{pid}.00ff.tmp");
    let living_temp = format!("teams/fix-auth/.config.json.{}.00ff.tmp", living().pid);
    let unfinished = format!("teams/.new-next.{pid}.00ff.tmp");
    put(&project, "tasks/fix-auth/7.lock", &lock(&gone()));
    put(&project, "tasks/fix-auth/8.lock", &lock(&living()));
    put(&project, "tasks/fix-auth/9.lock", "{\"pid\":");
    put(&project, &dead_temp, "{}");
    put(&project, &living_temp, "{}");
    put(&project, &format!("{unfinished}/config.json"), "{}");
    for folder in [
        "teams/fix-auth/config.json.lock",
        "tasks/fix-auth/3.json.lock",
    ] {
        std::fs::create_dir(project.claude(folder)).unwrap();
    }
    for path in [
        "tasks/fix-auth/7.lock",
        "tasks/fix-auth/8.lock",
        "tasks/fix-auth/9.lock",
        &dead_temp,
        &living_temp,
        &unfinished,
        "teams/fix-auth/config.json.lock",
    ] {
        age(&project, path, HOUR);
    }
    let found = project.run(["zombies", "scan", "--json"]).succeeds().json();
    let list = found["zombies"].as_array().unwrap();
    assert!(
        list.iter().all(|zombie| zombie["kind"] == "lock"),
        "{found}"
    );
    assert_eq!(list.len(), 5, "{found}");
    let reaped = project.run(["zombies", "reap", "--json"]).succeeds().json();
    let list = reaped["zombies"].as_array().unwrap();
    assert!(
        list.iter().all(|zombie| zombie["reaped"] == true),
        "{reaped}"
    );
    for (path, stays) in [
        ("tasks/fix-auth/7.lock", false),
        ("tasks/fix-auth/8.lock", true),
        ("tasks/fix-auth/9.lock", false),
        (dead_temp.as_str(), false),
        (living_temp.as_str(), true),
        (unfinished.as_str(), false),
        ("teams/fix-auth/config.json.lock", false),
        ("tasks/fix-auth/3.json.lock", true),
    ] {
        assert_eq!(project.claude(path).exists(), stays, "{path}");
    }
    let again = project.run(["zombies", "scan", "--json"]).succeeds().json();
    assert_eq!(again["zombies"], json!([]));
}

#[test]
fn a_dead_workers_heartbeat_goes_when_no_task_is_in_its_name() {
    let project = TestProject::with_team();
    project.task("Half done", &[]);
    project.claim("worker-1", "1");
    for worker in ["worker-1", "worker-2"] {
        project.beat(worker, HOUR, &gone(), &json!({}));
    }
    project.beat("worker-3", HOUR, &living(), &json!({}));
    let held = scanned(&project, "worker", "worker-1").unwrap();
    assert_eq!(held["action"], "keep");
    assert_eq!(
        held["command"],
        "teamster task release 1 --force --team fix-auth"
    );
    assert!(evidence(&held).contains("task 1 is still assigned to it"));
    assert_eq!(
        scanned(&project, "worker", "worker-2").unwrap()["action"],
        "reap"
    );
    assert_eq!(scanned(&project, "worker", "worker-3"), None);
    project.run(["zombies", "reap"]).succeeds();
    let beats = project.folder().join(".omc/state/team-bridge/fix-auth");
    assert!(beats.join("worker-1.heartbeat.json").exists());
    assert!(!beats.join("worker-2.heartbeat.json").exists());
    assert!(beats.join("worker-3.heartbeat.json").exists());
}

#[test]
fn what_a_removed_team_left_in_the_project_is_listed() {
    let project = TestProject::new();
    project.beat("dead", DAY, &gone(), &json!({}));
    project.beat("alive", DAY, &living(), &json!({}));
    project.write(".omc/worktrees/fix-auth/worker-1/file", "");
    let orphan = scanned(&project, "worker", "alive");
    assert_eq!(orphan, None, "there is no Claude folder at all");
    std::fs::create_dir_all(project.claude("teams")).unwrap();
    let orphan = scanned(&project, "worker", "alive").unwrap();
    assert_eq!(orphan["action"], "keep");
    assert_eq!(orphan["command"], format!("kill {}", living().pid));
    let tree = scanned(&project, "worktree", "worker-1").unwrap();
    assert_eq!(tree["action"], "keep");
    assert!(
        tree["command"]
            .as_str()
            .unwrap()
            .contains("worktree remove"),
        "{tree}"
    );
    // This process itself is recorded as a worker: it must not be ended.
    let said = project.run(["zombies", "reap", "--kill"]).exits(0);
    assert!(
        said.stderr
            .contains("ends only what provably belongs to teamster"),
        "{}",
        said.stderr
    );
    let beats = project.folder().join(".omc/state/team-bridge/fix-auth");
    assert!(!beats.join("dead.heartbeat.json").exists());
    assert!(beats.join("alive.heartbeat.json").exists());
    assert!(
        project
            .folder()
            .join(".omc/worktrees/fix-auth/worker-1/file")
            .exists()
    );
}

#[test]
fn a_worktree_of_a_removed_team_goes_only_when_it_holds_nothing() {
    let project = TestProject::new();
    std::fs::remove_dir_all(project.folder().join(".git")).unwrap();
    std::fs::create_dir_all(project.claude("teams")).unwrap();
    let script = "set -e
git init --quiet .
git -c user.name=n -c user.email=e commit --quiet --allow-empty -m Begin
for name in clean dirty; do
  git worktree add --quiet -b omc-team/gone/$name .omc/worktrees/gone/$name
done
echo work > .omc/worktrees/gone/dirty/work.txt";
    project.shell(script).run().succeeds();
    let trees = project.folder().join(".omc/worktrees/gone");
    project.run(["zombies", "reap", "--dry-run"]).exits(0);
    assert!(trees.join("clean").exists(), "a dry run removes nothing");
    let reaped = project.run(["zombies", "reap", "--json"]).exits(0).json();
    assert!(!trees.join("clean").exists(), "{reaped}");
    assert!(trees.join("dirty/work.txt").exists());
    let of = |name: &str| {
        let all = reaped["zombies"].as_array().unwrap().iter();
        let found = all.into_iter().find(|zombie| zombie["name"] == name);
        found.cloned().unwrap()
    };
    assert_eq!(of("clean")["reaped"], true);
    assert_eq!(of("dirty")["reaped"], false);
    assert!(
        of("dirty")["evidence"]
            .to_string()
            .contains("not committed"),
        "{reaped}"
    );
}
