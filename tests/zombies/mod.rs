//! Teams, processes and worktrees left behind: what is removed, what stays, and that nothing is lost on the way.

mod age;
mod crash;
mod kill;
mod leftovers;
mod life;
mod odd;
mod ours;
mod panes;
mod restore;
mod shown;
mod sweep;

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use teamster_types::process::ProcessId;

use crate::kit::{TestProject, now};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the time `ago` in milliseconds.
fn millis(ago: Duration) -> i64 {
    now().as_millis() - i64::try_from(ago.as_millis()).unwrap()
}

/// Writes a file below the Claude folder.
fn put(project: &TestProject, path: &str, content: &str) {
    let path = project.claude(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Makes a team of Claude Code with one completed task, last changed `ago`.
fn team(project: &TestProject, name: &str, config: &Value, ago: Duration) {
    put(
        project,
        &format!("teams/{name}/config.json"),
        &config.to_string(),
    );
    let task = json!({"id":"1","subject":"s","description":"","status":"completed","blocks":[],"blockedBy":[]});
    put(project, &format!("tasks/{name}/1.json"), &task.to_string());
    touch(project, name, ago);
}

/// Returns a registry without any sign of life.
fn registry(name: &str, created_at: impl Into<Value>) -> Value {
    json!({"name": name, "createdAt": created_at.into(), "leadAgentId": format!("team-lead@{name}"),
        "leadSessionId": "", "members": []})
}

/// The session of every lead here. No test starts a process for it, because that would be a sign of life for all teams
/// of these tests.
const LEAD_SESSION: &str = "7be1f0c4-9d27-4c7e-8a55-2f60d3a1b9e8";

/// Returns the same, led by a process, with a teammate inside it.
fn led_by(name: &str, process: &ProcessId) -> Value {
    json!({
        "name": name, "createdAt": millis(Duration::ZERO), "leadAgentId": format!("team-lead@{name}"),
        "leadSessionId": LEAD_SESSION,
        "leadProcess": {"pid": process.pid, "procStart": process.process_start_time.to_string(),
            "pidSpace": format!("{}#{}", process.host, process.pid_ns), "claimedAt": 1},
        "members": [
            {"agentId": format!("team-lead@{name}"), "name": "team-lead", "tmuxPaneId": "leader"},
            {"agentId": format!("worker-1@{name}"), "name": "worker-1", "tmuxPaneId": "in-process",
                "backendType": "in-process"},
        ],
    })
}

/// Makes everything of a team look as if it was last changed `ago`.
fn touch(project: &TestProject, name: &str, ago: Duration) {
    for folder in ["teams", "tasks"] {
        touch_tree(&project.claude(folder).join(name), SystemTime::now() - ago);
    }
}

fn touch_tree(path: &Path, time: SystemTime) {
    if path.is_symlink() || !path.exists() {
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        touch_tree(&entry.unwrap().path(), time);
    }
    std::fs::File::open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// Returns whether a team is in its place, with its task.
fn is_there(project: &TestProject, name: &str) -> bool {
    let files = ["teams/{}/config.json", "tasks/{}/1.json"];
    files
        .iter()
        .all(|file| project.claude(&file.replace("{}", name)).exists())
}

/// Returns whether nothing of a team is in its place.
fn is_gone(project: &TestProject, name: &str) -> bool {
    let folders = ["teams", "tasks"];
    folders
        .iter()
        .all(|folder| !project.claude(folder).join(name).exists())
}

/// Returns the entry of `scan` for one thing.
#[track_caller]
fn scanned(project: &TestProject, kind: &str, name: &str) -> Option<Value> {
    let found = project.run(["zombies", "scan", "--json"]).succeeds().json();
    let list = found["zombies"].as_array().unwrap().clone();
    list.into_iter()
        .find(|zombie| zombie["kind"] == kind && zombie["name"] == name)
}

/// Returns the entry of a team, which must be listed.
#[track_caller]
fn listed(project: &TestProject, name: &str) -> Value {
    scanned(project, "team", name).unwrap_or_else(|| panic!("{name} is not listed"))
}

/// Returns all evidence in one text.
fn evidence(zombie: &Value) -> String {
    let list = zombie["evidence"].as_array().unwrap();
    let words: Vec<&str> = list.iter().map(|word| word.as_str().unwrap()).collect();
    words.join(", ")
}
