//! How the plan of a run came about, folded from its journal: every proposal, and its reply.
//!
//! A proposal is answered once, and only while it is the last one. Later answers change nothing, so an answerer can
//! read back whether its answer was in time.

use teamster_types::Time;

use crate::actor::EventActor;
use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{PlanAnswer, PlanDraft, PlanFailed, PlanProposed};

/// The maximum number of proposals that are kept; the oldest are dropped first.
const MOST_PROPOSALS: usize = 50;

/// A reply to a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanReply {
    /// The position of the event.
    pub seq: u64,
    /// When it was given.
    pub at: Time,
    /// Who gave it.
    pub by: EventActor,
    /// The channel of the reply: `terminal` or `studio`.
    pub via: String,
    /// The answer.
    pub answer: PlanAnswer,
}

/// A plan that was proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProposal {
    /// The position of the event.
    pub seq: u64,
    /// When it was proposed.
    pub at: Time,
    /// The payload of the event.
    pub proposed: PlanProposed,
    /// The reply to it.
    pub reply: Option<PlanReply>,
}

impl PlanProposal {
    /// Returns whether a person has to decide about it now.
    pub fn is_open(&self) -> bool {
        self.proposed.ask && self.reply.is_none() && self.proposed.plan.questions.is_empty()
    }
}

/// How the plan of a run came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planning {
    /// The proposals, the oldest first.
    pub proposals: Vec<PlanProposal>,
    /// Turns of the leader that produced no plan.
    pub failures: Vec<PlanFailed>,
    /// Whether the tasks were created.
    is_made: bool,
}

impl Planning {
    /// Returns the last proposal, which is the one that counts.
    pub fn last(&self) -> Option<&PlanProposal> {
        self.proposals.last()
    }

    /// Returns the proposal that a person has to decide about now.
    pub fn open(&self) -> Option<&PlanProposal> {
        self.last()
            .filter(|proposal| !self.is_made && proposal.is_open())
    }

    /// Returns the reply to a revision, if there is one that counts.
    pub fn reply_to(&self, revision: u32) -> Option<&PlanReply> {
        let mut proposals = self.proposals.iter().rev();
        let answered = proposals.find(|proposal| proposal.proposed.revision == revision)?;
        answered.reply.as_ref()
    }

    /// Returns the plan that is carried out, once its tasks have been created.
    pub fn carried_out(&self) -> Option<&PlanDraft> {
        let last = self.last().filter(|_| self.is_made);
        last.map(|proposal| &proposal.proposed.plan)
    }

    /// Returns the planner's analysis of the work; empty when there is none.
    pub fn analysis(&self) -> &str {
        let proposals = self.proposals.iter().rev();
        let mut said = proposals.map(|proposal| proposal.proposed.plan.analysis.as_str());
        said.find(|analysis| !analysis.is_empty())
            .unwrap_or_default()
    }

