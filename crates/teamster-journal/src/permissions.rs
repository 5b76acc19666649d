//! The permission requests of agents, folded from the journal: those that wait for a person, and those that were denied.
//!
//! Only the last attempt at a task counts: a later attempt may have asked again, and been allowed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::{TaskId, Time};

use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{AgentAction, AgentEventRecorded, DeniedBy, DeniedRequest};
use crate::team_state::{end_of_attempt, worker_of};

/// The maximum number of denials that are kept. Denials by settings are dropped first, because an agent may try the
/// same thing in many ways.
const MOST_DENIED: usize = 200;

/// An agent's permission request that waits for a person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Request")]
pub struct PermissionRequest {
    /// Its id, for the answer.
    pub request: String,
    /// What the agent wants to do.
    pub what: String,
    /// The task that it is for.
    pub task_id: Option<TaskId>,
    /// When it was made.
    pub asked_at: Time,
    /// The command that allows it.
    pub command: String,
    /// The position of the event that made the request. It distinguishes requests with the same id, because a client
    /// may reuse ids across its processes.
    #[serde(skip)]
    pub seq: u64,
}

impl PermissionRequest {
    /// Returns the request that an event makes, or `None` when it makes none.
    pub fn made_by(event: &Event, agent: &AgentEventRecorded) -> Option<Self> {
        let request = agent
            .request
            .as_ref()
            .filter(|_| agent.what == AgentAction::Asked)?;
        Some(Self {
            request: request.clone(),
            what: agent.text.clone(),
            task_id: event.task_id.clone(),
            asked_at: event.ts,
            command: format!(
                "teamster worker answer {} {request} allow --team {}",
                event.actor, event.team
            ),
            seq: event.seq,
        })
    }
}

/// The permission requests that wait for a person, by worker. Workers without any are not in it.
///
/// This is the only rule for when a request is open: it ends with its answer, with the attempt at its task, and with the
/// worker's process. The end of a run ends it only by ending the worker; workers of a team without a run go on.
#[derive(Clone, Debug, Default)]
pub struct OpenRequests {
    by_worker: BTreeMap<String, Vec<PermissionRequest>>,
}

impl OpenRequests {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::AgentEvent(agent) => self.agent_event(event, agent),
            EventKind::WorkerSpawned(_)
            | EventKind::WorkerStarted(_)
            | EventKind::WorkerStopped(_)
            | EventKind::WorkerDead(_) => {
                self.by_worker.remove(worker_of(event, what));
            }
            _ if event.task_id.is_some() && end_of_attempt(what).is_some() => {
                self.retain(|request| request.task_id != event.task_id);
            }
            _ => {}
        }
    }

    /// Returns whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.by_worker.is_empty()
    }

    /// Returns the open requests of a worker's agent, the oldest first.
    pub fn of(&self, worker: &str) -> &[PermissionRequest] {
        self.by_worker.get(worker).map_or(&[], Vec::as_slice)
    }

    /// Returns every open request with its worker.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PermissionRequest)> {
        self.by_worker.iter().flat_map(|(worker, requests)| {
            let worker = worker.as_str();
            requests.iter().map(move |request| (worker, request))
        })
    }

    fn agent_event(&mut self, event: &Event, agent: &AgentEventRecorded) {
        let worker = event.actor.as_str();
        if let Some(made) = PermissionRequest::made_by(event, agent) {
            let open = self.by_worker.entry(worker.to_owned()).or_default();
            open.push(made);
        } else if agent.what == AgentAction::Answered
            && let Some(open) = self.by_worker.get_mut(worker)
        {
            open.retain(|waiting| Some(&waiting.request) != agent.request.as_ref());
            if open.is_empty() {
                self.by_worker.remove(worker);
            }
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&PermissionRequest) -> bool) {
        self.by_worker.retain(|_, open| {
            open.retain(&is_kept);
            !open.is_empty()
        });
    }
}

/// The permission requests of agents: those that wait for a person, and those that were denied.
#[derive(Clone, Debug, Default)]
pub struct PermissionHistory {
    /// The requests that wait for a person.
    pub open: OpenRequests,
    denied: Vec<DeniedRequest>,
}

