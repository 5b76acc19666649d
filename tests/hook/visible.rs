//! Tasks, messages, permissions and phases of the client, as viewers see them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{fixtures, row, start};
use crate::kit::TestProject;

fn fixture(path: &str) -> String {
    std::fs::read_to_string(fixtures().join(path)).unwrap()
}

fn with_tasks() -> TestProject {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("worker-1", "in-process")]);
    project.native_file(
        "tasks/alpha/1.json",
        &fixture("2.1.325/tasks/1.pending.json"),
    );
    project.native_file(
        "tasks/alpha/2.json",
        &fixture("2.1.325/tasks/2.blocked_with_metadata.json"),
    );
    project.native_file("tasks/alpha/.highwatermark", "2");
    project.native_file("tasks/alpha/3.json", "{\"torn\":");
    project.hook(
        "SubagentStart",
        &json!({"session_id": "s1", "agent_id": "a1", "agent_type": "worker-1"}),
    );
    project
}

#[test]
fn progress_comes_from_the_clients_tasks() {
    let project = with_tasks();
    let counts = |state: &Value| state["progress"].to_string();
    let created = json!({"session_id": "s1", "task_id": "4", "task_subject": "New"});
    assert_eq!(project.hook("TaskCreated", &created).stdout, "{}\n");
    let expected = r#"{"totalTasks":3,"completedTasks":0,"inProgressTasks":0,"failedTasks":0,"pendingTasks":3}"#;
    assert_eq!(
        counts(&project.state()),
        expected,
        "the hook comes before the file"
    );
    let done = json!({"session_id": "s1", "task_id": "1", "teammate_name": "worker-1", "team_name": "alpha"});
    for _ in 0..2 {
        project.hook("TaskCompleted", &done);
    }
    let expected = r#"{"totalTasks":2,"completedTasks":1,"inProgressTasks":0,"failedTasks":0,"pendingTasks":1}"#;
    assert_eq!(
        counts(&project.state()),
        expected,
        "told twice, counted once"
    );
    std::fs::remove_dir_all(project.claude("tasks")).unwrap();
    project.hook("TaskCompleted", &done);
    assert_eq!(
        counts(&project.state()),
        expected,
        "who knows nothing changes nothing"
    );
}

#[test]
fn an_idle_teammate_is_told_its_next_task() {
    let project = with_tasks();
    let idle = json!({"session_id": "s1", "teammate_name": "worker-1", "team_name": "alpha"});
    let ran = project.hook("TeammateIdle", &idle);
    assert_eq!(
        ran.json(),
        json!({"systemMessage": "Next task for worker-1: 1 Write parser"})
    );
    project.native_file(
        "tasks/alpha/1.json",
        &fixture("2.1.325/tasks/1.completed.json"),
    );
    let ran = project.hook("TeammateIdle", &idle);
    assert_eq!(
        ran.json()["systemMessage"],
        "Next task for worker-1: 2 Test parser"
    );
}

#[test]
fn a_teammate_that_takes_a_task_shows_it() {
    let project = with_tasks();
    let takes = json!({"session_id": "s1", "agent_id": "aworker-1-a4b48a82711ab4d7", "agent_type": "worker-1",
        "tool_name": "TaskUpdate", "tool_input": {"taskId": 1, "status": "in_progress"}});
    project.hook("PostToolUse", &takes);
    let state = project.state();
    let worker = row(&state, "worker-1");
    assert_eq!(worker["status"], "working");
    assert_eq!(worker["currentTask"], "Write parser");
    assert_eq!(worker["taskId"], "1");
}

