//! Reads a plan from the answer of a leader.

use std::path::Path;

use serde_json::Value;

use super::{LeaderPlan, PlanRequest};
use crate::cast::misfits;
use crate::plan::Plan;
use teamster_document::Fault;

/// The largest number of tasks. A leader that wants more has not understood the work.
pub const MOST_TASKS: usize = 1_000;
/// The number of places where an object seems to begin but does not: an answer with more of them is noise.
const MOST_WRONG_PLACES: usize = 50_000;
/// The file name that is used for the plan in the answer; its extension determines the format.
const PLAN_FILE: &str = "answer.json";
const TASKS_KEY: &str = "tasks";
/// The role of members that test the work of others.
const TESTER: &str = "tester";

/// Reads the plan in the answer to a request.
pub(super) fn read(said: &str, request: &PlanRequest<'_>) -> Result<LeaderPlan, Vec<Fault>> {
    let Some(text) = last_object(said, TASKS_KEY) else {
        let message = "there is no JSON object in the answer";
        return Err(vec![Fault::new(1, message)]);
    };
    let mut plan =
        Plan::parse_answer(Path::new(PLAN_FILE), text.as_bytes()).map_err(|faults| faults.list)?;
    if !request.may_ask && plan.tasks.is_empty() {
        let message = "nobody can be asked now: decide by yourself, say in `assumptions` what you decided, and plan the \
                       tasks";
        return Err(vec![Fault::new(1, message)]);
    }
    let faults = forbidden_keys(&plan, request);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut left_out = std::mem::take(&mut plan.verify);
    for task in &mut plan.tasks {
        left_out.append(&mut task.task.verify);
    }
    if !request.may_ask {
        let unanswered = std::mem::take(&mut plan.questions).into_iter();
        let unanswered = unanswered.map(|question| format!("Nobody was asked: {question}"));
        plan.assumptions.extend(unanswered);
    }
    Ok(LeaderPlan {
        plan,
        text: text.to_owned(),
        left_out,
    })
}

/// Returns the last JSON object in a text that has this key. If no such object can be parsed, returns the broken text
/// that seems to be one, so that its fault can be reported; otherwise the last object of any kind.
pub(crate) fn last_object<'a>(said: &'a str, key: &str) -> Option<&'a str> {
    let (mut at, mut wrong) = (0, 0);
    let (mut with_key, mut broken, mut last) = (None, None, None);
    for (place, _) in said.match_indices('{') {
        if place < at {
            continue;
        }
        if wrong > MOST_WRONG_PLACES {
            break;
        }
        let mut values = serde_json::Deserializer::from_str(&said[place..]).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            at = place + values.byte_offset();
            let text = &said[place..at];
            last = Some(text);
            if value.get(key).is_some() {
                with_key = Some(text);
            }
        } else {
            wrong += 1;
            if begins_with_key(&said[place..], key) {
                broken = Some(place);
            }
        }
    }
    with_key
        .or_else(|| broken.map(|place| until_fence(&said[place..])))
        .or(last)
}

/// Returns whether the text that begins here was meant to be an object with this key: the key occurs before any nested
/// object.
fn begins_with_key(text: &str, key: &str) -> bool {
    let inside = &text[1..];
    let head = inside.split('{').next().unwrap_or_default();
    let is_quoted = [format!("\"{key}\""), format!("'{key}'")]
        .iter()
        .any(|quoted| head.contains(quoted));
    is_quoted || head.trim_start().starts_with(key)
}

/// Returns the text up to the closing fence, where a broken object ends.
fn until_fence(text: &str) -> &str {
    let end = text.find("\n```").unwrap_or(text.len());
    text[..end].trim_end()
}

/// Returns a fault for everything in a plan that a person may ask for but a leader may not.
fn forbidden_keys(plan: &Plan, request: &PlanRequest<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    if plan.tasks.len() > MOST_TASKS {
        let message = format!(
            "the plan has {} tasks; the limit is {MOST_TASKS}",
            plan.tasks.len()
        );
        faults.push(Fault::new(1, message));
    }
    if request.needs_analysis && plan.analysis.trim().is_empty() {
        let message = "the plan has no `analysis`: say what you found out about the work; the run does not go on without it";
        faults.push(Fault::new(1, message));
    }
    faults.extend(misfits(plan, request.members));
    faults.extend(early_tests(plan, request));
    for command in &plan.must_pass {
        let mut checks = request.checks.iter();
        if !checks.any(|check| check.command == *command) {
            let known: Vec<&str> = request
                .checks
                .iter()
                .map(|check| check.command.as_str())
                .collect();
            let known = match known.join("; ") {
                none if none.is_empty() => "there are none".to_owned(),
                known => format!("there are {known}"),
            };
            let message =
                format!("`must_pass` names {command:?}, which is none of the checks; {known}");
            faults.push(Fault::new(plan.must_pass_line, message));
        }
    }
    faults
}

/// Returns a fault for each tester's task without dependencies, while other members have work that could be tested.
fn early_tests(plan: &Plan, request: &PlanRequest<'_>) -> Vec<Fault> {
    let is_test = |place: usize| {
        let role = plan.roles.get(place).and_then(Option::as_deref);
        let owner = plan.tasks.get(place).and_then(|it| it.task.owner.as_ref());
        let mut members = request.members.iter();
        let owner = members.find(|member| Some(&member.name) == owner);
        role.is_some_and(|role| role.eq_ignore_ascii_case(TESTER))
            || owner.is_some_and(|owner| owner.has_role(TESTER))
    };
    if (0..plan.tasks.len()).all(is_test) {
        return Vec::new();
    }
    let tests = (0..plan.tasks.len()).filter(|place| is_test(*place));
    tests
        .filter(|place| plan.tasks[*place].after.is_empty())
        .map(|place| {
            let message = format!(
                "task {:?} is for a tester and waits for no task; a tester tests what others did: name their tasks in \
                 `blockedBy`",
                plan.labels[place]
            );
            Fault::new(plan.lines[place], message)
        })
        .collect()
}

#[cfg(test)]
mod tests;
