//! Every recorded payload of every version, and its effect.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::fixtures;
use crate::kit::TestProject;

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the registry as it was when the payload was sent.
fn registry(version: &str, file: &str) -> Value {
    let config = match version {
        "2.1.177" => "config.json",
        _ if file.contains("pane") || file.contains("tmux") => "config.tmux_active.json",
        // By then the client has removed the teammate.
        _ if file.starts_with("Stop.lead") => "config.initial.json",
        _ => "config.in_process.json",
    };
    read(&fixtures().join(version).join("team").join(config))
}

/// Sets up a session in progress: the lead, worker-1, a plain subagent, two tasks.
fn arrange(version: &str, file: &str, payload: &Value) -> TestProject {
    let project = TestProject::new();
    let config = registry(version, file);
    let team = config["name"].as_str().unwrap();
    project.native_file(&format!("teams/{team}/config.json"), &config.to_string());
    for (name, source) in [
        ("1", "1.pending.json"),
        ("2", "2.blocked_with_metadata.json"),
    ] {
        let text = std::fs::read_to_string(fixtures().join("2.1.325/tasks").join(source)).unwrap();
        project.native_file(&format!("tasks/{team}/{name}.json"), &text);
    }
    if file.starts_with("SubagentStart") || file.contains("teammate_spawned") {
        return project;
    }
    let session = payload["session_id"].as_str().unwrap();
    let lead = if file.contains("pane") {
        config["leadSessionId"].as_str().unwrap()
    } else {
        session
    };
    let init = [
        "state-file",
        "init",
        "--team",
        team,
        "--feature",
        "",
        "--session",
        lead,
    ];
    project.run(init).succeeds();
    let add = [
        "state-file",
        "add",
        "worker-1",
        "--task",
        "you own the parser",
        "--session",
        lead,
    ];
    project.run(add).succeeds();
    // A teammate that uses a tool was idle before, so that the change to working is visible.
    let status = if file.contains("ToolUse") {
        "idle"
    } else {
        "working"
    };
    let status = [
        "state-file",
        "status",
        "worker-1",
        status,
        "--session",
        lead,
    ];
    project.run(status).succeeds();
    if let Some(id) = payload["agent_id"].as_str()
        && file.contains("subagent")
    {
        let add = ["state-file", "add", id, "--session", lead];
        project.run(add).succeeds();
    }
    project
}

/// Returns everything visible, without what differs between runs.
fn seen(project: &TestProject) -> String {
    let mut text = String::new();
    if !project.bkit("agent-state.json").exists() {
        return "  no state\n".to_owned();
    }
    let state = project.state();
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let progress = &state["progress"];
    let _ = writeln!(
        text,
        "  {} team={} progress={}/{}",
        if state["enabled"] == true {
            "enabled"
        } else {
            "ended"
        },
        word(&state["teamName"]),
        progress["completedTasks"],
        progress["totalTasks"],
    );
    for row in state["teammates"].as_array().unwrap() {
        let cells = ["name", "role", "model", "status", "currentTask", "taskId"];
        let cells: Vec<String> = cells.iter().map(|key| word(&row[*key])).collect();
        let _ = writeln!(text, "  row {}", cells.join(" | "));
    }
    for letter in state["recentMessages"].as_array().unwrap() {
        let cells = ["from", "to", "content"].map(|key| word(&letter[key]));
        let _ = writeln!(text, "  message {}", cells.join(" | "));
    }
    for alert in project.alerts() {
        let cells = ["team", "teammate", "type"].map(|key| word(&alert[key]));
        let _ = writeln!(text, "  end {}", cells.join(" | "));
    }
    text
}

fn table(version: &str) -> String {
    let mut files: Vec<_> = std::fs::read_dir(fixtures().join(version).join("hooks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut text = String::new();
    for path in files {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let payload = read(&path);
        let event = file.split('.').next().unwrap();
        let project = arrange(version, &file, &payload);
        let before = seen(&project);
        let mut call = project.call(["hook", event]);
        if file.contains("pane") {
            call = call.env("TMUX_PANE", "%1");
        }
        let ran = call.input(std::fs::read(&path).unwrap()).run().succeeds();
        let after = seen(&project);
        let _ = writeln!(text, "{file}\n  stdout {}", ran.stdout.trim());
        text += if after == before {
            "  nothing changed\n"
        } else {
            &after
        };
    }
    text
}

#[test]
fn of_2_1_177() {
    insta::assert_snapshot!(table("2.1.177"));
}

#[test]
fn of_2_1_197() {
    insta::assert_snapshot!(table("2.1.197"));
}

#[test]
fn of_2_1_325() {
    insta::assert_snapshot!(table("2.1.325"));
}
