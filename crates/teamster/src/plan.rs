//! A plan: tasks that name each other by labels, in TOML or JSON.
//!
//! ```toml
//! [[tasks]]
//! id = "form"
//! subject = "Fix the login form"
//!
//! [[tasks]]
//! id = "test"
//! subject = "Test the login form"
//! blockedBy = ["form"]
//! ```
//!
//! A key that nobody knows is refused: a misspelt `blockedBy` would quietly let a task run too early.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use teamster_store::PlannedTask;
use teamster_types::graph::plan_cycle;
use teamster_types::json::{Object, kind};
use teamster_types::steps::check_texts;
use teamster_types::task::NewTask;

use crate::error::{CommandError, Result};

const PLAN_KEYS: [&str; 2] = ["tasks", "verify"];
const TASK_KEYS: [&str; 9] = [
    "id",
    "subject",
    "description",
    "activeForm",
    "blockedBy",
    "owner",
    "capabilities",
    "paths",
    "verify",
];

/// Tasks in the order of the plan, and what the plan calls them.
#[derive(Debug)]
pub struct Plan {
    /// The labels, one for each task.
    pub labels: Vec<String>,
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
}

impl Plan {
    /// Reads a plan that lies in `file`.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self> {
        let refuse = |reason: String| {
            CommandError::refused(format!("{}: {reason}", file.display())).hint(
                "`teamster task import --help` shows what a plan looks like; nothing was made",
            )
        };
        let value = value(file, bytes).map_err(refuse)?;
        Self::from_value(&value).map_err(refuse)
    }

    fn from_value(value: &Value) -> std::result::Result<Self, String> {
        let Value::Object(plan) = value else {
            return Err(format!(
                "a plan is an object with `tasks`, not {}",
                kind(value)
            ));
        };
        known_keys(plan, &PLAN_KEYS, "the plan")?;
        texts(plan, "verify", "the plan")?;
        let list = match plan.get("tasks") {
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(Value::Array(_)) | None => return Err("the plan has no tasks".to_owned()),
            Some(other) => return Err(format!("`tasks` is {}, not a list", kind(other))),
        };
        let mut labels: Vec<String> = Vec::with_capacity(list.len());
        for (place, task) in list.iter().enumerate() {
            let label = label_of(task, place)?;
            if labels.contains(&label) {
                return Err(format!("two tasks have the id {label:?}"));
            }
            labels.push(label);
        }
        let places: HashMap<&str, usize> = labels
            .iter()
            .enumerate()
            .map(|(place, label)| (label.as_str(), place))
            .collect();
        let tasks = list
            .iter()
            .zip(&labels)
            .map(|(task, label)| planned(task, label, &places))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        refuse_cycle(&labels, &tasks)?;
        Ok(Self { labels, tasks })
    }
}

fn value(file: &Path, bytes: &[u8]) -> std::result::Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the plan is not UTF-8 text".to_owned())?;
    let extension = file.extension().and_then(|ext| ext.to_str());
    let json = || serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"));
    let toml = || {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
            format!("not valid TOML: line {line}: {}", error.message())
        })
    };
    match extension {
        Some("toml") => toml(),
        Some("json") => json(),
        // JSON is YAML, so a generated `.yaml` may well be readable.
        Some("yaml" | "yml") => json()
            .map_err(|_| "plans in YAML are not read yet; write it as TOML or JSON".to_owned()),
        _ if text.trim_start().starts_with('{') => json(),
        _ => toml(),
    }
}

fn label_of(task: &Value, place: usize) -> std::result::Result<String, String> {
    let Value::Object(task) = task else {
        return Err(format!(
            "task {} is {}, not an object",
            place + 1,
            kind(task)
        ));
    };
    match task.get("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => Ok(id.clone()),
        // Some planners number their tasks.
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => Err(format!("task {} has no `id`", place + 1)),
    }
}

