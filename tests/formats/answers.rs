//! The output of `--json`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{has_keys, is_millis, is_moment, is_progress};
use crate::kit::{TestProject, gone, living};

/// Asserts the form of a task in every output: its file, without the claim's token, and its state.
#[track_caller]
fn is_task(task: &Value, id: &str, status: &str, state: &str) {
    assert_eq!(task["id"], id, "{task}");
    assert_eq!(task["status"], status, "{task}");
    assert_eq!(task["state"], state, "{task}");
    assert!(
        task["reason"]
            .as_str()
            .is_some_and(|words| !words.is_empty()),
        "{task}"
    );
    assert!(task["blocks"].is_array() && task["blockedBy"].is_array());
    assert!(
        task["metadata"]["teamster"]["claim"].get("token").is_none(),
        "{task}"
    );
}

#[test]
fn tasks() {
    let project = TestProject::with_team();
    let json = |args: &[&str]| {
        let args = args.iter().chain(&["--json"]);
        project.run(args).succeeds().json()
    };
    let made = json(&["task", "create", "--subject", "one"]);
    is_task(&made["task"], "1", "pending", "claimable");
    let made = json(&["task", "create", "--subject", "two", "--blocked-by", "1"]);
    is_task(&made["task"], "2", "pending", "waiting");
    let claimed = json(&["task", "claim", "--worker", "worker-1"]);
    is_task(&claimed["task"], "1", "in_progress", "in_progress");
    let token = claimed["token"].as_str().unwrap();
    assert!(!token.is_empty());
    assert_eq!(claimed["fence"], 1);
    is_moment(&claimed["leasedUntil"]);
    let renewed = json(&["task", "renew", "1", "--token", token, "--lease", "10m"]);
    is_task(&renewed["task"], "1", "in_progress", "in_progress");
    let released = json(&["task", "release", "1", "--token", token]);
    is_task(&released["task"], "1", "pending", "claimable");
    let token = project.claim("worker-1", "1");
    let done = json(&["task", "complete", "1", "--token", &token]);
    is_task(&done["task"], "1", "completed", "completed");
    is_task(
        &json(&["task", "show", "2"])["task"],
        "2",
        "pending",
        "claimable",
    );
    let token = project.claim("worker-1", "2");
    let failed = json(&["task", "fail", "2", "--token", &token, "--error", "no"]);
    is_task(&failed["task"], "2", "pending", "waiting");
    let updated = json(&["task", "update", "2", "--subject", "again"]);
    assert_eq!(updated["task"]["subject"], "again");
    let retried = json(&["task", "retry", "2"]);
    is_task(&retried["task"], "2", "pending", "claimable");
    let removed = json(&["task", "delete", "2"]);
    assert_eq!(removed["task"]["id"], "2");
}

#[test]
fn lists_and_graphs_of_tasks() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    project.task("two", &["--blocked-by", "1"]);
    project.task("three", &["--blocked-by", "2"]);
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    std::fs::write(project.claude("tasks/fix-auth/9.json"), "{ torn").unwrap();
    let list = project.run(["task", "list", "--json"]).succeeds().json();
    let tasks = list["tasks"].as_array().unwrap();
    is_task(&tasks[0], "1", "completed", "completed");
    is_task(&tasks[2], "3", "pending", "waiting");
    assert_eq!(list["problems"].as_array().unwrap().len(), 1);
    let problem = &list["problems"][0];
    assert!(problem["file"].as_str().unwrap().contains("9.json"));
    assert!(problem["error"].is_string());
    is_progress(&list["progress"], 3);
    let graph = project.run(["task", "graph", "--json"]).succeeds().json();
    assert_eq!(
        graph["edges"],
        json!([{ "from": "1", "to": "2" }, { "from": "2", "to": "3" }])
    );
    assert_eq!(graph["criticalPath"], json!(["2", "3"]));
    has_keys(
        &graph["nodes"][0],
        &["id", "subject", "status", "state", "reason"],
    );
    let same = project
        .run(["task", "graph", "--format", "json"])
        .succeeds();
    assert_eq!(same.json(), graph);
}

#[test]
fn a_task_behind_a_failed_one_is_blocked_and_the_failed_one_says_so() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    project.task("two", &["--blocked-by", "1"]);
    for _ in 0..5 {
        let token = project.claim("worker-1", "1");
        let fail = ["task", "fail", "1", "--token", &token, "--error", "no"];
        project.run(fail).succeeds();
        // A failed task is not offered during its back-off, which is not the subject of this test.
        let file = project.claude("tasks/fix-auth/1.json");
        let mut task: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        task["metadata"]["teamster"]
            .as_object_mut()
            .unwrap()
            .remove("notBefore");
        std::fs::write(&file, serde_json::to_vec_pretty(&task).unwrap()).unwrap();
    }
    let list = project.run(["task", "list", "--json"]).succeeds().json();
    is_task(&list["tasks"][0], "1", "completed", "failed");
    is_task(&list["tasks"][1], "2", "pending", "blocked");
    assert_eq!(list["tasks"][0]["metadata"]["permanentlyFailed"], true);
    assert_eq!(list["progress"]["failedTasks"], 1);
}

