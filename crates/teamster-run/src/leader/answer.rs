//! From what a leader said to a plan.

use std::path::Path;
use teamster_journal::payload::Member;

use serde_json::Value;

use crate::cast::misfits;
use crate::document::Fault;
use crate::plan::Plan;

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
    let Some(text) = last_object(said, TASKS) else {
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

/// Returns the last JSON object in a text that has this key. Where none can be read, what was meant to be one, so that its
/// fault can be told; else the last object of any kind.
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

/// Returns whether what begins here was meant to be an object with this key: the key stands before anything that is nested.
fn begins_with_key(text: &str, key: &str) -> bool {
    let inside = &text[1..];
    let head = inside.split('{').next().unwrap_or_default();
    let is_quoted = [format!("\"{key}\""), format!("'{key}'")]
        .iter()
        .any(|quoted| head.contains(quoted));
    is_quoted || head.trim_start().starts_with(key)
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
