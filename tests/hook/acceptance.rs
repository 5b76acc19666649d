//! The acceptance criteria of the state file, case by case.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_claude::state::{AgentState, Liveness};

use super::{names, row, start};
use crate::kit::{TestProject, now};

fn begun() -> TestProject {
    let project = TestProject::new();
    project
        .run(["state-file", "init", "--team", "fix", "--feature", "login"])
        .succeeds();
    project
}

fn state_file(project: &TestProject, words: &[&str]) -> Value {
    let words = ["state-file"].iter().chain(words).chain(&["--json"]);
    project.run(words).succeeds().json()
}

#[test]
fn init_makes_the_file_with_exactly_its_fields() {
    let project = begun();
    let text = std::fs::read_to_string(project.bkit("agent-state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let keys: Vec<&String> = state.as_object().unwrap().keys().collect();
    let expected = "version enabled teamName feature pdcaPhase orchestrationPattern ctoAgent \
         startedAt lastUpdated teammates progress recentMessages sessionId";
    assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
    assert!(
        text.starts_with("{\n  \"version\": \"1.0\",\n  \"enabled\": true,\n"),
        "{text}"
    );
    assert_eq!(state["teamName"], "fix");
    assert_eq!(state["feature"], "login");
    assert_eq!(state["pdcaPhase"], "plan");
    assert_eq!(state["orchestrationPattern"], "leader");
    assert_eq!(state["ctoAgent"], "opus");
    assert_eq!(state["teammates"], json!([]));
    assert!(project.leftovers().is_empty());
}

#[test]
fn add_gives_spawning_and_the_same_name_is_one_row() {
    let project = begun();
    state_file(
        &project,
        &[
            "add",
            "w1",
            "--role",
            "developer",
            "--model",
            "claude-opus-5",
        ],
    );
    let first = project.state();
    assert_eq!(row(&first, "w1")["status"], "spawning");
    assert_eq!(row(&first, "w1")["model"], "opus");
    state_file(
        &project,
        &[
            "status",
            "w1",
            "working",
            "--task",
            "the form",
            "--task-id",
            "3",
        ],
    );
    state_file(&project, &["add", "w1", "--role", "tester"]);
    let state = project.state();
    assert_eq!(names(&state), ["w1"]);
    let w1 = row(&state, "w1");
    assert_eq!(w1["status"], "spawning");
    assert_eq!(w1["role"], "tester");
    assert_eq!(w1["startedAt"], row(&first, "w1")["startedAt"]);
    assert_eq!(w1["currentTask"], Value::Null);
}

#[test]
fn an_eleventh_active_one_is_not_added_and_a_finished_one_gives_way() {
    let project = begun();
    for number in 1..=10 {
        state_file(&project, &["add", &format!("w{number}")]);
    }
    project.run(["state-file", "add", "w11"]).fails(6);
    assert_eq!(project.state()["teammates"].as_array().unwrap().len(), 10);
    state_file(&project, &["status", "w3", "completed"]);
    state_file(&project, &["status", "w5", "failed"]);
    state_file(&project, &["add", "w11"]);
    let state = project.state();
    assert!(!names(&state).contains(&"w3".to_owned()), "the oldest goes");
    assert!(names(&state).contains(&"w5".to_owned()));
    assert_eq!(state["teammates"][9]["name"], "w11", "in spawn order");
}

#[test]
fn idle_clears_the_task_and_illegal_steps_are_refused() {
    let project = begun();
    state_file(
        &project,
        &["add", "w1", "--task", "the form", "--task-id", "3"],
    );
    state_file(&project, &["status", "w1", "idle"]);
    assert_eq!(row(&project.state(), "w1")["currentTask"], Value::Null);
    assert_eq!(row(&project.state(), "w1")["taskId"], Value::Null);
    state_file(&project, &["status", "w1", "failed"]);
    project.run(["state-file", "status", "w1", "idle"]).fails(4);
    project
        .run(["state-file", "status", "w1", "asleep"])
        .fails(2);
    project
        .run(["state-file", "status", "nobody", "idle"])
        .fails(3);
    project.run(["state-file", "remove", "nobody"]).fails(3);
    state_file(&project, &["remove", "w1"]);
    assert_eq!(project.state()["teammates"], json!([]));
}

#[test]
fn progress_is_set_and_51_messages_leave_50() {
    let project = begun();
    let counts = [
        "progress",
        "--total",
        "5",
        "--completed",
        "2",
        "--in-progress",
        "1",
        "--failed",
        "1",
        "--pending",
        "1",
    ];
    let state = state_file(&project, &counts);
    assert_eq!(
        state["progress"],
        json!({"totalTasks": 5, "completedTasks": 2, "inProgressTasks": 1, "failedTasks": 1, "pendingTasks": 1})
    );
    for number in 1..=51 {
        state_file(
            &project,
            &["message", "--from", "w1", &format!("number {number}")],
        );
    }
    let state = project.state();
    let messages = state["recentMessages"].as_array().unwrap();
    assert_eq!(messages.len(), 50);
    assert_eq!(messages[0]["content"], "number 2");
    assert_eq!(messages[49]["content"], "number 51");
    assert_eq!(messages[49]["to"], "all");
}

#[test]
fn clean_up_keeps_progress_and_messages() {
    let project = begun();
    state_file(&project, &["add", "w1"]);
    state_file(&project, &["progress", "--total", "3", "--completed", "3"]);
    state_file(&project, &["message", "done"]);
    let state = state_file(&project, &["cleanup"]);
    assert_eq!(state["enabled"], false);
    assert_eq!(state["teammates"], json!([]));
    assert_eq!(state["progress"]["completedTasks"], 3);
    assert_eq!(state["recentMessages"][0]["content"], "done");
    assert_eq!(state["recentMessages"][0]["from"], "unknown");
    assert!(project.bkit("agent-state.json").exists());
}

#[test]
fn a_missing_file_reads_as_none() {
    let project = TestProject::new();
    project.run(["state-file", "read"]).fails(3);
    project.run(["state-file", "status", "w1", "idle"]).fails(3);
    project.run(["state-file", "cleanup"]).fails(3);
    let path = state_file(&project, &["path"]);
    assert_eq!(
        path["path"],
        project.bkit("agent-state.json").display().to_string()
    );
    assert!(
        !project.folder().join(".bkit").exists(),
        "looking makes nothing"
    );
}

#[test]
fn the_first_start_makes_file_and_row_and_the_second_adds() {
    let project = TestProject::new();
    assert!(!project.folder().join(".bkit").exists());
    let ran = project.hook("SubagentStart", &start("w1"));
    assert_eq!(
        ran.json(),
        json!({"systemMessage": "Subagent w1 spawned", "hookSpecificOutput":
            {"hookEventName": "SubagentStart", "agentName": "w1", "agentType": "developer", "teamName": ""}})
    );
    let state = project.state();
    assert_eq!(state["enabled"], true);
    assert_eq!(state["sessionId"], "s1");
    assert_eq!(row(&state, "w1")["status"], "spawning");
    project.hook("SubagentStart", &start("w2"));
    assert_eq!(names(&project.state()), ["w1", "w2"]);
    project.hook("SubagentStart", &start("w1"));
    assert_eq!(
        row(&project.state(), "w1")["status"],
        "working",
        "another turn of a known one"
    );
    assert!(project.leftovers().is_empty());
}

#[test]
fn idle_task_completed_and_stop_of_an_agent_have_their_effects() {
    let project = TestProject::new();
    for name in ["w1", "w2", "w3"] {
        project.hook("SubagentStart", &start(name));
    }
    let idle = project.hook(
        "TeammateIdle",
        &json!({"session_id": "s1", "teammate_name": "w1"}),
    );
    assert_eq!(idle.stdout, "{}\n");
    let done = json!({"session_id": "s1", "teammate_name": "w2", "task_id": "1"});
    assert_eq!(project.hook("TaskCompleted", &done).stdout, "{}\n");
    let ran = project.hook("SubagentStop", &start("w3"));
    assert_eq!(
        ran.json(),
        json!({"continue": true, "systemMessage": "Subagent w3 stopped (completed)", "hookSpecificOutput":
            {"hookEventName": "SubagentStop", "agentName": "w3", "status": "completed"}})
    );
    let state = project.state();
    assert_eq!(row(&state, "w1")["status"], "idle");
    assert_eq!(
        row(&state, "w2")["status"],
        "idle",
        "a finished task is not a finished agent"
    );
    assert_eq!(row(&state, "w3")["status"], "completed");
    let mut crashed = start("w1");
    crashed["exit_code"] = json!(1);
    crashed["transcript_path"] = json!("/x.jsonl");
    assert_eq!(
        project.hook("SubagentStop", &crashed).json()["hookSpecificOutput"]["status"],
        "failed"
    );
    assert_eq!(row(&project.state(), "w1")["status"], "failed");
}

#[test]
fn stop_ends_the_session_and_says_nothing() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let ran = project.hook("Stop", &json!({"session_id": "s1", "background_tasks": []}));
    assert_eq!(ran.stdout, "", "other hooks' output stays the only one");
    let state = project.state();
    assert_eq!(state["enabled"], false);
    assert_eq!(state["teammates"], json!([]));
    project.hook("SubagentStart", &start("w2"));
    assert_eq!(project.state()["enabled"], true, "the same session again");
    assert_eq!(names(&project.state()), ["w2"]);
}

#[test]
fn an_empty_payload_uses_the_fall_backs_and_a_broken_one_leaves_no_trace() {
    let project = TestProject::new();
    let ran = project
        .call(["hook", "SubagentStart"])
        .input("{\"agent_")
        .run();
    assert_eq!(ran.exits(0).stdout, "{\"continue\":true}\n");
    assert!(!project.folder().join(".bkit").exists());
    project.hook("SubagentStart", &json!({}));
    let state = project.state();
    let unknown = row(&state, "unknown");
    assert_eq!(unknown["role"], "agent");
    assert_eq!(unknown["model"], "sonnet");
    assert_eq!(unknown["currentTask"], Value::Null);
    assert_eq!(state["sessionId"], "");
    project.hook("SubagentStop", &json!({}));
    assert_eq!(row(&project.state(), "unknown")["status"], "completed");
}

#[test]
fn a_crash_leaves_a_state_that_is_stale_after_five_minutes() {
    let project = TestProject::new();
    project.hook("SubagentStart", &start("w1"));
    let bytes = std::fs::read(project.bkit("agent-state.json")).unwrap();
    let state = AgentState::parse(&bytes).unwrap();
    let at = |minutes: u64| now().after(Duration::from_secs(minutes * 60));
    assert_eq!(state.liveness(at(4)), Liveness::Live);
    assert_eq!(state.liveness(at(6)), Liveness::Stale);
}

#[test]
fn the_fall_backs_of_names_roles_and_models() {
    let project = TestProject::new();
    for (payload, name, role, model) in [
        (
            json!({"agent_name": "a", "teammate_name": "b", "agent_id": "x"}),
            "a",
            "agent",
            "sonnet",
        ),
        (
            json!({"teammate_name": "b", "tool_input": {"name": "c"}, "agent_id": "x"}),
            "b",
            "agent",
            "sonnet",
        ),
        (
            json!({"tool_input": {"name": "c", "subagent_type": "tester", "model": "claude-haiku-4"}, "agent_id": "x"}),
            "c",
            "tester",
            "haiku",
        ),
        (
            json!({"agent_id": "x", "agent_type": "main", "model": "sonnet"}),
            "x",
            "main",
            "opus",
        ),
        (
            json!({"agent_id": "y", "model": "gpt"}),
            "y",
            "agent",
            "sonnet",
        ),
        (
            json!({"agent_id": "z", "model": "OPUS"}),
            "z",
            "agent",
            "opus",
        ),
    ] {
        project.hook("SubagentStart", &payload);
        let state = project.state();
        let row = row(&state, name);
        assert_eq!(
            (&row["role"], &row["model"]),
            (&json!(role), &json!(model)),
            "{payload}"
        );
    }
    let long =
        json!({"agent_name": "p", "tool_input": {"prompt": "x".repeat(300), "team_name": "core"}});
    project.hook("SubagentStart", &long);
    let state = project.state();
    assert_eq!(
        row(&state, "p")["currentTask"]
            .as_str()
            .unwrap()
            .chars()
            .count(),
        100
    );
    assert_eq!(state["teamName"], "core");
}

#[test]
fn an_eleventh_active_one_is_told_in_the_journal_of_the_team_that_works_here() {
    let full = |project: &TestProject| {
        for number in 1..=10 {
            project.hook("SubagentStart", &start(&format!("w{number}")));
        }
    };
    let told = |project: &TestProject, team: &str| -> Vec<Value> {
        let journal = project.read(&format!("teams/{team}/events.jsonl"));
        let events = journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        events
            .filter(|event: &Value| event["type"] == "hook.received")
            .collect()
    };
    let project = TestProject::with_team();
    full(&project);
    assert!(told(&project, "fix-auth").is_empty(), "nothing to tell yet");
    project.hook("SubagentStart", &start("w11"));
    let events = told(&project, "fix-auth");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["data"]["event"], "SubagentStart");
    assert_eq!(events[0]["data"]["notShown"], "w11");
    // A change that comes too late for the lock is reported by the process that applies it.
    let lock = std::fs::File::open(project.bkit(".agent-state.lock")).unwrap();
    lock.lock().unwrap();
    project.hook("SubagentStart", &start("w12"));
    assert_eq!(told(&project, "fix-auth").len(), 1);
    lock.unlock().unwrap();
    project.hook("TeammateIdle", &start("w1"));
    let events = told(&project, "fix-auth");
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1]["data"]["notShown"], "w12");
    // Any other event is reported too, as long as the team is unambiguous.
    project.hook("UserPromptSubmit", &json!({"session_id": "s1"}));
    assert_eq!(told(&project, "fix-auth").len(), 3);
    project.run(["team", "create", "second"]).succeeds();
    project.hook("UserPromptSubmit", &json!({"session_id": "s1"}));
    assert_eq!(told(&project, "fix-auth").len(), 3);
    assert!(told(&project, "second").is_empty());
    assert_eq!(project.state()["teammates"].as_array().unwrap().len(), 10);
}