#[test]
fn a_teammate_that_waits_for_permission_shows_it() {
    let project = with_tasks();
    let mut notice: Value = serde_json::from_str(&fixture(
        "2.1.325/hooks/Notification.worker_permission_prompt.json",
    ))
    .unwrap();
    notice["session_id"] = json!("s1");
    assert_eq!(project.hook("Notification", &notice).stdout, "");
    assert_eq!(
        row(&project.state(), "worker-1")["currentTask"],
        "waiting for permission: Bash"
    );
    let acts = json!({"session_id": "s1", "agent_id": "a1", "agent_type": "worker-1", "tool_name": "Bash"});
    project.hook("PreToolUse", &acts);
    assert_eq!(
        row(&project.state(), "worker-1")["currentTask"],
        Value::Null
    );
}

#[test]
fn a_change_of_phase_is_told_to_all() {
    let project = TestProject::new();
    let status = |phase: &str| {
        let status = json!({"primaryFeature": "login", "features": {"login": {"phase": phase}}});
        project.write("docs/.pdca-status.json", &status.to_string());
    };
    status("do");
    project.hook("SubagentStart", &start("w1"));
    assert_eq!(project.state()["pdcaPhase"], "do");
    assert_eq!(project.state()["feature"], "login");
    let done = json!({"session_id": "s1", "teammate_name": "w1", "task_id": "1"});
    assert_eq!(project.hook("TaskCompleted", &done).stdout, "{}\n");
    status("qa");
    let ran = project.hook("TaskCompleted", &done);
    assert_eq!(
        ran.json()["systemMessage"],
        "Phase do → check (auto-advanced)"
    );
    let state = project.state();
    assert_eq!(state["pdcaPhase"], "check");
    assert_eq!(state["recentMessages"][0]["from"], "system");
    assert_eq!(state["recentMessages"][0]["to"], "all");
    assert_eq!(
        state["recentMessages"][0]["content"],
        "Phase do → check (auto-advanced)"
    );
    assert_eq!(project.hook("TaskCompleted", &done).stdout, "{}\n");
}

#[test]
fn the_other_place_of_the_status_file_counts_too() {
    let project = TestProject::new();
    let status = json!({"primaryFeature": "x", "features": {"x": {"phase": "archived"}}});
    project.write(".bkit/state/pdca-status.json", &status.to_string());
    project.hook("SubagentStart", &start("w1"));
    assert_eq!(project.state()["pdcaPhase"], "act");
}

