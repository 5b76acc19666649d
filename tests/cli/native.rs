//! Teams of Claude Code beside teamster's: shown everywhere, and never written to by the commands that show.

use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value, json};
use teamster_types::process::ProcessId;

use crate::kit::{TestProject, gone, living};

const SESSION: &str = "36fee606-cef6-41ed-b06f-963acdd7678a";
const TEAM: &str = "session-36fee606";

/// Writes what a client recorded while it led a team with one teammate, as if it worked on this project.
fn client(project: &TestProject, config: &str, lead: Option<&ProcessId>) {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude-code");
    let text = std::fs::read_to_string(recorded.join("2.1.325/team").join(config)).unwrap();
    let text = text.replace("/home/dev/project", project.folder().to_str().unwrap());
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["name"] = json!(TEAM);
    config["leadSessionId"] = json!(SESSION);
    match lead {
        Some(lead) => {
            config["leadProcess"] = json!({"pid": lead.pid, "claimedAt": 1,
                "procStart": lead.process_start_time.to_string(),
                "pidSpace": format!("{}#{}", lead.host, lead.pid_ns)});
        }
        None => drop(config.as_object_mut().unwrap().remove("leadProcess")),
    }
    put(
        project,
        &format!("teams/{TEAM}/config.json"),
        &config.to_string(),
    );
    put(
        project,
        &format!("teams/{TEAM}/inboxes/worker-1.json"),
        "[]",
    );
    for (id, file) in [
        ("1", "1.completed.json"),
        ("2", "2.blocked_with_metadata.json"),
    ] {
        let task = std::fs::read_to_string(recorded.join("2.1.325/tasks").join(file)).unwrap();
        put(project, &format!("tasks/{TEAM}/{id}.json"), &task);
    }
}

fn put(project: &TestProject, path: &str, content: &str) {
    let path = project.claude(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Returns everything below the Claude folder, with contents and times.
fn everything(project: &TestProject) -> Vec<(String, SystemTime, Vec<u8>)> {
    let files = project.files().into_iter();
    files
        .map(|file| {
            let changed = std::fs::metadata(&file).unwrap().modified().unwrap();
            let content = std::fs::read(&file).unwrap_or_default();
            (file, changed, content)
        })
        .collect()
}

fn worker(project: &TestProject) -> Value {
    let list = project.run(["worker", "list", "--json"]).succeeds().json();
    assert_eq!(list["workers"].as_array().unwrap().len(), 1, "{list}");
    list["workers"][0].clone()
}

#[test]
fn a_team_of_claude_code_is_shown_everywhere_and_never_written_to() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&living()));
    let before = everything(&project);
    let list = project.run(["team", "list", "--json"]).succeeds().json();
    let folder = project.folder();
    let expected =
        json!({"name": TEAM, "kind": "claude", "project": folder, "members": 1, "state": "live"});
    assert_eq!(list["teams"], json!([expected]));
    let row = worker(&project);
    assert_eq!(row["team"], TEAM);
    assert_eq!(row["verdict"], "healthy");
    assert_eq!(row["backendType"], "in-process");
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    assert_eq!(team["kind"], "claude");
    assert_eq!(team["progress"]["completedTasks"], 1);
    assert_eq!(team["progress"]["totalTasks"], 2);
    assert_eq!(team["workers"][0]["verdict"], "healthy");
    assert_eq!(team["problems"], json!([]));
    let shown = project.run(["status"]).succeeds().shown();
    let shown = shown.replace(&living().pid.to_string(), "[pid]");
    insta::assert_snapshot!(shown, @r"
    team session-36fee606  of Claude Code, read only  [root]/project
    1 of 2 tasks completed, 1 pending

    WORKER    PROVIDER         VERDICT  STATUS  TASK  SEEN  EVIDENCE
    worker-1  general-purpose  healthy                      in its lead's process, pid [pid] runs
    ");
    for words in [
        &["status", "--all"][..],
        &["worker", "list"],
        &["team", "show", TEAM],
        &["task", "list"],
        &["task", "show", "2"],
        &["task", "graph"],
        &["message", "list"],
        &["journal"],
        &["zombies", "scan"],
        &["zombies", "reap"],
        &["doctor"],
    ] {
        project.run(words);
        assert!(
            everything(&project) == before,
            "{words:?} wrote: {:?}",
            project.files()
        );
    }
    for words in [
        &["team", "delete", TEAM, "--force"][..],
        &["team", "join", TEAM, "worker-9"],
    ] {
        project.run(words).fails(6);
        assert!(
            everything(&project) == before,
            "{words:?} wrote: {:?}",
            project.files()
        );
    }
}

