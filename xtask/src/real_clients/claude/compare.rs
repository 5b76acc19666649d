//! What teamster showed against what the client left.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::Report;
use super::client::{Client, Content};
use super::ours::{Ours, Shown};

/// The statuses that may follow each other.
const STEPS: [(&str, &[&str]); 5] = [
    ("spawning", &["working", "idle", "completed", "failed"]),
    ("working", &["idle", "completed", "failed"]),
    ("idle", &["working", "completed", "failed"]),
    ("completed", &["working", "idle"]),
    ("failed", &["working"]),
];
/// The longest that a hook may take, in microseconds.
const LONGEST_US: u64 = 2_000_000;

/// Compares everything.
pub(super) fn all(client: &Client, ours: &Ours, report: &mut Report) {
    calls(client, ours, report);
    roster(client, ours, report);
    tasks(client, ours, report);
    messages(client, ours, report);
    end(client, ours, report);
    records(client, ours, report);
}

/// Checks that every call that the client made reached teamster, and that none logged a problem. The recorder is slower
/// than the hook, and a client that ends may end it in the middle.
fn calls(client: &Client, ours: &Ours, report: &mut Report) {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for payload in client.payloads.iter().filter(|payload| payload.is_for_us()) {
        *made.entry(&payload.event).or_default() += 1;
    }
    for (event, made) in &made {
        let reached = ours.calls.get(*event).copied().unwrap_or(0);
        report.check(reached >= *made, || {
            format!("the client called {event} {made} times, and {reached} calls arrived")
        });
    }
    let torn = ours.seen.torn.iter();
    let complaints = ours.complaints.iter();
    report.differences.extend(
        torn.map(|torn| format!("a viewer saw half a state: {torn}"))
            .chain(complaints.map(|line| format!("a hook logged: {line}"))),
    );
    report.check(ours.longest <= LONGEST_US, || {
        format!("a hook took {} us", ours.longest)
    });
    report.saw(
        "hooks",
        format!(
            "{} calls, {} recorded, longest {:.1} ms; {} states",
            ours.calls.values().sum::<usize>(),
            made.values().sum::<usize>(),
            Duration::from_micros(ours.longest).as_secs_f64() * 1e3,
            ours.seen.states.len()
        ),
    );
}

/// Checks who was there, with which role and model, and how they went on.
fn roster(client: &Client, ours: &Ours, report: &mut Report) {
    let family = |model: &str| {
        let mut families = ["opus", "sonnet", "haiku"].into_iter();
        families.find(|family| model.contains(family))
    };
    let members = client.members.iter();
    let mut expected: BTreeMap<&str, (&str, Option<&str>)> = members
        .map(|(name, member)| (name.as_str(), (member.role.as_str(), family(&member.model))))
        .collect();
    // A plain subagent is in no registry and has no other name than its id.
    for payload in client.of("SubagentStart") {
        if client.teammate(payload).is_none() {
            expected.insert(payload.text("agent_id"), (payload.text("agent_type"), None));
        }
    }
    let wanted: Vec<&str> = expected.keys().copied().collect();
    let shown: Vec<&str> = ours.rows.keys().map(String::as_str).collect();
    report.check(wanted == shown, || {
        format!("the client had {wanted:?}, and teamster showed {shown:?}")
    });
    for (name, row) in &ours.rows {
        let (role, model) = expected.get(name.as_str()).copied().unwrap_or_default();
        let (shown_role, shown_model) = (&row.role, &row.model);
        let is_same = shown_role == role && model.is_none_or(|model| shown_model == model);
        report.check(is_same, || {
            format!(
                "{name} is {role} with {model:?}, and was shown as {shown_role} with {shown_model}"
            )
        });
        statuses(client, name, row, report);
        let steps = row.statuses.join(" → ");
        report.saw(
            "roster",
            format!("{name} ({shown_role}, {shown_model}): {steps}"),
        );
    }
}

fn statuses(client: &Client, name: &str, row: &Shown, report: &mut Report) {
    let told = |event: &str| {
        let mut calls = client.of(event);
        calls.any(|payload| client.teammate(payload).as_deref() == Some(name))
    };
    let seen = |status: &str| row.statuses.iter().any(|seen| seen == status);
    let is_legal = |pair: &[String]| {
        let steps = STEPS.iter().find(|(from, _)| *from == pair[0]);
        steps.is_some_and(|(_, to)| to.contains(&pair[1].as_str()))
    };
    let begins = row.statuses.first().map(String::as_str);
    let ends = row.statuses.last().map(String::as_str);
    let worked = !client.members.contains_key(name) || seen("working") == told("PostToolUse");
    for (holds, otherwise) in [
        (begins == Some("spawning"), "it did not begin as spawning"),
        (worked, "it worked, or did not, and the contrary was shown"),
        (
            seen("idle") == told("TeammateIdle"),
            "it was idle, or was not, and the contrary was shown",
        ),
        (!seen("failed"), "it did not fail"),
        (ends == Some("completed"), "it ended, and was not completed"),
        (
            row.statuses.windows(2).all(is_legal),
            "it took an illegal step",
        ),
    ] {
        report.check(holds, || format!("{name}: {otherwise}: {:?}", row.statuses));
    }
}

