//! Compares what teamster showed with what the client left.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::Report;
use super::super::session_files::progress;
use super::client::{ClaudeSession, Content};
use super::ours::{Ours, Shown};
use crate::product::{check, list, text};

/// The statuses that may follow each other.
const STEPS: [(&str, &[&str]); 5] = [
    ("spawning", &["working", "idle", "completed", "failed"]),
    ("working", &["idle", "completed", "failed"]),
    ("idle", &["working", "completed", "failed"]),
    ("completed", &["working", "idle"]),
    ("failed", &["working"]),
];
/// The time limit for a hook, in microseconds.
const LONGEST_US: u64 = 2_000_000;

/// Compares everything.
pub(super) fn all(client: &ClaudeSession, ours: &Ours, report: &mut Report) {
    for compare in [calls, roster, tasks, messages, end, records] {
        let (topic, seen) = compare(client, ours, &mut report.differences);
        let seen = seen.split('\n').filter(|line| !line.is_empty());
        seen.for_each(|line| report.saw(topic, line));
    }
}

/// The topic of a comparison, and the observations line by line.
type Compared = (&'static str, String);

/// Checks that every call of the client reached teamster, and that none logged a problem. The recorder is slower than
/// the hook, and a client that ends may interrupt it.
fn calls(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for payload in client.payloads.iter().filter(|payload| payload.is_for_us()) {
        *made.entry(&payload.event).or_default() += 1;
    }
    for (event, made) in &made {
        let reached = ours.calls.get(*event).copied().unwrap_or(0);
        let arrived = reached >= *made;
        check!(found, arrived => "{made} calls of {event}, and {reached} arrived");
    }
    let torn = ours.seen.torn.iter();
    found.extend(torn.map(|torn| format!("a viewer saw half a state: {torn}")));
    let complaints = ours.complaints.iter();
    found.extend(complaints.map(|line| format!("a hook logged: {line}")));
    let longest = ours.longest;
    check!(found, longest <= LONGEST_US => "a hook took {longest} us");
    let seen = format!(
        "{} calls, {} recorded, longest {:.1} ms; {} states",
        ours.calls.values().sum::<usize>(),
        made.values().sum::<usize>(),
        Duration::from_micros(longest).as_secs_f64() * 1e3,
        ours.seen.states.len()
    );
    ("hooks", seen)
}

/// Checks the teammates, their roles and models, and the order of their statuses.
fn roster(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let family = |model: &str| {
        let mut families = ["opus", "sonnet", "haiku"].into_iter();
        families.find(|family| model.contains(family))
    };
    let members = client.members.iter();
    let mut expected: BTreeMap<&str, (&str, Option<&str>)> = members
        .map(|(name, member)| (name.as_str(), (member.role.as_str(), family(&member.model))))
        .collect();
    // A plain subagent is in no registry, and its name is the description of the call that started it.
    for payload in client.of("SubagentStart") {
        if client.teammate(payload).is_none() {
            let id = payload.text("agent_id");
            let mut calls = client.of("PostToolUse");
            let call = calls.find(|call| call.fields["tool_response"]["agentId"] == id);
            let name = call.map_or(id, |call| text(&call.fields["tool_input"]["description"]));
            expected.insert(name, (payload.text("agent_type"), None));
        }
    }
    let wanted: Vec<&str> = expected.keys().copied().collect();
    let shown: Vec<&str> = ours.rows.keys().map(String::as_str).collect();
    check!(found, wanted == shown => "the client had {wanted:?}, and teamster showed {shown:?}");
    let mut seen = Vec::new();
    for (name, row) in &ours.rows {
        let (role, model) = expected.get(name.as_str()).copied().unwrap_or_default();
        let shown = format!("{name} ({}, {})", row.role, row.model);
        let is_same = row.role == role && model.is_none_or(|model| row.model == model);
        check!(found, is_same => "{shown} is {role} with {model:?}");
        statuses(client, name, row, found);
        seen.push(format!("{shown}: {}", row.statuses.join(" → ")));
    }
    ("roster", seen.join("\n"))
}

fn statuses(client: &ClaudeSession, name: &str, row: &Shown, found: &mut Vec<String>) {
    let told = |event: &str| {
        let mut calls = client.of(event);
        calls.any(|payload| client.teammate(payload) == Some(name))
    };
    let seen = |status: &str| row.statuses.iter().any(|seen| seen == status);
    let is_legal = |pair: &[String]| {
        let steps = STEPS.iter().find(|(from, _)| *from == pair[0]);
        steps.is_some_and(|(_, to)| to.contains(&pair[1].as_str()))
    };
    let statuses = &row.statuses;
    let is = |status: Option<&String>, wanted: &str| status.is_some_and(|status| status == wanted);
    let is_member = client.members.contains_key(name);
    let first = if is_member { "spawning" } else { "working" };
    let worked = !is_member || seen("working") == told("PostToolUse");
    for (holds, otherwise) in [
        (is(statuses.first(), first), "it did not begin so"),
        (worked, "it worked, or did not, and the contrary was shown"),
        (seen("idle") == told("TeammateIdle"), "it was idle, or not"),
        (!seen("failed"), "it did not fail"),
        (is(statuses.last(), "completed"), "it was not completed"),
        (statuses.windows(2).all(is_legal), "it took an illegal step"),
    ] {
        check!(found, holds => "{name}: {otherwise}: {statuses:?}");
    }
}

/// Checks that the progress is that of the client's folder, and that the owner of a task was shown with it.
fn tasks(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let expected = progress(&client.tasks);
    let (count, completed) = (client.tasks.len(), &expected["completedTasks"]);
    if let Some(last) = ours.last() {
        let (shown, is_same) = (&last["progress"], last["progress"] == expected);
        check!(found, is_same => "the client's tasks are {expected}, and shown was {shown}");
    }
    let mut taken = 0;
    for payload in client.of("PostToolUse") {
        let input = &payload.fields["tool_input"];
        let begins = payload.text("tool_name") == "TaskUpdate" && input["status"] == "in_progress";
        let (true, Some(name), Some(id)) =
            (begins, client.teammate(payload), input["taskId"].as_str())
        else {
            continue;
        };
        taken += 1;
        let subject = client.tasks.get(id).map(|task| task.subject.clone());
        let task = (id.to_owned(), subject.unwrap_or_default());
        let row = ours.rows.get(name);
        let is_shown = row.is_some_and(|row| row.tasks.contains(&task));
        check!(found, is_shown => "{name} took {task:?}, and was never shown with it");
        let in_progress = |state: &Value| state["progress"]["inProgressTasks"] == 1;
        let is_counted = ours.seen.states.iter().any(in_progress);
        check!(found, is_counted => "a task was in progress, and was never counted so");
    }
    (
        "tasks",
        format!("{count} in the folder, {completed} completed; {taken} taken"),
    )
}

/// Checks that every message in an inbox is shown once, and no other.
fn messages(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let none = Value::Null;
    let mut shown: Vec<&Value> =
        list(ours.last().map_or(&none, |last| &last["recentMessages"])).collect();
    let count = shown.len();
    for (from, to, content) in &client.messages {
        let is_it = |message: &&Value| {
            let is_same = is_shown_as(content, text(&message["content"]));
            message["from"] == **from && message["to"] == **to && is_same
        };
        match shown.iter().position(is_it) {
            Some(place) => drop(shown.remove(place)),
            None => found.push(format!(
                "a message from {from} to {to} was not shown: {content:?}"
            )),
        }
    }
    let extra = shown.iter();
    found.extend(extra.map(|message| format!("shown, and not the client's, or twice: {message}")));
    let lay = client.messages.len();
    ("messages", format!("{count} shown, {lay} in the inboxes"))
}

fn is_shown_as(content: &Content, shown: &str) -> bool {
    match content {
        Content::Text(text) => text == shown,
        Content::Kind(kind) => shown.starts_with(match kind.as_str() {
            "task_assignment" => "task assigned",
            "shutdown_request" => "asks to shut down",
            "shutdown_approved" => "shuts down",
            "shutdown_rejected" => "does not shut down",
            "permission_request" => "asks for permission",
            other => other,
        }),
    }
}

/// Checks that after the session no teammate is shown, nothing is left, and the state still names its session.
fn end(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let Some(last) = ours.last() else {
        let is_empty = client.of("SubagentStart").next().is_none() && client.members.is_empty();
        check!(found, is_empty => "there was never a state file");
        return ("end", "no agent, and so no state file".to_owned());
    };
    for (key, expected) in [
        ("enabled", json!(false)),
        ("teammates", json!([])),
        ("sessionId", json!(client.lead_session())),
        ("teamName", json!(client.team)),
    ] {
        let value = &last[key];
        check!(found, *value == expected =>
            "after the end {key} should be {expected} and is {value}");
    }
    // What hooks remember for each other is kept, and is not for viewers.
    let left = ours.left.iter().filter(|name| *name != "hook-memory.json");
    let left: Vec<&String> = left.collect();
    let is_clean = left == [".agent-state.lock", "agent-state.json"];
    check!(found, is_clean => "after the end there are {left:?}");
    ("end", format!("ended, {} files left", left.len()))
}

/// Checks that there is one record for each turn that ended in the lead's process, and for each pane that ended.
fn records(client: &ClaudeSession, ours: &Ours, found: &mut Vec<String>) -> Compared {
    let mut expected = Vec::new();
    for payload in &client.payloads {
        let session = payload.text("session_id");
        let ends = match payload.event.as_str() {
            "SubagentStop" => true,
            "SessionEnd" => session != client.lead_session(),
            _ => false,
        };
        if let (true, Some(name)) = (ends, client.teammate(payload)) {
            expected.push(json!({
                "team": client.team, "teammate": name, "exit_code": 0, "type": "normal", "session_id": session,
            }));
        }
    }
    let mut recorded = ours.records.clone();
    for fields in recorded.iter_mut().filter_map(Value::as_object_mut) {
        fields.shift_remove("ts");
    }
    let is_same = recorded == expected;
    check!(found, is_same => "the ends were {expected:?}, and recorded was {recorded:?}");
    ("records", format!("{} ends", recorded.len()))
}

#[cfg(test)]
mod tests {
    use super::super::super::session_files::{ClientTask, HookCall, Member};
    use super::super::ours::Seen;
    use super::*;

    /// The index of a state, the changed field, its new value, and the expected difference.
    const WRONG: &str = r#"
4 | /enabled | true | enabled should be false
4 | /progress/completedTasks | 0 | the client's tasks are
4 | /recentMessages | [] | from w1 to team-lead was not shown
4 | /recentMessages/1 | {"from": "w1", "to": "team-lead", "content": "done"} | or twice
0 | /teammates/0/status | "working" | did not begin so
1 | /teammates/0/taskId | null | was never shown with it
2 | /teammates/0/status | "working" | it was idle
2 | /teammates/0/name | "ghost" | teamster showed ["ghost", "w1"]
3 | /teammates/0/status | "spawning" | an illegal step
"#;

    fn payload(event: &str, mut fields: Value) -> HookCall {
        fields["session_id"] = json!("lead");
        HookCall {
            event: event.to_owned(),
            fields,
            ..HookCall::default()
        }
    }

    fn of_worker(event: &str, mut fields: Value) -> HookCall {
        fields["agent_id"] = json!("aw1-0123456789abcdef");
        fields["agent_type"] = json!("w1");
        payload(event, fields)
    }

    /// Returns a session in which a teammate takes a task, completes it, reports it, is idle and is shut down.
    fn client() -> ClaudeSession {
        let update = json!({"tool_name": "TaskUpdate", "tool_input": {"taskId": "1", "status": "in_progress"}});
        let member = Member {
            role: "builder".to_owned(),
            model: "claude-opus-5-5".to_owned(),
            ..Member::default()
        };
        let (worker, lead) = ("w1".to_owned(), "team-lead".to_owned());
        let (done, request) = (
            Content::Text("done".to_owned()),
            Content::Kind("shutdown_request".to_owned()),
        );
        let task = ClientTask {
            subject: "Parse".to_owned(),
            status: "completed".to_owned(),
            ..ClientTask::default()
        };
        ClaudeSession {
            payloads: vec![
                payload("SessionStart", json!({})),
                of_worker("SubagentStart", json!({})),
                of_worker("PostToolUse", update),
                of_worker("TeammateIdle", json!({"teammate_name": "w1"})),
                of_worker("SubagentStop", json!({})),
                payload("SessionEnd", json!({})),
            ],
            team: "t".to_owned(),
            members: [(worker.clone(), member)].into(),
            messages: [
                (worker.clone(), lead.clone(), done),
                (lead, worker, request),
            ]
            .into(),
            tasks: [("1".to_owned(), task)].into(),
        }
    }

    fn state(status: &str, task: Option<&str>) -> Value {
        json!({"enabled": true, "teamName": "t", "sessionId": "lead", "recentMessages": [],
            "teammates": [{"name": "w1", "role": "builder", "model": "opus", "status": status,
                "taskId": task, "currentTask": task.map(|_| "Parse")}],
            "progress": {"totalTasks": 1, "completedTasks": 0, "inProgressTasks": i32::from(task.is_some()),
                "failedTasks": 0, "pendingTasks": i32::from(task.is_none())}})
    }

    fn states() -> Vec<Value> {
        let ended = json!({"enabled": false, "teamName": "t", "sessionId": "lead", "teammates": [],
            "recentMessages": [{"from": "w1", "to": "team-lead", "content": "done"},
                {"from": "team-lead", "to": "w1", "content": "asks to shut down: all done"}],
            "progress": {"totalTasks": 1, "completedTasks": 1, "inProgressTasks": 0, "failedTasks": 0,
                "pendingTasks": 0}});
        vec![
            state("spawning", None),
            state("working", Some("1")),
            state("idle", None),
            state("completed", None),
            ended,
        ]
    }

    /// Returns the differences when the end is recorded this many times.
    fn differences(states: Vec<Value>, ends: usize) -> Vec<String> {
        let client = client();
        let record = json!({"ts": 1, "team": "t", "teammate": "w1", "exit_code": 0, "type": "normal", "session_id": "lead"});
        let mut ours = Ours::of(Seen {
            states,
            ..Seen::default()
        });
        ours.left = [".agent-state.lock", "agent-state.json"]
            .map(str::to_owned)
            .to_vec();
        ours.records = vec![record; ends];
        for payload in client.payloads.iter().filter(|payload| payload.is_for_us()) {
            *ours.calls.entry(payload.event.clone()).or_default() += 1;
        }
        let mut report = Report::default();
        all(&client, &ours, &mut report);
        report.differences
    }

    #[test]
    fn sides_that_agree_have_no_differences() {
        assert_eq!(differences(states(), 1), Vec::<String>::new());
    }

    #[test]
    fn state_that_is_shown_wrong_is_found() {
        for case in WRONG.trim().lines() {
            let [place, pointer, value, expected] = case.split(" | ").collect::<Vec<_>>()[..]
            else {
                panic!("{case}");
            };
            let mut states = states();
            let state = &mut states[place.parse::<usize>().unwrap()];
            *state.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
            let found = differences(states, 1).join("\n");
            assert!(found.contains(expected), "{case}: {found}");
        }
    }

    #[test]
    fn end_that_is_recorded_never_or_twice_is_found() {
        for ends in [0, 2] {
            let found = differences(states(), ends).join("\n");
            assert!(found.contains("the ends were"), "{found}");
        }
    }
}
