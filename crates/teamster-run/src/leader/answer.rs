//! From what a leader said to a plan.

use std::path::Path;
use teamster_journal::payload::Member;

use serde_json::Value;

use crate::cast::misfits;
use crate::plan::Plan;
use teamster_document::Fault;

/// A leader that wants more of them has not understood the work.
const MOST_TASKS: usize = 1_000;
/// Places where an object seems to begin and none does: with more of them it is no answer but noise.
const MOST_WRONG_PLACES: usize = 50_000;
/// Where the plan is said to lie, by the end of its name.
const FILE: &str = "answer.json";
const TASKS: &str = "tasks";

/// A plan that can be used.
#[derive(Debug)]
pub(super) struct Usable {
    pub(super) plan: Plan,
    /// Commands that were left out of it.
    pub(super) left_out: Vec<String>,
}

/// The plan in an answer, and its text.
pub(super) fn read(said: &str, members: &[Member]) -> Result<(Usable, String), Vec<Fault>> {
    let Some(text) = object(said) else {
        let message = "there is no JSON object in the answer";
        return Err(vec![Fault::new(1, message)]);
    };
    let mut plan = Plan::parse(Path::new(FILE), text.as_bytes()).map_err(|faults| faults.list)?;
    let faults = strange(&plan, members);
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut left_out = std::mem::take(&mut plan.verify);
    for task in &mut plan.tasks {
        left_out.append(&mut task.task.verify);
    }
    Ok((Usable { plan, left_out }, text.to_owned()))
}

/// The last object that has tasks. Where none can be read, what was meant to be one, so that its fault can be told; else
/// the last object of any kind.
fn object(said: &str) -> Option<&str> {
    let (mut at, mut wrong) = (0, 0);
    let (mut plan, mut broken, mut last) = (None, None, None);
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
            if value.get(TASKS).is_some() {
                plan = Some(text);
            }
        } else {
            wrong += 1;
            if names_tasks(&said[place..]) {
                broken = Some(place);
            }
        }
    }
    plan.or_else(|| broken.map(|place| until_fence(&said[place..])))
        .or(last)
}

/// Whether the first key of what begins here could be that of a plan.
fn names_tasks(text: &str) -> bool {
    let key = text[1..].trim_start();
    ["\"tasks\"", "\"verify\"", "tasks", "'tasks'"]
        .iter()
        .any(|name| key.starts_with(name))
}

/// What is broken ends with its fence.
fn until_fence(text: &str) -> &str {
    let end = text.find("\n```").unwrap_or(text.len());
    text[..end].trim_end()
}

/// What no leader may ask for, though a person may.
fn strange(plan: &Plan, members: &[Member]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if plan.tasks.len() > MOST_TASKS {
        let message = format!(
            "the plan has {} tasks; the limit is {MOST_TASKS}",
            plan.tasks.len()
        );
        faults.push(Fault::new(1, message));
    }
    faults.extend(misfits(plan, members));
    faults
}

#[cfg(test)]
mod tests;