/// Checks that the progress is that of the client's folder, and that whoever took a task was shown with it.
fn tasks(client: &Client, ours: &Ours, report: &mut Report) {
    let all = client.tasks.values();
    let with = |status: &str| all.clone().filter(|task| task["status"] == status).count();
    let expected = json!({
        "totalTasks": client.tasks.len(),
        "completedTasks": with("completed"),
        "inProgressTasks": with("in_progress"),
        "failedTasks": 0,
        "pendingTasks": with("pending"),
    });
    if let Some(last) = ours.last() {
        let shown = &last["progress"];
        report.check(*shown == expected, || {
            format!("the client's tasks are {expected}, and shown was {shown}")
        });
    }
    let mut taken = 0;
    for payload in client.of("PostToolUse") {
        let input = &payload.fields["tool_input"];
        let begins = payload.text("tool_name") == "TaskUpdate" && input["status"] == "in_progress";
        let (Some(name), Some(id)) = (client.teammate(payload), input["taskId"].as_str()) else {
            continue;
        };
        if !begins {
            continue;
        }
        taken += 1;
        let subject = client.tasks.get(id).map(|task| &task["subject"]);
        let subject = subject.and_then(Value::as_str).unwrap_or_default();
        let task = (id.to_owned(), subject.to_owned());
        let row = ours.rows.get(&name);
        report.check(row.is_some_and(|row| row.tasks.contains(&task)), || {
            format!("{name} took task {id} ({subject}), and was never shown with it")
        });
        let in_progress = |state: &Value| state["progress"]["inProgressTasks"] == 1;
        report.check(ours.seen.states.iter().any(in_progress), || {
            "a task was in progress, and was never counted so".to_owned()
        });
    }
    let (count, completed) = (client.tasks.len(), with("completed"));
    report.saw(
        "tasks",
        format!("{count} in the folder, {completed} completed; {taken} taken"),
    );
}

/// Checks that every message that lay in an inbox is shown once, and no other.
fn messages(client: &Client, ours: &Ours, report: &mut Report) {
    let last = ours
        .last()
        .and_then(|last| last["recentMessages"].as_array());
    let mut shown: Vec<&Value> = last.into_iter().flatten().collect();
    let count = shown.len();
    for (from, to, content) in &client.messages {
        let is_it = |message: &&Value| {
            let text = message["content"].as_str().unwrap_or_default();
            message["from"] == **from && message["to"] == **to && is_shown_as(content, text)
        };
        match shown.iter().position(is_it) {
            Some(place) => drop(shown.remove(place)),
            None => report.differences.push(format!(
                "a message from {from} to {to} was not shown: {content:?}"
            )),
        }
    }
    let extra = shown.iter();
    report.differences.extend(
        extra.map(|message| {
            format!("shown is a message that the client has not, or twice: {message}")
        }),
    );
    let lay = client.messages.len();
    report.saw("messages", format!("{count} shown, {lay} in the inboxes"));
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

/// Checks that after the session nobody is shown, nothing is left, and the state still says whose it was.
fn end(client: &Client, ours: &Ours, report: &mut Report) {
    let Some(last) = ours.last() else {
        let had_agent = client.of("SubagentStart").next().is_some() || !client.members.is_empty();
        report.check(!had_agent, || "there was never a state file".to_owned());
        report.saw("end", "no agent, and so no state file");
        return;
    };
    for (key, expected) in [
        ("enabled", json!(false)),
        ("teammates", json!([])),
        ("sessionId", json!(client.lead_session())),
        ("teamName", json!(client.team)),
    ] {
        let value = &last[key];
        report.check(*value == expected, || {
            format!("after the end {key} should be {expected} and is {value}")
        });
    }
    let left = &ours.left;
    report.check(*left == [".agent-state.lock", "agent-state.json"], || {
        format!("after the end there are {left:?}")
    });
    report.saw("end", format!("ended, {} files left", left.len()));
}

/// Checks that there is one record for each turn that ended in the lead's process, and for each pane that ended.
fn records(client: &Client, ours: &Ours, report: &mut Report) {
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
    report.check(recorded == expected, || {
        format!("the ends were {expected:?}, and recorded was {recorded:?}")
    });
    report.saw("records", format!("{} ends", recorded.len()));
}

#[cfg(test)]
mod tests {
    use super::super::client::{Client, Content, Member, Payload};
    use super::super::ours::{Ours, Seen};
    use std::collections::BTreeSet;

    use super::*;

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

    /// Returns a session in which a teammate takes a task, completes it, says so, is idle and is shut down.
    fn client() -> Client {
        let update = json!({"tool_name": "TaskUpdate", "tool_input": {"taskId": "1", "status": "in_progress"}});
        let messages = [
            ("w1", "team-lead", Content::Text("done".to_owned())),
            (
                "team-lead",
                "w1",
                Content::Kind("shutdown_request".to_owned()),
            ),
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
            messages: messages
                .map(|(from, to, content)| (from.to_owned(), to.to_owned(), content))
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

    /// Returns the differences for these states and records.
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

    /// Returns the differences when one state is changed.
    fn with(place: usize, change: impl FnOnce(&mut Value)) -> String {
        let mut states = states();
        change(&mut states[place]);
        differences(states, vec![record()]).join("\n")
    }

    #[test]
    fn sides_that_agree_have_no_differences() {
        assert_eq!(differences(states(), vec![record()]), Vec::<String>::new());
    }

    #[test]
    fn state_that_is_shown_wrong_is_found() {
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
        assert!(
            found.contains("teamster showed [\"ghost\", \"w1\"]"),
            "{found}"
        );
        let found = with(3, |fourth| {
            fourth["teammates"][0]["status"] = json!("spawning");
        });
        assert!(found.contains("an illegal step"), "{found}");
    }

    #[test]
    fn end_that_is_recorded_never_or_twice_is_found() {
        for records in [vec![], vec![record(), record()]] {
            let found = differences(states(), records).join("\n");
            assert!(found.contains("the ends were"), "{found}");
        }
    }
}