#[test]
fn durations_are_seconds_minutes_and_hours() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    for (span, seconds) in [("5s", 5), ("10m", 600), ("24h", 86_400)] {
        let before = crate::kit::now().as_millis();
        let claimed = project
            .run([
                "task", "claim", "--worker", "worker-1", "--lease", span, "--json",
            ])
            .succeeds()
            .json();
        let after = crate::kit::now().as_millis();
        let until: teamster_types::Time =
            serde_json::from_value(claimed["leasedUntil"].clone()).unwrap();
        let until = until.as_millis() - seconds * 1_000;
        assert!((before..=after).contains(&until), "{span}: {claimed}");
        let token = claimed["token"].as_str().unwrap();
        project
            .run(["task", "release", "1", "--token", token])
            .succeeds();
        project.run(["zombies", "scan", "--ttl", span]).succeeds();
    }
    for wrong in ["5", "s", "-5s", "5y", ""] {
        project
            .run(["task", "claim", "--worker", "worker-1", "--lease", wrong])
            .fails(2);
    }
}

#[test]
fn teams() {
    let project = TestProject::new();
    let folder = project.folder().display().to_string();
    let arguments = [
        "team",
        "create",
        "one",
        "--description",
        "what for",
        "--project",
        ".",
        "--members",
        "w1,w2",
        "--json",
    ];
    let made = project.run(arguments).succeeds().json();
    assert_eq!(made["team"]["name"], "one");
    assert_eq!(made["team"]["description"], "what for");
    let joined = project.run(["team", "join", "one", "w3", "--provider", "codex", "--json"]);
    let joined = joined.succeeds().json();
    assert_eq!(joined["team"]["members"].as_array().unwrap().len(), 3);
    let state = || {
        let list = project.run(["team", "list", "--json"]).succeeds().json();
        let team = list["teams"][0].clone();
        assert_eq!(team["name"], "one");
        assert_eq!(team["kind"], "teamster");
        assert_eq!(team["project"], folder.as_str());
        assert_eq!(team["members"], 3);
        team["state"].clone()
    };
    assert_eq!(state(), "stale");
    project.task("work", &[]);
    let token = project.claim("w1", "1");
    assert_eq!(state(), "live");
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    assert_eq!(state(), "ended");
    let shown = project.run(["team", "show", "one", "--json"]).succeeds();
    let file: Value = serde_json::from_str(&project.read("teams/one/config.json")).unwrap();
    assert_eq!(shown.json()["team"], file);
    is_progress(&shown.json()["progress"], 1);
    let gone = project.run(["team", "delete", "one", "--json"]).succeeds();
    assert_eq!(gone.json()["team"]["name"], "one");
}

#[test]
fn a_team_of_claude_code_is_called_so() {
    let project = TestProject::new();
    let registry = project.claude("teams/theirs/config.json");
    std::fs::create_dir_all(registry.parent().unwrap()).unwrap();
    let config = json!({
        "name": "theirs", "createdAt": 1_794_000_000_000_i64, "leadAgentId": "team-lead@theirs",
        "members": [{ "agentId": "team-lead@theirs", "name": "team-lead", "cwd": project.folder() }],
    });
    std::fs::write(registry, config.to_string()).unwrap();
    let list = project.run(["team", "list", "--json"]).succeeds().json();
    assert_eq!(list["teams"][0]["kind"], "claude");
    assert_eq!(list["teams"][0]["members"], 0);
}

#[test]
fn status_and_workers() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let more = json!({ "currentTaskId": "1", "status": "executing", "consecutiveErrors": 1 });
    project.beat("worker-1", Duration::ZERO, &living(), &more);
    project.beat("worker-2", Duration::from_secs(60), &gone(), &json!({}));
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    assert_eq!(team["name"], "fix-auth");
    assert_eq!(team["kind"], "teamster");
    assert_eq!(team["project"], project.folder().display().to_string());
    has_keys(team, &["stage", "workers", "problems"]);
    is_progress(&team["progress"], 1);
    let list = project.run(["worker", "list", "--json"]).succeeds().json();
    for workers in [&team["workers"], &list["workers"]] {
        let worker = &workers[0];
        assert_eq!(worker["name"], "worker-1");
        assert_eq!(worker["provider"], "codex");
        assert_eq!(worker["backendType"], "process");
        assert_eq!(worker["status"], "executing");
        assert_eq!(worker["verdict"], "healthy");
        assert!(worker["evidence"][0].is_string(), "{worker}");
        assert_eq!(worker["pid"], living().pid);
        assert_eq!(worker["currentTaskId"], "1");
        is_moment(&worker["lastPollAt"]);
        is_moment(&worker["lastEventAt"]);
        assert_eq!(worker["consecutiveErrors"], 1);
        assert_eq!(workers[1]["verdict"], "dead");
    }
}

