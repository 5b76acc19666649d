//! What we showed against what the client left.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::Report;
use super::client::{Client, Said};
use super::ours::{Ours, Shown};

/// The steps that a row may take.
const STEPS: [(&str, &[&str]); 5] = [
    ("spawning", &["working", "idle", "completed", "failed"]),
    ("working", &["idle", "completed", "failed"]),
    ("idle", &["working", "completed", "failed"]),
    ("completed", &["working", "idle"]),
    ("failed", &["working"]),
];
/// No hook takes longer.
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

/// Every call that the client made reached us, and none said that something went wrong. The recorder is slower than our
/// hook, and a client that ends may end it in the middle.
fn calls(client: &Client, ours: &Ours, report: &mut Report) {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for payload in client.payloads.iter().filter(|payload| payload.is_for_us()) {
        *made.entry(payload.event.clone()).or_default() += 1;
    }
    for (event, made) in &made {
        let reached = ours.calls.get(event).copied().unwrap_or(0);
        if reached < *made {
            report.differences.push(format!(
                "the client called {event} {made} times, and {reached} calls reached us"
            ));
        }
    }
    for torn in &ours.seen.torn {
        report
            .differences
            .push(format!("a viewer saw half a state: {torn}"));
    }
    for complaint in &ours.complaints {
        report
            .differences
            .push(format!("a hook of ours says: {complaint}"));
    }
    if ours.longest > LONGEST_US {
        report
            .differences
            .push(format!("a hook of ours took {} us", ours.longest));
    }
    report.seen.push((
        "hooks",
        format!(
            "{} calls of ours, {} recorded, longest {:.1} ms; {} states",
            ours.calls.values().sum::<usize>(),
            made.values().sum::<usize>(),
            std::time::Duration::from_micros(ours.longest).as_secs_f64() * 1e3,
            ours.seen.states.len()
        ),
    ));
}

/// Who was there, what for, and how they went on.
fn roster(client: &Client, ours: &Ours, report: &mut Report) {
    let mut expected: BTreeMap<String, (String, Option<&str>)> = client
        .members
        .iter()
        .map(|(name, member)| (name.clone(), (member.role.clone(), family(&member.model))))
        .collect();
    // A plain subagent is in no registry and has no other name than its id.
    for payload in client.of("SubagentStart") {
        if client.teammate(payload).is_none() {
            let role = payload.text("agent_type").to_owned();
            expected.insert(payload.text("agent_id").to_owned(), (role, None));
        }
    }
    let names = |rows: BTreeSet<&String>| -> Vec<String> { rows.into_iter().cloned().collect() };
    let (wanted, shown) = (
        names(expected.keys().collect()),
        names(ours.rows.keys().collect()),
    );
    if wanted != shown {
        report.differences.push(format!(
            "the client had {wanted:?}, and we showed {shown:?}"
        ));
    }
    for (name, row) in &ours.rows {
        let (role, model) = expected.get(name).cloned().unwrap_or_default();
        if row.role != role || model.is_some_and(|model| row.model != model) {
            report.differences.push(format!(
                "{name} is {role} with {model:?}, and we showed {} with {}",
                row.role, row.model
            ));
        }
        statuses(client, name, row, report);
        report.seen.push((
            "roster",
            format!(
                "{name} ({}, {}): {}",
                row.role,
                row.model,
                row.statuses.join(" → ")
            ),
        ));
    }
}

fn family(model: &str) -> Option<&'static str> {
    ["opus", "sonnet", "haiku"]
        .into_iter()
        .find(|family| model.contains(family))
}

fn statuses(client: &Client, name: &str, row: &Shown, report: &mut Report) {
    let told = |event: &str| {
        client
            .of(event)
            .any(|payload| client.teammate(payload).as_deref() == Some(name))
    };
    let seen = |status: &str| row.statuses.iter().any(|seen| seen == status);
    let mut wrong = Vec::new();
    if row.statuses.first().map(String::as_str) != Some("spawning") {
        wrong.push("it did not begin as spawning");
    }
    if seen("working") != told("PostToolUse") && client.members.contains_key(name) {
        wrong.push("it worked, or did not, and we showed the contrary");
    }
    if seen("idle") != told("TeammateIdle") {
        wrong.push("it was idle, or was not, and we showed the contrary");
    }
    if seen("failed") {
        wrong.push("it did not fail");
    }
    if row.statuses.last().map(String::as_str) != Some("completed") {
        wrong.push("it ended, and was not shown as completed");
    }
    let is_legal = |pair: &[String]| {
        let steps = STEPS.iter().find(|(from, _)| *from == pair[0]);
        steps.is_some_and(|(_, to)| to.contains(&pair[1].as_str()))
    };
    if !row.statuses.windows(2).all(is_legal) {
        wrong.push("it took a step that there is not");
    }
    for wrong in wrong {
        report
            .differences
            .push(format!("{name}: {wrong}: {:?}", row.statuses));
    }
}