#[test]
fn a_teammate_is_judged_by_its_lead_and_its_session() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&gone()));
    let state = || project.run(["team", "list", "--json"]).json()["teams"][0]["state"].clone();
    assert_eq!(state(), "stale");
    assert_eq!(worker(&project)["verdict"], "dead", "it died with its lead");
    let elsewhere = ProcessId {
        host: "another".to_owned(),
        ..gone()
    };
    client(&project, "config.in_process.json", Some(&elsewhere));
    assert_eq!(worker(&project)["verdict"], "unknown");
    // Older clients record their process only in the session.
    client(&project, "config.in_process.json", None);
    assert_eq!(worker(&project)["verdict"], "unknown");
    let record = |session: &str, process: &ProcessId, pane: &str| {
        json!({"pid": process.pid, "sessionId": session, "tmux": pane,
            "procStart": process.process_start_time.to_string()})
        .to_string()
    };
    let file = format!("sessions/{}.json", living().pid);
    put(&project, &file, &record(SESSION, &living(), ""));
    assert_eq!(worker(&project)["verdict"], "healthy");
    assert_eq!(state(), "live");
    // In a pane: its own session proves that it is alive; without one only tmux could.
    client(&project, "config.tmux_active.json", None);
    let row = worker(&project);
    assert_eq!(
        (&row["verdict"], &row["status"]),
        (&json!("unknown"), &json!("active"))
    );
    put(
        &project,
        &file,
        &record("da53d0aa-pane", &living(), "main:@0.%1"),
    );
    assert_eq!(worker(&project)["verdict"], "healthy");
    let status = project.run(["status", "--json"]).json();
    assert_eq!(status["teams"][0]["problems"], json!([]));
}

#[test]
fn living_teammates_stand_beside_the_workers_of_our_team() {
    let project = TestProject::with_team();
    client(&project, "config.in_process.json", Some(&living()));
    let list = project.run(["worker", "list", "--json"]).succeeds().json();
    let rows = list["workers"].as_array().unwrap();
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["team"].as_str().unwrap(), row["name"].as_str().unwrap()))
        .collect();
    let expected = [
        ("fix-auth", "worker-1"),
        ("fix-auth", "worker-2"),
        (TEAM, "worker-1"),
    ];
    assert_eq!(names, expected);
    let shown = project.run(["worker", "list"]).succeeds().shown();
    let shown = shown.replace(&living().pid.to_string(), "[pid]");
    insta::assert_snapshot!(shown, @r"
    team fix-auth
    WORKER    PROVIDER  VERDICT  STATUS  TASK  SEEN  EVIDENCE
    worker-1            unknown                      no heartbeat, no process to judge: a missing heartbeat alone proves nothing
    worker-2            unknown                      no heartbeat, no process to judge: a missing heartbeat alone proves nothing

    team session-36fee606
    WORKER    PROVIDER         VERDICT  STATUS  TASK  SEEN  EVIDENCE
    worker-1  general-purpose  healthy                      in its lead's process, pid [pid] runs
    ");
    // With a named team, only that team is shown.
    let only = project
        .run(["worker", "list", "--team", "fix-auth", "--json"])
        .json();
    assert_eq!(only["workers"].as_array().unwrap().len(), 2);
    // A team that is over does not make it ambiguous.
    client(&project, "config.in_process.json", Some(&gone()));
    let only = project.run(["worker", "list", "--json"]).json();
    assert_eq!(only["workers"].as_array().unwrap().len(), 2);
}