impl PermissionHistory {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::AgentEvent(agent) => self.agent_event(event, agent),
            // A new attempt begins, or the task is gone.
            EventKind::TaskClaimed(_) | EventKind::TaskDeleted(_) if event.task_id.is_some() => {
                self.denied.retain(|denied| denied.task_id != event.task_id);
            }
            _ => {}
        }
        self.open.apply(event, what);
    }

    /// Returns the open requests alone, for another run of the team.
    #[must_use]
    pub fn without_denials(self) -> Self {
        Self {
            open: self.open,
            denied: Vec::new(),
        }
    }

    /// Returns whether a worker's agent waits for a person's permission.
    pub fn is_waiting(&self, worker: &str) -> bool {
        !self.open.of(worker).is_empty()
    }

    /// Returns the denied requests: the unanswered ones first, then those denied by a person, then those denied by
    /// settings.
    pub fn denied(&self) -> Vec<DeniedRequest> {
        let mut denied = self.denied.clone();
        denied.sort_by_key(|denied| denied.by);
        denied
    }

    /// Returns the first request that was denied only because no answer came in time.
    pub fn unanswered(&self) -> Option<&DeniedRequest> {
        self.denied
            .iter()
            .find(|denied| denied.by == DeniedBy::Nobody)
    }

    /// Records a denial. The open requests do not know of the event yet.
    fn agent_event(&mut self, event: &Event, agent: &AgentEventRecorded) {
        match (&agent.what, &agent.request) {
            (AgentAction::Answered, Some(request)) => {
                // Older journals do not record who decided.
                let by = agent.by.as_deref().filter(|_| agent.allowed == Some(false));
                let Some(by) = by else { return };
                let by = if by == AgentEventRecorded::NOBODY {
                    DeniedBy::Nobody
                } else {
                    DeniedBy::Person
                };
                let mut open = self.open.of(event.actor.as_str()).iter();
                let wanted = open.find(|open| open.request == *request);
                let wanted = wanted.map_or_else(|| agent.text.clone(), |open| open.what.clone());
                let why = agent.reason.clone().unwrap_or_default();
                self.deny(event, &wanted, by, why);
            }
            (AgentAction::Denied, _) => {
                self.deny(event, &agent.text, DeniedBy::Settings, String::new());
            }
            _ => {}
        }
    }

    fn deny(&mut self, event: &Event, what: &str, by: DeniedBy, why: String) {
        let denied = DeniedRequest {
            worker: event.actor.to_string(),
            task_id: event.task_id.clone(),
            what: what.to_owned(),
            by,
            why,
        };
        if self.denied.contains(&denied) {
            return;
        }
        if self.denied.len() >= MOST_DENIED {
            let last = self
                .denied
                .iter()
                .rposition(|denied| denied.by == DeniedBy::Settings);
            match last {
                Some(last) => drop(self.denied.remove(last)),
                None => return,
            }
        }
        self.denied.push(denied);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: &str, actor: &str, data: &Value) -> Event {
        let event = json!({
            "seq": 1, "id": "e", "ts": "2026-02-07T12:00:00.000Z", "team": "crew", "type": kind, "actor": actor,
            "taskId": "7", "data": data,
        });
        serde_json::from_value(event).unwrap()
    }

    fn fold(events: &[Event]) -> PermissionHistory {
        let mut history = PermissionHistory::default();
        for event in events {
            history.apply(event, &event.payload());
        }
        history
    }

    fn asked() -> Event {
        let asked = json!({ "what": "asked", "request": "r1", "text": "Bash make" });
        event("agent.event", "ann", &asked)
    }

    fn answered(by: &str, allowed: bool) -> Event {
        let answered = json!({ "what": "answered", "request": "r1", "allowed": allowed, "by": by, "reason": "late",
            "text": "Bash make: denied" });
        event("agent.event", "ann", &answered)
    }

    #[test]
    fn denial_names_worker_task_and_who_decided() {
        let history = fold(&[asked()]);
        assert!(history.is_waiting("ann") && history.denied().is_empty());
        let history = fold(&[asked(), answered("nobody", false)]);
        assert!(!history.is_waiting("ann"));
        let denied = history.unanswered().unwrap();
        assert_eq!(
            (denied.worker.as_str(), denied.what.as_str()),
            ("ann", "Bash make")
        );
        assert_eq!((denied.by, denied.why.as_str()), (DeniedBy::Nobody, "late"));
        let history = fold(&[asked(), answered("user", false)]);
        assert_eq!(history.denied()[0].by, DeniedBy::Person);
        assert_eq!(history.unanswered(), None);
        assert!(fold(&[asked(), answered("user", true)]).denied().is_empty());
    }

    #[test]
    fn open_request_ends_with_its_answer_attempt_and_process() {
        let none = json!({});
        let by_another = |kind: &str| event(kind, "lead", &json!({ "worker": "ann" }));
        for ends in [
            answered("user", true),
            event("task.completed", "ann", &none),
            event("task.claimed", "bob", &none),
            event("task.deleted", "lead", &none),
            event("task.updated", "foreign", &json!({ "to": "completed" })),
            event("worker.started", "ann", &none),
            by_another("worker.stopped"),
            by_another("worker.dead"),
        ] {
            let kind = ends.kind.clone();
            assert!(fold(&[asked(), ends]).open.is_empty(), "{kind}");
        }
        for goes_on in [
            event("worker.stopped", "bob", &none),
            event("task.updated", "lead", &json!({ "subject": "new" })),
            event("worker.dead", "lead", &json!({ "worker": "bob" })),
            // Workers that the run did not start go on.
            event("run.finished", "lead", &json!({ "to": "complete" })),
        ] {
            let kind = goes_on.kind.clone();
            let history = fold(&[asked(), goes_on]);
            assert_eq!(history.open.of("ann").len(), 1, "{kind}");
            assert_eq!(history.open.iter().count(), 1, "{kind}");
        }
    }

    #[test]
    fn denial_of_an_earlier_attempt_does_not_count() {
        let claimed = event("task.claimed", "ann", &json!({}));
        let history = fold(&[asked(), answered("nobody", false), claimed]);
        assert_eq!(history.unanswered(), None);
    }

    #[test]
    fn denials_of_settings_come_last_are_told_once_and_give_way() {
        let denied = |number: usize| {
            let denied =
                json!({ "what": "denied", "text": format!("Read /etc/{number}: outside") });
            event("agent.event", "ann", &denied)
        };
        let mut events: Vec<Event> = (0..2 * MOST_DENIED).map(denied).collect();
        events.insert(0, denied(0));
        events.extend([asked(), answered("nobody", false)]);
        let all = fold(&events).denied();
        assert_eq!(all.len(), MOST_DENIED);
        assert_eq!(all[0].by, DeniedBy::Nobody);
        assert_eq!(all[1].what, "Read /etc/0: outside");
        assert_ne!(all[2].what, all[1].what);
    }
}
