//! `state-file`: every operation with every option, each printing the state.

use serde_json::{Value, json};

use crate::kit::TestProject;

#[track_caller]
fn does(project: &TestProject, args: &[&str]) -> Value {
    let whose: &[&str] = match args[0] {
        "path" => &[],
        _ => &["--session", "s-1"],
    };
    let args = ["state-file"]
        .iter()
        .chain(args)
        .chain(whose)
        .chain(&["--json"]);
    let state = project.run(args).succeeds().json();
    assert_eq!(state["version"], "1.0", "{state}");
    state
}

#[test]
fn every_operation_takes_its_options_and_prints_the_state() {
    let project = TestProject::new();
    let file = project.folder().join(".bkit/agent-state.json");
    let path = project.run(["state-file", "path"]).succeeds();
    assert_eq!(path.stdout.trim(), file.display().to_string());
    let init = [
        "init",
        "--team",
        "crew",
        "--feature",
        "login",
        "--phase",
        "do",
        "--pattern",
        "swarm",
        "--cto",
        "haiku",
    ];
    let state = does(&project, &init);
    for (key, value) in [
        ("teamName", "crew"),
        ("feature", "login"),
        ("pdcaPhase", "do"),
        ("orchestrationPattern", "swarm"),
        ("ctoAgent", "haiku"),
        ("sessionId", "s-1"),
    ] {
        assert_eq!(state[key], value, "{state}");
    }
    let add = [
        "add",
        "ann",
        "--role",
        "tester",
        "--model",
        "opus",
        "--task",
        "Test it",
        "--task-id",
        "4",
    ];
    let row = does(&project, &add)["teammates"][0].clone();
    for (key, value) in [
        ("name", "ann"),
        ("role", "tester"),
        ("model", "opus"),
        ("status", "spawning"),
        ("currentTask", "Test it"),
        ("taskId", "4"),
    ] {
        assert_eq!(row[key], value, "{row}");
    }
    let status = [
        "status",
        "ann",
        "working",
        "--task",
        "More",
        "--task-id",
        "5",
    ];
    let row = does(&project, &status)["teammates"][0].clone();
    assert_eq!(
        (&row["status"], &row["currentTask"], &row["taskId"]),
        (&json!("working"), &json!("More"), &json!("5"))
    );
    let progress = [
        "progress",
        "--total",
        "9",
        "--completed",
        "1",
        "--in-progress",
        "2",
        "--failed",
        "3",
        "--pending",
        "4",
    ];
    assert_eq!(
        does(&project, &progress)["progress"],
        json!({ "totalTasks": 9, "completedTasks": 1, "inProgressTasks": 2, "failedTasks": 3, "pendingTasks": 4 })
    );
    let message = ["message", "--from", "ann", "--to", "lead", "done soon"];
    let told = does(&project, &message)["recentMessages"][0].clone();
    assert_eq!(
        (&told["from"], &told["to"], &told["content"]),
        (&json!("ann"), &json!("lead"), &json!("done soon"))
    );
    let read = does(&project, &["read"]);
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(read, kept);
    let path = does(&project, &["path"]);
    assert_eq!(path["path"], file.display().to_string());
    assert_eq!(does(&project, &["remove", "ann"])["teammates"], json!([]));
    assert_eq!(does(&project, &["cleanup"])["enabled"], false);
    assert!(file.exists(), "the file is never deleted");
}