#[test]
fn registry_that_marks_its_lead_by_the_agent_type_has_no_teammate_more() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&living()));
    let path = project.claude(&format!("teams/{TEAM}/config.json"));
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("leadAgentId");
    std::fs::write(&path, config.to_string()).unwrap();
    assert_eq!(worker(&project)["name"], "worker-1");
    let list = project.run(["team", "list", "--json"]).succeeds().json();
    assert_eq!(list["teams"][0]["members"], 1);
    assert_eq!(list["teams"][0]["project"], json!(project.folder()));
    project
        .run(["message", "send", "--to", "lead", "hello"])
        .succeeds();
    let inbox = project.claude(&format!("teams/{TEAM}/inboxes/team-lead.json"));
    assert!(std::fs::read_to_string(inbox).unwrap().contains("hello"));
}

#[test]
fn teammate_is_shown_with_the_task_that_its_client_says_it_works_on() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&living()));
    let task = json!({"id": "3", "subject": "Write parser", "description": "", "status": "in_progress",
        "owner": "worker-1", "blocks": [], "blockedBy": []});
    put(&project, &format!("tasks/{TEAM}/3.json"), &task.to_string());
    assert_eq!(worker(&project)["currentTaskId"], "3");
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    assert_eq!(top["teams"][0]["workers"][0]["currentTask"], "Write parser");
    let status = project.run(["status", "--json"]).succeeds().json();
    assert_eq!(status["teams"][0]["workers"][0]["currentTaskId"], "3");
    // As text, with a message that a program put into an inbox and a hook has seen.
    let letter = json!([{"from": "worker-1", "text": "the grammar is odd", "timestamp": crate::kit::now(),
        "type": "message", "read": false}]);
    let inbox = format!("teams/{TEAM}/inboxes/team-lead.json");
    put(&project, &inbox, &letter.to_string());
    let w1 = json!({"session_id": SESSION, "agent_id": "aworker-1-ee1e2c6a467abe5d", "agent_type": "worker-1"});
    project.hook("SubagentStart", &w1);
    for words in [&["worker", "list"][..], &["status"]] {
        let text = project.run(words).succeeds().stdout;
        let (head, row) = (line_with(&text, "VERDICT"), line_with(&text, "healthy"));
        let column = head.find("TASK").unwrap();
        assert!(row[column..].starts_with("3 "), "{words:?}:\n{text}");
    }
    let top = project.call(["top", "--once"]);
    let top = top.env("COLUMNS", "160").env("LINES", "60").run();
    let top = top.succeeds().stdout;
    let row = line_with(&top, ">worker-1");
    assert!(row.contains("Write parser"), "{top}");
    let said = line_with(&top, "the grammar is odd");
    assert!(said.contains("worker-1"), "{top}");
}

/// Returns the first line of a text that contains these words.
#[track_caller]
fn line_with<'a>(text: &'a str, words: &str) -> &'a str {
    let line = text.lines().find(|line| line.contains(words));
    line.unwrap_or_else(|| panic!("no {words} in\n{text}"))
}

#[test]
fn teammate_in_a_pane_whose_own_session_is_gone_is_dead_everywhere() {
    let project = TestProject::new();
    client(&project, "config.tmux_active.json", Some(&living()));
    let record = json!({"pid": gone().pid, "sessionId": "da53d0aa-pane", "tmux": "main:@0.%1",
        "procStart": gone().process_start_time.to_string()});
    put(
        &project,
        &format!("sessions/{}.json", gone().pid),
        &record.to_string(),
    );
    assert_eq!(worker(&project)["verdict"], "dead");
    let status = project.run(["status", "--json"]).succeeds().json();
    assert_eq!(status["teams"][0]["workers"][0]["verdict"], "dead");
    assert_eq!(status["teams"][0]["problems"][0]["about"], "worker-1");
    // The state file shows it after the next hook of any session.
    let now = crate::kit::now();
    let row = json!({"name": "worker-1", "role": "tester", "model": "haiku", "status": "working",
        "currentTask": "Testing", "taskId": null, "startedAt": now, "lastActivityAt": now});
    let state = json!({"version": "1.0", "enabled": true, "teamName": TEAM, "feature": "login", "pdcaPhase": "do",
        "orchestrationPattern": "leader", "ctoAgent": "opus", "startedAt": now, "lastUpdated": now,
        "teammates": [row], "progress": {"totalTasks": 2, "completedTasks": 1, "inProgressTasks": 0,
            "failedTasks": 0, "pendingTasks": 1},
        "recentMessages": [], "sessionId": SESSION});
    project.write(".bkit/agent-state.json", &state.to_string());
    let payload =
        json!({"session_id": SESSION, "tool_name": "Bash", "tool_input": {"command": "true"}});
    project.hook("PreToolUse", &payload);
    let row = &project.state()["teammates"][0];
    assert_eq!(row["status"], "failed", "{row}");
    assert_eq!(
        row["currentTask"],
        format!("process {} is gone", gone().pid)
    );
    is_dead_everywhere(&project);
}