/// The progress is that of the client's folder, and whoever took a task was shown with it.
fn tasks(client: &Client, ours: &Ours, report: &mut Report) {
    let with = |status: &str| {
        client
            .tasks
            .values()
            .filter(|task| task["status"] == status)
            .count()
    };
    let expected = json!({
        "totalTasks": client.tasks.len(),
        "completedTasks": with("completed"),
        "inProgressTasks": with("in_progress"),
        "failedTasks": 0,
        "pendingTasks": with("pending"),
    });
    if let Some(last) = ours.last()
        && last["progress"] != expected
    {
        report.differences.push(format!(
            "the client's tasks are {expected}, and we showed {}",
            last["progress"]
        ));
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
        let subject = client.tasks.get(id).map(|task| task["subject"].clone());
        let subject = subject.unwrap_or_default();
        let shown = ours.rows.get(&name).is_some_and(|row| {
            let mut tasks = row.tasks.iter();
            tasks.any(|(task, words)| task == id && subject == *words)
        });
        if !shown {
            report.differences.push(format!(
                "{name} took task {id} ({subject}), and was never shown with it"
            ));
        }
        let in_progress = |state: &Value| state["progress"]["inProgressTasks"] == 1;
        if !ours.seen.states.iter().any(in_progress) {
            report
                .differences
                .push("a task was in progress, and was never counted so".to_owned());
        }
    }
    report.seen.push((
        "tasks",
        format!(
            "{} in the folder, {} completed; {taken} taken",
            client.tasks.len(),
            with("completed")
        ),
    ));
}

/// Every message that lay in an inbox is shown once, and no other.
fn messages(client: &Client, ours: &Ours, report: &mut Report) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<(String, String, String)> = ours
        .last()
        .and_then(|last| last["recentMessages"].as_array())
        .into_iter()
        .flatten()
        .map(|letter| {
            (
                text(&letter["from"]),
                text(&letter["to"]),
                text(&letter["content"]),
            )
        })
        .collect();
    let count = shown.len();
    for (from, to, said) in &client.letters {
        let is_it = |letter: &(String, String, String)| {
            letter.0 == *from && letter.1 == *to && is_said(said, &letter.2)
        };
        match shown.iter().position(is_it) {
            Some(place) => drop(shown.remove(place)),
            None => report.differences.push(format!(
                "a message from {from} to {to} was not shown: {said:?}"
            )),
        }
    }
    for (from, to, content) in shown {
        report.differences.push(format!(
            "a message from {from} to {to} was shown that the client has not, or twice: {content:?}"
        ));
    }
    report.seen.push((
        "messages",
        format!("{count} shown, {} in the inboxes", client.letters.len()),
    ));
}

fn is_said(said: &Said, shown: &str) -> bool {
    match said {
        Said::Text(text) => text == shown,
        Said::Kind(kind) => shown.starts_with(match kind.as_str() {
            "task_assignment" => "task assigned",
            "shutdown_request" => "asks to shut down",
            "shutdown_approved" => "shuts down",
            "shutdown_rejected" => "does not shut down",
            "permission_request" => "asks for permission",
            other => other,
        }),
    }
}

/// After the session nobody is shown, nothing is left, and the state still says whose it was.
fn end(client: &Client, ours: &Ours, report: &mut Report) {
    let Some(last) = ours.last() else {
        let had_somebody =
            client.of("SubagentStart").next().is_some() || !client.members.is_empty();
        if had_somebody {
            report
                .differences
                .push("there was never a state file".to_owned());
        }
        report
            .seen
            .push(("end", "no agent, and so no state file".to_owned()));
        return;
    };
    let expected = [
        ("enabled", json!(false)),
        ("teammates", json!([])),
        ("sessionId", json!(client.lead_session())),
        ("teamName", json!(client.team)),
    ];
    for (key, value) in expected {
        if last[key] != value {
            report.differences.push(format!(
                "after the end {key} should be {value} and is {}",
                last[key]
            ));
        }
    }
    let usual = [".agent-state.lock", "agent-state.json"];
    if ours.left != usual {
        report
            .differences
            .push(format!("after the end there are {:?}", ours.left));
    }
    report
        .seen
        .push(("end", format!("ended, {} files left", ours.left.len())));
}

/// One record for each turn that ended in the lead's process, and for each pane that ended.
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
                "team": client.team,
                "teammate": name,
                "exit_code": 0,
                "type": "normal",
                "session_id": session,
            }));
        }
    }
    let recorded: Vec<Value> = ours
        .records
        .iter()
        .map(|record| {
            let mut record = record.clone();
            if let Some(fields) = record.as_object_mut() {
                fields.shift_remove("ts");
            }
            record
        })
        .collect();
    if recorded != expected {
        report.differences.push(format!(
            "the ends were {expected:?}, and we recorded {recorded:?}"
        ));
    }
    report
        .seen
        .push(("records", format!("{} ends", recorded.len())));
}
