//! The communication between the agents of a run and with the person: the leader's wakes, the findings, and which of
//! several candidate results was chosen.

use teamster_types::phrase::Wording;
use teamster_types::{TaskId, Time};

use crate::actor::EventActor;
use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{
    CancelledTask, CandidateChosen, DismissedFinding, FindingAdded, JudgeFailed, LeaderActed,
    LeaderWoken, QuestionId, WakeReason,
};

/// The maximum number of findings that are kept. Later ones are dropped: by then a reviewer or a person has seen the
/// first.
const MOST_FINDINGS: usize = 500;
/// The maximum number of actions kept per wake. The host accepts fewer than that.
const MOST_ACTIONS: usize = 200;

/// The communication between the agents of a run and with the person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collaboration {
    /// Every turn of the leader after the plan, in order.
    pub wakes: Vec<WakeRecord>,
    /// The problems that workers and the leader reported, in order.
    pub findings: Vec<FindingRecord>,
    /// Why the judge chose none of several candidate results.
    pub judge_failed: Option<JudgeFailed>,
    /// Which of several candidate results was chosen.
    pub choice: Option<ChoiceRecord>,
}

/// One turn of the leader.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeRecord {
    /// The position of the event that began it.
    pub seq: u64,
    /// Its number in the run, counted from 1.
    pub number: u32,
    /// When it began.
    pub at: Time,
    /// Why the leader was woken.
    pub reasons: Vec<WakeReason>,
    /// What it did, in order.
    pub actions: Vec<LeaderActionRecord>,
    /// The outcome of a turn of the leader.
    pub outcome: WakeOutcome,
}

/// The outcome of a turn of the leader.
#[derive(Clone, Debug, PartialEq)]
pub enum WakeOutcome {
    /// The turn is in progress, or was abandoned by a killed host.
    UnderWay,
    /// The leader decided.
    Acted {
        /// When the decision was carried out.
        at: Time,
        /// How many actions it took.
        actions: usize,
        /// Tasks that it cancelled.
        cancelled: Vec<CancelledTask>,
        /// The notes that it wrote.
        notes: Vec<String>,
        /// Review findings that it decided not to have fixed.
        dismissed: Vec<DismissedFinding>,
    },
    /// The turn produced no decision.
    Failed {
        /// When the failure was recorded.
        at: Time,
        /// The reason, as text.
        reason: Wording,
    },
    /// The leader's decision could not be carried out, so the leader was asked again.
    Refused {
        /// When it was asked again.
        at: Time,
        /// Why it could not be carried out; empty when the host was killed before it could be.
        reason: String,
    },
}

/// The kind of one action of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderActionKind {
    /// It makes a task.
    Create,
    /// It changes a task or its assignment.
    Update,
    /// It removes a task.
    Cancel,
    /// It answers a question.
    Answer,
    /// It forwards a question to the person.
    AskPerson,
    /// It sends a message.
    Message,
    /// It reports a finding.
    Finding,
}

impl LeaderActionKind {
    /// Returns the name of the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Cancel => "cancel",
            Self::Answer => "answer",
            Self::AskPerson => "ask-person",
            Self::Message => "message",
            Self::Finding => "finding",
        }
    }
}

/// One action of the leader.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderActionRecord {
    /// The position of the event.
    pub seq: u64,
    /// What it does.
    pub kind: LeaderActionKind,
    /// The task that the action concerns.
    pub task: Option<TaskId>,
    /// The question that the action concerns.
    pub question: Option<QuestionId>,
    /// The recipient of a message.
    pub to: Option<String>,
    /// The text: the subject of a task, an answer, a message, or a finding.
    pub text: String,
}

/// A problem that was found in the work.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingRecord {
    /// The position of the event.
    pub seq: u64,
    /// When it was found.
    pub at: Time,
    /// Who found it.
    pub by: EventActor,
    /// The task that the reporter was working on.
    pub task: Option<TaskId>,
    /// What was found.
    pub finding: FindingAdded,
}

/// Which of several candidate results was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceRecord {
    /// When it was chosen.
    pub at: Time,
    /// The task whose result was chosen.
    pub task: Option<TaskId>,
    /// The payload of the event.
    pub chosen: CandidateChosen,
}