#[test]
fn teammate_whose_process_called_a_hook_and_is_gone_is_dead_everywhere() {
    let project = TestProject::new();
    client(&project, "config.tmux_active.json", Some(&living()));
    let line = "exec sh -c 'echo $$; read -r _' claude --agent-id worker-1@session-36fee606 \
        --agent-name worker-1 --team-name session-36fee606 --parent-session-id 36fee606-cef6-41ed-b06f-963acdd7678a";
    let (reader, writer) = std::io::pipe().unwrap();
    let mut teammate = project.shell(line).stdin(reader.into()).follow();
    let pid = teammate.line();
    let hook = |event: &str| {
        let payload =
            json!({"session_id": "pane", "agent_type": "general-purpose", "tool_name": "Bash"});
        let call = project.call(["hook", event]).env("CLAUDE_PID", &pid);
        call.input(payload.to_string()).run().succeeds();
    };
    hook("SessionStart");
    hook("PreToolUse");
    assert_eq!(project.state()["teammates"][0]["status"], "working");
    assert_eq!(
        project.run(["zombies", "scan", "--json"]).json()["zombies"],
        json!([])
    );
    drop(writer);
    drop(teammate);
    // Both before and after a hook has seen it.
    is_dead_everywhere(&project);
    project.hook("Stop", &json!({"session_id": SESSION}));
    assert_eq!(project.state()["teammates"][0]["status"], "failed");
    is_dead_everywhere(&project);
}

/// Asserts that the team's one teammate is dead in `status`, `top`, Studio and `zombies`.
#[track_caller]
fn is_dead_everywhere(project: &TestProject) {
    assert_eq!(worker(project)["verdict"], "dead");
    let status = project.run(["status", "--json"]).succeeds().json();
    assert_eq!(
        status["teams"][0]["workers"][0]["verdict"], "dead",
        "{status}"
    );
    assert_eq!(status["teams"][0]["problems"][0]["about"], "worker-1");
    let evidence = status["teams"][0]["workers"][0]["evidence"].clone();
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    assert_eq!(top["teams"][0]["workers"][0]["verdict"], "dead", "{top}");
    assert_eq!(top["teams"][0]["workers"][0]["evidence"], evidence);
    let studio = crate::studio::Studio::start(project);
    let view = studio.json(&format!("/api/v1/teams/{TEAM}"));
    assert_eq!(view["workers"][0]["verdict"], "dead", "{view}");
    assert_eq!(view["workers"][0]["evidence"], evidence);
    let zombies = project.run(["zombies", "scan", "--json"]).succeeds().json();
    let zombie = &zombies["zombies"][0];
    assert_eq!(zombies["zombies"].as_array().unwrap().len(), 1, "{zombies}");
    assert_eq!(
        (&zombie["kind"], &zombie["name"], &zombie["action"]),
        (&json!("worker"), &json!("worker-1"), &json!("keep"))
    );
    assert_eq!(zombie["evidence"], evidence);
    let command = zombie["command"].as_str().unwrap();
    let told = format!("teamster message send --team {TEAM} --to team-lead ");
    assert!(command.starts_with(&told), "{command}");
    let text = project.run(["zombies", "scan"]).succeeds().stdout;
    assert!(text.contains(command), "{text}");
}