    /// Applies one event.
    pub fn apply(&mut self, event: &Event, what: &EventKind) {
        match what {
            EventKind::RunStarted(_) => *self = Self::default(),
            // When a run whose plan was rejected is resumed, the plan needs a new decision.
            EventKind::RunResumed(_) => {
                if let Some(last) = self.proposals.last_mut() {
                    let is_rejection =
                        |reply: &PlanReply| matches!(reply.answer, PlanAnswer::Reject { .. });
                    last.reply.take_if(|reply| is_rejection(reply));
                }
            }
            EventKind::PlanProposed(proposed) => {
                self.proposals.push(PlanProposal {
                    seq: event.seq,
                    at: event.ts,
                    proposed: proposed.clone(),
                    reply: None,
                });
                if self.proposals.len() > MOST_PROPOSALS {
                    self.proposals.remove(0);
                }
            }
            EventKind::PlanAnswered(answered) => {
                let open = self.open().map(|proposal| proposal.proposed.revision);
                if let (Some(last), Some(answer), true) = (
                    self.proposals.last_mut(),
                    answered.answer(),
                    open == Some(answered.revision),
                ) {
                    last.reply = Some(PlanReply {
                        seq: event.seq,
                        at: event.ts,
                        by: event.actor.clone(),
                        via: answered.via.clone(),
                        answer,
                    });
                }
            }
            EventKind::PlanFailed(failed) => self.failures.push(failed.clone()),
            EventKind::RunPlan(_) => self.is_made = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use teamster_types::flow::DecisionChannel;

    use super::*;
    use crate::event::NewEvent;
    use crate::payload::{PlanAnswered, PlanAuthor, PlanMade, RunSpec, RunStarted};

    fn proposed(revision: u32, questions: &[&str]) -> EventKind {
        EventKind::PlanProposed(PlanProposed {
            revision,
            by: PlanAuthor::Leader,
            ask: true,
            plan: PlanDraft {
                questions: questions.iter().map(|text| (*text).to_owned()).collect(),
                ..PlanDraft::default()
            },
            ..PlanProposed::default()
        })
    }

    fn answered(revision: u32, answer: PlanAnswer) -> EventKind {
        EventKind::PlanAnswered(PlanAnswered::new(
            revision,
            DecisionChannel::Terminal,
            answer,
        ))
    }

    fn fold(events: Vec<EventKind>) -> Planning {
        let mut planning = Planning::default();
        for (seq, what) in (1_u64..).zip(events) {
            let at = Time::from_millis(i64::try_from(seq).unwrap());
            let new = NewEvent::new(EventActor::Person, what.clone());
            let event = new.placed(seq, String::new(), at, "t".to_owned());
            planning.apply(&event, &what);
        }
        planning
    }

    fn reject() -> PlanAnswer {
        PlanAnswer::Reject { why: String::new() }
    }

    #[test]
    fn first_answer_to_the_present_revision_counts() {
        let planning = fold(vec![
            proposed(1, &[]),
            proposed(2, &[]),
            answered(1, PlanAnswer::Accept),
            answered(2, reject()),
            answered(2, PlanAnswer::Accept),
        ]);
        assert_eq!(planning.open(), None);
        let reply = planning.last().unwrap().reply.as_ref().unwrap();
        assert_eq!((reply.seq, &reply.answer), (4, &reject()));
    }

    #[test]
    fn proposal_with_questions_is_not_to_be_decided_about() {
        let planning = fold(vec![proposed(1, &["Why?"]), answered(1, reject())]);
        assert_eq!(planning.open(), None);
        assert_eq!(planning.last().unwrap().reply, None);
    }

    #[test]
    fn rejected_plan_is_asked_about_again_when_the_run_is_resumed() {
        let resumed = EventKind::RunResumed(RunStarted {
            spec: RunSpec::default(),
            replacements: None,
        });
        let mut events = vec![proposed(1, &[]), answered(1, reject())];
        assert_eq!(fold(events.clone()).open(), None);
        events.push(resumed);
        assert!(fold(events.clone()).open().is_some());
        events.push(EventKind::RunPlan(PlanMade::default()));
        assert_eq!(fold(events).open(), None);
    }

    proptest! {
        #[test]
        fn reply_to_a_proposal_never_changes(steps in prop::collection::vec((0_u8..3, 1_u32..5), 1..40)) {
            let mut events = Vec::new();
            let mut known: Option<(u64, Option<PlanReply>)> = None;
            let mut revision = 0;
            for (step, about) in steps {
                events.push(match step {
                    0 => { revision += 1; proposed(revision, &[]) }
                    1 => answered(about, PlanAnswer::Accept),
                    _ => answered(about, reject()),
                });
                let planning = fold(events.clone());
                let now = planning.last().map(|last| (last.seq, last.reply.clone()));
                if let (Some((seq, Some(reply))), Some((now_seq, now_reply))) = (&known, &now)
                    && seq == now_seq
                {
                    prop_assert_eq!(Some(reply), now_reply.as_ref());
                }
                known = now;
            }
        }
    }
}
