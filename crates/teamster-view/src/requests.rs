//! What needs a person's decision: permission requests of agents, and the work of a run at its gate.

use serde::Serialize;
use teamster_journal::{Event, EventType, OpenRequests, PermissionRequest, RunState};
use teamster_store::{ReadStore, Result};
use teamster_types::TeamName;
use teamster_types::phrase::Wording;

use crate::questions::for_recent;

/// The number of recent events that are searched for open requests. An unanswered request is denied within minutes, and
/// no team records more events than this in that time.
const LOOKED_THROUGH: u64 = 20_000;

/// A permission request that waits for a person's answer, and the worker whose agent made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingRequest {
    /// The worker.
    pub worker: String,
    /// What its agent wants to do.
    #[serde(flatten)]
    pub request: PermissionRequest,
}

impl WaitingRequest {
    /// Returns a sentence for people: `worker-1 asks for permission: Bash rm -r build`.
    pub fn words(&self) -> String {
        format!("{} asks for permission: {}", self.worker, self.request.what)
    }
}

/// Returns the requests of all agents of a team that wait for an answer, by worker.
pub fn all_waiting(read: &dyn ReadStore, team: &TeamName) -> Result<Vec<WaitingRequest>> {
    if read
        .last_of(team, &[EventType::AgentEvent.name()])?
        .is_none()
    {
        return Ok(Vec::new());
    }
    let open = open_requests(read, team)?;
    Ok(open
        .iter()
        .map(|(worker, request)| WaitingRequest {
            worker: worker.to_owned(),
            request: request.clone(),
        })
        .collect())
}

/// Returns the requests of a worker's agent that wait for an answer, the oldest first.
pub fn waiting(
    read: &dyn ReadStore,
    team: &TeamName,
    worker: &str,
) -> Result<Vec<PermissionRequest>> {
    Ok(open_requests(read, team)?.of(worker).to_vec())
}

/// Returns the requests that wait for an answer, from the recent events of the journal.
fn open_requests(read: &dyn ReadStore, team: &TeamName) -> Result<OpenRequests> {
    let mut open = OpenRequests::default();
    for_recent(read, team, LOOKED_THROUGH, |event| follow(&mut open, event))?;
    Ok(open)
}

/// Applies an event. Of the many events of agents, few are about a request, and only those are parsed.
fn follow(open: &mut OpenRequests, event: &Event) {
    let may_matter = if event.is(EventType::AgentEvent) {
        event.data.contains_key("request")
    } else {
        !open.is_empty()
    };
    if may_matter {
        open.apply(event, &event.payload());
    }
}

/// The number of recent events that are searched for the gate. No worker runs while it is open, so few events follow
/// it.
const GATE_REACH: usize = 200;

/// The gate of a run that waits for a person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGate {
    /// The commit; empty when all workers share one folder.
    pub commit: String,
    /// The results of the checks, as text.
    pub words: Wording,
}

impl OpenGate {
    /// Returns the command that approves the work.
    pub fn command(&self, team: &TeamName) -> String {
        match self.commit.as_str() {
            "" => format!("teamster approve --team {team}"),
            commit => format!("teamster approve --team {team} --commit {commit}"),
        }
    }
}

/// Returns the gate of a team's run, if it waits for a decision.
pub fn open_gate(read: &dyn ReadStore, team: &TeamName) -> Result<Option<OpenGate>> {
    Ok(open_decisions(read, team)?.0)
}

/// Returns what a run waits for a person to decide: the work at its gate, and the revision of its plan.
pub fn open_decisions(
    read: &dyn ReadStore,
    team: &TeamName,
) -> Result<(Option<OpenGate>, Option<u32>)> {
    let mut state = RunState::default();
    for event in read.last_events(team, GATE_REACH)?.events {
        state.apply(&event);
    }
    let words = state.history.gate.as_ref().map(|gate| {
        let opened = &gate.opened;
        Wording::new(opened.words.as_str(), opened.words_codes.clone())
    });
    let gate = state.open_gate().map(|gate| OpenGate {
        commit: gate.commit.clone(),
        words: words.unwrap_or_default(),
    });
    let plan = state.open_plan().map(|open| open.proposed.revision);
    Ok((gate, plan))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, actor: &str, task: Option<&str>, data: &serde_json::Value) -> Event {
        let mut event = json!({
            "seq": 1, "id": "e", "ts": "2026-02-07T12:00:00.000Z", "team": "crew", "type": kind, "actor": actor,
            "data": data,
        });
        if let Some(task) = task {
            event["taskId"] = json!(task);
        }
        serde_json::from_value(event).unwrap()
    }

    fn asked(actor: &str, request: &str) -> Event {
        let data = json!({ "what": "asked", "request": request, "text": "Bash ls" });
        event("agent.event", actor, Some("7"), &data)
    }

    #[test]
    fn a_request_waits_until_it_is_answered_or_its_run_is_over() {
        let names = |events: &[Event]| {
            let mut open = OpenRequests::default();
            for event in events {
                follow(&mut open, event);
            }
            let own = open.of("ann").iter();
            own.map(|open| open.request.clone()).collect::<Vec<_>>()
        };
        let mut events = vec![asked("ann", "r1"), asked("ben", "r2"), asked("ann", "r3")];
        assert_eq!(names(&events), ["r1", "r3"]);
        let answer = json!({ "what": "answered", "request": "r1" });
        events.push(event("agent.event", "ann", Some("7"), &answer));
        assert_eq!(names(&events), ["r3"]);
        for (kind, actor, data) in [
            ("worker.started", "ann", json!({})),
            ("task.failed", "ann", json!({})),
            ("worker.dead", "system", json!({ "worker": "ann" })),
        ] {
            let mut over = events.clone();
            over.push(event(kind, actor, Some("7"), &data));
            assert!(names(&over).is_empty(), "{kind}");
        }
        events.push(event("worker.started", "ben", None, &json!({})));
        assert_eq!(names(&events), ["r3"], "somebody else's run");
    }
}
