//! Reads a plan out of what a leader said.

use std::path::Path;

use serde_json::Value;
use teamster_journal::payload::Member;

use super::LeaderPlan;
use crate::cast::misfits;
use crate::plan::Plan;
use teamster_document::Fault;

/// The largest number of tasks. A leader that wants more has not understood the work.
const MOST_TASKS: usize = 1_000;
/// The number of places where an object may seem to begin and none does: with more of them it is no answer but noise.
const MOST_WRONG_PLACES: usize = 50_000;
/// The name of the file that the plan is said to lie in; its end tells the format.
const FILE: &str = "answer.json";
const TASKS: &str = "tasks";

/// Reads the plan in an answer.
pub(super) fn read(said: &str, members: &[Member]) -> Result<LeaderPlan, Vec<Fault>> {
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
    Ok(LeaderPlan {
        plan,
        text: text.to_owned(),
        left_out,
    })
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

/// Returns the text up to its fence, where a broken object ends.
fn until_fence(text: &str) -> &str {
    let end = text.find("\n```").unwrap_or(text.len());
    text[..end].trim_end()
}

/// Returns what a plan asks for that no leader may ask for, though a person may.
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