#[test]
fn messages() {
    let project = TestProject::with_team();
    let json = |args: &[&str]| {
        let args = args.iter().chain(&["--json"]);
        project.run(args).succeeds().json()
    };
    let sent = json(&["message", "send", "--to", "worker-1", "hello"]);
    let keys = ["id", "type", "from", "to", "content", "timestamp"];
    has_keys(&sent["message"], &keys);
    assert_eq!(json(&["message", "broadcast", "all of you"])["sent"], 2);
    assert_eq!(
        json(&["message", "send", "--to", "all", "you too"])["sent"],
        2
    );
    let first = json(&["message", "read", "--as", "worker-1", "--limit", "1"]);
    assert_eq!(first["messages"].as_array().unwrap().len(), 1);
    assert_eq!(first["skipped"], 0);
    let message = &first["messages"][0];
    has_keys(message, &keys);
    assert_eq!(message["id"], sent["message"]["id"]);
    assert_eq!(message["type"], "message");
    assert_eq!(message["from"], "lead");
    assert_eq!(message["to"], "worker-1");
    assert_eq!(message["content"], "hello");
    is_moment(&message["timestamp"]);
    let id = message["id"].as_str().unwrap();
    json(&["message", "ack", "--as", "worker-1", id]);
    let rest = json(&["message", "read", "--as", "worker-1", "--ack"]);
    assert_eq!(rest["messages"].as_array().unwrap().len(), 2);
    let none = json(&["message", "read", "--as", "worker-1"]);
    assert_eq!(none["messages"], json!([]), "an empty inbox is no error");
    assert_eq!(none["skipped"], 0);
}

#[test]
fn zombies() {
    let project = TestProject::new();
    let registry = project.claude("teams/old/config.json");
    std::fs::create_dir_all(registry.parent().unwrap()).unwrap();
    std::fs::write(
        &registry,
        r#"{"name":"old","createdAt":1700000000000,"members":[]}"#,
    )
    .unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
    for path in [registry.as_path(), registry.parent().unwrap()] {
        let file = std::fs::File::open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let found = project.run(["zombies", "scan", "--json"]).succeeds().json();
    let zombie = &found["zombies"][0];
    assert_eq!(zombie["kind"], "team", "{found}");
    assert_eq!(zombie["name"], "old");
    assert_eq!(zombie["team"], "old");
    assert!(zombie["age"].as_u64().unwrap() >= 2 * 24 * 3600, "{zombie}");
    assert!(zombie["evidence"][0].is_string(), "{zombie}");
    assert_eq!(zombie["action"], "reap");
    assert!(
        zombie["command"].as_str().unwrap().starts_with("teamster "),
        "{zombie}"
    );
}

#[test]
fn doctor() {
    let project = TestProject::new();
    let client = project.home().join("bin/claude");
    std::fs::create_dir_all(client.parent().unwrap()).unwrap();
    std::fs::write(&client, "#!/bin/sh\necho 2.1.0 '(Claude Code)'\n").unwrap();
    let mut mode = std::fs::metadata(&client).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&client, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", client.parent().unwrap().display());
    let said = project.call(["doctor", "--json"]).env("PATH", path).run();
    let said = said.succeeds().json();
    for check in said["checks"].as_array().unwrap() {
        assert!(check["name"].is_string() && check["ok"].is_boolean());
        assert!(check["detail"].is_string(), "{check}");
        let hint = check.get("hint").unwrap();
        assert_eq!(hint.is_null(), check["ok"] == true, "{check}");
    }
    let found = &said["clients"][0];
    assert_eq!(found["name"], "claude");
    assert_eq!(found["path"], client.display().to_string());
    assert!(
        found["version"].as_str().unwrap().contains("2.1.0"),
        "{found}"
    );
}

#[test]
fn times_of_registries_are_numbers() {
    let project = TestProject::with_team();
    let team = project.run(["team", "show", "--json"]).succeeds().json();
    is_millis(&team["team"]["createdAt"]);
}