fn planned(
    task: &Value,
    label: &str,
    places: &HashMap<&str, usize>,
) -> std::result::Result<PlannedTask, String> {
    let who = format!("task {label:?}");
    let Value::Object(task) = task else {
        return Err(format!("{who} is not an object"));
    };
    known_keys(task, &TASK_KEYS, &who)?;
    let new = NewTask {
        subject: text(task, "subject", &who)?.ok_or_else(|| format!("{who} has no `subject`"))?,
        description: text(task, "description", &who)?.unwrap_or_default(),
        active_form: text(task, "activeForm", &who)?,
        owner: text(task, "owner", &who)?
            .map(|owner| owner.parse())
            .transpose()
            .map_err(|error| format!("{who} has a bad `owner`: {error}"))?,
        blocked_by: Vec::new(),
        capabilities: texts(task, "capabilities", &who)?,
        paths: texts(task, "paths", &who)?,
        verify: texts(task, "verify", &who)?,
    };
    check_texts(Some(&new.subject), Some(&new.description))
        .map_err(|refusal| format!("{who}: {refusal}"))?;
    let mut after = Vec::new();
    for blocker in texts(task, "blockedBy", &who)? {
        let place = places
            .get(blocker.as_str())
            .ok_or_else(|| format!("{who} is blocked by {blocker:?}, which is not in the plan"))?;
        after.push(*place);
    }
    Ok(PlannedTask { task: new, after })
}

fn known_keys(object: &Object, known: &[&str], who: &str) -> std::result::Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!(
            "{who} has the unknown key `{key}`; known are {}",
            known.join(", ")
        )),
    }
}

fn text(object: &Object, key: &str, who: &str) -> std::result::Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!(
            "{who} has a `{key}` that is {}, not text",
            kind(other)
        )),
    }
}

fn texts(object: &Object, key: &str, who: &str) -> std::result::Result<Vec<String>, String> {
    let list = match object.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => {
            return Err(format!(
                "{who} has a `{key}` that is {}, not a list",
                kind(other)
            ));
        }
    };
    list.iter()
        .map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(format!("{who} has {} in `{key}`", kind(other))),
        })
        .collect()
}

/// The store refuses a cycle too, but knows no labels.
fn refuse_cycle(labels: &[String], tasks: &[PlannedTask]) -> std::result::Result<(), String> {
    let after: Vec<&[usize]> = tasks.iter().map(|task| task.after.as_slice()).collect();
    let Some(cycle) = plan_cycle(&after) else {
        return Ok(());
    };
    let names: Vec<&str> = cycle.iter().map(|place| labels[*place].as_str()).collect();
    Err(format!(
        "the plan has a cycle: {}",
        names.join(" waits for ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &str, text: &str) -> String {
        let error = Plan::parse(Path::new(file), text.as_bytes()).unwrap_err();
        format!("{error:?}")
    }

    #[test]
    fn a_plan_is_read_from_toml_and_json_alike() {
        let toml = "[[tasks]]\nid = 'a'\nsubject = 'A'\n[[tasks]]\nid = 'b'\nsubject = 'B'\nblockedBy = ['a']\n";
        let json = r#"{"tasks":[{"id":1,"subject":"A"},{"id":2,"subject":"B","blockedBy":[1]}]}"#;
        for (file, text) in [
            ("p.toml", toml),
            ("p.json", json),
            ("p.yaml", json),
            ("p", toml),
            ("-", json),
        ] {
            let plan = Plan::parse(Path::new(file), text.as_bytes()).unwrap();
            assert_eq!(plan.labels.len(), 2, "{file}");
            assert_eq!(plan.tasks[1].after, [0], "{file}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_label() {
        let task = |rest: &str| format!(r#"{{"tasks":[{{"id":"a","subject":"A"{rest}}}]}}"#);
        for (plan, named) in [
            (
                task(r#","blockedBy":["x"]"#),
                "\\\"x\\\", which is not in the plan",
            ),
            (task(r#","blockedBy":["a"]"#), "a waits for a"),
            (task(r#","owner":"../x""#), "bad `owner`"),
            (task(r#","blocked_by":[]"#), "unknown key `blocked_by`"),
            (task(r#","paths":"src""#), "`paths` that is a string"),
            (
                task("},{\"id\":\"a\",\"subject\":\"B\""),
                "two tasks have the id",
            ),
            (task("},{\"id\":\"b\""), "has no `subject`"),
            (task("},{\"subject\":\"B\""), "task 2 has no `id`"),
            (r#"{"tasks":[]}"#.to_owned(), "has no tasks"),
            ("{}".to_owned(), "has no tasks"),
            ("[]".to_owned(), "not an array"),
            ("{".to_owned(), "not valid JSON"),
        ] {
            let said = refusal("plan.json", &plan);
            assert!(said.contains(named), "{plan}: {said}");
        }
        assert!(refusal("plan.yaml", "tasks:\n- id: a\n").contains("YAML are not read yet"));
        assert!(refusal("plan.toml", "\n\ntasks = ").contains("line 3"));
    }
}
