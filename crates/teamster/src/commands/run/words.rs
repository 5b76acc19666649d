//! What an event of a run says to a person, in one line.

use std::collections::HashMap;

use serde_json::Value;
use teamster_types::TaskId;
use teamster_journal::Event;

use crate::shown::viewed_line;

/// Knows what tasks are called.
#[derive(Debug, Default)]
pub struct Words {
    subjects: HashMap<TaskId, String>,
}

impl Words {
    /// The line, unless the event is of no interest here.
    pub fn of(&mut self, event: &Event) -> Option<String> {
        if let (Some(id), Some(subject)) = (&event.task_id, text(event, "subject")) {
            self.subjects.insert(id.clone(), subject.to_owned());
        }
        let line = self.line(event)?;
        Some(viewed_line(&line))
    }

    fn line(&self, event: &Event) -> Option<String> {
        let get = |key: &str| text(event, key).unwrap_or("");
        let task = || self.task(event);
        Some(match event.kind.as_str() {
            "run.started" => format!("the run of team {} begins", event.team),
            "run.resumed" => format!("the run of team {} goes on", event.team),
            "run.stage" => match get("reason") {
                "" => format!("stage: {}", get("to")),
                why => format!("stage: {} ({why})", get("to")),
            },
            "run.plan" => format!(
                "plan: {} from {}",
                count(event.data.get("tasks"), "task"),
                match get("source") {
                    "sentence" => "the sentence",
                    "file" => "the plan file",
                    other => other,
                }
            ),
            "task.claimed" => format!("{} begins task {}", event.actor, task()),
            "task.completed" => format!("{} has done task {}", event.actor, task()),
            "task.failed" => format!("task {} failed: {}", task(), get("error")),
            "task.requeued" => format!("task {} goes back to the others", task()),
            // What an agent says to whoever leads it is for the person at this desk.
            "message.sent"
                if get("messageType") == "message" && ["lead", "user"].contains(&get("to")) =>
            {
                format!("{} says: {}", event.actor, get("content"))
            }
            "merge.merged" => format!("task {} is merged", task()),
            "merge.lost" => format!(
                "task {} was called merged and is not; it is merged again",
                task()
            ),
            "task.unchanged" => format!("task {} is completed without a change", task()),
            "merge.conflict" => format!(
                "task {} conflicts with what is merged, in {}{}",
                task(),
                list(event.data.get("files")),
                if event.data.get("final") == Some(&Value::Bool(true)) {
                    ", for the last time"
                } else {
                    ""
                }
            ),
            "verify.started" => format!("checks {}: {}", place(get("on")), get("command")),
            "verify.passed" => format!("passed {}: {}", place(get("on")), get("command")),
            "verify.failed" => format!("FAILED {}: {}", place(get("on")), get("command")),
            "verify.flaky" => format!("flaky {}: {}", place(get("on")), get("command")),
            "approval.requested" => format!("the gate is open for {}", short(get("commit"))),
            "approval.given" => format!("approved: {}", short(get("commit"))),
            "approval.refused" => format!("rejected: {}", get("text")),
            "approval.revised" => format!("to be revised: {}", get("text")),
            "budget.exhausted" => format!("the budget of {} is used up", get("what")),
            "worker.quarantined" => {
                format!("{} takes no more tasks: {}", event.actor, get("reason"))
            }
            "worker.paused" => format!("{} waits: {}", event.actor, get("reason")),
            "worker.dead" => format!(
                "{} is dead: {}",
                get("worker"),
                list(event.data.get("evidence"))
            ),
            "worker.hung" => format!(
                "{} hangs: {}",
                get("worker"),
                list(event.data.get("evidence"))
            ),
            "worker.restarted" => format!("{} was started anew", get("worker")),
            "run.finished" => format!(
                "ended: {} ({})",
                get("outcome").replace('_', " "),
                get("reason")
            ),
            _ => return None,
        })
    }

    fn task(&self, event: &Event) -> String {
        let Some(id) = &event.task_id else {
            return "?".to_owned();
        };
        match self.subjects.get(id) {
            Some(subject) => format!("{id} ({subject})"),
            None => id.to_string(),
        }
    }
}

fn text<'a>(event: &'a Event, key: &str) -> Option<&'a str> {
    event.data.get(key).and_then(Value::as_str)
}

fn place(on: &str) -> &'static str {
    match on {
        "base" => "before work begins",
        _ => "on the merged work",
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn list(value: Option<&Value>) -> String {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = list.filter_map(Value::as_str).take(5).collect();
    words.join(", ")
}

fn count(value: Option<&Value>, what: &str) -> String {
    let number = value.and_then(Value::as_array).map_or(0, Vec::len);
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
