//! What the operations do to rows, messages and the phase.

use teamster_types::Time;

use super::ops::{Effect, Row};
use super::record::{AgentState, Letter, Phase, Status, Teammate};
use super::{MOST_MESSAGES, MOST_ROWS};

/// How the task of a teammate begins that waits for a permission.
const WAITING: &str = "waiting for permission: ";

/// Shows a teammate: a known row gets the status `known`, a new one is `spawning`.
pub(super) fn put(state: &mut AgentState, new: &Row, known: Status, now: &str) -> Effect {
    if let Some(row) = state.teammates.iter_mut().find(|row| row.name == new.name) {
        row.role.clone_from(&new.role);
        row.model = new.model;
        row.status = known;
        if new.task.is_some() {
            row.current_task.clone_from(&new.task);
        }
        if new.task_id.is_some() {
            row.task_id.clone_from(&new.task_id);
        }
        now.clone_into(&mut row.last_activity_at);
        return Effect::Changed;
    }
    if state.teammates.len() >= MOST_ROWS {
        let ended = state
            .teammates
            .iter()
            .position(|row| !row.status.is_active());
        match ended {
            Some(oldest) => drop(state.teammates.remove(oldest)),
            None => return Effect::Full(new.name.clone()),
        }
    }
    state.teammates.push(Teammate {
        name: new.name.clone(),
        role: new.role.clone(),
        model: new.model,
        status: Status::Spawning,
        current_task: new.task.clone(),
        task_id: new.task_id.clone(),
        started_at: now.to_owned(),
        last_activity_at: now.to_owned(),
    });
    Effect::Changed
}

/// Gives a teammate another status, if it can take that step.
pub(super) fn set_status(
    state: &mut AgentState,
    name: &str,
    status: Status,
    task: Option<&String>,
    task_id: Option<&String>,
    now: &str,
) -> Effect {
    let Some(row) = state.teammates.iter_mut().find(|row| row.name == name) else {
        return Effect::Unknown(name.to_owned());
    };
    if !row.status.may_become(status) {
        return Effect::Refused {
            name: name.to_owned(),
            from: row.status,
            to: status,
        };
    }
    row.status = status;
    if task.is_some() || task_id.is_some() {
        row.current_task = task.cloned();
        row.task_id = task_id.cloned();
    } else if matches!(status, Status::Idle | Status::Completed) {
        row.current_task = None;
        row.task_id = None;
    }
    now.clone_into(&mut row.last_activity_at);
    Effect::Changed
}

/// The five words have none for waiting, so the task says it; the next thing the teammate does takes it back.
pub(super) fn wait(state: &mut AgentState, notice: &str, now: &str) -> Effect {
    let waits = |row: &&Teammate| {
        let rest = notice.strip_prefix(row.name.as_str());
        row.status.is_active() && rest.is_some_and(|rest| rest.starts_with(' '))
    };
    let Some(row) = state.teammates.iter().find(waits) else {
        return Effect::Nothing;
    };
    let (name, task_id) = (row.name.clone(), row.task_id.clone());
    let what = notice[name.len()..].trim_start();
    let what = what.strip_prefix("needs permission for ").unwrap_or(what);
    let task = format!("{WAITING}{what}");
    set_status(
        state,
        &name,
        Status::Working,
        Some(&task),
        task_id.as_ref(),
        now,
    )
}

/// What the teammate waited for has come, or it would do nothing.
pub(super) fn stop_waiting(state: &mut AgentState, name: &str) {
    let row = state.teammates.iter_mut().find(|row| row.name == name);
    if let Some(row) = row
        && (row.current_task.as_ref()).is_some_and(|task| task.starts_with(WAITING))
    {
        row.current_task = None;
    }
}

/// Adds a message, unless it came from an inbox and is known.
pub(super) fn say(
    state: &mut AgentState,
    from: &str,
    to: &str,
    content: &str,
    timestamp: Option<Time>,
    now: &str,
) -> Effect {
    /// The client's inbox has a message a moment before or after the hook of whoever sent it.
    const SAME: std::time::Duration = std::time::Duration::from_secs(60);
    let or = |name: &str, default: &str| if name.is_empty() { default } else { name }.to_owned();
    let letter = Letter {
        from: or(from, "unknown"),
        to: or(to, "all"),
        content: content.to_owned(),
        timestamp: timestamp.map_or_else(|| now.to_owned(), |time| time.to_string()),
    };
    if let Some(time) = timestamp {
        let is_known = state.recent_messages.iter().any(|known| {
            let same = (&known.from, &known.to, &known.content)
                == (&letter.from, &letter.to, &letter.content);
            let near = known
                .timestamp
                .parse::<Time>()
                .is_ok_and(|known| time.since(known) <= SAME && known.since(time) <= SAME);
            same && near
        });
        if is_known {
            return Effect::Nothing;
        }
    }
    // What an inbox tells may have been said before what is known already.
    let later = |known: &Letter| timestamp.is_some() && known.timestamp > letter.timestamp;
    let place = state
        .recent_messages
        .iter()
        .rposition(|known| !later(known));
    let place = place.map_or(0, |place| place + 1);
    state.recent_messages.insert(place, letter);
    let extra = state.recent_messages.len().saturating_sub(MOST_MESSAGES);
    state.recent_messages.drain(..extra);
    Effect::Changed
}

/// Follows the status file, and says so.
pub(super) fn advance(state: &mut AgentState, feature: &str, phase: Phase, now: &str) -> Effect {
    if !state.enabled || state.pdca_phase == phase {
        return Effect::Nothing;
    }
    let from = state.pdca_phase;
    state.pdca_phase = phase;
    if !feature.is_empty() {
        feature.clone_into(&mut state.feature);
    }
    let (old, new) = (from.as_str(), phase.as_str());
    let notice = format!("Phase {old} → {new} (auto-advanced)");
    say(state, "system", "all", &notice, None, now);
    Effect::Phase { from, to: phase }
}
