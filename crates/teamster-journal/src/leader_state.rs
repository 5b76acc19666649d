//! The state of the agent that leads a run: its turns, its notes, and what it has not dealt with yet.
//!
//! A turn begins with `leader.woken` and ends with `leader.acted` or `leader.failed`. Its reasons are handled at the end,
//! whether it decided anything or not, so that no host wakes the leader for them again. If a host is killed during a turn, the
//! reasons stay open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use teamster_types::Time;

use crate::actor::EventActor;
use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{WakeKind, WakeReason};

/// The state of the agent that leads a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderState {
    /// The number of times that it was woken.
    pub wakes: u32,
    /// The wake reasons that it has dealt with.
    pub handled: BTreeSet<WakeReason>,
    /// The reasons of the wake that is in progress, or that a killed host abandoned.
    pub open: Vec<WakeReason>,
    /// The position of the last event before its last finished turn: all later events are new to it.
    pub knows_until: u64,
    /// The position of the event that began the current turn.
    woken_at: u64,
    /// When the current turn began.
    woken_since: Option<Time>,
    /// The total duration of its finished turns.
    pub thought: Duration,
    /// The notes that it wrote at the end of a phase of the run's flow, by the subject of the wake reason.
    pub phase_notes: BTreeMap<String, Vec<String>>,
    /// The notes that it wrote in its turns, in order.
    pub notes: Vec<String>,
    /// The messages of people to it: the position of each event, and the text.
    pub messages: Vec<(u64, String)>,
    /// The number of consecutive wakes that failed.
    pub failures: u32,
    /// The launch id of a turn that has begun and not ended. The host continues meanwhile, so it is not part of
    /// [`RunState::under_way`](crate::RunState::under_way).
    pub launch: Option<String>,
}

impl LeaderState {
    /// Applies one event. `has_begun` says whether the run has begun: earlier messages were for an earlier run.
    pub(crate) fn apply(&mut self, event: &Event, what: &EventKind, has_begun: bool) {
        match what {
            EventKind::LeaderWoken(woken) => {
                self.launch = Some(woken.launch.clone());
                self.wakes = self.wakes.max(woken.wake);
                self.open.clone_from(&woken.reasons);
                self.woken_at = event.seq;
                self.woken_since = Some(event.ts);
            }
            EventKind::LeaderActed(acted) => {
                self.failures = 0;
                self.notes.extend(acted.notes.iter().cloned());
                self.keep_phase_notes(&acted.notes);
                self.end_turn(event.ts);
            }
            EventKind::LeaderFailed(_) => {
                self.failures += 1;
                self.end_turn(event.ts);
            }
            EventKind::MessageSent(sent)
                if event.actor == EventActor::Person && sent.is_to_lead() && has_begun =>
            {
                self.messages.push((event.seq, sent.content.clone()));
            }
            _ => {}
        }
    }

    /// Keeps the leader's notes from a wake at the end of a phase.
    fn keep_phase_notes(&mut self, notes: &[String]) {
        for reason in &self.open {
            if reason.kind == WakeKind::Phase {
                self.phase_notes
                    .insert(reason.about.clone(), notes.to_vec());
            }
        }
    }

    fn end_turn(&mut self, at: Time) {
        self.launch = None;
        if let Some(since) = self.woken_since.take() {
            self.thought += at.since(since);
        }
        self.handled.extend(self.open.drain(..));
        self.knows_until = self.knows_until.max(self.woken_at);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::NewEvent;

    fn fold(events: &[(EventActor, &str, Value)]) -> LeaderState {
        let mut state = LeaderState::default();
        for (seq, (actor, kind, data)) in (1..).zip(events) {
            let what = EventKind::parse(kind, data.as_object().unwrap());
            let at = Time::from_millis(1_000 * i64::try_from(seq).unwrap());
            let event = NewEvent::new(actor, what.clone());
            let event = event.placed(seq, String::new(), at, "t".into());
            state.apply(&event, &what, true);
        }
        state
    }

    #[test]
    fn reasons_stay_open_until_the_turn_ends_and_its_time_counts() {
        let lead = EventActor::Lead;
        let reasons = json!([{ "kind": "phase", "about": "execute" }]);
        let woken = json!({ "wake": 1, "launch": "l", "reasons": reasons });
        let mut events = vec![(lead.clone(), "leader.woken", woken)];
        let open = fold(&events);
        assert_eq!((open.wakes, open.open.len(), open.handled.len()), (1, 1, 0));
        assert_eq!(open.launch.as_deref(), Some("l"));
        events.push((
            lead,
            "leader.acted",
            json!({ "wake": 1, "notes": ["done"] }),
        ));
        let ended = fold(&events);
        assert_eq!((ended.open.len(), ended.handled.len()), (0, 1));
        assert_eq!(ended.thought, Duration::from_secs(1));
        assert_eq!((ended.knows_until, ended.launch), (1, None));
        assert_eq!(ended.phase_notes["execute"], ["done"]);
    }

    #[test]
    fn failed_turns_are_counted_until_one_succeeds() {
        let failed = || (EventActor::Lead, "leader.failed", json!({ "wake": 1 }));
        assert_eq!(fold(&[failed(), failed()]).failures, 2);
        let acted = (EventActor::Lead, "leader.acted", json!({ "wake": 2 }));
        assert_eq!(fold(&[failed(), failed(), acted]).failures, 0);
    }
}
