//! The permission requests of agents that were denied, folded from the journal.
//!
//! Only the last attempt at a task counts: a later attempt may have asked again, and been allowed.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{AgentEventRecorded, DeniedBy, DeniedRequest};

/// The maximum number of denials that are kept. Denials by settings are dropped first, because an agent may try the
/// same thing in many ways.
const MOST_DENIED: usize = 200;

/// The permission requests of agents: those that wait for a person, and those that were denied.
#[derive(Clone, Debug, Default)]
pub struct PermissionHistory {
    /// The open requests, by worker and request id.
    open: BTreeMap<(String, String), String>,
    denied: Vec<DeniedRequest>,
}

impl PermissionHistory {
    /// Applies one event.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::AgentEvent(agent) => self.agent_event(event, agent),
            EventKind::WorkerSpawned(_)
            | EventKind::WorkerStarted(_)
            | EventKind::WorkerStopped(_) => {
                let worker = match what {
                    EventKind::WorkerStopped(stopped) => stopped.worker.as_deref(),
                    _ => None,
                };
                self.close(worker.unwrap_or(event.actor.as_str()));
            }
            EventKind::WorkerDead(dead) => {
                self.close(dead.worker.as_deref().unwrap_or(event.actor.as_str()));
            }
            // A new attempt begins, or the task is gone.
            EventKind::TaskClaimed(_) | EventKind::TaskDeleted(_) if event.task_id.is_some() => {
                self.denied.retain(|denied| denied.task_id != event.task_id);
            }
            _ => {}
        }
    }

    /// Returns whether a worker's agent waits for a person's permission.
    pub fn is_waiting(&self, worker: &str) -> bool {
        self.open.keys().any(|(asking, _)| asking == worker)
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

    fn close(&mut self, worker: &str) {
        self.open.retain(|(asking, _), _| asking != worker);
    }

    fn agent_event(&mut self, event: &Event, agent: &AgentEventRecorded) {
        let key = |request: &String| (event.actor.to_string(), request.clone());
        match (agent.what.as_str(), &agent.request) {
            ("asked", Some(request)) => {
                self.open.insert(key(request), agent.text.clone());
            }
            ("answered", Some(request)) => {
                let wanted = self.open.remove(&key(request));
                // Older journals do not record who decided.
                let by = agent.by.as_deref().filter(|_| agent.allowed == Some(false));
                let Some(by) = by else { return };
                let by = if by == AgentEventRecorded::NOBODY {
                    DeniedBy::Nobody
                } else {
                    DeniedBy::Person
                };
                let why = agent.reason.clone().unwrap_or_default();
                self.deny(event, wanted.as_ref().unwrap_or(&agent.text), by, why);
            }
            ("denied", _) => self.deny(event, &agent.text, DeniedBy::Settings, String::new()),
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
