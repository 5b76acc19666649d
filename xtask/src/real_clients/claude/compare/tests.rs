//! A small session, told by both sides; whatever one side gets wrong is found.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::client::{Client, Member, Payload, Said};
use super::super::ours::{Ours, Seen};
use super::{Report, all};

fn payload(event: &str, fields: Value) -> Payload {
    let mut fields = fields;
    fields["session_id"] = json!("lead");
    Payload {
        event: event.to_owned(),
        fields,
    }
}

fn of_worker(event: &str, mut fields: Value) -> Payload {
    fields["agent_id"] = json!("aw1-0123456789abcdef");
    fields["agent_type"] = json!("w1");
    payload(event, fields)
}

/// One teammate takes a task, completes it, says so, is idle and is shut down.
fn client() -> Client {
    let update =
        json!({"tool_name": "TaskUpdate", "tool_input": {"taskId": "1", "status": "in_progress"}});
    let letters = [
        ("w1", "team-lead", Said::Text("done".to_owned())),
        ("team-lead", "w1", Said::Kind("shutdown_request".to_owned())),
    ];
    Client {
        payloads: vec![
            payload("SessionStart", json!({})),
            of_worker("SubagentStart", json!({})),
            of_worker("PostToolUse", update),
            of_worker("TeammateIdle", json!({"teammate_name": "w1"})),
            of_worker("SubagentStop", json!({})),
            payload("SessionEnd", json!({})),
        ],
        team: "t".to_owned(),
        members: BTreeMap::from([(
            "w1".to_owned(),
            Member {
                role: "builder".to_owned(),
                model: "claude-opus-5-5".to_owned(),
                is_pane: false,
            },
        )]),
        letters: letters
            .map(|(from, to, said)| (from.to_owned(), to.to_owned(), said))
            .into_iter()
            .collect::<BTreeSet<_>>(),
        tasks: BTreeMap::from([(
            "1".to_owned(),
            json!({"subject": "Parse", "status": "completed"}),
        )]),
    }
}

fn state(status: &str, task: Option<&str>) -> Value {
    json!({"enabled": true, "teamName": "t", "sessionId": "lead", "recentMessages": [],
        "teammates": [{"name": "w1", "role": "builder", "model": "opus", "status": status,
            "taskId": task, "currentTask": task.map(|_| "Parse")}],
        "progress": {"totalTasks": 1, "completedTasks": 0, "inProgressTasks": i32::from(task.is_some()),
            "failedTasks": 0, "pendingTasks": i32::from(task.is_none())}})
}

fn ended() -> Value {
    json!({"enabled": false, "teamName": "t", "sessionId": "lead", "teammates": [],
        "recentMessages": [{"from": "w1", "to": "team-lead", "content": "done"},
            {"from": "team-lead", "to": "w1", "content": "asks to shut down: all done"}],
        "progress": {"totalTasks": 1, "completedTasks": 1, "inProgressTasks": 0, "failedTasks": 0,
            "pendingTasks": 0}})
}

fn record() -> Value {
    json!({"ts": 1, "team": "t", "teammate": "w1", "exit_code": 0, "type": "normal", "session_id": "lead"})
}

fn states() -> Vec<Value> {
    vec![
        state("spawning", None),
        state("working", Some("1")),
        state("idle", None),
        state("completed", None),
        ended(),
    ]
}

/// What is said about these states and records.
fn differences(states: Vec<Value>, records: Vec<Value>) -> Vec<String> {
    let client = client();
    let mut calls = BTreeMap::new();
    for payload in client.payloads.iter().filter(|payload| payload.is_for_us()) {
        *calls.entry(payload.event.clone()).or_default() += 1;
    }
    let ours = Ours {
        rows: super::super::ours::rows(&states),
        seen: Seen {
            states,
            torn: Vec::new(),
        },
        left: vec![
            ".agent-state.lock".to_owned(),
            "agent-state.json".to_owned(),
        ],
        records,
        calls,
        longest: 900,
        complaints: Vec::new(),
    };
    let mut report = Report::default();
    all(&client, &ours, &mut report);
    report.differences
}

/// The same with one state changed.
fn with(place: usize, change: impl FnOnce(&mut Value)) -> String {
    let mut states = states();
    change(&mut states[place]);
    differences(states, vec![record()]).join("\n")
}

#[test]
fn two_sides_that_agree_have_no_differences() {
    assert_eq!(differences(states(), vec![record()]), Vec::<String>::new());
}

#[test]
fn whatever_we_show_wrong_is_found() {
    let found = with(4, |last| last["enabled"] = json!(true));
    assert!(found.contains("enabled should be false"), "{found}");
    let found = with(4, |last| last["progress"]["completedTasks"] = json!(0));
    assert!(found.contains("the client's tasks are"), "{found}");
    let found = with(4, |last| last["recentMessages"] = json!([]));
    assert!(
        found.contains("from w1 to team-lead was not shown"),
        "{found}"
    );
    let found = with(4, |last| {
        let again = last["recentMessages"][0].clone();
        last["recentMessages"].as_array_mut().unwrap().push(again);
    });
    assert!(found.contains("or twice"), "{found}");
    let found = with(0, |first| {
        first["teammates"][0]["status"] = json!("working");
    });
    assert!(found.contains("did not begin as spawning"), "{found}");
    let found = with(1, |second| second["teammates"][0]["taskId"] = Value::Null);
    assert!(found.contains("was never shown with it"), "{found}");
    let found = with(2, |third| {
        third["teammates"][0]["status"] = json!("working");
    });
    assert!(found.contains("it was idle"), "{found}");
    let found = with(2, |third| third["teammates"][0]["name"] = json!("ghost"));
    assert!(found.contains("we showed [\"ghost\", \"w1\"]"), "{found}");
    let found = with(3, |fourth| {
        fourth["teammates"][0]["status"] = json!("spawning");
    });
    assert!(found.contains("a step that there is not"), "{found}");
}

#[test]
fn an_end_that_is_not_recorded_or_twice_is_found() {
    for records in [vec![], vec![record(), record()]] {
        let found = differences(states(), records).join("\n");
        assert!(found.contains("the ends were"), "{found}");
    }
}