#[test]
fn state_file_without_a_registry_is_shown_by_status_as_by_top() {
    let project = TestProject::new();
    let now = crate::kit::now();
    let row = json!({"name": "ann", "role": "tester", "model": "haiku", "status": "working", "currentTask": "Testing",
        "taskId": "7", "startedAt": now, "lastActivityAt": now});
    let state = |name: &str| {
        json!({"version": "1.0", "enabled": true, "teamName": name, "feature": "login", "pdcaPhase": "do",
            "orchestrationPattern": "leader", "ctoAgent": "opus", "startedAt": now, "lastUpdated": now,
            "teammates": [row], "progress": {"totalTasks": 4, "completedTasks": 1, "inProgressTasks": 2,
                "failedTasks": 0, "pendingTasks": 1},
            "recentMessages": [], "sessionId": SESSION})
        .to_string()
    };
    project.write(".bkit/agent-state.json", &state("crew"));
    let status = project.run(["status", "--json"]).succeeds().json();
    let team = &status["teams"][0];
    assert_eq!(
        (&team["name"], &team["kind"]),
        (&json!("crew"), &json!("state-file"))
    );
    assert_eq!(team["progress"]["totalTasks"], 4);
    let worker = &team["workers"][0];
    assert_eq!(
        (&worker["name"], &worker["status"]),
        (&json!("ann"), &json!("working"))
    );
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    assert_eq!(top["teams"][0]["name"], "crew");
    assert_eq!(top["teams"][0]["workers"][0]["verdict"], worker["verdict"]);
}

#[test]
fn native_team_with_a_state_file_is_one_team_that_has_what_both_tell() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&living()));
    let now = crate::kit::now();
    let row = json!({"name": "worker-1", "role": "tester", "model": "haiku", "status": "failed",
        "currentTask": "Testing", "taskId": null, "startedAt": now, "lastActivityAt": now});
    let letter =
        json!({"from": "worker-1", "to": "team-lead", "content": "hello", "timestamp": now});
    let state = json!({"version": "1.0", "enabled": true, "teamName": TEAM, "feature": "login", "pdcaPhase": "do",
        "orchestrationPattern": "leader", "ctoAgent": "opus", "startedAt": now, "lastUpdated": now,
        "teammates": [row], "progress": {"totalTasks": 4, "completedTasks": 1, "inProgressTasks": 2,
            "failedTasks": 0, "pendingTasks": 1},
        "recentMessages": [letter], "sessionId": SESSION});
    project.write(".bkit/agent-state.json", &state.to_string());
    let status = project.run(["status", "--json"]).succeeds().json();
    assert_eq!(status["teams"].as_array().unwrap().len(), 1, "{status}");
    let team = &status["teams"][0];
    assert_eq!(
        (&team["kind"], &team["stage"]),
        (&json!("claude"), &json!("do"))
    );
    assert_eq!(team["workers"][0]["status"], "failed");
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    let worker = &top["teams"][0]["workers"][0];
    assert_eq!(
        (&worker["status"], &worker["verdict"]),
        (&json!("failed"), &json!("healthy"))
    );
    assert_eq!(
        (&worker["role"], &worker["currentTask"]),
        (&json!("tester"), &json!("Testing"))
    );
    assert_eq!(top["teams"][0]["messages"][0]["content"], "hello");
    assert_eq!(
        top["teams"][0]["progress"]["totalTasks"], 2,
        "the client's own tasks count"
    );
    let studio = crate::studio::Studio::start(&project);
    let rows = studio.json("/api/v1/teams");
    assert_eq!(rows["teams"].as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(rows["teams"][0]["stage"], "do");
    let view = studio.json(&format!("/api/v1/teams/{TEAM}"));
    assert_eq!(&view["workers"][0], worker);
}

#[test]
fn registry_with_an_odd_time_is_a_problem_of_its_team() {
    let project = TestProject::new();
    client(&project, "config.in_process.json", Some(&living()));
    let path = project.claude(&format!("teams/{TEAM}/config.json"));
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config["createdAt"] = json!("soon");
    std::fs::write(&path, config.to_string()).unwrap();
    let status = project.run(["status", "--json"]).succeeds().json();
    let problem = &status["teams"][0]["problems"][0];
    assert_eq!(problem["about"], "config.json");
    assert!(
        problem["error"].as_str().unwrap().contains("createdAt"),
        "{problem}"
    );
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    for key in ["about", "error"] {
        assert_eq!(top["teams"][0]["problems"][0][key], problem[key]);
    }
}