impl Collaboration {
    /// Applies one event.
    pub(crate) fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::LeaderWoken(woken) => self.woken(event, woken),
            EventKind::LeaderActed(acted) => self.acted(event, acted),
            EventKind::LeaderFailed(failed) => self.end(WakeOutcome::Failed {
                at: event.ts,
                reason: Wording::new(failed.reason.as_str(), failed.reason_codes.clone()),
            }),
            EventKind::JudgeFailed(failed) => self.judge_failed = Some(failed.clone()),
            EventKind::CandidateChosen(chosen) => {
                self.choice = Some(ChoiceRecord {
                    at: event.ts,
                    task: event.task_id.clone(),
                    chosen: chosen.clone(),
                });
            }
            EventKind::FindingAdded(finding) => {
                if self.findings.len() < MOST_FINDINGS {
                    self.findings.push(FindingRecord {
                        seq: event.seq,
                        at: event.ts,
                        by: event.actor.clone(),
                        task: event.task_id.clone(),
                        finding: finding.clone(),
                    });
                }
                self.action(event, what);
            }
            _ => self.action(event, what),
        }
    }

    fn woken(&mut self, event: &Event, woken: &LeaderWoken) {
        if let Some(open) = self.under_way() {
            open.outcome = WakeOutcome::Refused {
                at: event.ts,
                reason: woken.refused.clone().unwrap_or_default(),
            };
        }
        self.wakes.push(WakeRecord {
            seq: event.seq,
            number: woken.wake,
            at: event.ts,
            reasons: woken.reasons.clone(),
            actions: Vec::new(),
            outcome: WakeOutcome::UnderWay,
        });
    }

    fn acted(&mut self, event: &Event, acted: &LeaderActed) {
        self.end(WakeOutcome::Acted {
            at: event.ts,
            actions: acted.actions,
            cancelled: acted.cancelled.clone(),
            notes: acted.notes.clone(),
            dismissed: acted.dismissed.clone(),
        });
    }

    fn end(&mut self, outcome: WakeOutcome) {
        if let Some(open) = self.under_way() {
            open.outcome = outcome;
        }
    }

    fn under_way(&mut self) -> Option<&mut WakeRecord> {
        let last = self.wakes.last_mut();
        last.filter(|wake| wake.outcome == WakeOutcome::UnderWay)
    }

    /// Records an action of the leader during its turn. The leader's events all precede the event that ends the turn.
    fn action(&mut self, event: &Event, what: &EventKind) {
        if event.actor != EventActor::Leader {
            return;
        }
        let Some((kind, question, to, text)) = action_of(what) else {
            return;
        };
        let Some(wake) = self.under_way() else {
            return;
        };
        if wake.actions.len() < MOST_ACTIONS {
            wake.actions.push(LeaderActionRecord {
                seq: event.seq,
                kind,
                task: event.task_id.clone(),
                question,
                to,
                text,
            });
        }
    }
}

type ActionParts = (LeaderActionKind, Option<QuestionId>, Option<String>, String);