#[test]
fn every_shape_of_inbox_becomes_a_message_once() {
    let mut shown = String::new();
    for version in ["2.1.177", "2.1.197", "2.1.325"] {
        let folder = fixtures().join(version).join("team");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix("inbox.") else {
                continue;
            };
            let owner = if rest.starts_with("worker") {
                "worker-1"
            } else {
                "team-lead"
            };
            let project = with_tasks();
            let content = std::fs::read_to_string(&file).unwrap();
            project.native_file(&format!("teams/alpha/inboxes/{owner}.json"), &content);
            let idle =
                json!({"session_id": "s1", "teammate_name": "worker-1", "team_name": "alpha"});
            for _ in 0..2 {
                project.hook("TeammateIdle", &idle);
            }
            for letter in project.state()["recentMessages"].as_array().unwrap() {
                let text = |key: &str| letter[key].as_str().unwrap();
                let _ = writeln!(
                    shown,
                    "{version} {name}: {} → {}: {}",
                    text("from"),
                    text("to"),
                    text("content")
                );
            }
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_message_that_the_hook_and_the_inbox_tell_is_one() {
    let project = with_tasks();
    let said = json!({"session_id": "s1", "agent_id": "a1", "agent_type": "worker-1", "tool_name": "SendMessage",
        "tool_input": {"to": "team-lead", "message": "Task 1 is done."}});
    project.hook("PostToolUse", &said);
    let letter =
        json!([{"from": "worker-1", "text": "Task 1 is done.", "timestamp": crate::kit::now()}]);
    project.native_file("teams/alpha/inboxes/team-lead.json", &letter.to_string());
    project.hook("Stop", &json!({"session_id": "s1"}));
    assert_eq!(
        project.state()["recentMessages"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn what_a_pane_takes_out_of_its_inbox_at_once_is_seen_before() {
    let project = TestProject::new();
    project.native_team("alpha", "s1", &[("worker-1", "%1")]);
    let now = crate::kit::now();
    let prompt = json!({"from": "team-lead", "text": "you own the parser", "timestamp": now});
    let said = json!({"from": "team-lead", "text": "Please start.", "timestamp": now});
    let assigned = json!({"from": "team-lead", "timestamp": now,
        "text": json!({"type": "task_assignment", "taskId": "1", "subject": "Write parser"}).to_string()});
    let lies = |letters: &[&Value]| {
        project.native_file(
            "teams/alpha/inboxes/worker-1.json",
            &json!(letters).to_string(),
        );
    };
    let spawned = json!({"session_id": "s1", "tool_name": "Agent",
        "tool_input": {"name": "worker-1", "prompt": "you own the parser"},
        "tool_response": {"status": "teammate_spawned", "name": "worker-1"}});
    lies(&[&prompt]);
    project.hook("PostToolUse", &spawned);
    lies(&[&prompt, &said, &assigned]);
    let owned = json!({"session_id": "s1", "tool_name": "TaskUpdate",
        "tool_input": {"taskId": "1", "owner": "worker-1"}});
    project.hook("PostToolUse", &owned);
    project.hook("PostToolUse", &owned);
    let state = project.state();
    let contents: Vec<&str> = state["recentMessages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|letter| letter["content"].as_str().unwrap())
        .collect();
    // A message sent by a tool may be in the inbox before that tool's hook comes, and is shown once.
    let expected = [
        "you own the parser",
        "Please start.",
        "task assigned: Write parser",
    ];
    assert_eq!(contents, expected);
    let says = json!({"session_id": "s1", "tool_name": "SendMessage",
        "tool_input": {"to": "worker-1", "message": "Please start."}, "tool_response": {"success": true}});
    project.hook("PostToolUse", &says);
    let count = project.state()["recentMessages"].as_array().unwrap().len();
    assert_eq!(count, expected.len());
}

#[test]
fn a_native_team_is_shown_beside_ours() {
    for (version, file) in [
        ("2.1.177", "config.json"),
        ("2.1.197", "config.initial.json"),
        ("2.1.197", "config.in_process.json"),
        ("2.1.197", "config.tmux_active.json"),
        ("2.1.325", "config.in_process.json"),
        ("2.1.325", "config.tmux_active.json"),
        ("2.1.325", "config.tmux_idle.json"),
    ] {
        let project = TestProject::with_team();
        let config = fixture(&format!("{version}/team/{file}"));
        let parsed: Value = serde_json::from_str(&config).unwrap();
        let name = parsed["name"].as_str().unwrap();
        let config = config.replace("/home/dev/project", &project.folder().display().to_string());
        project.native_file(&format!("teams/{name}/config.json"), &config);
        project.native_file(
            &format!("tasks/{name}/1.json"),
            &fixture("2.1.325/tasks/1.pending.json"),
        );
        let teams = project.run(["team", "list", "--json"]).succeeds().json();
        let teams = teams["teams"].as_array().unwrap().clone();
        let native = teams.iter().find(|team| team["name"] == name).unwrap();
        assert_eq!(native["kind"], "claude", "{version} {file}");
        let status = project.run(["status", "--json"]).succeeds().json();
        let shown = status["teams"].as_array().unwrap();
        let shown = shown.iter().find(|team| team["name"] == name).unwrap();
        assert_eq!(shown["progress"]["totalTasks"], 1, "{version} {file}");
        let workers = project
            .run(["worker", "list", "--team", name, "--json"])
            .succeeds()
            .json();
        let members = parsed["members"].as_array().unwrap().len() - 1;
        assert_eq!(
            workers["workers"].as_array().unwrap().len(),
            members,
            "{version} {file}"
        );
        assert_eq!(
            std::fs::read_to_string(project.claude(&format!("teams/{name}/config.json"))).unwrap(),
            config
        );
    }
}