/// Returns the action that an event of the leader describes, or `None` when it describes none.
fn action_of(what: &EventKind) -> Option<ActionParts> {
    let plain = |kind, text: &str| Some((kind, None, None, text.to_owned()));
    match what {
        EventKind::TaskCreated(change) => plain(
            LeaderActionKind::Create,
            change.subject.as_deref().unwrap_or_default(),
        ),
        EventKind::TaskUpdated(change) => plain(
            LeaderActionKind::Update,
            change.subject.as_deref().unwrap_or_default(),
        ),
        EventKind::TaskDeleted(change) | EventKind::TaskFailed(change) => plain(
            LeaderActionKind::Cancel,
            change.reason.as_deref().unwrap_or_default(),
        ),
        EventKind::TaskUnblocked(change) => plain(
            LeaderActionKind::Answer,
            change.reason.as_deref().unwrap_or_default(),
        ),
        EventKind::QuestionAnswered(answered) => Some((
            LeaderActionKind::Answer,
            Some(answered.question),
            None,
            answered.answer.clone(),
        )),
        EventKind::QuestionForwarded(forwarded) => Some((
            LeaderActionKind::AskPerson,
            Some(forwarded.question),
            None,
            forwarded.reason.clone(),
        )),
        EventKind::MessageSent(sent) => Some((
            LeaderActionKind::Message,
            None,
            sent.to.clone(),
            sent.content.clone(),
        )),
        EventKind::FindingAdded(finding) => plain(LeaderActionKind::Finding, &finding.claim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NewEvent;
    use crate::payload::{
        LeaderFailed, MessageSent, QuestionAnswered, TaskChange, WakeKind, WakeReason,
    };

    fn fold(events: Vec<(EventActor, EventKind)>) -> Collaboration {
        let mut told = Collaboration::default();
        for (seq, (actor, kind)) in (1..).zip(events) {
            let at = Time::from_millis(i64::try_from(seq).unwrap());
            let event = NewEvent::new(actor, kind).placed(seq, String::new(), at, "t".into());
            told.apply(&event, &event.payload());
        }
        told
    }

    fn woken(wake: u32) -> (EventActor, EventKind) {
        let reasons = vec![WakeReason::new(WakeKind::Question, "q3")];
        let woken = LeaderWoken {
            wake,
            reasons,
            refused: (wake == 2).then(|| "task 3 is claimed".to_owned()),
            ..LeaderWoken::default()
        };
        (EventActor::Lead, EventKind::LeaderWoken(woken))
    }

    #[test]
    fn turn_of_the_leader_has_its_reasons_its_actions_and_its_end() {
        let answered = QuestionAnswered {
            question: QuestionId::at(3),
            answer: "8080".to_owned(),
        };
        let told = fold(vec![
            woken(1),
            (
                EventActor::Leader,
                EventKind::QuestionAnswered(answered.clone()),
            ),
            // Events of other actors are not actions of the leader.
            (
                EventActor::Person,
                EventKind::MessageSent(MessageSent::default()),
            ),
            (
                EventActor::Leader,
                EventKind::LeaderActed(LeaderActed {
                    wake: 1,
                    actions: 1,
                    ..LeaderActed::default()
                }),
            ),
            // Neither are the leader's own events outside a wake.
            (EventActor::Leader, EventKind::QuestionAnswered(answered)),
        ]);
        let wake = &told.wakes[0];
        assert_eq!(wake.reasons[0].about, "q3");
        let kinds: Vec<_> = wake.actions.iter().map(|action| action.kind).collect();
        assert_eq!(kinds, [LeaderActionKind::Answer]);
        assert!(matches!(
            wake.outcome,
            WakeOutcome::Acted { actions: 1, .. }
        ));
    }

    #[test]
    fn turn_that_could_not_be_carried_out_is_told_apart_from_one_that_failed() {
        let failed = LeaderFailed {
            wake: 2,
            reason: "no JSON".to_owned(),
            ..LeaderFailed::default()
        };
        let told = fold(vec![
            woken(1),
            woken(2),
            (EventActor::Lead, EventKind::LeaderFailed(failed)),
            woken(3),
        ]);
        let outcomes: Vec<_> = told.wakes.iter().map(|wake| &wake.outcome).collect();
        assert!(
            matches!(outcomes[0], WakeOutcome::Refused { reason, .. } if reason == "task 3 is claimed")
        );
        assert!(
            matches!(outcomes[1], WakeOutcome::Failed { reason, .. } if reason.as_str() == "no JSON")
        );
        assert!(matches!(outcomes[2], WakeOutcome::UnderWay));
    }

    #[test]
    fn number_of_findings_that_are_kept_is_bounded() {
        let finding = || EventKind::FindingAdded(FindingAdded::default());
        let many = (0..=MOST_FINDINGS).map(|_| (EventActor::from("ann"), finding()));
        assert_eq!(fold(many.collect()).findings.len(), MOST_FINDINGS);
        let change = TaskChange::default();
        let told = fold(vec![(EventActor::Leader, EventKind::TaskCreated(change))]);
        assert_eq!(told, Collaboration::default());
    }
}
